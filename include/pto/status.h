/* pto/status.h - the status that functions return, and error messages.
 *
 * A function that can fail returns a `pto_status`. It does not abort or print. After a failure, on
 * the same thread:
 *
 *     pto_status_text(s)  what the code means   "no such dimension"
 *     pto_status_hint(s)  what to do about it   "dimensions count from 0 (outermost) to ndim - 1"
 *     pto_error_detail()  this one failure      "slice: dim 3 of a tensor with 2 dims"
 *
 * All codes are in one table, PTO_STATUS_MAP.
 *
 * A status that is dropped is a failure that nobody notices, so gcc and clang warn about it, in C
 * and in C++ (PTO_MUST_CHECK). Where a status does not matter, PTO_IGNORE says so:
 *
 *     PTO_IGNORE(pto_task_complete(rt, task, PTO_OK));    // a cast to void would not silence gcc
 *
 * Code that cannot be changed compiles without these warnings if PTO_ALLOW_IGNORED_STATUS is
 * defined before the first header of pto is included, or with -DPTO_ALLOW_IGNORED_STATUS.
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

#if defined(__GNUC__) && !defined(PTO_ALLOW_IGNORED_STATUS)
#define PTO_MUST_CHECK __attribute__((warn_unused_result))
#else
#define PTO_MUST_CHECK
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, value, text, hint). Values are stable: new codes are added at the end. */
#define PTO_STATUS_MAP(X)                                                                          \
    X(OK, 0, "success", "nothing to do")                                                           \
    X(NULL_ARGUMENT, 1, "a required pointer is NULL", "pass the argument that the detail names")   \
    X(BAD_DTYPE, 2, "data type unknown, or not the one that is needed",                            \
      "use one of the pto_dtype values of pto/tensor.h; the detail says which one fits")           \
    X(BAD_NDIM, 3, "number of dimensions out of range",                                            \
      "a tensor has 0 to PTO_MAX_DIMS dimensions; merge some with a reshape")                      \
    X(BAD_SHAPE, 4, "negative or mismatched size",                                                 \
      "sizes are zero or more and must agree with the source as the detail says")                  \
    X(OUT_OF_BOUNDS, 5, "index or range outside the tensor or its storage",                        \
      "compare the numbers in the detail with shape, strides, offset and storage_bytes")           \
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
    X(BUFFER_TOO_SMALL, 12, "the given memory is too small",                                       \
      "provide at least the size in the detail (for copies see pto_tensor_nbytes)")                \
    X(OVERLAP, 13, "source and destination share memory", "give the destination separate storage") \
    X(BAD_DEVICE, 14, "no such device, or memory on a device where it is not usable here",         \
      "use a device that `pto info` lists, or copy the data to one (pto_copy)")                    \
    X(BAD_DLPACK, 15, "malformed or unsupported DLPack tensor",                                    \
      "export it with whole-byte elements, lanes = 1 and DLPack major version 1 or the legacy "    \
      "struct")                                                                                    \
    X(BAD_CONFIG, 16, "a configuration value is out of range",                                     \
      "use 0 for the default, or a value in the range that the detail gives")                      \
    X(OUT_OF_MEMORY, 17, "out of memory",                                                          \
      "request less memory, or raise the limit of the process (ulimit -v)")                        \
    X(FULL, 18, "no free entry",                                                                   \
      "make room as the detail says: retire tasks of a map, or configure more entries")            \
    X(BAD_ORDER, 19, "a task id or watermark goes backwards",                                      \
      "insert in submission order, and never lower a watermark")                                   \
    X(BAD_LEVEL, 20, "no such ring level",                                                         \
      "levels count from 0 to the configured number of levels - 1")                                \
    X(CORRUPT, 21, "an internal invariant does not hold",                                          \
      "a bug in the runtime, or in code that overwrote its memory: please report it")              \
    X(BAD_ACCESS, 22, "neither a read nor a write",                                                \
      "use PTO_MAP_READ for reads, and PTO_MAP_WRITE for writes and updates")                      \
    X(PENDING, 23, "not done yet",                                                                 \
      "a kernel returns it if pto_task_complete will be called later")                             \
    X(KERNEL_FAILED, 24, "a kernel failed", "see the message of the kernel in the detail")         \
    X(TASK_FAILED, 25, "a task failed",                                                            \
      "the detail names task, kernel and submit site; pto_clear_error lets the runtime continue")  \
    X(POISONED, 26,                                                                                \
      "the memory is invalid: the task that should have written it failed or was skipped",         \
      "pto_wait reports the first failure; write the memory again, or call pto_clear_error")       \
    X(CANCELLED, 27, "cancelled", "pto_clear_error lets the runtime continue")                     \
    X(STALLED, 28, "deadlock: no room can ever become free",                                       \
      "end the scope that the detail names, give memory up earlier (PTO_BOUNDARY, pto_release), "  \
      "or configure more of what the detail names")                                                \
    X(TOO_LARGE, 29, "does not fit into an empty ring",                                            \
      "configure the ring with at least the size in the detail")                                   \
    X(BAD_TASK, 30, "no such task, or not in this state",                                          \
      "use a handle from this runtime, and complete a pending task only once")                     \
    X(BAD_KERNEL, 31, "no such kernel",                                                            \
      "use a kernel that pto_kernel_register returned for this runtime, and that every worker "    \
      "process has")                                                                               \
    X(BAD_WORKER, 32, "wrong worker type, or no worker serves it",                                 \
      "submit with the type of the kernel, and configure a worker for that type")                  \
    X(BAD_PARAM, 33, "invalid parameter",                                                          \
      "make parameters with pto_input, pto_output, pto_inout, pto_scalar and pto_after")           \
    X(STALE, 34, "the managed tensor is not alive: its scope has ended, or it was given up",       \
      "if its scope has ended, create it in an outer scope; if pto_release gave it up, do that "   \
      "later")                                                                                     \
    X(BAD_VERSION, 35, "not the current version of the buffer",                                    \
      "read and update the current version, or write the next one as an output")                   \
    X(NO_SCOPE, 36, "managed memory needs an open scope", "open one: PTO_SCOPE(rt) { ... }")       \
    X(OPEN_SCOPE, 37, "a scope is still open", "end it, or destroy with PTO_CANCEL")               \
    X(BAD_SCOPE, 38, "no scope is open", "pair every end with a begin, as PTO_SCOPE does")         \
    X(NOT_CONTIGUOUS, 39, "the tensor must be whole and dense here",                               \
      "write all of it first, or give it memory with pto_alloc and write views of it")             \
    X(NOT_WRITTEN, 40, "the managed tensor has no memory yet",                                     \
      "write it first, as an output, with pto_write or through pto_alloc")                         \
    X(BAD_MEMORY, 41, "memory that cannot be used here",                                           \
      "use managed tensors, or memory that the device or worker process of the task can reach")    \
    X(WRONG_THREAD, 42,                                                                            \
      "called from a thread other than the orchestrating thread, or from a kernel",                \
      "submit, open scopes, wait and read only on the thread that created the runtime")            \
    X(BAD_OPCODE, 43, "unknown operation of a work request", "use a value of pto_work_opcode")     \
    X(BAD_INDEX, 44, "index out of range", "see the index and its range in the detail")            \
    X(SYSTEM, 45, "the operating system refused a request", "see its message in the detail")       \
    X(NOT_IMPLEMENTED, 46, "the operator or kernel has no implementation for this device",         \
      "add one (pto_op_register, pto_kernel_variant), or copy the data to a device that has one")  \
    X(DEVICES_DIFFER, 47, "the tensors are on different devices",                                  \
      "copy them to one device (pto_copy)")                                                        \
    X(SELF_OVERLAP, 48, "elements of the destination share memory",                                \
      "use a destination whose elements do not overlap: no broadcast")                             \
    X(BAD_PLAN, 49, "the plan was made for other tensors",                                         \
      "use tensors with the layout, device and alignment of the plan, or make a new plan")         \
    X(BAD_FILE, 50, "wrong kind of file, or a damaged file",                                       \
      "the detail says where; record the trace again, or use a library as new as the file")        \
    X(BAD_DECLARATION, 51, "the declaration of a kernel cannot be read",                           \
      "correct it at the character that the detail names (pto_kernel_declare, pto/kernel.h)")      \
    X(MISMATCH, 52, "a call is not the one that was declared, or that other ranks make",           \
      "compare the two that the detail names: parameters with pto_kernel_declare, or the "         \
      "lines of two ranks of MPI")                                                                 \
    X(REFUSED, 53, "an earlier call was refused, and nobody has acknowledged it",                  \
      "check the status of the call that the detail names; call pto_refused(rt, &refusal) to "     \
      "read and acknowledge it")                                                                   \
    X(UNKNOWN_OPTION, 54, "a variable of the environment has a name that no option has",           \
      "correct its name (`pto options` lists all), or unset it")                                   \
    X(WORKER_LOST, 55, "a worker process has ended, or a rank of MPI cannot go on",                \
      "a process: call pto_recover to start a fresh one, its tasks have failed; a rank: end "      \
      "the program, the detail names what went wrong there")                                       \
    X(DEVICE_LOST, 56, "the device does not respond any more",                                     \
      "save what the host has, and start again without the device")                                \
    X(INTERRUPTED, 57, "the program ended the wait",                                               \
      "handle what interrupted it, then make the same call again (pto_set_interrupt, "             \
      "pto/embed.h)")

