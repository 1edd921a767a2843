"""Guards on who is who: objects and memory that capture took for distinct must be distinct in later calls."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import breaks
from .breaks import Refuse
from .values import CellRef, DictRef, ListRef, ObjRef, SetRef


def alias_guards(cap: Any) -> None:
    """Add the guards. Raises `Refuse` if tensors overlap now and one of them is written to."""
    _objects(cap)
    _tensors(cap)


def _changed(ref: Any) -> bool:
    t = type(ref)
    if t is ListRef:
        return ref.dirty or bool(ref.tail)
    if t is DictRef:
        return bool(ref.log)
    if t is ObjRef:
        return bool(ref.slots)
    return bool(ref.dirty) if t in (SetRef, CellRef) else False


def _objects(cap: Any) -> None:
    for a in cap.refs:
        if not _changed(a):
            continue
        sa = a.owner.source if type(a) is DictRef and a.owner is not None else a.source
        for b in cap.refs:
            if b is a or type(b) is not type(a) or type(b.obj) is not type(a.obj):
                continue
            sb = b.owner.source if type(b) is DictRef and b.owner is not None else b.source
            if (type(a) is DictRef and (a.owner is None) != (b.owner is None)) or sa.text == sb.text:
                continue
            if sa.kind == "const" and sb.kind == "const":
                continue
            cap.guard(f"{cap.tok(sa)} is not {cap.tok(sb)}", "identity", sa.path())


def _tensors(cap: Any) -> None:
    """Arrays that own their memory overlap only if they are the same object; the rest is compared pair by pair."""
    written = {id(t) for t, _ in cap.builder.mutated()}
    if not written:
        return
    owning, views = [], []
    for inp in cap.tensors:
        (owning if inp.real._data.base is None else views).append(inp)
    loose = [i for i in owning if not i.fixed]
    for inp in loose:
        cap.guard(f"{cap.tok(inp.source.attr('_data'))}.base is None", "layout", inp.source.path())
    if loose and len(owning) > 1:
        ids = ", ".join(f"_fgid({cap.tok(i.source.attr('_data'))})" for i in owning)
        cap.guard(f"len({{{ids}}}) == {len(owning)}", "alias", "inputs that are written to")
    arrays = [i.real._data for i in owning]
    if len({id(a) for a in arrays}) != len(arrays):
        raise Refuse(breaks.ALIAS, "two tensors share one array")
    for v in views:
        for other in cap.tensors:
            if other is v or not (id(v.graph) in written or id(other.graph) in written):
                continue
            if np.may_share_memory(v.real._data, other.real._data):
                raise Refuse(breaks.ALIAS, f"{v.source.name} and {other.source.name} share memory")
            if v.fixed and other.fixed:
                continue
            a, b = cap.tok(v.source.attr("_data")), cap.tok(other.source.attr("_data"))
            cap.guard(f"not _fgshare({a}, {b})", "alias", v.source.path())
