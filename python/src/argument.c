/* argument.c - an array, a buffer or a DLPack tensor becomes a pto_tensor.
 *
 * NumPy arrays are read directly (numpy_abi.c). Everything else is held by a Memory object: an export of
 * the buffer protocol, which also keeps a bytearray from being resized, or a DLPack tensor, which is
 * given back to its library when the object dies. Memory on a GPU becomes a tensor on nvidia:N.
 */
#include <stddef.h>
#include <string.h>

#include <pto/dlpack.h>

#include "binding.h"

typedef struct Memory {
    PyObject_HEAD Py_buffer buffer; /* buffer.obj NULL: none */
    pto_dl_managed *dl;
    pto_dl_versioned *versioned;
    Arrival *arrival; /* of memory on a GPU; else NULL */
} Memory;

static void memory_dealloc(PyObject *self)
{
    Memory *m = (Memory *)(void *)self;
    PyTypeObject *type = Py_TYPE(self);
    PyObject *error, *value, *trace;
    PyObject_GC_UnTrack(self);
    PyErr_Fetch(&error, &value, &trace); /* the owner may run Python here, which would lose it */
    PyBuffer_Release(&m->buffer);
    pto_dlpack_release(&m->dl);
    pto_dlpack_release_versioned(&m->versioned);
    PyErr_Restore(error, value, trace);
    arrival_free(m->arrival);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

/* There is no tp_clear: what refers to the memory may use it. A pto.Tensor lets go of it, and with that ends a cycle. */
static int memory_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((Memory *)(void *)self)->buffer.obj);
    return 0;
}

static PyType_Slot memory_slots[] = {
    {Py_tp_dealloc, (void *)memory_dealloc},
    {Py_tp_traverse, (void *)memory_traverse},
    {Py_tp_doc, "Memory of another object, for as long as a task needs it."},
    {0, NULL},
};
PyType_Spec memory_spec = {
    "pto._pto.Memory", sizeof(Memory), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, memory_slots};

static Memory *memory_new(void)
{
    Memory *m = PyObject_GC_New(Memory, memory_type);
    if (m) {
        memset(&m->buffer, 0, sizeof m->buffer);
        m->dl = NULL;
        m->versioned = NULL;
        m->arrival = NULL;
    }
    return m;
}

Arrival *argument_arrival(const Argument *argument)
{
    return ((const Memory *)(const void *)argument->keep)->arrival;
}

/* ---- Shapes and strides ---- */

/* The library compares two words of a tensor at a time. A processor takes them from a store that is not
 * in the cache yet only if one store has written both. */
static inline void put_pair(void *at, uint64_t first, uint64_t second)
{
    const uint64_t pair __attribute__((vector_size(16))) = {first, second};
    memcpy(at, &pair, sizeof pair);
}

static inline void put_four(void *at, int32_t a, int32_t b, int32_t c, int32_t d)
{
    const int32_t four __attribute__((vector_size(16))) = {a, b, c, d};
    memcpy(at, &four, sizeof four);
}

_Static_assert(offsetof(pto_tensor, storage_bytes) == offsetof(pto_tensor, storage) + 8 &&
                   offsetof(pto_tensor, owner) == offsetof(pto_tensor, offset) + 8 &&
                   offsetof(pto_tensor, dtype) == offsetof(pto_tensor, ndim) + 4 &&
                   offsetof(pto_tensor, device) == offsetof(pto_tensor, ndim) + 8 &&
                   sizeof(pto_dtype) == 4 && sizeof(pto_device) == 8 && sizeof(void *) == 8,
               "fields that are written together stand together");

/* What the dims so far span, in bytes from the first element, and what is wrong with them. (Flags are words,
 * so that the compiler keeps them in registers.) */
typedef struct Span {
    int64_t low, high;
    int64_t empty, beyond, odd;
} Span;

/* Adds a dim, and returns its stride in elements. */
static inline int64_t add_dim(Span *s, int64_t n, int64_t stride, int shift)
{
    int64_t reach, far = n > 1 ? stride : 0; /* the stride of one element means nothing */
    s->empty |= n == 0;
    s->odd |= far & ((1LL << shift) - 1);
    s->beyond |= __builtin_mul_overflow(n - 1, far, &reach);
    if (far < 0) {
        s->beyond |= __builtin_add_overflow(s->low, reach, &s->low);
    } else {
        s->beyond |= __builtin_add_overflow(s->high, reach, &s->high);
    }
    return far >> shift;
}

