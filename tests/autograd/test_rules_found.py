"""Rules found by programs from public reports, run beside PyTorch: transforms in inference mode, Functions, hooks."""

import warnings

import pytest

import fusegrad as torch
from fusegrad import errors, nn
from fusegrad.autograd import Function
from fusegrad.utils.checkpoint import checkpoint


def told(fn):
    errors.tell_of_number.cache_clear()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        fn()
    return [(w.category, str(w.message)) for w in seen]


@pytest.mark.parametrize("compiled", [False, True])
def test_transforms_differentiate_in_inference_mode(compiled):
    f = torch.func
    outside = torch.tensor([1.0, 2.0])
    with torch.inference_mode():
        x, w = torch.ones(2) * 3, torch.tensor([2.0, 5.0])

        def calls(x):
            _, pull = f.vjp(lambda a: a**2, x)
            return [
                f.grad(lambda a: (a**2 * w * outside).sum())(x), pull(torch.ones(2))[0], f.jacrev(lambda a: a**3)(x),
                f.jacfwd(lambda a: a**3)(x), f.hessian(lambda a: (a**3).sum())(x), f.vmap(f.grad(lambda a: a**2))(x),
                f.grad(f.grad(lambda a: a**3))(x[0]), f.linearize(lambda a: a**2, x)[1](x),
            ]  # fmt: skip

        got = (torch.compile(calls) if compiled else calls)(x)
        assert not torch.is_grad_enabled() and torch.is_inference_mode_enabled()
        eye = [[1.0, 0.0], [0.0, 1.0]]
        times = [[[a * k for a in row] for row in eye] for k in (27, 27, 18)]
        want = [[12.0, 60.0], [6.0, 6.0], *times, [6.0, 6.0], 18.0, [18.0, 18.0]]
        assert [t.tolist() for t in got] == want and not any(t.requires_grad for t in got)
    y = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved"):
        y * w


class Flat(Function):
    """Its result is a view of what its forward made."""

    calls: list = []

    @staticmethod
    def forward(ctx, x):
        return (x.detach().clone() * 3).view(-1)

    @staticmethod
    def backward(ctx, g):
        Flat.calls.append(1)
        return g.view(2, 2) * 3


def test_a_views_of_a_functions_own_tensor_may_not_be_changed():
    x = torch.ones(2, 2, requires_grad=True)
    out = Flat.apply(x)
    out.sum().backward()
    assert x.grad.tolist() == [[3.0, 3.0]] * 2
    with torch.no_grad():
        out = Flat.apply(x)
        out.fill_(1.0)
    out = Flat.apply(x)
    with torch.no_grad():
        out.fill_(1.0)
    with pytest.raises(RuntimeError, match="is a view"):
        out.sum()
    out = Flat.apply(x)
    with pytest.raises(RuntimeError, match="is a view"):
        out.mul_(2)


class Double(Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g * 2


@pytest.mark.parametrize(
    "make", [lambda: torch.ones(2, requires_grad=True), lambda: torch.ones(2).requires_grad_() * 1]
)
def test_inputs_changed_under_no_grad_keep_what_they_have(make):
    x = make()
    with torch.no_grad():
        out = Double.apply(x)
    assert out is not x and not out.requires_grad and x.requires_grad and x._version == out._version
    assert out.tolist() == x.tolist() == [2.0, 2.0]
    t = torch.ones(2)
    assert Double.apply(t) is t


class Same(Function):
    @staticmethod
    def forward(x, how):
        return x if how != "view" else x.view_as(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        if inputs[1] != "nothing":
            ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx, g):
        return g * 5, None


def test_an_input_returned_as_it_is_may_not_be_saved_as_well():
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="returned as-is"):
        Same.apply(x, "same")
    for how in ("view", "nothing"):
        x.grad = None
        Same.apply(x, how).sum().backward()
        assert x.grad.tolist() == [5.0, 5.0]


def test_functions_are_not_instantiated():
    (category, text), *_ = told(lambda: Same())
    assert category is DeprecationWarning and "Same.apply" in text


def test_module_hooks_say_when_they_see_less():
    class Named(nn.Module):
        def forward(self, a):
            return {"out": a * 2}

    lin, named, seen = nn.Linear(2, 2), Named(), []
    for m in (lin, named):
        m.register_full_backward_hook(lambda m, gi, go: seen.append(type(m)))
    ((_, text),) = told(lambda: lin(torch.ones(1, 2)).sum().backward())
    assert "none of its inputs requires a gradient" in text and seen == [nn.Linear]
    x = torch.ones(1, 2, requires_grad=True)
    assert told(lambda: lin(x).sum().backward()) == []
    ((_, text),) = told(lambda: named(x)["out"].sum().backward())
    assert "dict" in text and seen == [nn.Linear] * 2


def test_numbers_of_tensors_that_require_a_gradient_are_told_of_once():
    x = torch.ones(1, requires_grad=True)
    ((category, text),) = told(lambda: (float(x), int(x), complex(x)))
    assert category is UserWarning and "detach()" in text
    assert told(lambda: (x.item(), x.tolist(), bool(x), float(x.detach()), float(torch.ones(())))) == []
    assert told(torch.no_grad()(x.__float__)) == [] == told(torch.inference_mode()(x.__float__))
    p = torch.ones(2, requires_grad=True)

    def closure():
        p.grad = None
        loss = (p**4).sum()
        loss.backward()
        return loss

    for search in (None, "strong_wolfe"):  # asks for the loss outside of grad mode
        opt = torch.optim.LBFGS([p], max_iter=3, line_search_fn=search)
        assert told(lambda opt=opt: opt.step(closure)) == []


