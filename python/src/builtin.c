/* builtin.c - operators that are built into the library, as methods of a runtime: rearrange, and the work
 * requests copy, fill, gather and scatter. */
#include <math.h>
#include <string.h>

#include <pto/op.h>
#include <pto/rearrange.h>
#include <pto/work.h>

#include "binding.h"

#define MOST 3
#define PART_BYTES (1 << 20) /* a rearrange of no more is one task: pto/rearrange.h */

/* The arrays of one call. The first is written. */
typedef struct Arrays {
    Core *core;
    Job *job;
    Argument a[MOST];
    Py_ssize_t n;
    char kind; /* of the first: 'o' or 'u', as in Parameter */
    const char *who, *file;
    int line;
} Arrays;

/* A copy moves bytes: elements of another type would be something else there. */
static bool check_dtypes(const Argument *a, const Argument *b, const char *who)
{
    const int same = a->descr && b->descr ? PyObject_RichCompareBool(a->descr, b->descr, Py_EQ)
                                          : a->dtype == b->dtype && !a->descr == !b->descr;
    if (same == 0) {
        PyObject *one = a->descr ? Py_NewRef(a->descr) : PyUnicode_FromString(a->dtype->name);
        PyObject *other = b->descr ? Py_NewRef(b->descr) : PyUnicode_FromString(b->dtype->name);
        if (one && other) {
            PyErr_Format(PyExc_TypeError, "%s: the dtypes differ: %S and %S", who, one, other);
        }
        Py_XDECREF(one);
        Py_XDECREF(other);
    }
    return same > 0;
}

static bool check_index(const Argument *a, const char *who)
{
    const pto_dtype dtype = a->tensor->dtype;
    if (!argument_tells_dtype(a) || (dtype != PTO_INT32 && dtype != PTO_INT64)) {
        PyErr_Format(PyExc_TypeError, "%s: argument 2 is the index: it must be int32 or int64",
                     who);
        return false;
    }
    return true;
}

static bool begin(PyObject *self, Arrays *x, const char *who, PyObject *const *args, Py_ssize_t n,
                  Py_ssize_t arrays, Py_ssize_t values)
{
    x->core = ((Runtime *)(void *)self)->core;
    x->who = who;
    x->n = arrays;
    x->kind = 'o';
    if (!core_enter(x->core, who) || (x->core->poisoned && !poisoned_sweep(x->core))) {
        return false;
    }
    jobs_release(x->core);
    if (!core_enter(x->core, who)) { /* letting go of arrays may have closed it */
        return false;
    }
    if (n != arrays + values) {
        PyErr_Format(PyExc_TypeError, "%s takes %zd arguments, but %zd were given", who,
                     arrays + values, n);
        return false;
    }
    if (!job_reserve(x->core) || !(x->job = job_new(x->core, NULL, arrays))) {
        return false;
    }
    core_begin(x->core); /* an argument may run code of the program */
    for (Py_ssize_t i = 0; i < arrays; i++) {
        if (!argument_of(args[i], &x->a[i], who, i)) {
            core_end(x->core);
            job_free(x->job);
            return false;
        }
        x->job->slots[i] = (Slot){.object = x->a[i].keep,
                                  .kind = i == 0 ? 'o' : 'i',
                                  .managed = x->a[i].tensor->owner != 0,
                                  .borrowed = !x->a[i].keep_is_new};
        x->job->count++;
    }
    core_end(x->core);
    if (x->a[0].readonly || x->a[0].lost) {
        PyErr_Format(PyExc_ValueError, "%s: the destination is %s", who,
                     x->a[0].readonly ? "read-only"
                                      : "a temporary copy that nobody else refers to");
        job_free(x->job);
        return false;
    }
    if ((arrays > 1 && !check_dtypes(&x->a[0], &x->a[1], who)) ||
        (arrays > 2 && !check_index(&x->a[2], who))) {
        job_free(x->job);
        return false;
    }
    x->file = core_where(x->core, &x->line);
    for (Py_ssize_t i = 0; i < arrays; i++) {
        pto_task task;
        if (!argument_arrives(&x->a[i])) {
            continue;
        }
        core_begin(x->core);
        const pto_status s = arrival_submit(x->core, &x->a[i], true, &task, x->file, x->line);
        core_end(x->core);
        if (s != PTO_OK) {
            (void)error_raise(x->core, s, x->file, x->line);
            job_commit(x->core, x->job, false); /* others may have been submitted */
            return false;
        }
    }
    return true;
}

