"""Calls of structured control flow on graph tensors become nodes with nested graphs, and nodes of the tape."""

from __future__ import annotations

from typing import Any

from fusegrad import pytree
from fusegrad.autograd.modes import STATE
from fusegrad.autograd.node import CustomNode
from fusegrad.autograd.saved import freed_error
from fusegrad.control import scans
from fusegrad.control.checks import kind_of, same_kind
from fusegrad.control.loops import check_flag
from fusegrad.control.loops import run as run_loop
from fusegrad.control.reach import named, through
from fusegrad.errors import ControlFlowError, DrawnError, NotRecordedError
from fusegrad.handler import active
from fusegrad.meta import Meta
from fusegrad.op import TABLE
from fusegrad.tensor import Tensor, extra_of, storage_of, wrap_ref

from ..ir.builder import Cell, GraphBuilder, Identity, Place, user_loc
from ..ir.graph import Value
from ..ir.infer import infer
from .body import (
    Body,
    Target,
    apart,
    check_results,
    close,
    free_values,
    placeholder,
    record_body,
    refuse,
    spec_of,
    zeros,
)  # fmt: skip

MAX_STEPS = 64  # steps of a scan that are written out
MAX_UNROLLED = 1000  # rounds of a loop that Python numbers decide


def record(builder: GraphBuilder, kind: str, *args: Any) -> Any:
    """The call ``kind(*args)`` (see fusegrad.control) as a part of the graph."""
    try:
        return _KINDS[kind](builder, *args)
    except DrawnError:
        if not builder.signals or kind not in ("scan", "map"):
            raise
        return _step_by_step(builder, kind, args)


def _step_by_step(builder: GraphBuilder, kind: str, args: tuple) -> Any:
    """A scan whose function draws random numbers, with every step written out: each draws its own, in eager order."""
    fn, xs = args[0], args[2] if kind == "scan" else args[1]
    length = pytree.tree_leaves(xs)[0].shape[0]
    if type(length) is not int or length > MAX_STEPS:
        raise DrawnError(
            f"random numbers are drawn in a {kind} of more than {MAX_STEPS} steps, or of a size that changes"
        )
    if kind == "scan":
        return scans.run(fn, args[1], xs, length, args[3])
    return scans.run_map(fn, xs, args[2])


def emit(builder: GraphBuilder, name: str, args: tuple, attrs: dict[str, Any]) -> list[Tensor]:
    """Append the operator's node; its results as graph tensors without history."""
    op = TABLE[name]
    node = builder.graph.append(op, args, attrs, infer(op, args, attrs), builder.loc or user_loc())
    out = [wrap_ref(Place(builder, v.meta, Cell(v, depth=builder.depth), (), v)) for v in node.outputs]
    if STATE.inference:
        for t in out:
            extra_of(t).inference = True
    return out


def edge_of(t: Tensor) -> tuple[Any, int]:
    """Where the gradient of ``t`` goes."""
    if not t.requires_grad:
        return None, 0
    return (t._node if t._node is not None else t), t._nr


def frozen(builder: GraphBuilder, t: Tensor) -> Tensor:
    """``t`` as it is now, with its history: what is changed in place later stays as it was for the derivative."""
    value = builder.value_of(t)
    copy = wrap_ref(Place(builder, t._g.meta, Cell(value, depth=builder.depth), (), value))
    if t.requires_grad:
        copy._node, copy._nr = (t._node, t._nr) if t._node is not None else (Identity(t), 0)
        copy._rg = True
    return copy


def settle(body: Body) -> None:
    """Freeze the results: a body may return a tensor from outside, which is changed in place later."""
    own = {id(p) for p in body.params}
    body.results = [t if id(t) in own else frozen(body.builder, t) for t in body.results]


