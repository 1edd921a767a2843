"""Changes in place and numbers that do not fit: PyTorch's rules."""

import math

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.nn import functional as F


def leaf(*values, **kw):
    return fg.tensor(list(values), requires_grad=True, **kw)


# ---- in-place


def test_as_strided_counts_in_the_memory_of_the_base():
    x = fg.arange(6.0).requires_grad_()
    y = x * 1
    y.as_strided((2, 2), (1, 2)).mul_(3)
    (g,) = fg.autograd.grad(y.sum(), x)
    np.testing.assert_array_equal(g, [3, 3, 3, 3, 1, 1])
    y = x * 1
    y.as_strided((2, 2), (1, 2), 1).copy_(x[:4].view(2, 2) * 2)
    (g,) = fg.autograd.grad((y * fg.arange(6.0)).sum(), x)
    np.testing.assert_array_equal(g, [2, 6, 4, 8, 0, 5])


def test_expanded_tensors_can_be_filled_but_not_changed():
    base = fg.ones(1)
    assert base.expand(3).zero_().tolist() == [0, 0, 0] and base.expand(3).fill_(2.0).tolist() == [2, 2, 2]
    for change in (lambda x: x.add_(1), lambda x: x.exp_(), lambda x: x.copy_(fg.ones(3)), lambda x: x.uniform_()):
        with pytest.raises(RuntimeError, match="single memory location"):
            change(base.expand(3))


@pytest.mark.parametrize("change", [lambda x: x.add_(fg.ones(2)), lambda x: x.mul_(fg.ones(2, 3))])
def test_wrong_shapes_in_place_are_runtime_errors_without_grad_too(change):
    with fg.no_grad(), pytest.raises(RuntimeError):
        change(fg.ones(3))
    with pytest.raises(RuntimeError):
        change(fg.ones(3))


def test_set_takes_memory_but_keeps_its_own_version():
    x, y = fg.ones(3), fg.zeros(2, 2)
    x.set_(y)
    assert x.shape == (2, 2) and x.data_ptr() == y.data_ptr() and (x._version, y._version) == (1, 0)
    x.add_(1)
    assert y.tolist() == [[1, 1], [1, 1]] and (x._version, y._version) == (2, 0)
    assert fg.ones(3).set_().shape == (0,)
    assert fg.ones(3).set_(fg.arange(6.0), 1, (2, 2), (2, 1)).tolist() == [[1, 2], [3, 4]]
    with pytest.raises(RuntimeError, match="Could not set tensor"):
        fg.ones(3).set_(fg.ones(3, dtype=fg.float64))


def test_data_can_be_assigned_but_not_deleted():
    x = leaf(1.0, 2.0)
    x.data = fg.zeros(3)
    assert x.shape == (3,) and x.requires_grad and x._version == 0
    with pytest.raises(RuntimeError, match="Deleting tensor data"):
        del x.data
    with pytest.raises(RuntimeError, match="floating point"):
        x.data = fg.zeros(3, dtype=fg.int64)
    x.sum().backward()
    x.data = fg.zeros(2)
    with pytest.raises(RuntimeError, match="size"):
        x.sum().backward()


def test_fill_diagonal():
    assert fg.zeros(2, 3).fill_diagonal_(1).tolist() == [[1, 0, 0], [0, 1, 0]]
    assert fg.zeros(5, 2).fill_diagonal_(1, wrap=True).tolist() == [[1, 0], [0, 1], [0, 0], [1, 0], [0, 1]]
    assert fg.zeros(5, 2).fill_diagonal_(1).sum() == 2
    assert fg.zeros(2, 2, 2).fill_diagonal_(1).tolist() == [[[1, 0], [0, 0]], [[0, 0], [0, 1]]]
    x = fg.ones(2, 2, requires_grad=True)
    with pytest.raises(RuntimeError, match="view of a leaf"):
        x.fill_diagonal_(0)
    y = x * 3
    z = y * y
    y.fill_diagonal_(0).sum().backward()
    assert x.grad.tolist() == [[0, 3], [3, 0]]
    with pytest.raises(RuntimeError, match="inplace operation"):
        z.sum().backward()
    for bad, kind in ((fg.zeros(3), RuntimeError), (fg.zeros(2, 3, 2), RuntimeError)):
        with pytest.raises(kind):
            bad.fill_diagonal_(1)
    with pytest.raises(TypeError):
        fg.zeros(2, 2).fill_diagonal_("a")


