"""C functions as kernels: by prototype, by the signature of pto/kernel.h, by pointer; built-in operators."""

import ctypes
import gc
import itertools
import sys
import time
from pathlib import Path

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
pto_status number(const pto_call *call)
{
    *(int64_t *)call->args[1].data = call->args[0].dtype;
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


def test_a_c_kernel_sees_the_dtype(rt, lib):
    """The library has no uint32 and no complex64: a kernel for any dtype would take them for int32 and int64."""
    number = lib.kernel("in any[2] x, out i64[1] number", name="number")
    seen = np.zeros(1, "i8")
    numbers = {"f4": 1, "f2": 2, "i4": 3, "i2": 4, "i1": 5, "u1": 6, "i8": 8, "u8": 9, "f8": 10, "?": 11}  # pto/tensor.h
    for dtype in numbers:
        rt.submit(number, np.zeros((2, 3), dtype), seen)
        rt.sync(seen)
        assert seen[0] == numbers[dtype]
    for dtype in ("u2", "u4", "c8", "c16", ">f8", "M8[s]", "S3", [("a", "i4")]):
        x = np.zeros((2, 3), dtype)
        for given in (x, pto.tensor(x)):
            with pytest.raises(TypeError, match="argument 0 has dtype.*view"):
                rt.submit(number, given, seen)
    rt.submit(number, np.zeros((2, 2), "u4").view("i4"), seen)
    rt.sync(seen)
    assert seen[0] == numbers["i4"]
    for index in (np.zeros(1, "c8"), np.zeros(1, "u4"), np.zeros(1, "m8[s]")):
        with pytest.raises(TypeError, match="int32 or int64"):
            rt.gather(seen, np.zeros(1, "i8"), index)


def test_function_pointers(rt, lib):
    cdll = ctypes.CDLL(lib.path)
    text = "int saxpy(int64_t, float, const float *, float *)"
    kernels = [pto.cfunc(cdll.saxpy, text), pto.cfunc(ctypes.cast(cdll.saxpy, ctypes.c_void_p).value, text)]
    cffi = pytest.importorskip("cffi")
    ffi = cffi.FFI()
    ffi.cdef("int saxpy(int64_t n, float a, const float *x, float *y);")
    opened = ffi.dlopen(lib.path)
    pointer = ffi.addressof(opened, "saxpy")
    kernels += [pto.cfunc(pointer, text), pto.cfunc(ffi.cast("void *", pointer), text)]
    for data in (ffi.new("int[3]"), ffi.new("int *"), ffi.cast("char *", pointer)):
        with pytest.raises(TypeError, match="is no function pointer"):
            pto.cfunc(data, text)
    with pytest.raises(ValueError, match="NULL"):
        pto.cfunc(ffi.NULL, text)

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
    assert y.tolist() == [4, 4] and done == [1]


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


def test_bad_declarations(lib, tmp_path, monkeypatch):
    for bad in ("x", "void f", "void f(", "float f()", "void f(int)x", "void f(thing)", "void f(double[3])",
                "void f(double[:][:])", "void f(double **x)", "void f(out int)", "void f(const out int *)", "void f(,)",
                "in f33[1] x", "in f32[1] x, ...", "f32[2]", "in", "void f(\0)", "void f(" + "double[:]," * 20 + "int)",
                "void f(" + "double," * 9 + "int)", "void f(" + "in " * 1000 + ")", "🦆"):
        with pytest.raises((ValueError, TypeError)):
            pto.cfunc(1234, bad)
    with pytest.raises(AttributeError, match="missing"):
        lib.kernel("void missing(void)")
    with pytest.raises(OSError) as caught:
        pto.Library("/there/is/no/such.so")
    assert "./" not in str(caught.value)
    (tmp_path / "libhere.so").write_bytes(Path(lib.path).read_bytes())
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OSError, match=r"write pto.Library\('./libhere.so'\)"):
        pto.Library(Path("libhere.so"))
    pto.Library("./libhere.so")
    for bad in (None, "saxpy", 0, 3.5, object(), lambda: 0):
        with pytest.raises((TypeError, ValueError)):
            pto.cfunc(bad, "void f(void)")
    with pytest.raises(TypeError):
        pto.cfunc(1234, None)
    with pytest.raises(ValueError, match="worker types"):
        pto.cfunc(1234, "void f(void)", type="gpu")