/* For pto.explain: what the call accesses. */
RARE static PyObject *accesses_of(const Arrays *x)
{
    PyObject *list = PyList_New(0);
    for (Py_ssize_t i = 0; list && i < x->n; i++) {
        if (!task_list_access(list, i, i == 0 ? x->kind : 'i', &x->a[i])) {
            Py_CLEAR(list);
        }
    }
    PyObject *tuple = list ? PyList_AsTuple(list) : NULL;
    Py_XDECREF(list);
    return tuple;
}

/* The task that was submitted last is the one that the program gets. core->submitted counts those before it. */
static PyObject *finish(Arrays *x, pto_status s)
{
    PyObject *made = NULL;
    s = core_status(x->core, s);
    if (s == PTO_OK) {
        x->job->task = pto_last_task(x->core->rt);
        made = task_new(x->core, x->job->task, x->core->submitted, NULL, x->file, x->line);
    } else {
        (void)error_raise(x->core, s, x->file, x->line);
    }
    if (made) {
        ((Task *)(void *)made)->builtin = x->who;
        ((Task *)(void *)made)->accesses = x->core->explains ? accesses_of(x) : NULL;
    }
    core_end(x->core);
    job_commit(x->core, x->job, false); /* even if it failed: some parts may have been submitted */
    return made;
}

static PyObject *submit_work(Arrays *x, pto_work *work)
{
    core_begin(x->core);
    return finish(x, pto_submit_work_at(x->core->rt, work, NULL, x->file, x->line));
}

/* A large copy is several tasks. One more stands for all of them: it reads the whole destination, so it is
 * complete when they are, and skipped if one of them is bad. */
PyObject *builtin_rearrange(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    Arrays x;
    if (!begin(self, &x, "rearrange", args, n, 2, 0)) {
        return NULL;
    }
    Core *core = x.core;
    uint64_t submitted = core->submitted;
    core_begin(core);
    pto_status s = pto_submit_rearrange_at(core->rt, x.a[0].tensor, x.a[1].tensor, PTO_VECTOR,
                                           x.file, x.line);
    if (x.a[0].tensor->storage_bytes > PART_BYTES) {
        (void)pto_watermark(core->rt, &submitted);
    }
    if (s == PTO_OK && submitted - core->submitted > 1) {
        pto_task task;
        core->submitted = submitted;
        s = core_submit_idle(core, &core->joiner, "all parts", pto_input(x.a[0].tensor), &task,
                             x.file, x.line);
    }
    return finish(&x, s);
}

/* The task would fail. A copy of elements to where they are does nothing. */
static pto_status check_apart(const pto_tensor *out, const pto_tensor *in)
{
    const uint64_t steps = (uint64_t)pto_tensor_numel(in);
    pto_overlap_result result;
    bool same = out->storage == in->storage && out->owner == in->owner && out->offset == in->offset;
    for (int d = 0; same && d < out->ndim; d++) {
        same = out->strides[d] == in->strides[d] || out->shape[d] == 1;
    }
    if (same) {
        return PTO_OK;
    }
    const pto_status s = pto_tensor_overlaps_ex(
        out, in, steps > PTO_OVERLAP_BUDGET ? steps : PTO_OVERLAP_BUDGET, &result);
    return s == PTO_OK && result.yes
               ? pto_fail(PTO_OVERLAP, "copy: the source shares bytes with the destination")
               : PTO_OK; /* of what is wrong otherwise the library says more */
}

PyObject *builtin_copy(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    Arrays x;
    if (!begin(self, &x, "copy", args, n, 2, 0)) {
        return NULL;
    }
    const pto_tensor out = *x.a[0].tensor, in = *x.a[1].tensor;
    const bool alike = out.ndim == in.ndim && memcmp(out.shape, in.shape, sizeof in.shape) == 0;
    if (!alike && out.device.type == PTO_DEVICE_CPU && in.device.type == PTO_DEVICE_CPU) {
        const int64_t to = pto_tensor_numel(&out), from = pto_tensor_numel(&in);
        if (to != from) {
            PyErr_Format(PyExc_ValueError, "copy: %lld elements do not fit into %lld",
                         (long long)from, (long long)to);
            job_free(x.job);
            return NULL;
        }
        return submit_work(&x, &(pto_work){.opcode = PTO_WORK_COPY, /* of dense memory */
                                           .inputs = &in,
                                           .n_inputs = 1,
                                           .outputs = &out,
                                           .n_outputs = 1});
    }
    core_begin(x.core);
    pto_status s = alike ? check_apart(&out, &in) : PTO_OK;
    s = s == PTO_OK ? pto_copy_at(x.core->rt, &out, &in, x.file, x.line) : s;
    return finish(&x, s);
}

