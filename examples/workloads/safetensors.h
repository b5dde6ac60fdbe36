/* safetensors.h - read and write weights in the safetensors format.
 *
 *     8 bytes    length of the header, little-endian
 *     header     JSON: {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...},
 *                and possibly "__metadata__": {"text": "text", ...}; spaces may follow
 *     data       the bytes of all tensors, little-endian, one after the other without a gap
 *
 * A file is never trusted: what it says about itself is checked, all of it, before anything is
 * believed, and nothing outside of it is read. Every failure has words that name file and tensor,
 * with the numbers.
 */
#ifndef WORKLOAD_SAFETENSORS_H
#define WORKLOAD_SAFETENSORS_H

#include <pto/pto.h>

/* The longest header that is read: as much as other readers accept. */
#define SAFETENSORS_MAX_HEADER UINT64_C(100000000)

typedef struct safetensor {
    const char *name;
    const char *dtype; /* "F32", as in the file */
    int32_t ndim;
    int64_t shape[PTO_MAX_DIMS];
    uint64_t begin, end; /* its bytes, counted from the start of the data */
} safetensor;

typedef struct safetensors safetensors;

/* Opens a file and checks its header. */
pto_status safetensors_open(const char *path, safetensors **file);

/* Frees it and sets *file to NULL. NULL is fine. */
void safetensors_close(safetensors **file);

/* Its tensors, in the order of the names. */
size_t safetensors_count(const safetensors *file);
const safetensor *safetensors_at(const safetensors *file, size_t index);

/* The tensor of that name; NULL if there is none. */
const safetensor *safetensors_find(const safetensors *file, const char *name);

/* Reads a tensor into a view of memory, any float32 one; in the file it must have the same shape.
 * F32 is taken as it is; F16, BF16 and F64 are converted; other dtypes are refused. */
pto_status safetensors_read(safetensors *file, const char *name, const pto_tensor *to);

/* A tensor to write: any view, float32. */
typedef struct safetensor_source {
    const char *name; /* printable, without quotes and backslashes */
    pto_tensor tensor;
} safetensor_source;

/* Writes a file with these tensors. One that could not be written whole is removed. */
pto_status safetensors_save(const char *path, const safetensor_source *tensors, size_t count);

#endif /* WORKLOAD_SAFETENSORS_H */
