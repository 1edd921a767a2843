"""Calls of operators for random programs, made from the op table: samples, wrong arguments, patterns that run.

Arguments that are no plain literals become constants ``K_<kind>_<index>...`` that a program names; `constants` finds
them again from the program's text, so that the text alone is the program.
"""

from __future__ import annotations

import functools
import re
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

import fusegrad as T
from fusegrad.op import FUNCTIONS, TABLE

UNDEFINED = {"empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "empty_permuted"}  # any contents
MEMORY = {"resize_", "resize_as_", "untyped_storage", "apply_", "from_numpy", "set_", "share_memory_", "numpy"}
NAME = re.compile(r"\bK_[A-Za-z0-9]+_\d+\b")
_POOL: dict[str, Any] = {}


@dataclass(frozen=True)
class Call:
    """One call that ran on its constants: text with ``{0}`` for the first floating tensor, and what came out."""

    name: str
    text: str
    method: bool
    direct: bool  # {0} may be a tensor of any shape, near zero
    result: str  # "tensor", "float", "tuple", "other"
    first: str  # the constant that {0} was


def _constant(kind: str, value: Any) -> str:
    name = f"K_{kind}_{len(_POOL)}"
    _POOL[name] = value
    return name


def _text(value: Any, kind: str) -> str:
    """Source text of an argument."""
    if isinstance(value, (np.ndarray, np.generic)):
        a = np.asarray(value)
        return _constant(kind, T.from_numpy(np.array(a, np.float32 if a.dtype == np.float64 else a.dtype)))
    if isinstance(value, T.Tensor):
        return _text(value.detach().numpy(), kind)
    if isinstance(value, (list, tuple)) and not isinstance(value, T.Size):
        body = ", ".join(_text(v, kind) for v in value)
        return f"[{body}]" if isinstance(value, list) else f"({body}{',' if len(value) == 1 else ''})"
    if value is None or isinstance(value, (bool, int, str)):
        return repr(value)
    if isinstance(value, float) and np.isfinite(value):
        return repr(value)
    return _constant(kind, value)


def public(name: str) -> str | None:
    """The path under which users call a function, or None."""
    place: Any = T
    for part in name.split("."):
        place = getattr(place, part, None)
        if place is None or part.startswith("_"):
            return None
    return f"T.{name}" if callable(place) else None


def _result(value: Any) -> str:
    if isinstance(value, T.Tensor):
        return "float" if value.dtype.is_floating_point else "tensor"
    return "tuple" if isinstance(value, (tuple, list)) and all(isinstance(v, T.Tensor) for v in value) else "other"


def _ran(text: str) -> Any:
    """The value of a call on constants; raises what it raises."""
    return eval(text, {"T": T, **_POOL})


def _call(name: str, path: str, args: list[str], kwargs: dict[str, str], method: bool) -> Call | None:
    """The call if it runs on its constants."""
    place = next((k for k, a in enumerate(args) if a in _POOL and _floating(_POOL[a])), None)
    rest = [*args, *(f"{k}={v}" for k, v in kwargs.items())]
    if place is not None:
        rest[place] = "{0}"
    if method:
        if place != 0:
            return None
        text = f"{{0}}.{name}({', '.join(rest[1:])})"
    else:
        text = f"{path}({', '.join(rest)})"
    first = args[place] if place is not None else ""
    try:
        value = _ran(text.format(first) if first else text)
    except Exception:
        return None
    one = len([a for a in args if "K_" in a]) == 1
    return Call(
        name, text, method, bool(one and name in TABLE and TABLE[name].kind == "pointwise"), _result(value), first
    )


def _floating(v: Any) -> bool:
    return isinstance(v, T.Tensor) and v.dtype.is_floating_point


def _from_samples(found: list[Call]) -> None:
    for op in TABLE.values():
        path = public(op.name)
        for sample in op.samples() if op.samples else ():
            kind = "".join(c for c in op.name if c.isalnum())
            args = [_text(a, kind) for a in sample.args]
            kwargs = {k: _text(v, kind) for k, v in sample.kwargs.items()}
            if path is not None and op.name not in UNDEFINED:
                found.append(_call(op.name, path, args, kwargs, False))  # type: ignore[arg-type]
            if op.method and op.name not in MEMORY | UNDEFINED:
                found.append(_call(op.name, "", args, kwargs, True))  # type: ignore[arg-type]


def _patterns() -> list[list[str]]:
    """Argument lists to try on functions that have no samples."""
    rng = np.random.default_rng(5)
    a, b = (_constant("V", T.from_numpy(rng.uniform(0.1, 0.9, 4).astype("float32"))) for _ in range(2))
    m, n = (_constant("M", T.from_numpy(rng.uniform(0.1, 0.9, (3, 3)).astype("float32"))) for _ in range(2))
    c, d = (_constant("C", T.from_numpy(rng.uniform(0.1, 0.9, (2, 2, 4)).astype("float32"))) for _ in range(2))
    p, q = (_constant("P", T.from_numpy(rng.uniform(0.1, 0.9, (2, 2, 4, 4)).astype("float32"))) for _ in range(2))
    i = _constant("I", T.from_numpy(np.array([0, 2, 1])))
    mask = _constant("B", T.from_numpy(np.array([True, False, True, True])))
    out: list[list[str]] = []
    for x, y in ((a, b), (m, n), (c, d), (p, q)):
        out += [
            [x],
            [x, "0"],
            [x, "1"],
            [x, "-1"],
            [x, "2"],
            [x, "0.5"],
            [x, y],
            [x, "(0, 1)"],
            [x, "0", "1"],
            [x, "2, 2"],
        ]
        out += [[x, y, "0"], [x, "0", "0.5"], [x, y, x], [x, "'mean'"], [x, y, "'sum'"], [x, "True"], [x, "[1, 1]"]]
        out += [[x, "T.float64"], [x, "K"], [f"[{x}, {y}]"], [f"[{x}, {y}]", "0"], [f"{x}, {y}, 0.5"]]
    out += [[a, mask], [a, mask, "0.5"], [a, i], [a, "0", i], [m, "0", i], [m, "0", i, n], [m, i], [m, i, "0"]]
    return [
        [s for part in args for s in (part.split(", ") if part[0] not in "[(" else [part])]
        for args in out
        if "K" not in args
    ]


def _from_functions(found: list[Call]) -> None:
    patterns = _patterns()
    for f in FUNCTIONS.values():
        if f.name in MEMORY | UNDEFINED or f.name.rsplit(".", 1)[-1] in MEMORY:
            continue
        path, method, kept = public(f.name), f.method and "." not in f.name and not f.name.startswith("_"), 0
        for args in patterns:
            if kept >= 6:
                break
            call = None
            if f.name.endswith("_"):
                call = _call(f.name, "", _copied(args), {}, True) if method and args[0] in _POOL else None
            elif path is not None and (f.function or not method):
                call = _call(f.name, path, args, {}, False)
            elif method:
                call = _call(f.name, "", args, {}, True)
            if call is not None and call.result != "other":
                found.append(call)
                kept += 1


def _copied(args: list[str]) -> list[str]:
    """In-place patterns run on a copy of the constant, which stays as it is."""
    return [_constant("Z", _POOL[args[0]].clone()), *args[1:]]


@functools.cache
def calls() -> tuple[Call, ...]:
    """All calls, in a fixed order; draws of random numbers among them. Made once a process (under a second)."""
    found: list[Any] = []
    state = T.get_rng_state()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        _from_samples(found)
        _from_functions(found)
    T.set_rng_state(state)
    return tuple(c for c in found if c is not None)


@functools.cache
def groups() -> dict[str, tuple[Call, ...]]:
    """Calls by operator, so that operators with many samples do not crowd out the others."""
    out: dict[str, list[Call]] = {}
    for c in calls():
        out.setdefault(c.name, []).append(c)
    return {k: tuple(v) for k, v in out.items()}


@functools.cache
def group_names() -> tuple[str, ...]:
    """The operators, in a fixed order."""
    return tuple(groups())


@functools.cache
def unary() -> tuple[str, ...]:
    """Names of pointwise methods of one floating tensor, with nothing else required."""
    return tuple(
        sorted(
            {c.name for c in calls() if c.method and c.direct and c.result == "float" and c.text == f"{{0}}.{c.name}()"}
        )
    )


@functools.cache
def inplace() -> tuple[str, ...]:
    """In-place forms of the table that take the tensor alone, or one number."""
    out = []
    for op in TABLE.values():
        if op.inplace and op.kind == "pointwise" and "." not in op.name:
            for args in ("()", "(0.5)", "(K_V_0)"):
                name = op.name + "_"
                if hasattr(T.Tensor, name) and _runs(name, args):
                    out.append(name + args.replace("K_V_0", "{0}"))
    return tuple(out)


def _runs(name: str, args: str) -> bool:
    v = T.tensor([0.25, 0.5])
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            eval(f"v.clone().{name}{args}", {"v": v, "K_V_0": v})
    except Exception:
        return False
    return True


@functools.cache
def wrong() -> tuple[str, ...]:
    """Calls with the wrong arguments that the table lists: they raise."""
    out = []
    for op in TABLE.values():
        path = public(op.name)
        for e in op.errors() if op.errors and path else ():
            kind = "".join(c for c in op.name if c.isalnum())
            args = [*(_text(a, kind) for a in e[0]), *(f"{k}={_text(v, kind)}" for k, v in e[1].items())]
            out.append(f"{path}({', '.join(args)})")
    return tuple(out)


def prepare() -> None:
    """Make what programs are written from: seconds, once in a process."""
    for make in (groups, group_names, unary, inplace, wrong):
        make()


def constants(text: str) -> dict[str, Any]:
    """The constants that a program names, as fresh tensors."""
    found: dict[str, Any] = {}
    if "K_" not in text:
        return found
    calls()
    wrong()
    for name in set(NAME.findall(text)) - set(re.findall(r"^(K_\w+) = ", text, re.M)):
        v = _POOL[name]
        found[name] = v.clone() if isinstance(v, T.Tensor) else v
    return found


def definitions(text: str) -> str:
    """The constants of a program as source, for a program that is kept: numbers of constants change with the table."""
    lines = []
    for name, v in sorted(constants(text).items()):
        if isinstance(v, T.Tensor):
            lines.append(f"{name} = T.tensor({v.tolist()!r}, dtype=T.{v.dtype.name})")
        else:
            lines.append(f"{name} = {v!r}")
    return "".join(line.replace("fusegrad.", "T.") + "\n" for line in lines)
