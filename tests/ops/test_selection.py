"""topk on long rows: chosen by a bound, in the order of a stable sort."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import fusegrad as torch
from fusegrad.ops._selection import first_of_rows, order_of, pays

KINDS = {
    "normal": lambda x, u: x,
    "ties": lambda x, u: np.round(x * 50),
    "many ties": lambda x, u: np.maximum(x, 0),
    "some NaN": lambda x, u: np.where(u < 0.1, np.nan, x),
    "nearly all NaN": lambda x, u: np.where(u < 0.995, np.nan, x),
    "infinite": lambda x, u: np.where(u < 0.3, np.inf, np.where(u < 0.6, -np.inf, x)),
    "rising": lambda x, u: np.sort(x, axis=-1),
    "falling": lambda x, u: -np.sort(x, axis=-1),
    "signed zeros": lambda x, u: np.where(u < 0.99, np.copysign(0.0, x), x),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int8"])
def test_the_first_of_rows_are_those_of_a_stable_sort(kind: str, dtype: str) -> None:
    rng = np.random.default_rng(5)
    used = 0
    for rows, n, k in ((9, 1000, 3), (9, 1003, 1), (1, 20000, 40), (33, 257, 8)):
        x = KINDS[kind](rng.standard_normal((rows, n)), rng.random((rows, n)))
        if dtype.startswith("int"):
            x = np.clip(np.nan_to_num(x * 20, posinf=127, neginf=-128), -128, 127)
        x = x.astype(dtype)
        assert pays(x, k, n)
        for largest in (True, False):
            found = first_of_rows(x, k, largest)
            if found is not None:
                used += 1
                np.testing.assert_array_equal(found, order_of(x, 1, largest)[:, :k])
    assert used == 8 if kind == "normal" and dtype.startswith("float") else True


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
@pytest.mark.parametrize("largest", [True, False])
def test_topk_along_any_dimension(dim: int, largest: bool) -> None:
    x = torch.randn(7, 300, 11).movedim(1, dim)
    values, indices = x.topk(4, dim, largest)
    want = torch.sort(x, dim, descending=largest)[0].narrow(dim, 0, 4)
    assert values.equal(want) and x.gather(dim, indices).equal(want) and indices.dtype is torch.int64
    x = x.requires_grad_()
    x.topk(4, dim, largest)[0].sum().backward()
    assert x.grad.sum() == 4 * 77 and x.grad.gather(dim, indices).equal(torch.ones_like(values))


def test_buckets_of_numbers() -> None:
    edges = torch.tensor([1.0, 2.0, 3.0])
    assert [torch.bucketize(v, edges).item() for v in (0.3, 2, 2.5, True)] == [0, 1, 2, 0]
    assert torch.bucketize(2, edges, right=True, out_int32=True).dtype is torch.int32
    assert torch.compile(lambda v: torch.bucketize(v, edges))(2.5).item() == 2


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_places_of_many_numbers(dtype: type, right: bool) -> None:
    """By one kernel beyond 4096 numbers: as numpy finds them, NaN last, ties on the side that is asked for."""
    rng = np.random.default_rng(6)
    for n in (1, 2, 7, 8, 300):
        edges, x = (np.round(rng.standard_normal(k) * 20).astype(dtype) for k in (n, 6000))
        if dtype is np.float32:
            x[:6] = [np.nan, np.inf, -np.inf, 0.0, -0.0, 3.4e38]
            edges[n // 2 :: 3] = np.nan
            edges[n // 3 :: 5] = np.inf
        edges.sort()
        want = np.searchsorted(edges, x, "right" if right else "left")
        given = torch.from_numpy(edges), torch.from_numpy(x.reshape(60, 100)).T
        got = torch.searchsorted(*given, right=right)
        np.testing.assert_array_equal(got.numpy(), want.reshape(60, 100).T)


@pytest.mark.parametrize("invert", [False, True])
def test_isin_of_few_is_that_of_many(invert):
    """Every pair compared, and numpy's search: numbers, two dtypes, NaN, signs of zero, nothing."""
    nan = float("nan")
    some = [np.array([1, 2, 3]), np.array([[0.1, -0.0, nan]]), np.array([0.1, 2], np.float32), np.array(2), np.zeros(0)]
    for x in some:
        for among in (*some, 1, 0.1, nan):
            given = torch.tensor(among) if isinstance(among, np.ndarray) else among
            got = torch.isin(torch.tensor(x), given, invert=invert)
            np.testing.assert_array_equal(got.numpy(), np.isin(x, among, invert=invert))


@pytest.mark.parametrize("again", [False, True])
def test_combinations_in_order(again):
    pick = itertools.combinations_with_replacement if again else itertools.combinations
    for n, r in itertools.product((0, 1, 2, 5), (1, 2, 3)):
        got = torch.combinations(torch.arange(n), r, again)
        wanted = np.array([*pick(range(n), r)], np.int64).reshape(-1, r)
        np.testing.assert_array_equal(got.numpy(), wanted)


@pytest.mark.parametrize("name", ["unique", "unique_consecutive"])
@pytest.mark.parametrize("dim", [None, 0])
def test_different_values_alone_are_those_with_counts(name, dim):
    """What is not asked for is not computed, and changes nothing."""
    rng = np.random.default_rng(0)
    for x in (
        rng.integers(0, 3, (7, 2)),
        rng.integers(0, 3, 30) / 2,
        np.zeros((0, 2)),
        np.array([1.0, np.nan, np.nan]),
    ):
        f, t = getattr(torch, name), torch.tensor(x)
        values, inverse, counts = f(t, return_inverse=True, return_counts=True, dim=dim)
        np.testing.assert_array_equal(f(t, dim=dim).numpy(), values.numpy())
        np.testing.assert_array_equal(f(t, return_inverse=True, dim=dim)[1].numpy(), inverse.numpy())
        np.testing.assert_array_equal(f(t, return_counts=True, dim=dim)[1].numpy(), counts.numpy())
        if dim is None or inverse.numel():
            restored = values.numpy()[inverse.numpy()]
            np.testing.assert_array_equal(restored, x)
