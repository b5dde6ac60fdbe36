/* safetensors.h - reads and writes weights in the safetensors format.
 *
 *     8 bytes    length of the header, little-endian
 *     header     JSON: {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...},
 *                and possibly "__metadata__": {"text": "text", ...}; spaces may follow
 *     data       the bytes of all tensors, little-endian, without gaps
 *
 * A file is never trusted: its whole header is checked before it is used, and nothing outside the
 * file is read. Every error message names the file and the tensor, with the numbers.
 */
#ifndef WORKLOAD_SAFETENSORS_H
#define WORKLOAD_SAFETENSORS_H

#include <pto/pto.h>

/* The longest accepted header, as in other readers. */
#define SAFETENSORS_MAX_HEADER UINT64_C(100000000)

typedef struct safetensor {
    const char *name;
    const char *dtype; /* "F32", as in the file */
    int32_t ndim;
    int64_t shape[PTO_MAX_DIMS];
    uint64_t begin, end; /* its bytes, relative to the start of the data */
} safetensor;

typedef struct safetensors safetensors;

/* What parses the JSON: "jansson 2.14", or that nothing does, and why. */
const char *safetensors_json(void);

/* Opens a file and checks its header. */
pto_status safetensors_open(const char *path, safetensors **file);

/* Closes a file and sets *file to NULL. NULL is allowed. */
void safetensors_close(safetensors **file);

/* The tensors of a file, sorted by name. */
size_t safetensors_count(const safetensors *file);
const safetensor *safetensors_at(const safetensors *file, size_t index);

/* Finds a tensor by name; NULL if there is none. */
const safetensor *safetensors_find(const safetensors *file, const char *name);

/* Reads a tensor into any float32 view. The shape in the file must be the same. F16, BF16 and F64
 * are converted to F32; other dtypes are refused. */
pto_status safetensors_read(safetensors *file, const char *name, const pto_tensor *to);

/* A tensor to write: any float32 view. */
typedef struct safetensor_source {
    const char *name; /* printable, without quotes and backslashes */
    pto_tensor tensor;
} safetensor_source;

/* Writes a file with these tensors. An incomplete file is removed. */
pto_status safetensors_save(const char *path, const safetensor_source *tensors, size_t count);

#endif /* WORKLOAD_SAFETENSORS_H */
