/* submit.c - rt.submit: arguments become parameters, and these a task. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "binding.h"

#define FEW 16 /* parameters that need no allocation */

/* ---- Parameters ---- */

/* Whether a C function that takes this type gets the number, and not some of its bits. */
static bool fits(long long value, const Dtype *d)
{
    const int bits = d->format == '?' ? 1 : 8 * d->bytes - (strchr("bhiq", d->format) != NULL);
    const long long high = bits >= 63 ? LLONG_MAX : (1LL << bits) - 1;
    return value <= high && value >= (bits == 8 * d->bytes || d->format == '?' ? 0 : -high - 1);
}

static bool put_float(double value, const Parameter *p, pto_param *out, const char *who,
                      Py_ssize_t index)
{
    *out = pto_scalar_f64(value);
    if (p->dtype && p->dtype->as == PTO_FLOAT32 && isfinite(value) && !isfinite((float)value)) {
        PyErr_Format(PyExc_OverflowError, "%s: argument %zd does not fit into float32", who, index);
        return false;
    }
    return true;
}

static bool read_scalar(PyObject *object, const Parameter *p, pto_param *out, const char *who,
                        Py_ssize_t index)
{
    const bool wants_float = p->dtype &&
                             (p->dtype->as == PTO_FLOAT64 || p->dtype->as == PTO_FLOAT32);
    if (PyFloat_Check(object) && (wants_float || !p->dtype)) {
        return put_float(PyFloat_AsDouble(object), p, out, who, index);
    }
    if (!wants_float &&
        (PyLong_Check(object) || (PyIndex_Check(object) && !argument_is_array(object)))) {
        PyObject *whole = PyNumber_Index(object);
        int overflow = 0;
        const long long value = whole ? PyLong_AsLongLongAndOverflow(whole, &overflow) : -1;
        bool good = whole && !overflow && (!p->dtype || fits(value, p->dtype));
        if (whole && overflow > 0 && (!p->dtype || p->dtype->as == PTO_UINT64)) {
            *out = pto_scalar_u64(PyLong_AsUnsignedLongLong(whole));
            good = !PyErr_Occurred();
        } else if (good) {
            *out = p->dtype && p->dtype->as == PTO_UINT64 ? pto_scalar_u64((uint64_t)value)
                                                          : pto_scalar_i64(value);
        }
        if (whole && !good) {
            PyErr_Format(PyExc_OverflowError, "%s: argument %zd does not fit into %s", who, index,
                         p->dtype ? p->dtype->name : "64 bits");
        }
        Py_XDECREF(whole);
        return good;
    }
    if (!argument_is_array(object) && (wants_float || !p->dtype) && PyNumber_Check(object) &&
        !PyComplex_Check(object)) {
        const double value = PyFloat_AsDouble(object);
        if (value == -1 && PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_OverflowError)) {
            PyErr_Format(PyExc_OverflowError, "%s: argument %zd does not fit into %s", who, index,
                         p->dtype ? p->dtype->name : "float64");
        }
        return !(value == -1 && PyErr_Occurred()) && put_float(value, p, out, who, index);
    }
    PyErr_Format(PyExc_TypeError, "%s: argument %zd must be %s, not %R", who, index,
                 wants_float ? "a number"
                 : p->dtype  ? "an integer"
                             : "a number",
                 (PyObject *)Py_TYPE(object));
    return false;
}

static int32_t dims_of(const Argument *a)
{
    return a->tensor->ndim - (a->descr ? 1 : 0);
}

/* A C function with the signature of pto/kernel.h that takes any dtype sees that of the tensor. */
static bool takes_dtype(const Argument *a, const Parameter *p, const Kernel *k)
{
    return p->dtype ? p->dtype == a->dtype : k->style == STYLE_PYTHON || argument_tells_dtype(a);
}

