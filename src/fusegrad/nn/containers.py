"""Containers: Sequential, ModuleList, ModuleDict, ParameterList, ParameterDict."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from fusegrad.nn.module import Module, _indent
from fusegrad.nn.parameter import Parameter
from fusegrad.tensor import Tensor


def _position(index: Any, length: int) -> int:
    index = operator.index(index)
    if not -length <= index < length:
        raise IndexError(f"index {index} is out of range")
    return index % length


class _Listed(Module):
    """Children under the names "0", "1", ...; list behaviour shared by Sequential and ModuleList."""

    def _rebuild(self, modules: Iterable[Module]) -> None:
        modules = list(modules)
        self._modules.clear()
        for i, module in enumerate(modules):
            self._modules[str(i)] = module

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __setitem__(self, index: int, module: Module) -> None:
        key = list(self._modules)[_position(index, len(self))]
        setattr(self, key, module)

    def __dir__(self) -> list[str]:
        return [key for key in super().__dir__() if not key.isdigit()]

    def append(self, module: Module) -> Any:
        """Add `module` at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Any:
        """Add every module of `modules` at the end."""
        if not isinstance(modules, Iterable):
            raise TypeError(
                f"{self._get_name()}.extend should be called with an iterable, got {type(modules).__name__}"
            )
        for module in list(modules):
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> Any:
        """Put `module` before position `index`."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        modules = list(self._modules.values())
        if not -len(modules) <= index <= len(modules):
            raise IndexError(f"Index out of range: {index}")
        modules.insert(index, module)
        self._rebuild(modules)
        return self

    def pop(self, key: int | slice = -1) -> Any:
        """Remove and return the module at `key`."""
        out = self[key]  # type: ignore[index]
        del self[key]
        return out


class Sequential(_Listed):
    """Modules applied one after the other; built from modules or from one ordered dict of them."""

    def __init__(self, *args: Any):
        super().__init__()
        if len(args) == 1 and isinstance(args[0], Mapping):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for i, module in enumerate(args):
                self.add_module(str(i), module)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(dict(list(self._modules.items())[index]))
        return list(self._modules.values())[_position(index, len(self))]

    def __delitem__(self, index: int | slice) -> None:
        keys = list(self._modules)
        for key in keys[index] if isinstance(index, slice) else [keys[_position(index, len(keys))]]:
            delattr(self, key)
        self._rebuild(self._modules.values())

    def __add__(self, other: Any) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")
        return Sequential(*self, *other)

    def __iadd__(self, other: Any) -> Sequential:
        return self.extend(other)

    def __mul__(self, other: int) -> Sequential:
        _check_factor(other)
        return Sequential(*(module for _ in range(other) for module in self))

    __rmul__ = __mul__

    def __imul__(self, other: int) -> Sequential:
        _check_factor(other)
        modules = list(self)
        for _ in range(other - 1):
            self.extend(modules)
        return self

    def forward(self, input: Any) -> Any:
        """The modules applied to `input` in order."""
        for module in self:
            input = module(input)
        return input


def _check_factor(other: Any) -> None:
    if not isinstance(other, int):
        raise TypeError(f"unsupported operand type(s) for *: {Sequential} and {type(other)}")
    if other <= 0:
        raise ValueError(f"Non-positive multiplication factor {other} for {Sequential}")


class ModuleList(_Listed):
    """A list of modules whose parameters are registered."""

    def __init__(self, modules: Iterable[Module] | None = None):
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self._modules.values())[index])
        return self._modules[str(_position(index, len(self)))]

    def __delitem__(self, index: int | slice) -> None:
        keys = list(self._modules)
        for key in keys[index] if isinstance(index, slice) else [keys[_position(index, len(keys))]]:
            delattr(self, key)
        self._rebuild(self._modules.values())

    def __iadd__(self, modules: Iterable[Module]) -> ModuleList:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return type(self)(chain(self, other))

    def __repr__(self) -> str:
        reprs = [repr(module) for module in self]
        if not reprs:
            return self._get_name() + "()"
        lines, start = [], 0
        for i in range(1, len(reprs) + 1):  # runs of equal modules are shown once
            if i < len(reprs) and reprs[i] == reprs[start]:
                continue
            count = i - start
            head = f"({start}): " if count == 1 else f"({start}-{i - 1}): {count} x "
            lines.append(head + _indent(reprs[start], 2))
            start = i
        return self._get_name() + "(\n  " + "\n  ".join(lines) + "\n)"


class ModuleDict(Module):
    """A dictionary of modules whose parameters are registered."""

    def __init__(self, modules: Any = None):
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Module:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Remove every module."""
        self._modules.clear()

    def pop(self, key: str) -> Module:
        """Remove and return the module called `key`."""
        return self._modules.pop(key)

    def keys(self) -> Iterable[str]:
        """The names."""
        return self._modules.keys()

    def items(self) -> Iterable[tuple[str, Module]]:
        """The pairs of name and module."""
        return self._modules.items()

    def values(self) -> Iterable[Module]:
        """The modules."""
        return self._modules.values()

    def update(self, modules: Any) -> None:
        """Add or replace modules, from a mapping or an iterable of pairs."""
        if not isinstance(modules, Iterable):
            raise TypeError(f"ModuleDict.update should be called with an iterable of key/value pairs, got {modules!r}")
        for key, module in _pairs(modules, "ModuleDict"):
            self[key] = module


