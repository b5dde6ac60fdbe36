/* buffer.c - managed memory: buffers, their versions, and tensors in them.
 *
 * Records form a stack, and a lifetime that ends pops all records made in it. A handle is valid if
 * its record is still on the stack and has the same `life`. No life is used twice, so a handle that
 * has outlived its scope, or was given up, is always recognised, even if its record serves another
 * buffer by then.
 */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "device/device.h"
#include "orchestrator/buffer.h"
#include "orchestrator/device.h"
#include "orchestrator/handle.h"
#include "orchestrator/names.h"
#include "orchestrator/refusal.h"
#include "orchestrator/runtime.h"
#include "orchestrator/scope.h"
#include "orchestrator/stall_report.h"
#include "orchestrator/trace.h"
#include "tensor/tensor.h"

/* Where a buffer was given up; NULL if it was not, or if PTOI_ENDS others were since. */
static const ptoi_site *release_of(const pto_runtime *rt, uint64_t life)
{
    for (uint32_t i = 0; life && i < PTOI_ENDS; i++) {
        if (rt->released[i].life == life) {
            return &rt->view.sites[rt->released[i].site];
        }
    }
    return NULL;
}

/* Why a handle is not valid, in words. */
static void explain_stale(const pto_runtime *rt, const char *who, const pto_tensor *t)
{
    const uint64_t life = t->owner >> 32 << 32 | t->generation;
    const ptoi_site *site = release_of(rt, life);
    const char *how = "it was given up by pto_release at", *then = "";
    const ptoi_end *end = site ? NULL : ptoi_scope_end_of(rt, life);
    if (end) {
        site = &rt->view.sites[end->site];
        how = end->is_block ? "the scope that began at" : "its scope was ended at";
        then = end->is_block ? " has ended" : "";
    }
    if (!site) {
        ptoi_fail(PTO_STALE,
                  "%s: managed tensor %" PRIu64 " of generation %" PRIu32
                  " is not alive: its scope "
                  "has ended, it was given up, or it is of another runtime",
                  who, t->owner, t->generation);
    } else if (site->line) {
        ptoi_fail(PTO_STALE, "%s: this managed tensor is not alive: %s %s:%d%s", who, how,
                  ptoi_string(&rt->view, site->file), site->line, then);
    } else { /* pto_execute ends the scopes that an orchestration has left open */
        ptoi_fail(PTO_STALE, "%s: this managed tensor is not alive: its scope has ended", who);
    }
}

