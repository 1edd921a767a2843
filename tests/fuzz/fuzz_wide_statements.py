"""Statements of random programs, by kind; see fuzz_grammar.py for the holes.

Control flow operators; classes with descriptors, metaclasses, arithmetic; generators that are thrown into; text; modules of
other kinds, optimizers, hooks, transforms in each other, double backward inside; compiled functions in compiled functions.
"""

# ruff: noqa: E501

from __future__ import annotations

from fuzz_templates import templates as _lines

STATEMENTS: dict[str, list[str]] = {
    "several dtypes": _lines("""
        w: <v> = hf * <t> ;; log.append(<v>.dtype)
        w: <v> = hf + <n>
        w: <v> = hf.exp() * hf.sum()
        w: <v> = (hf * <n>).softmax(0) + hf.mean()
        w: <v> = hf.float() * <e>
        w: <v> = T.where(mask, <t>, <e>)
        w: <v> = T.where(mask, <t>, <n>)
        w: <v> = <t>[mask] * 2
        w: <v> = <t>.masked_fill(~mask, <n>)
        w: <v> = <t> * mask + u8
        w: <v> = mask.sum() * <t> + mask.float().mean()
        w: <v> = mask & (<e> > <f>) | mask
        w: <v> = u8 + <n>
        w: <v> = u8 * u8 - 1
        w: <v> = u8 // 2 + u8 % 3
        w: <v> = u8 / 2
        w: <v> = u8 << 1
        w: <v> = u8.to(<d>) + q
        w: <v> = u8 * <t>
        w: <v> = (u8 > 1).sum() + u8.sum()
        w: <v> = u8.max() if u8.numel() else u8
        w: <v> = T.cat([u8.float(), <t>])
        w: <v> = T.stack([hf, <t>.half()])
        w: <v> = <t>.to(dt)
        w: <v> = T.zeros(x.shape[0], dtype=dt) + <t>
        w: <v> = <t>.to(dt) + hf
        w: <v> = T.tensor([1, 2, 3]).to(dt).sum() * <t>
        w: <v> = x * 2 if dt.is_floating_point else x
        w: <v> = T.result_type(hf, <t>) ;; log.append(<v>) ;; <v> = <t>.to(<v>)
        w: <v> = <t>.bitwise_not() if not <t>.dtype.is_floating_point else <t>
        w: <v> = (x + s0).clamp(<i>, 3)
        w: <v> = x.sum() + x.prod() ;; log.append(<v>.dtype)
        w: <v> = x.mean() if x.dtype.is_floating_point else x.float().mean()
        w: <v> = hf.clone() ;; <v> += <t>
        w: <v> = u8.clone() ;; <v> += 1 ;; <v>[:1] = <i>
        w: <v> = mask.clone() ;; <v> |= <t> > <f>
        w: <v> = T.arange(5, dtype=dt) * 2
        w: <v> = T.bincount(u8.abs().long()) if len(x) else x
        w: <v> = T.logical_xor(mask, u8)
        w: <v> = T.nonzero(mask) + 1
        w: <v> = u8.float().std() + hf.var()
        w: <v> = T.sum(<t>, dtype=T.float64) ;; log.append(<v>.dtype)
        w: <v> = <t>.cumsum(0, dtype=dt)
        w: <v> = T.bitwise_and(u8, <k>) + T.bitwise_xor(u8, u8 + 1)
        w: <v> = -u8 + abs(u8)
        w: <v> = mask * <n> + ~mask
        w: <v> = 1.5 * mask
        w: <v> = q + hf
        w: <v> = T.addmm(z, z[:, :1] * 2, z[:1])
        w: <v> = z.half() @ z.half().t()
        w: with T.autocast('cpu', dtype=T.float16): <v> = z @ z.t()
        w: with T.autocast('cpu', dtype=T.float16): <v> = F.softmax(F.linear(z, GP.expand(3, 3)), -1) ;; log.append(<v>.dtype)
        w: T.set_default_dtype(T.float64) ;; <v> = T.ones(2) * <f> ;; T.set_default_dtype(T.float32)
    """),
    "zero dims": _lines("""
        t: <v> = <t> * s0
        t: <v> = <t> + s0.exp() if s0.dtype.is_floating_point else <t> - s0
        w: <v> = s0 + <n>
        w: <v> = s0 * s0 - 1
        w: <v> = s0.item() * <t>
        w: <v> = s0.expand(3) + 1
        w: <v> = s0.view(1) * <t>
        w: <v> = s0.clone() ;; <v> += <n>
        w: <v> = T.stack([s0, s0]) * 2
        w: <v> = s0[None] + <t>
        w: <v> = x[0] + s0 ;; log.append(<v>.dtype)
        w: <v> = s0.sum() + s0.max() ;; log.append(<v>.shape)
        w: s0.add_(1) ;; <v> = x * 1
        w: <v> = s0 if s0 > <f> else s0 * 2
        w: <v> = s0.unsqueeze(0).softmax(0)
        w: <v> = s0 > <f>
        w: <v> = s0.to(dt) + s0
        w: <v> = T.tensor(<f>) * s0 ;; log.append(<v>.ndim)
        w: <v> = GS * <t> ;; GS.mul_(0.5)
        w: <v> = T.zeros(0) + s0
        w: <v> = T.zeros(0, 3).sum(0) + s0
        w: <v> = T.cat([T.zeros(0), <t>])
        w: <v> = <t>[:0].sum() + <t>[:0].prod()
        w: <v> = T.empty(0, x.shape[0]).mean(1)
        w: <v> = z[:0] @ z.t()
        w: <v> = z.t()[:, :0] @ z[:0]
        w: <v> = <t>.sum().reshape(()) * s0
    """),
    "views given": _lines("""
        t: pv.mul_(<f>) ;; <v> = <t> * 1
        t: x.add_(1) ;; <v> = <t> * pv.sum()
        w: <v> = pv * 2 ;; pv.zero_()
        w: <v> = pv ;; x.mul_(2)
        w: <v> = pv[::2] ;; <v>.add_(<n>)
        w: <v> = pv + pv.flip(0)
        w: <v> = pv.view(-1, 1) * 2
        w: <v> = pv[1:] - pv[:-1]
        w: <v> = pv.cumsum(0) + pv.sort()[0]
        w: <v> = T.cat([pv, x]) ;; pv += 1
        w: <v> = pv.expand(2, -1) ;; pv[:1] = <f>
        w: <v> = w3 * 2 ;; log.append(layout(<v>))
        w: <v> = w3.sum(1) + w3.mean()
        w: <v> = w3.transpose(0, 2).reshape(3, -1)
        w: <v> = w3[0] @ w3[1].t()
        w: <v> = w3 + z
        w: <v> = w3[:, :, 0] * x
        w: <v> = T.bmm(w3, w3.transpose(1, 2)).softmax(-1)
        w: <v> = w3.permute(1, 0, 2).contiguous().view(w3.shape[1], -1)
        w: <v> = w3.amax((0, 2)) - w3.var(0).sum(1)
        w: <v> = w3.flatten(1).norm(dim=1)
        w: <v> = w3[1] ;; <v>.mul_(<f>) ;; log.append(w3._version)
        w: w3[0, :1] = <n> ;; <v> = w3 * 1
        w: w3.mul_(<f>) ;; <v> = w3.clone()
        w: <v> = T.einsum('bij,bkj->bik', w3, w3)
        w: <v> = w3.unbind(2)[0] * x
        w: <v> = F.layer_norm(w3, (3,)) * <n>
        w: <v> = F.conv1d(w3.transpose(1, 2), T.ones(2, 3, 1))
        w: <v> = F.scaled_dot_product_attention(w3, w3, w3)
        w: <v> = w3[..., None].squeeze(-1).unflatten(0, (2, 1))
        w: <v> = im.relu().sum((2, 3))
        w: <v> = F.conv2d(im, T.ones(3, 2, 2, 2) * <f>, padding=1)
        w: <v> = F.max_pool2d(im, 2, ceil_mode=flag)
        w: <v> = F.avg_pool2d(im, (1, 2)) + 1
        w: <v> = F.adaptive_avg_pool2d(im, (1, 2)).flatten(1)
        w: <v> = F.interpolate(im, scale_factor=2, mode='bilinear')
        w: <v> = F.pad(im, (1, 0, 0, 1)).flip(3)
        w: <v> = F.batch_norm(im, None, None, training=True) if im.numel() > 2 else im
        w: <v> = F.unfold(im, (1, 2))
        w: <v> = im[:, 0].mul_(2) ;; <v> = im * 1
        w: <v> = im.flatten(2).transpose(1, 2) @ im.flatten(2)
        w: <v> = F.conv_transpose2d(im, T.ones(2, 1, 2, 2))
        w: <v> = F.group_norm(im, 2) + im.mean((2, 3), keepdim=True)
        w: <v> = im.unfold(3, 2, 1).sum(-1)
    """),
    "many given": _lines("""
        t: <v> = sum(ts, <t>)
        t: <v> = <t> ;; for <v>u in ts: <v> = <v> + <v>u.sum()
        t: ts.append(<e>) ;; <v> = ts[-1] * len(ts)
        t: ts[:] = [u * 2 for u in ts] ;; <v> = <t> * len(ts)
        t: for <v>u in ts: <v>u.add_(1) ;; <v> = <t> * 1
        w: <v> = T.cat(ts) if ts else x
        w: <v> = T.stack(ts[:2]).sum(0) if len(ts) > 1 else x
        w: <v> = many(<t>, *ts, scale=<n>)
        w: <v>, *<v>r = [*ts, <t>] ;; log.append(len(<v>r))
        w: <v> = max(ts, key=lambda u: u.numel()) if ts else x
        w: <v> = ts[0] is x if ts else flag ;; log.append(<v>) ;; <v> = x * <v>
        w: <v> = list(zip(ts, ts[1:])) ;; <v> = sum((a * b).sum() for a, b in <v>) + x
        w: ts.reverse() ;; <v> = ts[0] + 1 if ts else x
        w: <v> = dict(enumerate(ts)) ;; <v> = sum(<v>.values()) if <v> else x
        w: ts.pop() ;; <v> = x
        w: <v> = td['a'] * 2
        w: <v> = td.get('c', <t>) * 2 ;; td['c'] = <v>
        w: <v> = tree_sum({k: v for k, v in td.items() if k != 'w'})
        w: for k, v in td.items(): ;;     if isinstance(v, T.Tensor): td[k] = v * 2 ;; <v> = td['a']
        w: <v> = td['b'][0] if isinstance(td.get('b'), tuple) else td['a']
        w: <v> = {**td, 'a': <e>}['a'] ;; log.append(sorted(td))
        w: td['a'].mul_(<f>) ;; <v> = x + 1
        w: <v> = next(iter(td.values())) ;; del td['a']
        w: match td: ;;     case {'b': (u, k)}: <v> = u * k ;;     case {'a': u, **rest}: <v> = u + len(rest) ;;     case _: <v> = x
        w: <v> = getattr(T, key)(<t>)
        w: <v> = {'a': T.tanh, 'b': T.abs}.get(key, T.neg)(<t>)
        w: <v> = <t> * (2 if key == 'a' else 3) ;; log.append(key + str(<i>))
        w: <v> = GD[key] * <t> if key in GD else <t>
        w: setattr(o, key, <e>) ;; <v> = getattr(o, key) * 2
        w: match key: ;;     case 'a' | 'b': <v> = <t> + 1 ;;     case str(k) if len(k) == 3: <v> = <t> * 2 ;;     case _: <v> = <t>
        w: <v> = <t> if opt is None else <t> * opt
        w: <v> = <t> + (opt or <n>) if not isinstance(opt, T.Tensor) else opt * <t>
        w: <v> = <t> * opt[0] if isinstance(opt, list) else <t>
        w: <v> = F.linear(z, z[:1], None if opt is None else GP[:1])
        w: <v> = <t>.clamp(min=opt) if isinstance(opt, float) else <t>
        w: opt = opt if opt is not None else <e> ;; <v> = opt
        w: <v> = <t>[ix]
        w: <v> = z[ix] * 2
        w: <v> = <t> * 1 ;; <v>[ix] = <n>
        w: <v> = z * 1 ;; <v>[ix] += 1
        w: <v> = [1, 2, 3][ix] ;; log.append(<v>) ;; <v> = x
        w: <v> = z[ix, 0]
        w: <v> = z[..., ix].sum()
        t: <v> = <t> * num
        t: <v> = num - <t> ** 2
        t: <v> = <t>.add(num) / 3 ;; log.append(type(num).__name__)
        w: <v> = T.tensor(num) ;; log.append(<v>.dtype)
        w: <v> = q * num
        w: <v> = T.full((2,), num) ;; log.append((<v>.dtype, num == 1))
        f: <v> = num * 2 + <f>
        w: <v> = x.new_tensor([num, 1])
        - log.append(f'{num} {num!r:>6} {num:.1f}')
        - log.append((bool(num), num > 1, isinstance(num, int)))
        t: <v> = <t> * num if num else <t>
        t: <v> = fnc(<t>)
        t: <v> = fnc(fnc(<t>) * <n>) + fnc(<e>)
        t: <v> = apply_all([fnc, T.cos], <t>)
        t: <v> = functools.reduce(lambda u, f: f(u), [fnc] * <k>, <t>)
        t: <v> = T.func.grad(lambda u: fnc(u).sum())(<t>)
        t: <v> = checkpoint(fnc, <t>, use_reentrant=False)
        - log.append(getattr(fnc, '__name__', '?'))
        t: <v> = list(map(fnc, [<t>, <e>]))[-1]
        t: <v> = ob.run(<t>)
        t: <v> = ob.step(<e>) * ob.factor
        t: ob.k = ob.k + 1 ;; <v> = ob.run(<t>)
        t: type(ob).factor = <f> ;; <v> = ob.run(<t>)
        t: ob.factor = <f> ;; <v> = ob.run(<t>) ;; del ob.factor
        t: <v> = Add.step(ob, <t>) if isinstance(ob, Add) else <t>
        t: <v> = type(ob)(<n>).run(<t>)
        - log.append((repr(ob), isinstance(ob, Mul), [c.__name__ for c in type(ob).__mro__]))
        t: ob.run = lambda u: u * 3 ;; <v> = ob.run(<t>)
        t: ob.__class__ = Mul ;; <v> = ob.run(<t>)
    """),
    "control flow": _lines("""
        t: <v> = T.cond(<t>.sum() > <f>, lambda u: u * 2, lambda u: u - 1, (<e>,))
        t: <v> = T.cond(<t>.sum() > <f>, lambda u, w: u * w, lambda u, w: u - w, (<t>, <e>))
        t: <v> = T.cond(T.tensor(flag), lambda u: u.sin() * <n>, lambda u: u.cos() + <n>, (<t>,))
        t: <v> = T.cond(flag, lambda u: u.exp(), lambda u: -u, (<t>,))
        t: <v> = T.cond(<t>.mean() > s, lambda: <t> * 2, lambda: <t> * s)
        t: <v> = T.cond(x.shape[0] > <k>, lambda u: u + 1, lambda u: u * 2, (<t>,))
        t: <v>, <v>b = T.cond(<t>.sum() > 0, lambda u: (u * 2, u.sum()), lambda u: (u - 1, u.max()), (<t>,)) ;; <v> = <v> + <v>b
        t: _, <v> = T.while_loop(lambda k, u: k < <k>, lambda k, u: (k + 1, u * 0.5 + <f>), (T.tensor(0), <t> * 1))
        t: _, <v> = T.while_loop(lambda k, u: (k < 3) & (u.sum() < 5), lambda k, u: (k + 1, u + <t>.abs()), (T.tensor(0), <e> * 1))
        t: <v>, <v>b = C.scan(lambda c, a: (c + a * <f>, c * 2), <t>, T.stack([<t>, <e>])) ;; <v> = <v> + <v>b.sum(0)
        w: <v>, <v>b = C.scan(lambda c, a: (c * 0.5 + a, c.tanh()), T.zeros(3), z)
        w: <v>, <v>b = C.scan(lambda c, a: (c + a * s, c + n), T.zeros(3), z, reverse=flag)
        w: <v> = C.map(lambda u: u.sin() * <n>, z)
        t: <v> = C.map(lambda u, w: u * w.sum(), x, z[:1])
        t: <v> = C.associative_scan(lambda a, b: a * b, <t>, 0)
        w: <v> = C.associative_scan(lambda a, b: a + b, z, 0, reverse=True)
        t: <v> = T.func.grad(lambda u: T.cond(u.sum() > 0, lambda u: u * u, lambda u: u ** 3, (u,)).sum())(<t>)
        w: <v> = T.func.vmap(lambda u: T.cond(u.sum() > 0, lambda u: u * 2, lambda u: u - 1, (u,)))(z)
        w: <v>g = <t>.detach().requires_grad_() ;; <v> = C.scan(lambda c, a: (c * a, c), T.ones(()), <v>g)[1] ;; <v>.sum().backward() ;; <v> = <v>g.grad
        t: <v> = T.cond(<t>.sum() > 0, helper, lambda u, k: u - k, (<t>, T.tensor(2.0)))
    """),
    "objects": _lines("""
        t: <v>o = Typed(<k> + 1) ;; <v> = <t> * <v>o.rate ;; log.append(<v>o.sets)
        t: <v>o = Typed() ;; <v> = x ;; try: ;;     <v>o.rate = <i> ;;     <v> = <t> * <v>o.rate ;; except ValueError as e: log.append(str(e))
        t: <v>o = Typed() ;; <v>o.u = <t> ;; del <v>o.u ;; <v> = <t> + <v>o.sets ;; log.append(<v>o.x_abc)
        t: <v>o = Bag(a=<t>, b=<n>) ;; <v> = <v>o['a'] * <v>o['zz'] ;; log.append(len(<v>o))
        t: <v>o = Bag(a=<t>) ;; <v>o['b'] = <e> ;; <v> = <v>o.total() ;; lst.append(<v>o)
        t: <v>o = Rows() ;; <v>o.append(<t>) ;; <v>o.extend([<e>]) ;; <v> = sum(<v>o) * <v>o.seen ;; lst.append(<v>o)
        t: <v> = (Num(<n>) + <t>).v
        t: <v> = <t> * Num(<n>)
        t: <v> = (<n> + Num(<t>)) * 2
        t: <v>o = Num(<t>) ;; <v>o += <n> ;; <v> = <v>o.v
        t: <v> = Num(2) @ <t> ;; log.append(Num(1)[<i>])
        t: <v> = <t> * (2 if Num(<i>) else 3) ;; log.append(f'{Num(<I>):x}')
        t: <v> = <t> * float(Num(<n>)) + [1, 2, 3, 4][Num(<k>)]
        t: <v> = <t> * min(Num(<n>), Num(<n>)).v ;; log.append(Num(<i>) in {Num(1): 2})
        t: <v> = sum(Count(<t>, <k>), <t>)
        t: <v>o = Count(<t>, 3) ;; <v> = next(<v>o) + next(<v>o) ;; lst.append(<v>o)
        t: <v>o = Count(<t>, <k>) ;; <v> = x ;; for <v> in <v>o: ;;     if <c>: break ;; log.append(<v>o.n)
        t: <v> = <t> * Made.extra + Made.twice ;; log.append(Made(<i>).u)
        t: class <v>c(Made, extra=<k>): pass ;; <v> = <t> * <v>c.extra ;; log.append(Made.made)
        t: class <v>c(Both): ;;     def step(self, u): return super().step(u) + self.k ;; <v> = <v>c(<n>).run(<t>)
        t: <v>o = [Rank(<i>, <t>), Rank(<i>, <e>)] ;; <v> = max(<v>o).u ;; log.append(sorted(<v>o)[0].key)
        t: <v>o = Rank(<i>, <t>) ;; <v>o.u = <v>o.u * 2 ;; <v> = <v>o.u ;; lst.append(<v>o)
        t: <v> = Child(<t>, <i>, w=<n>).scaled(<n>).x
        t: <v>o = Child(<t>) ;; <v> = <v>o.x * <v>o.total ;; lst.append(dataclasses.asdict(<v>o))
        t: <v> = <t> * (2 if Mode(<k>) & Mode.A else 3) ;; log.append(Mode(<k>).name)
        t: <v> = Kind('sin' if flag else 'cos').fn()(<t>)
        t: <v> = sized(<t>) * <t> + sized(<i>) + sized([1]) + sized(None)
        t: <v> = defaulted(<t>) + defaulted(<e>, at=<n>)
        t: defaulted.__defaults__[0][0] += 1 ;; <v> = defaulted(<t>)
        t: <v> = counted(<t>) + counted(<t>, <n>) ;; log.append(counted.calls)
        t: counted.calls = <i> ;; <v> = counted(<t>)
        t: <v> = ACC(<t>.sum().item()) * <t>
        t: <v> = ACC(<i>) + <t>
        t: <v>o = SimpleNamespace(u=<t>, k=<n>) ;; <v>o.k += 1 ;; <v> = <v>o.u * <v>o.k ;; lst.append(<v>o)
        t: <v>o = types.MethodType(lambda self, u: u * self.k, o) ;; <v> = <v>o(<t>)
        t: <v> = operator.attrgetter('k')(o) * operator.itemgetter(0)([<t>, 1])
        t: <v> = operator.methodcaller('mul', <n>)(<t>)
        t: <v> = functools.partial(functools.partial(helper, <t>), c=<n>)(<n>)
        t: <v> = copy.copy(o).scale(<t>) ;; log.append(copy.deepcopy(lst) == lst if not lst else 0)
        t: <v>o = copy.deepcopy({'u': [<t>.detach()], 'k': <n>}) ;; <v>o['u'][0].mul_(2) ;; <v> = <v>o['u'][0] * <v>o['k']
        t: <v>o = weakref.ref(o) ;; <v> = <v>o().scale(<t>)
        t: <v>o = collections.ChainMap({'a': <t>}, GD) ;; <v> = <v>o['a'] * <v>o['b'] ;; <v>o['new'] = 1
        t: <v>o = collections.defaultdict(lambda: <t>) ;; <v> = <v>o['a'] + <v>o['b'] ;; log.append(len(<v>o))
        t: <v>h = [] ;; for <v>k in (3, <i>, 1): heapq.heappush(<v>h, <v>k) ;; <v> = <t> * heapq.heappop(<v>h)
        t: <v> = <t> * bisect.bisect([0, 1, 2], <n>)
        t: <v> = typing.cast(int, <n>) * <t> ;; log.append(isinstance(<n>, (int | float)))
        t: o.__class__ = type(o) ;; <v> = o(<t>)
        t: with patched(Obj, 'cls_k', <i>): <v> = <t> * Obj.cls_k
        t: with patched(o, 'k', <n>) as <v>old: <v> = o(<t>) * <v>old
        t: <v> = <t> * GK + bump_gk()
        t: <v> = <t> * GK + (0 if GNONE is None else GNONE)
        t: <v> = GFN(<t>)
        t: <v> = <t> * GP.sum() ;; log.append(GP.requires_grad)
        t: <v> = (z * GP).sum(1) * GS
    """),
    "generators": _lines("""
        t: <v>g = careful(<t>, log) ;; <v> = next(<v>g) ;; <v> = <v>g.throw(ValueError('v', 1)) ;; <v>g.close()
        t: <v>g = careful(<t>, log) ;; <v> = next(<v>g) ;; <v>g.close() ;; log.append('closed')
        t: <v>g = careful(<t>, log) ;; <v> = x ;; for <v> in <v>g: pass
        t: <v>g = averager(<t>) ;; next(<v>g) ;; <v> = <v>g.send(<e>) + <v>g.send(<n>)
        t: <v>g = averager(<t>) ;; <v> = next(<v>g) ;; try: <v>g.send(None) ;; except StopIteration as e: log.append(e.value)
        t: <v>g = delegating(<t>, log) ;; next(<v>g) ;; <v> = <v>g.send(<e>) ;; <v> = <v>g.send(None)
        t: def <v>g(): ;;     got = yield <t> ;;     while got: ;;         got = yield <t> * got ;; <v>i = <v>g() ;; <v> = next(<v>i) ;; <v> = <v>i.send(<k> + 1)
        t: def <v>g(): ;;     for k in range(<k> + 1): ;;         with Timer(log): yield <t> * k ;; <v> = list(<v>g())[-1]
        t: def <v>g(): ;;     try: yield <t> ;;     finally: log.append('f') ;; <v> = next(<v>g()) ;; log.append('after')
        t: <v> = sum((u * k for k, u in enumerate(ts)), <t>)
        t: <v>a, <v>b = itertools.tee(gen(<t>, 2)) ;; <v> = sum(<v>a) * next(<v>b)
        t: <v> = sum(itertools.starmap(lambda u, k: u * k, [(<t>, <n>), (<e>, 2)]))
        t: <v> = sum(u for u, k in itertools.zip_longest([<t>, <e>], [1], fillvalue=0) if k is not None)
        t: <v> = sum(a * b for a, b in itertools.pairwise([<t>, <e>, <t>]))
        t: <v> = <t> + sum(k for k in itertools.takewhile(lambda k: k < <i>, range(4)))
        t: <v> = sum(len(list(g)) for _, g in itertools.groupby([1, 1, <i>])) * <t>
        t: <v> = <t> ;; for a, b in itertools.combinations([1, <n>, 2], 2): <v> = <v> + a * b
        t: <v> = sum(itertools.chain.from_iterable([[<t>], gen(<e>, 1)]))
        t: <v>c = itertools.cycle([1, <n>]) ;; <v> = <t> * next(<v>c) + next(<v>c)
        t: <v> = <t> ;; for <v>u in iter(lambda: next(ACCIT, None), None): <v> = <v> + <v>u
        t: <v> = <t> ;; for k in zip([1, 2], [<i>, 3], strict=True): <v> = <v> * sum(k)
        t: <v> = <t> ;; try: ;;     for k in zip([1, 2], [<i>], strict=True): <v> = <v> * sum(k) ;; except ValueError as e: log.append(str(e))
        t: <v>f = [lambda u: u * k for k in range(3)] ;; <v> = <v>f[0](<t>) + <v>f[1](<e>)
        t: <v> = (lambda *a, **k: a[0] * len(a) + sum(k.values()))(<t>, *ts[:1], c=<n>)
    """),
    "errors": _lines("""
        t: <v> = x ;; with catching(log): ;;     <v> = <t> * 2 ;;     if <c>: raise ValueError(<i>) ;;     <v> = <v> + 1
        t: <v> = x ;; try: ;;     try: <v> = <t>.view(77) ;;     finally: log.append('inner') ;; except RuntimeError as e: log.append(type(e.__context__))
        t: <v> = x ;; try: raise KeyError('a') from ValueError(<i>) ;; except KeyError as e: log.append((e.args, e.__cause__.args, e.__suppress_context__))
        t: <v> = x ;; try: ;;     try: 1 // (n - n) ;;     except ZeroDivisionError as e: raise Stop(<i>) from e ;; except Stop as e: <v> = <t> * e.value ;; log.append(type(e.__cause__))
        t: <v> = x ;; try: ;;     raise ExceptionGroup('g', [ValueError(<i>), KeyError('k')]) ;; except* ValueError as e: log.append(len(e.exceptions)) ;; except* KeyError: <v> = <t> * 2
        t: <v>e = ValueError('q', <i>) ;; <v>e.add_note('note') ;; <v> = x ;; try: raise <v>e ;; except ValueError as e: log.append((e.__notes__, e is <v>e)) ;; <v> = <t> + 1
        t: def <v>f(u): ;;     try: return u * 2 ;;     finally: log.append('left') ;; <v> = <v>f(<t>)
        t: def <v>f(u): ;;     for k in range(3): ;;         try: ;;             if k == <i>: continue ;;             if k > <i>: break ;;             u = u + k ;;         finally: log.append(k) ;;     return u ;; <v> = <v>f(<t>)
        t: def <v>f(u): ;;     with Timer(log): ;;         if <c>: return u * 2 ;;         return u + <n> ;; <v> = <v>f(<t>)
        t: <v> = <t> ;; while True: ;;     try: ;;         <v> = fallible(<v>, n) ;;         break ;;     except Stop as e: ;;         n = n - 1
        t: <v> = x ;; try: <v> = Typed(-1).rate * x ;; except ValueError as e: log.append(str(e))
        t: <v> = x ;; try: <v> = Abstract(1) ;; except TypeError as e: log.append('abstract')
        t: <v> = x ;; try: <v> = <t> * None ;; except TypeError: log.append('type') ;; else: log.append('no')
        t: <v> = x ;; try: <v> = <t>.no_such ;; except AttributeError as e: log.append(e.name)
        t: <v> = x ;; try: <v> = <t>[<i>, 0] ;; except IndexError as e: log.append(str(e))
        t: <v> = x ;; try: <v> = z @ <t>[:<i>] ;; except RuntimeError as e: log.append(str(e))
        t: <v> = x ;; try: <v> = <t>.add_(z) ;; except RuntimeError as e: log.append(str(e))
        t: <v> = <t> * 1 ;; try: ;;     <v>.mul_(2) ;;     <v>.add_(T.ones(5, 5)) ;; except RuntimeError as e: log.append(len(str(e)))
        t: <v> = x ;; try: ;;     <v>l = T.ones(2, requires_grad=True) ;;     <v>l.add_(1) ;; except RuntimeError as e: log.append(str(e))
        t: <v> = x ;; try: ;;     <v>y = <t>.exp() ;;     <v>y.add_(1) ;;     <v>y.sum().backward() ;; except RuntimeError as e: log.append(str(e)[:40])
        t: <v> = x ;; try: T.autograd.grad(<t>.sum(), y) ;; except RuntimeError as e: log.append(str(e)[:40])
        t: assert x.ndim == 1, f'{x.ndim}' ;; <v> = <t>
        t: <v> = x ;; try: assert <c>, log ;; except AssertionError as e: log.append(len(e.args))
        t: try: del <v>q ;; except NameError as e: log.append(type(e).__name__) ;; <v> = <t>
        t: <v> = <t> if <c> else undefined_thing
    """),
    "text": _lines("""
        - log.append(f'{x.shape} {<t>.dtype} {len(ts)}')
        - log.append(f'{<F>=} {<I>:+d} {<I>:08b} {<F>:e} {<F>:%}')
        - log.append(f'{key!r:>8}|{key:^6}|{key:*<5}')
        - log.append('{0} {1:>{w}} {k[a]}'.format(<i>, key, w=<k> + 4, k=GD))
        - log.append('%s %r %05.1f %x' % (key, key, <f>, abs(<i>)))
        - log.append(string.Template('$a $b').substitute(a=<i>, b=key))
        - log.append(key.upper().center(7, '-').split('-'))
        - log.append(json.dumps({'k': <i>, 'f': [1.5, None, flag]}))
        - log.append(json.loads('[1, {"a": 2}]')[1]['a'] + <i>)
        - log.append(' '.join(sorted({str(v) for v in (<i>, 1, key)})))
        - log.append(key.startswith(('a', 's')) and key.find('i'))
        - log.append(bytes([abs(<i>) % 200]).hex() + key.encode().decode())
        - log.append((abs(<i>).bit_length(), (<i>).__class__.__name__, (3.5).is_integer()))
        - log.append(repr(<t>.detach().sum() * 0 if x.numel() < 4 else 0))
        - log.append(str(q.shape) + str(mask.dtype) + str(T.Size([<k>, 2])))
        - log.append(f'{s0:.2f}' if s0.dtype.is_floating_point else f'{s0}')
        - log.append(f'{x.sum().item():.2f} {x.numel()}')
        - log.append(str(inspect.signature(helper)) + helper.__name__ + type(o).__qualname__)
        - log.append(complex(<i>, 1) * 2)
        - log.append(slice(<i>, None, 2).indices(5))
        - log.append((sum(range(<i>)), list(range(<i>, 0, -1)), range(5)[<k>]))
        - log.append((float(<f>).__round__(1), divmod(<f>, 0.7), math.modf(<f>)[1]))
        - log.append(min((<n>, <n>), default=0) if <c> else max([], default=<n>))
        - log.append([*range(<k>), *key, *{'z': 1}])
        - log.append((lst and 1) or (log and 2) or key)
        - log.append(<i> < <i> <= <i> != <i>)
        - log.append(eval('1 + 2') + len(dir(o)))
        - print(key, <i>, end='|') ;; print(f'{<F>:.1f}')
        - log.append(vars(ob)['k'] if ob.__dict__ else None)
        - log.append((locals().get('key'), 'x' in locals()))
    """),
    "modules": _lines("""
        w: <v> = run_net(NET2, w3, z)
        w: NET2.train(flag) ;; <v> = run_net(NET2, w3, z)
        w: <v> = run_net(NET2, w3 * <f>, z) ;; <v>.pow(2).sum().backward() ;; log.append([p.grad is None for p in NET2.parameters()])
        w: NET2.eval() ;; with T.no_grad(): <v> = run_net(NET2, w3, z)
        w: <v> = run_net(NET2, w3, z) ;; <v> = T.autograd.grad(<v>.sum(), list(NET2.parameters()), create_graph=True, allow_unused=True)[0] * 2
        w: <v> = run_net(NET2, w3, z) ;; with T.no_grad(): ;;     for p in NET2.parameters(): p.mul_(0.9)
        w: <v> = run_net(NET2, w3, z) ;; log.append(sorted(NET2.state_dict()))
        w: <v> = TIED(z)
        w: <v> = TIED(z, 'a') + TIED.alias.norm
        w: TIED.one.lazy = None ;; <v> = TIED(z)
        w: <v> = TIED(z).sum() ;; <v>.backward() ;; <v> = TIED.one.w.grad
        w: <v> = TIED.two(z, gain=<n>) ;; log.append(TIED.two.log)
        w: <v> = sum(p.sum() for p in TIED.parameters()) * len(list(TIED.parameters()))
        w: TIED.stages['b'] = TIED.one ;; <v> = TIED(z)
        w: TIED.two.w = nn.Parameter(TIED.two.w.detach() * 2) ;; <v> = TIED(z)
        w: TIED.one.w.data.fill_(<f>) ;; <v> = TIED(z)
        w: <v> = TIED(z) ;; TIED.load_state_dict({k: u * 0.5 for k, u in TIED.state_dict().items()})
        w: <v> = TIED.one.mean * 2 ;; TIED.one.mean = T.zeros(3) ;; <v> = <v> + TIED.one(z).sum()
        w: for k, m in TIED.named_modules(): log.append(k) ;; <v> = z
        w: <v> = nn.ModuleList([TIED.one, nn.Tanh()])[<k> % 2](z)
        w: <v> = nn.Sequential(collections.OrderedDict(a=nn.Tanh(), b=TIED.one))(z)
        w: TIED.requires_grad_(flag) ;; <v> = TIED(z)
        w: <v> = TIED.to(T.float64)(z.double()) ;; TIED.to(T.float32)
        w: <v>h = TIED.one.register_forward_hook(lambda m, a, r: r + <n>) ;; <v> = TIED(z) ;; <v>h.remove()
        w: <v>h = TIED.one.register_full_backward_pre_hook(lambda m, g: log.append('pre')) ;; <v> = TIED(z) ;; <v>.sum().backward() ;; <v>h.remove()
        w: <v>h = TIED.one.w.register_post_accumulate_grad_hook(lambda p: log.append('acc')) ;; TIED(z).sum().backward() ;; <v> = TIED.one.w.grad ;; <v>h.remove()
        w: <v>h = TIED.register_forward_pre_hook(lambda m, a, k: (a, {'which': 'a'}), with_kwargs=True) ;; <v> = TIED(z) ;; <v>h.remove()
        w: <v> = T.func.functional_call(TIED, {'one.w': GP * 2}, (z,))
        w: <v> = T.func.grad(lambda p: T.func.functional_call(TIED.one, {'w': p}, (z,)).pow(2).sum())(GP.detach())
        w: <v> = nn.Embedding(4, 3, _weight=T.ones(4, 3))(q % 4) * <n>
        w: <v> = nn.Linear(3, 2)(z) + nn.LayerNorm(2)(z[:, :2])
        w: <v> = nn.CrossEntropyLoss(reduction='none')(z, q % 3) + nn.MSELoss()(x, y)
        w: <v> = nn.Flatten()(w3) * 2
        w: <v> = nn.Module.__call__(mod.a, z)
    """),
    "optimizers": _lines("""
        w: <v>o = T.optim.<opt>([GP], lr=0.05) ;; for k in range(2): ;;     <v>o.zero_grad() ;;     (z * GP).pow(2).sum().backward() ;;     <v>o.step() ;; <v> = GP * 1
        w: <v> = (z * GP).pow(2).mean() ;; <v>.backward() ;; OPT2.step() ;; OPT2.zero_grad()
        w: OPT2.zero_grad() ;; <v> = (z @ GP - <t>).pow(2).mean() ;; <v>.backward() ;; OPT2.step() ;; log.append(len(OPT2.state))
        w: <v> = (z @ GP).sum() ;; <v>.backward() ;; for g in OPT2.param_groups: g['lr'] = abs(s) % 0.1 ;; OPT2.step()
        w: <v> = (z * GP).sum() ;; <v>.backward() ;; OPT2.step() ;; SCHED2.step() ;; log.append(SCHED2.get_last_lr())
        w: <v> = (z * GP).sum() ;; <v>.backward() ;; OPT2.step() ;; OPT2.load_state_dict(OPT2.state_dict())
        w: for k in range(2): ;;     OPT2.zero_grad(set_to_none=flag) ;;     <v> = F.cross_entropy(z * GP, q % 3) ;;     <v>.backward() ;;     nn.utils.clip_grad_norm_([GP], 0.5) ;;     OPT2.step()
        w: <v> = (z * GP).sum() ;; <v>.backward() ;; GP.grad = None if flag else GP.grad * 2 ;; OPT2.step()
        w: with T.no_grad(): ;;     GP.sub_(0.1 * z.sum(0)) ;; <v> = GP * 2
        w: GP.grad = T.ones(3) ;; OPT2.step() ;; <v> = GP.detach() * 1
        w: GP.requires_grad_(flag) ;; <v> = (z * GP).sum() ;; if <v>.requires_grad: ;;     <v>.backward() ;;     OPT2.step()
        w: OPT2.add_param_group({'params': [TIED.one.w], 'lr': 0.01}) if len(OPT2.param_groups) < 2 else None ;; <v> = (TIED(z) * GP).sum() ;; <v>.backward() ;; OPT2.step()
        w: <v>e = T.optim.swa_utils.AveragedModel(TIED.one) ;; <v>e.update_parameters(TIED.one) ;; <v> = <v>e.module.w * 2
    """),
    "gradients": _lines("""
        w: <v>g = <t>.detach().requires_grad_() ;; <v>f, = T.autograd.grad((<v>g ** 3).sum(), <v>g, create_graph=True) ;; (<v>f * <n>).sum().backward() ;; <v> = <v>g.grad
        w: <v>g = <t>.detach().requires_grad_() ;; <v>f, = T.autograd.grad(Cube.apply(<v>g).sum(), <v>g, create_graph=True) ;; <v>, = T.autograd.grad(<v>f.sum(), <v>g)
        w: <v>f, = T.autograd.grad((<t> * <e>).sum() + (x ** 2).sum(), x, create_graph=True) ;; <v> = (<v>f ** 2).sum()
        t: <v> = Cube.apply(<t>) + Cube.apply(<e>)
        t: <v> = Routed.apply(<t>, <e>, <n>)
        t: <v> = Routed.apply(<t>, <e>, <n>, 'add', (1, [2]))
        t: <v> = Routed.apply(<t>, <t>.detach(), num, 'mul' if flag else 'add')
        t: <v> = Routed.apply(<t>, GS, 2.0)
        w: <v>g = <t>.detach().requires_grad_() ;; <v>h = <v>g.register_hook(lambda g: g * <n>) ;; (<v>g * <t>).sum().backward() ;; <v>h.remove() ;; <v> = <v>g.grad
        w: <v>g = <t>.detach().requires_grad_() ;; <v>g.register_post_accumulate_grad_hook(lambda p: log.append(p.grad is not None)) ;; (<v>g * 2).sum().backward() ;; <v> = <v>g.grad
        w: <v>g = <t>.detach().requires_grad_() ;; <v>u = <v>g * 2 ;; <v>u.retain_grad() ;; (<v>u * <t>).sum().backward() ;; <v> = <v>u.grad + <v>g.grad
        w: <v>g = <t>.detach().requires_grad_() ;; (<v>g * 2).sum().backward() ;; <v>g.grad.zero_() ;; (<v>g ** 2).sum().backward() ;; <v> = <v>g.grad
        w: <v>g = <t>.detach().requires_grad_() ;; T.autograd.backward([(<v>g * 2).sum(), (<v>g ** 2).sum()]) ;; <v> = <v>g.grad
        w: <v>g = <t>.detach().requires_grad_() ;; (<v>g * <t>).backward(<t>.detach(), inputs=[<v>g]) ;; <v> = <v>g.grad
        w: <v> = T.autograd.grad([<t>.sum(), (<t> ** 2).sum()], [x], allow_unused=True, materialize_grads=flag)[0]
        w: <v> = T.autograd.grad(<t>.exp(), x, T.ones_like(x), retain_graph=True, allow_unused=True)[0]
        w: <v>u = <t> * 1 ;; <v>u.mul_(<e>.detach()) ;; <v>, = T.autograd.grad(<v>u.sum(), x, allow_unused=True)
        w: <v>u = <t> * 1 ;; <v>u[:1].mul_(2) ;; <v>, = T.autograd.grad(<v>u.pow(2).sum(), x, allow_unused=True)
        w: <v>u = T.zeros(x.shape[0]) ;; <v>u[:] = <t> * 2 ;; <v>, = T.autograd.grad(<v>u.sum(), x, allow_unused=True)
        w: <v> = T.func.jvp(T.func.grad(lambda u: (u ** 3).sum()), (<t>,), (<e>,))[1]
        w: <v> = T.func.vmap(T.func.vmap(lambda u: u * <n>))(z)
        w: <v> = T.func.vmap(lambda u: u + T.randn(1), randomness='different')(<t>)
        w: <v> = T.func.jacrev(T.func.jacfwd(lambda u: (u ** 2 * <f>).sum()))(<t>)
        w: <v> = T.func.vmap(lambda r: T.func.jacrev(lambda u: u * u.sum())(r))(z)
        w: <v> = T.func.grad(lambda u: T.func.grad(lambda w: (w ** 3).sum())(u).sum())(<t>)
        w: <v> = T.func.vmap(lambda i, r: r * i, in_dims=(0, None))(<t>, GP)
        w: <v> = T.func.vmap(lambda r: r[q[:1] % 3] * r.max())(z)
        w: <v> = T.func.vmap(lambda r: T.where(r > <f>, r, r.mean()))(z)
        w: <v> = T.func.linearize(lambda u: u.sin() * <n>, <t>)[1](<e>)
        w: <v> = T.func.grad(lambda d: (d['a'] * d['b'][0]).sum())({'a': <t>, 'b': [<e>]})['b'][0]
        w: <v> = T.func.vjp(lambda u, w: (u * w, u.sum()), <t>, <e>)[1]((<t>, T.ones(())))[0]
        w: <v> = T.func.grad_and_value(lambda u: (u * s).pow(2).sum())(<t>)[<k> % 2]
        w: <v> = T.autograd.functional.hvp(lambda u: (u ** 3).sum(), <t>.detach(), <e>.detach())[1]
        w: <v> = T.autograd.functional.vjp(lambda u: u.exp(), <t>.detach(), <t>.detach())[1]
        t: <v> = checkpoint(lambda u, w: (u * w).tanh() * <n>, <t>, <e>, use_reentrant=False)
        t: <v> = checkpoint(lambda u: checkpoint(lambda w: w.sin(), u, use_reentrant=False) * 2, <t>, use_reentrant=False)
        t: <v> = checkpoint(lambda u: u * GP.sum(), <t>, use_reentrant=False)
        t: <v> = checkpoint(lambda u: F.dropout(u, 0.5) * <n>, <t>, use_reentrant=False)
        t: with T.autograd.graph.save_on_cpu(): <v> = <t>.exp()
        t: with T.autograd.graph.saved_tensors_hooks(lambda u: u * 1, lambda u: u): <v> = <t> * <e>
        t: with T.no_grad(): <v>u = <t> * 2 ;; <v> = <v>u + <t>
        t: with T.inference_mode(): <v>u = <t> * 2 ;; <v> = <v>u.clone() + <t>
        t: <v> = <t>.detach().requires_grad_() * 2 ;; log.append((<v>.requires_grad, <v>.is_leaf))
        t: <v> = (<t> * 1).detach_() + <t>
        t: <v> = T.no_grad()(lambda u: u * 2)(<t>) + <e>
        t: <v> = T.autograd.forward_ad.unpack_dual(<t>).primal * 2
    """),
    "compiled inside": _lines("""
        t: <v> = COMPILE(lambda u: u * 2 + <n>)(<t>)
        t: <v>f = COMPILE(helper) ;; <v> = <v>f(<t>, <n>) + <v>f(<e>, k=2)
        t: @COMPILE ;; def <v>f(u, k=<n>): ;;     if u.sum() > <f>: return u * k ;;     log.append(k) ;;     return u + k ;; <v> = <v>f(<t>) + <v>f(<e>, 2)
        t: @COMPILE ;; def <v>f(u, n): return u if n <= 0 else <v>f(u * 0.5, n - 1) ;; <v> = <v>f(<t>, <k>)
        t: @COMPILE ;; def <v>f(u): raise Stop(<i>) ;; <v> = x ;; try: <v>f(<t>) ;; except Stop as e: <v> = <t> * e.value
        w: <v> = COMPILE(TIED)(z)
        w: <v> = COMPILE(mod.a)(z) * 2
        t: <v> = T.compiler.disable(lambda u: u * 2)(<t>) if hasattr(T.compiler, 'disable') else <t>
        t: <v> = T.func.grad(COMPILE(lambda u: (u ** 2).sum()))(<t>)
        t: <v> = checkpoint(COMPILE(lambda u: u.sin() * 2), <t>, use_reentrant=False)
        t: <v> = T.func.vmap(COMPILE(lambda u: u * <n>))(<t>)
        t: class <v>c: ;;     @COMPILE ;;     def m(self, u): self.k = getattr(self, 'k', 0) + 1; return u * self.k ;; <v>o = <v>c() ;; <v> = <v>o.m(<t>) + <v>o.m(<e>)
    """),
    "draws": _lines("""
        t: <v> = <t> * T.rand(x.shape, generator=T.Generator().manual_seed(n + 5))
        t: with T.random.fork_rng(): <v> = <t> * T.rand(1)
        t: <v> = F.dropout(<t>, 0.3) + F.dropout(<e>, 0.6) ;; log.append(T.rand(1).item())
        t: <v> = <t> + T.randn_like(<t>) * T.rand(())
        t: <v>r = T.get_rng_state() ;; <v> = <t> * T.rand(1) ;; T.set_rng_state(<v>r)
        w: <v> = T.randperm(x.shape[0]) ;; <v> = x[<v>]
        w: <v> = T.multinomial(T.rand(4) + 0.1, 2) + T.randint(0, <k> + 1, (2,))
        w: <v> = T.bernoulli(<t>.sigmoid())
        w: <v> = T.zeros(x.shape[0]).normal_() + T.empty(2).exponential_().sum()
        w: <v> = nn.init.uniform_(T.empty(3)) + nn.init.xavier_uniform_(T.empty(3, 3))
        w: <v> = T.distributions.Normal(<t>, 1.0).rsample() if hasattr(T, 'distributions') else x
        w: <v> = F.gumbel_softmax(z, dim=1, hard=flag)
        t: <v> = <t> * np.random.default_rng(n + 3).random() + random.gauss(0, 1)
        t: <v> = <t> * random.sample([1, 2, 3], 1)[0] + float(np.random.normal())
        w: <v> = F.scaled_dot_product_attention(w3, w3, w3, dropout_p=0.2)
        w: <v> = F.rrelu(<t>, training=flag) + F.alpha_dropout(<e>, 0.2, True)
    """),
}  # fmt: skip
