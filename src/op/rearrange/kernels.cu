/* kernels.cu - the kernels of Rearrange and fill for NVIDIA GPUs, and their launch. What a thread
 * does is in grid_code.h. */
#include "op/rearrange/kernels.cuh"

/* ---- The machine of grid_code.h ---------------------------------------------------------------- */

struct __align__(16) ptoi_vec {
    uint32_t w[4];
};

#define PTOI_GPU static __device__ __forceinline__
#define PTOI_UNROLL _Pragma("unroll")
#define PTOI_PERM(a, b, selector) __byte_perm((a), (b), (selector))
#define PTOI_GET(type, from) get<type>(from)
#define PTOI_PUT(type, to, value) put<type>((to), (value))
#define PTOI_FETCH(type, from) (*reinterpret_cast<const type *>(from))
#define PTOI_STASH(type, to, value) (*reinterpret_cast<type *>(to) = (value))

/* Plain loads and stores: with hints for the caches, streaming or not, copies were 2 to 3 % slower. */
template <typename T> static __device__ __forceinline__ T get(const char *from)
{
    return __ldg(reinterpret_cast<const T *>(from));
}

template <> __device__ __forceinline__ ptoi_vec get<ptoi_vec>(const char *from)
{
    ptoi_vec v;
    uint4 u = __ldg(reinterpret_cast<const uint4 *>(from));
    v.w[0] = u.x;
    v.w[1] = u.y;
    v.w[2] = u.z;
    v.w[3] = u.w;
    return v;
}

template <> __device__ __forceinline__ uint64_t get<uint64_t>(const char *from)
{
    return __ldg(reinterpret_cast<const unsigned long long *>(from));
}

template <typename T> static __device__ __forceinline__ void put(char *to, T value)
{
    *reinterpret_cast<T *>(to) = value;
}

template <> __device__ __forceinline__ void put<ptoi_vec>(char *to, ptoi_vec v)
{
    *reinterpret_cast<uint4 *>(to) = make_uint4(v.w[0], v.w[1], v.w[2], v.w[3]);
}

#include "op/rearrange/grid_code.h"

enum { FEW = 1, MANY = 4 }; /* items of a thread */

/* ---- Order of launches ----------------------------------------------------------------------- */

/* From compute capability 9.0 on, blocks of a launch may start while the last ones of the launch before
 * it on the stream still run. They find out what they have to do, and wait here before they touch
 * memory. That saves 2 to 3 microseconds for each of several launches in a row. */
static __device__ __forceinline__ void let_next_start()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}

static __device__ __forceinline__ void wait_for_last()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* ---- Kernels --------------------------------------------------------------------------------- */

template <uint32_t SIZE, uint32_t FORM, uint32_t IN, uint32_t OUT>
static __global__ void __launch_bounds__(PTOI_GRID_THREADS)
    tiles(const __grid_constant__ ptoi_grid grid, char *to, const char *from)
{
    extern __shared__ __align__(16) char shared[];
    constexpr uint32_t side = PTOI_TILE_SIDE(SIZE, FORM);
    let_next_start();
    const ptoi_tile tile = ptoi_tile_at(&grid, blockIdx.x, side);
    wait_for_last();
    ptoi_tile_load(&grid, &tile, from, threadIdx.x, shared, SIZE, side, IN, OUT);
    __syncthreads();
    ptoi_tile_store(&grid, &tile, to, threadIdx.x, shared, SIZE, side, OUT);
}

template <typename T, uint32_t EACH>
static __global__ void __launch_bounds__(PTOI_GRID_THREADS)
    items(const __grid_constant__ ptoi_grid grid, char *to, const char *from)
{
    T value[EACH];
    int64_t at_to[EACH], at_from[EACH];
    bool is_there[EACH];
    const uint32_t first = blockIdx.x * (PTOI_GRID_THREADS * EACH) + threadIdx.x;
    let_next_start();
#pragma unroll
    for (uint32_t k = 0; k < EACH; k++) {
        const uint32_t item = first + k * PTOI_GRID_THREADS;
        is_there[k] = ptoi_item_at(&grid, item, &at_to[k], &at_from[k]) && item < grid.items;
    }
    wait_for_last();
#pragma unroll
    for (uint32_t k = 0; k < EACH; k++) {
        if (is_there[k]) {
            value[k] = get<T>(from + at_from[k]);
        }
    }
#pragma unroll
    for (uint32_t k = 0; k < EACH; k++) {
        if (is_there[k]) {
            put<T>(to + at_to[k], value[k]);
        }
    }
}

/* `element` is repeated to 8 bytes, and an item may begin inside of an element. */
template <typename T>
static __global__ void __launch_bounds__(PTOI_GRID_THREADS)
    fill(const __grid_constant__ ptoi_grid grid, char *to, const uint64_t element)
{
    let_next_start();
    wait_for_last();
#pragma unroll
    for (uint32_t k = 0; k < MANY; k++) {
        const uint32_t item = (blockIdx.x * MANY + k) * PTOI_GRID_THREADS + threadIdx.x;
        int64_t at, unused;
        if (item >= grid.items) {
            return;
        }
        ptoi_item_at(&grid, item, &at, &unused);
        if constexpr (sizeof(T) == sizeof(ptoi_vec)) {
            const uint32_t low = (uint32_t)element, high = (uint32_t)(element >> 32);
            put<T>(to + at, {{low, high, low, high}});
        } else {
            put<T>(to + at, (T)(element >> ((uint32_t)(at - grid.to_start) % 8 * 8)));
        }
    }
}

