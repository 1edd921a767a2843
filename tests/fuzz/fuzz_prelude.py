"""What random programs use: classes and functions with no state of their own (state is in `HEAD`, one copy a run)."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import enum
import functools
from typing import Any, NamedTuple

import fusegrad as T
from fusegrad import nn


class Pair(NamedTuple):
    a: Any
    b: Any = 1


@dataclasses.dataclass
class Point:
    x: Any
    k: int = 2
    items: list = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        self.total = self.k * 2

    def scaled(self, by: Any) -> Point:
        return dataclasses.replace(self, x=self.x * by)


@dataclasses.dataclass(frozen=True)
class Fixed:
    a: Any
    b: int = 0


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 3


class Slots:
    __slots__ = ("a", "b")

    def __init__(self, a: Any, b: Any = 0) -> None:
        self.a, self.b = a, b


class Custom(T.autograd.Function):
    """x -> x * k with a derivative that is not its own."""

    @staticmethod
    def forward(ctx: Any, x: Any, k: float) -> Any:
        ctx.save_for_backward(x)
        ctx.k = k
        return x * k

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * ctx.k + x * 0.1, None


class Stop(Exception):
    def __init__(self, value: Any = 0, *rest: Any) -> None:
        super().__init__(value, *rest)
        self.value = value


class Swallow:
    """A manager that logs and may swallow."""

    def __init__(self, log: list, tag: str, kinds: tuple = ()) -> None:
        self.log, self.tag, self.kinds = log, tag, kinds

    def __enter__(self) -> Swallow:
        self.log.append("enter " + self.tag)
        return self

    def __exit__(self, kind: Any, value: Any, tb: Any) -> bool:
        self.log.append(("exit " + self.tag, kind.__name__ if kind else None))
        return kind is not None and issubclass(kind, self.kinds)


class Base:
    unit = 3

    def __init__(self, k: Any) -> None:
        self.k = k

    def apply(self, x: Any) -> Any:
        return x * self.k

    @classmethod
    def made(cls, k: Any) -> Base:
        return cls(k)

    @staticmethod
    def twice(x: Any) -> Any:
        return x + x

    def __getattr__(self, name: str) -> Any:
        if name.startswith("auto"):
            return len(name)
        raise AttributeError(name)


class Derived(Base):
    def __init__(self, k: Any, c: Any = 1) -> None:
        super().__init__(k)
        self.c = c

    def apply(self, x: Any) -> Any:
        return super().apply(x) + self.c

    @property
    def both(self) -> Any:
        return self.k + self.c

    @both.setter
    def both(self, v: Any) -> None:
        self.k = v - self.c

    def __len__(self) -> int:
        return 2

    def __getitem__(self, i: int) -> Any:
        if i > 1:
            raise IndexError(i)
        return self.k if i == 0 else self.c

    def __contains__(self, v: Any) -> bool:
        return v == 1

    def __add__(self, o: Any) -> Any:
        return Derived(self.k, o)

    def __call__(self, x: Any, *rest: Any) -> Any:
        return self.apply(x) + len(rest)


class Net(nn.Module):
    """Three features to three, with a buffer, dropout, a counter, an attribute set in forward."""

    def __init__(self, norm: bool = True, p: float = 0.3) -> None:
        super().__init__()
        self.a = nn.Linear(3, 3)
        self.norm = nn.BatchNorm1d(3) if norm else nn.LayerNorm(3)
        self.drop = nn.Dropout(p)
        self.layers = nn.ModuleList([nn.Linear(3, 3, bias=False), nn.Tanh()])
        self.register_buffer("seen", T.zeros(3))
        self.calls = 0
        self.last: Any = None
        self.scale = 1.0

    def forward(self, z: Any, extra: Any = None) -> Any:
        self.calls += 1
        h = self.drop(self.a(self.norm(z)))
        for layer in self.layers:
            h = layer(h)
        if self.training:
            with T.no_grad():
                self.seen += h.detach().sum(0)
        self.last = h
        return h * self.scale if extra is None else h * self.scale + extra


def helper(x: Any, k: Any = 2, *rest: Any, c: Any = 1, **kw: Any) -> Any:
    return x * k + c + len(rest) + sum(kw.values())


def brk(x: Any, log: list) -> Any:
    log.append("brk")
    if x.sum() > 1:
        return x - 1
    return x + 1


def rec(x: Any, n: int) -> Any:
    return x if n <= 0 else rec(x * 0.5 + n, n - 1)


def gen(x: Any, n: int) -> Any:
    for i in range(n):
        yield x + i


def talk(x: Any, log: list) -> Any:
    """A generator that is sent to, and closes."""
    try:
        got = yield x
        while True:
            log.append(type(got).__name__)
            got = yield x * (got if got is not None else 2)
    finally:
        log.append("closed")


def outer_gen(x: Any, n: int) -> Any:
    yield from gen(x, n)
    return n


@contextlib.contextmanager
def cm(log: list, tag: str) -> Any:
    log.append("in" + tag)
    try:
        yield tag
    finally:
        log.append("out" + tag)


def logged(log: list) -> Any:
    def deco(fn: Any) -> Any:
        @functools.wraps(fn)
        def inner(*args: Any, **kwargs: Any) -> Any:
            log.append((fn.__name__, len(args), sorted(kwargs)))
            return fn(*args, **kwargs)

        return inner

    return deco


def fallible(x: Any, n: int) -> Any:
    if n > 1:
        raise Stop(n, "too large")
    return x + n


HEAD = """
G = 1.5
GL = []
GD = {"a": 2, "b": 0.5}
GT = T.tensor([0.5, -1.0, 2.0])
class Obj:
    cls_k = 2
    def __init__(self, k, t=None):
        self.k, self.t, self.items = k, t, []
    def scale(self, x):
        return x * self.k
    @property
    def twice(self):
        return self.k * 2
    def __call__(self, x):
        self.items.append(self.k)
        return self.scale(x) + 1
    def __eq__(self, o):
        return isinstance(o, Obj) and o.k == self.k
    __hash__ = None
def bump(k=1):
    global G
    G = G + k
    return G
"""
HEAD_CODE = compile(HEAD, "<fuzz head>", "exec")
NAMES: dict[str, Any] = {
    k: v for k, v in globals().items() if not k.startswith("_") and k not in ("HEAD", "HEAD_CODE", "Any")
}
NAMES["F"] = nn.functional
NAMES["deque"] = collections.deque