@pytest.mark.parametrize("name", ["in", "out", "inout"])
@pytest.mark.parametrize("array", ["double {}[:]", "double *{}", "double *restrict {}", "inout double {}[:]", "double volatile *{}"])
def test_parameters_with_the_name_of_an_access(rt, name, array):
    """What stands after the type is a name: the array is read and written."""
    addresses = []
    pointer = ctypes.CFUNCTYPE(None)(lambda: addresses.append(0))
    kernel = pto.cfunc(pointer, f"void f({array.format(name)}, double {name})")
    x = np.zeros(3)
    x.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        rt.submit(kernel, x, 1)
    with rt.scope(), pytest.raises(pto.Error) as caught:
        rt.submit(kernel, rt.temp(3), 1)
    assert caught.value.status is pto.Status.NOT_WRITTEN
    rt.submit(pto.cfunc(pointer, f"void f(const {array.format(name).removeprefix('inout ')})"), x)
    rt.wait()
    for bad in (f"void f(double {name} x[:])", f"void f({name} {name} double x[:])", f"void f({name})"):
        with pytest.raises(ValueError):
            pto.cfunc(pointer, bad)


@pytest.mark.parametrize("spelled, dtype", [
    ("long unsigned", "u8"), ("long unsigned int", "u8"), ("unsigned short int", "u2"), ("short int", "i2"), ("long int", "i8"),
    ("signed", "i4"), ("long long int", "i8"), ("char unsigned", "u1"), ("double", "f8"), ("size_t", "u8")])
@pytest.mark.parametrize("name", ["", " n"])
def test_spellings_of_types(rt, spelled, dtype, name):
    kernel = pto.cfunc(1234, f"void f({spelled}{name}, {spelled} *{name})")
    for other in ("u1", "u2", "i2", "i4", "i8", "u8", "f8"):
        if np.dtype(other) != dtype:
            wrong = np.zeros(3, other)
            with pytest.raises(TypeError, match=f"dtype {np.dtype(other).name}, but the kernel takes {np.dtype(dtype).name}"):
                rt.submit(kernel, 1, wrong)
    if dtype[0] != "f":
        for beyond in (np.iinfo(dtype).max + 1, np.iinfo(dtype).min - 1):
            with pytest.raises(OverflowError):
                rt.submit(kernel, beyond, np.zeros(3, dtype))


@pytest.mark.parametrize("parameter", ["long double x", "long double", "double long *x", "double _Complex *z", "float complex z[:]",
                                       "_Complex double *z", "unsigned double x", "long float", "struct double *x", "short char x"])
def test_a_word_of_a_type_is_no_name(parameter):
    with pytest.raises(ValueError, match="the type of .* is unknown"):
        pto.cfunc(1234, f"void f({parameter})")


def test_a_const_pointer_to_what_is_written(rt, lib):
    kernel = pto.cfunc(lib._library.saxpy, "int saxpy(int64_t n, float a, float const *const x, float *const y)")
    x, y = np.ones(3, "f4"), np.ones(3, "f4")
    y.flags.writeable = False
    with pytest.raises(ValueError, match="argument 3 is read-only"):
        rt.submit(kernel, 3, 2.0, x, y)
    y = np.ones(3, "f4")
    x.flags.writeable = False
    rt.submit(kernel, 3, 2.0, x, y)
    rt.sync(y)
    assert y.tolist() == [3, 3, 3]


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
            with pytest.raises(TypeError, match="no integer for elements"):
                rt.fill(x, 1.5)
        elif dtype[0] == "f":
            limits = np.finfo(dtype)
            for value in (float(limits.max), -float(limits.max), np.inf, -np.inf):
                rt.fill(x, value)
                rt.sync(x)
                assert x.tolist() == [value] * 5
            rt.fill(x, np.nan)
            rt.sync(x)
            assert np.isnan(x).all()
            for bad in (10 ** 309, *([float(limits.max) * 2, -1e300] if dtype != "f8" else [])):
                with pytest.raises(OverflowError):
                    rt.fill(x, bad)
    with rt.scope():
        brain = rt.empty(3, "bf16")
        rt.fill(brain, 2.0 ** 127)
        rt.fill(brain, -np.inf)
        with pytest.raises(OverflowError, match="bfloat16"):
            rt.fill(brain, 1e39)
    for other in (np.zeros(2, "c8"), np.zeros(2, ">f8"), np.zeros(2, "M8[s]")):
        with pytest.raises(TypeError, match="submit a kernel"):
            rt.fill(other, 1)
    x, pair = np.zeros(3), np.zeros(2, "c8")
    for call in (lambda: rt.fill(pair, 1), lambda: rt.fill(x), lambda: rt.fill(x, "a"),
                 lambda: rt.rearrange(x, np.zeros(3, "f4")), lambda: rt.copy(b"abc", b"abc"),
                 lambda: rt.rearrange(x, np.zeros(4)), lambda: rt.gather(x, x)):
        with pytest.raises((TypeError, ValueError, pto.Error)):
            call()
    rt.wait()


