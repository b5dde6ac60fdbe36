"""What can be submitted: Python functions, C functions, function pointers."""

import ctypes
import functools
import inspect
import itertools
import os
import re
from typing import Annotated, TypeVar, get_args, get_origin

from ._pto import Kernel, _kernel

_T = TypeVar("_T")
_PYTHON, _CALL, _PROTOTYPE = range(3)
_TYPES = {"cube": 0, "vector": 1, "ai_cpu": 2, "accelerator": 3}


class _Access(str):
    """What a kernel does with an argument."""


_IN, _OUT, _INOUT = _Access("i"), _Access("o"), _Access("u")

# For type checkers In[np.ndarray] is np.ndarray.
In = Annotated[_T, _IN]
Out = Annotated[_T, _OUT]
InOut = Annotated[_T, _INOUT]


def _worker_type(name):
    try:
        return _TYPES[name]
    except (KeyError, TypeError):
        raise ValueError(f"type {name!r}: the worker types are {', '.join(_TYPES)}") from None


# ---- Python functions ----

def _find(annotation):
    """What is said about access, at any depth of an annotation."""
    if isinstance(annotation, _Access):
        yield str(annotation)
    for inner in get_args(annotation):
        yield from _find(inner)


def _access(annotation, where):
    """The access that pto.In[...] says, or 's': a parameter that is no array."""
    said = set(_find(annotation))
    plain = get_origin(annotation) is Annotated and any(isinstance(item, _Access) for item in annotation.__metadata__)
    if len(said) > 1 or (said and not plain):
        raise TypeError(f"{where}: write pto.In[...], pto.Out[...] or pto.InOut[...] itself, and not inside of another "
                        f"type: {annotation!r}")
    return said.pop() if said else "s"


def _globals(function):
    """Where the names in its annotations are looked up."""
    while isinstance(function, functools.partial):
        function = function.func
    function = inspect.unwrap(function)
    if not hasattr(function, "__globals__"):  # an object that is called
        function = inspect.unwrap(type(function).__call__)
    return getattr(function, "__globals__", {})


def _resolve(function, parameter):
    """With `from __future__ import annotations`, an annotation in quotes is a string in a string."""
    if not isinstance(parameter.annotation, str):
        return parameter
    return parameter.replace(annotation=eval(parameter.annotation, _globals(function)))


def _signature(function):
    """Its signature with annotations that are no strings."""
    try:
        signature = inspect.signature(function, eval_str=True)
        return signature.replace(parameters=[_resolve(function, one) for one in signature.parameters.values()])
    except Exception as error:  # the text of an annotation may raise any
        cause = error
    try:
        inspect.signature(function)
    except (TypeError, ValueError):
        raise TypeError(f"{function!r} cannot be a kernel, because nothing says what it does with its arguments: write "
                        "a function that calls it, as in def f(x: pto.In[np.ndarray], y: pto.Out[np.ndarray]): "
                        "np.sqrt(x, out=y)") from cause
    raise TypeError(f"{_name(function)}: an annotation cannot be resolved: {cause}. One that is a string, as all are after "
                    "`from __future__ import annotations`, can use global names only, and none that is imported for type "
                    "checkers alone") from cause


def _parameters(function):
    signature = _signature(function)
    _refuse_bound_outputs(function)
    parameters, least, variadic = [], 0, False
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY:
            if parameter.default is parameter.empty:
                raise TypeError(f"{_name(function)}: parameter {parameter.name} must be given by name, but "
                                "arguments of a kernel are given by position")
            if parameter.default is not None and _is_output(function, parameter):
                raise _unseen(function, parameter, "its array cannot be given by position")
            continue
        if parameter.kind is parameter.VAR_KEYWORD:
            continue
        parameters.append((_parameter_access(function, parameter), None, -1, False))
        if parameter.kind is parameter.VAR_POSITIONAL:
            variadic = True
        elif parameter.default is parameter.empty or (parameter.default is not None and _is_output(function, parameter)):
            least = len(parameters)
    return parameters, least, variadic


def _parameter_access(function, parameter):
    return _access(parameter.annotation, f"{_name(function)}: parameter {parameter.name}")


def _is_output(function, parameter):
    return _parameter_access(function, parameter) in ("o", "u")


def _unseen(function, parameter, why):
    return TypeError(f"{_name(function)}: parameter {parameter.name} is written, and {why}, so nothing would order the tasks "
                     "that use it: pass it to rt.submit")


def _refuse_bound_outputs(function):
    """functools.partial takes what it binds by position out of the signature."""
    if isinstance(function, functools.partial):
        whole = _signature(function.func)
        unbound = (None, getattr(functools, "Placeholder", None))  # CPython 3.14
        for name, value in whole.bind_partial(*function.args).arguments.items():
            if not any(value is one for one in unbound) and _is_output(function, whole.parameters[name]):
                raise _unseen(function, whole.parameters[name], "functools.partial binds its array")


