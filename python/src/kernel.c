/* kernel.c - pto.Kernel: what can be submitted. */
#include <string.h>

#include "binding.h"

/* ---- The type ---- */

static bool read_parameter(PyObject *item, Parameter *p)
{
    int kind, ndim, dense;
    const char *dtype;
    if (!PyArg_ParseTuple(item, "Czip", &kind, &dtype, &ndim, &dense)) {
        return false;
    }
    p->kind = (char)kind;
    p->ndim = (int8_t)ndim;
    p->dense = dense;
    p->dtype = dtype ? dtype_of_name(dtype) : NULL;
    if (dtype && !p->dtype) {
        PyErr_Format(PyExc_TypeError, "unknown dtype '%s'", dtype);
        return false;
    }
    if (!strchr("ious", kind)) {
        PyErr_Format(PyExc_ValueError, "unknown kind of a parameter");
        return false;
    }
    return true;
}

static char *copy_text(const char *text)
{
    char *copy = PyMem_Malloc(strlen(text) + 1);
    return copy ? strcpy(copy, text) : NULL;
}

/* pto._kernel calls it, with numbers that belong together. Programs cannot. */
PyObject *kernel_new(PyObject *module, PyObject *args, PyObject *kwargs)
{
    (void)module;
    static char *words[] = {"style",  "name",  "parameters", "callable", "address", "declaration",
                            "result", "least", "variadic",   "type",     "stream",  NULL};
    int style, result = 'v', least = -1, variadic = 0, worker = PTO_VECTOR, stream = 0;
    const char *name, *declaration = NULL;
    PyObject *parameters, *callable = NULL;
    unsigned long long address = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "isO!|OKzCipip", words, &style, &name,
                                     &PyList_Type, &parameters, &callable, &address, &declaration,
                                     &result, &least, &variadic, &worker, &stream)) {
        return NULL;
    }
    const Py_ssize_t count = PyList_Size(parameters);
    if (count > 1000 || style < STYLE_PYTHON || style > STYLE_PROTOTYPE || !*name ||
        (style != STYLE_PYTHON && !address)) {
        PyErr_SetString(PyExc_ValueError,
                        "not a kernel: too many parameters, no name or no address");
        return NULL;
    }
    Kernel *k = PyObject_GC_New(Kernel, kernel_type);
    if (!k) {
        return NULL;
    }
    k->style = (Style)style;
    k->type = (pto_worker_type)worker;
    k->name = copy_text(name);
    k->text = PyUnicode_FromString(name);
    k->declaration = declaration ? copy_text(declaration) : NULL;
    k->callable = callable;
    Py_XINCREF(callable);
    const uintptr_t at = (uintptr_t)address;
    memcpy(&k->address, &at, sizeof k->address);
    k->result = (char)result;
    k->variadic = variadic;
    k->stream = stream;
    k->variants = NULL;
    k->spare = NULL;
    k->registered = false;
    k->count = (uint16_t)count;
    k->least = (uint16_t)(least < 0 ? count : least);
    k->parameters = PyMem_Calloc((size_t)count + 1, sizeof *k->parameters);
    bool good = k->name && k->text && k->parameters;
    for (Py_ssize_t i = 0; good && i < count; i++) {
        good = read_parameter(PyList_GetItem(parameters, i), &k->parameters[i]);
    }
    PyObject_GC_Track(k);
    if (!good || (style == STYLE_PROTOTYPE && !prototype_check(k))) {
        Py_DECREF(k);
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    }
    return (PyObject *)(void *)k;
}

static int kernel_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((Kernel *)(void *)self)->callable);
    Py_VISIT(((Kernel *)(void *)self)->variants);
    return 0;
}

static int kernel_clear(PyObject *self)
{
    Py_CLEAR(((Kernel *)(void *)self)->callable);
    Py_CLEAR(((Kernel *)(void *)self)->variants);
    return 0;
}

