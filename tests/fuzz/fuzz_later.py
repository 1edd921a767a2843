"""Statements about what lives from one call to the next; programs of seeds from `FIRST` on have these as well.

States that are dataclasses, optimizers whose groups change midway, schedulers, generators that are kept, `finally` with
breaks, closures that two compiled functions share, tensors kept on classes and in globals, changes in place of views
from earlier calls, compiled functions in compiled functions, hooks that come and go, modules that are copied midway,
gradients of lists of earlier results.
"""

# ruff: noqa: E501

from __future__ import annotations

import re
from typing import Any

from fuzz_templates import templates as _lines

import fusegrad as T

FIRST = 13_000_000

HEAD = """
@dataclasses.dataclass
class TrainState:
    net: object
    step: int = 0
    best: float = float("inf")
    ema: object = None
    log: list = dataclasses.field(default_factory=list)
    def advance(self, loss):
        self.step += 1
        if loss < self.best: self.best = loss
        return dataclasses.replace(self, log=[*self.log, self.step])
@dataclasses.dataclass(frozen=True)
class Carry:
    h: object
    k: int = 0
    def next(self, h): return Carry(h, self.k + 1)
class Box:
    kept, views, count = None, [], 0
    def __init__(self): self.own = None
    def keep(self, u):
        Box.count += 1
        self.own, Box.kept = u.detach().clone(), u.detach() * 2
        return self.own
def shared_pair():
    total, weight = 0, T.ones(3)
    @COMPILE
    def add(u, by=1):
        nonlocal total
        total += by
        weight.mul_(1.1)
        return u * total
    @COMPILE
    def read(u):
        return u + total + weight.sum()
    return add, read
def running():
    total = 0.0
    try:
        while True:
            u = yield total
            if u is None: continue
            total = total * 0.5 + u
    finally:
        LLOG.append("closed")
def ticks(n):
    for k in range(n):
        LLOG.append(k)
        yield k + 1
def recorded(grad):
    LLOG.append(tuple(grad.shape))
def doubling(grad): return grad * 2
@COMPILE
def later_inner(u, k): return u.sin() * k + LSTATE.step
@COMPILE
def later_outer(u):
    v = later_inner(u, 2)
    LSTATE.step += 1
    return later_inner(v, LSTATE.step)
@COMPILE
def later_step(net, opt, z):
    opt.zero_grad()
    loss = net(z).pow(2).mean()
    loss.backward()
    opt.step()
    return loss.detach()
@COMPILE
def later_views(buf, k):
    row = buf[k]
    Box.views.append(row)
    return row * 2
T.manual_seed(31)
LLOG = []
LNET = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3))
LOPT = T.optim.SGD(LNET[0].parameters(), lr=0.1, momentum=0.5)
LSCHED = T.optim.lr_scheduler.ExponentialLR(LOPT, 0.8)
LSTATE = TrainState(LNET)
LCARRY = [Carry(T.zeros(3))]
LBUF = T.zeros(4, 3)
LBOX = Box()
LADD, LREAD = shared_pair()
LGEN = running()
next(LGEN)
LHOOKS, LPAST, LCACHE = [], [], {}
LWEIGHT = T.tensor([1.0, -0.5, 2.0], requires_grad=True)
LFUNCS = {"a": lambda u: u * 2, "b": lambda u: u + 1}
"""
HEAD_CODE = compile(HEAD, "<fuzz later>", "exec", dont_inherit=True)
USED = re.compile(r"\b(L[A-Z]{2,}|Box|later_\w+|TrainState|Carry|shared_pair|running|ticks)\b")

