/* module.c - the module pto._pto: types, functions, and what happens at exit. */
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "binding.h"

PyTypeObject *kernel_type, *tensor_type, *task_type, *memory_type, *heap_type, *scope_type,
    *runtime_type, *view_type;
PyObject *method_type;
extern PyType_Spec kernel_spec, tensor_spec, task_spec, memory_spec, heap_spec, scope_spec,
    runtime_spec, view_spec;

/* ---- All open runtimes ---- */

static Core *open_cores;
bool exiting;

void core_list_add(Core *core)
{
    core->next = open_cores;
    open_cores = core;
}

void core_list_remove(Core *core)
{
    for (Core **at = &open_cores; *at; at = &(*at)->next) {
        if (*at == core) {
            *at = core->next;
            return;
        }
    }
}

/* A thread that does not hold the interpreter up (a daemon) may be in a call of its runtime, even in the middle
 * of a close. The call ends early once all tasks are cancelled. Until then only that thread may touch the core. */
static void let_it_return(const Core *core)
{
    const struct timespec moment = {.tv_nsec = 1000000};
    if (core_is_open(core)) {
        pto_cancel(core->rt);
    }
    Py_BEGIN_ALLOW_THREADS nanosleep(&moment, NULL);
    Py_END_ALLOW_THREADS
}

/* As runtimes that are collected do. Whatever it runs may let go of the Runtime, but not of the core. */
static void warn_open(Core *core)
{
    core->closing = true;
    if (PyErr_ResourceWarning(NULL, 1,
                              "a pto.Runtime was open at exit: its tasks are cancelled; use `with "
                              "pto.Runtime() as rt`, or rt.close()") < 0) {
        PyErr_WriteUnraisable(NULL);
    }
}

/* Called at exit, before the interpreter ends: workers must not run Python after that. */
static PyObject *close_all(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    exiting = true;
    while (open_cores) {
        Core *core = open_cores;
        const bool ours = core->process == getpid(); /* else no thread of it exists here */
        if (ours && core->busy && core->thread != PyThread_get_thread_ident()) {
            let_it_return(core);
            continue; /* it may be gone */
        }
        core_list_remove(core);
        if (!ours || !core->busy) {
            if (ours) {
                warn_open(core);
            }
            (void)core_close(core, PTO_CANCEL);
            if (core->orphan) {
                core_free(core);
            }
        }
    }
    Py_RETURN_NONE;
}

/* ---- Functions ---- */

static PyObject *make_tensor(PyObject *module, PyObject *object)
{
    Argument a;
    (void)module;
    if (!argument_of(object, &a, "tensor", 0)) {
        return NULL;
    }
    PyObject *made = argument_arrives(&a) && !arrival_wait(&a)
                         ? NULL
                         : tensor_new(a.tensor, a.dtype, a.descr, a.keep, a.readonly);
    argument_drop(&a);
    return made;
}

static PyObject *overlaps(PyObject *module, PyObject *args)
{
    PyObject *first, *second;
    Argument a, b;
    (void)module;
    if (!PyArg_ParseTuple(args, "OO", &first, &second) || !argument_of(first, &a, "overlaps", 0)) {
        return NULL;
    }
    if (!argument_of(second, &b, "overlaps", 1)) {
        argument_drop(&a);
        return NULL;
    }
    pto_overlap_result result;
    const pto_status s = pto_tensor_overlaps_ex(a.tensor, b.tensor, 0, &result);
    PyObject *answer = s == PTO_OK ? Py_BuildValue("(Os)", result.yes ? Py_True : Py_False,
                                                   pto_overlap_stage_name(result.stage))
                                   : error_raise(NULL, s, NULL, 0);
    argument_drop(&a);
    argument_drop(&b);
    return answer;
}

static PyObject *convert_trace(PyObject *module, PyObject *args)
{
    const char *from, *to;
    pto_status pto_trace_convert(const char *, const char *);
    (void)module;
    if (!PyArg_ParseTuple(args, "ss", &from, &to)) {
        return NULL;
    }
    const pto_status s = pto_trace_convert(from, to);
    return s == PTO_OK ? Py_NewRef(Py_None) : error_raise(NULL, s, NULL, 0);
}

