"""Floats computed from symbolic sizes, such as ``n / (n - 1)``.

Where a size meets a float or a true division, its context may answer with a `SymbolicNumber` (``SizeContext.real``);
operators take it like a Python float, and the graph's builder makes a number input of it (``graph_number``). Export
uses `SizeFloat`, a tree: ``("size", Poly)``, ``("number", float)`` or ``(operation, left, right)``; nothing is
evaluated before the call. Without ``real``, the size's value in this capture is used and guarded.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Mapping
from typing import Any

from .polynomial import Poly
from .size_values import SymbolicNumber

Tree = tuple
OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "pow": operator.pow,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
}
_SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "pow": "**", "floordiv": "//", "mod": "%"}


def evaluate_tree(tree: Tree, env: Mapping[str, int]) -> Any:
    """The number that Python gives for these sizes."""
    if tree[0] == "size":
        return tree[1].evaluate(env)
    if tree[0] == "number":
        return tree[1]
    return OPERATIONS[tree[0]](evaluate_tree(tree[1], env), evaluate_tree(tree[2], env))


def tree_text(tree: Tree) -> str:
    """Python source of the tree."""
    if tree[0] == "size":
        return str(tree[1]) if len(tree[1].terms) == 1 else f"({tree[1]})"
    if tree[0] == "number":
        return repr(tree[1])
    return f"({tree_text(tree[1])} {_SIGNS[tree[0]]} {tree_text(tree[2])})"


def tree_symbols(tree: Tree) -> set[str]:
    """Names of the sizes in it."""
    if tree[0] == "size":
        return tree[1].symbols()
    return set() if tree[0] == "number" else tree_symbols(tree[1]) | tree_symbols(tree[2])


def _binary(name: str, swapped: bool = False) -> Callable[[SizeFloat, Any], Any]:
    def method(self: SizeFloat, other: Any) -> Any:
        if isinstance(other, SizeFloat):
            right = other.tree
        elif hasattr(other, "ctx") and isinstance(getattr(other, "expr", None), Poly):
            right = ("size", other.expr)
        elif isinstance(other, (int, float)):
            right = ("number", other)
        else:
            return NotImplemented
        return SizeFloat((name, right, self.tree) if swapped else (name, self.tree, right), self.ctx)

    return method


def class_for_users(kind: type) -> Any:
    """The ``__class__`` of a number that depends on sizes: ``kind`` where the user's code asks (``isinstance``, class
    patterns), since it decides as it would for the number itself; the truth in our own code.
    """

    def class_of(self: Any) -> type:
        frame = sys._getframe(1)
        name = frame.f_globals.get("__name__") or ""
        ours = name.partition(".")[0] == "fusegrad" or frame.f_code.co_filename.startswith("<fusegrad")
        return type(self) if ours else kind

    return property(class_of)


class SizeFloat(SymbolicNumber):
    """A float that depends on the sizes of a call. Comparing or converting it is refused."""

    __slots__ = ("tree", "ctx")
    __class__ = class_for_users(float)

    def __init__(self, tree: Tree, ctx: Any) -> None:
        self.tree, self.ctx = tree, ctx

    __add__, __radd__ = _binary("add"), _binary("add", True)
    __sub__, __rsub__ = _binary("sub"), _binary("sub", True)
    __mul__, __rmul__ = _binary("mul"), _binary("mul", True)
    __truediv__, __rtruediv__ = _binary("div"), _binary("div", True)
    __pow__, __rpow__ = _binary("pow"), _binary("pow", True)
    __floordiv__, __rfloordiv__ = _binary("floordiv"), _binary("floordiv", True)
    __mod__, __rmod__ = _binary("mod"), _binary("mod", True)

    def graph_number(self, builder: Any) -> Any:
        return builder.number(self)

    @property
    def expr(self) -> str:
        """Python source (operators recognise symbolic numbers by this attribute)."""
        return tree_text(self.tree)

    @property
    def hint(self) -> Any:
        """Its value in this capture."""
        return evaluate_tree(self.tree, self.ctx.hints())

    def __neg__(self) -> SizeFloat:
        return SizeFloat(("mul", self.tree, ("number", -1)), self.ctx)

    def __pos__(self) -> SizeFloat:
        return self

    def _refuse(self, *args: Any) -> Any:
        from .sizes import ConstraintError

        where = self.ctx.locate()
        line = f"{where[0]}:{where[1]}: " if where else ""
        names = ", ".join(self.ctx.describe(n) for n in sorted(tree_symbols(self.tree)))
        raise ConstraintError(
            f"{line}the program needs the value of {self.expr} while it is recorded, but it differs between calls: "
            f"{names}. Use it in tensor operations only (** 0.5 instead of math.sqrt), or leave the axis static."
        )

    __float__ = __int__ = __index__ = __bool__ = __trunc__ = __floor__ = __ceil__ = __round__ = _refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __abs__ = _refuse  # type: ignore[assignment]

    def __hash__(self) -> int:
        from .sizes import library_asks

        return object.__hash__(self) if library_asks() else self._refuse()  # a dict of the program would be searched

    def __repr__(self) -> str:
        from .sizes import library_asks

        if self.ctx.told is not None and not library_asks():
            self.ctx.told("a number made of sizes")
        return self.expr
