"""Fast paths of in-place forms: plain tensors of one dtype, nothing to record, the kernel writes into the memory.

Everything else goes on to the form that ``inplace.inplace_form`` makes, with all its rules and errors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .autograd.node import one_storage
from .callfast import ENV as FAST_ENV
from .callfast import small_number
from .callnode import ENV as NODE_ENV
from .callnode import GRAD_ON, is_fast
from .deferred import deferred
from .op import Op

__all__ = ["with_fast_path", "writer_of"]


def writer_of(op: Op) -> tuple[Callable[..., Any], int] | None:
    """What writes the result of a pointwise operator into its first operand, ``write(a, *others, a)``, and the number
    of the others; None if the operator has no such kernel."""
    written = op.fields.get("kernel_out")
    if written is not None:
        return written, len(op.sig.params) - 1
    if isinstance(op.kernel, np.ufunc) and op.promote in ("same", "float") and not op.sig.attrs:
        return op.kernel, len(op.sig.tensors) - 1
    over = getattr(op.kernel, "over", None)
    if over is not None and len(op.sig.params) == 1 and op.promote in ("same", "float"):  # machine code
        return over, 0
    return None


def with_fast_path(op: Op, name: str, form: Callable[..., Any]) -> Callable[..., Any]:
    """``form`` behind a fast path; ``form`` itself for operators without one."""
    found = writer_of(op)
    if "over" in op.fields:
        return _over(op, name, form)
    if found is None or found[1] > 1:
        return form
    write, others = found
    last = op.sig.params[-1]
    default = last.default if others and not last.is_tensor and last.has_default else None

    def build() -> tuple[str, dict[str, Any]]:
        numbers = all(p.type != "T" for p in op.sig.tensors[1:])
        ints = op.kernel is write and op.promote == "same" and "accepts" not in op.fields
        return _source(name, others, numbers, ints, numbers and isinstance(write, np.ufunc), default), {
            "DEFAULT": default,
            **NODE_ENV,
            **FAST_ENV,
            "write": write,
            "form": form,
            "one_storage": one_storage,
            "WRITABLE": True,
        }

    made: Any = deferred(name, f"<fusegrad {name}>", build)
    made.__doc__ = form.__doc__
    return made


def _over(op: Op, name: str, form: Callable[..., Any]) -> Callable[..., Any]:
    """``form`` behind a fast path of ``over(a, *others, *numbers)`` of the entry: it writes the result into dense ``a``
    and says whether it did."""

    def build() -> tuple[str, dict[str, Any]]:
        env = {**NODE_ENV, **FAST_ENV, "over": op.fields["over"], "form": form, "one_storage": one_storage}
        env["WRITABLE"] = True
        return _over_source(op, name, env), env

    made: Any = deferred(name, f"<fusegrad {name}>", build)
    made.__doc__ = form.__doc__
    return made


def _over_source(op: Op, name: str, env: dict[str, Any]) -> str:
    """The source of the form above: tensors and numbers by position, one number by keyword perhaps."""
    placed = [p for p in op.sig.params[1:] if not p.keyword]
    lines = [
        f"def {name}(self, *args, **kwargs):",
        f"    usual = len(args) == {len(placed)} and not SLOW[0] and not RUNNING",
        *_quick_over(op, placed),
        f"    if usual and {is_fast('self')} and self._extra is None:",
        "        d, s = self._data, self._st",
        f"        asks = {_asks('self')}",
        "        good = d is not None and d.flags.c_contiguous and d.flags.writeable",
    ]
    given = ["d"]
    for i, p in enumerate(placed):
        lines.append(f"        b{i} = args[{i}]")
        given.append(f"b{i}")
        if not p.is_tensor:
            lines.append(f"        if type(b{i}) is not float and type(b{i}) is not int: good = False")
            continue
        lines += [
            f"        if {is_fast(f'b{i}')}:",
            f"            asks = asks or {_asks(f'b{i}')}",
            f"            o = b{i}._st",
            f"            known = b{i} is self or s is not o and type(s) is Storage is type(o)",
            "            if o is not None and not known: good = good and not one_storage(o, s)",
            f"            b{i} = b{i}._data",
            "        else: good = False",
        ]
    for p in op.sig.params[1:]:
        if p.keyword:
            env[f"D_{p.name}"] = p.default
            lines += [
                f"        k = kwargs.get({p.name!r}, D_{p.name})",
                f"        if kwargs and (len(kwargs) > 1 or {p.name!r} not in kwargs): good = False",
                "        if type(k) is not float and type(k) is not int: good = False",
            ]
            given.append("k")
    if not any(p.keyword for p in op.sig.params):
        lines.append("        if kwargs: good = False")
    lines += [
        f"        if good and not (asks and {GRAD_ON}) and over({', '.join(given)}):",
        "            if s is None: s = self._st = Storage(); s.version = 1",
        "            else: s.version += 1",
        "            return self",
        "    return form(self, *args, **kwargs)",
    ]
    return "\n".join(lines)


def _quick_over(op: Op, placed: list[Any]) -> list[str]:
    """The lines of ``_over_source`` for what machine code finds to be usual (``writable``)."""
    names = [f"b{i}" for i in range(len(placed))]
    kinds = [
        f"type({b}) is Tensor" if p.is_tensor else f"(type({b}) is float or type({b}) is int)"
        for b, p in zip(names, placed, strict=True)
    ]
    given = ["self._data", *(f"{b}._data" if p.is_tensor else b for b, p in zip(names, placed, strict=True))]
    lines = ["    if usual and writable is not None:", f"        {', '.join(names)}, = args"]
    number = next((p.name for p in op.sig.params[1:] if p.keyword), None)
    if number is None:
        kinds.append("not kwargs")
    else:
        lines.append(f"        k = kwargs.get({number!r}) if len(kwargs) == 1 else None if kwargs else D_{number}")
        kinds.append("(type(k) is float or type(k) is int)")
        given.append("k")
    return [
        *lines,
        f"        if {' and '.join(kinds)} and writable(self, {', '.join(names)}) and over({', '.join(given)}):",
        "            s = self._st",
        "            if s is None: s = self._st = Storage(); s.version = 1",
        "            else: s.version += 1",
        "            return self",
    ]


def _asks(x: str) -> str:
    """The condition that ``x``, or what it is a view of, requires a gradient."""
    return f"({x}._rg or {x}._view is not None and {x}._view.base._rg)"


def _source(name: str, others: int, numbers: bool, ints: bool, ufunc: bool, default: Any = None) -> str:
    """The function's source; ``numbers``: they may take the place of the other tensor; ``ints``: it may be of int64;
    ``ufunc``: what writes is one, which takes numbers faster as arrays; ``default``: a number that may be left out.

    Numbers and shapes that do not fit raise before anything is written; numpy's complaints about values (where the user
    made them errors) come when all is written, and are no reason to write again.
    """
    many = f"{'==' if default is None else '<='} {others}"
    lines = [
        f"def {name}(self, *args, **kwargs):",
        f"    usual = len(args) {many} and not kwargs and not SLOW[0] and not RUNNING",
        *_quick_lines(others, numbers, ints, ufunc, default),
        f"    {'el' if others else ''}if usual and {is_fast('self')} and self._extra is None:",
        "        d = self._data",
        f"        asks = {_asks('self')}",
        "        good = d is not None and d.flags.c_contiguous",
        f"        good = good and (d.dtype is NP32 or d.dtype in FLOATS{' or d.dtype is NPI64' if ints else ''})",
    ]
    if others:
        lines += [
            "        b = args[0]" + (" if args else DEFAULT" if default is not None else ""),
            f"        if {is_fast('b')}:",
            f"            asks = asks or {_asks('b')}",
            "            s, o = self._st, b._st",
            "            if o is not None and b is not self and not (s is not o and type(s) is Storage is type(o)):",
            "                good = good and not one_storage(o, s)",
            "            b = b._data",
            "            good = good and b is not None and b.dtype is d.dtype",
            f"        elif not ({small_number('b')}): good = False" if numbers else "        else: good = False",
        ]
        if ints and numbers:
            lines.append("        elif d is None or d.dtype is NPI64 and type(b) is not int: good = False")
        if ufunc:
            lines.append("        elif b and good and d.dtype is NP32: b = NUM32[b]")
    lines += [
        *(["    else: good = asks = False"] if others else []),
        f"{'    ' if others else '        '}if good and not (asks and {GRAD_ON}):",
        "            try:",
        f"                done = write(d, {'b, ' * others}d) is not NotImplemented",
        "            except (FloatingPointError, RuntimeWarning):",
        "                done = True",
        "            except (ValueError, TypeError, OverflowError):",
        "                done = False",
        "            if done:",
        "                st = self._st",
        "                if st is None: st = self._st = Storage(); st.version = 1",
        "                else: st.version += 1",
        "                return self",
        "    return form(self, *args, **kwargs)",
    ]
    return "\n".join(lines)


def _quick_lines(others: int, numbers: bool, ints: bool, ufunc: bool, default: Any) -> list[str]:
    """The lines of ``_source`` for what machine code finds to be usual (``writable``)."""
    if not others:
        return []
    kinds = "d.dtype is NP32 or d.dtype in FLOATS"
    lines = [
        "    b = args[0]" + (" if args else DEFAULT" if default is not None else "") + " if usual else None",
        "    if usual and writable is not None and writable(self, b):",
        "        d, asks = self._data, False",
        f"        good = {kinds}{' or d.dtype is NPI64' if ints else ''}",
        "        if type(b) is Tensor: b = b._data",
    ]
    if not numbers:
        return [*lines, "        else: good = False"]
    lines.append(f"        elif not ({small_number('b')}): good = False")
    if ints:
        lines.append("        elif d.dtype is NPI64 and type(b) is not int: good = False")
    if ufunc:
        lines.append("        elif b and good and d.dtype is NP32: b = NUM32[b]")
    return lines
