"""In-place forms of functions that are not table operators."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..autograd.modes import NO_GRAD, RUNNING, SLOW, STATE
from ..autograd.node import new_storage, one_storage
from ..callnative import given
from ..dispatch import FAST
from ..errors import warn
from ..handler import _active
from ..inplace import assign, bump, check_overlap, check_writable, expanded, old_value
from ..op import Inline
from ..tensor import Tensor

writable: Any = None  # machine code for ``quiet``, of operands of one dtype
writable_from: Any = None  # of any
given(globals(), "writable", "writable", True)
given(globals(), "writable_from", "writable", False)


def _in_place(self: Any, compute: Any, *apart: Any) -> Any:
    """Write ``compute(old value)`` into ``self``, with the rules of every in-place operator. ``apart``: operands that
    may not share its memory."""
    check_writable(self)
    check_overlap(self, apart, True)
    return assign(self, compute(old_value(self, STATE.grad and self.requires_grad)))


def into_expanded(self: Any, name: str, write: Any, *others: Any) -> bool:
    """Let ``write(array)`` change an expanded tensor without history, with PyTorch's warning; whether that was so.

    Only for operators that write at places: there the last write to a place counts.
    """
    d = self._data
    if d is None or 0 not in d.strides or not expanded(d) or not plain_write(self, *others):
        return False
    check_writable(self, same=True)
    warn(
        f"{name} on an expanded tensor, several of whose elements are one place in memory: each write shows in all of "
        "them. This is deprecated in PyTorch: clone() the tensor first.",
        UserWarning,
    )
    write(d)
    bump(self)
    return True


def plain_write(self: Any, *others: Any) -> bool:
    """Whether arrays can be written directly: no graph tensor, no gradient to record."""
    return (
        self._data is not None
        and not (STATE.grad and self.requires_grad)
        and all(o._data is not None and not (STATE.grad and o.requires_grad) for o in others)
    )


def quiet(self: Any, other: Any = None) -> bool:
    """Whether writing into the memory of ``self`` (from a tensor ``other``) needs nothing but a new version: plain
    tensors of one dtype on memories of their own, contiguous ``self``, no mode, and no history."""
    if writable is not None and not SLOW[0] and (other is None or type(other) is Tensor and other is not self):
        if writable(self) if other is None else writable(self, other):  # noqa: SIM102
            return True
    if type(self) not in FAST or self._data is None or SLOW[0] or RUNNING or self._extra is not None:
        return False
    d = self._data
    if not d.flags.c_contiguous or not d.flags.writeable:
        return False
    asks = self._rg or self._view is not None and self._view.base._rg
    if other is not None:
        if type(other) not in FAST or other._data is None or other._data.dtype is not d.dtype:
            return False
        if other is self or other._st is not None and one_storage(other._st, self._st):
            return False
        asks = asks or other._rg or other._view is not None and other._view.base._rg
    return not asks or bool(NO_GRAD) and not STATE.grad


def written(self: Any, entry: Any, *others: Any, **attrs: Any) -> bool:
    """Let the ``write`` of an operator change the memory of ``self`` as its kernel changes a copy, if that needs
    nothing but a new version (``quiet``); whether that was so. ``others``: the other operands.

    A ``write`` refuses before it changes anything; the general form words what it refuses.
    """
    quick = writable is not None and not SLOW[0] and writable_from(self, *others)
    if not quick and not quiet(self):
        return False
    on, arrays = not NO_GRAD or STATE.grad, []
    for x in others:
        if quick:
            arrays.append(x._data if type(x) is Tensor else x)
            continue
        if type(x) in FAST:
            if x._data is None or x is self or x._st is not None and one_storage(x._st, self._st):
                return False
            if on and (x._rg or x._view is not None and x._view.base._rg):
                return False
            x = x._data
        elif type(x) is not float and type(x) is not int:
            return False
        arrays.append(x)
    try:
        entry.fields["write"](self._data, *arrays, **attrs)
    except (IndexError, RuntimeError, ValueError, TypeError, OverflowError):
        return False
    changed(self)
    return True


class Quick(Inline):
    """The usual call of an in-place function writes straight into the memory: what is published asks ``did`` first.

    ``did(array, *others)`` gets what ``first`` and ``others`` name, arrays in place of tensors, once machine code found
    that the change needs nothing but a new version. It changes nothing and says False where it isn't for that call.
    ``kept``: the parameters, besides keywords, that must have been left out. ``draws``: it takes random numbers, which
    an active handler would answer for.
    """

    __slots__ = ("did", "first", "others", "kept", "draws")

    def __init__(self, did: Any, first: str, *others: str, kept: tuple[str, ...] = (), draws: bool = False) -> None:
        self.did, self.first, self.others, self.kept, self.draws = did, first, others, kept, draws

    def lines(self, usual: str, env: dict[str, Any]) -> list[str]:
        """The lines that ask; ``usual``: the condition that no keyword was given."""
        env.update(WRITABLE=False, SLOW=SLOW, ACTIVE=_active, Tensor=Tensor, new_storage=new_storage, did=self.did)
        x, tensors = self.first, [n for n in self.others if n != "dim" and not self.draws]
        arrays = [f"{n}._data if type({n}) is Tensor else {n}" if n in tensors else n for n in self.others]
        usual = " and ".join(c for c in ("writable is not None", usual, *(f"not {k}" for k in self.kept)) if c)
        return [
            f"if {usual} and not SLOW[0]{' and not ACTIVE.stack' if self.draws else ''}:",
            f"    if writable({', '.join([x, *tensors])}) and did({', '.join([f'{x}._data', *arrays])}):",
            f"        st = {x}._st",
            f"        if st is None: st = {x}._st = new_storage()",
            "        st.version += 1",
            f"        return {x}",
        ]

    def noting(self, fn: Any) -> Any:
        return fn


def quietly_filled(self: Any, mask: Any, value: Any, whole: bool = False) -> bool:
    """Write a number where a plain mask holds, if that needs nothing but a new version (``quiet``) and the dtype is
    float32 or float64; ``whole``: the mask must have the shape of ``self``."""
    if type(mask) not in FAST or (m := mask._data) is None or m.dtype.kind != "b" or not quiet(self):
        return False
    d = self._data
    plain = type(value) is float or type(value) is int
    if not plain or not (-60000 < value < 60000 or value in _ENDLESS) or d.dtype.char not in "fd":
        return False
    if whole and m.shape != d.shape or mask._st is not None and one_storage(mask._st, self._st):
        return False
    try:
        np.copyto(d, value, where=m)
    except ValueError:  # nothing was written
        return False
    changed(self)
    return True


_ENDLESS = float("inf"), float("-inf")


def changed(self: Any) -> None:
    """Count the change of a tensor for which ``quiet`` holds."""
    st = self._st
    if st is None:
        st = self._st = new_storage()
    st.version += 1
