"""Statistics, traces, explanations, and errors as people see them."""

import pickle
import os
import sys
import threading
import traceback
import weakref

import numpy as np
import pytest

import pto


@pto.kernel
def put(b: pto.Out[np.ndarray], value):
    b[...] = value


@pto.kernel
def add(a: pto.In[np.ndarray], b: pto.InOut[np.ndarray]):
    b += a


def test_stats(rt):
    x, y = np.zeros(4), np.zeros(4)
    rt.submit(put, x, 1)
    rt.submit(add, x, y)
    rt.wait()
    stats = rt.stats()
    assert stats["submitted"] == stats["completed"] == 2 and stats["failed"] == 0
    assert {r["ring"] for r in stats["rings"]} >= {"task ring", "heap"}
    assert "<table>" in stats._repr_html_() and "<table>" in rt._repr_html_()
    assert "2 of 2" in repr(rt)


@pytest.mark.parametrize("ending", ["html", "json", "dot", "ptrace"])
def test_trace(tmp_path, ending):
    file = tmp_path / f"run.{ending}"
    with pto.Runtime(workers=1) as rt:
        timeline = rt.trace(file)
        x, y = np.zeros(4), np.zeros(4)
        with rt.range("a phase"):
            rt.submit(put, x, 1, label="the first")
        rt.submit(add, x, y)
        assert "not there yet" in timeline._repr_html_() and not file.exists()
        with pytest.raises(RuntimeError, match="already"):
            rt.trace(tmp_path / "other.html")
    text = file.read_bytes()
    if ending == "html":  # the recorded data are encoded there
        assert len(text) > 10000
    else:
        assert b"put" in text and b"test_show.py" in text and b"the first" in text
    if ending in ("html", "ptrace"):
        assert "<iframe" in rt._repr_html_() and "<script" in timeline.html() and "iframe" in timeline._repr_html_()
    else:
        assert "no page" in timeline._repr_html_()
    assert str(file) in repr(timeline)


def test_trace_to_nowhere(tmp_path):
    with pytest.raises(pto.Error) as caught:
        with pto.Runtime(workers=1, trace=tmp_path / "no" / "such" / "folder.html") as rt:
            rt.wait()
    assert caught.value.status is pto.Status.SYSTEM
    x = np.zeros(2)
    for bad in ("run.png", "", "a\0b", 3, None, tmp_path / "no" / "such" / "folder.html"):
        with pto.Runtime(workers=0) as rt:
            with pytest.raises((pto.Error, TypeError, ValueError)):
                rt.trace(bad)
            rt.submit(put, x, 1)  # it is as it was
            with pytest.raises(ValueError, match="explain=True"):
                pto.explain(rt.submit(put, x, 1), rt.submit(put, x, 2))
            assert "Timeline" not in repr(rt) and "<table>" in rt._repr_html_()


def test_trace_inside_of_a_range(rt, tmp_path):
    x = np.zeros(2)
    for inside in (rt.range("a phase"), rt.scope(), rt.boundary()):
        with inside, pytest.raises(RuntimeError, match="ranges"):
            rt.trace(tmp_path / "run.html")
    rt.submit(put, x, 1)


@pytest.mark.parametrize("way", ["option", "call"])
def test_trace_in_the_folder_of_its_begin(tmp_path, monkeypatch, way):
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    with pto.Runtime(workers=0, trace="run.html" if way == "option" else None) as rt:
        timeline = rt.trace("run.html") if way == "call" else rt._timeline
        os.chdir("other")
    assert (tmp_path / "run.html").exists() and "<script" in timeline.html() and "<iframe" in rt._repr_html_()


def test_a_second_trace_and_no_folder_for_the_first(tmp_path):
    """The first one is empty, so nothing is lost, and the second one is that of the runtime."""
    x, folder = np.zeros(4), tmp_path / "gone"
    folder.mkdir()
    with pto.Runtime(trace=folder / "a.html") as rt:
        folder.rmdir()
        timeline = rt.trace(tmp_path / "b.html")
        rt.submit(put, x, 1)
    assert timeline.path == str(tmp_path / "b.html")
    assert (tmp_path / "b.html").exists()


