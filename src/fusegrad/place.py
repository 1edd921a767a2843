"""What a tensor's shape and its place are: ``Size`` and ``device``."""

from __future__ import annotations

from operator import index
from typing import Any

import numpy as np


class Size(tuple):
    """A shape: a tuple of ints (of symbolic ints while a graph is captured)."""

    __slots__ = ()

    def __new__(cls, sizes: Any = ()) -> Size:
        return tuple.__new__(cls, _entries(tuple(sizes), 0))

    def numel(self) -> Any:
        n: Any = 1
        for s in self:
            n = n * s
        return n

    def __repr__(self) -> str:
        return f"fusegrad.Size([{', '.join(map(str, self))}])"

    def __add__(self, other: Any) -> Size:
        return Size(tuple.__add__(self, _entries(other, len(self))))

    def __radd__(self, other: Any) -> Any:
        return Size(tuple.__add__(_entries(other, 0), self)) if isinstance(other, tuple) else NotImplemented

    def __mul__(self, times: Any) -> Any:
        return Size(tuple.__mul__(self, times)) if hasattr(type(times), "__index__") else NotImplemented

    __rmul__ = __mul__

    def __getitem__(self, i: Any) -> Any:
        r = _item(self, i)
        return tuple.__new__(Size, r) if type(i) is slice else r


_item = tuple.__getitem__


def _entries(other: Any, at: int) -> tuple:
    """What a Size may be joined with: a tuple of ints, numpy's and tensors too, whose first will be item ``at``."""
    if not isinstance(other, tuple):
        raise TypeError(f"can only concatenate tuple (not {type(other).__name__}) to fusegrad.Size")
    for i, n in enumerate(other):
        if not hasattr(type(n), "__index__"):
            raise TypeError(f"fusegrad.Size() takes an iterable of 'int' (item {at + i} is '{type(n).__name__}')")
    return tuple([index(n) if isinstance(n, bool) or hasattr(n, "item") else n for n in other])


class Sizes(dict[tuple, Size]):
    """``SIZES[shape]``: the Size of a shape of ints, which is quicker to find than to make."""

    def __missing__(self, shape: tuple) -> Size:
        if len(self) >= 4096:
            self.clear()
        found = self[shape] = Size(shape)
        return found


SIZES = Sizes()


_DTYPES = ("float", "int", "uint", "bool", "double", "half", "long")


class device:
    """The only device is the CPU; the class exists so that device code runs unchanged."""

    __slots__ = ("type", "index")

    def __init__(self, type: Any = "cpu", index: int | None = None) -> None:
        name = type.type if isinstance(type, device) else str(type)  # type: ignore[has-type]
        kind, _, number = name.partition(":")
        if kind != "cpu":
            from .cuda import NoDeviceError

            raise NoDeviceError(name, name.strip("0123456789") in _DTYPES)
        self.type, self.index = "cpu", int(number) if number else index

    def __repr__(self) -> str:
        return "device(type='cpu')" if self.index is None else f"device(type='cpu', index={self.index})"

    def __str__(self) -> str:
        return "cpu" if self.index is None else f"cpu:{self.index}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))


def root_array(d: np.ndarray) -> np.ndarray:
    """The array that owns the memory ``d`` looks at, or the first one on memory that no array owns."""
    while (base := d.base) is not None:
        if type(base).__name__ == "DummyArray":  # what as_strided and sliding_window_view put between
            base = base.base
        if not isinstance(base, np.ndarray):
            break
        d = base
    return d
