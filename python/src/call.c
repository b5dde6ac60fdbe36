/* call.c - Python functions as kernels: they run on workers, under the GIL.
 *
 * A worker gets a thread state when it first runs Python, keeps it, and gives it up as its thread ends,
 * which is before pto_runtime_destroy returns. The orchestrating thread runs kernels too, inside of a
 * submit or a wait; there its own thread state is used (core->saved).
 *
 * Arguments become arrays, or memoryviews if NumPy is not loaded. Their base keeps the memory alive: the
 * array that was submitted, or, for managed memory, the Heap of the runtime. So a view that a kernel
 * keeps never points to unmapped memory. Managed memory is reused, though, so a kernel that keeps such a
 * view fails. An array that nobody has kept serves the next call of its kernel.
 */
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "binding.h"

static _Thread_local PyThreadState *own_state; /* of a worker, while it does not hold the GIL */
static _Thread_local int depth;                /* Python kernels that this thread runs now */

/* ---- The GIL ---- */

/* For destructors of thread-local variables in C++: the C library calls `end` when this thread ends, and before it
 * clears the thread-specific data of pthread keys. Python's own is among that data. Without it Python does not
 * know the state as that of this thread, and its debug allocators take the GIL for not held. */
int __cxa_thread_atexit_impl(void (*end)(void *), void *argument, void *library);
__attribute__((visibility("hidden"))) extern void *__dso_handle;

/* Runs on a worker that ends. What is cleared may run code of the program, and that may call PyGILState_Ensure. Inside
 * of the last PyGILState_Release it must not: so the state is ended by hand. */
static void give_up_state(void *state)
{
    own_state = NULL;
    PyEval_RestoreThread(state);
    PyThreadState_Clear(state);
    (void)PyEval_SaveThread();
    PyThreadState_Delete(state);
}

static PyObject *gc_collect; /* gc.collect: unlike PyGC_Collect it works after gc.disable(), too */

static unsigned forks; /* that this process came from, since the module was loaded */

static atomic_flag turn = ATOMIC_FLAG_INIT; /* take_turn */

/* In a child there is one thread: nobody else has the turn. */
static void count_fork(void)
{
    forks++;
    atomic_flag_clear_explicit(&turn, memory_order_relaxed);
}

int call_setup(void)
{
    PyObject *module = PyImport_ImportModule("gc");
    gc_collect = module ? PyObject_GetAttrString(module, "collect") : NULL;
    Py_XDECREF(module);
    return gc_collect ? pthread_atfork(NULL, NULL, count_fork) : -1;
}

/* A process that was forked inside of a kernel has a copy of this thread alone, and shares the memory in which
 * the tasks of its parent are. So it must not go on with the work of the thread. */
RARE static void end_child(void)
{
    static const char text[] =
        "pto: a process that was forked inside of a kernel came to the end of the kernel, and "
        "ends: use os._exit in the child\n";
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    _exit(1);
}

bool call_is_inside(void)
{
    return depth > 0;
}

/* Short kernels of several threads take turns, spinning, before they take the GIL: a thread that waits
 * for the GIL sleeps, and waking it takes longer than such a kernel. A kernel that is not short keeps the
 * turn for as long as it runs, and the others do not wait for it. */
#define PROBES 200 /* before a thread goes to the GIL without its turn: about 25 microseconds */
#define PAUSES 8   /* between two probes of the orchestrating thread */
#define PAUSES_WORKER                                                                              \
    240 /* of a worker, and so fewer probes: each change of threads moves their caches */

static bool take_turn(bool orchestrates)
{
    const int pauses = orchestrates ? PAUSES : PAUSES_WORKER;
    for (int left = PROBES * PAUSES; left > 0; left -= pauses) {
        if (!atomic_flag_test_and_set_explicit(&turn, memory_order_acquire)) {
            return true;
        }
        for (int i = 0; i < pauses; i++) {
#if defined(__x86_64__)
            __builtin_ia32_pause();
#elif defined(__aarch64__)
            __asm__ volatile("yield");
#endif
        }
    }
    return false;
}

