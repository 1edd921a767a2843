"""Guards as one flat generated function, and their leaf-by-leaf evaluation that explains a miss."""

from __future__ import annotations

import functools
import re
from typing import Any

from fusegrad.nn.parameter import Parameter
from fusegrad.tensor import Tensor

from .capture.aliases import FOREIGN, owner_id
from .capture.changing import TOKEN
from .capture.source import Source
from .capture.state import Capture, Guard


@functools.lru_cache(4096)
def _code(text: str) -> Any:
    """The code of a condition: misses look at every guard of every entry."""
    return compile(text, "<fusegrad guards>", "eval")


def memory_is_apart(*arrays: Any) -> bool:
    """Whether each array has memory of its own."""
    owners = set(map(owner_id, arrays))
    return len(owners) == len(arrays) and FOREIGN not in owners


def _owners(cap: Capture) -> list[Guard]:
    """What `_sticky_tensors` looks at besides guards, as one: a miss asks each guard why it is one."""
    if len(cap.owners) + len(cap.loose) < 2 or not cap.owners:
        return []
    arrays = ", ".join(cap.tok(t.source.attr("_data")) for t in (*cap.owners, *cap.loose))
    text = f"{cap.consts.name(memory_is_apart)}({arrays})"
    return [Guard(text, cap.loc, "alias", "tensors that are written to")]


