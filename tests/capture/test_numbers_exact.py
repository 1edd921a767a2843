"""Numbers that change between calls have Python's precision and range in compiled code, whatever they meet."""

import enum
import operator

import numpy as np
import pytest
from helpers import check, run

import fusegrad as T
import fusegrad.nn.functional as F

OPTIONS = pytest.mark.parametrize("options", [{}, {"interpret": True}], ids=["kernels", "interpreted"])


def doubles():
    return T.tensor([0.3, 1.7, 2.2], dtype=T.float64).requires_grad_()


ALONE = {
    "x ** a": lambda x, a: x**a,
    "a ** x": lambda x, a: a**x,
    "power of a power": lambda x, a: (x**a) ** a,
    "lerp": lambda x, a: T.lerp(x, x * 2, a),
    "elu": lambda x, a: F.elu(-x, a),
    "celu": lambda x, a: F.celu(-x, a),
    "softplus": lambda x, a: F.softplus(x, a),
    "huber": lambda x, a: F.huber_loss(x, x * 2, delta=a),
    "where": lambda x, a: T.where(x > 1, a, 0.0) * x,
    "a / size": lambda x, a: x * (a / x.shape[0]),
    "normal": lambda x, a: T.distributions.Normal(x, a).log_prob(x * 2),
    "fill": lambda x, a: T.empty(3, dtype=T.float64).fill_(a) * x,
    "item": lambda x, a: T.zeros(3, dtype=T.float64).index_fill(0, T.tensor([1]), a) * x,
    "addcmul": lambda x, a: T.addcmul(x, x, x, value=a),
}


@OPTIONS
@pytest.mark.parametrize("name", ALONE)
def test_arithmetic_of_floats_alone_is_in_double_precision(name, options):
    f = ALONE[name]
    c = T.compile(f, options=options)
    for a in (0.1, 1.3, 2.7, 0.7):
        found = []
        for g in (f, c):
            x = doubles()
            y = g(x, a)
            y.sum().backward()
            found.append((y.dtype, y.detach().numpy(), x.grad.numpy()))
        (d, y, g), (d2, y2, g2) = found
        assert d is d2
        np.testing.assert_allclose(y2, y, rtol=1e-14, atol=1e-14)
        np.testing.assert_allclose(g2, g, rtol=1e-14, atol=1e-14)


MADE = {
    "tensor": lambda a: T.tensor(a),
    "as_tensor": lambda a: T.as_tensor(a),
    "scalar_tensor": lambda a: T.scalar_tensor(a),
    "full": lambda a: T.full((2,), a),
    "tensor, double": lambda a: T.tensor(a, dtype=T.float64),
    "full, double": lambda a: T.full((2,), a, dtype=T.float64),
    "tensor, half": lambda a: T.tensor(a, dtype=T.float16),
    "tensor, integer": lambda a: T.tensor(a, dtype=T.int64),
    "list": lambda a: T.tensor([a, 1]),
}


@OPTIONS
@pytest.mark.parametrize("name", MADE)
def test_a_tensor_of_a_float_rounds_it_and_has_its_own_type(name, options):
    made = MADE[name]

    def f(x, y, a):
        t = made(a)
        return t * x, t * y, t

    c = T.compile(f, options=options)
    for a in (0.1, 1.3, 2.7, -0.4, 7.0, 1e39):
        x, y = T.ones(2, dtype=T.float64), T.tensor(3.0)
        want, got = run(f, (x, y, a)), run(c, (x, y, a))
        assert repr(want) == repr(got)
        if want[0] != "raised":
            assert all((p == q).all() and p.dtype is q.dtype for p, q in zip(f(x, y, a), c(x, y, a), strict=True))


def test_a_tensor_of_a_float_that_requires_a_gradient():
    def f(x, a):
        t = T.tensor(a, requires_grad=True)
        (t * x).sum().backward()
        return t.grad, t

    check(f, *((T.arange(3.0), a) for a in (0.1, 0.2, 0.3)))


