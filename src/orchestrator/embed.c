/* embed.c - for bindings of other languages: the watermark, interrupts, heaps that outlive the runtime.
 * Orchestrator's side. */
#include <inttypes.h>

#include <pto/embed.h>

#include "base/error.h"
#include "orchestrator/buffer.h"
#include "orchestrator/retire.h"
#include "orchestrator/runtime.h"

bool pto_may_call(const pto_runtime *rt)
{
    return ptoi_runtime_is_ours(rt);
}

uint64_t pto_watermark(pto_runtime *rt, uint64_t *submitted)
{
    const bool ours = ptoi_runtime_is_ours(rt);
    uint64_t complete = ours ? rt->order : 0;
    if (submitted) {
        *submitted = complete;
    }
    /* The lowest order among the oldest unfinished tasks of all levels. */
    for (uint32_t l = 0; ours && l < rt->levels; l++) {
        const ptoi_rings *t = &rt->rings[l];
        if (t->completed == t->head) {
            continue;
        }
        ptoi_retire_completed(rt, l);
        if (t->completed != t->head) {
            const uint64_t order = ptoi_get64(&t->orders[(uint32_t)t->completed & t->mask]) >> 1;
            complete = order < complete ? order : complete;
        }
    }
    return complete;
}

pto_status pto_set_interrupt(pto_runtime *rt, bool (*interrupt)(void *user), void *user)
{
    PTO_TRY(ptoi_runtime_enter(rt, "set an interrupt"));
    rt->interrupt.fn = interrupt;
    rt->interrupt.user = user;
    return PTO_OK;
}

pto_status pto_set_poll(pto_runtime *rt, bool (*poll)(void *user), void *user)
{
    PTO_TRY(ptoi_runtime_enter(rt, "set a poll"));
    rt->interrupt.poll = poll;
    rt->interrupt.poll_user = user;
    return PTO_OK;
}

pto_status pto_set_wait_hooks(pto_runtime *rt, void (*begin)(void *user), void (*end)(void *user),
                              void *user)
{
    PTO_TRY(ptoi_runtime_enter(rt, "set hooks of waits"));
    if (!begin != !end) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "set hooks of waits: %s is NULL, and the other is not",
                         begin ? "end" : "begin");
    }
    rt->wait_hooks = (ptoi_wait_hooks){begin, end, user};
    return PTO_OK;
}

pto_status pto_refuse_memory(pto_runtime *rt, const void *memory, uint64_t bytes, const char *why)
{
    PTO_TRY(ptoi_runtime_enter(rt, "refuse memory"));
    if (bytes && (!memory || !why)) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "refuse memory: %s is NULL", memory ? "why" : "memory");
    }
    if ((uintptr_t)memory + bytes < (uintptr_t)memory) {
        return ptoi_fail(PTO_OVERFLOW, "refuse memory: %" PRIu64 " bytes at %p", bytes, memory);
    }
    rt->refused_memory.low = (uintptr_t)memory;
    rt->refused_memory.bytes = bytes;
    rt->refused_memory.why = why;
    if (bytes) {
        ptoi_buffer_note_range(rt, memory, bytes);
    }
    return PTO_OK;
}

pto_status pto_refuse_destroy(pto_runtime *rt, const char *why)
{
    PTO_TRY(ptoi_runtime_enter(rt, "refuse destroy"));
    rt->kept_why = why;
    return PTO_OK;
}

pto_status pto_check_alive(pto_runtime *rt, const char *who, const pto_tensor *t)
{
    PTO_TRY(ptoi_runtime_enter(rt, "check a tensor"));
    if (!t || !who) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "check a tensor: %s is NULL", who ? "t" : "who");
    }
    return !t->owner || ptoi_buffer_find(rt, who, t) ? PTO_OK : PTO_STALE;
}

pto_status pto_detach_heaps(pto_runtime *rt, void **memory, size_t *bytes)
{
    PTO_TRY(ptoi_runtime_enter(rt, "detach the heaps"));
    if (!memory || !bytes) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "detach the heaps: %s is NULL",
                         memory ? "bytes" : "memory");
    }
    rt->heaps_detached = true;
    *memory = rt->mapping_s.memory[PTOI_PART_HEAPS];
    *bytes = rt->mapping_s.bytes[PTOI_PART_HEAPS];
    return PTO_OK;
}
