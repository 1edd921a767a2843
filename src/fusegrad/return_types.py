"""``fusegrad.return_types``: the types of several results under names, as ``x.max(0)`` returns them."""

from __future__ import annotations

from typing import Any

from .ops._results import TYPES

__all__ = ["all_return_types", "pytree_register_structseq"]

all_return_types: list[type]


def pytree_register_structseq(cls: type) -> None:
    """Nothing to do: results under names are containers of pytrees here."""


def __getattr__(name: str) -> Any:
    if name not in TYPES and not name.startswith("__"):
        from .families import load_all

        load_all()
    if name == "all_return_types":
        return list(TYPES.values())
    try:
        return TYPES[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None


def __dir__() -> list[str]:
    from .families import load_all

    load_all()
    return sorted({*TYPES, *__all__})
