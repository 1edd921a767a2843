"""Functions that make tensors of few numbers from numbers alone: short ways inside of what is published (``Made``);
elements of usual calls are remembered, and copied.

What is published of a function with ``inline=Remembered(...)`` looks first whether this very call was made before: the
same values of the same types, all keywords left out, no mode, no handler, the same default dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import dtypes, handler
from .autograd.modes import SLOW
from .op import Inline
from .tensor import Tensor, wrap

FEW, CALLS = 64, 256  # elements of a result, calls of a function


class Made(Inline):
    """The usual call of a function makes its array in one step: ``did(*names)`` gives it, or None for a call that is
    not usual, of which nothing is done then. ``others``: a parameter that must be empty."""

    __slots__ = ("did", "names", "others")

    def __init__(self, did: Callable[..., Any], *names: str, others: str = "") -> None:
        self.did, self.names, self.others = did, names, others

    def lines(self, usual: str, env: dict[str, Any]) -> list[str]:
        """The lines that ask; ``usual``: the condition that no keyword was given."""
        env.update(SLOW=SLOW, ACTIVE=handler._active, wrap=wrap, did=self.did)
        none = f"not {self.others}" if self.others else ""
        conditions = " and ".join(x for x in ("not SLOW[0]", "not ACTIVE.stack", usual, none) if x)
        return [f"if {conditions} and (found_ := did({', '.join(self.names)})) is not None: return wrap(found_)"]

    def noting(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        return fn


class Remembered(Inline):
    """``names``: the parameters that stand for a call; of those in ``tuples`` the items have types, too."""

    __slots__ = ("names", "tuples", "memory")

    def __init__(self, *names: str, tuples: tuple[str, ...] = ()) -> None:
        self.names, self.tuples = names, tuples
        self.memory: dict[tuple, Any] = {}

    def lines(self, usual: str, env: dict[str, Any]) -> list[str]:
        """The lines that look; ``usual``: the condition that nothing else was given."""
        env.update(SLOW=SLOW, ACTIVE=handler._active, MEMORY=self.memory, default=dtypes.get_default_dtype, wrap=wrap)
        key = [*self.names, *(f"type({n})" for n in self.names), *(f"*map(type, {n})" for n in self.tuples)]
        key.append("default()")
        plain = [f"type({n}) is tuple" for n in self.tuples]
        conditions = " and ".join(x for x in ("not SLOW[0]", "not ACTIVE.stack", usual, *plain) if x)
        return [
            f"if {conditions}:",
            f"    try: found_ = MEMORY.get(({', '.join(key)}))",
            "    except TypeError: found_ = None",
            "    if found_ is not None: return wrap(found_.copy())",
        ]

    def noting(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """``fn``, whose calls with nothing but these parameters are remembered."""

        def noted(*args: Any, **kwargs: Any) -> Any:
            out = fn(*args, **kwargs)
            if not kwargs and len(args) == len(self.names) and type(out) is Tensor and not SLOW[0]:
                d = out._data
                if d is not None and d.size <= FEW and not handler.stack() and self._plain(args) and not out._rg:
                    if len(self.memory) >= CALLS:
                        self.memory.clear()
                    given = dict(zip(self.names, args, strict=True))
                    items = [type(v) for n in self.tuples for v in given[n]]
                    key = (*args, *map(type, args), *items, dtypes.get_default_dtype())
                    self.memory[key] = d.copy()
            return out

        return noted

    def _plain(self, args: tuple) -> bool:
        """Whether a call stands for itself: ints, None, and floats that are not zero (0.0 and -0.0 are one key)."""
        for name, a in zip(self.names, args, strict=True):
            if name in self.tuples:
                if type(a) is not tuple or any(type(v) is not int for v in a):
                    return False
            elif a is not None and not (type(a) is int or type(a) is float and a != 0):
                return False
        return True
