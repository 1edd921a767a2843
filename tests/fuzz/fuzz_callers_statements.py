"""Statements of random programs, by kind; see fuzz_grammar.py for the holes, fuzz_callers_prelude.py for the names."""

# ruff: noqa: E501

from __future__ import annotations

from fuzz_templates import templates as _lines

STATEMENTS: dict[str, list[str]] = {
    "functions with contexts": _lines("""
        t: <v>, <v>n = Scaled.apply(<t>, {'k': <n>, key: 1}) ;; log.append(<v>n)
        t: <v>, _ = Scaled.apply(<t>, {'k': <i>}, <n>, <i>)
        t: <v>, <v>n = Scaled.apply(<e>, GD) ;; GD['new'] = len(<v>n)
        w: <v>g = <t>.detach().requires_grad_() ;; <v>y, _ = Scaled.apply(<v>g, {'k': <n>}) ;; <v>g.data.mul_(1) ;; <v>y.sum().backward() ;; <v> = <v>g.grad
        t: <v> = OwnMap.apply(<t>, <n>)
        w: <v> = T.func.vmap(lambda r: OwnMap.apply(r, <n>))(z)
        w: <v> = T.func.jvp(lambda u: OwnMap.apply(u, 2.0), (<t>,), (<e>,))[1]
        w: <v> = T.func.jacrev(lambda u: OwnMap.apply(u, <n>))(<t>)
        w: <v> = T.func.vmap(T.func.grad(lambda u: OwnMap.apply(u, <n>).sum()))(z)
        w: <v> = T.func.vmap(ByRule.apply, in_dims=(0, None))(z, LEAF)
        w: <v> = T.func.vmap(T.func.grad(lambda u, w: ByRule.apply(u, w).sum(), argnums=1), in_dims=(0, None))(z, LEAF.detach())
        t: <v> = ByRule.apply(<t>, <e>) + ByRule.apply(<t>, <t>)
        t: <v> = Once.apply(<t>) * <n>
        w: <v>g = <t>.detach().requires_grad_() ;; <v>f, = T.autograd.grad(Once.apply(<v>g).sum(), <v>g, create_graph=True) ;; <v> = <v>f ;; try: <v>f.sum().backward() ;; except RuntimeError as e: log.append(str(e))
        t: <v> = Counted.apply(<t>, log) + <e>
        w: <v>g = <t>.detach().requires_grad_() ;; Counted.apply(<v>g, log).sum().backward() ;; <v> = <v>g.grad * Counted.runs
        t: Counted.runs = <i> ;; <v> = Counted.apply(<t>, []) * Counted.runs
        t: <v>, <v>b = Passing.apply(<t>, <e>) ;; log.append((<v> is <t>, <v>b.shape)) ;; <v> = <v> + <v>b
        w: <v>, <v>b = Passing.apply(z * 1, LEAF * 2) ;; <v> = <v> * <v>b
        t: <v>, <v>s = Dirty.apply(<t> * 1, <n>) ;; <v> = <v> * <v>s
        w: <v>u = <t>.detach() * 1 ;; <v>w, _ = Dirty.apply(<v>u, <n>) ;; log.append((<v>w is <v>u, <v>u._version)) ;; <v> = <v>u
        w: <v>u = z * LEAF ;; <v>w, _ = Dirty.apply(<v>u[0], <n>) if len(z) else (z, 0) ;; <v> = <v>u
        t: <v> = x ;; try: <v> = Failing.apply(<t>, 'forward' if <c> else '') ;; except Stop as e: log.append(e.value)
        w: <v>g = <t>.detach().requires_grad_() ;; try: Failing.apply(<v>g, 'backward' if <c> else 'too many').sum().backward() ;; except (Stop, RuntimeError) as e: log.append(type(e).__name__) ;; <v> = <v>g.grad
        w: class <v>F(T.autograd.Function): ;;     @staticmethod ;;     def forward(ctx, u, fn): ;;         ctx.fn, ctx.u = fn, u.detach() ;;         return fn(u) ;;     @staticmethod ;;     def backward(ctx, g): return g * ctx.fn(ctx.u), None ;; <v>g = <t>.detach().requires_grad_() ;; <v>F.apply(<v>g, lambda u: u * n).sum().backward() ;; <v> = <v>g.grad
        w: <v>g = LEAF.detach().requires_grad_() ;; <v>y = ByRule.apply(<v>g, z) ;; <v>f, = T.autograd.grad(<v>y.sum(), <v>g, create_graph=True) ;; <v>, = T.autograd.grad((<v>f * <v>g).sum(), <v>g)
        w: <v>g = <t>.detach().requires_grad_() ;; <v>y = OwnMap.apply(<v>g, 1.5) ;; log.append(<v>y.grad_fn is not None) ;; <v>y.grad_fn.register_hook(lambda gi, go: None) ;; <v>y.sum().backward() ;; <v> = <v>g.grad
    """),
    "saved tensors": _lines("""
        t: with T.autograd.graph.saved_tensors_hooks(*packed(log, <k>)): <v> = <t>.sin() * <e>
        w: <v>g = LEAF.detach().requires_grad_() ;; with T.autograd.graph.saved_tensors_hooks(*packed(log, <k>)): <v>y = (z * <v>g).tanh() ;; <v>y.sum().backward() ;; <v> = <v>g.grad
        w: <v>g = <t>.detach().requires_grad_() ;; with T.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t): <v>y = <v>g.exp() * <v>g ;; <v>, = T.autograd.grad(<v>y.sum(), <v>g)
        w: <v>g = <t>.detach().requires_grad_() ;; with T.autograd.graph.saved_tensors_hooks(lambda t: t + 1, lambda t: t - 1): ;;     with T.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t / 2): <v>y = <v>g ** 3 ;; <v>, = T.autograd.grad(<v>y.sum(), <v>g)
        t: <v> = x ;; try: ;;     with T.autograd.graph.disable_saved_tensors_hooks('none here'): ;;         <v> = <t>.sin() ;;         with T.autograd.graph.save_on_cpu(): <v> = <v>.exp() ;; except RuntimeError as e: log.append(str(e))
        w: <v>g = <t>.detach().requires_grad_() ;; with T.autograd.graph.allow_mutation_on_saved_tensors(): ;;     <v>u = <v>g * 1 ;;     <v>y = <v>u.sin() ;;     <v>u.mul_(2) ;;     <v>y.sum().backward() ;; <v> = <v>g.grad
        w: <v>g = <t>.detach().requires_grad_() ;; with T.autograd.graph.saved_tensors_hooks(*packed(log, 1)): <v>y = checkpoint(lambda u: u.sin() * u, <v>g, use_reentrant=False) ;; <v>y.sum().backward() ;; <v> = <v>g.grad
        w: <v>g = <t>.detach().requires_grad_() ;; <v>y = <v>g * <v>g ;; with T.no_grad(): <v>g.add_(1) ;; <v> = x ;; try: <v>y.sum().backward() ;; except RuntimeError as e: log.append(str(e)[:60])
        w: <v>g = <t>.detach().requires_grad_() ;; <v>y = <v>g.exp() ;; <v>y.detach().zero_() ;; <v> = x ;; try: <v>y.sum().backward() ;; except RuntimeError as e: log.append('changed')
        w: with T.autograd.set_detect_anomaly(True): ;;     <v>g = <t>.detach().requires_grad_() ;;     <v>y = (<v>g * 0).sqrt().sum() ;;     <v> = x ;;     try: <v>y.backward() ;;     except RuntimeError as e: log.append(str(e)[:30])
    """),
    "through compiled": _lines("""
        w: <v> = T.func.grad(six_energy)(<t>)
        w: <v> = T.func.hessian(six_energy)(<t>) * <n>
        w: <v> = T.func.jacrev(six_part)(<t>) + T.func.jacfwd(six_part)(<t>)
        w: <v> = T.func.vmap(six_part)(z)
        w: <v> = T.func.vmap(T.func.grad(six_energy))(z)
        w: <v> = T.func.vmap(T.func.grad(six_energy, argnums=1), in_dims=(0, None))(z, LEAF.detach())
        w: <v> = T.func.jvp(six_energy, (<t>, <e>), (<e>, <t>))[1]
        w: <v> = T.func.vjp(six_part, <t>)[1](<e>)[0]
        w: <v>g = <t>.detach().requires_grad_() ;; <v>f, = T.autograd.grad(six_energy(<v>g), <v>g, create_graph=True) ;; <v>h, = T.autograd.grad(<v>f.pow(2).sum(), <v>g, create_graph=True) ;; <v>, = T.autograd.grad(<v>h.sum(), <v>g)
        w: <v>g = <t>.detach().requires_grad_() ;; <v>f, = T.autograd.grad(six_energy(<v>g, <e>.detach()), <v>g, create_graph=True) ;; (<v>f * <v>g).sum().backward() ;; <v> = <v>g.grad
        w: <v> = T.autograd.functional.hessian(six_energy, <t>.detach())
        w: <v> = T.autograd.functional.jvp(six_part, <t>.detach(), <e>.detach())[1]
        t: SIX_K_ = SIX_K ;; <v> = six_part(six_part(<t>)) * SIX_K_
        w: <v> = six_step(PARAM, z)
        w: <v> = six_step(DEEP.enc, z, DOPT) ;; log.append(len(DOPT.state))
        w: <v> = six_step(nn.Sequential(DEEP.enc, PARAM), z, DOPT)
        t: <v> = <t> * 1 ;; six_change(<v>, <k>) ;; <v> = <v> + six_change(<v> * 1)
        w: <v> = z * 1 ;; <v>w = six_change(<v>[:, 0]) ;; <v>w.add_(1)
        w: <v>g = LEAF.detach().requires_grad_() ;; <v>u = <v>g * 1 ;; six_change(<v>u) ;; <v>u.sum().backward() ;; <v> = <v>g.grad
        t: <v> = checkpoint(six_part, <t>, use_reentrant=False) + checkpoint(six_part, <e>, use_reentrant=True)
        w: <v> = worker(six_part, <t>) * 2
        w: <v> = T.func.vmap(lambda r: six_energy(r) * six_part(r).sum(), randomness='same')(z)
        w: <v> = T.func.linearize(six_energy, <t>)[1](<e>)
        w: <v> = COMPILE(T.func.grad(six_energy))(<t>)
        w: <v> = COMPILE(T.func.vmap(lambda r: r * n))(z)
        w: <v> = COMPILE(T.func.hessian(lambda u: (u ** 3).sum()))(<t>)
        w: <v>f = T.func.grad(lambda u, k: (u.sin() * k).sum()) ;; <v> = COMPILE(<v>f)(<t>, <n>) + COMPILE(<v>f)(<e>, <n>)
    """),
    "stacked models": _lines("""
        w: <v>p, <v>b = T.func.stack_module_state(STACK) ;; <v> = T.func.vmap(lambda p, r: T.func.functional_call(STACK[0], (p, {}), (r,)), in_dims=(0, None))(<v>p, z)
        w: <v>p, <v>b = T.func.stack_module_state(STACK) ;; <v> = T.func.vmap(T.func.grad(lambda p, r: T.func.functional_call(STACK[0], p, (r,)).pow(2).sum()), in_dims=(0, None))({k: v.detach() for k, v in <v>p.items()}, z)['bias']
        w: <v>p, <v>b = T.func.stack_module_state(STACK) ;; (T.func.vmap(lambda p: T.func.functional_call(STACK[0], p, (z,)))(<v>p)).sum().backward() ;; <v> = <v>p['bias'].grad
        w: <v> = T.stack([m(z) for m in STACK]).mean(0) ;; log.append(len(STACK))
        w: with T.no_grad(): ;;     for a, b in zip(STACK, STACK[1:]): a.bias.lerp_(b.bias, 0.5) ;; <v> = STACK[0](z)
        w: <v> = T.func.functional_call(PARAM, {'bias': LEAF}, (z,))
        w: <v> = T.func.functional_call(DEEP, {'enc.bias': LEAF, 'heads.a': LEAF * 2}, (z,), {'which': 'a'})
        w: <v> = T.func.jacrev(lambda p: T.func.functional_call(DEEP.enc, {'bias': p}, (z,)).sum(0))(LEAF.detach())
        w: <v>n = copy.deepcopy(STACK[0]) ;; <v>n.requires_grad_(False) ;; <v> = <v>n(z) * LEAF.sum()
        w: <v> = T.func.vmap(lambda k: F.linear(z, T.stack([m.weight for m in STACK]).mean(0)) * k)(T.arange(<k> + 1.0))
        w: STACK.append(STACK.pop(0)) ;; <v> = STACK[0](z)
        w: <v>w = T.stack([m.weight.detach() for m in STACK]).requires_grad_() ;; T.einsum('nd,kod->kno', z, <v>w).pow(2).sum().backward() ;; <v> = <v>w.grad
    """),
    "parametrized": _lines("""
        w: <v> = PARAM(z)
        w: <v> = PARAM(z).sum() ;; <v>.backward() ;; <v> = PARAM.parametrizations.weight.original.grad * 1 ;; PARAM.zero_grad()
        w: with parametrize.cached(): <v> = PARAM(z) + PARAM(z * 2)
        w: PARAM.weight = PARAM.weight.detach() * <f> if not hasattr(PARAM, 'parametrizations') else nn.Parameter(T.ones(3, 3)) ;; <v> = PARAM(z)
        w: <v>n = nn.Linear(3, 3) ;; parametrize.register_parametrization(<v>n, 'weight', Symmetric()) ;; <v> = <v>n(z) ;; log.append(T.equal(<v>n.weight, <v>n.weight.t()))
        w: <v>n = nn.Linear(3, 3, bias=False) ;; parametrize.register_parametrization(<v>n, 'weight', Positive()) ;; <v> = <v>n(z) ;; parametrize.remove_parametrizations(<v>n, 'weight') ;; <v> = <v> + <v>n(z)
        w: <v>n = nn.utils.spectral_norm(nn.Linear(3, 3)) ;; <v> = <v>n(z) + <v>n(z)
        w: <v>n = nn.utils.weight_norm(nn.Linear(3, 2)) ;; <v> = <v>n(z) ;; <v>.sum().backward() ;; <v> = <v>n.weight_g.grad
        w: <v>n = nn.utils.parametrizations.orthogonal(nn.Linear(3, 3)) ;; <v> = <v>n(z) ;; log.append(sorted(<v>n.state_dict()))
        w: <v>n = nn.Linear(3, 3) ;; nn.utils.prune.l1_unstructured(<v>n, 'weight', <k>) ;; <v> = <v>n(z) ;; log.append(<v>n.weight_mask.sum().item())
        w: log.append(PARAM.parametrizations.weight[0].uses.item()) ;; <v> = PARAM(z).mean()
        w: PARAM.parametrizations.weight[0].by.data.mul_(<f>) ;; <v> = PARAM(z)
        w: <v> = T.func.functional_call(PARAM, {'parametrizations.weight.original': T.eye(3)}, (z,))
    """),
    "deep models": _lines("""
        w: <v> = DEEP(z, 'b' if flag else 'a')
        w: <v> = DEEP.roll(z, <k>)
        w: <v> = DEEP(z).pow(2).mean() ;; <v>.backward() ;; log.append([n for n, p in DEEP.named_parameters() if p.grad is None]) ;; DEEP.zero_grad()
        w: <v> = DEEP.head(DEEP.emb(q % 5)) ;; log.append(DEEP.head.weight is DEEP.emb.weight)
        w: F.cross_entropy(DEEP.head(DEEP.emb(q % 5)), q % 5).backward() ;; <v> = DEEP.emb.weight.grad.clone() ;; DEEP.zero_grad()
        w: DEEP.order.reverse() ;; <v> = DEEP(z)
        w: <v>, <v>h = DEEP.rnn(w3) ;; <v> = <v>.sum(1) + <v>h[0]
        w: <v>h = T.zeros(1, 2, 3) ;; for k in range(<k>): ;;     <v>u, <v>h = DEEP.rnn(w3[:, :1], <v>h) ;;     if <c>: <v>h = <v>h.detach() ;; <v> = <v>h
        w: <v>h, <v>c = T.zeros(x.shape[0], 3), T.zeros(x.shape[0], 3) ;; for k in range(<k>): <v>h, <v>c = DEEP.cell(z * k, (<v>h, <v>c)) ;; <v> = <v>h * <v>c
        w: <v>p = nn.utils.rnn.pack_padded_sequence(w3.transpose(0, 1), [max(len(z), 1), 1]) if len(z) else None ;; <v> = nn.utils.rnn.pad_packed_sequence(<v>p)[0] if <v>p is not None else z
        w: DEEP.heads['c'] = nn.Parameter(LEAF.detach() * <n>) ;; <v> = DEEP(z, 'c') ;; del DEEP.heads['c']
        w: DEEP.none = nn.Parameter(T.ones(3)) if DEEP.none is None else None ;; <v> = z * (1 if DEEP.none is None else DEEP.none)
        w: <v>h = DEEP.enc.register_forward_hook(lambda m, a, kw, r: r + len(kw), with_kwargs=True) ;; <v> = DEEP(z) ;; <v>h.remove()
        w: <v>h = DEEP.enc.register_full_backward_hook(lambda m, gi, go: log.append([g is None for g in gi])) ;; DEEP.enc(z).sum().backward() ;; <v>h.remove() ;; <v> = DEEP.enc.bias.grad * 1 ;; DEEP.zero_grad()
        w: <v>h = DEEP.enc.weight.register_hook(lambda g: g.clamp(-0.1, 0.1)) ;; DEEP.enc(z).sum().backward() ;; <v>h.remove() ;; <v> = DEEP.enc.weight.grad * 1 ;; DEEP.zero_grad()
        w: <v>h = nn.modules.module.register_module_forward_hook(lambda m, a, r: log.append(type(m).__name__)) ;; <v> = DEEP.enc(z) ;; <v>h.remove()
        w: <v> = copy.deepcopy(DEEP)(z) ;; log.append(DEEP.seen['a'])
        w: <v> = pickle.loads(pickle.dumps(DEEP.enc))(z)
        w: <v>s = DEEP.state_dict() ;; log.append(list(<v>s)[:3]) ;; <v>s['enc.bias'] = <v>s['enc.bias'] * 0.5 ;; log.append(str(DEEP.load_state_dict(<v>s))) ;; <v> = DEEP.enc(z)
        w: try: DEEP.load_state_dict({'enc.bias': T.ones(2)}) ;; except RuntimeError as e: log.append(str(e)[:80]) ;; <v> = DEEP.enc(z)
        w: for n, p in DEEP.named_parameters(remove_duplicate=False): log.append(n) if p.ndim < 2 else None ;; <v> = z
        w: DEEP.enc, <v>o = nn.Linear(3, 3), DEEP.enc ;; <v> = DEEP(z) ;; DEEP.enc = <v>o
        w: DEEP.emb.weight.data[0].fill_(<f>) ;; <v> = DEEP.head(z)
        w: DEEP.double() ;; <v> = DEEP.enc(z.double()) ;; DEEP.float() ;; log.append(<v>.dtype)
        w: with T.no_grad(): <v> = T.cat([p.flatten() for p in DEEP.enc.parameters()]).norm()
        w: <v> = T.func.vmap(DEEP.enc)(w3) + T.func.vmap(lambda r: DEEP.enc(r) * DEEP.heads['a'])(z).sum()
        w: <v> = nn.ModuleList([DEEP.enc, *STACK])[-1](z) ;; log.append(isinstance(DEEP.heads, nn.ParameterDict))
        w: <v> = net(z)
        w: <v> = net(z).pow(2).mean() ;; <v>.backward() ;; log.append([p.grad is None for p in net.parameters()])
        w: net.train(not net.training) ;; <v> = net(z) ;; log.append(net.training)
        w: with T.no_grad(): ;;     for p in net.parameters(): p.mul_(<f>) ;; <v> = net(z)
        w: <v> = net(DEEP.enc(z)) ;; net.seen_here = getattr(net, 'seen_here', 0) + 1 ;; log.append(net.seen_here)
    """),
    "optimizers and schedules": _lines("""
        w: DOPT.zero_grad() ;; <v> = DEEP(z).pow(2).mean() ;; <v>.backward() ;; DOPT.step() ;; DSCHED.step() ;; log.append(DSCHED.get_last_lr())
        w: <v> = (DEEP(z).sum() + PARAM(z).sum()) ;; <v>.backward() ;; DOPT.param_groups[1]['lr'] *= 2 ;; DOPT.step() ;; DOPT.zero_grad()
        w: <v>o = T.optim.LBFGS([LEAF], max_iter=<k> + 1, lr=0.1) ;; def <v>c(): ;;     <v>o.zero_grad() ;;     loss = (z @ LEAF - 1).pow(2).sum() ;;     loss.backward() ;;     return loss ;; <v> = <v>o.step(<v>c)
        w: <v>o = T.optim.LBFGS([LEAF], max_iter=3, line_search_fn='strong_wolfe') ;; def <v>c(): ;;     <v>o.zero_grad() ;;     loss = (LEAF - z.mean(0)).pow(2).sum() ;;     loss.backward() ;;     return loss ;; <v> = <v>o.step(<v>c) ;; LEAF.grad = None
        w: <v>o = groups(STACK[0], T.optim.SGD, momentum=0.9, nesterov=True) ;; for k in range(2): ;;     <v>o.zero_grad() ;;     STACK[0](z).pow(2).mean().backward() ;;     <v>o.step() ;; <v> = STACK[0].weight * 1
        w: <v>o = T.optim.SGD(STACK[1].parameters(), lr=0.1) ;; <v>s = T.optim.lr_scheduler.SequentialLR(<v>o, [T.optim.lr_scheduler.LinearLR(<v>o, total_iters=2), T.optim.lr_scheduler.ExponentialLR(<v>o, 0.5)], [1]) ;; for k in range(<k>): ;;     STACK[1](z).sum().backward() ;;     <v>o.step() ;;     <v>s.step() ;; <v> = STACK[1].bias * <v>o.param_groups[0]['lr']
        w: <v>o = T.optim.SGD(STACK[2].parameters(), lr=0.1) ;; <v>s = T.optim.lr_scheduler.OneCycleLR(<v>o, 0.2, total_steps=5) ;; for k in range(<k>): ;;     STACK[2](z).sum().backward() ;;     <v>o.step() ;;     <v>s.step() ;; log.append(<v>s.get_last_lr()) ;; <v> = STACK[2](z)
        w: <v>o = T.optim.SGD([LEAF], lr=0.1) ;; <v>s = T.optim.lr_scheduler.ReduceLROnPlateau(<v>o, patience=0) ;; for k in (1.0, 2.0, <f>): <v>s.step(k) ;; <v> = z * <v>o.param_groups[0]['lr']
        w: <v>s = copy.deepcopy(DOPT.state_dict()) ;; DEEP(z).sum().backward() ;; DOPT.step() ;; DOPT.load_state_dict(<v>s) ;; <v> = DEEP.heads['a'] * 1 ;; DOPT.zero_grad()
        w: <v>p = [nn.Parameter(T.ones(3) * k) for k in range(1, 3)] ;; <v>o = T.optim.<opt>([{'params': <v>p[:1]}, {'params': <v>p[1:], 'lr': 0.5}], lr=0.1) ;; (z * <v>p[0] * <v>p[1]).sum().backward() ;; <v>o.step() ;; <v> = <v>p[0] + <v>p[1]
        w: <v>h = DOPT.register_step_pre_hook(lambda o, a, kw: log.append('pre')) ;; DEEP(z).sum().backward() ;; DOPT.step() ;; DOPT.zero_grad() ;; <v>h.remove() ;; <v> = DEEP.heads['a'] * 1
        w: T._foreach_mul_([p.grad for p in DEEP.parameters() if p.grad is not None], 0.5) if hasattr(T, '_foreach_mul_') else None ;; <v> = z
        w: <v> = T.optim.swa_utils.AveragedModel(DEEP.enc, multi_avg_fn=None) ;; <v>.update_parameters(DEEP.enc) ;; <v> = <v>(z)
        w: def <v>s(p): p.data.sub_(p.grad * 0.01) ;; <v>h = [p.register_post_accumulate_grad_hook(<v>s) for p in DEEP.enc.parameters()] ;; DEEP.enc(z).sum().backward() ;; <v> = DEEP.enc.bias * 1 ;; DEEP.zero_grad() ;; for h in <v>h: h.remove()
        w: <v>s = nn.utils.clip_grad_norm_([p for g in DOPT.param_groups for p in g['params']], 0.1) ;; <v> = z * <v>s
    """),
    "views in chains": _lines("""
        t: <v> = <t> * 1 ;; <v>a = <v>.view(-1, 1) ;; <v>b = <v>a.t()[0] ;; <v>b[<k>:].mul_(<n>) ;; <v>a[:1].add_(1) ;; <v> = <v> + <v>b
        w: <v> = z * 1 ;; <v>a = <v>.t() ;; <v>b = <v>a[1:] ;; <v>c = <v>b.t() ;; <v>c.mul_(x.unsqueeze(1)) ;; <v>.add_(<v>a.t())
        w: <v> = z * LEAF ;; <v>a, <v>b, <v>c = <v>.unbind(1) ;; <v>a = <v>a * 1 ;; <v>a.add_(<v>b) ;; <v> = <v> + <v>a.unsqueeze(1)
        w: <v> = z * LEAF ;; for r in <v>.split(1, dim=1): ;;     try: r.mul_(2) ;;     except RuntimeError as e: log.append(str(e)[:50])
        w: <v> = z * LEAF ;; <v>d = <v>.detach() ;; <v>d[:, 0] = <f> ;; log.append((<v>._version, <v>d._version))
        w: <v> = z * LEAF ;; <v>a = <v>[:, 0] ;; with T.no_grad(): <v>b = <v>[:, 1] ;; <v>b.mul_(2) ;; <v> = <v>a + <v>b
        w: <v> = z * LEAF ;; with T.no_grad(): <v>[0:1] = 0 ;; <v> = <v> * 2
        w: <v>b = BUF[:2] ;; <v>b.copy_(z[:2].detach() if len(z) > 1 else T.ones(2, 3)) ;; BUF[2:].add_(<v>b) ;; <v> = BUF.clone()
        w: BUF.t()[0].fill_(<n>) ;; BUF.view(-1)[::3].mul_(2) ;; <v> = BUF.sum(0)
        w: <v> = BUF.narrow(0, <k>, 1).squeeze(0) ;; <v>.add_(1) ;; log.append(<v>._base is BUF)
        w: <v> = neg * 2 ;; log.append(layout(<v>))
        w: neg.mul_(<f>) ;; <v> = neg + 1
        w: neg[:1] = <n> ;; <v> = neg.clone() ;; log.append(neg.stride())
        w: <v> = neg.view(-1, 1).expand(-1, 2).sum(1) + neg.flip(0)
        w: <v> = T.cat([neg, x.to(neg.dtype)]).sort(stable=True)[1]
        w: <v> = neg @ z.to(neg.dtype) if len(neg) == len(z) else neg
        w: <v> = LEAF * 1 ;; <v>.unsqueeze_(0).t_() ;; <v>.squeeze_(1) ;; <v>.mul_(2)
        w: <v> = z.clone() ;; <v>[..., None].transpose(0, 1)[1].add_(<n>) ;; <v>.movedim(0, 1)[0].zero_()
        w: <v> = w3.clone() ;; <v>[:, ::2].mul_(2) ;; <v>.flatten(0, 1)[<k>:].sub_(1) if <v>.is_contiguous() else None
        w: <v> = w3.permute(2, 0, 1).reshape(3, -1) ;; <v>.add_(1) ;; log.append(w3._version)
        t: <v> = <t> * 1 ;; <v>s = <v>[:1] ;; <v>s += <v>[-1:] ;; <v>s *= <v>s ;; <v> = <v> - <v>s.sum()
        t: <v> = <t> * 1 ;; <v>w = <v>.unfold(0, 1, 1) ;; <v>w.add_(1) ;; <v>.exp_()
        w: <v> = T.zeros(3, 3) ;; <v>.diagonal().copy_(LEAF) ;; <v>.diagonal(1).add_(<n>) ;; <v> = <v> @ <v>
        w: <v>a = T.empty(0, 3) ;; <v>a.add_(1) ;; <v> = T.cat([<v>a, z]) ;; <v>[:0].mul_(2)
        w: <v> = z.new_empty(3, x.shape[0]).fill_(<n>) ;; <v>[0].copy_(x) ;; <v>[1:] = <v>[0] * 2
    """),
    "out arguments": _lines("""
        w: <v> = T.add(<t>.detach(), <e>.detach(), out=T.empty(0))
        w: T.mul(x.detach(), <n>, out=into) ;; <v> = into * 1
        w: <v> = T.sin(x.detach(), out=into) ;; log.append((<v> is into, into._version, into.shape))
        w: <v> = x ;; try: <v> = T.add(<t>, <e>, out=into) ;; except RuntimeError as e: log.append(str(e)[:60])
        w: T.cat([x.detach(), x.detach()], out=into) ;; <v> = into
        w: T.sum(z.detach(), 1, out=into) ;; <v> = into + 1
        w: T.matmul(z.detach(), T.ones(3), out=into) ;; <v> = into
        w: T.cumsum(x.detach().float(), 0, out=into) ;; <v> = into[:1]
        w: <v>a, <v>i = T.empty(0), T.empty(0, dtype=T.long) ;; T.sort(x.detach().float(), out=(<v>a, <v>i)) ;; <v> = <v>a * <v>i
        w: <v>a = T.zeros(2, x.shape[0]) ;; T.exp(x.detach().float(), out=<v>a[0]) ;; <v> = <v>a
        w: T.arange(<k>, out=into) if not into.requires_grad else None ;; <v> = into
        w: T.where(x > <f>, x.detach(), x.detach() * 2, out=into) ;; <v> = into
        w: with T.no_grad(): T.add(<t>, 1, out=into) ;; <v> = into + <t>
        w: T.clamp(into, <f>, 3, out=into) ;; <v> = into
        w: T.stack([x.detach().float()] * 2, out=into) ;; <v> = into.sum(0)
    """),
    "indices": _lines("""
        w: <v> = T.zeros(3).scatter_add(0, ii[0] % 3, T.ones(ii.shape[1]) * <n>)
        w: <v> = T.zeros(3, 3).index_put((ii[0] % 3, ii[1] % 3), T.tensor(1.0), accumulate=True)
        w: <v> = T.zeros(3, 3) ;; <v>[ii[0] % 3, ii[1] % 3] = <n> ;; <v>[ii[0] % 3] += 1
        w: <v> = (LEAF * 2)[ii % 3].sum(0)
        w: <v> = T.zeros(4, 3).index_add(0, ii[0] % 4, T.ones(ii.shape[1], 3) * LEAF)
        w: <v> = LEAF.gather(0, ii[0] % 3) * LEAF.take(ii[1] % 3)
        w: <v> = LEAF.expand(2, 3).gather(1, ii % 3) if ii.shape[1] else LEAF
        w: <v> = T.zeros(3).scatter_reduce(0, ii[0] % 3, T.arange(float(ii.shape[1])), reduce='amax', include_self=flag)
        w: <v> = T.ones(3).scatter_reduce(0, ii[0] % 3, T.arange(float(ii.shape[1])) + 1, 'prod' if flag else 'mean')
        w: <v> = T.ones(3).scatter(0, ii[0] % 3, <f>) ;; log.append(<v>.tolist())
        w: <v> = BUF.index_select(0, ii[0] % 4) ;; BUF.index_fill_(0, ii[1] % 4, <f>)
        w: <v> = T.zeros(5).put_(ii[0] % 5, T.ones(ii.shape[1]), accumulate=True)
        w: <v> = T.zeros(4, 3).index_reduce_(0, ii[0] % 4, T.ones(ii.shape[1], 3) * 2, 'amax')
        w: <v> = z[bb.any(1)] if bb.shape[0] == z.shape[0] else z
        w: <v> = z.masked_fill(bb, <f>).sum(0) + z.masked_select(bb).sum()
        w: <v> = z.clone() ;; <v>[bb] = <f> ;; <v>[~bb] += 1
        w: <v> = T.where(bb, z, LEAF).cumsum(0)
        w: <v> = bb.sum(1) * x + bb.all() + bb.int().argmax(1)
        w: <v> = (bb & ~bb.flip(1)) | (bb ^ (z > <f>)) ;; log.append(<v>.any().item())
        w: <v> = (q << 1 | 1) & (q ^ <k>) ;; log.append(<v>.dtype)
        w: <v> = T.bucketize(x.detach().float(), T.tensor([-1.0, 0.0, 1.0]), right=flag) + q
        w: <v> = F.one_hot(q % 3, 3) @ T.arange(3) + T.bincount(ii.flatten() % 3, minlength=3).sum()
        w: <v> = T.nonzero(bb, as_tuple=True)[1] * 2 ;; log.append(bb.nonzero().shape)
        w: <v>g = T.ones(4, requires_grad=True) ;; <v>g[ii % 4].pow(2).sum().backward() ;; <v> = <v>g.grad
        w: <v>g = T.ones(4, requires_grad=True) ;; (<v>g.index_add(0, ii[0] % 4, T.ones(ii.shape[1])) ** 2).sum().backward() ;; <v> = <v>g.grad
        w: <v>g = T.ones(4, requires_grad=True) ;; <v>u = <v>g * 1 ;; <v>u[ii[0] % 4] = 2.0 ;; (<v>u ** 2).sum().backward() ;; <v> = <v>g.grad
        w: <v> = z[ii[0] % max(len(z), 1), ii[1] % 3] if len(z) else x
        w: <v> = z[:, [True, False, flag]] ;; log.append(<v>.shape)
        w: <v> = z[None, ..., ::2][0] ;; <v>i = [0, 0, <k> % 3] ;; <v> = <v> + z[:, <v>i].sum()
        w: <v> = q[q.argsort(descending=flag)].unique_consecutive() ;; log.append(len(<v>))
        w: <v> = T.searchsorted(T.arange(4), q) + q.clamp(0, <k>) - q.bitwise_not()
        w: <v> = q // 2 + q % -3 + q.float().floor_divide(2).long()
    """),
    "matches": _lines("""
        w: <v> = area(sh)
        w: <v> = area([sh, Square(<t>, 2), Circle(<e>)])
        w: <v> = area({'u': <t>, 'a': 1, 'b': <n>}) + area(<n>) + area(None)
        t: match Square(<t>, <k>): ;;     case Square(u, 0 | 1 as k): <v> = u * k ;;     case Square(u=v, k=k) if k == n: <v> = v + k ;;     case _: <v> = <t> * 3
        t: match (<i>, [<t>, <e>]): ;;     case (0 | 1, [a, *_]): <v> = a * 2 ;;     case (k, [_, b]) if k < 3: <v> = b * k ;;     case (int(k), [*all_]): <v> = sum(all_) * k
        t: match en: ;;     case Color.RED: <v> = <t> * 2 ;;     case Level.HIGH | Level.LOW: <v> = <t> * en ;;     case _: <v> = <t> - 1
        t: match cfg: ;;     case Setting(rate=float() | int() as r): <v> = <t> * r ;;     case Config6(rate=r, names=(one, *_)): <v> = <t> * r + len(one) ;;     case Setting(rate=T.Tensor()): <v> = <t> * cfg.rate.sum() ;;     case _: <v> = <t>
        t: match {'k': n, **d}: ;;     case {'k': 1, 'q1': T.Tensor() as u}: <v> = u * 2 ;;     case {'k': int(k), **rest}: <v> = <t> * k + len(rest) ;; log.append(<v>.shape)
        t: match type(net).__name__, len(list(net.children())): ;;     case 'Linear', 0: <v> = <t> * 2 ;;     case str(s), k if k > 1: <v> = <t> + len(s) ;;     case _: <v> = <t>
        t: <v> = <t> ;; for <v>s in (sh, Circle(1), Shape(2, <k>)): ;;     match <v>s: ;;         case Circle(): continue ;;         case Shape(k=0): break ;;         case Shape(k=k): <v> = <v> + k ;; log.append(type(<v>s).__name__)
    """),
    "given objects": _lines("""
        t: <v> = cfg.rate * <t> if not isinstance(cfg.rate, T.Tensor) else cfg.rate.sum() * <t>
        t: <v> = cfg(<t>) if callable(cfg) else cfg.scaled(<t>)
        t: cfg.mask = <t> > <f> if not isinstance(cfg, tuple) else None ;; <v> = <t> * 2
        t: <v>c = dataclasses.replace(cfg, rate=<n>) if dataclasses.is_dataclass(cfg) else cfg._replace(rate=<n>) ;; <v> = <t> * <v>c.rate ;; lst.append(<v>c)
        t: cfg.layers.append(<i>) if hasattr(cfg, 'layers') else None ;; <v> = <t> * len(getattr(cfg, 'layers', cfg))
        - log.append(cfg._asdict() if isinstance(cfg, tuple) else sorted(vars(cfg)))
        t: <v>r, *<v>o = cfg if isinstance(cfg, tuple) else dataclasses.astuple(cfg) ;; <v> = <t> * len(<v>o)
        t: <v> = <t> * en.value + (2 if en is Color.RED else 0) ;; log.append(f'{en.name} {en!r}')
        t: <v> = {Color.RED: T.sin, Color.BLUE: T.cos}.get(en, T.neg)(<t>)
        t: <v> = <t> * (2 if en in (Color.RED, Level.HIGH) else 3) ;; log.append([e.name for e in type(en)])
        t: <v> = <t> * (int(en) if isinstance(en, int) else 1) + Level(3)
        t: <v> = cb(<t>)
        t: <v> = cb(cb(<t>) + <e>) ;; log.append(getattr(cb, 'times', None))
        t: <v> = functools.reduce(lambda u, f: f(u), [cb, T.sin], <t>)
        w: <v> = T.func.vmap(cb)(z)
        w: <v> = T.func.grad(lambda u: cb(u).sum())(<t>)
        t: cb.calls = getattr(cb, 'calls', 0) + 1 if hasattr(cb, '__dict__') else 0 ;; <v> = cb(<t>)
        w: <v> = acc * 2 ;; log.append(acc.grad is None)
        w: (acc * <t>.sum()).sum().backward() ;; <v> = acc.grad * 1
        w: <v>g = acc.grad ;; (acc ** 2).sum().backward() ;; log.append(acc.grad is <v>g) ;; <v> = acc.grad
        w: acc.grad = None if flag else T.ones_like(acc) ;; (acc.sin()).sum().backward() ;; <v> = acc.grad
        w: with T.no_grad(): acc.sub_(0.1 if acc.grad is None else acc.grad) ;; <v> = acc * 1
        w: <v> = T.autograd.grad((acc * LEAF).sum(), [acc, LEAF], create_graph=True) ;; <v> = <v>[0] * <v>[1]
        w: acc.requires_grad_(flag) ;; <v> = acc * 3
        w: <v> = inf * 2 ;; log.append((inf.is_inference(), <v>.is_inference(), <v>.requires_grad))
        w: <v> = inf.clone() ;; <v>.add_(<n>) ;; <v> = <v> * LEAF.sum()
        w: <v> = x ;; try: <v> = inf * LEAF.sum() ;; except RuntimeError as e: log.append(str(e)[:50])
        w: <v> = x ;; try: inf.add_(1) ;; except RuntimeError as e: log.append(str(e)[:50])
        w: with T.inference_mode(): ;;     inf.mul_(2) ;;     <v> = inf.view(-1)[:1] ;; log.append(<v>.is_inference())
        w: <v> = x ;; try: (inf.exp() * LEAF.sum()).sum().backward() ;; except RuntimeError as e: log.append(str(e)[:50]) ;; LEAF.grad = None
        w: <v> = T.from_numpy(arr) * 2 ;; log.append(arr.dtype.name)
        w: arr[...] = arr * 2 ;; <v> = T.tensor(arr.sum())
        w: <v>u = T.from_numpy(arr) ;; <v>u.add_(1) ;; <v> = x + float(arr.sum())
        w: <v> = T.as_tensor(arr.T.copy()) @ T.ones(arr.shape[0], 1).to(T.as_tensor(arr).dtype)
        w: <v> = z + T.as_tensor(arr.mean(0)) if arr.shape[-1] == 3 else z
        w: NPBUF[0] += 1 ;; <v> = T.from_numpy(NPBUF)[0] * <t>.sum() ;; NPBUF[1] = <v>.detach().numpy()
        f: <v> = float(np.clip(arr, 0, 2).max(initial=0)) + float(np.linalg.norm(NPBUF))
        w: <v>a = np.stack([NPBUF[0], np.asarray(LEAF.detach())]) ;; <v> = T.tensor(<v>a, dtype=T.float32) * <n>
        w: <v> = T.tensor(np.where(NPBUF > <f>, NPBUF, 0.0)) ;; log.append((<v>.dtype, np.unique(NPBUF).size))
        w: <v> = sd['w'] * 2 ;; sd['w'] = <v>.detach() ;; log.append(list(sd))
        w: for k, v in sd.items(): ;;     if v.is_floating_point(): v.mul_(0.5) ;; <v> = sum(v.sum() for v in sd.values())
        w: <v> = T.cat([v.flatten().float() for v in sd.values()]) ;; sd.move_to_end('w')
        w: <v>d = type(sd)((k, v + 1) for k, v in sd.items()) ;; <v> = <v>d['w'] ;; lst.append(<v>d)
    """),
    "decorators and managers": _lines("""
        t: @repeated(<k>, log=log) ;; def <v>f(u, k=<n>): return u * k + 1 ;; <v> = <v>f(<t>) ;; log.append(<v>f.times)
        t: <v> = repeated(2, T.tanh)(lambda u: u + <n>)(<t>)
        t: @repeated(<k> + 1, then=lambda u: u * 2) ;; @T.no_grad() ;; def <v>f(u): return u.sin() ;; <v> = <v>f(<t>) + <e>
        t: @retried(2, (Stop, ValueError)) ;; def <v>f(u, attempt): ;;     log.append(attempt) ;;     if attempt < <k>: raise Stop(attempt) ;;     return u * attempt ;; <v> = x ;; try: <v> = <v>f(<t>) ;; except RuntimeError as e: log.append(type(e.__cause__).__name__)
        w: with Guarded(BUF) as <v>b: ;;     <v>b.add_(<n>) ;;     <v> = <v>b.sum(0) ;;     if <c>: raise Stop(1)
        w: <v> = x ;; with Guarded(BUF), Guarded(LEAF) as <v>l: ;;     with T.no_grad(): <v>l.mul_(2) ;;     <v> = <v>l * BUF
        t: <v> = x ;; try: ;;     with Timer(log), Swallow(log, 'a', (KeyError,)): ;;         <v> = <t> * 2 ;;         raise Stop(<i>) if <c> else KeyError('k') ;; except Stop as e: log.append(e.value) ;; finally: log.append('finally')
        t: def <v>f(u): ;;     for k in range(3): ;;         try: ;;             with Timer(log): ;;                 if k == <k>: return u * k ;;         finally: ;;             u = u + 1 ;;             log.append(k) ;;     return u ;; <v> = <v>f(<t>)
        t: def <v>f(u): ;;     try: ;;         raise Stop(1) ;;     except Stop: ;;         return u * 2 ;;     finally: ;;         if <c>: return u * 3 ;; <v> = <v>f(<t>)
        t: <v> = <t> * 1 ;; with contextlib.ExitStack() as <v>s: ;;     <v>s.enter_context(Guarded(BUF)) ;;     <v>s.callback(log.append, 'left') ;;     <v>s.push(lambda *e: log.append(e[0] is None)) ;;     BUF.mul_(<f>) ;;     <v> = <v> + BUF[0, 0] ;;     if <c>: <v>s.pop_all()
        w: with contextlib.closing(streamed(<t>, log)) as <v>g: ;;     next(<v>g) ;;     <v> = <v>g.send(<n>) ;;     <v> = <v> + <v>g.throw(KeyError('a', 'b'))
        t: <v>g = streamed(<t>, log) ;; next(<v>g) ;; <v>g.send(2) ;; <v> = x ;; try: <v>g.send(None) ;; except StopIteration as e: <v> = e.value
        t: <v>g = streamed(<t>, log) ;; <v> = next(<v>g) ;; try: <v>g.throw(Stop(<i>)) ;; except Stop as e: log.append((e.value, <v>g.gi_frame is None))
        t: <v>g = streamed(<t>, log) ;; next(<v>g) ;; lst.append(<v>g) ;; <v> = <v>g.send(<k>)
        t: def <v>g(u): ;;     k = yield from streamed(u, log) ;;     yield k + 1 ;; <v>i = <v>g(<t>) ;; next(<v>i) ;; <v>i.send(<n>) ;; <v> = <v>i.send(None)
        w: with T.autocast('cpu', dtype=T.float16, enabled=flag): <v> = z @ z.t() ;; log.append((<v>.dtype, T.is_autocast_enabled('cpu')))
        w: @T.autocast('cpu', dtype=T.float16, enabled=False) ;; def <v>f(u): return u @ u.t() ;; <v> = <v>f(z)
        t: with T.inference_mode(): <v>u = <t> * 2 ;; <v> = x ;; try: <v> = <v>u + <t> * 1 ;; except RuntimeError as e: log.append(str(e)[:40])
        w: T.use_deterministic_algorithms(flag) ;; <v> = z.cumsum(0).index_add(0, q, z) if len(z) else z ;; T.use_deterministic_algorithms(False)
    """),
    "accumulation": _lines("""
        w: <v>g = <t>.detach().requires_grad_() ;; for k in range(<k> + 1): ((<v>g * k).sin().sum() / (k + 1)).backward() ;; <v> = <v>g.grad
        w: <v>g = <t>.detach().requires_grad_() ;; <v>u = <v>g * 2 ;; <v>w = <v>u * <e>.detach() ;; <v>u.retain_grad() ;; <v>w.retain_grad() ;; <v>w.register_hook(lambda g: g * 3) ;; <v>w.sum().backward() ;; <v> = <v>u.grad + <v>w.grad
        w: <v>g = <t>.detach().requires_grad_() ;; <v>u = <v>g.sin() ;; <v>h = [<v>u.register_hook(lambda g, k=k: g + k) for k in range(3)] ;; <v>h[1].remove() ;; <v>u.sum().backward() ;; <v> = <v>g.grad
        w: <v>g = <t>.detach().requires_grad_() ;; <v>s = [] ;; <v>h = T.autograd.graph.register_multi_grad_hook([<v>g], lambda gs: <v>s.append(gs[0])) ;; (<v>g ** 2).sum().backward() ;; <v>h.remove() ;; <v> = <v>s[0] + <v>g.grad
        w: <v>g = <t>.detach().requires_grad_() ;; <v>u = <v>g * 1 ;; <v>u.register_hook(lambda g: g.mul_(2)) ;; <v>u.sum().backward() ;; <v> = <v>g.grad
        w: <v>g = <t>.detach().requires_grad_() ;; <v>u = <v>g * 1 ;; <v>u.register_hook(lambda g: None) ;; <v>u.register_hook(lambda g: g.new_zeros(g.shape)) ;; <v>u.sum().backward() ;; <v> = <v>g.grad
        w: <v>g = <t>.detach().requires_grad_() ;; <v>u = <v>g * 1 ;; <v>u.register_hook(lambda g: T.ones(7)) ;; <v> = x ;; try: <v>u.sum().backward() ;; except RuntimeError as e: log.append(str(e)[:50])
        w: <v>g = <t>.detach().requires_grad_() ;; <v>u = <v>g * 1 ;; <v>u.mul_(2) ;; <v>u.register_hook(lambda g: g * 5) ;; <v>u.add_(1) ;; <v>u.sum().backward() ;; <v> = <v>g.grad
        w: <v>g = <t>.detach().requires_grad_() ;; <v>u = <v>g.exp() ;; <v>u.sum().backward(retain_graph=True) ;; <v>u.pow(2).sum().backward() ;; <v> = <v>g.grad
        w: <v>g = <t>.detach().requires_grad_() ;; <v>u = <v>g.exp() ;; <v>u.sum().backward(create_graph=True) ;; <v>f = <v>g.grad ;; <v>g.grad = None ;; <v>f.sum().backward() ;; <v> = <v>g.grad
        w: <v>g = LEAF.detach().requires_grad_() ;; <v>h = <v>g.register_hook(lambda g: g * 2) ;; <v>k = <v>g.register_post_accumulate_grad_hook(lambda p: log.append(p.grad.add_(1) is None)) ;; (z * <v>g).sum().backward() ;; <v>h.remove() ;; (z * <v>g).sum().backward() ;; <v> = <v>g.grad
        w: <v> = (LEAF * z).sum() ;; <v>.backward() ;; log.append(LEAF.grad.shape) ;; LEAF.grad = None
        w: (LEAF * z).sum().backward() ;; <v> = LEAF.grad * 1 ;; LEAF.grad.zero_() if flag else None
        w: LEAF.grad = T.ones(3) if <c> else None ;; (LEAF ** 2).sum().backward() ;; <v> = LEAF.grad.clone()
        w: with T.no_grad(): ;;     LEAF.sub_(0.1 * LEAF.grad if LEAF.grad is not None else 0) ;; LEAF.grad = None ;; <v> = LEAF * 2
        w: <v>g = <t>.detach().requires_grad_() ;; <v>s = T.stack([<v>g, <v>g * 2]) ;; <v>, = T.autograd.grad(<v>s, <v>g, T.eye(2)[:, :, None].expand(2, 2, x.shape[0]).contiguous(), is_grads_batched=True)
        w: <v>g = <t>.detach().requires_grad_() ;; <v>a, <v>b = T.autograd.grad([<v>g.sum(), (<v>g * <v>g).sum()], [<v>g, LEAF], allow_unused=True, materialize_grads=True) ;; <v> = <v>a.sum() + <v>b
        w: <v>g = <t>.detach().requires_grad_() ;; T.autograd.backward([<v>g * 2, <v>g.sum()], [T.ones_like(<v>g), None]) ;; <v> = <v>g.grad
        w: <v>g = <t>.detach().requires_grad_() ;; <v>u = <v>g.detach_() if False else <v>g ;; <v>w = (<v>u * 2).detach().requires_grad_() ;; <v>w.sum().backward() ;; log.append(<v>g.grad is None) ;; <v> = <v>w.grad
        w: <v>g = [p.detach().clone().requires_grad_() for p in (LEAF, LEAF * 2)] ;; for k, p in enumerate(<v>g): ((p * z).sum() * k).backward() ;; <v> = sum(p.grad for p in <v>g)
    """),
    "draws and breaks": _lines("""
        t: <v> = <t> * T.rand(1) ;; print(round(T.rand(1).item(), 2)) ;; <v> = <v> + T.randn(x.shape)
        t: <v> = F.dropout(<t>, 0.5) ;; if <v>.sum() > <f>: <v> = <v> * T.rand(1) ;; else: log.append(T.randint(0, 5, (2,)).tolist())
        t: <v> = <t> ;; for k in range(2): ;;     <v> = <v> + T.rand(x.shape) * k ;;     log.append(random.randint(0, 9)) ;; log.append(np.random.randint(5))
        w: <v> = T.rand(3, generator=SGEN) ;; log.append(<v>.sum().item() > 0) ;; <v> = <v> * T.rand(3)
        w: <v>s = SGEN.get_state() ;; <v>a = T.randperm(4, generator=SGEN) ;; SGEN.set_state(<v>s) ;; <v> = <v>a - T.randperm(4, generator=SGEN)
        w: T.manual_seed(SGEN.initial_seed() + n) ;; <v> = T.rand(2) ;; log.append(T.initial_seed())
        t: <v>r = random.random() ;; <v> = <t> * <v>r if <v>r > 0.5 else <t> * T.rand(1)
        w: with T.random.fork_rng(): ;;     T.manual_seed(3) ;;     <v> = T.rand(2) ;; log.append(T.rand(1).item())
        t: <v> = checkpoint(lambda u: F.dropout(u, 0.5) + T.rand(1), <t>, use_reentrant=False) ;; log.append(T.rand(1).item())
        w: <v>g = <t>.detach().requires_grad_() ;; checkpoint(lambda u: F.dropout(u, 0.5) * T.rand(1), <v>g, use_reentrant=False).sum().backward() ;; log.append(T.rand(1).item()) ;; <v> = <v>g.grad
        w: <v> = T.func.vmap(lambda r: r * T.rand(1), randomness='same')(z) ;; log.append(T.rand(1).item())
        w: <v> = T.func.vmap(lambda r: F.dropout(r, 0.5), randomness='different')(z) + T.rand(1)
        w: <v> = nn.init.kaiming_uniform_(T.empty(3, 3)) ;; log.append(T.rand(1).item()) ;; <v> = <v> + nn.init.trunc_normal_(T.empty(3))
        w: <v> = T.distributions.Bernoulli(probs=T.full((3,), 0.5)).sample() ;; <v>d = T.distributions.Beta(1.5, T.ones(2)) ;; log.append(<v>d.rsample().shape)
        w: <v> = worker(lambda: T.rand(2)) ;; <v> = <v> + T.rand(2)
        w: DEEP.drop = nn.Dropout(0.5) ;; <v> = DEEP.drop(DEEP.enc(z)) ;; DEEP.drop.eval() ;; <v> = DEEP.drop(<v>) ;; del DEEP.drop
    """),
    "control inside": _lines("""
        w: <v> = T.cond(LEAF.sum() > <f>, lambda u: DEEP.enc(u), lambda u: u * LEAF, (z,))
        w: <v> = T.cond(z.sum() > <f>, lambda u: u.cumsum(0), lambda u: T.cond(u.sum() < n, lambda v: v * 2, lambda v: v - 1, (u,)), (z,))
        w: <v>, <v>o = C.scan(lambda c, a: (c * a + LEAF, (c.sum(), a * 2)), T.zeros(3), z) ;; <v> = <v> + <v>o[1].sum(0) * <v>o[0].sum()
        w: <v>, <v>o = C.scan(lambda c, a: ({'h': T.tanh(DEEP.enc(a) + c['h'])}, c['h']), {'h': T.zeros(3)}, z) ;; <v> = <v>['h'] + <v>o.sum(0)
        w: <v> = C.map(lambda r: T.cond(r.sum() > 0, lambda u: u * 2, lambda u: -u, (r,)), z)
        w: <v>k, <v> = T.while_loop(lambda k, u: (k < <k>) & (u.abs().sum() < 100), lambda k, u: (k + 1, u * 2 + LEAF.detach()), (T.tensor(0), T.ones(3))) ;; log.append(<v>k.item())
        w: <v>g = LEAF.detach().requires_grad_() ;; <v>, _ = C.scan(lambda c, a: (c * <v>g + a, c), T.ones(3), z) ;; <v>.sum().backward() ;; <v> = <v>g.grad
        w: <v>g = LEAF.detach().requires_grad_() ;; <v>y = T.cond(z.sum() > <f>, lambda u: (u ** 3), lambda u: u.sin(), (<v>g,)) ;; <v>f, = T.autograd.grad(<v>y.sum(), <v>g, create_graph=True) ;; <v> = <v>f * 2
        w: <v> = T.func.vmap(lambda r: C.scan(lambda c, a: (c + a, c * a), T.zeros(()), r)[1])(z)
        w: <v> = C.associative_scan(lambda a, b: T.maximum(a, b) + 0 * a, z, 0) if len(z) else z
        w: <v> = C.associative_scan(lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (z, z * <f>), 0)[1] if len(z) else z
        w: <v> = T.cond(T.tensor(flag), lambda: T.rand(2), lambda: T.zeros(2)) ;; log.append(T.rand(1).item())
        w: <v> = C.map(lambda a: a[0] * a[1].sum(), (z, w3[0])) if w3.shape[1] == z.shape[0] else z
        w: <v> = checkpoint(lambda u: C.scan(lambda c, a: (c + a.sin(), c), T.zeros(3), u)[0], z * LEAF, use_reentrant=False)
        w: <v> = x ;; try: <v> = T.cond(z.sum() > 0, lambda u: u * 2, lambda u: u[:0], (z,)) ;; except Exception as e: log.append(type(e).__name__)
    """),
    "threads and copies": _lines("""
        w: <v> = worker(lambda u: u * 2 + T.is_grad_enabled(), <t>)
        w: with T.no_grad(): <v> = worker(lambda: (T.is_grad_enabled(), LEAF * 2))[1] ;; log.append(<v>.requires_grad)
        w: <v> = x ;; try: worker(lambda: [][1]) ;; except IndexError as e: log.append(str(e))
        w: worker(BUF.add_, 1) ;; <v> = BUF * 1
        w: <v> = worker(DEEP.enc, z).sum() ;; <v>.backward() ;; <v> = DEEP.enc.bias.grad * 1 ;; DEEP.zero_grad()
        w: <v>g = <t>.detach().requires_grad_() ;; worker((<v>g * 2).sum().backward) ;; <v> = <v>g.grad
        w: <v>t = threading.local() ;; <v>t.u = <t> ;; log.append(worker(lambda: hasattr(<v>t, 'u'))) ;; <v> = <v>t.u * 2
        w: with threading.Lock(): <v> = <t> * 2
        w: <v>, = pickle.loads(pickle.dumps([<t>.detach()])) ;; <v>.add_(1)
        w: <v>d = pickle.loads(pickle.dumps({'p': LEAF, 'v': BUF[:1]})) ;; log.append((<v>d['p'].requires_grad, <v>d['v'].shape)) ;; <v> = <v>d['v'] * 2
        w: <v>a, <v>b = copy.deepcopy((BUF, BUF[0])) ;; <v>a.add_(1) ;; <v> = <v>b * 2
        w: <v> = copy.copy(LEAF) ;; log.append(<v> is LEAF) ;; <v> = <v> * 2
        w: <v>l = copy.deepcopy(LEAF) ;; (<v>l * z).sum().backward() ;; <v> = <v>l.grad ;; log.append(LEAF.grad is None)
        w: <v> = x ;; try: <v> = copy.deepcopy(LEAF * 2) ;; except RuntimeError as e: log.append(str(e)[:50])
        w: <v>m = COMPILE(copy.deepcopy(DEEP.enc)) ;; <v> = <v>m(z) ;; <v>n = copy.deepcopy(<v>m) ;; with T.no_grad(): <v>n.weight.mul_(2) ;; <v> = <v> + <v>n(z) + <v>m(z)
        w: <v>m = COMPILE(PARAM) ;; <v> = <v>m(z) + PARAM(z)
        w: <v> = T.utils.data.TensorDataset(z, x) ;; <v> = sum(a.sum() * b for a, b in <v>) + x
        w: for <v>b in T.utils.data.DataLoader(T.utils.data.TensorDataset(z), batch_size=2): log.append(len(<v>b[0])) ;; <v> = z
        w: <v>i = iter(T.utils.data.DataLoader(range(5), batch_size=2, shuffle=True)) ;; <v> = next(<v>i) * 2
    """),
}  # fmt: skip