def _name(function):
    while isinstance(function, functools.partial):
        function = function.func
    return getattr(function, "__qualname__", None) or getattr(function, "__name__", None) or repr(function)


def _python_kernel(function, name=None, type="vector"):
    if any(asks(function) for asks in (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)):
        raise TypeError(f"{_name(function)}: a kernel must be a plain function, not a coroutine or a generator")
    parameters, least, variadic = _parameters(function)
    name = name or _name(function).replace("<locals>.", "").rpartition("<locals>.")[2]
    return _kernel(_PYTHON, name, parameters, callable=function, least=least, variadic=variadic,
                  type=_worker_type(type))


def kernel(function=None, /, *, name=None, type="vector"):
    """Makes a Python function a kernel, so that rt.submit(function, ...) runs it as a task.

    The function itself stays what it is and can be called as before. Its annotations say what it does
    with its arrays: pto.In[...] reads, pto.Out[...] writes all of it without reading, pto.InOut[...]
    does both. Other parameters are passed as they are.

        @pto.kernel
        def step(a: pto.In[np.ndarray], b: pto.Out[np.ndarray], w: float):
            np.multiply(a[:-2] + a[2:], w, out=b)

    A kernel returns None. It runs under the GIL and is parallel where it releases it, as NumPy does in
    most functions. Inputs arrive as read-only arrays. name: for traces and errors.
    """
    if function is None:
        return lambda f: kernel(f, name=name, type=type)
    if not callable(function):
        raise TypeError(f"kernel: a function is needed, not {function!r}")
    made = _python_kernel(function, name, type)
    try:
        function.__pto_kernel__ = made
    except (AttributeError, TypeError):
        return made  # an object that takes no attributes, such as a method of C
    return function


def resolve(what):
    """The Kernel that rt.submit(what, ...) means. Called once for each function and runtime."""
    made = getattr(what, "__pto_kernel__", None)
    if isinstance(made, Kernel):
        # Methods and what functools.wraps made have the attribute of another function.
        return made if made._function is what else _python_kernel(what)
    if what is None:
        raise TypeError("submit: the first argument is None, not a kernel: write rt.submit(f, x, y), not "
                        "rt.submit(f(x, y)), which calls f at once")
    if not callable(what):
        raise TypeError(f"submit: the first argument must be a kernel, not {type(what).__name__}: decorate a "
                        "function with @pto.kernel, or use pto.Library or pto.cfunc for C")
    if isinstance(what, ctypes._CFuncPtr):
        raise TypeError("submit: a function of ctypes has no declaration: use pto.cfunc(function, "
                        "'void f(const double[:], out double[:])')")
    made = _python_kernel(what)
    if all(kind == "s" for kind, *_ in _parameters(what)[0]) and _parameters(what)[0]:
        raise TypeError(f"submit: {_name(what)} has no annotated arrays: say what it does with its arguments, "
                        "with pto.In, pto.Out or pto.InOut, or decorate it with @pto.kernel if it has none")
    return made


# ---- C functions ----

_C_TYPES = {
    "float": "float32", "double": "float64", "_Float16": "float16", "bool": "bool", "_Bool": "bool",
    "char": "int8", "signed char": "int8", "unsigned char": "uint8", "short": "int16",
    "unsigned short": "uint16", "int": "int32", "unsigned": "uint32", "unsigned int": "uint32",
    "long": "int64", "unsigned long": "uint64", "long long": "int64", "unsigned long long": "uint64",
    "int8_t": "int8", "uint8_t": "uint8", "int16_t": "int16", "uint16_t": "uint16", "int32_t": "int32",
    "uint32_t": "uint32", "int64_t": "int64", "uint64_t": "uint64", "size_t": "uint64",
    "ssize_t": "int64", "ptrdiff_t": "int64", "intptr_t": "int64", "uintptr_t": "uint64",
}
_ACCESS = {"in": "i", "out": "o", "inout": "u"}
_QUALIFIERS = {"const", "volatile", "restrict", "__restrict"}
# Words of a type. None of them can be the name of a parameter.
_TYPE_WORDS = {"char", "short", "int", "long", "float", "double", "signed", "unsigned", "void", "bool", "_Bool", "_Complex",
               "complex", "_Imaginary", "struct", "union", "enum", "_Float16", "__int128", "_Atomic", "register", "static"}
_BRIEF = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "f64": "float64", "i8": "int8", "i16": "int16",
          "i32": "int32", "i64": "int64", "u8": "uint8", "u64": "uint64", "bool": "bool", "any": None}
