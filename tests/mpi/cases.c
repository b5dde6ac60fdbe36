/* cases.c - single rules of docs/mpi.md, on any number of ranks from 2 on.
 *
 *     mpirun -n 3 cases NAME...
 *
 * After `on_sim` as a name, tensors of the cases lie on a simulated device, and tasks run there.
 *
 * A case ends with status 0 if all is as it should be. Cases that break the world print what the error says,
 * for ranks.sh to look at, and end with status 7. */
#define _GNU_SOURCE /* RTLD_NEXT */
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <mpi.h>
#include <pthread.h>
#include <pto/embed.h>
#include <pto/mpi.h>
#include <pto/sim.h>
#include <pto/work.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: rank %d: %s (%s)\n", __FILE__, __LINE__, pto_mpi_rank(rt),     \
                    #condition, pto_error_detail());                                               \
            exit(3);                                                                               \
        }                                                                                          \
    } while (0)

static pto_runtime *rt;
static pto_kernel add, copy, touch, fail_if;
static pto_device where;
static uint32_t workers = 1;
static pto_tensor line; /* one tile of 4 numbers for each rank */

static pto_status add_kernel(const pto_call *call)
{
    const pto_arg *from = &call->args[0], *to = &call->args[1];
    for (int64_t i = 0; i < to->shape[0]; i++) {
        ((int32_t *)to->data)[i * to->strides[0]] +=
            ((const int32_t *)from->data)[i * from->strides[0]] + 1;
    }
    return PTO_OK;
}

static pto_status copy_kernel(const pto_call *call)
{
    const pto_arg *from = &call->args[0], *to = &call->args[1];
    for (int64_t i = 0; i < to->shape[0]; i++) {
        ((int32_t *)to->data)[i * to->strides[0]] =
            ((const int32_t *)from->data)[i * from->strides[0]];
    }
    return PTO_OK;
}

static pto_status touch_kernel(const pto_call *call)
{
    (void)call;
    return PTO_OK;
}

static pto_status fail_kernel(const pto_call *call)
{
    (void)call;
    return pto_fail(PTO_KERNEL_FAILED, "as asked");
}

static pto_tensor tile(int64_t i)
{
    pto_tensor t;
    CHECK(pto_tensor_slice(&line, 0, i * 4, i * 4 + 4, 1, &t) == PTO_OK);
    return t;
}

static void add_kernel_here(const char *name, pto_kernel_fn fn, pto_kernel *kernel)
{
    CHECK(pto_kernel_register(rt, name, PTO_VECTOR, fn, NULL, kernel) == PTO_OK);
    CHECK(pto_kernel_variant(rt, *kernel, PTO_DEVICE_SIM, fn, NULL) == PTO_OK);
}

static void begin(const pto_mpi_config *config)
{
    pto_config c = PTO_CONFIG_INIT;
    c.workers = workers;
    c.spin = PTO_NO_SPIN;
    c.device = where; /* of temporaries */
    CHECK(pto_runtime_create(&rt, &c) == PTO_OK);
    CHECK(pto_mpi_create(rt, config) == PTO_OK);
    const int64_t n = pto_mpi_ranks(rt) * 4;
    add_kernel_here("add", add_kernel, &add);
    add_kernel_here("copy", copy_kernel, &copy);
    add_kernel_here("touch", touch_kernel, &touch);
    add_kernel_here("fail_if", fail_kernel, &fail_if);
    CHECK(pto_mpi_tensor(rt, PTO_INT32, 1, &n, &(pto_mpi_layout){.tile = {4}, .device = where},
                         &line) == PTO_OK);
}

static int end(void)
{
    CHECK(pto_mpi_destroy(rt) == PTO_OK);
    CHECK(pto_runtime_destroy(&rt, PTO_WAIT) == PTO_OK);
    return 0;
}

/* Prints what a broken world says. */
static int say(pto_status status)
{
    printf("rank %d: %s: %s\n", pto_mpi_rank(rt), pto_status_text(status), pto_error_detail());
    fflush(stdout);
    PTO_IGNORE(pto_mpi_destroy(rt));
    PTO_IGNORE(pto_runtime_destroy(&rt, PTO_CANCEL));
    return 7;
}

/* Every rule that refuses a call, on all ranks in the same way; then everything goes on. */
static int refusals(void)
{
    const pto_mpi_config config = {.size = sizeof config, .cache_bytes = 64, .scratch_bytes = 128};
    begin(&config);
    const int ranks = pto_mpi_ranks(rt), rank = pto_mpi_rank(rt);
    int32_t plain[4] = {0}, got[64];
    pto_tensor p, t0 = tile(0), t1 = tile(1), all = line, other, temp;
    const int64_t n = 40;
    CHECK(pto_external_tensor(rt, plain, PTO_INT32, 1, (int64_t[]){4}, &p) == PTO_OK);
    CHECK(pto_mpi_tensor(rt, PTO_INT32, 1, &n, &(pto_mpi_layout){.tile = {20}, .device = where},
                         &other) == PTO_OK);
    const int first_line = __LINE__ + 1;
    CHECK(pto_mpi_submit(rt, add, pto_input(&t0), pto_inout(&p)) == PTO_BAD_PARAM);
    CHECK(pto_mpi_submit(rt, add, pto_input(&t0), pto_inout(&t0), pto_after(pto_last_task(rt))) ==
          PTO_BAD_PARAM);
    CHECK(pto_mpi_submit_on(rt, ranks, add, pto_input(&t0), pto_inout(&t1)) == PTO_BAD_PARAM);
    const pto_param odd[] = {pto_inout(&t0), {.kind = (pto_param_kind)77}};
    CHECK(pto_mpi_submit_task(rt, PTO_MPI_OWNER, add, PTO_VECTOR, odd, 2) == PTO_BAD_PARAM);
    CHECK(pto_mpi_tensor(rt, PTO_INT32, 1, &n, &(pto_mpi_layout){.tile = {4}, .grid = {ranks + 1}},
                         &temp) == PTO_BAD_CONFIG);
    /* A tensor has elements. */
    static const int64_t shapes[][2] = {{5, 0}, {0, 5}, {0, 0}, {-5, 4}, {-5, -5}};
    for (int i = 0; i < 5; i++) {
        CHECK(pto_mpi_tensor(rt, PTO_INT32, 2, shapes[i],
                             &(pto_mpi_layout){.tile = {2, 2}, .device = where},
                             &temp) == PTO_BAD_SHAPE);
    }
    /* The remote input has 80 bytes, and the cache 64. */
    pto_tensor big;
    CHECK(pto_tensor_slice(&other, 0, 0, 20, 1, &big) == PTO_OK);
    pto_status status = pto_mpi_submit(rt, add, pto_input(&big), pto_inout(&t1));
    CHECK(status == (rank < 2 ? PTO_TOO_LARGE : PTO_OK));
    CHECK(rank >= 2 || strstr(pto_error_detail(), "cache_bytes is 64"));
    /* A view of two tiles, read and written at once. */
    CHECK(pto_tensor_slice(&line, 0, 2, 6, 1, &all) == PTO_OK);
    status = pto_mpi_submit(rt, add, pto_input(&t0), pto_inout(&all));
    CHECK(status == (rank < 2 ? PTO_OVERLAP : PTO_OK));
    PTO_SCOPE(rt) {
        CHECK(pto_mpi_temp(rt, PTO_INT32, 1, (int64_t[]){4}, &temp) == PTO_OK);
        CHECK(pto_mpi_submit(rt, add, pto_input(&temp), pto_inout(&t0)) == PTO_NOT_WRITTEN);
        CHECK(pto_mpi_read(rt, &temp, got, sizeof got) == PTO_NOT_WRITTEN);
        /* Its first writer is refused, on ranks that have no part of that task as well. */
        CHECK(pto_mpi_submit_on(rt, 1, copy, pto_input(&big), pto_output(&temp)) == PTO_TOO_LARGE);
        const pto_tensor last = tile(ranks - 1);
        CHECK(pto_mpi_owner(rt, &temp) == -1);
        CHECK(pto_mpi_submit(rt, add, pto_input(&temp), pto_inout(&last)) == PTO_NOT_WRITTEN);
    }
    CHECK(pto_mpi_wait(rt) == PTO_REFUSED);
    char first[80];
    snprintf(first, sizeof first, "cases.c:%d was refused with PTO_BAD_PARAM: mpi_submit",
             first_line);
    CHECK(strstr(pto_error_detail(), first));
    CHECK(pto_mpi_refused(rt));
    CHECK(!pto_mpi_refused(rt));
    /* Functions of the library say which ones to call. */
    CHECK(pto_submit(rt, add, pto_input(&t1), pto_inout(&t0)) == PTO_BAD_MEMORY);
    CHECK(strstr(pto_error_detail(), "pto_mpi_submit"));
    CHECK(pto_read(rt, &line, got, sizeof got) == PTO_BAD_MEMORY);
    CHECK(pto_copy(rt, &t0, &t1) == PTO_BAD_MEMORY);
    void *address = NULL;
    CHECK(pto_get_buffer_addr(rt, &t0, &address) == PTO_BAD_MEMORY && !address);
    CHECK(pto_refused(rt, NULL));
    /* What was refused has changed nothing. */
    CHECK(pto_mpi_submit(rt, add, pto_input(&t1), pto_inout(&t0)) == PTO_OK);
    CHECK(pto_mpi_submit(rt, add, pto_input(&t0), pto_inout(&t1)) == PTO_OK);
    CHECK(pto_mpi_read(rt, &line, got, sizeof got) == PTO_OK);
    CHECK(got[0] == 1 && got[3] == 1 && got[4] == 2 && got[7] == 2);
    CHECK(pto_mpi_wait(rt) == PTO_OK);
    return end();
}

/* Handles of a world that has ended, or with an address inside of a tensor, are refused. So are they where a tensor of
 * a later world could lie. */
static int stale(void)
{
    int32_t got[64];
    begin(NULL);
    pto_tensor old = tile(0), inside = old;
    inside.storage = (char *)inside.storage + 4;
    CHECK(pto_mpi_submit(rt, touch, pto_inout(&inside)) == PTO_STALE);
    CHECK(pto_mpi_read(rt, &inside, got, sizeof got) == PTO_STALE);
    CHECK(pto_mpi_refused(rt));
    CHECK(end() == 0);
    begin(NULL);
    CHECK(pto_mpi_submit(rt, touch, pto_inout(&old)) == PTO_STALE);
    CHECK(pto_mpi_read(rt, &old, got, sizeof got) == PTO_STALE);
    CHECK(pto_mpi_gather(rt, &old, 0, got, sizeof got) == PTO_STALE);
    CHECK(pto_mpi_broadcast(rt, &old, pto_input(&line)) == PTO_STALE);
    CHECK(pto_mpi_owner(rt, &old) == -1);
    CHECK(pto_mpi_refused(rt));
    return end();
}

/* On another thread. */
static void *submit_there(void *of)
{
    *(pto_status *)of = pto_mpi_submit(rt, touch, pto_inout(&line));
    return NULL;
}

static pto_status answers[6]; /* of the kernel below, on the rank that ran it */

static pto_status calls_kernel(const pto_call *call)
{
    int32_t got[4];
    pto_tensor mine, other;
    (void)call;
    answers[0] = pto_mpi_wait(rt);
    answers[1] = pto_mpi_read(rt, &line, got, sizeof got);
    answers[2] = pto_mpi_clear_error(rt);
    answers[3] = pto_mpi_runtime_destroy(&rt, PTO_CANCEL);
    PTO_TRY(pto_tensor_slice(&line, 0, 0, 4, 1, &mine));
    PTO_TRY(pto_tensor_slice(&line, 0, 4, 8, 1, &other));
    answers[4] = pto_mpi_submit(rt, touch, pto_inout(&mine));
    answers[5] = pto_mpi_submit(rt, touch, pto_inout(&other));
    pto_mpi_only(rt, pto_inout(&line))
    {
        return pto_fail(PTO_KERNEL_FAILED, "a range in a kernel");
    }
    return PTO_OK;
}

