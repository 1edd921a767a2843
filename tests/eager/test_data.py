"""Tensors from data: which dtype mixed leaves give, what fits, the older constructors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fusegrad as T

nan, inf = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("data", "dtype", "values"),
    [
        (lambda: [T.tensor(1), T.tensor(2.5)], T.float32, [1.0, 2.5]),
        (lambda: [T.tensor(1), 2.5], T.float32, [1.0, 2.5]),
        (lambda: [T.tensor(True), T.tensor(2)], T.int64, [1, 2]),
        (lambda: [T.tensor(1, dtype=T.int32), 2], T.int64, [1, 2]),
        (lambda: [T.tensor(1.0, dtype=T.float16), 2.5], T.float32, [1.0, 2.5]),
        (lambda: [2.5, T.tensor(1.0, dtype=T.float64)], T.float64, [2.5, 1.0]),
        (lambda: [[T.tensor([[1]])]], T.int64, [[1]]),
        (lambda: [np.float32(1), 2.5], T.float32, [1.0, 2.5]),
        (lambda: [1, np.float64(2)], T.float64, [1.0, 2.0]),
        (lambda: [np.int32(1)], T.int32, [1]),
        (lambda: [np.int32(1), 2], T.int64, [1, 2]),
        (lambda: [True, np.float32(1)], T.float32, [1.0, 1.0]),
        (lambda: [True, 2], T.int64, [1, 2]),
        (lambda: [2**63, 1.5], T.float32, [float(2**63), 1.5]),
    ],
)
def test_all_leaves_decide_the_dtype(data: Any, dtype: Any, values: list) -> None:
    made = T.tensor(data())
    assert made.dtype is dtype and made.tolist() == values
    assert T.as_tensor(data()).dtype is dtype


@pytest.mark.parametrize(
    ("data", "kind", "value"),
    [(-1, T.uint8, 255), (-255, T.uint8, 1), ([-1, 5], T.uint8, [255, 5]), (2.7, T.uint8, 2), (nan, T.bool, True)]
    + [([2**63], T.float64, [float(2**63)]), (2**70, T.float32, float(2**70)), (1e39, T.float32, inf)],
)
def test_numbers_that_fit(data: Any, kind: Any, value: Any) -> None:
    assert T.tensor(data, dtype=kind).tolist() == value


@pytest.mark.parametrize(
    ("data", "kind"),
    [(nan, T.int64), ([1.0, inf], T.int32), (1e30, T.int64), (2.0**63, T.int64), (300.5, T.uint8), (-0.5, T.uint8)]
    + [(-256, T.uint8), (200, T.int8), (127.9, T.int8), (-128.9, T.int8), (2**31, T.int32), (np.float64(nan), T.int64)],
)
def test_numbers_that_do_not_fit(data: Any, kind: Any) -> None:
    with pytest.raises(RuntimeError, match="without overflow"):
        T.tensor(data, dtype=kind)


@pytest.mark.parametrize(
    ("data", "error", "text"),
    [
        (None, RuntimeError, "infer dtype of NoneType"),
        ([1, None], RuntimeError, "infer dtype of NoneType"),
        ({1: 2}, RuntimeError, "infer dtype of dict"),
        ([1, "a"], TypeError, "invalid data type 'str'"),
        (b"ab", TypeError, "invalid data type 'bytes'"),
        ([2**63], ValueError, "Overflow"),
        ([T.ones(2), T.ones(2)], ValueError, "only one element"),
        ([T.ones(0)], ValueError, "only one element"),
    ],
)
def test_data_that_is_refused(data: Any, error: type, text: str) -> None:
    with pytest.raises(error, match=text):
        T.tensor(data)


def test_sizes_and_sequences_make_tensors() -> None:
    assert T.Tensor(2, 3).shape == (2, 3) and T.Tensor(3).shape == (3,) and T.Tensor().shape == (0,)
    assert T.Tensor(T.Size([2, 2])).shape == (2, 2) and T.Tensor((2, 3)).tolist() == [2.0, 3.0]
    assert T.Tensor(np.array([1, 2])).dtype is T.float32 and T.Tensor([[1, 2]]).tolist() == [[1.0, 2.0]]
    x = T.ones(2)
    T.Tensor(x).add_(1)
    assert x.tolist() == [2.0, 2.0]
    for bad in (2.5, "a", None, True):
        with pytest.raises(TypeError):
            T.Tensor(bad)
    with pytest.raises(TypeError, match="sizes must be ints"):
        T.Tensor(2, 2.5)


def test_constructors_by_dtype() -> None:
    assert T.LongTensor([1, 2]).dtype is T.int64 and T.LongTensor(2, 3).shape == (2, 3)
    assert T.FloatTensor(np.array([1.0, 2.0])).dtype is T.float32 and T.ByteTensor([1, 0]).tolist() == [1, 0]
    assert isinstance(T.ones(1), T.FloatTensor) and not isinstance(T.ones(1), T.LongTensor)
    assert isinstance(T.nn.Parameter(T.ones(1)), T.FloatTensor) and not isinstance(1.0, T.FloatTensor)
    with pytest.raises(TypeError, match="expected"):
        T.LongTensor(T.ones(1))


def test_constructors_in_compiled_code() -> None:
    def f(x: Any) -> Any:
        return x + T.FloatTensor([1.0, 2.0]), isinstance(x, T.LongTensor), T.Tensor([3]) * x, T.tensor([x[0], 2.5])

    x = T.ones(2)
    for _ in range(2):
        for a, b in zip(T.compile(f)(x), f(x), strict=True):
            assert a.tolist() == b.tolist() if isinstance(a, T.Tensor) else a == b


def test_draws_of_integers_are_refused() -> None:
    draws = [T.rand, T.randn, lambda n, dtype: T.normal(0.0, 1.0, (n,), dtype=dtype)]
    for make in draws:
        for kind in (T.int64, T.int32, T.uint8, T.bool):
            with pytest.raises(NotImplementedError, match="not implemented for"):
                make(3, dtype=kind)


def test_bounds_that_do_not_fit_are_refused() -> None:
    x = T.ones(2, dtype=T.int8)
    for low, high in ((None, 300), (-300, 100), (-300, 300)):
        for f in (lambda v, a=low, b=high: v.clamp(a, b), lambda v, a=low, b=high: v.clone().clamp_(a, b)):
            for g in (f, T.compile(f)):
                with pytest.raises(RuntimeError, match="without overflow"):
                    g(x)
    assert T.ones(2, dtype=T.uint8).clamp(min=-5).tolist() == [251, 251]
    assert x.clamp(-128, 127).tolist() == [1, 1]
