/* message.c - messages as tasks: posted by kernels, completed by progress.c.
 *
 *     send      reads the pieces, writes msg->flag    MPI_Isend, pending
 *     behind    writes msg->flag                      runs after the send, or after the runtime has
 *                                                     skipped it: then it sends an empty message
 *     receive   writes the places of the pieces       MPI_Irecv, pending; fails if the message is empty
 *
 * Kernels run on workers, and take the lock. The progress thread completes what has passed.
 */
#include "world.h"

/* ---- Layouts ---------------------------------------------------------------------------------------- */

/* n blocks that begin a stride apart. Open MPI sends a vector with a stride of -1 byte as if that were 1. It is right
 * if each element has an extent of -1 instead. */
static int repeat(int n, int block, MPI_Aint stride, MPI_Datatype of, MPI_Datatype *type)
{
    MPI_Datatype element = MPI_DATATYPE_NULL, backwards = MPI_DATATYPE_NULL;
    int answer;
    if (stride != -1) {
        return MPI_Type_create_hvector(n, block, stride, of, type);
    }
    answer = MPI_Type_contiguous(block, of, &element);
    if (answer == MPI_SUCCESS) {
        answer = MPI_Type_create_resized(element, 0, stride, &backwards);
    }
    if (answer == MPI_SUCCESS) {
        answer = MPI_Type_contiguous(n, backwards, type);
    }
    if (element != MPI_DATATYPE_NULL) {
        MPI_Type_free(&element);
    }
    if (backwards != MPI_DATATYPE_NULL) {
        MPI_Type_free(&backwards);
    }
    return answer;
}

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
        answer = repeat((int)a->shape[d], *made ? 1 : *count, stride, *type, &outer);
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

/* A type for several arguments, at their own addresses. */
static int type_of_all(const pto_arg *list, uint32_t n, MPI_Datatype *type)
{
    MPI_Datatype types[MPI_MOST_PIECES] = {0};
    MPI_Aint at[MPI_MOST_PIECES] = {0};
    int counts[MPI_MOST_PIECES] = {0}, answer = MPI_SUCCESS;
    bool made[MPI_MOST_PIECES];
    uint32_t k = 0;
    for (; k < n && answer == MPI_SUCCESS; k++) {
        answer = type_of(&list[k], &types[k], &counts[k], &made[k]);
        MPI_Get_address(list[k].data, &at[k]);
    }
    if (answer == MPI_SUCCESS) {
        answer = MPI_Type_create_struct((int)n, counts, at, types, type);
    }
    if (answer == MPI_SUCCESS) {
        answer = MPI_Type_commit(type);
    }
    while (k-- > 0) {
        if (made[k]) {
            MPI_Type_free(&types[k]);
        }
    }
    return answer;
}

pto_status message_explain(int code, const char *what)
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

void message_spare(world *w, message *m)
{
    m->next = w->spare;
    w->spare = m;
}

