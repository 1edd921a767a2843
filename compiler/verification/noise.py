"""How far rounding alone may take a result: the recorded graph run several times, on eager operators, with errors of a
rounding's size put into every inexact result (Monte Carlo arithmetic).

Compiled code rounds elsewhere than eager code: other orders of summation, fused multiply-adds, other polynomials. Where
the program is well conditioned both agree closely; where it is not (a difference of nearly equal numbers, a comparison
at the edge) they may be far apart without a fault. The spread of the noisy runs tells the two cases apart without a
bound for every operator. The error put on a number depends on its bits, the node and the run, so equal numbers stay
equal: ties are still ties.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np

from fusegrad.dtypes import dtype as DType
from fusegrad.native.scalar import b, walk
from fusegrad.tensor import Tensor, wrap

from ..ir.graph import Graph, Node
from ..ir.interp import Run
from ..ir.interp import run as interpret
from ..passes.decompose import decompose, splits
from .compare import TOLERANCES, same, within

__all__ = ["agree", "exact", "put_noise"]

ROUNDINGS = 4.0  # errors of a pointwise operator, in units of rounding
RUNS = 28  # noisy runs before a difference is reported

# scalar primitives whose result is the same number however it is computed
_EXACT = frozenset(
    "const size index load scalar cast bitcast neg abs sign floor ceil trunc round isnan isinf isfinite not not_ lt le "
    "gt ge eq ne and_ or_ xor shl shr lshr maximum minimum where check table random_word uniform".split()
)
_EXACT_REDUCTIONS = ("max", "min", "and", "or", "argmax", "argmin")


def exact(node: Node) -> bool:
    """Whether a node's results do not depend on how it is computed (copies, comparisons, choices, integers)."""
    if not any(v.meta.dtype.is_floating_point for v in node.outputs):
        return True
    op = node.op
    if op.kind == "view" or op.name in ("full", "zeros", "empty", "eye", "cast"):
        return True
    if op.kind == "gather":
        return not any(word in op.name for word in ("add", "reduce", "backward"))
    if op.kind == "reduce":
        rule = getattr(op, "reduce", None)
        return rule is not None and getattr(rule, "combine", "add") in _EXACT_REDUCTIONS
    if op.kind == "random":
        return op.name in ("rand", "bernoulli", "randperm")
    if op.kind == "pointwise":
        kinds = tuple(_dtype_of(a) for a in node.args)
        return _exact_scalar(op, kinds, _hashable(node.attrs))
    return False


def _dtype_of(arg: Any) -> Any:
    meta = getattr(arg, "meta", None)
    return meta.dtype if meta is not None else arg if isinstance(arg, (bool, int, float)) else None


def _hashable(attrs: dict[str, Any]) -> tuple:
    return tuple(sorted((k, v) for k, v in attrs.items() if isinstance(v, (bool, int, float, str))))


@functools.lru_cache(4096)
def _exact_scalar(op: Any, kinds: tuple, attrs: tuple) -> bool:
    """Whether the loop expression of a pointwise operator is made of exact primitives."""
    try:
        xs = [b.scalar(f"x{i}", k) if isinstance(k, DType) else k for i, k in enumerate(kinds)]
        made = op.scalar(b, *xs, **dict(attrs))
        return all(e.op in _EXACT for e in walk([made]))
    except Exception:
        return False  # not known to be exact


def _noise(array: np.ndarray, size: float, salt: int) -> np.ndarray:
    """``array`` with relative errors of up to ``size``, a function of the elements' bits and ``salt``."""
    bits = np.ascontiguousarray(array).view(f"u{array.itemsize}").astype(np.uint64)
    h = (bits + np.uint64(salt & (1 << 63) - 1)) * np.uint64(0x9E3779B97F4A7C15)
    h ^= h >> np.uint64(29)
    h *= np.uint64(0xBF58476D1CE4E5B9)
    h ^= h >> np.uint64(32)
    error = (h >> np.uint64(11)).astype(np.float64) * 2.0**-52 - 1.0
    with np.errstate(all="ignore"):
        return (array.astype(np.float64) * (1.0 + size * error)).astype(array.dtype).reshape(array.shape)


def _terms(node: Node, args: tuple) -> float:
    """Roughly how many numbers one element of the result is a sum of."""
    sizes = [t._data for a in args for t in (a if isinstance(a, tuple) else (a,)) if isinstance(t, Tensor)]
    most = max((a.size for a in sizes), default=1)
    longest = max((max(a.shape, default=1) for a in sizes), default=1)
    return float(max(longest, min(most, 1 << 24) if node.op.kind == "reduce" else longest))


