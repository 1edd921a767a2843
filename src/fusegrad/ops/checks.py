"""Checks of values inside a graph: what an eager kernel refuses, compiled code must refuse as well."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .. import dtypes
from ..meta import Meta
from ..op import Sample, op


@op('require(ok: T, error: str = "")', kind="extern", method=False, function=False, nondiff=True)
class require:
    """A 0-d True if all of ``ok`` is true, else RuntimeError(error): results that depend on it are checked.

    Without a text: ValueError, for checks that library code makes.
    """

    def kernel(ok: np.ndarray, error: str = "") -> np.ndarray:
        if not ok.all():
            raise RuntimeError(error) if error else ValueError("a check of values in captured code failed")
        return np.ones((), bool)

    def meta(ok: Meta, error: str = "") -> Meta:
        return Meta((), dtypes.bool_)

    def samples() -> Iterator[Sample]:
        yield Sample(np.ones((2, 3), bool), grad=False)
        yield Sample(np.ones((), bool), "wrong", grad=False)
