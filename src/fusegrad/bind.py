"""Builds the public surface from the op table: Tensor methods, in-place forms, functions.

Each entry is published when its family is imported (``families.py``); the first one imports this module.
"""

from __future__ import annotations

from typing import Any

from . import families
from .arguments import NUMBERS
from .callgen import dunder_of
from .dispatch import FAST
from .families import PUBLIC
from .inplace import inplace_form
from .op import Function, Op, on_function, on_op
from .outs import OUT
from .public import method, public, with_out
from .tensor import Tensor


def surface(entry: Op | Function) -> tuple[list[str], list[str]]:
    """(names on Tensor, dotted public names) that publishing an entry sets."""
    names = [entry.name, *entry.names]
    methods = [*(n for n in names if entry.method), *entry.dunder]
    public = list(names) if entry.function else []
    if isinstance(entry, Op) and entry.inplace:
        methods += [f"{n}_" for n in names]
        public += [f"{n}_" for n in names]
    return [n for n in methods if "." not in n], public


def publish_op(op: Op) -> None:
    """Attach an operator to Tensor, and its functions to their namespaces. A function of the same name goes first.

    Only those of ``ops/``: the compiler defines operators for graphs alone.
    """
    if not op.module.startswith("fusegrad.ops."):
        return
    for name in (op.name, *op.names):
        if op.method and "." not in name:
            _method(name, op.fn)
        if op.function:
            _public(name, op.fn)
        if op.inplace:
            form = _inplace(op)
            if "." not in name:
                _method(name + "_", form)
            _public(name + "_", form)
    for d in op.dunder:
        if d.startswith("__i") and d not in ("__invert__", "__index__"):
            setattr(Tensor, d, _augmented(op))
        elif len(op.sig.tensors) == 1:
            setattr(Tensor, d, op.fn)
        else:
            setattr(Tensor, d, dunder_of(op, d))


def publish_function(f: Function) -> None:
    """Attach plain Python made of operators to Tensor and its namespaces."""
    for name in (f.name, *f.names):
        if f.method and "." not in name:
            setattr(Tensor, name, method(f, name))
            _functions_on_tensor.add(name)
        if f.function:
            PUBLIC[name] = public(f, name)
            _public_functions.add(name)
    for d in f.dunder:
        setattr(Tensor, d, f.fn)


_functions_on_tensor: set[str] = set()
_public_functions: set[str] = set()


def _method(name: str, fn: Any) -> None:
    if name not in _functions_on_tensor:
        setattr(Tensor, name, fn)


def _public(name: str, fn: Any) -> None:
    if name not in _public_functions:
        PUBLIC[name] = with_out(name, fn) if name in OUT else fn


def _inplace(op: Op) -> Any:
    form = op.fields.get("_form")
    if form is None:
        form = op.fields["_form"] = inplace_form(op)
    return form


def _augmented(op: Op) -> Any:
    form = _inplace(op)
    operands = (Tensor, *NUMBERS)

    def augmented(self: Tensor, other: Any) -> Tensor:
        return form(self, other) if isinstance(other, operands) else NotImplemented

    return augmented if "callinplace" not in form.__module__ else form


def functions() -> dict[str, Any]:
    """Every public function under its dotted name, in-place forms included."""
    families.load_all()
    return dict(PUBLIC)


def accept(cls: type) -> None:
    """Let the fast paths take tensors whose exact type is ``cls``."""
    FAST.add(cls)


on_op.append(publish_op)
on_function.append(publish_function)
