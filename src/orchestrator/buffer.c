/* buffer.c - managed memory: buffers, their versions, and tensors in them.
 *
 * Records form a stack, and a lifetime that ends pops all records made in it. A handle is valid if
 * its record is still on the stack and has the same `life`. No life is used twice, so a handle that
 * has outlived its scope is always recognised, even if its record serves another buffer by then.
 */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "orchestrator/buffer.h"
#include "orchestrator/handle.h"
#include "orchestrator/owner.h"
#include "orchestrator/runtime.h"
#include "orchestrator/stall_report.h"
#include "tensor/tensor.h"

ptoi_buffer *ptoi_buffer_find(pto_runtime *rt, const char *who, const pto_tensor *t)
{
    if (ptoi_buffer_is(rt, t->owner, t->generation)) {
        return &rt->buffers[(uint32_t)t->owner - 1];
    }
    ptoi_fail(PTO_STALE,
              "%s: managed tensor %" PRIu64 " of generation %" PRIu32
              " is not alive: its scope has ended, or it is of another runtime",
              who, t->owner, t->generation);
    return NULL;
}

pto_status ptoi_buffer_check_first(const ptoi_buffer *b, const char *who, const pto_tensor *t)
{
    uint64_t bytes;
    PTO_TRY(pto_tensor_nbytes(t, &bytes));
    if (bytes == b->bytes && t->offset == 0 && pto_tensor_is_contiguous(t)) {
        return PTO_OK;
    }
    return ptoi_fail(PTO_NOT_CONTIGUOUS,
                     "%s: the first write to a buffer of %" PRIu64 " bytes must cover all of it, "
                     "densely; this tensor %s",
                     who, b->bytes,
                     bytes != b->bytes ? "is only a part of it" : "has another layout");
}

pto_status ptoi_buffer_check_external(const pto_runtime *rt, const char *who, const pto_tensor *t)
{
    uint64_t low, end;
    PTO_TRY(pto_tensor_check(t));
    PTO_TRY(pto_tensor_byte_range(t, &low, &end));
    for (int side = 0; side < 2; side++) {
        uintptr_t heap = rt->heap_low[side], base = (uintptr_t)t->storage;
        if (low < end && base + low < heap + rt->heap_bytes && base + end > heap) {
            return ptoi_fail(PTO_BAD_MEMORY,
                             "%s: memory at %p, %" PRIu64 " bytes, lies in the runtime's own heap",
                             who, (void *)(base + low), end - low);
        }
    }
    return PTO_OK;
}

bool ptoi_buffer_unpack(const pto_runtime *rt, const ptoi_slot *slot, const ptoi_arg_desc *arg,
                        pto_tensor *t)
{
    const ptoi_desc *desc = ptoi_arg_layout(&rt->view, arg);
    int64_t size = (int64_t)pto_dtype_size(desc->dtype), low = 0, high = size;
    bool empty = false; /* an empty tensor has no address */
    memset(t, 0, sizeof *t);
    t->ndim = desc->ndim;
    t->dtype = desc->dtype;
    for (int32_t d = 0; d < t->ndim; d++) {
        t->shape[d] = desc->dims[d];
        t->strides[d] = desc->dims[t->ndim + d];
        empty |= t->shape[d] == 0;
    }
    for (int32_t d = 0; !empty && d < t->ndim; d++) { /* submit has checked it: no overflow */
        int64_t reach = (t->shape[d] - 1) * t->strides[d] * size;
        *(reach < 0 ? &low : &high) += reach;
    }
    if (arg->buffer) {
        const ptoi_buffer *b = &rt->buffers[arg->buffer - 1];
        /* The record was in use before the task, and still is: it is the buffer that the task
         * named. */
        if (arg->buffer > rt->n_buffers || b->order > ptoi_order_of(&rt->view, slot)) {
            return false;
        }
        t->owner = ptoi_buffer_owner(rt, b);
        t->generation = (uint32_t)b->life;
        t->version = b->version;
        t->storage_bytes = b->bytes;
        t->offset = empty ? 0 : (int64_t)(arg->value - b->at) / size;
    } else if (!empty) {
        t->storage = (void *)(uintptr_t)(arg->value + (uint64_t)low);
        t->storage_bytes = (uint64_t)(high - low);
        t->offset = -low / size;
    }
    return true;
}

