/* op.c - operators: creating them, registering implementations, and running them on the device of
 * their tensors. */
#include "op/op.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/source.h"
#include "device/cuda/load.h"

#include <pto/pto.h>

/* ---- Life --------------------------------------------------------------------------------- */

pto_status pto_op_create(const char *name, pto_op **op)
{
    if (!name || !op) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "op create: %s is NULL", name ? "op" : "name");
    }
    if (!*name) {
        return ptoi_fail(PTO_BAD_PARAM, "op create: the name is empty");
    }
    size_t bytes = strlen(name) + 1;
    pto_op *made = calloc(1, sizeof *made + bytes); /* the name follows the struct */
    if (!made) {
        return ptoi_fail(PTO_OUT_OF_MEMORY, "op create: no %zu bytes", sizeof *made + bytes);
    }
    made->name = memcpy(made + 1, name, bytes);
    *op = made;
    return PTO_OK;
}

void pto_op_destroy(pto_op *op)
{
    if (op && !op->built_in) {
        free(op);
    }
}

const char *pto_op_name(const pto_op *op)
{
    return op ? op->name : "(no operator)";
}

/* ---- The table ---------------------------------------------------------------------------- */

static pto_op_fn implementation(const pto_op *op, pto_device_type type)
{
    return (pto_op_fn)(uintptr_t)ptoi_acquire64(&op->table[type]);
}

static pto_status check_type(const pto_op *op, pto_device_type type)
{
    if ((uint32_t)type >= PTOI_DEVICE_TYPES) {
        return ptoi_fail(PTO_BAD_DEVICE, "%s: device type %u is not in 0 .. %d", op->name,
                         (unsigned)type, PTOI_DEVICE_TYPES - 1);
    }
    return PTO_OK;
}

static pto_status check_register(const pto_op *op, pto_op_fn fn, bool replace)
{
    if (!op) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "op register: op is NULL");
    }
    if (!fn && !replace) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "%s: fn is NULL, which is allowed only with replace",
                         op->name);
    }
    return PTO_OK;
}

static void set(pto_op *op, pto_device_type type, pto_op_fn fn, bool replace)
{
    uint64_t none = 0, wanted = (uint64_t)(uintptr_t)fn;
    if (replace) {
        ptoi_release64(&op->table[type], wanted);
    } else {
        (void)ptoi_cas64(&op->table[type], &none, wanted); /* an existing entry stays */
    }
}

pto_status pto_op_register(pto_op *op, pto_device_type type, pto_op_fn fn, bool replace)
{
    return pto_op_register_many(op, &type, 1, fn, replace);
}

pto_status pto_op_register_many(pto_op *op, const pto_device_type *types, size_t n, pto_op_fn fn,
                                bool replace)
{
    PTO_TRY(check_register(op, fn, replace));
    if (!types && n) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "%s: types is NULL, n is %zu", op->name, n);
    }
    for (size_t i = 0; i < n; i++) {
        PTO_TRY(check_type(op, types[i]));
    }
    for (size_t i = 0; i < n; i++) {
        set(op, types[i], fn, replace);
    }
    return PTO_OK;
}

pto_status pto_op_register_all(pto_op *op, pto_op_fn fn, bool replace)
{
    PTO_TRY(check_register(op, fn, replace));
    for (uint32_t type = 0; type < PTOI_DEVICE_TYPES; type++) {
        set(op, (pto_device_type)type, fn, replace);
    }
    return PTO_OK;
}

pto_status pto_op_lookup(const pto_op *op, pto_device_type type, pto_op_fn *fn)
{
    if (!op || !fn) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "op lookup: %s is NULL", op ? "fn" : "op");
    }
    PTO_TRY(check_type(op, type));
    pto_op_fn found = implementation(op, type);
    if (!found) {
        return ptoi_fail(PTO_NOT_IMPLEMENTED, "%s: no implementation for %s", op->name,
                         pto_device_name(type));
    }
    *fn = found;
    return PTO_OK;
}

pto_status ptoi_op_find(const pto_op *op, pto_device device, pto_op_fn *fn)
{
    *fn = implementation(op, device.type);
    if (*fn) {
        return PTO_OK;
    }
    char why[400] = "";
    if (device.type == PTO_DEVICE_NVIDIA && op->built_in) {
        if (ptoi_cuda_load(device.index)) {
            snprintf(why, sizeof why, ": %s", pto_error_detail());
        }
        *fn = implementation(op, device.type);
    }
    return *fn ? PTO_OK
               : ptoi_fail(PTO_NOT_IMPLEMENTED, "%s: no implementation for %s:%" PRId32 "%s",
                           op->name, pto_device_name(device.type), device.index, why);
}

