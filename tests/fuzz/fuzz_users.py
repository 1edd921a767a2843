"""Statements as users' programs have them; programs of seeds from `FIRST` on have these as well.

Compiled functions that call and share state with each other, training loops (frozen parts, tied weights, groups,
accumulation, clipping, averages), caches of tensors on objects, views that are passed and changed, tensors as defaults,
the default dtype changed by a manager, memory shared with numpy, generators, exceptions in the middle of changes.
"""

# ruff: noqa: E501

from __future__ import annotations

import re
from typing import Any

from fuzz_templates import templates as _lines

FIRST = 9_000_000

HEAD = '''
SHARED = {"n": 0, "last": None, "seen": []}
UBUF = np.zeros(6, "f4")
UGEN = T.Generator().manual_seed(3)
@COMPILE
def inner_step(u, k=1):
    SHARED["n"] += k
    SHARED["last"] = u.detach() * 2
    return u * SHARED["n"]
@COMPILE
def outer_step(u):
    v = inner_step(u)
    SHARED["seen"].append(v.shape[0])
    return v + (SHARED["last"] if SHARED["last"] is not None and SHARED["last"].shape == u.shape else 0)
@COMPILE
def in_place_step(u, w):
    u.add_(w)
    return u[:1]
@COMPILE
def failing_step(u, at):
    SHARED["n"] += 1
    u.mul_(2)
    if at > 0: raise ValueError(f"at {at}")
    SHARED["seen"].append("end")
    return u
def with_default(u, w=T.ones(1), seen=[]):
    seen.append(len(seen))
    w.mul_(1.5)
    return u * w + len(seen)
@contextlib.contextmanager
def default_dtype(kind):
    before = T.get_default_dtype()
    T.set_default_dtype(kind)
    try: yield
    finally: T.set_default_dtype(before)
class Cached(nn.Module):
    """Keeps masks by size, averages of its weights, and the last input."""
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(3, 3), nn.Linear(3, 3)
        self.two.weight = self.one.weight
        self.register_buffer("average", T.zeros(3, 3))
        self.masks, self.kept = {}, None
        self.steps = 0
    def mask(self, n):
        if n not in self.masks: self.masks[n] = T.tril(T.ones(n, n))
        return self.masks[n]
    def forward(self, z):
        self.kept = z.detach()
        self.steps += 1
        return self.mask(z.shape[0]) @ self.two(F.relu(self.one(z)))
    @T.no_grad()
    def follow(self, rate=0.9):
        self.average.lerp_(self.one.weight, 1 - rate)
T.manual_seed(17)
CNET = Cached()
COPT = T.optim.AdamW([{"params": [CNET.one.weight], "weight_decay": 0.1}, {"params": [CNET.one.bias, CNET.two.bias], "lr": 0.02}], lr=0.05, eps=1e-2)
'''
HEAD_CODE = compile(HEAD, "<fuzz users>", "exec", dont_inherit=True)
USED = re.compile(r"\b(SHARED|UBUF|UGEN|\w+_step|with_default|default_dtype|CNET|COPT)\b")


def state(ns: dict[str, Any], text: str) -> None:
    """Run `HEAD` in a namespace if the program names something of it."""
    if USED.search(text):
        exec(HEAD_CODE, ns)


def seen(ns: dict[str, Any], of: Any) -> list[Any]:
    """What a caller can see of that state; ``of`` views a value."""
    if "CNET" not in ns:
        return []
    net = ns["CNET"]
    out = [of(ns["SHARED"]), of(ns["UBUF"].tolist()), of(ns["UGEN"].get_state().tolist()), of(net)]
    out += [of(net.masks), of(net.kept), net.steps, of(ns["COPT"].state_dict())]
    return [*out, of(ns["with_default"].__defaults__)]


