/* pto/tensor.h - tensors as plain values: any strided view of some memory.
 *
 * A tensor says where elements lie; it owns nothing and needs no free. Element [i, j, ...] is at
 *
 *     storage + (offset + i * strides[0] + j * strides[1] + ...) * size of the dtype
 *
 *     storage                                                       storage + storage_bytes
 *     |                                                                                  |
 *     v        offset 2      strides[0] = 6                                              v
 *     +----+----+====+====+====+----+----+----+====+====+====+----+----+----+----+----+--+
 *     |    |    | 00 | 01 | 02 |    |    |    | 10 | 11 | 12 |    |    |    |    |    |  |
 *     +----+----+====+====+====+----+----+----+====+====+====+----+----+----+----+----+--+
 *                 shape {2, 3}, strides {6, 1}: offset, shape and strides count elements
 *
 * Dim 0 is the outermost. Strides may be negative, zero (a broadcast) or anything else: views may
 * even overlap themselves. Sizes of zero and tensors of no dims (one element) are fine.
 *
 *     float a[4][8];
 *     pto_tensor t, column;
 *     pto_tensor_init(&t, a, sizeof a, PTO_FLOAT32, 2, (int64_t[]){4, 8}, NULL, 0);
 *     pto_tensor_slice(&t, 1, 2, 3, 1, &column);              // a[:, 2:3]
 *     pto_tensor_overlaps(&t, &column);                       // true
 *
 * Every function checks its arguments and returns a pto_status (pto/status.h); on failure the
 * output is untouched. An output may be the very struct the input is.
 *
 * Fill the struct through these functions, or by hand: what is handed in is checked again.
 */
#ifndef PTO_TENSOR_H
#define PTO_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pto/status.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PTO_MAX_DIMS 8

/* ---- Data types ------------------------------------------------------------------------- */

/* X(name, value, text, bytes). Zero is no dtype, so that a forgotten one is noticed. */
#define PTO_DTYPE_MAP(X)                                                                           \
    X(FLOAT32, 1, "float32", 4)                                                                    \
    X(FLOAT16, 2, "float16", 2)                                                                    \
    X(INT32, 3, "int32", 4)                                                                        \
    X(INT16, 4, "int16", 2)                                                                        \
    X(INT8, 5, "int8", 1)                                                                          \
    X(UINT8, 6, "uint8", 1)                                                                        \
    X(BFLOAT16, 7, "bfloat16", 2)                                                                  \
    X(INT64, 8, "int64", 8)                                                                        \
    X(UINT64, 9, "uint64", 8)                                                                      \
    X(FLOAT64, 10, "float64", 8)                                                                   \
    X(BOOL, 11, "bool", 1)

/* What an element of a tensor is. */
typedef enum pto_dtype {
    PTO_DTYPE_NONE = 0,
#define PTO_DTYPE_ENUM(name, value, text, bytes) PTO_##name = (value),
    PTO_DTYPE_MAP(PTO_DTYPE_ENUM)
#undef PTO_DTYPE_ENUM
} pto_dtype;

/* Size and name of a dtype: bytes of one element, 0 for an unknown dtype; "float32", "invalid" for
 * an unknown one. */
PTO_API size_t pto_dtype_size(pto_dtype dtype);
PTO_API const char *pto_dtype_name(pto_dtype dtype);

/* ---- Devices ---------------------------------------------------------------------------- */

/* X(name, value, text) */
#define PTO_DEVICE_MAP(X)                                                                          \
    X(CPU, 0, "cpu")                                                                               \
    X(NVIDIA, 1, "nvidia")                                                                         \
    X(CAMBRICON, 2, "cambricon")                                                                   \
    X(ASCEND, 3, "ascend")                                                                         \
    X(METAX, 4, "metax")                                                                           \
    X(MOORE, 5, "moore")                                                                           \
    X(ILUVATAR, 6, "iluvatar")                                                                     \
    X(KUNLUN, 7, "kunlun")                                                                         \
    X(HYGON, 8, "hygon")                                                                           \
    X(QY, 9, "qy")

/* What kind of device memory is on. */
typedef enum pto_device_type {
#define PTO_DEVICE_ENUM(name, value, text) PTO_DEVICE_##name = (value),
    PTO_DEVICE_MAP(PTO_DEVICE_ENUM)
#undef PTO_DEVICE_ENUM
} pto_device_type;

/* Where a tensor's memory lives. A zeroed one is the CPU. */
typedef struct pto_device {
    pto_device_type type;
    int32_t index;
} pto_device;

/* Name of a type of device: "cpu"; "invalid" for an unknown one. */
PTO_API const char *pto_device_name(pto_device_type type);

/* ---- The tensor ------------------------------------------------------------------------- */

