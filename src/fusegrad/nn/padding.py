"""Padding modules."""

from __future__ import annotations

from typing import Any

from fusegrad.nn import functional as F
from fusegrad.nn.module import Module
from fusegrad.tensor import Tensor


class _Pad(Module):
    _nd: int
    _mode = "constant"

    def __init__(self, padding: Any):
        super().__init__()
        self.padding = (padding,) * (2 * self._nd) if isinstance(padding, int) else tuple(padding)

    def forward(self, input: Tensor) -> Tensor:
        """The input with a border: (left, right, top, bottom, front, back) as far as they apply."""
        if self._mode == "circular" and input.ndim not in (self._nd + 1, self._nd + 2):
            raise ValueError(f"expected {self._nd + 1}D or {self._nd + 2}D input (got {input.ndim}D input)")
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPad(_Pad):
    def __init__(self, padding: Any, value: float):
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        """The input with a border of `value`."""
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class _ZeroPad(_ConstantPad):
    def __init__(self, padding: Any):
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


def _make(prefix: str, base: type, mode: str | None, doc: str) -> list[type]:
    classes = []
    for nd in (1, 2, 3):
        body: dict[str, Any] = {"_nd": nd, "__doc__": f"{doc} of the last {nd} dimension(s).", "__module__": __name__}
        if mode is not None:
            body["_mode"] = mode
        classes.append(type(f"{prefix}{nd}d", (base,), body))
    return classes


ConstantPad1d, ConstantPad2d, ConstantPad3d = _make("ConstantPad", _ConstantPad, None, "Constant padding")
ZeroPad1d, ZeroPad2d, ZeroPad3d = _make("ZeroPad", _ZeroPad, None, "Zero padding")
ReflectionPad1d, ReflectionPad2d, ReflectionPad3d = _make("ReflectionPad", _Pad, "reflect", "Reflection padding")
ReplicationPad1d, ReplicationPad2d, ReplicationPad3d = _make("ReplicationPad", _Pad, "replicate", "Edge padding")
CircularPad1d, CircularPad2d, CircularPad3d = _make("CircularPad", _Pad, "circular", "Circular padding")
