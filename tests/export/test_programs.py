"""Exported programs give what eager gives: values, nesting, sizes, state, gradients, random numbers; saved or not."""

import collections
import copy
import inspect
import math
import pickle
import re

import numpy as np
import pytest
from fusegrad.export import Dim

import fusegrad as T
from fusegrad import export as E
from fusegrad.op import TABLE
from fusegrad.pytree import tree_leaves

F = T.nn.functional
BATCH, LENGTH = Dim("b", min=2, max=64), Dim("s", min=2, max=64)
Pair = collections.namedtuple("Pair", "u v")


def module(forward, **attrs):
    """A module with the given forward(self, ...)."""
    m = type("M", (T.nn.Module,), {"forward": forward})()
    for k, v in attrs.items():
        setattr(m, k, v)
    return m


def saved(program, tmp_path):
    E.save(program, tmp_path / "p.fgx")
    return E.load(tmp_path / "p.fgx")


def array(x):
    return x.detach().numpy() if isinstance(x, T.Tensor) else np.asarray(x)


def close(got, want, tol=1e-5):
    got, want = tree_leaves(got), tree_leaves(want)
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        assert type(g) is type(w)
        if isinstance(w, T.Tensor):
            assert g.dtype is w.dtype and tuple(g.shape) == tuple(w.shape)
        np.testing.assert_allclose(array(g), array(w), rtol=tol, atol=tol)


def agree(tmp_path, m, args, dyn=None, calls=None, kwargs=None, tol=1e-5):
    """Fresh and loaded, interpreted and compiled: all give what `m` gives, at every call."""
    kwargs = kwargs or {}
    program = E.export(m, args, kwargs, dynamic_shapes=dyn)
    for p in (program, saved(program, tmp_path)):
        for compile in (False, True):
            f = p.module(compile=compile)
            for call in calls or [args]:
                close(f(*call, **kwargs), m(*call, **kwargs), tol)
    return program


def rand(*shape):
    return T.randn(*shape)


SIZED = {
    "view": (lambda self, x: x.view(x.shape[0], -1).sum(1), [(4, 3, 5)], ({0: BATCH},), [(7, 3, 5)]),
    "reshape": (lambda self, x: x.reshape(-1), [(4, 3)], ({0: BATCH, 1: LENGTH},), [(7, 5)]),
    "transposed reshape": (lambda self, x: x.t().reshape(-1) * 2, [(4, 3)], ({0: BATCH},), [(7, 3)]),
    "flatten": (lambda self, x: x.flatten(1), [(4, 3, 2)], ({0: BATCH, 1: LENGTH},), [(7, 5, 2)]),
    "cat": (lambda self, x: T.cat([x, x], 0) * 2, [(4, 3)], ({0: BATCH},), [(7, 3)]),
    "half": (lambda self, x: x[: x.shape[0] // 2] * 1.0, [(4, 3)], ({0: BATCH},), [(7, 3)]),
    "last": (lambda self, x: x[:, -1] + x[:, :-1].sum(1), [(4, 3)], ({0: BATCH, 1: LENGTH},), [(7, 5)]),
    "difference": (lambda self, x: x[1:] - x[:-1], [(4, 3)], ({0: BATCH},), [(7, 3)]),
    "softmax": (lambda self, x: F.softmax(x, -1), [(4, 3)], ({0: BATCH, 1: LENGTH},), [(7, 5)]),
    "numbers": (lambda self, x: x.sum() / x.shape[0] + x.numel(), [(4, 3)], ({0: BATCH},), [(7, 3)]),
    "arange": (lambda self, x: x + T.arange(x.shape[1]), [(4, 3)], ({0: BATCH, 1: LENGTH},), [(7, 5)]),
    "pad": (lambda self, x: F.pad(x, (1, 2)), [(4, 3)], ({0: BATCH, 1: LENGTH},), [(7, 5)]),
    "square": (lambda self, x: T.ones(x.shape[0], x.shape[0]).tril() @ x, [(4, 3)], ({0: BATCH},), [(7, 3)]),
    "outer": (lambda self, x: x[:, None] * x[None, :], [(4,)], ({0: BATCH},), [(7,)]),
    "std": (lambda self, x: (x.std(0), x.var(), x.norm()), [(4, 6)], ({0: BATCH},), [(7, 6)]),
    "max": (lambda self, x: x.max(1), [(4, 6)], ({0: BATCH},), [(7, 6)]),
    "sizes returned": (
        lambda self, x: (x.shape[0], x.shape[0] * 2 + 1, tuple(x.shape)),
        [(4, 6)],
        ({0: BATCH},),
        [(7, 6)],
    ),
    "empty": (lambda self, x: x.sum(0), [(4, 3)], ({0: Dim("n")},), [(0, 3), (1, 3)]),
}


@pytest.mark.parametrize("name", SIZED)
def test_results_follow_the_sizes_of_the_call(name, tmp_path):
    forward, shapes, dyn, others = SIZED[name]
    agree(tmp_path, module(forward), tuple(rand(*s) for s in shapes), dyn, [(rand(*s),) for s in [*shapes, *others]])


def test_two_dims_and_attention(tmp_path):
    def forward(self, q, k, v):
        return F.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]), -1) @ v

    args = (rand(2, 4, 8), rand(2, 5, 8), rand(2, 5, 8))
    dyn = ({1: BATCH}, {1: LENGTH}, {1: LENGTH})
    agree(tmp_path, module(forward), args, dyn, [args, (rand(2, 9, 8), rand(2, 3, 8), rand(2, 3, 8))])


