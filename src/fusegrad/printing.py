"""Text of tensors, in PyTorch's style; ``set_printoptions``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import dtypes
from .autograd.node import short_name
from .tensor import Tensor

_DEFAULTS: dict[str, Any] = {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80, "sci_mode": None}
_options = dict(_DEFAULTS)
_INDENT = len("tensor(")
_PROFILES = {"default": {}, "short": {"precision": 2, "edgeitems": 2}, "full": {"threshold": float("inf")}}


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """How tensors print: digits, size from which they are summarised, items at the edges, columns a line."""
    if profile is not None:
        _options.update(_DEFAULTS | _PROFILES[profile])  # type: ignore[operator]
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    _options.update({k: v for k, v in given.items() if v is not None})
    _options["sci_mode"] = sci_mode


def tensor_text(t: Tensor) -> str:
    """``tensor([1., 2.], requires_grad=True)``."""
    kind = type(t)
    name = "Parameter containing:\ntensor" if kind.__name__ == "Parameter" else "tensor"
    if kind is not Tensor and not kind.__module__.startswith(__package__ + "."):  # derived from Tensor by a program
        name = ("Parameter containing:\n" if not kind.copies_grad else "") + kind.__name__
    tail = _tail(t)
    if t._data is None:
        text = getattr(t._g.handler, "text", None)
        return f"<graph tensor {t._g.meta}>" if text is None else text(t)
    text = f"{name}({_values(t._data, _INDENT)}"
    room = _options["linewidth"] - (len(text) - text.rfind("\n") + 1)
    for part in tail:
        fits = len(part) + 2 <= room
        text += ", " + part if fits else ",\n" + " " * _INDENT + part
        room = room - len(part) - 2 if fits else _options["linewidth"] - _INDENT - len(part)
    return text + ")"


def _tail(t: Tensor) -> list[str]:
    parts = []
    d = t.dtype
    if d not in (dtypes.get_default_dtype(), dtypes.int64, dtypes.bool_) or (t._data is not None and t._data.size == 0):
        if not (t._data is not None and t._data.size == 0 and d is dtypes.get_default_dtype()):
            parts.append(f"dtype={d!r}")
    if t._data is not None and t._data.size == 0 and t.ndim != 1:
        parts.insert(0, f"size={tuple(t.shape)}")
    try:
        node = t.grad_fn
    except RuntimeError:  # a view that was changed where its base's history can't follow
        parts.append("grad_fn=<Invalid>")
        return parts
    if node is not None:
        parts.append(f"grad_fn=<{short_name(node)}>")
    elif t.requires_grad:
        parts.append("requires_grad=True")
    return parts


def _values(a: np.ndarray, indent: int) -> str:
    if a.size == 0:
        return "[]"
    cut = a.size > _options["threshold"]
    fmt, width = _formatter(_edges(a) if cut else a)
    if a.ndim == 0:
        return fmt(a[()])
    return _nested(a, fmt, width, indent, cut)


def _edges(a: np.ndarray) -> np.ndarray:
    e = _options["edgeitems"]
    for axis in range(a.ndim):
        if a.shape[axis] > 2 * e:
            a = np.concatenate([a.take(range(e), axis), a.take(range(a.shape[axis] - e, a.shape[axis]), axis)], axis)
    return a


def _formatter(a: np.ndarray) -> tuple[Callable[[Any], str], int]:
    """How to write one value of those shown, and the width of the widest that is finite and not zero."""
    if a.dtype.kind != "f":
        return str, max(len(str(v)) for v in a.ravel())
    p = _options["precision"]
    values = a[np.isfinite(a) & (a != 0)].astype(np.float64)
    size = np.abs(values)
    whole = bool((values == np.floor(values)).all())
    sci = bool(size.size and (size.max() / size.min() > 1000 or size.max() > 1e8 or not whole and size.min() < 1e-4))
    if _options["sci_mode"] is not None:
        sci = _options["sci_mode"]

    def write(v: Any) -> str:
        if sci:
            return f"{v:.{p}e}"
        if whole:
            return f"{v:.0f}" + "." * bool(np.isfinite(v))
        return f"{v:.{p}f}"

    return write, max((len(write(v)) for v in values), default=1)


def _nested(a: np.ndarray, fmt: Callable[[Any], str], width: int, indent: int, cut: bool) -> str:
    e = _options["edgeitems"]
    short = cut and a.shape[0] > 2 * e
    rows = [*range(e), None, *range(a.shape[0] - e, a.shape[0])] if short else range(a.shape[0])
    if a.ndim == 1:
        items = [" ..." if i is None else fmt(a[i]).rjust(width) for i in rows]
        per = max(1, (_options["linewidth"] - indent) // (width + 2))
        lines = [", ".join(items[k : k + per]) for k in range(0, len(items), per)]
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
    parts = ["..." if i is None else _nested(a[i], fmt, width, indent + 1, cut) for i in rows]
    return "[" + ("," + "\n" * (a.ndim - 1) + " " * (indent + 1)).join(parts) + "]"