/* Sets all but shape and strides. */
static inline void set_rest(pto_tensor *t, void *storage, int64_t bytes, int64_t offset, int ndim,
                            pto_dtype dtype)
{
    t->generation = t->version = t->reserved = 0;
    t->kind = PTO_RAW;
    put_pair(&t->storage, (uint64_t)(uintptr_t)storage, (uint64_t)bytes);
    put_pair(&t->offset, (uint64_t)offset, 0);
    put_four(&t->ndim, ndim, (int32_t)dtype, PTO_DEVICE_CPU, 0);
}

static inline void set_no_dims(pto_tensor *t)
{
    for (int d = 0; d < PTO_MAX_DIMS; d += 2) {
        put_pair(t->shape + d, 0, 0);
        put_pair(t->strides + d, 0, 0);
    }
}

static __attribute__((noinline)) const char *span_any(Argument *out, char *data, int ndim,
                                                      const Py_ssize_t *shape,
                                                      const Py_ssize_t *strides, int64_t bytes)
{
    const int shift = out->dtype ? __builtin_ctzll((unsigned long long)bytes) : 0;
    Span s = {.high = bytes};
    pto_tensor *t = &out->own;
    set_no_dims(t);
    for (int d = 0; d < ndim; d++) {
        t->shape[d] = shape[d];
        t->strides[d] = add_dim(&s, shape[d], strides[d], shift);
    }
    if (!out->dtype) {
        t->shape[ndim] = bytes;
        t->strides[ndim++] = 1;
    }
    if (ndim == 2) {
        put_pair(t->shape, (uint64_t)t->shape[0], (uint64_t)t->shape[1]);
        put_pair(t->strides, (uint64_t)t->strides[0], (uint64_t)t->strides[1]);
    }
    if (s.empty) {
        data = NULL;
        s.low = s.high = s.beyond = 0;
    }
    int64_t span;
    if (s.odd) {
        return "has strides that are no multiple of its elements, like a field of a packed record: "
               "pass the array of records and take the field in the kernel, or make its dtype with "
               "align=True";
    }
    if (__builtin_sub_overflow(s.high, s.low, &span) || s.beyond) {
        return "spans more than 2^63 bytes";
    }
    set_rest(t, data + s.low, span, -s.low >> shift, ndim, out->dtype ? out->dtype->as : PTO_UINT8);
    return NULL;
}

const char *argument_span(Argument *out, char *data, int ndim, const Py_ssize_t *shape,
                          const Py_ssize_t *strides, int64_t bytes)
{
    pto_tensor *t = &out->own;
    out->tensor = t;
    if (ndim == 1 && out->dtype && shape[0] > 1 && strides[0] >= 0) { /* most arrays */
        const int shift = __builtin_ctzll((unsigned long long)bytes);
        int64_t reach;
        if (!(strides[0] & (bytes - 1)) &&
            !__builtin_mul_overflow(shape[0] - 1, strides[0], &reach) &&
            !__builtin_add_overflow(reach, bytes, &reach)) {
            set_no_dims(t);
            put_pair(t->shape, (uint64_t)shape[0], 0);
            put_pair(t->strides, (uint64_t)(strides[0] >> shift), 0);
            set_rest(t, data, reach, 0, 1, out->dtype->as);
            return NULL;
        }
    }
    return span_any(out, data, ndim, shape, strides, bytes);
}

bool argument_refuse(const char *wrong, const char *who, Py_ssize_t index)
{
    PyErr_Format(PyExc_ValueError, "%s: argument %zd %s", who, index, wrong);
    return false;
}

/* ---- Buffers ---- */

/* Whether the object has memory of its own, so that a slice of it is a copy: a bytearray or an array.array. (Other
 * exporters may be views: memoryview, a structure of ctypes.) */
static bool owns_memory(PyObject *object)
{
    PyObject *module = PyByteArray_Check(object)
                           ? NULL
                           : PyDict_GetItemString(PyImport_GetModuleDict(), "array");
    PyObject *type = module ? PyObject_GetAttrString(module, "array") : NULL;
    const bool yes = module ? type == (PyObject *)Py_TYPE(object) : PyByteArray_Check(object);
    PyErr_Clear();
    Py_XDECREF(type);
    return yes;
}

