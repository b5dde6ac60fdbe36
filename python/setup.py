"""Builds the package pto. `./dev python` calls it, with these variables:

PTO_LIBRARY_DIR   folder of libpto.so (default: that of the release build, or the system's)
PTO_BUNDLE        1: the package contains libpto.so, and libpto-cuda.so if it is there, and works on a machine without them
PTO_SANITIZE      sanitizers of that library, for tests
"""

import os
import re
import shutil
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from wheel.bdist_wheel import bdist_wheel

here = Path(__file__).resolve().parent
include = here.parent / "include"
header = (include / "pto" / "status.h").read_text()
version = re.search(r'#define PTO_VERSION "([0-9.]+)"', header).group(1)
major, minor, _ = version.split(".")
soname = f"libpto.so.{major}.{minor}" if major == "0" else f"libpto.so.{major}"
libraries = os.environ.get("PTO_LIBRARY_DIR", str(here.parent / "build" / "release"))
bundle = os.environ.get("PTO_BUNDLE") == "1"
sanitize = os.environ.get("PTO_SANITIZE")
flags = ["-std=gnu11", "-Wall", "-Wextra", "-Wshadow", "-Wundef", "-Wconversion", "-Werror", "-fvisibility=hidden", "-O2", "-fno-plt",
         "-fno-stack-protector",
         "-fno-tree-slp-vectorize"]  # a load of two words that were stored one by one has to wait for both stores
if sanitize:
    flags += [f"-fsanitize={sanitize}", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-O1", "-g"]


class Build(build_ext):
    """Also copies the library beside the module."""

    def run(self):
        super().run()
        if bundle:
            folder = (here / "pto") if self.inplace else Path(self.build_lib) / "pto"
            shutil.copy2(Path(libraries) / soname, folder / soname)
            gpus = Path(libraries) / "libpto-cuda.so"  # found beside libpto.so when a GPU is first asked for
            if gpus.exists() and not sanitize:
                shutil.copy2(gpus, folder / gpus.name)


class Wheel(bdist_wheel):
    """One wheel for every CPython from 3.11 on."""

    def finalize_options(self):
        super().finalize_options()
        self.py_limited_api = "cp311"


setup(
    name="pto-runtime",
    version=version,
    description="Sequential programs over arrays, run as a parallel graph of tasks",
    license="Apache-2.0",
    python_requires=">=3.11",
    packages=["pto"],
    package_data={"pto": ["py.typed", "*.pyi"]},
    ext_modules=[Extension(
        "pto._pto",
        sorted(str(p.relative_to(here)) for p in (here / "src").glob("*.c")),
        depends=[str(p) for p in [*(here / "src").glob("*.h"), *(here.parent / "examples" / "workloads").glob("blas*.[ch]")]] + [str(p) for p in include.glob("pto/*.h")],
        include_dirs=[str(include)],
        define_macros=[("Py_LIMITED_API", "0x030b0000")] + ([("WORKLOADS_SANITIZED", "1")] if sanitize else []),
        library_dirs=[libraries],
        libraries=["pto", "dl", "m"],
        extra_compile_args=flags,
        extra_link_args=(["-Wl,-rpath,$ORIGIN"] if bundle else []) + ([f"-fsanitize={sanitize}"] if sanitize else []),
        py_limited_api=True,
    )],
    cmdclass={"build_ext": Build, "bdist_wheel": Wheel},
)
