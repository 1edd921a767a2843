"""What the programs of fuzz_callers.py use: `HEAD` is run once for each run of a program (its classes have state)."""

from __future__ import annotations

import gc
import pickle
import re
import threading
from typing import Any

import fusegrad as T
from fusegrad import nn
from fusegrad.nn.utils import parametrize

NAMES: dict[str, Any] = {"gc": gc, "pickle": pickle, "threading": threading, "parametrize": parametrize}

HEAD = '''
class Scaled(T.autograd.Function):
    """Attributes of ctx of many kinds, arguments that are no tensors, a result that is none."""
    @staticmethod
    def forward(ctx, u, opts, *rest):
        ctx.opts, ctx.names, ctx.extra = opts, sorted(opts), len(rest)
        ctx.factor = opts.get("k", 1) + sum(r for r in rest if not isinstance(r, T.Tensor))
        ctx.shape, ctx.kind = tuple(u.shape), u.dtype
        ctx.side = u.detach() * 0.5
        return u * ctx.factor, ctx.names
    @staticmethod
    def backward(ctx, g, _):
        assert ctx.shape == tuple(g.shape) and ctx.kind == g.dtype
        return (g * ctx.factor + ctx.side, None) + (None,) * ctx.extra
class OwnMap(T.autograd.Function):
    """Says itself how it is mapped and pushed forward."""
    @staticmethod
    def forward(u, k): return u.exp() * k
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)
        ctx.save_for_forward(output)
        ctx.k = inputs[1]
    @staticmethod
    def backward(ctx, g): return g * ctx.saved_tensors[0], None
    @staticmethod
    def jvp(ctx, t, _): return t * ctx.saved_tensors[0]
    @staticmethod
    def vmap(info, in_dims, u, k): return OwnMap.apply(u, k), in_dims[0]
class ByRule(T.autograd.Function):
    generate_vmap_rule = True
    @staticmethod
    def forward(u, w): return u * w.sin()
    @staticmethod
    def setup_context(ctx, inputs, output): ctx.save_for_backward(*inputs)
    @staticmethod
    def backward(ctx, g):
        u, w = ctx.saved_tensors
        return g * w.sin(), g * u * w.cos()
class Once(T.autograd.Function):
    """Keeps what it computed, can be differentiated once."""
    @staticmethod
    def forward(ctx, u):
        e = u.clamp(max=3).exp()
        ctx.save_for_backward(e, u)
        ctx.set_materialize_grads(False)
        return e
    @staticmethod
    @T.autograd.function.once_differentiable
    def backward(ctx, g):
        if g is None: return None
        e, u = ctx.saved_tensors
        return g * e * (u < 3)
class Counted(T.autograd.Function):
    """State on the class; forward and backward change it; calls compiled code on both ways."""
    runs = 0
    @staticmethod
    def forward(ctx, u, meter):
        Counted.runs += 1
        ctx.meter = meter
        meter.append(("forward", Counted.runs))
        return six_part(u) * 2
    @staticmethod
    def backward(ctx, g):
        Counted.runs += 10
        ctx.meter.append(("backward", Counted.runs, tuple(g.shape)))
        return six_part(g), None
class Passing(T.autograd.Function):
    """Gives one of its arguments back, and a view of the other."""
    @staticmethod
    def forward(ctx, u, w):
        ctx.save_for_backward(w)
        return u, w.view(-1)
    @staticmethod
    def backward(ctx, g, h):
        w, = ctx.saved_tensors
        return g * 2, h.view_as(w) + g.sum()
class Dirty(T.autograd.Function):
    @staticmethod
    def forward(ctx, u, by):
        ctx.mark_dirty(u)
        ctx.by = by
        u.add_(by)
        return u, u.sum()
    @staticmethod
    def backward(ctx, g, h): return g + h * ctx.by, None
class Failing(T.autograd.Function):
    @staticmethod
    def forward(ctx, u, when):
        if when == "forward": raise Stop("forward")
        ctx.when = when
        return u * 3
    @staticmethod
    def backward(ctx, g):
        if ctx.when == "backward": raise Stop("backward")
        return (g * 3, None) if ctx.when != "too many" else (g, None, None)
@COMPILE
def six_part(u): return u * SIX_K + 1
@COMPILE
def six_step(net, z, opt=None):
    loss = net(z).pow(2).mean()
    if opt is not None:
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.detach()
@COMPILE
def six_energy(u, w=None):
    e = (u.sin() * u).sum()
    return e if w is None else e + (u * w).sum()
@COMPILE
def six_change(u, k=0):
    v = u.view(-1)
    v[k:].mul_(2)
    return v
SIX_K = 2
class Positive(nn.Module):
    def forward(self, w): return F.softplus(w)
class Symmetric(nn.Module):
    def forward(self, w): return w.triu() + w.triu(1).t()
    def right_inverse(self, w): return w.triu()
class Scale(nn.Module):
    """A parametrization with a parameter and a buffer."""
    def __init__(self):
        super().__init__()
        self.by = nn.Parameter(T.full((3, 1), 0.5))
        self.register_buffer("uses", T.zeros(()))
    def forward(self, w):
        self.uses += 1
        return w * self.by
class Deep(nn.Module):
    """Parametrized, tied, recurrent; heads in dicts; hooks that count."""
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(5, 3)
        self.cell, self.rnn = nn.LSTMCell(3, 3), nn.GRU(3, 3, batch_first=True)
        self.enc, self.head = nn.Linear(3, 3), nn.Linear(3, 5, bias=False)
        self.head.weight = self.emb.weight
        self.heads = nn.ParameterDict({"a": nn.Parameter(T.ones(3)), "b": nn.Parameter(T.zeros(3))})
        self.register_parameter("none", None)
        self.order, self.seen = ["enc", "cell"], collections.Counter()
    def roll(self, z, steps=None):
        h = c = z.new_zeros(1, 3)
        out = []
        for k, r in enumerate(z):
            if steps is not None and k >= steps: break
            h, c = self.cell(r[None], (h, c))
            out.append(h)
        return T.cat(out) if out else z[:0]
    def forward(self, z, which="a"):
        self.seen[which] += 1
        for name in self.order: z = self.roll(z) if name == "cell" else getattr(self, name)(z)
        return z * self.heads[which]
def groups(net, make, **kw):
    decay = [p for n, p in net.named_parameters() if n.endswith("weight")]
    rest = [p for n, p in net.named_parameters() if not n.endswith("weight")]
    return make([{"params": decay, "weight_decay": 0.1}, {"params": rest, "lr": 0.01}], lr=0.05, **kw)
class Config6(typing.NamedTuple):
    rate: float = 0.5
    names: tuple = ()
    bias: object = None
    def scaled(self, u): return u * self.rate + (0 if self.bias is None else self.bias)
@dataclasses.dataclass
class Setting:
    rate: object
    kind: Color = Color.RED
    layers: list = dataclasses.field(default_factory=list)
    mask: object = None
    def __call__(self, u):
        self.layers.append(len(self.layers))
        return u * self.rate
class Shape:
    __match_args__ = ("u", "k")
    def __init__(self, u, k=1): self.u, self.k = u, k
class Square(Shape): pass
class Circle(Shape):
    __match_args__ = ("u",)
def area(s):
    match s:
        case Square(u, k) if k > 1: return u * u * k
        case Square(u): return u * u
        case Circle(u=T.Tensor() as v): return v * 3.14
        case [Shape() as one, *others]: return area(one) + sum(area(o) for o in others)
        case {"u": u, **rest}: return u * len(rest)
        case int() | float() as k: return T.full((1,), float(k))
        case _: return T.zeros(1)
def repeated(times, then=None, *, log=None):
    """A decorator with arguments."""
    def deco(fn):
        @functools.wraps(fn)
        def inner(u, *a, **kw):
            for k in range(times): u = fn(u, *a, **kw)
            if log is not None: log.append((fn.__name__, times))
            return u if then is None else then(u)
        inner.times = times
        return inner
    return deco
def retried(times, kinds=(ValueError,)):
    def deco(fn):
        def inner(*a, **kw):
            for k in range(times):
                try: return fn(*a, **kw, attempt=k)
                except kinds as e: last = e
            raise RuntimeError("gave up") from last
        return inner
    return deco
class Guarded:
    """A manager that undoes a change of a tensor, and may be entered again."""
    def __init__(self, t): self.t, self.before = t, []
    def __enter__(self):
        self.before.append(self.t.detach().clone())
        return self.t
    def __exit__(self, kind, value, tb):
        with T.no_grad(): self.t.copy_(self.before.pop())
        return kind is Stop
def worker(fn, *args):
    """Runs in a thread; its value, or its error here."""
    out = []
    def run():
        try: out.append((fn(*args), None))
        except Exception as e: out.append((None, e))
    t = threading.Thread(target=run)
    t.start(); t.join()
    if out[0][1] is not None: raise out[0][1]
    return out[0][0]
def streamed(u, log):
    """Is sent factors, is thrown errors; says how it ended."""
    total = u * 0
    try:
        while True:
            try: k = yield total
            except KeyError as e: k = len(e.args)
            if k is None: return total * 2
            total = total + u * k
    finally: log.append("streamed")
def packed(log, how):
    """Functions for saved tensors hooks."""
    if how == 0: return (lambda t: t.detach().numpy().copy()), T.from_numpy
    if how == 1: return (lambda t: (t.shape, t.detach().clone())), (lambda p: p[1].view(p[0]))
    return (lambda t: t), (lambda t: t)
def total(out):
    """A number of everything in a result that can be differentiated."""
    if isinstance(out, T.Tensor): return out.sum() if out.dtype == T.float32 else 0
    if isinstance(out, (tuple, list)): return sum((total(o) for o in out), T.zeros(()))
    return 0
T.manual_seed(23)
DEEP = Deep()
PARAM = nn.Linear(3, 3)
parametrize.register_parametrization(PARAM, "weight", Scale())
STACK = [nn.Linear(3, 2) for _ in range(3)]
DOPT = groups(DEEP, T.optim.AdamW, eps=1e-2)
DSCHED = T.optim.lr_scheduler.LambdaLR(DOPT, [lambda k: 0.5 ** k, lambda k: 1 / (k + 1)])
LEAF = T.tensor([0.5, -1.0, 2.0], requires_grad=True)
BUF = T.zeros(4, 3)
SGEN = T.Generator().manual_seed(29)
NPBUF = np.arange(6, dtype="f4").reshape(2, 3)
'''
HEAD_CODE = compile(HEAD, "<fuzz callers>", "exec", dont_inherit=True)
MADE = re.findall(r"^(?:class |def |)(\w+)(?=[(:, ])", HEAD, flags=re.M)
USED = re.compile(rf"\b({'|'.join(sorted({*MADE} - {'T', 'def', 'class', 'parametrize'}))})\b")
NETS = ("DEEP", "PARAM")