ptoi_buffer *ptoi_buffer_find(pto_runtime *rt, const char *who, const pto_tensor *t)
{
    /* A forged handle may have the life 0 of a record that is free. */
    if (ptoi_buffer_is(rt, t->owner, t->generation) && ptoi_buffer_of(rt, t)->life) {
        return ptoi_buffer_of(rt, t);
    }
    explain_stale(rt, who, t);
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

void ptoi_buffer_note_range(pto_runtime *rt, const void *memory, uint64_t bytes)
{
    const uintptr_t low = (uintptr_t)memory;
    rt->heap_begin = low < rt->heap_begin ? low : rt->heap_begin;
    rt->heap_end = low + bytes > rt->heap_end ? low + bytes : rt->heap_end;
}

/* Whether the addresses of a tensor are memory at all: pto_refuse_memory. */
static pto_status check_refused(const pto_runtime *rt, const char *who, const pto_tensor *t)
{
    uint64_t low, end;
    PTO_TRY(pto_tensor_byte_range(t, &low, &end));
    if (low < end &&
        (uintptr_t)t->storage + low < rt->refused_memory.low + rt->refused_memory.bytes &&
        (uintptr_t)t->storage + end > rt->refused_memory.low) {
        return ptoi_fail(PTO_BAD_MEMORY, "%s: the tensor at %p %s", who,
                         (void *)((uintptr_t)t->storage + low), rt->refused_memory.why);
    }
    return PTO_OK;
}

pto_status ptoi_buffer_check_external(const pto_runtime *rt, const char *who, const pto_tensor *t)
{
    uint64_t low, end;
    PTO_TRY(pto_tensor_check(t));
    PTO_TRY(check_refused(rt, who, t));
    PTO_TRY(pto_tensor_byte_range(t, &low, &end));
    for (int side = 0; side < 2; side++) {
        uintptr_t heap = rt->heap_low[side], base = (uintptr_t)t->storage;
        if (low < end && base + low < heap + rt->heap_bytes && base + end > heap) {
            return ptoi_fail(PTO_BAD_MEMORY,
                             "%s: memory at %p, %" PRIu64 " bytes, lies in the runtime's own heap",
                             who, (void *)(base + low), end - low);
        }
    }
    for (uint32_t d = 1; d < rt->n_devices && low < end; d++) {
        for (uint32_t l = 0; l < rt->levels; l++) {
            const uintptr_t heap = (uintptr_t)rt->devices[d].memory[l];
            const uintptr_t base = (uintptr_t)t->storage;
            if (heap && base + low < heap + rt->devices[d].heap[l].size && base + end > heap) {
                return ptoi_fail(PTO_BAD_MEMORY,
                                 "%s: memory at %p, %" PRIu64
                                 " bytes, lies in the runtime's own heap on %s",
                                 who, (void *)(base + low), end - low,
                                 ptoi_device_words(ptoi_device_at(rt, d)).s);
            }
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
    t->device = desc->device;
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
        if (arg->buffer > rt->n_buffers || !b->life || b->order > ptoi_order_of(&rt->view, slot)) {
            return false;
        }
        t->owner = ptoi_buffer_owner(rt, b);
        t->generation = (uint32_t)b->life;
        t->version = b->version;
        t->storage_bytes = b->bytes;
        t->offset = empty ? 0 : (int64_t)(arg->value - b->at) / size;
    } else if (!empty) {
        t->storage = ptoi_address(&rt->view, arg->segment, arg->value) + low;
        t->storage_bytes = (uint64_t)(high - low);
        t->offset = -low / size;
    }
    return true;
}

/* The size of the heap that a buffer of the present level gets its memory from. */
static inline uint64_t heap_size(const pto_runtime *rt, uint32_t device)
{
    return device ? rt->settings.config.device_heap_bytes : rt->ring->heap.size;
}

static __attribute__((noinline, cold)) pto_status refuse_buffer(pto_runtime *rt, uint32_t device,
                                                                uint64_t bytes)
{
    if (rt->depth == 0) {
        return ptoi_fail(PTO_NO_SCOPE, "create a buffer: %" PRIu64 " bytes, but no scope is open",
                         bytes);
    }
    if (bytes > heap_size(rt, device)) {
        const uint64_t enough = bytes > UINT64_MAX - 63 ? bytes : (bytes + 63) & ~UINT64_C(63);
        (void)ptoi_stall_too_large(rt, rt->level, device, PTOI_SHORT_HEAP, bytes, enough);
        return ptoi_fail(PTO_TOO_LARGE,
                         "create a buffer: %" PRIu64 " bytes, but the heap of level %u%s has "
                         "%" PRIu64 ": raise %s to at least %" PRIu64,
                         bytes, rt->level, ptoi_device_where(rt, device).s, heap_size(rt, device),
                         ptoi_heap_option(device), enough);
    }
    pto_stall_report full = {.kind = PTO_STALL_BUFFERS,
                             .ring = PTO_RING_BUFFERS,
                             .size = rt->max_buffers,
                             .used = rt->n_buffers,
                             .wanted = 1};
    ptoi_stall_keep(rt, &full, 0, 0, 0);
    return ptoi_fail(PTO_STALLED,
                     "create a buffer: %" PRIu32
                     " records of tensors are held by open scopes: end them, "
                     "give tensors up (pto_release), use boundary scopes, or raise "
                     "buffers (PTO_BUFFERS)",
                     rt->n_buffers);
}

/* Pushes the record of a new buffer. */
static inline pto_status create_buffer(pto_runtime *rt, const uint32_t device, uint64_t bytes,
                                       ptoi_buffer **made)
{
    ptoi_buffer *b = &rt->buffers[rt->n_buffers];
    if (PTOI_UNLIKELY(rt->depth == 0 || bytes > heap_size(rt, device))) {
        return refuse_buffer(rt, device, bytes);
    }
    ptoi_scope *lifetime = &rt->scopes[rt->base];
    if (PTOI_UNLIKELY(lifetime->n_free)) {
        b = &rt->buffers[lifetime->first_free - 1];
        lifetime->first_free = b->next_free;
        lifetime->n_free--;
        rt->n_free--;
    } else if (PTOI_UNLIKELY(rt->n_buffers == rt->max_buffers)) {
        return refuse_buffer(rt, device, bytes);
    } else {
        rt->n_buffers++;
    }
    *b = (ptoi_buffer){
        .life = ++rt->lives,
        .order = rt->order,
        .base = rt->base,
        .bytes = bytes,
        .device = device & 15,
    };
    ptoi_header *h = rt->view.header;
    const uint32_t alive = rt->n_buffers - rt->n_free;
    ptoi_set64(&h->buffers, alive);
    if (PTOI_UNLIKELY(alive > ptoi_get64(&h->buffers_peak))) {
        ptoi_set64(&h->buffers_peak, alive);
    }
    *made = b;
    return PTO_OK;
}

/* Makes the record of a buffer available to the next one of its lifetime. */
static void free_record(pto_runtime *rt, ptoi_buffer *b)
{
    ptoi_scope *lifetime = &rt->scopes[b->base];
    *b = (ptoi_buffer){.next_free = lifetime->first_free};
    lifetime->first_free = (uint32_t)(b - rt->buffers) + 1;
    lifetime->n_free++;
    rt->n_free++;
    ptoi_set64(&rt->view.header->buffers, rt->n_buffers - rt->n_free);
}

/* Takes the record that was freed last off the stack, if it is the top and was pushed inside of the
 * innermost scope. */
static void drop_free_top(pto_runtime *rt)
{
    ptoi_scope *lifetime = &rt->scopes[rt->base];
    if (lifetime->n_free && lifetime->first_free == rt->n_buffers &&
        rt->n_buffers > rt->scopes[rt->depth - 1].buffers) {
        lifetime->first_free = rt->buffers[--rt->n_buffers].next_free;
        lifetime->n_free--;
        rt->n_free--;
    }
}

static pto_status release(pto_runtime *rt, const pto_tensor *t, const char *file, int line)
{
    PTO_TRY(ptoi_runtime_enter(rt, "release"));
    if (!t) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "release: t is NULL");
    }
    if (!t->owner) {
        return ptoi_fail(PTO_BAD_MEMORY,
                         "release: this tensor is memory of the program, at %p: "
                         "only managed tensors can be given up",
                         t->storage);
    }
    ptoi_buffer *b = ptoi_buffer_find(rt, "release", t);
    if (!b) {
        return PTO_STALE;
    }
    if (rt->trace) {
        ptoi_trace_life(rt, PTRACE_GIVEN_UP, b->level, 0, (uint32_t)b->life, 0);
    }
    if (b->block) {
        ptoi_block_at(&rt->rings[b->level].blocks, b->block)->live--;
    }
    rt->released[rt->n_released++ % PTOI_ENDS] = (ptoi_released){b->life,
                                                                 ptoi_site_of(rt, file, line)};
    free_record(rt, b);
    drop_free_top(rt);
    return PTO_OK;
}

