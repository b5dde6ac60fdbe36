"""The Python package: what a submit costs, peers on the same tasks, and a blocked Cholesky.

Figures are ratios in one run, in which all take turns in many short rounds. What a submit costs is processor time, and
the fastest round counts, since all that disturbs one makes it longer: that figure is the same on a busy machine. The
others are medians. P1: two shared inputs and one output of 64; P3: a stencil, 64 wide, three reads, double buffered.
Peers get one future or delayed call for each task, with the same empty Python callable. For P3 they get the
dependencies from the program, as they find none themselves.
"""

import argparse
import concurrent.futures
import ctypes
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import pto

PARTS = ("submit", "tasks", "cholesky")
options = argparse.ArgumentParser(prog="./dev bench python", description=__doc__)
options.add_argument("root", type=Path, help=argparse.SUPPRESS)
options.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; all of them by default")
options.add_argument("--quick", action="store_true", help="fewer rounds, and a smaller matrix")
options = options.parse_args()
for part in options.parts:
    if part not in PARTS:
        sys.exit(f"there is no part {part!r}: the parts are {', '.join(PARTS)}")
root, quick = options.root, options.quick
WIDTH = 64
short = False


def bar(name, figure, want, ok):
    global short
    short |= not ok
    print(f"BAR {name}: {figure} (want {want}) {'ok' if ok else 'short'}")


def compile_c():
    folder = tempfile.mkdtemp()
    library = f"{folder}/libbaseline.so"
    where = str(Path(pto.__file__).parent)
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-I", str(root / "include"), str(root / "bench/python/baseline.c"),
                    "-o", library, f"-L{where}", "-l:libpto.so.0.1", f"-Wl,-rpath,{where}"], check=True)
    return library


library = compile_c()
baseline = ctypes.CDLL(library).independent
baseline.restype = ctypes.c_double
baseline.argtypes = [ctypes.c_long, ctypes.c_int]
nothing = pto.Library(library).kernel("void nothing(const double[:], const double[:], out double[:])")


@pto.kernel
def empty(a: pto.In[np.ndarray], b: pto.In[np.ndarray], c: pto.Out[np.ndarray]):
    pass


@pto.kernel
def empty4(a: pto.In[np.ndarray], b: pto.In[np.ndarray], c: pto.In[np.ndarray], d: pto.Out[np.ndarray]):
    pass


stencil_c = pto.cfunc(ctypes.CDLL(library).nothing, "void nothing(const double*, const double*, const double*, out double*)")

a, b, c = np.zeros(WIDTH), np.zeros(WIDTH), np.zeros((WIDTH, WIDTH))
tiles = [c[i] for i in range(WIDTH)]
tensors = [pto.tensor(t) for t in tiles]
ta, tb = pto.tensor(a), pto.tensor(b)
x = [[np.zeros(8) for _ in range(WIDTH)] for _ in range(2)]


def nanoseconds(function, n, first=0, clock=time.perf_counter_ns):
    """For each of n, after `first` others that are not counted."""
    if first:
        function(first)
    begin = clock()
    function(n)
    return (clock() - begin) / n


def processor(function, n):
    return nanoseconds(function, n, 1000, time.thread_time_ns)


def slicing(n):
    """What Python itself takes for the three slices."""
    flat = c.reshape(-1)
    for i in range(n):
        j = (i & 63) * 64
        (a[0:64], b[0:64], flat[j:j + 64])


# ---- what a submit costs ----

def fresh_slices(rt):
    flat = c.reshape(-1)

    def run(n):
        for i in range(n):
            j = (i & 63) * 64
            rt.submit(nothing, a[0:64], b[0:64], flat[j:j + 64])
        rt.wait()
    return run


def made_before(rt):
    def run(n):
        for i in range(n):
            rt.submit(nothing, ta, tb, tensors[i & 63])
        rt.wait()
    return run


# ---- patterns ----

def ours_p1(rt, kernel):
    def run(n):
        for i in range(n):
            rt.submit(kernel, a, b, tiles[i & 63])
        rt.wait()
    return run


