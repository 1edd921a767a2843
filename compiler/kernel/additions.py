"""Rows and numbers added or combined at indices, as native loops: the gradients of embeddings, of indexing by one
tensor and of gather; ``index_add``, ``scatter_add``, ``scatter_reduce``.

Indices may repeat, so one row is added after the other, in their order; columns are vectors, and what threads share.
The numbers of ``scatter_add`` have an index each: what lies before the dimension is what threads share.  An index that
was expanded over all other dimensions, as messages on a graph have it, picks rows.
"""

from __future__ import annotations

from typing import Any

from fusegrad import dtypes
from fusegrad.native.nest import ArrayParam, Kernel, Loop, Nest, Phase, SizeParam, Store
from fusegrad.native.picks import combining
from fusegrad.native.scalar import b

from ..ir.graph import Node, Value
from .affine import product, same
from .convolve import Native
from .gathers import can_scatter, out_of_bounds

__all__ = ["add_at"]

_MISSED = "index out of range in self: index {index}, dimension 0 has size {size}"
_OUTSIDE = "index {index} is out of bounds for dimension 0 with size {size}"


def add_at(node: Node) -> Native | None:
    """The kernel of such an operator, whose result has known sizes; None for anything else."""
    return _add_numbers(node) if node.op.name in ("scatter_add", "scatter_reduce") else _add_rows(node)


def _add_numbers(node: Node) -> Native | None:
    base, index, source = node.args
    if not all(isinstance(v, Value) and not v.meta.weak for v in node.args):
        return None
    if node.op.name == "scatter_add" and can_scatter(node):
        return None
    out, shape, picks = node.outputs[0].meta, base.meta.shape, index.meta.shape
    if not shape or len(picks) != len(shape) or not all(type(s) is int for s in shape):
        return None
    dim = node.attrs["dim"] % len(shape)
    if not all(same(a, b) for d, (a, b) in enumerate(zip(picks, shape, strict=True)) if d != dim):
        return None
    if len(source.meta.shape) != len(picks) or not all(map(same, picks, source.meta.shape)):
        return None
    kinds = (base.meta.dtype, source.meta.dtype, index.meta.dtype)
    if out.dtype.short not in ("f32", "f64") or kinds != (out.dtype, out.dtype, dtypes.int64):
        return None
    how, own = node.attrs.get("reduce", "sum"), node.attrs.get("include_self", True)
    rows = _is_expanded(index, dim)
    kernel = _numbers_kernel(node.op.name, out.dtype, shape, dim, how, own, rows)
    zeros = ((shape[dim] if rows else product(shape)),) if how == "mean" else ()
    return Native(kernel, (1, 2, 0), (), zeros, (1,) if rows else ())


def _is_expanded(index: Value, dim: int) -> bool:
    """Whether all elements of one place along ``dim`` are the same number in memory."""
    if index.node is None or index.node.op.name != "expand":
        return False
    given = index.node.args[0].meta.shape
    given = (*(1,) * (len(index.meta.shape) - len(given)), *given)
    return same(given[dim], index.meta.shape[dim]) and all(
        type(s) is int and s == 1 for d, s in enumerate(given) if d != dim
    )


def _numbers_kernel(name: str, dtype: Any, shape: tuple, dim: int, how: str, own: bool, rows: bool) -> Kernel:
    before, size, behind = product(shape[:dim]), shape[dim], product(shape[dim + 1 :])
    params: list[Any] = [ArrayParam("index", dtypes.int64), ArrayParam("x", dtype), ArrayParam("base", dtype)]
    params += [ArrayParam("y", dtype, True), *([ArrayParam("count", dtypes.int64, True)] if how == "mean" else ())]
    params += [SizeParam("n", ("index", "shape", dim)), SizeParam("apart", ("index", "stride", dim))]
    copy = Store("y", b.load("base", dtype, 0, {"i": 1}), terms={"i": 1})
    nests = (
        Nest((Loop("i", product(shape)),), (Phase(stores=(copy,)),), name),
        *combining(dtype, how, own, rows, before, size, "n", behind, "n", "apart"),
    )
    return Kernel(name, tuple(params), nests, (), (out_of_bounds(dim, "RuntimeError: "),))


def _add_rows(node: Node) -> Native | None:
    name, attrs, out = node.op.name, node.attrs, node.outputs[0].meta
    base, padding, wrap = None, -1, False
    if name == "_embedding_grad" and not attrs["scale_grad_by_freq"]:
        (g, index), padding = node.args, attrs["padding_idx"]
        given = (0, 1)
    elif name == "index_backward" and len(node.args[1]) == 1 and tuple(attrs["dims"]) == (0,):
        g, (index,), wrap = node.args[0], node.args[1], True
        given = (0, 1)
    elif name == "index_add" and attrs["dim"] == 0 and type(attrs["alpha"]) is int and attrs["alpha"] == 1:
        base, index, g = node.args
        given = (2, 1, 0)
    else:
        return None
    values = [v for v in (g, index, base) if v is not None]
    if not all(isinstance(v, Value) and not v.meta.weak for v in values):
        return None
    size = (*out.shape, padding)
    fits = len(g.meta.shape) == len(index.meta.shape) + len(out.shape) - 1 and len(index.meta.shape) >= 1
    if not fits or not all(type(s) is int for s in size) or out.dtype.short not in ("f32", "f64") or not out.shape:
        return None
    if index.meta.dtype is not dtypes.int64 or any(v.meta.dtype is not out.dtype for v in values if v is not index):
        return None
    return Native(_kernel(name, out, len(index.meta.shape), base is not None, padding, wrap), given, ())


def _kernel(name: str, out: Any, rank: int, based: bool, padding: int, wrap: bool) -> Kernel:
    rows, width = out.shape[0], product(out.shape[1:])
    params: list[Any] = [ArrayParam("g", out.dtype), ArrayParam("index", dtypes.int64)]
    params += [ArrayParam("base", out.dtype)] if based else []
    params += [ArrayParam("y", out.dtype, True)]
    params += [SizeParam(f"n{k}", ("index", "shape", k)) for k in range(rank)]
    many = "*".join(f"n{k}" for k in range(rank))
    here = {"row": width, "column": 1}
    first = b.load("base", out.dtype, 0, here) if based else b.const(0, out.dtype)
    nests = [
        Nest((Loop("row", rows), Loop("column", width)), (Phase(stores=(Store("y", first, terms=here),)),), name),
    ]
    at = b.check(b.load("index", dtypes.int64, 0, {"i": 1}), rows, 1, wrap)
    old = b.load("y", out.dtype, 0, {"column": 1}, [(at, width)])
    new = old + b.load("g", out.dtype, 0, {"i": width, "column": 1})
    store = Store("y", new, terms={"column": 1}, gather=[(at, width)])
    nests.append(Nest((Loop("column", width),), (Phase((Loop("i", many),), (), (store,), True),), f"{name}: rows"))
    if 0 <= padding < rows:
        zero = Store("y", b.const(0, out.dtype), padding * width, {"column": 1})
        nests.append(Nest((Loop("column", width),), (Phase(stores=(zero,)),), f"{name}: the row that is left out"))
    return Kernel(name.strip("_"), tuple(params), tuple(nests), (), (_OUTSIDE if wrap else _MISSED,))
