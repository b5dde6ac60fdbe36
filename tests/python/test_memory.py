"""Managed memory: temp, empty, scopes, boundaries; views that a kernel keeps."""

import gc
import subprocess
import sys
import time

import numpy as np
import pytest

import pto


@pto.kernel
def put(b: pto.Out[np.ndarray], value):
    b[...] = value


@pto.kernel
def add(a: pto.In[np.ndarray], b: pto.InOut[np.ndarray]):
    b += a


def test_temp(rt):
    with rt.scope():
        t = rt.temp((3, 4), "f4")
        assert t.managed and t.shape == (3, 4) and t.dtype == "float32" and "managed" in repr(t)
        rt.submit(put, t, 2)
        y = np.ones((3, 4), "f4")
        rt.submit(add, t, y)
        rt.sync(y)
        assert (y == 3).all()
        copy = rt.read(t[1])
        assert copy.tolist() == [2] * 4 and copy.flags.owndata and copy.flags.writeable
    with pytest.raises(pto.Error) as caught:
        rt.read(t)
    assert caught.value.status is pto.Status.STALE


def test_empty_in_parts(rt):
    with rt.scope() as inner:
        assert inner is rt
        t = rt.empty(10, "i8")
        for i in range(5):
            rt.submit(put, t[2 * i:2 * i + 2], i)
        assert rt.read(t).tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
        rt.release(t)
        with pytest.raises(pto.Error) as caught:
            rt.submit(put, t, 1)
        assert caught.value.status is pto.Status.STALE


def test_no_scope(rt):
    with pytest.raises(pto.Error) as caught:
        rt.temp(4)
    assert "with rt.scope():" in str(caught.value)
    assert caught.value.status is pto.Status.NO_SCOPE and caught.value.line > 0 and caught.value.file == __file__
    rt.wait()


def test_first_write_must_be_whole(rt):
    with rt.scope():
        t = rt.temp((4,), "f8")
        with pytest.raises(pto.Error):
            rt.submit(put, t[:2], 1)
        with pytest.raises(pto.Error):
            rt.read(t)
        with pytest.raises(pto.Error):
            rt.submit(add, np.zeros(4), t)


def test_a_loop_of_boundaries_streams(rt):
    total = np.zeros(1)

    @pto.kernel
    def collect(t: pto.In[np.ndarray], total: pto.InOut[np.ndarray]):
        total += t[0]

    with pto.Runtime(workers=1, heap_bytes=1 << 20) as small:
        with small.scope():
            for i in range(200):
                with small.boundary():
                    t = small.temp(16384, "f8")
                    small.submit(put, t, i)
                    small.submit(collect, t, total)
        small.wait()
    assert total[0] == sum(range(200))


def test_stall_is_an_error():
    with pytest.raises(pto.Error) as caught:
        with pto.Runtime(workers=1, heap_bytes=1 << 16) as small:
            with small.scope():
                for i in range(20):
                    small.submit(put, small.temp(1024, "f8"), i)
    assert caught.value.status is pto.Status.STALLED and "test_memory.py" in str(caught.value)


def test_dtypes(rt):
    with rt.scope():
        for dtype in ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?", np.float32, "float64",
                      np.dtype("i4"), float, int, bool):
            t = rt.temp((2, 2), dtype)
            rt.submit(put, t, 1)
            assert rt.read(t).dtype == np.dtype(dtype)
        t = rt.temp(3, "bf16")
        rt.submit(put, t, 1)
        assert rt.read(t).dtype == "u2"
        for bad in ("f3", "object", object, None, 3, "", "f4\0", "x" * 10000, "O", [("a", "O")], "U", "V0", "(2,3)f4"):
            with pytest.raises((TypeError, ValueError)):
                rt.temp(3, bad) if bad is not None else rt.temp(None)


@pytest.mark.parametrize("dtype", ["c16", complex, np.complex128, "g", ">f4", np.dtype(">f8"), "M8[s]", "U3", "S2",
                                   [("a", "i1"), ("b", "f8")], np.dtype([("a", "f4", (2, 3))]), "f4,i2"])
