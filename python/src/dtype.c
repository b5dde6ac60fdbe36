/* dtype.c - element types and their names. */
#include <string.h>

#include "binding.h"

/* Numbers of NumPy: its type enumeration, which belongs to its binary interface. long and long long
 * are both int64 here. */
static const Dtype table[] = {
    {"float32", "f4", "float", 'f', 11, 4, PTO_FLOAT32, false},
    {"float64", "f8", "double", 'd', 12, 8, PTO_FLOAT64, false},
    {"int32", "i4", "int32_t", 'i', 5, 4, PTO_INT32, false},
    {"int64", "i8", "int64_t", 'q', 7, 8, PTO_INT64, false},
    {"uint8", "u1", "uint8_t", 'B', 2, 1, PTO_UINT8, false},
    {"bool", "b1", "bool", '?', 0, 1, PTO_BOOL, false},
    {"float16", "f2", "_Float16", 'e', 23, 2, PTO_FLOAT16, false},
    {"int16", "i2", "int16_t", 'h', 3, 2, PTO_INT16, false},
    {"int8", "i1", "int8_t", 'b', 1, 1, PTO_INT8, false},
    {"uint64", "u8", "uint64_t", 'Q', 8, 8, PTO_UINT64, false},
    {"uint16", "u2", "uint16_t", 'H', 4, 2, PTO_INT16, true},
    {"uint32", "u4", "uint32_t", 'I', 6, 4, PTO_INT32, true},
    {"complex64", "c8", "float _Complex", 'F', 14, 8, PTO_INT64, true},
    {"bfloat16", "bf16", "__bf16", 'E', -1, 2, PTO_BFLOAT16, false},
};
#define COUNT (sizeof table / sizeof *table)

static const struct {
    const char *alias, *name;
} aliases[] = {
    {"float", "float64"},       {"int", "int64"},     {"f", "float32"},     {"d", "float64"},
    {"double", "float64"},      {"char", "int8"},     {"short", "int16"},   {"long", "int64"},
    {"single", "float32"},      {"half", "float16"},  {"?", "bool"},        {"int_t", "int32"},
    {"ptrdiff_t", "int64"},     {"size_t", "uint64"}, {"ssize_t", "int64"}, {"int8_t", "int8"},
    {"unsigned char", "uint8"},
};

const Dtype *dtype_of_name(const char *name)
{
    while (*name == '<' || *name == '=' || *name == '|') {
        name++; /* the order of bytes of this machine */
    }
    for (size_t i = 0; i < COUNT; i++) {
        if (strcmp(name, table[i].name) == 0 || strcmp(name, table[i].brief) == 0) {
            return &table[i];
        }
    }
    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++) {
        if (strcmp(name, aliases[i].alias) == 0) {
            return dtype_of_name(aliases[i].name);
        }
    }
    return NULL;
}

const Dtype *dtype_of_format(const char *format, Py_ssize_t bytes)
{
    if (!format) {
        format = "B";
    }
    if (*format == '@' || *format == '=' || *format == '<') {
        format++;
    }
    if (!*format || format[1]) {
        return format[0] == 'Z' && format[1] == 'f' && !format[2] ? dtype_of_name("complex64")
                                                                  : NULL;
    }
    const char one = *format == 'l' || *format == 'n'   ? 'q'
                     : *format == 'L' || *format == 'N' ? 'Q'
                     : *format == 'c'                   ? 'B'
                                                        : *format;
    for (size_t i = 0; i < COUNT; i++) {
        if (table[i].format == one && table[i].bytes == bytes && one != 'F' && one != 'E') {
            return &table[i];
        }
    }
    return NULL;
}

const Dtype *dtype_of_numpy(int number)
{
    number -= number == 9 || number == 10 ? 2 : 0; /* long long */
    for (size_t i = 0; i < COUNT; i++) {
        if (table[i].numpy == number) {
            return &table[i];
        }
    }
    return NULL;
}

const Dtype *dtype_of_pto(pto_dtype dtype)
{
    for (size_t i = 0; i < COUNT; i++) {
        if (table[i].as == dtype) {
            return &table[i];
        }
    }
    return NULL;
}

/* Whether an attribute is not there, or not a string. Another exception stays set. */
static bool is_no_text(PyObject **text)
{
    if (*text && !PyUnicode_Check(*text)) {
        Py_CLEAR(*text);
        return true;
    }
    const bool missing = !*text && PyErr_ExceptionMatches(PyExc_AttributeError);
    if (missing) {
        PyErr_Clear();
    }
    return missing;
}

/* An element type of the table: "f4", numpy.float32, float ... NULL, perhaps with an exception: none of them. */
static const Dtype *find(PyObject *object)
{
    PyObject *text = NULL;
    const Dtype *found = NULL;
    if (PyUnicode_Check(object)) {
        Py_INCREF(object);
        text = object;
    } else {
        text = PyObject_GetAttrString(object, "name"); /* numpy.dtype */
        if (is_no_text(&text)) {
            text = PyObject_GetAttrString(object, "__name__"); /* float, numpy.float32 */
        }
        if (is_no_text(&text)) {
            text = PyObject_Str(object); /* torch.float32 */
        }
    }
    Py_ssize_t length = 0;
    const char *name = text ? PyUnicode_AsUTF8AndSize(text, &length) : NULL;
    if (name && strlen(name) == (size_t)length) {
        found = dtype_of_name(strncmp(name, "torch.", 6) == 0 ? name + 6 : name);
    }
    Py_XDECREF(text);
    return found;
}

static PyObject *refuse(PyObject *object)
{
    return PyErr_Format(
        PyExc_TypeError,
        "unknown dtype %R: use a name such as 'f4', 'float32' or 'i8', or a NumPy dtype", object);
}

/* What NumPy takes an object for: a new reference. */
static PyObject *ask_numpy(PyObject *object)
{
    PyObject *numpy = object == Py_None || !numpy_load()
                          ? NULL
                          : PyDict_GetItemString(PyImport_GetModuleDict(), "numpy");
    PyObject *descr = numpy ? PyObject_CallMethod(numpy, "dtype", "(O)", object) : NULL;
    PyObject *inner = descr ? PyObject_GetAttrString(descr, "subdtype") : NULL;
    const bool good = inner == Py_None; /* else it stands for an array of its elements */
    Py_XDECREF(inner);
    if (good) {
        return descr;
    }
    Py_XDECREF(descr);
    if (!PyErr_Occurred() || PyErr_ExceptionMatches(PyExc_Exception)) {
        PyErr_Clear();
        refuse(object);
    }
    return NULL;
}

bool dtype_read(PyObject *object, const Dtype **dtype, PyObject **descr, int64_t *bytes)
{
    *descr = NULL;
    *dtype = numpy_is_swapped(object) ? NULL : find(object);
    if (!*dtype && !PyErr_Occurred() && (*descr = ask_numpy(object)) &&
        !numpy_size(*descr, "a managed tensor", bytes)) {
        Py_CLEAR(*descr);
    }
    return *dtype || *descr;
}
