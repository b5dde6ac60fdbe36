"""Seeing a run: timelines, statistics, and why one task waits for another."""

import html
import os
import tempfile

from . import _pto

_WORDS = {"i": "reads", "o": "writes", "u": "reads and writes"}


class Timeline:
    """A recorded run. A notebook shows it; elsewhere open the file in a browser.

    The file is there when the runtime has been closed.
    """

    def __init__(self, path, height=640):
        self.path = os.fspath(path)
        self.height = height

    def html(self):
        """The page, as text. A .ptrace file is converted."""
        if not os.path.exists(self.path):
            raise FileNotFoundError(f"{self.path} is not there yet: it is written when the runtime is closed")
        if self.path.endswith(".ptrace"):
            with tempfile.TemporaryDirectory() as folder:
                page = os.path.join(folder, "run.html")
                _pto._convert_trace(self.path, page)
                with open(page, encoding="utf-8") as file:
                    return file.read()
        if not self.path.endswith(".html"):
            raise ValueError(f"{self.path} is no page: record to .html or .ptrace to see it here")
        with open(self.path, encoding="utf-8") as file:
            return file.read()

    def _repr_html_(self):
        try:
            page = self.html()
        except (OSError, ValueError) as error:
            return f"<p>{html.escape(str(error))}</p>"
        return (f'<iframe srcdoc="{html.escape(page)}" style="width:100%; height:{self.height}px; border:0" '
                'sandbox="allow-scripts allow-downloads"></iframe>')

    def __repr__(self):
        return f"pto.Timeline({self.path!r})"


def stats_html(stats):
    """A table of the statistics of a runtime."""
    rows = "".join(f"<tr><td>{html.escape(key)}</td><td>{value}</td></tr>"
                   for key, value in stats.items() if key != "rings")
    rings = "".join(
        f"<tr><td>{ring['level']}</td><td>{html.escape(ring['ring'])}</td><td>{ring['used']}</td>"
        f"<td>{ring['peak']}</td><td>{ring['size']}</td><td>{ring['waits']}</td></tr>"
        for ring in stats.get("rings", ()) if ring["peak"])
    return (f"<table>{rows}</table><table><tr><th>level</th><th>ring</th><th>used</th><th>peak</th><th>size</th>"
            f"<th>waits</th></tr>{rings}</table>")


def _place(task):
    return f"{task.kernel} at {os.path.basename(task.file)}:{task.line}"


def _reason(first, second):
    """The kind of an edge between two accesses; None: there is none."""
    if first == "i" and second == "i":
        return None
    if first in "ou" and second in "iu":
        return "read after write"
    return "write after write" if first in "ou" else "write after read"


def explain(first, second):
    """Says why the second task waits for the first, or that it does not.

    Works for tasks of a runtime that was created with explain=True, or after rt.trace(...). The text names
    each pair of arguments that share a byte, with the reason and how the overlap was decided. (A task may also
    wait for another through a task in between; give that one, too.) A task that was given as after= is named, too.
    """
    for task in (first, second):
        if not isinstance(task, _pto.Task):
            raise TypeError(f"explain: two tasks are needed, not {type(task).__name__}: rt.submit returns them")
    if first._runtime != second._runtime:
        raise ValueError("explain: the tasks belong to different runtimes, which know nothing of each other's tasks")
    if first.order > second.order:
        first, second = second, first
    if first._accesses is None or second._accesses is None:
        raise ValueError("explain: the tasks do not remember their arrays: create the runtime with "
                         "pto.Runtime(explain=True), or call rt.trace(...) first")
    head = f"task {second.order} ({_place(second)})"
    if first.order == second.order:
        return f"{head} does not wait for itself."
    lines = ["  after=: it was told to wait for it"] if first.order in second._after else []
    for i, one, a in first._accesses:
        for j, other, b in second._accesses:
            yes, how = _pto._overlaps(a, b)
            reason = _reason(one, other)
            if yes and reason:
                lines.append(f"  {reason}: argument {j} ({_WORDS[other]} {b.dtype}{list(b.shape)}) shares bytes with "
                             f"argument {i} of the first ({_WORDS[one]} {a.dtype}{list(a.shape)}) [{how}]")
    tail = f"task {first.order} ({_place(first)})"
    if not lines:
        return f"{head} does not wait for {tail}: they share no byte that one of them writes, and no after= says so."
    return f"{head} waits for {tail}:\n" + "\n".join(lines)


Timeline.__module__ = "pto"
