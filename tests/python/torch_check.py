"""torch_check.py - tensors of PyTorch as arguments. Runs without pytest:

    PYTHONPATH=FOLDER python3 tests/python/torch_check.py        FOLDER: the wheel, unpacked. For the checks of a GPU
                                                                 it must contain libpto-cuda.so

test_libraries.py runs the same checks where PyTorch is installed. The checks of a GPU are skipped without one.
"""

import sys

import pto

try:
    import torch
except ImportError:
    torch = None


@pto.kernel
def add(a: pto.In, b: pto.InOut):
    import numpy as np
    np.asarray(b)[...] += np.asarray(a)


def raised(call, *kinds):
    """The exception of a call, which must be of one of these kinds."""
    try:
        call()
    except kinds as error:
        return str(error)
    raise AssertionError("no error")


def check_order(rt):
    """Slices of tensors are ordered by the bytes that they share, as those of arrays."""
    x, y = torch.arange(1000, dtype=torch.float64), torch.zeros(1000, dtype=torch.float64)
    a, b = x.clone(), y.clone()
    for i in range(200):
        j = i * 37 % 900
        rt.submit(add, x[j:j + 100], y[j:j + 100])
        rt.submit(add, y[j:j + 50], x[j + 25:j + 75])
        b[j:j + 100] += a[j:j + 100]
        a[j + 25:j + 75] += b[j:j + 50]
    rt.sync(x, y)
    assert torch.equal(x, a) and torch.equal(y, b)


def check_layouts(rt):
    x = torch.zeros(6, 8)
    rt.submit(add, torch.ones(8, 6).T, x)
    rt.submit(add, torch.ones(3, 4), x[::2, ::2])
    rt.submit(add, torch.ones(()), x[1, 1])
    rt.submit(add, torch.ones(0, 3), torch.zeros(0, 3))
    rt.sync(x)
    want = torch.ones(6, 8)
    want[::2, ::2] += 1
    want[1, 1] += 1
    assert torch.equal(x, want)
    assert torch.equal(torch.tensor(rt.read(x).tolist()), want)  # an ndarray, or a memoryview without NumPy


def check_types(rt):
    for dtype in (torch.float32, torch.float64, torch.float16, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8):
        x = torch.zeros(4, dtype=dtype)
        rt.submit(add, torch.ones(4, dtype=dtype), x)
        rt.sync(x)
        assert x.tolist() == [1] * 4, dtype
    half = torch.full((4,), 2.0, dtype=torch.bfloat16)
    rt.rearrange(half[:2], half[2:])
    rt.sync(half)


def check_life(rt):
    """A tensor lives until its tasks are complete."""
    total = torch.zeros(1000)
    for _ in range(100):
        rt.submit(add, torch.ones(1000), total)
    rt.sync(total)
    assert total.tolist() == [100] * 1000


def check_refused(rt):
    raised(lambda: rt.submit(add, torch.ones(2), torch.ones(2, requires_grad=True)), BufferError, RuntimeError, pto.Error)
    raised(lambda: rt.submit(add, torch.ones(2), torch.ones(2, dtype=torch.complex128)), pto.Error, BufferError, TypeError, ValueError)
    raised(lambda: rt.submit(add, torch.ones(2), torch.ones(2).to_sparse()), BufferError, RuntimeError, pto.Error, TypeError)
    raised(lambda: rt.submit(add, torch.ones(2), torch.ones(2, device="meta")), BufferError, RuntimeError, pto.Error, ValueError, TypeError)


# ---- on a GPU ----

def on_gpu(check):
    def checked(rt):
        return check(rt) if torch.cuda.is_available() else "there is no GPU"
    checked.__name__ = check.__name__
    return checked


