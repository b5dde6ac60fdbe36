/* program_data.h - what a program is: operations in a list, and a configuration to run them in.
 *
 * Plain data, decided by a seed. An operation names what it works on by the number of the operation
 * that made it, so any of them can be left out: those that need it are left out with it, and the
 * rest is still a program. This is how a failing program is reduced.
 */
#ifndef PTO_TEST_PROGRAM_DATA_H
#define PTO_TEST_PROGRAM_DATA_H

#include <pto/device.h>
#include <pto/process.h>
#include <pto/rearrange.h>
#include <pto/sim.h>
#include <pto/work.h>

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "support.h"

#define PROGRAM_OPS 192
#define PROGRAM_PARAMS 1024 /* of all operations together */
#define PROGRAM_TASKS (4 * PROGRAM_OPS)
#define PROGRAM_DIMS 3
#define PROGRAM_WORKERS 4
#define PROGRAM_NOBODY UINT32_MAX

/* Memory of the user. */
typedef enum program_area {
    AREA_MAIN,    /* all tasks read and write it, through aliases of all kinds */
    AREA_SIDE,    /* a second one like it */
    AREA_FIXED,   /* no task writes it: pto_nodep is harmless here */
    AREA_VOUCHED, /* each piece is written by one task; readers name that task with pto_after */
    AREA_SIM0,    /* like AREA_MAIN, on sim:0 ... */
    AREA_SIM1,    /* ... and sim:1; only in programs that use devices */
    AREA_COUNT
} program_area;

static const uint32_t program_area_bytes[AREA_COUNT] = {768, 256, 128, 512, 384, 384};

/* Devices of a program: 0 is the host, 1 is sim:0, 2 is sim:1. */
#define PROGRAM_DEVICES 3

static inline pto_device program_device(uint32_t number)
{
    return number ? (pto_device){PTO_DEVICE_SIM, (int32_t)number - 1}
                  : (pto_device){PTO_DEVICE_CPU, 0};
}

static inline uint32_t program_device_number(pto_device device)
{
    return device.type == PTO_DEVICE_SIM ? (uint32_t)device.index + 1 : 0;
}

static inline uint32_t program_area_device(program_area area)
{
    return area >= AREA_SIM0 ? (uint32_t)area - AREA_SIM0 + 1 : 0;
}

/* X(name, text) */
#define PROGRAM_KIND_MAP(X)                                                                        \
    X(EXTERNAL, "external")   /* a tensor over memory of the user */                               \
    X(SCOPE, "scope")         /* opens one */                                                      \
    X(END, "end")             /* ends one */                                                       \
    X(TEMP, "temp")           /* pto_temp */                                                       \
    X(BUFFER, "buffer")       /* pto_create_buffer and pto_managed_tensor */                       \
    X(ALLOC, "alloc")         /* pto_alloc */                                                      \
    X(RECAST, "recast")       /* the bytes of a managed tensor under another dtype */              \
    X(RELEASE, "release")     /* pto_release */                                                    \
    X(SUBMIT, "submit")       /* a task */                                                         \
    X(READ, "read")           /* pto_read; its value decides about operations with a guard */      \
    X(WRITE, "write")         /* pto_write */                                                      \
    X(WAIT, "wait")           /* pto_wait */                                                       \
    X(WAIT_TASK, "wait_task") /* pto_wait_task */                                                  \
    X(CLEAR, "clear")         /* pto_clear_error */                                                \
    X(CANCEL, "cancel")       /* waits, cancels, checks that submit is refused, clears */          \
    X(INFO, "info")           /* pto_task_info and pto_task_get_output */                          \
    X(CHECK, "check")         /* pto_check in the middle */                                        \
    X(REFUSED, "refused")     /* calls that are always wrong */                                    \
    X(COPY, "copy")           /* pto_copy, between any two devices */                              \
    X(FAULT, "fault")         /* pto_sim_fail: a device is told to fail */                         \
    X(REPAIR, "repair")       /* pto_sim_repair, of all devices */

