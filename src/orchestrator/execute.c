/* execute.c - pto_execute: runs an orchestration on data of the host.
 *
 *     host                        device
 *     inputs  --(pack)--copy_in-->  dense  --+
 *                                            |  the orchestration, its tasks
 *     outputs <-(unpack)-copy_out-  dense  <-+
 *
 * A strided tensor is packed into temporary host memory on its way in, and unpacked on its way out.
 * A dense one is copied directly. All memory is allocated before the first copy, so an allocation
 * fails before anything has changed.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "op/rearrange/plan.h"
#include "orchestrator/buffer.h"
#include "orchestrator/device.h"
#include "orchestrator/runtime.h"

enum { DETAIL_BYTES = 512 }; /* longer than any detail */

/* One tensor, with its memory on both sides. */
typedef struct passage {
    pto_tensor host;
    void *dense;    /* dense elements on the host: its own memory, or `packed` */
    void *packed;   /* temporary memory; NULL: the tensor is dense */
    void *memory;   /* on the device; NULL: it has no bytes */
    uint64_t bytes; /* of the elements */
} passage;

/* The first error. It survives the cleanup after it. */
typedef struct trouble {
    pto_status status;
    char detail[DETAIL_BYTES];
} trouble;

typedef struct run {
    pto_runtime *rt;
    pto_orchestration orchestration;
    void *params;
    pto_device device;
    pto_device_ops ops;  /* a copy: the table may change while the orchestration runs */
    size_t n_in, n;      /* inputs; inputs and outputs */
    passage *passages;   /* n of them, the inputs first */
    pto_tensor *tensors; /* the same on the device */
    bool under_way;      /* a copy has begun, and synchronize has not returned since */
    trouble trouble;     /* of the orchestration, on either thread */
} run;

static void keep_first(trouble *first, pto_status status)
{
    if (status && !first->status) {
        first->status = status;
        snprintf(first->detail, sizeof first->detail, "%s", pto_error_detail());
    }
}

/* Makes it the error of this thread. */
static pto_status report(const trouble *first)
{
    return first->status ? ptoi_fail(first->status, "%s", first->detail) : PTO_OK;
}

/* ---- The device --------------------------------------------------------------------------- */

/* Reports that a device function failed. The reason is the function's own text if it has set one
 * since `serial`. */
static pto_status device_failed(const run *r, pto_status status, uint64_t serial, const char *what,
                                size_t i)
{
    const char *why = ptoi_error_serial() == serial ? pto_status_text(status) : pto_error_detail();
    const char *device = pto_device_name(r->device.type);
    if (i == r->n) {
        return ptoi_fail(status, "execute: %s of %s:%" PRId32 ": %s", what, device, r->device.index,
                         why);
    }
    return ptoi_fail(status, "execute: %s of %s:%" PRId32 " for %s %zu, %" PRIu64 " bytes: %s",
                     what, device, r->device.index, i < r->n_in ? "input" : "output",
                     i < r->n_in ? i : i - r->n_in, r->passages[i].bytes, why);
}

static pto_status set_current(const run *r)
{
    uint64_t serial = ptoi_error_serial();
    pto_status s = r->ops.set_current ? r->ops.set_current(r->ops.self) : PTO_OK;
    return s ? device_failed(r, s, serial, "set_current", r->n) : PTO_OK;
}

static pto_status synchronize(run *r)
{
    uint64_t serial = ptoi_error_serial();
    pto_status s = r->ops.synchronize ? r->ops.synchronize(r->ops.self) : PTO_OK;
    r->under_way = false;
    return s ? device_failed(r, s, serial, "synchronize", r->n) : PTO_OK;
}

/* ---- Memory ------------------------------------------------------------------------------- */

