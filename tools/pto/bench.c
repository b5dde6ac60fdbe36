/* bench.c - `pto bench [NAME]`: runs the benches that lie beside this command.
 *
 * They are programs of the source tree, and are not installed: what they compare with has to be
 * built and fetched, which ./dev bench does. So this finds them in a build, and says so elsewhere.
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

/* In ../bench of the folder that the command lies in. */
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
    fputs("usage: pto bench              the benches there are\n"
          "       pto bench NAME [ARGS]  run one (--help: what it takes); 1: it is short of a bar\n"
          "\n"
          "They are built from the source tree and lie beside this command in a build. There,\n"
          "  ./dev bench NAME\n"
          "builds a release, brings what they compare with, and runs them: figures for others come "
          "from that.\n",
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
        fprintf(stderr, "pto bench: the bench comes first, then '%s' (pto bench lists them)\n",
                argv[1]);
        return 2;
    }
    find(&b);
    if (b.count == 0) {
        fprintf(stderr,
                "pto bench: no benches lie beside this command. They are in the source tree: "
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
    fprintf(stderr, "pto bench: no bench '%s'", argv[1]);
    if (nearest) {
        fprintf(stderr, "; did you mean '%s'?", nearest);
    }
    fputs("\nthere are:", stderr);
    for (size_t i = 0; i < b.count; i++) {
        fprintf(stderr, " %s", names[i]);
    }
    fputc('\n', stderr);
    return 2;
}