pto_status pto_release_at(pto_runtime *rt, const pto_tensor *t, const char *file, int line)
{
    return ptoi_refusal_note(rt, release(rt, t, file, line), "pto_release", file, line);
}

static pto_status new_buffer(pto_runtime *rt, uint64_t bytes, pto_buffer *buffer)
{
    ptoi_buffer *b = NULL;
    PTO_TRY(ptoi_runtime_enter(rt, "create a buffer"));
    if (!buffer) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "create a buffer: buffer is NULL");
    }
    PTO_TRY(create_buffer(rt, rt->home, bytes, &b));
    *buffer = (pto_buffer){ptoi_buffer_owner(rt, b), bytes, (uint32_t)b->life};
    return PTO_OK;
}

/* A tensor at the beginning of a buffer. Without strides it is dense. */
static pto_status make(const pto_buffer *buffer, uint32_t version, pto_dtype dtype, int32_t ndim,
                       const int64_t *shape, const int64_t *strides, pto_tensor *t)
{
    pto_tensor made;
    /* The buffer may have no memory yet. A placeholder address lets the usual bounds check run. */
    PTO_TRY(pto_tensor_init(&made, buffer->bytes ? (void *)64 : NULL, buffer->bytes, dtype, ndim,
                            shape, strides, 0));
    made.storage = NULL;
    made.owner = buffer->owner;
    made.generation = buffer->generation;
    made.version = version;
    *t = made;
    return PTO_OK;
}