@pytest.mark.parametrize("way", ["wait", "after"])
def test_a_large_rearrange_is_one_task_to_the_program(rt, way):
    """It has parts that run in parallel, and the last one may be the first to end."""
    def late(x: pto.InOut[np.ndarray]):
        time.sleep(.1)
        x[...] = 2

    def look(seen: pto.Out[np.ndarray]):
        seen[0] = new[0, 0]

    old, new, seen = np.ones((1000, 1000)), np.zeros((1000, 1000)), np.zeros(1)
    rt.submit(late, old[:1])
    before = rt.stats()["submitted"]
    task = rt.rearrange(new, old)
    assert rt.stats()["submitted"] > before + 2 and task.order == rt.stats()["submitted"] - 1
    if way == "wait":
        rt.wait(task)
        assert new[0, 0] == 2
    else:
        rt.submit(look, seen, after=task)
        rt.sync(seen)
        assert seen[0] == 2
    before = rt.stats()["submitted"]
    rt.wait(rt.rearrange(new[:9], old[:9].copy()))
    assert rt.stats()["submitted"] == before + 1 and (new == old).all()


@pytest.mark.parametrize("make", [np.array, lambda x: memoryview(bytearray(x)).cast("B", (3, 3))])
def test_a_copy_inside_of_an_array(rt, make):
    whole = np.arange(9, dtype="u1")
    x = make(whole.reshape(3, 3))
    part = np.asarray(x)
    for source in (part[1:], part[:2][::-1], part[:2, ::-1]):
        with pytest.raises(pto.Error, match="copy: the source shares bytes with the destination") as caught:
            rt.copy(part[:2], source)
        assert caught.value.status is pto.Status.OVERLAP and caught.value.file == __file__
    rt.copy(x, x)
    rt.copy(part[:, :1], part[:, 1:2])
    rt.copy(part[:1], part[2:])
    rt.sync(x)
    assert np.asarray(x).tolist() == [[7, 7, 8], [4, 4, 5], [7, 7, 8]]


def test_built_in_operators_have_names(rt):
    x, i = np.zeros(3), np.zeros(3, "i8")
    tasks = rt.fill(x, 1), rt.copy(x, np.ones(3)), rt.rearrange(x, np.ones(3)), rt.gather(x, np.ones(3), i), rt.scatter(x, np.ones(3), i)
    assert [task.kernel for task in tasks] == ["fill", "copy", "rearrange", "gather", "scatter"]
    assert repr(tasks[0]).startswith(f"<pto.Task {tasks[0].order}, fill, ")
    rt.wait()
    for call in (rt.gather, rt.scatter):
        task = call(x, np.ones(3), i + 7)
        with pytest.raises(pto.Error, match=rf"task {task.order} \(kernel '{call.__name__}', submitted at .*BAD_INDEX: {call.__name__}: index 7"):
            rt.wait()
        rt.clear_error()


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


def test_blas_takes_transposed_slices_of_any_size(rt):
    """A matrix of one row, from a matrix that is transposed, has a gap between its elements."""
    blas = pytest.importorskip("pto.blas")
    m = np.random.default_rng(4).random((12, 12))
    for rows, inner, columns in itertools.product((1, 2, 5), repeat=3):
        for a, b in itertools.product((m[:rows, :inner], m[:inner, :rows].T), (m[5:5+inner, :columns], m[5:5+columns, :inner].T)):
            c = np.zeros((8, 8))
            rt.submit(blas.gemm, a, b, c[1:1+rows, 2:2+columns])
            square = np.zeros((rows, rows))
            rt.submit(blas.syrk, a, square)
            rt.wait()
            assert np.allclose(c[1:1+rows, 2:2+columns], a @ b) and np.allclose(np.tril(square), np.tril(a @ a.T))


