/* error.c - a status of the library becomes an exception. */
#include <string.h>

#include "binding.h"

static PyObject *error_class; /* pto.Error */

PyObject *error_setup(PyObject *module, PyObject *args)
{
    PyObject *class;
    (void)module;
    if (!PyArg_ParseTuple(args, "O", &class)) {
        return NULL;
    }
    Py_INCREF(class);
    Py_XDECREF(error_class);
    error_class = class;
    Py_RETURN_NONE;
}

/* The exception of the kernel that failed first, and where its task was submitted. */
static PyObject *find_cause(Core *core, pto_failure *failure)
{
    bool failed = false;
    if (pto_get_failure(core->rt, &failed, failure) != PTO_OK || !failed) {
        failure->line = 0;
        return NULL;
    }
    return core->exception_task == failure->task ? Py_XNewRef(core->exception) : NULL;
}

PyObject *error_raise(Core *core, pto_status status, const char *file, int line)
{
    if (core && core->caught) {
        PyObject *caught = core->caught;
        core->caught = NULL;
        (void)pto_refused(core->rt, NULL);
        PyErr_Restore(Py_NewRef((PyObject *)Py_TYPE(caught)), caught,
                      PyException_GetTraceback(caught));
        return NULL;
    }
    if (status == PTO_INTERRUPTED && core && core->interrupted) {
        core->interrupted = false;
        (void)pto_refused(core->rt, NULL);
        return NULL; /* the exception of the signal handler is set */
    }
    PyErr_Clear();
    char detail[1024];
    strncpy(detail, pto_error_detail(), sizeof detail - 1);
    detail[sizeof detail - 1] = 0;
    PyObject *cause = NULL;
    pto_failure failure;
    memset(&failure, 0, sizeof failure);
    if (core && core->rt) {
        (void)pto_refused(core->rt, NULL);
        if (status == PTO_TASK_FAILED || status == PTO_POISONED) {
            cause = find_cause(core, &failure);
            if (failure.line) {
                file = failure.file;
                line = failure.line;
            }
        }
    }
    PyObject *error = PyObject_CallFunction(error_class, "isszi", (int)status, detail,
                                            pto_status_hint(status), file, line);
    if (error) {
        if (cause) {
            PyException_SetCause(error, cause); /* steals */
            cause = NULL;
        }
        PyErr_SetObject(error_class, error);
        Py_DECREF(error);
    }
    Py_XDECREF(cause);
    return NULL;
}
