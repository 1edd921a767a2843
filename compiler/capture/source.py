"""Where a value came from. The same object makes the guard and the code that loads the value again."""

from __future__ import annotations

from typing import Any


class Source:
    """A place that generated code can read: a parameter of the segment, a constant, an attribute or an item.

    ``kind``: "local" (a parameter), "const" (an object in the generated code's namespace), "attr", "item", "entry",
    "call".  ``key``: parameter name, constant's name, attribute name, item key (a literal or a Source), or call text.
    """

    __slots__ = ("kind", "base", "key", "name", "_text")

    def __init__(self, kind: str, base: Source | None, key: Any, name: str) -> None:
        self.kind, self.base, self.key, self.name = kind, base, key, name
        self._text: str | None = None

    def attr(self, name: str) -> Source:
        return Source("attr", self, name, f"{self.name}.{name}")

    def item(self, key: Any) -> Source:
        shown = key.name if isinstance(key, Source) else repr(key)
        return Source("item", self, key, f"{self.name}[{shown}]")

    def entry(self, key: Any) -> Source:
        """An item of a dict that would make missing ones (a defaultdict): read without making it."""
        out = self.item(key)
        out.kind = "entry"
        return out

    def call(self, text: str, name: str | None = None) -> Source:
        """`text` with ``{}`` in the base's place."""
        return Source("call", self, text, name or text.format(self.name))

    def expr(self, base: str, key: str | None = None) -> str:
        """Source text, given the text of the base (and of a key that is a Source)."""
        if self.kind == "attr":
            return f"{base}.{self.key}"
        if self.kind == "item":
            return f"{base}[{key if key is not None else repr(self.key)}]"
        if self.kind == "entry":
            return f"_fgget({base}, {key if key is not None else repr(self.key)}, _fgStop)"
        if self.kind == "call":
            return self.key.format(base)
        return self.key

    @property
    def text(self) -> str:
        """Whole source text, nothing shared."""
        if self._text is None:
            key = self.key.text if isinstance(self.key, Source) else None
            self._text = self.expr(self.base.text if self.base is not None else "", key)
        return self._text

    def parents(self) -> list[Source]:
        out = [] if self.base is None else [self.base]
        if isinstance(self.key, Source):
            out.append(self.key)
        return out

    def root(self) -> Source:
        s = self
        while s.base is not None:
            s = s.base
        return s

    def path(self) -> str:
        """A stable name across captures (used to remember which numbers and sizes change)."""
        return self.name

    def __repr__(self) -> str:
        return f"<{self.name}>"


def local(var: str, name: str | None = None) -> Source:
    """A parameter of the generated function."""
    return Source("local", None, var, name or var)


def const(var: str, name: str) -> Source:
    """An object that the generated code's namespace holds under ``var``."""
    return Source("const", None, var, name)
