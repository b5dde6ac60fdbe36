/* arrival.c - memory on a GPU that belongs to another library: what that library has started comes before
 * our tasks. Runs on the orchestrating thread; the kernel runs on the thread that launches.
 *
 *     their stream --__dlpack__(stream=ours)--> stream of the device --event--> stream of the task
 *
 * The producer makes the stream of the device wait for its work. Tasks are on other streams, so a small task
 * goes before each task with such an argument, and makes its stream wait for an event. All of that happens on
 * the GPU. The other direction needs nothing: rt.sync and rt.wait return when the tasks are done there.
 */
#include <time.h>

#include <pto/device.h>

#include "binding.h"

/* Events are used again and never destroyed: a stream may still have to wait for one. */
struct Arrival {
    Arrival *next; /* in the list of spare ones */
    pto_device device;
    pto_device_ops ops;
    void *event;
};

static Arrival *spare;

static pto_status create_event(Arrival *a)
{
    const pto_device before = pto_device_current();
    pto_status s = pto_device_set_current(a->device);
    if (s == PTO_OK) {
        s = a->ops.event_create(a->ops.self, &a->event);
        const pto_status back = pto_device_set_current(before);
        s = s == PTO_OK ? back : s;
    }
    return s;
}

Arrival *arrival_new(int index)
{
    const pto_device device = {PTO_DEVICE_NVIDIA, index};
    pto_device_ops ops;
    pto_status s = pto_device_get(device, &ops);
    if (s == PTO_OK && (!ops.stream || !ops.streams)) {
        s = pto_fail(PTO_BAD_DEVICE,
                     "nvidia:%d has no streams, so the work of others cannot be ordered", index);
    }
    if (s != PTO_OK) {
        error_raise(NULL, s, NULL, 0);
        return NULL;
    }
    for (Arrival **at = &spare; *at; at = &(*at)->next) {
        if ((*at)->ops.self == ops.self && (*at)->device.index == index) {
            Arrival *found = *at;
            *at = found->next;
            return found;
        }
    }
    Arrival *made = PyMem_Malloc(sizeof *made);
    if (!made) {
        PyErr_NoMemory();
        return NULL;
    }
    *made = (Arrival){.device = device, .ops = ops};
    s = create_event(made);
    if (s != PTO_OK) {
        PyMem_Free(made);
        error_raise(NULL, s, NULL, 0);
        return NULL;
    }
    return made;
}

void arrival_free(Arrival *a)
{
    if (a) {
        a->next = spare;
        spare = a;
    }
}

uintptr_t arrival_stream(const Arrival *a)
{
    return (uintptr_t)a->ops.stream;
}

/* Marks what the stream of the device has to wait for now. */
static pto_status record(const Arrival *a)
{
    return a->ops.event_record(a->ops.self, a->event, a->ops.stream);
}

/* The kernel: what follows on this stream waits for the event. */
static pto_status wait_on_stream(const pto_call *call)
{
    const Arrival *a = (const Arrival *)(uintptr_t)call->args[1].u64;
    return a->ops.event_wait(a->ops.self, call->stream, a->event);
}

static pto_status find_kernel(Core *core)
{
    if (core->has_arrival) {
        return PTO_OK;
    }
    pto_status s = pto_kernel_register(core->rt, "arrival", PTO_VECTOR, wait_on_stream, NULL,
                                       &core->arrival);
    if (s == PTO_OK) {
        s = pto_kernel_variant(core->rt, core->arrival, PTO_DEVICE_NVIDIA, wait_on_stream, NULL);
    }
    core->has_arrival = s == PTO_OK;
    return s;
}

pto_status arrival_submit(Core *core, const Argument *argument, bool exclusive, pto_task *task,
                          const char *file, int line)
{
    const Arrival *a = argument_arrival(argument);
    pto_status s = find_kernel(core);
    s = s == PTO_OK ? record(a) : s;
    if (s != PTO_OK) {
        return s;
    }
    const pto_param params[] = {exclusive ? pto_inout(argument->tensor)
                                          : pto_input(argument->tensor),
                                pto_scalar_u64((uint64_t)(uintptr_t)a)};
    s = pto_submit_task_at(core->rt, core->arrival, PTO_KERNEL_TYPE, params, 2, task, file, line);
    (void)pto_watermark(core->rt, &core->submitted);
    return s;
}

bool arrival_wait(const Argument *argument)
{
    const Arrival *a = argument_arrival(argument);
    const struct timespec moment = {.tv_nsec = 50000};
    bool passed = false;
    pto_status s = record(a);
    while (s == PTO_OK && !passed) {
        s = a->ops.event_query(a->ops.self, a->event, &passed);
        if (s == PTO_OK && !passed) {
            PyThreadState *state = PyEval_SaveThread();
            nanosleep(&moment, NULL);
            PyEval_RestoreThread(state);
            if (PyErr_CheckSignals() < 0) {
                return false;
            }
        }
    }
    return s == PTO_OK || (error_raise(NULL, s, NULL, 0), false);
}
