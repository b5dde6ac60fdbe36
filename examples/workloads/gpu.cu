/* gpu.cu - kernels of the workloads, without decode, for a GPU that schedules for itself (pto/gpu.h).
 *
 * One block runs a task. The kernels work with any number of threads, also with one: a test compiles
 * this file as plain C++ and runs the workloads with it (tests/tools/emulated).
 * Sums have a fixed order for a given number of threads, so results repeat bit for bit.
 *
 * Pointers are not __restrict__: the compiler must not use the read-only cache, which knows nothing of
 * what other blocks have written since the launch.
 */
#include <pto/cuda.cuh>

#include <cfloat>
#include <cmath>

#define DEVICE static __device__ __forceinline__

#define THREADS 256
#define SHARED_BYTES (160 * 1024)

DEVICE int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- vector: dense vectors of floats ---- */

PTO_GPU_KERNEL(vector_add)
{
    const float *x = call.arg<float>(0), *y = call.arg<float>(1);
    float *sum = call.arg<float>(2);
    for (int64_t i = threadIdx.x; i < call.shape(2, 0); i += blockDim.x) {
        sum[i] = x[i] + y[i];
    }
}

PTO_GPU_KERNEL(vector_add_number)
{
    const float *x = call.arg<float>(0);
    float *sum = call.arg<float>(1);
    const float number = call.scalar<float>(2);
    for (int64_t i = threadIdx.x; i < call.shape(1, 0); i += blockDim.x) {
        sum[i] = x[i] + number;
    }
}

PTO_GPU_KERNEL(vector_multiply)
{
    const float *x = call.arg<float>(0), *y = call.arg<float>(1);
    float *product = call.arg<float>(2);
    for (int64_t i = threadIdx.x; i < call.shape(2, 0); i += blockDim.x) {
        product[i] = x[i] * y[i];
    }
}

/* ---- Matrices of doubles ---- */

/* A row-major matrix as an argument: element [i, j] is data[i * ld + j]. */
struct matrix {
    double *data;
    int64_t rows, columns, ld;
};

DEVICE matrix matrix_of(const pto_gpu_call &call, uint32_t arg)
{
    return {call.arg<double>(arg), call.shape(arg, 0), call.shape(arg, 1), call.stride(arg, 0)};
}

DEVICE matrix part_of(const matrix &m, int64_t row, int64_t column, int64_t rows, int64_t columns)
{
    return {m.data + row * m.ld + column, rows, columns, m.ld};
}

/* What `multiply` does with a product. */
enum class store { set, subtract, subtract_lower };

/* A square of SIDE x SIDE elements at a time: UNITS patches of EACH x EACH, whose rows and columns are
 * ACROSS apart. DEPTH columns of the factors go through shared memory. */
static constexpr int SIDE = 64, DEPTH = 16, EACH = 4, ACROSS = SIDE / EACH, UNITS = ACROSS * ACROSS;
static constexpr int WIDE = SIDE + 1; /* rows of it lie in different banks */

/* c = a b, or c -= a b' with `turned`. Above the diagonal, subtract_lower neither reads nor writes c. The
 * block begins and ends together. */
