"""Writes random programs: functions of tensors, numbers and containers, whose every part may change between calls.

Each program draws its own weights for the kinds of statements (most programs use few kinds, often), so that rare
kinds meet each other.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import fuzz_callers
import fuzz_grammar as grammar
import fuzz_later
import fuzz_more
import fuzz_operators as operators
import fuzz_projects
import fuzz_sizes
import fuzz_users
import fuzz_wide

ARGUMENTS = ("x", "y", "z", "q", "n", "s", "flag", "lst", "d", "o", "log", "st", "dq", "mod")
HOLE = re.compile(r"<(\w+)>")
HANDLERS = ("(ValueError, KeyError) as e", "Exception as e", "Exception as e", "ZeroDivisionError as e", "Stop as e",
            "(RuntimeError, IndexError) as e")  # fmt: skip
CAUGHT = ("log.append(type(e).__name__)", "log.append(str(e))", "log.append(e.args)", "log.append(type(e.__cause__))")
BLOCKS = ("if", "if", "for", "while", "with", "try", "match", "closure", "return", "assign")


class Writer:
    """Writes one function ``f`` with the arguments that it uses. ``level`` 1: with the statements of fuzz_more.py, 2:
    of fuzz_sizes.py as well, 3: of fuzz_wide.py, 4: of fuzz_users.py, 5: of fuzz_projects.py, 6: of fuzz_callers.py,
    7: of fuzz_later.py."""

    def __init__(self, rng: random.Random, big: bool = False, level: int = 0) -> None:
        self.r, self.big = rng, big
        self.lines: list[str] = []
        self.tensors, self.wild = ["x", "y"], [*()]  # names: of x's shape, of any
        self.ints, self.floats, self.funcs = ["n"], ["s"], [*()]
        self.count = self.depth = self.loops = 0
        added: dict[str, list[str]] = {}
        for more in (fuzz_more, fuzz_sizes, fuzz_wide, fuzz_users, fuzz_projects, fuzz_callers, fuzz_later)[:level]:
            added = added | more.STATEMENTS
        self.level = level
        self.statements = grammar.STATEMENTS | added
        kinds = [*self.statements, *BLOCKS, *(list(added) * 2), *(list(fuzz_sizes.STATEMENTS) * 2 * (level > 1))]
        kinds += list(fuzz_wide.STATEMENTS) * 6 * (level > 2) + list(fuzz_users.STATEMENTS) * 24 * (level > 3)
        kinds += list(fuzz_projects.STATEMENTS) * 80 * (level > 4) + list(fuzz_callers.STATEMENTS) * 120 * (level > 5)
        kinds += list(fuzz_later.STATEMENTS) * 400 * (level > 6)
        loved = rng.sample(kinds, rng.randint(2, 6))
        self.kinds = [*kinds, *(k for k in loved for _ in range(8)), *(["assign"] * 5)]

    # ---- expressions

    def maybe(self, p: float) -> bool:
        return self.r.random() < p

    def fill(self, text: str, v: str = "", base: str = "") -> str:
        """A template with every hole filled."""

        def hole(m: re.Match) -> str:
            name = m[1]
            return v if name == "v" else base if name == "b" else getattr(self, "h_" + name)()

        return HOLE.sub(hole, text)

    def of(self, templates: list[str], **kw: str) -> str:
        return self.fill(self.r.choice(templates), **kw)

    def deeper(self, make: Callable[[], str], leaf: Callable[[], str], p: float) -> str:
        """``make()`` one level down, or a leaf."""
        if self.depth <= 0 or self.maybe(p):
            return leaf()
        self.depth -= 1
        try:
            return make()
        finally:
            self.depth += 1

    def h_t(self) -> str:
        return self.r.choice(self.tensors)

    def h_I(self) -> str:
        return self.r.choice(self.ints)

    def h_F(self) -> str:
        return self.r.choice(self.floats)

    def h_k(self) -> str:
        return str(self.r.randint(0, 3))

    def h_d(self) -> str:
        return self.r.choice(grammar.DTYPES)

    def h_u(self) -> str:
        return self.r.choice(operators.unary())

    def h_i(self) -> str:
        leaf = lambda: self.r.choice([*self.ints, *self.ints, self.h_k(), str(self.r.randint(-2, 5))])
        return self.deeper(lambda: self.of(grammar.INTS), leaf, 0.5)

    def h_w(self) -> str:
        return self.r.choice([*self.wild, *self.wild, "z", self.h_t()])

    def h_opt(self) -> str:
        return self.r.choice(fuzz_wide.OPTIMIZERS)

    def h_z(self) -> str:
        return self.of(fuzz_sizes.SIZES)

    def h_f(self) -> str:
        leaf = lambda: self.r.choice([*self.floats, *self.floats, f"{self.r.uniform(-2, 2):.2f}", "G", "GD['b']"])
        return self.deeper(lambda: self.of(grammar.FLOATS), leaf, 0.6)

    def h_n(self) -> str:
        return self.h_i() if self.maybe(0.5) else self.h_f()

    def h_c(self) -> str:
        return self.deeper(lambda: self.of(grammar.CONDITIONS), lambda: f"{self.h_I()} > {self.h_k()}", 0.1)

    def h_e(self) -> str:
        return self.deeper(lambda: f"({self.of(grammar.TENSORS)})", self.h_t, 0.3)

    def h_E(self) -> str:
        before, self.depth = self.depth, 3
        try:
            return self.of(grammar.TENSORS)
        finally:
            self.depth = before

    def h_s(self) -> str:
        w = self.r.choice([*self.wild, "z", self.h_t()]) if self.maybe(0.5) else self.h_t()
        return f"{w}.{self.r.choice(('sum', 'mean', 'max', 'min', 'prod', 'std', 'norm'))}()"

    def h_p(self) -> str:
        return self.r.choice(operators.inplace()).replace("{0}", self.h_t())

    def h_fn(self) -> str:
        return self.r.choice(self.funcs) if self.funcs else self.r.choice(("helper", "T.neg", "o.scale"))

    def h_view(self) -> str:
        return self.of(grammar.VIEWS, base=self.h_t())

    def h_wide(self) -> str:
        return self.of(grammar.WIDE)

    def h_loss(self) -> str:
        return self.of(grammar.LOSSES)

    def h_op(self) -> str:
        """A call from the op table; its tensor depends on the program's."""
        groups: dict[str, Any] = operators.groups()
        c = self.r.choice(groups[self.r.choice(operators.group_names())])
        if not c.first:
            return c.text
        if c.direct and self.maybe(0.5):
            return c.text.format(self.h_t())
        lift = self.r.choice(LIFTS)
        if c.method and c.name.endswith("_") and lift == "{k}":
            lift = "{k}.clone()"
        return c.text.format(lift.format(k=c.first, v=self.h_t()))

    # ---- statements

    def put(self, ind: int, text: str) -> None:
        self.lines.append("    " * ind + text)

    def block(self, ind: int, n: int, depth: int) -> None:
        saved = [list(v) for v in (self.tensors, self.wild, self.ints, self.floats, self.funcs)]
        before = len(self.lines)
        for _ in range(n):
            self.statement(ind, depth)
        if len(self.lines) == before:
            self.put(ind, "pass")
        if ind > 1:
            self.tensors, self.wild, self.ints, self.floats, self.funcs = saved

    def body(self, ind: int, depth: int, most: int = 2) -> None:
        """A nested block; one plain statement where blocks are nested deep enough."""
        if depth <= 0:
            self.template(ind, self.r.choice(("log", "number", "again", "list", "attribute")))
        else:
            self.block(ind, self.r.randint(1, most), depth - 1)

    def statement(self, ind: int, depth: int) -> None:
        kind = self.r.choice(self.kinds)
        if kind in self.statements:
            self.template(ind, kind)
        else:
            self.depth = 2
            getattr(self, "s_" + kind)(ind, depth)

    def template(self, ind: int, kind: str) -> None:
        """A statement of a template; remembers the name that it makes."""
        self.depth = 2
        makes, _, text = self.r.choice(self.statements[kind]).partition(" ")
        self.count += 1
        v = f"{makes[0]}{self.count}" if makes != "-" else ""
        lines = self.fill(text, v=v).split(" ;; ")
        for line in lines:
            self.put(ind, line)
        if makes == "l:":
            self.put(ind, f"log.append(len({v}))")
            self.put(ind, f"{v} = {v}[{self.r.choice(('0', '-1'))}] if {v} else x")
        pool = {"t:": self.tensors, "l:": self.tensors, "w:": self.wild, "i:": self.ints, "f:": self.floats}.get(makes)
        if pool is not None:
            pool.append(v)

    def s_assign(self, ind: int, depth: int) -> None:
        self.count += 1
        v = f"t{self.count}"
        self.put(ind, f"{v} = {self.of(grammar.TENSORS)}")
        self.tensors.append(v)

    def s_if(self, ind: int, depth: int) -> None:
        self.put(ind, f"if {self.h_c()}:")
        self.body(ind + 1, depth, 3)
        if self.maybe(0.2):
            self.put(ind, f"elif {self.h_c()}:")
            self.body(ind + 1, depth)
        if self.maybe(0.5):
            self.put(ind, "else:")
            self.body(ind + 1, depth)

    def s_for(self, ind: int, depth: int) -> None:
        self.count += 1
        v, it = f"i{self.count}", self.of(grammar.ITERABLES)
        self.put(ind, f"for {v} in {it}:")
        number = it.startswith("range")
        if number:
            self.ints.append(v)
        elif self.maybe(0.4):
            texts = [f"log.append(type({v}).__name__)", f"o.t = {v}", f"lst.append({v})" if "lst" not in it else "pass"]
            self.put(ind + 1, self.r.choice(texts))
        self.loops += 1
        self.body(ind + 1, depth, 3)
        self.loops -= 1
        if self.maybe(0.3):
            self.put(ind + 1, f"if {self.h_c()}: {self.r.choice(('break', 'continue'))}")
        if number and v in self.ints:
            self.ints.remove(v)
        if self.maybe(0.15):
            self.put(ind, "else:")
            self.put(ind + 1, f"log.append({self.h_i()})")

    def s_while(self, ind: int, depth: int) -> None:
        self.count += 1
        v = f"k{self.count}"
        self.put(ind, f"{v} = 0")
        self.put(ind, f"while {v} < {self.r.randint(1, 3)} and {self.h_c()}:")
        self.put(ind + 1, f"{v} += 1")
        self.loops += 1
        self.body(ind + 1, depth)
        self.loops -= 1

    def s_with(self, ind: int, depth: int) -> None:
        manager = self.r.choice(grammar.MANAGERS)
        self.put(ind, f"with {manager}:")
        if "ExitStack" in manager:
            self.put(ind + 1, "es.callback(log.append, 'cb')")
        self.body(ind + 1, depth, 3)
        if self.maybe(0.2):
            self.put(ind + 1, self.of(grammar.RAISES))

    def s_try(self, ind: int, depth: int) -> None:
        self.put(ind, "try:")
        self.body(ind + 1, depth, 3)
        fault = self.r.choice(operators.wrong()) if self.maybe(0.15) else self.of(grammar.RAISES)
        self.put(ind + 1, f"if {self.h_c()}: {fault}" if self.maybe(0.3) else fault)
        caught = self.maybe(0.85)
        if caught:
            self.put(ind, f"except {self.r.choice(HANDLERS)}:")
            self.put(ind + 1, self.r.choice(CAUGHT))
            self.body(ind + 1, depth, 1)
            if self.maybe(0.1):
                texts = ("raise", "raise RuntimeError('again') from e", "return x, log", "raise Stop(n)")
                self.put(ind + 1, self.r.choice(texts))
            if self.maybe(0.15):
                self.put(ind, "else:")
                self.put(ind + 1, "log.append('else')")
        if not caught or self.maybe(0.3):
            self.put(ind, "finally:")
            self.template(ind + 1, self.r.choice(("log", "attribute", "list", "again")))

    def s_match(self, ind: int, depth: int) -> None:
        self.count += 1
        v = f"t{self.count}"
        self.put(ind, f"{v} = {self.h_t()}")
        self.put(ind, f"match {self.of(grammar.SUBJECTS)}:")
        for c in self.r.sample(grammar.CASES, self.r.randint(1, 3)):
            self.put(ind + 1, f"case {c}:")
            self.put(ind + 2, self.fill(self.r.choice((f"{v} = <e>", "log.append(<i>)", "lst.append(<n>)"))))
        self.put(ind + 1, "case _:")
        self.put(ind + 2, f"{v} = {v} * {self.h_n()}")
        self.tensors.append(v)

    def s_closure(self, ind: int, depth: int) -> None:
        self.count += 1
        fn = f"fn{self.count}"
        if self.maybe(0.25):
            self.put(ind, self.r.choice(("@logged(log)", "@COMPILE", "@functools.wraps(helper)", "@T.no_grad()")))
        self.put(ind, f"def {fn}(v, k={self.h_n()}{self.r.choice(('', '', ', *rest', ', **kw'))}):")
        inner = [v for v in self.ints if v not in ("n",)]
        if self.maybe(0.4) and ind == 1 and inner:
            c = self.r.choice(inner)
            self.put(ind + 1, f"nonlocal {c}")
            self.put(ind + 1, f"{c} = {c} + 1")
        if self.maybe(0.35):
            texts = (
                "if <c>: return v",
                "log.append(<i>)",
                "o.items.append(k)",
                "lst.append(<n>)",
                "v = v + 1",
                "v.add_(1)",
            )
            self.put(ind + 1, self.fill(self.r.choice(texts)))
        self.put(ind + 1, f"return v * k + {self.h_e()}")
        self.funcs.append(fn)
        if self.maybe(0.6):
            self.count += 1
            v = f"t{self.count}"
            self.put(ind, self.fill(f"<v> = {fn}(<t>{self.r.choice(('', ', 2', ', k=<n>'))})", v=v))
            self.tensors.append(v)

    def s_return(self, ind: int, depth: int) -> None:
        if ind > 1 or self.maybe(0.4):
            self.put(ind, f"if {self.h_c()}: return {self.h_t()}, log")
        elif self.loops:
            self.put(ind, f"if {self.h_c()}: break")

    # ---- the whole

    def program(self) -> str:
        self.block(1, self.r.randint(3, 9) if self.big else self.r.choice((1, 2, 2, 3, 3, 4, 5)), 2)
        outs = self.r.sample(self.tensors, min(2, len(self.tensors)))
        outs += self.r.sample(self.wild, min(2, len(self.wild)))
        self.depth = 2
        extra = [self.fill(t) for t in ("<i>", "<n>", "lst", "o.t") if self.maybe(0.3)]
        self.put(1, f"return {', '.join([*outs, *extra])},")
        body = "\n".join(self.lines)
        arguments = (
            *ARGUMENTS,
            *(fuzz_wide.ARGUMENTS * (self.level > 2)),
            *(fuzz_callers.ARGUMENTS * (self.level > 5)),
        )
        used = [a for a in arguments if a == "x" or re.search(rf"\b{a}\b", body)]
        if self.level > 5 and self.maybe(0.7):
            made = fuzz_callers.wrapped(self.r.choice(fuzz_callers.WRAPS), body, used, ", ".join(self.signature(used)))
            if made:
                return made
        if self.level > 4:
            kind = self.r.choice((*fuzz_wide.WRAPS, *fuzz_projects.WRAPS))
            made = fuzz_projects.wrapped(kind, body, used, ", ".join(self.signature(used)))
            return made or fuzz_wide.wrapped(kind, body, used, ", ".join(self.signature(used)))
        if self.level > 2:
            return fuzz_wide.wrapped(self.r.choice(fuzz_wide.WRAPS), body, used, ", ".join(self.signature(used)))
        return f"def f({', '.join(self.signature(used))}):\n{body}\n"

    def signature(self, used: list[str]) -> list[str]:
        """The parameters: sometimes keyword-only, with a default, or with ``**kw``."""
        style = self.r.random()
        if style < 0.08 and len(used) > 2:
            return [*used[:2], "*", *used[2:]]
        if style < 0.14:
            return [*used, "extra=3", "**kw"]
        if style < 0.2 and "n" in used:
            return [*(a for a in used if a != "n"), "n=2"]
        return used


LIFTS = ("({k} + 0.01 * {v}.sum())", "({k} + 0.01 * {v}.sum())", "({k} * (1 + 0.01 * {v}[:1]))", "{k}", "{k}.clone()",
         "({k} + GT[0] * 0.1)")  # fmt: skip
