/* program_try.h - tries a program: runs it, checks it with the oracle, and reduces a failing
 * one. */
#ifndef PTO_TEST_PROGRAM_TRY_H
#define PTO_TEST_PROGRAM_TRY_H

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "program_make.h"
#include "program_ops.h"
#include "program_oracle.h"
#include "program_print.h"

/* No program takes a second; with sanitizers and other load, perhaps a few. */
#define PROGRAM_PATIENCE 60

/* ---- From start to end ---------------------------------------------------------------------- */

/* No two of these touch: the oracle finds an area by an address in it or at its end. */
static inline void *try_room(run *r, uint64_t bytes)
{
    void *memory = NULL;
    if (!r->m.arena) {
        return program_room(bytes, 1);
    }
    program_must(pto_shared_alloc(r->rt, bytes + 1, &memory) == PTO_OK, "pto_shared_alloc");
    return memory;
}

/* Memory of the user, and what kernels find by their `user` pointer. With worker processes it
 * belongs to the runtime. */
static inline void try_make_memory(run *r)
{
    for (uint32_t i = 0; i < AREA_COUNT; i++) {
        if (!program_area_device((program_area)i)) {
            r->area[i] = r->diary ? r->diary->area[i] : try_room(r, program_area_bytes[i]);
            oracle_fill(r->area[i], program_area_bytes[i], r->p->seed + i);
        }
    }
    r->unused = try_room(r, 8);
    r->shared = try_room(r, sizeof *r->shared);
    *r->shared = (program_shared){.self = r->shared, .tasks = r->m.task};
    for (uint32_t i = AREA_SIM0; i < AREA_COUNT && r->p->devices; i++) {
        uint8_t contents[1024];
        oracle_fill(contents, program_area_bytes[i], r->p->seed + i);
        device_make_area(r, (program_area)i, contents);
    }
}

static inline void try_begin(run *r)
{
    static const char *const names[PTO_WORKER_TYPES] = {"mix_cube", "mix_vector", "mix_ai_cpu",
                                                        "mix_accelerator"};
    pto_config config = r->p->config;
    pto_runtime_stats stats;
    device_repair(r);
    r->faults_before = device_count_faults(r);
    if (r->p->types_apart) {
        config.worker_types = r->p->worker_types;
    }
    if (PROGRAM_TSAN && config.place != PTO_PLACE_PROCESS) {
        config.map_twice = 0; /* it identifies memory by address */
    }
    run_expect(r, pto_runtime_create(&r->rt, &config), PTO_OK, "pto_runtime_create");
    if (r->is_wrong) {
        return;
    }
    try_make_memory(r);
    for (int type = 0; type < PTO_WORKER_TYPES; type++) {
        run_expect(r,
                   pto_kernel_register(r->rt, names[type], (pto_worker_type)type, kernel_main,
                                       r->shared, &r->kernel[type]),
                   PTO_OK, "pto_kernel_register");
        if (r->p->devices) {
            run_expect(
                r,
                pto_kernel_variant(r->rt, r->kernel[type], PTO_DEVICE_SIM, kernel_main, r->shared),
                PTO_OK, "pto_kernel_variant");
        }
    }
    r->home = program_device_number(config.device);
    r->m.device_heap = config.device_heap_bytes;
    r->m.max_buffers = config.buffers ? config.buffers : UINT64_MAX;
    run_expect(r, pto_stats(r->rt, &stats), PTO_OK, "pto_stats");
    uint64_t slots = 0;
    for (uint32_t level = 0; level < config.levels; level++) {
        slots += stats.level[level].ring[PTO_RING_TASKS].size;
    }
    /* As many records of blocks as of buffers, and at least as many as tasks; a power of two. */
    r->m.max_blocks = 2;
    while (r->m.max_blocks < slots || (config.buffers ? config.buffers : 65536) > r->m.max_blocks) {
        r->m.max_blocks *= 2;
    }
    for (uint32_t level = 0; level < config.levels; level++) {
        const pto_level_stats *l = &stats.level[level];
        r->m.room[level] = (model_room){l->ring[PTO_RING_TASKS].size, l->ring[PTO_RING_HEAP].size,
                                        l->ring[PTO_RING_ARGS].size};
    }
    run_saw(r, SEEN_PROCESS, config.place == PTO_PLACE_PROCESS);
    helper_start(&r->helper, &config, r->p->ending == PTO_CANCEL);
}

