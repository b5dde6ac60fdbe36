"""What can be an argument, what cannot, and for how long it lives."""

import array
import collections
import contextlib
import functools
import gc
import inspect
import sys
import weakref

import numpy as np
import pytest

import pto


@pto.kernel
def put(b: pto.Out[np.ndarray], value):
    b[...] = value


@pto.kernel
def copy_to(a: pto.In[np.ndarray], b: pto.Out[np.ndarray]):
    b[...] = a


@pto.kernel
def read(a: pto.In[np.ndarray], out: list):
    out.append(a.tolist())


def test_buffers(rt):
    for memory in (bytearray(8), array.array("d", [0] * 4), memoryview(bytearray(16)).cast("i"),
                   memoryview(array.array("q", range(6)))[::2], memoryview(bytearray(12)).cast("B", (3, 4))):
        rt.submit(put, memory, 3)
        rt.sync(memory)
        assert np.asarray(memory).reshape(-1).tolist() == [3] * np.asarray(memory).size


def test_read_keeps_the_order_of_elements(rt):
    for array_ in (np.arange(24.0).reshape(2, 3, 4), np.arange(24, dtype="i2").reshape(4, 6).T,
                   np.arange(20, dtype="f4").reshape(4, 5)[::2, ::-1]):
        got = rt.read(array_)
        assert got.tolist() == array_.tolist() and got.flags.c_contiguous and got.flags.writeable
    memory = memoryview(bytearray(range(12))).cast("B", (3, 4))
    assert rt.read(memory).tolist() == memory.tolist()
    with rt.scope():
        t = rt.temp((2, 3), "f4")
        rt.submit(put, t, 7)
        assert rt.read(t).tolist() == [[7] * 3] * 2


def test_capsules_that_are_none(rt):
    class Theirs:
        def __init__(self, capsule):
            self.capsule = capsule

        def __dlpack__(self):
            return self.capsule

    used = np.zeros(3).__dlpack__()
    pto.tensor(Theirs(used))
    for bad in (used, 3, None):
        with pytest.raises(ValueError, match="copy_to: __dlpack__ of argument 1 did not return a new capsule"):
            rt.submit(copy_to, np.zeros(3), Theirs(bad))


def test_read_only_memory(rt):
    seen = []
    rt.submit(read, b"abc", seen)
    rt.wait()
    assert seen == [[97, 98, 99]]
    frozen = np.zeros(3)
    frozen.flags.writeable = False
    for memory in (b"abc", frozen, memoryview(b"abc")):
        with pytest.raises(ValueError, match="read-only"):
            rt.submit(put, memory, 0)


def test_a_resized_buffer_is_refused(rt):
    import threading
    gate = threading.Event()

    @pto.kernel
    def hold(x: pto.InOut[np.ndarray]):
        gate.wait(100)

    memory, ints = bytearray(8), array.array("i", [1, 2])
    rt.submit(hold, memory)
    rt.submit(hold, ints)
    with pytest.raises(BufferError):
        memory.extend(b"more")
    with pytest.raises(BufferError):
        ints.append(3)
    numbers = np.zeros(4)
    rt.submit(hold, numbers)
    with pytest.raises(ValueError, match="resize"):
        numbers.resize(100)
    gate.set()
    rt.wait()
    memory.extend(b"more")
    numbers.resize(100, refcheck=False)


def test_arrays_live_until_their_tasks_are_complete(rt):
    import threading
    gate = threading.Event()

    @pto.kernel
    def hold(x: pto.InOut[np.ndarray]):
        gate.wait(100)
        x[...] = 7

    class Array(np.ndarray):
        pass

    x = np.zeros(100).view(Array)
    gone = weakref.ref(x)
    rt.submit(hold, x)
    del x
    gc.collect()
    assert gone() is not None
    gate.set()
    rt.wait()
    gc.collect()
    assert gone() is None


def test_references_are_dropped_while_submitting(rt):
    """A long run of submits does not keep all arrays alive."""
    alive = []

    class Array(np.ndarray):
        pass

    for _ in range(5000):
        x = np.zeros(10).view(Array)
        alive.append(weakref.ref(x))
        rt.submit(put, x[:], 1)
    assert rt.stats()["held"] <= 2100
    del x
    rt.wait()
    gc.collect()
    assert not any(ref() is not None for ref in alive)
    assert rt.stats()["held"] == 0


