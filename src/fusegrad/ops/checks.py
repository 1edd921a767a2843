"""Checks of values inside a graph: what an eager kernel refuses, compiled code must refuse as well."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .. import dtypes
from ..errors import LinAlgError
from ..meta import Meta
from ..op import Sample, op

_ERRORS = {e.__name__: e for e in (RuntimeError, ValueError, ZeroDivisionError, LinAlgError)}


@op('require(ok: T, error: str = "", kind: str = "")', kind="extern", method=False, function=False, nondiff=True)
class require:
    """A 0-d True if all of ``ok`` is true, else an error of that kind (RuntimeError): results that depend on it are
    checked.

    Without a text: ValueError, for checks that library code makes.
    """

    def kernel(ok: np.ndarray, error: str = "", kind: str = "") -> np.ndarray:
        if not ok.all():
            if not error:
                raise ValueError("a check of values in captured code failed")
            e = _ERRORS.get(kind, RuntimeError)(error)
            e.from_rule = True  # type: ignore[attr-defined]
            raise e
        return np.ones((), bool)

    def meta(ok: Meta, error: str = "", kind: str = "") -> Meta:
        return Meta((), dtypes.bool_)

    def samples() -> Iterator[Sample]:
        yield Sample(np.ones((2, 3), bool), grad=False)
        yield Sample(np.ones((), bool), "wrong", grad=False)


def refuse_where(bad: Callable[[Any], Any], x: Any, error: str, kind: str = "RuntimeError") -> None:
    """Raise an error if ``bad`` is true anywhere in ``x``: now, or when the graph that is recorded runs. Inside of vmap
    and forward mode values are not looked at.
    """
    if x._data is not None:
        if bad(x._data).any():
            raise _ERRORS[kind](error)
    elif not x._g.handler.level:
        require.fn(bad(x.detach()).logical_not(), error, "" if kind == "RuntimeError" else kind)
