/* core.c - the C side of a runtime: who may call, signals and the GIL during waits, life. */
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "binding.h"

/* ---- Who may call ---- */

bool core_enter(Core *core, const char *what)
{
    if (!core || !core->rt) {
        PyErr_Format(PyExc_ValueError, "%s: the runtime is closed", what);
        return false;
    }
    if (PyThread_get_thread_ident() == core->thread && !core->busy && !exiting) {
        return true;
    }
    if (exiting) {
        PyErr_Format(PyExc_RuntimeError, "%s: the interpreter is exiting", what);
        return false;
    }
    error_raise(NULL,
                pto_fail(PTO_WRONG_THREAD, "%s: called %s", what,
                         PyThread_get_thread_ident() == core->thread
                             ? "inside of a kernel, or of another call of the runtime"
                             : "on another thread than the one that created the runtime"),
                NULL, 0);
    return false;
}

const char *core_where(Core *core, int *line)
{
    core_begin(core); /* a frame is made: collecting garbage may run code of the program */
    const char *file = where(line);
    core_end(core);
    return file;
}

/* Asked by the library during a wait, on the orchestrating thread, without the GIL. */
static bool interrupt(void *user)
{
    Core *core = user;
    struct timespec now;
    if (core->caught) {
        return true;
    }
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    const uint64_t ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
    if (ms - core->asked_ms < 20) {
        return false;
    }
    core->asked_ms = ms;
    PyEval_RestoreThread(core->saved);
    const bool raised = PyErr_CheckSignals() < 0;
    core->interrupted |= raised;
    (void)PyEval_SaveThread(); /* the same state again */
    return raised;
}

/* Called by the library before it waits, and afterwards. A call that has released the GIL keeps it so. */
static void begin_wait(void *user)
{
    Core *core = user;
    core->released = core->saved == NULL;
    if (core->released) {
        core_release(core);
    }
}

static void end_wait(void *user)
{
    Core *core = user;
    if (core->released) {
        core->released = false;
        core_acquire(core);
    }
}
/* ---- Life ---- */

Core *core_new(const pto_config *config, bool explains)
{
    if (exiting) { /* its workers would need the interpreter */
        PyErr_SetString(PyExc_RuntimeError, "Runtime: the interpreter is exiting");
        return NULL;
    }
    Core *core = PyMem_Calloc(1, sizeof *core);
    if (!core || !(core->places = PyDict_New()) || !(core->handles = PyDict_New()) ||
        !(core->jobs = PyMem_Malloc(64 * sizeof *core->jobs))) {
        core_free(core);
        PyErr_NoMemory();
        return NULL;
    }
    static uint64_t number;
    core->number = ++number;
    core->job_mask = 63;
    core->thread = PyThread_get_thread_ident();
    core->process = getpid();
    core->explains = explains;
    pto_status s = pto_runtime_create(&core->rt, config);
    if (s == PTO_OK) {
        s = pto_set_interrupt(core->rt, interrupt, core);
    }
    if (s == PTO_OK) {
        s = pto_set_wait_hooks(core->rt, begin_wait, end_wait, core);
    }
    if (s != PTO_OK) {
        error_raise(NULL, s, NULL, 0);
        core_free(core);
        return NULL;
    }
    core_list_add(core);
    return core;
}

static pto_status do_nothing(const pto_call *call)
{
    (void)call;
    return PTO_OK;
}

pto_status core_submit_idle(Core *core, Idle *idle, const char *name, pto_param param,
                            pto_task *task, const char *file, int line)
{
    if (!idle->registered) {
        const pto_status s = pto_kernel_register(core->rt, name, PTO_VECTOR, do_nothing, NULL,
                                                 &idle->kernel);
        if (s != PTO_OK) {
            return s;
        }
        idle->registered = true;
    }
    return pto_submit_task_at(core->rt, idle->kernel, PTO_KERNEL_TYPE, &param, 1, task, file, line);
}

pto_status core_close(Core *core, pto_ending ending)
{
    pto_status s = PTO_OK;
    char detail[1024] = "";
    core->closing = true; /* before the GIL is released: rt.cancel and rt.stats see it */
    if (core->rt && core->process == getpid()) {
        /* A collector may close on any thread. No call is running then. */
        core->thread = PyThread_get_thread_ident();
        core_leave(core);
        s = pto_runtime_destroy(&core->rt, ending);
        strncpy(detail, pto_error_detail(), sizeof detail - 1);
        core_back(core);
        if (core->rt) {
            core->closing = false;
            return s;
        }
    }
    task_forget();
    core->rt = NULL; /* a child of a fork leaves it alone: it has none of the threads */
    core_list_remove(core);
    while (core->job_tail != core->job_head) {
        job_free(core->jobs[core->job_tail++ & core->job_mask]);
    }
    registry_free(core);
    Py_CLEAR(core->poisoned);
    core->closing = false;
    return s == PTO_OK ? s : pto_fail(s, "%s", detail); /* what was freed may have failed, too */
}

void core_free(Core *core)
{
    if (core) {
        registry_free(core);
        Py_XDECREF(core->exception);
        Py_XDECREF(core->heap);
        Py_XDECREF(core->poisoned);
        Py_XDECREF(core->caught);
        jobs_free_spare(core);
        PyMem_Free(core->jobs);
        PyMem_Free(core);
    }
}

static int destroy_pending(void *pending)
{
    Core *core = pending;
    if (core->closing) { /* at exit */
        core->orphan = true;
        return 0;
    }
    (void)core_close(core, PTO_CANCEL);
    core_free(core);
    return 0;
}

void core_free_later(Core *core)
{
    if (core->closing) {
        core->orphan = true;
        return;
    }
    if (call_is_inside() && core->rt) { /* a worker cannot wait for its own end */
        if (Py_AddPendingCall(destroy_pending, core) == 0) {
            return;
        }
        pto_cancel(core->rt); /* the list of calls is full: at exit it is closed */
        return;
    }
    (void)core_close(core, PTO_CANCEL);
    core_free(core);
}