RARE static bool refuse(const Argument *a, const Parameter *p, const Kernel *k, Py_ssize_t index)
{
    if (p->kind != 'i' && a->readonly) {
        PyErr_Format(PyExc_ValueError, "%s: argument %zd is read-only, but the kernel writes it",
                     k->name, index);
    } else if (p->kind != 'i' && a->lost) {
        PyErr_Format(
            PyExc_ValueError,
            "%s: argument %zd is a temporary copy, so nobody could ever see what the kernel "
            "writes to it: y[mask] and y.reshape(...) copy, slices such as y[1:5] do not",
            k->name, index);
    } else if (!takes_dtype(a, p, k)) {
        PyObject *given = a->descr ? Py_NewRef(a->descr) : PyUnicode_FromString(a->dtype->name);
        if (given && p->dtype) {
            PyErr_Format(PyExc_TypeError,
                         "%s: argument %zd has dtype %S, but the kernel takes %s: make the array "
                         "with that dtype",
                         k->name, index, given, p->dtype->name);
        } else if (given) {
            PyErr_Format(PyExc_TypeError,
                         "%s: argument %zd has dtype %S, which pto/tensor.h does not have: the "
                         "kernel would take it for another one; pass a view, such as x.view('u1')",
                         k->name, index, given);
        }
        Py_XDECREF(given);
    } else if (p->ndim >= 0 && p->ndim != dims_of(a)) {
        PyErr_Format(PyExc_ValueError, "%s: argument %zd has %d dims, but the kernel takes %d",
                     k->name, index, dims_of(a), p->ndim);
    } else {
        PyErr_Format(
            PyExc_ValueError,
            "%s: argument %zd is not contiguous, but the kernel takes a plain pointer: declare "
            "it with its dims, such as double[:,:], or pass a contiguous array",
            k->name, index);
    }
    return false;
}

static bool check_array(const Argument *a, const Parameter *p, const Kernel *k, Py_ssize_t index)
{
    const bool good = (p->kind == 'i' || (!a->readonly && !a->lost)) && takes_dtype(a, p, k) &&
                      (p->ndim < 0 || p->ndim == dims_of(a)) &&
                      (!p->dense || pto_tensor_is_contiguous(a->tensor));
    return good || refuse(a, p, k, index);
}

static pto_param param_of(char kind, const pto_tensor *t)
{
    return kind == 'i' ? pto_input(t) : kind == 'o' ? pto_output(t) : pto_inout(t);
}

RARE static bool refuse_array(const Kernel *k, Py_ssize_t index, PyObject *object)
{
    PyErr_Format(
        PyExc_TypeError,
        "%s: argument %zd is an array (%R), and its parameter has no annotation: say what the "
        "kernel does with it, with pto.In, pto.Out or pto.InOut",
        k->name, index, (PyObject *)Py_TYPE(object));
    return false;
}

/* What one submit needs. */
typedef struct Request {
    Job *job;
    pto_param *params;
    size_t n_params;
    Argument *arguments;
    bool arrivals; /* of some argument */
    pto_param few_params[FEW + 2];
    Argument few_arguments[FEW];
} Request;

static bool read_arguments(Request *q, const Kernel *k, PyObject *const *args, Py_ssize_t n)
{
    Job *job = q->job;
    const bool python = k->style == STYLE_PYTHON;
    for (Py_ssize_t i = 0; i < n; i++) {
        const Parameter *p = &k->parameters[i < k->count ? i : k->count - 1];
        Slot *slot = &job->slots[job->count];
        if (p->kind == 's') {
            if (!python) {
                if (!read_scalar(args[i], p, &q->params[q->n_params++], k->name, i)) {
                    return false;
                }
                continue;
            }
            if (argument_is_array(args[i])) {
                return refuse_array(k, i, args[i]);
            }
            *slot = (Slot){.object = args[i], .kind = 's', .borrowed = true};
            job->count++;
            continue;
        }
        Argument *a = &q->arguments[i];
        if (!argument_of(args[i], a, k->name, i)) {
            return false;
        }
        *slot = (Slot){.object = a->keep,
                       .descr = a->descr,
                       .dtype = a->dtype,
                       .kind = p->kind,
                       .managed = a->tensor->owner != 0,
                       .borrowed = !a->keep_is_new};
        job->count++;
        job->managed |= slot->managed;
        if (a->descr) {
            slot_hold(slot); /* at once: the program may give an array another dtype */
        }
        if (!check_array(a, p, k, i) ||
            (python && slot->managed && !call_prepare_heap(job->core))) {
            return false;
        }
        q->params[q->n_params++] = param_of(p->kind, a->tensor);
        q->arrivals |= argument_arrives(a);
    }
    if (python) {
        job->order = job->core->submitted;
        q->params[q->n_params++] = pto_scalar_u64((uint64_t)(uintptr_t)job);
    }
    return true;
}

RARE static bool refuse_name(PyObject *name)
{
    PyErr_Format(
        PyExc_TypeError,
        "submit: unknown argument '%U': arguments of the kernel are given by position, and "
        "after= and label= are the only names",
        name);
    return false;
}

