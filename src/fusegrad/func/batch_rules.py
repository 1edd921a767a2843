"""How operators run on a whole batch: by kind where that is enough, by a rule of their own, else example by example.

A rule gets what lies below (``xs``, batched along dimension 0 where ``bs`` says so) and the attributes of the call for
one example; it returns results batched along dimension 0, or NotImplemented: then the operator's decomposition is run
on batched tensors, or every example in turn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..dispatch import dispatch, promoted
from ..op import TABLE, Op
from ..tensor import Tensor
from .batch import BatchHandler, example_metas

Rule = Callable[[BatchHandler, Op, list, list, dict[str, Any]], Any]
RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    def put(fn: Rule) -> Rule:
        for n in names:
            RULES[n] = fn
        return fn

    return put


def run(h: BatchHandler, op: Op, xs: list, bs: list, attrs: dict[str, Any]) -> Any:
    """Results batched along dimension 0; NotImplemented for a call to be decomposed."""
    if op.batch is not None:
        return op.batch(h, op, xs, bs, attrs)
    found = RULES.get(op.name)
    if found is not None:
        out = found(h, op, xs, bs, attrs)
    elif op.kind == "pointwise" and op.n_out == 1:
        out = pointwise(h, op, xs, bs, attrs)
    else:
        out = NotImplemented
    if out is NotImplemented and op.decompose is None:
        return loop(h, op, xs, bs, lambda i: dict(attrs))
    return out


def call(op: Op, xs: Any, attrs: dict[str, Any], **changed: Any) -> Any:
    return dispatch(op, tuple(xs), {**attrs, **changed})


def loop(h: BatchHandler, op: Op, xs: list, bs: list, attrs_of: Callable[[int], dict]) -> Any:
    """Every example in turn, stacked."""
    if h.size == 0:
        return _nothing(op, xs, bs, attrs_of(0))

    def pick(x: Any, b: Any, i: int) -> Any:
        if isinstance(x, tuple):
            return tuple(pick(v, w, i) for v, w in zip(x, b, strict=True))
        return TABLE["select"](x, 0, i) if b else x

    rows = []
    for i in range(h.size):
        one = dispatch(op, tuple(pick(x, b, i) for x, b in zip(xs, bs, strict=True)), attrs_of(i))
        rows.append(one if isinstance(one, tuple) else (one,))
    out = tuple(TABLE["stack"](list(col), 0) for col in zip(*rows, strict=True))
    return out if op.n_out != 1 else out[0]


def _nothing(op: Op, xs: list, bs: list, attrs: dict) -> Any:
    metas = example_metas(op, xs, bs, attrs)
    if metas is None:
        raise RuntimeError(f"vmap over a dimension of size 0 is not supported by {op.name}")
    outs = tuple(
        TABLE["zeros"]((0, *m.shape), dtype=m.dtype) for m in (metas if isinstance(metas, tuple) else (metas,))
    )
    return outs if op.n_out != 1 else outs[0]


def rank(x: Any, b: Any) -> int:
    """Dimensions of one example."""
    return x.ndim - bool(b) if isinstance(x, Tensor) else 0


def lined_up(x: Any, b: Any, n: int) -> Any:
    """A batched ``x`` with dimensions of size 1 after the first, so that each example has ``n``."""
    if not b or x.ndim - 1 == n:
        return x
    return x.reshape((x.shape[0], *(1,) * (n - x.ndim + 1), *x.shape[1:]))


def pointwise(h: BatchHandler, op: Op, xs: list, bs: list, attrs: dict[str, Any]) -> Any:
    """Line up the examples' dimensions; the operator broadcasts."""
    n = max(rank(x, b) for x, b in zip(xs, bs, strict=True))
    xs = list(xs)
    if op.promote != "none" and any(b and x.ndim == 1 for x, b in zip(xs, bs, strict=True)):
        xs = _strong(op, xs, bs)
    return call(op, [lined_up(x, b, n) for x, b in zip(xs, bs, strict=True)], attrs)


