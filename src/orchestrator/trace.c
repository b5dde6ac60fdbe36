/* trace.c - the logs of a traced runtime, and what the orchestrating thread records in them. */
#include "orchestrator/trace.h"
#include "orchestrator/retire.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "base/error.h"
#include "base/os.h"
#include "observe/export.h"
#include "orchestrator/rings.h"

#define SAMPLE_EVERY 64 /* tasks submitted or recycled between two samples */
#define LARGE_PAGE ((size_t)2 << 20)

/* ---- The clock ---- */

bool ptoi_ticks_by_counter;

static void detect_counter(void)
{
#if defined(__x86_64__)
    unsigned a = 0, b = 0, c = 0, d = 0;
    ptoi_ticks_by_counter = __get_cpuid(0x80000007, &a, &b, &c, &d) && d >> 8 & 1; /* invariant */
#endif
}

void ptoi_ticks_find_out(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, detect_counter);
}

/* ---- Life ---- */

/* Reserves room for `records` records. The first touch of a page is expensive, so logs that grow
 * with every task lie in large pages. `shared`: worker processes write it. */
static bool reserve(ptoi_log *log, uint64_t records, size_t record_bytes, bool large, bool shared)
{
    log->room = records * record_bytes;
    log->reserved = log->room + (large ? LARGE_PAGE : 0);
    log->base = shared ? ptoi_os_reserve_shared(log->reserved) : ptoi_os_reserve(log->reserved);
    log->memory = log->base;
    if (log->base && large) {
        log->memory += -(uintptr_t)log->base % LARGE_PAGE;
        ptoi_os_want_large_pages(log->memory, log->room);
    }
    return log->base != NULL;
}

static void release(ptoi_log *log)
{
    ptoi_os_release(log->base, log->reserved);
    log->base = NULL;
}

/* There is room for what most tasks need, times the limit of tasks, and a little more for short
 * traces. */
static bool reserve_all(ptoi_trace *trace)
{
    const uint64_t limit = trace->limit, few = 4096;
    const size_t task = sizeof(ptoi_traced) + 8 * sizeof(ptoi_traced_arg);
    bool good = reserve(&trace->tasks, limit, task, true, false) &&
                reserve(&trace->descs, limit + few, sizeof(ptrace_arg), false, false) &&
                reserve(&trace->dims, limit * 4 + few, sizeof(int64_t), false, false) &&
                reserve(&trace->events, limit + few, sizeof(ptrace_event), false, false) &&
                reserve(&trace->retires, limit + few, sizeof(ptoi_traced_retire), false, false) &&
                reserve(&trace->samples, limit * 2 + few, sizeof(ptoi_traced_sample), false,
                        false) &&
                reserve(&trace->lives, limit + few, sizeof(ptrace_life), false, false) &&
                reserve(&trace->texts, limit + few, sizeof(ptoi_traced_text) + PTO_LABEL_BYTES,
                        false, false) &&
                reserve(&trace->notes, limit + few, sizeof(ptoi_traced_note), false, false);
    for (uint32_t i = 0; good && i < trace->n_ran; i++) {
        good = reserve(&trace->ran[i], limit * 2 + few, sizeof(ptoi_ran), true, trace->shared);
    }
    return good;
}

/* Builds the name of the file. %p stands for the process id. If all runtimes of the process share
 * the name from the environment, those after the first get a number before the extension. */
static bool name_file(ptoi_trace *trace, const char *given, bool shared)
{
    static ptoi_a32 created;
    uint32_t number = shared ? ptoi_fetch_add32(&created, 1) + 1 : 1;
    const char *dot = strrchr(given, '.');
    size_t room = strlen(given) * 12 + 32, n = 0;
    trace->path = ptoi_os_reserve(room);
    trace->path_bytes = room;
    if (!trace->path) {
        return false;
    }
    for (const char *c = given; *c; c++) {
        if (c == dot && number > 1) {
            n += (size_t)snprintf(trace->path + n, room - n, ".%" PRIu32, number);
        }
        if (c[0] == '%' && c[1] == 'p') {
            n += (size_t)snprintf(trace->path + n, room - n, "%ld", (long)getpid());
            c++;
        } else {
            trace->path[n++] = *c;
        }
    }
    trace->path[n] = '\0';
    return true;
}

