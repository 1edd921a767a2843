# ruff: noqa: E501
"""Random programs full of structured control flow, eager against compiled.

python tests/control/fuzzing.py 0 300      # first seed, how many; prints the seeds that differ
"""

from __future__ import annotations

import random
import sys
import warnings
from typing import Any

import numpy as np

import fusegrad as T


class Writer:
    """Writes one function ``f(x, y, n, s)`` of two vectors, an int and a float."""

    def __init__(self, rng: random.Random) -> None:
        self.r = rng
        self.lines = ["def f(x, y, n, s):"]
        self.tensors = ["x", "y"]
        self.count = 0

    def new(self) -> str:
        self.count += 1
        return f"t{self.count}"

    def t(self) -> str:
        return self.r.choice(self.tensors)

    def put(self, *lines: str, ind: int = 1) -> None:
        self.lines += ["    " * ind + line for line in lines]

    def pure(self, names: list[str], depth: int = 2) -> str:
        """An expression of the shape of x without effects."""
        r = self.r
        if depth == 0 or r.random() < 0.2:
            return r.choice(names)
        a, b = self.pure(names, depth - 1), self.pure(names, depth - 1)
        k = r.randint(0, 10)
        if k < 3:
            return f"({a} {r.choice('+-*')} {b})"
        if k < 5:
            return f"({a} {r.choice('+-*')} {r.choice(['n', 's', '0.5'])})"
        if k == 5:
            return f"T.{r.choice(['tanh', 'sigmoid', 'relu', 'sin'])}({a})"
        if k == 6:
            return f"T.where({a} > {r.uniform(-1, 1):.1f}, {b}, {r.choice(names)})"
        if k == 7:
            return f"{a}.detach()"
        if k == 8:
            return f"T.stack([{a}, {b}]).mean(0)"
        if k == 9:
            return f"({a} - {a}.mean())"
        return f"T.cond({a}.sum() > 0.31, lambda q: q * {r.choice(names)}, lambda q: q - 1, ({b},))"

    def control(self, ind: int) -> None:
        r = self.r
        near = r.sample(self.tensors, min(2, len(self.tensors)))  # closed over
        v, u = self.new(), self.new()
        k = r.randint(0, 5)
        if k < 2:
            p = r.choice([f"{self.t()}.sum() > 0.17", f"{self.t()}.mean() < s", "n > 1"])
            lines = [f"{v} = T.cond({p},", f"    lambda a: {self.pure([*near, 'a'])} * 1,",
                     f"    lambda a: {self.pure([*near, 'a'])} + 0, ({self.t()},))"]  # fmt: skip
        elif k == 2:
            stop = r.choice([f"i < {r.randint(0, 4)}", f"(i < 5) & (a.abs().sum() < {r.randint(1, 20)})"])
            lines = [f"_, {v}, {u} = T.while_loop(lambda i, a, b: {stop},",
                     f"    lambda i, a, b: (i + 1, ({self.pure([*near, 'a', 'b'])}) * 0.9, {self.pure(['a', 'b'])} + 0.1),",
                     f"    (T.tensor(0), {self.t()} * 1.0, {self.t()} * 1.0))"]  # fmt: skip
        elif k == 3:
            step = f"(({self.pure([*near, 'c', 'a'])}) * 0.9, {self.pure([*near, 'c', 'a'])})"
            lines = [f"{v}, {u} = T.control.scan(lambda c, a: {step},",
                     f"    {self.t()} * 1.0, T.stack([{self.t()}, {self.t()}, {self.t()}]){r.choice(['', ', reverse=True'])})",
                     f"{u} = {u}.sum(0)"]  # fmt: skip
        elif k == 4:
            lines = [f"{v} = T.control.map(lambda a, b: {self.pure([*near, 'a', 'b'])}, T.stack([{self.t()}, {self.t()}]),",
                     f"    {self.t()}).sum(0)"]  # fmt: skip
        else:
            lines = [f"{v} = T.control.associative_scan(lambda a, b: a * b, {self.t()}, 0)"]
        self.put(*lines, ind=ind)
        self.tensors += [v, u] if k in (2, 3) else [v]

    def stmt(self) -> None:
        k, v = self.r.randint(0, 9), self.new()
        if k < 5:
            self.control(1)
        elif k == 5:
            self.put(f"{v} = {self.pure(self.tensors)}")
            self.tensors.append(v)
        elif k == 6:
            self.put(f"{self.t()}.{self.r.choice(['add_(s)', 'mul_(0.5)', 'sub_(1)'])}")
        elif k == 7:
            self.put("with T.no_grad():")
            self.control(2)
        elif k == 8:
            self.put(f"s = s + {self.t()}.sum().item() * 0.01")
        else:
            self.put("for _ in range(2):")
            self.control(2)

    def program(self) -> str:
        for _ in range(self.r.randint(2, 6)):
            self.stmt()
        self.put(f"return {', '.join(self.r.sample(self.tensors, min(3, len(self.tensors))))}, x, y")
        return "\n".join(self.lines) + "\n"


