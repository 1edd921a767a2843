"""Which values of a graph are computed on their own: roots and their stages.

Every node is *folded* (its elements are expressions inside somebody else's loops), a *reduction*, or *extern* (a call
of the operator's eager kernel). A root is a value that needs a loop of its own: results of the graph, arguments of
extern calls, reductions, and folded values for which computing them again in each reader would cost more than keeping
them.  A ``Stage`` is the loop of one root: its iteration space and what it reads, element by element. Whether stages
share loops (and whether a root is ever stored) is decided later, by ``fuse``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from fusegrad import dtypes
from fusegrad.native.scalar import Builder, Expr, UnsupportedScalar, make, walk
from fusegrad.ops._shapes import axes_of
from fusegrad.sizes import hint_of

from ..ir.graph import Graph, Node, Value
from . import gathers, views
from .affine import ZERO, Ix, NeedSplit, Space, counter, product
from .joins import is_join
from .memory import dense_order
from .values import Evaluator, Index, NeedRoot, NotLowerable, number_type, size_text

__all__ = ["Analysis", "Stage", "analyse", "reduction_of"]

PAIRS = {"max_dim": ("max", "argmax"), "min_dim": ("min", "argmin")}
MAX_DEPTH = 40  # operators in a row inside one expression (bounds recursion)
MAX_COST = 300  # weight of one expression
COSTS = {
    **dict.fromkeys("add sub mul neg abs maximum minimum cast where lt le gt ge eq ne and_ or_ xor not_".split(), 1),
    **dict.fromkeys("index load const size scalar acc".split(), 1),
    **dict.fromkeys("div reciprocal sqrt rsqrt floordiv mod fmod trunc_div".split(), 5),
    **dict.fromkeys("exp exp2 expm1 log log2 log10 log1p sin cos tanh sigmoid".split(), 12),
    **dict.fromkeys("erfcx erfinv ndtr ndtri log_ndtr i0 i0e i1 i1e".split(), 50),
    **dict.fromkeys("pow erf erfc gelu lgamma digamma tan asin acos atan atan2 sinh cosh random_word".split(), 25),
}  # fmt: skip
LARGE = 1 << 16  # elements that don't stay in a fast cache
FREE = ("const", "index", "size", "scalar", "acc")


def _cost(nodes: Sequence[Expr]) -> int:
    """Rough operations of one element. Conditions on indices alone are free: they hold in nearly all of a loop (see
    ``native/llvm_ranges.py``).
    """
    places: set[Expr] = set()
    total = 0
    for e in nodes:  # arguments first
        if e.op in ("index", "const", "size") or e.args and all(a in places for a in e.args):
            places.add(e)
            if e.op in ("lt", "le", "gt", "ge", "and_"):
                continue
        if e.op not in FREE:
            total += COSTS.get(e.op, 4)
    return total


@dataclass(eq=False)
class Stage:
    """The loop of one root.

    ``index``: where the root's element lies, by the axes of ``space``. ``inner``: axes that are reduced (empty: an
    elementwise stage). ``scan``: the direction of a running reduction, which has an element for each that it
    reads, or 0. ``source``: index into the reduction's input. ``reads``: the leaves it reads and where;
    ``ignored``: leaves whose elements turn out not to matter.
    """

    number: int
    value: Value
    space: Space
    index: Index
    combine: str | None = None
    scan: int = 0
    source: Index = ()
    outer: list[int] = field(default_factory=list)
    inner: list[int] = field(default_factory=list)
    reads: list[tuple[Value, Index]] = field(default_factory=list)
    ignored: set[Value] = field(default_factory=set)
    cost: int = 0
    checks: bool = False  # some index is checked when it runs

    @property
    def node(self) -> Node:
        """The node that makes the value (inputs have no stage)."""
        assert self.value.node is not None
        return self.value.node

    @property
    def name(self) -> str:
        return f"{self.value.node.op.name if self.value.node is not None else self.value.name}#{self.number}"

    @property
    def points(self) -> int:
        return int(product([hint_of(s) for s in self.space.sizes]))


@dataclass
class Analysis:
    """The graph cut into stages and extern calls, in an order that respects their dependences."""

    graph: Graph
    kinds: dict[Node, str]
    stages: dict[Value, Stage]  # by root
    steps: list[Any]  # Stage | Node (extern), topologically ordered
    arrays: dict[Value, tuple[Value, list[Node]]]  # array argument or result -> (value in memory, views to apply to it)


def reduction_of(node: Node, out: int = 0) -> str | None:
    """How output ``out`` of a node is combined, or None."""
    if node.op.name in PAIRS:
        return PAIRS[node.op.name][out]
    how = node.op.reduce or node.op.scan
    return how.combine if how is not None else None


def reduced_axes(node: Node) -> tuple[int, ...]:
    """The input dimensions that a reduction runs over, in order."""
    n = len(node.args[0].meta.shape)
    dim: Any = node.attrs.get("dim")
    if node.op.scan is not None:
        return (dim % n,)
    if dim == () and node.op.name in ("all", "any"):
        return ()
    axes = axes_of(n, dim)
    return tuple(range(n)) if axes is None else tuple(sorted(a % n for a in axes))


class _Analyser:
    def __init__(self, graph: Graph, fold: bool, banned: set[str]) -> None:
        self.graph, self.fold, self.banned = graph, fold, banned
        self.kinds: dict[Node, str] = {}
        self.roots: dict[Value, None] = {}  # in order of discovery
        self.arrays: dict[Value, tuple[Value, list[Node]]] = {}
        self.weight: dict[Value, tuple[int, int, int]] = {}  # folded value -> (cost, large loads, depth)
        self.bases: dict[Value, frozenset[Value]] = {}  # folded value -> the large arrays that it is computed from
        self.users = graph.users()

    # -- what can be folded -------------------------------------------------------------------------
    def classify(self) -> None:
        for node in self.graph.nodes:
            self.kinds[node] = self.kind(node)

    def kind(self, node: Node) -> str:
        if is_join(node):
            return "join"
        if any(v.meta.weak for v in node.outputs):
            return "fold" if node.op.scalar is not None and self.can_fold(node) else "extern"
        if views.has_rule(node.op):
            return "fold"
        if node.op.reduce is not None or node.op.name in PAIRS:
            return "reduce" if self.can_reduce(node) else "extern"
        if node.op.scan is not None:
            return "scan" if can_scan(node) else "extern"
        if node.op.name in ("scatter", "scatter_add", "scatter_value") and not gathers.can_scatter(node):
            return "extern"
        return "fold" if self.can_fold(node) else "extern"

    def can_fold(self, node: Node) -> bool:
        if node.op.scalar is None and node.op.name not in gathers.RULES:
            return False
        value = node.outputs[0]
        space, index = _axes_of(value.meta.shape)
        try:
            expr = _Probe(space, lambda v: None if v is value else "root").compute(value, index)
        except (NotLowerable, UnsupportedScalar, NotImplementedError, TypeError, AttributeError, KeyError, IndexError):
            return False
        nodes = walk([expr])
        if self.banned and any(f"{e.op} of {e.dtype.name}" in self.banned for e in nodes):
            return False
        self.weight[value] = (_cost(nodes), 0, 0)
        return True

    def can_reduce(self, node: Node) -> bool:
        arg = node.args[0]
        if not isinstance(arg, Value) or arg.meta.weak:
            return False
        if reduction_of(node) in ("max", "min", "argmax", "argmin"):
            shape = arg.meta.shape
            return all(shape[a] != 0 for a in reduced_axes(node) if type(shape[a]) is int)
        return True

    # -- what is a root -----------------------------------------------------------------------------
    def find_roots(self) -> None:
        for node in self.graph.nodes:
            kind = self.kinds[node]
            if kind == "extern":
                for value in node.inputs():
                    self.need_array(value)
            elif kind == "join":
                for value in node.inputs():
                    self.roots[value] = None
            elif kind in ("reduce", "scan"):
                for value in node.outputs:
                    self.roots[value] = None
            else:
                self.weigh(node)
        for value in self.graph.results():
            self.need_array(value, result=True)

    def need_array(self, value: Value, result: bool = False) -> None:
        """``value`` must exist as an array: itself, or as numpy views of a value in memory."""
        if value in self.arrays or (value.meta.weak and value.node is None):
            return
        base, chain = self.strip(value, lambda node: True)
        if not (self.in_memory(base) and not result):
            base, chain = self.strip(value, lambda node: views.is_rearrangement(node.op))
            if result and base.node is None and chain:
                base, chain = value, []  # a view of an input is copied: results never share memory with inputs
        self.arrays[value] = (base, chain)
        if not self.in_memory(base):
            self.roots[base] = None

    def strip(self, value: Value, allowed: Callable[[Node], bool]) -> tuple[Value, list[Node]]:
        """What lies below the views on ``value``, and those views, innermost first."""
        chain: list[Node] = []
        while (
            value.node is not None and self.is_view(value.node) and allowed(value.node) and len(value.node.outputs) == 1
        ):
            chain.append(value.node)
            value = value.node.args[0]
        return value, chain[::-1]

    def is_view(self, node: Node) -> bool:
        return views.has_rule(node.op) and self.kinds[node] == "fold"

    def in_memory(self, value: Value) -> bool:
        return value.node is None or self.kinds[value.node] in ("extern", "join")

    def weigh(self, node: Node) -> None:
        """Decide whether folding ``node`` into its readers is cheaper than keeping its value."""
        for value in node.outputs:
            own = self.weight.get(value, (0, 0, 0))[0]
            cost, loads, depth = own, 0, 1
            bases: frozenset[Value] = frozenset()
            for arg in node.inputs():
                leaf = self.is_leaf(arg)
                bases |= (
                    frozenset((arg,) if _size(arg) * 4 >= _size(value) else ())
                    if leaf
                    else self.bases.get(arg, frozenset())
                )
                c, n, d = (
                    (0, 1 if _size(arg) * 4 >= _size(value) else 0, 0) if leaf else self.weight.get(arg, (0, 0, 0))
                )
                cost, loads, depth = cost + c, loads + n, max(depth, d + 1)
            self.weight[value] = (cost, loads, depth)
            self.bases[value] = bases
            if not views.has_rule(node.op) and (not self.fold or self.keep(value, cost, loads, depth)):
                self.roots[value] = None

    def is_leaf(self, value: Value) -> bool:
        node = value.node
        return (
            node is None
            or self.kinds[node] in ("extern", "join")
            or (value in self.roots and not views.has_rule(node.op))
        )

    def held(self, value: Value) -> str | None:
        """See Evaluator.held."""
        node = value.node
        if node is None:
            return "strided" if value.meta.strides is not None else None if value.meta.weak else "input"
        if self.kinds[node] in ("extern", "join"):
            return "input"
        if not self.is_leaf(value):
            return None
        return "root" if dense_order(value.meta) is None else "strided"

    def keep(self, value: Value, cost: int, loads: int, depth: int) -> bool:
        if depth >= MAX_DEPTH or cost >= MAX_COST:
            return True
        readers = self.readers(value)
        if not readers or loads == 0 and cost < 60 and self.never_read(value):
            return False
        size = _size(value)
        if size <= 1 and cost < 60:
            return False  # computed once a loop, outside of it
        if len(readers) > 1:  # two loads instead of one, for up to three readers, are less than a store and the loads
            again = len(readers) <= 3 and size >= LARGE and value.meta.dtype.itemsize >= 4
            return cost > 4 or (len(self.bases[value]) > 2 if again else loads > 1)
        if self.kinds.get(readers[0]) == "scan" and reduced_axes(readers[0]) == (
            len(readers[0].args[0].meta.shape) - 1,
        ):
            return cost > 4  # loops in a given order have no vectors
        return (
            cost >= 8 and size > 1 and _size(readers[0].outputs[0]) >= 2 * size and self.kinds.get(readers[0]) == "fold"
        )

    def never_read(self, value: Value) -> bool:
        """Made of constants and indices alone."""
        node = value.node
        return node is not None and not any(True for _ in node.inputs()) and node.op.kind == "create"

    def readers(self, value: Value) -> list[Node]:
        """Distinct nodes that compute with ``value``, seen through views."""
        found: dict[Node, None] = {}
        todo = [value]
        while todo:
            for node in self.users.get(todo.pop(), ()):
                if self.is_view(node):
                    todo.extend(node.outputs)
                else:
                    found[node] = None
        return list(found)

    # -- stages -------------------------------------------------------------------------------------
    def stages(self) -> tuple[dict[Value, Stage], list[Any]]:
        order = {node: i for i, node in enumerate(self.graph.nodes)}
        while True:
            made: dict[Value, Stage] = {}
            try:
                for value in self.roots:
                    made[value] = self.stage(value, len(made))
                break
            except NeedRoot as need:
                if need.value in self.roots:
                    raise NotLowerable(f"{need.value!r} cannot be kept") from None
                self.roots[need.value] = None
        steps = [(-1 if v.node is None else order[v.node], stage) for v, stage in made.items()]
        steps += [(order[node], node) for node, kind in self.kinds.items() if kind in ("extern", "join")]
        steps.sort(key=lambda s: s[0])
        return made, [s[1] for s in steps]

    def stage(self, value: Value, number: int) -> Stage:
        node = value.node
        if node is not None and self.kinds[node] in ("reduce", "scan"):
            return _reduce_stage(value, number, self.held)
        return _plain_stage(value, number, self.held)


def _size(value: Value) -> int:
    return int(product([hint_of(s) for s in value.meta.shape]))


def analyse(graph: Graph, fold: bool = True, banned: set[str] = frozenset()) -> Analysis:  # type: ignore[assignment]
    """Cut a graph into stages and extern calls.

    ``fold=False``: every operator on its own. ``banned``: scalar operators ("exp of float32") that the printer cannot
    express.
    """
    a = _Analyser(graph, fold, banned)
    a.classify()
    a.find_roots()
    stages, steps = a.stages()
    return Analysis(graph, a.kinds, stages, _live(graph, a, stages, steps), a.arrays)


def _live(graph: Graph, a: _Analyser, stages: dict[Value, Stage], steps: list[Any]) -> list[Any]:
    """Only what results depend on, walking backwards."""
    wanted = {a.arrays[v][0] for v in graph.results() if v in a.arrays}
    kept = []
    for step in reversed(steps):
        if isinstance(step, Stage):
            if step.value not in wanted:
                del stages[step.value]
                continue
            wanted.update(v for v, _ in step.reads)
        else:
            if not any(v in wanted for v in step.outputs):
                continue
            wanted.update(read_by(step, a.arrays))
        kept.append(step)
    return kept[::-1]


def read_by(node: Node, arrays: dict[Value, tuple[Value, list[Node]]]) -> list[Value]:
    """The values in memory that a library call or a join reads."""
    if is_join(node):
        return list(node.inputs())
    return [arrays[v][0] for v in node.inputs() if v in arrays]


# ---- iteration spaces


def _axes_of(shape: Sequence[Any]) -> tuple[Space, Index]:
    space = Space()
    index = tuple(ZERO if type(s) is int and s == 1 else counter(space.add(s)) for s in shape)
    return space, index


class _Probe(Evaluator):
    """An evaluator whose leaves are opaque and recorded."""

    def __init__(self, space: Space, held: Callable[[Value], str | None], but: Value | None = None) -> None:
        self.reads: dict[tuple[Value, Index], Expr] = {}

        def answer(value: Value, index: Index) -> Expr | None:
            if value is but or held(value) is None:
                return None
            key = (value, index)
            if key not in self.reads:
                self.reads[key] = make("scalar", (), value.meta.dtype, f"read{len(self.reads)}")
            return self.reads[key]

        def scalar(value: Value) -> Expr:
            return make("scalar", (), number_type(value), value.name)

        loops = [f"i{k}" for k in range(len(space.sizes) + 1)]
        super().__init__(
            space, loops, answer, lambda v: None if v is but else held(v), scalar, lambda text: 1, Builder().scalar
        )


def _weigh(stage: Stage, expr: Expr, probe: _Probe) -> None:
    """Note the weight of a stage, the leaves it really uses, and those it only asks for (``zeros_like(x)`` asks for
    x).
    """
    by_name = {e.attr: key for key, e in probe.reads.items()}
    nodes: dict[Expr, None] = {}
    reads: dict[tuple[Value, Index], None] = {}
    todo = [expr]
    while todo:  # an index may itself be computed from reads
        for e in walk([todo.pop()]):
            if e in nodes:
                continue
            nodes[e] = None
            key = by_name.get(e.attr) if e.op == "scalar" else None
            if key is not None and key not in reads:
                reads[key] = None
                todo += [x for ix in key[1] for x, _ in ix.dyn]
    stage.reads = list(reads)
    stage.ignored = {v for v, _ in probe.reads} - {v for v, _ in reads}
    stage.cost = sum(COSTS.get(e.op, 4) for e in nodes) + (stage.combine is not None)
    stage.checks = any(e.op == "check" for e in nodes)


def _split_axes(shape: Sequence[Any], run: Callable[[Space, Index, list[list[int]]], Any]) -> Any:
    """Call ``run(space, index, axes of each dimension)``, splitting loop counters as it asks by NeedSplit."""
    factors: list[list[Any]] = [[] if type(s) is int and s == 1 else [s] for s in shape]
    for attempt in range(40):
        space = Space()
        space.splits = attempt < 32
        index, axes = [], []
        for sizes in factors:
            mine = [space.add(s) for s in sizes]
            ix, step = ZERO, 1
            for axis in reversed(mine):
                ix = ix + counter(axis).scale(step)
                step = step * space.sizes[axis]
            index.append(ix)
            axes.append(mine)
        try:
            return run(space, tuple(index), axes)
        except NeedSplit as need:
            _split(factors, axes, need)
    raise NotLowerable("too many loop splits")


def _split(factors: list[list[Any]], axes: list[list[int]], need: NeedSplit) -> None:
    from .affine import exact_quotient

    for sizes, mine in zip(factors, axes, strict=True):
        if need.axis in mine:
            k = mine.index(need.axis)
            sizes[k : k + 1] = [exact_quotient(sizes[k], need.inner), need.inner]
            return


def _plain_stage(value: Value, number: int, held: Callable[[Value], str | None]) -> Stage:
    def run(space: Space, index: Index, axes: list[list[int]]) -> Stage:
        probe = _Probe(space, held, value)
        expr = probe.compute(value, index)
        stage = Stage(number, value, space, index, outer=list(range(len(space.sizes))))
        _weigh(stage, expr, probe)
        return stage

    return _split_axes(value.meta.shape, run)


def can_scan(node: Node) -> bool:
    """Whether a running reduction can be a loop: along a dimension of not just one element, not in float16."""
    if not all(isinstance(a, Value) and not a.meta.weak and a.meta.shape for a in node.args):
        return False
    length = node.args[0].meta.shape[reduced_axes(node)[0]]
    return not (type(length) is int and length == 1) and node.outputs[0].meta.dtype is not dtypes.float16


def scan_operands(ev: Evaluator, node: Node, index: Index) -> tuple[Expr, Expr | None]:
    """What is combined at an element, and the factor of a linear recurrence."""
    how = node.op.scan
    assert how is not None
    if how.combine != "linear":
        return ev.value(node.args[0], index), None
    factors, x = node.args
    d = reduced_axes(node)[0]
    if not how.down:  # the first factor is not used: an infinite one times the zero before it would be NaN
        inside = ev.b.lt(ev.b.size("0"), ev.index_expr(index[d]))
        return ev.value(x, index), ev.under(inside, factors, index)
    last = ev.b.size(size_text(factors.meta.shape[d] - 1))
    inside = ev.b.lt(ev.index_expr(index[d]), last)
    before = tuple(ix + 1 if k == d else ix for k, ix in enumerate(index))
    return ev.value(x, index), ev.under(inside, factors, before)


def _scan_stage(value: Value, number: int, probe: _Probe, index: Index, axes: list[list[int]]) -> Stage:
    node = value.node
    assert node is not None and node.op.scan is not None
    x, factor = scan_operands(probe, node, index)
    inner = axes[reduced_axes(node)[0]]
    outer = [a for mine in axes for a in mine if a not in inner]
    way = -1 if node.op.scan.down else 1
    stage = Stage(number, value, probe.space, index, node.op.scan.combine, way, index, outer, list(inner))
    _weigh(
        stage,
        x if factor is None else make("where", (make("const", (), dtypes.bool_, True), x, factor), x.dtype),
        probe,
    )
    return stage


def _reduce_stage(value: Value, number: int, held: Callable[[Value], str | None]) -> Stage:
    node = value.node
    assert node is not None
    arg = node.args[0]
    reduced = set(reduced_axes(node))

    def run(space: Space, index: Index, axes: list[list[int]]) -> Stage:
        probe = _Probe(space, held)
        if node.op.scan is not None:
            return _scan_stage(value, number, probe, index, axes)
        expr = probe.value(arg, index)
        inner = [a for d, mine in enumerate(axes) if d in reduced for a in mine]
        outer = [a for d, mine in enumerate(axes) if d not in reduced for a in mine]
        if len(value.meta.shape) == len(index):
            at: tuple[Ix, ...] = tuple(ZERO if d in reduced else ix for d, ix in enumerate(index))
        else:
            at = tuple(ix for d, ix in enumerate(index) if d not in reduced)
        stage = Stage(number, value, space, at, reduction_of(node, value.index), 0, index, outer, inner)
        _weigh(stage, expr, probe)
        return stage

    return _split_axes(arg.meta.shape, run)