class GuardProgram:
    """The conditions of one entry as the text of one expression over the unit's parameters."""

    def __init__(self, cap: Capture, extra: list[Guard], prefix: str) -> None:
        self.guards = [*extra, *cap.guards]
        self.sources = cap.sources
        self.consts = cap.consts
        self.prefix = prefix
        self.epoch: list[Any] = []
        self.texts: list[str] = []  # of all code that the guards are
        self.asking = [g for g in self.guards if self._asks(g, cap.asked)] if cap.asked else []
        late = [g for g in self.guards if g.text.endswith(".isdisjoint(_fgo)")]  # of owners that are looked at before
        late += [g for g in self.asking if g not in late]
        fast = [g for g in self.guards if not g.safe and not g.fixed and g not in late]
        self.size_guards = _size_guards(cap)
        reader = _Reader(self, extra=[cap.tok(t.source) for t in cap.tensors if t.sticky])
        reader.held = {m for g in fast for m in _HELD.findall(g.text)}
        text = reader.conjunction([g.text for g in [*fast, *self.size_guards]]) or "True"
        safe = [g.text for g in self.guards if g.safe] + _same_dicts(cap)
        if safe:
            name = cap.consts.name(self.epoch)
            inner = _Reader(self).conjunction(safe)
            self.texts.append(inner)
            self.epoch += [-1, _checker(inner, cap.consts.env, self.epoch)]
            text = f"{text} and ({name}[0] == _fgE[0] or {name}[1]())"
        sticky = [t for t in cap.tensors if t.sticky]
        if sticky:
            text += " and " + self._sticky_tensors(cap, sticky, reader)
        if late:
            text += " and " + reader.conjunction([g.text for g in late])
        self.text = text
        self.texts.append(text)
        self.all_guards = [*self.guards, *self.size_guards, *_owners(cap)]
        if self.asking:
            self.all_guards = [*(g for g in self.all_guards if g not in self.asking), *self.asking]
        self._parts: dict[str, tuple[list[Source], Any]] = {}  # filled by the first miss

    def _asks(self, g: Guard, asked: set[str]) -> bool:
        """Whether a condition calls a cached function of the user: only once all others say that the program would."""
        found = (self.sources[int(m[1])] for m in TOKEN.finditer(g.text))
        return not g.safe and not g.fixed and any(_beyond(s, asked) for s in found)

    def _sticky_tensors(self, cap: Any, tensors: list[Any], reader: _Reader) -> str:
        """Tensors reached from fixed objects: their arrays are compared by identity, and only when one was replaced are
        shape, dtype and layout looked at again. Comes last, because it reads on in the names of the main condition."""
        env, quick, names = self.consts.env, [], []
        for t in tensors:
            tok = cap.tok(t.source)
            arr = self.consts.put("_fga", t.real._data)
            names.append((arr, t))
            test = f"{tok}._data is {arr} and {tok}._rg is {bool(t.real._rg)}"
            if t.real.requires_grad and t.leaf:
                test += f" and {tok}._node is None"
            quick.append(test if t.const else f"type({tok}) is {self.consts.name(type(t.real))} and {test}")
        inner = _Reader(self, extra=[cap.tok(t.source) for t in tensors])
        test = inner.conjunction([g.text for g in self.guards if g.fixed]) or "True"
        now = [(arr, f"{inner.expand(cap.tok(t.source))}._data", t in cap.owners) for arr, t in names]
        ids = cap.owner_ids

        def apart(*arrays: Any) -> bool:
            if not memory_is_apart(*arrays):
                return False
            ids.clear()
            ids.update(map(owner_id, arrays))
            return True

        owners = ", ".join(text for _, text, owner in now if owner)
        body = [f"global {', '.join(arr for arr, _ in names)}", "try:", f"    if not ({test}): return False",
                f"    if not {self.consts.name(apart)}({owners}): return False",  # before these arrays count as seen
                *(f"    {arr} = {text}" for arr, text, _ in now), "    return True",
                "except Exception:", "    return False"]  # fmt: skip
        src = "def check():\n" + "\n".join("    " + x for x in body)
        made: dict[str, Any] = {}
        self.texts.append(src)
        exec(compile(src, "<fusegrad guards>", "exec"), env, made)
        return f"(({reader.conjunction(quick)}) or {self.consts.put('_fgc', made['check'])}())"

    def show(self) -> list[str]:
        """Readable conditions, each with the line that caused it."""
        out = []
        for g in self.all_guards:
            text = TOKEN.sub(lambda m: self.sources[int(m[1])].name, g.text)
            text = self.consts.readable(text)
            where = f"  # {g.line[0].rsplit('/', 1)[-1]}:{g.line[1]}" if g.line and g.line[0] else ""
            out.append(text + where)
        return out

    def failing(self, env: dict[str, Any]) -> tuple[list[Guard], list[Guard]]:
        """(guards that do not hold for these parameters, those that were not looked at).

        Beyond an object of another type, or a dict of a user's class with other keys, reading could run the user's
        code (a property, a ``__missing__``) that eager code would not run: such guards are not looked at.
        """
        out: list[Guard] = []
        unread: list[Guard] = []
        closed: set[str] = set()
        for k, g in enumerate(self.all_guards):
            found = self._parts.get(g.text)
            if found is None:
                found = self._parts[g.text] = self._part(g.text)
            sources, code = found
            if (out and g in self.asking) or (closed and any(_beyond(s, closed) for s in sources)):
                unread.append(g)
                continue
            try:
                ok = bool(eval(code, self.consts.env, env))
            except Exception:
                ok = False
            if ok:
                continue
            out.append(g)
            if g.kind == "present":  # reading it would make it
                closed.add(g.value.text)
            if g.kind == "class":  # an attribute may have become a property
                return out, unread + self.all_guards[k + 1 :]
            if g.kind not in _NUMBERS:
                closed.update(s.text for s in sources if type(self._read(s, env)) not in _PLAIN)
        return out, unread

    def _part(self, condition: str) -> tuple[list[Source], Any]:
        """What a condition reads, and its code."""
        sources = [self.sources[int(m[1])] for m in TOKEN.finditer(condition)]
        return sources, _code(TOKEN.sub(lambda m: f"({self.sources[int(m[1])].text})", condition))

    def _read(self, source: Source, env: dict[str, Any]) -> Any:
        try:
            return eval(source.text, self.consts.env, env)
        except Exception:
            return None

    def value(self, g: Guard, env: dict[str, Any]) -> Any:
        """What the first source of a guard reads now; None if it can't be read."""
        m = TOKEN.search(g.text)
        return None if m is None else self._read(self.sources[int(m[1])], env)


