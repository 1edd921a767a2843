"""Short ways of small functions against the long ones: filling by masks, ranges, random integers, comparisons."""

from __future__ import annotations

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.autograd.modes import slow_paths
from fusegrad.tensor import Tensor


def both(run) -> list:
    """What ``run()`` gives by either way, or its error."""
    found = []
    for slow in (0, 1):
        slow_paths(slow)
        try:
            fg.manual_seed(3)
            out = run()
            found.append(
                [(x.tolist(), x.dtype, x._version, x.requires_grad) if isinstance(x, Tensor) else x for x in out]
            )
        except Exception as e:  # noqa: BLE001  (compared)
            found.append((type(e), str(e)))
        finally:
            slow_paths(-slow)
    return found


VALUES = [0.5, -3, float("inf"), float("-inf"), 1e39, 7e4, True, "x", np.float32(2), None]
MASKS = {
    "whole": lambda: fg.tensor([[True, False, True], [False, False, True]]),
    "row": lambda: fg.tensor([True, False, True]),
    "column": lambda: fg.tensor([[True], [False]]),
    "one": lambda: fg.tensor(True),
    "rows": lambda: fg.tensor([True, False]),
    "too large": lambda: fg.ones(2, 2, 3) > 0,
    "bytes": lambda: fg.tensor([[1, 0, 1], [0, 0, 1]], dtype=fg.uint8),
    "no mask": lambda: [True, False],
}
TENSORS = {
    "float32": lambda: fg.zeros(2, 3),
    "float64": lambda: fg.zeros(2, 3, dtype=fg.float64),
    "float16": lambda: fg.zeros(2, 3, dtype=fg.float16),
    "int64": lambda: fg.zeros(2, 3, dtype=fg.int64),
    "leaf": lambda: fg.zeros(2, 3, requires_grad=True),
    "inner": lambda: fg.zeros(2, 3, requires_grad=True) * 1,
    "view": lambda: fg.zeros(3, 2).t(),
    "expanded": lambda: fg.zeros(3).expand(2, 3),
    "read-only": lambda: fg.from_numpy(np.broadcast_to(np.float32(0), (2, 3))),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("what", TENSORS)
@pytest.mark.parametrize("mask", MASKS)
def test_filling_where_a_mask_holds(what, mask):
    for value in VALUES:

        def filled(value=value):
            x, m = TENSORS[what](), MASKS[mask]()
            same = x.masked_fill_(m, value)
            return [same is x, x, m]

        def assigned(value=value):
            x, m = TENSORS[what](), MASKS[mask]()
            x[m] = value
            return [x]

        for run in (filled, assigned):
            fast, slow = both(run)
            assert repr(fast) == repr(slow), (value, run.__name__)


@pytest.mark.parametrize(
    "low, high, size", [(0, 4, (8,)), (-3, 5, (2, 3)), (0, 1 << 40, (5,)), (5, 5, (2,)), (0, 2, (-1,)), (0, 9, ())]
)
def test_random_integers(low, high, size):
    fast, slow = both(lambda: [fg.randint(low, high, size), fg.rand(2), fg.randperm(7), fg.randperm(0), fg.rand(2)])
    assert fast == slow
    own = fg.Generator()
    fast, slow = both(
        lambda: [fg.randint(low, high, size, generator=own.manual_seed(1)), fg.randperm(5, generator=own)]
    )
    assert fast == slow


@pytest.mark.parametrize("n", [0, 1, 8, 1024, 1025, -1, True, 2.5])
def test_ranges(n):
    fast, slow = both(lambda: [fg.arange(n), fg.arange(n)])
    assert fast == slow
    if n == 8:
        a = fg.arange(n)
        a.add_(1)  # memory of its own
        assert fg.arange(n).tolist() == list(range(8))


def test_equal():
    nan = fg.tensor([float("nan")])
    a, b = fg.arange(4), fg.arange(4)
    assert fg.equal(a, b) is True and fg.equal(a, b[:3]) is False and fg.equal(a, b + 1) is False
    assert fg.equal(nan, nan) is False and fg.equal(a, a) is True and fg.equal(a, a.float()) is True
    with pytest.raises(TypeError, match="must be Tensor"):
        fg.equal(a, [0, 1, 2, 3])


def test_from_numpy():
    for a in (np.zeros(3), np.zeros((2, 3)).T, np.zeros(0), np.array(1.0), np.zeros(3, ">f4"), np.zeros(2, "c8"), [1]):
        fast, slow = both(lambda a=a: [fg.from_numpy(a)])
        assert fast == slow
    a = np.zeros(3, np.float32)
    fg.from_numpy(a).add_(1)
    assert a.tolist() == [1, 1, 1]
    with fg.inference_mode():
        assert fg.from_numpy(a).is_inference()


def test_addmv_by_both_ways():
    """The usual call, and those that the general way has to see: values, names of nodes, errors."""
    m, v, x = fg.rand(3, 2, requires_grad=True), fg.rand(2, requires_grad=True), fg.rand(3, requires_grad=True)
    short, long = fg.addmv(x, m, v), fg.addmv(x, m, v, beta=1.0)
    assert (short == long).all() and short.grad_fn.name() == long.grad_fn.name() == "AddmvBackward0"
    for p, q in zip(*[fg.autograd.grad(y.sum(), (x, m, v)) for y in (short, long)], strict=True):
        assert (p == q).all()
    for bad in ((x, m, x), (x, v, v), (x, m, m), (m, m, v)):
        with pytest.raises((RuntimeError, TypeError)):
            fg.addmv(*bad)
    assert fg.addmv(x[:1], m, v).shape == (3,)


SLOPES = [(), (0.5,), (2,), (-0.0,), (float("inf"),), (True,), ("x",), (None,), (0.1, 0.2)]
FORMS = {
    **{n: [((), getattr(fg.Tensor, n))] for n in ("sigmoid_", "sinc_", "tanh_")},
    **{n: [((), lambda x, n=n: getattr(fg.nn.functional, n)(x, inplace=True))] for n in ("silu", "mish", "hardswish")},
    "leaky_relu_": [(a, fg.nn.functional.leaky_relu_) for a in SLOPES],
    "leaky_relu_ by name": [((), lambda x: fg.nn.functional.leaky_relu_(x, negative_slope=0.3))],
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("what", TENSORS)
@pytest.mark.parametrize("form", FORMS)
def test_activations_in_place(form, what):
    """Machine code writes over its operand: the values, versions, histories and refusals of the general form."""
    for args, call in FORMS[form]:

        def run(args=args, call=call):
            x = TENSORS[what]()
            if what != "read-only":
                with fg.no_grad():
                    x += fg.tensor([-1.5, 0, 2]).to(x.dtype)
            same = call(x, *args)
            return [same is x, x, type(x.grad_fn).__name__]

        fast, slow = both(run)
        assert repr(fast) == repr(slow), args


def test_cosine_similarity_of_long_and_short_vectors():
    """As one operator (few elements) and as its parts: an infinite norm gives 0, a norm below eps counts as eps."""
    cosine = fg.nn.functional.cosine_similarity
    x, y = [[3e38, 3e38], [0.0, 0.0], [1e-9, 1e-9], [1.0, 0.0]], [[3e38, 3e38], [1.0, 2.0], [1e-9, 0.0], [0.5, 0.5]]
    for times in (1, 5000):
        a, b = (fg.tensor(v, requires_grad=True) for v in (x, y))
        out = cosine(a.repeat(times, 1), b.repeat(times, 1))[:4]
        np.testing.assert_allclose(out.tolist(), [0, 0, 0.01, 0.5**0.5], rtol=1e-6)
        ga, gb = (g.numpy() for g in fg.autograd.grad(out.sum(), (a, b)))
        np.testing.assert_allclose(ga[1:], [[4.472136e7, 8.944272e7], [9292893, -707106.8], [0, 0.5**0.5]], 1e-5)
        np.testing.assert_allclose(gb[1:], [[0, 0], [9e6, 1e7], [0.5**0.5, -(0.5**0.5)]], rtol=1e-5)
    p, q = (fg.from_numpy(np.random.default_rng(k).standard_normal((2, 3))).requires_grad_() for k in (0, 1))
    assert fg.autograd.gradgradcheck(cosine, (p, q))


def test_take_along_dim_negative_and_wrong():
    x = fg.arange(6.0).reshape(2, 3)
    assert fg.take_along_dim(x, fg.tensor([[-1], [0]]), 1).tolist() == [[2], [3]]
    with pytest.raises(RuntimeError, match="out of bounds"):
        fg.take_along_dim(x, fg.tensor([[3], [0]]), 1)
