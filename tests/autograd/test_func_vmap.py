"""vmap: every operator against its examples one by one; nesting, dimensions, randomness, in-place, errors."""

from __future__ import annotations

import fusegrad.compiler.ir.control  # noqa: F401  (operators of the compiler are in the table too)
import fusegrad.compiler.ir.ops  # noqa: F401
import numpy as np
import pytest
from func_samples import call, cases, outputs

import fusegrad as fg
from fusegrad import nn
from fusegrad.func import functional_call, grad, jacfwd, jacrev, stack_module_state, vmap
from fusegrad.tensor import Tensor, wrap

CASES = [c for c in cases() if c[1].kind != "random"]


def near(a: Tensor, b: Tensor, tol: float = 1e-6) -> None:
    assert tuple(a.shape) == tuple(b.shape)
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=tol, atol=tol)


def examples(x: Tensor) -> list[Tensor]:
    d = x._data
    if d.dtype.kind == "f":
        return [x, wrap((d * 0.9).astype(d.dtype)), wrap((d * 1.05).astype(d.dtype))]
    return [x, wrap(d.copy()), wrap(np.flip(d, -1).copy() if d.ndim else d.copy())]


@pytest.mark.parametrize("name,op,args,attrs", CASES, ids=[c[0] for c in CASES])
def test_operator(name, op, args, attrs) -> None:
    places = [
        (k, j, v)
        for k, a in enumerate(args)
        for j, v in ([(None, a)] if isinstance(a, Tensor) else enumerate(a) if isinstance(a, list) else [])
    ]
    masks = [tuple(True for _ in places)]
    if len(places) > 1:
        masks += [tuple(i == j for i in range(len(places))) for j in range(len(places))]
    dim = 0 if op.name.startswith("as_strided") else -1  # strides count in the memory of the batch

    def build(ts):
        out = [list(a) if isinstance(a, list) else a for a in args]
        for (k, j, _), t in zip(places, ts, strict=True):
            if j is None:
                out[k] = t
            else:
                out[k][j] = t
        return out

    for mask in masks:
        given = [examples(t) if m else [t] * 3 for (_, _, t), m in zip(places, mask, strict=True)]
        try:
            want = [outputs(call(op, build([g[i] for g in given]), dict(attrs))) for i in range(3)]
        except (RuntimeError, IndexError, TypeError, ValueError):
            continue  # the changed example is not in the operator's domain
        got = vmap(
            lambda *ts: tuple(outputs(call(op, build(ts), dict(attrs)))),
            in_dims=tuple(dim if m else None for m in mask),
        )(*[fg.stack(g, dim) if m else g[0] for g, m in zip(given, mask, strict=True)])
        for k, g in enumerate(got):
            rows = np.stack([w[k].numpy() for w in want])
            assert g.numpy().dtype == rows.dtype
            np.testing.assert_allclose(g.numpy(), rows, rtol=1e-5, atol=1e-7, equal_nan=True)


@pytest.fixture
def x() -> Tensor:
    fg.manual_seed(0)
    return fg.randn(5, 3, dtype=fg.float64)


def test_dimensions(x) -> None:
    w = fg.randn(3, 4, dtype=fg.float64)
    near(vmap(lambda a: a @ w)(x), x @ w)
    near(vmap(lambda a: a @ w, in_dims=1)(x.T.contiguous()), x @ w)
    near(vmap(lambda a: a @ w, out_dims=1)(x), (x @ w).T)
    near(vmap(lambda a: a @ w, out_dims=-1)(x), (x @ w).T)
    near(vmap(lambda d: d["a"] * d["b"], in_dims=({"a": 0, "b": None},))({"a": x, "b": x[0]}), x * x[0])
    out = vmap(lambda a: (a, [a * 2, {"k": a.sum()}]))(x)
    near(out[1][1]["k"], x.sum(1))
    a, b = vmap(lambda a: (a, a * 2), out_dims=(0, 1))(x)
    near(b, (x * 2).T)
    near(vmap(lambda a, *, k: a * k)(x, k=3), x * 3)
    assert vmap(lambda a: a * 2)(fg.zeros(0, 2)).shape == (0, 2)
    assert vmap(lambda a: a.sort()[0])(fg.zeros(0, 2)).shape == (0, 2)
    near(vmap(lambda a: a * 2 + a.sum(), chunk_size=2)(x), x * 2 + x.sum(1, keepdim=True))
    near(fg.vmap(lambda a: fg.ones(3), out_dims=0)(x), fg.ones(5, 3))