static void check_answers(void)
{
    for (int i = 0; i < 6; i++) {
        CHECK(answers[i] == (pto_mpi_rank(rt) == 0 ? PTO_WRONG_THREAD : PTO_OK));
        answers[i] = PTO_OK;
    }
}

/* The orchestrating thread runs the kernel, in another call: it is the wrong place all the same. */
static int in_kernel(void)
{
    workers = PTO_NO_WORKERS;
    begin(NULL);
    workers = 1;
    pto_kernel calls;
    const pto_tensor t0 = tile(0);
    add_kernel_here("calls", calls_kernel, &calls);
    CHECK(pto_mpi_submit(rt, calls, pto_inout(&t0)) == PTO_OK);
    CHECK(pto_mpi_wait(rt) == PTO_OK);
    check_answers();
    return end();
}

/* Calls of the wrong thread, or with the lock, would wait for ever. They are refused. */
static int wrong_place(void)
{
    begin(NULL);
    pto_kernel calls;
    int32_t got[64];
    const pto_tensor t0 = tile(0), all = line;
    add_kernel_here("calls", calls_kernel, &calls);
    CHECK(pto_mpi_submit(rt, calls, pto_inout(&t0)) == PTO_OK);
    CHECK(pto_mpi_wait(rt) == PTO_OK);
    check_answers();
    /* Also a task that is none of this rank's business. */
    pthread_t thread;
    pto_status there = PTO_OK;
    line = t0;
    CHECK(pthread_create(&thread, NULL, submit_there, &there) == 0);
    CHECK(pthread_join(thread, NULL) == 0 && there == PTO_WRONG_THREAD);
    line = all;
    pto_mpi_lock(rt);
    CHECK(pto_mpi_wait(rt) == PTO_BAD_SCOPE);
    CHECK(pto_mpi_read(rt, &line, got, sizeof got) == PTO_BAD_SCOPE);
    CHECK(pto_mpi_submit(rt, touch, pto_inout(&line)) == PTO_BAD_SCOPE);
    CHECK(pto_mpi_destroy(rt) == PTO_BAD_SCOPE);
    pto_mpi_unlock(rt);
    CHECK(pto_mpi_refused(rt));
    CHECK(pto_mpi_read(rt, &line, got, sizeof got) == PTO_OK);
    return end();
}

/* The lock nests, an unlock too many gives up nothing, and a wait of the library between the two ends. */
static int locks(void)
{
    begin(NULL);
    const pto_tensor t0 = tile(0), t1 = tile(1);
    int32_t got[64];
    pto_mpi_unlock(rt);
    pto_mpi_lock(rt);
    pto_mpi_lock(rt);
    pto_mpi_unlock(rt);
    CHECK(pto_mpi_wait(rt) == PTO_BAD_SCOPE); /* it still has the lock */
    pto_mpi_unlock(rt);
    pto_mpi_unlock(rt);
    for (int i = 0; i < 20; i++) {
        CHECK(pto_mpi_submit(rt, add, pto_input(&t0), pto_inout(&t1)) == PTO_OK);
        CHECK(pto_mpi_submit(rt, add, pto_input(&t1), pto_inout(&t0)) == PTO_OK);
        pto_mpi_lock(rt);
        CHECK(pto_wait(rt) == PTO_OK);
        CHECK(pto_mpi_read(rt, &line, got, sizeof got) ==
              PTO_BAD_SCOPE); /* it has the lock again */
        pto_mpi_unlock(rt);
    }
    pto_mpi_refused(rt);
    CHECK(pto_mpi_read(rt, &t0, got, sizeof got) == PTO_OK && got[0] == 267914295);
    return end();
}

/* A temporary without elements has a home, too: all ranks get the same answers. A view without elements needs no
 * memory, so it does not matter where its tensor lives. */
static int empty(void)
{
    begin(NULL);
    const int64_t none = 0, four = 4;
    const pto_tensor t0 = tile(0), t1 = tile(1);
    pto_tensor temp, view, part;
    int32_t got[1];
    CHECK(pto_tensor_slice(&line, 0, 3, 3, 1, &view) == PTO_OK);
    PTO_SCOPE(rt) {
        CHECK(pto_mpi_temp(rt, PTO_INT32, 1, &none, &temp) == PTO_OK);
        CHECK(pto_mpi_submit(rt, touch, pto_input(&temp), pto_inout(&t0)) == PTO_NOT_WRITTEN);
        CHECK(pto_mpi_refused(rt));
        CHECK(pto_mpi_submit(rt, touch, pto_output(&temp)) == PTO_OK);
        CHECK(pto_mpi_submit(rt, touch, pto_input(&temp), pto_inout(&t0)) == PTO_OK);
        CHECK(pto_mpi_submit(rt, touch, pto_input(&view), pto_inout(&t0)) == PTO_OK);
        CHECK(pto_mpi_read(rt, &temp, got, sizeof got) == PTO_OK);
        CHECK(pto_mpi_read(rt, &view, NULL, 0) == PTO_OK);
        /* Of a temporary that has elements, and lives on one rank. */
        CHECK(pto_mpi_temp(rt, PTO_INT32, 1, &four, &temp) == PTO_OK);
        CHECK(pto_tensor_slice(&temp, 0, 2, 2, 1, &part) == PTO_OK);
        CHECK(pto_mpi_submit(rt, touch, pto_output(&part)) == PTO_NOT_CONTIGUOUS);
        CHECK(pto_mpi_submit(rt, touch, pto_input(&part), pto_inout(&t0)) == PTO_NOT_WRITTEN);
        CHECK(pto_mpi_refused(rt));
        CHECK(pto_mpi_submit(rt, copy, pto_input(&t0), pto_output(&temp)) == PTO_OK);
        CHECK(pto_mpi_submit(rt, touch, pto_input(&part), pto_inout(&t0)) == PTO_OK);
        CHECK(pto_mpi_submit(rt, touch, pto_input(&part), pto_inout(&t1)) == PTO_OK);
        CHECK(pto_mpi_submit(rt, touch, pto_output(&part), pto_inout(&t1)) == PTO_OK);
        CHECK(pto_mpi_read(rt, &part, NULL, 0) == PTO_OK);
    }
    return end();
}

/* A world needs its runtime. */
static int destroyed_early(void)
{
    begin(NULL);
    const pto_tensor t0 = tile(0), t1 = tile(1);
    int32_t got[64];
    CHECK(pto_runtime_destroy(&rt, PTO_WAIT) == PTO_BAD_SCOPE);
    CHECK(strstr(pto_error_detail(), "call pto_mpi_destroy before"));
    CHECK(pto_runtime_destroy(&rt, PTO_CANCEL) == PTO_BAD_SCOPE);
    CHECK(pto_mpi_submit(rt, add, pto_input(&t0), pto_inout(&t1)) == PTO_OK);
    CHECK(pto_mpi_read(rt, &line, got, sizeof got) == PTO_OK && got[4] == 1);
    return end();
}

/* After a failure that nobody clears, a program may go on for long: what it remembers of its tasks stays small. */
static int after_failure(void)
{
    begin(NULL);
    const pto_tensor tiles[] = {tile(0), tile(1), tile(2)};
    CHECK(pto_mpi_submit(rt, fail_if, pto_output(&tiles[0])) == PTO_OK);
    CHECK(pto_mpi_wait(rt) == PTO_TASK_FAILED);
    const size_t before = mallinfo2().hblkhd;
    for (int i = 0; i < 600000; i++) {
        CHECK(pto_mpi_submit(rt, touch, pto_output(&tiles[i % 3])) == PTO_OK);
    }
    CHECK(pto_mpi_wait(rt) == PTO_TASK_FAILED && strstr(pto_error_detail(), "kernel 'fail_if'"));
    CHECK(mallinfo2().hblkhd < before + 1500000);
    CHECK(pto_mpi_clear_error(rt) == PTO_OK);
    return end();
}

static void count_send(void);

static atomic_int reports; /* that this rank has sent: it is blocked */

int MPI_Isend(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    atomic_fetch_add(&reports, count > 1000);
    if (count <= 1000) {
        count_send();
    }
    return PMPI_Isend(buf, count, datatype, dest, tag, comm, request);
}

int MPI_Issend(const void *buf, int count, MPI_Datatype datatype, int dest, int tag, MPI_Comm comm,
               MPI_Request *request)
{
    count_send();
    return PMPI_Issend(buf, count, datatype, dest, tag, comm, request);
}

static pto_status nap_kernel(const pto_call *call)
{
    (void)call;
    nanosleep(&(struct timespec){3, 0}, NULL);
    return PTO_OK;
}

/* Ranks that wait for one whose kernel takes long say so ever less often. */
static int patience(void)
{
    begin(NULL);
    pto_kernel nap;
    const pto_tensor t0 = tile(0);
    add_kernel_here("nap", nap_kernel, &nap);
    CHECK(pto_mpi_wait(rt) == PTO_OK);
    atomic_store(&reports, 0);
    CHECK(pto_mpi_submit(rt, nap, pto_inout(&t0)) == PTO_OK);
    CHECK(pto_mpi_wait(rt) == PTO_OK);
    CHECK(atomic_load(&reports) <= 4 * (pto_mpi_ranks(rt) - 1)); /* after 0.3, 1, 2.3 seconds */
    return end();
}

/* Two runtimes of a process in worlds of their own, at the same time: MPI is called by one thread at a time. */
static int two_worlds(void)
{
    pto_runtime *both[2];
    pto_kernel adds[2];
    pto_tensor lines[2], t0, t1;
    int32_t got[4];
    for (int k = 0; k < 2; k++) {
        begin(NULL);
        both[k] = rt;
        adds[k] = add;
        lines[k] = line;
    }
    for (int i = 0; i < 400; i++) {
        rt = both[i & 1];
        line = lines[i & 1];
        t0 = tile(0);
        t1 = tile(1);
        CHECK(pto_mpi_submit(rt, adds[i & 1], pto_input(&t0), pto_inout(&t1)) == PTO_OK);
        CHECK(pto_mpi_submit(rt, adds[i & 1], pto_input(&t1), pto_inout(&t0)) == PTO_OK);
        CHECK(i % 20 > 1 || pto_mpi_read(rt, &t0, got, sizeof got) == PTO_OK);
    }
    CHECK(pto_mpi_submit(rt, adds[1], pto_input(&lines[0]), pto_inout(&t0)) == PTO_STALE);
    CHECK(pto_mpi_refused(rt));
    for (int k = 0; k < 2; k++) {
        rt = both[k];
        CHECK(end() == 0);
    }
    return 0;
}

/* A failure poisons other ranks, and a write heals them. Pieces in the cache are read once, and again
 * after they were dropped. */
static int failures(void)
{
    begin(NULL);
    const int64_t last = pto_mpi_ranks(rt) - 1;
    int32_t got[4];
    pto_tensor t0 = tile(0), t1 = tile(1), tn = tile(last);
    pto_mpi_stats s;
    CHECK(pto_mpi_submit(rt, fail_if, pto_output(&t0)) == PTO_OK);
    CHECK(pto_mpi_submit(rt, add, pto_input(&t0), pto_inout(&t1)) == PTO_OK);
    CHECK(pto_mpi_submit(rt, add, pto_input(&t1), pto_inout(&tn)) == PTO_OK);
    CHECK(pto_mpi_read(rt, &tn, got, sizeof got) == PTO_POISONED);
    CHECK(strstr(pto_error_detail(), "mpi_read: int32[4]"));
    CHECK(pto_mpi_wait(rt) == PTO_TASK_FAILED);
    CHECK(strstr(pto_error_detail(), "rank 0: kernel 'fail_if'") &&
          strstr(pto_error_detail(), "as asked"));
    CHECK(pto_mpi_clear_error(rt) == PTO_OK);
    const int32_t zero[64] = {0};
    CHECK(pto_mpi_scatter(rt, &line, 0, zero, sizeof zero) == PTO_OK);
    for (int i = 0; i < 3; i++) {
        CHECK(pto_mpi_submit(rt, add, pto_input(&t0), pto_inout(&t1)) == PTO_OK);
    }
    CHECK(pto_mpi_read(rt, &t1, got, sizeof got) == PTO_OK && got[2] == 3);
    CHECK(pto_mpi_get_stats(rt, &s) == PTO_OK);
    CHECK(pto_mpi_rank(rt) != 1 || s.hits == 2);
    CHECK(pto_mpi_wait(rt) == PTO_OK);
    return end();
}

