"""Numbers and tensors drawn from generators of the program: ``random.random()``, ``np.random.beta(a, a)``, a
``numpy.random.Generator``, ``fusegrad.randn(n, generator=g)``.

Such a call needs nothing from the graph. The segment makes it for real, ahead of the region and in the order of the
program; what it gives is an input of the graph. No guard can look at it: where code asks for its value (a branch, a
text, a size) the call breaks the graph from then on. A region that fails before it changed anything is run again by
Python, which draws again: the generators are put back before that.
"""

from __future__ import annotations

import contextlib
import functools
import random
import re
import warnings
from typing import Any

import numpy as np

import fusegrad
from fusegrad import dtypes, handler
from fusegrad.autograd.modes import RUNNING, no_grad
from fusegrad.meta import Meta
from fusegrad.random import Generator
from fusegrad.sizes import SymInt
from fusegrad.tensor import Tensor

from . import breaks
from .ahead import taken
from .breaks import Break, Restart
from .builtin_calls import BUILTINS
from .calls import SPECIAL
from .inputs import Input
from .source import local
from .values import NULL, ListRef, ObjRef, SymFloat, is_a, plain_container

_PYTHON = """random uniform gauss normalvariate triangular betavariate expovariate gammavariate lognormvariate
vonmisesvariate paretovariate weibullvariate""".split()
_NUMPY = """rand randn random random_sample uniform normal beta gamma exponential standard_normal standard_gamma
standard_exponential laplace logistic gumbel lognormal chisquare rayleigh triangular weibull power pareto""".split()
_WHOLE = "randint randrange getrandbits choice sample".split()
_ARRAYS = (
    _NUMPY
    + """randint integers permutation choice binomial poisson geometric standard_t
multivariate_normal""".split()
)
_INTO = """normal_ uniform_ bernoulli_ exponential_ cauchy_ log_normal_ geometric_ random_ xavier_uniform_
xavier_normal_ kaiming_uniform_ kaiming_normal_""".split()
_TENSORS = ("randn", "rand", "randint", "randperm", "normal")
KINDS = (random.Random, np.random.RandomState, np.random.Generator)
_SAFE = ("pointwise", "reduce", "view", "create", "random")  # with floats alone: they can't fail
_NAME = re.compile(r"_fgdraw(\d+)")


class Draw:
    """One call: its place, the generator, the method or function, and arguments that are constants."""

    def __init__(self, place: Any, gen: ObjRef, fn: Any, args: list, kwargs: dict) -> None:
        self.place, self.gen, self.fn, self.args, self.kwargs = place, gen, fn, args, kwargs

    def text(self, rb: Any) -> str:
        parts = [_text(rb, a) for a in self.args]
        parts += [f"{k}={_text(rb, v)}" for k, v in self.kwargs.items()]
        gen = rb.load(self.gen.source)
        if type(self.fn) is str:
            return f"{gen}.{self.fn}({', '.join(parts)})"
        return f"{rb.cap.consts.name(self.fn)}({', '.join([*parts, f'generator={gen}'])})"


def _text(rb: Any, v: Any) -> str:
    if issubclass(type(v), (tuple, list)) and any(type(n) is SymInt for n in v):
        return f"({''.join(f'{rb.value(n)}, ' for n in v)})"
    return rb.value(v) if type(v) is SymInt else rb.cap.consts.name(v)


def draw_number(ev: Any, gen: Any, name: str, args: list, kwargs: dict) -> Any:
    """What a method of a generator from before gives: a number of the segment, a list of such, or an array that the
    segment makes; NULL: not taken."""
    cap = ev.cap
    if type(gen) in KINDS:  # of the module's functions; captured code makes none
        gen = ObjRef(gen, cap.const(gen))
    if type(gen) is not ObjRef or type(gen.obj) not in KINDS:
        return NULL
    python = type(gen.obj) is random.Random
    if python and name in ("choice", "sample"):
        args = [_numbers(ev, v) for v in args]
    given = [*args, *kwargs.values()]
    if not all(_given(v, python) for v in given) or name not in ([*_PYTHON, *_WHOLE] if python else _ARRAYS):
        return NULL
    if not taken(ev):
        return NULL
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            hint = getattr(_copy(gen.obj), name)(*args, **kwargs)
    except Exception:  # the program's own error
        return NULL
    place, code = ev.outer, f"_fgdraw{len(cap.draws)}"
    out = _drawn(cap, hint, code, _bounds(name, args, kwargs, python))
    if out is not NULL:
        ev.calls += 1
        cap.draws.append(Draw(place, gen, name, args, kwargs))
    return out