static pto_status tensor_in(pto_runtime *rt, const pto_buffer *buffer, uint32_t version,
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
    PTO_TRY(make(&known, version, dtype, ndim, shape, NULL, t));
    t->device = ptoi_device_at(rt, b->device);
    return PTO_OK;
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

/* A dense tensor of this shape, in memory of exactly its size. The address is not known yet. An error
 * names the call that the program made, not pto_tensor_init. */
static pto_status dense(const char *who, pto_dtype dtype, int32_t ndim, const int64_t *shape,
                        pto_tensor *t)
{
    static const char init[] = "init: ";
    if (dense_ordinary(dtype, ndim, shape, t)) {
        return PTO_OK;
    }
    /* With the largest possible storage only dtype or shape can be wrong. */
    const pto_status s = pto_tensor_init(t, (void *)64, INT64_MAX - 64, dtype, ndim, shape, NULL,
                                         0);
    if (s) {
        const char *why = pto_error_detail();
        return ptoi_fail(s, "%s: %s", who,
                         why + (strncmp(why, init, sizeof init - 1) ? 0 : sizeof init - 1));
    }
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

/* A temporary on any device. */
static __attribute__((noinline)) pto_status temp_on(pto_runtime *rt, const char *who,
                                                    uint32_t device, pto_dtype dtype, int32_t ndim,
                                                    const int64_t *shape, pto_tensor *t)
{
    ptoi_buffer *b = NULL;
    pto_tensor made;
    PTO_TRY(dense(who, dtype, ndim, shape, &made));
    made.device = ptoi_device_at(rt, device);
    PTO_TRY(create_buffer(rt, device, made.storage_bytes, &b));
    b->desc = (uint16_t)(made.storage_bytes ? ptoi_desc_find(&rt->map->descs, &made) : 0);
    made.owner = ptoi_buffer_owner(rt, b);
    made.generation = (uint32_t)b->life;
    *t = made;
    return PTO_OK;
}

static inline __attribute__((always_inline)) pto_status temp(pto_runtime *rt, const char *who,
                                                             pto_dtype dtype, int32_t ndim,
                                                             const int64_t *shape, pto_tensor *t)
{
    ptoi_buffer *b = NULL;
    PTO_TRY(ptoi_runtime_enter(rt, "temp"));
    if (!t) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "temp: t is NULL");
    }
    if (PTOI_UNLIKELY(!is_as_before(&rt->temp, dtype, ndim, shape))) {
        pto_tensor made;
        if (rt->home) { /* rt->temp is never used then */
            return temp_on(rt, who, rt->home, dtype, ndim, shape, t);
        }
        PTO_TRY(dense(who, dtype, ndim, shape, &made));
        rt->temp = made;
        rt->temp_desc = 0;
    }
    if (PTOI_UNLIKELY(rt->temp_desc == 0)) { /* a layout has no number before its first use */
        rt->temp_desc = rt->temp.storage_bytes ? ptoi_desc_find(&rt->map->descs, &rt->temp) : 0;
    }
    PTO_TRY(create_buffer(rt, 0, rt->temp.storage_bytes, &b));
    b->desc = (uint16_t)rt->temp_desc;
    copy_tensor(t, &rt->temp);
    t->owner = ptoi_buffer_owner(rt, b);
    t->generation = (uint32_t)b->life;
    return PTO_OK;
}

/* Gives memory to a temporary that was just made. */
static pto_status give_memory(pto_runtime *rt, const pto_tensor *made, pto_tensor *t,
                              const char *file, int line)
{
    ptoi_buffer *b = ptoi_buffer_of(rt, made);
    pto_status s = ptoi_block_give(rt, "alloc", b, file, line);
    if (s != PTO_OK) { /* no handle to it exists */
        free_record(rt, b);
        drop_free_top(rt);
        return s;
    }
    *t = *made;
    return PTO_OK;
}

static pto_status alloc(pto_runtime *rt, pto_dtype dtype, int32_t ndim, const int64_t *shape,
                        pto_tensor *t, const char *file, int line)
{
    pto_tensor made;
    PTO_TRY(ptoi_runtime_enter(rt, "alloc"));
    if (!t) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "alloc: t is NULL");
    }
    PTO_TRY(temp(rt, "alloc", dtype, ndim, shape, &made));
    return give_memory(rt, &made, t, file, line);
}

