"""Storages that stand for another one: what ``t.data`` gives has its own version and a note on ``t`` that its contents
changed; a tensor that was cut off its history in place is no longer what was saved of it."""

from __future__ import annotations

from typing import Any

from .node import Storage, next_seq


class DataStorage(Storage):
    """``of``: the storage of ``t``, whose version says nothing of changes made here. Compiled code that computes values
    anew in its backward pass asks when they were made (``moved``)."""

    __slots__ = ("of", "count")

    of: Any
    count: int

    @property
    def version(self) -> int:  # type: ignore[override]
        return self.count

    @version.setter
    def version(self, value: int) -> None:
        self.count = value
        st: Any = self
        while type(st) is DataStorage:
            st = st.of
            st.moved = st.written = next_seq()


def data_storage(of: Storage) -> DataStorage:
    """The storage of the ``.data`` of a tensor with storage ``of``, never changed."""
    st = DataStorage()
    st.of, st.count = of, 0
    return st


SHARED: list = []  # not empty once some storage was shared


def share(st: Any) -> None:
    """Note that numpy sees the memory from now on: it counts no changes there."""
    SHARED[:] = (1,)
    st.shared = True
    while type(st) is not Storage:
        st = st.of
        st.shared = True


def leaf_dtype(leaf: Any, seq: int) -> Any:
    """The dtype a leaf had for the node numbered ``seq``, before ``.data`` was set to another one: its gradient's."""
    for when, before in getattr(leaf._st, "casts", ()):
        if when > seq:
            return before
    return leaf.dtype


DETACHED = 1 << 40  # more than any count of changes


class DetachedStorage(Storage):
    """The storage of a tensor after ``detach_``: ``of``, with versions so far away that nodes which saved the tensor as
    a part of its graph notice. Views and results that were saved keep ``of``."""

    __slots__ = ("of", "ahead")

    of: Any
    ahead: int

    @property
    def version(self) -> int:  # type: ignore[override]
        return self.of.version + self.ahead

    @version.setter
    def version(self, value: int) -> None:
        self.of.version = value - self.ahead


def _of(name: str) -> property:
    return property(lambda self: getattr(self.of, name), lambda self, value: setattr(self.of, name, value))


for _name in ("born", "moved", "written", "casts", "shared"):
    setattr(DetachedStorage, _name, _of(_name))


def detached_storage(of: Storage) -> DetachedStorage:
    """The storage of a tensor with storage ``of`` once it was detached in place."""
    st = DetachedStorage()
    before = type(of) is DetachedStorage
    st.of, st.ahead = (of.of, of.ahead + DETACHED) if before else (of, DETACHED)  # type: ignore[attr-defined]
    return st