def test_nested(x) -> None:
    y = fg.randn(4, 3, dtype=fg.float64)
    pairs = vmap(vmap(lambda a, b: (a * b).sum(), (None, 0)), (0, None))(x, y)
    near(pairs, x @ y.T)
    near(vmap(lambda a: vmap(lambda b: a.sum() + b)(y))(x), x.sum(1)[:, None, None] + y)


def test_promotion_of_examples_without_dimensions() -> None:
    i, f = fg.arange(3), fg.ones(2, dtype=fg.float32)
    assert vmap(lambda a: a + f)(i).dtype is fg.float32
    d = fg.ones(3, dtype=fg.float64)
    assert vmap(lambda a: a + f)(d).dtype is fg.float32  # a float64 scalar does not widen a float32 vector
    assert vmap(lambda a: a * 2.5)(i).dtype is fg.float32


def test_in_place(x) -> None:
    def f(a):
        out = fg.zeros(3, dtype=fg.float64)
        out[0] = a[1] * 2
        out[1:] += a[1:]
        b = a.clone()
        b[0] = 5
        b.mul_(out)
        return b

    near(vmap(f)(x), fg.stack([f(r) for r in x]))
    y = x.clone()
    vmap(lambda a: a.add_(1))(y)
    near(y, x + 1)
    outside = fg.zeros(3, dtype=fg.float64)
    with pytest.raises(RuntimeError, match="inplace arithmetic"):
        vmap(lambda a: outside.add_(a))(x)
    z = x.clone().requires_grad_()
    g = grad(lambda z: vmap(f)(z).sum())(z)
    near(g, fg.stack([grad(lambda r: f(r).sum())(r) for r in x]))


def test_grad_inside_and_outside(x) -> None:
    w = fg.randn(3, 4, dtype=fg.float64)

    def loss(w, a):
        return ((a @ w).tanh() ** 2).sum()

    per = vmap(grad(loss), (None, 0))(w, x)
    near(per, fg.stack([grad(loss)(w, r) for r in x]))
    near(grad(lambda w: vmap(loss, (None, 0))(w, x).sum())(w), per.sum(0))
    w.requires_grad_()
    total = (vmap(grad(loss), (None, 0))(w, x) ** 2).sum()
    one = sum((grad(loss)(w, r) ** 2).sum() for r in x)
    near(fg.autograd.grad(total, w)[0], fg.autograd.grad(one, w)[0])
    w = w.detach()
    near(vmap(jacrev(lambda a: (a @ w).sin()))(x), vmap(jacfwd(lambda a: (a @ w).sin()))(x))
    assert not per.requires_grad


def test_randomness(x) -> None:
    near(vmap(lambda a: a + fg.rand(3, dtype=fg.float64) * 0, randomness="same")(x), x)
    with pytest.raises(RuntimeError, match="randomness error mode"):
        vmap(lambda a: fg.rand(3))(x)
    with pytest.raises(RuntimeError, match="randomness error mode"):
        vmap(lambda a: nn.functional.dropout(a))(x)
    same = vmap(lambda a: fg.rand(3), randomness="same")(x)
    assert bool((same == same[0]).all())
    fg.manual_seed(1)
    different = vmap(lambda a: fg.rand(3), randomness="different")(x)
    assert len({tuple(r.tolist()) for r in different}) == 5
    fg.manual_seed(1)
    near(different, fg.stack([fg.rand(3) for _ in range(5)]))
    ones = fg.ones(6, 50)
    masks = vmap(lambda a: nn.functional.dropout(a), randomness="same")(ones)
    assert bool((masks == masks[0]).all())
    g = vmap(grad(lambda a: (nn.functional.dropout(a) * a).sum()), randomness="different")(ones)
    assert set(np.unique(g.numpy())) == {0.0, 4.0} and not bool((g == g[0]).all())
    nested = vmap(lambda a: vmap(lambda b: fg.rand(2), randomness="different")(x), randomness="different")(x)
    assert len({tuple(r.tolist()) for row in nested for r in row}) == 25
    mixed = vmap(lambda a: vmap(lambda b: fg.rand(2), randomness="different")(x), randomness="same")(x)
    assert bool((mixed == mixed[0]).all()) and len({tuple(r.tolist()) for r in mixed[0]}) == 5
    gen = fg.Generator().manual_seed(3)
    own = vmap(lambda a: fg.rand(2, generator=gen), randomness="different")(x)
    gen.manual_seed(3)
    near(own, fg.stack([fg.rand(2, generator=gen) for _ in range(5)]))
    in_chunks = vmap(lambda a: fg.rand(3), randomness="same", chunk_size=2)(x)
    assert bool((in_chunks == in_chunks[0]).all())


