"""Statistics, traces, explanations, and errors as people see them."""

import pickle
import threading
import traceback

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
    for bad in ("run.png", "", "a\0b", 3, None):
        with pto.Runtime(workers=0) as rt:
            with pytest.raises((pto.Error, TypeError, ValueError)):
                rt.trace(bad)


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

    for bad in (3, None, "f", coroutine, generator, named, [], dict):
        with pytest.raises(TypeError):
            pto.kernel(bad)()
    with pytest.raises(ValueError, match="worker types"):
        pto.kernel(lambda: None, type="gpu")
