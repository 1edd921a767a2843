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
    if now - version > 1 << 39:
        raise RuntimeError(
            f"Trying to use a saved tensor that has been detached in-place, i.e. with .detach_(): it is {what} of "
            f"{node.name()}. Use the out-of-place .detach() instead."
        )
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


def call_pack(pack: Any, t: Any) -> Any:
    """What the pack hook makes of ``t``. RuntimeError if it changed ``t`` in place."""
    before = 0 if t._st is None else t._st.version
    value = pack(t)
    if t._st is not None and t._st.version != before:
        raise RuntimeError(
            "A saved tensor pack hook is modifying its input in place, which would change the values of the graph. "
            "Work on a clone() of the tensor in the hook."
        )
    return value


def packed(t: Any, hooks: tuple) -> Packed:
    """A saved input in the keeping of the hooks. The tape holds the node or leaf of its history anyway."""
    return Packed(call_pack(hooks[0], t), hooks[1], (t._node if t._node is not None else t, t._nr) if t._rg else None)


def tied(t: Any, target: Any, nr: int) -> Any:
    """An unpacked tensor with the history that it had when it was saved."""
    from ..tensor import alias
    from .node import CustomNode

    if t is target or t._rg and t._node is target and t._nr == nr:
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
                node.out[i] = Packed(call_pack(pack, unpack_out(node, kept, i)), unpack_hook)


def unpack(node: Node | None, s: Any, version: Any) -> Any:
    """A saved input as it was; RuntimeError if it was changed in place. Packed ones need no ``node``."""
    if isinstance(s, Packed):
        from ..tensor import Tensor

        t = s.unpack(s.value)
        if not isinstance(t, Tensor):
            raise TypeError(f"the unpack hook must return a Tensor, got {type(t).__name__}")
        if s.tie is None:  # what the hooks computed is not part of the graph
            return t.detach() if t._rg else t
        return tied(t, *s.tie)
    if isinstance(s, tuple):
        return tuple(unpack(node, t, v) for t, v in zip(s, version, strict=True))
    st = getattr(s, "_st", None)
    if node is not None and st is not None and st.version != version:
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


_FIXED = {("square", "exponent"): 2}  # attributes that PyTorch's more general operator would have


_REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}  # PyTorch's numbers
_INDICES = {"indices": "result1"}
_OTHER_NAMES: dict[str, dict[str, str]] = {  # PyTorch's names, where they are not those of the operator's parameters
    **dict.fromkeys(("MmBackward0", "BmmBackward0"), {"mat2": "other"}),
    "MvBackward0": {"vec": "other"},
    "DotBackward0": {"tensor": "other"},
    **dict.fromkeys(
        ("NativeLayerNormBackward0", "NativeBatchNormBackward0", "ConvolutionBackward0"), {"input": "self"}
    ),
    "EmbeddingBackward0": {"indices": "input"},
    "WhereBackward0": {"condition": "self"},
    **dict.fromkeys(("MaxBackward0", "MinBackward0", "TopkBackward0", "SortBackward0", "KthvalueBackward0"), _INDICES),
    **dict.fromkeys(("ModeBackward0", "CummaxBackward0", "CumminBackward0"), _INDICES),
}


def _sizes(node: Node, name: str) -> tuple | None:
    """The sizes of an input, as a node of the table knows them."""
    params = [p.name for p in node.op.sig.tensors]
    name = _OTHER_NAMES.get(node.name(), {}).get(name, name)
    at = 0 if name == "self" else params.index(name) if name in params else -1
    if not 0 <= at < len(node.edges) or node.edges[at] is None:
        return None
    e = node.edges[at]
    return tuple(e.output_spec(node.nrs[at])[0] if isinstance(e, Node) else e.shape)


def _place(node: Node, name: str) -> tuple[str, Any]:
    """Where ``_saved_<name>`` is: ("attr", value), ("out", number) or ("in", position).

    ``self`` is the first input, ``result`` an output. AttributeError for a name that the rules of the operator do not
    use.
    """
    op = node.op
    if op is None:
        if node.attrs and name in node.attrs:
            return "attr", node.attrs[name]
        raise AttributeError(f"{node.name()!r} object has no attribute '_saved_{name}'")
    if name.endswith("_sym_sizes") and all(p.type != "T[]" for p in op.sig.tensors):
        sizes = _sizes(node, name[:-10])
        if sizes is not None:
            return "attr", sizes
    name = _OTHER_NAMES.get(node.name(), {}).get(name, name)
    rules = {n for r in op.rules.values() for n in r.names}
    params = [p.name for p in op.sig.tensors]
    key = params[0] if name == "self" and params and "self" not in params else name
    out = {"result": 0, "out": 0}.get(name, int(name[6:]) if name[:6] == "result" and name[6:].isdigit() else None)
    if out is not None and ({f"out{out}"} | ({"out"} if out == 0 else set())) & rules:
        return "out", out
    if node.attrs is not None and key in node.attrs and key in rules:
        return "attr", node.attrs[key]
    if key in params and key in rules:
        return "in", params.index(key)
    if (op.name, name) in _FIXED:
        return "attr", _FIXED[op.name, name]
    raise AttributeError(f"{node.name()!r} object has no attribute '_saved_{name}': it saves nothing under that name")


def saved_names(node: Node) -> list[str]:
    """The names under which ``node`` keeps something: what follows ``_saved_`` and ``_raw_saved_``."""
    op = node.op
    if op is None:
        return list(node.attrs or ())
    rules = {n for r in op.rules.values() for n in r.names}
    params = [p.name for p in op.sig.tensors]
    names = ["self" if i == 0 else p for i, p in enumerate(params) if p in rules]
    outs = [n[3:] for n in rules if n == "out" or n[:3] == "out" and n[3:].isdigit()]
    names += sorted("result" + n for n in outs)
    names += [a.name for a in op.sig.attrs if a.name in rules and node.attrs and a.name in node.attrs]
    shown = {ours: theirs for theirs, ours in _OTHER_NAMES.get(node.name(), {}).items()}
    return [shown.get(n, n) for n in names]


