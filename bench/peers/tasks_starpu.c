/* tasks_starpu.c - StarPU as a peer of bench_tasks: a data handle for each tile, and implicit
 * dependencies from the access modes (sequential consistency).
 *
 * Tasks are filled in by hand, which is cheaper than starpu_task_insert.
 */
#if __has_include(<starpu.h>) /* else there is nothing to build, nor to check */
#include <starpu.h>

typedef struct tile {
    starpu_data_handle_t handle;
} tile;
typedef struct sink sink;

#include "tasks_peer.h"

struct sink {
    uint64_t fresh_memory[FRESH][TILE * TILE];
    tile fresh[FRESH];
    struct starpu_codelet codelets[KINDS];
};

static void tile_of(tile *t, uint64_t *memory, int64_t row)
{
    starpu_matrix_data_register(&t->handle, STARPU_MAIN_RAM, (uintptr_t)memory, (uint32_t)row,
                                (uint32_t)TILE, (uint32_t)TILE, sizeof *memory);
}

static void tile_make(tile *t, const data *d, size_t index)
{
    tile_of(t, tile_memory(d, index), d->row);
}

static void tile_free(tile *t)
{
    starpu_data_unregister(t->handle);
}

/* The number of the task and its kind are in the argument itself, which so needs no memory. */
static void run(void *buffers[], void *argument)
{
    const uint64_t both = (uint64_t)(uintptr_t)argument;
    const kind which = (kind)(both % KINDS);
    const size_t reads = (size_t)starpu_task_get_current()->cl->nbuffers - 1;
    uint64_t *tiles[MAX_READS + 1];
    for (size_t i = 0; i <= reads; i++) {
        tiles[i] = (uint64_t *)STARPU_MATRIX_GET_PTR(buffers[i]);
    }
    body_run(which, both / KINDS, tiles, reads);
}

INLINE struct starpu_task *task_begin(sink *s, kind which, tile *w, unsigned reads)
{
    struct starpu_task *task = starpu_task_create();
    task->cl = &s->codelets[which];
    task->cl_arg = (void *)(uintptr_t)(task_number(s) * KINDS + which);
    task->handles[reads] = w->handle;
    return task;
}

static void task_submit(struct starpu_task *task)
{
    if (starpu_task_submit(task) != 0) {
        fprintf(stderr, "StarPU takes no task\n");
        exit(2);
    }
}

INLINE void task0(sink *s, kind which, tile *w)
{
    task_submit(task_begin(s, which, w, 0));
}

INLINE void task1(sink *s, kind which, tile *a, tile *w)
{
    struct starpu_task *task = task_begin(s, which, w, 1);
    task->handles[0] = a->handle;
    task_submit(task);
}

INLINE void task2(sink *s, kind which, tile *a, tile *b, tile *w)
{
    struct starpu_task *task = task_begin(s, which, w, 2);
    task->handles[0] = a->handle;
    task->handles[1] = b->handle;
    task_submit(task);
}

INLINE void task3(sink *s, kind which, tile *a, tile *b, tile *c, tile *w)
{
    struct starpu_task *task = task_begin(s, which, w, 3);
    task->handles[0] = a->handle;
    task->handles[1] = b->handle;
    task->handles[2] = c->handle;
    task_submit(task);
}

INLINE tile *fresh_begin(sink *s, uint64_t n)
{
    return &s->fresh[n % FRESH];
}

INLINE void fresh_end(sink *s)
{
    (void)s;
}

static void sink_wait(sink *s)
{
    (void)s;
    starpu_task_wait_for_all();
}

int main(int argc, char **argv)
{
    static const int reads[KINDS] = {[INDEPENDENT] = 2, [STENCIL] = 3, [GEMM] = 2,   [ADD] = 1,
                                     [TRSM] = 1,        [SYRK] = 1,    [UPDATE] = 2, [RANDOM] = 3};
    static sink s;
    if (starpu_init(NULL) != 0) {
        fprintf(stderr, "StarPU does not start\n");
        return 2;
    }
    for (int k = 0; k < KINDS; k++) {
        struct starpu_codelet *c = &s.codelets[k];
        starpu_codelet_init(c);
        c->cpu_funcs[0] = run;
        c->nbuffers = reads[k] + 1;
        for (int i = 0; i < reads[k]; i++) {
            c->modes[i] = STARPU_R;
        }
        c->modes[reads[k]] = kinds[k].updates ? STARPU_RW : STARPU_W;
    }
    for (int i = 0; i < FRESH; i++) {
        tile_of(&s.fresh[i], s.fresh_memory[i], TILE);
    }
    const int status = peer_main(&s, argc, argv);
    for (int i = 0; i < FRESH; i++) {
        tile_free(&s.fresh[i]);
    }
    starpu_shutdown();
    return status;
}

#endif
