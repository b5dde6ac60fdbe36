/* safetensors.c - reads and writes weights in the safetensors format. jansson parses the header,
 * which is JSON; whether it describes the file is checked here.
 */
#include "safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#if defined(WORKLOADS_JANSSON)
#include <jansson.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct safetensors {
    char *path;
    void *header; /* parsed; names and dtypes point into it */
    int fd;
    uint64_t data_at, data_bytes; /* position and size of the data in the file */
    safetensor *tensors;          /* sorted by name once the file is open */
    size_t count, room;
};

/* ---- Dtypes ------------------------------------------------------------------------------- */

/* All dtypes of the format, because the sizes of unused tensors are checked, too. */
static const struct dtype {
    const char *name;
    uint64_t bytes;
} dtypes[] = {{"F32", 4}, {"BF16", 2}, {"F16", 2},  {"F64", 8},     {"I64", 8},
              {"I32", 4}, {"I16", 2},  {"I8", 1},   {"U64", 8},     {"U32", 4},
              {"U16", 2}, {"U8", 1},   {"BOOL", 1}, {"F8_E5M2", 1}, {"F8_E4M3", 1}};

static const struct dtype *find_dtype(const char *name)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        if (!strcmp(dtypes[i].name, name)) {
            return &dtypes[i];
        }
    }
    return NULL;
}

static uint64_t load_le(const unsigned char *from, size_t bytes)
{
    uint64_t value = 0;
    for (size_t i = bytes; i-- > 0;) {
        value = value << 8 | from[i];
    }
    return value;
}

static float float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static float float_of_half(uint32_t half)
{
    const uint32_t sign = (half & 0x8000) << 16, exponent = half >> 10 & 31, fraction = half & 1023;
    if (exponent == 0) { /* zero and subnormals: fraction * 2^-24, exact in a float */
        return float_of_bits(sign) + (sign ? -1.0f : 1.0f) * (float)fraction * 0x1p-24f;
    }
    const uint32_t wide = exponent == 31 ? 255 : exponent + 127 - 15;
    return float_of_bits(sign | wide << 23 | fraction << 13);
}

static float float_at(const struct dtype *dtype, const unsigned char *from)
{
    const uint64_t bits = load_le(from, dtype->bytes);
    if (dtype->bytes == 4) {
        return float_of_bits((uint32_t)bits);
    }
    if (dtype->bytes == 8) {
        double value;
        memcpy(&value, &bits, sizeof value);
        return (float)value;
    }
    return dtype->name[0] == 'B' ? float_of_bits((uint32_t)bits << 16)
                                 : float_of_half((uint32_t)bits);
}

/* ---- The header ------------------------------------------------------------ */

#if defined(WORKLOADS_JANSSON)

const char *safetensors_json(void)
{
    return "jansson " JANSSON_VERSION;
}

/* Shape, dtype and offsets must agree, and lie inside the file. */
static pto_status check_tensor(const safetensors *file, const safetensor *t)
{
    const struct dtype *dtype = find_dtype(t->dtype);
    if (!dtype) {
        return pto_fail(PTO_BAD_DTYPE, "%s: tensor %s: there is no dtype '%.20s'", file->path,
                        t->name, t->dtype);
    }
    if (t->begin > t->end || t->end > file->data_bytes) {
        return pto_fail(PTO_OUT_OF_BOUNDS,
                        "%s: tensor %s: its data is bytes %" PRIu64 " to %" PRIu64
                        ", and the file has %" PRIu64 " bytes of data",
                        file->path, t->name, t->begin, t->end, file->data_bytes);
    }
    uint64_t bytes = dtype->bytes;
    bool overflow = false, empty = false;
    for (int32_t d = 0; d < t->ndim; d++) {
        empty = empty || !t->shape[d];
        overflow = overflow || __builtin_mul_overflow(bytes, (uint64_t)t->shape[d], &bytes);
    }
    if (empty ? t->begin != t->end : overflow || bytes != t->end - t->begin) {
        char needs[32] = "more than 2^64";
        if (empty || !overflow) {
            (void)snprintf(needs, sizeof needs, "%" PRIu64, empty ? 0 : bytes);
        }
        return pto_fail(PTO_BAD_SHAPE,
                        "%s: tensor %s: its shape takes %s bytes of %s, its offsets have %" PRIu64,
                        file->path, t->name, needs, t->dtype, t->end - t->begin);
    }
    return PTO_OK;
}

