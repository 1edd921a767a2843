"""JSON with limits: nesting and size are checked before parsing; NaN, duplicates and huge numbers are refused."""

from __future__ import annotations

import json
import re
from typing import Any

from .errors import FileError

# strings (also one that never ends: matching it to the end keeps the scan linear) and brackets
_STRUCTURE = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)


def dump(value: Any) -> bytes:
    """Canonical text: sorted keys, no spaces, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(items)
    if len(out) != len(items):
        raise ValueError("a key occurs twice in one object")
    return out


def _no_constant(name: str) -> Any:
    raise ValueError(f"the number {name} is not allowed")


def load(data: Any, member: str, depth: int = 48) -> Any:
    """The value of JSON text. FileError names the member and what is wrong."""
    raw = bytes(data)
    level = 0
    for m in _STRUCTURE.finditer(raw):
        c = m.group()
        if c in (b"[", b"{"):
            level += 1
            if level > depth:
                raise FileError(f"load: {member} is nested more than {depth} levels deep")
        elif c in (b"]", b"}"):
            level -= 1
    try:
        return json.loads(raw.decode("utf-8"), object_pairs_hook=_pairs, parse_constant=_no_constant)
    except (ValueError, RecursionError) as e:
        raise FileError(f"load: {member} is not valid JSON: {e}") from None
