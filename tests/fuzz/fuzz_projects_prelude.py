"""What the programs of fuzz_projects.py use: `HEAD` is run once for each run of a program (its classes have state)."""

from __future__ import annotations

import contextvars
import re
import weakref
from typing import Any

import fusegrad as T
from fusegrad import nn

NAMES: dict[str, Any] = {"contextvars": contextvars}

HEAD = '''
@dataclasses.dataclass
class Config:
    width: int = 3
    rate: float = 0.1
    act: str = "tanh"
    tags: list = dataclasses.field(default_factory=list)
    def __post_init__(self): self.scale = self.width ** -0.5
    @property
    def fn(self): return getattr(T, self.act)
    def but(self, **kw): return dataclasses.replace(self, **kw)
@dataclasses.dataclass(frozen=True)
class Batch:
    u: object
    w: object
    ids: tuple = ()
    size: int = dataclasses.field(init=False, default=0)
    def __post_init__(self): object.__setattr__(self, "size", len(self.u))
    def __len__(self): return self.size
    def __iter__(self): return iter((self.u, self.w))
    def map(self, fn): return Batch(fn(self.u), fn(self.w), self.ids)
    @classmethod
    def of(cls, *rows): return cls(T.cat(rows), T.stack([r.sum() for r in rows]), tuple(range(len(rows))))
class Metrics:
    """Running sums, a history, text of them."""
    def __init__(self): self.reset()
    def reset(self): self.sums, self.n, self.history = collections.defaultdict(float), 0, collections.defaultdict(list)
    def update(self, **kw):
        self.n += 1
        for k, v in kw.items():
            v = v.detach() if isinstance(v, T.Tensor) else v
            self.sums[k] = self.sums[k] + v
            self.history[k].append(float(v))
        return self
    def compute(self): return {k: v / max(self.n, 1) for k, v in self.sums.items()}
    def __str__(self): return " ".join(f"{k}={float(v):.3f}" for k, v in sorted(self.compute().items()))
    def __format__(self, spec): return str(self) if not spec else f"{str(self):{spec}}"
class Store:
    """A cache of rows that is written in place, as for keys and values."""
    def __init__(self, size=6): self.rows, self.at, self.size = T.zeros(size, 3), 0, size
    def add(self, rows):
        n = min(len(rows), self.size - self.at)
        self.rows[self.at : self.at + n] = rows[:n].detach()
        self.at += n
        return self.rows[: self.at]
    def ring(self, row):
        self.rows[self.at % self.size].copy_(row)
        self.at += 1
        return self.rows.roll(-(self.at % self.size), 0)
    def clear(self): self.rows.zero_(); self.at = 0
class EarlyStop(Exception):
    def __init__(self, step, loss): super().__init__(f"stopped at {step}"); self.step, self.loss = step, loss
class Attend(nn.Module):
    """Causal attention with a mask buffer, a cache on request, kept activations."""
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(3, 9), nn.Linear(3, 3)
        self.register_buffer("mask", T.tril(T.ones(8, 8)).bool())
        self.register_buffer("count", T.zeros((), dtype=T.long))
        self.kept, self.past = {}, None
        self.drop = nn.Dropout(0.2)
    def forward(self, z, past=None, use_cache=False):
        q, k, v = self.qkv(z).chunk(3, -1)
        if past is not None: k, v = T.cat([past[0], k]), T.cat([past[1], v])
        n, m = len(z), len(k)
        a = (q @ k.t()) * 3 ** -0.5
        a = a.masked_fill(~self.mask[m - n : m, :m], float("-inf"))
        a = self.drop(a.softmax(-1))
        self.count += 1
        self.kept["a"] = a.detach()
        out = self.out(a @ v)
        return (out, (k, v)) if use_cache else out
class Gauss(nn.Module):
    """Encodes, draws, decodes."""
    def __init__(self):
        super().__init__()
        self.enc, self.dec = nn.Linear(3, 4), nn.Linear(2, 3)
    def forward(self, z):
        mu, logvar = self.enc(z).chunk(2, dim=1)
        std = (0.5 * logvar).exp()
        h = mu + std * T.randn_like(std) if self.training else mu
        kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1).mean()
        return self.dec(h), kl
class Running(nn.Module):
    """Statistics that forward changes in place, under no_grad, and by assignment."""
    def __init__(self, momentum=0.1):
        super().__init__()
        self.momentum = momentum
        self.register_buffer("mean", T.zeros(3))
        self.register_buffer("steps", T.tensor(0))
        self.register_buffer("hist", None)
        self.gain = nn.Parameter(T.ones(3))
    @T.no_grad()
    def follow(self, z):
        self.mean.lerp_(z.mean(0), self.momentum)
        self.steps += 1
        self.hist = z.mean(0) if self.hist is None else 0.5 * self.hist + 0.5 * z.mean(0)
    def forward(self, z):
        if self.training and len(z) > 0: self.follow(z)
        return (z - self.mean) * self.gain
class Trainer:
    def __init__(self, net, opt, callbacks=()):
        self.net, self.opt, self.callbacks = net, opt, list(callbacks)
        self.step_count, self.best, self.history = 0, None, []
    def loss(self, z): return self.net(z).pow(2).mean()
    def step(self, z, clip=None, every=1):
        loss = self.loss(z) / every
        loss.backward()
        self.step_count += 1
        if clip is not None: nn.utils.clip_grad_value_(self.net.parameters(), clip)
        if self.step_count % every == 0:
            self.opt.step()
            self.opt.zero_grad()
        for c in self.callbacks: c(self, loss.detach())
        return loss.detach()
    def fit(self, data, most=4):
        for k, z in enumerate(data):
            loss = self.step(z)
            if self.best is None or loss < self.best: self.best = loss
            if k >= most: raise EarlyStop(k, loss)
            yield loss
    @T.no_grad()
    def evaluate(self, z):
        was = self.net.training
        self.net.eval()
        try: return self.net(z).abs().mean()
        finally: self.net.train(was)
class Record:
    def __init__(self): self.losses, self.names = [], set()
    def __call__(self, trainer, loss): self.losses.append(loss); self.names.add(type(trainer.net).__name__)
T.manual_seed(19)
ATT, VAE, RUN, TEACH = Attend(), Gauss(), Running(), nn.Linear(3, 3)
STORE, METRICS, RECORD = Store(), Metrics(), Record()
TRAINER = Trainer(nn.Sequential(nn.Linear(3, 3), nn.Tanh(), RUN), None, [RECORD])
TRAINER.opt = T.optim.SGD(TRAINER.net.parameters(), lr=0.05, momentum=0.5)
CFG = Config()
LEVEL = contextvars.ContextVar("level", default=1)
PLUGINS = {}
def plugin(name):
    def deco(fn): PLUGINS[name] = fn; return fn
    return deco
@plugin("twice")
def twice_(u, k=2): return u * k
@plugin("shift")
def shift_(u, by=1.0): return u + by
@functools.lru_cache(maxsize=4)
def table(n): return T.arange(float(n)) * 0.5
def batches(z, size=2):
    for i in range(0, len(z), size): yield z[i : i + size]
def loader(z, log):
    try:
        for k, b in enumerate(batches(z)):
            log.append(("batch", k, len(b)))
            yield b
    finally: log.append("done")
@T.no_grad()
def frozen_mean(u): return u.mean() + 1
@T.enable_grad()
def with_grad(u): return u * 2
@T.inference_mode()
def inferred(u): return u * 3
@T.set_grad_enabled(False)
def without(u): return u * 4
class Heaviside(T.autograd.Function):
    """A step with a smooth derivative; keeps numbers on ctx."""
    @staticmethod
    def forward(ctx, u, width):
        ctx.save_for_backward(u)
        ctx.width = width
        ctx.calls = getattr(ctx, "calls", 0) + 1
        return (u > 0).to(u.dtype)
    @staticmethod
    def backward(ctx, g):
        u, = ctx.saved_tensors
        return g / (1 + (u * ctx.width).abs()) ** 2, None
class Split(T.autograd.Function):
    """Two results; grads that don't come are None."""
    @staticmethod
    def forward(ctx, u, w):
        ctx.set_materialize_grads(False)
        ctx.shape = u.shape
        return u * 2, w + 1
    @staticmethod
    def backward(ctx, g, h):
        return (None if g is None else g * 2), (None if h is None else h * 3)
class Logged(T.autograd.Function):
    """Says when its backward runs."""
    @staticmethod
    def forward(ctx, u, log):
        ctx.log = log
        return u.view_as(u)
    @staticmethod
    def backward(ctx, g):
        ctx.log.append("backward")
        return -g, None
def penalty(fn, z):
    z = z.detach().requires_grad_()
    g, = T.autograd.grad(fn(z).sum(), z, create_graph=True)
    return ((g.norm(dim=-1) - 1) ** 2).mean()
def adapted(p, z, steps=2, lr=0.1):
    for _ in range(steps):
        loss = (z @ p - 1).pow(2).mean()
        g, = T.autograd.grad(loss, p, create_graph=True)
        p = p - lr * g
    return p
def greedy(z, steps, log):
    out = []
    for k in range(steps):
        i = int(z[k % len(z)].argmax())
        out.append(i)
        if i == 0: break
        z = z.roll(1, 1)
    else: log.append("full")
    return out
def beam(z, width=2):
    beams = [((), 0.0)]
    for row in z.log_softmax(-1):
        all_ = [(ids + (i,), score + row[i].item()) for ids, score in beams for i in range(3)]
        beams = sorted(all_, key=lambda b: -b[1])[:width]
    return beams[0]
def padded(rows, to=4):
    n = max((len(r) for r in rows), default=0)
    n += -n % to
    return T.stack([F.pad(r, (0, n - len(r))) for r in rows]) if rows else T.zeros(0, n)
class Node:
    """A tree of tensors with parents by weak reference."""
    def __init__(self, v, *children):
        self.v, self.children, self.parent = v, list(children), None
        for c in children: c.parent = weakref.ref(self)
    def total(self): return self.v + sum(c.total() for c in self.children)
    def walk(self):
        yield self
        for c in self.children: yield from c.walk()
    def depth(self): return 1 + max((c.depth() for c in self.children), default=0)
class Pipe:
    def __init__(self, *steps): self.steps = steps
    def __or__(self, o): return Pipe(*self.steps, o)
    def __call__(self, u): return functools.reduce(lambda v, f: f(v), self.steps, u)
    def __len__(self): return len(self.steps)
    def __getitem__(self, k): return Pipe(*self.steps[k]) if isinstance(k, slice) else self.steps[k]
class Once:
    """Computes at the first reading."""
    def __init__(self, fn): self.fn, self.name = fn, fn.__name__
    def __get__(self, o, owner=None):
        if o is None: return self
        v = o.__dict__[self.name] = self.fn(o)
        return v
class Data:
    made = 0
    def __init__(self, z): self.z = z
    @Once
    def mean(self): Data.made += 1; return self.z.mean(0)
    @functools.cached_property
    def centred(self): return self.z - self.mean
    def __getitem__(self, k): return self.z[k], k
    def __len__(self): return len(self.z)
'''
HEAD_CODE = compile(HEAD, "<fuzz projects>", "exec", dont_inherit=True)
MADE = re.findall(r"^(?:class |def |)(\w+)(?=[(:, ])", HEAD, flags=re.M)
USED = re.compile(
    rf"\b({'|'.join(sorted({*MADE, 'VAE', 'RUN', 'TEACH', 'METRICS', 'RECORD'} - {'T', 'def', 'class'}))})\b"
)
OBJECTS = ("ATT", "VAE", "RUN", "TEACH")


