/* blas.c - the kernels of pto.blas: gemm, syrk, trsm and potrf over views of matrices.
 *
 * They call a BLAS that is loaded at run time (pto/blas.py finds it), with one thread: tasks are the
 * parallelism. Matrices are float32 or float64 with a unit stride in one of their dims, so slices and
 * transposed slices are fine.
 */
#include <dlfcn.h>
#include <string.h>

#include "binding.h"

enum { ROW_MAJOR = 101, PLAIN = 111, TURNED = 112, LOWER = 122, NON_UNIT = 131, RIGHT = 142 };

static struct {
    void (*dgemm)(int, int, int, int, int, int, double, const double *, int, const double *, int,
                  double, double *, int);
    void (*sgemm)(int, int, int, int, int, int, float, const float *, int, const float *, int,
                  float, float *, int);
    void (*dsyrk)(int, int, int, int, int, double, const double *, int, double, double *, int);
    void (*ssyrk)(int, int, int, int, int, float, const float *, int, float, float *, int);
    void (*dtrsm)(int, int, int, int, int, int, int, double, const double *, int, double *, int);
    void (*strsm)(int, int, int, int, int, int, int, float, const float *, int, float *, int);
    void (*dpotrf)(const char *, const int *, double *, const int *, int *, size_t);
    void (*spotrf)(const char *, const int *, float *, const int *, int *, size_t);
} blas;

/* A matrix as BLAS sees it: row-major, perhaps turned. */
typedef struct Matrix {
    void *data;
    int rows, columns, ld;
    int turned; /* PLAIN or TURNED */
    bool is_double;
} Matrix;

static pto_status read_matrix(const pto_call *call, uint32_t i, bool may_turn, Matrix *m)
{
    const pto_arg *a = &call->args[i];
    if (a->ndim != 2 || (a->dtype != PTO_FLOAT64 && a->dtype != PTO_FLOAT32)) {
        return pto_fail(PTO_KERNEL_FAILED, "argument %u: a matrix of float32 or float64 is needed",
                        i);
    }
    const int64_t rows = a->shape[0], columns = a->shape[1];
    const int64_t down = rows > 1 ? a->strides[0] : columns,
                  across = columns > 1 ? a->strides[1] : 1;
    const bool plain = across == 1 && down >= columns, turned = down == 1 && across >= rows;
    if (!plain && !(turned && may_turn)) {
        return pto_fail(
            PTO_KERNEL_FAILED,
            "argument %u: strides (%lld, %lld) in elements: BLAS needs rows%s without gaps", i,
            (long long)down, (long long)across, may_turn ? " or columns" : "");
    }
    const int64_t ld = plain ? down : across;
    if (rows > INT32_MAX || columns > INT32_MAX || ld > INT32_MAX) {
        return pto_fail(PTO_KERNEL_FAILED, "argument %u: too large for BLAS", i);
    }
    *m = (Matrix){a->data,
                  (int)rows,
                  (int)columns,
                  ld ? (int)ld : 1,
                  plain ? PLAIN : TURNED,
                  a->dtype == PTO_FLOAT64};
    return PTO_OK;
}

static double scalar(const pto_call *call, uint32_t i, double otherwise)
{
    return i < call->n_args ? pto_arg_f64(&call->args[i]) : otherwise;
}

#define NEED(condition, ...)                                                                       \
    if (!(condition)) {                                                                            \
        return pto_fail(PTO_KERNEL_FAILED, __VA_ARGS__);                                           \
    }

/* c = alpha a b + beta c */
static pto_status gemm(const pto_call *call)
{
    Matrix a = {0}, b = {0}, c = {0};
    PTO_TRY(read_matrix(call, 0, true, &a));
    PTO_TRY(read_matrix(call, 1, true, &b));
    PTO_TRY(read_matrix(call, 2, false, &c));
    const double alpha = scalar(call, 3, 1), beta = scalar(call, 4, 1);
    NEED(a.rows == c.rows && b.columns == c.columns && a.columns == b.rows &&
             a.is_double == b.is_double && b.is_double == c.is_double,
         "gemm: shapes or dtypes do not match");
    if (c.is_double) {
        blas.dgemm(ROW_MAJOR, a.turned, b.turned, c.rows, c.columns, a.columns, alpha, a.data, a.ld,
                   b.data, b.ld, beta, c.data, c.ld);
    } else {
        blas.sgemm(ROW_MAJOR, a.turned, b.turned, c.rows, c.columns, a.columns, (float)alpha,
                   a.data, a.ld, b.data, b.ld, (float)beta, c.data, c.ld);
    }
    return PTO_OK;
}