@pytest.mark.parametrize("name", ["hardtanh_", "relu_", "elu_", "leaky_relu_", "selu_", "celu_", "rrelu_"])
def test_in_place_functions_name_the_argument_that_is_no_tensor(name):
    with pytest.raises(TypeError, match=f"{name}.*argument 'input' .*must be Tensor, not tuple"):
        getattr(F, name)((0, 1))
    x = fg.tensor([-1.0, 1.0])
    assert getattr(F, name)(x) is x and x.tolist() == getattr(F, name[:-1])(fg.tensor([-1.0, 1.0])).tolist()


# ---- numbers that do not fit


@pytest.mark.parametrize(
    "use",
    [
        lambda x: x + 2**80,
        lambda x: 2**80 - x,
        lambda x: x * -(2**80),
        lambda x: x == 2**80,
        lambda x: x.float() + 2**80,
        lambda x: x // 2**80,
        lambda x: x.fill_(2**80),
        lambda x: x.float().fill_(2**80),
        lambda x: fg.where(x > 0, 2**80, 0),
        lambda x: x & 2**80,
        lambda x: x.masked_fill(x > 0, 2**80),
        lambda x: fg.full((2,), 2**80),
    ],
)
def test_integers_beyond_64_bits_overflow(use):
    with pytest.raises(OverflowError):
        use(fg.ones(2, dtype=fg.int64))


def test_numbers_beyond_the_dtype():
    assert (fg.ones(1, dtype=fg.uint8) + 300).tolist() == [45]  # operators wrap around
    for make in (lambda: fg.full((2,), 300, dtype=fg.int8), lambda: fg.ones(1, dtype=fg.int8).fill_(300),
                 lambda: fg.ones(1).fill_(1e300), lambda: fg.full((1,), 1e300)):  # fmt: skip
        with pytest.raises(RuntimeError, match="without overflow"):
            make()
    assert fg.full((1,), math.inf).item() == math.inf
    with pytest.raises(ValueError, match="Overflow"):
        fg.tensor([2**80, 1])


@pytest.mark.parametrize(
    "change, name",
    [
        (lambda y: y.le_(1), "LeBackward0"), (lambda y: y.ne_(1), "NeBackward0"),
        (lambda y: y.log_normal_(), "LogNormalBackward0"), (lambda y: y.random_(), "RandomBackward2"),
        (lambda y: y.random_(0, 3), "RandomBackward0"), (lambda y: y.bernoulli_(0.5), "BernoulliBackward2"),
        (lambda y: y.bernoulli_(fg.ones(3)), "BernoulliBackward1"), (lambda y: y.copy_(fg.ones(3)), "CopyBackwards"),
    ],
)  # fmt: skip
def test_what_is_overwritten_gets_zeros(change, name):
    x = fg.ones(3, requires_grad=True)
    y = x * 2
    assert change(y) is y and y.requires_grad and type(y.grad_fn).__name__ == name
    y.sum().backward()
    assert x.grad.tolist() == [0, 0, 0]


@pytest.mark.parametrize("compiled", [False, True])
def test_drawn_numbers_depend_on_their_parameters_in_name(compiled):
    def step(mean, std):
        return fg.autograd.grad((fg.normal(mean, std) * 2).sum(), (mean, std))

    m, s = fg.zeros(3, requires_grad=True), fg.ones(2, 1, requires_grad=True)
    assert [g.tolist() for g in (fg.compile(step) if compiled else step)(m, s)] == [[0, 0, 0], [[0], [0]]]
    names = [fg.normal(m, s), fg.normal(m, 1.0), fg.normal(0.0, s)]
    assert [type(t.grad_fn).__name__ for t in names] == [f"NormalBackward{i}" for i in (3, 1, 2)]
    assert not fg.normal(m.detach(), 1.0).requires_grad


@pytest.mark.parametrize("use", [lambda a: a * a, lambda a: a.sin(), lambda a: a**3, lambda a: a.dot(a)])
def test_a_saved_input_that_was_detached_in_place_is_refused(use):
    x = fg.tensor([2.0], requires_grad=True)
    for create in (False, True):
        a = x.exp()
        y = use(a)
        a.detach_()
        with pytest.raises(RuntimeError, match="detached in-place"):
            fg.autograd.grad(y.sum(), x, create_graph=create)


