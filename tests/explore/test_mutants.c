/* test_mutants.c - the explorer detects every mutant: in which scenario, and after how many
 * schedules.
 *
 * A mutant may do anything, so each runs in a separate process.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mutant.h"
#include "support.h"
#include "world.h"

enum { SCHEDULES = 60000, SECONDS = 60 };

static const scenario *find(const char *name)
{
    for (const scenario *const *s = scenarios; *s; s++) {
        if (strcmp((*s)->name, name) == 0) {
            return *s;
        }
    }
    fail_msg("no scenario '%s'", name);
    return NULL;
}

/* In a separate process; the result comes back through a pipe. */
static void hunt(const mutation *m, int out)
{
    search_result r = {0};
    search_bound bound;
    mutation_now = m;
    ptoi_mutant = (ptoi_mutant_name)m->code;
    explore_device_orders = mutation_needs_orders(m);
    /* Of its own time: other processes may keep the machine busy. */
    (void)setrlimit(RLIMIT_CPU, &(struct rlimit){SECONDS, SECONDS});
    search_open(find(m->caught_by));
    search_all(SCHEDULES, test_seed(), &r, &bound);
    if (r.failed) {
        (void)!write(out, &r, sizeof r);
    }
    _exit(0);
}

static void test_mutant(void **state)
{
    const mutation *m = *state;
    search_result r = {0};
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(ends[0]);
        hunt(m, ends[1]);
    }
    close(ends[1]);
    size_t got = 0;
    for (ssize_t n; got < sizeof r && (n = read(ends[0], (char *)&r + got, sizeof r - got)) > 0;) {
        got += (size_t)n;
    }
    close(ends[0]);
    int status = 0;
    assert_true(waitpid(child, &status, 0) == child);
    if (got != sizeof r) {
        fail_msg("%s (%s): %s does not notice; its process ended with status %d", m->name, m->text,
                 m->caught_by, status);
    }
    print_message("%-24s %s, schedule %" PRIu64 ": %s\n", m->name, m->caught_by, r.at, r.why);
}

int main(void)
{
    struct CMUnitTest tests[128];
    size_t n = 0;
    for (const mutation *m = mutations; m->name; m++) {
        tests[n++] = (struct CMUnitTest){
            .name = m->name, .test_func = test_mutant, .initial_state = (void *)(uintptr_t)m};
    }
    return _cmocka_run_group_tests("explore.mutants", tests, n, NULL, NULL);
}
