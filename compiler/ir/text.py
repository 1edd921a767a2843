"""Print graphs and read them back: ``parse(print_graph(g))`` equals ``g`` (user lines are comments and do not count).

::

    graph loss(x: f32[B, 64], w: f32[64, 32], y: i64[B]) where B in 2..256
      %0: f32[B, 32] = matmul(x, w)  # model.py:12
      %1: f32[B, 32] = relu(%0)  # model.py:13
      %2: f32[] = sum(%1, dim=None, keepdim=False, dtype=None)
      return %2 ; mutates b <- %1 ; rng 1 draw

Arguments before the first ``name=`` are the operator's tensors; the rest are attributes. Symbolic sizes stand in braces
there (``shape=({B*2}, 4)``) and bare inside the brackets of a type. Sizes that no input has are listed after a
semicolon: ``graph f(x: f32[3]; n)``.
"""

from __future__ import annotations

import ast
import math
import os
import re
from typing import Any

from fusegrad import dtypes
from fusegrad.meta import Meta

from .bind import bind_sizes
from .graph import MAX_DEPTH, Graph, Value

__all__ = ["GraphSyntaxError", "format_attr", "format_meta", "parse", "print_graph", "print_node"]

_RESERVED = {"None", "True", "False", "inf", "nan", "slice"}


class GraphSyntaxError(ValueError):
    """The text is not a graph. The message has the line number and the line."""


# -- printing


def format_meta(meta: Meta) -> str:
    """A type as graphs print it.

    ``f32[B, 3]``, ``~`` for a run-time Python number, ``@(1, 4)`` for strides that are not C order.
    """
    text = f"{meta.dtype.short}[{', '.join(map(str, meta.shape))}]"
    if meta.weak:
        text += "~"
    if meta.strides is not None:
        text += f"@({', '.join(map(str, meta.strides))})"
    return text


def format_attr(value: Any) -> str:
    """One attribute (or non-tensor argument) as text."""
    if value is None or isinstance(value, (bool, int)):
        return str(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(value)
    if isinstance(value, str):
        return repr(value)
    if isinstance(value, dtypes.dtype):
        return value.short
    if isinstance(value, tuple):
        return "(" + ", ".join(map(format_attr, value)) + ("," if len(value) == 1 else "") + ")"
    if isinstance(value, list):
        return "[" + ", ".join(map(format_attr, value)) + "]"
    if isinstance(value, slice):
        return f"slice({format_attr(value.start)}, {format_attr(value.stop)}, {format_attr(value.step)})"
    if value is Ellipsis:
        return "..."
    if isinstance(value, Graph):  # printed below its node
        return "@" + value.name
    if hasattr(value, "expr"):  # SymInt
        return "{" + str(value) + "}"
    raise TypeError(f"a graph cannot hold the attribute value {value!r} of type {type(value).__name__}")


def _format_arg(value: Any, names: dict[Value, str]) -> str:
    if isinstance(value, Value):
        return names[value]
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_format_arg(v, names) for v in value) + "]"
    return format_attr(value)


def print_node(node: Any, names: dict[Value, str], locs: bool = True) -> str:
    """One line of a graph, without indentation."""
    results = ", ".join(f"{names.get(v, '?')}: {format_meta(v.meta)}" for v in node.outputs)
    parts = [_format_arg(a, names) for a in node.args]
    parts += [f"{key}={format_attr(value)}" for key, value in node.attrs.items()]
    line = f"{results} = {node.op.name}({', '.join(parts)})"
    if locs and node.loc is not None:
        line += f"  # {os.path.basename(node.loc[0])}:{node.loc[1]}"
    return line


