"""Backward passes on arrays: what must stay as it is when gradients go from node to node without Tensors."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.autograd import Function, graph
from fusegrad.autograd.array_pass import run_on_arrays
from fusegrad.op import TABLE


def leaf(*values: float) -> fg.Tensor:
    return fg.tensor([float(v) for v in values], requires_grad=True)


def test_memory_of_the_cotangent_is_not_taken():
    x, cot = leaf(1, 2), fg.tensor([3.0, 4.0])
    (x + 0).backward(cot)
    x.grad.add_(1)
    assert cot.tolist() == [3, 4]


@pytest.mark.parametrize("held", ["cot", "cot * 1", "fg.ones(2)"])
def test_first_pass_of_a_process(held):
    """What tells shared memory from memory of one's own does not depend on what a process differentiates first."""
    code = f"""if True:
        import fusegrad as fg
        x, y, cot = fg.ones(2, requires_grad=True), fg.ones(2, requires_grad=True), fg.tensor([3.0, 4.0])
        given = {held}
        (x + y).backward(given)
        x.grad.add_(1)
        assert y.grad.tolist() == given.tolist() and cot.tolist() == [3, 4], (y.grad, given)
        (x * 2).sum().backward()
        made = x * 1
        made.backward(given)
        assert x.grad._data is not given._data
        """
    subprocess.run([sys.executable, "-c", code], check=True)


def test_one_gradient_for_two_leaves():
    x, y = leaf(1, 2), leaf(3, 4)
    (x + y).backward(fg.ones(2))
    x.grad.mul_(5)
    assert y.grad.tolist() == [1, 1]


@pytest.mark.parametrize(
    "make", [lambda x: x.view(2, 1), lambda x: x.sum().expand(2), lambda x: x[:1], lambda x: x.clone()]
)
def test_gradients_are_own_contiguous_arrays(make):
    x = leaf(1, 2)
    y = make(x)
    y.backward(fg.ones(y.shape))
    g = x.grad
    assert g.is_contiguous() and g._data.base is None and g._data.flags.writeable and g.shape == x.shape
    kept = g.clone()
    y = make(x)
    y.backward(fg.ones(y.shape))
    assert x.grad is g and g.tolist() == (kept * 2).tolist()


def test_layout_of_the_leaf():
    x = fg.ones(3, 2).t().contiguous().t().requires_grad_()
    (x * 2).sum().backward()
    assert x.grad.stride() == x.stride()


def test_hooks_on_the_way():
    x, seen = leaf(1, 2), []
    y = x * 3
    z = y.exp()
    y.register_hook(lambda g: seen.append(("tensor", type(g), g.requires_grad)) or g * 2)
    z.grad_fn.register_hook(lambda i, o: seen.append(("node", len(i), o[0].tolist())))
    y.retain_grad()
    x.register_hook(lambda g: seen.append(("leaf", g.tolist())))
    x.register_post_accumulate_grad_hook(lambda t: seen.append(("post", t.grad is not None)))
    z.backward(fg.ones(2))
    e = np.exp(np.float32([3, 6]))
    np.testing.assert_allclose(x.grad.numpy(), 6 * e, rtol=1e-6)
    np.testing.assert_allclose(y.grad.numpy(), 2 * e, rtol=1e-6)
    assert [s[0] for s in seen] == ["node", "tensor", "leaf", "post"] and seen[1][1:] == (fg.Tensor, False)


class Doubled(Function):
    """A custom operator whose backward keeps what it returns."""

    kept: list = []

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        assert type(g) is fg.Tensor and not fg.is_grad_enabled()
        r = g * 2
        Doubled.kept.append(r)
        return r


def test_custom_nodes():
    x = leaf(1, 2)
    (Doubled.apply(x) * 3).sum().backward()
    assert x.grad.tolist() == [6, 6]
    x.grad.zero_()
    assert Doubled.kept.pop().tolist() == [6, 6]


def test_sums_over_paths():
    """Arrays from operators with an array form meet Tensors from those without one, in both orders."""
    x = leaf(1, 2)
    ((x * 2).sum() + Doubled.apply(x).sum() + fg.stack([x, x]).sum() + x.logsumexp(0) * 0).backward()
    assert x.grad.tolist() == [6, 6]
    s = fg.tensor(2.0, requires_grad=True)
    (s * s + s).backward()
    assert s.grad.item() == 5 and s.grad.ndim == 0


def test_several_outputs():
    x = leaf(1, 5, 3)
    values, _ = x.view(1, 3).max(1)
    a, _ = x.split([2, 1])
    (values.sum() * 2 + a.sum()).backward()
    assert x.grad.tolist() == [1, 3, 0]


@pytest.mark.parametrize("how", ["linear", "matmul", "mul", "exp"])
def test_what_was_changed_or_freed(how):
    x, w = fg.ones(2, 2, requires_grad=True), fg.ones(2, 2, requires_grad=True)
    call = {"linear": lambda a, b: fg.nn.functional.linear(a, b), "matmul": lambda a, b: a @ b,
            "mul": lambda a, b: a * b, "exp": lambda a, b: a.exp()}[how]  # fmt: skip
    y = x * 1
    out = call(y, w * 1)
    (out if how == "exp" else y).add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()
    assert x.grad is None
    out = call(x, w)
    out.sum().backward(retain_graph=True)
    out.sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        out.sum().backward()


