"""The wheel: it works on a machine without the sources, and it keeps to the stable interface."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def wheel():
    found = sorted(Path(os.environ.get("PTO_WHEEL", "/none")).glob("*.whl"))
    if not found:
        pytest.skip("no wheel")
    return found[-1]


def test_wheel(wheel, tmp_path):
    assert "-cp311-abi3-" in wheel.name
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        archive.extractall(tmp_path)
    for needed in ("pto/__init__.py", "pto/__init__.pyi", "pto/py.typed", "pto/_pto.abi3.so", "pto/libpto.so.0.1", "pto/blas.py"):
        assert needed in names
    for file in tmp_path.glob("pto/*.so*"):
        file.chmod(0o755)
    program = """
import sys, pto, array
@pto.kernel
def f(b: pto.Out):
    b[0] = 5
x = array.array("i", [0])
with pto.Runtime(workers=1) as rt:
    rt.submit(f, x)
maps = open("/proc/self/maps").read()
assert sys.argv[1] + "/pto/libpto.so.0.1" in maps, maps
print(pto.__file__, x[0])
"""
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "LD_LIBRARY_PATH")}
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], cwd=tmp_path, env={**environment, "PYTHONPATH": str(tmp_path)},
                          capture_output=True, text=True)
    assert done.returncode == 0 and str(tmp_path) in done.stdout and done.stdout.split()[-1] == "5", done.stdout + done.stderr


def test_only_the_stable_interface():
    """Every symbol of Python that the module uses belongs to the stable ABI of 3.11."""
    import pto._pto
    done = subprocess.run(["nm", "-D", "--undefined-only", pto._pto.__file__], capture_output=True, text=True)
    if done.returncode:
        pytest.skip("no nm")
    used = {line.split()[-1].split("@")[0] for line in done.stdout.splitlines()}
    used = {name for name in used if name.startswith(("Py", "_Py"))}
    assert len(used) > 50
    private = {name for name in used if name.startswith("_Py") and not name.endswith("_SizeT")} - {"_Py_Dealloc", "_Py_NoneStruct", "_Py_TrueStruct",
                                                                   "_Py_FalseStruct", "_Py_EllipsisObject", "_PyObject_New",
                                                                   "_PyObject_GC_New"}
    assert not private
    assert not used & {"PyObject_Vectorcall", "PyFrame_GetLasti", "PyUnicode_AsUTF8", "PyThreadState_DeleteCurrent"}
