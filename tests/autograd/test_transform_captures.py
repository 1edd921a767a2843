"""What a function that is being transformed may change in place: what it was given and what it makes, and no more.

PyTorch's rules; where it allows a change, the values were taken from it.
"""

import copy

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.func import functional_call, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap


def x():
    return fg.tensor([1.0, 2.0, 3.0])


TRANSFORMS = {
    "grad": lambda f: grad(lambda a: f(a).sum())(x()),
    "grad_and_value": lambda f: grad_and_value(lambda a: f(a).sum())(x())[0],
    "vjp": lambda f: vjp(f, x())[1](fg.ones(3))[0],
    "jvp": lambda f: jvp(f, (x(),), (fg.ones(3),))[1],
    "jacrev": lambda f: jacrev(f)(x()).sum(0),
    "jacfwd": lambda f: jacfwd(f)(x()).sum(1),
    "hessian": lambda f: hessian(lambda a: f(a).sum())(x()),
    "linearize": lambda f: linearize(f, x())[1](fg.ones(3)),
    "grad in vmap": lambda f: vmap(grad(lambda a: f(a).sum()))(x()[None])[0],
    "vmap in grad": lambda f: grad(lambda a: vmap(f)(a[None]).sum())(x()),
    "jacrev in jacfwd": lambda f: jacfwd(lambda a: jacrev(f)(a).sum())(x()),
}


def _sgd(y, a):
    y.requires_grad_(False)
    y.grad = fg.ones(3)
    fg.optim.SGD([y], lr=0.1).step()


CHANGES = {
    "mul_": lambda y, a: y.mul_(2),
    "view": lambda y, a: y[:2].add_(1),
    "item": lambda y, a: y.__setitem__(0, 5.0),
    "mask": lambda y, a: y.__setitem__(y > 1, 0.0),
    "zero_": lambda y, a: y.zero_(),
    "fill_": lambda y, a: y.fill_(3.0),
    "copy_": lambda y, a: y.copy_(fg.zeros(3)),
    "data": lambda y, a: y.data.mul_(2),
    "detach": lambda y, a: y.detach().mul_(2),
    "one of several views": lambda y, a: y.unbind(0)[0].add_(1),
    "same tensor": lambda y, a: y.contiguous().to(fg.float32).add_(1),
    "random": lambda y, a: y.normal_(),
    "index_add_": lambda y, a: y.index_add_(0, fg.tensor([0]), fg.ones(1)),
    "set_": lambda y, a: y.set_(fg.zeros(3)),
    "init": lambda y, a: fg.nn.init.zeros_(y),
    "optimizer": _sgd,
}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("change", CHANGES)
def test_captured_tensors_may_not_be_changed(transform, change):
    y = x()

    def f(a):
        with fg.no_grad():
            CHANGES[change](y, a)
        return a * y

    with pytest.raises(RuntimeError, match="captured Tensor|random operation"):
        TRANSFORMS[transform](f)
    np.testing.assert_array_equal(y, [1, 2, 3])
    y.mul_(2)  # and may be afterwards
    np.testing.assert_array_equal(y, [2, 4, 6])


def _made(make):
    def f(a):
        y = make(a)
        y.mul_(2)
        y[0] = 5.0
        return a * y

    return f


MADE = {
    "creation": lambda a: fg.ones(3),
    "data": lambda a: fg.tensor([1.0, 1.0, 1.0]),
    "numpy": lambda a: fg.from_numpy(np.ones(3, np.float32)),
    "computed": lambda a: OUTER * 1,
    "computed with gradient": lambda a: (a * 0 + 1).detach(),
    "detached in place": lambda a: (a * 0 + 1).detach_(),
    ".data": lambda a: fg.ones(3).data,
    ".data of a result": lambda a: (a * 0 + 1).data,
    "view": lambda a: fg.ones(6)[:3],
    "view of a result": lambda a: (OUTER.repeat(2))[:3],
    "deepcopy": lambda a: copy.deepcopy(OUTER),
    "clone": lambda a: OUTER.clone(),
    "set": lambda a: fg.empty(1).set_(OUTER.clone()),
    "reduction": lambda a: OUTER.expand(2, 3).mean(0),
    "several": lambda a: fg.ones(6).chunk(2)[0].clone(),
    "optimizer kept": lambda a: fg.nn.Parameter(fg.ones(3)).detach(),
}
OUTER = fg.ones(3)


@pytest.mark.parametrize("transform", [t for t in TRANSFORMS if t != "hessian" and "vmap" not in t])
@pytest.mark.parametrize("make", MADE)
def test_what_is_made_inside_may_be_changed(transform, make):
    got = TRANSFORMS[transform](_made(MADE[make]))
    if transform != "jacrev in jacfwd":
        np.testing.assert_array_equal(got, [5, 2, 2])
    np.testing.assert_array_equal(OUTER, [1, 1, 1])


def test_a_function_compiled_before_makes_tensors_inside_too():
    @fg.compile
    def twice(t):
        return t * 2

    twice(x())
    got = grad(lambda a: (a * twice(x()).mul_(2)).sum())(x())
    np.testing.assert_array_equal(got, [4, 8, 12])


