/* device_clock.h - the clock of a device, by that of the host. For traces of a device that schedules for
 * itself (place gpu).
 *
 * The host asks for the time of the device. Its answer was true at some moment between question and
 * answer, so the host takes the middle, and half of that time is the error:
 *
 *     host      asked ─────────── middle ─────────── answered
 *     device            told somewhere in between
 *
 * It asks again and again, because the two clocks drift apart. Only the best answers count, and between two
 * of them time passes evenly. */
#ifndef PTOI_DEVICE_CLOCK_H
#define PTOI_DEVICE_CLOCK_H

#include <stdint.h>

#define PTOI_CLOCK_ANSWERS 1024u /* kept; if there are more, every second one is given up */

/* An answer. All in ns. */
typedef struct ptoi_clock_answer {
    uint64_t host;   /* the middle */
    uint64_t device; /* what it told */
    uint64_t error;
} ptoi_clock_answer;

/* Belongs to one thread. Answers are in order of time. */
typedef struct ptoi_device_clock {
    ptoi_clock_answer answer[PTOI_CLOCK_ANSWERS];
    uint32_t n;
    uint64_t asked;  /* how many answers there were, with those given up */
    uint32_t stride; /* of so many answers one is kept: the best; 0 means 1 */
    uint32_t group;  /* answers in the last group so far */
    /* after ptoi_device_clock_settle */
    uint64_t error; /* of any time between the first and the last answer */
    double rate;    /* before the first and after the last answer that counts */
} ptoi_device_clock;

void ptoi_device_clock_add(ptoi_device_clock *c, uint64_t asked, uint64_t device,
                           uint64_t answered);

/* After the last answer: leaves only those that count. */
void ptoi_device_clock_settle(ptoi_device_clock *c);

/* The time of the host at a time of the device. There is an answer at least. */
uint64_t ptoi_device_clock_host(const ptoi_device_clock *c, uint64_t device);

#endif /* PTOI_DEVICE_CLOCK_H */
