/* blas.c - the kernels of pto.blas: gemm, syrk, trsm and potrf over views of matrices.
 *
 * They call a BLAS that is loaded at run time (pto/blas.py finds it), with one thread: tasks are the
 * parallelism. Products of float64 tiles up to 256 are our own, without the lock that each call of OpenBLAS takes, and so
 * is what consists of products: blas_own.c. Matrices are float32 or float64 with a unit stride in one of their dims, so slices and
 * transposed slices are fine.
 */
#include <dlfcn.h>
#include <string.h>

#include "../../examples/workloads/blas.h"
#include "../../examples/workloads/blas_small.h"
#include "binding.h"

enum { ROW_MAJOR = 101, PLAIN = 111, TURNED = 112, LOWER = 122, NON_UNIT = 131, RIGHT = 142 };

static struct {
    void (*dgemm)(int, int, int, int, int, int, double, const double *, int, const double *, int,
                  double, double *, int);
    void (*sgemm)(int, int, int, int, int, int, float, const float *, int, const float *, int,
                  float, float *, int);
    void (*dsyrk)(int, int, int, int, int, double, const double *, int, double, double *, int);
    void (*ssyrk)(int, int, int, int, int, float, const float *, int, float, float *, int);
    void (*strsm)(int, int, int, int, int, int, int, float, const float *, int, float *, int);
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
    const bool plain = rows == 0 || columns == 0 || (across == 1 && down >= columns);
    const bool turned = (rows <= 1 || down == 1) && across >= rows; /* of one row: any step */
    if (!plain && !(turned && may_turn)) {
        return pto_fail(
            PTO_KERNEL_FAILED,
            "argument %u: strides (%lld, %lld) in elements: BLAS needs rows%s without gaps", i,
            (long long)down, (long long)across, may_turn ? " or columns" : "");
    }
    const int64_t ld = !plain ? across : down > columns ? down : columns;
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

/* BLAS may read its inputs after it has written parts of the result. */
static pto_status check_apart(const pto_call *call, uint32_t in, uint32_t out)
{
    pto_tensor t[2];
    for (int k = 0; k < 2; k++) {
        const pto_arg *a = &call->args[k == 0 ? in : out];
        const uint64_t bytes = a->dtype == PTO_FLOAT64 ? 8 : 4;
        if (a->shape[0] == 0 || a->shape[1] == 0) {
            return PTO_OK;
        }
        const int64_t last = (a->shape[0] - 1) * a->strides[0] + (a->shape[1] - 1) * a->strides[1];
        PTO_TRY(pto_tensor_init(&t[k], a->data, ((uint64_t)last + 1) * bytes, a->dtype, 2, a->shape,
                                a->strides, 0));
    }
    pto_overlap_result found;
    PTO_TRY(pto_tensor_overlaps_ex(&t[0], &t[1], 0, &found));
    return found.yes && found.stage != PTO_STAGE_BUDGET
               ? pto_fail(PTO_OVERLAP,
                          "argument %u shares memory with argument %u, which is written: give BLAS "
                          "a copy of it",
                          in, out)
               : PTO_OK;
}

static pto_status check_count(const pto_call *call, uint32_t most)
{
    return call->n_args <= most ? PTO_OK
                                : pto_fail(PTO_KERNEL_FAILED, "%u arguments: at most %u are known",
                                           call->n_args, most);
}

static double scalar(const pto_call *call, uint32_t i, double otherwise)
{
    return i < call->n_args ? pto_arg_f64(&call->args[i]) : otherwise;
}

#define NEED(condition, ...)                                                                       \
    if (!(condition)) {                                                                            \
        return pto_fail(PTO_KERNEL_FAILED, __VA_ARGS__);                                           \
    }

/* c = alpha a b + beta c, or a b', if b is turned. BLAS does not read a and b if alpha is 0. */
static void product(int a_turned, int b_turned, int m, int n, int k, double alpha, const double *a,
                    int lda, const double *b, int ldb, double beta, double *c, int ldc)
{
    if (a_turned == TURNED || alpha == 0 ||
        !blas_small_product(b_turned == TURNED, false, m, n, k, alpha, a, lda, b, ldb, beta, c,
                            ldc)) {
        blas.dgemm(ROW_MAJOR, a_turned, b_turned, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    }
}

/* The lower triangle of c = alpha a a' + beta c */
static void lower_product(int turned, int n, int k, double alpha, const double *a, int lda,
                          double beta, double *c, int ldc)
{
    if (turned == TURNED || alpha == 0 ||
        !blas_small_product(true, true, n, n, k, alpha, a, lda, a, lda, beta, c, ldc)) {
        blas.dsyrk(ROW_MAJOR, LOWER, turned, n, k, alpha, a, lda, beta, c, ldc);
    }
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
    PTO_TRY(check_count(call, 5));
    PTO_TRY(check_apart(call, 0, 2));
    PTO_TRY(check_apart(call, 1, 2));
    if (c.is_double) {
        product(a.turned, b.turned, c.rows, c.columns, a.columns, alpha, a.data, a.ld, b.data, b.ld,
                beta, c.data, c.ld);
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
    PTO_TRY(check_count(call, 4));
    PTO_TRY(check_apart(call, 0, 1));
    if (c.is_double) {
        lower_product(a.turned, c.rows, a.columns, alpha, a.data, a.ld, beta, c.data, c.ld);
    } else {
        blas.ssyrk(ROW_MAJOR, LOWER, a.turned, c.rows, a.columns, (float)alpha, a.data, a.ld,
                   (float)beta, c.data, c.ld);
    }
    return PTO_OK;
}

/* For blas_own.c. */
void blas_dgemm(bool turn_b, int64_t m, int64_t n, int64_t k, double alpha, const double *a,
                int64_t lda, const double *b, int64_t ldb, double beta, double *c, int64_t ldc)
{
    product(PLAIN, turn_b ? TURNED : PLAIN, (int)m, (int)n, (int)k, alpha, a, (int)lda, b, (int)ldb,
            beta, c, (int)ldc);
}

void blas_dsyrk(int64_t n, int64_t k, const double *a, int64_t lda, double *c, int64_t ldc)
{
    lower_product(PLAIN, (int)n, (int)k, -1, a, (int)lda, 1, c, (int)ldc);
}

/* b = b L'^-1, with L the lower triangle of the first argument. */
static pto_status trsm(const pto_call *call)
{
    Matrix l = {0}, b = {0};
    PTO_TRY(read_matrix(call, 0, false, &l));
    PTO_TRY(read_matrix(call, 1, false, &b));
    NEED(l.rows == l.columns && b.columns == l.rows && l.is_double == b.is_double,
         "trsm: shapes or dtypes do not match");
    PTO_TRY(check_apart(call, 0, 1));
    if (b.is_double) {
        blas_dtrsm_right(b.rows, b.columns, l.data, l.ld, b.data, b.ld);
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
    if (a.is_double) {
        info = (int)blas_dpotrf(a.rows, a.data, a.ld);
    } else { /* LAPACK counts in columns: the upper triangle is our lower one */
        blas.spotrf("U", &a.rows, a.data, &a.ld, &info, 1);
        for (int i = 0; i < a.rows && info == 0;
             i++) { /* some libraries go on with what is not a number */
            info = ((const float *)a.data)[(int64_t)i * (a.ld + 1)] > 0 ? 0 : i + 1;
        }
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
        {"cblas_ssyrk", &blas.ssyrk}, {"cblas_strsm", &blas.strsm}, {"spotrf_", &blas.spotrf},
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
