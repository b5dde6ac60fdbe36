"""Tasks in Python: order by bytes, results as of the serial program."""

import functools
import gc
import random
import textwrap
import weakref

import numpy as np
import pytest

import pto


def test_an_array_that_may_be_left_out(rt):
    def fill(y: pto.Out[np.ndarray], x: pto.In[np.ndarray] = None):
        y[...] = 7 if x is None else x

    x, y = np.arange(3.), np.zeros(3)
    rt.submit(fill, y)
    assert rt.read(y).tolist() == [7] * 3
    rt.submit(fill, y, x)
    assert rt.read(y).tolist() == [0, 1, 2]
    with pytest.raises(TypeError, match="argument 1 must be an array, but .*None"):
        rt.submit(fill, y, None)


@pto.kernel
def step(a: pto.In[np.ndarray], b: pto.Out[np.ndarray], w: float):
    np.multiply(a[:-2] + a[2:], w, out=b)


@pto.kernel
def add(a: pto.In[np.ndarray], b: pto.InOut[np.ndarray]):
    b += a


@pto.kernel
def put(b: pto.Out[np.ndarray], value):
    b[...] = value


def test_the_function_stays_a_function():
    a, b = np.arange(6.0), np.zeros(4)
    assert step(a, b, 2.0) is None
    assert b.tolist() == [4, 8, 12, 16]
    assert step.__name__ == "step"


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_stencil_is_serial(workers):
    n = 4000
    x = np.random.default_rng(1).random(n)
    y = x.copy()
    a, b = x.copy(), y.copy()
    with pto.Runtime(workers=workers) as rt:
        for _ in range(20):
            for i in range(1, n - 1, 512):
                j = min(i + 512, n - 1)
                rt.submit(step, x[i - 1:j + 1], y[i:j], 0.5)
            x, y = y, x
        rt.sync(x, y)
        for _ in range(20):
            step(a, b[1:-1], 0.5)
            a, b = b, a
        assert np.array_equal(x, a) and np.array_equal(y, b)


def test_random_slices_are_serial():
    """Any slices of any arrays, with steps, negative steps and transposed views."""
    rng = random.Random(7)
    arrays = [np.zeros((24, 24)), np.zeros((600,))]
    serial = [a.copy() for a in arrays]

    def pick(which):
        if which == 0:
            r, c = sorted(rng.sample(range(25), 2)), sorted(rng.sample(range(25), 2))
            sr, sc, turn = rng.choice([1, 2, 3, -1]), rng.choice([1, 2, -1]), rng.random() < .5
            return lambda a: (lambda v: v.T if turn else v)(a[r[0]:r[1], c[0]:c[1]][::sr, ::sc])
        r, s = sorted(rng.sample(range(601), 2)), rng.choice([1, 2, 5, -3])
        return lambda a: a[r[0]:r[1]][::s]

    with pto.Runtime(workers=3) as rt:
        for n in range(800):
            which = rng.randrange(2)
            view = pick(which)
            if rng.random() < .5:
                rt.submit(put, view(arrays[which]), n)
                view(serial[which])[...] = n
            else:
                source = pick(which)
                shape = view(serial[which]).shape
                other = source(serial[which])
                if other.shape != shape or np.shares_memory(other, view(serial[which])):
                    continue
                rt.submit(add, source(arrays[which]), view(arrays[which]))
                view(serial[which])[...] += other
        rt.wait()
    for a, b in zip(arrays, serial):
        assert np.array_equal(a, b)


def test_scalars_and_defaults(rt):
    seen = []

    @pto.kernel
    def note(x: pto.InOut[np.ndarray], number, text="plain", *, keyword=3):
        seen.append((number, text, keyword))

    x = np.zeros(1)
    rt.submit(note, x, 10 ** 30)
    rt.submit(note, x, None, "other")
    rt.wait()
    assert seen == [(10 ** 30, "plain", 3), (None, "other", 3)]


