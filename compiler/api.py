"""The public functions: compile, explain, stats, reset, disable, is_compiling, allow_in_graph, mark_dynamic."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, TypedDict, TypeVar, Unpack, overload

from fusegrad import handler
from fusegrad.deferred import force
from fusegrad.meta import normalize_dim
from fusegrad.nn.module import Module
from fusegrad.tensor import Tensor

from . import report, runtime
from .cache import FunctionCache
from .capture import breaks
from .capture.breaks import BreakRecord, GraphBreakError
from .capture.decode import looks_at_callers
from .errors import VerificationError
from .module import CompiledModule, compiled_module
from .options import Options, make_options
from .suspended import refused, suspends
from .verification import counts
from .verification.settings import make_verify
from .verification.thread import eager_beside

F = TypeVar("F", bound=Callable[..., Any])

__all__ = [
    "GraphBreakError", "VerificationError", "allow_in_graph", "compile", "disable", "explain", "is_compiling",
    "mark_dynamic", "mark_static", "reset", "stats",
]  # fmt: skip


class Settings(TypedDict, total=False):
    """The keywords of ``compile``, for type checkers."""

    fullgraph: bool
    dynamic: bool | None
    options: Any
    disable: bool
    verify: Any
    backend: Any
    mode: str | None


@overload
def compile(f: F, **settings: Unpack[Settings]) -> F: ...
@overload
def compile(f: None = None, **settings: Unpack[Settings]) -> Callable[[F], F]: ...
def compile(
    f: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    options: Any = None,
    disable: bool = False,
    verify: Any = None,
    backend: Any = None,
    mode: str | None = None,
) -> Any:
    """Compile a function, method or module: the same results, from fused kernels.

    Args:
        f: what to compile; without it, a decorator. A Module gives a Module that shares its state.
        fullgraph: raise `GraphBreakError` (file, line, reason, way out) where the graph would break.
        dynamic: True: sizes and numbers are symbolic from the first call; False: never; None: from their second value.
        options: an ``Options`` or a dict of its fields.
        disable: return ``f`` unchanged.
        verify: run eager code beside compiled code, raise `VerificationError` where they differ (docs/verification.md).
            True: every call; n: every n-th; "region": compiled regions alone; False: never; None: what the environment
            variable FUSEGRAD_VERIFY says.
        backend, mode: PyTorch's names are accepted ("inductor", "max-autotune", ...) and change nothing: the only
            backend is fusegrad's. RuntimeError for others.
    """
    _check_names(backend, mode, dynamic)
    if f is None:
        return lambda g: compile(
            g, fullgraph=fullgraph, dynamic=dynamic, options=options, disable=disable, verify=verify
        )
    if disable:
        return f
    checks = make_verify(verify)
    settings = make_options(options)
    if checks.every:
        settings = replace(settings, verify=checks.every)
    how = _How(settings, dynamic, fullgraph, checks.whole and checks.every)
    if isinstance(f, Module):
        return compiled_module(f, functools.partial(_compile_function, how=how))
    return _compile_function(f, how)


_BACKENDS = (None, "fusegrad", "inductor", "eager", "aot_eager", "cudagraphs")
_MODES = (None, "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


def _check_names(backend: Any, mode: Any, dynamic: Any) -> None:
    if backend not in _BACKENDS:
        raise RuntimeError(
            f"fusegrad.compile: there is no backend {backend!r}; leave it out (PyTorch's {', '.join(_BACKENDS[2:])} "  # type: ignore[arg-type]
            "are accepted and mean fusegrad's own)"
        )
    if mode not in _MODES:
        raise RuntimeError(f"fusegrad.compile: unrecognized mode {mode!r}; there are {', '.join(_MODES[1:])}")  # type: ignore[arg-type]
    if not isinstance(dynamic, (bool, type(None))):
        raise TypeError(f"fusegrad.compile: dynamic must be True, False or None, not {dynamic!r}")


class _How(NamedTuple):
    """How functions are compiled. ``whole``: every n-th call is compared with the plain function; 0: none."""

    options: Options
    dynamic: bool | None
    fullgraph: bool
    whole: int


_PROGRAMS = ("fusegrad.compiler.", "fusegrad.demo", "fusegrad.bench")
"""Modules of ours whose functions are compiled like the user's."""


def _compile_function(f: Any, how: _How) -> Any:
    if isinstance(f, types.MethodType):
        return types.MethodType(_compile_function(f.__func__, how), f.__self__)
    if isinstance(f, (staticmethod, classmethod)):
        return type(f)(_compile_function(f.__func__, how))
    if not isinstance(f, types.FunctionType):
        return _compile_callable(f, how)
    plain = runtime.original_of(f)
    if plain is None:
        return f
    home = plain.__module__ or ""
    if home.partition(".")[0] == "fusegrad" and not home.startswith(_PROGRAMS):
        return _compile_callable(force(plain), how)  # called for real on graph tensors, as from captured code
    return _compile_plain(plain, how)


