/* torch.h - PyTorch as a peer, in a process of its own (gpu_torch.py) that is asked by lines of text. */
#ifndef PTO_BENCH_PEERS_TORCH_H
#define PTO_BENCH_PEERS_TORCH_H

#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct torch_peer {
    FILE *to, *from; /* NULL: PyTorch is not there */
    pid_t child;
} torch_peer;

static inline bool torch_read(torch_peer *t, char *line, int size)
{
    return t->from && fgets(line, size, t->from) != NULL;
}

/* PTO_TEST_TORCH is the path of the script; without it there is no peer. */
static inline void torch_start(torch_peer *t)
{
    const char *script = getenv("PTO_TEST_TORCH");
    int in[2], out[2];
    char line[64];
    if (!script || pipe(in) || pipe(out)) {
        return;
    }
    (void)signal(SIGPIPE, SIG_IGN); /* it may end before us */
    t->child = fork();
    if (t->child == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        close(in[1]);
        close(out[0]);
        execlp("python3", "python3", script, (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    t->to = fdopen(in[1], "w");
    t->from = fdopen(out[0], "r");
    if (!torch_read(t, line, sizeof line) || strncmp(line, "ready", 5) != 0) {
        printf("PyTorch with CUDA is not here\n");
        t->from = NULL;
    }
}

static inline bool torch_prepare(torch_peer *t, const char *dtype, int32_t ndim,
                                 const int64_t *shape, const int32_t *perm)
{
    char line[64];
    if (!t->from) {
        return false;
    }
    fprintf(t->to, "make %s", dtype);
    for (int32_t d = 0; d < ndim; d++) {
        fprintf(t->to, " %" PRId64, shape[d]);
    }
    fprintf(t->to, " /");
    for (int32_t d = 0; d < ndim; d++) {
        fprintf(t->to, " %" PRId32, perm[d]);
    }
    fprintf(t->to, "\n");
    fflush(t->to);
    return torch_read(t, line, sizeof line) && strncmp(line, "made", 4) == 0;
}

/* Nanoseconds of one copy. */
static inline double torch_time(torch_peer *t, int copies)
{
    char line[64];
    fprintf(t->to, "time %d\n", copies);
    fflush(t->to);
    return torch_read(t, line, sizeof line) ? atof(line) : 0;
}

static inline void torch_stop(torch_peer *t)
{
    if (t->child > 0) {
        fclose(t->to);
        waitpid(t->child, NULL, 0);
    }
}

#endif /* PTO_BENCH_PEERS_TORCH_H */
