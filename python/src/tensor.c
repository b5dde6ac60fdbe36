/* tensor.c - pto.Tensor: a tensor that was made before. It is a view of an array (pto.tensor(x)) or
 * managed memory (rt.temp, rt.empty). Slicing it makes views, as with arrays. */
#include <string.h>

#include "binding.h"

bool tensor_is_bytes(const Tensor *tensor)
{
    return tensor->descr != NULL;
}

static int32_t ndim_of(const Tensor *tensor)
{
    return tensor->t.ndim - (tensor_is_bytes(tensor) ? 1 : 0);
}

/* Memory of one that has died, for the next. Most slices are dropped at once. */
static Tensor *spare;

static Tensor *allocate(void)
{
    Tensor *made = spare;
    spare = NULL;
    return made ? (Tensor *)(void *)PyObject_Init(OBJECT(made), tensor_type)
                : PyObject_GC_New(Tensor, tensor_type);
}

/* A collector looks at it only if its memory may lead back to it. A plain array does not. */
PyObject *tensor_new(const pto_tensor *t, const Dtype *dtype, PyObject *descr, PyObject *keep,
                     bool readonly)
{
    Tensor *made = allocate();
    if (made) {
        made->t = *t;
        made->dtype = dtype;
        made->descr = descr;
        made->keep = keep;
        made->readonly = readonly;
        Py_XINCREF(descr);
        Py_XINCREF(keep);
        if (keep && Py_TYPE(keep) != numpy_array && PyObject_GC_IsTracked(keep)) {
            PyObject_GC_Track(made);
        }
    }
    return (PyObject *)(void *)made;
}

static int tensor_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((Tensor *)(void *)self)->keep);
    return 0;
}

static int tensor_clear(PyObject *self)
{
    Tensor *tensor = (Tensor *)(void *)self;
    tensor->t.storage = NULL; /* any use of it is refused from now on */
    tensor->t.storage_bytes = 0;
    Py_CLEAR(tensor->keep);
    return 0;
}

static void tensor_dealloc(PyObject *self)
{
    Tensor *tensor = (Tensor *)(void *)self;
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    Py_XDECREF(tensor->descr);
    Py_XDECREF(tensor->keep);
    if (spare) {
        PyObject_GC_Del(self);
    } else {
        spare = tensor;
    }
    Py_DECREF(type);
}

PyObject *tensor_shape(const int64_t *sizes, int32_t n, int64_t scale)
{
    PyObject *tuple = PyTuple_New(n);
    for (int32_t i = 0; tuple && i < n; i++) {
        PyObject *number = PyLong_FromLongLong(sizes[i] * scale);
        if (!number || PyTuple_SetItem(tuple, i, number) < 0) {
            Py_CLEAR(tuple);
        }
    }
    return tuple;
}

/* A number of a shape; -1 may be an exception. NULL: there is one. */
static int64_t read_size(PyObject *index)
{
    int overflow = 0;
    const long long size = index ? PyLong_AsLongLongAndOverflow(index, &overflow) : -1;
    if (overflow) {
        PyErr_Format(PyExc_OverflowError, "a shape: %R does not fit into 64 bits", index);
    }
    return size;
}

bool tensor_read_shape(PyObject *object, int64_t *shape, int32_t *ndim)
{
    if (PyIndex_Check(object) && !PySequence_Check(object)) {
        PyObject *index = PyNumber_Index(object);
        shape[0] = read_size(index);
        Py_XDECREF(index);
        *ndim = 1;
        return !PyErr_Occurred();
    }
    const bool is_text = PyUnicode_Check(object) || PyBytes_Check(object);
    const Py_ssize_t n = is_text || !PySequence_Check(object) ? -1 : PySequence_Size(object);
    if (n < 0) {
        PyErr_Format(PyExc_TypeError, "a shape is a number or a sequence of numbers, not %R",
                     (PyObject *)Py_TYPE(object));
        return false;
    }
    if (n > PTO_MAX_DIMS) {
        PyErr_Format(PyExc_ValueError, "a shape of %zd dims: at most %d are possible", n,
                     PTO_MAX_DIMS);
    }
    for (Py_ssize_t i = 0; i < n && !PyErr_Occurred(); i++) {
        PyObject *item = PySequence_GetItem(object, i);
        PyObject *index = item ? PyNumber_Index(item) : NULL;
        shape[i] = read_size(index);
        Py_XDECREF(item);
        Py_XDECREF(index);
    }
    *ndim = (int32_t)n;
    return !PyErr_Occurred();
}

