"""Parameters computed from others at every use: ``register_parametrization(layer, "weight", Symmetric())``.

A parametrized module gets a class of its own, a subclass of its class with a property for each parametrized name.
The tensors behind it are kept in ``module.parametrizations[name]``: ``original``, or ``original0``, ``original1``, ...
where ``right_inverse`` returned several.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from fusegrad.autograd.modes import no_grad
from fusegrad.nn.containers import ModuleDict, ModuleList
from fusegrad.nn.module import Module
from fusegrad.nn.parameter import Parameter
from fusegrad.tensor import Tensor


class _Cache(threading.local):
    """What ``cached()`` keeps for this thread: how deep, and the values by (module, name)."""

    depth = 0
    values: dict[tuple[int, str], Any] = {}


_CACHE = _Cache()


@contextlib.contextmanager
def cached() -> Iterator[None]:
    """Inside, parametrized tensors are computed once."""
    if not _CACHE.depth:
        _CACHE.values = {}
    _CACHE.depth += 1
    try:
        yield
    finally:
        _CACHE.depth -= 1
        if not _CACHE.depth:
            _CACHE.values = {}


def _put(owner: Module, name: str, tensor: Tensor) -> None:
    if isinstance(tensor, Parameter):
        owner.register_parameter(name, tensor)
    else:
        owner.register_buffer(name, tensor)


def _same_kind(what: str, got: Any, like: Any, who: Any) -> None:
    """ValueError unless ``got`` is a tensor of the dtype and shape of ``like`` (of (dtype, shape))."""
    dtype, shape = like
    if not isinstance(got, Tensor):
        raise ValueError(f"{what} of a parametrization must be a Tensor, got {type(got).__name__} from {who}")
    if got.dtype is not dtype:
        raise ValueError(f"{what} has dtype {got.dtype}, the tensor has {dtype} (pass unsafe=True to allow it): {who}")
    if tuple(got.shape) != tuple(shape):
        raise ValueError(
            f"{what} has shape {list(got.shape)}, the tensor has {list(shape)} (pass unsafe=True to allow it): {who}"
        )


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, applied in order, and the tensors that they start from."""

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if not modules:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        kind = original.dtype, tuple(original.shape)
        new: Any = original
        with no_grad():
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    with contextlib.suppress(NotImplementedError):
                        new = module.right_inverse(new)
        if not isinstance(new, (Tensor, list, tuple)):
            raise ValueError(f"'right_inverse' must return a Tensor or a sequence of them, got {type(new).__name__}")
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1 if self.is_tensor else len(new)
        if isinstance(new, Tensor):
            if new.dtype is not original.dtype:
                raise ValueError(f"right_inverse returned dtype {new.dtype} for a tensor of {original.dtype}")
            if new is not original:
                original.data = new.detach()
            _put(self, "original", original)
        else:
            for i, t in enumerate(new):
                if not isinstance(t, Tensor):
                    raise ValueError(f"'right_inverse' must return Tensors, got {type(t).__name__} in place {i}")
                t = Parameter(t.detach()) if isinstance(original, Parameter) else t
                _put(self, f"original{i}", t.requires_grad_(original.requires_grad))
        if not unsafe:
            _same_kind("The result", self(), kind, modules)

    def _originals(self) -> list[Tensor]:
        return [self.original] if self.is_tensor else [getattr(self, f"original{i}") for i in range(self.ntensors)]

    def forward(self) -> Tensor:
        """The tensor, from the originals."""
        first, *rest = list(self)
        x = first(*self._originals())
        for module in rest:
            x = module(x)
        return x

    def right_inverse(self, value: Tensor) -> None:
        """Set the originals so that the tensor becomes ``value``. RuntimeError where a module has no right_inverse."""
        with no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(f"parametrization {type(module).__name__} does not implement right_inverse.")
                value = module.right_inverse(value)
            if isinstance(value, Tensor) is not self.is_tensor or not self.is_tensor and len(value) != self.ntensors:
                raise ValueError(f"'right_inverse' must return {self.ntensors} tensors, as it did at first")
            for old, new in zip(self._originals(), (value,) if self.is_tensor else value, strict=True):
                if not isinstance(new, Tensor) or new.dtype is not old.dtype:
                    raise ValueError(f"'right_inverse' must return tensors of dtype {old.dtype}")
                old.data = new.detach()


def _computed(module: Module, name: str) -> Tensor:
    if not _CACHE.depth:
        return module.parametrizations[name]()
    key = id(module), name
    if key not in _CACHE.values:
        _CACHE.values[key] = module.parametrizations[name]()
    return _CACHE.values[key]


