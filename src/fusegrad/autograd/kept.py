"""What the nodes of a graph keep in memory: saved inputs and results, what a custom ``ctx`` holds, with their bytes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..meta import Meta
from ..place import root_array
from ..tensor import Tensor
from .node import Node
from .saved import Packed


@dataclass(frozen=True)
class Kept:
    """One value that a node keeps. ``owner`` identifies the memory, which several nodes may share."""

    name: str
    shape: tuple
    dtype: str
    nbytes: int | None  # of the value; None where it is not known (packed, or a size that is symbolic)
    owner: int
    owner_bytes: int  # of the whole memory block that stays alive
    source: str  # "leaf", "result" (of a recorded operator), "constant" or "packed"
    node: Node | None = None  # the operator whose result it is
    leaf: Tensor | None = None
    stale: bool = False  # changed in place since: reading it in backward is an error


def dtype_short(d: Any) -> str:
    """``f32``, ``i64``, ``b1``."""
    return getattr(d, "short", str(d))


def _array(name: str, d: np.ndarray, source: str, **more: Any) -> Kept:
    from ..dtypes import FROM_NUMPY

    root = root_array(d)
    return Kept(name, tuple(d.shape), dtype_short(FROM_NUMPY[d.dtype]), d.nbytes, id(root), root.nbytes, source, **more)


def _value(name: str, x: Any, version: Any, out: list[Kept]) -> None:
    """Append what ``x`` (a saved input, a list of them, a packed one) keeps."""
    if isinstance(x, Packed):
        _packed(name, x, out)
    elif isinstance(x, Tensor):
        source = "constant" if not x._rg else "leaf" if x._node is None else "result"
        stale = isinstance(version, int) and x._st is not None and x._st.version != version
        more: dict[str, Any] = {"node": x._node, "leaf": x if source == "leaf" else None, "stale": stale}
        if x._data is not None:
            out.append(_array(name, x._data, source, **more))
        else:
            m = x._g.meta
            out.append(Kept(name, tuple(m.shape), dtype_short(m.dtype), None, id(x), 0, source, **more))
    elif isinstance(x, np.ndarray):
        out.append(_array(name, x, "constant"))
    elif isinstance(x, (tuple, list)) and not isinstance(x, Meta):
        versions = version if isinstance(version, tuple) else (None,) * len(x)
        for i, item in enumerate(x):
            _value(f"{name}[{i}]", item, versions[i] if i < len(versions) else None, out)


def _packed(name: str, x: Packed, out: list[Kept]) -> None:
    v = x.value
    d = v._data if isinstance(v, Tensor) else v if isinstance(v, np.ndarray) else None
    if d is None:
        out.append(Kept(name, (), type(v).__name__, None, id(x), 0, "packed"))
    else:
        out.append(_array(name, d, "packed"))


def _result(name: str, kept: Any, node: Node, out: list[Kept]) -> None:
    """Append a saved result: (array or place in a graph, storage, version), or packed."""
    if kept is None:
        return
    if isinstance(kept, Packed):
        _packed(name, kept, out)
        return
    value, storage, version = kept
    if isinstance(value, np.ndarray):
        out.append(_array(name, value, "result", node=node, stale=storage.version != version))
    else:
        m = value.meta
        out.append(Kept(name, tuple(m.shape), dtype_short(m.dtype), None, id(value), 0, "result", node=node))


def kept_by(node: Node) -> list[Kept]:
    """What ``node`` keeps for its backward; empty once it was freed (but for attributes of a custom ``ctx``)."""
    out: list[Kept] = []
    if node.op is not None:
        if not node.freed:
            for p, s, v in zip(node.op.sig.tensors, node.saved, node.versions, strict=False):
                if s is not None and not isinstance(s, Meta):
                    _value(p.name, s, v, out)
            for i, kept in enumerate(node.out or ()):
                _result("result" if len(node.out) == 1 else f"result{i}", kept, node, out)
        return out
    for i, (how, x, v) in enumerate(getattr(node, "kept", ())):  # a custom Function
        if how == "out":
            _result(f"saved_tensors[{i}]", x, node, out)
        else:
            _value(f"saved_tensors[{i}]", x, v, out)
    if not node.freed:  # a compiled region: values for its backward, and its inputs for a differentiable one
        _value("value", getattr(node, "saved", None) or (), None, out)
        inputs: list[Kept] = []
        _value("input", getattr(node, "held", None) or (), None, inputs)
        known = {k.owner for k in out}
        out += [k for k in inputs if k.owner not in known]
    for key, x in getattr(node, "__dict__", {}).items():
        if not key.startswith("_"):
            _value(f"ctx.{key}", x, None, out)
    return out


def walk(roots: Iterable[Any]) -> list[Node]:
    """All nodes that lead to the tensors or nodes ``roots``, in the order in which they were recorded."""
    todo: list[Any] = [r if isinstance(r, Node) else r.grad_fn for r in roots]
    seen: dict[int, Node] = {}
    while todo:
        n = todo.pop()
        if n is None or n.seq in seen:
            continue
        seen[n.seq] = n
        todo += [e for e in n.edges if isinstance(e, Node) and e.seq not in seen]
    return [seen[s] for s in sorted(seen)]


def leaves_of(nodes: Iterable[Node]) -> list[Tensor]:
    """The leaves that the nodes pass gradients to, each once, in the order of their first use."""
    found: dict[int, Tensor] = {}
    for n in nodes:
        for e in n.edges:
            if isinstance(e, Tensor):
                found.setdefault(id(e), e)
    return list(found.values())


def memory(nodes: Iterable[Node]) -> tuple[int, int]:
    """(bytes that the nodes keep for backward, each block once; of leaves, which live anyway)."""
    nodes = list(nodes)
    leaves = {id(root_array(t._data)) for t in leaves_of(nodes) if t._data is not None}
    blocks: dict[int, int] = {}
    for n in nodes:
        for k in kept_by(n):
            blocks[k.owner] = k.owner_bytes
            if k.source == "leaf":
                leaves.add(k.owner)
    leaf = sum(size for owner, size in blocks.items() if owner in leaves)
    return sum(blocks.values()) - leaf, leaf


def results_memory(nodes: Iterable[Node], results: Iterable[Tensor]) -> int:
    """Bytes of the memory that results lie in, each block once, beyond what the nodes keep and what leaves lie in."""
    nodes = list(nodes)
    known = {k.owner for n in nodes for k in kept_by(n)}
    known |= {id(root_array(t._data)) for t in leaves_of(nodes) if t._data is not None}
    blocks = {id(r): r.nbytes for r in (root_array(t._data) for t in results if t._data is not None)}
    return sum(size for owner, size in blocks.items() if owner not in known)


def bytes_text(n: int | None) -> str:
    """``96 B``, ``1.5 KB``, ``2.0 MB``."""
    if n is None:
        return "? B"
    if n < 1024:
        return f"{n} B"
    value = float(n)
    for unit in ("KB", "MB", "GB", "TB"):
        value /= 1024
        if value < 1024 or unit == "TB":
            break
    return f"{value:.1f} {unit}"
