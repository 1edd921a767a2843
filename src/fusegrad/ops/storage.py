"""``untyped_storage`` and ``storage``: the memory block a tensor looks at."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..op import function
from ..place import root_array
from ..tensor import need_data


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

    def elements(self, kind: np.dtype) -> np.ndarray:
        """The memory as a vector of elements of a dtype."""
        root = self._root
        flat = (root if root.flags.c_contiguous else root.T).reshape(-1).view(np.uint8)
        return flat[: flat.size // kind.itemsize * kind.itemsize].view(kind)

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, UntypedStorage) and other.data_ptr() == self.data_ptr() and len(other) == len(self)

    def __hash__(self) -> int:
        return hash(self.data_ptr())

    def __repr__(self) -> str:
        return f"<UntypedStorage of {self.nbytes()} bytes at {self.data_ptr():#x}>"


class TypedStorage:
    """The same memory as elements of a dtype."""

    __slots__ = ("_untyped", "dtype")

    def __init__(self, untyped: UntypedStorage, dtype: Any) -> None:
        self._untyped, self.dtype = untyped, dtype

    def untyped(self) -> UntypedStorage:
        """The memory without a dtype."""
        return self._untyped

    def elements(self, kind: np.dtype) -> np.ndarray:
        """The memory as a vector of elements. RuntimeError for another dtype than its own."""
        if kind is not self.dtype.np:
            raise RuntimeError(
                f"Expected a Storage of type {kind} or an UntypedStorage, but got type {self.dtype.name} for argument "
                "1 'storage'"
            )
        return self._untyped.elements(kind)

    def data_ptr(self) -> int:
        """Address of the first byte."""
        return self._untyped.data_ptr()

    def nbytes(self) -> int:
        """Size in bytes."""
        return self._untyped.nbytes()

    def tolist(self) -> list:
        """The elements as Python numbers."""
        return self.elements(self.dtype.np).tolist()

    def __len__(self) -> int:
        return len(self.elements(self.dtype.np))

    size = __len__

    def __getitem__(self, i: Any) -> Any:
        found = self.elements(self.dtype.np)[i]
        return found.item() if isinstance(found, np.generic) else found.tolist()

    def __setitem__(self, i: Any, value: Any) -> None:
        self.elements(self.dtype.np)[i] = value

    def __iter__(self) -> Any:
        return iter(self.tolist())

    def __repr__(self) -> str:
        return f"<TypedStorage of {len(self)} elements of {self.dtype} at {self.data_ptr():#x}>"


@function("storage(input: T)", function=False)
def storage(input: Any) -> TypedStorage:
    """The memory block that this tensor and its views share, as elements of its dtype."""
    return TypedStorage(untyped_storage(input), input.dtype)


@function("untyped_storage(input: T)", function=False)
def untyped_storage(input: Any) -> UntypedStorage:
    """The memory block that this tensor and its views share."""
    return UntypedStorage(root_array(need_data(input, "untyped_storage")))
