/* rearrange.c - the operator on the CPU: checks, the cache of plans, and plans that users keep. */
#include "op/rearrange/rearrange.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/likely.h"
#include "op/cache.h"
#include "op/elsewhere.h"
#include "op/op.h"
#include "tensor/tensor.h"

_Static_assert((int)PTOI_CACHE_CAPACITY == PTO_REARRANGE_CACHE, "what the header promises");

/* Two copies with equal keys can share a plan:
 *   word[0]  size of an element, number of dims, addresses of both modulo PTOI_LINE
 *   then     size, stride of the destination, stride of the source, for each dim; no strides for
 *            dims of one element */
typedef struct key {
    uint32_t bytes; /* in use */
    uint64_t word[1 + 3 * PTO_MAX_DIMS];
} key;

_Static_assert(sizeof((key){0}.word) <= PTOI_CACHE_KEY, "a key fits into the cache");

struct pto_rearrange_plan {
    pto_device device;
    key key;
    ptoi_plan plan;
};

/* ---- Checks of the layouts ----------------------------------------------------------------- */

/* The search for shared elements may take about as long as the copy, but is bounded. */
static uint64_t budget_of(int64_t numel)
{
    const uint64_t most = UINT64_C(1) << 20;
    uint64_t steps = (uint64_t)numel < most ? (uint64_t)numel : most;
    return steps > PTO_OVERLAP_BUDGET ? steps : PTO_OVERLAP_BUDGET;
}

static pto_status check_distinct(const ptoi_who *who, const pto_tensor *dst, int64_t numel)
{
    uint64_t budget = budget_of(numel);
    ptoi_verdict verdict = ptoi_meets_itself(dst->ndim, dst->shape, dst->strides, budget);
    if (PTOI_LIKELY(verdict == PTOI_NO)) {
        return PTO_OK;
    }
    char shape[PTOI_DIMS_TEXT], strides[PTOI_DIMS_TEXT];
    (void)ptoi_dims_text(dst->ndim, dst->shape, shape);
    (void)ptoi_dims_text(dst->ndim, dst->strides, strides);
    if (verdict == PTOI_YES) {
        return ptoi_fail(PTO_SELF_OVERLAP,
                         "%s: dst has shape %s and strides %s: elements of it share memory",
                         who->op, shape, strides);
    }
    return ptoi_fail(PTO_SELF_OVERLAP,
                     "%s: dst has shape %s and strides %s, too tangled to prove in %" PRIu64
                     " steps that no elements of it share memory",
                     who->op, shape, strides, budget);
}

static bool same_shape(const pto_tensor *a, const pto_tensor *b)
{
    bool same = a->ndim == b->ndim;
    for (int32_t d = 0; same && d < a->ndim; d++) {
        same = a->shape[d] == b->shape[d];
    }
    return same;
}

/* Checks everything but the memory. */
static pto_status check_layouts(const ptoi_who *who, const pto_tensor *dst, const pto_tensor *src,
                                int64_t *numel)
{
    ptoi_extent to, from;
    PTO_TRY(ptoi_tensor_extent(who->dst, dst, &to));
    PTO_TRY(ptoi_tensor_extent(who->src, src, &from));
    if (dst->dtype != src->dtype) {
        return ptoi_fail(PTO_BAD_DTYPE, "%s: from %s (dtype %u) to %s (dtype %u)", who->op,
                         pto_dtype_name(src->dtype), (unsigned)src->dtype,
                         pto_dtype_name(dst->dtype), (unsigned)dst->dtype);
    }
    if (!same_shape(dst, src)) {
        char one[PTOI_DIMS_TEXT], other[PTOI_DIMS_TEXT];
        return ptoi_fail(PTO_BAD_SHAPE, "%s: from %s to %s", who->op,
                         ptoi_dims_text(src->ndim, src->shape, one),
                         ptoi_dims_text(dst->ndim, dst->shape, other));
    }
    *numel = to.numel;
    return check_distinct(who, dst, to.numel);
}

/* ---- Checks of the memory ------------------------------------------------------------------ */