template <store how, bool turned>
DEVICE void multiply(const matrix &a, const matrix &b, const matrix &c, double *memory)
{
    double *left = memory, *right = memory + DEPTH * WIDE;
    const int64_t across = (c.columns + SIDE - 1) / SIDE, squares = (c.rows + SIDE - 1) / SIDE * across;
    for (int64_t square = 0; square < squares; square++) {
        const int64_t row = square / across * SIDE, column = square % across * SIDE;
        if (how == store::subtract_lower && column > row) {
            continue;
        }
        for (uint32_t first = 0; first < UNITS; first += blockDim.x) {
            const int unit = static_cast<int>(first + threadIdx.x), x = unit % ACROSS, y = unit / ACROSS;
            double sum[EACH][EACH] = {};
            for (int64_t k = 0; k < a.columns; k += DEPTH) {
                __syncthreads();
                for (int at = static_cast<int>(threadIdx.x); at < SIDE * DEPTH;
                     at += static_cast<int>(blockDim.x)) {
                    const int i = at / DEPTH, q = at % DEPTH;
                    left[q * WIDE + i] = row + i < a.rows && k + q < a.columns
                                             ? a.data[(row + i) * a.ld + k + q]
                                             : 0;
                    const int j = turned ? i : at % SIDE, s = turned ? q : at / SIDE;
                    right[s * WIDE + j] = k + s < a.columns && column + j < c.columns
                                              ? b.data[turned ? (column + j) * b.ld + k + s
                                                              : (k + s) * b.ld + column + j]
                                              : 0;
                }
                __syncthreads();
                if (unit < UNITS) {
#pragma unroll
                    for (int q = 0; q < DEPTH; q++) {
                        double u[EACH], v[EACH];
#pragma unroll
                        for (int i = 0; i < EACH; i++) {
                            u[i] = left[q * WIDE + y + ACROSS * i];
                            v[i] = right[q * WIDE + x + ACROSS * i];
                        }
#pragma unroll
                        for (int i = 0; i < EACH; i++) {
#pragma unroll
                            for (int j = 0; j < EACH; j++) {
                                sum[i][j] += u[i] * v[j];
                            }
                        }
                    }
                }
            }
            for (int i = 0; i < EACH && unit < UNITS; i++) {
                for (int j = 0; j < EACH; j++) {
                    const int64_t r = row + y + ACROSS * i, s = column + x + ACROSS * j;
                    if (r >= c.rows || s >= c.columns || (how == store::subtract_lower && s > r)) {
                        continue;
                    }
                    double *to = &c.data[r * c.ld + s];
                    *to = how == store::set ? sum[i][j] : *to - sum[i][j];
                }
            }
        }
    }
    __syncthreads();
}

PTO_GPU_KERNEL(bgemm_gemm)
{
    multiply<store::set, false>(matrix_of(call, 0), matrix_of(call, 1), matrix_of(call, 2),
                                call.shared<double>());
}

PTO_GPU_KERNEL(bgemm_add)
{
    const matrix p = matrix_of(call, 0), c = matrix_of(call, 1);
    for (int64_t at = threadIdx.x; at < c.rows * c.columns; at += blockDim.x) {
        const int64_t i = at / c.columns, j = at % c.columns;
        c.data[i * c.ld + j] += p.data[i * p.ld + j];
    }
}

/* ---- cholesky ---- */

/* Columns that are solved or factored at a time. The rest of the work is products. */
static constexpr int64_t PANEL = 32;

/* Rows of x: x l' = x, with a lower triangle l of at most PANEL columns. A thread solves a row. */
DEVICE void solve_panel(const matrix &l, const matrix &x, double *memory)
{
    for (int64_t at = threadIdx.x; at < l.rows * l.rows; at += blockDim.x) {
        const int64_t i = at / l.rows, j = at % l.rows;
        memory[i * PANEL + j] = j <= i ? l.data[i * l.ld + j] : 0;
    }
    __syncthreads();
    for (int64_t i = threadIdx.x; i < x.rows; i += blockDim.x) {
        double *row = x.data + i * x.ld;
        for (int64_t j = 0; j < x.columns; j++) {
            double sum = row[j];
            for (int64_t k = 0; k < j; k++) {
                sum -= row[k] * memory[j * PANEL + k];
            }
            row[j] = sum / memory[j * PANEL + j];
        }
    }
    __syncthreads();
}

/* Factors a diagonal square of at most PANEL columns. Returns the first row without a positive pivot; -1:
 * there is none. All threads get the same answer. */
DEVICE int64_t factor_panel(const matrix &a, double *memory)
{
    const int64_t n = a.rows;
    for (int64_t at = threadIdx.x; at < n * n; at += blockDim.x) {
        const int64_t i = at / n, j = at % n;
        memory[i * PANEL + j] = j <= i ? a.data[i * a.ld + j] : 0;
    }
    __syncthreads();
    int64_t bad = -1;
    for (int64_t k = 0; k < n && bad < 0; k++) {
        const double pivot = memory[k * PANEL + k];
        bad = pivot > 0 ? -1 : k;
        __syncthreads(); /* all have read the pivot */
        const double root = sqrt(pivot);
        for (int64_t i = k + threadIdx.x; i < n; i += blockDim.x) {
            memory[i * PANEL + k] = i == k ? root : memory[i * PANEL + k] / root;
        }
        __syncthreads();
        const int64_t rest = n - k - 1;
        for (int64_t at = threadIdx.x; at < rest * rest; at += blockDim.x) {
            const int64_t i = k + 1 + at / rest, j = k + 1 + at % rest;
            if (j <= i) {
                memory[i * PANEL + j] -= memory[i * PANEL + k] * memory[j * PANEL + k];
            }
        }
        __syncthreads();
    }
    for (int64_t at = threadIdx.x; at < n * n; at += blockDim.x) {
        const int64_t i = at / n, j = at % n;
        if (j <= i) {
            a.data[i * a.ld + j] = memory[i * PANEL + j];
        }
    }
    __syncthreads();
    return bad;
}