/* One rank leaves out a task, 30 calls after the beginning, and goes on for a while. */
static int diverge(void)
{
    begin(NULL);
    pto_tensor t0 = tile(0), t1 = tile(1);
    pto_status status = PTO_OK;
    for (int i = 0; i < 200 && status == PTO_OK; i++) {
        if (i == 30 && pto_mpi_rank(rt) == 1) {
            status = pto_mpi_submit(rt, add, pto_input(&t1), pto_inout(&t0)); /* line A */
        } else {
            status = pto_mpi_submit(rt, add, pto_input(&t0), pto_inout(&t1)); /* line B */
        }
    }
    status = status == PTO_OK ? pto_mpi_wait(rt) : status;
    CHECK(status == PTO_MISMATCH);
    return say(status);
}

static pto_status ten_kernel(const pto_call *call)
{
    *(int32_t *)call->args[0].data += 10;
    return PTO_OK;
}

static pto_status one_kernel(const pto_call *call)
{
    *(int32_t *)call->args[0].data += 1;
    return PTO_OK;
}

/* Ranks that register their kernels in another order would run others. */
static int other_kernels(void)
{
    begin(NULL);
    pto_kernel ten, one;
    if (pto_mpi_rank(rt) == 1) {
        add_kernel_here("one", one_kernel, &one);
        add_kernel_here("ten", ten_kernel, &ten);
    } else {
        add_kernel_here("ten", ten_kernel, &ten);
        add_kernel_here("one", one_kernel, &one);
    }
    for (int i = 0; i < pto_mpi_ranks(rt); i++) {
        const pto_tensor t = tile(i);
        CHECK(pto_mpi_submit(rt, ten < one ? ten : one, pto_inout(&t)) == PTO_OK);
    }
    const pto_status status = pto_mpi_wait(rt);
    CHECK(status == PTO_MISMATCH);
    return say(status);
}

/* The same bits, but of another type. */
static int other_scalars(void)
{
    begin(NULL);
    const pto_tensor t0 = tile(0);
    const bool odd = pto_mpi_rank(rt) == 1;
    const pto_param zero = odd ? pto_scalar(0.0) : pto_scalar(0);
    CHECK(pto_mpi_submit(rt, touch, pto_inout(&t0), zero) == PTO_OK);
    const pto_status status = pto_mpi_wait(rt);
    CHECK(status == PTO_MISMATCH);
    return say(status);
}

/* A rank is blocked soon after the ranks begin to differ, and others pass by far more calls than they remember one by one. */
static int far_behind(void)
{
    begin(NULL);
    const pto_tensor t0 = tile(0), t1 = tile(1);
    pto_status status = PTO_OK;
    for (int i = 0; i < 700000 && status == PTO_OK; i++) {
        if (i == 100 && pto_mpi_rank(rt) == 0) { /* waits for a tile that does not come */
            status = pto_mpi_submit(rt, add, pto_input(&t1), pto_inout(&t0));
        } else {
            status = pto_mpi_submit(rt, touch, pto_inout(&t0));
        }
    }
    status = status == PTO_OK ? pto_mpi_wait(rt) : status;
    CHECK(status == PTO_MISMATCH);
    return say(status);
}

/* The program finalizes MPI too early, on all ranks or on one. */
static int finalizes(bool all)
{
    begin(NULL);
    CHECK(pto_mpi_wait(rt) == PTO_OK);
    if (all || pto_mpi_rank(rt) == 1) {
        MPI_Finalize();
    }
    return say(pto_mpi_wait(rt));
}

static bool no_threads; /* as if the system had no room for another one */

int pthread_create(pthread_t *newthread, const pthread_attr_t *attr, void *(*start_routine)(void *),
                   void *arg)
{
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (!real) {
        void *found = dlsym(RTLD_NEXT, "pthread_create");
        memcpy(&real, &found, sizeof real);
    }
    return no_threads ? EAGAIN : real(newthread, attr, start_routine, arg);
}

/* A rank that has joined gets no thread for its messages: the others hear of it. */
static int no_progress(void)
{
    CHECK(pto_runtime_create(&rt, NULL) == PTO_OK);
    const char *number = getenv("OMPI_COMM_WORLD_RANK") ? getenv("OMPI_COMM_WORLD_RANK")
                                                        : getenv("PMI_RANK");
    if (!number || *number != '1') {
        CHECK(pto_mpi_create(rt, NULL) == PTO_OK);
        const pto_status status = pto_mpi_wait(rt);
        CHECK(status == PTO_WORKER_LOST);
        return say(status);
    }
    int begun = 0;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED,
                    &begun); /* which may make threads of its own */
    no_threads = true;
    CHECK(pto_mpi_create(rt, NULL) == PTO_SYSTEM);
    CHECK(pto_runtime_destroy(&rt, PTO_WAIT) == PTO_OK);
    return 7;
}

/* Ranges: who walks through them, and what is refused there. Three ranks. */
static int ranges(void)
{
    begin(NULL);
    const int rank = pto_mpi_rank(rt);
    int32_t plain[4] = {0}, got[64];
    pto_tensor t0 = tile(0), t1 = tile(1), t2 = tile(2), p, temp;
    pto_mpi_stats s;
    int walked = 0;
    CHECK(pto_external_tensor(rt, plain, PTO_INT32, 1, (int64_t[]){4}, &p) == PTO_OK);
    for (int i = 0; i < 5; i++) {
        pto_mpi_only(rt, pto_input(&t0), pto_inout(&t1))
        {
            walked++;
            PTO_SCOPE(rt) {
                CHECK(pto_mpi_temp(rt, PTO_INT32, 1, (int64_t[]){4}, &temp) == PTO_OK);
                CHECK(pto_mpi_submit(rt, add, pto_input(&t0), pto_inout(&t1)) == PTO_OK);
                CHECK(pto_mpi_submit(rt, copy, pto_input(&t0), pto_output(&temp)) == PTO_OK);
                CHECK(pto_mpi_submit(rt, add, pto_input(&temp), pto_inout(&t1)) == PTO_OK);
            }
        }
        /* A rank that skipped the range reads what was written there, and its copy is of that version. */
        CHECK(pto_mpi_submit(rt, add, pto_input(&t1), pto_inout(&t2)) == PTO_OK);
        CHECK(pto_mpi_submit(rt, add, pto_input(&t1), pto_inout(&t2)) == PTO_OK);
    }
    CHECK(walked == (rank == 2 ? 0 : 5));
    CHECK(pto_mpi_get_stats(rt, &s) == PTO_OK && s.skipped == (rank == 2 ? 5 : 0));
    /* Kernel `add` adds one more; t0 is 0. */
    CHECK(pto_mpi_read(rt, &line, got, sizeof got) == PTO_OK);
    CHECK(got[4] == 10 && got[8] == 2 * (2 + 4 + 6 + 8 + 10) + 10);
    pto_mpi_only(rt, pto_input(&t0), pto_inout(&t1))
    {
        CHECK(pto_mpi_submit(rt, add, pto_input(&t2), pto_inout(&t1)) == PTO_BAD_PARAM);
        CHECK(strstr(pto_error_detail(), "parameter 0 is not declared in the range"));
        CHECK(pto_mpi_submit(rt, add, pto_input(&t1), pto_inout(&t0)) == PTO_BAD_PARAM);
        CHECK(strstr(pto_error_detail(), "parameter 1 is not declared as written"));
        CHECK(pto_mpi_submit_on(rt, 2, add, pto_input(&t0), pto_inout(&t1)) == PTO_BAD_PARAM);
        CHECK(pto_mpi_submit(rt, add, pto_input(&p), pto_inout(&p)) == PTO_BAD_PARAM);
        CHECK(pto_mpi_wait(rt) == PTO_BAD_SCOPE);
        CHECK(pto_mpi_read(rt, &t1, got, sizeof got) == PTO_BAD_SCOPE);
        pto_mpi_only(rt, pto_input(&t0))
        {
            CHECK(false); /* they do not nest */
        }
    }
    pto_mpi_only(rt, pto_input(&p))
    {
        CHECK(false);
    }
    CHECK(pto_mpi_wait(rt) == PTO_REFUSED);
    pto_mpi_refused(rt);
    CHECK(pto_mpi_read(rt, &line, got, sizeof got) == PTO_OK && got[4] == 10);
    return end();
}

/* Bytes that are read backwards, in one dim or two: of other ranks they come as they are asked for. */
static int backwards(void)
{
    begin(NULL);
    const int64_t shape[] = {4 * pto_mpi_ranks(rt), 5};
    uint8_t all[4 * 64 * 5] = {0}, got[4 * 5];
    pto_tensor bytes, part;
    CHECK(pto_mpi_ranks(rt) <= 64);
    CHECK(pto_mpi_tensor(rt, PTO_UINT8, 2, shape,
                         &(pto_mpi_layout){.tile = {4, 5}, .device = where}, &bytes) == PTO_OK);
    for (int64_t i = 0; i < shape[0] * 5; i++) {
        all[i] = (uint8_t)(7 * i);
    }
    CHECK(pto_mpi_scatter(rt, &bytes, 0, all, (uint64_t)(shape[0] * 5)) == PTO_OK);
    for (int mirrored = 1; mirrored < 4; mirrored++) {
        for (int64_t first = 0; first < shape[0]; first += 4) {
            CHECK(pto_tensor_slice(&bytes, 0, first, first + 4, 1, &part) == PTO_OK);
            CHECK(!(mirrored & 1) || pto_tensor_slice(&part, 1, 4, -1, -1, &part) == PTO_OK);
            CHECK(!(mirrored & 2) || pto_tensor_slice(&part, 0, 3, -1, -1, &part) == PTO_OK);
            CHECK(pto_mpi_read(rt, &part, got, sizeof got) == PTO_OK);
            for (int64_t i = 0; i < 20; i++) {
                const int64_t row = mirrored & 2 ? 3 - i / 5 : i / 5,
                              column = mirrored & 1 ? 4 - i % 5 : i % 5;
                CHECK(got[i] == all[(first + row) * 5 + column]);
            }
        }
    }
    return end();
}

