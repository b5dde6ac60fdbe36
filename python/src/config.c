/* config.c - the options of pto.Runtime(...). */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "binding.h"

/* Options that are numbers. Fields and meanings: pto/config.h. `none`: 0 means none, not the default. */
typedef struct Option {
    const char *name;
    size_t at;
    size_t size;
    bool none;
} Option;

#define OPTION(name, none)                                                                         \
    {                                                                                              \
#name, offsetof(pto_config, name), sizeof(((pto_config *)0)->name), none                   \
    }
static const Option options[] = {
    OPTION(workers, true),
    OPTION(levels, false),
    OPTION(ring_tasks, false),
    OPTION(heap_bytes, false),
    OPTION(deps, false),
    OPTION(arg_bytes, false),
    OPTION(map_entries, false),
    OPTION(buffers, false),
    OPTION(spin, true),
    OPTION(inline_ns, true),
    OPTION(overlap_budget, false),
    OPTION(guard, true),
    OPTION(device_heap_bytes, false),
    OPTION(trace_limit, false),
    OPTION(crash_report, true),
    OPTION(map_twice, false),
};

/* A kernel in Python takes half a microsecond, and a submit as long: to hand such a task to a worker would take
 * both threads longer, since the GIL goes there and back. */
#define INLINE_NS 1000

static bool set_number(pto_config *config, const Option *o, PyObject *value)
{
    int overflow = 0;
    PyObject *index = PyNumber_Index(value);
    const long long given = index ? PyLong_AsLongLongAndOverflow(index, &overflow) : -1;
    Py_XDECREF(index);
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_TypeError)) {
        return false; /* of the program */
    }
    if (overflow > 0 || (o->size == 4 && given > UINT32_MAX)) {
        PyErr_Format(PyExc_OverflowError, "Runtime: %s=%R is too large", o->name, value);
        return false;
    }
    if (given < 0) {
        PyErr_Format(PyExc_TypeError, "Runtime: %s must be a number that is not negative, not %R",
                     o->name, value);
        return false;
    }
    const uint64_t number = (uint64_t)given;
    const uint32_t narrow = number == 0 && o->none ? UINT32_MAX : (uint32_t)number;
    const uint64_t wide = number == 0 && o->none ? UINT32_MAX : number;
    memcpy((char *)config + o->at, o->size == 4 ? (const void *)&narrow : (const void *)&wide,
           o->size);
    return true;
}

static bool set_place(pto_config *config, PyObject *value)
{
    const char *place = text_of(value, "Runtime: place");
    if (!place) {
        return false;
    }
    if (strcmp(place, "thread") != 0 &&
        strcmp(place, "inline") != 0) { /* processes: no Python there */
        PyErr_Format(PyExc_ValueError, "Runtime: place must be 'inline' or 'thread', not %R",
                     value);
        return false;
    }
    config->place = *place == 't' ? PTO_PLACE_THREAD : PTO_PLACE_INLINE;
    return true;
}

static bool set_option(pto_config *config, bool *explains, PyObject *key, PyObject *value)
{
    if (value == Py_None) {
        return true;
    }
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        if (PyUnicode_CompareWithASCIIString(key, options[i].name) == 0) {
            return set_number(config, &options[i], value);
        }
    }
    if (PyUnicode_CompareWithASCIIString(key, "trace") == 0) {
        config->trace = text_of(value, "Runtime: trace");
        return config->trace != NULL;
    }
    if (PyUnicode_CompareWithASCIIString(key, "device") == 0) {
        const char *name = text_of(value, "Runtime: device");
        const pto_status s = name ? pto_device_parse(name, &config->device) : PTO_OK;
        return name && (s == PTO_OK || (error_raise(NULL, s, NULL, 0), false));
    }
    if (PyUnicode_CompareWithASCIIString(key, "explain") == 0) {
        if (!PyLong_Check(value) && !(numpy_load() && numpy_is_bool(value))) {
            PyErr_Format(PyExc_TypeError, "Runtime: explain must be True or False, not %R", value);
            return false;
        }
        *explains = PyObject_IsTrue(value) > 0;
        return !PyErr_Occurred();
    }
    if (PyUnicode_CompareWithASCIIString(key, "place") == 0) {
        return set_place(config, value);
    }
    PyErr_Format(PyExc_TypeError, "Runtime: unknown option '%U'; see help(pto.Runtime)", key);
    return false;
}

bool config_read(PyObject *given, pto_config *config, bool *explains)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;
    while (given && PyDict_Next(given, &at, &key, &value)) {
        if (!set_option(config, explains, key, value)) {
            return false;
        }
    }
    const char *place = config->place ? NULL : getenv("PTO_SCHEDULER");
    if (place && strcmp(place, "process") == 0) {
        PyErr_SetString(
            PyExc_ValueError,
            "Runtime: PTO_SCHEDULER=process: kernels of Python programs run in threads of "
            "this process; unset the variable, or give place='inline'");
        return false;
    }
    if (!config->inline_ns && !getenv("PTO_INLINE_NS")) {
        config->inline_ns = INLINE_NS;
    }
    return true;
}
