"""Random tensors. Which numbers a draw holds is written in fusegrad/random.py; kernels draw the same."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from typing import Any

import numpy as np

from .. import dtypes as dt
from .. import random as rng
from ..autograd.modes import SLOW
from ..autograd.rooted import drawn
from ..handler import current
from ..meta import Meta
from ..native.on_demand import defined
from ..op import Op, Sample, function, late_op, op
from ..remembered import Made
from ..size_values import SymbolicSize
from ..tensor import Tensor, wrap
from ._data import t
from .casts import in_format
from .checks import refuse_where
from .create import _kind, check_place, finish, full_op, given_size, like, no_others, sizes_of, zeros_like

require = late_op("require")
_UNIFORM = defined("draws", "uniform")
_FAR, _INT64 = 1 << 62, np.dtype(np.int64)

# ---- the draws ----


def _linear(b: Any, size: tuple) -> Any:
    """Number of an element in C order."""
    i = b.const(0, dt.int64)
    for d, n in enumerate(size):
        i = b.add(b.mul(i, b.size(n)), b.index(d)) if d else b.index(d)
    return i


def _uniform_b(b: Any, seed: Any, draw: Any, i: Any, dtype: dt.dtype) -> Any:
    if dtype is dt.float32:
        return b.uniform(seed, draw, i)
    if dtype is dt.float16:
        word = b.lshr(b.random_word(seed, draw, i), 21)
        return b.cast(b.mul(b.cast(word, dt.float32), 2.0**-11), dt.float16)
    high = b.cast(b.lshr(b.random_word(seed, draw, b.mul(i, 2)), 5), dt.float64)
    low = b.cast(b.lshr(b.random_word(seed, draw, b.add(b.mul(i, 2), 1)), 6), dt.float64)
    return b.mul(b.add(b.mul(high, 2.0**26), low), 2.0**-53)


@op("rand(size: ints, dtype: dtype)", kind="random", function=False)
class rand_op:
    """Uniform numbers in [0, 1)."""

    def kernel(size, dtype, seed, draw):
        f = _UNIFORM[dtype.np] if math.prod(size) > rng.SMALL else None
        if f is None:
            return rng.uniform(seed, draw, size, dtype.np)
        out = np.empty(size, dtype.np)
        f(out, seed, draw, out.size)
        return out

    def meta(size, dtype, **_):
        return Meta(size, dtype)

    def scalar(b, size, dtype, seed, draw):
        return _uniform_b(b, seed, draw, _linear(b, size), dtype)

    def samples():
        yield Sample((3, 4), dt.float32)
        yield Sample((3, 4), dt.float64)


@op("randn(size: ints, dtype: dtype)", kind="random", function=False)
class randn_op:
    """Standard normal numbers."""

    def kernel(size, dtype, seed, draw):
        return rng.normal(seed, draw, size, dtype.np)

    def meta(size, dtype, **_):
        return Meta(size, dtype)

    def scalar(b, size, dtype, seed, draw):
        from ..native.draws import normal_pair

        i = _linear(b, size)
        compute = dt.float64 if dtype is dt.float64 else dt.float32
        odd = b.and_(i, 1)
        u = _uniform_b(b, seed, draw, b.sub(i, odd), compute)
        v = _uniform_b(b, seed, draw, b.add(b.sub(i, odd), 1), compute)
        even, other = normal_pair(b, u, v, compute)
        return b.cast(b.where(b.eq(odd, 1), other, even), dtype)

    def samples():
        yield Sample((3, 4), dt.float64)


@op("randint(low: int, high: int, size: ints, dtype: dtype)", kind="random", function=False)
class randint_op:
    """Integers in [low, high). RuntimeError when there are none."""

    def kernel(low, high, size, dtype, seed, draw):
        if high <= low:
            raise ValueError("no integers")  # the meta rule words it
        return rng.integers(seed, draw, low, high, size).astype(dtype.np, copy=False)

    def meta(low, high, size, dtype, **_):
        if high <= low:
            raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
        return Meta(size, dtype)

    def samples():
        yield Sample(-3, 5, (3, 4), dt.int64)

    def errors():
        yield (5, 5, (2,), dt.int64), {}, RuntimeError, "less than"


@op("randperm(n: int, dtype: dtype)", kind="random", function=False)
class randperm_op:
    """A random order of 0 .. n-1."""

    def kernel(n, dtype, seed, draw):
        return rng.permutation(seed, draw, n).astype(dtype.np, copy=False)

    def meta(n, dtype, **_):
        return Meta((n,), dtype)

    def samples():
        yield Sample(7, dt.int64)


def _like_dtype(input: Tensor, dtype: Any) -> Any:
    return _kind(dtype) or input.dtype


def _drawn(entry: Op, draws: Any, size: tuple, kind: dt.dtype, generator: Any) -> Tensor:
    """Call a random operator; for few numbers straight to ``random``, where no mode and no handler is active."""
    gen = rng.default_generator if generator is None else generator
    if SLOW[0] or current() is not None or type(gen) is not rng.Generator:
        return entry(size, kind, generator=generator)
    n = 1
    for s in size:
        n *= s
    if n > rng.SMALL:
        return entry(size, kind, generator=generator)
    seed, draw = gen.next()
    r = rng.few(draws, seed, draw, n, kind.np)
    return wrap(r if len(size) == 1 else r.reshape(size))


def _of_arrays(entry: Op, generator: Any, *tensors: Tensor) -> Tensor:
    """Call a random operator of plain tensors without gradients; its kernel, where no mode and no handler is active."""
    gen = rng.default_generator if generator is None else generator
    if SLOW[0] or current() is not None or type(gen) is not rng.Generator:
        return entry(*tensors, generator=generator)
    seed, draw = gen.next()
    return wrap(entry.kernel(*[x._data for x in tensors], seed=seed, draw=draw))


def _numbered(entry: Op, make: Any, args: tuple, kind: dt.dtype, generator: Any) -> Tensor:
    """Call a random operator of ints (``make(seed, draw, *args)``) straight, where no mode and no handler is active."""
    gen = rng.default_generator if generator is None else generator
    if SLOW[0] or current() is not None or type(gen) is not rng.Generator:
        return entry(*args, kind, generator=generator)
    seed, draw = gen.next()
    return wrap(make(seed, draw, *args).astype(kind.np, copy=False))


def _laid(made: Tensor, input: Tensor, memory_format: Any) -> Tensor:
    """What was drawn for a tensor in that one's layout, or in a memory format."""
    if memory_format is not None and memory_format != "preserve":
        return in_format(made, memory_format)
    return made if input.is_contiguous() else like(input, 0, made.dtype).copy_(made)