def test_temporary_copies_are_refused(rt):
    y = np.zeros(10)
    mask = y == 0
    with pytest.raises(ValueError, match="temporary copy"):
        rt.submit(put, y[mask], 1)
    with pytest.raises(ValueError, match="temporary copy"):
        rt.submit(put, y[[1, 2]], 1)
    with pytest.raises(ValueError, match="temporary copy"):
        rt.submit(put, y.astype("f4"), 1)
    rt.submit(put, y[2:4], 1)
    rt.submit(put, y.reshape(5, 2)[4], 2)
    copy = y[mask]
    rt.submit(put, copy, 3)
    rt.wait()
    assert y.tolist() == [0, 0, 1, 1, 0, 0, 0, 0, 2, 2] and copy.tolist() == [3] * 10


def test_temporary_copies_of_other_kinds_are_refused(rt):
    """Views of a copy that nobody else has; slices of bytearray and array.array, which copy."""
    y, plain, numbers = np.zeros((4, 6)), bytearray(8), array.array("d", [0] * 8)
    for make in (lambda: y[y == 0][1:], lambda: y.T.reshape(-1), lambda: y[[0, 1]].T, lambda: y.copy().view("i8"),
                 lambda: y[y == 0].reshape(2, -1)[1], lambda: plain[2:4], lambda: numbers[2:4]):
        with pytest.raises(ValueError, match="temporary copy"):
            rt.submit(put, make(), 1)
        with pytest.raises(ValueError, match="temporary copy"):
            rt.fill(make(), 1)
    rt.submit(put, y.reshape(-1), 1)  # a view
    rt.submit(put, y.reshape(2, 12)[1].T, 2)
    rt.submit(put, memoryview(plain)[2:4], 3)
    rt.submit(put, memoryview(numbers)[2:4], 4)
    rt.submit(put, np.frombuffer(plain, "u1")[4:6], 5)
    rt.sync()
    assert y.tolist() == [[1] * 6] * 2 + [[2] * 6] * 2
    assert list(plain) == [0, 0, 3, 3, 5, 5, 0, 0] and list(numbers) == [0, 0, 4, 4, 0, 0, 0, 0]


def test_copies_between_dtypes_are_refused(rt):
    """A copy moves bytes. Two types that the library does not know may still differ."""
    swapped, times, rows = np.arange(3.).astype(">f8"), np.zeros(3, "M8[s]"), np.zeros(3, [("a", "i4"), ("b", "f4")])
    for dst, src in ((np.zeros(3, ">i8"), swapped), (np.zeros(3, "f8"), swapped), (swapped, np.zeros(3)),
                     (np.zeros(3, "M8[D]"), times), (np.zeros(3, "i8"), times), (np.zeros(3, [("a", "f4"), ("b", "i4")]), rows)):
        for call in (rt.copy, rt.rearrange):
            with pytest.raises(TypeError, match="dtypes differ"):
                call(dst, src)
    for dst, src in ((np.zeros(3, ">f8"), swapped), (np.zeros(3, "M8[s]"), times), (np.zeros(3, rows.dtype), rows)):
        rt.copy(dst, src)
        rt.sync(dst)
        assert (dst == src).all()


def test_unannotated_arrays_are_refused(rt):
    Pair = collections.namedtuple("Pair", "a b")

    class Items(list):
        pass

    y, seen = np.zeros(3), []

    @pto.kernel
    def note(value, y: pto.In[np.ndarray]):
        seen.append(value)

    for bad in (np.ones(3), bytearray(3), pto.tensor(y), memoryview(b"abc"), [np.ones(2)], (np.ones(2),), [1, [np.ones(2)]],
                [[(1, y)]], Pair(1, y), Items([y])):
        with pytest.raises(TypeError, match="annotation"):
            rt.submit(put, y, bad)
    itself = [1]
    itself.append(itself)
    for good in (1, 1.5, None, "text", b"bytes", np.float32(2), [1, [2]], itself, {"a": 1}, object()):
        rt.submit(note, good, y)
        rt.wait()
        assert seen.pop() is good
    rt.submit(put, y, np.float32(2))
    rt.sync(y)
    assert y.tolist() == [2, 2, 2]


