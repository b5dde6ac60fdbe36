/* pto/tensor.h - tensors as plain values: strided views of memory.
 *
 * A tensor says where elements are. It owns nothing and needs no free. Element [i, j, ...] is at
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
 * Dim 0 is the outermost. A stride may be positive, negative or zero (a broadcast), and elements of
 * a view may overlap each other. Sizes of zero and tensors without dims (one element) are valid.
 *
 *     float a[4][8];
 *     pto_tensor t, column;
 *     PTO_TRY(pto_tensor_init(&t, a, sizeof a, PTO_FLOAT32, 2, (int64_t[]){4, 8}, NULL, 0));
 *     PTO_TRY(pto_tensor_slice(&t, 1, 2, 3, 1, &column));     // a[:, 2:3]
 *     bool shared = pto_tensor_overlaps(&t, &column);         // true
 *
 * Every function checks its arguments. Functions that can fail return a pto_status (pto/status.h)
 * and on failure leave the output untouched. The output may be the same struct as the input.
 *
 * A tensor may also be filled in by hand: every function checks its inputs again.
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

/* X(name, value, text, bytes). Zero is not a dtype, so an uninitialized one is rejected. */
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

/* The data type of the elements. */
typedef enum pto_dtype {
    PTO_DTYPE_NONE = 0,
#define PTO_DTYPE_ENUM(name, value, text, bytes) PTO_##name = (value),
    PTO_DTYPE_MAP(PTO_DTYPE_ENUM)
#undef PTO_DTYPE_ENUM
} pto_dtype;

/* Returns the size of an element in bytes, or the name of a dtype ("float32"). For an unknown
 * dtype: 0 and "invalid". */
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
    X(QY, 9, "qy")                                                                                 \
    X(SIM, 10, "sim") /* simulated: pto/sim.h */

/* The type of a device. */
typedef enum pto_device_type {
#define PTO_DEVICE_ENUM(name, value, text) PTO_DEVICE_##name = (value),
    PTO_DEVICE_MAP(PTO_DEVICE_ENUM)
#undef PTO_DEVICE_ENUM
} pto_device_type;

/* The device of a tensor. All zero is the CPU. */
typedef struct pto_device {
    pto_device_type type;
    int32_t index;
} pto_device;

/* Returns the name of a device type: "cpu"; "invalid" if it is unknown. */
PTO_API const char *pto_device_name(pto_device_type type);

/* Reads a device from text: "sim:0". Without an index it is the first one. Upper and lower case are
 * the same. PTO_BAD_DEVICE if it names no type of device, or no index. */
PTO_API PTO_MUST_CHECK pto_status pto_device_parse(const char *text, pto_device *device);

/* ---- The tensor ------------------------------------------------------------------------- */

/* How a tensor was made. Shallow tensors share the memory of their source, deep ones do not. */
typedef enum pto_extraction {
    PTO_RAW = 0,           /* pto_tensor_init, DLPack import */
    PTO_SHALLOW_VIEW,      /* view, slice, broadcast */
    PTO_SHALLOW_RESHAPE,   /* reshape */
    PTO_SHALLOW_TRANSPOSE, /* permute, transpose */
    PTO_DEEP_VIEW,         /* clone */
    PTO_DEEP_CONTIGUOUS,   /* contiguous */
} pto_extraction;

/* A strided view of memory, as drawn at the top of pto/tensor.h. */
typedef struct pto_tensor {
    void *storage;                 /* the memory; NULL if the tensor is empty or managed */
    uint64_t storage_bytes;        /* size of the memory; all elements lie inside */
    int64_t offset;                /* of element [0, 0, ...], in elements; never negative */
    uint64_t owner;                /* 0: user memory; else the managed block, set by the runtime */
    uint32_t generation;           /* of the managed block; a stale generation is refused */
    uint32_t version;              /* of the contents; starts at 0 */
    int32_t ndim;                  /* 0 .. PTO_MAX_DIMS */
    pto_dtype dtype;               /* */
    pto_device device;             /* */
    pto_extraction kind;           /* how it was made */
    uint32_t reserved;             /* zero */
    int64_t shape[PTO_MAX_DIMS];   /* size of each dim in elements; zero past ndim */
    int64_t strides[PTO_MAX_DIMS]; /* distance between neighbours in elements; zero past ndim */
} pto_tensor;

