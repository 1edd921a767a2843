"""More kinds of faults that the fuzzer found (see test_fuzz_faults.py for the first)."""

import enum
import itertools

import pytest

import fusegrad as T
import fusegrad.nn.functional as F


@pytest.mark.parametrize("options", [{}, {"interpret": True}])
def test_a_hook_is_called_though_another_result_was_differentiated_inside(options):
    weight = T.ones(3, requires_grad=True)

    def f(x, log, kept):
        w = x * 2
        w.register_hook(lambda g: log.append(g.sum().item()))
        done = (weight * x.detach()).pow(2).mean()
        done.backward()
        kept.append(done)
        return w

    for g in (f, T.compile(f, options=options)):
        x, log = T.ones(3, requires_grad=True), []
        g(x, log, []).sum().backward()
        assert log == [3.0]


def test_the_offset_in_the_storage_is_the_real_one():
    def f(x):
        y = x * 1
        return x.storage_offset(), y.storage_offset(), y[1:].storage_offset()

    base = T.arange(6.0)
    for x in (base, base[2:], base[4:]):
        assert T.compile(f)(x) == f(x) == (6 - len(x), 0, 1)


IN_PLACE = {
    "all": lambda w: w.mul_(2),
    "first row": lambda w: w.__setitem__(0, 0.5),
    "last dimension": lambda w: w.__setitem__((..., 0), 0.5),
    "transposed": lambda w: w.t().mul_(2),
    "column": lambda w: w[:, 0].mul_(2),
    "mask": lambda w: w.masked_fill_(w > 0.5, 1.0),
}
MADE = {
    "exp": lambda z: z.exp(),
    "clone": lambda z: z.clone(),
    "softmax": lambda z: F.softmax(z, -1),
    "layer norm": lambda z: F.layer_norm(z, z.shape[1:]),
    "where": lambda z: z.where(z > 0.5, z * 0.5),
}


@pytest.mark.parametrize("options", [{}, {"interpret": True}])
@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("change", IN_PLACE)
def test_a_result_changed_in_place_keeps_the_layout_of_eager_for_all_sizes(made, change, options):
    def f(z):
        w = MADE[made](z)
        IN_PLACE[change](w)
        return w

    compiled = T.compile(f, options=options)
    for n in (3, 4, 5):
        z = T.linspace(0, 1, 2 * n).reshape(2, n).t()
        plain, got = f(z), compiled(z)
        assert plain.stride() == got.stride()
        assert T.allclose(plain, got)


@pytest.mark.parametrize("options", [{}, {"interpret": True}])
@pytest.mark.parametrize("change", IN_PLACE)
def test_what_is_computed_from_a_changed_tensor_is_laid_out_as_in_eager(change, options):
    def f(z, w):
        IN_PLACE[change](w)
        IN_PLACE[change](z)
        return z, z * 2, w.exp(), z.where(z > 0.5, z * 0.5)

    compiled = T.compile(f, options=options)
    for n in (3, 4, 5):
        results = []
        for g in (f, compiled):
            z = T.linspace(0, 1, 2 * n).reshape(2, n).t()
            results.append(g(z, z.clone()))
        for plain, got in zip(*results, strict=True):
            assert plain.stride() == got.stride()
            assert T.allclose(plain, got)


def test_a_view_by_strides_stays_inside_of_memory_made_inside():
    def f(x, log):
        log.append(1)
        w = (x * 2).as_strided((2,), (2,))
        log.append(2)
        return w

    for n in (3, 2, 4):
        outcomes = []
        for g in (f, T.compile(f)):
            log: list = []
            try:
                outcomes.append((g(T.arange(float(n)), log).tolist(), log))
            except RuntimeError as e:
                assert "out of bounds" in str(e)
                outcomes.append(("refused", log))
        assert outcomes[0] == outcomes[1]
        assert (outcomes[0][0] == "refused") == (n < 3)