def late():
    """A stream of PyTorch on which nothing happens for some milliseconds: what follows is there later."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)
    return torch.cuda.stream(stream)


def driver():
    """Functions of the driver as kernels: they launch on the stream of their task."""
    library = pto.Library("libcuda.so.1")

    def kernel(text):
        return library.kernel(text).on("nvidia", library.kernel(text))
    return (kernel("int cuMemsetD32Async(out int32_t *x, uint32_t value, size_t n, void *stream)"),
            kernel("int cuMemcpyDtoDAsync_v2(out int32_t *to, const int32_t *from, size_t bytes, void *stream)"))


@on_gpu
def check_pinned(rt):
    pinned = torch.zeros(100).pin_memory()
    rt.submit(add, torch.ones(100), pinned)
    rt.sync(pinned)
    assert pinned.tolist() == [1] * 100 and pinned.cuda().cpu().tolist() == [1] * 100


@on_gpu
def check_gpu_operators(rt):
    """What PyTorch has not made yet is read when it is there, and PyTorch finds what tasks have written."""
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int8, torch.float64):
        with late():
            x = torch.randint(-100, 100, (64, 300, 200), device="cuda").to(dtype)
            y = torch.empty(200, 64, 300, device="cuda", dtype=dtype)
            rt.rearrange(y, x.permute(2, 0, 1))
            rt.sync(y)
            assert torch.equal(y, x.permute(2, 0, 1)), dtype
            rt.fill(y[10:20], 3)
            rt.sync(y)
            x = x.permute(2, 0, 1).contiguous()
            x[10:20] = 3
            assert torch.equal(y, x), dtype


@on_gpu
def check_gpu_copies(rt):
    with late():
        x = torch.arange(100_000, dtype=torch.float64, device="cuda")
        host = torch.zeros(100_000, dtype=torch.float64)
        rt.copy(host, x)
        rt.sync(host)
        assert torch.equal(host, x.cpu())
    with late():
        x = torch.arange(100_000, dtype=torch.float64, device="cuda") * 2
        assert torch.equal(torch.tensor(rt.read(x).tolist(), dtype=torch.float64), x.cpu())
    with late():
        x = torch.arange(100_000, dtype=torch.float64, device="cuda") * 3
        made = pto.tensor(x)
        assert made.device == "nvidia:0" and torch.equal(torch.tensor(rt.read(made[::2]).tolist(), dtype=torch.float64), x[::2].cpu())


@on_gpu
def check_gpu_kernels(rt):
    """A chain of C functions over memory of PyTorch and of the runtime, ordered on the GPU."""
    fill, copy = driver()
    n = 1 << 20
    with late(), rt.scope():
        x, y = torch.full((n,), 7, dtype=torch.int32, device="cuda"), torch.zeros(n, dtype=torch.int32, device="cuda")
        t = rt.temp(n, "i4", device="nvidia:0")
        rt.submit(copy, t, x, 4 * n)
        rt.submit(fill, x[:n // 2], 9, n // 2)
        rt.submit(copy, y, t, 4 * n)
        rt.submit(copy, y[:100], x[:100], 400)
        rt.sync(x, y)
        want = torch.full((n,), 7, dtype=torch.int32, device="cuda")
        want[:100] = 9
        assert torch.equal(y, want)
        want[:n // 2] = 9
        assert torch.equal(x, want)


@on_gpu
def check_gpu_life(rt):
    """PyTorch uses the memory of a tensor again as soon as it is given back: not before its tasks are complete."""
    _, copy = driver()
    n, steps = 1 << 18, 400
    y = torch.zeros(steps, n, dtype=torch.int32, device="cuda")
    rows = [pto.tensor(y[i]) for i in range(steps)]
    with late():
        for i in range(steps):
            x = torch.full((n,), i, dtype=torch.int32, device="cuda")
            rt.submit(copy, rows[i], x, 4 * n)
            del x
        rt.wait()
        assert torch.equal(y, torch.arange(steps, dtype=torch.int32, device="cuda")[:, None].expand(steps, n))


@on_gpu
def check_gpu_refused(rt):
    _, copy = driver()
    x = torch.zeros(4, dtype=torch.int32, device="cuda")
    for call in (lambda: rt.submit(add, x, x), lambda: rt.submit(copy, x, torch.zeros(4, dtype=torch.int32), 16),
                 lambda: rt.rearrange(x, torch.zeros(4, dtype=torch.int32))):
        raised(call, pto.Error)
    raised(lambda: rt.submit(copy, x[::2], x[:2], 8), ValueError)
    rt.wait()


CHECKS = [check_order, check_layouts, check_types, check_life, check_refused, check_pinned, check_gpu_operators, check_gpu_copies,
          check_gpu_kernels, check_gpu_life, check_gpu_refused]


def main():
    if torch is None:
        print("skipped: PyTorch is not installed")
        return 0
    import traceback
    failed = 0
    for check in CHECKS:
        try:
            with pto.Runtime(workers=2) as rt:
                skipped = check(rt)
            print(f"{check.__name__}: {'skipped: ' + skipped if skipped else 'ok'}")
        except Exception:
            failed += 1
            print(f"{check.__name__}: FAILED")
            traceback.print_exc()
    print(f"torch {torch.__version__}: {len(CHECKS) - failed} of {len(CHECKS)} passed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
