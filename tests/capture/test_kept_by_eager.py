"""What eager code keeps for its backward is checked for changes, also where compiled code keeps something else."""

import pytest

import fusegrad as T
from fusegrad import nn


def _refused(f, *args):
    """Whether the backward of what ``f`` returns is refused after ``args[0]`` was changed in place."""
    result = f(*args)
    with T.no_grad():
        args[0][..., 0] = 2.0
    try:
        result.sum().backward()
    except RuntimeError as e:
        assert "modified by an inplace operation" in str(e)
        return True
    return False


def _square_mean(x, w):
    return (x * w).pow(2).mean()


PROGRAMS = {
    "batch norm": lambda x, w: nn.functional.batch_norm(x, None, None, w, training=True),
    "layer norm": lambda x, w: nn.functional.layer_norm(x, (3,), w),
    "rms norm": lambda x, w: nn.functional.rms_norm(x, (3,), w),
    "group norm": lambda x, w: nn.functional.group_norm(x, 3, w),
    "prod": lambda x, w: x.prod(-1, keepdim=True) * w,
    "std": lambda x, w: (x * w).std() + x.std(),
    "standardised": lambda x, w: (x - x.mean()) / x.std() * w,
    "softmax": lambda x, w: (x * w).softmax(-1),
    "cross entropy": lambda x, w: nn.functional.cross_entropy(x * w, T.tensor([0, 1, 2, 0])),
    "norm": lambda x, w: x.norm() * w,
    "square mean": _square_mean,
    "divided": lambda x, w: w / x,
    "where": lambda x, w: T.where(x > 0, w, -w),
    "maximum": lambda x, w: T.maximum(x, w),
    "linear": lambda x, w: nn.functional.linear(x, w.expand(3, 3)),
    "exp": lambda x, w: (x * w).exp() + x.exp() * w,
    "clamp": lambda x, w: x.clamp(-1, 1) * w,
    "gelu": lambda x, w: nn.functional.gelu(x) * w,
    "cumsum": lambda x, w: x.cumsum(-1) * w,
    "index": lambda x, w: w[(x > 0).long()],
}