/* Whether a finite number has become infinite, as an element of few bits. */
static bool became_infinite(const Dtype *d, double number, uint64_t bits)
{
    const uint64_t infinite = d->format == 'f'   ? 0x7f800000
                              : d->format == 'e' ? 0x7c00
                              : d->format == 'E' ? 0x7f80
                                                 : 0x7ff0000000000000;
    const uint64_t sign = 1ULL << (8 * d->bytes - 1);
    return isfinite(number) && (bits & ~sign) == infinite;
}

/* The bits of a number as an element. */
static bool bits_of(const Argument *a, PyObject *value, uint64_t *bits)
{
    const Dtype *d = a->dtype;
    *bits = 0;
    if (!d || d->format == 'F') {
        PyErr_SetString(PyExc_TypeError, "fill: the elements are no integers or floats: submit a "
                                         "kernel that does x[...] = value");
        return false;
    }
    if (d->format == '?') {
        const int truth = PyObject_IsTrue(value);
        *bits = truth > 0;
        return truth >= 0;
    }
    if (strchr("fdeE", d->format)) {
        const double number = PyFloat_AsDouble(value);
        pto_tensor one;
        if (number == -1 && PyErr_Occurred()) {
            if (PyErr_ExceptionMatches(PyExc_TypeError)) {
                PyErr_Format(PyExc_TypeError, "fill: %R is no number for elements of %s", value,
                             d->name);
            }
            return false;
        }
        pto_status s = pto_tensor_init(&one, bits, sizeof *bits, d->as, 0, NULL, NULL, 0);
        s = s == PTO_OK ? pto_fill(&one, number) : s;
        if (s == PTO_OK && became_infinite(d, number, *bits)) {
            PyErr_Format(PyExc_OverflowError, "fill: %R does not fit into %s", value, d->name);
            return false;
        }
        return s == PTO_OK || (error_raise(NULL, s, NULL, 0), false);
    }
    PyObject *index = PyNumber_Index(value);
    if (!index) {
        if (PyErr_ExceptionMatches(PyExc_TypeError)) {
            PyErr_Format(PyExc_TypeError, "fill: %R is no integer for elements of %s", value,
                         d->name);
        }
        return false;
    }
    const bool is_signed = strchr("bhiq", d->format) != NULL;
    const long long low = is_signed ? -(1LL << (8 * d->bytes - 2)) * 2 : 0;
    int overflow;
    const long long number = PyLong_AsLongLongAndOverflow(index, &overflow);
    bool fits = !overflow && number >= low;
    if (d->bytes < 8) {
        fits = fits && number <= (is_signed ? -(low + 1) : (1LL << (8 * d->bytes)) - 1);
    } else if (!is_signed && overflow > 0) {
        *bits = PyLong_AsUnsignedLongLong(index);
        fits = !PyErr_Occurred();
        Py_DECREF(index);
        return fits ||
               (PyErr_Clear(), PyErr_SetString(PyExc_OverflowError, "fill: too large"), false);
    }
    Py_DECREF(index);
    if (!fits) {
        PyErr_Format(PyExc_OverflowError, "fill: %R does not fit into %s", value, d->name);
        return false;
    }
    *bits = (uint64_t)number;
    return true;
}

PyObject *builtin_fill(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    Arrays x;
    uint64_t bits;
    if (!begin(self, &x, "fill", args, n, 1, 1)) {
        return NULL;
    }
    core_begin(x.core); /* the value may be an object of the program */
    const bool good = bits_of(&x.a[0], args[1], &bits);
    core_end(x.core);
    if (!good) {
        job_free(x.job);
        return NULL;
    }
    const pto_tensor out = *x.a[0].tensor;
    return submit_work(
        &x,
        &(pto_work){.opcode = PTO_WORK_FILL, .outputs = &out, .n_outputs = 1, .params = {bits}});
}

PyObject *builtin_gather(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    Arrays x;
    if (!begin(self, &x, "gather", args, n, 3, 0)) {
        return NULL;
    }
    const pto_tensor out = *x.a[0].tensor, in[] = {*x.a[1].tensor, *x.a[2].tensor};
    return submit_work(&x, &(pto_work){.opcode = PTO_WORK_GATHER,
                                       .inputs = in,
                                       .n_inputs = 2,
                                       .outputs = &out,
                                       .n_outputs = 1});
}

PyObject *builtin_scatter(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    Arrays x;
    if (!begin(self, &x, "scatter", args, n, 3, 0)) {
        return NULL;
    }
    x.kind = 'u';
    const pto_tensor out = *x.a[0].tensor, in[] = {*x.a[1].tensor, *x.a[2].tensor};
    return submit_work(&x, &(pto_work){.opcode = PTO_WORK_SCATTER,
                                       .inputs = in,
                                       .n_inputs = 2,
                                       .inouts = &out,
                                       .n_inouts = 1});
}
