#!/usr/bin/python3
"""numpy_copy.py BYTES - NumPy's side of bench_rearrange, which starts it and talks to it in lines.

Says "ready VERSION", then answers each line "DTYPE SHAPE PERM CALLS" ("float32 4096,4096 1,0 3")
with the nanoseconds that one np.copyto(dense, source.transpose(PERM)) took, the mean of CALLS. Both
arrays are made before the clock starts, in BYTES of memory each that all questions share. Ends with
its input, or with status 3 if there is no NumPy.
"""
import gc
import itertools
import mmap
import sys
import time

try:
    import numpy as np
except ImportError:
    sys.exit(3)

HUGE_PAGE = 2 << 20


def memory(size):
    """`size` bytes that were touched, in huge pages where the system gives them."""
    pages = mmap.mmap(-1, size + HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    try:
        pages.madvise(mmap.MADV_HUGEPAGE)
    except (AttributeError, OSError):
        pass
    array = np.frombuffer(pages, np.uint8)
    start = -array.ctypes.data % HUGE_PAGE
    array = array[start : start + size]
    array[:] = 1
    return array


def numbers(text):
    return tuple(int(word) for word in text.split(","))


def array_in(space, dtype, shape):
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return space[:size].view(dtype).reshape(shape)


def timed(dense, permuted, calls):
    copyto = np.copyto
    start = time.perf_counter_ns()
    for _ in itertools.repeat(None, calls):
        copyto(dense, permuted)
    return (time.perf_counter_ns() - start) / calls


def main():
    source_space, dense_space = memory(int(sys.argv[1])), memory(int(sys.argv[1]))
    gc.disable()
    print("ready", np.__version__, flush=True)
    for line in sys.stdin:
        dtype, shape, perm, calls = line.split()
        permuted = array_in(source_space, dtype, numbers(shape)).transpose(numbers(perm))
        dense = array_in(dense_space, dtype, permuted.shape)
        print(timed(dense, permuted, int(calls)), flush=True)


main()
