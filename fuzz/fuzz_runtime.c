/* fuzz_runtime.c - random programs on the runtime, without an end: tests/runtime/program.h.
 *
 *     fuzz_runtime [SECONDS]
 *
 * Stops at the first program that is not right, when the time is over, or at Ctrl-C.
 *
 * PTO_TEST_SEED=N     begins with the programs of another seed (default: the time of day)
 * PTO_TEST_PROGRAM=N  runs only program N, again and again (failures name it)
 */
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "program.h"

static atomic_bool interrupted; /* free of locks, as a handler needs it */

static void interrupt(int number)
{
    (void)number;
    atomic_store(&interrupted, true);
}

/* Where the numbers come from: what was asked for, or never the same twice. */
static uint64_t first_program(void)
{
    const uint64_t seed = test_env("PTO_TEST_SEED", UINT64_MAX);
    return seed == UINT64_MAX ? (uint64_t)time(NULL) << 24 : seed << 32;
}

static void progress(uint64_t programs, const program_sights *seen, double seconds, bool last)
{
    const bool terminal = isatty(STDOUT_FILENO);
    if (terminal || last) {
        printf("%s%" PRIu64 " programs, %" PRIu64 " tasks, %" PRIu64 " failed on purpose, %" PRIu64
               " stalls, %.0f s, %.0f programs/s%s",
               terminal ? "\r\033[K" : "", programs, seen->count[SEEN_TASKS],
               seen->count[SEEN_FAILED],
               seen->count[SEEN_STALLED_WINDOW] + seen->count[SEEN_STALLED_HEAP], seconds,
               seconds > 0 ? (double)programs / seconds : 0, last ? "\n" : "");
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    static program p;
    static program_sights seen;
    const uint64_t one = test_env("PTO_TEST_PROGRAM", UINT64_MAX);
    const uint64_t first = one != UINT64_MAX ? one : first_program();
    const uint64_t begin = kernel_now();
    uint64_t end = UINT64_MAX, told = begin, programs = 0;
    if (argc > 1) {
        end = begin + strtoull(argv[1], NULL, 10) * 1000000000;
    }
    signal(SIGINT, interrupt);
    try_watch();
    while (!atomic_load(&interrupted) && kernel_now() < end) {
        const uint64_t seed = one != UINT64_MAX ? one : first + programs;
        char why[512] = "", again[96];
        snprintf(again, sizeof again, "PTO_TEST_PROGRAM=%" PRIu64 " ./dev fuzz", seed);
        program_make(&p, seed, program_profile_of(seed));
        try_announce(&p, again);
        const bool good = program_try(&p, &seen, why, sizeof why);
        try_quiet();
        programs++;
        if (!good) {
            progress(programs, &seen, (double)(kernel_now() - begin) / 1e9, true);
            program_report(&p, why, again);
            return 1;
        }
        if (kernel_now() - told > 200000000) {
            told = kernel_now();
            progress(programs, &seen, (double)(told - begin) / 1e9, false);
        }
    }
    progress(programs, &seen, (double)(kernel_now() - begin) / 1e9, true);
    return 0;
}
