"""Operators that only graphs use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from fusegrad.meta import Meta
from fusegrad.op import TABLE, Sample, op

__all__ = ["stop_gradient", "view_update", "with_history"]


@op("stop_gradient(input: T)", kind="pointwise", method=False, function=False, nondiff=True)
class stop_gradient:
    """``input``, through which no gradient flows: ``detach`` and ``no_grad`` in a nested graph that goes to a file."""

    def kernel(x: np.ndarray) -> np.ndarray:
        out = np.array(x)
        if 0 in x.strides and not out.flags.c_contiguous:  # an expanded axis, which numpy takes for the fastest
            return np.positive(x) if x.dtype.kind != "b" else x | False
        return out

    def scalar(b: Any, x: Any) -> Any:
        return x

    def samples() -> Iterator[Sample]:
        yield Sample(np.arange(6.0).reshape(2, 3))


@op("with_history(value: T, input: T)", kind="pointwise", method=False, function=False, promote="none")
class with_history:
    """``value``, through which gradients flow as if it were ``input``: a tensor after a change that nobody recorded."""

    def kernel(value: np.ndarray, input: np.ndarray) -> np.ndarray:
        out = stop_gradient.kernel(value)  # type: ignore[attr-defined]
        if input.shape == value.shape:
            return out
        return np.array(np.broadcast_to(out, np.broadcast_shapes(value.shape, input.shape)))  # batched in one of them

    def scalar(b: Any, value: Any, input: Any) -> Any:
        return value

    def vjp_input(g: Any) -> Any:
        return g

    def samples() -> Iterator[Sample]:
        yield Sample(np.arange(6.0).reshape(2, 3), np.ones((2, 3)), grad=False)


@op(
    "view_update(input: T, value: T, *, view: str, attrs: any, number: int = 0)",
    kind="gather",
    method=False,
    function=False,
)
class view_update:
    """A copy of ``input`` in which the view ``view(input, **attrs)`` (its output ``number``) holds ``value``."""

    def kernel(x: np.ndarray, value: np.ndarray, *, view: str, attrs: tuple, number: int = 0) -> np.ndarray:
        result = np.array(x, order="C")
        part = _view_op(view).kernel(result, **dict(attrs))
        if isinstance(part, (tuple, list)):
            part = part[number]
        part[...] = value
        return result

    def meta(x: Meta, value: Meta, *, view: str, attrs: tuple, number: int = 0) -> Meta:
        _view_op(view)
        return Meta(x.shape, x.dtype)

    def vjp_input(g: Any, value: Any, view: str, attrs: tuple, number: int) -> Any:
        return view_update(g, value * 0, view=view, attrs=attrs, number=number)  # type: ignore[call-arg]

    def vjp_value(g: Any, view: str, attrs: tuple, number: int) -> Any:
        part = _view_op(view)(g, **dict(attrs))
        return part[number] if isinstance(part, (tuple, list)) else part

    def samples() -> Iterator[Sample]:
        x = np.arange(12.0).reshape(3, 4)
        yield Sample(x, np.ones((4, 3)), view="transpose", attrs=(("dim0", 0), ("dim1", 1)))


def _view_op(name: str) -> Any:
    found = TABLE.get(name)
    if found is None or found.kind != "view":
        raise ValueError(f"view_update: {name!r} is not a view operator")
    return found
