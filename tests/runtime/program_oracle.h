/* program_oracle.h - the same program one task after the other, on separate memory.
 *
 * The oracle reads the journal of a run in order of submission, runs every task with the same
 * kernel function, and applies the rules for failures:
 *
 *   a task is skipped if something it reads overlaps poisoned memory, or if it is after a bad task;
 *   the outputs of a bad task (failed or skipped) become poisoned regions;
 *   a task that succeeds, or pto_write, removes the regions that one of its outputs covers.
 *
 * Also, each byte is defined or undefined. New memory is undefined, and so are the outputs of a bad
 * task and everything computed from undefined bytes. Undefined bytes are not compared.
 */
#ifndef PTO_TEST_PROGRAM_ORACLE_H
#define PTO_TEST_PROGRAM_ORACLE_H

#include "program_device.h"

/* One piece of memory: an area of the user, or a managed buffer. */
typedef struct oracle_memory {
    uint64_t size;
    uint8_t *bytes;
    uint8_t *unknown; /* 1 for each byte that is */
} oracle_memory;

typedef struct oracle_poison {
    uint32_t memory;
    uint8_t *bytes; /* 1 for each byte of the memory that belongs to the region */
} oracle_poison;

typedef struct oracle {
    run *r;
    oracle_memory memory[AREA_COUNT + PROGRAM_OPS];
    oracle_poison *poison;
    uint32_t n_poison, max_poison;
    bool is_bad[PROGRAM_TASKS]; /* tasks, since the last clear */
    bool was_bad[PROGRAM_TASKS], was_skipped[PROGRAM_TASKS];
    uint32_t first_failed; /* since the last clear */
    uint64_t failed, skipped;
    uint64_t faults,
        maybe; /* tasks that a device failed at, and that may have failed by themselves */
} oracle;

/* ---- Memory --------------------------------------------------------------------------------- */

static inline void oracle_fill(uint8_t *bytes, uint64_t size, uint64_t seed)
{
    test_rng rng = test_rng_make(seed);
    for (uint64_t i = 0; i < size; i++) {
        bytes[i] = (uint8_t)test_next(&rng);
    }
}

/* Which memory an argument lies in, and where its storage begins there. */
static inline uint32_t oracle_find(oracle *o, const program_arg *arg, int64_t *base)
{
    *base = 0;
    if (arg->buffer != PROGRAM_NOBODY) {
        oracle_memory *memory = &o->memory[AREA_COUNT + arg->buffer];
        if (!memory->bytes) {
            memory->size = o->r->m.buffer[arg->buffer].bytes;
            memory->bytes = program_room(memory->size, 1);
            memory->unknown = program_room(memory->size, 1);
            memset(memory->unknown, 1, memory->size);
        }
        return AREA_COUNT + arg->buffer;
    }
    const uint8_t *storage = arg->t.storage;
    for (uint32_t i = 0; i < AREA_COUNT; i++) {
        const uint8_t *area = o->r->area[i];
        if (storage >= area && storage <= area + program_area_bytes[i]) {
            *base = storage - area;
            return i;
        }
    }
    program_must(pto_tensor_numel(&arg->t) == 0, "memory of nobody");
    return AREA_MAIN;
}

/* Operations on the bytes of an argument. */
typedef enum oracle_deed {
    DEED_ANY_SET, /* whether one of them is set in a map of bytes */
    DEED_SET,     /* sets them there */
    DEED_CLEAR,   /* clears them there */
} oracle_deed;

static inline bool oracle_map(const program_arg *arg, int64_t base, uint8_t *map, oracle_deed deed)
{
    const pto_tensor *t = &arg->t;
    const int64_t size = (int64_t)pto_dtype_size(t->dtype);
    bool any = false;
    for (view_walk w = view_begin(t->ndim, t->shape, t->strides); w.more; view_next(&w)) {
        uint8_t *at = map + base + (t->offset + w.at) * size;
        for (int64_t i = 0; i < size; i++) {
            any = any || at[i];
            if (deed != DEED_ANY_SET) {
                at[i] = deed == DEED_SET;
            }
        }
    }
    return any;
}