static pto_status check_host(const run *r, size_t i, const pto_tensor *t, uint64_t *bytes)
{
    const char *side = i < r->n_in ? "input" : "output";
    size_t number = i < r->n_in ? i : i - r->n_in;
    pto_status s = pto_tensor_nbytes(t, bytes);
    if (s) {
        return ptoi_fail(s, "execute: %s %zu: %s", side, number, pto_error_detail());
    }
    if (t->owner) {
        return ptoi_fail(PTO_BAD_PARAM,
                         "execute: %s %zu is in managed block %" PRIu64
                         ", not in memory of the user",
                         side, number, t->owner);
    }
    if (t->device.type != PTO_DEVICE_CPU) {
        return ptoi_fail(PTO_BAD_DEVICE, "execute: %s %zu is on %s:%" PRId32 ", not on the CPU",
                         side, number, pto_device_name(t->device.type), t->device.index);
    }
    return ptoi_buffer_check_external(r->rt, "execute", t);
}

/* Allocates the memory of one tensor, on both sides. */
static pto_status provide(run *r, size_t i)
{
    passage *p = &r->passages[i];
    if (p->bytes) {
        uint64_t serial = ptoi_error_serial();
        pto_status s = r->ops.alloc(r->ops.self, p->bytes, &p->memory);
        if (!s && !p->memory) {
            s = ptoi_fail(PTO_OUT_OF_MEMORY, "it returned NULL");
        }
        if (s) {
            p->memory = NULL;
            return device_failed(r, s, serial, "alloc", i);
        }
        if (pto_tensor_is_contiguous(&p->host)) {
            p->dense = (char *)p->host.storage +
                       p->host.offset * (int64_t)pto_dtype_size(p->host.dtype);
        } else {
            p->dense = p->packed = malloc(p->bytes);
            if (!p->packed) {
                return ptoi_fail(
                    PTO_OUT_OF_MEMORY, "execute: no %" PRIu64 " bytes on the host to pack %s %zu",
                    p->bytes, i < r->n_in ? "input" : "output", i < r->n_in ? i : i - r->n_in);
            }
        }
    }
    PTO_TRY(pto_tensor_init(&r->tensors[i], p->memory, p->bytes, p->host.dtype, p->host.ndim,
                            p->host.shape, NULL, 0));
    r->tensors[i].device = r->device;
    return PTO_OK;
}

/* Frees everything. All tasks are complete, and copies that are under way are awaited first. */
static void release(run *r)
{
    if (r->under_way) {
        (void)synchronize(r);
    }
    for (size_t i = r->n; r->passages && i-- > 0;) {
        if (r->passages[i].memory) {
            r->ops.free(r->ops.self, r->passages[i].memory, r->passages[i].bytes);
        }
        free(r->passages[i].packed);
    }
    free(r->passages);
    free(r->tensors);
}

/* The byte range of an output. */
typedef struct span {
    uintptr_t low, end;
    size_t i; /* index of the passage */
} span;

static int by_address(const void *left, const void *right)
{
    const span *a = left, *b = right;
    return (a->low > b->low) - (a->low < b->low);
}

/* Checks that no two outputs overlap: the result would depend on the order of the copies. Sorted by
 * address, only neighbours have to be compared exactly. */
static pto_status check_outputs(const run *r)
{
    size_t n = 0;
    span *spans = calloc(r->n - r->n_in + 1, sizeof *spans);
    if (!spans) {
        return ptoi_fail(PTO_OUT_OF_MEMORY, "execute: no memory to list %zu outputs",
                         r->n - r->n_in);
    }
    for (size_t i = r->n_in; i < r->n; i++) {
        uint64_t low = 0, end = 0;
        const pto_tensor *host = &r->passages[i].host;
        (void)pto_tensor_byte_range(host, &low, &end); /* cannot fail: check_host has checked it */
        if (low < end) {
            uintptr_t base = (uintptr_t)host->storage;
            spans[n++] = (span){base + low, base + end, i};
        }
    }
    qsort(spans, n, sizeof *spans, by_address);
    pto_status s = PTO_OK;
    for (size_t a = 0; a < n && !s; a++) {
        for (size_t b = a + 1; b < n && !s && spans[b].low < spans[a].end; b++) {
            if (pto_tensor_overlaps(&r->passages[spans[a].i].host, &r->passages[spans[b].i].host)) {
                s = ptoi_fail(PTO_OVERLAP,
                              "execute: outputs %zu, up to 0x%" PRIxPTR
                              ", and %zu, from 0x%" PRIxPTR " on, share memory",
                              spans[a].i - r->n_in, spans[a].end, spans[b].i - r->n_in,
                              spans[b].low);
            }
        }
    }
    free(spans);
    return s;
}

