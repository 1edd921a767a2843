"""What the programs of fuzz_more.py use, beyond fuzz_prelude.py. State is in `HEAD`, one copy a run."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
from typing import Any

import fusegrad as T
from fusegrad import nn


def layout(v: Any) -> Any:
    """Strides that matter (not those of dimensions of 0 or 1 elements), and whether the elements lie in C order."""
    return [st for n, st in zip(v.shape, v.stride(), strict=True) if n > 1 and v.numel()], v.is_contiguous()


@dataclasses.dataclass(eq=False)
class Vec:
    """Two tensors with arithmetic."""

    a: Any
    b: Any

    def __add__(self, o: Any) -> Vec:
        return Vec(self.a + o.a, self.b + o.b)

    def __mul__(self, k: Any) -> Vec:
        return Vec(self.a * k, self.b * k)

    def __iter__(self) -> Any:
        yield self.a
        yield self.b

    def __eq__(self, o: Any) -> Any:
        return self.a is o.a

    @property
    def norm2(self) -> Any:
        return self.a * self.a + self.b * self.b


class Lazy:
    def __init__(self, x: Any) -> None:
        self.x = x

    @functools.cached_property
    def value(self) -> Any:
        return self.x * 3


class Two(T.autograd.Function):
    """Two results, of which a caller may use one."""

    @staticmethod
    def forward(ctx: Any, a: Any, b: Any) -> Any:
        ctx.save_for_backward(a, b)
        return a * b, a + b

    @staticmethod
    def backward(ctx: Any, g: Any, h: Any) -> Any:
        a, b = ctx.saved_tensors
        return g * b + h, g * a + h if ctx.needs_input_grad[1] else None


class Mask(T.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, low: float) -> Any:
        mask = x > low
        ctx.mark_non_differentiable(mask)
        ctx.save_for_backward(mask)
        return x * mask, mask

    @staticmethod
    def backward(ctx: Any, g: Any, _: Any) -> Any:
        return g * ctx.saved_tensors[0], None


class Ste(T.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.round()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g


class Setup(T.autograd.Function):
    @staticmethod
    def forward(x: Any, k: Any) -> Any:
        return x.sin() * k

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0])
        ctx.k = inputs[1]

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * ctx.saved_tensors[0].cos() * ctx.k, None


class Inplace(T.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 2


class Blocks(nn.Module):
    """A module made inside, of ``n`` layers that draw nothing."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.scales = nn.ParameterList([nn.Parameter(T.ones(3) * (k + 1)) for k in range(n)])

    def forward(self, z: Any) -> Any:
        for s in self.scales:
            z = (z * s).tanh()
        return z


class Timer:
    def __init__(self, log: list, by: Any = 1) -> None:
        self.log, self.by, self.count = log, by, 0

    def __enter__(self) -> Timer:
        self.count += 1
        self.log.append(("start", self.count))
        return self

    def scaled(self, x: Any) -> Any:
        return x * self.by

    def __exit__(self, *error: Any) -> None:
        self.count += 1
        self.log.append(("stop", error[0] is None))


@contextlib.contextmanager
def scoped(table: dict, key: str, value: Any) -> Any:
    before = table.get(key)
    table[key] = value
    try:
        yield table
    finally:
        if before is None:
            del table[key]
        else:
            table[key] = before


@T.no_grad()
def graded(x: Any) -> Any:
    return x * 2 + 1


def make_adder(x: Any) -> Any:
    def add(y: Any) -> Any:
        return x + y

    return add


def make_counter() -> Any:
    count = 0

    def step() -> int:
        nonlocal count
        count += 1
        return count

    return step


def compose(*fns: Any) -> Any:
    return functools.reduce(lambda f, g: lambda x: g(f(x)), fns)


def many(first: Any, *rest: Any, scale: Any = 1, **kw: Any) -> Any:
    for r in rest:
        first = first + r * scale
    return first


def fib(x: Any, n: int) -> Any:
    return x if n < 2 else fib(x, n - 1) + fib(x * 0.5, n - 2)


def tree_sum(tree: Any) -> Any:
    if isinstance(tree, dict):
        return sum(tree_sum(v) for v in tree.values())
    return sum(map(tree_sum, tree)) if isinstance(tree, (list, tuple)) else tree


def apply_all(fns: Any, x: Any) -> Any:
    for f in fns:
        x = f(x)
    return x


HEAD = """
CACHE = {}
def keep(v, into=[]):
    into.append(v)
    return into[0] if isinstance(into[0], T.Tensor) else into
@functools.lru_cache(maxsize=None)
def memo(k):
    return k * 2
TABLE = {"k0": T.sin, "k1": T.cos, "k2": lambda u: u * 2, "k3": helper}
class Meter:
    rate = 0.5
    made = 0
    def __init__(self, k):
        self.k, self.seen = k, 0
        Meter.made += 1
    @property
    def mean(self):
        return self.k / max(self.seen, 1)
    def __call__(self, u):
        self.seen += 1
        return u * self.rate + self.seen
    def best(self, u):
        if not hasattr(self, "_best") or bool(u.sum() > self._best.sum()):
            self._best = u.detach()
        return u - self._best.mean()
    def __repr__(self):
        return f"Meter({self.k}, {self.seen})"
METER = Meter(2)
"""
HEAD_CODE = compile(HEAD, "<fuzz head>", "exec")
NAMES: dict[str, Any] = {
    k: v for k, v in globals().items() if not k.startswith("_") and k not in ("HEAD", "HEAD_CODE", "Any", "T", "nn")
}
assert copy is not None