PTO_GPU_KERNEL(cholesky_potrf)
{
    const matrix a = matrix_of(call, 0);
    double *memory = call.shared<double>();
    for (int64_t k = 0; k < a.rows; k += PANEL) {
        const int64_t n = least(PANEL, a.rows - k), below = a.rows - k - n;
        const matrix diagonal = part_of(a, k, k, n, n), left = part_of(a, k, 0, n, k);
        multiply<store::subtract_lower, true>(left, left, diagonal, memory);
        if (factor_panel(diagonal, memory) >= 0) {
            if (threadIdx.x == 0) {
                call.fail(PTO_KERNEL_FAILED,
                          "a pivot is not positive, so the matrix is not positive definite");
            }
            return;
        }
        if (below > 0) {
            const matrix rest = part_of(a, k + n, k, below, n);
            multiply<store::subtract, true>(part_of(a, k + n, 0, below, k), left, rest, memory);
            solve_panel(diagonal, rest, memory);
        }
    }
}

PTO_GPU_KERNEL(cholesky_trsm)
{
    const matrix l = matrix_of(call, 0), a = matrix_of(call, 1);
    double *memory = call.shared<double>();
    for (int64_t k = 0; k < a.columns; k += PANEL) {
        const int64_t n = least(PANEL, a.columns - k);
        const matrix x = part_of(a, 0, k, a.rows, n);
        multiply<store::subtract, true>(part_of(a, 0, 0, a.rows, k), part_of(l, k, 0, n, k), x, memory);
        solve_panel(part_of(l, k, k, n, n), x, memory);
    }
}

PTO_GPU_KERNEL(cholesky_syrk)
{
    const matrix l = matrix_of(call, 0);
    multiply<store::subtract_lower, true>(l, l, matrix_of(call, 1), call.shared<double>());
}

PTO_GPU_KERNEL(cholesky_gemm)
{
    multiply<store::subtract, true>(matrix_of(call, 0), matrix_of(call, 1), matrix_of(call, 2),
                                    call.shared<double>());
}

/* ---- stencil ---- */

/* The same bits as on the CPU: products and sums are rounded one by one. */
PTO_GPU_KERNEL(stencil_step_tile)
{
    const int64_t rows = call.shape(1, 0), columns = call.shape(1, 1), from_row = call.stride(0, 0),
                  to_row = call.stride(1, 0);
    const float *from = call.arg<float>(0) + from_row + 1;
    float *to = call.arg<float>(1);
    for (int64_t at = threadIdx.x; at < rows * columns; at += blockDim.x) {
        const int64_t i = at / columns, j = at % columns;
        const float *here = from + i * from_row + j;
        const float around = __fadd_rn(__fadd_rn(__fadd_rn(here[-from_row], here[from_row]), here[-1]),
                                       here[1]);
        const float change = __fadd_rn(around, -__fmul_rn(4.0f, *here));
        to[i * to_row + j] = __fadd_rn(*here, __fmul_rn(0.2f, change));
    }
}

/* ---- attention: see attention_kernels.h ---- */

/* Floats in a row of state: the sum of values, padding, m and l. */
DEVICE int64_t state_width(int64_t dim)
{
    return (dim + 2 + 15) / 16 * 16;
}

/* A tile of keys and values in shared memory, the scores of some rows with them, and the factors by which
 * the states of these rows shrink. Keys are transposed: one row for each dim of the head. */
struct attention_tile {
    static constexpr int64_t MOST_KEYS = 64, MOST_ROWS = 64, BYTES = 120 * 1024;
    int64_t room;  /* keys that fit */
    int64_t pitch; /* floats from a row of keys or scores to the next */
    float *keys, *values, *scores, *shrink;

    __device__ attention_tile(float *memory, int64_t dim)
    {
        const int64_t fit = BYTES / (2 * static_cast<int64_t>(sizeof(float)) * dim) - 1;
        room = least(fit, MOST_KEYS);
        pitch = room + 1;
        keys = memory;
        values = keys + dim * pitch;
        scores = values + room * dim;
        shrink = scores + MOST_ROWS * pitch;
    }
};