def state(ns: dict[str, Any]) -> None:
    """Run `HEAD` in a namespace."""
    ns["weakref"] = weakref
    exec(HEAD_CODE, ns)


def seen(ns: dict[str, Any], of: Any) -> list[Any]:
    """What a caller can see of that state; ``of`` views a value."""
    if "TRAINER" not in ns:
        return []
    out = [of(ns[k]) for k in OBJECTS]
    out += [of(ns["ATT"].kept), of(ns["ATT"].past), of(ns["RUN"].hist), of(vars(ns["STORE"])), of(vars(ns["CFG"]))]
    metrics, trainer = ns["METRICS"], ns["TRAINER"]
    out += [of(dict(metrics.sums)), metrics.n, of(dict(metrics.history)), sorted(ns["PLUGINS"])]
    out += [of(trainer.net), of(trainer.opt.state_dict()), trainer.step_count, of(trainer.best), of(trainer.history)]
    out += [of(ns["RECORD"].losses), sorted(ns["RECORD"].names), ns["LEVEL"].get(), ns["Data"].made]
    return [*out, list(ns["table"].cache_info())]


def inner(ns: dict[str, Any]) -> list[Any]:
    """Buffers, parameters and optimizer state: how often layers and optimizers change them is their matter."""
    if "TRAINER" not in ns:
        return []
    nets = [*(ns[k] for k in OBJECTS), ns["TRAINER"].net]
    found = [t for net in nets if isinstance(net, nn.Module) for t in (*net.parameters(), *net.buffers())]
    states = ns["TRAINER"].opt.state.values()
    return found + [v for state in states for v in state.values() if isinstance(v, T.Tensor)]
