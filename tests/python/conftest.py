"""Prints each test in the form that cmake/run-test.sh counts, and gives tests what they share."""

import gc
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest


def pytest_runtest_logreport(report):
    name = report.nodeid.split("tests/python/")[-1].replace("::", ".").replace(" ", "_")
    if report.when == "setup":
        print(f"\n[ RUN      ] {name}")
        if report.skipped:
            print(f"[  SKIPPED ] {name}")
        elif report.failed:
            print(f"[  FAILED  ] {name}\n{report.longreprtext}")
    elif report.when == "call":
        print(f"[{'       OK' if report.passed else '  SKIPPED' if report.skipped else '  FAILED '} ] {name}")
        if report.failed:
            print(report.longreprtext)


@pytest.fixture
def rt():
    import pto
    with pto.Runtime(workers=2) as runtime:
        yield runtime
        runtime.clear_error()


@pytest.fixture
def run_python(tmp_path):
    """Runs a program in a process of its own, and returns what it did."""
    def run(text, *arguments, code=0, timeout=300, **options):
        file = tmp_path / "program.py"
        file.write_text(textwrap.dedent(text))
        done = subprocess.run([sys.executable, "-X", "faulthandler", str(file), *arguments], timeout=timeout,
                              capture_output=True, text=True, **options)
        if code is not None:
            assert done.returncode == code, f"status {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done
    return run


@pytest.fixture(scope="session")
def c_library(tmp_path_factory):
    """Compiles C to a shared library, and returns its path. It may call the library that the module uses."""
    def make(text, name="k"):
        folder = tmp_path_factory.mktemp("c")
        source, library = folder / f"{name}.c", folder / f"lib{name}.so"
        source.write_text(text)
        beside = Path(__import__("pto").__file__).parent
        subprocess.run(["gcc", "-O1", "-shared", "-fPIC", f"-I{os.environ.get('PTO_INCLUDE', '')}", str(source), "-o", str(library),
                        *map(str, beside.glob("libpto.so.*")), f"-Wl,-rpath,{beside}"], check=True)
        return library
    return make


@pytest.fixture(autouse=True)
def no_garbage():
    yield
    gc.collect()
