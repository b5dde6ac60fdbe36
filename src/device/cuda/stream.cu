/* stream.cu - streams and events of an NVIDIA GPU, for the tasks of runtimes (worker/streams.h). Runs on
 * the host. Each stream and each event belongs to one thread, the launcher of a runtime or another, so
 * they take the lock of the device only to report an error. */
#include "device/cuda/device.cuh"

static pto_status stream_create(void *self, void **stream)
{
    cudaStream_t made = nullptr;
    const cudaError_t e = cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking);
    *stream = made;
    return e ? ptoi_cuda_report(self, e, "a stream") : PTO_OK;
}

static void stream_destroy(void *, void *stream)
{
    (void)cudaStreamDestroy(static_cast<cudaStream_t>(stream));
    (void)cudaGetLastError(); /* of a lost device nothing is left */
}

static pto_status event_create(void *self, void **event)
{
    cudaEvent_t made = nullptr;
    const cudaError_t e = cudaEventCreateWithFlags(&made, cudaEventDisableTiming);
    *event = made;
    return e ? ptoi_cuda_report(self, e, "an event") : PTO_OK;
}

static void event_destroy(void *, void *event)
{
    (void)cudaEventDestroy(static_cast<cudaEvent_t>(event));
    (void)cudaGetLastError();
}

static pto_status event_record(void *self, void *event, void *stream)
{
    const cudaError_t e =
        cudaEventRecord(static_cast<cudaEvent_t>(event), static_cast<cudaStream_t>(stream));
    return e ? ptoi_cuda_report(self, e, "an event of a stream") : PTO_OK;
}

static pto_status event_query(void *self, void *event, bool *passed)
{
    const cudaError_t e = cudaEventQuery(static_cast<cudaEvent_t>(event));
    *passed = e == cudaSuccess;
    if (e == cudaErrorNotReady) {
        (void)cudaGetLastError();
        return PTO_OK;
    }
    return e ? ptoi_cuda_report(self, e, "work on a stream") : PTO_OK;
}

static pto_status event_wait(void *self, void *stream, void *event)
{
    const cudaError_t e = cudaStreamWaitEvent(static_cast<cudaStream_t>(stream),
                                              static_cast<cudaEvent_t>(event), 0);
    return e ? ptoi_cuda_report(self, e, "a stream that waits for another") : PTO_OK;
}

void ptoi_cuda_add_streams(pto_device_ops *ops)
{
    ops->streams = TASK_STREAMS;
    ops->stream_create = stream_create;
    ops->stream_destroy = stream_destroy;
    ops->event_create = event_create;
    ops->event_destroy = event_destroy;
    ops->event_record = event_record;
    ops->event_query = event_query;
    ops->event_wait = event_wait;
}
