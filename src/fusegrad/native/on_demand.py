"""Kernels of eager operators: compiled when they are first called, one piece of machine code for each dtype.

Machine code comes from the disk cache where it is there, with the kernel's face, so that neither the definition nor the
printers are imported. Where no machine code can be had (llvmlite does not load, say), a kernel is ``None`` for the life
of the process, and operators do with numpy.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from fusegrad.dtypes import FROM_NUMPY, dtype, float32, float64

if TYPE_CHECKING:
    from .nest import Kernel

__all__ = ["OnDemand", "defined"]

_lock = threading.RLock()
if hasattr(os, "register_at_fork"):  # a child must not inherit the lock held by another thread
    os.register_at_fork(after_in_child=lambda: globals().__setitem__("_lock", threading.RLock()))


class OnDemand(dict[np.dtype, Callable[..., None] | None]):
    """``kernels[array.dtype]``: the callable for arrays of this dtype (one of ``kinds``), or None.

    ``define(dtype)`` gives the kernel; ``name`` stands for the definition, in the disk cache too, so that each has a
    name of its own.
    """

    __slots__ = ("name", "define", "kinds")

    def __init__(
        self, name: str, define: Callable[[dtype], Kernel], kinds: tuple[dtype, ...] = (float32, float64)
    ) -> None:
        super().__init__()
        self.name, self.define, self.kinds = name, define, kinds

    def __missing__(self, kind: np.dtype) -> Callable[..., None] | None:
        d = FROM_NUMPY.get(kind) if kind.isnative else None
        with _lock:
            if kind not in self:
                self[kind] = _made(self.name, d, self.define) if d in self.kinds else None
            return self[kind]

    def __reduce__(self) -> Any:
        raise TypeError(f"the kernels of {self.name} are not pickled")


def defined(module: str, name: str, *args: Any, kinds: tuple[dtype, ...] = (float32, float64)) -> OnDemand:
    """The kernels that a module of this package defines under a name, for these arguments."""

    def define(d: dtype) -> Kernel:
        from importlib import import_module

        return getattr(import_module(f"{__package__}.{module}"), name)(d, *args)

    return OnDemand(" ".join(map(str, (module, name, *args))), define, kinds)


def _made(name: str, d: dtype, define: Callable[[dtype], Kernel]) -> Callable[..., None] | None:
    """The callable, from the disk cache or compiled; None where machine code cannot be made or loaded."""
    try:
        from . import cache, jit, symbols
        from .launch import make_callable

        key = hashlib.sha256(f"{name} {d.short} {_environment()}".encode()).hexdigest()
        stored = cache.get(f"eager {key}", quiet=True)
        face, code = _read(stored) if stored else (None, b"")
        if face is None:
            kernel = define(d)
            code = _compiled(kernel, key)
            face = kernel
            cache.put(f"eager {key}", _written(kernel, key, code), quiet=True)
        return make_callable(face, *jit.load(code, symbols(key)))
    except (ImportError, OSError, RuntimeError, AttributeError) as error:
        _warn_once(f"{name} ({type(error).__name__}: {error})")
        return None


_warned: list[str] = []


def _warn_once(what: str) -> None:
    """One word for all kernels: where one fails, most do."""
    if not _warned:
        from fusegrad.errors import warn

        _warned.append(what)
        warn(f"fusegrad: no machine code for {what}; numpy is used", RuntimeWarning)


@functools.lru_cache(maxsize=1)
def _environment() -> str:
    """All that machine code depends on, but for the definition's name: sources, versions, processor."""
    from . import code_version, jit

    total = hashlib.sha256(code_version().encode())
    folder = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "ops")
    for file in sorted(os.listdir(folder)):  # elementwise kernels are made of scalar rules
        if file.endswith(".py"):
            with open(os.path.join(folder, file), "rb") as f:
                total.update(f.read())
    return f"{total.hexdigest()} {np.__version__} {jit.versions()} {jit.target_name()}"


def _compiled(kernel: Kernel, key: str) -> bytes:
    from . import jit, prefix
    from .llvm_module import print_module

    kernel.verify()
    return jit.compile_text(print_module(kernel, prefix(key)))


def _written(kernel: Kernel, key: str, code: bytes) -> bytes:
    from .params import face_to_plain

    return json.dumps(face_to_plain(kernel, key)).encode() + b"\n" + code


def _read(data: bytes) -> tuple[Any, bytes]:
    from .params import face_from_plain

    head, _, code = data.partition(b"\n")
    try:
        return face_from_plain(json.loads(head)), code
    except (ValueError, TypeError, KeyError):  # damaged in a way the checksum cannot see: made again
        return None, b""