static pto_status add_tensor(safetensors *file, const safetensor *t)
{
    if (file->count == file->room) {
        const size_t room = file->room ? file->room * 2 : 64;
        safetensor *grown = realloc(file->tensors, room * sizeof *grown);
        if (!grown) {
            return pto_fail(PTO_OUT_OF_MEMORY, "%s: no memory for %zu tensors", file->path, room);
        }
        file->tensors = grown;
        file->room = room;
    }
    file->tensors[file->count++] = *t;
    return PTO_OK;
}

/* Control characters are refused, because names appear in messages on terminals. */
static bool has_control(const char *string)
{
    for (; *string; string++) {
        if ((unsigned char)*string < 0x20 || *string == 0x7F) {
            return true;
        }
    }
    return false;
}

/* Integers from 0 to INT64_MAX. jansson has refused larger ones. */
static bool get_numbers(const json_t *list, int64_t *numbers, size_t most, size_t *count)
{
    *count = json_array_size(list); /* 0 if it is no array */
    if (!json_is_array(list) || *count > most) {
        return false;
    }
    for (size_t i = 0; i < *count; i++) {
        const json_t *number = json_array_get(list, i);
        numbers[i] = json_integer_value(number);
        if (!json_is_integer(number) || numbers[i] < 0) {
            return false;
        }
    }
    return true;
}

static pto_status fail_tensor(const safetensors *file, const char *name, const char *what)
{
    return pto_fail(PTO_BAD_PARAM, "%s: tensor %s: %s", file->path, name, what);
}

static pto_status get_tensor(const safetensors *file, const char *name, const json_t *from,
                             safetensor *t)
{
    const json_t *dtype = json_object_get(from, "dtype"), *shape = json_object_get(from, "shape");
    const json_t *place = json_object_get(from, "data_offsets");
    int64_t offsets[2];
    size_t ndim, count;
    if (!json_is_object(from)) {
        return fail_tensor(file, name, "expected {\"dtype\": ..., \"shape\": ..., ...}");
    }
    if (!dtype || !shape || !place) {
        return pto_fail(PTO_BAD_PARAM, "%s: tensor %s has no %s", file->path, name,
                        !dtype   ? "dtype"
                        : !shape ? "shape"
                                 : "data_offsets");
    }
    *t = (safetensor){.name = name, .dtype = json_string_value(dtype)};
    if (json_object_size(from) > 3) {
        return fail_tensor(file, name, "a field other than dtype, shape and data_offsets");
    }
    if (!t->dtype || has_control(t->dtype)) {
        return fail_tensor(file, name, "dtype must be a string without control characters");
    }
    if (!get_numbers(shape, t->shape, PTO_MAX_DIMS, &ndim)) {
        return pto_fail(PTO_BAD_PARAM,
                        "%s: tensor %s: shape must be at most %d integers that are not negative",
                        file->path, name, PTO_MAX_DIMS);
    }
    if (!get_numbers(place, offsets, 2, &count) || count != 2) {
        return fail_tensor(file, name, "data_offsets must be two integers that are not negative");
    }
    t->ndim = (int32_t)ndim;
    t->begin = (uint64_t)offsets[0];
    t->end = (uint64_t)offsets[1];
    return check_tensor(file, t);
}

/* It is not used, but must have its form: texts with names. */
static pto_status check_metadata(const safetensors *file, json_t *metadata)
{
    const char *key;
    json_t *value;
    bool good = json_is_object(metadata);
    json_object_foreach(metadata, key, value)
    {
        good = good && json_is_string(value);
    }
    return good ? PTO_OK
                : pto_fail(PTO_BAD_PARAM, "%s: __metadata__ must be {\"name\": \"text\", ...}",
                           file->path);
}

/* The words of jansson, which may quote the file. */
static pto_status fail_json(const safetensors *file, size_t size, const json_error_t *error)
{
    char words[JSON_ERROR_TEXT_LENGTH];
    (void)snprintf(words, sizeof words, "%s", error->text);
    for (char *c = words; *c; c++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7F) {
            *c = '?';
        }
    }
    const bool memory = json_error_code(error) == json_error_out_of_memory;
    return pto_fail(memory ? PTO_OUT_OF_MEMORY : PTO_BAD_PARAM, "%s: header, byte %d of %zu: %s",
                    file->path, error->position, size, words);
}

