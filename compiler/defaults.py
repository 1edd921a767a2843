"""Arguments of compiled functions: their defaults, followed when the plain function gets others, and plain calls."""

from __future__ import annotations

import types
from typing import Any

from .capture.state import Guard


def call_plainly(code: types.CodeType, fn: Any, values: tuple) -> Any:
    """Call a function of that code with arguments in the order of the code's variables."""
    n, k = code.co_argcount, code.co_kwonlyargcount
    rest = values[n + k :]
    star = rest[0] if code.co_flags & 4 else ()
    kw = rest[-1] if code.co_flags & 8 else {}
    kwonly = dict(zip(code.co_varnames[n : n + k], values[n : n + k], strict=False))
    return fn(*values[:n], *star, **kwonly, **kw)


class Defaults:
    """What the parameters of a dispatcher stand for when a call leaves them out.

    Python binds arguments to the dispatcher, so it must have the plain function's defaults. Assigning to the
    dispatcher's own ``__defaults__`` works by itself; when the plain function is given other ones, its entries' guards
    fail, and the miss puts the new objects in the place of the old ones.
    """

    def __init__(self, func: types.FunctionType, dispatcher: types.FunctionType) -> None:
        self.func, self.dispatcher = func, dispatcher
        self._take()

    def _take(self) -> None:
        f = self.func
        self.known = self.dispatcher.__defaults__, self.dispatcher.__kwdefaults__ = f.__defaults__, f.__kwdefaults__

    def guards(self, consts: Any) -> list[Guard]:
        """Conditions that the plain function's defaults are still those objects."""
        names = zip(("__defaults__", "__kwdefaults__"), self.known, strict=True)
        return [Guard(f"_fgF.{name} is {consts.name(v)}", None, "code", name) for name, v in names if v]

    def renewed(self, values: tuple) -> tuple:
        """Arguments (in the order of the code's variables) as they would have been bound with the present defaults."""
        old, f = self.known, self.func
        if f.__defaults__ is old[0] and f.__kwdefaults__ is old[1]:
            return values
        was = self._by_place(*old)
        self._take()
        now, out = self._by_place(*self.known), list(values)
        left_out = {k for k in was if values[k] is was[k]}
        if left_out - now.keys():
            self._refuse(values, left_out - now.keys())
        for k in left_out:
            out[k] = now[k]
        return tuple(out)

    def _refuse(self, values: tuple, missing: set[int]) -> None:
        """Raise Python's own error: arguments were left out that have no defaults any more."""
        code = self.func.__code__
        first = min(*missing, code.co_argcount)
        names = code.co_varnames[first : code.co_argcount + code.co_kwonlyargcount]
        given = {n: values[k] for k, n in enumerate(names, first) if k not in missing}
        self.func(
            *values[:first], **{n: v for n, v in given.items() if n not in code.co_varnames[: code.co_posonlyargcount]}
        )

    def _by_place(self, defaults: tuple | None, kwdefaults: dict | None) -> dict[int, Any]:
        code = self.func.__code__
        n, names = code.co_argcount, code.co_varnames
        out = dict(enumerate(defaults or (), n - len(defaults or ())))
        return out | {names.index(k): v for k, v in (kwdefaults or {}).items() if k in names}
