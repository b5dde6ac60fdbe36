"""Run ordinary Python over arrays as a parallel graph of tasks.

Submit calls of kernels in the order in which a plain program would make them. The runtime finds out
from the bytes that the arrays share which tasks wait for which others, runs the rest in parallel, and
leaves exactly the memory that the plain program would have left.

    import numpy as np, pto

    @pto.kernel
    def scale(x: pto.In[np.ndarray], y: pto.Out[np.ndarray], by: float):
        np.multiply(x, by, out=y)

    x, y = np.arange(8.0), np.zeros(8)
    with pto.Runtime() as rt:
        rt.submit(scale, x[:4], y[:4], 2.0)     # these two run in parallel
        rt.submit(scale, x[4:], y[4:], 3.0)
        rt.submit(scale, y, x, 1.0)             # waits for both
    print(x)                                    # the runtime is closed: all tasks are complete

Runtime     submits tasks, waits, reads, and owns temporary memory
kernel      makes a Python function a kernel; In, Out and InOut say what it does with its arrays
Library     kernels from a shared library; cfunc: from a function pointer
tensor      a Tensor over an array, which is cheaper to submit often
explain     why one task waits for another
Error       what is raised when something fails; Status: the codes
pto.blas    gemm, syrk, trsm and potrf on views of matrices
"""

import atexit as _atexit

from . import _pto
from ._errors import Error, Status
from ._kernel import In, InOut, Library, Out, cfunc, kernel
from ._pto import Kernel, Task, Tensor, tensor
from ._runtime import Runtime
from ._show import Timeline, explain

_pto._setup(Error)
_pto._adopt(Runtime)
_atexit.register(_pto._close_all)

__version__ = _pto.version
__all__ = [
    "Error", "In", "InOut", "Kernel", "Library", "Out", "Runtime", "Status", "Task", "Tensor", "Timeline",
    "cfunc", "explain", "kernel", "tensor",
]