static __attribute__((noinline, cold)) pto_status refuse_buffer(pto_runtime *rt, uint64_t bytes)
{
    if (rt->depth == 0) {
        return ptoi_fail(PTO_NO_SCOPE, "create a buffer: %" PRIu64 " bytes, but no scope is open",
                         bytes);
    }
    if (bytes > rt->rings[rt->level].heap.size) {
        const uint64_t enough = bytes > UINT64_MAX - 63 ? bytes : (bytes + 63) & ~UINT64_C(63);
        (void)ptoi_stall_too_large(rt, rt->level, PTOI_SHORT_HEAP, bytes, enough);
        return ptoi_fail(PTO_TOO_LARGE,
                         "create a buffer: %" PRIu64 " bytes, but the heap of level %u has %" PRIu64
                         ": raise heap_bytes (PTO_HEAP) to at least %" PRIu64,
                         bytes, rt->level, rt->rings[rt->level].heap.size, enough);
    }
    pto_stall_report full = {.kind = PTO_STALL_BUFFERS,
                             .ring = PTO_RING_BUFFERS,
                             .size = rt->max_buffers,
                             .used = rt->n_buffers,
                             .wanted = 1};
    ptoi_stall_keep(rt, &full, 0, 0, 0);
    return ptoi_fail(PTO_STALLED,
                     "create a buffer: %" PRIu32
                     " buffers are alive in open scopes, and only ending "
                     "these makes room: use boundary scopes, or raise buffers (PTO_BUFFERS)",
                     rt->n_buffers);
}

/* Pushes the record of a new buffer. */
static inline pto_status create_buffer(pto_runtime *rt, uint64_t bytes, ptoi_buffer **made)
{
    if (PTOI_UNLIKELY(rt->depth == 0 || bytes > rt->ring->heap.size ||
                      rt->n_buffers == rt->max_buffers)) {
        return refuse_buffer(rt, bytes);
    }
    ptoi_buffer *b = &rt->buffers[rt->n_buffers++];
    *b = (ptoi_buffer){
        .life = ++rt->lives,
        .order = rt->order,
        .base = rt->base,
        .bytes = bytes,
    };
    ptoi_header *h = rt->view.header;
    ptoi_set64(&h->buffers, rt->n_buffers);
    if (PTOI_UNLIKELY(rt->n_buffers > ptoi_get64(&h->buffers_peak))) {
        ptoi_set64(&h->buffers_peak, rt->n_buffers);
    }
    *made = b;
    return PTO_OK;
}

pto_status pto_create_buffer(pto_runtime *rt, uint64_t bytes, pto_buffer *buffer)
{
    ptoi_buffer *b = NULL;
    PTO_TRY(ptoi_runtime_enter(rt, "create a buffer"));
    if (!buffer) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "create a buffer: buffer is NULL");
    }
    PTO_TRY(create_buffer(rt, bytes, &b));
    *buffer = (pto_buffer){ptoi_buffer_owner(rt, b), bytes, (uint32_t)b->life};
    return PTO_OK;
}

/* A dense tensor in a buffer. */
static pto_status make(const pto_buffer *buffer, uint32_t version, pto_dtype dtype, int32_t ndim,
                       const int64_t *shape, pto_tensor *t)
{
    pto_tensor made;
    /* The buffer may have no memory yet. A placeholder address lets the usual bounds check run. */
    PTO_TRY(pto_tensor_init(&made, buffer->bytes ? (void *)64 : NULL, buffer->bytes, dtype, ndim,
                            shape, NULL, 0));
    made.storage = NULL;
    made.owner = buffer->owner;
    made.generation = buffer->generation;
    made.version = version;
    *t = made;
    return PTO_OK;
}

pto_status pto_managed_tensor(pto_runtime *rt, const pto_buffer *buffer, uint32_t version,
                              pto_dtype dtype, int32_t ndim, const int64_t *shape, pto_tensor *t)
{
    PTO_TRY(ptoi_runtime_enter(rt, "managed tensor"));
    if (!buffer || !t) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "managed tensor: %s is NULL", buffer ? "t" : "buffer");
    }
    pto_tensor handle = {.owner = buffer->owner, .generation = buffer->generation};
    const ptoi_buffer *b = ptoi_buffer_find(rt, "managed tensor", &handle);
    if (!b) {
        return PTO_STALE;
    }
    pto_buffer known = *buffer;
    known.bytes = b->bytes;
    return make(&known, version, dtype, ndim, shape, t);
}