/* While the orchestrating thread runs Python, a worker that asked for the GIL would take it away every few
 * milliseconds, and both would sleep and wake. Mostly that thread is about to submit more and then to wait.
 * So a worker gives it a millisecond. */
static void let_it_submit(const Core *core)
{
    const struct timespec moment = {.tv_nsec = 50000};
    for (int i = 0; i < 20 && !atomic_load_explicit(&core->away, memory_order_relaxed); i++) {
        nanosleep(&moment, NULL);
    }
}

/* How a kernel came to the GIL: the thread held it, or took it as the orchestrating thread or a worker. */
typedef enum Gil { GIL_HELD, GIL_OWN, GIL_WORKER } Gil;

static Gil take_gil(const Core *core, bool *has_turn)
{
    const bool orchestrates = PyThread_get_thread_ident() == core->thread;
    *has_turn = false;
    if (orchestrates && !core->saved) {
        depth++;
        return GIL_HELD; /* submit runs the kernel inline */
    }
    if (!orchestrates) {
        let_it_submit(core);
    }
    *has_turn = take_turn(orchestrates);
    if (orchestrates) {
        PyEval_RestoreThread(core->saved);
    } else if (own_state) {
        PyEval_RestoreThread(own_state);
    } else {
        (void)PyGILState_Ensure();
    }
    depth++;
    return orchestrates ? GIL_OWN : GIL_WORKER;
}

static void drop_gil(Gil gil, bool has_turn)
{
    depth--;
    if (gil == GIL_HELD) {
        return;
    }
    PyThreadState *state = PyEval_SaveThread();
    if (has_turn) {
        atomic_flag_clear_explicit(&turn, memory_order_release);
    }
    if (gil == GIL_WORKER) {
        if (!own_state) {
            /* Without memory for it the state is not freed. */
            (void)__cxa_thread_atexit_impl(give_up_state, state, &__dso_handle);
        }
        own_state = state;
    }
}

/* ---- Heap: keeps managed memory mapped ---- */

typedef struct Heap {
    PyObject_HEAD void *memory; /* the runtime has given it up (pto_detach_heaps) */
    size_t bytes;
} Heap;

