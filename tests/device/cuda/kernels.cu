/* kernels.cu - see kernels.h. */
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "kernels.h"

static gpu_kernels_need need;

/* What a launch has said. */
static pto_status launched(const char *what)
{
    const cudaError_t e = cudaGetLastError();
    return e ? need.fail(PTO_KERNEL_FAILED, "%s: %s (%s)", what, cudaGetErrorString(e),
                         cudaGetErrorName(e))
             : PTO_OK;
}

static cudaStream_t stream_of(const pto_call *call)
{
    return static_cast<cudaStream_t>(call->stream);
}

/* ---- mix ---- */

enum { GOOD, PENDING, FAIL, BREAK }; /* launch_way */

static __device__ uint64_t mix_one(uint64_t h, uint64_t x)
{
    h = (h ^ x) * UINT64_C(0x9E3779B97F4A7C15);
    return h ^ (h >> 29);
}

static __global__ void mix_all(uint64_t salt, uint64_t keep, uint64_t *out, const uint64_t *a,
                               const uint64_t *b, const uint64_t *c, uint32_t n)
{
    const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        uint64_t h = mix_one(salt, keep ? out[i] : i);
        h = a ? mix_one(h, a[i]) : h;
        h = b ? mix_one(h, b[i]) : h;
        out[i] = c ? mix_one(h, c[i]) : h;
    }
}

struct ending {
    pto_runtime *rt;
    pto_task task;
};

static void CUDART_CB complete(void *context)
{
    const ending e = *static_cast<ending *>(context);
    delete static_cast<ending *>(context);
    (void)need.complete(e.rt, e.task, PTO_OK);
}

static pto_status mix(const pto_call *call)
{
    const uint64_t *in[3] = {};
    for (uint32_t k = 4; k < call->n_args; k++) {
        in[k - 4] = static_cast<const uint64_t *>(call->args[k].data);
    }
    const uint64_t way = call->args[1].u64;
    const uint32_t n = static_cast<uint32_t>(call->args[3].shape[0]);
    if (way == FAIL) {
        return need.fail(PTO_KERNEL_FAILED, "was to fail");
    }
    mix_all<<<(n + 31) / 32, 32, 0, stream_of(call)>>>(
        call->args[0].u64, call->args[2].u64, static_cast<uint64_t *>(call->args[3].data), in[0],
        in[1], in[2], n);
    const pto_status s = launched("mix");
    if (s || way == GOOD) {
        return s;
    }
    if (way == BREAK) {
        return need.fail(PTO_KERNEL_FAILED, "was to break");
    }
    if (cudaLaunchHostFunc(stream_of(call), complete, new ending{call->rt, call->task})) {
        return launched("mix, pending");
    }
    return PTO_PENDING;
}

/* ---- Others ---- */

static __global__ void do_nothing() {}

static pto_status nothing(const pto_call *call)
{
    do_nothing<<<1, 32, 0, stream_of(call)>>>();
    return launched("nothing");
}

static __global__ void do_spin(uint64_t ns)
{
    uint64_t begin, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
    do {
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while (now - begin < ns);
}

static pto_status spin(const pto_call *call)
{
    do_spin<<<1, 32, 0, stream_of(call)>>>(call->args[call->n_args - 1].u64);
    return launched("spin");
}

static __global__ void do_wild(uint64_t *where)
{
    *where = 1;
}

static pto_status wild(const pto_call *call)
{
    do_wild<<<1, 1, 0, stream_of(call)>>>(reinterpret_cast<uint64_t *>(0x10000));
    return launched("wild");
}

static pto_status too_big(const pto_call *call)
{
    do_nothing<<<1, 4096, 0, stream_of(call)>>>();
    return launched("too big");
}

/* ---- By hand ---- */

static void must(cudaError_t e)
{
    if (e) {
        fprintf(stderr, "kernels.cu: %s\n", cudaGetErrorString(e));
        exit(2);
    }
}

static double now_ns()
{
    timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

enum { STREAMS = 8 };

static cudaStream_t *own_streams()
{
    static cudaStream_t streams[STREAMS];
    for (int i = 0; i < STREAMS && !streams[i]; i++) {
        must(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
    }
    return streams;
}

static double spin_on(int streams, int count, int ns, bool checked)
{
    cudaStream_t *stream = own_streams();
    double begin = 0;
    for (int k = -10; k < count; k++) {
        if (k == 0) {
            must(cudaDeviceSynchronize());
            begin = now_ns();
        }
        if (ns) {
            do_spin<<<1, 32, 0, stream[(k + 16) % streams]>>>(static_cast<uint64_t>(ns));
        } else {
            do_nothing<<<1, 32, 0, stream[(k + 16) % streams]>>>();
        }
        if (checked) {
            must(cudaGetLastError());
        }
    }
    must(cudaGetLastError());
    for (int i = 0; i < streams; i++) {
        must(cudaStreamSynchronize(stream[i]));
    }
    return (now_ns() - begin) / count;
}

static double spins(int streams, int count, int ns)
{
    return spin_on(streams, count, ns, false);
}

static double chain(int count, int ns)
{
    return spin_on(1, count, ns, true);
}

static double events(int count, int record, int query, int wait)
{
    cudaStream_t *stream = own_streams();
    static cudaEvent_t event;
    if (!event) {
        must(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    }
    must(cudaDeviceSynchronize());
    const double begin = now_ns();
    for (int k = 0; k < count; k++) {
        do_nothing<<<1, 32, 0, stream[0]>>>();
        if (record && k % record == 0) {
            must(cudaEventRecord(event, stream[0]));
        }
        if (query && k % query == 0) {
            (void)cudaEventQuery(event);
            (void)cudaGetLastError();
        }
        if (wait && k % wait == 0) {
            must(cudaStreamWaitEvent(stream[1], event, 0));
        }
    }
    must(cudaStreamSynchronize(stream[0]));
    return (now_ns() - begin) / count;
}

static double launches(int streams, int count)
{
    return spins(streams, count, 0);
}

extern "C" __attribute__((visibility("default"))) const gpu_kernels *
gpu_kernels_get(const gpu_kernels_need *functions)
{
    static const gpu_kernels kernels = {mix,     nothing,  spin,  wild,  too_big,
                                        launches, spins, chain, events};
    need = *functions;
    return &kernels;
}
