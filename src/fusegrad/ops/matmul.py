"""Matrix products: matmul, linear, mm, bmm..., and those that add to a tensor (addmm and its relatives)."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes as dt
from ..autograd.node import Node
from ..blas import BLAS_ALONE, SMALL, best_dot, few_rows, large_matmul, small_matmul
from ..dispatch import FAST
from ..meta import Meta, broadcast_shapes
from ..op import Inline, Sample, function, late_op, op
from ._half import half, single
from ._samples import t
from .reduce import sum_

sum_kernel = sum_.kernel

_F32, _F64 = dt.float32.np, dt.float64.np
_TYPES = {
    "float32": "float",
    "float64": "double",
    "float16": "c10::Half",
    "int64": "long",
    "int32": "int",
    "int16": "short",
    "int8": "signed char",
    "uint8": "unsigned char",
    "bool": "bool",
}


def _matmul_shape(a: Meta, b: Meta) -> tuple:
    """Shape of a product. RuntimeError, worded as PyTorch's, for sizes that do not meet."""
    if a.ndim == 0 or b.ndim == 0:
        raise RuntimeError(f"both arguments to matmul need to be at least 1D, but they are {a.ndim}D and {b.ndim}D")
    ka, kb = a.shape[-1], b.shape[-2] if b.ndim > 1 else b.shape[0]
    if ka is not kb and ka != kb:
        if a.ndim == 1 and b.ndim == 1:
            raise RuntimeError(
                f"inconsistent tensor size, expected tensor [{ka}] and src [{kb}] to have the same number of "
                f"elements, but got {ka} and {kb} elements respectively"
            )
        if b.ndim == 1:
            raise RuntimeError(f"size mismatch, got input ({a.shape[-2]}), mat ({a.shape[-2]}x{ka}), vec ({kb})")
        if a.ndim > 2 and b.ndim > 2:
            raise RuntimeError(
                f"Expected size for first two dimensions of batch2 tensor to be: [{a.shape[0]}, {ka}] but got: "
                f"[{b.shape[0]}, {kb}]."
            )
        rows = 1 if a.ndim == 1 else a.shape[-2]
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({rows}x{ka} and {kb}x{b.shape[-1]})")
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return (*batch, *(a.shape[-2:-1] if a.ndim > 1 else ()), *(b.shape[-1:] if b.ndim > 1 else ()))


def _check_types(a: Any, b: Any) -> None:
    if a is not b and a != b:
        raise RuntimeError(f"expected m1 and m2 to have the same dtype, but got: {_TYPES[a.name]} != {_TYPES[b.name]}")
    if a.name == "bool":
        raise NotImplementedError("\"addmm_impl_cpu_\" not implemented for 'Bool'")


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """``a @ b`` with one BLAS call where a batch of rows meets one matrix."""
    if a.dtype == np.float16:
        return half(product(single(a), single(b)))
    if a.ndim > 2 and b.ndim == 2 and a.flags.c_contiguous and a.size:
        return product(a.reshape(-1, a.shape[-1]), b).reshape(*a.shape[:-1], b.shape[1])
    if a.ndim == b.ndim == 2 and few_rows(a, b):
        return best_dot(a, b)
    if b.ndim > 1 and BLAS_ALONE < (a.size if a.ndim < 3 else a.shape[-1] * a.shape[-2]) * b.shape[-1] < SMALL:
        return small_matmul(a, b)
    many = b.ndim > 1 and a.size * b.shape[-1] >= SMALL
    out = large_matmul(a, b) if many else np.matmul(a, b)
    return out if out.ndim < 4 else np.ascontiguousarray(out)  # numpy keeps the order of the operands' batches


def _rows(t: Any) -> Any:
    """All dimensions but the last merged into one (-1 can't be inferred for a last dimension of size 0)."""
    n: Any = 1
    for k in t.shape[:-1]:
        n = n * k
    return t.reshape((n, t.shape[-1]))


def _shape_at(edge: Any) -> tuple:
    """The shape of the gradient that goes along an edge: to a node of one output, or to a leaf."""
    return edge.shape if isinstance(edge, Node) else edge._data.shape


