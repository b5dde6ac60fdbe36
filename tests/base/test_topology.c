/* test_topology.c - which cores are best for workers, in trees that look like /sys and /proc of other
 * machines. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* mkdtemp, nftw */
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/pin.h"

static char root[64];

static int make_root(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/pto-topology-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *what, int type, struct FTW *where)
{
    (void)what, (void)type, (void)where;
    return remove(path);
}

static int remove_root(void **state)
{
    (void)state;
    return nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* Makes a file of the tree, and the folders above it. */
static void put(const char *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(const char *text, const char *format, ...)
{
    char path[512];
    va_list list;
    const int length = snprintf(path, sizeof path, "%s", root);
    va_start(list, format);
    vsnprintf(path + length, sizeof path - (size_t)length, format, list);
    va_end(list);
    for (char *slash = path + length + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "%s\n", text);
    assert_int_equal(fclose(file), 0);
}

static ptoi_cpus set_of(const char *text)
{
    ptoi_cpus set = {0};
    assert_true(ptoi_cpus_parse(text, &set));
    return set;
}

static void has_order(const char *usable, uint32_t self, const char *want)
{
    static ptoi_cpu order[PTOI_CPUS];
    char text[256] = "";
    const ptoi_cpus set = set_of(usable);
    const uint32_t n = ptoi_topology_order(root, &set, self, order);
    for (uint32_t i = 0; i < n; i++) {
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%u", i ? " " : "",
                 order[i].number);
    }
    assert_string_equal(text, want);
}

/* Two sockets, two cores each, two threads each: 0 and 4 are one core, and so on. */
static void two_sockets(void)
{
    for (int cpu = 0; cpu < 8; cpu++) {
        char siblings[16];
        const char *near = cpu % 4 < 2 ? "0-1,4-5" : "2-3,6-7";
        snprintf(siblings, sizeof siblings, "%d,%d", cpu % 4, cpu % 4 + 4);
        put(siblings, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
        put(near, "/sys/devices/system/cpu/cpu%d/topology/package_cpus_list", cpu);
        put("1", "/sys/devices/system/cpu/cpu%d/cache/index0/level", cpu);
        put(siblings, "/sys/devices/system/cpu/cpu%d/cache/index0/shared_cpu_list", cpu);
        put("3", "/sys/devices/system/cpu/cpu%d/cache/index1/level", cpu);
        put(near, "/sys/devices/system/cpu/cpu%d/cache/index1/shared_cpu_list", cpu);
    }
    put("0-1", "/sys/devices/system/node/online");
    put("0-1,4-5", "/sys/devices/system/node/node0/cpulist");
    put("2-3,6-7", "/sys/devices/system/node/node1/cpulist");
    put("0-7", "/sys/devices/system/cpu/online");
    put("", "/sys/devices/system/cpu/isolated");
}

/* ---- Lists ---------------------------------------------------------------------------------- */

static void lists_are_read(void **state)
{
    (void)state;
    ptoi_cpus set = set_of("0-2,5,4095\n");
    assert_int_equal(ptoi_cpus_count(&set), 5);
    assert_true(ptoi_cpus_has(&set, 2) && ptoi_cpus_has(&set, 4095) && !ptoi_cpus_has(&set, 3));
    assert_false(ptoi_cpus_has(&set, 4096));
    set = set_of("");
    assert_int_equal(ptoi_cpus_count(&set), 0);
    static const char *const bad[] = {
        "x", "1-", "-1", "1;2", "4096", "1-4096", "99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(ptoi_cpus_parse(bad[i], &set));
    }
}

/* ---- Order ---------------------------------------------------------------------------------- */

static void without_files_all_are_alike(void **state)
{
    (void)state;
    has_order("0-3", 2, "0 1 3 2");
    has_order("0-3", 7, "0 1 2 3"); /* a thread that may not be where it is */
    has_order("5", 5, "5");
}

static void whole_cores_come_first_and_near_ones_before_far(void **state)
{
    (void)state;
    two_sockets();
    has_order("0-7", 1, "0 2 3 4 5 6 7 1");
    has_order("0-7", 7, "2 0 1 3 6 4 5 7"); /* 3 is the other half of its core */
}

static void only_usable_cores_count(void **state)
{
    (void)state;
    two_sockets();
    has_order("1-2,5", 1, "2 5 1");
    has_order("4-7", 4, "5 6 7 4"); /* nobody is on the first halves of these */
}

static void a_shared_cache_is_nearer_than_a_node(void **state)
{
    (void)state;
    /* One socket, one node, two caches, of the kind that have four cores each. */
    for (int cpu = 0; cpu < 8; cpu++) {
        put("3", "/sys/devices/system/cpu/cpu%d/cache/index0/level", cpu);
        put(cpu < 4 ? "0-3" : "4-7", "/sys/devices/system/cpu/cpu%d/cache/index0/shared_cpu_list",
            cpu);
    }
    put("0", "/sys/devices/system/node/online");
    put("0-7", "/sys/devices/system/node/node0/cpulist");
    has_order("0-7", 5, "4 6 7 0 1 2 3 5");
}

static void nodes_count_where_caches_are_not_known(void **state)
{
    (void)state;
    put("0,2", "/sys/devices/system/node/online"); /* numbers may have gaps */
    put("0-1", "/sys/devices/system/node/node0/cpulist");
    put("2-3", "/sys/devices/system/node/node2/cpulist");
    has_order("0-3", 3, "2 0 1 3");
}

/* ---- Limits --------------------------------------------------------------------------------- */

static void quota_is(double want)
{
    assert_int_equal((int)(1000 * ptoi_topology_quota(root)), (int)(1000 * want));
}

static void quotas_are_found(void **state)
{
    (void)state;
    quota_is(0);
    put("0::/a/b", "/proc/self/cgroup");
    quota_is(0);
    put("max 100000", "/sys/fs/cgroup/a/b/cpu.max");
    quota_is(0);
    put("400000 100000", "/sys/fs/cgroup/a/cpu.max"); /* a group above it counts as well */
    quota_is(4);
    put("150000 100000", "/sys/fs/cgroup/a/b/cpu.max");
    quota_is(1.5);
}

static void a_container_sees_its_group_as_the_root(void **state)
{
    (void)state;
    put("0::/docker/1234", "/proc/self/cgroup"); /* not mounted here */
    put("200000 100000", "/sys/fs/cgroup/cpu.max");
    quota_is(2);
    put("0::/", "/proc/self/cgroup");
    quota_is(2);
}

static void quotas_of_the_first_version_are_found(void **state)
{
    (void)state;
    put("5:cpuacct,cpu:/x\n1:name=systemd:/x", "/proc/self/cgroup");
    put("-1", "/sys/fs/cgroup/cpu/x/cpu.cfs_quota_us");
    put("100000", "/sys/fs/cgroup/cpu/x/cpu.cfs_period_us");
    quota_is(0);
    put("50000", "/sys/fs/cgroup/cpu/x/cpu.cfs_quota_us");
    quota_is(0.5);
}

static bool owns(const char *usable)
{
    const ptoi_cpus set = set_of(usable);
    return ptoi_topology_owned(root, &set);
}

static void cores_are_owned_if_they_were_set_apart(void **state)
{
    (void)state;
    assert_false(owns("0-3")); /* nothing is known */
    two_sockets();
    assert_false(owns("0-7"));
    assert_true(owns("0-6"));
    put("0-7", "/sys/devices/system/cpu/isolated");
    assert_true(owns("0-7"));
    put("", "/sys/devices/system/cpu/isolated");
    put("0::/job", "/proc/self/cgroup");
    put("member", "/sys/fs/cgroup/job/cpuset.cpus.partition");
    assert_false(owns("0-7"));
    put("root invalid (cpu list in cpuset.cpus not exclusive)",
        "/sys/fs/cgroup/job/cpuset.cpus.partition");
    assert_false(owns("0-7"));
    put("isolated", "/sys/fs/cgroup/job/cpuset.cpus.partition");
    assert_true(owns("0-7"));
}

/* ---- The plan ------------------------------------------------------------------------------- */

static uint32_t cpus[16];

static ptoi_pin_why plan(pto_pin how, const char *usable, uint32_t self, uint32_t workers)
{
    const ptoi_cpus set = set_of(usable);
    memset(cpus, 0xA5, sizeof cpus);
    return ptoi_pin_plan(root, how, &set, self, workers, cpus);
}

static void auto_pins_only_where_it_cannot_disturb(void **state)
{
    (void)state;
    two_sockets();
    assert_int_equal(plan(PTO_PIN_AUTO, "0-7", 0, 3), PTOI_PIN_NOT_OWNED);
    assert_int_equal(plan(PTO_PIN_AUTO, "0-3", 0, 4), PTOI_PIN_CROWDED);
    assert_int_equal(plan(PTO_PIN_AUTO, "0-3", 0, 0), PTOI_PIN_NO_WORKERS);
    assert_int_equal(plan(PTO_PIN_AUTO, "", 0, 3), PTOI_PIN_UNKNOWN);
    assert_int_equal(plan(PTO_PIN_OFF, "0-3", 0, 3), PTOI_PIN_IS_OFF);
    assert_int_equal(plan(PTO_PIN_AUTO, "0-3", 0, 3), PTOI_PINNED);
    assert_int_equal(cpus[0], 1); /* near first, and the caller's core is left to it */
    assert_int_equal(cpus[1], 2);
    assert_int_equal(cpus[2], 3);
    put("0::/job", "/proc/self/cgroup");
    put("399999 100000", "/sys/fs/cgroup/job/cpu.max");
    assert_int_equal(plan(PTO_PIN_AUTO, "0-3", 0, 3), PTOI_PIN_QUOTA);
    put("400000 100000", "/sys/fs/cgroup/job/cpu.max");
    assert_int_equal(plan(PTO_PIN_AUTO, "0-3", 0, 3), PTOI_PINNED);
}

static void cores_pins_in_any_case(void **state)
{
    (void)state;
    two_sockets();
    assert_int_equal(plan(PTO_PIN_CORES, "0-7", 2, 3), PTOI_PINNED);
    assert_int_equal(cpus[0], 3);
    assert_int_equal(cpus[1], 0);
    assert_int_equal(cpus[2], 1);
    assert_int_equal(plan(PTO_PIN_CORES, "4-5", 4, 3), PTOI_PINNED); /* in turn */
    assert_int_equal(cpus[0], 5);
    assert_int_equal(cpus[1], 4);
    assert_int_equal(cpus[2], 5);
}

int main(void)
{
#define IN_TREE(test) cmocka_unit_test_setup_teardown(test, make_root, remove_root)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_are_read),
        IN_TREE(without_files_all_are_alike),
        IN_TREE(whole_cores_come_first_and_near_ones_before_far),
        IN_TREE(only_usable_cores_count),
        IN_TREE(a_shared_cache_is_nearer_than_a_node),
        IN_TREE(nodes_count_where_caches_are_not_known),
        IN_TREE(quotas_are_found),
        IN_TREE(a_container_sees_its_group_as_the_root),
        IN_TREE(quotas_of_the_first_version_are_found),
        IN_TREE(cores_are_owned_if_they_were_set_apart),
        IN_TREE(auto_pins_only_where_it_cannot_disturb),
        IN_TREE(cores_pins_in_any_case),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