class NoisyRun(Run):
    """A run with errors in every inexact result; ``salt`` tells runs apart."""

    salt = 0

    def apply(self, node: Node, args: tuple, attrs: dict[str, Any]) -> Any:
        self.count = getattr(self, "count", 0) + 1
        if exact(node):
            return super().apply(node, args, attrs)
        size = ROUNDINGS
        if node.op.kind not in ("pointwise", "create", "random"):
            size += _terms(node, args) ** 0.5
            args = tuple(self._noisy(a, size) for a in args)
        out = super().apply(node, args, attrs)
        return tuple(self._noisy(t, size) for t in out) if isinstance(out, (tuple, list)) else self._noisy(out, size)

    def _noisy(self, value: Any, size: float) -> Any:
        if isinstance(value, tuple):
            return tuple(self._noisy(v, size) for v in value)
        if not isinstance(value, Tensor) or value._data.dtype.kind != "f":
            return value
        unit = TOLERANCES[value._data.dtype.name].unit
        return wrap(_noise(value._data, size * unit, self.salt * 1_000_003 + self.count * 7919))


def agree(graph: Graph, args: list[Any], eager: list[Any], compiled: list[Any]) -> list[np.ndarray]:
    """For each result, where compiled and eager agree but for rounding. Numbers count as 0-d arrays.

    More runs only ever allow more, so they end as soon as nothing is left to explain.
    """
    eager, compiled = [np.asarray(e) for e in eager], [np.asarray(c) for c in compiled]
    found = [within(e, c) for e, c in zip(eager, compiled, strict=True)]
    if all(ok.all() for ok in found):
        return found
    spreads = [_Spread(e, c, ok) for e, c, ok in zip(eager, compiled, found, strict=True)]
    for salt, form, clean in _runs(graph, args, eager):
        _one_noisy_run(form, args, salt, clean, spreads)
        found = [spread.agree() for spread in spreads]
        if all(ok.all() for ok in found):
            break
    return found


def _runs(graph: Graph, args: list[Any], eager: list[np.ndarray]) -> Iterator[tuple[int, Graph, list[np.ndarray]]]:
    """The noisy runs to make: (salt, graph, what that gives without noise)."""
    apart = None
    for salt in range(1, RUNS + 1):
        yield salt, graph, eager
        if apart is None:
            apart = _apart(graph, args)
        for form, clean in apart:
            yield salt, form, clean


def _apart(graph: Graph, args: list[Any]) -> list[tuple[Graph, list[np.ndarray]]]:
    """The graph with composite operators taken apart, if it has any: roundings inside of them count as well.

    With what it gives without noise, from which its spread is measured: a wrong decomposition has no spread.
    """
    if any(splits(node.op) for node in graph.nodes):
        try:
            apart = decompose(graph)
            with np.errstate(all="ignore"):
                return [(apart, [np.asarray(out) for out in interpret(apart, args)])]
        except Exception:
            pass  # whatever is wrong with it, it can't excuse a difference
    return []


class _Spread:
    """How far noisy runs take one result, and where they reach the compiled one exactly."""

    def __init__(self, eager: np.ndarray, compiled: np.ndarray, found: np.ndarray) -> None:
        self.eager, self.compiled, self.found = eager, compiled, found
        self.size = np.zeros(eager.shape) if eager.dtype.kind == "f" else None

    def add(self, out: np.ndarray, clean: np.ndarray) -> None:
        """``out``: of a noisy run; ``clean``: what the same graph gives without noise."""
        if out.shape != self.eager.shape or clean.shape != out.shape:
            return
        edge = out == self.compiled  # whole numbers, infinities and NaN at the edge
        if self.size is not None:
            edge = (edge | (np.isnan(out) & np.isnan(self.compiled))) & ~np.isfinite(self.compiled)
            gap = np.abs(out.astype(np.float64) - clean.astype(np.float64))
            self.size = np.fmax(self.size, np.where(np.isfinite(gap), gap, 0.0))
        if edge.any():
            self.found = self.found | (edge & same(clean, self.eager))

    def agree(self) -> np.ndarray:
        return self.found if self.size is None else self.found | within(self.eager, self.compiled, self.size)


def _one_noisy_run(graph: Graph, args: list[Any], salt: int, clean: list[np.ndarray], spreads: list[_Spread]) -> None:
    runner = type("NoisyRun", (NoisyRun,), {"salt": salt})
    try:
        with np.errstate(all="ignore"):
            outs = interpret(graph, args, runner)
    except Exception:
        return  # an error on the way (a factorisation that fails just so) tells nothing
    with np.errstate(all="ignore"):
        for out, c, spread in zip(outs, clean, spreads, strict=True):
            spread.add(np.asarray(out), c)


def put_noise(arrays: list[np.ndarray], salt: int) -> None:
    """Errors of a few roundings in every float array, in place (read-only ones and shared memory are left alone)."""
    for a in arrays:
        if a.dtype.kind == "f" and a.flags.writeable:
            a[...] = _noise(a, ROUNDINGS * TOLERANCES[a.dtype.name].unit, salt * 1_000_003)