/* How a tensor came to be. Shallow ones share the memory of their source, deep ones do not. */
typedef enum pto_extraction {
    PTO_RAW = 0,           /* pto_tensor_init, DLPack import */
    PTO_SHALLOW_VIEW,      /* view, slice, broadcast */
    PTO_SHALLOW_RESHAPE,   /* reshape */
    PTO_SHALLOW_TRANSPOSE, /* permute, transpose */
    PTO_DEEP_VIEW,         /* clone */
    PTO_DEEP_CONTIGUOUS,   /* contiguous */
} pto_extraction;

/* A strided view of some memory, as drawn at the top of pto/tensor.h. */
typedef struct pto_tensor {
    void *storage;          /* the memory it lives in; NULL if it has no bytes, or is managed */
    uint64_t storage_bytes; /* no element may lie outside of it */
    int64_t offset;         /* of element [0, 0, ...], in elements; never negative */
    uint64_t owner;         /* 0: memory of the user; else the managed block, set by the runtime */
    uint32_t generation;    /* of the managed block; a handle dies with its generation */
    uint32_t version;       /* of the contents; 0 at first */
    int32_t ndim;           /* 0 .. PTO_MAX_DIMS */
    pto_dtype dtype;        /* */
    pto_device device;      /* */
    pto_extraction kind;    /* how it came to be */
    uint32_t reserved;      /* zero */
    int64_t shape[PTO_MAX_DIMS];   /* elements along each dim; zero past ndim */
    int64_t strides[PTO_MAX_DIMS]; /* elements from one to the next; zero past ndim */
} pto_tensor;

/* Makes a tensor over `storage`. `strides` NULL means dense, last dim fastest. Every element must
 * lie in the storage, whatever the signs of the strides. The device is cpu:0; set `device`
 * after. */
PTO_API pto_status pto_tensor_init(pto_tensor *t, void *storage, uint64_t storage_bytes,
                                   pto_dtype dtype, int32_t ndim, const int64_t *shape,
                                   const int64_t *strides, int64_t offset);

/* Checks that a tensor filled by hand is sound: what pto_tensor_init would have checked. */
PTO_API pto_status pto_tensor_check(const pto_tensor *t);

/* ---- Views: same memory, other shape ---------------------------------------------------- */

/* Views a box of a tensor: `shape` elements from `start` on; both have src->ndim entries. */
PTO_API pto_status pto_tensor_view(const pto_tensor *src, const int64_t *start,
                                   const int64_t *shape, pto_tensor *out);

/* Takes every step-th element of one dim: start, start + step, ... up to but without `stop`.
 * Nothing is clamped: with step > 0, 0 <= start, stop <= size; with step < 0, -1 <= start, stop <
 * size (a stop of -1 goes down to element 0). If start is already at or past stop the dim has size
 * 0. */
PTO_API pto_status pto_tensor_slice(const pto_tensor *src, int32_t dim, int64_t start, int64_t stop,
                                    int64_t step, pto_tensor *out);

/* Takes element `index` of one dim, which is gone from the result: row 3 of a matrix is a
 * vector. */
PTO_API pto_status pto_tensor_select(const pto_tensor *src, int32_t dim, int64_t index,
                                     pto_tensor *out);

/* Reorders the dims: dim d of the result is dim perm[d] of the source. */
PTO_API pto_status pto_tensor_permute(const pto_tensor *src, const int32_t *perm, pto_tensor *out);

/* Exchanges two dims. */
PTO_API pto_status pto_tensor_transpose(const pto_tensor *src, int32_t d0, int32_t d1,
                                        pto_tensor *out);

/* Views the same elements in the same order under another shape. One size may be -1: it follows
 * from the others. Works on any layout where no copy is needed, else PTO_NEEDS_COPY. */
PTO_API pto_status pto_tensor_reshape(const pto_tensor *src, int32_t ndim, const int64_t *shape,
                                      pto_tensor *out);

/* Repeats dims of size 1: they get the given sizes (stride 0), and new dims come in front. Any
 * other size must be the same, or it is PTO_NOT_BROADCASTABLE. */
PTO_API pto_status pto_tensor_broadcast(const pto_tensor *src, int32_t ndim, const int64_t *shape,
                                        pto_tensor *out);

/* ---- Copies: new memory, given by the caller -------------------------------------------- */

/* Bytes that a dense copy of the tensor needs: elements times their size. */
PTO_API pto_status pto_tensor_nbytes(const pto_tensor *t, uint64_t *bytes);

/* Makes a dense copy in the order of the source: its dims lie in memory as they do there (a
 * transposed matrix stays transposed). `storage` holds pto_tensor_nbytes bytes and shares none with
 * the source. */
PTO_API pto_status pto_tensor_clone(const pto_tensor *src, void *storage, uint64_t storage_bytes,
                                    pto_tensor *out);