/* Whether all elements of both are at the same places if the first ones are. */
static bool same_strides(const pto_tensor *a, const pto_tensor *b)
{
    for (int32_t d = 0; d < a->ndim; d++) {
        if (a->shape[d] > 1 && a->strides[d] != b->strides[d]) {
            return false;
        }
    }
    return true;
}

/* Checks that the two, whose byte ranges may overlap, share no byte. */
static pto_status check_apart(const ptoi_who *who, const pto_tensor *dst, const pto_tensor *src,
                              int64_t numel)
{
    pto_overlap_result result;
    PTO_TRY(pto_tensor_overlaps_ex(dst, src, budget_of(numel), &result));
    if (!result.yes) {
        return PTO_OK;
    }
    uint64_t to, to_end, from, from_end;
    PTO_TRY(pto_tensor_byte_range(dst, &to, &to_end));
    PTO_TRY(pto_tensor_byte_range(src, &from, &from_end));
    return ptoi_fail(PTO_OVERLAP,
                     "%s: dst, bytes %" PRIu64 " to %" PRIu64 " at 0x%" PRIxPTR
                     ", and src, bytes %" PRIu64 " to %" PRIu64 " at 0x%" PRIxPTR ", %s",
                     who->op, to, to_end, (uintptr_t)dst->storage, from, from_end,
                     (uintptr_t)src->storage,
                     result.stage == PTO_STAGE_BUDGET ? "are too tangled to prove that they share "
                                                        "no memory"
                                                      : "share memory");
}

/* The tensor has a valid layout, with bytes low .. end around element [0, 0, ...]; that element is
 * at byte *at of the storage. This checks everything else that ptoi_tensor_extent would, with a few
 * comparisons. */
static inline bool is_placed(const pto_tensor *t, uint64_t size, int64_t low, int64_t end,
                             uint64_t *at)
{
    uint64_t past;
    return !__builtin_mul_overflow((uint64_t)t->offset, size, at) && *at <= INT64_MAX &&
           *at >= 0 - (uint64_t)low && *at + (uint64_t)end <= t->storage_bytes &&
           t->storage_bytes <= INT64_MAX &&
           !__builtin_add_overflow((uint64_t)(uintptr_t)t->storage, t->storage_bytes, &past) &&
           (t->storage || (low == end && (t->owner || !t->storage_bytes))) &&
           (uint32_t)t->kind <= PTO_DEEP_CONTIGUOUS;
}

/* Reports why is_placed is false. */
static __attribute__((noinline, cold)) pto_status misplaced(const char *what, const pto_tensor *t)
{
    ptoi_extent extent;
    PTO_TRY(ptoi_tensor_extent(what, t, &extent));
    if (t->owner) {
        return ptoi_fail(PTO_NULL_ARGUMENT,
                         "%s is in managed block %" PRIu64
                         ", whose memory is for tasks: pto_submit_rearrange",
                         what, t->owner);
    }
    return ptoi_fail(PTO_NULL_ARGUMENT, "%s has %" PRId64 " elements and no memory", what,
                     extent.numel);
}

/* The byte ranges overlap. *done: there is nothing to copy. For managed memory too, the address
 * counts here, since the CPU copies by address. */
static __attribute__((noinline)) pto_status settle(const ptoi_who *who, const pto_tensor *dst,
                                                   const pto_tensor *src, const ptoi_move *move,
                                                   bool *done)
{
    *done = move->to == move->from && same_strides(dst, src);
    if (*done) {
        return PTO_OK;
    }
    pto_tensor to = *dst, from = *src;
    to.owner = from.owner = 0;
    return check_apart(who, &to, &from, pto_tensor_numel(&to));
}

/* Checks everything that is not in the key, and finds the addresses. */
static inline pto_status place(const ptoi_who *who, const ptoi_plan *plan, const pto_tensor *dst,
                               const pto_tensor *src, uint64_t size, ptoi_move *move)
{
    uint64_t to, from;
    move->plan = NULL;
    if (PTOI_UNLIKELY(!is_placed(dst, size, plan->to_low, plan->to_end, &to))) {
        return misplaced(who->dst, dst);
    }
    if (PTOI_UNLIKELY(!is_placed(src, size, plan->from_low, plan->from_end, &from))) {
        return misplaced(who->src, src);
    }
    if (PTOI_UNLIKELY(plan->way == PTOI_WAY_NOTHING)) {
        return PTO_OK;
    }
    move->to = (char *)dst->storage + to;
    move->from = (const char *)src->storage + from;
    uintptr_t a = (uintptr_t)move->to, b = (uintptr_t)move->from;
    bool done = false;
    if (PTOI_UNLIKELY(a + (uint64_t)plan->to_low < b + (uint64_t)plan->from_end &&
                      b + (uint64_t)plan->from_low < a + (uint64_t)plan->to_end)) {
        PTO_TRY(settle(who, dst, src, move, &done));
    }
    move->plan = done ? NULL : plan;
    return PTO_OK;
}

