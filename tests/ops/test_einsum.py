"""einsum: the calls noted once for an equation and shapes, against the equation carried out on the operands."""

from __future__ import annotations

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.ops import einsum as E

CASES = [
    ("ij,kj->ik", (2, 4), (3, 4)),
    ("ij,jk", (2, 4), (4, 3)),
    ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
    ("bij,bjk->bik", (1, 3, 4), (2, 4, 5)),
    ("bhqd,bhkd->bhqk", (2, 2, 3, 4), (2, 2, 5, 4)),
    ("i,i->", (5,), (5,)),
    ("i,j->ij", (5,), (3,)),
    ("i,i->i", (5,), (1,)),
    ("ij->ji", (2, 3)),
    ("ij->ij", (2, 3)),
    ("ij->", (2, 3)),
    ("ij->j", (2, 3)),
    ("ii->i", (3, 3)),
    ("ii", (3, 3)),
    ("iij,jk->ki", (3, 3, 2), (2, 4)),
    ("...ij,...jk->...ik", (2, 3, 4), (4, 5)),
    ("...ij,...jk->...ik", (7, 1, 3, 4), (2, 4, 5)),
    ("a...b,b->...a", (2, 3, 4, 5), (5,)),
    ("ij,ij->ij", (2, 3), (2, 3)),
    ("ij,ij->ij", (2, 1), (1, 3)),
    ("ij,jk,kl->il", (2, 3), (3, 4), (4, 2)),
    ("ij,kl->", (2, 3), (2, 4)),
    ("ij,j->i", (2, 1), (3,)),
    ("ij,j->i", (2, 3), (1,)),
    ("ij,jk->ik", (0, 3), (3, 2)),
    ("ij,jk->ik", (2, 0), (0, 2)),
    (",->", (), ()),
    (",i->i", (), (3,)),
]


def made(shape, turned):
    a = np.random.default_rng(len(shape)).standard_normal(shape[::-1] if turned else shape)
    return fg.tensor(a, requires_grad=True), (fg.tensor(a, requires_grad=True))


@pytest.mark.parametrize("turned", [False, True], ids=["contiguous", "turned"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_plans_are_what_the_equation_says(case, turned):
    equation, *shapes = case
    pairs = [made(s, turned) for s in shapes]
    xs, ys = ([p[k].permute(*range(p[k].ndim)[::-1]) if turned and p[k].ndim else p[k] for p in pairs] for k in (0, 1))
    got = fg.einsum(equation, *xs)
    want = E._contract(*E._parse(equation, ys), ys)
    assert tuple(got.shape) == tuple(want.shape) and got.dtype is want.dtype
    np.testing.assert_array_equal(got.detach().numpy(), want.detach().numpy())
    assert got._is_view() == want._is_view()
    plain = [x.detach().numpy() for x in xs]
    try:
        np.testing.assert_allclose(got.detach().numpy(), np.einsum(equation, *plain), rtol=1e-12, atol=1e-12)
    except ValueError:  # numpy broadcasts no sizes of 1 under letters
        assert any(1 in s for s in shapes)
    ones = fg.ones_like(got)
    for a, b in zip(
        fg.autograd.grad(got, [p[0] for p in pairs], ones),
        fg.autograd.grad(want, [p[1] for p in pairs], ones),
        strict=True,
    ):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_errors_do_not_depend_on_what_was_called_before():
    x, y = fg.ones(2, 3), fg.ones(3, 4)
    for _ in range(2):
        assert tuple(fg.einsum("ij,jk->ik", x, y).shape) == (2, 4)
        with pytest.raises(RuntimeError, match="does not broadcast"):
            fg.einsum("ij,jk->ik", x, x)
        with pytest.raises(RuntimeError, match="number of subscripts"):
            fg.einsum("ij,jk->ik", x, fg.ones(3))
        with pytest.raises(RuntimeError, match="more operands"):
            fg.einsum("ij->ij", x, y)
