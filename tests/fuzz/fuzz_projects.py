"""Statements as whole projects have them; programs of seeds from `FIRST` on have these as well.

Configurations and batches as dataclasses, trainers with callbacks, metrics and their text, attention with caches,
encoders that draw, statistics in buffers, modes as decorators, loaders, registries, custom Functions, penalties, inner
loops, per-sample gradients, searches, trees, descriptors, context variables. What they use is in
fuzz_projects_prelude.py.
"""

# ruff: noqa: E501

from __future__ import annotations

from fuzz_templates import templates as _lines

FIRST = 11_000_000
WRAPS = ("", "", "", "module", "callable", "decorated", "with", "class method", "partial", "recursive")

STATEMENTS: dict[str, list[str]] = {
    "configurations": _lines("""
        t: <v>c = Config(rate=<f>) ;; <v> = <v>c.fn(<t>) * <v>c.rate * <v>c.scale ;; log.append(<v>c)
        t: <v>c = CFG.but(width=<k> + 1, act='sin') ;; <v> = <v>c.fn(<t>) * <v>c.scale ;; log.append(<v>c == CFG)
        t: CFG.rate = <f> ;; <v> = <t> * CFG.rate ;; CFG.tags.append(<i>)
        t: CFG.act = 'cos' if <c> else 'tanh' ;; <v> = CFG.fn(<e>)
        t: <v>c = dataclasses.asdict(CFG) ;; <v> = <t> * <v>c['width'] ;; log.append(sorted(<v>c))
        t: <v> = <t> * sum(getattr(CFG, f.name) for f in dataclasses.fields(CFG) if f.type in ('int', int))
        t: <v>b = Batch(<t>, <e>) ;; <v>, <v>u = <v>b ;; log.append((len(<v>b), <v>b.size)) ;; <v> = <v> + <v>u
        t: <v>b = Batch(<t>, <e>).map(lambda u: u * <n>) ;; <v> = <v>b.u - <v>b.w
        t: <v> = x ;; try: Batch(<t>, 1).u = 2 ;; except dataclasses.FrozenInstanceError as e: log.append(str(e))
        w: <v>b = Batch.of(z[:<k>], z[<k>:]) ;; <v> = <v>b.u * <v>b.w.sum() ;; log.append(<v>b.ids)
        t: <v>d = {**vars(CFG), 'rate': <n>} ;; <v>d.pop('scale') ;; <v>c = Config(**<v>d) ;; <v> = <t> * <v>c.rate ;; log.append(<v>c.tags is CFG.tags)
        t: <v>s = {k: v for k, v in zip('abc', (<t>, <e>, <n>))} ;; <v> = <v>s.pop('a') * <v>s['c'] ;; <v>s.update(a=<v>) ;; log.append(list(<v>s))
        t: match CFG: ;;     case Config(width=3, rate=r) if r > <f>: <v> = <t> * r ;;     case Config(act=a): <v> = getattr(T, a)(<t>)
        t: <v>t = [CFG.but(rate=k / 2) for k in range(<k>)] ;; <v> = <t> * sum(c.rate for c in <v>t) ;; log.append(max(<v>t, key=lambda c: c.rate).rate if <v>t else None)
    """),
    "metrics": _lines("""
        w: METRICS.update(loss=z.mean(), n=<n>) ;; <v> = z * 1
        w: METRICS.update(loss=z.pow(2).mean(), top=z.max() if len(z) else 0) ;; <v> = z * METRICS.n
        - log.append(f'{METRICS.update(u=<I>)} at {<I>:03d}')
        - log.append(f'{METRICS:>30}|{len(METRICS.history)}')
        t: <v> = <t> * METRICS.sums['loss'] ;; log.append(sorted(METRICS.sums))
        w: <v>m = METRICS.compute() ;; <v> = z + sum(<v>m.values()) ;; log.append({k: round(float(v), 2) for k, v in <v>m.items()})
        - METRICS.reset() ;; log.append(str(METRICS))
        w: METRICS.history['z'].append(z.detach()) ;; <v> = METRICS.history['z'][-1] * len(METRICS.history['z'])
        w: <v>h = METRICS.history['seen'] ;; <v>h.append(x.shape[0]) ;; <v>h[:] = <v>h[-2:] ;; <v> = x * <v>h[0]
        w: print(f'step {METRICS.n}: {z.mean():.3f} {tuple(z.shape)} {z.shape[0]}/{len(lst)}') ;; <v> = z * 2
        w: <v>a = (z.argmax(1) == q % 3).float().mean() ;; METRICS.update(acc=<v>a) ;; <v> = z * <v>a
        w: <v>c = collections.Counter(q.tolist()) ;; <v> = z * <v>c.most_common(1)[0][1] if <v>c else z ;; log.append(sorted(<v>c))
        w: <v> = T.zeros(3, 3) ;; for a, b in zip(q % 3, z.argmax(1)): <v>[a, b] += 1
        w: <v> = T.zeros(3, dtype=T.long).scatter_add_(0, q % 3, T.ones_like(q))
    """),
    "stores": _lines("""
        w: <v> = STORE.add(z) * 1
        w: <v> = STORE.add(z[:<k>]).sum(0) ;; log.append(STORE.at)
        w: <v> = STORE.ring(z[0].detach()).clone() if len(z) else z
        w: <v> = STORE.add(z) ;; STORE.clear() ;; log.append(<v>.shape)
        w: STORE.rows[<k>].mul_(<f>) ;; <v> = STORE.rows * 1
        w: STORE.rows[:, 0] += <n> ;; STORE.rows[1:, 1:] *= 2 ;; <v> = STORE.rows.sum(1)
        w: <v>s = Store(<k> + 1) ;; for r in z: <v>s.ring(r.detach()) ;; <v> = <v>s.rows ;; log.append(<v>s.at)
        w: STORE.rows = T.cat([STORE.rows[1:], z[:1].detach()]) if len(z) else STORE.rows ;; <v> = STORE.rows * 2
        w: <v>, STORE.at = STORE.rows[STORE.at % 6], STORE.at + 1 ;; <v>.add_(1)
        w: <v>u = STORE.rows.view(-1) ;; <v>u[::2] = <f> ;; <v> = STORE.rows.t()
        w: <v>a, <v>b = STORE.rows.split(3) ;; <v>a.copy_(<v>b) ;; <v>b.zero_() ;; <v> = STORE.rows.clone()
        w: STORE.rows.index_copy_(0, T.tensor([<k>]), T.ones(1, 3) * <n>) ;; <v> = STORE.rows[<k>]
        w: STORE.rows[[0, 2]] = STORE.rows[[2, 0]] ;; <v> = STORE.rows * 1
        w: STORE.rows[STORE.rows > <f>] = 0.5 ;; <v> = STORE.rows * 1
        w: STORE.rows.diagonal().fill_(<n>) ;; <v> = STORE.rows * 1
        w: <v>r = STORE.rows[0] ;; STORE.rows[0] = <n> ;; <v> = <v>r + STORE.rows[0]
    """),
    "attention": _lines("""
        w: <v> = ATT(z[:8])
        w: ATT.train(flag) ;; <v> = ATT(z[:8]).pow(2).mean() ;; <v>.backward() ;; <v> = ATT.out.weight.grad
        w: <v>, <v>p = ATT(z[:4], use_cache=True) ;; <v> = <v> + ATT(z[:1], past=<v>p)
        w: <v>, ATT.past = ATT(z[:2], past=ATT.past if ATT.past is not None and len(ATT.past[0]) < 5 else None, use_cache=True) ;; ATT.past = tuple(p.detach() for p in ATT.past)
        w: with T.no_grad(): <v> = ATT.eval()(z[:<k> + 1]) ;; ATT.train() ;; log.append(ATT.count.item())
        w: ATT(z[:8]) ;; <v> = ATT.kept['a'] @ z[:8]
        w: <v> = ATT(z[:8]) ;; ATT.kept.clear()
        w: ATT.mask[0, 0] = flag ;; <v> = ATT.mask.sum() * x ;; ATT.mask[0, 0] = True
        w: <v> = F.scaled_dot_product_attention(w3, w3, w3, is_causal=True) * <n>
        w: <v> = checkpoint(ATT, z[:8], use_reentrant=False)
        w: <v>h = ATT.qkv.register_forward_hook(lambda m, a, r: log.append(tuple(r.shape))) ;; <v> = ATT(z[:8]) ;; <v>h.remove()
        w: <v>k = {} ;; <v>h = [m.register_forward_hook(lambda m, a, r, n=n: <v>k.__setitem__(n, r)) for n, m in ATT.named_children()] ;; <v> = ATT(z[:8]) ;; for h in <v>h: h.remove() ;; log.append(sorted(<v>k)) ;; <v> = <v> + <v>k['out']
        w: <v> = ATT(z[:8]).sum(1).cumsum(0).flip(0)
        w: <v> = T.einsum('nd,md->nm', z, z).triu(1).masked_fill(mask[:, None] if mask.shape[0] == z.shape[0] else False, <f>)
    """),
    "models": _lines("""
        w: <v>, <v>k = VAE(z) ;; <v> = F.mse_loss(<v>, z.detach()) + <n> * <v>k
        w: <v>, <v>k = VAE(z) ;; (<v>.pow(2).mean() + <v>k).backward() ;; <v> = VAE.enc.weight.grad
        w: VAE.train(<c>) ;; <v>, _ = VAE(z) ;; log.append(VAE.training)
        w: <v> = VAE.eval()(z)[0] ;; VAE.train()
        w: <v> = RUN(z)
        w: <v> = RUN(z) ;; RUN.follow(z * <n>) ;; <v> = <v> + RUN.hist if RUN.hist is not None else <v>
        w: RUN.eval() ;; <v> = RUN(z) ;; RUN.train() ;; log.append(RUN.steps.item())
        w: RUN.mean.zero_() ;; RUN.hist = None ;; <v> = RUN(z)
        w: RUN.momentum = abs(<f>) % 1 ;; <v> = RUN(z)
        w: <v>d = RUN.state_dict() ;; RUN(z) ;; RUN.load_state_dict(<v>d, strict=False) ;; <v> = RUN.mean * 1
        w: <v> = RUN(z).mean() ;; <v>.backward() ;; with T.no_grad(): RUN.gain -= 0.1 * RUN.gain.grad ;; RUN.gain.grad = None ;; <v> = RUN.gain * 1
        w: with T.no_grad(): ;;     for a, b in zip(TEACH.parameters(), ATT.out.parameters()): a.mul_(0.9).add_(b, alpha=0.1) ;; <v> = TEACH(z)
        w: <v> = F.kl_div(F.log_softmax(ATT.out(z), 1), F.softmax(TEACH(z).detach() / 2, 1), reduction='batchmean') + z
        w: TEACH.load_state_dict(ATT.out.state_dict()) ;; <v> = TEACH(z) - ATT.out(z)
        w: <v> = copy.deepcopy(TEACH) ;; with T.no_grad(): <v>.weight.add_(<f>) ;; <v> = <v>(z) - TEACH(z)
        w: <v>n = nn.Sequential(TEACH, nn.ReLU(), ATT.out) ;; <v> = <v>n(z) ;; log.append(len(<v>n))
        w: TEACH.requires_grad_(flag) ;; <v> = TEACH(ATT.out(z)).sum() ;; <v>.backward() ;; log.append(TEACH.weight.grad is None) ;; TEACH.zero_grad()
        w: <v> = sum(p.pow(2).sum() for n, p in ATT.named_parameters() if 'bias' not in n) * <n> + z
        w: <v>h = T.zeros(3) ;; for r in z: <v>h = T.tanh(TEACH(r) + <v>h.detach() * <n>) ;; <v> = <v>h
        w: nn.init.constant_(TEACH.bias, <f>) ;; <v> = TEACH(z)
        w: TEACH.weight.data.clamp_(-0.5, 0.5) ;; <v> = TEACH(z)
        w: <v> = z * 0 ;; for m in ATT.modules(): ;;     if isinstance(m, nn.Linear): <v> = <v> + m.weight[0, :3] * len(log)
    """),
    "trainers": _lines("""
        w: <v> = TRAINER.step(z) ;; log.append(TRAINER.step_count)
        w: <v> = TRAINER.step(z, clip=0.05, every=2)
        w: <v> = x ;; try: ;;     for <v> in TRAINER.fit(batches(z), <k>): pass ;; except EarlyStop as e: log.append((e.step, str(e)))
        w: <v> = TRAINER.evaluate(z) ;; log.append(<v>.requires_grad)
        w: <v>l = list(TRAINER.fit([z, z * <n>])) ;; <v> = T.stack(<v>l)
        w: TRAINER.callbacks.append(lambda t, loss: log.append(t.step_count)) ;; <v> = TRAINER.step(z) ;; TRAINER.callbacks.pop()
        w: TRAINER.opt.param_groups[0]['lr'] *= 0.5 ;; <v> = TRAINER.step(z)
        w: TRAINER.opt = T.optim.<opt>(TRAINER.net.parameters(), lr=0.01) ;; <v> = TRAINER.step(z)
        w: TRAINER.best = None ;; next(TRAINER.fit([z])) ;; <v> = TRAINER.best * 1
        w: <v>s = copy.deepcopy(TRAINER.net.state_dict()) ;; TRAINER.step(z) ;; TRAINER.net.load_state_dict(<v>s, strict=False) ;; <v> = TRAINER.net(z)
        w: TRAINER.loss = lambda u: TRAINER.net(u).abs().sum() ;; <v> = TRAINER.step(z) ;; del TRAINER.loss
        w: <v>o = T.optim.SGD([{'params': TEACH.weight}, {'params': [TEACH.bias], 'lr': 0.5}], lr=0.1) ;; TEACH(z).pow(2).mean().backward() ;; <v>o.step() ;; <v>o.zero_grad() ;; <v> = TEACH.bias * 1
        w: <v>o = T.optim.SGD(TEACH.parameters(), lr=0.1) ;; def <v>c(): ;;     <v>o.zero_grad() ;;     loss = TEACH(z).pow(2).sum() ;;     loss.backward() ;;     return loss ;; <v> = <v>o.step(<v>c) ;; TEACH.zero_grad()
        w: <v>o = T.optim.SGD(TEACH.parameters(), lr=0.1) ;; <v>s = T.optim.lr_scheduler.CosineAnnealingLR(<v>o, 4) ;; for k in range(<k>): ;;     TEACH(z).pow(2).mean().backward() ;;     <v>o.step() ;;     <v>s.step() ;;     <v>o.zero_grad() ;; <v> = TEACH.weight * 1 ;; log.append(<v>s.get_last_lr())
        w: <v>g = TRAINER.net[0] ;; <v>d = TEACH ;; <v> = F.softplus(-<v>d(<v>g(z))).mean() + F.softplus(<v>d(<v>g(z).detach())).mean() ;; <v>.backward() ;; log.append(<v>d.bias.grad is None) ;; <v>g.zero_grad() ;; <v>d.zero_grad()
        w: for k, b in enumerate(batches(z)): ;;     <v> = TRAINER.loss(b) / 2 ;;     <v>.backward() ;;     if k % 2: TRAINER.opt.step(); TRAINER.opt.zero_grad() ;; <v> = [p.grad for p in TRAINER.net.parameters()][0]
        w: <v>n = nn.utils.clip_grad_norm_(TRAINER.net.parameters(), <f> ** 2 + 0.1) ;; <v> = z * <v>n
        w: <v> = sum(len(s) for s in TRAINER.opt.state.values()) * z ;; log.append(len(TRAINER.opt.state))
        w: RECORD.losses.clear() ;; <v> = TRAINER.step(z) + len(RECORD.losses)
        w: <v> = T.stack(RECORD.losses[-2:]).mean() if RECORD.losses else x
    """),
    "loaders": _lines("""
        w: <v> = z[:0] ;; for b in loader(z, log): <v> = T.cat([<v>, b * len(b)])
        w: <v> = [b.sum() for b in batches(z, <k> + 1)] ;; log.append(len(<v>)) ;; <v> = sum(<v>) + x
        w: <v>l = loader(z, log) ;; <v> = next(<v>l, z) ;; <v>l.close()
        w: <v> = z ;; for k, b in zip(range(2), loader(z, log)): <v> = b * k
        w: <v> = x ;; try: ;;     for b in loader(z, log): ;;         if <c>: raise Stop(len(b)) ;;         <v> = b ;; except Stop as e: log.append(e.value)
        w: <v>d = Data(z) ;; <v> = <v>d.centred + <v>d.mean ;; log.append((Data.made, sorted(vars(<v>d))))
        w: <v>d = Data(z) ;; <v> = sum(r * k for r, k in <v>d[:2] and [<v>d[k] for k in range(len(<v>d))]) + T.zeros(3)
        w: <v>p = T.randperm(len(z)) ;; <v> = z[<v>p].split(2) ;; <v> = sum(b.mean(0) for b in <v>) + z.sum(0)
        w: <v> = padded([z[k, : k + 1] for k in range(min(len(z), 3))])
        w: <v>r = [x[:k] for k in range(len(x))] ;; <v> = nn.utils.rnn.pad_sequence(<v>r, batch_first=True) if <v>r else x
        w: <v> = padded([r[r > <f>] for r in z])
        w: <v>n = sorted(range(len(z)), key=lambda k: -k % 3) ;; <v> = z[<v>n] if <v>n else z
        w: <v> = {k: z[k] for k in range(len(z))} ;; <v> = T.stack([*<v>.values()][::-1]) if <v> else z
        w: <v> = T.utils.data.default_collate([(r, k) for k, r in enumerate(z)])[0] if hasattr(T.utils.data, 'default_collate') and len(z) else z
        w: it = iter(batches(z)) ;; <v> = z ;; while (b := next(it, None)) is not None: <v> = b - b.mean() ;; log.append(len(<v>))
        w: <v>a, *<v>m, <v>b = [*z.unbind(0), x, y] ;; log.append(len(<v>m)) ;; <v> = <v>a * 2
    """),
    "decorated modes": _lines("""
        t: <v> = <t> * frozen_mean(<e>) ;; log.append(<v>.requires_grad)
        t: with T.no_grad(): <v> = with_grad(<t>) ;; log.append((<v>.requires_grad, T.is_grad_enabled()))
        t: <v> = <t> + inferred(<e>.detach()).clone()
        t: <v> = inferred(<t>) ;; log.append((<v>.is_inference(), <v>.requires_grad)) ;; <v> = x * 2
        t: <v> = without(<t>) + <e> ;; log.append(T.is_grad_enabled())
        t: @T.no_grad() ;; def <v>f(u, k=<n>): ;;     with T.enable_grad(): v = u * 2 ;;     log.append(v.requires_grad) ;;     return u * k ;; <v> = <v>f(<t>) + <e>
        t: @T.no_grad() ;; def <v>g(u): ;;     yield u * 2 ;;     yield u * 3 ;; <v> = sum(<v>g(<t>)) ;; log.append((<v>.requires_grad, T.is_grad_enabled()))
        t: with T.no_grad(), T.enable_grad(): <v> = <t> * 2 ;; log.append(<v>.requires_grad)
        t: <v>m = T.no_grad() ;; <v>m.__enter__() ;; <v> = <t> * 2 ;; <v>m.__exit__(None, None, None)
        t: <v>p = T.set_grad_enabled(False) ;; <v> = <t> * 2 ;; T.set_grad_enabled(True) ;; log.append(<v>.requires_grad)
        t: try: ;;     with T.no_grad(): ;;         <v> = <t> * 2 ;;         if <c>: raise Stop(n) ;; except Stop: <v> = <t> * 3 ;; log.append(T.is_grad_enabled())
        t: class <v>c: ;;     @staticmethod ;;     @T.no_grad() ;;     def a(u): return u * 2 ;;     @classmethod ;;     @T.enable_grad() ;;     def b(cls, u): return u * 3 ;; <v> = <v>c.a(<t>) + <v>c().b(<e>)
        t: <v> = T.no_grad()(with_grad)(<t>) + T.enable_grad()(frozen_mean)(<e>)
        t: with T.inference_mode(flag): <v> = <t> * 2 ;; log.append(<v>.is_inference()) ;; <v> = <v>.clone() if flag else <v>
    """),
    "registries": _lines("""
        t: <v> = PLUGINS['twice'](<t>, <n>) + PLUGINS['shift'](<e>, by=<f>)
        t: @plugin('own') ;; def <v>f(u, k=<n>): return u * k + len(PLUGINS) ;; <v> = PLUGINS['own'](<t>)
        t: <v> = <t> ;; for name in sorted(PLUGINS): <v> = PLUGINS[name](<v>) ;; log.append(len(PLUGINS))
        t: PLUGINS.pop('own', None) ;; <v> = PLUGINS.get('own', shift_)(<t>)
        t: <v> = (Pipe(T.sin) | T.cos | (lambda u: u * <n>))(<t>)
        t: <v>p = Pipe(T.sin, T.tanh, helper) ;; <v> = <v>p[1:](<t>) + <v>p[0](<e>) ;; log.append(len(<v>p))
        t: <v> = Pipe(*[functools.partial(twice_, k=k) for k in range(1, <k> + 1)])(<t>)
        t: <v>k = LEVEL.set(<i>) ;; <v> = <t> * LEVEL.get() ;; LEVEL.reset(<v>k)
        t: LEVEL.set(<i>) ;; <v> = <t> * LEVEL.get() ;; LEVEL.set(1)
        t: <v> = contextvars.copy_context().run(lambda: <t> * LEVEL.get())
        w: <v> = table(<k>) * 2 ;; log.append(table.cache_info().currsize)
        w: <v> = table(x.shape[0]) * x
        w: table(<k>).add_(1) ;; <v> = table(<k>) * 1
        w: table.cache_clear() ;; <v> = table(2)
        t: <v>n = Node(<t>, Node(<e>), Node(<n>, Node(1))) ;; <v> = <v>n.total() ;; log.append((<v>n.depth(), len(list(<v>n.walk()))))
        t: <v>n = Node(<t>, Node(<e>)) ;; <v> = <v>n.children[0].parent().v * 2 ;; <v>n.children.clear()
        t: <v>s = [(<t>, 1)] ;; <v> = x * 0 ;; while <v>s: ;;     u, k = <v>s.pop() ;;     <v> = <v> + u * k ;;     if k < 3: <v>s.extend([(u * 0.5, k + 1)] * 2)
        t: <v>q = collections.deque([(0, <t>)]) ;; <v>seen = set() ;; while <v>q: ;;     k, u = <v>q.popleft() ;;     if k in <v>seen or k > 3: continue ;;     <v>seen.add(k) ;;     <v>q.append((k + 2, u + k)) ;;     <v>q.append((k + 1, u * 0.5)) ;; <v> = u ;; log.append(<v>seen)
        t: <v>o = sorted([(<n>, 1), (<n>, 0), (<i>, 2)]) ;; <v> = <t> * <v>o[0][1] ;; log.append([b for _, b in <v>o])
        t: <v>e = {'a': 1, **{'b': <n>}} | {'c': <t>} ;; <v> = <v>e['c'] * <v>e['b'] ;; del <v>e['a'] ;; log.append(len(<v>e))
        t: <v>d = {} ;; for k in range(3): <v>d.setdefault(k % 2, []).append(<t> * k) ;; <v> = sum(<v>d[0]) + <v>d[1][0]
        t: <v>l = [<t>, <e>] ;; <v>l.insert(1, <n>) ;; <v>l[::2] = [u * 2 for u in <v>l[::2]] ;; <v> = <v>l.pop() + <v>l[0] ;; del <v>l[0] ;; log.append(len(<v>l))
    """),
    "own functions": _lines("""
        t: <v> = Heaviside.apply(<t>, <f>) + <e>
        t: <v> = Heaviside.apply(Heaviside.apply(<t>, 2.0) - 0.5, <n>)
        t: <v>, <v>b = Split.apply(<t>, <e>) ;; <v> = <v> + <v>b * 2
        t: <v>, _ = Split.apply(<t>, <e>)
        w: <v>g = <t>.detach().requires_grad_() ;; _, <v>b = Split.apply(<v>g, <v>g * 2) ;; <v>b.sum().backward() ;; <v> = <v>g.grad
        t: <v> = Logged.apply(<t>, log) * 2
        w: <v>g = <t>.detach().requires_grad_() ;; (Logged.apply(<v>g, log) * <n>).sum().backward() ;; <v> = <v>g.grad ;; log.append('after')
        t: <v> = Logged.apply(Cube.apply(<t>), log) + Ste.apply(<e>)
        w: <v> = T.func.vmap(lambda r: Pipe(T.sin, twice_)(r) + len(PLUGINS))(z)
        w: <v>g = <t>.detach().requires_grad_() ;; <v>y = Heaviside.apply(<v>g, 1.0) ;; <v>y.register_hook(lambda g: g.clamp(-1, 1)) ;; (<v>y * <n>).sum().backward() ;; <v> = <v>g.grad
        w: <v>g = <t>.detach().requires_grad_() ;; <v>y = <v>g * 2 ;; <v>y.register_hook(lambda g: log.append(g.shape)) ;; <v>y.register_hook(lambda g: g * 2) ;; <v>y.sum().backward() ;; <v> = <v>g.grad
        w: <v>g = TEACH.weight ;; <v>h = <v>g.register_hook(lambda g: g.clamp(max=0.1)) ;; TEACH(z).sum().backward() ;; <v>h.remove() ;; <v> = <v>g.grad.clone() ;; TEACH.zero_grad()
        w: <v>h = TEACH.register_full_backward_hook(lambda m, gi, go: (gi[0] * 2,) if gi[0] is not None else None) ;; TEACH(z * ATT.out.bias).sum().backward() ;; <v>h.remove() ;; <v> = ATT.out.bias.grad.clone() ;; ATT.zero_grad() ;; TEACH.zero_grad()
        w: <v>h = TEACH.register_forward_pre_hook(lambda m, a: (a[0] * <n>,)) ;; <v> = TEACH(z) ;; <v>h.remove()
    """),
    "derivatives": _lines("""
        w: <v> = penalty(TEACH, z)
        w: penalty(lambda u: TEACH(u).tanh(), z).backward() ;; <v> = TEACH.weight.grad.clone() ;; TEACH.zero_grad()
        w: <v> = adapted(T.ones(3, requires_grad=True), z, <k>)
        w: <v>p = T.full((3,), 0.5, requires_grad=True) ;; (z @ adapted(<v>p, z)).sum().backward() ;; <v> = <v>p.grad
        w: <v> = T.func.vmap(T.func.grad(lambda p, r: (p * r).sum().pow(2)), in_dims=(None, 0))(T.ones(3), z)
        w: <v>p = {k: v.detach() for k, v in TEACH.named_parameters()} ;; <v> = T.func.vmap(T.func.grad(lambda p, r: T.func.functional_call(TEACH, p, (r,)).pow(2).sum()), in_dims=(None, 0))(<v>p, z)['bias']
        w: <v>p = {k: v * <n> for k, v in TEACH.named_parameters()} ;; <v> = T.func.functional_call(TEACH, <v>p, (z,))
        w: <v> = T.func.jacrev(lambda r: TEACH(r).tanh())(z[0]) if len(z) else z
        w: <v> = T.func.hessian(lambda r: TEACH(r).pow(2).sum())(T.ones(3)) * <n>
        w: <v> = T.func.jvp(lambda u: TEACH(u).sin(), (z,), (z * <n>,))[1]
        w: <v>g = z.detach().requires_grad_() ;; <v>u = TEACH(<v>g).sum() ;; <v>a, = T.autograd.grad(<v>u, <v>g, create_graph=True) ;; <v>b, = T.autograd.grad(<v>a[:, 0].pow(2).sum() + <v>g.pow(3).sum(), <v>g) ;; <v> = <v>b
        w: <v>p = [p.detach().clone().requires_grad_() for p in TEACH.parameters()] ;; F.linear(z, *<v>p).pow(2).mean().backward() ;; <v> = <v>p[0].grad
        w: <v> = T.func.vmap(lambda k: (z * k).sum(0))(T.arange(<k> + 1.0))
        w: <v> = T.func.vmap(lambda r: r.sort().values - r.argmax())(z)
        w: <v> = T.func.vmap(lambda r, m: T.where(m > 0, r, -r).cumsum(0), in_dims=(0, 0))(z, z.detach())
        t: <v> = checkpoint(lambda u, k: Pipe(T.sin, T.exp)(u) * k, <t>, <n>, use_reentrant=False)
        w: <v> = checkpoint(TRAINER.net[:2], z, use_reentrant=False) + z
        w: <v>g = z.detach().requires_grad_() ;; checkpoint(lambda u: F.dropout(TEACH(u).tanh(), 0.5), <v>g, use_reentrant=False).sum().backward() ;; <v> = <v>g.grad ;; TEACH.zero_grad()
        w: <v> = T.autograd.functional.jacobian(lambda u: u * u.sum(), <t>.detach())
        w: <v>g = <t>.detach().requires_grad_() ;; <v>y = <v>g[1:] * 2 ;; <v>y = <v>y.relu_() if flag else <v>y ;; <v>y.sum().backward() ;; <v> = <v>g.grad
    """),
    "searches": _lines("""
        w: <v> = greedy(z, <k> + 1, log) if len(z) else [] ;; log.append(<v>) ;; <v> = x * len(<v>)
        w: <v>b = beam(z[:3].detach()) ;; log.append(<v>b[0]) ;; <v> = x * <v>b[1]
        w: <v>i = z.topk(2, dim=1).indices ;; <v> = z.gather(1, <v>i) * <n>
        w: <v>v, <v>i = z.sort(0, descending=flag, stable=True) ;; <v> = <v>v * <v>i
        w: <v>p = z.softmax(1).cumsum(1) ;; <v> = z.masked_fill(<v>p > 0.6, float('-inf')).softmax(1).nan_to_num()
        w: <v> = T.multinomial(z.detach().softmax(1), 1) if len(z) else q ;; log.append(<v>.shape)
        w: <v>d = T.distributions.Categorical(logits=z) ;; <v>a = <v>d.sample() ;; <v> = <v>d.log_prob(<v>a) * <n> + <v>d.entropy()
        w: <v>d = T.distributions.Normal(x.float(), 1.0) ;; <v> = <v>d.log_prob(<v>d.rsample()).sum()
        w: <v> = z ;; for k in range(5): ;;     n = n + 1 ;;     if <v>.abs().max() < <f> if <v>.numel() else True: break ;;     <v> = <v> * 0.5 ;; log.append(k)
        w: <v>l, <v>h = 0.0, 4.0 ;; for _ in range(4): ;;     <v>m = (<v>l + <v>h) / 2 ;;     if (x * <v>m).sum() > <f>: <v>h = <v>m ;;     else: <v>l = <v>m ;; <v> = x * <v>m
        w: <v>u, <v>k = T.unique(q % 3, return_counts=True) ;; <v> = <v>u * <v>k
        w: <v> = T.cdist(z, z[:1]).squeeze(1) if len(z) else x ;; <v> = <v>.argsort()
        w: <v> = z / z.norm(dim=1, keepdim=True).clamp(min=1e-6) ;; <v> = F.cross_entropy(<v> @ <v>.t(), T.arange(len(z))) if len(z) else z
        w: <v>s = [0] ;; def <v>f(u): ;;     <v>s[0] += 1 ;;     return u if <v>s[0] > <k> or u.numel() < 2 else <v>f(u[: u.numel() // 2] * 2) ;; <v> = <v>f(x) ;; log.append(<v>s)
        w: <v> = T.where(z > <f>, z, z.new_zeros(())) ;; <v> = <v>.nonzero() ;; log.append(len(<v>) >= 0)
        w: <v> = z.unfold(1, 2, 1).mean(-1) if len(z) else z ;; log.append(<v>.is_contiguous())
    """),
}  # fmt: skip


