"""``fusegrad.overrides``: classes that take over what functions do to their instances, with ``__torch_function__``.

Nothing of it is in the way of programs without such a class. The first class derived from Tensor that defines
``__torch_function__`` (or the import of this module, for classes that are not) puts an entry in front of every public
function and method: the function objects stay the same, their code is exchanged. Attributes (``x.shape``, ``x.grad``)
are not sent through ``__torch_function__``, and compiled code runs frames with such tensors as plain Python.
"""

from __future__ import annotations

import inspect
import threading
import warnings
from collections.abc import Callable, Iterable
from types import CodeType, FunctionType
from typing import Any

from .autograd.modes import STATE
from .deferred import FRONTS, force
from .dispatch import FAST
from .families import PUBLIC, load_all
from .handler import stack
from .subclass import DISABLED, OVERRIDES, PLAIN, DisableTorchFunctionSubclass, as_subclass, dressed
from .tensor import _OWN, Tensor

__all__ = [
    "DisableTorchFunctionSubclass", "get_ignored_functions", "handle_torch_function", "has_torch_function",
    "has_torch_function_unary", "has_torch_function_variadic", "install", "is_tensor_like", "resolve_name",
]  # fmt: skip

_lock = threading.RLock()
_entries: dict[Any, _Entry] = {}
_SKIPPED = frozenset(
    "__new__ __init__ __init_subclass__ __torch_function__ __getattribute__ __getattr__ __hash__ __setattr__ "
    "__reduce_ex__ __setstate__ __dir__ __class_getitem__ as_subclass".split()
)
# Operators by the names under which PyTorch hands them on.
_SPECIAL = {
    "__add__": "add", "__radd__": "add", "__sub__": "sub", "__mul__": "mul", "__rmul__": "mul", "__truediv__": "div",
    "__rtruediv__": "__rdiv__", "__mod__": "remainder", "__pow__": "pow", "__matmul__": "matmul", "__lt__": "lt",
    "__le__": "le", "__gt__": "gt", "__ge__": "ge", "__ne__": "ne", "__iadd__": "add_", "__isub__": "sub_",
    "__imul__": "mul_", "__itruediv__": "div_", "__ifloordiv__": "floor_divide_", "__imod__": "remainder_",
    "__ipow__": "pow_", "__neg__": "neg", "__pos__": "positive", "__abs__": "abs",
}  # fmt: skip


def default(cls: type, func: Callable, types: Iterable[type], args: tuple = (), kwargs: dict | None = None) -> Any:
    """Run ``func``; tensors that it gives are instances of ``cls``. NotImplemented if another class takes part that
    ``cls`` is not derived from."""
    if not all(issubclass(cls, t) for t in types):
        return NotImplemented
    with DisableTorchFunctionSubclass():
        return _converted(func(*args, **kwargs or {}), cls, args)


def _converted(out: Any, cls: type, args: Any) -> Any:
    if isinstance(out, Tensor):
        if cls is Tensor or isinstance(out, cls):
            return out
        return as_subclass(out, cls) if any(out is a for a in args) or type(out) is not Tensor else dressed(out, cls)
    if type(out) is tuple or type(out) is list:
        return type(out)(_converted(t, cls, args) for t in out)
    if isinstance(out, tuple) and hasattr(type(out), "_fields") or isinstance(out, tuple) and hasattr(out, "n_fields"):
        return tuple.__new__(type(out), [_converted(t, cls, args) for t in out])
    return out


def takes_over(kind: type) -> bool:
    """Whether a class has a ``__torch_function__`` of its own."""
    found = getattr(kind, "__torch_function__", None)
    return found is not None and found is not DISABLED and getattr(found, "__func__", None) is not _OWN


def _relevant(args: Iterable[Any]) -> list[Any]:
    """Those of ``args`` whose class takes over, one of a class, derived classes before their bases."""
    found: list[Any] = []
    for a in args:
        kind = type(a)
        if kind in FAST or kind in _SIMPLE or not takes_over(kind) or any(type(b) is kind for b in found):
            continue
        at = next((i for i, b in enumerate(found) if issubclass(kind, type(b))), len(found))
        found.insert(at, a)
    return found


_SIMPLE = frozenset({int, float, bool, str, type(None), dict})


