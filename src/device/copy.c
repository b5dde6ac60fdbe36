#include "device/copy.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pto/pto.h>
#include <pto/rearrange.h>

#include "base/error.h"
#include "device/device.h"
#include "op/rearrange/plan.h"

/* Copies on the host. */
static void move(const pto_tensor *to, const pto_tensor *from)
{
    const uint32_t size = (uint32_t)pto_dtype_size(to->dtype);
    ptoi_copy(to->ndim, to->shape, (char *)to->storage + to->offset * (int64_t)size, to->strides,
              (const char *)from->storage + from->offset * (int64_t)size, from->strides, size);
}

static void *first_of(const pto_tensor *t)
{
    return (char *)t->storage + t->offset * (int64_t)pto_dtype_size(t->dtype);
}

/* ---- With copy_in and copy_out ---- */

/* Copies dense bytes with the device current, and waits. */
static pto_status carry(pto_device device, const pto_device_ops *ops, void *to, const void *from,
                        uint64_t bytes, bool in)
{
    const pto_device before = pto_device_current();
    PTO_TRY(ptoi_device_go(device));
    pto_status s = (in ? ops->copy_in : ops->copy_out)(ops->self, to, from, bytes);
    if (ops->synchronize) { /* even after a failure: memory must not be in use */
        const pto_status ended = ops->synchronize(ops->self);
        s = s ? s : ended;
    }
    return ptoi_device_return(before, s);
}

/* The bytes that a tensor spans, as a dense tensor of the same device. */
static pto_status span_of(const pto_tensor *t, uint64_t *low, uint64_t *bytes)
{
    uint64_t end;
    PTO_TRY(pto_tensor_byte_range(t, low, &end));
    *bytes = end - *low;
    return PTO_OK;
}

/* Between the host and a device without a copy function. Where the device's side is not dense, all
 * the bytes that it spans are carried: for a write they are read first. */
static pto_status through_bytes(const pto_device_ops *ops, const pto_tensor *to,
                                const pto_tensor *from, bool in)
{
    const pto_tensor *there = in ? to : from, *here = in ? from : to;
    uint64_t low, bytes;
    PTO_TRY(span_of(there, &low, &bytes));
    char *memory = (char *)there->storage + low;
    if (pto_tensor_is_contiguous(here) && pto_tensor_is_contiguous(there)) {
        return in ? carry(there->device, ops, memory, first_of(here), bytes, true)
                  : carry(there->device, ops, first_of(here), memory, bytes, false);
    }
    char *staged = malloc(bytes);
    if (!staged) {
        return ptoi_fail(PTO_OUT_OF_MEMORY, "copy: no %" PRIu64 " bytes on the host", bytes);
    }
    pto_tensor copy = *there; /* the same layout in the staged bytes */
    copy.storage = (void *)((uintptr_t)staged - low);
    copy.device = (pto_device){PTO_DEVICE_CPU, 0};
    pto_status s = PTO_OK;
    if (!in || !pto_tensor_is_contiguous(there)) {
        s = carry(there->device, ops, staged, memory, bytes, false);
    }
    if (!s && in) {
        move(&copy, from);
        s = carry(there->device, ops, memory, staged, bytes, true);
    } else if (!s) {
        move(to, &copy);
    }
    free(staged);
    return s;
}

/* ---- Through the host ---- */

/* A copy from one device to another, in two steps. */
typedef struct relay {
    pto_tensor to, staged;
    pto_device_done done;
    void *context;
    void *memory;
} relay;

static void relay_ended(void *context, pto_status status)
{
    relay *r = context;
    const pto_device_done done = r->done;
    void *to = r->context;
    free(r->memory);
    free(r);
    done(to, status);
}

static void relay_half(void *context, pto_status status)
{
    relay *r = context;
    if (!status) {
        status = ptoi_device_copy(&r->to, &r->staged, relay_ended, r);
    } else {
        relay_ended(r, status);
        return;
    }
    if (status) {
        relay_ended(r, status);
    }
}

static pto_status through_host(const pto_tensor *to, const pto_tensor *from, pto_device_done done,
                               void *context)
{
    uint64_t bytes;
    PTO_TRY(pto_tensor_nbytes(to, &bytes));
    relay *r = calloc(1, sizeof *r);
    void *memory = r ? malloc(bytes) : NULL;
    if (!memory) {
        free(r);
        return ptoi_fail(PTO_OUT_OF_MEMORY, "copy: no %" PRIu64 " bytes on the host", bytes);
    }
    *r = (relay){.to = *to, .done = done, .context = context, .memory = memory};
    pto_status s = pto_tensor_init(&r->staged, memory, bytes, to->dtype, to->ndim, to->shape, NULL,
                                   0);
    if (!s) {
        s = ptoi_device_copy(&r->staged, from, relay_half, r);
    }
    if (s) {
        free(memory);
        free(r);
    }
    return s;
}

/* ---- On one device ---- */

/* With the operator of the device, and waits. */
static pto_status by_operator(const pto_device_ops *ops, const pto_tensor *to,
                              const pto_tensor *from)
{
    const pto_device before = pto_device_current();
    PTO_TRY(pto_rearrange(to, from));
    PTO_TRY(ptoi_device_go(to->device));
    return ptoi_device_return(before, ops->synchronize(ops->self));
}

static bool has_operator(const pto_device_ops *ops, pto_device_type type)
{
    pto_op_fn fn;
    return ops->synchronize && pto_op_lookup(pto_rearrange_op(), type, &fn) == PTO_OK;
}

/* ---- Any copy ---- */