pto_status ptoi_trace_create(pto_runtime *rt)
{
    const pto_config *config = &rt->settings.config;
    if (!config->trace) {
        return PTO_OK;
    }
    ptoi_trace *trace = rt->trace = ptoi_os_reserve(sizeof *trace);
    if (!trace) {
        return ptoi_fail(PTO_OUT_OF_MEMORY, "create: %zu bytes for a trace", sizeof *trace);
    }
    ptoi_ticks_find_out();
    trace->limit = config->trace_limit;
    trace->n_ran = ptoi_lines(&rt->view);
    trace->shared = rt->settings.n_processes != 0;
    trace->ran_bytes = (trace->n_ran + PTOI_DEVICE_WORKERS) * sizeof *trace->ran;
    trace->ran = trace->shared ? ptoi_os_reserve_shared(trace->ran_bytes)
                               : ptoi_os_reserve(trace->ran_bytes);
    if (!trace->ran || !reserve_all(trace) ||
        !name_file(trace, config->trace, rt->settings.trace_is_shared)) {
        return ptoi_fail(PTO_OUT_OF_MEMORY,
                         "create: address space for a trace of %" PRIu64 " tasks on %u threads: "
                         "lower trace_limit (PTO_TRACE_LIMIT)",
                         trace->limit, trace->n_ran);
    }
    PTO_TRY(ptoi_export_check(trace->path));
    ptoi_scheduler_log(rt->scheduler, trace->ran);
    rt->watched = true;
    ptoi_scheduler_watch(rt->scheduler, NULL, true);
    trace->origin_ns = ptoi_clock_ns(CLOCK_REALTIME);
    trace->begin_ns = ptoi_clock_ns(CLOCK_MONOTONIC);
    trace->begin_ticks = ptoi_ticks();
    return PTO_OK;
}

pto_status ptoi_trace_add_threads(pto_runtime *rt, uint32_t n, bool grid)
{
    ptoi_trace *trace = rt->trace;
    for (uint32_t i = 0; trace && i < n && i < PTOI_DEVICE_WORKERS; i++) {
        if (!reserve(&trace->ran[trace->n_ran], trace->limit * 2 + 4096, sizeof(ptoi_ran), !grid,
                     trace->shared)) {
            return ptoi_fail(PTO_OUT_OF_MEMORY,
                             "address space for a trace of %" PRIu64 " tasks on %u threads more: "
                             "lower trace_limit (PTO_TRACE_LIMIT)",
                             trace->limit, n);
        }
        trace->n_ran++;
    }
    return PTO_OK;
}

void ptoi_trace_free(pto_runtime *rt)
{
    ptoi_trace *trace = rt->trace;
    if (!trace) {
        return;
    }
    ptoi_log *const logs[] = {&trace->tasks,  &trace->descs,   &trace->dims,
                              &trace->events, &trace->retires, &trace->samples,
                              &trace->lives,  &trace->texts,   &trace->notes};
    for (size_t i = 0; i < sizeof logs / sizeof(ptoi_log *); i++) {
        release(logs[i]);
    }
    for (uint32_t i = 0; trace->ran && i < trace->n_ran; i++) {
        release(&trace->ran[i]);
    }
    ptoi_os_release(trace->ran, trace->ran_bytes);
    ptoi_os_release(trace->path, trace->path_bytes);
    ptoi_os_release(trace, sizeof *trace);
    rt->trace = NULL;
}

/* ---- Submit ---- */

/* Whether the descriptor equals `want` with the shape and strides of `t`. */
static bool is_desc(const ptoi_trace *trace, const ptrace_arg *desc, const ptrace_arg *want,
                    const pto_tensor *t)
{
    const int64_t *dims = (const int64_t *)(const void *)trace->dims.memory + desc->dims;
    if (desc->bytes != want->bytes || desc->segment != want->segment ||
        desc->dtype != want->dtype || desc->ndim != want->ndim || desc->access != want->access ||
        desc->buffer != want->buffer) {
        return false;
    }
    for (uint32_t k = 0; k < want->ndim; k++) {
        if (dims[k] != t->shape[k] || dims[want->ndim + k] != t->strides[k]) {
            return false;
        }
    }
    return true;
}

