/* pto/mpi.h - the same program on several ranks of MPI. Part of libpto-mpi, beside the library.
 *
 * Every rank runs the same orchestration, written as for one machine. A distributed tensor is one
 * logical tensor, cut into tiles that have owners; each rank holds its own tiles. A task runs on the
 * rank that owns what it writes. Whoever reads a tile of another rank receives it, and whoever owns
 * it sends it: both know from the order of submission alone, so no rank ever asks another.
 *
 *     PTO_TRY(pto_runtime_create(&rt, NULL));
 *     PTO_TRY(pto_mpi_create(rt, NULL));                                        // collective
 *     pto_mpi_layout layout = {.tile = {256, 256}};                             // 2-D block-cyclic
 *     PTO_TRY(pto_mpi_tensor(rt, PTO_FLOAT64, 2, (int64_t[]){n, n}, &layout, &a));
 *     PTO_TRY(pto_tensor_view(&a, (int64_t[]){0, 0}, (int64_t[]){256, 256}, &tile));
 *     PTO_TRY(pto_mpi_submit(rt, potrf, pto_inout(&tile)));
 *     PTO_TRY(pto_mpi_wait(rt));                                                // collective
 *     PTO_TRY(pto_mpi_destroy(rt));                                             // collective
 *     PTO_TRY(pto_runtime_destroy(&rt, PTO_WAIT));
 *
 * If PTO_MPI_NAMES is defined before this header is included, pto_submit, pto_wait, pto_read, pto_temp,
 * pto_temp_on, pto_clear_error and pto_runtime_destroy are the functions below, so the orchestration stays as it is.
 *
 * All ranks make the same calls in the same order, with the same arguments but for addresses of
 * plain memory. A rolling hash of the calls finds ranks that do not, and the error names both lines.
 * A call that is refused on all ranks has changed nothing. If a call fails on one rank only, after
 * the others have relied on it, the world is broken: every further call returns an error on all ranks.
 * So it is after pto_cancel on a rank: PTO_CANCELLED there, and PTO_WORKER_LOST on the others.
 *
 * The header needs no <mpi.h>, and libpto-mpi-openmpi.so and libpto-mpi-mpich.so have the same
 * interface. A program links one of them: -lpto-mpi-openmpi -lpto. docs/mpi.md has the rules, why
 * they cannot deadlock, and what is not there yet.
 */
#ifndef PTO_MPI_H
#define PTO_MPI_H

#include <pto/pto.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- The world ------------------------------------------------------------------------------- */

/* The configuration of a world, the same on all ranks (PTO_BAD_CONFIG otherwise). Zero means the
 * default. */
typedef struct pto_mpi_config {
    size_t size;      /* sizeof(pto_mpi_config) */
    const void *comm; /* the address of an MPI_Comm, which is duplicated; NULL: MPI_COMM_WORLD */
    uint64_t cache_bytes; /* copies of tiles of each other rank (64 MiB); reserved, and touched only
                               as far as they are used. As much on each device that has such copies, and
                               for each rank to which tiles of a device are sent */
    uint64_t scratch_bytes; /* views that cross tiles, outputs on their way home, and tiles of a
                               device on their way to gather (64 MiB). As much on each device that has such views */
    /* Pieces of one task that it copies (a view that crosses tiles, an output that goes home) share a
     * message if they have at most so many bytes (8192; 1: none do). */
    uint64_t small_bytes;
    int32_t ranks; /* the number of ranks that the program needs; 0: any */
    /* Polls without a message before a waiting thread may sleep (0: 20000 if the machine has a core for
     * every thread of its ranks, else 2000). */
    uint32_t spin;
    /* With count_ranks, there is no MPI: the process makes the calls of rank `count_rank` of that many. Nothing
     * runs and nothing is sent; pto_mpi_get_stats has what the rank would do, and how much memory that takes.
     * For programs whose control flow does not depend on data: pto_mpi_read is refused. */
    int32_t count_rank, count_ranks;
} pto_mpi_config;

/* Makes a runtime one rank of a world; collective. Several runtimes of a process may be in worlds of their own, which
 * are made and destroyed one after the other, in the same order on all ranks. MPI is initialized if it is not, and is then
 * finalized when the process ends. MPI must offer MPI_THREAD_SERIALIZED (PTO_BAD_CONFIG). The
 * library uses the hooks around waits and the poll (pto/embed.h) of the runtime from then on. */
PTO_API PTO_MUST_CHECK pto_status pto_mpi_create(pto_runtime *rt, const pto_mpi_config *config);

