/* managed.c - managed memory: rt.temp, rt.empty and rt.release; scopes, boundaries and ranges. */
#include "binding.h"

/* ---- Managed memory ---- */

/* Elements of a type that is not in the table are a dim of bytes (Argument). */
static bool add_bytes(int64_t *shape, int32_t *ndim, int64_t bytes)
{
    if (*ndim == PTO_MAX_DIMS) {
        PyErr_Format(PyExc_ValueError, "%d dims of such a dtype: at most %d are possible", *ndim,
                     PTO_MAX_DIMS - 1);
        return false;
    }
    shape[(*ndim)++] = bytes;
    return true;
}

static PyObject *make_tensor(PyObject *self, PyObject *args, PyObject *kwargs, bool now)
{
    static char *words[] = {"shape", "dtype", "device", NULL};
    Core *core = ((Runtime *)(void *)self)->core;
    PyObject *shape, *dtype = NULL;
    const char *where_to = NULL;
    pto_device device = {0};
    int64_t sizes[PTO_MAX_DIMS];
    int32_t ndim;
    int line;
    pto_tensor t;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|Oz", words, &shape, &dtype, &where_to) ||
        !core_enter(core, now ? "empty" : "temp")) {
        return NULL;
    }
    core_begin(core); /* numbers and dtypes may be objects of the program */
    const Dtype *type = dtype_of_name("f8");
    PyObject *descr = NULL;
    int64_t bytes = 0;
    const bool good = tensor_read_shape(shape, sizes, &ndim) &&
                      (!dtype || dtype_read(dtype, &type, &descr, &bytes)) &&
                      (!descr || add_bytes(sizes, &ndim, bytes));
    const char *file = good ? where(&line) : NULL;
    core_end(core);
    if (!good) {
        Py_XDECREF(descr);
        return NULL;
    }
    const pto_dtype as = type ? type->as : PTO_UINT8;
    pto_status s = where_to ? pto_device_parse(where_to, &device) : PTO_OK;
    if (s == PTO_OK && now) {
        core_leave(core);
        s = where_to ? pto_alloc_on_at(core->rt, device, as, ndim, sizes, &t, file, line)
                     : pto_alloc_at(core->rt, as, ndim, sizes, &t, file, line);
        core_back(core);
        s = core_status(core, s);
        (void)pto_watermark(core->rt, &core->submitted);
    } else if (s == PTO_OK) {
        s = where_to ? pto_temp_on_at(core->rt, device, as, ndim, sizes, &t, file, line)
                     : pto_temp_at(core->rt, as, ndim, sizes, &t, file, line);
    }
    PyObject *made = s == PTO_OK ? tensor_new(&t, type, descr, NULL, false)
                                 : error_raise(core, s, file, line);
    Py_XDECREF(descr);
    return made;
}

PyObject *runtime_temp(PyObject *self, PyObject *args, PyObject *kwargs)
{
    return make_tensor(self, args, kwargs, false);
}

PyObject *runtime_empty(PyObject *self, PyObject *args, PyObject *kwargs)
{
    return make_tensor(self, args, kwargs, true);
}

PyObject *runtime_release(PyObject *self, PyObject *object)
{
    Core *core = ((Runtime *)(void *)self)->core;
    int line;
    if (!core_enter(core, "release")) {
        return NULL;
    }
    if (Py_TYPE(object) != tensor_type) {
        PyErr_SetString(PyExc_TypeError, "release: a managed tensor is needed (rt.temp, rt.empty)");
        return NULL;
    }
    const char *file = core_where(core, &line);
    const pto_status s = pto_release_at(core->rt, &((Tensor *)(void *)object)->t, file, line);
    return s == PTO_OK ? Py_NewRef(Py_None) : error_raise(core, s, file, line);
}

/* ---- Scopes and ranges ---- */

typedef struct Scope {
    PyObject_HEAD PyObject *runtime;
    PyObject *name; /* of a range; NULL: a scope */
    uint32_t flags;
    uint32_t depth; /* of those that are open, this one included; 0: it is not open */
} Scope;

static PyObject *scope_new(PyObject *runtime, uint32_t flags, PyObject *name)
{
    Scope *scope = PyObject_GC_New(Scope, scope_type);
    if (scope) {
        scope->runtime = Py_NewRef(runtime);
        scope->name = Py_XNewRef(name);
        scope->flags = flags;
        scope->depth = 0;
        PyObject_GC_Track(scope);
    }
    return (PyObject *)(void *)scope;
}