/* Makes a tensor over `storage`. If `strides` is NULL the tensor is dense, with the last dim
 * fastest. Every element must lie inside the storage. The device is cpu:0; to change it set
 * `device` afterwards. */
PTO_API PTO_MUST_CHECK pto_status pto_tensor_init(pto_tensor *t, void *storage,
                                                  uint64_t storage_bytes, pto_dtype dtype,
                                                  int32_t ndim, const int64_t *shape,
                                                  const int64_t *strides, int64_t offset);

/* Checks a tensor that was filled in by hand, as pto_tensor_init would. */
PTO_API PTO_MUST_CHECK pto_status pto_tensor_check(const pto_tensor *t);

/* ---- Views: same memory, other shape ---------------------------------------------------- */

/* Makes a view of a box: `shape` elements from `start` on. Both arrays have src->ndim entries. */
PTO_API PTO_MUST_CHECK pto_status pto_tensor_view(const pto_tensor *src, const int64_t *start,
                                                  const int64_t *shape, pto_tensor *out);

/* Makes a view of every step-th element of one dim: start, start + step, ... up to but excluding
 * `stop`. Nothing is clamped. With step > 0: 0 <= start, stop <= size. With step < 0: -1 <= start,
 * stop < size, and a stop of -1 includes element 0. If start is at or past stop, the dim has size
 * 0. */
PTO_API PTO_MUST_CHECK pto_status pto_tensor_slice(const pto_tensor *src, int32_t dim,
                                                   int64_t start, int64_t stop, int64_t step,
                                                   pto_tensor *out);

/* Selects element `index` of one dim and removes that dim: row 3 of a matrix is a vector. */
PTO_API PTO_MUST_CHECK pto_status pto_tensor_select(const pto_tensor *src, int32_t dim,
                                                    int64_t index, pto_tensor *out);

/* Reorders the dims: dim d of the result is dim perm[d] of the source. */
PTO_API PTO_MUST_CHECK pto_status pto_tensor_permute(const pto_tensor *src, const int32_t *perm,
                                                     pto_tensor *out);

/* Exchanges two dims. */
PTO_API PTO_MUST_CHECK pto_status pto_tensor_transpose(const pto_tensor *src, int32_t d0,
                                                       int32_t d1, pto_tensor *out);

/* Makes a view of the same elements in the same order, with another shape. One size may be -1 and
 * is then computed. Works for every layout that needs no copy; otherwise PTO_NEEDS_COPY. */
PTO_API PTO_MUST_CHECK pto_status pto_tensor_reshape(const pto_tensor *src, int32_t ndim,
                                                     const int64_t *shape, pto_tensor *out);

/* Repeats dims of size 1 to the given sizes (stride 0), and adds new dims in front. All other sizes
 * must be equal, else PTO_NOT_BROADCASTABLE. */
PTO_API PTO_MUST_CHECK pto_status pto_tensor_broadcast(const pto_tensor *src, int32_t ndim,
                                                       const int64_t *shape, pto_tensor *out);

/* ---- Copies: new memory, provided by the caller ----------------------------------------- */

/* Gets the size of a dense copy in bytes: number of elements times element size. */
PTO_API PTO_MUST_CHECK pto_status pto_tensor_nbytes(const pto_tensor *t, uint64_t *bytes);

/* Makes a dense copy that keeps the memory order of the dims: a transposed matrix stays transposed.
 * `storage` has at least pto_tensor_nbytes bytes and does not overlap the source. */
PTO_API PTO_MUST_CHECK pto_status pto_tensor_clone(const pto_tensor *src, void *storage,
                                                   uint64_t storage_bytes, pto_tensor *out);

/* Makes a dense copy with the last dim fastest. `storage` is as for pto_tensor_clone. */
PTO_API PTO_MUST_CHECK pto_status pto_tensor_contiguous(const pto_tensor *src, void *storage,
                                                        uint64_t storage_bytes, pto_tensor *out);

