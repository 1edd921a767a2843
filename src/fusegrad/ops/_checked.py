"""Helpers of elementwise entries: meta rules that also refuse, and checks that numpy does not make."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..meta import Meta


def meta_with(name: str, refuse: Callable[..., None] | None = None) -> Callable[..., Meta]:
    """The default elementwise meta rule of operator ``name``, after ``refuse(*metas, **attrs)`` had its say."""
    rule: list[Any] = []

    def meta(*metas: Any, **attrs: Any) -> Meta:
        if refuse is not None:
            refuse(*metas, **attrs)
        if not rule:
            from ..dispatch import pointwise_meta
            from ..op import lookup

            rule.append(pointwise_meta(lookup(name)))
        return rule[0](*metas, **attrs)

    return meta


def floating(name: str, dtype: Any) -> None:
    """NotImplementedError for a dtype that is not floating point: compiled code would compute what numpy refuses."""
    if not dtype.is_floating_point:
        raise NotImplementedError(f'"{name}" not implemented for {dtype.name}')


def publish(entry: Any, *names: str) -> None:
    """Give an operator that has no public name of its own these dotted ones."""
    from ..op import function

    for name in names:
        function(name, method=False)(entry.fn)


def in_place(entry: Any) -> Callable[..., Any]:
    """The in-place form of an operator (made once)."""
    form = entry.fields.get("_form")
    if form is None:
        from ..inplace import inplace_form

        form = entry.fields["_form"] = inplace_form(entry)
    return form


def number_or_array_kind(*xs: Any) -> str:
    """Kind letter of the arrays among the arguments (already of one dtype): "f", "i", "u" or "b"."""
    for x in xs:
        if isinstance(x, np.ndarray):
            return x.dtype.kind
    return "f" if any(isinstance(x, float) for x in xs) else "i"


def nonzero_divisor(y: Any) -> None:
    """RuntimeError if an integer divisor holds a 0 (numpy would give 0 and a warning)."""
    if not np.all(y):
        raise RuntimeError("ZeroDivisionError")