BIG = (
    1,
    2,
    3,
    2**31,
    2**53 + 1,
    -(2**53) - 1,
    2**62 + 1,
    2**63 - 1,
    2**63,
    2**64 - 1,
    2**64,
    -(2**63),
    -(2**63) - 1,
    300,
)
KINDS = (1, 2, 3, 1.0, 2.5, True, 0.5, False, 7, -1, 2.0, 0, None, float("inf"), float("nan"))
CALLS = {
    "clamp": lambda x, a: x.clamp(a, a),
    "clamp_": lambda x, a: x.clone().clamp_(max=a),
    "add": lambda x, a: x + a,
    "rsub": lambda x, a: a - x,
    "mul": lambda x, a: x * a,
    "floordiv": lambda x, a: x // a,
    "eq": lambda x, a: x == a,
    "power": lambda x, a: x**a if x.dtype is T.int16 else x,
    "fill": lambda x, a: x.clone().fill_(a),
    "full_like": lambda x, a: T.full_like(x, a),
    "where": lambda x, a: T.where(x > 0, x, a),
    "masked_fill": lambda x, a: x.masked_fill(x > 0, a),
    "setitem": lambda x, a: (x.__setitem__(0, a), x)[1],
    "pad": lambda x, a: F.pad(x, (1, 1), value=a),
    "scatter": lambda x, a: x.scatter(0, T.tensor([1]), a),
    "tensor": lambda x, a: T.tensor(a),
    "kind": lambda x, a: x * (2 if isinstance(a, bool) else 3 if isinstance(a, int) else 4),
}


@OPTIONS
@pytest.mark.parametrize("dtype", ["int64", "int16", "uint8", "float64", "bool"])
def test_integers_of_any_size_and_numbers_of_other_kinds(dtype, options):
    x = T.tensor([0, 5, 7]).to(getattr(T, dtype))
    for name, f in CALLS.items():
        for values in (BIG[:7], BIG[:2] + BIG[7:], KINDS[:7], KINDS[7:]):
            T.compiler.reset()
            c = T.compile(f, options=options)
            for a in values:
                with np.errstate(all="ignore"):
                    assert repr(run(c, (x, a))) == repr(run(f, (x, a))), (name, a)


def test_bounds_beyond_64_bits_are_refused():
    x = T.tensor([0, 5])
    for f in (lambda x: x.clamp(max=2**63), lambda x: T.clamp(x, -1, 2**64 - 1), lambda x: x.clamp_(-1, 2**63)):
        for g in (f, T.compile(f)):
            with pytest.raises(RuntimeError, match="cannot be converted to type int64_t without overflow"):
                g(x.clone())


def test_the_square_of_integers_by_a_float_is_a_float():
    for f in (lambda x: x**2.0, lambda x, a=2.0: T.pow(x, a)):
        assert f(T.tensor([3, 4])).dtype is T.float32 and T.compile(f)(T.tensor([3, 4])).tolist() == [9.0, 16.0]


def with_dimension(f):
    return lambda n: f(T.arange(1.0, 4.0), n)


SIZES = {
    "repeat": lambda x, n: x.repeat(n),
    "repeat_interleave": lambda x, n: x.repeat_interleave(n),
    "slice step": lambda x, n: x[::n],
    "expand": lambda x, n: x[:1].expand(n),
    "expand, leading": lambda x, n: x.expand(n, -1),
    "reshape": lambda x, n: x.reshape(n, -1),
    "view": lambda x, n: x.view(3, n),
    "split": lambda x, n: x.split([n, 3 - n]),
    "unfold": lambda x, n: x.unfold(0, n, 1),
    "unfold step": lambda x, n: x.unfold(0, 1, n),
    "max_pool1d": lambda x, n: F.max_pool1d(x[None], n),
    "avg_pool1d": lambda x, n: F.avg_pool1d(x[None], n),
    "conv1d stride": lambda x, n: F.conv1d(x[None], T.ones(1, 1, 2), stride=n),
    "conv1d padding": lambda x, n: F.conv1d(x[None], T.ones(1, 1, 2), padding=n),
    "pad": lambda x, n: F.pad(x, (n, 0)),
    "pad value": lambda x, n: F.pad(x, (1, 1), value=n),
    "var": lambda x, n: x.var(correction=n),
}