_NUMBERS = ("int", "float", "shape", "dim", "rank", "size", "dtype", "layout", "requires_grad", "leaf")
_PLAIN = {list, tuple, dict, set, Tensor, Parameter, int, float, str, bool, type(None)}  # reading them runs no code


def _beyond(source: Source, closed: set[str]) -> bool:
    """Whether reading ``source`` reads one of the places, or goes through it."""
    return source.text in closed or any(_beyond(p, closed) for p in source.parents())


_HELD = re.compile(r"\((_fgh\d+) := ")


class _Reader:
    """Writes conditions that share what they read: a place that is read twice is named (``:=``) at its first use."""

    def __init__(self, program: Any, extra: list[str] | None = None) -> None:
        self.program = program
        self.named: dict[str, str] = {}
        self.uses: dict[str, int] = {}
        self.extra = extra or []
        self.held: set[str] = set()  # variables in which a condition before keeps mortal objects

    def conjunction(self, texts: list[str]) -> str:
        """All conditions joined by ``and``."""
        for t in [*texts, *self.extra]:
            for m in TOKEN.finditer(t):
                self._count(self.program.sources[int(m[1])])
        self.extra = []
        return " and ".join(self.expand(t) for t in texts)

    def expand(self, text: str) -> str:
        return TOKEN.sub(lambda m: self._read(self.program.sources[int(m[1])]), text)

    def _count(self, s: Source) -> None:
        self.uses[s.text] = self.uses.get(s.text, 0) + 1
        if self.uses[s.text] == 1:
            for p in s.parents():
                self._count(p)

    def _read(self, s: Source) -> str:
        if s.kind in ("local", "const"):
            held = s.key.replace("_fgk", "_fgh")[:-2]
            return held if held in self.held else s.key
        store = _module_dict(s, self.program.consts)
        if store is not None:
            return self.program.consts.name(store)
        known = self.named.get(s.text)
        if known is not None:
            return known
        key = self._read(s.key) if isinstance(s.key, Source) else None
        text = s.expr(self._read(s.base) if s.base is not None else "", key)
        if self.uses[s.text] > 1:
            name = self.named[s.text] = f"{self.program.prefix}{len(self.named)}"
            return f"({name} := {text})"
        return text


def _module_dict(s: Source, consts: Any) -> dict[str, Any] | None:
    """The dict that ``s`` reads, if it is the own one of a module that is always the same object."""
    if s.kind == "attr" and s.key == "__dict__" and s.base is not None and s.base.key in consts.modules:
        if not s.base.key.endswith("()"):  # a mortal module's would keep what is in it, perhaps the module
            return consts.env[s.base.key].__dict__
    return None


def _same_dicts(cap: Any) -> list[str]:
    """Conditions of the module epoch: modules still have the dicts that the other conditions name."""
    found = [(s, _module_dict(s, cap.consts)) for s in cap.sources]
    return [f"{s.base.key}.__dict__ is {cap.consts.name(d)}" for s, d in found if d is not None]


def _size_guards(cap: Capture) -> list[Guard]:
    out = []
    for g in cap.sizes.guards:
        text = cap.size_text(str(g))
        cap.looked_at(text)
        out.append(Guard(text, g.loc, "size"))
        out[-1].place = next((place for condition, place in cap.fixed_sizes if condition is g), None)
    return out


def _checker(text: str, env: dict[str, Any], cell: list[Any]) -> Any:
    """A function that evaluates the module guards and, if they hold, remembers the epoch."""
    made: dict[str, Any] = {}
    src = (
        "def make(cell):\n    def check():\n        now = _fgE[0]\n        try:\n"
        f"            ok = {text or 'True'}\n"
        "        except Exception:\n            return False\n        if ok:\n            cell[0] = now\n"
        "        return ok\n    return check\n"
    )
    exec(compile(src, "<fusegrad guards>", "exec"), env, made)
    return made["make"](cell)