STATEMENTS: dict[str, list[str]] = {
    "states": _lines("""
        w: LSTATE.step += 1 ;; <v> = z * LSTATE.step ;; LSTATE.ema = <v>.detach().mean(0) if LSTATE.ema is None else LSTATE.ema * 0.5 + <v>.detach().mean(0)
        t: <v>s = LSTATE.advance(<t>.detach().sum().item()) ;; <v> = <t> * <v>s.step + len(<v>s.log)
        t: <v>s = dataclasses.replace(LSTATE, step=<n>) ;; <v> = <t> * <v>s.step
        t: log.append(LSTATE.step) ;; LSTATE.log.append(<n>) ;; <v> = <t> + len(LSTATE.log)
        w: LCARRY[0] = LCARRY[0].next(LCARRY[0].h * 0.5 + z.detach().sum(0)) ;; <v> = LCARRY[0].h * LCARRY[0].k
        w: <v>c = LCARRY[-1] ;; <v> = dataclasses.replace(<v>c, h=<v>c.h + 1).h ;; LCARRY.append(Carry(<v>.detach(), <k>))
        w: <v> = sum(c.h * (c.k + 1) for c in LCARRY) ;; del LCARRY[1:]
        t: <v> = x ;; try: LCARRY[0].k = 3 ;; except dataclasses.FrozenInstanceError as e: log.append(str(e))
        t: log.append((LSTATE.best > 1e9, LSTATE.ema is None)) ;; <v> = <t> * 1
        t: <v>f = dataclasses.asdict(TrainState(None, <n>, <f>)) ;; <v> = <t> * <v>f['step'] + len(<v>f)
        t: LSTATE.best = min(LSTATE.best, float(<n>)) ;; <v> = <t> * (LSTATE.best if LSTATE.best < 100 else 1)
    """),
    "groups that change": _lines("""
        w: if len(LOPT.param_groups) == 1: LOPT.add_param_group({'params': LNET[2].parameters(), 'lr': 0.01}) ;; <v> = later_step(LNET, LOPT, z)
        w: LOPT.param_groups[0]['lr'] *= 0.5 ;; <v> = later_step(LNET, LOPT, z)
        w: LOPT.param_groups[-1]['momentum'] = 0.9 if <c> else 0.0 ;; <v> = later_step(LNET, LOPT, z)
        w: LOPT.param_groups[0]['weight_decay'] = abs(<f>) * 0.01 ;; later_step(LNET, LOPT, z) ;; <v> = LNET(z)
        w: <v> = later_step(LNET, LOPT, z) ;; LSCHED.step() ;; log.append(LSCHED.last_epoch)
        w: later_step(LNET, LOPT, z) ;; LSCHED.step() ;; later_step(LNET, LOPT, z) ;; <v> = LNET[0].weight * LOPT.param_groups[0]['lr']
        w: LNET[0].weight.requires_grad_(not LNET[0].weight.requires_grad) ;; <v> = later_step(LNET, LOPT, z) ;; LNET[0].weight.requires_grad_(True)
        w: <v>s = LOPT.state_dict() ;; later_step(LNET, LOPT, z) ;; LOPT.load_state_dict(<v>s) ;; <v> = LNET(z)
        w: LOPT.state.clear() ;; <v> = later_step(LNET, LOPT, z)
        w: LOPT.zero_grad(set_to_none=<c>) ;; LNET(z).sum().backward() ;; LOPT.step() ;; <v> = LNET[0].bias.grad * 1
        w: LNET(z).sum().backward() ;; <v> = nn.utils.clip_grad_norm_(LNET.parameters(), <k>) ;; LOPT.step()
        w: for g in LOPT.param_groups: g['nesterov'] = g['momentum'] > 0 and <c> ;; <v> = later_step(LNET, LOPT, z)
        w: <v>o = T.optim.Adam([{'params': LNET[0].parameters()}, {'params': LNET[2].parameters(), 'lr': <k> * 0.1}], lr=0.01, eps=1e-2) ;; <v> = later_step(LNET, <v>o, z) + later_step(LNET, <v>o, z)
    """),
    "generators that are kept": _lines("""
        t: <v> = <t> * LGEN.send(<t>.detach().sum())
        t: <v> = <t> + LGEN.send(<k>) ;; next(LGEN)
        t: <v> = <t> * 1 ;; for <v>k in ticks(<k>): ;;     if <v>k > <n>: break ;;     <v> = <v> * <v>k
        t: <v>g = ticks(3) ;; <v> = <t> * next(<v>g) ;; <v>g.close() ;; log.append(len(LLOG))
        t: <v> = <t> + sum(ticks(<k>)) ;; LLOG.clear()
        t: <v>g = running() ;; next(<v>g) ;; <v> = <t> + <v>g.send(<t>.sum()) ;; del <v>g ;; log.append(len(LLOG))
        t: <v>g = (u * k for k, u in enumerate([<t>, <e>], 1)) ;; <v> = next(<v>g) + next(<v>g) ;; log.append(next(<v>g, None))
        t: LCACHE['it'] = iter(ticks(4)) if LCACHE.get('it') is None else LCACHE['it'] ;; <v>k = next(LCACHE['it'], None) ;; <v> = <t> * (<v>k or 1)
        t: <v> = <t> ;; for <v>u in LCACHE.setdefault('left', iter([1, 2, 3])): ;;     <v> = <v> * <v>u ;;     if <c>: break
    """),
    "finally and breaks": _lines("""
        t: <v> = <t> ;; for <v>k in range(<k> + 2): ;;     try: ;;         <v> = <v> + <v>k ;;         if <v>k > <n>: break ;;         if <c>: continue ;;         <v> = <v> * 2 ;;     finally: ;;         log.append(<v>k) ;;         LBUF.add_(1)
        t: <v> = <t> ;; for <v>k in range(3): ;;     try: ;;         if <v>k == 1: raise Stop(<v>k) ;;         <v> = <v> * (<v>k + 1) ;;     except Stop as e: log.append(e.value) ;;     else: <v> = <v> - 1 ;;     finally: <v> = <v> + <t>
        t: <v> = <t> ;; while True: ;;     try: ;;         <v> = <v> * 2 ;;         if <v>.detach().abs().sum() > <k> or LSTATE.step > 3: break ;;         LSTATE.step += 1 ;;     finally: log.append(LSTATE.step)
        t: def <v>f(u): ;;     try: ;;         for k in range(3): ;;             try: ;;                 if k == <n>: return u * k ;;             finally: LLOG.append(k) ;;     finally: LLOG.append('out') ;;     return u ;; <v> = <v>f(<t>) ;; log.append(list(LLOG)) ;; LLOG.clear()
        t: <v> = <t> ;; try: ;;     try: <v> = <v> * 2 ;;     finally: ;;         if <c>: raise Stop(<n>) ;; except Stop as e: <v> = <v> + 1 ;; finally: log.append('done')
        t: <v> = <t> ;; with contextlib.ExitStack() as <v>s: ;;     <v>s.callback(log.append, 'left') ;;     for <v>k in range(<k>): ;;         <v>s.callback(LBUF.add_, <v>k) ;;         <v> = <v> + <v>k ;;         if <c>: break
        t: <v> = <t> ;; for <v>k in range(2): ;;     with contextlib.suppress(Stop): ;;         <v> = <v> * 3 ;;         if <c>: raise Stop(<v>k) ;;         <v> = <v> + 1
    """),
    "shared closures": _lines("""
        t: <v> = LADD(<t>) ;; <v> = LREAD(<v>)
        t: <v> = LREAD(<t>) ;; LADD(<e>, by=<k>) ;; <v> = <v> + LREAD(<t>)
        t: <v>a, <v>r = shared_pair() ;; <v> = <v>a(<t>) + <v>r(<t>)
        t: <v> = <t> ;; for <v>k in range(<k>): <v> = LADD(<v>, <v>k) * 0.1
        t: <v>n = <n> ;; def <v>f(u): ;;     nonlocal_ = <v>n ;;     return u * nonlocal_ ;; <v>n = <v>n + 1 ;; <v> = COMPILE(<v>f)(<t>) + <v>f(<t>)
        t: LFUNCS['a'], LFUNCS['b'] = LFUNCS['b'], LFUNCS['a'] ;; <v> = LFUNCS['a'](<t>)
        t: LFUNCS['c'] = lambda u, k=<n>: u * k ;; <v> = LFUNCS['c'](<t>) + LFUNCS['a'](<e>)
        t: <v> = functools.reduce(lambda u, f: f(u), LFUNCS.values(), <t>)
    """),
    "kept tensors": _lines("""
        t: <v>b = LBOX.own ;; LBOX.keep(<t>) ;; <v> = <t> + (<v>b.sum() if <v>b is not None else 0)
        t: <v> = <t> * (Box.kept.sum() if Box.kept is not None else 1) ;; LBOX.keep(<e>)
        t: if LBOX.own is not None and LBOX.own.shape == <t>.shape: LBOX.own.add_(<t>.detach()) ;; else: LBOX.own = <t>.detach().clone() ;; <v> = <t> + LBOX.own
        t: LPAST.append(<t>.detach() * 2) ;; <v> = <t> + sum(u.sum() for u in LPAST[-3:])
        t: LPAST[:-2] = [] ;; <v> = <t> + len(LPAST) ;; LPAST.append(<t>.detach())
        t: <v> = <t> + LCACHE.setdefault((<t>.shape[0], 'm'), T.ones(<t>.shape[0])) ;; LCACHE[(<t>.shape[0], 'm')].mul_(2)
        t: LCACHE['last'], <v>o = <t>.detach(), LCACHE.get('last') ;; <v> = <t> if <v>o is None or <v>o.shape != <t>.shape else <t> - <v>o
        w: <v> = later_views(LBUF, <k>) ;; Box.views[-1].add_(1)
        w: for <v>r in Box.views: <v>r.mul_(0.5) ;; <v> = LBUF * 2 ;; Box.views.clear()
        w: <v> = LBUF[<k> % 4] ;; <v>.add_(z.detach().sum(0)) ;; LCACHE['row'] = <v> ;; <v> = <v> * 2
        w: <v> = LCACHE.get('row', LBUF[0]) ;; <v>.sub_(1) ;; <v> = <v> + LBUF.sum(0)
        w: <v>u = LBUF.view(-1) ;; <v>u[::3].fill_(<n>) ;; <v> = LBUF.clone() ;; LCACHE['flat'] = <v>u[1:]
        w: if 'flat' in LCACHE: LCACHE['flat'].clamp_(-1, 1) ;; <v> = LBUF + 0
        t: globals()['LKEPT'] = <t>.detach() * <n> ;; <v> = <t> + LKEPT
        t: <v> = <t> + (globals().get('LKEPT', T.zeros(1)).sum())
        t: Box.count, <v>k = Box.count + 1, Box.count ;; <v> = <t> * <v>k
    """),
    "gradients of earlier results": _lines("""
        w: LPAST.append((z * LWEIGHT).sum()) ;; <v>, = T.autograd.grad(LPAST[-1:], [LWEIGHT], allow_unused=True) ;; del LPAST[:]
        w: LCACHE['loss'] = (z * LWEIGHT).pow(2).mean() ;; log.append(T.rand(1).shape) ;; <v> = T.autograd.grad([LCACHE['loss']], LWEIGHT)[0] ;; del LCACHE['loss']
        w: <v>l = [(z * LWEIGHT).sum(), LWEIGHT.sum()] ;; print(len(<v>l)) ;; <v> = sum(T.autograd.grad(<v>l, [LWEIGHT]))
        w: LCACHE['losses'] = LCACHE.get('losses', []) + [(LWEIGHT * <n>).sum()] ;; T.autograd.backward(LCACHE.pop('losses')) ;; <v> = LWEIGHT.grad * 1 ;; LWEIGHT.grad = None
        w: LCACHE['pending'], <v>p = (z * LWEIGHT).exp().mean(), LCACHE.get('pending') ;; <v> = z * 1 ;; if <v>p is not None: <v>p.backward() ;; <v> = LWEIGHT.grad + 1 ;; LWEIGHT.grad = None
        w: LCACHE['graph'] = LCACHE.get('graph', LWEIGHT * 1) * 0.5 ;; <v> = LCACHE['graph'] + z.sum(0)
        w: <v>g = LCACHE.pop('graph', None) ;; <v> = z * 1 ;; if <v>g is not None: <v> = T.autograd.grad(<v>g.sum(), LWEIGHT, retain_graph=True)[0]
        w: <v>t = LWEIGHT.detach().reshape(1, 3).expand(3, 3).t().clone().requires_grad_() ;; <v>, = T.autograd.grad((<v>t.t() * 2).sigmoid().sum(0).sum(), <v>t)
        w: <v>t = z.detach().t().requires_grad_() ;; <v>, = T.autograd.grad((F.gelu(<v>t) * T.ones(<v>t.shape)).sum(), <v>t) ;; log.append(<v>.is_contiguous())
        w: <v>, = T.autograd.grad(LREAD(LWEIGHT).t().sum(), LWEIGHT) ;; log.append(<v>.stride())
    """),
    "nested compiled": _lines("""
        t: <v> = later_outer(<t>)
        t: <v> = later_inner(<t>, <n>) + later_outer(<e>)
        t: <v> = COMPILE(later_outer)(<t>)
        t: <v> = COMPILE(lambda u: later_inner(u, <k>) * later_outer(u))(<t>)
        t: <v>f = COMPILE(lambda u, fn: fn(u) * 2) ;; <v> = <v>f(<t>, later_outer) + <v>f(<t>, LADD)
        w: <v>m = COMPILE(LNET) ;; <v> = <v>m(z) ;; LSTATE.step += 1
        w: LCACHE['net'] = LCACHE.get('net') or COMPILE(LNET) ;; <v> = LCACHE['net'](z) + LNET(z)
        t: LCACHE['fn'] = LCACHE.get('fn') or COMPILE(lambda u: u * LSTATE.step) ;; <v> = LCACHE['fn'](<t>)
        w: <v> = T.func.grad(lambda u: later_outer(u).sum())(<t>)
        t: <v> = x ;; try: <v> = later_inner(<t>, None) ;; except TypeError as e: log.append('no number')
    """),
    "hooks that come and go": _lines("""
        w: LHOOKS.append(LWEIGHT.register_hook(recorded)) ;; (z * LWEIGHT).sum().backward() ;; <v> = LWEIGHT.grad ;; LWEIGHT.grad = None
        w: LHOOKS.append(LWEIGHT.register_hook(doubling)) ;; <v> = z * LWEIGHT
        w: if LHOOKS: LHOOKS.pop().remove() ;; (LWEIGHT * LWEIGHT).sum().backward() ;; <v> = LWEIGHT.grad ;; LWEIGHT.grad = None
        w: LHOOKS.append(LNET[0].register_forward_hook(lambda m, a, o: o * 2)) ;; <v> = LNET(z)
        w: LHOOKS.append(LNET[2].register_forward_pre_hook(lambda m, a: LLOG.append(len(a)))) ;; <v> = LNET(z)
        w: while LHOOKS: LHOOKS.pop(0).remove() ;; <v> = LNET(z) + LWEIGHT ;; LLOG.clear()
        w: <v>h = LNET[1].register_full_backward_hook(lambda m, gi, go: LLOG.append(go[0].shape)) ;; LNET(z).sum().backward() ;; <v>h.remove() ;; LNET.zero_grad() ;; <v> = z * len(LLOG)
        w: <v>h = LWEIGHT.register_post_accumulate_grad_hook(lambda p: (p.grad.mul_(2), None)[1]) ;; (z * LWEIGHT).sum().backward() ;; <v>h.remove() ;; <v> = LWEIGHT.grad ;; LWEIGHT.grad = None
        w: <v>h = T.autograd.graph.register_multi_grad_hook([LWEIGHT, LNET[0].bias], lambda gs: LLOG.append([g is None for g in gs])) ;; (LNET(z) * LWEIGHT).sum().backward() ;; <v>h.remove() ;; <v> = LWEIGHT.grad ;; LWEIGHT.grad = None ;; LNET.zero_grad()
    """),
    "copies midway": _lines("""
        w: <v>n = copy.deepcopy(LNET) ;; <v> = <v>n(z) + LNET(z)
        w: LCACHE['copy'] = copy.deepcopy(LCACHE.get('net') or COMPILE(LNET)) ;; <v> = LCACHE['copy'](z)
        w: if 'copy' in LCACHE: ;;     with T.no_grad(): LCACHE['copy'][0].weight.mul_(0.5) ;; <v> = LCACHE.get('copy', LNET)(z)
        w: <v>n = copy.deepcopy(LNET) ;; <v>n.load_state_dict(LNET.state_dict()) ;; <v> = COMPILE(<v>n)(z)
        w: <v>s = copy.deepcopy(LSTATE) ;; <v>s.step += 5 ;; <v> = <v>s.net(z) * <v>s.step + LSTATE.step
        w: <v>s = {k: u.clone() for k, u in LNET.state_dict().items()} ;; later_step(LNET, LOPT, z) ;; LNET.load_state_dict(<v>s) ;; <v> = LNET(z)
        t: <v>c = copy.copy(LBOX) ;; <v>c.own = <t>.detach() ;; <v> = <t> + (0 if LBOX.own is None else LBOX.own.sum()) + <v>c.own
        w: LNET[0], <v>o = copy.deepcopy(LNET[0]), LNET[0] ;; <v> = LNET(z) ;; LNET[0] = <v>o
        w: <v>n = pickle.loads(pickle.dumps(LNET)) ;; <v> = <v>n(z) - LNET(z)
    """),
}


def state(ns: dict[str, Any]) -> None:
    """Run `HEAD` in a namespace."""
    exec(HEAD_CODE, ns)


def seen(ns: dict[str, Any], of: Any) -> list[Any]:
    """What a caller can see of that state; ``of`` views a value."""
    if "LSTATE" not in ns:
        return []
    past = {str(k): v for k, v in ns["LCACHE"].items() if isinstance(v, T.Tensor)}
    kept = [ns["LSTATE"], ns["LCARRY"], ns["LBUF"], ns["LPAST"], past, ns["LWEIGHT"], ns["Box"].kept, ns["Box"].views]
    out = [of(v) for v in kept] + [of(ns["LNET"]), of(ns["LOPT"].state_dict()), ns["LSCHED"].last_epoch]
    return [*out, list(map(str, ns["LLOG"])), ns["Box"].count, len(ns["LHOOKS"]), ns["LGEN"].gi_frame is None]


def inner(ns: dict[str, Any]) -> list[Any]:
    """Parameters and optimizer state: how often layers and optimizers change them is their matter."""
    if "LSTATE" not in ns:
        return []
    found = [*ns["LNET"].parameters()]
    return found + [v for s in ns["LOPT"].state.values() for v in s.values() if isinstance(v, T.Tensor)]
