/* pto/status.h - what every function of PTO Runtime returns, and how to learn more.
 *
 * A function that can fail returns a `pto_status`. Nothing aborts, nothing prints. After a
 * failure, on the same thread:
 *
 *     pto_status_text(s)  what the code means   "no such dimension"
 *     pto_status_hint(s)  what to do about it   "dimensions count from 0 (outermost) to ndim - 1"
 *     pto_error_detail()  this very failure     "slice: dim 3 of a tensor with 2 dims"
 *
 * All codes stand in one table, PTO_STATUS_MAP; there is no second list to keep in step.
 */
#ifndef PTO_STATUS_H
#define PTO_STATUS_H

#include <stddef.h>

#if defined(__GNUC__)
#define PTO_API __attribute__((visibility("default")))
#define PTO_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#else
#define PTO_API
#define PTO_PRINTF(fmt, first)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, value, text, hint). Values are stable: new codes go to the end. */
#define PTO_STATUS_MAP(X)                                                                          \
    X(OK, 0, "success", "nothing to do")                                                           \
    X(NULL_ARGUMENT, 1, "a required pointer is NULL", "pass the argument that the detail names")   \
    X(BAD_DTYPE, 2, "unknown data type", "use one of the pto_dtype values of pto/tensor.h")        \
    X(BAD_NDIM, 3, "number of dimensions out of range",                                            \
      "a tensor has 0 to PTO_MAX_DIMS dimensions; merge some with a reshape")                      \
    X(BAD_SHAPE, 4, "negative or mismatched size",                                                 \
      "sizes are zero or more and must agree with the source as the detail says")                  \
    X(OUT_OF_BOUNDS, 5, "index or range outside of the tensor or its storage",                     \
      "compare the numbers of the detail with shape, strides, offset and storage_bytes")           \
    X(OVERFLOW, 6, "a size or an address does not fit in 64 bits",                                 \
      "check shape and strides for garbage; no real memory is that large")                         \
    X(BAD_DIM, 7, "no such dimension", "dimensions count from 0 (outermost) to ndim - 1")          \
    X(BAD_PERMUTATION, 8, "not a permutation of the dimensions",                                   \
      "name each dimension from 0 to ndim - 1 exactly once")                                       \
    X(BAD_STEP, 9, "a step of zero", "use a positive or a negative step")                          \
    X(NEEDS_COPY, 10, "the reshape cannot be a view of this layout",                               \
      "make the tensor contiguous first (pto_tensor_contiguous), then reshape")                    \
    X(NOT_BROADCASTABLE, 11, "the shapes do not broadcast",                                        \
      "aligned at the last dimension, each size must be equal or 1 in the source")                 \
    X(BUFFER_TOO_SMALL, 12, "the memory given is too small",                                       \
      "give at least as much as the detail asks for (for copies see pto_tensor_nbytes)")           \
    X(OVERLAP, 13, "source and destination share memory", "give storage of its own")               \
    X(BAD_DEVICE, 14, "unsupported device or memory that the CPU cannot reach",                    \
      "move the data to a supported device first")                                                 \
    X(BAD_DLPACK, 15, "malformed or unsupported DLPack tensor",                                    \
      "export it with whole-byte elements, lanes = 1 and DLPack major version 1 or the legacy "    \
      "struct")                                                                                    \
    X(BAD_CONFIG, 16, "a configuration value is out of range",                                     \
      "use 0 for the default, or a value inside the range that the detail gives")                  \
    X(OUT_OF_MEMORY, 17, "the operating system gave no memory",                                    \
      "ask for less, or raise the limit of the process (ulimit -v)")                               \
    X(FULL, 18, "every entry is in use by a live task",                                            \
      "make room as the detail says: retire tasks of a map, or configure more")                    \
    X(BAD_ORDER, 19, "task ids or watermarks go backwards",                                        \
      "insert in submission order; a watermark only ever rises")                                   \
    X(BAD_LEVEL, 20, "no such ring level", "levels count from 0 to the configured number - 1")     \
    X(CORRUPT, 21, "an internal invariant does not hold",                                          \
      "this is a bug, in the runtime or in code that wrote over its memory: please report it")     \
    X(BAD_ACCESS, 22, "neither a read nor a write",                                                \
      "use PTO_MAP_READ, or PTO_MAP_WRITE also for what is read and written")                      \
    X(PENDING, 23, "not done yet", "a kernel returns it when pto_task_complete will follow")       \
    X(KERNEL_FAILED, 24, "a kernel failed", "the detail has the kernel's own words")               \
    X(TASK_FAILED, 25, "a task failed",                                                            \
      "the detail names task, kernel and submit site; pto_clear_error lets the runtime go on")     \
    X(POISONED, 26, "the memory was to be written by a task that failed or was skipped",           \
      "see pto_wait for the first failure; write it anew, or pto_clear_error")                     \
    X(CANCELLED, 27, "cancelled", "pto_clear_error lets the runtime go on")                        \
    X(STALLED, 28, "waiting for room would never end",                                             \
      "end the scope that the detail names, use boundary scopes, or configure a larger ring")      \
    X(TOO_LARGE, 29, "it can never fit into the ring",                                             \
      "configure the ring with at least the size that the detail gives")                           \
    X(BAD_TASK, 30, "no such task, or not in this state",                                          \
      "use a handle that this runtime gave, and complete a pending task once")                     \
    X(BAD_KERNEL, 31, "no such kernel", "use what pto_kernel_register gave for this runtime")      \
    X(BAD_WORKER, 32, "wrong worker type, or no worker serves it",                                 \
      "submit with the type of the kernel, and configure a worker for it")                         \
    X(BAD_PARAM, 33, "a parameter that cannot be",                                                 \
      "make parameters with pto_input, pto_output, pto_inout, pto_scalar and pto_after")           \
    X(STALE, 34, "the managed tensor outlived its scope",                                          \
      "use it inside of the scope it was created in, or create it further out")                    \
    X(BAD_VERSION, 35, "another version of the buffer than the current one",                       \
      "read and update the current version, or write the next one as an output")                   \
    X(NO_SCOPE, 36, "managed memory outside of every scope", "open one: PTO_SCOPE(rt) { ... }")    \
    X(OPEN_SCOPE, 37, "a scope is still open", "end it, or destroy with PTO_CANCEL")               \
    X(BAD_SCOPE, 38, "no scope is open", "pair every end with a begin; PTO_SCOPE does it")         \
    X(NOT_CONTIGUOUS, 39, "the tensor must be whole and dense here",                               \
      "write all of it first, or give it memory with pto_alloc and write views of it")             \
    X(NOT_WRITTEN, 40, "the managed tensor has no memory yet",                                     \
      "write it first, as an output, with pto_write or through pto_alloc")                         \
    X(BAD_MEMORY, 41, "user memory inside of the runtime's own",                                   \
      "use the managed tensor itself rather than its address")                                     \
    X(WRONG_THREAD, 42, "called on another thread than the orchestrating one, or in a kernel",     \
      "only the thread that created the runtime submits, scopes, waits and reads")                 \
    X(BAD_OPCODE, 43, "unknown operation of a work request", "use one of pto_work_opcode")         \
    X(BAD_INDEX, 44, "an index out of range", "the detail names index and range")                  \
    X(SYSTEM, 45, "the operating system refused", "the detail has its words")                      \
    X(NOT_IMPLEMENTED, 46, "the operator has no implementation for this device",                   \
      "register one with pto_op_register, or move the data to a device that has one")              \
    X(DEVICES_DIFFER, 47, "the tensors are on different devices", "copy them to one device first") \
    X(SELF_OVERLAP, 48, "elements of the destination share memory",                                \
      "give a destination in which every element has bytes of its own: no broadcast")              \
    X(BAD_PLAN, 49, "the plan was made for other tensors",                                         \
      "run it on tensors of the layout, device and alignment it was made for, or make another")    \
    X(BAD_FILE, 50, "not a file of the kind that is wanted, or a damaged one",                     \
      "the detail says where; record the trace again, or use a library as new as the file")

/* How a call ended: PTO_OK, which is 0, or a code that says what went wrong. */
typedef enum pto_status {
#define PTO_STATUS_ENUM(name, value, text, hint) PTO_##name = (value),
    PTO_STATUS_MAP(PTO_STATUS_ENUM)
#undef PTO_STATUS_ENUM
} pto_status;

/* Name ("PTO_OUT_OF_BOUNDS"), meaning and advice of a code; never NULL. An unknown code has a
 * name, text and hint that say so. */
PTO_API const char *pto_status_name(pto_status status);
PTO_API const char *pto_status_text(pto_status status);
PTO_API const char *pto_status_hint(pto_status status);

/* The last failure on this thread in words, with the numbers in it. It stays until the next
 * failure on this thread, success does not clear it; "" if nothing ever failed here. */
PTO_API const char *pto_error_detail(void);

/* Version of the library that is loaded, as "1.2.3"; PTO_VERSION is the one compiled against. */
#define PTO_VERSION_MAJOR 0
#define PTO_VERSION_MINOR 1
#define PTO_VERSION_PATCH 0
#define PTO_VERSION "0.1.0"
PTO_API const char *pto_version(void);

#ifdef __cplusplus
}
#endif

#endif /* PTO_STATUS_H */