typedef enum program_kind {
#define PROGRAM_KIND_ENUM(name, text) OP_##name,
    PROGRAM_KIND_MAP(PROGRAM_KIND_ENUM)
#undef PROGRAM_KIND_ENUM
        OP_COUNT
} program_kind;

/* Whether an operation is executed: it depends on the value read last. */
typedef enum program_guard {
    GUARD_NONE,
    GUARD_EVEN,
    GUARD_ODD,
} program_guard;

/* How a task fails. */
typedef enum program_failure {
    FAIL_NEVER,
    FAIL_BEFORE,  /* before it writes anything */
    FAIL_AFTER,   /* after it has written everything */
    FAIL_BY_DATA, /* before, depending on the data it has read */
} program_failure;

/* How a task ends. */
typedef enum program_ending {
    END_RETURN,    /* its kernel does the work */
    END_LATER,     /* the kernel returns PTO_PENDING, another thread does the work */
    END_INSIDE,    /* the kernel does the work and completes the task itself, then returns */
    END_MEANWHILE, /* another thread completes the task before the kernel returns PTO_PENDING */
} program_ending;

/* Ways to make a submit wrong, with any tensors. X(name, status) */
#define PROGRAM_SPOIL_MAP(X)                                                                       \
    X(NOTHING, PTO_OK)                                                                             \
    X(KERNEL, PTO_BAD_KERNEL)         /* no such kernel */                                         \
    X(TYPE, PTO_BAD_WORKER)           /* a kernel of another type */                               \
    X(FORGOTTEN, PTO_BAD_PARAM)       /* a parameter of no kind */                                 \
    X(NULL_TENSOR, PTO_NULL_ARGUMENT) /* an input without a tensor */                              \
    X(UNSOUND, PTO_OUT_OF_BOUNDS)     /* an input that ends behind its storage */                  \
    X(FUTURE, PTO_BAD_TASK)           /* after a task that does not exist yet */                   \
    X(HEAP, PTO_BAD_MEMORY)           /* an input at the address of a managed tensor */

typedef enum program_spoil {
#define PROGRAM_SPOIL_ENUM(name, status) SPOIL_##name,
    PROGRAM_SPOIL_MAP(PROGRAM_SPOIL_ENUM)
#undef PROGRAM_SPOIL_ENUM
        SPOIL_COUNT
} program_spoil;

typedef struct program_param {
    pto_param_kind kind;
    bool nodep;
    int32_t version;  /* of managed memory, counted from the current one */
    uint16_t of;      /* the operation that made the tensor, or submitted the task */
    int32_t from, to; /* rows of it, if to > 0 */
    uint64_t view;    /* else the seed of a view, 0 for all of it; of a scalar, the value */
} program_param;

typedef struct program_work {
    pto_worker_type type;
    program_failure failure;
    program_ending ending;
    bool meddles;      /* makes calls that are forbidden in kernels */
    uint32_t delay[2]; /* nanoseconds, before it reads and before it writes */
} program_work;

typedef struct program_op {
    program_kind kind;
    program_guard guard;
    uint16_t of;         /* the operation it is about: RECAST, WAIT_TASK, INFO; SPOIL_HEAP */
    bool boundary;       /* SCOPE */
    bool vouched;        /* its tensor is used without dependencies, see make_vouched */
    program_spoil spoil; /* SUBMIT */
    program_work work;   /* SUBMIT */
    program_area area;   /* EXTERNAL */
    uint32_t at;         /* EXTERNAL: where its base pointer is. REFUSED: which call. FAULT: which.
                            COPY: as an operator, if it can be */
    uint32_t device;     /* of the memory it makes; FAULT: that fails */
    pto_dtype dtype;     /* of the tensor it makes */
    int32_t ndim;        /* */
    int64_t shape[PROGRAM_DIMS];
    uint64_t seed; /* WRITE: the contents. EXTERNAL: strides, if not 0. FAULT: which one fails */
    uint32_t first_param, n_params;
} program_op;

