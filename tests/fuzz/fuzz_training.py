"""Statements of random programs, by kind (modules, training, gradients); see fuzz_grammar.py for the holes."""

# ruff: noqa: E501

from __future__ import annotations

from fuzz_templates import templates as _lines

STATEMENTS: dict[str, list[str]] = {
    "module": _lines("""
        w: <v> = mod(z)
        w: <v> = MOD(z)
        w: <v> = mod.layers[0](z)
        w: <v> = mod.a(z)
        w: <v> = mod.norm(z)
        w: <v> = mod(z, <n>)
        w: mod.train() ;; <v> = mod(z)
        w: mod.eval() ;; <v> = mod(z)
        w: mod.train(flag) ;; <v> = mod(z)
        w: mod.norm.eval() ;; <v> = mod(z)
        w: mod.scale = <n> ;; <v> = mod(z)
        w: <v> = mod(z) + mod.seen
        w: <v> = sum(p.sum() for p in mod.parameters())
        w: <v> = mod.last
        w: <v> = mod(z) ;; mod.seen.zero_()
        w: mod.calls += <i> ;; <v> = z * mod.calls
        w: <v> = mod.a.weight.grad
        w: <v> = mod(z) ;; log.append([k for k, _ in mod.named_parameters()])
        w: hk = mod.a.register_forward_hook(lambda m, a, r: r * 2) ;; <v> = mod(z) ;; hk.remove()
        w: hk = mod.register_forward_pre_hook(lambda m, a: log.append('pre')) ;; <v> = mod(z) ;; hk.remove()
        w: <v> = F.linear(z, MOD.a.weight.t(), MOD.a.bias)
        w: mod.extra = <t> ;; <v> = mod.extra * 2
        w: mod.a.bias.data.add_(0.1) ;; <v> = mod.a(z)
        w: <v> = mod.state_dict()['seen']
        w: <v> = nn.Sequential(mod.a, nn.ReLU())(z)
        w: <v> = T.func.functional_call(mod.a, dict(mod.a.named_parameters()), (z,))
        w: mod.zero_grad() ;; <v> = mod(z)
        w: mod.requires_grad_(flag) ;; <v> = mod(z)
        w: mod.register_buffer('b2', x.sum()) ;; <v> = mod.b2
        w: mod.w2 = nn.Parameter(x.detach()) ;; <v> = mod.w2 * 2
        w: <v> = mod(z) ;; log.append(mod.calls)
        w: for pp in mod.parameters(): pp.grad = None ;; <v> = mod.a(z)
        w: <v> = mod.a.weight ;; log.append(<v>.requires_grad)
        w: mod.seen = mod.seen + 1 ;; <v> = mod.seen
        w: mod.layers.append(nn.Tanh()) ;; <v> = mod(z) ;; del mod.layers[-1]
        w: <v> = dict(mod.named_children())['a'](z)
        w: with T.no_grad(): mod.a.weight.mul_(0.9) ;; <v> = mod.a(z)
        w: mod.apply(lambda m: log.append(type(m).__name__)) ;; <v> = mod.a(z)
        w: mod.drop.p = 0.1 + 0.2 * flag ;; <v> = mod(z)
        w: mod.a.weight.grad = None ;; <v> = mod.a.weight * 2
        w: <v> = mod.forward(z)
        w: mod.norm.momentum = 0.2 ;; <v> = mod.norm(z)
        w: mod.load_state_dict(mod.state_dict()) ;; <v> = mod(z)
        w: <v> = mod.layers[1](mod.layers[0](z))
        w: mod.a.weight.data = mod.a.weight.data * 0.9 ;; <v> = mod.a(z)
        w: setattr(mod, 'a', mod.a) ;; <v> = mod(z)
    """),
    "train": _lines("""
        w: <v> = <loss> ;; <v>.backward() ;; OPT.step()
        w: OPT.zero_grad() ;; <v> = <loss> ;; <v>.backward() ;; OPT.step()
        w: <v> = <loss> ;; OPT.zero_grad(set_to_none=False) ;; <v>.backward() ;; OPT.step()
        w: <v> = <loss> ;; OPT.zero_grad() ;; <v>.backward() ;; nn.utils.clip_grad_norm_(mod.parameters(), 1.0) ;; OPT.step()
        w: <v> = <loss> ;; <v>.backward() ;; nn.utils.clip_grad_value_(mod.parameters(), 0.1) ;; OPT.step() ;; OPT.zero_grad()
        w: <v> = <loss> ;; <v>.backward() ;; log.append(mod.a.weight.grad is None) ;; OPT.step()
        w: <v> = <loss> ;; <v>.backward() ;; OPT.param_groups[0]['lr'] = abs(s) * 0.1 ;; OPT.step()
        w: <v> = <loss> ;; <v>.backward() ;; OPT.step() ;; SCHED.step()
        w: <v> = <loss> ;; <v>.backward() ;; with T.no_grad(): mod.a.weight -= 0.1
        w: <v> = <loss> ;; (<v> * 0.5).backward() ;; <v> = <v>.detach()
        w: <v> = <loss> ;; if <v> > <f>: <v>.backward() ;; OPT.step()
        w: <v> = <loss> ;; <v>.backward() ;; log.append(<v>.item()) ;; OPT.step()
        w: for ep in range(2): OPT.zero_grad(); (<loss>).backward(); OPT.step() ;; <v> = mod.a.weight
        w: <v> = <loss> ;; gs = T.autograd.grad(<v>, [p for p in mod.parameters()], allow_unused=True) ;; log.append(len(gs))
    """),
    "autograd": _lines("""
        w: (<E>).sum().backward() ;; <v> = x.grad
        w: <v>, = T.autograd.grad((<E>).sum(), <t>)
        w: <v>, = T.autograd.grad((<E>).sum(), [<t>], create_graph=True)
        w: <v>, = T.autograd.grad((<E>).sum(), x, allow_unused=True)
        w: gx = (<t>.detach() * 1).requires_grad_() ;; <v>, = T.autograd.grad((gx.sin() * <n>).sum(), gx, create_graph=True) ;; <v>, = T.autograd.grad(<v>.sum(), gx)
        w: gx = <t>.detach().clone().requires_grad_() ;; (gx * <t>).sum().backward() ;; <v> = gx.grad
        w: gx = <t>.detach().requires_grad_() ;; (gx ** 2).sum().backward() ;; (gx * 3).sum().backward() ;; <v> = gx.grad
        w: <v> = T.func.vmap(lambda u: u * <n>)(<t>)
        w: <v> = T.func.jvp(lambda u: u.sin(), (<t>,), (<t>,))[1]
        w: <v> = T.func.jacrev(lambda u: u * u)(<t>)
        w: <v> = T.func.hessian(lambda u: (u ** 3).sum())(<t>)
        w: hd = <t>.register_hook(lambda g: g * 2) ;; <v> = <t> * 2
        w: <t>.retain_grad() ;; (<t> * 2).sum().backward() ;; <v> = <t>.grad
        w: <v> = Custom.apply(<E>, <n>)
        w: <v> = checkpoint(lambda u, k: (u * k).tanh(), <t>, <n>, use_reentrant=False)
        w: <v> = T.func.grad_and_value(lambda u: (u * <n>).sum())(<t>)[0]
        w: <v> = T.func.vjp(lambda u: u.exp(), <t>)[1](<t>)[0]
        w: <v> = (<E>).sum() ;; <v>.backward(retain_graph=True) ;; <v>.backward()
        w: <v> = T.autograd.functional.jacobian(lambda u: u * u, <t>)
        w: <v> = <t>.detach().requires_grad_() ;; (<v> * 2).backward(T.ones_like(<v>))
        w: <v> = T.func.grad(lambda u, k: (u.sin() * k).sum())(<t>, <n>)
        w: <v> = T.func.vmap(T.func.grad(lambda u: u * u))(<t>)
        w: <v> = T.func.jacfwd(lambda u: u.tanh())(<t>)
        w: <v> = (<E>).sum() ;; if <v>.requires_grad: <v>.backward()
        w: with T.enable_grad(): <v> = (<t> * 2).sum()
        w: with T.no_grad(): <v> = (<E>).sum()
        w: <v> = <t> * 2 ;; <v>.register_hook(lambda g: log.append('hook')) if <v>.requires_grad else None
        w: <v>, = T.autograd.grad(<t>.sum() + <s>, x, T.tensor(2.0))
        w: <v> = T.func.vmap(lambda u, w: u + w, in_dims=(0, None))(<t>, x.sum())
        w: gx = nn.Parameter(<t>.detach().clone()) ;; (gx * <t>).sum().backward() ;; <v> = gx.grad * 1
        w: x.grad = <t>.detach().clone() ;; (<E>).sum().backward() ;; <v> = x.grad
        w: <v>, = T.autograd.grad((<E>).sum(), y, retain_graph=True, allow_unused=True)
        w: <v> = x.sum() ;; <v>.backward() ;; x.grad.zero_()
    """),
}  # fmt: skip