/* ---- The steps ---------------------------------------------------------------------------- */

static pto_status prepare(run *r, const pto_tensor *inputs, const pto_tensor *outputs)
{
    r->passages = calloc(r->n + 1, sizeof *r->passages);
    r->tensors = calloc(r->n + 1, sizeof *r->tensors);
    if (!r->passages || !r->tensors) {
        return ptoi_fail(PTO_OUT_OF_MEMORY, "execute: no memory to list %zu tensors", r->n);
    }
    for (size_t i = 0; i < r->n; i++) {
        passage *p = &r->passages[i];
        p->host = i < r->n_in ? inputs[i] : outputs[i - r->n_in];
        PTO_TRY(check_host(r, i, &p->host, &p->bytes));
    }
    PTO_TRY(check_outputs(r));
    /* Earlier tasks may use the host's memory, so they complete first. An earlier failure is
     * reported here, not as one of the orchestration. */
    PTO_TRY(pto_wait(r->rt));
    PTO_TRY(set_current(r));
    for (size_t i = 0; i < r->n; i++) {
        PTO_TRY(provide(r, i));
    }
    return PTO_OK;
}

static pto_status copy_in(run *r)
{
    for (size_t i = 0; i < r->n_in; i++) {
        passage *p = &r->passages[i];
        if (p->packed) {
            pto_tensor dense;
            PTO_TRY(pto_tensor_contiguous(&p->host, p->packed, p->bytes, &dense));
        }
        if (p->bytes) {
            uint64_t serial = ptoi_error_serial();
            r->under_way = true;
            pto_status s = r->ops.copy_in(r->ops.self, p->memory, p->dense, p->bytes);
            if (s) {
                return device_failed(r, s, serial, "copy_in", i);
            }
        }
    }
    PTO_TRY(synchronize(r));
    for (size_t i = 0; i < r->n_in; i++) {
        free(r->passages[i].packed);
        r->passages[i].packed = NULL;
    }
    return PTO_OK;
}

static void call_orchestration(run *r)
{
    uint64_t serial = ptoi_error_serial();
    pto_status s = r->orchestration(r->rt, r->tensors, r->tensors + r->n_in, r->params);
    if (s && ptoi_error_serial() == serial) {
        ptoi_fail(s, "execute: the orchestration returned %s (%d) and did not say why",
                  pto_status_name(s), (int)s);
    }
    keep_first(&r->trouble, s);
}

static void *orchestrate_here(void *context)
{
    run *r = context;
    ptoi_runtime_adopt(r->rt);
    keep_first(&r->trouble, set_current(r));
    if (!r->trouble.status) {
        call_orchestration(r);
    }
    return NULL;
}

static pto_status orchestrate_on_thread(run *r)
{
    pthread_t thread;
    int error = pthread_create(&thread, NULL, orchestrate_here, r);
    if (!error) {
        error = pthread_join(thread, NULL);
        ptoi_runtime_adopt(r->rt);
    }
    if (error) {
        return ptoi_fail(PTO_SYSTEM, "execute: no thread for the orchestration: error %d: %s",
                         error, strerror(error));
    }
    return PTO_OK;
}

static pto_status orchestrate(run *r, pto_orchestrator where)
{
    pto_runtime *rt = r->rt;
    uint32_t depth = pto_get_scope_depth(rt);
    if (where == PTO_ON_THREAD) {
        keep_first(&r->trouble, orchestrate_on_thread(r));
    } else {
        call_orchestration(r);
    }
    if (pto_get_scope_depth(rt) < depth) {
        keep_first(&r->trouble,
                   ptoi_fail(PTO_BAD_SCOPE,
                             "execute: the orchestration ended scopes of its caller: %" PRIu32
                             " were open, %" PRIu32 " are",
                             depth, pto_get_scope_depth(rt)));
    }
    pto_status s = PTO_OK;
    while (!s && pto_get_scope_depth(rt) > depth) {
        s = pto_scope_end(rt);
    }
    keep_first(&r->trouble, s);
    keep_first(&r->trouble, pto_wait(rt));
    keep_first(&r->trouble,
               set_current(r)); /* the orchestration may have selected another device */
    return report(&r->trouble);
}

