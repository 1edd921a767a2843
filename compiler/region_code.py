"""The call of a region as one flat, generated Python function (``region.text()`` shows its source)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from fusegrad.autograd.data_storage import SHARED
from fusegrad.autograd.modes import RUNNING, SLOW, STATE, set_grad
from fusegrad.autograd.node import mark_young, new_view, next_seq
from fusegrad.inplace import READ_ONLY, check_captured
from fusegrad.random import default_generator
from fusegrad.sizes import SymInt, as_python
from fusegrad.tensor import Tensor, extra_of, refresh, storage_of, wrap

from .ir.bind import symbols_in
from .ir.builder import Identity
from .region_node import CompiledBackward, FreedBackward
from .region_plan import Input, Result, Same, Shared, View

if TYPE_CHECKING:
    from .region import Region

__all__ = ["generate"]


def generate(region: Region) -> tuple[Callable[..., tuple], str]:
    """The function and its source."""
    writer = _Writer(region)
    source = writer.write()
    code = compile(source, f"<fusegrad region {region.name}>", "exec")
    exec(code, writer.env)
    return writer.env["call"], source


def draw_numbers(count: int) -> tuple[int, int]:
    """(seed, first of ``count`` draws) of the default generator, which moves on."""
    first = default_generator.take(count)
    return default_generator.initial_seed(), first


def untouched(error: Exception, draws: int) -> Exception:
    """Mark an error that came before any effect of a region, and give its draws back."""
    if draws:
        default_generator.take(-draws)
    error.fusegrad_untouched = True  # type: ignore[attr-defined]
    return error


def refuse_captured(t: Tensor, draws: int) -> None:
    """A transform may refuse a write to a tensor from outside: eager code says so, at its line, after its effects."""
    try:
        check_captured(t)
    except RuntimeError as error:
        raise untouched(error, draws) from None


_GRADLESS = ("no_grad", "inference")


def make_view(root: Tensor, chain: tuple, attributes: tuple, requires_grad: bool | None, how: str | None) -> Tensor:
    """Apply recorded view operators to a real tensor; an empty chain is ``detach``. The rest: see ``View``."""
    if not chain:
        return root.detach()
    if root.requires_grad and (requires_grad is None or not (requires_grad or how in _GRADLESS)):
        root = root.detach()  # else the view would report what its root does
    before = STATE.grad
    set_grad(bool(requires_grad))
    try:
        for (op, _, out), attrs in zip(chain, attributes, strict=True):
            made = op.replay(root, attrs)
            root = made[out] if isinstance(made, tuple) else made
    finally:
        set_grad(before)
    if root._view is not None:
        root._view.made = how
    return root


def tie_made(view: Tensor, root: Tensor, how: str) -> None:
    """Mark what a custom Function returned of its input: a view, in-place changes of which are refused."""
    rec = root._view
    assert view._st is not None
    view._view = new_view(root if rec is None else rec.base, (), view._st.version, how)


def snapshot(tensor: Tensor) -> Tensor:
    """A mutated input as it was before the call, with its history (for a leaf: a node that leads to it)."""
    copy = wrap(tensor._data.copy())
    copy._rg, copy._node, copy._nr = tensor._rg, tensor._node, tensor._nr
    if copy._rg and copy._node is None:
        copy._node = Identity(tensor)
    return copy


def write_recorded(tensor: Tensor, array: np.ndarray, node: Any, nr: int) -> None:
    """New contents for a mutated input, with the region's node (or nothing) as their history."""
    new = wrap(array)
    if node is not None:
        new._rg, new._node, new._nr = True, node, nr
    tensor.copy_(new)


def changes(t: Tensor) -> int:
    """How often a result or an input was changed in place inside of the region, as eager code counts."""
    return t._st.version if t._st is not None else 0


def contents(t: Tensor) -> tuple:
    """What tells whether the contents that the region gave to an input are still the same."""
    st = storage_of(t)
    return st, st.version, getattr(st, "moved", 0)


