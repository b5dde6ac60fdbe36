"""Errors of the C library as exceptions."""

import enum
import opcode
import re
import signal
import threading

from . import _pto

Status = enum.IntEnum("Status", _pto._statuses, module="pto")
Status.__str__ = lambda self: self.name  # print(error.status) says TASK_FAILED, not 25
Status.__doc__ = "The codes of the C library (pto/status.h), for example Status.TASK_FAILED."


# The messages of the library name functions of C.
_WORDS = {
    "PTO_SCOPE(rt) { ... }": "with rt.scope():", "PTO_SCOPE": "rt.scope()", "PTO_BOUNDARY": "rt.boundary()",
    "pto_clear_error": "rt.clear_error()", "pto_release": "rt.release", "pto_alloc": "rt.empty", "pto_temp": "rt.temp",
    "pto_read": "rt.read", "pto_wait": "rt.wait()", "pto_submit": "rt.submit", "pto_cancel": "rt.cancel()",
    "pto_write": "rt.copy", "pto_copy": "rt.copy", "pto_shared_alloc": "rt.empty",
    "pto_op_register, pto_kernel_variant": "kernel.on", "pto_kernel_variant": "kernel.on",
    "destroy with PTO_CANCEL": "use rt.close(cancel=True)", "PTO_MAX_DIMS": "8",
    "use 0 for the default, or a value in the range that the detail gives": "leave it out, or give what the detail permits",
}
_PATTERN = re.compile("|".join(re.escape(word) + (r"(?!\w)" if word[-1].isalnum() else "") for word in _WORDS))


_CODES = re.compile(r"\bPTO_(" + "|".join(_pto._statuses) + r")\b")
_VARIANT = re.compile(r"(no variant for (\w+):.*?)pto_kernel_variant", re.S)


def _in_python(text):
    text = _VARIANT.sub(r'\1kernel.on("\2", other)', text)
    return _CODES.sub(r"\1", _PATTERN.sub(lambda match: _WORDS[match.group()], text))


class Error(RuntimeError):
    """Something failed, or was refused.

    status  the code: pto.Status.TASK_FAILED ...
    detail  what happened, with names and numbers
    hint    what to do about it
    file    where the call was made, or where the failed task was submitted; None if unknown
    line    the line in that file

    If a kernel raised an exception, that is the __cause__, with its traceback.
    """

    def __init__(self, status, detail, hint="", file=None, line=0):
        self.status = Status(status)
        self.detail = detail = _in_python(detail)
        self.hint = _in_python(hint)
        self.file = file
        self.line = line
        super().__init__(detail)

    def __str__(self):
        place = f" ({self.file}:{self.line})" if self.file and f":{self.line}" not in self.detail else ""
        return f"{self.detail}{place} [{self.status.name}; to do: {self.hint}]"

    def __reduce__(self):
        return type(self), (int(self.status), self.detail, self.hint, self.file, self.line)


def _handlers():
    """Code of the Python functions that handle signals."""
    for number in signal.valid_signals():
        function = signal.getsignal(number)
        code = getattr(getattr(function, "__func__", function), "__code__", None)
        if code is not None:
            yield code


def _from_signal(error):
    """Whether a handler of a signal raised this exception of a kernel, and not the kernel itself.

    Handlers run on the main thread, in whatever it does. That of Ctrl-C leaves no frame of its own: but then what
    raised the exception is not a statement of the kernel.
    """
    if threading.current_thread() is not threading.main_thread():
        return False
    handlers, last, at = set(_handlers()), None, error.__traceback__
    while at is not None:
        if at.tb_frame.f_code in handlers:
            return True
        last, at = at, at.tb_next
    if last is None or not isinstance(error, KeyboardInterrupt):
        return False
    return opcode.opname[last.tb_frame.f_code.co_code[last.tb_lasti]] not in ("RAISE_VARARGS", "RERAISE")


Error.__module__ = "pto"
