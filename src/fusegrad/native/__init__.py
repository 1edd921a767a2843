"""Kernels as machine code: `compile_kernel(kernel, options) -> callable`."""

from __future__ import annotations

import functools
import hashlib
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import meter
from .launch import get_num_threads, set_num_threads

if TYPE_CHECKING:
    from .nest import Kernel
    from .params import Face

_loaded: dict[str, Callable[..., None]] = {}
_busy: dict[str, threading.Lock] = {}
_guard = threading.Lock()


@functools.lru_cache(maxsize=1)
def code_version() -> str:
    """Hash of the sources that decide what machine code a kernel becomes: an edited compiler finds no old entries."""
    here = os.path.dirname(os.path.abspath(__file__))
    files: list[str] = []
    for folder in (here, os.path.join(here, "vecmath")):
        files += sorted(os.path.join(folder, f) for f in os.listdir(folder) if f.endswith(".py"))
    total = hashlib.sha256()
    for name in files:
        with open(name, "rb") as file:
            total.update(file.read())
    return total.hexdigest()


def kernel_key(kernel: Kernel, codegen: str = "llvm") -> str:
    """Content hash: what the kernel computes, not what it is called; plus everything that decides the code."""
    import fusegrad

    from . import jit

    text = kernel.text().split("(", 1)[1]
    facts = [text, getattr(fusegrad, "__version__", "0"), jit.versions(), jit.target_name(), codegen, code_version()]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()


def compile_kernel(kernel: Kernel, options: Any = None) -> Callable[..., None]:
    """Machine code of a kernel as a callable; see nest.py for the calling convention.

    options: fusegrad.compiler Options (or anything with `codegen` and `cache`), None for the defaults.
    Equal kernels share one callable; each is compiled once, whatever the number of threads asking.
    """
    return prepare(kernel, options)[1]


def prepare(kernel: Kernel, options: Any = None) -> tuple[str, Callable[..., None]]:
    """(key in the disk cache, callable) of a kernel; see ``compile_kernel``."""
    with meter.phase("kernels"):
        return _find(kernel, options)


def load_kernel(face: Face) -> Callable[..., None] | None:
    """The callable of a kernel that was compiled before, known by its key; None if its machine code is gone."""
    with meter.phase("kernels"):
        found = _loaded.get(face.key)
        if found is None:
            with _lock_of(face.key):
                found = _loaded.get(face.key) or _from_disk(face, face.key)
                if found is not None:
                    _loaded[face.key] = found
        return found


def _lock_of(key: str) -> threading.Lock:
    with _guard:
        return _busy.setdefault(key, threading.Lock())


def _find(kernel: Kernel, options: Any) -> tuple[str, Callable[..., None]]:
    codegen = getattr(options, "codegen", "llvm")
    if codegen not in ("llvm", "numba"):
        raise ValueError(f"codegen must be 'llvm' or 'numba', not {codegen!r}")
    key = kernel_key(kernel, codegen)
    if key not in _loaded:
        with _lock_of(key):
            if key not in _loaded:
                _loaded[key] = _compile(kernel, key, codegen, getattr(options, "cache", True))
    return key, _loaded[key]


def prefix(key: str) -> str:
    """What the names in a kernel's object code begin with."""
    return f"fg_{key[:32]}"


def symbols(key: str) -> list[str]:
    """The names that a kernel's object code exports."""
    return [f"{prefix(key)}_{name}" for name in ("cells", "call", "run")]


def _from_disk(kernel: Kernel | Face, key: str) -> Callable[..., None] | None:
    from . import cache, jit
    from .launch import make_callable

    code = cache.get(f"kernel {key}")
    if code is None:
        return None
    try:
        loaded = make_callable(kernel, *jit.load(code, symbols(key)))
    except RuntimeError:  # damaged in a way the checksum cannot see: compile again
        return None
    meter.HITS["kernels"] += 1
    return loaded


def _compile(kernel: Kernel, key: str, codegen: str, cached: bool) -> Callable[..., None]:
    """From the disk cache, else compiled and stored."""
    kernel.verify()
    if codegen == "numba":
        from .numba_module import compile_numba

        return compile_numba(kernel, prefix(key))
    found = _from_disk(kernel, key) if cached else None
    if found is not None:
        return found
    from . import cache, jit
    from .launch import make_callable
    from .llvm_module import print_module

    code = jit.compile_text(print_module(kernel, prefix(key)))
    if cached:
        cache.put(f"kernel {key}", code)
    return make_callable(kernel, *jit.load(code, symbols(key)))


def accumulators(options: Any = None) -> int:
    """Vectors of 64 bytes that a native loop may keep in registers; 0 where convolutions are not printed as loops."""
    from . import jit

    return jit.accumulators() if getattr(options, "codegen", "llvm") == "llvm" else 0


def source(kernel: Kernel, codegen: str = "numba") -> str:
    """The kernel as code: "numba" (readable Python), "llvm" (IR text) or "asm" (machine code of this processor)."""
    if codegen == "numba":
        from .numba_module import source as numba_source

        return numba_source(kernel)
    from . import jit
    from .llvm_module import print_module

    text = print_module(kernel, "kernel")
    return jit.assembly(text) if codegen == "asm" else text


__all__ = [
    "accumulators", "compile_kernel", "get_num_threads", "kernel_key", "load_kernel", "prepare", "set_num_threads",
    "source",
]  # fmt: skip
