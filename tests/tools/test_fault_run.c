/* test_fault_run.c - workloads of the pto command where the system refuses something that command,
 * workload or library ask for. Each run is a process of its own, as it is for people. It ends by itself,
 * without a signal, and its status is that of a run that was right, or is not and comes with words.
 *
 * A first run says from where such calls come. At each of these places the first call fails once and
 * the last call fails once, in one of the workloads. With ten times the usual effort it is each call of
 * each workload, alone and with all that follow. */
#define _GNU_SOURCE /* closefrom */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fault.h"
#include "run.h"
#include "support.h"

#define PATIENCE 120 /* seconds; none of these runs takes one */

enum { TOLD = 3 }; /* a descriptor: where calls came from, and how many were refused */

enum { CALLS = 4096, SITES = 512 };

/* ---- The child: pto run NAME --small ... ---------------------------------------------------- */

#define NOT_ONE 1000000 /* calls: more than there are */

/* As an offset, which is the same in every process. */
static void tell_site(const void *site)
{
    dprintf(TOLD, "%td ", (const char *)site - (const char *)(uintptr_t)&tell_site);
}

static int child(int argc, char **argv)
{
    const fault_mode mode = !strcmp(argv[2], "from") ? FAULT_FROM : FAULT_ONCE;
    const uint64_t calls = strtoull(argv[3], NULL, 10);
    options o;
    alarm(PATIENCE);
    for (const workload *const *w = workloads; *w; w++) {
        if (!strcmp((*w)->name, argv[4])) {
            fault_told = mode == FAULT_FROM || calls < NOT_ONE ? NULL : tell_site;
            fault_arm(mode, calls);
            int status = 2;
            if (options_parse(&o, *w, argc - 4, argv + 4) == OPTIONS_RUN) {
                status = run_workload(&o);
            }
            const uint64_t hits = atomic_load(&fault.hits);
            fault_calm();
            dprintf(TOLD, "refused %" PRIu64 " %s", hits, atomic_load(&fault.last));
            return status;
        }
    }
    return 127;
}

/* ---- The parent ----------------------------------------------------------------------------- */

typedef struct outcome {
    int status; /* of waitpid */
    uint64_t hits;
    bool ended; /* it came to its end */
    char told[CALLS * 12];
    char said[4096]; /* on stderr */
} outcome;

static void collect(int from, char *text, size_t size)
{
    size_t used = 0;
    char rest[512];
    for (ssize_t got; (got = read(from, rest, sizeof rest)) > 0;) {
        for (ssize_t i = 0; i < got && used + 1 < size; i++) {
            text[used++] = rest[i];
        }
    }
    text[used] = 0;
    (void)__real_close(from);
}

static void run_one(const char *name, const char *mode, uint64_t calls, outcome *o)
{
    int told[2] = {-1, -1}, said[2] = {-1, -1};
    char number[32];
    snprintf(number, sizeof number, "%" PRIu64, calls);
    assert_true(pipe(told) == 0 && pipe(said) == 0);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        const int nowhere = __real_open("/dev/null", O_WRONLY);
        dup2(told[1], 9); /* said may be 3 itself */
        dup2(said[1], STDERR_FILENO);
        dup2(nowhere, STDOUT_FILENO);
        dup2(9, TOLD);
        closefrom(TOLD + 1);
        execl("/proc/self/exe", "test_fault_run", "--child", mode, number, name, "--small",
              "--workers", "2", "--place", calls % 2 ? "thread" : "inline", (char *)NULL);
        _exit(126);
    }
    (void)__real_close(told[1]);
    (void)__real_close(said[1]);
    collect(said[0], o->said, sizeof o->said);
    collect(told[0], o->told, sizeof o->told);
    assert_int_equal(waitpid(pid, &o->status, 0), pid);
    const char *refused = strstr(o->told, "refused ");
    o->ended = refused != NULL;
    o->hits = refused ? strtoull(refused + strlen("refused "), NULL, 10) : 0;
}

