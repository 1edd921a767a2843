"""Native kernels of table operators: how arrays are brought to machine code (``native.on_demand``).

Machine code wants contiguous float32 or float64 arrays; the functions here take any array: other layouts are copied
first, so that a value depends neither on the layout nor on the size. They give None where there is no machine code
(other dtypes; llvmlite does not load): the operator's numpy kernel stands next to the call.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..autograd.modes import SLOW, STATE
from ..dispatch import FAST
from ..native.on_demand import OnDemand, defined
from ..op import TABLE
from ._blocked import blocked, flattened, memory_order
from ._half import half, single

__all__ = [
    "along",
    "dense",
    "elementwise",
    "plain_arrays",
    "pointwise",
    "row_kernel",
    "rows_of",
    "same_shape",
    "scalar_kernel",
    "several",
]

dense = np.ascontiguousarray
LARGE = 16384  # elements from which operators of several tensors use machine code
_empty_like, _ndarray = np.empty_like, np.ndarray


def plain_arrays(*tensors: Any) -> list[Any] | None:
    """The arrays of tensors (None stays None) if no graph is wanted and all are plain float32 or all plain float64
    tensors; else None. For rules that hand a plain backward pass to a native kernel.
    """
    if STATE.grad or SLOW[0]:
        return None
    found: list[Any] = []
    kind = None
    for t in tensors:
        if t is None:
            found.append(None)
            continue
        if type(t) not in FAST:
            return None
        a = t._data
        if a is None and hasattr(t._g.handler, "noting"):
            raise NotImplementedError  # the kernel may round otherwise than the operators that would be noted
        if a is None or kind is not None and a.dtype is not kind:
            return None
        kind = a.dtype
        found.append(a)
    return found if kind is not None and kind.char in "fd" else None


def row_kernel(name: str, *args: Any) -> OnDemand:
    """The kernels that ``native.rows`` defines under a name, for these arguments."""

    return defined("rows", name, *args)


def rows_of(kernels: OnDemand, dim: int, x: np.ndarray) -> np.ndarray | None:
    """``along`` of one array, with a shorter way for its last dimension."""
    if dim != x.ndim - 1 or not x.flags.c_contiguous or not x.size or (f := kernels[x.dtype]) is None:
        return along(kernels, dim, x)
    out = _empty_like(x)
    width = x.shape[dim]
    f(x, out, x.size // width, width)
    return out


def along(kernels: OnDemand, dim: int, x: np.ndarray, *others: np.ndarray) -> np.ndarray | None:
    """Result of a kernel of arrays of one shape and dtype that works along dimension ``dim``; None without a kernel."""
    f = kernels[x.dtype]
    if f is None:
        return None
    last = x.ndim - 1
    if dim != last and dim != -1 and last > 0:
        turned = [a.swapaxes(dim, last) for a in (x, *others)]
        found = along(kernels, last, *turned)
        return None if found is None else dense(found.swapaxes(dim, last))
    if not x.flags.c_contiguous:
        x = dense(x)
    if others:
        others = tuple(a if a.flags.c_contiguous else dense(a) for a in others)
    out = _empty_like(x)
    width = x.shape[last] if last >= 0 else 1
    if width:
        f(x, *others, out, x.size // width, width)
    return out


def scalar_kernel(name: str, rule: Callable[..., Any], inputs: str, numbers: str = "") -> OnDemand:
    """Kernels of ``rule(b, *inputs, **numbers)``, a loop expression of the op table's kind, on flat arrays.

    They take the inputs, the result, the numbers, and how many elements there are.
    """

    def define(d: Any) -> Any:
        from ..native.nest import ArrayParam, Kernel, Loop, Nest, Phase, ScalarParam, SizeParam, Store
        from ..native.scalar import b

        arrays, given = inputs.split(), numbers.split()
        value = rule(b, *(b.load(x, d, terms={"i": 1}) for x in arrays), **{k: b.scalar(k, d) for k in given})
        params = [*(ArrayParam(x, d) for x in arrays), ArrayParam("result", d, True)]
        params += [ScalarParam(k, d) for k in given]
        nest = Nest((Loop("i", "n"),), (Phase(stores=(Store("result", value, terms={"i": 1}),)),))
        return Kernel(name, (*params, SizeParam("n")), (nest,))

    return OnDemand(f"scalar {name}", define)


def _laid_out(f: Callable[..., None], x: Any, *numbers: Any) -> np.ndarray:
    """A flat kernel's result for any layout, which an elementwise result keeps."""
    x = np.asarray(x)
    out = _empty_like(x)
    if out.flags.c_contiguous:
        f(x if x.flags.c_contiguous else dense(x), out, *numbers, out.size)
        return out
    flat, restored = flattened(x)
    out = _empty_like(flat)
    f(flat, out, *numbers, flat.size)
    return restored(out)