def _drawn(cap: Any, hint: Any, code: str, bounds: tuple | None) -> Any:
    if type(hint) is float:
        return SymFloat(cap, code, hint, [])
    if type(hint) is int and bounds is not None and -(2**62) < bounds[0] <= hint <= bounds[1] < 2**62:
        if bounds[0] == bounds[1]:
            return hint
        name = cap.sizes.fresh_name()
        cap.size_sources[name] = code
        return cap.sizes.symbol(name, hint, *bounds)
    if type(hint) is list:
        none = bounds is None and any(type(v) is not float for v in hint)
        return NULL if none else [_drawn(cap, v, f"{code}[{k}]", bounds) for k, v in enumerate(hint)]
    if type(hint) is np.ndarray and hint.dtype.kind in "fiu":
        ref = ObjRef(hint, local(code))
        cap.keep.append((hint, ref))
        return ref
    return NULL


def _shuffled(items: list, generator: Any) -> list:
    out = list(items)
    generator.shuffle(out)
    return out


def _shuffle(ev: Any, fn: Any, args: list, kwargs: dict) -> Any:
    """``random.shuffle`` of a list of numbers."""
    if len(args) == 2 and type(args[0]) is random.Random and type(args[1]) in (list, ListRef) and not kwargs:
        cap, gen, items = ev.cap, ObjRef(args[0], ev.cap.const(args[0])), _numbers(ev, args[1])
        if type(items) is list and items and taken(ev):
            hint = _shuffled(items, _copy(gen.obj))
            bounds = (min(items), max(items)) if type(items[0]) is int else None
            out = _drawn(cap, hint, f"_fgdraw{len(cap.draws)}", bounds)
            if out is not NULL:
                place = ev.outer
                ev.setitem(args[1], slice(None), out)
                ev.calls += 1
                cap.draws.append(Draw(place, gen, _shuffled, [items], {}))
                return None
    raise Break(breaks.CALL, "call of random.Random.shuffle", clean=True)


SPECIAL[random.Random.shuffle] = _shuffle


def _bounds(name: str, args: list, kwargs: dict, python: bool) -> tuple | None:
    """Between which whole numbers a result lies; None where that is not known."""
    ints = [v for v in args if type(v) is int]
    if kwargs or not args:
        return None
    if name in ("choice", "sample"):
        items = args[0]
        same = type(items) in (list, tuple, range) and len(items) > 0 and all(type(v) is int for v in items)
        return (min(items), max(items)) if same else None
    if len(ints) != len(args):
        return None
    if name == "getrandbits":
        return 0, 2 ** ints[0] - 1
    low, high = (0, ints[0]) if len(ints) == 1 else (ints[0], ints[1])
    if len(ints) == 3 and ints[2] < 0:
        return high + 1, low
    return low, high - (name != "randint" or not python)


def _numbers(ev: Any, v: Any) -> Any:
    """What is chosen from, as a constant where it is numbers."""
    if type(v) is ListRef and plain_container(v.obj):
        v = ev.list_items(v)
    same = type(v) in (list, tuple) and len({type(x) for x in v}) == 1 and type(v[0]) in (int, float)
    return list(v) if same else v


def _given(v: Any, python: bool) -> bool:
    if type(v) in (tuple, list):
        return all(_given(x, python) for x in v)
    return type(v) in (int, float, range) or (not python and (v is None or type(v) is bool or _is_dtype(v)))


def _is_dtype(v: Any) -> bool:
    return is_a(v, np.dtype) or (is_a(v, type) and issubclass(v, np.generic))


