/* config.c - decides the value of each option: from the struct, the environment or the default. */
#include "base/config.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/option.h"
#include "base/os.h"

static pto_status check(const ptoi_option *o, uint64_t value, const char *field)
{
    if (value < o->low || value > o->high) {
        return ptoi_fail(PTO_BAD_CONFIG,
                         "config: %s = %" PRIu64 ": must be %" PRIu64 " to %" PRIu64, field, value,
                         o->low, o->high);
    }
    return PTO_OK;
}

/* ---- Numbers ------------------------------------------------------------------------------- */

static uint64_t rounded(const ptoi_option *o, uint64_t value)
{
    uint64_t power = 1;
    switch (o->round) {
    case PTOI_ROUND_NOT:
        break;
    case PTOI_ROUND_POWER:
        while (power < value) {
            power *= 2;
        }
        return power;
    case PTOI_ROUND_LINE:
        return (value + PTOI_OPTION_LINE - 1) / PTOI_OPTION_LINE * PTOI_OPTION_LINE;
    }
    return value;
}

static pto_status decide_number(const ptoi_option *o, const char *variable, ptoi_settings *s)
{
    uint64_t value = ptoi_option_get(o, &s->config, o->at);
    if (value == PTO_NO_SPIN && o->may_be_none) {
        ptoi_option_set(o, &s->config, o->at, 0);
        return PTO_OK;
    }
    if (value) {
        ptoi_option_set(o, &s->config, o->at, rounded(o, value));
        return check(o, value, o->field);
    }
    value = o->otherwise;
    const pto_status status = variable ? ptoi_option_read_number(o, variable, &value) : PTO_OK;
    ptoi_option_set(o, &s->config, o->at, rounded(o, value));
    return status;
}

/* The values that the struct gives for each level; 0: none. */
static pto_status given_levels(const ptoi_option *o, const pto_config *c, uint64_t *values)
{
    const uint64_t common = ptoi_option_get(o, c, o->at);
    pto_status status = common ? check(o, common, o->field) : PTO_OK;
    for (uint32_t level = 0; level < PTO_MAX_LEVELS && status == PTO_OK; level++) {
        const uint64_t own = ptoi_option_get(o, c, ptoi_option_level_at(o, level));
        char name[48];
        snprintf(name, sizeof name, "level_%s[%" PRIu32 "]", o->field, level);
        if (own && level >= c->levels) {
            status = ptoi_fail(PTO_BAD_CONFIG, "config: %s = %" PRIu64 ": levels are 0 to %" PRIu32,
                               name, own, c->levels - 1);
        } else if (own) {
            status = check(o, own, name);
        }
        values[level] = own ? own : common;
    }
    return status;
}

static pto_status decide_levels(const ptoi_option *o, const char *variable, ptoi_settings *s)
{
    pto_config *c = &s->config;
    uint64_t values[PTO_MAX_LEVELS];
    uint64_t listed[PTO_MAX_LEVELS] = {0};
    pto_status status = given_levels(o, c, values);
    bool open = false; /* the struct leaves some level to the variable */
    for (uint32_t level = 0; level < c->levels && status == PTO_OK; level++) {
        open = open || !values[level];
    }
    if (open && variable) {
        status = ptoi_option_read_levels(o, variable, c->levels, listed);
    }
    if (status != PTO_OK) {
        return status;
    }
    for (uint32_t level = 0; level < c->levels; level++) {
        const uint64_t least = (uint64_t)o->per_task * c->level_ring_tasks[level];
        const uint64_t room = o->reserves ? ptoi_os_address_space() / 8 / c->levels : UINT64_MAX;
        const uint64_t usual = o->otherwise < room ? o->otherwise : room;
        const uint64_t otherwise = usual > least ? usual : least;
        const uint64_t set = values[level] ? values[level] : listed[level];
        ptoi_option_set(o, c, ptoi_option_level_at(o, level), rounded(o, set ? set : otherwise));
    }
    ptoi_option_set(o, c, o->at, ptoi_option_get(o, c, ptoi_option_level_at(o, 0)));
    return PTO_OK;
}

/* ---- Workers ------------------------------------------------------------------------------- */

bool ptoi_settings_add_threads(ptoi_settings *s, uint64_t count, uint32_t types)
{
    if (count > PTO_MAX_WORKERS - s->n_workers) {
        return false;
    }
    for (; count; count--) {
        s->worker_types[s->n_workers++] = types;
    }
    return true;
}

