/* declare.c - declarations of kernels: parsed when they are made, compared at every submit.
 *
 *     declaration = [ parameter { "," parameter } ]           "" declares that there are none
 *     parameter   = access type [ "[" ndim "]" ] [ name ]     a tensor
 *                 | type [ name ]                             a scalar
 *                 | "..."                                     last: any further parameters
 *     access      = "in" | "out" | "inout"
 *     type        = "f32" ... | "any"
 *
 * "..." after the last parameter means that there may be any number of it.
 */
#include "orchestrator/declare.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/source.h"
#include "orchestrator/runtime.h"

/* ---- Words ---------------------------------------------------------------------------------- */

static const char *const type_words[] = {
    [PTO_FLOAT32] = "f32", [PTO_FLOAT16] = "f16", [PTO_INT32] = "i32",     [PTO_INT16] = "i16",
    [PTO_INT8] = "i8",     [PTO_UINT8] = "u8",    [PTO_BFLOAT16] = "bf16", [PTO_INT64] = "i64",
    [PTO_UINT64] = "u64",  [PTO_FLOAT64] = "f64", [PTO_BOOL] = "bool",
};
enum { TYPE_WORDS = sizeof type_words / sizeof *type_words };

static const char *const access_words[] = {
    [PTO_PARAM_INPUT] = "in", [PTO_PARAM_OUTPUT] = "out", [PTO_PARAM_INOUT] = "inout"};
enum { ACCESS_WORDS = sizeof access_words / sizeof *access_words };

#define TYPES "f32, f16, bf16, f64, i8, i16, i32, i64, u8, u64, bool or any"

/* ndim and dtype of a tensor, which are next to each other, as one word. */
_Static_assert(offsetof(pto_tensor, dtype) == offsetof(pto_tensor, ndim) + 4 &&
                   __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "one word has ndim in its lower half, dtype in its upper half");

#define NDIM_MASK UINT64_C(0xffffffff)
#define DTYPE_MASK (~NDIM_MASK)

static inline uint64_t word_of(uint32_t ndim, uint32_t dtype)
{
    return (uint64_t)dtype << 32 | ndim;
}

/* ---- Parsing -------------------------------------------------------------------------------- */

typedef struct parser {
    const char *kernel, *text, *at;
} parser;

/* `at`: where the text cannot be read. Characters are counted from 1, as editors do. */
static pto_status refuse(const parser *p, const char *at, const char *why)
{
    enum { EXCERPT = 40 };
    const bool cut = strlen(at) > EXCERPT;
    return ptoi_fail(PTO_BAD_DECLARATION, "declare: kernel '%s', character %zu, %s%.*s%s: %s",
                     p->kernel, (size_t)(at - p->text) + 1, *at ? "at \"" : "at the end", EXCERPT,
                     at,
                     !*at  ? ""
                     : cut ? "...\""
                           : "\"",
                     why);
}

static void skip_spaces(parser *p)
{
    while (isspace((unsigned char)*p->at)) {
        p->at++;
    }
}

static bool is_ascii(char c)
{
    return (unsigned char)c < 0x80;
}

/* Length of the word here: letters, digits and _, not beginning with a digit. In some locales other
 * bytes are letters, too. */
static size_t word_here(const parser *p)
{
    size_t n = 0;
    while ((is_ascii(p->at[n]) && isalnum((unsigned char)p->at[n])) || p->at[n] == '_') {
        n++;
    }
    return isdigit((unsigned char)*p->at) ? 0 : n;
}

/* Takes the word here if it is one of these. Returns its number; 0: it is none of them. */
static uint32_t take_word(parser *p, const char *const *words, uint32_t n)
{
    const size_t length = word_here(p);
    for (uint32_t i = 1; i < n; i++) {
        if (words[i] && strlen(words[i]) == length && memcmp(words[i], p->at, length) == 0) {
            p->at += length;
            skip_spaces(p);
            return i;
        }
    }
    return 0;
}

static bool take_dots(parser *p)
{
    if (strncmp(p->at, "...", 3) != 0) {
        return false;
    }
    p->at += 3;
    skip_spaces(p);
    return true;
}

