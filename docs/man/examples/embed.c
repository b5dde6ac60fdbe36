/* embed.c - examples for the manual pages of pto/embed.h. */
#include "example.h"

#include <signal.h>
#include <sys/mman.h>

#include <pto/embed.h>

static volatile sig_atomic_t asked;

/* example: pto_set_interrupt */
static bool is_asked(void *user) /* a signal handler has set `asked` */
{
    (void)user;
    return asked != 0;
}

static pto_status wait_for_results(pto_runtime *rt)
{
    PTO_TRY(pto_set_interrupt(rt, is_asked, NULL));
    pto_status s = pto_wait(rt);
    if (s == PTO_INTERRUPTED) {
        pto_cancel(rt); /* or call pto_wait again */
    }
    return s;
}
/* end */

/* example: pto_set_poll */
typedef struct inbox { /* of another library: it knows when a pending task is complete */
    pto_runtime *rt;
    pto_task task;
    int (*arrived)(void);
} inbox;

static bool look(void *user)
{
    inbox *in = user;
    if (in->arrived()) {
        PTO_IGNORE(pto_task_complete(in->rt, in->task, PTO_OK));
    }
    return true; /* look again at once */
}

static pto_status poll_inbox(pto_runtime *rt, inbox *in)
{
    return pto_set_poll(rt, look, in);
}
/* end */

static int nothing_arrived(void)
{
    return 0;
}

/* example: pto_set_wait_hooks */
static void unlock(void *lock)
{
    *(int *)lock = 0; /* others may run now */
}

static void lock_again(void *lock)
{
    *(int *)lock = 1;
}

static pto_status share(pto_runtime *rt, int *lock)
{
    return pto_set_wait_hooks(rt, unlock, lock_again, lock);
}
/* end */

/* example: pto_set_trace_writer */
static pto_status send_trace(void *user, const char *path, const void *bytes, size_t n)
{
    (void)bytes; /* copy them: they are gone after this */
    printf("rank %d has %zu bytes for %s\n", *(int *)user, n, path);
    return PTO_OK;
}

static pto_status collect(pto_runtime *rt, int *rank)
{
    return pto_set_trace_writer(rt, send_trace, rank);
}
/* end */

/* example: pto_trace_note */
static void note_message(pto_runtime *rt, pto_task task, uint32_t to, uint64_t number)
{
    const pto_note note = {.kind = PTO_NOTE_SEND, .peer = to, .number = number, .task = task};
    pto_trace_note(rt, &note);
}
/* end */

/* example: pto_trace_clock */
static void note_answer(pto_runtime *rt, uint32_t to, uint64_t question)
{
    const pto_note note = {
        .kind = PTO_NOTE_ANSWERED, .peer = to, .number = question, .ticks = pto_trace_clock(rt)};
    pto_trace_note(rt, &note);
}
/* end */

static pto_status run(pto_runtime *rt)
{
    static int lock = 1, rank = 0;
    PTO_TRY(collect(rt, &rank));
    note_message(rt, 0, 1, 0);
    note_answer(rt, 1, 0);
    inbox in = {rt, 0, nothing_arrived};
    PTO_TRY(share(rt, &lock));
    PTO_TRY(poll_inbox(rt, &in));
    PTO_TRY(pto_submit(rt, scale, pto_inout(&ta), pto_scalar(2)));
    PTO_TRY(wait_for_results(rt));
    /* example: pto_watermark */
    uint64_t until; /* the task is one of the first `until` */
    PTO_TRY(pto_submit(rt, scale, pto_inout(&ta), pto_scalar(2)));
    if (pto_watermark(rt, &until) < until) {
        printf("its memory is still in use\n");
    }
    /* end */
    /* example: pto_may_call */
    if (!pto_may_call(rt)) { /* in a kernel, say: leave the books of this library as they are */
        return PTO_WRONG_THREAD;
    }
    /* end */
    /* example: pto_wait_unused */
    PTO_TRY(pto_wait_unused(rt, &ta)); /* nobody reads or writes it */
    a[0] = 1;
    /* end */
    CHECK(pto_watermark(rt, NULL) == until);
    /* example: pto_refuse_destroy */
    PTO_TRY(pto_refuse_destroy(rt, "is open in a studio: call studio_close"));
    /* ... and in studio_close: */
    PTO_TRY(pto_refuse_destroy(rt, NULL));
    /* end */
    /* example: pto_kernel_name */
    printf("runs %s\n", pto_kernel_name(rt, scale));
    /* end */
    /* example: pto_check_kernel */
    const pto_param params[] = {pto_inout(&ta), pto_scalar(2)};
    PTO_TRY(pto_check_kernel(rt, scale, PTO_KERNEL_TYPE, params,
                             2)); /* a process that does not submit it */
    /* end */
    /* example: pto_check_alive */
    PTO_TRY(pto_check_alive(rt, "show", &ta));
    /* end */
    /* example: pto_refuse_memory */
    static char volumes[4096]; /* an address for each volume */
    PTO_TRY(pto_refuse_memory(rt, volumes, sizeof volumes, "is a volume: call volume_read"));
    /* end */
    pto_tensor none;
    CHECK(pto_external_tensor(rt, volumes, PTO_FLOAT32, 1, (int64_t[]){4}, &none) ==
          PTO_BAD_MEMORY);
    CHECK(pto_refused(rt, NULL)); /* acknowledged */
    /* example: pto_detach_heaps */
    void *memory;
    size_t bytes;
    PTO_TRY(pto_detach_heaps(rt, &memory, &bytes));
    PTO_TRY(pto_runtime_destroy(&rt, PTO_WAIT)); /* managed memory stays mapped */
    munmap(memory, bytes);
    /* end */
    exit(0); /* the runtime is gone */
}
