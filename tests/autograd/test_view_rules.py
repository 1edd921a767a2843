"""Views made together, in no_grad, in inference mode or inside a Function: their nodes, and what in-place refuses."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import fusegrad as T
from fusegrad.autograd import Function

TOGETHER = {
    "split": (lambda x: x.split(2), "SplitBackward0"),
    "sections": (lambda x: x.split([1, 5]), "SplitWithSizesBackward0"),
    "chunk": (lambda x: x.chunk(3), "SplitBackward0"),
    "unbind": (lambda x: x.unbind(), "UnbindBackward0"),
    "iterated": (lambda x: tuple(x), "UnbindBackward0"),
    "rows": (lambda x: x.view(2, 3).unbind(1), "UnbindBackward0"),
    "whole": (lambda x: x.split(10), "SplitBackward0"),
}


@pytest.mark.parametrize("name", TOGETHER)
def test_views_of_one_call_share_a_node(name: str) -> None:
    make, label = TOGETHER[name]
    x = T.arange(6.0, requires_grad=True)
    views = make(x)
    assert isinstance(views, tuple)
    node = views[0].grad_fn
    assert node.name() == label and all(v.grad_fn is node for v in views)
    assert [v.output_nr for v in views] == list(range(len(views)))
    assert all(v._base is x for v in views)
    (views[-1] * 3).sum().backward()  # the others get zeros
    again = T.arange(6.0, requires_grad=True)
    (make(again * 1)[-1].detach() * 0).sum()
    whole = T.zeros(6)
    make(whole)[-1].fill_(3.0)
    assert x.grad.tolist() == whole.tolist()
    f = lambda t: sum((v * v * (i + 1)).sum() for i, v in enumerate(make(t)))  # noqa: E731
    assert T.autograd.gradgradcheck(f, (T.rand(6, dtype=T.float64, requires_grad=True),))


@pytest.mark.parametrize("name", TOGETHER)
def test_views_of_one_call_may_not_change_where_a_graph_is_recorded(name: str) -> None:
    make, label = TOGETHER[name]
    base = T.arange(6.0, requires_grad=True) * 1
    views = make(base)
    word = label.removesuffix("Backward0")
    for v in (views[0], views[0].view_as(views[0])):
        with pytest.raises(RuntimeError, match=f"Output 0 of ({word}|View) is a view and is being modified.*multiple"):
            v.mul_(2)
    assert base.tolist() == [0, 1, 2, 3, 4, 5]
    with T.no_grad():
        views[-1].mul_(1)
    with pytest.raises(RuntimeError, match=f"of {word} is a view and its base or another view of its base"):
        views[0] * 2
    with pytest.raises(RuntimeError, match="its base or another view"):
        views[0].grad_fn  # noqa: B018
    assert views[0].requires_grad and views[0].detach().sum() >= 0
    plain = T.ones(6)
    parts = make(plain)
    parts[-1].mul_(5)  # no graph: nothing to refuse
    assert plain.max() == 5
    with pytest.raises(RuntimeError, match="multiple views"):
        parts[0].mul_(T.tensor(1.0, requires_grad=True))
    assert not plain.requires_grad and plain[0] == 1 or name == "whole"


def test_tensor_split_gives_ordinary_views() -> None:
    x = T.arange(6.0, requires_grad=True)
    base = x * 1
    a, b = base.tensor_split(2)
    a.mul_(2)
    (base * T.arange(6.0)).sum().backward()
    assert x.grad.tolist() == [0, 2, 4, 3, 4, 5]
    assert b.grad_fn.name() == "AsStridedBackward0"


def test_views_made_without_grad_mode() -> None:
    x = T.arange(4.0, requires_grad=True)
    for base in (x, x * 1):
        with T.no_grad():
            v = base[1:]
        with pytest.raises(RuntimeError, match="created in no_grad mode and is being modified"):
            v.mul_(2)
        with T.no_grad():
            v.mul_(1)
        with pytest.raises(RuntimeError, match="created in no_grad mode and its base"):
            v.sum()
        with T.no_grad():
            assert v.sum() == 6
    plain = T.arange(4.0)
    with T.no_grad():
        v = plain.view(2, 2)
    v.mul_(2)
    with pytest.raises(RuntimeError, match="created in no_grad mode"):
        v.mul_(T.ones(2, 2, requires_grad=True))
    assert plain.tolist() == [0, 2, 4, 6] and not plain.requires_grad


def test_views_made_in_inference_mode() -> None:
    x = T.arange(4.0, requires_grad=True)
    base = x * 1
    made = T.ones(2)
    with T.inference_mode():
        v = base[1:]
        inner = T.ones(2)
        assert not v.is_inference() and not made.view(2, 1).is_inference() and inner.view(2, 1).is_inference()
        with T.enable_grad():
            assert not (x * 2).requires_grad
    with pytest.raises(RuntimeError, match="created in inference mode and is being modified"):
        v.mul_(2)
    base.mul_(2)
    with pytest.raises(RuntimeError, match="created in inference mode and its base"):
        v.sum()
    for change in (lambda: inner.set_(T.ones(1)), lambda: inner.resize_(1), lambda: inner.add_(1)):
        with pytest.raises(RuntimeError, match="outside InferenceMode"):
            change()


def test_detach_in_place_is_refused_for_any_view() -> None:
    x = T.arange(4.0)
    for v in (x[1:], x.split(2)[0], (T.ones(2, requires_grad=True) * 1).view(2, 1)):
        with pytest.raises(RuntimeError, match="detach views in-place"):
            v.detach_()
    assert (T.ones(2, requires_grad=True) * 1).detach_().is_leaf


def test_numpy_is_allowed_where_no_graph_is_recorded() -> None:
    x = T.ones(2, requires_grad=True)
    with T.no_grad():
        assert x.numpy() is not None and (x * 2).numpy().sum() == 4
    with pytest.raises(RuntimeError, match="numpy"):
        x.numpy()


# ---- outputs that backward needs, changed in place


@pytest.mark.parametrize("name", ["relu_", "sigmoid_", "exp_", "tanh_", "sqrt_"])
def test_an_in_place_result_may_not_change_before_backward(name: str) -> None:
    x = T.tensor([0.5, 2.0], requires_grad=True)
    y = getattr(x * 1, name)()
    loss = y.sum()
    loss.backward(retain_graph=True)
    good = x.grad
    x.grad = None
    y.mul_(3)
    with pytest.raises(RuntimeError, match="modified by an inplace operation.*output 0"):
        y.sum().backward()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
    assert good is not None and x.grad is None


def test_an_in_place_result_is_kept_once() -> None:
    x = T.rand(1000, requires_grad=True)
    y = (x * 1).relu_()
    assert y.grad_fn._saved_result.data_ptr() == y.data_ptr()


# ---- custom Functions


class Same(Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, g):
        return g * 3


class Part(Function):
    @staticmethod
    def forward(ctx, x):
        return x[1:]

    @staticmethod
    def backward(ctx, g):
        return T.cat([g.new_zeros(1), g * 3])


class Both(Function):
    @staticmethod
    def forward(ctx, x):
        return x, x * 2

    @staticmethod
    def backward(ctx, g, h):
        return g * 3 + h


@pytest.mark.parametrize("fn,why", [(Same, "custom Function"), (Part, "custom Function"), (Both, "multiple views")])
def test_a_returned_input_is_a_view(fn: type[Function], why: str) -> None:
    x = T.arange(3.0, requires_grad=True)
    base = x * 1
    out = fn.apply(base)
    y = out[0] if isinstance(out, tuple) else out
    assert y is not base and y._is_view() and y._base is base and y.grad_fn.name() == fn.__name__ + "Backward"
    with pytest.raises(RuntimeError, match=f"Output 0 of {fn.__name__} is a view and is being modified.*{why}"):
        y.mul_(2)
    y.sum().backward()
    assert x.grad.tolist()[1:] == [3, 3]
    base.mul_(2)
    with pytest.raises(RuntimeError, match="its base or another view"):
        y + 1
    if isinstance(out, tuple):
        out[1].mul_(2)  # a tensor of its own


@pytest.mark.parametrize("fn", [Same, Part, Both])
@pytest.mark.parametrize("leaf", [True, False])
def test_a_returned_input_of_compiled_code(fn: type[Function], leaf: bool) -> None:
    results = []
    for f in (fn.apply, T.compile(lambda t: fn.apply(t))):
        x = T.arange(3.0, requires_grad=True)
        base = x if leaf else x * 1
        out = f(base)
        y = out[0] if isinstance(out, tuple) else out
        (y * T.tensor([2.0, 5.0, 7.0])[: y.numel()]).sum().backward(retain_graph=True)
        assert y._base is base and base.data_ptr() <= y.data_ptr() < base.data_ptr() + 12
        with pytest.raises(RuntimeError, match="is a view and is being modified"):
            y.mul_(2)
        results.append((y.tolist(), x.grad.tolist()))
    assert results[0] == results[1]


def test_views_made_together_in_compiled_code_keep_their_rules() -> None:
    for make in (lambda x: x.split(2), lambda x: x.unbind()):
        base = T.arange(4.0, requires_grad=True) * 1
        a = T.compile(make)(base)[0]
        with pytest.raises(RuntimeError, match="multiple views"):
            a.mul_(2)
    plain = T.arange(4.0)
    v = T.compile(lambda x: x[1:])(plain)
    v.mul_(T.ones(3, requires_grad=True))
    assert plain.requires_grad


def test_a_function_that_writes() -> None:
    class Write(Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 10

    x = T.ones(2, 2, requires_grad=True)
    base = x * 1
    version = base._version
    assert Write.apply(base) is base and base._version > version
    base.sum().backward()
    assert x.grad.tolist() == [[10, 10], [10, 10]]
    x.grad = None
    base = x * 1
    view = base[0]
    assert Write.apply(view) is view and view.grad_fn is not None
    base.sum().backward()  # the history of the base takes the change in
    assert base.tolist() == [[2, 2], [1, 1]] and x.grad.tolist() == [[10, 10], [1, 1]]
    for bad, match in ((x, "leaf Variable"), (x[0], "view of a leaf"), ((x * 1).unbind()[0], "multiple views")):
        with pytest.raises(RuntimeError, match=match):
            Write.apply(bad)

    class Forgets(Write):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x * 2

    with pytest.raises(RuntimeError, match="Forgets.*were not returned"):
        Forgets.apply(x * 1)


def test_keyword_arguments_and_defaults_take_their_places() -> None:
    class Scale(Function):
        @staticmethod
        def forward(ctx, x, k=2, *, unused=None):
            ctx.k = k
            return x * k

        @staticmethod
        def backward(ctx, g):
            assert len(ctx.needs_input_grad) in (1, 2)
            return g * ctx.k, None

    x = T.ones(2, requires_grad=True)
    Scale.apply(x, k=3).sum().backward()
    Scale.apply(x=x).sum().backward()
    assert x.grad.tolist() == [5, 5]
    with pytest.raises(TypeError):
        Scale.apply(x, wrong=1)

    class New(Function):
        @staticmethod
        def forward(x, k=2):
            return x * k

        @staticmethod
        def setup_context(ctx, inputs, output):
            _, ctx.k = inputs

        @staticmethod
        def vjp(ctx, g):  # PyTorch's other name for backward
            return g * ctx.k, None

    x.grad = None
    New.apply(x).sum().backward()
    New.apply(x, k=5).sum().backward()
    assert x.grad.tolist() == [7, 7]

    class Two(New):
        @staticmethod
        def backward(ctx, g):
            return g, None

    with pytest.raises(RuntimeError, match="Two.*'backward' and 'vjp'"):
        Two.apply(x)


def test_outputs_that_are_no_tensors() -> None:
    seen: list = []

    class Mixed(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2, 3, None, "text", x > 0, x * 3

        @staticmethod
        def backward(ctx, *gs):
            seen.append([g if g is None else (g.dtype, g.tolist()) for g in gs])
            return gs[0] * 2 + gs[-1] * 3

    x = T.ones(2, requires_grad=True)
    out = Mixed.apply(x)
    assert out[1:4] == (3, None, "text") and not out[4].requires_grad and out[5].output_nr == 5
    out[5].sum().backward()
    zeros = (T.float32, [0, 0])
    assert seen == [[zeros, None, None, None, (T.bool, [False, False]), (T.float32, [1, 1])]]
    assert x.grad.tolist() == [3, 3]

    class Listed(Function):
        @staticmethod
        def forward(ctx, x):
            return [x * 2, x * 3]  # only tuples are several outputs

    assert isinstance(Listed.apply(x), list) and not Listed.apply(x)[0].requires_grad
    for name in ("mark_dirty", "mark_non_differentiable"):

        class Wrong(Function):
            @staticmethod
            def forward(ctx, x, name=name):
                getattr(ctx, name)(3)

        with pytest.raises(RuntimeError, match=f"{name} can only accept"):
            Wrong.apply(x)


def test_the_old_form_is_refused_under_transforms() -> None:
    for transform in (
        lambda f: T.func.grad(lambda t: f(t).sum()),
        lambda f: lambda t: T.func.vjp(f, t),
        T.func.jacrev,
        T.func.vmap,
        lambda f: lambda t: T.func.jvp(f, (t,), (t,)),
    ):
        with pytest.raises(RuntimeError, match="must override the setup_context.*Same"):
            transform(Same.apply)(T.ones(2))
    assert Same.apply(T.ones(2)).tolist() == [1, 1]


# ---- copies


def test_copies_of_tensors() -> None:
    x = T.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    for t in (copy.copy(x), copy.copy(y)):
        assert t.requires_grad and t.is_leaf and t.grad is None
    assert copy.copy(x).data_ptr() == x.data_ptr()
    assert pickle.loads(pickle.dumps(y)).tolist() == [2, 4]
    with pytest.raises(RuntimeError, match="deepcopy"):
        copy.deepcopy(y)
    base = T.arange(4.0)
    view = base[1:3].view(2, 1)
    new_base, new_view = copy.deepcopy([base, view])
    new_base.zero_()
    assert new_view.tolist() == [[0], [0]] and view.tolist() == [[1], [2]]
    first, second = copy.deepcopy([view, base.t() if base.ndim == 2 else base[:2]])
    first.fill_(9)
    assert second.tolist() == [0, 9]


def _seen_first(x: T.Tensor) -> Any:
    v = x[0]
    x.t_()
    return v


def _seen_and_changed(x: T.Tensor) -> Any:
    v = x[0]
    x.t_()
    v.mul_(2)
    return x


def _larger(x: T.Tensor) -> Any:
    v = x[0]
    x.unsqueeze_(0)
    w = x[0]
    x.mul_(3)
    v.mul_(2)
    return v + w[1]


def _back_and_forth(x: T.Tensor) -> Any:
    v = x.view(4)
    x.unsqueeze_(0)
    x.squeeze_()
    x.transpose_(0, 1)
    x[0].mul_(3)
    v[1:].mul_(2)
    return v


def _unrecorded(x: T.Tensor) -> Any:
    v = x[0]
    with T.no_grad():
        x.t_()
    return x * 2 + v


def _given_history(x: T.Tensor) -> Any:
    y = T.zeros(2, 2)
    v = y[0]
    y.t_()
    v.mul_(x[0])
    v.add_(x[1])
    return y


RESTRIDED = {
    _seen_first: ([1, 2], [[1, 2], [0, 0]]),
    _seen_and_changed: ([[2, 3], [4, 4]], [[2, 6], [2, 4]]),
    _larger: ([15, 24], [[6, 12], [3, 6]]),
    _back_and_forth: ([3, 4, 18, 8], [[3, 4], [18, 8]]),
    _unrecorded: ([[3, 8], [5, 10]], [[6, 12], [4, 8]]),
    _given_history: ([[3, 0], [4, 0]], [[0, 0], [1, 3]]),
}


@pytest.mark.parametrize("f", RESTRIDED)
def test_views_of_a_base_that_looks_otherwise_now(f: Callable[[T.Tensor], Any]) -> None:
    """``t_`` and the like on the base: older views were made again from its new look, with wrong gradients."""
    value, grad = RESTRIDED[f]

    def inner(a: T.Tensor) -> Any:
        return f(a * 1)

    for call in (inner, lambda a: T.compile(f)(a * 1), T.compile(inner)):
        a = T.arange(1.0, 5.0).reshape(2, 2).requires_grad_()
        out = call(a)
        weights = T.arange(1.0, out.numel() + 1).reshape(out.shape)
        (out * weights).sum().backward()
        assert out.tolist() == value and a.grad.tolist() == grad and not out.is_leaf


def test_a_new_look_keeps_the_history_where_nothing_is_recorded() -> None:
    for mode in (T.no_grad(), T.inference_mode()):
        a = T.ones(2, 3, requires_grad=True)
        x = a * 1
        with mode:
            x.t_()
            x.unsqueeze_(0)
        assert x.requires_grad and not x.is_leaf and x.shape == (1, 3, 2)
        (x * T.arange(6.0).view(1, 3, 2)).sum().backward()
        assert a.grad.tolist() == [[0, 2, 4], [1, 3, 5]]
        with mode:
            a.t_()
        assert a.is_leaf and a.shape == (3, 2)


@pytest.mark.parametrize("change", ["none", "view", "base", "look"])
def test_a_base_with_another_look_and_its_view_leave_compiled_code(change: str) -> None:
    def both(x: T.Tensor) -> Any:
        y = x.clone()
        v = y[0]
        y.t_()
        return y, v, y.detach()

    found = []
    for f in (both, T.compile(both)):
        a = T.arange(1.0, 5.0).reshape(2, 2).requires_grad_()
        y, v, d = f(a * 1)
        if change == "view":
            v.mul_(3)
        elif change == "base":
            y.mul_(3)
        elif change == "look":
            y.t_()
        ((y * T.tensor([[1.0, 2], [3, 4]])).sum() + (v * T.tensor([5.0, 6])).sum()).backward()
        found.append((y.tolist(), v.tolist(), d.tolist(), a.grad.tolist()))
    assert found[0] == found[1]


@pytest.mark.parametrize("stop", ["requires_grad_", "requires_grad", "detach_", "detach_ of a result"])
@pytest.mark.parametrize("mode", [T.no_grad, T.inference_mode])
def test_a_view_without_history_asks_no_more_than_its_base(stop: str, mode: Callable) -> None:
    x = T.ones(2, 3, requires_grad=True)
    if stop == "detach_ of a result":
        x = x * 1
    with mode():
        v = x.view(-1)
        w = v[:2]
    assert v.requires_grad and w.requires_grad
    if stop == "requires_grad_":
        x.requires_grad_(False)
    elif stop == "requires_grad":
        x.requires_grad = False
    else:
        x.detach_()
    assert not (v * 2).requires_grad and not T.stack([v, v]).requires_grad and not w.sum().requires_grad
    assert not v[:1].requires_grad and not v.unbind()[0].requires_grad and not v.split(2)[0].requires_grad
    x.add_(1)  # was refused at the next use of the view
    assert v.tolist() == [2.0] * 6 and not v.requires_grad and v.is_leaf and v.grad_fn is None
    v.mul_(2)  # was refused
    w[0] = 9
    assert x.tolist() == [[9, 4, 4], [4, 4, 4]] and not x.requires_grad
    k = T.ones(6, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"no_grad mode|inference mode"):
        x.mul_(k.view(2, 3))
        v.mul_(1)
    x = T.ones(2, requires_grad=True)
    with mode():
        v = x[:1]
    x.requires_grad_(False).requires_grad_()
    assert v.requires_grad and v.is_leaf and (v * 2).requires_grad


@pytest.mark.parametrize("mode", [T.no_grad, T.inference_mode])
def test_a_view_that_is_a_leaf_of_its_own_may_see_its_base_change(mode: Callable) -> None:
    base = T.zeros(3)
    with mode():
        v = base[:2]
    v.requires_grad_()
    base.add_(1)  # every use of the view was refused
    assert v.requires_grad and v.is_leaf and v.grad_fn is None
    (v * v).sum().backward()
    assert v.grad.tolist() == [2, 2] and not base.requires_grad
