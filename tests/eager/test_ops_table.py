"""Tests generated from the op table: every operator, in eager."""

from __future__ import annotations

import numpy as np
import op_samples as S
import pytest

import fusegrad as fg
from fusegrad.autograd import gradcheck, gradgradcheck
from fusegrad.op import TABLE, Op

OPS = list(S.ops())


def holds_graphs(op: Op) -> bool:
    """Operators of control flow: their graphs fix the dtypes of the samples. See tests/control."""
    return op.name.startswith("control.")


IDS = [op.name for op in OPS]
DIFFERENTIABLE = [op for op in OPS if op.rules and op.kind != "random"]


def deterministic(op: Op) -> bool:
    return op.kind != "random" and not op.fields.get("draws") and "empty" not in op.name


@pytest.mark.parametrize("op", OPS, ids=IDS)
def test_has_samples(op: Op) -> None:
    assert S.samples(op), f"operator {op.name} has no samples"


@pytest.mark.parametrize("op", [o for o in OPS if o.ref is not None and deterministic(o)], ids=lambda o: o.name)
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["f32", "f64"])
def test_forward_against_numpy(op: Op, dtype: type) -> None:
    for i, sample in enumerate(S.samples(op)):
        for layout in S.LAYOUTS:
            args, kwargs = S.call(op, sample, dtype, layout)
            plain = [_arrays(a) for a in args]
            want = op.ref(*plain, **{k: _arrays(v) for k, v in kwargs.items()})
            try:
                got = op(*args, **kwargs)
            except RuntimeError:
                assert layout != "contiguous" and op.kind == "view", f"sample {i} {layout}"
                continue  # a view that this layout does not allow
            for g, w in zip(_list(got), _list(want), strict=True):
                w = np.asarray(w)
                a = g.detach().numpy()
                assert a.shape == w.shape, f"sample {i} {layout}: shape {a.shape}, numpy {w.shape}"
                tol = 2e-5 if dtype is np.float32 else 1e-10
                np.testing.assert_allclose(
                    a.astype(np.float64), w.astype(np.float64), rtol=tol, atol=tol, err_msg=f"sample {i} {layout}"
                )


def _arrays(x):
    if isinstance(x, fg.Tensor):
        return x.detach().numpy()
    if isinstance(x, (list, tuple)):
        return type(x)(_arrays(v) for v in x)
    return x


def _list(x):
    return list(x) if isinstance(x, (tuple, list)) else [x]


@pytest.mark.parametrize("op", [o for o in OPS if not holds_graphs(o)], ids=lambda o: o.name)
def test_meta_against_reality(op: Op) -> None:
    """Shape, dtype and strides that the meta rule promises are those of the result."""
    from fusegrad.compiler.tracer import trace

    for i, sample in enumerate(S.samples(op)):
        for layout in ("contiguous", "transposed", "strided", "turned", "expanded", "expanded and turned"):
            args, kwargs = S.call(op, sample, np.float32, layout)
            try:
                real = op(*args, **kwargs)
            except (RuntimeError, ValueError):
                continue  # not every layout is allowed (view)
            flat = S.tensors(args) + S.tensors(list(kwargs.values()))
            if op.kind == "create" or not flat:
                continue
            graph_out = trace(lambda *a, op=op, **k: op(*a, **k), args, kwargs).outputs
            for g, r in zip(_list(graph_out), _list(real), strict=True):
                assert tuple(g.shape) == tuple(r.shape), (
                    f"sample {i} {layout}: shape {tuple(g.shape)} vs {tuple(r.shape)}"
                )
                assert g.dtype is r.dtype, f"sample {i} {layout}: dtype {g.dtype} vs {r.dtype}"
                assert _significant(g) == _significant(r), f"sample {i} {layout}: strides {g.stride()} vs {r.stride()}"


def _significant(t) -> tuple:
    """Strides that matter: not those of dimensions of size 0 or 1."""
    return tuple(st for s, st in zip(t.shape, t.stride(), strict=True) if s > 1) if t.numel() else ()