_PROTO = re.compile(r"^\s*(?P<result>void|int|int32_t|pto_status)\s+(?P<name>[A-Za-z_]\w*)\s*\((?P<list>.*)\)\s*;?\s*$",
                    re.S)
_RESULT = re.compile(r"^\s*(?P<result>[\w\s*]*?)\s*(?P<name>[A-Za-z_]\w*)\s*\(")
_WORD = re.compile(r"[A-Za-z_]\w*")


def _bad(text, why):
    return ValueError(f"the declaration {text!r} cannot be read: {why}. Examples: 'void f(const float[:,:], out "
                      "float[:,:], double)', or 'in f32[2] a, out f32[2] b, f64 w' for a kernel of pto/kernel.h")


def _bad_prototype(text):
    """Says why it is none."""
    head = _RESULT.match(text)
    if not head:
        return _bad(text, "it names no function: a prototype is like 'void name(...)' or 'int name(...)', and for a kernel "
                          "of pto/kernel.h give name=")
    if head.group("result") not in ("void", "int", "int32_t", "pto_status"):
        return _bad(text, f"its result is {head.group('result')!r}, and must be void or int, where 0 is success: results "
                          "are written into the arrays" if head.group("result") else "its result, void or int, is missing")
    if text.count("(") > text.count(")"):
        return _bad(text, "the closing parenthesis is missing")
    return _bad(text, "it does not end with the closing parenthesis of its parameters")


def _spelling(words):
    """'long unsigned int' -> 'unsigned long': C allows any order, and needs neither int nor signed."""
    if {"short", "long", "unsigned", "signed"} & {*words}:
        words = [w for w in words if w not in ("int", "signed")] or ["int"]
    return " ".join(sorted(words, key=lambda word: word != "unsigned"))


def _c_parameter(text, whole):
    """'const float x[:,:]' -> (kind, dtype, ndim, dense)"""
    given = text.strip()
    dims = re.search(r"\[([^\]]*)\]\s*$", given)
    pointer = given.count("*")
    head = given[:dims.start()] if dims else given
    if re.search(r"[^\w\s*]", head):
        raise _bad(whole, f"{given!r} is not an array or a number")
    words = _WORD.findall(head.replace("*", " "))
    before = list(itertools.takewhile(lambda word: word in _ACCESS or word in _QUALIFIERS, words))
    access = [w for w in before if w in _ACCESS]  # after the type it is a name
    const = "const" in _WORD.findall(head.partition("*")[0])  # in `T *const x` the pointer is const, not what it points to
    words = [w for w in words[len(before):] if w not in _QUALIFIERS]
    if len(words) > 1 and words[-1] not in _TYPE_WORDS:
        words.pop()  # the name
    dtype = _C_TYPES.get(_spelling(words))
    if not dtype:
        raise _bad(whole, f"the type of {given!r} is unknown")
    if len(access) > 1 or pointer > 1 or (pointer and dims):
        raise _bad(whole, f"{given!r} is not an array or a number")
    if not dims and not pointer:
        if access:
            raise _bad(whole, f"{given!r} is a number, so it has no {access[0]!r}")
        if dtype == "float16":
            raise _bad(whole, f"{given!r} is passed in a way of its own: use float")
        return "s", dtype, -1, False
    if const and access and access[0] != "in":
        raise _bad(whole, f"{given!r} is const and {access[0]!r}")
    kind = _ACCESS[access[0]] if access else "i" if const else "u"
    if pointer:
        return kind, dtype, -1, True
    sizes = dims.group(1).replace(" ", "").split(",")
    if any(size != ":" for size in sizes) or len(sizes) > 8:
        raise _bad(whole, f"the dims of {given!r} are written as [:] or [:,:], up to eight of them")
    return kind, dtype, len(sizes), False


def _split(text):
    """Splits at commas outside of brackets."""
    parts, depth, begin = [], 0, 0
    for i, letter in enumerate(text):
        depth += (letter == "[") - (letter == "]")
        if letter == "," and depth == 0:
            parts.append(text[begin:i])
            begin = i + 1
    last = text[begin:]
    return parts + [last] if last.strip() or parts else []


def _declared(text):
    """'in f32[2] a, f64 w' -> parameters, least, variadic: the language of pto_kernel_declare"""
    parameters, variadic = [], False
    for part in _split(text):
        part = part.strip()
        if variadic:
            raise _bad(text, "... stands at the end")
        if part == "...":
            raise _bad(text, "say what the further parameters are, as in 'in f32[2] x ...'")
        if part.endswith("..."):
            variadic, part = True, part[:-3].strip()
        match = re.match(r"^(?:(in|out|inout)\s+)?(\w+)(?:\[(\d)\])?(?:\s+\w+)?$", part)
        if not match or match.group(2) not in _BRIEF or (not match.group(1) and match.group(3)):
            raise _bad(text, f"{part!r} is not a parameter")
        access, dtype, ndim = match.groups()
        parameters.append((_ACCESS[access] if access else "s", _BRIEF[dtype], int(ndim) if ndim else -1, False))
    return parameters, len(parameters) - variadic, variadic


