/* fibers.cc - blocks as threads, and their threads as fibers: see cuda_runtime.h. Also the device qy:0, whose grid
 * they are. */
#include "lanes.h"

#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <malloc.h>
#include <memory>
#include <thread>
#include <ucontext.h>
#include <vector>

#include <pto/pto.h>

#include "cuda_runtime.h"

thread_local lanes_index threadIdx, blockDim;
thread_local unsigned char pto_gpu_dynamic[1 << 16];

namespace
{

enum { STACK = 128 << 10, MEETINGS = 40, MULTIPROCESSORS = 5 };

/* Lanes of a warp that have arrived at the same place. mask 0: free. */
struct meeting {
    uint32_t mask = 0, arrived = 0, left = 0;
    uint64_t value[32];
};

struct warp {
    meeting meetings[MEETINGS];
};

struct fiber {
    jmp_buf here;
    ucontext_t start;
    std::unique_ptr<char[]> stack;
    bool started = false, done = false;
};

typedef void code(const void *);

struct block {
    code *run;
    const void *argument;
    std::vector<fiber> fibers;
    std::vector<warp> warps;
    uint64_t random;
    uint32_t at = 0;               /* the fiber that runs */
    uint32_t waiting = 0, gen = 0; /* __syncthreads */
    jmp_buf scheduler;
};

thread_local block *current;

uint64_t draw(block *b)
{
    b->random ^= b->random << 13;
    b->random ^= b->random >> 7;
    b->random ^= b->random << 17;
    return b->random;
}

[[noreturn]] void die(const char *what)
{
    fprintf(stderr, "lanes: %s\n", what);
    abort();
}

void yield()
{
    block *b = current;
    if (!_setjmp(b->fibers[b->at].here)) {
        _longjmp(b->scheduler, 1);
    }
}

void begin()
{
    block *b = current;
    b->run(b->argument);
    b->fibers[b->at].done = true;
    _longjmp(b->scheduler, 1);
}

/* Runs a fiber until it yields. */
void resume(block *b, uint32_t i)
{
    fiber *f = &b->fibers[i];
    b->at = i;
    threadIdx.x = i;
    if (_setjmp(b->scheduler)) {
        return;
    }
    if (f->started) {
        _longjmp(f->here, 1);
    }
    f->started = true;
    setcontext(&f->start);
    die("a fiber does not start");
}

/* All fibers of a block. Each round begins with another one, and now and then leaves one out. */
void run_block(code *run, const void *argument, uint32_t threads, uint64_t seed)
{
    block b;
    b.run = run;
    b.argument = argument;
    b.fibers = std::vector<fiber>(threads);
    b.warps = std::vector<warp>((threads + 31) / 32);
    b.random = seed * UINT64_C(0x9E3779B97F4A7C15) | 1;
    current = &b;
    blockDim.x = threads;
    for (fiber &f : b.fibers) {
        f.stack.reset(new char[STACK]);
        getcontext(&f.start);
        f.start.uc_stack.ss_sp = f.stack.get();
        f.start.uc_stack.ss_size = STACK;
        f.start.uc_link = nullptr;
        makecontext(&f.start, begin, 0);
    }
    for (bool alive = true; alive;) {
        const uint32_t first = static_cast<uint32_t>(draw(&b) % threads);
        alive = false;
        for (uint32_t i = 0; i < threads; i++) {
            const uint32_t at = (first + i) % threads;
            if (!b.fibers[at].done) {
                alive = true;
                if (draw(&b) % 16) {
                    resume(&b, at);
                }
            }
        }
        std::this_thread::yield();
    }
}

} /* namespace */

void lanes_relax()
{
    yield();
}

void lanes_point()
{
    if (draw(current) % 32 == 0) {
        yield();
    }
}

uint64_t lanes_clock()
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return static_cast<uint64_t>(ts.tv_sec) * UINT64_C(1000000000) +
           static_cast<uint64_t>(ts.tv_nsec);
}

void lanes_meet(uint32_t mask, uint64_t value, uint64_t values[32])
{
    warp *w = &current->warps[threadIdx.x / 32];
    const uint32_t mine = UINT32_C(1) << threadIdx.x % 32;
    meeting *m = nullptr;
    if (!(mask & mine)) {
        die("a lane is not in its own mask");
    }
    for (meeting &other : w->meetings) {
        if (other.mask == mask && other.arrived != mask && !(other.arrived & mine)) {
            m = &other;
        }
    }
    for (uint32_t i = 0; !m && i < MEETINGS; i++) {
        m = w->meetings[i].mask ? nullptr : &w->meetings[i];
    }
    if (!m) {
        die("too many meetings");
    }
    if (!m->mask) {
        m->mask = mask;
        m->arrived = m->left = 0;
    }
    m->value[threadIdx.x % 32] = value;
    m->arrived |= mine;
    while (m->arrived != mask) {
        yield();
    }
    std::memcpy(values, m->value, sizeof m->value);
    m->left |= mine;
    if (m->left == mask) {
        m->mask = 0;
    }
}

