"""Statements that users write, of kinds that the first grammar never wrote; see fuzz_grammar.py for the holes.

Programs of seeds from `FIRST` on have them as well: the programs of earlier seeds stay what they were.
"""

# ruff: noqa: E501

from __future__ import annotations

from fuzz_templates import templates as _lines

FIRST = 1_000_000

STATEMENTS: dict[str, list[str]] = {
    "classes": _lines("""
        t: <v>o = Meter(<n>) ;; <v> = <v>o(<t>) ;; log.append(<v>o.seen)
        t: <v>o = Meter(<n>) ;; <v> = <v>o(<v>o(<t>)) + <v>o.mean
        t: METER.rate = <n> ;; <v> = METER(<t>)
        t: <v> = METER(<t>) ;; log.append((METER.seen, METER.rate))
        t: <v> = METER.best(<t>)
        t: <v>o = Vec(<t>, <e>) ;; <v> = (<v>o + <v>o).norm2
        t: <v>o = Vec(<t>, <e>) * <n> ;; <v> = <v>o.a - <v>o.b
        t: <v>o = Vec(<t>, <t>) ;; <v>o.a = <e> ;; <v> = <v>o.norm2
        t: <v>o = dataclasses.replace(Vec(<t>, <t>), b=<e>) ;; <v> = <v>o.b
        t: <v> = sum(dataclasses.astuple(Vec(<t>, <n>))[:1]) + <e>
        t: <v>a, <v>b = Vec(<t>, <e>) ;; <v> = <v>a * <v>b
        t: <v> = Lazy(<t>).value
        t: <v>o = Lazy(<t>) ;; <v> = <v>o.value + <v>o.value
        t: class <v>c(Meter): rate = <n> ;; <v> = <v>c(<i>)(<t>)
        t: <v>o = Slots(<t>, <n>) ;; <v>o.b = <e> ;; <v> = <v>o.a + <v>o.b
        t: <v> = getattr(Vec(<t>, <e>), 'ab'[<k> % 2])
        t: <v> = (Vec(<t>, <t>) == Vec(<t>, <t>)) * <t>
        - log.append(repr(Meter(<n>)))
        - log.append(Meter.made)
    """),
    "nested": _lines("""
        t: <v>n = <i> ;; def <v>f(u): ;;     nonlocal <v>n ;;     <v>n += 1 ;;     return u * <v>n ;; <v> = <v>f(<v>f(<t>)) ;; log.append(<v>n)
        t: <v>s = [] ;; def <v>f(u, *rest, **kw): ;;     <v>s.append(len(rest)) ;;     return u + sum(kw.values()) ;; <v> = <v>f(<t>, <n>, c=<n>) ;; log.append(<v>s)
        t: def <v>f(u, depth=<k>): ;;     if depth <= 0: return u ;;     return <v>f(u * 0.5 + <n>, depth - 1) ;; <v> = <v>f(<t>)
        t: def <v>f(u): ;;     if u.sum() > <f>: return u * 2 ;;     return u ;; <v> = <v>f(<e>)
        t: def <v>f(u): ;;     for k in range(<k>): ;;         if k == <i>: return u * k ;;     return u + <n> ;; <v> = <v>f(<e>)
        t: <v>f = make_adder(<t>) ;; <v> = <v>f(<e>) + <v>f(<n>)
        t: <v>f = make_counter() ;; <v> = <t> * <v>f() + <v>f()
        t: <v> = compose(T.sin, lambda u: u * <n>, helper)(<e>)
        t: <v> = many(<t>, <e>, *[<t>] * <k>, scale=<n>)
        t: <v> = many(*(<t>, <e>), **{'scale': <n>})
        t: <v> = keep(<t>) ;; log.append(len(keep(<n>, [])))
        t: <v> = fib(<t>, <k>)
        t: <v> = tree_sum([<t>, (<e>, {'k': [<t>]}), <n>])
        t: <v> = apply_all([T.sin, T.cos, lambda u: u * <n>], <t>)
        t: <v> = TABLE['k<k>'](<t>)
    """),
    "managers": _lines("""
        t: with Timer(log) as <v>m: ;;     <v> = <e> ;; log.append(<v>m.count)
        t: <v> = x ;; with Timer(log, <n>) as <v>m: ;;     <v> = <v>m.scaled(<t>)
        t: <v> = x ;; with Timer(log), Timer(log): ;;     <v> = <e>
        t: <v> = x ;; with scoped(GD, 'a', <n>): ;;     <v> = <t> * GD['a']
        t: <v> = x ;; with scoped(GD, 'zz', <t>): ;;     <v> = GD['zz'] * 2
        t: <v> = x ;; with contextlib.suppress(RuntimeError): ;;     <v> = <t> @ T.ones(99) ;;     log.append('no')
        t: <v> = x ;; with contextlib.ExitStack() as <v>s: ;;     <v>s.enter_context(Timer(log)) ;;     <v>s.enter_context(T.no_grad()) ;;     <v> = <e>
        t: <v> = graded(<t>)
        t: <v> = x ;; with T.enable_grad(): ;;     <v> = <e> ;;     log.append(<v>.requires_grad)
        t: <v> = x ;; with T.autograd.graph.saved_tensors_hooks(lambda u: u, lambda u: u): ;;     <v> = <e>
        t: <v> = x ;; try: ;;     with Timer(log): ;;         <v> = <t> + T.ones(77, 3) ;; except RuntimeError as e: ;;     log.append(str(e)[:40])
    """),
    "failing": _lines("""
        t: <v> = x ;; try: ;;     <v> = <t>.view(<i>, -1).sum(0) ;; except RuntimeError as e: ;;     log.append(str(e))
        t: <v> = x ;; try: ;;     <v> = <t>[<i>] + x ;; except IndexError as e: ;;     log.append(str(e))
        t: <v> = x ;; try: ;;     <v> = T.cat([<t>, z]) ;; except (RuntimeError, TypeError) as e: ;;     log.append(str(e))
        t: <v> = x ;; try: ;;     <v> = T.stack([<t>, x[1:]])[0] ;; except RuntimeError as e: ;;     log.append(type(e).__name__)
        t: <v> = x ;; try: ;;     <v> = <t>.index_select(0, q + <k>) ;; except (IndexError, RuntimeError) as e: ;;     log.append(str(e))
        t: <v> = x ;; try: ;;     (<e>).sum().backward() ;;     (<e>).sum().backward() ;; except RuntimeError as e: ;;     log.append(str(e)[:30]) ;; else: ;;     log.append('fine')
        t: <v> = x ;; try: ;;     <v> = <t>.reshape(<i>) ;; except Exception as e: ;;     log.append(str(e)) ;; finally: ;;     log.append('end')
        t: <v> = x ;; for <v>k in range(3): ;;     try: ;;         <v> = fallible(<v>, <v>k) ;;     except Stop as e: ;;         log.append(e.value) ;;         break
        t: <v> = x ;; try: ;;     <v> = <t>.squeeze(<k>) ;; except IndexError as e: ;;     log.append(e.args)
        t: <v> = x ;; try: ;;     <v> = <t>.expand(<i>, <i>) ;; except RuntimeError as e: ;;     log.append(str(e))
        t: <v> = x ;; try: ;;     <v> = T.linalg.inv(z) ;; except Exception as e: ;;     log.append((type(e).__name__, str(e))) ;;     <v> = x
        t: <v> = <t> * 1 ;; try: ;;     <v>.copy_(z) ;; except RuntimeError as e: ;;     log.append(str(e))
        t: <v> = <t> * 1 ;; try: ;;     <v>[<i>] = <n> ;; except (IndexError, RuntimeError) as e: ;;     log.append(str(e))
        t: <v> = x ;; try: ;;     <v> = <t> * F.cross_entropy(z, q * <k>) ;; except Exception as e: ;;     log.append(str(e))
        t: <v> = x ;; try: ;;     <v> = F.embedding(q + <i>, mod.a.weight) ;; except Exception as e: ;;     log.append(str(e))
        t: <v> = x ;; try: ;;     <v> = <t>.add_(T.ones(3, 3)) ;; except RuntimeError as e: ;;     log.append(str(e))
        t: <v> = x ;; try: ;;     <v> = T.zeros(<i>, 2).sum(1) ;; except RuntimeError as e: ;;     log.append(str(e))
        t: <v> = x ;; try: ;;     <v> = <t>.softmax(<k>) ;; except IndexError as e: ;;     log.append(str(e))
    """),
    "state": _lines("""
        t: if 'best' not in GD or (<t>.sum() > GD['best']).item(): GD['best'] = <t>.detach().sum() ;; <v> = <t> - GD['best']
        t: GL.append(<t>.detach()) ;; <v> = GL[-1] * 2
        t: <v> = GL[0] + <t>.sum() if GL else <e>
        t: GL.append(<i>) ;; <v> = <t> * len(GL)
        t: <v> = <t> * GD.setdefault('count', <i>) ;; GD['count'] += 1
        t: st.add(<i>) ;; <v> = <t> * len(st)
        t: GD.update(a=<n>) ;; <v> = <t> * GD['a']
        t: <v> = CACHE.get(x.shape) ;; if <v> is None: <v> = CACHE[x.shape] = T.ones(x.shape) * <n>
        t: <v> = memo(<i>) * <t>
        t: GD['ema'] = 0.9 * GD.get('ema', 0.0) + 0.1 * <t>.detach().mean() ;; <v> = <t> * GD['ema']
        t: GT.mul_(0.9) ;; <v> = <t> * GT[0]
        t: o.items.append(<t>) ;; <v> = sum(o.items)
        t: o.t = <t> if o.t is None else o.t + <e> ;; <v> = o.t
        t: <v> = <t> * Obj.cls_k ;; Obj.cls_k = <i>
        - del GL[:]
        - GD.pop('best', None)
        - log.append(sorted(map(str, GD)))
        t: dq.append(<t>) ;; <v> = dq[-1] + len(dq)
    """),
    "scheduler": _lines("""
        w: <v> = <loss> ;; OPT.zero_grad() ;; <v>.backward() ;; OPT.step() ;; SCHED.step() ;; log.append(OPT.param_groups[0]['lr'])
        w: for <v>k in range(2): ;;     OPT.zero_grad() ;;     <v>l = <loss> ;;     <v>l.backward() ;;     OPT.step() ;;     SCHED.step() ;; <v> = <v>l.detach()
        w: <v> = <loss> ;; <v>.backward() ;; if n % 2 == 0: OPT.step(); OPT.zero_grad()
        w: def <v>c(): ;;     OPT.zero_grad() ;;     loss = <loss> ;;     loss.backward() ;;     return loss ;; <v> = OPT.step(<v>c)
        w: <v> = <loss> ;; OPT.zero_grad() ;; <v>.backward() ;; OPT.step() ;; log.append(sorted(map(str, OPT.state_dict())))
        w: OPT.param_groups[0]['weight_decay'] = 0.1 * flag ;; <v> = <loss> ;; <v>.backward() ;; OPT.step()
        w: <v> = <loss> ;; <v>.backward() ;; for pp in mod.parameters(): ;;     if pp.grad is not None: pp.grad.mul_(0.5) ;; OPT.step()
        w: <v> = <loss> ;; <v>.backward() ;; log.append([pp.grad is None for pp in mod.parameters()]) ;; OPT.zero_grad()
        w: <v> = <loss> ;; (<v> / 2).backward() ;; (<loss>).backward() ;; OPT.step()
        w: <v> = SCHED.get_last_lr()[0] * x
    """),
    "views": _lines("""
        t: <v> = <t> * 1 ;; <v>[1:].add_(<n>) ;; <v>[0:1].mul_(2)
        t: <v> = <t> * 1 ;; <v>r = <v>[::2] ;; <v>r += <n> ;; <v> = <v> * 2
        t: <v> = <t>.clone() ;; <v>.view(-1, 1)[:, 0].exp_() ;; <v> = <v> + 1
        w: <v> = z * 1 ;; <v>[0] = x[:1] ;; <v>.t()[1].zero_()
        w: <v> = z.clone() ;; <v>[:, 1].add_(x) ;; <v>r = <v>[1:] ;; <v>r.mul_(<n>)
        w: <v> = z.clone() ;; <v>.select(1, 0).copy_(x) ;; <v>.diagonal().fill_(<n>)
        w: <v> = T.zeros(3, x.shape[0]) ;; <v>[1] = <t> ;; <v>[2] += <e>
        t: <v> = <t> * 1 ;; for <v>r in <v>.split(1): <v>r.mul_(2)
        t: <v> = <t> * 1 ;; <v>a = <v>[:1] ;; <v>.mul_(2) ;; <v> = <v> + <v>a.sum()
        t: <v> = <t> * 1 ;; <v>a = <v>.detach() ;; <v>a.add_(1) ;; <v> = <v> * <t>
        w: <v> = z * 1 ;; <v>[z > 0] = <n> ;; <v>[q % 2] += 1
        w: <v> = z * 1 ;; <v>.index_put_((q,), x.unsqueeze(1), accumulate=True)
        w: <v> = z * 1 ;; <v>.unsqueeze(0).squeeze(0).add_(1) ;; <v> = <v>.expand(2, -1, -1)
        t: <v> = <t> * 1 ;; with T.no_grad(): <v>[:1].zero_() ;; log.append(<v>._version)
        - log.append((<t>._version, <t>.stride(), <t>.storage_offset()))
    """),
    "functions": _lines("""
        t: <v>, <v>b = Two.apply(<t>, <e>) ;; <v> = <v> * <v>b
        t: <v>, <v>b = Two.apply(<t>, <e>)
        t: <v>b, <v> = Two.apply(<t>, <t>)
        t: <v>, <v>m = Mask.apply(<e>, <f>) ;; log.append(<v>m.requires_grad)
        t: <v> = Ste.apply(<e>)
        t: <v> = Setup.apply(<t>, <n>) ;; log.append(<v>.requires_grad)
        t: <v> = Inplace.apply(<t> * 1)
        w: <v>g = <t>.detach().requires_grad_() ;; Two.apply(<v>g, <v>g * 2)[1].sum().backward() ;; <v> = <v>g.grad
        w: <v>g = <t>.detach().requires_grad_() ;; <v>, = T.autograd.grad(Setup.apply(<v>g, <n>).sum(), <v>g, create_graph=True)
        t: <v> = checkpoint(Two.apply, <t>, <e>, use_reentrant=False)[0]
    """),
    "transforms": _lines("""
        t: <v> = T.func.vmap(lambda u, w: u * w + <n>)(<t>, <e>)
        t: <v> = T.func.vmap(lambda r: (r * <n>).sum())(z)
        t: <v> = T.func.vmap(T.func.grad(lambda u: u.sin() * <n>))(<t>)
        t: <v> = T.func.grad(lambda u: (u.exp() * <t>).sum())(<e>)
        t: <v> = T.func.grad(lambda u, w: (u * w).sum(), argnums=1)(<t>, <e>)
        t: <v>, <v>a = T.func.grad(lambda u: ((u * u).sum(), u * 2), has_aux=True)(<t>)
        t: <v>, <v>p = T.func.vjp(lambda u: u.tanh() * <n>, <t>) ;; <v> = <v>p(<e>)[0]
        t: <v> = T.func.jvp(lambda u: u * u, (<t>,), (<e>,))[1]
        w: <v> = T.func.jacrev(lambda u: u.cumsum(0))(<t>)
        w: <v> = T.func.vmap(lambda r: helper(r, <n>), in_dims=1, out_dims=1)(z)
        w: <v> = T.func.functional_call(mod.a, {'weight': mod.a.weight * <n>, 'bias': mod.a.bias}, (z,))
        w: <v> = T.func.vmap(lambda r: mod.a(r))(z)
        w: <v> = T.func.grad(lambda p: T.func.functional_call(mod.a, p, (z,)).sum())({'weight': mod.a.weight, 'bias': mod.a.bias})['bias']
        w: <v> = T.func.hessian(lambda u: (u ** 3).sum() * <n>)(<t>)
        t: <v> = T.func.vmap(lambda u: T.where(u > <f>, u, -u))(<t>)
    """),
    "drawn": _lines("""
        t: <v> = F.dropout(<e>, 0.5) + T.rand_like(<t>)
        t: <v> = F.dropout(<e>, 0.5, flag) * T.randn(1)
        t: T.manual_seed(n + 2) ;; <v> = <t> * T.rand(x.shape)
        t: <v> = checkpoint(lambda u: F.dropout(u, 0.5), <t>, use_reentrant=False)
        t: <v> = <t> if T.rand(1) > 0.5 else <e>
        t: <v> = <t> * T.randint(0, 3, x.shape)
        t: <v> = T.where(T.rand(x.shape) > 0.5, <t>, <e>)
        t: <v> = <t> + T.normal(0.0, 0.1, x.shape) ;; log.append(T.rand(1).item())
        t: <v> = <t> * random.choice([1, 2]) + np.random.randint(3)
        w: <v> = mod.drop(z) + mod.drop(z)
        t: <v> = <t>[T.randperm(len(x))] ;; random.shuffle(log)
    """),
    "dtypes": _lines("""
        w: <v> = <t>.to(<d>) ;; log.append(<v>.dtype)
        w: <v> = <t>.double() * <e> ;; log.append(<v>.dtype)
        w: <v> = <t>.half() + <n>
        w: <v> = (<t> * 3).int() // 2
        w: <v> = (<t> * 3).to(T.int64) + <n>
        w: <v> = <t>.bool() & (<e> > 0)
        w: <v> = T.arange(x.shape[0]) * <n>
        w: <v> = <t>.double() if flag else <t>
        w: <v> = T.tensor(<n>) + <t>
        w: <v> = T.full((2,), <n>) ;; log.append(<v>.dtype)
        w: <v> = T.result_type(<t>, <n>) ;; log.append(<v>) ;; <v> = x
        w: <v> = y.to(z.dtype) + z.sum(1)
        w: <v> = q.float() * <n>
        w: <v> = T.promote_types(x.dtype, y.dtype) ;; <v> = <t>.to(<v>)
        w: <v> = T.tensor([<n>, <n>]) * 2
    """),
    "numpy": _lines("""
        w: <v> = T.from_numpy(np.arange(3.0) * <f>) + 1
        w: <v> = T.tensor(np.float32(<f>)) * <t>
        w: <v> = <t> * np.float64(<f>)
        w: <v> = T.as_tensor(<t>.detach().numpy() * 2)
        f: <v> = float(np.sum(<t>.detach().numpy()))
        w: <v> = T.tensor(np.array([<n>, 1])) * 2
        f: <v> = np.clip(<f>, -1, 1)
        w: <v> = <t> + T.from_numpy(np.ones(x.shape[0], dtype='float32'))
        i: <v> = int(np.prod(x.shape))
        w: <v> = x * np.array(<f>).item()
        - log.append(np.asarray(<t>.detach()).shape)
    """),
    "hooks": _lines("""
        t: <v> = <t> * 1 ;; if <v>.requires_grad: <v>.register_hook(lambda g: g * <n>)
        t: <v> = <e> ;; if <v>.requires_grad: <v>.retain_grad() ;; <v> = <v> * 2
        w: hk = mod.a.register_forward_hook(lambda m, a, r: log.append(tuple(r.shape))) ;; <v> = mod(z) ;; hk.remove()
        w: hk = mod.a.register_full_backward_hook(lambda m, gi, go: log.append('bw')) ;; <v> = mod.a(z) ;; <v>.sum().backward() ;; hk.remove()
        w: mod.a.register_forward_pre_hook(lambda m, a: (a[0] * 0.5,)) ;; <v> = mod.a(z) ;; mod.a._forward_pre_hooks.clear()
        w: <v>l = T.ones(3, requires_grad=True) ;; <v>l.register_hook(lambda g: g + <n>) ;; (<v>l * <n>).sum().backward() ;; <v> = <v>l.grad
        w: <v> = mod.a(z) ;; log.append((mod.a.weight.grad is None, mod.a.weight.requires_grad, mod.training))
    """),
    "modes of modules": _lines("""
        w: mod.train(not mod.training) ;; <v> = mod(z)
        w: mod.a.weight.requires_grad_(flag) ;; <v> = mod(z)
        w: mod.a.weight = nn.Parameter(mod.a.weight.detach() * 0.9) ;; <v> = mod(z)
        w: mod.a.bias = None if flag else nn.Parameter(T.zeros(3)) ;; <v> = mod.a(z)
        w: mod.a = nn.Linear(3, 3) ;; <v> = mod(z)
        w: mod.layers[1] = nn.ReLU() if flag else nn.Tanh() ;; <v> = mod(z)
        w: mod.scale = <t>.detach().mean() ;; <v> = mod(z)
        w: mod.seen.add_(<n>) ;; <v> = mod.seen * 2
        w: <v> = Blocks(<k>)(z)
        w: <v> = Blocks(2).eval()(z) ;; log.append(<v>.requires_grad)
        w: <v> = nn.ModuleDict({'a': mod.a})['a'](z)
        w: for <v>n, <v>p in mod.named_parameters(): ;;     if 'bias' in <v>n: <v>p.requires_grad_(False) ;; <v> = mod(z)
        w: <v> = copy.deepcopy(mod)(z)
        w: <v> = T.cat([pp.reshape(-1) for pp in mod.parameters()])[:3] * 2
    """),
}  # fmt: skip