typedef struct program {
    uint64_t seed;
    pto_config config; /* its worker_types are set anew for each run: a program may be copied */
    uint32_t worker_types[PROGRAM_WORKERS];
    bool types_apart; /* worker_types is used */
    bool devices;     /* it uses sim:0 and sim:1, too */
    pto_ending ending;
    program_op op[PROGRAM_OPS];
    uint32_t n_ops;
    program_param param[PROGRAM_PARAMS];
    uint32_t n_params;
    bool dropped[PROGRAM_OPS]; /* left out by the reduction */
} program;

/* Kinds of programs. */
typedef enum program_profile {
    PROFILE_ALL,  /* of everything */
    PROFILE_RACE, /* workers, delays, little memory, no failures: mistakes show soon */
    PROFILE_FAIL, /* many failures, in a task ring whose slots are reused soon */
    PROFILE_SAME, /* the same tensors again and again, most of them disjoint: they take the fast
                     path */
    PROFILE_DEVICE, /* tensors, copies and tasks on three devices, in tiny device heaps; devices fail */
} program_profile;

/* The default profile of a seed. */
static inline program_profile program_profile_of(uint64_t seed)
{
    static const program_profile profiles[8] = {
        [3] = PROFILE_FAIL, [5] = PROFILE_SAME, [7] = PROFILE_RACE};
    return profiles[seed % 8];
}

static inline const char *program_kind_text(program_kind kind)
{
    static const char *const texts[] = {
#define PROGRAM_KIND_TEXT(name, text) text,
        PROGRAM_KIND_MAP(PROGRAM_KIND_TEXT)
#undef PROGRAM_KIND_TEXT
    };
    return texts[kind];
}

static inline pto_status program_spoil_status(program_spoil spoil)
{
    static const pto_status statuses[] = {
#define PROGRAM_SPOIL_STATUS(name, status) status,
        PROGRAM_SPOIL_MAP(PROGRAM_SPOIL_STATUS)
#undef PROGRAM_SPOIL_STATUS
    };
    return statuses[spoil];
}

/* For calls that fail only if the test itself is wrong. */
static inline void program_must(bool good, const char *what)
{
    if (!good) {
        fprintf(stderr, "the test itself is wrong: %s (%s)\n", what, pto_error_detail());
        abort();
    }
}

static inline void *program_room(size_t count, size_t size)
{
    void *room = calloc(count ? count : 1, size);
    program_must(room != NULL, "no memory");
    return room;
}

/* Memory that worker processes share with the program, at the same addresses: it is mapped before
 * they are forked. Nothing is freed before the end. */
typedef struct program_arena {
    char *memory;
    size_t used;
} program_arena;

#define ARENA_BYTES ((size_t)256 << 20) /* of address space */

static inline void arena_open(program_arena *a)
{
    a->memory = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    a->used = 0;
    program_must(a->memory != MAP_FAILED, "no memory to share");
}

static inline void arena_close(program_arena *a)
{
    munmap(a->memory, ARENA_BYTES);
}

/* Zeroed memory of the arena, or of the heap if there is none. */
static inline void *arena_room(program_arena *a, size_t count, size_t size)
{
    if (!a) {
        return program_room(count, size);
    }
    const size_t bytes = (count * size + 63) / 64 * 64;
    program_must(bytes <= ARENA_BYTES - a->used, "the shared memory is full");
    a->used += bytes;
    return a->memory + a->used - bytes;
}

/* ---- Coverage of all programs ------------------------------------------------------------- */