RARE static bool refuse_count(const Kernel *k, Py_ssize_t n, PyObject *names)
{
    for (Py_ssize_t i = 0; names && i < PyTuple_Size(names);
         i++) { /* the reason, if there is one */
        PyObject *name = PyTuple_GetItem(names, i);
        if (PyUnicode_CompareWithASCIIString(name, "after") != 0 &&
            PyUnicode_CompareWithASCIIString(name, "label") != 0) {
            return refuse_name(name);
        }
    }
    if (k->least == k->count && !k->variadic) {
        PyErr_Format(PyExc_TypeError, "%s takes %d arguments, but %zd were submitted", k->name,
                     k->count, n);
    } else {
        PyErr_Format(PyExc_TypeError, "%s takes %s %d arguments, but %zd were submitted", k->name,
                     n < k->least ? "at least" : "at most", n < k->least ? k->least : k->count, n);
    }
    return false;
}

static bool check_count(const Kernel *k, Py_ssize_t n, PyObject *names)
{
    return (n >= k->least && (n <= k->count || k->variadic)) || refuse_count(k, n, names);
}

/* The keyword arguments of submit. */
typedef struct Options {
    pto_param *after;
    size_t n_after;
    PyObject *orders; /* a list of the orders of those tasks; NULL: nobody asks */
    const char *label;
} Options;

static bool add_order(PyObject *orders, uint64_t order)
{
    PyObject *number = PyLong_FromUnsignedLongLong(order);
    const bool good = number && PyList_Append(orders, number) == 0;
    Py_XDECREF(number);
    return good;
}

/* after=: a task, or a sequence of tasks. */
static bool read_after(PyObject *after, Options *o)
{
    PyObject *list = PyObject_TypeCheck(after, task_type) ? PyList_New(1) : PySequence_List(after);
    if (!list) {
        if (PyErr_ExceptionMatches(PyExc_TypeError)) { /* it is no sequence */
            PyErr_SetString(PyExc_TypeError, "submit: after= takes a task, or a list of tasks");
        }
        return false;
    }
    if (PyObject_TypeCheck(after, task_type)) {
        Py_INCREF(after);
        PyList_SetItem(list, 0, after);
    }
    o->n_after = (size_t)PyList_Size(list);
    o->after = PyMem_Calloc(o->n_after + 1, sizeof *o->after);
    for (size_t i = 0; o->after && i < o->n_after; i++) {
        PyObject *task = PyList_GetItem(list, (Py_ssize_t)i);
        if (!PyObject_TypeCheck(task, task_type)) {
            PyErr_SetString(PyExc_TypeError, "submit: after= takes a task, or a list of tasks");
            break;
        }
        o->after[i] = pto_after(((Task *)(void *)task)->task);
        if (o->orders && !add_order(o->orders, ((Task *)(void *)task)->order)) {
            break;
        }
    }
    Py_DECREF(list);
    return o->after ? !PyErr_Occurred() : (PyErr_NoMemory(), false);
}

RARE static bool read_options(PyObject *const *values, PyObject *names, Options *o)
{
    const Py_ssize_t n = names ? PyTuple_Size(names) : 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *name = PyTuple_GetItem(names, i);
        if (PyUnicode_CompareWithASCIIString(name, "after") == 0) {
            if (values[i] != Py_None && !read_after(values[i], o)) {
                return false;
            }
        } else if (PyUnicode_CompareWithASCIIString(name, "label") == 0) {
            if (values[i] != Py_None && !(o->label = text_of(values[i], "submit: label="))) {
                return false;
            }
        } else {
            return refuse_name(name);
        }
    }
    return true;
}

/* For pto.explain: what the task accesses. */
RARE static PyObject *accesses_of(const Request *q, const Kernel *k, Py_ssize_t n)
{
    PyObject *list = PyList_New(0);
    for (Py_ssize_t i = 0; list && i < n; i++) {
        const Parameter *p = &k->parameters[i < k->count ? i : k->count - 1];
        const Argument *a = &q->arguments[i];
        if (p->kind == 's') {
            continue;
        }
        if (!task_list_access(list, i, p->kind, a)) {
            Py_CLEAR(list);
        }
    }
    PyObject *tuple = list ? PyList_AsTuple(list) : NULL;
    Py_XDECREF(list);
    return tuple;
}

/* Submits what has to go before: the task follows each arrival. */
RARE static pto_status submit_arrivals(Core *core, Request *q, const Kernel *k, Py_ssize_t n,
                                       Options *o, const char *file, int line)
{
    pto_param *after = PyMem_Realloc(o->after, (o->n_after + (size_t)n) * sizeof *after);
    pto_status s = after ? PTO_OK : pto_fail(PTO_OUT_OF_MEMORY, "parameters of a submit");
    o->after = after ? after : o->after;
    for (Py_ssize_t i = 0; s == PTO_OK && i < n; i++) {
        const Argument *a = &q->arguments[i];
        pto_task task;
        if (k->parameters[i < k->count ? i : k->count - 1].kind == 's' || !argument_arrives(a)) {
            continue;
        }
        s = arrival_submit(core, a, false, &task, file, line);
        if (s == PTO_OK) {
            o->after[o->n_after++] = pto_after(task);
        }
    }
    q->job->order = core->submitted;
    return s;
}

