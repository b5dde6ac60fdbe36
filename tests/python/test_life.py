"""Threads, Ctrl-C, the garbage collector, several runtimes, and misuse of all of them."""

import gc
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
import weakref

import numpy as np
import pytest

import pto


@pto.kernel
def put(b: pto.Out[np.ndarray], value):
    b[...] = value


@pto.kernel
def slow(b: pto.InOut[np.ndarray], seconds):
    time.sleep(seconds)
    b += 1


class Array(np.ndarray):
    pass


class Buffer(bytearray):
    pass


@pytest.mark.parametrize("make", [lambda: np.zeros(3).view(Array), lambda: np.zeros(3).view(Array)[1:], lambda: Buffer(8)])
@pytest.mark.parametrize("tensor", [pto.tensor, lambda x: pto.tensor(x)[1:].reshape(-1), lambda x: pto.tensor(memoryview(x))])
def test_a_cycle_through_a_tensor_is_collected(make, tensor):
    x = make()
    x.tensor = tensor(x)
    gone = weakref.ref(x)
    del x
    gc.collect()
    assert gone() is None


def test_a_tensor_keeps_an_array_that_refers_to_it(rt):
    x = np.zeros(3).view(Array)
    x.tensor = tensor = pto.tensor(x)
    gone = weakref.ref(x)
    del x
    gc.collect()
    rt.submit(put, tensor, 1)
    assert rt.read(gone()).tolist() == [1] * 3
    del tensor
    gc.collect()
    assert gone() is None


def test_close(rt):
    other = pto.Runtime(workers=1)
    x = np.zeros(1)
    other.submit(slow, x, .05)
    other.close()
    assert x[0] == 1 and other.closed
    other.close()
    for call in (lambda: other.submit(put, x, 1), other.wait, other.sync, lambda: other.read(x), lambda: other.temp(3),
                 other.stats, other.clear_error, lambda: other.scope().__enter__(), lambda: other.fill(x, 1),
                 lambda: other.__enter__(), lambda: other.trace("x.html"), other.check):
        with pytest.raises(ValueError, match="closed"):
            call()
    other.cancel()
    assert "closed" in repr(other)


def test_an_exception_cancels():
    x = np.zeros(1)
    with pytest.raises(KeyError):
        with pto.Runtime(workers=1) as rt:
            with rt.scope():
                for _ in range(1000):
                    rt.submit(slow, x, .1)
                raise KeyError("stop")
    assert x[0] < 1000


def test_close_with_open_scope():
    rt = pto.Runtime(workers=1)
    scope = rt.scope()
    scope.__enter__()
    with pytest.raises(pto.Error) as caught:
        rt.close()
    assert caught.value.status is pto.Status.OPEN_SCOPE and not rt.closed
    rt.close(cancel=True)
    assert rt.closed


def test_with_ends_while_a_generator_holds_a_scope():
    """The error comes when the tasks are complete and the runtime is closed."""
    def hold():
        with rt.scope():
            yield rt.empty(2)

    x = np.zeros(1)
    held = hold()
    with pytest.raises(pto.Error) as caught:
        with pto.Runtime(workers=1) as rt:
            next(held)
            rt.submit(slow, x, .1)
    assert caught.value.status is pto.Status.OPEN_SCOPE and "test_life.py" in str(caught.value)
    assert rt.closed and x[0] == 1
    held.close()


def test_a_failure_comes_before_an_open_scope():
    @pto.kernel
    def bad(b: pto.InOut[np.ndarray]):
        raise ValueError("planned")

    x = np.zeros(1)
    with pytest.raises(pto.Error, match="planned"):
        with pto.Runtime(workers=1) as rt:
            rt.scope().__enter__()
            rt.submit(bad, x)
    assert rt.closed


