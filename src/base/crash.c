/* crash.c - the handler of deadly signals. See crash.h.
 *
 * The handler and all that it calls are safe in a signal handler: no lock, no allocation, no stdio.
 */
#define _GNU_SOURCE /* sigaltstack, SA_ONSTACK, syscall */
#include "base/crash.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const struct {
    int number;
    const char *name;
    bool has_address; /* of memory */
} deadly[] = {
    {SIGSEGV, "SIGSEGV", true}, {SIGBUS, "SIGBUS", true},    {SIGFPE, "SIGFPE", false},
    {SIGILL, "SIGILL", false},  {SIGABRT, "SIGABRT", false},
};
enum { DEADLY = sizeof deadly / sizeof *deadly };

/* Of the process. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects all that is not atomic */
static ptoi_a64 first;         /* address of the first witness. Released under the lock */
static bool installed[DEADLY]; /* our handler replaced the default one */
static ptoi_a32 dying;         /* a thread is in the handler */

/* ---- Text ---- */

void ptoi_crash_add(ptoi_crash_text *text, const char *words)
{
    for (; *words && text->length < sizeof text->s - 1; words++) {
        text->s[text->length++] = *words;
    }
}

void ptoi_crash_add_number(ptoi_crash_text *text, uint64_t number, unsigned base)
{
    char digits[24] = "";
    char *at = digits + sizeof digits - 1;
    do {
        *--at = "0123456789abcdef"[number % base];
        number /= base;
    } while (number);
    ptoi_crash_add(text, at);
}

/* ---- The handler ---- */

/* A fault of an instruction of this thread. It happens again when the handler returns. */
static bool is_fault(int number, const siginfo_t *info)
{
    return info->si_code > 0 && number != SIGABRT &&
           !(number == SIGBUS && info->si_code == BUS_MCEERR_AO);
}

static void add_signal(ptoi_crash_text *text, int number, const siginfo_t *info)
{
    for (size_t i = 0; i < DEADLY; i++) {
        if (deadly[i].number == number) {
            ptoi_crash_add(text, deadly[i].name);
            if (deadly[i].has_address && is_fault(number, info) && info->si_code != SI_KERNEL) {
                ptoi_crash_add(text, " at address 0x");
                ptoi_crash_add_number(text, (uintptr_t)info->si_addr, 16);
            }
        }
    }
}

static void report(int number, const siginfo_t *info)
{
    ptoi_crash_text who = {.length = 0};
    for (const ptoi_witness *w = (const ptoi_witness *)(uintptr_t)ptoi_acquire64(&first); w;
         w = (const ptoi_witness *)(uintptr_t)ptoi_acquire64(&w->next)) {
        w->tell(w, &who);
    }
    if (!who.length) {
        return;
    }
    ptoi_crash_text line = {.length = 0};
    ptoi_crash_add(&line, "pto: ");
    add_signal(&line, number, info);
    ptoi_crash_add(&line, " in ");
    ptoi_crash_add(&line, who.s);
    line.length -= line.length == sizeof line.s - 1;
    ptoi_crash_add(&line, "\n");
    const ssize_t ignored = write(STDERR_FILENO, line.s, line.length); /* nothing left to do */
    (void)ignored;
}

static void on_signal(int number, siginfo_t *info, void *context)
{
    const int errno_before = errno;
    (void)context;
    if (!ptoi_exchange32(&dying, 1)) {
        report(number, info);
    } else { /* another thread reports, and the process ends: let it */
        const struct timespec second = {.tv_sec = 1};
        nanosleep(&second, NULL);
    }
    const struct sigaction otherwise = {.sa_handler = SIG_DFL};
    sigaction(number, &otherwise, NULL);
    if (!is_fault(number, info)) {
        /* Delivered when the handler returns, since it is blocked until then. */
        syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), number);
    }
    errno = errno_before;
}

/* ---- Witnesses ---- */

/* Under the lock. Also for a signal whose disposition has become the default since. */
static void install(void)
{
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigfillset(&action.sa_mask);
    for (size_t i = 0; i < DEADLY; i++) {
        struct sigaction before;
        if (sigaction(deadly[i].number, NULL, &before) == 0 && !(before.sa_flags & SA_SIGINFO) &&
            before.sa_handler == SIG_DFL) {
            installed[i] = sigaction(deadly[i].number, &action, NULL) == 0;
        }
    }
}

/* Under the lock. A handler that the program has installed since is left alone. */
static void uninstall(void)
{
    const struct sigaction otherwise = {.sa_handler = SIG_DFL};
    for (size_t i = 0; i < DEADLY; i++) {
        struct sigaction now;
        if (installed[i] && sigaction(deadly[i].number, NULL, &now) == 0 &&
            now.sa_flags & SA_SIGINFO && now.sa_sigaction == on_signal) {
            sigaction(deadly[i].number, &otherwise, NULL);
        }
        installed[i] = false;
    }
}

void ptoi_crash_watch(ptoi_witness *witness)
{
    pthread_mutex_lock(&lock);
    ptoi_set64(&witness->next, ptoi_get64(&first));
    ptoi_release64(&first, (uintptr_t)witness);
    install();
    pthread_mutex_unlock(&lock);
}

void ptoi_crash_forget(ptoi_witness *witness)
{
    pthread_mutex_lock(&lock);
    ptoi_a64 *link = &first;
    while (ptoi_get64(link) && ptoi_get64(link) != (uintptr_t)witness) {
        link = &((ptoi_witness *)(uintptr_t)ptoi_get64(link))->next;
    }
    if (ptoi_get64(link)) {
        ptoi_release64(link, ptoi_get64(&witness->next));
    }
    if (!ptoi_get64(&first)) {
        uninstall();
    }
    pthread_mutex_unlock(&lock);
}

/* ---- Stacks ---- */

void ptoi_crash_stack(void *memory)
{
    stack_t now;
    const stack_t ours = {.ss_sp = memory, .ss_size = PTOI_CRASH_STACK};
    if (sigaltstack(NULL, &now) == 0 && now.ss_flags & SS_DISABLE) {
        sigaltstack(&ours, NULL);
    }
}

void ptoi_crash_no_stack(void *memory)
{
    stack_t now;
    const stack_t none = {.ss_flags = SS_DISABLE};
    if (sigaltstack(NULL, &now) == 0 && now.ss_sp == memory) {
        sigaltstack(&none, NULL);
    }
}
