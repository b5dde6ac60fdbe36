/* sim.c - a simulated accelerator: its functions as a device, its configuration and its faults. */
#include "device/sim/sim.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <pto/pto.h>
#include <pto/sim.h>

#include "base/atomic.h"
#include "base/config.h"
#include "base/error.h"
#include "device/copy.h"
#include "device/sim/engine.h"
#include "device/sim/memory.h"
#include "device/sim/stream.h"
#include "tensor/tensor.h"

typedef struct sim {
    pto_device_ops
        ops;        /* fixed once it is ready, except for `workers` and `streams`, under the lock */
    ptoi_a32 ready; /* acquire: the rest is set up */
    int32_t index;
    char description[48];
    pthread_mutex_t lock; /* protects all that follows */
    ptoi_sim_memory memory;
    uint64_t left[PTO_SIM_FAULTS]; /* operations until one fails; 0: none does */
    bool lost;
    uint64_t faults, kernels;
    ptoi_sim_engine engine;   /* has a lock of its own */
    ptoi_sim_streams streams; /* the same */
} sim;

static sim sims[PTO_SIM_DEVICES];
static pthread_mutex_t creating = PTHREAD_MUTEX_INITIALIZER;

/* ---- Faults ---- */

static const char *const fault_names[PTO_SIM_FAULTS] = {"alloc", "copy", "kernel", "lost"};

/* Counts an operation. Returns the error with which it has to fail. With the lock. */
static pto_status count_operation(sim *d, pto_sim_fault fault)
{
    static const pto_status codes[] = {PTO_OUT_OF_MEMORY, PTO_SYSTEM, PTO_KERNEL_FAILED};
    if (d->left[PTO_SIM_FAIL_LOST] && --d->left[PTO_SIM_FAIL_LOST] == 0) {
        d->lost = true;
    }
    const bool fails = d->left[fault] && --d->left[fault] == 0;
    d->faults += d->lost || fails;
    if (d->lost) {
        return ptoi_fail(PTO_DEVICE_LOST, "sim:%" PRId32 " is lost (pto_sim_fail)", d->index);
    }
    return fails ? ptoi_fail(codes[fault], "sim:%" PRId32 " was told to fail: %s (pto_sim_fail)",
                             d->index, fault_names[fault])
                 : PTO_OK;
}

static pto_status operate(sim *d, pto_sim_fault fault)
{
    pthread_mutex_lock(&d->lock);
    const pto_status s = count_operation(d, fault);
    pthread_mutex_unlock(&d->lock);
    return s;
}

/* ---- Memory ---- */

static pto_status sim_alloc(void *self, uint64_t bytes, void **memory)
{
    sim *d = self;
    pthread_mutex_lock(&d->lock);
    pto_status s = count_operation(d, PTO_SIM_FAIL_ALLOC);
    if (!s) {
        s = ptoi_sim_memory_alloc(&d->memory, d->index, bytes, memory);
    }
    pthread_mutex_unlock(&d->lock);
    return s;
}

static void sim_free(void *self, void *memory, uint64_t bytes)
{
    sim *d = self;
    pthread_mutex_lock(&d->lock);
    const bool freed = ptoi_sim_memory_free(&d->memory, memory);
    pthread_mutex_unlock(&d->lock);
    if (!freed) {
        PTO_IGNORE(ptoi_fail(PTO_BAD_MEMORY,
                             "%" PRIu64 " bytes at %p are not memory of sim:%" PRId32
                             ", or were freed before",
                             bytes, memory, d->index));
    }
}

static pto_status sim_memory(void *self, uint64_t *bytes, uint64_t *used)
{
    sim *d = self;
    pthread_mutex_lock(&d->lock);
    *bytes = d->memory.size;
    *used = d->memory.used;
    pthread_mutex_unlock(&d->lock);
    return PTO_OK;
}

/* ---- Copies ---- */

