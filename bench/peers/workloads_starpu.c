/* workloads_starpu.c - StarPU as a peer of bench_workloads: a data handle for each tile, and implicit
 * dependencies from the access modes (sequential consistency).
 *
 * Tasks are filled in by hand, which is cheaper than starpu_task_insert.
 */
#if !__has_include(<starpu.h>)
#error "starpu.h is not here: Debian's libstarpu-dev has it"
#endif
#include <starpu.h>

typedef starpu_data_handle_t handle;

#include "workloads_tasks.h"

static struct starpu_codelet codelets[KINDS];

static void tile_register(tile *t)
{
    starpu_matrix_data_register(&t->h, STARPU_MAIN_RAM, (uintptr_t)t->b.at, (uint32_t)t->b.ld,
                                (uint32_t)t->b.columns, (uint32_t)t->b.rows, sizeof(double));
}

static void tile_unregister(tile *t)
{
    starpu_data_unregister(t->h);
}

static block block_of(void *buffer)
{
    return (block){(double *)STARPU_MATRIX_GET_PTR(buffer), STARPU_MATRIX_GET_NY(buffer),
                   STARPU_MATRIX_GET_NX(buffer), STARPU_MATRIX_GET_LD(buffer)};
}

static void run(void *buffers[], void *argument)
{
    const kind which = (kind)(uintptr_t)argument;
    block blocks[MAX_READS + 1];
    for (int i = 0; i <= reads_of[which]; i++) {
        blocks[i] = block_of(buffers[i]);
    }
    kernel_run(which, &blocks[0], &blocks[1], &blocks[reads_of[which]]);
}

static void task(kind which, handle x, handle y, handle w)
{
    struct starpu_task *t = starpu_task_create();
    t->cl = &codelets[which];
    t->cl_arg = (void *)(uintptr_t)which;
    t->handles[0] = x;
    t->handles[1] = y;
    t->handles[reads_of[which]] = w;
    if (starpu_task_submit(t) != 0) {
        fprintf(stderr, "StarPU takes no task\n");
        exit(2);
    }
}

static void task0(kind which, tile *w)
{
    task(which, NULL, NULL, w->h);
}

static void task1(kind which, tile *x, tile *w)
{
    task(which, x->h, NULL, w->h);
}

static void task2(kind which, tile *x, tile *y, tile *w)
{
    task(which, x->h, y->h, w->h);
}

static void tasks_wait(void)
{
    starpu_task_wait_for_all();
}

int main(int argc, char **argv)
{
    if (starpu_init(NULL) != 0) {
        fprintf(stderr, "StarPU does not start\n");
        return 2;
    }
    for (int k = 0; k < KINDS; k++) {
        struct starpu_codelet *c = &codelets[k];
        starpu_codelet_init(c);
        c->cpu_funcs[0] = run;
        c->nbuffers = reads_of[k] + 1;
        for (int i = 0; i < reads_of[k]; i++) {
            c->modes[i] = STARPU_R;
        }
        c->modes[reads_of[k]] = k == MULTIPLY ? STARPU_W : STARPU_RW;
    }
    const int status = peer_main(argc, argv, false);
    starpu_shutdown();
    return status;
}
