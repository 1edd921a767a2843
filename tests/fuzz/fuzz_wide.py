"""What the earlier grammars never wrote; programs of seeds from `FIRST` on have it.

Arguments of several dtypes, views, kinds and types that change between calls (`KINDS`); functions, classes and globals
that are replaced between calls (`BETWEEN`); programs as a method, a generator, a closure (`WRAPS`); the statements of
fuzz_wide_statements.py.
"""

# ruff: noqa: E501

from __future__ import annotations

import random
import re
from typing import Any

from fuzz_wide_statements import STATEMENTS

__all__ = ["ARGUMENTS", "BETWEEN", "FIRST", "KINDS", "OPTIMIZERS", "STATEMENTS", "WRAPS", "changes", "wrapped"]

FIRST = 8_000_000
ARGUMENTS = ("hf", "mask", "u8", "s0", "w3", "im", "pv", "ts", "td", "key", "opt", "ix", "num", "fnc", "ob", "dt")

KINDS: dict[str, tuple[str, ...]] = {  # what an argument is, on each call; the first is the plainest
    "xdt": ("float32", "float32", "float32", "float32", "float64", "float16", "int64"),
    "hf": ("dense", "dense", "stride", "leaf"),
    "mask": ("random", "none", "all"),
    "u8": ("int32", "uint8", "int8", "int16", "int64"),
    "s0": ("own", "of_x", "double", "int", "leaf", "bool"),
    "w3": ("dense", "permuted", "negative", "expanded", "of_z", "empty"),
    "im": ("dense", "dense", "turned", "leaf"),
    "pv": ("tail", "column", "negative", "reshaped", "detached", "own"),
    "ts": ("one", "two", "views", "same", "none"),
    "td": ("flat", "nested", "other", "more"),
    "key": ("a", "b", "sin", "cos", "exp"),
    "opt": ("none", "tensor", "float", "int", "list"),
    "ix": ("int", "slice", "none", "mask", "list", "tensor", "dots", "negative", "tuple"),
    "num": ("int", "float", "bool", "np", "npint", "big"),
    "fnc": ("sin", "lambda", "partial", "method", "closure", "compiled", "other"),
    "ob": ("Add", "Add", "Mul", "Both", "AddAgain"),
    "dt": ("float32", "float64", "int64", "float16", "bool"),
}

OPTIMIZERS = ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "ASGD", "Rprop")


BETWEEN: dict[str, str] = {  # what happens between two calls, in the program's globals
    "global": "G = G * -1.5",
    "kind of global": "GNONE = 2.5 if GNONE is None else None",
    "function": "GFN = T.sin if GFN is T.tanh else T.tanh",
    "helper": "helper = lambda x, k=2, *rest, c=1, **kw: x * k - c",
    "list": "GD['a'] = GD['a'] + 1",
    "dict": "GD['sin'] = 0.25",
    "tensor": "GT = GT.double()",
    "other": "GT = T.arange(3.0)",
    "contents": "GT.mul_(2); GS.add_(1)",
    "asks": "GT = GT.detach().requires_grad_()",
    "parameter": "GP.data = GP.data * 0.5",
    "frozen": "GP.requires_grad_(not GP.requires_grad)",
    "gradient": "GP.grad = T.ones(3)",
    "class": "Obj.cls_k = Obj.cls_k + 1; Abstract.factor = 3.0; Mul.factor = 0.25",
    "method": "Obj.scale = lambda self, x: x - self.k",
    "property": "Obj.twice = property(lambda self: self.k * 3)",
    "method of a base": "Add.step = lambda self, u: u - self.k",
    "new method": "Mul.run = lambda self, u: self.step(u) + 1",
    "default": "defaulted.__defaults__ = ([3],); defaulted.__kwdefaults__['at'] = 1.5",
    "code": "counted.calls = 7",
    "module": "TIED.train(not TIED.training); TIED.one.lazy = None",
    "weights": "TIED.one.w = nn.Parameter(T.full((3,), 0.5))",
    "hook": "TIED.one.register_forward_hook(lambda m, a, r: r * 2)",
    "child": "TIED.stages['c'] = nn.Tanh()",
    "removed": "GD.pop('b', None)",
    "int": "GK = GK + 1",
    "int to float": "GK = 2.5",
}
WRAPS = ("", "", "", "", "", "", "method", "generator", "loop", "closure", "kept", "compiled part", "guarded")


def wrapped(kind: str, body: str, names: list[str], signature: str) -> str:
    """The program whose body (indented once) is in a method, a generator, a closure, ..."""
    args = ", ".join(names)
    head = f"def f({signature}):\n"
    inner = f"def part({args}):\n{body}\n"
    deeper = "".join("    " + line + "\n" for line in inner.splitlines())
    if kind == "method":
        method = deeper.replace("def part(", "def part(self, ", 1)
        first = "        self.calls += 1\n        GL.append(self.calls)\n"
        at = method.index("\n") + 1
        return (
            "class Program(Abstract):\n    calls = 0\n    def step(self, u): return u * self.calls\n"
            f"{method[:at]}{first}{method[at:]}PROGRAM = Program(2)\n{head}    return PROGRAM.part({args})\n"
        )
    if kind == "generator":
        body = re.sub(
            r"^    ((?:t|w)\d+) = .*$",
            lambda m: m[0] + (f"\n    yield {m[1]}" if len(m[0]) % 2 else ""),
            body,
            flags=re.M,
        )
        return f"def part({args}):\n{body}\n    yield\n{head}    return tuple(part({args}))\n"
    if kind == "loop":
        return f"{inner}{head}    out = None\n    for rep in range(2):\n        out = part({args})\n    return out\n"
    if kind == "closure":
        return f"{head}    seen = 0\n{deeper}    out = part({args})\n    seen += 1\n    return *out, seen\n"
    if kind == "kept":
        return f"{inner}{head}    with Timer([]):\n        out = part({args})\n    return out\n"
    if kind == "compiled part":
        return f"@COMPILE\n{inner}{head}    u = part({args})\n    return (*u, x * 2)\n"
    if kind == "guarded":
        return f"{inner}{head}    try:\n        return part({args})\n    except (RuntimeError, ValueError) as e:\n        return x, type(e).__name__\n"
    return f"{head}{body}\n"


def changes(rng: random.Random, made: list[dict[str, Any]]) -> None:
    """Add the kinds of the arguments of `ARGUMENTS` to a series of calls; some change between calls."""
    base = {k: rng.choice(v) if rng.random() < 0.6 else v[0] for k, v in KINDS.items()}
    if rng.random() < 0.7:
        base["xdt"] = "float32"
    odds = rng.choice((0.0, 0.1, 0.3))
    for k, c in enumerate(made):
        c.update(base)
        c.update({name: rng.choice(v) for name, v in KINDS.items() if k and rng.random() < odds})
        if k and rng.random() < 0.3:
            c["globals"] = rng.choice(list(BETWEEN))
