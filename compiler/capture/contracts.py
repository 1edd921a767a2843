"""What Python asks of calls: the arguments that builtins take, the results that special methods may give.

The handlers of builtins read the arguments that they know; special methods are evaluated as plain functions. Where a
program asks for something else, or a method gives something else, the graph breaks and Python itself answers.
"""

from __future__ import annotations

import builtins
import collections
import functools
import itertools
import types
from typing import Any

from fusegrad.sizes import SymInt

from . import breaks
from .breaks import Break
from .values import SymFloat, class_of

_MANY = 1 << 30
# callable -> fewest and most positional arguments, names of keywords
TAKES: dict[Any, tuple[int, int, frozenset[str]]] = {
    f: (low, high, frozenset(names.split()))
    for f, low, high, names in [
        (isinstance, 2, 2, ""), (issubclass, 2, 2, ""), (len, 1, 1, ""), (next, 1, 2, ""), (iter, 1, 2, ""),
        (getattr, 2, 3, ""), (hasattr, 2, 2, ""), (setattr, 3, 3, ""), (delattr, 2, 2, ""), (id, 1, 1, ""),
        (hash, 1, 1, ""), (repr, 1, 1, ""), (format, 1, 2, ""), (vars, 0, 1, ""), (dir, 0, 1, ""), (globals, 0, 0, ""),
        (sum, 1, 2, "start"), (any, 1, 1, ""), (all, 1, 1, ""), (max, 1, _MANY, "key default"),
        (min, 1, _MANY, "key default"), (sorted, 1, 1, "key reverse"), (functools.reduce, 2, 3, ""),
        (list, 0, 1, ""), (tuple, 0, 1, ""), (set, 0, 1, ""), (frozenset, 0, 1, ""), (enumerate, 1, 2, "start"),
        (collections.deque, 0, 2, "maxlen"), (map, 2, _MANY, ""), (filter, 2, 2, ""), (reversed, 1, 1, ""),
        (zip, 0, _MANY, "strict"), (range, 1, 3, ""), (slice, 1, 3, ""), (int, 0, 2, "base"), (float, 0, 1, ""),
        (bool, 0, 1, ""), (builtins.object, 0, 0, ""), (types.MethodType, 2, 2, ""),
        (itertools.chain.from_iterable, 1, 1, ""), (itertools.repeat, 1, 2, "times"), (itertools.cycle, 1, 1, ""),
        (itertools.chain, 0, _MANY, ""), (itertools.starmap, 2, 2, ""), (itertools.takewhile, 2, 2, ""),
        (itertools.dropwhile, 2, 2, ""), (itertools.filterfalse, 2, 2, ""), (itertools.pairwise, 1, 1, ""),
        (itertools.islice, 2, 4, ""), (itertools.tee, 1, 2, ""), (itertools.zip_longest, 0, _MANY, "fillvalue"),
        (itertools.accumulate, 1, 2, "func initial"), (itertools.groupby, 1, 2, "key"),
        (itertools.count, 0, 2, "start step"), (itertools.compress, 2, 2, ""),
    ]
}  # fmt: skip


_FILLED = {dict: 1, collections.OrderedDict: 1, collections.defaultdict: 2}  # with any keywords


def check_arguments(fn: Any, args: list, kwargs: dict) -> None:
    """A break where a builtin does not take these arguments: the real call says so."""
    takes = TAKES.get(fn)
    if takes is not None and not (takes[0] <= len(args) <= takes[1] and takes[2].issuperset(kwargs)):
        raise Break(breaks.CALL, f"call of {fn.__name__} with arguments that it does not take", clean=True)
    if len(args) > _FILLED.get(fn, _MANY):
        raise Break(breaks.CALL, f"call of {fn.__name__} with arguments that it does not take", clean=True)
    if fn in (max, min) and len(args) > 1 and "default" in kwargs:
        raise Break(breaks.CALL, f"call of {fn.__name__} with items and a default", clean=True)
    if fn is int and kwargs and not args:
        raise Break(breaks.CALL, "call of int with a base alone", clean=True)
    if fn is type and (kwargs or len(args) != 1):
        raise Break(breaks.CALL, "a class is made", clean=True)


def by_place(args: list, kwargs: dict, names: tuple[str, ...]) -> tuple[list, dict]:
    """Arguments with the names that follow the given places moved there."""
    args, kwargs = list(args), dict(kwargs)
    while len(args) < len(names) and names[len(args)] in kwargs:
        args.append(kwargs.pop(names[len(args)]))
    return args, kwargs


_GIVES = {"__int__": int, "__float__": float, "__bool__": bool, "__len__": int, "__hash__": int, "__init__": type(None),
          "__index__": int, "__repr__": str, "__str__": str, "__format__": str}  # fmt: skip
_SIZE = (1 << 63) - 1
_STRINGS = ("__repr__", "__str__", "__format__")


def result_of(name: str, value: Any) -> Any:
    """What the user's special method gave, where C code would take it as it is; else a break.

    Raises:
        Break: Python converts such a result, warns of it or refuses it; the instruction runs for real.
    """
    wanted, got = _GIVES[name], type(value)
    good = got is wanted or (name in _STRINGS and issubclass(class_of(value), str))
    if got in (SymInt, SymFloat):
        good = class_of(value) is wanted and name != "__hash__" and (name != "__len__" or bool(value >= 0))
    elif good and wanted is int:
        good = name in ("__int__", "__index__") or (
            0 <= value <= _SIZE if name == "__len__" else value != -1 and abs(value) <= _SIZE
        )
    if not good:
        raise Break(breaks.OBJECT, f"{name} gave a {class_of(value).__name__} that Python does not take as it is")
    return value


@functools.lru_cache(256)
def empty_code(code: types.CodeType) -> types.CodeType:
    """A code object with the same signature and name that only returns None."""
    src = compile("def f(): return None", "<probe>", "exec").co_consts[0]
    keep = code.co_varnames[
        : code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
    ]
    flags = src.co_flags & ~12 | (code.co_flags & 12)
    return src.replace(
        co_argcount=code.co_argcount,
        co_kwonlyargcount=code.co_kwonlyargcount,
        co_posonlyargcount=code.co_posonlyargcount,
        co_varnames=keep,
        co_nlocals=len(keep),
        co_flags=flags,
        co_name=code.co_name,
        co_qualname=code.co_qualname,
        co_freevars=code.co_freevars,
    )
