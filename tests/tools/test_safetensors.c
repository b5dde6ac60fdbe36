/* test_safetensors.c - the reader of weights believes no file: what is written comes back, and of a
 * corpus of bad files each one is refused in words, with nothing read that is not there. (That last
 * part is for the address sanitizer to see: headers are read into memory of exactly their size.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "safetensors.h"
#include "support.h"

static char folder[] = "/tmp/pto-safetensors-XXXXXX";
static char path[64];

static int setup(void **state)
{
    (void)state;
    if (!mkdtemp(folder)) {
        return -1;
    }
    (void)snprintf(path, sizeof path, "%s/f", folder);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    (void)unlink(path);
    return rmdir(folder);
}

/* ---- Files -------------------------------------------------------------------------------- */

static void write_file(const void *bytes, size_t size)
{
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(bytes, 1, size, out), size);
    assert_int_equal(fclose(out), 0);
}

static void store_le(unsigned char *to, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        to[i] = (unsigned char)(value >> 8 * i);
    }
}

/* A file of a header that says it is `said` bytes long, and `data` bytes 0, 1, 2, ... */
static size_t make_file(unsigned char *to, uint64_t said, const char *header, size_t size,
                        size_t data)
{
    store_le(to, said, 8);
    memcpy(to + 8, header, size);
    for (size_t i = 0; i < data; i++) {
        to[8 + size + i] = (unsigned char)i;
    }
    return 8 + size + data;
}

/* Opens the file, and wants it refused with these words: the path, and another. */
static void expect_refused(const char *words, const char *which)
{
    safetensors *file = NULL;
    PTO_IGNORE(pto_fail(PTO_OK, "stale"));
    const pto_status status = safetensors_open(path, &file);
    if (!status || !strstr(pto_error_detail(), path) || !strstr(pto_error_detail(), words)) {
        print_error("%s\n  gives %s: %s\n  want words: %s\n", which, pto_status_name(status),
                    pto_error_detail(), words);
        safetensors_close(&file);
        fail();
    }
    assert_null(file);
}

static void open_header(const char *header, size_t data, safetensors **file)
{
    unsigned char bytes[4096];
    write_file(bytes, make_file(bytes, strlen(header), header, strlen(header), data));
    if (safetensors_open(path, file)) {
        print_error("%s\n  refused: %s\n", header, pto_error_detail());
        fail();
    }
}

/* A dense tensor over an array. */
static pto_tensor over(float *data, int32_t ndim, const int64_t *shape)
{
    pto_tensor t;
    uint64_t count = 1;
    for (int32_t d = 0; d < ndim; d++) {
        count *= (uint64_t)shape[d];
    }
    assert_int_equal(
        pto_tensor_init(&t, data, count * sizeof *data, PTO_FLOAT32, ndim, shape, NULL, 0), PTO_OK);
    return t;
}

static pto_status read_as(safetensors *file, const char *name, int32_t ndim, const int64_t *shape,
                          float *to)
{
    const pto_tensor t = over(to, ndim, shape);
    return safetensors_read(file, name, &t);
}

/* ---- Good files ------------------------------------------------------------------------------ */

#define HEADER                                                                                     \
    "{\"__metadata__\":{\"format\":\"pt\",\"say \\\"hi\\\"\":\"\\u20ac\\n\"},"                     \
    "\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[8,32]},"                           \
    "\"a.weight\":{\"data_offsets\":[0,8],\"shape\":[4],\"dtype\":\"BF16\"},"                      \
    "\"none\":{\"dtype\":\"I64\",\"shape\":[5,0],\"data_offsets\":[8,8]},"                         \
    "\"one\":{\"dtype\":\"F16\",\"shape\":[],\"data_offsets\":[32,34]}}"