static pto_status parse_header(safetensors *file, const char *text, size_t size)
{
    const char *name;
    json_t *value;
    json_error_t error;
    if (!size || text[0] != '{') {
        return pto_fail(PTO_BAD_PARAM, "%s: header, byte 0 of %zu: a header begins with '{'",
                        file->path, size);
    }
    json_t *all = file->header = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
    if (!all) {
        return fail_json(file, size, &error);
    }
    json_object_foreach(all, name, value)
    {
        safetensor t;
        if (!strcmp(name, "__metadata__")) {
            PTO_TRY(check_metadata(file, value));
            continue;
        }
        if (has_control(name)) {
            return pto_fail(PTO_BAD_PARAM, "%s: the name of a tensor has a control character",
                            file->path);
        }
        PTO_TRY(get_tensor(file, name, value, &t));
        PTO_TRY(add_tensor(file, &t));
    }
    return PTO_OK;
}

static void free_header(void *header)
{
    json_decref(header);
}

#else

const char *safetensors_json(void)
{
    return "none: built without jansson (Debian: libjansson-dev), so decode reads no weights";
}

static pto_status parse_header(safetensors *file, const char *text, size_t size)
{
    (void)text;
    (void)size;
    return pto_fail(PTO_SYSTEM,
                    "%s: this program was built without jansson, which parses the header; install "
                    "it (Debian: libjansson-dev) and build again",
                    file->path);
}

static void free_header(void *header)
{
    (void)header;
}

#endif

/* ---- The file ----------------------------------------------------------------------------- */

static int by_place(const void *a, const void *b)
{
    const safetensor *x = a, *y = b;
    return x->begin != y->begin ? (x->begin > y->begin) - (x->begin < y->begin)
                                : (x->end > y->end) - (x->end < y->end);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const safetensor *)a)->name, ((const safetensor *)b)->name);
}

/* Every byte of the data belongs to exactly one tensor: no gaps, no overlaps, nothing left over. */
static pto_status check_places(safetensors *file)
{
    uint64_t end = 0;
    const char *before = "the start";
    if (file->count) {
        qsort(file->tensors, file->count, sizeof *file->tensors, by_place);
    }
    for (size_t i = 0; i < file->count; i++) {
        const safetensor *t = &file->tensors[i];
        if (t->begin != end) {
            return pto_fail(PTO_OUT_OF_BOUNDS,
                            "%s: tensor %s begins at byte %" PRIu64
                            " of the data, %s ends at %" PRIu64 ": %s",
                            file->path, t->name, t->begin, before, end,
                            t->begin < end ? "they overlap" : "there is a gap");
        }
        end = t->end;
        before = t->name;
    }
    if (end != file->data_bytes) {
        return pto_fail(PTO_OUT_OF_BOUNDS,
                        "%s: the tensors take %" PRIu64 " bytes, the file has %" PRIu64
                        " bytes of data",
                        file->path, end, file->data_bytes);
    }
    return PTO_OK;
}

static void sort_names(safetensors *file)
{
    if (file->count) {
        qsort(file->tensors, file->count, sizeof *file->tensors, by_name);
    }
}

/* Reads `bytes` bytes at `at`. Fails if the file has become shorter. */
static pto_status read_bytes(const safetensors *file, uint64_t at, uint64_t bytes, void *to)
{
    char *next = to;
    while (bytes) {
        const ssize_t got = pread(file->fd, next, bytes, (off_t)at);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return pto_fail(PTO_SYSTEM, "%s: cannot read byte %" PRIu64 ": %s", file->path, at,
                            got ? strerror(errno) : "the file became shorter");
        }
        next += got;
        at += (uint64_t)got;
        bytes -= (uint64_t)got;
    }
    return PTO_OK;
}

static pto_status read_header(safetensors *file, uint64_t file_bytes)
{
    unsigned char prefix[8];
    if (file_bytes < sizeof prefix) {
        return pto_fail(PTO_OUT_OF_BOUNDS,
                        "%s: %" PRIu64
                        " bytes: too short for the length of a header, which takes 8",
                        file->path, file_bytes);
    }
    PTO_TRY(read_bytes(file, 0, sizeof prefix, prefix));
    const uint64_t size = load_le(prefix, sizeof prefix), most = file_bytes - sizeof prefix;
    if (size > most) {
        return pto_fail(PTO_OUT_OF_BOUNDS,
                        "%s: a header of %" PRIu64 " bytes, and the file has %" PRIu64
                        " bytes after its length: no safetensors file, or not all of it",
                        file->path, size, most);
    }
    if (size > SAFETENSORS_MAX_HEADER) {
        return pto_fail(PTO_OUT_OF_BOUNDS,
                        "%s: a header of %" PRIu64 " bytes; at most %" PRIu64 " are read",
                        file->path, size, SAFETENSORS_MAX_HEADER);
    }
    file->data_at = sizeof prefix + size;
    file->data_bytes = file_bytes - file->data_at;
    char *text = malloc(size ? size : 1);
    if (!text) {
        return pto_fail(PTO_OUT_OF_MEMORY, "%s: no memory for a header of %" PRIu64 " bytes",
                        file->path, size);
    }
    pto_status status = read_bytes(file, sizeof prefix, size, text);
    if (status == PTO_OK) {
        status = parse_header(file, text, size);
    }
    free(text);
    PTO_TRY(status);
    PTO_TRY(check_places(file));
    sort_names(file);
    return PTO_OK;
}

