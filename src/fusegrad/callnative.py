"""Recorded calls finished by machine code (``native/llvm_objects.py``), once a program has made some of them.

Every generated function has a global ``finish``: ``finish(r, attrs, *operands)`` returns the Tensor around a result,
with its node, or None for what is not usual; the function's own lines follow then. It is None where no machine code can
be had. At the start it counts: a short program never loads any.
"""

from __future__ import annotations

import functools
import struct
import threading
from typing import TYPE_CHECKING, Any

from .dispatch import DENSE as DENSE_KINDS

if TYPE_CHECKING:
    from .op import Op

__all__ = ["finisher", "load"]

AFTER = 400  # calls of the process
COUNTS = range(1, 5)  # operands of those that have one
_lock = threading.RLock()
_counted = 0
_makers: dict[str, Any] | None = None  # by name, what binds a plan; {} where there is no machine code
_waiting: list[tuple[dict[str, Any], Op]] = []  # globals of functions and their operators
DENSE, PLAIN, SURE = 1, 2, 4  # the result has to be dense; it has no derivative; it is floating point if operands are
ALWAYS = 1 << 15


def finisher(scope: dict[str, Any], op: Op) -> None:
    """Set ``finish`` in the globals of a function, now or when machine code is loaded."""
    with _lock:
        if _makers is None:
            scope["finish"] = _counting
            _waiting.append((scope, op))
        else:
            _set(scope, op)


def _set(scope: dict[str, Any], op: Op) -> None:
    plan, name = plan_of(op), "view" if op.kind == "view" else f"made{len(op.sig.tensors)}"
    scope["finish"] = _makers[name](plan) if _makers else None


@functools.cache
def plan_of(op: Op) -> tuple | None:
    """The plan of an operator: the operator, a zero for each operand, and masks that say by bits which operands' rules
    need the result, and the value and the Meta of each operand. None where machine code does not finish its calls."""
    params, rules = [p.name for p in op.sig.tensors], op.rules
    if len(params) not in COUNTS or op.n_out != 1 or any(p.type == "T[]" for p in op.sig.tensors):
        return None

    def mask(names: set[str]) -> int:
        users = [q for q, r in rules.items() if names & {*r.names}]
        if "*" in users:
            return ALWAYS
        return sum(1 << params.index(q) for q in users)

    flags = (DENSE if op.kind in DENSE_KINDS else 0) | (PLAIN if op.nondiff or not rules else 0)
    flags |= SURE if op.promote in ("same", "float") else 0
    kept = [(mask({p}), mask({p + "_meta"})) for p in params]
    if op.fields.get("meta_layout") and any(m for _, m in kept):
        return None
    masks = struct.pack(f"{2 + 2 * len(kept)}q", flags, mask({"out", "out0"}), *(m for pair in kept for m in pair))
    return op, (0,) * len(params), masks


def _counting(*_: Any) -> None:
    global _counted
    _counted += 1
    if _counted > AFTER:
        load()


def load() -> bool:
    """Load the machine code now; whether there is some."""
    global _makers
    with _lock:
        if _makers is None:
            try:
                from .native.objects import functions

                _makers = functions()
            except (ImportError, OSError, RuntimeError, AttributeError, TypeError, ValueError):
                _makers = {}  # the generated lines do the same
            for scope, op in _waiting:
                _set(scope, op)
            _waiting.clear()
    return bool(_makers)