def ours_p3(rt, kernel):
    def run(n):
        old, new = x
        for _ in range(n // WIDTH):
            for i in range(WIDTH):
                rt.submit(kernel, old[i - 1], old[i], old[(i + 1) % WIDTH], new[i])
            old, new = new, old
        rt.wait()
    return run


def futures_p1(n):
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for future in [pool.submit(empty, a, b, tiles[i & 63]) for i in range(n)]:
            future.result()


def futures_p3(n):
    """A step at a time: futures know no dependencies."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        old, new = x
        for _ in range(n // WIDTH):
            for future in [pool.submit(empty4, old[i - 1], old[i], old[(i + 1) % WIDTH], new[i]) for i in range(WIDTH)]:
                future.result()
            old, new = new, old


def dask_p1(n):
    import dask.threaded
    graph = {("t", i): (empty, a, b, tiles[i & 63]) for i in range(n)}
    dask.threaded.get(graph, list(graph), num_workers=os.cpu_count())


def dask_p3(n):
    import dask.threaded

    def task(*_):
        pass

    graph = {}
    for step in range(n // WIDTH):
        for i in range(WIDTH):
            before = [(step - 1, (i + d) % WIDTH) for d in (-1, 0, 1)] if step else []
            graph[step, i] = (task, *before)
    last = n // WIDTH - 1
    dask.threaded.get(graph, [(last, i) for i in range(WIDTH)], num_workers=os.cpu_count())


def choose(runs, rounds, of):
    """runs: name -> function that returns a figure. They take turns."""
    seen = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            seen[name].append(run())
    return {name: of(v) for name, v in seen.items()}


def medians(runs, rounds):
    return choose(runs, rounds, statistics.median)


def fastest(runs, rounds):
    """Of each the figure that one round in fifty beats."""
    return choose(runs, rounds, lambda seen: sorted(seen)[len(seen) // 50])


def submit():
    n = 2000
    print("a submit, in ns, on one thread (submit to complete, empty kernel, three arrays of 64)")
    with pto.Runtime(workers=0) as rt:
        runs = {"C": lambda: baseline(10 * n, 0), "Python, fresh slices": lambda: processor(fresh_slices(rt), n),
                "Python, tensors made before": lambda: processor(made_before(rt), n),
                "the slicing alone": lambda: processor(slicing, n)}
        figures = fastest(runs, 100 if quick else 400)
    for name, figure in figures.items():
        print(f"  {name:30} {figure:8.0f}   {figure / figures['C']:6.1f}x")
    bar("submit with fresh slices", f"{figures['Python, fresh slices'] / figures['C']:.1f}x C", "<= 10x",
        figures["Python, fresh slices"] <= 10 * figures["C"])
    bar("submit with tensors made before", f"{figures['Python, tensors made before'] / figures['C']:.1f}x C", "<= 4x",
        figures["Python, tensors made before"] <= 4 * figures["C"])


def tasks():
    print("tasks/s, empty Python callable (and an empty C kernel), default configuration")
    try:
        import dask.threaded  # noqa: F401
        peers = {"dask": (dask_p1, dask_p3, 100)}
    except ImportError:
        print("  dask is not here (Debian: python3-dask)")
        peers = {}
    peers["concurrent.futures"] = (futures_p1, futures_p3, 10)
    with pto.Runtime() as rt:
        for p, (mine, kernel, c_kernel) in enumerate(((ours_p1, empty, nothing), (ours_p3, empty4, stencil_c))):
            pattern = ("P1 independent", "P3 stencil")[p]
            runs = {"pto": lambda: nanoseconds(mine(rt, kernel), 4096), "pto, C kernel": lambda: nanoseconds(mine(rt, c_kernel), 4096)}
            for name, both in peers.items():
                runs[name] = lambda f=both[p]: nanoseconds(f, 16 * WIDTH)
            for run in runs.values():
                run()
            figures = medians(runs, 10 if quick else 40)
            for name, figure in figures.items():
                print(f"  {pattern:15} {name:20} {1e9 / figure:12,.0f}   {figures[name] / figures['pto']:8.1f}x the time of pto")
            for name, (_, _, want) in peers.items():
                ratio = figures[name] / figures["pto"]
                bar(f"{pattern} against {name}", f"{ratio:.0f}x", f">= {want}x", ratio >= want)


def cholesky():
    sys.path.insert(0, str(root / "examples/python"))
    try:
        import cholesky as example
        from pto import blas  # noqa: F401
    except ImportError as error:
        print(f"Cholesky: skipped: {error}")
        return
    n, tile = (1536, 256) if quick else (6000, 200)
    tool = root / "build/release/tools/pto"

    def by_tool():
        done = subprocess.run([str(tool), "run", "cholesky", "--n", str(n), "--tile", str(tile), "--no-check",
                               "--no-profile"], capture_output=True,
                              text=True, check=True).stdout
        return seconds_of(done)

    # Rounds in pairs that take turns in who goes first, and the median of their ratios.
    matrix = example.example(n)
    work = np.empty_like(matrix)

    def by_python():
        work[:] = matrix
        return example.measure(work, tile)

    by_python()  # the pages of `work` and the buffers of BLAS are there
    seen = {"pto run cholesky": [], "Python": []}
    runs = [("pto run cholesky", by_tool), ("Python", by_python)]
    for turn in range(4 if quick else 20):
        for name, run in runs if turn % 2 else runs[::-1]:
            seen[name].append(run())
    for name, seconds in seen.items():
        print(f"  Cholesky of {n} x {n}, tiles of {tile}: {name:20} {statistics.median(seconds):8.3f} s"
              f"   (fastest {min(seconds):.3f})")
    ratio = statistics.median(mine / theirs for theirs, mine in zip(*seen.values()))
    bar("Cholesky against pto run cholesky", f"{ratio:.2f}x the time", "<= 1.05x", ratio <= 1.05)


def seconds_of(text):
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["time"]:
            return float(words[1]) * {"ms": 1e-3, "s": 1, "us": 1e-6}[words[2]]
    raise ValueError(f"no time in {text!r}")


if __name__ == "__main__":
    for part in options.parts or PARTS:
        globals()[part]()
    sys.exit(int(short))