PyObject *memory_whole(PyObject *memory)
{
    PyObject *view = ((Memory *)(void *)memory)->buffer.obj;
    PyObject *owner = view && PyMemoryView_Check(view) ? PyObject_GetAttrString(view, "obj") : NULL;
    Memory *whole = owner && owns_memory(owner) ? memory_new() : NULL;
    if (whole && PyObject_GetBuffer(owner, &whole->buffer, PyBUF_SIMPLE) < 0) {
        Py_DECREF(OBJECT(whole));
        whole = NULL;
    }
    PyErr_Clear();
    Py_XDECREF(owner);
    return whole ? OBJECT(whole) : Py_NewRef(memory);
}

void *memory_address(PyObject *memory)
{
    const Memory *m = (const Memory *)(const void *)memory;
    return m->versioned ? m->versioned->tensor.data : m->dl ? m->dl->tensor.data : m->buffer.buf;
}

const Py_buffer *memory_owned(PyObject *memory)
{
    const Py_buffer *b = &((const Memory *)(const void *)memory)->buffer;
    return b->obj && owns_memory(b->obj) ? b : NULL;
}

/* An exporter may leave out what follows from the rest, as ctypes does: strides, if the elements are dense, and
 * the shape of one dim. */
static const char *span_buffer(const Py_buffer *b, Argument *out)
{
    Py_ssize_t shape[PTO_MAX_DIMS], strides[PTO_MAX_DIMS];
    Py_ssize_t dense = b->itemsize;
    for (int d = b->ndim - 1; d >= 0; d--) {
        shape[d] = b->shape ? b->shape[d] : b->len / b->itemsize;
        strides[d] = b->strides ? b->strides[d] : dense;
        dense *= shape[d];
    }
    return argument_span(out, b->buf, b->ndim, shape, strides, b->itemsize);
}

static bool from_buffer(PyObject *object, Argument *out, const char *who, Py_ssize_t index)
{
    out->lost = argument_is_temporary(object) && owns_memory(object);
    Memory *m = memory_new();
    if (!m) {
        return false;
    }
    Py_buffer *b = &m->buffer;
    if (PyObject_GetBuffer(object, b, PyBUF_FORMAT | PyBUF_STRIDES) < 0) {
        Py_DECREF(m);
        return false;
    }
    bool good = false;
    out->dtype = dtype_of_format(b->format, b->itemsize);
    if (!out->dtype) {
        PyErr_Format(
            PyExc_TypeError,
            "%s: argument %zd has elements of format '%s', which a buffer of a task cannot "
            "have: pass it as an array of NumPy, numpy.asarray(x)",
            who, index, b->format ? b->format : "B");
    } else if (b->ndim > PTO_MAX_DIMS) {
        PyErr_Format(PyExc_ValueError, "%s: argument %zd has %d dims: at most %d are possible", who,
                     index, b->ndim, PTO_MAX_DIMS);
    } else {
        const char *wrong = span_buffer(b, out);
        good = !wrong || argument_refuse(wrong, who, index);
        out->readonly = b->readonly;
        out->keep = OBJECT(m);
        out->keep_is_new = true;
        if (PyType_IS_GC(Py_TYPE(object))) {
            PyObject_GC_Track(m);
        }
    }
    if (!good) {
        Py_DECREF(m);
    }
    return good;
}

/* ---- DLPack ---- */

enum { DL_CPU = 1, DL_CUDA = 2, DL_CUDA_HOST = 3 };
enum { DL_INT = 0, DL_UINT = 1, DL_COMPLEX = 5 };

/* Element types that the library does not have are imported as integers of their size, as those of arrays are. Returns
 * such a type, and changes *dl to what the library knows; NULL: it is none. */
static const Dtype *replace_dtype(pto_dl_dtype *dl)
{
    const char *name = dl->code == DL_UINT && dl->bits == 16      ? "uint16"
                       : dl->code == DL_UINT && dl->bits == 32    ? "uint32"
                       : dl->code == DL_COMPLEX && dl->bits == 64 ? "complex64"
                                                                  : NULL;
    dl->code = name ? DL_INT : dl->code;
    return name ? dtype_of_name(name) : NULL;
}