/* ---- Properties ------------------------------------------------------------------------- */

/* Returns the number of elements: 0 if any size is 0, 1 for a tensor without dims, -1 for an
 * invalid tensor. */
PTO_API int64_t pto_tensor_numel(const pto_tensor *t);

/* Returns whether the elements are adjacent, with the last dim fastest. Dims of size 1 do not
 * matter. An empty tensor is contiguous. */
PTO_API bool pto_tensor_is_contiguous(const pto_tensor *t);

/* Gets the byte range of a tensor: its lowest byte and one past its highest, counted from
 * `storage`. Both are equal if the tensor is empty. */
PTO_API PTO_MUST_CHECK pto_status pto_tensor_byte_range(const pto_tensor *t, uint64_t *low,
                                                        uint64_t *end);

/* Formats a tensor as one line of text, like snprintf: writes at most `size` bytes including the
 * NUL, and returns the length of the whole line. "float32[4, 8] strides (8, 1) offset 0 of 128
 * bytes at 0x... cpu:0" */
PTO_API size_t pto_tensor_format(const pto_tensor *t, char *text, size_t size);

/* ---- Overlap: exact, on bytes ----------------------------------------------------------- */

/* Returns whether two tensors share a byte (overlaps), or whether `a` contains every byte of `b`
 * (covers). Dtypes, strides and storages may differ: absolute addresses decide. For managed tensors
 * the block, the generation and the offset in the block decide.
 *
 * The answer is exact. In general this is a bounded Diophantine problem. Hard cases are searched
 * within a budget of steps. If the budget runs out, the result is the safe one (overlaps: true,
 * covers: false), and it is counted. Invalid tensors give the safe result, too; pto_error_detail
 * says why. Here and in the map only the fields that determine byte positions are checked: a wrong
 * device or kind does not matter. */
PTO_API bool pto_tensor_overlaps(const pto_tensor *a, const pto_tensor *b);
PTO_API bool pto_tensor_covers(const pto_tensor *a, const pto_tensor *b);

/* The stage that decided, cheapest first. X(name, text, how it decides) */
#define PTO_OVERLAP_STAGE_MAP(X)                                                                   \
    X(EMPTY, "empty", "a tensor has no elements")                                                  \
    X(SPACE, "other memory", "they lie in managed blocks that differ")                             \
    X(RANGE, "byte ranges", "decided by their byte ranges")                                        \
    X(DENSE, "both dense", "both are gapless")                                                     \
    X(SAME, "same layout", "both are exactly the same bytes")                                      \
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

/* Returns the name of a stage: "both dense"; "invalid" if it is unknown. */
PTO_API const char *pto_overlap_stage_name(pto_overlap_stage stage);

/* The default budget of search steps. */
#define PTO_OVERLAP_BUDGET 4096

/* The result of an overlap test. */
typedef struct pto_overlap_result {
    bool yes;                /* the result */
    pto_overlap_stage stage; /* the stage that decided; after PTO_STAGE_BUDGET the result is safe
                                but not proved */
    uint64_t steps;          /* search steps used */
} pto_overlap_result;

/* Tests overlap with an explicit budget: 0 is the default, UINT64_MAX means no limit. */
PTO_API PTO_MUST_CHECK pto_status pto_tensor_overlaps_ex(const pto_tensor *a, const pto_tensor *b,
                                                         uint64_t budget,
                                                         pto_overlap_result *result);
PTO_API PTO_MUST_CHECK pto_status pto_tensor_covers_ex(const pto_tensor *a, const pto_tensor *b,
                                                       uint64_t budget, pto_overlap_result *result);

/* Returns how often the budget ran out in pto_tensor_overlaps, pto_tensor_covers and their _ex
 * forms, on all threads since the program started. (A TensorMap has its own counter.) */
PTO_API uint64_t pto_overlap_budget_hits(void);

#ifdef __cplusplus
}
#endif

#endif /* PTO_TENSOR_H */