/* Notes the result of the current operation. */
static inline void try_tell(run *r, uint32_t events)
{
    program_diary *d = r->diary;
    for (; events < r->n_events; events++) {
        const run_event *event = &r->event[events];
        diary_note(d, program_kind_text(event->kind), event->status);
        diary_note(d, "the failure reported", event->failed);
        diary_bytes(d, "its words", (const uint8_t *)event->message, strlen(event->message));
        diary_note(d, "what is said of the task",
                   event->is_done * 4u + event->is_bad * 2u + event->is_skipped);
        if (event->kind == OP_READ && event->status == PTO_OK) {
            diary_bytes(d, "the bytes read", event->data, model_bytes(&event->arg.t));
        }
    }
    diary_task(d, r->rt, r->last);
    diary_stats(d, r->rt);
    d->look_inside(d, r->rt);
}

/* Reads everything that is still alive. */
static inline void try_read_all(run *r)
{
    for (uint32_t op = 0; op < r->p->n_ops && !r->is_wrong; op++) {
        const model_slot *slot = &r->m.slot[op];
        if (slot->is_made && slot->buffer != PROGRAM_NOBODY &&
            model_is_alive(&r->m, slot->buffer)) {
            program_arg arg = {
                .kind = PTO_PARAM_INPUT, .buffer = slot->buffer, .task = PROGRAM_NOBODY};
            arg.t = slot->t;
            arg.t.version = r->m.buffer[slot->buffer].version;
            run_read_arg(r, &arg);
        }
    }
}

static inline void try_stats(run *r, uint64_t failed, uint64_t skipped)
{
    pto_runtime_stats s;
    run_expect(r, pto_stats(r->rt, &s), PTO_OK, "pto_stats");
    if (s.submitted != r->submitted || s.completed != s.submitted || s.failed != failed ||
        s.skipped != skipped || s.pending || s.oldest || s.scope_depth != r->m.n_scopes ||
        s.buffers != model_count_alive(&r->m)) {
        run_wrong(r,
                  "the statistics say: %" PRIu64 " submitted, %" PRIu64 " completed, %" PRIu64
                  " failed, %" PRIu64 " skipped, %" PRIu64 " buffers, %u pending; it should be "
                  "%" PRIu64 ", %" PRIu64 ", %" PRIu64 ", %" PRIu64 ", %" PRIu64 ", 0",
                  s.submitted, s.completed, s.failed, s.skipped, s.buffers, s.pending, r->submitted,
                  r->submitted, failed, skipped, model_count_alive(&r->m));
    }
    if (r->p->config.overlap_budget == UINT64_MAX && s.overlap_budget_hits) {
        run_wrong(r, "an overlap was guessed, with a budget without end");
    }
    for (uint32_t level = 0; level < s.levels; level++) {
        const pto_level_stats *l = &s.level[level];
        for (uint32_t ring = 0; ring < PTO_RINGS; ring++) {
            run_saw(r, SEEN_WAITED_TASKS + ring, l->ring[ring].waits);
            if (l->ring[ring].peak > l->ring[ring].size) {
                run_wrong(r, "the %s of level %u was fuller than it can be",
                          pto_ring_name((pto_ring)ring), level);
            }
        }
    }
    run_saw(r, SEEN_HELPED, s.helped);
    run_saw(r, SEEN_INLINE, s.inlined);
}

/* Destroys a runtime that is busy, with pending tasks and open scopes. Nothing is compared. */
static inline void try_cancel(run *r)
{
    run_expect(r, pto_clear_error(r->rt), PTO_OK, "pto_clear_error");
    run_expect(r, pto_scope_begin(r->rt), PTO_OK, "pto_scope_begin");
    if (!r->is_wrong) {
        model_begin(&r->m, false);
    }
    for (uint32_t op = 0; op < r->p->n_ops && !r->is_wrong && r->m.n_tasks < PROGRAM_TASKS / 2;
         op += 3) {
        if (r->p->op[op].kind == OP_SUBMIT && !r->p->dropped[op]) {
            r->op = op;
            run_submit(r);
        }
    }
    r->op = r->p->n_ops;
    run_expect(r, pto_runtime_destroy(&r->rt, PTO_CANCEL), PTO_OK, "destroy");
}

