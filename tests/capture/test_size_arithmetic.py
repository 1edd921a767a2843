"""Floats made of sizes, and whole numbers made of those: right at every size, without a compilation for each."""

import math

import pytest

import fusegrad as T

SIZES = (6, 4, 9, 12, 7, 25, 14, 33, 8)

TWO = {
    "sqrt": lambda x: x / math.sqrt(x.shape[0]),
    "float": lambda x: x * float(x.shape[0]),
    "log": lambda x: x.sum() * math.log(x.shape[0]),
    "exp": lambda x: x * math.exp(-x.shape[0] / 10),
    "half, up": lambda x: x[: math.ceil(x.shape[0] / 2)],
    "half, down": lambda x: x[: math.floor(x.shape[0] / 2)],
    "half, cut": lambda x: x[: int(x.shape[0] * 0.5)],
    "half, rounded": lambda x: x[: round(x.shape[0] / 2)],
    "truncated": lambda x: T.zeros(math.trunc(x.shape[0] * 1.5)),
    "root": lambda x: x[: int(math.sqrt(x.shape[0]))],
    "both ends": lambda x: x[int(x.shape[0] * 0.2) : int(x.shape[0] * 0.8)],
    "returned": lambda x: (x, math.ceil(x.shape[0] / 3), math.sqrt(x.shape[0]), float(x.shape[0])),
    "filled": lambda x: x.masked_fill(x > 2, float(x.shape[0])),
}


def same(a, b):
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, T.Tensor):
        return a.shape == b.shape and a.dtype == b.dtype and bool(T.allclose(a, b))
    return type(a) is type(b) and a == b


@pytest.mark.parametrize("name", TWO)
def test_two_compilations(name):
    f = TWO[name]
    T.compiler.reset()
    c = T.compile(f)
    for n in SIZES:
        x = T.arange(float(n)) + 1
        assert same(c(x), f(x)), n
    s = T.compiler.stats()
    assert s["compiles"] <= 2 and s["graph_breaks"] == 0 and s["plain_frames"] == 0, s["recompile_reasons"]


ODD = {
    "root of less": lambda x: math.sqrt(x.shape[0] - 5),
    "log of less": lambda x: math.log(x.shape[0] - 5),
    "over": lambda x: int(1.0 / (x.shape[0] - 7)),
    "infinite": lambda x: int(x.shape[0] * math.inf),
    "not a number": lambda x: round(x.shape[0] * math.nan),
    "digits": lambda x: (round(x.shape[0] / 3, 1), round(x.shape[0], -1), round(x.shape[0] / 2)),
    "in a condition": lambda x: "many" if int(x.shape[0] * 0.3) > 3 else "few",
    "counted": lambda x: [k for k in range(math.ceil(x.shape[0] / 4))],
    "text": lambda x: f"{math.ceil(x.shape[0] / 2)} {math.sqrt(x.shape[0]):.3f} {float(x.shape[0])}",
    "key": lambda x: {int(x.shape[0] / 2): 1},
}


@pytest.mark.parametrize("name", ODD)
def test_errors_and_values_that_decide(name):
    f = ODD[name]
    c = T.compile(lambda x: (x + 1, f(x)), options={"limit": 100})
    for n in (6, 4, 9, 7, 5, 1, 25, 0, 6):
        x = T.ones(n)
        want = result(lambda x=x: (x + 1, f(x)))
        assert result(lambda x=x: c(x)) == want


def result(call):
    try:
        y, v = call()
        return y.tolist(), type(v), v
    except Exception as e:
        return type(e), str(e)


def test_a_changing_float_cut_to_a_size():
    def f(x, ratio):
        return x[: int(x.shape[0] * ratio)], round(ratio * 10)

    T.compiler.reset()
    c = T.compile(f)
    for n, ratio in ((10, 0.5), (10, 0.25), (20, 0.75), (12, 0.9), (30, 0.1), (8, 0.6)):
        x = T.arange(float(n))
        (a, k), (b, q) = c(x, ratio), f(x, ratio)
        assert T.equal(a, b) and k == q and type(k) is int
    assert T.compiler.stats()["compiles"] <= 4