def test_a_second_trace(tmp_path):
    """The first is that of a runtime without tasks."""
    x = np.zeros(2)
    with pto.Runtime(workers=0, trace=tmp_path / "first.html") as rt:
        rt.trace(tmp_path / "second.dot")
        rt.submit(put, x, 1)
    assert (tmp_path / "first.html").exists() and "put" in (tmp_path / "second.dot").read_text()


def test_explain():
    x, y = np.zeros((4, 4)), np.zeros((4, 4))
    with pto.Runtime(workers=1, explain=True) as rt:
        a = rt.submit(put, x[:2], 1)
        b = rt.submit(add, x[1:3], y[1:3])
        c = rt.submit(put, x[1], 2)
        d = rt.submit(put, y[3], 3)
        text = pto.explain(a, b)
        assert "read after write" in text and "put at test_show.py:" in text and "waits for" in text
        assert "write after read" in pto.explain(b, c) and "write after write" in pto.explain(c, a)
        assert "does not wait" in pto.explain(a, d)
        for bad in ((a, 3), (None, a), ("a", "b")):
            with pytest.raises(TypeError):
                pto.explain(*bad)
    with pto.Runtime(workers=1) as rt:
        task = rt.submit(put, x, 1)
        with pytest.raises(ValueError, match="explain=True"):
            pto.explain(task, task)


def test_explain_after():
    """A task that shares no byte waits all the same if it was told to."""
    x, y, z, w = np.zeros(4), np.zeros(4), np.zeros(4), np.zeros(4)
    with pto.Runtime(workers=1, explain=True) as rt:
        a, b = rt.submit(put, x, 1), rt.submit(put, y, 1)
        c, d = rt.submit(put, z, 1, after=a), rt.submit(put, w, 1, after=[b, a])
        e = rt.submit(put, x, 2, after=None)
        assert "does not wait" in pto.explain(b, c)
        for first, second in ((a, c), (a, d), (b, d)):
            text = pto.explain(first, second)
            assert "waits for" in text and "after=" in text and "does not" not in text
        assert "after=" not in pto.explain(a, e) and "write after write" in pto.explain(a, e)
        assert "does not wait for itself" in pto.explain(a, a)


def test_explain_built_in_operators():
    x, y, z, index = np.zeros(4), np.zeros(4), np.zeros(4), np.arange(4)
    with pto.Runtime(workers=1, explain=True) as rt:
        a = rt.submit(put, x, 1)
        b = rt.fill(x[:2], 3)
        c, d = rt.copy(y, x[:]), rt.rearrange(y[::-1], x)
        e, f = rt.gather(y, x, index), rt.scatter(x, y, index)
        g = rt.submit(put, y, 2)
        for first, second, reason in ((a, b, "write after write"), (b, c, "read after write"), (a, d, "read after write"),
                                      (c, d, "write after write"), (b, e, "read after write"), (a, f, "read after write"),
                                      (e, f, "write after read"), (f, g, "write after read")):
            text = pto.explain(first, second)
            assert "does not" not in text and reason in text, text
        assert "does not wait" in pto.explain(rt.fill(z, 1), g)


def test_statuses_print_their_names():
    assert str(pto.Status.TASK_FAILED) == f"{pto.Status.TASK_FAILED}" == "TASK_FAILED" and pto.Status.TASK_FAILED == 25


def test_a_failure_tells_the_story(rt):
    x, y = np.zeros(2), np.zeros(2)

    @pto.kernel
    def divide(a: pto.InOut[np.ndarray]):
        helper(a)

    def helper(a):
        raise ZeroDivisionError("the story")

    task = rt.submit(divide, x, label="a label")
    skipped = rt.submit(add, x, y)
    with pytest.raises(pto.Error) as caught:
        rt.read(y)
    assert caught.value.status is pto.Status.POISONED
    with pytest.raises(pto.Error) as caught:
        rt.wait()
    error = caught.value
    assert error.status is pto.Status.TASK_FAILED and error.status == 25
    assert error.file == __file__ and error.line == task.line and error.hint
    assert isinstance(error.__cause__, ZeroDivisionError)
    text = "".join(traceback.format_exception(error))
    assert "helper(a)" in text and "the story" in text and "divide" in str(error)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    with pytest.raises(pto.Error):
        rt.wait(skipped)
    rt.clear_error()
    rt.submit(put, x, 1)
    rt.wait()


