"""Arguments of two dtypes: compiled code gives the dtype that eager gives, or the same error."""

import pytest

import fusegrad as T
import fusegrad.nn.functional as F

P = T.linspace(0.1, 0.9, 12).reshape(3, 4)
REFUSED = {
    "binary_cross_entropy": lambda d: F.binary_cross_entropy(P, P.to(d)),
    "layer_norm": lambda d: F.layer_norm(P, (4,), T.ones(4, dtype=d)),
    "layer_norm bias": lambda d: F.layer_norm(P, (4,), T.ones(4), T.ones(4, dtype=d)),
    "batch_norm": lambda d: F.batch_norm(P, None, None, T.ones(4, dtype=d), training=True),
    "batch_norm statistics": lambda d: F.batch_norm(P, T.zeros(4, dtype=d), T.ones(4, dtype=d)),
    "group_norm": lambda d: F.group_norm(P, 2, T.ones(4, dtype=d)),
    "instance_norm": lambda d: F.instance_norm(P[None], weight=T.ones(3, dtype=d)),
    "tensorsolve": lambda d: T.linalg.tensorsolve(T.eye(3), T.ones(3, dtype=d)),
    "solve": lambda d: T.linalg.solve(T.eye(3), T.ones(3, dtype=d)),
    "linear": lambda d: F.linear(P, T.ones(2, 4, dtype=d)),
    "conv1d": lambda d: F.conv1d(P[None], T.ones(2, 3, 1, dtype=d)),
    "bmm": lambda d: T.bmm(P[None], P[None].mT.to(d)),
}
GIVEN = {  # (dtype of the second argument, dtype of the result)
    "bce with logits": (lambda d: F.binary_cross_entropy_with_logits(P, P.to(d)), T.float64),
    "rms_norm": (lambda d: F.rms_norm(P, (4,), T.ones(4, dtype=d)), T.float32),
    "mse_loss": (lambda d: F.mse_loss(P, P.to(d)), T.float64),
    "where": (lambda d: T.where(P > 0.5, P, P.to(d)), T.float64),
    "cat": (lambda d: T.cat([P, P.to(d)]), T.float64),
}


@pytest.mark.parametrize("name", REFUSED)
def test_two_dtypes_are_refused_by_both(name):
    f = REFUSED[name]
    for g in (f, T.compile(f, options={"interpret": True})):
        with pytest.raises(RuntimeError):
            g(T.float64)


@pytest.mark.parametrize("name", GIVEN)
def test_two_dtypes_give_the_same_in_both(name):
    f, dtype = GIVEN[name]
    plain, compiled = f(T.float64), T.compile(f)(T.float64)
    assert plain.dtype is compiled.dtype is dtype
    assert T.allclose(plain, compiled)


def test_norms_of_halves_take_parameters_in_single_precision():
    def f(x, w):
        return F.layer_norm(x, (4,), w), F.group_norm(x, 2, w), F.batch_norm(x, None, None, w, training=True)

    x, w = P.half(), T.ones(4)
    for a, b in zip(f(x, w), T.compile(f)(x, w), strict=True):
        assert a.dtype is b.dtype is T.float16
        assert T.allclose(a.float(), b.float(), atol=2e-3)


def test_random_masks_of_integers_are_refused():
    for f in (lambda: F.dropout(T.ones(3, dtype=T.int64)), lambda: T.bernoulli(T.ones(3, dtype=T.int64))):
        for g in (f, T.compile(f)):
            with pytest.raises(RuntimeError):
                g()
