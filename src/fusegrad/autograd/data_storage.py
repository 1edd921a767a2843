"""The storage of what ``t.data`` gives: its own version, and a note on ``t`` that its contents changed."""

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
