"""What random programs are made of: one template a line, by kind.

In angle brackets: t a tensor of x's shape, e E an expression of that shape (shallow, deep), s a 0-d tensor, w a tensor
of any shape, op a call from the op table, view a view of a tensor, p an in-place call (without the dot), u the name of
a unary operator, i f n an int, a float, either, I F their names, k a small number, c a condition, d a dtype, v the new
name. Statements: ``t: text`` makes a tensor of x's shape named <v>, ``w:`` one of any shape, ``f:`` a float, ``i:`` an
int; ``-`` nothing. " ;; " separates lines.
"""

# ruff: noqa: E501

from __future__ import annotations


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().splitlines() if line.strip()]


VIEWS = _lines("""
    <b>[1:]
    <b>[::2]
    <b>[:-1]
    <b>.view(-1)
    <b>.view(-1, 1)
    <b>.unsqueeze(0)
    <b>[None]
    <b>.expand(2, -1)
    <b>.unsqueeze(1).expand(-1, 3)
    <b>.reshape(1, -1).t()
    <b>.narrow(0, 0, <b>.shape[0] // 2)
    <b>.detach()
    <b>[:]
    <b>.split(2)[0]
    <b>.chunk(2)[-1]
    <b>.select(0, 0)
    <b>[-1]
    <b>.unbind()[0]
    <b>[...]
    <b>.T
    <b>.view_as(<b>)
    <b>.unflatten(0, (1, -1))
    <b>.flatten()
    <b>.data
    <b>.contiguous()
    <b>.flip(0)
    <b>.unfold(0, 2, 1)
    <b>.squeeze()
    <b>.as_strided((<k>,), (1,))
    <b>[<k>:]
    <b>[[0, -1]]
    <b>[<b> > 0]
    <b>.diag()
    <b>.to(<b>.dtype)
    <b>.unsqueeze(0).squeeze(0)
    <b>.permute(0)
    <b>.movedim(0, 0)
    <b>.expand_as(<b>)
    <b>.roll(1)
    <b>.ravel()
    <b>.real
    T.atleast_2d(<b>)
    <b>.swapaxes(0, -1)
    <b>.broadcast_to((2, <b>.shape[0]))
    <b>.tensor_split(2)[1]
""")

INTS = _lines("""
    x.shape[0]
    len(lst)
    (<I> + 1)
    d['k']
    o.k
    y.ndim
    int(flag)
    len(x)
    (<I> % 3)
    max(<I>, 1)
    x.numel()
    d.get('q9', 2)
    o.twice
    abs(<I>)
    z.size(1)
    Level.HIGH
    Obj.cls_k
    GD['a']
    len(GL)
    (-n // 2)
    divmod(<I>, 2)[1]
    (n << 1)
    sum([n, 1])
    round(s)
    int(s)
    len(str(n))
    min(<i>, <i>)
    len(range(<I>))
    int(x.shape[0] > 1)
    (<I> if flag else <k>)
    (<I> & 3)
    (<I> ^ 1)
    hash(3)
    ord('a') % 4
    d.setdefault('k2', 1)
    x.dim()
    st.__len__()
    operator.mul(<I>, 2)
    math.prod([<I>, 2])
    math.gcd(<I>, 4)
""")

FLOATS = _lines("""
    abs(<F>)
    min(<F>, 1.0)
    math.exp(-abs(<F>))
    round(<F>, 1)
    math.pi
    (<i> / 2)
    mod.scale
    float(<i>)
    math.sqrt(abs(<F>))
    -<F>
    (<F> if flag else 0.25)
    max([<F>, 0.1])
    (<F> ** 2)
    float('inf')
    float('nan')
    float('0.5')
    (<F> % 1)
    math.floor(<F>)
    np.float32(<F>)
    np.pi
    math.copysign(1.0, <F>)
    (<F> // 1)
    (<F> - <F>)
    math.fsum([<F>, 1])
    -0.0
    (<F> or 1.5)
    float(str(<I>))
    math.tanh(<F>)
    x.shape[0] / 3
    float(f'{<F>:.2f}')
    np.float64(<F>)
    math.hypot(<F>, 1)
    sum([<F>, <i>])
""")

