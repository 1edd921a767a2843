"""What PyTorch has under a second name: losses of ``nn.functional`` at the top, copies of views, facts of tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import fusegrad

from ..op import function
from ..tensor import Tensor

# ---- facts about a tensor, which are the same for all here ----


@function("get_device(input: T)")
def get_device(input: Tensor) -> int:
    """-1: the CPU has no number."""
    return -1


@function("is_signed(input: T)", function=True, method=False)
def is_signed(input: Tensor) -> bool:
    """Whether its dtype has negative numbers."""
    return input.dtype.is_signed


@function("is_conj(input: T)", names=("is_neg", "is_distributed"))
def is_conj(input: Tensor) -> bool:
    """False: there are no complex tensors."""
    return False


@function("is_pinned(input: T)", function=False)
def is_pinned(input: Tensor) -> bool:
    """False: memory is pinned for devices that are not here."""
    return False


@function("pin_memory(input: T)", function=False)
def pin_memory(input: Tensor, device: Any = None) -> Tensor:
    """RuntimeError: memory is pinned for devices that are not here."""
    raise RuntimeError("Cannot access accelerator device when none is available.")


@function("_prelu(input: T, weight: T)", function=False, names=("prelu",))
def _prelu(input: Tensor, weight: Tensor) -> Tensor:
    """`nn.functional.prelu`."""
    return _functional().prelu(input, weight)


@function("is_same_size(input: T, other: T)")
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether the shapes are equal."""
    return tuple(input.shape) == tuple(other.shape)


@function("is_set_to(input: T, tensor: T)", function=False)
def is_set_to(input: Tensor, tensor: Tensor) -> bool:
    """Whether both are the same memory in the same shape and strides."""
    same = tuple(input.shape) == tuple(tensor.shape) and input.stride() == tensor.stride()
    return same and input.dtype is tensor.dtype and input.data_ptr() == tensor.data_ptr()


@function("dim_order(input: T)", function=False)
def dim_order(input: Tensor) -> tuple[int, ...]:
    """The dimensions from the one with the largest stride to the smallest."""
    strides = input.stride()
    return tuple(sorted(range(len(strides)), key=lambda d: -strides[d]))