@op("matmul(input: T, other: T)", kind="extern", dunder=("__matmul__",), names=("linalg.matmul",))
class matmul:
    """Product of vectors, matrices or broadcast batches of them. RuntimeError for sizes or dtypes that differ."""

    short = (
        "{0}.ndim == 2 == {1}.ndim and {0}.dtype is NP32 is {1}.dtype and {0}.size * {1}.size <= 262144",
        "{0}.dot({1})",
    )

    def kernel(a, b):
        d = a.dtype
        if d is b.dtype and (d is _F32 or d is _F64) and a.size * b.size <= BLAS_ALONE:
            n, m = a.ndim, b.ndim
            if n == m and 0 < n < 3 or n == 2 and m == 1 and a.flags.forc:
                return a.dot(b)  # the same BLAS call in half of the time
            if n == 3 == m:
                return np.matmul(a, b)
        if d != b.dtype or d.kind == "b":
            raise ValueError  # ``meta`` says what is wrong: sizes before dtypes
        return product(a, b)

    def meta(a, b):
        if a.ndim == b.ndim == 1:
            _check_types(a.dtype, b.dtype)
        shape = _matmul_shape(a, b)
        _check_types(a.dtype, b.dtype)
        return Meta(shape, a.dtype)

    def vjp_input(g, other, input_meta):
        if other.ndim == 1:
            return g.unsqueeze(-1) * other if len(input_meta.shape) > 1 else g * other
        if len(input_meta.shape) == 1:  # (k) @ (..., k, n) -> (..., n)
            return matmul(other, g.unsqueeze(-1)).squeeze(-1)
        return matmul(g, other.transpose(-2, -1))

    def vjp_other(g, input, other_meta):
        n = len(other_meta.shape)
        if n == 1:
            if input.ndim == 1:
                return g * input
            if input.ndim == 2:
                return matmul(input.transpose(0, 1), g)
            return _rows(input * g.unsqueeze(-1)).sum(0)
        if input.ndim == 1:
            return input.unsqueeze(-1) * g.unsqueeze(-2)
        if n == 2 and input.ndim > 2:  # rows of all batches meet one matrix
            return matmul(_rows(input).transpose(0, 1), _rows(g))
        return matmul(input.transpose(-2, -1), g)

    def on_arrays(g, input, other, need):
        left = right = None
        if need[0] is not None:
            if other.ndim < 2:
                return None
            left = matmul.kernel(g, other.swapaxes(-2, -1))
            if left.shape != _shape_at(need[0]):  # a vector, or a batch that was broadcast
                return None
        if need[1] is not None:
            shape = _shape_at(need[1])
            if input.ndim < 2 or g.ndim < 2 or len(shape) < 2:
                return None
            if len(shape) == 2 and input.ndim > 2:
                right = matmul.kernel(_rows(input).swapaxes(0, 1), _rows(g))
            else:
                right = matmul.kernel(input.swapaxes(-2, -1), g)
            if right.shape != shape:
                return None
        return left, right

    def ref(a, b):
        return np.matmul(a, b)

    def samples():
        yield Sample(t(3, 4), t(4, 2))
        yield Sample(t(4), t(4, seed=1))
        yield Sample(t(3, 4), t(4))
        yield Sample(t(4), t(4, 2))
        yield Sample(t(2, 3, 4), t(4, 5))
        yield Sample(t(2, 1, 3, 4), t(5, 4, 2))
        yield Sample(t(2, 3, 4), t(4))
        yield Sample(t(4), t(2, 4, 3))

    def errors():
        yield (t(2, 3), t(2, 3)), {}, RuntimeError, "cannot be multiplied"
        yield (t(), t(3)), {}, RuntimeError, "at least 1D"
        yield (t(2, 3), t(3, 2, dtype=dt.int64)), {}, RuntimeError, "same dtype"
        yield (t(2, 3), t(1, dtype=dt.float64)), {}, RuntimeError, "size mismatch"
        yield (t(2, 3), t(2, 2, dtype=dt.float64)), {}, RuntimeError, "cannot be multiplied"


