"""Kernels of linear algebra on views of matrices of float32 or float64.

    rt.submit(blas.gemm, a, b, c, alpha, beta)    c = alpha a b + beta c       (alpha = beta = 1)
    rt.submit(blas.syrk, a, c, alpha, beta)       c = alpha a a.T + beta c, lower triangle
    rt.submit(blas.trsm, l, b)                    b = b inv(l).T, with l lower triangular
    rt.submit(blas.potrf, a)                      Cholesky factor of a, in its lower triangle

A matrix needs rows without gaps, or columns; so slices of a matrix and their transposes are fine. What is
written shares no memory with the inputs. The BLAS is that of the environment variable PTO_PYTHON_BLAS, or
OpenBLAS. Tasks are the parallelism: importing this sets its number of threads to 1, in the whole process, and so for
NumPy if that uses the same library.
"""

import ctypes.util
import os

from ._kernel import cfunc
from . import _pto


def _candidates():
    given = os.environ.get("PTO_PYTHON_BLAS")
    if given:
        return [given]
    found = ctypes.util.find_library("openblas")
    return [name for name in (found, "libopenblas.so.0", "libopenblas.so") if name]


def _load():
    why = []
    for name in _candidates():
        try:
            return _pto._blas(name)
        except ImportError as error:
            why.append(str(error))
    raise ImportError("pto.blas needs OpenBLAS (Debian: libopenblas0; or name a library with PTO_PYTHON_BLAS): "
                      + "; ".join(why))


_gemm, _syrk, _trsm, _potrf = _load()
gemm = cfunc(_gemm, "in any[2] a, in any[2] b, inout any[2] c, any ...", name="gemm", type="cube")
syrk = cfunc(_syrk, "in any[2] a, inout any[2] c, any ...", name="syrk", type="cube")
trsm = cfunc(_trsm, "in any[2] l, inout any[2] b", name="trsm", type="cube")
potrf = cfunc(_potrf, "inout any[2] a", name="potrf", type="cube")
__all__ = ["gemm", "potrf", "syrk", "trsm"]
