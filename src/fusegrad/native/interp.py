"""Kernels run by numpy, slowly: what the printers are tested against, and a way to look into a kernel.

Operators are numpy's own functions, not the expansions of vecmath; `expression(..., expanded=True)` runs those.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fusegrad import dtypes, random

from .nest import ArrayParam, Kernel, Nest, Phase, Reduce, ScalarParam
from .scalar import Access, Expr, Size, walk

Array = Any


def _erf(x: Array) -> Array:
    import math

    return np.vectorize(math.erf, otypes=[np.float64])(x).astype(x.dtype)


def _erfc(x: Array) -> Array:
    import math

    return np.vectorize(math.erfc, otypes=[np.float64])(x).astype(x.dtype)


def _gelu(x: Array) -> Array:
    return (x * _erfc(x.astype(np.float64) * -(0.5**0.5)) / 2).astype(x.dtype)


def _kernel_of(name: str) -> Callable:
    """The numpy kernel of an operator of the table, as exact as the machine code."""

    def run(x: Array) -> Array:
        from ..op import TABLE

        return TABLE[name].kernel.__wrapped__(x)

    return run


def _sigmoid(x: Array) -> Array:
    return (1 / (1 + np.exp(-x.astype(np.longdouble)))).astype(x.dtype)


def _trunc_div(x: Array, y: Array) -> Array:
    return (x - np.fmod(x, y)) // np.where(y == 0, 1, y) * (y != 0)


def _shift(f: Callable) -> Callable:
    def run(x: Array, y: Array) -> Array:
        size = x.dtype.itemsize * 8
        inside = (y >= 0) & (y < size)
        return np.where(inside, f(x, np.where(inside, y, 0)), np.where(f is np.right_shift, f(x, size - 1), 0))

    return run


def _lshr(x: Array, y: Array) -> Array:
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    inside = (y >= 0) & (y < x.dtype.itemsize * 8)
    moved = x.view(unsigned) >> np.where(inside, y, 0).astype(unsigned)
    return np.where(inside, moved, 0).astype(unsigned).view(x.dtype)


FUNCTIONS: dict[str, Callable] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "floordiv": np.floor_divide,
    "mod": np.remainder,
    "fmod": np.fmod,
    "trunc_div": _trunc_div,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "pow": np.power,
    "atan2": np.arctan2,
    "neg": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": np.rint,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "reciprocal": lambda x: 1 / x,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "sigmoid": _sigmoid,
    "erf": _erf,
    "erfc": _erfc,
    "gelu": _gelu,
    **{n: _kernel_of(n) for n in "erfcx erfinv ndtr ndtri log_ndtr i0 i0e i1 i1e".split()},
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "and_": np.bitwise_and,
    "or_": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not_": np.invert,
    "shl": _shift(np.left_shift),
    "shr": _shift(np.right_shift),
    "lshr": _lshr,
    "where": np.where,
    "branch": np.where,
    "copysign": np.copysign,
    "ldexp": np.ldexp,
}


class _Buffer:
    """Elements around an array's first one, addressed as kernels do."""

    def __init__(self, a: np.ndarray) -> None:
        low, high = np.lib.array_utils.byte_bounds(a)
        start = a.__array_interface__["data"][0]
        self.keep, self.origin = a, (start - low) // a.itemsize
        count = (high - low) // a.itemsize if a.size else 0
        corner = a[tuple(slice(None) if s >= 0 else slice(None, None, -1) for s in a.strides)] if a.ndim else a
        self.flat = np.lib.stride_tricks.as_strided(corner, (count,), (a.itemsize,)) if a.size else np.empty(0, a.dtype)

    def get(self, index: Array) -> Array:
        return self.flat[index + self.origin]

    def set(self, index: Array, value: Array) -> None:
        self.flat[index + self.origin] = value