static __attribute__((noinline)) uint32_t add_desc(ptoi_trace *trace, ptrace_arg desc,
                                                   const pto_tensor *t)
{
    const size_t n = desc.ndim;
    if (n) {
        int64_t *dims = ptoi_log_add(&trace->dims, 2 * n * sizeof *dims);
        if (!dims) {
            return PTRACE_NONE;
        }
        memcpy(dims, t->shape, n * sizeof *dims);
        memcpy(dims + n, t->strides, n * sizeof *dims);
        desc.dims = (uint32_t)(dims - (const int64_t *)(const void *)trace->dims.memory);
    }
    ptrace_arg *at = ptoi_log_add(&trace->descs, sizeof *at);
    if (!at) {
        return PTRACE_NONE;
    }
    *at = desc;
    return (uint32_t)(at - (const ptrace_arg *)(const void *)trace->descs.memory);
}

static __attribute__((noinline)) uint32_t search_desc(ptoi_trace *trace, const ptrace_arg *want,
                                                      const pto_tensor *t)
{
    static const uint64_t odd[] = {UINT64_C(0x9E3779B97F4A7C15), UINT64_C(0xC2B2AE3D27D4EB4F),
                                   UINT64_C(0x165667B19E3779F9), UINT64_C(0xD6E8FEB86659FD93),
                                   UINT64_C(0xA0761D6478BD642F), UINT64_C(0xE7037ED1A0B428DB),
                                   UINT64_C(0x8EBC6AF09C88C6E3), UINT64_C(0x589965CC75374CC3)};
    _Static_assert(sizeof odd / sizeof *odd == PTO_MAX_DIMS, "one for each dim");
    uint64_t hash = want->bytes + ((uint64_t)want->buffer << 32 | (uint64_t)want->segment << 24 |
                                   (uint64_t)want->dtype << 16 | (uint64_t)want->ndim << 8 |
                                   want->access) *
                                      odd[7];
    for (uint32_t k = 0; k < want->ndim; k++) {
        hash += (uint64_t)t->shape[k] * odd[k] + (uint64_t)t->strides[k] * odd[k ^ 3];
    }
    uint32_t *known = &trace->known[(hash * odd[0]) >> 54];
    const ptrace_arg *descs = (const ptrace_arg *)(const void *)trace->descs.memory;
    if (*known && is_desc(trace, &descs[*known - 1], want, t)) {
        return *known - 1;
    }
    const uint32_t desc = add_desc(trace, *want, t);
    *known = desc + 1; /* PTRACE_NONE becomes 0 */
    return desc;
}

/* The descriptor of an argument: all that usually stays the same from task to task. Programs have
 * few shapes, and an argument usually looks as it did in the last submit of the kernel. `t` is NULL
 * if it has no shape. */
static inline uint32_t find_desc(ptoi_trace *trace, const ptrace_arg *want, const pto_tensor *t,
                                 size_t at)
{
    uint32_t *guess = &trace->guess[at % PTOI_TRACE_GUESSES];
    const ptrace_arg *descs = (const ptrace_arg *)(const void *)trace->descs.memory;
    if (PTOI_LIKELY(*guess && is_desc(trace, &descs[*guess - 1], want, t))) {
        return *guess - 1;
    }
    const uint32_t desc = search_desc(trace, want, t);
    *guess = desc + 1;
    return desc;
}

_Static_assert(PTOI_TRACE_DESCS == 1 << (64 - 54), "a hash of ten bits");

static void take_sample(pto_runtime *rt, uint32_t level, uint64_t at)
{
    ptoi_traced_sample *sample = ptoi_log_add(&rt->trace->samples, sizeof *sample);
    rt->trace->moved[level] = 0;
    if (sample) {
        sample->at = at;
        sample->level = level;
        for (uint32_t r = 0; r < PTO_RINGS; r++) {
            sample->used[r] = ptoi_rings_read(rt, level, (pto_ring)r).used;
        }
    }
}

/* Counts n tasks that were submitted to a level or recycled. */
static void count_moved(pto_runtime *rt, uint32_t level, uint64_t n, uint64_t at)
{
    uint32_t *moved = &rt->trace->moved[level];
    *moved += (uint32_t)n;
    if (*moved >= SAMPLE_EVERY) {
        take_sample(rt, level, at);
    }
}

/* Samples the levels where anything has changed. */
static void take_samples(pto_runtime *rt, uint64_t at)
{
    for (uint32_t l = 0; l < rt->levels; l++) {
        if (rt->trace->moved[l]) {
            take_sample(rt, l, at);
        }
    }
}