/* The child of a fork may exit: the ranks go on. */
static int forks(void)
{
    begin(NULL);
    const pto_tensor first = tile(0);
    int32_t got[4];
    int status = -1;
    CHECK(pto_mpi_submit(rt, touch, pto_inout(&first)) == PTO_OK);
    const pid_t child = fork();
    if (child == 0) {
        exit(0);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    CHECK(pto_mpi_read(rt, &first, got, sizeof got) == PTO_OK);
    return end();
}

/* A task that updates two tiles at once fails; then the same scratch memory is used in the same way again. It is
 * written in two pieces, neither of which covers what the failed task left. */
static int scratch_heals(void)
{
    begin(&(pto_mpi_config){.size = sizeof(pto_mpi_config), .scratch_bytes = 64});
    const int32_t zero[64] = {0};
    int32_t got[4];
    pto_tensor both;
    CHECK(pto_tensor_slice(&line, 0, 2, 6, 1, &both) == PTO_OK);
    CHECK(pto_mpi_submit(rt, fail_if, pto_inout(&both)) == PTO_OK);
    CHECK(pto_mpi_scatter(rt, &line, 0, zero, sizeof zero) == PTO_OK);
    CHECK(pto_mpi_submit(rt, touch, pto_inout(&both)) == PTO_OK);
    CHECK(pto_mpi_read(rt, &both, got, sizeof got) == PTO_OK && got[0] == 0 && got[3] == 0);
    CHECK(pto_mpi_wait(rt) == PTO_TASK_FAILED);
    CHECK(pto_mpi_clear_error(rt) == PTO_OK);
    return end();
}

/* A piece that did not come leaves its place in the cache bad, on a device also in its twin and where its owner staged it.
 * Then a smaller piece takes that place. */
static int cache_heals(void)
{
    begin(&(pto_mpi_config){.size = sizeof(pto_mpi_config), .cache_bytes = 64});
    int32_t got[4];
    pto_tensor t0 = tile(0), t1 = tile(1), from, to;
    CHECK(pto_mpi_submit(rt, fail_if, pto_output(&t0)) == PTO_OK);
    CHECK(pto_mpi_submit(rt, copy, pto_input(&t0), pto_output(&t1)) == PTO_OK);
    CHECK(pto_mpi_wait(rt) == PTO_TASK_FAILED);
    CHECK(pto_mpi_submit(rt, touch, pto_output(&t0)) == PTO_OK);
    CHECK(pto_mpi_submit(rt, touch, pto_output(&t1)) == PTO_OK);
    CHECK(pto_tensor_slice(&t0, 0, 0, 2, 1, &from) == PTO_OK);
    CHECK(pto_tensor_slice(&t1, 0, 0, 2, 1, &to) == PTO_OK);
    CHECK(pto_mpi_submit(rt, copy, pto_input(&from), pto_output(&to)) == PTO_OK);
    CHECK(pto_mpi_read(rt, &t1, got, sizeof got) == PTO_OK);
    CHECK(pto_mpi_clear_error(rt) == PTO_OK);
    return end();
}

/* The same if a broadcast takes the place, which the owner stages elsewhere: in what it sends to rank 1. */
static int broadcast_heals(void)
{
    begin(&(pto_mpi_config){.size = sizeof(pto_mpi_config), .cache_bytes = 64});
    int32_t got[4];
    pto_tensor t0 = tile(0), t2 = tile(2), first, second, to;
    CHECK(pto_mpi_submit(rt, fail_if, pto_output(&t0)) == PTO_OK);
    CHECK(pto_mpi_submit(rt, copy, pto_input(&t0), pto_output(&t2)) == PTO_OK);
    CHECK(pto_mpi_wait(rt) == PTO_TASK_FAILED);
    CHECK(pto_mpi_submit(rt, touch, pto_output(&t0)) == PTO_OK);
    CHECK(pto_mpi_submit(rt, touch, pto_output(&t2)) == PTO_OK);
    CHECK(pto_tensor_slice(&t0, 0, 0, 2, 1, &first) == PTO_OK);
    CHECK(pto_tensor_slice(&t0, 0, 2, 4, 1, &second) == PTO_OK);
    CHECK(pto_tensor_slice(&t2, 0, 0, 2, 1, &to) == PTO_OK);
    CHECK(pto_mpi_broadcast(rt, &first, pto_input(&line)) == PTO_OK);
    CHECK(pto_mpi_submit(rt, copy, pto_input(&second), pto_output(&to)) == PTO_OK);
    CHECK(pto_mpi_read(rt, &t2, got, sizeof got) == PTO_OK);
    CHECK(pto_mpi_clear_error(rt) == PTO_OK);
    return end();
}

/* What a failed task was to send home passes scratch memory, on a device; then less of the same bytes does. */
static int scratch_cuts(void)
{
    begin(&(pto_mpi_config){.size = sizeof(pto_mpi_config), .scratch_bytes = 64});
    int32_t got[4];
    pto_tensor t0 = tile(0), t1 = tile(1), more, less;
    CHECK(pto_tensor_slice(&line, 0, 3, 7, 1, &more) == PTO_OK);
    CHECK(pto_tensor_slice(&line, 0, 2, 6, 1, &less) == PTO_OK);
    CHECK(pto_mpi_submit(rt, fail_if, pto_output(&more)) == PTO_OK);
    CHECK(pto_mpi_wait(rt) == PTO_TASK_FAILED);
    CHECK(pto_mpi_submit(rt, touch, pto_output(&t0)) == PTO_OK);
    CHECK(pto_mpi_submit(rt, touch, pto_output(&t1)) == PTO_OK);
    CHECK(pto_mpi_submit(rt, touch, pto_output(&less)) == PTO_OK);
    CHECK(pto_mpi_read(rt, &less, got, sizeof got) == PTO_OK);
    CHECK(pto_mpi_clear_error(rt) == PTO_OK);
    return end();
}

/* What a rank does, and what it is said to do without the others. */
static void count_here(pto_mpi_stats *s)
{
    pto_tensor a, tiles[6][6], row;
    const int64_t n = 24;
    CHECK(pto_mpi_tensor(rt, PTO_INT32, 2, (int64_t[]){n, n},
                         &(pto_mpi_layout){.tile = {4, 4}, .device = where}, &a) == PTO_OK);
    for (int i = 0; i < 36; i++) {
        CHECK(pto_tensor_view(&a, (int64_t[]){i / 6 * 4, i % 6 * 4}, (int64_t[]){4, 4},
                              &tiles[i / 6][i % 6]) == PTO_OK);
    }
    for (int k = 0; k < 6; k++) {
        CHECK(pto_tensor_view(&a, (int64_t[]){k * 4, 0}, (int64_t[]){4, 24}, &row) == PTO_OK);
        CHECK(pto_mpi_submit(rt, touch, pto_inout(&row)) == PTO_OK); /* crosses tiles */
        for (int i = k; i < 6; i++) {
            pto_mpi_only(rt, pto_inout(&tiles[i][k]), pto_inout(&tiles[k][i]))
            {
                CHECK(pto_mpi_submit(rt, touch, pto_input(&tiles[i][k]), pto_inout(&tiles[k][i])) ==
                      PTO_OK);
            }
            CHECK(pto_mpi_submit(rt, touch, pto_input(&tiles[k][k]), pto_inout(&tiles[i][5])) ==
                  PTO_OK);
        }
    }
    CHECK(pto_mpi_wait(rt) == PTO_OK);
    CHECK(pto_mpi_get_stats(rt, s) == PTO_OK);
}

static int counted(void)
{
    pto_mpi_stats real, said;
    begin(&(pto_mpi_config){.size = sizeof(pto_mpi_config), .cache_bytes = 192});
    const int rank = pto_mpi_rank(rt), ranks = pto_mpi_ranks(rt);
    count_here(&real);
    CHECK(end() == 0);
    begin(&(pto_mpi_config){.size = sizeof(pto_mpi_config),
                            .cache_bytes = 192,
                            .count_rank = rank,
                            .count_ranks = ranks});
    CHECK(pto_mpi_rank(rt) == rank && pto_mpi_ranks(rt) == ranks);
    count_here(&said);
    CHECK(real.tasks && real.sent && real.received && (rank || real.copies));
    CHECK(real.steps == said.steps && real.tasks == said.tasks && real.others == said.others);
    CHECK(real.skipped == said.skipped && real.hits == said.hits && real.dropped == said.dropped);
    CHECK(real.sent == said.sent && real.received == said.received && real.copies == said.copies);
    CHECK(real.bytes_sent == said.bytes_sent && real.bytes_received == said.bytes_received);
    CHECK(real.bytes_cache == said.bytes_cache && real.bytes_scratch == said.bytes_scratch);
    CHECK(real.staged == said.staged && !real.staged == !where.type);
    CHECK(real.bytes_tiles == said.bytes_tiles && real.bytes_tables == said.bytes_tables);
    int32_t got[64];
    CHECK(pto_mpi_read(rt, &line, got, sizeof got) == PTO_BAD_CONFIG);
    pto_mpi_refused(rt);
    CHECK(end() == 0);
    CHECK(pto_runtime_create(&rt, NULL) == PTO_OK); /* rank 1 of how many? */
    CHECK(pto_mpi_create(rt, &(pto_mpi_config){.size = sizeof(pto_mpi_config), .count_rank = 1}) ==
          PTO_BAD_CONFIG);
    return pto_runtime_destroy(&rt, PTO_WAIT) == PTO_OK ? 0 : 3;
}

/* How many messages a tile takes to all ranks of a row and a column of a grid of so many, and how many of them the
 * owner sends; counted without these ranks. */
static void count_tree(int side, uint64_t *all, uint64_t *owner)
{
    *all = *owner = 0;
    for (int rank = 0; rank < side * side; rank++) {
        pto_mpi_stats stats;
        pto_tensor a, x, row, column;
        const int64_t n = side;
        begin(&(pto_mpi_config){
            .size = sizeof(pto_mpi_config), .count_rank = rank, .count_ranks = side * side});
        CHECK(pto_mpi_tensor(rt, PTO_INT32, 2, (int64_t[]){n, n},
                             &(pto_mpi_layout){.tile = {1, 1}, .grid = {side, side}},
                             &a) == PTO_OK);
        CHECK(pto_tensor_view(&a, (int64_t[]){1, 1}, (int64_t[]){1, 1}, &x) == PTO_OK);
        CHECK(pto_tensor_view(&a, (int64_t[]){1, 0}, (int64_t[]){1, n}, &row) == PTO_OK);
        CHECK(pto_tensor_view(&a, (int64_t[]){0, 2}, (int64_t[]){n, 1}, &column) == PTO_OK);
        CHECK(pto_mpi_submit(rt, touch, pto_inout(&x)) == PTO_OK);
        CHECK(pto_mpi_broadcast(rt, &x, pto_input(&row), pto_input(&column)) == PTO_OK);
        /* All of them have it: nothing is sent for a task. */
        for (int64_t i = 0; i < n; i++) {
            pto_tensor to;
            CHECK(pto_tensor_view(&a, (int64_t[]){i, 2}, (int64_t[]){1, 1}, &to) == PTO_OK);
            CHECK(pto_mpi_submit(rt, touch, pto_input(&x), pto_inout(&to)) == PTO_OK);
        }
        CHECK(pto_mpi_get_stats(rt, &stats) == PTO_OK);
        CHECK(stats.sent <= 10 && stats.received <= 1);
        *all += stats.received;
        *owner = rank == side + 1 ? stats.sent : *owner;
        CHECK(end() == 0);
    }
}

static int trees(void)
{
    uint64_t all, owner;
    for (int side = 4, log = 3; side <= 16; side *= 2, log++) {
        count_tree(side, &all, &owner);
        CHECK(all == 2 * (uint64_t)side - 2); /* the column meets the row, where x is not */
        CHECK(owner == (uint64_t)log);
    }
    /* And with real messages, when the share has room for one tile only: the same numbers with and without. */
    int32_t got[2][64], plain[4] = {0};
    for (int with = 0; with < 2; with++) {
        begin(&(pto_mpi_config){.size = sizeof(pto_mpi_config), .cache_bytes = 64});
        const int ranks = pto_mpi_ranks(rt);
        for (int i = 0; i < 5 * ranks; i++) {
            pto_tensor from = tile(i % ranks);
            CHECK(!with || pto_mpi_broadcast(rt, &from, pto_input(&line)) == PTO_OK);
            for (int k = 0; k < ranks; k++) {
                pto_tensor to = tile(k);
                CHECK(k == i % ranks ||
                      pto_mpi_submit(rt, add, pto_input(&from), pto_inout(&to)) == PTO_OK);
            }
        }
        CHECK(pto_mpi_read(rt, &line, got[with], sizeof got[with]) == PTO_OK);
        CHECK(!with || !memcmp(got[0], got[1], (size_t)ranks * 4 * sizeof(int32_t)));
        pto_mpi_stats stats;
        CHECK(pto_mpi_get_stats(rt, &stats) == PTO_OK);
        CHECK(!with || stats.hits == 5 * ((uint64_t)ranks - 1)); /* each was sent ahead */
        pto_tensor p, big;
        const int64_t n = 40;
        CHECK(pto_external_tensor(rt, plain, PTO_INT32, 1, (int64_t[]){4}, &p) == PTO_OK);
        CHECK(pto_mpi_tensor(rt, PTO_INT32, 1, &n, &(pto_mpi_layout){.tile = {20}}, &big) ==
              PTO_OK);
        CHECK(pto_mpi_broadcast(rt, &p, pto_input(&line)) == PTO_BAD_PARAM);
        CHECK(pto_mpi_refused(rt));
        CHECK(pto_mpi_broadcast(rt, &big, pto_input(&line)) == PTO_TOO_LARGE);
        CHECK(pto_mpi_refused(rt));
        CHECK(end() == 0);
    }
    return 0;
}

/* One of two ranks that walk through a range submits something else there. */
static int diverge_inside(void)
{
    begin(NULL);
    pto_tensor t0 = tile(0), t1 = tile(1);
    pto_status status = PTO_OK;
    for (int i = 0; i < 20 && status == PTO_OK; i++) {
        pto_mpi_only(rt, pto_inout(&t0), pto_inout(&t1))
        {
            status = pto_mpi_submit(rt, add, pto_input(&t0), pto_inout(&t1));
            if (status == PTO_OK && i == 10 && pto_mpi_rank(rt) == 1) {
                status = pto_mpi_submit(rt, add, pto_input(&t1), pto_inout(&t1)); /* line C */
            }
            if (status == PTO_OK) {
                status = pto_mpi_submit(rt, add, pto_input(&t1), pto_inout(&t0)); /* line D */
            }
        }
    }
    status = status == PTO_OK ? pto_mpi_wait(rt) : status;
    CHECK(status == PTO_MISMATCH);
    return say(status);
}

/* One rank waits where the others submit. */
static int leave_early(void)
{
    begin(NULL);
    pto_tensor t0 = tile(0), t1 = tile(1);
    pto_status status = PTO_OK;
    if (pto_mpi_rank(rt) != 0) {
        status = pto_mpi_submit(rt, add, pto_input(&t0), pto_inout(&t1));
    }
    status = status == PTO_OK ? pto_mpi_wait(rt) : status;
    CHECK(status == PTO_MISMATCH);
    return say(status);
}

/* A view with two indices at one element is read as it is, and written nowhere: as a dense copy it would have other
 * values than in its tile. */
static int aliases(void)
{
    begin(NULL);
    const int rank = pto_mpi_rank(rt), ranks = pto_mpi_ranks(rt);
    const int64_t n = 8 * ranks;
    pto_tensor all, own, t0 = tile(0), one, many, window, wide, temp;
    int32_t from[64] = {0}, got[64];
    CHECK(pto_mpi_tensor(rt, PTO_INT32, 1, &n, &(pto_mpi_layout){.tile = {8}, .device = where},
                         &all) == PTO_OK);
    CHECK(pto_tensor_slice(&all, 0, 8, 16, 1, &own) == PTO_OK);
    CHECK(pto_tensor_slice(&all, 0, 9, 10, 1, &one) == PTO_OK);
    CHECK(pto_tensor_broadcast(&one, 1, (int64_t[]){4}, &many) == PTO_OK);
    window = own;
    window.ndim = 2;
    memcpy(window.shape, (int64_t[]){3, 2}, 2 * sizeof(int64_t));
    memcpy(window.strides, (int64_t[]){1, 1}, 2 * sizeof(int64_t));
    CHECK(pto_tensor_slice(&all, 0, 4, 12, 1, &wide) == PTO_OK);
    CHECK(pto_tensor_broadcast(&wide, 2, (int64_t[]){2, 8}, &wide) == PTO_OK);
    const pto_tensor *bad[] = {&many, &window, &wide};
    for (int i = 0; i < 3; i++) {
        for (int on = PTO_MPI_OWNER; on < 2; on++) {
            const bool concerned = rank == 1 || rank == on || (rank == 0 && i == 2);
            const pto_status status = concerned ? PTO_OVERLAP : PTO_OK;
            CHECK(pto_mpi_submit_on(rt, on, touch, pto_inout(bad[i])) == status);
            CHECK(pto_mpi_submit_on(rt, on, touch, pto_output(bad[i])) == status);
        }
        CHECK(pto_mpi_scatter(rt, bad[i], 0, from, sizeof from) == PTO_OVERLAP);
    }
    PTO_SCOPE(rt) {
        CHECK(pto_mpi_temp(rt, PTO_INT32, 1, (int64_t[]){1}, &temp) == PTO_OK);
        CHECK(pto_mpi_submit_on(rt, 1, touch, pto_output(&temp)) == PTO_OK);
        CHECK(pto_tensor_broadcast(&temp, 1, (int64_t[]){4}, &temp) == PTO_OK);
        CHECK(pto_mpi_submit(rt, touch, pto_inout(&temp)) == (rank == 1 ? PTO_OVERLAP : PTO_OK));
    }
    pto_mpi_refused(rt);
    /* Elements 0, 2, 4, 3, 5, 7, from the last to the first: one index each, though no dim reaches beyond the other. */
    window.offset += 7;
    memcpy(window.strides, (int64_t[]){-2, -3}, 2 * sizeof(int64_t));
    CHECK(pto_mpi_submit_on(rt, 0, touch, pto_inout(&window)) == PTO_OK);
    /* Four indices, one element. */
    CHECK(pto_mpi_submit(rt, add, pto_input(&t0), pto_inout(&own)) == PTO_OK);
    CHECK(pto_mpi_submit(rt, add, pto_input(&many), pto_inout(&t0)) == PTO_OK);
    CHECK(pto_mpi_read(rt, &t0, got, 16) == PTO_OK && got[0] == got[3]);
    CHECK(pto_mpi_wait(rt) == PTO_OK);
    return end();
}

/* A temporary that is gone is refused on all ranks, also where a copy of it is left, and when another one has taken its
 * place. */
static int stale_temps(void)
{
    begin(NULL);
    const pto_tensor t0 = tile(0), t1 = tile(1);
    pto_tensor temp, next, view;
    int32_t got[4];
    for (int released = 0; released < 2; released++) {
        CHECK(pto_scope_begin(rt) == PTO_OK);
        CHECK(pto_mpi_temp(rt, PTO_INT32, 1, (int64_t[]){4}, &temp) == PTO_OK);
        CHECK(pto_mpi_submit_on(rt, 0, copy, pto_input(&t0), pto_output(&temp)) == PTO_OK);
        CHECK(pto_mpi_submit(rt, add, pto_input(&temp), pto_inout(&t1)) == PTO_OK);
        CHECK(pto_tensor_slice(&temp, 0, 1, 3, 1, &view) == PTO_OK);
        CHECK((released ? pto_release(rt, &temp) : pto_scope_end(rt)) == PTO_OK);
        PTO_SCOPE(rt) {
            CHECK(pto_mpi_submit(rt, add, pto_input(&temp), pto_inout(&t1)) == PTO_STALE);
            CHECK(pto_mpi_submit(rt, copy, pto_input(&t1), pto_output(&temp)) == PTO_STALE);
            CHECK(pto_mpi_submit(rt, touch, pto_input(&view)) == PTO_STALE);
            CHECK(pto_mpi_gather(rt, &temp, 0, got, sizeof got) == PTO_STALE);
            CHECK(pto_mpi_broadcast(rt, &temp, pto_input(&line)) == PTO_STALE);
            CHECK(pto_mpi_owner(rt, &temp) == -1);
            CHECK(pto_mpi_temp(rt, PTO_INT32, 1, (int64_t[]){4}, &next) == PTO_OK);
            CHECK(pto_mpi_submit_on(rt, 1, copy, pto_input(&t0), pto_output(&next)) == PTO_OK);
            CHECK(pto_mpi_submit(rt, add, pto_input(&temp), pto_inout(&t1)) == PTO_STALE);
        }
        CHECK(!released || pto_scope_end(rt) == PTO_OK);
        CHECK(pto_mpi_wait(rt) == PTO_REFUSED);
        CHECK(strstr(pto_error_detail(), "is not alive"));
        CHECK(pto_mpi_refused(rt));
    }
    CHECK(pto_mpi_read(rt, &t1, got, sizeof got) == PTO_OK && got[0] == 2);
    return end();
}

/* Arguments that no rank accepts are refused by all that are to do something, and change nothing. */
static int bad_arguments(void)
{
    begin(NULL);
    const bool owns = pto_mpi_rank(rt) == 1;
    const int64_t shape[] = {8, 4};
    const pto_tensor t1 = tile(1);
    const pto_param params[] = {pto_inout(&t1)};
    pto_kernel declared;
    pto_tensor large, temp, p;
    int32_t got[64], plain[4] = {0};
    add_kernel_here("declared", touch_kernel, &declared);
    CHECK(pto_kernel_declare(rt, declared, "inout i32[2] x") == PTO_OK);
    CHECK(pto_mpi_tensor(rt, PTO_INT32, 2, shape, &(pto_mpi_layout){.tile = {INT64_C(1) << 62, 2}},
                         &large) == PTO_OK); /* as large as the tensor */
    CHECK(pto_mpi_submit(rt, touch, pto_inout(&large)) == PTO_OK);
    CHECK(pto_mpi_submit(rt, (pto_kernel)12345, pto_inout(&t1)) ==
          (owns ? PTO_BAD_KERNEL : PTO_OK));
    CHECK(pto_mpi_submit_task(rt, PTO_MPI_OWNER, touch, (pto_worker_type)77, params, 1) ==
          (owns ? PTO_BAD_WORKER : PTO_OK));
    CHECK(pto_mpi_submit_task(rt, PTO_MPI_OWNER, touch, PTO_CUBE, params, 1) ==
          (owns ? PTO_BAD_WORKER : PTO_OK));
    CHECK(pto_mpi_submit(rt, declared, pto_inout(&t1)) == (owns ? PTO_MISMATCH : PTO_OK));
    CHECK(!owns || strstr(pto_error_detail(), "kernel 'declared' declares"));
    PTO_SCOPE(rt) {
        CHECK(pto_mpi_temp(rt, PTO_INT32, 1, (int64_t[]){4}, &temp) == PTO_OK);
        CHECK(pto_mpi_submit_on(rt, 1, declared, pto_output(&temp)) == PTO_MISMATCH);
    }
    CHECK(pto_external_tensor(rt, plain, PTO_INT32, 1, (int64_t[]){4}, &p) == PTO_OK);
    CHECK(pto_mpi_submit_on(rt, 99, touch, pto_inout(&p)) == PTO_BAD_PARAM);
    CHECK(pto_mpi_read(rt, &line, got, 4) == PTO_BUFFER_TOO_SMALL);
    CHECK(pto_mpi_read(rt, &line, NULL, sizeof got) == PTO_NULL_ARGUMENT);
    CHECK(pto_mpi_wait(rt) == PTO_REFUSED);
    CHECK(pto_mpi_refused(rt) && pto_mpi_wait(rt) == PTO_OK);
    CHECK(pto_mpi_read(rt, &line, got, sizeof got) == PTO_OK);
    return end();
}

static pto_status tenth_kernel(const pto_call *call)
{
    (void)call;
    nanosleep(&(struct timespec){0, 100000000}, NULL);
    return PTO_OK;
}

/* One rank or all are cancelled, while they wait for each other. */
static int cancels(bool all)
{
    begin(NULL);
    const pto_tensor t0 = tile(0), t1 = tile(1);
    const bool here = all || pto_mpi_rank(rt) == 1;
    pto_kernel tenth;
    add_kernel_here("tenth", tenth_kernel, &tenth);
    for (int i = 0; i < 20; i++) {
        CHECK(pto_mpi_submit(rt, tenth, pto_input(&t0), pto_inout(&t1)) == PTO_OK);
        CHECK(pto_mpi_submit(rt, tenth, pto_input(&t1), pto_inout(&t0)) == PTO_OK);
    }
    if (here) {
        nanosleep(&(struct timespec){0, 50000000}, NULL);
        pto_cancel(rt);
    }
    pto_status status = pto_mpi_wait(rt);
    CHECK(status == (here ? PTO_CANCELLED : PTO_WORKER_LOST));
    status = pto_mpi_clear_error(rt);
    CHECK(status == (here ? PTO_CANCELLED : PTO_WORKER_LOST));
    printf("rank %d: %s: %s\n", pto_mpi_rank(rt), pto_status_text(status), pto_error_detail());
    /* The runtime goes on without its world. */
    CHECK(pto_mpi_destroy(rt) == status);
    CHECK(pto_clear_error(rt) == PTO_OK);
    CHECK(pto_submit(rt, tenth) == PTO_OK && pto_wait(rt) == PTO_OK);
    CHECK(pto_runtime_destroy(&rt, PTO_WAIT) == PTO_OK);
    return 7;
}

/* A rank is cancelled and clears the error at once, with a function of pto/mpi.h or after a wait of the library: the others
 * wait for messages that were skipped. */
static int cancels_and_clears(bool plainly)
{
    begin(NULL);
    const pto_tensor t0 = tile(0), t1 = tile(1);
    const bool here = pto_mpi_rank(rt) == 1;
    pto_kernel tenth;
    add_kernel_here("tenth", tenth_kernel, &tenth);
    CHECK(pto_mpi_submit(rt, tenth, pto_input(&t0), pto_inout(&t1)) == PTO_OK);
    CHECK(pto_mpi_submit(rt, tenth, pto_input(&t1), pto_inout(&t0)) == PTO_OK);
    if (here) {
        pto_cancel(rt);
    }
    if (here && plainly) {
        CHECK(pto_wait(rt) == PTO_CANCELLED);
        CHECK(pto_clear_error(rt) == PTO_OK);
    }
    const pto_status want = here ? PTO_CANCELLED : PTO_WORKER_LOST;
    if (!plainly) {
        const pto_status cleared = pto_mpi_clear_error(rt);
        CHECK(cleared == want || (!here && cleared == PTO_OK)); /* it has not heard of it yet */
    }
    CHECK(pto_mpi_wait(rt) == want);
    printf("rank %d: %s\n", pto_mpi_rank(rt), pto_error_detail());
    CHECK(pto_mpi_runtime_destroy(&rt, PTO_CANCEL) == want);
    return 7;
}

/* A rank is cancelled while temporaries are on their way. Their memory is there as long as MPI may read it: until the
 * process ends. */
static int cancels_temporaries(void)
{
    begin(NULL);
    enum { WIDE = 1000 };
    const int64_t all = (int64_t)WIDE * pto_mpi_ranks(rt), one = WIDE;
    pto_tensor t, a, b;
    pto_status status = PTO_OK;
    CHECK(pto_mpi_tensor(rt, PTO_INT32, 1, &all, &(pto_mpi_layout){.tile = {WIDE}}, &t) == PTO_OK);
    CHECK(pto_tensor_slice(&t, 0, 0, WIDE, 1, &a) == PTO_OK);
    CHECK(pto_tensor_slice(&t, 0, WIDE, 2 * WIDE, 1, &b) == PTO_OK);
    const int rank = pto_mpi_rank(rt);
    for (int i = 0; i < 2000 && status == PTO_OK; i++) {
        pto_tensor q;
        CHECK(pto_scope_begin(rt) == PTO_OK);
        status = pto_mpi_temp(rt, PTO_INT32, 1, &one, &q);
        if (status == PTO_OK) {
            status = pto_mpi_submit(rt, copy, pto_input(&a), pto_output(&q));
        }
        if (status == PTO_OK) {
            status = pto_mpi_submit(rt, copy, pto_input(&q), pto_inout(&b));
        }
        PTO_IGNORE(pto_scope_end(rt));
        if (i == 1000 && rank == 1) {
            pto_cancel(rt);
        }
    }
    status = status == PTO_OK ? pto_mpi_wait(rt) : status;
    CHECK(status == PTO_CANCELLED || status == PTO_WORKER_LOST);
    CHECK(pto_mpi_runtime_destroy(&rt, PTO_CANCEL) == status);
    printf("rank %d has left\n", rank);
    return 7;
}

/* ---- Memory --------------------------------------------------------------------------------------------- */

static atomic_int sends;          /* of small messages */
static atomic_uint_fast64_t late; /* ns from the first of them to the 2000th */

static void count_send(void)
{
    static struct timespec first;
    struct timespec t;
    const int n = atomic_fetch_add(&sends, 1);
    clock_gettime(CLOCK_MONOTONIC, n ? &t : &first);
    if (n == 2000) {
        atomic_store(
            &late, (uint64_t)((t.tv_sec - first.tv_sec) * 1000000000L + t.tv_nsec - first.tv_nsec));
    }
}

static pto_status slow_kernel(const pto_call *call)
{
    int32_t *n = call->args[1].data;
    nanosleep(&(struct timespec){*n == 0, 0}, NULL);
    ++*n;
    return PTO_OK;
}

/* The reader of small messages is behind. Its sender does not run ahead for ever: MPI would keep all that it sends. */
static int slow_reader(void)
{
    begin(&(pto_mpi_config){.size = sizeof(pto_mpi_config), .cache_bytes = 64});
    const pto_tensor t0 = tile(0), t1 = tile(1);
    pto_tensor other, o1, o2;
    pto_kernel slow, nap;
    const int64_t n = pto_mpi_ranks(rt);
    add_kernel_here("slow", slow_kernel, &slow);
    add_kernel_here("nap", nap_kernel, &nap);
    CHECK(pto_mpi_tensor(rt, PTO_INT32, 1, &n, &(pto_mpi_layout){.tile = {1}}, &other) == PTO_OK);
    CHECK(pto_tensor_slice(&other, 0, 1, 2, 1, &o1) == PTO_OK);
    CHECK(pto_tensor_slice(&other, 0, 2, 3, 1, &o2) == PTO_OK);
    CHECK(pto_mpi_wait(rt) == PTO_OK);
    /* Meanwhile the reader waits for a third rank, and so gives MPI time to take all that comes. */
    CHECK(pto_mpi_submit(rt, nap, pto_inout(&o2)) == PTO_OK);
    CHECK(pto_mpi_submit(rt, touch, pto_input(&o2), pto_inout(&o1)) == PTO_OK);
    atomic_store(&sends, 0);
    for (int i = 0; i < 3000; i++) {
        CHECK(pto_mpi_submit(rt, touch, pto_inout(&t0)) == PTO_OK);
        CHECK(pto_mpi_submit(rt, slow, pto_input(&t0), pto_inout(&t1)) == PTO_OK);
    }
    CHECK(pto_mpi_wait(rt) == PTO_OK);
    CHECK(pto_mpi_rank(rt) || (atomic_load(&sends) == 3000 && atomic_load(&late) > 900000000));
    return end();
}

/* Worlds that come and go leave nothing. */
static int many_worlds(void)
{
    size_t before = 0, after = 0;
    for (int i = 0; i < 40; i++) {
        begin(NULL);
        const pto_tensor t0 = tile(0), t1 = tile(1);
        CHECK(pto_mpi_submit(rt, add, pto_input(&t0), pto_inout(&t1)) == PTO_OK);
        CHECK(end() == 0);
        const struct mallinfo2 now = mallinfo2();
        after = now.uordblks + now.hblkhd;
        before = i == 9 ? after : before;
    }
    if (after > before + 30 * 20000) {
        fprintf(stderr, "a world leaves %zu bytes\n", (after - before) / 30);
        return 3;
    }
    return 0;
}

/* ---- Devices -------------------------------------------------------------------------------------------- */

static uint64_t staged(void)
{
    pto_mpi_stats s;
    CHECK(pto_mpi_get_stats(rt, &s) == PTO_OK);
    return s.staged;
}

/* What is staged, and how often; and nothing stays on the device. */
static int staging(void)
{
    pto_sim_stats before, after;
    int32_t from[64], got[64];
    const pto_mpi_config config = {.size = sizeof config, .cache_bytes = 128, .scratch_bytes = 128};
    pto_tensor both, part, rest;
    where = (pto_device){PTO_DEVICE_SIM, 2};
    CHECK(pto_sim_stats_get(2, &before) == PTO_OK && before.used == 0);
    begin(&config);
    const int rank = pto_mpi_rank(rt), ranks = pto_mpi_ranks(rt);
    pto_tensor t0 = tile(0), t1 = tile(1);
    CHECK(pto_mpi_read(rt, &line, got, sizeof got) == PTO_OK && got[0] == 0 && got[7] == 0);
    CHECK(staged() == 0); /* its copies go to the program's memory */
    /* Three tasks of rank 1 read the tile of rank 0: one message, staged at both ends. */
    for (int i = 0; i < 3; i++) {
        CHECK(pto_mpi_submit(rt, add, pto_input(&t0), pto_inout(&t1)) == PTO_OK);
    }
    CHECK(staged() == (rank < 2));
    CHECK(pto_mpi_read(rt, &t1, got, sizeof got) == PTO_OK && got[3] == 3);
    /* A view across tiles: a task of rank 0, which gets a piece from rank 1 and sends it back. */
    CHECK(pto_tensor_slice(&line, 0, 2, 6, 1, &both) == PTO_OK);
    CHECK(pto_tensor_slice(&line, 0, 2, 5, 1, &part) == PTO_OK);
    CHECK(pto_tensor_slice(&line, 0, 5, 8, 1, &rest) == PTO_OK);
    CHECK(pto_mpi_submit(rt, copy, pto_input(&rest), pto_output(&part)) == PTO_OK);
    CHECK(staged() == (rank < 2 ? 3 : 0)); /* `rest` to rank 0, the end of `part` back */
    CHECK(pto_mpi_submit(rt, add, pto_input(&t1), pto_inout(&both)) == PTO_OVERLAP || rank > 1);
    pto_mpi_refused(rt);
    CHECK(pto_mpi_submit(rt, touch, pto_inout(&both)) == PTO_OK);
    CHECK(staged() == (rank < 2 ? 5 : 0));
    CHECK(pto_mpi_read(rt, &line, got, sizeof got) == PTO_OK);
    CHECK(got[0] == 0 && got[2] == 3 && got[4] == 3 && got[5] == 3 && (ranks < 3 || got[8] == 0));
    /* A broadcast stages once at its home, however many ranks read. */
    CHECK(pto_mpi_wait(rt) == PTO_OK);
    const uint64_t sent = staged();
    CHECK(pto_mpi_broadcast(rt, &t0, pto_input(&line)) == PTO_OK);
    CHECK(staged() == sent + 1);
    /* There and back, through every rank. */
    for (int32_t i = 0; i < ranks * 4; i++) {
        from[i] = i * i + 1;
    }
    CHECK(pto_mpi_scatter(rt, &line, ranks - 1, from, sizeof from) == PTO_OK);
    CHECK(pto_mpi_gather(rt, &line, 1, got, sizeof got) == PTO_OK);
    CHECK(rank != 1 || !memcmp(from, got, (size_t)ranks * 16));
    CHECK(pto_sim_stats_get(2, &after) == PTO_OK && after.kernels > before.kernels);
    CHECK(after.peak <= 8192);
    CHECK(end() == 0);
    CHECK(pto_sim_stats_get(2, &after) == PTO_OK && after.used == 0);
    where = (pto_device){0};
    return 0;
}

/* What a device makes impossible is refused on all ranks. */
static int device_refusals(void)
{
    const pto_mpi_config config = {.size = sizeof config, .cache_bytes = 64, .scratch_bytes = 64};
    int32_t got[64], plain[4] = {0};
    const int64_t n = 40;
    pto_tensor there, other, p;
    where = (pto_device){0};
    begin(&config);
    const int rank = pto_mpi_rank(rt);
    const pto_device sim = {PTO_DEVICE_SIM, 0}, none = {PTO_DEVICE_SIM, PTO_SIM_DEVICES};
    CHECK(pto_mpi_tensor(rt, PTO_INT32, 1, &n, &(pto_mpi_layout){.tile = {20}, .device = none},
                         &there) == PTO_BAD_DEVICE);
    CHECK(pto_mpi_refused(rt));
    PTO_SCOPE(rt) {
        CHECK(pto_mpi_temp_on(rt, none, PTO_INT32, 1, &n, &there) == PTO_BAD_DEVICE);
        CHECK(pto_mpi_refused(rt));
    }
    CHECK(pto_mpi_tensor(rt, PTO_INT32, 1, &n, &(pto_mpi_layout){.tile = {20}, .device = sim},
                         &there) == PTO_OK);
    CHECK(pto_tensor_slice(&there, 0, 0, 4, 1, &other) == PTO_OK);
    pto_tensor t0 = tile(0);
    CHECK(pto_external_tensor(rt, plain, PTO_INT32, 1, (int64_t[]){4}, &p) == PTO_OK);
    pto_status status = pto_mpi_submit(rt, add, pto_input(&other), pto_inout(&t0));
    CHECK(status == (rank ? PTO_OK : PTO_DEVICES_DIFFER));
    CHECK(rank || strstr(pto_error_detail(), "parameter 0 is on sim:0, parameter 1 on cpu:0"));
    status = pto_mpi_submit(rt, add, pto_input(&p), pto_inout(&other));
    CHECK(status == (rank ? PTO_OK : PTO_DEVICES_DIFFER));
    pto_mpi_refused(rt);
    /* Tiles of 80 bytes: a read needs no scratch memory, a gather does. */
    CHECK(pto_mpi_read(rt, &there, got, sizeof got) == PTO_OK && got[39] == 0);
    CHECK(pto_mpi_gather(rt, &there, 0, got, sizeof got) == PTO_TOO_LARGE);
    CHECK(strstr(pto_error_detail(), "scratch_bytes is 64"));
    CHECK(pto_mpi_refused(rt));
    CHECK(pto_mpi_submit(rt, touch, pto_inout(&other)) == PTO_OK);
    return end();
}

/* A copy of the device fails: a task like any other, on one rank, and all hear of it. */
static int device_fails(void)
{
    int32_t got[64];
    where = (pto_device){PTO_DEVICE_SIM, 3};
    begin(NULL);
    pto_tensor t0 = tile(0), t1 = tile(1);
    CHECK(pto_mpi_wait(rt) == PTO_OK);
    CHECK(pto_mpi_rank(rt) || pto_sim_fail(3, PTO_SIM_FAIL_COPY, 1) == PTO_OK);
    CHECK(pto_mpi_submit(rt, add, pto_input(&t0), pto_inout(&t1)) == PTO_OK);
    CHECK(pto_mpi_read(rt, &t1, got, sizeof got) == PTO_POISONED);
    CHECK(pto_mpi_wait(rt) == PTO_TASK_FAILED && strstr(pto_error_detail(), "rank 0: kernel"));
    CHECK(pto_mpi_clear_error(rt) == PTO_OK);
    CHECK(pto_mpi_submit(rt, touch, pto_output(&t1)) == PTO_OK);
    CHECK(pto_mpi_submit(rt, add, pto_input(&t0), pto_inout(&t1)) == PTO_OK);
    CHECK(pto_mpi_read(rt, &line, got, sizeof got) == PTO_OK && got[4] == 1);
    /* The device of a rank is lost, and back: the others go on meanwhile. */
    CHECK(pto_mpi_wait(rt) == PTO_OK);
    CHECK(pto_mpi_rank(rt) || pto_sim_fail(3, PTO_SIM_FAIL_LOST, 1) == PTO_OK);
    CHECK(pto_mpi_submit(rt, touch, pto_inout(&t0)) == PTO_OK);
    CHECK(pto_mpi_submit(rt, touch, pto_inout(&t1)) == PTO_OK);
    CHECK(pto_mpi_read(rt, &t1, got, sizeof got) == PTO_OK && got[0] == 1);
    CHECK(pto_mpi_submit(rt, add, pto_input(&t0), pto_inout(&t1)) == PTO_OK);
    CHECK(pto_mpi_read(rt, &t1, got, sizeof got) == PTO_POISONED);
    CHECK(pto_mpi_wait(rt) == PTO_TASK_FAILED && strstr(pto_error_detail(), "rank 0: kernel"));
    CHECK(pto_sim_repair(3) == PTO_OK && pto_mpi_clear_error(rt) == PTO_OK);
    where = (pto_device){0};
    return end();
}

static pto_tensor one_tile_on(pto_device device)
{
    pto_tensor t;
    CHECK(pto_mpi_tensor(rt, PTO_INT32, 1, (int64_t[]){4}, &(pto_mpi_layout){.device = device},
                         &t) == PTO_OK);
    return t;
}

/* The rank that runs the task finds no variant. */
static int no_variant(void)
{
    pto_kernel host_only;
    begin(NULL);
    CHECK(pto_kernel_register(rt, "host_only", PTO_VECTOR, touch_kernel, NULL, &host_only) ==
          PTO_OK);
    pto_tensor t = one_tile_on((pto_device){PTO_DEVICE_SIM, 0});
    pto_status status = pto_mpi_submit(rt, host_only, pto_inout(&t));
    status = status == PTO_OK ? pto_mpi_wait(rt) : status;
    CHECK(status == (pto_mpi_rank(rt) ? PTO_WORKER_LOST : PTO_NOT_IMPLEMENTED));
    return say(status);
}

/* A device that is not here. */
static int no_device(void)
{
    pto_tensor t;
    begin(NULL);
    const pto_status status = pto_mpi_tensor(rt, PTO_INT32, 1, (int64_t[]){4},
                                             &(pto_mpi_layout){.device = {PTO_DEVICE_CAMBRICON, 0}},
                                             &t);
    CHECK(status == PTO_BAD_DEVICE || status == PTO_WORKER_LOST);
    return say(status);
}

/* A call that fails on one rank alone, whose own memory is gone. Another rank takes its time to end. */
static int one_cannot(void)
{
    begin(NULL);
    pto_tensor t0 = tile(0), t1 = tile(1), own;
    int32_t plain[4] = {0};
    pto_status status;
    CHECK(pto_external_tensor(rt, plain, PTO_INT32, 1, (int64_t[]){4}, &own) == PTO_OK);
    if (pto_mpi_rank(rt) == 1) {
        own.storage = NULL;
    }
    status = pto_mpi_submit(rt, add, pto_input(&own), pto_inout(&t1)); /* read on rank 1 only */
    status = status == PTO_OK ? pto_mpi_submit(rt, add, pto_input(&t1), pto_inout(&t0)) : status;
    status = status == PTO_OK ? pto_mpi_wait(rt) : status;
    CHECK(status == (pto_mpi_rank(rt) == 1 ? PTO_NULL_ARGUMENT : PTO_WORKER_LOST));
    nanosleep(&(struct timespec){pto_mpi_rank(rt) == 2, 0}, NULL);
    status = pto_mpi_wait(rt);
    return say(status);
}

/* Small pieces that a task copies are one message for each rank that has some, in both directions; a failure takes
 * the tasks that read it, and no others. */
static int together(void)
{
    for (int small = 0; small < 2; small++) {
        const pto_mpi_config config = {.size = sizeof config, .small_bytes = small ? 0 : 1};
        begin(&config);
        const int ranks = pto_mpi_ranks(rt), rank = pto_mpi_rank(rt);
        const int64_t n = 8 * ranks + 4;
        int32_t got[256];
        pto_mpi_stats stats;
        pto_tensor shared, from, to, first;
        /* Tiles of two numbers, around the ranks: each rank has four or more of the view. */
        CHECK(n + 4 <= 256 && pto_mpi_tensor(rt, PTO_INT32, 1, &n, &(pto_mpi_layout){.tile = {2}},
                                             &shared) == PTO_OK);
        CHECK(pto_tensor_slice(&shared, 0, 1, n - 1, 1, &from) == PTO_OK);
        CHECK(pto_mpi_submit(rt, touch, pto_output(&shared)) == PTO_OK);
        CHECK(pto_mpi_wait(rt) == PTO_OK);
        CHECK(pto_mpi_get_stats(rt, &stats) == PTO_OK);
        const uint64_t sent = stats.sent, received = stats.received;
        /* Runs on rank 0, which owns the first tile: reads all, and writes all. */
        CHECK(pto_mpi_submit(rt, add, pto_input(&from), pto_inout(&from)) == PTO_OVERLAP);
        CHECK(pto_mpi_refused(rt));
        CHECK(pto_mpi_submit_on(rt, 0, touch, pto_inout(&from)) == PTO_OK);
        CHECK(pto_mpi_wait(rt) == PTO_OK);
        CHECK(pto_mpi_get_stats(rt, &stats) == PTO_OK);
        const uint64_t others = (uint64_t)ranks - 1;
        uint64_t pieces = 0;
        for (int64_t i = 0; i < n / 2; i++) {
            pieces += rank ? i % ranks == rank : i % ranks != 0;
        }
        CHECK(stats.sent - sent == (!small ? pieces : rank ? 1 : others));
        CHECK(stats.received - received == (!small ? pieces : rank ? 1 : others));
        /* One bad piece: the task that reads all of them is skipped, another one is not. */
        CHECK(pto_tensor_slice(&shared, 0, 2, 4, 1, &first) == PTO_OK);
        CHECK(pto_tensor_slice(&shared, 0, 4, n, 1, &to) == PTO_OK);
        CHECK(pto_mpi_submit(rt, fail_if, pto_output(&first)) == PTO_OK);
        CHECK(pto_mpi_submit_on(rt, 0, add, pto_input(&from), pto_inout(&line)) == PTO_OK);
        CHECK(pto_mpi_submit_on(rt, 0, touch, pto_inout(&to)) == PTO_OK);
        CHECK(pto_mpi_read(rt, &to, got, sizeof got) == PTO_OK);
        CHECK(pto_mpi_read(rt, &line, got, sizeof got) == PTO_POISONED);
        CHECK(pto_mpi_wait(rt) == PTO_TASK_FAILED);
        CHECK(pto_mpi_clear_error(rt) == PTO_OK);
        if (end()) {
            return 3;
        }
    }
    return 0;
}

static int different_configs(void)
{
    const char *number = getenv("OMPI_COMM_WORLD_RANK") ? getenv("OMPI_COMM_WORLD_RANK")
                                                        : getenv("PMI_RANK");
    const pto_mpi_config config = {.size = sizeof config,
                                   .cache_bytes = number && *number == '1' ? 1 << 20 : 1 << 21};
    const pto_mpi_config wrong = {.size = sizeof wrong, .ranks = 17};
    CHECK(pto_runtime_create(&rt, NULL) == PTO_OK);
    CHECK(pto_mpi_create(rt, &config) == PTO_BAD_CONFIG);
    CHECK(strstr(pto_error_detail(), "rank 1 has cache_bytes 1048576"));
    CHECK(pto_mpi_create(rt, &wrong) == PTO_BAD_CONFIG);
    CHECK(strstr(pto_error_detail(), "needs 17 ranks"));
    /* One rank cannot join, so nobody does. */
    CHECK(pto_runtime_destroy(&rt, PTO_WAIT) == PTO_OK);
    pto_config c = PTO_CONFIG_INIT;
    c.place = number && *number == '1' ? PTO_PLACE_PROCESS : PTO_PLACE_INLINE;
    CHECK(pto_runtime_create(&rt, &c) == PTO_OK);
    CHECK(pto_mpi_create(rt, NULL) == PTO_BAD_CONFIG);
    CHECK(strstr(pto_error_detail(), number && *number == '1'
                                         ? "the scheduler runs in worker processes"
                                         : "rank 1 cannot join"));
    return pto_runtime_destroy(&rt, PTO_WAIT) == PTO_OK ? 0 : 3;
}

/* A program that has initialized MPI itself, with less than is needed. (An MPI may offer more than it was asked for.) */
static int thread_level(void)
{
    int level, world;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level);
    CHECK(pto_runtime_create(&rt, NULL) == PTO_OK);
    const pto_status status = pto_mpi_create(rt, NULL);
    CHECK(status == (level < MPI_THREAD_SERIALIZED ? PTO_BAD_CONFIG : PTO_OK));
    CHECK(status == PTO_OK ||
          strstr(pto_error_detail(), "MPI_THREAD_SERIALIZED is needed: ask for "));
    CHECK(pto_mpi_runtime_destroy(&rt, PTO_WAIT) == PTO_OK);
    /* MPI is still the program's own. */
    CHECK(MPI_Comm_size(MPI_COMM_WORLD, &world) == MPI_SUCCESS && world > 1);
    MPI_Finalize();
    return 0;
}

