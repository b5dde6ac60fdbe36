/* option.h - the table of options, for the files that read, merge and print them.
 *
 *     option.c       the table; values as text; pto_options_print
 *     option_read.c  parses environment variables
 *     option_unknown.c  finds misspelt variables
 *     config.c       decides which value counts: ptoi_config_resolve
 */
#ifndef PTOI_OPTION_H
#define PTOI_OPTION_H

#include <string.h>

#include "base/config.h"

typedef enum ptoi_option_kind {
    PTOI_OPTION_NUMBER,
    PTOI_OPTION_LEVELS,  /* a number for each level */
    PTOI_OPTION_WORKERS, /* threads and their types */
    PTOI_OPTION_TYPES,   /* a set of worker types */
    PTOI_OPTION_PLACE,   /* pto_place */
    PTOI_OPTION_PIN,     /* pto_pin */
    PTOI_OPTION_TRACE,   /* a file name */
    PTOI_OPTION_NAME,    /* a name */
    PTOI_OPTION_DEVICE,  /* pto_device */
} ptoi_option_kind;

typedef enum ptoi_option_round {
    PTOI_ROUND_NOT,
    PTOI_ROUND_POWER, /* up to a power of two */
    PTOI_ROUND_LINE,  /* bytes: up to cache lines of 64 */
} ptoi_option_round;

enum { PTOI_OPTION_LINE = 64 };

typedef struct ptoi_option {
    const char *variable;
    const char *field;
    uint16_t at;       /* offset of the field in pto_config, which ptoi_settings begins with */
    uint16_t width;    /* bytes of the number: 4 or 8 */
    uint16_t level_at; /* offset of the array with a value for each level */
    ptoi_option_kind kind;
    ptoi_option_round round;
    bool may_be_none; /* 0 is also written "none" */
    bool reserves; /* the default of all levels is at most an eighth of a limited address space */
    uint32_t per_task;  /* the default is at least this many for each slot of the task ring */
    uint64_t low, high; /* before rounding, which stays within the range; high == 0: not a number */
    uint64_t otherwise; /* the default; that of workers depends on the machine */
    const char *unit;
    const char *help;
} ptoi_option;

/* In the order in which they are decided: the number of levels before options by level, the task
 * ring before options that depend on its size. */
extern const ptoi_option ptoi_options[];
extern const size_t ptoi_n_options;

extern const char *const ptoi_type_names[PTO_WORKER_TYPES];

enum { PTOI_PINS = PTO_PIN_CORES + 1 };
extern const char *const ptoi_pin_names[PTOI_PINS]; /* PTO_PIN_DEFAULT: NULL */

enum { PTOI_PLACES = PTO_PLACE_GPU + 1 };
extern const char *const ptoi_place_names[PTOI_PLACES]; /* PTO_PLACE_DEFAULT: NULL */

/* Offset of the option's value for a level. get and set take this offset, or o->at. */
static inline size_t ptoi_option_level_at(const ptoi_option *o, uint32_t level)
{
    return o->level_at + (size_t)level * o->width;
}

static inline uint64_t ptoi_option_get(const ptoi_option *o, const pto_config *config, size_t at)
{
    uint32_t narrow = 0;
    uint64_t wide = 0;
    if (o->width == sizeof narrow) {
        memcpy(&narrow, (const char *)config + at, sizeof narrow);
        return narrow;
    }
    memcpy(&wide, (const char *)config + at, sizeof wide);
    return wide;
}

static inline void ptoi_option_set(const ptoi_option *o, pto_config *config, size_t at,
                                   uint64_t value)
{
    const uint32_t narrow = (uint32_t)value;
    if (o->width == sizeof narrow) {
        memcpy((char *)config + at, &narrow, sizeof narrow);
    } else {
        memcpy((char *)config + at, &value, sizeof value);
    }
}

/* Short text, for error details and lines of limited length. Longer text is cut and ends in
 * "...". */
typedef struct ptoi_text {
    char s[76];
    size_t length;
} ptoi_text;

void ptoi_text_add(ptoi_text *t, const char *format, ...) PTO_PRINTF(2, 3);

/* A description of the values that the variable accepts. */
ptoi_text ptoi_option_takes(const ptoi_option *o);

/* The value of a variable, or NULL if it is unset or empty. */
const char *ptoi_option_variable(const ptoi_option *o);

/* Parses the value of a variable. PTO_BAD_CONFIG if it is not valid or out of range. Levels: writes
 * `levels` values. Workers: fills s->n_workers and s->worker_types, which were empty. */
pto_status ptoi_option_read_number(const ptoi_option *o, const char *variable, uint64_t *value);
pto_status ptoi_option_read_levels(const ptoi_option *o, const char *variable, uint32_t levels,
                                   uint64_t *values);
pto_status ptoi_option_read_workers(const ptoi_option *o, const char *variable, ptoi_settings *s);
pto_status ptoi_option_read_types(const ptoi_option *o, const char *variable, uint32_t *types);
pto_status ptoi_option_read_place(const ptoi_option *o, const char *variable, pto_place *place);
pto_status ptoi_option_read_pin(const ptoi_option *o, const char *variable, uint32_t *pin);

pto_status ptoi_option_read_device(const ptoi_option *o, const char *variable, pto_device *device);
pto_status ptoi_option_read_trace(const ptoi_option *o, const char *variable, const char **path);

pto_status ptoi_option_read_name(const ptoi_option *o, const char *variable, const char **name);
bool ptoi_option_is_name(const char *name);

/* Whether the file name has the ending of a trace format, and something before it. */
bool ptoi_option_is_trace(const char *path);

/* Adds threads that serve `types`. If that makes too many, adds none and returns false. */
bool ptoi_settings_add_threads(ptoi_settings *s, uint64_t count, uint32_t types);

/* ptoi_config_resolve, with or without the environment. */
pto_status ptoi_config_resolve_from(const pto_config *given, bool environment, ptoi_settings *out);

/* How far the search for unknown variables has come; zeros at first. */
typedef struct ptoi_unknown {
    size_t at;   /* in the environment */
    bool second; /* those that are near an option have been found */
} ptoi_unknown;

/* Finds the next variable that begins with PTO_ and is no option. *nearest is the variable that was
 * probably meant; NULL: none is near. Those that have one come first. */
bool ptoi_option_unknown(ptoi_unknown *search, ptoi_text *name, const char **nearest);

#endif /* PTOI_OPTION_H */