def _need_float(kind: dt.dtype, name: str) -> None:
    if not kind.is_floating_point:
        raise NotImplementedError(f"\"{name}\" not implemented for '{kind.name}'")


def _plain_sizes(size: tuple) -> bool:
    for s in size:
        if type(s) is not int or s < 0:
            return False
    return True


def _shaped(draws: Any) -> Any:
    """The usual call of ``rand`` or ``randn``: the array of a draw of few numbers of the default dtype."""

    def did(size: tuple) -> Any:
        n = size[0] if len(size) == 1 else math.prod(size) if size and _plain_sizes(size) else -1
        if type(n) is not int or not 0 <= n <= rng.SMALL:
            return None
        r = rng.ahead(draws, n, dt.get_default_dtype().np)
        return None if r is None else r.copy() if len(size) == 1 else r.copy().reshape(size)

    return did


def _few_integers(args: tuple) -> Any:
    """The usual call of ``randint``: the array of a draw of few int64 numbers."""
    low, size = 0, args[-1] if args else None
    if len(args) == 3:
        low, high, size = args
    elif len(args) == 2:
        high = args[0]
    if type(size) is not tuple or type(low) is not int or type(high) is not int or not -_FAR <= low < high <= _FAR:
        return None
    n = size[0] if len(size) == 1 else math.prod(size) if _plain_sizes(size) else -1
    if (
        type(n) is not int
        or not 0 <= n <= rng.SMALL
        or high - low > 1 << 16
        or (r := rng.ahead(rng.below(high - low), n, _INT64)) is None
    ):
        return None
    r = r + low if low else r.copy()
    return r if len(size) == 1 else r.reshape(size)


def _few_in_order(n: Any) -> Any:
    """The usual call of ``randperm``: the array of an order of few numbers."""
    if type(n) is not int or not 0 <= 2 * n <= rng.SMALL or (r := rng.ahead(rng.permutation, n, _INT64)) is None:
        return None
    return r.copy()


@function(
    "rand(dtype: dtype, requires_grad: bool?)",
    method=False,
    direct=True,
    inline=Made(_shaped(rng.uniform), "size", others="kw"),
)
def rand(
    *size, generator=None, out=None, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False, **kw
):
    """Uniform numbers in [0, 1)."""
    if device is not None or layout is not None:
        check_place(device, layout)
    size = sizes_of(given_size(size, kw, "rand") if kw else size, "rand")
    kind = dt.get_default_dtype() if dtype is None else _kind(dtype)
    _need_float(kind, "check_uniform_bounds")
    result = _drawn(rand_op, rng.uniform, size, kind, generator)
    return result if out is None and requires_grad is False else finish(result, requires_grad, out)


