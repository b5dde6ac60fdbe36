/* info.c - `pto info`: this build, this machine, and every option with its value.
 *
 * The facts about the machine come from /proc and /sys. A library for this would only be one more
 * dependency.
 */
#define _GNU_SOURCE /* sched_getaffinity, CPU_COUNT */
#include <dirent.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <pto/device.h>
#include <pto/pto.h>

#include "arguments.h"
#include "blas.h"
#include "commands.h"
#include "safetensors.h"
#include "words.h"

#ifndef TOOL_BUILD
#define TOOL_BUILD "unknown"
#endif
#ifndef TOOL_SANITIZE
#define TOOL_SANITIZE ""
#endif

typedef struct line {
    char s[256];
} line;

/* The first line of a file that starts with `name`, without `name` and the colons or blanks after
 * it. "" if there is none. */
static line line_of(const char *path, const char *name)
{
    line found = {.s = ""};
    char text[512];
    FILE *file = fopen(path, "r");
    while (file && fgets(text, sizeof text, file)) {
        if (strncmp(text, name, strlen(name)) != 0) {
            continue;
        }
        const char *value = text + strlen(name);
        value += *name ? strspn(value, " \t:") : 0;
        snprintf(found.s, sizeof found.s, "%.*s", (int)strcspn(value, "\n"), value);
        break;
    }
    if (file) {
        (void)fclose(file);
    }
    return found;
}

static void row(const char *name, const char *value)
{
    if (*value) {
        printf("  %-14s %s\n", name, value);
    }
}

static void kib_row(const char *name, const char *field)
{
    const line text = line_of("/proc/meminfo", field);
    if (*text.s) {
        row(name, words_bytes(strtoull(text.s, NULL, 10) << 10).s);
    }
}

/* ---- The build ------------------------------------------------------------------------------- */

static void print_build(void)
{
    char text[192];
    puts("build");
    row("version", pto_version());
#if defined(__clang__)
    row("compiler", "clang " __clang_version__);
#elif defined(__GNUC__)
    row("compiler", "gcc " __VERSION__);
#endif
    snprintf(text, sizeof text, "%s%s%s%s", TOOL_BUILD, *TOOL_SANITIZE ? ", sanitizers " : "",
             TOOL_SANITIZE,
#ifdef PTO_DEBUG_CHECKS
             ", internal checks"
#else
             ""
#endif
    );
    row("kind", text);
    row("BLAS", blas_name());
    row("JSON", safetensors_json());
}

/* ---- The processor --------------------------------------------------------------------------- */

static void print_sets(void)
{
#if defined(__x86_64__)
    char text[160];
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2");
    const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
    snprintf(text, sizeof text, "%s%s%s%s; copies between layouts use %s",
             __builtin_cpu_supports("sse4.2") ? "sse4.2 " : "",
             __builtin_cpu_supports("avx") ? "avx " : "", avx2 ? "avx2 " : "",
             avx512 ? "avx512" : "no avx512",
             avx512 ? "avx512"
             : avx2 ? "avx2"
                    : "simd128");
    row("instructions", text);
#elif defined(__aarch64__)
    row("instructions", "neon; copies between layouts use simd128");
#else
    row("instructions", "copies between layouts use portable C");
#endif
}

/* "L1d 32K, L1i 32K, L2 1024K, L3 32M for cores 0-15": the caches of core 0. */
static void print_caches(void)
{
    char text[256] = "";
    size_t length = 0;
    for (int i = 0; i < 8 && length < sizeof text; i++) {
        char path[96];
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/", i);
        const size_t at = strlen(path);
        const char *const names[] = {"level", "type", "size", "shared_cpu_list"};
        line value[4];
        for (int k = 0; k < 4; k++) {
            snprintf(path + at, sizeof path - at, "%s", names[k]);
            value[k] = line_of(path, "");
        }
        if (!*value[0].s) {
            break;
        }
        const char *kind = !strcmp(value[1].s, "Data")          ? "d"
                           : !strcmp(value[1].s, "Instruction") ? "i"
                                                                : "";
        const bool shared = strpbrk(value[3].s, ",-") != NULL;
        const int more = snprintf(text + length, sizeof text - length, "%sL%.4s%s %.12s%s%.24s",
                                  length ? ", " : "", value[0].s, kind, value[2].s,
                                  shared ? " for cores " : "", shared ? value[3].s : "");
        length += more > 0 ? (size_t)more : 0;
    }
    row("caches", text);
}

static int count_entries(const char *folder, const char *prefix)
{
    int count = 0;
    DIR *entries = opendir(folder);
    if (!entries) {
        return 0;
    }
    for (const struct dirent *d; (d = readdir(entries));) { /* NOLINT(concurrency-mt-unsafe) */
        const char *rest = d->d_name + strlen(prefix);
        count += !strncmp(d->d_name, prefix, strlen(prefix)) && *rest >= '0' && *rest <= '9';
    }
    (void)closedir(entries);
    return count;
}

