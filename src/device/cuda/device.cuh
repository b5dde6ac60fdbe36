/* device.cuh - one NVIDIA GPU: its streams, the order between them, staging memory, and what happens
 * when it is lost. For the device library only. */
#ifndef PTOI_DEVICE_CUH
#define PTOI_DEVICE_CUH

#include <cuda_runtime.h>
#include <pthread.h>

#include "device/cuda/api.h"

enum { WORK, IN, OUT, STREAMS };

/* Pinned memory through which pageable memory is copied. A slot is filled by copies one after
 * another; it is free again when its event has passed.
 *
 *     slot   [ copy | copy | copy |      ]   `used` bytes
 *     out    each copy also has its target on the host, which is written when the event has passed */
constexpr uint32_t SLOTS = 16, SLOT_COPIES = 64;
constexpr uint64_t SLOT_BYTES = 256 << 10;

struct staged {
    void *to;
    const char *from;
    uint64_t bytes;
};

struct slot {
    char *memory;
    uint64_t used;
    bool recorded; /* the event covers everything in it */
    cudaEvent_t passed;
    uint32_t n; /* copies to the host that are not done */
    struct staged copy[SLOT_COPIES];
};

struct ring {
    struct slot slot[SLOTS];
    uint32_t at;
    char *memory; /* NULL until it is first needed */
};

/* An operation, kept as it is until somebody wants to read about it. */
struct suspect {
    const char *what;
    uint64_t bytes; /* of a copy; 0: the operation is on `tensor` */
    pto_tensor tensor;
};

/* Fields are protected by `lock`, except those that are set once. */
struct ptoi_cuda {
    int32_t index;
    ptoi_cuda_fail *fail;
    ptoi_cuda_facts facts;
    pthread_mutex_t lock;
    cudaStream_t stream[STREAMS];
    cudaEvent_t event[STREAMS];
    /* seen[a][b]: stream a waits for everything that was started on b so far. */
    bool seen[STREAMS][STREAMS];
    bool busy[STREAMS]; /* something was started since the last synchronize */
    struct ring ring[STREAMS]; /* IN and OUT */
    /* Operations since the last synchronize that succeeded: the suspects if the device is lost. */
    uint64_t suspects;
    uint64_t started; /* operations ever: unlike `suspects` it does not return to an old value */
    struct suspect first;
    char lost[400]; /* not empty: the device is lost, and this says why */
};

/* Turns a failed CUDA call into a status with a detail. If the device is lost, this notes it. */
pto_status ptoi_cuda_error(ptoi_cuda *device, cudaError_t error, const char *what);

/* The same for callers that do not hold the lock. */
pto_status ptoi_cuda_report(void *self, cudaError_t error, const char *what);

/* ---- copy.cu ---- */

pto_status ptoi_cuda_copy_in(void *self, void *to, const void *from, uint64_t bytes);
pto_status ptoi_cuda_copy_out(void *self, void *to, const void *from, uint64_t bytes);

/* The lock is held. Writes the copies to the host that are staged; waits for them first if they may
 * still be in progress. */
cudaError_t ptoi_cuda_land(ptoi_cuda *device, bool in_progress);

/* The last functions of ptoi_cuda_api. */
pto_status ptoi_cuda_pin(void *self, uint64_t bytes, void **memory);
bool ptoi_cuda_is_pinned(void *self, const void *memory);
pto_status ptoi_cuda_follow(void *self, void *stream);
pto_status ptoi_cuda_carry(void *self, void *stream, void *to, const void *from, uint64_t bytes,
                           bool in);

/* ---- stream.cu ---- */

/* Streams for the tasks of a runtime. The driver has 8 queues by default (CUDA_DEVICE_MAX_CONNECTIONS):
 * with more streams, two would share one and wait for each other. */
enum { TASK_STREAMS = 8 };

/* Fills in the functions for tasks on streams. */
void ptoi_cuda_add_streams(pto_device_ops *ops);

/* ---- grid.cu ---- */

/* Fills in the functions for a device that schedules for itself. */
void ptoi_cuda_add_grid(pto_device_ops *ops);

/* ---- device.cu ---- */

/* The lock is held. Makes stream `s` wait for what it has to wait for, and notes that something is
 * about to be started on it. */
cudaError_t ptoi_cuda_order(ptoi_cuda *device, int s);

/* The lock is held. PTO_DEVICE_LOST if the device is lost, else notes a suspect: an operation on a
 * tensor, or, if that is NULL, on so many bytes. */
pto_status ptoi_cuda_begin(ptoi_cuda *device, const char *what, const pto_tensor *tensor,
                           uint64_t bytes);

#endif /* PTOI_DEVICE_CUH */