def test_a_kernel_that_returns(rt):
    @pto.kernel
    def wrong(a: pto.InOut[np.ndarray]):
        return a

    x = np.zeros(2)
    rt.submit(wrong, x)
    with pytest.raises(pto.Error, match="returns None"):
        rt.wait()


def test_strange_exceptions(rt):
    class Bad(Exception):
        def __str__(self):
            raise RuntimeError("no text")

    class Odd(BaseException):
        pass

    for error in (Bad(), Odd(), SystemExit(3), KeyboardInterrupt(), StopIteration(), MemoryError(), ValueError("é🦆\0x"),
                  ValueError("%s%n" * 1000)):
        @pto.kernel
        def raises(a: pto.InOut[np.ndarray]):
            raise error

        x = np.zeros(1)
        rt.submit(raises, x)
        with pytest.raises(pto.Error) as caught:
            rt.wait()
        assert caught.value.__cause__ is error
        rt.clear_error()
        assert rt.stats()["failed"] > 0


def test_an_exception_without_a_text(rt):
    @pto.kernel
    def check(x: pto.In[np.ndarray]):
        raise MemoryError

    rt.submit(check, np.zeros(3))
    with pytest.raises(pto.Error, match=r"KERNEL_FAILED: MemoryError \["):
        rt.wait()
    rt.clear_error()


def test_many_failures(rt):
    @pto.kernel
    def fail(a: pto.Out[np.ndarray], n):
        raise ValueError(n)

    x = np.zeros(3000)
    for i in range(3000):
        rt.submit(fail, x[i:i + 1], i)
    with pytest.raises(pto.Error) as caught:
        rt.wait()
    assert caught.value.__cause__.args == (0,)


def test_the_first_failure_is_the_last_to_happen(rt):
    """The cause is the exception of the task that was submitted first, however many failed before it in time."""
    others = threading.Semaphore(0)

    @pto.kernel
    def fail(a: pto.Out[np.ndarray], n):
        others.release()
        raise ValueError(n)

    @pto.kernel
    def slow(a: pto.Out[np.ndarray]):
        for _ in range(1100):
            if not others.acquire(timeout=1):
                break  # the thread that submits runs it
        raise KeyError("first")

    x = np.zeros(1200)
    rt.submit(slow, x[0:1])
    for i in range(1, 1200):
        rt.submit(fail, x[i:i + 1], i)
    with pytest.raises(pto.Error) as caught:
        rt.wait()
    assert repr(caught.value.__cause__) == "KeyError('first')"
    rt.clear_error()
    rt.submit(fail, x[5:6], 5)
    with pytest.raises(pto.Error) as caught:
        rt.wait()
    assert caught.value.__cause__.args == (5,)


@pytest.mark.parametrize("workers, inline_ns", [(0, 1000), (1, 0), (2, 1000)])
@pytest.mark.parametrize("way", ["python", "c", "header", "built-in", "copy", "view"])
def test_a_new_array_in_the_memory_of_a_failed_one(workers, inline_ns, way):
    """What was to write an array that is gone does not poison the next one with its address."""
    import ctypes
    c_fail = pto.cfunc(ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(lambda x: 1), "int fail(double *x)")
    h_fail = pto.cfunc(ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(lambda call: 24), "inout f64[1] x")

    @pto.kernel
    def fail(x: pto.InOut[np.ndarray]):
        raise ValueError

    @pto.kernel
    def add(x: pto.InOut[np.ndarray], y: pto.InOut[np.ndarray]):
        x += 1
        y += x[0]

    total, first, places = np.zeros(1), np.zeros(1), set()
    with pto.Runtime(workers=workers, inline_ns=inline_ns) as rt:
        rt.submit(fail, first)
        for _ in range(60):
            x, y = np.ones(40), np.ones((4, 10))
            places.update((x.ctypes.data, y.ctypes.data))
            rt.submit(add, x, total)
            if way == "python":
                rt.submit(fail, x)
            elif way == "c":
                rt.submit(c_fail, x)
            elif way == "header":
                rt.submit(h_fail, x)
            elif way == "built-in":
                rt.gather(x, total, np.ones(40, "i8"))
            elif way == "copy":
                rt.copy(x[:1], first)
            else:
                rt.submit(fail, y.T[3:7:2])
                rt.submit(add, y[1:, 3:4].T, x)
            del x, y
            with pytest.raises(pto.Error):
                rt.wait()
        assert rt.read(total)[0] == 2 * 60
        assert rt.stats()["skipped"] == (60 if way in ("copy", "view") else 0) and len(places) < 100
        kept = np.ones(40)
        view = kept[3:]
        rt.submit(fail, view)
        del view
        for _ in range(5):
            rt.submit(add, kept, total)  # what the program still has stays poisoned
        with pytest.raises(pto.Error):
            rt.sync(kept)
        rt.clear_error()
        assert sys.getrefcount(kept) == 2 and kept.tolist() == [1] * 40


