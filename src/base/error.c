/* error.c - names and texts of status codes, and the detail of this thread's last failure. */
#include "base/error.h"

#include <pto/kernel.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { DETAIL_BYTES = 512 };

static _Thread_local char detail[DETAIL_BYTES];
_Thread_local uint64_t ptoi_error_count;

const char *pto_status_name(pto_status status)
{
    switch (status) {
#define STATUS_NAME(name, value, text, hint)                                                       \
    case PTO_##name:                                                                               \
        return "PTO_" #name;
        PTO_STATUS_MAP(STATUS_NAME)
#undef STATUS_NAME
    }
    return "PTO_UNKNOWN_STATUS";
}

const char *ptoi_status_words(pto_status status, char room[PTOI_STATUS_WORDS])
{
    const char *name = pto_status_name(status);
    if (strcmp(name, pto_status_name((pto_status)-1)) != 0) {
        return name;
    }
    snprintf(room, PTOI_STATUS_WORDS, "status %d, which is none of PTO's", (int)status);
    return room;
}

const char *pto_status_text(pto_status status)
{
    switch (status) {
#define STATUS_TEXT(name, value, text, hint)                                                       \
    case PTO_##name:                                                                               \
        return text;
        PTO_STATUS_MAP(STATUS_TEXT)
#undef STATUS_TEXT
    }
    return "not a status of this version of the library";
}

const char *pto_status_hint(pto_status status)
{
    switch (status) {
#define STATUS_HINT(name, value, text, hint)                                                       \
    case PTO_##name:                                                                               \
        return hint;
        PTO_STATUS_MAP(STATUS_HINT)
#undef STATUS_HINT
    }
    return "compare pto_version() with the PTO_VERSION that the program was compiled against";
}

const char *pto_error_detail(void)
{
    return detail;
}

/* Formats into a second buffer, since the arguments may point into the old detail. */
static PTO_PRINTF(2, 0) pto_status fail(pto_status status, const char *format, va_list args)
{
    static const char cut[] = "...";
    char text[DETAIL_BYTES];
    int length = vsnprintf(text, sizeof text, format ? format : "(no words)", args);
    if (length < 0) {
        snprintf(text, sizeof text, "%s (no detail: bad format \"%s\")", pto_status_text(status),
                 format);
    } else if ((size_t)length >= sizeof text) {
        memcpy(text + sizeof text - sizeof cut, cut, sizeof cut);
    }
    memcpy(detail, text, strlen(text) + 1);
    ptoi_error_count++;
    return status;
}

pto_status ptoi_fail(pto_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fail(status, format, args);
    va_end(args);
    return status;
}

pto_status pto_fail(pto_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fail(status, format, args);
    va_end(args);
    return status;
}

const char *pto_version(void)
{
    return PTO_VERSION;
}
