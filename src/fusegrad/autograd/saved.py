"""Saved tensors: reading them back with their version checked, and the hooks that may pack them elsewhere."""

from __future__ import annotations

from typing import Any

from ..meta import Meta
from .node import Node


def freed_error() -> RuntimeError:
    return RuntimeError(
        "Trying to backward through the graph a second time (or directly access saved tensors after they have already "
        "been freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). "
        "Specify retain_graph=True if you need to backward through the graph a second time or if you need to access "
        "saved tensors after calling backward."
    )


def check_version(node: Node, version: int, now: int, shape: Any, dtype: Any, what: str) -> None:
    """RuntimeError when a saved tensor was changed in place since."""
    if now != version:
        raise RuntimeError(
            "one of the variables needed for gradient computation has been modified by an inplace operation: "
            f"[{dtype.name} {list(shape)}], which is {what} of {node.name()}, is at version {now}; expected version "
            f"{version} instead. Hint: change a copy (x = x.clone()) or use the operation that is not in-place; "
            "fusegrad.autograd.set_detect_anomaly(True) shows the forward line."
        )


class Packed:
    """A saved tensor in the keeping of ``saved_tensors_hooks``; ``tie``: its history, as (node or leaf, number)."""

    __slots__ = ("value", "unpack", "tie")

    def __init__(self, value: Any, unpack: Any, tie: Any = None) -> None:
        self.value, self.unpack, self.tie = value, unpack, tie


def packed(t: Any, hooks: tuple) -> Packed:
    """A saved input in the keeping of the hooks. The tape holds the node or leaf of its history anyway."""
    return Packed(hooks[0](t), hooks[1], (t._node if t._node is not None else t, t._nr) if t._rg else None)


def tied(t: Any, target: Any, nr: int) -> Any:
    """An unpacked tensor with the history that it had when it was saved."""
    from ..tensor import alias
    from .node import CustomNode

    if t._rg:
        return t
    if not isinstance(target, Node):

        class Unpacked(CustomNode):
            __slots__ = ()

            def apply(self, grads: list) -> Any:
                return grads

        target = Unpacked("UnpackBackward", (target,), (0,), [(tuple(t.shape), t.dtype)])
    t = alias(t)
    t._node, t._nr, t._rg = target, nr, True
    return t


def pack_all(node: Node, hooks: tuple) -> None:
    """Run the pack hook on every saved tensor of ``node``."""
    pack, unpack_hook = hooks

    def one(t: Any) -> Any:
        if t is None or isinstance(t, (Meta, bool, int, float)):
            return t
        if isinstance(t, (tuple, list)):
            return type(t)(one(x) for x in t)
        return packed(t, hooks) if hasattr(t, "_node") else t

    node.saved = tuple(one(s) for s in node.saved)
    if node.out is not None:
        for i, kept in enumerate(node.out):
            if kept is not None:
                node.out[i] = Packed(pack(unpack_out(node, kept, i)), unpack_hook)


def unpack(node: Node, s: Any, version: Any) -> Any:
    """A saved input as it was; RuntimeError if it was changed in place."""
    if isinstance(s, Packed):
        from ..tensor import Tensor

        t = s.unpack(s.value)
        if not isinstance(t, Tensor):
            raise TypeError(f"the unpack hook must return a Tensor, got {type(t).__name__}")
        return t if s.tie is None else tied(t, *s.tie)
    if isinstance(s, tuple):
        return tuple(unpack(node, t, v) for t, v in zip(s, version, strict=True))
    st = getattr(s, "_st", None)
    if st is not None and st.version != version:
        check_version(node, version, st.version, s.shape, s.dtype, "an input")
    return s


def unpack_out(node: Node, kept: Any, nr: int) -> Any:
    """A saved output, made a Tensor again and tied to its node."""
    from ..tensor import wrap, wrap_ref

    if isinstance(kept, Packed):
        return tied(unpack(node, kept, 0), node, nr)
    value, st, version = kept
    t = wrap_ref(value) if hasattr(value, "handler") else wrap(value)
    if st.version != version:
        check_version(node, version, st.version, t.shape, t.dtype, f"output {nr}")
    t._st, t._node, t._nr, t._rg = st, node, nr, True
    return t


def saved_attribute(node: Node, name: str) -> Any:
    """``node._saved_<name>``: a saved input (``self`` is the first), a saved result, or a static attribute.

    RuntimeError after the node was freed; None where this call had no need to keep it; AttributeError for a name that
    the rules of the operator do not use.
    """
    op = node.op
    if op is None and node.attrs and name in node.attrs:
        return node.attrs[name]
    rules = {n for r in op.rules.values() for n in r.names} if op is not None else set()
    params = [p.name for p in op.sig.tensors] if op is not None else []
    key = params[0] if name == "self" and params and "self" not in params else name
    out = {"result": 0, "out": 0}.get(name, int(name[6:]) if name[:6] == "result" and name[6:].isdigit() else None)
    wanted_out = out is not None and ({f"out{out}"} | ({"out"} if out == 0 else set())) & rules
    if key not in rules and not wanted_out:
        raise AttributeError(f"{node.name()} saves nothing under the name {name!r}")
    if node.attrs is not None and key in node.attrs:
        return node.attrs[key]
    if node.freed:
        raise freed_error()
    if wanted_out:
        kept = node.out[out] if node.out is not None else None
        return None if kept is None else unpack_out(node, kept, out)  # type: ignore[arg-type]
    i = params.index(key)
    s = node.saved[i]
    return None if s is None or isinstance(s, Meta) else unpack(node, s, node.versions[i])
