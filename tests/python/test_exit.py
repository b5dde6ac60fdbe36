"""Processes: fork, the end of the interpreter, subinterpreters."""

import os

import pytest


def test_fork(run_python):
    done = run_python("""
        import os, sys, warnings
        import numpy as np, pto
        warnings.simplefilter("ignore")

        @pto.kernel
        def put(b: pto.Out[np.ndarray], value):
            b[...] = value

        x = np.zeros(2)
        rt = pto.Runtime(workers=2)
        rt.submit(put, x, 1)
        pid = os.fork()
        if pid == 0:
            try:
                rt.submit(put, x, 2)
            except pto.Error as error:
                assert error.status is pto.Status.WRONG_THREAD and "child" in str(error), error
            else:
                sys.exit(3)
            rt.close()
            with pto.Runtime(workers=1) as own:         # the child can have one of its own
                own.submit(put, x, 5)
            assert x.tolist() == [5, 5]
            sys.exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
        rt.submit(put, x, 3)
        rt.close()
        assert x.tolist() == [3, 3]
        print("fine")
    """)
    assert "fine" in done.stdout


def test_exit_with_running_tasks(run_python):
    for ending in ("", "sys.exit(0)", "raise SystemExit", "del rt"):
        run_python(f"""
            import sys, time, warnings
            import numpy as np, pto
            warnings.simplefilter("ignore")

            @pto.kernel
            def slow(b: pto.InOut[np.ndarray]):
                time.sleep(.01)
                b += 1

            x = np.zeros(2)
            rt = pto.Runtime(workers=2)
            scope = rt.scope()
            scope.__enter__()
            t = rt.empty(4)
            for _ in range(100):
                rt.submit(slow, x)
                rt.submit(slow, t)
            {ending}
        """)


@pytest.mark.parametrize("what", ["always", "error", "ignore"])
@pytest.mark.parametrize("closed", [False, True])
def test_exit_warns_of_open_runtimes(run_python, what, closed):
    done = run_python(f"""
        import gc, warnings
        import numpy as np, pto
        warnings.simplefilter({what!r})

        def show(message, category, *rest, show=warnings.showwarning):
            show(message, category, *rest)
            globals().update(rt=None, other=None)   # both runtimes are garbage now
            gc.collect()
            try:
                pto.Runtime()
            except RuntimeError as error:
                assert "exiting" in str(error)

        @pto.kernel
        def put(b: pto.Out[np.ndarray]):
            b[...] = 1

        warnings.showwarning = show
        x = np.zeros(2)
        rt, other = pto.Runtime(workers=1), pto.Runtime(workers=0)
        rt.submit(put, x)
        if {closed}:
            rt.close(), other.close()
    """)
    expected = 0 if closed or what == "ignore" else 2
    assert done.stderr.count("ResourceWarning: a pto.Runtime was") == expected  # one may be collected while the other warns
    assert not expected or "was open at exit" in done.stderr and "rt.close()" in done.stderr


def test_exit_in_a_thread(run_python):
    run_python("""
        import threading, time
        import numpy as np, pto

        @pto.kernel
        def slow(b: pto.InOut[np.ndarray]):
            time.sleep(.01)

        def work():
            rt = pto.Runtime(workers=1)
            for _ in range(100):
                rt.submit(slow, x)
            time.sleep(10)

        x = np.zeros(2)
        threading.Thread(target=work, daemon=True).start()
        time.sleep(.2)
    """)


@pytest.mark.parametrize("call", ["rt.wait()", "rt.sync(x)", "rt.close()", "[rt.submit(slow, x) for _ in range(9000)]", "rt.read(x)"])
@pytest.mark.parametrize("workers", [0, 1])
def test_exit_while_a_daemon_is_in_a_call(run_python, call, workers):
    """The call of the thread ends early, and only then does the runtime."""
    run_python(f"""
        import threading, time
        import numpy as np, pto

        @pto.kernel
        def slow(b: pto.InOut[np.ndarray]):
            started.set()
            time.sleep(.005)

        def work():
            rt = pto.Runtime(workers={workers}, ring_tasks=1024)
            for _ in range(1000):
                rt.submit(slow, x)
            {call}

        x, started = np.zeros(2), threading.Event()
        threading.excepthook = lambda *_: None
        threading.Thread(target=work, daemon=True).start()
        started.wait()
    """)


