"""Guards as one flat generated function, and their leaf-by-leaf evaluation that explains a miss."""

from __future__ import annotations

from typing import Any

from .capture.source import Source
from .capture.state import TOKEN, Capture, Guard


class GuardProgram:
    """The conditions of one entry as the text of one expression over the unit's parameters."""

    def __init__(self, cap: Capture, extra: list[Guard], prefix: str) -> None:
        self.guards = [*extra, *_ordered(cap.guards)]
        self.sources = cap.sources
        self.consts = cap.consts
        self.prefix = prefix
        self.epoch: list[Any] = []
        fast = [g for g in self.guards if not g.safe and not g.fixed]
        self.size_guards = _size_guards(cap)
        text = self._conjunction([g.text for g in [*fast, *self.size_guards]]) or "True"
        fixed = [t for t in cap.tensors if t.fixed]
        if fixed:
            text += " and " + self._fixed_tensors(fixed)
        safe = [g for g in self.guards if g.safe]
        if safe:
            name = cap.consts.name(self.epoch)
            inner = self._conjunction([g.text for g in safe])
            self.epoch += [-1, _checker(inner, cap.consts.env, self.epoch)]
            text = f"{text} and ({name}[0] == _fgE[0] or {name}[1]())"
        self.text = text
        self.all_guards = [*self.guards, *self.size_guards]

    def _conjunction(self, texts: list[str]) -> str:
        """All conditions joined by ``and``; what several of them read is read once (``:=`` at its first use)."""
        uses: dict[str, int] = {}

        def count(s: Source) -> None:
            uses[s.text] = uses.get(s.text, 0) + 1
            if uses[s.text] == 1:
                for p in s.parents():
                    count(p)

        for t in texts:
            for m in TOKEN.finditer(t):
                count(self.sources[int(m[1])])
        named: dict[str, str] = {}

        def read(s: Source) -> str:
            if s.kind in ("local", "const"):
                return s.key
            known = named.get(s.text)
            if known is not None:
                return known
            key = read(s.key) if isinstance(s.key, Source) else None
            text = s.expr(read(s.base) if s.base is not None else "", key)
            if uses[s.text] > 1:
                named[s.text] = f"{self.prefix}{len(named)}"
                return f"({named[s.text]} := {text})"
            return text

        return " and ".join(TOKEN.sub(lambda m: read(self.sources[int(m[1])]), t) for t in texts)

    def _fixed_tensors(self, tensors: list[Any]) -> str:
        """Tensors that are the same objects every time: their arrays are compared by identity, and only when one was
        replaced are shape, dtype and layout looked at again."""
        env = self.consts.env
        quick, names = [], []
        for t in tensors:
            k = t.source.key
            arr = self.consts.put("_fga", t.real._data)
            names.append((arr, k))
            rg = t.real.requires_grad
            quick.append(f"{k}._data is {arr} and {k}._rg is {bool(t.real._rg)}" + (f" and {k}._node is None" if rg and t.leaf else ""))
        inner = self._conjunction([g.text for g in self.guards if g.fixed])
        src = f"def check():\n    try:\n        ok = {inner}\n    except Exception:\n        return False\n    if ok:\n        again()\n    return ok\n"
        made: dict[str, Any] = {}

        def again() -> None:
            for arr, k in names:
                env[arr] = env[k]._data

        name = self.consts.name(again)
        exec(compile(src.replace("again()", f"{name}()"), "<fusegrad guards>", "exec"), env, made)
        check = self.consts.put("_fgc", made["check"])
        return f"(({' and '.join(quick)}) or {check}())"

    def show(self) -> list[str]:
        """Readable conditions, each with the line that caused it."""
        out = []
        for g in self.all_guards:
            text = TOKEN.sub(lambda m: self.sources[int(m[1])].name, g.text)
            text = self.consts.readable(text)
            where = f"  # {g.line[0].rsplit('/', 1)[-1]}:{g.line[1]}" if g.line and g.line[0] else ""
            out.append(text + where)
        return out

    def failing(self, env: dict[str, Any]) -> list[Guard]:
        """The guards that do not hold for these parameters."""
        out = []
        for g in self.all_guards:
            text = TOKEN.sub(lambda m: f"({self.sources[int(m[1])].text})", g.text)
            try:
                ok = bool(eval(text, self.consts.env, env))
            except Exception:
                ok = False
            if not ok:
                out.append(g)
        return out

    def value(self, g: Guard, env: dict[str, Any]) -> Any:
        """What the first source of a guard reads now; None if it can't be read."""
        m = TOKEN.search(g.text)
        if m is None:
            return None
        try:
            return eval(self.sources[int(m[1])].text, self.consts.env, env)
        except Exception:
            return None


def _ordered(guards: list[Guard]) -> list[Guard]:
    return guards


def _size_guards(cap: Capture) -> list[Guard]:
    out = []
    for g in cap.sizes.guards:
        text = cap.size_text(str(g))
        out.append(Guard(text, g.loc, "size"))
    return out


def _checker(text: str, env: dict[str, Any], cell: list[Any]) -> Any:
    """A function that evaluates the module guards and, if they hold, remembers the epoch."""
    made: dict[str, Any] = {}
    src = (
        "def make(cell):\n    def check():\n        now = _fgE[0]\n        try:\n"
        f"            ok = {text or 'True'}\n"
        "        except Exception:\n            return False\n        if ok:\n            cell[0] = now\n        return ok\n    return check\n"
    )
    exec(compile(src, "<fusegrad guards>", "exec"), env, made)
    return made["make"](cell)