/* Posts a message of n pieces; under the lock. PTO_OK if it has passed already. */
static pto_status post(world *w, message *m, const pto_arg *list, uint32_t n)
{
    MPI_Datatype type = MPI_BYTE;
    MPI_Request request;
    bool made = false;
    int count = 0, over = 0;
    void *data = n == 1 ? list->data : MPI_BOTTOM;
    if (atomic_load(&w->broken)) {
        return pto_fail(w->broken_status, "%s", w->broken_text);
    }
    if (!room_for_one(w)) {
        return pto_fail(PTO_OUT_OF_MEMORY, "mpi: list of messages");
    }
    int code = MPI_SUCCESS;
    if (n == 1) {
        code = type_of(list, &type, &count, &made);
    } else if (n > 1) {
        code = type_of_all(list, n, &type);
        count = 1;
        made = code == MPI_SUCCESS;
    }
    if (code == MPI_SUCCESS) {
        code = !m->sends  ? MPI_Irecv(data, count, type, m->peer, m->tag, w->data, &request)
               : m->meets ? MPI_Issend(data, count, type, m->peer, m->tag, w->data, &request)
                          : MPI_Isend(data, count, type, m->peer, m->tag, w->data, &request);
    }
    if (made) {
        MPI_Type_free(&type);
    }
    if (code == MPI_SUCCESS && m->sends) {
        code = MPI_Test(&request, &over, MPI_STATUS_IGNORE);
    }
    if (code != MPI_SUCCESS) {
        return message_explain(code, m->sends ? "MPI_Isend" : "MPI_Irecv");
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

/* Arguments: the message; the flag of a send; the pieces. */
static message *message_of(const pto_call *call)
{
    return (message *)(uintptr_t)call->args[0].u64;
}

static pto_status send_kernel(const pto_call *call)
{
    message *m = message_of(call);
    m->ran = true;
    m->task = call->task;
    pthread_mutex_lock(&mpi_lock);
    const pto_status status = post(m->w, m, &call->args[2], call->n_args - 2);
    pthread_mutex_unlock(&mpi_lock);
    return status;
}

/* Sends an empty message if the send was skipped. It is not waited for: MPI has nothing to copy. */
static pto_status behind_kernel(const pto_call *call)
{
    message *m = message_of(call);
    world *w = m->w;
    pto_status status = PTO_OK;
    pthread_mutex_lock(&mpi_lock);
    if (!m->ran && !atomic_load(&w->broken)) {
        m->ran = true;
        m->task = call->task;
        status = post(w, m, NULL, 0);
    }
    m->empty = status == PTO_PENDING;
    if (!m->empty) {
        message_spare(w, m);
    }
    pthread_mutex_unlock(&mpi_lock);
    return status;
}

static pto_status receive_kernel(const pto_call *call)
{
    message *m = message_of(call);
    m->task = call->task;
    pthread_mutex_lock(&mpi_lock);
    const pto_status status = post(m->w, m, &call->args[1], call->n_args - 1);
    pthread_mutex_unlock(&mpi_lock);
    return status;
}

static pto_status scrub_kernel(const pto_call *call)
{
    (void)call; /* what matters is that it succeeds */
    return PTO_OK;
}

/* ---- Submitting ---------------------------------------------------------------------------------------- */

static message *new_message(world *w, int other, bool sends)
{
    pthread_mutex_lock(&mpi_lock);
    message *m = w->spare;
    if (m) {
        w->spare = m->next;
    }
    pthread_mutex_unlock(&mpi_lock);
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

/* As many messages of a pair may be under way. MPI keeps small ones for a reader that is behind, and calls them sent: so
 * one of MEET waits for its receive, and there are at most RING + MEET that nobody has asked for. */
enum { RING = 1024, MEET = 16 };

/* The tag of the next message, when the one that had it before has passed. */
static pto_status take_tag(world *w, uint64_t *number, pto_task **tasks, int *tag, pto_task **slot)
{
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

static uint64_t bytes_of(const pto_tensor *list, uint32_t n)
{
    uint64_t sum = 0;
    for (uint32_t k = 0; k < n; k++) {
        uint64_t bytes = 0;
        PTO_IGNORE(pto_tensor_nbytes(&list[k], &bytes));
        sum += bytes;
    }
    return sum;
}

pto_status message_send_all(world *w, int to, const pto_tensor *list, uint32_t n, const char *file,
                            int line)
{
    pto_task *slot = NULL;
    int tag = 0;
    w->stats.sent++;
    w->stats.bytes_sent += bytes_of(list, n);
    if (w->counting) {
        return PTO_OK;
    }
    PTO_TRY(take_tag(w, &w->peers[to].n_out, &w->peers[to].out_tasks, &tag, &slot));
    message *m = new_message(w, to, true);
    if (!m) {
        return pto_fail(PTO_OUT_OF_MEMORY, "mpi: message");
    }
    m->tag = tag;
    m->meets = w->peers[to].n_out % MEET == 0;
    const pto_tensor flag = flag_tensor(m);
    pto_param first[MPI_MOST_PIECES + 2] = {pto_scalar_u64((uintptr_t)m), pto_output(&flag)};
    const pto_param then[] = {pto_scalar_u64((uintptr_t)m), pto_output(&flag)};
    for (uint32_t k = 0; k < n; k++) {
        first[k + 2] = pto_input(&list[k]);
    }
    pto_task task = 0;
    PTO_TRY(pto_submit_task_at(w->rt, w->send, PTO_KERNEL_TYPE, first, n + 2,
                               w->trace ? &task : NULL, file, line));
    if (w->trace) {
        trace_note_message(w, true, to, w->peers[to].n_out - 1, task);
    }
    return pto_submit_task_at(w->rt, w->behind, PTO_KERNEL_TYPE, then, 2, slot, file, line);
}

pto_status message_receive_all(world *w, int from, const pto_tensor *list, uint32_t n,
                               const char *file, int line)
{
    pto_task *slot = NULL;
    int tag = 0;
    w->stats.received++;
    w->stats.bytes_received += bytes_of(list, n);
    if (w->counting) {
        return PTO_OK;
    }
    PTO_TRY(take_tag(w, &w->peers[from].n_in, &w->peers[from].in_tasks, &tag, &slot));
    message *m = new_message(w, from, false);
    if (!m) {
        return pto_fail(PTO_OUT_OF_MEMORY, "mpi: message");
    }
    m->tag = tag;
    pto_param params[MPI_MOST_PIECES + 1] = {pto_scalar_u64((uintptr_t)m)};
    for (uint32_t k = 0; k < n; k++) {
        params[k + 1] = pto_output(&list[k]);
    }
    PTO_TRY(
        pto_submit_task_at(w->rt, w->receive, PTO_KERNEL_TYPE, params, n + 1, slot, file, line));
    if (w->trace) {
        trace_note_message(w, false, from, w->peers[from].n_in - 1, *slot);
    }
    return PTO_OK;
}

pto_status message_scrub(world *w, const pto_tensor *t, const char *file, int line)
{
    if (w->counting) {
        return PTO_OK;
    }
    const pto_param params[] = {pto_output(t)};
    return pto_submit_task_at(w->rt, w->scrub, PTO_KERNEL_TYPE, params, 1, NULL, file, line);
}

/* ---- Life ---------------------------------------------------------------------------------------------- */

pto_status message_register(world *w)
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
        const pto_status status = pto_kernel_register(w->rt, kernels[i].name, PTO_ACCELERATOR,
                                                      kernels[i].fn, w, handles[i]);
        if (status == PTO_BAD_KERNEL ||
            status == PTO_BAD_MEMORY) { /* code or data of this process */
            return pto_fail(PTO_BAD_CONFIG,
                            "mpi_create: the scheduler runs in worker processes, which cannot call "
                            "MPI: PTO_SCHEDULER must be inline or thread");
        }
        PTO_TRY(status);
    }
    return PTO_OK;
}

pto_status message_start(world *w)
{
    pthread_cond_init(&w->wake, NULL);
    if (w->counting) {
        return PTO_OK;
    }
    const int error = pthread_create(&w->progress, NULL, progress_main, w);
    return error ? pto_fail(PTO_SYSTEM, "mpi: progress thread: %s", strerror(error)) : PTO_OK;
}

void message_stop(world *w)
{
    if (!w->counting) {
        pthread_mutex_lock(&mpi_lock);
        w->stop = true;
        pthread_cond_signal(&w->wake);
        pthread_mutex_unlock(&mpi_lock);
        pthread_join(w->progress, NULL);
    }
    for (message *m = w->spare, *next; m; m = next) {
        next = m->next;
        free(m);
    }
    free(w->requests);
    free(w->active);
    free(w->done);
}