static pto_status workers_given(const ptoi_option *o, ptoi_settings *s)
{
    const pto_config *c = &s->config;
    pto_status status = check(o, c->workers, o->field);
    for (uint32_t w = 0; w < c->workers && status == PTO_OK; w++) {
        const uint32_t types = c->worker_types ? c->worker_types[w] : PTO_ALL_TYPES;
        if (!types || types & ~PTO_ALL_TYPES) {
            status = ptoi_fail(PTO_BAD_CONFIG,
                               "config: worker_types[%" PRIu32 "] = 0x%" PRIx32
                               ": must be types, at least one, out of 0x%x (PTO_ALL_TYPES)",
                               w, types, PTO_ALL_TYPES);
        }
        ptoi_settings_add_threads(s, 1, types);
    }
    return status;
}

static pto_status decide_workers(const ptoi_option *o, const char *variable, ptoi_settings *s)
{
    const pto_config *c = &s->config;
    const bool none = c->workers == PTO_NO_WORKERS;
    uint64_t by_type = 0;
    for (unsigned type = 0; type < PTO_WORKER_TYPES; type++) {
        by_type += c->type_workers[type];
    }
    if (by_type && (c->workers || c->worker_types)) {
        return ptoi_fail(PTO_BAD_CONFIG,
                         "config: type_workers has %" PRIu64 " threads, and %s is set too: set "
                         "only one of them",
                         by_type, c->workers ? "workers" : "worker_types");
    }
    if (c->worker_types && (!c->workers || none)) {
        return ptoi_fail(PTO_BAD_CONFIG,
                         "config: workers = %" PRIu32 ", and worker_types is set: must be the "
                         "number of its sets, 1 to %d",
                         c->workers, PTO_MAX_WORKERS);
    }
    if (none) {
        return PTO_OK;
    }
    if (c->workers) {
        return workers_given(o, s);
    }
    if (by_type) {
        const pto_status status = check(o, by_type, "the sum of type_workers");
        for (unsigned type = 0; type < PTO_WORKER_TYPES && status == PTO_OK; type++) {
            ptoi_settings_add_threads(s, c->type_workers[type], PTO_TYPE_BIT(type));
        }
        return status;
    }
    if (variable) {
        return ptoi_option_read_workers(o, variable, s);
    }
    /* The orchestrating thread needs a core too. */
    const uint64_t cores = ptoi_os_cores();
    const uint64_t others = cores > 2 ? cores - 1 : 1;
    ptoi_settings_add_threads(s, others < PTO_MAX_WORKERS ? others : PTO_MAX_WORKERS,
                              PTO_ALL_TYPES);
    return PTO_OK;
}

static pto_status decide_caller(const ptoi_option *o, const char *variable, ptoi_settings *s)
{
    uint32_t types = s->config.caller_types;
    pto_status status = PTO_OK;
    if (types == PTO_NO_TYPES) {
        types = 0;
    } else if (types & ~PTO_ALL_TYPES) {
        status = ptoi_fail(PTO_BAD_CONFIG,
                           "config: %s = 0x%" PRIx32 ": must be types out of 0x%x (PTO_ALL_TYPES), "
                           "or PTO_NO_TYPES",
                           o->field, types, PTO_ALL_TYPES);
    } else if (!types && variable) {
        status = ptoi_option_read_types(o, variable, &types);
    } else if (!types) {
        types = (uint32_t)o->otherwise;
    }
    s->config.caller_types = s->caller_types = types;
    return status;
}

/* ---- All ----------------------------------------------------------------------------------- */

static pto_status decide_place(const ptoi_option *o, const char *variable, ptoi_settings *s)
{
    const int64_t given = (int64_t)s->config.place;
    if (given < 0 || given >= PTOI_PLACES) {
        return ptoi_fail(PTO_BAD_CONFIG, "config: %s = %" PRId64 ": must be 0 to %d", o->field,
                         given, PTOI_PLACES - 1);
    }
    if (given != PTO_PLACE_DEFAULT) {
        return PTO_OK;
    }
    s->config.place = (pto_place)o->otherwise;
    return variable ? ptoi_option_read_place(o, variable, &s->config.place) : PTO_OK;
}

