/* option_unknown.c - variables of the environment that look like options and are none. */
#define _GNU_SOURCE /* environ */
#include <ctype.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/option.h"

static const char prefix[] = "PTO_";
static const char tests[] = "PTO_TEST_"; /* variables of the project's own tests */

enum { LONGEST = 32 }; /* names that are compared */

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* How many letters must be changed, added, dropped or swapped with the next to make one word of the
 * other. Case does not count. */
static unsigned distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
    unsigned row[3][LONGEST + 1]; /* of this letter of `a`, and of the two before */
    for (unsigned j = 0; j <= b_length; j++) {
        row[0][j] = j;
    }
    for (unsigned i = 1; i <= a_length; i++) {
        unsigned *now = row[i % 3];
        const unsigned *before = row[(i + 2) % 3], *earlier = row[(i + 1) % 3];
        now[0] = i;
        for (unsigned j = 1; j <= b_length; j++) {
            const int x = toupper((unsigned char)a[i - 1]), y = toupper((unsigned char)b[j - 1]);
            now[j] = least(before[j - 1] + (x != y), least(before[j], now[j - 1]) + 1);
            if (i > 1 && j > 1 && x == toupper((unsigned char)b[j - 2]) &&
                toupper((unsigned char)a[i - 2]) == y) {
                now[j] = least(now[j], earlier[j - 2] + 1);
            }
        }
    }
    return row[a_length % 3][b_length];
}

/* Whether the option may be meant, and how far its variable or field is from the name. */
static unsigned how_far(const ptoi_option *o, const char *name, size_t length)
{
    const char *variable = o->variable + sizeof prefix - 1;
    const unsigned far = least(distance(name, length, variable, strlen(variable)),
                               distance(name, length, o->field, strlen(o->field)));
    const bool starts = length >= 3 && strncmp(variable, name, length) == 0; /* PTO_RING */
    return starts ? least(far, 1) : far;
}

static const char *meant(const char *name)
{
    const size_t length = strlen(name);
    const char *nearest = NULL;
    unsigned best = length < LONGEST ? (unsigned)(length + 1) / 3 + 1 : 0; /* too far */
    for (size_t i = 0; i < ptoi_n_options && best; i++) {
        const unsigned far = how_far(&ptoi_options[i], name, length);
        if (far < best) {
            best = far;
            nearest = ptoi_options[i].variable;
        }
    }
    return nearest;
}

static bool is_option(const char *name)
{
    for (size_t i = 0; i < ptoi_n_options; i++) {
        if (strcmp(ptoi_options[i].variable, name) == 0) {
            return true;
        }
    }
    return false;
}

bool ptoi_option_unknown(ptoi_unknown *search, ptoi_text *name, const char **nearest)
{
    for (;;) {
        const char *entry = environ[search->at];
        if (!entry) {
            if (search->second) {
                return false;
            }
            *search = (ptoi_unknown){.second = true};
            continue;
        }
        search->at++;
        if (!begins(entry, prefix) || begins(entry, tests)) {
            continue;
        }
        *name = (ptoi_text){.length = 0};
        ptoi_text_add(name, "%.*s", (int)strcspn(entry, "="), entry);
        if (!is_option(name->s)) {
            *nearest = meant(name->s + sizeof prefix - 1);
            if ((*nearest == NULL) == search->second) {
                return true;
            }
        }
    }
}
