/* managed.c - managed memory: rt.temp, rt.empty and rt.release; scopes, boundaries and ranges. */
#include "binding.h"

/* ---- Managed memory ---- */

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
    const Dtype *type = !tensor_read_shape(shape, sizes, &ndim) ? NULL
                        : dtype                                 ? dtype_of_object(dtype)
                                                                : dtype_of_name("f8");
    core_end(core);
    if (!type) {
        return NULL;
    }
    const char *file = where(&line);
    pto_status s = where_to ? pto_device_parse(where_to, &device) : PTO_OK;
    if (s == PTO_OK && now) {
        core_leave(core);
        s = where_to ? pto_alloc_on_at(core->rt, device, type->as, ndim, sizes, &t, file, line)
                     : pto_alloc_at(core->rt, type->as, ndim, sizes, &t, file, line);
        core_back(core);
        s = core_status(core, s);
        (void)pto_watermark(core->rt, &core->submitted);
    } else if (s == PTO_OK) {
        s = where_to ? pto_temp_on_at(core->rt, device, type->as, ndim, sizes, &t, file, line)
                     : pto_temp_at(core->rt, type->as, ndim, sizes, &t, file, line);
    }
    return s == PTO_OK ? tensor_new(&t, type, NULL, NULL, false) : error_raise(core, s, file, line);
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
    const char *file = where(&line);
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
    Scope *scope = PyObject_New(Scope, scope_type);
    if (scope) {
        scope->runtime = Py_NewRef(runtime);
        scope->name = Py_XNewRef(name);
        scope->flags = flags;
        scope->depth = 0;
    }
    return (PyObject *)(void *)scope;
}

/* How many scopes, or ranges, are open. */
static uint32_t depth_of(const Scope *scope, const Core *core)
{
    return scope->name ? core->ranges : pto_get_scope_depth(core->rt);
}

static PyObject *scope_enter(PyObject *self, PyObject *unused)
{
    Scope *scope = (Scope *)(void *)self;
    Core *core = ((Runtime *)(void *)scope->runtime)->core;
    int line;
    (void)unused;
    if (!core_enter(core, "scope")) {
        return NULL;
    }
    const char *file = where(&line);
    const char *name = scope->name ? PyUnicode_AsUTF8AndSize(scope->name, NULL) : NULL;
    if (scope->name && !name) {
        return NULL;
    }
    if (scope->depth) {
        PyErr_SetString(PyExc_RuntimeError,
                        "scope: this one is open: call rt.scope() again for another");
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
    if (!core_enter(core, "end of a scope")) {
        return NULL;
    }
    const char *file = where(&line);
    if (scope->depth == 0 ||
        scope->depth != depth_of(scope, core)) { /* the library would end the innermost one */
        return error_raise(
            core,
            pto_fail(PTO_BAD_SCOPE, scope->depth == 0
                                        ? "end of a scope: it was not entered"
                                        : "end of a scope: one that began after it is still open, "
                                          "perhaps in a generator"),
            file, line);
    }
    const pto_status s = scope->name ? pto_range_end(core->rt)
                                     : pto_scope_end_at(core->rt, file, line);
    core->ranges -= scope->name != NULL;
    scope->depth = 0;
    return s == PTO_OK ? Py_NewRef(Py_False) : error_raise(core, s, file, line);
}

static void scope_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(((Scope *)(void *)self)->runtime);
    Py_XDECREF(((Scope *)(void *)self)->name);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyMethodDef scope_methods[] = {
    {"__enter__", scope_enter, METH_NOARGS, NULL},
    {"__exit__", scope_exit, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyType_Slot scope_slots[] = {
    {Py_tp_dealloc, (void *)scope_dealloc},
    {Py_tp_methods, scope_methods},
    {Py_tp_doc, "A scope, a boundary or a range of a runtime, for `with`."},
    {0, NULL},
};
PyType_Spec scope_spec = {"pto._pto.Scope", sizeof(Scope), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, scope_slots};

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
    if (!PyUnicode_Check(name)) {
        PyErr_SetString(PyExc_TypeError, "range: the name of a range is a string");
        return NULL;
    }
    return scope_new(self, 0, name);
}