CONDITIONS = _lines("""
    <i> < <i>
    <i> > <i>
    <i> == <i>
    <i> != <i>
    <i> <= <i>
    <f> > <f>
    flag
    flag
    <t>.sum() > <f>
    <t>.sum() > <f>
    'q<k>' in d
    <t> is <t>
    not <c>
    (<c> and <c>)
    (<c> or <c>)
    <t>.requires_grad
    T.is_grad_enabled()
    x.dtype == T.float32
    isinstance(y, T.Tensor)
    mod.training
    x.is_contiguous()
    any(v > <k> for v in [<i>, <i>])
    all(v > <k> for v in [<i>, <i>])
    (x > 0).any()
    (y < 1).all()
    T.equal(x, y)
    bool(lst)
    d
    x.numel()
    st
    x.shape == y.shape
    hasattr(o, 'k')
    hasattr(o, 't')
    hasattr(o, 'nope')
    0 <= <i> < <i>
    <i> in (0, 1, 2)
    <i> in lst
    <i> in range(3)
    <i> in {1, 2}
    <i> in st
    <i> in d.values()
    o.t is None
    o.t is not None
    Color.RED is Color(1)
    callable(o)
    x.is_leaf
    s != s
    len(log) % 2 == 0
    <t>.grad is None
    <t>.grad_fn is None
    type(<n>) is int
    isinstance(<n>, (int, str))
    <t>.shape[0] > 1
    <s>
    x.device.type == 'cpu'
    o == Obj(<i>)
    'x' not in d
    x.max().item() > <f>
    str(n).isdigit()
    np.isfinite(<f>)
    math.isnan(<f>)
    issubclass(type(o), Obj)
    [<i>] == [<i>]
    (<i>, flag) < (<i>, True)
""")

TENSORS = _lines("""
    (<e> + <e>)
    (<e> - <e>)
    (<e> * <e>)
    (<e> * <e>)
    (<e> + <n>)
    (<e> - <n>)
    (<e> * <n>)
    (<e> / <n>)
    (<n> - <e>)
    (<n> / <e>)
    <e>.<u>()
    <e>.<u>()
    T.tanh(<e>)
    T.sigmoid(<e>)
    T.relu(<e>)
    (<e> - <t>.mean())
    T.where(<e> > <f>, <t>, <e>)
    helper(<e>, <n>)
    helper(<e>, k=<n>)
    helper(<e>, c=<n>)
    helper(<e>, 1, 2, 3)
    helper(<e>, *lst[:1])
    helper(<e>, u=<i>)
    o.scale(<e>)
    o(<e>)
    Derived(<n>).apply(<e>)
    Derived(<n>)(<e>, 1)
    Base.twice(<e>)
    Base.made(<i>).apply(<e>)
    (<e> if <c> else <t>)
    (<e> if <c> else <t>)
    sum([<e>, <t>, <n>])
    functools.reduce(lambda p, q: p + q * <n>, [<e>, <t>])
    <e>.flip(0)
    T.stack([<e>, <t>]).sum(0)
    T.cat([<e>, <t>])[:x.shape[0]]
    <e>.clone()
    (<e> / x.shape[0])
    (<e> + T.arange(x.shape[0]))
    (<e> + T.ones(x.shape))
    (<e> * T.full((1,), <f>))
    <fn>(<e>)
    <fn>(<e>)
    <fn>(<e>, <n>)
    brk(<e>, log)
    F.softmax(<e>, 0)
    F.gelu(<e>)
    <e>.cumsum(0)
    F.log_softmax(<e>, -1)
    <e>.sort()[0]
    F.layer_norm(<e>, x.shape)
    <e>.clamp(<f>, 1.5)
    <e>.maximum(<t>)
    T.lerp(<e>, <t>, <f>)
    <e>.pow(2)
    (<e> ** <k>)
    (<e> ** <f>)
    (<e> + z.sum(1))
    (z * <e>.unsqueeze(1)).sum(-1)
    (z @ GT + <e>)
    <e>[q]
    <e>.index_select(0, q)
    z[:, 0]
    (<e> + q)
    Custom.apply(<e>, <f>)
    checkpoint(lambda v: v.tanh() * 2, <e>)
    T.func.grad(lambda v: (v * v).sum())(<e>)
    rec(<e>, <k>)
    T.rand_like(<e>)
    F.dropout(<e>, 0.4)
    (<e> + T.rand(x.shape))
    F.dropout(<e>, 0.5, mod.training)
    (<e> + T.randn(1))
    <e>.double().to(x.dtype)
    <e>.float()
    (<e> > <f>).to(x.dtype)
    <e>.type_as(<t>)
    ((<e> > 0) * <t>)
    (<e> + <s>)
    (lambda v, w=<n>: v * w)(<e>)
    functools.partial(helper, c=<n>)(<e>)
    <e>.detach()
    Pair(<e>, <i>).a
    Point(<e>).scaled(<n>).x
    next(gen(<e>, 2))
    sum(gen(<e>, <k>), <e>)
    <t>.<p>
    (<e>).clone().<p>
    (<e>).clone().<p>
    (<e> // <n>)
    (<e> % 2)
    T.remainder(<e>, <n>)
    T.addcmul(<e>, <t>, <t>, value=<n>)
    T.add(<e>, <t>, alpha=<n>)
    T.sub(<e>, <t>, alpha=<n>)
    F.threshold(<e>, <f>, 0.0)
    F.leaky_relu(<e>, <f>)
    (<e> + x.new_full((1,), <f>))
    T.nan_to_num(<e>)
    abs(<e>)
    (-<e>)
    (+<e>)
    <e>.masked_fill(<t> > 0, <n>)
    T.tensor([<f>]) * <e>
    <e>.mul(T.tensor(<n>))
    np.sin(<f>) * <e>
    max([<e>, <t>], key=lambda v: v.shape[0])
    {'u': <e>, 'v': <t>}['u']
    (<e>, <t>)[<k> % 2]
    [<e>, <t>][-1]
    T.zeros_like(<e>).copy_(<t>)
    T.empty_like(<e>).fill_(<n>)
    F.normalize(<e>, dim=0)
    <e>.mean() * <t>
    (<e> == <t>) + <e>
    ~(<e> > 0) * <t>
    T.minimum(<e>, T.tensor(<f>))
    <e>.view(-1)
    <e>.reshape(x.shape)
    <e>.expand(x.shape)
    operator.add(<e>, <n>)
    getattr(<e>, 'tanh')()
    F.hardtanh(<e>, -1.0, 1.0)
    <e>.sub(<t>, alpha=2)
    T.atan2(<e>, <t>)
    T.dot(<e>, <t>) * <t>
    T.outer(<e>, <t>).sum(1)
    T.einsum('i,i->i', <e>, <t>)
    F.mse_loss(<e>, <t>) + <t>
    T.vstack([<e>, <t>])[0]
    (<e> - <e>.max()).exp()
""")

