"""Exceptions of the engine. Where PyTorch raises a builtin class, so do we; these are subclasses with more to say.
And warnings at the user's line.
"""

from __future__ import annotations

import functools


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
    """A warning at the nearest line of the user's."""
    from .warned import at_users_line

    at_users_line(message, category)


@functools.cache  # once in a process
def tell_of_number() -> None:
    """The warning of ``float(t)`` in grad mode where ``t`` requires a gradient: none goes through the number."""
    warn(
        "float(), int() or complex() of a tensor that requires a gradient gives a number without one. Use detach() "
        "first to say that this is meant.",
        UserWarning,
    )
