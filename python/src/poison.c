/* poison.c - memory that failed tasks were to write, until a new array may have it.
 *
 * The library knows poisoned memory by its address. If the array is freed, a new one may get that address, and
 * tasks that read it would be skipped, although nothing of theirs has failed. So the arrays of a bad task are
 * kept until nobody else refers to them. Then a task without work writes all of each, which ends the poison, and
 * they are freed.
 *
 *     task complete and bad ──> kept ──nobody else refers to it──> written by a task ──complete──> freed
 *
 * That is seen of memory that belongs to an array of NumPy, a bytearray or an array.array. All other memory is kept
 * until the poison ends: pto_clear_error.
 */
#include "binding.h"

/* What has memory that a bad task was to write (a new reference), and the address that it is known by. */
static PyObject *keeper_of(PyObject *object, void **at)
{
    PyObject *owner = numpy_owner(object);
    if (owner || numpy_is_array(object)) {
        *at = owner ? (void *)owner : numpy_data(object);
        return Py_NewRef(owner ? owner : object);
    }
    PyObject *memory = memory_whole(object);
    *at = memory_address(memory);
    return memory;
}

/* Whether nobody else refers to the memory. */
static bool is_dropped(PyObject *keeper)
{
    const Py_buffer *buffer = numpy_is_array(keeper) ? NULL : memory_owned(keeper);
    return Py_REFCNT(keeper) == 1 &&
           (buffer ? Py_REFCNT(buffer->obj) == 1 : numpy_owner(keeper) == keeper);
}

/* Where the memory of a keeper is that is dropped. */
static bool find_memory(PyObject *keeper, void **at, int64_t *bytes)
{
    const Py_buffer *buffer = numpy_is_array(keeper) ? NULL : memory_owned(keeper);
    Argument a;
    if (!buffer && !numpy_resolve(keeper, &a, "submit", 0)) {
        PyErr_Clear();
        return false;
    }
    *at = buffer ? buffer->buf : a.own.storage;
    *bytes = buffer ? (int64_t)buffer->len : (int64_t)a.own.storage_bytes;
    return true;
}

void poisoned_keep(Core *core, const Job *job)
{
    pto_task_report report;
    PyObject *type, *value, *trace;
    if (!job->task || pto_task_info(core->rt, job->task, &report) != PTO_OK || !report.failed) {
        return;
    }
    PyErr_Fetch(&type, &value, &trace); /* a handler of a signal may have raised it */
    for (uint32_t i = 0; i < job->count; i++) {
        const Slot *slot = &job->slots[i];
        const bool written = slot->kind == 'o' || slot->kind == 'u';
        void *at = NULL;
        PyObject *keeper = written && !slot->managed ? keeper_of(slot->object, &at) : NULL;
        PyObject *key = keeper ? PyLong_FromVoidPtr(at) : NULL;
        if (key && (core->poisoned || (core->poisoned = PyDict_New())) &&
            PyDict_Contains(core->poisoned, key) == 0) {
            (void)PyDict_SetItem(core->poisoned, key, keeper);
        }
        Py_XDECREF(key);
        Py_XDECREF(keeper);
        PyErr_Clear(); /* without memory for it the array is freed now */
    }
    PyErr_Restore(type, value, trace);
}

/* Submits the task that ends the poison of the memory of a keeper. */
static pto_status heal(Core *core, PyObject *key, PyObject *keeper, const char *file, int line)
{
    pto_tensor t;
    pto_task task;
    void *at;
    int64_t bytes;
    if (!job_reserve(core) || !find_memory(keeper, &at, &bytes)) {
        PyErr_Clear();
        return PTO_OK; /* it stays */
    }
    if (bytes == 0) {
        (void)PyDict_DelItem(core->poisoned, key);
        return PTO_OK;
    }
    pto_status s = pto_tensor_init(&t, at, (uint64_t)bytes, PTO_UINT8, 1, &bytes, NULL, 0);
    Job *job = s == PTO_OK ? job_new(core, NULL, 1) : NULL;
    if (!job) {
        PyErr_Clear();
        return s;
    }
    job->slots[job->count++] = (Slot){.object = Py_NewRef(keeper)};
    core_begin(core); /* while it waits, code of the program may run */
    s = core_submit_idle(core, &core->healer, "end of poison", pto_output(&t), &task, file, line);
    core_end(core);
    if (s != PTO_OK) {
        job_free(job);
    } else {
        (void)PyDict_DelItem(core->poisoned, key);
        job_commit(core, job, true);
    }
    return s;
}

/* Looks at all memory that is kept, and again after as many submits as are left then. */
bool poisoned_sweep(Core *core)
{
    if (core->sweep_in > 0) {
        core->sweep_in--;
        return true;
    }
    int line;
    const char *file = core_where(core, &line);
    PyObject *keys = PyDict_Keys(core->poisoned);
    for (Py_ssize_t i = 0; keys && i < PyList_Size(keys); i++) {
        PyObject *key = PyList_GetItem(keys, i);
        PyObject *keeper = PyDict_GetItemWithError(core->poisoned, key);
        if (!keeper || !is_dropped(keeper)) {
            continue;
        }
        const pto_status s = heal(core, key, keeper, file, line);
        if (core_status(core, s) == PTO_INTERRUPTED) {
            Py_DECREF(keys);
            (void)error_raise(core, PTO_INTERRUPTED, file, line);
            return false;
        }
        if (s != PTO_OK) { /* the submit of the program will say the same */
            (void)pto_refused(core->rt, NULL);
            break;
        }
        if (!core->rt || !core->poisoned) { /* what was freed ran code of the program */
            break;
        }
    }
    Py_XDECREF(keys);
    PyErr_Clear();
    core->sweep_in = core->poisoned ? PyDict_Size(core->poisoned) : 0;
    return core_enter(core, "submit");
}