class ControlNode(CustomNode):
    """History of the results of a control flow operator. ``edges`` end with the targets outside of the bodies."""

    __slots__ = ("builder", "bodies", "targets", "data")

    def __init__(
        self, label: str, builder: GraphBuilder, bodies: tuple, operands: list[Tensor], targets: list[Target],
        results: list[Tensor], data: Any,
    ) -> None:  # fmt: skip
        pairs = [*map(edge_of, operands), *targets]
        specs = [(tuple(t.shape), t.dtype) for t in results]
        super().__init__(label, tuple(e for e, _ in pairs), tuple(n for _, n in pairs), specs)
        self.builder, self.bodies, self.targets, self.data = builder, bodies, targets, data
        for body in bodies:
            body.owner = self
        kept = set.union(*(body.kept_values() for body in bodies))
        stands_for = {p._g.value: t for p, t in zip(bodies[0].params, operands, strict=False)}
        builder.kept |= {stands_for[v]._g.cell.value if v in stands_for else v for v in kept}

    def under(self, results: list[Tensor], flags: list[bool]) -> None:
        """Become the history of those results that are flagged."""
        for i, (t, flag) in enumerate(zip(results, flags, strict=True)):
            if flag and t.dtype.is_floating_point:
                t._node, t._nr, t._rg = self, i, True

    def apply(self, grads: list) -> list:
        if self.freed:
            raise freed_error()
        with active(self.builder):
            return self.derive(grads)

    def derive(self, grads: list) -> list:
        """Record the gradients for all edges."""
        raise NotImplementedError


# ---- cond


def record_cond(builder: GraphBuilder, pred: Tensor, true_fn: Any, false_fn: Any, operands: tuple) -> Any:
    yes = record_body(builder, "cond: true_fn", true_fn, lambda: ([], operands))
    no = record_body(builder, "cond: false_fn", false_fn, lambda: ([], operands))
    if yes.spec != no.spec:
        refuse(
            builder,
            "Expected true_fn_output and false_fn_output to have the same structure, but found: "
            f"{yes.spec} and {no.spec}",
        )
    for body in (yes, no):
        check_results(body, "cond")
    places = []
    for i, (a, b) in enumerate(zip(yes.results, no.results, strict=True)):
        if not same_kind(a, b):
            refuse(
                builder,
                "Expected true_fn_output and false_fn_output to have same metadata (shape and dtype), but found for "
                f"leaf {i}: {kind_of(a)} and {kind_of(b)}",
            )
        if isinstance(a, Tensor):
            places.append(i)
        elif not (type(a) is type(b) and a == b):
            raise NotRecordedError(f"cond: the branches return different numbers, {a} and {b}: return tensors")
    leaves = list(yes.results)
    yes.results, no.results = ([b.results[i] for i in places] for b in (yes, no))
    for i, t in zip(places, emit_cond(builder, pred, yes, no), strict=True):
        leaves[i] = t
    return pytree.tree_unflatten(leaves, yes.spec)


def emit_cond(builder: GraphBuilder, pred: Tensor, yes: Body, no: Body) -> list[Tensor]:
    """The node of a choice between two bodies (of results of the same types), with its history."""
    if not yes.results:
        return []
    for body in (yes, no):
        settle(body)
    pred = frozen(builder, pred)
    flag = pred._g.value
    free = list(dict.fromkeys(v for b in (yes, no) for v in free_values(b.nodes, b.values(), [])))
    sizes = builder.graph.sizes
    graphs = [close(name, sizes, b.nodes, free, b.values()) for name, b in (("true", yes), ("false", no))]
    results = emit(builder, "control.cond", (flag, free), {"true": graphs[0], "false": graphs[1]})
    if STATE.grad:
        flags = [a.requires_grad or b.requires_grad for a, b in zip(yes.results, no.results, strict=True)]
        targets = list({(id(t), n): (t, n) for b in (yes, no) for t, n in b.outer()}.values())
        if any(flags):
            CondNode("CondBackward0", builder, (yes, no), [], targets, results, pred).under(results, flags)
    return results


class CondNode(ControlNode):
    """The gradient of a choice is the choice between the gradients."""

    __slots__ = ()

    def derive(self, grads: list) -> list:
        builder = self.builder
        given = [i for i, g in enumerate(grads) if g is not None]
        reached: set[tuple[int, int]] = set()
        for b in self.bodies:
            reached.update((id(t), n) for t, n in b.reached([b.results[i] for i in given])[0])
        targets = [t for t in self.targets if (id(t[0]), t[1]) in reached]
        if STATE.grad:  # the branch taken must not decide whether a gradient requires one: see ``control.reach``
            grads = [g if g is None else named(g, self._ends(i)) for i, g in enumerate(grads)]
        derived = []
        for b in self.bodies:
            with apart(builder) as part:
                found = b.gradients([(b.results[i], grads[i]) for i in given], targets)
                found = [zeros(spec_of(t)) if g is None else g for t, g in zip(targets, found, strict=True)]
            derived.append(b.extended(part, [], found))
        results = iter(emit_cond(builder, self.data, *derived))
        return [next(results) if (id(t), n) in reached else None for t, n in self.targets]

    def _ends(self, i: int) -> list[Target]:
        """Where the gradient of result ``i`` goes, in either branch."""
        found = (end for b in self.bodies for end in b.reached([b.results[i]])[0])
        return list({(id(t), n): (t, n) for t, n in found}.values())


