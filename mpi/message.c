/* message.c - messages as tasks, and the thread that completes them.
 *
 *     send      reads the piece, writes msg->flag     MPI_Isend, pending
 *     behind    writes msg->flag                      runs after the send, or after the runtime has
 *                                                     skipped it: then it sends an empty message
 *     receive   writes the place of the piece         MPI_Irecv, pending; fails if the message is empty
 *
 * Kernels run on workers, and take the lock. The progress thread completes what has passed.
 */
#include <sched.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <time.h>

#include "world.h"

enum { TAG_BLOCKED = 1, TAG_BROKEN = 2 }; /* on the control communicator */

/* ---- Layouts ---------------------------------------------------------------------------------------- */

/* A type of MPI for an argument, and how many of them. *made: it must be freed. */
static int type_of(const pto_arg *a, MPI_Datatype *type, int *count, bool *made)
{
    int64_t dense = (int64_t)pto_dtype_size(a->dtype);
    int32_t d = a->ndim - 1;
    int answer = MPI_SUCCESS;
    for (; d >= 0; d--) { /* the inner dims that are adjacent */
        if (a->shape[d] != 1 && a->strides[d] * (int64_t)pto_dtype_size(a->dtype) != dense) {
            break;
        }
        dense *= a->shape[d];
    }
    *type = MPI_BYTE;
    *count = (int)dense;
    *made = false;
    for (; d >= 0 && answer == MPI_SUCCESS; d--) {
        MPI_Datatype outer;
        const MPI_Aint stride = (MPI_Aint)a->strides[d] * (MPI_Aint)pto_dtype_size(a->dtype);
        answer = *made ? MPI_Type_create_hvector((int)a->shape[d], 1, stride, *type, &outer)
                       : MPI_Type_create_hvector((int)a->shape[d], *count, stride, *type, &outer);
        if (*made) {
            MPI_Type_free(type);
        }
        if (answer == MPI_SUCCESS) {
            *type = outer;
            *count = 1;
            *made = true;
        }
    }
    if (*made && answer == MPI_SUCCESS) {
        answer = MPI_Type_commit(type);
    }
    return answer;
}

static pto_status explain(int code, const char *what)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(code, text, &length);
    return pto_fail(PTO_SYSTEM, "%s: %s", what, text);
}

/* ---- Under way -------------------------------------------------------------------------------------- */

static bool grow(void *list, size_t bytes)
{
    void **at = list, *more = realloc(*at, bytes);
    if (more) {
        *at = more;
    }
    return more;
}

/* Room for one more. All three lists have `room` items. */
static bool room_for_one(world *w)
{
    if (w->n_active < w->room) {
        return true;
    }
    const size_t room = w->room ? (size_t)w->room * 2 : 256;
    if (!grow(&w->requests, room * sizeof(MPI_Request)) ||
        !grow(&w->active, room * sizeof(void *)) || !grow(&w->done, room * sizeof *w->done)) {
        return false;
    }
    w->room = (int)room;
    return true;
}

static void spare(world *w, message *m)
{
    m->next = w->spare;
    w->spare = m;
}

/* Posts a message; under the lock. PTO_OK if it has passed already. */
static pto_status post(world *w, message *m, const pto_arg *a)
{
    MPI_Datatype type = MPI_BYTE;
    MPI_Request request;
    bool made = false;
    int count = 0, over = 0;
    void *data = a ? a->data : NULL;
    if (atomic_load(&w->broken)) {
        return pto_fail(w->broken_status, "%s", w->broken_text);
    }
    if (!room_for_one(w)) {
        return pto_fail(PTO_OUT_OF_MEMORY, "mpi: list of messages");
    }
    int code = a ? type_of(a, &type, &count, &made) : MPI_SUCCESS;
    if (code == MPI_SUCCESS) {
        code = m->sends ? MPI_Isend(data, count, type, m->peer, m->tag, w->data, &request)
                        : MPI_Irecv(data, count, type, m->peer, m->tag, w->data, &request);
    }
    if (made) {
        MPI_Type_free(&type);
    }
    if (code == MPI_SUCCESS && m->sends) {
        code = MPI_Test(&request, &over, MPI_STATUS_IGNORE);
    }
    if (code != MPI_SUCCESS) {
        return explain(code, m->sends ? "MPI_Isend" : "MPI_Irecv");
    }
    if (over) {
        return PTO_OK;
    }
    w->requests[w->n_active] = request;
    w->active[w->n_active++] = m;
    if (w->asleep) {
        pthread_cond_signal(&w->wake);
    }
    return PTO_PENDING;
}

