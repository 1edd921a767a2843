# ruff: noqa: E501
"""Random programs for the capture fuzzer: source text, argument sets, comparison of eager and compiled.

python tests/capture/fuzzer.py --seed 1 --count 200      # prints the seeds that differ
"""

from __future__ import annotations

import argparse
import math
import random
import re
import sys
from typing import Any

import numpy as np

import fusegrad as T

HEAD = """
import fusegrad as T
import math, functools, collections, contextlib
G = 1.5
GL = []
GD = {"a": 2, "b": 0.5}
class Obj:
    cls_k = 2
    def __init__(self, k, t=None):
        self.k, self.t, self.items = k, t, []
    def scale(self, x):
        return x * self.k
    @property
    def twice(self):
        return self.k * 2
    def __call__(self, x):
        self.items.append(self.k)
        return self.scale(x) + 1
    def __eq__(self, o):
        return isinstance(o, Obj) and o.k == self.k
    __hash__ = None
def helper(x, k=2, *rest, c=1):
    return x * k + c + len(rest)
def brk(x, log):
    log.append("brk")
    if x.sum() > 1:
        return x - 1
    return x + 1
def gen(x, n):
    for i in range(n):
        yield x + i
@contextlib.contextmanager
def cm(log, tag):
    log.append("in" + tag)
    try:
        yield tag
    finally:
        log.append("out" + tag)
"""


