"""Memory on devices: the simulated one, and what is refused."""

import numpy as np
import pytest

import pto

SOURCE = """
#include <stdint.h>
void twice(const double *a, const int64_t *n, const int64_t *as, double *b, const int64_t *bn, const int64_t *bs)
{
    for (int64_t i = 0; i < n[0]; i++) b[i * bs[0]] = 2 * a[i * as[0]];
}
void thrice(const double *a, const int64_t *n, const int64_t *as, double *b, const int64_t *bn, const int64_t *bs)
{
    for (int64_t i = 0; i < n[0]; i++) b[i * bs[0]] = 3 * a[i * as[0]];
}
void other(const double *a, const int64_t *n, const int64_t *as) {}
"""


@pytest.fixture
def library(c_library):
    return pto.Library(c_library(SOURCE))


@pto.kernel
def put(b: pto.Out[np.ndarray], value):
    b[...] = value


def declaration(name):
    return f"void {name}(const double[:], out double[:])"


def test_there_and_back(library):
    step = library.kernel(declaration("twice")).on("sim", library.kernel(declaration("thrice")))
    x, y, z = np.arange(1000.0), np.zeros(1000), np.zeros(500)
    with pto.Runtime(workers=1) as rt:
        with rt.scope():
            a, b = rt.temp(1000, "f8", device="sim:0"), rt.empty(1000, device="sim:0")
            assert a.device == b.device == "sim:0" and pto.tensor(x).device == "cpu:0"
            rt.copy(a, x)
            rt.submit(step, a, b)               # where the tensors are
            rt.copy(y, b)
            rt.copy(z, b[::2])
            rt.submit(step, x, x)
            assert rt.read(b).tolist() == (3 * np.arange(1000.0)).tolist()
            rt.sync(x, y, z)
    assert y.tolist() == (3 * np.arange(1000.0)).tolist() and z.tolist() == y[::2].tolist()
    assert x.tolist() == (2 * np.arange(1000.0)).tolist()


def test_the_device_of_a_runtime():
    with pto.Runtime(workers=1, device="sim:1", device_heap_bytes=1 << 20) as rt, rt.scope():
        t = rt.empty((3, 4), "i4")
        assert t.device == "sim:1" and rt.temp(3, device="cpu:0").device == "cpu:0"
        rt.fill(t, 7)
        assert rt.read(t[1:, 2]).tolist() == [7, 7]


def test_refused(library):
    step = library.kernel(declaration("twice"))
    with pto.Runtime(workers=1) as rt, rt.scope():
        t, u = rt.empty(4, device="sim:0"), rt.empty(4, device="sim:0")
        here = np.zeros(4)
        for call, status in ((lambda: rt.submit(put, t, 1), "NOT_IMPLEMENTED"), (lambda: rt.submit(step, t, u), "NOT_IMPLEMENTED"),
                             (lambda: rt.submit(step, t, here), None), (lambda: rt.temp(3, device="nowhere"), "BAD_DEVICE"),
                             (lambda: rt.temp(3, device="sim:99"), "BAD_DEVICE"), (lambda: rt.copy(t, np.zeros(5)), "BAD_SHAPE"),
                             (lambda: pto.Runtime(device="moon"), "BAD_DEVICE")):
            with pytest.raises(pto.Error) as caught:
                call()
            assert status is None or caught.value.status.name == status, caught.value
        for bad in (3, 1.5, b"sim:0"):
            with pytest.raises(TypeError):
                rt.temp(3, device=bad)
        with pytest.raises(TypeError):
            np.asarray(t)
        rt.wait()


def test_variants(library):
    step, sim = library.kernel(declaration("twice")), library.kernel(declaration("thrice"))
    for bad, error in (((3, sim), TypeError), (("sim", 3), TypeError), (("sim", library.kernel("void other(const double[:])")), ValueError),
                       (("cpu", sim), ValueError), (("sim", step), ValueError), (("moon", sim), pto.Error),
                       (("sim", put.__pto_kernel__), ValueError)):
        with pytest.raises(error):
            step.on(*bad)
    assert step.on("sim", sim) is step
    y = np.zeros(3)
    with pto.Runtime(workers=0) as rt:
        rt.submit(step, np.ones(3), y)
    with pytest.raises(RuntimeError, match="before"):
        step.on("sim", sim)


class OnGpu:
    """Like a tensor of PyTorch on a GPU that is not here."""

    def __init__(self, device=(2, 0)):
        self.device = device

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, stream=None):
        raise AssertionError("it was exported, although it cannot be used")


def test_memory_of_a_gpu(rt):
    for index in (63, 64, -1, 2 ** 31 - 1):
        for call in (lambda x: rt.submit(put, x, 1), lambda x: rt.fill(x, 1), pto.tensor, rt.read, rt.sync):
            with pytest.raises(pto.Error, match="nvidia|index") as caught:
                call(OnGpu((2, index)))
            assert caught.value.status is pto.Status.BAD_DEVICE
    for bad in ((10, 3), (-1, 0)):
        with pytest.raises(ValueError, match=r"device.*\.cpu\(\)"):
            rt.submit(put, OnGpu(bad), 1)
    for bad in (3, None, ("a", 1), (1,), (2 ** 40, 0)):
        with pytest.raises((TypeError, OverflowError, ValueError)):
            rt.submit(put, OnGpu(bad), 1)
    rt.wait()
