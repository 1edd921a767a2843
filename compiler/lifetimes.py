"""What compiled code names but does not keep alive: when a module dies, the entries made for it go as well."""

from __future__ import annotations

import re
import sys
import threading
import weakref
from typing import Any

from .capture.breaks import CALL

OTHER_ID = "id() of another object at each call"
NAME = re.compile(r"\b_fg[kacg]\d+\b")  # names of objects that belong to entries
_dead: list[tuple[Any, str]] = []
LOCK: list[Any] = []  # that of compiles
busy: list[None] = []  # one for every compile that goes on


def mortal(consts: Any, obj: Any, name: str) -> Any:
    """A weak reference to ``obj``; its death takes the entries that name it."""
    key = id(obj)

    def died(_: Any) -> None:
        if _dead is None:  # the interpreter ends
            return
        consts.names.pop(key, None)  # another object may get the id
        _dead.append((consts, name))
        if not sys.is_finalizing():
            sweep()

    return weakref.ref(obj, died)


def sweep() -> None:
    """Take out the entries of dead objects. While something is compiled, here or in another thread, they wait for its
    end (or, in vain for their guards to hold, for the next compile). Code that runs keeps its names."""
    lock = LOCK[0]
    if not _dead or not lock.acquire(blocking=False):
        return
    try:
        later: list[tuple[Any, str]] = []
        running = _running()
        while _dead and not busy:
            consts, name = _dead.pop()
            runs = id(consts.env) in running
            consts.cache.forget(name, runs)
            if runs:
                later.append((consts, name))
        _dead.extend(later)
    finally:
        lock.release()


def _running() -> set[int]:
    """ids of the globals of everything that runs: a segment may let the object die that it was made for."""
    found: set[int] = set()
    tops = sys._current_frames()
    tops[threading.get_ident()] = sys._getframe(1)  # not this one: a frame among its own variables stays alive
    while tops:
        frame: Any = tops.popitem()[1]
        while frame is not None:
            found.add(id(frame.f_globals))
            frame = frame.f_back
    return found


class Compiling:
    """While something is compiled. Names that no entry uses in the end (of attempts that failed) are dropped."""

    def __init__(self, cache: Any) -> None:
        self.cache = cache

    def __enter__(self) -> None:
        sweep()
        busy.append(None)
        consts = self.cache.consts
        self.outer, consts.fresh = consts.fresh, []

    def __exit__(self, *error: Any) -> None:
        consts = self.cache.consts
        for name in consts.fresh:
            if name not in consts.uses and NAME.fullmatch(name):
                consts.drop(name)
        consts.fresh = self.outer
        del busy[-1:]  # cleared in a forked process
        sweep()


def names_of(entry: Any) -> frozenset[str]:
    """The names of all objects that an entry's code and guards read."""
    program = entry.program
    found = set(NAME.findall("\n".join([entry.seg_name, entry.source, *program.texts])))
    for g in program.all_guards:
        found.update(NAME.findall(g.text))
    for s in program.sources:
        while s is not None:
            if s.key.__class__ is str and s.kind in ("const", "call"):
                found.update(NAME.findall(s.key))
            elif s.kind == "item" and hasattr(s.key, "root"):
                found.update(NAME.findall(s.key.text))
            s = s.base
    return frozenset(found)


def mortal_guards(entry: Any) -> list[Any]:
    """The guards that want a certain object, which may die."""
    return [g for g in entry.program.guards if type(g.value) is weakref.ref]


def learn_deaths(facts: Any, breaks: bool) -> None:
    """What the guards of dead objects would teach by failing. Another module each time: from the third on its type and
    parts are guarded; ``id()`` of another object each time breaks the graph."""
    for g in facts.gone:
        if g.known() is not None:
            continue
        if g.kind == "module":
            facts.texts[g.path] = facts.texts.get(g.path, 0) + 1
            if facts.texts[g.path] > 1:
                facts.generic.add(g.path)
        elif g.place is not None and breaks:
            facts.breaks[g.place] = (CALL, OTHER_ID)
    facts.gone.clear()