/* Calls the library. */
static pto_status submit(Core *core, pto_kernel kernel, Request *q, const Options *o,
                         pto_task *task, const char *file, int line)
{
    const pto_param *params = q->params;
    pto_param *joined = NULL;
    if (o->n_after) { /* in front, so that the job stays the last argument */
        joined = PyMem_Malloc((o->n_after + q->n_params) * sizeof *joined);
        if (!joined) {
            return pto_fail(PTO_OUT_OF_MEMORY, "parameters of a submit");
        }
        memcpy(joined, o->after, o->n_after * sizeof *joined);
        memcpy(joined + o->n_after, params, q->n_params * sizeof *joined);
        params = joined;
    }
    pto_status s = o->label ? pto_label(core->rt, "%s", o->label) : PTO_OK;
    if (s == PTO_OK) {
        s = pto_submit_task_at(core->rt, kernel, PTO_KERNEL_TYPE, params, q->n_params + o->n_after,
                               task, file, line);
    }
    if (joined) {
        PyMem_Free(joined);
    }
    return s;
}

PyObject *runtime_submit(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    Core *core = ((Runtime *)(void *)self)->core;
    if (!core_enter(core, "submit") || (core->poisoned && !poisoned_sweep(core))) {
        return NULL;
    }
    if (n < 1) {
        PyErr_SetString(PyExc_TypeError, "submit: the first argument is the kernel");
        return NULL;
    }
    Registered *found = kernel_find(core, args[0]);
    if (!found) {
        return NULL;
    }
    Kernel *k = found->kernel;
    const pto_kernel handle = found->handle;
    Request q;
    Options o = {NULL, 0, NULL, NULL};
    n--;
    q.n_params = 0;
    q.arrivals = false;
    q.params = q.few_params;
    q.arguments = q.few_arguments;
    if (!check_count(k, n, names) || !job_reserve(core) || !(q.job = job_new(core, k, n))) {
        return NULL;
    }
    core_begin(core); /* an argument may run code of the program */
    if (n > FEW) {
        q.params = PyMem_Malloc(((size_t)n + 2) * sizeof *q.params);
        q.arguments = aligned_alloc(_Alignof(Argument), (size_t)n * sizeof *q.arguments);
    }
    PyObject *made = NULL;
    int line;
    pto_task task = 0;
    if (!q.params || !q.arguments) {
        PyErr_NoMemory();
    } else if (read_arguments(&q, k, args + 1, n) &&
               (!names || ((!core->explains || (o.orders = PyList_New(0))) &&
                           read_options(args + 1 + n, names, &o)))) {
        const char *file = where(&line);
        Py_INCREF(self); /* code of the program may run while the GIL is released */
        pto_status s = q.arrivals ? submit_arrivals(core, &q, k, n, &o, file, line) : PTO_OK;
        if (s == PTO_OK) {
            s = submit(core, handle, &q, &o, &task, file, line);
        }
        if (s == PTO_OK) {
            made = task_new(core, task, core->submitted, k, file, line);
            if (made && core->explains) {
                ((Task *)(void *)made)->accesses = accesses_of(&q, k, n);
                ((Task *)(void *)made)->after = Py_XNewRef(o.orders);
            }
            core_end(core); /* now: collecting garbage may have run code of the program */
            q.job->task = task;
            job_commit(core, q.job, true);
            q.job = NULL;
            if (core->caught) {
                Py_CLEAR(made);
                error_raise(core, PTO_INTERRUPTED, file, line);
            }
        } else {
            core_end(core);
            error_raise(core, s, file, line);
            if (q.arrivals) { /* some of them may have been submitted */
                job_commit(core, q.job, false);
                q.job = NULL;
            }
        }
        Py_DECREF(self);
    }
    if (q.job) {
        core_end(core);
        job_free(q.job);
    }
    if (q.arguments != q.few_arguments) {
        free(q.arguments);
        PyMem_Free(q.params);
    }
    if (names) {
        PyMem_Free(o.after);
        Py_XDECREF(o.orders);
    } else if (o.after) {
        PyMem_Free(o.after); /* of arrivals */
    }
    return made;
}