/* ---- Plans --------------------------------------------------------------------------------- */

/* False if something is wrong; check_layouts then reports it. */
static inline bool make_key(const pto_tensor *dst, const pto_tensor *src, uint64_t *size, key *k)
{
    int32_t ndim = dst->ndim;
    *size = pto_dtype_size(dst->dtype);
    if (PTOI_UNLIKELY((uint32_t)ndim > PTO_MAX_DIMS || ndim != src->ndim || !*size ||
                      dst->dtype != src->dtype)) {
        return false;
    }
    uint64_t to = (uint64_t)(uintptr_t)dst->storage + (uint64_t)dst->offset * *size;
    uint64_t from = (uint64_t)(uintptr_t)src->storage + (uint64_t)src->offset * *size;
    k->word[0] = *size | (uint64_t)ndim << 8 | to % PTOI_LINE << 16 | from % PTOI_LINE << 24;
    uint64_t *at = &k->word[1];
    for (int32_t d = 0; d < ndim; d++, at += 3) {
        int64_t n = dst->shape[d];
        if (PTOI_UNLIKELY(n != src->shape[d])) {
            return false;
        }
        at[0] = (uint64_t)n;
        at[1] = n > 1 ? (uint64_t)dst->strides[d] : 0;
        at[2] = n > 1 ? (uint64_t)src->strides[d] : 0;
    }
    k->bytes = (uint32_t)((1 + 3 * (size_t)ndim) * sizeof *k->word);
    return true;
}

static pto_status make_plan(const ptoi_who *who, const pto_tensor *dst, const pto_tensor *src,
                            ptoi_plan *plan)
{
    int64_t numel;
    PTO_TRY(check_layouts(who, dst, src, &numel));
    uint32_t size = (uint32_t)pto_dtype_size(dst->dtype);
    uintptr_t to = (uintptr_t)dst->storage + (uint64_t)dst->offset * size;
    ptoi_plan_make(plan, dst->ndim, dst->shape, dst->strides, src->strides, size, to);
    return PTO_OK;
}

static _Thread_local ptoi_caches *plans __attribute__((tls_model("initial-exec")));

static void make_grid(const pto_tensor *dst, const pto_tensor *src, uint32_t sms,
                      ptoi_gpu_plan *plan)
{
    uint32_t size = (uint32_t)pto_dtype_size(dst->dtype);
    plan->plan.on_grid = true;
    ptoi_grid_make(&plan->grid, dst->ndim, dst->shape, dst->strides, src->strides, size,
                   (uintptr_t)dst->storage + (uint64_t)dst->offset * size,
                   (uintptr_t)src->storage + (uint64_t)src->offset * size, sms);
}

/* Makes the plan for a key that is not in the cache, and stores it there if possible. `sms` is 0 for
 * the CPU. */
static __attribute__((noinline)) pto_status learn(const ptoi_who *who, const pto_tensor *dst,
                                                  const pto_tensor *src, uint32_t sms,
                                                  ptoi_cache *cache, const key *k, uint64_t hash,
                                                  ptoi_gpu_plan *own, const ptoi_plan **plan)
{
    PTO_TRY(make_plan(who, dst, src, &own->plan));
    size_t bytes = sizeof own->plan;
    if (sms) {
        make_grid(dst, src, sms, own);
        bytes = sizeof *own;
    }
    *plan = &own->plan;
    ptoi_plan *kept = malloc(bytes);
    if (kept) {
        memcpy(kept, own, bytes);
        if (ptoi_cache_put(cache, k->word, k->bytes, hash, kept)) {
            *plan = kept;
        } else {
            free(kept);
        }
    }
    return PTO_OK;
}