/* The lower triangle of c = alpha a a' + beta c */
static pto_status syrk(const pto_call *call)
{
    Matrix a = {0}, c = {0};
    PTO_TRY(read_matrix(call, 0, true, &a));
    PTO_TRY(read_matrix(call, 1, false, &c));
    const double alpha = scalar(call, 2, 1), beta = scalar(call, 3, 1);
    NEED(a.rows == c.rows && c.rows == c.columns && a.is_double == c.is_double,
         "syrk: shapes or dtypes do not match");
    if (c.is_double) {
        blas.dsyrk(ROW_MAJOR, LOWER, a.turned, c.rows, a.columns, alpha, a.data, a.ld, beta, c.data,
                   c.ld);
    } else {
        blas.ssyrk(ROW_MAJOR, LOWER, a.turned, c.rows, a.columns, (float)alpha, a.data, a.ld,
                   (float)beta, c.data, c.ld);
    }
    return PTO_OK;
}

/* b = b L'^-1, with L the lower triangle of the first argument. In halves: BLAS libraries are best at
 * products, so most of the work becomes one. */
#define LEAF 64

static void solve_double(int m, int n, const double *l, int ldl, double *b, int ldb)
{
    if (n <= LEAF) {
        blas.dtrsm(ROW_MAJOR, RIGHT, LOWER, TURNED, NON_UNIT, m, n, 1, l, ldl, b, ldb);
        return;
    }
    const int h = n / 2;
    solve_double(m, h, l, ldl, b, ldb);
    blas.dgemm(ROW_MAJOR, PLAIN, TURNED, m, n - h, h, -1, b, ldb, l + (int64_t)h * ldl, ldl, 1,
               b + h, ldb);
    solve_double(m, n - h, l + (int64_t)h * ldl + h, ldl, b + h, ldb);
}

static pto_status trsm(const pto_call *call)
{
    Matrix l = {0}, b = {0};
    PTO_TRY(read_matrix(call, 0, false, &l));
    PTO_TRY(read_matrix(call, 1, false, &b));
    NEED(l.rows == l.columns && b.columns == l.rows && l.is_double == b.is_double,
         "trsm: shapes or dtypes do not match");
    if (b.is_double) {
        solve_double(b.rows, b.columns, l.data, l.ld, b.data, b.ld);
    } else {
        blas.strsm(ROW_MAJOR, RIGHT, LOWER, TURNED, NON_UNIT, b.rows, b.columns, 1, l.data, l.ld,
                   b.data, b.ld);
    }
    return PTO_OK;
}

/* The lower triangle of a becomes its Cholesky factor. */
static pto_status potrf(const pto_call *call)
{
    Matrix a = {0};
    int info = 0;
    PTO_TRY(read_matrix(call, 0, false, &a));
    NEED(a.rows == a.columns, "potrf: the matrix is not square");
    if (a.rows == 0) {
        return PTO_OK;
    }
    if (a.is_double) { /* LAPACK counts in columns: the upper triangle is our lower one */
        blas.dpotrf("U", &a.rows, a.data, &a.ld, &info, 1);
    } else {
        blas.spotrf("U", &a.rows, a.data, &a.ld, &info, 1);
    }
    NEED(info == 0, "potrf: pivot %d is not positive, so the matrix is not positive definite",
         info - 1);
    return PTO_OK;
}

static bool load(const char *path)
{
    static const struct {
        const char *name;
        void *to;
    } needed[] = {
        {"cblas_dgemm", &blas.dgemm}, {"cblas_sgemm", &blas.sgemm}, {"cblas_dsyrk", &blas.dsyrk},
        {"cblas_ssyrk", &blas.ssyrk}, {"cblas_dtrsm", &blas.dtrsm}, {"cblas_strsm", &blas.strsm},
        {"dpotrf_", &blas.dpotrf},    {"spotrf_", &blas.spotrf},
    };
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        PyErr_SetString(PyExc_ImportError, dlerror());
        return false;
    }
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        void *found = dlsym(library, needed[i].name);
        if (!found) {
            PyErr_Format(PyExc_ImportError, "%s has no %s", path, needed[i].name);
            return false;
        }
        memcpy(needed[i].to, &found, sizeof found);
    }
    void *threads = dlsym(library, "openblas_set_num_threads");
    if (threads) {
        void (*set)(int);
        memcpy(&set, &threads, sizeof set);
        set(1);
    }
    return true;
}

/* _blas(path) loads a library, and returns the addresses of the four kernels. */
PyObject *blas_kernel(PyObject *module, PyObject *args)
{
    const char *path;
    (void)module;
    if (!PyArg_ParseTuple(args, "s", &path) || !load(path)) {
        return NULL;
    }
    pto_kernel_fn const functions[] = {gemm, syrk, trsm, potrf};
    unsigned long long at[4];
    for (int i = 0; i < 4; i++) {
        uintptr_t address;
        memcpy(&address, &functions[i], sizeof address);
        at[i] = address;
    }
    return Py_BuildValue("(KKKK)", at[0], at[1], at[2], at[3]);
}