/* A case that never occurs is not tested. X(name, text) */
#define PROGRAM_SEEN_MAP(X)                                                                        \
    X(TASKS, "tasks")                                                                              \
    X(SKIPPED, "tasks skipped")                                                                    \
    X(FAILED, "tasks failed")                                                                      \
    X(BY_DATA, "tasks failed by data")                                                             \
    X(LATER, "pending tasks")                                                                      \
    X(MEDDLED, "kernels that meddled")                                                             \
    X(AFTER_BAD, "tasks skipped by pto_after alone")                                               \
    X(HEALED, "poison that a write covered")                                                       \
    X(NODEP, "parameters without dependencies")                                                    \
    X(MANY, "tasks with more than 16 parameters")                                                  \
    X(EMPTY, "tensors without elements")                                                           \
    X(VERSIONS, "next versions")                                                                   \
    X(OWNED, "managed tensors that a task brought to life")                                        \
    X(READS, "reads")                                                                              \
    X(BRANCHES, "operations that a branch went around")                                            \
    X(READ_POISON, "reads of poison")                                                              \
    X(WAIT_FAILED, "waits that reported a failure")                                                \
    X(CLEARED, "failures cleared")                                                                 \
    X(CANCELLED, "cancels")                                                                        \
    X(CONSUMED, "tasks seen consumed")                                                             \
    X(HELD, "tasks seen completed and held")                                                       \
    X(REFUSED, "calls refused")                                                                    \
    X(STALE, "stale tensors refused")                                                              \
    X(VERSION, "wrong versions refused")                                                           \
    X(UNWRITTEN, "tensors without memory refused")                                                 \
    X(GIVEN_UP, "tensors given up")                                                                \
    X(STALLED_HEAP, "stalls of a heap")                                                            \
    X(STALLED_BUFFERS, "stalls of buffers")                                                        \
    X(OUTER, "tensors of an outer lifetime that a task brought to life")                           \
    X(TOO_LARGE, "tasks that cannot fit")                                                          \
    X(WAITED_TASKS, "waits for a task ring")                                                       \
    X(WAITED_HEAP, "waits for a heap")                                                             \
    X(WAITED_ARGS, "waits for arguments")                                                          \
    X(WAITED_DEPS, "waits for edges")                                                              \
    X(WAITED_MAP, "waits for the map")                                                             \
    X(HELPED, "tasks that the orchestrating thread ran")                                           \
    X(INLINE, "tasks that submit ran itself")                                                      \
    X(OPEN, "runtimes with a scope open at their end")                                             \
    X(PROCESS, "runtimes with worker processes")                                                   \
    X(POSTED, "pending tasks of worker processes that the program completed")                      \
    /* with devices, see program_sees_devices */                                                   \
    X(ON_DEVICE, "tasks on a device")                                                              \
    X(COPIES, "copies")                                                                            \
    X(COPIES_IN, "copies from the host to a device")                                               \
    X(COPIES_OUT, "copies from a device to the host")                                              \
    X(COPIES_ACROSS, "copies from one device to another")                                          \
    X(OPERATORS, "operators on a device")                                                          \
    X(COPIES_OVERLAP, "copies that failed because both sides share memory")                        \
    X(APART, "tasks refused with tensors on two devices")                                          \
    X(NO_WORKER, "tasks refused for want of a worker of the device")                               \
    X(DEVICE_STALLED, "stalls of a heap of a device")                                              \
    X(DEVICE_KERNEL, "kernels that a device failed to start")                                      \
    X(DEVICE_COPY, "copies that a device failed at")                                               \
    X(DEVICE_ALLOC, "heaps that a device could not allocate")                                      \
    X(DEVICE_READ, "reads that a device failed at")                                                \
    X(DEVICE_WRITE, "writes that a device failed at")                                              \
    X(DEVICE_LOST, "calls on a lost device")

typedef enum program_sight {
#define PROGRAM_SEEN_ENUM(name, text) SEEN_##name,
    PROGRAM_SEEN_MAP(PROGRAM_SEEN_ENUM)
#undef PROGRAM_SEEN_ENUM
        SEEN_COUNT
} program_sight;

typedef struct program_sights {
    uint64_t count[SEEN_COUNT];
} program_sights;

/* Whether a case only occurs in programs that use devices. */
static inline bool program_sees_devices(int sight)
{
    return sight >= SEEN_ON_DEVICE;
}

static inline const char *program_sight_text(program_sight sight)
{
    static const char *const texts[] = {
#define PROGRAM_SEEN_TEXT(name, text) text,
        PROGRAM_SEEN_MAP(PROGRAM_SEEN_TEXT)
#undef PROGRAM_SEEN_TEXT
    };
    return texts[sight];
}

#endif /* PTO_TEST_PROGRAM_DATA_H */
