"""Numbers added, combined, written and read at places in machine code, against numpy's unbuffered forms."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import fusegrad as torch

RNG = np.random.default_rng(5)
AT = {"sum": np.add, "mean": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum}
FIRST = {"sum": 0, "mean": 0, "prod": 1, "amax": -np.inf, "amin": np.inf}
SHAPES = [((5,), 0, 20), ((7, 3), 0, 30), ((4, 6), 1, 9), ((2, 5, 4), 1, 11), ((6, 17), 0, 40), ((3, 1), 0, 8)]


def slots(index: np.ndarray, dim: int) -> tuple:
    grids = list(np.indices(index.shape))
    grids[dim] = index
    return tuple(grids)


def plain(x: np.ndarray, index: np.ndarray, s: np.ndarray, dim: int, how: str, own: bool) -> np.ndarray:
    out, where = x.copy(), slots(index, dim)
    if not own:
        out[where] = FIRST[how]
    AT[how].at(out, where, s)
    if how == "mean":
        count = np.zeros(out.shape, np.int64)
        np.add.at(count, where, 1)
        out = (out / np.maximum(count + own, 1)).astype(x.dtype)
    return out


def given(shape: tuple, dim: int, m: int, dtype: type, rows: bool) -> tuple:
    """(x, index, the index as it is given, source); the last place is hit by none."""
    at = [*shape]
    at[dim] = m
    x, s = (np.round(RNG.standard_normal(size), 1).astype(dtype) for size in (shape, at))
    s.flat[3], s.flat[5], s.flat[6], x.flat[1] = np.nan, -0.0, 0.0, np.inf
    if rows:
        small = RNG.integers(0, shape[dim] - 1, m).reshape([-1 if d == dim else 1 for d in range(len(shape))])
        return x, np.broadcast_to(small, at).copy(), torch.from_numpy(small).expand(*at), s
    index = RNG.integers(0, shape[dim] - 1, at)
    return x, index, torch.from_numpy(index), s


@pytest.mark.parametrize("how", AT)
@pytest.mark.parametrize("rows", [False, True])
def test_scatter_reduce(how: str, rows: bool) -> None:
    for (shape, dim, m), dtype, own in itertools.product(SHAPES, (np.float32, np.float64), (True, False)):
        x, index, places, s = given(shape, dim, m, dtype, rows)
        with np.errstate(invalid="ignore"):
            want = plain(x, index, s, dim, how, own)
        for a, b in ((x, s), (np.asfortranarray(x), np.asfortranarray(s))):
            got = torch.from_numpy(a).scatter_reduce(dim, places, torch.from_numpy(b), how, include_self=own)
            np.testing.assert_array_equal(got.numpy(), want)


def test_the_first_of_two_zeros_stays() -> None:
    i = torch.zeros(6, 9, dtype=torch.int64)
    for first, how in itertools.product((0.0, -0.0), ("amax", "amin")):
        x, s = torch.full((2, 9), first), torch.full((6, 9), -first)
        for f in (torch.scatter_reduce, torch.compile(torch.scatter_reduce)):
            y = f(x, 0, i, s, how)
            assert not y.any() and (torch.signbit(y) == torch.signbit(x)).all()


@pytest.mark.parametrize("how", AT)
@pytest.mark.parametrize("rows", [False, True])
def test_scatter_reduce_compiled(how: str, rows: bool) -> None:
    for (shape, dim, m), own in itertools.product(SHAPES, (True, False)):
        x, index, _, s = given(shape, dim, m, np.float32, rows)
        small = index if not rows else index[tuple(slice(None) if d == dim else slice(1) for d in range(len(shape)))]

        def f(x: torch.Tensor, i: torch.Tensor, s: torch.Tensor, own=own, dim=dim, at=s.shape) -> torch.Tensor:
            return (x * 1).scatter_reduce(dim, i.expand(at), s * 1, how, include_self=own)

        args = torch.from_numpy(x), torch.from_numpy(small.copy()), torch.from_numpy(s)
        compiled = torch.compile(f)
        np.testing.assert_array_equal(compiled(*args).numpy(), f(*args).numpy())
        for n in (1, 3):  # other numbers of indices, none too
            fewer = [a[:n] if dim == 0 else a for a in args[1:]]
            if dim == 0:
                fewer[0] = fewer[0][: n - 1]
                g = lambda x, i, s, own=own: x.scatter_reduce(0, i, s, how, include_self=own)  # noqa: E731
                shown = torch.compile(g)(args[0], fewer[0].expand(n - 1, *s.shape[1:]), fewer[1][: n - 1])
                want = g(args[0], fewer[0].expand(n - 1, *s.shape[1:]), fewer[1][: n - 1])
                np.testing.assert_array_equal(shown.numpy(), want.numpy())


def test_scatter_reduce_grads_compiled() -> None:
    for how, rows in itertools.product(AT, (False, True)):
        x, index, places, s = given((6, 5), 0, 20, np.float64, rows)
        s = np.round(np.nan_to_num(s)) + 0.5

        def f(x: torch.Tensor, i: torch.Tensor, s: torch.Tensor, how=how) -> torch.Tensor:
            return x.scatter_reduce(0, i, s, how)

        for g in (f, torch.compile(f)):
            a, b = (torch.from_numpy(v.copy()).nan_to_num(0, 1, 1).requires_grad_() for v in (x, s))
            found = torch.autograd.grad(g(a, places, b).cos().sum(), (a, b))
            if g is f:
                want = found
        for u, v in zip(found, want, strict=True):
            np.testing.assert_allclose(u.numpy(), v.numpy(), rtol=1e-12, atol=1e-14)


def test_expanded_indices_are_rows() -> None:
    """Messages on a graph: one kernel, whatever lies between the indices in memory."""

    def f(x: torch.Tensor, i: torch.Tensor, s: torch.Tensor) -> tuple:
        wide = i[:, None].expand(-1, 8)
        return torch.scatter_add(x, 0, wide, s), x.scatter_reduce(0, wide, s, "amax")

    x, s = torch.randn(10, 8), torch.randn(30, 8)
    compiled = torch.compile(f)
    for i in (torch.randint(0, 10, (30,)), torch.randint(0, 10, (60,))[::2], torch.randint(0, 10, (30, 2))[:, 1]):
        for u, v in zip(compiled(x, i, s), f(x, i, s), strict=True):
            np.testing.assert_array_equal(u.numpy(), v.numpy())
    for bad in (10, -1):
        i = torch.randint(0, 10, (30,))
        i[7] = bad
        for g in (f, compiled):
            with pytest.raises(RuntimeError, match=f"index {bad} is out of bounds for dimension 0 with size 10"):
                g(x, i, s)


def test_many_rows_added() -> None:
    """index_add, index_put, gradients of indexing, embedding and gather, beyond the sizes that numpy adds."""
    for dtype, width in itertools.product((np.float32, np.float64), (1, 3, 20)):
        x, s = RNG.standard_normal((50, width)).astype(dtype), RNG.standard_normal((3000, width)).astype(dtype)
        i = RNG.integers(0, 50, 3000)
        want = x.copy()
        np.add.at(want, i, s)
        xs, at, ss = torch.from_numpy(x), torch.from_numpy(i), torch.from_numpy(s)
        found = [
            xs.index_add(0, at, ss),
            xs.clone().index_add_(0, at, ss),
            xs.index_put((at,), ss, accumulate=True),
            xs.index_put((at - 50,), ss, accumulate=True),
            xs.scatter_add(0, at[:, None].expand(-1, width), ss),
            xs.scatter_add(0, at[:, None].repeat(1, width), ss),
            xs.clone().scatter_add_(0, at[:, None].repeat(1, width), ss),
            xs.t().index_add(1, at, ss.t()).t(),
            xs.t().contiguous().index_add(1, at, ss.t().contiguous()).t(),
            xs.t().contiguous().scatter_add(1, at[None].expand(width, -1), ss.t().contiguous()).t(),
        ]
        for y in found:
            np.testing.assert_array_equal(y.numpy(), want)
        sums = np.zeros_like(x)
        np.add.at(sums, i, s)
        leaf = xs.clone().requires_grad_()
        for y in (leaf[at], torch.nn.functional.embedding(at, leaf), leaf.gather(0, at[:, None].repeat(1, width))):
            (g,) = torch.autograd.grad(y, leaf, ss)
            np.testing.assert_array_equal(g.numpy(), sums)


def test_wrong_places_change_nothing() -> None:
    x, s = torch.zeros(50, 4), torch.ones(3000, 4)
    i = torch.from_numpy(RNG.integers(0, 50, 3000))
    i[2999] = 50
    for call in (
        lambda: x.index_add_(0, i, s),
        lambda: x.scatter_add_(0, i[:, None].expand(-1, 4), s),
        lambda: x.scatter_add_(0, i[:, None].repeat(1, 4), s),
        lambda: x.index_put_((i,), s, accumulate=True),
        lambda: x.scatter_(0, i[:, None].repeat(1, 4), s),
        lambda: x.scatter_reduce_(0, i[:, None].repeat(1, 4), s, "amax"),
        lambda: x.gather(0, i[:, None].repeat(1, 4)),
        lambda: x.t().contiguous().gather(1, i[None].repeat(4, 1)),
    ):
        with pytest.raises((IndexError, RuntimeError), match="50"):
            call()
        assert not x.any()


def test_many_written_and_read() -> None:
    for dim, dtype in itertools.product((0, 1), (np.float32, np.float64)):
        at = (5000, 3) if dim == 0 else (3, 5000)
        x, s = RNG.standard_normal((40, 40)).astype(dtype)[: 40 if dim == 0 else 3, : 3 if dim == 0 else 40], None
        s, i = RNG.standard_normal(at).astype(dtype), RNG.integers(0, 40, at)
        want = x.copy()
        for place in itertools.product(*map(range, at)):  # the last one stays
            to = [*place]
            to[dim] = i[place]
            want[tuple(to)] = s[place]
        got = torch.from_numpy(x.copy()).scatter(dim, torch.from_numpy(i), torch.from_numpy(s))
        np.testing.assert_array_equal(got.numpy(), want)
        got = torch.from_numpy(x.copy()).gather(dim, torch.from_numpy(i))
        np.testing.assert_array_equal(got.numpy(), np.take_along_axis(x, i, dim))


def test_largest_of_bags() -> None:
    """Bags of any length, empty ones too, without a Python loop; gradients go to the first of equal ones."""
    weight = torch.from_numpy(np.round(RNG.standard_normal((30, 5))).astype(np.float32)).requires_grad_()
    i = torch.from_numpy(RNG.integers(0, 30, 40))
    ends = [0, 4, 4, 9, 20, 20, 33]
    y = torch.nn.functional.embedding_bag(i, weight, torch.tensor(ends), mode="max")
    rows = weight[i]
    parts = [rows[a:b].max(0)[0] if b > a else torch.zeros(5) for a, b in itertools.pairwise([*ends, 40])]
    want = torch.stack(parts)
    np.testing.assert_array_equal(y.detach().numpy(), want.detach().numpy())
    v = torch.randn(7, 5)
    (a,), (b,) = torch.autograd.grad(y, weight, v), torch.autograd.grad(want, weight, v)
    np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6)
    empty = torch.nn.functional.embedding_bag(i[:0], weight, torch.tensor([0, 0]), mode="max")
    assert empty.shape == (2, 5) and not empty.any()
