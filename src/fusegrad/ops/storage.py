"""``untyped_storage``: the memory block a tensor looks at."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..op import function
from ..tensor import need_data, root_array


class UntypedStorage:
    """Bytes in memory, shared by a tensor and its views. Two are equal if they are the same memory."""

    __slots__ = ("_root",)

    def __init__(self, root: np.ndarray) -> None:
        self._root = root

    def data_ptr(self) -> int:
        """Address of the first byte."""
        return self._root.__array_interface__["data"][0]

    def nbytes(self) -> int:
        """Size in bytes."""
        return self._root.nbytes

    size = __len__ = nbytes

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, UntypedStorage) and other.data_ptr() == self.data_ptr() and len(other) == len(self)

    def __hash__(self) -> int:
        return hash(self.data_ptr())

    def __repr__(self) -> str:
        return f"<UntypedStorage of {self.nbytes()} bytes at {self.data_ptr():#x}>"


@function("untyped_storage(input: T)", function=False)
def untyped_storage(input: Any) -> UntypedStorage:
    """The memory block that this tensor and its views share."""
    return UntypedStorage(root_array(need_data(input, "untyped_storage")))