def test_checkpoints_ask_for_their_form():
    x = torch.ones(1, requires_grad=True)
    ((_, text),) = told(lambda: checkpoint(lambda a: a * 2, x))
    assert "use_reentrant" in text
    assert told(lambda: checkpoint(lambda a: a * 2, x, use_reentrant=False)) == []


def test_a_tensor_of_a_tensor_is_told_of():
    t = torch.ones(2, requires_grad=True)
    for make in (lambda: torch.tensor(t), lambda: torch.tensor(t, dtype=torch.float64), lambda: t.new_tensor(t)):
        ((category, text),) = told(make)
        assert category is UserWarning and "clone" in text and not make().requires_grad
    assert not told(lambda: (torch.as_tensor(t), torch.tensor([torch.tensor(1.0)]), torch.tensor(2.0)))


def test_losses_and_attention_refuse_what_pytorch_refuses():
    x, f = torch.tensor([0.2, 0.4], requires_grad=True), nn.functional
    for target in (torch.tensor([1, 0]), torch.tensor([True, False])):
        with pytest.raises(RuntimeError, match="can't be cast"):
            f.binary_cross_entropy_with_logits(x, target)
    bools = torch.tensor([True, False])
    want = {f.mse_loss: 0.4, f.smooth_l1_loss: 0.2, f.huber_loss: 0.2}
    assert all(loss(x, bools).item() == pytest.approx(v) for loss, v in want.items())
    m, q = nn.MultiheadAttention(4, 2), torch.randn(3, 1, 4)
    with pytest.raises(AssertionError, match="does not match value"):
        m(q, torch.randn(5, 1, 4), torch.randn(6, 1, 4))


def test_gradients_flow_from_tangents_to_leaves_made_inside_the_level():
    from fusegrad.autograd import forward_ad as fw

    with fw.dual_level():
        x, plain = torch.ones(2, requires_grad=True), torch.zeros(2)
        dual = fw.make_dual(x, torch.ones(2))
        value, tangent = fw.unpack_dual((dual**2).sum())
        assert value.requires_grad and tangent.requires_grad
        tangent.backward()
        assert x.grad.tolist() == [2.0, 2.0] and fw.unpack_dual(plain * 2).tangent is None
        plain += fw.make_dual(torch.ones(2), torch.tensor([1.0, 2.0]))
        assert fw.unpack_dual(plain).tangent.tolist() == [1.0, 2.0]
        lin = nn.Linear(2, 1)
        with torch.no_grad():
            lin.weight.fill_(2.0)
            lin.bias.zero_()
        out = lin(fw.make_dual(torch.ones(1, 2), torch.ones(1, 2))).pow(3).sum()
        fw.unpack_dual(out).tangent.backward()
    assert lin.weight.grad.tolist() == [[144.0, 144.0]] and plain.tolist() == [1.0, 1.0]


def test_modes_that_say_something():
    with pytest.warns(FutureWarning, match="constructor"):

        @torch.no_grad()
        class Made:
            def __init__(self):
                self.grad = torch.is_grad_enabled()

    assert Made().grad is False and torch.is_grad_enabled()
    with pytest.warns(UserWarning, match="Anomaly Detection"):
        torch.autograd.detect_anomaly()


def test_batched_cotangents_have_one_size():
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    with pytest.raises(ValueError, match=r"\[3, 2\]"):
        torch.autograd.grad([y, y.sum()], x, [torch.eye(3), torch.ones(2)], is_grads_batched=True)


def test_hooks_of_optimizers_see_the_arguments_of_step():
    p, seen = nn.Parameter(torch.ones(1)), []
    opt = torch.optim.SGD([p], lr=0.5)
    opt.register_step_pre_hook(lambda o, args, kw: (args, {"closure": lambda: seen.append("closure")}))
    opt.register_step_post_hook(lambda o, args, kw: seen.append((args == (o,), list(kw))))
    p.grad = torch.ones(1)
    opt.step()
    assert seen == ["closure", (True, ["closure"])] and p.item() == 0.5


class Part(Function):
    """A view of what forward made, which it changes in place (or the base of it)."""

    @staticmethod
    def forward(ctx, x, change):
        made = x.clone()
        part = made[:2]
        if change == "view":
            part += 2
        elif change == "base":
            made.mul_(3)
        return part

    @staticmethod
    def backward(ctx, g):
        return torch.cat([g * 5, torch.zeros(1)]), None


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("change, want", [("view", [3.0, 3.0]), ("base", [3.0, 3.0]), (None, [1.0, 1.0])])
def test_a_function_may_change_what_its_result_is_a_view_of(change, want, compiled):
    x = torch.ones(3, requires_grad=True)

    def call(x):
        return Part.apply(x, change)

    out = (torch.compile(call) if compiled else call)(x)
    assert out.tolist() == want and (compiled or type(out.grad_fn).__name__ == "PartBackward")
    out.sum().backward()
    assert x.grad.tolist() == [5.0, 5.0, 0.0]
    if not compiled:
        with pytest.raises(RuntimeError, match="is a view"):
            Part.apply(x, change).mul_(2)
