/* runtime.c - pto.Runtime: its life as a Python object, and its table of methods. */
#include <stddef.h>
#include <unistd.h>

#include "binding.h"

#include <structmember.h>

/* ---- Life ---- */

static int runtime_init(PyObject *self, PyObject *args, PyObject *kwargs)
{
    Runtime *r = (Runtime *)(void *)self;
    pto_config config = PTO_CONFIG_INIT;
    bool explains = false;
    if (PyTuple_Size(args) != 0) {
        PyErr_SetString(PyExc_TypeError, "Runtime takes options by name alone, such as workers=4");
        return -1;
    }
    if (r->core) {
        PyErr_SetString(PyExc_RuntimeError, "Runtime: already created");
        return -1;
    }
    if (!config_read(kwargs, &config, &explains)) {
        return -1;
    }
    r->core = core_new(&config, explains);
    return r->core ? 0 : -1;
}

/* Closes, if it is not closed. An exception that is set stays set. A collector of garbage calls this before it takes
 * anything apart. If the runtime is closed later (core_free_later), what its tasks use is no garbage any more: the core
 * refers to it, and the collector looks again. */
static void runtime_finalize(PyObject *self)
{
    Runtime *r = (Runtime *)(void *)self;
    Core *core = r->core;
    if (!core || !core->rt) {
        return;
    }
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    if (core->process == getpid() && !core->closing) {
        if (PyErr_ResourceWarning(
                self, 1,
                "a pto.Runtime was not closed: its tasks are cancelled; use `with "
                "pto.Runtime() as rt`, or rt.close()") < 0) {
            PyErr_WriteUnraisable(self);
        }
    }
    r->core = NULL;
    core_free_later(core);
    PyErr_Restore(type, value, trace);
}

static int runtime_traverse(PyObject *self, visitproc visit, void *arg)
{
    const Core *core = ((Runtime *)(void *)self)->core;
    Py_VISIT(Py_TYPE(self));
    if (!core) {
        return 0;
    }
    Py_VISIT(core->exception);
    Py_VISIT(core->caught);
    Py_VISIT(core->poisoned);
    const int found = jobs_visit(core, visit, arg);
    return found ? found : registry_visit(core, visit, arg);
}

static int runtime_clear(PyObject *self)
{
    Runtime *r = (Runtime *)(void *)self;
    Core *core = r->core;
    r->core = NULL;
    if (core) {
        core_free_later(core);
    }
    return 0;
}

static void runtime_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    PyObject_ClearWeakRefs(self);
    (void)runtime_clear(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

/* Destroys after a failure; the exception that is set stays set. */
static PyObject *close_failed(Core *core)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    (void)core_close(core, PTO_CANCEL);
    PyErr_Restore(type, value, trace);
    return NULL;
}

/* Raises the error that scopes are open, with the place of one. */
static PyObject *refuse_scopes(Core *core, const char *file, int line)
{
    const pto_status s = pto_runtime_destroy(&core->rt, PTO_WAIT); /* does nothing but say so */
    return error_raise(core, s, file, line);
}

/* Waits, then destroys. A wait can be interrupted; then the rest is cancelled. With open scopes it refuses, or, if
 * `always`, reports them in the end. */
static PyObject *close_waiting(Core *core, bool always)
{
    int line;
    const char *file = core_where(core, &line);
    const bool scopes = pto_get_scope_depth(core->rt) > 0;
    if (scopes && !always) {
        return refuse_scopes(core, file, line);
    }
    core_leave(core);
    pto_status s = pto_wait(core->rt);
    core_back(core);
    s = core_status(core, s);
    if (s != PTO_OK) {
        error_raise(core, s, file, line);
        return close_failed(core);
    }
    if (scopes) {
        (void)refuse_scopes(core, file, line);
        return close_failed(core);
    }
    s = core_close(core, PTO_WAIT);
    if (s != PTO_OK) {
        return error_raise(NULL, s, file, line);
    }
    Py_RETURN_NONE;
}

static PyObject *runtime_close(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *words[] = {"cancel", NULL};
    int cancel = 0;
    Core *core = ((Runtime *)(void *)self)->core;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|p", words, &cancel)) {
        return NULL;
    }
    if (!core || !core->rt) {
        Py_RETURN_NONE;
    }
    if (core->process != getpid()) {
        (void)core_close(core, PTO_CANCEL);
        Py_RETURN_NONE;
    }
    if (!core_enter(core, "close")) {
        return NULL;
    }
    if (!cancel) {
        return close_waiting(core, false);
    }
    const pto_status s = core_close(core, PTO_CANCEL);
    return s == PTO_OK ? Py_NewRef(Py_None) : error_raise(NULL, s, NULL, 0);
}

