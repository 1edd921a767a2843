"""What eager code refuses, compiled code refuses with the same error: dtypes, and numbers that don't fit."""

import math

import pytest

import fusegrad as T

F = T.nn.functional

# (what, function of a tensor, dtypes it refuses)
INTEGERS = (T.int64, T.uint8, T.bool)
FLOATING_ONLY = {
    "bce_with_logits": lambda a: F.binary_cross_entropy_with_logits(a, a),
    "cross_entropy": lambda a: F.cross_entropy(a, T.tensor([0, 1])),
    "nll_loss": lambda a: F.nll_loss(a, T.tensor([0, 1])),
    "softmax": lambda a: a.softmax(0),
    "log_softmax": lambda a: F.log_softmax(a, 0),
    "bernoulli": lambda a: T.bernoulli(a),
    "dropout": lambda a: F.dropout(a, 0.5, True),
    "layer_norm": lambda a: F.layer_norm(a, (2,)),
    "qr": lambda a: T.linalg.qr(a),
    "solve": lambda a: T.linalg.solve(a, a),
    "mean": lambda a: a.mean(),
}


def outcome(f, *args):
    try:
        r = f(*args)
    except Exception as e:
        return type(e).__name__, str(e)
    return r.tolist(), r.dtype


@pytest.mark.parametrize("name", FLOATING_ONLY)
def test_integers_are_refused_by_both(name):
    f = FLOATING_ONLY[name]
    for dtype in INTEGERS:
        a = T.tensor([[4, 1], [1, 3]]).to(dtype)
        T.compiler.reset()
        with pytest.raises(RuntimeError) as eager:
            f(a)
        with pytest.raises(RuntimeError) as compiled:
            T.compile(f)(a)
        assert (compiled.type, str(compiled.value)) == (eager.type, str(eager.value))


def test_hardtanh_refuses_negative_limits_of_unsigned_tensors():
    for f in (F.hardtanh, T.compile(F.hardtanh)):
        with pytest.raises(RuntimeError, match="unsigned type with negative limits"):
            f(T.tensor([1, 0], dtype=T.uint8))


def _set(x, i, v):
    x = x.clone()
    x[i] = v
    return x


WRITES = {
    "full": lambda x, v: T.full((2,), v, dtype=x.dtype),
    "full_like": lambda x, v: T.full_like(x, v),
    "new_full": lambda x, v: x.new_full((2,), v),
    "fill_": lambda x, v: x.clone().fill_(v),
    "masked_fill": lambda x, v: x.masked_fill(x >= 0, v),
    "scatter": lambda x, v: x.scatter(0, T.tensor([0, 1]), v),
    "pad": lambda x, v: F.pad(x, (2, -2), value=v),
    "set": lambda x, v: _set(x, slice(None), v),
    "set_mask": lambda x, v: _set(x, x >= 0, v),
    "where": lambda x, v: T.where(x >= 0, v, x),
    "threshold": lambda x, v: F.threshold(x, 9, v),
}
# number -> its element in each dtype; None: refused
ELEMENTS = {
    300: {T.uint8: None, T.int8: None, T.int64: 300, T.bool: True},
    -1: {T.uint8: 255, T.int8: -1, T.int64: -1, T.bool: True},
    -129: {T.uint8: 127, T.int8: None, T.int64: -129, T.bool: True},
    -256: {T.uint8: None, T.int8: None},
    2.7: {T.uint8: 2, T.int8: 2, T.int64: 2, T.bool: True},
    -2.5: {T.uint8: None, T.int8: -2, T.int64: -2},
    math.nan: {T.uint8: None, T.int64: None, T.bool: True},
    math.inf: {T.int8: None, T.int64: None, T.bool: True},
    2**63: {T.uint8: None, T.int64: None},
    2.0**63: {T.int64: None},
    1e300: {T.int8: None, T.int64: None},
    0.0: {T.uint8: 0, T.bool: False},
}


@pytest.mark.parametrize("name", WRITES)
def test_numbers_written_into_integer_tensors(name):
    f = WRITES[name]
    for value, by_dtype in ELEMENTS.items():
        for dtype, want in by_dtype.items():
            if name == "where" and isinstance(value, float) or name in ("where", "threshold") and dtype is T.bool:
                continue  # promotes, or no such dtype
            x = T.tensor([1, 0]).to(dtype)
            T.compiler.reset()
            eager, compiled = outcome(f, x, value), outcome(T.compile(f), x, value)
            assert eager == compiled, (value, dtype)
            if want is None:
                assert eager[0] in ("RuntimeError", "OverflowError"), (value, dtype, eager)
                assert "without overflow" in eager[1] or "too large" in eager[1], (value, dtype, eager)
            else:
                assert eager == ([want, want], dtype), (value, dtype)


def test_addcmul_by_a_number_that_wraps():
    x = T.tensor([1, 2], dtype=T.uint8)
    for f in (lambda x, v: T.addcmul(x, x, x, value=v), T.compile(lambda x, v: T.addcmul(x, x, x, value=v))):
        assert f(x, -3).tolist() == [254, 246]
        with pytest.raises(RuntimeError, match="without overflow"):
            f(x, 300)


def test_asinh_of_large_numbers():
    x = T.tensor([math.inf, -math.inf, 1e30, -3e38, 1e19, -0.0], requires_grad=True)
    for f in (T.asinh, T.compile(lambda x: T.asinh(x))):
        y = f(x)
        want = [math.inf, -math.inf, math.asinh(1e30), math.asinh(-3e38), math.asinh(1e19), -0.0]
        assert y.tolist() == pytest.approx(want, rel=1e-6)
        assert math.copysign(1, y[-1].item()) == -1


def test_numbers_that_change_are_written_into_integer_tensors_by_their_value():
    """The second value makes a number an input of compiled code: it is checked as before, no float is made."""
    calls = {
        "full": lambda x, v: T.full((2,), v, dtype=x.dtype),
        "fill_": lambda x, v: x.clone().fill_(v),
        "masked_fill": lambda x, v: x.masked_fill(x >= 0, v),
        "pad": lambda x, v: F.pad(x, (1, 0), value=v),
        "set": lambda x, v: _set(x, 0, v),
        "where": lambda x, v: T.where(x >= 0, x, v),
        "addcmul": lambda x, v: T.addcmul(x, x, x, value=v),
        "add": lambda x, v: T.add(x, x, alpha=v),
        "mul": lambda x, v: x * v,
    }
    for name, f in calls.items():
        for dtype in (T.uint8, T.int64):
            T.compiler.reset()
            g, x = T.compile(f, options={"limit": 50}), T.tensor([1, 0]).to(dtype)
            for value in (5, 6, 300, -1, 1.5, 2.5, 300.7, -2.5, math.inf, 3.5):
                assert str(outcome(g, x, value)) == str(outcome(f, x, value)), (name, dtype, value)


def test_a_zero_that_changes_keeps_its_sign():
    for f in (lambda x, v: _set(x, 0, v), lambda x, v: F.pad(x, (1, 0), value=v)):
        g = T.compile(f)
        for value in (1.0, 2.0, -0.0, 0.0, -0.0):
            want = f(T.ones(2), value)[0].item()
            assert math.copysign(1, want) == math.copysign(1, value)
            assert math.copysign(1, g(T.ones(2), value)[0].item()) == math.copysign(1, want)
