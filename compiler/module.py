"""Compiled modules: a subclass of the module's own class whose call is compiled, over the same state."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from fusegrad.nn.module import Module


class CompiledModule:
    """Mixin of the class that `compile` makes for a module.

    The instance shares the ``__dict__`` of the original module, so parameters, buffers, attributes, hooks, ``train()``,
    ``state_dict()`` and assignments are one and the same; ``isinstance`` holds for the original class. Only the call
    differs. ``_orig_mod`` is the original.
    """

    __slots__ = ("_orig_mod", "_fg_make", "_fg_call")
    _orig_mod: Any
    _fg_make: Any
    _fg_call: Any

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._fg_call(*args, **kwargs)

    def __deepcopy__(self, memo: dict) -> Any:
        out = compiled_module(deepcopy(self._orig_mod, memo), self._fg_make)
        memo[id(self)] = out
        return out

    def __reduce_ex__(self, protocol: Any) -> Any:
        return compiled_module, (self._orig_mod, self._fg_make)

    def _get_name(self) -> str:
        return f"Compiled{type(self._orig_mod).__name__}"


_classes: dict[type, type] = {}


def compiled_module(module: Module, make: Callable[[Any], Any]) -> Any:
    """The compiled form of a module. ``make`` compiles a function."""
    if isinstance(module, CompiledModule):
        module = module._orig_mod
    cls = type(module)
    made = _classes.get(cls)
    if made is None:
        body = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__, "__slots__": ()}
        made = _classes[cls] = type(cls)(cls.__name__, (CompiledModule, cls), body)
    out = object.__new__(made)
    object.__setattr__(out, "__dict__", module.__dict__)

    def call(*args: Any, **kwargs: Any) -> Any:
        return module(*args, **kwargs)

    call.__name__ = cls.__name__
    call.__qualname__ = cls.__qualname__
    for name, value in (("_orig_mod", module), ("_fg_make", make), ("_fg_call", make(call))):
        object.__setattr__(out, name, value)
    return out