def elementwise(name: str, *numbers: str, **known: tuple) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorates the numpy kernel of a pointwise operator of one tensor: floats go through machine code made of the
    entry's ``scalar`` rule.

    ``numbers``: attributes that are numbers or None. ``known``: the values of other attributes for which there is
    machine code; numpy's kernel does (or refuses) the others.
    """

    def decorate(f: Callable[..., Any]) -> Callable[..., Any]:
        f = blocked(f)
        if numbers or known:
            return _with_attributes(name, f, numbers, known)
        kernels = scalar_kernel(name, lambda b, x: TABLE[name].scalar(b, x), "x")

        @functools.wraps(f)
        def kernel(x: np.ndarray) -> np.ndarray:
            g = kernels[x.dtype]
            if g is None:
                return half(kernel(single(x))) if x.dtype.char == "e" else f(x)
            if type(x) is _ndarray and x.flags.c_contiguous:
                out = _empty_like(x)
                g(x, out, x.size)
                return out
            return _laid_out(g, x)

        def over(x: np.ndarray, out: np.ndarray) -> Any:
            g = kernels[x.dtype]
            if g is None or type(x) is not _ndarray or not (x.flags.c_contiguous and x.flags.writeable):
                return NotImplemented
            g(x, out, x.size)

        kernel.over = over  # type: ignore[attr-defined]  # writes the result into a contiguous operand itself
        return kernel

    return decorate


def several(name: str, inputs: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorates the numpy kernel of a pointwise operator of several tensors (``inputs``) in the same way: large results
    of floats in C order, of operands that have their shape or are broadcast to it.
    """

    def decorate(f: Callable[..., Any]) -> Callable[..., Any]:
        kernels = scalar_kernel(name, lambda b, *_, **__: TABLE[name].scalar(b, *_), inputs)

        @functools.wraps(f)
        def kernel(*arrays: np.ndarray) -> np.ndarray:
            for a in arrays:
                if type(a) is _ndarray and a.size >= LARGE:
                    break
            else:
                return f(*arrays)
            lead = max(arrays, key=np.size)
            if type(lead) is _ndarray and lead.flags.c_contiguous:
                if all([type(a) is _ndarray and a.dtype is lead.dtype for a in arrays]):
                    given = arrays
                    if not all([a.shape == lead.shape for a in arrays]):
                        given = np.broadcast_arrays(*arrays)
                    if given[0].shape == lead.shape and all([a.flags.c_contiguous or 0 in a.strides for a in given]):
                        g = kernels[lead.dtype]
                        if g is not None:
                            out = np.empty(lead.shape, lead.dtype)
                            g(*map(dense, given), out, out.size)
                            return out
            return f(*arrays)

        return kernel

    return decorate