static void print_processor(void)
{
    char text[192];
    struct utsname name;
    cpu_set_t allowed;
    puts("\nmachine");
    if (uname(&name) == 0) {
        snprintf(text, sizeof text, "%.40s %.60s, %.40s", name.sysname, name.release, name.machine);
        row("system", text);
    }
    row("processor", line_of("/proc/cpuinfo", "model name").s);
    const int may = sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 0;
    snprintf(text, sizeof text, "%ld; this process may use %d", sysconf(_SC_NPROCESSORS_ONLN), may);
    row("cores", text);
    const line quota = line_of("/sys/fs/cgroup/cpu.max", "");
    char *end;
    const double time = strtod(quota.s, &end), period = strtod(end, NULL);
    if (time > 0 && period > 0) { /* "max" is no number */
        snprintf(text, sizeof text, "%.2f cores of time (cgroup)", time / period);
        row("quota", text);
    }
    const line siblings = line_of("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list", "");
    if (strpbrk(siblings.s, ",-")) {
        snprintf(text, sizeof text, "cores share units: %.60s are one", siblings.s);
        row("threads", text);
    }
    const int nodes = count_entries("/sys/devices/system/node", "node");
    if (nodes > 0) {
        snprintf(text, sizeof text, "%d", nodes);
        row("NUMA nodes", text);
    }
    print_caches();
    print_sets();
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* The selected word of "always [madvise] never". */
static line chosen(const char *path)
{
    line all = line_of(path, ""), word = {.s = ""};
    const char *from = strchr(all.s, '[');
    if (from) {
        snprintf(word.s, sizeof word.s, "%.*s", (int)strcspn(from + 1, "]"), from + 1);
    }
    return word;
}

static void print_memory(void)
{
    char text[192];
    struct rlimit limit;
    puts("\nmemory");
    kib_row("total", "MemTotal");
    kib_row("available", "MemAvailable");
    const line group = line_of("/sys/fs/cgroup/memory.max", "");
    if (*group.s && strcmp(group.s, "max") != 0) {
        row("limit", words_bytes(strtoull(group.s, NULL, 10)).s);
    }
    snprintf(text, sizeof text, "%s", words_bytes((uint64_t)sysconf(_SC_PAGESIZE)).s);
    row("page", text);
    const line huge = chosen("/sys/kernel/mm/transparent_hugepage/enabled");
    const line shared = chosen("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
    if (*huge.s) {
        snprintf(text, sizeof text, "%.20s; for the window of the runtime (shared memory): %.20s",
                 huge.s, *shared.s ? shared.s : "unknown");
        row("huge pages", text);
    }
    const line kept = line_of("/proc/meminfo", "HugePages_Total");
    if (strtoull(kept.s, NULL, 10) > 0) {
        row("reserved", kept.s);
    }
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
        snprintf(text, sizeof text, "at most %s (ulimit -f), which also limits the window",
                 words_bytes(limit.rlim_cur).s);
        row("files", text);
    }
}

/* ---- Devices --------------------------------------------------------------------------------- */

static void print_devices(void)
{
    pto_device devices[64];
    size_t count = 0;
    pto_device_ops gpu;
    puts("\ndevices");
    for (int32_t i = 0; pto_device_get((pto_device){PTO_DEVICE_NVIDIA, i}, &gpu) == PTO_OK; i++) {
        /* a GPU that is here is listed once it was asked for */
    }
    PTO_IGNORE(pto_device_list(devices, sizeof devices / sizeof *devices, &count));
    for (size_t i = 0; i < count && i < sizeof devices / sizeof *devices; i++) {
        char name[48];
        pto_device_ops ops;
        char text[160] = "the host";
        uint64_t bytes = 0, used = 0;
        const bool known = pto_device_get(devices[i], &ops) == PTO_OK;
        snprintf(name, sizeof name, "%s:%" PRId32, pto_device_name(devices[i].type),
                 devices[i].index);
        if (!known) {
            snprintf(text, sizeof text, "%s", pto_error_detail());
        } else if (i > 0) {
            PTO_IGNORE(pto_device_set_current(devices[i]));
            if (ops.memory && ops.memory(ops.self, &bytes, &used) != PTO_OK) {
                bytes = 0;
            }
            snprintf(text, sizeof text, "%s%s%s",
                     ops.description ? ops.description : "added by the program",
                     bytes ? ", memory " : "", bytes ? words_bytes(bytes).s : "");
        }
        row(name, text);
    }
}

/* ---- Options --------------------------------------------------------------------------------- */

static int print_options(void)
{
    size_t count = 0;
    pto_option options[64];
    const pto_status status = pto_options_list(options, sizeof options / sizeof *options, &count);
    puts("\noptions        (pto options explains them; fields of pto_config override them)");
    for (size_t i = 0; i < count && i < sizeof options / sizeof *options; i++) {
        const pto_option *o = &options[i];
        printf("  %-20s %-16s %s", o->variable, o->value,
               o->from_environment ? "environment" : "default");
        if (o->from_environment) {
            printf(", default %s", o->otherwise);
        }
        putchar('\n');
    }
    if (status == PTO_UNKNOWN_OPTION) {
        printf("\n%s\n", pto_error_detail());
        return 1;
    }
    if (status != PTO_OK) {
        printf("\nThe environment has an error, so the defaults are shown:\n  %s\n",
               pto_error_detail());
        return 1;
    }
    return 0;
}

int command_info(int argc, char **argv)
{
    const arguments a = {
        .command = "info",
        .operands = "",
        .about =
            "Shows this build, this machine, and every option of the runtime with its value and "
            "its source. Exit\nstatus 1 if an environment variable cannot be parsed or is "
            "unknown.\n",
    };
    const int over = arguments_read(&a, argc, argv, NULL);
    if (over != ARGUMENTS_RUN) {
        return over;
    }
    print_build();
    print_processor();
    print_memory();
    print_devices();
    return print_options();
}
