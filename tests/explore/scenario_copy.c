/* scenario_copy.c - copies of a device: the worker hands them over and is free, and a thread of the
 * device completes them, before or after the worker has left its kernel.
 *
 *     main               the device's worker        the device's engine
 *     submits, helps     begins copies              copies, then calls `done`
 */
#include <string.h>

#include <pto/device.h>
#include <pto/work.h>

#include "rig.h"

static const pto_device fake = {PTO_DEVICE_METAX, 3}; /* of no other scenario, and not built in */

enum { COPIES = 2 };

/* What the device was given, and its memory. */
typedef struct copies {
    struct {
        int64_t *to;
        const int64_t *from;
        pto_device_done done;
        void *context;
    } job[COPIES];
    ptoi_a32 given; /* jobs; the engine reads them once they are counted */
    int64_t memory; /* of the device */
    pto_tensor t;   /* over it */
    pto_status ends_with[COPIES];
} copies;

static copies *d;

static pto_status fake_alloc(void *self, uint64_t bytes, void **memory)
{
    (void)self;
    (void)bytes;
    (void)memory;
    return PTO_OUT_OF_MEMORY; /* these scenarios have no managed memory there */
}

static void fake_free(void *self, void *memory, uint64_t bytes)
{
    (void)self;
    (void)memory;
    (void)bytes;
}

static int64_t *address(const pto_tensor *t)
{
    return (int64_t *)t->storage + t->offset;
}

/* On the worker. The copy may end before this returns. */
static pto_status fake_copy(void *self, const pto_tensor *to, const pto_tensor *from,
                            pto_device_done done, void *context)
{
    const uint32_t n = ptoi_get32(&d->given);
    (void)self;
    world_check(n < COPIES);
    d->job[n].to = address(to);
    d->job[n].from = address(from);
    d->job[n].done = done;
    d->job[n].context = context;
    ptoi_release32(&d->given, n + 1);
    return PTO_OK;
}

static const pto_device_ops fake_ops = {.size = sizeof(pto_device_ops),
                                        .alloc = fake_alloc,
                                        .free = fake_free,
                                        .copy = fake_copy,
                                        .workers = {[PTO_ACCELERATOR] = 1}};

/* The table of devices is no part of a world, so this happens once, before the first one. */
static __attribute__((constructor)) void add_device(void)
{
    PTO_IGNORE(pto_device_add(fake, &fake_ops));
}

static void engine(void *context)
{
    (void)context;
    for (uint32_t n = 0; n < COPIES; n++) {
        while (ptoi_acquire32(&d->given) == n) {
            ptoi_os_yield();
        }
        const pto_status s = d->ends_with[n];
        if (s == PTO_OK) {
            *d->job[n].to = *d->job[n].from;
        }
        d->job[n].done(d->job[n].context, s);
        if (s != PTO_OK) {
            return; /* what follows is skipped */
        }
    }
}

static void prepare(void)
{
    pto_config c = rig_config(0,
                              PTO_PLACE_INLINE); /* the main thread runs the kernels of the host */
    c.device = fake;
    c.arg_bytes = 4096;
    rig_create(&c);
    d = world_memory(sizeof *d);
    world_name(&d->given, 1, 1, sizeof d->given, "given");
    world_name(&d->memory, 1, 1, sizeof d->memory, "device");
    world_name_thread(1, "copies");
    world_check(pto_tensor_init(&d->t, &d->memory, sizeof d->memory, PTO_INT64, 1, (int64_t[]){1},
                                NULL, 0) == PTO_OK);
    d->t.device = fake;
}

static void submit_all(void)
{
    rig_submit(r->set, pto_output(&r->t[0]), pto_scalar(5));
    world_check(pto_copy(r->rt, &d->t, &r->t[0]) == PTO_OK);
    rig_submit(r->twice, pto_inout(&r->t[0])); /* not before the first copy has read it */
    world_check(pto_copy(r->rt, &r->t[1], &d->t) == PTO_OK);
    rig_submit(r->add, pto_input(&r->t[1]), pto_output(&r->t[2]));
}

/* The engine may still be inside of `done` when the runtime is destroyed. */
static void copy_run(void)
{
    pto_runtime *rt = r->rt;
    (void)world_thread("engine", engine, NULL);
    submit_all();
    world_check(pto_runtime_destroy(&rt, PTO_WAIT) == PTO_OK);
    world_check(r->cell[0] == 10 && d->memory == 5 && r->cell[1] == 5 && r->cell[2] == 5);
}

const scenario scenario_copy = {
    "copy", "copies are pending until a thread of their device ends them; its worker is free",
    prepare, copy_run, false};

/* A copy fails: what reads its destination is skipped, what follows its source is not. */
static void bad_run(void)
{
    const uint32_t ends = world_thread("engine", engine, NULL);
    d->ends_with[0] = PTO_SYSTEM;
    submit_all();
    world_check(pto_wait(r->rt) == PTO_TASK_FAILED);
    world_check(r->cell[0] == 10 && d->memory == 0 && r->cell[1] == 0 && r->cell[2] == 0);
    world_join(ends);
}

const scenario scenario_copy_bad = {"copy-bad", "a copy fails on the thread of its device", prepare,
                                    bad_run, false};
