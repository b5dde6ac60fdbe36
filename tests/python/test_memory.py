"""Managed memory: temp, empty, scopes, boundaries; views that a kernel keeps."""

import gc
import subprocess
import sys

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
        for bad in ("f3", "object", object, None, 3, "", "f4\0", ">f4", "x" * 10000):
            with pytest.raises((TypeError, ValueError)):
                rt.temp(3, bad) if bad is not None else rt.temp(None)


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