static inline pto_status prepare(const ptoi_who *who, const pto_tensor *dst, const pto_tensor *src,
                                 uint32_t sms, ptoi_move *move)
{
    key k;
    uint64_t size;
    if (PTOI_UNLIKELY(!make_key(dst, src, &size, &k))) {
        int64_t numel;
        move->plan = NULL;
        return check_layouts(who, dst, src, &numel);
    }
    ptoi_cache *cache = ptoi_cache_here(&plans, free, dst->device);
    uint64_t hash = ptoi_hash(k.word, k.bytes);
    const ptoi_plan *plan = ptoi_cache_find(cache, k.word, k.bytes, hash);
    if (PTOI_UNLIKELY(!plan || (sms && !plan->on_grid))) {
        PTO_TRY(learn(who, dst, src, sms, cache, &k, hash, &move->own, &plan));
    }
    return place(who, plan, dst, src, size, move);
}

pto_status ptoi_rearrange_prepare(const ptoi_who *who, const pto_tensor *dst, const pto_tensor *src,
                                  ptoi_move *move)
{
    return prepare(who, dst, src, 0, move);
}

pto_status ptoi_rearrange_prepare_gpu(const ptoi_who *who, const pto_tensor *dst,
                                      const pto_tensor *src, uint32_t sms, ptoi_move *move)
{
    return prepare(who, dst, src, sms, move);
}

pto_status ptoi_rearrange_device(const ptoi_who *who, const pto_tensor *dst, const pto_tensor *src)
{
    if (PTOI_LIKELY(ptoi_device_equal(dst->device, src->device) &&
                    ptoi_device_sound(dst->device))) {
        return PTO_OK;
    }
    PTO_TRY(ptoi_device_check(who->dst, dst->device));
    PTO_TRY(ptoi_device_check(who->src, src->device));
    return ptoi_fail(PTO_DEVICES_DIFFER, "%s: dst is on %s:%" PRId32 ", src is on %s:%" PRId32,
                     who->op, pto_device_name(dst->device.type), dst->device.index,
                     pto_device_name(src->device.type), src->device.index);
}

pto_status ptoi_rearrange_check(const ptoi_who *who, const pto_tensor *dst, const pto_tensor *src,
                                bool *same)
{
    int64_t numel = 0;
    pto_op_fn fn;
    PTO_TRY(ptoi_rearrange_device(who, dst, src));
    PTO_TRY(ptoi_op_find(pto_rearrange_op(), dst->device, &fn));
    PTO_TRY(check_layouts(who, dst, src, &numel));
    uintptr_t size = pto_dtype_size(dst->dtype);
    *same = numel && dst->owner == src->owner && dst->generation == src->generation &&
            (uintptr_t)dst->storage + (uintptr_t)dst->offset * size ==
                (uintptr_t)src->storage + (uintptr_t)src->offset * size &&
            same_strides(dst, src);
    return *same || !numel ? PTO_OK : check_apart(who, dst, src, numel);
}

/* ---- The operator -------------------------------------------------------------------------- */

pto_status ptoi_rearrange_check_call(const pto_op_call *call)
{
    return PTOI_LIKELY(call->n_outputs == 1 && call->n_inputs == 1)
               ? PTO_OK
               : ptoi_fail(PTO_BAD_PARAM, "rearrange: %zu outputs and %zu inputs; it takes 1 and 1",
                           call->n_outputs, call->n_inputs);
}

pto_status ptoi_rearrange_check_memory(const ptoi_who *who, const pto_tensor *dst,
                                       const pto_tensor *src)
{
    const bool empty = pto_tensor_numel(dst) == 0;
    return empty || (dst->storage && src->storage) ? PTO_OK
           : !dst->storage                         ? misplaced(who->dst, dst)
                                                   : misplaced(who->src, src);
}

static pto_status rearrange_cpu(const pto_op_call *call)
{
    static const ptoi_who who = PTOI_WHO("rearrange");
    ptoi_move move;
    PTO_TRY(ptoi_rearrange_check_call(call));
    PTO_TRY(ptoi_rearrange_prepare(&who, call->outputs, call->inputs, &move));
    if (move.plan) {
        ptoi_plan_run(move.plan, move.to, move.from);
    }
    return PTO_OK;
}