static void kernel_dealloc(PyObject *self)
{
    Kernel *k = (Kernel *)(void *)self;
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    (void)kernel_clear(self);
    PyMem_Free(k->name);
    Py_XDECREF(k->text);
    Py_XDECREF(k->spare);
    PyMem_Free(k->declaration);
    PyMem_Free(k->parameters);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static PyObject *kernel_repr(PyObject *self)
{
    const Kernel *k = (const Kernel *)(const void *)self;
    static const char *const styles[] = {"a Python function", "a C kernel", "a C function"};
    return PyUnicode_FromFormat("<pto.Kernel %s, %s>", k->name, styles[k->style]);
}

static PyObject *get_name(PyObject *self, void *unused)
{
    (void)unused;
    return Py_NewRef(((Kernel *)(void *)self)->text);
}

static PyObject *get_function(PyObject *self, void *unused)
{
    PyObject *function = ((Kernel *)(void *)self)->callable;
    (void)unused;
    return Py_NewRef(function ? function : Py_None);
}

static bool same_parameters(const Kernel *a, const Kernel *b)
{
    bool same = a->count == b->count && a->least == b->least && a->variadic == b->variadic;
    for (int i = 0; same && i < a->count; i++) {
        const Parameter *p = &a->parameters[i], *q = &b->parameters[i];
        same = p->kind == q->kind && p->dtype == q->dtype && p->ndim == q->ndim;
    }
    return same;
}

/* kernel.on(device, other): the other runs where the tensors are on such a device. */
static PyObject *kernel_on(PyObject *self, PyObject *args)
{
    Kernel *k = (Kernel *)(void *)self;
    const char *name;
    PyObject *other;
    pto_device device;
    if (!PyArg_ParseTuple(args, "sO!", &name, kernel_type, &other)) {
        return NULL;
    }
    const pto_status s = pto_device_parse(name, &device);
    if (s != PTO_OK) {
        return error_raise(NULL, s, NULL, 0);
    }
    const Kernel *variant = (const Kernel *)(const void *)other;
    if (variant->style == STYLE_PYTHON || variant == k || device.type == PTO_DEVICE_CPU) {
        PyErr_SetString(PyExc_ValueError, "on: a kernel for a device is a C function of its own");
        return NULL;
    }
    if (device.type == PTO_DEVICE_NVIDIA && variant->style == STYLE_PROTOTYPE && !variant->stream) {
        PyErr_Format(PyExc_ValueError,
                     "on: %s must launch on the stream of its task: declare it with one more "
                     "parameter at the end, void *stream",
                     variant->name);
        return NULL;
    }
    if (!same_parameters(k, variant)) {
        PyErr_Format(PyExc_ValueError, "on: %s and %s take different arguments", k->name,
                     variant->name);
        return NULL;
    }
    if (k->registered) {
        PyErr_Format(PyExc_RuntimeError, "on: %s was submitted before: add its variants first",
                     k->name);
        return NULL;
    }
    PyObject *type = PyLong_FromLong((long)device.type);
    const bool good = type && (k->variants || (k->variants = PyDict_New())) &&
                      PyDict_SetItem(k->variants, type, other) == 0;
    Py_XDECREF(type);
    return good ? Py_NewRef(self) : NULL;
}

static PyMethodDef kernel_methods[] = {
    {"on", kernel_on, METH_VARARGS,
     "on($self, device, kernel, /)\n--\n\n"
     "Adds a variant for a type of device, such as 'sim', before the kernel is submitted.\n\n"
     "The other kernel is a C function with the same declaration. Returns the kernel itself."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef kernel_getset[] = {
    {"name", get_name, NULL, "Name of the kernel in reports and traces.", NULL},
    {"_function", get_function, NULL, "The Python function.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot kernel_slots[] = {
    {Py_tp_dealloc, (void *)kernel_dealloc},
    {Py_tp_traverse, (void *)kernel_traverse},
    {Py_tp_clear, (void *)kernel_clear},
    {Py_tp_repr, (void *)kernel_repr},
    {Py_tp_getset, kernel_getset},
    {Py_tp_methods, kernel_methods},
    {Py_tp_doc, "What rt.submit runs. Made by pto.kernel, pto.Library and pto.cfunc."},
    {0, NULL},
};
PyType_Spec kernel_spec = {
    "pto.Kernel", sizeof(Kernel), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, kernel_slots};