static constexpr uint32_t STATE = 0, Q = 1, SCALE = 2, VISIBLE = 3, KEYS = 4; /* arguments */

/* The state of row r so far, and `n` keys of which it sees `seen`. Scores become weights. */
DEVICE void attention_softmax(float *scores, int64_t seen, int64_t n, float scale, float *m, float *l,
                              float *shrink)
{
    float top = *m, sum = 0;
    for (int64_t j = 0; j < n; j++) {
        float x = j < seen ? scores[j] : -INFINITY;
        /* A score that overflows is clamped: inf - inf would be NaN. Masked scores stay -inf. */
        x = x == -INFINITY ? x : x * scale;
        x = x > FLT_MAX ? FLT_MAX : x;
        scores[j] = x;
        top = x > top ? x : top;
    }
    const float base = top > -INFINITY ? top : 0; /* no key seen so far: all weights are zero */
    for (int64_t j = 0; j < n; j++) {
        scores[j] = expf(scores[j] - base);
        sum += scores[j];
    }
    *shrink = expf(*m - base);
    *l = *l * *shrink + sum;
    *m = top;
}

/* All rows attend to the `n` keys of the tile. `visible`: of these, the first position sees so many. */
DEVICE void attention_meet(const pto_gpu_call &call, const attention_tile &tile, int64_t n,
                           int64_t visible, float scale)
{
    const int64_t heads = call.shape(Q, 1), dim = call.shape(Q, 2), rows = call.shape(Q, 0) * heads,
                  q_position = call.stride(Q, 0), q_head = call.stride(Q, 1),
                  state_row = call.stride(STATE, 0), end = state_width(dim);
    const float *q = call.arg<float>(Q);
    float *state = call.arg<float>(STATE);
    for (int64_t first = 0; first < rows; first += attention_tile::MOST_ROWS) {
        const int64_t here = least(attention_tile::MOST_ROWS, rows - first);
        for (int64_t at = threadIdx.x; at < here * n; at += blockDim.x) {
            const int64_t r = at / n, j = at % n, position = (first + r) / heads, head = (first + r) % heads;
            const float *query = q + position * q_position + head * q_head;
            float dot = 0;
            for (int64_t d = 0; d < dim; d++) {
                dot += query[d] * tile.keys[d * tile.pitch + j];
            }
            tile.scores[r * tile.pitch + j] = dot;
        }
        __syncthreads();
        for (int64_t r = threadIdx.x; r < here; r += blockDim.x) {
            const int64_t sees = visible + (first + r) / heads;
            float *row = state + (first + r) * state_row;
            attention_softmax(&tile.scores[r * tile.pitch], sees, n, scale, &row[end - 2], &row[end - 1],
                              &tile.shrink[r]);
        }
        __syncthreads();
        for (int64_t at = threadIdx.x; at < here * dim; at += blockDim.x) {
            const int64_t r = at / dim, d = at % dim;
            float *to = &state[(first + r) * state_row + d], sum = *to * tile.shrink[r];
            for (int64_t j = 0; j < n; j++) {
                sum += tile.values[j * dim + d] * tile.scores[r * tile.pitch + j];
            }
            *to = sum;
        }
        __syncthreads();
    }
}

/* Keys of all arguments go through the tile, as many pages at a time as it has room for. */
DEVICE void attention_attend(const pto_gpu_call &call)
{
    const int64_t positions = call.shape(Q, 0), dim = call.shape(Q, 2);
    const attention_tile tile(call.shared<float>(), dim);
    const float scale = call.scalar<float>(SCALE);
    int64_t visible = call.scalar<int64_t>(VISIBLE), total = 0, filled = 0;
    for (uint32_t i = KEYS; i < call.n_args(); i += 2) {
        total += call.shape(i, 0);
    }
    visible = least(visible, total); /* larger values mean the same, and sums could overflow */
    visible = visible > -positions ? visible : -positions;
    for (uint32_t i = KEYS; i < call.n_args(); i += 2) {
        const int64_t keys = call.shape(i, 0), k_key = call.stride(i, 0), k_dim = call.stride(i, 1),
                      v_key = call.stride(i + 1, 0);
        const float *k = call.arg<float>(i), *v = call.arg<float>(i + 1);
        for (int64_t done = 0; done < keys;) {
            const int64_t n = least(tile.room - filled, keys - done);
            for (int64_t at = threadIdx.x; at < n * dim; at += blockDim.x) {
                /* Neighbouring threads read neighbouring numbers. */
                const int64_t j = k_key == 1 ? at % n : at / dim, d = k_key == 1 ? at / n : at % dim;
                tile.keys[d * tile.pitch + filled + j] = k[(done + j) * k_key + d * k_dim];
                tile.values[(filled + at / dim) * dim + at % dim] = v[(done + at / dim) * v_key + at % dim];
            }
            filled += n;
            done += n;
            if (filled == tile.room || (i + 2 >= call.n_args() && done == keys)) {
                __syncthreads();
                attention_meet(call, tile, filled, visible, scale);
                visible -= visible > -positions ? filled : 0; /* stop if none sees a key */
                filled = 0;
            }
        }
    }
    if (filled) { /* the last pages were empty */
        __syncthreads();
        attention_meet(call, tile, filled, visible, scale);
    }
}