def test_layers_with_parameters_and_gradients(tmp_path):
    m = T.nn.Sequential(T.nn.Linear(5, 8), T.nn.ReLU(), T.nn.Linear(8, 3))
    p = agree(tmp_path, m, (rand(4, 5),), ({0: BATCH},), [(rand(9, 5),)])
    for compile in (False, True):
        f, x = saved(p, tmp_path).module(compile=compile), rand(6, 5)
        f(x).pow(2).sum().backward()
        m.zero_grad()
        m(x).pow(2).sum().backward()
        assert list(f.state_dict()) == list(m.state_dict())
        for (n, a), (k, b) in zip(f.named_parameters(), m.named_parameters(), strict=True):
            assert n == k and type(a) is type(b)
            np.testing.assert_allclose(array(a.grad), array(b.grad), rtol=1e-4, atol=1e-5)


def test_a_loaded_program_can_be_trained_and_saved_again(tmp_path):
    p = E.export(T.nn.Linear(3, 1), (rand(8, 3),))
    f = saved(p, tmp_path).module()
    opt = T.optim.SGD(f.parameters(), lr=0.1)
    x = rand(8, 3)
    y = x.sum(1, keepdim=True)
    losses = []
    for _ in range(30):
        opt.zero_grad()
        loss = F.mse_loss(f(x), y)
        loss.backward()
        opt.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 10
    p.load_state_dict(f.state_dict())
    close(saved(p, tmp_path).module()(x), f(x))
    with pytest.raises(ValueError, match="no parameter or buffer 'q'"):
        p.load_state_dict({"q": x})
    with pytest.raises(ValueError, match="weight is float32"):
        p.load_state_dict({"weight": x})


def test_floats_made_of_sizes(tmp_path):
    def forward(self, x):
        n = x.shape[0]
        half = n / 2
        return (
            x * (1.0 / n),
            x / (n * 0.5),
            x**half,
            half,
            1.5 - half,
            x.long() * half,
            x.double() * n**-0.5,
            x.sum() * -half,
        )

    p = agree(tmp_path, module(forward), (rand(4, 3).abs(),), ({0: BATCH},), [(rand(7, 3).abs(),)])
    assert "(b / 2)" in E.inspect_text(p)
    for bad in (
        lambda self, x: x * math.sqrt(x.shape[0] / 2),
        lambda self, x: x * 2 if x.shape[0] / 2 > 1 else x,
    ):
        with pytest.raises(E.ConstraintError, match=r"test_programs.py:\d+: .*value of \(b / 2\).*differs between"):
            E.export(module(bad), (rand(4),), dynamic_shapes=({0: BATCH},))


@pytest.mark.parametrize("compile", (False, True))
def test_gradients_stop_where_the_program_stopped_them(tmp_path, compile):
    def frozen(self, x):
        with T.no_grad():
            y = x * 3
        return y * x

    x = rand(3).requires_grad_()
    for forward, want in ((lambda self, x: x.detach() * x, array(x)), (frozen, 3 * array(x))):
        f = saved(E.export(module(forward), (rand(3),)), tmp_path).module(compile=compile)
        x.grad = None
        f(x).sum().backward()
        np.testing.assert_allclose(array(x.grad), want, rtol=1e-6)
    f = saved(E.export(module(lambda self, x: x.detach() * 2), (rand(3),)), tmp_path).module(compile=compile)
    assert not f(x).requires_grad


