"""The tutorial and the examples run as they are written."""

import ast
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import pto

root = Path(__file__).resolve().parent.parent.parent


def test_tutorial(tmp_path, monkeypatch):
    text = (root / "docs" / "python.md").read_text()
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", text, re.M | re.S)
    assert len([b for b in blocks if b[0] == "python"]) >= 8
    monkeypatch.chdir(tmp_path)
    names = {}
    for number, (language, block) in enumerate(blocks):
        line = text[:text.index(block)].count("\n") + 1
        if language == "c":
            (tmp_path / re.match(r"// (\S+)", block).group(1)).write_text(block)
        elif language == "sh" and block.startswith("gcc"):
            subprocess.run(block, shell=True, check=True)
        elif language == "python":
            code = compile("\n" * line + block, "docs/python.md", "exec")
            exec(code, names)
    assert (tmp_path / "run.html").stat().st_size > 10000
    assert "<iframe" in names["timeline"]._repr_html_()


@pytest.mark.parametrize("system", ["", "dask"])
def test_coming_from(system, run_python):
    """The programs of the page print the same number."""
    if system:
        pytest.importorskip(system)
    text = (root / "docs" / "python-coming-from.md").read_text()
    block = re.search(rf"^```python{' ' * bool(system)}{system}\n(.*?)^```", text, re.M | re.S).group(1)
    x = np.zeros(8002)
    x[1:-1] = np.arange(8000) % 100
    for _ in range(10):
        x[1:-1] = (x[:-2] + x[1:-1] + x[2:]) / 3
    assert run_python(block).stdout == f"{x.sum():.6f}\n"


@pytest.mark.parametrize("name, arguments", [("heat", ["130", "6"]), ("cholesky", ["300", "64"]), ("decoder", ["6"])])
def test_example(name, arguments):
    done = subprocess.run([sys.executable, str(root / "examples/python" / f"{name}.py"), *arguments], text=True,
                          capture_output=True, timeout=300)
    if "needs OpenBLAS" in done.stderr:
        pytest.skip("no OpenBLAS")
    assert done.returncode == 0, done.stdout + done.stderr


def test_everything_has_a_docstring():
    import pydoc
    for name in pto.__all__:
        thing = getattr(pto, name)
        assert inspect.getdoc(thing), name
        if inspect.isclass(thing):
            for member, value in vars(thing).items():
                if not member.startswith("_") and callable(value):
                    assert inspect.getdoc(value), f"{name}.{member}"
    for member in ("submit", "wait", "sync", "read", "temp", "empty", "scope", "boundary", "range", "fill", "close"):
        assert len(inspect.getdoc(getattr(pto.Runtime, member))) > 20
        assert inspect.signature(getattr(pto.Runtime, member))
    text = pydoc.render_doc(pto)
    assert "Runtime" in text and "submits tasks" in text


def stub_of(module):
    """Names of a stub: of functions with their parameters, of classes with their members."""
    tree = ast.parse(Path(module.__file__).with_suffix(".pyi").read_text())

    def names(body):
        found = {}
        for item in body:
            if isinstance(item, ast.FunctionDef):
                a = item.args
                found[item.name] = [x.arg for x in (*a.posonlyargs, *a.args, a.vararg, *a.kwonlyargs) if x and x.arg != "self"]
                if any(getattr(d, "id", "") == "property" for d in item.decorator_list):
                    found[item.name] = None
            elif isinstance(item, ast.ClassDef):
                found[item.name] = names(item.body)
            elif isinstance(item, ast.AnnAssign):
                found[item.target.id] = None
            elif isinstance(item, ast.Assign):
                found[item.targets[0].id] = getattr(item.value, "value", None)
        return found
    return names(tree.body)


def public(names):
    return {name for name in names if not name.startswith("_")}


def test_the_stubs_are_what_is_there():
    """Each public name is in the stub, with the same members and parameters, and nothing else is."""
    from pto import blas
    stub = stub_of(pto)
    assert {m.name: m.value for m in pto.Status} == stub.pop("Status"), "run-time members of Status, and those of the stub"
    assert public(stub) | {"Status"} == set(pto.__all__) and set(stub_of(blas)) - {"__all__"} == set(blas.__all__)
    made = {"Error": {"status", "detail", "hint", "file", "line"}, "Timeline": {"path", "height"}, "Library": {"path"}}
    for name, members in stub.items():
        if not isinstance(members, dict):
            continue
        thing = getattr(pto, name)
        there = public(dir(thing)) - public(dir(RuntimeError if name == "Error" else object)) | made.get(name, set())
        assert public(members) == there, name
        for member, parameters in members.items():
            if isinstance(parameters, list) and not member.startswith("__"):
                real = inspect.signature(getattr(thing, member)).parameters
                assert parameters == [p for p in real if p != "self"], f"{name}.{member}"
    for name in ("cfunc", "tensor", "explain"):
        assert stub[name] == list(inspect.signature(getattr(pto, name)).parameters), name


def test_the_stub_names_all_options():
    """Each option of the stub is taken, and each that is taken and documented is in the stub."""
    options = stub_of(pto)["Runtime"]["__init__"]
    for name in options:
        with pto.Runtime(**{name: None}):
            pass
    words = inspect.getdoc(pto.Runtime).partition("all by name:")[2]
    documented = set(re.findall(r"^ {4}(\w+) ", words, re.M)) | set(re.findall(r"\b[a-z]+(?:_[a-z]+)+\b", words.partition("levels,")[2]))
    assert documented - {"pto"} <= set(options), documented - set(options)


def test_help():
    """help(pto) names everything that is public, once, and shows nothing private."""
    import pydoc
    text = pydoc.plain(pydoc.render_doc(pto))
    for name in pto.__all__:
        assert name in text, name
    head = text.partition("PACKAGE CONTENTS")[0]
    assert "pto.blas" in head and max(map(len, head.splitlines())) <= 120
    text = pydoc.plain(pydoc.render_doc(pto.Runtime))
    for name in public(dir(pto.Runtime)):
        assert re.search(rf"^ \|  {name}\b", text, re.M), name
    assert "_adopt" not in text and "_restart" not in text and "Base of" not in text