# ---- scan and map


def record_scan(builder: GraphBuilder, combine_fn: Any, init: Any, xs: Any, reverse: bool) -> tuple[Any, Any]:
    first, spec = pytree.tree_flatten(init)
    leaves, xs_spec = pytree.tree_flatten(xs)
    first, leaves = [builder.lift(t) for t in first], [builder.lift(t) for t in leaves]
    count = len(first)
    flags = [t.requires_grad for t in first]

    def arguments() -> tuple[list[Tensor], tuple]:
        carry = [like(builder, t, t._g.meta, f) for t, f in zip(first, flags, strict=True)]
        parts = [like(builder, t, slice_meta(t), t.requires_grad) for t in leaves]
        return [*carry, *parts], (pytree.tree_unflatten(carry, spec), pytree.tree_unflatten(parts, xs_spec))

    while True:
        body = record_body(builder, "scan: combine_fn", combine_fn, arguments)
        pair = body.spec
        if pair.kind not in (tuple, list) or len(pair.children) != 2:
            refuse(builder, "scan: Expected combine_fn to return (carry, y)")
        if pair.children[0] != spec:
            refuse(
                builder,
                f"Expected init and carry to have the same structure, but found: {spec} and {pair.children[0]}",
            )
        _same_leaves(builder, first, body.results[:count], "init and carry")
        if not all(isinstance(t, Tensor) for t in body.results):
            refuse(builder, "All scan: results of combine_fn leaves must be a Tensor")
        check_results(body, "scan", count)
        grown = [a or b.requires_grad for a, b in zip(flags, body.results[:count], strict=True)]
        if grown == flags:
            break
        flags = grown
    results = emit_scan(builder, body, first, leaves, reverse)
    return (
        pytree.tree_unflatten(results[:count], spec),
        pytree.tree_unflatten(results[count:], pair.children[1]),
    )


def record_map(builder: GraphBuilder, f: Any, xs: Any, args: tuple) -> Any:
    return record_scan(builder, lambda carry, x: ((), f(x, *args)), (), xs, False)[1]


def record_prefixes(builder: GraphBuilder, combine_fn: Any, parts: list[Tensor], spec: Any, reverse: bool) -> list:
    """An associative scan whose length is not known: slice by slice."""
    at = -1 if reverse else 0
    rest = [t[:-1] if reverse else t[1:] for t in parts]

    def step(carry: list, x: list) -> tuple[list, list]:
        out = combine_fn(pytree.tree_unflatten(carry, spec), pytree.tree_unflatten(x, spec))
        leaves, got = pytree.tree_flatten(out)
        if got != spec:
            raise ControlFlowError(
                f"associative_scan: Expected combine_fn to return the structure of xs, but found: {spec} and {got}"
            )
        return [t.clone() for t in leaves], leaves

    _, ys = record_scan(builder, step, [t[at] for t in parts], rest, reverse)
    ends = [t[at].unsqueeze(0) for t in parts]
    cat = TABLE["cat"]
    return [cat([y, e] if reverse else [e, y], 0) for y, e in zip(ys, ends, strict=True)]


def like(builder: GraphBuilder, t: Tensor, meta: Meta, requires_grad: bool) -> Tensor:
    """A placeholder for (a part of) ``t`` that shares its version: changing ``t`` later is noticed as in eager."""
    p = placeholder(builder, meta, requires_grad)
    p._st = storage_of(t)
    return p


def slice_meta(t: Tensor) -> Meta:
    """The type of a slice along the first dimension."""
    return Meta(t._g.meta.shape[1:], t._g.meta.dtype)


def _same_leaves(builder: GraphBuilder, want: list, got: list, names: str) -> None:
    for i, (a, b) in enumerate(zip(want, got, strict=True)):
        if not same_kind(a, b):
            refuse(
                builder,
                f"Expected {names} to have same metadata (shape and dtype), but found for leaf {i}: "
                f"{kind_of(a)} and {kind_of(b)}",
            )