static bool import_capsule(PyObject *capsule, Memory *m, Argument *out, const char *who,
                           Py_ssize_t index)
{
    bool readonly = false;
    const Dtype *dtype;
    pto_status s;
    if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        pto_dl_versioned *v = PyCapsule_GetPointer(capsule, "dltensor_versioned");
        pto_dl_versioned known = *v;
        dtype = replace_dtype(&known.tensor.dtype);
        s = pto_dlpack_import_versioned(&known, &out->own, &readonly);
        if (s == PTO_OK) {
            PyCapsule_SetName(capsule, "used_dltensor_versioned");
            m->versioned = v;
            out->lost = (v->flags & PTO_DL_FLAG_IS_COPIED) != 0;
        }
    } else if (!PyCapsule_IsValid(capsule, "dltensor")) {
        PyErr_Format(
            PyExc_ValueError,
            "%s: __dlpack__ of argument %zd did not return a new capsule of DLPack, but %R", who,
            index, capsule);
        return false;
    } else {
        pto_dl_managed *d = PyCapsule_GetPointer(capsule, "dltensor");
        pto_dl_managed known = *d;
        dtype = replace_dtype(&known.tensor.dtype);
        s = pto_dlpack_import(&known, &out->own);
        if (s == PTO_OK) {
            PyCapsule_SetName(capsule, "used_dltensor");
            m->dl = d;
        }
    }
    if (s != PTO_OK) {
        char detail[512] = "";
        strncpy(detail, pto_error_detail(), sizeof detail - 1);
        error_raise(NULL, pto_fail(s, "%s: argument %zd: %s", who, index, detail), NULL, 0);
        return false;
    }
    out->readonly = readonly;
    out->dtype = dtype ? dtype : dtype_of_pto(out->own.dtype);
    return true;
}

/* Where the memory is. It is asked first, because an export is a promise to use it. */
static bool device_of(PyObject *object, int *type, int *number, const char *who, Py_ssize_t index)
{
    PyObject *device = PyObject_CallMethod(object, "__dlpack_device__", NULL);
    *type = DL_CPU;
    if (!device) { /* an old exporter: its tensor says where it is */
        if (!PyErr_ExceptionMatches(PyExc_AttributeError)) {
            return false;
        }
        PyErr_Clear();
        return true;
    }
    const bool good = PyTuple_Check(device) && PyArg_ParseTuple(device, "ii", type, number);
    Py_DECREF(device);
    if (!good) {
        PyErr_Format(PyExc_TypeError,
                     "%s: __dlpack_device__ of argument %zd does not return two numbers", who,
                     index);
        return false;
    }
    if (*type < DL_CPU || *type > DL_CUDA_HOST) {
        PyErr_Format(PyExc_ValueError,
                     "%s: argument %zd is on a device of type %d (DLPack), and only memory of the "
                     "CPU and of NVIDIA GPUs can be used: copy it first, for example with .cpu()",
                     who, index, *type);
        return false;
    }
    return true;
}

/* Calls __dlpack__. Exporters of before DLPack 1.0 do not know max_version, and say so with a TypeError. */
static PyObject *export_capsule(PyObject *object, const Arrival *arrival)
{
    PyObject *method = PyObject_GetAttrString(object, "__dlpack__");
    PyObject *none = method ? PyTuple_New(0) : NULL;
    PyObject *options = none ? Py_BuildValue("{s(ii)}", "max_version", PTO_DLPACK_MAJOR,
                                             PTO_DLPACK_MINOR)
                             : NULL;
    PyObject *stream = options && arrival ? PyLong_FromSize_t(arrival_stream(arrival)) : NULL;
    PyObject *capsule = NULL;
    if (options && (!arrival || (stream && PyDict_SetItemString(options, "stream", stream) == 0))) {
        capsule = PyObject_Call(method, none, options);
        if (!capsule && PyErr_ExceptionMatches(PyExc_TypeError)) {
            PyErr_Clear();
            capsule = PyDict_DelItemString(options, "max_version") == 0
                          ? PyObject_Call(method, none, options)
                          : NULL;
        }
    }
    Py_XDECREF(stream);
    Py_XDECREF(options);
    Py_XDECREF(none);
    Py_XDECREF(method);
    return capsule;
}

