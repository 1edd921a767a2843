"""What PyTorch checks or tells of in functions that compute all the same: warnings, classes of errors, loading."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import fusegrad as torch
from fusegrad import nn
from fusegrad.nn import functional as F

FEW = {
    "var of one": lambda x: x[:1, 0].var(), "std of one": lambda x: x[:1].std(0),
    "kept": lambda x: x[:1].var(0, keepdim=True),
    "correction": lambda x: x.var(1, correction=3), "none": lambda x: x[:0].std(0, False),
    "var_mean": lambda x: torch.var_mean(x[:1], 0)[0], "std_mean": lambda x: torch.std_mean(x, (0, 1), correction=6)[0],
}  # fmt: skip


@pytest.mark.parametrize("name", FEW)
@pytest.mark.parametrize("compiled", [False, True])
def test_too_few_elements_to_divide_by_are_told_of(name: str, compiled: bool) -> None:
    f = torch.compile(FEW[name]) if compiled else FEW[name]
    for _ in range(2):
        with pytest.warns(UserWarning, match="degrees of freedom is <= 0"):
            r = f(torch.ones(2, 3))
        assert not r.isfinite().any()


def test_enough_elements_are_not() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        x = torch.ones(2, 3)
        assert x.var().item() == x.std(1)[0].item() == x[:1].var(unbiased=False).item() == 0
        x.var(0, correction=1.5)
        nn.BatchNorm1d(3)(x)
        with pytest.raises(IndexError):
            x[:1].var(4)
        with pytest.raises(RuntimeError):
            x.long().var()


def test_unique_names_wrong_dims() -> None:
    with pytest.raises(IndexError, match="Dimension out of range"):
        torch.unique(torch.ones(2, 3), dim=3)
    with pytest.raises(RuntimeError, match="0 sized"):
        torch.unique(torch.ones(2, 0), dim=0)
    assert tuple(torch.unique(torch.ones(0, 2), dim=0).shape) == (0, 2)


def test_calls_without_tensors() -> None:
    with pytest.raises(TypeError, match="must be Tensor"):
        torch.isin(1, 2)
    assert tuple(torch.block_diag().shape) == (1, 0)


def test_residuals_of_the_usual_driver() -> None:
    a, b = torch.ones(3, 2) + torch.eye(3)[:, :2], torch.ones(3, 1)
    for driver, count in ((None, 0), ("gelsy", 0), ("gels", 1), ("gelsd", 1), ("gelss", 1)):
        assert torch.linalg.lstsq(a, b, driver=driver).residuals.numel() == count


def test_gains_are_whole_numbers_where_they_are() -> None:
    assert type(nn.init.calculate_gain("linear")) is int and nn.init.calculate_gain("tanh") == 5 / 3


@pytest.mark.parametrize("drop", [F.dropout1d, F.dropout2d, F.dropout3d, F.alpha_dropout, F.feature_alpha_dropout])
def test_probabilities_are_checked_before_shapes(drop: Any) -> None:
    for p in (-0.1, 1.1):
        with pytest.raises(ValueError, match="probability"):
            drop(torch.ones(4), p)


def test_loading_of_state() -> None:
    m = nn.Linear(2, 2)
    m.register_parameter("none", None)
    state = {**m.state_dict(), "none": torch.ones(1)}
    with pytest.raises(RuntimeError, match='Unexpected key.*"none"'):
        m.load_state_dict(state)
    kept = m.load_state_dict(state, strict=False)
    assert repr(kept) == "_IncompatibleKeys(missing_keys=[], unexpected_keys=['none'])"
    with pytest.raises(RuntimeError, match=r"fusegrad.Size\(\[3, 2\]\) from checkpoint.*fusegrad.Size\(\[2, 2\]\)"):
        m.load_state_dict({"weight": torch.ones(3, 2), "bias": torch.ones(2)})
    one = nn.Linear(1, 1)
    one.bias = nn.Parameter(torch.tensor(2.0))
    one.load_state_dict({"weight": torch.ones(1, 1), "bias": torch.tensor([3.0])})
    assert one.bias.item() == 3


def test_hooks_of_state_dict() -> None:
    m = nn.Linear(2, 2)
    handle = m.register_state_dict_post_hook(lambda m, state, prefix, meta: {})
    with pytest.raises(RuntimeError, match="must return None"):
        m.state_dict()
    handle.remove()
    m.register_state_dict_post_hook(lambda m, state, prefix, meta: state.clear())
    assert not m.state_dict()
    m = nn.Linear(2, 2)
    m._register_state_dict_hook(lambda m, state, prefix, meta: {"only": prefix})
    assert m.state_dict() == {"only": ""}


@pytest.mark.parametrize(
    "low, high, kind",
    [(0, 257, "uint8"), (-1, 5, "uint8"), (0, 129, "int8"), (-129, 0, "int8"), (0, 3, "bool"), (0, 2**15 + 1, "int16"),
     (0, 2**31 + 1, "int32"), (0, 70000, "float16")],
)  # fmt: skip
@pytest.mark.parametrize("compiled", [False, True])
def test_random_integers_must_fit_their_dtype(low: int, high: int, kind: str, compiled: bool) -> None:
    t = torch.ones(3, dtype=getattr(torch, kind))
    for f in (
        lambda: torch.randint(low, high, (3,), dtype=t.dtype),
        lambda: torch.randint_like(t, low, high),
        lambda: t.random_(low, high),
    ):
        with pytest.raises(RuntimeError, match="is out of bounds for"):
            (torch.compile(f) if compiled else f)()
    assert t.bool().all()
    top = {"bool": 2, "uint8": 256, "int8": 128, "float16": 2048}.get(kind, 2**15)
    assert torch.randint(0, top, (3,), dtype=t.dtype).dtype is t.dtype and t.random_(0, top) is t


def test_generators_are_generators() -> None:
    for f in (torch.rand, torch.randn, lambda n, generator: torch.randint(5, (n,), generator=generator)):
        with pytest.raises(TypeError, match="must be Generator"):
            f(2, generator=3)


def test_retain_grad_is_refused_in_transforms() -> None:
    def f(x: Any) -> Any:
        y = x * 2
        y.retain_grad()
        return y.sum()

    for call in (lambda: torch.func.grad(f)(torch.ones(2)), lambda: torch.func.vjp(f, torch.ones(2))):
        with pytest.raises(RuntimeError, match="retain_grad"):
            call()
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    y.retain_grad()
    y.sum().backward()
    assert y.retains_grad and y.grad.tolist() == [1, 1]


def test_hooks_meet_no_gradient_in_gradcheck() -> None:
    seen: list[Any] = []

    def f(x: Any) -> Any:
        y = x * 2
        y.register_hook(lambda g: seen.append(g is None))
        y.grad_fn.register_hook(lambda *_: None)  # there is a graph in every call
        return y.exp()

    x = torch.ones(2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(f, (x,)) and seen[-1] and False in seen
    seen.clear()
    assert torch.autograd.gradcheck(f, (x,), check_undefined_grad=False) and True not in seen

    def careless(x: Any) -> Any:
        y = x * 2
        y.register_hook(lambda g: g * 1)
        return y

    with pytest.raises(TypeError, match="NoneType"):
        torch.autograd.gradcheck(careless, (x,))
