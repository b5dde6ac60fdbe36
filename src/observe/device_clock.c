#include "observe/device_clock.h"

#include <string.h>

static void halve(ptoi_device_clock *c)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i + 1 < c->n; i += 2) {
        c->answer[n++] = c->answer[i].error <= c->answer[i + 1].error ? c->answer[i]
                                                                      : c->answer[i + 1];
    }
    c->n = n;
    c->stride *= 2;
}

void ptoi_device_clock_add(ptoi_device_clock *c, uint64_t asked, uint64_t device, uint64_t answered)
{
    const uint64_t error = (answered - asked) / 2 + 1;
    const ptoi_clock_answer answer = {asked + (answered - asked) / 2, device, error};
    c->stride = c->stride ? c->stride : 1;
    c->asked++;
    if (c->group) { /* the last group takes more */
        ptoi_clock_answer *last = &c->answer[c->n - 1];
        *last = error <= last->error ? answer : *last;
    } else {
        if (c->n == PTOI_CLOCK_ANSWERS) {
            halve(c);
        }
        c->answer[c->n++] = answer;
    }
    c->group = (c->group + 1) % c->stride;
}

/* How many answers have an error of at most `most`, and what time they span. */
static uint64_t span_of(const ptoi_device_clock *c, uint64_t most)
{
    uint64_t first = 0, last = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        if (c->answer[i].error <= most) {
            first = first ? first : c->answer[i].host;
            last = c->answer[i].host;
        }
    }
    return last - first;
}

void ptoi_device_clock_settle(ptoi_device_clock *c)
{
    uint64_t best = UINT64_MAX;
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        best = c->answer[i].error < best ? c->answer[i].error : best;
    }
    if (c->n == 0) {
        return;
    }
    const uint64_t begin = c->answer[0].host, end = c->answer[c->n - 1].host;
    /* Few good answers say little about times that are far from all of them. */
    uint64_t most = 2 * best;
    while (span_of(c, most) < (end - begin) / 2) {
        most *= 2;
    }
    c->error = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        if (c->answer[i].error <= most) {
            c->error = c->answer[i].error > c->error ? c->answer[i].error : c->error;
            c->answer[n++] = c->answer[i];
        }
    }
    c->n = n;
    /* Beyond the first and the last one the line goes on, and so does their error. */
    const uint64_t before = c->answer[0].host - begin, after = end - c->answer[n - 1].host;
    const uint64_t beyond = before > after ? before : after;
    const uint64_t span = c->answer[n - 1].host - c->answer[0].host;
    c->error += span ? (uint64_t)(2.0 * (double)c->error * (double)beyond / (double)span) : 0;
    c->rate = 1;
    if (span && beyond) {
        c->rate = (double)span / (double)(c->answer[n - 1].device - c->answer[0].device);
    }
}

uint64_t ptoi_device_clock_host(const ptoi_device_clock *c, uint64_t device)
{
    uint32_t low = 0, high = c->n; /* the first answer after `device` is in [low, high] */
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (c->answer[middle].device <= device) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == 0) {
        const ptoi_clock_answer *a = &c->answer[0];
        return a->host - (uint64_t)((double)(a->device - device) * c->rate);
    }
    const ptoi_clock_answer *a = &c->answer[low - 1], *b = &c->answer[low];
    const double rate = low == c->n ? c->rate
                                    : (double)(b->host - a->host) / (double)(b->device - a->device);
    return a->host + (uint64_t)((double)(device - a->device) * rate);
}
