"""Numbers that decide what is computed: from the third value on the call that needs them breaks the graph."""

import inspect

import numpy as np
import pytest
from helpers import run

import fusegrad as T

F = T.nn.functional
X = T.tensor([[-2.0, -0.5, -0.25, 0.0], [0.25, 0.3, 0.5, 1.0], [2.0, -1.0, 0.2, -0.2]])
INTS = (5, 6, 7, 9, 12, 4, 11, 8, 15, 16)
FLOATS = (0.3, 0.25, 0.5, 0.2, 0.1, 0.35, 0.45, 0.15, 0.55, 0.6)


def _until(x, n):
    for k in range(n):
        if x.sum() > 40:
            return x * k
        x = x + 1
    return x


def _values(x, n):
    return [(x[0, 0] + k).item() for k in range(n)]


def _printed(x, n):
    for k in range(1, n):
        x = x * k
        print(end="")
    return x


def _helper(n):
    return T.triu_indices(n, n)


def _two_ranges(x, n):
    for i in range(n):
        for k in range(i):
            x = x + k
    return x


WHOLE = {
    "range with a break": _until,
    "range with values": _values,
    "range with calls": _printed,
    "range": lambda x, n: sum((x * k for k in range(n)), x),
    "range in range": _two_ranges,
    "list of parts": lambda x, n: T.stack([x * k for k in range(n)]),
    "interpolate": lambda x, n: F.interpolate(x[None, None] * 1.03, size=(n, n), mode="bilinear"),
    "interpolate by a factor": lambda x, n: F.interpolate(T.ones(1, 1, n, n), scale_factor=2, mode="nearest"),
    "interpolate an input": lambda x, n: F.interpolate(x, scale_factor=2),
    "padded to four": lambda x, n: F.pad(T.ones(n, 3), (0, 0, 0, -n % 4)),
    "triu_indices": lambda x, n: T.triu_indices(n, n),
    "in a function": lambda x, n: x[:2, :1] + _helper(n),
    "topk": lambda x, n: T.arange(float(n + 3)).topk(n),
    "max_pool": lambda x, n: F.max_pool1d(T.arange(float(n)).reshape(1, 1, n), 2),
    "np.arange": lambda x, n: x.sum() + T.tensor(np.arange(n)).sum(),
    "np.sqrt": lambda x, n: x / np.sqrt(n),
    "tensor": lambda x, n: x * T.tensor(n),
    "full_like": lambda x, n: T.full_like(x, n / 2),
}
REAL = {
    "arange": lambda x, v: T.arange(0, 10 * v, 1),
    "arange of steps": lambda x, v: T.arange(0, 1, v),
    "norm": lambda x, v: T.norm(x, p=v + 1),
    "vector_norm": lambda x, v: T.linalg.vector_norm(x, v + 1, dim=1),
    "cdist": lambda x, v: T.cdist(x, x + 1, p=v + 1),
    "dist": lambda x, v: T.dist(x, x * 2, v + 1),
    "lp_pool": lambda x, v: F.lp_pool1d(x[None].abs(), v + 1, 2),
    "histc": lambda x, v: T.histc(x, 5, 0, v),
    "correction": lambda x, v: x.std(correction=v),
    "scale_factor": lambda x, v: F.interpolate(x[None, None], scale_factor=1 + 2 * v),
    "list": lambda x, v: T.tensor([v, v]) * x[:, :2],
}


def _compiles(f, values, **how):
    """What ``stats()`` says after calls with all the values, twice; results are those of the plain function."""
    T.compiler.reset()
    c = T.compile(f, **how)
    for v in (*values, *reversed(values)):
        x = T.ones(1, 2, v) if f is WHOLE["interpolate an input"] else X
        assert run(c, (x, v)) == run(f, (x, v)), v
    return T.compiler.stats()


@pytest.mark.parametrize("name", [*WHOLE, *REAL])
def test_compiles_do_not_grow_with_the_values(name):
    f, values = (WHOLE[name], INTS) if name in WHOLE else (REAL[name], FLOATS)
    few, many = (_compiles(f, values[:n])["compiles"] for n in (7, len(values)))
    assert many == few, T.compiler.stats()["recompile_reasons"]
    assert not any("FG015" in r for r in T.compiler.stats()["break_reasons"])


@pytest.mark.parametrize("name", ["np.sqrt", "tensor", "full_like"])
def test_numbers_that_decide_nothing_take_two_compiles(name):
    s = _compiles(WHOLE[name], INTS)
    assert s["compiles"] == 2 and not s["graph_breaks"], s["recompile_reasons"]