/* A view of the same memory. */
static PyObject *like(const Tensor *tensor, pto_status s, const pto_tensor *t)
{
    if (s != PTO_OK) {
        PyErr_Format(PyExc_ValueError, "%s", pto_error_detail());
        return NULL;
    }
    return tensor_new(t, tensor->dtype, tensor->descr, tensor->keep, tensor->readonly);
}

/* ---- Indexing ---- */

static bool index_one(const Tensor *tensor, pto_tensor *t, int32_t *dim, PyObject *key)
{
    if (PySlice_Check(key)) {
        Py_ssize_t start, stop, step;
        if (PySlice_Unpack(key, &start, &stop, &step) < 0) {
            return false;
        }
        const Py_ssize_t n = PySlice_AdjustIndices(t->shape[*dim], &start, &stop, step);
        pto_tensor view = *t;
        view.shape[*dim] = n;
        view.strides[*dim] *= n > 1 ? step : 1; /* a step beyond the end may be any number */
        /* An empty tensor may have no memory to point to. */
        if (n && pto_tensor_numel(&tensor->t)) {
            view.offset += start * t->strides[*dim];
        }
        view.kind = PTO_SHALLOW_VIEW;
        *t = view;
        (*dim)++;
        return true;
    }
    const bool is_mask = PyBool_Check(key) || numpy_is_bool(key);
    PyObject *index = is_mask ? NULL : PyNumber_Index(key);
    if (!index && PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_TypeError)) {
        return false;
    }
    if (!index) {
        PyErr_Format(PyExc_TypeError, "an index of a tensor is an integer, a slice or ..., not %R",
                     (PyObject *)Py_TYPE(key));
        return false;
    }
    int overflow = 0;
    const int64_t i = PyLong_AsLongLongAndOverflow(index, &overflow);
    const int64_t n = t->shape[*dim];
    const bool good = !overflow && i >= -n && i < n;
    if (!good) {
        PyErr_Format(PyExc_IndexError, "index %S of a dim of size %lld", index, (long long)n);
    }
    Py_DECREF(index);
    if (!good) {
        return false;
    }
    const pto_status s = pto_tensor_select(t, *dim, i < 0 ? i + n : i, t);
    if (s != PTO_OK) {
        PyErr_SetString(PyExc_IndexError, pto_error_detail());
        return false;
    }
    return true;
}

static PyObject *tensor_getitem(PyObject *self, PyObject *key)
{
    const Tensor *tensor = (const Tensor *)(const void *)self;
    PyObject *keys = PyTuple_Check(key) ? key : PyTuple_Pack(1, key);
    if (!keys) {
        return NULL;
    }
    Py_XINCREF(keys == key ? key : NULL);
    const Py_ssize_t n = PyTuple_Size(keys);
    pto_tensor t = tensor->t;
    int32_t dim = 0;
    Py_ssize_t given = n;
    bool good = true;
    for (Py_ssize_t i = 0; i < n; i++) {
        given -= PyTuple_GetItem(keys, i) == Py_Ellipsis;
    }
    const int32_t ndim = ndim_of(tensor);
    if (given > ndim) {
        PyErr_Format(PyExc_IndexError, "%zd indices for a tensor of %d dims", given, ndim);
        good = false;
    } else if (given < n - 1) {
        PyErr_SetString(PyExc_IndexError, "an index of a tensor has one ... at most");
        good = false;
    }
    for (Py_ssize_t i = 0; good && i < n; i++) {
        PyObject *one = PyTuple_GetItem(keys, i);
        if (one == Py_Ellipsis) {
            dim += ndim - (int32_t)given;
        } else {
            good = index_one(tensor, &t, &dim, one);
        }
    }
    Py_DECREF(keys);
    return good ? like(tensor, pto_tensor_check(&t), &t) : NULL;
}

