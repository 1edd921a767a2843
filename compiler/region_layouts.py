"""How eager code lays out the gradients of a region: by the layouts of the cotangents, which programs don't follow; and
which of them are cotangents, or views of them (``x + 1``, ``x.sum()``).

``autograd.grad`` hands gradients out as they are (what is accumulated into a leaf takes the leaf's layout), so that
their strides can be seen: turned as a cotangent was, or expanded, where the gradient of a sum is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fusegrad.autograd.modes import no_grad
from fusegrad.meta import Meta
from fusegrad.tensor import Tensor, wrap

from .ir.graph import Value
from .ir.interp import run_tensors
from .ir.unview import steps_order
from .passes.rewrite import prune
from .region_record import engine_gradients
from .region_split import root_of

__all__ = ["as_cotangents", "laid_out"]

Layout = tuple  # axes from slow to fast, expanded axes, and the strides if they are known; None: C order


def laid_out(region: Any, given: frozenset[int], cotangents: list[Any], found: list[Any]) -> list[Any]:
    """The gradients ``found`` (arrays or None) for the ``cotangents`` that there are, laid out as in eager code."""
    key = (given, *(None if g is None else _of_array(g) for g in cotangents))
    layouts = region.layouts.get(key)
    if layouts is None:
        layouts = region.layouts[key] = _layouts(region, given, key[1:])
    if not layouts:
        return found
    return [a if a is None or how is None else _turned(a, how) for a, how in zip(found, layouts, strict=True)]


def as_cotangents(
    region: Any, given: frozenset[int], cotangents: list[Any], found: list[Any], held: Any, sizes: tuple
) -> list[Any]:
    """The gradients ``found``, those that are views of cotangents (arrays) in eager code made of them."""
    key = ("views", given)
    known = region.layouts.get(key)
    if known is None:
        known = region.layouts[key] = _views(region, given)
    graph, places = known
    if not places:
        return found
    env = dict(zip(region.gradient_sizes, sizes, strict=True))
    full = [0 if g is None else wrap(g) for g in cotangents]
    with no_grad():
        made = run_tensors(graph, [*held, *full, *(env[s] for s in graph.size_params)])[0]
    found = list(found)
    for i, t in zip(places, made, strict=True):
        if found[i] is not None and found[i].shape == t._data.shape:
            found[i] = t._data
    return found


def _views(region: Any, given: frozenset[int]) -> tuple:
    """A graph of the gradients that are views of cotangents, and their numbers."""
    graph, there = region._without(region.gradient_graph(), given)
    start = set(graph.inputs[len(graph.inputs) - region.cotangents :])
    places = [i for i, keep in enumerate(there) if keep]
    kept = [k for k, v in enumerate(graph.outputs) if isinstance(v, Value) and root_of(v) in start]
    graph.outputs = [graph.outputs[k] for k in kept]
    return prune(graph), [places[k] for k in kept]


def _of_array(a: np.ndarray) -> Layout | None:
    if a.flags.c_contiguous:
        return None
    expanded = tuple(d for d, (n, s) in enumerate(zip(a.shape, a.strides, strict=True)) if s == 0 and n > 1)
    return tuple(sorted(range(a.ndim), key=lambda d: (-abs(a.strides[d]), d))), expanded


def _layouts(region: Any, given: frozenset[int], steps: tuple) -> tuple:
    """One layout for each gradient; empty if all are in C order."""
    whole = len(given) == region.cotangents and not any(steps)
    metas = [v.meta for v in region.joint.outputs[-len(region.leaves) :]] if whole else _recorded(region, given, steps)
    found = tuple(None if m is None else _of_meta(m) for m in metas)
    return found if any(found) else ()


def _of_meta(m: Meta) -> Layout | None:
    """The layout of a recorded gradient."""
    if m.strides is None:
        return None
    expanded = tuple(
        d
        for d, (s, n) in enumerate(zip(m.strides, m.shape, strict=True))
        if type(s) is int and s == 0 and not (type(n) is int and n == 1)
    )
    static = all(type(s) is int for s in (*m.strides, *m.shape))
    return steps_order(m), expanded, tuple(s * m.dtype.itemsize for s in m.strides) if static else None


def _recorded(region: Any, given: frozenset[int], steps: tuple) -> list[Meta | None]:
    """What the gradients would be for cotangents of these layouts: recorded anew, for their strides alone."""
    none: list[Meta | None] = [None] * len(region.leaves)
    builder = region.builder
    with builder.lock:
        if _has_code_of_users(region.differentiable):
            return none
        count = len(builder.graph.nodes)
        roots, cotangents = [], []
        for k, t in enumerate(region.differentiable):
            if k in given:
                roots.append(t)
                cotangents.append(builder.new_input(_meta(t._g.meta, steps[k]), False, f"c{k}"))
        builder.tensors = list(region.primals)
        try:
            found = engine_gradients(builder, roots, region.leaf_tensors, cotangents)
            return [None if t is None else t._g.meta for t in found]
        except Exception:  # sizes it is not known for: as programs lay it out
            return none
        finally:
            del builder.graph.nodes[count:]


def _has_code_of_users(tensors: list[Tensor]) -> bool:
    """Whether a backward of these would call functions of the user: once more than eager code does."""
    todo: list[Any] = [t._node for t in tensors]
    seen: set[int] = set()
    while todo:
        node = todo.pop()
        if node is None or id(node) in seen or isinstance(node, Tensor):
            continue
        if node.op is None or node.hooks is not None:
            return True
        seen.add(id(node))
        todo.extend(node.edges)
    return False


def _meta(of: Meta, how: Layout | None) -> Meta:
    if how is None:
        return Meta(of.shape, of.dtype)
    order, expanded = how
    strides: list[Any] = [0] * len(of.shape)
    step: Any = 1
    for d in reversed(order):
        if d not in expanded:
            strides[d] = step
            step = step * of.shape[d]
    return Meta(of.shape, of.dtype, tuple(strides))


def _turned(a: np.ndarray, how: Layout) -> np.ndarray:
    """The same elements in that layout; of expanded axes the first ones stand for all."""
    order, expanded, strides = how
    if not a.size or a.strides == strides:
        return a
    small = a[tuple(slice(0, 1) if d in expanded else slice(None) for d in range(a.ndim))] if expanded else a
    if strides is not None:  # views of a larger memory, too
        reach = [(n - 1) * s for n, s in zip(small.shape, strides, strict=True)]
        memory = np.zeros((sum(map(abs, reach)) // a.itemsize + 1,), a.dtype)
        dense = np.ndarray(small.shape, a.dtype, memory, -sum(r for r in reach if r < 0), strides)
        dense[...] = small
    else:
        dense = np.empty([small.shape[d] for d in order], a.dtype).transpose(np.argsort(order))
        dense[...] = small
        strides = tuple(0 if d in expanded else s for d, s in enumerate(dense.strides))
    return np.lib.stride_tricks.as_strided(dense, a.shape, strides) if expanded else dense