/* ---- Launching ------------------------------------------------------------------------------- */

struct choice {
    const void *kernel;
    uint32_t shared; /* bytes */
};

template <uint32_t SIZE, uint32_t FORM, uint32_t IN, uint32_t OUT> static choice tile_kernel()
{
    constexpr uint32_t side = PTOI_TILE_SIDE(SIZE, FORM);
    return {reinterpret_cast<const void *>(tiles<SIZE, FORM, IN, OUT>), side * side * SIZE};
}

template <uint32_t SIZE, uint32_t FORM> static choice choose_vectors(uint32_t in, uint32_t out)
{
    constexpr uint32_t WORD = SIZE < 4 ? 4 : SIZE;
    if (in == 16) {
        return out == 16     ? tile_kernel<SIZE, FORM, 16, 16>()
               : out == WORD ? tile_kernel<SIZE, FORM, 16, WORD>()
                             : tile_kernel<SIZE, FORM, 16, SIZE>();
    }
    return out == 16     ? tile_kernel<SIZE, FORM, SIZE, 16>()
           : out == WORD ? tile_kernel<SIZE, FORM, SIZE, WORD>()
                         : tile_kernel<SIZE, FORM, SIZE, SIZE>();
}

template <uint32_t SIZE> static choice choose_form(uint32_t form, uint32_t in, uint32_t out)
{
    return form == PTOI_TILE_LARGE ? choose_vectors<SIZE, PTOI_TILE_LARGE>(in, out)
                                   : choose_vectors<SIZE, PTOI_TILE_SMALL>(in, out);
}

static choice choose_tiles(uint32_t size, uint32_t form, uint32_t in, uint32_t out)
{
    switch (size) {
    case 1:
        return choose_vectors<1, PTOI_TILE_SMALL>(in, out);
    case 2:
        return choose_form<2>(form, in, out);
    case 4:
        return choose_form<4>(form, in, out);
    case 8:
        return choose_vectors<8, PTOI_TILE_SMALL>(in, out);
    default:
        return choose_form<16>(form, in, out);
    }
}

template <uint32_t EACH> static const void *choose_items(uint32_t size)
{
    switch (size) {
    case 1:
        return reinterpret_cast<const void *>(items<uint8_t, EACH>);
    case 2:
        return reinterpret_cast<const void *>(items<uint16_t, EACH>);
    case 4:
        return reinterpret_cast<const void *>(items<uint32_t, EACH>);
    case 8:
        return reinterpret_cast<const void *>(items<uint64_t, EACH>);
    default:
        return reinterpret_cast<const void *>(items<ptoi_vec, EACH>);
    }
}

static const void *choose_fill(uint32_t size)
{
    switch (size) {
    case 1:
        return reinterpret_cast<const void *>(fill<uint8_t>);
    case 2:
        return reinterpret_cast<const void *>(fill<uint16_t>);
    case 4:
        return reinterpret_cast<const void *>(fill<uint32_t>);
    case 8:
        return reinterpret_cast<const void *>(fill<uint64_t>);
    default:
        return reinterpret_cast<const void *>(fill<ptoi_vec>);
    }
}

/* Asking for its attributes loads a kernel now, not at its first launch, where that might wait for the
 * device, or fail for lack of memory. */
static cudaError_t prepare(const void *kernel)
{
    cudaFuncAttributes attributes;
    return cudaFuncGetAttributes(&attributes, kernel);
}

cudaError_t ptoi_kernels_prepare(void)
{
    cudaError_t e = cudaSuccess;
    for (uint32_t size = 1; size <= 16 && !e; size *= 2) {
        for (uint32_t k = 0; k < 12 && !e; k++) {
            const uint32_t out = k / 2 % 3 == 0 ? 16 : k / 2 % 3 == 1 && size < 4 ? 4 : size;
            e = prepare(choose_tiles(size, k / 6, k % 2 ? 16 : size, out).kernel);
        }
        e = e ? e : prepare(choose_items<FEW>(size));
        e = e ? e : prepare(choose_items<MANY>(size));
        e = e ? e : prepare(choose_fill(size));
    }
    return e;
}

/* Below this many items, all multiprocessors together are not busy with MANY a thread. */
enum { FEW_ITEMS = 132 * 4 * PTOI_GRID_THREADS * MANY };

cudaError_t ptoi_kernels_launch(const ptoi_grid *grid, char *to, const char *from,
                                uint64_t element, bool overlap, cudaStream_t stream)
{
    choice c = {nullptr, 0};
    uint32_t of_block = 1;
    void *args[] = {const_cast<ptoi_grid *>(grid), &to, &from};
    if (grid->way == PTOI_GRID_TILES) {
        c = choose_tiles(grid->size, grid->form, grid->vec_in, grid->vec_out);
    } else if (grid->way == PTOI_GRID_ITEMS) {
        const bool few = grid->items < FEW_ITEMS;
        c.kernel = few ? choose_items<FEW>(grid->size) : choose_items<MANY>(grid->size);
        of_block = PTOI_GRID_THREADS * (few ? FEW : MANY);
    } else {
        args[2] = &element;
        c.kernel = choose_fill(grid->size);
        of_block = PTOI_GRID_THREADS * MANY;
    }
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((grid->items + of_block - 1) / of_block);
    config.blockDim = dim3(PTOI_GRID_THREADS);
    config.dynamicSmemBytes = c.shared;
    config.stream = stream;
    config.attrs = &early;
    config.numAttrs = overlap ? 1 : 0;
    return cudaLaunchKernelExC(&config, c.kernel, args);
}
