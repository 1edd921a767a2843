"""Globals, builtins and closure cells: how the evaluator finds what a name of the code stands for."""

from __future__ import annotations

from typing import Any

from .breaks import Raised
from .objects import PLAIN
from .state import fixed_module
from .values import NULL, CellRef, DictRef, is_a


class Names:
    """Mixin of the evaluator."""

    def globals_ref(self, g: dict) -> DictRef:
        """The placeholder of a module's globals."""
        ref = self.cap.by_id.get(id(g))
        if ref is None:
            source = self.cap.const(g, f"globals of {g.get('__name__')}")
            ref = DictRef(g, source)
            self.cap.refs.append(ref)
            self.cap.by_id[id(g)] = ref
            self.cap.origin[id(ref)] = source
        return ref

    def load_global(self, f: Any, name: str) -> Any:
        """A global or builtin; guarded unless it belongs to the library."""
        g = f.globals
        ref = self.cap.by_id.get(id(g))
        if ref is not None and (ref.view is not None or name in ref.writes):
            value = self.dict_get(ref, name)
            if value is not NULL:
                return value
        elif name in g:
            value = g[name]
            if fixed_module(g.get("__name__")):
                if is_a(value, PLAIN):
                    return value
            source = self.cap.const(g, g.get("__name__") or "globals").item(name)
            source.name = name
            return self.cap.realize(value, source)
        b = g.get("__builtins__", __builtins__)
        b = b if is_a(b, dict) else vars(b)
        if not fixed_module(g.get("__name__")):
            if name not in g:  # else deleted by the captured code
                self.cap.guard(f"{name!r} not in {self.cap.consts.name(g)}", "builtin", name)
            is_now = f"[{name!r}] is {self.cap.consts.name(b[name])}" if name in b else ""
            where = self.cap.consts.name(b)
            self.cap.guard(where + is_now if is_now else f"{name!r} not in {where}", "builtin", name)
        if name not in b:
            raise Raised(NameError(f"name '{name}' is not defined", name=name))
        return b[name]

    def closure_cell(self, fn: Any, k: int) -> Any:
        """The k-th closure cell of a function that is being inlined."""
        cell = fn.__closure__[k]
        known = self.cap.by_id.get(id(cell))
        if known is not None:
            return known
        if id(fn) in self.new_functions:
            return cell
        source = self.cap.origin.get(id(fn))
        fixed = source is None or (source.kind == "const" and not source.key.endswith("()"))
        name = fn.__code__.co_freevars[k]
        src = self.cap.const(cell, name) if fixed else source.attr("__closure__").item(k)
        ref = CellRef(cell, src)
        src.name = name
        self.cap.refs.append(ref)
        self.cap.by_id[id(cell)] = ref
        self.cap.origin[id(ref)] = src
        self.cap.keep.append(cell)
        return ref