/* Makes a tensor usable for the engine: one on a simulated device moves to the inner mapping. */
static pto_status translate(const sim *d, const char *what, const pto_tensor *t, pto_tensor *inner)
{
    uint64_t low, end;
    *inner = *t;
    PTO_TRY(pto_tensor_byte_range(t, &low, &end));
    if (t->device.type == PTO_DEVICE_CPU || low == end) {
        return PTO_OK;
    }
    if (t->device.type != PTO_DEVICE_SIM || (uint32_t)t->device.index >= PTO_SIM_DEVICES) {
        return ptoi_fail(PTO_BAD_DEVICE, "sim:%" PRId32 ": copy: %s is on %s:%" PRId32, d->index,
                         what, pto_device_name(t->device.type), t->device.index);
    }
    sim *there = &sims[t->device.index];
    pthread_mutex_lock(&there->lock);
    const bool inside = ptoi_acquire32(&there->ready) &&
                        ptoi_sim_memory_has(&there->memory, (char *)t->storage + low, end - low);
    pthread_mutex_unlock(&there->lock);
    if (!inside) {
        return ptoi_fail(PTO_BAD_MEMORY,
                         "sim:%" PRId32 ": %s: %" PRIu64 " bytes at %p are not memory of "
                         "sim:%" PRId32,
                         d->index, what, end - low, (char *)t->storage + low, t->device.index);
    }
    inner->storage = (char *)t->storage + there->ops.shift;
    return PTO_OK;
}

static pto_status give(sim *d, const pto_tensor *to, const pto_tensor *from, const void *element,
                       pto_device_done done, void *context)
{
    ptoi_sim_job *job = calloc(1, sizeof *job);
    if (!job) {
        return ptoi_fail(PTO_OUT_OF_MEMORY, "sim:%" PRId32 ": no %zu bytes on the host", d->index,
                         sizeof *job);
    }
    job->done = done;
    job->context = context;
    job->fills = element != NULL;
    pto_status s = translate(d, "destination", to, &job->to);
    if (!s && from) {
        s = translate(d, "source", from, &job->from);
    }
    if (!s) {
        s = pto_tensor_nbytes(to, &job->bytes);
    }
    if (!s) {
        if (element) {
            memcpy(job->element, element, pto_dtype_size(to->dtype));
        }
        s = ptoi_sim_engine_give(&d->engine, job);
    }
    if (s) {
        free(job);
    }
    return s;
}

static pto_status sim_copy(void *self, const pto_tensor *to, const pto_tensor *from,
                           pto_device_done done, void *context)
{
    return give(self, to, from, NULL, done, context);
}

static pto_status sim_fill(void *self, const pto_tensor *to, const void *element,
                           pto_device_done done, void *context)
{
    return give(self, to, NULL, element, done, context);
}

static pto_status engine_verdict(void *self)
{
    return operate(self, PTO_SIM_FAIL_COPY);
}

static pto_status sim_copy_in(void *self, void *to, const void *from, uint64_t bytes)
{
    const pto_device here = {PTO_DEVICE_SIM, ((sim *)self)->index};
    return ptoi_device_copy_bytes(here, to, (void *)(uintptr_t)from, bytes, true);
}

static pto_status sim_copy_out(void *self, void *to, const void *from, uint64_t bytes)
{
    const pto_device here = {PTO_DEVICE_SIM, ((sim *)self)->index};
    return ptoi_device_copy_bytes(here, (void *)(uintptr_t)from, to, bytes, false);
}

/* ---- Kernels ---- */

static pto_status sim_begin(void *self)
{
    sim *d = self;
    pthread_mutex_lock(&d->lock);
    const pto_status s = count_operation(d, PTO_SIM_FAIL_KERNEL);
    d->kernels += !s;
    pthread_mutex_unlock(&d->lock);
    return s;
}

/* ---- Streams ---- */

static pto_status sim_stream_create(void *self, void **stream)
{
    sim *d = self;
    return ptoi_sim_stream_create(&d->streams, stream);
}

static void sim_stream_destroy(void *self, void *stream)
{
    (void)self;
    ptoi_sim_stream_destroy(stream);
}

static pto_status sim_event_create(void *self, void **event)
{
    (void)self;
    return ptoi_sim_event_create(event);
}

static void sim_event_destroy(void *self, void *event)
{
    (void)self;
    ptoi_sim_event_destroy(event);
}

static pto_status sim_event_record(void *self, void *event, void *stream)
{
    (void)self;
    return ptoi_sim_event_record(event, stream);
}

static pto_status sim_event_wait(void *self, void *stream, void *event)
{
    (void)self;
    return ptoi_sim_event_wait(event, stream);
}