def test_an_output_that_submit_does_not_get(rt):
    """Nothing would order the tasks that write it."""
    buffer = np.zeros(3)

    def by_default(x: pto.In[np.ndarray], y: pto.Out[np.ndarray] = buffer, z: pto.InOut[np.ndarray] = None,
                   table: pto.In[np.ndarray] = np.ones(3)):
        y[:] = x + table

    def by_name(x: pto.In[np.ndarray], *, y: pto.InOut[np.ndarray] = buffer):
        y[:] = x

    def optional(x: pto.InOut[np.ndarray], *, y: pto.InOut[np.ndarray] = None):
        x += 1

    def first(y: pto.Out[np.ndarray], x: pto.In[np.ndarray], *more: pto.InOut[np.ndarray]):
        y[:] = x

    x = np.ones(3)
    with pytest.raises(TypeError, match="takes at least 2 arguments"):
        rt.submit(by_default, x)
    for bad in (by_name, functools.partial(by_default, y=buffer), functools.partial(first, buffer),
                functools.partial(first, buffer, x, x), functools.partial(functools.partial(first, buffer), x)):
        with pytest.raises(TypeError, match="parameter y is written, and .*: pass it to rt.submit"):
            rt.submit(bad, x)
    rt.submit(by_default, x, buffer)
    rt.submit(optional, x)
    rt.submit(functools.partial(by_default, table=x), x, buffer)
    rt.submit(functools.partial(optional, y=None), x)
    rt.sync(x, buffer)
    assert x.tolist() == [3] * 3 and buffer.tolist() == [4] * 3


def test_variable_number_of_arrays(rt):
    @pto.kernel
    def total(out: pto.Out[np.ndarray], *parts: pto.In[np.ndarray]):
        out[...] = sum(p.sum() for p in parts)

    out = np.zeros(1)
    for n in (0, 1, 5, 40):
        rt.submit(total, out, *[np.ones(3) for _ in range(n)])
        rt.sync(out)
        assert out[0] == 3 * n


def test_inputs_are_read_only(rt):
    @pto.kernel
    def naughty(x: pto.In[np.ndarray]):
        x[0] = 1

    x = np.zeros(2)
    rt.submit(naughty, x)
    with pytest.raises(pto.Error) as caught:
        rt.wait()
    assert caught.value.status is pto.Status.TASK_FAILED
    assert isinstance(caught.value.__cause__, ValueError)
    assert x[0] == 0


def test_string_annotations(rt):
    namespace = {"pto": pto, "np": np}
    exec("def late(x: 'pto.Out[np.ndarray]', y: 'pto.In'):\n    x[:] = y", namespace)
    late = pto.kernel(namespace["late"])
    x = np.zeros(3)
    rt.submit(late, x, np.ones(3))
    rt.sync(x)
    assert x.tolist() == [1, 1, 1]
    for bad in ("unknown.In", "pto.Input[np.ndarray]", "number of steps", "pto.In[np.ndarray][3]", "1 + 'x'"):
        exec(f"def bad(x: {bad!r}): pass", namespace)
        with pytest.raises(TypeError, match="bad: an annotation cannot be resolved: .*can use global names only"):
            pto.kernel(namespace["bad"])


def test_annotations_that_are_strings_twice(rt):
    """All annotations of such a module are strings, and what is in quotes there is a string in a string."""
    def define(text):
        namespace = {"functools": functools, "np": np, "pto": pto}
        exec("from __future__ import annotations\n" + textwrap.dedent(text), namespace)
        return namespace

    made = define("""
        def add(x: "pto.In[np.ndarray]", y: "pto.InOut['np.ndarray']", by: "float" = 1.0):
            y += by * x

        def wraps(f):
            @functools.wraps(f)
            def wrapper(*args, **named):
                f(*args, **named)
            return wrapper

        class Adder:
            def method(self, x: "pto.In[np.ndarray]", y: "pto.InOut[np.ndarray]"):
                y += x

            __call__ = method
        """)
    add = made["add"]
    x, y = np.ones(3), np.zeros(3)
    for kernel in (pto.kernel(add), functools.partial(add, by=10.0), functools.partial(made["wraps"](add), by=10.0),
                   made["wraps"](add), made["Adder"]().method, made["Adder"]()):
        rt.submit(kernel, x, y)
    rt.sync(y)
    assert y.tolist() == [24, 24, 24]
    with pytest.raises(TypeError, match="parameter y is written"):
        pto.kernel(functools.partial(add, x, y))
    with pytest.raises(TypeError, match="bad: an annotation cannot be resolved: .*'Inn'"):
        pto.kernel(define("def bad(x: 'pto.Inn[np.ndarray]'): pass")["bad"])


