"""embedding_bag: sums, means and extrema of bags written out, with gradients, for bags of every kind."""

import itertools

import numpy as np
import pytest

import fusegrad as fg

BAGS = {
    "one length": (np.arange(12).reshape(4, 3) * 5 % 7, None),
    "offsets": (np.arange(17) * 3 % 7, np.array([0, 2, 2, 9, 16])),
    "empty at both ends": (np.arange(5) % 7, np.array([0, 0, 5, 5])),
    "one row each": (np.arange(6)[:, None] % 7, None),
}


def members(index, offsets):
    if offsets is None:
        return list(index)
    return [index[a:b] for a, b in itertools.pairwise([*offsets, len(index)])]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("padding", [None, 3])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("kind", BAGS)
def test_bags_written_out(kind, mode, padding, dtype):
    index, offsets = BAGS[kind]
    rng = np.random.default_rng(0)
    table = np.round(rng.standard_normal((7, 35)) * 2).astype(dtype)  # several are the largest
    w = fg.tensor(table, requires_grad=True)
    given = fg.tensor(index), w, None if offsets is None else fg.tensor(offsets)
    y = fg.nn.functional.embedding_bag(*given, mode=mode, padding_idx=padding)
    v = rng.standard_normal(tuple(y.shape)).astype(dtype)
    want, grad = np.zeros((len(v), 35)), np.zeros((7, 35))
    for b, mine in enumerate(members(index, offsets)):
        mine = mine[mine != padding]
        if not mine.size:
            continue
        if mode == "max":
            first = mine[table[mine].argmax(0)]
            want[b] = table[first, range(35)]
            grad[first, range(35)] += v[b]
        else:
            share = mine.size if mode == "mean" else 1
            want[b] = table[mine].astype(float).sum(0) / share
            np.add.at(grad, mine, v[b].astype(float) / share)
    close = dict(rtol=1e-5, atol=1e-5) if dtype == "float32" else dict(rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(y.detach().numpy(), want, **close)
    np.testing.assert_allclose(fg.autograd.grad(y, w, fg.tensor(v))[0].numpy(), grad, **close)
    compiled = fg.compile(lambda i, w, o: fg.nn.functional.embedding_bag(i, w, o, mode=mode, padding_idx=padding))
    np.testing.assert_allclose(compiled(*given).detach().numpy(), want, **close)


@pytest.mark.parametrize("kind", BAGS)
def test_factors_have_gradients_of_both_orders(kind):
    index, offsets = BAGS[kind]
    rng = np.random.default_rng(1)
    w, p = (fg.tensor(rng.standard_normal(s), requires_grad=True) for s in ((7, 3), index.shape))
    offsets = None if offsets is None else fg.tensor(offsets)

    def f(w, p):
        bags = fg.nn.functional.embedding_bag(fg.tensor(index), w, offsets, mode="sum", per_sample_weights=p)
        return bags.sin()

    assert fg.autograd.gradcheck(f, (w, p)) and fg.autograd.gradgradcheck(f, (w, p))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("bad", [7, -1])
def test_wrong_indices_are_refused(mode, bad):
    w = fg.zeros(7, 40)
    for index, offsets in ((fg.tensor([[1, bad], [2, 3]]), None), (fg.tensor([1, 2, bad]), fg.tensor([0, 2]))):
        with pytest.raises(IndexError, match=f"index out of range in self: index {bad}, dimension 0 has size 7"):
            fg.nn.functional.embedding_bag(index, w, offsets, mode=mode)


def test_nan_is_the_largest_of_a_bag():
    table = np.array([[1.0, np.nan], [np.nan, 2.0], [3.0, -np.inf], [0.0, -np.inf]])
    got = fg.nn.functional.embedding_bag(fg.tensor([[0, 1], [2, 3]]), fg.tensor(table), mode="max").numpy()
    np.testing.assert_array_equal(got, [[np.nan, np.nan], [3.0, -np.inf]])
