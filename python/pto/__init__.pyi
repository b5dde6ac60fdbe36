import enum
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Annotated, Any, Literal, SupportsFloat, SupportsIndex, TypeVar, final, overload

_T = TypeVar("_T")
_F = TypeVar("_F", bound=Callable[..., None])
_WorkerType = Literal["cube", "vector", "ai_cpu", "accelerator"]
_Array = Any
_Shape = SupportsIndex | Sequence[SupportsIndex]

__version__: str

In = Annotated[_T, "in"]
Out = Annotated[_T, "out"]
InOut = Annotated[_T, "inout"]

class Status(enum.IntEnum):
    OK = 0
    NULL_ARGUMENT = 1
    BAD_DTYPE = 2
    BAD_NDIM = 3
    BAD_SHAPE = 4
    OUT_OF_BOUNDS = 5
    OVERFLOW = 6
    BAD_DIM = 7
    BAD_PERMUTATION = 8
    BAD_STEP = 9
    NEEDS_COPY = 10
    NOT_BROADCASTABLE = 11
    BUFFER_TOO_SMALL = 12
    OVERLAP = 13
    BAD_DEVICE = 14
    BAD_DLPACK = 15
    BAD_CONFIG = 16
    OUT_OF_MEMORY = 17
    FULL = 18
    BAD_ORDER = 19
    BAD_LEVEL = 20
    CORRUPT = 21
    BAD_ACCESS = 22
    PENDING = 23
    KERNEL_FAILED = 24
    TASK_FAILED = 25
    POISONED = 26
    CANCELLED = 27
    STALLED = 28
    TOO_LARGE = 29
    BAD_TASK = 30
    BAD_KERNEL = 31
    BAD_WORKER = 32
    BAD_PARAM = 33
    STALE = 34
    BAD_VERSION = 35
    NO_SCOPE = 36
    OPEN_SCOPE = 37
    BAD_SCOPE = 38
    NOT_CONTIGUOUS = 39
    NOT_WRITTEN = 40
    BAD_MEMORY = 41
    WRONG_THREAD = 42
    BAD_OPCODE = 43
    BAD_INDEX = 44
    SYSTEM = 45
    NOT_IMPLEMENTED = 46
    DEVICES_DIFFER = 47
    SELF_OVERLAP = 48
    BAD_PLAN = 49
    BAD_FILE = 50
    BAD_DECLARATION = 51
    MISMATCH = 52
    REFUSED = 53
    UNKNOWN_OPTION = 54
    WORKER_LOST = 55
    DEVICE_LOST = 56
    INTERRUPTED = 57

class Error(RuntimeError):
    status: Status
    detail: str
    hint: str
    file: str | None
    line: int
    def __init__(self, status: int, detail: str, hint: str = ..., file: str | None = ..., line: int = ...) -> None: ...

@final
class Kernel:
    @property
    def name(self) -> str: ...
    def on(self, device: str, kernel: Kernel, /) -> Kernel: ...

@final
class Task:
    @property
    def kernel(self) -> str: ...
    @property
    def file(self) -> str: ...
    @property
    def line(self) -> int: ...
    @property
    def order(self) -> int: ...
    @property
    def id(self) -> int: ...

@final
class Tensor:
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def strides(self) -> tuple[int, ...]: ...
    @property
    def ndim(self) -> int: ...
    @property
    def dtype(self) -> str: ...
    @property
    def device(self) -> str: ...
    @property
    def managed(self) -> bool: ...
    @property
    def T(self) -> Tensor: ...
    def __getitem__(self, key: Any) -> Tensor: ...
    def __len__(self) -> int: ...
    def transpose(self, *dims: SupportsIndex) -> Tensor: ...
    def reshape(self, *shape: _Shape) -> Tensor: ...
    def overlaps(self, other: _Array, /) -> bool: ...

class Timeline:
    path: str
    height: int
    def __init__(self, path: str | os.PathLike[str], height: int = ...) -> None: ...
    def html(self) -> str: ...

class Runtime:
    @property
    def closed(self) -> bool: ...
    def __init__(
        self,
        *,
        workers: int | None = ...,
        trace: str | os.PathLike[str] | None = ...,
        explain: bool | None = ...,
        device: str | None = ...,
        heap_bytes: int | None = ...,
        device_heap_bytes: int | None = ...,
        ring_tasks: int | None = ...,
        guard: int | None = ...,
        levels: int | None = ...,
        deps: int | None = ...,
        arg_bytes: int | None = ...,
        map_entries: int | None = ...,
        buffers: int | None = ...,
        spin: int | None = ...,
        inline_ns: int | None = ...,
        overlap_budget: int | None = ...,
        trace_limit: int | None = ...,
        crash_report: int | None = ...,
        map_twice: int | None = ...,
        place: Literal["inline", "thread"] | None = ...,
    ) -> None: ...
    def submit(
        self, kernel: Callable[..., None] | Kernel, *args: Any, after: Task | Iterable[Task] | None = ..., label: str | None = ...
    ) -> Task: ...
    def wait(self, task: Task | None = ..., /) -> None: ...
    def sync(self, *arrays: _Array) -> None: ...
    def read(self, tensor: _Array, /) -> Any: ...
    def temp(self, shape: _Shape, dtype: Any = ..., device: str | None = ...) -> Tensor: ...
    def empty(self, shape: _Shape, dtype: Any = ..., device: str | None = ...) -> Tensor: ...
    def release(self, tensor: Tensor, /) -> None: ...
    def scope(self) -> AbstractContextManager[Runtime]: ...
    def boundary(self) -> AbstractContextManager[Runtime]: ...
    def range(self, name: str, /) -> AbstractContextManager[Runtime]: ...
    def rearrange(self, dst: _Array, src: _Array, /) -> Task: ...
    def copy(self, dst: _Array, src: _Array, /) -> Task: ...
    def fill(self, dst: _Array, value: SupportsFloat | SupportsIndex, /) -> Task: ...
    def gather(self, dst: _Array, src: _Array, index: _Array, /) -> Task: ...
    def scatter(self, dst: _Array, src: _Array, index: _Array, /) -> Task: ...
    def cancel(self) -> None: ...
    def clear_error(self) -> None: ...
    def stats(self) -> dict[str, Any]: ...
    def trace(self, path: str | os.PathLike[str]) -> Timeline: ...
    def check(self) -> None: ...
    def close(self, cancel: bool = ...) -> None: ...
    def __enter__(self) -> Runtime: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> Literal[False]: ...

class Library:
    path: str
    def __init__(self, path: str | os.PathLike[str]) -> None: ...
    def kernel(self, declaration: str, *, name: str | None = ..., type: _WorkerType = ...) -> Kernel: ...

def cfunc(function: Any, declaration: str, *, name: str | None = ..., type: _WorkerType = ...) -> Kernel: ...
@overload
def kernel(function: _F, /, *, name: str | None = ..., type: _WorkerType = ...) -> _F: ...
@overload
def kernel(*, name: str | None = ..., type: _WorkerType = ...) -> Callable[[_F], _F]: ...
def tensor(array: _Array, /) -> Tensor: ...
def explain(first: Task, second: Task) -> str: ...

__all__ = [
    "Error", "In", "InOut", "Kernel", "Library", "Out", "Runtime", "Status", "Task", "Tensor", "Timeline",
    "cfunc", "explain", "kernel", "tensor",
]
