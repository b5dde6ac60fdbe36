/* option_read.c - parses environment variables.
 *
 *     number   digits, then k, m, g or t for KiB to TiB, then iB if it counts bytes
 *     levels   number{,number}     the last one is used for all further levels
 *     types    type{+type}         "all" is a type, too
 *     threads  types[:number]
 *     workers  number | none | threads{,threads}
 *     trace    none | a file name
 *     name     none | letters, digits, '.', '-' and '_'
 *
 * Upper and lower case are the same. Blanks and empty parts are errors.
 */
#include "base/option.h"

#include <ctype.h>
#include <inttypes.h>
#include <strings.h>

#include "base/error.h"

typedef struct word {
    const char *at; /* NULL: none */
    size_t length;
} word;

static word word_of(const char *variable)
{
    return (word){variable, strlen(variable)};
}

/* The user's text, as one line. */
static ptoi_text quoted(word w)
{
    ptoi_text t = {.length = 0};
    ptoi_text_add(&t, "\"");
    for (size_t i = 0; i < w.length && t.length + 1 < sizeof t.s; i++) {
        ptoi_text_add(&t, "%c", isprint((unsigned char)w.at[i]) ? w.at[i] : '?');
    }
    ptoi_text_add(&t, "\"");
    return t;
}

static pto_status refuse(const ptoi_option *o, const char *variable, word w, const char *why)
{
    return ptoi_fail(PTO_BAD_CONFIG, "config: %s=%s (field %s): %s %s; it takes %s", o->variable,
                     quoted(word_of(variable)).s, o->field, quoted(w).s, why,
                     ptoi_option_takes(o).s);
}

/* Splits off the first word before a separator. "a," is two words, the second one empty. */
static bool split(word *rest, char separator, word *first)
{
    if (!rest->at) {
        return false;
    }
    const char *end = memchr(rest->at, separator, rest->length);
    *first = *rest;
    if (end) {
        first->length = (size_t)(end - rest->at);
        rest->at = end + 1;
        rest->length -= first->length + 1;
    } else {
        rest->at = NULL;
    }
    return true;
}

static bool is_word(word w, const char *name)
{
    return w.length == strlen(name) && strncasecmp(w.at, name, w.length) == 0;
}

/* These return what is wrong with the word, or NULL. */

static const char *number_of(const ptoi_option *o, word w, uint64_t *value)
{
    static const char junk[] = "is not a number";
    static const char units[] = "kmgt";
    if (o->may_be_none && is_word(w, "none")) {
        *value = 0;
        return NULL;
    }
    size_t i = 0;
    uint64_t sum = 0;
    bool fits = true; /* the value fits in 64 bits */
    for (; i < w.length && isdigit((unsigned char)w.at[i]); i++) {
        const unsigned digit = (unsigned)(w.at[i] - '0');
        fits = fits && sum <= (UINT64_MAX - digit) / 10;
        sum = sum * 10 + digit;
    }
    if (!i) {
        return w.length ? junk : "is empty";
    }
    if (i < w.length) {
        const char *unit = memchr(units, tolower((unsigned char)w.at[i]), sizeof units - 1);
        const word end = {w.at + i + 1, w.length - i - 1};
        const bool bytes = o->round == PTOI_ROUND_LINE;
        if (!unit || (end.length && !(bytes && is_word(end, "iB")))) {
            return junk;
        }
        const unsigned shift = 10 * (unsigned)(unit - units + 1);
        fits = fits && sum <= UINT64_MAX >> shift;
        sum <<= shift;
    }
    if (!fits || sum < o->low || sum > o->high) {
        return "is out of range";
    }
    *value = sum;
    return NULL;
}

static const char *types_of(word w, uint32_t *types)
{
    word name;
    *types = 0;
    while (split(&w, '+', &name)) {
        uint32_t found = is_word(name, "all") ? PTO_ALL_TYPES : 0;
        for (unsigned type = 0; type < PTO_WORKER_TYPES; type++) {
            if (is_word(name, ptoi_type_names[type])) {
                found = PTO_TYPE_BIT(type);
            }
        }
        if (!found) {
            return name.length ? "has an unknown type" : "lacks a type";
        }
        *types |= found;
    }
    return NULL;
}

static const char *threads_of(const ptoi_option *o, word w, ptoi_settings *s)
{
    word types;
    uint32_t set = 0;
    uint64_t count = 1;
    split(&w, ':', &types);
    const char *wrong = types_of(types, &set);
    if (!wrong && w.at) {
        wrong = number_of(o, w, &count) ? "has a bad number of threads" : NULL;
    }
    if (!wrong && !ptoi_settings_add_threads(s, count, set)) {
        wrong = "makes too many threads";
    }
    return wrong;
}

