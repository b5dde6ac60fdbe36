/* fuzz_json.c - the JSON tokenizer (examples/workloads/json.h).
 *
 * Any text, in memory that ends with it. Each string is written back as JSON and read again.
 */
#include "fuzz.h"

#include "json.h"

/* The string as JSON, with every character escaped that may be. */
static size_t write_string(const char *string, char *to)
{
    size_t used = 0;
    to[used++] = '"';
    for (; *string; string++) {
        const unsigned char c = (unsigned char)*string;
        if (c < 0x20 || c == '"' || c == '\\' || c == 0x7F) {
            used += (size_t)sprintf(to + used, "\\u%04x", c);
        } else {
            to[used++] = *string;
        }
    }
    to[used++] = '"';
    return used;
}

static void read_again(const char *string)
{
    const size_t length = strlen(string);
    char *text = malloc(6 * length + 2), *again = NULL;
    if (!text) {
        fuzz_wrong("no memory");
    }
    const size_t size = write_string(string, text);
    char *exact = fuzz_copy(text, size);
    json r = {.path = "again", .text = exact, .size = size};
    if (json_string(&r, &again) != PTO_OK || strcmp(again, string) != 0 || r.at != size) {
        fuzz_wrong("a string that was read is not read again: %s", pto_error_detail());
    }
    free(exact);
    free(text);
}

/* Reads one token of any kind; false if there is none. */
static bool read_word(json *r)
{
    int64_t numbers[4];
    int32_t count = -1;
    char *string = NULL;
    bool more;
    const size_t at = r->at;
    switch (json_peek(r)) {
    case '"':
        if (json_string(r, &string) != PTO_OK) {
            return false;
        }
        if (string < r->text || string + strlen(string) >= r->text + r->at) {
            fuzz_wrong("a string that ends behind what was read");
        }
        read_again(string);
        return true;
    case '[':
        if (json_numbers(r, numbers, 4, &count) != PTO_OK) {
            return false;
        }
        for (int32_t i = 0; i < count; i++) {
            if (count > 4 || numbers[i] < 0) {
                fuzz_wrong("number %d of %d is %lld", i, count, (long long)numbers[i]);
            }
        }
        return true;
    case ',':
        return json_more(r, '}', &more) == PTO_OK && more;
    case ':':
        return json_expect(r, ':') == PTO_OK;
    case '{':
        return json_expect(r, '{') == PTO_OK;
    case '}':
        return json_more(r, '}', &more) == PTO_OK && !more;
    default:
        if (json_expect(r, '{') == PTO_OK || r->at < at) {
            fuzz_wrong("a sign that is not there was read");
        }
        return false;
    }
}

static void read_text(const uint8_t *data, size_t size)
{
    char *text = fuzz_copy(data, size);
    json r = {.path = "input", .text = text, .size = size};
    while (read_word(&r)) {
        if (r.at > r.size) {
            fuzz_wrong("byte %zu of %zu was read", r.at, r.size);
        }
    }
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (size_t at = 0, length; at < size;) {
        const uint8_t *text = fuzz_next_text(data, size, &at, &length);
        read_text(text, length);
    }
    return 0;
}
