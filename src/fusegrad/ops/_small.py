"""Native kernels of pointwise operators of several tensors for few elements: numpy takes two to five calls for them.

They round as numpy's calls do (additions, products, quotients, choices). Compiling one costs as much as thousands of
such calls, so that the first ones go to numpy.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ..native.on_demand import OnDemand

FIRST = 24  # calls that go to numpy
MOST = 1 << 14  # elements: above, numpy's passes are as fast as they are long

_FORMS: dict[str, Any] = {
    "F4": np.dtype(np.float32),
    "F8": np.dtype(np.float64),
    "ndarray": np.ndarray,
    "empty_like": np.empty_like,
    "may_share": np.may_share_memory,
    "__name__": "fusegrad.calls",
}


@functools.cache
def _finder(arrays: int, numbers: int) -> Callable[..., Any]:
    """``find(small, *arrays, *numbers)``: the kernel for dense arrays of one shape and dtype; None if they are not."""
    names, values = [f"a{i}" for i in range(arrays)], [f"v{i}" for i in range(numbers)]
    tests = ["(d is F4 or d is F8)", "a0.flags.c_contiguous", f"a0.size <= {MOST}"]
    tests += [f"{t} is ndarray" for t in map("type({})".format, names)]
    tests += [f"{a}.dtype is d and {a}.shape == s and {a}.flags.c_contiguous" for a in names[1:]]
    tests += [f"-1e30 < {v} < 1e30" for v in values]
    text = f"""
def find(small, {", ".join(names + values)}):
    d, s = a0.dtype, a0.shape
    return small.kernels[d] if {" and ".join(tests)} else None
"""
    scope = dict(_FORMS)
    exec(text, scope)
    return scope["find"]


class Small:
    """The kernels of ``rule`` (see ``_native.scalar_kernel``) for ``arrays`` tensors and ``numbers``."""

    __slots__ = ("kernels", "left", "arrays", "numbers", "find")

    def __init__(self, kernels: OnDemand, arrays: int, numbers: int = 0) -> None:
        self.kernels, self.left, self.arrays, self.numbers = kernels, FIRST, arrays, numbers
        self.find: Any = None

    def early(self) -> bool:
        """Whether a call goes to numpy: one of the first."""
        if self.left:
            self.left -= 1
            return True
        self.find = _finder(self.arrays, self.numbers)
        return False

    def __call__(self, arrays: tuple, numbers: tuple = ()) -> np.ndarray | None:
        """The result for few elements, None for what is not usual."""
        if self.find is None and self.early() or (f := self.find(self, *arrays, *numbers)) is None:
            return None
        out = np.empty_like(arrays[0])
        f(*arrays, out, *numbers, out.size)
        return out

    def over(self, arrays: tuple, numbers: tuple = ()) -> bool:
        """Write the result into the first array; whether it was done."""
        if self.find is None and self.early() or (f := self.find(self, *arrays, *numbers)) is None:
            return False
        x = arrays[0]
        for a in arrays[1:]:  # (one element is read before it is written; others may not be)
            if a is not x and (a.base is not None or x.base is not None) and np.may_share_memory(a, x):
                return False
        f(*arrays, x, *numbers, x.size)
        return True