/* A lost device answers no question, even about what it has done. */
static pto_status sim_event_query(void *self, void *event, bool *passed)
{
    sim *d = self;
    pthread_mutex_lock(&d->lock);
    const bool lost = d->lost;
    pthread_mutex_unlock(&d->lock);
    if (lost) {
        ptoi_sim_streams_halt(&d->streams);
        return ptoi_fail(PTO_DEVICE_LOST, "sim:%" PRId32 " is lost (pto_sim_fail)", d->index);
    }
    *passed = ptoi_sim_event_has_passed(event);
    return PTO_OK;
}

/* ---- Life ---- */

static void set_workers(sim *d, uint32_t workers)
{
    d->ops.workers[PTO_CUBE] = d->ops.workers[PTO_VECTOR] = workers;
    d->ops.workers[PTO_ACCELERATOR] = 1; /* hands requests to the engine */
}

static pto_status create(sim *d, int32_t index)
{
    ptoi_settings set;
    PTO_TRY(ptoi_config_resolve(NULL, &set));
    d->index = index;
    pthread_mutex_init(&d->lock, NULL);
    pthread_mutex_init(&d->engine.lock, NULL);
    pthread_cond_init(&d->engine.more, NULL);
    ptoi_sim_streams_init(&d->streams);
    d->engine.verdict = engine_verdict;
    d->engine.self = d;
    d->engine.bandwidth = set.sim.bandwidth ? set.sim.bandwidth : UINT64_MAX;
    d->engine.latency_ns = set.sim.latency_ns;
    PTO_TRY(ptoi_sim_memory_map(&d->memory, index, set.sim.memory));
    snprintf(d->description, sizeof d->description, "simulated accelerator (pto/sim.h)");
    d->ops = (pto_device_ops){.size = sizeof d->ops,
                              .self = d,
                              .alloc = sim_alloc,
                              .free = sim_free,
                              .copy_in = sim_copy_in,
                              .copy_out = sim_copy_out,
                              .shift = d->memory.inner - d->memory.host,
                              .copy = sim_copy,
                              .fill = sim_fill,
                              .begin = sim_begin,
                              .memory = sim_memory,
                              .description = d->description,
                              .stream_create = sim_stream_create,
                              .stream_destroy = sim_stream_destroy,
                              .event_create = sim_event_create,
                              .event_destroy = sim_event_destroy,
                              .event_record = sim_event_record,
                              .event_query = sim_event_query,
                              .event_wait = sim_event_wait};
    set_workers(d, set.sim.workers);
    return PTO_OK;
}

/* The device, which is created at its first use. NULL on failure: *status says why. */
static sim *find(int32_t index, pto_status *status)
{
    if ((uint32_t)index >= PTO_SIM_DEVICES) {
        *status = ptoi_fail(PTO_BAD_DEVICE, "sim:%" PRId32 ": there are sim:0 to sim:%d", index,
                            PTO_SIM_DEVICES - 1);
        return NULL;
    }
    sim *d = &sims[index];
    *status = PTO_OK;
    if (ptoi_acquire32(&d->ready)) {
        return d;
    }
    pthread_mutex_lock(&creating);
    *status = ptoi_get32(&d->ready) ? PTO_OK : create(d, index);
    if (!*status) {
        ptoi_release32(&d->ready, 1);
    }
    pthread_mutex_unlock(&creating);
    return *status ? NULL : d;
}

pto_status ptoi_sim_get(int32_t index, const pto_device_ops **ops)
{
    pto_status found;
    sim *d = find(index, &found);
    if (!d) {
        return found;
    }
    *ops = &d->ops;
    return PTO_OK;
}

bool ptoi_sim_exists(int32_t index)
{
    return (uint32_t)index < PTO_SIM_DEVICES && ptoi_acquire32(&sims[index].ready);
}

/* ---- Public functions ---- */

/* Changes how much memory may be used. With the lock. */
static pto_status resize(sim *d, uint64_t bytes)
{
    ptoi_sim_memory *m = &d->memory;
    uint64_t end = 0; /* of the highest block */
    for (const ptoi_sim_block *block = m->first; block; block = block->next) {
        end = block->at + block->bytes;
    }
    if (bytes > m->mapped) {
        return ptoi_fail(PTO_BAD_CONFIG,
                         "sim configure: sim:%" PRId32 ": memory of %" PRIu64
                         " bytes, at most %" PRIu64 ": raise PTO_SIM_MEMORY",
                         d->index, bytes, m->mapped);
    }
    if (bytes < end) {
        return ptoi_fail(PTO_BAD_CONFIG,
                         "sim configure: sim:%" PRId32 ": memory of %" PRIu64
                         " bytes, but the first %" PRIu64 " have blocks in use",
                         d->index, bytes, end);
    }
    m->size = bytes;
    return PTO_OK;
}