def _compile_plain(f: Any, how: _How) -> Any:
    """A Python function."""
    code = f.__code__
    if how.fullgraph and (suspends(code) or refused(code)):
        raise TypeError(f"fusegrad.compile: {f.__qualname__} is a generator or coroutine, which can't be one graph")
    if refused(code):
        what = f"{code.co_qualname} is {refused(code)}, which runs as it is: compile the functions it calls"
        report.note_plain(BreakRecord(breaks.FRAME, what, code.co_filename, code.co_firstlineno, "plain"))
        return f
    if looks_at_callers(f.__code__) and not how.fullgraph:
        code = f.__code__
        what = (
            f"{code.co_qualname} asks for frames (sys._getframe), so that it runs as it is: its caller must be its own"
        )
        report.note_plain(BreakRecord(breaks.FRAME, what, code.co_filename, code.co_firstlineno, "plain"))
        return f
    cache = FunctionCache(f, how.options, how.dynamic, how.fullgraph, False)
    unit = runtime.top_unit(cache)
    call: Any = unit.dispatch
    if how.whole and not suspends(code):
        from .verification.whole import verified  # few programs need it

        call = verified(unit, f, how.whole, runtime.original_of)
    functools.update_wrapper(call, f)
    call.__fusegrad_cache__ = cache
    call.__remade__ = (_compile_function, (f, how))  # how a module that holds it is pickled
    runtime._originals[call] = f
    report.CACHES.add(cache)
    return call


def _compile_callable(f: Any, how: _How) -> Any:
    """Other callables: partials, instances with ``__call__``, functions of the library."""
    if not callable(f):
        raise TypeError(f"fusegrad.compile takes a function, method or module, not {type(f).__name__}")

    def call(*args: Any, **kwargs: Any) -> Any:
        return f(*args, **kwargs)

    if hasattr(f, "__name__"):
        functools.update_wrapper(call, f)
        call.__wrapped__ = f
    return _compile_plain(call, how)


def _cache_of(f: Any) -> FunctionCache | None:
    if isinstance(f, types.MethodType):
        f = f.__func__
    if isinstance(f, CompiledModule):
        f = f._fg_call
    return getattr(f, "__fusegrad_cache__", None)


def explain(f: Any, *args: Any, **kwargs: Any) -> Any:
    """``explain(f)(*args)``: compile and call ``f``, and tell about graphs, breaks, guards (an `Explanation`)."""

    def run(*a: Any, **k: Any) -> report.Explanation:
        compiled = f if _cache_of(f) is not None else compile(f)
        out = compiled(*a, **k)
        cache = _cache_of(compiled)
        result = report.Explanation([] if cache is None else cache.reached())
        result.out = out
        return result

    return run(*args, **kwargs) if args or kwargs else run


def stats() -> dict[str, Any]:
    """Counters: compiles, recompiles, graph_breaks, compile_seconds, cache_hits, ..."""
    return {**report.stats(), **counts.shown()}


def reset() -> None:
    """Forget all compiled code and counters; compiled functions start over at their next call."""
    with runtime.LOCK:
        for cache in list(report.CACHES):
            cache.clear()
        runtime._nested.clear()
        report.reset_counts()
        counts.reset()


@overload
def disable(f: F, recursive: bool = True) -> F: ...
@overload
def disable(f: None = None, recursive: bool = True) -> Callable[[F], F]: ...
def disable(f: Any = None, recursive: bool = True) -> Any:
    """Mark a function: it runs as plain Python wherever it is called (a decorator)."""
    if f is None:
        return lambda g: disable(g, recursive)
    if isinstance(f, Module):
        f.forward = disable(f.forward)  # type: ignore[method-assign]
        return f
    if isinstance(f, types.MethodType):
        return types.MethodType(disable(f.__func__), f.__self__)
    plain = runtime.original_of(f) or f

    @functools.wraps(plain)
    def disabled(*args: Any, **kwargs: Any) -> Any:
        before, report.OFF.off = report.OFF.off, True
        try:
            with handler.active(None):
                return plain(*args, **kwargs)
        finally:
            report.OFF.off = before

    runtime._originals[disabled] = None
    return disabled


def is_compiling() -> bool:
    """Whether this runs inside capture (in plain Python False, but not where that runs for verification)."""
    return eager_beside() and not report.OFF.off


def allow_in_graph(f: F) -> F:
    """Mark a pure function of tensors: capture runs it on graph tensors without looking inside."""
    f._fusegrad_in_graph = True  # type: ignore[attr-defined]
    return f


def mark_dynamic(t: Tensor, dim: int | tuple[int, ...]) -> None:
    """Treat dimensions of a tensor as symbolic from the first compile on."""
    t._dynamic_dims = _dims_of("mark_dynamic", t, dim) | set(getattr(t, "_dynamic_dims", ()))  # type: ignore[attr-defined]


def mark_static(t: Tensor, dim: int | tuple[int, ...] | None = None) -> None:
    """Compile anew for every size of these dimensions."""
    dims = _dims_of("mark_static", t, range(t.ndim) if dim is None else dim)
    t._static_dims = dims | set(getattr(t, "_static_dims", ()))  # type: ignore[attr-defined]


def _dims_of(name: str, t: Any, dim: Any) -> set[int]:
    """Dimensions counted from the front. TypeError for what is no tensor, IndexError for one that it has not."""
    if not isinstance(t, Tensor):
        raise TypeError(f"{name}(): argument 't' (position 1) must be Tensor, not {type(t).__name__}")
    return {normalize_dim(d, t.ndim) for d in ((dim,) if isinstance(dim, int) else dim)}