static void add_event(ptoi_trace *trace, ptrace_event event)
{
    ptrace_event *at = ptoi_log_add(&trace->events, sizeof *at);
    if (at) {
        *at = event;
    }
}

/* ptrace_arg.offset. */
static inline uint32_t offset_of(const pto_tensor *t)
{
    return t->offset < UINT32_MAX ? (uint32_t)t->offset + 1 : 0;
}

/* A segment as the file knows it: the level of a heap, or memory of the program. */
static uint8_t segment_of(uint32_t segment)
{
    const uint32_t device = ptoi_segment_device(segment);
    const uint32_t level = segment - ptoi_segment_heap(device, 0);
    return (uint8_t)(level < PTO_MAX_LEVELS ? level : PTRACE_USER);
}

/* Writes the arguments, from the parameters and their descriptors in the window. A trace has
 * addresses of the program, not distances from the begin of shared memory. */
static void write_args(ptoi_trace *trace, uintptr_t user_base, const ptoi_arg_desc *from,
                       const pto_param *params, ptoi_traced_arg *arg, size_t n, uint32_t kernel)
{
    size_t at = (size_t)kernel * 8;
    for (size_t i = 0; i < n; i++, arg++, at++) {
        const pto_param *p = &params[i];
        ptrace_arg desc = {.dims = PTRACE_NONE};
        if (p->kind == PTO_PARAM_AFTER) {
            desc.access = PTO_PARAM_AFTER;
            *arg = (ptoi_traced_arg){p->task, find_desc(trace, &desc, NULL, at), {0}};
            continue;
        }
        desc.segment = segment_of(from->segment);
        desc.buffer = ptoi_segment_device(from->segment); /* until the trace is built */
        desc.access = from->access;
        if (p->kind == PTO_PARAM_SCALAR) {
            desc.dtype = (uint8_t)from->desc;
            *arg = (ptoi_traced_arg){from->value, find_desc(trace, &desc, NULL, at), {0}};
            from++;
            continue;
        }
        const pto_tensor *t = p->tensor;
        desc.dtype = (uint8_t)t->dtype;
        desc.ndim = (uint8_t)t->ndim;
        desc.bytes = t->storage_bytes;
        const uint64_t where = from->value + (desc.segment == PTRACE_USER ? user_base : 0);
        *arg = (ptoi_traced_arg){
            where, find_desc(trace, &desc, t, at), {t->owner ? t->generation : offset_of(t)}};
        from = ptoi_arg_next(from);
    }
}

void ptoi_trace_submitted(pto_runtime *rt, const ptoi_slot *slot, const pto_param *params,
                          size_t n_params)
{
    ptoi_trace *trace = rt->trace;
    const ptoi_slot_header header = ptoi_slot_header_of(slot);
    /* A record counts at most UINT16_MAX arguments. The rest is counted as lost. */
    const size_t n = n_params < UINT16_MAX ? n_params : UINT16_MAX;
    ptoi_traced *task = NULL;
    if (trace->n_tasks < trace->limit) {
        task = ptoi_log_add(&trace->tasks, sizeof *task + n * sizeof(ptoi_traced_arg));
    } else {
        trace->tasks.lost++;
    }
    if (!task) {
        return;
    }
    *task = (ptoi_traced){.task = ptoi_task_of(slot),
                          .called = trace->called,
                          .site = header.site,
                          .kernel = header.kernel,
                          .args = (uint16_t)n,
                          .level = header.level};
    trace->tasks.lost += n_params - n;
    write_args(trace, rt->user_base, rt->view.level[header.level].args + slot->args, params,
               (ptoi_traced_arg *)(void *)(task + 1), n, task->kernel);
    const uint64_t now = ptoi_ticks(), took = now - trace->called;
    task->took = (uint32_t)took;
    if (PTOI_UNLIKELY(took > UINT32_MAX)) {
        add_event(trace,
                  (ptrace_event){trace->called, now, 0, PTOI_TRACED_LONG, 0, trace->n_tasks});
    }
    trace->n_tasks++;
    count_moved(rt, header.level, 1, now);
}

/* ---- Events ---- */

