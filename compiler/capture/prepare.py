"""What a first call lacks: optimizer state, made before the call so that the first step compiles as the later ones.

An optimizer makes a parameter's state when it first sees a gradient. Captured as it stands, that would be code for
one call only. Where the initial state depends on the parameter's shape and dtype and on settings alone, capture makes
it for real and goes on with it: an entry that fits every later step. If the call turns out to run as plain Python
after all, the state is taken away again. See docs/decisions/0008.
"""

from __future__ import annotations

from typing import Any

from fusegrad.autograd import modes
from fusegrad.handler import active
from fusegrad.tensor import Tensor

from .later import changed_settings
from .values import CellRef, DictRef, ListRef, ObjRef

Made = list[tuple[Any, Any, dict, list[int]]]  # (optimizer.state, parameter, its state, versions of their tensors)


class _Settings(dict):
    """A parameter group that notes which settings are read."""

    def __init__(self, group: dict) -> None:
        super().__init__(group)
        self.read: set[Any] = set()

    def __getitem__(self, key: Any) -> Any:
        self.read.add(key)
        return super().__getitem__(key)

    def get(self, key: Any, default: Any = None) -> Any:
        self.read.add(key)
        return super().get(key, default)


def optimizer_step(cap: Any, ref: Any, closure: Any) -> None:
    """Before ``PerParameter.step`` of an optimizer that existed before is evaluated."""
    if type(ref) is not ObjRef or closure is not None or not cap.prepares:
        return
    opt = ref.obj
    state, groups = vars(opt).get("state"), vars(opt).get("param_groups")
    if type(groups) is not list or _known(cap, state) or (ref.dict is not None and ref.dict.log):
        return
    listed = cap.by_id.get(id(groups))
    if type(listed) is ListRef and (listed.dirty or listed.tail):
        return
    missing = [(g, p) for g in groups for p in g["params"] if _has_gradient(cap, p) and not state.get(p)]
    if not missing or any(p in state for _, p in missing):
        return
    made: Made = []
    with active(None):
        before = modes.STATE.grad
        modes.set_grad(False)
        try:
            for group, p in missing:
                first = _initial(cap, opt, group, p)
                if first is None:
                    return
                made.append((state, p, first, _versions(p, first)))
        finally:
            modes.set_grad(before)
    for _, p, first, _ in made:
        state[p] = first
    cap.made += made


def _known(cap: Any, state: Any) -> bool:
    """Whether the captured code looked at the optimizer's state before."""
    ref = cap.by_id.get(id(state))
    return type(ref) is DictRef and bool(ref.log or ref.cache or ref.cleared or ref.view is not None)


def _has_gradient(cap: Any, p: Any) -> bool:
    graph = cap.by_id.get(id(p))
    inp = None if graph is None else cap.input_of.get(id(graph))
    return (p._grad if inp is None or not inp.grad_synced else graph._grad) is not None


def _initial(cap: Any, opt: Any, group: dict, p: Tensor) -> dict | None:
    """The state that the first step would make; None if it depends on more than shape, dtype and fixed settings."""
    settings = _Settings(group)
    state: dict[str, Any] = {}
    if type(p)._data.__get__(p) is None or not opt._first(p, state, settings):
        return None
    known = cap.by_id.get(id(group))
    if type(known) is DictRef and (known.cleared or not settings.read.isdisjoint(known.writes)):
        return None
    return state


def _versions(p: Tensor, state: dict) -> list[int]:
    """How often each was changed; what is made in inference mode does not tell its users."""
    storages = [v._st for v in (p, *state.values()) if isinstance(v, Tensor)]
    return [0 if st is None else st.version for st in storages]


def take_back(made: Made) -> None:
    """The call runs as plain Python: state that nothing has used yet goes away, newest first."""
    for owner, p, first, versions in reversed(made):
        if owner.get(p) is first and _versions(p, first) == versions:
            del owner[p]
    made.clear()


def changed_numbers(cap: Any) -> set[str]:
    """Paths of the numbers that the captured code itself replaces: other ones will stand there at the next call."""
    read = {g.path: g.value for g in cap.guards if g.kind in ("int", "float")}
    out: set[str] = set()

    def compare(path: str, new: Any) -> None:
        if path in read and _number(new) is type(read[path]) and not (type(new) in (int, float) and new == read[path]):
            out.add(path)

    for ref in cap.refs:
        t = type(ref)
        if t is DictRef and read:
            for key, value in ref.writes.items():
                if type(key) is str or type(key) is int:
                    compare(_place(ref, key), value)
        elif t is ListRef and ref.dirty:
            for k, value in enumerate(ref.items):
                compare(ref.source.item(k).path(), value)
        elif t is CellRef and ref.dirty:
            compare(ref.source.attr("cell_contents").path(), ref.value)
        elif t is ObjRef:
            for name, value in ref.slots.items():
                compare(ref.source.attr(name).path(), value)
    for ref, key in changed_settings(cap):
        place = ref.source.item(key)
        out.update({place.path(), place.item(0).path()} & read.keys())
    return out


def _place(ref: DictRef, key: Any) -> str:
    """The path under which an entry of a dict was read: an item, an attribute, a global."""
    if ref.source.kind == "const" and ref.source.name.startswith("globals of "):
        return key
    named = ref.owner is not None and type(key) is str and key.isidentifier()
    return (ref.owner.source.attr(key) if named else ref.source.item(key)).path()


def _number(v: Any) -> Any:
    from .values import class_of

    kind = class_of(v)
    return kind if kind in (int, float) else None
