"""Numbers and sizes that change between calls: whatever Python does with them gives Python's result."""

import math
import operator

import numpy as np
import pytest
from helpers import check

import fusegrad as T

INTS = """hash(n)|n.__hash__()|n.__str__()|n.__format__('03d')|n.bit_length()|n.__class__|pow(n, 2, 7)|1 << n|n >> 1
n & 1|n ^ 1|~n|round(n, -1)|hasattr(n, 'bit_count')|n.numerator|n.to_bytes(2, 'big')|divmod(n, 2)|{n: 1}[n]|type(n)
n * 1j|np.float64(1) + n|np.int64(2) * n|f'{n!a}'"""
FLOATS = """hash(n)|n // 0.3|1 // n|7 % n|divmod(n, 0.3)|divmod(2, n)|n * 1j|np.float32(2) * n|n + np.float64(1)
n.hex()|n.is_integer()|f'{n:.3f} {n!r}'|[1, 2][n] if n > 100 else n
T.quantile(T.arange(3.0), n)|math.fmod(n, 0.3)|n.__class__"""


def program(text):
    scope = {"np": np, "math": math, "operator": operator, "T": T}
    exec(f"def f(n):\n    return {text}", scope)
    return scope["f"]


@pytest.mark.parametrize("text", INTS.replace("\n", "|").split("|"))
def test_int_that_changes(text):
    check(program(text), (2,), (3,), (5,), (0,), repeat=1)


@pytest.mark.parametrize("text", FLOATS.replace("\n", "|").split("|"))
def test_float_that_changes(text):
    check(program(text), (0.1,), (0.5,), (0.25,), (0.75,), repeat=1)


def test_error_text_of_a_number_that_changes():
    def f(n):
        try:
            return [1, 2][n]
        except TypeError as e:
            return str(e)

    check(f, (0.1,), (0.5,), (0.25,), plain=None)


def test_shapes_as_text_and_keys():
    def f(x):
        s = x.shape
        texts = f"{s} {s!r}", "%s" % (s,), "{}".format(s), str([s])  # noqa: UP031, UP032
        return texts, hash(s) == hash((x.size(0), 2)), {s: 1}, hash(x.size(0))

    check(f, *((T.ones(n, 2),) for n in (2, 3, 4, 1, 0)))


def test_text_of_a_tensor_breaks():
    def f(x):
        y = x * 2
        s = f"{y.mean():.2f}"
        return y + 1, s

    check(f, (T.arange(3.0),), breaks=1)


def test_last_of_a_growing_list():
    """The item that was appended last is known without the length of the list."""

    def f(x, hist, prev):
        hist.append(x.mean().item())
        done = abs(hist[-1] - prev) < 0.5
        return x * 2, done, hist[-1]

    calls = [(T.arange(3.0) * k, [1.0] * k, k - 0.3) for k in range(1, 12)]
    check(f, *calls, repeat=1, compiles=4)


def test_whole_numbers_beyond_64_bits():
    """Python's ints have no end: an int input that leaves the graph's range, itself or by arithmetic, is not cut, and
    operators refuse it as in eager code."""

    def times(x, k):
        return x * k

    def square(x, k):
        return x * (k * k) + (3 * k + 1)

    def outcome(g, k):
        try:
            return g(T.ones(2), k).tolist()
        except OverflowError:
            return "overflow"

    assert outcome(times, 2**70) == outcome(square, 2**40) == "overflow"
    for f in (times, square):
        c = T.compile(f)
        for k in (3, 4, 5, 2**20, 2**40, 2**61, 2**62, 2**70, -(2**70), 7):
            assert outcome(c, k) == outcome(f, k), (f, k)
    c = T.compile(lambda x, k: x + k * k)
    for k in (3, 4, 2**31 - 1, 2**20):
        assert c(T.ones(2).long(), k).tolist() == [1 + k * k] * 2
