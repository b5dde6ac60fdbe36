/* cases.c - single rules of docs/mpi.md, on any number of ranks from 2 on.
 *
 *     mpirun -n 3 cases NAME...
 *
 * A case ends with status 0 if all is as it should be. Cases that break the world print what the error says,
 * for ranks.sh to look at, and end with status 7. */
#include <pto/embed.h>
#include <pto/mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

static void begin(const pto_mpi_config *config)
{
    pto_config c = PTO_CONFIG_INIT;
    c.workers = 1;
    c.spin = PTO_NO_SPIN;
    CHECK(pto_runtime_create(&rt, &c) == PTO_OK);
    CHECK(pto_mpi_create(rt, config) == PTO_OK);
    const int64_t n = pto_mpi_ranks(rt) * 4;
    CHECK(pto_kernel_register(rt, "add", PTO_VECTOR, add_kernel, NULL, &add) == PTO_OK);
    CHECK(pto_kernel_register(rt, "copy", PTO_VECTOR, copy_kernel, NULL, &copy) == PTO_OK);
    CHECK(pto_kernel_register(rt, "touch", PTO_VECTOR, touch_kernel, NULL, &touch) == PTO_OK);
    CHECK(pto_kernel_register(rt, "fail_if", PTO_VECTOR, fail_kernel, NULL, &fail_if) == PTO_OK);
    CHECK(pto_mpi_tensor(rt, PTO_INT32, 1, &n, &(pto_mpi_layout){.tile = {4}}, &line) == PTO_OK);
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
    CHECK(pto_mpi_tensor(rt, PTO_INT32, 1, &n, &(pto_mpi_layout){.tile = {20}}, &other) == PTO_OK);
    CHECK(pto_mpi_submit(rt, add, pto_input(&t0), pto_inout(&p)) == PTO_BAD_PARAM);
    CHECK(pto_mpi_submit(rt, add, pto_input(&t0), pto_inout(&t0), pto_after(pto_last_task(rt))) ==
          PTO_BAD_PARAM);
    CHECK(pto_mpi_submit_on(rt, ranks, add, pto_input(&t0), pto_inout(&t1)) == PTO_BAD_PARAM);
    CHECK(pto_mpi_tensor(rt, PTO_INT32, 1, &n, &(pto_mpi_layout){.tile = {4}, .grid = {ranks + 1}},
                         &temp) == PTO_BAD_CONFIG);
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
    }
    CHECK(pto_mpi_wait(rt) == PTO_REFUSED);
    CHECK(pto_mpi_refused(rt));
    CHECK(!pto_mpi_refused(rt));
    /* What was refused has changed nothing. */
    CHECK(pto_mpi_submit(rt, add, pto_input(&t1), pto_inout(&t0)) == PTO_OK);
    CHECK(pto_mpi_submit(rt, add, pto_input(&t0), pto_inout(&t1)) == PTO_OK);
    CHECK(pto_mpi_read(rt, &line, got, sizeof got) == PTO_OK);
    CHECK(got[0] == 1 && got[3] == 1 && got[4] == 2 && got[7] == 2);
    CHECK(pto_mpi_wait(rt) == PTO_OK);
    return end();
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

/* What a rank does, and what it is said to do without the others. */
static void count_here(pto_mpi_stats *s)
{
    pto_tensor a, tiles[6][6], row;
    const int64_t n = 24;
    CHECK(pto_mpi_tensor(rt, PTO_INT32, 2, (int64_t[]){n, n}, &(pto_mpi_layout){.tile = {4, 4}},
                         &a) == PTO_OK);
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
    CHECK(real.bytes_tiles == said.bytes_tiles && real.bytes_tables == said.bytes_tables);
    int32_t got[64];
    CHECK(pto_mpi_read(rt, &line, got, sizeof got) == PTO_BAD_CONFIG);
    pto_mpi_refused(rt);
    return end();
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
            if (i == 10 && pto_mpi_rank(rt) == 1) {
                status = pto_mpi_submit(rt, add, pto_input(&t1), pto_inout(&t1)); /* line C */
            }
            status = pto_mpi_submit(rt, add, pto_input(&t1), pto_inout(&t0)); /* line D */
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

/* A call that fails on one rank alone: its managed tensor is gone there. */
static int one_cannot(void)
{
    begin(NULL);
    pto_tensor t0 = tile(0), t1 = tile(1), own;
    pto_status status;
    PTO_SCOPE(rt) {
        CHECK(pto_temp(rt, PTO_INT32, 1, (int64_t[]){4}, &own) == PTO_OK);
    }
    status = pto_mpi_submit(rt, add, pto_input(&own), pto_inout(&t1)); /* read on rank 1 only */
    status = status == PTO_OK ? pto_mpi_submit(rt, add, pto_input(&t1), pto_inout(&t0)) : status;
    status = status == PTO_OK ? pto_mpi_wait(rt) : status;
    CHECK(status == (pto_mpi_rank(rt) == 1 ? PTO_STALE : PTO_WORKER_LOST));
    return say(status);
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
    return pto_runtime_destroy(&rt, PTO_WAIT) == PTO_OK ? 0 : 3;
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
           : !strcmp(name, "failures")          ? failures()
           : !strcmp(name, "diverge")           ? diverge()
           : !strcmp(name, "ranges")            ? ranges()
           : !strcmp(name, "counted")           ? counted()
           : !strcmp(name, "trees")             ? trees()
           : !strcmp(name, "scratch_heals")     ? scratch_heals()
           : !strcmp(name, "diverge_inside")    ? diverge_inside()
           : !strcmp(name, "leave_early")       ? leave_early()
           : !strcmp(name, "one_cannot")        ? one_cannot()
           : !strcmp(name, "different_configs") ? different_configs()
           : !strcmp(name, "dies")              ? leave(true)
           : !strcmp(name, "ends")              ? leave(false)
                                                : 2;
}

int main(int argc, char **argv)
{
    int answer = argc > 1 ? 0 : 2;
    for (int i = 1; i < argc && answer == 0; i++) {
        answer = run(argv[i]);
    }
    return answer;
}
