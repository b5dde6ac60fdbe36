"""Other libraries, where they are installed: tensors of PyTorch, functions of numba."""

import numpy as np
import pytest

import pto
import torch_check


@pytest.mark.parametrize("check", torch_check.CHECKS, ids=lambda check: check.__name__)
def test_torch(check):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    with pto.Runtime(workers=2) as rt:
        skipped = check(rt)
    if skipped:
        pytest.skip(skipped)


def test_numba():
    numba = pytest.importorskip("numba", reason="numba is not installed")
    types = numba.types

    @numba.cfunc(types.void(types.CPointer(types.float64), types.CPointer(types.int64), types.CPointer(types.int64)))
    def twice(data, shape, strides):
        for i in range(shape[0]):
            data[i * strides[0]] *= 2

    kernel = pto.cfunc(twice, "void twice(double[:])")
    x = np.arange(10.0)
    with pto.Runtime(workers=1) as rt:
        rt.submit(kernel, x[::2])
    assert x.tolist() == [0, 1, 4, 3, 8, 5, 12, 7, 16, 9]