/* Whether the tensor is where the object said it is. */
static bool check_device(const pto_tensor *t, bool on_gpu, int number, const char *who,
                         Py_ssize_t index)
{
    const bool good = on_gpu ? t->device.type == PTO_DEVICE_NVIDIA && t->device.index == number
                             : t->device.type == PTO_DEVICE_CPU;
    if (!good) {
        PyErr_Format(PyExc_ValueError,
                     "%s: argument %zd is on device %s:%d, but its __dlpack_device__ does not say "
                     "so",
                     who, index, pto_device_name(t->device.type), t->device.index);
    }
    return good;
}

static bool from_dlpack(PyObject *object, Argument *out, const char *who, Py_ssize_t index)
{
    int type, number = 0;
    if (!device_of(object, &type, &number, who, index)) {
        return false;
    }
    const bool on_gpu = type == DL_CUDA;
    Memory *m = memory_new();
    if (!m || (on_gpu && !(m->arrival = arrival_new(number)))) {
        Py_XDECREF(OBJECT(m));
        return false;
    }
    PyObject *capsule = export_capsule(object, m->arrival);
    const bool good = capsule && import_capsule(capsule, m, out, who, index) &&
                      check_device(&out->own, on_gpu, number, who, index);
    Py_XDECREF(capsule);
    if (!good) {
        Py_DECREF(OBJECT(m));
        return false;
    }
    out->tensor = &out->own;
    out->keep = OBJECT(m);
    out->keep_is_new = true;
    return true;
}

/* ---- Any object ---- */

/* A class has the attributes of its objects, but is none. */
static bool has_dlpack(PyObject *object)
{
    return !PyType_Check(object) && PyObject_HasAttrString(object, "__dlpack__");
}

bool argument_of_other(PyObject *object, Argument *out, const char *who, Py_ssize_t index)
{
    out->descr = NULL;
    out->lost = false;
    if (numpy_is_array(object) || (!numpy_loaded() && numpy_load() && numpy_is_array(object))) {
        return numpy_resolve(object, out, who, index);
    }
    if (numpy_is_scalar(object)) { /* it has no memory of its own, though it exports a buffer */
        PyErr_Format(PyExc_TypeError,
                     "%s: argument %zd must be an array, but %R is a single element: pass x[i:i+1] "
                     "instead of x[i], which does not share the memory of x",
                     who, index, (PyObject *)Py_TYPE(object));
        return false;
    }
    if (!PyUnicode_Check(object) && PyObject_CheckBuffer(object)) {
        return from_buffer(object, out, who, index);
    }
    if (!PyUnicode_Check(object) && has_dlpack(object)) {
        return from_dlpack(object, out, who, index);
    }
    PyErr_Format(PyExc_TypeError,
                 "%s: argument %zd must be an array, but %R is none: pass a NumPy array, a "
                 "pto.Tensor, or an object with the buffer protocol or __dlpack__",
                 who, index, PyType_Check(object) ? object : (PyObject *)Py_TYPE(object));
    return false;
}

#define NESTED 3 /* lists inside of each other that are searched. A list may contain itself. */

static bool is_array(PyObject *object, int depth)
{
    if (PyFloat_CheckExact(object) || PyLong_CheckExact(object) || PyBool_Check(object) ||
        PyUnicode_Check(object) || PyBytes_Check(object) || object == Py_None) {
        return false;
    }
    if (Py_TYPE(object) == tensor_type || numpy_is_array(object) ||
        (!numpy_loaded() && numpy_load() && numpy_is_array(object))) {
        return true;
    }
    if (PyList_Check(object) || PyTuple_Check(object)) {
        /* What an item is asked may run code of the program, which changes the list. */
        for (Py_ssize_t i = 0; depth < NESTED && i < PySequence_Size(object); i++) {
            PyObject *item = PySequence_GetItem(object, i);
            const bool found = item && is_array(item, depth + 1);
            Py_XDECREF(item);
            if (found) {
                return true;
            }
        }
        PyErr_Clear();
        return false;
    }
    return !numpy_is_scalar(object) && (PyObject_CheckBuffer(object) || has_dlpack(object));
}

bool argument_is_array(PyObject *object)
{
    return is_array(object, 0);
}