static pto_status decide_pin(const ptoi_option *o, const char *variable, ptoi_settings *s)
{
    if (s->config.pin >= PTOI_PINS) {
        return ptoi_fail(PTO_BAD_CONFIG, "config: %s = %" PRIu32 ": must be 0 to %d", o->field,
                         s->config.pin, PTOI_PINS - 1);
    }
    if (s->config.pin != PTO_PIN_DEFAULT) {
        return PTO_OK;
    }
    s->config.pin = (uint32_t)o->otherwise;
    return variable ? ptoi_option_read_pin(o, variable, &s->config.pin) : PTO_OK;
}

static pto_status decide_trace(const ptoi_option *o, const char *variable, ptoi_settings *s)
{
    const char *path = s->config.trace;
    s->trace_is_shared = !path;
    if (path && !ptoi_option_is_trace(path)) {
        return ptoi_fail(PTO_BAD_CONFIG, "config: %s = \"%s\": has no known ending; it takes %s",
                         o->field, path, ptoi_option_takes(o).s);
    }
    return path || !variable ? PTO_OK : ptoi_option_read_trace(o, variable, &s->config.trace);
}

static pto_status decide_name(const ptoi_option *o, const char *variable, ptoi_settings *s)
{
    const char *name = s->config.attach;
    if (name && !ptoi_option_is_name(name)) {
        return ptoi_fail(PTO_BAD_CONFIG, "config: %s = \"%s\": it takes %s", o->field, name,
                         ptoi_option_takes(o).s);
    }
    return name || !variable ? PTO_OK : ptoi_option_read_name(o, variable, &s->config.attach);
}

/* Workers in processes of their own. Those that attach from outside have lines behind the others. */
static pto_status decide_processes(ptoi_settings *s)
{
    const uint32_t each = s->config.process_threads;
    s->n_started = s->n_workers;
    if (s->config.place != PTO_PLACE_PROCESS) {
        return !s->config.attach
                   ? PTO_OK
                   : ptoi_fail(PTO_BAD_CONFIG,
                               "config: attach = \"%s\" (PTO_ATTACH): workers can attach only with "
                               "place = PTO_PLACE_PROCESS (PTO_SCHEDULER=process)",
                               s->config.attach);
    }
    s->caller_types = 0; /* the program runs no kernel: it would not survive a crash */
    s->n_processes = (s->n_workers + each - 1) / each;
    if (s->config.attach) {
        const uint32_t left = PTO_MAX_WORKERS - s->n_workers;
        const uint32_t more = left < PTOI_ATTACH_MOST ? left : PTOI_ATTACH_MOST;
        s->n_workers += more;
        s->n_processes += more;
    }
    return PTO_OK;
}

#define GPU_TASKS (1u << 19) /* PTOI_HEAD_SLOTS_MAX */
#define GPU_UNITS (1u << 20) /* PTOI_HEAD_UNITS_MAX */

/* The device schedules, and the program runs no kernel. The device has copies of the rings, and knows
 * positions in them by 20 or 21 bits (window/mirror.h). */
static pto_status decide_gpu(ptoi_settings *s)
{
    const pto_config *c = &s->config;
    s->caller_types = 0;
    if (c->device.type == PTO_DEVICE_CPU) {
        return ptoi_fail(PTO_BAD_CONFIG,
                         "config: place = PTO_PLACE_GPU (PTO_SCHEDULER=gpu): needs a "
                         "device (config.device, PTO_DEVICE=nvidia:0 or sim:0)");
    }
    if (c->guard == 1) {
        return ptoi_fail(
            PTO_BAD_CONFIG,
            "config: guard = 1 (PTO_GUARD): with place = PTO_PLACE_GPU (PTO_SCHEDULER=gpu) "
            "only memory of the host can have guards (PTO_GUARD_HOST, PTO_GUARD=2)");
    }
    for (uint32_t l = 0; l < c->levels; l++) {
        if (c->level_ring_tasks[l] > GPU_TASKS || c->level_deps[l] > GPU_UNITS ||
            c->level_arg_bytes[l] / 16 > GPU_UNITS) {
            return ptoi_fail(PTO_BAD_CONFIG,
                             "config: level %" PRIu32 " has %" PRIu32 " tasks, %" PRIu32
                             " edges and %" PRIu64
                             " bytes of arguments: with place = PTO_PLACE_GPU "
                             "(PTO_SCHEDULER=gpu) at most %u, %u and %u",
                             l, c->level_ring_tasks[l], c->level_deps[l], c->level_arg_bytes[l],
                             GPU_TASKS, GPU_UNITS, 16 * GPU_UNITS);
        }
    }
    return PTO_OK;
}

