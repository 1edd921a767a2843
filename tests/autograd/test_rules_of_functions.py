"""Custom Functions: what is returned as it came, returned twice, changed, saved; the old form in forward mode."""

import gc
import weakref

import pytest

import fusegrad as torch
import fusegrad.autograd.forward_ad as fw
from fusegrad.autograd import Function


def leaf(*values):
    return torch.tensor(list(values), requires_grad=True)


def test_a_saved_input_that_is_passed_on_is_an_input():
    class Passed(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * x * x

    x = leaf(3.0)
    y = Passed.apply(x)
    assert y.grad_fn.saved_tensors[0] is x
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    assert torch.autograd.grad(g.sum(), x)[0].item() == 6.0  # 2 x, and not through the Function again


def test_a_tensor_returned_twice_is_one_tensor():
    seen = []

    class Twice(Function):
        @staticmethod
        def forward(ctx, x):
            y = x * 3
            return y, y

        @staticmethod
        def backward(ctx, g, h):
            seen.append((g.item(), h.item()))
            return g * 3 + h * 3

    x = leaf(1.0)
    a, b = Twice.apply(x)
    assert a is b and a.output_nr == 1
    (a * 5 + b).sum().backward()
    assert seen == [(0.0, 6.0)] and x.grad.item() == 18.0


class AddTo(Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.mark_dirty(x)
        x += y
        return x, x * 2

    @staticmethod
    def backward(ctx, g, h):
        return g + 2 * h, g + 2 * h


def test_changed_views_allow_one_output():
    y = leaf(2.0, 3.0)
    x, twice = AddTo.apply(y.clone(), y)
    assert twice.tolist() == [8.0, 12.0] and x.tolist() == [4.0, 6.0]
    with pytest.raises(RuntimeError, match="cannot return more than one Tensor"):
        AddTo.apply(y.clone().view(2), y)


def test_only_inputs_are_marked_dirty():
    class Marks(Function):
        @staticmethod
        def forward(ctx, x, view):
            y = x.clone()[:1] if view else x * 2
            ctx.mark_dirty(y)
            return y

        @staticmethod
        def backward(ctx, g):
            return g * 2, None

    with pytest.warns(UserWarning, match="not an input"):
        assert Marks.apply(leaf(1.0), False).item() == 2.0
    with pytest.raises(RuntimeError, match="not an input"):
        Marks.apply(leaf(1.0), True)


@pytest.mark.parametrize("view", [False, True])
def test_changed_inputs_make_no_cycle(view):
    class Same(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            ctx.save_for_backward(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g

    def scope():
        x = leaf(1.0).clone()
        x = x.view(1) if view else x
        Same.apply(x)
        return weakref.ref(x)

    gc.disable()
    try:
        assert scope()() is None
    finally:
        gc.enable()


def test_saved_tensors_that_are_let_go():
    class Once(Function):
        clear_saved_tensors_on_access = True

        @staticmethod
        def forward(ctx, x, twice):
            ctx.twice = twice
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            ref = weakref.ref(x)
            del x
            alive.append(ref() is not None)
            if ctx.twice:
                ctx.saved_tensors  # noqa: B018
            return g * 2, None

    alive = []
    x = leaf(1.0)
    Once.apply(x.clone(), False).backward(torch.ones(1))
    assert alive == [False] and x.grad.item() == 2.0
    with pytest.raises(RuntimeError, match="only be accessed once"):
        Once.apply(x.clone(), True).backward(torch.ones(1))


def test_other_names():
    class F(Function):
        @staticmethod
        def forward(ctx, x):
            assert isinstance(ctx, torch.autograd.graph.Node)
            ctx.save_for_backward(x)
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_variables[0]

    x = leaf(4.0)
    y = F.apply(x)
    with pytest.warns(DeprecationWarning, match="saved_tensors"):
        y.backward(torch.ones(1))
    assert x.grad.item() == 4.0 and hasattr(Function, "setup_context")
    assert issubclass(torch.autograd.function.BackwardCFunction, torch.autograd.graph.Node)


# ---- forward mode of Functions whose forward takes ctx


class Scaled(Function):
    @staticmethod
    def forward(ctx, x, y, k):
        ctx.save_for_backward(x, y)
        ctx.save_for_forward(x, y)
        ctx.k = k
        return k * x * y

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return ctx.k * g * y, ctx.k * g * x, None

    @staticmethod
    def jvp(ctx, dx, dy, _):
        x, y = ctx.saved_tensors
        return ctx.k * (dx * y + x * dy)


def test_old_form_where_gradients_are_wanted_too():
    x, y = leaf(3.0), leaf(5.0)
    with fw.dual_level():
        out = Scaled.apply(fw.make_dual(x, torch.ones(1)), y, 2)
        primal, tangent = fw.unpack_dual(out)
        assert primal.item() == 30.0 and tangent.item() == 10.0
        assert torch.autograd.grad(tangent.sum(), y, retain_graph=True)[0].item() == 2.0
        out.sum().backward()
    assert x.grad.item() == 10.0 and y.grad.item() == 6.0


def test_forward_over_reverse_of_the_old_form():
    x, y = leaf(3.0), leaf(5.0)
    with fw.dual_level():
        dual = fw.make_dual(x, torch.ones(1))
        (g,) = torch.autograd.grad(Scaled.apply(dual, dual * y, 2).sum(), dual)
        assert [t.item() for t in fw.unpack_dual(g)] == [60.0, 20.0]  # 2 x x y: 4 x y, and 4 y


def test_without_jvp_there_is_no_forward_mode():
    class Plain(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    with fw.dual_level(), pytest.raises(NotImplementedError, match="must implement the jvp"):
        Plain.apply(fw.make_dual(leaf(1.0), torch.ones(1)))


def changing(pushed):
    class Doubled(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def jvp(ctx, t):
            return pushed(t)

    return Doubled


@pytest.mark.parametrize("grad", [False, True])
def test_tangents_of_changed_inputs_are_changed(grad):
    t = torch.ones(1)
    with fw.dual_level():
        dual = fw.make_dual(torch.ones(1, requires_grad=grad).clone(), t)
        assert changing(lambda t: t.mul_(2)).apply(dual) is dual
        assert fw.unpack_dual(dual).tangent is t and t.item() == 2.0
        other = fw.make_dual(torch.ones(1, requires_grad=grad).clone(), torch.ones(1))
        with pytest.raises(RuntimeError, match="not modifying the forward mode gradients inplace"):
            changing(lambda t: t * 2).apply(other)
        third = fw.make_dual(torch.ones(1, requires_grad=grad).clone(), torch.ones(1))
        with pytest.raises(RuntimeError, match="not modifying the forward mode gradients inplace"):
            changing(lambda t: t).apply(third)


@pytest.mark.parametrize(
    "forward, jvp, right",
    [
        (lambda x: x[:2], lambda t: t[:2], True),
        (lambda x: x[:2], lambda t: t[:2] * 1, False),
        (lambda x: x[:2], lambda t: (t * 1)[:2], False),
        (lambda x: x, lambda t: t.view_as(t), True),
        (lambda x: x, lambda t: t, False),
    ],
)
def test_tangents_of_views_are_views(forward, jvp, right):
    class Viewed(Function):
        @staticmethod
        def forward(ctx, x):
            return forward(x)

    Viewed.jvp = staticmethod(lambda ctx, t: jvp(t))
    with fw.dual_level():
        dual = fw.make_dual(torch.ones(3), torch.ones(3))
        if right:
            assert fw.unpack_dual(Viewed.apply(dual)).tangent.sum().item() >= 2
        else:
            with pytest.raises(RuntimeError, match="not returning a view"):
                Viewed.apply(dual)


def test_no_tangent_where_no_derivative():
    class Marked(Function):
        @staticmethod
        def forward(ctx, x, given):
            y = x.clone()
            ctx.mark_non_differentiable(y)
            ctx.given = given
            return x * 2, y

        @staticmethod
        def jvp(ctx, t, _):
            return t * 2, t if ctx.given else None

    with fw.dual_level():
        dual = fw.make_dual(torch.ones(1), torch.ones(1))
        assert fw.unpack_dual(Marked.apply(dual, False)[1]).tangent is None
        with pytest.raises(RuntimeError, match="return None at that position"):
            Marked.apply(dual, True)


class Scale(Function):
    """The first tensor of a container times a tensor."""

    seen: list = []

    @staticmethod
    def forward(xs, y):
        return xs[0] * y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0][0])
        ctx.save_for_forward(inputs[0][0])

    @staticmethod
    def backward(ctx, g):
        return None, g * ctx.saved_tensors[0]

    @staticmethod
    def jvp(ctx, tangents, t):
        Scale.seen.append(tangents)
        return t * ctx.saved_tensors[0]


class ScaleOwn(Scale):
    @staticmethod
    def vmap(info, in_dims, xs, y):
        Scale.seen.append(in_dims)
        return xs[0] * y, 0


class ScaleMade(Scale):
    generate_vmap_rule = True


def test_vmap_of_a_function_tells_the_dimensions_of_tensors_in_containers():
    x = torch.arange(6.0).view(3, 2)
    same = torch.ones(2)
    for call, dims in (
        (lambda a: ScaleOwn.apply([a, a], a), ([0, 0], 0)),
        (lambda a: ScaleOwn.apply([a, same], 3.0), ([0, None], None)),
        (lambda a: ScaleOwn.apply((same, None), a), ((None, None), 0)),
        (lambda a: ScaleOwn.apply({0: a, "b": (a, 1)}, a), ({0: 0, "b": (0, None)}, 0)),
    ):
        Scale.seen.clear()
        torch.func.vmap(call)(x)
        assert Scale.seen == [dims]
    for made in (ScaleOwn, ScaleMade):
        assert torch.equal(torch.func.vmap(lambda a, made=made: made.apply([a, None], a))(x), x * x)
        assert torch.equal(torch.func.vmap(lambda a, made=made: made.apply([a], 2.0))(x), x * 2)
    assert torch.equal(torch.func.vmap(torch.func.grad(lambda a: ScaleMade.apply([a], a).sum()))(x), x)


def test_tensors_in_containers_have_no_tangents():
    x = torch.arange(3.0)
    Scale.seen.clear()
    value, t = torch.func.jvp(lambda a: Scale.apply([a], a), (x,), (torch.ones(3),))
    assert Scale.seen == [None] and torch.equal(value, x * x) and torch.equal(t, x)


def test_what_save_for_backward_kept_is_not_for_jvp():
    class ForBackward(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def jvp(ctx, t):
            return 2 * ctx.saved_tensors[0] * t

    with fw.dual_level(), pytest.raises(IndexError):
        ForBackward.apply(fw.make_dual(torch.ones(1), torch.ones(1)))
