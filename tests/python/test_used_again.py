"""The arrays that a Python kernel gets are used again for its next call. No kernel may see that."""

import functools
import gc
import itertools
import random
import sys
import time
import weakref

import numpy as np
import pytest

import pto


@pytest.fixture(params=[0, 2], ids=["here", "workers"])
def rt(request):
    with pto.Runtime(workers=request.param) as runtime:
        yield runtime


def calls(rt, function, arrays):
    """One task for each array. The function gets it, and its number as a second argument."""
    @pto.kernel
    def kernel(a: pto.InOut[np.ndarray], number):
        function(a, number)

    for number, array in enumerate(arrays):
        rt.submit(kernel, array, number)
        rt.wait()


@pytest.mark.parametrize("keep", [
    lambda a: a, lambda a: a[1:], memoryview, lambda a: a.flat, lambda a: a.T, lambda a: [{"a": a}],
    lambda a: (lambda: a), np.nditer, lambda a: a.__dlpack__()], ids=range(9))
def test_what_a_kernel_keeps_stays_as_it_was(rt, keep):
    kept, seen = [], []
    arrays = [np.full(4, float(i)) for i in range(20)]
    watched = []

    def function(a, number):
        kept.append(keep(a))
        watched.append(a if number % 2 else None)
        seen.append(a.__array_interface__["data"][0])

    calls(rt, function, arrays)
    assert seen == [a.__array_interface__["data"][0] for a in arrays]
    for number, a in enumerate(watched):
        assert a is None or a.tolist() == [number] * 4
    for number, k in enumerate(kept):
        k = k() if callable(k) else k
        if isinstance(k, np.ndarray):
            assert set(k.tolist()) == {number}
            assert np.shares_memory(k, arrays[number])
        elif isinstance(k, memoryview):
            assert k.tolist() == [number] * 4


def test_a_kept_array_keeps_its_memory(rt):
    kept = []
    calls(rt, lambda a, number: kept.append(a if number == 0 else None), (np.full(100_000, float(i)) for i in range(10)))
    gc.collect()
    assert set(kept[0].tolist()) == {0}


def test_weak_references_die(rt):
    weak, died = [], []

    def function(a, number):
        assert all(w() is None for w in weak)
        weak.append(weakref.ref(a, lambda w: died.append(number)))

    calls(rt, function, [np.zeros(4)] * 5)
    assert all(w() is None for w in weak) and died == [0, 1, 2, 3, 4]


def reshape(a):
    a.shape = (2, 2)


def change_type(a):
    a.dtype = "i8"


def widen(a):
    a.strides = (0,)


def own(a):
    a.__setstate__((1, (4,), np.dtype("f8"), False, bytes(32)))


@pytest.mark.parametrize("change", [reshape, change_type, widen, own, lambda a: a.setflags(write=False),
                                    lambda a: a.setflags(align=False)], ids=range(6))
@pytest.mark.filterwarnings("ignore:Setting the")
def test_what_a_kernel_does_to_its_array_is_over(rt, change):
    arrays = [np.arange(4.) + i for i in range(4)]

    def function(a, number):
        assert a.shape == (4,) and a.strides == (8,) and a.dtype == "f8"
        assert a.flags.writeable and a.flags.aligned and not a.flags.owndata
        assert a.tolist() == arrays[number].tolist() and np.shares_memory(a, arrays[number])
        a += 1
        change(a)

    calls(rt, function, arrays)
    assert [a[0] for a in arrays] == [1, 2, 3, 4]


@pytest.mark.filterwarnings("ignore:Assigning the 'data'")
def test_other_memory_of_an_array(rt):
    """NumPy marks an array that is given other memory as one in the order of C, whatever its strides are."""
    seen = []

    def function(a, number):
        seen.append((a.flags.c_contiguous, a.flags.f_contiguous, a.ravel().tolist()))
        a.data = memoryview(bytearray(a.nbytes))

    arrays = [np.arange(6.).reshape(2, 3, order="F") + i for i in range(4)]
    rows = [np.arange(4.) + i for i in range(4)]
    calls(rt, function, arrays)
    calls(rt, function, rows)
    assert seen == [(False, True, a.ravel().tolist()) for a in arrays] + [(True, True, a.tolist()) for a in rows]


def test_inputs_stay_read_only(rt):
    seen = []

    @pto.kernel
    def kernel(a: pto.In[np.ndarray], b: pto.Out[np.ndarray]):
        seen.append((a.flags.writeable, b.flags.writeable))
        a.setflags(write=True)      # NumPy allows it, because that of the program is writable

    b = np.zeros(3)
    for _ in range(4):
        rt.submit(kernel, np.zeros(3), b)
        rt.wait()
    assert seen == [(False, True)] * 4


