"""Several results under names: ``x.max(0).values``."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from ..tensor import need_data

TYPES: dict[str, Any] = {}
"""What ``fusegrad.return_types`` holds."""


def named_results(name: str, fields: list[str]) -> Any:
    """A namedtuple whose text has one line a field, as PyTorch's; also made of one sequence, as PyTorch's are."""
    made: Any = namedtuple(name, fields)  # type: ignore[misc]  # noqa: PYI024
    made.__repr__ = _text
    made.__module__, made.n_fields, made.n_sequence_fields = "fusegrad.return_types", len(fields), len(fields)
    plain, count = made.__new__, len(fields)

    def new(cls: Any, *values: Any, **named: Any) -> Any:
        if len(values) == count:
            return tuple.__new__(cls, values)
        if len(values) == 1 and not named and isinstance(values[0], (list, tuple)):
            if len(values[0]) != count:
                raise TypeError(
                    f"{made.__module__}.{name}() takes a {count}-sequence ({len(values[0])}-sequence given)"
                )
            return tuple.__new__(cls, values[0])
        return plain(cls, *values, **named)

    made.__new__ = new
    TYPES[name] = made
    return made


def _text(self: Any) -> str:
    for value in self:
        if value._data is None and getattr(value._g.handler, "text", None) is None:  # a graph is captured
            need_data(value, "repr")
    lines = [f"{field}={value!r}" for field, value in zip(self._fields, self, strict=True)]
    return f"fusegrad.return_types.{type(self).__name__}(\n" + ",\n".join(lines) + ")"
