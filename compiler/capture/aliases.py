"""Guards on who is who: objects and memory that capture took for distinct must be distinct in later calls."""

from __future__ import annotations

from typing import Any

import numpy as np

from fusegrad.place import root_array

from . import breaks
from .breaks import Refuse
from .values import CellRef, DictRef, ListRef, ObjRef, SetRef


def alias_guards(cap: Any) -> None:
    """Add the guards. Raises `Refuse` if tensors overlap now and one of them is written to."""
    _objects(cap)
    _identities(cap)
    _told_apart(cap)
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


def _identities(cap: Any) -> None:
    """Tensors whose gradient, flag or attributes the code sets, or with respect to which it differentiates, must be
    distinct objects where capture saw distinct ones."""
    fixed: set[int] = set()
    group: list[Any] = []
    for a in cap.tensors:
        if not (_differs(a) or a in cap.flags or (cap.engine_ran and (a.graph._rg or a.real._rg))):
            continue
        for b in cap.tensors:
            if a is b or (a.const and b.const) or a.drawn or b.drawn or not _alike(a.real, b.real):
                continue
            if a.sticky and b.sticky:
                for i in (a, b):
                    if id(i) not in fixed:
                        fixed.add(id(i))
                        group.append(i)
                continue
            first, second = sorted((cap.tok(a.source), cap.tok(b.source)))
            cap.guard(f"{first} is not {second}", "identity", a.source.path())
    if group:
        cap.fixing = True  # looked at when one of their arrays was replaced
        ids = ", ".join(f"_fgid({cap.tok(i.source)})" for i in group)
        cap.guard(f"len({{{ids}}}) == {len(group)}", "identity", "tensors that are differentiated")
        cap.fixing = False


def _told_apart(cap: Any) -> None:
    """Objects that were taken for distinct: by the library, or as keys."""
    told = cap.told_apart.values()
    if len(told) > 1 and any(i.source.kind != "const" for i in told):
        ids = ", ".join(f"_fgid({cap.tok(i.source)})" for i in told)
        cap.guard(f"len({{{ids}}}) == {len(told)}", "identity", "objects that are distinct")


def _differs(inp: Any) -> bool:
    return bool(inp.attrs) or inp.entry is not inp.graph or (inp.grad_synced and inp.graph._grad is not inp.grad_before)


def _alike(a: Any, b: Any) -> bool:
    """Whether one tensor could pass the guards of both."""
    return a._rg is b._rg and a._data.dtype is b._data.dtype and a._data.ndim == b._data.ndim and type(a) is type(b)


def _tensors(cap: Any) -> None:
    """Arrays with different owners of memory can't overlap, so the owners must be distinct; arrays of one owner are
    compared pair by pair."""
    written = {id(t) for t, _ in cap.builder.mutated()}
    if not written:
        return
    for inp in cap.tensors:
        if id(inp.entry) in written and inp.real._view is not None and inp.graph._rg:
            raise Refuse(breaks.ALIAS, f"{inp.source.name} is a view with a history and is written to")
        if id(inp.entry) in written and overlaps_itself(inp.real._data):  # strides are guarded
            raise Refuse(breaks.ALIAS, f"elements of {inp.source.name}, which is written to, share memory")
    groups: dict[int, list[Any]] = {}
    read = {id(v) for node in cap.builder.graph.nodes for v in node.inputs()}
    used = [
        inp
        for inp in cap.tensors
        if (not inp.lazy or inp.touched or id(inp.entry._g.cell.source) in read or inp.entry._g.cell.version)
        and not inp.drawn
    ]
    for inp in used:
        groups.setdefault(owner_id(inp.real._data), []).append(inp)
    if foreign := groups.pop(FOREIGN, None):
        _foreign(cap, used, [inp for inp in used if id(inp.entry) in written], foreign)
    loose: list[str] = []
    for members in groups.values():
        first = members[0]
        if first.sticky:
            cap.owners.append(first)
        else:
            cap.loose.append(first)
            loose.append(_owner_text(cap, first))
        if len(members) > 1:
            _pairs(cap, members, written)
            for other in members[1:]:  # the first stands for all of them
                one, same = _owner_text(cap, first), _owner_text(cap, other)
                cap.guard(f"{one} == {same}", "alias", "tensors that are written to")
    if loose:
        ids = ", ".join(loose)
        text = f"len(_fgo := {{{ids}}}) == {len(loose)}"
        if "_fgowner" in ids:
            text += f" and {FOREIGN} not in _fgo"
        if cap.owners:
            text += f" and {cap.consts.name(cap.owner_ids)}.isdisjoint(_fgo)"
        cap.guard(text, "alias", "tensors that are written to")
    cap.owner_ids |= {owner_id(i.real._data) for i in cap.owners}


