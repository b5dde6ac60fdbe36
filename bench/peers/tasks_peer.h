/* tasks_peer.h - the program around a peer of bench_tasks, in C or C++.
 *
 *   tasks_NAME check PATTERN TASKS              with bodies that mix; prints a hash of the memory
 *   tasks_NAME time PATTERN TASKS STEPS TIMES   with bodies of so many steps (0: empty); a line for
 *                                               each time: seconds from the first submit until all
 *                                               are done, tasks, and seconds of the bodies alone
 *                                               (of some of them, scaled, if they are long)
 *
 * A process is for one measurement, so that no pool of threads spins into that of another. What the
 * peer does once (its threads, its handles) happens before any clock starts, and each pattern has a
 * run that is not counted. The file of the peer defines `tile` and `sink` first, then what
 * tasks_patterns.h asks for, sink_wait, and a main that calls peer_main in the state in which tasks
 * can be made.
 */
#ifndef PTO_PEERS_TASKS_PEER_H
#define PTO_PEERS_TASKS_PEER_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../cores_patterns.h"
#include "../tasks_patterns.h"

#define PEER_WARM_UP UINT64_C(20000)
enum { FRESH = 1024 }; /* short-lived tiles, in turn: more than any peer lets tasks be open */

static bool body_checked;
static uint64_t body_steps;
static int64_t body_row;
static uint64_t tasks_made; /* so far: the number of the next */

static void sink_wait(sink *s);

static inline uint64_t task_number(const sink *s)
{
    (void)s;
    return tasks_made++;
}

/* What a task does. It has its tiles at hand, as it would if it used them. */
static inline void body_run(kind which, uint64_t number, uint64_t *const *tiles, size_t reads)
{
    if (body_checked) {
        body_mix(which, number, tiles, reads, body_row);
    } else if (body_steps) {
        body_spin(body_steps);
    }
}

static double peer_now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

static void peer_check(sink *s, const pattern *p, uint64_t tasks)
{
    data d = p->make(tasks);
    body_checked = true;
    body_row = d.row;
    p->run(s, &d, tasks);
    sink_wait(s);
    printf("%016llx\n", (unsigned long long)data_hash(&d));
    data_free(&d);
}

static void peer_time(sink *s, const pattern *p, uint64_t tasks, uint64_t steps, uint64_t times)
{
    data d = p->make(tasks);
    p->run(s, &d, tasks < PEER_WARM_UP ? tasks : PEER_WARM_UP);
    sink_wait(s);
    body_steps = steps;
    for (uint64_t i = 0; i < times; i++) {
        tasks_made = 0;
        const double start = peer_now();
        p->run(s, &d, tasks);
        sink_wait(s);
        const double seconds = peer_now() - start;
        const double begin = peer_now();
        const uint64_t some = bodies_alone(tasks_made, steps);
        const double alone = (peer_now() - begin) * (double)tasks_made / (double)some;
        printf("%.9f %llu %.9f\n", seconds, (unsigned long long)tasks_made, alone);
    }
    data_free(&d);
}

static int peer_main(sink *s, int argc, char **argv)
{
    const pattern *p = NULL;
    for (int i = 0; argc > 3 && i < PATTERNS; i++) {
        p = strcmp(argv[2], patterns[i].name) == 0 ? &patterns[i] : p;
    }
    for (int i = 0; argc > 3 && i < CORES_PATTERNS; i++) {
        p = strcmp(argv[2], cores_patterns[i].name) == 0 ? &cores_patterns[i] : p;
    }
    if (p && argc == 4 && strcmp(argv[1], "check") == 0) {
        peer_check(s, p, strtoull(argv[3], NULL, 10));
    } else if (p && argc == 6 && strcmp(argv[1], "time") == 0) {
        peer_time(s, p, strtoull(argv[3], NULL, 10), strtoull(argv[4], NULL, 10),
                  strtoull(argv[5], NULL, 10));
    } else {
        fprintf(stderr, "usage: check PATTERN TASKS | time PATTERN TASKS STEPS TIMES\n");
        return 2;
    }
    return 0;
}

#endif /* PTO_PEERS_TASKS_PEER_H */
