"""``fusegrad.ops.aten``: operators under the names that PyTorch's lowest layer has for them, as policies of selective
checkpoints compare them: ``ops.aten.mm.default``. Overloads of one name are the same operator here.
"""

from __future__ import annotations

from typing import Any

from fusegrad.families import PUBLIC, load_all
from fusegrad.op import TABLE
from fusegrad.tensor import Tensor

_OTHER = {
    "true_divide": "div",
    "conv1d": "convolution",
    "conv2d": "convolution",
    "conv3d": "convolution",
    "conv_transpose1d": "convolution",
    "conv_transpose2d": "convolution",
    "conv_transpose3d": "convolution",
    "scaled_dot_product_attention": "_scaled_dot_product_flash_attention_for_cpu",
    "softmax": "_softmax",
    "log_softmax": "_log_softmax",
    "layer_norm": "native_layer_norm",
    "group_norm": "native_group_norm",
    "batch_norm": "native_batch_norm",
    "max_pool2d": "max_pool2d_with_indices",
}
_PRODUCTS = {(1, 1): "dot", (2, 2): "mm", (2, 1): "mv", (1, 2): "mv"}


def _own(name: str) -> str:
    """The last part of a name, without the mark of the in-place form."""
    name = name.rpartition(".")[2]
    return name[:-1] if name.endswith("_") and not name.endswith("__") else name


def called(name: str, args: tuple) -> str:
    """The name in PyTorch's lowest layer of an operator of the table, called with ``args``."""
    name = _own(name)
    if name == "linear":
        return "mm" if args[2] is None else "addmm"
    if name == "matmul":
        x, y = (a.ndim for a in args)
        return _PRODUCTS.get((x, y)) or ("mm" if y == 2 else "mv" if y == 1 else "bmm")
    return _OTHER.get(name, name)


class Overload:
    """One operator, as a policy gets it and a list of operators names it. ``operator``: its name in this package, where
    it came from a call."""

    def __init__(self, name: str, overload: str = "default", operator: str = "") -> None:
        self.__name__, self.overload, self.operator = f"{name}.{overload}", overload, operator or name
        self.packet = name

    def name(self) -> str:
        return f"aten::{self.packet}"

    def __repr__(self) -> str:
        return f"<OpOverload(op='aten.{self.packet}', overload='{self.overload}')>"

    def __str__(self) -> str:
        return f"aten.{self.__name__}"

    def __eq__(self, other: Any) -> bool:
        if isinstance(other, Overload):
            return _own(self.packet) == _own(other.packet)
        if isinstance(other, Packet):
            return False
        names = names_of(other) if callable(other) else None
        return names is not None and bool({self.packet, self.operator} & names)

    def __hash__(self) -> int:
        return hash(_own(self.packet))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _function(self.packet)(*args, **kwargs)


class Packet:
    """All overloads of one name: attributes are overloads."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getattr__(self, overload: str) -> Overload:
        if overload.startswith("__"):
            raise AttributeError(overload)
        return Overload(self.__name__, overload)

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='aten.{self.__name__}')>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _function(self.__name__)(*args, **kwargs)


def _function(name: str) -> Any:
    found = PUBLIC.get(name) or getattr(Tensor, name, None)
    if found is None:
        raise NotImplementedError(f"ops.aten.{name} can be compared, not called: no function has this name here")
    return found


def names_of(fn: Any) -> set[str] | None:
    """What an element of a list of operators stands for: an overload, or a function of this package."""
    if isinstance(fn, Overload):
        return {_own(fn.packet)}
    if isinstance(fn, Packet):
        return None
    op = getattr(fn, "op", None) or getattr(getattr(fn, "__wrapped__", None), "op", None)
    if op is not None:
        return {_own(op.name)}
    name = getattr(fn, "__name__", None)
    known = name is not None and any(fn is f for f in (PUBLIC.get(name), getattr(Tensor, name, None)))
    return {_own(name)} if known and name is not None else None


class _Aten:
    """The namespace: a name that neither an operator here nor one in the tables above has is an AttributeError."""

    def __getattr__(self, name: str) -> Packet:
        load_all()
        own = _own(name)
        known = own in PUBLIC or own in TABLE or hasattr(Tensor, own) or own in {*_OTHER.values(), *_PRODUCTS.values()}
        if name.startswith("__") or not known:
            raise AttributeError(f"'_OpNamespace' 'aten' object has no attribute '{name}'")
        made = self.__dict__[name] = Packet(name)
        return made

    def __repr__(self) -> str:
        return "<module 'fusegrad.ops.aten'>"


aten = _Aten()