@function("to_dense(input: T)", function=False)
def to_dense(input: Tensor, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
    """The tensor itself (in another dtype): none is sparse."""
    return input if dtype is None else input.to(dtype)


@function("new(self: T)", function=False)
def new(self: Tensor, *args: Any, device: Any = None) -> Tensor:
    """A tensor of the same dtype: of sizes (its contents are not set), or of the numbers of a list or tensor."""
    if len(args) == 1 and not isinstance(args[0], (int, fusegrad.Size)):
        return self.new_tensor(args[0])
    return self.new_empty(args[0] if len(args) == 1 and not isinstance(args[0], int) else args)


@function("resize(self: T, *sizes: ints)", function=False)
def resize(self: Tensor, *sizes: Any) -> Tensor:
    """A view of the same elements in another shape."""
    shape = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes
    return self.contiguous().view(shape)


@function("map_(self: T, other: T)", function=False)
def map_(self: Tensor, other: Tensor, callable: Callable) -> Tensor:
    """Every element becomes callable(element, other's element). Not recorded."""
    return _each(self, callable, other)


@function("map2_(self: T, x: T, y: T)", function=False)
def map2_(self: Tensor, x: Tensor, y: Tensor, callable: Callable) -> Tensor:
    """Every element becomes callable(element, x's element, y's element). Not recorded."""
    return _each(self, callable, x, y)


def _each(self: Tensor, fn: Callable, *others: Tensor) -> Tensor:
    if any(t.requires_grad for t in (self, *others)):
        raise RuntimeError("Can't call map_() on Variable that requires grad. Use var.detach().map_() instead.")
    rows = [t.expand_as(self).reshape(-1).tolist() for t in (self, *others)]
    values = [fn(*v) for v in zip(*rows, strict=True)]
    return self.copy_(fusegrad.tensor(values, dtype=self.dtype).view(self.shape))


# ---- pieces and copies ----


@function("narrow_copy(input: T, dim: dim, start: int, length: int)")
def narrow_copy(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """A copy of `narrow`."""
    return input.narrow(dim, start, length).clone()


@function("unsafe_chunk(input: T, chunks: int, dim: dim)")
def unsafe_chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple:
    """`chunk`, of which every piece may be changed in place: it has memory of its own."""
    return tuple(t.clone() for t in input.chunk(chunks, dim))


@function("unsafe_split(input: T, dim: dim)", names=("unsafe_split_with_sizes",))
def unsafe_split(input: Tensor, split_size: Any, dim: int = 0) -> tuple:
    """`split`, of which every piece may be changed in place: it has memory of its own."""
    return tuple(t.clone() for t in input.split(split_size, dim))


def _copied(name: str) -> None:
    """``view_copy`` and its like: what the view is, in memory of its own."""

    def copied(input: Tensor, *args: Any, out: Any = None, **kwargs: Any) -> Any:
        result = getattr(fusegrad, name, None) or getattr(Tensor, name)
        result = result(input, *args, **kwargs)
        if isinstance(result, Tensor):
            return result.clone() if out is None else out.copy_(result)
        return tuple(r.clone() for r in result)

    copied.__name__ = copied.__qualname__ = f"{name}_copy"
    copied.__doc__ = f"A copy of `{name}`."
    function(f"{name}_copy(input: T)", method=False)(copied)


for _name in (
    "alias detach diagonal expand permute select slice split split_with_sizes squeeze t transpose unbind unfold "
    "unsqueeze view as_strided"
).split():
    _copied(_name)


# ---- functions of nn.functional under their older signatures: reduction is 0 (none), 1 (mean) or 2 (sum) ----


def _functional() -> Any:
    return fusegrad.nn.functional


def _reduction(number: int) -> str:
    if number not in (0, 1, 2):
        raise ValueError(f"{number} is not a valid value for reduction")
    return ("none", "mean", "sum")[number]


@function("kl_div(input: T, target: T)", method=False)
def kl_div(input: Tensor, target: Tensor, reduction: int = 0, *, log_target: bool = False) -> Tensor:
    """`nn.functional.kl_div`."""
    return _functional().kl_div(input, target, reduction=_reduction(reduction), log_target=log_target)


@function("binary_cross_entropy_with_logits(input: T, target: T)", method=False)
def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Any = None, pos_weight: Any = None, reduction: int = 0
) -> Tensor:
    """`nn.functional.binary_cross_entropy_with_logits`."""
    return _functional().binary_cross_entropy_with_logits(
        input, target, weight=weight, pos_weight=pos_weight, reduction=_reduction(reduction)
    )


@function("poisson_nll_loss(input: T, target: T)", method=False)
def poisson_nll_loss(input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int) -> Tensor:
    """`nn.functional.poisson_nll_loss`."""
    return _functional().poisson_nll_loss(input, target, log_input, full, eps=eps, reduction=_reduction(reduction))


@function("margin_ranking_loss(input1: T, input2: T, target: T)", method=False)
def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 0
) -> Tensor:
    """`nn.functional.margin_ranking_loss`."""
    return _functional().margin_ranking_loss(input1, input2, target, margin, reduction=_reduction(reduction))


@function("hinge_embedding_loss(input: T, target: T)", method=False)
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, reduction: int = 0) -> Tensor:
    """`nn.functional.hinge_embedding_loss`."""
    return _functional().hinge_embedding_loss(input, target, margin, reduction=_reduction(reduction))


@function("constant_pad_nd(input: T)", method=False)
def constant_pad_nd(input: Tensor, pad: Sequence[int], value: float = 0) -> Tensor:
    """`nn.functional.pad` with a constant."""
    return _functional().pad(input, pad, "constant", value)


@function("alpha_dropout(input: T, p: float, train: bool)", names=("feature_alpha_dropout",), method=False)
def alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """`nn.functional.alpha_dropout`."""
    return _functional().alpha_dropout(input, p, train)


@function("feature_dropout(input: T, p: float, train: bool)", method=False)
def feature_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """`nn.functional.dropout2d` of any number of dimensions: whole channels."""
    return _functional().dropout2d(input, p, train) if train else input


@function("instance_norm(input: T)", method=False)
def instance_norm(
    input: Tensor,
    weight: Any,
    bias: Any,
    running_mean: Any,
    running_var: Any,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = False,
) -> Tensor:
    """`nn.functional.instance_norm`."""
    return _functional().instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


# ---- norms ----


