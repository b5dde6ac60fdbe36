/* launcher.h - the worker of a device with streams. It launches the kernels of all its tasks, and
 * completes them when the device is done with them.
 *
 *     ready ──order──> kernel launches on a stream ──W18──> launched ──marker passed──W2──> closed
 *               │                                     │
 *               │ streams wait for each other         └─ consumers on the device are ready now
 *
 * Invariant: when the kernel of a task is called, all tasks that it waits for are closed, or they are
 * launched on this device and call->stream is ordered behind them (streams.h, S3). A task is closed
 * after all that was put on its stream up to it is done. So it is closed after every task that it
 * waited for, whether its kernel ran, failed or was skipped: tasks behind it may rely on it for these,
 * too.
 *
 *     kernel returns      the task is put on the stream as    consumers on this device are ready
 *     PTO_OK              launched                            at once
 *     PTO_PENDING         pending: "returned" (W8) when the   when it is closed
 *                         marker has passed
 *     an error            failed: it may have launched        never: they are skipped, when it is
 *                         something                           closed
 *     (skipped)           skipped                             the same
 *
 * The kernels of a device are launched by one thread, so all fields here belong to that thread. Copies
 * and other work of PTO_ACCELERATOR workers run on another thread. They use no streams, and wait
 * until their producers are closed.
 *
 * With guards on devices (window/guard.h) a task whose kernel returned PTO_OK is not launched in the
 * sense of W18: all its consumers wait until it is closed, and before that its memory is checked. So a
 * task that wrote beyond its memory fails before anything is made of it. Tasks that do not depend on
 * each other still run at the same time.
 *
 * An error of the device itself shows up at some later call, when consumers may be launched already.
 * Then the device is lost: every task that is not closed fails, and the first of them in order of
 * submission is named as the first suspect.
 */
#ifndef PTOI_LAUNCHER_H
#define PTOI_LAUNCHER_H

#include "scheduler/scheduler.h"
#include "worker/streams.h"

/* How a task on a stream ends when its marker has passed. */
typedef enum ptoi_ending {
    PTOI_ENDS_DONE = PTOI_DONE,
    PTOI_ENDS_FAILED = PTOI_FAILED,
    PTOI_ENDS_SKIPPED = PTOI_SKIPPED,
    PTOI_ENDS_PENDING,
} ptoi_ending;

/* A task that was put on a stream and is not closed. One for each slot. */
typedef struct ptoi_launch {
    uint64_t place; /* on its stream */
    uint64_t when;  /* of a traced run: ticks when it was launched; then, when it was closed */
    uint32_t next;  /* slot of the next task on the same stream; PTOI_NONE */
    uint8_t stream;
    uint8_t ending; /* ptoi_ending */
    bool guarded;   /* the memory that it writes is checked when it is done */
} ptoi_launch;

typedef struct ptoi_launcher {
    ptoi_streams streams;
    struct {
        uint32_t first, last; /* slots of the tasks that are not closed, in order; PTOI_NONE */
        uint64_t closed;      /* of a traced run: ticks when a task of it was closed last */
    } queue[PTOI_STREAMS];
    uint64_t busy;     /* tasks that are not closed */
    uint32_t idle;     /* steps since there was a task */
    uint32_t launches; /* since a stream was polled */
    uint32_t polled;   /* the stream that was polled last */
    bool open;         /* it has all its streams */
    pto_status broken; /* not PTO_OK: the device is lost, or its streams could not be made */
    char why[512];     /* the message of that */
    ptoi_launch launches_of[];
} ptoi_launcher;

/* Whether there are tasks that the device may be done with soon. */
static inline bool ptoi_launcher_is_busy(const ptoi_launcher *l)
{
    return l->busy != 0;
}

size_t ptoi_launcher_bytes(const ptoi_view *view);

/* On the thread of the launcher, with the device current, before its first step and after its last. If
 * streams cannot be made, every task fails. */
void ptoi_launcher_open(ptoi_worker *worker);
void ptoi_launcher_close(ptoi_worker *worker);

/* Launches a task if there is one, and completes some that are done. Returns whether it did
 * anything. */
bool ptoi_launcher_step(ptoi_worker *worker);

#endif /* PTOI_LAUNCHER_H */