/* One rank has initialized MPI with less than is needed: none joins, and none waits for it. Nor does one that has
 * finalized MPI. */
static int one_level(void)
{
    const char *number = getenv("OMPI_COMM_WORLD_RANK") ? getenv("OMPI_COMM_WORLD_RANK")
                                                        : getenv("PMI_RANK");
    const bool less = number && *number == '1';
    int level, odd, any;
    MPI_Init_thread(NULL, NULL, less ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE, &level);
    odd = less == (level >= MPI_THREAD_SERIALIZED); /* an MPI that does not do as it is asked */
    MPI_Allreduce(&odd, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (any) {
        MPI_Finalize();
        return 0;
    }
    CHECK(pto_runtime_create(&rt, NULL) == PTO_OK);
    CHECK(pto_mpi_create(rt, NULL) == PTO_BAD_CONFIG);
    CHECK(strstr(pto_error_detail(),
                 less ? "MPI_THREAD_SERIALIZED is needed" : "rank 1 cannot join"));
    MPI_Finalize();
    CHECK(pto_mpi_create(rt, NULL) == PTO_BAD_CONFIG);
    CHECK(strstr(pto_error_detail(), "MPI_Finalize"));
    return pto_runtime_destroy(&rt, PTO_WAIT) == PTO_OK ? 0 : 3;
}

/* ---- Hostile programs ------------------------------------------------------------------------------- */

static uint32_t chance_state;

static uint32_t chance(uint32_t n)
{
    chance_state = chance_state * 1664525u + 1013904223u;
    return (chance_state >> 10) % n;
}

/* Any call may be refused, but no rank may go another way than the others, or wait for what does not come. */
static void any(pto_status status)
{
    CHECK(status != PTO_MISMATCH && status != PTO_WORKER_LOST && status != PTO_STALLED &&
          status != PTO_OUT_OF_MEMORY && status != PTO_SYSTEM);
}

enum { TENSORS = 4, TEMPS = 6 };

/* A task with any parameters: too large, overlapping, never written. */
static void any_task(const pto_tensor *tensors, const pto_tensor *temps, uint32_t n_temps)
{
    const uint32_t ranks = (uint32_t)pto_mpi_ranks(rt), n = 1 + chance(3);
    pto_param params[3];
    pto_tensor views[3];
    for (uint32_t i = 0; i < n; i++) {
        views[i] = n_temps && chance(3) == 0 ? temps[chance(n_temps)] : tensors[chance(TENSORS)];
        if (chance(2)) {
            const int64_t from = chance((uint32_t)views[i].shape[0]);
            const int64_t to = from + 1 + chance((uint32_t)(views[i].shape[0] - from));
            any(pto_tensor_slice(&views[i], 0, from, to, 1 + chance(2), &views[i]));
        }
        const uint32_t kind = chance(3);
        params[i] = kind == 0   ? pto_input(&views[i])
                    : kind == 1 ? pto_output(&views[i])
                                : pto_inout(&views[i]);
    }
    const int rank = chance(3) ? PTO_MPI_OWNER : (int)chance(ranks + 1);
    const pto_kernel kernel = chance(20) ? touch : fail_if;
    const pto_tensor *from = &tensors[chance(TENSORS)], *to = &tensors[chance(TENSORS)];
    if (chance(6)) {
        any(pto_mpi_submit_task(rt, rank, kernel, PTO_VECTOR, params, n));
    } else {
        pto_mpi_only(rt, pto_input(from), pto_inout(to))
        {
            any(pto_mpi_submit_task(rt, rank, kernel, PTO_VECTOR, params, n));
        }
    }
}

static void any_call(const pto_tensor *tensors, pto_tensor *temps, uint32_t *n_temps)
{
    static int32_t memory[128];
    const pto_tensor *t = &tensors[chance(TENSORS)];
    const int root = (int)chance((uint32_t)pto_mpi_ranks(rt) + 1);
    const int64_t size = 1 + chance(40);
    switch (chance(16)) {
    case 0:
        if (*n_temps < TEMPS) {
            any(pto_mpi_temp(rt, PTO_INT32, 1, &size, &temps[(*n_temps)++]));
        }
        break;
    case 1:
        any(pto_mpi_read(rt, t, memory, sizeof memory));
        break;
    case 2:
        any(pto_mpi_gather(rt, t, root, memory, sizeof memory));
        break;
    case 3:
        any(pto_mpi_scatter(rt, t, root, memory, sizeof memory));
        break;
    case 4:
        any(pto_mpi_broadcast(rt, t, pto_input(&tensors[chance(TENSORS)])));
        break;
    case 5:
        if (*n_temps) {
            any(pto_mpi_read(rt, &temps[chance(*n_temps)], memory, sizeof memory));
        }
        break;
    default:
        any_task(tensors, temps, *n_temps);
    }
}

static int hostile(void)
{
    for (uint32_t seed = 1; seed <= 40; seed++) {
        chance_state = seed;
        const pto_mpi_config config = {.size = sizeof config,
                                       .cache_bytes = 64 * (1 + chance(4)),
                                       .scratch_bytes = 64 * (1 + chance(5)),
                                       .small_bytes = chance(2)};
        begin(&config);
        pto_tensor tensors[TENSORS], temps[TEMPS];
        for (int i = 0; i < TENSORS; i++) {
            const int64_t size = 20 + chance(60), tile = 1 + chance(30);
            CHECK(pto_mpi_tensor(rt, PTO_INT32, 1, &size, &(pto_mpi_layout){.tile = {tile}},
                                 &tensors[i]) == PTO_OK);
        }
        for (int round = 0; round < 3; round++) {
            uint32_t n_temps = 0;
            PTO_SCOPE(rt) {
                for (int i = 0; i < 40; i++) {
                    any_call(tensors, temps, &n_temps);
                }
            }
            any(pto_mpi_wait(rt));
            pto_mpi_refused(rt);
            CHECK(pto_mpi_clear_error(rt) == PTO_OK);
        }
        CHECK(end() == 0);
    }
    return 0;
}

/* A rank that dies, or just ends, while others wait for it. */
static int leave(bool dies)
{
    begin(NULL);
    pto_tensor t0 = tile(0), t1 = tile(1);
    CHECK(pto_mpi_submit(rt, add, pto_input(&t0), pto_inout(&t1)) == PTO_OK);
    if (pto_mpi_rank(rt) == 1) {
        nanosleep(&(struct timespec){0, 200000000}, NULL);
        if (dies) {
            raise(SIGKILL);
        }
        exit(0);
    }
    CHECK(pto_mpi_submit(rt, add, pto_input(&t1), pto_inout(&t0)) == PTO_OK);
    return say(pto_mpi_wait(rt));
}

static int run(const char *name)
{
    return !strcmp(name, "refusals")            ? refusals()
           : !strcmp(name, "stale")             ? stale()
           : !strcmp(name, "two_worlds")        ? two_worlds()
           : !strcmp(name, "wrong_place")       ? wrong_place()
           : !strcmp(name, "in_kernel")         ? in_kernel()
           : !strcmp(name, "failures")          ? failures()
           : !strcmp(name, "locks")             ? locks()
           : !strcmp(name, "empty")             ? empty()
           : !strcmp(name, "destroyed_early")   ? destroyed_early()
           : !strcmp(name, "no_progress")       ? no_progress()
           : !strcmp(name, "after_failure")     ? after_failure()
           : !strcmp(name, "patience")          ? patience()
           : !strcmp(name, "other_kernels")     ? other_kernels()
           : !strcmp(name, "other_scalars")     ? other_scalars()
           : !strcmp(name, "far_behind")        ? far_behind()
           : !strcmp(name, "finalizes")         ? finalizes(true)
           : !strcmp(name, "one_finalizes")     ? finalizes(false)
           : !strcmp(name, "diverge")           ? diverge()
           : !strcmp(name, "ranges")            ? ranges()
           : !strcmp(name, "counted")           ? counted()
           : !strcmp(name, "trees")             ? trees()
           : !strcmp(name, "scratch_heals")     ? scratch_heals()
           : !strcmp(name, "backwards")         ? backwards()
           : !strcmp(name, "forks")             ? forks()
           : !strcmp(name, "cache_heals")       ? cache_heals()
           : !strcmp(name, "broadcast_heals")   ? broadcast_heals()
           : !strcmp(name, "scratch_cuts")      ? scratch_cuts()
           : !strcmp(name, "diverge_inside")    ? diverge_inside()
           : !strcmp(name, "leave_early")       ? leave_early()
           : !strcmp(name, "one_cannot")        ? one_cannot()
           : !strcmp(name, "different_configs") ? different_configs()
           : !strcmp(name, "together")          ? together()
           : !strcmp(name, "thread_level")      ? thread_level()
           : !strcmp(name, "one_level")         ? one_level()
           : !strcmp(name, "aliases")           ? aliases()
           : !strcmp(name, "stale_temps")       ? stale_temps()
           : !strcmp(name, "bad_arguments")     ? bad_arguments()
           : !strcmp(name, "cancel_one")        ? cancels(false)
           : !strcmp(name, "cancel_all")        ? cancels(true)
           : !strcmp(name, "cancel_clear")      ? cancels_and_clears(false)
           : !strcmp(name, "cancel_plainly")    ? cancels_and_clears(true)
           : !strcmp(name, "cancel_temps")      ? cancels_temporaries()
           : !strcmp(name, "slow_reader")       ? slow_reader()
           : !strcmp(name, "many_worlds")       ? many_worlds()
           : !strcmp(name, "hostile")           ? hostile()
           : !strcmp(name, "staging")           ? staging()
           : !strcmp(name, "device_refusals")   ? device_refusals()
           : !strcmp(name, "device_fails")      ? device_fails()
           : !strcmp(name, "no_variant")        ? no_variant()
           : !strcmp(name, "no_device")         ? no_device()
           : !strcmp(name, "dies")              ? leave(true)
           : !strcmp(name, "ends")              ? leave(false)
                                                : 2;
}

int main(int argc, char **argv)
{
    int answer = argc > 1 ? 0 : 2;
    for (int i = 1; i < argc && answer == 0; i++) {
        if (!strcmp(argv[i], "on_sim")) {
            where = (pto_device){PTO_DEVICE_SIM, 0};
        } else {
            answer = run(argv[i]);
        }
    }
    return answer;
}