void ptoi_trace_room(pto_runtime *rt, uint32_t level, ptoi_shortage what, uint64_t wanted,
                     uint64_t since)
{
    if (!rt->trace) {
        return;
    }
    what = what == PTOI_SHORT_BUFFERS ? PTOI_SHORT_HEAP : what; /* it waits for the same blocks */
    const uint64_t now = ptoi_ticks();
    add_event(rt->trace,
              (ptrace_event){since, now, 0, (uint16_t)ptrace_room(what), (uint16_t)level, wanted});
    take_sample(rt, level, now);
}

uint64_t ptoi_trace_waits(pto_runtime *rt)
{
    const uint64_t now = ptoi_trace_now(rt);
    if (rt->trace) {
        take_samples(rt, now);
    }
    return now;
}

void ptoi_trace_wait(pto_runtime *rt, pto_task task, uint64_t since)
{
    if (rt->trace) {
        const uint64_t now = ptoi_ticks();
        add_event(rt->trace, (ptrace_event){since, now, 0, PTRACE_WAIT, 0, task});
        take_samples(rt, now);
    }
}

void ptoi_trace_retired(pto_runtime *rt, uint32_t level, uint64_t begin, uint64_t end)
{
    const uint64_t now = ptoi_ticks();
    ptoi_traced_retire *retire = ptoi_log_add(&rt->trace->retires, sizeof *retire);
    if (retire) {
        *retire = (ptoi_traced_retire){begin, end, now, level};
    }
    count_moved(rt, level, end - begin, now);
}

void ptoi_trace_life(pto_runtime *rt, ptrace_life_kind kind, uint32_t level, pto_task task,
                     uint32_t buffer, uint64_t bytes)
{
    const uint64_t now = ptoi_ticks();
    ptrace_life *life = ptoi_log_add(&rt->trace->lives, sizeof *life);
    if (life) {
        *life = (ptrace_life){now, task, bytes, buffer, (uint16_t)level, (uint16_t)kind};
    }
    if (kind == PTRACE_MEMORY) {
        count_moved(rt, level, 1, now);
    }
}

void ptoi_trace_text(pto_runtime *rt, ptoi_traced_kind kind, pto_task task, const char *text)
{
    if (rt->trace) {
        const size_t bytes = strlen(text) + 1;
        ptoi_traced_text *at = ptoi_log_add(&rt->trace->texts, sizeof *at + ((bytes + 7) & ~7ul));
        if (at) {
            *at = (ptoi_traced_text){kind == PTOI_TRACED_LABEL ? task : ptoi_ticks(),
                                     rt->trace->n_tasks, (uint16_t)kind, (uint16_t)bytes};
            memcpy(at + 1, text, bytes);
        }
    }
}

uint64_t pto_trace_clock(const pto_runtime *rt)
{
    return rt ? ptoi_trace_now(rt) : 0;
}

void pto_trace_note(pto_runtime *rt, const pto_note *note)
{
    ptoi_traced_note *at = rt && rt->trace ? ptoi_log_add(&rt->trace->notes, sizeof *at) : NULL;
    if (at) {
        *at = (ptoi_traced_note){*note, rt->trace->n_tasks};
    }
}

pto_status pto_set_trace_writer(pto_runtime *rt, pto_trace_writer write, void *user)
{
    PTO_TRY(ptoi_runtime_enter(rt, "set a writer of traces"));
    if (rt->trace) {
        rt->trace->write = write;
        rt->trace->write_user = user;
    }
    return PTO_OK;
}

/* ---- The end ---- */

/* Hands the bytes of the file to the writer. */
static pto_status hand_over(const ptoi_trace *trace, const ptoi_ptrace *built)
{
    size_t n = 0;
    char *bytes = ptoi_export_bytes(built, &n);
    const pto_status status = bytes ? trace->write(trace->write_user, trace->path, bytes, n)
                                    : ptoi_fail(PTO_OUT_OF_MEMORY,
                                                "trace: no memory to hand it over");
    free(bytes);
    return status;
}

pto_status ptoi_trace_finish(pto_runtime *rt)
{
    if (!rt->trace) {
        return PTO_OK;
    }
    for (uint32_t l = 0; l < rt->levels; l++) {
        ptoi_retire(rt, l);
    }
    take_samples(rt, ptoi_ticks());
    ptoi_built_trace built;
    pto_status status = ptoi_trace_build(rt, &built);
    if (status == PTO_OK) {
        status = rt->trace->write ? hand_over(rt->trace, &built.trace)
                                  : ptoi_export(&built.trace, rt->trace->path);
        ptoi_built_free(&built);
    }
    return status;
}