@function("__rmatmul__", function=False)
def rmatmul(self: Any, other: Any) -> Any:
    """``other @ self``."""
    return matmul(other, self) if hasattr(other, "_data") else NotImplemented


@op("nn.functional.linear(input: T, weight: T, bias: T? = None)", kind="extern")
class linear:
    """``input @ weight.T + bias``; input (..., in), weight (out, in) or (in), bias (out)."""

    def kernel(x, w, bias=None):
        d = x.dtype
        if d is w.dtype and (d is _F32 or d is _F64) and x.ndim == 2 and w.ndim == 2 and x.size * w.size <= BLAS_ALONE:
            if bias is None:
                return x.dot(w.T)
            if bias.dtype is d and bias.ndim <= 2:
                out = x.dot(w.T)
                return np.add(out, bias, out)
        if x.dtype != w.dtype or x.dtype.kind == "b" or (bias is not None and bias.dtype != x.dtype):
            raise ValueError
        if w.ndim > 2 or x.ndim == 0:
            raise ValueError
        out = product(x, w.T)
        if bias is None:
            return out
        if out.ndim == 0 or out.dtype == np.float16:
            return np.asarray(out + bias)
        return np.add(out, bias, out=out) if bias.ndim <= out.ndim else out + bias

    def meta(x, w, bias=None):
        if w.ndim > 2:
            raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {w.ndim}D")
        shape = _matmul_shape(x, Meta(w.shape[::-1], w.dtype))
        for other in (w, bias):
            if other is not None:
                _check_types(x.dtype, other.dtype)
        if bias is not None:
            shape = broadcast_shapes(shape, bias.shape)
        return Meta(shape, x.dtype)

    def decompose(x, w, bias=None):
        out = matmul(x, w.transpose(0, 1) if w.ndim == 2 else w)
        return out if bias is None else out + bias

    def vjp_input(g, weight, input_meta):
        if weight.ndim == 1:
            return g.unsqueeze(-1) * weight
        return matmul(g, weight)

    def vjp_weight(g, input, weight_meta):
        if len(weight_meta.shape) == 1:
            return _rows(input * g.unsqueeze(-1)).sum(0)
        if input.ndim == 1:
            return g.unsqueeze(-1) * input
        if input.ndim == 2:
            return matmul(g.transpose(0, 1), input)
        return matmul(_rows(g).transpose(0, 1), _rows(input))

    def vjp_bias(g):
        return g

    def on_arrays(g, input, weight, need):
        n = g.ndim
        if n < 2 or (need[0] is not None and weight.ndim != 2) or (need[1] is not None and input.ndim != n):
            return None
        back = to_weight = None
        if need[2] is not None:
            if _shape_at(need[2]) != g.shape[-1:]:
                return None
            back = sum_kernel(g, (*range(n - 1),), False)
        if need[1] is not None:
            rows, seen = (g, input) if n == 2 else (_rows(g), _rows(input))
            to_weight = matmul.kernel(rows.T, seen)
        return None if need[0] is None else matmul.kernel(g, weight), to_weight, back

    def ref(x, w, bias=None):
        return x @ w.T + (0 if bias is None else bias)

    def samples():
        yield Sample(t(3, 4), t(2, 4), t(2))
        yield Sample(t(2, 3, 4), t(5, 4))
        yield Sample(t(4), t(2, 4), t(2))
        yield Sample(t(3, 4), t(4))

    def errors():
        yield (t(3, 4), t(2, 3)), {}, RuntimeError, "cannot be multiplied"


def _rank(name: str, x: Any, n: int, arg: str) -> None:
    if not hasattr(x, "_data"):
        raise TypeError(f"{name}(): argument '{arg}' must be Tensor, not {type(x).__name__}")
    if x.ndim != n:
        raise RuntimeError(f"{name}: {arg} must be a {n}D tensor, got {x.ndim}D")