static pto_status open_file(safetensors *file)
{
    struct stat about;
    /* Do not wait for a writer if the name is a pipe. */
    file->fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file->fd < 0 || fstat(file->fd, &about)) {
        return pto_fail(PTO_SYSTEM, "%s: %s", file->path, strerror(errno));
    }
    if (!S_ISREG(about.st_mode)) {
        return pto_fail(PTO_SYSTEM, "%s: not a regular file", file->path);
    }
    return read_header(file, (uint64_t)about.st_size);
}

pto_status safetensors_open(const char *path, safetensors **file)
{
    safetensors *f = calloc(1, sizeof *f);
    if (f) {
        f->fd = -1;
        f->path = strdup(path);
    }
    if (!f || !f->path) {
        free(f);
        return pto_fail(PTO_OUT_OF_MEMORY, "%s: no memory to open it", path);
    }
    const pto_status status = open_file(f);
    if (status) {
        safetensors_close(&f);
    }
    *file = f;
    return status;
}

void safetensors_close(safetensors **file)
{
    safetensors *f = *file;
    if (f) {
        if (f->fd >= 0) {
            (void)close(f->fd);
        }
        free(f->tensors);
        free_header(f->header);
        free(f->path);
        free(f);
    }
    *file = NULL;
}

size_t safetensors_count(const safetensors *file)
{
    return file->count;
}

const safetensor *safetensors_at(const safetensors *file, size_t index)
{
    return index < file->count ? &file->tensors[index] : NULL;
}

const safetensor *safetensors_find(const safetensors *file, const char *name)
{
    const safetensor key = {.name = name};
    return file->count ? bsearch(&key, file->tensors, file->count, sizeof *file->tensors, by_name)
                       : NULL;
}

/* "[2, 3]" */
static const char *shape_text(int32_t ndim, const int64_t *shape, char *text, size_t size)
{
    size_t at = (size_t)snprintf(text, size, "[");
    for (int32_t d = 0; d < ndim && at < size; d++) {
        at += (size_t)snprintf(text + at, size - at, "%s%" PRId64, d ? ", " : "", shape[d]);
    }
    if (at < size) {
        (void)snprintf(text + at, size - at, "]");
    }
    return text;
}

/* Walks over the elements of a view, last dim fastest. */
typedef struct walk {
    const pto_tensor *tensor;
    float *at;
    int64_t index[PTO_MAX_DIMS];
} walk;

static walk walk_begin(const pto_tensor *t)
{
    return (walk){.tensor = t, .at = (float *)t->storage + t->offset};
}

static float *walk_next(walk *w)
{
    float *here = w->at;
    for (int32_t d = w->tensor->ndim; d-- > 0;) {
        w->at += w->tensor->strides[d];
        if (++w->index[d] < w->tensor->shape[d]) {
            break;
        }
        w->at -= w->index[d] * w->tensor->strides[d];
        w->index[d] = 0;
    }
    return here;
}