static message *message_of(const pto_call *call, uint32_t arg)
{
    return (message *)(uintptr_t)call->args[arg].u64;
}

static pto_status send_kernel(const pto_call *call)
{
    message *m = message_of(call, 2);
    m->ran = true;
    m->task = call->task;
    pthread_mutex_lock(&m->w->lock);
    const pto_status status = post(m->w, m, &call->args[0]);
    pthread_mutex_unlock(&m->w->lock);
    return status;
}

/* Sends an empty message if the send was skipped. It is not waited for: MPI has nothing to copy. */
static pto_status behind_kernel(const pto_call *call)
{
    message *m = message_of(call, 1);
    world *w = m->w;
    pto_status status = PTO_OK;
    pthread_mutex_lock(&w->lock);
    if (!m->ran && !atomic_load(&w->broken)) {
        m->ran = true;
        m->task = call->task;
        status = post(w, m, NULL);
    }
    m->empty = status == PTO_PENDING;
    if (!m->empty) {
        spare(w, m);
    }
    pthread_mutex_unlock(&w->lock);
    return status;
}

static pto_status receive_kernel(const pto_call *call)
{
    message *m = message_of(call, 1);
    m->task = call->task;
    pthread_mutex_lock(&m->w->lock);
    const pto_status status = post(m->w, m, &call->args[0]);
    pthread_mutex_unlock(&m->w->lock);
    return status;
}

static pto_status scrub_kernel(const pto_call *call)
{
    (void)call; /* what matters is that it succeeds */
    return PTO_OK;
}

/* ---- The progress thread ---------------------------------------------------------------------------- */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Ends all tasks that wait for messages: the world is broken. Their requests are left alone, since
 * MPI is not called any more. */
static void fail_all(world *w)
{
    for (;;) {
        pthread_mutex_lock(&w->lock);
        message *m = w->n_active ? w->active[--w->n_active] : NULL;
        pthread_mutex_unlock(&w->lock);
        if (!m) {
            return;
        }
        PTO_IGNORE(
            pto_task_complete(w->rt, m->task, pto_fail(w->broken_status, "%s", w->broken_text)));
    }
}

typedef struct passed {
    message *m;
    pto_task task;
    bool last; /* nobody needs the message after this */
    bool good;
    int peer;
} passed;

/* Tests what is under way, under the lock. Returns how many have passed, up to `most`. */
static int test_some(world *w, passed *list, int most)
{
    MPI_Status statuses[64];
    int n = 0;
    if (!w->n_active) {
        return 0;
    }
    /* Testsome wants room for all of its requests, so a part of them is tested at a time. */
    const int begin = w->n_active > most
                          ? (int)(w->round++ * (unsigned)most % (unsigned)w->n_active)
                          : 0;
    const int count = w->n_active - begin < most ? w->n_active - begin : most;
    const int code = MPI_Testsome(count, w->requests + begin, &n, w->done, statuses);
    if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS) {
        PTO_IGNORE(explain(code, "MPI_Testsome"));
        world_broken_by(w, PTO_SYSTEM, pto_error_detail());
        return 0;
    }
    n = n == MPI_UNDEFINED ? 0 : n;
    for (int i = 0; i < n; i++) {
        message *m = w->active[begin + w->done[i]];
        int bytes = 0;
        if (!m->sends) {
            MPI_Get_count(&statuses[i], MPI_BYTE, &bytes);
        }
        list[i] = (passed){m, m->task, !m->sends || m->empty, m->sends || bytes != 0, m->peer};
        w->active[begin + w->done[i]] = NULL;
    }
    for (int i = begin; i < w->n_active && n;) {
        if (w->active[i]) {
            i++;
        } else {
            w->n_active--;
            w->active[i] = w->active[w->n_active];
            w->requests[i] = w->requests[w->n_active];
        }
    }
    return n;
}

