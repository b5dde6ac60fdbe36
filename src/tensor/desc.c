#include "tensor/desc.h"

#include <pto/kernel.h>

static uint32_t slot_of(const pto_tensor *t)
{
    uint64_t h = (uint64_t)(uint32_t)t->ndim + (uint64_t)t->dtype * 31;
    for (int32_t d = 0; d < t->ndim; d++) {
        h = (h ^ (uint64_t)t->shape[d]) * UINT64_C(0x9E3779B97F4A7C15);
        h = (h ^ (h >> 29) ^ (uint64_t)t->strides[d]) * UINT64_C(0xD1342543DE82EF95);
    }
    return (uint32_t)((h ^ (h >> 32)) * UINT64_C(0x9E3779B97F4A7C15) >> 47) % PTOI_DESC_SLOTS;
}

void ptoi_desc_write(ptoi_desc *desc, const pto_tensor *t)
{
    uint64_t bytes = pto_dtype_size(t->dtype);
    uint64_t step = 1;
    bool dense = bytes != 0;
    desc->ndim = t->ndim;
    desc->dtype = t->dtype;
    for (int32_t d = t->ndim - 1; d >= 0; d--) {
        desc->dims[d] = t->shape[d];
        desc->dims[t->ndim + d] = t->strides[d];
        dense = dense && (uint64_t)t->strides[d] == step &&
                !__builtin_mul_overflow(step, (uint64_t)t->shape[d], &step);
    }
    desc->dense = dense && !__builtin_mul_overflow(bytes, step, &bytes) ? bytes : 0;
}

bool ptoi_desc_has_dims(const ptoi_desc *desc, const pto_tensor *t)
{
    int64_t differ = 0;
    for (int32_t d = 0; d < desc->ndim; d++) {
        differ |= (desc->dims[d] ^ t->shape[d]) | (desc->dims[desc->ndim + d] ^ t->strides[d]);
    }
    return !differ;
}

/* The slot that has the tensor's layout descriptor, or the free slot for it. */
static uint32_t slot_with(const ptoi_descs *descs, const pto_tensor *t)
{
    uint32_t slot = slot_of(t);
    while (descs->table[slot] &&
           !ptoi_desc_matches(ptoi_desc_at(descs->records, descs->table[slot]), t)) {
        slot = (slot + 1) % PTOI_DESC_SLOTS;
    }
    return slot;
}

uint32_t ptoi_desc_find(const ptoi_descs *descs, const pto_tensor *t)
{
    return descs->table[slot_with(descs, t)];
}

static uint32_t units_of(int32_t ndim)
{
    return (uint32_t)((ptoi_desc_bytes(ndim) + PTOI_DESC_UNIT - 1) / PTOI_DESC_UNIT);
}

uint32_t ptoi_desc_intern(ptoi_descs *descs, const pto_tensor *t)
{
    const uint32_t slot = slot_with(descs, t), units = units_of(t->ndim);
    if (!descs->table[slot] && descs->used + units < PTOI_DESC_UNITS) {
        const uint32_t id = 1 + descs->used;
        ptoi_desc_write((ptoi_desc *)(void *)(descs->records + id * PTOI_DESC_UNIT), t);
        descs->used += units;
        descs->table[slot] = (uint16_t)id;
    }
    return descs->table[slot];
}

pto_status ptoi_descs_check(const ptoi_descs *descs)
{
    for (uint32_t id = 1; id <= descs->used;) {
        const ptoi_desc *desc = ptoi_desc_at(descs->records, id);
        pto_tensor t = {.ndim = desc->ndim, .dtype = desc->dtype};
        if ((uint32_t)desc->ndim > PTO_MAX_DIMS) {
            return pto_fail(PTO_CORRUPT, "descs: id %u has %d dims", id, desc->ndim);
        }
        memcpy(t.shape, desc->dims, (size_t)desc->ndim * sizeof *t.shape);
        memcpy(t.strides, desc->dims + desc->ndim, (size_t)desc->ndim * sizeof *t.strides);
        if (ptoi_desc_find(descs, &t) != id) {
            return pto_fail(PTO_CORRUPT, "descs: id %u is found as %u", id,
                            ptoi_desc_find(descs, &t));
        }
        id += units_of(desc->ndim);
    }
    return PTO_OK;
}
