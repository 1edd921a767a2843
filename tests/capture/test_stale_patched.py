"""What users replace between calls: operators and attributes of tensors, functions of the library, of modules and of
Python, methods of layers. Compiled code sees it at the next call, and sees it taken back."""

import builtins
import functools
import itertools
import math
import sys
import types
from typing import Any

import pytest
from helpers import tree

import fusegrad as T
from fusegrad import nn
from fusegrad.nn import functional as F

USERS = types.ModuleType("users_module")
exec("K = 3\ndef g(x):\n    return x * 2\nclass C:\n    def m(self, x):\n        return x + 1\n", USERS.__dict__)


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(T.ones(3))
        self.act = nn.ReLU()

    def forward(self, x):
        return self.act(x * self.w)


LAYER = Layer()


def item_set(x):
    y = x.clone()
    y[0] = 5.0
    return y


def multiplied(x):
    y = x.clone()
    y *= 2
    return y


def imported(x):
    import users_module

    return users_module.g(x)


def imported_name(x):
    from users_module import g

    return g(x)


def no_gradient(x):
    with T.no_grad():
        return x * 2


def backward(x):
    p = nn.Parameter(x * 1)
    p.sum().backward()
    return p.grad


def seven(self: Any, *args: Any) -> Any:
    return self + self + self


def weight(self: Any, name: str) -> Any:
    return T.ones(3) * 7 if name == "w" else nn.Module.__getattr__(self, name)


CASES: dict[str, tuple] = {
    "__mul__": (lambda x: x * 2, T.Tensor, "__mul__", lambda a, b: a + b),
    "__rmul__": (lambda x: 2 * x, T.Tensor, "__rmul__", lambda a, b: a + b),
    "__radd__": (lambda x: 1 + x, T.Tensor, "__radd__", lambda a, b: a * 9),
    "__pow__": (lambda x: x**2, T.Tensor, "__pow__", seven),
    "__matmul__": (lambda x: x @ x, T.Tensor, "__matmul__", seven),
    "__neg__": (lambda x: -x, T.Tensor, "__neg__", seven),
    "__lt__": (lambda x: x < 1, T.Tensor, "__lt__", seven),
    "__gt__ reflected": (lambda x: 1 < x, T.Tensor, "__gt__", seven),
    "__eq__": (lambda x: x == 1, T.Tensor, "__eq__", seven),
    "__ne__": (lambda x: x != 1, T.Tensor, "__ne__", seven),
    "__imul__": (multiplied, T.Tensor, "__imul__", lambda a, b: a + 100),
    "__getitem__": (lambda x: x[0], T.Tensor, "__getitem__", seven),
    "__setitem__": (item_set, T.Tensor, "__setitem__", lambda a, k, v: None),
    "__len__": (lambda x: x * len(x), T.Tensor, "__len__", lambda a: 7),
    "__iter__": (lambda x: [v * 2 for v in x], T.Tensor, "__iter__", lambda a: iter([a * 7])),
    "in sum()": (lambda x: sum([x, x]), T.Tensor, "__add__", lambda a, b: a * 7),
    "shape": (lambda x: x * x.shape[0], T.Tensor, "shape", property(lambda a: (7,))),
    "new attribute": (lambda x: x * getattr(x, "extra", 2), T.Tensor, "extra", 5),
    "method": (lambda x: x.relu(), T.Tensor, "relu", seven),
    "in-place method": (lambda x: x.clone().mul_(2), T.Tensor, "mul_", lambda a, b: a),
    "item": (lambda x: x * x.sum().item(), T.Tensor, "item", lambda a: 9),
    "backward": (backward, T.Tensor, "backward", lambda a: None),
    "fusegrad.relu": (lambda x: T.relu(x), T, "relu", seven),
    "new function": (lambda x: getattr(T, "mine", T.relu)(x), T, "mine", seven),
    "fusegrad.float32": (lambda x: x.to(T.float32), T, "float32", T.float64),
    "fusegrad.no_grad, None": (no_gradient, T, "no_grad", None),
    "F.relu": (lambda x: F.relu(x), F, "relu", lambda a: a * 7),
    "F.relu in a layer": (lambda x: LAYER(x), F, "relu", lambda a, inplace=False: a * 7),
    "F.softmax in a layer made inside": (lambda x: nn.Softmax(dim=-1)(x), F, "softmax", lambda *a, **k: a[0] * 9),
    "class of a layer": (lambda x: nn.Softmax(dim=-1)(x), nn, "Softmax", lambda dim: lambda x: x * 7),
    "forward, made inside": (lambda x: nn.Softmax(dim=-1)(x), nn.Softmax, "forward", lambda s, x: x * 7),
    "forward": (lambda x: LAYER(x), Layer, "forward", lambda s, x: x * 7),
    "forward of a child": (lambda x: LAYER(x), nn.ReLU, "forward", lambda s, x: x * 7),
    "forward of the instance": (lambda x: LAYER(x), LAYER, "forward", lambda x: x * 7),
    "forward of the child's instance": (lambda x: LAYER(x), LAYER.act, "forward", lambda x: x * 7),
    "Module.__call__": (lambda x: LAYER(x), nn.Module, "__call__", lambda s, x: x * 7),
    "__call__": (lambda x: LAYER(x), Layer, "__call__", lambda s, x: x * 7),
    "__getattr__": (lambda x: LAYER(x), Layer, "__getattr__", weight),
    "property over a parameter": (lambda x: LAYER(x), Layer, "w", property(lambda s: 7.0)),
    "builtins.len": (lambda x: x * len([1, 2]), builtins, "len", lambda a: 7),
    "builtins.max": (lambda x: x * max(1, 2), builtins, "max", lambda *a: 9),
    "builtins.isinstance": (lambda x: x if isinstance(x, T.Tensor) else x * 2, builtins, "isinstance", lambda a, b: 0),
    "global over a builtin": (lambda x: x * abs(-3), sys.modules[__name__], "abs", lambda a: 9),
    "math.sqrt": (lambda x: x * math.sqrt(4), math, "sqrt", lambda a: 9),
    "math.pi": (lambda x: x * math.pi, math, "pi", 9.0),
    "functools.reduce": (
        lambda x: functools.reduce(lambda a, b: a + b, [x, x]),
        functools,
        "reduce",
        lambda f, i: i[0] * 9,
    ),
    "itertools.chain": (lambda x: [x * k for k in itertools.chain([1], [2])], itertools, "chain", lambda *a: [9]),
    "module's function": (lambda x: USERS.g(x), USERS, "g", seven),
    "module's function, code": (lambda x: USERS.g(x), USERS.g, "__code__", (lambda x: x * 7).__code__),
    "module's constant": (lambda x: x * USERS.K, USERS, "K", 5),
    "module's class": (lambda x: USERS.C().m(x), USERS.C, "m", lambda s, x: x * 9),
    "imported module's function": (imported, USERS, "g", seven),
    "imported function": (imported_name, USERS, "g", seven),
}