def _deepcopy(self: Module, memo: dict) -> Module:
    new = memo[id(self)] = type(self).__new__(type(self))
    new.__setstate__(copy.deepcopy(Module.__getstate__(self), memo))
    return new


def _no_pickle(self: Module) -> Any:
    raise RuntimeError("parametrized modules are saved through their state_dict() only")


@functools.lru_cache(maxsize=256)
def _class_for(base: type, names: tuple[str, ...]) -> type:
    """The subclass of ``base`` whose attributes ``names`` are computed."""
    made: dict[str, Any] = {"__deepcopy__": _deepcopy, "__getstate__": _no_pickle, "__module__": base.__module__}
    for name in names:
        made[name] = property(
            lambda self, name=name: _computed(self, name),
            lambda self, value, name=name: self.parametrizations[name].right_inverse(value),
        )
    return type(f"Parametrized{base.__name__}", (base,), made)


def _plain_class(module: Module) -> type:
    return type(module).__mro__[1] if is_parametrized(module) else type(module)


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether a module, or its tensor of that name, is parametrized."""
    found = module.__dict__.get("_modules", {}).get("parametrizations")
    if not isinstance(found, ModuleDict):
        return False
    return bool(len(found)) if tensor_name is None else tensor_name in found


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Compute the parameter or buffer ``tensor_name`` by ``parametrization`` from now on; returns the module.

    A ``right_inverse`` method gives the original from a value; it may return several. ValueError for a name that is
    none, or, unless ``unsafe``, where shape or dtype change.
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        chain = module.parametrizations[tensor_name]
        if not unsafe:
            now = getattr(module, tensor_name)
            with no_grad():
                kind = now.dtype, tuple(now.shape)
                _same_kind("The result", parametrization(now), kind, parametrization)
                if hasattr(parametrization, "right_inverse"):
                    with contextlib.suppress(NotImplementedError):
                        back = parametrization.right_inverse(parametrization(now))
                        _same_kind("The right inverse", back, kind, parametrization)
        chain.append(parametrization)
        chain.unsafe |= unsafe
        return module
    if tensor_name not in module._parameters and tensor_name not in module._buffers:
        raise ValueError(
            f"Module '{type(module).__name__}' does not have a parameter, a buffer, or a parametrized element with "
            f"name '{tensor_name}'"
        )
    chain = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe=unsafe)
    base = _plain_class(module)
    delattr(module, tensor_name)
    if not is_parametrized(module):
        module.parametrizations = ModuleDict()
    module.parametrizations[tensor_name] = chain
    module.__class__ = _class_for(base, tuple(sorted(module.parametrizations)))
    return module


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Make ``tensor_name`` a tensor again: with its present value, or with its original one."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {type(module).__name__} does not have a parametrization on {tensor_name}")
    chain, base = module.parametrizations[tensor_name], _plain_class(module)
    kept = chain._originals()[0]
    if leave_parametrized:
        with no_grad():
            value = getattr(module, tensor_name).detach()
        if chain.is_tensor:
            kept.data = value
        else:
            kept = Parameter(value, kept.requires_grad) if isinstance(kept, Parameter) else value
    elif not chain.is_tensor:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a "
            "sequence of tensors."
        )
    del module.parametrizations[tensor_name]
    left = tuple(sorted(module.parametrizations))
    if not left:
        del module.parametrizations
    module.__class__ = _class_for(base, left) if left else base
    _put(module, tensor_name, kept)
    return module


def type_before_parametrizations(module: Module) -> type:
    """The class of the module as it was."""
    return _plain_class(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Give ``to_module`` the parametrizations of ``from_module`` (of one tensor, or all), with their originals."""
    names = list(from_module.parametrizations) if is_parametrized(from_module) else []
    for name in names if tensor_name is None else [tensor_name]:
        if not is_parametrized(from_module, name):
            raise AssertionError(f"{name} of {type(from_module).__name__} is not parametrized")
        if not hasattr(to_module, name):
            _put(to_module, name, copy.deepcopy(from_module.parametrizations[name]._originals()[0]))
        for p in from_module.parametrizations[name]:
            register_parametrization(to_module, name, p)
        chain = to_module.parametrizations[name]
        for old, new in zip(chain._originals(), from_module.parametrizations[name]._originals(), strict=True):
            old.data = new.detach().clone()
    return to_module


__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]
