"""Statements about sizes and layouts, floats that change, ties and signed zeros, checkpoints; see fuzz_grammar.py for the holes.

Programs of seeds from `FIRST` on have them, more sizes, and more calls with ``dynamic=True`` or marked dimensions.
``<z>`` is a size: an int of arguments or shapes that is rarely negative.
"""

# ruff: noqa: E501

from __future__ import annotations

from fuzz_templates import templates as _lines

FIRST = 3_000_000

SIZES = _lines("""
    x.shape[0]
    len(x)
    abs(<I>)
    max(<I>, 0)
    max(<I>, 1)
    (x.shape[0] + <k>)
    (x.shape[0] * 2)
    (x.shape[0] // 2)
    -(-x.shape[0] // 2)
    (<I> % 3 + 1)
    min(<I>, x.shape[0])
    max(x.shape[0] - <k>, 0)
    x.numel()
    (z.shape[0] % 3)
    y.size(-1)
    <k>
    int(abs(s) * 2)
    (n * x.shape[0]) % 5
    <I>
""")

STATEMENTS: dict[str, list[str]] = {
    "made of sizes": _lines("""
        w: <v> = T.arange(<z>) * <n>
        w: <v> = T.arange(<z>, <z> + 2) + <n>
        w: <v> = T.arange(0, <z>, <k> + 1).float() * <s>
        w: <v> = T.arange(<z>, -1, -1)
        w: <v> = T.arange(x.shape[0]).view(1, -1) <= T.arange(<z>).view(-1, 1)
        w: <v> = T.zeros(<z>, 2) + <n>
        w: <v> = T.ones(<z>, <z>) * <n>
        w: <v> = T.full((<z>,), <n>) + T.arange(<z>).sum()
        w: <v> = T.eye(<z>) * <n>
        w: <v> = T.eye(<z>, <z> + 1)
        w: <v> = T.eye(x.shape[0]) @ <t>
        w: <v> = T.linspace(0, <n>, <z>)
        w: <v> = T.linspace(<f>, <f>, 4) * <t>.sum()
        w: <v> = T.rand(<z>) + <t>.mean()
        w: <v> = T.randperm(<z>) + 1
        w: <v> = T.tril(T.ones(<z>, <z>), <I>)
        w: <v> = T.tril_indices(<z>, <z>).sum(1)
        w: <v> = x.new_zeros(<z>, <k>) + 1
        w: <v> = x.new_full((<z>,), <n>) * <t>.sum()
        w: <v> = T.zeros(<z>).scatter_add(0, q % max(<z>, 1), <t>)
        w: <v> = T.zeros(x.shape[0], <z> + 1).index_fill(1, T.tensor([0]), <n>)
        w: <v> = F.one_hot(q % 3, 3 + <k>).float() * <n>
        w: <v> = T.bincount(q, minlength=<z>)
        w: <v> = T.tensor([<z>, x.shape[0]]) * <n>
        w: <v> = T.tensor(x.shape[0]) + <t>
        w: <v> = T.stack([<t>] * max(<z>, 1)).sum(0)
        w: <v> = T.cat([<t>] * max(<I>, 1) + [<e>])
        w: <v> = T.meshgrid(<t>, T.arange(<z>), indexing='ij')[1] * 2
        w: <v> = T.cartesian_prod(<t>, T.arange(float(<k> + 1)))
        w: <v> = T.empty(<z>).fill_(<n>)
        w: <v> = T.zeros(<z>) ;; <v>[:x.shape[0]] = <n>
        w: <v> = T.zeros(x.shape[0] + <k>) ;; <v>[<k>:] = <t>
        w: <v> = T.zeros(x.shape[0], <z>) ;; <v>[:, :1] += <n>
    """),
    "changed by sizes": _lines("""
        w: <v> = <t>.repeat(<z>)
        w: <v> = <t>.repeat(2, <z>)
        w: <v> = z.repeat(<z>, 1).sum(0)
        w: <v> = <t>.repeat_interleave(<z>)
        w: <v> = z.repeat_interleave(<z>, 0)
        w: <v> = z.repeat_interleave(<k>, dim=1) * <n>
        w: <v> = <t>.tile((<z>, 1))
        w: <v> = F.pad(<t>, (<I>, <z>))
        w: <v> = F.pad(<t>, (<z>, <k>), value=<n>) * 2
        w: <v> = F.pad(z, (1, <z>, <k>, 0), value=<f>)
        w: <v> = F.pad(<t>.view(1, 1, -1), (<k>, <k>), mode='reflect')
        w: <v> = F.pad(<t>.view(1, 1, -1), (<z>, 1), mode='circular')
        w: <v> = F.pad(<t>.view(1, 1, -1), (<z>, 1), mode='replicate')
        w: <v> = F.max_pool1d(<t>.view(1, 1, -1), max(<z>, 1), padding=0)
        w: <v> = F.max_pool1d(<t>.view(1, 1, -1), <k> + 1, stride=max(<I>, 1))
        w: <v> = F.avg_pool1d(<t>.view(1, 1, -1), <k> + 1, stride=<k> + 1, padding=<k> // 2)
        w: <v> = F.adaptive_avg_pool1d(<t>.view(1, 1, -1), max(<z>, 1))
        w: <v> = F.adaptive_max_pool1d(z.t().unsqueeze(0), <k> + 1)
        w: <v> = F.interpolate(<t>.view(1, 1, -1), size=max(<z>, 1))
        w: <v> = F.interpolate(<t>.view(1, 1, -1), scale_factor=2, mode='linear')
        w: <v> = F.conv1d(z.t().unsqueeze(0), GT.view(1, 3, 1), padding=<z>)
        w: <v> = F.conv1d(<t>.view(1, 1, -1), T.ones(1, 1, 2), dilation=<k> + 1, padding=<k> + 1)
        w: <v> = F.conv1d(<t>.view(1, 1, -1), T.ones(1, 1, 2) * <n>, stride=max(<I>, 1), padding=1)
        w: <v> = F.conv_transpose1d(<t>.view(1, 1, -1), T.ones(1, 1, 2), stride=<k> + 1)
        w: <v> = <t>.view(<z>, -1)
        w: <v> = <t>.view(-1, max(<z>, 1))
        w: <v> = z.reshape(-1, <z>)
        w: <v> = z.view(x.shape[0] * 3)[:<z>]
        w: <v> = z.reshape(3, x.shape[0]) * <t>
        w: <v> = <t>.unsqueeze(0).expand(<z>, -1) * <n>
        w: <v> = <t>.unsqueeze(0).expand(<z>, x.shape[0]).sum(0)
        w: <v> = <t>[:1].expand(<z>) + 1
        w: <v> = <t>.sum().expand(<z>) * <n>
        w: <v> = <t>.expand(x.shape[0] + <k>)
        w: <v> = <t>.unfold(0, <z>, 1).sum(1)
        w: <v> = z.unfold(0, <k> + 1, <k> + 1)
        w: <v> = <t>.narrow(0, <I>, <z>)
        w: <v> = <t>.narrow(0, 0, min(<z>, x.shape[0])) * 2
        w: <v> = <t>[:<z>] * <n>
        w: <v> = <t>[<I>:] + 1
        w: <v> = <t>[-<z>:].sum()
        w: <v> = <t>[::max(<z>, 1)] * 2
        w: <v> = z[<I>:, :<z>].exp()
        w: <v> = z[:<z>] @ z.t()
        w: <v> = <t>[<I>] * z
        w: <v> = z[:, <k> % 3][:<z>]
        w: <v> = <t>.split(max(<z>, 1))[-1]
        w: <v> = T.cat([u * <n> for u in <t>.split(max(<z>, 1))])
        w: <v> = <t>.chunk(max(<z>, 1))[0]
        w: <v> = <t>.tensor_split(<k> + 1)[-1] * 2
        w: <v> = <t>.roll(<I>) * <t>
        w: <v> = z.diagonal(<I>)
        w: <v> = z.tril(<I>) + 1
        w: <v> = z.triu(<I>).sum(1)
        w: <v> = T.diag(<t>, <I>)
        w: <v> = T.diag_embed(<t>, <I>).sum(0)
        w: <v> = <t>.topk(min(<z>, x.shape[0]))[0]
        w: <v> = z.topk(<k>, dim=0)[0]
        w: <v> = <t>.kthvalue(max(<z>, 1))[0]
        w: <v> = <t>.unflatten(0, (-1, max(<z>, 1)))
        w: <v> = <t>.select(0, <I>) * z
        w: <v> = z.movedim(<I> % 2, 0)
        w: <v> = z.sum(<I> % 2)
        w: <v> = z.transpose(0, <I> % 2) * 2
        w: <v> = <t>.as_strided((<z>,), (<k>,), 0)
        w: <v> = <t>.diff(n=<k>)
        w: <v> = F.glu(T.cat([<t>, <e>]), 0)
        w: <v> = z.flip(<I> % 2)
        w: <v> = T.rot90(z, <I>)
        w: <v> = T.combinations(<t>, 2)
        w: <v> = T.vander(<t>, N=<k> + 1) if hasattr(T, 'vander') else <t>
        w: <v> = T.outer(<t>, T.arange(float(<z>)))
        w: <v> = T.einsum('i,j->ij', <t>, T.ones(<z>))
        w: <v> = (<t>.unsqueeze(1) - <t>.unsqueeze(0)).abs().sum(<I> % 2)
        w: <v> = (<t>[1:] - <t>[:-1]).pow(2)
        w: <v> = (z[1:] * z[:-1]).mean(0) * x.shape[0]
        w: <v> = <t>.reshape(-1, 1) * <t>.reshape(1, -1) / max(x.shape[0], 1)
        w: <v> = <t>.sum() / x.shape[0] + <n>
        w: <v> = (<t> * x.shape[0] ** 0.5).sum()
        w: <v> = F.softmax(z @ z.t() / x.shape[0] ** 0.5, -1) @ z
        w: <v> = F.scaled_dot_product_attention(z.unsqueeze(0), z.unsqueeze(0), z.unsqueeze(0), is_causal=flag)
        w: <v> = F.cross_entropy(z, q % 3, label_smoothing=abs(s) % 1)
        w: <v> = F.group_norm(z.unsqueeze(0), max(x.shape[0], 1))
        w: <v> = F.instance_norm(z.t().unsqueeze(0))
    """),
    "layouts": _lines("""
        w: <v> = <t>.unsqueeze(1).expand(-1, x.shape[0]) * 2 ;; log.append(layout(<v>))
        w: <v> = <t>.expand(2, -1).exp() ;; log.append(layout(<v>))
        w: <v> = <t>.unsqueeze(1).expand(-1, <z>).clone() ;; log.append(layout(<v>))
        w: <v> = T.sin(<t>.unsqueeze(0).expand(<z>, -1)) ;; log.append(layout(<v>))
        w: <v> = z.t() * <t> ;; log.append(layout(<v>))
        w: <v> = z.t().exp() + <n> ;; log.append(layout(<v>))
        w: <v> = z[:, None].expand(-1, 2, -1).mul(<n>) ;; log.append(layout(<v>))
        w: <v> = z.unsqueeze(2).expand(-1, -1, <z>).tanh() ;; log.append(layout(<v>))
        w: <v> = z.t().unsqueeze(0).expand(<z>, -1, -1) + 1 ;; log.append(layout(<v>))
        w: <v> = z.transpose(0, 1) + z.transpose(0, 1).relu() ;; log.append(layout(<v>))
        w: <v> = z.t() + <t>.unsqueeze(0) ;; log.append(layout(<v>))
        w: <v> = z + z.t().contiguous().t() ;; log.append(layout(<v>))
        w: <v> = T.zeros_like(z.t()) + <n> ;; log.append(layout(<v>))
        w: <v> = T.empty_like(<t>.expand(2, -1)).fill_(<n>) ;; log.append(layout(<v>))
        w: <v> = z.t().clone() ;; log.append(layout(<v>))
        w: <v> = z.expand(2, -1, -1).contiguous() ;; log.append(layout(<v>))
        w: <v> = T.where(z.t() > <f>, z.t(), <n>) ;; log.append(layout(<v>))
        w: <v> = z.expand(<z>, -1, -1).sum(<I> % 3) ;; log.append(layout(<v>))
        w: <v> = z.t().sum(0, keepdim=True) ;; log.append(layout(<v>))
        w: <v> = z.t().cumsum(1) ;; log.append(layout(<v>))
        w: <v> = <t>.expand(<k> + 1, -1).cumsum(0) ;; log.append(layout(<v>))
        w: <v> = z.t().sort(1)[0] ;; log.append(layout(<v>))
        w: <v> = z.t().softmax(0) ;; log.append(layout(<v>))
        w: <v> = z.t()[:, q] ;; log.append(layout(<v>))
        w: <v> = z.t()[[0, 1]] ;; log.append(layout(<v>))
        w: <v> = T.cat([z.t(), z.t()]) ;; log.append(layout(<v>))
        w: <v> = T.stack([z.t(), z.t()], 1) ;; log.append(layout(<v>))
        w: <v> = z.unsqueeze(0).permute(2, 0, 1) * 2 ;; log.append(layout(<v>))
        w: <v> = z.unsqueeze(0).permute(0, 2, 1).reshape(3, -1) ;; log.append(layout(<v>))
        w: <v> = z.t().flatten() ;; log.append(<v>.is_contiguous())
        w: <v> = z.t().double() ;; log.append(layout(<v>))
        w: <v> = z[::2].exp() ;; log.append(layout(<v>))
        w: <v> = z[:, ::2] * <n> ;; log.append(layout(<v>))
        w: <v> = z.flip(0).t().neg() ;; log.append(layout(<v>))
        w: <v> = z.t().masked_fill(z.t() > 0, <n>) ;; log.append(layout(<v>))
        w: <v> = z.t().clamp(<f>) ;; log.append(layout(<v>))
        w: <v> = T.maximum(z.t(), <t>) ;; log.append(layout(<v>))
        w: <v> = z.t().max(0)[0] ;; log.append(layout(<v>))
        w: <v> = F.linear(z, mod.a.weight).t() * 2 ;; log.append(layout(<v>))
        w: <v> = z @ mod.a.weight.t() ;; log.append(layout(<v>))
        w: <v> = T.matmul(z.unsqueeze(0).expand(2, -1, -1), z.t()) ;; log.append(layout(<v>))
        w: <v> = F.dropout(z.t(), 0.5, flag) ;; log.append(layout(<v>))
        w: <v> = T.rand_like(z.t()) ;; log.append(layout(<v>))
        w: <v> = (z.t() * 1).requires_grad_() if not z.requires_grad else z.t() ;; <v>.sum().backward() ;; log.append(<v>.is_contiguous())
        w: <v>g = z.detach().t().clone().requires_grad_() ;; (<v>g * <n>).sum().backward() ;; <v> = <v>g.grad ;; log.append(layout(<v>))
    """),
    "ties": _lines("""
        t: <v> = 1 / T.maximum(<t> * 0.0, <e> * -0.0)
        t: <v> = 1 / T.minimum(<t> * 0.0, -0.0 * <e>)
        t: <v> = 1 / F.relu(<t> * -0.0)
        t: <v> = 1 / F.relu(<t> * <n> * 0.0)
        t: <v> = 1 / (<t> * 0.0).clamp(min=0.0)
        t: <v> = 1 / (<t> * 0.0).clamp(max=-0.0)
        t: <v> = 1 / (<t> * 0.0).clamp(-0.0, 1.0)
        t: <v> = 1 / T.maximum(<t> * 0.0, T.tensor(-0.0))
        t: <v> = T.copysign(T.ones(x.shape[0]), <t> * 0.0 + <n> * 0)
        t: <v> = T.copysign(<t>, -(<e> - <e>))
        t: <v> = 1 / (<t> * 0.3).round()
        t: <v> = 1 / (<t> * 0.3).trunc()
        t: <v> = 1 / (<t> * 0.3).ceil()
        t: <v> = 1 / T.sqrt(<t> * -0.0)
        t: <v> = 1 / T.sign(<t> * 0.0)
        t: <v> = 1 / (-(<t> * 0.0)).abs()
        t: <v> = T.atan2(<t> * 0.0, <e> * 0.0)
        t: <v> = 1 / T.fmod(<t> * 0.0, 2)
        t: <v> = 1 / T.remainder(<t> * -0.0, <n>)
        t: <v> = 1 / (<t> * 0.0 // 2)
        t: <v> = 1 / F.leaky_relu(<t> * -0.0, <f>)
        t: <v> = 1 / F.threshold(<t> * 0.0, 0.0, -0.0)
        t: <v> = 1 / F.hardtanh(<t> * 0.0, -0.0, 0.0)
        t: <v> = 1 / T.where(<t> * 0.0 == 0, <e> * -0.0, <e>)
        t: <v> = 1 / (<t> * 0.0 + -0.0)
        t: <v> = 1 / (0.0 - <t> * 0.0)
        t: <v> = 1 / (-(<t> * 0.0))
        t: <v> = 1 / (<t> * 0.0 * -1)
        t: <v> = 1 / (<t> * 0.0 + 0)
        t: <v> = 1 / (<t> * 0.0 - 0)
        t: <v> = 1 / (<t> * 0.0).sum() + x
        t: <v> = 1 / (<t> * -0.0).prod() + x
        t: <v> = 1 / (<t> * 0.0).max() + x
        t: <v> = 1 / (<t> * 0.0).amin() + x
        t: <v> = 1 / (<t> * 0.0).cumsum(0)
        t: <v> = 1 / T.tan(<t> * 0.0) + T.expm1(<e> * 0.0)
        t: <v> = 1 / (<t> * 0.0).tanh()
        t: <v> = 1 / T.nan_to_num(<t> * 0.0)
        t: <v> = T.signbit(<t> * 0.0 * <n>) * <e>
        t: <v> = T.maximum(<t>.round(), <e>.round())
        t: <v> = F.relu(<t>.round()) * <t>
        t: <v> = <t>.round().abs() + <e>
        t: <v> = <t>.round().clamp(-1, 1) * <t>
        t: <v> = <t>.round().max() * <t>
        t: <v> = <t>.round().amax() * <t>
        t: <v> = <t>.round().median() + <t>
        t: <v> = (<t> - <t>).max(0)[0] + <t>
        w: <v> = z.round().max(0)[1]
        w: <v> = z.round().argmax(0)
        w: <v> = z.round().amin(1) * <t>
        w: <v> = z.round().sort(0, stable=True)[1]
        w: <v> = <t>.round().argsort(stable=True)
        w: <v> = <t>.round().topk(1)[0]
        w: <v> = <t>.round().unique()
        w: <v> = <t>.round().mode()[0]
        w: <v> = <t>.round().cummax(0)[1]
        w: <v>g = (<t>.detach() * 0.0).requires_grad_() ;; F.relu(<v>g).sum().backward() ;; <v> = <v>g.grad
        w: <v>g = <t>.detach().round().requires_grad_() ;; T.maximum(<v>g, <v>g.detach()).sum().backward() ;; <v> = <v>g.grad
        w: <v>g = <t>.detach().round().requires_grad_() ;; <v>g.clamp(0, 1).sum().backward() ;; <v> = <v>g.grad
        w: <v>g = <t>.detach().round().requires_grad_() ;; <v>g.abs().sum().backward() ;; <v> = <v>g.grad
        w: <v>g = <t>.detach().round().requires_grad_() ;; (<v>g.norm() + <v>g.amax()).backward() ;; <v> = <v>g.grad
        w: <v>g = <t>.detach().round().requires_grad_() ;; <v>g.prod().backward() ;; <v> = <v>g.grad
        w: <v>g = <t>.detach().round().requires_grad_() ;; (<v>g ** <n>).sum().backward() ;; <v> = <v>g.grad
        w: <v>g = <t>.detach().round().requires_grad_() ;; F.smooth_l1_loss(<v>g, <v>g.detach() + 1).backward() ;; <v> = <v>g.grad
    """),
    "checkpoints": _lines("""
        t: <v> = checkpoint(lambda u: (u * <n>).sin(), <t>, use_reentrant=False)
        t: <v> = checkpoint(lambda u: (u * <n>).sin(), <t>, use_reentrant=True)
        t: <v> = checkpoint(lambda u, w: u * w + <n>, <t>, <e>, use_reentrant=False)
        t: <v> = checkpoint(lambda u, k: (u * k).exp(), <t>, <n>, use_reentrant=False)
        t: <v> = checkpoint(lambda u, k=1: (u * k).exp(), <t>, k=<n>, use_reentrant=False)
        t: <v> = checkpoint(helper, <t>, <n>, use_reentrant=False)
        t: <v> = checkpoint(helper, <t>, c=<n>, use_reentrant=flag)
        t: <v>, <v>b = checkpoint(lambda u: (u.sin(), u * 2), <t>, use_reentrant=False) ;; <v> = <v> + <v>b
        t: <v> = checkpoint(lambda u: checkpoint(lambda w: w.tanh() * <n>, u, use_reentrant=False) * 2, <t>, use_reentrant=False)
        t: <v> = checkpoint(lambda u: F.dropout(u, 0.5) * T.rand_like(u), <t>, use_reentrant=False)
        t: <v> = checkpoint(lambda u: F.dropout(u, 0.5), <t>, use_reentrant=False, preserve_rng_state=flag)
        w: <v> = checkpoint(mod.a, z, use_reentrant=False)
        w: <v> = checkpoint(mod, z, use_reentrant=False)
        w: <v> = checkpoint(lambda u: mod.a(u) * <n>, z, use_reentrant=True)
        w: <v> = checkpoint(mod.layers[0], z, use_reentrant=False) ;; <v>.sum().backward() ;; log.append(mod.layers[0].weight.grad is None)
        w: <v> = T.utils.checkpoint.checkpoint_sequential([mod.a, T.tanh, mod.layers[0]], 2, z, use_reentrant=False)
        w: <v>g = <t>.detach().requires_grad_() ;; checkpoint(lambda u: (u * u * <n>).sum(), <v>g, use_reentrant=False).backward() ;; <v> = <v>g.grad
        w: <v>g = <t>.detach().requires_grad_() ;; <v>, = T.autograd.grad(checkpoint(lambda u: u ** 3, <v>g, use_reentrant=False).sum(), <v>g, create_graph=True)
        t: <v>a = <t> * 1 ;; <v> = checkpoint(lambda u: u.exp() * <n>, <v>a, use_reentrant=False) ;; <v>a.mul_(2)
        t: <v> = checkpoint(lambda u: u[:<z>].sum() * u, <t>, use_reentrant=False)
        t: <v> = checkpoint(lambda u: u if u.sum() > <f> else u * 2, <t>, use_reentrant=False)
        t: <v> = checkpoint(lambda u: (log.append('c'), u * 2)[1], <t>, use_reentrant=False)
        t: with T.no_grad(): <v> = checkpoint(lambda u: u * <n>, <t>, use_reentrant=False)
    """),
    "floats": _lines("""
        - o.rate = <f>
        - o.k = <f> ;; log.append(o.k * 2)
        - GD['a'] = <f> * 0.5
        - s = s + <f>
        - s = -s if s < 0 else s
        f: <v> = s * <n> + 1
        f: <v> = s / 3
        f: <v> = s ** 2
        f: <v> = s % 0.7
        f: <v> = s // 0.3
        f: <v> = round(s, 1)
        f: <v> = abs(s) ** 0.5
        f: <v> = min(s, <f>)
        f: <v> = math.floor(s * 2) + s
        f: <v> = float(<z>) * s
        f: <v> = 1.0 / (abs(s) + x.shape[0])
        f: <v> = s if s > <f> else <n>
        i: <v> = int(s * 3)
        i: <v> = round(s)
        i: <v> = math.ceil(s)
        t: <v> = <t> * s + o.k
        t: <v> = <t> ** s
        t: <v> = <e>.abs() ** <f>
        t: <v> = <f> ** <t>
        t: <v> = s / <t>
        t: <v> = s - <t> // <f>
        t: <v> = <t> % <f>
        t: <v> = <t>.clamp(-abs(s), abs(s))
        t: <v> = <t>.clamp(min=<f>)
        t: <v> = T.where(<t> > s, s, <t>)
        t: <v> = (<t> > <f>) * <t> + (<t> == s)
        t: <v> = T.tensor(s) * <t>
        t: <v> = T.tensor([s, <n>]).sum() * <t>
        t: <v> = T.full(x.shape, <f>) * <t>
        t: <v> = <t>.masked_fill(<t> > 0, s)
        t: <v> = F.leaky_relu(<t>, s)
        t: <v> = F.elu(<t>, abs(s) + 0.1)
        t: <v> = F.softplus(<t>, beta=abs(s) + 0.5)
        t: <v> = F.dropout(<t>, abs(s) % 1)
        t: <v> = F.huber_loss(<t>, <e>, delta=abs(s) + 0.1) * <t>
        t: <v> = T.lerp(<t>, <e>, s)
        t: <v> = T.add(<t>, <e>, alpha=s)
        t: <v> = T.addcdiv(<t>, <e>, <e> + 9, value=s)
        t: <v> = <t>.sub(s).mul(s).div(s + 4)
        t: <v> = <t>.clone().add_(s).mul_(<f>)
        t: <v> = <t>.clone().fill_(s)
        t: <v> = <t>.norm(p=abs(s) + 1) * <t>
        t: <v> = <t>.quantile(abs(s) % 1) * <t>
        t: <v> = F.layer_norm(<t>, x.shape, eps=abs(s) + 1e-3)
        t: <v> = F.normalize(<t>, p=2.0, dim=0, eps=abs(s) + 0.1)
        t: <v> = (lambda u, k=s: u * k)(<t>)
        t: <v> = functools.partial(helper, k=s)(<t>)
        t: <v> = Fixed(s, 2).a * <t>
        t: <v> = {'k': s}['k'] * <t> + sum([s, <n>])
        t: <v> = T.arange(3.0).mul(s).sum() + <t>
        t: <v> = <t> * T.linspace(0, s, x.shape[0])
        t: <v> = <t> + T.arange(0, abs(s) + 0.1, 0.5).sum()
        t: <v> = <t>.double() * s
        t: <v> = <t> * np.float32(s)
        t: <v> = (<t> * 3).int() * s
        t: <v> = q * s
        t: <v> = q + s > 1
        t: <v> = Custom.apply(<t>, s)
        t: <v> = T.func.grad(lambda u: (u * s).sin().sum())(<t>)
        t: <v> = T.func.vmap(lambda u: u * s + <n>)(<t>)
        - log.append(f'{s:.3f}')
        - log.append(s > <f>)
        - log.append((type(s).__name__, s == s, s * 0))
        - log.append(math.isfinite(s) and int(s))
    """),
    "loops of sizes": _lines("""
        t: <v> = <t> ;; for <v>k in range(<z>): <v> = <v> * 0.5 + <v>k
        t: <v> = <t> * 1 ;; for <v>k in range(x.shape[0]): <v>[<v>k] = <v>[<v>k] * 2
        t: <v> = sum((<t>[<v>k] for <v>k in range(min(<z>, x.shape[0]))), <t>)
        t: <v> = T.stack([<t>[<v>k] * <n> for <v>k in range(x.shape[0])]) if len(x) else x
        t: <v> = <t> ;; for <v>r in z: <v> = <v> + <v>r.sum()
        t: <v> = <t> ;; while <v>.shape[0] > 2: <v> = <v>[1:] ;; <v> = <t> + <v>.sum()
        t: <v> = <t> ;; if x.shape[0] > <k>: <v> = <v> * 2
        t: <v> = <t> * (2 if x.shape[0] % 2 == 0 else 3)
        t: <v> = <t> * (x.shape[0] == <z>)
        t: <v> = <t> + sum(x.shape) + max(x.shape)
        t: <v> = <t> * {0: 1, 1: 2, 2: 3}.get(x.shape[0], <n>)
        t: <v> = <t> * [1, 2, 3, 4][x.shape[0] % 4]
        t: <v> = <t> + (1 if x.shape == y.shape else 2)
        t: <v> = <t> * (<z> <= x.shape[0] <= <z> + 2)
        - log.append((x.shape[0] // 2, x.shape[0] % 2, -x.shape[0]))
        - log.append(list(range(<z>))[:3])
        - log.append(f'{x.shape[0]} {<z>}')
        - log.append((x.shape[0] > <z>, x.shape[0] != 1))
        - log.append(tuple(z[:<z>].shape))
        - d['q1'] = x[:<z>] ;; log.append(d['q1'].shape)
    """),
}  # fmt: skip