@pytest.mark.parametrize("grad", ["none", "node"])
@pytest.mark.parametrize("interpret", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_change_is_refused_exactly_where_eager_refuses_it(name, interpret, grad):
    f = PROGRAMS[name]

    def values():
        T.manual_seed(3)
        x = T.randn(4, 3)
        if grad == "node":
            x = x.requires_grad_() * 1
        return x, T.randn(3, requires_grad=True)

    assert _refused(T.compile(f, options={"interpret": interpret}), *values()) == _refused(f, *values())


def test_only_what_is_on_the_way_to_the_asked_leaves_counts():
    def f(x, y, a, b):
        return nn.functional.batch_norm(x, None, None, a, training=True) + y * b

    def run(f, asked):
        x, y = T.randn(4, 3), T.randn(4, 3)
        a, b = T.ones(3, requires_grad=True), T.ones(3, requires_grad=True)
        r = f(x, y, a, b)
        x.mul_(2)
        try:
            T.autograd.grad(r.sum(), [a, b][asked])
        except RuntimeError:
            return "refused"
        return "differentiated"

    assert run(f, 0) == run(T.compile(f), 0) == "refused"
    assert run(f, 1) == run(T.compile(f), 1) == "differentiated"


@pytest.mark.parametrize("size", [2, 0])
@pytest.mark.parametrize("interpret", [False, True])
def test_the_second_derivative_of_one_result_gives_nothing_to_the_leaves_of_another(interpret, size):
    norm = nn.BatchNorm1d(3)

    def f(x, z):
        return (x * x).exp(), norm(z)

    def run(f):
        norm.zero_grad()
        x = T.linspace(0, 1, size).requires_grad_()
        a, b = f(x, T.arange(3.0 * size).reshape(size, 3))
        (g,) = T.autograd.grad(a.sum() + b.sum(), [x], create_graph=True)
        g.pow(2).sum().backward()
        return x.grad, norm.weight.grad, norm.bias.grad

    plain, compiled = run(f), run(T.compile(f, options={"interpret": interpret}))
    assert T.allclose(plain[0], compiled[0])
    assert plain[1:] == compiled[1:] == (None, None)


def test_a_gradient_that_is_zero_by_rule_is_there_for_one_result_alone():
    def f(x, y):
        return x.floor(), x * y

    def run(f):
        x, y = T.tensor([1.5, -0.5], requires_grad=True), T.ones(2, requires_grad=True)
        f(x, y)[0].sum().backward()
        return x.grad, y.grad

    for x_grad, y_grad in (run(f), run(T.compile(f))):
        assert x_grad.tolist() == [0.0, 0.0] and y_grad is None


@pytest.mark.parametrize("interpret", [False, True])
def test_a_gradient_that_nothing_can_differentiate_needs_no_unchanged_input(interpret):
    def f(x):
        return x.masked_fill(x > 0, 1.0)

    for g in (f, T.compile(f, options={"interpret": interpret})):
        x = T.tensor([1.0, -1.0, 2.0], requires_grad=True)
        r = g(x)
        with T.no_grad():
            x.mul_(-1)
        (found,) = T.autograd.grad(r.sum(), [x], create_graph=True)
        assert found.tolist() == [0.0, 1.0, 0.0] and not found.requires_grad


CHANGED = {
    "in grad mode": lambda w, x: (x.mul_(0.9), x * w)[1],
    "without": lambda w, x: (_scale(w, 0.9), x * w)[1],
    "twice": lambda w, x: (_scale(w, 0.9), x * w, x * w)[2],
    "a view": lambda w, x: (_scale(w[:1], 0.9), x * w)[1],
    "a matrix product": lambda w, x: (_scale(w, 0.9), x @ w)[1],
    "beside a result": lambda w, x: (_scale(w, 0.9), x * w + (x * w).exp())[1],
}


def _scale(t, by):
    with T.no_grad():
        t.mul_(by)


@pytest.mark.parametrize("interpret", [False, True])
@pytest.mark.parametrize("name", CHANGED)
@pytest.mark.parametrize("inside", [False, True])
def test_what_a_region_wrote_and_eager_code_keeps_may_not_change_again(name, inside, interpret):
    """``inside``: the second change comes after a backward in the same compiled function."""

    def f(w, x):
        out = CHANGED[name](w, x)
        if inside:
            (w * x).sum().backward(retain_graph=True)
            _scale(w, 0.8)
        return out

    def run(g, again):
        w, x = T.tensor([0.5, 2.0]).requires_grad_(), T.tensor([0.3, 0.7]).requires_grad_() * 1
        out = g(w, x)
        if again:
            _scale(w, 0.8)
        try:
            out.sum().backward()
        except RuntimeError as e:
            assert "modified by an inplace operation" in str(e)
            return "refused"
        return w.grad.tolist()

    c = T.compile(f, options={"interpret": interpret})
    for again in (False, True):
        want, got = run(f, again), run(c, again)
        assert want == got if isinstance(want, str) else got == pytest.approx(want)
    assert run(f, True) == "refused"


@pytest.mark.parametrize("interpret", [False, True])
@pytest.mark.parametrize("mode", [T.no_grad, T.inference_mode])
@pytest.mark.parametrize("leaf", [False, True])
def test_views_without_grad_mode_say_what_their_base_says(mode, leaf, interpret):
    def views(y):
        return y[:], y.view(-1), y.unsqueeze(0), y.expand(2, -1), y.detach(), y.t(), y.split(1)[0], y.squeeze()

    def inside(y):
        with mode():
            return views(y)

    y = T.tensor([0.5, 1.0]).requires_grad_()
    y = y if leaf else y * 1
    for f, outside in ((views, mode), (inside, T.enable_grad)):
        found = []
        for g in (f, T.compile(f, options={"interpret": interpret})):
            with outside():
                found.append([(v.is_leaf, v.requires_grad, v.is_inference(), v.grad_fn) for v in g(y)])
        assert found[0] == found[1]


class Doubled(T.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g * 2


@pytest.mark.parametrize("interpret", [False, True])
@pytest.mark.parametrize("grad", [False, True])
def test_versions_count_every_change(grad, interpret):
    """Of what is made inside, of arguments, and where the code reads a version (the graph breaks there)."""

    def f(x, y):
        a = x * 1
        a.zero_()
        seen = a._version
        a.add_(1)[1:].mul_(2)
        a.unsqueeze_(0)
        b = x.clone()
        b.data.mul_(2)
        b[b > 0] = 1.0
        b[0] += 1
        y.add_(1)
        y[0] = 3.0
        c = Doubled.apply(x * 1)
        return a, b, x * 2, y.copy_(x.detach()), c, seen

    found = []
    for g in (f, T.compile(f, options={"interpret": interpret})):
        x, y = T.tensor([0.3, 0.7]).requires_grad_(grad), T.zeros(2)
        *out, seen = g(x, y)
        found.append(([t._version for t in out], y._version, seen))
    assert found[0] == found[1] == ([4, 3, 0, 3, 2], 3, 1)


@pytest.mark.parametrize("interpret", [False, True])
def test_a_result_that_was_changed_inside_may_be_differentiated_until_it_changes_again(interpret):
    def f(x):
        y = x * 2
        y.exp_()
        return y, y * y

    c = T.compile(f, options={"interpret": interpret})
    for change in (False, True):
        x = T.tensor([0.3, 0.7]).requires_grad_()
        y, z = c(x)
        if change:
            y.detach().mul_(2)
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                z.sum().backward()
        else:
            z.sum().backward()
            assert x.grad.tolist() == pytest.approx((4 * (4 * x.detach()).exp()).tolist())


class _Product(T.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        out = x.exp() * y
        ctx.save_for_backward(x, y, out)
        return out

    @staticmethod
    def backward(ctx, g):
        x, y, out = ctx.saved_tensors
        return g * y, None


class _Unread(_Product):
    @staticmethod
    def backward(ctx, g):
        return g * 2, None


@pytest.mark.parametrize("changed", ["x", "y", "result"])
@pytest.mark.parametrize("function", [_Product, _Unread])
def test_what_a_custom_function_saved_and_reads_may_not_be_changed(function, changed):
    """(also where the gradient itself does without it)"""

    def refused(f):
        x, y = T.ones(3, requires_grad=True), T.ones(3)
        h = x * 1
        out = f(h, y)
        with T.no_grad():
            {"x": h, "y": y, "result": out}[changed].mul_(2)
        try:
            out.sum().backward()
        except RuntimeError as e:
            assert "modified by an inplace operation" in str(e)
            return True
        return False

    f = lambda x, y: function.apply(x, y)
    assert refused(T.compile(f)) == refused(f) == (function is _Product)


CHANGES = {
    "relu": (lambda x: x.relu_(), True),
    "exp": (lambda x: x.exp_(), True),
    "sigmoid of a part": (lambda x: x[1:].sigmoid_(), True),
    "tanh through a view": (lambda x: x.view(-1).tanh_(), True),
    "twice": (lambda x: x.add_(1).sqrt_(), True),
    "not the last": (lambda x: x.exp().add_(1), False),
    "a copy": (lambda x: x.copy_(x.exp()), False),
    "a product": (lambda x: x.mul_(2), False),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("when", ["after", "after a break", "never"])
def test_results_in_place_are_kept_as_what_they_were_written_to(name, when):
    change, refused = CHANGES[name]

    def f(x, w):
        change(x)
        y = w - x
        if when == "after a break" and y.sum() > -1e9:
            x.add_(1)
        return y

    def run(f):
        leaf, w = T.tensor([0.5, 1.0, 2.0], requires_grad=True), T.ones(3, requires_grad=True)
        x = leaf * 1
        y = f(x, w)
        if when == "after":
            with T.no_grad():
                x.mul_(3)
        try:
            return [g.tolist() for g in T.autograd.grad(y.sum(), [leaf, w])]
        except RuntimeError as e:
            assert "modified by an inplace operation" in str(e)
            return "refused"

    want, got = run(f), run(T.compile(f))
    assert (want == "refused") == (refused and when != "never")
    assert got == (want if want == "refused" else [pytest.approx(g) for g in want])
