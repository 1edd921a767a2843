"""numpy on arrays from before: computed by the segment, ahead of the region, without a break."""

from __future__ import annotations

import random
import warnings

import numpy as np
import pytest

import fusegrad as T


def shown(v):
    if isinstance(v, T.Tensor):
        return "tensor", str(v.dtype), repr(v.tolist()), v.requires_grad
    if isinstance(v, (np.ndarray, np.generic)):
        return type(v).__name__, str(v.dtype), v.shape, v.strides, repr(v.tolist())
    if isinstance(v, (tuple, list)):
        return [shown(x) for x in v]
    return repr(v)


def outcome(f, *args):
    try:
        return shown(f(*args)), [shown(a) for a in args]
    except Exception as e:
        return type(e).__name__, str(e)


def _standard(a):
    return (a - a.mean()) / a.std()


WHOLE = {
    "sums": lambda a: (np.sum(a), a.sum(axis=0), a.sum(axis=1, keepdims=True), a.mean(), np.std(a, axis=1, ddof=1)),
    "operators": lambda a: (a + 1, 2 - a, a * a, a / 2, a // 2, a % 2, a**2, -a, abs(a), a > 2, a == a, a @ a.T),
    "functions": lambda a: (
        np.clip(a, 1, 3),
        np.where(a > 2, a, 0),
        np.minimum(a, 1.5),
        np.sqrt(a),
        np.round(a / 3, 1),
    ),
    "joined": lambda a: (np.concatenate([a, a * 2], axis=0), np.stack((a, a)), np.tile(a, 2)),
    "products": lambda a: (np.dot(a, a.T), np.matmul(a, a.T), np.cumsum(a)),
    "items": lambda a: (a[0] + 1, a[:, 1], a[0, 1], a[..., None], a[::-1]),
    "views": lambda a: ((a * 2).T, a.reshape(-1), np.reshape(a * 2, (-1,)).sum(), (a * 2).ravel()),
    "dtypes": lambda a: (a.astype(np.float32), (a * 2).astype("int64"), a.dtype == np.float64, (a + 1).dtype),
    "sizes": lambda a: ((a * 2).shape, (a + 1).ndim, (a * 2).size),
    "warned of": lambda a: (np.log(a - 1), 1 / (a - 1)),
    "chained": _standard,
    "tensors": lambda a: (T.from_numpy(a * 2), T.tensor(a + 1), T.as_tensor(a - 1), T.tensor(a, dtype=T.float32)),
    "with tensors": lambda a: T.ones(2, 3) * T.from_numpy(a / a.sum()) * a.mean(),
    "numbers": lambda a: (float(a.max()), a.sum() * 2, T.ones(2) * a.sum()),
    "windows": lambda a: T.tensor(np.hanning(4) / np.hanning(4).sum()),
}


@pytest.mark.parametrize("name", WHOLE)
def test_arrays_are_computed_ahead(name):
    def f(x, a):
        return x + 1, WHOLE[name](a)

    T.compiler.reset()
    c = T.compile(f, fullgraph=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k in range(4):
            a, b = (np.arange(6.0).reshape(2, 3) + k for _ in range(2))
            assert outcome(c, T.ones(2), a) == outcome(f, T.ones(2), b)
    assert T.compiler.stats()["compiles"] == 1


def _later(a):
    b = a * 2
    t = T.from_numpy(b)
    t.add_(1)
    return b.sum(), t, b * 2


def _of_the_array(a):
    t = T.from_numpy(a)
    s = a.sum()
    t.mul_(2)
    return s, t, a.sum(), np.sum(a)


def _kept(a):
    t, u = T.from_numpy(a), T.from_numpy(a * 1)
    t.add_(1)
    return t, a.sum(), u


def _set(a):
    b = a * 2
    b[0] = 1
    a[0] = 5.0
    return b + 1, a * 2


def _added(a):
    b = a
    b += 1
    return a.sum(), b


BROKEN = {
    "tensor changed": _later, "tensor of the array changed": _of_the_array, "both": _kept, "items set": _set,
    "in place": _added, "out": lambda a: np.add(a, 1, out=a), "chosen": lambda a: a[a > 2], "unique": np.unique,
    "value": lambda a: 1 if a.sum() > 20 else 2, "text": lambda a: f"{a.mean():.2f}",
    "list": lambda a: (a * 2).tolist(),
    "int": lambda a: int(a.max()), "any": lambda a: np.any(a > 7), "view": lambda a: T.from_numpy((a * 2).reshape(-1)),
    "rows": lambda a: [r * 2 for r in a], "norm": np.linalg.norm, "index": lambda a: T.arange(9.0)[int(a[0, 0])],
    "single": lambda a: a.astype("float32").sum(), "identity": lambda a: ((b := a * 2) is b, b is a, a is a),
    "refused": lambda a: np.dot(a, a), "length": lambda a: len(a * 2), "transposed": lambda a: T.from_numpy((a * 2).T),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_what_needs_values_or_writes_is_right_with_a_break(name):
    def f(x, a):
        y = x * a.mean()
        return y, BROKEN[name](a)

    T.compiler.reset()
    c = T.compile(f)
    for k in range(4):
        a, b = (np.arange(6.0).reshape(2, 3) + k for _ in range(2))
        assert outcome(c, T.ones(2), a) == outcome(f, T.ones(2), b)


def test_sizes_and_dtypes_that_change():
    def f(x, a):
        return x * a.sum(), T.from_numpy(a * 2), (a + 1).shape

    T.compiler.reset()
    c = T.compile(f)
    sizes = [np.ones((n, 2)) * n for n in range(2, 12)]
    kinds = [np.ones(3), np.ones((3, 2), "float32"), np.ones(3, "int64"), np.ones(3, bool)]
    for a in (*sizes, *kinds, np.ones((2, 4))[:, ::2], np.ones((3, 2)).T):
        assert outcome(c, T.ones(2), a) == outcome(f, T.ones(2), a)
    assert not T.compiler.stats()["plain_frames"]
    for a in (np.array(2.0), np.float64(2.0), 2.0, [1.0]):  # the program's errors
        assert outcome(c, T.ones(2), a) == outcome(f, T.ones(2), a)


def test_globals_attributes_and_functions_that_are_replaced(monkeypatch):
    class Holder:
        pass

    o = Holder()

    def f(x):
        return x * o.a.mean() + o.b.std() + np.mean(o.a)

    T.compiler.reset()
    c = T.compile(f, fullgraph=True)
    for k in range(5):
        o.a = np.arange(4.0) + k
        o.b = o.a if k == 2 else np.arange(3.0) * k
        assert outcome(c, T.ones(2)) == outcome(f, T.ones(2))
        o.a[0] += 1
        assert outcome(c, T.ones(2)) == outcome(f, T.ones(2))
    monkeypatch.setattr(np, "mean", lambda a: 7.0)
    assert outcome(T.compile(f), T.ones(2)) == outcome(f, T.ones(2))


def test_a_call_that_fails_is_made_again_by_python():
    def f(x, a, log):
        log.append(1)
        try:
            r = np.log(a) * random.random()
        except FloatingPointError:
            return "caught", x + random.random(), list(log)
        return x * r.sum(), list(log)

    def calls(run):
        random.seed(3)
        out, log = [], []
        for mode, v in (("warn", 1.0), ("raise", 1.0), ("raise", 0.0), ("ignore", 0.0)):
            with np.errstate(all=mode):
                out.append(outcome(run, T.ones(2), np.ones(3) * v, log))
        return out, random.random()

    T.compiler.reset()
    assert calls(T.compile(f)) == calls(f)


def test_gradients_and_breaks_around():
    def f(x, a):
        b = a * 2
        s = b.sum()
        print(end="")
        y = x * s + T.from_numpy(b)[0]
        print(end="")
        return (y + b.mean()).sum()

    def calls(run):
        out = []
        for k in range(3):
            x = T.ones(2, dtype=T.float64, requires_grad=True)
            y = run(x, np.ones(3) * k)
            y.backward()
            out.append(shown([y, x.grad]))
        return out

    assert calls(T.compile(f)) == calls(f)


WHERE, FEW = np.array([2, 0]), np.array([[1, -1]], dtype="int8")


def _indexed(x, n):
    y = x * 2
    y[WHERE] = n
    y[0, FEW] += 1.0
    z = T.zeros(3, dtype=T.int64)
    z[0] = n * 2
    return x[WHERE], x[:, FEW], x[WHERE, WHERE[::-1].copy()], x[[n, 0]], x[WHERE % 2], y, z, x[np.array([0, n])]


def test_arrays_and_changing_numbers_as_indices():
    T.compiler.reset()
    f, calls = T.compile(_indexed), [(1, 2), (2, 0), (1, 1), (0, 2)]
    for n, first in calls:
        WHERE[0] = first  # read at every call
        x = T.arange(9.0).view(3, 3)
        assert shown(f(x, n)) == shown(_indexed(x, n))
    assert T.compiler.stats()["graph_breaks"] <= 1  # an array made of a changing number
