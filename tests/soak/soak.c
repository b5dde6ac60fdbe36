/* soak.c - random programs in random configurations for a long time, without growth of resources.
 *
 *     soak [--minutes N] [--seed N] [--only] [--lanes N]
 *     soak --kills N [--seed N]
 *
 * Programs are those of tests/runtime/program.h: rings from large to hopeless, any number of
 * workers, all places of the scheduler, counters before their wraps; kernels that fail, are
 * pending or slow; cancels; and a new runtime for each program. An oracle checks every one. Several
 * lanes, one thread each, run their own programs at the same time: runtimes must not affect each
 * other.
 *
 * Between programs the process is checked: file descriptors and threads must be what they were,
 * mappings and resident memory must stay where they settled in the beginning.
 *
 * With --kills, programs run in worker processes instead, which are killed N times in all, and check
 * themselves (tests/worker/kill.h).
 *
 * Program N of a lane has seed + N. A failure names the seed of its program, and --seed with --only
 * runs that program again and again. Ctrl-C ends the test early, with the summary. The exit status
 * is 0 only if nothing was wrong.
 */
#include <stdatomic.h>

#include "../runtime/program.h"
#include "../worker/kill.h"
#include "holdings.h"

#define LANES_MAX 8
#define PATIENCE UINT64_C(120000000000) /* nanoseconds for one program: it hangs, nothing else */
#define PAUSE_NS 100000000              /* between two checks of the lanes */
#define ROUND_PROGRAMS 100              /* of each lane between two checks of the process */
#define SETTLING_ROUNDS 16              /* in which caches fill and arenas grow */

typedef struct options {
    uint64_t minutes, seed, lanes, kills;
    bool only;
} options;

typedef struct lane {
    pthread_t thread;
    uint64_t next, end; /* programs of this round */
    bool only;
    program p;
    program_sights seen;
    uint64_t programs;
    char why[512];
    bool failed;
    /* read by the main thread, which watches */
    atomic_ullong at;    /* seed of the current program */
    atomic_ullong since; /* when it began; 0 between programs */
    atomic_bool done;
} lane;

static atomic_bool stop; /* set by a handler, and when a lane has failed; free of locks */

static void interrupt(int number)
{
    (void)number;
    atomic_store(&stop, true);
}

/* ---- Lanes ------------------------------------------------------------------------------------ */

/* Sometimes a kernel that takes longer than the rest of the program. */
static void make_slow(program *p, test_rng *rng)
{
    for (uint32_t op = 0; op < p->n_ops; op++) {
        if (p->op[op].kind == OP_SUBMIT && program_one_in(rng, 40)) {
            p->op[op].work.delay[0] = (uint32_t)program_roll(rng, 1, 20) * 1000000;
            return;
        }
    }
}

static void make(program *p, uint64_t seed)
{
    test_rng rng = test_rng_make(seed);
    program_make(p, seed, program_profile_of(seed));
    if (program_one_in(&rng, 50)) {
        make_slow(p, &rng);
    }
}

static void *lane_run(void *argument)
{
    lane *l = argument;
    for (uint64_t seed = l->next; seed < l->end && !atomic_load(&stop); seed++) {
        const uint64_t chosen = l->only ? l->next : seed;
        make(&l->p, chosen);
        atomic_store(&l->at, chosen);
        atomic_store(&l->since, kernel_now());
        l->failed = !program_try(&l->p, &l->seen, l->why, sizeof l->why);
        atomic_store(&l->since, 0);
        l->programs++;
        if (l->failed) {
            atomic_store(&stop, true);
        }
    }
    atomic_store(&l->done, true);
    return NULL;
}

static void say_again(char *text, size_t size, uint64_t seed)
{
    snprintf(text, size, "./dev soak --seed %" PRIu64 " --only", seed);
}

/* Waits for all lanes; a program that hangs ends the process, with its seed. */
static void lanes_watch(lane *lanes, uint64_t count)
{
    for (uint64_t i = 0; i < count;) {
        if (atomic_load(&lanes[i].done)) {
            i++;
            continue;
        }
        nanosleep(&(struct timespec){0, PAUSE_NS}, NULL);
        for (uint64_t j = 0; j < count; j++) {
            const uint64_t since = atomic_load(&lanes[j].since);
            if (since && kernel_now() > since && kernel_now() - since > PATIENCE) {
                char again[96];
                say_again(again, sizeof again, atomic_load(&lanes[j].at));
                fprintf(stderr, "\na program does not end\n  again: %s\n", again);
                abort();
            }
        }
    }
}

