"""Compare a compiled function with the plain one: results, effects on arguments, exceptions."""

from __future__ import annotations

import copy
import random
import types
from typing import Any

import numpy as np

import fusegrad as T

X = [1.0, -2.0, 3.0]


def tree(v: Any) -> Any:
    """A value as plain data that compares with ==."""
    if isinstance(v, T.Tensor):
        return (
            "tensor",
            str(v.dtype),
            v.detach().numpy().shape,
            bool(v.requires_grad),
            np.round(v.detach().numpy().astype("float64"), 4).tolist(),
        )
    if isinstance(v, (list, tuple)):
        return (type(v).__name__, [tree(x) for x in v])
    if isinstance(v, dict):
        return (type(v).__name__, [(tree(k), tree(x)) for k, x in v.items()])
    if isinstance(v, set):
        return ("set", sorted(map(repr, v)))
    if hasattr(v, "__dict__") and not isinstance(v, (type, types.FunctionType)):
        return (type(v).__name__, tree(vars(v)))
    return repr(v)


def run(f: Any, args: tuple) -> Any:
    """(result, arguments afterwards, state of the generator) or (exception type, text), from one seed."""
    args = copy.deepcopy(args)
    T.manual_seed(11)
    random.seed(11)
    np.random.seed(11)
    try:
        out = f(*args)
    except Exception as e:
        return ("raised", type(e).__name__, str(e))
    return tree(out), tree(args), T.get_rng_state().tolist()


def check(
    f: Any,
    *calls: tuple,
    breaks: int | None = None,
    plain: int = 0,
    compiles: int | None = None,
    repeat: int = 2,
    **kw: Any,
) -> Any:
    """f compiled does what f does, on every tuple of arguments, ``repeat`` times over; counts are as expected."""
    T.compiler.reset()
    c = T.compile(f, **kw)
    for _ in range(repeat):
        for args in calls:
            want, got = run(f, args), run(c, args)
            assert got == want, f"\ncompiled {got}\nplain    {want}"
    s = T.compiler.stats()
    text = "\n".join(s["break_reasons"])
    if breaks is not None:
        assert s["graph_breaks"] == breaks, text
    if plain is not None:
        assert s["plain_frames"] == plain, text
    if compiles is not None:
        assert s["compiles"] <= compiles, s["recompile_reasons"]
    return c


def compare(f: Any, calls: int = 3) -> dict:
    """f compiled gives what f gives for ``X``, at every call; what ``stats()`` says then."""
    T.compiler.reset()
    c = T.compile(f)
    want = tree(f(T.tensor(X)))
    for _ in range(calls):
        assert tree(c(T.tensor(X))) == want
    return T.compiler.stats()


def outcome(f: Any, make: Any) -> Any:
    """The result for the arguments that ``make`` makes, as plain data, or the class and text of the error."""
    try:
        return tree(f(*make()))
    except Exception as e:
        return type(e), str(e)


def alike(f: Any, *makers: Any, calls: int = 2) -> Any:
    """f compiled gives what f gives, for arguments made anew, also when another maker's went before: the counters."""
    T.compiler.reset()
    c = T.compile(f)
    for _ in range(calls):
        for make in makers:
            assert outcome(c, make) == outcome(f, make)
    return T.compiler.stats()