def test_the_break_says_what_needs_the_number():
    s = _compiles(WHOLE["triu_indices"], INTS)
    assert any("FG021" in r and "another number at each call" in r for r in s["break_reasons"]), s["break_reasons"]


def test_two_values_keep_their_own_code():
    s = _compiles(WHOLE["triu_indices"], (5, 6))
    assert s["compiles"] == 2 and not s["graph_breaks"]


def test_one_graph_stays_one_graph():
    """With fullgraph a number is fixed for as many values as there may be versions."""
    s = _compiles(WHOLE["triu_indices"], INTS[:5], fullgraph=True)
    assert s["compiles"] == 5 and not s["graph_breaks"]


def test_static_numbers_are_compiled_one_by_one():
    s = _compiles(WHOLE["triu_indices"], INTS[:5], dynamic=False)
    assert s["compiles"] == 5 and not s["graph_breaks"]


def test_few_remainders_are_compiled_one_by_one():
    s = _compiles(lambda x, n: T.ones(8, 4).split(1 + n % 2), INTS)
    assert s["compiles"] <= 3 and not s["graph_breaks"], s["recompile_reasons"]


REFUSED = {
    "exp": lambda x, v: T.exp(v),
    "maximum": lambda x, v: T.maximum(x, v),
    "maximum method": lambda x, v: x.maximum(v),
    "lerp": lambda x, v: T.lerp(x, v, 0.5),
    "equal": lambda x, v: T.equal(x, v),
    "numel": lambda x, v: T.numel(v),
    "hypot": lambda x, v: T.hypot(other=v, input=x),
    "kl_div": lambda x, v: F.kl_div(x, v),
    "stack": lambda x, v: T.stack([x[0, 0], v]),
    "relu": lambda x, v: F.relu(v),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("values", [FLOATS[:3], INTS[:3]], ids=["floats", "ints"])
def test_a_number_is_no_tensor(name, values):
    """A number in the place of a tensor is refused on every call: also once it is an input of the graph."""
    f = REFUSED[name]
    c = T.compile(f)
    for v in values:
        want = run(f, (X, v))
        assert want[:2] == ("raised", "TypeError") and run(c, (X, v)) == want


@pytest.mark.parametrize("power", [lambda x, a: x**a, T.pow, T.float_power, lambda x, a: (x * 1).pow_(a)])
def test_powers_of_minus_infinity(power):
    """Eager code takes roots: NaN for -inf, -0.0 for -0.0."""
    x = T.tensor([-float("inf"), 2.0, -0.0, 0.0])
    c = T.compile(power)
    for a in (0.3, 0.5, 0.7, 0.5, 2.0, -0.5, 0.25):
        want, got = power(x, a), c(x, a)
        assert np.array_equal(want.numpy(), got.numpy(), equal_nan=True) or a not in (0.5, -0.5)
        assert T.allclose(want, got, equal_nan=True)
        assert np.array_equal(np.signbit(want.numpy())[2:], np.signbit(got.numpy())[2:])


def test_numbers_of_numpy_keep_their_type():
    def f(x, n):
        r = np.sqrt(n)
        return x * r, type(r).__name__, isinstance(r, np.floating), r

    c = T.compile(f)
    for n in (2, 3, 5.0, 0.5, 7):
        want, got = f(X, n), c(X, n)
        assert want[1:] == got[1:] and type(got[3]) is np.float64 and T.allclose(want[0], got[0])


def test_ranges_can_be_used_as_ranges():
    """The range of a call that was made for real: length, items, membership, another loop over it."""

    def f(x, n):
        r = range(n)
        total = 0
        for k in r:
            total += k
        return x * total, len(r), r[-1], 3 in r, list(r), r

    s = _compiles(f, INTS)
    assert not any("FG014" in r for r in s["break_reasons"]), s["break_reasons"]


def test_signatures_are_known_to_capture():
    """What tells tensors from numbers is read from the public functions."""
    from fusegrad.compiler.capture.numbers import _tensors_alone

    assert "other" in _tensors_alone(T.maximum) and 1 in _tensors_alone(T.maximum)
    assert "end" in _tensors_alone(T.lerp) and "weight" not in _tensors_alone(T.lerp)
    assert inspect.isfunction(T.equal) and {"input", "other"} <= set(_tensors_alone(T.equal))