static Py_ssize_t tensor_len(PyObject *self)
{
    const Tensor *tensor = (const Tensor *)(const void *)self;
    if (ndim_of(tensor) == 0) {
        PyErr_SetString(PyExc_TypeError, "a tensor without dims has no length");
        return -1;
    }
    return tensor->t.shape[0];
}

/* ---- Other views ---- */

static PyObject *tensor_transpose(PyObject *self, PyObject *args)
{
    const Tensor *tensor = (const Tensor *)(const void *)self;
    const int32_t n = ndim_of(tensor);
    int32_t perm[PTO_MAX_DIMS];
    int64_t given[PTO_MAX_DIMS];
    int32_t count = 0;
    for (int32_t d = 0; d < tensor->t.ndim; d++) {
        perm[d] = d < n ? n - 1 - d : d;
    }
    if (PyTuple_Size(args) > 0) {
        PyObject *order = PyTuple_Size(args) == 1 && !PyLong_Check(PyTuple_GetItem(args, 0))
                              ? PyTuple_GetItem(args, 0)
                              : args;
        if (!tensor_read_shape(order, given, &count)) {
            return NULL;
        }
        if (count != n) {
            PyErr_Format(PyExc_ValueError, "%d dims for a transpose of %d", count, n);
            return NULL;
        }
        for (int32_t d = 0; d < n; d++) {
            const int64_t at = given[d] < 0 ? given[d] + n : given[d];
            if (at < 0 || at >= n) {
                PyErr_Format(PyExc_ValueError, "transpose: dim %lld of a tensor of %d",
                             (long long)given[d], n);
                return NULL;
            }
            perm[d] = (int32_t)at;
        }
    }
    pto_tensor t;
    const pto_status s = pto_tensor_permute(&tensor->t, perm, &t);
    return like(tensor, s, &t);
}

static PyObject *tensor_reshape(PyObject *self, PyObject *args)
{
    const Tensor *tensor = (const Tensor *)(const void *)self;
    int64_t shape[PTO_MAX_DIMS];
    int32_t ndim;
    PyObject *given = PyTuple_Size(args) == 1 ? PyTuple_GetItem(args, 0) : args;
    if (!tensor_read_shape(given, shape, &ndim)) {
        return NULL;
    }
    if (tensor_is_bytes(tensor)) { /* the dim of bytes stays */
        if (ndim == PTO_MAX_DIMS) {
            PyErr_Format(PyExc_ValueError, "%d dims of this dtype: at most %d are possible", ndim,
                         PTO_MAX_DIMS - 1);
            return NULL;
        }
        shape[ndim++] = tensor->t.shape[tensor->t.ndim - 1];
    }
    pto_tensor t;
    const pto_status s = pto_tensor_reshape(&tensor->t, ndim, shape, &t);
    return like(tensor, s, &t);
}

/* ---- Properties ---- */

static PyObject *get_shape(PyObject *self, void *unused)
{
    const Tensor *tensor = (const Tensor *)(const void *)self;
    (void)unused;
    return tensor_shape(tensor->t.shape, ndim_of(tensor), 1);
}

static PyObject *get_strides(PyObject *self, void *unused)
{
    const Tensor *tensor = (const Tensor *)(const void *)self;
    (void)unused;
    return tensor_shape(tensor->t.strides, ndim_of(tensor),
                        tensor->dtype ? tensor->dtype->bytes : 1);
}

static PyObject *get_ndim(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromLong(ndim_of((const Tensor *)(const void *)self));
}

static PyObject *get_dtype(PyObject *self, void *unused)
{
    const Tensor *tensor = (const Tensor *)(const void *)self;
    (void)unused;
    return tensor->dtype ? PyUnicode_FromString(tensor->dtype->name) : PyObject_Str(tensor->descr);
}