@pytest.mark.parametrize("call", ["wait", "sync", "read", "close"])
def test_the_text_of_an_error_is_its_own(tmp_path, call):
    """What the end of an array does in the library, between a call that fails and its exception, changes nothing."""
    ended, x = [], np.zeros(3)

    class Buffer(bytearray):
        def __del__(self):
            with pytest.raises(pto.Error, match="scope"):
                other.temp(3)
            ended.append(True)

    def fail(x: pto.InOut[np.ndarray]):
        raise ValueError("mine")

    def look(buffer: pto.In[np.ndarray]):
        pass

    full = tmp_path / "full.html"
    full.symlink_to("/dev/full")
    with pto.Runtime(workers=0) as other:
        rt = pto.Runtime(workers=1, inline_ns=0, trace=full if call == "close" else None)
        if call != "close":
            rt.submit(fail, x)
        buffer = Buffer(8)
        rt.submit(look, buffer)
        del buffer
        with pytest.raises(pto.Error, match="No space left" if call == "close" else "mine|was to be written by"):
            getattr(rt, call)(*[x] * (call in ("sync", "read")))
        rt.close(cancel=True)
        assert ended


def test_a_rearrange_with_bad_parts(rt):
    """Its last part is good. What is to be written is poisoned all the same, until nobody has it."""
    def fail(x: pto.InOut[np.ndarray]):
        raise ValueError

    source, total = np.ones((1000, 1000)), np.zeros(1)

    def add(x: pto.In[np.ndarray], total: pto.InOut[np.ndarray]):
        total += x[0, 0]

    rt.submit(fail, source[:1])
    for _ in range(6):
        new = np.zeros((1000, 1000))
        task = rt.rearrange(new, source)
        with pytest.raises(pto.Error):
            rt.wait(task)
        del new
        fresh = np.ones((1000, 1000))
        rt.submit(add, fresh, total)
        rt.sync(total)
    assert total[0] == 6


@pytest.mark.parametrize("workers, inline_ns", [(0, 1000), (1, 0)])
@pytest.mark.parametrize("way", ["bytearray", "part", "array", "ctypes", "dlpack", "frombuffer"])
def test_a_new_array_in_the_memory_of_another_library(workers, inline_ns, way):
    import array
    import ctypes

    class Theirs:
        def __init__(self, values):
            self.export = values.__dlpack__

        def __dlpack__(self):
            return self.export()

        def __dlpack_device__(self):
            return 1, 0

    @pto.kernel
    def fail(x: pto.InOut[np.ndarray]):
        raise ValueError

    @pto.kernel
    def add(x: pto.In[np.ndarray], total: pto.InOut[np.ndarray]):
        total += x[0]

    size, total, freed = 1 << 17, np.zeros(1), 0

    class Buffer(bytearray):
        def __del__(self):
            nonlocal freed
            freed += 1

    make = {"bytearray": Buffer, "part": lambda n: memoryview(Buffer(n))[1:-1],
            "array": lambda n: array.array("B", bytes(n)), "ctypes": lambda n: (ctypes.c_ubyte * n)(),
            "dlpack": lambda n: Theirs(np.ones(n, "u1")), "frombuffer": lambda n: np.frombuffer(Buffer(n), "u1")}[way]
    with pto.Runtime(workers=workers, inline_ns=inline_ns) as rt:
        for _ in range(30):
            given = make(size)
            rt.submit(fail, given)
            del given
            with pytest.raises(pto.Error):
                rt.wait()
            fresh = np.ones(size, "u1")
            rt.submit(add, fresh, total)
            rt.sync(total)
        assert total[0] == 30
        assert freed > 25 if way in ("bytearray", "part") else freed == 0
        kept = bytearray(8)
        for _ in range(5):
            rt.submit(fail, memoryview(kept)[2:4])
        with pytest.raises(pto.Error):
            rt.sync(kept)  # what the program still has stays poisoned
        rt.clear_error()
        kept.append(1)
        assert freed == (30 if way in ("bytearray", "part", "frombuffer") else 0)


