"""C functions as kernels: by prototype, by the signature of pto/kernel.h, by pointer; built-in operators."""

import ctypes

import numpy as np
import pytest

import pto

SOURCE = r"""
#include <stdint.h>
#include <pto/kernel.h>

void scale(const double *x, const int64_t *n, const int64_t *s, double *y, const int64_t *m, const int64_t *t, double by)
{
    for (int64_t i = 0; i < n[0]; i++)
        for (int64_t j = 0; j < n[1]; j++)
            y[i * t[0] + j * t[1]] = by * x[i * s[0] + j * s[1]];
}
int saxpy(int64_t n, float a, const float *x, float *y)
{
    if (n < 0) return 42;
    for (int64_t i = 0; i < n; i++) y[i] += a * x[i];
    return 0;
}
/* More of everything than there are registers. */
void many(int8_t a, uint16_t b, int32_t c, int64_t d, double e, float f, const int32_t *x, int64_t g, double h, int64_t i,
          double *out, _Bool k, uint64_t l, double m, double n, double o, double p, double q)
{
    double values[] = {a, b, c, (double)d, e, f, x[1], (double)g, h, (double)i, k, (double)l, m, n, o, p, q};
    for (int v = 0; v < 17; v++) out[v] = values[v];
}
pto_status twice(const pto_call *call)
{
    const pto_arg *x = &call->args[0], *y = &call->args[1];
    for (int64_t i = 0; i < x->shape[0]; i++)
        ((float *)y->data)[i * y->strides[0]] = (float)pto_arg_f64(&call->args[2]) * ((float *)x->data)[i * x->strides[0]];
    return PTO_OK;
}
void nothing(void) {}
"""


@pytest.fixture(scope="module")
def lib(tmp_path_factory):
    import os
    import subprocess
    folder = tmp_path_factory.mktemp("c")
    (folder / "k.c").write_text(SOURCE)
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-I" + os.environ.get("PTO_INCLUDE", "/usr/include"),
                    str(folder / "k.c"), "-o", str(folder / "libk.so")], check=True)
    return pto.Library(folder / "libk.so")


def test_prototype(rt, lib):
    scale = lib.kernel("void scale(const double x[:,:], out double[:, :] y, double by)".replace("[:, :] y", " y[:, :]"))
    x, y = np.arange(24.0).reshape(4, 6), np.zeros((6, 4))
    rt.submit(scale, x, y.T, 2.0)
    rt.submit(scale, x[1:3, ::2], y.T[1:3, ::2], 3)
    rt.sync(y)
    want = 2 * x
    want[1:3, ::2] = 3 * x[1:3, ::2]
    assert np.array_equal(y.T, want)


def test_pointers_and_int(rt, lib):
    saxpy = lib.kernel("int saxpy(int64_t n, float a, const float *x, float *y)")
    x, y = np.arange(4, dtype="f4"), np.ones(4, "f4")
    rt.submit(saxpy, 4, 0.5, x, y)
    rt.sync(y)
    assert y.tolist() == [1, 1.5, 2, 2.5]
    with pytest.raises(ValueError, match="contiguous"):
        rt.submit(saxpy, 2, 1, x[::2], y)
    with pytest.raises(TypeError, match="float32"):
        rt.submit(saxpy, 2, 1, x.astype("f8"), y)
    with pytest.raises(TypeError, match="integer"):
        rt.submit(saxpy, 2.5, 1, x, y)
    with pytest.raises(TypeError, match="number"):
        rt.submit(saxpy, 2, "1", x, y)
    with pytest.raises(OverflowError):
        rt.submit(saxpy, 10 ** 40, 1, x, y)
    rt.submit(saxpy, -1, 1, x, y)
    with pytest.raises(pto.Error, match="saxpy returned 42"):
        rt.wait()


def test_all_registers(rt, lib):
    many = lib.kernel("""void many(int8_t, uint16_t, int32_t, int64_t, double, float, const int32_t *x, int64_t, double,
                                   int64_t, out double *, bool, uint64_t, double, double, double, double, double)""")
    out = np.zeros(17)
    rt.submit(many, -3, 65535, -7, 2 ** 40, 1.5, 2.5, np.array([1, 99], "i4"), 8, 9.5, -10, out, True, 2 ** 50, 1, 2, 3, 4, 5)
    rt.sync(out)
    assert out.tolist() == [-3, 65535, -7, 2 ** 40, 1.5, 2.5, 99, 8, 9.5, -10, 1, 2 ** 50, 1, 2, 3, 4, 5]


