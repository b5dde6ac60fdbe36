/* wait.c - waiting for tasks and for arrays, copies of results, and going on after a failure. */
#include "binding.h"

/* After a call that waited: what is complete is let go. The error comes first: what is let go may run code of the
 * program, and what fails there has a detail, too. */
static PyObject *waited(Core *core, pto_status s, const char *file, int line)
{
    PyObject *type, *value, *trace;
    core_back(core);
    s = core_status(core, s);
    if (s != PTO_OK) {
        core_begin(core);
        (void)error_raise(core, s, file, line);
        core_end(core);
    }
    PyErr_Fetch(&type, &value, &trace);
    jobs_release(core);
    PyErr_Restore(type, value, trace);
    return s == PTO_OK ? Py_NewRef(Py_None) : NULL;
}

PyObject *runtime_wait(PyObject *self, PyObject *args)
{
    Core *core = ((Runtime *)(void *)self)->core;
    PyObject *task = NULL;
    int line;
    if (!PyArg_ParseTuple(args, "|O", &task) || !core_enter(core, "wait")) {
        return NULL;
    }
    task = task == Py_None ? NULL : task;
    if (task && Py_TYPE(task) != task_type) {
        PyErr_Format(
            PyExc_TypeError,
            "wait: a task is needed, as submit returns it, not %R; to wait for an array, use "
            "rt.sync(array)",
            (PyObject *)Py_TYPE(task));
        return NULL;
    }
    const char *file = core_where(core, &line);
    const pto_task handle = task ? ((Task *)(void *)task)->task : 0;
    core_leave(core);
    return waited(core, task ? pto_wait_task_at(core->rt, handle, file, line) : pto_wait(core->rt),
                  file, line);
}

PyObject *runtime_sync(PyObject *self, PyObject *args)
{
    Core *core = ((Runtime *)(void *)self)->core;
    const Py_ssize_t n = PyTuple_Size(args);
    int line;
    if (!core_enter(core, "sync")) {
        return NULL;
    }
    const char *file = core_where(core, &line);
    if (n == 0) {
        core_leave(core);
        return waited(core, pto_wait(core->rt), file, line);
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        Argument a;
        if (i > 0 && !core_enter(core, "sync")) { /* letting go of arrays may have closed it */
            return NULL;
        }
        core_begin(core); /* it may run code of the program */
        const bool good = argument_of(PyTuple_GetItem(args, i), &a, "sync", i);
        core_end(core);
        if (!good) {
            return NULL;
        }
        core_leave(core);
        PyObject *done = waited(core, pto_wait_unused_at(core->rt, a.tensor, file, line), file,
                                line);
        argument_drop(&a);
        if (!done) {
            return NULL;
        }
        Py_DECREF(done);
    }
    Py_RETURN_NONE;
}

/* A new array, and the address of its elements. Without NumPy: a bytearray, seen as a memoryview. */
static PyObject *new_result(const Argument *a, void **memory, uint64_t *bytes)
{
    const int32_t ndim = a->tensor->ndim - (a->descr ? 1 : 0);
    if (pto_tensor_nbytes(a->tensor, bytes) != PTO_OK) {
        return error_raise(NULL, PTO_OVERFLOW, NULL, 0);
    }
    if (numpy_load()) {
        PyObject *array = numpy_make(a->dtype, a->descr, ndim, a->tensor->shape, NULL, NULL, true,
                                     NULL);
        *memory = array ? numpy_data(array) : NULL;
        return array;
    }
    PyObject *plain = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)*bytes);
    *memory = plain ? PyByteArray_AsString(plain) : NULL;
    PyObject *view = plain ? view_make(a->dtype, ndim, a->tensor->shape, NULL, *memory, true, plain)
                           : NULL;
    Py_XDECREF(plain);
    return view;
}

PyObject *runtime_read(PyObject *self, PyObject *object)
{
    Core *core = ((Runtime *)(void *)self)->core;
    Argument a;
    void *memory = NULL;
    uint64_t bytes = 0;
    int line;
    if (!core_enter(core, "read")) {
        return NULL;
    }
    core_begin(core); /* it may run code of the program */
    const bool good = argument_of(object, &a, "read", 0);
    core_end(core);
    if (!good) {
        return NULL;
    }
    core_begin(core); /* so may a collector */
    const char *file = where(&line);
    PyObject *result = argument_arrives(&a) && !arrival_wait(&a) ? NULL
                                                                 : new_result(&a, &memory, &bytes);
    core_end(core);
    if (result) {
        core_leave(core);
        PyObject *done = waited(core, pto_read_at(core->rt, a.tensor, memory, bytes, file, line),
                                file, line);
        if (!done) {
            Py_CLEAR(result);
        }
        Py_XDECREF(done);
    }
    argument_drop(&a);
    return result;
}
/* ---- Failures ---- */

PyObject *runtime_clear_error(PyObject *self, PyObject *unused)
{
    Core *core = ((Runtime *)(void *)self)->core;
    (void)unused;
    if (!core_enter(core, "clear_error")) {
        return NULL;
    }
    core_leave(core);
    const pto_status s = pto_clear_error(core->rt);
    PyObject *done = waited(core, s, NULL, 0);
    Py_CLEAR(core->exception);
    if (s == PTO_OK) { /* there is no poison any more */
        core->damaged = false;
        Py_CLEAR(core->poisoned);
    }
    return done;
}
