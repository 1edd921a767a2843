"""Text of tensors and of what holds them, in PyTorch's layout (each text was compared with PyTorch's)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import fusegrad as T

nan, inf = float("nan"), float("inf")


@pytest.fixture(autouse=True)
def _default() -> Iterator[None]:
    yield
    T.set_printoptions(profile="default")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ([nan, inf, -inf], "tensor([nan, inf, -inf])"),
        ([1.0, nan], "tensor([1., nan])"),
        ([0.0, -0.0], "tensor([0., -0.])"),
        ([99999999.0], "tensor([100000000.])"),
        ([1.0, 1000.0], "tensor([   1., 1000.])"),
        ([1.0, 1001.0], "tensor([1.0000e+00, 1.0010e+03])"),
        ([1.5, -2.5, nan], "tensor([ 1.5000, -2.5000,     nan])"),
        ([0.0, 1e-10], "tensor([0.0000e+00, 1.0000e-10])"),
        ([[1.0, nan], [100.0, -3.0]], "tensor([[  1.,  nan],\n        [100.,  -3.]])"),
        ([True, False], "tensor([ True, False])"),
        ([1, -20], "tensor([  1, -20])"),
    ],
)
def test_values(data: Any, text: str) -> None:
    assert repr(T.tensor(data)) == text


def test_large_tensors_show_their_edges_in_every_dimension() -> None:
    long = "tensor([0.0000e+00, 1.0000e+00, 2.0000e+00,  ..., 1.9970e+03, 1.9980e+03,\n        1.9990e+03])"
    assert repr(T.arange(2000.0)) == long
    assert repr(T.ones(1001)) == "tensor([1., 1., 1.,  ..., 1., 1., 1.])"
    rows = repr(T.ones(100, 20)).split("\n")
    assert len(rows) == 7 and rows[0] == "tensor([[1., 1., 1.,  ..., 1., 1., 1.]," and rows[3].strip() == "...,"
    assert " ..." not in repr(T.ones(20, 50))


def test_what_follows_the_values_goes_to_a_line_of_its_own_where_it_does_not_fit() -> None:
    x = (T.arange(9.0) / 7 + 1).requires_grad_()
    assert repr(x * 2).endswith("4.2857],\n       grad_fn=<MulBackward0>)")
    assert repr(x[:2] * 2) == "tensor([2.0000, 2.2857], grad_fn=<MulBackward0>)"
    assert repr(T.zeros(0, 2)) == "tensor([], size=(0, 2))"


def test_options() -> None:
    x = T.tensor([1e-9, 1e9])
    T.set_printoptions(sci_mode=False)
    assert repr(x) == "tensor([         0.0000, 1000000000.0000])"
    T.set_printoptions(sci_mode=True, precision=2)
    assert repr(T.tensor([1.0, 2.0])) == "tensor([1.00e+00, 2.00e+00])"


def test_format_of_one_number_is_the_numbers() -> None:
    x = T.tensor(1.5, requires_grad=True)
    assert f"{T.tensor(3)} {T.tensor(True)} {x} {x * 2} {T.tensor(nan)}" == "3 True 1.5 3.0 nan"
    assert f"{x:.2f}" == "1.50" and f"{T.tensor([1.5])}" == "tensor([1.5000])" and str(T.tensor(2.0)) == "tensor(2.)"
    assert f"{T.nn.Parameter(T.tensor(1.0))}".startswith("Parameter containing:")


def test_several_results_show_one_a_line() -> None:
    x = T.tensor([3.0, 1.0])
    assert repr(x.max(0)) == "fusegrad.return_types.max(\nvalues=tensor(3.),\nindices=tensor(0))"
    assert repr(T.linalg.qr(T.eye(1))).startswith("fusegrad.return_types.linalg_qr(\nQ=tensor([[1.]]),\nR=")


def test_limits() -> None:
    text = "finfo(resolution=1e-06, min=-3.40282e+38, max=3.40282e+38, eps=1.19209e-07, smallest_normal=1.17549e-38"
    assert repr(T.finfo(T.float32)) == text + ", tiny=1.17549e-38, dtype=float32)"
    assert T.finfo(T.float32).resolution == 1e-6 and T.finfo(T.float16).resolution == 1e-3
    assert repr(T.iinfo(T.int8)) == "iinfo(min=-128, max=127, dtype=int8)"


def test_texts_in_compiled_code() -> None:
    def f(x: Any) -> Any:
        s = x.sum()
        return f"{s}", f"{s:.2f}", f"{x}", "{}".format(s), str(s), f"{x.max(0)}", repr(x.sort()), format(s)  # noqa: UP032

    c = T.compile(f)
    for x in (T.ones(2), T.arange(3.0) * 1.5, T.ones(2)):
        assert c(x) == f(x)