@pytest.mark.parametrize("make", ["temp", "empty"])
def test_all_dtypes_of_numpy(rt, make, dtype):
    """What an array can be, a managed tensor can be."""
    values = np.arange(12).astype(np.dtype(dtype)) if np.dtype(dtype).names is None else np.zeros(12, dtype)
    if np.dtype(dtype).names:
        values.view("u1")[:] = np.arange(values.nbytes) % 50
    values = values.reshape(3, 4)
    seen = []

    def copy(a: pto.In[np.ndarray], b: pto.Out[np.ndarray]):
        seen.append((b.dtype, b.shape))
        b[...] = a

    back = np.zeros_like(values)
    with rt.scope():
        t = getattr(rt, make)(values.shape, dtype)
        assert t.shape == (3, 4) and t.ndim == 2 and len(t) == 3 and t.dtype == str(np.dtype(dtype))
        rt.submit(copy, values, t)
        rt.submit(copy, t[::-1, 1:], back[:, 1:])
        assert (rt.read(t) == values).all() and rt.read(t).dtype == dtype
        assert (rt.read(t.T[1]) == values.T[1]).all() and (rt.read(t.reshape(2, -1)[1]) == values.reshape(2, -1)[1]).all()
        rt.sync(back)
        assert (back[:, 1:] == values[::-1, 1:]).all()
        other = rt.temp(values.shape, dtype)
        rt.rearrange(other, values)
        rt.copy(back, other)
        rt.sync(back)
        assert (back == values).all()
        with pytest.raises(TypeError, match="dtypes differ"):
            rt.copy(t, np.zeros((3, 4), "f8"))
        with pytest.raises(ValueError, match="at most 7"):
            getattr(rt, make)((1,) * 8, dtype)
        with pytest.raises(ValueError, match="at most 7"):
            t.reshape((3, 4) + (1,) * 6)
        with pytest.raises(ValueError):
            t.reshape(5)
    assert set(seen) == {(np.dtype(dtype), (3, 4)), (np.dtype(dtype), (3, 3))}


def test_bad_shapes(rt):
    with rt.scope():
        for bad in (-1, (2, -3), "ab", None, 1.5, (1,) * 9, (2 ** 62, 2 ** 62), 10 ** 30, [[1]]):
            with pytest.raises((TypeError, ValueError, OverflowError, pto.Error)):
                rt.submit(put, rt.temp(bad, "f8"), 0)
        with pytest.raises(pto.Error):
            rt.submit(put, rt.temp(2 ** 50, "f8"), 0)
        t = rt.temp((0, 3), "f8")
        rt.submit(put, t, 1)
        assert rt.read(t).shape == (0, 3)


def test_not_exported(rt):
    with rt.scope():
        t = rt.empty(4)
        for use in (np.asarray, memoryview, np.array, lambda t: t + 1):
            with pytest.raises(TypeError):
                use(t)


def test_a_kept_view_of_managed_memory_fails(rt):
    kept = []

    @pto.kernel
    def keep(x: pto.Out[np.ndarray]):
        x[...] = 1
        kept.append(x[1:])

    with rt.scope():
        rt.submit(keep, rt.temp(8, "f8"))
        with pytest.raises(pto.Error, match="keeps a view"):
            rt.wait()
    assert "keeps a view" in str(rt_error(rt))


def rt_error(rt):
    with pytest.raises(pto.Error) as caught:
        rt.wait()
    return caught.value


def test_garbage_is_not_kept(rt):
    @pto.kernel
    def cycle(x: pto.Out[np.ndarray]):
        x[...] = 1
        a = [x]
        a.append(a)

    with rt.scope():
        t = rt.temp(8, "f8")
        rt.submit(cycle, t)
        assert rt.read(t).sum() == 8


def test_a_look_at_all_objects_keeps_nothing(rt):
    """As programs that look for leaks take it, on any thread."""
    looked = []

    @pto.kernel
    def look(x: pto.InOut[np.ndarray], words):
        looked.append(gc.get_objects())

    with rt.scope():
        t = rt.empty(3)
        rt.fill(t, 1)
        rt.submit(look, t, ["a"])
        assert rt.read(t).tolist() == [1] * 3
    assert looked.pop()


class Slow:
    """Ends slowly, so that other threads run while it is collected."""

    def __del__(self):
        time.sleep(.002)


@pytest.mark.parametrize("disabled, workers, inline_ns", [(True, 0, 1000), (True, 2, 0), (False, 3, 0)])
def test_a_kernel_whose_arguments_are_garbage_keeps_none(disabled, workers, inline_ns):
    """A closure that calls itself refers to itself, and is garbage until a collection."""
    def copy(x: pto.In[np.ndarray], y: pto.Out[np.ndarray]):
        slow = None if disabled else Slow()

        def go(i):
            if i < len(x):
                y[i] = x[i]
                go(i + 1)
            return slow
        go(0)

    if disabled:
        gc.disable()
    try:
        with pto.Runtime(workers=workers, inline_ns=inline_ns) as rt:
            for _ in range(5):
                with rt.scope():
                    for t in [rt.temp(5) for _ in range(8)]:
                        rt.submit(copy, np.arange(5.), t)
                    rt.wait()
        assert gc.isenabled() != disabled
    finally:
        gc.enable()


def test_a_kept_view_outlives_the_runtime():
    kept = []

    @pto.kernel
    def keep(x: pto.Out[np.ndarray]):
        x[...] = 7
        kept.append(x)

    with pytest.raises(pto.Error):
        with pto.Runtime(workers=1) as rt:
            with rt.scope():
                rt.submit(keep, rt.temp(8, "f8"))
    gc.collect()
    assert len(kept[0].tolist()) == 8  # mapped, not a crash; the contents may be recycled
    kept[0][:] = 1
    kept.clear()
    gc.collect()