static PyMethodDef functions[] = {
    {"tensor", make_tensor, METH_O,
     "tensor(array, /)\n--\n\nA pto.Tensor over the memory of an array, to submit it often and "
     "cheaply."},
    {"_kernel", (PyCFunction)(void (*)(void))kernel_new, METH_VARARGS | METH_KEYWORDS,
     "Makes a kernel."},
    {"_overlaps", overlaps, METH_VARARGS, "Whether two arrays share a byte, and what decided it."},
    {"_convert_trace", convert_trace, METH_VARARGS, "Converts a trace file."},
    {"_close_all", close_all, METH_NOARGS, "Cancels and closes all runtimes."},
    {"_setup", error_setup, METH_VARARGS, "Sets the class of errors."},
    {"_adopt", runtime_adopt, METH_O, "Gives the class of runtimes methods of its own."},
    {"_blas", blas_kernel, METH_VARARGS, "Loads a BLAS, and returns the addresses of kernels."},
    {NULL, NULL, 0, NULL},
};

/* ---- Import ---- */

static PyObject *statuses(void)
{
    PyObject *dict = PyDict_New();
#define ADD(name, value, text, hint)                                                               \
    if (dict) {                                                                                    \
        PyObject *number = PyLong_FromLong(value);                                                 \
        if (!number || PyDict_SetItemString(dict, #name, number) < 0) {                            \
            Py_CLEAR(dict);                                                                        \
        }                                                                                          \
        Py_XDECREF(number);                                                                        \
    }
    PTO_STATUS_MAP(ADD)
#undef ADD
    return dict;
}

static bool add_type(PyObject *module, PyTypeObject **type, PyType_Spec *spec, const char *name)
{
    if (!*type) { /* a second import uses the same types */
        *type = (PyTypeObject *)PyType_FromSpec(spec);
    }
    return *type && PyModule_AddObjectRef(module, name, (PyObject *)*type) == 0;
}

static PyObject *find_method_type(void)
{
    PyObject *types = PyImport_ImportModule("types");
    PyObject *type = types ? PyObject_GetAttrString(types, "MethodType") : NULL;
    Py_XDECREF(types);
    return type;
}

static int execute(PyObject *module)
{
    if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0) {
        PyErr_SetString(
            PyExc_ImportError,
            "pto works in the main interpreter alone: its workers share one GIL. Import it "
            "there, or start a process instead of a subinterpreter");
        return -1;
    }
    if (strcmp(pto_version(), PTO_VERSION) != 0) {
        PyErr_Format(PyExc_ImportError,
                     "pto was built for version %s of libpto, and version %s is loaded",
                     PTO_VERSION, pto_version());
        return -1;
    }
    PyObject *codes = statuses();
    const bool good = codes && (method_type || (method_type = find_method_type())) &&
                      (runtime_type || call_setup() == 0) &&
                      add_type(module, &runtime_type, &runtime_spec, "Runtime") &&
                      add_type(module, &kernel_type, &kernel_spec, "Kernel") &&
                      add_type(module, &tensor_type, &tensor_spec, "Tensor") &&
                      add_type(module, &task_type, &task_spec, "Task") &&
                      add_type(module, &memory_type, &memory_spec, "Memory") &&
                      add_type(module, &heap_type, &heap_spec, "Heap") &&
                      add_type(module, &view_type, &view_spec, "View") &&
                      add_type(module, &scope_type, &scope_spec, "Scope") &&
                      PyModule_AddObjectRef(module, "_statuses", codes) == 0 &&
                      PyModule_AddStringConstant(module, "version", pto_version()) == 0;
    Py_XDECREF(codes);
    if (!good && !PyErr_Occurred()) {
        PyErr_NoMemory();
    }
    return good ? 0 : -1;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)execute}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "pto._pto", "The C part of pto.", 0, functions, slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__pto(void)
{
    return PyModuleDef_Init(&definition);
}