static PyObject *get_managed(PyObject *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(((const Tensor *)(const void *)self)->t.owner != 0);
}

static PyObject *get_device(PyObject *self, void *unused)
{
    const pto_device d = ((const Tensor *)(const void *)self)->t.device;
    (void)unused;
    return PyUnicode_FromFormat("%s:%d", pto_device_name(d.type), d.index);
}

static PyObject *get_t(PyObject *self, void *unused)
{
    (void)unused;
    PyObject *none = PyTuple_New(0);
    PyObject *made = none ? tensor_transpose(self, none) : NULL;
    Py_XDECREF(none);
    return made;
}

static PyObject *tensor_repr(PyObject *self)
{
    const Tensor *tensor = (const Tensor *)(const void *)self;
    PyObject *shape = get_shape(self, NULL), *dtype = get_dtype(self, NULL);
    PyObject *text = shape && dtype ? PyUnicode_FromFormat("<pto.Tensor %S %S%s>", dtype, shape,
                                                           tensor->t.owner    ? ", managed"
                                                           : tensor->readonly ? ", read-only"
                                                                              : "")
                                    : NULL;
    Py_XDECREF(shape);
    Py_XDECREF(dtype);
    return text;
}

static PyObject *tensor_array(PyObject *self, PyObject *args)
{
    (void)args;
    PyErr_Format(PyExc_TypeError,
                 "%R has no memory that an array could share: rt.read(tensor) copies "
                 "it, and a kernel gets it as an array",
                 self);
    return NULL;
}

static PyObject *tensor_overlaps(PyObject *self, PyObject *other)
{
    Argument a;
    if (!argument_of(other, &a, "overlaps", 0)) {
        return NULL;
    }
    const bool yes = pto_tensor_overlaps(&((const Tensor *)(const void *)self)->t, a.tensor);
    argument_drop(&a);
    return PyBool_FromLong(yes);
}

static PyGetSetDef tensor_getset[] = {
    {"shape", get_shape, NULL, "Sizes of the dims, the outermost first.", NULL},
    {"strides", get_strides, NULL, "Distance between neighbours in each dim, in bytes.", NULL},
    {"ndim", get_ndim, NULL, "Number of dims.", NULL},
    {"dtype", get_dtype, NULL, "Name of the element type.", NULL},
    {"device", get_device, NULL, "Where the memory is: 'cpu:0', 'sim:0' ...", NULL},
    {"managed", get_managed, NULL, "Whether the memory belongs to a runtime.", NULL},
    {"T", get_t, NULL, "The transposed view.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef tensor_methods[] = {
    {"transpose", tensor_transpose, METH_VARARGS,
     "transpose($self, *dims)\n--\n\nA view with other order of dims."},
    {"reshape", tensor_reshape, METH_VARARGS,
     "reshape($self, *shape)\n--\n\nA view with another shape; ValueError if that needs a copy."},
    {"overlaps", tensor_overlaps, METH_O,
     "overlaps($self, other, /)\n--\n\nWhether the two share a byte. The answer is exact."},
    {"__array__", tensor_array, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot tensor_slots[] = {
    {Py_tp_dealloc, (void *)tensor_dealloc},
    {Py_tp_traverse, (void *)tensor_traverse},
    {Py_tp_clear, (void *)tensor_clear},
    {Py_tp_repr, (void *)tensor_repr},
    {Py_tp_getset, tensor_getset},
    {Py_tp_methods, tensor_methods},
    {Py_mp_subscript, (void *)tensor_getitem},
    {Py_mp_length, (void *)tensor_len},
    {Py_tp_doc,
     "A tensor: a view of an array (pto.tensor) or memory of a runtime (rt.temp, rt.empty).\n\n"
     "Slices of it are views. Its elements are read with rt.read(tensor); kernels get it as an "
     "array."},
    {0, NULL},
};
PyType_Spec tensor_spec = {
    "pto.Tensor", sizeof(Tensor), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, tensor_slots};
