"""numpy on arrays from before: it needs nothing from the graph, so that the segment computes it ahead of the region.

Sizes and dtypes of the arrays are guarded; only functions are taken whose results' sizes and dtypes follow from those.
Arrays whose sizes change from call to call break the graph, as values that are looked at do (see drawing). Where the
captured code has changed a tensor before, whose memory may be that of an array, the graph breaks as well.
"""

from __future__ import annotations

import operator
import warnings
from typing import Any

import numpy as np

import fusegrad
from fusegrad import handler
from fusegrad.meta import Meta
from fusegrad.sizes import SymInt
from fusegrad.tensor import Tensor

from .evaluator import in_order
from .inputs import Input
from .source import local
from .values import NULL, ObjRef, SymFloat, is_a

_FRESH = {getattr(np, n) for n in """sum mean std var min max amin amax argmin argmax argsort sort cumsum cumprod clip
round concatenate stack vstack hstack tile dot matmul outer inner cross percentile quantile median average
convolve polyval interp tril triu roll where zeros_like ones_like full_like""".split()}  # fmt: skip
_OPERATORS = {getattr(operator, n) for n in """add sub mul truediv floordiv mod pow matmul and_ or_ xor lt le gt ge eq
ne neg pos abs invert""".split()}  # fmt: skip
_VIEWS = {np.reshape, np.transpose, np.squeeze, np.expand_dims, np.ravel, operator.getitem}
_METHODS = set("sum mean std var min max cumsum cumprod dot round clip argmin argmax copy astype".split())
_VIEW_METHODS = {"reshape", "transpose", "ravel", "squeeze"}
_PLAIN = (type(None), type(Ellipsis), int, float, bool, str, np.dtype, np.generic)
_ATTRIBUTES = ("shape", "ndim", "size", "dtype", "itemsize", "nbytes")


class Ahead:
    """One call: what is called (a function, or the name of a method of the first argument) and its arguments."""

    gen = None

    def __init__(self, place: Any, fn: Any, args: list, kwargs: dict) -> None:
        self.place, self.fn, self.args, self.kwargs = place, fn, args, kwargs

    def text(self, rb: Any) -> str:
        parts = [_text(rb, a) for a in self.args]
        words = [f"{k}={_text(rb, v)}" for k, v in self.kwargs.items()]
        if type(self.fn) is str:
            return f"{parts[0]}.{self.fn}({', '.join([*parts[1:], *words])})"
        return f"{rb.cap.consts.name(self.fn)}({', '.join([*parts, *words])})"


def taken(ev: Any) -> bool:
    """Whether a draw here may be made ahead of the region: once, in the program's order."""
    return in_order() and not ev.cap.builder.depth and ev.cap.reading is None


def is_array(v: Any) -> bool:
    return type(v) is ObjRef and type(v.obj) is np.ndarray


def has_array(v: Any) -> bool:
    return is_array(v) or (type(v) in (tuple, list) and any(map(has_array, v)))


def is_ahead(v: Any) -> bool:
    """Whether an array is a result that the segment computes."""
    return is_array(v) and v.source.kind == "local" and v.source.key.startswith("_fgdraw")


def attribute(ev: Any, ref: ObjRef, name: str) -> Any:
    """What is known of such a result by the guards on what it is computed from; NULL for the rest."""
    if name == "T":
        return compute(ev, np.transpose, [ref], {})
    return getattr(ref.obj, name) if name in _ATTRIBUTES else NULL


def compute(ev: Any, fn: Any, args: list, kwargs: dict) -> Any:
    """The result of a call of numpy (or of a method: ``fn`` is its name) that takes an array; NULL: not taken."""
    given = [*args, *kwargs.values()]
    if not any(map(has_array, given)) or not _known_call(fn, kwargs) or not all(map(_fits, given)):
        return NULL
    if not taken(ev) or ev.cap.builder.mutated() or not all(_guarded(ev, v) for v in given):
        return NULL
    call = getattr(type(_real(args[0])), fn, None) if type(fn) is str else fn
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            out = call(*map(_real, args), **{k: _real(v) for k, v in kwargs.items()})
    except Exception:  # the program's own error
        return NULL
    if type(out) is not np.ndarray and not (type(out) is np.float64 and np.isfinite(out)):
        return NULL
    if type(out) is np.ndarray and out.dtype.kind not in "fiub":
        return NULL
    cap = ev.cap
    ev.calls += 1
    cap.draws.append(Ahead(ev.outer, fn, args, kwargs))
    name = f"_fgdraw{len(cap.draws) - 1}"
    if type(out) is np.float64:
        return SymFloat(cap, name, out, [])
    ref = ObjRef(out, local(name))
    cap.keep.append((out, ref))
    if fn in _VIEWS or fn in _VIEW_METHODS:
        ev.arrays[id(ref)] = None  # no tensor of it: it shares its memory
    return ref


