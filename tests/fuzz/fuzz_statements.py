"""Statements of random programs, by kind (numbers, tensors, containers, objects); see fuzz_grammar.py for the holes."""

# ruff: noqa: E501

from __future__ import annotations

from fuzz_templates import templates as _lines

STATEMENTS: dict[str, list[str]] = {
    "again": _lines("""
        - <t> = <E>
        - <t> = <E>
        - <t> += <e>
        - <t> *= <e>
        - <t> -= <n>
        - <t>, x = x, <t>
        - <t> = <t> if <c> else <t>
        - del s ;; s = 1.5
        - if (wal := <t>.shape[0]) > 1: n = wal
    """),
    "operator": _lines("""
        w: <v> = <op>
        w: <v> = <op>
        w: <v> = <op>
        w: <v> = <op> ;; log.append((tuple(<v>.shape), <v>.dtype) if isinstance(<v>, T.Tensor) else len(<v>))
    """),
    "view": _lines("""
        w: <v> = <view>
        w: <v> = <view>
        w: <v> = <view> ;; <v>.mul_(<f>)
        w: <v> = <view> ;; <t>.add_(<n>)
        w: <v> = <view> ;; <v>[...] = <f>
        w: <v> = <view> ;; <v> += 1
        w: <v> = <view> ;; <v>.zero_()
        w: <v> = <view> ;; <t>[0] = <n>
        w: <v> = <view> ;; <v>.copy_(<s>)
        w: <v> = <view> ;; <t> *= 2
        w: <v> = <view> ;; <v>.<p>
        w: <v> = <view> ;; o.t = <v> ;; <v>.add_(1)
        w: <v> = <view> ;; with T.no_grad(): <v>.mul_(2)
        w: <v> = <view> ;; x = x + <v>.sum() ;; <v>.fill_(<n>)
        w: <v> = <wide>
        w: <v> = <wide> ;; <v>.mul_(<f>)
        w: <v> = <wide> ;; z.add_(1)
        w: <v> = <wide> ;; z[:, 0] = x
        w: <v> = <wide> ;; z[<k>] = <f>
        w: <v> = <wide> ;; z[q % 2] += 1
        w: <v> = <wide> ;; <v>[..., 0] = 0.5
    """),
    "inplace": _lines("""
        - <t>.add_(<n>)
        - <t>.mul_(<f>)
        - <t>[0] = <n>
        - <t> += <t>
        - <t>.copy_(<e>)
        - <t>[<t> > <f>] = <n>
        - <t>[1:] = <t>[1:]
        - <t>[q] = <n>
        - T.add(<t>, <n>, out=<t>)
        - <t>.<p>
        - <t>.<p>
        - <t>.data.mul_(2)
        - <t>.index_add_(0, q, <t>)
        - <t>.masked_fill_(<t> > 1, <f>)
        - <t>.detach().mul_(<f>)
        - with T.no_grad(): <t>.mul_(<n>)
        - <t>.requires_grad_()
        - <t>.detach_()
        - <t>.uniform_()
        - <t>.data = <e>.detach()
        - GT.add_(0.1)
        - GT[1] = s
        - <t>.grad = None
        - <t>[:-1].add_(<t>[1:])
        - <t>.view(-1)[1:] *= <n>
        - <t>.zero_() ;; <t>.add_(<t>)
        - <t>[q[:1]] += <t>[:1]
        - <t>.index_fill_(0, q, <n>)
        - <t>.scatter_(0, q, <t>)
        - <t>.sub_(<t>, alpha=<n>)
        - <t>.clamp_(<f>, 1.5)
        - T.nn.init.constant_(<t>, <f>)
        - <t>.fill_(<s>)
        - <t>.requires_grad = False
        - q += 1 ;; q -= 1
        - <t>.unsqueeze_(0).squeeze_(0)
    """),
    "dtype": _lines("""
        w: <v> = <t>.to(<d>)
        w: <v> = T.tensor([<n>, <n>])
        w: <v> = T.zeros(<k>, dtype=<d>) + <n>
        w: <v> = q + <n>
        w: <v> = q * <n>
        w: <v> = q / <n>
        w: <v> = q // <n>
        w: <v> = q % <n>
        w: <v> = q ** <k>
        w: <v> = T.full((2,), <n>)
        w: <v> = (<t> > 0).sum()
        w: <v> = T.arange(<i>)
        w: <v> = T.tensor(<n>, dtype=<d>) * <t>
        w: <v> = T.as_tensor([<i>])
        - log.append(T.result_type(<t>, <n>))
        w: <v> = x.new_zeros(2)
        w: <v> = T.linspace(0, <n>, 3)
        w: <v> = T.tensor([<i>, <f>]).to(x.dtype)
        w: <v> = (q << 1) & <i>
        w: <v> = T.eye(<k>)
        w: <v> = <t>.long() + <t>
        w: <v> = <t>.half() * <n>
        w: <v> = T.tensor(<n>)
        w: <v> = T.tensor([[<n>], [<n>]]) + z[:1, :1]
        w: <v> = T.arange(<k>, <n>, 2)
        w: <v> = T.ones(<i>).to(<d>) - <n>
        w: <v> = (x > y) & (x < <f>) | (x == 0)
        w: <v> = x.bool() ^ y.bool()
        w: <v> = q.to(<d>) / 2
        w: <v> = T.promote_types(x.dtype, T.float64) == x.dtype, q.sum()
    """),
    "list": _lines("""
        - lst.append(<e>)
        - lst.append(<n>)
        - lst.insert(0, <n>)
        - lst.reverse()
        - lst.extend([<t>, <n>])
        - lst[0] = <e>
        - lst.pop()
        - del lst[-1]
        - lst += [<t>]
        - lst[1:] = [1, 2]
        - lst.clear()
        - lst = lst + [<n>]
        - log.append(lst.index(1))
        - lst *= <k>
        - log.append(lst[::-1][:1])
        - log.extend(lst[:1])
        - lst.append(lst[:1])
        - log.append(len(lst))
        - log.append(sorted([<i>, <i>, <i>], reverse=flag))
        - log.append(sorted([<i>, <i>], key=lambda v: -v))
        - lst.append(lst)
        - log.append((max(<i>, <i>), min([<f>, <i>])))
        - log.append(list(map(type, lst)))
        - lst[:] = [<t>]
        - GL.append(len(lst))
        - lst.remove(1)
        - log.append(lst.count(<i>))
        - log.append(lst.copy() == lst)
        - lst.append([<n>, [<t>]]) ;; lst[-1][1].append(<n>)
        - a, *b = lst or [0] ;; log.append(len(b))
        - lst.sort(key=str)
        - lst.append(tuple(lst[:1]))
        - log.append([1, 2, 3][<i>:])
        - log.append([*lst[:1], <i>])
        - lst[0] += 1
        - lst.insert(<k>, <t>)
        - lst.extend(range(<k>))
        - log.append(list(reversed(lst))[:1])
        - lst.append(<i>) ;; lst[-1] = lst[-1] * 2 ;; log.append(lst[-1])
        - for k2 in lst[:2]: log.append(type(k2).__name__)
        - lst.append(x) ;; x.add_(1)
    """),
    "dict": _lines("""
        - d['q<k>'] = <e>
        - d['k'] = <i>
        - d.pop('q1', None)
        - d.setdefault('q2', <n>)
        - GD['b'] = <f>
        - GL.append(<n>)
        - del d['q1']
        - d.update(q3=<n>)
        - d = {**d, 'z': 1}
        - d |= {'u': n}
        - log.append(list(d))
        - log.append(d.popitem()[0])
        - log.append([(k, v) for k, v in d.items() if isinstance(v, int)])
        - d[<i>] = <i>
        - log.append({v: k for k, v in d.items() if isinstance(v, int)})
        - log.append(d.get('q<k>'))
        - d.clear()
        - log.append(len(d.keys() | {'m'}))
        - d = dict(d)
        - d = dict(k=<i>, q1=x)
        - d[x.shape] = 1
        - GD['n'] = d
        - d['q<k>'] = d.get('q<k>', x) * 2
        - d['k'] += 1
        - d.setdefault('l', []).append(<n>)
        - log.append(sorted(d, key=str)[:2])
        - for kk, vv in list(d.items()): d[kk] = vv
        - log.append(d == {'k': <i>})
        - d[None] = <n> ;; d[1.5] = 2 ;; d[(1, n)] = 3
        - log.append(list(d.values())[:1])
        - d['q1'] = x ;; d['q1'].mul_(2)
        - log.append(dict.fromkeys([<i>, 2], 0))
        - log.append('k' in d and d['k'] == <i>)
        - d['self'] = d
        - d[True] = 'b' ;; log.append(d.get(1))
    """),
    "set": _lines("""
        - st.add(<i>)
        - st.discard(1)
        - log.append(<i> in st)
        - st |= {<i>}
        - log.append(sorted(st | {<i>}, key=str))
        - log.append(len(st))
        - dq.append(<e>)
        - dq.appendleft(<n>)
        - dq.rotate(1)
        - log.append(dq.pop())
        - dq.extend([1, 2])
        - log.append(len(dq))
        - st.clear()
        - dq[0] = 2
        - log.append(dq.popleft())
        - log.append(collections.Counter([<i>, <i>])[1])
        - dd = collections.defaultdict(list) ;; dd['u'].append(x) ;; lst.append(dict(dd))
        - st.update([<i>, <i>])
        - log.append(frozenset(v for v in st if isinstance(v, int)) >= {1})
        - log.append(sum(v for v in st if isinstance(v, int)))
        - od = collections.OrderedDict(a=1, b=<i>) ;; od.move_to_end('a') ;; log.append(list(od.items()))
        - st.remove(1)
        - log.append({1, 2} & st)
        - st -= {<i>}
        - log.append(dq.maxlen)
        - log.append(list(dq)[:1])
        - dq.clear()
        - for v2 in sorted(st, key=str): log.append(v2)
        - log.append(isinstance(st.pop(), (int, str)))
        - log.append(True in {1} | st)
    """),
    "attribute": _lines("""
        - o.k = <n>
        - o.t = <e>
        - o.items.append(<i>)
        - o.k += 1
        - Obj.cls_k += 1
        - o.items = [<t>]
        - setattr(o, 'u', <n>)
        - log.append(getattr(o, 'u', 7))
        - del o.k
        - o.cls_k = <i>
        - vars(o)['v'] = 1
        - o.me = o
        - o.items[0] = <n>
        - log.append(sorted(vars(o)))
        - sl = Slots(<n>) ;; sl.b = <n> ;; log.append(sl.a)
        - dv = Derived(<n>) ;; dv.both = <n> ;; log.append((dv.k, dv.auto1, len(dv), 1 in dv))
        - log.append(list(Derived(<i>, <i>)))
        - log.append((Derived(<i>) + <i>).both)
        - log.append(o == Obj(2))
        - o.fn = helper ;; log.append(o.fn(1))
        - lst.append(Derived(<n>))
        - o.scale = lambda v: v * 3
        - log.append(type(o).cls_k)
        - o.t = <t> ;; o.t.mul_(2)
        - delattr(o, 'k') if hasattr(o, 'u') else None
        - o.t = <t> ;; o.t = o.t + 1 ;; log.append(o.t is <t>)
        - sl = Slots(<t>, o) ;; sl.b.k = <i> ;; lst.append(sl)
        - o.__dict__.update(w=<i>)
        - log.append(o.__class__.__name__)
        - o.child = Obj(<i>) ;; o.child.k += 1 ;; o = o.child
        - log.append(Derived(<i>).nope)
        - log.append(o.items[-1:] == [<i>])
        - o.items += [<n>]
        - o.pair = (<t>, <i>) ;; log.append(o.pair[1])
    """),
    "records": _lines("""
        t: <v>p = Point(<e>, <i>) ;; <v>p.items.append(<n>) ;; <v> = <v>p.scaled(<n>).x * <v>p.total
        t: <v>p = Point(<t>, <i>) ;; lst.append(<v>p) ;; <v>p.k = <n> ;; <v> = <v>p.x + <v>p.k
        t: <v>p = Pair(<t>, b=<n>)._replace(b=<n>) ;; <v>, <v>b = <v>p ;; log.append(<v>b)
        t: <v>p = Pair(<e>) ;; <v> = <v>p[0] + <v>p.b ;; lst.append(<v>p)
        t: <v>p = Pair(<e>, <i>) ;; <v> = <v>p.a ;; log.append((<v>p._fields, <v>p._asdict()['b']))
        t: <v>p = Color.RED if flag else Color.BLUE ;; <v> = <t> * <v>p.value ;; log.append(<v>p.name)
        t: <v>p = Color(n % 2 + 1) ;; <v> = <t> * <v>p.value ;; d[<v>p] = 1
        t: <v>p = Level(3) ;; <v> = <t> * <v>p ;; log.append(<v>p in (Color.RED, 3))
        t: <v>p = list(Color)[n % 2] ;; <v> = <t> + <v>p.value ;; lst.append(<v>p)
        t: <v>p = Fixed(<e>, <i>) ;; <v> = <v>p.a + <v>p.b ;; lst.append(<v>p)
        t: <v>p = Fixed(1, <i>) ;; <v> = <t> * <v>p.b ;; log.append(hash(<v>p) == hash(Fixed(1, 2)))
        t: <v>p, *<v>r = [<t>, <t>, <n>] ;; <v> = <v>p * <n> + <v>r[0] ;; lst.extend(<v>r)
        t: (<v>p, (<v>, <v>r)) = (<n>, (<t>, <n>)) ;; <v> = <v> * <v>p + <v>r
        t: <v>p = Point(<t>) ;; <v> = <v>p.x ;; log.append(Point(1, <i>) == Point(1, 2))
        t: <v>p = collections.namedtuple('NT', 'a b')(<t>, <n>) ;; <v> = <v>p.a * <v>p.b
        t: <v>p = Pair(<t>, Pair(<n>, <t>)) ;; <v> = <v>p.b.b * <v>p.b.a
    """),
    "global": _lines("""
        f: <v> = bump(<n>)
        f: GL.append(G) ;; <v> = G
        f: GD['a'] += 1 ;; <v> = GD['a']
        f: <v> = globals()['G']
        f: <v> = GT.sum().item()
        f: <v> = bump() + bump(<k>)
        - GL += [<i>] if False else []
        - GL.insert(0, x.shape[0])
        f: <v> = len(GL) + G
    """),
    "number": _lines("""
        i: <v> = <i> + <i>
        i: <v> = <i> - <i>
        i: <v> = <i> * <i>
        f: <v> = <f> + <n>
        f: <v> = <f> * <n>
        f: <v> = <f> - <n>
        i: <v> = 0 ;; <v> += <i>
        i: <v> = <i> if <c> else <i>
        f: <v> = <f> if <c> else <f>
        - n = n + 1
        - s = s * 0.5
        i: <v>, <v>b = divmod(<i>, 3)
        i: <v> = int(flag) + len(log)
        f: <v> = sum(v * 0.5 for v in range(<k>))
        i: <v> = max(range(<k> + 1), key=lambda v: -v)
        i: <v> = (lambda *a, **k: len(a) + len(k))(1, *lst, u=<i>)
    """),
    "log": _lines("""
        - log.append(<i>)
        - log.append(<f>)
        - log.append(len(log))
        - log.append(sorted(map(str, d)))
        - log.append(o.twice)
        - log.append(Obj.cls_k)
        - log.append(str(<i>))
        - log.append(f'{<I>}-{flag!r}')
        - log.append(f'{<F>:.2f}|{<I>:>4}')
        - log.append('%d %s' % (<i>, flag))
        - log.append('{} {a}'.format(<i>, a=tuple(x.shape)))
        - log.append([type(<t>).__name__, isinstance(<i>, int)])
        - log.append(str(x.dtype))
        - log.append(repr(x.shape))
        - log.append(list(zip([1, 2], [<i>, 3])))
        - log.append(list(enumerate([<i>, 1], 1)))
        - log.append([v for v in range(<i>) if v % 2])
        - log.append({v: v * 2 for v in (1, <i>)})
        - log.append(list(map(lambda v: v + 1, [<i>])))
        - log.append(list(reversed([1, <i>])))
        - log.append(list(filter(None, [<i>, 0])))
        - log.append(','.join(str(v) for v in (<i>, <i>)))
        - log.append(sum(v * v for v in range(<k>)))
        - log.append(x.stride())
        - log.append(<t>.requires_grad)
        - log.append(<t>.is_leaf)
        - log.append(<t>.grad_fn is None)
        - log.append(isinstance(<t>.sum(), T.Tensor))
        - log.append((x.ndim, x.size(), x.numel()))
        - log.append(round(<f>, 2))
        - log.append(math.isclose(<f>, <f>))
        - log.append(id(x) == id(y))
        - log.append(divmod(<i>, 3))
        - log.append(bin(<i>))
        - log.append('abc'[<k>:])
        - log.append(tuple(range(<k>)))
        - log.append(list(itertools.chain([1], [<i>])))
        - log.append(list(itertools.islice(itertools.count(<i>), 2)))
        - log.append(operator.add(<i>, 1))
        - log.append(slice(<i>, 2))
        - log.append(<c>)
        - log.append(not <c>)
        - log.append(<n>)
        - log.append(type(<n>).__name__)
        - log.append(list(zip(range(<k>), 'ab')))
        - log.append(all([]) or any([<i>]))
        - log.append(f'{<I>} {<F>}')
        - log.append(f'{x.shape[0]:03d} {tuple(y.shape)}')
        - log.append(x.shape[0] == <i>)
        - log.append(isinstance(x.shape[0], int))
        - log.append([<i>, <i>] + [<i>] * <k>)
        - log.append(str(n).zfill(3).upper())
        - log.append(list(itertools.product([1, 2], [<i>])))
        - log.append((<t>.dtype, <t>.dtype is T.float32, <t>.element_size()))
        - log.append(min([<i>, <i>], key=lambda v: (v % 2, v)))
        - log.append(int.from_bytes(bytes([<k>, 1]), 'big'))
        - log.append(callable(helper) and helper.__name__)
        - log.append((<t>.storage_offset(), <t>.is_contiguous()))
        - log.append(abs(-<i>) // max(<k>, 1))
        - log.append('a' if <c> else 'b')
        - log.append(x.shape[:1] + (1,))
        - log.append(sum(x.shape))
        - log.append(<t>.tolist() if <t>.numel() < 3 else None)
    """),
    "print": _lines("""
        - print('p')
        - print(<i>, flag, sep='-')
        - print(<t>.shape[0])
        - print(f'{<t>.sum().item():.3f}')
        - print(<t>.dtype, end='')
        - print(<t>)
        - logging.getLogger('fuzz').warning('w %s', <i>)
        - print([<i>, <f>])
        - print(*lst[:0], <n>)
        - print(str(d.get('k')))
    """),
    "item": _lines("""
        f: <v> = <s>.item()
        f: <v> = float(<s>)
        f: <v> = int(<t>.sum())
        f: <v> = <t>.tolist()[0]
        f: <v> = len(<t>[<t> > 0])
        f: <v> = <t>.argmax().item()
        f: <v> = float(<t>.detach().numpy().sum())
        f: <v> = round(float(<t>.mean()), 2)
        f: <v> = np.mean([<n>, <n>])
        - log.append(bool((<t> > 0).any()))
        - log.append(int(q.sum()) % 3)
        i: <v> = int((<t> > 0).sum())
        - log.append(<t>[0].item())
        - log.append([v.item() for v in <t>])
        - log.append(q.tolist())
        - log.append(str(q[:1].tolist()))
    """),
    "random": _lines("""
        t: <v> = <t> * T.rand(1)
        t: <v> = <t> * random.random()
        t: <v> = <t> * np.random.rand()
        t: <v> = <t> * T.randint(0, 5, (1,))
        t: <v> = <t> * F.dropout(T.ones(x.shape[0]), 0.5)
        t: <v> = <t> * T.bernoulli(T.full((1,), 0.5))
        t: <v> = <t> * T.normal(0.0, 1.0, (1,))
        t: <v> = <t> * T.randperm(2)[0]
        t: <v> = <t> * T.empty(1).uniform_(0, 2)
        t: <v> = <t> * T.multinomial(T.ones(3), 2)[0]
        t: <v> = <t> * T.rand_like(x)
        - T.manual_seed(3)
        - random.seed(1)
        - log.append(random.randint(0, 9))
        - log.append(T.randint(0, 9, (1,)).item())
        - rs = T.get_rng_state() ;; T.rand(2) ;; T.set_rng_state(rs)
        t: <v> = F.dropout(<t>, <f> % 1 * 0.5, flag)
        t: <v> = <t> + T.randn(x.shape[0]) * 0.1
        - log.append(T.initial_seed())
        - T.rand(2)
        t: <v> = <t>[T.randperm(x.shape[0])]
        t: <v> = <t> + T.rand(2, generator=T.Generator().manual_seed(3)).sum()
    """),
    "comprehension": _lines("""
        l: <v> = [<e> * k for k in range(2) if k != <i>]
        l: <v> = [v * <n> for v in [<t>, <t>]]
        l: <v> = list(map(lambda v: v + <n>, [<t>]))
        l: <v> = [a * b for a, b in zip([<t>], [<t>, 2])]
        l: <v> = [v for v in lst if isinstance(v, T.Tensor)]
        l: <v> = list(gen(<t>, <k>))
        l: <v> = [*gen(<t>, 2), <t>]
        l: <v> = list({k: <t> for k in range(<k>)}.values())
        l: <v> = list(itertools.accumulate([<t>, <t>]))
        l: <v> = [u + w for u in [<t>] for w in range(<k>)]
        l: <v> = [(lambda u=u: u * 2)() for u in [<t>, <t>]]
        l: <v> = [fz(<t>) for fz in (T.sin, T.cos)]
        l: <v> = sorted([<t>, <t>], key=lambda v: v.shape[0])
        l: <v> = [helper(v, k=k) for k, v in enumerate([<t>, <t>])]
        l: <v> = list(filter(lambda v: v is not None, [<t>, None]))
        l: <v> = [v for v in (<t>, <t>) if v.sum() > <f>]
        l: <v> = [[<t>], [<t>]][<k> % 2]
        l: <v> = [v * s for v in x.split(1)] and [<t>]
        l: <v> = [row.sum() * <t> for row in z]
    """),
    "generator": _lines("""
        t: <v> = sum(gen(<t>, 2))
        t: <v>g = gen(<t>, 3) ;; <v> = next(<v>g) ;; <v> = <v> + next(<v>g)
        t: <v>g = gen(<t>, 3) ;; <v> = next(<v>g) ;; log.append(len(list(<v>g)))
        t: <v>g = gen(<t>, 3) ;; <v> = next(<v>g) ;; lst.append(<v>g)
        t: <v>g = gen(<t>, 3) ;; <v> = next(<v>g) ;; for u in <v>g: <v> = <v> + u
        t: <v>g = talk(<t>, log) ;; next(<v>g) ;; <v> = <v>g.send(3)
        t: <v>g = talk(<t>, log) ;; next(<v>g) ;; <v> = <v>g.send(<i>) ;; <v>g.close()
        t: <v>g = talk(<t>, log) ;; next(<v>g) ;; <v> = <v>g.send(None) ;; next(<v>g, None)
        t: <v>g = talk(<t>, log) ;; <v> = next(<v>g) ;; del <v>g ;; log.append('after')
        t: <v> = next((u for u in [<t>, <t>] if <c>), x)
        t: <v> = x ;; for <v> in outer_gen(<t>, <k>): log.append('g')
        t: <v> = sum(u * <n> for u in (<t>, <t>))
        t: <v> = max((u.sum() for u in (<t>, <t>)), key=lambda q: 1) + x
        t: <v> = x ;; for <v> in talk(<t>, log): break
        t: <v>g = (u + <n> for u in [<t>, <t>]) ;; <v> = next(<v>g) ;; log.append(next(<v>g, None) is None)
        t: <v> = [*outer_gen(<t>, 2)][-1]
        t: <v> = dict(zip('ab', gen(<t>, 2)))['a']
        t: <v>, <v>b = gen(<t>, 2)
        t: <v>g = iter([<t>, <t>]) ;; <v> = next(<v>g) ;; <v> = <v> + next(<v>g, x)
    """),
}  # fmt: skip