@pytest.mark.parametrize("workers", [0, 2])
def test_failed_tasks_hold_no_more_memory_than_others(workers):
    @pto.kernel
    def fail(x: pto.InOut[np.ndarray]):
        raise ValueError

    made = []
    with pto.Runtime(workers=workers, inline_ns=0, ring_tasks=16) as rt:
        for _ in range(2000):
            x = np.ones(4)
            made.append(weakref.ref(x))
            rt.submit(fail, x)
            del x
        assert sum(ref() is not None for ref in made) < 300
        rt.clear_error()
        assert not any(ref() is not None for ref in made)


def test_garbage_as_names(rt):
    x = np.zeros(1)
    for name in ("", "x" * 100000, "a\nb", "é🦆", "%s%s%n"):
        rt.submit(put, x, 1, label=name)
        with rt.range(name):
            pass
        if name:
            rt.submit(pto.kernel(lambda: None, name=name))
    for bad in (3, b"x", ["a"]):
        with pytest.raises(TypeError):
            rt.submit(put, x, 1, label=bad)
    with pytest.raises(UnicodeEncodeError):
        rt.submit(put, x, 1, label="\ud800")
    rt.wait()


def test_kernels_that_cannot_be():
    async def coroutine():
        pass

    def generator():
        yield

    def named(*, x):
        pass

    async def stream():
        yield

    for bad in (3, None, "f", coroutine, generator, stream, named, [], dict):
        with pytest.raises(TypeError):
            pto.kernel(bad)()
    with pytest.raises(ValueError, match="worker types"):
        pto.kernel(lambda: None, type="gpu")


def test_explain_is_yes_or_no():
    for good in (True, False, 1, np.bool_(True), None):
        pto.Runtime(workers=0, explain=good).close()
    for bad in ("no", "", [], 1.0):
        with pytest.raises(TypeError, match="explain must be True or False"):
            pto.Runtime(workers=0, explain=bad)


def test_hints_are_for_python():
    with pytest.raises(pto.Error, match="leave it out, or give what the detail permits"):
        pto.Runtime(trace="run.png")
    assert "0 to 8 dimensions" in str(pto.Error(3, "x", "a tensor has 0 to PTO_MAX_DIMS dimensions"))


def test_explain_tasks_of_two_runtimes():
    @pto.kernel
    def write(b: pto.Out):
        pass

    x = np.zeros(2)
    with pto.Runtime(workers=0, explain=True) as one, pto.Runtime(workers=0, explain=True) as other:
        first, second = one.submit(write, x), other.submit(write, x)
        with pytest.raises(ValueError, match="different runtimes"):
            pto.explain(first, second)


def test_names_with_null_characters(rt, tmp_path):
    """C would end them there."""
    @pto.kernel
    def write(b: pto.Out):
        pass

    x = np.zeros(2)
    for call in (lambda: rt.submit(write, x, label="a\0b"), lambda: rt.range("a\0b"), lambda: pto.Runtime(device="cpu:0\0"),
                 lambda: pto.Runtime(trace=f"{tmp_path}/a.html\0"), lambda: rt.temp(3, device="cpu:0\0"), lambda: pto.Runtime(place="inline\0")):
        with pytest.raises(ValueError, match="null character"):
            call()
    for option in ("place", "device"):
        with pytest.raises(TypeError, match="takes a string"):
            pto.Runtime(**{option: 3})
    with pytest.raises(OverflowError, match="too large"):
        pto.Runtime(heap_bytes=2 ** 64)