void __syncthreads()
{
    block *b = current;
    const uint32_t gen = b->gen;
    if (++b->waiting == b->fibers.size()) {
        b->waiting = 0;
        b->gen++;
    }
    while (b->gen == gen) {
        yield();
    }
}

/* ---- The runtime of CUDA ---- */

namespace
{

/* The grid that is there. It is not destroyed at the end of the process: a test that fails ends while it runs. */
std::vector<std::thread> &blocks = *new std::vector<std::thread>;
uint32_t ended;
uint64_t launches;
bool taken; /* by a runtime */

} /* namespace */

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *, const void *)
{
    return 0;
}

cudaError_t cudaFuncSetAttribute(const void *, int, int)
{
    return 0;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *fit, const void *, int, size_t)
{
    *fit = 2;
    return 0;
}

cudaError_t cudaGetDevice(int *device)
{
    *device = 0;
    return 0;
}

cudaError_t cudaDeviceGetAttribute(int *value, int, int)
{
    *value = MULTIPROCESSORS;
    return 0;
}

const char *cudaGetErrorString(cudaError_t)
{
    return "an error of a GPU that is not there";
}

cudaError_t cudaLaunchCooperativeKernel(const void *what, dim3 n, dim3 threads, void **arguments,
                                        size_t, cudaStream_t)
{
    code *run = reinterpret_cast<code *>(const_cast<void *>(what));
    const void *argument = *static_cast<const void **>(arguments[0]);
    __atomic_store_n(&ended, 0, __ATOMIC_SEQ_CST);
    launches++;
    for (uint32_t i = 0; i < n.x; i++) {
        const uint64_t seed = launches * 1000 + i + 1;
        blocks.emplace_back([=] {
            run_block(run, argument, threads.x, seed);
            __atomic_fetch_add(&ended, 1, __ATOMIC_SEQ_CST);
        });
    }
    return 0;
}

/* ---- The device ---- */

namespace
{

uint64_t in_use; /* bytes */

pto_status alloc(void *, uint64_t bytes, void **memory)
{
    *memory = aligned_alloc(256, (bytes + 255) / 256 * 256);
    if (!*memory) {
        return PTO_OUT_OF_MEMORY;
    }
    __atomic_fetch_add(&in_use, malloc_usable_size(*memory), __ATOMIC_RELAXED);
    return PTO_OK;
}

void give_back(void *, void *memory, uint64_t)
{
    __atomic_fetch_sub(&in_use, malloc_usable_size(memory), __ATOMIC_RELAXED);
    free(memory);
}

pto_status count_memory(void *, uint64_t *bytes, uint64_t *used)
{
    *bytes = UINT64_C(1) << 30;
    *used = __atomic_load_n(&in_use, __ATOMIC_RELAXED);
    return PTO_OK;
}

pto_status copy(void *, void *to, const void *from, uint64_t bytes)
{
    memcpy(to, from, bytes);
    return PTO_OK;
}

pto_status share(void *, void *memory, uint64_t, void **there)
{
    *there = memory;
    return PTO_OK;
}

void unshare(void *, void *, uint64_t)
{
}

pto_status grid_prepare(void *, const pto_gpu_module *module, uint32_t *n)
{
    if (taken) {
        return pto_fail(PTO_BAD_DEVICE, "another runtime has the device");
    }
    taken = true;
    return module->prepare(n) ? PTO_BAD_DEVICE : PTO_OK;
}

pto_status grid_launch(void *, const pto_gpu_module *module, const void *grid, uint32_t n)
{
    return module->launch(grid, n, nullptr) ? PTO_DEVICE_LOST : PTO_OK;
}

pto_status grid_ended(void *, bool *over)
{
    *over = __atomic_load_n(&ended, __ATOMIC_SEQ_CST) == blocks.size();
    for (std::thread &t : blocks) {
        if (*over) {
            t.join();
        }
    }
    if (*over) {
        blocks.clear();
        ended = 0;
    }
    return PTO_OK;
}

void grid_release(void *)
{
    taken = false;
}

} /* namespace */

pto_status lanes_add_device(pto_device device)
{
    pto_device_ops ops = {};
    ops.size = sizeof ops;
    ops.alloc = alloc;
    ops.free = give_back;
    ops.copy_in = copy;
    ops.copy_out = copy;
    ops.memory = count_memory;
    ops.share = share;
    ops.unshare = unshare;
    ops.grid_prepare = grid_prepare;
    ops.grid_launch = grid_launch;
    ops.grid_ended = grid_ended;
    ops.grid_release = grid_release;
    return pto_device_add(device, &ops);
}