def _with_attributes(name: str, f: Callable[..., Any], numbers: tuple, known: dict[str, tuple]) -> Callable[..., Any]:
    """Kernels by which numbers are absent, and by the other attributes' values; absent numbers are passed as 0."""
    names = (*numbers, *known)
    all_known = {values: _variant(name, numbers, dict(zip(known, values, strict=True))) for values in _choices(known)}
    full = all_known[()] if not known else None
    absent: dict[tuple, OnDemand] = {}  # of numbers alone: by which are None

    def general(x: np.ndarray, **attrs: Any) -> np.ndarray:
        if (*attrs,) != names:
            if attrs.keys() != set(names):
                return f(x, **attrs)
            attrs = {n: attrs[n] for n in names}
        given = [*attrs.values()]
        kernels: OnDemand | None
        if full is not None and None not in given:
            kernels = full
        elif full is not None and (some := absent.get(tuple([v is None for v in given]))) is not None:
            kernels, given = some, [0.0 if v is None else v for v in given]
        else:
            which = tuple([v is None for v in given])
            kernels, given = _chosen(all_known, name, numbers, attrs)
            if full is not None and kernels is not None:
                absent[which] = kernels
        g = None if kernels is None else kernels[x.dtype]
        if g is None:
            if x.dtype.char == "e":  # of several steps: rounded once
                return half(general(single(x), **attrs))
            return f(x, **attrs)
        if type(x) is _ndarray and x.flags.c_contiguous:
            out = _empty_like(x)
            g(x, out, *given, x.size)
            return out
        return _laid_out(g, x, *given)

    @functools.wraps(f)
    def kernel(x: np.ndarray, *given: Any, **attrs: Any) -> np.ndarray:
        if len(given) == count:
            known, numbers_ = full, given
            if full is None:
                known, numbers_ = (all_known.get(given), ()) if not numbers else (None, ())
            elif None in given:
                known = absent.get(tuple([v is None for v in given]))
                numbers_ = tuple([0.0 if v is None else v for v in given])
            g = None if known is None else known[x.dtype]
            if g is not None and type(x) is _ndarray and x.flags.c_contiguous:
                out = _empty_like(x)
                g(x, out, *numbers_, x.size)
                return out
        return general(x, **dict(zip(names, given)), **attrs)  # noqa: B905

    def over(x: np.ndarray, *given: Any) -> None:
        g = full[x.dtype] if full is not None and None not in given else None
        if g is not None and x.flags.c_contiguous:
            g(x, x, *given, x.size)
        else:
            np.copyto(x, kernel(x, *given))

    count = len(names)
    kernel.by_place = names  # type: ignore[attr-defined]  # the generated functions call it so: quicker
    kernel.over = over  # type: ignore[attr-defined]  # writes the result into a contiguous operand itself
    return kernel


def _choices(known: dict[str, tuple]) -> list[tuple]:
    return list(itertools.product(*known.values()))


def _variant(name: str, numbers: tuple, fixed: dict[str, Any]) -> OnDemand:
    """The kernels for these values of attributes; ``numbers`` are parameters, used or not."""
    label = " ".join([name, *(f"{k}={v}" for k, v in fixed.items())])

    def rule(b: Any, x: Any, **given: Any) -> Any:
        return TABLE[name].scalar(b, x, **{**given, **fixed})

    return scalar_kernel(label, rule, "x", " ".join(numbers))


def _chosen(made: dict[tuple, OnDemand], name: str, numbers: tuple, attrs: dict[str, Any]) -> tuple[Any, list[Any]]:
    """(kernels for attributes of which some are words, or absent numbers; the numbers)."""
    given = [attrs[k] for k in numbers]
    absent = tuple(k for k in numbers if attrs[k] is None)
    words = tuple(v for k, v in attrs.items() if k not in numbers)
    if not absent:
        return made.get(words), given
    if len(absent) == len(numbers) > 1:  # numpy's kernel says what is wrong with that
        return None, given
    found = made.get((*words, absent))
    if found is None and not words:
        found = made[*words, absent] = _variant(name, numbers, dict.fromkeys(absent))
    return found, [0.0 if v is None else v for v in given]


def pointwise(kernels: OnDemand, *arrays: np.ndarray) -> np.ndarray | None:
    """Result of a flat kernel of arrays of one shape and dtype, laid out as an elementwise operator's; None if there is
    no kernel.
    """
    f = kernels[arrays[0].dtype]
    if f is None:
        return None
    lead = arrays[0]
    if not lead.flags.c_contiguous:
        lead = next((a for a in arrays if 0 not in a.strides), lead)
        if not _empty_like(lead).flags.c_contiguous and all(
            [a.strides == lead.strides or 0 in a.strides for a in arrays]
        ):
            return _in_order(f, lead, arrays)
    arrays = tuple(a if a.flags.c_contiguous else dense(a) for a in arrays)
    out = _empty_like(arrays[0])
    f(*arrays, out, out.size)
    return out


def _in_order(f: Callable[..., None], lead: np.ndarray, arrays: tuple) -> np.ndarray:
    """A flat kernel's result in the order of axes that ``lead`` has in memory."""
    axes, restored = memory_order(lead)
    flat = [np.ascontiguousarray(a.transpose(axes)).reshape(-1) for a in arrays]
    out = _empty_like(flat[0])
    f(*flat, out, out.size)
    return restored(out)


def same_shape(arrays: list[Any] | None) -> bool:
    """Whether there are arrays, all of one shape."""
    return bool(arrays) and all(a.shape == arrays[0].shape for a in arrays)