def test_broadcast_and_promoted_inputs():
    x, b, c = fg.ones(3, 2, requires_grad=True), leaf(1, 2), fg.ones(3, 1, dtype=fg.float64, requires_grad=True)
    (x * b + c).sum().backward()
    assert b.grad.tolist() == [3, 3] and c.grad.tolist() == [[2], [2], [2]]
    assert c.grad.dtype is fg.float64 and x.grad.dtype is fg.float32
    for shape in ((2,), (1, 2), (1,), ()):
        bias = fg.ones(shape, requires_grad=True)
        fg.nn.functional.linear(fg.ones(3, 4), fg.ones(2, 4), bias).sum().backward()
        assert bias.grad.shape == bias.shape and bias.grad.sum().item() == 6
    y = leaf(1, 2)
    y.sum(dtype=fg.float64).backward()
    assert y.grad.dtype is fg.float32


def test_packed_tensors_and_modes():
    x = leaf(1, 2)
    with graph.saved_tensors_hooks(lambda t: t.numpy(force=True), fg.from_numpy):
        y = (x * x).exp()
    y.sum().backward()
    with fg.autograd.set_detect_anomaly(True):
        z = fg.zeros(1, requires_grad=True).sqrt() * 0
        with np.errstate(all="ignore"), pytest.raises(RuntimeError, match="nan values"):
            z.backward()
    with np.errstate(over="raise"):
        w = leaf(80.0)
        (w.exp() * 1e5 * w.exp().detach()).sum().backward()  # numpy's errors are not the user's
    assert w.grad.item() == float("inf")


def test_graph_of_gradients_is_recorded_where_asked():
    x = leaf(1, 2)
    (g,) = fg.autograd.grad((x**3).sum(), x, create_graph=True)
    assert g.requires_grad
    g.sum().backward()
    assert x.grad.tolist() == [6, 12]


def test_the_usual_operators_have_an_array_form():
    """Else a pass would be as slow as before, silently."""
    usual = """add sub mul true_divide neg exp log tanh sigmoid relu sqrt pow square sum mean matmul view transpose
        permute unsqueeze squeeze_dims slice_nd select expand clone cast where nn.functional.linear""".split()
    assert [n for n in usual if TABLE[n].on_arrays is None] == []
    assert run_on_arrays.__doc__


def test_parts_of_divided_tensors():
    """Gradients of some of the views that one call made: zeros for the others, along every dimension."""
    for dim in (0, 1, -1):
        for parts in (lambda t, d: t.chunk(2, d), lambda t, d: t.unbind(d), lambda t, d: t.split([1, 1], d)):
            x = fg.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
            first, second = parts(x * 3, dim)
            (second * second).sum().backward()
            mine = np.zeros((2, 2))
            at = (1,) if dim == 0 else (slice(None), 1)
            mine[at] = 18 * x.detach().numpy()[at]
            assert np.array_equal(x.grad.numpy(), mine)
            y = fg.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
            a, b = parts(y * 3, dim)
            (a * b).sum().backward()
            z = fg.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
            (g,) = fg.autograd.grad((lambda p, q: (p * q).sum())(*parts(z * 3, dim)), z, create_graph=True)
            assert np.array_equal(y.grad.numpy(), g.detach().numpy())


BATCHES = [((2, 3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((2, 1, 3, 4), (5, 4, 2)), ((3, 4), (2, 4, 5))]
BATCHES += [((4,), (2, 4, 5)), ((2, 3, 4), (4,)), ((0, 3, 4), (4, 5))]


@pytest.mark.parametrize("a,b", BATCHES)
def test_products_of_batches(a, b):
    """Batches, broadcast ones and vectors: the same gradients with and without a graph of them."""
    rng = np.random.default_rng(0)
    x, y = (fg.from_numpy(rng.standard_normal(s)).requires_grad_() for s in (a, b))
    for needs in ((x, y), (x,), (y,)):
        p, q = (t if any(t is n for n in needs) else t.detach() for t in (x, y))
        out = (p @ q).square().sum()
        plain = fg.autograd.grad(out, needs, retain_graph=True)
        recorded = fg.autograd.grad(out, needs, create_graph=True)
        for g, h, t in zip(plain, recorded, needs, strict=True):
            assert g.shape == t.shape and np.array_equal(g.numpy(), h.detach().numpy())
    w, v = (fg.from_numpy(rng.standard_normal(s)).requires_grad_() for s in ((3, a[-1]), (3,)))
    out = fg.nn.functional.linear(x, w, v).square().sum()
    for g, h in zip(
        fg.autograd.grad(out, (x, w, v), retain_graph=True),
        fg.autograd.grad(out, (x, w, v), create_graph=True),
        strict=True,
    ):
        assert np.array_equal(g.numpy(), h.detach().numpy())