/* Makes a dense copy with the last dim fastest. `storage` as for pto_tensor_clone. */
PTO_API pto_status pto_tensor_contiguous(const pto_tensor *src, void *storage,
                                         uint64_t storage_bytes, pto_tensor *out);

/* ---- Questions -------------------------------------------------------------------------- */

/* Number of elements; 0 if any size is 0, 1 for a tensor of no dims, -1 if the tensor is unsound.
 */
PTO_API int64_t pto_tensor_numel(const pto_tensor *t);

/* Whether the elements lie one after the other, last dim fastest. Sizes of 1 do not matter; an
 * empty tensor is contiguous. */
PTO_API bool pto_tensor_is_contiguous(const pto_tensor *t);

/* The range of bytes that a tensor touches: the lowest one and one past the highest, counted from
 * `storage`. Equal if empty. */
PTO_API pto_status pto_tensor_byte_range(const pto_tensor *t, uint64_t *low, uint64_t *end);

/* Writes one readable line about a tensor, as snprintf does it: at most `size` bytes with the final
 * NUL, returns the length the whole line has. "float32[4, 8] strides (8, 1) offset 0 of 128 bytes
 * at 0x... cpu:0" */
PTO_API size_t pto_tensor_format(const pto_tensor *t, char *text, size_t size);

/* ---- Overlap: exact, on bytes ----------------------------------------------------------- */

/* Whether two tensors share a byte, and whether `a` contains every byte of `b`. Any dtypes, strides
 * and storages: absolute addresses count (managed tensors: the block and the generation, then the
 * place in it). Nothing is guessed: where the question is hard (it is a bounded Diophantine
 * problem) an exact search answers it, within a budget of steps; past that *overlaps* says true,
 * *covers* says false, the answers that are always safe, and the hit is counted. Unsound tensors
 * get the safe answer too; pto_error_detail says why. (Only what decides where bytes lie is looked
 * at here and in the map: a wrong device or kind does not matter.) */
PTO_API bool pto_tensor_overlaps(const pto_tensor *a, const pto_tensor *b);
PTO_API bool pto_tensor_covers(const pto_tensor *a, const pto_tensor *b);

/* The stage of the cascade that decided, cheapest first. X(name, text, how it decides) */
#define PTO_OVERLAP_STAGE_MAP(X)                                                                   \
    X(EMPTY, "empty", "a tensor has no elements")                                                  \
    X(SPACE, "other memory", "they lie in managed blocks that differ")                             \
    X(RANGE, "byte ranges", "decided by their byte ranges")                                        \
    X(DENSE, "both dense", "both are gapless")                                                     \
    X(SAME, "same layout", "both are the very same bytes")                                         \
    X(SUCCESSOR, "dense in rows", "one is gapless, the other lies in disjoint rows")               \
    X(GRID, "common grid", "both are boxes in one grid of strides")                                \
    X(PROGRESSION, "progression", "both are arithmetic progressions")                              \
    X(SEARCH, "search", "decided by a bounded Diophantine search")                                 \
    X(BUDGET, "budget ran out", "not proved: the search ran out of its budget, so the safe answer")

/* How an overlap was decided. */
typedef enum pto_overlap_stage {
#define PTO_OVERLAP_STAGE_ENUM(name, text, how) PTO_STAGE_##name,
    PTO_OVERLAP_STAGE_MAP(PTO_OVERLAP_STAGE_ENUM)
#undef PTO_OVERLAP_STAGE_ENUM
        PTO_STAGE_COUNT
} pto_overlap_stage;

/* Name of a stage: "both dense"; "invalid" for an unknown one. */
PTO_API const char *pto_overlap_stage_name(pto_overlap_stage stage);

/* Steps of search allowed unless said otherwise. */
#define PTO_OVERLAP_BUDGET 4096

/* The whole verdict about an overlap. */
typedef struct pto_overlap_result {
    bool yes;                /* the answer */
    pto_overlap_stage stage; /* who gave it; PTO_STAGE_BUDGET: it is the safe one, not proved */
    uint64_t steps;          /* steps of search it took */
} pto_overlap_result;

/* Overlap with the whole verdict and a budget of one's own: 0 is the default, UINT64_MAX none. */
PTO_API pto_status pto_tensor_overlaps_ex(const pto_tensor *a, const pto_tensor *b, uint64_t budget,
                                          pto_overlap_result *result);
PTO_API pto_status pto_tensor_covers_ex(const pto_tensor *a, const pto_tensor *b, uint64_t budget,
                                        pto_overlap_result *result);

/* How often the budget for overlaps ran out, in pto_tensor_overlaps, _covers and their _ex forms,
 * on all threads since the program started. (A TensorMap counts its own.) */
PTO_API uint64_t pto_overlap_budget_hits(void);

#ifdef __cplusplus
}
#endif

#endif /* PTO_TENSOR_H */