def listed(node: Node) -> list[str]:
    """What ``dir(node)`` shows of it: ``_saved_`` names, and ``_raw_saved_`` names of tensors."""
    names = saved_names(node)
    raw = [n for n in names if node.op is None or _place(node, n)[0] != "attr"]
    return [*(f"_saved_{n}" for n in names), *(f"_raw_saved_{n}" for n in raw)]


def saved_attribute(node: Node, name: str) -> Any:
    """``node._saved_<name>``: a saved input, a saved result, or a static attribute.

    RuntimeError after the node was freed; None where this call had no need to keep it; AttributeError for a name that
    the rules of the operator do not use.
    """
    kind, at = _place(node, name)
    if kind == "attr":
        return _REDUCTIONS.get(at, at) if name == "reduction" else at
    if node.freed:
        raise freed_error()
    if kind == "out":
        kept = node.out[at] if node.out is not None else None
        return None if kept is None else unpack_out(node, kept, at)
    s = node.saved[at]
    return None if s is None or isinstance(s, Meta) else unpack(node, s, node.versions[at])


def raw_saved_attribute(node: Node, name: str) -> Any:
    """``node._raw_saved_<name>``: the `SavedTensor` of a saved input or result (a list of them for several).

    AttributeError for other names, and for what is no tensor.
    """
    if node.op is None and name == "tensors" and hasattr(node, "kept"):  # a custom Function
        if node.freed:
            raise freed_error()
        return tuple(SavedTensor(node, "kept", i) for i in range(len(node.kept)))
    kind, at = _place(node, name)
    if kind == "attr":
        raise AttributeError(f"{node.name()!r} object has no attribute '_raw_saved_{name}': it is no tensor")
    if kind == "in" and not node.freed and isinstance(node.saved[at], tuple):
        return [SavedTensor(node, kind, at, i) for i in range(len(node.saved[at]))]
    return SavedTensor(node, kind, at)


class SavedTensor:
    """A tensor in the keeping of a node, before it is unpacked. ``register_hooks`` packs it elsewhere."""

    __slots__ = ("_node", "_kind", "_at", "_part")

    def __init__(self, node: Node, kind: str, at: int, part: int | None = None) -> None:
        self._node, self._kind, self._at, self._part = node, kind, at, part

    def register_hooks(self, pack_hook: Any, unpack_hook: Any) -> None:
        """Keep ``pack_hook(tensor)`` instead; ``unpack_hook`` of that is what backward uses.

        RuntimeError once the graph was freed, where nothing was kept, or if there are hooks already; TypeError if a
        hook can't be called.
        """
        if not callable(pack_hook) or not callable(unpack_hook):
            raise TypeError("register_hooks(pack_hook, unpack_hook): both must be callable")
        node = self._node
        if node.freed:
            raise RuntimeError(f"Calling register_hooks on a saved tensor after it has been freed. {freed_error()}")
        kept, version = self._kept()
        if kept is None or isinstance(kept, (Meta, bool, int, float)):
            raise RuntimeError("Calling register_hooks on a saved tensor with value None is forbidden.")
        if isinstance(kept, Packed):
            raise RuntimeError(
                "Calling register_hooks on a saved tensor whose hooks have already been set. Hint: only one pair of "
                "hooks is allowed at a time."
            )
        hooks = (pack_hook, unpack_hook)
        if self._is_output():
            nr = self._at if self._kind == "out" else version
            self._keep(Packed(call_pack(pack_hook, unpack_out(node, kept, nr)), unpack_hook))
        else:
            self._keep(packed(unpack(node, kept, version), hooks))

    @property
    def data(self) -> Any:
        """What is kept: the tensor (of a result: its value alone), or what the pack hook made of it."""
        kept, version = self._kept()
        if isinstance(kept, Packed):
            return kept.value
        if self._is_output():
            return unpack_out(self._node, kept, self._at if self._kind == "out" else version).detach()
        return unpack(self._node, kept, version)

    @property
    def unpack_hook(self) -> Any:
        """The hook that reads it back; None without hooks."""
        kept = self._kept()[0]
        return kept.unpack if isinstance(kept, Packed) else None

    def _is_output(self) -> bool:
        return self._kind == "out" or self._kind == "kept" and self._node.kept[self._at][0] == "out"  # type: ignore[attr-defined]

    def _kept(self) -> tuple[Any, Any]:
        """What is kept, and its version (of a Function's output: its number)."""
        node, at = self._node, self._at
        if self._kind == "kept":
            return node.kept[at][1:]  # type: ignore[attr-defined]
        if self._kind == "out":
            return (None if node.out is None else node.out[at]), 0
        if self._part is not None:
            return node.saved[at][self._part], node.versions[at][self._part]
        return node.saved[at], node.versions[at]

    def _keep(self, new: Packed) -> None:
        node, at = self._node, self._at
        if self._kind == "kept":
            how, _, version = node.kept[at]  # type: ignore[attr-defined]
            node.kept[at] = (how, new, version)  # type: ignore[attr-defined]
        elif self._kind == "out":
            node.out = [new if i == at else k for i, k in enumerate(node.out)]
        else:
            saved = list(node.saved)
            part = self._part
            saved[at] = new if part is None else tuple(new if i == part else s for i, s in enumerate(saved[at]))
            node.saved = tuple(saved)
