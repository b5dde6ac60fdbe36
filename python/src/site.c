/* site.c - the file and line of the Python code that calls. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "binding.h"

/* Names of files are kept for ever: the runtime knows a submit site by the pointer. */
static const char *keep_name(PyObject *name)
{
    static PyObject *names; /* dict: name -> address of its copy */
    if (!names && !(names = PyDict_New())) {
        return NULL;
    }
    PyObject *known = PyDict_GetItemWithError(names, name);
    if (known) {
        return PyLong_AsVoidPtr(known);
    }
    const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
    char *copy = text ? strdup(text) : NULL;
    PyObject *address = copy ? PyLong_FromVoidPtr(copy) : NULL;
    if (address) {
        (void)PyDict_SetItem(names, name, address);
        Py_DECREF(address);
    }
    PyErr_Clear();
    return copy;
}

/* A place in the program, found before. To find a line takes as long as the function is. */
typedef struct Site {
    PyObject *code;
    const char *file;
    int at; /* index of the instruction */
    int line;
} Site;

#define SITES 1024

RARE static void find_site(Site *site, PyFrameObject *frame, PyObject *code, int at)
{
    PyObject *name = PyObject_GetAttrString(code, "co_filename");
    PyObject *old = site->code;
    site->file = name ? keep_name(name) : NULL;
    site->line = PyFrame_GetLineNumber(frame);
    site->at = at;
    site->code = Py_NewRef(code);
    Py_XDECREF(old);
    Py_XDECREF(name);
    PyErr_Clear();
}

typedef int (*last_fn)(PyFrameObject *frame);

/* frame.f_lasti, slowly. */
static int ask_frame(PyFrameObject *frame)
{
    PyObject *index = PyObject_GetAttrString((PyObject *)(void *)frame, "f_lasti");
    const long at = index ? PyLong_AsLong(index) : -1;
    Py_XDECREF(index);
    return (int)at;
}

/* The index of the instruction that a frame executes. The interpreter has a function for it, which is public,
 * but not a part of the stable interface. */
static int last_instruction(PyFrameObject *frame)
{
    static last_fn ask;
    if (!ask) {
        void *found = dlsym(RTLD_DEFAULT, "PyFrame_GetLasti");
        memcpy(&ask, &found, sizeof ask);
        ask = ask ? ask : ask_frame;
    }
    return ask(frame);
}

const char *where(int *line)
{
    static Site sites[SITES];
    PyFrameObject *frame = PyEval_GetFrame();
    *line = 0;
    if (!frame) {
        return NULL;
    }
    PyObject *code = (PyObject *)(void *)PyFrame_GetCode(frame);
    const int at = last_instruction(frame);
    Site *site = &sites[((uintptr_t)code / 32 + (uintptr_t)at * 37) % SITES];
    if (site->code != code || site->at != at) {
        find_site(site, frame, code, at);
    }
    Py_DECREF(code);
    *line = site->line;
    return site->file;
}