static pto_status copy_out(run *r)
{
    for (size_t i = r->n_in; i < r->n; i++) {
        passage *p = &r->passages[i];
        if (p->bytes) {
            uint64_t serial = ptoi_error_serial();
            r->under_way = true;
            pto_status s = r->ops.copy_out(r->ops.self, p->dense, p->memory, p->bytes);
            if (s) {
                return device_failed(r, s, serial, "copy_out", i);
            }
        }
    }
    PTO_TRY(synchronize(r));
    for (size_t i = r->n_in; i < r->n; i++) {
        const passage *p = &r->passages[i];
        if (p->packed) {
            const pto_tensor *to = &p->host;
            uint32_t size = (uint32_t)pto_dtype_size(to->dtype);
            ptoi_copy(to->ndim, to->shape, (char *)to->storage + to->offset * (int64_t)size,
                      to->strides, p->packed, r->tensors[i].strides, size);
        }
    }
    return PTO_OK;
}

/* ---- pto_execute ---------------------------------------------------------------------------- */

static pto_status check_arguments(const pto_runtime *rt, pto_orchestration orchestration,
                                  const pto_tensor *inputs, size_t n_in, const pto_tensor *outputs,
                                  size_t n_out, const pto_execute_options *options)
{
    const char *missing = !rt                 ? "rt"
                          : !orchestration    ? "orchestration"
                          : n_in && !inputs   ? "inputs"
                          : n_out && !outputs ? "outputs"
                                              : NULL;
    if (missing) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "execute: %s is NULL", missing);
    }
    if (n_in > SIZE_MAX / 2 || n_out > SIZE_MAX / 2 - 1) {
        return ptoi_fail(PTO_OVERFLOW, "execute: %zu inputs and %zu outputs", n_in, n_out);
    }
    if (options && options->size != sizeof *options) {
        return ptoi_fail(PTO_BAD_CONFIG, "execute: size of options is %zu, it should be %zu",
                         options->size, sizeof *options);
    }
    if (options && options->orchestrator != PTO_ON_CALLER &&
        options->orchestrator != PTO_ON_THREAD) {
        return ptoi_fail(PTO_BAD_CONFIG, "execute: orchestrator %d is neither %d nor %d",
                         (int)options->orchestrator, (int)PTO_ON_CALLER, (int)PTO_ON_THREAD);
    }
    return PTO_OK;
}

pto_status pto_execute_ex(pto_runtime *rt, pto_orchestration orchestration,
                          const pto_tensor *inputs, size_t n_in, const pto_tensor *outputs,
                          size_t n_out, void *params, const pto_execute_options *options)
{
    PTO_TRY(check_arguments(rt, orchestration, inputs, n_in, outputs, n_out, options));
    PTO_TRY(ptoi_runtime_enter(rt, "execute"));
    run r = {.rt = rt,
             .orchestration = orchestration,
             .params = params,
             .device = options ? options->device : (pto_device){PTO_DEVICE_CPU, 0},
             .n_in = n_in,
             .n = n_in + n_out};
    PTO_TRY(pto_device_find(rt, r.device, &r.ops));

    const pto_device_ops *outer = rt->devices->current;
    trouble first = {0};
    rt->devices->current = &r.ops;
    pto_status s = prepare(&r, inputs, outputs);
    if (!s) {
        s = copy_in(&r);
    }
    if (!s) {
        s = orchestrate(&r, options ? options->orchestrator : PTO_ON_CALLER);
    }
    if (!s) {
        s = copy_out(&r);
    }
    keep_first(&first, s); /* freeing may set another error text */
    release(&r);
    rt->devices->current = outer;
    if (outer && outer->set_current) {
        keep_first(&first, outer->set_current(outer->self));
    }
    return report(&first);
}
