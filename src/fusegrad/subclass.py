"""Classes derived from Tensor: what operators give for their instances is of the class too, as in PyTorch."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NoReturn

from .autograd.modes import STATE
from .dispatch import FAST
from .tensor import Tensor, wrap


class _Plain(threading.local):
    """``depth``: how many contexts of this thread let operators on instances of subclasses give plain tensors."""

    depth = 0


class _Disabled:
    """``__torch_function__`` of a class for whose instances operators give plain tensors. (Not a function, which would
    become a method of the class.)"""

    __name__ = "_disabled_torch_function_impl"

    def __call__(self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        PLAIN.depth += 1
        try:
            return func(*args, **kwargs or {})
        finally:
            PLAIN.depth -= 1


PLAIN = _Plain()
DISABLED = _Disabled()
OVERRIDES: list[Callable[..., Any]] = []  # what ``overrides`` does with operators, once a class takes them over


class DisableTorchFunctionSubclass:
    """Inside, no ``__torch_function__`` of a class is called, and operators on instances of subclasses give Tensors."""

    def __enter__(self) -> None:
        PLAIN.depth += 1

    def __exit__(self, *error: Any) -> None:
        PLAIN.depth -= 1


def class_of_results(tensors: list[Tensor]) -> type:
    """The class of what an operator gives for ``tensors``, one of which is of a class of the program's own: of two, the
    one that is derived from the other. TypeError for two that have nothing to do with each other.
    """
    kinds = {type(t) for t in tensors if type(t) not in FAST and _keeps(type(t))}
    for kind in kinds:
        if hasattr(kind, "__torch_dispatch__"):
            refuse_protocol(kind, "__torch_dispatch__")
    for kind in kinds:
        if all(issubclass(kind, k) for k in kinds):
            return kind
    if kinds:
        names = ", ".join(sorted(k.__name__ for k in kinds))
        raise TypeError(f"an operator got tensors of the classes {names}, none of which is derived from the others")
    return Tensor


def _keeps(kind: type) -> bool:
    """Whether results are of the class: not of one that is derived from Parameter or Buffer, or that says so."""
    if getattr(kind, "__torch_function__", None) is DISABLED:
        return False
    return not any(base in FAST for base in kind.__mro__ if base is not Tensor)


def dressed(out: Any, kind: type) -> Any:
    """``out``, new tensors, as instances of ``kind``."""
    if isinstance(out, (tuple, list)):
        return type(out)([dressed(t, kind) for t in out])
    if type(out) is not Tensor or kind is Tensor:
        return out
    try:
        out.__class__ = kind
        return out
    except TypeError:  # the class has slots of its own
        new: Any = wrap(out._data, kind)
        for name in ("_g", "_rg", "_node", "_nr", "_st", "_view", "_grad", "_extra"):
            setattr(new, name, getattr(out, name))
        return new


def taken_over(op: Any, args: tuple, attrs: dict[str, Any], tensors: list[Tensor]) -> Any:
    """What a class with ``__torch_function__`` makes of an operator; NotImplemented where none does."""
    return OVERRIDES[0](op, args, attrs, tensors) if OVERRIDES else NotImplemented


def results_like(out: Any, tensors: list[Tensor]) -> Any:
    """What an operator gave for ``tensors``, in their class. (Gradients are plain tensors.)"""
    return out if STATE.run is not None or PLAIN.depth else dressed(out, class_of_results(tensors))


def noticed(cls: type) -> None:
    """A class derived from Tensor was made that has a ``__torch_function__``: from now on functions ask for it."""
    if any(vars(c).get("__torch_function__", DISABLED) is not DISABLED for c in cls.__mro__ if c is not Tensor):
        from . import overrides  # noqa: F401


def _checked(cls: Any) -> type:
    if not isinstance(cls, type) or not issubclass(cls, Tensor):
        name = getattr(cls, "__name__", repr(cls))
        raise TypeError(
            f"Creating a Tensor subclass from a class that does not inherit from Tensor is not possible: {name}. Make "
            "sure your class inherits from Tensor."
        )
    return cls


def as_subclass(self: Tensor, cls: type) -> Any:
    """The same memory and history as an instance of ``cls``, a class derived from Tensor. Its ``__init__`` is not
    called; operators on it give instances of ``cls``."""
    made: Any = self[...]
    if type(made) is not Tensor:
        made.__class__ = Tensor
    return dressed(made, _checked(cls))


def _make_subclass(cls: type, data: Any, require_grad: bool = False) -> Any:
    """An instance of ``cls`` on the memory of ``data``, a leaf."""
    if not isinstance(data, Tensor):
        raise TypeError(f"_make_subclass(): argument 'data' must be Tensor, not {type(data).__name__}")
    made: Any = Tensor.detach(data)
    if type(made) is not Tensor:
        made.__class__ = Tensor
    return dressed(made, _checked(cls))._ask_grad(bool(require_grad))


def refuse_protocol(cls: type, name: str) -> NoReturn:
    """The error for a class that would take over what operators do."""
    raise NotImplementedError(
        f"class {cls.__name__}: {name} is not supported. Operators on instances of a class derived from Tensor give "
        "instances of it; define __torch_function__ or methods of the class for what else it does, or use hooks and "
        "custom Functions."
    )


Tensor.as_subclass = as_subclass  # type: ignore[attr-defined]
Tensor._make_subclass = staticmethod(_make_subclass)  # type: ignore[attr-defined]