def state(ns: dict[str, Any]) -> None:
    """Run `HEAD` in a namespace."""
    exec(HEAD_CODE, ns)


def seen(ns: dict[str, Any], of: Any) -> list[Any]:
    """What a caller can see of that state; ``of`` views a value."""
    if "DEEP" not in ns:
        return []
    out = [of(ns[k]) for k in (*NETS, "LEAF", "BUF", "SIX_K", "STACK")]
    out += [of(ns["DOPT"].state_dict()), of(ns["DSCHED"].get_last_lr()), ns["DSCHED"].last_epoch, ns["Counted"].runs]
    out += [ns["DEEP"].order, sorted(ns["DEEP"].seen.items()), ns["NPBUF"].copy()]
    return [*out, ns["SGEN"].get_state().numpy().copy(), T.are_deterministic_algorithms_enabled()]


def inner(ns: dict[str, Any]) -> list[Any]:
    """Parameters, buffers and optimizer state: how often layers and optimizers change them is their matter."""
    if "DEEP" not in ns:
        return []
    nets = [*(ns[k] for k in NETS), *ns["STACK"], *ns.get("_nets", {}).values()]
    nets = [m for m in nets if isinstance(m, nn.Module)]
    found = [t for net in nets for t in (*net.parameters(), *net.buffers())]
    return found + [v for s in ns["DOPT"].state.values() for v in s.values() if isinstance(v, T.Tensor)]
