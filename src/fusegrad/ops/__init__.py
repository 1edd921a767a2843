"""The op table: one family of operators a file, imported at first use (see ``fusegrad.families``)."""

from __future__ import annotations


def families() -> list[str]:
    """The names of the files that define operators."""
    import pkgutil

    return sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))


def load_all() -> None:
    """Import every family, whatever the index says."""
    import importlib

    for name in families():
        importlib.import_module(f"{__name__}.{name}")


def __getattr__(name: str) -> object:
    if name != "aten":
        raise AttributeError(f"fusegrad.ops has no {name!r}")
    from ..utils.aten import aten

    return aten
