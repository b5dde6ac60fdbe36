/* tasks_instructions.h - bench_tasks under callgrind: instructions per task instead of time.
 *
 * The bench runs itself there with --bare, on one thread, so that no waiting is counted.
 */
#ifndef PTO_TASKS_INSTRUCTIONS_H
#define PTO_TASKS_INSTRUCTIONS_H

#include <sys/wait.h>
#include <unistd.h>

#include "tasks_ours.h"

/* One run and nothing else. */
static int run_bare(const pattern *p, int place, uint64_t tasks)
{
    pto_config config = PTO_CONFIG_INIT;
    pto_runtime *rt;
    sink s;
    data d = p->make(tasks);
    config.workers = PTO_NO_WORKERS;
    /* Under callgrind the clock would say that no kernel is short. */
    config.inline_ns = place_inline_ns[place] ? place_inline_ns[place] : 1000000000;
    must(pto_runtime_create(&rt, &config));
    sink_init(&s, rt, EMPTY);
    timed(p, &s, &d, tasks);
    must(pto_runtime_destroy(&rt, PTO_WAIT));
    data_free(&d);
    printf("%llu\n", (unsigned long long)s.tasks);
    return 0;
}

/* Runs this program under callgrind; -1 if that fails. *really is the number of tasks. */
static double count_instructions(int pattern_index, int place, uint64_t tasks, uint64_t *really)
{
    char out[] = "/tmp/pto_callgrind_XXXXXX", self[4096], count[24], option[64], line[256];
    double instructions = -1;
    int pipe_ends[2], status = 0;
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    const int fd = length < 0 ? -1 : mkstemp(out);
    if (fd < 0 || pipe(pipe_ends) != 0) {
        return -1;
    }
    close(fd);
    self[length] = '\0';
    snprintf(count, sizeof count, "%llu", (unsigned long long)tasks);
    snprintf(option, sizeof option, "--callgrind-out-file=%s", out);
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        dup2(pipe_ends[1], STDOUT_FILENO);
        close(pipe_ends[0]);
        close(pipe_ends[1]);
        execlp("valgrind", "valgrind", "-q", "--tool=callgrind", "--toggle-collect=timed*", option,
               self, "--bare", "--pattern", patterns[pattern_index].name, "--place",
               place_names[place], "--tasks", count, (char *)NULL);
        _exit(127);
    }
    close(pipe_ends[1]);
    FILE *said = fdopen(pipe_ends[0], "r");
    if (said && fgets(line, sizeof line, said)) {
        *really = strtoull(line, NULL, 10);
    }
    if (said) {
        fclose(said);
    }
    if (child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
        WEXITSTATUS(status) == 0) {
        FILE *file = fopen(out, "r");
        while (file && fgets(line, sizeof line, file)) {
            if (strncmp(line, "totals: ", 8) == 0 || strncmp(line, "summary: ", 9) == 0) {
                instructions = strtod(strchr(line, ' '), NULL);
            }
        }
        if (file) {
            fclose(file);
        }
    }
    unlink(out);
    return instructions;
}

/* Instructions per task; -1 if there is no count. */
static double instructions_of(int pattern_index, int place, uint64_t tasks)
{
    /* The fixed part is the same in both runs. */
    uint64_t fewer = 0, more = 0;
    const double small = count_instructions(pattern_index, place, tasks, &fewer);
    const double large = count_instructions(pattern_index, place, 2 * tasks, &more);
    return small < 0 || large <= small || more <= fewer ? -1
                                                        : (large - small) / (double)(more - fewer);
}

typedef enum output { TABLE, JSON, PLAIN } output;

/* Each pattern (`only`: this one, or -1), run inline and offloaded. The scheduler on its own
 * thread is left out: that would be a second thread. */
static int run_callgrind(int only, int only_place, uint64_t tasks, output how)
{
    if (system("valgrind --version >/dev/null 2>&1") != 0) { // NOLINT(cert-env33-c)
        fprintf(stderr, "bench_tasks: valgrind is not installed, so no instructions are counted "
                        "(Debian: apt-get install valgrind)\n");
        return 0;
    }
    const char *comma = "";
    if (how == JSON) {
        printf("{\n  \"bench\": \"tasks\",\n  \"instructions\": [");
    } else if (how == TABLE) {
        printf("instructions per task: submit, schedule, run and retire on one thread\n\n");
    }
    for (int i = 0; i < PATTERNS * PLACES; i++) {
        const int p = i / PLACES, place = i % PLACES;
        if ((only >= 0 && only != p) || (only_place >= 0 && only_place != place) ||
            places[place] != PTO_PLACE_INLINE) {
            continue;
        }
        const double each = instructions_of(p, place, tasks);
        if (each < 0) {
            fprintf(stderr, "bench_tasks: %s: valgrind gave no count\n", patterns[p].name);
            return 2;
        }
        if (how == JSON) {
            printf("%s\n    {\"pattern\": \"%s\", \"place\": \"%s\", "
                   "\"instructions_per_task\": %.1f}",
                   comma, patterns[p].name, place_names[place], each);
        } else if (how == PLAIN) {
            printf("figure %s/%s %.1f instructions\n", patterns[p].name, place_names[place], each);
        } else {
            printf("%-3s%-13s %-9s %8.0f\n", patterns[p].name, patterns[p].text, place_names[place],
                   each);
        }
        comma = ",";
    }
    fputs(how == JSON ? "\n  ]\n}\n" : "", stdout);
    return 0;
}

#endif /* PTO_TASKS_INSTRUCTIONS_H */