class Writer:
    """Writes one random function ``f(x, y, n, s, flag, lst, d, o, log)``."""

    def __init__(self, rng: random.Random) -> None:
        self.r = rng
        self.lines: list[str] = []
        self.tensors = ["x", "y"]
        self.ints = ["n"]
        self.floats = ["s"]
        self.count = 0
        self.funcs: list[str] = []

    def new(self, p: str) -> str:
        self.count += 1
        return f"{p}{self.count}"

    def t(self) -> str:
        return self.r.choice(self.tensors)

    def i(self) -> str:
        r = self.r
        return r.choice([r.choice(self.ints), str(r.randint(0, 3)), "x.shape[0]", "len(lst)", f"({r.choice(self.ints)} + 1)",
                         "d['k']", "o.k", "y.ndim", "int(flag)"])  # fmt: skip

    def f(self) -> str:
        r = self.r
        return r.choice(
            [r.choice(self.floats), f"{r.uniform(-2, 2):.2f}", "G", "GD['b']", f"({r.choice(self.floats)} * 0.5)"]
        )

    def num(self) -> str:
        return self.i() if self.r.random() < 0.5 else self.f()

    def texpr(self, depth: int = 2) -> str:
        """A tensor expression of the shape of x."""
        r = self.r
        if depth == 0 or r.random() < 0.25:
            return self.t()
        a = self.texpr(depth - 1)
        k = r.randint(0, 19)
        if k < 5:
            return f"({a} {r.choice('+-*')} {self.texpr(depth - 1)})"
        if k < 8:
            return f"({a} {r.choice('+-*')} {self.num()})"
        if k < 10:
            return f"{r.choice(['T.tanh', 'T.sigmoid', 'T.relu', 'T.abs', 'T.sin'])}({a})"
        if k == 10:
            return f"({a} - {a}.mean())"
        if k == 11:
            return f"T.where({a} > {self.f()}, {self.t()}, {self.texpr(depth - 1)})"
        if k == 12:
            return f"helper({a}, {r.choice([self.num(), 'k=' + self.num(), 'c=' + self.num()])})"
        if k == 13:
            return f"o.scale({a})" if r.random() < 0.5 else f"o({a})"
        if k == 14:
            return f"({a} if {self.cond()} else {self.t()})"
        if k == 15:
            return f"sum([{a}, {self.t()}, {self.num()}])"
        if k == 16:
            return f"functools.reduce(lambda p, q: p + q * {self.num()}, [{a}, {self.t()}])"
        if k == 17:
            return f"{a}.flip(0)" if r.random() < 0.5 else f"T.stack([{a}, {self.t()}]).sum(0)"
        if k == 18:
            return f"({a} / {a}.shape[0])" if r.random() < 0.5 else f"({a} + T.arange({a}.shape[0]))"
        if self.funcs:
            return f"{r.choice(self.funcs)}({a})"
        return f"brk({a}, log)" if r.random() < 0.3 else f"{a}.clone()"

    def cond(self) -> str:
        r = self.r
        k = r.randint(0, 9)
        if k < 3:
            return f"{self.i()} {r.choice(['<', '>', '==', '!=', '<='])} {self.i()}"
        if k == 3:
            return f"{self.f()} > {self.f()}"
        if k == 4:
            return "flag"
        if k == 5:
            return f"{self.t()}.sum() > {self.f()}"
        if k == 6:
            return f"'q{r.randint(0, 2)}' in d"
        if k == 7:
            return f"{self.t()} is {self.t()}"
        if k == 8:
            return f"not {self.cond()}"
        return f"({self.cond()} {r.choice(['and', 'or'])} {self.cond()})"

    def put(self, ind: int, text: str) -> None:
        self.lines.append("    " * ind + text)

    def block(self, ind: int, n: int, depth: int) -> None:
        saved = (self.tensors[:], self.ints[:], self.floats[:], self.funcs[:])
        before = len(self.lines)
        for _ in range(n):
            self.stmt(ind, depth)
        if len(self.lines) == before:
            self.put(ind, "pass")
        if ind > 1:
            self.tensors, self.ints, self.floats, self.funcs = saved

    def stmt(self, ind: int, depth: int) -> None:
        r = self.r
        k = r.randint(0, 34)
        if k < 7:
            v = self.new("t")
            self.put(ind, f"{v} = {self.texpr()}")
            self.tensors.append(v)
        elif k < 9:
            v = r.choice(self.tensors)
            self.put(ind, f"{v} = {self.texpr()}")
        elif k == 9:
            v = self.new("i")
            self.put(ind, f"{v} = {self.i()} {r.choice('+-*')} {self.i()}")
            self.ints.append(v)
        elif k == 10:
            v = self.new("f")
            self.put(ind, f"{v} = {self.f()} {r.choice('+-*')} {self.num()}")
            self.floats.append(v)
        elif k == 11:
            self.put(ind, r.choice([f"lst.append({self.texpr(1)})", f"lst.append({self.num()})", f"lst.insert(0, {self.num()})",
                                    "lst.reverse()", f"lst.extend([{self.t()}, {self.num()}])"]))  # fmt: skip
        elif k == 12:
            self.put(ind, r.choice([f"d['q{r.randint(0, 2)}'] = {self.texpr(1)}", f"d['k'] = {self.i()}", "d.pop('q1', None)",
                                    f"d.setdefault('q2', {self.num()})", f"GD['b'] = {self.f()}", f"GL.append({self.num()})"]))  # fmt: skip
        elif k == 13:
            self.put(ind, r.choice([f"o.k = {self.num()}", f"o.t = {self.texpr(1)}", f"o.items.append({self.i()})", "o.k += 1",
                                    "Obj.cls_k += 1", f"o.items = [{self.t()}]"]))  # fmt: skip
        elif k == 14:
            self.put(
                ind,
                f"log.append({r.choice([self.i(), self.f(), 'len(log)', 'sorted(d)', 'o.twice', 'Obj.cls_k', 'str(' + self.i() + ')', 'f' + repr('{' + r.choice(self.ints) + '}-{flag!r}')])})",
            )
        elif k == 15:
            v = r.choice(self.tensors[2:] or ["x.clone()"])
            if "(" not in v:
                self.put(
                    ind,
                    r.choice(
                        [
                            f"{v}.add_({self.num()})",
                            f"{v}.mul_({self.f()})",
                            f"{v}[0] = {self.num()}",
                            f"{v} += {self.t()}",
                        ]
                    ),
                )
        elif k == 16:
            self.put(ind, r.choice([f"x.add_({self.f()})", f"y.view(-1)[1:].mul_({self.f()})"]))
        elif k == 17:
            self.put(ind, f"print({r.choice([repr('p'), self.i(), self.t() + '.shape[0]'])})")
        elif k == 18:
            v = self.new("f")
            self.put(ind, f"{v} = {self.t()}.{r.choice(['sum', 'mean', 'max'])}().item()")
            self.floats.append(v)
        elif k == 19:
            fn = self.new("fn")
            self.put(ind, f"def {fn}(v, k={self.num()}):")
            if r.random() < 0.4 and ind == 1:
                c = r.choice(self.ints)
                if c != "n":
                    self.put(ind + 1, f"nonlocal {c}")
                    self.put(ind + 1, f"{c} = {c} + 1")
            self.put(ind + 1, f"return v * k + {self.texpr(1)}")
            self.funcs.append(fn)
        elif k == 20:
            self.put(ind, f"log.append([type({self.t()}).__name__, isinstance({self.i()}, int), {self.i()}])")
        elif depth <= 0:
            self.put(ind, f"{self.t()}")
        elif k < 24:
            self.put(ind, f"if {self.cond()}:")
            self.block(ind + 1, r.randint(1, 3), depth - 1)
            if r.random() < 0.5:
                self.put(ind, "else:")
                self.block(ind + 1, r.randint(1, 2), depth - 1)
        elif k < 26:
            v = self.new("i")
            it = r.choice([f"range({r.randint(1, 3)})", "range(len(lst))", "list(enumerate(log))[:2]", "sorted(d)"])
            self.put(ind, f"for {v} in {it}:")
            if it.startswith("range"):
                self.ints.append(v)
            self.block(ind + 1, r.randint(1, 3), depth - 1)
            if r.random() < 0.3:
                self.put(ind + 1, f"if {self.cond()}:")
                self.put(ind + 2, r.choice(["break", "continue"]))
            if it.startswith("range") and v in self.ints:
                self.ints.remove(v)
        elif k == 26:
            v = self.new("w")
            self.put(ind, f"{v} = 0")
            self.put(ind, f"while {v} < 2 and {self.cond()}:")
            self.put(ind + 1, f"{v} += 1")
            self.block(ind + 1, r.randint(1, 2), depth - 1)
        elif k < 29:
            self.put(
                ind, r.choice(["with T.no_grad():", "with T.enable_grad():", f"with cm(log, 'c{self.count}') as tag:"])
            )
            self.block(ind + 1, r.randint(1, 3), depth - 1)
        elif k < 31:
            self.put(ind, "try:")
            self.block(ind + 1, r.randint(1, 3), depth - 1)
            self.put(ind + 1, r.choice(["pass", f"if {self.cond()}: raise ValueError({self.i()})", "d['missing']", "x @ T.ones(77, 1)",
                                        "1 // (n - n)", "log.nope"]))  # fmt: skip
            self.put(
                ind,
                r.choice(
                    ["except (ValueError, KeyError) as e:", "except Exception as e:", "except ZeroDivisionError as e:"]
                ),
            )
            self.put(ind + 1, "log.append(type(e).__name__)")
            self.block(ind + 1, 1, depth - 1)
            if r.random() < 0.3:
                self.put(ind, "finally:")
                self.put(ind + 1, "log.append('fin')")
        elif k == 31:
            v = self.new("t")
            self.put(ind, f"{v} = [{self.texpr(1)} * q for q in range({r.randint(1, 3)}) if q != {self.i()}]")
            self.put(ind, f"log.append(len({v}))")
            self.put(ind, f"{v} = {v}[0] if {v} else x")
            self.tensors.append(v)
        elif k == 32:
            v = self.new("t")
            self.put(ind, f"{v} = sum(gen({self.t()}, {r.randint(1, 3)}))")
            self.tensors.append(v)
        elif k == 33:
            self.put(ind, f"if {self.cond()}: return {self.t()}, log")
        else:
            v = self.new("t")
            self.put(ind, f"ob = Obj({self.num()}, {self.t()})")
            self.put(ind, f"{v} = ob({self.t()})")
            self.put(ind, "lst.append(ob.items)")
            self.tensors.append(v)

    def program(self) -> str:
        self.put(0, "def f(x, y, n, s, flag, lst, d, o, log):")
        self.block(1, self.r.randint(3, 9), 2)
        outs = self.r.sample(self.tensors, min(3, len(self.tensors)))
        self.put(1, f"return {', '.join(outs)}, {self.i()}, {self.num()}, lst, o.t")
        return HEAD + "\n".join(self.lines) + "\n"