static void heap_dealloc(PyObject *self)
{
    Heap *heap = (Heap *)(void *)self;
    PyTypeObject *type = Py_TYPE(self);
    if (heap->memory) {
        munmap(heap->memory, heap->bytes);
    }
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyType_Slot heap_slots[] = {
    {Py_tp_dealloc, (void *)heap_dealloc},
    {Py_tp_doc, "Managed memory of a runtime."},
    {0, NULL},
};
PyType_Spec heap_spec = {"pto._pto.Heap", sizeof(Heap), 0,
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, heap_slots};

bool call_prepare_heap(Core *core)
{
    if (core->heap) {
        return true;
    }
    Heap *heap = PyObject_New(Heap, heap_type);
    if (!heap) {
        return false;
    }
    heap->memory = NULL;
    heap->bytes = 0;
    core->heap = (PyObject *)(void *)heap;
    return pto_detach_heaps(core->rt, &heap->memory, &heap->bytes) == PTO_OK;
}

/* ---- View: an argument for programs without NumPy ---- */

typedef struct View {
    PyObject_HEAD PyObject *base;
    void *data;
    const Dtype *dtype;
    int ndim;
    bool writable;
    Py_ssize_t bytes;
    Py_ssize_t shape[PTO_MAX_DIMS], strides[PTO_MAX_DIMS];
    char format[3];
} View;

static int view_getbuffer(PyObject *self, Py_buffer *buffer, int flags)
{
    View *v = (View *)(void *)self;
    if ((flags & PyBUF_WRITABLE) && !v->writable) {
        PyErr_SetString(PyExc_BufferError, "an input of a kernel is read-only");
        return -1;
    }
    memset(buffer, 0, sizeof *buffer);
    buffer->buf = v->data ? v->data : (void *)v;
    buffer->obj = self;
    Py_INCREF(self);
    buffer->len = v->bytes;
    buffer->readonly = !v->writable;
    buffer->itemsize = v->dtype->bytes;
    buffer->format = v->format;
    buffer->ndim = v->ndim;
    buffer->shape = v->shape;
    buffer->strides = v->strides;
    return 0;
}

static void view_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(((View *)(void *)self)->base);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyType_Slot view_slots[] = {
    {Py_tp_dealloc, (void *)view_dealloc},
    {Py_bf_getbuffer, (void *)view_getbuffer},
    {Py_tp_doc, "Memory of an argument of a kernel."},
    {0, NULL},
};
PyType_Spec view_spec = {"pto._pto.View", sizeof(View), 0,
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, view_slots};

/* As the struct module writes it, and PEP 3118. bfloat16: its bits. */
static void set_format(View *v)
{
    const char letter = v->dtype->format;
    const char *format = letter == 'E' ? "H" : letter == 'F' ? "Zf" : (const char[]){letter, 0};
    strcpy(v->format, format);
}

PyObject *view_make(const Dtype *dtype, int ndim, const int64_t *shape, const int64_t *strides,
                    void *data, bool writable, PyObject *base)
{
    View *v = PyObject_New(View, view_type);
    if (!v) {
        return NULL;
    }
    v->base = Py_NewRef(base);
    v->data = data;
    v->dtype = dtype;
    v->ndim = ndim;
    v->writable = writable;
    v->bytes = dtype->bytes;
    set_format(v);
    for (int d = ndim - 1; d >= 0; d--) {
        v->shape[d] = shape[d];
        v->strides[d] = strides ? strides[d] * dtype->bytes : v->bytes;
        v->bytes *= shape[d];
    }
    PyObject *made = PyMemoryView_FromObject((PyObject *)(void *)v);
    Py_DECREF(v);
    return made;
}

/* ---- Arguments ---- */

static PyObject *make_array(const pto_arg *arg, const Slot *slot, PyObject *base)
{
    const bool writable = slot->kind != 'i';
    if (numpy_load()) {
        return numpy_make(slot->dtype, slot->descr, arg->ndim - (slot->descr ? 1 : 0), arg->shape,
                          arg->strides, arg->data, writable, base);
    }
    return view_make(slot->dtype, arg->ndim, arg->shape, arg->strides, arg->data, writable, base);
}

static bool use_again(PyObject *array, const pto_arg *arg, const Slot *slot, PyObject *base)
{
    return array && numpy_use_again(array, slot->dtype, arg->ndim, arg->shape, arg->strides,
                                    arg->data, slot->kind != 'i', base);
}

/* The tuple of the last call of this kernel, or a new one. Nobody is to find it with gc.get_objects: that would look
 * like a kept argument. */
static PyObject *take_tuple(const Job *job)
{
    PyObject *values = job->kernel->spare;
    job->kernel->spare = NULL;
    if (!values || PyTuple_Size(values) != job->count) {
        Py_XDECREF(values);
        values = PyTuple_New(job->count);
        if (values && job->count) {
            PyObject_GC_UnTrack(values);
        }
    }
    return values;
}

/* Keeps the tuple for the next call, with the arrays that can be used again, and without all else. If there are none,
 * it does not keep the tuple: from CPython 3.14 on a tuple remembers its hash. One with an array has none. */
static void keep_tuple(const Job *job, PyObject *values)
{
    bool arrays = false;
    for (uint32_t i = 0; i < job->count; i++) {
        if (numpy_put_away(PyTuple_GetItem(values, i), job->slots[i].dtype)) {
            arrays = true;
        } else {
            (void)PyTuple_SetItem(values, i, Py_NewRef(Py_None));
        }
    }
    if (!arrays || job->kernel->spare) { /* spare: of a call on another thread */
        Py_DECREF(values);
    } else {
        job->kernel->spare = values;
    }
}

static void drop_tuple(const Job *job, PyObject *values, bool good)
{
    if (good && job->count && Py_REFCNT(values) == 1) {
        keep_tuple(job, values);
        return;
    }
    if (job->count && Py_REFCNT(values) > 1 &&
        !PyObject_GC_IsTracked(values)) { /* C code keeps it */
        PyObject_GC_Track(values);
    }
    Py_DECREF(values);
}

/* A tuple of all arguments; NULL with an exception. */
static PyObject *make_values(const pto_call *call, const Job *job)
{
    uint32_t tensor = 0;
    PyObject *values = take_tuple(job);
    for (uint32_t i = 0; values && i < job->count; i++) {
        const Slot *slot = &job->slots[i];
        PyObject *value = slot->object;
        if (slot->kind != 's') {
            const pto_arg *arg = &call->args[tensor++];
            PyObject *base = slot->managed ? job->core->heap : slot->object;
            if (base && use_again(PyTuple_GetItem(values, i), arg, slot, base)) {
                continue;
            }
            value = base ? make_array(arg, slot, base) : NULL;
        } else {
            Py_INCREF(value);
        }
        if (!value || PyTuple_SetItem(values, i, value) < 0) {
            Py_CLEAR(values);
        }
    }
    return values;
}

/* A part of a memoryview refers to what the memoryview was made of, and not to the memoryview. So that stands in
 * for it. The tuple is ours alone, or else what has it keeps all arguments. */
static void strip_memoryviews(const Job *job, PyObject *values)
{
    for (uint32_t i = 0; i < job->count && Py_REFCNT(values) == 1; i++) {
        PyObject *value = job->slots[i].managed ? PyTuple_GetItem(values, i) : NULL;
        if (value && PyMemoryView_Check(value)) {
            PyObject *view = PyObject_GetAttrString(value, "obj");
            if (!view || PyTuple_SetItem(values, i, view) < 0) {
                PyErr_Clear();
            }
        }
    }
}

static int64_t find_referred(const Job *job, PyObject *values)
{
    for (uint32_t i = 0; i < job->count; i++) {
        if (job->slots[i].managed &&
            (Py_REFCNT(PyTuple_GetItem(values, i)) > 1 || Py_REFCNT(values) > 1)) {
            return i;
        }
    }
    return -1;
}

/* ---- Failures ---- */

/* An exception for the program: the call that waits raises it. Takes the reference. */
static void keep_for_program(Core *core, PyObject *error)
{
    if (core->caught) {
        Py_DECREF(error);
    } else {
        core->caught = error;
    }
}

/* The exception that is set, which is set no more; NULL: none. */
static PyObject *fetch(void)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    if (trace) {
        PyException_SetTraceback(value, trace);
    }
    Py_XDECREF(type);
    Py_XDECREF(trace);
    return value;
}