PTO_GPU_KERNEL(attention_attend_first)
{
    const int64_t width = call.shape(STATE, 1), row = call.stride(STATE, 0);
    float *state = call.arg<float>(STATE);
    for (int64_t at = threadIdx.x; at < call.shape(STATE, 0) * width; at += blockDim.x) {
        const int64_t i = at / width, j = at % width;
        state[i * row + j] = j == width - 2 ? -INFINITY : 0;
    }
    __syncthreads();
    attention_attend(call);
}

PTO_GPU_KERNEL(attention_attend_next)
{
    attention_attend(call);
}

PTO_GPU_KERNEL(attention_attend_merge)
{
    const int64_t rows = call.shape(0, 0), end = call.shape(0, 1), into_row = call.stride(0, 0),
                  from_row = call.stride(1, 0);
    float *into = call.arg<float>(0);
    const float *from = call.arg<float>(1);
    for (int64_t r = 0; r < rows; r++) {
        float *a = into + r * into_row;
        const float *b = from + r * from_row;
        const float left_m = a[end - 2], right_m = b[end - 2], left_l = a[end - 1], right_l = b[end - 1];
        const float top = left_m > right_m ? left_m : right_m;
        const float base = top > -INFINITY ? top : 0; /* neither has seen a key */
        const float left = expf(left_m - base), right = expf(right_m - base);
        __syncthreads(); /* all have read m and l */
        for (int64_t d = threadIdx.x; d < end; d += blockDim.x) {
            a[d] = d == end - 2   ? top
                   : d == end - 1 ? left_l * left + right_l * right
                                  : a[d] * left + b[d] * right; /* the padding is zero in both */
        }
    }
}

PTO_GPU_KERNEL(attention_attend_finish)
{
    const int64_t positions = call.shape(1, 0), heads = call.shape(1, 1), dim = call.shape(1, 2),
                  end = state_width(dim), state_row = call.stride(0, 0), position = call.stride(1, 0),
                  head = call.stride(1, 1);
    const float *state = call.arg<float>(0);
    float *out = call.arg<float>(1);
    for (int64_t at = threadIdx.x; at < positions * heads * dim; at += blockDim.x) {
        const int64_t r = at / dim, d = at % dim;
        const float *row = state + r * state_row;
        out[r / heads * position + r % heads * head + d] = row[end - 1] == 0 ? 0 : row[d] / row[end - 1];
    }
}

/* Copies an array of three dims. */
PTO_GPU_KERNEL(attention_store)
{
    const int64_t rows = call.shape(1, 1), columns = call.shape(1, 2);
    const float *from = call.arg<float>(0);
    float *to = call.arg<float>(1);
    for (int64_t at = threadIdx.x; at < call.shape(1, 0) * rows * columns; at += blockDim.x) {
        const int64_t i = at / (rows * columns), j = at / columns % rows, k = at % columns;
        to[i * call.stride(1, 0) + j * call.stride(1, 1) + k * call.stride(1, 2)] =
            from[i * call.stride(0, 0) + j * call.stride(0, 1) + k * call.stride(0, 2)];
    }
}

/* ---- The module ---- */

PTO_GPU_MODULE_OF(workloads_module, THREADS, SHARED_BYTES, 1, vector_add, vector_add_number,
                  vector_multiply, bgemm_gemm, bgemm_add, cholesky_potrf, cholesky_trsm, cholesky_syrk,
                  cholesky_gemm, stencil_step_tile, attention_attend_first, attention_attend_next,
                  attention_attend_merge, attention_attend_finish, attention_store)