def wrapped(kind: str, body: str, names: list[str], signature: str) -> str | None:
    """The program whose body (indented once) is in a module's forward, a callable, ...; None: of another kind."""
    args = ", ".join(names)
    head = f"def f({signature}):\n"
    deeper = "".join("    " + line + "\n" for line in body.splitlines())
    if kind in ("module", "callable"):
        base, name = ("nn.Module", "forward") if kind == "module" else ("Pipe", "__call__")
        return (
            f"class Program({base}):\n    runs = 0\n    def {name}(self, {args}):\n        self.runs += 1\n{deeper}"
            f"PROGRAM = Program()\n{head}    out = PROGRAM({args})\n    return *out, PROGRAM.runs\n"
        )
    if kind == "decorated":
        return f"@tracked\n@contextlib.contextmanager\ndef part({args}):\n{_yielding(body)}\n{head}    with part({args}) as out: pass\n    return (*out, part.calls)\n"
    if kind == "with":
        return f"{head}    with catching(log if 'log' in locals() else []), Timer([]):\n{deeper}    return x,\n"
    if kind == "class method":
        return f"class Program:\n    made = 0\n    @classmethod\n    def part(cls, {args}):\n        cls.made += 1\n{deeper}{head}    return Program.part({args})\n"
    if kind == "partial":
        return (
            f"def part(extra_k, {args}):\n{body}\n{head}    run = functools.partial(part, 2)\n    return run({args})\n"
        )
    if kind == "recursive":
        return f"def part(depth, {args}):\n    if depth: return part(depth - 1, {args})\n{body}\n{head}    return part(2, {args})\n"
    return None


def _yielding(body: str) -> str:
    """A body that yields what it returned at its end; where it returns earlier, the manager has nothing to give."""
    lines = body.rstrip().splitlines()
    last = lines[-1]
    return "\n".join([*lines[:-1], last.replace("return", "yield", 1)])