/* ---- Running ------------------------------------------------------------------------------ */

/* Names a tensor of a call by its position; outputs come first. */
static const char *place_text(const pto_op_call *call, size_t at, char text[48])
{
    bool output = at < call->n_outputs;
    snprintf(text, 48, "%s[%zu]", output ? "outputs" : "inputs",
             output ? at : at - call->n_outputs);
    return text;
}

/* A tensor is on another device than the first one, or the device is not valid. */
static pto_status refuse_device(const pto_op_call *call, size_t at, pto_device device)
{
    char here[48], first[48], what[256];
    place_text(call, at, here);
    if (!ptoi_device_sound(device)) {
        snprintf(what, sizeof what, "%.190s: %s", call->op->name, here);
        return ptoi_device_check(what, device);
    }
    return ptoi_fail(PTO_DEVICES_DIFFER, "%s: %s is on %s:%" PRId32 ", %s on %s:%" PRId32,
                     call->op->name, place_text(call, 0, first), pto_device_name(call->device.type),
                     call->device.index, here, pto_device_name(device.type), device.index);
}

/* Finds the device that all tensors are on. */
static pto_status find_device(pto_op_call *call)
{
    if (call->n_outputs + call->n_inputs == 0) {
        call->device = ptoi_device_here.device;
        return PTO_OK;
    }
    call->device = call->n_outputs ? call->outputs[0].device : call->inputs[0].device;
    if (!ptoi_device_sound(call->device)) {
        return refuse_device(call, 0, call->device);
    }
    for (size_t i = 1; i < call->n_outputs; i++) {
        if (!ptoi_device_equal(call->outputs[i].device, call->device)) {
            return refuse_device(call, i, call->outputs[i].device);
        }
    }
    for (size_t i = 0; i < call->n_inputs; i++) {
        if (!ptoi_device_equal(call->inputs[i].device, call->device)) {
            return refuse_device(call, call->n_outputs + i, call->inputs[i].device);
        }
    }
    return PTO_OK;
}

static pto_status refuse_null(const pto_op *op, const char *what, size_t n)
{
    if (!op) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "op run: op is NULL");
    }
    return ptoi_fail(PTO_NULL_ARGUMENT, "%s: %s is NULL, n_%s is %zu", op->name, what, what, n);
}

pto_status ptoi_op_run(const pto_op *op, const pto_tensor *outputs, size_t n_outputs,
                       const pto_tensor *inputs, size_t n_inputs, const void *params)
{
    if (!op || (!outputs && n_outputs)) {
        return refuse_null(op, "outputs", n_outputs);
    }
    if (!inputs && n_inputs) {
        return refuse_null(op, "inputs", n_inputs);
    }
    pto_op_call call = {.op = op,
                        .outputs = outputs,
                        .inputs = inputs,
                        .n_outputs = n_outputs,
                        .n_inputs = n_inputs,
                        .params = params};
    PTO_TRY(find_device(&call));
    pto_op_fn fn;
    PTO_TRY(ptoi_op_find(op, call.device, &fn));
    if (!ptoi_device_is_host(call.device)) {
        pto_device_ops ops; /* one that was never added has no stream */
        call.stream = pto_device_get(call.device, &ops) == PTO_OK ? ops.stream : NULL;
    }
    pto_device before = ptoi_device_here.device;
    PTO_TRY(ptoi_device_go(call.device));
    uint64_t serial = ptoi_error_serial();
    pto_status s = fn(&call);
    if (s && ptoi_error_serial() == serial) {
        (void)ptoi_fail(s, "%s on %s:%" PRId32 ": %s", op->name, pto_device_name(call.device.type),
                        call.device.index, pto_status_text(s));
    }
    return ptoi_device_return(before, s);
}

pto_status pto_op_run_at(const pto_op *op, const pto_tensor *outputs, size_t n_outputs,
                         const pto_tensor *inputs, size_t n_inputs, const void *params,
                         const char *file, int line)
{
    const pto_status s = ptoi_op_run(op, outputs, n_outputs, inputs, n_inputs, params);
    return s && file ? ptoi_fail(s, "%s (pto_op_run at %s)", pto_error_detail(),
                                 ptoi_source_of(file, line).text)
                     : s;
}
