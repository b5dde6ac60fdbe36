/* registry.c - the kernels of a runtime: what is submitted is registered when it is seen first, and found again
 * afterwards.
 *
 *     object --recent--> place --registered--> kernel and handle
 *            --places--/
 *
 * An object is known by its address, and the registry keeps it alive, so its address is no other's. What its
 * class says about equality does not matter: two objects that are equal may do different things. A bound method is
 * the exception. It is made anew for every call, and is equal to another one if both are the same function of the
 * same object.
 */
#include <string.h>

#include "binding.h"

/* ---- What an object means ---- */

/* Asks pto._kernel what is meant by a function. */
static PyObject *resolve(PyObject *object)
{
    if (Py_TYPE(object) == kernel_type) {
        Py_INCREF(object);
        return object;
    }
    PyObject *module = PyImport_ImportModule("pto._kernel");
    PyObject *kernel = module ? PyObject_CallMethod(module, "resolve", "(O)", object) : NULL;
    Py_XDECREF(module);
    if (kernel && Py_TYPE(kernel) != kernel_type) {
        Py_DECREF(kernel);
        PyErr_SetString(PyExc_TypeError, "pto._kernel.resolve did not return a kernel");
        return NULL;
    }
    return kernel;
}

static pto_kernel_fn function_of(const Kernel *kernel)
{
    pto_kernel_fn fn = kernel->style == STYLE_PYTHON ? call_python : kernel_call_prototype;
    if (kernel->style == STYLE_CALL) {
        memcpy(&fn, &kernel->address, sizeof fn);
    }
    return fn;
}

static pto_status add_variants(Core *core, const Kernel *kernel, pto_kernel handle)
{
    PyObject *type, *variant;
    Py_ssize_t at = 0;
    pto_status s = PTO_OK;
    while (s == PTO_OK && kernel->variants && PyDict_Next(kernel->variants, &at, &type, &variant)) {
        s = pto_kernel_variant(core->rt, handle, (pto_device_type)PyLong_AsLong(type),
                               function_of((Kernel *)(void *)variant), variant);
    }
    return s;
}

static pto_status register_kernel(Core *core, const Kernel *kernel, pto_kernel *handle)
{
    pto_status s = pto_kernel_register(core->rt, kernel->name, kernel->type, function_of(kernel),
                                       (void *)(uintptr_t)kernel, handle);
    if (s == PTO_OK) {
        s = add_variants(core, kernel, *handle);
    }
    if (s == PTO_OK && kernel->declaration) {
        s = pto_kernel_declare(core->rt, *handle, kernel->declaration);
    }
    return s;
}

/* ---- Handles ---- */

/* Python kernels of one name and type share a handle, since a task names its function itself (call_python). C
 * kernels share one if they are the same function with the same declaration. So a program can make a kernel for
 * every task. */
static bool shares_handle(const Kernel *kernel)
{
    return !kernel->variants;
}

/* What is equal for kernels that share a handle: a new reference. */
static PyObject *identity_of(const Kernel *k)
{
    if (k->style == STYLE_PYTHON) {
        return Py_BuildValue("(is)", (int)k->type, k->name);
    }
    uintptr_t address;
    memcpy(&address, &k->address, sizeof address);
    return Py_BuildValue("(iisKziiiiy#)", (int)k->style, (int)k->type, k->name,
                         (unsigned long long)address, k->declaration, k->result, k->variadic,
                         k->least, k->stream, (const char *)k->parameters,
                         (Py_ssize_t)(k->count * sizeof *k->parameters));
}

/* What the dict of handles has: the handle, and a C kernel, to which the library has a pointer. */
static PyObject *entry_of(Kernel *k, pto_kernel handle)
{
    return Py_BuildValue("(KO)", (unsigned long long)handle,
                         k->style == STYLE_PYTHON ? Py_None : OBJECT(k));
}

/* Sets the handle; false with an exception. */
static bool handle_of(Core *core, Kernel *kernel, pto_kernel *handle)
{
    PyObject *identity = shares_handle(kernel) ? identity_of(kernel) : NULL;
    PyObject *known = identity ? PyDict_GetItemWithError(core->handles, identity) : NULL;
    if (known) {
        *handle = (pto_kernel)PyLong_AsUnsignedLongLong(PyTuple_GetItem(known, 0));
    } else if (!PyErr_Occurred()) {
        pto_status s = register_kernel(core, kernel, handle);
        if (s == PTO_FULL) {
            char detail[512];
            strncpy(detail, pto_error_detail(), sizeof detail - 1);
            detail[sizeof detail - 1] = 0;
            s = pto_fail(s, "%s: make a kernel once, and submit it many times", detail);
        }
        PyObject *entry = s == PTO_OK && identity ? entry_of(kernel, *handle) : NULL;
        if (s != PTO_OK) {
            error_raise(core, s, NULL, 0);
        } else if (entry) {
            (void)PyDict_SetItem(core->handles, identity, entry);
        }
        Py_XDECREF(entry);
    }
    Py_XDECREF(identity);
    return !PyErr_Occurred();
}

