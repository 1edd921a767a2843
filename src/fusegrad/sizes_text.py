"""Reading size expressions back from text: a bounded recursive-descent parser (files are hostile until proved good)."""

from __future__ import annotations

import re
from collections.abc import Container

from .polynomial import Poly, build, extremum

_TOKEN = re.compile(r"\s*(\d{1,19}|[A-Za-z_]\w*|//|\*\*|[-+*%(),])")
_MAX_TEXT = 4000
_MAX_DEPTH = 32


def parse_poly(text: str, symbols: Container[str]) -> Poly:
    """The polynomial written in `text`; ValueError for bad syntax, an unknown symbol, or a text or nesting too long."""
    if not isinstance(text, str) or len(text) > _MAX_TEXT:
        raise ValueError("a size expression must be a text of at most 4000 characters")
    tokens: list[str] = []
    at = 0
    text = text.rstrip()
    while at < len(text):
        m = _TOKEN.match(text, at)
        if not m:
            raise ValueError(f"size expression {text[:60]!r}: unexpected character {text[at]!r}")
        tokens.append(m.group(1))
        at = m.end()
    parser = _Parser(tokens, symbols, text)
    out = parser.sum(0)
    if parser.at != len(tokens):
        raise ValueError(f"size expression {text[:60]!r}: unexpected {tokens[parser.at]!r}")
    return out


class _Parser:
    def __init__(self, tokens: list[str], symbols: Container[str], text: str) -> None:
        self.tokens, self.symbols, self.text, self.at = tokens, symbols, text[:60], 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, want: str | None = None) -> str:
        tok = self.peek()
        if not tok or (want is not None and tok != want):
            raise ValueError(f"size expression {self.text!r}: expected {want or 'a value'}, got {tok or 'the end'}")
        self.at += 1
        return tok

    def sum(self, depth: int) -> Poly:
        if depth > _MAX_DEPTH:
            raise ValueError(f"size expression {self.text!r} is nested too deeply")
        negative = self.peek() == "-"
        if negative:
            self.take()
        out = self.product(depth)
        out = -out if negative else out
        while self.peek() in ("+", "-"):
            sign = self.take()
            right = self.product(depth)
            out = out + right if sign == "+" else out - right
        return out

    def product(self, depth: int) -> Poly:
        out = self.power(depth)
        while self.peek() in ("*", "//", "%"):
            kind = self.take()
            right = self.power(depth)
            try:
                out = out * right if kind == "*" else build("floordiv" if kind == "//" else "mod", [out, right])
            except ZeroDivisionError:
                raise ValueError(f"size expression {self.text!r} divides by zero") from None
        return out

    def power(self, depth: int) -> Poly:
        out = self.atom(depth)
        if self.peek() == "**":
            self.take()
            n = self.take()
            if not n.isdigit():
                raise ValueError(f"size expression {self.text!r}: a power must be a number")
            out = out ** int(n)
        return out

    def atom(self, depth: int) -> Poly:
        tok = self.take()
        if tok.isdigit():
            return Poly.const(int(tok))
        if tok == "(":
            out = self.sum(depth + 1)
            self.take(")")
            return out
        if tok in ("max", "min") and self.peek() == "(":
            self.take("(")
            args = [self.sum(depth + 1)]
            while self.peek() == ",":
                self.take()
                args.append(self.sum(depth + 1))
            self.take(")")
            return extremum(tok, args)
        if tok.isidentifier() and tok in self.symbols:
            return Poly.symbol(tok)
        raise ValueError(f"size expression {self.text!r}: unknown size {tok!r}")
