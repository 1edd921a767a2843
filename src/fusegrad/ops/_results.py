"""Several results under names: ``x.max(0).values``."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from ..tensor import need_data


def named_results(name: str, fields: list[str]) -> Any:
    """A namedtuple whose text has one line a field, as PyTorch's."""
    made = namedtuple(name, fields)  # type: ignore[misc]  # noqa: PYI024
    made.__repr__ = _text  # type: ignore[method-assign]
    return made


def _text(self: Any) -> str:
    for value in self:
        if value._data is None and getattr(value._g.handler, "text", None) is None:  # a graph is captured
            need_data(value, "repr")
    lines = [f"{field}={value!r}" for field, value in zip(self._fields, self, strict=True)]
    return f"fusegrad.return_types.{type(self).__name__}(\n" + ",\n".join(lines) + ")"