static pto_op rearrange = PTOI_OP_INIT("rearrange", rearrange_cpu, ptoi_rearrange_elsewhere);

pto_op *pto_rearrange_op(void)
{
    return &rearrange;
}

pto_status pto_rearrange(const pto_tensor *dst, const pto_tensor *src)
{
    if (PTOI_UNLIKELY(!dst || !src)) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "rearrange: %s is NULL", dst ? "src" : "dst");
    }
    return ptoi_op_run(&rearrange, dst, 1, src, 1, NULL);
}

/* ---- Plans that users keep ----------------------------------------------------------------- */

pto_status pto_rearrange_plan_create(const pto_tensor *dst, const pto_tensor *src,
                                     pto_rearrange_plan **plan)
{
    static const ptoi_who who = PTOI_WHO("create a plan");
    if (!dst || !src || !plan) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "%s: %s is NULL", who.op,
                         !dst   ? "dst"
                         : !src ? "src"
                                : "plan");
    }
    PTO_TRY(ptoi_rearrange_device(&who, dst, src));
    if (dst->device.type != PTO_DEVICE_CPU) {
        return ptoi_fail(PTO_NOT_IMPLEMENTED,
                         "%s: the tensors are on %s:%" PRId32 "; plans are for the cpu", who.op,
                         pto_device_name(dst->device.type), dst->device.index);
    }
    pto_rearrange_plan *made = calloc(1, sizeof *made);
    if (!made) {
        return ptoi_fail(PTO_OUT_OF_MEMORY, "%s: no memory for %zu bytes", who.op, sizeof *made);
    }
    uint64_t size;
    ptoi_move move;
    made->device = dst->device;
    pto_status s = make_plan(&who, dst, src, &made->plan);
    if (!s) {
        (void)make_key(dst, src, &size, &made->key); /* cannot fail: make_plan has checked them */
        s = place(&who, &made->plan, dst, src, size, &move);
    }
    if (s) {
        free(made);
        return s;
    }
    *plan = made;
    return PTO_OK;
}

/* Reports in what the key of the plan differs from that of the tensors. */
static __attribute__((noinline, cold)) pto_status not_this_plan(const ptoi_who *who,
                                                                const pto_rearrange_plan *plan,
                                                                const pto_tensor *dst,
                                                                const pto_tensor *src)
{
    int64_t numel;
    uint64_t size;
    key k = {0};
    PTO_TRY(check_layouts(who, dst, src, &numel));
    (void)make_key(dst, src, &size, &k); /* cannot fail: both are valid */
    uint64_t mine = plan->key.word[0], theirs = k.word[0];
    char one[PTOI_DIMS_TEXT], other[PTOI_DIMS_TEXT];
    if ((mine & 0xff) != (theirs & 0xff)) {
        return ptoi_fail(PTO_BAD_DTYPE,
                         "%s: %s has elements of %" PRIu64 " bytes, the plan is for %" PRIu64,
                         who->op, pto_dtype_name(dst->dtype), theirs & 0xff, mine & 0xff);
    }
    int64_t shape[PTO_MAX_DIMS], strides[2][PTO_MAX_DIMS];
    int32_t ndim = (int32_t)(mine >> 8 & 0xff);
    bool same = ndim == dst->ndim;
    for (int32_t d = 0; d < ndim; d++) {
        const uint64_t *at = &plan->key.word[1 + 3 * d];
        shape[d] = (int64_t)at[0];
        strides[0][d] = (int64_t)at[1];
        strides[1][d] = (int64_t)at[2];
        same = same && shape[d] == dst->shape[d];
    }
    if (!same) {
        return ptoi_fail(PTO_BAD_SHAPE, "%s: shape %s, the plan is for %s", who->op,
                         ptoi_dims_text(dst->ndim, dst->shape, one),
                         ptoi_dims_text(ndim, shape, other));
    }
    const pto_tensor *tensors[] = {dst, src};
    for (int side = 0; side < 2; side++) {
        for (int32_t d = 0; d < ndim; d++) {
            if (shape[d] > 1 && tensors[side]->strides[d] != strides[side][d]) {
                return ptoi_fail(PTO_BAD_PLAN, "%s: strides %s of %s, the plan is for %s", who->op,
                                 ptoi_dims_text(ndim, tensors[side]->strides, one),
                                 side ? "src" : "dst", ptoi_dims_text(ndim, strides[side], other));
            }
        }
    }
    return ptoi_fail(PTO_BAD_PLAN,
                     "%s: dst and src lie %" PRIu64 " and %" PRIu64
                     " bytes past a line of %d, the plan is for %" PRIu64 " and %" PRIu64,
                     who->op, theirs >> 16 & 0xff, theirs >> 24 & 0xff, PTOI_LINE,
                     mine >> 16 & 0xff, mine >> 24 & 0xff);
}