WIDE = _lines("""
    z * 2
    z.t()
    z[1:]
    z @ z.t()
    z.sum(0)
    mod(z)
    z[:, 1:]
    z.reshape(-1)
    z.transpose(0, 1).contiguous()
    F.linear(z, mod.a.weight)
    z.softmax(-1)
    z[0]
    z.max(1)[0]
    z.amax(0, keepdim=True)
    z[q % 2]
    z.T[:2]
    T.cat([z, z], 1)
    z.flatten()[::3]
    T.einsum('ij,ij->i', z, z)
    z.std(0)
    z.argmax(1)
    z.view(3, -1)
    z.diagonal()
    z.<u>()
    z.sort(0).values
    z.topk(2, 1)[0]
    z.mean((0, 1))
    z.unsqueeze(1)
    z.new_zeros(z.shape)
    z.chunk(2, 1)[1]
    z.var(1, unbiased=False)
    z.cumsum(1)
    z.gather(1, q.unsqueeze(1) % 3)
    F.layer_norm(z, (3,))
    F.one_hot(q % 3, 3)
    F.embedding(q % 3, mod.a.weight)
    z.where(z > 0, z * 0.5)
    z.index_fill(1, q % 3, 0.5)
    z.tril()
    z.roll(1, 0)
    z.unfold(1, 2, 1)
    z.norm(dim=1)
    z.repeat(2, 1)
    z.permute(1, 0)[1]
    T.stack([z, z], 2)
    z.scatter_add(1, (q % 3).unsqueeze(1), z)
    F.pad(z, (1, 0))
    z.masked_select(z > 0)
    z.nonzero()
    z[z.sum(1) > 0]
    z[..., -1]
    z[:, [0, 2]]
    z.min(0).indices
    T.func.vmap(lambda r: r.sum())(z)
    T.bmm(z.unsqueeze(0), z.t().unsqueeze(0))
    z.expand(2, -1, -1)
""")

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
        w: <v> = checkpoint(lambda u, k: (u * k).tanh(), <t>, <n>)
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