def test_undecorated_function(rt):
    def plain(x: pto.Out[np.ndarray]):
        x[:] = 5

    x = np.zeros(2)
    rt.submit(plain, x)
    rt.sync(x)
    assert x.tolist() == [5, 5]

    def nothing(x):
        pass

    with pytest.raises(TypeError, match="annotated"):
        rt.submit(nothing, x)


def test_bound_methods(rt):
    """Each `thing.method` is a new object, and the next one may get its address."""
    class Thing:
        def one(self, b: pto.InOut[np.ndarray]):
            b += 1

        def ten(self, b: pto.InOut[np.ndarray]):
            b += 10

    thing, x = Thing(), np.zeros(1)
    for _ in range(5):
        rt.submit(thing.one, x)
        rt.submit(thing.one, x)
        rt.submit(thing.ten, x)
        rt.submit(thing.ten, x)
    rt.sync(x)
    assert x[0] == 110


def test_what_stands_around_a_kernel_runs_too(rt):
    """A method, and a function that functools.wraps gave the attributes of a kernel."""
    class Thing:
        def __init__(self, n):
            self.n = n

        @pto.kernel
        def add(self, b: pto.InOut[np.ndarray]):
            b += self.n

    @pto.kernel
    def one(b: pto.InOut[np.ndarray]):
        b += 1

    @functools.wraps(one)
    def twice(b):
        one(b)
        one(b)

    x = np.zeros(1)
    for _ in range(3):
        rt.submit(Thing(10).add, x)
        rt.submit(twice, x)
        rt.submit(one, x)
    rt.sync(x)
    assert x[0] == 39


def test_a_function_for_each_task(rt):
    def add(i, b: pto.InOut[np.ndarray]):
        b += i

    def make(i):
        def other(b: pto.InOut[np.ndarray]):
            b += i
        return pto.kernel(other)

    x = np.zeros(1)
    for i in range(300):
        task = rt.submit(functools.partial(add, i), x)
        rt.submit(make(-i), x)
    rt.sync(x)
    assert x[0] == 0 and task.kernel == "test_a_function_for_each_task.add"
    with pto.Runtime(workers=0) as alone:
        for _ in range(66000):  # more functions than the library can name kernels
            alone.submit(pto._pto._kernel(0, "same", [], callable=lambda: None))


def test_after_and_label(rt):
    order = []

    @pto.kernel
    def note(name):
        order.append(name)

    import time

    @pto.kernel
    def slow(name):
        time.sleep(.05)
        order.append(name)

    first = rt.submit(slow, "first", label="the slow one")
    rt.submit(note, "second", after=first)
    third = rt.submit(note, "third", after=[first, first])
    rt.wait(third)
    rt.wait()
    assert order[0] == "first" and set(order) == {"first", "second", "third"}
    with pytest.raises(TypeError, match="after"):
        rt.submit(note, "x", after=3)
    with pytest.raises(TypeError, match="unknown argument"):
        rt.submit(note, "x", befor=first)


def test_wrong_after_and_label(rt):
    x = np.zeros(1)
    with pytest.raises(TypeError, match="label= takes a string, not <class 'int'>"):
        rt.submit(put, x, 1, label=3)
    for after in (3, [3], "ab"):
        with pytest.raises(TypeError, match="after= takes a task"):
            rt.submit(put, x, 1, after=after)
    with pytest.raises(ZeroDivisionError):  # what the program raises is not replaced
        rt.submit(put, x, 1, after=(1 / 0 for _ in range(1)))


def test_task(rt):
    x = np.zeros(1)
    task = rt.submit(put, x, 1)
    assert task.kernel == "put" and task.file == __file__ and task.line > 0 and task.order == 0
    assert "put" in repr(task)
    rt.wait(task)
    assert x[0] == 1


def test_more_tasks_than_fit(rt):
    """A full ring: submit waits, and Python kernels run meanwhile."""
    x = np.zeros(1)

    @pto.kernel
    def one_more(x: pto.InOut[np.ndarray]):
        x += 1

    with pto.Runtime(workers=2, ring_tasks=16) as small:
        for _ in range(3000):
            small.submit(one_more, x)
        small.wait()
    assert x[0] == 3000