static void test_reads(void **state)
{
    (void)state;
    safetensors *file = NULL;
    open_header(HEADER "  \n", 34, &file);
    assert_int_equal(safetensors_count(file), 4);
    assert_string_equal(safetensors_at(file, 0)->name, "a.weight");
    assert_string_equal(safetensors_at(file, 3)->name, "one");
    assert_null(safetensors_at(file, 4));
    assert_null(safetensors_find(file, "c"));
    const safetensor *b = safetensors_find(file, "b");
    assert_non_null(b);
    assert_string_equal(b->dtype, "F32");
    assert_int_equal(b->ndim, 2);
    assert_int_equal(b->shape[1], 3);

    float got[6];
    assert_int_equal(read_as(file, "b", 2, (int64_t[]){2, 3}, got), PTO_OK);
    for (uint32_t i = 0; i < 6; i++) {
        const uint32_t at = 8 + 4 * i, bits = at | (at + 1) << 8 | (at + 2) << 16 | (at + 3) << 24;
        assert_memory_equal(&got[i], &bits, 4);
    }
    assert_int_equal(read_as(file, "a.weight", 1, (int64_t[]){4}, got), PTO_OK);
    assert_memory_equal(&got[1], &(uint32_t){0x03020000}, 4);
    assert_int_equal(read_as(file, "one", 0, NULL, got), PTO_OK);
    safetensors_close(&file);
    assert_null(file);
    safetensors_close(&file);
}

static void test_empty(void **state)
{
    (void)state;
    safetensors *file = NULL;
    open_header("{}", 0, &file);
    assert_int_equal(safetensors_count(file), 0);
    assert_null(safetensors_find(file, "a"));
    safetensors_close(&file);
    open_header("{\"__metadata__\":{}}", 0, &file);
    assert_int_equal(safetensors_count(file), 0);
    safetensors_close(&file);
}

static void test_names(void **state)
{
    (void)state;
    safetensors *file = NULL;
    open_header("{\"\\u00e4\\ud83d\\ude00\\/\\\\\":"
                "{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
                1, &file);
    assert_string_equal(safetensors_at(file, 0)->name, "\xc3\xa4\xf0\x9f\x98\x80/\\");
    safetensors_close(&file);
    open_header("{\"\xe2\x82\xac\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
                &file);
    assert_non_null(safetensors_find(file, "\xe2\x82\xac"));
    safetensors_close(&file);
}

/* One number of a dtype, through a file. */
static float converted(const char *dtype, size_t bytes, uint64_t bits)
{
    char header[128];
    unsigned char file_bytes[256];
    float value = 0;
    safetensors *file = NULL;
    (void)snprintf(header, sizeof header,
                   "{\"t\":{\"dtype\":\"%s\",\"shape\":[1],"
                   "\"data_offsets\":[0,%zu]}}",
                   dtype, bytes);
    const size_t size = make_file(file_bytes, strlen(header), header, strlen(header), bytes);
    store_le(file_bytes + size - bytes, bits, bytes);
    write_file(file_bytes, size);
    assert_int_equal(safetensors_open(path, &file), PTO_OK);
    assert_int_equal(read_as(file, "t", 1, (int64_t[]){1}, &value), PTO_OK);
    safetensors_close(&file);
    return value;
}

/* What the dtypes mean, against values worked out by hand. */
static void test_conversions(void **state)
{
    (void)state;
    static const struct {
        uint32_t half;
        float value;
    } halves[] = {{0x0000, 0.0f},          {0x3C00, 1.0f},           {0xC000, -2.0f},
                  {0x7BFF, 65504.0f},      {0x0400, 0x1p-14f},       {0x0001, 0x1p-24f},
                  {0x83FF, -0x1.ff8p-15f}, {0x3555, 0.333251953125f}};
    for (size_t i = 0; i < sizeof halves / sizeof *halves; i++) {
        assert_true(converted("F16", 2, halves[i].half) == halves[i].value);
    }
    const float negative_zero = converted("F16", 2, 0x8000), infinite = converted("F16", 2, 0xFC00),
                nan = converted("F16", 2, 0x7E00);
    assert_true(negative_zero == 0 && 1 / negative_zero < 0);
    assert_true(infinite < -3e38f && infinite - infinite != 0);
    assert_true(nan != nan);
    const double pi = 3.141592653589793;
    uint64_t bits;
    memcpy(&bits, &pi, sizeof bits);
    assert_true(converted("F64", 8, bits) == (float)pi);
    assert_true(converted("BF16", 2, 0xBFC0) == -1.5f);
    assert_true(converted("F32", 4, 0xBFC00000) == -1.5f);
}

