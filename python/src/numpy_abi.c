/* numpy_abi.c - NumPy through its binary interface, if the program has loaded it.
 *
 * NumPy exports a table of functions and types, and the layout of its array objects. Both have been
 * stable since version 1.7, across version 2. What is used of them is declared here, so that the module
 * needs no headers of NumPy and runs with any version, or with none. Before it is trusted, what it says
 * about an array is compared with what Python says.
 */
#include <string.h>

#include "binding.h"

/* Places in the table of functions. */
enum {
    API_VERSION = 0,
    API_ARRAY_TYPE = 2,
    API_DESCR_TYPE = 3,
    API_BOOL_TYPE = 8,
    API_GENERIC_TYPE = 10,
    API_DESCR_FROM_TYPE = 45,
    API_UPDATE_FLAGS = 92,
    API_NEW_FROM_DESCR = 94,
    API_SET_BASE = 282
};

#define ARRAY_DENSE 0x3 /* in the order of C, of Fortran */
#define ARRAY_OWNS_DATA 0x4
#define ARRAY_ALIGNED 0x100
#define ARRAY_WRITABLE 0x400
#define NUMBERS 24 /* of types, from 0 on */

typedef struct ArrayLayout {
    PyObject_HEAD char *data;
    int ndim;
    Py_ssize_t *shape;
    Py_ssize_t *strides; /* in bytes */
    PyObject *base;
    PyObject *descr;
    int flags;
    PyObject *weak; /* list of weak references; NULL: none */
} ArrayLayout;

typedef struct DescrLayout {
    PyObject_HEAD PyObject *scalar_type;
    char kind, letter, byte_order, former_flags;
    int number;
} DescrLayout;

typedef PyObject *(*new_fn)(PyTypeObject *type, PyObject *descr, int ndim, const Py_ssize_t *shape,
                            const Py_ssize_t *strides, void *data, int flags, PyObject *object);

static struct {
    bool usable, useless; /* useless: loaded, but with another layout */
    PyTypeObject *array, *descr_type, *generic, *truth;
    new_fn make;
    int (*set_base)(PyObject *array, PyObject *base);
    void (*update_flags)(PyObject *array, int which); /* from shape and strides */
    PyObject *descr[NUMBERS];
    const Dtype *dtypes[NUMBERS];
} numpy;

PyTypeObject *numpy_array;

static void **find_table(PyObject *modules)
{
    static const char *const names[] = {"numpy._core._multiarray_umath",
                                        "numpy.core._multiarray_umath"};
    for (int i = 0; i < 2; i++) {
        PyObject *module = PyDict_GetItemString(modules, names[i]); /* borrowed */
        PyObject *capsule = module ? PyObject_GetAttrString(module, "_ARRAY_API") : NULL;
        void **api = capsule ? PyCapsule_GetPointer(capsule, NULL) : NULL;
        Py_XDECREF(capsule);
        PyErr_Clear();
        if (api) {
            return api;
        }
    }
    return NULL;
}

/* Compares what the layout says about numpy.zeros((2, 3), "f4")[:, ::2] with what is true. */
static bool is_as_expected(PyObject *modules)
{
    PyObject *module = PyDict_GetItemString(modules, "numpy");
    PyObject *whole = module ? PyObject_CallMethod(module, "zeros", "((ii)s)", 2, 3, "f4") : NULL;
    PyObject *part = whole ? PyObject_CallMethod(whole, "diagonal", NULL) : NULL;
    PyObject *weak = part ? PyWeakref_NewRef(part, NULL) : NULL;
    bool good = false;
    if (weak && Py_TYPE(part) == numpy.array && Py_TYPE(whole) == numpy.array) {
        const ArrayLayout *a = (const ArrayLayout *)(void *)whole;
        const ArrayLayout *b = (const ArrayLayout *)(void *)part;
        const DescrLayout *d = (const DescrLayout *)(void *)a->descr;
        good = a->ndim == 2 && a->shape[0] == 2 && a->shape[1] == 3 && a->strides[0] == 12 &&
               a->strides[1] == 4 && (a->flags & ARRAY_WRITABLE) && d->number == 11 &&
               d->byte_order == '=' && b->ndim == 1 && b->shape[0] == 2 && b->strides[0] == 16 &&
               b->data == a->data && !(b->flags & ARRAY_OWNS_DATA) && b->base == whole &&
               (b->flags & ARRAY_ALIGNED) && !a->weak && b->weak == weak;
    }
    Py_XDECREF(weak);
    Py_XDECREF(part);
    Py_XDECREF(whole);
    PyErr_Clear();
    return good;
}