def print_graph(graph: Graph, locs: bool = True, depth: int = 0) -> str:
    """The whole graph as text, one node a line; the graphs that a node holds follow it, indented.

    ``locs=False`` leaves the user's lines out (the canonical form for cache keys). ``depth``: nested how deep.
    """
    names = graph.number()
    for value in graph.inputs:
        if value.name in _RESERVED:
            names[value] = value.name + "_"
    params = ", ".join(f"{names[v]}: {format_meta(v.meta)}" for v in graph.inputs)
    if graph.size_params:
        params += "; " + ", ".join(graph.size_params)
    head = f"graph {graph.name}({params})"
    where = _where_text(graph) if not depth else ""
    lines = [head + (f" where {where}" if where else "")]
    for node in graph.nodes:
        lines.append("  " + print_node(node, names, locs))
        for inner in node.attrs.values():
            if isinstance(inner, Graph):
                lines += ["    " + line for line in print_graph(inner, locs, depth + 1).splitlines()]
    last = "  return " + ", ".join(_format_arg(out, names) for out in graph.outputs)
    if graph.mutations:
        last += " ; mutates " + ", ".join(f"{names[d]} <- {_format_arg(s, names)}" for d, s in graph.mutations)
    if graph.draws:
        last += f" ; rng {graph.draws} draw{'s' if graph.draws > 1 else ''}"
    return "\n".join([*lines, last]) + "\n"


def _where_text(graph: Graph) -> str:
    return "" if graph.sizes is None else graph.sizes.where_text()


