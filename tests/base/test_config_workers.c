/* test_config_workers.c - workers, types of the caller, and the place of the scheduler. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* sched_getaffinity, setenv */
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "options.h"

static void workers_are(const ptoi_settings *s, uint32_t n, const uint32_t *types)
{
    assert_int_equal(s->n_workers, n);
    for (uint32_t w = 0; w < n; w++) {
        assert_int_equal(s->worker_types[w], types ? types[w] : PTO_ALL_TYPES);
    }
}

enum {
    CUBE = PTO_TYPE_BIT(PTO_CUBE),
    VECTOR = PTO_TYPE_BIT(PTO_VECTOR),
    AI_CPU = PTO_TYPE_BIT(PTO_AI_CPU),
    ACCELERATOR = PTO_TYPE_BIT(PTO_ACCELERATOR),
};

/* A simulated machine: this replaces the function of the C library. */
static struct {
    size_t cores;   /* we may run on; 0: ask the kernel */
    size_t machine; /* cores that the machine has: a smaller set is refused */
    size_t asked;   /* how often */
    int error;      /* instead of an answer */
} pretend;

int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *cpuset)
{
    memset(cpuset, 0, size);
    if (!pretend.cores && !pretend.error) {
        return syscall(SYS_sched_getaffinity, pid, size, cpuset) < 0 ? -1 : 0;
    }
    pretend.asked++;
    if (pretend.error || size * 8 < pretend.machine) {
        errno = pretend.error ? pretend.error : EINVAL;
        return -1;
    }
    for (size_t i = 0; i < pretend.cores; i++) {
        CPU_SET_S(pretend.machine - 1 - i, size, cpuset); /* the last ones */
    }
    return 0;
}

static void workers_come_from_the_struct(void **state)
{
    (void)state;
    pto_config config = PTO_CONFIG_INIT;
    set("PTO_WORKERS", "garbage"); /* nobody looks */
    config.workers = 3;
    workers_are(accepted(&config), 3, NULL);
    config.workers = PTO_MAX_WORKERS;
    workers_are(accepted(&config), PTO_MAX_WORKERS, NULL);
    config.workers = PTO_NO_WORKERS;
    workers_are(accepted(&config), 0, NULL);

    static const uint32_t types[] = {CUBE | VECTOR, AI_CPU, PTO_ALL_TYPES};
    config.workers = 3;
    config.worker_types = types;
    workers_are(accepted(&config), 3, types);

    config = (pto_config)PTO_CONFIG_INIT;
    config.type_workers[PTO_CUBE] = 2;
    config.type_workers[PTO_ACCELERATOR] = 1;
    workers_are(accepted(&config), 3, (uint32_t[]){CUBE, CUBE, ACCELERATOR});
    config.type_workers[PTO_ACCELERATOR] = PTO_MAX_WORKERS - 2;
    assert_int_equal(accepted(&config)->n_workers, PTO_MAX_WORKERS);

    refused(NULL, "PTO_WORKERS=\"garbage\"");
}

static void workers_are_said_in_one_way(void **state)
{
    (void)state;
    static const uint32_t types[] = {CUBE, CUBE};
    pto_config config = PTO_CONFIG_INIT;
    config.worker_types = types;
    refused(&config, "workers = 0", "worker_types", "1 to 1024");
    config.workers = PTO_NO_WORKERS;
    refused(&config, "workers = 4294967295", "worker_types");
    set("PTO_WORKERS", "2"); /* which does not make up for it */
    config.workers = 0;
    refused(&config, "workers = 0", "worker_types");

    config.type_workers[PTO_VECTOR] = 2;
    refused(&config, "type_workers has 2 threads", "worker_types");
    config.worker_types = NULL;
    workers_are(accepted(&config), 2, (uint32_t[]){VECTOR, VECTOR});
    config.workers = 2;
    refused(&config, "type_workers has 2 threads", "and workers is set");
    config.workers = PTO_NO_WORKERS;
    refused(&config, "type_workers has 2 threads", "and workers is set");
}

static void bad_workers_in_the_struct_are_refused(void **state)
{
    (void)state;
    pto_config config = PTO_CONFIG_INIT;
    config.workers = PTO_MAX_WORKERS + 1;
    refused(&config, "workers = 1025: must be 0 to 1024");
    config.workers = 2;
    config.worker_types = (const uint32_t[]){CUBE, 0};
    refused(&config, "worker_types[1] = 0x0: must be types");
    config.worker_types = (const uint32_t[]){CUBE, 16};
    refused(&config, "worker_types[1] = 0x10: must be types", "0xf");
    config = (pto_config)PTO_CONFIG_INIT;
    config.type_workers[PTO_CUBE] = config.type_workers[PTO_VECTOR] = 513;
    refused(&config, "type_workers = 1026: must be 0 to 1024");
    /* More than 32 bits: no wrap to a small value. */
    config.type_workers[PTO_CUBE] = config.type_workers[PTO_VECTOR] = UINT32_MAX / 2 + 1;
    config.type_workers[PTO_AI_CPU] = 2;
    refused(&config, "type_workers = 4294967298: must be");
}

