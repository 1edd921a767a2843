"""numpy in captured code: on constants for real, on tensors through the operator that does the same."""

from __future__ import annotations

import math
import types
from typing import Any

import numpy as np

import fusegrad
from fusegrad.sizes import SymInt
from fusegrad.tensor import Tensor

from . import breaks
from .ahead import as_tensor, compute, has_array, is_ahead
from .breaks import Break
from .builtin_calls import BUILTINS
from .calls import SPECIAL
from .evaluator import within_domain
from .values import NULL, ObjRef, SymFloat, is_a, is_foreign

# ufuncs whose result on float tensors is that of the operator of the other name
_SAME = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "div", "power": "pow", "maximum": "maximum",
    "minimum": "minimum", "sqrt": "sqrt", "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log2": "log2",
    "log10": "log10", "log1p": "log1p", "sin": "sin", "cos": "cos", "tan": "tan", "sinh": "sinh", "cosh": "cosh",
    "tanh": "tanh", "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arctan2": "atan2", "absolute": "abs",
    "fabs": "abs", "negative": "neg", "square": "square", "sign": "sign", "floor": "floor", "ceil": "ceil",
    "trunc": "trunc", "rint": "round", "reciprocal": "reciprocal", "isnan": "isnan", "isfinite": "isfinite",
}  # fmt: skip
# Functions without effects: new arrays or numbers from their arguments.
_PURE = """array asarray arange linspace logspace zeros ones full eye identity empty_like zeros_like ones_like full_like
prod sum mean std var min max amin amax argmin argmax argsort sort cumsum cumprod clip round around where concatenate
stack vstack hstack tile repeat dot matmul outer inner cross reshape transpose squeeze expand_dims broadcast_to isclose
allclose array_equal all any nonzero unique searchsorted interp diff gradient meshgrid tri tril triu diag trace ndim
size shape percentile quantile median average histogram bincount flip roll isscalar result_type can_cast finfo iinfo
einsum polyfit polyval convolve count_nonzero deg2rad rad2deg hypot indices ravel split array_split atleast_1d
atleast_2d hanning hamming blackman bartlett nan_to_num iscomplexobj""".split()
PURE_NUMPY = {id(f) for n in _PURE if (f := getattr(np, n, None)) is not None} | {
    id(f) for n, f in vars(np.linalg).items() if not n.startswith("_") and callable(f)
}


def call_numpy(ev: Any, fn: Any, args: list, kwargs: dict) -> Any:
    """Call a function of numpy. Breaks where the values of tensors, or objects from before, are needed."""
    name = getattr(fn, "__name__", "numpy function")
    source = ev.cap.origin.get(id(fn))
    if source is not None and source.kind == "attr":  # somebody may put another function in its place
        ev.cap.guard(f"{ev.cap.tok(source)} is {ev.cap.consts.name(fn)}", "identity", source.path(), fn)
    given = [ev.content(v) for v in args]
    words = {k: ev.content(v) for k, v in kwargs.items()}
    everything = [*given, *words.values()]
    if fn is np.prod and len(given) == 1 and not words and _sizes(given[0]):
        if _made_int(ev):
            return math.prod(given[0])
        return np.int64(math.prod(int(n) for n in given[0]))  # a number of numpy's own type is one of these very sizes
    if any(_has_tensor(v) for v in everything):
        return _on_tensors(ev, fn, name, given, words)
    if any(map(has_array, everything)):
        done = compute(ev, fn, given, words)
        if done is not NULL:
            return done
    if not (is_a(fn, np.ufunc) or id(fn) in PURE_NUMPY) or "out" in words:
        raise Break(breaks.CALL, f"call of numpy.{name}", clean=True)
    if any(map(_unknown, everything)):
        raise Break(breaks.OBJECT, f"numpy.{name} of an object", clean=True)
    if is_a(fn, np.ufunc) and len(given) == 1 and not words and type(given[0]) in (SymInt, SymFloat):
        found = _of_number(ev, fn, given[0])
        if found is not None:
            return found
    numbers = {k: _number(v) for k, v in words.items()}
    out = ev.numbers_fixed_by(lambda: ev.real(within_domain, fn, [*map(_number, given)], numbers))
    if is_a(out, np.ndarray):
        ev.made[id(out)] = ev.outer
        ev.cap.keep.append(out)
    return out


def _of_number(ev: Any, fn: Any, v: Any) -> Any:
    """A function of a changing number, computed by the segment: where it is a float of numpy's."""
    code, hint, srcs = ev.cap.number_operand(v)
    with np.errstate(all="ignore"):
        out = fn(hint)
    if type(out) is not np.float64 or not math.isfinite(out) or not abs(hint) < 2**62:
        return None
    if type(v) is SymInt:
        ev.cap.guard(f"{-(2**62)} < {code} < {2**62}", "size")
    return SymFloat(ev.cap, f"{ev.cap.consts.name(fn)}({code})", out, srcs)