def _flat(args: tuple, kwargs: dict) -> list[Any]:
    flat: list[Any] = []
    for a in (*args, *kwargs.values()) if kwargs else args:
        if type(a) is list or type(a) is tuple:
            flat += a
        else:
            flat.append(a)
    return flat


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether one of them has a class that takes over, and may now."""
    return not PLAIN.depth and bool(_relevant(relevant_args))


def has_torch_function_unary(argument: Any) -> bool:
    """``has_torch_function`` of one argument."""
    return has_torch_function((argument,))


def has_torch_function_variadic(*arguments: Any) -> bool:
    """``has_torch_function`` of arguments given one by one."""
    return has_torch_function(arguments)


def handle_torch_function(public_api: Callable, relevant_args: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
    """What the classes among ``relevant_args`` make of ``public_api(*args, **kwargs)``. TypeError if none does it."""
    found = _relevant(relevant_args)
    kinds = tuple(type(a) for a in found)
    for h in stack():
        if getattr(h, "on_override", None):  # capture: what the classes do is the program's to run
            h.on_override(kinds[0])
    for a in found:
        method = a.__torch_function__
        if getattr(method, "__self__", None) is a:
            warnings.warn(
                "Defining your `__torch_function__` as a plain method is deprecated: make it a classmethod",
                DeprecationWarning,
                stacklevel=3,
            )
        result = method(public_api, kinds, args, kwargs)
        if result is not NotImplemented:
            return result
    raise TypeError(
        f"no implementation found for '{resolve_name(public_api)}' on types that implement __torch_function__: "
        f"{list(kinds)}"
    )


class _Entry:
    """Stands in front of one function: sends calls to classes that take over, others to the function itself."""

    __slots__ = ("fn", "code", "real", "shown")

    def __init__(self, fn: Any) -> None:
        self.fn, self.code, self.real, self.shown = fn, fn.__code__, None, fn
        fn.__code__ = _front(fn.__code__, self)
        fn.__wrapped__ = self  # whose signature is shown

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self.made())

    def made(self) -> Any:
        """The function with its own code, which may have to be generated."""
        with _lock:
            if self.real is None:
                fn = self.fn
                front, fn.__code__ = fn.__code__, self.code
                del FRONTS[fn]
                try:
                    force(fn)
                finally:
                    code, fn.__code__ = fn.__code__, front
                    FRONTS[fn] = self
                real = FunctionType(code, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)
                real.__kwdefaults__, real.__qualname__ = fn.__kwdefaults__, fn.__qualname__
                real.__dict__.update({k: v for k, v in vars(fn).items() if k != "__wrapped__"})
                self.real = real
        return self.real

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not PLAIN.depth and STATE.run is None:
            found = _relevant(_flat(args, kwargs))
            if found:
                return handle_torch_function(self.shown, found, *args, **kwargs)
        return (self.real or self.made())(*args, **kwargs)


with warnings.catch_warnings():
    warnings.simplefilter("ignore", SyntaxWarning)
    _scope: dict[str, Any] = {}
    exec('def front(*args, **kwargs):\n    return "entry"(*args, **kwargs)', _scope)
_FRONT: CodeType = _scope["front"].__code__


def _front(code: CodeType, entry: _Entry) -> CodeType:
    """Code that calls ``entry``, which it holds as a constant: what a function calls by name is in its own globals."""
    consts = tuple(entry if c == "entry" else c for c in _FRONT.co_consts)
    return _FRONT.replace(
        co_consts=consts, co_freevars=code.co_freevars, co_name=code.co_name, co_filename="<fusegrad.overrides>"
    )


def install() -> None:
    """Put entries in front of all public functions and methods; done once."""
    with _lock:
        if _entries:
            return
        load_all()
        for name, fn in PUBLIC.items():
            _enter(fn)
            if fn in _entries and name.startswith("nn.functional.") and fn.__name__ == "f_" + name.split(".")[-1]:
                fn.__name__ = fn.__qualname__ = name.split(".")[-1]
        for name in list(vars(Tensor)):
            if name not in _SKIPPED and (name[:1] != "_" or name[:2] == "__"):
                getattr(Tensor, name, None)  # what is imported at first use is there then
                _enter(vars(Tensor)[name])
        methods = {n: f for n, f in vars(Tensor).items() if f.__hash__ is not None and f in _entries}
        for name, fn in sorted(methods.items(), key=lambda m: m[0][:2] == "__"):
            own = fn.__name__
            if methods.get(own) is not fn and not any(PUBLIC.get(n) is fn for n in (own, f"nn.functional.{own}")):
                fn.__name__ = fn.__qualname__ = name  # under which it is known, not what its definition is called
        for name, other in _SPECIAL.items():
            if name in methods and methods[name].__name__ == name and other in methods:
                _entries[methods[name]].shown = methods[other]
        OVERRIDES.append(of_operator)


def _enter(fn: Any) -> None:
    if isinstance(fn, FunctionType) and fn not in _entries and (fn.__module__ or "").startswith("fusegrad"):
        FRONTS[fn] = _entries[fn] = _Entry(fn)


def of_operator(op: Any, args: tuple, attrs: dict[str, Any], tensors: Iterable[Any]) -> Any:
    """What the classes of its tensors make of an operator that no public function called. NotImplemented: nothing."""
    if PLAIN.depth or STATE.run is not None:
        return NotImplemented
    found = _relevant(tensors)
    return handle_torch_function(op.fn, found, *args, **attrs) if found else NotImplemented


def is_tensor_like(inp: Any) -> bool:
    """Whether ``inp`` is a Tensor, or of a class that takes functions over."""
    return isinstance(inp, Tensor) or hasattr(type(inp), "__torch_function__")


def resolve_name(f: Callable) -> str:
    """The public name of a function."""
    for name, fn in PUBLIC.items():
        if fn is f:
            return f"fusegrad.{name}"
    name = getattr(f, "__name__", repr(f))
    return f"fusegrad.Tensor.{name}" if vars(Tensor).get(name) is f else name


def get_ignored_functions() -> set[Callable]:
    """Public functions that are never handed on."""
    return {fn for name, fn in PUBLIC.items() if fn not in _entries and callable(fn)}


install()