/* What is saved comes back, bit for bit; larger than a chunk, and not a multiple of one. */
static void test_round_trip(void **state)
{
    (void)state;
    enum { MANY = 20011 };
    static float many[MANY], few[6] = {1, -2, 3.5f, 0, 1e-40f, 1e38f}, got[MANY];
    test_rng rng = test_rng_make(test_seed());
    for (size_t i = 0; i < MANY; i++) {
        many[i] = (float)test_between(&rng, -1000000, 1000000) / 7;
    }
    pto_tensor turned;
    safetensor_source sources[] = {
        {"few", over(few, 2, (int64_t[]){2, 3})},
        {"many", over(many, 1, (int64_t[]){MANY})},
        {"none", over(few, 2, (int64_t[]){0, 3})},
        {"turned", over(few, 2, (int64_t[]){2, 3})},
    };
    assert_int_equal(pto_tensor_transpose(&sources[3].tensor, 0, 1, &sources[3].tensor), PTO_OK);
    assert_int_equal(safetensors_save(path, sources, 4), PTO_OK);
    safetensors *file = NULL;
    assert_int_equal(safetensors_open(path, &file), PTO_OK);
    struct stat about;
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal((about.st_size - (MANY + 6 + 6) * 4) % 8, 0); /* data is aligned */
    assert_int_equal(safetensors_count(file), 4);
    for (size_t i = 0; i < 3; i++) {
        const pto_tensor *t = &sources[i].tensor;
        assert_int_equal(read_as(file, sources[i].name, t->ndim, t->shape, got), PTO_OK);
        assert_memory_equal(got, t->storage, (size_t)pto_tensor_numel(t) * sizeof(float));
    }
    /* Views on both sides: turned in the file, and turned back on the way in. */
    assert_int_equal(read_as(file, "turned", 2, (int64_t[]){3, 2}, got), PTO_OK);
    for (size_t i = 0; i < 6; i++) {
        assert_true(got[i] == few[i % 2 * 3 + i / 2]);
    }
    turned = over(got, 2, (int64_t[]){2, 3});
    assert_int_equal(pto_tensor_transpose(&turned, 0, 1, &turned), PTO_OK);
    assert_int_equal(safetensors_read(file, "turned", &turned), PTO_OK);
    assert_memory_equal(got, few, sizeof few);
    safetensors_close(&file);

    PTO_IGNORE(pto_fail(PTO_OK, "stale"));
    assert_int_equal(safetensors_save("/nonexistent/f", sources, 4), PTO_SYSTEM);
    assert_non_null(strstr(pto_error_detail(), "/nonexistent/f"));
    assert_int_equal(safetensors_save("/dev/null", sources, 4), PTO_SYSTEM);
    assert_non_null(strstr(pto_error_detail(), "not a regular file"));
    /* What could not be written whole is an error, and does not stay; what was there does. */
    struct rlimit old, none;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    none = old;
    none.rlim_cur = 1000;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    const pto_status status = safetensors_save(path, sources, 4);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    (void)signal(SIGXFSZ, handler);
    assert_int_equal(status, PTO_SYSTEM);
    assert_non_null(strstr(pto_error_detail(), path));
    assert_int_equal(access(path, F_OK), 0);
    char part[sizeof path + 8];
    snprintf(part, sizeof part, "%s.part", path);
    assert_int_equal(access(part, F_OK), -1);
}

/* ---- Bad files ------------------------------------------------------------------------------- */

/* Cut anywhere, a file is refused: inside of the length, the header or the data. */
static void test_truncated(void **state)
{
    (void)state;
    unsigned char bytes[1024];
    const size_t size = make_file(bytes, strlen(HEADER), HEADER, strlen(HEADER), 34);
    for (size_t cut = 0; cut < size; cut++) {
        write_file(bytes, cut);
        expect_refused(cut < 8                    ? "too short"
                       : cut < 8 + strlen(HEADER) ? "bytes after its length"
                                                  : "bytes of data",
                       "truncated");
    }
}

/* The same with a length that fits: then the text ends too early. */
static void test_truncated_header(void **state)
{
    (void)state;
    unsigned char bytes[1024];
    for (size_t cut = 0; cut < strlen(HEADER); cut++) {
        write_file(bytes, make_file(bytes, cut, HEADER, cut, 34));
        expect_refused("", "truncated header");
    }
}

