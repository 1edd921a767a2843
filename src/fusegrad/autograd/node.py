"""Nodes of the dynamic graph.

A node stands for one recorded operator call. ``edges[i]`` is where the gradient of its i-th tensor input goes: the
node that made that input, the leaf Tensor itself, or None; ``nrs[i]`` is the output number there. A node keeps what its
vjp rule names (``saved``, with the versions they had) and never its own output Tensor, so that graphs hold no
reference cycles; a saved output is kept as an array and made a Tensor again when it is read.
"""

from __future__ import annotations

import itertools
import weakref
from typing import Any, NamedTuple

from ..meta import Meta
from .modes import RUNNING, SLOW, STATE

next_seq = itertools.count(1).__next__


PLAIN = {type(None), bool, int, float, Meta}  # kept values that are not tensors


class Storage:
    """Shared by a tensor and its views: the version counts in-place changes. ``born`` is set while function transforms
    run (see ``mark_young``), ``moved`` when ``.data`` was last set or changed, ``written`` when it was changed, in the
    numbers of ``next_seq``; ``casts``: see ``leaf_dtype``; ``shared``: numpy may
    write to the memory."""

    __slots__ = ("version", "born", "moved", "written", "casts", "shared", "__weakref__")

    version: int  # set by ``new_storage``: a constructor in Python would take as long as an operator of numpy
    born: int
    moved: int
    written: int
    casts: list
    shared: bool


CAST: list = []  # not empty once some leaf got another dtype by ``.data``


def new_storage() -> Storage:
    """A storage that was never changed."""
    st = Storage()
    st.version = 0
    return st


def one_storage(a: Any, b: Any) -> bool:
    """Whether two storages stand for one memory: the same, or one is that of what ``.data`` gave."""
    if a is None or b is None or a is b:
        return a is b and a is not None
    while type(a) is not Storage:
        a = a.of
    while type(b) is not Storage:
        b = b.of
    return a is b


def mark_young(t: Any) -> None:
    """Note that ``t`` is made now, while a function transform runs: it may be changed in place there."""
    running = RUNNING[-1:]  # another thread may have ended the last one by now
    if running:
        st = t._st
        if st is None:
            st = t._st = new_storage()
        st.born = running[0]


def born(t: Any) -> int:
    """When ``t`` (or the base it is a view of) was made, in the numbers of ``next_seq``; 0 if nothing tells."""
    base = t if t._view is None else t._view.base
    node = base._node
    return max(getattr(base._st, "born", 0), 0 if node is None else node.seq)


class View:
    """How a view came from its base: the chain of (op, attrs, output number) and the version it was last tied at.

    ``made``: None for an ordinary view. Else in-place changes are refused where a graph is recorded, since the history
    of the base can't follow them: made in "no_grad" or "inference" mode, by a call that returns several views
    ("multi"), or inside a custom Function ("function").
    """

    __slots__ = ("base", "chain", "version", "made")

    base: Any
    chain: tuple
    version: int
    made: str | None

    def refusal(self, view: Any, indirect: bool) -> RuntimeError:
        """The error for a change of ``view`` (``indirect``: of its base or another view of that)."""
        from .view_errors import refusal  # only needed here

        return refusal(self, view, indirect)


def new_view(base: Any, chain: tuple, version: int, made: str | None = None) -> View:
    """A View with these fields."""
    v = View()
    v.base, v.chain, v.version, v.made = base, chain, version, made
    return v


def short_name(node: Any) -> str:
    """The name of a node without its namespace, as it is shown."""
    return node.name().rpartition("::")[2]


def forward_name(node: Any) -> str:
    """The name of the call that a node stands for: ``Mul`` for MulBackward0."""
    return short_name(node).partition("Backward")[0]