def test_wrong_objects(rt):
    for bad in (None, 3, "text", [1, 2], object(), np.float64(3), {}, np.array([object()]), lambda: 0):
        with pytest.raises(TypeError):
            rt.submit(put, bad, 0)
    x = np.zeros(3)
    for element in (x[1], np.zeros(1, "i4,f4")[0]):
        with pytest.raises(TypeError, match=r"is a single element: pass x\[i:i\+1\] instead of x\[i\]"):
            rt.submit(put, element, 0)
        with pytest.raises(TypeError, match="is a single element"):
            rt.sync(element)
    with pytest.raises(TypeError, match="object"):
        rt.submit(read, np.array([{}, []], dtype=object), [])
    with pytest.raises(TypeError, match="object"):
        rt.submit(read, np.zeros(2, [("a", "f4"), ("b", "O")]), [])
    with pytest.raises(TypeError, match="mask"):
        rt.submit(put, np.ma.zeros(3), 0)
    with pytest.raises(TypeError, match="takes 2"):
        rt.submit(put, np.zeros(2))
    with pytest.raises(TypeError, match="takes 2"):
        rt.submit(put, np.zeros(2), 1, 2)
    for bad in (3, None, "put", [], np.zeros(1)):
        with pytest.raises(TypeError):
            rt.submit(bad, 1)
    with pytest.raises(TypeError):
        rt.submit()
    with pytest.raises(TypeError, match="calls f at once"):
        rt.submit(put(np.zeros(2), 1))
    rt.wait()  # a refused submit raised, and leaves nothing behind