/* Waits as pto_mpi_wait does, and leaves the world; collective. Distributed tensors are gone. The
 * runtime remains. Returns what pto_mpi_wait returned. */
PTO_API PTO_MUST_CHECK pto_status pto_mpi_destroy_at(pto_runtime *rt, const char *file, int line);

#define pto_mpi_destroy(rt) pto_mpi_destroy_at((rt), __FILE__, __LINE__)

/* Leaves the world, if the runtime is in one, and destroys the runtime as pto_runtime_destroy does;
 * collective. Returns the first error of the two. NULL is allowed. */
PTO_API PTO_MUST_CHECK pto_status pto_mpi_runtime_destroy_at(pto_runtime **rt, pto_ending ending,
                                                             const char *file, int line);

#define pto_mpi_runtime_destroy(rt, ending)                                                        \
    pto_mpi_runtime_destroy_at((rt), (ending), __FILE__, __LINE__)

/* The number of this rank and the number of ranks; -1 if the runtime is in no world. */
PTO_API int pto_mpi_rank(const pto_runtime *rt);
PTO_API int pto_mpi_ranks(const pto_runtime *rt);

/* The lock around every call of MPI that the library makes: one for all worlds of the process. A program
 * that calls MPI itself, on any thread, does so between these two. Blocking calls of MPI should not be made there:
 * messages of tasks cannot pass meanwhile. Nor can other calls of this header (PTO_BAD_SCOPE). Calls of the library that
 * wait (pto_wait) give up the lock meanwhile. The calls nest; an unlock without a lock does nothing. */
PTO_API void pto_mpi_lock(pto_runtime *rt);
PTO_API void pto_mpi_unlock(pto_runtime *rt);

/* What a rank has done since it joined the world. */
typedef struct pto_mpi_stats {
    uint64_t steps;          /* calls so far, the same number on all ranks */
    uint64_t tasks;          /* of these: tasks that ran here */
    uint64_t others;         /* of these: tasks that were none of this rank's business */
    uint64_t skipped;        /* ranges of pto_mpi_only that this rank did not walk through */
    uint64_t sent, received; /* messages */
    uint64_t bytes_sent, bytes_received;
    uint64_t copies; /* of pieces into scratch memory and back, on this rank */
    uint64_t
        staged; /* copies between a device and the memory of the host that messages come and go by */
    uint64_t hits;    /* remote inputs that were in the cache */
    uint64_t dropped; /* copies that made room for others */
    /* Memory: own tiles, copies of those of other ranks, scratch, and tables of tiles and copies. */
    uint64_t bytes_tiles, bytes_cache, bytes_scratch, bytes_tables;
} pto_mpi_stats;

/* Says what this rank has done so far. */
PTO_API PTO_MUST_CHECK pto_status pto_mpi_get_stats(const pto_runtime *rt, pto_mpi_stats *stats);

/* ---- Distributed tensors ----------------------------------------------------------------------- */

/* How a tensor is cut and who owns its tiles. */
typedef struct pto_mpi_layout {
    int64_t
        tile[PTO_MAX_DIMS]; /* sizes of a tile; 0: that of the tensor. The last may be smaller */
    /* Block-cyclic: tile [i, j] belongs to rank (i mod grid[0]) * grid[1] + j mod grid[1]. The product
     * must be the number of ranks (PTO_BAD_CONFIG). All zero: over the first two dims that are cut,
     * as square as the number of ranks permits. */
    int32_t grid[PTO_MAX_DIMS];
    /* Or any function of the tile. It must answer the same on all ranks. NULL: block-cyclic. */
    int (*owner)(const int64_t *tile, void *user);
    void *user;
    /* Where each rank keeps its tiles: {PTO_DEVICE_NVIDIA, 0}. All zero: on the host. It has the same number
     * on all ranks, and each needs it; which GPU that is can be chosen for each rank (CUDA_VISIBLE_DEVICES). */
    pto_device device;
} pto_mpi_layout;

/* Makes a distributed tensor, with one element at least; its contents are zero. Tasks on tiles of a device run there,
 * with the variant of the kernel for it (pto_kernel_variant), and what comes from other ranks is brought there. All
 * tensors of a task are on one device (PTO_DEVICES_DIFFER). PTO_BAD_DEVICE: there is no such device on some rank; then
 * the world is broken. The handle is an ordinary tensor for pto_tensor_view
 * and all other functions on views, but its memory cannot be touched: pass it to pto_mpi_submit,
 * where kernels see the memory of the tile, and to the functions below. pto_submit, pto_copy and other
 * functions of the library refuse it (PTO_BAD_MEMORY). */
