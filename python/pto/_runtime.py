"""pto.Runtime."""

import os

from . import _pto
from ._show import Timeline, stats_html


def _absolute(path):
    """The file that is meant now: it is written at the end, perhaps from another folder."""
    path = os.fspath(path)
    return os.path.abspath(path) if path else path


class Stats(dict):
    """Statistics of a runtime. A notebook shows them as a table."""

    def _repr_html_(self):
        return stats_html(self)


class Runtime(_pto.Runtime):
    """Runs tasks: submits them, waits for them, and owns temporary memory.

        with pto.Runtime() as rt:
            rt.submit(kernel, x[0:4], y[0:4])
            rt.sync(y)                  # before Python itself touches y

    The thread that creates a runtime is the one that submits and waits. The end of the block waits for all
    tasks; an exception in the block cancels them, and so does the end of the program. Options, all by name:

        workers     threads besides this one; 0: none (default: one less than there are cores)
        trace       file to record the run in: .html, .json, .dot or .ptrace; see trace()
        explain     True: tasks remember their arrays, for pto.explain
        device      where rt.temp and rt.empty give memory: 'sim:0' ... (default: 'cpu:0')
        heap_bytes  memory for managed tensors, for each level of scopes
        ring_tasks  tasks that can be alive at a time, for each level
        guard       1: finds kernels that write beyond a managed tensor; 2: on the host only
        inline_ns   a kernel that takes less is run by rt.submit itself (default: 1000); 0: none is
        levels, deps, arg_bytes, map_entries, buffers, spin, overlap_budget, trace_limit, place,
        crash_report, map_twice, device_heap_bytes
                    as in pto/config.h; the environment variables of the C library work as well
    """

    def __init__(self, **options):
        if options.get("trace") is not None:
            options["trace"] = _absolute(options["trace"])
        self._options = options
        self._timeline = Timeline(options["trace"]) if options.get("trace") is not None else None
        super().__init__(**options)

    def trace(self, path):
        """Records the run in a file, from now on: run.html, .json, .dot or .ptrace.

        Call it before the first task. The file is written when the runtime is closed. Returns a
        pto.Timeline, which a notebook shows.
        """
        options = {"explain": True, **self._options, "trace": _absolute(path)}
        self._restart(**options)
        self._options = options
        self._timeline = Timeline(options["trace"])
        return self._timeline

    def stats(self):
        """Counts of tasks and of the reasons why they waited, and the usage of the rings."""
        return Stats(super().stats())

    def _repr_html_(self):
        if self.closed:
            return self._timeline._repr_html_() if self._timeline else "<p>a closed pto.Runtime</p>"
        return self.stats()._repr_html_()

    def __repr__(self):
        try:
            stats = super().stats()
        except ValueError:  # another thread may close it just now
            return "<pto.Runtime, closed>"
        return (f"<pto.Runtime, {stats['threads']} threads, {stats['completed']} of {stats['submitted']} tasks "
                "complete>")


Runtime.__module__ = "pto"
