"""Memory of other libraries on a GPU, through DLPack. The GPU is a simulated device with streams that is added as nvidia:7,
and the other library is one of this file: it fills its tensors on a stream of its own, late."""

import ctypes
import gc
import time

import numpy as np
import pytest

import pto

SOURCE = r"""
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <pto/dlpack.h>
#include <pto/pto.h>
#include <pto/sim.h>

static pto_device_ops ops;
static void *theirs, *event;   /* stream and event of the producer */
static int freed;
static atomic_bool open_gate;

int setup(void)
{
    pto_device_ops sim;
    pto_sim_config config = {.size = sizeof config, .streams = 3};
    if (pto_sim_configure(6, &config) || pto_device_get((pto_device){PTO_DEVICE_SIM, 6}, &sim) ||
        sim.stream_create(sim.self, &theirs) || sim.stream_create(sim.self, &sim.stream) ||
        sim.event_create(sim.self, &event)) return 1;
    open_gate = true;
    ops = sim;
    ops.copy = NULL; /* they expect tensors of sim:6 */
    ops.fill = NULL;
    pto_device_ops plain = ops;
    plain.streams = 0;
    return pto_device_add((pto_device){PTO_DEVICE_NVIDIA, 7}, &ops) || pto_device_add((pto_device){PTO_DEVICE_NVIDIA, 8}, &plain);
}

void *stream_of_the_device(void) { return ops.stream; }
int freed_so_far(void) { return freed; }
void set_gate(bool is_open) { open_gate = is_open; }

typedef struct work { double *x; int64_t n; double value; int ms; } work;

static void produce(void *args)
{
    const work *w = args;
    do { /* the gate may be closed */
        nanosleep(&(struct timespec){.tv_nsec = w->ms * 1000000L}, NULL);
    } while (!open_gate);
    for (int64_t i = 0; i < w->n; i++) w->x[i] = w->value + i;
}

typedef struct made { pto_dl_versioned v; pto_dl_managed m; int64_t shape[1]; void *memory; int64_t bytes; } made;

static void drop(made *it)
{
    ops.free(ops.self, it->memory, it->bytes);
    freed++;
    free(it);
}
static void drop_old(pto_dl_managed *m) { drop(m->manager); }
static void drop_new(pto_dl_versioned *v) { drop(v->manager); }

made *make(int64_t n, double value, int ms, int flags)
{
    made *it = calloc(1, sizeof *it);
    it->shape[0] = n;
    it->bytes = n * 8;
    if (ops.alloc(ops.self, it->bytes, &it->memory)) return NULL;
    pto_dl_tensor t = {it->memory, {2, 7}, 1, {2, 64, 1}, it->shape, NULL, 0};
    it->m = (pto_dl_managed){t, it, drop_old};
    it->v = (pto_dl_versioned){{1, 0}, it, drop_new, flags, t};
    work w = {(double *)((char *)it->memory + ops.shift), n, value, ms};
    return pto_sim_launch(theirs, produce, &w, sizeof w) ? NULL : it;
}
void *legacy_of(made *it) { return &it->m; }
void *versioned_of(made *it) { return &it->v; }

int order_before(void *stream)
{
    return ops.event_record(ops.self, event, theirs) || ops.event_wait(ops.self, stream, event);
}

/* Kernels. */
typedef struct twice_args { const double *a; double *b; int64_t n; } twice_args;
static void do_twice(void *args)
{
    const twice_args *t = args;
    for (int64_t i = 0; i < t->n; i++) t->b[i] = 2 * t->a[i];
}
int twice_gpu(const double *a, const int64_t *n, const int64_t *as, double *b, const int64_t *bn, const int64_t *bs, void *stream)
{
    twice_args t = {a, b, n[0]};
    return pto_sim_launch(stream, do_twice, &t, sizeof t);
}
pto_status twice_call(const pto_call *call)
{
    twice_args t = {call->args[0].data, call->args[1].data, call->args[0].shape[0]};
    return pto_sim_launch(call->stream, do_twice, &t, sizeof t);
}
void twice(const double *a, const int64_t *n, const int64_t *as, double *b, const int64_t *bn, const int64_t *bs)
{
    twice_args t = {a, b, n[0]};
    do_twice(&t);
}
"""

CPU = "void twice(const double[:], out double[:])"
GPU = "int twice_gpu(const double[:], out double[:], void *stream)"


