"""Numbers that change between calls, as a capture sees them: their text in segments, and guards where one is fixed."""

from __future__ import annotations

import math
import re
from typing import Any

from fusegrad import dtypes
from fusegrad.sizes import SymInt, as_python
from fusegrad.tensor import Tensor

from .values import ObjRef, SymFloat

TOKEN = re.compile("«(\\d+)»")
_LOOKUPS = ("CALL", "CALL_KW", "BINARY_SUBSCR", "STORE_SUBSCR", "DELETE_SUBSCR", "CONTAINS_OP")


def is_float(code: str, v: float) -> str:
    """The condition that ``code`` gives this float: NaN, or the same number, a zero of the same sign."""
    if v != v:
        return f"{code} != {code}"
    if v == 0:
        return f"{code} == 0.0 and _fgcopysign(1.0, {code}) == {math.copysign(1.0, v)}"
    return f"{code} == {v!r}" if math.isfinite(v) else f"{code} == float('{v}')"


class ChangingNumbers:
    """Mixin of the capture."""

    guards: list[Any]
    guard: Any
    tok: Any
    consts: Any
    sources: list[Any]
    sizes: Any
    size_sources: dict[str, str]
    _symbols: dict[str, Any]
    builder: Any
    frames: list[Any]
    weak_inputs: list[tuple[Tensor, str]]
    pinned: set[int]
    facts: Any
    refs: list[Any]
    origin: dict[int, Any]
    number_place: Any
    fixed_sizes: list[tuple[Any, Any]]

    def show(self, v: Any) -> Any:
        """The value of a number in a text that the program's code makes; what makes it breaks the graph later on."""
        before, frame = self.number_place, self.frames[0] if self.frames else None
        if before is None and frame is not None:
            self.number_place = frame.program.code, frame.program.instrs[frame.ip - 1].index
        try:
            return int(v) if isinstance(v, SymInt) else self.fix_float(v)
        finally:
            self.number_place = before

    def _placeholder(self, obj: Any, source: Any) -> Any:
        """A constant of which only the type is known."""
        ref = ObjRef(obj, source)
        self.refs.append(ref)
        self.origin[id(ref)] = source
        return ref

    def _replaced_here(self, source: Any, path: str) -> None:
        """A number that the code around its read also stores to will be another one at the next call: known before
        `prepare.changed_numbers` finds it, so that the analysis need not start again."""
        name = source.key
        if name == "cell_contents" and source.base is not None:
            name = source.base.name
        elif source.kind == "item" and (source.base is None or not source.base.name.startswith("globals of")):
            return
        if type(name) is str and self.frames and name in self.frames[-1].program.stored():
            self.facts.changing.add(path)

    def whole(self, fn: Any, v: SymFloat) -> Any:
        """``int``, ``floor``, ``ceil`` or ``round`` of a changing float: a symbolic int that the segment computes."""
        if not abs(v.hint) < 2**62:
            return fn(self.fix_float(v))
        self.float_guard(f"abs({v.code}) < {2**62}", v.srcs)
        text = f"{self.consts.name(fn)}({v.code})"
        if text not in self._symbols:
            name = self.sizes.fresh_name()
            self.size_sources[name] = text
            self._symbols[text] = self.sizes.symbol(name, fn(v.hint), -(2**62))
        return self._symbols[text]

    def number_operand(self, v: Any) -> tuple[str, float, list] | None:
        """(code, hint, sources) of a number that takes part in float arithmetic of the segment; None if it is none."""
        if type(v) is SymFloat:
            return v.code, v.hint, v.srcs
        if isinstance(v, SymInt):
            return self.size_code(v), v.hint, []
        if type(v) in (int, float, bool):
            text = repr(v) if math.isfinite(v) else f"float({str(v)!r})"
            return (f"({text})" if text.startswith("-") else text), v, []  # -1.0 ** n is -(1.0 ** n)
        return None

    def size_code(self, v: Any) -> str:
        """Segment text of an int or a symbolic int."""
        if not isinstance(v, SymInt):
            return repr(v)
        return "(" + self.size_text(as_python(v)) + ")"

    def names_a_size(self, args: tuple) -> bool:
        """Whether an error tells of a size symbol: of tensors that the failing call was not given (in a backward)."""
        texts = [a for a in args if type(a) is str]
        return any(name in self.size_sources for text in texts for name in re.findall(r"\bs\d+\b", text))

    def size_text(self, text: str) -> str:
        """Text over size symbols with the symbols replaced by their sources."""
        return re.sub(r"\bs\d+\b", lambda m: self.size_sources.get(m[0], m[0]), text)

    def float_guard(self, text: str, srcs: list) -> None:
        for s in srcs:
            self.tok(s)
        self.guard(text, "float", srcs[0].path() if srcs else "")

    def fix_float(self, v: SymFloat) -> float:
        """Give up on a changing float: its value in this capture, guarded."""
        known = len(self.guards)
        self.guard(is_float(f"({v.code})", v.hint), "float", v.srcs[0].path() if v.srcs else "", v.hint)
        for g in self.guards[known:]:
            g.place = self.number_place
        return v.hint

    def _size_fixed(self, condition: Any) -> None:
        place = self.number_place
        if place is None and self.frames and all(map(self._from_a_break, condition.symbols())):
            frame = self.frames[0]
            ins = frame.program.instrs[frame.ip - 1]
            if ins.op in _LOOKUPS:  # with what a real call gave: an id, a counter, a time
                place = (frame.program.code, ins.index)
        if place is not None:
            self.fixed_sizes.append((condition, place))

    def _from_a_break(self, symbol: str) -> bool:
        """Whether a number was on the stack, where breaking instructions put their results."""
        m = TOKEN.fullmatch(self.size_sources.get(symbol, ""))
        return m is not None and self.sources[int(m[1])].path().startswith("stack")

    def weak(self, v: SymFloat) -> Tensor:
        """The graph's scalar input for a changing float: in double precision until it meets a tensor, as in Python."""
        if v.tensor is None:
            v.tensor = next((t for t, code in self.weak_inputs if code == v.code), None)
        if v.tensor is None:
            from fusegrad.meta import Meta

            v.tensor = self.builder.new_input(Meta((), dtypes.float64, None, True))
            self.weak_inputs.append((v.tensor, v.code))
        return v.tensor

    def pin(self, v: SymFloat) -> None:
        """Make a changing float an input of the graph, whether or not the forward reads it."""
        self.pinned.add(id(self.weak(v)._g.cell.source))