/* ---- Functions for config.c ------------------------------------------------------------------ */

pto_status ptoi_option_read_number(const ptoi_option *o, const char *variable, uint64_t *value)
{
    const word whole = word_of(variable);
    const char *wrong = number_of(o, whole, value);
    return wrong ? refuse(o, variable, whole, wrong) : PTO_OK;
}

pto_status ptoi_option_read_levels(const ptoi_option *o, const char *variable, uint32_t levels,
                                   uint64_t *values)
{
    word rest = word_of(variable);
    word element;
    uint32_t n = 0;
    for (; split(&rest, ',', &element); n++) {
        char too_many[48];
        snprintf(too_many, sizeof too_many, "is for level %" PRIu32 " of 0 to %" PRIu32, n,
                 levels - 1);
        const char *wrong = n < levels ? number_of(o, element, &values[n]) : too_many;
        if (wrong) {
            return refuse(o, variable, element, wrong);
        }
    }
    for (; n < levels; n++) {
        values[n] = values[n - 1];
    }
    return PTO_OK;
}

pto_status ptoi_option_read_workers(const ptoi_option *o, const char *variable, ptoi_settings *s)
{
    word rest = word_of(variable);
    word element = rest;
    if (is_word(rest, "none") || isdigit((unsigned char)*variable)) {
        uint64_t count = 0;
        const pto_status status = ptoi_option_read_number(o, variable, &count);
        if (status == PTO_OK) {
            ptoi_settings_add_threads(s, count, PTO_ALL_TYPES);
        }
        return status;
    }
    while (split(&rest, ',', &element)) {
        const char *wrong = threads_of(o, element, s);
        if (wrong) {
            return refuse(o, variable, element, wrong);
        }
    }
    return PTO_OK;
}

pto_status ptoi_option_read_types(const ptoi_option *o, const char *variable, uint32_t *types)
{
    const word whole = word_of(variable);
    *types = 0;
    const char *wrong = is_word(whole, "none") ? NULL : types_of(whole, types);
    return wrong ? refuse(o, variable, whole, wrong) : PTO_OK;
}

pto_status ptoi_option_read_place(const ptoi_option *o, const char *variable, pto_place *place)
{
    const word whole = word_of(variable);
    for (int p = PTO_PLACE_INLINE; p < PTOI_PLACES; p++) {
        if (is_word(whole, ptoi_place_names[p])) {
            *place = (pto_place)p;
            return PTO_OK;
        }
    }
    return refuse(o, variable, whole, "is unknown");
}

pto_status ptoi_option_read_pin(const ptoi_option *o, const char *variable, uint32_t *pin)
{
    const word whole = word_of(variable);
    for (uint32_t p = PTO_PIN_OFF; p < PTOI_PINS; p++) {
        if (is_word(whole, ptoi_pin_names[p])) {
            *pin = p;
            return PTO_OK;
        }
    }
    return refuse(o, variable, whole, "is unknown");
}

bool ptoi_option_is_trace(const char *path)
{
    static const char *const endings[] = {".html", ".json", ".dot", ".ptrace"};
    const size_t length = strlen(path);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        const size_t n = strlen(endings[i]);
        if (length > n && strcmp(path + length - n, endings[i]) == 0) {
            return path[length - n - 1] != '/';
        }
    }
    return false;
}

pto_status ptoi_option_read_device(const ptoi_option *o, const char *variable, pto_device *device)
{
    return pto_device_parse(variable, device)
               ? refuse(o, variable, word_of(variable), "is no device")
               : PTO_OK;
}

bool ptoi_option_is_name(const char *name)
{
    const size_t length = strspn(
        name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");
    return length >= 1 && length <= 63 && !name[length];
}

pto_status ptoi_option_read_name(const ptoi_option *o, const char *variable, const char **name)
{
    *name = strcmp(variable, "none") == 0 ? NULL : variable;
    return !*name || ptoi_option_is_name(variable)
               ? PTO_OK
               : ptoi_fail(PTO_BAD_CONFIG, "config: %s = \"%s\": it takes %s", o->variable,
                           variable, ptoi_option_takes(o).s);
}

pto_status ptoi_option_read_trace(const ptoi_option *o, const char *variable, const char **path)
{
    const word whole = word_of(variable);
    if (is_word(whole, "none")) {
        return PTO_OK;
    }
    *path = variable;
    return ptoi_option_is_trace(variable) ? PTO_OK
                                          : refuse(o, variable, whole, "has no known ending");
}