def test_nesting_of_arguments_and_results(tmp_path):
    def forward(self, d, items, *, k=None):
        return Pair(d["a"] + items[0], (items[1][0], {"z": d["b"] * 2, "none": None, "n": 3}))

    p = agree(tmp_path, module(forward), ({"a": rand(2), "b": rand(2)}, [rand(2), (rand(2),)]))
    out = saved(p, tmp_path).module()({"b": rand(2), "a": rand(2)}, [rand(2), (rand(2),)])
    assert type(out).__name__ == "Pair" and out._fields == ("u", "v") and out.v[1]["none"] is None
    agree(tmp_path, module(lambda self, p: p.u * p.v), (Pair(rand(2), rand(2)),))
    agree(tmp_path, module(lambda self, x: collections.OrderedDict(b=x + 1, a=x + 2)), (rand(2),))
    agree(tmp_path, module(lambda self, *xs, **kw: xs[0] + xs[1] * kw["z"]), (rand(2), rand(2)), kwargs={"z": rand(2)})
    agree(tmp_path, lambda x, y: x * y + 1, (rand(2), rand(2)))


def test_the_same_tensor_twice_and_the_argument_itself():
    def forward(self, x):
        y = x + 1
        return y, y, x

    x = rand(2)
    a, b, c = E.export(module(forward), (rand(2),)).module()(x)
    assert a is b and c is x


@pytest.mark.parametrize("compile", (False, True))
def test_an_argument_changed_in_place_is_changed(tmp_path, compile):
    def forward(self, x):
        x.add_(1)
        return x

    f = saved(E.export(module(forward), (rand(3),)), tmp_path).module(compile=compile)
    x = T.zeros(3)
    assert f(x) is x and x.tolist() == [1, 1, 1]
    column = T.zeros(3, 2)
    f(column[:, 1])
    assert column.tolist() == [[0, 1]] * 3