class OnlyDLPack:
    """Like a tensor of another library: it has no buffer protocol."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, stream=None):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_dlpack(rt):
    x = np.zeros((4, 6), "f4")
    before = sys.getrefcount(x)
    rt.submit(put, OnlyDLPack(x[:, 1:3]), 5)
    rt.sync(x)
    assert x[:, 1:3].tolist() == [[5, 5]] * 4 and x.sum() == 40
    gc.collect()
    assert sys.getrefcount(x) == before

    class Wrong:
        def __dlpack__(self):
            return 3

    class Raises:
        def __dlpack__(self):
            raise KeyError("no")

    for bad in (Wrong(), Raises()):
        with pytest.raises((ValueError, KeyError, TypeError)):
            rt.submit(put, bad, 0)


@pytest.mark.parametrize("dtype", ["u2", "u4", "c8", "i4", "u1", "u8", "f2", "f4", "f8"])
def test_dlpack_dtypes(rt, dtype):
    """Those of arrays, also where the library has none."""
    class Theirs:
        def __init__(self, array):
            self.array = array

        def __dlpack_device__(self):
            return 1, 0

        def __dlpack__(self, stream=None):
            return self.array.__dlpack__()

    seen, x = [], np.arange(12).reshape(3, 4).astype(dtype)
    x[x == 3] = x.dtype.type(-1) if dtype[0] == "c" else 250

    @pto.kernel
    def look(a: pto.In[np.ndarray], b: pto.InOut[np.ndarray]):
        seen.append(a.copy())
        b *= 2

    before = x.copy()
    rt.submit(look, Theirs(x[:, 1::2]), Theirs(x[::-1, 0]))
    got = rt.read(Theirs(x))
    before[:, 0] *= 2
    assert got.dtype == x.dtype and (got == before).all() and (x == before).all()
    assert seen[0].dtype == x.dtype and (seen[0] == x[:, 1::2]).all() and pto.tensor(Theirs(x)).dtype == x.dtype.name


def test_subclasses(rt, tmp_path):
    mapped = np.memmap(tmp_path / "file", "f8", "w+", shape=(16,))
    rt.submit(put, mapped[4:8], 2)
    rt.sync(mapped)
    assert mapped.sum() == 8

    class Marked(np.ndarray):
        pass

    marked = np.zeros(3).view(Marked)
    rt.submit(put, marked, 2)
    rt.sync(marked)
    assert marked.tolist() == [2] * 3
    marked.mask = np.ones(3, bool)
    for masked in (marked, np.ma.zeros(3)):
        with pytest.raises(TypeError, match="masked"):
            rt.submit(put, masked, 2)
    records = np.rec.array([(1, 2.0)], names="mask,b")  # a field of that name is no mask
    rt.submit(put, records, (3, 4))
    rt.sync(records)
    assert records.tolist() == [(3, 4)]


def test_numpy_is_imported_meanwhile(run_python):
    """What was asked in the middle of the import of NumPy, on another thread, is asked again."""
    run_python("""
        import sys, threading
        import pto

        there, go_on = threading.Event(), threading.Event()

        class Stop:
            def find_spec(name, path, target=None):
                if name.endswith(".numerictypes") and not there.is_set():
                    there.set()
                    go_on.wait()

        @pto.kernel
        def put(x: pto.InOut, kind):
            x[0] = 7
            assert type(x).__name__ == kind

        sys.meta_path.insert(0, Stop)
        importer = threading.Thread(target=lambda: __import__("numpy"))
        importer.start()
        there.wait()
        with pto.Runtime(workers=1) as rt:
            plain = bytearray(3)
            rt.submit(put, plain, "memoryview")
            rt.sync(plain)
            go_on.set()
            importer.join()
            import numpy as np
            x = np.zeros(2, "M8[s]").view("i8")
            rt.submit(put, x, "ndarray")
            rt.sync(x)
            assert x[0] == 7 and type(rt.read(x)) is np.ndarray
    """)


def test_a_kept_view_of_an_array_is_fine(rt):
    kept = []

    @pto.kernel
    def keep(x: pto.InOut[np.ndarray]):
        kept.append(x[1:])
        x[...] = 9

    x = np.zeros(4)
    rt.submit(keep, x)
    rt.sync(x)
    address = x.ctypes.data
    del x
    gc.collect()
    assert kept[0].tolist() == [9, 9, 9] and kept[0].ctypes.data == address + 8


def test_misaligned_strides(rt):
    packed = np.zeros(4, [("a", "u1"), ("b", "f8")])
    with pytest.raises(ValueError, match="strides"):
        rt.submit(put, packed["b"], 1)


def test_tensor():
    x = np.zeros((4, 6))
    t = pto.tensor(x)
    assert t.shape == (4, 6) and t.dtype == "float64" and t.ndim == 2 and len(t) == 4 and not t.managed
    assert t[1].shape == (6,) and t[1:3, ::2].shape == (2, 3) and t.T.shape == (6, 4) and t[..., 0].shape == (4,)
    assert t[-1, -1].shape == () and t[::-1].strides == (-48, 8) and t.reshape(24).shape == (24,)
    assert t.reshape((2, -1)).shape == (2, 12) and t.transpose(1, 0).shape == (6, 4)
    assert t[0].overlaps(x[:, 0]) and not t[0].overlaps(x[1:])
    for bad in (4, -5, (0, 0, 0), "a", None, 1.5, (slice(None, None, 0),), (Ellipsis, Ellipsis)):
        with pytest.raises((IndexError, TypeError, ValueError)):
            t[bad]
    with pytest.raises(ValueError):
        t.T.reshape(24)
    with pytest.raises(ValueError):
        t.reshape(5)
    with pytest.raises(TypeError):
        pto.Tensor()
    del x
    gc.collect()
    with pto.Runtime(workers=0) as rt:
        rt.submit(put, t[1:3, 2], 4)
        assert rt.read(t).sum() == 8


def test_views_of_tensors_at_the_limits():
    t = pto.tensor(np.arange(24.).reshape(4, 6))
    for step in (2 ** 62, -2 ** 62, sys.maxsize, -sys.maxsize - 1):
        assert t[::step].shape == (1, 6) and t[:, ::step].shape == (4, 1) and t[4:, ::step].shape == (0, 1)
    for dims in ((2 ** 32 + 1, 0), (-2 ** 32 - 1, 0), (0, 0), (-3, 0), (2, 0), (0,), (0, 1, 2)):
        with pytest.raises(ValueError):
            t.transpose(*dims)
    with pytest.raises(OverflowError):
        t.transpose(2 ** 64, 0)
    with pytest.raises(IndexError, match="one ... at most"):
        t[..., 0, ...]
    assert t.transpose(-1, -2).shape == (6, 4)


@pytest.mark.parametrize("shape", [(4, 0), (0, 4), (3, 0, 5), (2, 3, 0), (0,), (4, 6), (2, 3, 4)])
def test_slices_of_tensors_are_those_of_arrays(rt, shape):
    """Of empty ones, too, which have no memory."""
    rng = np.random.default_rng(1)
    x = np.arange(np.prod(shape, dtype=int), dtype="f8").reshape(shape)
    with rt.scope():
        managed = [rt.empty(shape), rt.temp(shape), rt.temp(shape, "c16")]
        for t in managed:
            rt.submit(copy_to, x, t)
        for _ in range(200):
            key = []
            for size in shape[:rng.integers(1, len(shape) + 1)]:
                ends = sorted(rng.integers(0, size + 1, 2))
                step = rng.choice([-3, -1, 1, 2])
                key.append(slice(*ends, step) if step > 0 else slice(*ends[::-1], step))
                if size and rng.random() < .3:
                    key[-1] = int(rng.integers(-size, size))
            for t in (pto.tensor(x), *managed):
                part = t[tuple(key)]
                assert part.shape == x[tuple(key)].shape and (rt.read(part) == x[tuple(key)]).all(), key


def test_shapes_of_managed_tensors(rt):
    with rt.scope():
        assert rt.temp(np.int64(3)).shape == (3,) and rt.temp(np.array([2, 3])).shape == (2, 3) and rt.temp(()).shape == ()
        for bad in (3.5, "abc", "3", None, object(), [1, "a"], 2 ** 70, (1,) * 9):
            with pytest.raises((TypeError, ValueError, OverflowError)):
                rt.temp(bad)
        for bad in (-1, (2 ** 40, 2 ** 40), (2 ** 20, 2 ** 20)):
            with pytest.raises(pto.Error):
                rt.empty(bad)


def test_huge_strides(rt):
    """Numbers that do not fit are refused: they are not the strides of memory."""
    one = np.zeros(4)
    for shape, strides in (((2 ** 40,), (2 ** 30,)), ((2, 2 ** 40), (8, -2 ** 30)), ((2, 2), (2 ** 62, -2 ** 62)), ((3, 3), (2 ** 62, 8))):
        huge = np.lib.stride_tricks.as_strided(one, shape, strides)
        with pytest.raises(ValueError, match="2.63"):
            rt.submit(put, huge, 1)
    rt.submit(put, np.lib.stride_tricks.as_strided(one, (2 ** 40, 0), (2 ** 30, 8)), 1)  # nothing
    rt.wait()


def test_empty_and_odd_arrays(rt):
    for x in (np.zeros((0, 5)), np.zeros((3, 0, 5))[::-1], np.zeros(()), np.zeros(3, complex), np.array(["abc", "d"]),
              np.zeros(3, "M8[s]"), np.zeros(3, [("a", "f4"), ("b", "i8")]), np.zeros((2, 3, 4))[::-1, ::-2, ::-1],
              np.zeros(3, np.longdouble), np.zeros((1,) * 8), np.zeros(5, ">f8"), np.zeros(1)[::-1]):
        want = x.copy()
        put(want, 1)
        rt.submit(put, x, 1)
        rt.sync(x)
        assert x.tolist() == want.tolist()
        assert rt.read(x).tolist() == want.tolist() and rt.read(x).dtype == x.dtype
    with pytest.raises(TypeError, match="no bytes"):
        rt.submit(put, np.zeros(3, "V0"), 1)


def test_names_are_refused(rt):
    with pytest.raises(TypeError, match="by position"):
        rt.submit(put, b=np.zeros(3), value=1)
    with pytest.raises(TypeError, match="by position"):
        rt.submit(put, np.zeros(3), value=1)
    with pytest.raises(TypeError, match="rt.sync"):
        rt.wait(np.zeros(3))
    rt.wait(None)


def test_an_argument_that_calls_the_runtime():
    """__dlpack__ and __index__ are code of the program. They must not change the runtime meanwhile."""
    import ctypes
    number = pto.cfunc(ctypes.CFUNCTYPE(None)(lambda: None), "void f(int64_t)")
    x = np.zeros(3)

    class Calls:
        def __init__(self, call):
            self.call = call

        def __dlpack__(self, stream=None):
            self.call()
            return x.__dlpack__()

    class Number:
        def __index__(self):
            inner.call()
            return 3

    for call in ("rt.close()", "rt.submit(put, x, 1)", "rt.trace('run.html')", "rt.wait()", "rt.__exit__(None, None, None)"):
        with pto.Runtime(workers=1) as rt:
            inner = Calls(lambda: eval(call, {"rt": rt, "put": put, "x": x}))
            for outer in (lambda: rt.submit(put, inner, 1), lambda: rt.submit(number, Number()), lambda: rt.sync(x, inner),
                          lambda: rt.read(inner), lambda: rt.copy(inner, x)):
                with pytest.raises(pto.Error, match="another call"):
                    outer()
            assert not rt.closed
            rt.submit(put, x, 2)
            rt.sync(x)


def test_numbers_dtypes_and_kernels_that_call_the_runtime():
    """Objects of the program are asked for their value, name or signature in the middle of a call."""
    class Number:
        def __index__(self):
            call()
            return 1

        __float__ = __bool__ = __index__

    class Type:
        @property
        def name(self):
            call()
            return "float32"

    class Signed:
        @property
        def __signature__(self):
            call()
            return inspect.Signature()

        def __call__(self):
            pass

    def tasks():
        call()
        yield

    x = np.zeros(2)
    for make in (lambda rt: rt.close(), lambda rt: rt.close(cancel=True), lambda rt: rt.trace("never.html"), lambda rt: rt.submit(put, x, 1)):
        with pto.Runtime(workers=1) as rt:
            call = functools.partial(make, rt)
            for use in (lambda: rt.fill(x, Number()), lambda: rt.temp(Number()), lambda: rt.temp((1, Number())),
                        lambda: rt.empty(3, Type()), lambda: rt.submit(Signed()),
                        lambda: rt.submit(put, x, 1, after=tasks())):
                with pytest.raises(pto.Error) as caught:
                    use()
                assert caught.value.status is pto.Status.WRONG_THREAD
            rt.submit(put, x, 5)
        assert x.tolist() == [5, 5]


def test_many_jobs_of_one_ring():
    """Jobs of all sizes are used again, whether tasks run at once or later."""
    rng = __import__("random").Random(3)

    @pto.kernel
    def touch(*arrays: pto.InOut[np.ndarray]):
        for a in arrays:
            a += 1

    arrays = [np.zeros(4) for _ in range(30)]
    before = [sys.getrefcount(a) for a in arrays]
    counts = [0] * 30
    with pto.Runtime(workers=2) as rt:
        for _ in range(3000):
            chosen = rng.sample(range(30), rng.randrange(1, 20))
            for i in chosen:
                counts[i] += 1
            rt.submit(touch, *(arrays[i] for i in chosen))
            if rng.random() < .01:
                rt.wait()
    assert [a.tolist() for a in arrays] == [[c] * 4 for c in counts]
    gc.collect()
    assert [sys.getrefcount(a) for a in arrays] == before


def test_the_owner_runs_python_as_it_is_given_back(rt):
    """A refused tensor is given back to its library, which may run Python. The error stays what it was."""
    import ctypes

    class Managed(ctypes.Structure):
        _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("ndim", ctypes.c_int32), ("dtype", ctypes.c_uint8 * 4),
                    ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.c_void_p), ("byte_offset", ctypes.c_uint64),
                    ("manager", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]

    given_back = []
    deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(given_back.append)
    memory, shape = (ctypes.c_double * 8)(), (ctypes.c_int64 * 1)(8)
    managed = Managed(ctypes.addressof(memory), (1, 0), 1, (2, 64, 1, 0), shape, None, 0, None, ctypes.cast(deleter, ctypes.c_void_p))
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype, capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]

    class Theirs:
        def __dlpack_device__(self):
            return 2, 0  # it is not

        def __dlpack__(self, stream=None):
            return capsule(ctypes.addressof(managed), b"dltensor", None)

    class Here(Theirs):
        def __dlpack_device__(self):
            return 1, 0

    with pytest.raises((ValueError, pto.Error)):  # there may be no GPU
        pto.tensor(Theirs())
    managed.dtype[1] = 16  # half of a double is no type of a C function below
    sink = pto.cfunc(ctypes.CFUNCTYPE(None)(lambda: None), "void f(const double[:])")
    before = len(given_back)
    with pytest.raises(TypeError, match="float16"):
        rt.submit(sink, Here())
    gc.collect()
    assert len(given_back) == before + 1


def test_capsules_of_all_kinds():
    """Random tensors of another library, most of them wrong: errors, and each that is taken is given back once."""
    import ctypes
    rng, made, taken = __import__("random").Random(5), [], []

    class Tensor(ctypes.Structure):
        _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
                    ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
                    ("byte_offset", ctypes.c_uint64)]

    class Legacy(ctypes.Structure):
        _fields_ = [("tensor", Tensor), ("manager", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]

    class Versioned(ctypes.Structure):
        _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("manager", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
                    ("flags", ctypes.c_uint64), ("tensor", Tensor)]

    deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(taken.append)
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype, capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    memory = np.zeros(4000)
    odd = [0, -1, 2 ** 31, 2 ** 62, 2 ** 63 - 1, -2 ** 63]

    def some(usual, *others):
        return rng.choice(others) if rng.random() < .06 else usual

    class Theirs:
        def __init__(self):
            n = some(rng.randrange(4), 8, 9, -1, 1000)
            sizes = [some(rng.randrange(1, 5), *odd) for _ in range(max(n, 0))]
            steps = [some(rng.choice([1, 2, 7, -3, 0]), *odd) for _ in range(max(n, 0))]
            arrays = [(ctypes.c_int64 * len(x))(*x) for x in (sizes, steps)]
            self.device = some((1, 0), (3, 0), (0, 0), (-1, 0), (2, 0), (1, -1), (10, 1), (1, 5))
            self.versioned = rng.random() < .5
            tensor = Tensor(some(memory.ctypes.data + 16000, 0, 3), some(self.device, (1, 0), (2, 0)), n, some(2, 0, 1, 4, 5, 6, 255),
                            some(64, 8, 32, 0, 1, 4, 12, 128), some(1, 0, 2, 65535), some(ctypes.addressof(arrays[0]), None),
                            some(ctypes.addressof(arrays[1]), None), some(0, 8, 3, 2 ** 40, 2 ** 64 - 1))
            pointer = ctypes.cast(deleter, ctypes.c_void_p)
            self.managed = (Versioned(some(1, 0, 2, 99), some(0, 1, 99), None, pointer, some(0, 1, 2, 2 ** 64 - 1), tensor) if self.versioned
                            else Legacy(tensor, None, pointer))
            self.arrays = arrays
            made.append(self)

        def __dlpack_device__(self):
            return some(self.device, None, (), (1,), ("a", "b"), (2 ** 80, 0), [1, 0])

        def __dlpack__(self, **_):
            if rng.random() < .03:
                raise rng.choice([TypeError, KeyError, BufferError, AttributeError])("no")
            name = b"dltensor_versioned" if self.versioned else b"dltensor"
            return some(capsule(ctypes.addressof(self.managed), some(name, b"x", b"used_dltensor"), None), None, 3, self)

    @pto.kernel
    def look(a: pto.In):
        assert a.ndim <= 8

    good = 0
    with pto.Runtime(workers=1) as rt:
        for _ in range(3000):
            try:
                rng.choice([lambda x: rt.submit(look, x), rt.sync, pto.tensor])(Theirs())
                good += 1
            except (pto.Error, TypeError, ValueError, BufferError, KeyError, AttributeError):
                pass
        with contextlib.suppress(pto.Error):  # NumPy refuses some empty arrays
            rt.wait()
        rt.clear_error()
        del look
    gc.collect()
    assert good > 300 and good <= len(taken) == len(set(taken))
    assert set(taken) <= {ctypes.addressof(x.managed) for x in made}


def test_shapes_that_are_no_sequences(rt):
    class Endless:
        def __len__(self):
            return 10 ** 12

        def __getitem__(self, i):
            return 1

    for bad in (range(10 ** 9), Endless()):
        with pytest.raises(ValueError, match="at most 8"):
            rt.temp(bad)
    for bad in ({2: 3}, {2}, b"ab", __import__("itertools").count(), np.array(3)):
        with pytest.raises(TypeError, match="a sequence"):
            rt.temp(bad)


@pytest.mark.parametrize("huge", [2 ** 63, -2 ** 63 - 1, 10 ** 30])
def test_numbers_of_more_than_64_bits(rt, huge):
    t = pto.tensor(np.zeros(4))
    for shape in (huge, (2, huge)):
        with pytest.raises(OverflowError, match=f"a shape: {huge} does not fit into 64 bits"):
            rt.temp(shape)
    with pytest.raises(OverflowError, match=f"a shape: {huge} does not fit into 64 bits"):
        t.reshape(huge)
    with pytest.raises(IndexError, match=f"index {huge} of a dim of size 4"):
        t[huge]


def test_an_index_that_is_none():
    class Raises:
        def __index__(self):
            raise KeyError("mine")

    t = pto.tensor(np.zeros((4, 4)))
    with pytest.raises(KeyError, match="mine"):
        t[Raises()]
    for mask in (True, False, (0, True), np.True_):  # NumPy takes them for masks
        with pytest.raises(TypeError, match="index"):
            t[mask]


def test_a_collector_that_closes_the_runtime():
    """Collecting garbage may run code of the program in the middle of a call, which cannot close the runtime then."""
    class Closes:
        def __init__(self, rt):
            self.itself, self.rt = self, rt

        def __del__(self):
            try:
                self.rt.close(cancel=True)
            except pto.Error:
                pass

    x = np.zeros(4)
    threshold = gc.get_threshold()
    for call in (lambda rt: rt.wait(), lambda rt: rt.sync(x, x), lambda rt: rt.read(x), lambda rt: rt.fill(x, 1), lambda rt: rt.temp(3),
                 lambda rt: rt.scope().__enter__(), lambda rt: rt.submit(put, x, 1), lambda rt: rt.close(), lambda rt: rt.clear_error(),
                 lambda rt: rt.copy(x, x.copy()), lambda rt: rt.range("a").__enter__(), lambda rt: rt.release(x), lambda rt: rt.stats()):
        rt = pto.Runtime(workers=1)
        rt.submit(put, x, 1)
        gc.collect()
        try:
            Closes(rt)
            gc.set_threshold(1)
            call(rt)
        except (ValueError, TypeError, pto.Error):
            pass
        finally:
            gc.set_threshold(*threshold)
        gc.collect()
        rt.close(cancel=True)


@pytest.mark.parametrize("make, shape", [(lambda c: (c.c_double * 3)(), (3,)), (lambda c: ((c.c_double * 3) * 2)(), (2, 3)),
                                         (lambda c: (c.c_double * 0)(), (0,)), (lambda c: c.c_double(), ())])
def test_ctypes(rt, make, shape):
    """ctypes exports buffers without strides."""
    import ctypes
    memory = make(ctypes)
    t = pto.tensor(memory)
    assert t.shape == shape and t.dtype == "float64" and (0 in shape or t.strides == np.asarray(memory).strides)
    rt.submit(put, memory, 3)
    rt.sync(memory)
    assert np.asarray(memory).tolist() == np.full(shape, 3.0).tolist()


def test_a_class_is_no_array(rt):
    """A class of arrays has __dlpack__, but its objects are the arrays."""
    class Tensor:
        def __dlpack__(self):
            raise AssertionError

    got = []

    def kernel(x: pto.InOut[np.ndarray], kind):
        got.append(kind)

    x = np.zeros(1)
    for kind in (np.ndarray, Tensor, [np.ndarray], np.float32):
        rt.submit(kernel, x, kind)
        rt.wait()
        assert got.pop() is kind
        for call in (lambda: rt.submit(kernel, kind, 1), lambda: rt.sync(kind), lambda: pto.tensor(kind)):
            with pytest.raises(TypeError, match="must be an array, but <class"):
                call()


def test_a_list_that_changes_while_it_is_inspected(rt):
    class Evil:
        def __getattr__(self, name):
            items.clear()
            raise AttributeError(name)

    @pto.kernel
    def use(b: pto.InOut[np.ndarray], what):
        b += len(what)

    x, items = np.ones(2), [Evil(), 1, 2, 3]
    rt.submit(use, x, items)
    rt.sync(x)
    assert x.tolist() == [1, 1] and not items


def test_a_field_of_a_packed_record(rt):
    """Its strides cannot be described, and the error says what to do, also for an output."""
    @pto.kernel
    def put_field(records: pto.InOut[np.ndarray], value):
        records["b"][...] = value

    fields = [("a", "i1"), ("b", "f8")]
    packed, aligned = np.zeros(3, fields), np.zeros(3, np.dtype(fields, align=True))
    for call in (lambda: rt.submit(put, packed["b"], 1), lambda: pto.tensor(packed["b"]), lambda: rt.fill(packed["b"], 1)):
        with pytest.raises(ValueError, match="pass the array of records and take the field in the kernel.*align=True"):
            call()
    rt.submit(put_field, packed, 2)
    rt.submit(put, aligned["b"], 3)
    rt.wait()
    assert packed["b"].tolist() == [2] * 3 and aligned["b"].tolist() == [3] * 3 and not packed["a"].any()