pto_status pto_sim_configure(int32_t index, const pto_sim_config *config)
{
    if (!config) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "sim configure: config is NULL");
    }
    if (config->size != sizeof *config) {
        return ptoi_fail(PTO_BAD_CONFIG, "sim configure: config->size is %zu, expected %zu",
                         config->size, sizeof *config);
    }
    if (config->workers > PTO_SIM_MAX_WORKERS) {
        return ptoi_fail(PTO_BAD_CONFIG, "sim configure: %" PRIu32 " workers, at most %d",
                         config->workers, PTO_SIM_MAX_WORKERS);
    }
    if (config->streams > PTO_SIM_MAX_STREAMS && config->streams != PTO_SIM_NO_STREAMS) {
        return ptoi_fail(PTO_BAD_CONFIG, "sim configure: %" PRIu32 " streams, at most %d",
                         config->streams, PTO_SIM_MAX_STREAMS);
    }
    pto_status found;
    sim *d = find(index, &found);
    if (!d) {
        return found;
    }
    pthread_mutex_lock(&d->lock);
    const pto_status s = config->memory ? resize(d, config->memory) : PTO_OK;
    if (!s && config->workers) {
        set_workers(d, config->workers);
    }
    if (!s && config->streams) {
        d->ops.streams = config->streams == PTO_SIM_NO_STREAMS ? 0 : config->streams;
    }
    if (!s && config->launch_ns) {
        ptoi_release64(&d->streams.launch_ns,
                       config->launch_ns == PTO_SIM_NO_LIMIT ? 0 : config->launch_ns);
    }
    pthread_mutex_unlock(&d->lock);
    if (s) {
        return s;
    }
    pthread_mutex_lock(&d->engine.lock);
    d->engine.bandwidth = config->bandwidth ? config->bandwidth : d->engine.bandwidth;
    d->engine.latency_ns = config->latency_ns ? config->latency_ns : d->engine.latency_ns;
    pthread_mutex_unlock(&d->engine.lock);
    return PTO_OK;
}

pto_status pto_sim_fail(int32_t index, pto_sim_fault fault, uint64_t n)
{
    if ((uint32_t)fault >= PTO_SIM_FAULTS) {
        return ptoi_fail(PTO_BAD_PARAM, "sim fail: fault %d is not in 0 .. %d", (int)fault,
                         PTO_SIM_FAULTS - 1);
    }
    pto_status found;
    sim *d = find(index, &found);
    if (!d) {
        return found;
    }
    pthread_mutex_lock(&d->lock);
    d->left[fault] = n;
    pthread_mutex_unlock(&d->lock);
    return PTO_OK;
}

pto_status pto_sim_repair(int32_t index)
{
    pto_status found;
    sim *d = find(index, &found);
    if (!d) {
        return found;
    }
    pthread_mutex_lock(&d->lock);
    memset(d->left, 0, sizeof d->left);
    d->lost = false;
    pthread_mutex_unlock(&d->lock);
    return PTO_OK;
}

pto_status pto_sim_stats_get(int32_t index, pto_sim_stats *stats)
{
    if (!stats) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "sim stats: stats is NULL");
    }
    pto_status found;
    sim *d = find(index, &found);
    if (!d) {
        return found;
    }
    pthread_mutex_lock(&d->lock);
    *stats = (pto_sim_stats){.memory = d->memory.size,
                             .used = d->memory.used,
                             .peak = d->memory.peak,
                             .blocks = d->memory.blocks,
                             .kernels = d->kernels,
                             .faults = d->faults};
    pthread_mutex_unlock(&d->lock);
    pthread_mutex_lock(&d->engine.lock);
    stats->copies = d->engine.copies;
    stats->bytes = d->engine.bytes;
    stats->busy_ns = d->engine.busy_ns;
    pthread_mutex_unlock(&d->engine.lock);
    return PTO_OK;
}
