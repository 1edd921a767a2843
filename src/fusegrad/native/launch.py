"""Loaded code -> a Python callable.

The machine code holds a CPython function (METH_FASTCALL) that reads data pointers, sizes and strides straight out of
the array objects: about 60-100 ns a call.  That relies on the memory layout of numpy's array object, which is tested
once on real arrays; when the test fails, calls go through ctypes instead (slower, no assumption).
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fusegrad import dtypes
from fusegrad.threads import CELL as _threads
from fusegrad.threads import cpu_count, get_num_threads, set_num_threads  # noqa: F401  (part of this module's face)

from .layout import CELLS, DATA, DESCR, DIMS, NDIM, STRIDES, TYPE
from .params import ArrayParam, ScalarParam, SizeParam, slot_names

_keep: list[Any] = []  # method definitions, names and cells live as long as the code: for ever
_METH_FASTCALL = 0x80


class _MethodDef(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


def _read(address: int, kind: Any) -> int:
    return kind.from_address(address).value


@functools.lru_cache(maxsize=1)
def layout_is_known() -> bool:
    """Whether array objects look as the machine code assumes."""
    if ctypes.sizeof(ctypes.c_void_p) != 8 or not hasattr(ctypes, "pythonapi"):
        return False
    try:
        for a in (np.arange(24, dtype=np.float32).reshape(2, 3, 4)[:, ::-1, 1:3], np.zeros((5, 1), np.int64)):
            at = id(a)
            dims, strides = _read(at + DIMS, ctypes.c_void_p), _read(at + STRIDES, ctypes.c_void_p)
            if (
                _read(at + TYPE, ctypes.c_void_p) != id(np.ndarray)
                or _read(at + DATA, ctypes.c_void_p) != a.ctypes.data
                or _read(at + NDIM, ctypes.c_int) != a.ndim
                or _read(at + DESCR, ctypes.c_void_p) != id(a.dtype)
                or [_read(dims + 8 * k, ctypes.c_int64) for k in range(a.ndim)] != list(a.shape)
                or [_read(strides + 8 * k, ctypes.c_int64) for k in range(a.ndim)] != list(a.strides)
            ):
                return False
        return True
    except Exception:
        return False


def loaded(name: str, module: str, symbols: Sequence[str]) -> list[int]:
    """Addresses of symbols of a module of LLVM IR, from the disk cache if it was compiled before."""
    from . import cache, jit

    key = f"{name} {hashlib.sha256(module.encode()).hexdigest()} {jit.versions()} {jit.target_name()}"
    code = cache.get(key, quiet=True)
    if code is None:
        code = jit.compile_text(module)
        cache.put(key, code, quiet=True)
    return jit.load(code, list(symbols))


@functools.lru_cache(maxsize=1)
def parallel() -> int:
    """Address of fusegrad_parallel."""
    from .llvm_threads import FUNCTIONS, SYMBOLS, text

    module = text(os.uname().machine if hasattr(os, "uname") else "")
    at, system, fresh, stop = loaded("threads", module, SYMBOLS)
    try:
        library = ctypes.CDLL(None)
        found = [ctypes.cast(getattr(library, name), ctypes.c_void_p).value for name in FUNCTIONS]
    except (OSError, AttributeError, TypeError):  # no such functions here: kernels run in the calling thread
        return at
    (ctypes.c_void_p * len(found)).from_address(system)[:] = found
    begin, end = (ctypes.PYFUNCTYPE(None)(f) for f in (fresh, stop))  # with the GIL: nobody starts kernels meanwhile
    begin()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=end, after_in_child=begin)
    return at


@functools.lru_cache(maxsize=1)
def _process_cells() -> dict[str, int]:
    """Addresses the machine code needs; the same for every kernel of the process."""
    api = ctypes.pythonapi

    def function(name: str) -> int:
        return ctypes.cast(getattr(api, name), ctypes.c_void_p).value or 0

    cells = {
        "array_type": id(np.ndarray),
        "none": id(None),
        "incref": function("Py_IncRef"),
        "as_double": function("PyFloat_AsDouble"),
        "occurred": function("PyErr_Occurred"),
        "as_int": function("PyLong_AsUnsignedLongLongMask"),
        "format": function("PyErr_Format"),
        "index_error": ctypes.addressof(ctypes.c_void_p.in_dll(api, "PyExc_IndexError")),
        "save_thread": function("PyEval_SaveThread"),
        "restore_thread": function("PyEval_RestoreThread"),
        "threads": ctypes.addressof(_threads),
        "vectorcall": function("PyObject_Vectorcall"),
    }
    cells.update((f"descr_{d.short}", id(d.np)) for d in dtypes.ALL)
    cells["parallel"] = parallel()
    return cells


def make_callable(kernel: Any, cells: int, call: int, run: int) -> Callable[..., None]:
    """Python callable for loaded code (addresses of p_cells, p_call, p_run)."""
    slow = _ctypes_path(kernel, run)
    values = {**_process_cells(), "fallback": id(slow)}
    memory = (ctypes.c_void_p * len(CELLS)).from_address(cells)
    for k, name in enumerate(CELLS):
        memory[k] = values.get(name, 0)
    if not layout_is_known():
        return slow
    definition = _MethodDef(kernel.name.encode(), call, _METH_FASTCALL, None)
    new = ctypes.pythonapi.PyCFunction_NewEx
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    _keep.append((slow, definition))
    return new(ctypes.addressof(definition), None, None)


def _ctypes_path(kernel: Any, run: int) -> Callable[..., None]:
    """The same call in Python: checks every argument, accepts array subclasses and equal dtypes."""
    native = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(run)  # releases the GIL
    passed = [p for p in kernel.params if not (isinstance(p, SizeParam) and p.source)]
    names = slot_names(kernel)
    place = {n: k for k, n in enumerate(names)}
    scratch = [s for s in kernel.scratch if s.scope != "row"]

    def call(*args: Any) -> None:
        if len(args) != len(passed):
            raise TypeError(f"kernel {kernel.name}: expected {len(passed)} arguments, got {len(args)}")
        ctx = (ctypes.c_int64 * (len(names) + 3))()
        arrays = {}
        for p, a in zip(passed, args, strict=False):
            if isinstance(p, ArrayParam):
                if not isinstance(a, np.ndarray) or a.dtype != p.dtype.np or not a.dtype.isnative:
                    raise TypeError(
                        f"kernel {kernel.name}: {p.name} must be an array of {p.dtype.name}, got "
                        f"{a.dtype if isinstance(a, np.ndarray) else type(a).__name__}"
                    )
                arrays[p.name] = a
                ctx[place[p.name]] = a.ctypes.data
            elif isinstance(p, ScalarParam) and p.dtype.category == 2:
                ctx[place[p.name]] = struct.unpack("q", struct.pack("d", float(a)))[0]
            else:
                ctx[place[p.name]] = (int(a.__index__()) + (1 << 63)) % (1 << 64) - (1 << 63)
        for p in kernel.params:
            if isinstance(p, SizeParam) and p.source:
                array, what, axis = p.source
                a = arrays[array]
                if axis >= a.ndim:
                    raise TypeError(f"kernel {kernel.name}: {array} must have more than {axis} dimensions")
                ctx[place[p.name]] = a.shape[axis] if what == "shape" else a.strides[axis] // a.itemsize
        temporaries = [np.empty(max(s.size, 1), s.dtype.np) for s in scratch]
        for s, t in zip(scratch, temporaries, strict=False):
            ctx[place[s.name]] = t.ctypes.data
        native(ctypes.addressof(ctx), _threads.value)
        code, index, size = ctx[len(names) :]
        if code:
            raise IndexError(kernel.errors[code - 1].replace("{index}", str(index)).replace("{size}", str(size)))

    call.__name__ = kernel.name
    return call
