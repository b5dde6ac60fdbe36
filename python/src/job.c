/* job.c - what a task keeps alive until it is complete.
 *
 * A job names the arrays of one submit. While submit runs, its caller holds them. A task that is complete when
 * submit returns needs them no more. For every other one the job takes references. Such jobs are in a ring, in
 * the order of submission. The orchestrating thread drops those that the watermark of the library has passed
 * (pto_watermark): every few submits, and after each wait. So no other thread frees an array, and no task is
 * watched.
 */
#include "binding.h"

#define RELEASE_EVERY                                                                              \
    32                /* submits between two looks at the watermark, while the ring is not empty */
#define SMALL 6       /* slots of a job that is kept for the next submit */
#define MOST_SPARE 64 /* such jobs */

Job *job_new(Core *core, Kernel *kernel, Py_ssize_t most)
{
    Job *job = core->spare;
    if (job && most <= SMALL) {
        core->spare = job->next;
        core->n_spare--;
    } else {
        const size_t room = most <= SMALL ? SMALL : (size_t)most;
        job = PyMem_Malloc(sizeof *job + room * sizeof *job->slots);
        if (!job) {
            PyErr_NoMemory();
            return NULL;
        }
        job->room = (uint32_t)room;
    }
    job->core = core;
    job->kernel = kernel;
    job->held = false;
    job->managed = false;
    job->task = 0;
    job->count = 0;
    return job;
}

void job_free(Job *job)
{
    Core *core = job->core;
    if (job->held) {
        Py_XDECREF(OBJECT(job->kernel));
    }
    for (uint32_t i = 0; i < job->count; i++) {
        if (!job->slots[i].borrowed) {
            Py_XDECREF(job->slots[i].object);
            Py_XDECREF(job->slots[i].descr);
        }
    }
    if (job->room == SMALL && core->n_spare < MOST_SPARE) {
        job->next = core->spare;
        core->spare = job;
        core->n_spare++;
    } else {
        PyMem_Free(job);
    }
}

void jobs_free_spare(Core *core)
{
    while (core->spare) {
        Job *job = core->spare;
        core->spare = job->next;
        PyMem_Free(job);
    }
    core->n_spare = 0;
}

RARE static bool grow(Core *core)
{
    const uint64_t size = 2 * (core->job_mask + 1);
    Job **ring = PyMem_Malloc(size * sizeof *ring);
    if (!ring) {
        PyErr_NoMemory();
        return false;
    }
    for (uint64_t i = core->job_tail; i != core->job_head; i++) {
        ring[i & (size - 1)] = core->jobs[i & core->job_mask];
    }
    PyMem_Free(core->jobs);
    core->jobs = ring;
    core->job_mask = size - 1;
    return true;
}

bool job_reserve(Core *core)
{
    return core->job_head - core->job_tail <= core->job_mask || grow(core);
}

/* Whether any task has failed. Workers may know of it first. */
static bool has_failed(Core *core)
{
    bool failed = false;
    pto_failure failure;
    return pto_get_failure(core->rt, &failed, &failure) == PTO_OK && failed;
}

/* The task is complete as its submit returns. A Python kernel that failed has said so (call.c), and a C function of
 * a prototype is counted; of others only the library knows. */
static void see_failure(Core *core, const Job *job)
{
    const unsigned failures = atomic_load_explicit(&prototype_failures, memory_order_relaxed);
    if (failures != core->c_failures || !job->kernel || job->kernel->style == STYLE_CALL) {
        core->c_failures = failures;
        core->damaged = core->damaged || has_failed(core);
    }
}

/* The task is complete. */
static void end(Core *core, Job *job)
{
    if (core->damaged) {
        poisoned_keep(core, job);
    }
    job_free(job);
}

void jobs_release(Core *core)
{
    const uint64_t complete = pto_watermark(core->rt, &core->submitted);
    core->damaged = core->damaged || (core->job_tail != core->job_head && has_failed(core));
    while (core->job_tail != core->job_head) {
        Job *oldest = core->jobs[core->job_tail & core->job_mask];
        if (oldest->until > complete) {
            break;
        }
        core->job_tail++; /* first: what is dropped may run code of the program */
        end(core, oldest);
    }
}

/* For the collector of garbage: the references of tasks that may not be complete. */
int jobs_visit(const Core *core, visitproc visit, void *arg)
{
    for (uint64_t i = core->job_tail; i != core->job_head; i++) {
        const Job *job = core->jobs[i & core->job_mask];
        Py_VISIT(job->kernel);
        for (uint32_t slot = 0; slot < job->count; slot++) {
            Py_VISIT(job->slots[slot].object);
            Py_VISIT(job->slots[slot].descr);
        }
    }
    return 0;
}

void slot_hold(Slot *slot)
{
    if (slot->borrowed) {
        Py_XINCREF(slot->object);
        Py_XINCREF(slot->descr);
        slot->borrowed = false;
    }
}

void job_commit(Core *core, Job *job, bool one)
{
    core->submitted++;
    if (!one || core->job_tail == core->job_head) {
        const uint64_t complete = pto_watermark(core->rt, &core->submitted);
        if (complete == core->submitted) {
            see_failure(core, job);
            end(core, job);
            return;
        }
    }
    job->until = core->submitted;
    job->held = true;
    Py_XINCREF(OBJECT(job->kernel));
    for (uint32_t i = 0; i < job->count; i++) {
        slot_hold(&job->slots[i]);
    }
    core->jobs[core->job_head++ & core->job_mask] = job;
    if (core->job_head % RELEASE_EVERY == 0) {
        jobs_release(core);
    }
}
