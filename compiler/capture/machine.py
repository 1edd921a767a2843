"""The evaluator put together: core loop, objects, containers, calls, builtins; and its instruction handlers."""

from __future__ import annotations

from typing import Any

from ..number_forms import with_numbers
from . import (  # noqa: F401  (they register their handlers)
    builtin_table,
    classes,
    drawing,
    engine_calls,
    instr_basic,
    instr_control,
    numpy_calls,
    quiet,
    read_only,
    seeding,
    std_calls,
)
from .builtin_calls import BuiltinCalls
from .calls import Calls
from .containers import Containers
from .control import watcher
from .evaluator import Evaluator
from .instances import Instances
from .iteration import Iteration
from .lookup import Lookup
from .names import Names
from .objects import Objects
from .operators import Operators
from .special import SpecialMethods
from .stores import Stores


class Machine(
    Objects,
    Lookup,
    SpecialMethods,
    Stores,
    Names,
    Containers,
    Iteration,
    Operators,
    Calls,
    Instances,
    BuiltinCalls,
    Evaluator,
):
    """The symbolic evaluator."""

    def __init__(self, cap: Any) -> None:
        super().__init__(cap)
        self.new_functions: set[int] = set()
        self.reprs: set[tuple[int, int]] = set()  # objects whose guarded ``__repr__`` runs, with what it guards
        self.arrays: dict[int, Any] = {}  # tensors on arrays from before
        self.quiet: list[Any] = []  # open blocks of ``warnings.catch_warnings``, and those that were left (see quiet)
        self.quieted: list[Any] = []
        self.engine = engine_calls.EngineCalls()
        cap.builder.numbers = with_numbers
        cap.builder.look = watcher(self)
        self.bodies: list[tuple[Any, Any]] = []  # what control flow recorded, with the place of its call