pto_status ptoi_device_copy(const pto_tensor *to, const pto_tensor *from, pto_device_done done,
                            void *context)
{
    const bool to_host = ptoi_device_is_host(to->device);
    const bool from_host = ptoi_device_is_host(from->device);
    if (pto_tensor_numel(to) == 0 || (to_host && from_host)) {
        if (pto_tensor_numel(to)) {
            move(to, from);
        }
        done(context, PTO_OK);
        return PTO_OK;
    }
    const pto_device device = to_host ? from->device : to->device;
    const bool near = to_host || from_host || from->device.type == to->device.type;
    pto_device_ops ops;
    PTO_TRY(pto_device_get(device, &ops));
    if (ops.copy && near) {
        const pto_status s = ops.copy(ops.self, to, from, done, context);
        if (s != PTO_NOT_IMPLEMENTED) {
            return s;
        }
    }
    if (ptoi_device_equal(to->device, from->device) && has_operator(&ops, device.type)) {
        PTO_TRY(by_operator(&ops, to, from));
        done(context, PTO_OK);
        return PTO_OK;
    }
    if (!to_host && !from_host) {
        return through_host(to, from, done, context);
    }
    if (!ops.copy_in || !ops.copy_out) {
        return ptoi_fail(PTO_BAD_DEVICE, "copy: %s:%" PRId32 " has no function to copy",
                         pto_device_name(device.type), device.index);
    }
    PTO_TRY(through_bytes(&ops, to, from, from_host));
    done(context, PTO_OK);
    return PTO_OK;
}

pto_status ptoi_device_fill(const pto_tensor *to, const void *element, pto_device_done done,
                            void *context)
{
    static const int64_t still[PTO_MAX_DIMS];
    const uint32_t size = (uint32_t)pto_dtype_size(to->dtype);
    pto_device_ops ops;
    if (pto_tensor_numel(to) == 0 || ptoi_device_is_host(to->device)) {
        if (pto_tensor_numel(to)) {
            ptoi_copy(to->ndim, to->shape, first_of(to), to->strides, element, still, size);
        }
        done(context, PTO_OK);
        return PTO_OK;
    }
    PTO_TRY(pto_device_get(to->device, &ops));
    if (ops.fill) {
        return ops.fill(ops.self, to, element, done, context);
    }
    pto_tensor value; /* every element is the same one */
    char copy[8] = "";
    memcpy(copy, element, size);
    PTO_TRY(pto_tensor_init(&value, copy, size, to->dtype, to->ndim, to->shape, still, 0));
    PTO_TRY(ptoi_device_copy_wait(to, &value)); /* `copy` must stay until the end */
    done(context, PTO_OK);
    return PTO_OK;
}

/* ---- Waiting ---- */

void ptoi_device_wake(void *context, pto_status status)
{
    ptoi_device_wait *w = context;
    pthread_mutex_lock(&w->lock);
    w->status = status;
    if (status) {
        snprintf(w->detail, sizeof w->detail, "%s", pto_error_detail());
    }
    w->over = true;
    pthread_cond_signal(&w->ended);
    pthread_mutex_unlock(&w->lock);
}

pto_status ptoi_device_wait_for(ptoi_device_wait *w)
{
    pthread_mutex_lock(&w->lock);
    while (!w->over) {
        pthread_cond_wait(&w->ended, &w->lock);
    }
    pthread_mutex_unlock(&w->lock);
    return w->status ? ptoi_fail(w->status, "%s", w->detail) : PTO_OK;
}

/* Makes a copy on the calling thread, if there is a device that it can wait for: that is faster than
 * to hand the copy to another thread. *made is false if not. */
static pto_status copy_here(const pto_tensor *to, const pto_tensor *from, bool *made)
{
    const bool in = ptoi_device_is_host(from->device), out = ptoi_device_is_host(to->device);
    const bool dense = pto_tensor_is_contiguous(to) && pto_tensor_is_contiguous(from);
    pto_device_ops ops;
    *made = false;
    if ((in && out) || !pto_tensor_numel(to)) {
        return PTO_OK;
    }
    PTO_TRY(pto_device_get(out ? from->device : to->device, &ops));
    if (in || out) {
        *made = dense && ops.copy_in && ops.copy_out && ops.synchronize;
        return *made ? through_bytes(&ops, to, from, in) : PTO_OK;
    }
    *made = ptoi_device_equal(to->device, from->device) && has_operator(&ops, to->device.type);
    return *made ? by_operator(&ops, to, from) : PTO_OK;
}

pto_status ptoi_device_copy_wait(const pto_tensor *to, const pto_tensor *from)
{
    bool made;
    PTO_TRY(copy_here(to, from, &made));
    if (made) {
        return PTO_OK;
    }
    ptoi_device_wait w = PTOI_DEVICE_WAIT;
    PTO_TRY(ptoi_device_copy(to, from, ptoi_device_wake, &w));
    return ptoi_device_wait_for(&w);
}

pto_status ptoi_device_fill_wait(const pto_tensor *to, const void *element)
{
    ptoi_device_wait w = PTOI_DEVICE_WAIT;
    PTO_TRY(ptoi_device_fill(to, element, ptoi_device_wake, &w));
    return ptoi_device_wait_for(&w);
}

pto_status ptoi_device_copy_bytes(pto_device device, void *there, void *here, uint64_t bytes,
                                  bool in)
{
    const int64_t shape[] = {(int64_t)bytes};
    pto_tensor on_device, on_host;
    PTO_TRY(pto_tensor_init(&on_device, there, bytes, PTO_UINT8, 1, shape, NULL, 0));
    PTO_TRY(pto_tensor_init(&on_host, here, bytes, PTO_UINT8, 1, shape, NULL, 0));
    on_device.device = device;
    return in ? ptoi_device_copy_wait(&on_device, &on_host)
              : ptoi_device_copy_wait(&on_host, &on_device);
}