/* Whether another thread is in the middle of importing it, so that the functions that is_as_expected needs may be
 * missing. */
static bool is_importing(PyObject *modules)
{
    PyObject *module = PyDict_GetItemString(modules, "numpy");
    PyObject *spec = module ? PyObject_GetAttrString(module, "__spec__") : NULL;
    PyObject *flag = spec ? PyObject_GetAttrString(spec, "_initializing") : NULL;
    const bool yes = flag && PyObject_IsTrue(flag) > 0;
    Py_XDECREF(flag);
    Py_XDECREF(spec);
    PyErr_Clear();
    return yes;
}

bool numpy_loaded(void)
{
    return numpy.usable;
}

bool numpy_load(void)
{
    if (numpy.usable || numpy.useless) {
        return numpy.usable;
    }
    PyObject *modules = PyImport_GetModuleDict(); /* borrowed */
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    void **api = find_table(modules);
    if (api && PyDict_GetItemString(modules, "numpy")) {
        unsigned version;
        unsigned (*ask)(void);
        memcpy(&ask, &api[API_VERSION], sizeof ask);
        version = ask() >> 24;
        numpy.array = api[API_ARRAY_TYPE];
        numpy.descr_type = api[API_DESCR_TYPE];
        numpy.generic = api[API_GENERIC_TYPE];
        numpy.truth = api[API_BOOL_TYPE];
        memcpy(&numpy.make, &api[API_NEW_FROM_DESCR], sizeof numpy.make);
        memcpy(&numpy.set_base, &api[API_SET_BASE], sizeof numpy.set_base);
        memcpy(&numpy.update_flags, &api[API_UPDATE_FLAGS], sizeof numpy.update_flags);
        PyObject *(*descr_of)(int);
        memcpy(&descr_of, &api[API_DESCR_FROM_TYPE], sizeof descr_of);
        numpy.usable = (version == 1 || version == 2) && is_as_expected(modules);
        numpy.useless = !numpy.usable && !is_importing(modules);
        numpy_array = numpy.usable ? numpy.array : NULL;
        for (int i = 0; numpy.usable && i < NUMBERS; i++) {
            numpy.dtypes[i] = dtype_of_numpy(i);
            numpy.descr[i] = numpy.dtypes[i] ? descr_of(i) : NULL;
        }
    }
    PyErr_Restore(type, value, trace);
    return numpy.usable;
}

bool numpy_is_array(PyObject *object)
{
    return numpy.usable && PyType_IsSubtype(Py_TYPE(object), numpy.array);
}

PyObject *numpy_owner(PyObject *object)
{
    while (object && numpy_is_array(object)) {
        const ArrayLayout *a = (const ArrayLayout *)(void *)object;
        if (a->flags & ARRAY_OWNS_DATA) {
            return object;
        }
        object = a->base;
    }
    return NULL;
}

bool numpy_is_scalar(PyObject *object)
{
    return numpy.usable && PyType_IsSubtype(Py_TYPE(object), numpy.generic);
}

bool numpy_is_bool(PyObject *object)
{
    return numpy.usable && Py_TYPE(object) == numpy.truth;
}

void *numpy_data(PyObject *array)
{
    return ((ArrayLayout *)(void *)array)->data;
}

bool numpy_is_swapped(PyObject *object)
{
    if (!numpy_load() || !PyType_IsSubtype(Py_TYPE(object), numpy.descr_type)) {
        return false;
    }
    const char order = ((const DescrLayout *)(void *)object)->byte_order;
    return order != '=' && order != '|';
}