@function(
    "randn(dtype: dtype, requires_grad: bool?)",
    method=False,
    direct=True,
    inline=Made(_shaped(rng.normal), "size", others="kw"),
)
def randn(
    *size, generator=None, out=None, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False, **kw
):
    """Standard normal numbers."""
    if device is not None or layout is not None:
        check_place(device, layout)
    size = sizes_of(given_size(size, kw, "randn") if kw else size, "randn")
    kind = dt.get_default_dtype() if dtype is None else _kind(dtype)
    _need_float(kind, "normal_kernel_cpu")
    result = _drawn(randn_op, rng.normal, size, kind, generator)
    return result if out is None and requires_grad is False else finish(result, requires_grad, out)


@function("rand_like(input: T, dtype: dtype, requires_grad: bool?)", method=False)
def rand_like(
    input,
    *,
    generator=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    memory_format=None,
    pin_memory=False,
):
    """Uniform numbers in the shape of input."""
    check_place(device, layout)
    _need_float(_like_dtype(input, dtype), "rand_like")
    kind = _like_dtype(input, dtype)
    if input._data is None:
        made = rand_op(tuple(input.shape), kind, generator=generator)
    else:
        made = _drawn(rand_op, rng.uniform, input._data.shape, kind, generator)
    return finish(_laid(made, input, memory_format), requires_grad)


@function("randn_like(input: T, dtype: dtype, requires_grad: bool?)", method=False)
def randn_like(
    input,
    *,
    generator=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    memory_format=None,
    pin_memory=False,
):
    """Standard normal numbers in the shape of input."""
    check_place(device, layout)
    _need_float(_like_dtype(input, dtype), "randn_like")
    kind = _like_dtype(input, dtype)
    if input._data is None:
        made = randn_op(tuple(input.shape), kind, generator=generator)
    else:
        made = _drawn(randn_op, rng.normal, input._data.shape, kind, generator)
    return finish(_laid(made, input, memory_format), requires_grad)


def _bounds(args: tuple, kw: dict, count: int) -> tuple[int, int, tuple]:
    """low, high and the rest of the arguments of randint; one integer alone is high."""
    if not kw and len(args) == 3 and type(args[0]) is int and type(args[1]) is int:
        return args[0], args[1], args[2:]
    args = list(args)
    low = kw.pop("low", None)
    if low is None:
        low = args.pop(0) if len(args) + ("high" in kw) > count else 0
    high = kw.pop("high") if "high" in kw else args.pop(0)
    return int(low), int(high), tuple(args)


def check_range(low: Any, high: Any, kind: dt.dtype) -> None:
    """RuntimeError for integers that are none of ``kind``."""
    if type(low) is not int or type(high) is not int or kind is dt.int64 or low >= high:
        return
    if kind is dt.bool_:
        least, most = 0, 1
    else:
        least, most = (int(f(kind.np)) for f in (_least, _most))
    for name, value in (("from", low), ("to - 1", high - 1)):
        if not least <= value <= most:
            raise RuntimeError(f"{name} is out of bounds for {kind.name}: {value}, which holds {least} to {most}")


def _least(kind: np.dtype) -> Any:
    return (np.finfo if kind.kind == "f" else np.iinfo)(kind).min


def _most(kind: np.dtype) -> Any:
    return (np.finfo if kind.kind == "f" else np.iinfo)(kind).max


@function("randint(dtype: dtype, requires_grad: bool?)", method=False, inline=Made(_few_integers, "args", others="kw"))
def randint(
    *args, generator=None, out=None, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False, **kw
):
    """randint(high, size) or randint(low, high, size): integers in [low, high), int64 by default."""
    if device is not None or layout is not None:
        check_place(device, layout)
    low, high, rest = _bounds(args, kw, 1 if "size" in kw else 2)
    size = sizes_of((kw.pop("size") if "size" in kw else rest[0],), "randint")
    if kw:
        no_others(kw, "randint")
    kind = dt.int64 if dtype is None else _kind(dtype)
    plain = -_FAR <= low < high <= _FAR and kind is dt.int64
    if plain and all([type(s) is int and s >= 0 for s in size]):
        result = _numbered(randint_op, rng.integers, (low, high, size), kind, generator)
        return result if out is None and requires_grad is False else finish(result, requires_grad, out)
    check_range(low, high, kind)
    return finish(randint_op(low, high, size, kind, generator=generator), requires_grad, out)