def emit_scan(builder: GraphBuilder, body: Body, init: list[Tensor], xs: list[Tensor], reverse: bool) -> list[Tensor]:
    """The node of a scan: ``body.params`` stand for the carry and the slices, its results are the carry and the ys."""
    params = [p._g.value for p in body.params]
    settle(body)
    init, xs = ([frozen(builder, builder.passed(t)) for t in ts] for ts in (init, xs))
    free = free_values(body.nodes, body.values(), params)
    graph = close("body", builder.graph.sizes, body.nodes, [*params, *free], body.values())
    first, whole = ([t._g.value for t in ts] for ts in (init, xs))
    results = emit(builder, "control.scan", (first, whole, free), {"body": graph, "reverse": reverse})
    if STATE.grad and any(t.requires_grad for t in body.results):
        flags = result_flags(body, init, xs)
        if any(flags):
            node = ScanNode("ScanBackward0", builder, (body,), [*init, *xs], body.outer(), results, (init, xs, reverse))
            node.under(results, flags)
    return results


def result_flags(body: Body, init: list[Tensor], xs: list[Tensor]) -> list[bool]:
    """Which results require a gradient after all rounds: what eager code would find, step by step.

    (The placeholders of a derivative ask for gradients, whether or not what they stand for does.)
    """
    depends, count, length = body.depends(), len(init), xs[0]._g.meta.shape[0]
    fixed = [t.requires_grad for t in xs]

    def round_of(flags: list[bool]) -> list[bool]:
        now = [*flags[:count], *fixed]
        out = [any(now[k] if type(k) is int else True for k in keys) for keys in depends]
        return [*out[:count], *(a or b for a, b in zip(flags[count:], out[count:], strict=True))]

    flags = [*(t.requires_grad for t in init), *[False] * (len(body.results) - count)]
    if not isinstance(length, int):
        if body.builder.signals:
            _assume_rounds(length, flags, round_of)
        length = length.hint
    seen: set[tuple] = set()
    for left in range(length, 0, -1):
        if tuple(flags) in seen and left % 2 == 0:  # nothing new, and flags that only change places are back
            break
        seen.add(tuple(flags))
        flags = round_of(flags)
    return flags


def _assume_rounds(length: Any, flags: list[bool], round_of: Any) -> None:
    """Let the graph hold for no number of rounds after which other results would require gradients."""
    steps = [flags]
    for _ in range(2 * len(flags) + 2):
        steps.append(round_of(steps[-1]))
    settled = len(steps) - 1
    while settled and steps[settled - 1] == steps[-1]:
        settled -= 1
    if settled < len(steps) - 1 and length.hint >= settled:
        bool(length >= settled)
    else:
        bool(length == length.hint)