def test_numbers_that_do_not_fit(rt):
    """A C function would get some of their bits."""
    function, got = ctypes.CFUNCTYPE(None, ctypes.c_int64), []
    keep = function(got.append)
    for name, low, high in (("int8_t", -128, 127), ("uint8_t", 0, 255), ("int16_t", -2 ** 15, 2 ** 15 - 1), ("uint16_t", 0, 2 ** 16 - 1),
                            ("int", -2 ** 31, 2 ** 31 - 1), ("unsigned", 0, 2 ** 32 - 1), ("int64_t", -2 ** 63, 2 ** 63 - 1),
                            ("size_t", 0, 2 ** 64 - 1), ("bool", 0, 1)):
        kernel = pto.cfunc(keep, f"void f({name})")
        for bad in (low - 1, high + 1, 10 ** 30):
            with pytest.raises(OverflowError, match="fit"):
                rt.submit(kernel, bad)
        for good in (low, high):
            rt.submit(kernel, good)
            rt.wait()
            assert got.pop() & (2 ** 64 - 1) == good & (2 ** 64 - 1)
    with pytest.raises(TypeError, match="must be an integer"):
        rt.submit(pto.cfunc(keep, "void f(int)"), np.array(3))  # tasks may still write it
    rt.submit(pto.cfunc(keep, "void f(int)"), np.int32(3))


def test_kernel_signature(rt, lib):
    twice = lib.kernel("in f32[1] x, out f32[1] y, f64 by", name="twice")
    x, y = np.arange(4, dtype="f4"), np.zeros(8, "f4")
    rt.submit(twice, x, y[::2], 3.0)
    rt.sync(y)
    assert y[::2].tolist() == [0, 3, 6, 9]
    with pytest.raises(TypeError, match="float32"):
        y = np.zeros(4)
        rt.submit(twice, x, y, 3.0)


def test_function_pointers(rt, lib):
    cdll = ctypes.CDLL(lib.path)
    text = "int saxpy(int64_t, float, const float *, float *)"
    kernels = [pto.cfunc(cdll.saxpy, text), pto.cfunc(ctypes.cast(cdll.saxpy, ctypes.c_void_p).value, text)]
    cffi = pytest.importorskip("cffi")
    ffi = cffi.FFI()
    ffi.cdef("int saxpy(int64_t n, float a, const float *x, float *y);")
    opened = ffi.dlopen(lib.path)
    kernels.append(pto.cfunc(ffi.addressof(opened, "saxpy"), text))

    @ctypes.CFUNCTYPE(None)
    def from_python():
        done.append(1)

    done = []
    kernels.append(pto.cfunc(from_python, "void call(void)"))
    y = np.zeros(2, "f4")
    for k in kernels[:-1]:
        rt.submit(k, 2, 1.0, np.ones(2, "f4"), y)
    rt.submit(kernels[-1])
    rt.wait()
    assert y.tolist() == [3, 3] and done == [1]


def test_numbers_that_are_no_address():
    for bad, why in ((0, "NULL"), (-1, "-1 is no address"), (1 << 70, "is no address")):
        with pytest.raises(ValueError, match=why):
            pto.cfunc(bad, "void f(double *)")


class NumbaLike:
    def __init__(self, address):
        self.address = address


def test_numba_like(rt, lib):
    address = ctypes.cast(ctypes.CDLL(lib.path).nothing, ctypes.c_void_p).value
    rt.submit(pto.cfunc(NumbaLike(address), "void nothing()"))
    rt.wait()


def test_bad_declarations(lib):
    for bad in ("x", "void f", "void f(", "float f()", "void f(int)x", "void f(thing)", "void f(double[3])",
                "void f(double[:][:])", "void f(double **x)", "void f(out int)", "void f(const out int *)", "void f(,)",
                "in f33[1] x", "in f32[1] x, ...", "f32[2]", "in", "void f(\0)", "void f(" + "double[:]," * 20 + "int)",
                "void f(" + "double," * 9 + "int)", "void f(" + "in " * 1000 + ")", "🦆"):
        with pytest.raises((ValueError, TypeError)):
            pto.cfunc(1234, bad)
    with pytest.raises(AttributeError, match="missing"):
        lib.kernel("void missing(void)")
    with pytest.raises(OSError):
        pto.Library("/there/is/no/such.so")
    for bad in (None, "saxpy", 0, 3.5, object(), lambda: 0):
        with pytest.raises((TypeError, ValueError)):
            pto.cfunc(bad, "void f(void)")
    with pytest.raises(TypeError):
        pto.cfunc(1234, None)
    with pytest.raises(ValueError, match="worker types"):
        pto.cfunc(1234, "void f(void)", type="gpu")


def test_ctypes_without_declaration(rt, lib):
    with pytest.raises(TypeError, match="cfunc"):
        rt.submit(ctypes.CDLL(lib.path).nothing)