def mark_inference(tensors: tuple) -> None:
    """Results of a call in inference mode are inference tensors."""
    if STATE.inference:
        for t in tensors:
            extra_of(t).inference = True


def mark_all_young(tensors: tuple) -> None:
    """Results of a call inside of a function transform may be changed there."""
    for t in tensors:
        mark_young(t)


_HELPERS: dict[str, Any] = {
    "STATE": STATE, "SLOW": SLOW, "RUNNING": RUNNING, "READ_ONLY": READ_ONLY, "SHARED": SHARED, "next_seq": next_seq
}  # fmt: skip
for _helper in (
    CompiledBackward,
    FreedBackward,
    Tensor,
    contents,
    draw_numbers,
    make_view,
    mark_all_young,
    mark_inference,
    refuse_captured,
    refresh,
    snapshot,
    storage_of,
    tie_made,
    untouched,
    write_recorded,
):
    _HELPERS[_helper.__name__] = _helper


class _Writer:
    def __init__(self, region: Region) -> None:
        self.region = region
        self.forward = region.face
        self.lines: list[str] = []
        program = getattr(region.program, "run", region.program)
        self.env: dict[str, Any] = {"program": program, "REGION": region, "new": object.__new__, **_HELPERS}
        if region.check is not None:
            from .verification.region_check import VerifiedBackward

            self.env.update(CHECK=region.check, CompiledBackward=VerifiedBackward)
        self.names = [f"x{i}" for i in range(region.arity)]
        for i, t in enumerate(region.constants):
            self.names.append(f"c{i}")
            self.env[f"c{i}"] = t
        self.weak, self.bound = self.forward.weak, self.forward.bound

    def line(self, text: str, indent: int = 1) -> None:
        self.lines.append("    " * indent + text)

    def array(self, i: int) -> str:
        return self.names[i] if self.weak[i] else f"{self.names[i]}._data"

    def size(self, symbol: str) -> str:
        """Source of the value of a size symbol."""
        if symbol in self.region.size_params:
            return f"z_{symbol}"
        i, d = self.bound[symbol]
        return f"{self.names[i]}._data.shape[{d}]"

    def write(self) -> str:
        region, forward = self.region, self.forward
        params = [*self.names[: region.arity], *(f"z_{s}" for s in region.size_params)]
        if forward.draws:
            params.append("rng=None")
        self.lines.append(f"def call({', '.join(params)}):")
        args = [self.array(i) for i in range(len(self.names))] + [self.size(s) for s in forward.size_params]
        if forward.draws:
            self.line("drawn = 0")
            self.line("if rng is None:")
            self.line(f"rng, drawn = draw_numbers({forward.draws}), {forward.draws}", 2)
            args += ["*rng"] if forward.random else []
        changed = {*region.in_place, *(i for i, _, _ in region.plan.writes)}
        flags = [f"{self.names[i]}._data.flags.writeable" for i in sorted(changed)]
        if flags:
            drawn = "drawn" if forward.draws else 0
            self.line(f"if not ({' and '.join(flags)}): raise untouched(RuntimeError(READ_ONLY), {drawn})")
        for i in dict.fromkeys(i for i, _, _ in region.plan.writes):
            self.line(f"if RUNNING: refuse_captured({self.names[i]}, {'drawn' if forward.draws else 0})")
        results = [f"r{j}" for j in range(forward.outputs)]
        call = f"program({', '.join(args)})"
        if region.check is not None:
            self.line(f"kept = CHECK.keep({', '.join(args)})")
        if not region.in_place:
            self.line("try:")
        at = 1 if region.in_place else 2
        self.line(f"{', '.join(results)}{',' if len(results) == 1 else ''} = {call}" if results else call, at)
        if not region.in_place:  # nothing was changed yet: the caller may run the same code again, in Python
            self.line("except Exception as error:")
            self.line(f"raise untouched(error, {'drawn' if forward.draws else 0})", 2)
        if region.check is not None:
            self.line(f"if kept is not None: CHECK.forward(kept, {_tuple(results)})")
        self.results()
        if region.differentiable:
            self.tape()
        self.writes()
        self.outputs()
        return "\n".join(self.lines) + "\n"

    def results(self) -> None:
        """Tensors around the computed arrays (what ``wrap`` does, written out: a call costs more than the stores)."""
        names = []
        for j, t in enumerate(self.region.plan.results):
            if t._g.meta.weak:
                self.line(f"t{j} = r{j}.item() if hasattr(r{j}, 'item') else r{j}")
                continue
            names.append(f"t{j}")
            order = self.region.orders[j]
            array = f"r{j}" if order is None else f"r{j}.transpose({_inverse(order)})"
            leaf = t.requires_grad and t.grad_fn is None
            self.line(f"t{j} = new(Tensor); t{j}._data = {array}; t{j}._rg = {leaf}; t{j}._nr = 0")
            self.line(f"t{j}._g = t{j}._node = t{j}._st = t{j}._view = t{j}._grad = t{j}._extra = None")
            if changes(t) and t._g.cell.source is None:
                self.line(f"storage_of(t{j}).version = {changes(t)}")
        if names:
            self.line(f"if SLOW[0]: mark_inference({_tuple(names)})")
            self.line(f"if RUNNING: mark_all_young({_tuple(names)})")
        self.dead()

    def dead(self) -> None:
        """Nodes whose backward raises, in the order of eager code: hooks on the later ones run before the error."""
        region = self.region
        for j in sorted(region.dead, key=lambda j: region.recorded(j).grad_fn.seq):  # type: ignore[union-attr]
            self.env[f"F{j}"], self.env[f"M{j}"] = region.recorded(j).dtype, region.dead[j]
            edges, nrs = self.edges(region.dead_leaves[j])
            made = j < region.results
            shape = f"t{j}._data.shape" if made else f"r{j}.shape"
            self.line(f"f{j} = FreedBackward({shape}, F{j}, M{j}, {edges}, {nrs}) if STATE.grad else None")
            if made:
                self.line(f"if STATE.grad: t{j}._rg = True; t{j}._node = f{j}")

    def edges(self, inputs: list[int]) -> tuple[str, str]:
        """Source of the edges to inputs, and of their output numbers."""
        names = [self.names[i] for i in inputs]
        edges = [f"({x} if {x}._node is None else {x}._node) if {x}._rg else None" for x in names]
        return _tuple(edges), _tuple([f"{x}._nr" for x in names])

    def tape(self) -> None:
        """One node under the differentiable results, if this call records a graph."""
        region = self.region
        indent = 2
        if any(history == "record" for _, _, history in region.plan.writes):
            self.line("node = None")
        self.line("if STATE.grad:")
        for i in region.leaves:
            self.line(f"if {self.names[i]}._view is not None: refresh({self.names[i]})", indent)
        edges, nrs = self.edges(region.leaves)
        self.line(f"node = CompiledBackward(REGION, {edges}, {nrs}, {self.specs()})", indent)
        self.line(f"node.saved = {_tuple(self.saved())}", indent)
        if region.check is not None:
            self.line("node.checked = kept", indent)
        held = [f"h{i}" if i in region.snapshots else x for i, x in enumerate(self.names)]
        for i in region.snapshots:
            self.line(f"h{i} = snapshot({self.names[i]})", indent)
        self.line(f"node.held = {_tuple(held)}", indent)
        if (
            region.saved_places or region.recomputed
        ) and region.kept_apart:  # what ``t.data = ...`` takes from those tensors
            before = [f"{held[i]}._data" for i in region.kept_apart]
            self.line(f"node.before = {_tuple(before)}", indent)
        if region.recomputed:
            self.line("if SHARED: node.keep_shared()", indent)
        versions = [
            "0" if w else f"{x}._st.version if {x}._st is not None else 0" for x, w in zip(held, self.weak, strict=True)
        ]
        self.line(f"node.held_versions = {_tuple(versions)}", indent)
        storages = [f"storage_of(t{j})" for j in region.saved_results]  # type: ignore[var-annotated]
        if storages:
            self.line(f"node.storages = {_tuple(storages)}", indent)
        sizes = [self.size(s) for s in region.backward_sizes]
        if sizes:
            self.line(f"node.sizes = {_tuple(sizes)}", indent)
        second = [self.size(s) for s in region.gradient_sizes]
        if second:
            self.line(f"node.second_sizes = {_tuple(second)}", indent)
        if self.forward.draws:
            self.line("node.rng = rng", indent)
        self.line("if SLOW[0]: node.slow_modes()", indent)
        for nr, j in enumerate(region.differentiable_results):
            self.line(f"t{j}._rg = True; t{j}._node = node; t{j}._nr = {nr}", indent)

    def specs(self) -> str:
        """(shape, dtype) of the differentiable outputs: constants where the shapes are."""
        parts = []
        region = self.region
        arrays = [f"t{j}._data" for j in region.differentiable_results]
        written = ((region.results + k, h) for k, (_, _, h) in enumerate(region.plan.writes))
        arrays += [f"r{j}" for j, h in written if h == "record" and j not in region.dead]
        for nr, (t, array) in enumerate(zip(region.differentiable, arrays, strict=True)):
            self.env[f"D{nr}"] = t.dtype
            shape = t._g.meta.shape
            static = not any(isinstance(s, SymInt) for s in shape)
            parts.append(f"({tuple(shape) if static else f'{array}.shape'}, D{nr})")
        return _tuple(parts)

    def saved(self) -> list[str]:
        return [self.array(i) if kind == "input" else f"r{i}" for kind, i in self.region.parts.saved]

    def writes(self) -> None:
        region = self.region
        nr = len(region.differentiable_results)
        for k, (i, _, history) in enumerate(region.plan.writes):
            array, x = f"r{region.results + k}", self.names[i]
            j, t = region.results + k, region.plan.writes[k][1]
            count = int(t._g.cell.counted) if "moved" in t._g.__dict__ else changes(t)
            if j in region.dead:
                self.line(f"write_recorded({x}, {array}, f{j}, 0)")
            elif history == "cut":
                self.line(f"write_recorded({x}, {array}, None, 0)")
            elif history == "record":
                self.line(f"write_recorded({x}, {array}, node, {nr})")
                nr += 1
            else:
                moved = f"if {array} is not {x}._data: " if i in region.in_place else ""
                self.line(f"{moved}{x}._data[...] = {array}")
                if count:
                    self.line(f"storage_of({x}).version += {count}")
                else:  # through ``.data``
                    self.line(f"storage_of({x}).moved = storage_of({x}).written = next_seq()")
                continue
            if count > 1:
                self.line(f"storage_of({x}).version += {count - 1}")
        if region.differentiable and region.saved_written:
            now = [f"contents({self.names[i]})" for i in region.saved_written]
            self.line(f"if STATE.grad: node.written = {_tuple(now)}")

    def outputs(self) -> None:
        for k, (root, moved, count) in enumerate(self.region.plan.counters):
            change = f"storage_of(d{k}).version = {count}" if moved is None else f"d{k}._st = storage_of(x{moved})"
            self.line(f"d{k} = {self.root(root)}.data; {change}")
        recipes = self.region.plan.recipes
        made: dict[int, str] = {}
        for k in sorted(range(len(recipes)), key=lambda k: _rank(recipes[k])):
            recipe = recipes[k]
            if isinstance(recipe, Same):
                made[k] = made[recipe.index]
            elif isinstance(recipe, Input):
                made[k] = self.names[recipe.index]
            elif isinstance(recipe, Result):
                made[k] = f"t{recipe.index}"
            elif isinstance(recipe, Shared):
                root, t = self.seen(recipe), f"t{recipe.index}"
                plain = View(recipe.root, recipe.chain, False, counter=recipe.counter)
                seen = self.view(k, plain) if recipe.chain else root
                self.line(f"{t}._data = {seen}._data; {t}._st = storage_of({root})")
                if recipe.made:
                    self.line(f"tie_made({t}, {root}, {recipe.made!r})")
                made[k] = t
            else:
                made[k] = self.view(k, recipe, self.through(k))
        watched = []
        for k, (results, views) in self.region.watched.items():
            self.env[f"W{k}"] = results
            others = [made[j] for j in views if self.through(j) is None]
            watched.append(f"({made[k]}, W{k}, {_tuple(others)})")
        if watched and self.region.differentiable:
            self.line(f"if STATE.grad: node.watch({_tuple(watched)})")
        self.line(f"return {_tuple([made[k] for k in range(len(recipes))])}")

    def through(self, k: int) -> int | None:
        """The longest other view among the outputs that view ``k`` was made from: its gradient goes by way of it."""
        recipes = self.region.plan.recipes
        own = recipes[k]
        found = [
            (len(v.chain), j)
            for j, (_, views) in self.region.watched.items()
            if k in views
            and (v := recipes[j]).root == own.root
            and v.counter == own.counter
            and own.requires_grad
            and v.requires_grad
            and not v.own
            and v.chain
            and _begins(own.chain, v.chain)
        ]
        return max(found)[1] if found else None

    def root(self, root: Any) -> str:
        return self.names[root.index] if isinstance(root, Input) else f"t{root.index}"

    def seen(self, recipe: View | Shared) -> str:
        """The root of a recipe, or its ``.data`` where the recipe counts changes apart from it."""
        return self.root(recipe.root) if recipe.counter is None else f"d{recipe.counter}"

    def view(self, k: int, recipe: View, of: int | None = None) -> str:
        """Makes the view of output ``k``; ``of``: from the view of that output."""
        root, chain = self.seen(recipe), recipe.chain
        if of is not None:
            root, chain = f"v{of}", chain[len(self.region.plan.recipes[of].chain) :]
        self.env[f"V{k}"] = chain
        attributes = tuple(attrs for _, attrs, _ in chain)
        symbols = sorted(set(symbols_in(tuple(tuple(a.values()) for a in attributes))))
        if symbols:
            text = _tuple([_dict_source(a, {s: self.size(s) for s in symbols}, self.env) for a in attributes])
        else:
            self.env[f"A{k}"] = attributes
            text = f"A{k}"
        self.line(f"v{k} = make_view({root}, V{k}, {text}, {recipe.requires_grad}, {recipe.made!r})")
        if recipe.own:
            self.line(f"v{k}._view = None")
        return f"v{k}"


