"""What the programs of fuzz_wide.py use: `HEAD` is run once for each run of a program, since its classes have state."""

from __future__ import annotations

import abc
import bisect
import copy
import enum
import heapq
import inspect
import json
import string
import types
import typing
import weakref
from typing import Any

import fusegrad as T
from fusegrad import control

NAMES: dict[str, Any] = {
    "abc": abc, "bisect": bisect, "copy": copy, "enum": enum, "heapq": heapq, "inspect": inspect, "json": json,
    "C": control, "string": string, "types": types, "typing": typing, "weakref": weakref,
    "SimpleNamespace": types.SimpleNamespace,
}  # fmt: skip

HEAD = '''
GK = 3
GNONE = None
GFN = T.tanh
GP = nn.Parameter(T.tensor([0.5, 1.5, -0.5]))
GS = T.tensor(0.75)
ACCIT = iter([T.ones(1), T.ones(1)])
def bump_gk():
    global GK
    GK = GK + 1
    return GK
class Abstract(abc.ABC):
    factor = 2.0
    def __init__(self, k): self.k = k
    @abc.abstractmethod
    def step(self, u): ...
    def run(self, u):
        return self.step(u) * self.factor
    def __repr__(self): return f"<{type(self).__name__} {self.k}>"
class Add(Abstract):
    def step(self, u): return u + self.k
class Mul(Abstract):
    factor = 0.5
    def step(self, u): return u * self.k
class Both(Add, Mul):
    def step(self, u): return super().step(u) - Mul.step(self, u)
class Typed:
    """Descriptors, properties and hooks of attribute access."""
    class Positive:
        def __set_name__(self, owner, name): self.name = "_" + name
        def __get__(self, o, owner=None): return self if o is None else getattr(o, self.name, 1)
        def __set__(self, o, v):
            if isinstance(v, (int, float)) and v < 0: raise ValueError(f"{self.name[1:]} is {v}")
            setattr(o, self.name, v)
    rate = Positive()
    def __init__(self, rate=1): self.sets = 0; self.rate = rate
    def __setattr__(self, name, v):
        if name != "sets": self.__dict__["sets"] = self.__dict__.get("sets", 0) + 1
        object.__setattr__(self, name, v)
    def __getattr__(self, name):
        if name.startswith("x_"): return name[2:]
        raise AttributeError(name)
    def __delattr__(self, name):
        self.sets += 10
        object.__delattr__(self, name)
class Bag(dict):
    def __missing__(self, k): return 0.5
    def total(self): return sum(self.values())
class Rows(list):
    seen = 0
    def append(self, v):
        self.seen += 1
        super().append(v)
class Num:
    """Arithmetic with tensors from both sides, comparisons, truth."""
    def __init__(self, v): self.v = v
    def __add__(self, o): return Num(self.v + (o.v if isinstance(o, Num) else o))
    def __radd__(self, o): return o + self.v
    def __mul__(self, o): return NotImplemented if isinstance(o, str) else self.v * o
    def __rmul__(self, o): return o * self.v
    def __neg__(self): return Num(-self.v)
    def __lt__(self, o): return self.v < o.v
    def __bool__(self): return bool(self.v)
    def __index__(self): return int(self.v)
    def __float__(self): return float(self.v)
    def __format__(self, spec): return f"N{spec}{self.v}"
    def __iadd__(self, o): self.v = self.v + o; return self
    def __matmul__(self, o): return o * 2
    def __getitem__(self, i): return (self.v, i)
    def __hash__(self): return 7
    def __eq__(self, o): return isinstance(o, Num) and o.v == self.v
class Count:
    """An iterator with state."""
    def __init__(self, u, n): self.u, self.n = u, n
    def __iter__(self): return self
    def __next__(self):
        if self.n <= 0: raise StopIteration
        self.n -= 1
        return self.u * self.n
class Meta(type):
    def __new__(m, name, bases, ns, **kw):
        cls = super().__new__(m, name, bases, ns)
        cls.extra = kw.get("extra", 1)
        return cls
    def __call__(cls, *a): return super().__call__(*a)
    @property
    def twice(cls): return cls.extra * 2
class Made(metaclass=Meta, extra=3):
    made = 0
    def __init_subclass__(cls, **kw): cls.kw = kw; Made.made += 1
    def __new__(cls, *a): return super().__new__(cls)
    def __init__(self, u=1): self.u = u
@dataclasses.dataclass(order=True, slots=True)
class Rank:
    key: int
    u: object = dataclasses.field(default=None, compare=False)
@dataclasses.dataclass
class Child(Point):
    w: object = 1
    def scaled(self, by): return super().scaled(by * 2)
class Mode(enum.Flag):
    A = 1
    B = 2
class Kind(str, enum.Enum):
    SIN = "sin"
    COS = "cos"
    def fn(self): return getattr(T, self.value)
@functools.singledispatch
def sized(v): return 0
@sized.register
def _(v: int): return v
@sized.register
def _(v: list): return len(v)
@sized.register(T.Tensor)
def _(v): return v.sum()
def defaulted(u, by=[2], *, at=GS): return u * by[0] + at
def tracked(fn):
    @functools.wraps(fn)
    def inner(*a, **k):
        inner.calls += 1
        return fn(*a, **k)
    inner.calls = 0
    return inner
@tracked
def counted(u, k=1): return u * k + counted.calls
def accumulate():
    total = 0
    def add(u):
        nonlocal total
        total = total + u
        return total
    return add
ACC = accumulate()
def averager(u):
    total, n = u, 1
    while True:
        got = yield total / n
        if got is None: return n
        total, n = total + got, n + 1
def delegating(u, log):
    n = yield from averager(u)
    log.append(("n", n))
    yield u * n
def careful(u, log):
    try:
        yield u
        yield u * 2
    except ValueError as e:
        log.append(("thrown", e.args))
        yield u * 3
    finally:
        log.append("end")
@contextlib.contextmanager
def catching(log):
    try:
        yield log
    except ValueError as e:
        log.append(("caught", str(e)))
    else:
        log.append("clean")
@contextlib.contextmanager
def patched(o, name, v):
    old = getattr(o, name)
    setattr(o, name, v)
    try: yield old
    finally: setattr(o, name, old)
class Cube(T.autograd.Function):
    """Can be differentiated twice; keeps its result and its argument."""
    @staticmethod
    def forward(ctx, u):
        ctx.save_for_backward(u)
        return u ** 3
    @staticmethod
    def backward(ctx, g):
        u, = ctx.saved_tensors
        return g * 3 * u ** 2
class Routed(T.autograd.Function):
    """Several arguments of several kinds, one result, gradients by need."""
    @staticmethod
    def forward(ctx, u, w, k, how="mul", rest=()):
        ctx.k, ctx.how = k, how
        ctx.save_for_backward(u, w)
        return u * w * k if how == "mul" else u + w * k
    @staticmethod
    def backward(ctx, g):
        u, w = ctx.saved_tensors
        a = b = None
        if ctx.needs_input_grad[0]: a = g * w * ctx.k if ctx.how == "mul" else g
        if ctx.needs_input_grad[1]: b = g * u * ctx.k if ctx.how == "mul" else g * ctx.k
        return a, b, None, None, None
class Stage(nn.Module):
    """State made on the first call, a buffer, hooks by hand, a parameter that is shared."""
    def __init__(self, shared=None):
        super().__init__()
        self.w = nn.Parameter(T.ones(3)) if shared is None else shared
        self.register_buffer("mean", T.zeros(3), persistent=False)
        self.lazy = None
        self.log = []
    @property
    def norm(self): return self.w.norm()
    def extra_repr(self): return f"lazy={self.lazy is not None}"
    def forward(self, z, *, gain=1.0):
        if self.lazy is None: self.lazy = z.detach().mean(0)
        self.mean.mul_(0.9).add_(z.detach().mean(0), alpha=0.1)
        self.log.append(z.shape[0])
        return (z - self.lazy) * self.w * gain
class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.one = Stage()
        self.two = Stage(self.one.w)
        self.stages = nn.ModuleDict({"a": self.one, "b": self.two})
    def __getattr__(self, name):
        if name == "alias": return self.one
        return super().__getattr__(name)
    def forward(self, z, which=None):
        for name, m in self.stages.items():
            if which is None or name == which: z = m(z)
        return z
TIED = Tied()
'''
HEAD_CODE = compile(HEAD, "<fuzz wide>", "exec", dont_inherit=True)
NETS = """
nn.Conv1d(3, 3, 1)
nn.Conv1d(3, 3, 2, padding=1)
nn.GRU(3, 3, batch_first=True)
nn.LSTM(3, 3, batch_first=True)
nn.RNN(3, 3, batch_first=True, nonlinearity='relu')
nn.MultiheadAttention(3, 1, batch_first=True)
nn.TransformerEncoderLayer(3, 1, 4, 0.1, batch_first=True)
nn.BatchNorm1d(3, momentum=None)
nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.Dropout(0.2), nn.Linear(4, 3))
nn.Bilinear(3, 3, 3)
nn.GRUCell(3, 3)
nn.PReLU(3)
nn.RMSNorm(3)
nn.utils.parametrizations.weight_norm(nn.Linear(3, 3))
""".strip().splitlines()


