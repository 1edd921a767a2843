"""What eager code keeps for a backward and a graph does not: kept by a node, so that a change in place is noticed.

Operators that are written with others (``number_forms``) and checkpointed functions leave other nodes on the tape than
eager code has; a backward that eager code refuses must be refused here as well.
"""

from __future__ import annotations

from typing import Any

from fusegrad.autograd.node import CustomNode, new_node
from fusegrad.autograd.saved import freed_error, unpack, unpack_out
from fusegrad.dispatch import save
from fusegrad.tensor import Tensor

__all__ = ["keep_as", "keep_tensors"]


class Keeping(CustomNode):
    """The identity. ``saved`` and ``out``: tensors with their versions, none of which is read. ``check``: called by a
    backward that comes here.
    """

    __slots__ = ("check",)

    def apply(self, grads: list) -> Any:
        if self.saved is None:
            raise freed_error()
        if self.check is not None:
            self.check()
        for s, version in zip(self.saved, self.versions, strict=True):
            unpack(self, s, version)
        for nr, kept in enumerate(self.out or ()):
            if kept is not None:
                unpack_out(self, kept, nr)
        return grads


def keep_as(op: Any, args: tuple, attrs: dict[str, Any], out: Any) -> Any:
    """``out``, which other operators made of ``args``, behind a node that keeps what a node of ``op`` would."""
    outs = list(out) if isinstance(out, tuple) else [out]
    flat = [t for a in args for t in (a if type(a) is tuple else (a,))]
    edges = tuple((t._node or t) if isinstance(t, Tensor) and t._rg else None for t in flat)
    places = [i for i, t in enumerate(outs) if t._rg and t._node is not None]
    if not places or not any(e is not None for e in edges):
        return out
    stand_in = new_node(op, edges, (), tuple(outs[0].shape), outs[0].dtype)
    stand_in.attrs = attrs
    save(op, stand_in, args, outs)
    if stand_in.keeps():
        _under([outs[i] for i in places], op.name, stand_in)
    return out


def keep_tensors(results: list[Tensor], kept: list[Tensor], start: int, check: Any) -> None:
    """Results whose nodes are newer than ``start`` count ``kept`` among what their history keeps. ``check``: see
    ``Keeping``."""
    stand_in = new_node(None, (), (), None, None)
    stand_in.saved = tuple(kept)
    stand_in.versions = tuple(t._st.version if t._st is not None else 0 for t in kept)
    _under([t for t in results if t._rg and t._node is not None and t._node.seq > start], "Checkpoint", stand_in, check)


def _under(results: list[Tensor], name: str, stand_in: Any, check: Any = None) -> None:
    """Put a Keeping node under the results, with what ``stand_in`` keeps."""
    if not results:
        return
    specs = [(tuple(t.shape), t.dtype) for t in results]
    node = Keeping(f"{name}Backward0", tuple(t._node for t in results), tuple(t._nr for t in results), specs)
    node.saved, node.versions, node.out, node.check = stand_in.saved, stand_in.versions, stand_in.out, check
    for i, t in enumerate(results):
        t._node, t._nr = node, i
