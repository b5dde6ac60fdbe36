#include "base/topology.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH = 1024, TEXT = 4096 };

/* ---- Sets ---- */

uint32_t ptoi_cpus_count(const ptoi_cpus *set)
{
    uint32_t n = 0;
    for (size_t i = 0; i < PTOI_CPUS / 64; i++) {
        n += (uint32_t)__builtin_popcountll(set->word[i]);
    }
    return n;
}

bool ptoi_cpus_contains(const ptoi_cpus *whole, const ptoi_cpus *part)
{
    for (size_t i = 0; i < PTOI_CPUS / 64; i++) {
        if (part->word[i] & ~whole->word[i]) {
            return false;
        }
    }
    return true;
}

static bool parse_number(const char **text, uint32_t *number)
{
    char *end;
    if (**text < '0' || **text > '9') {
        return false;
    }
    const unsigned long value = strtoul(*text, &end, 10);
    *text = end;
    *number = (uint32_t)value;
    return value < PTOI_CPUS;
}

bool ptoi_cpus_parse(const char *text, ptoi_cpus *set)
{
    while (*text && *text != '\n') {
        uint32_t first, last;
        if (!parse_number(&text, &first)) {
            return false;
        }
        last = first;
        if (*text == '-') {
            text++;
            if (!parse_number(&text, &last)) {
                return false;
            }
        }
        for (uint32_t cpu = first; cpu <= last; cpu++) {
            ptoi_cpus_add(set, cpu);
        }
        if (*text == ',') {
            text++;
        } else if (*text && *text != '\n') {
            return false;
        }
    }
    return true;
}

/* ---- Files ---- */

/* The start of a file. False: it cannot be read. */
static bool read_file(const char *root, const char *path, char text[TEXT])
{
    char whole[PATH];
    if (snprintf(whole, sizeof whole, "%s%s", root, path) >= PATH) {
        return false;
    }
    const int file = open(whole, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return false;
    }
    const ssize_t length = read(file, text, TEXT - 1);
    close(file);
    text[length > 0 ? length : 0] = '\0';
    return length > 0;
}

static bool read_cpus(const char *root, const char *path, ptoi_cpus *set)
{
    char text[TEXT];
    *set = (ptoi_cpus){0};
    return read_file(root, path, text) && ptoi_cpus_parse(text, set);
}

/* A list in the folder of a core. */
static bool read_list_of(const char *root, uint32_t cpu, const char *name, ptoi_cpus *set)
{
    char path[PATH];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%u/%s", cpu, name);
    return read_cpus(root, path, set);
}

/* The cores that share the last-level cache of a core: the one with the highest level. */
static bool read_cache(const char *root, uint32_t cpu, ptoi_cpus *set)
{
    unsigned best = 0;
    for (uint32_t i = 0; i < 16; i++) {
        char path[PATH], text[TEXT], name[64];
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%u/cache/index%u/level", cpu, i);
        if (!read_file(root, path, text)) {
            break;
        }
        const unsigned level = (unsigned)strtoul(text, NULL, 10);
        ptoi_cpus shared;
        snprintf(name, sizeof name, "cache/index%u/shared_cpu_list", i);
        if (level > best && read_list_of(root, cpu, name, &shared)) {
            best = level;
            *set = shared;
        }
    }
    return best > 0;
}

static bool read_node(const char *root, uint32_t cpu, ptoi_cpus *set)
{
    ptoi_cpus nodes;
    if (!read_cpus(root, "/sys/devices/system/node/online", &nodes)) {
        return false;
    }
    for (uint32_t n = 0; n < PTOI_CPUS; n++) {
        char path[PATH];
        snprintf(path, sizeof path, "/sys/devices/system/node/node%u/cpulist", n);
        if (ptoi_cpus_has(&nodes, n) && read_cpus(root, path, set) && ptoi_cpus_has(set, cpu)) {
            return true;
        }
    }
    return false;
}

/* ---- Order ---- */

static int compare(const void *a, const void *b)
{
    const ptoi_cpu *x = a, *y = b;
    if (x->sibling != y->sibling) {
        return x->sibling < y->sibling ? -1 : 1;
    }
    if (x->distance != y->distance) {
        return x->distance < y->distance ? -1 : 1;
    }
    return x->number < y->number ? -1 : x->number > y->number;
}

/* How many usable threads of the same core come before it. The thread on `self` is there first. */
static uint32_t sibling_number(const char *root, const ptoi_cpus *usable, uint32_t cpu,
                               uint32_t self)
{
    ptoi_cpus core;
    uint32_t before = 0;
    if (!read_list_of(root, cpu, "topology/thread_siblings_list", &core)) {
        return cpu == self;
    }
    for (uint32_t c = 0; c < PTOI_CPUS; c++) {
        before += ptoi_cpus_has(&core, c) && c != cpu &&
                  (c == self || cpu == self || (c < cpu && ptoi_cpus_has(usable, c)));
    }
    return before;
}

