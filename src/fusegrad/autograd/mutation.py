"""``allow_mutation_on_saved_tensors``: saved tensors are copied before an in-place change would spoil them."""

from __future__ import annotations

import weakref
from typing import Any

from ..tensor import Tensor, storage_of, wrap
from .modes import STATE, slow_paths


class _Kept:
    """A saved tensor; ``copy`` is made just before its memory changes."""

    __slots__ = ("tensor", "copy", "context", "__weakref__")

    def __init__(self, tensor: Tensor, context: allow_mutation_on_saved_tensors) -> None:
        self.tensor: Tensor | None = tensor
        self.copy: Tensor | None = None
        self.context = context


class allow_mutation_on_saved_tensors:
    """Inside, tensors saved for backward may be changed in place: backward uses what they held when they were saved.

    Backward has to run inside as well (AssertionError otherwise). RuntimeError when nested.
    """

    def __init__(self) -> None:
        self.open = False
        self.by_storage: weakref.WeakKeyDictionary[Any, weakref.WeakSet] = weakref.WeakKeyDictionary()
        self.hooks = (self.pack, self.unpack)

    def __enter__(self) -> allow_mutation_on_saved_tensors:
        if STATE.mutation is not None:
            raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
        STATE.mutation, self.open = self, True
        STATE.packers = STATE.packers + (self.hooks,)
        slow_paths(1)
        return self

    def __exit__(self, *exc: Any) -> None:
        STATE.mutation, self.open = None, False
        STATE.packers = STATE.packers[:-1]
        slow_paths(-1)
        self.clear()

    def clear(self) -> None:
        """Forget the saved tensors."""
        self.by_storage.clear()

    def pack(self, t: Tensor) -> _Kept:
        """Note where a saved tensor lies in memory."""
        kept = _Kept(t, self)
        self.by_storage.setdefault(storage_of(t), weakref.WeakSet()).add(kept)
        return kept

    def unpack(self, kept: _Kept) -> Tensor:
        """What the tensor held when it was saved."""
        if not self.open:
            raise AssertionError(
                "Trying to backward outside of the 'allow_mutation_on_saved_tensors' context in which the graph was "
                "originally recorded."
            )
        t = kept.tensor if kept.copy is None else kept.copy
        assert t is not None
        return t

    def before_change(self, t: Tensor) -> None:
        """Copy what was saved from the memory of ``t``, which is about to change."""
        for kept in self.by_storage.pop(storage_of(t), ()):
            if kept.copy is None and kept.tensor is not None and kept.tensor._data is not None:
                kept.copy = wrap(kept.tensor._data.copy())
                kept.tensor = None
