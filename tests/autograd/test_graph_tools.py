"""``autograd.graph``: hooks on several tensors, gradient edges, AccumulateGrad nodes, saved tensors under change."""

from __future__ import annotations

import gc
import weakref

import pytest

import fusegrad as T
from fusegrad.autograd import graph


def leaf(*values: float) -> T.Tensor:
    return T.tensor(values or (1.0, 2.0), requires_grad=True)


# ---- several tensors


def test_multi_grad_hook_waits_for_what_the_pass_reaches() -> None:
    a, b, c = leaf(), leaf(), leaf()
    y = a * 2
    seen: list = []
    handle = graph.register_multi_grad_hook(
        [y, b, c], lambda gs: seen.append([None if g is None else g.tolist() for g in gs])
    )
    (y * b).sum().backward(retain_graph=True)
    assert seen == [[[1, 2], [2, 4], None]]
    (b * c).sum().backward()  # y is not reached
    assert seen[1:] == [[None, [1, 2], [1, 2]]]
    T.autograd.grad((b * c).sum(), b)  # hooks of leaves run for what was asked for
    assert seen[2:] == [[None, [1, 2], None]]
    T.autograd.grad((a * 3).sum(), a)
    assert len(seen) == 3
    handle.remove()
    (y * b * c).sum().backward()
    assert len(seen) == 3


def test_multi_grad_hook_any_and_refusals() -> None:
    a, b = leaf(), leaf()
    y, z = a * 2, b * 3
    seen: list = []
    with graph.register_multi_grad_hook((y, z), lambda g: seen.append(g.tolist()), mode="any"):
        (y + z * 5).sum().backward(retain_graph=True)
        assert len(seen) == 1 and seen[0] in ([1, 1], [5, 5])
        (z * 2).sum().backward()
        assert seen[1:] == [[2, 2]]
    with pytest.raises(ValueError, match="'all', 'any'"):
        graph.register_multi_grad_hook((y,), print, mode="some")  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="requires? grad"):
        graph.register_multi_grad_hook((T.ones(1),), print)


def test_multi_grad_hook_in_a_pass_inside_a_pass() -> None:
    a, b = leaf(), leaf()
    y = a * 2
    seen: list = []
    graph.register_multi_grad_hook([y, b], lambda gs: seen.append([g is None for g in gs]))
    w, inner = b * 1, (leaf() * y).sum()
    w.register_hook(lambda g: inner.backward(retain_graph=True))  # a pass of its own, which reaches y alone
    (w * y).sum().backward()
    assert sorted(seen) == [[False, False], [False, True]]


# ---- edges


def test_gradient_edges_stand_for_tensors() -> None:
    a = leaf(1.0, 1.0)
    y = a * 2
    z = (y * 3).sum()
    edge = graph.get_gradient_edge(y)
    assert edge.node is y.grad_fn and edge.output_nr == 0
    del y
    assert T.autograd.grad(z, edge, retain_graph=True)[0].tolist() == [3, 3]
    g_edge, g_leaf = T.autograd.grad(z, [edge, a], retain_graph=True)
    assert g_edge.tolist() == [3, 3] and g_leaf.tolist() == [6, 6]
    assert T.autograd.grad(edge, a, T.tensor([1.0, 10.0]), retain_graph=True)[0].tolist() == [2, 20]
    with pytest.raises(RuntimeError, match="only for scalar"):
        T.autograd.grad(edge, a)
    at_leaf = graph.get_gradient_edge(a)
    z.backward(inputs=[at_leaf, edge], retain_graph=True)
    assert a.grad is not None and a.grad.tolist() == [6, 6]
    T.autograd.backward(edge, T.ones(2))
    assert a.grad.tolist() == [8, 8]
    with pytest.raises(RuntimeError, match="does not require gradients"):
        graph.get_gradient_edge(T.ones(1))
    with pytest.raises(RuntimeError, match="`inputs` argument to `grad"):
        T.autograd.grad(z, [])


def test_accumulate_grad_nodes() -> None:
    a = leaf()
    y = a * 2
    node = y.grad_fn.next_functions[0][0]
    assert node is y.grad_fn.next_functions[0][0] and node.variable is a and node.next_functions == ()
    node.metadata["mark"] = 3
    log: list = []
    node.register_prehook(lambda gs: log.append(("before", a.grad is None)) or (gs[0] * 10,))
    handle = node.register_hook(lambda ins, outs: log.append(("after", ins, outs[0].tolist(), a.grad is None)))
    a.register_hook(lambda g: log.append("tensor"))
    a.register_post_accumulate_grad_hook(lambda t: log.append("post"))
    del node
    y.sum().backward()
    assert log == ["tensor", ("before", True), "post", ("after", (), [20, 20], False)]
    assert (a * 1).grad_fn.next_functions[0][0].metadata == {"mark": 3}
    handle.remove()
    log.clear()
    T.autograd.grad((a * 2).sum(), a)
    assert log == ["tensor"]  # nothing was accumulated
    (a * 1).grad_fn.next_functions[0][0](T.ones(2))
    assert a.grad.tolist() == [30, 30]


def test_accumulate_grad_node_holds_no_cycle() -> None:
    gc.disable()
    try:
        a = leaf()
        node = (a * 2).grad_fn.next_functions[0][0]
        node.register_hook(lambda *x: None)
        ref = weakref.ref(a)
        del node, a
        assert ref() is None
    finally:
        gc.enable()


