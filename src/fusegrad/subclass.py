"""Classes derived from Tensor: what operators give for their instances is of the class too, as in PyTorch."""

from __future__ import annotations

from typing import Any, NoReturn

from .autograd.modes import STATE
from .dispatch import FAST
from .tensor import Tensor, wrap


def class_of_results(tensors: list[Tensor]) -> type:
    """The class of what an operator gives for ``tensors``, one of which is of a class of the program's own: of two, the
    one that is derived from the other. TypeError for two that have nothing to do with each other.
    """
    kinds = {type(t) for t in tensors if type(t) not in FAST and _keeps(type(t))}
    for kind in kinds:
        for name in ("__torch_function__", "__torch_dispatch__"):
            if hasattr(kind, name):
                refuse_protocol(kind, name)
    for kind in kinds:
        if all(issubclass(kind, k) for k in kinds):
            return kind
    if kinds:
        names = ", ".join(sorted(k.__name__ for k in kinds))
        raise TypeError(f"an operator got tensors of the classes {names}, none of which is derived from the others")
    return Tensor


def _keeps(kind: type) -> bool:
    """Whether results are of the class: not of one that is derived from Parameter or Buffer."""
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


def results_like(out: Any, tensors: list[Tensor]) -> Any:
    """What an operator gave for ``tensors``, in their class. (Gradients are plain tensors.)"""
    return out if STATE.run is not None else dressed(out, class_of_results(tensors))


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
        "instances of it; define methods of the class for what else it does, or use hooks and custom Functions."
    )


Tensor.as_subclass = as_subclass  # type: ignore[attr-defined]
Tensor._make_subclass = staticmethod(_make_subclass)  # type: ignore[attr-defined]
