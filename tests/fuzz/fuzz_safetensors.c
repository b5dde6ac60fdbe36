/* fuzz_safetensors.c - the reader of weights (examples/workloads/safetensors.h) trusts no file.
 *
 * The first byte of a case is its kind. The rest is a file or only a header; then its length and
 * data are generated, so that a change of the header changes nothing else. A whole file may contain
 * any bytes except the separator.
 */
#include "fuzz.h"

#include <unistd.h>

#include "base/os.h"
#include "safetensors.h"

#define MOST_FLOATS 65536

static void put(int file, const void *bytes, size_t size)
{
    if (write(file, bytes, size) != (ssize_t)size) {
        fuzz_wrong("cannot write the file");
    }
}

/* Byte `at` of the generated data. */
static uint8_t data_at(uint64_t at)
{
    return (uint8_t)(at * 37 + 11);
}

static void put_data(int file, uint64_t bytes)
{
    uint8_t chunk[4096];
    for (uint64_t at = 0; at < bytes;) {
        const uint64_t count = bytes - at < sizeof chunk ? bytes - at : sizeof chunk;
        for (uint64_t i = 0; i < count; i++) {
            chunk[i] = data_at(at + i);
        }
        put(file, chunk, count);
        at += count;
    }
}

static void read_tensor(safetensors *file, const safetensor *t, bool supplied)
{
    uint64_t count = 1;
    for (int32_t d = 0; d < t->ndim; d++) {
        if (t->shape[d] < 0 || (t->shape[d] && count > MOST_FLOATS / (uint64_t)t->shape[d])) {
            return;
        }
        count *= (uint64_t)t->shape[d];
    }
    pto_tensor to;
    float *floats = malloc(count ? count * sizeof *floats : 1); /* not one more */
    if (!floats || pto_tensor_init(&to, floats, count * sizeof *floats, PTO_FLOAT32, t->ndim,
                                   t->shape, NULL, 0) != PTO_OK) {
        fuzz_wrong("tensor %s: %s", t->name, pto_error_detail());
    }
    const pto_status status = safetensors_read(file, t->name, &to);
    if (status == PTO_OK && supplied && !strcmp(t->dtype, "F32")) {
        for (uint64_t i = 0; i < count * sizeof *floats; i++) {
            if (((const uint8_t *)floats)[i] != data_at(t->begin + i)) {
                fuzz_wrong("byte %llu of tensor %s is another", (unsigned long long)i, t->name);
            }
        }
    }
    free(floats);
}

static void read_all(safetensors *file, bool supplied)
{
    uint64_t end = 0;
    for (size_t i = 0; i < safetensors_count(file); i++) {
        const safetensor *t = safetensors_at(file, i);
        if (t->ndim < 0 || t->ndim > PTO_MAX_DIMS || t->begin > t->end ||
            safetensors_find(file, t->name) != t) {
            fuzz_wrong("tensor %zu, %s, is not sound or not found", i, t->name);
        }
        end = t->end > end ? t->end : end;
        read_tensor(file, t, supplied);
    }
    if (end > UINT32_MAX) {
        fuzz_wrong("data up to byte %llu in a small file", (unsigned long long)end);
    }
}

static void open_case(const uint8_t *data, size_t size)
{
    static int memory = -1;
    char path[64];
    uint8_t prefix[8] = {0};
    safetensors *file = NULL;
    if (memory < 0) {
        assert_int_equal(ptoi_os_file_create("fuzz", 1, &memory), PTO_OK);
    }
    if (ftruncate(memory, 0) || lseek(memory, 0, SEEK_SET) != 0) {
        fuzz_wrong("the file cannot be emptied");
    }
    const bool supplied = size > 0 && data[0] & 1;
    if (supplied) {
        /* Offsets of good headers are small: so is the data. */
        const uint64_t length = size - 1, bytes = (uint64_t)(data[0] >> 1) * 8;
        for (int i = 0; i < 8; i++) {
            prefix[i] = (uint8_t)(length >> 8 * i);
        }
        put(memory, prefix, sizeof prefix);
        put(memory, data + 1, length);
        put_data(memory, bytes);
    } else if (size) {
        put(memory, data + 1, size - 1);
    }
    snprintf(path, sizeof path, "/proc/self/fd/%d", memory);
    if (safetensors_open(path, &file) == PTO_OK) {
        read_all(file, supplied);
    } else if (file || !pto_error_detail()[0]) {
        fuzz_wrong("refused without a word, or only half");
    }
    safetensors_close(&file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (size_t at = 0, length; at < size;) {
        const uint8_t *text = fuzz_next_text(data, size, &at, &length);
        open_case(text, length);
    }
    return 0;
}
