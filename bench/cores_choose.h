/* cores_choose.h - which cores a bench uses if it is to use only some: those that share nothing but the
 * memory first, then their siblings (hardware threads of the same core). */
#ifndef PTO_CORES_CHOOSE_H
#define PTO_CORES_CHOOSE_H

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Adds the cores of a list as /sys has it, for example "0-1,16". */
static void cores_add_list(const char *text, cpu_set_t *set)
{
    int first, last, length;
    while (sscanf(text, "%d%n", &first, &length) == 1) { // NOLINT(cert-err34-c)
        text += length;
        last = first;
        if (sscanf(text, "-%d%n", &last, &length) == 1) { // NOLINT(cert-err34-c)
            text += length;
        }
        for (int cpu = first; cpu >= 0 && cpu <= last && cpu < CPU_SETSIZE; cpu++) {
            CPU_SET((size_t)cpu, set);
        }
        text += *text == ',';
    }
}

static cpu_set_t cores_siblings(size_t cpu)
{
    char path[96], text[256] = "";
    cpu_set_t set;
    CPU_ZERO(&set);
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%zu/topology/thread_siblings_list",
             cpu);
    FILE *file = fopen(path, "r");
    if (file && fgets(text, sizeof text, file)) {
        cores_add_list(text, &set);
    }
    if (file) {
        fclose(file);
    }
    return set;
}

/* The first `n` cores out of `all`; 0: all of them. */
static cpu_set_t cores_choose(const cpu_set_t *all, uint32_t n)
{
    cpu_set_t chosen, taken;
    CPU_ZERO(&chosen);
    CPU_ZERO(&taken);
    for (int pass = 0; pass < 2; pass++) {
        for (size_t cpu = 0; cpu < CPU_SETSIZE && (!n || (uint32_t)CPU_COUNT(&chosen) < n); cpu++) {
            if (!CPU_ISSET(cpu, all) || CPU_ISSET(cpu, &chosen) ||
                (pass == 0 && CPU_ISSET(cpu, &taken))) {
                continue;
            }
            CPU_SET(cpu, &chosen);
            const cpu_set_t siblings = cores_siblings(cpu);
            CPU_OR(&taken, &taken, &siblings);
        }
    }
    return chosen;
}

#endif /* PTO_CORES_CHOOSE_H */