def test_builtin_operators(rt):
    x = np.arange(24.0).reshape(4, 6)
    y = np.zeros((6, 4))
    rt.rearrange(y, x.T)
    rt.sync(y)
    assert np.array_equal(y, x.T)
    rt.fill(y[1:3], 7)
    rt.fill(y[:, 0], float("nan"))
    rt.sync(y)
    assert np.isnan(y[:, 0]).all() and (y[1:3, 1:] == 7).all() and np.array_equal(y[3:, 1:], x.T[3:, 1:])
    z = np.zeros(24)
    rt.copy(z, x)
    out = np.zeros((3, 6))
    rt.gather(out, x, np.array([3, 0, 3]))
    rt.scatter(x, np.ones((2, 6)), np.array([1, 2], "i4"))
    rt.wait()
    assert z.tolist() == list(range(24)) and out[:, 0].tolist() == [18, 0, 18] and x.sum() == 15 + 6 + 6 + 123
    rt.gather(out, x, np.array([4, 0, 3]))
    with pytest.raises(pto.Error):
        rt.wait()


def test_builtin_operators_refuse_at_once(rt):
    """What is known at the call is an error of the call, not of a task."""
    x, index = np.zeros(3), np.zeros(3, "f4")
    for call, why in ((lambda: rt.copy(x, np.zeros(4)), "copy: 4 elements do not fit into 3"),
                      (lambda: rt.gather(x, np.zeros(5), index), "gather: argument 2 is the index"),
                      (lambda: rt.scatter(x, np.zeros(3), index), "scatter: argument 2 is the index"),
                      (lambda: rt.fill(x, "a"), "fill: 'a' is no number for elements of float64")):
        with pytest.raises((TypeError, ValueError), match=why):
            call()
    rt.wait()


def test_fill_every_dtype(rt):
    for dtype in ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?"):
        x = np.zeros(5, dtype)
        most = True if dtype == "?" else 3.5 if dtype[0] == "f" else int(np.iinfo(dtype).max)
        rt.fill(x[1:4], most)
        rt.sync(x)
        assert x.tolist() == [0, most, most, most, 0]
        if dtype[0] in "iu":
            least = int(np.iinfo(dtype).min)
            rt.fill(x, least)
            rt.sync(x)
            assert x.tolist() == [least] * 5
            for bad in (most + 1, least - 1, 10 ** 30):
                with pytest.raises(OverflowError):
                    rt.fill(x, bad)
            with pytest.raises(TypeError):
                rt.fill(x, 1.5)
    x, pair = np.zeros(3), np.zeros(2, "c8")
    for call in (lambda: rt.fill(pair, 1), lambda: rt.fill(x), lambda: rt.fill(x, "a"),
                 lambda: rt.rearrange(x, np.zeros(3, "f4")), lambda: rt.copy(b"abc", b"abc"),
                 lambda: rt.rearrange(x, np.zeros(4)), lambda: rt.gather(x, x)):
        with pytest.raises((TypeError, ValueError, pto.Error)):
            call()
    rt.wait()


def test_blas(rt):
    blas = pytest.importorskip("pto.blas")
    rng = np.random.default_rng(3)
    for dtype, close in (("f8", 1e-10), ("f4", 1e-3)):
        a, b, c = (rng.random((8, 8)).astype(dtype) for _ in range(3))
        want = 2 * a[1:5].T[2:6] @ b[:4, :3] + .5 * c[4:, :3]
        rt.submit(blas.gemm, a[1:5].T[2:6], b[:4, :3], c[4:, :3], 2.0, .5)
        rt.sync(c)
        assert np.allclose(c[4:, :3], want, atol=close)
        big = rng.random((200, 200)).astype(dtype)
        s = (big @ big.T + 200 * np.eye(200)).astype(dtype)
        l = s.copy()
        rt.submit(blas.potrf, l[:100, :100])
        rt.submit(blas.trsm, l[:100, :100], l[100:, :100])
        rt.submit(blas.syrk, l[100:, :100], l[100:, 100:], -1.0)
        rt.submit(blas.potrf, l[100:, 100:])
        rt.sync(l)
        low = np.tril(l)
        assert np.allclose(low @ low.T, s, rtol=1e-3 if dtype == "f4" else 1e-9)
    negative = -np.eye(4)
    rt.submit(blas.potrf, negative)
    with pytest.raises(pto.Error, match="positive"):
        rt.wait()
    rt.clear_error()
    for bad in ((np.zeros((2, 3)), np.zeros((2, 3)), c[:2, :2]), (a[::2, ::2], b[:4, :4], c[:4, :4]),
                (a.astype("i4"), b, c)):
        rt.submit(blas.gemm, *bad)
        with pytest.raises(pto.Error):
            rt.wait()
        rt.clear_error()


def test_types_that_programs_cannot_make():
    for type in (pto.Kernel, pto.Task, pto.Tensor):
        with pytest.raises(TypeError, match="cannot create"):
            type(0, "f", [])


def test_work_type(rt):
    seen, x = [], np.zeros(2)

    @pto.kernel(name="other name", type="cube")
    def f(x: pto.InOut[np.ndarray]):
        seen.append(1)

    assert rt.submit(f, x).kernel == "other name"
    rt.wait()
    assert seen