class Interpreter:
    """State of one run; `loops` maps loop names to int64 arrays over the points at hand."""

    def __init__(self, kernel: Kernel, args: Sequence[Any], expanded: bool = False) -> None:
        self.kernel, self.expanded = kernel, expanded
        self.buffers: dict[str, _Buffer] = {}
        self.numbers: dict[str, Any] = {}
        self.accs: dict[str, Any] = {}
        self.loops: dict[str, Array] = {}
        self.error: tuple[int, int, int] | None = None
        self._bind(args)

    def _bind(self, args: Sequence[Any]) -> None:
        given = iter(args)
        arrays = {}
        for p in self.kernel.params:
            if isinstance(p, ArrayParam):
                arrays[p.name] = next(given)
                self.buffers[p.name] = _Buffer(arrays[p.name])
            elif isinstance(p, ScalarParam):
                self.numbers[p.name] = p.dtype.np.type(next(given))
            elif p.source is None:
                self.numbers[p.name] = int(next(given))
        for p in self.kernel.params:
            source = getattr(p, "source", None)
            if source:
                a = arrays[source[0]]
                self.numbers[p.name] = (
                    a.shape[source[2]] if source[1] == "shape" else a.strides[source[2]] // a.itemsize
                )
        for s in self.kernel.scratch:
            self.buffers[s.name] = _Buffer(np.zeros(max(s.size, 1), s.dtype.np))

    def size(self, size: Size) -> int:
        return (
            size
            if isinstance(size, int)
            else int(eval(size, {"__builtins__": {}, "min": min, "max": max}, self.numbers))
        )

    def run(self) -> None:
        with np.errstate(all="ignore"):
            for nest in self.kernel.nests:
                self.nest(nest)
        if self.error:
            code, index, size = self.error
            raise IndexError(self.kernel.errors[code - 1].replace("{index}", str(index)).replace("{size}", str(size)))

    def nest(self, nest: Nest) -> None:
        if nest.body is not None:
            raise NotImplementedError("convolutions are tested against the eager operators")
        for point in itertools.product(*(range(self.size(loop.size)) for loop in nest.outer)):
            self.accs = {}
            for phase in nest.phases:
                self.loops = {loop.name: np.int64(k) for loop, k in zip(nest.outer, point, strict=False)}
                self.phase(phase)

    def phase(self, phase: Phase) -> None:
        sizes = [self.size(loop.size) for loop in phase.inner]
        count = int(np.prod(sizes, dtype=np.int64))
        grid = np.unravel_index(np.arange(count), sizes) if sizes else ()
        if phase.ordered:
            for point in zip(*grid, strict=True):
                self.loops.update((loop.name, np.int64(k)) for loop, k in zip(phase.inner, point, strict=True))
                self.stores(phase, 1)
            return
        self.loops.update((loop.name, np.asarray(g, np.int64)) for loop, g in zip(phase.inner, grid, strict=False))
        values = self.values([e for r in phase.reduces for e in r.exprs()], count)
        for r in phase.reduces:
            given = [np.broadcast_to(values[e], (count,)) for e in r.exprs()]
            self.accs[r.name] = self.scan(r, *given) if r.scan else self.reduce(r, given[0])
        self.stores(phase, count)

    def stores(self, phase: Phase, count: int) -> None:
        values = self.values(phase.roots(), count)
        for s in phase.stores:
            place = self.place(s.access, [values[g] for g in s.gather])
            self.buffers[s.access.buffer].set(np.broadcast_to(place, (count,)), values[s.value])

    def scan(self, r: Reduce, v: Array, factor: Array | None = None) -> Array:
        """Values of a running reduction at all points."""
        out, total = np.empty(len(v), r.dtype.np), None
        wide = np.float64 if r.dtype.category == 2 else r.dtype.np
        for k in range(len(v))[:: r.scan]:
            x = v[k].astype(wide)
            if factor is not None:
                total = x if total is None else total * factor[k].astype(wide) + x
            else:
                f = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}[r.combine]
                total = x if total is None else f(total, x)
            out[k] = total
        return out

    def reduce(self, r: Reduce, v: Array) -> Any:
        from .llvm_reduce import identity

        if r.combine.startswith("arg"):
            return np.int64((np.argmax if r.combine == "argmax" else np.argmin)(v)) if len(v) else np.int64(-1)
        if r.combine in ("add", "sum", "mul"):
            wide = np.longdouble if r.dtype.category == 2 else v.dtype
            return (np.multiply if r.combine == "mul" else np.add).reduce(v, dtype=wide).astype(r.dtype.np)
        f = {"max": np.maximum, "min": np.minimum, "and": np.bitwise_and, "or": np.bitwise_or}[r.combine]
        return f.reduce(v, initial=r.dtype.np.type(identity(r.combine, r.dtype)))

    def place(self, a: Access, gather: Sequence[Array]) -> Array:
        total = np.int64(self.size(a.offset))
        for loop, coef in a.terms:
            total = total + self.loops[loop] * self.size(coef)
        for g, coef in zip(gather, a.gather, strict=False):
            total = total + g * self.size(coef)
        return total

    def values(self, roots: Sequence[Expr], count: int) -> dict[Expr, Array]:
        """Values of all expressions below the roots."""
        done: dict[Expr, Array] = {}
        if self.expanded:
            from .vecmath import expand

            new = expand(roots)
            done.update(self._values(new, count))
            return {**done, **{r: done[n] for r, n in zip(roots, new, strict=False)}}
        return self._values(roots, count)

    def _values(self, roots: Sequence[Expr], count: int) -> dict[Expr, Array]:
        done: dict[Expr, Array] = {}
        for e in walk(roots):
            v = self.value(e, [done[a] for a in e.args], count)
            done[e] = v if isinstance(v, np.ndarray) and v.dtype == e.dtype.np else np.asarray(v).astype(e.dtype.np)
        return done

    def value(self, e: Expr, args: list[Array], count: int) -> Any:
        """One expression from the values of its arguments."""
        op = e.op
        if op == "const":
            return np.asarray(e.attr, e.dtype.np)
        if op == "index":
            return self.loops[e.attr]
        if op == "size":
            return np.int64(self.size(e.attr))
        if op == "scalar":
            return self.numbers[e.attr]
        if op == "acc":
            return self.accs[e.attr]
        if op == "load":
            return self.load(e, args, count)
        if op == "table":
            return np.asarray(e.attr, e.dtype.np)[args[0]]
        if op == "check":
            return self.check(e, args)
        if op == "cast":
            return np.asarray(args[0]).astype(e.dtype.np)
        if op == "bitcast":
            return np.asarray(args[0]).view(e.dtype.np)
        if op == "fma":
            wide = np.longdouble if e.dtype is dtypes.float64 else np.float64
            return (args[0].astype(wide) * args[1].astype(wide) + args[2].astype(wide)).astype(e.dtype.np)
        if op == "random_word":
            seed, draw, i = args
            words = [random.words(int(seed) & (1 << 64) - 1, int(draw), 1, int(k))[0] for k in np.atleast_1d(i).ravel()]
            return np.asarray(words, np.uint32).view(np.int32).reshape(np.shape(i))
        if op in ("lgamma", "digamma"):  # numpy has neither: as every printer computes them
            return self.written_out(e, args, count)
        return FUNCTIONS[op](*args)

    def written_out(self, e: Expr, args: list[Array], count: int) -> Array:
        """The value of vector math by its expansion."""
        from .vecmath import expand

        done = dict(zip(e.args, args, strict=True))
        for part in walk(expand([e])):
            if part not in done:
                v = self.value(part, [done[a] for a in part.args], count)
                done[part] = np.asarray(v).astype(part.dtype.np)
        return done[expand([e])[0]]

    def load(self, e: Expr, args: list[Array], count: int) -> Array:
        a: Access = e.attr
        n = len(a.gather)
        place = self.place(a, args[:n])
        buffer = self.buffers[a.buffer]
        if not a.masked:
            return buffer.get(place) if count else np.zeros(np.shape(place), e.dtype.np)
        mask, other = np.broadcast_arrays(args[n], args[n + 1])
        place, mask, other = np.broadcast_arrays(place, mask, other)
        out = other.astype(e.dtype.np)
        out[mask] = buffer.get(place[mask])
        return out

    def check(self, e: Expr, args: list[Array]) -> Array:
        error, wrap = e.attr
        index, size = np.broadcast_arrays(*args)
        fixed = np.where(index < 0, index + size, index) if wrap else index
        bad = (fixed < 0) | (fixed >= size)
        if bad.any():
            self.error = error, int(index[bad].flat[0]), int(size[bad].flat[0])
        return np.where(bad, 0, fixed)


def run(kernel: Kernel, *args: Any, expanded: bool = False) -> None:
    """Run a kernel on arrays and numbers, as compile_kernel's callable would."""
    Interpreter(kernel, args, expanded).run()


def expression(e: Expr, loads: dict[str, np.ndarray], expanded: bool = False) -> np.ndarray:
    """Value of an expression over 1-d arrays that it loads as name[i] (loop "i")."""
    size = len(next(iter(loads.values())))
    from .nest import Loop, Store

    kernel = Kernel(
        "expression",
        (*(ArrayParam(n, dtypes.FROM_NUMPY[a.dtype]) for n, a in loads.items()), ArrayParam("out", e.dtype, True)),
        (Nest((), (Phase((Loop("i", size),), stores=(Store("out", e, terms={"i": 1}),)),)),),
    )
    out = np.empty(size, e.dtype.np)
    run(kernel, *loads.values(), out, expanded=expanded)
    return out