def _inline(when: str, other: str = "mat2", call: str = "") -> Inline:
    """The product where both are of one floating point dtype and ``when`` holds for their arrays."""
    alike = "(d := a0.dtype) is a1.dtype and (d is NP32 or d.char == 'd')"
    return Inline(matmul, f"{alike} and {when}", call=call, using={"product": np.matmul}, other=other)


@function("mm(input: T, mat2: T)", inline=_inline("a0.ndim == 2 == a1.ndim"))
def mm(input: Any, mat2: Any) -> Any:
    """Product of two matrices. RuntimeError unless both are 2-d."""
    if (shapes := _plain_shapes(input, mat2)) and len(shapes[0]) == 2 == len(shapes[1]):
        return _matmul(input, mat2)
    _rank("mm", input, 2, "self")
    _rank("mm", mat2, 2, "mat2")
    return matmul(input, mat2)


_BATCHES = "a0.ndim == 3 == a1.ndim and (s := a0.shape)[0] == (m := a1.shape)[0] and s[2] == m[1]"


@function(
    "bmm(input: T, mat2: T)",
    inline=_inline(f"{_BATCHES} and a0.size * m[2] <= {BLAS_ALONE}", call="product(a0, a1)"),
)
def bmm(input: Any, mat2: Any) -> Any:
    """Products of matrices in two batches of one size. RuntimeError unless both are 3-d."""
    if (ranks := _plain_shapes(input, mat2)) and len(ranks[0]) == 3 == len(ranks[1]):
        if ranks[0][0] == ranks[1][0] and ranks[0][2] == ranks[1][1]:
            return _matmul(input, mat2)
    _rank("bmm", input, 3, "batch1")
    _rank("bmm", mat2, 3, "batch2")
    a, b = input.shape, mat2.shape
    if (a[0] is not b[0] and a[0] != b[0]) or (a[2] is not b[1] and a[2] != b[1]):
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{a[0]}, {a[2]}] but got: "
            f"[{b[0]}, {b[1]}]."
        )
    return matmul(input, mat2)


@function("mv(input: T, vec: T)", inline=_inline("a0.ndim == 2 and a1.ndim == 1", "vec"))
def mv(input: Any, vec: Any) -> Any:
    """Matrix times vector."""
    if (shapes := _plain_shapes(input, vec)) and len(shapes[0]) == 2 and len(shapes[1]) == 1:
        return _matmul(input, vec)
    if input.ndim != 2 or vec.ndim != 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got {input.ndim}, {vec.ndim}")
    return matmul(input, vec)


@function(
    "dot(input: T, tensor: T, other: T)",
    names=("vdot",),
    inline=_inline("other is None and a0.ndim == 1 == a1.ndim", "tensor"),
)
def dot(input: Any, tensor: Any = None, *, other: Any = None) -> Any:
    """Inner product of two vectors of one size and dtype."""
    if tensor is not None and (shapes := _plain_shapes(input, tensor)) and len(shapes[0]) == 1 == len(shapes[1]):
        return _matmul(input, tensor)
    other = tensor if other is None else other
    if other is None:
        raise TypeError("dot() missing 1 required positional argument: 'tensor'")
    if input.ndim != 1 or other.ndim != 1:
        raise RuntimeError(f"1D tensors expected, but got {input.ndim}D and {other.ndim}D tensors")
    if input.dtype is not other.dtype:
        raise RuntimeError(
            "dot : expected both vectors to have same dtype, but found "
            f"{_TYPES[input.dtype.name]} and {_TYPES[other.dtype.name]}"
        )
    return matmul(input, other)


@function("outer(input: T, vec2: T)", names=("ger",))
def outer(input: Any, vec2: Any) -> Any:
    """All products of the elements of two vectors."""
    for i, x in enumerate((input, vec2)):
        if x.ndim != 1:
            raise RuntimeError(f"outer: Expected 1-D argument {'self' if i == 0 else 'vec2'}, but got {x.ndim}-D")
    return input.unsqueeze(1) * vec2


_matmul = matmul.fn
_add = late_op("add")