#define TENSOR(fields) "{\"t\":{" fields "}}"
#define ENTRY(dtype, shape, offsets)                                                               \
    "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static void test_lies(void **state)
{
    (void)state;
    static const struct {
        const char *header, *words;
        size_t data;
    } lies[] = {
        /* Offsets. */
        {"{\"t\":" ENTRY("F32", "[2]", "[0,16]") "}", "bytes 0 to 16, and the file has 8", 8},
        {"{\"t\":" ENTRY("F32", "[2]", "[8,0]") "}", "bytes 8 to 0", 8},
        {"{\"t\":" ENTRY("F32", "[2]", "[4,12]") "}", "there is a gap", 12},
        {"{\"t\":" ENTRY("F32", "[2]", "[0,8]") "}", "the file has 9", 9},
        {"{\"t\":" ENTRY("F32", "[2]", "[0,8]") ",\"u\":" ENTRY("F32", "[2]", "[4,12]") "}",
         "tensor u begins at byte 4 of the data, t ends at 8: they overlap", 12},
        {"{\"t\":" ENTRY("F32", "[2]", "[0,8]") ",\"u\":" ENTRY("F32", "[2]", "[0,8]") "}",
         "they overlap", 8},
        {"{\"t\":" ENTRY("F32", "[2]", "[0,8]") ",\"u\":" ENTRY("F32", "[1]", "[12,16]") "}",
         "there is a gap", 16},
        {"{\"t\":" ENTRY("F32", "[2]", "[0]") "}", "two integers", 8},
        {"{\"t\":" ENTRY("F32", "[2]", "[]") "}", "two integers", 8},
        {"{\"t\":" ENTRY("F32", "[2]", "[0,8,8]") "}", "two integers", 8},
        {"{\"t\":" ENTRY("F32", "[2]", "[0,9223372036854775807]") "}", "the file has 8", 8},
        {"{\"t\":" ENTRY("F32", "[2]", "[0,9223372036854775808]") "}", "too big integer", 8},
        {"{\"t\":" ENTRY("F32", "[2]", "[-8,0]") "}", "two integers", 8},
        {"{\"t\":" ENTRY("F32", "[2]", "[0,8.0]") "}", "two integers", 8},
        {"{\"t\":" ENTRY("F32", "[2]", "[0,8e0]") "}", "two integers", 8},
        {"{\"t\":" ENTRY("F32", "[2]", "[0,\"8\"]") "}", "two integers", 8},
        /* Shapes and dtypes. */
        {"{\"t\":" ENTRY("F32", "[3]", "[0,8]") "}", "takes 12 bytes of F32, its offsets have 8",
         8},
        {"{\"t\":" ENTRY("F32", "[]", "[0,8]") "}", "takes 4 bytes", 8},
        {"{\"t\":" ENTRY("F32", "[0]", "[0,8]") "}", "takes 0 bytes", 8},
        {"{\"t\":" ENTRY("F32", "[4611686018427387905]", "[0,4]") "}", "more than 2^64", 4},
        {"{\"t\":" ENTRY("F32", "[4294967296,4294967296]", "[0,0]") "}", "more than 2^64", 0},
        {"{\"t\":" ENTRY("U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]") "}", "at most 8 integers", 1},
        {"{\"t\":" ENTRY("F32", "2", "[0,8]") "}", "at most 8 integers", 8},
        {"{\"t\":" ENTRY("F32", "[[2]]", "[0,8]") "}", "at most 8 integers", 8},
        {"{\"t\":" ENTRY("F31", "[2]", "[0,8]") "}", "tensor t: there is no dtype 'F31'", 8},
        {"{\"t\":" ENTRY("f32", "[2]", "[0,8]") "}", "there is no dtype", 8},
        {"{\"t\":" ENTRY("", "[2]", "[0,8]") "}", "there is no dtype", 8},
        {"{\"t\":" ENTRY("\\u001b[31m", "[2]", "[0,8]") "}", "control character", 8},
        {TENSOR("\"dtype\":32,\"shape\":[2],\"data_offsets\":[0,8]"), "dtype must be a string", 8},
        /* Fields and names. */
        {TENSOR("\"shape\":[2],\"data_offsets\":[0,8]"), "tensor t has no dtype", 8},
        {TENSOR("\"dtype\":\"F32\",\"data_offsets\":[0,8]"), "tensor t has no shape", 8},
        {TENSOR("\"dtype\":\"F32\",\"shape\":[2]"), "tensor t has no data_offsets", 8},
        {TENSOR(""), "tensor t has no dtype", 0},
        {TENSOR("\"dtype\":\"F32\",\"shape\":[2],\"shape\":[2],\"data_offsets\":[0,8]"),
         "duplicate object key", 8},
        {TENSOR("\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"x\":1"), "a field", 8},
        {"{\"t\":" ENTRY("F32", "[2]", "[0,8]") ",\"t\":" ENTRY("F32", "[2]", "[8,16]") "}",
         "duplicate object key", 16},
        {"{\"t\":" ENTRY("F32", "[2]", "[0,8]") ",\"\\u0074\":" ENTRY("F32", "[2]", "[8,16]") "}",
         "duplicate object key", 16},
        {"{\"\\u001b[2J\":" ENTRY("F32", "[2]", "[0,8]") "}", "control character", 8},
        {"{\"a\\u0000b\":" ENTRY("F32", "[2]", "[0,8]") "}", "NUL", 8},
        {"{\"\xff\":" ENTRY("F32", "[2]", "[0,8]") "}", "decode", 8},
        /* Metadata. */
        {"{\"__metadata__\":{\"a\":1}}", "__metadata__ must be", 0},
        {"{\"__metadata__\":{\"a\":{}}}", "__metadata__ must be", 0},
        {"{\"__metadata__\":[]}", "__metadata__ must be", 0},
        /* Everything else. */
        {"", "begins with '{'", 0},
        {" {}", "begins with '{'", 0},
        {"[]", "begins with '{'", 0},
        {"{}{}", "end of file expected", 0},
        {"{\"t\":null}", "tensor t: expected {", 0},
        {"{\"t", "byte 3 of 3: premature end", 0},
    };
    unsigned char bytes[1024];
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        const char *header = lies[i].header;
        write_file(bytes, make_file(bytes, strlen(header), header, strlen(header), lies[i].data));
        expect_refused(lies[i].words, header);
    }
}