def draw_tensor(ev: Any, fn: Any, args: list, kwargs: dict) -> Any:
    """``randn(n, generator=g)`` of a generator from before, as an input of the graph; NULL: not taken."""
    gen = kwargs.get("generator")
    name = getattr(fn, "__name__", "")
    if type(gen) is not ObjRef or type(gen.obj) is not Generator:
        return NULL
    if name in _INTO and args and issubclass(type(args[0]), Tensor):
        return _draw_into(ev, fn, args, kwargs)
    if name not in _TENSORS:
        return NULL
    rest = {k: v for k, v in kwargs.items() if k != "generator"}
    if any(type(v) is SymInt for v in rest.values()) or (name == "randint" and any(type(v) is SymInt for v in args)):
        return NULL
    if not all(map(_constant, (*args, *rest.values()))) or rest.get("requires_grad") or not taken(ev):
        return NULL
    scratch = Generator()
    scratch.manual_seed(0)
    try:
        with handler.active(None):
            real = fn(*map(_hint, args), **{k: _hint(v) for k, v in rest.items()}, generator=scratch)
    except Exception:  # the program's own error
        return NULL
    ev.calls += 1
    shape = _sizes(name, args, rest)
    if not all(n >= 0 for n in shape):  # guarded: the call can't fail
        return NULL
    return _tensor(ev, Draw(ev.outer, gen, fn, args, rest), real, shape)


def _tensor(ev: Any, draw: Draw, real: Any, shape: tuple) -> Any:
    """The input of the graph that a call of the segment makes, as ``real``, of a ``shape`` that may change."""
    cap = ev.cap
    cap.draws.append(draw)
    source = local(f"_fgdraw{len(cap.draws) - 1}")
    graph = cap.builder.new_input(Meta(shape or tuple(real.shape), real.dtype, None), False, None, Tensor, True)
    cap.builder.adopt(real, graph)
    found = Input(real, source, graph)
    found.drawn = found.grad_synced = True
    cap.register(found)
    return graph


def _draw_into(ev: Any, fn: Any, args: list, kwargs: dict) -> Any:
    """``t.normal_(generator=g)``, ``init.xavier_normal_(t, generator=g)``: drawn on its own, then copied."""
    t, rest = args[0], {k: v for k, v in kwargs.items() if k != "generator"}
    name, shape, dtype = fn.__name__, tuple(t.shape), t.dtype
    method = fn is getattr(Tensor, name, None)
    given = (*args[1:], *rest.values())
    if not (method or fn is getattr(fusegrad.nn.init, name, None)) or not all(map(_constant, given)):
        return NULL
    if any(type(n) is SymInt for n in (*shape, *given)) or not taken(ev):
        return NULL
    scratch = Generator()
    scratch.manual_seed(0)
    filled = functools.partial(_filled, fn, shape, dtype)
    try:
        with handler.active(None):
            real = filled(*args[1:], **rest, generator=scratch)
    except Exception:  # the program's own error
        return NULL
    ev.calls += 1
    drawn = _tensor(ev, Draw(ev.outer, kwargs["generator"], filled, args[1:], rest), real, ())
    with contextlib.nullcontext() if method else no_grad():
        return ev.real(Tensor.copy_, t, drawn)


def _filled(fn: Any, shape: tuple, dtype: Any, *args: Any, **kwargs: Any) -> Tensor:
    return fn(fusegrad.empty(shape, dtype=dtype), *args, **kwargs)


def _constant(v: Any) -> bool:
    if issubclass(type(v), (tuple, list)):
        return all(type(n) in (int, SymInt) for n in v)
    return v is None or type(v) in (int, SymInt, float, bool, str) or is_a(v, dtypes.dtype)


def _hint(v: Any) -> Any:
    if issubclass(type(v), (tuple, list)):
        return [_hint(n) for n in v]
    return v.hint if type(v) is SymInt else v


