#include "device/engines.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic.h"
#include "base/error.h"
#include "device/device.h"

/* One registration. It never changes and is never freed, so a reader may keep it. */
typedef struct known {
    pto_engine engine;
    pto_device device;
    uint32_t opcode;
    const struct known *next; /* older */
} known;

/* The newest registration, as a pointer. Adding: cas. Reading: acquire. A newer one hides older ones
 * of the same device and operation. */
static ptoi_a64 latest;

static const known *find(pto_device device, uint32_t opcode)
{
    const known *k = (const known *)(uintptr_t)ptoi_acquire64(&latest);
    while (k && !(ptoi_device_equal(k->device, device) && k->opcode == opcode)) {
        k = k->next;
    }
    return k;
}

const pto_engine *ptoi_engine_find(pto_device device, uint32_t opcode)
{
    const known *k = find(device, opcode);
    return k ? &k->engine : NULL;
}

static bool is_built_in(uint32_t opcode)
{
    return opcode != PTO_WORK_NONE && strcmp(pto_work_opcode_name(opcode), "invalid") != 0;
}

pto_status pto_engine_register(pto_device device, uint32_t opcode, const pto_engine *engine)
{
    if (!engine || !engine->start) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "engine register: %s is NULL",
                         engine ? "engine->start" : "engine");
    }
    PTO_TRY(ptoi_device_check("engine register", device));
    if (engine->size != sizeof *engine) {
        return ptoi_fail(PTO_BAD_CONFIG, "engine register: engine->size is %zu, expected %zu",
                         engine->size, sizeof *engine);
    }
    if (opcode < PTO_WORK_USER && !is_built_in(opcode)) {
        return ptoi_fail(PTO_BAD_OPCODE,
                         "engine register: opcode %" PRIu32 ": the user's begin at %d "
                         "(PTO_WORK_USER)",
                         opcode, PTO_WORK_USER);
    }
    const known *old = find(device, opcode);
    if (old && memcmp(&old->engine, engine, sizeof *engine) == 0) {
        return PTO_OK; /* programs that register before each use must not grow the list */
    }
    known *k = malloc(sizeof *k);
    if (!k) {
        return ptoi_fail(PTO_OUT_OF_MEMORY, "engine register: no %zu bytes", sizeof *k);
    }
    *k = (known){.engine = *engine, .device = device, .opcode = opcode};
    uint64_t head = ptoi_acquire64(&latest);
    do {
        k->next = (const known *)(uintptr_t)head;
    } while (!ptoi_cas64(&latest, &head, (uint64_t)(uintptr_t)k));
    return PTO_OK;
}