def _strong(op: Op, xs: list, bs: list) -> list:
    """Examples without dimensions promote weaker than the batch that holds them: cast beforehand."""
    if len({x.dtype for x in xs if isinstance(x, Tensor)}) < 2 and all(isinstance(x, Tensor) for x in xs):
        return xs
    picked = [_example(x, b) for x, b in zip(xs, bs, strict=True)]
    only = op.fields.get("promote_params")
    kind = promoted(op, tuple(picked))
    return [
        x.to(kind) if isinstance(x, Tensor) and x.dtype is not kind and (only is None or p.name in only) else x
        for p, x, b in zip(op.sig.tensors, xs, bs, strict=True)
    ]


def _example(x: Any, b: bool) -> Any:
    from ..meta import Meta

    return Meta(x.shape[1:], x.dtype) if b else x


# ---- one tensor, dimensions moved by one

_DIMS = ("dim", "dim+1", "dims")
_EXTRA = {"diagonal": ("dim1", "dim2"), "transpose": ("dim0", "dim1"), "moment_norm": ("dims",)}


@rule(
    "sum",
    "mean",
    "prod",
    "amax",
    "_peak",
    "amin",
    "max_all",
    "min_all",
    "argmax",
    "argmin",
    "all",
    "any",
    "max_dim",
    "min_dim",
    "var",
    "std",
    "vector_norm",
    "cumsum",
    "cumsum_back",
    "cumprod",
    "cummax_dim",
    "cummin_dim",
    "logcumsumexp",
    "sort",
    "topk",
    "kthvalue",
    "median_dim",
    "mode",
    "_softmax",
    "_log_softmax",
    "logsumexp",
)
def along(h: BatchHandler, op: Op, xs: list, bs: list, attrs: dict[str, Any]) -> Any:
    """Reductions and scans along dimensions of the example."""
    x, attrs = xs[0], dict(attrs)
    scalar = x.ndim == 1
    kept = (*x.shape, *(1,) * (x.ndim - 1)) if attrs.get("keepdim") else None
    if scalar:
        x, kept = x.unsqueeze(1), None
    name = next(p.name for p in op.sig.attrs if p.type in ("dim", "dims"))
    kind = next(p.type for p in op.sig.attrs if p.type in ("dim", "dims"))
    d = attrs[name]
    if scalar:
        attrs[name] = (1,) if kind == "dims" else 1
        if "keepdim" in attrs:
            attrs["keepdim"] = False
    elif kind == "dims":
        attrs[name] = tuple(range(1, x.ndim)) if d is None or d == () else tuple(i + 1 for i in d)
    elif d is not None:
        attrs[name] = d + 1
    else:  # over everything, as one dimension
        shape = (x.shape[0], *(1,) * (x.ndim - 1))
        x = x.reshape((x.shape[0], -1)) if h.size else x.reshape((0, _numel(x.shape[1:])))
        out = call(op, [x], attrs, **{name: 1, "keepdim": False})
        return out.reshape(shape) if kept is not None else out
    out = call(op, [x], attrs)
    if not scalar:
        return out
    return tuple(t.reshape((t.shape[0],)) for t in out) if isinstance(out, tuple) else out.reshape((out.shape[0],))


def _numel(shape: Any) -> Any:
    n: Any = 1
    for s in shape:
        n = n * s
    return n


@rule("median_all")
def median_all(h: BatchHandler, op: Op, xs: list, bs: list, attrs: dict[str, Any]) -> Any:
    x = xs[0].reshape((xs[0].shape[0], _numel(xs[0].shape[1:])))
    return TABLE["median_dim"](x, 1, False, attrs["ignore_nan"])[0]


@rule("flip", "unsqueeze", "squeeze_dims", "select", "slice", "unfold", "diagonal", "transpose")
def moved(h: BatchHandler, op: Op, xs: list, bs: list, attrs: dict[str, Any]) -> Any:
    """Every dimension attribute counts one more."""
    if xs[0].ndim == 1 and op.name != "unsqueeze":
        return NotImplemented
    new = {
        p.name: tuple(i + 1 for i in attrs[p.name]) if p.type == "dims" else attrs[p.name] + 1
        for p in op.sig.attrs
        if p.type in _DIMS
    }
    return call(op, xs, attrs, **new)


@rule("permute")
def permute(h: BatchHandler, op: Op, xs: list, bs: list, attrs: dict[str, Any]) -> Any:
    return call(op, xs, attrs, dims=(0, *(d + 1 for d in attrs["dims"])))


