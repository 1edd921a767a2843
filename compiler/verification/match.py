"""Where two states (see ``state``) differ first."""

from __future__ import annotations

from typing import Any

import numpy as np

from .compare import difference, numbers_close, within_whole
from .state import ADDRESS, NUMBER, State

__all__ = ["LINE", "Mismatch", "mismatch", "texts_match"]


class Mismatch:
    """The first difference: where, in words, and the arrays' difference if numbers differ."""

    def __init__(self, path: str, text: str, found: Any = None) -> None:
        self.path, self.text, self.found = path, text, found

    def __str__(self) -> str:
        return f"{self.path}: {self.text}"


def texts_match(eager: str, compiled: str) -> bool:
    """Equal texts, but for addresses and the rounding of decimal numbers in them."""
    if eager == compiled:
        return True
    a, b = ADDRESS.sub("0x", eager), ADDRESS.sub("0x", compiled)
    if NUMBER.sub("#", a) != NUMBER.sub("#", b):
        return False
    pairs = zip(NUMBER.findall(a), NUMBER.findall(b), strict=True)
    return all(numbers_close(float(x), float(y)) for x, y in pairs)


def mismatch(eager: State, compiled: State, noisy: list[State] | None = None) -> Mismatch | None:
    """None if both states are the same, but for rounding. ``noisy``: states after eager runs with noise."""
    for (path, _, data, _), (other, _, now, _) in zip(eager.items, compiled.items, strict=False):
        if path != other and path in _OUTCOMES and other in _OUTCOMES:
            return Mismatch("the outcome", f"eager has a {path} {_shown(data)}, compiled a {other} {_shown(now)}")
    for k, ((path, kind, data, parts), (_, other, now, others)) in enumerate(
        zip(eager.items, compiled.items, strict=False)
    ):
        if kind != other:
            return Mismatch(path, f"eager has {_show(kind, data)}, compiled {_show(other, now)}")
        found = _data(path, kind, data, now, [s.items[k][2] for s in noisy or () if s.items[k : k + 1]])
        if found is not None:
            return found
        if parts != others:
            return Mismatch(path, _parts(eager, compiled, kind, parts, others))
    return None


LINE = "line of the exception"
_OUTCOMES = ("result", "exception", "message of the exception")


def _shown(data: Any) -> str:
    return "" if data is None or isinstance(data, tuple) else repr(data)[:300]


def _parts(eager: State, compiled: State, kind: str, parts: tuple, others: tuple) -> str:
    """What is wrong with objects of one kind whose parts are other objects, or more or fewer."""
    names, now = ([s.items[p][0] for p in ps if p >= 0] for s, ps in ((eager, parts), (compiled, others)))
    if len(parts) != len(others):
        return f"the {kind} has other parts: eager {_few(names)}, compiled {_few(now)}"
    for a, b in zip(names, now, strict=False):
        if a != b:
            return f"eager holds the object {a}, compiled {b}"
    return f"the {kind} holds other objects"


def _few(names: list[str]) -> str:
    return ", ".join(n[-40:] for n in names[:12]) + (" ..." if len(names) > 12 else "") if names else "none"


def _data(path: str, kind: str, eager: Any, compiled: Any, noisy: list[Any]) -> Mismatch | None:
    if isinstance(eager, tuple) and eager and isinstance(eager[-1], np.ndarray):
        return _arrays(path, kind, eager, compiled, noisy)
    if kind == "float" and numbers_close(eager, compiled, [x for x in noisy if type(x) is float]):
        return None
    if kind == "str" and texts_match(eager, compiled):
        return None
    if path == LINE and not eager:  # CPython gives what leaves `except*` no line of the function; compiled code has one
        return None
    if eager == compiled or kind in ("str", "int", "bool") and compiled in noisy:
        return None
    if kind == "shared":
        return Mismatch(path, f"eager {eager[:8]}, compiled {compiled[:8]} (numbers of two tensors, distance in bytes)")
    return Mismatch(path, f"eager {_show(kind, eager)}, compiled {_show(kind, compiled)}")


_FIELDS = ("dtype", "shape", "strides in bytes", "requires_grad", "having a grad_fn", "being an inference tensor")


def _arrays(path: str, kind: str, eager: tuple, compiled: tuple, noisy: list[Any]) -> Mismatch | None:
    for name, a, b in zip(_FIELDS, eager[:-1], compiled[:-1], strict=False):
        if a != b:
            return Mismatch(path, f"{name}: eager {a}, compiled {b}")
    a, b = eager[-1], compiled[-1]
    runs = [d[-1] for d in noisy if isinstance(d, tuple) and isinstance(d[-1], np.ndarray) and d[-1].shape == a.shape]
    ok = within_whole(a, b, runs)
    if ok.all():
        return None
    if a.dtype.kind not in "fiub":
        return Mismatch(path, "the contents differ")
    found = difference(a, b, ok)
    return Mismatch(path, str(found), found)


def _show(kind: str, data: Any) -> str:
    if isinstance(data, tuple) and data and isinstance(data[-1], np.ndarray):
        return f"{kind} {data[0]}{list(data[1])}"
    text = repr(data)
    return f"{kind} {text if len(text) <= 200 else text[:200] + '...'}" if data is not None else kind
