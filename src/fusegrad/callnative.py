"""Recorded calls finished by machine code (``native/llvm_objects.py``), once a program has made some of them.

Every generated function has a global ``finish``: ``finish(r, attrs, *operands)`` returns the Tensor around a result,
with its node, or None for what is not usual; the function's own lines follow then. It is None where no machine code can
be had. At the start it counts: a short program never loads any.
"""

from __future__ import annotations

import functools
import struct
import sys
import threading
from typing import TYPE_CHECKING, Any

from .dispatch import DENSE as DENSE_KINDS
from .tensor import Tensor

if TYPE_CHECKING:
    from .op import Op

__all__ = ["finisher", "given", "load"]

AFTER = 400  # calls of the process
COUNTS = range(1, 5)  # operands of operators with one result
SEVERAL = {(1, 2), (2, 2), (3, 3)}  # operands and results of the others
DENSE, PLAIN, SURE = 1, 2, 4  # results have to be dense; have no derivative; are floating point if operands are
ALWAYS = 1 << 15
_lock = threading.RLock()
_counted = 0
_loaded: bool | None = None  # whether there is machine code; None if nobody asked yet
_waiting: list[tuple[dict[str, Any], Op, str]] = []  # globals of functions, their operators, the name in their text
_asked: list[tuple[dict[str, Any], str, str, Any]] = []  # the same of ``given``


def finisher(scope: dict[str, Any], op: Op, source: str) -> None:
    """Set ``finish`` (or ``finish_first``) in the globals of a function, now or when machine code is loaded."""
    name = "finish_first" if "finish_first(" in source else "finish"
    with _lock:
        if _loaded is None:
            scope[name] = _counting
            _waiting.append((scope, op, name))
        else:
            _set(scope, op, name)


def given(scope: dict[str, Any], name: str, kind: str, plan: Any = None) -> None:
    """Set ``name`` in a scope to the function of this kind (``writable``, ``piece``), now or when machine code is
    loaded; None until then."""
    with _lock:
        if _loaded is None:
            scope[name] = None
            _asked.append((scope, name, kind, plan))
        else:
            scope[name] = bound(kind, plan) if _loaded else None


def _set(scope: dict[str, Any], op: Op, name: str) -> None:
    n = len(op.sig.tensors)
    several = "first" if name == "finish_first" else "several"
    if op.sig.tensors[-1].type == "T[]":
        kind = f"listed {n}"
    else:
        kind = f"{several} {n} {op.n_out}" if op.n_out > 1 else "view 1" if op.kind == "view" else f"made {n}"
    scope[name] = bound(kind, plan_of(op)) if _loaded else None


def bound(kind: str, plan: Any) -> Any:
    """The function of this kind with its plan; None where it can't be had."""
    binder = _binder(kind)
    return None if binder is None else binder(plan)


@functools.cache
def _binder(kind: str) -> Any:
    try:
        from .native.objects import binder

        return binder(kind)
    except (ImportError, OSError, RuntimeError, AttributeError, TypeError, ValueError):
        return None  # the generated lines do the same


@functools.cache
def plan_of(op: Op) -> tuple | None:
    """The plan of an operator: the operator, a zero for each operand, and masks that say by bits which operands' rules
    need the result, and the value and the Meta of each operand. None where machine code does not finish its calls."""
    params, rules = [p.name for p in op.sig.tensors], op.rules

    def mask(names: set[str]) -> int:
        users = [q for q, r in rules.items() if names & {*r.names}]
        if "*" in users:
            return ALWAYS
        return sum(1 << params.index(q) for q in users)

    known = len(params) in COUNTS if op.n_out == 1 else (len(params), op.n_out) in SEVERAL
    many = [p.type == "T[]" for p in op.sig.tensors]
    if not known or any(many[:-1]) or many[-1] and (op.n_out > 1 or mask({"out", "out0"})):
        return None
    flags = (DENSE if op.kind in DENSE_KINDS else 0) | (PLAIN if op.nondiff or not rules else 0)
    flags |= SURE if op.promote in ("same", "float") else 0
    kept = [(mask({p}), mask({p + "_meta"})) for p in params]
    if op.fields.get("meta_layout") and any(m for _, m in kept):
        return None
    masks = [flags, mask({"out", "out0"}), *(m for pair in kept for m in pair)]
    masks += [mask({f"out{j}"}) for j in range(1, op.n_out)]
    return op, (0,) * len(params), struct.pack(f"{len(masks)}q", *masks)


def _counting(*_: Any) -> None:
    global _counted
    _counted += 1
    if _counted > AFTER:
        load()


def load() -> bool:
    """Load the machine code now; whether there is some."""
    global _loaded
    with _lock:
        if _loaded is None:
            wrap = sys.modules[Tensor.__module__].quick_wrap = bound("wrap", None)
            _loaded = wrap is not None
            for scope, op, name in _waiting:
                _set(scope, op, name)
            for scope, name, kind, plan in _asked if _loaded else ():
                scope[name] = bound(kind, plan)
            _waiting.clear()
            _asked.clear()
    return _loaded