/* ---- Places ---- */

static bool is_method(PyObject *object)
{
    return (PyObject *)Py_TYPE(object) == method_type;
}

/* What an object is known by in the dict of places: a new reference. */
static PyObject *key_of(PyObject *object)
{
    return is_method(object) ? Py_NewRef(object) : PyLong_FromVoidPtr(object);
}

static bool put_place(Core *core, size_t place)
{
    PyObject *key = key_of(core->registered[place].object);
    PyObject *index = key ? PyLong_FromSize_t(place) : NULL;
    const bool good = index && PyDict_SetItem(core->places, key, index) == 0;
    Py_XDECREF(key);
    Py_XDECREF(index);
    return good;
}

/* Whether nobody but the registry refers to what was submitted, so that nobody can submit it again: a closure or
 * a functools.partial that was made for one task. A task that is not complete holds its kernel itself. */
static bool is_over(const Registered *r)
{
    const Kernel *k = r->kernel;
    const Py_ssize_t own = 1 + is_method(r->object) + (k->callable == r->object) +
                           (OBJECT(k) == r->object);
    return shares_handle(k) && Py_REFCNT(r->object) == own;
}

static void forget(const Registered *r)
{
    Py_DECREF(OBJECT(r->kernel));
    Py_DECREF(r->object);
}

/* Makes room for one more: by dropping what is over, or with more memory. The program may run code when objects
 * die, so that happens last. */
static bool make_room(Core *core)
{
    const size_t n = core->n_registered;
    size_t left = 0, over = 0;
    Registered *kept = PyMem_Malloc((2 * n + 16) * sizeof *kept);
    Registered *dropped = PyMem_Malloc((n + 1) * sizeof *dropped);
    if (!kept || !dropped) {
        PyMem_Free(kept);
        PyMem_Free(dropped);
        PyErr_NoMemory();
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (is_over(&core->registered[i])) {
            dropped[over++] = core->registered[i];
        } else {
            kept[left++] = core->registered[i];
        }
    }
    PyMem_Free(core->registered);
    core->registered = kept;
    core->n_registered = left;
    core->room_registered = left >= n / 2 ? 2 * n + 16 : n;
    memset(core->recent, 0, sizeof core->recent);
    PyDict_Clear(core->places);
    bool good = true;
    for (size_t i = 0; good && i < left; i++) {
        good = put_place(core, i);
    }
    for (size_t i = 0; i < over; i++) {
        forget(&dropped[i]);
    }
    PyMem_Free(dropped);
    return good;
}

static Registered *add(Core *core, PyObject *object, Kernel *kernel)
{
    pto_kernel handle;
    kernel->registered = true;
    if ((core->n_registered == core->room_registered && !make_room(core)) ||
        !handle_of(core, kernel, &handle)) {
        return NULL;
    }
    Registered *made = &core->registered[core->n_registered];
    *made = (Registered){(Kernel *)(void *)Py_NewRef(OBJECT(kernel)), Py_NewRef(object), handle};
    if (!put_place(core, core->n_registered)) {
        forget(made);
        return NULL;
    }
    core->n_registered++;
    return made;
}

Registered *kernel_find(Core *core, PyObject *object)
{
    Recent *recent = &core->recent[(uintptr_t)object / 16 % RECENT];
    if (recent->object == object) {
        return &core->registered[recent->place];
    }
    core_begin(core); /* the signature of an object may be code of the program */
    PyObject *key = key_of(object);
    PyObject *index = key ? PyDict_GetItemWithError(core->places, key) : NULL;
    Registered *found = NULL;
    if (index) {
        found = &core->registered[PyLong_AsSize_t(index)];
    } else if (!PyErr_Occurred()) {
        PyObject *kernel = resolve(object);
        found = kernel ? add(core, object, (Kernel *)(void *)kernel) : NULL;
        Py_XDECREF(kernel);
    }
    Py_XDECREF(key);
    core_end(core);
    if (found && found->object == object) { /* not a method that is only equal: it may die */
        *recent = (Recent){object, (size_t)(found - core->registered)};
    }
    return found;
}

int registry_visit(const Core *core, visitproc visit, void *arg)
{
    for (size_t i = 0; i < core->n_registered; i++) {
        Py_VISIT(core->registered[i].kernel);
        Py_VISIT(core->registered[i].object);
    }
    Py_VISIT(core->places);
    Py_VISIT(core->handles);
    return 0;
}

void registry_free(Core *core)
{
    Registered *all = core->registered;
    const size_t n = core->n_registered;
    core->registered = NULL; /* first: the end of an object may run code of the program */
    core->n_registered = core->room_registered = 0;
    memset(core->recent, 0, sizeof core->recent);
    Py_CLEAR(core->places);
    Py_CLEAR(core->handles);
    for (size_t i = 0; i < n; i++) {
        forget(&all[i]);
    }
    PyMem_Free(all);
}
