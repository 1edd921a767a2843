"""fusegrad.compiler:

capture, graph, passes, kernels, run time. Public names arrive lazily so that importing it stays cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .api import (  # noqa: F401
        GraphBreakError,
        VerificationError,
        allow_in_graph,
        compile,
        disable,
        explain,
        is_compiling,
        mark_dynamic,
        mark_static,
        reset,
        stats,
    )
    from .options import Options  # noqa: F401
    from .tracer import trace  # noqa: F401

_LAZY = {
    name: "fusegrad.compiler.api"
    for name in (
        "compile",
        "explain",
        "stats",
        "reset",
        "disable",
        "is_compiling",
        "allow_in_graph",
        "mark_dynamic",
        "mark_static",
        "GraphBreakError",
    )
}
_LAZY["VerificationError"] = "fusegrad.compiler.errors"
_LAZY["Options"] = "fusegrad.compiler.options"
_LAZY["trace"] = "fusegrad.compiler.tracer"


def __getattr__(name: str) -> Any:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module 'fusegrad.compiler' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
