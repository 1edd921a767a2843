"""``with warnings.catch_warnings()`` in captured code.

What captured code does gives no warnings: what would, breaks the graph. So a block of it leaves the filters as they
were, and they need not be touched at all. Where the graph breaks inside of the block, or something of it lives on, the
context manager is made and entered for real.
"""

from __future__ import annotations

import types
import warnings
from typing import Any

from . import breaks
from .breaks import Break
from .calls import SPECIAL
from .evaluator import in_order
from .instances import CLASSES
from .rebuild import CannotRebuild

_TAKES = {"record", "action", "category", "lineno", "append"}
_ACTIONS = ("default", "error", "ignore", "always", "all", "module", "once")


def _made(ev: Any, cls: type, args: list, kwargs: dict) -> Any:
    plain = not args and _TAKES.issuperset(kwargs) and _plain(*kwargs.values())
    if not plain or kwargs.get("action", "ignore") not in (None, *_ACTIONS) or not in_order():
        raise Break(breaks.CALL, "call of warnings.catch_warnings", clean=True)
    return ev.note_new(ev.real(cls, **kwargs))


def _plain(*values: Any) -> bool:
    return all(type(v) in (bool, int, str, type(None)) or (type(v) is type and _is_category(v)) for v in values)


def _is_category(v: type) -> bool:
    return issubclass(v, Warning) and v.__module__ == "builtins"


def _entered(ev: Any, fn: Any, args: list, kwargs: dict) -> Any:
    me = args[0]
    known = any(me is x for x in (*ev.quiet, *ev.quieted))
    if type(me) is not warnings.catch_warnings or known or id(me) not in ev.made or not in_order():
        raise Break(breaks.CALL, "call of warnings.catch_warnings.__enter__", clean=True)
    ev.calls += 1
    ev.quiet.append(me)
    return [] if me._record else None


def _left(ev: Any, fn: Any, args: list, kwargs: dict) -> None:
    if not ev.quiet or ev.quiet[-1] is not args[0] or not in_order():
        raise Break(breaks.CALL, "call of warnings.catch_warnings.__exit__", clean=True)
    ev.calls += 1
    ev.quiet.pop()
    ev.quieted.append(args[0])


def _filtered(ev: Any, fn: Any, args: list, kwargs: dict) -> None:
    """A filter that is set inside of a block: it is gone with it."""
    action = args[0] if args else kwargs.get("action")
    known = fn is warnings.resetwarnings or type(action) is str and action in _ACTIONS
    if not ev.quiet or not in_order() or not known or not _plain(*args, *kwargs.values()):
        raise Break(breaks.CALL, f"call of warnings.{fn.__name__}", clean=True)
    ev.calls += 1
    with warnings.catch_warnings():
        ev.real(fn, *args, **kwargs)  # it may not take them


def quiet_lines(ev: Any) -> list[str]:
    """For the end of a segment. A block that is still open is entered for real; one that was left makes Python forget
    which warnings it gave already."""
    for me in ev.quiet:
        raise CannotRebuild(me, "an open block of warnings.catch_warnings")
    return [f"{ev.cap.consts.name(_mutated)}()"] if ev.quieted else []


def _mutated() -> None:
    with warnings.catch_warnings():
        pass


CLASSES[warnings.catch_warnings] = _made
SPECIAL[warnings.catch_warnings.__enter__] = _entered
SPECIAL[warnings.catch_warnings.__exit__] = _left
for _f in (warnings.simplefilter, warnings.filterwarnings, warnings.resetwarnings):
    if type(_f) is types.FunctionType:
        SPECIAL[_f] = _filtered