def test_many_dtypes(rt):
    @pto.kernel
    def copy(a: pto.In[np.ndarray], b: pto.Out[np.ndarray]):
        assert a.dtype == b.dtype
        b[...] = a

    for dtype in ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?", "c8", "c16", "g", "S5", "U3",
                  "M8[s]", "m8[ns]", ">f8", "<i4", [("a", "f4"), ("b", "i2")], "V7"]:
        a = np.zeros((3, 4), dtype)
        a.view("u1")[...] = 1
        b = np.zeros((3, 4), dtype)
        rt.submit(copy, a[1:, ::2], b[1:, ::2])
        rt.sync(b)
        assert b[1:, ::2].tobytes() == a[1:, ::2].tobytes(), dtype
        assert not b[0].view("u1").any()
        assert rt.read(a).tobytes() == a.tobytes()


def test_shapes(rt):
    for shape in [(), (0,), (1,), (3, 0, 2), (1,) * 8, (2,) * 8]:
        x = np.zeros(shape)
        rt.submit(put, x, 4)
        rt.sync(x)
        assert (x == 4).all() and x.shape == shape
    with pytest.raises(ValueError, match="dims"):
        rt.submit(put, np.zeros((1,) * 9)[:], 0)


def test_equal_kernels_are_not_the_same(rt):
    """What a class says about equality and hashes does not decide which function runs."""
    import dataclasses

    @dataclasses.dataclass(frozen=True)
    class Set:
        value: float = dataclasses.field(compare=False)

        def __call__(self, b: pto.Out):
            b[...] = self.value

    class Broken(Set):
        def __hash__(self):
            raise ZeroDivisionError

    x = np.zeros(6)
    one, two = Set(1), Set(2)
    assert one == two and hash(one) == hash(two)
    for i, kernel in enumerate((one, two, one, Broken(5), Set(4), two)):
        rt.submit(kernel, x[i:i + 1])
    rt.sync(x)
    assert x.tolist() == [1, 2, 1, 5, 4, 2]


@pytest.mark.parametrize("workers", [0, 1])
def test_a_function_that_is_over_is_dropped(workers):
    """Functions that were made for one task, and what they refer to, do not live as long as the runtime."""
    class Array(np.ndarray):
        pass

    class Adds:
        def __init__(self, memory):
            self.memory = memory

        def add(self, b: pto.InOut):
            b += self.memory[0]

    def closure(memory):
        def add(b: pto.InOut):
            b += memory[0]
        return add

    def add(memory, b: pto.InOut):
        b += memory[0]

    x, alive = np.zeros(4), []
    keep = pto.kernel(closure(np.ones(1)))
    with pto.Runtime(workers=workers) as rt:
        rt.submit(keep, x)
        for i in range(600):
            memory = np.ones(10).view(Array)
            alive.append(weakref.ref(memory))
            rt.submit([closure(memory), pto.kernel(closure(memory)), functools.partial(add, memory), Adds(memory).add][i % 4], x)
            del memory
        rt.submit(keep, x)
        rt.sync(x)
        rt.submit(keep, x)
        rt.wait()
        gc.collect()
        assert sum(ref() is not None for ref in alive) < 200
    assert x.tolist() == [603] * 4
    gc.collect()
    assert not any(ref() is not None for ref in alive)


def test_access_inside_of_another_type():
    from typing import Annotated, Optional
    for bad in (Optional[pto.In[np.ndarray]], pto.In[np.ndarray] | None, list[pto.Out[np.ndarray]], Annotated[np.ndarray, pto.In],
                pto.In[pto.Out[np.ndarray]]):
        def kernel(a: bad):
            pass
        with pytest.raises(TypeError, match="parameter a.*itself"):
            pto.kernel(kernel)

    class Odd:
        def __eq__(self, other):
            raise ZeroDivisionError

    def fine(a: Annotated[pto.In[np.ndarray], "words"], n: Odd(), m: np.zeros(3), o: int | None = None):
        pass
    pto.kernel(fine)