static pto_status take_type(parser *p, ptoi_declared *d)
{
    static const char *const any[] = {NULL, "any"};
    const char *at = p->at;
    const uint32_t dtype = take_word(p, type_words, TYPE_WORDS);
    if (dtype) {
        d->want |= word_of(0, dtype);
        d->mask |= DTYPE_MASK;
    } else if (!take_word(p, any, 2)) {
        return refuse(p, at,
                      d->kind == PTO_PARAM_SCALAR
                          ? "expected in, out, inout, i64, u64, f64, any or ..."
                          : "a data type is expected: " TYPES);
    }
    if (d->kind == PTO_PARAM_SCALAR && dtype && dtype != PTO_INT64 && dtype != PTO_UINT64 &&
        dtype != PTO_FLOAT64) {
        return refuse(p, at,
                      "a scalar is i64, u64, f64 or any; a tensor begins with in, out or "
                      "inout");
    }
    return PTO_OK;
}

static pto_status take_ndim(parser *p, ptoi_declared *d)
{
    if (*p->at != '[') {
        return PTO_OK;
    }
    const char *at = p->at++;
    skip_spaces(p);
    if (d->kind == PTO_PARAM_SCALAR) {
        return refuse(p, at, "a scalar has no dims; a tensor begins with in, out or inout");
    }
    /* One digit is enough, since PTO_MAX_DIMS is 8. */
    const uint32_t ndim = (uint32_t)(*p->at - '0');
    if (ndim > PTO_MAX_DIMS || isdigit((unsigned char)p->at[1])) {
        return refuse(p, p->at,
                      "a number of dims is expected, 0 to 8; leave out the brackets if "
                      "any will do");
    }
    p->at++;
    skip_spaces(p);
    if (*p->at != ']') {
        return refuse(p, p->at, "a ] is expected after the number of dims");
    }
    p->at++;
    skip_spaces(p);
    d->want |= word_of(ndim, 0);
    d->mask |= NDIM_MASK;
    return PTO_OK;
}

/* One parameter. *tail: dots follow it, or it is dots. */
static pto_status take_param(parser *p, ptoi_declared *d, bool *tail)
{
    *d = (ptoi_declared){.at = (uint32_t)(p->at - p->text)};
    *tail = take_dots(p);
    if (*tail) {
        d->length = 3;
        return PTO_OK;
    }
    d->kind = take_word(p, access_words, ACCESS_WORDS);
    d->kind = d->kind ? d->kind : PTO_PARAM_SCALAR;
    PTO_TRY(take_type(p, d));
    PTO_TRY(take_ndim(p, d));
    d->name = (uint32_t)(p->at - p->text);
    d->named = (uint32_t)word_here(p);
    p->at += d->named;
    const char *end = p->at;
    while (end > p->text && isspace((unsigned char)end[-1])) {
        end--;
    }
    d->length = (uint32_t)(end - p->text) - d->at;
    skip_spaces(p);
    *tail = take_dots(p);
    return PTO_OK;
}

static pto_status take_all(parser *p, ptoi_declaration *d)
{
    skip_spaces(p);
    bool more = *p->at != '\0';
    while (more) {
        PTO_TRY(take_param(p, &d->params[d->n], &d->tail));
        d->n += !d->tail;
        more = *p->at == ',';
        if (*p->at && (!more || d->tail)) {
            return refuse(p, p->at,
                          d->tail             ? "nothing may follow ..."
                          : !is_ascii(*p->at) ? "names are ASCII letters, digits and _"
                                              : "a comma is expected, or a name before it");
        }
        p->at += more;
        skip_spaces(p);
    }
    return PTO_OK;
}

pto_status ptoi_declaration_parse(const char *name, const char *text, ptoi_declaration **parsed)
{
    const size_t length = strlen(text);
    size_t most = 1;
    for (const char *c = text; *c; c++) {
        most += *c == ',';
    }
    if (length > UINT32_MAX) {
        return ptoi_fail(PTO_BAD_DECLARATION, "declare: kernel '%s': %zu characters", name, length);
    }
    ptoi_declaration *d = calloc(1, sizeof *d + most * sizeof *d->params + length + 1);
    if (!d) {
        return ptoi_fail(PTO_OUT_OF_MEMORY, "declare: kernel '%s': %zu parameters", name, most);
    }
    d->text = (char *)&d->params[most];
    memcpy(d->text, text, length + 1);
    parser p = {name, d->text, d->text};
    const pto_status status = take_all(&p, d);
    if (status != PTO_OK) {
        free(d);
        return status;
    }
    *parsed = d;
    return PTO_OK;
}

/* ---- The check ------------------------------------------------------------------------------ */

/* The parameter of a submit in the words of a declaration: "in f64[2]". */
typedef struct description {
    char text[48];
} description;

static const char *type_word(uint32_t dtype)
{
    return dtype && dtype < TYPE_WORDS ? type_words[dtype] : "invalid";
}

