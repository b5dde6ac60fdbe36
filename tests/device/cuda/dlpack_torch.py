"""dlpack_torch.py LIBPTO: tensors of PyTorch on a GPU go to PTO and back through DLPack, without a copy.

Both libraries keep their own stream. Each waits for the other's on the device, never on the host.
"""
import ctypes
import sys

try:
    import torch
    assert torch.cuda.is_available()
except Exception as why:
    print("skipped: no PyTorch with CUDA here:", why)
    sys.exit(0)

pto = ctypes.CDLL(sys.argv[1])
pto.pto_error_detail.restype = ctypes.c_char_p
python = ctypes.pythonapi
python.PyCapsule_GetPointer.restype = ctypes.c_void_p
python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
python.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
python.PyCapsule_New.restype = ctypes.py_object
python.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("index", ctypes.c_int32)]


class Ops(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t)] + [
        (name, ctypes.c_void_p) for name in ("self", "alloc", "free", "copy_in", "copy_out",
                                             "set_current", "synchronize", "stream")] + [
        ("workers", ctypes.c_uint32 * 4), ("shift", ctypes.c_ssize_t)] + [
        (name, ctypes.c_void_p) for name in ("copy", "fill", "begin", "memory", "description")] + [
        ("streams", ctypes.c_uint32)] + [
        (name, ctypes.c_void_p) for name in ("stream_create", "stream_destroy", "event_create",
                                             "event_destroy", "event_record", "event_query",
                                             "event_wait", "share", "unshare", "grid_prepare",
                                             "grid_launch", "grid_ended", "grid_release")]


Tensor = ctypes.c_char * 192


def must(status):
    if status:
        raise SystemExit("status %d: %s" % (status, pto.pto_error_detail().decode()))


def to_pto(tensor):
    """A view of PyTorch's memory, and what keeps that alive."""
    capsule = torch.utils.dlpack.to_dlpack(tensor)
    managed = ctypes.c_void_p(python.PyCapsule_GetPointer(capsule, b"dltensor"))
    view = Tensor()
    must(pto.pto_dlpack_import(managed, view))
    return view, capsule


def to_torch(view):
    managed = ctypes.c_void_p()
    must(pto.pto_dlpack_export(view, None, None, ctypes.byref(managed)))
    return torch.utils.dlpack.from_dlpack(python.PyCapsule_New(managed, b"dltensor", None))


ops = Ops()
must(pto.pto_device_get(Device(1, 0), ctypes.byref(ops)))
ours = torch.cuda.ExternalStream(ops.stream)
theirs = torch.cuda.Stream()
for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int8, torch.float64):
    with torch.cuda.stream(theirs):
        torch.cuda._sleep(20_000_000)  # what follows is not there yet when the host goes on
        source = torch.randint(-100, 100, (64, 300, 200), device="cuda").to(dtype)
        turned = source.permute(2, 0, 1)
        view, keep = to_pto(turned)
        ours.wait_stream(theirs)
        result = Tensor()
        must(pto.pto_rearrange_new(view, result))
        theirs.wait_stream(ours)
        back = to_torch(result)
        assert back.device == source.device and back.dtype == dtype and back.is_contiguous()
        assert torch.equal(back, turned), dtype
        del back
        theirs.synchronize()
        pto.pto_rearrange_free(result)
print("PyTorch and PTO exchange tensors of a GPU")