def calls(rng: random.Random, count: int) -> list[dict[str, Any]]:
    """Argument sets for a series of calls: some things change from call to call."""
    base = {"m": rng.choice([2, 3]), "n": rng.randint(0, 3), "s": rng.uniform(-1, 2), "flag": rng.random() < 0.5, "seed": 0,
            "grad": rng.random() < 0.4, "extra": rng.random() < 0.5, "same": rng.random() < 0.1, "off": rng.random() < 0.1}  # fmt: skip
    out = []
    for k in range(count):
        c = dict(base)
        for key, change in (("m", lambda: rng.choice([2, 3, 4, 5])), ("n", lambda: rng.randint(-1, 4)), ("s", lambda: rng.uniform(-2, 2)),
                            ("flag", lambda: rng.random() < 0.5), ("extra", lambda: rng.random() < 0.5), ("same", lambda: rng.random() < 0.3),
                            ("off", lambda: rng.random() < 0.3)):  # fmt: skip
            if rng.random() < 0.35:
                c[key] = change()
        c["seed"] = k
        out.append(c)
    return out


def show(v: Any) -> Any:
    """A result as comparable data."""
    if isinstance(v, T.Tensor):
        return ("T", str(v.dtype), v.requires_grad, v.detach().numpy().astype("float64").copy())
    if isinstance(v, (list, tuple)):
        return [type(v).__name__, *(show(x) for x in v)]
    if isinstance(v, dict):
        return ["dict", *([k, show(x)] for k, x in v.items())]
    if type(v).__name__ == "Obj":
        return ["Obj", show(vars(v))]
    return v