static inline bool oracle_is_unknown(oracle *o, const program_arg *arg)
{
    int64_t base;
    const uint32_t memory = oracle_find(o, arg, &base);
    return oracle_map(arg, base, o->memory[memory].unknown, DEED_ANY_SET);
}

static inline void oracle_mark(oracle *o, const program_arg *arg, bool unknown)
{
    int64_t base;
    const uint32_t memory = oracle_find(o, arg, &base);
    oracle_map(arg, base, o->memory[memory].unknown, unknown ? DEED_SET : DEED_CLEAR);
}

/* ---- Poison --------------------------------------------------------------------------------- */

static inline bool oracle_is_poisoned(oracle *o, const program_arg *arg)
{
    int64_t base;
    const uint32_t memory = oracle_find(o, arg, &base);
    for (uint32_t i = 0; i < o->n_poison; i++) {
        if (o->poison[i].memory == memory &&
            oracle_map(arg, base, o->poison[i].bytes, DEED_ANY_SET)) {
            return true;
        }
    }
    return false;
}

static inline void oracle_add_poison(oracle *o, const program_arg *arg)
{
    int64_t base;
    const uint32_t memory = oracle_find(o, arg, &base);
    uint8_t *bytes = program_room(o->memory[memory].size, 1);
    oracle_map(arg, base, bytes, DEED_SET);
    if (o->n_poison == o->max_poison) {
        o->max_poison = o->max_poison * 2 + 8;
        o->poison = realloc(o->poison, o->max_poison * sizeof *o->poison);
        program_must(o->poison != NULL, "no memory");
    }
    o->poison[o->n_poison++] = (oracle_poison){memory, bytes};
}

/* A write that succeeded: regions that it covers are clean again. */
static inline void oracle_heal(oracle *o, const program_arg *arg)
{
    int64_t base;
    const uint32_t memory = oracle_find(o, arg, &base);
    const uint64_t size = o->memory[memory].size;
    uint8_t *written = program_room(size, 1);
    oracle_map(arg, base, written, DEED_SET);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < o->n_poison; i++) {
        bool covered = o->poison[i].memory == memory;
        bool any = false;
        for (uint64_t b = 0; covered && b < size; b++) {
            covered = written[b] || !o->poison[i].bytes[b];
            any = any || o->poison[i].bytes[b];
        }
        if (covered) {
            free(o->poison[i].bytes);
            run_saw(o->r, SEEN_HEALED, any);
        } else {
            o->poison[kept++] = o->poison[i];
        }
    }
    o->n_poison = kept;
    free(written);
}

/* ---- Tasks ---------------------------------------------------------------------------------- */

static inline bool oracle_skips(oracle *o, const program_task *task)
{
    bool after = false;
    for (uint32_t i = 0; i < task->n_args; i++) {
        const program_arg *arg = &task->arg[i];
        if (kernel_reads(arg->kind) && !arg->nodep && oracle_is_poisoned(o, arg)) {
            return true;
        }
        after = after || (arg->kind == PTO_PARAM_AFTER && o->is_bad[arg->task]);
    }
    run_saw(o->r, SEEN_AFTER_BAD, after);
    return after;
}

static inline bool oracle_reads_unknown(oracle *o, const program_task *task)
{
    for (uint32_t i = 0; i < task->n_args; i++) {
        if (kernel_reads(task->arg[i].kind) && oracle_is_unknown(o, &task->arg[i])) {
            return true;
        }
    }
    return false;
}

/* The kernel on the oracle's memory. */
static inline pto_status oracle_call(oracle *o, const program_task *task)
{
    pto_arg *args = program_room(task->n_args, sizeof *args);
    uint32_t n = 0;
    for (uint32_t i = 0; i < task->n_args; i++) {
        const program_arg *from = &task->arg[i];
        pto_arg *to = &args[n];
        if (from->kind == PTO_PARAM_AFTER) {
            continue;
        }
        n++;
        if (from->kind == PTO_PARAM_SCALAR) {
            to->u64 = from->value;
            continue;
        }
        int64_t base;
        const uint32_t memory = oracle_find(o, from, &base);
        const int64_t size = (int64_t)pto_dtype_size(from->t.dtype);
        to->data = o->memory[memory].bytes + base + from->t.offset * size;
        to->shape = from->t.shape;
        to->strides = from->t.strides;
        to->ndim = from->t.ndim;
        to->dtype = from->t.dtype;
    }
    const pto_status status = kernel_work(task, args, false);
    free(args);
    return status;
}

