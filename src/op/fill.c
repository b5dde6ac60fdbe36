/* fill.c - the operator that sets all elements to one number. */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "op/elsewhere.h"
#include "op/fill.h"
#include "op/op.h"
#include "op/rearrange/plan.h"
#include "tensor/tensor.h"

#include <pto/pto.h>

/* ---- The number as an element ------------------------------------------------------------- */

/* Converts a double to an IEEE number of 16 bits with `fraction_bits` bits of fraction. Rounds to
 * the nearest, ties to even. Numbers that are too large become infinite. */
static uint16_t round_to_16(double value, int32_t fraction_bits)
{
    const int32_t bias = (1 << (14 - fraction_bits)) - 1;
    const uint32_t infinite = (0x7fffU >> fraction_bits) << fraction_bits;
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint32_t sign = (uint32_t)(bits >> 48) & 0x8000U;
    const int32_t exponent = (int32_t)(bits >> 52 & 0x7ff) - 1023;
    const uint64_t fraction = bits & ((UINT64_C(1) << 52) - 1);
    if (exponent == 1024 && fraction) {
        return (uint16_t)(sign | infinite | 1U << (fraction_bits - 1)); /* a quiet NaN */
    }
    if (exponent > bias) {
        return (uint16_t)(sign | infinite);
    }
    if (exponent < -bias - fraction_bits) {
        return (uint16_t)sign; /* less than half of the smallest subnormal */
    }
    /* Subnormal numbers lose one more bit for each power of two. */
    int32_t below = exponent < 1 - bias ? 1 - bias - exponent : 0;
    int32_t lost = 52 - fraction_bits + below;
    uint64_t whole = fraction | UINT64_C(1) << 52, half = UINT64_C(1) << (lost - 1);
    uint64_t kept = whole >> lost, rest = whole & (2 * half - 1);
    kept += rest > half || (rest == half && (kept & 1));
    /* A carry out of the fraction correctly increments the exponent. The leading 1 of a normal
     * number adds the 1 that is missing in `scale`. */
    uint32_t scale = below ? 0 : (uint32_t)(exponent + bias - 1) << fraction_bits;
    return (uint16_t)(sign | (scale + (uint32_t)kept));
}

/* The bounds for the conversion in C: beyond them, toward zero, is the first number that fails. All
 * but INT64_MIN - 1 are exact as doubles, hence the 'or equal'. */
static bool fits(pto_dtype dtype, double value)
{
    switch (dtype) {
    case PTO_INT8:
        return value > -129.0 && value < 128.0;
    case PTO_UINT8:
        return value > -1.0 && value < 256.0;
    case PTO_INT16:
        return value > -32769.0 && value < 32768.0;
    case PTO_INT32:
        return value > -2147483649.0 && value < 2147483648.0;
    case PTO_INT64:
        return value >= -9223372036854775808.0 && value < 9223372036854775808.0;
    case PTO_UINT64:
        return value > -1.0 && value < 18446744073709551616.0;
    default:
        return true;
    }
}

#define STORE(type, number)                                                                        \
    do {                                                                                           \
        type element_ = (type)(number);                                                            \
        memcpy(element, &element_, sizeof element_);                                               \
        return PTO_OK;                                                                             \
    } while (0)

static pto_status convert(double value, pto_dtype dtype, void *element)
{
    if (!fits(dtype, value)) {
        return ptoi_fail(PTO_BAD_PARAM, "fill: %.17g does not fit into %s", value,
                         pto_dtype_name(dtype));
    }
    switch (dtype) {
    case PTO_FLOAT64:
        STORE(double, value);
    case PTO_FLOAT32:
        STORE(float, value);
    case PTO_FLOAT16:
        STORE(uint16_t, round_to_16(value, 10));
    case PTO_BFLOAT16:
        STORE(uint16_t, round_to_16(value, 7));
    case PTO_INT8:
        STORE(int8_t, value);
    case PTO_UINT8:
        STORE(uint8_t, value);
    case PTO_INT16:
        STORE(int16_t, value);
    case PTO_INT32:
        STORE(int32_t, value);
    case PTO_INT64:
        STORE(int64_t, value);
    case PTO_UINT64:
        STORE(uint64_t, value);
    case PTO_BOOL:
        STORE(uint8_t, value != 0);
    case PTO_DTYPE_NONE:
        break;
    }
    return ptoi_fail(PTO_BAD_DTYPE, "fill: dtype %u is unknown", (unsigned)dtype);
}

/* ---- The operator ------------------------------------------------------------------------- */

pto_status ptoi_fill_check(const pto_op_call *call, uint64_t *element, ptoi_extent *extent)
{
    if (call->n_outputs != 1 || call->n_inputs != 0) {
        return ptoi_fail(PTO_BAD_PARAM, "fill: %zu outputs and %zu inputs, not 1 and 0",
                         call->n_outputs, call->n_inputs);
    }
    if (!call->params) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "fill: params is NULL, not a number");
    }
    const pto_tensor *dst = &call->outputs[0];
    double value;
    *element = 0;
    PTO_TRY(ptoi_tensor_extent("fill: dst", dst, extent));
    memcpy(&value, call->params, sizeof value);
    PTO_TRY(convert(value, dst->dtype, element));
    if (extent->numel && !dst->storage) {
        return ptoi_fail(PTO_NULL_ARGUMENT,
                         "fill: dst is in managed block %" PRIu64 ", which has no address yet",
                         dst->owner);
    }
    return PTO_OK;
}

static pto_status fill_cpu(const pto_op_call *call)
{
    static const int64_t still[PTO_MAX_DIMS];
    const pto_tensor *dst = &call->outputs[0];
    ptoi_extent extent;
    uint64_t element;
    PTO_TRY(ptoi_fill_check(call, &element, &extent));
    if (extent.numel == 0) {
        return PTO_OK;
    }
    int64_t shape[PTO_MAX_DIMS];
    for (int32_t d = 0; d < dst->ndim; d++) {
        shape[d] = dst->strides[d] ? dst->shape[d] : 1; /* stride 0: all elements share one place */
    }
    ptoi_copy(dst->ndim, shape, (char *)dst->storage + dst->offset * (int64_t)extent.size,
              dst->strides, &element, still, (uint32_t)extent.size);
    return PTO_OK;
}

static pto_op fill = PTOI_OP_INIT("fill", fill_cpu, ptoi_fill_elsewhere);

pto_op *pto_fill_op(void)
{
    return &fill;
}

pto_status pto_fill(const pto_tensor *dst, double value)
{
    return ptoi_op_run(&fill, dst, 1, NULL, 0, &value);
}