static description describe(const pto_param *p)
{
    description d;
    if (p->kind == PTO_PARAM_SCALAR) {
        snprintf(d.text, sizeof d.text, "the scalar %s", type_word(p->dtype));
    } else {
        snprintf(d.text, sizeof d.text, "%s %s[%" PRId32 "]", access_words[p->kind],
                 type_word(p->tensor->dtype), p->tensor->ndim);
    }
    return d;
}

/* "(b)", or "" if it has no name. */
static description name_of(const ptoi_declaration *d, const ptoi_declared *want)
{
    description t = {""};
    if (want->named) {
        snprintf(t.text, sizeof t.text, " (%.*s)", (int)want->named, d->text + want->name);
    }
    return t;
}

/* Where the submit stands: " (submit at app.c:12)". */
typedef struct submit_place {
    char text[sizeof(ptoi_source) + 16];
} submit_place;

static submit_place place_of(const char *file, int line)
{
    submit_place at = {""};
    if (file) {
        snprintf(at.text, sizeof at.text, " (submit at %s)", ptoi_source_of(file, line).text);
    }
    return at;
}

static inline bool matches(const ptoi_declared *want, const pto_param *p)
{
    uint64_t word = word_of(0, p->dtype);
    if (p->kind != PTO_PARAM_SCALAR) {
        memcpy(&word, &p->tensor->ndim, sizeof word);
    }
    return (want->kind == p->kind || !want->kind) && ((word ^ want->want) & want->mask) == 0;
}

/* Whether the checks of every submit will refuse it. */
static inline bool is_no_param(const pto_param *p)
{
    return p->kind - 1u >= PTO_PARAM_SCALAR || (p->kind <= PTO_PARAM_INOUT && !p->tensor);
}

pto_status ptoi_declaration_check(const ptoi_declaration *d, const char *name,
                                  const pto_param *params, size_t n_params, const char *file,
                                  int line)
{
    size_t next = 0; /* the declared parameter that is next */
    for (size_t i = 0; i < n_params; i++) {
        const pto_param *p = &params[i];
        const ptoi_declared *want = &d->params[next];
        if (PTOI_UNLIKELY(p->kind == PTO_PARAM_AFTER)) {
            continue;
        }
        if (PTOI_UNLIKELY(is_no_param(p))) {
            return PTO_OK;
        }
        if (PTOI_UNLIKELY(next == d->n && !d->tail)) {
            return ptoi_fail(PTO_MISMATCH,
                             "submit: parameter %zu is one too many: kernel '%s' declares %zu, "
                             "\"%s\"%s",
                             i, name, d->n, d->text, place_of(file, line).text);
        }
        if (PTOI_UNLIKELY(!matches(want, p))) {
            return ptoi_fail(PTO_MISMATCH,
                             "submit: parameter %zu%s is %s: kernel '%s' declares \"%.*s\"%s", i,
                             name_of(d, want).text, describe(p).text, name, (int)want->length,
                             d->text + want->at, place_of(file, line).text);
        }
        next += next < d->n;
    }
    if (PTOI_UNLIKELY(next < d->n)) {
        return ptoi_fail(PTO_MISMATCH,
                         "submit: parameter %zu%s is missing: kernel '%s' declares %zu, \"%s\"%s",
                         n_params, name_of(d, &d->params[next]).text, name, d->n, d->text,
                         place_of(file, line).text);
    }
    return PTO_OK;
}

/* ---- The call ------------------------------------------------------------------------------- */

pto_status pto_kernel_declare(pto_runtime *rt, pto_kernel kernel, const char *declaration)
{
    PTO_TRY(ptoi_runtime_enter(rt, "declare a kernel"));
    const uint64_t number = kernel ^ rt->first_kernel;
    if (number == 0 || number >= rt->n_kernels) {
        return ptoi_fail(PTO_BAD_KERNEL,
                         "declare: kernel handle %" PRIu64 " was not registered with this runtime",
                         kernel);
    }
    ptoi_registered *k = &rt->kernels[number];
    const char *name = ptoi_kernel_name(&rt->view, (uint32_t)number);
    if (!declaration) {
        return ptoi_fail(PTO_NULL_ARGUMENT, "declare: the declaration of kernel '%s' is NULL",
                         name);
    }
    if (k->declaration) {
        return ptoi_fail(PTO_BAD_DECLARATION, "declare: kernel '%s' is declared already, as \"%s\"",
                         name, k->declaration->text);
    }
    PTO_TRY(ptoi_declaration_parse(name, declaration, &k->declaration));
    k->route |= PTOI_ROUTE_DECLARED;
    return PTO_OK;
}