/* The result of pto_tensor_init for an ordinary shape. False for any other: pto_tensor_init then
 * decides, and reports what is wrong. */
static bool dense_ordinary(pto_dtype dtype, int32_t ndim, const int64_t *shape, pto_tensor *t)
{
    const uint64_t size = (uint32_t)dtype < 16 ? ptoi_dtype_bytes(dtype) : 0;
    if (size == 0 || (uint32_t)ndim > PTO_MAX_DIMS || (ndim && !shape)) {
        return false;
    }
    *t = (pto_tensor){.ndim = ndim, .dtype = dtype};
    int64_t step = 1;
    for (int32_t d = ndim - 1; d >= 0; d--) {
        t->shape[d] = shape[d];
        t->strides[d] = step;
        if (shape[d] <= 0 || __builtin_mul_overflow(step, shape[d], &step)) {
            return false;
        }
    }
    t->storage_bytes = (uint64_t)step * size;
    return step <= INT32_MAX; /* far below any overflow of bytes */
}

/* A dense tensor of this shape, in memory of exactly its size. The address is not known yet. */
static pto_status dense(pto_dtype dtype, int32_t ndim, const int64_t *shape, pto_tensor *t)
{
    if (dense_ordinary(dtype, ndim, shape, t)) {
        return PTO_OK;
    }
    /* With the largest possible storage only dtype or shape can be wrong. */
    PTO_TRY(pto_tensor_init(t, (void *)64, INT64_MAX - 64, dtype, ndim, shape, NULL, 0));
    uint64_t bytes = pto_dtype_size(dtype);
    for (int32_t d = 0; d < ndim; d++) {
        bytes *= (uint64_t)shape[d]; /* no overflow: checked above */
    }
    t->storage = NULL;
    t->storage_bytes = bytes;
    return PTO_OK;
}

/* Most temporaries look like the previous one, which was checked. */
static inline bool is_as_before(const pto_tensor *before, pto_dtype dtype, int32_t ndim,
                                const int64_t *shape)
{
    if (before->ndim != ndim || before->dtype != dtype || !shape || ndim == 0) {
        return false;
    }
    for (int32_t d = 0; d < ndim; d++) {
        if (before->shape[d] != shape[d]) {
            return false;
        }
    }
    return true;
}

/* Copies two words at a time. ptoi_desc_matches soon reads them in the same units, and a load of
 * the store's size is forwarded from the store buffer. */
static inline void copy_tensor(pto_tensor *to, const pto_tensor *from)
{
    _Static_assert(sizeof *to % sizeof(ptoi_words) == 0, "it is made of pairs of words");
    ptoi_words words[sizeof *to / sizeof(ptoi_words)];
#pragma GCC unroll 16
    for (size_t i = 0; i < sizeof *to / sizeof(ptoi_words); i++) {
        words[i] = ptoi_load_words((const char *)from + i * sizeof(ptoi_words));
        memcpy((char *)to + i * sizeof(ptoi_words), &words[i], sizeof(ptoi_words));
    }
}

pto_status pto_temp(pto_runtime *rt, pto_dtype dtype, int32_t ndim, const int64_t *shape,
                    pto_tensor *t)
{
    ptoi_buffer *b = NULL;
    PTO_TRY(ptoi_runtime_enter(rt, "temp"));
    if (!t) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "temp: t is NULL");
    }
    if (PTOI_UNLIKELY(!is_as_before(&rt->temp, dtype, ndim, shape))) {
        pto_tensor made;
        PTO_TRY(dense(dtype, ndim, shape, &made));
        rt->temp = made;
        rt->temp_desc = 0;
    }
    if (PTOI_UNLIKELY(rt->temp_desc == 0)) { /* a layout has no number before its first use */
        rt->temp_desc = rt->temp.storage_bytes ? ptoi_desc_find(&rt->map->descs, &rt->temp) : 0;
    }
    PTO_TRY(create_buffer(rt, rt->temp.storage_bytes, &b));
    b->desc = (uint16_t)rt->temp_desc;
    copy_tensor(t, &rt->temp);
    t->owner = ptoi_buffer_owner(rt, b);
    t->generation = (uint32_t)b->life;
    return PTO_OK;
}