def _sizes(name: str, args: list, kwargs: dict) -> tuple:
    """The sizes of a result, where some of them change between calls; () if none does."""
    given = [*args, *kwargs.values()]
    lists = [v for v in given if issubclass(type(v), (tuple, list))]
    sizes = tuple(lists[0]) if lists else tuple(args[:1] if name == "randperm" else args)
    return sizes if any(type(n) is SymInt for n in sizes) else ()


def _copy(gen: Any) -> Any:
    """A generator in the same state."""
    if type(gen) is np.random.Generator:
        bits = type(gen.bit_generator)()
        bits.state = gen.bit_generator.state
        return np.random.Generator(bits)
    out = type(gen)()
    put_back([(out, _state(gen))])
    return out


def _state(gen: Any) -> Any:
    if type(gen) is np.random.Generator:
        return gen.bit_generator.state
    if type(gen) is Generator:
        return gen.state
    return gen.getstate() if type(gen) is random.Random else gen.get_state()


def states(*gens: Any) -> list:
    return [(g, _state(g)) for g in gens]


def states_in_transforms(*gens: Any) -> list:
    """The same for a region that fails in transforms alone: keeping the state of numpy's takes as long as a kernel."""
    return states(*gens) if RUNNING else []


def put_back(kept: list) -> None:
    for gen, state in kept:
        if type(gen) is np.random.Generator:
            gen.bit_generator.state = state
        elif type(gen) is Generator:
            gen.state = state
        elif type(gen) is random.Random:
            gen.setstate(state)
        else:
            gen.set_state(state)


def not_looked_at(cap: Any, text: str) -> None:
    """A condition is about numbers that are drawn only when the segment runs. Raises `Restart`."""
    for m in _NAME.finditer(text):
        cap.facts.breaks[cap.draws[int(m[1])].place] = (breaks.CALL, "its value decides what is computed")
    cap.restarts = True  # also where real code caught it
    raise Restart


def draw_lines(cap: Any, rb: Any) -> tuple[list[str], list[str]]:
    """Lines that draw (and compute, see ahead), and that put the generators back if one of them or the region fails."""
    if cap.restarts:
        raise Restart
    if not cap.draws:
        return [], []
    save = cap.consts.name(states if _may_fail(cap.builder.graph) else states_in_transforms)
    gens = dict.fromkeys(rb.load(d.gen.source) for d in cap.draws if d.gen is not None)
    failing = any(d.gen is None for d in cap.draws)
    lines = [f"_fgkept = {cap.consts.name(states) if failing else save}({', '.join(gens)})"]
    lines += [f"_fgdraw{k} = {d.text(rb)}" for k, d in enumerate(cap.draws)]
    return lines, [f"{cap.consts.name(put_back)}(_fgkept)"]


def _may_fail(graph: Any) -> bool:
    for node in graph.nodes:
        floats = all(v.dtype.is_floating_point for v in (*node.inputs(), *node.outputs))
        if not floats or not (node.op.kind in _SAFE or node.op.name in ("matmul", "linear", "softmax", "log_softmax")):
            return True
    return False


def _python(name: str) -> Any:
    def handler(ev: Any, fn: Any, args: list, kwargs: dict) -> Any:
        out = draw_number(ev, args[0], name, args[1:], kwargs) if args else NULL
        if out is NULL:
            raise Break(breaks.CALL, f"call of random.Random.{name}", clean=True)
        return out

    return handler


def _numpy(fn: Any) -> Any:
    def handler(ev: Any, args: list, kwargs: dict) -> Any:
        out = draw_number(ev, args[0], fn.__name__, args[1:], kwargs) if args else NULL
        if out is NULL:
            raise Break(breaks.CALL, f"call of numpy.random.{fn.__qualname__}", clean=True)
        return out

    return handler


for _n in [*_PYTHON, *_WHOLE]:
    if type(_f := vars(random.Random).get(_n)) is type(_python):
        SPECIAL[_f] = _python(_n)
for _n in _ARRAYS:
    for _k in KINDS[1:]:
        if (_f := vars(_k).get(_n)) is not None:
            BUILTINS[_f] = _numpy(_f)