def _plain_shapes(a: Any, b: Any) -> tuple[tuple, tuple] | None:
    """The shapes of two plain tensors with data, of one floating point dtype; else None."""
    if type(a) not in FAST or type(b) not in FAST:
        return None
    x, y = a._data, b._data
    if x is None or y is None or x.dtype is not y.dtype or x.dtype.kind != "f":
        return None
    return x.shape, y.shape


def _plus(name: str, input: Any, product_: Any, beta: Any, alpha: Any) -> Any:
    """beta * input + alpha * product; beta 0 ignores what input holds."""
    if not input.is_floating_point() and (isinstance(beta, float) or isinstance(alpha, float)):
        which = "beta" if isinstance(beta, float) else "alpha"
        raise RuntimeError(f"For integral input tensors, argument {which} must not be a floating point number.")
    try:
        fits = broadcast_shapes(input.shape, product_.shape) == tuple(product_.shape)
    except RuntimeError:
        fits = False
    if not fits:
        raise RuntimeError(
            f"The expanded size of the tensor {list(product_.shape)} must match the existing size "
            f"{list(input.shape)} in {name}"
        )
    out = product_ if type(alpha) is int and alpha == 1 else product_ * alpha
    if beta == 0:
        return out
    return (input if type(beta) is int and beta == 1 else input * beta) + out


def _same_types(name: str, *xs: Any) -> None:
    for x in xs[1:]:
        if x.dtype is not xs[0].dtype:
            raise RuntimeError(
                f"{name}: self and mat2 must have the same dtype, but got {_TYPES[xs[0].dtype.name]} and "
                f"{_TYPES[x.dtype.name]}"
            )


@op("_add_product(input: T, a: T, b: T)", kind="composite", method=False)
class _add_product:
    """``input + a @ b`` of matrices, or of batches alike; ``input`` broadcasts to it."""

    def meta(x, a, b):
        return Meta((*a.shape[:-1], b.shape[-1]), a.dtype)

    def kernel(x, a, b):
        return x + matmul.kernel(a, b)

    def vjp_input(g):
        return g

    def vjp_a(g, b):
        return matmul(g, b.transpose(-2, -1))

    def vjp_b(g, a):
        return matmul(a.transpose(-2, -1), g)

    def decompose(x, a, b):
        return x + matmul(a, b)

    def samples():
        yield Sample(t(3, 2), t(3, 4), t(4, 2))
        yield Sample(t(2), t(3, 4), t(4, 2))
        yield Sample(t(2, 3, 2), t(2, 3, 4), t(2, 4, 2))


_ADDED = "beta is D_beta and alpha is D_alpha and (d := a0.dtype) is a1.dtype is a2.dtype and d.char in 'fd' and "


@function(
    "addmm(input: T, mat1: T, mat2: T, beta: num, alpha: num)",
    inline=Inline(
        _add_product,
        _ADDED + "a1.ndim == 2 == a2.ndim and (n := a1.shape)[1] == (m := a2.shape)[0] "
        "and ((s := a0.shape) == m[1:] or s == (n[0], m[1]))",
        a="mat1",
        b="mat2",
    ),
)
def addmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta * input + alpha * (mat1 @ mat2)."""
    if type(beta) is int and beta == 1 and type(alpha) is int and alpha == 1 and (shapes := _plain_shapes(mat1, mat2)):
        (a, b), d = shapes, input._data
        if len(a) == 2 == len(b) and d is not None and d.dtype is mat1._data.dtype and d.shape in (b[1:], (a[0], b[1])):
            return _add(input, _matmul(mat1, mat2))
    _rank("addmm", mat1, 2, "mat1")
    _rank("addmm", mat2, 2, "mat2")
    _same_types("addmm", mat1, mat2, input)
    return _plus("addmm", input, matmul(mat1, mat2), beta, alpha)


@function("addbmm(input: T, batch1: T, batch2: T, beta: num, alpha: num)")
def addbmm(input: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta * input + alpha * (sum over the batch of batch1 @ batch2)."""
    if not input.is_floating_point():
        beta, alpha = int(beta), int(alpha)
    return _plus("addbmm", input, bmm(batch1, batch2).sum(0), beta, alpha)