def _address(function):
    """The address of a function: ctypes, cffi, numba's cfunc, or a number."""
    if isinstance(function, int) and not isinstance(function, bool):
        if not 0 <= function < 1 << 64:
            raise ValueError(f"cfunc: {function} is no address")
        return function
    address = getattr(function, "address", None)  # numba
    if isinstance(address, int):
        return address
    if isinstance(function, ctypes._CFuncPtr):
        return ctypes.cast(function, ctypes.c_void_p).value
    if type(function).__module__ in ("_cffi_backend", "cffi"):
        import _cffi_backend as cffi
        ctype = cffi.typeof(function)
        if ctype.kind == "function" or ctype.cname == "void *":  # of data there is nothing to call
            return int(cffi.cast(cffi.new_primitive_type("uintptr_t"), function))
    raise TypeError(f"cfunc: {function!r} is no function pointer: pass one of ctypes, cffi or numba (cfunc), or its "
                    "address")


def cfunc(function, declaration, *, name=None, type="vector"):
    """A kernel from a pointer to a C function.

    function     of ctypes or cffi, a numba cfunc, or an address
    declaration  a prototype: "void f(const float[:,:], out float[:,:], double)"
                 or the parameters of a kernel of pto/kernel.h: "in f32[2] a, out f32[2] b, f64 w"

    In a prototype, `const T[:,:]` is an input, `out T[:,:]` an output, and `T[:,:]` or `inout T[:,:]` both.
    The C function gets three arguments for it: T *data, const int64_t *shape, const int64_t *strides, with
    strides that count elements. `const T *x` is a contiguous array, of which it gets the pointer alone.
    Everything else is a number. A function that returns int succeeds with 0. `void *stream` at the end gets the
    stream of the task, for variants on a GPU: kernel.on("nvidia", other).
    """
    address = _address(function)
    if not address:
        raise ValueError("cfunc: the function pointer is NULL")
    if not isinstance(declaration, str):
        raise TypeError("cfunc: the declaration is a string")
    keep = None if isinstance(function, int) else function
    if "(" not in declaration:
        parameters, least, variadic = _declared(declaration)
        return _kernel(_CALL, name or "kernel", parameters, callable=keep, address=address, declaration=declaration,
                      least=least, variadic=variadic, type=_worker_type(type))
    match = _PROTO.match(declaration)
    if not match:
        raise _bad_prototype(declaration)
    inner = match.group("list").strip()
    parts = [] if inner in ("", "void") else _split(inner)
    stream = bool(parts) and re.fullmatch(r"\s*(void\s*\*\s*stream|cudaStream_t(\s+\w+)?)\s*", parts[-1]) is not None
    parameters = [_c_parameter(part, declaration) for part in parts[:len(parts) - stream]]
    return _kernel(_PROTOTYPE, name or match.group("name"), parameters, callable=keep, address=address,
                  result="v" if match.group("result") == "void" else "i", type=_worker_type(type), stream=stream)


class Library:
    """A shared library with C functions.

        lib = pto.Library("./libheat.so")
        step = lib.kernel("void step(const double[:], out double[:], double)")
        rt.submit(step, x[0:10], y[1:9], 0.5)

    The declaration is that of pto.cfunc. For a kernel of pto/kernel.h give its name, too:
    lib.kernel("in f32[2] a, out f32[2] b", name="gemm").
    """

    def __init__(self, path):
        self.path = str(path)
        try:
            self._library = ctypes.CDLL(self.path)
        except OSError as error:
            if "/" not in self.path and os.path.exists(self.path):  # the loader looks in its own folders alone
                raise OSError(f"{error}; for the file in this folder write pto.Library('./{self.path}')") from error
            raise

    def kernel(self, declaration, *, name=None, type="vector"):
        """A kernel: the function that the declaration names."""
        if not isinstance(declaration, str):
            raise TypeError("kernel: the declaration is a string")
        match = _PROTO.match(declaration)
        symbol = match.group("name") if match else name
        if not symbol:
            raise _bad_prototype(declaration)
        try:
            function = getattr(self._library, symbol)
        except AttributeError:
            raise AttributeError(f"{self.path} has no function {symbol!r}") from None
        made = cfunc(function, declaration, name=name or symbol, type=type)
        return made

    def __repr__(self):
        return f"pto.Library({self.path!r})"


Library.__module__ = "pto"
