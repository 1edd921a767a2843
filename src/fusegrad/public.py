"""Public functions that are plain Python, as the user sees them: with their arguments checked, ``out=``, numpy's names.

A function's signature (``@function("dot(input: T, tensor: T)")``) gives the types of its parameters. What is published
is a thin generated layer around it; calls inside the package use the plain function. A function without a signature is
published itself, and so are the method and the form in ``nn.functional`` of one that is ``direct``: small enough for a
layer to be felt, and made of operators that check.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from .accepts import check_lines
from .arguments import as_varargs, check_line
from .autograd.names import COMPOSITES, named
from .callgen import inlined
from .deferred import deferred, force
from .dispatch import FAST
from .op import Function, Inline, Param, parse_signature
from .outs import OUT, store

_KIND = inspect.Parameter
_SYNONYMS = (("dim", "axis"), ("keepdim", "keepdims"))


def public(f: Function, name: str) -> Any:
    """What stands under the dotted public ``name`` of ``f``."""
    if f.types and not f.direct:
        return layer(name, f.fn, f, out=name in OUT)
    if name in OUT or f.inline:
        return layer(name, f.fn, f, out=name in OUT, brief=True)
    if f.types and f.method and not name.startswith("nn."):  # the method is what has to be quick
        return layer(name, f.fn, f)
    return f.fn


def method(f: Function, name: str) -> Any:
    """What stands on Tensor as the method ``name`` of ``f``."""
    return layer(name, f.fn, f, first=0, brief=f.direct) if f.types and not f.direct or f.inline else f.fn


def with_out(dotted: str, fn: Callable[..., Any]) -> Callable[..., Any]:
    """``fn`` with a keyword ``out`` (a tensor, or a tuple for several results), under its public name."""
    op = getattr(fn, "op", None)
    inline = Inline(op) if op is not None and not op.sig.attrs and op.n_out == 1 else None
    return layer(dotted, fn, None, out=True, inline=inline)


def layer(
    dotted: str,
    fn: Callable[..., Any],
    f: Function | None,
    *,
    out: bool = False,
    first: int = 1,
    brief: bool = False,
    inline: Inline | None = None,
) -> Any:
    """The generated layer around ``fn``. ``first``: the position that errors give to the first parameter.

    ``brief``: only that one is checked.
    """
    space, _, name = dotted.rpartition(".")
    types = f.types if f else ""
    if brief and types:
        types = types.split(",")[0].rstrip(")") + ")"
    inline = f.inline if f else inline

    def build(short: bool = False) -> tuple[str, dict[str, Any]]:
        return _source(dotted, fn, types, None if short else inline, out=out, first=first)

    made: Any = deferred(name, f"<fusegrad {dotted}>", build, two=inline is not None)
    made.__module__ = f"fusegrad.{space}" if space else "fusegrad"
    made.__doc__ = fn.__doc__
    made.__wrapped__, made.types = fn, types
    return made


def _source(
    dotted: str, fn: Callable[..., Any], types: str, inline: Inline | None, *, out: bool, first: int
) -> tuple[str, dict[str, Any]]:
    """The layer's source: the parameters of ``fn``, numpy's names for them, an operator's fast path, ``out``, the name
    of the node."""
    name = dotted.rpartition(".")[2]
    env: dict[str, Any] = {"_store": store, "FAST": FAST, "as_varargs": as_varargs, "__name__": "fusegrad.calls"}
    params = [p for p in inspect.signature(force(fn)).parameters.values() if p.name != "out" or not out]
    env["_fn"] = getattr(fn, "plain", fn)
    kinds = {p.name: p for p in parse_signature(types).params} if types else {}
    unknown = set(kinds) - {p.name for p in params}
    if unknown:
        raise ValueError(f"{name}: its signature names {unknown}, which it doesn't take")
    head, keywords, call, checks, last = [], [], [], [], ""
    star = False
    for i, p in enumerate(params):
        text = p.name
        if p.default is not _KIND.empty:
            env[f"D_{p.name}"] = p.default
            text += f"=D_{p.name}"
        if p.name in kinds:
            checks.append(_check(p, kinds[p.name], (name, p.name, i + first), env, params[-1]))
        if p.kind is _KIND.VAR_KEYWORD:
            last = f"**{p.name}"
        elif p.kind is _KIND.VAR_POSITIONAL:
            head.append(f"*{p.name}")
            call.append(f"*{p.name}")
            star = True
        elif p.kind is _KIND.KEYWORD_ONLY:
            keywords.append(text)
            call.append(f"{p.name}={p.name}")
        else:
            head.append(text)
            call.append(p.name)
    names = {p.name for p in params}
    numpy_names = types and not types.startswith("nn.")
    others = [(a, b) for a, b in _SYNONYMS if numpy_names and a in names and b not in names]
    given = ", ".join([*call, *([last] if last else [])])
    lines, refusals = _renamed(name, others, env, head), check_lines(dotted, names, env)
    quiet = " and ".join(f"{p.name} is D_{p.name}" for p in params if p.kind is _KIND.KEYWORD_ONLY)
    noting = getattr(inline, "noting", None)  # see ``remembered``
    if noting is not None:
        env["_fn"] = noting(env["_fn"])
        lines += inline.lines(" and ".join(x for x in (quiet, "out is None" if out else "") if x), env)  # type: ignore[union-attr]
    elif inline is not None:
        also = ["out is None"] if out else []
        if refusals:  # some dtypes are refused below
            also.append("a0.dtype.char in 'fd'")
        lines += inlined(inline, env, " and ".join(also))
    lines += [*[c for c in checks if c], *refusals]
    if out:
        values = "".join(f"{c.split('=')[-1]}, " for c in call)
        lines.append(f"if out is not None: return _store({name!r}, out, ({values}), lambda: _fn({given}))")
    plain = [p for p in params if p.kind is _KIND.KEYWORD_ONLY]
    usual, short = "", ", ".join(c for c in call if "=" not in c)  # keywords cost as much as a small operator
    if plain and not last and all(p.default is not _KIND.empty for p in plain):
        usual = " and ".join(f"{p.name} is D_{p.name}" for p in plain)
    label = COMPOSITES.get(dotted)
    if label is not None:
        env["_named"], operands = named, "".join(f"{p}, " for p in label[1] if p in names)
        end = f"{label[0]!r}, ({operands})"
        if usual:
            lines.append(f"if {usual}: return _named(_fn({short}), {end})")
        lines.append(f"return _named(_fn({given}), {end})")
    else:
        if usual:
            lines.append(f"if {usual}: return _fn({short})")
        lines.append(f"return _fn({given})")
    keywords += [f"{b}=None" for _, b in others] + (["out=None"] if out else [])
    parts = [*head, *(["*"] if keywords and not star else []), *keywords, *([last] if last else [])]
    return "\n    ".join([f"def {name}({', '.join(parts)}):", *lines]), env


def _check(p: Any, kind: Param, where: tuple[str, str, int], env: dict[str, Any], end: Any) -> str:
    """The line that checks one parameter."""
    if p.kind is _KIND.VAR_POSITIONAL and kind.type == "ints":
        others = end.name if end.kind is _KIND.VAR_KEYWORD else "None"
        env[f"W_{p.name}"] = where
        made = f"{p.name} = as_varargs({p.name}, {others}, W_{p.name})"
        usual = [f"for v in {p.name}:", "    if type(v) is not int:", f"        {made}", "        break"]
        return "\n    ".join([*usual, "else:", f"    if not {p.name}: {made}"])
    if p.kind is _KIND.VAR_POSITIONAL:  # tensors, or one sequence of them
        test = f"{p.name}[0] if len({p.name}) == 1 and type({p.name}[0]) in (list, tuple) else {p.name}"
        check = check_line("given_", kind.type, where, env)
        return f"given_ = {test}; {check}"
    default = "" if p.default is _KIND.empty else f"D_{p.name}"
    return check_line(p.name, kind.type, where, env, optional=kind.optional or p.default is None, default=default)


def _renamed(name: str, others: list[tuple[str, str]], env: dict[str, Any], head: list[str]) -> list[str]:
    """Lines that take numpy's names; a required parameter that has one is looked for after that."""
    lines = []
    for own, other in others:
        lines.append(f"if {other} is not None: {own} = {other}")
        if own in head:
            at = head.index(own)
            env["MISSING"] = _MISSING
            head[at:] = [h if "=" in h or h[0] == "*" else f"{h}=MISSING" for h in head[at:]]
            needed = [h.split("=")[0] for h in head[at:] if h.endswith("=MISSING")]
            lines += [
                f"if {n} is MISSING: raise TypeError(\"{name}() missing 1 required positional argument: '{n}'\")"
                for n in needed
            ]
    return lines


class _Missing:
    """Default of a required argument that may come under another name."""

    def __repr__(self) -> str:
        return "<required>"


_MISSING = _Missing()
