/* holdings.h - what a process holds, for soak tests: it must not grow from program to program. */
#ifndef PTO_TEST_HOLDINGS_H
#define PTO_TEST_HOLDINGS_H

#include <dirent.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* X(name, text, slack): allowed growth above the peak of the warm-up. The system keeps stacks of
 * ended threads, and malloc keeps free memory: both vary a little. */
#define HOLDING_MAP(X)                                                                             \
    X(FILES, "file descriptors", 0)                                                                \
    X(THREADS, "threads", 0)                                                                       \
    X(MAPPINGS, "mappings", 32)                                                                    \
    X(RESIDENT, "KiB resident", 8192)

typedef enum holding {
#define HOLDING_ENUM(name, text, slack) HOLD_##name,
    HOLDING_MAP(HOLDING_ENUM)
#undef HOLDING_ENUM
        HOLD_COUNT
} holding;

static const char *const holding_texts[] = {
#define HOLDING_TEXT(name, text, slack) text,
    HOLDING_MAP(HOLDING_TEXT)
#undef HOLDING_TEXT
};

static const uint64_t holding_slack[] = {
#define HOLDING_SLACK(name, text, slack) slack,
    HOLDING_MAP(HOLDING_SLACK)
#undef HOLDING_SLACK
};

typedef struct holdings {
    uint64_t count[HOLD_COUNT];
} holdings;

static inline void holdings_must(bool good, const char *what)
{
    if (!good) {
        perror(what);
        abort();
    }
}

static inline uint64_t holdings_entries(const char *folder)
{
    uint64_t count = 0;
    DIR *open = opendir(folder);
    holdings_must(open != NULL, folder);
    while (readdir(open)) {
        count++;
    }
    closedir(open);
    return count;
}

static inline uint64_t holdings_lines(const char *path)
{
    uint64_t count = 0;
    FILE *in = fopen(path, "r");
    holdings_must(in != NULL, path);
    for (int c; (c = fgetc(in)) != EOF;) {
        count += c == '\n';
    }
    fclose(in);
    return count;
}

static inline uint64_t holdings_resident_kib(void)
{
    char line[128];
    FILE *in = fopen("/proc/self/statm", "r"); /* pages: all, resident, ... */
    const char *second = in && fgets(line, sizeof line, in) ? strchr(line, ' ') : NULL;
    holdings_must(second, "statm");
    fclose(in);
    return strtoull(second, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE) / 1024;
}

/* What there is when only `threads` threads are left. A joined thread may still be leaving the kernel. */
static inline holdings holdings_look(uint64_t threads)
{
    holdings now;
    malloc_trim(0);
    now.count[HOLD_FILES] = holdings_entries("/proc/self/fd");
    now.count[HOLD_MAPPINGS] = holdings_lines("/proc/self/maps");
    now.count[HOLD_RESIDENT] = holdings_resident_kib();
    for (int tries = 0; tries < 1000; tries++) {
        now.count[HOLD_THREADS] = holdings_entries("/proc/self/task") - 2; /* . and .. */
        if (now.count[HOLD_THREADS] <= threads) {
            break;
        }
        usleep(1000);
    }
    return now;
}

/* The resource that has grown; HOLD_COUNT if none has. */
static inline holding holdings_grown(const holdings *settled, const holdings *now)
{
    for (int i = 0; i < HOLD_COUNT; i++) {
        if (now->count[i] > settled->count[i] + holding_slack[i]) {
            return (holding)i;
        }
    }
    return HOLD_COUNT;
}

static inline void holdings_settle(holdings *settled, const holdings *now)
{
    for (int i = 0; i < HOLD_COUNT; i++) {
        settled->count[i] = now->count[i] > settled->count[i] ? now->count[i] : settled->count[i];
    }
}

#endif /* PTO_TEST_HOLDINGS_H */