uint32_t ptoi_topology_order(const char *root, const ptoi_cpus *usable, uint32_t self,
                             ptoi_cpu order[PTOI_CPUS])
{
    ptoi_cpus cache, node, package;
    uint32_t n = 0;
    /* What is not known is as large as what lies around it. */
    if (!read_list_of(root, self, "topology/package_cpus_list", &package) &&
        !read_list_of(root, self, "topology/core_siblings_list", &package)) {
        package = *usable;
    }
    if (!read_node(root, self, &node)) {
        node = package;
    }
    if (!read_cache(root, self, &cache)) {
        cache = node;
    }
    for (uint32_t cpu = 0; cpu < PTOI_CPUS; cpu++) {
        if (!ptoi_cpus_has(usable, cpu) || cpu == self) {
            continue;
        }
        order[n++] = (ptoi_cpu){.number = (uint16_t)cpu,
                                .sibling = (uint8_t)sibling_number(root, usable, cpu, self),
                                .distance = ptoi_cpus_has(&cache, cpu)     ? PTOI_SAME_CACHE
                                            : ptoi_cpus_has(&node, cpu)    ? PTOI_SAME_NODE
                                            : ptoi_cpus_has(&package, cpu) ? PTOI_SAME_PACKAGE
                                                                           : PTOI_ELSEWHERE};
    }
    qsort(order, n, sizeof *order, compare);
    if (ptoi_cpus_has(usable, self)) {
        order[n++] = (ptoi_cpu){.number = (uint16_t)self, .distance = PTOI_SAME_CACHE};
    }
    return n;
}

/* ---- Control groups ---- */

/* The group of this process in a hierarchy: version 2 has the line "0::/path", version 1 "N:cpu,...:/path".
 * `controller` is NULL for version 2. */
static bool find_group(const char *root, const char *controller, char path[PATH])
{
    char text[TEXT];
    if (!read_file(root, "/proc/self/cgroup", text)) {
        return false;
    }
    for (char *rest, *line = strtok_r(text, "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest)) {
        char *names = strchr(line, ':');
        char *at = names ? strchr(names + 1, ':') : NULL;
        if (!at) {
            continue;
        }
        *names++ = *at++ = '\0';
        bool found = !controller && !*names;
        for (char *more, *name = strtok_r(names, ",", &more); name && controller;
             name = strtok_r(NULL, ",", &more)) {
            found |= strcmp(name, controller) == 0;
        }
        if (found) {
            snprintf(path, PATH, "%s", at);
            return true;
        }
    }
    return false;
}

/* Calls `ask` for the group and all groups above it: a limit of any of them counts. In a container the
 * path may lead nowhere; the root of the hierarchy is the container's own group then. */
static double least_of(const char *root, const char *mount, char *group,
                       double (*ask)(const char *root, const char *folder))
{
    double least = 0;
    for (;;) {
        char folder[PATH];
        if (strcmp(group, "/") == 0) {
            group[0] = '\0';
        }
        if (snprintf(folder, sizeof folder, "%s%s", mount, group) >= PATH) {
            return least;
        }
        const double limit = ask(root, folder);
        least = limit > 0 && (least <= 0 || limit < least) ? limit : least;
        char *slash = strrchr(group, '/');
        if (!slash) {
            return least;
        }
        *slash = '\0';
    }
}

static double ask_v2(const char *root, const char *folder)
{
    char path[PATH + 16], text[TEXT], *end;
    snprintf(path, sizeof path, "%s/cpu.max", folder);
    if (!read_file(root, path, text)) {
        return 0;
    }
    const double quota = strtod(text, &end), period = strtod(end, NULL);
    return end != text && period > 0 ? quota / period : 0; /* "max 100000": no limit */
}

static double ask_v1(const char *root, const char *folder)
{
    char path[PATH + 32], text[TEXT];
    snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
    const double quota = read_file(root, path, text) ? strtod(text, NULL) : 0;
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
    const double period = read_file(root, path, text) ? strtod(text, NULL) : 0;
    return quota > 0 && period > 0 ? quota / period : 0; /* -1: no limit */
}

double ptoi_topology_quota(const char *root)
{
    char group[PATH];
    double least = 0;
    if (find_group(root, NULL, group)) {
        least = least_of(root, "/sys/fs/cgroup", group, ask_v2);
    }
    if (find_group(root, "cpu", group)) {
        const double limit = least_of(root, "/sys/fs/cgroup/cpu", group, ask_v1);
        least = limit > 0 && (least <= 0 || limit < least) ? limit : least;
    }
    return least;
}

bool ptoi_topology_owned(const char *root, const ptoi_cpus *usable)
{
    ptoi_cpus set;
    char group[PATH], path[PATH + 64], text[TEXT];
    if (read_cpus(root, "/sys/devices/system/cpu/online", &set) &&
        ptoi_cpus_count(usable) < ptoi_cpus_count(&set)) {
        return true;
    }
    if (read_cpus(root, "/sys/devices/system/cpu/isolated", &set) &&
        ptoi_cpus_contains(&set, usable)) {
        return true;
    }
    if (!find_group(root, NULL, group)) {
        return false;
    }
    snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpuset.cpus.partition", group);
    return read_file(root, path, text) &&
           (strncmp(text, "root", 4) == 0 || strncmp(text, "isolated", 8) == 0) &&
           !strstr(text, "invalid");
}