pto_status pto_alloc_at(pto_runtime *rt, pto_dtype dtype, int32_t ndim, const int64_t *shape,
                        pto_tensor *t, const char *file, int line)
{
    pto_tensor made;
    PTO_TRY(ptoi_runtime_enter(rt, "alloc"));
    if (!t) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "alloc: t is NULL");
    }
    PTO_TRY(pto_temp(rt, dtype, ndim, shape, &made));
    pto_status s = ptoi_owner_give(rt, &rt->buffers[rt->n_buffers - 1], file, line);
    if (s != PTO_OK) {
        rt->n_buffers--; /* no handle to it exists */
        ptoi_set64(&rt->view.header->buffers, rt->n_buffers);
        return s;
    }
    *t = made;
    return PTO_OK;
}

pto_status pto_external_tensor(pto_runtime *rt, void *data, pto_dtype dtype, int32_t ndim,
                               const int64_t *shape, pto_tensor *t)
{
    pto_tensor made;
    PTO_TRY(ptoi_runtime_enter(rt, "external tensor"));
    if (!t) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "external tensor: t is NULL");
    }
    PTO_TRY(dense(dtype, ndim, shape, &made));
    PTO_TRY(pto_tensor_init(&made, data, made.storage_bytes, dtype, ndim, shape, NULL, 0));
    PTO_TRY(ptoi_buffer_check_external(rt, "external tensor", &made));
    *t = made;
    return PTO_OK;
}

pto_status pto_get_buffer_addr(pto_runtime *rt, const pto_tensor *t, void **address)
{
    PTO_TRY(ptoi_runtime_enter(rt, "address"));
    if (!t || !address) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "address: %s is NULL", t ? "address" : "t");
    }
    PTO_TRY(pto_tensor_check(t));
    uint64_t offset = (uint64_t)t->offset * pto_dtype_size(t->dtype);
    if (!t->owner) {
        *address = (void *)((uintptr_t)t->storage + offset);
        return PTO_OK;
    }
    const ptoi_buffer *b = ptoi_buffer_find(rt, "address", t);
    if (!b) {
        return PTO_STALE;
    }
    if (!b->seq) {
        return ptoi_fail(PTO_NOT_WRITTEN,
                         "address: this buffer of %" PRIu64 " bytes has no memory "
                         "yet",
                         b->bytes);
    }
    *address = rt->view.level[b->level].heap + b->at + offset;
    return PTO_OK;
}

pto_status pto_task_get_output(pto_runtime *rt, pto_task task, uint32_t index, pto_tensor *t)
{
    PTO_TRY(ptoi_runtime_enter(rt, "get an output"));
    if (!t) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "get an output: t is NULL");
    }
    PTO_TRY(ptoi_handle_check(rt, "get an output", task));
    uint32_t level = ptoi_ref_level(ptoi_handle_ref(task));
    uint64_t seq = ptoi_ref_seq(ptoi_handle_ref(task));
    if (seq < rt->rings[level].retired) {
        return ptoi_fail(PTO_BAD_TASK, "get an output: task handle %" PRIu64 " is recycled", task);
    }
    const ptoi_slot *slot = ptoi_slot_of(&rt->view, level, seq);
    const ptoi_arg_desc *arg = rt->view.level[level].args + slot->args;
    uint32_t outputs = 0;
    for (uint32_t i = 0; i < slot->n_args; i++) {
        uint32_t kind = arg->access & ~PTOI_ARG_NODEP;
        if ((kind == PTO_PARAM_OUTPUT || kind == PTO_PARAM_INOUT) && outputs++ == index) {
            pto_tensor made;
            if (!ptoi_buffer_unpack(rt, slot, arg, &made)) {
                return ptoi_fail(PTO_STALE,
                                 "get an output: output %u of task %" PRIu64
                                 " is managed memory whose scope has ended",
                                 index, task);
            }
            *t = made;
            return PTO_OK;
        }
        arg = ptoi_arg_next(arg);
    }
    return ptoi_fail(PTO_BAD_INDEX, "get an output: number %u of a task with %u outputs", index,
                     outputs);
}