/* Whether the handler of a signal raised the exception, while this thread, the orchestrating one, ran a kernel. A
 * handler may also raise while that is found out. */
static bool is_from_signal(Core *core, PyObject *error)
{
    PyObject *module = PyImport_ImportModule("pto._errors");
    PyObject *answer = module ? PyObject_CallMethod(module, "_from_signal", "(O)", error) : NULL;
    const bool yes = answer == Py_True;
    Py_XDECREF(module);
    Py_XDECREF(answer);
    PyObject *raised = fetch();
    if (raised) {
        keep_for_program(core, raised);
    }
    return yes;
}

/* What describing an exception has raised: nothing, an error in its __str__, or Ctrl-C. */
static void sort_out(Core *core, bool orchestrates)
{
    PyObject *raised = fetch();
    if (!raised) {
        return;
    }
    if (orchestrates &&
        (!PyErr_GivenExceptionMatches(raised, PyExc_Exception) || is_from_signal(core, raised))) {
        keep_for_program(core, raised);
    } else {
        Py_DECREF(raised);
    }
}

/* An attribute that is text, or str(object) without a name; NULL without an exception. */
static PyObject *text_for(Core *core, bool orchestrates, PyObject *object, const char *name)
{
    PyObject *text = name ? PyObject_GetAttrString(object, name) : PyObject_Str(object);
    if (text && !PyUnicode_AsUTF8AndSize(text, NULL)) {
        Py_CLEAR(text);
    }
    sort_out(core, orchestrates);
    return text;
}