static void complete(world *w, const passed *p)
{
    pto_status status = PTO_OK;
    if (!p->good) {
        status = pto_fail(PTO_POISONED, "rank %d could not send: its task failed or was skipped",
                          p->peer);
    }
    if (p->last) {
        pthread_mutex_lock(&w->lock);
        spare(w, p->m);
        pthread_mutex_unlock(&w->lock);
    }
    PTO_IGNORE(pto_task_complete(w->rt, p->task, status));
}

/* Tells another rank something. Under the lock. A rank that does not listen is not waited for: reports are
 * small, and MPI sends them at once. */
static void tell(world *w, int to, int tag, const report *r)
{
    MPI_Request request;
    kept *copy = malloc(sizeof *copy);
    if (!copy) {
        return;
    }
    copy->report = *r;
    copy->next = w->kept; /* MPI may read it later; few are ever made */
    w->kept = copy;
    if (MPI_Isend(&copy->report, (int)sizeof copy->report, MPI_BYTE, to, tag, w->control,
                  &request) == MPI_SUCCESS) {
        MPI_Request_free(&request);
    }
}

static void tell_all(world *w, int tag, const report *r)
{
    for (int i = 0; i < w->ranks; i++) {
        if (i != w->rank) {
            tell(w, i, tag, r);
        }
    }
}

void world_broken_by(world *w, pto_status status, const char *text)
{
    if (!atomic_load(&w->broken)) {
        snprintf(w->broken_text, sizeof w->broken_text, "%s", text);
        w->broken_status = status;
        atomic_store(&w->broken, true);
        pthread_cond_signal(&w->wake);
    }
}

static void break_and_tell(world *w, pto_status status, const char *text)
{
    report r = {.rank = w->rank, .status = (int32_t)status};
    if (atomic_load(&w->broken)) {
        return;
    }
    snprintf(r.text, sizeof r.text, "%s", text);
    tell_all(w, TAG_BROKEN, &r);
    world_broken_by(w, status, text);
}

pto_status world_break(world *w, pto_status status, const char *format, ...)
{
    char text[MPI_TEXT];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    pthread_mutex_lock(&w->lock);
    if (!atomic_load(&w->broken)) {
        char words[MPI_TEXT + 64];
        snprintf(words, sizeof words, "rank %d cannot go on: %s", w->rank, text);
        words[MPI_TEXT - 1] = 0;
        report r = {.rank = w->rank, .status = PTO_WORKER_LOST};
        memcpy(r.text, words, sizeof r.text);
        tell_all(w, TAG_BROKEN, &r);
        world_broken_by(w, status, text);
    }
    pthread_mutex_unlock(&w->lock);
    return pto_fail(status, "%s", text);
}

/* Compares what another rank did with what we did. If that differs, both narrow down together where it
 * began: each answer is 24 steps between the last one that was equal and the first one that was not. */
static void compare(world *w, const report *r)
{
    char text[MPI_TEXT];
    uint64_t low, high;
    if (!history_differs(w, r, &low, &high, text, sizeof text)) {
        return;
    }
    if (high == low + 1) {
        break_and_tell(w, PTO_MISMATCH, text);
        return;
    }
    report answer = {0};
    history_report(w, low, high, &answer);
    tell(w, r->rank, TAG_BLOCKED, &answer);
}

/* Reads what other ranks say about themselves. Under the lock. */
static void listen(world *w)
{
    report *r = NULL;
    for (int there = 1; there && !atomic_load(&w->broken);) {
        MPI_Status status;
        if (MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, w->control, &there, &status) != MPI_SUCCESS ||
            !there || (!r && !(r = malloc(sizeof *r)))) {
            break;
        }
        if (MPI_Recv(r, (int)sizeof *r, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, w->control,
                     MPI_STATUS_IGNORE) != MPI_SUCCESS) {
            break;
        }
        r->text[MPI_TEXT - 1] = 0;
        if (status.MPI_TAG == TAG_BROKEN) {
            world_broken_by(w, (pto_status)r->status, r->text);
        } else {
            compare(w, r);
        }
    }
    free(r);
}