/* pto_temp_on, and pto_alloc_on if it `gives` memory. */
static pto_status create_on(pto_runtime *rt, const char *who, bool gives, pto_device device,
                            pto_dtype dtype, int32_t ndim, const int64_t *shape, pto_tensor *t,
                            const char *file, int line)
{
    uint32_t number = 0;
    pto_tensor made;
    PTO_TRY(ptoi_runtime_enter(rt, who));
    if (!t) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "%s: t is NULL", who);
    }
    PTO_TRY(ptoi_device_check(who, device));
    PTO_TRY(ptoi_device_number(rt, who, device, &number));
    PTO_TRY(temp_on(rt, who, number, dtype, ndim, shape, &made));
    if (gives) {
        return give_memory(rt, &made, t, file, line);
    }
    *t = made;
    return PTO_OK;
}

static pto_status external(pto_runtime *rt, void *data, pto_dtype dtype, int32_t ndim,
                           const int64_t *shape, pto_tensor *t)
{
    pto_tensor made;
    PTO_TRY(ptoi_runtime_enter(rt, "external tensor"));
    if (!t) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "external tensor: t is NULL");
    }
    PTO_TRY(dense("external tensor", dtype, ndim, shape, &made));
    if (!data && made.storage_bytes) {
        return ptoi_fail(PTO_NULL_ARGUMENT,
                         "external tensor: data is NULL, with %" PRIu64 " byte%s",
                         made.storage_bytes, made.storage_bytes == 1 ? "" : "s");
    }
    PTO_TRY(pto_tensor_init(&made, data, made.storage_bytes, dtype, ndim, shape, NULL, 0));
    PTO_TRY(ptoi_buffer_check_external(rt, "external tensor", &made));
    *t = made;
    return PTO_OK;
}

static pto_status address_of(pto_runtime *rt, const pto_tensor *t, void **address)
{
    PTO_TRY(ptoi_runtime_enter(rt, "address"));
    if (!t || !address) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "address: %s is NULL", t ? "address" : "t");
    }
    PTO_TRY(pto_tensor_check(t));
    uint64_t offset = (uint64_t)t->offset * pto_dtype_size(t->dtype);
    if (!t->owner) {
        PTO_TRY(check_refused(rt, "address", t));
        *address = (void *)((uintptr_t)t->storage + offset);
        return PTO_OK;
    }
    const ptoi_buffer *b = ptoi_buffer_find(rt, "address", t);
    if (!b) {
        return PTO_STALE;
    }
    if (!b->block) {
        return ptoi_fail(PTO_NOT_WRITTEN,
                         "address: this buffer of %" PRIu64 " bytes has no memory "
                         "yet",
                         b->bytes);
    }
    *address = rt->view.base[ptoi_segment_heap(b->device, b->level)] + b->at + offset;
    return PTO_OK;
}

/* Output number `index` of a task whose slot may be recycled: the block that it brought has it. */
static pto_status output_in_block(pto_runtime *rt, pto_task task, uint32_t index, pto_tensor *t)
{
    const uint32_t level = ptoi_ref_level(ptoi_handle_ref(task));
    uint64_t number;
    const ptoi_heap_block *block = ptoi_block_of_task(rt, level,
                                                      ptoi_ref_seq(ptoi_handle_ref(task)), &number);
    for (uint32_t i = block ? rt->n_buffers : 0; i-- != 0;) {
        const ptoi_buffer *b = &rt->buffers[i];
        if (b->life && b->block == number && b->level == level && b->output == index && b->desc) {
            const ptoi_desc *desc = ptoi_desc_at(rt->map->descs.records, b->desc);
            const pto_buffer buffer = {ptoi_buffer_owner(rt, b), b->bytes, (uint32_t)b->life};
            /* Strides of dims of size 1, and of an empty tensor, are as the task was given them. */
            PTO_TRY(make(&buffer, b->version, desc->dtype, desc->ndim, desc->dims,
                         desc->dims + desc->ndim, t));
            t->device = desc->device;
            return PTO_OK;
        }
    }
    return ptoi_fail(PTO_BAD_TASK,
                     "get an output: task handle %" PRIu64
                     " is recycled, and no living memory that "
                     "it brought is its output %u",
                     task, index);
}