# -- parsing

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<string>'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")
    | (?P<number>-?(?:\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\d+|inf\b|nan\b))
    | (?P<name>%\d+|[A-Za-z_][A-Za-z_0-9.]*)
    | (?P<brace>\{[^{}]*\})
    | (?P<dots>\.\.\.)
    | (?P<graph>@[A-Za-z_][A-Za-z_0-9.]*)
    | (?P<punct><-|[()\[\],:;=~@])
    )""",
    re.VERBOSE,
)
_LOC = re.compile(r"\s\s#\s(?P<file>.+):(?P<line>\d+)\s*$")


class Promise:
    """An attribute that is a graph which has not been read yet."""

    def __init__(self, name: str) -> None:
        self.name = name


class _Parser:
    def __init__(self, text: str, ops: dict[str, Any], sizes: Any) -> None:
        self.lines = text.splitlines()
        self.ops = ops
        self.graph = Graph(sizes=sizes)
        self.values: dict[str, Value] = {}
        self.row = 0
        self.line = ""
        self.pos = 0
        self.depth = 0

    # tokens of the current line
    def fail(self, message: str) -> None:
        raise GraphSyntaxError(f"line {self.row}: {message} (at column {self.pos + 1}): {self.line.strip()[:200]}")

    def peek(self) -> str:
        match = _TOKEN.match(self.line, self.pos)
        return match.group().strip() if match else ""

    def next(self) -> tuple[str, str]:
        match = _TOKEN.match(self.line, self.pos)
        if match is None:
            self.fail("unexpected text or end of line")
        assert match is not None and match.lastgroup is not None
        self.pos = match.end()
        return match.lastgroup, match.group(match.lastgroup)

    def expect(self, token: str) -> None:
        kind, text = self.next()
        if text != token:
            self.fail(f"expected {token!r}, found {text!r}")

    def until(self, stops: str, close: str) -> list[str]:
        """Raw pieces separated by ``stops`` up to the bracket ``close`` (nested brackets are passed over); consumes
        ``close``.
        """
        pieces, depth, start = [], 0, self.pos  # type: ignore[var-annotated]
        for i in range(self.pos, len(self.line)):
            c = self.line[i]
            if depth == 0 and (c in stops or c == close):
                piece = self.line[start:i].strip()
                if piece or c in stops or pieces:
                    pieces.append(piece)
                start = i + 1
                if c == close:
                    self.pos = i + 1
                    return pieces
            elif c in "([{":
                depth += 1
            elif c in ")]}":
                depth -= 1
        self.fail(f"missing {close!r}")
        return []

    def size(self, text: str) -> Any:
        if re.fullmatch(r"-?\d+", text):
            return int(text)
        if self.graph.sizes is None:
            self.fail(f"symbolic size {text!r} in a graph without size symbols")
        from fusegrad.sizes import parse_expr

        try:
            return parse_expr(text, self.graph.sizes)
        except (ValueError, KeyError, SyntaxError) as error:
            self.fail(f"bad size {text!r}: {error}")

    def meta(self) -> Meta:
        _, short = self.next()
        if short not in dtypes.BY_SHORT:
            self.fail(f"unknown type {short!r}")
        self.expect("[")
        shape = tuple(self.size(t) for t in self.until(",", "]") if t)
        weak, strides = False, None
        if self.peek() == "~":
            self.next()
            weak = True
        if self.peek() == "@":
            self.next()
            self.expect("(")
            strides = tuple(self.size(t) for t in self.until(",", ")") if t)
            if len(strides) != len(shape):
                self.fail("strides and shape differ in length")
        return Meta(shape, dtypes.BY_SHORT[short], strides, weak)

    def attr(self) -> Any:
        kind, text = self.next()
        if kind == "string":
            return ast.literal_eval(text)
        if kind == "number":
            return int(text) if re.fullmatch(r"-?\d+", text) else float(text)
        if kind == "brace":
            return self.size(text[1:-1].strip())
        if kind == "dots":
            return Ellipsis
        if kind == "graph":
            return Promise(text[1:])
        if text in ("(", "["):
            return self.sequence(text, self.attr)
        if text == "slice":
            self.expect("(")
            parts = self.sequence("(", self.attr)
            if len(parts) != 3:
                self.fail("slice needs three parts")
            return slice(*parts)
        constants = {"None": None, "True": True, "False": False, "inf": math.inf, "nan": math.nan}
        if text in constants:
            return constants[text]
        if text in dtypes.BY_SHORT:
            return dtypes.BY_SHORT[text]
        self.fail(f"cannot read {text!r}")

    def sequence(self, opened: str, item: Any) -> Any:
        close = ")" if opened == "(" else "]"
        out = []
        while self.peek() != close:
            out.append(item())
            if self.peek() != close:
                self.expect(",")
        self.expect(close)
        return tuple(out) if opened == "(" else out

    def arg(self) -> Any:
        text = self.peek()
        if text == "[":
            self.next()
            return self.sequence("[", self.arg)
        if text in self.values:
            self.next()
            return self.values[text]
        if text.startswith("%"):
            self.fail(f"{text} is used before it is defined")
        return self.attr()

    # lines
    def parse(self) -> Graph:
        body = [(i + 1, line) for i, line in enumerate(self.lines) if line.strip()]
        rest = self.block(body, 0)
        if rest < len(body):
            self.start(*body[rest])
            self.fail("text after the return line")
        return self.graph

    def block(self, body: list[tuple[int, str]], at: int) -> int:
        """Read a graph that starts at ``body[at]``; the number of the line after its return line."""
        if len(body) - at < 2:
            raise GraphSyntaxError("a graph has at least a head and a return line")
        self.head(*body[at])
        at += 1
        while at < len(body) and body[at][1].split(None, 1)[0] != "return":
            self.node(*body[at])
            at += 1
            attrs = self.graph.nodes[-1].attrs if self.graph.nodes else {}
            for key in [k for k, v in attrs.items() if isinstance(v, Promise)]:
                inner = _Parser("", self.ops, self.graph.sizes)
                inner.depth = self.depth + 1
                if inner.depth > MAX_DEPTH:
                    self.fail(f"graphs nested deeper than {MAX_DEPTH}")
                at = inner.block(body, at)
                self.graph.sizes = self.graph.sizes or inner.graph.sizes
                if inner.graph.name != attrs[key].name:
                    self.fail(f"the graph {attrs[key].name!r} should follow, found {inner.graph.name!r}")
                attrs[key] = bind_sizes(inner.graph)
        if at == len(body):
            raise GraphSyntaxError(f"graph {self.graph.name}: there is no return line")
        self.last(*body[at])
        return at + 1

    def start(self, row: int, line: str) -> None:
        self.row, self.line, self.pos = row, line, 0

    def head(self, row: int, line: str) -> None:
        self.start(row, line)
        self.expect("graph")
        self.graph.name = self.next()[1]
        where = self.line.rfind(") where ")
        if where >= 0:
            self.where(self.line[where + 8 :])
            self.line = self.line[: where + 1]
        self.expect("(")
        while self.peek() not in (")", ";"):
            _, name = self.next()
            if name in self.values:
                self.fail(f"input {name} is listed twice")
            self.expect(":")
            self.values[name] = self.graph.add_input(self.meta(), name)
            if self.peek() not in (")", ";"):
                self.expect(",")
        if self.next()[1] == ";":
            self.graph.size_params = [t for t in self.until(",", ")") if t]

    def where(self, text: str) -> None:
        if self.graph.sizes is None:
            from fusegrad.sizes import SizeContext

            self.graph.sizes = SizeContext()
        for part in text.split(","):
            match = re.fullmatch(r"\s*([A-Za-z_]\w*) in (-?\d+)(\.\.(-?\d+)?)?\s*", part)
            if match is None:
                self.fail(f"cannot read the bound {part.strip()!r}")
            assert match is not None
            name, low, high = match.group(1), int(match.group(2)), match.group(2)
            if match.group(3):
                high = match.group(4)
            if name not in self.graph.sizes.symbols:
                top = None if high is None else int(high)
                typical = max(low, 2) if top is None else min(max(low, 2), top)  # 0 and 1 are special to broadcasting
                self.graph.sizes.symbol(name, typical, min=low, max=top)

    def node(self, row: int, line: str) -> None:
        loc = _LOC.search(line)
        self.start(row, line[: loc.start()] if loc else line)
        names, metas = [], []
        while True:
            names.append(self.next()[1])
            self.expect(":")
            metas.append(self.meta())
            if self.peek() != ",":
                break
            self.next()
        self.expect("=")
        name = self.next()[1]
        if name not in self.ops:
            self.fail(f"unknown operator {name!r}")
        self.expect("(")
        args, attrs = [], {}
        while self.peek() != ")":
            key = re.match(r"\s*([A-Za-z_]\w*)=", self.line[self.pos :])
            if key:
                self.pos += key.end()
                attrs[key.group(1)] = self.attr()
            elif attrs:
                self.fail("an argument follows an attribute")
            else:
                args.append(self.arg())
            if self.peek() != ")":
                self.expect(",")
        self.next()
        where = (loc.group("file"), int(loc.group("line"))) if loc else None
        node = self.graph.append(self.ops[name], tuple(args), attrs, tuple(metas), where)
        for label, value in zip(names, node.outputs, strict=True):
            if label in self.values:
                self.fail(f"{label} is defined twice")
            self.values[label] = value

    def last(self, row: int, line: str) -> None:
        self.start(row, line)
        self.expect("return")
        graph = self.graph
        while self.pos < len(self.line.rstrip()) and self.peek() != ";":
            graph.outputs.append(self.arg())
            if self.peek() == ",":
                self.next()
        while self.pos < len(self.line.rstrip()):
            self.expect(";")
            word = self.next()[1]
            if word == "rng":
                graph.draws = int(self.next()[1])
                self.next()
            elif word == "mutates":
                while True:
                    target = self.next()[1]
                    if target not in self.values:
                        self.fail(f"unknown input {target!r}")
                    self.expect("<-")
                    graph.mutations.append((self.values[target], self.arg()))
                    if self.peek() != ",":
                        break
                    self.next()
            else:
                self.fail(f"unexpected {word!r}")


def parse(text: str, ops: dict[str, Any] | None = None, sizes: Any = None) -> Graph:
    """Read a graph. ``ops`` defaults to ``fusegrad.op.TABLE``; ``sizes`` to a new SizeContext when symbols occur.

    Raises ``GraphSyntaxError`` with line and column; the text is only read, never evaluated as code.
    """
    if ops is None:
        from fusegrad.op import TABLE as ops  # noqa: N811
    return _Parser(text, ops, sizes).parse()  # type: ignore[arg-type]