def as_tensor(ev: Any, ref: ObjRef) -> Any:
    """The tensor on the memory of such a result, as an input of the graph; NULL: not taken."""
    cap = ev.cap
    if id(ref) in ev.arrays:
        return NULL if ev.arrays[id(ref)] is None else ev.arrays[id(ref)]
    if not taken(ev) or cap.builder.mutated() or not ref.obj.flags.c_contiguous:
        return NULL
    try:
        with handler.active(None):
            real = fusegrad.from_numpy(ref.obj)
    except TypeError:
        return NULL
    cap.draws.append(Ahead(ev.outer, fusegrad.from_numpy, [ref], {}))
    graph = cap.builder.new_input(Meta(tuple(real.shape), real.dtype, None), False, None, Tensor, True)
    cap.builder.adopt(real, graph)
    found = Input(real, local(f"_fgdraw{len(cap.draws) - 1}"), graph)
    found.drawn = found.grad_synced = True
    cap.register(found)
    ev.arrays[id(ref)] = graph
    return graph


def index_arrays(ev: Any, k: Any) -> Any:
    """An index with arrays of whole numbers in it, as tensors."""
    if type(k) is tuple:
        return tuple(index_arrays(ev, v) for v in k)
    if not is_array(k) or k.obj.dtype.kind not in "iu":
        return k
    whole = ev.call(fusegrad.from_numpy, [k], {})
    return whole if whole.dtype is fusegrad.int64 else ev.library(Tensor.long, [whole], {})


def _known_call(fn: Any, kwargs: dict) -> bool:
    if type(fn) is str:
        return fn in _METHODS | _VIEW_METHODS and kwargs.keys() <= {"axis", "keepdims", "ddof", "dtype"}
    if is_a(fn, np.ufunc):
        return fn.nout == 1 and not kwargs
    return (fn in _FRESH or fn in _OPERATORS or fn in _VIEWS) and "out" not in kwargs


def _fits(v: Any) -> bool:
    t = type(v)
    if t in (tuple, list):
        return all(map(_fits, v))
    if t is slice:
        return all(type(n) in (int, type(None)) for n in (v.start, v.stop, v.step))
    if is_array(v):
        return v.obj.dtype.kind in "fiub"
    return t is SymFloat or is_a(v, _PLAIN) or (is_a(v, type) and issubclass(v, np.generic))


def _guarded(ev: Any, v: Any) -> bool:
    """Guard what the result's sizes and dtype follow from; False: the sizes of the array change."""
    if type(v) in (tuple, list):
        return all(_guarded(ev, x) for x in v)
    if not is_array(v) or is_ahead(v):
        return True
    cap, a, path = ev.cap, v.obj, v.source.path()
    if any(cap.facts.is_dynamic(f"{path}.shape[{k}]") for k in range(a.ndim)):
        return False
    cap.guard(f"{cap.tok(v.source.attr('shape'))} == {a.shape!r}", "shape", path, a.shape)
    cap.guard(f"{cap.tok(v.source)}.dtype is {cap.consts.name(a.dtype)}", "dtype", path, a.dtype)
    cap.guard(f"{cap.tok(v.source)}.strides == {a.strides!r}", "layout", path, a.strides)
    return True


def _real(v: Any) -> Any:
    t = type(v)
    if t in (tuple, list):
        return t(map(_real, v))
    return v.obj if t is ObjRef else v.hint if t in (SymFloat, SymInt) else v


def _text(rb: Any, v: Any) -> str:
    t = type(v)
    if t in (tuple, list):
        items = "".join(f"{_text(rb, x)}, " for x in v)
        return f"({items})" if t is tuple else f"[{items}]"
    return rb.value(v) if t in (ObjRef, SymFloat, slice) else rb.cap.consts.name(v)
