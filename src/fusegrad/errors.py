"""Exceptions of the engine. Where PyTorch raises a builtin class, so do we; these are subclasses with more to say.
And warnings at the user's line.
"""

from __future__ import annotations

import functools
import sys
import warnings
from types import FrameType


class FusegradError(RuntimeError):
    """Base class of the errors that have no builtin counterpart."""


class DataDependentError(FusegradError):
    """Python asked for the *value* of a graph tensor while a graph was being captured.

    A graph tensor has a dtype and a shape, and no data yet. Branching on it, converting it to a number or printing
    its values needs data::

        def f(x):
            return x * 2 if x.sum() > 0 else x      # branch on a value

    Write the choice with tensors instead (``fusegrad.where(x.sum() > 0, x * 2, x)``), or let ``fusegrad.compile``
    break the graph there (the default, without ``fullgraph=True``).
    """

    def __init__(self, message: str, tensor: object = None) -> None:
        super().__init__(message)
        self.tensor = tensor


class LinAlgError(RuntimeError):
    """A matrix is singular, not positive-definite, or a decomposition did not converge. Also ``linalg.LinAlgError``."""


class ControlFlowError(FusegradError):
    """A function given to ``cond``, ``while_loop``, ``scan``, ... does what a branch or a body may not do.

    Branches that return other shapes, carried values that change, in-place changes of inputs, results that alias them.
    """


class NotRecordedError(DataDependentError):
    """A call of structured control flow that can't be one step of a graph. Compiled code runs it eagerly."""


class DrawnError(NotRecordedError):
    """The same, because a branch or a body draws random numbers."""


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """A warning at the nearest line of the user's: not in this package, and not in code that it generated. A handler
    may have it given at every call."""
    from .handler import told

    told(message, category)
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_ours(frame):
        frame = frame.f_back
    if frame is None:
        warnings.warn(message, category, stacklevel=2)
        return
    names, code = frame.f_globals, frame.f_code
    registry = names.setdefault("__warningregistry__", {})
    module = names.get("__name__") or "<unknown>"
    warnings.warn_explicit(message, category, code.co_filename, frame.f_lineno, module, registry)


@functools.cache  # once in a process
def tell_of_number() -> None:
    """The warning of ``float(t)`` in grad mode where ``t`` requires a gradient: none goes through the number."""
    warn(
        "float(), int() or complex() of a tensor that requires a gradient gives a number without one. Use detach() "
        "first to say that this is meant.",
        UserWarning,
    )


def _is_ours(frame: FrameType) -> bool:
    """Whether a frame is of this package, of generated code, or called in between. Compiled code at a line of the
    user's has a mark."""
    names = frame.f_globals
    if "_fgSLOW" in names:
        return "_fgUSER" not in frame.f_code.co_consts
    top = str(names.get("__name__")).split(".")[0]
    return top in ("fusegrad", "functools", "contextlib") or _is_generated(frame)


def _is_generated(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith("<fusegrad")