/* What is wrong with an outcome, or NULL. */
static const char *fault_of(const outcome *o, const char *name)
{
    char words[64];
    snprintf(words, sizeof words, "pto run %s: ", name);
    if (WIFSIGNALED(o->status)) {
        return WTERMSIG(o->status) == SIGALRM ? "it does not end" : "a signal ends it";
    }
    const int status = WEXITSTATUS(o->status);
    if (!o->ended) {
        return "it leaves on the way";
    }
    if (status > 2) {
        return "a status that means nothing";
    }
    if (status && !o->hits) {
        return "it fails, with nothing refused";
    }
    if (status && !strstr(o->said, words) && !strstr(o->said, "pto: ")) {
        return "it fails without a word";
    }
    return NULL;
}

static outcome o; /* of the run at hand */

/* Says whether anything was refused. */
static bool try_one(const char *name, const char *mode, uint64_t n, uint64_t *without)
{
    run_one(name, mode, n, &o);
    const char *wrong = fault_of(&o, name);
    if (wrong) {
        fail_msg("%s, call %" PRIu64 " fails %s: %s (status %d; %s)\n%s", name, n, mode, wrong,
                 o.status, o.told, o.said);
    }
    *without += o.hits && WEXITSTATUS(o.status) == 0;
    return o.hits;
}

static void test_every_call(const char *name)
{
    static const char *const modes[] = {"once", "from"};
    for (int m = 0; m < 2; m++) {
        uint64_t n = 0, without = 0;
        while (try_one(name, modes[m], n, &without)) {
            n++;
        }
        print_message("%-10s %4" PRIu64 " calls fail %s, %" PRIu64 " runs do without\n", name, n,
                      modes[m], without);
        assert_true(n > 5);
    }
}

/* Places that calls come from, in all workloads so far. */
static ptrdiff_t sites[SITES];
static size_t n_sites;

static bool is_new(ptrdiff_t site)
{
    for (size_t i = 0; i < n_sites; i++) {
        if (sites[i] == site) {
            return false;
        }
    }
    assert_true(n_sites < SITES);
    sites[n_sites++] = site;
    return true;
}

static void test_workload(void **state)
{
    const char *name = *state;
    static ptrdiff_t call[CALLS];
    uint64_t n = 0, tried = 0, without = 0;
    if (test_percent() >= 1000) {
        test_every_call(name);
        return;
    }
    assert_false(try_one(name, "once", NOT_ONE, &without));
    assert_int_equal(o.status, 0);
    const char *at = o.told;
    for (char *end; n < CALLS && *at != 'r'; at = end + 1, n++) {
        call[n] = strtol(at, &end, 10);
        assert_true(end > at);
    }
    assert_true(n > 5 && n < CALLS);
    /* Where many share a place, a few of them in each workload. Not with less effort than usual. */
    const bool all = test_percent() >= 50;
    for (uint64_t i = n / 8; all && i < n; i += n / 7) {
        (void)try_one(name, "once", i, &without);
        tried++;
    }
    for (uint64_t i = 0; i < n; i++) {
        if (!is_new(call[i])) {
            continue;
        }
        uint64_t last = n - 1;
        while (call[last] != call[i]) {
            last--;
        }
        (void)try_one(name, "once", i, &without);
        tried++;
        if (all && last != i) {
            (void)try_one(name, "once", last, &without);
            tried++;
        }
    }
    print_message("%-10s %4" PRIu64 " calls, %2" PRIu64 " made to fail, %2" PRIu64
                  " runs do without\n",
                  name, n, tried, without);
}

int main(int argc, char **argv)
{
    if (argc > 4 && !strcmp(argv[1], "--child")) {
        return child(argc, argv);
    }
    struct CMUnitTest tests[64];
    size_t n = 0;
    for (const workload *const *w = workloads; *w && n < 64; w++) {
        tests[n++] = (struct CMUnitTest){(*w)->name, test_workload, NULL, NULL,
                                         (void *)(uintptr_t)(*w)->name};
    }
    return _cmocka_run_group_tests("tools.fault_run", tests, n, NULL, NULL);
}