def test_worker_processes_are_refused(monkeypatch):
    monkeypatch.setenv("PTO_SCHEDULER", "process")
    with pytest.raises(ValueError, match="PTO_SCHEDULER=process.*place='inline'"):
        pto.Runtime(workers=1)
    x = np.zeros(1)
    with pto.Runtime(workers=1, place="inline") as rt:
        rt.submit(put, x, 1)
    assert x[0] == 1


def test_options():
    for bad in ({"workers": -1}, {"workers": "two"}, {"unknown": 1}, {"workers": 10 ** 30}, {"trace": 3}, {"place": 4},
                {"heap_bytes": 2 ** 70}):
        with pytest.raises((TypeError, OverflowError)):
            pto.Runtime(**bad)
    for place in ("process", "threads", ""):
        with pytest.raises(ValueError, match="place"):
            pto.Runtime(place=place)
    with pytest.raises(TypeError):
        pto.Runtime(3)
    with pytest.raises(pto.Error):
        pto.Runtime(workers=100000)
    with pto.Runtime(workers=0, place=None, spin=0, guard=1, levels=2) as rt:
        assert rt.stats()["threads"] == 1
        x = np.zeros(2)
        rt.submit(put, x, 3)
    assert x.tolist() == [3, 3]
    with pto.Runtime(workers=2, place="thread") as rt:
        rt.submit(put, x, 4)
    assert x.tolist() == [4, 4]


def test_init_twice(rt):
    with pytest.raises(RuntimeError):
        rt.__init__()
    broken = pto.Runtime.__new__(pto.Runtime)
    with pytest.raises(ValueError):
        broken.submit(put, 1, 2)
    assert broken.closed
    broken.cancel()
    broken.close()


def test_another_thread(rt):
    x = np.zeros(1)
    wrong = []

    def use():
        for call in (lambda: rt.submit(put, x, 1), rt.wait, lambda: rt.sync(x), lambda: rt.read(x), lambda: rt.temp(3),
                     lambda: rt.scope().__enter__(), rt.close, rt.clear_error, lambda: rt.fill(x, 2),
                     lambda: rt.release(pto.tensor(x)), rt.check):
            try:
                call()
                wrong.append("no error")
            except pto.Error as error:
                if error.status is not pto.Status.WRONG_THREAD:
                    wrong.append(error)
        rt.stats()

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert wrong == []
    rt.submit(put, x, 1)
    rt.wait()


def test_another_thread_while_it_is_closed(run_python):
    """rt.cancel, rt.stats and repr may be called anywhere, even while the runtime is being destroyed."""
    run_python("""
        import sys, threading
        import numpy as np, pto

        @pto.kernel
        def put(b: pto.Out[np.ndarray], value):
            b[...] = value

        def poke():
            while not stop.is_set():
                rt = box[0]
                try:
                    rt.cancel()
                    repr(rt)
                    rt.stats()
                except ValueError as error:
                    assert "closed" in str(error)

        sys.setswitchinterval(1e-5)
        x, stop = np.zeros(4), threading.Event()
        box = [pto.Runtime(workers=1)]
        threads = [threading.Thread(target=poke) for _ in range(2)]
        for t in threads:
            t.start()
        for i in range(60):
            rt, box[0] = box[0], pto.Runtime(workers=1)
            box[0], other = rt, box[0]
            try:
                rt.submit(put, x[:2], i)
            except pto.Error as error:
                assert error.status is pto.Status.CANCELLED, error
            rt.close(cancel=True)
            box[0] = other
        stop.set()
        for t in threads:
            t.join()
        box[0].close(cancel=True)
    """)


@pytest.mark.parametrize("workers", [0, 2])
def test_inside_of_a_kernel(workers):
    seen = []
    x = np.zeros(1)

    @pto.kernel
    def use(x: pto.InOut[np.ndarray]):
        for call in (lambda: rt.submit(put, x, 1), rt.wait, rt.close, lambda: rt.temp(3), lambda: rt.__exit__(None, None, None),
                     lambda: rt.scope().__enter__()):
            try:
                call()
                seen.append("no error")
            except pto.Error as error:
                seen.append(error.status)

    with pto.Runtime(workers=workers) as rt:
        rt.submit(use, x)
        rt.wait()
    assert seen == [pto.Status.WRONG_THREAD] * 6