@rule("slice_nd")
def slice_nd(h: BatchHandler, op: Op, xs: list, bs: list, attrs: dict[str, Any]) -> Any:
    return call(op, xs, attrs, index=(slice(None), *attrs["index"]))


@rule("view")
def view(h: BatchHandler, op: Op, xs: list, bs: list, attrs: dict[str, Any]) -> Any:
    x, size = xs[0], tuple(attrs["size"])
    if any(isinstance(s, int) and s == -1 for s in size):
        rest = _numel(s for s in size if not (isinstance(s, int) and s == -1))
        total = _numel(x.shape[1:])
        if isinstance(rest, int) and (rest == 0 or total % rest):
            example_metas(op, xs, bs, attrs)  # the error in the user's terms
        size = tuple(total // rest if isinstance(s, int) and s == -1 else s for s in size)
    if _numel(size) != _numel(x.shape[1:]):
        example_metas(op, xs, bs, attrs)
    try:
        return call(op, xs, attrs, size=(x.shape[0], *size))
    except RuntimeError:
        return x.reshape((x.shape[0], *size))


@rule("expand")
def expand(h: BatchHandler, op: Op, xs: list, bs: list, attrs: dict[str, Any]) -> Any:
    size = attrs["size"]
    example_metas(op, xs, bs, attrs)
    return call(op, [lined_up(xs[0], True, len(size))], attrs, size=(xs[0].shape[0], *size))


@rule("tril", "triu")
def triangle(h: BatchHandler, op: Op, xs: list, bs: list, attrs: dict[str, Any]) -> Any:
    example_metas(op, xs, bs, attrs)
    return call(op, xs, attrs)


@rule(
    "constant_pad",
    "one_hot",
    "frexp",
    "linalg.inv",
    "slogdet_pair",
    "linalg.det",
    "cholesky_lower",
    "cholesky_inverse_lower",
    "eigh_pair",
    "svd_triple",
    "qr_pair",
    "matrix_exp",
    "lu_parts",
)
def directly(h: BatchHandler, op: Op, xs: list, bs: list, attrs: dict[str, Any]) -> Any:
    """Operators that work on the last dimensions, whatever stands in front: the examples must have those themselves."""
    example_metas(op, xs, bs, attrs)
    return call(op, _all_front(h, xs, bs), attrs)


@rule(
    "_unfold",
    "_fold",
    "_max_pool",
    "_adaptive_max",
    "_window_sum",
    "_spread_sum",
    "_max_values",
    "_max_grad",
    "_max_take",
    "_put_back",
    "_take_flat",
    "_unpool_set",
)
def more_rows(h: BatchHandler, op: Op, xs: list, bs: list, attrs: dict[str, Any]) -> Any:
    """Operators on images (N, C, ...): the examples' images are images of one larger batch."""
    if h.size == 0:
        return NotImplemented
    if op.name.startswith("_max_") and rank(xs[0], bs[0]) == len(attrs["window"]) + 1:  # (C, ...): now a batch of them
        return call(op, _all_front(h, xs, bs), attrs)
    out = call(op, [_merged(x, 0) for x in _all_front(h, xs, bs)], attrs)
    return tuple(_parted(h, t, 0) for t in out) if isinstance(out, tuple) else _parted(h, out, 0)


@rule("fill_tensor")
def fill_tensor(h: BatchHandler, op: Op, xs: list, bs: list, attrs: dict[str, Any]) -> Any:
    if not bs[1]:
        return call(op, xs, attrs)
    x = h.front(xs[0], bs[0])
    return lined_up(xs[1], True, x.ndim - 1).to(x.dtype).expand(tuple(x.shape)).clone()


@rule("view_dtype")
def view_dtype(h: BatchHandler, op: Op, xs: list, bs: list, attrs: dict[str, Any]) -> Any:
    return NotImplemented if xs[0].ndim == 1 else call(op, [xs[0].contiguous()], attrs)


@rule("as_strided", "as_strided_from")
def as_strided(h: BatchHandler, op: Op, xs: list, bs: list, attrs: dict[str, Any]) -> Any:
    """Sizes and strides count in the memory of the batch, where each example begins one stride further."""
    x = xs[0]
    return call(op, xs, attrs, size=(x.shape[0], *attrs["size"]), stride=(x.stride(0), *attrs["stride"]))


@rule("solve_matrix", "triangular_solve_matrix", "cholesky_solve_lower")
def pairs(h: BatchHandler, op: Op, xs: list, bs: list, attrs: dict[str, Any]) -> Any:
    n = max(rank(x, b) for x, b in zip(xs, bs, strict=True))
    if any(rank(x, b) != n for x, b in zip(xs, bs, strict=True)):
        return NotImplemented
    return call(op, _all_front(h, xs, bs), attrs)


def _all_front(h: BatchHandler, xs: list, bs: list) -> list:
    return [h.front(x, b) if isinstance(x, Tensor) else x for x, b in zip(xs, bs, strict=True)]


# ---- several tensors side by side


@rule("cat", "stack")
def joined(h: BatchHandler, op: Op, xs: list, bs: list, attrs: dict[str, Any]) -> Any:
    parts = [(x, b) for x, b in zip(xs[0], bs[0], strict=True)]
    if op.name == "cat" and any(rank(x, b) > 1 for x, b in parts):  # old rule: empty vectors are skipped
        parts = [(x, b) for x, b in parts if not (rank(x, b) == 1 and x.shape[-1] == 0)]
    return call(op, [tuple(h.front(x, b) for x, b in parts)], attrs, dim=attrs["dim"] + 1)


@rule(
    "gather",
    "scatter",
    "scatter_add",
    "scatter_value",
    "scatter_reduce",
    "linear_scan",
    "linear_scan_back",
    "select_scatter",
    "slice_scatter",
    "diagonal_scatter",
)
def side_by_side(h: BatchHandler, op: Op, xs: list, bs: list, attrs: dict[str, Any]) -> Any:
    """Everything with a batch dimension, and dimensions counted one more."""
    n = rank(xs[0], bs[0])
    if any(rank(x, b) == 0 for x, b in zip(xs, bs, strict=True)) and op.name not in ("select_scatter",):
        return loop(h, op, xs, bs, lambda i: dict(attrs))
    new = {k: attrs[k] % n + 1 for k in ("dim", "dim1", "dim2") if k in attrs}
    return call(op, _all_front(h, xs, bs), attrs, **new)


@rule("index_select")
def index_select(h: BatchHandler, op: Op, xs: list, bs: list, attrs: dict[str, Any]) -> Any:
    if rank(xs[0], bs[0]) == 0:
        return NotImplemented
    if not bs[1]:
        return call(op, xs, attrs, dim=attrs["dim"] + 1)
    i = xs[1].reshape((h.size, 1)) if xs[1].ndim == 1 else xs[1]
    return index(h, TABLE["index"], [xs[0], (i,)], [bs[0], (True,)], {"dims": (attrs["dim"],)})


@rule("index_add", "index_copy", "index_fill")
def index_along(h: BatchHandler, op: Op, xs: list, bs: list, attrs: dict[str, Any]) -> Any:
    n = rank(xs[0], bs[0])
    if bs[1] or n == 0:
        return NotImplemented
    if isinstance(xs[2], Tensor) and (bs[2] and op.name == "index_fill" or rank(xs[2], bs[2]) == 0):
        return NotImplemented
    last = xs[2] if op.name == "index_fill" else h.front(xs[2], bs[2])
    return call(op, [h.front(xs[0], bs[0]), xs[1], last], attrs, dim=attrs["dim"] % n + 1)


@rule("select_backward", "slice_backward", "slice_nd_backward", "diagonal_backward")
def into_zeros(h: BatchHandler, op: Op, xs: list, bs: list, attrs: dict[str, Any]) -> Any:
    new: dict[str, Any] = {"size": (h.size, *attrs["size"])}
    n = len(attrs["size"])
    new.update({k: attrs[k] % n + 1 for k in ("dim", "dim1", "dim2") if k in attrs})
    if "index" in attrs and op.name == "slice_nd_backward":
        new["index"] = (slice(None), *attrs["index"])
    return call(op, xs, attrs, **new)


@rule("unfold_backward")
def unfold_backward(h: BatchHandler, op: Op, xs: list, bs: list, attrs: dict[str, Any]) -> Any:
    n = len(attrs["input_size"])
    if n == 0:
        return NotImplemented
    return call(op, xs, attrs, input_size=(h.size, *attrs["input_size"]), dim=attrs["dim"] % n + 1)


# ---- indexing by tensors


def _wide(xs: Any, bs: Any) -> int:
    """Rank of the broadcast index of one example."""
    return max(rank(x, b) for x, b in zip(xs, bs, strict=True))


def _with_rows(h: BatchHandler, indices: tuple, bs: tuple) -> list[Tensor]:
    """The indices preceded by one that names the example."""
    w = _wide(indices, bs)
    rows = TABLE["arange"](0, h.size, 1, TABLE["arange"].fields.get("_kind") or _int64())
    return [rows.reshape((h.size, *(1,) * w)), *(lined_up(x, b, w) for x, b in zip(indices, bs, strict=True))]


def _int64() -> Any:
    from ..dtypes import int64

    return int64


def _place(dims: tuple) -> int:
    """Where the indexed block stands in the result of one example."""
    return dims[0] if dims[-1] - dims[0] == len(dims) - 1 else 0


def _block(t: Tensor, w: int, source: int, target: int) -> Tensor:
    """Move ``w`` neighbouring dimensions from ``source`` to ``target``."""
    if w == 0 or source == target:
        return t
    return t.movedim(tuple(range(source, source + w)), tuple(range(target, target + w)))


@rule("index")
def index(h: BatchHandler, op: Op, xs: list, bs: list, attrs: dict[str, Any]) -> Any:
    dims = tuple(attrs["dims"])
    w = _wide(xs[1], bs[1])
    if not bs[0]:
        at = _place(dims)
        ids = [lined_up(x, b, w) for x, b in zip(xs[1], bs[1], strict=True)]
        return call(op, [xs[0], tuple(ids)], attrs).movedim(at, 0)
    out = call(op, [xs[0], tuple(_with_rows(h, xs[1], bs[1]))], attrs, dims=(0, *(d + 1 for d in dims)))
    return _block(out, w, 1, 1 + _place(dims))


@rule("index_put")
def index_put(h: BatchHandler, op: Op, xs: list, bs: list, attrs: dict[str, Any]) -> Any:
    dims, (x, indices, values) = tuple(attrs["dims"]), xs
    w, n = _wide(indices, bs[1]), rank(x, bs[0])
    ids = _with_rows(h, indices, bs[1])
    wide = tuple(TABLE["index"](h.front(x, bs[0]), tuple(ids), (0, *(d + 1 for d in dims))).shape[: 1 + w])
    rest = [s for d, s in enumerate(x.shape[1:] if bs[0] else x.shape) if d not in dims]
    at = _place(dims)
    result = (*rest[:at], *wide[1:], *rest[at:])
    while rank(values, bs[2]) > len(result):
        values = values.select(1 if bs[2] else 0, 0)
    values = lined_up(values, bs[2], len(result)).expand((h.size, *result))
    del n
    return call(
        op, [h.front(x, bs[0]), tuple(ids), _block(values, w, 1 + at, 1)], attrs, dims=(0, *(d + 1 for d in dims))
    )


@rule("index_backward")
def index_backward(h: BatchHandler, op: Op, xs: list, bs: list, attrs: dict[str, Any]) -> Any:
    dims, w = tuple(attrs["dims"]), _wide(xs[1], bs[1])
    g = _block(h.front(xs[0], bs[0]), w, 1 + _place(dims), 1)
    return call(
        op,
        [g, tuple(_with_rows(h, xs[1], bs[1]))],
        attrs,
        size=(h.size, *attrs["size"]),
        dims=(0, *(d + 1 for d in dims)),
    )


def _shifted(h: BatchHandler, ids: Tensor, b: bool, rows: int) -> Tensor:
    """Row numbers in a table of ``size`` tables of ``rows`` rows, one after the other."""
    ids = h.front(ids, b)
    base = TABLE["arange"](0, h.size * rows, rows, ids.dtype) if rows else TABLE["zeros"]((h.size,), dtype=ids.dtype)
    return ids + base.reshape((h.size, *(1,) * (ids.ndim - 1)))


@rule("embedding")
def embedding(h: BatchHandler, op: Op, xs: list, bs: list, attrs: dict[str, Any]) -> Any:
    weight, ids = xs
    if not bs[0]:
        return call(op, xs, attrs)
    if attrs["padding_idx"] >= 0 or ids.ndim == 0:
        return loop(h, op, xs, bs, lambda i: dict(attrs))
    return call(op, [weight.reshape((-1, weight.shape[-1])), _shifted(h, ids, bs[1], weight.shape[1])], attrs)


@rule("_embedding_grad")
def embedding_grad(h: BatchHandler, op: Op, xs: list, bs: list, attrs: dict[str, Any]) -> Any:
    g, ids = xs
    if attrs["padding_idx"] >= 0:
        return NotImplemented
    rows = attrs["rows"]
    out = call(op, [h.front(g, bs[0]), _shifted(h, ids, bs[1], rows)], attrs, rows=rows * h.size)
    return out.reshape((h.size, rows, *out.shape[1:]))


# ---- products


@rule("matmul")
def matmul(h: BatchHandler, op: Op, xs: list, bs: list, attrs: dict[str, Any]) -> Any:
    """Vectors become matrices; then numpy's rule for stacks of matrices does it."""
    a, b = xs
    na, nb = rank(a, bs[0]), rank(b, bs[1])
    if na == 0 or nb == 0:
        example_metas(op, xs, bs, attrs)
    if not bs[1] and nb <= 2:
        return op(a, b)
    if not bs[0] and na == 2 and nb == 1:
        return op(b, a.transpose(0, 1))
    if na == 1:
        a = a.unsqueeze(-2)
    if nb == 1:
        b = b.unsqueeze(-1)
    n = max(na, nb, 2)
    a, b = lined_up(a, bs[0], n), lined_up(b, bs[1], n)
    if a.dtype is b.dtype and a.dtype.is_floating_point and _is_one(a.shape[-1]) and _is_one(b.shape[-2]):
        out = a * b  # outer products (gradients of single examples): much faster than stacks of thin matrices
    else:
        out = op(a, b)
    if nb == 1:
        out = out.squeeze(-1)
    return out.squeeze(-1 if nb == 1 else -2) if na == 1 else out


def _is_one(size: Any) -> bool:
    return isinstance(size, int) and size == 1


@rule("nn.functional.linear")
def linear(h: BatchHandler, op: Op, xs: list, bs: list, attrs: dict[str, Any]) -> Any:
    return NotImplemented if bs[1] or bs[2] else call(op, xs, attrs)


def _merged(x: Tensor, at: int) -> Tensor:
    """The batch dimension (0) merged into dimension ``at`` of the example."""
    x = x.movedim(0, at) if at else x
    return x.reshape((*x.shape[:at], -1, *x.shape[at + 2 :]))


def _parted(h: BatchHandler, x: Tensor, at: int) -> Tensor:
    """The inverse of ``_merged``."""
    x = x.reshape((*x.shape[:at], h.size, -1, *x.shape[at + 1 :]))
    return x.movedim(at, 0) if at else x


@rule("_conv", "_conv_input")
def conv(h: BatchHandler, op: Op, xs: list, bs: list, attrs: dict[str, Any]) -> Any:
    """A batch of inputs is more rows; a batch of weights is more groups."""
    if h.size == 0:
        return NotImplemented
    x, w = xs
    if not bs[1]:
        return _parted(h, call(op, [_merged(x, 0), w], attrs), 0)
    out = call(op, [_merged(h.front(x, bs[0]), 1), _merged(w, 0)], attrs, groups=attrs["groups"] * h.size)
    return _parted(h, out, 1)


@rule("_conv_weight")
def conv_weight(h: BatchHandler, op: Op, xs: list, bs: list, attrs: dict[str, Any]) -> Any:
    if h.size == 0:
        return NotImplemented
    g, x = (_merged(h.front(v, b), 1) for v, b in zip(xs, bs, strict=True))
    return _parted(h, call(op, [g, x], attrs, groups=attrs["groups"] * h.size), 0)


@rule("_moment_norm", "_rms_norm")
def norm(h: BatchHandler, op: Op, xs: list, bs: list, attrs: dict[str, Any]) -> Any:
    x = h.front(xs[0], bs[0])
    n = x.ndim - 1
    rest = [lined_up(v, b, n) for v, b in zip(xs[1:], bs[1:], strict=True)]
    return call(op, [x, *rest], attrs, dims=tuple(d % n + 1 for d in attrs["dims"]))