@pytest.fixture(scope="module")
def gpu(c_library):
    path = c_library(SOURCE)
    library = ctypes.CDLL(path)
    for name in ("stream_of_the_device", "make", "legacy_of", "versioned_of"):
        getattr(library, name).restype = ctypes.c_void_p
    library.make.argtypes = [ctypes.c_int64, ctypes.c_double, ctypes.c_int, ctypes.c_int]
    library.legacy_of.argtypes = library.versioned_of.argtypes = library.order_before.argtypes = [ctypes.c_void_p]
    assert library.setup() == 0
    library.pto = pto.Library(path)
    return library


@pytest.fixture
def twice(gpu):
    return gpu.pto.kernel(CPU).on("nvidia", gpu.pto.kernel(GPU))


new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype = ctypes.py_object
new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Theirs:
    """A tensor of another library: value, value + 1 ... It is there `ms` milliseconds after it is made."""

    def __init__(self, gpu, n=100, value=0.0, ms=0, flags=0, new=True):
        self.gpu, self.new, self.streams = gpu, new, []
        self.made = gpu.make(n, value, ms, flags)
        assert self.made

    def __dlpack_device__(self):
        return 2, 7

    def __dlpack__(self, *, stream=None, max_version=None):
        if max_version is not None and not self.new:
            raise TypeError("__dlpack__() got an unexpected keyword argument 'max_version'")
        self.streams.append(stream)
        assert self.gpu.order_before(stream) == 0
        if self.new:
            return new_capsule(self.gpu.versioned_of(self.made), b"dltensor_versioned", None)
        return new_capsule(self.gpu.legacy_of(self.made), b"dltensor", None)


def count(n, value, by=1.0):
    return [by * (value + i) for i in range(n)]


@pytest.mark.parametrize("new", (False, True))
def test_their_work_comes_first(gpu, twice, new):
    """Nothing waits on the host, and the task still sees what the other library makes."""
    out = np.zeros(100)
    with pto.Runtime(workers=1) as rt, rt.scope():
        b = rt.temp(100, "f8", device="nvidia:7")
        gpu.set_gate(False)
        x = Theirs(gpu, value=5, ms=1, new=new)
        rt.submit(twice, x, b)
        rt.copy(out, b)
        time.sleep(0.05)
        gpu.set_gate(True)  # only now the other library can go on
        rt.sync(out)
    assert out.tolist() == count(100, 5, 2)
    assert x.streams == [gpu.stream_of_the_device()]


def test_built_in(gpu):
    out = np.zeros(100)
    with pto.Runtime(workers=1) as rt:
        rt.copy(out, Theirs(gpu, value=7, ms=50))
        rt.sync(out)
        assert out.tolist() == count(100, 7)
        assert rt.read(Theirs(gpu, value=8, ms=50)).tolist() == count(100, 8)
        x = pto.tensor(Theirs(gpu, value=9))
        rt.fill(x[10:20], 3)
        rt.fill(x[50::2], 4.5)
        want = np.array(count(100, 9))
        want[10:20], want[50::2] = 3, 4.5
        assert rt.read(x).tolist() == want.tolist()
        rt.gather(x[:3], x[50:60], np.array([4, 1, 0]))
        assert rt.read(x[:3]).tolist() == want[[54, 51, 50]].tolist()


def test_made_before(gpu, twice):
    x = pto.tensor(Theirs(gpu, value=3, ms=50))
    assert x.device == "nvidia:7" and x.shape == (100,) and not x.managed
    assert pto.tensor(Theirs(gpu)).overlaps(x) is False and x.overlaps(x[3:4])
    with pytest.raises(TypeError):
        np.asarray(x)
    with pto.Runtime(workers=1) as rt, rt.scope():
        b = rt.empty(50, "f8", device="nvidia:7")
        for _ in range(10):
            rt.submit(twice, x[50:], b)
        assert rt.read(b).tolist() == count(50, 53, 2)


def test_kernel_of_the_header(gpu):
    kernel = gpu.pto.kernel(CPU).on("nvidia", gpu.pto.kernel("in f64[1] a, out f64[1] b", name="twice_call"))
    with pto.Runtime(workers=1) as rt, rt.scope():
        b = rt.temp(100, "f8", device="nvidia:7")
        rt.submit(kernel, Theirs(gpu, value=1, ms=30), b)
        assert rt.read(b).tolist() == count(100, 1, 2)


