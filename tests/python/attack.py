"""attack.py SEED - random calls with random objects, most of them wrong: errors, never a crash."""

import array
import gc
import random
import sys
import warnings

import numpy as np

import pto

rng = random.Random(int(sys.argv[1]))
warnings.simplefilter("ignore")
base = np.zeros((50, 50))
objects = np.array([{}, 1], dtype=object)
kept, made = [], []
rt = None


@pto.kernel
def add(a: pto.In[np.ndarray], b: pto.InOut[np.ndarray], *rest: pto.In[np.ndarray]):
    b += a.sum()


@pto.kernel
def put(b: pto.Out[np.ndarray], value=None):
    b[...] = 1


@pto.kernel
def fail(b: pto.InOut[np.ndarray]):
    raise rng.choice([ValueError, KeyError, BaseException, MemoryError])("x")


@pto.kernel
def keep(b: pto.InOut[np.ndarray]):
    kept.append(b)


@pto.kernel
def recurse(b: pto.InOut[np.ndarray]):
    try:
        rt.submit(put, b)
    except pto.Error:
        pass
    gc.collect()


def managed():
    if made and rng.random() < .3:
        return rng.choice(made)  # its scope may have ended
    made.append(rng.choice([rt.temp, rt.empty])((rng.randrange(6), rng.randrange(1, 6)), rng.choice(["f8", "i4", "f4"])))
    return made[-1]


def thing():
    i, j = sorted(rng.sample(range(50), 2))
    return rng.choice([
        lambda: base[i:j], lambda: base[:, i:j].T, lambda: base[::-1, ::2], lambda: base[base > 0], lambda: objects,
        lambda: None, lambda: 3, lambda: "s" * rng.randrange(100000), lambda: np.float32(2), lambda: bytearray(20),
        lambda: b"abc", lambda: memoryview(bytearray(8)).cast("d"), lambda: array.array("i", [1, 2]),
        lambda: pto.tensor(base[i:j]), lambda: np.zeros((0, 3)), lambda: np.broadcast_to(np.zeros(1), (10, 10)),
        lambda: np.lib.stride_tricks.as_strided(base, (20, 20), (8, 8)), lambda: np.zeros(3, ">i4"),
        lambda: np.zeros((1,) * 10), lambda: [1, [2]], object, lambda: rt, lambda: put, managed,
        lambda: np.zeros(5, "f2"), lambda: float("nan"), lambda: 10 ** 30, lambda: np.zeros(4, [("a", "u1"), ("b", "f8")])["b"],
    ])()


def call():
    choice = rng.randrange(20)
    if choice < 10:
        rt.submit(rng.choice([add, put, fail, keep, recurse, add, put]), *[thing() for _ in range(rng.randrange(4))])
    elif choice == 10:
        rt.wait()
    elif choice == 11:
        rt.sync(thing())
    elif choice == 12:
        rt.read(thing())
    elif choice == 13:
        rt.fill(thing(), thing())
    elif choice == 14:
        rt.rearrange(thing(), thing())
    elif choice == 15:
        rt.clear_error()
    elif choice == 16:
        with rt.scope():
            attack(5)
    elif choice == 17:
        rng.choice([rt.gather, rt.scatter])(thing(), thing(), thing())
    elif choice == 18:
        kept.clear()
    else:
        rt.submit(thing(), thing())


def attack(n):
    for _ in range(n):
        try:
            call()
        except (pto.Error, TypeError, ValueError, IndexError, OverflowError, BufferError, AttributeError):
            pass


for _ in range(4):
    rt = pto.Runtime(workers=rng.randrange(3), ring_tasks=rng.choice([16, 64, 1024]), guard=rng.randrange(2),
                     heap_bytes=1 << 20, explain=bool(rng.randrange(2)))
    with rt.boundary():
        attack(400)
    try:
        rt.close()
    except pto.Error:
        pass
    rt.close(cancel=True)
    made.clear()
    for view in kept:
        view.sum()
print("survived")
