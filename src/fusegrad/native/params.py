"""What a caller sees of a kernel: its parameters, the memory it works in, the texts of its errors.

Apart from the nests (``nest.py``), so that machine code from the disk cache is called without importing the compiler.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from fusegrad.dtypes import BY_SHORT, dtype

__all__ = ["ArrayParam", "Face", "ScalarParam", "Scratch", "SizeParam", "slot_names"]


class ArrayParam(NamedTuple):
    """An array argument. `written`: some store goes to it."""

    name: str
    dtype: dtype
    written: bool = False


class ScalarParam(NamedTuple):
    """A Python number argument, read as `dtype` (float64, float32, int64 or bool; a float where an int is due:
    TypeError)."""

    name: str
    dtype: dtype


class SizeParam(NamedTuple):
    """An int64 for sizes and strides: passed as a Python int, or with source = (array name, "shape" | "stride", axis)
    read from that array at the call (stride in elements) and then not passed."""

    name: str
    source: tuple[str, str, int] | None = None


class Scratch(NamedTuple):
    """Temporary memory on the stack, `size` elements, not initialised.  scope "row": private to one outer point, dead
    after it; "kernel": shared by all nests of one call (makes the call single-threaded; for small temporaries between
    nests); "parts": likewise, but each outer point writes elements of its own, so that threads may share the nests."""

    name: str
    dtype: dtype
    size: int
    scope: str = "row"


class Face(NamedTuple):
    """A kernel without its nests. `key`: of its machine code in the disk cache."""

    name: str
    params: tuple[ArrayParam | ScalarParam | SizeParam, ...]
    scratch: tuple[Scratch, ...]
    errors: tuple[str, ...]
    key: str = ""


def slot_names(kernel: Any) -> list[str]:
    """Names in the order of the memory that a kernel reads them from: parameters, then scratch that nests share."""
    return [p.name for p in kernel.params] + [s.name for s in kernel.scratch if s.scope != "row"]


# -- as plain data


def face_to_plain(kernel: Any, key: str) -> list[Any]:
    """A kernel's face (of a Kernel or a Face) as lists, strings and numbers."""
    params: list[Any] = []
    for p in kernel.params:
        if isinstance(p, ArrayParam):
            params.append(["array", p.name, p.dtype.short, p.written])
        elif isinstance(p, ScalarParam):
            params.append(["scalar", p.name, p.dtype.short])
        else:
            params.append(["size", p.name, None if p.source is None else list(p.source)])
    scratch = [[s.name, s.dtype.short, s.size, s.scope] for s in kernel.scratch]
    return [kernel.name, params, scratch, list(kernel.errors), key]


def face_from_plain(data: list[Any]) -> Face:
    """What ``face_to_plain`` wrote."""
    name, params, scratch, errors, key = data
    made: list[Any] = []
    for kind, label, *rest in params:
        if kind == "array":
            made.append(ArrayParam(label, BY_SHORT[rest[0]], rest[1]))
        elif kind == "scalar":
            made.append(ScalarParam(label, BY_SHORT[rest[0]]))
        else:
            made.append(SizeParam(label, None if rest[0] is None else tuple(rest[0])))
    kept = tuple(Scratch(n, BY_SHORT[d], size, scope) for n, d, size, scope in scratch)
    return Face(name, tuple(made), kept, tuple(errors), key)