static inline void try_destroy(run *r)
{
    if (r->m.n_scopes) {
        run_saw(r, SEEN_OPEN, 1);
        run_expect(r, pto_runtime_destroy(&r->rt, PTO_WAIT), PTO_OPEN_SCOPE, "destroy");
        while (r->m.n_scopes) {
            run_end(r);
        }
    }
    run_acknowledge(r);
    run_expect(r, pto_runtime_destroy(&r->rt, PTO_WAIT), PTO_OK, "destroy");
    if (r->rt) {
        run_wrong(r, "the runtime survives its end");
    }
}

static inline void try_free(run *r)
{
    program_arena arena = r->arena;
    if (r->rt) {
        PTO_IGNORE(pto_runtime_destroy(&r->rt, PTO_CANCEL)); /* something was wrong */
    }
    helper_free(&r->helper);
    for (uint32_t i = 0; i < r->m.n_tasks; i++) {
        model_free_task(&r->m, r->m.task[i]);
    }
    for (uint32_t i = 0; i < r->n_events; i++) {
        free(r->event[i].data);
    }
    if (arena.memory) {
        arena_close(&arena);
        return;
    }
    for (int i = 0; i < AREA_SIM0; i++) {
        free(r->diary ? NULL : r->area[i]);
    }
    device_free_areas(r);
    free(r->unused);
    free(r->shared);
    free(r);
}

/* Whether the runtime and the oracle agree about a program; if not, `why` says what differs.
 * `diary` records everything visible; may be NULL. */
static inline bool program_try_noting(const program *p, program_sights *sights,
                                      program_diary *diary, char *why, size_t size)
{
    program_arena arena = {.memory = NULL};
    const bool shared = p->config.place == PTO_PLACE_PROCESS;
    if (shared) {
        arena_open(&arena);
    }
    run *r = arena_room(shared ? &arena : NULL, 1, sizeof *r);
    uint64_t failed = 0, skipped = 0;
    r->p = p;
    r->sights = sights;
    r->why = why;
    r->why_bytes = size;
    r->diary = diary;
    r->arena = arena;
    model_init(&r->m, p->config.levels, shared ? &r->arena : NULL);
    try_begin(r);
    r->helper.diary = diary;
    for (r->op = 0; r->op < p->n_ops && !r->is_wrong; r->op++) {
        const uint32_t events = r->n_events;
        if (diary) {
            diary->op = r->op;
        }
        run_op(r);
        if (diary && !r->is_wrong) {
            try_tell(r, events);
        }
    }
    r->op = r->is_wrong ? r->op : p->n_ops;
    if (!r->is_wrong) {
        const uint32_t events = r->n_events;
        run_wait(r);
        device_learn(r);
        device_repair(r);
        try_read_all(r);
        run_expect(r, pto_check(r->rt), PTO_OK, "pto_check");
        if (diary && !r->is_wrong) {
            try_tell(r, events);
            for (int i = 0; i < AREA_SIM0; i++) {
                diary_bytes(diary, "memory", r->area[i], program_area_bytes[i]);
            }
        }
    }
    if (!r->is_wrong) {
        oracle_judge(r, &failed, &skipped);
    }
    if (!r->is_wrong) {
        try_stats(r, failed, skipped);
    }
    if (!r->is_wrong && p->ending == PTO_CANCEL) {
        try_cancel(r);
    } else if (!r->is_wrong) {
        helper_stop(&r->helper); /* its last call may not have returned yet */
        try_destroy(r);
    }
    const bool good = !r->is_wrong;
    try_free(r);
    return good;
}

static inline bool program_try(const program *p, program_sights *sights, char *why, size_t size)
{
    return program_try_noting(p, sights, NULL, why, size);
}

/* ---- In a process of its own ---------------------------------------------------------------- */

typedef enum try_result {
    TRY_GOOD,
    TRY_DIFFERS, /* according to the oracle or the model */
    TRY_HANGS,   /* it did not end in time */
    TRY_CRASHES, /* a signal ended it */
} try_result;

/* The work of the child; true if all is well, otherwise `why` is set. */
typedef bool try_child(void *context, char *why, size_t size);

/* Runs `child` in a separate process, for so many seconds at most. A program that hangs renews
 * its own alarm, see PROGRAM_PATIENCE. */