def test_modules() -> None:
    fg.manual_seed(0)
    models = [
        nn.Sequential(
            nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16, 3)
        ).eval()
        for _ in range(3)
    ]
    params, buffers = stack_module_state(models)
    images = fg.randn(5, 2, 4, 4)

    def run(p, b, x):
        return functional_call(models[0], (p, b), (x,))

    near(vmap(run, (0, 0, None))(params, buffers, images), fg.stack([m(images) for m in models]), 1e-5)
    many = fg.stack([images] * 3)
    near(vmap(run)(params, buffers, many), fg.stack([m(images) for m in models]), 1e-5)
    p0 = {k: v.detach() for k, v in models[0].named_parameters()}
    b0 = dict(models[0].named_buffers())

    def loss(p, x, y):
        return nn.functional.cross_entropy(functional_call(models[0], (p, b0), (x[None],)), y[None])

    labels = fg.tensor([0, 1, 2, 0, 1])
    per = vmap(grad(loss), (None, 0, 0))(p0, images, labels)
    for i in range(5):
        one = grad(loss)(p0, images[i], labels[i])
        for k in one:
            near(per[k][i], one[k], 1e-5)


def test_attention_and_recurrent_layers() -> None:
    fg.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    x = fg.randn(3, 2, 5, 8)
    near(vmap(layer)(x), fg.stack([layer(r) for r in x]), 1e-5)
    rnn = nn.LSTM(4, 6, batch_first=True)
    s = fg.randn(3, 2, 5, 4)
    near(vmap(lambda a: rnn(a)[0])(s), fg.stack([rnn(r)[0] for r in s]), 1e-5)
    table = fg.randn(3, 7, 2)
    ids = fg.tensor([[1, 2], [3, 3], [0, 6]])
    near(vmap(lambda t, i: nn.functional.embedding(i, t))(table, ids), fg.stack([table[i][ids[i]] for i in range(3)]))


def test_values_are_refused_clearly(x) -> None:
    for f, text in (
        (lambda a: a if a.sum() > 0 else -a, "data-dependent control flow"),
        (lambda a: a.sum().item(), "item"),
        (lambda a: float(a[0]), "float"),
        (lambda a: a.nonzero(), "dynamic shape"),
        (lambda a: a[a > 0], "dynamic shape"),
    ):
        with pytest.raises(RuntimeError, match=text):
            vmap(f)(x)
    assert float(vmap(lambda a: a * (2 if x.sum() > -1e9 else 3))(x)[0, 0]) == float(
        x[0, 0] * 2
    )  # not batched: a value
    kept = []
    vmap(lambda a: kept.append(a) or a)(x)
    with pytest.raises(RuntimeError, match="after it had ended"):
        kept[0] + 1
    assert "batched tensor" in repr(kept[0])
    with pytest.raises(RuntimeError, match="inside a function transform"):
        vmap(lambda a: a.sum().backward())(x)


