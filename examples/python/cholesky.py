"""Cholesky factorization of one matrix, tile by tile, in place: A becomes L, with A = L L'.

    ./dev python examples/python/cholesky.py [N] [TILE]

Tiles are slices of ONE matrix. The rows of neighbouring tiles are interleaved in memory; the runtime finds out that
they share no byte. Only the lower triangle is read and written.
"""

import sys
import time

import numpy as np

import pto
from pto import blas


def cholesky(rt, a, tile):
    n = len(a)
    cuts = [slice(i, min(i + tile, n)) for i in range(0, n, tile)]
    view = [[pto.tensor(a)[r, c] for c in cuts] for r in cuts]
    for k in range(len(cuts)):
        rt.submit(blas.potrf, view[k][k])
        for i in range(k + 1, len(cuts)):
            rt.submit(blas.trsm, view[k][k], view[i][k])
        for i in range(k + 1, len(cuts)):
            rt.submit(blas.syrk, view[i][k], view[i][i], -1.0)
            for j in range(k + 1, i):
                rt.submit(blas.gemm, view[i][k], view[j][k].T, view[i][j], -1.0)


def example(n, seed=1):
    a = np.random.default_rng(seed).random((n, n))
    a += a.T
    a[np.diag_indices(n)] += 2 * n
    return a


def measure(a, tile):
    """Factors a and returns the seconds that it took, without starting threads."""
    with pto.Runtime() as rt:
        begin = time.perf_counter()
        cholesky(rt, a, tile)
        rt.wait()
        return time.perf_counter() - begin


if __name__ == "__main__":
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    tile = int(sys.argv[2]) if len(sys.argv) > 2 else 128
    a = example(n)
    want = a.copy()
    seconds = measure(a, tile)
    low = np.tril(a)
    error = np.abs(low @ low.T - want).max() / np.abs(want).max()
    print(f"{n} x {n}: {seconds * 1e3:.1f} ms, {n ** 3 / 3 / seconds * 1e-9:.1f} GFLOP/s, error {error:.1e}")
    sys.exit(int(error > 1e-12))