def test_two_runtimes():
    x, y = np.zeros(4), np.zeros(4)
    with pto.Runtime(workers=1) as one, pto.Runtime(workers=1) as two:
        for i in range(300):
            one.submit(put, x, i)
            two.submit(put, y, i)
        with one.scope():
            t = one.temp(4)
            one.submit(put, t, 1)
            with pytest.raises(pto.Error):
                two.submit(put, t, 1)
            with pytest.raises(pto.Error):
                two.read(t)
        with pytest.raises(pto.Error):
            two.wait(one.submit(put, x, 1))
    assert x.tolist() == [1] * 4 and y.tolist() == [299] * 4


def test_a_runtime_in_another_thread():
    result = np.zeros(8)

    def work(part):
        with pto.Runtime(workers=1) as rt:
            for i in range(100):
                rt.submit(put, part, i)

    threads = [threading.Thread(target=work, args=(result[2 * i:2 * i + 2],)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert result.tolist() == [99] * 8


def test_kernels_that_release_the_gil_run_in_parallel():
    gate = threading.Barrier(2, timeout=20)

    @pto.kernel
    def meet(x: pto.InOut[np.ndarray]):
        gate.wait()

    x = np.zeros(2)
    with pto.Runtime(workers=2) as rt:
        rt.submit(meet, x[:1])
        rt.submit(meet, x[1:])


@pytest.mark.parametrize("call", ["rt.wait()", "rt.wait(task)", "rt.sync(x)", "rt.read(x)", "rt.close()", "rt.clear_error()",
                                  "[rt.submit(held, x) for _ in range(40)]"])
def test_python_runs_while_the_library_waits(run_python, call):
    """Another thread of the program ends the wait. It cannot if the call keeps the GIL."""
    run_python(f"""
        import threading, time
        import numpy as np, pto

        @pto.kernel
        def held(b: pto.InOut[np.ndarray]):
            started.set()
            gate.wait()

        def other():
            started.wait()
            for _ in range(20):
                time.sleep(.001)
            gate.set()

        x, started, gate = np.zeros(1), threading.Event(), threading.Event()
        threading.Thread(target=other).start()
        rt = pto.Runtime(workers=1, ring_tasks=16)
        task = rt.submit(held, x)
        {call}
        rt.close()
    """)


def test_collected_with_tasks_running():
    x = np.zeros(1)
    rt = pto.Runtime(workers=1)
    for _ in range(50):
        rt.submit(slow, x, .01)
    gone = weakref.ref(rt)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        del rt
        gc.collect()
    assert any(issubclass(w.category, ResourceWarning) for w in seen)
    seen.clear()  # a warning refers to its source
    gc.collect()
    assert gone() is None


def test_a_cycle_is_collected():
    class Holder:
        pass

    holder = Holder()
    holder.rt = pto.Runtime(workers=1)

    @pto.kernel
    def uses(x: pto.InOut[np.ndarray]):
        holder.rt  # a closure that refers to the runtime

    x = np.zeros(2)
    holder.rt.submit(uses, x)
    holder.rt.wait()
    gone = weakref.ref(holder.rt)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        del holder, uses
        gc.collect()
    assert gone() is None


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("way", ["closure", "argument", "method", "tasks", "scope", "failure"])
def test_what_tasks_refer_to_is_collected(way, workers):
    """Without a wait: tasks that may not be complete still hold kernels and arguments that refer to the runtime."""
    class Model:
        def step(self, x: pto.InOut[np.ndarray]):
            time.sleep(.001)

    def leave():
        model, x = Model(), np.zeros(2)
        model.rt = pto.Runtime(workers=workers, explain=way == "tasks")

        def closure(x: pto.InOut[np.ndarray], what=None):
            time.sleep(.001)
            if way == "failure":
                raise ValueError(model)

        def plain(x: pto.InOut[np.ndarray], what):
            time.sleep(.001)

        rt = model.rt
        if way == "scope":
            model.scope = rt.scope()
            model.scope.__enter__()
        kernel = closure if way in ("closure", "tasks", "failure") else model.step if way in ("method", "scope") else plain
        made = [rt.submit(kernel, x, *[model] * (way == "argument")) for _ in range(10)]
        model.made = made if way == "tasks" else None
        return weakref.ref(rt)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gone = leave()
        end = time.time() + 20
        while gone() is not None and time.time() < end:
            gc.collect()
            time.sleep(.01)
    assert gone() is None


def test_garbage_of_one_runtime_inside_of_a_kernel_of_another(run_python):
    """A kernel collects what another runtime has left. That one is closed later, and its tasks are whole till then."""
    run_python("""
        import gc, time, warnings, weakref
        import numpy as np, pto
        warnings.simplefilter("ignore")
        gc.disable()

        def pause(x: pto.InOut[np.ndarray]):
            time.sleep(.03)

        def leave():
            class Model:
                def step(self, x: pto.InOut[np.ndarray], other):
                    whole.append(hasattr(self, "rt") and hasattr(other, "rt"))
            model = Model()
            model.rt = pto.Runtime(workers=1, inline_ns=0)
            for kernel, *more in [(pause,), (model.step, model), (model.step, model)]:
                model.rt.submit(kernel, x, *more)
            return weakref.ref(model.rt)

        @pto.kernel
        def collect(y: pto.InOut[np.ndarray]):
            gc.collect()

        x, y = np.zeros(2), np.zeros(2)
        left, whole = [], []
        for workers in (0, 1):
            with pto.Runtime(workers=workers, inline_ns=0) as rt:
                for _ in range(5):
                    left.append(leave())
                    rt.submit(collect, y)
                    time.sleep(.06)  # what is closed later is closed by this thread
                rt.wait()
        for _ in range(1000):
            gc.collect()
            if all(ref() is None for ref in left):
                break
            time.sleep(.01)
        assert all(ref() is None for ref in left) and whole and all(whole)
    """)


def test_collected_on_another_thread():
    box = [pto.Runtime(workers=1)]
    x = np.zeros(2)
    box[0].submit(put, x, 1)

    def drop():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            box.clear()
            gc.collect()

    thread = threading.Thread(target=drop)
    thread.start()
    thread.join(20)
    assert not thread.is_alive()


def test_collected_inside_of_its_own_kernel(run_python):
    run_python("""
        import gc, time, warnings
        import numpy as np, pto
        warnings.simplefilter("ignore")
        box = [pto.Runtime(workers=1)]

        @pto.kernel
        def drop(x: pto.InOut[np.ndarray]):
            box.clear()
            gc.collect()

        rt, x = box[0], np.zeros(1)
        rt.submit(drop, x)
        del rt
        time.sleep(.3)
        print("alive")
    """)


def test_many_runtimes_leave_nothing():
    def threads():
        return len(os.listdir("/proc/self/task"))

    def files():
        return len(os.listdir("/proc/self/fd"))

    x = np.zeros(1)
    before = threads(), files()
    for _ in range(30):
        with pto.Runtime(workers=2) as rt:
            rt.submit(put, x, 1)
    assert (threads(), files()) == before


@pytest.mark.parametrize("call", ["rt.wait()", "rt.sync(x)", "rt.read(x)", "rt.close()",
                                  "[rt.submit(slow, x) for _ in range(10000)]"])
def test_ctrl_c(tmp_path, call):
    file = tmp_path / "program.py"
    ring = 16 if "submit" in call else 2048
    text = f"""
import signal, sys, time
import numpy as np, pto

@pto.kernel
def slow(b: pto.InOut[np.ndarray]):
    time.sleep(.05)
    b += 1

signal.signal(signal.SIGINT, signal.default_int_handler)  # tests may run in the background
x = np.zeros(2)
try:
    with pto.Runtime(workers=1, ring_tasks={ring}) as rt:
        for _ in range(1000 if {ring} > 1000 else 10):
            rt.submit(slow, x)
        print("ready", flush=True)
        {call}
finally:
    print(int(x[0]))
"""
    file.write_text(text)
    process = subprocess.Popen([sys.executable, str(file)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    time.sleep(.2)
    process.send_signal(signal.SIGINT)
    ran, errors = process.communicate(timeout=300)
    line = 1 + text[:text.index(call)].count("\n")  # on a busy machine it may not have come that far
    assert f"line {line}" in errors or f"line {line - 1}" in errors, errors
    assert "KeyboardInterrupt" in errors and process.returncode != 0, errors
    assert int(ran) < 1000


@pytest.mark.parametrize("workers, call", [
    (0, "rt.wait()"), (1, "rt.wait()"), (0, "rt.wait(last)"), (1, "rt.sync(x)"), (0, "rt.sync(t)"), (0, "rt.read(t)"),
    (1, "rt.clear_error()"), (0, "pass"), (0, "[rt.submit(busy, x) for _ in range(9000)]"), (1, "[rt.copy(x, y) for _ in range(9000)]"),
    (0, "[rt.fill(x, 1) for _ in range(9000)]"), (0, "[rt.rearrange(x, y) for _ in range(9000)]")])
def test_ctrl_c_while_the_thread_runs_a_kernel(tmp_path, call, workers):
    """The handler then runs inside of the kernel. Ctrl-C is for the program all the same."""
    file = tmp_path / "program.py"
    file.write_text(f"""
import signal, time
import numpy as np, pto

@pto.kernel
def busy(b: pto.InOut[np.ndarray]):
    begin = time.time()
    while time.time() - begin < .3:
        pass
    ran.append(1)

signal.signal(signal.SIGINT, signal.default_int_handler)
x, y = np.zeros(2), np.zeros(2)
ran = []
try:
    with pto.Runtime(workers={workers}, ring_tasks=64) as rt:
        with rt.scope():
            t = rt.empty(2)
            for _ in range(30):
                last = rt.submit(busy, x)
                rt.submit(busy, t)
            print("ready", flush=True)
            {call}
except KeyboardInterrupt:
    print("interrupted", rt.closed, len(ran) < 60)
""")
    process = subprocess.Popen([sys.executable, str(file)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    time.sleep(.1)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=300)
    assert output == "interrupted True True\n" and process.returncode == 0, output + errors


def test_a_handler_that_raises_inside_of_a_kernel():
    """Any exception of a handler ends the wait, and is not taken for one of the kernel."""
    class Late(Exception):
        pass

    class Handler:
        def handle(self, *_):
            raise Late

    @pto.kernel
    def busy(b: pto.InOut[np.ndarray]):
        begin = time.time()
        while time.time() - begin < .1:
            pass

    @pto.kernel
    def raises(b: pto.InOut[np.ndarray]):
        raise KeyboardInterrupt

    old = signal.signal(signal.SIGALRM, Handler().handle)
    try:
        with pto.Runtime(workers=0) as rt:
            x = np.zeros(1)
            for _ in range(20):
                rt.submit(busy, x)
            with pytest.raises(Late):
                signal.setitimer(signal.ITIMER_REAL, .15)
                rt.wait()
            rt.cancel()
            rt.clear_error()
            rt.submit(raises, x)
            with pytest.raises(pto.Error) as caught:
                rt.wait()
            assert isinstance(caught.value.__cause__, KeyboardInterrupt)
            rt.clear_error()
    finally:
        signal.signal(signal.SIGALRM, old)


@pytest.mark.parametrize("where", ["__str__", "_from_signal"])
def test_ctrl_c_while_a_failure_is_described(where, monkeypatch):
    """Ctrl-C also reaches the program if it comes while the runtime asks the exception of a kernel what it says."""
    import pto._errors as errors
    ask = errors._from_signal

    def interrupt():
        if threading.current_thread() is threading.main_thread():
            os.kill(os.getpid(), signal.SIGINT)

    class Planned(Exception):
        def __str__(self):
            if where == "__str__":
                interrupt()
            return "planned"

    def from_signal(error):
        if where == "_from_signal":
            interrupt()
        return ask(error)

    @pto.kernel
    def bad(b: pto.InOut[np.ndarray]):
        raise Planned

    monkeypatch.setattr(errors, "_from_signal", from_signal)
    x = np.zeros(1)
    old = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            with pto.Runtime(workers=0) as rt:
                rt.submit(bad, x)
                try:
                    rt.wait()
                except pto.Error:
                    rt.clear_error()
                assert not "Ctrl-C was lost"
    finally:
        signal.signal(signal.SIGINT, old)


def test_an_exception_that_cannot_be_described():
    """An error in __str__ is none of the program."""
    class Silent(Exception):
        def __str__(self):
            raise ValueError("no text")

    @pto.kernel
    def bad(b: pto.InOut[np.ndarray]):
        raise Silent

    x = np.zeros(1)
    for workers in (0, 1):
        with pto.Runtime(workers=workers) as rt:
            rt.submit(bad, x)
            with pytest.raises(pto.Error, match="Silent") as caught:
                rt.wait()
            assert isinstance(caught.value.__cause__, Silent)
            rt.clear_error()


@pytest.mark.parametrize("workers", [0, 2])
def test_the_end_of_an_array_calls_the_runtime(workers):
    """Arrays are let go inside of calls. What they run then may use the runtime, and close it."""
    calls = []

    class Array(np.ndarray):
        def __del__(self):
            if calls:
                calls[0]()

    y = np.zeros(4)
    for name in ("close", "submit", "wait", "stats"):
        with pto.Runtime(workers=workers) as rt:
            calls[:] = [lambda: rt.submit(put, y, 1)] if name == "submit" else [getattr(rt, name)]
            try:
                for i in range(100):
                    rt.submit(put, np.zeros(4).view(Array)[:], i)
                    if i % 10 == 9:
                        rt.wait()
                assert name != "close"
            except ValueError as error:
                assert name == "close" and "closed" in str(error)
            calls.clear()


@pytest.mark.parametrize("call", ["fill(y, 1)", "copy(y, y)", "rearrange(y[:2], y[2:])", "gather(y[:1], y[2:], i)"])
def test_the_end_of_an_array_closes_inside_of_an_operator(call):
    class Array(np.ndarray):
        def __del__(self):
            if self.size == 7:
                rt.close(cancel=True)

    y, i = np.zeros(4), np.zeros(1, int)
    rt = pto.Runtime(workers=1, inline_ns=0)
    last = [np.zeros(7).view(Array)]
    done = rt.submit(put, last[0][:7], 1)
    last.clear()
    while rt.stats()["completed"] < 1:
        time.sleep(.001)
    with pytest.raises(ValueError, match="the runtime is closed"):
        eval("rt." + call)
    assert rt.closed and done.order == 0


def test_a_runtime_inside_of_a_kernel():
    @pto.kernel
    def nested(b: pto.InOut[np.ndarray]):
        with pto.Runtime(workers=1) as inner:
            inner.submit(put, b, 9)

    for workers in (0, 1):
        x = np.zeros(4)
        with pto.Runtime(workers=workers) as rt:
            rt.submit(nested, x)
        assert x.tolist() == [9] * 4


def test_a_handler_that_does_not_raise(rt):
    """Other signals run their handler during a wait, and the wait goes on."""
    seen = []
    old = signal.signal(signal.SIGALRM, lambda *_: seen.append(time.time()))
    try:
        x = np.zeros(1)
        rt.submit(slow, x, .5)
        signal.setitimer(signal.ITIMER_REAL, .05)
        rt.wait()
        assert len(seen) == 1 and x[0] == 1
    finally:
        signal.signal(signal.SIGALRM, old)


def test_interrupted_and_continued(rt):
    class Late(Exception):
        pass

    def raise_late(*_):
        raise Late

    started, gate = threading.Event(), threading.Event()

    @pto.kernel
    def held(b: pto.InOut[np.ndarray]):
        started.set()
        gate.wait(60)
        b += 1

    old = signal.signal(signal.SIGALRM, raise_late)
    try:
        x = np.zeros(1)
        rt.submit(held, x)
        assert started.wait(20)  # a worker has it
        with pytest.raises(Late):
            signal.setitimer(signal.ITIMER_REAL, .05)
            rt.wait()
        gate.set()
        rt.wait()
        assert x[0] == 1
    finally:
        signal.signal(signal.SIGALRM, old)


def test_cancel(rt):
    started = threading.Event()

    @pto.kernel
    def first(b: pto.InOut[np.ndarray]):
        started.set()

    def cancel():
        started.wait()
        rt.cancel()

    x = np.zeros(1)
    thread = threading.Thread(target=cancel)
    thread.start()
    rt.submit(first, x)
    with pytest.raises(pto.Error) as caught:
        for _ in range(1000):
            rt.submit(slow, x, .1)
        rt.wait()
    thread.join()
    assert caught.value.status is pto.Status.CANCELLED and x[0] < 1000
    rt.clear_error()
    rt.submit(put, x, 5)
    rt.sync(x)
    assert x[0] == 5


def test_references_do_not_leak():
    """Every object that a task uses has the same number of references before and after."""
    x, y = np.zeros(8), np.zeros(8)
    text = object()

    @pto.kernel
    def f(a: pto.In[np.ndarray], b: pto.Out[np.ndarray], o):
        b[...] = a

    @pto.kernel
    def g(a: pto.In[np.ndarray]):
        raise ValueError("no")

    def use():
        with pto.Runtime(workers=1) as rt:
            for _ in range(50):
                rt.submit(f, x[:4], y[4:], text)
                rt.submit(f, pto.tensor(x), y, text)
                with pytest.raises(TypeError):
                    rt.submit(f, x, y)
                with pytest.raises(ValueError):
                    rt.submit(f, x, y[y == 0], text)
                with rt.boundary():
                    t = rt.temp(8)
                    rt.submit(f, x, t, text)
                    rt.read(t)
                rt.sync(y)
            rt.submit(g, x)
            with pytest.raises(pto.Error):
                rt.wait()
            rt.clear_error()

    use()
    gc.collect()
    objects = (x, y, text, f, g, None.__class__, pto.Kernel, pto.Tensor, pto.Task, np.dtype("f8"))
    before = [sys.getrefcount(o) for o in objects]
    for _ in range(3):
        use()
    gc.collect()
    after = [sys.getrefcount(o) for o in objects]
    assert all(abs(a - b) <= 3 for a, b in zip(after, before)), (before, after)


def test_the_end_of_a_kernel_submits_elsewhere():
    """Each submit returns a task of its own, even if the end of an object submits to another runtime meanwhile."""
    @pto.kernel
    def put(b: pto.Out, value):
        b[...] = value

    class Last:
        def __call__(self, b: pto.Out):
            pass

        def __del__(self):
            made.append(other.submit(put, y, 3))

    made, x, y = [], np.zeros(2), np.zeros(2)
    with pto.Runtime(workers=1) as other, pto.Runtime(workers=1) as third:
        with pto.Runtime(workers=1) as rt:
            rt.submit(Last(), x)
        del rt
        gc.collect()
        task = third.submit(put, x, 4)
        gc.collect()
        assert len(made) == 1 and made[0] is not task
        other.wait(made[0])
        third.wait(task)
        assert x.tolist() == [4, 4] and y.tolist() == [3, 3]