@pytest.mark.parametrize("name", CASES)
def test_replaced(name, monkeypatch):
    f, owner, attribute, new = CASES[name]
    monkeypatch.setitem(sys.modules, "users_module", USERS)
    x = T.tensor([1.0, -2.0, 3.0])
    T.compiler.reset()
    c = T.compile(f)

    def outcomes() -> list:
        out = []
        for g in (f, c, c):
            try:
                out.append(g(x))
            except Exception as e:
                out.append(type(e).__name__)
        return out

    seen = [outcomes()]
    with monkeypatch.context() as m:
        m.setattr(owner, attribute, new, raising=False)
        seen.append(outcomes())
    seen.append(outcomes())
    for plain, first, second in [[tree(v) for v in row] for row in seen]:
        assert first == plain and second == plain
    assert tree(seen[0][0]) != tree(seen[1][0]) and tree(seen[0][0]) == tree(seen[2][0])


@pytest.mark.parametrize("which", ["__defaults__", "__kwdefaults__"])
def test_defaults_that_are_taken_away_are_missing(which):
    def make():
        def f(x, a=1, /, b=2, *, c=3):
            return x * a + b + c

        return f

    outcomes = []
    for compile_ in (lambda f: f, T.compile):
        f = make()
        g = compile_(f)
        out = [str(g(T.ones(1)))]
        setattr(f, which, None)
        for args, kw in (((), {}), ((4,), {}), ((4, 5), {}), ((4, 5), {"c": 6}), ((), {"b": 1, "c": 1})):
            try:
                out.append(str(g(T.ones(1), *args, **kw)))
            except TypeError as e:
                out.append(str(e))
        outcomes.append(out)
    assert outcomes[0] == outcomes[1]