/* Whether both sides of a copy share a byte, but are not the same place. The runtime refuses that. */
static inline bool oracle_meets_itself(oracle *o, const program_task *task)
{
    const program_arg *from = &task->arg[1], *to = &task->arg[2];
    int64_t at_from, at_to;
    const uint32_t a = oracle_find(o, from, &at_from), b = oracle_find(o, to, &at_to);
    if (a != b) {
        return false;
    }
    const int64_t size = (int64_t)pto_dtype_size(to->t.dtype);
    bool same = at_from + from->t.offset * size == at_to + to->t.offset * size;
    for (int32_t d = 0; d < to->t.ndim; d++) {
        same = same && (to->t.shape[d] < 2 || to->t.strides[d] == from->t.strides[d]);
    }
    uint8_t *written = program_room(o->memory[a].size, 1);
    oracle_map(to, at_to, written, DEED_SET);
    const bool meets = oracle_map(from, at_from, written, DEED_ANY_SET);
    free(written);
    return meets && !same;
}

/* How a task ended that has no kernel in this process, or that its device may have failed at. False:
 * as its kernel says. */
static inline bool oracle_ends_by_device(oracle *o, const program_task *task, pto_status *status)
{
    const bool meets = task->copies && oracle_meets_itself(o, task);
    if (!task->copies && (!task->went_bad || task->runs)) {
        return false;
    }
    *status = task->went_bad ? PTO_SYSTEM : PTO_OK;
    if (meets && !task->went_bad) {
        run_wrong(o->r, "task %u copies memory that overlaps, and is said to be good",
                  task->number);
    }
    o->faults += task->went_bad && !meets;
    o->maybe += meets;
    run_saw(o->r, SEEN_COPIES_OVERLAP, meets);
    run_saw(o->r, SEEN_DEVICE_COPY, task->copies && task->went_bad && !meets);
    run_saw(o->r, SEEN_DEVICE_KERNEL, !task->copies);
    return true;
}

static inline void oracle_task(oracle *o, const program_task *task)
{
    run *r = o->r;
    const bool skips = oracle_skips(o, task);
    const bool unknown = !skips && oracle_reads_unknown(o, task);
    pto_status status = PTO_OK;
    if (task->complaint[0]) {
        run_wrong(r, "task %u: %s", task->number, task->complaint);
    }
    const bool by_device = !skips && oracle_ends_by_device(o, task, &status);
    if (!by_device && !task->copies && task->runs != !skips) {
        run_wrong(r, "task %u ran %u times, and should have %s", task->number, task->runs,
                  skips ? "been skipped" : "run once");
    }
    if (by_device && !status && !unknown) {
        (void)oracle_call(o, task);
    } else if (!skips && !by_device) {
        /* If undefined bytes decide whether it fails, the result of the run is taken. */
        status = unknown ? task->status : oracle_call(o, task);
        if (status != task->status || task->ran_as != task->handle) {
            run_wrong(r, "task %u ran as %" PRIu64 " and returned %s, not %s", task->number,
                      task->ran_as, pto_status_name(task->status), pto_status_name(status));
        }
    }
    const bool bad = skips || status != PTO_OK;
    o->is_bad[task->number] = o->was_bad[task->number] = bad;
    o->was_skipped[task->number] = skips;
    o->skipped += skips;
    o->failed += !skips && bad;
    if (!skips && bad && o->first_failed == PROGRAM_NOBODY) {
        o->first_failed = task->number;
    }
    run_saw(r, SEEN_SKIPPED, skips);
    run_saw(r, SEEN_FAILED, !skips && bad);
    run_saw(r, SEEN_BY_DATA, !skips && bad && task->work.failure == FAIL_BY_DATA);
    for (uint32_t i = 0; i < task->n_args; i++) {
        const program_arg *arg = &task->arg[i];
        if (!kernel_writes(arg->kind)) {
            continue;
        }
        if (bad && !arg->nodep) {
            oracle_add_poison(o, arg);
        } else if (!bad && !arg->nodep && o->n_poison) {
            oracle_heal(o, arg);
        }
        oracle_mark(o, arg, bad || unknown);
    }
}