class ScanNode(ControlNode):
    """The gradient of a scan is a scan the other way, over the carries of every step."""

    __slots__ = ()

    def derive(self, grads: list) -> list:
        builder, (body,) = self.builder, self.bodies
        init, xs, reverse = self.data
        count = len(init)
        carries, slices = body.params[:count], body.params[count:]
        gy = [k for k in range(count, len(body.results)) if grads[k] is not None]
        given = {k for k in range(count) if grads[k] is not None}
        length = xs[0]._g.meta.shape[0]
        depends = body.depends()
        at_start, _ = through(depends, count, {*given, *gy}, length if isinstance(length, int) else None)
        dc, _ = through(depends, count, {*given, *gy}, None)  # the carries with a gradient in some round
        dc = sorted(i for i in dc if i < count and carries[i].requires_grad)
        dx = [j for j, p in enumerate(slices) if p.requires_grad]
        with apart(builder) as part:
            g_carry = [self._cotangent(body.results[i], grads[i]) for i in dc]
            g_ys = [self._cotangent(body.results[k], grads[k]) for k in gy]
            pairs = [*zip([body.results[i] for i in dc], g_carry, strict=True)]
            pairs += zip([body.results[k] for k in gy], g_ys, strict=True)
            targets = [*((carries[i], 0) for i in dc), *((slices[j], 0) for j in dx), *self.targets]
            found = body.gradients(pairs, targets)
            new = [
                zeros((carries[i].shape, carries[i].dtype)) if g is None else g for i, g in zip(dc, found, strict=False)
            ]
            g_slices = found[len(dc) : len(dc) + len(dx)]
            outside = found[len(dc) + len(dx) :]
            kept = [k for k, g in enumerate(outside) if g is not None]
            sums = [self._accumulator(self.targets[k]) for k in kept]
            new += [s + outside[k] for s, k in zip(sums, kept, strict=True)]
        ys = [g for g in g_slices if g is not None]
        back = body.extended(part, [], [*new, *ys])
        used = set(free_values(back.nodes, back.values(), []))
        steps = [i for i, p in enumerate(carries) if p._g.value in used]
        xs_used = [j for j, p in enumerate(slices) if p._g.value in used]
        back.params = [*g_carry, *sums, *g_ys, *(carries[i] for i in steps), *(slices[j] for j in xs_used)]
        whole = [*(grads[k] for k in gy), *self._carries(steps), *(xs[j] for j in xs_used)]
        start = [zeros((init[i].shape, init[i].dtype)) if grads[i] is None else grads[i] for i in dc]
        start += [zeros(spec_of(self.targets[k])) for k in kept]
        whole = [builder.lift(t) for t in whole] or [builder.lift(xs[0])]
        if len(whole) == 1 and not gy and not steps and not xs_used:  # something must say how many rounds
            back.params.append(slices[0])
        results = emit_scan(builder, back, [builder.lift(t) for t in start], whole, not reverse)
        out: list[Any] = [None] * (count + len(xs) + len(self.targets))
        for n, i in enumerate(dc):
            out[i] = results[n] if i in at_start else None
        for n, k in enumerate(kept):
            out[count + len(xs) + k] = results[len(dc) + n]
        rest = iter(results[len(dc) + len(kept) :])
        for j, g in zip(dx, g_slices, strict=True):
            out[count + j] = next(rest) if g is not None else None
        return out

    def _cotangent(self, like: Tensor, g: Any) -> Tensor:
        return placeholder(self.builder, Meta(like._g.meta.shape, like._g.meta.dtype), STATE.grad, "g")

    def _accumulator(self, target: Target) -> Tensor:
        shape, dtype = spec_of(target)
        return placeholder(self.builder, Meta(shape, dtype), STATE.grad, "sum")

    def _carries(self, steps: list[int]) -> list[Tensor]:
        """The carries before every step, stacked: from a scan that returns them as well."""
        if not steps:
            return []
        (body,), (init, xs, reverse) = self.bodies, self.data
        count = len(init)
        twice = Body(
            body.builder,
            body.nodes,
            body.params,
            [*body.results[:count], *(body.params[i] for i in steps)],
            body.spans,
            body.leaves,
        )
        return emit_scan(self.builder, twice, init, xs, reverse)[count:]


# ---- while_loop


def record_while(builder: GraphBuilder, cond_fn: Any, body_fn: Any, carried: tuple) -> tuple:
    leaves, spec = pytree.tree_flatten(carried)
    if not all(isinstance(t, Tensor) for t in leaves):
        return _unrolled(builder, cond_fn, body_fn, carried)
    first = [builder.lift(t) for t in leaves]
    flags = [t.requires_grad for t in first]

    def arguments() -> tuple[list[Tensor], tuple]:
        params = [like(builder, t, t._g.meta, f) for t, f in zip(first, flags, strict=True)]
        return params, pytree.tree_unflatten(params, spec)

    test = record_body(builder, "while_loop: cond_fn", cond_fn, arguments)
    if len(test.results) != 1 or test.spec != pytree.tree_structure(0):
        refuse(builder, "while_loop: Expected cond_fn to return a bool or a 0-d bool tensor")
    if not isinstance(test.results[0], Tensor):
        return _unrolled(builder, cond_fn, body_fn, carried)
    try:
        check_flag(test.results[0])
    except ControlFlowError as e:
        refuse(builder, str(e))
    while True:
        body = record_body(builder, "while_loop: body_fn", body_fn, arguments)
        if body.spec != spec and not (body.spec.kind is list and body.spec.children == spec.children):
            refuse(
                builder,
                "Expected carried_inputs and body_fn_output to have the same structure, but found: "
                f"{spec} and {body.spec}",
            )
        _same_leaves(builder, first, body.results, "carried_inputs and body_fn_output")
        check_results(body, "while_loop")
        grown = [a or b.requires_grad for a, b in zip(flags, body.results, strict=True)]
        if grown == flags:
            break
        flags = grown
    return pytree.tree_unflatten(emit_while(builder, test, body, first, flags), spec)