def test_a_prototype_needs_a_stream(gpu):
    """Without one it could only launch where nothing orders it."""
    with pytest.raises(ValueError, match="stream"):
        gpu.pto.kernel(CPU).on("nvidia", gpu.pto.kernel(CPU))


def test_alive_until_complete(gpu, twice):
    gc.collect()
    before = gpu.freed_so_far()
    with pto.Runtime(workers=1) as rt, rt.scope():
        b = rt.empty(1000, "f8", device="nvidia:7")
        for i in range(10):
            rt.submit(twice, Theirs(gpu, value=i, ms=20), b[i * 100:i * 100 + 100])
        assert gpu.freed_so_far() < before + 10
        assert rt.read(b).tolist() == sum((count(100, i, 2) for i in range(10)), [])
    assert gpu.freed_so_far() == before + 10


def test_outputs(gpu, twice):
    """Tasks write memory of others, in order; rt.sync returns when the GPU is done with it."""
    x = Theirs(gpu, value=1, ms=20)
    keep = pto.tensor(x)
    with pto.Runtime(workers=1) as rt:
        for _ in range(5):
            rt.submit(twice, keep, keep)
        rt.submit(twice, keep[0:50], keep[50:100])
        rt.sync(keep)
        assert rt.read(keep).tolist() == count(50, 1, 32) + count(50, 1, 64)


def test_a_stencil(gpu, twice):
    """Many tasks on three streams, with an arrival before each of them."""
    rng = np.random.default_rng(3)
    with pto.Runtime(workers=1) as rt, rt.scope():
        b, want = rt.empty(400, "f8", device="nvidia:7"), np.zeros(400)
        for v in range(4):
            rt.submit(twice, Theirs(gpu), b[v * 100:v * 100 + 100])
            want[v * 100:v * 100 + 100] = count(100, 0, 2)
        for _ in range(100):
            i, j = rng.integers(0, 300, 2)
            if abs(i - j) < 100 or rng.random() < 0.3:
                rt.submit(twice, Theirs(gpu, value=float(i), ms=int(rng.integers(0, 3))), b[i:i + 100])
                want[i:i + 100] = count(100, float(i), 2)
            else:
                rt.submit(twice, b[i:i + 100], b[j:j + 100])
                want[j:j + 100] = 2 * want[i:i + 100]
        assert rt.read(b).tolist() == want.tolist()
        rt.check()


def test_refused(gpu, twice):
    gc.collect()
    before = gpu.freed_so_far()

    @pto.kernel
    def python(a: pto.In):
        pass

    with pto.Runtime(workers=1) as rt:
        with pytest.raises(pto.Error) as caught:
            rt.submit(python, Theirs(gpu, ms=20))
        assert caught.value.status is pto.Status.NOT_IMPLEMENTED
        here = np.zeros(100)
        with pytest.raises(pto.Error) as caught:
            rt.submit(twice, Theirs(gpu), here)
        assert caught.value.status is pto.Status.DEVICES_DIFFER
        with pytest.raises(ValueError, match="read-only"):
            rt.submit(twice, Theirs(gpu), Theirs(gpu, flags=1))
        with pytest.raises(ValueError, match="copy"):
            rt.submit(twice, Theirs(gpu), Theirs(gpu, flags=2))
        with pytest.raises(TypeError, match="float64"):
            rt.submit(gpu.pto.kernel("void twice(const float[:], out float[:])"), Theirs(gpu), Theirs(gpu))
        rt.wait()

    class Wrong(Theirs):
        def __dlpack_device__(self):
            return 1, 0

        def __dlpack__(self, *, max_version=None):
            return new_capsule(self.gpu.versioned_of(self.made), b"dltensor_versioned", None)

    class Plain(Theirs):
        def __dlpack_device__(self):
            return 2, 8

    for bad, error in ((Wrong(gpu), ValueError), (Plain(gpu), pto.Error)):
        with pytest.raises(error, match="nvidia"):
            pto.tensor(bad)
    gc.collect()
    assert gpu.freed_so_far() == before + 8  # two were never exported


def test_cancelled(gpu, twice):
    x = Theirs(gpu, ms=100)
    with pytest.raises(KeyError):
        with pto.Runtime(workers=1) as rt, rt.scope():
            b = rt.temp(100, "f8", device="nvidia:7")
            rt.submit(twice, x, b)
            raise KeyError
    with pto.Runtime(workers=1) as rt:
        assert rt.read(Theirs(gpu, value=2, ms=1)).tolist() == count(100, 2)
