"""What the functions passed to control flow may not do, and how it is noticed.

A branch or a body is a pure function of its arguments and of the tensors it closes over: it changes none of them in
place, and what it returns lives in memory of its own. So that a loop can be one step of a compiled graph, its carried
values keep structure, shape and dtype.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from .. import pytree
from ..errors import ControlFlowError
from ..nn.module import Module
from ..tensor import Tensor

NUMBERS = (bool, int, float)
_DEPTH = 3  # containers and functions inside of what a function closes over


def leaves_of(tree: Any, what: str) -> list[Any]:
    """The leaves of ``tree``: tensors and numbers. RuntimeError for anything else."""
    leaves = pytree.tree_leaves(tree)
    for leaf in leaves:
        if not isinstance(leaf, Tensor) and not is_number(leaf):
            raise RuntimeError(
                f"{what} must be tensors or numbers in tuples, lists or dicts, got {type(leaf).__name__}"
            )
    return leaves


def is_number(x: Any) -> bool:
    """Whether ``x`` is a Python number (a symbolic one included)."""
    return isinstance(x, NUMBERS) or hasattr(x, "hint")


def recorder(leaves: Iterable[Any]) -> Any:
    """The handler that records a graph, if one of the tensors is in a graph; None in eager code and under vmap."""
    for t in leaves:
        if isinstance(t, Tensor) and t._data is None and hasattr(t._g.handler, "record_control"):
            return t._g.handler
    return None


def truth(pred: Any) -> bool:
    """The value of a predicate that is a Python number or a tensor of one element."""
    return bool(pred)


# ---- structure and types


def kind_of(x: Any) -> str:
    """A leaf's type as messages show it."""
    if isinstance(x, Tensor):
        return f"{x.dtype.name}[{', '.join(map(str, x.shape))}]"
    return type(x).__name__ if not hasattr(x, "hint") else type(x.hint).__name__


def same_kind(a: Any, b: Any) -> bool:
    """Whether two leaves have the same shape and dtype, or are numbers of one type."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        x, y = a._data, b._data
        if x is not None and y is not None:
            return x.shape == y.shape and x.dtype is y.dtype
        return a.dtype is b.dtype and len(a.shape) == len(b.shape) and all(_equal(a.shape, b.shape))
    return kind_of(a) == kind_of(b) and not isinstance(a, Tensor) and not isinstance(b, Tensor)


def _equal(a: Iterable, b: Iterable) -> Iterable[bool]:
    return (bool(x == y) for x, y in zip(a, b, strict=True))


def need_same(want: Any, got: Any, first: str, second: str) -> None:
    """ControlFlowError unless the trees ``want`` (called ``first``) and ``got`` agree in structure, shapes, dtypes."""
    if type(want) is Tensor and type(got) is Tensor and same_kind(want, got):
        return
    have, spec = pytree.tree_flatten(want)
    leaves, other = pytree.tree_flatten(got)
    if spec != other:
        raise ControlFlowError(
            f"Expected {first} and {second} to have the same structure, but found: {spec} and {other}"
        )
    for i, (a, b) in enumerate(zip(have, leaves, strict=True)):
        if not same_kind(a, b):
            raise ControlFlowError(
                f"Expected {first} and {second} to have same metadata (shape and dtype), but found for leaf {i}: "
                f"{kind_of(a)} and {kind_of(b)}"
            )


# ---- purity


def captured_tensors(fn: Any) -> list[Tensor]:
    """Tensors that a function can reach besides its arguments: closures, defaults, globals it names, a module's own."""
    found: dict[int, Tensor] = {}
    _reach(fn, found, set(), 0)
    return list(found.values())


def _reach(x: Any, found: dict[int, Tensor], seen: set[int], depth: int) -> None:
    if isinstance(x, Tensor):
        found[id(x)] = x
        return
    if id(x) in seen or depth > _DEPTH:
        return
    inner: Iterable[Any] = ()
    if isinstance(x, Module):
        inner = [*x.parameters(), *x.buffers()]
    elif isinstance(x, types.FunctionType):
        inner = _of_function(x)
    elif isinstance(x, types.MethodType):
        inner = (x.__self__, x.__func__)
    elif isinstance(x, functools.partial):
        inner = (x.func, x.args, x.keywords)
    elif isinstance(x, (list, tuple)):
        inner = x
    elif isinstance(x, dict):
        inner = list(x.values())
    else:
        return
    seen.add(id(x))
    for item in inner:
        if isinstance(
            item, (Tensor, Module, types.FunctionType, types.MethodType, functools.partial, list, tuple, dict)
        ):
            _reach(item, found, seen, depth + 1)


def _of_function(fn: types.FunctionType) -> list[Any]:
    out: list[Any] = [fn.__defaults__ or (), fn.__kwdefaults__ or {}]
    for cell in fn.__closure__ or ():
        try:
            out.append(cell.cell_contents)
        except ValueError:  # not filled yet
            continue
    if (fn.__module__ or "").split(".")[0] != "fusegrad":
        out += [fn.__globals__[n] for n in fn.__code__.co_names if n in fn.__globals__]
    return out


class Purity:
    """Watches one call of a control flow function: versions of the tensors that its bodies can reach."""

    def __init__(self, what: str, operands: Iterable[Any], *fns: Any) -> None:
        self.what = what
        tensors = {id(t): t for t in operands if isinstance(t, Tensor)}
        for fn in fns:
            tensors.update((id(t), t) for t in captured_tensors(fn))
        self.tensors = list(tensors.values())
        self.versions = [version_of(t) for t in self.tensors]

    def unchanged(self) -> None:
        """ControlFlowError if one of the tensors was changed in place since."""
        for t, v in zip(self.tensors, self.versions, strict=True):
            if version_of(t) != v:
                raise mutated(self.what, t)

    def apart(self, out: Any, more: Iterable[Any] = ()) -> None:
        """ControlFlowError if a result shares memory with an input, a closed-over tensor or ``more``."""
        results = [t for t in pytree.tree_leaves(out) if isinstance(t, Tensor)]
        others = [*self.tensors, *(t for t in more if isinstance(t, Tensor))]
        for i, t in enumerate(results):
            if any(shares(t, o) for o in others):
                self.unchanged()  # an in-place form returns what it changed: that is the fault to name
                raise ControlFlowError(
                    f"{self.what}: a result of type {kind_of(t)} aliases an input (or a tensor that the function "
                    "closes over): return a copy, with clone()"
                )
            if any(shares(t, o) for o in results[:i]):
                raise ControlFlowError(f"{self.what}: two results alias each other: return a copy, with clone()")


def version_of(t: Tensor) -> int:
    """How often the memory of ``t`` was changed in place."""
    return t._st.version if t._st is not None else 0


def mutated(what: str, t: Any) -> ControlFlowError:
    """The error for an in-place change inside of a body."""
    return ControlFlowError(
        f"{what}: the function changes in place a tensor that it did not make (of type {kind_of(t)}): inputs and "
        "closed-over tensors must stay as they are. Compute a new value and return it."
    )


def shares(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors share memory."""
    if a is b or (a._st is not None and a._st is b._st):
        return True
    x, y = a._data, b._data
    if x is None or y is None:
        same = x is None and y is None and getattr(a._g, "cell", None)
        return same is not None and same is not False and same is getattr(b._g, "cell", None)
    return bool(x.size and y.size and np.may_share_memory(x, y))


def need_callable(fn: Callable[..., Any], message: str) -> None:
    """RuntimeError unless ``fn`` can be called."""
    if not callable(fn):
        raise RuntimeError(message)
