"""What a checkpointed function reads: eager code runs it once more in backward, with what is there by then."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from fusegrad.nn.module import Module
from fusegrad.tensor import Tensor

from . import breaks
from .breaks import Restart
from .source import Source
from .values import NULL, CellRef, DictRef, ListRef, ObjRef, is_a

__all__ = ["Reading"]

_TELLING = (type(None), bool, int, float, complex, str, bytes, types.FunctionType, type)


class Reading:
    """What is read from before, from the moment that this is made until ``end``."""

    def __init__(self, ev: Any) -> None:
        self.cap, self.place = ev.cap, ev.outer
        self.sources: dict[str, Source] = {}
        self.around = self.cap.reading
        self.cap.reading = self.note
        self.nodes = len(self.cap.builder.graph.nodes)
        for r in self.cap.refs:  # so that a second read is noted as well
            if type(r) is DictRef and r.view is None:
                r.cache.clear()
            elif type(r) is CellRef and not r.dirty:
                r.value = NULL
        self.versions: list[tuple[Any, Any, int]] = []

    def note(self, obj: Any, source: Source) -> None:
        """``obj`` was read from ``source``."""
        if self.around is not None:
            self.around(obj, source)
        if source.base is not None and (is_a(obj, (Tensor, Module)) or type(obj) in _TELLING):
            self.sources[source.text] = source

    def end(self) -> None:
        """No more is read. Tensors also count that only the graph says were read."""
        cap = self.cap
        cap.reading = self.around
        inputs = {id(i.entry._g.cell.source): i for i in cap.tensors}
        for node in cap.builder.graph.nodes[self.nodes :]:
            for v in node.inputs():
                found = inputs.get(id(v))
                if found is not None and found.place.base is not None:
                    self.sources[found.place.text] = found.place
        there = [i for i in cap.tensors if i.place.text in self.sources]
        self.versions = [(i, i.graph._g.cell, i.graph._g.cell.version) for i in there]
        self.written = self._written()

    def check(self) -> None:
        """Where a backward meets the function: `Restart` with a break if a tensor that it reads was changed."""
        if any(i.graph._g.cell is not cell or cell.version != version for i, cell, version in self.versions):
            self._give_up()

    def stale(self) -> bool:
        """Whether captured code has since put something else where the function would find it."""
        return self._written() != self.written

    def _give_up(self) -> None:
        self.cap.facts.breaks[self.place] = (
            breaks.CONTROL,
            "what a checkpointed function reads is changed before its backward",
        )
        raise Restart

    def _written(self) -> dict[tuple[int, Any], int]:
        """What was written so far to the places that were read."""
        out: dict[tuple[int, Any], int] = {}
        for r in self.cap.refs:
            t, at = type(r), r.source.text
            if t is ObjRef:
                found = {k: v for k, v in r.slots.items() if f"{at}.{k}" in self.sources}
            elif t is DictRef:
                found = {k: v for k, v in r.writes.items() if r.source.item(k).text in self.sources}
                if r.owner is not None:  # the attributes of an object
                    found |= {k: v for k, v in r.writes.items() if f"{r.owner.source.text}.{k}" in self.sources}
                found |= {"cleared": None} if r.cleared else {}
            elif t is CellRef:
                found = {"": r.value} if r.dirty and f"{at}.cell_contents" in self.sources else {}
            elif t is ListRef:
                inside = r.dirty and any(s.startswith(f"{at}[") for s in self.sources)
                found = {k: v for k, v in enumerate(r.items or ())} if inside else {}
            else:
                found = {}
            out.update({(id(r), k): id(v) for k, v in found.items()})
        return out

    def text(self, expand: Callable[[Source], str]) -> str:
        """Source text of a tuple of all that was read."""
        return "(" + "".join(f"{expand(s)}, " for s in self.sources.values()) + ")"