def _on_tensors(ev: Any, fn: Any, name: str, given: list, words: dict) -> Any:
    if is_a(fn, np.ufunc):
        same = _SAME.get(name)
        tensors = [v for v in given if issubclass(type(v), Tensor)]
        fits = all(type(v) in (int, float, SymInt, SymFloat) or any(v is t for t in tensors) for v in given)
        if same is None or words or not fits or not all(t.dtype.is_floating_point and not t._rg for t in tensors):
            raise Break(breaks.CALL, f"numpy.{name} of a tensor", clean=True)
        if same in ("maximum", "minimum", "atan2"):
            given = [
                v if any(v is t for t in tensors) else ev.library(fusegrad.full_like, [tensors[0], v], {})
                for v in given
            ]
        state = np.geterr()
        if not {*state.values()} <= {"ignore", "warn"}:
            raise Break(breaks.CALL, f"numpy.{name} of a tensor under np.errstate", clean=True)
        ev.cap.guard(f"{ev.cap.consts.name(np.geterr)}() == {state}", "mode", "np.errstate")
        return ev.library(getattr(fusegrad, same), given, {})
    # numpy asks the tensor for its own method (sum, mean, ...), or for its data: then the graph breaks
    return ev.library(fn, given, words)


def _has_tensor(v: Any) -> bool:
    return issubclass(type(v), Tensor) or (type(v) in (list, tuple) and any(map(_has_tensor, v)))


def _made_int(ev: Any) -> bool:
    """Whether the call that is evaluated is the argument of ``int(...)``."""
    f = ev.frames[-1]
    now, then = f.program.instrs[f.ip - 1 : f.ip + 1]
    if now.op != "CALL" or then.op != "CALL" or then.arg != 1 or then.extra:
        return False
    return any(v is int for v in f.stack[-now.arg - 4 : -now.arg - 2])


def _sizes(v: Any) -> bool:
    return issubclass(type(v), tuple) and all(type(n) in (int, SymInt) for n in v) and any(type(n) is SymInt for n in v)


def _unknown(v: Any) -> bool:
    if type(v) in (list, tuple):
        return any(map(_unknown, v))
    return is_foreign(v) or is_a(v, (types.FunctionType, types.MethodType))


def _number(v: Any) -> Any:
    t = type(v)
    if issubclass(t, (list, tuple)):
        return (list if t is list else tuple)(map(_number, v))
    return int(v) if t is SymInt else v.fixed() if t is SymFloat else v


# ---- arrays become tensors


def _from_array(ev: Any, fn: Any, args: list, kwargs: dict) -> Any:
    """``from_numpy(a)``, ``tensor(a)``, ``as_tensor(a)``."""
    v = args[0] if args else None
    if type(v) is ObjRef and type(v.obj) is np.ndarray:
        if fn is fusegrad.tensor and not kwargs.keys() <= {"dtype"}:
            raise Break(breaks.CALL, f"{fn.__name__} of an array", clean=True)
        shared = as_tensor(ev, v) if is_ahead(v) else _shared(ev, v)
        if shared is NULL:
            raise Break(breaks.CALL, f"{fn.__name__} of an array", clean=True)
        if fn is fusegrad.from_numpy:
            return shared
        args = [shared, *args[1:]]
        if fn is fusegrad.tensor:
            out = ev.library(Tensor.clone, [shared], {})
            dtype = kwargs.get("dtype")
            return out if dtype is None else ev.library(Tensor.to, [out, dtype], {})
    elif is_a(v, np.ndarray) and fn is not fusegrad.tensor:
        raise Break(breaks.CALL, f"{fn.__name__} of an array made here", clean=True)  # they share memory
    return ev.library(fn, args, kwargs)


def _shared(ev: Any, ref: ObjRef) -> Tensor:
    """The tensor on the memory of an array from before; its data are read at every call."""
    known = ev.arrays.get(id(ref))
    if known is None:
        real = fusegrad.from_numpy(ref.obj)
        ev.cap.consts.env["_fgarray"] = fusegrad.from_numpy
        known = ev.arrays[id(ref)] = ev.cap.realize(real, ref.source.call("_fgarray({})"))
    return known


SPECIAL[fusegrad.from_numpy] = SPECIAL[fusegrad.tensor] = SPECIAL[fusegrad.as_tensor] = _from_array
for _f in (*vars(np).values(), *vars(np.linalg).values()):
    if is_a(_f, np.ufunc) or type(_f).__name__ == "_ArrayFunctionDispatcher" or id(_f) in PURE_NUMPY:
        if not is_a(_f, type):
            BUILTINS[_f] = lambda ev, args, kwargs, fn=_f: call_numpy(ev, fn, args, kwargs)
            if is_a(_f, types.FunctionType):
                SPECIAL[_f] = lambda ev, fn, args, kwargs: call_numpy(ev, fn, args, kwargs)