static void test_lengths(void **state)
{
    (void)state;
    static const uint64_t said[] = {
        3, 1000, INT64_MAX, (uint64_t)INT64_MAX + 1, UINT64_MAX - 7, UINT64_MAX};
    unsigned char bytes[64];
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        write_file(bytes, make_file(bytes, said[i], "{}", 2, 0));
        expect_refused("bytes after its length", "length");
    }
    /* A header that is there, and longer than any may be; the file has a hole, so it costs
     * nothing. */
    write_file(bytes, make_file(bytes, SAFETENSORS_MAX_HEADER + 1, "{}", 2, 0));
    assert_int_equal(truncate(path, (off_t)SAFETENSORS_MAX_HEADER + 9), 0);
    expect_refused("at most 100000000 are read", "length");
}

/* A message goes to a terminal: nothing in a file may control it. */
static void test_no_control(void **state)
{
    (void)state;
    static const char *const headers[] = {"{\x1b[31m}", "{\"\x1b[31m\":1}", "{\"a\":\x7f}"};
    unsigned char bytes[64];
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        const size_t length = strlen(headers[i]);
        write_file(bytes, make_file(bytes, length, headers[i], length, 0));
        expect_refused("header, byte", headers[i]);
        for (const char *c = pto_error_detail(); *c; c++) {
            assert_true((unsigned char)*c >= 0x20 && *c != 0x7F);
        }
    }
}

/* Brackets as deep as they like: the stack does not overflow. */
static void test_deep(void **state)
{
    (void)state;
    enum { DEEP = 1 << 20 };
    static const char *const kinds[] = {"{\"a\":", "[", "{\"t\":{\"shape\":["};
    char *text = malloc(16 + DEEP);
    assert_non_null(text);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        const size_t length = strlen(kinds[k]), start = k == 2 ? length : 0;
        size_t at = 0;
        for (; at < start; at++) {
            text[8 + at] = kinds[k][at];
        }
        for (; at < DEEP; at++) {
            text[8 + at] = k == 2 ? '[' : kinds[k][at % length];
        }
        store_le((unsigned char *)text, DEEP, 8);
        write_file(text, 8 + DEEP);
        expect_refused("", kinds[k]);
    }
    free(text);
}

static void test_not_a_file(void **state)
{
    (void)state;
    safetensors *file = NULL;
    assert_int_equal(safetensors_open(folder, &file), PTO_SYSTEM);
    assert_non_null(strstr(pto_error_detail(), "not a regular file"));
    assert_int_equal(safetensors_open("/nonexistent/f", &file), PTO_SYSTEM);
    assert_non_null(strstr(pto_error_detail(), "/nonexistent/f"));
    (void)unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    expect_refused("not a regular file", "a pipe without a writer");
    assert_int_equal(unlink(path), 0);
    write_file("", 0);
    expect_refused("too short", "an empty file");
}

