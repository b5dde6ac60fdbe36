/* nvidia.cu - kernels of the workloads vector and bgemm on NVIDIA GPUs. A variant launches on the stream
 * of its call and returns; the runtime orders streams (docs/devices.md). */
#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>

#include <pto/kernel.h>

static pto_status (*say)(pto_status, const char *, ...);

static pto_status launched(const char *name)
{
    const cudaError_t e = cudaGetLastError();
    return e ? say(PTO_KERNEL_FAILED, "%s: %s (%s)", name, cudaGetErrorString(e),
                   cudaGetErrorName(e))
             : PTO_OK;
}

static cudaStream_t stream_of(const pto_call *call)
{
    return static_cast<cudaStream_t>(call->stream);
}

template <class T> static T *data_of(const pto_call *call, uint32_t arg)
{
    return static_cast<T *>(call->args[arg].data);
}

/* ---- vector: dense vectors of floats ---- */

enum { THREADS = 256 };

static uint32_t blocks_for(int64_t n)
{
    return static_cast<uint32_t>((n + THREADS - 1) / THREADS);
}

template <class Op> static __global__ void each(const float *x, const float *y, float *out, int64_t n, Op op)
{
    const int64_t i = blockIdx.x * static_cast<int64_t>(THREADS) + threadIdx.x;
    if (i < n) {
        out[i] = op(x[i], y ? y[i] : 0);
    }
}

struct sum_of {
    __device__ float operator()(float x, float y) const { return x + y; }
};
struct product_of {
    __device__ float operator()(float x, float y) const { return x * y; }
};
struct sum_with {
    float number;
    __device__ float operator()(float x, float) const { return x + number; }
};

static pto_status vector_add(const pto_call *call)
{
    const int64_t n = call->args[2].shape[0];
    each<<<blocks_for(n), THREADS, 0, stream_of(call)>>>(
        data_of<float>(call, 0), data_of<float>(call, 1), data_of<float>(call, 2), n, sum_of{});
    return launched("add");
}

static pto_status vector_multiply(const pto_call *call)
{
    const int64_t n = call->args[2].shape[0];
    each<<<blocks_for(n), THREADS, 0, stream_of(call)>>>(
        data_of<float>(call, 0), data_of<float>(call, 1), data_of<float>(call, 2), n, product_of{});
    return launched("multiply");
}

static pto_status vector_add_number(const pto_call *call)
{
    const int64_t n = call->args[1].shape[0];
    const sum_with op = {static_cast<float>(pto_arg_f64(&call->args[2]))};
    each<<<blocks_for(n), THREADS, 0, stream_of(call)>>>(
        data_of<float>(call, 0), static_cast<const float *>(nullptr), data_of<float>(call, 1), n, op);
    return launched("add_number");
}

/* ---- bgemm: tiles of row-major matrices of doubles ---- */

/* A matrix as an argument: element [i, j] is data[i * ld + j]. */
struct matrix {
    double *data;
    int64_t rows, columns, ld;
};

static matrix matrix_of(const pto_call *call, uint32_t arg)
{
    const pto_arg *a = &call->args[arg];
    return {static_cast<double *>(a->data), a->shape[0], a->shape[1], a->strides[0]};
}

/* A block of 16 x 16 threads computes SIDE x SIDE elements of p = a b, each thread a square of 4 x 4.
 * DEPTH columns of a and rows of b at a time go through shared memory. */
constexpr int SIDE = 64, DEPTH = 16, EACH = 4;

static __global__ void __launch_bounds__(256) gemm_tiles(matrix a, matrix b, matrix p)
{
    __shared__ double left[DEPTH][SIDE + 1], right[DEPTH][SIDE];
    const int x = threadIdx.x, y = threadIdx.y, me = y * 16 + x;
    const int64_t row = static_cast<int64_t>(blockIdx.y) * SIDE, column = static_cast<int64_t>(blockIdx.x) * SIDE;
    double sum[EACH][EACH] = {};
    for (int64_t k = 0; k < a.columns; k += DEPTH) {
        for (int at = me; at < SIDE * DEPTH; at += 256) {
            const int i = at / DEPTH, q = at % DEPTH;
            left[q][i] = row + i < a.rows && k + q < a.columns ? a.data[(row + i) * a.ld + k + q] : 0;
            const int j = at % SIDE, s = at / SIDE;
            right[s][j] = k + s < b.rows && column + j < b.columns ? b.data[(k + s) * b.ld + column + j] : 0;
        }
        __syncthreads();
#pragma unroll
        for (int q = 0; q < DEPTH; q++) {
            double u[EACH], v[EACH];
            for (int i = 0; i < EACH; i++) {
                u[i] = left[q][y + 16 * i];
                v[i] = right[q][x + 16 * i];
            }
            for (int i = 0; i < EACH; i++) {
                for (int j = 0; j < EACH; j++) {
                    sum[i][j] += u[i] * v[j];
                }
            }
        }
        __syncthreads();
    }
    for (int i = 0; i < EACH; i++) {
        for (int j = 0; j < EACH; j++) {
            const int64_t r = row + y + 16 * i, c = column + x + 16 * j;
            if (r < p.rows && c < p.columns) {
                p.data[r * p.ld + c] = sum[i][j];
            }
        }
    }
}

static pto_status bgemm_gemm(const pto_call *call)
{
    const matrix p = matrix_of(call, 2);
    const dim3 grid(static_cast<uint32_t>((p.columns + SIDE - 1) / SIDE),
                    static_cast<uint32_t>((p.rows + SIDE - 1) / SIDE));
    gemm_tiles<<<grid, dim3(16, 16), 0, stream_of(call)>>>(matrix_of(call, 0), matrix_of(call, 1), p);
    return launched("gemm");
}

static __global__ void add_tile(matrix p, matrix c)
{
    const int64_t j = blockIdx.x * static_cast<int64_t>(THREADS) + threadIdx.x, i = blockIdx.y;
    if (j < c.columns) {
        c.data[i * c.ld + j] += p.data[i * p.ld + j];
    }
}

static pto_status bgemm_add(const pto_call *call)
{
    const matrix c = matrix_of(call, 1);
    const dim3 grid(blocks_for(c.columns), static_cast<uint32_t>(c.rows));
    add_tile<<<grid, THREADS, 0, stream_of(call)>>>(matrix_of(call, 0), c);
    return launched("add");
}

/* The variant of that name; NULL: there is none. `fail` is pto_fail of the program. */
extern "C" __attribute__((visibility("default"))) pto_kernel_fn
pto_cuda_workload_kernel(const char *name, pto_status (*fail)(pto_status, const char *, ...))
{
    static const struct {
        const char *name;
        pto_kernel_fn fn;
    } kernels[] = {{"vector_add", vector_add},
                   {"vector_add_number", vector_add_number},
                   {"vector_multiply", vector_multiply},
                   {"bgemm_gemm", bgemm_gemm},
                   {"bgemm_add", bgemm_add}};
    say = fail;
    for (const auto &kernel : kernels) {
        if (!strcmp(kernel.name, name)) {
            return kernel.fn;
        }
    }
    return nullptr;
}