pto_status pto_rearrange_plan_execute(const pto_rearrange_plan *plan, const pto_tensor *dst,
                                      const pto_tensor *src)
{
    static const ptoi_who who = PTOI_WHO("execute a plan");
    if (!plan || !dst || !src) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "%s: %s is NULL", who.op,
                         !plan  ? "plan"
                         : !dst ? "dst"
                                : "src");
    }
    PTO_TRY(ptoi_rearrange_device(&who, dst, src));
    if (PTOI_UNLIKELY(!ptoi_device_equal(plan->device, dst->device))) {
        return ptoi_fail(PTO_BAD_PLAN,
                         "%s: the tensors are on %s:%" PRId32 ", the plan is for %s:%" PRId32,
                         who.op, pto_device_name(dst->device.type), dst->device.index,
                         pto_device_name(plan->device.type), plan->device.index);
    }
    key k;
    uint64_t size;
    ptoi_move move;
    if (PTOI_UNLIKELY(!make_key(dst, src, &size, &k) || k.bytes != plan->key.bytes ||
                      memcmp(k.word, plan->key.word, k.bytes) != 0)) {
        return not_this_plan(&who, plan, dst, src);
    }
    PTO_TRY(place(&who, &plan->plan, dst, src, size, &move));
    if (move.plan) {
        ptoi_plan_run(move.plan, move.to, move.from);
    }
    return PTO_OK;
}

void pto_rearrange_plan_destroy(pto_rearrange_plan *plan)
{
    free(plan);
}

size_t pto_rearrange_plan_format(const pto_rearrange_plan *plan, char *text, size_t size)
{
    if (!plan) {
        int length = snprintf(text, text ? size : 0, "(no plan)");
        return length > 0 ? (size_t)length : 0;
    }
    return ptoi_plan_format(&plan->plan, text, text ? size : 0);
}

/* ---- The cache ----------------------------------------------------------------------------- */

static pto_status caches_here(ptoi_caches **caches)
{
    *caches = ptoi_caches_of_thread(&plans, free);
    return *caches ? PTO_OK
                   : ptoi_fail(PTO_OUT_OF_MEMORY, "rearrange: no memory for a cache of %d plans",
                               PTO_REARRANGE_CACHE);
}

pto_status pto_rearrange_cache_get(pto_device device, pto_rearrange_cache_stats *stats)
{
    ptoi_caches *caches;
    if (!stats) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "cache of plans: stats is NULL");
    }
    PTO_TRY(ptoi_device_check("cache of plans", device));
    PTO_TRY(caches_here(&caches));
    ptoi_cache_stats s = ptoi_caches_stats(caches, device);
    *stats = (pto_rearrange_cache_stats){s.hits, s.misses, s.evictions, s.entries, s.capacity};
    return PTO_OK;
}

pto_status pto_rearrange_cache_resize(uint64_t capacity)
{
    ptoi_caches *caches;
    PTO_TRY(caches_here(&caches));
    return ptoi_caches_resize(caches, capacity);
}

pto_status pto_rearrange_cache_clear(pto_device device)
{
    PTO_TRY(ptoi_device_check("cache of plans", device));
    return plans ? ptoi_caches_clear(plans, &device) : PTO_OK;
}

pto_status pto_rearrange_cache_clear_all(void)
{
    return plans ? ptoi_caches_clear(plans, NULL) : PTO_OK;
}