def calls(rng: random.Random) -> list[tuple]:
    """(size, n, s, requires grad) of five calls."""
    m, n, s, grad = rng.choice([2, 3]), rng.randint(0, 3), rng.uniform(-1, 1), rng.random() < 0.7
    out = []
    for _ in range(5):
        m = rng.choice([2, 3, 4, 5]) if rng.random() < 0.35 else m
        s = rng.uniform(-1, 1) if rng.random() < 0.35 else s
        grad = not grad if rng.random() < 0.2 else grad
        out.append((m, n, s, grad))
    return out


def run(f: Any, series: list[tuple]) -> list[Any]:
    """Values, gradients and errors of the calls."""
    results: list[Any] = []
    for k, (m, n, s, grad) in enumerate(series):
        rng = np.random.default_rng(k)
        leaves = [T.from_numpy(rng.standard_normal(m)).requires_grad_(grad) for _ in range(2)]
        x, y = (t * 1 for t in leaves)
        try:
            outs = f(x, y, n, s)
            row = [(t.requires_grad, t.detach().numpy().copy()) for t in outs]
            total: Any = sum((t * 0.5).sum() for t in outs if t.requires_grad)
            if isinstance(total, T.Tensor):
                total.backward()
            results.append([row, [None if t.grad is None else t.grad.numpy() for t in leaves]])
        except Exception as e:
            results.append((type(e).__name__, str(e).split(":")[0]))
    return results


def alike(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.shape == b.shape and np.allclose(a, b, rtol=1e-7, atol=1e-9, equal_nan=True)
    if isinstance(a, (list, tuple)) and type(a) is type(b):
        return len(a) == len(b) and all(map(alike, a, b))
    return type(a) is type(b) and bool(a == b)


def one(seed: int, verbose: bool = False) -> str | None:
    """Run one program; a description of the difference, or None."""
    rng = random.Random(seed)
    text, series = Writer(rng).program(), calls(rng)
    if verbose:
        print(text)
    ns: dict[str, Any] = {"T": T, "__name__": "fuzz_program"}
    exec(compile(text, f"<fuzz {seed}>", "exec"), ns)
    want, got = run(ns["f"], series), run(T.compile(ns["f"]), series)
    for k, (w, g) in enumerate(zip(want, got, strict=True)):
        if not alike(w, g):
            return f"seed {seed} call {k} {series[k]}\n  eager    {w}\n  compiled {g}"
    return None


def main(first: int, count: int) -> None:
    warnings.simplefilter("ignore")
    bad, faults, why = [], [], {}
    totals: dict[str, Any] = {"compiles": 0, "graph_breaks": 0, "plain_frames": 0}
    for seed in range(first, first + count):
        r = one(seed, count == 1)
        if r:
            bad.append(seed)
            print(r[:1500])
        s = T.compiler.stats()
        for k in totals:
            totals[k] += s[k]
        faults += [x for x in s["break_reasons"] if "FG014" in x]
        for x in s["break_reasons"]:
            name = x.partition(": ")[2][:110]
            why[name] = why.get(name, 0) + 1
        T.compiler.reset()
    print("\n".join(faults[:20]))
    for x, n in sorted(why.items(), key=lambda p: -p[1])[:10]:
        print(n, x)
    print(f"{count} programs, {len(bad)} differ: {bad}", totals)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
