"""Families of operators (the files of ``ops/``), each imported when something of it is first used.

The index ``ops/_index.py`` says which file defines what; ``docs/build.py`` writes it. It is used only if every file has
the size that it had then: else (operators are being written) all families are imported at once, so that an old index
costs time and nothing more. What all operators need (the op table, the dispatcher, the generator of calls, ``bind``)
comes with the first of them: ``import fusegrad`` does not import it.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, Generic, TypeVar

__all__ = [
    "PUBLIC", "LazyMethod", "Table", "load_all", "namespace", "namespaces", "open_surface", "operators",
    "public_names", "read_index",
]  # fmt: skip

_ROOT = __name__.rpartition(".")[0]
_OPS = f"{_ROOT}.ops"
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ops")

PUBLIC: dict[str, Any] = {}
"""Every public function that was defined so far, under its dotted name."""
METHODS = {
    "autograd.api": ("backward",),
    "autograd.callbacks": ("_execution_engine", "register_hook", "register_post_accumulate_grad_hook", "retain_grad"),
    "copies": ("__copy__", "__deepcopy__", "__reduce_ex__"),
    "inplace": ("copy_", "detach_", "set_"),
    "memory": ("stride", "storage_offset", "data_ptr", "element_size"),
    "ops.view": ("T", "H", "mT", "mH"),
    "subclass": ("as_subclass", "_make_subclass"),
}
"""Modules -> what they set on Tensor when they are imported, besides operators."""
_entries: tuple[dict[str, str], dict[str, str]] = ({}, {})  # operator, function -> family
_public: dict[str, str] = {}  # dotted name -> family
_spaces: set[str] = set()
_waiting: list[str] = []  # families of the index that are not imported

V = TypeVar("V")


def sizes(folder: str = FOLDER) -> int:
    """A number made of the names and sizes of the source files of the operators except the index."""
    with os.scandir(folder) as found:
        files = [f for f in found if f.name.endswith(".py") and f.name != "_index.py"]
        text = " ".join(sorted([f"{f.name}:{f.stat().st_size}" for f in files]))
    return int.from_bytes(text.encode(), "big") % (2**61 - 1)


def read_index() -> dict[str, tuple[str, str, str, str]] | None:
    """family -> its operators, functions, methods and public names; None if the index is missing or out of date."""
    try:
        from .ops import _index

        if _index.SIZES != sizes():
            return None
        return _index.FAMILIES
    except Exception:  # also a half merged file
        return None


def load(family: str) -> None:
    """Import a family; what it defines is then in the tables, on Tensor and in ``PUBLIC``."""
    importlib.import_module(f"{_OPS}.{family}")


def load_all() -> None:
    """Import every family."""
    if _waiting:
        for family in list(_waiting):
            load(family)
        _waiting.clear()


class Table(dict[str, V], Generic[V]):
    """Entries by name. Asking for one imports the family that defines it; going through all of them imports all."""

    def __init__(self, where: dict[str, str]) -> None:
        super().__init__()
        self.where = where

    def defined(self, name: str) -> bool:
        """Whether the entry is there already; imports nothing."""
        return super().__contains__(name)

    def __missing__(self, name: str) -> V:
        if name in self.where:
            load(self.where[name])
        found = super().get(name)
        if found is None:
            raise KeyError(name)
        return found

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in self.where

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else default

    def __iter__(self) -> Iterator[str]:
        load_all()
        return super().__iter__()

    def __len__(self) -> int:
        load_all()
        return super().__len__()

    def keys(self) -> Any:
        load_all()
        return super().keys()

    def values(self) -> Any:
        load_all()
        return super().values()

    def items(self) -> Any:
        load_all()
        return super().items()


class LazyMethod:
    """Stands on Tensor for a method whose module is not imported; gives way to the method at its first use."""

    __slots__ = ("cls", "name", "module")

    def __init__(self, cls: type, name: str, module: str) -> None:
        self.cls, self.name, self.module = cls, name, module

    def found(self) -> Any:
        """The method itself."""
        importlib.import_module(self.module)
        made = self.cls.__dict__[self.name]
        if made is self:
            raise AttributeError(f"{self.cls.__name__}.{self.name} is not defined by {self.module}")
        return made

    def __get__(self, obj: Any, owner: type | None = None) -> Any:
        return self.found().__get__(obj, owner)


def operators(column: int) -> dict[str, str]:
    """The families of the operators (0) or the functions (1) that the index knows."""
    return _entries[column]


def open_surface(package: str, cls: type) -> None:
    """Prepare the tables, ``cls`` (Tensor) and the namespaces of ``package`` (``linalg``, ``special``...) for modules
    that are imported later. Without a current index: import all families now.
    """
    for module, names in METHODS.items():
        for name in names:
            setattr(cls, name, LazyMethod(cls, name, f"{_ROOT}.{module}"))
    index = read_index()
    if index is None:
        from . import ops

        ops.load_all()
        _spaces.update(name.rpartition(".")[0] for name in PUBLIC)
    else:
        _open(index, cls)
    parent = sys.modules[package]
    for space in namespaces():
        if "." not in space:
            made = make_namespace(package, space)
            sys.modules[made.__name__] = made
            setattr(parent, space, made)


def _open(index: dict[str, tuple[str, str, str, str]], cls: type) -> None:
    for family, (operators, functions, methods, public) in index.items():
        _waiting.append(family)
        for where, names in zip(_entries, (operators, functions), strict=True):
            where.update(dict.fromkeys(names.split(), family))
        module = f"{_OPS}.{family}"
        for name in methods.split():
            setattr(cls, name, LazyMethod(cls, name, module))
        _public.update(dict.fromkeys(public.split(), family))
    _spaces.update(name.rpartition(".")[0] for name in _public)


def namespaces() -> list[str]:
    """``linalg``, ``nn.functional``, ...: where public functions are, besides the package itself."""
    return sorted(_spaces - {""})


def public_names(space: str) -> list[str]:
    """Names of the public functions of a namespace ("" for the package); imports nothing."""
    prefix = f"{space}." if space else ""
    found = {n[len(prefix) :] for n in (*_public, *PUBLIC) if n.startswith(prefix)}
    return sorted(n for n in found if "." not in n)


def namespace(space: str, module: dict[str, Any]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` for a module (its dictionary) that shows the public functions of ``space``."""
    prefix = f"{space}." if space else ""

    def find(name: str) -> Any:
        full = prefix + name
        if full not in PUBLIC:
            family = _public.get(full)
            if family is None:
                from .unsupported import message

                raise AttributeError(message(space, name))
            load(family)
        module[name] = value = PUBLIC[full]
        return value

    def names() -> list[str]:
        return sorted({*module, *public_names(space)})

    return find, names


def make_namespace(package: str, space: str) -> ModuleType:
    """A module that has the public functions of ``space`` and nothing else."""
    made = ModuleType(f"{package}.{space}", f"Functions of ``{space}``, made from the op table.")
    made.__dict__["__getattr__"], made.__dict__["__dir__"] = namespace(space, made.__dict__)
    return made
