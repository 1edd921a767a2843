"""Tiny matrix products as loops.

Calling a library costs about a microsecond, as much as a few thousand multiplications, and for each matrix of a stack
as much as a hundred.  So a product with fewer becomes ``(a[..., m, k, 1] * b[..., 1, k, n]).sum(k)``: a reduction like
any other, fused with what comes before and after, and part of the same native call.  So do stacks of outer products,
which a library computes as products of matrices, and of products with one vector each, which read each number once.
"""

from __future__ import annotations

from typing import Any

from fusegrad.meta import Meta
from fusegrad.op import TABLE

from ..ir.graph import Graph, Node, Value
from .affine import product
from .calls import is_blas
from .written_out import write_out

__all__ = ["expand_products"]

MULTIPLICATIONS = 4096
STACKED = 256  # of each product in a stack
VECTORS = 4096  # of each product of a matrix and a vector in a stack
VECTOR = 2048  # of one product with a vector: a library needs no copies for it, and beyond is faster


def _is_tiny(node: Node) -> bool:
    if not is_blas(node):
        return False
    a, b = (arg.meta.shape for arg in node.args)
    if len(a) == 1 or len(b) == 1:
        return len(a) + len(b) <= 3 and _few(node, VECTOR)
    out = node.outputs[0].meta.shape
    one = (*out[-2:], a[-1])
    if not all(type(s) is int for s in (*one, b[-2])) or product(one) == 0:
        return False
    if len(b) > 2 and (product(one) <= STACKED or a[-1] == 1):
        return True
    if len(a) > 2 and len(b) > 2 and 1 in one and product(one) <= VECTORS:
        return True
    return _few(node)


def _few(node: Node, most: int = MULTIPLICATIONS) -> bool:
    """Whether the whole product, or stack of products, is known to be small."""
    sizes = (*node.outputs[0].meta.shape, node.args[0].meta.shape[-1])
    return all(type(s) is int for s in (*sizes, *node.args[1].meta.shape)) and 0 < product(sizes) <= most


def expand_products(graph: Graph) -> Graph:
    """The graph with tiny products written out; the same graph if there are none."""
    return write_out(graph, lambda node: _write_out if _is_tiny(node) else None)


def _write_out(new: Graph, node: Node, args: tuple) -> Value:
    a, b = args
    if len(a.meta.shape) == 1 or len(b.meta.shape) == 1:
        return _with_vector(new, node, a, b)
    (m, k), n, lead = a.meta.shape[-2:], b.meta.shape[-1], node.outputs[0].meta.shape[:-2]
    out = node.outputs[0].meta

    def put(name: str, values: tuple, attrs: dict[str, Any], shape: tuple) -> Value:
        return new.append(TABLE[name], values, attrs, (Meta(shape, out.dtype),), node.loc).outputs[0]

    if len(a.meta.shape) == 2 and n == 1 and not _few(node):  # one matrix and many vectors: one product of two matrices
        rows = put("squeeze_dims", (b,), {"dims": (len(lead) + 1,)}, (*lead, k))
        turned = put("transpose", (a,), {"dim0": 0, "dim1": 1}, (k, m))
        return put("unsqueeze", (put("matmul", (rows, turned), {}, (*lead, m)),), {"dim": len(lead) + 1}, out.shape)
    left = put("unsqueeze", (a,), {"dim": len(a.meta.shape)}, (*a.meta.shape, 1))
    right = put("unsqueeze", (b,), {"dim": len(b.meta.shape) - 2}, (*b.meta.shape[:-2], 1, k, n))
    terms = put("mul", (left, right), {}, (*lead, m, k, n))
    return put("sum", (terms,), {"dim": (len(lead) + 1,), "keepdim": False, "dtype": None}, (*lead, m, n))


def _with_vector(new: Graph, node: Node, a: Value, b: Value) -> Value:
    """A product of a vector and a matrix, or of two vectors."""
    shape = b.meta.shape if len(a.meta.shape) == 1 else a.meta.shape
    dtype = node.outputs[0].meta.dtype
    if len(b.meta.shape) == 2:
        a = new.append(TABLE["unsqueeze"], (a,), {"dim": 1}, (Meta((*a.meta.shape, 1), dtype),), node.loc).outputs[0]
    terms = new.append(TABLE["mul"], (a, b), {}, (Meta(shape, dtype),), node.loc).outputs[0]
    attrs = {"dim": (0 if len(b.meta.shape) == 2 else len(shape) - 1,), "keepdim": False, "dtype": None}
    return new.append(TABLE["sum"], (terms,), attrs, (node.outputs[0].meta,), node.loc).outputs[0]