pto_status safetensors_read(safetensors *file, const char *name, const pto_tensor *to)
{
    const safetensor *t = safetensors_find(file, name);
    if (!t) {
        return pto_fail(PTO_BAD_PARAM, "%s: tensor %s is missing", file->path, name);
    }
    if (t->ndim != to->ndim || memcmp(t->shape, to->shape, sizeof t->shape) != 0) {
        char has[200], wanted[200];
        return pto_fail(PTO_BAD_SHAPE, "%s: tensor %s has shape %s, the model needs %s", file->path,
                        name, shape_text(t->ndim, t->shape, has, sizeof has),
                        shape_text(to->ndim, to->shape, wanted, sizeof wanted));
    }
    const struct dtype *dtype = find_dtype(t->dtype);
    if (!strchr("FB", t->dtype[0]) || dtype->bytes == 1) {
        return pto_fail(PTO_BAD_DTYPE, "%s: tensor %s is %s; F32, F16, BF16 and F64 can be read",
                        file->path, name, t->dtype);
    }
    unsigned char chunk[1 << 15]; /* divisible by every element size */
    walk w = walk_begin(to);
    for (uint64_t at = t->begin; at < t->end;) {
        const uint64_t bytes = t->end - at < sizeof chunk ? t->end - at : sizeof chunk;
        PTO_TRY(read_bytes(file, file->data_at + at, bytes, chunk));
        for (uint64_t i = 0; i < bytes; i += dtype->bytes) {
            *walk_next(&w) = float_at(dtype, chunk + i);
        }
        at += bytes;
    }
    return PTO_OK;
}

/* ---- Writing ------------------------------------------------------------------------------- */

/* Returns the length of the header. With `out` it is also written. */
static uint64_t put_header(FILE *out, const safetensor_source *tensors, size_t count)
{
    uint64_t size = 2, at = 0; /* the braces */
    if (out) {
        (void)fputc('{', out);
    }
    for (size_t i = 0; i < count; i++) {
        char shape[200], entry[600];
        const uint64_t end = at + (uint64_t)pto_tensor_numel(&tensors[i].tensor) * sizeof(float);
        const int length = snprintf(
            entry, sizeof entry,
            "%s\"%.200s\":{\"dtype\":\"F32\",\"shape\":%s,\"data_offsets\":[%" PRIu64 ",%" PRIu64
            "]}",
            i ? "," : "", tensors[i].name,
            shape_text(tensors[i].tensor.ndim, tensors[i].tensor.shape, shape, sizeof shape), at,
            end);
        if (out) {
            (void)fputs(entry, out);
        }
        size += (uint64_t)length;
        at = end;
    }
    if (out) {
        (void)fputc('}', out);
    }
    return size;
}

static void store_le(unsigned char *to, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        to[i] = (unsigned char)(value >> 8 * i);
    }
}

static void put_floats(FILE *out, const pto_tensor *t)
{
    unsigned char chunk[1 << 15];
    walk w = walk_begin(t);
    size_t used = 0;
    for (int64_t left = pto_tensor_numel(t); left > 0; left--) {
        uint32_t bits;
        memcpy(&bits, walk_next(&w), sizeof bits);
        store_le(chunk + used, bits, sizeof bits);
        used += sizeof bits;
        if (used == sizeof chunk || left == 1) {
            (void)fwrite(chunk, 1, used, out);
            used = 0;
        }
    }
}

static void put_all(FILE *out, const safetensor_source *tensors, size_t count)
{
    const uint64_t size = put_header(NULL, tensors, count), padding = (8 - size % 8) % 8;
    unsigned char prefix[8];
    store_le(prefix, size + padding, sizeof prefix);
    (void)fwrite(prefix, 1, sizeof prefix, out);
    (void)put_header(out, tensors, count);
    (void)fprintf(out, "%*s", (int)padding, "");
    for (size_t i = 0; i < count; i++) {
        put_floats(out, &tensors[i].tensor);
    }
}

/* Writes to a temporary file and renames it when it is complete, so an existing file stays until
 * then. */
pto_status safetensors_save(const char *path, const safetensor_source *tensors, size_t count)
{
    struct stat there;
    char part[4096];
    const int length = snprintf(part, sizeof part, "%s.part", path);
    if (length < 0 || (size_t)length >= sizeof part) {
        return pto_fail(PTO_SYSTEM, "%s: the name is too long", path);
    }
    if (stat(path, &there) == 0 && !S_ISREG(there.st_mode)) {
        return pto_fail(PTO_SYSTEM, "%s: it is there, and is not a regular file", path);
    }
    FILE *out = fopen(part, "wb");
    if (!out) {
        return pto_fail(PTO_SYSTEM, "%s: %s", part, strerror(errno));
    }
    put_all(out, tensors, count);
    /* The stream remembers earlier errors. */
    const bool failed = ferror(out) != 0;
    if (fclose(out) || failed || rename(part, path)) {
        const int error = errno;
        (void)remove(part);
        return pto_fail(PTO_SYSTEM, "%s: cannot write it whole: %s", path, strerror(error));
    }
    return PTO_OK;
}