def test_blas_of_small_and_of_large_matrices(rt):
    """Products of up to 256 rows, columns and terms are our own, larger ones those of the library."""
    blas = pytest.importorskip("pto.blas")
    m = np.random.default_rng(5).random((600, 600))
    for rows, inner, columns in ((1, 1, 1), (3, 7, 5), (64, 200, 33), (255, 256, 254), (256, 129, 256), (257, 40, 3), (5, 300, 6)):
        a = m[:rows, :inner]
        for b in (m[300:300+inner, 7:7+columns], m[290:290+columns, :inner].T):
            for alpha, beta in ((1.0, 1.0), (-1.5, 0.5), (0.0, 2.0), (2.0, 0.0)):
                c = m[:rows, 300:300+columns].copy() if beta else np.full((rows, columns), np.nan)
                want = alpha * (a @ b) + (beta * c if beta else 0)
                square = np.full((rows, rows), 3.0)
                rt.submit(blas.gemm, a, b, c, alpha, beta)
                rt.submit(blas.syrk, a, square, alpha, beta)
                rt.wait()
                assert np.allclose(c, want, atol=1e-10)
                assert np.allclose(square, np.where(np.tri(rows) > 0, alpha * (a @ a.T) + 3 * beta, 3.0), atol=1e-10)


def test_blas_refuses_what_is_read_and_written(rt):
    """Of large matrices the result would be wrong, and nothing would say so."""
    blas = pytest.importorskip("pto.blas")
    m = np.ones((9, 9))
    for call in ((blas.gemm, m, m[:9, :9], m), (blas.gemm, m[:4, :4], m[5:9, 5:9], m[3:7, :4]), (blas.syrk, m, m),
                 (blas.gemm, m[5:9, 5:9], m[:4, :4], m[3:7, 2:6]), (blas.trsm, m[:3, :3], m[2:6, 2:5])):
        rt.submit(*call)
        with pytest.raises(pto.Error, match="shares memory with argument"):
            rt.wait()
        rt.clear_error()
    rt.submit(blas.gemm, m[:4, :4], m[4:8, :4], m[:4, 4:8])  # rows in between, but no byte in common
    rt.submit(blas.gemm, m[:4, :4], m[:4, :4], m[4:8, 4:8], 2.0, 0.0, 1.0)
    with pytest.raises(pto.Error, match="6 arguments: at most 5"):
        rt.wait()
    rt.clear_error()
    assert (m[:4, 4:8] == 5).all() and m.sum() == 81 + 16 * 4


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


def test_blas_at_the_limits(rt):
    pytest.importorskip("pto.blas")
    from pto import blas
    for value in (np.nan, np.inf, 0.0, -1.0):
        for dtype in ("f4", "f8"):
            a = np.eye(5, dtype=dtype)
            a[3, 3] = value
            if value == np.inf:
                a[3, 2] = np.inf  # their difference is no number
            rt.submit(blas.potrf, a)
            with pytest.raises(pto.Error, match="pivot 3"):
                rt.wait()
            rt.clear_error()
    for m, n, k in ((0, 3, 2), (3, 0, 2), (3, 2, 0), (0, 0, 0)):
        c, square = np.ones((m, n)), np.ones((m, m))
        rt.submit(blas.gemm, np.ones((m, k)), np.ones((k, n)), c, 2.0, 3.0)
        rt.submit(blas.syrk, np.ones((m, k)), square, 2.0, 3.0)
        rt.submit(blas.trsm, np.eye(n), c)
        rt.sync(c, square)
        assert (c == 3 + 2 * k).all() and (np.tril(square) == np.tril(np.full((m, m), 3.0 + 2 * k))).all()


def test_a_float_that_does_not_fit(rt):
    seen = []
    function = ctypes.CFUNCTYPE(None, ctypes.c_float)(seen.append)
    kernel = pto.cfunc(function, "void f(float)")
    for bad in (1e39, -1e300, np.float64(1e40), 10 ** 40, 10 ** 400):
        with pytest.raises(OverflowError, match="f: argument 0 does not fit into float32"):
            rt.submit(kernel, bad)
    with pytest.raises(TypeError, match="f: argument 0 must be a number, not <class 'complex'>"):
        rt.submit(kernel, 1j)
    for good in (float("inf"), 3e38, 1e-300, 2):
        rt.submit(kernel, good)
        rt.wait()
    assert seen == [float("inf"), ctypes.c_float(3e38).value, 0, 2]