STATEMENTS: dict[str, list[str]] = {
    "compiled together": _lines("""
        t: <v> = inner_step(<t>) + outer_step(<e>)
        t: <v> = outer_step(<t>) ;; log.append(SHARED['n'])
        t: <v> = inner_step(inner_step(<t>, <k>), k=<i>)
        t: SHARED['n'] = <i> ;; <v> = outer_step(<t>)
        t: SHARED['last'] = <t> ;; <v> = outer_step(<e>) ;; <v> = <v> + SHARED['last'].sum()
        t: <v>u = <t> * 1 ;; <v>h = in_place_step(<v>u, <e>) ;; <v> = <v>u + <v>h
        t: <v>u = <t> * 1 ;; <v>h = in_place_step(<v>u[:2], 1.5) ;; <v>h.mul_(2) ;; <v> = <v>u
        t: <v> = <t> * 1 ;; try: failing_step(<v>, <i>) ;; except ValueError as e: log.append(str(e))
        t: <v> = <t> * 1 ;; try: ;;     SHARED['seen'].append(<i>) ;;     <v> = failing_step(<v>, n) + 1 ;; finally: SHARED['n'] -= 1
        t: <v>f = COMPILE(lambda u: inner_step(u) * <n>) ;; <v> = <v>f(<t>) + <v>f(<e>)
        t: @COMPILE ;; def <v>f(u): ;;     def <v>g(w): return w * n + u ;;     return COMPILE(<v>g)(u) ;; <v> = <v>f(<t>)
        w: <v> = T.func.grad(lambda u: outer_step(u).sum())(<t>)
        w: <v> = SHARED['last'] ;; SHARED['last'] = None
        t: <v>s = [inner_step] * <k> + [T.sin] ;; <v> = <t> ;; for <v>f in <v>s: <v> = <v>f(<v>)
    """),
    "caches": _lines("""
        w: <v> = CNET(z)
        w: <v> = CNET.mask(x.shape[0]) @ z ;; log.append(sorted(CNET.masks))
        w: CNET.mask(<k> + 1).mul_(<f>) ;; <v> = CNET.mask(<k> + 1)
        w: CNET.masks.clear() ;; <v> = CNET(z)
        w: <v> = CNET.kept * 2 if CNET.kept is not None else z
        t: if not hasattr(o, 'memo'): o.memo = {} ;; <v> = o.memo.setdefault(x.shape[0], <e>) ;; <v> = <t> + <v>.sum()
        t: o.memo = getattr(o, 'memo', {}) | {key: <t>} ;; <v> = o.memo[key] * 2
        t: o.t = <t> if getattr(o, 't', None) is None else o.t * 1 ;; <v> = <t> * 2
        w: <v> = CNET.steps * z ;; CNET.steps = <i>
        t: with_default.__defaults__[0].add_(<f>) ;; <v> = with_default(<t>)
        t: <v> = with_default(<t>) - with_default(<e>, T.ones(1))
        t: <v> = with_default(<t>, seen=[<i>])
    """),
    "training": _lines("""
        w: COPT.zero_grad() ;; <v> = CNET(z).pow(2).mean() ;; <v>.backward() ;; COPT.step()
        w: <v> = CNET(z).pow(2).mean() / 2 ;; <v>.backward() ;; if CNET.steps % 2 == 0: ;;     COPT.step() ;;     COPT.zero_grad()
        w: <v> = CNET(z).pow(2).mean() ;; <v>.backward() ;; <v>n = nn.utils.clip_grad_norm_(CNET.parameters(), 0.5) ;; log.append(<v>n.item() > 0.5) ;; COPT.step() ;; COPT.zero_grad()
        w: <v> = CNET(z).mean() ;; <v>.backward() ;; COPT.step() ;; CNET.follow() ;; <v> = CNET.average * 1
        w: CNET.one.requires_grad_(flag) ;; <v> = CNET(z).sum() ;; <v>.backward() ;; COPT.step()
        w: for <v>g in COPT.param_groups: <v>g['lr'] *= 0.5 ;; <v> = CNET(z).sum() ;; <v>.backward() ;; COPT.step()
        w: for <v>z in z.split(2): (CNET(<v>z).sum() * 0.5).backward() ;; COPT.step() ;; COPT.zero_grad(set_to_none=flag) ;; <v> = CNET.one.weight * 1
        w: <v> = CNET(z[:<k>]).sum() ;; <v>.backward() ;; <v>s = {k: u.clone() for k, u in CNET.state_dict().items()} ;; COPT.step() ;; CNET.load_state_dict(<v>s)
        w: <v> = CNET(z).sum() ;; <v>.backward() ;; with T.no_grad(): ;;     for p in CNET.parameters(): ;;         if p.grad is not None: p.add_(p.grad, alpha=-0.1) ;;         p.grad = None
        w: <v>t = copy.deepcopy(CNET.one) ;; with T.no_grad(): <v> = <v>t(z) ;; <v> = (CNET.one(z) - <v>).pow(2).sum()
        w: T.utils.swap_tensors(CNET.one.bias, CNET.two.bias) if hasattr(T.utils, 'swap_tensors') else None ;; <v> = CNET(z)
        w: <v>p = [p for p in CNET.parameters() if p.requires_grad] ;; <v> = CNET(z).sum() ;; <v>g = T.autograd.grad(<v>, <v>p) if <v>p else () ;; log.append(len(<v>g)) ;; <v> = sum(g.sum() for g in <v>g) * z
        w: nn.utils.vector_to_parameters(nn.utils.parameters_to_vector(CNET.parameters()) * 0.9, CNET.parameters()) ;; <v> = CNET(z)
        w: try: ;;     COPT.zero_grad() ;;     <v> = CNET(z).sum() ;;     <v>.backward() ;;     if <c>: raise Stop(n) ;;     COPT.step() ;; except Stop as e: <v> = z * e.value
    """),
    "shared memory": _lines("""
        t: UBUF[:] += 1 ;; <v> = <t> * float(UBUF[0])
        w: <v> = T.from_numpy(UBUF)[:3] ;; <v>.add_(<f>) ;; <v> = z * <v>
        w: <v>a = z.detach().numpy() ;; <v>a[:1] *= 2 ;; <v> = z * 1
        w: <v> = T.from_numpy(np.asarray(<t>.detach())) ;; <v>.mul_(<f>)
        w: <v> = T.as_tensor(UBUF) ;; UBUF[1] = <f> ;; <v> = <v> * 2
        w: <v> = z[:, 0] ;; z[:, 0].mul_(<f>) ;; <v> = <v> + z.sum(1)
        w: <v> = z.view(-1)[::2] ;; z.add_(1)
        w: <v> = z.diagonal() ;; <v>.zero_() ;; <v> = z * 1
        w: <v>u = w3.select(0, 0) ;; <v>u.mul_(<f>) ;; <v> = w3.sum(0)
        w: pv.add_(1) ;; <v> = x + pv.sum() ;; x.mul_(<f>)
        t: <v> = <t> * 1 ;; <v>a, <v>b = <v>[:1], <v>[1:] ;; <v>a.add_(<v>b.sum()) ;; <v>b.mul_(2)
        w: <v> = x.expand(2, -1).t() ;; x.add_(<f>) ;; <v> = <v> * 1
        w: <v> = x.unsqueeze(1).expand(-1, 2).expand(2, -1, -1) ;; x.mul_(<f>)
        w: <v> = x.unfold(0, 2, 1).expand(2, -1, -1) if len(x) > 1 else x ;; x.add_(1)
        w: <v> = T.as_strided(x, (len(x),), (1,)) ;; <v>.mul_(<f>) ;; <v> = x * 1
        w: <v> = x.data ;; <v>.add_(<f>) ;; <v> = x * 2
        w: <v> = x.detach() ;; <v>[:1] = <f> ;; <v> = x * 2
        w: <v> = T.broadcast_to(s0, (3,)) ;; <v> = <v> * z
    """),
    "modes and draws": _lines("""
        w: with default_dtype(T.float64): <v> = T.ones(2) * <f>
        w: with default_dtype(dt if dt.is_floating_point else T.float32): <v> = T.tensor([<f>, 1.0]) + T.arange(2) / 2
        w: with default_dtype(T.float64): <v> = nn.Linear(2, 2)(T.zeros(1, 2))
        t: <v> = <t> * T.rand(x.shape[0], generator=UGEN)
        t: UGEN.manual_seed(n + 5) ;; <v> = <t> + T.randn(x.shape[0], generator=UGEN)
        w: <v>s = UGEN.get_state() ;; <v> = T.rand(2, generator=UGEN) ;; UGEN.set_state(<v>s)
        w: <v> = T.randperm(x.shape[0], generator=UGEN)
        w: <v> = z * T.bernoulli(T.full((3,), 0.5), generator=UGEN)
        t: with T.set_grad_enabled(flag): <v> = <t> * 2 ;; log.append(<v>.requires_grad)
        t: T.set_grad_enabled(flag) ;; <v> = <t> * 2 ;; T.set_grad_enabled(True)
        w: with T.no_grad(): <v> = x.detach().expand(2, -1) ;; log.append(<v>.requires_grad)
        w: with T.no_grad(): <v> = x.view(-1)[:1] ;; log.append(<v>.requires_grad)
    """),
    "half done": _lines("""
        t: <v> = <t> * 1 ;; try: ;;     <v>.add_(1) ;;     lst.append(<i>) ;;     d['k'] = <v> ;;     <v>.add_(T.ones(7, 7)) ;; except RuntimeError: log.append('half')
        t: <v> = x ;; try: ;;     x.mul_(<f>) ;;     o.t = <t> ;;     [][<k>] ;; except IndexError: <v> = x + o.t
        t: try: ;;     x[:1] = <f> ;;     <v> = T.cat([x, z]) ;; except RuntimeError as e: <v> = x * 2
        t: try: ;;     for <v>k in range(3): ;;         x.add_(1) ;;         if <v>k == <k>: raise Stop(<v>k) ;; except Stop as e: log.append(e.value) ;; <v> = x * 1
        t: dq.append(<t>) ;; x.add_(dq[-1].detach().sum()) ;; <v> = x / (1 if <c> else 2)
        t: <v> = x.add_(1) ;; if n > 3: raise Stop(x.shape[0]) ;; <v> = <v> * 2
    """),
}  # fmt: skip