bool numpy_size(PyObject *descr, const char *who, int64_t *bytes)
{
    PyObject *size = PyObject_GetAttrString(descr, "itemsize");
    PyObject *objects = PyObject_GetAttrString(descr, "hasobject");
    const bool bad = !size || !objects;
    *bytes = size ? PyLong_AsLongLong(size) : -1;
    const bool has = objects && PyObject_IsTrue(objects);
    Py_XDECREF(size);
    Py_XDECREF(objects);
    if (bad || PyErr_Occurred()) {
        return false;
    }
    if (has) {
        PyErr_Format(PyExc_TypeError,
                     "%s has dtype object: tasks work on plain memory, not on Python objects; "
                     "convert it, for example with .astype('f8')",
                     who);
        return false;
    }
    if (*bytes <= 0) {
        PyErr_Format(PyExc_TypeError, "%s has dtype %R, whose elements have no bytes", who, descr);
        return false;
    }
    return true;
}

/* A type that is not in the table: its elements become one more dim, of bytes. */
static bool resolve_other(const ArrayLayout *a, Argument *out, const char *who, Py_ssize_t index,
                          int64_t *bytes)
{
    char name[256];
    PyOS_snprintf(name, sizeof name, "%s: argument %zd", who, index);
    if (!numpy_size(a->descr, name, bytes)) {
        return false;
    }
    if (a->ndim >= PTO_MAX_DIMS) {
        PyErr_Format(PyExc_TypeError, "%s: argument %zd has %d dims of dtype %R: at most %d dims",
                     who, index, a->ndim, a->descr, PTO_MAX_DIMS - 1);
        return false;
    }
    out->dtype = NULL;
    out->descr = a->descr;
    return true;
}

/* Whether an array of another type than ndarray can be used: a subclass may have a mask. Asked past __getattribute__:
 * that of numpy.recarray finds fields. */
static bool check_subclass(PyObject *array, const char *who, Py_ssize_t index)
{
    PyObject *name = PyUnicode_FromString("mask");
    PyObject *mask = name ? PyObject_GenericGetAttr(array, name) : NULL;
    PyErr_Clear();
    Py_XDECREF(name);
    if (mask) {
        Py_DECREF(mask);
        PyErr_Format(PyExc_TypeError,
                     "%s: argument %zd is a masked array: pass its .data and its .mask, each as an "
                     "argument of its own (%R)",
                     who, index, (PyObject *)Py_TYPE(array));
        return false;
    }
    return true;
}

/* What is neither an ndarray nor of a known type. */
RARE static bool resolve_rare(PyObject *array, Argument *out, const char *who, Py_ssize_t index,
                              int64_t *bytes)
{
    const ArrayLayout *a = (const ArrayLayout *)(void *)array;
    const DescrLayout *d = (const DescrLayout *)(void *)a->descr;
    if (Py_TYPE(array) != numpy.array && !check_subclass(array, who, index)) {
        return false;
    }
    if (!out->dtype || (d->byte_order != '=' && d->byte_order != '|')) {
        return resolve_other(a, out, who, index, bytes);
    }
    if (a->ndim > PTO_MAX_DIMS) {
        PyErr_Format(PyExc_ValueError, "%s: argument %zd has %d dims: at most %d are possible", who,
                     index, a->ndim, PTO_MAX_DIMS);
        return false;
    }
    *bytes = out->dtype->bytes;
    return true;
}

/* Whether the memory belongs to an array that nobody else refers to: y[mask], or a view of it such as
 * y[mask][1:]. (A view refers to the array with the memory, not to the views in between.) */
static inline bool is_copy(const ArrayLayout *a)
{
    if (a->flags & ARRAY_OWNS_DATA) {
        return true;
    }
    const ArrayLayout *base = (const ArrayLayout *)(void *)a->base;
    return base && Py_REFCNT(a->base) == 1 && Py_TYPE(a->base) == numpy.array &&
           (base->flags & ARRAY_OWNS_DATA);
}