def test_detach_in_place_leaves_results_views_and_versions_alone():
    x = fg.tensor([2.0, 3.0], requires_grad=True)
    a = x.exp()
    kept, v = a * 1, a[:1]
    a.detach_()
    assert a._version == v._version == 0 and v.requires_grad and not a.requires_grad
    (kept.sum() + v.sum()).backward()  # exp keeps its result, which is what it was
    assert fg.allclose(x.grad, x.detach().exp() * fg.tensor([2.0, 1.0]))
    y = a * x  # now a is a constant
    y.sum().backward()
    y = a * x
    v.data.add_(1)
    v.detach().add_(1)
    assert a._version == 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_truncated_backpropagation_by_detach_in_place():
    w, h = fg.tensor([2.0], requires_grad=True), fg.ones(1)
    for _ in range(4):
        h = h * w
        h.sum().backward()
        h.detach_()
    assert w.grad.item() == 1 + 2 + 4 + 8
    t = w * 1
    for i in range(4):
        t.mul_(w)
        t.detach_()
        assert t._version == i + 1


@pytest.mark.parametrize("name,args", [("mul_", (2,)), ("add_", (2,)), ("exp_", ()), ("pow_", (2,)), ("sigmoid_", ())])
def test_hooks_of_a_view_that_was_changed_see_what_else_was_computed_from_it(name, args):
    for other in (False, True):
        x = fg.tensor([0.5, 2.0, 3.0], requires_grad=True)
        y = x * 1
        v = y[:2]
        seen = []
        v.register_hook(lambda g, seen=seen: seen.append(g.clone()) or g * 10)
        u = v * 3 if other else None
        getattr(v, name)(*args)
        late = []
        v.register_hook(lambda g, late=late: late.append(g.clone()))
        (v.sum() + y[2] + (u.sum() if other else 0)).backward()
        w = x.detach()[:2].clone().requires_grad_()
        (slope,) = fg.autograd.grad(getattr(w * 1, name)(*args).sum(), w)
        expected = [*(slope + 30 if other else slope).tolist(), 1.0]
        np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-6)
        assert [g.tolist() for g in seen] == ([[3.0, 3.0]] if other else [])
        assert [g.tolist() for g in late] == [[1.0, 1.0]]


def test_second_derivatives_past_a_changed_view_with_hooks():
    x = fg.tensor([0.5, 2.0], requires_grad=True)
    y = x * 1
    v = y[:1]
    v.register_hook(lambda g: g * 10)
    v.pow_(2)
    (d,) = fg.autograd.grad(y.sum(), x, create_graph=True)
    d.sum().backward()
    assert d.tolist() == [1.0, 1.0]
    assert x.grad.tolist() == [20.0, 0.0]  # d was computed from the view as it was, which has the hook


# ---- what is overwritten as a whole


OVERWRITING = {
    "copy_": lambda y, v: y.copy_(v),
    "copy_ of another dtype": lambda y, v: y.copy_(v.double()),
    "copy_ of one": lambda y, v: y.copy_(v[:1]),
    "...": lambda y, v: y.__setitem__(..., v),
    ":": lambda y, v: y.__setitem__((slice(None), ...), v),
    "a number": lambda y, v: y.__setitem__(slice(None), 3.0),
    "zero_": lambda y, v: y.zero_(),
}


@pytest.mark.parametrize("how", OVERWRITING)
def test_what_was_there_before_a_whole_tensor_was_overwritten_gets_zeros(how):
    """It stays in the graph, also where the new values have a history: eager and compiled, like PyTorch's."""
    write = OVERWRITING[how]

    def loss(x, v):
        y = x * 1
        write(y, v)
        return (y * y).sum()

    for f in (loss, fg.compile(loss)):
        x, v = leaf(1.0, 2.0), leaf(3.0, 4.0)
        f(x, v).backward()
        assert x.grad.tolist() == [0, 0]
        assert (v.grad is None) if how in ("a number", "zero_") else (v.grad.sum() > 0)
        assert fg.autograd.grad(f(x, v), x)[0].tolist() == [0, 0]  # not "unused"


def test_nodes_of_whole_writes_are_no_slices():
    x, v = leaf(1.0, 2.0), leaf(3.0, 4.0)
    y = x * 1
    y[...] = v
    assert type(y.grad_fn).__name__ == "CopyBackwards" and len(y.grad_fn.next_functions) == 2
    assert y.grad_fn.next_functions[1][0].variable is v
    y[:] = 2.0
    assert type(y.grad_fn).__name__.startswith("Fill")
    y[:1] = 2.0
    assert type(y.grad_fn).__name__ == "CopySlices"


def test_zeros_for_what_was_overwritten_are_zeros_beside_infinite_gradients():
    for value in (fg.tensor(0.0), fg.zeros(2), leaf(0.0, 0.0)):
        x = leaf(1.0, 2.0)
        y = x * 1
        y.copy_(value)
        y.sqrt().sum().backward()
        assert x.grad.tolist() == [0, 0]


