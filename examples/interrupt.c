/* interrupt.c - a long run that Ctrl-C ends in an orderly way.
 *
 * It counts primes for hours, ten thousand numbers per task. The signal handler calls pto_cancel.
 * Running tasks notice it and return early, waiting tasks are skipped, and the next call of the
 * submitting thread returns an error. The results so far are kept and printed.
 */
#include <errno.h>
#include <pto/pto.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 10000, DEFAULT_BLOCKS = 1000000 };

static pto_runtime *runtime; /* set before the handler is installed */

static void on_interrupt(int number)
{
    (void)number;
    pto_cancel(runtime);
}

static bool is_prime(int64_t n)
{
    if (n < 4 || n % 2 == 0) {
        return n == 2 || n == 3;
    }
    for (int64_t d = 3; d * d <= n; d += 2) {
        if (n % d == 0) {
            return false;
        }
    }
    return true;
}

/* args[0] = number of primes in the block that starts at args[1] */
static pto_status count_primes(const pto_call *call)
{
    const int64_t first = pto_arg_i64(&call->args[1]);
    int64_t count = 0;
    for (int64_t n = first; n < first + BLOCK; n++) {
        if (pto_is_cancelled(call->rt)) {
            return pto_fail(PTO_CANCELLED, "stopped at %lld", (long long)n);
        }
        count += is_prime(n);
    }
    *(int64_t *)call->args[0].data = count;
    return PTO_OK;
}

/* Submits until all blocks are submitted, or until the runtime is cancelled. The ring holds a
 * bounded number of tasks, so submitting never runs far ahead. */
static pto_status count_all(pto_runtime *rt, int64_t *counts, int64_t blocks)
{
    pto_kernel kernel;
    PTO_TRY(pto_kernel_register(rt, "count_primes", PTO_AI_CPU, count_primes, NULL, &kernel));
    for (int64_t i = 0; i < blocks; i++) {
        pto_tensor count;
        PTO_TRY(pto_external_tensor(rt, &counts[i], PTO_INT64, 0, NULL, &count));
        PTO_TRY(pto_submit(rt, kernel, pto_output(&count), pto_scalar(i * BLOCK)));
    }
    return pto_wait(rt);
}

/* Blocks end in any order. Only the blocks before the first gap count. */
static void report(const pto_runtime *rt, const int64_t *counts, int64_t blocks)
{
    pto_runtime_stats s;
    int64_t done = 0, primes = 0;
    while (done < blocks && counts[done] >= 0) {
        primes += counts[done++];
    }
    if (pto_stats(rt, &s) == PTO_OK) {
        printf("%llu tasks done, %llu ended early, %llu skipped\n",
               (unsigned long long)(s.completed - s.failed - s.skipped),
               (unsigned long long)s.failed, (unsigned long long)s.skipped);
    }
    printf("%lld primes below %lld\n", (long long)primes, (long long)done * BLOCK);
}

int main(int argc, char **argv)
{
    int64_t blocks = argc > 1 ? strtoll(argv[1], NULL, 10) : DEFAULT_BLOCKS;
    if (argc > 2 || blocks < 1 || blocks > DEFAULT_BLOCKS) {
        const bool help = argc == 2 && !strcmp(argv[1], "--help");
        fprintf(help ? stdout : stderr,
                "usage: ./dev run interrupt [BLOCKS]   count the primes of 1 to %d blocks of %d\n"
                "numbers; Ctrl-C ends it\n",
                DEFAULT_BLOCKS, BLOCK);
        return help ? 0 : 2;
    }
    int64_t *counts = malloc((size_t)blocks * sizeof *counts);
    if (!counts || pto_runtime_create(&runtime, NULL) != PTO_OK) {
        fprintf(stderr, "interrupt: %s\n", counts ? pto_error_detail() : "out of memory");
        free(counts);
        return 1;
    }
    memset(counts, 0xff, (size_t)blocks * sizeof *counts);

    /* The handler works once: if the program does not end, a second Ctrl-C kills it. */
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
    sigaction(SIGINT, &action, NULL);
    printf("counting primes; Ctrl-C ends it\n");
    fflush(stdout);
    pto_status status = count_all(runtime, counts, blocks);
    const bool interrupted = pto_is_cancelled(runtime);
    if (interrupted) {
        /* When this returns, no task runs and none is left. */
        status = pto_clear_error(runtime);
        printf("interrupted\n");
    }
    if (status != PTO_OK) {
        fprintf(stderr, "interrupt: %s\n", pto_error_detail());
    }
    report(runtime, counts, blocks);
    signal(SIGINT, SIG_DFL);
    PTO_IGNORE(pto_runtime_destroy(&runtime, PTO_CANCEL)); /* what failed was reported above */
    free(counts);
    return interrupted ? 130 : status != PTO_OK;
}
