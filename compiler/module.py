"""CompiledModule: a module whose call is compiled; everything else is the original module's."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from fusegrad.nn.module import Module


class CompiledModule(Module):
    """Wraps a module. Attributes, state_dict, train(), eval() and the rest go to the original, which it shares."""

    def __init__(self, module: Module, make: Callable[[Any], Any]) -> None:
        d = self.__dict__
        d["_orig_mod"] = module
        d["_make"] = make
        d["_fg_call"] = None
        d["_call_cache"] = lambda: getattr(d["_fg_call"], "__fusegrad_cache__", None)

    def _compiled(self) -> Any:
        d = self.__dict__
        if d["_fg_call"] is None:
            module = d["_orig_mod"]

            def call(*args: Any, **kwargs: Any) -> Any:
                return module(*args, **kwargs)

            call.__name__ = call.__qualname__ = type(module).__name__
            d["_fg_call"] = d["_make"](call)
        return d["_fg_call"]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        call = self.__dict__["_fg_call"]
        return (call or self._compiled())(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self(*args, **kwargs)

    def __getattribute__(self, name: str) -> Any:
        if name in _OWN:
            return object.__getattribute__(self, name)
        return getattr(object.__getattribute__(self, "__dict__")["_orig_mod"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._orig_mod, name)

    def train(self, mode: bool = True) -> CompiledModule:
        self._orig_mod.train(mode)
        return self

    def eval(self) -> CompiledModule:
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> CompiledModule:
        self._orig_mod.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        self._orig_mod.zero_grad(set_to_none)

    def to(self, *args: Any, **kwargs: Any) -> CompiledModule:
        self._orig_mod.to(*args, **kwargs)
        return self

    def __repr__(self) -> str:
        return f"CompiledModule({self._orig_mod!r})"

    def __dir__(self) -> list[str]:
        return sorted({*dir(self._orig_mod), "_orig_mod"})

    def __len__(self) -> int:
        return len(self._orig_mod)  # type: ignore[arg-type]

    def __iter__(self) -> Any:
        return iter(self._orig_mod)  # type: ignore[call-overload]

    def __getitem__(self, k: Any) -> Any:
        return self._orig_mod[k]  # type: ignore[index]

    def __deepcopy__(self, memo: dict) -> CompiledModule:
        out = CompiledModule(deepcopy(self._orig_mod, memo), self.__dict__["_make"])
        memo[id(self)] = out
        return out

    def __reduce__(self) -> Any:
        return _remake, (self._orig_mod,)


def _remake(module: Module) -> Any:
    from .api import compile

    return compile(module)


_OWN = {
    "__dict__", "__class__", "_orig_mod", "_compiled", "_make", "_fg_call", "_call_cache", "__call__", "forward", "train",
    "eval", "requires_grad_", "zero_grad", "to", "__deepcopy__", "__reduce__", "__reduce_ex__", "__repr__", "__dir__",
    "__setattr__", "__delattr__",
}  # fmt: skip