static PyObject *runtime_enter(PyObject *self, PyObject *unused)
{
    (void)unused;
    if (!core_enter(((Runtime *)(void *)self)->core, "enter")) {
        return NULL;
    }
    return Py_NewRef(self);
}

static PyObject *runtime_exit(PyObject *self, PyObject *args)
{
    PyObject *type, *value, *trace;
    Core *core = ((Runtime *)(void *)self)->core;
    if (!PyArg_ParseTuple(args, "OOO", &type, &value, &trace)) {
        return NULL;
    }
    if (!core || !core->rt) {
        Py_RETURN_FALSE;
    }
    if (core->process == getpid() && !core_enter(core, "exit")) {
        return NULL;
    }
    if (type != Py_None) {
        (void)core_close(core, PTO_CANCEL);
        Py_RETURN_FALSE;
    }
    PyObject *done = core->process == getpid() ? close_waiting(core, true) : Py_NewRef(Py_None);
    if (!done) {
        return NULL;
    }
    Py_DECREF(done);
    Py_RETURN_FALSE;
}

/* For rt.trace: as a new runtime with these options, if nothing was submitted. If there can be none, it stays as it
 * is. */
static PyObject *runtime_restart(PyObject *self, PyObject *args, PyObject *kwargs)
{
    Runtime *r = (Runtime *)(void *)self;
    Core *old = r->core;
    pto_config config = PTO_CONFIG_INIT;
    bool explains = false;
    uint64_t submitted;
    (void)args;
    if (!core_enter(old, "trace")) {
        return NULL;
    }
    (void)pto_watermark(old->rt, &submitted);
    if (submitted || pto_get_scope_depth(old->rt) || old->ranges) {
        PyErr_SetString(
            PyExc_RuntimeError,
            "trace: the runtime has tasks, open scopes or ranges already: call trace() right after "
            "it is created, or create it with pto.Runtime(trace=...)");
        return NULL;
    }
    core_begin(old); /* options may be objects of the program */
    Core *new = config_read(kwargs, &config, &explains) ? core_new(&config, explains) : NULL;
    core_end(old);
    if (!new) {
        return NULL;
    }
    r->core = new;
    (void)core_close(old,
                     PTO_CANCEL); /* fails if it cannot write a trace of its own, which is empty */
    core_free(old);
    Py_RETURN_NONE;
}
/* ---- Failures and checks ---- */

static PyObject *runtime_cancel(PyObject *self, PyObject *unused)
{
    Core *core = ((Runtime *)(void *)self)->core;
    (void)unused;
    if (core_is_open(core)) { /* any thread may */
        pto_cancel(core->rt);
    }
    Py_RETURN_NONE;
}
static PyObject *runtime_check(PyObject *self, PyObject *unused)
{
    Core *core = ((Runtime *)(void *)self)->core;
    (void)unused;
    if (!core_enter(core, "check")) {
        return NULL;
    }
    const pto_status s = pto_check(core->rt);
    return s == PTO_OK ? Py_NewRef(Py_None) : error_raise(core, s, NULL, 0);
}

static PyObject *runtime_closed(PyObject *self, void *unused)
{
    Core *core = ((Runtime *)(void *)self)->core;
    (void)unused;
    return PyBool_FromLong(!core || !core->rt);
}

/* ---- The type ---- */

#define METHOD(fn) ((PyCFunction)(void (*)(void))(fn))