static void workers_come_from_the_environment(void **state)
{
    (void)state;
    static const struct {
        const char *value;
        uint32_t n, types[4];
    } cases[] = {
        {"none", 0, {0}},
        {"None", 0, {0}},
        {"0", 0, {0}},
        {"3", 3, {PTO_ALL_TYPES, PTO_ALL_TYPES, PTO_ALL_TYPES}},
        {"all", 1, {PTO_ALL_TYPES}},
        {"cube", 1, {CUBE}},
        {"cube+cube", 1, {CUBE}},
        {"cube+all", 1, {PTO_ALL_TYPES}},
        {"cube+vector,ai_cpu,accelerator", 3, {CUBE | VECTOR, AI_CPU, ACCELERATOR}},
        {"CUBE,all,Ai_Cpu", 3, {CUBE, PTO_ALL_TYPES, AI_CPU}},
        {"cube:2,vector:1", 3, {CUBE, CUBE, VECTOR}},
        {"vector,cube+ai_cpu:2,vector", 4, {VECTOR, CUBE | AI_CPU, CUBE | AI_CPU, VECTOR}},
        {"cube:0,vector", 1, {VECTOR}},
        {"cube+vector+ai_cpu+accelerator", 1, {PTO_ALL_TYPES}},
        {"all:2", 2, {PTO_ALL_TYPES, PTO_ALL_TYPES}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        set("PTO_WORKERS", cases[i].value);
        workers_are(accepted(NULL), cases[i].n, cases[i].types);
    }
    set("PTO_WORKERS", "1024");
    workers_are(accepted(NULL), 1024, NULL);
    set("PTO_WORKERS", "cube:1000,vector:24");
    const ptoi_settings *s = accepted(NULL);
    assert_int_equal(s->n_workers, 1024);
    assert_int_equal(s->worker_types[999], CUBE);
    assert_int_equal(s->worker_types[1000], VECTOR);
    assert_int_equal(s->worker_types[1023], VECTOR);
}

static void bad_workers_in_the_environment_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *value, *why;
    } cases[] = {
        {"1025", "\"1025\" is out of range"},
        {"99999999999999999999", "is out of range"},
        {"3x", "is not a number"},
        {"3,2", "is not a number"},
        {"3,cube", "is not a number"},
        {"-1", "\"-1\" has an unknown type"},
        {" 3", "has an unknown type"},
        {"gpu", "\"gpu\" has an unknown type"},
        {"cube,gpu", "\"gpu\" has an unknown type"},
        {"cubes", "has an unknown type"},
        {"cub", "has an unknown type"},
        {"cube+", "\"cube+\" lacks a type"},
        {"+cube", "lacks a type"},
        {"cube++vector", "lacks a type"},
        {"cube+none", "has an unknown type"},
        {"none,cube", "\"none\" has an unknown type"},
        {"cube,", "\"\" lacks a type"},
        {",cube", "\"\" lacks a type"},
        {"cube,,vector", "\"\" lacks a type"},
        {",", "\"\" lacks a type"},
        {":2", "\":2\" lacks a type"},
        {"cube:", "\"cube:\" has a bad number of threads"},
        {"cube:x", "has a bad number of threads"},
        {"cube:-1", "has a bad number of threads"},
        {"cube:1:1", "has a bad number of threads"},
        {"cube:1025", "has a bad number of threads"},
        {"cube:4294967297", "has a bad number of threads"},
        {"cube:1024,vector", "\"vector\" makes too many threads"},
        {"cube:1000,vector:25", "\"vector:25\" makes too many threads"},
        {"cube, vector", "\" vector\" has an unknown type"},
        {"cube;vector", "has an unknown type"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        refused_variable("PTO_WORKERS", cases[i].value, cases[i].why);
    }
    /* One thread each, one too many. */
    static char many[1025 * 5];
    for (int i = 0; i < 1025; i++) {
        memcpy(many + (size_t)i * 5, "cube,", 5);
    }
    many[sizeof many - 1] = '\0';
    refused_variable("PTO_WORKERS", many, "makes too many threads");
    many[sizeof many - 6] = '\0';
    set("PTO_WORKERS", many);
    assert_int_equal(accepted(NULL)->n_workers, 1024);
}

static void workers_default_to_the_cores_we_may_use(void **state)
{
    (void)state;
    static const struct {
        size_t cores, machine;
        uint32_t workers;
        size_t asked;
    } cases[] = {
        {1, 64, 1, 1},         {2, 64, 1, 1},         {3, 64, 2, 1},
        {64, 64, 63, 1},       {8, 1024, 7, 1},       {8, 1025, 7, 2},
        {1024, 4096, 1023, 3}, {1025, 4096, 1024, 3}, {5000, 8192, 1024, 4},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pretend.cores = cases[i].cores;
        pretend.machine = cases[i].machine;
        pretend.asked = 0;
        workers_are(accepted(NULL), cases[i].workers, NULL);
        assert_int_equal(pretend.asked, cases[i].asked);
    }
    /* If the affinity is unknown: the cores of the machine. */
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    pretend.error = EPERM;
    const uint32_t n = accepted(NULL)->n_workers;
    pretend.error = 0;
    pretend.cores = 0;
    assert_int_equal(n, online < 2 ? 1 : online > 1024 ? 1024 : online - 1);
}