class Offset(T.autograd.Function):
    """A derivative that is not linear in the cotangent."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 2 + x * 0.1


@pytest.mark.parametrize("options", [{}, {"interpret": True}])
def test_a_function_whose_result_gets_no_gradient_is_not_differentiated(options):
    def f(x):
        return x * x, Offset.apply(x)

    for g in (f, T.compile(f, options=options)):
        leaf = T.tensor([1.0, 3.0], requires_grad=True)
        g(leaf * 1)[0].sum().backward()
        assert leaf.grad.tolist() == [2.0, 6.0]


NUMBERS = {
    "ones": lambda n: T.ones(n) * 2,
    "arange": lambda n: T.arange(3, n, 2) + 1,
    "arange down": lambda n: T.arange(n, 0, -1),
    "narrow": lambda n: T.ones(6).narrow(0, 0, n),
    "randperm": lambda n: T.randperm(n).sum(),
    "linspace": lambda n: T.linspace(0, 1, n),
    "eye": lambda n: T.eye(n),
    "split": lambda n: T.ones(6).split(n)[0],
    "full": lambda n: T.full((n, 2), 3.0),
    "slice": lambda n: T.ones(6)[n:],
}


@pytest.mark.parametrize("dynamic", [True, None])
@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_that_changes_sign_is_checked_on_every_call(name, dynamic):
    f = NUMBERS[name]
    compiled = T.compile(f, dynamic=dynamic)

    def outcome(g, n):
        T.manual_seed(0)
        try:
            return g(n).tolist()
        except (RuntimeError, ValueError, IndexError) as e:
            return type(e), str(e)

    for n in (5, 4, 6, -1, 3, -2, 0, 2):
        assert outcome(compiled, n) == outcome(f, n)


def test_counting_from_a_member_of_an_enumeration():
    class Level(enum.IntEnum):
        HIGH = 3

    def f(x, start, step):
        return x + 1, list(itertools.islice(itertools.count(start, step), 2))

    for start, step in ((Level.HIGH, 1), (Level.HIGH, 2), (True, 1), (2, Level.HIGH), (1.5, 1)):
        plain, got = f(T.ones(1), start, step)[1], T.compile(f)(T.ones(1), start, step)[1]
        assert [(type(v), v) for v in plain] == [(type(v), v) for v in got]


def test_a_view_by_strides_of_nothing_reads_no_memory():
    for dtype in (T.float32, T.float64, T.int8):
        x = T.ones(0, dtype=dtype)
        with pytest.raises(RuntimeError, match="out of bounds"):
            x.as_strided((1,), (1,))
        assert x.as_strided((0,), (1,)).shape == (0,)
        assert T.ones(4, dtype=dtype)[1:].as_strided((3,), (1,)).tolist() == [1, 1, 1]
        with pytest.raises(RuntimeError, match="out of bounds"):
            T.ones(4, dtype=dtype)[1:].as_strided((4,), (1,))


def test_rows_of_a_leaf_that_stopped_asking_for_gradients():
    def f(x):
        x.requires_grad = False
        return [*x, x[0], x.t()]

    for g in (f, T.compile(f)):
        assert [t.requires_grad for t in g(T.ones(2, 2, requires_grad=True))] == [False] * 4


@pytest.mark.parametrize("dynamic", [None, True])
def test_whether_empty_tensors_lie_in_order(dynamic):
    def f(z):
        return z.t().is_contiguous(), (z.t() * 2).is_contiguous(), z.t()[1:].is_contiguous()

    c = T.compile(f, dynamic=dynamic)
    for n in (2, 4, 0, 5, 1, 0, 3):
        z = T.ones(n, 3)
        assert c(z) == f(z)


LAYOUTS = {
    "dense": lambda n: T.ones(n, 3),
    "transposed": lambda n: T.ones(3, n).t(),
    "strided": lambda n: T.ones(n, 6)[:, ::2],
    "expanded": lambda n: T.ones(n).unsqueeze(1).expand(-1, 3),
}


@pytest.mark.parametrize("options", [{}, {"interpret": True}])
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("use", [lambda g: g * 2, lambda g: g.exp(), lambda g: g.mean()])
def test_gradients_of_leaves_made_inside_are_laid_out_as_the_leaf(options, dynamic, use):
    def f(z):
        turned = z.detach().clone().t().requires_grad_()
        kept = z.detach().t().clone().requires_grad_()
        deep = z.detach().unsqueeze(0).clone().permute(2, 0, 1).requires_grad_()
        for leaf in (turned, kept, deep):
            use(leaf).sum().backward()
        return turned.grad, kept.grad, deep.grad

    c = T.compile(f, options=options, dynamic=dynamic)
    for n in (2, 4, 5, 4):
        for make in LAYOUTS.values():
            for got, want in zip(c(make(n)), f(make(n)), strict=True):
                steps = [[s for s, k in zip(g.stride(), g.shape, strict=True) if k > 1] for g in (got, want)]
                assert steps[0] == steps[1] and T.allclose(got, want)


TIES = {
    "relu": F.relu,
    "relu_": lambda x: x.clone().relu_(),
    "maximum": lambda x: T.maximum(x, -x),
    "minimum": lambda x: T.minimum(x, -x),
    "with a number": lambda x: T.maximum(T.tensor(-0.0), x) + T.minimum(x, T.tensor(0.0)),
    "clamp": lambda x: T.stack([x.clamp(min=0.0), x.clamp(max=0.0), x.clamp(-0.0, 1.0)]),
    "hardtanh": lambda x: F.hardtanh(x, -0.0, 0.0),
    "relu6": F.relu6,
}


@pytest.mark.parametrize("dtype", [T.float32, T.float64])
@pytest.mark.parametrize("name", TIES)
def test_which_zero_wins(name, dtype):
    f = TIES[name]
    for n in (1, 3, 17, 200):
        for x in (T.zeros(n, dtype=dtype), -T.zeros(n, dtype=dtype), -T.zeros(2 * n, dtype=dtype)[::2]):
            want = T.signbit(f(x))
            for options in ({}, {"interpret": True}):
                assert T.equal(T.signbit(T.compile(f, options=options)(x)), want)
    assert T.signbit(F.relu(T.tensor(-0.0, dtype=dtype)))


@pytest.mark.parametrize("options", [{}, {"interpret": True}])
@pytest.mark.parametrize("dynamic", [None, True])
def test_normalised_results_lie_in_c_order(options, dynamic):
    norm, layer, group, instance = T.nn.BatchNorm1d(3), T.nn.LayerNorm(3), T.nn.GroupNorm(1, 3), T.nn.InstanceNorm1d(3)
    cases = {
        "flat": (lambda n: T.rand(3, n).t(), lambda z: (norm(z), layer(z), group(z), group(z)[None])),
        "rows": (lambda n: T.rand(2, n, 3).transpose(1, 2), lambda z: (norm(z), group(z), instance(z), z.softmax(1))),
    }
    for make, f in cases.values():
        c = T.compile(f, options=options, dynamic=dynamic)
        for n in (2, 4, 5, 4):
            assert [r.is_contiguous() for r in c(make(n))] == [r.is_contiguous() for r in f(make(n))]


GAPS = {
    "columns": lambda n: T.arange(4.0 * n).view(n, 4)[:, :2],
    "rows": lambda n: T.arange(8.0 * n).view(2 * n, 4)[::2],
    "turned": lambda n: T.arange(4.0 * n).view(n, 4).t()[:3],
    "steps": lambda n: T.arange(2.0 * n)[::2],
}
SEEN = {
    "strides": lambda x: [
        v.stride() for v in (x, x[1:], x[..., 1:], x.unsqueeze(0), x.reshape(1, -1), x + 1, x[1:] * 2)
    ],
    "contiguous": lambda x: (x[..., 1:].is_contiguous(), x[1:].contiguous().zero_(), x),
    "reshape": lambda x: (x.reshape(-1).mul_(10), x),
    "view": lambda x: (x.view(1, *x.shape), x.view(-1)),
}


@pytest.mark.parametrize("made", GAPS)
@pytest.mark.parametrize("seen", SEEN)
def test_a_tensor_with_gaps_keeps_them_when_it_is_changed(made, seen):
    def f(x):
        x.add_(1)
        x[..., 0] = 7
        return SEEN[seen](x)

    compiled = T.compile(f, options={"interpret": True})
    for n in (3, 5, 4):
        outcomes = []
        for g in (f, compiled):
            x = GAPS[made](n)
            try:
                outcomes.append((str(g(x)), x.tolist()))
            except RuntimeError as e:
                outcomes.append((str(e), x.tolist()))
        assert outcomes[0] == outcomes[1]
