"""Counts references in a debug interpreter: no call may leave one behind.

The module must be built with the headers of the debug interpreter: otherwise its references are not counted.
"""

import array
import ctypes
import gc
import sys

import pto


@pto.kernel
def f(a: pto.In, b: pto.Out, o):
    b[0] = a[0]


@pto.kernel
def g(a: pto.In):
    raise ValueError("no")


x, y = array.array("d", [1] * 8), array.array("d", [0] * 8)
nothing = pto.cfunc(ctypes.CFUNCTYPE(None)(lambda: None), "void nothing()")
rt = pto.Runtime(workers=1, explain=True)


def submit():
    before = rt.submit(f, y, x, None)
    task = rt.submit(f, x, y, "text", label="a label", after=before)
    rt.submit(nothing)
    rt.wait(task)
    repr(task), task.kernel, task.file, task.line, pto.explain(before, task), pto.explain(before, rt.fill(y, 3))


def views():
    t = pto.tensor(memoryview(x)[1:3])
    rt.submit(f, t[0:2], pto.tensor(y).reshape(2, 4).T[1], 3)
    t.shape, t.dtype, repr(t), t.overlaps(y)


def refused():
    for arguments in ((f, x), (f, x, b"abc", 3), (f, x, 3, 3), (f, x, y, x), (3,), (f, x, y, 3, 4)):
        try:
            rt.submit(*arguments)
        except (TypeError, ValueError):
            pass
    try:
        rt.temp(3)
    except pto.Error:
        pass


def managed():
    with rt.scope(), rt.range("a phase"):
        t = rt.temp(4, "d")
        rt.submit(f, x, t, None)
        rt.read(t)
    with rt.boundary():
        rt.release(rt.empty((2, 2)))


def builtin():
    rt.fill(y, 3)
    rt.copy(x, y)
    rt.rearrange(x, y)
    rt.sync(x, y)
    rt.read(y)
    rt.stats()


def failed():
    rt.submit(g, x)
    try:
        rt.wait()
    except pto.Error:
        pass
    rt.clear_error()


def devices():
    with rt.scope():
        t = rt.empty(8, "d", device="sim:0")
        rt.copy(t, x)
        rt.copy(y, t)
        rt.sync(y)
        t.device
    try:
        rt.submit(nothing.on("sim", nothing))
    except ValueError:
        pass


class Managed(ctypes.Structure):
    """DLManagedTensor over y."""
    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("ndim", ctypes.c_int32), ("dtype", ctypes.c_uint8 * 4),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.c_void_p), ("byte_offset", ctypes.c_uint64),
                ("manager", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


eight = (ctypes.c_int64 * 1)(8)
managed_y = Managed(y.buffer_info()[0], (1, 0), 1, (2, 64, 1, 0), eight)
new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype, new_capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Theirs:
    """A tensor of another library."""

    def __init__(self, *device):
        self.device = device

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self):
        return new_capsule(ctypes.addressof(managed_y), b"dltensor", None)


def dlpack():
    rt.submit(f, x, Theirs(1, 0), None)
    rt.sync(Theirs(1, 0))
    pto.tensor(Theirs(3, 0))[2:3]
    for device in ((2, 63), (7, 0), (), "ab"):
        try:
            rt.submit(f, x, Theirs(*device), None)
        except (pto.Error, ValueError, TypeError):
            pass


def kernels():
    k = pto.kernel(lambda: None, name="new")
    rt2 = pto.Runtime(workers=1)
    rt2.submit(k)
    rt2.close()


bad = 0
for call in (submit, views, refused, managed, builtin, failed, devices, dlpack, kernels):
    times = 10 if call is kernels else 100
    for _ in range(20):
        call()
    rt.wait()
    gc.collect()
    before = sys.gettotalrefcount()
    for _ in range(times):
        call()
    rt.wait()
    gc.collect()
    grown = (sys.gettotalrefcount() - before) / times
    bad += grown > .5
    print(f"{call.__name__:10} {grown:6.2f} references a call")
rt.close()
sys.exit(bad != 0)
