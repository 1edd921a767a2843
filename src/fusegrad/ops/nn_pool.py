"""Pooling: maxima with indices, means, and the way back (to a given size: nn_pool_adaptive.py)."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..autograd.rooted import rooted
from ..meta import Meta, surely_less
from ..op import Inline, Sample, function, op
from . import _pool_kernels as pk
from ._nn import data, prod, shape_list, spread
from .linear_maps import linear_map, map_call, map_key, mean_map, plain_image, run_map


def _int64() -> Any:
    from ..dtypes import int64

    return int64


@op(
    "_max_pool(input: T, window: ints, stride: ints, padding: ints, dilation: ints, ceil_mode: bool = False)",
    kind="extern",
    method=False,
    n_out=2,
)
class _max_pool:
    """Maxima over windows of (N, C, *S), and their flat indices into *S."""

    def meta(x, window, stride, padding, dilation, ceil_mode):
        out = pk.out_sizes(x.shape[2:], window, stride, padding, dilation, ceil_mode)
        shape = (*x.shape[:2], *out)
        return Meta(shape, x.dtype), Meta(shape, _int64())

    def kernel(x, window, stride, padding, dilation, ceil_mode):
        return pk.max_pool(x, window, stride, padding, dilation, ceil_mode)

    def vjp(g0, input_meta, out1):
        return _put_back(g0, out1, input_meta.shape[2:])

    def samples():
        yield Sample(data(2, 3, 7), (3,), (2,), (1,), (1,))
        yield Sample(data(2, 2, 6, 7), (2, 3), (2, 2), (1, 1), (1, 2), True)


_POOL = "window: ints, stride: ints, padding: ints, dilation: ints, ceil_mode: bool = False"


@op(f"_max_values(input: T, {_POOL})", kind="composite", method=False)
class _max_values:
    """Maxima over windows of (N, C, *S) or (C, *S); the gradient goes to the first maximum of each window."""

    def meta(x, window, stride, padding, dilation, ceil_mode):
        n = len(window)
        out = pk.out_sizes(x.shape[-n:], window, stride, padding, dilation, ceil_mode)
        return Meta((*x.shape[:-n], *out), x.dtype)

    def kernel(x, window, stride, padding, dilation, ceil_mode):
        out = pk.known_sizes(x.shape[-len(window) :], window, stride, padding, dilation, ceil_mode)
        return pk.max_values(x, out, window, stride, padding, dilation)

    def vjp(g, input, out, window, stride, padding, dilation, ceil_mode):
        return _max_grad(g, input, out, window, stride, padding, dilation, ceil_mode)

    def samples():
        yield Sample(data(2, 3, 7), (3,), (2,), (1,), (1,))
        yield Sample(data(2, 2, 6, 7), (2, 3), (2, 2), (1, 1), (1, 2), True)
        yield Sample(data(2, 2, 6, 8), (2, 2), (2, 2), (0, 0), (1, 1))
        yield Sample(data(2, 6, 8), (2, 3), (2, 2), (1, 0), (1, 1))


@op(f"_max_grad(grad: T, input: T, output: T, {_POOL})", kind="extern", method=False)
class _max_grad:
    """The gradient of _max_values for its input."""

    def meta(g, x, y, window, stride, padding, dilation, ceil_mode):
        return Meta(x.shape, g.dtype)

    def kernel(g, x, y, window, stride, padding, dilation, ceil_mode):
        return pk.max_grad(g, x, y, window, stride, padding, dilation, ceil_mode)

    def vjp_grad(g, input, output, window, stride, padding, dilation, ceil_mode):
        return _max_take(g, input, output, window, stride, padding, dilation, ceil_mode)

    def samples():
        x = data(2, 3, 7)
        y = pk.max_pool(x, (3,), (2,), (1,), (1,), False)[0]
        yield Sample(data(2, 3, 4), x, y, (3,), (2,), (1,), (1,))
        yield Sample(data(3, 4), x[0], y[0], (3,), (2,), (1,), (1,))


@op(f"_max_take(values: T, input: T, output: T, {_POOL})", kind="extern", method=False)
class _max_take:
    """Elements of `values` where `input` has its maxima: the transpose of _max_grad."""

    def meta(v, x, y, window, stride, padding, dilation, ceil_mode):
        return Meta(y.shape, v.dtype)

    def kernel(v, x, y, window, stride, padding, dilation, ceil_mode):
        return pk.max_take(v, x, y, window, stride, padding, dilation, ceil_mode)

    def vjp_values(g, input, output, window, stride, padding, dilation, ceil_mode):
        return _max_grad(g, input, output, window, stride, padding, dilation, ceil_mode)

    def samples():
        x = data(2, 3, 7)
        y = pk.max_pool(x, (3,), (2,), (1,), (1,), False)[0]
        yield Sample(data(2, 3, 7, seed=1), x, y, (3,), (2,), (1,), (1,))
        yield Sample(data(3, 7, seed=1), x[0], y[0], (3,), (2,), (1,), (1,))


@op("_adaptive_max(input: T, size: ints)", kind="extern", method=False, n_out=2)
class _adaptive_max:
    """Maxima over windows that divide *S into `size` parts, and their flat indices."""

    def meta(x, size):
        shape = (*x.shape[:2], *size)
        return Meta(shape, x.dtype), Meta(shape, _int64())

    def kernel(x, size):
        return pk.adaptive_max(x, size)

    def vjp(g0, input_meta, out1):
        return _put_back(g0, out1, input_meta.shape[2:])

    def samples():
        yield Sample(data(2, 3, 7), (3,))
        yield Sample(data(1, 2, 5, 6), (2, 4))


@op("_put_back(input: T, indices: T, size: ints)", kind="extern", method=False)
class _put_back:
    """Sum of (N, C, *L) into zeros (N, C, *size) at flat indices: the transpose of _take_flat."""

    def meta(x, indices, size):
        return Meta((*x.shape[:2], *size), x.dtype)

    def kernel(x, indices, size):
        return pk.put_back(x, indices, size)

    def vjp_input(g, indices):
        return _take_flat(g, indices)

    def samples():
        yield Sample(data(2, 3, 2), np.array([[[0, 3]] * 3, [[4, 4]] * 3]), (5,))


@op("_take_flat(input: T, indices: T)", kind="extern", method=False)
class _take_flat:
    """Elements of (N, C, *S) at flat indices (N, C, *L) into *S."""

    def meta(x, indices):
        return Meta(indices.shape, x.dtype)

    def kernel(x, indices):
        n, c = x.shape[:2]
        area, many = prod(x.shape[2:]), prod(indices.shape[2:])
        flat = np.take_along_axis(x.reshape(n, c, area), indices.reshape(n, c, many), 2)
        return flat.reshape(indices.shape)

    def vjp_input(g, indices, input_meta):
        return _put_back(g, indices, input_meta.shape[2:])

    def samples():
        yield Sample(data(2, 3, 5), np.array([[[0, 3]] * 3, [[4, 4]] * 3]))


@op("_window_sum(input: T, size: ints, window: ints, stride: ints, padding: ints)", kind="extern", method=False)
class _window_sum:
    """Sums over windows: (N, C, *S) -> (N, C, *size)."""

    def meta(x, size, window, stride, padding):
        return Meta((*x.shape[:2], *size), x.dtype)

    def kernel(x, size, window, stride, padding):
        return pk.window_sum(x, size, window, stride, padding)

    def vjp_input(g, input_meta, window, stride, padding):
        return _spread_sum(g, input_meta.shape[2:], window, stride, padding)

    def samples():
        yield Sample(data(2, 3, 7), (4,), (3,), (2,), (1,))


@op("_spread_sum(input: T, size: ints, window: ints, stride: ints, padding: ints)", kind="extern", method=False)
class _spread_sum:
    """The transpose of _window_sum: (N, C, *L) -> (N, C, *size)."""

    def meta(x, size, window, stride, padding):
        return Meta((*x.shape[:2], *size), x.dtype)

    def kernel(x, size, window, stride, padding):
        return pk.spread_sum(x, size, window, stride, padding)

    def vjp_input(g, input_meta, window, stride, padding):
        return _window_sum(g, input_meta.shape[2:], window, stride, padding)

    def samples():
        yield Sample(data(2, 3, 4), (7,), (3,), (2,), (1,))


# ---- PyTorch's functions ----------------------------------------------------------------------------


def _batched(fn: str, nd: int, input: Any) -> tuple[Any, bool]:
    if input.ndim not in (nd + 1, nd + 2):
        raise RuntimeError(f"{fn}: Expected {nd + 1}D or {nd + 2}D input, but got input of size {shape_list(input)}")
    if input.ndim == nd + 2:
        if any(surely_less(s, 1) for s in input.shape[1:]):
            raise RuntimeError(
                f"{fn}: Expected input to have non-zero size for non-batch dimensions, but got {shape_list(input)}"
            )
        return input, False
    if any(surely_less(s, 1) for s in input.shape):
        raise RuntimeError(f"{fn}: Expected input with non-zero sizes, but got {shape_list(input)}")
    return input.unsqueeze(0), True


def _window(fn: str, nd: int, kernel_size: Any, stride: Any, padding: Any, dilation: Any = 1) -> tuple:
    """Canonical (window, stride, padding, dilation); RuntimeError for what no pooling can have."""
    given = [kernel_size, stride, padding, dilation]
    for i, v in enumerate(given):
        if type(v) is list:
            v = given[i] = tuple(v)
        if type(v) is not int and v is not None and not (type(v) is tuple and all([type(k) is int for k in v])):
            return _checked_window(fn, nd, kernel_size, stride, padding, dilation)
    return _known_window(fn, nd, *given)


def _checked_window(fn: str, nd: int, kernel_size: Any, stride: Any, padding: Any, dilation: Any) -> tuple:
    window = spread(kernel_size, nd, "kernel_size", fn)
    empty = stride is None or (isinstance(stride, (list, tuple)) and not stride)
    stride = window if empty else spread(stride, nd, "stride", fn)
    padding, dilation = spread(padding, nd, "padding", fn), spread(dilation, nd, "dilation", fn)
    for said, values, low in (("kernel_size", window, 1), ("stride", stride, 1), ("dilation", dilation, 1)):
        if any(v < low for v in values):
            raise RuntimeError(f"{fn}: {said} should be greater than zero, but got {list(values)}")
    for p, k, d in zip(padding, window, dilation, strict=True):
        if p < 0:
            raise RuntimeError(f"{fn}: pad must be non-negative, but got {p}")
        if p > ((k - 1) * d + 1) // 2:
            raise RuntimeError(
                f"{fn}: pad should be at most half of effective kernel size, but got pad={p}, kernel_size={k} and "
                f"dilation={d}"
            )
    return window, stride, padding, dilation


_known_window = functools.lru_cache(maxsize=256)(_checked_window)


def _check_output(fn: str, size: Any, out: tuple) -> None:
    if any(n < 1 for n in out):
        raise RuntimeError(f"{fn}: Given input size {list(size)}, the calculated output size {list(out)} is too small")


def _ints(value: Any, nd: int) -> Any:
    """A tuple of plain ints, from one int or several; None for anything else."""
    if type(value) is int:
        return (value,) * nd
    value = tuple(value) if type(value) is list else value
    return value if type(value) is tuple and all([type(v) is int for v in value]) else None


@functools.lru_cache(maxsize=256)
def _max_plan(nd: int, size: tuple, window: tuple, stride: tuple, padding: tuple, dilation: tuple, ceil: bool) -> Any:
    """The attributes of ``_max_values``; None where something is to be refused."""
    try:
        given = _checked_window("", nd, window, stride, padding, dilation)
    except RuntimeError:
        return None
    return (*given, ceil) if min(pk.out_sizes(size, *given, ceil)) > 0 else None


@functools.lru_cache(maxsize=512, typed=True)
def _max_given(nd, size, kernel_size, stride, padding, dilation, ceil_mode):
    """The same for arguments as they are given."""
    if type(ceil_mode) is not bool:
        return None
    step = kernel_size if stride is None or type(stride) is tuple and not stride else stride
    given = [_ints(v, nd) for v in (kernel_size, step, padding, dilation)]
    return None if None in given else _max_plan(nd, size, *given, ceil_mode)


def _usual_calls(make: Any, others: tuple) -> Any:
    """``call(array, nd, window, *given)`` -> what ``make`` gives for the shape and dtype of an array (N, C, *S) or
    (C, *S); None for all but the usual. Remembered where the window is one number and ``given`` is ``others``."""
    known: dict[tuple, Any] = {}
    first, second, third, fourth, last = (*others[:4], others[-1])

    def call(a: Any, nd: int, window: Any, *given: Any) -> Any:
        shape, d = a.shape, a.dtype
        usual = type(window) is int and given[0] is first and given[1] is second and given[2] is third
        usual = usual and given[3] is fourth and given[-1] is last
        if usual and (found := known.get((nd, shape, d, window))) is not None:
            return found
        if not nd < len(shape) <= nd + 2 or 0 in shape or d.char not in "fd":
            return None
        try:
            found = make(shape, d, nd, shape[-nd:], window, *given)
        except TypeError:  # lists
            return None
        if usual and found is not None and len(known) < 256:
            known[nd, shape, d, window] = found
        return found

    return call


def _max_made(shape: tuple, dtype: Any, *given: Any) -> Any:
    """The attributes of ``_max_values``, and what ``pk.run_largest`` needs."""
    plan = _max_given(*given)
    if plan is None:
        return None
    out = pk.known_sizes(given[1], *plan)
    return plan, (pk.largest_call(shape, dtype, out, *plan[:-1]) or (None, _max_values.kernel, plan))


_max_call = _usual_calls(_max_made, (None, 0, 1, False))


def _max_inline(nd: int) -> Inline:
    return Inline(
        _max_values,
        "return_indices is False and "
        f"(plan := max_call(a0, {nd}, kernel_size, stride, padding, dilation, ceil_mode)) is not None",
        call="run_largest(a0, *plan[1])",
        using={"max_call": _max_call, "run_largest": pk.run_largest},
        **{n: f"plan[0][{i}]" for i, n in enumerate(("window", "stride", "padding", "dilation", "ceil_mode"))},
    )


def _max(nd, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices):
    if not return_indices and (a := plain_image(input, nd, True)) is not None:
        step = kernel_size if stride is None or type(stride) in (tuple, list) and not stride else stride
        given = [_ints(v, nd) for v in (kernel_size, step, padding, dilation)]
        plan = None if None in given else _max_plan(nd, a.shape[-nd:], *given, bool(ceil_mode))
        if plan is not None:
            return _max_values.fn(input, *plan)
    fn = f"max_pool{nd}d"
    window, stride, padding, dilation = _window(fn, nd, kernel_size, stride, padding, dilation)
    x, unbatched = _batched(fn, nd, input)
    out = pk.out_sizes(x.shape[2:], window, stride, padding, dilation, ceil_mode)
    _check_output(fn, x.shape[2:], out)
    if not return_indices:
        y = _max_values(x, window, stride, padding, dilation, bool(ceil_mode))
        return y.squeeze(0) if unbatched else y
    y, indices = _max_pool(x, window, stride, padding, dilation, bool(ceil_mode))
    return (y.squeeze(0), indices.squeeze(0)) if unbatched else (y, indices)


@function(
    "nn.functional.max_pool1d(input: T, kernel_size: ints, stride: ints, padding: ints, dilation: ints, "
    "ceil_mode: bool, return_indices: bool)",
    inline=_max_inline(1),
)
def max_pool1d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """Maximum over windows of (N, C, L) or (C, L)."""
    return _max(1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@function(
    "nn.functional.max_pool2d(input: T, kernel_size: ints, stride: ints, padding: ints, dilation: ints, "
    "ceil_mode: bool, return_indices: bool)",
    inline=_max_inline(2),
)
def max_pool2d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """Maximum over windows of (N, C, H, W) or (C, H, W)."""
    return _max(2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@function(
    "nn.functional.max_pool3d(input: T, kernel_size: ints, stride: ints, padding: ints, dilation: ints, "
    "ceil_mode: bool, return_indices: bool)",
    inline=_max_inline(3),
)
def max_pool3d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """Maximum over windows of (N, C, D, H, W) or (C, D, H, W)."""
    return _max(3, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def _register_max_variants() -> None:
    def make(nd: int) -> None:
        def pooled(input, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False):
            return _max(nd, input, kernel_size, stride, padding, dilation, ceil_mode, False)

        def with_indices(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
            return _max(nd, input, kernel_size, stride, padding, dilation, ceil_mode, True)

        pooled.__doc__ = f"Maximum over {nd}-d windows."
        with_indices.__doc__ = f"Maximum over {nd}-d windows, and the flat indices of the maxima."
        windows = "input: T, kernel_size: ints, stride: ints, padding: ints, dilation: ints, ceil_mode: bool"
        function(f"max_pool{nd}d({windows})", method=False)(pooled)
        name = f"max_pool{nd}d_with_indices"
        function(f"nn.functional.{name}({windows})", names=(name,) if nd == 1 else ())(with_indices)

    for nd in (1, 2, 3):
        make(nd)


_register_max_variants()


def _divide(total: Any, by: Any) -> Any:
    """The quotient in the dtype of `total` (integers are cut off)."""
    return total / by if total.dtype.is_floating_point else total.div(by, rounding_mode="trunc")


@functools.lru_cache(maxsize=512, typed=True)
def _mean_given(nd, size, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override):
    """The key of means over windows for arguments as they are given; None for all but the usual."""
    if type(ceil_mode) is not bool or type(count_include_pad) is not bool:
        return None
    if divisor_override is not None and type(divisor_override) is not int:
        return None
    given = [_ints(v, nd) for v in (kernel_size, kernel_size if stride is None else stride, padding)]
    if not all(given):
        return None
    means = functools.partial(_means, nd)
    return map_key(f"AvgPool{nd}D", means, size, *given, ceil_mode, count_include_pad, divisor_override)


def _mean_made(shape: tuple, dtype: Any, *given: Any) -> Any:
    """The key of means over windows, and what ``run_map`` needs."""
    key = _mean_given(*given)
    return None if key is None else (key, map_call(key, shape, dtype))


_mean_call = _usual_calls(_mean_made, (None, 0, False, True, None))


def _mean_inline(nd: int, divisor: str = "divisor_override") -> Inline:
    given = f"kernel_size, stride, padding, ceil_mode, count_include_pad, {divisor}"
    when = f"(plan := mean_call(a0, {nd}, {given})) is not None"
    using = {"mean_call": _mean_call, "run_map": run_map}
    return Inline(mean_map, when, using=using, call="run_map(a0, *plan[1])", key="plan[0]", back="False")


def _avg(nd, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override):
    window, step, border = (
        _ints(kernel_size, nd),
        _ints(kernel_size if stride is None else stride, nd),
        _ints(padding, nd),
    )
    if window and step and border and (divisor_override is None or type(divisor_override) is int):
        args = window, step, border, bool(ceil_mode), bool(count_include_pad), divisor_override
        found = linear_map(f"AvgPool{nd}D", functools.partial(_means, nd), input, nd, *args, mean=True)
        if found is not None:
            return found
    return _means(nd, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def _means(nd, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override):
    from .. import from_numpy

    fn = f"avg_pool{nd}d"
    if divisor_override is not None and divisor_override == 0:
        raise RuntimeError("divisor must be not zero")
    window, stride, padding, _ = _window(fn, nd, kernel_size, stride, padding)
    x, unbatched = _batched(fn, nd, input)
    size = x.shape[2:]
    out = pk.out_sizes(size, window, stride, padding, (1,) * nd, ceil_mode)
    _check_output(fn, size, out)
    total = _window_sum(rooted(x), out, window, stride, padding)
    whole = not ceil_mode and (count_include_pad or not any(padding))
    if divisor_override is not None:
        y = _divide(total, divisor_override)
    elif whole:
        y = _divide(total, prod(window))
    else:
        counts = pk.avg_counts(tuple(map(int, size)), tuple(map(int, out)), window, stride, padding, count_include_pad)
        y = _divide(total, from_numpy(np.ascontiguousarray(counts).astype(x.dtype.np)))
    return y.squeeze(0) if unbatched else y


@function(
    "nn.functional.avg_pool1d(input: T, kernel_size: ints, stride: ints, padding: ints, ceil_mode: bool, "
    "count_include_pad: bool)",
    names=("avg_pool1d",),
    inline=_mean_inline(1, "None"),
)
def avg_pool1d(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
    """Mean over windows of (N, C, L) or (C, L)."""
    return _avg(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


@function(
    "nn.functional.avg_pool2d(input: T, kernel_size: ints, stride: ints, padding: ints, ceil_mode: bool, "
    "count_include_pad: bool, divisor_override: int)",
    inline=_mean_inline(2),
)
def avg_pool2d(
    input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None
):
    """Mean over windows of (N, C, H, W) or (C, H, W)."""
    return _avg(2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


@function(
    "nn.functional.avg_pool3d(input: T, kernel_size: ints, stride: ints, padding: ints, ceil_mode: bool, "
    "count_include_pad: bool, divisor_override: int)",
    inline=_mean_inline(3),
)
def avg_pool3d(
    input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None
):
    """Mean over windows of (N, C, D, H, W) or (C, D, H, W)."""
    return _avg(3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def _unpool(nd, input, indices, kernel_size, stride, padding, output_size):
    fn = f"max_unpool{nd}d"
    window, stride, padding, _ = _window(fn, nd, kernel_size, stride, padding)
    if input.ndim not in (nd + 1, nd + 2) or tuple(input.shape) != tuple(indices.shape):
        raise RuntimeError(
            f"{fn}: Expected shape of indices to be same as that of the input tensor ({shape_list(input)}) but got "
            f"indices tensor with shape: {shape_list(indices)}"
        )
    x = input if input.ndim == nd + 2 else input.unsqueeze(0)
    default = tuple((s - 1) * st - 2 * p + k for s, st, p, k in zip(x.shape[2:], stride, padding, window, strict=True))
    if output_size is None:
        size = default
    else:
        size = tuple(output_size)[-nd:]
        for s, d, st in zip(size, default, stride, strict=True):
            if not d - st < s < d + st:
                raise ValueError(f"invalid output_size {list(size)}: must be within stride of {list(default)}")
    y = _unpool_set(x, indices.reshape(x.shape), size)
    return y if input.ndim == nd + 2 else y.squeeze(0)


@op("_unpool_set(input: T, indices: T, size: ints)", kind="extern", method=False)
class _unpool_set:
    """(N, C, *L) written into zeros (N, C, *size) at flat indices; of equal indices the last one counts."""

    def meta(x, indices, size):
        return Meta((*x.shape[:2], *size), x.dtype)

    def kernel(x, indices, size):
        n, c, area = *x.shape[:2], prod(size)
        flat = indices.reshape(n, c, prod(x.shape[2:]))
        if flat.size and (flat.min() < 0 or flat.max() >= area):
            bad = flat[(flat < 0) | (flat >= area)].flat[0]
            raise RuntimeError(f"Found an invalid max index: {bad} (output volumes are of size {list(size)})")
        out = np.zeros((n, c, area), x.dtype)
        np.put_along_axis(out, flat, x.reshape(flat.shape), 2)
        return out.reshape(n, c, *size)

    def vjp_input(g, indices):
        return _take_flat(g, indices)

    def samples():
        yield Sample(data(2, 3, 2), np.array([[[0, 3]] * 3, [[4, 1]] * 3]), (5,))


@function("nn.functional.max_unpool1d(input: T, indices: T, kernel_size: ints, stride: ints, padding: ints)")
def max_unpool1d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """Partial inverse of max_pool1d."""
    return _unpool(1, input, indices, kernel_size, stride, padding, output_size)


@function("nn.functional.max_unpool2d(input: T, indices: T, kernel_size: ints, stride: ints, padding: ints)")
def max_unpool2d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """Partial inverse of max_pool2d."""
    return _unpool(2, input, indices, kernel_size, stride, padding, output_size)


@function("nn.functional.max_unpool3d(input: T, indices: T, kernel_size: ints, stride: ints, padding: ints)")
def max_unpool3d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """Partial inverse of max_pool3d."""
    return _unpool(3, input, indices, kernel_size, stride, padding, output_size)


def _lp(nd, input, norm_type, kernel_size, stride, ceil_mode):
    window = spread(kernel_size, nd, "kernel_size", f"lp_pool{nd}d")
    pool = (avg_pool1d, avg_pool2d, avg_pool3d)[nd - 1]
    mean = pool(input.pow(norm_type), kernel_size, stride, 0, ceil_mode)
    return (mean.sign() * mean.abs().relu() * prod(window)).pow(1.0 / norm_type)


@function("nn.functional.lp_pool1d(input: T, norm_type: num, kernel_size: ints, stride: ints, ceil_mode: bool)")
def lp_pool1d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """p-norm over windows of (N, C, L)."""
    return _lp(1, input, norm_type, kernel_size, stride, ceil_mode)


@function("nn.functional.lp_pool2d(input: T, norm_type: num, kernel_size: ints, stride: ints, ceil_mode: bool)")
def lp_pool2d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """p-norm over windows of (N, C, H, W)."""
    return _lp(2, input, norm_type, kernel_size, stride, ceil_mode)


@function("nn.functional.lp_pool3d(input: T, norm_type: num, kernel_size: ints, stride: ints, ceil_mode: bool)")
def lp_pool3d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """p-norm over windows of (N, C, D, H, W)."""
    return _lp(3, input, norm_type, kernel_size, stride, ceil_mode)
