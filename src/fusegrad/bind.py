"""Builds the public surface from the op table: Tensor methods, in-place forms, functions and their namespaces."""

from __future__ import annotations

import sys
import types
from typing import Any

from .callgen import dunder_of
from .dispatch import FAST
from .inplace import inplace_form
from .op import FUNCTIONS, TABLE, Op
from .outs import OUT, with_out
from .tensor import Tensor


def _short(name: str) -> str:
    return name.rsplit(".", 1)[-1]


def bind_methods() -> None:
    """Attach operators and functions to Tensor."""
    for op in TABLE.values():
        for name in (op.name, *op.names):
            if op.method and "." not in name:
                setattr(Tensor, name, op.fn)
            if op.inplace and "." not in name:
                setattr(Tensor, name + "_", _inplace(op))
        for d in op.dunder:
            if d.startswith("__i") and d not in ("__invert__", "__index__"):
                setattr(Tensor, d, _augmented(op))
            elif len(op.sig.tensors) == 1:
                setattr(Tensor, d, op.fn)
            else:
                setattr(Tensor, d, dunder_of(op, d))
    for f in FUNCTIONS.values():
        for name in (f.name, *f.names):
            if f.method and "." not in name:
                setattr(Tensor, name, f.fn)
        for d in f.dunder:
            setattr(Tensor, d, f.fn)


def _inplace(op: Op) -> Any:
    form = op.fields.get("_form")
    if form is None:
        form = op.fields["_form"] = inplace_form(op)
    return form


def _augmented(op: Op) -> Any:
    form = _inplace(op)

    def augmented(self: Tensor, other: Any) -> Tensor:
        return form(self, other)

    return augmented


def functions() -> dict[str, Any]:
    """Every public function under its dotted name, in-place forms included."""
    out: dict[str, Any] = {}
    for op in TABLE.values():
        for name in (op.name, *op.names):
            if op.function:
                out[name] = with_out(name, op.fn) if name in OUT else op.fn
            if op.inplace:
                out[name + "_"] = _inplace(op)
    for f in FUNCTIONS.values():
        if f.function:
            for name in (f.name, *f.names):
                out[name] = with_out(name, f.fn) if name in OUT else f.fn
    return out


def fill(package: types.ModuleType) -> None:
    """Put the functions into ``fusegrad`` and its namespaces (``nn.functional``, ``linalg``, ``special``...)."""
    for dotted, fn in functions().items():
        space, _, name = dotted.rpartition(".")
        module = _namespace(package, space) if space else package
        if isinstance(module.__dict__.get(name, fn), types.ModuleType) or name not in module.__dict__:
            setattr(module, name, fn)  # ``fusegrad.tensor`` is the function; the module of that name stays importable


def _namespace(package: types.ModuleType, dotted: str) -> types.ModuleType:
    full = f"{package.__name__}.{dotted}"
    found = sys.modules.get(full)
    if found is None:
        found = types.ModuleType(full, f"Functions of ``{dotted}``, made from the op table.")
        sys.modules[full] = found
        parent, _, name = full.rpartition(".")
        setattr(sys.modules[parent], name, found)
    return found


def accept(cls: type) -> None:
    """Let the fast paths take tensors whose exact type is ``cls``."""
    FAST.add(cls)
