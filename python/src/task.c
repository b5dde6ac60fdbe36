/* task.c - pto.Task: what submit returns. */
#include "binding.h"

PyObject *task_new(pto_task task, uint64_t order, Kernel *kernel, const char *file, int line)
{
    /* Most programs drop what submit returns. The last task that nobody else refers to is used again. */
    static Task *last;
    Task *made = last;
    if (made && Py_REFCNT(OBJECT(made)) == 1) {
        Py_CLEAR(made->accesses);
        if (made->kernel != OBJECT(kernel)) {
            Py_CLEAR(made->kernel);
        }
    } else {
        made = PyObject_New(Task, task_type);
        if (!made) {
            return NULL;
        }
        made->kernel = made->accesses = NULL;
        Py_XDECREF(OBJECT(last));
        last = made;
    }
    if (kernel && !made->kernel) {
        made->kernel = Py_NewRef(OBJECT(kernel));
    }
    made->task = task;
    made->order = order;
    made->file = file;
    made->line = line;
    return Py_NewRef(OBJECT(made));
}

static void task_dealloc(PyObject *self)
{
    Task *task = (Task *)(void *)self;
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(task->kernel);
    Py_XDECREF(task->accesses);
    PyObject_Free(self);
    Py_DECREF(type);
}

static const char *name_of(const Task *task)
{
    return task->kernel ? ((Kernel *)(void *)task->kernel)->name : "built-in";
}

static PyObject *task_repr(PyObject *self)
{
    const Task *task = (const Task *)(const void *)self;
    return PyUnicode_FromFormat("<pto.Task %llu, %s, %s:%d>", (unsigned long long)task->order,
                                name_of(task), task->file ? task->file : "?", task->line);
}

static PyObject *task_get(PyObject *self, void *what)
{
    const Task *task = (const Task *)(const void *)self;
    switch (*(const char *)what) {
    case 'n':
        return PyUnicode_FromString(name_of(task));
    case 'f':
        return task->file ? PyUnicode_FromString(task->file) : PyUnicode_FromString("");
    case 'l':
        return PyLong_FromLong(task->line);
    case 'o':
        return PyLong_FromUnsignedLongLong(task->order);
    case 'a':
        if (!task->accesses) {
            Py_RETURN_NONE;
        }
        Py_INCREF(task->accesses);
        return task->accesses;
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
    {"_accesses", task_get, NULL, "For pto.explain.", "a"},
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
