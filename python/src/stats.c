/* stats.c - the statistics of a runtime as a dict. */
#include "binding.h"

static int put(PyObject *dict, const char *key, uint64_t value)
{
    PyObject *number = PyLong_FromUnsignedLongLong(value);
    const int bad = number ? PyDict_SetItemString(dict, key, number) : -1;
    Py_XDECREF(number);
    return bad;
}

static PyObject *rings_of(const pto_runtime_stats *stats)
{
    PyObject *list = PyList_New(0);
    for (uint32_t l = 0; list && l < stats->levels; l++) {
        for (int r = 0; list && r < PTO_RINGS; r++) {
            const pto_ring_stats *ring = &stats->level[l].ring[r];
            PyObject *row = Py_BuildValue(
                "{s:I,s:s,s:K,s:K,s:K,s:K}", "level", l, "ring", pto_ring_name((pto_ring)r), "used",
                (unsigned long long)ring->used, "peak", (unsigned long long)ring->peak, "size",
                (unsigned long long)ring->size, "waits", (unsigned long long)ring->waits);
            if (!row || PyList_Append(list, row) < 0) {
                Py_CLEAR(list);
            }
            Py_XDECREF(row);
        }
    }
    return list;
}

PyObject *runtime_stats(PyObject *self, PyObject *unused)
{
    Core *core = ((Runtime *)(void *)self)->core;
    pto_runtime_stats s;
    (void)unused;
    if (!core_is_open(core)) {
        PyErr_SetString(PyExc_ValueError, "stats: the runtime is closed");
        return NULL;
    }
    const pto_status status = pto_stats(core->rt, &s);
    if (status != PTO_OK) {
        return error_raise(NULL, status, NULL, 0);
    }
    PyObject *dict = PyDict_New(), *rings = rings_of(&s);
    if (!dict || !rings || put(dict, "submitted", s.submitted) ||
        put(dict, "completed", s.completed) || put(dict, "failed", s.failed) ||
        put(dict, "skipped", s.skipped) || put(dict, "raw", s.raw) || put(dict, "war", s.war) ||
        put(dict, "waw", s.waw) || put(dict, "after", s.after) || put(dict, "helped", s.helped) ||
        put(dict, "inlined", s.inlined) || put(dict, "parks", s.parks) ||
        put(dict, "buffers", s.buffers) || put(dict, "scope_depth", s.scope_depth) ||
        put(dict, "pending", s.pending) || put(dict, "threads", pto_thread_count(core->rt)) ||
        put(dict, "overlap_budget_hits", s.overlap_budget_hits) ||
        put(dict, "held", core->job_head - core->job_tail) ||
        PyDict_SetItemString(dict, "rings", rings) < 0) {
        Py_CLEAR(dict);
    }
    Py_XDECREF(rings);
    return dict;
}
