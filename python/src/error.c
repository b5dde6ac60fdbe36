/* error.c - a status of the library becomes an exception. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "binding.h"

static PyObject *error_class; /* pto.Error */

const char *text_of(PyObject *object, const char *what)
{
    Py_ssize_t length;
    if (!PyUnicode_Check(object)) {
        PyErr_Format(PyExc_TypeError, "%s takes a string, not %R", what,
                     (PyObject *)Py_TYPE(object));
        return NULL;
    }
    const char *text = PyUnicode_AsUTF8AndSize(object, &length);
    if (text && strlen(text) != (size_t)length) {
        PyErr_Format(PyExc_ValueError, "%s %R contains a null character", what, object);
        return NULL;
    }
    return text;
}

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

/* All work requests have one kernel. The message of a failure begins with what it was. */
static void name_work(char *detail, size_t bytes, const pto_failure *failure)
{
    static const char kernel[] = "kernel 'work'", strided[] = "strided ";
    const char *name = failure->message;
    name += strncmp(name, strided, sizeof strided - 1) == 0 ? sizeof strided - 1 : 0;
    const size_t length = strcspn(name, ":");
    char *at = strstr(detail, kernel);
    if (at && strcmp(failure->kernel, "work") == 0 && length < 8) {
        char *tail = strdup(at + sizeof kernel - 1);
        snprintf(at, bytes - (size_t)(at - detail), "kernel '%.*s'%s", (int)length, name,
                 tail ? tail : "");
        free(tail);
    }
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
    char detail[1024]; /* now: what the program runs may fail in the library, too */
    strncpy(detail, pto_error_detail(), sizeof detail - 1);
    detail[sizeof detail - 1] = 0;
    PyErr_Clear();
    PyObject *cause = NULL;
    pto_failure failure;
    memset(&failure, 0, sizeof failure);
    if (core && core->rt) {
        (void)pto_refused(core->rt, NULL);
        if (status == PTO_TASK_FAILED || status == PTO_POISONED) {
            core->damaged = true;
            cause = find_cause(core, &failure);
            if (failure.line) {
                file = failure.file;
                line = failure.line;
            }
            name_work(detail, sizeof detail, &failure);
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