# ---- leaves and views whose look changed


@pytest.mark.parametrize("change", ["t_", "unsqueeze_", "squeeze_", "transpose_", "swapdims_"])
def test_leaves_seen_otherwise_without_grad_mode_stay_leaves(change):
    x = fg.ones(2, 3, requires_grad=True)
    with fg.no_grad():
        getattr(x, change)(*{"t_": (), "squeeze_": (), "unsqueeze_": (0,)}.get(change, (0, 1)))
    assert x.is_leaf and fg.autograd.grad((x * 2).sum(), x)[0].tolist() == fg.full(tuple(x.shape), 2.0).tolist()
    (x * 3).sum().backward()
    assert x.grad.shape == x.shape and x.grad.sum() == 18


def test_gradients_of_leaves_that_changed_their_shape_since():
    """In the new shape where dimensions of size 1 came or went, else refused: never spread or summed up."""
    w = leaf(1.0, 2.0, 3.0)
    before = w * fg.tensor([1.0, 10.0, 100.0])
    with fg.no_grad():
        w.unsqueeze_(0)
    assert fg.autograd.grad(before.sum(), w)[0].flatten().tolist() == [1, 10, 100]
    w = fg.ones(2, 3, requires_grad=True)
    before = w * 2
    with fg.no_grad():
        w.t_()
    with pytest.raises(RuntimeError, match="shape"):
        before.sum().backward()
    assert w.grad is None


def test_views_of_what_was_detached_in_place_and_changed_lose_their_history():
    x = leaf(1.0, 2.0)
    y = x * 1
    kept, lost = y[:1], y[1:]
    y.detach_()
    assert fg.autograd.grad(kept.sum(), x)[0].tolist() == [1, 0]
    y.fill_(5.0)
    assert lost.requires_grad and not lost.is_leaf and type(lost.grad_fn).__name__ == "AsStridedBackward0"
    assert fg.autograd.grad((lost * lost).sum(), x, allow_unused=True) == (None,)


def test_copies_of_views_whose_base_changed_take_its_new_history():
    for w in (lambda y, v: y.copy_(v), lambda y, v: y.__setitem__(..., v)):
        x, other = leaf(1.0, 2.0), leaf(3.0, 4.0)
        y = x * 1
        v = y[:]
        y.mul_(other)
        w(y, v)
        y.sum().backward()
        assert x.grad.tolist() == [3, 4] and other.grad.tolist() == [1, 2]


def test_as_strided_of_a_view_counts_from_the_start_of_the_memory():
    """Its gradient is that of the view's elements which it sees, in their places."""
    for part, offset, want in (
        (slice(2, None), 1, [0, 0, 10]),
        (slice(1, None), 0, [0, 10, 0]),
        (slice(1, None), 1, [0, 1, 10]),
    ):
        for f in (lambda x, p, o: (x * 1)[p].as_strided((2,), (1,), o), lambda x, p, o: x[p].as_strided((2,), (1,), o)):
            for g in (f, fg.compile(f)):
                x = leaf(1.0, 2.0, 3.0)
                (g(x, part, offset) * fg.tensor([1.0, 10.0])).sum().backward()
                assert x.grad.tolist() == want


def test_written_views_of_contiguous_tensors_have_gradients_of_any_layout():
    x = fg.arange(6.0).reshape(2, 3).requires_grad_()
    y = x * 1
    y.view(-1)[:1].fill_(7.0)
    flat = y.view(-1)
    flat.index_fill_(0, fg.tensor([1]), 2.0)
    y.sum(-1, keepdim=True).sum().backward()
    assert x.grad.tolist() == [[0, 0, 1], [1, 1, 1]]


def test_views_that_were_read_before_their_base_asks_for_a_gradient():
    """A view of a base that was changed is taken again from what the base is: whatever was read of it in between."""
    b = fg.ones(2, 3)
    v = b.t()
    v.fill_(2.0)
    v * 2  # looks at the history, of which there is none
    with pytest.raises(RuntimeError):
        v.view(-1)
    b.requires_grad_()
    assert v.requires_grad and not v.is_leaf
    assert fg.autograd.grad((v * v).sum(), b)[0].tolist() == [[4.0] * 3] * 2


def test_views_seen_otherwise_in_place_keep_what_a_detached_base_left_them():
    x = fg.ones(2, 3, requires_grad=True)
    y = x * 1
    v = y[:1]
    v.t_()
    y.detach_()
    assert fg.autograd.grad((v * 2).sum(), x)[0].tolist() == [[2] * 3, [0] * 3]