def like(shape, dtype, memory=np.zeros(1000, "u1")):
    """Arrays of one shape and type, at different places with different strides."""
    whole = np.zeros(shape, dtype)
    yield from (whole, whole.T)
    if whole.ndim:
        yield from (whole[..., ::2], whole[..., ::-1])
    if whole.size:
        yield from (np.ndarray(shape, dtype, memory, at) for at in (0, 1, 8))


def test_each_array_is_as_a_new_one(rt):
    shapes = (4, 5, (2, 2), (2, 3), (), (1,), (0,), (0, 2), (3, 1))
    dtypes = ("f8", "i8", "f4", "u1", "c16", "?", ">f8", "M8[s]", [("a", "i4"), ("b", "f4")])
    groups = [list(like(shape, dtype)) for shape in shapes for dtype in dtypes]
    arrays = [a for group in groups for pair in itertools.permutations(group, 2) for a in pair]
    arrays += random.Random(1).sample(sum(groups, []), sum(map(len, groups)))

    def function(a, number):
        b = arrays[number]
        assert type(a) is np.ndarray and a.dtype == b.dtype and a.shape == b.shape
        assert a.size == 0 or a.__array_interface__["data"] == b.__array_interface__["data"]
        assert b.size == 0 or all(s == t or n == 1 for s, t, n in zip(a.strides, b.strides, b.shape))
        for flag in ("C_CONTIGUOUS", "F_CONTIGUOUS", "ALIGNED", "WRITEABLE"):
            assert a.flags[flag] == b.flags[flag], (flag, a.shape, a.strides, b.strides)
        assert not a.flags.owndata and (a.size == 0 or a.base is not None)

    calls(rt, function, arrays)


def test_arguments_that_are_keys(rt):
    """lru_cache looks for the tuple of all arguments. From CPython 3.14 on a tuple remembers its hash."""
    ran = []
    kernel = pto.kernel(functools.lru_cache(lambda a, b: ran.append((a, b))))
    for a, b in ((1, 2), (1, 2), (3, 4), (3, 4), (1, 2), (3, 4)):
        rt.submit(kernel, a, b)
        rt.wait()
    assert ran == [(1, 2), (3, 4)]


def test_nothing_is_kept_after_the_task(rt):
    class Object:
        pass

    @pto.kernel
    def kernel(a: pto.In[np.ndarray], b: pto.Out[np.ndarray], o, *more: pto.In[np.ndarray]):
        pass

    for n in (0, 3, 1):
        owners = [np.zeros(4) for _ in range(2 + n)]
        o, meta = Object(), Object()
        owners.append(np.zeros(4, np.dtype([("a", "f8")], metadata={"of": meta})))
        gone = [weakref.ref(x) for x in (*owners, o, meta)]
        rt.submit(kernel, owners[0], owners[1][1:], o, *(x[::2] for x in owners[2:]))
        rt.wait()
        del owners, o, meta
        gc.collect()
        assert [g() for g in gone] == [None] * len(gone)


def test_a_kernel_on_several_threads_at_a_time():
    wrong = []

    @pto.kernel
    def sleep(a: pto.InOut[np.ndarray], number):
        for _ in range(3):
            time.sleep(0.001 * (number % 3))
            if a.tolist() != [number] * 4:
                wrong.append(number)

    arrays = [np.full(4, i) for i in range(60)]
    with pto.Runtime(workers=3) as rt:
        for number, a in enumerate(arrays):
            rt.submit(sleep, a, number)
    assert not wrong


def test_the_arrays_end_with_their_kernel():
    dtype = np.dtype("f8")
    x = [np.zeros(4) for _ in range(8)]
    before = sys.getrefcount(dtype)
    for _ in range(20):
        @pto.kernel
        def kernel(a: pto.InOut[np.ndarray]):
            time.sleep(0.0001)

        with pto.Runtime(workers=3) as rt:
            for a in x:
                rt.submit(kernel, a)
        del kernel, rt
    gc.collect()
    assert sys.getrefcount(dtype) < before + 10


def test_managed_memory(rt):
    """A view that is kept is found, also of an array that is used again."""
    kept = []

    @pto.kernel
    def kernel(a: pto.Out[np.ndarray], keep):
        a[...] = keep
        kept.append(a if keep == 5 else None)

    with rt.scope():
        tasks = [rt.submit(kernel, rt.temp(4), i) for i in range(8)]
        with pytest.raises(pto.Error, match="keeps a view of its argument 0"):
            rt.wait()
        rt.clear_error()
    assert len(tasks) == 8 and [k is None for k in kept].count(False) == 1