def test_arguments_that_are_not_differentiated_may_be_changed():
    y, d = x(), {"b": x()}
    np.testing.assert_array_equal(grad(lambda a, b: (b.mul_(2) * a).sum())(x(), y), [2, 4, 6])
    np.testing.assert_array_equal(grad(lambda a, d: (d["b"].mul_(2) * a).sum())(x(), d), [2, 4, 6])
    np.testing.assert_array_equal(jacrev(lambda a, b=None: b.mul_(2) * a)(x(), b=y).diagonal(), [4, 8, 12])
    np.testing.assert_array_equal(jacfwd(lambda a, b=None: b.mul_(2) * a)(x(), b=y).diagonal(), [8, 16, 24])
    np.testing.assert_array_equal(y, [8, 16, 24])
    np.testing.assert_array_equal(d["b"], [2, 4, 6])
    rows = fg.ones(2, 3)
    vmap(lambda b, a: grad(lambda c, b: (b.mul_(2) * c).sum())(a, b))(rows, fg.ones(2, 3))
    np.testing.assert_array_equal(rows, np.full((2, 3), 2))


def test_forward_mode_may_change_its_inputs():
    y = x()
    out, change = jvp(lambda a: a.mul_(2) * a, (y,), (x(),))
    np.testing.assert_array_equal(out, [4, 16, 36])
    np.testing.assert_array_equal(change, [8, 32, 72])
    np.testing.assert_array_equal(y, [2, 4, 6])


def test_each_level_counts_for_itself():
    def inner_changes_outer(a):
        b = a.clone()
        return grad(lambda c: (b.mul_(2) * c).sum())(x()).sum()

    with pytest.raises(RuntimeError, match="captured Tensor"):
        grad(inner_changes_outer)(x())

    def outer_changes_results_of_the_inner(a):
        z = a.clone()
        r = grad(lambda b: (b * b).sum())(z)
        z.mul_(2)
        r.mul_(2)
        return (r * z).sum()

    np.testing.assert_array_equal(grad(outer_changes_results_of_the_inner)(x()), [16, 32, 48])


def test_buffers_of_a_module_are_captured_unless_they_are_passed():
    norm = fg.nn.BatchNorm1d(3)
    rows = fg.tensor([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]])
    with pytest.raises(RuntimeError, match="captured Tensor"):
        grad(lambda a: norm(a).sum())(rows)
    buffers = {k: v.clone() for k, v in norm.named_buffers()}
    grad(lambda a, b: functional_call(norm, b, (a,)).sum())(rows, buffers)
    np.testing.assert_allclose(buffers["running_mean"], [0.2, 0.2, 0.2], rtol=1e-6)


def test_out_may_be_a_captured_tensor():
    y = fg.empty(3)
    np.testing.assert_array_equal(grad(lambda a: (fg.mul(a.detach(), 2, out=y) * a).sum())(x()), [2, 4, 6])


def test_vmap_alone_changes_captured_tensors_by_what_all_examples_share():
    y = x()
    np.testing.assert_array_equal(vmap(lambda a: y.mul_(2) * a)(fg.ones(2))[0], [2, 4, 6])
    with pytest.raises(RuntimeError, match="vmap: inplace arithmetic"):
        vmap(lambda a: y.mul_(a))(fg.ones(2))


def test_leaves_made_inside_leave_no_history_on_the_result():
    for leaf in (
        lambda: fg.nn.Parameter(fg.ones(3)),
        lambda: fg.ones(3, requires_grad=True),
        lambda: fg.tensor([1.0, 1.0, 1.0], requires_grad=True),
    ):
        g = grad(lambda a, leaf=leaf: (leaf() * a).sum())(x())
        assert not g.requires_grad
    outside = fg.ones(3, requires_grad=True)
    assert grad(lambda a: (outside * a).sum())(x()).requires_grad


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_no_gradients_are_asked_for_inside(transform):
    with pytest.raises(RuntimeError, match="requires_grad_"):
        TRANSFORMS[transform](lambda a: a.clone().requires_grad_() * 2)

    def runs_backward(a):
        (a * a).sum().backward()
        return a * 2

    with pytest.raises(RuntimeError, match="inside a function transform"):
        TRANSFORMS[transform](runs_backward)


def test_transforms_inside_of_compiled_code():
    y = x()

    @fg.compile
    def changes(t):
        return grad(lambda a: (y.mul_(2) * a).sum())(t)

    @fg.compile
    def fills(t):
        def f(a):
            z = fg.zeros(3)
            z.copy_(a)
            z[0] = a[1]
            return (z * z).sum()

        return grad(f)(t)

    for _ in range(2):
        with pytest.raises(RuntimeError, match="captured Tensor"):
            changes(x())
        np.testing.assert_array_equal(fills(x()), [0, 8, 6])
    np.testing.assert_array_equal(y, [1, 2, 3])


def test_compiled_code_inside_of_transforms():
    y = x()

    @fg.compile
    def times(a, w):
        w.mul_(2)
        return (w * a).sum()

    for _ in range(2):
        with pytest.raises(RuntimeError, match="captured Tensor"):
            grad(lambda a: times(a, y))(x())
        np.testing.assert_array_equal(grad(lambda a: times(a, fg.ones(3)))(x()), [2, 2, 2])
    np.testing.assert_array_equal(y, [1, 2, 3])
    times(x(), y)
    np.testing.assert_array_equal(y, [2, 4, 6])
