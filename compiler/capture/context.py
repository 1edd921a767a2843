"""Context variables in captured code: what ``get`` finds is read (and guarded) like an attribute, what ``set`` leaves
is set at the end of the segment. A token that lives on makes its ``set`` run for real.
"""

from __future__ import annotations

import contextvars
from typing import Any

from . import breaks
from .breaks import Break, Raised
from .evaluator import in_order
from .values import NULL, ObjRef


class Variable:
    """One context variable: what captured code set it to (NULL: nothing, or taken back), and its open tokens."""

    def __init__(self, ref: ObjRef) -> None:
        self.ref = ref
        self.value: Any = NULL
        self.open: list[tuple[contextvars.Token, Any]] = []  # each with the value before


def context_method(ev: Any, ref: ObjRef, name: str, args: list, kwargs: dict) -> Any:
    """``get``, ``set`` and ``reset`` of a context variable from before."""
    cap, obj = ev.cap, ref.obj
    most = 1 if name != "get" else 2
    if kwargs or not (name == "get" or args) or len(args) > most - (name == "get") or name not in _METHODS:
        raise Break(breaks.CALL, f"method {name} of a ContextVar", clean=True)
    var = cap.context.get(id(obj))
    if var is None:
        cap.guard(f"{cap.tok(ref.source)} is {cap.consts.name(obj)}", "identity", ref.source.path(), obj)
        var = cap.context[id(obj)] = Variable(ref)
    if name == "get":
        return _get(ev, var, args)
    if not in_order():
        raise Break(breaks.CALL, f"method {name} of a ContextVar", clean=True)
    ev.calls += 1
    return _set(ev, var, args[0]) if name == "set" else _reset(var, args[0])


def _get(ev: Any, var: Variable, args: list) -> Any:
    cap, obj = ev.cap, var.ref.obj
    if var.value is not NULL:
        if not in_order():
            raise Break(breaks.CALL, "method get of a ContextVar", clean=True)
        return var.value
    source = cap.const(obj, var.ref.source.name)
    unset, found = f"{cap.tok(source)}.get(_fgStop) is _fgStop", source.call("{}.get()")
    if obj.get(NULL) is not NULL:
        cap.guard(f"not {unset}", "present", source.path(), found)
    else:
        cap.guard(unset, "absent", source.path())
        if args:
            return args[0]
        try:
            obj.get()
        except LookupError as e:
            e.__traceback__ = None
            raise Raised(e) from None
    return cap.realize(obj.get(), found)


def _set(ev: Any, var: Variable, value: Any) -> Any:
    token = contextvars.copy_context().run(var.ref.obj.set, None)  # one that nobody has seen
    var.open.append((token, var.value))
    var.value = value
    ev.made[id(token)] = ev.outer
    return token


def _reset(var: Variable, token: Any) -> None:
    """Only of the latest token: any other use of one is for Python to judge."""
    if not var.open or var.open[-1][0] is not token:
        raise Break(breaks.CALL, "method reset of a ContextVar", clean=True)
    var.value = var.open.pop()[1]


def context_lines(rb: Any) -> list[str]:
    """Lines that set the variables for real."""
    return [
        f"{rb.cap.consts.name(var.ref.obj)}.set({rb.value(var.value)})"
        for var in rb.cap.context.values()
        if var.value is not NULL
    ]


_METHODS = ("get", "set", "reset")