typedef struct pacing {
    uint32_t idle;   /* rounds without a message */
    double listened; /* when others were last heard */
    double still;    /* since when nothing has passed while the rank waits */
    uint64_t passed;
} pacing;

/* Now and then: hear what others say, and say that we are blocked if nothing happens. */
static void look_around(world *w, pacing *p)
{
    const double t = now();
    if (t - p->listened < 0.01) {
        return;
    }
    p->listened = t;
    pthread_mutex_lock(&w->lock);
    listen(w);
    const uint64_t n = atomic_load(&w->passed);
    if (!atomic_load(&w->waiting) || n != p->passed) {
        p->passed = n;
        p->still = t;
    } else if (t - p->still > 0.33 && !atomic_load(&w->broken)) {
        report r = {0};
        p->still = t; /* and again, if it lasts */
        const uint64_t step = atomic_load_explicit(&w->history.step, memory_order_acquire);
        history_report(w, step > MPI_TOLD ? step - MPI_TOLD : 0, step, &r);
        tell_all(w, TAG_BLOCKED, &r);
    }
    pthread_mutex_unlock(&w->lock);
}

static void pause_for_a_while(const world *w, pacing *p)
{
    p->idle++;
    if (p->idle < w->spin) {
        sched_yield();
    } else {
        const long nap = p->idle - w->spin < 64 ? 20000 : p->idle - w->spin < 512 ? 100000 : 500000;
        nanosleep(&(struct timespec){0, nap}, NULL);
    }
}