/* ---- Everything else in the journal --------------------------------------------------------- */

/* Element by element: compares a value that was read, or stores a value that was written. */
static inline void oracle_copy(oracle *o, const run_event *event, bool write)
{
    const pto_tensor *t = &event->arg.t;
    const int64_t size = (int64_t)pto_dtype_size(t->dtype);
    int64_t base, n = 0;
    const oracle_memory *memory = &o->memory[oracle_find(o, &event->arg, &base)];
    for (view_walk w = view_begin(t->ndim, t->shape, t->strides); w.more; view_next(&w), n++) {
        const int64_t at = base + (t->offset + w.at) * size;
        for (int64_t i = 0; i < size; i++) {
            const uint8_t byte = event->data[n * size + i];
            if (write) {
                memory->bytes[at + i] = byte;
            } else if (!memory->unknown[at + i] && memory->bytes[at + i] != byte) {
                run_wrong(o->r, "byte %" PRId64 " of element %" PRId64 " is %#x, not %#x", i, n,
                          byte, memory->bytes[at + i]);
                return;
            }
        }
    }
}

/* Compares an answer of the runtime with the expected one. */
static inline void oracle_expect(oracle *o, const run_event *event, pto_status want,
                                 const char *what)
{
    if (event->status != want) {
        run_wrong(o->r, "%s said %s instead of %s", what, pto_status_name(event->status),
                  pto_status_name(want));
    }
}

static inline void oracle_read(oracle *o, const run_event *event)
{
    const bool poisoned = oracle_is_poisoned(o, &event->arg);
    if (poisoned || (event->status != PTO_SYSTEM && event->status != PTO_DEVICE_LOST)) {
        oracle_expect(o, event, poisoned ? PTO_POISONED : PTO_OK, "pto_read");
    }
    if (event->status == PTO_OK) {
        oracle_copy(o, event, false);
    }
}

static inline void oracle_write(oracle *o, const run_event *event)
{
    if (event->status != PTO_OK) { /* its device failed */
        oracle_mark(o, &event->arg, true);
        return;
    }
    oracle_copy(o, event, true);
    oracle_mark(o, &event->arg, false);
    oracle_heal(o, &event->arg);
}

static inline void oracle_wait(oracle *o, const run_event *event)
{
    const bool failed = o->first_failed != PROGRAM_NOBODY;
    const program_task *first = failed ? o->r->m.task[o->first_failed] : NULL;
    oracle_expect(o, event, failed ? PTO_TASK_FAILED : PTO_OK, "pto_wait");
    if (event->failed != (failed ? first->handle : 0)) {
        run_wrong(o->r, "the first failure is said to be task %" PRIu64 " and is %" PRIu64,
                  event->failed, failed ? first->handle : 0);
    }
    if (failed && (first->copies || (first->device && !first->runs))) {
        if (!strstr(event->message, "sim:") && !strstr(event->message, "share memory")) {
            run_wrong(o->r, "the failure of a device says \"%s\"", event->message);
        }
    } else if (failed && first->work.ending == END_RETURN) {
        char words[64];
        snprintf(words, sizeof words, "task %u was to fail", first->number);
        if (strcmp(words, event->message) != 0) {
            run_wrong(o->r, "the failure says \"%s\", not \"%s\"", event->message, words);
        }
    }
}

static inline void oracle_clear(oracle *o, const run_event *event)
{
    size_t at = 0;
    for (uint32_t i = 0; i < o->n_poison; i++) {
        free(o->poison[i].bytes);
    }
    run_saw(o->r, SEEN_CLEARED, o->first_failed != PROGRAM_NOBODY);
    o->n_poison = 0;
    o->first_failed = PROGRAM_NOBODY;
    memset(o->is_bad, 0, sizeof o->is_bad);
    for (uint32_t area = 0; area < AREA_COUNT; area++) {
        oracle_memory *memory = &o->memory[area];
        for (uint64_t i = 0; i < memory->size; i++, at++) {
            if (memory->unknown[i]) {
                memory->bytes[i] = event->data[at];
                memory->unknown[i] = 0;
            }
        }
    }
}