def test_equal_kernels_are_one(lib):
    """A program may make its C kernel for every task: equal ones share a registration, and old ones are let go."""
    declaration = "void nothing(void)"
    with pto.Runtime(workers=0) as rt:
        for _ in range(1000):
            rt.submit(lib.kernel(declaration))
        rt.wait()
        gc.collect()
        before = sys.getallocatedblocks()
        for i in range(67_000):
            rt.submit(lib.kernel(declaration))
        rt.submit(lib.kernel(declaration, name="another"))
        rt.wait()
        gc.collect()
        assert sys.getallocatedblocks() - before < 67_000


def test_kernels_that_differ_are_not_one(lib, rt):
    x, y, z = np.ones((2, 2)), np.zeros((2, 2)), np.zeros((2, 2))
    declared = "void scale(const double[:,:], {}double[:,:], double)"
    rt.submit(lib.kernel(declared.format("out ")), x, y, 2.0)
    rt.submit(lib.kernel(declared.format("")), x, z, 3.0)
    with pytest.raises(TypeError, match="float32"):
        rt.submit(lib.kernel(declared.format("").replace("double[:,:]", "float[:,:]")), x, y, 2.0)
    rt.wait()
    assert y.tolist() == [[2, 2]] * 2 and z.tolist() == [[3, 3]] * 2


def test_too_many_kernels(lib):
    with pto.Runtime(workers=0) as rt:
        with pytest.raises(pto.Error, match="make a kernel once") as caught:
            for i in range(70_000):
                rt.submit(lib.kernel("void nothing(void)", name=f"k{i}"))
        assert caught.value.status is pto.Status.FULL


@pytest.mark.parametrize("declaration, why", [
    ("void nothing", "names no function"), ("in f64[1] a", "give name="), ("", "names no function"),
    ("void scale(const double x[:]", "closing parenthesis is missing"),
    ("double scale(const double x[:])", "its result is 'double', and must be void or int"),
    ("const float *scale(const double x[:])", "its result is 'const float"),
    ("scale(const double x[:])", "its result, void or int, is missing"),
    ("void scale(const double x[:]) nonsense", "does not end with the closing parenthesis")])
def test_why_a_declaration_is_none(lib, declaration, why):
    with pytest.raises(ValueError, match=why):
        lib.kernel(declaration)
    if "(" in declaration:
        with pytest.raises(ValueError, match=why):
            pto.cfunc(lib._library.scale, declaration)


def test_errors_speak_python(lib, rt):
    """No error names a function of C."""
    scale = lib.kernel("void scale(const double[:,:], out double[:,:], double)")
    saxpy = lib.kernel("int saxpy(int64_t, float, const float *, float *)")
    x = np.ones((2, 2))
    with pytest.raises(TypeError, match="dtype >f8, but the kernel takes float64"):
        rt.submit(scale, x.astype(">f8"), x.copy()[:], 1.0)
    with rt.scope():
        there, new = rt.empty((2, 2), device="sim:0"), rt.empty((2, 2), device="sim:0")
        with pytest.raises(pto.Error) as caught:
            rt.submit(scale, there, new, 1.0)
        assert 'kernel.on("sim", other)' in str(caught.value) and "pto_" not in str(caught.value)
        with pytest.raises(pto.Error) as caught:
            rt.rearrange(there, x)
        assert "rt.copy" in str(caught.value) and "pto_" not in str(caught.value)
    y = np.ones(2, "f4")
    rt.submit(saxpy, -1, 1.0, y.copy(), y)
    with pytest.raises(pto.Error) as caught:
        rt.wait()
    assert "failed: KERNEL_FAILED: saxpy returned 42" in str(caught.value)
    rt.clear_error()


def test_what_is_no_kernel(rt):
    x = np.ones(2)
    for what in ((1, 2), (lambda a: None,), (), [3]):
        with pytest.raises(TypeError, match="the first argument must be a kernel, not (tuple|list)"):
            rt.submit(what, x)
    for what in (np.add, np.copyto):
        with pytest.raises(TypeError, match=r"write a function that calls it, as in def f\(x: pto.In"):
            rt.submit(what, x, x)