static PyMethodDef runtime_methods[] = {
    {"submit", METHOD(runtime_submit), METH_FASTCALL | METH_KEYWORDS,
     "submit($self, kernel, /, *args, after=None, label=None)\n--\n\n"
     "Submits a task: a call of the kernel with these arguments. Returns a pto.Task.\n\n"
     "It runs when the tasks are complete that use the same bytes before it. Arrays stay alive "
     "until\n"
     "then. after: tasks to wait for besides. label: a name for traces and errors."},
    {"wait", runtime_wait, METH_VARARGS,
     "wait($self, task=None, /)\n--\n\nWaits for one task, or for all. Raises pto.Error if a task "
     "has "
     "failed."},
    {"sync", runtime_sync, METH_VARARGS,
     "sync($self, *arrays)\n--\n\n"
     "Waits until no task uses the arrays, so that Python may read and write them.\n\n"
     "Without arguments it is the same as wait()."},
    {"read", runtime_read, METH_O,
     "read($self, tensor, /)\n--\n\n"
     "Waits for the tasks that write the tensor, and returns a copy: an ndarray if NumPy is "
     "loaded."},
    {"temp", METHOD(runtime_temp), METH_VARARGS | METH_KEYWORDS,
     "temp($self, /, shape, dtype='f8', device=None)\n--\n\n"
     "A managed tensor without memory. The first task that writes it must write all of it.\n\n"
     "device: 'sim:0' and so on; the default is that of the runtime."},
    {"empty", METHOD(runtime_empty), METH_VARARGS | METH_KEYWORDS,
     "empty($self, /, shape, dtype='f8', device=None)\n--\n\n"
     "A managed tensor that has memory at once, so that tasks can write it in parts.\n\n"
     "device: 'sim:0' and so on; the default is that of the runtime."},
    {"release", runtime_release, METH_O,
     "release($self, tensor, /)\n--\n\nGives up a managed tensor before its scope ends."},
    {"scope", runtime_scope, METH_NOARGS,
     "scope($self, /)\n--\n\nFor `with`: the lifetime of the managed tensors that are made "
     "inside."},
    {"boundary", runtime_boundary, METH_NOARGS,
     "boundary($self, /)\n--\n\nFor `with`: a scope whose memory the scopes around it do not hold. "
     "For "
     "loops."},
    {"range", runtime_range, METH_O,
     "range($self, name, /)\n--\n\nFor `with`: names the tasks inside, in traces. It orders "
     "nothing."},
    {"rearrange", METHOD(builtin_rearrange), METH_FASTCALL,
     "rearrange($self, dst, src, /)\n--\n\nSubmits a copy between any two layouts, in parallel "
     "parts."},
    {"copy", METHOD(builtin_copy), METH_FASTCALL,
     "copy($self, dst, src, /)\n--\n\n"
     "Submits a copy between tensors of one shape, on the same or on two devices, or of dense "
     "memory."},
    {"fill", METHOD(builtin_fill), METH_FASTCALL,
     "fill($self, dst, value, /)\n--\n\nSubmits a task that sets all elements to a number."},
    {"gather", METHOD(builtin_gather), METH_FASTCALL,
     "gather($self, dst, src, index, /)\n--\n\nSubmits dst[i] = src[index[i]], along the first "
     "dim."},
    {"scatter", METHOD(builtin_scatter), METH_FASTCALL,
     "scatter($self, dst, src, index, /)\n--\n\nSubmits dst[index[i]] = src[i], along the first "
     "dim."},
    {"cancel", runtime_cancel, METH_NOARGS,
     "cancel($self, /)\n--\n\nSkips all tasks that have not started. Any thread may call it."},
    {"clear_error", runtime_clear_error, METH_NOARGS,
     "clear_error($self, /)\n--\n\nWaits for all tasks, and lets the runtime continue after a "
     "failure."},
    {"stats", runtime_stats, METH_NOARGS,
     "stats($self, /)\n--\n\nCounts of tasks and edges, and the rings."},
    {"check", runtime_check, METH_NOARGS,
     "check($self, /)\n--\n\nChecks all invariants of the runtime."},
    {"close", METHOD(runtime_close), METH_VARARGS | METH_KEYWORDS,
     "close($self, /, cancel=False)\n--\n\nWaits for all tasks, or cancels them, and ends the "
     "runtime."},
    {"_restart", METHOD(runtime_restart), METH_VARARGS | METH_KEYWORDS, NULL},
    {"__enter__", runtime_enter, METH_NOARGS, NULL},
    {"__exit__", runtime_exit, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

/* The interpreter calls a method without detours if the type of the object is the one that the method was
 * made for, and not one derived from it. So pto.Runtime gets a submit of its own. */
PyObject *runtime_adopt(PyObject *module, PyObject *type)
{
    (void)module;
    PyObject *method = PyDescr_NewMethod((PyTypeObject *)type, &runtime_methods[0]);
    const int bad = method ? PyObject_SetAttrString(type, "submit", method) : -1;
    Py_XDECREF(method);
    return bad ? NULL : Py_NewRef(Py_None);
}

static PyGetSetDef runtime_getset[] = {
    {"closed", runtime_closed, NULL, "Whether it is closed.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef runtime_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Runtime, weak), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot runtime_slots[] = {
    {Py_tp_init, (void *)runtime_init},
    {Py_tp_new, (void *)PyType_GenericNew},
    {Py_tp_finalize, (void *)runtime_finalize},
    {Py_tp_dealloc, (void *)runtime_dealloc},
    {Py_tp_traverse, (void *)runtime_traverse},
    {Py_tp_clear, (void *)runtime_clear},
    {Py_tp_methods, runtime_methods},
    {Py_tp_getset, runtime_getset},
    {Py_tp_members, runtime_members},
    {Py_tp_doc, "Base of pto.Runtime."},
    {0, NULL},
};
PyType_Spec runtime_spec = {"pto._pto.Runtime", sizeof(Runtime), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
                            runtime_slots};