static inline try_result try_forked(try_child *child, void *context, unsigned seconds, char *why,
                                    size_t size)
{
    int ends[2], status = 0;
    fflush(NULL);
    program_must(pipe(ends) == 0, "no pipe");
    const pid_t pid = fork();
    program_must(pid >= 0, "no process");
    if (pid == 0) {
        char words[512] = "";
        signal(SIGALRM, SIG_DFL);
        signal(SIGINT, SIG_DFL);
        alarm(seconds);
        const bool good = child(context, words, sizeof words);
        const ssize_t written = write(ends[1], words, strlen(words));
        _exit(good && written >= 0 ? 0 : 1);
    }
    close(ends[1]);
    ssize_t got, used = 0;
    while ((got = read(ends[0], why + used, size - 1 - (size_t)used)) > 0 ||
           (got < 0 && errno == EINTR)) {
        used += got > 0 ? got : 0;
    }
    why[used] = 0;
    close(ends[0]);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFSIGNALED(status)) {
        const int number = WTERMSIG(status);
        snprintf(why, size, "%s", number == SIGALRM ? "it does not end" : strsignal(number));
        return number == SIGALRM ? TRY_HANGS : TRY_CRASHES;
    }
    return WEXITSTATUS(status) == 0 ? TRY_GOOD : TRY_DIFFERS;
}

static inline bool try_in_child(void *context, char *why, size_t size)
{
    program_sights sights = {{0}};
    return program_try(context, &sights, why, size);
}

/* ---- Reduction ------------------------------------------------------------------------------ */

/* Whether the program fails; a race may need several tries. */
static inline bool try_fails(program *p, int tries, char *why, size_t size)
{
    char words[512];
    for (; tries > 0; tries--) {
        if (try_forked(try_in_child, p, 10, words, sizeof words) != TRY_GOOD) {
            snprintf(why, size, "%s", words);
            return true;
        }
    }
    return false;
}

/* Drops operations as long as the program still fails, for so many seconds. */
static inline void program_minimise(program *p, uint64_t seconds, char *why, size_t size)
{
    const uint64_t end = kernel_now() + seconds * 1000000000;
    for (uint32_t piece = p->n_ops / 2; piece > 0; piece /= 2) {
        for (uint32_t at = 0; at < p->n_ops && kernel_now() < end; at += piece) {
            bool before[PROGRAM_OPS], any = false;
            memcpy(before, p->dropped, sizeof before);
            for (uint32_t op = at; op < at + piece && op < p->n_ops; op++) {
                any = any || !p->dropped[op];
                p->dropped[op] = true;
            }
            if (any && !try_fails(p, 4, why, size)) {
                memcpy(p->dropped, before, sizeof before);
            }
        }
    }
}

/* ---- Reports -------------------------------------------------------------------------------- */

/* Prints everything about a program that failed. */
static inline void program_report(program *p, const char *why, const char *again)
{
    char words[512];
    snprintf(words, sizeof words, "%s", why);
    fprintf(stderr, "\nprogram %" PRIu64 " fails: %s\n  again: %s\n", p->seed, why, again);
    config_print(stderr, p);
    fprintf(stderr, "making it smaller ...\n");
    if (try_fails(p, 20, words, sizeof words)) {
        program_minimise(p, 30, words, sizeof words);
        fprintf(stderr, "what is left of it fails like this: %s\n", words);
        program_print(stderr, p);
    } else {
        fprintf(stderr, "it did not fail again in 20 tries\n");
    }
}

/* ---- Crashes and hangs ---------------------------------------------------------------------- */

static char try_last_words[256]; /* of the current program */

static inline void try_say(void)
{
    const ssize_t written = write(STDERR_FILENO, try_last_words, strlen(try_last_words));
    (void)written;
}

static inline void try_on_signal(int number)
{
    try_say();
    signal(number, SIG_DFL);
    raise(number);
}

/* After a crash or a hang of this process, prints the program. */
static inline void try_watch(void)
{
    static const int signals[] = {SIGALRM, SIGABRT, SIGFPE, SIGBUS, SIGSEGV};
    extern void __sanitizer_set_death_callback(void (*)(void)) __attribute__((weak));
    if (__sanitizer_set_death_callback) {
        __sanitizer_set_death_callback(try_say); /* it has handlers of its own */
        signal(SIGALRM, try_on_signal);
        return;
    }
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        signal(signals[i], try_on_signal);
    }
}

static inline void try_announce(const program *p, const char *again)
{
    snprintf(try_last_words, sizeof try_last_words,
             "\nprogram %" PRIu64 " crashes or hangs\n  again: %s\n", p->seed, again);
    alarm(PROGRAM_PATIENCE);
}

static inline void try_quiet(void)
{
    alarm(0);
    try_last_words[0] = 0;
}

#endif /* PTO_TEST_PROGRAM_TRY_H */