class Node:
    """A recorded call of a table operator.

    Made by ``new_node`` and by the generated functions: it has no constructor, which would take most of the time of
    making one. ``trace`` and ``metadata`` are set when there is something to say.
    """

    __slots__ = (
        "op",
        "edges",
        "nrs",
        "saved",
        "versions",
        "attrs",
        "out",
        "shape",
        "dtype",
        "seq",
        "hooks",
        "trace",
        "composite",
        "_metadata",
        "__weakref__",
    )
    n_out = 1
    straight: Any = None  # see ``straight.py``
    on_arrays: Any = None  # of nodes without ``op``: ``apply`` for arrays, giving arrays that fit the inputs

    op: Any
    edges: tuple
    nrs: tuple
    saved: Any  # None once it was freed
    versions: Any
    attrs: Any
    out: Any  # [(array, storage, version) per saved output] or None
    shape: Any
    dtype: Any
    seq: int
    hooks: Any
    trace: Any
    _metadata: dict

    @property
    def freed(self) -> bool:
        """Whether a backward pass dropped what was kept."""
        return self.saved is None

    def name(self) -> str:
        """PyTorch's style of name: ``MulBackward0``."""
        from .names import name_of  # only needed here

        return name_of(self)

    def seen(self) -> Node | None:
        """This node as users see it, in a class called by its name; None for one that PyTorch does not have."""
        from .dress import dress  # only needed here

        return dress(self)

    def apply(self, grads: list) -> Any:
        """Gradients of the inputs from those of the outputs (None where nothing flows)."""
        return self.op.backward(self, grads)

    def keeps(self) -> bool:
        """Whether a tensor (or a packed one) was kept, and not only numbers and Metas."""
        if self.out is not None:
            return True
        return any(type(s) not in PLAIN for s in self.saved)

    def free(self) -> None:
        """Drop what was kept for the vjp; a node that kept no tensor stays as it is and may run again."""
        if self.op is not None and (not self.op.frees or self.op.frees == 2 and not self.keeps()):
            return
        self.saved = self.versions = self.out = None

    def onward(self, nr: int, first: bool) -> Any:
        """Where a gradient of output ``nr`` (the ``first`` of any) goes, as (target, output number)."""
        return [(e, n) for e, n in zip(self.edges, self.nrs, strict=False) if e is not None] if first else ()

    def leads(self, engine: Any, nr: int) -> bool:
        """Whether output ``nr`` of a node that stands for several operators was computed from another one that is
        wanted."""
        return False

    def watches(self, ids: set[int]) -> bool:
        """Whether a node that stands for several operators must see a pass that asks for one of ``ids``."""
        return False

    def brings(self, engine: Any, given: set[int], nr: int) -> bool:
        """Whether hooks of output ``nr`` are called where the outputs ``given`` get a gradient."""
        return True

    def output_spec(self, nr: int) -> tuple[Any, Any]:
        """(shape, dtype) of output ``nr``."""
        return (self.shape[nr], self.dtype[nr]) if self.op.n_out != 1 else (self.shape, self.dtype)

    @property
    def next_functions(self) -> tuple:
        """((node, output number), ...): PyTorch's view of the edges, leaves as AccumulateGrad nodes.

        Operands that can't have a gradient (indices, masks) are left out; the last node of a function that is one node
        in PyTorch shows the operands of the function.
        """
        from .names import shown  # only needed here

        edges = shown(self) if self.composite is None or self.composite[1] is None else self.composite[1]
        return tuple(
            (None, 0)
            if e is None or type(e) is Severed
            else ((e.seen(), n) if isinstance(e, Node) else (accumulate_node(e), 0))
            for e, n in edges
        )

    @property
    def metadata(self) -> dict:
        if not hasattr(self, "_metadata"):
            self._metadata = {}
        return self._metadata

    def __repr__(self) -> str:
        return f"<{short_name(self)} object at {id(self):#x}>"

    def __getattr__(self, name: str) -> Any:
        """``_saved_self``, ``_saved_result``, ``_raw_saved_self``: what the node keeps, under PyTorch's names."""
        if name.startswith(("_saved_", "_raw_saved_")):
            from .saved import raw_saved_attribute, saved_attribute

            return saved_attribute(self, name[7:]) if name[1] == "s" else raw_saved_attribute(self, name[11:])
        if name == "trace" or name == "composite":  # never set
            return None
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __dir__(self) -> list[str]:
        from .saved import listed

        return [*super().__dir__(), *listed(self)]

    def _sequence_nr(self) -> int:
        """Nodes are numbered in the order in which they were recorded."""
        return self.seq

    def __call__(self, *grads: Any) -> Any:
        """Run this node alone: the gradients of its inputs from those of its outputs."""
        from .hook_calls import call_node

        out = call_node(self, grads)
        return out[0] if len(out) == 1 else out

    def register_hook(self, fn: Any) -> Any:
        """Call ``fn(grad_inputs, grad_outputs)`` after this node ran; it may return new grad_inputs."""
        from .handles import add_hook

        return add_hook(self._hook_lists()["post"], fn)

    def register_prehook(self, fn: Any) -> Any:
        """Call ``fn(grad_outputs)`` before this node runs; it may return new grad_outputs."""
        from .handles import add_hook

        return add_hook(self._hook_lists()["pre"], fn)

    def _hook_lists(self) -> dict:
        if self.hooks is None:
            self.hooks = {"pre": {}, "post": {}, "tensor": {}, "retain": {}}
        return self.hooks