@pytest.mark.parametrize("allocator", ["debug", "pymalloc"])
def test_exit_while_daemons_drop_their_runtimes(run_python, allocator):
    """The exit closes a runtime, and its thread ends by an exception and drops it meanwhile."""
    run_python("""
        import threading, time, warnings
        import numpy as np, pto
        warnings.simplefilter("ignore")
        threading.excepthook = lambda *_: None

        @pto.kernel
        def slow(b: pto.InOut[np.ndarray]):
            time.sleep(.001)

        def work():
            with pto.Runtime(workers=1, inline_ns=0) as rt:
                while True:
                    rt.submit(slow, x)
                    time.sleep(.0003)

        x = np.zeros(2)
        for _ in range(8):
            threading.Thread(target=work, daemon=True).start()
        time.sleep(.2)
    """, env={**os.environ, "PYTHONMALLOC": allocator})


@pytest.mark.parametrize("allocator", ["debug", "pymalloc"])
def test_exit_with_a_runtime_that_only_its_tasks_have(run_python, allocator):
    """It dies as the exit lets go of what its tasks use."""
    run_python("""
        import gc, time, warnings
        import numpy as np, pto
        warnings.simplefilter("ignore")
        gc.disable()

        @pto.kernel
        def slow(b: pto.InOut[np.ndarray], what):
            time.sleep(.01)

        def leave():
            rt = pto.Runtime(workers=1, inline_ns=0)
            for _ in range(10):
                rt.submit(slow, x, rt)

        x = np.zeros(2)
        for _ in range(5):
            leave()
    """, env={**os.environ, "PYTHONMALLOC": allocator})


def test_a_runtime_after_the_end(run_python):
    """A handler that was registered before the import runs after all runtimes are closed."""
    done = run_python("""
        import atexit

        def late():
            for call in (lambda: pto.Runtime(workers=1), lambda: rt.submit(put, x)):
                try:
                    call()
                    print("no error")
                except (RuntimeError, ValueError) as error:
                    print(error)

        atexit.register(late)
        import numpy as np, pto

        @pto.kernel
        def put(b: pto.Out[np.ndarray]):
            b[...] = 1

        x = np.zeros(2)
        rt = pto.Runtime(workers=1)
    """)
    assert done.stdout == "Runtime: the interpreter is exiting\nsubmit: the runtime is closed\n"


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("ending", ["os._exit(3)", "return", "sys.exit(4)"])
def test_fork_inside_of_a_kernel(run_python, workers, ending):
    """The child may do what it likes, but it does not go on with the tasks of its parent."""
    done = run_python(f"""
        import os, sys
        import numpy as np, pto

        @pto.kernel
        def fork(b: pto.InOut[np.ndarray]):
            pid = os.fork()
            if pid == 0:
                {ending}
            else:
                b[0] = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

        x = np.zeros(2)
        with pto.Runtime(workers={workers}) as rt:
            rt.submit(fork, x)
        print(int(x[0]))
    """)
    assert done.stdout == ("3\n" if "_exit" in ending else "1\n")
    assert ("forked inside of a kernel" in done.stderr) == ("_exit" not in ending)


def test_subinterpreter(run_python):
    done = run_python("""
        import pto
        try:
            import _xxsubinterpreters as interpreters
        except ImportError:
            import _interpreters as interpreters
        other = interpreters.create()
        try:
            interpreters.run_string(other, "import pto")
            print("no error")
        except Exception as error:
            print(error)
    """)
    assert "main interpreter" in done.stdout


@pytest.mark.parametrize("what", ["local.seen = [1]", "local.seen = Late()", "with np.errstate(divide='ignore'): x /= 0.0"])
@pytest.mark.parametrize("allocator", ["debug", "pymalloc"])
def test_a_worker_ends_with_the_state_of_its_thread(run_python, what, allocator):
    """What a kernel has stored for its thread is freed there, under the GIL, and may call back into Python."""
    done = run_python(f"""
        import ctypes, threading, time
        import numpy as np, pto

        called = []
        callback = ctypes.CFUNCTYPE(None)(lambda: called.append(1))

        class Late:
            def __del__(self):
                callback()

        local = threading.local()

        @pto.kernel
        def k(x: pto.InOut[np.ndarray]):
            {what}
            time.sleep(.01)

        x = np.zeros(3)
        with pto.Runtime(workers=2, inline_ns=0) as rt:
            for _ in range(10):
                rt.submit(k, x)
            time.sleep(.05)
        print("fine", len(called) > 0)
    """, env={**os.environ, "PYTHONMALLOC": allocator})
    assert done.stdout == f"fine {'Late' in what}\n"
