"""Views: results that share the memory of their input. Kernels are numpy view code; meta rules know the strides."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from .. import dtypes as dt
from ..autograd.names import renamed
from ..meta import Meta, contiguous_strides, normalize_dim, normalize_dims
from ..op import Inline, Sample, function, op
from ..size_values import SymbolicSize
from ..tensor import Tensor, extra_of, own
from ._names import numpy_names
from ._samples import t
from ._shapes import infer_size, view_strides

_NOT_VIEWABLE = (
    "view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
    "contiguous subspaces). Use .reshape(...) instead."
)


def relayout(m: Meta, shape: Any, strides: Any) -> Meta:
    """A Meta of the same dtype; strides that are those of a contiguous tensor become None."""
    shape = tuple(shape)
    if strides is not None:
        strides = tuple(strides)
        if all(type(s) is int for s in shape + strides) and strides == contiguous_strides(shape):
            strides = None
    return Meta(shape, m.dtype, strides)


@op("view(input: T, size: shape)", kind="view", method=False, function=False)
class view:
    """The same elements in another shape, without a copy; one size may be -1. RuntimeError if strides forbid it."""

    def kernel(a, size):
        if a.flags.c_contiguous:  # never copies; the keyword takes a quarter of a microsecond
            return a.reshape(size)
        return a.reshape(size, copy=False)

    def meta(m, size):
        shape = infer_size(size, m.numel)
        if m.strides is None:
            return Meta(shape, m.dtype)
        strides = view_strides(m.shape, m.strides, shape)
        if strides is None:
            raise RuntimeError(_NOT_VIEWABLE)
        return relayout(m, shape, strides)

    def vjp(g, input_meta):
        return reshape(g, input_meta.shape)

    def on_arrays(g, input_meta):
        return (g.reshape(input_meta.shape),)

    def ref(a, size):
        return np.reshape(a, size)

    def samples():
        yield Sample(t(3, 4), (4, 3))
        yield Sample(t(2, 3, 4), (6, -1))
        yield Sample(t(2, 2), (-1,))
        yield Sample(t(), (1, 1))

    def errors():
        yield (t(2, 3), (5,)), {}, RuntimeError, "is invalid for input of size 6"
        yield (t(2, 3), (-1, -1)), {}, RuntimeError, "only one dimension"


@op("view_dtype(input: T, dtype: dtype)", kind="view", nondiff=True, method=False, function=False)
class view_dtype:
    """The same bytes read as another dtype; the last dimension shrinks or grows with the item size."""

    def kernel(a, dtype):
        return a.view(dtype.np)

    def meta(m, dtype):
        old, new = m.dtype.itemsize, dtype.itemsize
        if old == new:
            return Meta(m.shape, dtype, m.strides)
        if not m.shape:
            raise RuntimeError(f"self.dim() cannot be 0 to view {m.dtype} as {dtype} (different element sizes)")
        if m.strides is not None and m.strides[-1] != 1:
            raise RuntimeError(
                f"self.stride(-1) must be 1 to view {m.dtype} as {dtype} (different element sizes), but "
                f"got {m.strides[-1]}"
            )
        if (m.shape[-1] * old) % new != 0:
            raise RuntimeError(
                f"self.size(-1) must be divisible by {new // old} to view {m.dtype} as {dtype} "
                f"(different element sizes), but got {m.shape[-1]}"
            )
        strides = None if m.strides is None else (*(s * old // new for s in m.strides[:-1]), 1)
        return Meta((*m.shape[:-1], m.shape[-1] * old // new), dtype, strides)

    def ref(a, dtype):
        return np.ascontiguousarray(a).view(dtype.np)

    def samples():
        yield Sample(t(2, 4), dt.int64, grad=False)
        yield Sample(t(2, 4), dt.int32, grad=False)


@function(
    "view(input: T, size: ints, dtype: dtype)",
    function=False,
    direct=True,
    inline=Inline(
        view,
        "shape and size is None and dtype is None and a0.flags.c_contiguous",
        ints="shape",
        least=-1,
        call="a0.reshape(shape)",
        size="shape",
    ),
)
def view_method(input: Any, *shape: Any, size: Any = None, dtype: Any = None) -> Any:
    """``x.view(2, 3)``, ``x.view((2, 3))``, ``x.view(-1)``, or ``x.view(dtype)``: the same bytes read so."""
    if shape and size is None and dtype is None and type(shape[0]) is int:
        return _view(input, size=shape)
    if dtype is not None or (len(shape) == 1 and isinstance(shape[0], dt.dtype)):
        out = view_dtype(input, dtype if dtype is not None else shape[0])
        return out.detach() if hasattr(out, "_data") else out  # bytes have no derivative: no view of the graph, either
    return _view(input, *shape, size=size)


_view = view.fn


def _shape_arg(args: tuple, keyword: Any = None) -> tuple:
    if keyword is not None:
        args = (keyword,)
    if len(args) == 1 and isinstance(args[0], (tuple, list)):
        args = tuple(args[0])
    for s in args:
        if not (type(s) is int or isinstance(s, SymbolicSize) or hasattr(s, "__index__")):
            raise TypeError(
                f"reshape(): argument 'shape' must be tuple of ints, but found element of type {type(s).__name__}"
            )
    return args


@function(
    "reshape(input: T, *shape: ints)",
    direct=True,
    inline=Inline(
        view,
        "shape and not kw and a0.flags.c_contiguous",
        ints="shape",
        least=-1,
        call="a0.reshape(shape)",
        size="shape",
    ),
)
def reshape(input: Any, *shape: Any, **kw: Any) -> Any:
    """The same elements in another shape: a view where the strides allow it, else a copy."""
    d = input._data
    if d is not None and not kw and shape and d.flags.c_contiguous:
        first = shape[0]
        if type(first) is int:
            return _view(input, size=shape)
        return _view(input, size=first) if type(first) is tuple and len(shape) == 1 else _view(input, *shape)
    size = _shape_arg(shape, kw.pop("shape", None))
    if kw:
        raise TypeError(f"reshape() got an unexpected keyword argument {next(iter(kw))!r}")
    if input.is_contiguous():
        return view(input, size)
    m = input.meta_()
    full = infer_size(size, m.numel)
    if view_strides(m.shape, m.strides, full) is not None:
        return view(input, full)
    return renamed(own(view(input.contiguous(), full)), "UnsafeViewBackward0")


_AS = Inline(
    view,
    "type(other) is Tensor and other._data is not None and a0.flags.c_contiguous",
    call="a0.reshape(e_size)",
    size="other._data.shape",
)


@function("view_as(input: T, other: T)", inline=_AS)
def view_as(input: Any, other: Any) -> Any:
    """A view of the shape of ``other``."""
    return view(input, other.shape)


@function("reshape_as(input: T, other: T)", inline=_AS)
def reshape_as(input: Any, other: Any) -> Any:
    """Reshaped to the shape of ``other``."""
    return reshape(input, other.shape)


@function(
    "flatten(input: T, start_dim: dim, end_dim: dim)",
    inline=Inline(
        view,
        "type(start_dim) is int and type(end_dim) is int and end_dim == -1 and 0 <= start_dim < a0.ndim - 1 "
        "and a0.flags.c_contiguous",
        call="a0.reshape(e_size)",
        size="(a0.size,) if start_dim == 0 else (*a0.shape[:start_dim], prod(a0.shape[start_dim:]))",
    ),
)
def flatten(input: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    """Dimensions ``start_dim`` to ``end_dim`` merged into one. RuntimeError if start comes after end."""
    d = input._data
    if d is not None and end_dim == -1 and d.ndim > 1 and d.flags.c_contiguous and 0 <= start_dim < d.ndim - 1:
        return _view(input, size=(*d.shape[:start_dim], d.size if start_dim == 0 else math.prod(d.shape[start_dim:])))
    n = input.ndim
    a, b = normalize_dim(start_dim, n), normalize_dim(end_dim, n)
    if a > b:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if n == 0:
        return view(input, (1,))
    if a == b:
        return input
    s = input.shape
    merged = 1
    for k in s[a : b + 1]:
        merged = merged * k
    return reshape(input, (*s[:a], merged, *s[b + 1 :]))


@function("ravel(input: T)")
def ravel(input: Any) -> Any:
    """All elements in one dimension."""
    return view(input.contiguous(), (input.numel(),))


@function(
    "unflatten(input: T, dim: int)",
    inline=Inline(
        view,
        "type(dim) is int and -(n := a0.ndim) <= dim < n and type(sizes) is tuple and {*map(type, sizes)} == {int} "
        "and min(sizes) >= 0 and prod(sizes) == a0.shape[dim] and a0.flags.c_contiguous",
        call="a0.reshape(e_size)",
        size="(*a0.shape[: dim % n], *sizes, *a0.shape[dim % n + 1 :])",
    ),
)
def unflatten(input: Any, dim: int, sizes: Any) -> Any:
    """Dimension ``dim`` split into ``sizes`` (one may be -1). RuntimeError if they do not multiply to its size."""
    sizes = tuple(sizes)
    d = normalize_dim(dim, input.ndim)
    if not sizes:
        raise RuntimeError("unflatten: sizes must be non-empty")
    if not input.ndim:
        raise RuntimeError(f"unflatten: dimension specified as {dim} but tensor has no dimensions")
    n = input.shape[d]
    try:
        full = infer_size(sizes, n)
    except RuntimeError as e:
        if "only one" in str(e):
            raise
        raise RuntimeError(
            f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {d} ({n}) in "
            "the input tensor"
        ) from None
    return view(input, (*input.shape[:d], *full, *input.shape[d + 1 :]))


def _pick(m: Meta, order: Any) -> Meta:
    strides = m.stride()
    return relayout(m, [m.shape[i] for i in order], [strides[i] for i in order])


@op("transpose(input: T, dim0: dim, dim1: dim)", kind="view", names=("swapaxes", "swapdims"))
class transpose:
    """Two dimensions exchanged."""

    short = "{0}.ndim", "{0}.swapaxes({dim0}, {dim1})"

    def kernel(a, dim0, dim1):
        return a.swapaxes(dim0, dim1) if a.ndim else a.view()

    def meta(m, dim0, dim1):
        order = list(range(m.ndim))
        if order:
            order[dim0], order[dim1] = order[dim1], order[dim0]
        return _pick(m, order)

    def vjp(g, dim0, dim1):
        return transpose(g, dim0, dim1)

    def ref(a, dim0, dim1):
        return np.swapaxes(a, dim0, dim1)

    def samples():
        yield Sample(t(3, 4), 0, 1)
        yield Sample(t(2, 3, 4), 0, -1)

    def errors():
        yield (t(2, 3), 0, 2), {}, IndexError, "Dimension out of range"


@op("permute(input: T, dims: dims)", kind="view", method=False, function=False)
class permute_op:
    """Dimensions in the order ``dims``."""

    short = "", "{0}.transpose({dims})"

    def kernel(a, dims):
        return a.transpose(dims)

    def meta(m, dims):
        if len(dims) != m.ndim:
            raise RuntimeError(
                "permute: number of dimensions in the tensor input does not match the length of the desired "
                f"ordering of dimensions i.e. input.dim() = {m.ndim} is not equal to len(dims) = {len(dims)}"
            )
        return _pick(m, dims)

    def vjp(g, dims):
        inverse = [0] * len(dims)
        for i, d in enumerate(dims):
            inverse[d] = i
        return permute_op(g, tuple(inverse))

    def on_arrays(g, dims):
        inverse = [0] * len(dims)
        for i, d in enumerate(dims):
            inverse[d] = i
        return (g.transpose(inverse),)

    def ref(a, dims):
        return np.transpose(a, dims)

    def samples():
        yield Sample(t(2, 3, 4), (2, 0, 1))
        yield Sample(t(3, 4), (-1, 0))

    def errors():
        yield (t(2, 3), (0,)), {}, RuntimeError, "number of dimensions"
        yield (t(2, 3), (0, 0)), {}, RuntimeError, "multiple times"


@function("permute(input: T, *dims: ints)", inline=Inline(permute_op, "dims and not kw", ints="dims"))
def permute(input: Any, *dims: Any, **kw: Any) -> Any:
    """Dimensions in another order: ``x.permute(2, 0, 1)`` or ``permute(x, (2, 0, 1))``."""
    if not dims or kw or type(dims[0]) is not int:
        dims = _shape_arg(dims, kw.get("dims"))
    if len(dims) != input.ndim:  # before any of them is looked at
        permute_op.meta(input, dims)
    return _permute(input, dims)


_permute = permute_op.fn


@function("t(input: T)", direct=True)
def t_(input: Any) -> Any:
    """Transpose of a matrix (a vector or number stays). RuntimeError for more dimensions."""
    n = input.ndim
    if n > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {n}D")
    if n < 2:
        return alias_view(input)
    return renamed(_transpose(input, 0, 1), "TBackward0")


_transpose = transpose.fn


def alias_view(input: Any) -> Any:
    """The whole tensor as a view of itself."""
    return view(input, input.shape) if input.is_contiguous() else permute_op(input, tuple(range(input.ndim)))


@function("adjoint(input: T)")
def adjoint(input: Any) -> Any:
    """The last two dimensions exchanged (a tensor without dimensions as it is)."""
    return matrix_transpose(input) if input.ndim else alias_view(input)


def matrix_transpose(input: Any) -> Any:
    """``x.mT``: the last two dimensions exchanged; without dimensions as it is. RuntimeError for one dimension."""
    if not input.ndim:
        return alias_view(input)
    if input.ndim < 2:
        raise RuntimeError(
            f"tensor.mT is only supported on matrices or batches of matrices. Got {input.ndim}-D tensor."
        )
    return _transpose(input, -2, -1)


def reverse_dims(input: Any) -> Any:
    """``x.T``: all dimensions in reverse order."""
    if input.ndim == 2:
        return renamed(_transpose(input, 0, 1), "PermuteBackward0")
    return permute_op(input, tuple(range(input.ndim))[::-1])


@functools.lru_cache(maxsize=256)
def _one_moved(n: int, source: int, to: int) -> tuple[int, ...]:
    """The order of n dimensions of which one is moved."""
    rest = [i for i in range(n) if i != source % n]
    return (*rest[: to % n], source % n, *rest[to % n :])


@function(
    "movedim(input: T, source: ints, destination: ints)",
    names=("moveaxis",),
    inline=Inline(
        permute_op,
        "type(source) is int and type(destination) is int and (n := a0.ndim) and -n <= source < n "
        "and -n <= destination < n",
        dims="one_moved(n, source, destination)",
        using={"one_moved": _one_moved},
    ),
)
def movedim(input: Any, source: Any, destination: Any) -> Any:
    """Dimensions ``source`` moved to positions ``destination``; the others keep their order."""
    n = input.ndim
    src, dst = normalize_dims(source, n), normalize_dims(destination, n)
    if len(src) != len(dst):
        raise RuntimeError(
            f"movedim: Invalid source or destination dims: source ({list(src)} dims) should contain the same "
            f"number of dims as destination ({list(dst)} dims)"
        )
    if n == 0:
        return alias_view(input)
    rest = iter([i for i in range(n) if i not in src])
    to = dict(zip(dst, src, strict=True))
    return permute_op(input, tuple(to[i] if i in to else next(rest) for i in range(n)))


@op("unsqueeze(input: T, dim: dim+1)", kind="view")
class unsqueeze:
    """A dimension of size 1 put in at ``dim``."""

    short = "{dim} == 0", "{0}[None]"

    def kernel(a, dim):
        if dim == 0:
            return a[None]
        return a[(slice(None),) * dim + (None,)] if a.ndim else a.reshape((1,))

    def meta(m, dim):
        if m.strides is None:
            return Meta((*m.shape[:dim], 1, *m.shape[dim:]), m.dtype)
        step = m.strides[dim] * m.shape[dim] if dim < m.ndim else 1
        return relayout(m, (*m.shape[:dim], 1, *m.shape[dim:]), (*m.strides[:dim], step, *m.strides[dim:]))

    def vjp(g, dim):
        return squeeze_dims(g, (dim,))

    def on_arrays(g, dim):
        return (g.squeeze(dim),)

    def ref(a, dim):
        return np.expand_dims(a, dim)

    def samples():
        yield Sample(t(3, 4), 1)
        yield Sample(t(3), -1)

    def errors():
        yield (t(2, 3), 3), {}, IndexError, "Dimension out of range"


@op("squeeze_dims(input: T, dims: dims)", kind="view", method=False, function=False)
class squeeze_dims:
    """Without those of ``dims`` that have size 1."""

    short = "len({dims}) == 1", "{0}.squeeze({dims}) if {0}.shape[{dims}[0]] == 1 else {0}.view()"

    def kernel(a, dims):
        shape = a.shape
        drop = tuple([d for d in dims if shape[d] == 1]) if shape else ()
        return a.squeeze(drop) if drop else a.view()

    def meta(m, dims):
        strides = m.stride()
        stay = [i for i in range(m.ndim) if i not in dims or m.shape[i] != 1]
        return relayout(m, [m.shape[i] for i in stay], None if m.strides is None else [strides[i] for i in stay])

    def vjp(g, input_meta):
        return reshape(g, input_meta.shape)

    def on_arrays(g, input_meta):
        return (g.reshape(input_meta.shape),)

    def ref(a, dims):
        return np.squeeze(a, tuple(d for d in np.atleast_1d(dims) if a.shape[d] == 1))

    def samples():
        yield Sample(t(3, 1, 4, 1), (1, 2))
        yield Sample(t(1, 2), 0)


@function(
    "squeeze(input: T, dim: dims)",
    inline=Inline(
        squeeze_dims,
        "not dims and (dim is None or type(dim) is int and -a0.ndim <= dim < a0.ndim)",
        dims="tuple(range(a0.ndim)) if dim is None else (dim % a0.ndim,)",
    ),
)
@numpy_names
def squeeze(input: Any, dim: Any = None, *dims: Any) -> Any:
    """Without dimensions of size 1 (all, or those of ``dim``)."""
    if dims:
        dim = (dim, *dims)
    return _squeeze(input, tuple(range(input.ndim)) if dim is None else dim)


_squeeze = squeeze_dims.fn


_SECOND = {"t_": "TBackward1", "transpose_": "TransposeBackward1", "unsqueeze_": "UnsqueezeBackward1"}


def _restrided(name: str, fn: Any) -> None:
    """An in-place form that changes how a tensor looks at its memory, not the memory."""
    from ..autograd.modes import STATE, enable_grad, set_grad
    from ..inplace import bump, check_writable

    def form(input: Any, *args: Any, **kwargs: Any) -> Any:
        check_writable(input, same=True)
        rec, shape = input._view, input.shape
        if rec is None and input._node is not None and not STATE.grad:
            set_grad(True)  # its history goes on, whatever the mode
            try:
                new = fn(input, *args, **kwargs)
            finally:
                set_grad(False)
        elif rec is None or rec.made is not None or STATE.grad or STATE.inference:
            new = fn(input, *args, **kwargs)
            if rec is not None and rec.made is not None and new is not input:
                new._view.made = rec.made  # how it looks at the memory changed, not how it came to be
        else:
            with enable_grad():  # nothing is computed: the base's history can follow it as it could before
                new = fn(input, *args, **kwargs)
        if new is not input:
            input._data, input._g = new._data, new._g
            if new._rg and rec is not None or input._node is not None:  # a leaf stays one, where nothing is recorded
                input._node, input._nr, input._rg = new._node, new._nr, new._rg
                if name in _SECOND:
                    renamed(input, _SECOND[name])
            if rec is not None:
                input._view = new._view
        bump(input)
        if rec is not None and new is not input and input._st is not None:
            input._view.version = input._st.version  # its history is up to date
        if rec is None and new is not input and input._st is not None:
            op, attrs, _ = new._view.chain[-1]
            undo = (op, attrs) if op.name == "transpose" else (view, {"size": tuple(shape)})
            extra_of(input).undo += ((input._st.version, *undo),)
        return input

    form.__name__ = form.__qualname__ = name
    form.__doc__ = f"In-place form of ``{name[:-1]}``: the same memory, seen otherwise."
    function(f"{name}(input: T)", function=False)(form)


for _name, _fn in (
    ("squeeze_", squeeze),
    ("unsqueeze_", unsqueeze),
    ("t_", t_),
    ("transpose_", transpose),
    ("swapaxes_", transpose),
    ("swapdims_", transpose),
):
    _restrided(_name, _fn)

Tensor.T = property(reverse_dims, doc="All dimensions in reverse order.")  # type: ignore[attr-defined]
Tensor.mT = property(matrix_transpose, doc="The last two dimensions exchanged.")  # type: ignore[attr-defined]
Tensor.H = property(lambda x: _hermitian(x), doc="The transpose of a matrix.")  # type: ignore[attr-defined]
Tensor.mH = property(matrix_transpose, doc="The last two dimensions exchanged.")  # type: ignore[attr-defined]


def _hermitian(input: Any) -> Any:
    if input.ndim not in (0, 2):
        raise RuntimeError(f"tensor.H is only supported on matrices (2-D tensors). Got {input.ndim}-D tensor.")
    return transpose(input, 0, 1) if input.ndim else alias_view(input)
