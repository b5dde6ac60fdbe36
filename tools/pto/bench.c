/* bench.c - `pto bench [NAME]`: runs the benchmarks that were built beside this command.
 *
 * They are programs of the source tree and are not installed, because the libraries they compare
 * with must be fetched and built first. ./dev bench does that. So this command finds them only in a
 * build tree.
 */
#define _GNU_SOURCE /* readlink */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "words.h"

#define PREFIX "bench_"

enum { BENCHES_MOST = 32 };

typedef struct benches {
    char folder[4096];
    char names[BENCHES_MOST][64];
    size_t count;
} benches;

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* They are in ../bench, relative to the folder of this command. */
static void find(benches *b)
{
    b->count = 0;
    const ssize_t length = readlink("/proc/self/exe", b->folder, sizeof b->folder - 16);
    if (length <= 0) {
        return;
    }
    b->folder[length] = '\0';
    for (int up = 0; up < 2; up++) {
        char *slash = strrchr(b->folder, '/');
        if (!slash) {
            return;
        }
        *slash = '\0';
    }
    memcpy(b->folder + strlen(b->folder), "/bench", sizeof "/bench");
    DIR *files = opendir(b->folder);
    if (!files) {
        return;
    }
    for (const struct dirent *d; (d = readdir(files));) { /* NOLINT(concurrency-mt-unsafe) */
        char path[sizeof b->folder + 300];
        snprintf(path, sizeof path, "%s/%s", b->folder, d->d_name);
        if (!strncmp(d->d_name, PREFIX, strlen(PREFIX)) && b->count < BENCHES_MOST &&
            access(path, X_OK) == 0) {
            snprintf(b->names[b->count++], sizeof b->names[0], "%.60s", d->d_name + strlen(PREFIX));
        }
    }
    (void)closedir(files);
    qsort(b->names, b->count, sizeof b->names[0], by_name);
}

static void print_help(FILE *out)
{
    fputs("usage: pto bench              list the benchmarks\n"
          "       pto bench NAME [ARGS]  run one (--help lists its options); exit status 1 if it "
          "misses a target\n"
          "\n"
          "The benchmarks are part of the source tree and are built beside this command. There,\n"
          "  ./dev bench NAME\n"
          "makes a release build, installs the libraries to compare with, and runs the benchmark. "
          "Use that for\n"
          "figures that you publish.\n",
          out);
}

int command_bench(int argc, char **argv)
{
    static benches b;
    if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
        print_help(stdout);
        return 0;
    }
    if (argc > 1 && argv[1][0] == '-') {
        fprintf(stderr, "pto bench: the benchmark comes first, then '%s' (pto bench lists them)\n",
                argv[1]);
        return 2;
    }
    find(&b);
    if (b.count == 0) {
        fprintf(stderr,
                "pto bench: no benchmarks beside this command. They are in the source tree: "
                "./dev bench\n");
        return 1;
    }
    if (argc < 2) {
        for (size_t i = 0; i < b.count; i++) {
            printf("  %s\n", b.names[i]);
        }
        return 0;
    }
    const char *names[BENCHES_MOST];
    for (size_t i = 0; i < b.count; i++) {
        names[i] = b.names[i];
        if (!strcmp(argv[1], names[i])) {
            char path[sizeof b.folder + 80];
            snprintf(path, sizeof path, "%s/" PREFIX "%s", b.folder, names[i]);
            fflush(NULL);
            execv(path, argv + 1);
            fprintf(stderr, "pto bench: %s: %s\n", path, strerror(errno));
            return 1;
        }
    }
    const char *nearest = words_nearest(argv[1], names, b.count);
    fprintf(stderr, "pto bench: no benchmark '%s'", argv[1]);
    if (nearest) {
        fprintf(stderr, "; did you mean '%s'?", nearest);
    }
    fputs("\navailable:", stderr);
    for (size_t i = 0; i < b.count; i++) {
        fprintf(stderr, " %s", names[i]);
    }
    fputc('\n', stderr);
    return 2;
}