static void the_caller_helps_with_what_it_is_told(void **state)
{
    (void)state;
    static const struct {
        const char *value;
        uint32_t types;
    } cases[] = {
        {"all", PTO_ALL_TYPES},
        {"none", 0},
        {"cube+vector", CUBE | VECTOR},
        {"NONE", 0},
        {"", PTO_ALL_TYPES},
        {"accelerator", ACCELERATOR},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        set("PTO_CALLER", cases[i].value);
        const ptoi_settings *s = accepted(NULL);
        assert_int_equal(s->caller_types, cases[i].types);
        assert_int_equal(s->config.caller_types, cases[i].types);
    }
    static const char *const bad[] = {"3",         "cube,vector", "cube+", "+",
                                      "none+cube", "cube:1",      "al"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        refused_variable("PTO_CALLER", bad[i], "cube+vector+ai_cpu+accelerator");
    }
    pto_config config = PTO_CONFIG_INIT;
    set("PTO_CALLER", "garbage");
    config.caller_types = VECTOR;
    assert_int_equal(accepted(&config)->caller_types, VECTOR);
    config.caller_types = PTO_NO_TYPES;
    assert_int_equal(accepted(&config)->caller_types, 0);
    config.caller_types = PTO_ALL_TYPES + 1;
    refused(&config, "caller_types = 0x10: must be types", "0xf");
}

static void workers_are_pinned_as_told(void **state)
{
    (void)state;
    pto_config config = PTO_CONFIG_INIT;
    assert_int_equal(accepted(NULL)->config.pin, PTO_PIN_OFF);
    assert_false(accepted(NULL)->pinned); /* decided when a runtime is created */
    set("PTO_PIN", "Auto");
    assert_int_equal(accepted(NULL)->config.pin, PTO_PIN_AUTO);
    config.pin = PTO_PIN_CORES;
    assert_int_equal(accepted(&config)->config.pin, PTO_PIN_CORES);
    set("PTO_PIN", "off");
    assert_int_equal(accepted(NULL)->config.pin, PTO_PIN_OFF);
    static const char *const bad[] = {"garbage", "core", "auto,cores", "1", "none", "default"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        refused_variable("PTO_PIN", bad[i], "off or auto or cores");
    }
    config.pin = 4;
    refused(&config, "pin = 4: must be 0 to 3");
}

static void the_scheduler_has_its_place(void **state)
{
    (void)state;
    pto_config config = PTO_CONFIG_INIT;
    set("PTO_SCHEDULER", "thread");
    assert_int_equal(accepted(NULL)->config.place, PTO_PLACE_THREAD);
    config.place = PTO_PLACE_INLINE;
    assert_int_equal(accepted(&config)->config.place, PTO_PLACE_INLINE);
    set("PTO_SCHEDULER", "INLINE");
    assert_int_equal(accepted(NULL)->config.place, PTO_PLACE_INLINE);
    config.place = PTO_PLACE_THREAD;
    set("PTO_SCHEDULER", "garbage");
    assert_int_equal(accepted(&config)->config.place, PTO_PLACE_THREAD);
    static const char *const bad[] = {"garbage", "inlin", "inline,thread", "1", "none", "default"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        refused_variable("PTO_SCHEDULER", bad[i], "inline or thread or process or gpu");
    }
    config.place = (pto_place)5;
    refused(&config, "place = 5: must be 0 to 4");
    /* A device that schedules for itself has to be named, and knows rings of a limited size. */
    config.place = PTO_PLACE_GPU;
    refused(&config, "needs a device");
    config.device = (pto_device){PTO_DEVICE_SIM, 0};
    assert_int_equal(accepted(&config)->caller_types, 0);
    config.level_ring_tasks[1] = 1u << 20;
    refused(&config, "level 1 has 1048576 tasks");
    config.level_ring_tasks[1] = 0;
    config.guard = 1;
    refused(&config, "PTO_GUARD");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        OPTION_TEST(workers_come_from_the_struct),
        OPTION_TEST(workers_are_said_in_one_way),
        OPTION_TEST(bad_workers_in_the_struct_are_refused),
        OPTION_TEST(workers_come_from_the_environment),
        OPTION_TEST(bad_workers_in_the_environment_are_refused),
        OPTION_TEST(workers_default_to_the_cores_we_may_use),
        OPTION_TEST(the_caller_helps_with_what_it_is_told),
        OPTION_TEST(workers_are_pinned_as_told),
        OPTION_TEST(the_scheduler_has_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