static pto_status output_of(pto_runtime *rt, pto_task task, uint32_t index, pto_tensor *t)
{
    PTO_TRY(ptoi_runtime_enter(rt, "get an output"));
    if (!t) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "get an output: t is NULL");
    }
    PTO_TRY(ptoi_handle_check(rt, "get an output", task));
    uint32_t level = ptoi_ref_level(ptoi_handle_ref(task));
    uint64_t seq = ptoi_ref_seq(ptoi_handle_ref(task));
    const ptoi_slot *slot = ptoi_slot_of(&rt->view, level, seq);
    if (seq < rt->rings[level].retired || ptoi_is_marked_complete(&rt->view, slot)) {
        return output_in_block(rt, task, index, t);
    }
    const ptoi_arg_desc *arg = rt->view.level[level].args + slot->args;
    uint32_t outputs = 0;
    for (uint32_t i = 0; i < slot->n_args; i++) {
        uint32_t kind = arg->access & ~PTOI_ARG_NODEP;
        if ((kind == PTO_PARAM_OUTPUT || kind == PTO_PARAM_INOUT) && outputs++ == index) {
            pto_tensor made;
            if (!ptoi_buffer_unpack(rt, slot, arg, &made)) {
                return ptoi_fail(PTO_STALE,
                                 "get an output: output %u of task %" PRIu64
                                 " is managed memory that was given up, or whose scope has ended",
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

/* ---- Public functions -------------------------------------------------------------------- */

pto_status pto_create_buffer_at(pto_runtime *rt, uint64_t bytes, pto_buffer *buffer,
                                const char *file, int line)
{
    return ptoi_refusal_note(rt, new_buffer(rt, bytes, buffer), "pto_create_buffer", file, line);
}

pto_status pto_managed_tensor_at(pto_runtime *rt, const pto_buffer *buffer, uint32_t version,
                                 pto_dtype dtype, int32_t ndim, const int64_t *shape, pto_tensor *t,
                                 const char *file, int line)
{
    return ptoi_refusal_note(rt, tensor_in(rt, buffer, version, dtype, ndim, shape, t),
                             "pto_managed_tensor", file, line);
}

pto_status pto_temp_at(pto_runtime *rt, pto_dtype dtype, int32_t ndim, const int64_t *shape,
                       pto_tensor *t, const char *file, int line)
{
    return ptoi_refusal_note(rt, temp(rt, "temp", dtype, ndim, shape, t), "pto_temp", file, line);
}

pto_status pto_alloc_at(pto_runtime *rt, pto_dtype dtype, int32_t ndim, const int64_t *shape,
                        pto_tensor *t, const char *file, int line)
{
    return ptoi_refusal_note(rt, alloc(rt, dtype, ndim, shape, t, file, line), "pto_alloc", file,
                             line);
}

pto_status pto_temp_on_at(pto_runtime *rt, pto_device device, pto_dtype dtype, int32_t ndim,
                          const int64_t *shape, pto_tensor *t, const char *file, int line)
{
    return ptoi_refusal_note(
        rt, create_on(rt, "temp", false, device, dtype, ndim, shape, t, file, line), "pto_temp_on",
        file, line);
}

pto_status pto_alloc_on_at(pto_runtime *rt, pto_device device, pto_dtype dtype, int32_t ndim,
                           const int64_t *shape, pto_tensor *t, const char *file, int line)
{
    return ptoi_refusal_note(
        rt, create_on(rt, "alloc", true, device, dtype, ndim, shape, t, file, line), "pto_alloc_on",
        file, line);
}

pto_status pto_external_tensor_at(pto_runtime *rt, void *data, pto_dtype dtype, int32_t ndim,
                                  const int64_t *shape, pto_tensor *t, const char *file, int line)
{
    return ptoi_refusal_note(rt, external(rt, data, dtype, ndim, shape, t), "pto_external_tensor",
                             file, line);
}

pto_status pto_get_buffer_addr_at(pto_runtime *rt, const pto_tensor *t, void **address,
                                  const char *file, int line)
{
    return ptoi_refusal_note(rt, address_of(rt, t, address), "pto_get_buffer_addr", file, line);
}

pto_status pto_task_get_output_at(pto_runtime *rt, pto_task task, uint32_t index, pto_tensor *t,
                                  const char *file, int line)
{
    return ptoi_refusal_note(rt, output_of(rt, task, index, t), "pto_task_get_output", file, line);
}