def alike(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.shape == b.shape and np.allclose(a, b, rtol=2e-4, atol=2e-4, equal_nan=True)
    if isinstance(a, (list, tuple)) and type(a) is type(b):
        return len(a) == len(b) and all(alike(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, float) and isinstance(b, float):
        return a == b or math.isclose(a, b, rel_tol=2e-4, abs_tol=2e-4) or (a != a and b != b)
    return type(a) is type(b) and a == b


def run(ns: dict[str, Any], f: Any, series: list[dict[str, Any]]) -> list[Any]:
    """Results of a series of calls, with everything they changed."""
    import contextlib
    import io

    results = []
    for c in series:
        rng = np.random.default_rng(c["seed"])
        x = T.from_numpy(rng.standard_normal(c["m"]).astype("float32"))
        y = x if c["same"] else T.from_numpy(rng.standard_normal(c["m"]).astype("float32"))
        leaves = []
        if c["grad"]:
            leaves = [x.requires_grad_(), y.requires_grad_()]
            x, y = x * 1, y * 1
            y = x if c["same"] else y
        lst = [1, y] if c["extra"] else []
        d = {"k": c["n"], "q1": x} if c["extra"] else {"k": 1}
        o, log = ns["Obj"](c["n"]), []
        out = io.StringIO()
        ns["GL"].clear()
        grad_state = T.no_grad() if c["off"] else contextlib.nullcontext()
        try:
            with contextlib.redirect_stdout(out), grad_state:
                r = f(x, y, c["n"], c["s"], c["flag"], lst, d, o, log)
            back = None
            if isinstance(r, tuple):
                total = sum(
                    (t * 0.5).sum()
                    for t in r
                    if isinstance(t, T.Tensor) and t.requires_grad and t.dtype.is_floating_point
                )
                if isinstance(total, T.Tensor):
                    total.backward()
                    back = [show(t.grad) for t in leaves]
            results.append(["ok", show(r), show(back)])
        except Exception as e:
            results.append(["raised", type(e).__name__, re.sub(r"\w+Backward0|\[s?\d+\]", "...", str(e))])
        results[-1] += [show(x), show(y), show(lst), show(d), show(o), log, out.getvalue(), show(ns["GL"]), ns["GD"]["b"],
                        ns["Obj"].cls_k, T.is_grad_enabled()]  # fmt: skip
    return results


def one(seed: int, verbose: bool = False) -> str | None:
    """Run one program; a description of the difference, or None."""
    rng = random.Random(seed)
    text = Writer(rng).program()
    series = calls(rng, 6)
    spaces: list[dict[str, Any]] = [{"__name__": "fuzz_program"}, {"__name__": "fuzz_program"}]
    for ns in spaces:
        exec(compile(text, f"<fuzz {seed}>", "exec"), ns)
    want = run(spaces[0], spaces[0]["f"], series)
    compiled = T.compile(spaces[1]["f"])
    got = run(spaces[1], compiled, series)
    if verbose:
        print(text)
    for k, (w, g) in enumerate(zip(want, got, strict=True)):
        if not alike(w, g):
            parts = [n for n, (a, b) in enumerate(zip(w, g, strict=False)) if not alike(a, b)]
            return f"seed {seed} call {k} ({series[k]}):\n" + "\n".join(
                f"  part {n}:\n    eager    {w[n]}\n    compiled {g[n]}" for n in parts
            )
    return None


def main() -> None:
    ap = argparse.ArgumentParser()
    ap.add_argument("--seed", type=int, default=0)
    ap.add_argument("--count", type=int, default=100)
    ap.add_argument("-v", action="store_true")
    a = ap.parse_args()
    import warnings

    warnings.simplefilter("ignore")
    bad: list[int] = []
    faults: list[str] = []
    reasons: dict[str, int] = {}
    totals = {"compiles": 0, "graph_breaks": 0, "plain_frames": 0}
    for seed in range(a.seed, a.seed + a.count):
        try:
            r = one(seed, a.v and a.count == 1)
        except Exception as e:
            import traceback

            r = f"seed {seed}: harness {type(e).__name__}: {e}" + (traceback.format_exc() if a.v else "")
        if r:
            bad.append(seed)
            print(r[:1500])
        if seed % 20 == 19 or seed == a.seed + a.count - 1:
            now = T.compiler.stats()
            for k in totals:
                totals[k] += now[k]
            for text in now["break_reasons"]:
                why = re.sub(r"^.*?: (?=FG)", "", text)[:100]
                reasons[why] = reasons.get(why, 0) + 1
            faults += [r for r in now["break_reasons"] if "FG014" in r]
            T.compiler.reset()
    for r in faults[:20]:
        print(r)
    if a.v:
        for why, n in sorted(reasons.items(), key=lambda p: -p[1])[:40]:
            print(n, why)
    print(f"{a.count} programs, {len(bad)} differ: {bad}", totals)
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
