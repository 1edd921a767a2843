"""Names for lists and runs of tensors: ``_foreach_*``, ``segment_reduce``, ``return_types``; and ``_assert``."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import fusegrad as torch


def pair() -> list[Any]:
    return [torch.tensor([1.0, 2.0]), torch.tensor([[3.0], [4.0]])]


UNARY = """abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg reciprocal
    round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc""".split()


@pytest.mark.parametrize("op", UNARY)
def test_foreach_of_one_list(op: str) -> None:
    xs = [x / 5 for x in pair()]
    want = [getattr(x, op)() for x in xs]
    got = getattr(torch, f"_foreach_{op}")(xs)
    assert type(got) is tuple and all(torch.equal(a, b) for a, b in zip(got, want, strict=True))
    changed = getattr(torch, f"_foreach_{op}_")(xs)
    assert changed is xs and all(torch.equal(a, b) for a, b in zip(xs, want, strict=True))


@pytest.mark.parametrize("op", ["add", "sub", "mul", "div", "maximum", "minimum", "clamp_min", "clamp_max", "pow"])
@pytest.mark.parametrize("other", [2.0, [2.0, 3.0], [torch.full((2,), 1.5), torch.full((2, 1), 3.5)]])
def test_foreach_of_two(op: str, other: Any) -> None:
    each = other if isinstance(other, list) else [other] * 2
    want = [
        getattr(x, op)(o if isinstance(o, torch.Tensor) else torch.full_like(x, o))
        for x, o in zip(pair(), each, strict=True)
    ]
    got = getattr(torch, f"_foreach_{op}")(pair(), other)
    assert all(torch.allclose(a, b) for a, b in zip(got, want, strict=True))
    xs = pair()
    assert getattr(torch, f"_foreach_{op}_")(xs, other) is xs
    assert all(torch.allclose(a, b) for a, b in zip(xs, want, strict=True))


def test_foreach_of_three() -> None:
    a, b = [torch.full((2,), 2.0), torch.full((2, 1), 3.0)], [torch.full((2,), 4.0), torch.full((2, 1), 5.0)]
    assert [x.flatten().tolist() for x in torch._foreach_addcmul(pair(), a, b)] == [[9, 10], [18, 19]]
    for value in (2.0, [2.0, 2.0], torch.tensor([2.0, 2.0])):
        assert [x.flatten().tolist() for x in torch._foreach_addcmul(pair(), a, b, value)] == [[17, 18], [33, 34]]
        xs = pair()
        torch._foreach_addcdiv_(xs, a, b, value)
        assert xs[0].tolist() == [2, 3] and torch.allclose(xs[1], torch.tensor([[4.2], [5.2]]))
    assert [x.flatten().tolist() for x in torch._foreach_lerp(pair(), a, 0.5)] == [[1.5, 2], [3, 3.5]]
    xs = pair()
    torch._foreach_lerp_(xs, a, [0.0, 1.0])
    assert [x.flatten().tolist() for x in xs] == [[1, 2], [3, 3]]
    assert [x.item() for x in torch._foreach_norm(pair())] == pytest.approx([5**0.5, 5])
    assert [x.item() for x in torch._foreach_norm(pair(), 1)] == [3, 7]
    assert [x.item() for x in torch._foreach_max(pair())] == [2, 4]
    assert torch._foreach_copy_(xs, pair())[1].flatten().tolist() == [3, 4]
    assert torch._foreach_zero_(xs)[0].tolist() == [0, 0]


def test_foreach_refuses() -> None:
    with pytest.raises(RuntimeError, match="same number"):
        torch._foreach_add(pair(), pair()[:1])
    with pytest.raises(TypeError, match="list or tuple"):
        torch._foreach_abs(torch.ones(2))
    with pytest.raises(RuntimeError, match="at least one"):
        torch._foreach_add([], 1)
    xs = pair()
    with pytest.raises(RuntimeError, match="same number"):
        torch._foreach_addcmul_(xs, pair(), pair(), [1.0])
    assert xs[0].tolist() == [1, 2]  # nothing was changed


def test_foreach_has_gradients_and_is_compiled() -> None:
    def f(x: Any, y: Any) -> Any:
        a, b = torch._foreach_mul([x, y], 3.0)
        return (a * b).sum()

    x, y = (torch.ones(2, requires_grad=True) for _ in range(2))
    torch.compile(f, fullgraph=True)(x, y).backward()
    assert x.grad.tolist() == [9, 9] and y.grad.tolist() == [9, 9]


RESULTS = {
    "max": lambda x: x.max(0), "sort": lambda x: x.sort(), "topk": lambda x: x.topk(1), "aminmax": torch.aminmax,
    "frexp": torch.frexp, "cummax": lambda x: x.cummax(0), "slogdet": lambda x: x[:, :2].slogdet(),
    "linalg_slogdet": lambda x: torch.linalg.slogdet(x[:, :2]), "qr": torch.qr, "linalg_qr": torch.linalg.qr,
    "svd": torch.svd, "linalg_svd": torch.linalg.svd, "histogram": lambda x: torch.histogram(x, 3),
}  # fmt: skip


@pytest.mark.parametrize("name", RESULTS)
def test_results_under_names_have_types(name: str) -> None:
    x = torch.tensor([[3.0, 1.0, 2.0], [4.0, 6.0, 5.0]])
    r = RESULTS[name](x)
    kind = getattr(torch.return_types, name)
    assert type(r) is kind and kind.__name__ == name and kind.__module__ == "fusegrad.return_types"
    assert repr(r).startswith(f"fusegrad.return_types.{name}(\n")
    assert kind.n_fields == len(r) and type(kind(tuple(r))) is kind and tuple(kind(*r)) == tuple(r)
    back = pickle.loads(pickle.dumps(r))
    assert type(back) is kind and all(torch.equal(a, b) for a, b in zip(back, r, strict=True))
    assert name in dir(torch.return_types)
    with pytest.raises(TypeError, match="sequence"):
        kind([1])


def test_return_types_has_no_others() -> None:
    with pytest.raises(AttributeError, match="nothing_of_this"):
        _ = torch.return_types.nothing_of_this


VALUES = {"sum": [5, 0, 11], "mean": [5 / 3, float("nan"), 2.75], "prod": [4, 1, 0], "max": [2, -float("inf"), 4],
    "min": [1, float("inf"), 0]}  # fmt: skip
GRADS = {"sum": [1] * 7, "mean": [1 / 3] * 3 + [0.25] * 4, "prod": [4, 2, 2, 48, 0, 0, 0],
    "max": [0, 0.5, 0.5, 0, 0, 0.5, 0.5], "min": [1, 0, 0, 1, 0, 0, 0]}  # fmt: skip


@pytest.mark.parametrize("reduce", VALUES)
@pytest.mark.parametrize("by", ["lengths", "offsets"])
@pytest.mark.parametrize("compiled", [False, True])
def test_segment_reduce(reduce: str, by: str, compiled: bool) -> None:
    def f(x: Any, where: Any) -> Any:
        return torch.segment_reduce(x, reduce, **{by: where})

    x = torch.tensor([1.0, 2, 2, 0, 3, 4, 4], requires_grad=True)
    where = torch.tensor([3, 0, 4] if by == "lengths" else [0, 3, 3, 7])
    y = (torch.compile(f, fullgraph=True) if compiled else f)(x, where)
    assert torch.allclose(y, torch.tensor([float(v) for v in VALUES[reduce]]), equal_nan=True)
    y[0::2].sum().backward()
    assert torch.allclose(x.grad, torch.tensor([float(g) for g in GRADS[reduce]]))
    if not compiled:
        assert y.grad_fn.name() == "SegmentReduceBackward0"


def test_segment_reduce_of_rows() -> None:
    x, lengths = torch.arange(12.0).view(2, 6), torch.tensor([[2, 4], [3, 3]])
    assert torch.segment_reduce(x, "sum", lengths=lengths, axis=1).tolist() == [[1, 14], [21, 30]]
    rows = torch.segment_reduce(x.view(6, 2), "mean", lengths=torch.tensor([2, 0, 4]), initial=1.0)
    assert rows.tolist() == [[1.5, 2.5], [1, 1], [7.25, 8.25]]
    assert torch.segment_reduce(torch.arange(6.0), "sum", offsets=torch.tensor([1, 2, 6])).tolist() == [1, 14]
    short = torch.tensor([2, 3])
    assert torch.segment_reduce(torch.arange(6.0), "sum", lengths=short, unsafe=True).tolist() == [1, 9]


@pytest.mark.parametrize(
    "error, kwargs",
    [
        (RuntimeError, {"lengths": torch.tensor([2, 3])}),
        (RuntimeError, {"lengths": torch.tensor([-2, 8])}),
        (RuntimeError, {}),
        (RuntimeError, {"lengths": torch.tensor([2, 4]), "reduce": "median"}),
        (NotImplementedError, {"lengths": torch.tensor([2.0, 4.0])}),
        (NotImplementedError, {"lengths": torch.tensor([2, 4]), "data": torch.arange(6)}),
        (RuntimeError, {"indices": torch.tensor([0, 0, 1])}),
        (RuntimeError, {"lengths": torch.tensor([2, 4]), "axis": 1, "data": torch.ones(2, 6)}),
    ],
)
def test_segment_reduce_refuses(error: type, kwargs: dict) -> None:
    kwargs = {"data": torch.arange(6.0), "reduce": "sum", **kwargs}
    with pytest.raises(error, match="segment_reduce"):
        torch.segment_reduce(**kwargs)


def test_assert_is_a_function() -> None:
    torch._assert(True, "no")
    torch._assert(torch.ones(2).sum() > 0, "no")
    with pytest.raises(AssertionError, match="^no$"):
        torch._assert(torch.tensor(False), "no")
    with pytest.raises(RuntimeError, match="ambiguous"):
        torch._assert(torch.tensor([True, False]), "no")


def test_names_of_nodes_of_functions_made_of_several() -> None:
    x, v, c = (torch.rand(*s).requires_grad_() for s in ((4, 4), (4,), (2, 4, 4)))
    names = {
        "Unique2Backward0": torch.unique(v), "UniqueDimBackward0": torch.unique(x, dim=0),
        "UniqueConsecutiveBackward0": torch.unique_consecutive(v), "SqueezeBackward4": torch.quantile(x, 0.3, dim=1),
        "NanmedianBackward1": x.nanmedian(0)[0], "BmmBackward0": torch.bmm(c, c),
        "BlockDiagBackward0": torch.block_diag(x, x),
    }  # fmt: skip
    assert {k: y.grad_fn.name() for k, y in names.items()} == {k: k for k in names}


def test_foreach_in_place_is_compiled() -> None:
    def average(mean: list, new: list, n: int) -> None:
        torch._foreach_lerp_(mean, new, 1 / n)
        torch._foreach_mul_(mean, 2.0)

    eager, compiled, new = pair(), pair(), [x * 3 for x in pair()]
    average(eager, new, 4)
    torch.compile(average, fullgraph=True)(compiled, new, 4)
    assert all(torch.allclose(a, b) for a, b in zip(eager, compiled, strict=True))