PTO_API PTO_MUST_CHECK pto_status pto_mpi_tensor_at(pto_runtime *rt, pto_dtype dtype, int32_t ndim,
                                                    const int64_t *shape,
                                                    const pto_mpi_layout *layout, pto_tensor *t,
                                                    const char *file, int line);

#define pto_mpi_tensor(rt, ...) pto_mpi_tensor_at((rt), __VA_ARGS__, __FILE__, __LINE__)

/* The owner of element [0, 0, ...] of a distributed tensor, view or temporary; -1 if it has none. */
PTO_API int pto_mpi_owner(pto_runtime *rt, const pto_tensor *t);

/* Makes a temporary, as pto_temp does: it belongs to the rank of the first task that writes it, and lives
 * there in the scope that is open now. (pto_temp itself makes a plain tensor, one on each rank.) */
PTO_API PTO_MUST_CHECK pto_status pto_mpi_temp_at(pto_runtime *rt, pto_dtype dtype, int32_t ndim,
                                                  const int64_t *shape, pto_tensor *t,
                                                  const char *file, int line);

#define pto_mpi_temp(rt, ...) pto_mpi_temp_at((rt), __VA_ARGS__, __FILE__, __LINE__)

/* The same on a certain device, as pto_temp_on does: pto_mpi_temp_on(rt, device, dtype, ndim, shape, &t). */
PTO_API PTO_MUST_CHECK pto_status pto_mpi_temp_on_at(pto_runtime *rt, pto_device device,
                                                     pto_dtype dtype, int32_t ndim,
                                                     const int64_t *shape, pto_tensor *t,
                                                     const char *file, int line);

#define pto_mpi_temp_on(rt, ...) pto_mpi_temp_on_at((rt), __VA_ARGS__, __FILE__, __LINE__)

/* ---- Tasks ------------------------------------------------------------------------------------- */

#define PTO_MPI_OWNER (-1) /* the rank that the rules choose */

/* Submits a task. It runs on one rank: `rank`, or, with PTO_MPI_OWNER, the owner of its first
 * output that has one, else of its first inout, else of its first input. Tensors are distributed,
 * temporaries of pto_mpi_temp, or plain. Plain memory has the same contents on every rank, so a task
 * may read it anywhere; a task whose tensors are all plain runs on every rank. A task that writes plain
 * memory and has a distributed tensor is refused (PTO_BAD_PARAM), and so is pto_after, since a task is
 * known on its own rank only. pto_nodep has no effect on distributed tensors.
 *
 * A view that crosses tiles is assembled in scratch memory, and written back after the task. Views
 * whose dims do not run along those of the tensor must stay in one tile (PTO_NEEDS_COPY).
 *
 * PTO_TOO_LARGE: the remote inputs exceed cache_bytes, or the task needs more than scratch_bytes.
 * PTO_OVERLAP: a tensor that the task writes shares bytes with another one, and not all are where
 * they belong; or two of its own indices are one element, wherever it is (pto_tensor_broadcast). PTO_STALE: the scope
 * of a temporary has ended, or it was given up. */
PTO_API PTO_MUST_CHECK pto_status pto_mpi_submit_task_at(pto_runtime *rt, int rank,
                                                         pto_kernel kernel, pto_worker_type type,
                                                         const pto_param *params, size_t n_params,
                                                         const char *file, int line);

#define pto_mpi_submit_task(rt, rank, kernel, type, params, n_params)                              \
    pto_mpi_submit_task_at((rt), (rank), (kernel), (type), (params), (n_params), __FILE__, __LINE__)

/* Submits a task, with its parameters as arguments of the call:
 *     PTO_TRY(pto_mpi_submit(rt, kernel, pto_input(&a), pto_output(&b), pto_scalar(3)));
 *     PTO_TRY(pto_mpi_submit_on(rt, 2, kernel, pto_input(&a), pto_output(&b)));        // on rank 2
 * Otherwise they are the same as pto_mpi_submit_task. */
#ifndef __cplusplus
#define pto_mpi_submit(rt, ...) pto_mpi_submit_on((rt), PTO_MPI_OWNER, __VA_ARGS__)
#define pto_mpi_submit_on(rt, rank, ...)                                                           \
    pto_mpi_submit_task_at((rt), (rank), PTO_KERNEL_OF_(__VA_ARGS__, ), PTO_KERNEL_TYPE,           \
                           PTO_PARAMS_OF_(__VA_ARGS__, ),                                          \
                           sizeof(PTO_PARAMS_OF_(__VA_ARGS__, )) / sizeof(pto_param) - 1,          \
                           __FILE__, __LINE__)