static void lanes_round(lane *lanes, const options *o, uint64_t first)
{
    for (uint64_t i = 0; i < o->lanes; i++) {
        lanes[i].next = o->only ? o->seed : first + i * ROUND_PROGRAMS;
        lanes[i].end = lanes[i].next + ROUND_PROGRAMS;
        lanes[i].only = o->only;
        atomic_store(&lanes[i].done, false);
        program_must(pthread_create(&lanes[i].thread, NULL, lane_run, &lanes[i]) == 0, "no thread");
    }
    lanes_watch(lanes, o->lanes);
    for (uint64_t i = 0; i < o->lanes; i++) {
        pthread_join(lanes[i].thread, NULL);
    }
}

/* ---- Output ----------------------------------------------------------------------------------- */

static program_sights sum_up(const lane *lanes, uint64_t count, uint64_t *programs)
{
    program_sights sum = {{0}};
    *programs = 0;
    for (uint64_t i = 0; i < count; i++) {
        *programs += lanes[i].programs;
        for (int s = 0; s < SEEN_COUNT; s++) {
            sum.count[s] += lanes[i].seen.count[s];
        }
    }
    return sum;
}

static void progress(const lane *lanes, const options *o, uint64_t begin, const holdings *now)
{
    uint64_t programs;
    const program_sights seen = sum_up(lanes, o->lanes, &programs);
    const double seconds = (double)(kernel_now() - begin) / 1e9;
    printf("\r\033[K%.0f s: %" PRIu64 " programs, %" PRIu64 " tasks, %.1f MiB resident, %.0f "
           "programs/s",
           seconds, programs, seen.count[SEEN_TASKS], (double)now->count[HOLD_RESIDENT] / 1024,
           (double)programs / seconds);
    fflush(stdout);
}

static void summary(const lane *lanes, const options *o, uint64_t begin, const holdings *settled,
                    const holdings *last, uint64_t rounds)
{
    uint64_t programs;
    const program_sights seen = sum_up(lanes, o->lanes, &programs);
    const double seconds = (double)(kernel_now() - begin) / 1e9;
    printf("%" PRIu64 " programs from seed %" PRIu64 " in %.0f s, %" PRIu64 " lanes:\n", programs,
           o->seed, seconds, o->lanes);
    for (int s = 0; s < SEEN_COUNT; s++) {
        if (seen.count[s]) {
            printf("%12" PRIu64 " %s\n", seen.count[s], program_sight_text((program_sight)s));
        }
    }
    if (rounds > SETTLING_ROUNDS) {
        for (int i = 0; i < HOLD_COUNT; i++) {
            printf("%12" PRIu64 " %s at the end, %" PRIu64 " when it had settled\n", last->count[i],
                   holding_texts[i], settled->count[i]);
        }
    } else {
        printf("too short to see whether resources grow\n");
    }
}

/* ---- Kills ----------------------------------------------------------------------------------- */

static int run_kills(const options *o)
{
    enum { EACH = 20 };
    static kill_stage total;
    const uint64_t begin = kernel_now();
    holdings settled = {{0}}, now = {{0}};
    holding more = HOLD_COUNT;
    bool good = true;
    for (uint64_t i = 0; good && total.kills < o->kills && !atomic_load(&stop); i++) {
        good = kill_round(o->seed + i, EACH, &total);
        now = holdings_look(1);
        if (i < SETTLING_ROUNDS) {
            holdings_settle(&settled, &now);
        } else if (more == HOLD_COUNT) {
            more = holdings_grown(&settled, &now);
        }
        good &= more == HOLD_COUNT;
    }
    printf("%" PRIu64 " kills from seed %" PRIu64 " in %.0f s: %" PRIu64 " losses, %" PRIu64
           " programs, %" PRIu64 " tasks failed, %" PRIu64 " skipped\n",
           total.kills, o->seed, (double)(kernel_now() - begin) / 1e9, total.losses, total.programs,
           total.failed, total.skipped);
    if (total.why[0]) {
        printf("%s\n    ./dev soak --kills %d --seed N runs the programs of seed N again\n",
               total.why, EACH);
    }
    if (more != HOLD_COUNT) {
        printf("%s pile up: %" PRIu64 "\n", holding_texts[more], now.count[more]);
    }
    printf("soak: %s\n", good ? "all as it should be" : "FAILED");
    return !good;
}