/* The result of a call: PTO_OK, which is 0, or an error code. */
typedef enum pto_status {
#define PTO_STATUS_ENUM(name, value, text, hint) PTO_##name = (value),
    PTO_STATUS_MAP(PTO_STATUS_ENUM)
#undef PTO_STATUS_ENUM
} pto_status;

/* Ignores the status of a call on purpose. It is an expression without a value. */
#define PTO_IGNORE(call) pto_ignore_(call)

static inline void pto_ignore_(pto_status status)
{
    (void)status;
}

/* Returns the name ("PTO_OUT_OF_BOUNDS"), the meaning or the hint of a code. Never NULL: for an
 * unknown code the texts say that it is unknown. */
PTO_API const char *pto_status_name(pto_status status);
PTO_API const char *pto_status_text(pto_status status);
PTO_API const char *pto_status_hint(pto_status status);

/* Returns the message of the last failure on this thread, with its numbers. It stays until the next
 * failure on this thread; success does not clear it. "" if nothing has failed on this thread. */
PTO_API const char *pto_error_detail(void);

/* Returns the version of the loaded library, as "1.2.3". PTO_VERSION is that of the headers. */
#define PTO_VERSION_MAJOR 0
#define PTO_VERSION_MINOR 1
#define PTO_VERSION_PATCH 0
#define PTO_VERSION "0.1.0"
PTO_API const char *pto_version(void);

#ifdef __cplusplus
}
#endif

#endif /* PTO_STATUS_H */
