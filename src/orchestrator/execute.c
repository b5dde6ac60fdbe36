/* execute.c - pto_execute: runs an orchestration on data of the host.
 *
 *     host                       device
 *     inputs  ──copy tasks────>  dense ──┐
 *                                        │  the orchestration, its tasks
 *     outputs <──copy tasks────  dense <─┘
 *
 * The copies are tasks (pto_copy). So the inputs are copied while the orchestration already submits,
 * and each task waits for its own inputs only. The outputs are copied when the orchestration has
 * returned well; the copy of an output that a failed task should have written is skipped. Memory on
 * the device is allocated before the first copy, and kept for the next call.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pto/execute.h>
#include <pto/process.h>

#include "base/error.h"
#include "device/copy.h"
#include "device/device.h"
#include "orchestrator/buffer.h"
#include "orchestrator/cache.h"
#include "orchestrator/device.h"
#include "orchestrator/refusal.h"
#include "orchestrator/runtime.h"
#include "orchestrator/work.h"

enum { DETAIL_BYTES = 512 }; /* longer than any detail */

/* One tensor, with its memory on the device. */
typedef struct passage {
    pto_tensor host;
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
    uint32_t number; /* of the device in this runtime */
    const char *file;
    int line;
    size_t n_in, n;      /* inputs; inputs and outputs */
    passage *passages;   /* n of them, the inputs first */
    pto_tensor *tensors; /* the same on the device */
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

/* Allocates the memory of one tensor on the device. */
static pto_status provide(run *r, size_t i)
{
    passage *p = &r->passages[i];
    if (p->bytes) {
        const pto_status s = ptoi_cache_take(r->rt, r->number, p->bytes, &p->memory);
        if (s) {
            return ptoi_fail(s, "execute: alloc of %s for %s %zu, %" PRIu64 " bytes: %s",
                             ptoi_device_words(r->device).s, i < r->n_in ? "input" : "output",
                             i < r->n_in ? i : i - r->n_in, p->bytes, pto_error_detail());
        }
    }
    PTO_TRY(pto_tensor_init(&r->tensors[i], p->memory, p->bytes, p->host.dtype, p->host.ndim,
                            p->host.shape, NULL, 0));
    r->tensors[i].device = r->device;
    return PTO_OK;
}

/* Gives everything back. All tasks are complete. */
static void release(run *r)
{
    for (size_t i = r->n; r->passages && i-- > 0;) {
        if (r->passages[i].memory) {
            ptoi_cache_give_back(r->rt, r->number, r->passages[i].memory, r->passages[i].bytes);
        }
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
        PTO_IGNORE(pto_tensor_byte_range(host, &low, &end)); /* check_host has checked it */
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
    PTO_TRY(ptoi_device_number(r->rt, "execute", r->device, &r->number));
    for (size_t i = 0; i < r->n; i++) {
        PTO_TRY(provide(r, i));
    }
    return PTO_OK;
}

/* Submits a copy. Worker processes do not see memory of the program, so there this thread copies at
 * once: no task uses the tensors then. */
static pto_status copy(const run *r, const pto_tensor *to, const pto_tensor *from)
{
    return r->rt->processes ? ptoi_device_copy_wait(to, from)
                            : ptoi_copy_for(r->rt, to, from, r->file, r->line);
}

static pto_status copy_in(const run *r)
{
    for (size_t i = 0; i < r->n_in; i++) {
        if (r->passages[i].bytes) {
            PTO_TRY(copy(r, &r->tensors[i], &r->passages[i].host));
        }
    }
    return PTO_OK;
}

static pto_status copy_out(const run *r)
{
    if (r->rt->processes) {
        PTO_TRY(pto_wait(r->rt));
    }
    for (size_t i = r->n_in; i < r->n; i++) {
        if (r->passages[i].bytes) {
            PTO_TRY(copy(r, &r->passages[i].host, &r->tensors[i]));
        }
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
    keep_first(&r->trouble, pto_device_set_current(r->device));
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
        s = pto_scope_end_at(rt, NULL, 0);
    }
    keep_first(&r->trouble, s);
    keep_first(&r->trouble, ptoi_refusal_verdict(rt, "execute"));
    if (!r->trouble.status) {
        keep_first(&r->trouble, copy_out(r));
    }
    s = pto_wait(rt); /* also after an error: the memory is given back next */
    while (s == PTO_WORKER_LOST && pto_recover(rt) == PTO_OK) {
        s = pto_wait(rt);
    }
    keep_first(&r->trouble, s);
    return report(&r->trouble);
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

static pto_status execute(pto_runtime *rt, pto_orchestration orchestration,
                          const pto_tensor *inputs, size_t n_in, const pto_tensor *outputs,
                          size_t n_out, void *params, const pto_execute_options *options,
                          const char *file, int line)
{
    PTO_TRY(check_arguments(rt, orchestration, inputs, n_in, outputs, n_out, options));
    PTO_TRY(ptoi_runtime_enter(rt, "execute"));
    run r = {.rt = rt,
             .orchestration = orchestration,
             .params = params,
             .device = options ? options->device : ptoi_device_at(rt, rt->home),
             .n_in = n_in,
             .n = n_in + n_out,
             .file = file,
             .line = line};
    PTO_TRY(ptoi_device_check("execute", r.device));

    const uint32_t home = rt->home;
    trouble first = {0};
    rt->executing++;
    pto_status s = prepare(&r, inputs, outputs);
    if (!s) {
        ptoi_device_set_home(rt, r.number); /* temporaries of the orchestration are there, too */
        s = copy_in(&r);
        if (!s) {
            s = orchestrate(&r, options ? options->orchestrator : PTO_ON_CALLER);
        } else {
            keep_first(&first, s);
            PTO_IGNORE(pto_wait(rt)); /* for the copies that were submitted */
        }
        ptoi_device_set_home(rt, home);
    }
    keep_first(&first, s); /* giving memory back may set another error text */
    release(&r);
    rt->executing--;
    return report(&first);
}

pto_status pto_execute_at(pto_runtime *rt, pto_orchestration orchestration,
                          const pto_tensor *inputs, size_t n_in, const pto_tensor *outputs,
                          size_t n_out, void *params, const pto_execute_options *options,
                          const char *file, int line)
{
    const bool ours = ptoi_runtime_is_ours(rt);
    const uint64_t before = ours ? rt->refusal.count : 0;
    const pto_status s = execute(rt, orchestration, inputs, n_in, outputs, n_out, params, options,
                                 file, line);
    if (ours && rt->refusal.count != before) {
        return s; /* a call of the orchestration was refused, and is kept */
    }
    return ptoi_refusal_note(rt, s, "pto_execute", file, line);
}
