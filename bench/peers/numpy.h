/* numpy.h - NumPy as a peer: a child process that copies on request (numpy_copy.py).
 *
 * It is started once, so that its runs can take turns with ours. The python3 of the system is
 * asked, not the first one in PATH: only that one has Debian's python3-numpy. Without NumPy, or
 * once the child is gone, every question is answered with 0. (environ wants _GNU_SOURCE.)
 */
#ifndef PTO_PEERS_NUMPY_H
#define PTO_PEERS_NUMPY_H

#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct numpy_peer {
    FILE *ask, *answer;  /* NULL: not to be had, */
    const char *why_not; /* and why */
    char version[32];
    pid_t child;
} numpy_peer;

static void numpy_stop(numpy_peer *numpy)
{
    if (numpy->ask) {
        fclose(numpy->ask);
        fclose(numpy->answer);
        waitpid(numpy->child, NULL, 0);
    }
    numpy->ask = numpy->answer = NULL;
}

/* The child with its input and output; false if it cannot even be started. */
static bool numpy_spawn_(numpy_peer *numpy, char *const *argv)
{
    int asks[2], answers[2];
    posix_spawn_file_actions_t actions;
    if (pipe(asks) != 0) {
        return false;
    }
    if (pipe(answers) != 0) {
        close(asks[0]);
        close(asks[1]);
        return false;
    }
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, asks[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, answers[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, asks[1]);
    posix_spawn_file_actions_addclose(&actions, answers[0]);
    const bool started = posix_spawn(&numpy->child, argv[0], &actions, NULL, argv, environ) == 0;
    posix_spawn_file_actions_destroy(&actions);
    close(asks[0]);
    close(answers[1]);
    if (!started) {
        close(asks[1]);
        close(answers[0]);
        return false;
    }
    numpy->ask = fdopen(asks[1], "w");
    numpy->answer = fdopen(answers[0], "r");
    if (!numpy->ask || !numpy->answer) {
        perror("fdopen");
        exit(2);
    }
    return true;
}

/* `script` is numpy_copy.py; no array will have more than `bytes`. */
static void numpy_start(numpy_peer *numpy, const char *script, size_t bytes)
{
    char python[] = "/usr/bin/python3", size[24], path[4096];
    snprintf(size, sizeof size, "%zu", bytes);
    snprintf(path, sizeof path, "%s", script);
    char *const argv[] = {python, path, size, NULL};
    *numpy = (numpy_peer){.why_not = "python3-numpy is not installed"};
    if (access(script, R_OK) != 0) {
        numpy->why_not = "bench/peers/numpy_copy.py is not where it was built from";
        return;
    }
    /* A child that ends early must not end us. */
    signal(SIGPIPE, SIG_IGN);
    if (!numpy_spawn_(numpy, argv)) {
        return;
    }
    char line[64];
    if (!fgets(line, sizeof line, numpy->answer) ||
        sscanf(line, "ready %31s", numpy->version) != 1) {
        numpy_stop(numpy);
    }
}

/* Nanoseconds of one copy, the mean of `calls`; 0: there is no NumPy. Lists are "4096,4096". */
static double numpy_time(numpy_peer *numpy, const char *dtype, const char *shape, const char *perm,
                         size_t calls)
{
    char line[64];
    if (!numpy->ask) {
        return 0;
    }
    fprintf(numpy->ask, "%s %s %s %zu\n", dtype, shape, perm, calls);
    const bool answered = fflush(numpy->ask) == 0 && fgets(line, sizeof line, numpy->answer);
    const double ns = answered ? strtod(line, NULL) : 0;
    if (ns <= 0) {
        numpy->why_not = "NumPy ended early";
        numpy_stop(numpy);
    }
    return ns;
}

#endif /* PTO_PEERS_NUMPY_H */
