"""Heat in a plate: rows of blocks, one task for each block and step.

    ./dev python examples/python/heat.py [SIZE] [STEPS] [--trace run.html]

The tasks of a step read slices that overlap those of their neighbours. Nobody says who waits for whom.
"""

import sys

import numpy as np

import pto


@pto.kernel
def relax(old: pto.In[np.ndarray], new: pto.Out[np.ndarray]):
    """`old` has one row and one column more on each side than `new`."""
    np.add(old[:-2, 1:-1], old[2:, 1:-1], out=new)
    new += old[1:-1, :-2]
    new += old[1:-1, 2:]
    new *= 0.25


def heat(rt, size, steps, rows=128):
    old = np.zeros((size, size))
    old[0] = 100  # one side is hot
    new = old.copy()
    for step in range(steps):
        with rt.range(f"step {step}"):
            for i in range(1, size - 1, rows):
                j = min(i + rows, size - 1)
                rt.submit(relax, old[i - 1:j + 1], new[i:j, 1:-1])
        old, new = new, old
    rt.sync(old)
    return old


def serial(size, steps):
    old = np.zeros((size, size))
    old[0] = 100
    new = old.copy()
    for _ in range(steps):
        relax(old, new[1:-1, 1:-1])
        old, new = new, old
    return old


if __name__ == "__main__":
    arguments = [a for a in sys.argv[1:] if not a.startswith("--") and not a.endswith(".html")]
    size, steps = (int(a) for a in (arguments + ["514", "20"][len(arguments):]))
    with pto.Runtime() as rt:
        if "--trace" in sys.argv:
            rt.trace(sys.argv[sys.argv.index("--trace") + 1])
        plate = heat(rt, size, steps)
        edges = {key: value for key, value in rt.stats().items() if key in ("raw", "war", "waw", "submitted")}
    right = np.array_equal(plate, serial(size, steps))
    print(f"mean {plate.mean():.4f}, {edges}, {'as the serial program' if right else 'WRONG'}")
    sys.exit(not right)
