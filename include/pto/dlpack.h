/* pto/dlpack.h - exchange tensors with other libraries through DLPack, without a copy.
 *
 * The structs below are the DLPack ABI (legacy and versioned 1.x). They are declared here under
 * names of this library, so that no other header is needed; cast the pointers. The importer of a
 * managed tensor calls its deleter once, when it is done. An exported tensor calls your callback
 * once.
 */
#ifndef PTO_DLPACK_H
#define PTO_DLPACK_H

#include <pto/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PTO_DLPACK_MAJOR 1
#define PTO_DLPACK_MINOR 0

/* The device of the memory: DLDevice. */
typedef struct pto_dl_device {
    int32_t device_type; /* 1 CPU, 2 CUDA, 3 pinned host memory of CUDA, ... */
    int32_t device_id;
} pto_dl_device;

/* The element type: DLDataType. Only whole bytes and one lane are supported. */
typedef struct pto_dl_dtype {
    uint8_t code; /* 0 int, 1 uint, 2 float, 4 bfloat, 6 bool */
    uint8_t bits;
    uint16_t lanes;
} pto_dl_dtype;

/* A view of memory without an owner: DLTensor. */
typedef struct pto_dl_tensor {
    void *data;
    pto_dl_device device;
    int32_t ndim;
    pto_dl_dtype dtype;
    int64_t *shape;
    int64_t *strides; /* in elements; NULL: dense, last dim fastest */
    uint64_t byte_offset;
} pto_dl_tensor;

/* The legacy managed tensor: DLManagedTensor. */
typedef struct pto_dl_managed {
    pto_dl_tensor tensor;
    void *manager;
    void (*deleter)(struct pto_dl_managed *self);
} pto_dl_managed;

/* The managed tensor of DLPack 1.x: DLManagedTensorVersioned. */
typedef struct pto_dl_versioned {
    struct {
        uint32_t major;
        uint32_t minor;
    } version;
    void *manager;
    void (*deleter)(struct pto_dl_versioned *self);
    uint64_t flags;
    pto_dl_tensor tensor;
} pto_dl_versioned;

#define PTO_DL_FLAG_READ_ONLY (UINT64_C(1) << 0)
#define PTO_DL_FLAG_IS_COPIED (UINT64_C(1) << 1)

/* Imports a managed tensor: makes a view of its memory. The caller keeps ownership of `managed`.
 * The view is valid until the caller calls the deleter (pto_dlpack_release does so, once, and
 * clears the pointer). Works for any producer. The storage is exactly the bytes that the tensor
 * spans. `read_only` receives the read-only flag; it may be NULL. */
PTO_API PTO_MUST_CHECK pto_status pto_dlpack_import(const pto_dl_managed *managed, pto_tensor *out);
PTO_API PTO_MUST_CHECK pto_status pto_dlpack_import_versioned(const pto_dl_versioned *managed,
                                                              pto_tensor *out, bool *read_only);

/* Releases a managed tensor: calls the deleter of *managed, if there is one, and sets *managed to
 * NULL. NULL is allowed. */
PTO_API void pto_dlpack_release(pto_dl_managed **managed);
PTO_API void pto_dlpack_release_versioned(pto_dl_versioned **managed);

/* Exports a tensor: makes a managed tensor over the memory of `t` for another library. When that
 * library is done, `done` (may be NULL) is called with `context`, exactly once. Then the struct is
 * freed. */
PTO_API PTO_MUST_CHECK pto_status pto_dlpack_export(const pto_tensor *t,
                                                    void (*done)(void *context), void *context,
                                                    pto_dl_managed **out);
PTO_API PTO_MUST_CHECK pto_status pto_dlpack_export_versioned(const pto_tensor *t, uint64_t flags,
                                                              void (*done)(void *context),
                                                              void *context,
                                                              pto_dl_versioned **out);

#ifdef __cplusplus
}
#endif

#endif /* PTO_DLPACK_H */