bool numpy_resolve(PyObject *array, Argument *out, const char *who, Py_ssize_t index)
{
    const ArrayLayout *a = (const ArrayLayout *)(void *)array;
    const DescrLayout *d = (const DescrLayout *)(void *)a->descr;
    const Dtype *dtype = (unsigned)d->number < NUMBERS ? numpy.dtypes[d->number] : NULL;
    int64_t bytes = dtype ? dtype->bytes : 0;
    out->dtype = dtype;
    out->descr = NULL;
    out->keep = array;
    out->keep_is_new = false;
    if (!dtype || (d->byte_order != '=' && d->byte_order != '|') || a->ndim > PTO_MAX_DIMS ||
        Py_TYPE(array) != numpy.array) {
        if (!resolve_rare(array, out, who, index, &bytes)) {
            return false;
        }
    }
    out->readonly = !(a->flags & ARRAY_WRITABLE);
    out->lost = argument_is_temporary(array) && is_copy(a);
    const char *wrong = argument_span(out, a->data, a->ndim, a->shape, a->strides, bytes);
    return !wrong || argument_refuse(wrong, who, index);
}

PyObject *numpy_make(const Dtype *dtype, PyObject *descr, int ndim, const int64_t *shape,
                     const int64_t *strides, void *data, bool writable, PyObject *base)
{
    Py_ssize_t sizes[PTO_MAX_DIMS], steps[PTO_MAX_DIMS];
    PyObject *type = descr ? descr : dtype->numpy >= 0 ? numpy.descr[(int)dtype->numpy] : NULL;
    if (!type) {
        type = numpy.descr[4]; /* bfloat16: its bits, as uint16 */
    }
    for (int i = 0; i < ndim; i++) {
        sizes[i] = shape[i];
        steps[i] = strides ? strides[i] * (descr ? 1 : dtype->bytes) : 0;
    }
    static char nothing; /* an empty array needs an address, or NumPy would allocate */
    Py_INCREF(type);     /* stolen */
    /* Without memory NumPy allocates it, writable; then any flag would ask for column order. */
    const bool allocates = !data && !strides;
    PyObject *array = numpy.make(numpy.array, type, ndim, sizes, strides ? steps : NULL,
                                 data || allocates ? data : &nothing,
                                 writable && !allocates ? ARRAY_WRITABLE : 0, NULL);
    if (array && base) {
        Py_INCREF(base); /* stolen */
        if (numpy.set_base(array, base) < 0) {
            Py_DECREF(array);
            return NULL;
        }
    }
    return array;
}

/* ---- Arrays that are used again ----
 *
 * To make an array and to free it takes longer than all else that one task needs. So the array of one call of a kernel
 * serves the next one, if nobody else has it: it lets go of its memory, and gets other memory. All else about it stays,
 * so it must be as a new one would be.
 */

static inline bool has_dtype(const ArrayLayout *a, const Dtype *dtype)
{
    return dtype && dtype->numpy >= 0 && a->descr == numpy.descr[(int)dtype->numpy];
}

bool numpy_put_away(PyObject *array, const Dtype *dtype)
{
    ArrayLayout *a = (ArrayLayout *)(void *)array;
    if (Py_TYPE(array) != numpy.array || Py_REFCNT(array) != 1 || a->weak ||
        (a->flags & ARRAY_OWNS_DATA) || !has_dtype(a, dtype)) {
        return false;
    }
    PyObject *base = a->base;
    a->base = NULL;
    Py_XDECREF(base);
    return true;
}

bool numpy_use_again(PyObject *array, const Dtype *dtype, int ndim, const int64_t *shape,
                     const int64_t *strides, void *data, bool writable, PyObject *base)
{
    ArrayLayout *a = (ArrayLayout *)(void *)array;
    const int flags = ARRAY_ALIGNED | (writable ? ARRAY_WRITABLE : 0);
    if (Py_TYPE(array) != numpy.array || a->ndim != ndim || !has_dtype(a, dtype) ||
        (a->flags & ~ARRAY_DENSE) != flags || !data || !strides ||
        (uintptr_t)data % dtype->bytes != 0) {
        return false;
    }
    for (int i = 0; i < ndim; i++) {
        if (a->shape[i] != shape[i] || a->strides[i] != strides[i] * dtype->bytes) {
            return false;
        }
    }
    numpy.update_flags(array, ARRAY_DENSE); /* a kernel that sets a.data leaves wrong ones */
    a->data = data;
    Py_INCREF(base); /* stolen */
    return numpy.set_base(array, base) == 0 || (PyErr_Clear(), false);
}