static inline void oracle_info(oracle *o, const run_event *event)
{
    const uint32_t number = event->task->number;
    const bool forgiven = o->was_bad[number] && !o->is_bad[number];
    if (event->is_done && !forgiven &&
        (event->is_bad != o->is_bad[number] || event->is_skipped != o->was_skipped[number])) {
        run_wrong(o->r, "task %u is said to be %s, and is %s", number,
                  event->is_bad ? "bad" : "good", o->is_bad[number] ? "bad" : "good");
    }
}

static inline void oracle_event(oracle *o, const run_event *event)
{
    o->r->op = event->op;
    switch (event->kind) {
    case OP_SUBMIT:
        oracle_task(o, event->task);
        break;
    case OP_READ:
        oracle_read(o, event);
        break;
    case OP_WRITE:
        oracle_write(o, event);
        break;
    case OP_WAIT:
        oracle_wait(o, event);
        break;
    case OP_WAIT_TASK:
        oracle_expect(o, event, o->is_bad[event->task->number] ? PTO_TASK_FAILED : PTO_OK,
                      "pto_wait_task");
        break;
    case OP_CLEAR:
        oracle_clear(o, event);
        break;
    case OP_INFO:
        oracle_info(o, event);
        break;
    default:
        program_must(false, "no such event");
    }
}

/* Compares the memory of the user, byte for byte, except for poisoned bytes. */
static inline void oracle_compare(oracle *o)
{
    for (uint32_t area = 0; area < AREA_COUNT; area++) {
        const oracle_memory *memory = &o->memory[area];
        uint8_t seen[1024];
        if (!o->r->area[area]) {
            continue;
        }
        device_fetch_area(o->r, (program_area)area, seen);
        for (uint64_t i = 0; i < memory->size; i++) {
            bool poisoned = false;
            for (uint32_t n = 0; n < o->n_poison; n++) {
                poisoned = poisoned || (o->poison[n].memory == area && o->poison[n].bytes[i]);
            }
            if (!memory->unknown[i] && !poisoned && seen[i] != memory->bytes[i]) {
                run_wrong(o->r, "byte %" PRIu64 " of area %u is %#x, not %#x", i, area, seen[i],
                          memory->bytes[i]);
                return;
            }
        }
    }
}

/* Reads the journal; *failed and *skipped are the numbers of such tasks. */
static inline void oracle_judge(run *r, uint64_t *failed, uint64_t *skipped)
{
    oracle *o = program_room(1, sizeof *o);
    o->r = r;
    o->first_failed = PROGRAM_NOBODY;
    for (uint32_t i = 0; i < AREA_COUNT; i++) {
        o->memory[i].size = program_area_bytes[i];
        o->memory[i].bytes = program_room(program_area_bytes[i], 1);
        o->memory[i].unknown = program_room(program_area_bytes[i], 1);
        oracle_fill(o->memory[i].bytes, program_area_bytes[i], r->p->seed + i);
    }
    for (uint32_t i = 0; i < r->n_events && !r->is_wrong; i++) {
        oracle_event(o, &r->event[i]);
    }
    r->op = r->p->n_ops;
    oracle_compare(o);
    const uint64_t faults = device_count_faults(r) - r->faults_before;
    if (r->p->devices && !r->is_wrong &&
        (faults < r->faults_seen + o->faults || faults > r->faults_seen + o->faults + o->maybe)) {
        run_wrong(r, "devices failed %" PRIu64 " times; calls saw %" PRIu64 ", tasks %" PRIu64,
                  faults, r->faults_seen, o->faults);
    }
    *failed = o->failed;
    *skipped = o->skipped;
    for (uint32_t i = 0; i < AREA_COUNT + PROGRAM_OPS; i++) {
        free(o->memory[i].bytes);
        free(o->memory[i].unknown);
    }
    for (uint32_t i = 0; i < o->n_poison; i++) {
        free(o->poison[i].bytes);
    }
    free(o->poison);
    free(o);
}

#endif /* PTO_TEST_PROGRAM_ORACLE_H */