@function("randint_like(input: T, dtype: dtype, requires_grad: bool?)", method=False)
def randint_like(
    input,
    *args,
    generator=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    memory_format=None,
    pin_memory=False,
    **kw,
):
    """Integers in [low, high) in the shape of input."""
    check_place(device, layout)
    low, high, _ = _bounds(args, kw, 1)
    no_others(kw, "randint_like")
    kind = _like_dtype(input, dtype)
    check_range(low, high, kind)
    made = randint_op(low, high, tuple(input.shape), kind, generator=generator)
    return finish(_laid(made, input, memory_format), requires_grad)


@function("randperm(n: int, dtype: dtype, requires_grad: bool?)", method=False, inline=Made(_few_in_order, "n"))
def randperm(
    n, *, generator=None, out=None, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False
):
    """A random order of 0 .. n-1, int64 by default."""
    check_place(device, layout)
    if isinstance(n, (int, SymbolicSize)) and n < 0:
        raise RuntimeError(f"n must be non-negative, got {n}")
    if type(n) is int and dtype is None and n < 1 << 31:
        return finish(_numbered(randperm_op, rng.permutation, (n,), dt.int64, generator), requires_grad, out)
    return finish(randperm_op(n, _kind(dtype) or dt.int64, generator=generator), requires_grad, out)


# ---- distributions ----


@op("bernoulli(input: T)", kind="random", function=False, method=False)
class bernoulli_op:
    """1 with the probability that input holds, else 0."""

    def kernel(p, seed, draw):
        if not (all([0 <= x <= 1 for x in p.ravel().tolist()]) if p.size <= 16 else ((p >= 0) & (p <= 1)).all()):
            raise RuntimeError("Expected p_in >= 0 && p_in <= 1 to be true, but got false.")
        return np.asarray(rng.uniform(seed, draw, p.shape, p.dtype) < p, p.dtype)

    def meta(m, **_):
        return Meta(m.shape, m.dtype)

    def vjp(g):
        return zeros_like(g)

    def decompose(input, seed, draw):
        ok = (input >= 0).logical_and(input <= 1)
        fine = require(ok, error="Expected p_in >= 0 && p_in <= 1 to be true, but got false.")
        drawn = rand_op(tuple(input.shape), input.dtype, seed=seed, draw=draw) < input
        return drawn.logical_and(fine).to(input.dtype)

    def samples():
        yield Sample(t(3, 4, low=0, high=1), grad=False)


@function("bernoulli(input: T, p: float)")
def bernoulli(input, p=None, *, generator=None, out=None):
    """1 with the probability that input holds (or with probability p everywhere), else 0."""
    if p is None and not input.dtype.is_floating_point:
        raise NotImplementedError(f'"bernoulli" not implemented for {input.dtype}: probabilities are floating point')
    if p is None and type(input) is Tensor and not input.requires_grad and input._data is not None:
        result = _of_arrays(bernoulli_op, generator, input)
    else:
        probability = input if p is None else full_op(tuple(input.shape), float(p), dt.float32)
        result = bernoulli_op(probability, generator=generator)
    return finish(result if result.dtype is input.dtype else result.to(input.dtype), False, out, (input,))


