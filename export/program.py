"""ExportedProgram: a whole graph with its constraints, its state, and what it accepts and returns."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from fusegrad.compiler.ir.graph import Graph

from fusegrad import dtypes
from fusegrad.sizes import SizeContext, SymInt, poly_of, range_text

if TYPE_CHECKING:
    from .module import ExportedModule

__all__ = ["DimRange", "ExportedProgram", "Leaf", "Output", "Param", "State"]


@dataclass(frozen=True)
class DimRange:
    """A varying size: its name, its bounds (max None: unbounded) and its value in the example."""

    name: str
    min: int
    max: int | None
    example: int


@dataclass(frozen=True)
class Param:
    """One argument. `kind`: "positional", "keyword" or "either"; `tree`: its nesting; `optional`: it has a default."""

    name: str
    kind: str
    optional: bool
    tree: Any


@dataclass(frozen=True)
class Leaf:
    """One leaf of the arguments, in order: a tensor (`input`: its number in the graph) or a value fixed at export."""

    path: str
    input: int | None = None
    fixed: Any = None


@dataclass(frozen=True)
class Output:
    """One leaf of the result: `kind` "value" (graph output number), "input" (argument), "size", "number", "fixed".

    `detached`: the result is not part of the history (it was detached, or computed under no_grad).
    """

    kind: str
    value: Any
    detached: bool = False


@dataclass(frozen=True)
class State:
    """One tensor of the state: `kind` "parameter", "buffer" or "constant"; `tensor` is the key of its data."""

    name: str
    kind: str
    tensor: str
    input: int | None
    requires_grad: bool = False
    persistent: bool = True


@dataclass
class ExportedProgram:
    """What `export` makes and `load` reads. Call it through `.module()`.

    Attributes:
        graph: the typed graph; its inputs are the tensor arguments, then the used state.
        dims: the varying sizes. params, leaves: what is accepted. tree, outputs: what is returned.
        state: parameters, buffers and constants; tensors: their data by key.
        stops: (node, argument) pairs through which no gradient flows (detach, no_grad).
        training: whether the module was in training mode.
        floats: input number -> expression tree, for number inputs that are computed from sizes.
        default_dtype: the default floating point type at export.
    """

    name: str
    graph: Graph
    ctx: SizeContext
    dims: list[DimRange]
    params: list[Param]
    leaves: list[Leaf]
    tree: Any
    outputs: list[Output]
    state: list[State]
    tensors: dict[str, np.ndarray]
    stops: set[tuple[int, int]] = field(default_factory=set)
    training: bool = False
    floats: dict[int, tuple] = field(default_factory=dict)
    default_dtype: dtypes.dtype = dtypes.float32

    @contextlib.contextmanager
    def numbers(self) -> Iterator[None]:
        """Python floats become what they became when the program was exported."""
        before = dtypes.get_default_dtype()
        if before is self.default_dtype:
            yield
            return
        dtypes.set_default_dtype(self.default_dtype)
        try:
            yield
        finally:
            dtypes.set_default_dtype(before)

    def module(self, *, compile: bool = True, options: Any = None) -> ExportedModule:
        """The program as an `nn.Module` with its own copy of the state.

        ``compile=False`` runs it by the reference interpreter on eager operators.
        """
        from .module import ExportedModule

        return ExportedModule(self, compile=compile, options=options)

    @property
    def state_dict(self) -> OrderedDict[str, Any]:
        """Parameters and persistent buffers by the names they had in the module (not constants)."""
        from fusegrad.tensor import wrap

        kept = (s for s in self.state if s.kind != "constant" and s.persistent)
        return OrderedDict((s.name, wrap(self.tensors[s.tensor].copy())) for s in kept)

    def named_parameters(self) -> Iterator[tuple[str, Any]]:
        """(name, value) of each parameter, as copies."""
        trained = {s.name for s in self.state if s.kind == "parameter"}
        return ((n, t) for n, t in self.state_dict.items() if n in trained)

    def named_buffers(self) -> Iterator[tuple[str, Any]]:
        """(name, value) of each persistent buffer, as copies."""
        kept = {s.name for s in self.state if s.kind == "buffer"}
        return ((n, t) for n, t in self.state_dict.items() if n in kept)

    @property
    def constants(self) -> OrderedDict[str, Any]:
        """Tensors that travel with the program without being parameters or persistent buffers."""
        from fusegrad.tensor import wrap

        kept = (s for s in self.state if s.kind == "constant" or not s.persistent)
        return OrderedDict((s.name, wrap(self.tensors[s.tensor].copy())) for s in kept)

    @property
    def range_constraints(self) -> dict[str, tuple[int, int | None]]:
        """Bounds of each varying size."""
        return {d.name: (d.min, d.max) for d in self.dims}

    def load_state_dict(self, state: Any) -> None:
        """Take the values of a state_dict, such as a trained module's. ValueError if one does not fit."""
        by_name = {s.name: s for s in self.state if s.kind != "constant"}
        for name, value in state.items():
            if name not in by_name:
                raise ValueError(f"load_state_dict: the program has no parameter or buffer {name!r}")
            old = self.tensors[by_name[name].tensor]
            new = value.detach().numpy()
            if new.shape != old.shape or new.dtype != old.dtype:
                has, needs = f"{new.dtype}{list(new.shape)}", f"{old.dtype}{list(old.shape)}"
                raise ValueError(f"load_state_dict: {name} is {has}, the program has {needs}")
            self.tensors[by_name[name].tensor] = new.copy()

    # ---- text ----
    def signature_text(self) -> str:
        """`forward(x: f32[batch, 3], k = 2) where batch in 2..16`."""
        from .text import tree_text

        texts = iter([self._leaf_text(leaf) for leaf in self.leaves])
        parts = []
        for p in self.params:
            if p.kind == "keyword" and "*" not in parts:
                parts.append("*")
            text = tree_text(p.tree, texts)
            parts.append(f"{p.name} {text}" if text.startswith("=") else f"{p.name}: {text}")
        where = ", ".join(f"{d.name} in {range_text(d.min, d.max)}" for d in self.dims)
        return f"{self.name}({', '.join(parts)})" + (f" where {where}" if where else "")

    def _leaf_text(self, leaf: Leaf) -> str:
        if leaf.input is None:
            return f"= {leaf.fixed!r}"
        meta = self.graph.inputs[leaf.input].meta
        return f"{meta.dtype.short}[{', '.join(map(str, meta.shape))}]"

    def __str__(self) -> str:
        from .text import inspect_text

        return inspect_text(self)

    def __repr__(self) -> str:
        return f"<ExportedProgram {self.signature_text()}: {len(self.graph.nodes)} nodes>"

    def __reduce__(self) -> tuple:
        """Pickled and copied as the bytes of its file."""
        from . import to_bytes

        return _from_bytes, (to_bytes(self),)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("an ExportedProgram is not callable; call program.module()(...)")


def _from_bytes(data: bytes) -> ExportedProgram:
    import io

    from . import load

    return load(io.BytesIO(data))


def size_text(size: Any) -> Any:
    """A size as it stands in files: an int or an expression."""
    return str(poly_of(size)) if isinstance(size, SymInt) else int(size)