/* New fields are only added at the end. A program that was compiled against another version has a
 * struct of another size, which is otherwise the same. Fields that an older struct lacks count as
 * not set. Fields of a newer struct are unknown here: they must not be set, since this version
 * cannot do what they ask. (A new field must not fit into the padding at the end: then the size
 * would not show whether it exists.) */
static pto_status take(const pto_config *given, pto_config *config)
{
    enum {
        /* The struct of the first version ended with map_twice, so this never changes. */
        FIRST = offsetof(pto_config, map_twice) + sizeof(uint32_t),
        /* A larger size is garbage. The bytes it claims might not be readable. */
        LAST = 65536,
    };
    const size_t size = given->size;
    if (size < FIRST || size > LAST) {
        return ptoi_fail(PTO_BAD_CONFIG,
                         "config: size = %zu: must be %d to %d; begin with \"pto_config config = "
                         "PTO_CONFIG_INIT;\"",
                         size, FIRST, LAST);
    }
    for (size_t i = sizeof *config; i < size; i++) {
        if (((const unsigned char *)given)[i]) {
            return ptoi_fail(PTO_BAD_CONFIG,
                             "config: size = %zu, and byte %zu is set: version " PTO_VERSION
                             " of the library knows %zu bytes; set no newer option, or load a "
                             "newer library",
                             size, i, sizeof *config);
        }
    }
    memcpy(config, given, size < sizeof *config ? size : sizeof *config);
    return PTO_OK;
}

static pto_status decide_device(const ptoi_option *o, const char *variable, ptoi_settings *s)
{
    pto_device *device = &s->config.device;
    if ((uint32_t)device->type | (uint32_t)device->index) {
        const bool known = strcmp(pto_device_name(device->type), "invalid") != 0;
        return known && device->index >= 0
                   ? PTO_OK
                   : ptoi_fail(PTO_BAD_CONFIG, "config: %s = {%d, %" PRId32 "}: is no device",
                               o->field, (int)device->type, device->index);
    }
    return variable ? ptoi_option_read_device(o, variable, device) : PTO_OK;
}

static pto_status decide(const ptoi_option *o, const char *variable, ptoi_settings *s)
{
    switch (o->kind) {
    case PTOI_OPTION_NUMBER:
        return decide_number(o, variable, s);
    case PTOI_OPTION_LEVELS:
        return decide_levels(o, variable, s);
    case PTOI_OPTION_WORKERS:
        return decide_workers(o, variable, s);
    case PTOI_OPTION_TYPES:
        return decide_caller(o, variable, s);
    case PTOI_OPTION_PLACE:
        return decide_place(o, variable, s);
    case PTOI_OPTION_PIN:
        return decide_pin(o, variable, s);
    case PTOI_OPTION_TRACE:
        return decide_trace(o, variable, s);
    case PTOI_OPTION_DEVICE:
        return decide_device(o, variable, s);
    case PTOI_OPTION_NAME:
        return decide_name(o, variable, s);
    }
    return ptoi_fail(PTO_CORRUPT, "config: the table has an option of kind %d", (int)o->kind);
}

pto_status ptoi_config_resolve_from(const pto_config *given, bool environment, ptoi_settings *out)
{
    ptoi_settings s = {.n_workers = 0};
    pto_status status = given ? take(given, &s.config) : PTO_OK;
    for (size_t i = 0; i < ptoi_n_options && status == PTO_OK; i++) {
        const ptoi_option *o = &ptoi_options[i];
        status = decide(o, environment ? ptoi_option_variable(o) : NULL, &s);
    }
    if (status == PTO_OK) {
        status = decide_processes(&s);
    }
    if (status == PTO_OK && s.config.place == PTO_PLACE_GPU) {
        status = decide_gpu(&s);
    }
    if (status == PTO_OK) {
        s.config.size = sizeof s.config;
        *out = s;
    }
    return status;
}

pto_status ptoi_config_resolve(const pto_config *given, ptoi_settings *out)
{
    return ptoi_config_resolve_from(given, true, out);
}
