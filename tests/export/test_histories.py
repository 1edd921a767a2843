"""What exported programs know of histories: changes without a graph, and Python code in derivatives, which is told."""

import io
import pathlib
import warnings

import pytest

import fusegrad as T
from fusegrad import export as E
from fusegrad import nn


def loaded(f, *args, compile=True):
    file = io.BytesIO()
    E.save(E.export(f, args), file)
    file.seek(0)
    return E.load(file).module(compile=compile)


def detached(x):
    x.detach().mul_(2)
    return x * 3


def part(x):
    x.detach()[1:].mul_(2)
    return x * 3


def under_no_grad(x):
    with T.no_grad():
        x.mul_(2)
    return x * 3


def a_view_is_returned(x):
    y = x.unsqueeze(0)
    with T.no_grad():
        y.mul_(2)
    return y * 3 + y


def compared(x):
    y = x * 2
    y.le_(1)
    return y * y


def overwritten(x):
    y = x * 2
    return y.copy_(T.tensor([1.0, 2.0])) * y


def of_a_result(x):
    y = x * 2
    with T.no_grad():
        y[1:] = 5.0
    return y * 3


def both(x):
    y = x * 2
    y.data.mul_(y.data)
    y.mul_(2)
    return y * y


def then_recorded(x):
    with T.no_grad():
        x.mul_(2)
    x.mul_(3)
    return x * x


@pytest.mark.parametrize("compile", [True, False])
@pytest.mark.parametrize(
    "f", [detached, part, under_no_grad, a_view_is_returned, compared, overwritten, of_a_result, both, then_recorded]
)
def test_changes_without_a_graph_keep_the_history(f, compile):
    seen = []
    for g in (f, loaded(f, T.ones(2), compile=compile)):
        leaf = T.tensor([3.0, 4.0], requires_grad=True)
        x = leaf * 1
        out = g(x)
        (out.sum() + x.sum()).backward()
        seen.append((out.tolist(), x.tolist(), x.requires_grad, leaf.grad.tolist()))
    assert seen[0] == seen[1]


@pytest.mark.parametrize("f", [detached, part, under_no_grad])
def test_a_leaf_that_is_changed_without_a_graph_stays_a_leaf(f):
    seen = []
    for g in (f, loaded(f, T.ones(2))):
        x = T.tensor([3.0, 4.0], requires_grad=True)
        g(x).sum().backward()
        seen.append((x.tolist(), x.is_leaf, x.grad.tolist()))
    assert seen[0] == seen[1]


