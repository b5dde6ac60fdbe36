/* resident.cu - see resident.h.
 *
 * The prototype from which place gpu was made, kept as it was measured: a host thread writes tasks one by
 * one into pinned memory, a mover warp copies them, four warps resolve 128 tasks at a time with one list of
 * waiters for each producer, and blocks run and complete them.
 */
#include "resident.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <vector>

static void must(cudaError_t e)
{
    if (e) {
        fprintf(stderr, "resident.cu: %s\n", cudaGetErrorString(e));
        exit(2);
    }
}

static double now_ns()
{
    timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static cudaStream_t own_stream()
{
    static cudaStream_t stream;
    if (!stream) {
        must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    }
    return stream;
}

template <class T> static T *pinned(size_t count)
{
    void *memory = nullptr;
    must(cudaHostAlloc(&memory, count * sizeof(T), cudaHostAllocMapped));
    memset(memory, 0, count * sizeof(T));
    return static_cast<T *>(memory);
}

/* ---- Shapes ---- */

enum { CELLS = 64, MOST_PRODUCERS = 3 };

/* The producers of task i, from 1 on. Tasks are numbered from 1. */
static uint32_t producers(resident_shape shape, uint32_t i, uint32_t *refs)
{
    uint32_t n = 0;
    if (shape == RESIDENT_CHAIN && i > 1) {
        refs[n++] = i - 1;
    }
    if (shape == RESIDENT_STENCIL && i > CELLS) {
        const uint32_t cell = (i - 1) % CELLS, before = i - CELLS;
        refs[n++] = before;
        if (cell) {
            refs[n++] = before - 1;
        }
        if (cell < CELLS - 1) {
            refs[n++] = before + 1;
        }
    }
    return n;
}

/* ---- The prototype: on the device ---- */

struct alignas(64) slot {
    uint32_t fanin, ref[MOST_PRODUCERS];
    uint64_t args[6];
};

static const uint32_t EMPTY = 0, CLOSED = 0xffffffffu;
enum { RESOLVER_WARPS = 4, REPORT = 1024, THREADS = 32 * (RESOLVER_WARPS + 1) };

struct grid {
    slot *slots;
    uint32_t *waiters, *next, *cursor, *ready;
    uint32_t *head, *tail, *ticket, *done;
    uint32_t n;
    const uint32_t *host_head;
    const slot *host_slots;
    uint32_t *host_done;
    uint64_t *sum;
};

static __device__ __forceinline__ uint32_t load(const uint32_t *p)
{
    uint32_t v;
    asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}

static __device__ __forceinline__ uint32_t load_far(const uint32_t *p)
{
    uint32_t v;
    asm volatile("ld.acquire.sys.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}

static __device__ __forceinline__ void store(uint32_t *p, uint32_t v)
{
    asm volatile("st.release.gpu.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}

static __device__ __forceinline__ uint32_t exchange(uint32_t *p, uint32_t v)
{
    uint32_t before;
    asm volatile("atom.acq_rel.gpu.exch.b32 %0, [%1], %2;" : "=r"(before) : "l"(p), "r"(v) : "memory");
    return before;
}

static __device__ __forceinline__ uint32_t swap(uint32_t *p, uint32_t expected, uint32_t v)
{
    uint32_t before;
    asm volatile("atom.acq_rel.gpu.cas.b32 %0, [%1], %2, %3;"
                 : "=r"(before)
                 : "l"(p), "r"(expected), "r"(v)
                 : "memory");
    return before;
}

/* Whether the task can run; else it waits in the list of one producer. */
static __device__ bool resolve(const grid &g, uint32_t task, uint32_t from)
{
    const slot *s = &g.slots[task];
    for (uint32_t i = from; i < s->fanin; i++) {
        const uint32_t ref = s->ref[i];
        for (uint32_t waiters = load(&g.waiters[ref]); waiters != CLOSED;) {
            g.next[task] = waiters;
            g.cursor[task] = i;
            const uint32_t before = swap(&g.waiters[ref], waiters, task);
            if (before == waiters) {
                return false;
            }
            waiters = before;
        }
    }
    return true;
}

static __device__ void push(const grid &g, uint32_t task)
{
    store(&g.ready[atomicAdd(g.tail, 1)], task);
}

static __device__ void move(const grid &g, uint32_t lane)
{
    for (uint32_t seen = 0; seen < g.n;) {
        uint32_t head;
        do {
            head = load_far(g.host_head);
        } while (head == seen);
        const int4 *from = reinterpret_cast<const int4 *>(g.host_slots + seen + 1);
        int4 *to = reinterpret_cast<int4 *>(g.slots + seen + 1);
        const uint32_t units = (head - seen) * (sizeof(slot) / sizeof(int4));
        for (uint32_t i = lane; i < units; i += 32 * 8) {
            int4 unit[8];
#pragma unroll
            for (uint32_t k = 0; k < 8; k++) {
                if (i + 32 * k < units) {
                    unit[k] = __ldcv(from + i + 32 * k);
                }
            }
#pragma unroll
            for (uint32_t k = 0; k < 8; k++) {
                if (i + 32 * k < units) {
                    to[i + 32 * k] = unit[k];
                }
            }
        }
        __syncwarp();
        __threadfence();
        if (lane == 0) {
            store(g.head, head);
        }
        seen = head;
    }
}

static __device__ void serve(const grid &g)
{
    const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (warp == 0) {
        move(g, lane);
        return;
    }
    uint32_t head = 0;
    for (uint32_t task = (warp - 1) * 32 + lane + 1; task <= g.n; task += RESOLVER_WARPS * 32) {
        while (head < task) {
            head = load(g.head);
        }
        if (resolve(g, task, 0)) {
            push(g, task);
        }
    }
}

/* The next ready task; 0: all are done. */
static __device__ uint32_t take(const grid &g)
{
    const uint32_t ticket = atomicAdd(g.ticket, 1);
    while (ticket < g.n) {
        const uint32_t task = load(&g.ready[ticket]);
        if (task || load(g.done) >= g.n) {
            return task;
        }
    }
    return 0;
}

/* Completes a task and returns one that it made ready; 0: none. */
static __device__ uint32_t complete(const grid &g, uint32_t task)
{
    uint32_t mine = 0, list = exchange(&g.waiters[task], CLOSED);
    const uint32_t done = atomicAdd(g.done, 1) + 1;
    if (done == g.n || done % REPORT == 0) {
        *static_cast<volatile uint32_t *>(g.host_done) = done;
    }
    while (list != EMPTY) {
        const uint32_t waiter = list;
        list = g.next[waiter];
        if (resolve(g, waiter, g.cursor[waiter] + 1)) {
            if (mine) {
                push(g, waiter);
            } else {
                mine = waiter;
            }
        }
    }
    return mine;
}

static __global__ void run_grid(grid g)
{
    __shared__ uint32_t current;
    uint32_t mine = 0;
    uint64_t sum = 0;
    if (blockIdx.x == 0) {
        serve(g);
        return;
    }
    for (;;) {
        if (threadIdx.x == 0) {
            current = mine ? mine : take(g);
        }
        __syncthreads();
        const uint32_t task = current;
        if (!task) {
            break;
        }
        sum += g.slots[task].args[0]; /* the kernel: it reads an argument */
        __syncthreads();
        if (threadIdx.x == 0) {
            mine = complete(g, task);
        }
    }
    if (threadIdx.x == 0 && sum == 12345) {
        *g.sum = sum;
    }
}

/* ---- The prototype: on the host ---- */

static struct {
    grid g;
    uint32_t *pool, *head, *done;
    slot *slots;
    size_t words;
    unsigned blocks;
} proto;

static void prototype_prepare()
{
    const size_t n = RESIDENT_MOST + 64;
    cudaDeviceProp properties;
    must(cudaGetDeviceProperties(&properties, 0));
    proto.blocks = (unsigned)properties.multiProcessorCount;
    proto.slots = pinned<slot>(n);
    proto.head = pinned<uint32_t>(1024);
    proto.done = pinned<uint32_t>(1024);
    proto.words = 4 * n + 2048;
    must(cudaMalloc(&proto.g.slots, n * sizeof(slot)));
    must(cudaMalloc(&proto.pool, proto.words * sizeof *proto.pool));
    uint32_t *counts = proto.pool + 4 * n;
    counts += (512 - reinterpret_cast<uintptr_t>(counts) % 512) / sizeof *counts;
    proto.g.waiters = proto.pool;
    proto.g.next = proto.pool + n;
    proto.g.cursor = proto.pool + 2 * n;
    proto.g.ready = proto.pool + 3 * n;
    proto.g.head = counts;
    proto.g.tail = counts + 64;
    proto.g.ticket = counts + 128;
    proto.g.done = counts + 192;
    proto.g.sum = reinterpret_cast<uint64_t *>(counts + 256);
    proto.g.host_head = proto.head;
    proto.g.host_slots = proto.slots;
    proto.g.host_done = proto.done;
}

static double prototype(resident_shape shape, uint32_t tasks)
{
    if (!proto.pool) {
        prototype_prepare();
    }
    proto.g.n = tasks;
    must(cudaMemset(proto.pool, 0, proto.words * sizeof *proto.pool));
    *static_cast<volatile uint32_t *>(proto.head) = 0;
    *static_cast<volatile uint32_t *>(proto.done) = 0;
    must(cudaDeviceSynchronize());
    run_grid<<<proto.blocks, THREADS, 0, own_stream()>>>(proto.g);
    must(cudaGetLastError());
    const double begin = now_ns();
    for (uint32_t i = 1; i <= tasks; i++) {
        slot s = {};
        s.args[0] = i;
        s.fanin = producers(shape, i, s.ref);
        proto.slots[i] = s;
        __atomic_store_n(proto.head, i, __ATOMIC_RELEASE);
    }
    while (*static_cast<volatile uint32_t *>(proto.done) < tasks) {
        if (now_ns() - begin > 20e9) {
            fprintf(stderr, "resident.cu: the prototype is stuck\n");
            exit(2);
        }
    }
    const double time = now_ns() - begin;
    must(cudaStreamSynchronize(own_stream()));
    return time / tasks;
}

/* ---- CUDA graphs ---- */

static __global__ void do_nothing() {}

static double graph(resident_shape shape, uint32_t tasks)
{
    enum { REPLAYS = 7 };
    cudaGraph_t made;
    cudaGraphExec_t ready;
    std::vector<cudaGraphNode_t> nodes(tasks + 1);
    cudaKernelNodeParams params = {};
    params.func = reinterpret_cast<void *>(do_nothing);
    params.gridDim = dim3(1);
    params.blockDim = dim3(32);
    must(cudaGraphCreate(&made, 0));
    for (uint32_t i = 1; i <= tasks; i++) {
        uint32_t refs[MOST_PRODUCERS];
        cudaGraphNode_t before[MOST_PRODUCERS];
        const uint32_t n = producers(shape, i, refs);
        for (uint32_t k = 0; k < n; k++) {
            before[k] = nodes[refs[k]];
        }
        must(cudaGraphAddKernelNode(&nodes[i], made, n ? before : nullptr, n, &params));
    }
    must(cudaGraphInstantiate(&ready, made, 0));
    must(cudaGraphUpload(ready, own_stream()));
    must(cudaGraphLaunch(ready, own_stream()));
    must(cudaStreamSynchronize(own_stream()));
    std::vector<double> times;
    for (int k = 0; k < REPLAYS; k++) {
        const double begin = now_ns();
        must(cudaGraphLaunch(ready, own_stream()));
        must(cudaStreamSynchronize(own_stream()));
        times.push_back((now_ns() - begin) / tasks);
    }
    must(cudaGraphExecDestroy(ready));
    must(cudaGraphDestroy(made));
    std::sort(times.begin(), times.end());
    return times[REPLAYS / 2];
}

/* ---- Ping-pong ---- */

static __global__ void answer(const uint32_t *asked, uint32_t *answered, uint32_t rounds)
{
    for (uint32_t i = 1; i <= rounds; i++) {
        while (load_far(asked) != i) {
        }
        asm volatile("st.release.sys.u32 [%0], %1;" ::"l"(answered), "r"(i) : "memory");
    }
}

static double ping_pong(uint32_t rounds)
{
    static uint32_t *words;
    if (!words) {
        words = pinned<uint32_t>(1024);
    }
    uint32_t *asked = words, *answered = words + 512;
    __atomic_store_n(asked, 0, __ATOMIC_RELAXED);
    __atomic_store_n(answered, 0, __ATOMIC_RELEASE);
    answer<<<1, 1, 0, own_stream()>>>(asked, answered, rounds + 1);
    must(cudaGetLastError());
    double begin = 0;
    for (uint32_t i = 1; i <= rounds + 1; i++) {
        __atomic_store_n(asked, i, __ATOMIC_RELEASE);
        while (__atomic_load_n(answered, __ATOMIC_ACQUIRE) != i) {
        }
        begin = i == 1 ? now_ns() : begin; /* the launch */
    }
    const double time = now_ns() - begin;
    must(cudaStreamSynchronize(own_stream()));
    return time / rounds;
}

static uint64_t *flag()
{
    return pinned<uint64_t>(8);
}

extern "C" __attribute__((visibility("default"))) const resident_peer *resident_peer_get(void)
{
    static const resident_peer peer = {prototype, graph, ping_pong, flag};
    return &peer;
}