def _pairs(entries: Any, said: str) -> list:
    if isinstance(entries, (Mapping, ModuleDict, ParameterDict)):
        return list(entries.items())
    out = []
    for i, pair in enumerate(entries):
        if not isinstance(pair, (tuple, list)):
            raise TypeError(f"{said} update sequence element #{i} should be Iterable; is {type(pair).__name__}")
        if len(pair) != 2:
            raise ValueError(f"{said} update sequence element #{i} has length {len(pair)}; 2 is required")
        out.append(tuple(pair))
    return out


def _as_parameter(value: Any) -> Any:
    """Plain tensors become parameters; anything else is kept as it is."""
    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        return Parameter(value)
    return value


def _describe(value: Any) -> str:
    if isinstance(value, Tensor):
        kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
        return f"{kind} containing: [{value.dtype} of size {'x'.join(map(str, value.shape))}]"
    return f"Object of type: {type(value).__name__}"


class ParameterList(Module):
    """A list of parameters (tensors given to it become parameters)."""

    def __init__(self, values: Iterable[Any] | None = None):
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            out = type(self)()
            for i in range(*index.indices(len(self))):
                out.append(self[i])
            return out
        return getattr(self, str(_position(index, len(self))))

    def __setitem__(self, index: int, value: Any) -> None:
        setattr(self, str(_position(index, len(self))), _as_parameter(value))

    def __iter__(self) -> Iterator[Any]:
        return iter(self[i] for i in range(len(self)))

    def __iadd__(self, values: Iterable[Any]) -> ParameterList:
        return self.extend(values)

    def append(self, value: Any) -> ParameterList:
        """Add one value at the end."""
        index = self._size
        self._size += 1
        self[index] = value
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        """Add every value at the end."""
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}")
        for value in values:
            self.append(value)
        return self

    def extra_repr(self) -> str:
        return "\n".join(f"  ({i}): {_describe(value)}" for i, value in enumerate(self))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """A dictionary of parameters (tensors given to it become parameters)."""

    def __init__(self, parameters: Any = None):
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str) -> Any:
        if key not in self._keys:
            raise KeyError(key)
        return getattr(self, key)

    def __setitem__(self, key: str, value: Any) -> None:
        self._keys[key] = None
        setattr(self, key, _as_parameter(value))

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, key)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(self._keys))

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def copy(self) -> ParameterDict:
        """A new ParameterDict with the same parameters."""
        return ParameterDict({k: self[k] for k in self._keys})

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value of `key`, set to `default` if there is none."""
        if key not in self._keys:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Remove everything."""
        for key in list(self._keys):
            del self[key]

    def pop(self, key: str) -> Any:
        """Remove and return the value of `key`."""
        out = self[key]
        del self[key]
        return out

    def popitem(self) -> tuple[str, Any]:
        """Remove and return the last pair."""
        key = next(reversed(self._keys))
        return key, self.pop(key)

    def get(self, key: str, default: Any = None) -> Any:
        """The value of `key`, or `default`."""
        return self[key] if key in self._keys else default

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """A new ParameterDict with `default` under every key."""
        return ParameterDict({k: default for k in keys})

    def keys(self) -> Iterable[str]:
        """The names."""
        return self._keys.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        """The pairs of name and value."""
        return ((k, self[k]) for k in self._keys)

    def values(self) -> Iterable[Any]:
        """The values."""
        return (self[k] for k in self._keys)

    def update(self, parameters: Any) -> None:
        """Add or replace values, from a mapping or an iterable of pairs."""
        if not isinstance(parameters, Iterable):
            raise TypeError("ParameterDict.update should be called with an iterable of key/value pairs")
        for key, value in _pairs(parameters, "ParameterDict"):
            self[key] = value

    def extra_repr(self) -> str:
        return "\n".join(f"  ({key}): {_describe(value)}" for key, value in self.items())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterDict should not be called.")

    def __or__(self, other: Any) -> ParameterDict:
        out = self.copy()
        out.update(other)
        return out

    def __ior__(self, other: Any) -> ParameterDict:
        self.update(other)
        return self