static void *progress_main(void *of)
{
    enum { MOST = 64 };
    world *w = of;
    pacing p = {.still = now()};
    passed list[MOST];
    prctl(PR_SET_TIMERSLACK, 1000); /* ns: a nap takes as long as it says */
    for (;;) {
        pthread_mutex_lock(&w->lock);
        if (w->stop) {
            break;
        }
        if (!w->n_active && !atomic_load(&w->broken)) {
            /* Asleep, but for a look at the others every now and then. */
            struct timespec until;
            clock_gettime(CLOCK_REALTIME, &until);
            until.tv_nsec += 20000000;
            until.tv_sec += until.tv_nsec / 1000000000;
            until.tv_nsec %= 1000000000;
            w->asleep = true;
            pthread_cond_timedwait(&w->wake, &w->lock, &until);
            w->asleep = false;
            p.idle = 0;
        }
        const bool broken = atomic_load(&w->broken);
        const int n = broken ? 0 : test_some(w, list, MOST);
        pthread_mutex_unlock(&w->lock);
        for (int i = 0; i < n; i++) {
            complete(w, &list[i]);
        }
        atomic_fetch_add(&w->passed, (uint64_t)n);
        if (broken) {
            fail_all(w);
            nanosleep(&(struct timespec){0, 1000000}, NULL);
        } else if (n) {
            p.idle = 0;
        } else {
            pause_for_a_while(w, &p);
        }
        if (!broken) {
            look_around(w, &p);
        }
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* ---- Submitting ---------------------------------------------------------------------------------------- */

static message *new_message(world *w, int other, bool sends)
{
    pthread_mutex_lock(&w->lock);
    message *m = w->spare;
    if (m) {
        w->spare = m->next;
    }
    pthread_mutex_unlock(&w->lock);
    if (!m) {
        m = calloc(1, sizeof *m);
    }
    if (m) {
        m->w = w;
        m->peer = other;
        m->sends = sends;
        m->ran = m->empty = false;
    }
    return m;
}

/* The tag of the next message, when the one that had it before has passed. */
static pto_status take_tag(world *w, uint64_t *number, pto_task **tasks, int *tag, pto_task **slot)
{
    enum { RING = 1024 }; /* as many messages of a pair may be under way */
    if (!*tasks) {
        *tasks = calloc(RING, sizeof **tasks);
        if (!*tasks) {
            return pto_fail(PTO_OUT_OF_MEMORY, "mpi: list of messages");
        }
    }
    *slot = &(*tasks)[*number % RING];
    if (**slot) {
        /* Its failure is none of ours. A task that is gone is complete. */
        const pto_status status = pto_wait_task_at(w->rt, **slot, NULL, 0);
        if (status == PTO_CANCELLED) {
            return status;
        }
    }
    *tag = (int)(*number % (uint64_t)w->tags);
    ++*number;
    return PTO_OK;
}

static pto_tensor flag_tensor(message *m)
{
    return (pto_tensor){.storage = m->flag,
                        .storage_bytes = sizeof m->flag,
                        .ndim = 1,
                        .dtype = PTO_UINT8,
                        .shape = {sizeof m->flag},
                        .strides = {1}};
}

pto_status message_send(world *w, int to, const pto_tensor *t, const char *file, int line)
{
    pto_task *slot = NULL;
    int tag = 0;
    PTO_TRY(take_tag(w, &w->peers[to].n_out, &w->peers[to].out_tasks, &tag, &slot));
    message *m = new_message(w, to, true);
    if (!m) {
        return pto_fail(PTO_OUT_OF_MEMORY, "mpi: message");
    }
    m->tag = tag;
    const pto_tensor flag = flag_tensor(m);
    const pto_param first[] = {pto_input(t), pto_output(&flag), pto_scalar_u64((uintptr_t)m)};
    const pto_param then[] = {pto_output(&flag), pto_scalar_u64((uintptr_t)m)};
    uint64_t bytes = 0;
    PTO_IGNORE(pto_tensor_nbytes(t, &bytes));
    w->stats.sent++;
    w->stats.bytes_sent += bytes;
    PTO_TRY(pto_submit_task_at(w->rt, w->send, PTO_KERNEL_TYPE, first, 3, NULL, file, line));
    return pto_submit_task_at(w->rt, w->behind, PTO_KERNEL_TYPE, then, 2, slot, file, line);
}

pto_status message_receive(world *w, int from, const pto_tensor *t, const char *file, int line)
{
    pto_task *slot = NULL;
    int tag = 0;
    PTO_TRY(take_tag(w, &w->peers[from].n_in, &w->peers[from].in_tasks, &tag, &slot));
    message *m = new_message(w, from, false);
    if (!m) {
        return pto_fail(PTO_OUT_OF_MEMORY, "mpi: message");
    }
    m->tag = tag;
    w->stats.received++;
    const pto_param params[] = {pto_output(t), pto_scalar_u64((uintptr_t)m)};
    return pto_submit_task_at(w->rt, w->receive, PTO_KERNEL_TYPE, params, 2, slot, file, line);
}

pto_status message_scrub(world *w, char *memory, uint64_t bytes, const char *file, int line)
{
    const pto_tensor t = {.storage = memory,
                          .storage_bytes = bytes,
                          .ndim = 1,
                          .dtype = PTO_UINT8,
                          .shape = {(int64_t)bytes},
                          .strides = {1}};
    const pto_param params[] = {pto_output(&t)};
    return pto_submit_task_at(w->rt, w->scrub, PTO_KERNEL_TYPE, params, 1, NULL, file, line);
}

/* ---- Life ---------------------------------------------------------------------------------------------- */

pto_status message_start(world *w)
{
    static const struct {
        const char *name;
        pto_kernel_fn fn;
    } kernels[] = {{"mpi_send", send_kernel},
                   {"mpi_behind", behind_kernel},
                   {"mpi_receive", receive_kernel},
                   {"mpi_scrub", scrub_kernel}};
    pto_kernel *handles[] = {&w->send, &w->behind, &w->receive, &w->scrub};
    for (int i = 0; i < 4; i++) {
        PTO_TRY(pto_kernel_register(w->rt, kernels[i].name, PTO_ACCELERATOR, kernels[i].fn, w,
                                    handles[i]));
    }
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->wake, NULL);
    const int error = pthread_create(&w->progress, NULL, progress_main, w);
    return error ? pto_fail(PTO_SYSTEM, "mpi: progress thread: %s", strerror(error)) : PTO_OK;
}

void message_stop(world *w)
{
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->progress, NULL);
    for (message *m = w->spare, *next; m; m = next) {
        next = m->next;
        free(m);
    }
    free(w->requests);
    free(w->active);
    free(w->done);
}