def _rank(recipe: Any) -> int:
    """In which order outputs are made: views after what they look at."""
    return 1 << 30 if isinstance(recipe, Same) else len(recipe.chain) if isinstance(recipe, View) else -1


def _begins(chain: tuple, start: tuple) -> bool:
    return len(start) < len(chain) and all(a[0] is b[0] and a[1:] == b[1:] for a, b in zip(chain, start, strict=False))


def _inverse(order: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(range(len(order)), key=order.__getitem__))


def _tuple(parts: list[str]) -> str:
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"


def _dict_source(attrs: dict[str, Any], sizes: dict[str, str], env: dict[str, Any]) -> str:
    return "{" + ", ".join(f"{k!r}: {_source(v, sizes, env)}" for k, v in attrs.items()) + "}"


def _source(value: Any, sizes: dict[str, str], env: dict[str, Any]) -> str:
    """Python source of an attribute value whose symbols are given as source too."""
    if isinstance(value, SymInt):
        names = {s: f"q_{s}" for s in sizes}
        return f"(lambda {', '.join(f'q_{s}={text}' for s, text in sizes.items())}: {as_python(value, names)})()"
    if isinstance(value, (tuple, list)):
        return _tuple([_source(v, sizes, env) for v in value])
    if value is None or isinstance(value, (bool, int, str)):
        return repr(value)
    name = f"K{len(env)}"
    env[name] = value
    return name
