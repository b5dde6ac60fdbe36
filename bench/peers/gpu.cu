/* gpu.cu - CUDA called by hand, for bench_gpu. */
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "gpu.h"

static void must(cudaError_t e)
{
    if (e != cudaSuccess) {
        fprintf(stderr, "gpu.cu: %s\n", cudaGetErrorString(e));
        exit(2);
    }
}

static double now_ns()
{
    timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static __global__ void nothing() {}

static double empty_launches(void *stream, int launches)
{
    cudaStream_t s = static_cast<cudaStream_t>(stream);
    double begin = 0;
    for (int k = -10; k < launches; k++) {
        if (k == 0) {
            must(cudaStreamSynchronize(s));
            begin = now_ns();
        }
        nothing<<<1, 32, 0, s>>>();
    }
    must(cudaStreamSynchronize(s));
    return (now_ns() - begin) / launches;
}

static double copies(void *host, void *device, uint64_t bytes, bool in, int count)
{
    static cudaStream_t s;
    if (!s) {
        must(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    }
    double begin = now_ns();
    for (int k = 0; k < count; k++) {
        must(in ? cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, s)
                : cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, s));
    }
    must(cudaStreamSynchronize(s));
    return (now_ns() - begin) / count;
}

static double device_copies(void *to, const void *from, uint64_t bytes, void *stream, int count)
{
    cudaStream_t s = static_cast<cudaStream_t>(stream);
    double begin = 0;
    for (int k = -2; k < count; k++) {
        if (k == 0) {
            must(cudaStreamSynchronize(s));
            begin = now_ns();
        }
        must(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, s));
    }
    must(cudaStreamSynchronize(s));
    return (now_ns() - begin) / count;
}

static double memsets(void *to, uint64_t bytes, void *stream, int count)
{
    cudaStream_t s = static_cast<cudaStream_t>(stream);
    double begin = now_ns();
    for (int k = 0; k < count; k++) {
        must(cudaMemsetAsync(to, 1, bytes, s));
    }
    must(cudaStreamSynchronize(s));
    return (now_ns() - begin) / count;
}

static char *pinned(uint64_t bytes)
{
    void *memory;
    must(cudaHostAlloc(&memory, bytes, cudaHostAllocPortable));
    return static_cast<char *>(memory);
}

static void spoil_capture(void *stream)
{
    cudaStream_t s = static_cast<cudaStream_t>(stream);
    must(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
    (void)cudaStreamSynchronize(s); /* not allowed in a capture */
    (void)cudaGetLastError();
}

static void end_capture(void *stream)
{
    cudaGraph_t graph = nullptr;
    (void)cudaStreamEndCapture(static_cast<cudaStream_t>(stream), &graph);
    (void)cudaGetLastError();
}

extern "C" gpu_peer *gpu_peer_get(void)
{
    static gpu_peer peer = {empty_launches, copies,        device_copies, memsets, pinned,
                            spoil_capture,  end_capture};
    return &peer;
}
