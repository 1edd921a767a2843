"""Text of tensors, in PyTorch's style; ``set_printoptions``."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import dtypes
from .autograd.node import short_name
from .tensor import Tensor

_DEFAULTS: dict[str, Any] = {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80, "sci_mode": None}
_options = dict(_DEFAULTS)
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
    name = "Parameter containing:\ntensor" if type(t).__name__ == "Parameter" else "tensor"
    tail = _tail(t)
    if t._data is None:
        text = getattr(t._g.handler, "text", None)
        return f"<graph tensor {t._g.meta}>" if text is None else text(t)
    return f"{name}({_values(t._data, len('tensor('))}{tail})"


def _tail(t: Tensor) -> str:
    parts = []
    d = t.dtype
    if d not in (dtypes.get_default_dtype(), dtypes.int64, dtypes.bool_) or (t._data is not None and t._data.size == 0):
        if not (t._data is not None and t._data.size == 0 and d is dtypes.get_default_dtype()):
            parts.append(f"dtype={d!r}")
    if t._data is not None and t._data.size == 0 and t.ndim != 1:
        parts.insert(0, f"size={tuple(t.shape)}")
    node = t.grad_fn
    if node is not None:
        parts.append(f"grad_fn=<{short_name(node)}>")
    elif t.requires_grad:
        parts.append("requires_grad=True")
    return "".join(", " + p for p in parts)


def _values(a: np.ndarray, indent: int) -> str:
    if a.size == 0:
        return "[]"
    fmt = _formatter(a)
    if a.ndim == 0:
        return fmt(a[()]).strip()
    if a.size > _options["threshold"]:
        shown = _edges(a)
    else:
        shown = a
    width = max(len(fmt(v)) for v in shown.ravel())
    return _nested(a, fmt, width, indent)


def _edges(a: np.ndarray) -> np.ndarray:
    e = _options["edgeitems"]
    for axis in range(a.ndim):
        if a.shape[axis] > 2 * e:
            a = np.concatenate([a.take(range(e), axis), a.take(range(-e, 0), axis)], axis)
    return a


def _formatter(a: np.ndarray) -> Any:
    if a.dtype.kind != "f":
        return str
    finite = np.abs(a[np.isfinite(a)].astype(np.float64))
    nonzero = finite[finite > 0]
    p = _options["precision"]
    if finite.size and (finite == np.floor(finite)).all():
        whole = nonzero.size == 0 or nonzero.max() < 1e8
        return (lambda v: f"{v:.0f}." if np.isfinite(v) else f"{v}") if whole else (lambda v: f"{v:.{p}e}")
    sci = _options["sci_mode"]
    if sci is None:
        sci = bool(
            nonzero.size and (nonzero.max() / nonzero.min() > 1000 or nonzero.max() > 1e8 or nonzero.min() < 1e-4)
        )
    return (lambda v: f"{v:.{p}e}" if np.isfinite(v) else f"{v}") if sci else (lambda v: f"{v:.{p}f}")


def _nested(a: np.ndarray, fmt: Any, width: int, indent: int) -> str:
    e = _options["edgeitems"]
    cut = a.size > _options["threshold"] and a.shape[0] > 2 * e
    rows = [*range(e), None, *range(a.shape[0] - e, a.shape[0])] if cut else range(a.shape[0])
    if a.ndim == 1:
        items = ["..." if i is None else fmt(a[i]).rjust(width) for i in rows]
        per = max(1, (_options["linewidth"] - indent) // (width + 2))
        lines = [", ".join(items[k : k + per]) for k in range(0, len(items), per)]
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
    parts = ["..." if i is None else _nested(a[i], fmt, width, indent + 1) for i in rows]
    return "[" + ("," + "\n" * (a.ndim - 1) + " " * (indent + 1)).join(parts) + "]"