class Halved(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(T.tensor([1.0, 2.0]))
        self.register_buffer("calls", T.zeros(()))

    def forward(self, x):
        with T.no_grad():
            self.w.mul_(0.5)
            self.calls.add_(1)
        return x * self.w


def test_a_parameter_that_is_changed_in_forward_is_trained_in_the_loaded_program():
    x = T.tensor([3.0, 4.0])
    module = Halved()
    program = E.export(module, (x,))
    assert sum(node.op.name == "with_history" for node in program.graph.nodes) == 1  # the buffer asks for no gradient
    for m in (module, program.module()):
        for _ in range(2):
            m(x).sum().backward()
        assert m.w.tolist() == [0.25, 0.5] and m.w.grad.tolist() == [6.0, 8.0] and m.calls.item() == 2


def test_the_fixture_of_version_1_2_loads():
    run = E.load(pathlib.Path(__file__).parent / "fixtures" / "v1_2.fgx").module()
    x = T.tensor([3.0, 4.0], requires_grad=True)
    y = x * 1
    run(y).sum().backward()
    assert y.tolist() == [6.0, 8.0] and x.grad.tolist() == [3.0, 3.0]


class Twice(T.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


def hooked(x):
    y = x * 2
    if y.requires_grad:
        y.register_hook(lambda g: g * 3)
    return {"y": y}


@pytest.mark.parametrize("f, said", [(Twice.apply, "backward of Twice"), (hooked, "hooks on tensors")])
def test_python_code_in_derivatives_is_told(f, said):
    def g(x):
        return f(x.exp())

    with pytest.warns(UserWarning, match=said):
        E.export(g, (T.ones(2, requires_grad=True),))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        E.export(g, (T.ones(2),))
        E.export(lambda x: x.exp() * 2, (T.ones(2, requires_grad=True),))


def detach(x):
    x.detach_()
    return x * 2


def freeze(x):
    return x.requires_grad_(False) * 2


def restore(x):
    state = T.get_rng_state()
    T.rand(2)
    T.set_rng_state(state)
    return x + T.rand(2)


def fork(x):
    with T.random.fork_rng():
        y = T.rand(2)
    return x + y + T.rand(2)


@pytest.mark.parametrize(
    "f, said", [(detach, "detach_"), (freeze, "requires_grad_"), (restore, "random"), (fork, "random")]
)
def test_what_a_program_cannot_do_again_is_refused(f, said):
    state = T.get_rng_state().tolist()
    with pytest.raises(E.ExportError, match=said):
        E.export(f, (T.ones(2, requires_grad=True),))
    assert T.get_rng_state().tolist() == state


def test_an_input_may_start_to_ask_for_a_gradient():
    def f(x):
        x.requires_grad_()
        return T.autograd.grad((x**3).sum(), x)[0]

    assert loaded(f, T.ones(2))(T.tensor([2.0, 3.0])).tolist() == [12.0, 27.0]


M = E.Dim("m", min=2, max=6)
OF_NUMBERS = {  # tensors made of numbers, whose size is one of the graph's
    "set all": lambda x: x.clone().__setitem__(slice(None), 97) or x,
    "expand": lambda x: T.tensor(2.0).expand(x.shape) + x,
    "repeat": lambda x: T.tensor([1.0, 2.0]).repeat(x.shape[0]),
    "slice": lambda x: T.tensor([1.0, 2.0])[: x.shape[0]].sum() + x,
    "copy": lambda x: x.clone().copy_(T.tensor(3.0)),
    "roll": lambda x: T.tensor([1.0, 2.0, 3.0]).roll(x.shape[0]),
    "quantile": lambda x: x.quantile(0.3),
}


@pytest.mark.parametrize("name", OF_NUMBERS)
def test_tensors_of_numbers_with_a_size_that_varies(name):
    f = OF_NUMBERS[name]
    run = E.export(f, (T.arange(4.0),), dynamic_shapes=({0: M},)).module()
    for m in (4, 2, 6, 3):
        x = T.arange(float(m)) ** 2
        T.testing.assert_close(run(x), f(x))


@pytest.mark.parametrize("kind", ["max_pool1d", "avg_pool1d", "lp_pool1d"])
def test_windows_that_do_not_fit_all_sizes_are_refused(kind):
    pool = getattr(nn.functional, kind)

    def f(x):
        return pool(x.view(1, 1, -1), *((2, 3) if kind == "lp_pool1d" else (3,)), stride=1)

    with pytest.raises(E.ConstraintError, match="min=3"):
        E.export(f, (T.ones(4),), dynamic_shapes=({0: M},))
    run = E.export(f, (T.ones(4),), dynamic_shapes=({0: E.Dim("m", min=3, max=9)},)).module()
    T.testing.assert_close(run(T.arange(3.0)), f(T.arange(3.0)))


@pytest.mark.parametrize("f", [lambda n: n & 3, lambda n: 3 | n, lambda n: n ^ 1, lambda n: 1 << n, lambda n: ~n])
def test_bits_of_a_size_need_its_number(f):
    def program(x):
        return x * f(x.shape[0])

    with pytest.raises(E.ConstraintError, match="test_histories.py"):
        E.export(program, (T.ones(4),), dynamic_shapes=({0: M},))
    compiled = T.compile(program, dynamic=True)
    for m in (4, 5, 2):
        assert compiled(T.ones(m)).tolist() == program(T.ones(m)).tolist()


def _changed_after(x):
    y = x.tanh()
    z = y * 2
    y.fill_(3.0)
    return z


def _changed_before(x):
    y = x * 2
    y.fill_(3.0)
    return y * x


@pytest.mark.parametrize("f, told", [(_changed_after, True), (_changed_before, False)])
def test_a_backward_that_fails_in_python_is_told(f, told):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        E.export(f, (T.ones(2, requires_grad=True),))
    assert [w for w in found if "that its backward needs" in str(w.message)] != [] or not told
    assert told or not found


def test_an_argument_that_starts_to_require_a_gradient_is_told():
    def slope(x):
        x.requires_grad_()
        return T.autograd.grad((x * x).sum(), x)[0]

    with pytest.warns(UserWarning, match="makes x require a gradient"):
        program = E.export(slope, (T.ones(2),))
    x = T.full((2,), 3.0)
    assert program.module()(x).tolist() == [6.0, 6.0] and not x.requires_grad

    def back_again(x):
        x.requires_grad_()
        g = T.autograd.grad((x * x).sum(), x)[0]
        x.requires_grad_(False)
        return g

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        E.export(back_again, (T.ones(2),))