@op("multinomial(input: T, num_samples: int, replacement: bool = False)", kind="random", function=False, method=False)
class multinomial_op:
    """Indices drawn with the weights of the last dimension."""

    nondiff = True

    def kernel(p, num_samples, replacement=False, *, seed, draw):
        if num_samples <= 0 or not replacement and num_samples > p.shape[-1]:
            raise ValueError("num_samples")  # the meta rule words it
        if replacement and p.ndim == 1 and p.size <= 64 and num_samples <= 16:
            found = _few_of_few(p, num_samples, seed, draw)
            if found is not None:
                return found
        _check_weights(p)
        w = p.astype(np.float64)
        if replacement:
            u = rng.uniform(seed, draw, (*w.shape[:-1], num_samples), np.float64)
            edges = np.cumsum(w, -1)
            edges /= edges[..., -1:]
            last = w.shape[-1] - 1 - np.argmax(w[..., ::-1] > 0, axis=-1)[..., None]
            if w.ndim == 1:
                return np.minimum(np.searchsorted(edges, u, side="right"), last)
            if w.shape[-1] <= 256 and u.size * w.shape[-1] <= 1 << 24:  # all rows at once: how many edges are not above
                return np.minimum((edges[:, None, :] <= u[:, :, None]).sum(-1), last)
            rows = [np.searchsorted(e, x, side="right") for e, x in zip(edges, u, strict=True)]
            return np.minimum(np.array(rows, np.int64).reshape(u.shape), last)
        # each index waits an exponential time of its rate; the first ones win (Efraimidis and Spirakis 2006)
        with np.errstate(all="ignore"):
            wait = -np.log1p(-rng.uniform(seed, draw, w.shape, np.float64)) / w
        wait[w == 0] = np.inf
        return np.argsort(wait, axis=-1, kind="stable")[..., :num_samples].astype(np.int64)

    def meta(m, num_samples, replacement=False, **_):
        if m.ndim not in (1, 2):
            raise RuntimeError("prob_dist must be 1 or 2 dim")
        if not m.dtype.is_floating_point:
            raise RuntimeError(f"multinomial only supports floating-point dtypes for input, got: {m.dtype.name}")
        if num_samples <= 0:
            raise RuntimeError("cannot sample n_sample <= 0 samples")
        if not replacement and num_samples > m.shape[-1]:
            raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
        return Meta((*m.shape[:-1], num_samples), dt.int64)

    def samples():
        yield Sample(t(5, low=0, high=1), 3)
        yield Sample(t(2, 5, low=0, high=1), 9, True)

    def errors():
        yield (t(3, low=0, high=1), 4), {}, RuntimeError, "without replacement"
        yield (-t(3, low=0.1, high=1), 1), {}, RuntimeError, "element < 0"


def _few_of_few(p: np.ndarray, num_samples: int, seed: int, draw: int) -> np.ndarray | None:
    """What the kernel draws with replacement from one row, in Python's numbers; None for weights that it refuses."""
    weights = p.tolist()
    edges = [*itertools.accumulate(weights)]
    if not 0 < edges[-1] < math.inf or min(weights) < 0:  # (a NaN anywhere makes the sum one)
        return None
    total, last = edges[-1], len(weights) - 1
    while weights[last] == 0:
        last -= 1
    edges = [x / total for x in edges]
    u = rng.uniform(seed, draw, (num_samples,), np.float64).tolist()
    return np.array([min(bisect_right(edges, x), last) for x in u], np.int64)


def _check_weights(p: np.ndarray) -> None:
    if not np.isfinite(p).all() or (p < 0).any():
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    if p.size and (p.sum(-1) <= 0).any():
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")


@function("multinomial(input: T, num_samples: int, replacement: bool)")
def multinomial(input, num_samples, replacement=False, *, generator=None, out=None):
    """num_samples indices for each row of weights: int64."""
    from ..dispatch import meta_of

    if out is not None and out.dtype is not dt.int64:
        raise RuntimeError(f"multinomial expects Long tensor out, got: {out.dtype.name}")
    multinomial_op.meta(meta_of(input), num_samples, replacement)
    return finish(multinomial_op(input, num_samples, replacement, generator=generator), False, out)


@function("normal(mean: Tn, std: Tn, size: ints, dtype: dtype, requires_grad: bool?)", method=False)
def normal(
    mean=0.0,
    std=1.0,
    size=None,
    *,
    generator=None,
    out=None,
    dtype=None,
    layout=None,
    device=None,
    requires_grad=False,
    pin_memory=False,
):
    """Normal numbers of the given means and deviations: tensors, or numbers with a size."""
    check_place(device, layout)
    if not isinstance(std, Tensor) and std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {float(std)}")
    if isinstance(std, Tensor):
        refuse_where(lambda s: s < 0, std, "normal expects all elements of std >= 0.0")
    tensors = [x.detach() for x in (mean, std) if isinstance(x, Tensor)]
    if tensors:
        from ..meta import broadcast_shapes

        size = broadcast_shapes(*(tuple(x.shape) for x in tensors))
        kind = tensors[0].dtype
    else:
        size, kind = sizes_of((size,), "normal"), _kind(dtype) or dt.get_default_dtype()
        _need_float(kind, "normal_kernel_cpu")
    given = mean, std
    mean, std = (x.detach() if isinstance(x, Tensor) else x for x in given)
    z = _drawn(randn_op, rng.normal, tuple(size), kind, generator)
    result = (z * std + mean).to(kind)
    if tensors and out is None:
        nr = 3 if len(tensors) == 2 else 1 if isinstance(mean, Tensor) else 2
        return drawn(result, f"NormalBackward{nr}", *given)
    return finish(result, requires_grad, out, given)