LOSSES = _lines("""
    mod(z).pow(2).mean()
    F.mse_loss(mod(z), z)
    (mod.a(z) * x.unsqueeze(1)).sum()
    F.cross_entropy(mod.a(z), q % 3)
    mod.layers[0](z).abs().sum()
    F.smooth_l1_loss(mod.a(z), z * 2)
    (mod(z).sum(1) * y).mean()
    F.nll_loss(F.log_softmax(mod.a(z), 1), q % 3)
""")

RAISES = _lines("""
    pass
    raise ValueError(<i>)
    d['missing']
    x @ T.ones(77, 1)
    1 // (n - n)
    log.nope
    fallible(x, <i>)
    raise Stop(<i>, 'p')
    lst[99]
    int('q')
    assert <c>, 'as'
    x.view(77)
    o.nope
    Color(9)
    Fixed(1).a = 2
    x.item()
    a, b = [<i>] * <i>
    raise KeyError
    x.sum(5)
    T.cat([x, z])
    next(iter(()))
    st.remove('zz')
    {}[x.shape]
    None + 1
    x.reshape(-1, 7)
    raise Stop from None
    len(3)
    helper()
    helper(x, 1, k=2)
    [].pop()
    x[77]
    raise Exception
    raise T.nn
    lst.append(1, 2)
    F.cross_entropy(z, q + 9)
    math.sqrt(-1.0 - abs(s))
    'a' + n
    x.backward()
    x + 'a'
    T.zeros(-1)
    undefined_name
    (x > 0).item() and lst.nope
    log.append(1 / 0)
    x.nope
    T.stack([])
    next(gen(x, 0))
""")

ITERABLES = _lines("""
    range(1)
    range(2)
    range(3)
    range(min(<i>, 4))
    range(len(lst))
    list(enumerate(log))[:2]
    sorted(map(str, d))
    <t>[:3]
    gen(<t>, 2)
    zip(x, y)
    [<t>, <t>]
    list(lst)[:2]
    x.split(2)
    d.copy().items()
    range(3, 0, -1)
    outer_gen(x, 2)
    enumerate(x)
    Derived(1, 2)
    iter([1, n])
    zip([1, 2], gen(x, 2))
    (<t>, <n>)
    enumerate([<t>, <t>], 1)
    map(helper, [<t>, <t>])
    reversed([1, n])
    z
    'ab'
    {1: 2, 3: n}
    mod.layers
    itertools.islice(talk(x, [1]), 2)
    itertools.islice(itertools.count(), 2)
""")

MANAGERS = _lines("""
    T.no_grad()
    T.no_grad()
    T.enable_grad()
    cm(log, 'c') as tag
    cm(log, 'c') as tag
    Swallow(log, 's') as mgr
    Swallow(log, 's', (Exception,)) as mgr
    Swallow(log, 's', (ValueError, Stop))
    T.set_grad_enabled(flag)
    T.set_grad_enabled(n > 1)
    T.inference_mode()
    cm(log, 'a') as ta, T.no_grad()
    contextlib.suppress(ValueError, KeyError)
    contextlib.nullcontext(2) as nc
    contextlib.ExitStack() as es
    T.random.fork_rng()
    Swallow(log, 'a'), cm(log, 'b')
    T.autograd.set_grad_enabled(False)
""")

SUBJECTS = _lines("""
    n
    lst
    d
    Pair(x, n)
    Point(x, n)
    (n, flag)
    str(n)
    o
    s
    Color(n % 2 + 1)
    [n, x]
    x.shape
    {'k': <i>, 'u': x}
""")
CASES = _lines("""
    0 | 1
    [a, *_]
    {'k': int(kk)}
    Pair(a, b) if b
    Point(x=a)
    (1, bb)
    '2'
    Obj(k=kk)
    float()
    Color.RED
    int()
    []
    str(a)
    [a] | [a, _]
    {'k': kk, **rest}
    (int(), True) as both
    None
    -1
""")
DTYPES = _lines("""
    T.float64
    T.float32
    T.int64
    T.bool
    T.int32
    T.float16
    T.uint8
""")