@pytest.mark.parametrize("op", DIFFERENTIABLE, ids=lambda o: o.name)
def test_gradcheck(op: Op) -> None:
    tested = 0
    for sample in S.samples(op):
        if not sample.grad:
            continue
        for layout in ("contiguous", "transposed"):
            args, kwargs = S.call(op, sample, np.float64, layout, grad=True)
            leaves, fn = _function(op, args, kwargs)
            if leaves and allowed(op, fn, leaves, layout):
                assert gradcheck(fn, leaves, atol=1e-5, rtol=1e-4)
                tested += 1
    assert tested or not any(s.grad for s in S.samples(op)), f"{op.name}: no sample has a floating point tensor"


@pytest.mark.parametrize("op", DIFFERENTIABLE, ids=lambda o: o.name)
def test_gradgradcheck(op: Op) -> None:
    for sample in S.samples(op)[:2]:
        if not sample.grad:
            continue
        args, kwargs = S.call(op, sample, np.float64, grad=True)
        leaves, fn = _function(op, args, kwargs)
        if leaves and sum(t.numel() for t in leaves) <= 80:
            assert gradgradcheck(fn, leaves, atol=1e-4, rtol=1e-3)


def allowed(op: Op, fn, leaves: list, layout: str) -> bool:
    """Whether the layout allows the call: only views may refuse one."""
    try:
        fn(*leaves)
    except RuntimeError:
        assert layout != "contiguous" and op.kind == "view", op.name
        return False
    return True


def _function(op: Op, args: tuple, kwargs: dict):
    """(leaves, function of the leaves), with the rest of the call fixed; random operators get a fixed draw."""
    flat, spec = fg.pytree.tree_flatten((args, kwargs))
    places = [i for i, t in enumerate(flat) if isinstance(t, fg.Tensor) and t.requires_grad]

    def fn(*leaves):
        full = list(flat)
        for i, t in zip(places, leaves, strict=True):
            full[i] = t
        a, k = fg.pytree.tree_unflatten(full, spec)
        if not deterministic(op):
            fg.manual_seed(0)
        return op(*a, **k)

    return [flat[i] for i in places], fn


ERRORS = [(op, i, e) for op in OPS if op.errors is not None for i, e in enumerate(op.errors())]


@pytest.mark.parametrize("op,i,error", ERRORS, ids=[f"{o.name}-{i}" for o, i, _ in ERRORS])
def test_errors(op: Op, i: int, error: tuple) -> None:
    args, kwargs, kind, match = error
    with pytest.raises(kind, match=match):
        op(*(S.convert(a, np.float32, "contiguous", False) for a in args), **kwargs)


@pytest.mark.parametrize("op", [o for o in OPS if o.kind == "pointwise"], ids=lambda o: o.name)
@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1, 1)], ids=str)
def test_pointwise_odd_shapes(op: Op, shape: tuple) -> None:
    if op.name in ("tril", "triu") and len(shape) < 2:
        pytest.skip("matrices only")
    sample = S.samples(op)[0]

    def shaped(x):
        return np.resize(x, shape) if isinstance(x, np.ndarray) else x

    args, kwargs = S.call(
        op, fg.op.Sample(*(shaped(a) for a in sample.args), **{k: shaped(v) for k, v in sample.kwargs.items()})
    )
    out = op(*args, **kwargs)
    assert tuple(out.shape) == shape


def test_first_ninety_operators_exist() -> None:
    """The most used operators of the covered surface, by PyTorch's names."""
    names = """add mul sub div matmul sum mean view reshape cat to nn.functional.linear nn.functional.relu
    nn.functional.cross_entropy softmax transpose permute unsqueeze squeeze zeros ones zeros_like ones_like arange randn pow
    exp log sqrt neg max clone stack flatten split chunk expand contiguous tanh sigmoid nn.functional.conv2d
    nn.functional.max_pool2d nn.functional.dropout nn.functional.layer_norm nn.functional.batch_norm nn.functional.embedding
    nn.functional.mse_loss nn.functional.nll_loss log_softmax nn.functional.gelu nn.functional.scaled_dot_product_attention
    argmax abs min norm eq masked_fill where tril triu randint multinomial clamp einsum bmm mm gt lt ge le ne full empty eye
    linspace topk t std var sin cos rsqrt square""".split()  # noqa: E501
    for dotted in names:
        found = fg
        for part in dotted.split("."):
            found = getattr(found, part, None) or getattr(fg.Tensor, part, None)
        assert callable(found), dotted
    for method in "item float long zero_ int bool backward".split():
        assert callable(getattr(fg.Tensor, method)), method
    assert TABLE