def _unrolled(builder: GraphBuilder, cond_fn: Any, body_fn: Any, carried: tuple) -> tuple:
    """A loop that Python numbers decide: its rounds stand in the graph one after the other."""
    out = run_loop(cond_fn, body_fn, carried, MAX_UNROLLED)
    if out is None:
        raise NotRecordedError(
            f"while_loop: more than {MAX_UNROLLED} rounds counted by Python numbers; count with a tensor"
        )
    return out


def emit_while(builder: GraphBuilder, test: Body, body: Body, init: list[Tensor], flags: list[bool]) -> list[Tensor]:
    """The node of a loop, with its history."""
    sizes = builder.graph.sizes
    own = [[p._g.value for p in b.params] for b in (test, body)]
    free = list(
        dict.fromkeys(
            v for b, params in zip((test, body), own, strict=True) for v in free_values(b.nodes, b.values(), params)
        )
    )
    graphs = {
        name: close(name, sizes, b.nodes, [*params, *free], b.values())
        for name, b, params in (("test", test, own[0]), ("body", body, own[1]))
    }
    first = [builder.value_of(builder.passed(t)) for t in init]
    settle(body)
    results = emit(builder, "control.while_loop", (first, free), graphs)
    if STATE.grad and any(flags):
        data = (init, first, free, graphs)
        WhileNode("WhileLoopBackward0", builder, (body,), init, body.outer(), results, data).under(results, flags)
    return results


class WhileNode(ControlNode):
    """The gradient of a loop: an operator that runs it again and goes back over its carried values."""

    __slots__ = ()

    def derive(self, grads: list) -> list:
        builder, (body,) = self.builder, self.bodies
        init, first, free, graphs = self.data
        params = body.params
        given_grads = {i for i, g in enumerate(grads) if g is not None}
        dc, _ = through(body.depends(), len(params), given_grads, None)
        dc = sorted(i for i in dc if params[i].requires_grad)
        with apart(builder) as part:
            cots = [placeholder(builder, Meta(t._g.meta.shape, t._g.meta.dtype), STATE.grad, "g") for t in params]
            pairs = [(body.results[i], cots[i]) for i in dc]
            found = body.gradients(pairs, [*((params[i], 0) for i in dc), *self.targets])
            new = [
                zeros((params[i].shape, params[i].dtype)) if g is None else g for i, g in zip(dc, found, strict=False)
            ]
            outside = found[len(dc) :]
        kept = [k for k, g in enumerate(outside) if g is not None]
        back = body.extended(part, [], [*new, *(outside[k] for k in kept)])
        own, given = [p._g.value for p in params], [cots[i]._g.value for i in dc]
        more = [v for v in free_values(back.nodes, back.values(), [*own, *given]) if v not in set(free)]
        extra = [*free, *more]
        vjp = close("vjp", builder.graph.sizes, back.nodes, [*own, *extra, *given], back.values())
        if more:
            graphs = {k: with_inputs(g, more) for k, g in graphs.items()}
        start = [zeros((init[i].shape, init[i].dtype)) if grads[i] is None else grads[i] for i in dc]
        values: list[Value] = [builder.value_of(t) for t in start]
        results = emit(builder, "control.while_vjp", (first, extra, values), {**graphs, "vjp": vjp})
        if STATE.grad:
            Twice("WhileLoopBackwardBackward0", builder, (back,), [*start, *init], self.targets, results, None).under(
                results, [True] * len(results)
            )
        out: list[Any] = [None] * (len(init) + len(self.targets))
        for n, i in enumerate(dc):
            out[i] = results[n]
        for n, k in enumerate(kept):
            out[len(init) + k] = results[len(dc) + n]
        return out


class Twice(ControlNode):
    """The second derivative of a loop with an unknown number of rounds is refused."""

    __slots__ = ()

    def derive(self, grads: list) -> list:
        raise RuntimeError(
            "the second derivative of while_loop is not available in compiled code: call the function uncompiled, or "
            "write the loop with scan, whose number of rounds is known"
        )


def with_inputs(graph: Any, more: list[Value]) -> Any:
    """A copy of a nested graph that takes more inputs than it reads."""
    copy, _ = graph.copy()
    for v in more:
        copy.add_input(v.meta, v.name or None)
    return copy


_KINDS: dict[str, Any] = {
    "cond": record_cond,
    "scan": record_scan,
    "map": record_map,
    "prefixes": record_prefixes,
    "while_loop": record_while,
}

__all__ = ["record"]