def run(net: Any, w: Any, z: Any) -> Any:
    """A module of `NETS` on (2, m, 3) and (m, 3)."""
    name = type(net).__name__
    if name == "Conv1d":
        return net(w.transpose(1, 2))
    if name in ("GRU", "LSTM", "RNN"):
        return net(w)[0]
    if name == "MultiheadAttention":
        return net(w, w, w)[0]
    if name in ("Bilinear", "GRUCell"):
        return net(z, z * 2)
    return net(w) if name in ("TransformerEncoderLayer", "RMSNorm") else net(z)


NAMES["run_net"] = run


def state(ns: dict[str, Any], text: str) -> None:
    """Run `HEAD` in a namespace, and make the modules and optimizers that the program names."""
    exec(HEAD_CODE, ns)
    if "NET2" in text:
        T.manual_seed(13)
        ns["NET2"] = eval(NETS[len(text) % len(NETS)], ns)
    if "OPT2" in text:
        makes = (T.optim.RMSprop, T.optim.Adagrad, T.optim.NAdam, T.optim.Adamax, T.optim.RAdam, T.optim.SGD)
        make = makes[len(text) % len(makes)]
        ns["OPT2"] = make([ns["GP"]], lr=0.05, **({} if make is T.optim.SGD else {"eps": 1e-2}))
        ns["SCHED2"] = T.optim.lr_scheduler.ExponentialLR(ns["OPT2"], 0.5)


def seen(ns: dict[str, Any], of: Any) -> list[Any]:
    """What a caller can see of that state; ``of`` views a value."""
    tied = ns["TIED"]
    out = [of(ns[k]) for k in ("GK", "GNONE", "GP", "GS", "TIED")]
    out += [of(getattr(m, k, None)) for m in (tied.one, tied.two) for k in ("lazy", "log", "mean")]
    out += [ns["counted"].calls, of(ns["defaulted"].__defaults__), ns["Made"].made, ns["Abstract"].factor]
    out += [of(ns["NET2"])] if "NET2" in ns else []
    return out + ([of(ns["OPT2"].state_dict()), of(ns["SCHED2"].get_last_lr())] if "OPT2" in ns else [])