def _foreign(cap: Any, used: list[Any], written: list[Any], foreign: list[Any]) -> None:
    """Memory that no array of numpy owns may belong to several owners: ranges of addresses are compared instead."""
    others = [inp for inp in used if not any(inp is w for w in written)]
    if not apart([w.real._data for w in written], [t.real._data for t in others]):
        raise Refuse(breaks.ALIAS, f"{foreign[0].source.name} and another tensor share memory")
    texts = ["".join(f"{cap.tok(t.source.attr('_data'))}, " for t in ts) for ts in (written, others)]
    cap.fixing = all(t.sticky for t in used)
    cap.guard(f"_fgapart(({texts[0]}), ({texts[1]}))", "alias", foreign[0].source.path())
    cap.fixing = False


def apart(written: Any, others: Any) -> bool:
    """Whether no array of ``written`` may share memory with another one of them or with one of ``others``."""
    spans = [
        (*np.lib.array_utils.byte_bounds(a), k < len(written)) for k, a in enumerate((*written, *others)) if a.size
    ]
    end, last = 0, 0  # where those before end, and those of them that are written
    for low, high, write in sorted(spans):
        if low < last or (write and low < end):
            return False
        end = max(end, high)
        if write:
            last = max(last, high)
    return True


def overlaps_itself(a: np.ndarray) -> bool:
    """Whether two elements of an array may be at one place (expanded, or windows of ``as_strided``)."""
    reach = 0
    for step, n in sorted((abs(s), n) for s, n in zip(a.strides, a.shape, strict=True) if n > 1):
        if step <= reach or step < a.itemsize:
            return a.size > 0
        reach += step * (n - 1)
    return False


def _one_storage(a: Any, b: Any) -> bool:
    """Whether empty tensors count changes together, as views of one tensor do."""
    return not a._data.size and a._st is not None and a._st is b._st


FOREIGN = -1


def owner_id(a: np.ndarray) -> int:
    """The id of the array that owns the memory of ``a``; FOREIGN where that is something else (a buffer, a capsule)."""
    base = a.base
    if base is None:
        return id(a)
    if type(base) is np.ndarray and base.base is None:
        return id(base)
    root = root_array(a)
    return id(root) if root.base is None else FOREIGN


def _owner_text(cap: Any, inp: Any) -> str:
    d = cap.tok(inp.source.attr("_data"))
    if inp.real._data.base is None:
        cap.guard(f"{d}.base is None", "layout", inp.source.path())
        return f"_fgid({d})"
    cap.guard(f"{d}.base is not None", "layout", inp.source.path())
    return f"_fgowner({d})"


def _pairs(cap: Any, members: list[Any], written: set[int]) -> None:
    for n, a in enumerate(members):
        for b in members[n + 1 :]:
            if id(a.entry) not in written and id(b.entry) not in written:
                continue
            if shared(cap, a, b):
                raise Refuse(breaks.ALIAS, f"{a.source.name} and {b.source.name} share memory")


def shared(cap: Any, a: Any, b: Any) -> bool:
    """Whether two inputs may share memory; that they don't is guarded."""
    if a.drawn or b.drawn:
        return False
    if np.may_share_memory(a.real._data, b.real._data) or _one_storage(a.real, b.real):
        return True
    if not (a.const and b.const):
        ta, tb = cap.tok(a.source.attr("_data")), cap.tok(b.source.attr("_data"))
        cap.guard(f"not _fgshare({ta}, {tb})", "alias", a.source.path())
    return False