@OPTIONS
@pytest.mark.parametrize("name", SIZES)
def test_sizes_that_change_sign_are_refused_as_in_eager_code(name, options):
    check(
        with_dimension(SIZES[name]), *((n,) for n in (1, 2, 3, 0, 5, -1, -2, 4)), repeat=1, plain=None, options=options
    )


SHORT = {
    "conv1d": lambda x: F.conv1d(x, T.ones(1, 1, 3)),
    "max_pool1d": lambda x: F.max_pool1d(x, 3),
    "scatter": lambda x: x.scatter(2, T.tensor([[[2]]]), 1.0),
    "gather": lambda x: x.gather(2, T.tensor([[[2]]])),
    "unfold": lambda x: x.unfold(2, 3, 1),
    "amax": lambda x: x.amax(2),
    "reflect": lambda x: F.pad(x, (2, 2), mode="reflect"),
}


@OPTIONS
@pytest.mark.parametrize("name", SHORT)
def test_inputs_that_become_too_short(name, options):
    check(SHORT[name], *((T.ones(1, 1, m),) for m in (4, 5, 6, 3, 2, 1, 0)), repeat=1, plain=None, options=options)


NUMPYS = {
    "float": lambda x, a: float(np.sum(x.numpy()) * a),
    "round": lambda x, a: (round(a, 1), round(a)),
    "divmod": lambda x, a: divmod(a, 1),
    "operator": lambda x, a: (operator.neg(a), abs(a), -a),
    "comparison": lambda x, a: (a == 0.5, [a < 1][0], x * (a > 0.6)),
    "tensor": lambda x, a: T.tensor(a),
    "asarray": lambda x, a: (T.as_tensor(a), T.asarray(a), T.tensor(a, dtype=T.float32), T.full((2,), a)),
    "new_tensor": lambda x, a: x.new_tensor(a),
    "text": lambda x, a: (str([a]), f"{a}", repr(a)),
    "key": lambda x, a: {a: 1},
}


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", NUMPYS)
def test_floats_of_numpy_that_change_stay_of_their_type(name, dynamic):
    f = NUMPYS[name]
    g = T.compile(f, dynamic=dynamic, options={"interpret": True})
    for v in (0.5, 0.75, 2.25):
        for kind in (np.float64, float):
            want, got = (h(T.ones(2), kind(v)) for h in (f, g))
            assert repr(got) == repr(want) and str(type(got)) == str(type(want))


class Level(enum.IntEnum):
    LOW = 1


class Share(float, enum.Enum):
    HALF = 0.5


BESIDE = [
    Level.LOW,
    Share.HALF,
    np.float64(0.5),
    np.float32(0.5),
    np.float16(0.5),
    np.int32(3),
    np.bool_(True),
    0.5,
    True,
    T.tensor(2),
]


@pytest.mark.parametrize("other", BESIDE, ids=lambda v: getattr(v, "dtype", type(v).__name__))
@pytest.mark.parametrize("make", [T.tensor, T.as_tensor, T.ones(1).new_tensor], ids=["tensor", "as", "new"])
def test_a_number_that_changes_beside_others_in_a_list(make, other):
    """The dtype of a tensor of several numbers is what they have in common, whichever of them change."""
    f = lambda k: (make([k, other]), make([[other, 1], [k, 2]]))
    c = T.compile(f)
    for k in (2, 3, 4):
        for a, b in zip(f(k), c(k), strict=True):
            assert a.dtype is b.dtype and a.tolist() == b.tolist()
