/* json.c - JSON tokens: strings, integers, lists of them. */
#include "json.h"

#include <string.h>

pto_status json_fail(const json *r, const char *what)
{
    return pto_fail(PTO_BAD_PARAM, "%s: header, byte %zu of %zu: %s", r->path, r->at, r->size,
                    what);
}

void json_skip(json *r)
{
    while (r->at < r->size && (r->text[r->at] == ' ' || r->text[r->at] == '\t' ||
                               r->text[r->at] == '\n' || r->text[r->at] == '\r')) {
        r->at++;
    }
}

char json_peek(json *r)
{
    json_skip(r);
    return r->at < r->size ? r->text[r->at] : '\0';
}

pto_status json_expect(json *r, char sign)
{
    if (json_peek(r) != sign) {
        char what[] = "expected ' '";
        what[sizeof what - 3] = sign;
        return json_fail(r, what);
    }
    r->at++;
    return PTO_OK;
}

pto_status json_more(json *r, char closing, bool *more)
{
    *more = json_peek(r) == ',';
    if (*more) {
        r->at++;
        return PTO_OK;
    }
    return json_expect(r, closing);
}

static pto_status parse_hex(json *r, uint32_t *value)
{
    *value = 0;
    for (int i = 0; i < 4; i++, r->at++) {
        const char c = r->at < r->size ? r->text[r->at] : '\0';
        if (c >= '0' && c <= '9') {
            *value = *value << 4 | (uint32_t)(c - '0');
        } else if ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')) {
            *value = *value << 4 | (uint32_t)((c | 0x20) - 'a' + 10);
        } else {
            return json_fail(r, "\\u without four hexadecimal digits");
        }
    }
    return PTO_OK;
}

/* The character after "\u"; a second one may be the other half of a surrogate pair. */
static pto_status parse_unicode(json *r, uint32_t *point)
{
    uint32_t low;
    PTO_TRY(parse_hex(r, point));
    if (*point >= 0xDC00 && *point <= 0xDFFF) {
        return json_fail(r, "the second half of a surrogate pair without the first");
    }
    if (*point >= 0xD800 && *point <= 0xDBFF) {
        if (r->size - r->at < 2 || r->text[r->at] != '\\' || r->text[r->at + 1] != 'u') {
            return json_fail(r, "the first half of a surrogate pair without the second");
        }
        r->at += 2;
        PTO_TRY(parse_hex(r, &low));
        if (low < 0xDC00 || low > 0xDFFF) {
            return json_fail(r, "the first half of a surrogate pair without the second");
        }
        *point = 0x10000 + ((*point - 0xD800) << 10) + (low - 0xDC00);
    }
    return PTO_OK;
}

static pto_status parse_escape(json *r, uint32_t *point)
{
    static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    const char letter = r->at < r->size ? r->text[r->at] : '\0';
    if (letter == 'u') {
        r->at++;
        return parse_unicode(r, point);
    }
    const char *found = letter ? strchr(letters, letter) : NULL;
    if (!found) {
        return json_fail(r, "an escape that JSON does not have");
    }
    r->at++;
    *point = (uint32_t)meanings[found - letters];
    return PTO_OK;
}

/* One UTF-8 character: not overlong, not a surrogate, not above U+10FFFF. */
static pto_status parse_utf8(json *r, uint32_t *point)
{
    static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
    const unsigned char first = (unsigned char)r->text[r->at];
    const size_t more = first < 0x80   ? 0
                        : first < 0xC0 ? 4
                        : first < 0xE0 ? 1
                        : first < 0xF0 ? 2
                                       : 3;
    if (more == 4 || first > 0xF4 || r->size - r->at <= more) {
        return json_fail(r, "not UTF-8");
    }
    *point = more ? first & (0x3Fu >> more) : first;
    for (size_t i = 1; i <= more; i++) {
        const unsigned char next = (unsigned char)r->text[r->at + i];
        if ((next & 0xC0) != 0x80) {
            return json_fail(r, "not UTF-8");
        }
        *point = *point << 6 | (next & 0x3Fu);
    }
    if (*point < least[more] || *point > 0x10FFFF || (*point >= 0xD800 && *point <= 0xDFFF)) {
        return json_fail(r, "not UTF-8");
    }
    r->at += more + 1;
    return PTO_OK;
}

static char *put_utf8(char *to, uint32_t point)
{
    if (point < 0x80) {
        *to++ = (char)point;
        return to;
    }
    const int more = point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
    *to++ = (char)(0xF0u << (3 - more) | point >> 6 * more);
    for (int i = more; i-- > 0;) {
        *to++ = (char)(0x80 | (point >> 6 * i & 0x3F));
    }
    return to;
}

/* Decodes in place: an escape is never shorter than its character, and the NUL replaces the closing
 * quote. */
pto_status json_string(json *r, char **string)
{
    PTO_TRY(json_expect(r, '"'));
    char *to = *string = r->text + r->at;
    while (r->at < r->size && r->text[r->at] != '"') {
        uint32_t point = 0;
        if ((unsigned char)r->text[r->at] < 0x20) {
            return json_fail(r, "a control character in a string");
        }
        if (r->text[r->at] == '\\') {
            r->at++;
            PTO_TRY(parse_escape(r, &point));
        } else {
            PTO_TRY(parse_utf8(r, &point));
        }
        if (!point) {
            return json_fail(r, "a zero in a string");
        }
        to = put_utf8(to, point);
    }
    if (r->at == r->size) {
        return json_fail(r, "a string without an end");
    }
    *to = '\0';
    r->at++;
    return PTO_OK;
}

/* An integer from 0 to INT64_MAX. */
static pto_status parse_number(json *r, int64_t *number)
{
    const char first = json_peek(r);
    if (first < '0' || first > '9') {
        return json_fail(r, "expected a number that is whole and not negative");
    }
    *number = 0;
    const size_t start = r->at;
    for (; r->at < r->size && r->text[r->at] >= '0' && r->text[r->at] <= '9'; r->at++) {
        const int64_t digit = r->text[r->at] - '0';
        if (r->at > start && first == '0') {
            return json_fail(r, "a number that begins with 0");
        }
        if (*number > (INT64_MAX - digit) / 10) {
            return json_fail(r, "a number that does not fit in 64 bits");
        }
        *number = *number * 10 + digit;
    }
    return PTO_OK;
}

pto_status json_numbers(json *r, int64_t *numbers, int32_t most, int32_t *count)
{
    *count = 0;
    PTO_TRY(json_expect(r, '['));
    if (json_peek(r) == ']') {
        r->at++;
        return PTO_OK;
    }
    for (bool more = true; more;) {
        if (*count == most) {
            return json_fail(r, "more numbers in brackets than there can be");
        }
        PTO_TRY(parse_number(r, &numbers[(*count)++]));
        PTO_TRY(json_more(r, ']', &more));
    }
    return PTO_OK;
}
