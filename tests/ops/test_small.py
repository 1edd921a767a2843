"""Native kernels for few elements of several tensors: the bits of numpy's steps, in place as well."""

from __future__ import annotations

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.nn import functional as F  # noqa: N812
from fusegrad.ops import activation, pointwise_misc

EDGES = [0.0, -0.0, 1.0, -1.5, 0.3, np.inf, -np.inf, np.nan, 1e-42, 3e38]
NUMBERS = [0, -0.0, 1, 2, 0.3, 0.5, 0.7, -3, 1e20, 1e35]
CALLS = {
    "lerp": (lambda x, y, z, v: fg.lerp(x, y, v), ("_NEAR", "_FAR")),
    "lerp by a tensor": (lambda x, y, z, v: fg.lerp(x, y, z), ("_BY_TENSOR",)),
    "addcmul": (lambda x, y, z, v: fg.addcmul(x, y, z, value=v), ("_PRODUCT",)),
    "addcdiv": (lambda x, y, z, v: fg.addcdiv(x, y, z, value=v), ("_QUOTIENT",)),
    "lerp_": (lambda x, y, z, v: x.lerp_(y, v), ("_NEAR", "_FAR")),
    "lerp_ by a tensor": (lambda x, y, z, v: x.lerp_(y, z), ("_BY_TENSOR",)),
    "addcmul_": (lambda x, y, z, v: x.addcmul_(y, z, value=v), ("_PRODUCT",)),
    "addcdiv_": (lambda x, y, z, v: x.addcdiv_(y, z, value=v), ("_QUOTIENT",)),
    "addcmul_ of itself": (lambda x, y, z, v: x.addcmul_(x, z, value=v), ("_PRODUCT",)),
    "addcmul_ overlapping": (lambda x, y, z, v: x[1:].addcmul_(y[1:], z[1:], value=v), ("_PRODUCT",)),
    "prelu": (lambda x, y, z, v: F.prelu(x[None].expand(2, -1).contiguous(), y[:1]), ("_FEW",)),
}


def operands(kind, seed):
    rng = np.random.default_rng(seed)
    return [fg.from_numpy(np.concatenate([rng.permutation(EDGES), rng.standard_normal(9)]).astype(kind)) for _ in "xyz"]


@pytest.mark.parametrize("kind", ["f4", "f8", "f2"])
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_as_numpy(name, kind, monkeypatch):
    call, kernels = CALLS[name]
    homes = [h for h in (pointwise_misc, activation) for k in kernels if hasattr(h, k)]
    for seed, v in enumerate(NUMBERS):
        found = []
        for left in (10**9, 0):  # numpy, then machine code
            for home, k in zip(homes, kernels, strict=True):
                monkeypatch.setattr(getattr(home, k), "left", left)
                monkeypatch.setattr(getattr(home, k), "find", None)
            x, y, z = operands(kind, seed)
            try:
                out = call(x, y, z, v)
            except RuntimeError as e:
                found.append(str(e))
                continue
            found.append((out.numpy().copy(), x.numpy().copy(), x._version, out.dtype))
        if isinstance(found[0], str):
            assert found[0] == found[1]
            continue
        for p, q in zip(*[f[:2] for f in found], strict=True):
            np.testing.assert_array_equal(p, q, f"{name} {v}")
            some = ~np.isnan(p)
            np.testing.assert_array_equal(np.signbit(p)[some], np.signbit(q)[some])
        assert found[0][2:] == found[1][2:]


def test_memory_that_overlaps(monkeypatch):
    """numpy reads all before it writes where memories overlap."""
    monkeypatch.setattr(pointwise_misc._PRODUCT, "left", 0)
    a = np.arange(10.0)
    x, y = fg.from_numpy(a[1:]), fg.from_numpy(a[:-1])
    want = a[1:] + a[:-1] * 2
    x.addcmul_(y, fg.full((9,), 2.0, dtype=fg.float64))
    np.testing.assert_array_equal(x.numpy(), want)


def test_what_is_not_usual_is_as_ever(monkeypatch):
    for k in ("_PRODUCT", "_QUOTIENT", "_NEAR", "_FAR"):
        monkeypatch.setattr(getattr(pointwise_misc, k), "left", 0)
    x, y = fg.ones(3, requires_grad=True), fg.ones(3)
    with pytest.raises(RuntimeError, match="leaf"):
        x.addcmul_(y, y)
    z = x * 1
    z.addcmul_(y, y, value=2)
    assert z.grad_fn is not None and z.tolist() == [3, 3, 3]
    with fg.no_grad():
        x.lerp_(y * 3, 0.25)
    assert x.tolist() == [1.5] * 3 and x._version == 1
    with pytest.raises((RuntimeError, TypeError)):
        y.addcmul_(y, y, values=2)
    with pytest.raises(RuntimeError):
        y.addcmul_(fg.ones(4), y)
    kept = (x * y).sum()
    y.addcdiv_(y, y)
    with pytest.raises(RuntimeError, match="modified"):
        kept.backward()
    assert fg.ones(3, 2).addcmul_(fg.ones(2), fg.ones(3, 1)).shape == (3, 2)
    assert fg.ones(3).addcmul_(fg.ones(3), fg.ones(3), value=fg.tensor(2.0)).tolist() == [3, 3, 3]
