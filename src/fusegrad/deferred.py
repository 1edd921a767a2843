"""Functions whose code is generated when they are first called.

The op table makes some six hundred functions; compiling them all would cost most of the time of ``import fusegrad``.
A deferred function is an ordinary function object from the start, and stays the same object: its first call puts the
real code, defaults and globals in place of a stub's.

Those of operators come in two forms. Most of the code of one serves tensors that have data; a graph is captured with
tensors that have none. So a first call with one of these generates a short form and leaves the stub in place: a process
that runs compiled code, found in the disk cache perhaps, never generates the rest.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

_lock = threading.RLock()
FRONTS: dict[Any, Any] = {}  # functions whose code is another's, which calls them (``overrides``)


def _stub(*args: Any, **kwargs: Any) -> Any:
    _make()  # type: ignore[name-defined]  # noqa: F821  (a global of each deferred function)
    return _self(*args, **kwargs)  # type: ignore[name-defined]  # noqa: F821


def _stub_of_two(*args: Any, **kwargs: Any) -> Any:
    for a in args:
        if getattr(a, "_data", 0) is None:  # a tensor without data
            return _short(*args, **kwargs)  # type: ignore[name-defined]  # noqa: F821
    _make()  # type: ignore[name-defined]  # noqa: F821
    return _self(*args, **kwargs)  # type: ignore[name-defined]  # noqa: F821


_STUB: CodeType = _stub.__code__
_STUB_OF_TWO: CodeType = _stub_of_two.__code__


def deferred(name: str, filename: str, build: Callable[..., tuple[str, dict[str, Any]]], two: bool = False) -> Any:
    """A function ``name``; ``build`` gives its source (one ``def`` without decorators) and globals, on the first call.

    ``two``: ``build(True)`` gives the short form, for calls with tensors that have no data.
    """
    scope: dict[str, Any] = {"__name__": "fusegrad.calls"}
    stub = _STUB_OF_TWO if two else _STUB
    fn = FunctionType(stub, scope, name)
    fn.__qualname__ = name  # Python's own errors say it
    if two:
        scope["_short"] = deferred(name, filename, lambda: build(True))

    def make() -> None:
        with _lock:
            if fn.__code__ is not stub:
                return
            source, env = build()
            scope.update(env)
            exec(compile(source, filename, "exec"), scope)
            real = scope.pop(name)  # else a function called ``type`` would hide Python's
            if "finish" in source and "OP" in scope:
                from .callnative import finisher

                finisher(scope, scope["OP"], source)
            if "WRITABLE" in scope:
                from .callnative import given

                given(scope, "writable", "writable", scope["WRITABLE"])
            fn.__defaults__, fn.__kwdefaults__ = real.__defaults__, real.__kwdefaults__
            fn.__code__ = real.__code__
            scope["__source__"] = source

    scope["_make"], scope["_self"] = make, fn
    return fn


def force(fn: Any) -> Any:
    """Generate the code of a deferred function now; other functions are returned as they are."""
    if fn in FRONTS:
        return FRONTS[fn].made()
    make = getattr(fn, "__globals__", {}).get("_make")
    if make is not None and fn.__globals__.get("_self") is fn:
        make()
    return fn


def source_of(fn: Any) -> str:
    """The generated source of a deferred function."""
    return force(fn).__globals__["__source__"]
