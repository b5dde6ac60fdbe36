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
    desc->device = t->device;
    desc->unused = 0;
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

/* ---- Units ---- */

#define MOST_UNITS 3

_Static_assert((sizeof(ptoi_desc) + 16 * PTO_MAX_DIMS + PTOI_DESC_UNIT - 1) / PTOI_DESC_UNIT ==
                   MOST_UNITS,
               "units of the largest descriptor");

static bool is_taken(const uint64_t *units, uint32_t unit)
{
    return units[unit / 64] >> unit % 64 & 1;
}

/* So many descriptors of the largest size fit from `at` on. A smaller one takes the place of one of
 * these at most. */
static uint32_t count_room(const ptoi_descs *descs)
{
    uint32_t room = 0, run = 0;
    for (uint32_t unit = descs->at; unit < PTOI_DESC_UNITS;) {
        if (unit % 64 == 0 && !descs->taken[unit / 64]) {
            run += 64;
            unit += 64;
        } else if (is_taken(descs->taken, unit++)) {
            room += run / MOST_UNITS;
            run = 0;
        } else {
            run++;
        }
    }
    return room + run / MOST_UNITS;
}

/* The first of so many free units; 0 if there are none. Looks at each unit once. */
static uint32_t take_units(ptoi_descs *descs, uint32_t units)
{
    uint32_t free = 0, unit = descs->at;
    if (units >= descs->refused) {
        return 0;
    }
    for (; unit < PTOI_DESC_UNITS && free < units; unit++) {
        free = is_taken(descs->taken, unit) ? 0 : free + 1;
    }
    if (free < units) {
        descs->refused = units;
        return 0;
    }
    descs->at = unit;
    descs->used += units;
    for (uint32_t u = unit - units; u < unit; u++) {
        descs->taken[u / 64] |= UINT64_C(1) << u % 64;
    }
    if (descs->room && --descs->room == 0) {
        descs->room = count_room(descs);
    }
    return unit - units;
}

/* From now on all units are looked at. */
static void begin(ptoi_descs *descs)
{
    descs->taken[0] |= 1; /* unit 0 is none */
    descs->at = 1;
    descs->refused = MOST_UNITS + 1;
    descs->room = count_room(descs);
}

void ptoi_descs_init(ptoi_descs *descs, char *records, uint16_t *table, uint64_t *taken,
                     uint64_t *marks)
{
    *descs = (ptoi_descs){.records = records, .table = table, .taken = taken, .marks = marks};
    begin(descs);
}

/* ---- Descriptors ---- */

static bool may_log(const ptoi_desc_log *log)
{
    return !log->entries || log->count - ptoi_get64(log->taken) < log->size;
}

uint32_t ptoi_desc_intern(ptoi_descs *descs, const pto_tensor *t)
{
    const uint32_t slot = slot_with(descs, t);
    if (!descs->table[slot]) {
        const uint32_t id = may_log(&descs->log) ? take_units(descs, units_of(t->ndim)) : 0;
        if (id) {
            if (descs->log.entries) {
                (void)ptoi_desc_log_add(&descs->log, id); /* there is room */
            }
            ptoi_desc_write((ptoi_desc *)(void *)(descs->records + id * PTOI_DESC_UNIT), t);
            descs->table[slot] = (uint16_t)id;
        }
    }
    return descs->table[slot];
}

/* The tensor that a record describes, without memory. */
static pto_tensor tensor_of(const ptoi_desc *desc)
{
    pto_tensor t = {.ndim = desc->ndim, .dtype = desc->dtype, .device = desc->device};
    memcpy(t.shape, desc->dims, (size_t)desc->ndim * sizeof *t.shape);
    memcpy(t.strides, desc->dims + desc->ndim, (size_t)desc->ndim * sizeof *t.strides);
    return t;
}

/* Takes the place of an id that was marked in the emptied table. */
static void keep(ptoi_descs *descs, uint32_t id)
{
    const pto_tensor t = tensor_of(ptoi_desc_at(descs->records, id));
    const uint32_t units = units_of(t.ndim);
    descs->table[slot_with(descs, &t)] = (uint16_t)id;
    descs->used += units;
    for (uint32_t u = id; u < id + units; u++) {
        descs->taken[u / 64] |= UINT64_C(1) << u % 64;
    }
}

void ptoi_descs_sweep(ptoi_descs *descs)
{
    memset(descs->table, 0, PTOI_DESC_SLOTS * sizeof *descs->table);
    memset(descs->taken, 0, PTOI_DESC_WORDS * sizeof *descs->taken);
    descs->used = 0;
    for (uint32_t id = 1; id < PTOI_DESC_UNITS; id++) {
        if (is_taken(descs->marks, id)) {
            keep(descs, id);
        }
    }
    memset(descs->marks, 0, PTOI_DESC_WORDS * sizeof *descs->marks);
    begin(descs);
}

pto_status ptoi_descs_check(const ptoi_descs *descs)
{
    uint32_t used = 0;
    for (uint32_t id = 1; id < PTOI_DESC_UNITS;) {
        if (!is_taken(descs->taken, id)) {
            id += id % 64 == 0 && !descs->taken[id / 64] ? 64 : 1;
            continue;
        }
        const ptoi_desc *desc = ptoi_desc_at(descs->records, id);
        if ((uint32_t)desc->ndim > PTO_MAX_DIMS) {
            return pto_fail(PTO_CORRUPT, "descs: id %u has %d dims", id, desc->ndim);
        }
        const pto_tensor t = tensor_of(desc);
        if (ptoi_desc_find(descs, &t) != id) {
            return pto_fail(PTO_CORRUPT, "descs: id %u is found as %u", id,
                            ptoi_desc_find(descs, &t));
        }
        used += units_of(desc->ndim);
        id += units_of(desc->ndim);
    }
    if (used != descs->used || count_room(descs) < descs->room) {
        return pto_fail(PTO_CORRUPT, "descs: %u units in use, %u counted", used, descs->used);
    }
    return PTO_OK;
}