/* How many scopes, or ranges, are open. */
static uint32_t depth_of(const Scope *scope, const Core *core)
{
    return scope->name ? core->ranges : pto_get_scope_depth(core->rt);
}

/* The method that made it. */
static const char *method_of(const Scope *scope)
{
    return scope->name ? "range" : scope->flags & PTO_SCOPE_BOUNDARY ? "boundary" : "scope";
}

static PyObject *scope_enter(PyObject *self, PyObject *unused)
{
    Scope *scope = (Scope *)(void *)self;
    Core *core = ((Runtime *)(void *)scope->runtime)->core;
    int line;
    (void)unused;
    if (!core_enter(core, method_of(scope))) {
        return NULL;
    }
    const char *file = core_where(core, &line);
    const char *name = scope->name ? PyUnicode_AsUTF8AndSize(scope->name, NULL) : NULL;
    if (scope->name && !name) {
        return NULL;
    }
    if (scope->depth) {
        const char *method = method_of(scope);
        PyErr_Format(PyExc_RuntimeError, "%s: this one is open: call rt.%s(%s) again for another",
                     method, method, name ? "name" : "");
        return NULL;
    }
    const pto_status s = name ? pto_range_begin(core->rt, "%s", name)
                              : pto_scope_begin_at(core->rt, scope->flags, file, line);
    if (s != PTO_OK) {
        return error_raise(core, s, file, line);
    }
    core->ranges += name != NULL;
    scope->depth = depth_of(scope, core);
    return Py_NewRef(scope->runtime);
}

static PyObject *scope_exit(PyObject *self, PyObject *args)
{
    Scope *scope = (Scope *)(void *)self;
    Core *core = ((Runtime *)(void *)scope->runtime)->core;
    int line;
    (void)args;
    if (!core || !core->rt) {
        Py_RETURN_FALSE; /* closed inside of the block */
    }
    const char *what = scope->name ? "end of a range" : "end of a scope";
    if (!core_enter(core, what)) {
        return NULL;
    }
    const char *file = core_where(core, &line);
    if (scope->depth == 0 ||
        scope->depth != depth_of(scope, core)) { /* the library would end the innermost one */
        return error_raise(core,
                           pto_fail(PTO_BAD_SCOPE, "%s: %s", what,
                                    scope->depth == 0
                                        ? "it was not entered"
                                        : "one that began after it is still open, perhaps in a "
                                          "generator"),
                           file, line);
    }
    const pto_status s = scope->name ? pto_range_end(core->rt)
                                     : pto_scope_end_at(core->rt, file, line);
    core->ranges -= scope->name != NULL;
    scope->depth = 0;
    return s == PTO_OK ? Py_NewRef(Py_False) : error_raise(core, s, file, line);
}

/* There is no tp_clear: the runtime lets go of what it refers to, and with that ends a cycle. */
static int scope_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((Scope *)(void *)self)->runtime);
    return 0;
}

static void scope_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    Py_XDECREF(((Scope *)(void *)self)->runtime);
    Py_XDECREF(((Scope *)(void *)self)->name);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static PyMethodDef scope_methods[] = {
    {"__enter__", scope_enter, METH_NOARGS, NULL},
    {"__exit__", scope_exit, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot scope_slots[] = {
    {Py_tp_dealloc, (void *)scope_dealloc},
    {Py_tp_traverse, (void *)scope_traverse},
    {Py_tp_methods, scope_methods},
    {Py_tp_doc, "A scope, a boundary or a range of a runtime, for `with`."},
    {0, NULL},
};
PyType_Spec scope_spec = {
    "pto._pto.Scope", sizeof(Scope), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, scope_slots};

PyObject *runtime_scope(PyObject *self, PyObject *unused)
{
    (void)unused;
    return scope_new(self, 0, NULL);
}

PyObject *runtime_boundary(PyObject *self, PyObject *unused)
{
    (void)unused;
    return scope_new(self, PTO_SCOPE_BOUNDARY, NULL);
}

PyObject *runtime_range(PyObject *self, PyObject *name)
{
    return text_of(name, "range: name") ? scope_new(self, 0, name) : NULL;
}
