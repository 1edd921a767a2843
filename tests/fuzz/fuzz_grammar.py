"""What random programs are made of: one template a line, by kind.

In angle brackets: t a tensor of x's shape, e E an expression of that shape (shallow, deep), s a 0-d tensor, w a tensor
of any shape, op a call from the op table, view a view of a tensor, p an in-place call (without the dot), u the name of
a unary operator, i f n an int, a float, either, I F their names, k a small number, c a condition, d a dtype, v the new
name. Statements: ``t: text`` makes a tensor of x's shape named <v>, ``w:`` one of any shape, ``f:`` a float, ``i:`` an
int; ``-`` nothing. " ;; " separates lines.
"""

# ruff: noqa: E501

from __future__ import annotations

import fuzz_statements
import fuzz_training
from fuzz_templates import templates as _lines

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
    checkpoint(lambda v: v.tanh() * 2, <e>, use_reentrant=False)
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

STATEMENTS: dict[str, list[str]] = {**fuzz_statements.STATEMENTS, **fuzz_training.STATEMENTS}

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