#endif

/* ---- Broadcasts ------------------------------------------------------------------------------------ */

/* Sends a view to all ranks that own a tile of one of the views of `readers`, along a tree: n readers, and the
 * owner sends only log2(n) times. It changes nothing but that: a task on one of these ranks that reads the
 * view finds it in its cache. Without it, the owner sends to each reader when that one's task is submitted. So it is
 * worth its call where one tile has many readers, after the task that writes it:
 *
 *     // trsm has written tile [i, k], which updates row i and column i
 *     PTO_TRY(pto_mpi_broadcast(rt, &a_ik, pto_input(&row_i), pto_input(&column_i)));
 *
 * A view that crosses tiles is sent tile by tile. What a task reads must be the same part of the same tile, and
 * nobody may have written the tile in between; a broadcast that nobody uses only costs its messages.
 *
 * PTO_TOO_LARGE: a piece exceeds cache_bytes. PTO_BAD_SCOPE: inside of a range of pto_mpi_only. */
PTO_API PTO_MUST_CHECK pto_status pto_mpi_broadcast_at(pto_runtime *rt, const pto_tensor *t,
                                                       const pto_param *readers, size_t n_readers,
                                                       const char *file, int line);

#ifndef __cplusplus
#define pto_mpi_broadcast(rt, t, ...)                                                              \
    pto_mpi_broadcast_at((rt), (t), (const pto_param[]){__VA_ARGS__},                              \
                         sizeof((const pto_param[]){__VA_ARGS__}) / sizeof(pto_param), __FILE__,   \
                         __LINE__)
#endif

/* ---- Ranges -------------------------------------------------------------------------------------- */

/* Begins and ends a range, for languages without pto_mpi_only. Returns whether this rank walks through the
 * range; only then it makes the calls, and ends it. */
PTO_API bool pto_mpi_only_begin_at(pto_runtime *rt, const pto_param *params, size_t n_params,
                                   const char *file, int line);
PTO_API void pto_mpi_only_end_at(pto_runtime *rt, const char *file, int line);

/* Used by pto_mpi_only. */
typedef struct pto_mpi_only_guard {
    pto_runtime *rt; /* NULL: this rank does not walk through the range */
    const char *file;
    int line;
} pto_mpi_only_guard;

static inline void pto_mpi_only_leave_(const pto_mpi_only_guard *guard)
{
    if (guard->rt) {
        pto_mpi_only_end_at(guard->rt, guard->file, guard->line);
    }
}

#ifndef __cplusplus
#define pto_mpi_only_begin(rt, ...)                                                                \
    pto_mpi_only_begin_at((rt), (const pto_param[]){__VA_ARGS__},                                  \
                          sizeof((const pto_param[]){__VA_ARGS__}) / sizeof(pto_param), __FILE__,  \
                          __LINE__)
#define pto_mpi_only_end(rt) pto_mpi_only_end_at((rt), __FILE__, __LINE__)

#define PTO_MPI_ONLY_AS_(guard, once, of, ...)                                                     \
    for (pto_mpi_only_guard guard __attribute__((                                                  \
             cleanup(pto_mpi_only_leave_))) = {pto_mpi_only_begin(of, __VA_ARGS__) ? (of) : NULL,  \
                                               __FILE__, __LINE__},                                \
           *once = &guard;                                                                         \
         once && guard.rt; once = NULL)