def test_without_numpy(run_python):
    run_python("""
        import sys, pto, array

        @pto.kernel
        def scale(a: pto.In, b: pto.Out, by: float):
            assert type(a) is memoryview and a.readonly and not b.readonly
            for i in range(len(a)):
                b[i] = by * a[i]

        a, b = array.array("d", range(4)), array.array("d", [0] * 4)
        with pto.Runtime(workers=1) as rt:
            rt.submit(scale, a, b, 2.0)
            rt.sync(b)
            assert list(b) == [0, 2, 4, 6]
            with rt.scope():
                t = rt.temp(4, "d")
                rt.submit(scale, b, t, 2.0)
                got = rt.read(t)
                assert type(got) is memoryview and got.tolist() == [0, 4, 8, 12] and got.format == "d"
        assert "numpy" not in sys.modules
    """)


def test_read_without_numpy(run_python):
    """Shapes and dtypes that memoryview.cast does not know."""
    run_python("""
        import struct, sys, pto

        with pto.Runtime(workers=1) as rt, rt.scope():
            for shape in ((0,), (3, 0), (0, 0, 2), (), (2, 3)):
                t = rt.empty(shape)
                rt.fill(t, 2)
                got = rt.read(t)
                assert got.shape == shape and not got.readonly and got.format == "d" and got.c_contiguous
                assert got.tobytes() == struct.pack("d", 2) * (got.nbytes // 8)
            half = rt.empty(3, "f2")
            rt.fill(half, 2)
            got = rt.read(half)
            assert got.format == "e" and struct.unpack("3e", got) == (2, 2, 2)
            pair = rt.empty(3, "complex64")
            rt.copy(pair, rt.read(pair))
            got = rt.read(pair)
            assert got.format == "Zf" and got.nbytes == 24 and pto.tensor(got).dtype == "complex64"
            try:
                rt.sync(memoryview((__import__("ctypes").c_int.__ctype_be__ * 3)()))
            except TypeError as error:
                assert "numpy.asarray" in str(error)
        assert "numpy" not in sys.modules
    """)


@pytest.mark.parametrize("what, kept", [("x", 1), ("x[1:]", 1), ("x.cast('B')", 1), ("iter(x[:])", 1), ("[x[1:]].append", 1),
                                        ("x[0]", 0), ("cycle(x[1:])", 0)])
def test_a_kept_memoryview_fails(run_python, what, kept):
    """A part of a memoryview does not refer to the memoryview itself."""
    run_python(f"""
        import sys, pto

        kept = []

        def cycle(x):
            garbage = [x]
            garbage.append(garbage)

        @pto.kernel
        def keep(x: pto.InOut[memoryview]):
            kept.append({what})

        with pto.Runtime(workers=1) as rt:
            with rt.scope():
                t = rt.empty(4)
                rt.submit(keep, t)
                try:
                    rt.wait()
                    failed = False
                except pto.Error as error:
                    failed = "keeps a view of its argument 0" in str(error)
                    rt.clear_error()
        assert failed == {bool(kept)}
        assert "numpy" not in sys.modules
    """)


def test_scopes_end_in_order():
    """A generator can end its scope while another one is open inside of it."""
    rt = pto.Runtime(workers=1)

    def memory():
        with rt.scope():
            yield rt.empty(3)

    for make in (rt.scope, lambda: rt.range("a phase")):
        outer, inner = make(), make()
        with outer:
            with inner:
                for call, error in ((lambda: outer.__exit__(None, None, None), pto.Error), (outer.__enter__, RuntimeError),
                                    (lambda: make().__exit__(None, None, None), pto.Error)):
                    with pytest.raises(error):
                        call()
    steps = memory()
    first = next(steps)
    with rt.scope():
        with pytest.raises(pto.Error, match="still open"):
            steps.close()
        second = rt.empty(3)
        rt.fill(second, 2)
        assert rt.read(second).tolist() == [2] * 3
    rt.fill(first, 1)
    assert rt.read(first).tolist() == [1] * 3
    rt.close(cancel=True)


@pytest.mark.parametrize("make, says", [(lambda rt: rt.scope(), "scope"), (lambda rt: rt.boundary(), "boundary"),
                                        (lambda rt: rt.range("a"), "range")], ids=["scope", "boundary", "range"])
def test_errors_name_the_method(make, says):
    rt = pto.Runtime(workers=0)
    one = make(rt)
    end = says.replace("boundary", "scope")
    with pytest.raises(pto.Error, match=f"^end of a {end}: it was not entered"):
        one.__exit__(None, None, None)
    with one, pytest.raises(RuntimeError, match=rf"^{says}: this one is open: call rt\.{says}\(.*\) again"):
        one.__enter__()
    rt.close()
    with pytest.raises(ValueError, match=f"^{says}: the runtime is closed"):
        one.__enter__()


def test_wrong_scope_use(rt):
    with pytest.raises(pto.Error):
        with rt.scope():
            rt.scope().__exit__(None, None, None)
    rt.clear_error()
    with pytest.raises(TypeError):
        rt.range(3)
    x = np.zeros(2)
    with rt.range("a phase"):
        rt.submit(put, x, 1)