def new_node(op: Any, edges: tuple, nrs: tuple, shape: Any, dtype: Any) -> Node:
    """A node that keeps nothing yet."""
    return _fill(Node(), op, edges, nrs, shape, dtype)


def _fill(node: Node, op: Any, edges: tuple, nrs: tuple, shape: Any, dtype: Any) -> Node:
    node.op, node.edges, node.nrs = op, edges, nrs
    node.saved = node.versions = ()
    node.attrs = node.out = node.hooks = None
    node.shape, node.dtype = shape, dtype
    node.seq = next_seq()
    return node


class CustomNode(Node):
    """A node with its own ``apply`` (custom Function, compiled region, in-place on a view)."""

    __slots__ = ("label", "outputs", "__dict__")

    def __init__(self, label: str, edges: tuple, nrs: tuple, outputs: list[tuple[Any, Any]]) -> None:
        _fill(self, None, edges, nrs, None, None)
        if SLOW[0] and (STATE.anomaly or STATE.lines):
            from .lines import trace_here  # rarely needed

            self.trace = trace_here()
        self.label = label
        self.outputs = outputs  # (shape, dtype) per output

    @property
    def n_out(self) -> int:  # type: ignore[override]
        return len(self.outputs)

    def name(self) -> str:
        return self.label

    def output_spec(self, nr: int) -> tuple[Any, Any]:
        return self.outputs[nr]

    def apply(self, grads: list) -> Any:
        raise NotImplementedError


class Severed(CustomNode):
    """Where the gradient of a view ends that the history of its base does not reach: made without grad mode, or before
    its base asked for a gradient. As in PyTorch, such a view says that it requires a gradient, and is a leaf."""

    __slots__ = ()

    def seen(self) -> None:
        return None

    def apply(self, grads: list) -> tuple:
        return ()


class AccumulateGrad:
    """Stands for a leaf in ``next_functions``; ``variable`` is the leaf.

    Its hooks and metadata live with the leaf.
    """

    __slots__ = ("variable", "__weakref__")

    def __init__(self, variable: Any) -> None:
        self.variable = variable

    next_functions: tuple = ()

    def name(self) -> str:
        return "fusegrad::autograd::AccumulateGrad"

    @property
    def metadata(self) -> dict:
        return self._at_leaf().setdefault("metadata", {})

    def _at_leaf(self) -> dict:
        from ..tensor import extra_of  # above this module

        extra = extra_of(self.variable)
        if extra.accumulator is None:
            extra.accumulator = {"pre": {}, "post": {}}
        return extra.accumulator

    def register_hook(self, fn: Any) -> Any:
        """Call ``fn(grad_inputs, grad_outputs)`` (the first is empty) after the gradient was accumulated."""
        from .handles import add_hook

        return add_hook(self._at_leaf()["post"], fn)

    def register_prehook(self, fn: Any) -> Any:
        """Call ``fn(grad_outputs)`` before the gradient is accumulated; it may return another."""
        from .handles import add_hook

        return add_hook(self._at_leaf()["pre"], fn)

    def __call__(self, grad: Any) -> tuple:
        """Accumulate ``grad`` into the leaf."""
        from .engine import accumulate  # above this module

        accumulate(self.variable, grad, STATE.grad)
        return ()

    def __repr__(self) -> str:
        return f"<AccumulateGrad object at {id(self):#x}>"


_accumulators: weakref.WeakValueDictionary[int, AccumulateGrad] = weakref.WeakValueDictionary()


def accumulate_node(leaf: Any) -> AccumulateGrad:
    """The AccumulateGrad of a leaf: the same object for as long as somebody holds it (and by that, the leaf)."""
    found = _accumulators.get(id(leaf))
    if found is None or found.variable is not leaf:
        found = _accumulators[id(leaf)] = AccumulateGrad(leaf)
    return found


class GradientEdge(NamedTuple):
    """Where a gradient arrives: a node and the number of its output."""

    node: Any
    output_nr: int