/* The exception that is set becomes the failure of the task. */
static pto_status fail_with_exception(const Job *job, pto_task task)
{
    Core *core = job->core;
    const bool orchestrates = PyThread_get_thread_ident() == core->thread;
    if (!PyErr_Occurred()) {
        PyErr_SetString(PyExc_SystemError, "the kernel failed without an exception");
    }
    PyObject *error = fetch();
    if (orchestrates && !core->caught && is_from_signal(core, error)) {
        keep_for_program(core, Py_NewRef(error));
    }
    core->damaged = true;
    if (!core->exception || job->order < core->exception_order) {
        PyObject *later = core->exception;
        core->exception = Py_NewRef(error);
        core->exception_task = task;
        core->exception_order = job->order;
        Py_XDECREF(later);
    }
    PyObject *name = text_for(core, orchestrates, OBJECT(Py_TYPE(error)), "__name__");
    PyObject *text = text_for(core, orchestrates, error, NULL);
    const char *a = name ? PyUnicode_AsUTF8AndSize(name, NULL) : "exception";
    const char *b = text ? PyUnicode_AsUTF8AndSize(text, NULL) : "?";
    const pto_status s = pto_fail(PTO_KERNEL_FAILED, "%.60s%s%.180s", a, *b ? ": " : "", b);
    Py_XDECREF(name);
    Py_XDECREF(text);
    Py_DECREF(error);
    return s;
}

/* ---- Views that a kernel keeps ---- */

/* Collects garbage, unless another thread does so now. A list that refers to itself tells the two apart: it is garbage,
 * so a collection finds at least one object. */
static bool collect(void)
{
    PyObject *probe = PyList_New(0);
    const bool good = probe && PyList_Append(probe, probe) == 0;
    Py_XDECREF(probe);
    PyObject *found = good ? PyObject_CallNoArgs(gc_collect) : NULL;
    const bool done = found && PyObject_IsTrue(found) > 0;
    Py_XDECREF(found);
    PyErr_Clear(); /* without memory it tries again */
    return done;
}

#define COLLECT_MOST 50 /* attempts, a millisecond apart, while another thread collects */

/* The number of a managed argument that something still refers to; -1: there is none. What refers to it may be
 * garbage that refers to itself. */
static int64_t find_kept(const Job *job, PyObject *values)
{
    const struct timespec moment = {.tv_nsec = 1000000};
    bool collected = false;
    for (int i = 0;; i++) {
        strip_memoryviews(job, values);
        const int64_t kept = find_referred(job, values);
        if (kept < 0 || collected || i == COLLECT_MOST) {
            return kept;
        }
        collected = collect();
        if (!collected) {
            Py_BEGIN_ALLOW_THREADS nanosleep(&moment, NULL);
            Py_END_ALLOW_THREADS
        }
    }
}

static pto_status run(Job *job, pto_task task, PyObject *values)
{
    PyObject *result = values ? PyObject_Call(job->kernel->callable, values, NULL) : NULL;
    if (!result) {
        return fail_with_exception(job, task);
    }
    if (result != Py_None) {
        PyErr_Format(PyExc_TypeError,
                     "the kernel returned %.100R: a kernel writes its results into its outputs and "
                     "returns None",
                     result);
        Py_DECREF(result);
        return fail_with_exception(job, task);
    }
    Py_DECREF(result);
    const int64_t kept = job->managed ? find_kept(job, values) : -1;
    if (kept >= 0) {
        PyErr_Format(
            PyExc_RuntimeError,
            "the kernel keeps a view of its argument %lld, which is managed memory and will be "
            "reused: copy what is needed later",
            (long long)kept);
        return fail_with_exception(job, task);
    }
    return PTO_OK;
}

pto_status call_python(const pto_call *call)
{
    Job *job = (Job *)(uintptr_t)call->args[call->n_args - 1].u64;
    Core *core = job->core;
    bool has_turn;
    const Gil gil = take_gil(core, &has_turn);
    const unsigned before = forks;
    PyObject *values = make_values(call, job);
    const pto_status s = run(job, call->task, values);
    if (forks != before) {
        end_child();
    }
    if (values) {
        drop_tuple(job, values, s == PTO_OK);
    }
    drop_gil(gil, has_turn);
    return s;
}