@function(
    "baddbmm(input: T, batch1: T, batch2: T, beta: num, alpha: num)",
    inline=Inline(
        _add_product,
        _ADDED + "a1.ndim == 3 == a2.ndim and (n := a1.shape)[2] == (m := a2.shape)[1] and n[0] == m[0] "
        "and a0.shape == (*n[:2], m[2])",
        a="batch1",
        b="batch2",
    ),
)
def baddbmm(input: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta * input + alpha * (batch1 @ batch2)."""
    if type(beta) is int and beta == 1 and type(alpha) is int and alpha == 1 and (of := _plain_shapes(batch1, batch2)):
        (a, b), d = of, input._data
        if len(a) == 3 == len(b) and d is not None and d.dtype is batch1._data.dtype and d.shape == (*a[:2], b[2]):
            return _add(input, bmm(batch1, batch2))
    _same_types("baddbmm", batch1, batch2, input)
    if not input.is_floating_point():
        beta, alpha = int(beta), int(alpha)
    return _plus("baddbmm", input, bmm(batch1, batch2), beta, alpha)


@function("addmv(input: T, mat: T, vec: T, beta: num, alpha: num)")
def addmv(input: Any, mat: Any, vec: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta * input + alpha * (mat @ vec)."""
    if type(beta) is int and beta == 1 and type(alpha) is int and alpha == 1 and (of := _plain_shapes(mat, vec)):
        (a, b), d = of, input._data
        if len(a) == 2 and b == a[1:] and d is not None and d.dtype is mat._data.dtype and d.shape == a[:1]:
            return _add(input, _matmul(mat, vec))
    if not input.is_floating_point():
        beta, alpha = int(beta), int(alpha)
    return _plus("addmv", input, mv(mat, vec), beta, alpha)


@function("addr(input: T, vec1: T, vec2: T, beta: num, alpha: num)")
def addr(input: Any, vec1: Any, vec2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta * input + alpha * outer(vec1, vec2)."""
    if input.dtype is dt.bool_ and vec1.dtype is dt.bool_ and vec2.dtype is dt.bool_:
        both = outer(vec1, vec2) if alpha else outer(vec1, vec2) & False
        return (input | both) if beta else both.clone()
    return _plus("addr", input, outer(vec1, vec2), beta, alpha)


def _in_place_form(name: str, fn: Any) -> None:
    from ..inplace import check_overlap
    from ._inplace_forms import _in_place

    def form(input: Any, *args: Any, **kwargs: Any) -> Any:
        if fn is addr:  # the others compute a product first
            check_overlap(input, args)
        return _in_place(input, lambda old: fn(old, *args, **kwargs))

    form.__name__ = form.__qualname__ = name
    form.__doc__ = f"In-place form of ``{fn.__name__}``."
    function(f"{name}(input: T)", function=False)(form)


for _fn in (addmm, baddbmm, addmv, addr):
    _in_place_form(_fn.__name__ + "_", _fn)


@function("addbmm_(input: T, batch1: T, batch2: T, beta: num, alpha: num)", function=False)
def addbmm_(input: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """In-place form of ``addbmm``. As in PyTorch, a tensor that broadcasts to the result takes the result's shape."""
    from ..inplace import bump, check_writable, old_value
    from ._inplace_forms import _in_place

    shape = (batch1.shape[1], batch2.shape[2]) if batch1.ndim == batch2.ndim == 3 else tuple(input.shape)
    if tuple(input.shape) == shape or input._data is None or input._view is not None:
        return _in_place(input, lambda old: addbmm(old, batch1, batch2, beta=beta, alpha=alpha))
    check_writable(input)
    r = addbmm(old_value(input, False), batch1, batch2, beta=beta, alpha=alpha)
    input._data, input._node, input._nr, input._rg = r._data, r._node, r._nr, r._rg
    bump(input)
    return input
