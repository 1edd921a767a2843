"""Dictionaries that tell the compiler when a module's structure changes.

`EPOCH[0]` grows whenever any module's parameters, buffers, children, hooks or ordinary attributes
change.  A guard compares that one integer; only when it differs are the single facts looked at again.
`TrackedDict.version` is the epoch at which that one dictionary changed last, and
`module.__dict__["_epoch"]` the epoch at which that one module changed last.
"""

from __future__ import annotations

import itertools
from typing import Any

EPOCH: list[int] = [0]
_next = itertools.count(1 << 32, 1 << 32).__next__  # in between is room for compiled code, which adds 1 by itself


def bump() -> int:
    """A new epoch. Every value is written once only, so that a guard that has seen one notices any later change,
    whatever threads do; it comes after the change that it announces."""
    EPOCH[0] = epoch = _next()
    return epoch


class TrackedDict(dict):
    """A dict whose every mutation bumps the global epoch and its own `version`."""

    __slots__ = ("version",)

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.version = EPOCH[0]

    def _touch(self) -> None:
        self.version = bump()

    def __setitem__(self, key: Any, value: Any) -> None:
        dict.__setitem__(self, key, value)
        self._touch()

    def __delitem__(self, key: Any) -> None:
        dict.__delitem__(self, key)
        self._touch()

    def pop(self, *args: Any) -> Any:
        out = dict.pop(self, *args)
        self._touch()
        return out

    def popitem(self) -> tuple:
        out = dict.popitem(self)
        self._touch()
        return out

    def clear(self) -> None:
        dict.clear(self)
        self._touch()

    def update(self, *args: Any, **kwargs: Any) -> None:
        dict.update(self, *args, **kwargs)
        self._touch()

    def setdefault(self, key: Any, default: Any = None) -> Any:
        out = dict.setdefault(self, key, default)
        self._touch()
        return out

    def __ior__(self, other: Any) -> TrackedDict:
        dict.update(self, other)
        self._touch()
        return self

    def move_to_end(self, key: Any, last: bool = True) -> None:
        """Move `key` to the end, or to the front with `last=False` (as OrderedDict does)."""
        value = dict.pop(self, key)
        if last:
            dict.__setitem__(self, key, value)
        else:
            rest = dict(self)
            dict.clear(self)
            dict.__setitem__(self, key, value)
            dict.update(self, rest)
        self._touch()

    def copy(self) -> TrackedDict:
        return TrackedDict(self)

    def __reduce__(self) -> tuple:
        return (TrackedDict, (dict(self),))

    def __deepcopy__(self, memo: dict) -> TrackedDict:
        from copy import deepcopy

        out = TrackedDict()
        memo[id(self)] = out
        for key, value in self.items():
            dict.__setitem__(out, deepcopy(key, memo), deepcopy(value, memo))
        out._touch()
        return out