#define PTO_MPI_ONLY_NAMED_(line, rt, ...)                                                         \
    PTO_MPI_ONLY_AS_(pto_only_##line, pto_once_##line, rt, __VA_ARGS__)
#define PTO_MPI_ONLY_AT_(line, rt, ...) PTO_MPI_ONLY_NAMED_(line, rt, __VA_ARGS__)
/* A range of calls that only some ranks make: those that own a tile of one of the views that it declares, up
 * to eight of them. For all others the block is skipped, and costs next to nothing however many tasks it
 * submits. So a program scales further than its number of tasks:
 *
 *     for (int j = k + 1; j < n; j++) {
 *         // column k of tiles below row j, and column j, which the tasks update
 *         pto_mpi_only(rt, pto_input(&below[k][j]), pto_inout(&below[j][j])) {
 *             for (int i = j; i < n; i++) {
 *                 PTO_TRY(pto_mpi_submit(rt, update, pto_input(&a[i][k]), pto_input(&a[j][k]),
 *                                        pto_inout(&a[i][j])));
 *             }
 *         }
 *     }
 *
 * Every rank comes to the range with the same arguments. Inside, tasks use tiles of the declared views only,
 * write only those that were declared as output or inout, and run on ranks that walk through it
 * (PTO_BAD_PARAM). Temporaries may be made there for use there. Calls that all ranks must make, such as
 * pto_mpi_wait and pto_mpi_read, and tasks with plain tensors only, are refused (PTO_BAD_SCOPE,
 * PTO_BAD_PARAM), and ranges do not nest. All tiles of outputs count as written. If the range itself is
 * refused, the block is skipped on all ranks, and pto_mpi_wait says so. The range ends with its block, however that is left. */
#define pto_mpi_only(rt, ...) PTO_MPI_ONLY_AT_(__LINE__, rt, __VA_ARGS__)
#endif

/* ---- Waiting, reading, failures ------------------------------------------------------------------ */

/* Waits until all tasks of all ranks are complete; collective. If one has failed on any rank, every
 * rank returns PTO_TASK_FAILED, and the detail describes the first failure in submission order.
 * PTO_REFUSED: a call was refused on some rank, and pto_mpi_refused did not acknowledge it.
 * PTO_MISMATCH: the ranks have made different calls; the detail names both lines. */
PTO_API PTO_MUST_CHECK pto_status pto_mpi_wait_at(pto_runtime *rt, const char *file, int line);

#define pto_mpi_wait(rt) pto_mpi_wait_at((rt), __FILE__, __LINE__)

/* Copies a distributed tensor, a view or a temporary to dense memory of every rank; collective. Waits for
 * the tasks that write it, and for no others. So control flow may depend on data, and stays the same on
 * all ranks. All of them give as many bytes. PTO_POISONED: a task that should have written it failed or was skipped. A plain tensor is
 * read as by pto_read. */
PTO_API PTO_MUST_CHECK pto_status pto_mpi_read_at(pto_runtime *rt, const pto_tensor *t, void *to,
                                                  uint64_t bytes, const char *file, int line);

#define pto_mpi_read(rt, ...) pto_mpi_read_at((rt), __VA_ARGS__, __FILE__, __LINE__)

/* Copies a distributed tensor or view to dense memory of one rank, or from there; collective. On other
 * ranks the memory may be NULL. Both return when the memory may be used again. */
PTO_API PTO_MUST_CHECK pto_status pto_mpi_gather_at(pto_runtime *rt, const pto_tensor *t, int root,
                                                    void *to, uint64_t bytes, const char *file,
                                                    int line);
PTO_API PTO_MUST_CHECK pto_status pto_mpi_scatter_at(pto_runtime *rt, const pto_tensor *t, int root,
                                                     const void *from, uint64_t bytes,
                                                     const char *file, int line);

#define pto_mpi_gather(rt, ...) pto_mpi_gather_at((rt), __VA_ARGS__, __FILE__, __LINE__)
#define pto_mpi_scatter(rt, ...) pto_mpi_scatter_at((rt), __VA_ARGS__, __FILE__, __LINE__)

/* Lets all ranks continue after a failure; collective. Waits for all tasks, and clears failure and
 * poison everywhere. Copies of remote tiles are dropped. (pto_clear_error would keep copies that never came.) */
PTO_API PTO_MUST_CHECK pto_status pto_mpi_clear_error_at(pto_runtime *rt, const char *file,
                                                         int line);

#define pto_mpi_clear_error(rt) pto_mpi_clear_error_at((rt), __FILE__, __LINE__)

/* Acknowledges refused calls of this header on this rank: returns whether there was one. */
PTO_API bool pto_mpi_refused(pto_runtime *rt);

#ifdef __cplusplus
}
#endif

#ifdef PTO_MPI_NAMES
#undef pto_submit
#undef pto_read
#undef pto_temp
#undef pto_temp_on
#define pto_submit pto_mpi_submit
#define pto_wait pto_mpi_wait
#define pto_read pto_mpi_read
#define pto_temp pto_mpi_temp
#define pto_temp_on pto_mpi_temp_on
#define pto_clear_error pto_mpi_clear_error
#define pto_runtime_destroy pto_mpi_runtime_destroy
#endif

#endif /* PTO_MPI_H */