@pytest.mark.parametrize(
    "make,error,text",
    [
        (lambda x: vmap(lambda a: a, in_dims=[0])(x), ValueError, "expected `in_dims` to be int"),
        (lambda x: vmap(lambda a: a, in_dims=2)(x), ValueError, "expected in_dim to satisfy -2 <= in_dim < 2"),
        (lambda x: vmap(lambda a, b: a)(x, x[:2]), ValueError, "got sizes \\[5, 2\\]"),
        (
            lambda x: vmap(lambda a, b: a, in_dims=(0, 0, 0))(x, x),
            ValueError,
            "not compatible with the structure of `inputs`",
        ),
        (lambda x: vmap(lambda a, b: a)(x, 2.0), ValueError, "cannot vmap over non-Tensor"),
        (lambda x: vmap(lambda a: a, in_dims=(None,))(x), ValueError, "at least one Tensor"),
        (lambda x: vmap(lambda a: a)(), ValueError, "got no inputs"),
        (lambda x: vmap(lambda a: 2)(x), ValueError, "must only return Tensors"),
        (lambda x: vmap(lambda a: (a, None))(x), ValueError, "must only return Tensors"),
        (lambda x: vmap(lambda a: a, out_dims=None)(x), ValueError, "out_dim is None"),
        (lambda x: vmap(lambda a: a, out_dims=(0, 0))(x), ValueError, "not compatible with the structure of `outputs`"),
        (lambda x: vmap(lambda a: a, out_dims=3)(x), IndexError, "out of range"),
        (lambda x: vmap(lambda a: a, randomness="foo")(x), RuntimeError, "Only allowed values"),
        (lambda x: vmap(lambda a: a, chunk_size=0)(x), ValueError, "chunk_size"),
        (lambda x: vmap(lambda a: a.sum(1))(x), IndexError, "out of range"),
        (lambda x: vmap(lambda a: a @ fg.ones(4, dtype=fg.float64))(x), RuntimeError, "."),
    ],
)
def test_errors(x, make, error, text) -> None:
    with pytest.raises(error, match=text):
        make(x)


class Cube(fg.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, w):
        return x**3 * w

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return 3 * x * x * w * g, x**3 * g

    @staticmethod
    def jvp(ctx, tx, tw):
        x, w = ctx.saved_tensors
        return 3 * x * x * w * tx + x**3 * tw


class OwnCube(Cube):
    generate_vmap_rule = False

    @staticmethod
    def vmap(info, in_dims, x, w):
        assert info.randomness == "error" and in_dims == (0, None)
        return OwnCube.apply(x, w), 0


@pytest.mark.parametrize("fn", [Cube, OwnCube])
def test_custom_function(fn) -> None:
    x, w = fg.randn(5, dtype=fg.float64), fg.tensor(2.0, dtype=fg.float64)
    plain, apply = (lambda x, w: x**3 * w), fn.apply
    near(vmap(apply, (0, None))(x, w), plain(x, w))
    near(vmap(grad(apply, 1), (0, None))(x, w), x**3)
    near(vmap(grad(grad(apply)), (0, None))(x, w), 6 * x * w)
    near(grad(lambda w: vmap(apply, (0, None))(x, w).sum())(w), (x**3).sum())
    if fn is Cube:
        y = fg.stack([x, 2 * x])
        near(vmap(vmap(grad(apply), (0, None)), (0, None))(y, w), 3 * y**2 * w)