@function("frobenius_norm(input: T, dim: dims?, keepdim: bool)", method=False)
def frobenius_norm(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """The root of the sum of squares."""
    return input.norm(2, dim, keepdim) if dim is not None else input.norm()


@function("nuclear_norm(input: T, keepdim: bool)", method=False)
def nuclear_norm(input: Tensor, keepdim: bool = False) -> Tensor:
    """The sum of the singular values of a matrix."""
    return fusegrad.linalg.matrix_norm(input, "nuc", keepdim=keepdim)


@function("norm_except_dim(v: T, pow: int, dim: int)", method=False)
def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """Norms over all dimensions but one (-1: over all), in a shape that broadcasts."""
    if dim == -1:
        return v.norm(pow)
    others = [d for d in range(v.dim()) if d != dim]
    return v.norm(pow, others, True) if others else v.abs()


# ---- new tensors ----


@function("range(dtype: dtype, requires_grad: bool?)", method=False)
def range_(start: Any = 0, end: Any = None, step: Any = 1, *, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """Numbers from start to end, the end among them (deprecated: `arange` leaves it out)."""
    from ..errors import warn

    warn(
        "fusegrad.range is deprecated and will be removed in a future release because its behavior is inconsistent "
        "with Python's range builtin. Instead, use fusegrad.arange, which produces values in [start, end)."
    )
    if end is None:
        start, end = 0, start
    count = int(np.floor((end - start) / step)) + 1
    kind = fusegrad.get_default_dtype() if dtype is None else dtype
    values = start + step * fusegrad.arange(count, dtype=fusegrad.float64)
    return values.to(kind).requires_grad_(requires_grad)


@function("frombuffer(dtype: dtype, count: int, offset: int, requires_grad: bool?)", method=False)
def frombuffer(buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Tensor:
    """A vector that shares memory with a buffer. ValueError where the buffer doesn't hold `count` elements."""
    size = memoryview(buffer).nbytes
    if size == 0 or count == 0:
        raise ValueError(f"both buffer length ({size}) and count ({count}) must not be 0")
    if not 0 <= offset < size:
        raise ValueError(
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length ({size} bytes) minus 1"
        )
    found = np.frombuffer(buffer, dtype.np, count, offset)
    return fusegrad.from_numpy(found).requires_grad_(requires_grad)


@function("bartlett_window(window_length: int, periodic: bool, dtype: dtype, requires_grad: bool?)", method=False)
def bartlett_window(
    window_length, periodic=True, *, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False
):
    """A triangle: 1 - |2 i / N - 1|; N = window_length, or one less if not periodic."""
    x = _places(window_length, periodic)
    return (1 - (x - 1).abs()).to(dtype or fusegrad.get_default_dtype()).requires_grad_(requires_grad)


@function(
    "kaiser_window(window_length: int, periodic: bool, beta: float, dtype: dtype, requires_grad: bool?)", method=False
)
def kaiser_window(
    window_length,
    periodic=True,
    beta=12.0,
    *,
    dtype=None,
    layout=None,
    device=None,
    pin_memory=False,
    requires_grad=False,
):
    """I0(beta sqrt(1 - (2 i / N - 1)^2)) / I0(beta)."""
    x = _places(window_length, periodic)
    top = fusegrad.i0(beta * (1 - (x - 1).square()).clamp(min=0).sqrt())
    result = top / fusegrad.i0(fusegrad.tensor(float(beta), dtype=fusegrad.float64))
    return result.to(dtype or fusegrad.get_default_dtype()).requires_grad_(requires_grad)


def _places(length: int, periodic: bool) -> Tensor:
    """2 i / N in float64; 1 for a window of one element."""
    if length < 0:
        raise RuntimeError(f"window requires non-negative window_length, got window_length={length}")
    if length == 1:
        return fusegrad.ones(1, dtype=fusegrad.float64)
    n = length if periodic else length - 1
    return fusegrad.arange(length, dtype=fusegrad.float64) * (2 / max(n, 1))


# ---- assertions ----


@function("_assert", method=False)
def _assert(condition: Any, message: str) -> None:
    """``assert condition, message`` as a function: AssertionError unless ``condition`` is true."""
    if type(condition) is not bool and not isinstance(condition, Tensor):
        condition = bool(condition)
    if not condition:
        raise AssertionError(message)
