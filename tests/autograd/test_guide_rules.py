"""Small rules of PyTorch that the guide's pages brought up."""

from __future__ import annotations

import pytest

import fusegrad as fg
from fusegrad.autograd import Function, graph


def leaf(*values: float) -> fg.Tensor:
    return fg.tensor(list(values), requires_grad=True)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: (x + 1).sum(),
        lambda x: x.reshape(2, 1).t().sum(),
        lambda x: (-x).mean(),
    ],
)
def test_nodes_that_kept_no_tensor_run_again(f) -> None:
    x = leaf(1.0, 2.0)
    y = f(x)
    y.backward()
    once = x.grad.tolist()
    y.backward()
    assert x.grad.tolist() == pytest.approx([2 * g for g in once])


@pytest.mark.parametrize(
    "f", [lambda x: (x * x).sum(), lambda x: x.exp().sum(), lambda x: (x * 2).sum(), lambda x: (x / 3).mean()]
)  # PyTorch keeps the number as a tensor
def test_nodes_that_kept_tensors_do_not(f) -> None:
    y = f(leaf(1.0, 2.0))
    y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_a_function_that_saved_nothing_runs_again() -> None:
    class Twice(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = leaf(1.0)
    y = Twice.apply(x)
    y.backward()
    y.backward()
    assert x.grad.tolist() == [4.0]


def test_saved_tensors_by_name() -> None:
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    y = x * w
    assert y.grad_fn._saved_self is x and y.grad_fn._saved_other is w
    assert (x * fg.ones(2)).grad_fn._saved_self is None
    e = x.exp()
    node = e.grad_fn
    assert fg.equal(node._saved_result, e) and node._saved_result.grad_fn is node
    assert not hasattr(node, "_saved_other")
    e.sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        _ = node._saved_result
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = node.nothing


def test_a_node_can_be_called() -> None:
    x = leaf(1.0, 2.0)
    first, second = (x * fg.ones(2)).grad_fn(fg.ones(2))
    assert first.tolist() == [1.0, 1.0] and second is None
    assert x.exp().grad_fn(fg.zeros(2)).tolist() == [0.0, 0.0]


def test_requires_grad_of_a_result_cannot_be_assigned() -> None:
    y = leaf(1.0) * 2
    with pytest.raises(RuntimeError, match="leaf"):
        y.requires_grad = True
    assert y.requires_grad_() is y


def test_set_shares_memory_but_not_the_version() -> None:
    a, b = fg.ones(2), fg.zeros(3)
    assert a.set_(b) is a and a.shape == (3,) and a.data_ptr() == b.data_ptr()
    a.add_(1)
    assert b.tolist() == [1.0, 1.0, 1.0] and (a._version, b._version) == (2, 0)
    with pytest.raises(RuntimeError, match="requires grad"):
        leaf(1.0).set_(b)
    with pytest.raises(RuntimeError, match="int64"):
        a.set_(fg.arange(3))
    with pytest.raises(TypeError, match="must be Tensor"):
        a.set_([1.0])


@pytest.mark.parametrize(
    "f",
    [
        lambda h: h.unbind()[0],
        lambda h: h.split(2)[0],
        lambda h: h.chunk(2)[1],
        lambda h: next(iter(h)),
        lambda h: h.split_with_sizes([1, 3])[1],
    ],
)
def test_views_made_together_refuse_changes(f) -> None:
    h = fg.ones(4, 2, requires_grad=True) * 1
    with pytest.raises(RuntimeError, match="multiple views"):
        f(h).add_(1)
    plain = fg.zeros(4, 2)
    f(plain).add_(1)
    assert plain.sum().item() > 0
    with fg.no_grad():
        f(h).add_(1)


def test_dirty_leaf_and_wrong_kind_of_gradient() -> None:
    class Dirty(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx, g):
            return 3

    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place"):
        Dirty.apply(leaf(1.0))
    with pytest.raises(RuntimeError, match="DirtyBackward returned a int"):
        Dirty.apply(leaf(1.0) * 1).sum().backward()
    with pytest.raises(RuntimeError, match="Dirty.apply"):
        Dirty()(leaf(1.0))


def test_gradient_edges_versions_and_disabled_hooks() -> None:
    x = leaf(1.0)
    y = x * 2
    edge = graph.get_gradient_edge(y)
    assert edge.node is y.grad_fn and edge.output_nr == 0
    assert graph.get_gradient_edge(x).node.variable is x
    with pytest.raises(RuntimeError, match="does not require gradients"):
        graph.get_gradient_edge(fg.ones(1))
    t = fg.ones(1)
    graph.increment_version([t, t])
    assert t._version == 2
    with graph.disable_saved_tensors_hooks("not here"):
        with pytest.raises(RuntimeError, match="not here"):
            with graph.saved_tensors_hooks(lambda t: t, lambda t: t):
                pass
    with graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        pass


def test_overlapping_writes_are_refused() -> None:
    def shift(x):
        x[1:] = x[:-1]

    def add(x):
        x[1:].add_(x[:-1])

    def row(x):
        x.view(2, 2).add_(x.view(2, 2)[:1])

    for change in (shift, add, row):
        with pytest.raises(RuntimeError, match="refer to a single memory location"):
            change(fg.arange(4.0))
    x = fg.arange(4.0)
    x.add_(x)
    x[:2] = x[2:]
    x[:] = x
    x.detach().copy_(x)
    assert x.tolist() == [4.0, 6.0, 4.0, 6.0]


def test_grad_of_a_result_warns() -> None:
    y = leaf(1.0) * 2
    with pytest.warns(UserWarning, match="use .retain_grad"):
        assert y.grad is None
    y.retain_grad()
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert y.grad is None and leaf(1.0).grad is None