/* A tensor that is not what the model needs. */
static void test_mismatch(void **state)
{
    (void)state;
    safetensors *file = NULL;
    float to[6];
    open_header(HEADER, 34, &file);
    PTO_IGNORE(pto_fail(PTO_OK, "stale"));
    assert_int_equal(read_as(file, "c", 1, (int64_t[]){1}, to), PTO_BAD_PARAM);
    assert_non_null(strstr(pto_error_detail(), "tensor c is missing"));
    assert_int_equal(read_as(file, "b", 2, (int64_t[]){3, 2}, to), PTO_BAD_SHAPE);
    assert_non_null(
        strstr(pto_error_detail(), "tensor b has shape [2, 3], the model needs [3, 2]"));
    assert_int_equal(read_as(file, "b", 1, (int64_t[]){6}, to), PTO_BAD_SHAPE);
    assert_int_equal(read_as(file, "none", 1, (int64_t[]){5}, to), PTO_BAD_SHAPE);
    assert_int_equal(read_as(file, "none", 2, (int64_t[]){5, 0}, to), PTO_BAD_DTYPE);
    assert_non_null(strstr(pto_error_detail(), "tensor none is I64"));
    assert_int_equal(truncate(path, 200), 0);
    assert_int_equal(read_as(file, "b", 2, (int64_t[]){2, 3}, to), PTO_SYSTEM);
    assert_non_null(strstr(pto_error_detail(), "became shorter"));
    safetensors_close(&file);
}

static void test_wrong_dtypes(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint64_t bytes;
    } dtypes[] = {{"I64", 8}, {"I32", 4}, {"I16", 2},  {"I8", 1},      {"U64", 8},    {"U32", 4},
                  {"U16", 2}, {"U8", 1},  {"BOOL", 1}, {"F8_E5M2", 1}, {"F8_E4M3", 1}};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        char header[128];
        float to[1];
        safetensors *file = NULL;
        const uint64_t bytes = dtypes[i].bytes;
        (void)snprintf(header, sizeof header, "{\"t\":" ENTRY("%s", "[1]", "[0,%" PRIu64 "]") "}",
                       dtypes[i].name, bytes);
        open_header(header, bytes, &file);
        assert_int_equal(read_as(file, "t", 1, (int64_t[]){1}, to), PTO_BAD_DTYPE);
        assert_non_null(strstr(pto_error_detail(), dtypes[i].name));
        safetensors_close(&file);
    }
}

/* Bytes of a good file changed at random: whatever is accepted keeps its promises. */
static void test_random_damage(void **state)
{
    (void)state;
    unsigned char good[1024], bytes[1024];
    const size_t size = make_file(good, strlen(HEADER), HEADER, strlen(HEADER), 34);
    test_rng rng = test_rng_make(test_seed());
    uint64_t accepted = 0, refused = 0;
    for (uint64_t round = test_effort(2000); round > 0; round--) {
        memcpy(bytes, good, size);
        for (int64_t n = test_between(&rng, 1, 3); n > 0; n--) {
            static const char signs[] = "{}[]\",:\\0123456789 -\xff";
            bytes[test_between(&rng, 0, (int64_t)size - 1)] = (unsigned char)
                signs[test_between(&rng, 0, sizeof signs - 2)];
        }
        write_file(bytes, size);
        safetensors *file = NULL;
        if (safetensors_open(path, &file)) {
            refused++;
            continue;
        }
        accepted++;
        uint64_t end = 0;
        for (size_t i = 0; i < safetensors_count(file); i++) {
            const safetensor *t = safetensors_at(file, i);
            assert_true(t->begin <= t->end && t->end <= size);
            end += t->end - t->begin;
        }
        uint64_t said = 0; /* the length of the header */
        memcpy(&said, bytes, 8);
        assert_int_equal(8 + said + end, size);
        safetensors_close(&file);
    }
    assert_true(accepted + refused == test_effort(2000) && refused > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads),
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_conversions),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_truncated_header),
        cmocka_unit_test(test_lies),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_no_control),
        cmocka_unit_test(test_deep),
        cmocka_unit_test(test_not_a_file),
        cmocka_unit_test(test_mismatch),
        cmocka_unit_test(test_wrong_dtypes),
        cmocka_unit_test(test_random_damage),
    };
    return cmocka_run_group_tests_name("safetensors", tests, setup, teardown);
}
