"""Operators that run outside of kernels: matrix products go to BLAS, everything else to the operator's eager kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from fusegrad.dispatch import run_kernel
from fusegrad.sizes import SymInt, evaluate
from fusegrad.tensor import Tensor, wrap

from ..ir.graph import Node, Value

__all__ = ["extern_call", "is_blas"]

_PRODUCTS = ("matmul", "mm", "bmm")


def is_blas(node: Node | None) -> bool:
    """A product of floating point matrices (vectors, stacks of matrices), which may be written straight into a
    planned buffer.
    """
    if (
        node is None
        or node.op.name not in _PRODUCTS
        or len(node.args) != 2
        or not all(isinstance(a, Value) for a in node.args)
    ):
        return False
    a, b = (arg.meta for arg in node.args)
    if (
        a.dtype is not b.dtype
        or a.dtype.name not in ("float32", "float64")
        or node.outputs[0].meta.dtype is not a.dtype
    ):
        return False
    return len(a.shape) >= 1 and len(b.shape) >= 1 and not a.weak and not b.weak


def concrete(value: Any, env: dict[str, int]) -> Any:
    """Sizes replaced by ints."""
    if isinstance(value, SymInt):
        return evaluate(value, env)
    if isinstance(value, (tuple, list)):
        return type(value)(concrete(v, env) for v in value)
    if isinstance(value, slice):
        return slice(concrete(value.start, env), concrete(value.stop, env), concrete(value.step, env))
    return value


def _has_sizes(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return any(_has_sizes(v) for v in value)
    if isinstance(value, slice):
        return _has_sizes((value.start, value.stop, value.step))
    return isinstance(value, SymInt)


def extern_call(node: Node) -> Callable[..., Any]:
    """``call(arrays, sizes, seed, draw)``: the results as fresh C-contiguous arrays of the declared dtypes.

    ``arrays``: one entry for each ``Value`` among the node's arguments, in order (arrays, or numbers for weak values).
    """
    op, dtypes = node.op, [v.meta.dtype.np for v in node.outputs]
    fixed = not _has_sizes(tuple(node.attrs.values())) and "draw" not in node.attrs
    single = len(node.outputs) == 1

    def call(arrays: tuple, env: dict[str, int], seed: int = 0, draw: int = 0) -> Any:
        attrs = dict(node.attrs)
        if not fixed:
            attrs = {k: concrete(v, env) for k, v in attrs.items()}
            if "draw" in attrs:
                attrs["seed"], attrs["draw"] = seed, attrs["draw"] + draw
        left = iter(arrays)
        args = tuple(_argument(a, left, env) for a in node.args)
        if op.kind == "pointwise" and not any(isinstance(a, Tensor) for a in args):
            args = (_number(args[0]), *args[1:])
        out = run_kernel(op, args, attrs)
        outs = out if isinstance(out, tuple) else (out,)
        if single:
            return _own(outs[0]._data, dtypes[0], arrays)
        results: list[np.ndarray] = []
        for t, d in zip(outs, dtypes, strict=True):
            results.append(_own(t._data, d, (*arrays, *results)))
        return tuple(results)

    if not (fixed and single and _is_plain(node)):
        return call
    kernel, fixed_attrs, dtype = op.kernel, dict(node.attrs), dtypes[0]

    def direct(arrays: tuple, env: dict[str, int], seed: int = 0, draw: int = 0) -> Any:
        """The kernel on the arrays as they are; the other form says what was wrong with them."""
        try:
            out = kernel(*arrays, **fixed_attrs)
        except Exception:
            return call(arrays, env, seed, draw)
        return _own(out, dtype, arrays) if type(out) is np.ndarray else call(arrays, env, seed, draw)

    return direct


def _is_plain(node: Node) -> bool:
    """Whether nothing has to be done to the arguments: arrays, of which none is cast, checked or in a list."""
    op = node.op
    return (
        op.kind == "extern"
        and op.promote == "none"
        and op.fields.get("refuse") is None
        and all(isinstance(a, Value) and not a.meta.weak for a in node.args)
    )


def _number(value: Any) -> Tensor:
    """Operators need one tensor among their arguments."""
    return wrap(np.asarray(value, np.float64 if isinstance(value, float) else None))


def _argument(arg: Any, left: Any, env: dict[str, int]) -> Any:
    if isinstance(arg, Value):
        given = next(left)
        return wrap(given) if isinstance(given, np.ndarray) else given
    if isinstance(arg, (list, tuple)):
        return tuple(_argument(a, left, env) for a in arg)
    return concrete(arg, env)


def _own(array: np.ndarray, dtype: Any, others: Iterable[Any]) -> np.ndarray:
    """The result in the declared dtype, contiguous, writable, and in memory that no argument or other result has."""
    if array.dtype != dtype or not array.flags.c_contiguous or not array.flags.writeable:
        return np.array(array, dtype=dtype, order="C")
    for other in others:
        if array is other:
            return array.copy()
        if not isinstance(other, np.ndarray) or (array.base is None and other.base is not array):
            continue  # memory of its own, or that nothing else here is a view of
        if np.may_share_memory(array, other):
            return array.copy()
    return array