def test_custom_function_without_a_rule() -> None:
    class Bare(fg.autograd.Function):
        @staticmethod
        def forward(x):
            return x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, g):
            return g * 2

    with pytest.raises(RuntimeError, match="does not have vmap support"):
        vmap(Bare.apply)(fg.ones(3))

    class Old(fg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    with pytest.raises(RuntimeError, match="setup_context"):
        vmap(Old.apply)(fg.ones(3))


@pytest.mark.parametrize("chunk", [None, 2])
def test_what_is_no_tensor_is_handed_on_where_out_dims_is_none(chunk) -> None:
    x = fg.arange(6.0).view(3, 2)
    got, word, nothing = vmap(lambda a: (a * 2, "s", None), out_dims=(0, None, None), chunk_size=chunk)(x)
    assert fg.equal(got, x * 2) and word == "s" and nothing is None
    assert vmap(lambda a: 3, out_dims=None, chunk_size=chunk)(x) == 3
    with pytest.raises(ValueError, match="must only return Tensors"):
        vmap(lambda a: (a, "s"), out_dims=(None, 0), chunk_size=chunk)(x)


@pytest.mark.parametrize(
    "draw", [fg.bernoulli, fg.poisson, lambda p: fg.multinomial(p, 1), lambda p: p.clone().bernoulli_(p)]
)
def test_the_same_numbers_from_other_distributions_are_refused(draw) -> None:
    p = fg.full((3, 2), 0.5)
    with pytest.raises(RuntimeError, match="randomness='same'"):
        vmap(draw, randomness="same")(p)
    assert vmap(draw, randomness="different")(p).shape[0] == 3
    assert vmap(lambda x: draw(fg.full((2,), 0.5)), randomness="same")(p).shape[0] == 3


OF_RANKS: dict = {
    "inv": fg.linalg.inv, "det": fg.linalg.det, "slogdet": lambda a: fg.linalg.slogdet(a)[1], "logdet": fg.logdet,
    "cholesky": fg.linalg.cholesky, "eigvalsh": fg.linalg.eigvalsh, "svdvals": fg.linalg.svdvals,
    "qr": lambda a: fg.linalg.qr(a)[1], "matrix_exp": fg.matrix_exp, "lu": lambda a: fg.linalg.lu(a)[1],
    "solve": lambda a: fg.linalg.solve(a, fg.ones(3)), "pinv": fg.linalg.pinv, "inverse": fg.inverse,
    "solve_triangular": lambda a: fg.linalg.solve_triangular(a, fg.ones(3, 1), upper=True),
    "cholesky_inverse": fg.cholesky_inverse, "matrix_power": lambda a: fg.linalg.matrix_power(a, 2), "trace": fg.trace,
    "tril": fg.tril, "triu": fg.triu, "diagonal": fg.diagonal, "mT": lambda a: a.mT, "t": fg.t,
    "mm": lambda a: fg.mm(a, a), "bmm": lambda a: fg.bmm(a, a), "mv": lambda a: fg.mv(a, fg.ones(3)),
    "dot": lambda a: fg.dot(a, a), "outer": lambda a: fg.outer(a, a), "cdist": lambda a: fg.cdist(a, a),
    "rot90": fg.rot90, "fliplr": fg.fliplr, "flipud": fg.flipud, "matrix_norm": fg.linalg.matrix_norm,
    "pad 0": lambda a: fg.nn.functional.pad(a, (0, 0)), "pad 1": lambda a: fg.nn.functional.pad(a, (1, 1)),
    "pad 2": lambda a: fg.nn.functional.pad(a, (1, 0, 2, 1)), "pad 3": lambda a: fg.nn.functional.pad(a, (0, 1) * 3),
    "cut": lambda a: fg.nn.functional.pad(a, (-1, 0, 0, -1)),
    "reflect": lambda a: fg.nn.functional.pad(a, (1, 1), "reflect"),
    "circular": lambda a: fg.nn.functional.pad(a, (1, 1), "circular"),
    "conv1d": lambda a: fg.nn.functional.conv1d(a, fg.ones(1, 3, 2)),
    "max_pool1d": lambda a: fg.nn.functional.max_pool1d(a, 2), "unfold": lambda a: fg.nn.functional.unfold(a, 2),
    "interpolate": lambda a: fg.nn.functional.interpolate(a, scale_factor=2),
}  # fmt: skip


@pytest.mark.parametrize("name", OF_RANKS)
def test_examples_of_too_few_dimensions_are_refused_as_without_vmap(name) -> None:
    """The batch was taken for a dimension of the examples: vmap(inv) of three vectors inverted a matrix of them."""
    f = OF_RANKS[name]
    refused = 0
    for rank in range(5):
        x = fg.rand(*[3] * (rank + 1)) + 3 * (fg.eye(3) if rank else 1)
        try:
            want = f(x[0])
        except (RuntimeError, IndexError, NotImplementedError, ValueError, TypeError):
            refused += 1
            for g, y in ((vmap(f), x), (vmap(vmap(f)), x.expand(3, *x.shape))):
                with pytest.raises((RuntimeError, IndexError, NotImplementedError, ValueError, TypeError)):
                    g(y)
            continue
        assert vmap(f)(x)[0].allclose(want, 1e-4, 1e-4)
    assert refused or name in ("flipud", "t")