/* ---- Main ------------------------------------------------------------------------------------- */

static void usage(const char *wrong)
{
    fprintf(stderr,
            "soak: %s\nusage: soak [--minutes N] [--seed N] [--only] [--lanes 1..%d] [--kills N]\n"
            "  --minutes N  how long (default 5)\n"
            "  --seed N     begin with program N (default: the time of day)\n"
            "  --only       that program alone, again and again\n"
            "  --lanes N    threads that run programs (default 2)\n"
            "  --kills N    programs in worker processes, until N of these have been killed\n",
            wrong, LANES_MAX);
    exit(2);
}

static uint64_t number_of(const char *text, uint64_t low, uint64_t high)
{
    char *end = NULL;
    errno = 0;
    const uint64_t value = text ? strtoull(text, &end, 10) : 0;
    if (!text || *text < '0' || *text > '9' || *end || errno || value < low || value > high) {
        usage(text ? text : "a number is missing");
    }
    return value;
}

static options read_options(int argc, char **argv)
{
    options o = {.minutes = 5, .seed = (uint64_t)time(NULL) << 24, .lanes = 2};
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (!strcmp(argv[i], "--only")) {
            o.only = true;
            continue;
        }
        if (!strcmp(argv[i], "--minutes")) {
            o.minutes = number_of(value, 1, 100000);
        } else if (!strcmp(argv[i], "--seed")) {
            o.seed = number_of(value, 0, UINT64_MAX);
        } else if (!strcmp(argv[i], "--lanes")) {
            o.lanes = number_of(value, 1, LANES_MAX);
        } else if (!strcmp(argv[i], "--kills")) {
            o.kills = number_of(value, 1, 100000000);
        } else {
            usage(argv[i]);
        }
        i++;
    }
    return o;
}

/* Whether a lane has failed; prints everything about it. */
static bool tell_failure(lane *lanes, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        if (lanes[i].failed) {
            char again[96];
            say_again(again, sizeof again, lanes[i].p.seed);
            program_report(&lanes[i].p, lanes[i].why, again);
            return true;
        }
    }
    return false;
}

int main(int argc, char **argv)
{
    static lane lanes[LANES_MAX];
    const options o = read_options(argc, argv);
    const uint64_t begin = kernel_now(), end = begin + o.minutes * 60 * UINT64_C(1000000000);
    const bool terminal = isatty(STDOUT_FILENO);
    holdings settled = {{0}}, now = {{0}};
    uint64_t rounds = 0;
    holding more = HOLD_COUNT;
    mallopt(M_ARENA_MAX, 2); /* otherwise memory depends on the order of threads */
    signal(SIGINT, interrupt);
    signal(SIGTERM, interrupt);
    if (o.kills) {
        return run_kills(&o);
    }
    for (; !atomic_load(&stop) && kernel_now() < end && more == HOLD_COUNT; rounds++) {
        lanes_round(lanes, &o, o.seed + rounds * o.lanes * ROUND_PROGRAMS);
        now = holdings_look(1);
        if (rounds < SETTLING_ROUNDS) {
            holdings_settle(&settled, &now);
        } else {
            more = holdings_grown(&settled, &now);
        }
        if (terminal) {
            progress(lanes, &o, begin, &now);
        }
    }
    printf("%s", terminal ? "\r\033[K" : "");
    const bool failed = tell_failure(lanes, o.lanes);
    summary(lanes, &o, begin, &settled, &now, rounds);
    if (more != HOLD_COUNT) {
        printf("%s pile up: %" PRIu64 ", and no more than %" PRIu64 " are right\n",
               holding_texts[more], now.count[more], settled.count[more] + holding_slack[more]);
    }
    printf("soak: %s\n", failed || more != HOLD_COUNT ? "FAILED" : "all as it should be");
    return failed || more != HOLD_COUNT;
}
