#include "tensor/form.h"

#include <pto/kernel.h>

static uint32_t seat_of(const pto_tensor *t)
{
    uint64_t h = (uint64_t)(uint32_t)t->ndim + (uint64_t)t->dtype * 31;
    for (int32_t d = 0; d < t->ndim; d++) {
        h = (h ^ (uint64_t)t->shape[d]) * UINT64_C(0x9E3779B97F4A7C15);
        h = (h ^ (h >> 29) ^ (uint64_t)t->strides[d]) * UINT64_C(0xD1342543DE82EF95);
    }
    return (uint32_t)((h ^ (h >> 32)) * UINT64_C(0x9E3779B97F4A7C15) >> 47) % PTOI_FORM_SEATS;
}

void ptoi_form_write(ptoi_form *form, const pto_tensor *t)
{
    uint64_t bytes = pto_dtype_size(t->dtype);
    uint64_t step = 1;
    bool dense = bytes != 0;
    form->ndim = t->ndim;
    form->dtype = t->dtype;
    for (int32_t d = t->ndim - 1; d >= 0; d--) {
        form->dims[d] = t->shape[d];
        form->dims[t->ndim + d] = t->strides[d];
        dense = dense && (uint64_t)t->strides[d] == step &&
                !__builtin_mul_overflow(step, (uint64_t)t->shape[d], &step);
    }
    form->dense = dense && !__builtin_mul_overflow(bytes, step, &bytes) ? bytes : 0;
}

bool ptoi_form_has_dims(const ptoi_form *form, const pto_tensor *t)
{
    int64_t differ = 0;
    for (int32_t d = 0; d < form->ndim; d++) {
        differ |= (form->dims[d] ^ t->shape[d]) | (form->dims[form->ndim + d] ^ t->strides[d]);
    }
    return !differ;
}

/* The seat where the form stands, or would. */
static uint32_t look(const ptoi_forms *forms, const pto_tensor *t)
{
    uint32_t seat = seat_of(t);
    while (forms->table[seat] &&
           !ptoi_form_is(ptoi_form_record(forms->records, forms->table[seat]), t)) {
        seat = (seat + 1) % PTOI_FORM_SEATS;
    }
    return seat;
}

uint32_t ptoi_form_find(const ptoi_forms *forms, const pto_tensor *t)
{
    return forms->table[look(forms, t)];
}

static uint32_t units_of(int32_t ndim)
{
    return (uint32_t)((ptoi_form_bytes(ndim) + PTOI_FORM_UNIT - 1) / PTOI_FORM_UNIT);
}

uint32_t ptoi_form_number(ptoi_forms *forms, const pto_tensor *t)
{
    const uint32_t seat = look(forms, t), units = units_of(t->ndim);
    if (!forms->table[seat] && forms->used + units < PTOI_FORM_UNITS) {
        const uint32_t number = 1 + forms->used;
        ptoi_form_write((ptoi_form *)(void *)(forms->records + number * PTOI_FORM_UNIT), t);
        forms->used += units;
        forms->table[seat] = (uint16_t)number;
    }
    return forms->table[seat];
}

pto_status ptoi_forms_check(const ptoi_forms *forms)
{
    for (uint32_t number = 1; number <= forms->used;) {
        const ptoi_form *form = ptoi_form_record(forms->records, number);
        pto_tensor t = {.ndim = form->ndim, .dtype = form->dtype};
        if ((uint32_t)form->ndim > PTO_MAX_DIMS) {
            return pto_fail(PTO_CORRUPT, "forms: number %u has %d dims", number, form->ndim);
        }
        memcpy(t.shape, form->dims, (size_t)form->ndim * sizeof *t.shape);
        memcpy(t.strides, form->dims + form->ndim, (size_t)form->ndim * sizeof *t.strides);
        if (ptoi_form_find(forms, &t) != number) {
            return pto_fail(PTO_CORRUPT, "forms: number %u is found as %u", number,
                            ptoi_form_find(forms, &t));
        }
        number += units_of(form->ndim);
    }
    return PTO_OK;
}
