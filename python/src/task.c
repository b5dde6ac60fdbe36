/* task.c - pto.Task: what submit returns. */
#include "binding.h"

static Task *last; /* what task_new has returned last; NULL: none */

PyObject *task_new(const Core *core, pto_task task, uint64_t order, Kernel *kernel,
                   const char *file, int line)
{
    /* Most programs drop what submit returns. The last task that nobody else refers to is used again. */
    Task *made = last;
    last = NULL; /* what is cleared may run code of the program, which submits to another runtime */
    if (made && Py_REFCNT(OBJECT(made)) == 1) {
        Py_CLEAR(made->accesses);
        Py_CLEAR(made->after);
        if (!kernel || made->kernel != kernel->text) {
            Py_CLEAR(made->kernel);
        }
    } else {
        Py_XDECREF(OBJECT(made));
        made = PyObject_New(Task, task_type);
        if (!made) {
            return NULL;
        }
        made->kernel = made->accesses = made->after = NULL;
    }
    if (kernel && !made->kernel) {
        made->kernel = Py_NewRef(kernel->text);
    }
    Py_XDECREF(OBJECT(last));
    last = made;
    made->task = task;
    made->builtin = "built-in";
    made->runtime = core->number;
    made->order = order;
    made->file = file;
    made->line = line;
    return Py_NewRef(OBJECT(made));
}

bool task_list_access(PyObject *list, Py_ssize_t index, char kind, const Argument *a)
{
    PyObject *tensor = tensor_new(a->tensor, a->dtype, a->descr, NULL, a->readonly);
    PyObject *access = tensor ? Py_BuildValue("(nCN)", index, (int)kind, tensor) : NULL;
    const bool good = access && PyList_Append(list, access) == 0;
    Py_XDECREF(access);
    return good;
}

void task_forget(void)
{
    Task *task = last;
    last = NULL;
    Py_XDECREF(OBJECT(task));
}

static void task_dealloc(PyObject *self)
{
    Task *task = (Task *)(void *)self;
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(task->kernel);
    Py_XDECREF(task->accesses);
    Py_XDECREF(task->after);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* Its name: a new reference. */
static PyObject *name_of(const Task *task)
{
    return task->kernel ? Py_NewRef(task->kernel) : PyUnicode_FromString(task->builtin);
}

static PyObject *task_repr(PyObject *self)
{
    const Task *task = (const Task *)(const void *)self;
    PyObject *name = name_of(task);
    PyObject *text = name ? PyUnicode_FromFormat("<pto.Task %llu, %U, %s:%d>",
                                                 (unsigned long long)task->order, name,
                                                 task->file ? task->file : "?", task->line)
                          : NULL;
    Py_XDECREF(name);
    return text;
}

static PyObject *task_get(PyObject *self, void *what)
{
    const Task *task = (const Task *)(const void *)self;
    switch (*(const char *)what) {
    case 'n':
        return name_of(task);
    case 'f':
        return task->file ? PyUnicode_FromString(task->file) : PyUnicode_FromString("");
    case 'l':
        return PyLong_FromLong(task->line);
    case 'o':
        return PyLong_FromUnsignedLongLong(task->order);
    case 'r':
        return PyLong_FromUnsignedLongLong(task->runtime);
    case 'a':
        if (!task->accesses) {
            Py_RETURN_NONE;
        }
        Py_INCREF(task->accesses);
        return task->accesses;
    case 't':
        return task->after ? PyList_AsTuple(task->after) : PyTuple_New(0);
    default:
        return PyLong_FromUnsignedLongLong(task->task);
    }
}

static PyGetSetDef task_getset[] = {
    {"kernel", task_get, NULL, "Name of its kernel.", "n"},
    {"file", task_get, NULL, "Python file in which it was submitted.", "f"},
    {"line", task_get, NULL, "Line in that file.", "l"},
    {"order", task_get, NULL, "Number of tasks that were submitted before it.", "o"},
    {"id", task_get, NULL, "Its handle in the C library.", "i"},
    {"_runtime", task_get, NULL, "For pto.explain.", "r"},
    {"_accesses", task_get, NULL, "For pto.explain.", "a"},
    {"_after", task_get, NULL, "For pto.explain.", "t"},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot task_slots[] = {
    {Py_tp_dealloc, (void *)task_dealloc},
    {Py_tp_repr, (void *)task_repr},
    {Py_tp_getset, task_getset},
    {Py_tp_doc, "A submitted task: for rt.wait(task), after=task and pto.explain(task, task)."},
    {0, NULL},
};
PyType_Spec task_spec = {"pto.Task", sizeof(Task), 0,
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, task_slots};