def test_node_hooks_must_return_what_they_got() -> None:
    answers = [
        (lambda ins: (1, None), TypeError),
        (lambda ins: 3, TypeError),
        (lambda ins: ins[:1], RuntimeError),
        (lambda ins: (ins[0][:1], ins[1]), RuntimeError),
        (lambda ins: (ins[0].double(), ins[1]), RuntimeError),
    ]
    for answer, error in answers:
        a = leaf()
        y = a * leaf()
        y.grad_fn.register_hook(lambda ins, outs, answer=answer: answer(ins))
        with pytest.raises(error, match="hook"):
            y.sum().backward()
        assert a.grad is None
    for wrong in (lambda g: g.double(), lambda g: g[:1], lambda g: 3):
        a = leaf()
        a.register_hook(wrong)
        with pytest.raises((RuntimeError, TypeError), match="hook"):
            (a * 1).sum().backward()
        assert a.grad is None


# ---- saved tensors


def test_saved_tensors_may_change_inside_the_context() -> None:
    a = leaf(1.0, 2.0, 3.0)
    with graph.allow_mutation_on_saved_tensors():
        b = a * 3
        view = b[1:]
        loss = (view * view).sum() + (b * b).sum()
        view.mul_(10)
        with T.no_grad():
            b.zero_()
        out = (a * 1).exp()
        value = out.detach().clone()
        out.mul_(2)  # exp saved its output
        (loss + out.sum()).backward()
    want = 18 * a.detach() * T.tensor([1.0, 2.0, 2.0]) + 2 * value
    assert T.allclose(a.grad, want)


def test_mutation_context_refuses() -> None:
    a = leaf()
    with graph.allow_mutation_on_saved_tensors():
        b = a * 1
        loss = (b * b).sum()
        with pytest.raises(RuntimeError, match="cannot be nested"), graph.allow_mutation_on_saved_tensors():
            pass
    with pytest.raises(AssertionError, match="outside"):
        loss.backward()
    b = a * 1
    loss = (b * b).sum()
    b.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace"):
        loss.backward()


def test_hook_contexts_decorate() -> None:
    log: list = []

    @graph.saved_tensors_hooks(lambda t: log.append("pack") or t, lambda t: t)
    def f(x: T.Tensor) -> T.Tensor:
        return (x * x).sum()

    f(leaf()).backward()
    assert log == ["pack", "pack"]

    @graph.disable_saved_tensors_hooks("not in here")
    def g(x: T.Tensor) -> T.Tensor:
        return f(x)

    with pytest.raises(RuntimeError, match="not in here"):
        g(leaf())
    with graph.save_on_cpu():
        x = leaf()
        (x * x).sum().backward()
    assert x.grad.tolist() == [2, 4]


@pytest.mark.parametrize("name", ["relu_", "sigmoid_", "tanh_", "exp_", "sqrt_", "rsqrt_", "reciprocal_", "expm1_"])
@pytest.mark.parametrize("view", [False, True])
def test_results_written_in_place_are_packed_where_they_stand(name: str, view: bool) -> None:
    def run(pack: object) -> tuple[T.Tensor, list, T.Tensor]:
        x = T.tensor([[0.5, 2.0, 0.25]], requires_grad=True)
        y, saved = x * 1, []
        with graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t) if pack else T.enable_grad():
            getattr(y[0] if view else y, name)()
        y.sum().backward()
        return y, saved, x.grad

    y, saved, grad = run(True)
    assert [t.data_ptr() for t in saved] == [y.data_ptr()]  # the memory of y, not a copy of it
    assert saved[0]._version == y._version
    assert grad.tolist() == run(False)[2].tolist()


def test_what_a_node_saved_has_the_names_of_pytorch() -> None:
    x = T.ones(2, 3, requires_grad=True)
    w = T.ones(3, 2)
    assert (x @ w).grad_fn._saved_mat2 is w and (x @ w).grad_fn._raw_saved_mat2.data is w
    assert x.max(1)[0].grad_fn._saved_indices.tolist() == [0, 0]
    assert x.t()[0].dot(T.ones(2)).grad_fn._saved_tensor.shape == (2,)
    assert x.sum(0).grad_fn._saved_self_sym_sizes == x.view(6).grad_fn._saved_self_sym_sizes == (2, 3)
    assert (x * 2).sum(0).grad_fn._saved_self_sym_sizes == (2, 3)
    assert T.nn.functional.nll_loss(x, T.tensor([0, 1])).grad_fn._saved_reduction == 1
    assert T.where(x > 0, x, x).grad_fn._saved_condition.dtype is T.bool
    for y in (
        x @ w,
        x.transpose(0, 1),
        x.diagonal(),
        x.softmax(1),
        x.max(1)[0],
        x.cumsum(0),
        x.prod(),
        x[T.tensor([0])],
    ):
        names = [n for n in dir(y.grad_fn) if n.startswith(("_saved_", "_raw_saved_"))]
        for n in names:
            getattr(y.grad_fn, n)
    assert {"_saved_mat2", "_saved_self"} <= set(dir((x @ w).grad_fn))
    assert "_saved_dim0" in dir(x.transpose(0, 1).grad_fn) and "_raw_saved_dim0" not in dir(x.transpose(0, 1).grad_fn)
    with pytest.raises(AttributeError):
        x.sum().grad_fn._saved_no_sym_sizes  # noqa: B018