class Counter(T.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("n", T.tensor(0))
        self.register_buffer("h", T.zeros(2))
        self.register_buffer("scale", T.ones(2) * 2, persistent=False)
        self.w = T.nn.Parameter(T.ones(2), requires_grad=False)

    def forward(self, x):
        self.n += 1
        self.h = self.h * 0.5 + x
        return self.h * self.n * self.scale * self.w


@pytest.mark.parametrize("compile", (False, True))
def test_buffers_are_written_back_and_export_changes_nothing(tmp_path, compile):
    m = Counter()
    p = E.export(m, (rand(2),))
    assert m.n.item() == 0 and m.h.tolist() == [0, 0]
    f, g = saved(p, tmp_path).module(compile=compile), Counter()
    for _ in range(3):
        x = rand(2)
        close(f(x), g(x))
    assert f.n.item() == 3 and list(f.state_dict()) == list(m.state_dict()) == ["w", "n", "h"]
    assert list(p.state_dict) == ["w", "n", "h"] and "scale" in p.constants and not f.w.requires_grad
    assert p.module().n.item() == 0, "each module has its own state"


def test_tied_parameters_stay_tied(tmp_path):
    m = T.nn.Sequential(T.nn.Linear(3, 3), T.nn.Linear(3, 3))
    m[1].weight = m[0].weight
    f = saved(agree(tmp_path, m, (rand(2, 3),)), tmp_path).module()
    assert f.get_parameter("0.weight") is f.get_parameter("1.weight")
    assert len(list(f.parameters())) == len(list(m.parameters())) == 3


def test_batch_norm_in_training_mode(tmp_path):
    a, b = T.nn.BatchNorm1d(3), T.nn.BatchNorm1d(3)
    f = saved(E.export(b, (rand(4, 3),), dynamic_shapes=({0: BATCH},)), tmp_path).module()
    for n in (4, 5, 6):
        x = rand(n, 3)
        close(f(x), a(x), 1e-4)
    close(f.running_mean, a.running_mean)
    close(f.running_var, a.running_var)
    assert f.num_batches_tracked.item() == 3
    with pytest.warns(UserWarning, match="eval.. has no effect"):
        f.eval()


def test_random_numbers_are_those_of_eager(tmp_path):
    m = module(lambda self, x: F.dropout(x, 0.5) + T.rand(100))
    f = saved(E.export(m, (T.ones(100),)), tmp_path).module()
    T.manual_seed(3)
    want = [m(T.ones(100)).tolist() for _ in range(2)]
    T.manual_seed(3)
    assert [f(T.ones(100)).tolist() for _ in range(2)] == want and want[0] != want[1]
    drop = T.nn.Dropout(0.5).eval()
    assert E.export(drop, (T.ones(9),)).module()(T.ones(9)).tolist() == [1] * 9


def test_constants_travel_and_are_copies(tmp_path):
    outside = T.tensor([10.0, 20.0])
    m = module(lambda self, x: x * self.c + outside * self.s + T.tensor([0.5, 0.25]), c=T.full((2,), 3.0), s=2.0)
    p = E.export(m, (T.ones(2),))
    assert list(p.state_dict) == [] and len(p.constants) == 3
    f = saved(p, tmp_path).module()
    m.c.zero_()
    outside.zero_()
    m.s = 0.0
    assert f(T.ones(2)).tolist() == [23.5, 43.25]


def test_programs_can_be_copied_and_pickled():
    p = E.export(T.nn.Linear(3, 2), (rand(4, 3),), dynamic_shapes=({0: BATCH},))
    x = rand(5, 3)
    for q in (copy.deepcopy(p), pickle.loads(pickle.dumps(p))):
        close(q.module()(x), p.module()(x))
        assert q.range_constraints == p.range_constraints


def test_deepcopy_has_its_own_state():
    f = E.export(Counter(), (rand(2),)).module()
    f(rand(2))
    g = copy.deepcopy(f)
    g(rand(2))
    assert (f.n.item(), g.n.item()) == (1, 2)


def test_modules_of_programs_are_copied_and_pickled_with_all_their_state():
    m = module(lambda self, x: (self.n.add_(1), x * self.w + self.n)[1])
    m.w = T.nn.Parameter(T.ones(2))
    m.register_buffer("n", T.zeros(()), persistent=False)
    f = E.export(m, (T.ones(2),)).module(compile=False)
    f(T.ones(2))
    f.w.requires_grad_(False)
    for g in (copy.deepcopy(f), pickle.loads(pickle.dumps(f)), copy.copy(f)):
        assert g(T.ones(2)).tolist() == [3, 3] and not g.w.requires_grad
    assert f.n.item() == 2  # changed by the shallow copy alone


def test_a_loaded_program_is_part_of_another(tmp_path):
    net = T.nn.Sequential(T.nn.Linear(3, 2), T.nn.BatchNorm1d(2))
    inner = saved(E.export(net, (rand(4, 3),), dynamic_shapes={"input": {0: BATCH}}), tmp_path)
    again = E.export(inner.module(), (rand(4, 3),), dynamic_shapes={"input": {0: BATCH}})
    assert str(again).split("graph forward")[0] == str(inner).split("graph forward")[0]
    assert str(inspect.signature(E.export(lambda x, k=2: x * k, (rand(2),)).module())) == "(x, k=2)"
    odd = E.export(lambda **kw: kw["a b"] * 2, (), {"a b": rand(2)}).module(compile=False)
    assert odd(**{"a b": T.ones(2)}).tolist() == [2, 2] and odd.__signature__ is None
    outer = module(lambda self, x: self.part(x) * 2, part=inner.module())
    program = agree(tmp_path, copy.deepcopy(outer), (rand(4, 3),), ({0: BATCH},), [(rand(4, 3),)])
    assert [n.replace("part.", "") for n in program.state_dict] == list(inner.state_dict)


def test_dtypes_and_special_numbers(tmp_path):
    for dtype in (T.float64, T.float16, T.int32, T.uint8, T.bool):
        x = T.ones(2, 3).to(dtype)
        agree(tmp_path, module(lambda self, x: (x, x.sum(), x == 1, x[0])), (x,), ({0: BATCH},))
    agree(tmp_path, module(lambda self, x: (x.clamp(max=math.inf), x - math.inf, x * 1e-300)), (rand(2).double(),))


def _example(value):
    if isinstance(value, np.ndarray):
        return T.from_numpy(value.copy())
    return type(value)(map(_example, value)) if isinstance(value, (list, tuple)) else value


def _every_axis(value):
    if isinstance(value, T.Tensor):
        return {i: Dim.AUTO for i, n in enumerate(value.shape) if n > 1} or None
    return [_every_axis(v) for v in value] if isinstance(value, (list, tuple)) else None


def _of_tensors(op, args, kwargs, tensors):
    """The operator as a function of its tensors alone."""
    where = [i for i, a in enumerate(args) if any(a is t for t in tensors)]

    def f(*given):
        full = list(args)
        for i, g in zip(where, given, strict=True):
            full[i] = g
        return op(*full, **kwargs)

    return f


@pytest.mark.parametrize("name", sorted(TABLE))
def test_every_operator_exports_with_varying_sizes(name, tmp_path):
    op = TABLE[name]
    if op.samples is None or op.kind == "random":
        pytest.skip("no samples, or random")
    if name.startswith("control."):
        pytest.skip("the graphs of its samples have fixed sizes: tests/control/test_export.py")
    for sample in list(op.samples())[:3]:
        args, kwargs = _example(sample.args), {k: _example(v) for k, v in sample.kwargs.items()}
        tensors = tuple(a for a in args if isinstance(a, T.Tensor) or (isinstance(a, list) and a))
        if not any(isinstance(a, T.Tensor) for a in tensors):
            continue
        f = _of_tensors(op, args, kwargs, tensors)
        p = E.export(f, tensors, dynamic_shapes=[_every_axis(a) for a in tensors])
        got, want = tree_leaves(saved(p, tmp_path).module(compile=False)(*tensors)), tree_leaves(f(*tensors))
        for g, w in zip(got, want, strict=True):
            assert g.dtype is w.dtype
            np.testing.assert_array_equal(array(g), array(w))


def test_functions_and_methods_know_their_modules(tmp_path):
    net, twin = T.nn.BatchNorm1d(3), T.nn.BatchNorm1d(3)
    net.encode = lambda x: net(x) * 2
    for f in (lambda x: net(x) * 2, net.forward):
        net.load_state_dict(twin.state_dict())
        p = E.export(f, (rand(4, 3),))
        assert net.num_batches_tracked.item() == 0 and p.training
        g = saved(p, tmp_path).module()
        x = rand(4, 3)
        close(g(x), f(x))
        state = {k.split(".")[-1]: v for k, v in g.state_dict().items()}
        close(state["running_var"], net.running_var)
        assert state["num_batches_tracked"].item() == 1


def test_the_example_itself_is_no_constant(tmp_path):
    k = rand(2)
    f = saved(E.export(lambda x: x + k, (k,)), tmp_path).module()
    x = rand(2)
    close(f(x), x + k)
    g = saved(E.export(lambda x, y: x - y, (k, k)), tmp_path).module()
    close(g(x, k), x - k)


def test_exported_under_no_grad_still_trains():
    with T.no_grad():
        f = E.export(T.nn.Linear(2, 1), (rand(3, 2),)).module()
    f(rand(3, 2)).sum().backward()
    assert f.weight.grad is not None
    with T.no_grad():
        assert not f(rand(3, 2)).requires_grad


def test_the_default_dtype_travels(tmp_path):
    m = module(lambda self, x: x * T.ones(2) + T.zeros(2) / 3 + x.sum() / 3)
    T.set_default_dtype(T.float64)
    try:
        p = E.export(m, (T.tensor([1, 2]),))
        want = m(T.tensor([3, 4]))
        E.save(p, tmp_path / "p.fgx")
    finally:
        T.set_default_dtype(T.float32)
    for compile in (False, True):
        out = E.load(tmp_path / "p.fgx").module(compile=compile)(T.tensor([3, 4]))
        assert out.dtype is T.float64
        close(out, want)
    assert T.get_default_dtype() is T.float32


def test_nothing_in_and_odd_things_out(tmp_path):
    f = saved(E.export(module(lambda self: (T.ones(2) * 2, None, (), [], {}, "s", 1.5)), ()), tmp_path).module()
    out = f()
    assert out[0].tolist() == [2, 2] and out[1:] == (None, (), [], {}, "s", 1.5)
    g = saved(E.export(module(lambda self, x, y: x * 2), (rand(2), rand(3))), tmp_path).module()
    with pytest.raises(E.InputError, match="y: axis 0 is 4"):
        g(rand(2), rand(4))


def test_results_are_other_tensors_where_they_are_in_eager_code():
    x = rand(2, 3)
    detached, copied = E.export(lambda x: (x.detach(), x.reshape(-1)), (x,)).module(compile=False)(x)
    assert detached is not x and np.shares_memory(detached.numpy(), x.numpy())
    assert np.shares_memory(copied.numpy(), x.numpy())
    other = E.export(lambda x: x.reshape(-1), (x,)).module(compile=False)(
        rand(3, 2).T
    )  # a copy: it is no view of this one
    assert other.shape == (6,)


def test_views_of_arguments_are_views(tmp_path):
    f = saved(E.export(module(lambda self, x: (x.view(-1), x[0])), (rand(2, 3),)), tmp_path).module()
    x = rand(2, 3)
    flat, row = f(x)
    x.zero_()
    assert flat.tolist() == [0] * 6 and row.tolist() == [0] * 3


@pytest.mark.parametrize(
    "forward",
    [
        lambda s, x: x * T.tensor(x.shape[0]),
        lambda s, x: x.sum() * T.tensor([[x.shape[0], 2], [3, x.shape[1]]]),
        lambda s, x: x.sum() * T.tensor([x.shape[0] * 0.5, 1.0]),
        lambda s, x: x.sum() * T.tensor([x.shape[0], 1.5]),
        lambda s, x: x * T.tensor(x.shape[0] / 2),
        lambda s, x: x.sum() * T.full((2,), x.shape[0] / 2),
        lambda s, x: x * T.tensor(x.shape[0], dtype=T.float64),
        lambda s, x: x.sum() * T.as_tensor(x.shape),
        lambda s, x: x.sum() * x.new_tensor([x.shape[0], 1]),
    ],
)
def test_tensors_made_of_sizes(forward, tmp_path):
    """``torch.tensor(x.shape[0])`` is computed at each call, with eager's dtype."""
    m = module(forward)
    f = saved(E.export(m, (T.randn(4, 3),), dynamic_shapes=({0: BATCH},)), tmp_path).module()
    for n in (2, 4, 7, 64):
        x = T.randn(n, 3)
        assert f(x).dtype is m(x).dtype
        close(f(x), m(x))


class _Keeper(T.nn.Module):
    """Changes one of the things that it holds or is given."""

    def __init__(self, what):
        super().__init__()
        self.what, self.items, self.cache = what, [1, [2]], {"k": T.ones(1)}
        self.unused, self.sets = None, ({1},)
        self.own = _Counter()

    def forward(self, x, d, seq):
        changes = {
            "self.items": lambda: self.items.__setitem__(0, 5),
            "self.items[1]": lambda: self.items[1].append(3),
            "self.cache": lambda: self.cache.__setitem__("k", x),
            "self.own": lambda: setattr(self.own, "n", 1),
            "self.own.seen": lambda: self.own.seen.update(b=2),
            "self.sets[0]": lambda: self.sets[0].add(9),
            "argument d": lambda: d.__setitem__("new", x),
            "argument d['a']": lambda: d["a"].clear(),
            "argument seq": lambda: seq.__setitem__(0, x),
        }
        if self.what in changes:
            changes[self.what]()
        return x + 1


class _Counter:
    def __init__(self):
        self.n, self.seen = 0, {"a": 1}


@pytest.mark.parametrize(
    "what",
    ["self.items", "self.items[1]", "self.cache", "self.own", "self.own.seen", "self.sets[0]"]
    + ["argument d", "argument d['a']", "argument seq"],
)
def test_changed_containers_are_refused_and_put_back(what):
    m, x = _Keeper(what), T.ones(2)
    d, seq = {"a": [x]}, [x, x]
    with pytest.raises(E.ExportError, match=re.escape(what + " is changed by forward")):
        E.export(m, (x, d, seq))
    assert m.items == [1, [2]] and m.cache["k"].shape == (1,) and vars(m.own) == {"n": 0, "seen": {"a": 1}}
    assert m.sets == ({1},) and list(d) == ["a"] and len(d["a"]) == 1 and seq[0] is x


def test_unchanged_containers_are_no_hindrance():
    m, x = _Keeper("nothing"), T.ones(2)
    f = E.export(m, (x, {"a": [x]}, [x])).module()
    assert f(x, {"a": [x]}, [x]).tolist() == [2.0, 2.0]
