"""Library functions made around something of the user's: ``g = func.grad(loss)``, ``func.vmap(model)``.

They run for real on graph tensors, but what they enclose is the program's: a function among it is evaluated (its own
reads are guarded), numbers and words are guarded. What was made during this capture encloses callbacks already.
"""

from __future__ import annotations

import functools
import types
from typing import Any

from fusegrad.nn.module import Module
from fusegrad.sizes import SymInt
from fusegrad.tensor import Tensor

from . import breaks
from .breaks import Break
from .values import CellRef

__all__ = ["as_enclosing"]

_PLAIN = (int, float, str, bool, type(None), tuple)


def as_enclosing(ev: Any, fn: types.FunctionType) -> types.FunctionType:
    """``fn``, or a copy of it whose closure holds callbacks for functions of the program's.

    Break (clean) if it encloses what can't be followed, for example the tensors in the function that ``vjp`` gives.
    """
    if not fn.__closure__ or id(fn) in ev.made:
        return fn
    known = ev.enclosing.get(id(fn))
    if known is None:
        outside = ev.cap.origin.get(id(fn)) is not None
        found = _encloses(ev, fn, outside, set())
        known = ev.enclosing[id(fn)] = _copy(ev, fn) if found else fn
        ev.cap.keep.append((fn, known))
    return known


def _encloses(ev: Any, fn: types.FunctionType, tensors: bool, seen: set[int]) -> bool:
    """Whether something of the program's stands in the closure; ``tensors``: count tensors as well."""
    seen.add(id(fn))
    return any(_theirs(ev, content, tensors, seen) for content in map(_content, fn.__closure__ or ()))


def _theirs(ev: Any, v: Any, tensors: bool, seen: set[int]) -> bool:
    t = type(v)
    if t is types.FunctionType:
        if id(v) in seen or id(v) in ev.made:
            return False
        return ev.kind_of(v) != "real" or _encloses(ev, v, tensors, seen)
    if t is types.MethodType:
        return _theirs(ev, v.__func__, tensors, seen) or isinstance(v.__self__, Module)
    if t in (list, tuple):
        return any(_theirs(ev, x, tensors, seen) for x in v)
    if issubclass(t, Tensor):
        return tensors
    return t is functools.partial or issubclass(t, Module)


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _copy(ev: Any, fn: types.FunctionType) -> types.FunctionType:
    if ev.cap.origin.get(id(fn)) is None:
        ev.cap.origin[id(fn)] = ev.cap.const(fn)
    cells = tuple(_cell(ev, fn, k, cell) for k, cell in enumerate(fn.__closure__ or ()))
    new = types.FunctionType(fn.__code__, fn.__globals__, fn.__name__, fn.__defaults__, cells)
    new.__kwdefaults__, new.__qualname__, new.__module__ = fn.__kwdefaults__, fn.__qualname__, fn.__module__
    return new


def _cell(ev: Any, fn: types.FunctionType, k: int, cell: types.CellType) -> types.CellType:
    """The cell that stands for the k-th of ``fn``."""
    content = _content(cell)
    t = type(content)
    if id(content) in ev.made:
        return cell
    if not (t in _PLAIN or t in (types.FunctionType, types.MethodType, functools.partial) or issubclass(t, Module)):
        if (t.__module__ or "").startswith("fusegrad.") and not issubclass(t, Tensor):
            return cell  # a table entry, a structure of arguments
        raise Break(breaks.CALL, f"call of a function that encloses a {t.__name__}", clean=True)
    if t is types.FunctionType and ev.kind_of(content) == "real" and not _encloses(ev, content, True, set()):
        return cell
    ref = ev.closure_cell(fn, k)
    if type(ref) is not CellRef:
        return cell
    value = ev.cap.realize(content, ref.source.attr("cell_contents"))
    if type(value) is SymInt:
        value = int(value)
    return types.CellType(ev.native(value))
