"""The one tape node under all differentiable results of a compiled region."""

from __future__ import annotations

import sys
import weakref
from typing import Any

import numpy as np

from fusegrad.autograd.hook_calls import run_tensor_hooks
from fusegrad.autograd.lines import trace_here
from fusegrad.autograd.modes import STATE
from fusegrad.autograd.node import CustomNode, Node, next_seq
from fusegrad.autograd.saved import Packed, check_version, freed_error, unpack
from fusegrad.tensor import Tensor, extra_of, wrap

__all__ = ["CompiledBackward", "FreedBackward", "ReadAgain"]


_NONE: frozenset[int] = frozenset()
_ONE: frozenset[int] = frozenset((0,))


_MOVED = (
    "`.data` of input {} of compiled code was set or changed before the backward pass, which computes values between "
    "anew: they would come from new contents. Change `.data` after the backward pass, or the tensor itself in place."
)


_WRITTEN = (
    "`.data` of input {} of compiled code was set or changed before the backward pass, which has its own copy of what "
    "the compiled code put there: eager code would read the new contents. Change `.data` after the backward pass, or "
    "the tensor itself in place."
)


_SHARED = (
    "numpy wrote to the memory of input {} of compiled code before the backward pass: with create_graph=True it "
    "computes the values in between anew, from the new contents. Write to it after the backward pass, or make the "
    "tensor of a copy."
)


_RESULT = (
    "`.data` of output {} of compiled code was set or changed before the backward pass: eager code would read the new "
    "contents where an operator kept it, compiled code has what it computed. Change `.data` after the backward pass, "
    "or the tensor itself in place."
)


_VIEW = (
    "the gradient at a view that compiled code returned, beside a result that was computed from it, is not known: "
    "hooks and retain_grad on it, and autograd.grad by it, would miss what comes by way of the other result. Clone the "
    "view inside of the compiled function, or take it outside."
)


class CompiledBackward(Node):
    """Edges lead to the inputs that need a gradient.

    ``saved``: arrays and numbers for the backward graph; ``held``: all inputs, for a differentiable backward, with
    their versions; ``written``: storages of those that the call changed, and what they say after it; ``storages``: of
    results that are saved by reference; ``specs``: (shape, dtype) per output; ``before``: the other arrays that
    kept values are computed from again; ``again``: what checkpointed functions read (see ``ReadAgain``); ``copies``: of
    inputs that numpy may write to, where values are computed from them again.
    """

    __slots__ = ("given", "blocked", "region", "held", "held_versions", "storages", "sizes", "second_sizes", "rng",
                 "specs", "packed", "written", "before", "again", "watched", "copies")  # fmt: skip

    def __init__(self, region: Any, edges: tuple, nrs: tuple, specs: tuple) -> None:
        self.op: Any = None
        self.edges, self.nrs = edges, nrs
        self.attrs = self.out = self.hooks = self.trace = self.shape = self.dtype = None
        self.seq = next_seq()
        self.packed, self.again = False, None
        self.given = self.blocked = _NONE
        self.region, self.specs = region, specs
        self.storages = self.sizes = self.second_sizes = self.rng = self.before = ()
        self.watched: tuple = ()
        self.copies: dict[int, np.ndarray] = {}

    @property
    def n_out(self) -> int:  # type: ignore[override]
        return len(self.specs)

    def name(self) -> str:
        return "CompiledBackward0"

    def __getattr__(self, name: str) -> Any:
        """Only asked for what there isn't, such as the tensors that an operator's node keeps in eager code."""
        more = ""
        if name.startswith(("_saved_", "_raw_saved_")):
            more = ": one node stands for all of a compiled graph, and keeps nothing under the names of operators"
        raise AttributeError(f"'CompiledBackward' object has no attribute '{name}'{more}")

    def output_spec(self, nr: int) -> tuple[Any, Any]:
        return self.specs[nr]

    def slow_modes(self) -> None:
        """Saved tensor hooks, anomaly mode and line tracing, when a thread is in one of them."""
        if STATE.packers:
            pack, unpack = STATE.packers[-1]
            self.packed = True
            self.saved = tuple(Packed(pack(wrap(a)), unpack) if isinstance(a, np.ndarray) else a for a in self.saved)
        if STATE.anomaly or STATE.lines:
            self.trace = trace_here()

    def keep_shared(self) -> None:
        """Copies of what numpy may change unnoticed: eager code kept the values that were computed from it."""
        region = self.region
        held: Any = self.held
        own = self.saved, self.before
        there = [i for i in region.recomputed_from if i not in region.snapshots]
        shared = [i for i in there if getattr(held[i]._st, "shared", False) and _seen_by_others(held[i], own)]
        if not set(region.recomputed).isdisjoint(shared):
            self.copies = {i: held[i]._data.copy("K") for i in shared}

    def _overwritten(self) -> list[int]:
        """Those inputs that numpy wrote to since; not those whose ``.data`` was set or changed."""
        held: list = self.held or []
        there = [i for i in self.copies if getattr(held[i]._st, "moved", 0) <= self.seq]
        return [i for i in there if not _same(held[i]._data, self.copies[i])]

    def watch(self, views: tuple) -> None:
        """Views among the results, each with the numbers of the results and the other views that were computed from it:
        their gradients come here, not by way of the view."""
        refs = [(v._node, on, [u._node for u in others]) for v, on, others in views if v._node is not None]
        self.watched = tuple(
            (weakref.ref(n), on, [weakref.ref(u) for u in others if u is not None]) for n, on, others in refs
        )

    def watches(self, ids: set[int]) -> bool:
        return any(id(ref()) in ids for ref, _, _ in self.watched)

    def _check_watched(self, given: frozenset[int]) -> None:
        run = STATE.run
        for ref, on, others in self.watched:
            node = ref()
            if node is None or node.hooks is None and (run is None or id(node) not in run.asked):
                continue
            nodes = [n for u in others if (n := u()) is not None]
            if not on.isdisjoint(given) or run is not None and any(run.reaches([(n, 0) for n in nodes])):
                raise RuntimeError(_VIEW)

    def onward(self, nr: int, first: bool) -> list:
        reached, leaves = self.region.reached[nr], self.region.leaves
        return [
            (e, n) for e, n, i in zip(self.edges, self.nrs, leaves, strict=True) if e is not None and reached >> i & 1
        ]

    def brings(self, engine: Any, given: set[int], nr: int) -> bool:
        if engine.needed is not None:
            given = {k for k in given if self._leads(engine, k)}
        return nr in given or any(nr in self.region.inside[k] for k in given)

    def free(self) -> None:
        """After a pass from the results ``given``: what shares saved tensors with them can't be differentiated again.

        What was kept is dropped when no result is left that can.
        """
        shares = self.region.shares
        if self.given == _ONE and not self.blocked:
            self.blocked = shares[0]
        else:
            self.blocked = self.blocked.union(*(shares[k] for k in self.given))
        if len(self.blocked) < len(self.specs):
            return
        self.saved = self.held = self.storages = self.before = None
        self.copies = {}

    def arrive(self, engine: Any, gs: list) -> None:
        """Hooks and targets of the results. What one of them gets by way of another flows inside of the region: it is
        added for the hooks, and what they change is passed on.
        """
        hooks, known = self.hooks, not self.freed
        asked = {nr for nr in range(len(gs)) if (id(self), nr) in engine.wanted}
        if hooks is not None:
            asked.update(hooks["tensor"], hooks["retain"])
        made = self.region.differentiable
        if engine.needed is not None and asked:
            asked = {nr for nr in asked if self._leads(engine, nr)}
        for nr in sorted(asked, key=lambda k: -made[k]._node.seq if made[k]._node is not None else 0):
            own = known and self.region.hooked(nr)
            inner = self._arriving(nr, gs, own) if known else None
            g = gs[nr]
            if g is None and inner is None:
                continue
            total = g if inner is None else inner.clone() if g is None or own else g + inner
            one: list[Any] = [None] * len(gs)
            one[nr] = total
            before = total if inner is None or hooks is None else total.clone()
            if hooks is not None:
                run_tensor_hooks(self, one)
            if (id(self), nr) in engine.wanted:
                engine.captured[id(self), nr] = one[nr]
            if inner is None:
                gs[nr] = one[nr]
            elif before is not total and not (one[nr] is total and total.equal(before)):
                if own:
                    raise RuntimeError(
                        "a hook changes the gradient of a result of compiled code on which the compiled code "
                        "registered hooks of its own: what they made of it is on its way already. Register all of "
                        "them outside."
                    )
                gs[nr] = one[nr] - inner

    def _leads(self, engine: Any, nr: int) -> bool:
        """Whether a restricted pass comes by result ``nr``: it is wanted, or leads to what is."""
        return (
            (id(self), nr) in engine.wanted or self.leads(engine, nr) or bool(self.region.reached[nr] & self._leaves())
        )

    def leads(self, engine: Any, nr: int) -> bool:
        return any((id(self), n) in engine.wanted for n in self.region.inside[nr])

    def _arriving(self, nr: int, gs: list, own: bool) -> Any:
        """What other results bring to result ``nr``; with ``own`` all of it, after hooks of the captured code."""
        if all([g is None or (k == nr and not own) for k, g in enumerate(gs)]):
            return None
        found = self.region.arriving(nr, self.held, gs, self.second_sizes, self.rng, own)  # type: ignore[arg-type]
        if found is not None:
            self.given = frozenset(k for k, g in enumerate(gs) if g is not None)
            held: list = self.held or []
            read = [i for i in self.region.partial_reads(self.given) if isinstance(held[i], Tensor)]
            self._check(read, read)
        return found

    def apply(self, grads: list) -> list:
        """Gradients of the inputs that need one.

        Runs the compiled backward graph; differentiably if the grad mode is on.
        """
        given = self.asked(grads)
        if self.watched:
            self._check_watched(frozenset(k for k, g in enumerate(grads) if g is not None))
        if not given:
            return [None] * len(self.edges)
        whole = len(given) == len(grads)
        self._ready(given, whole)
        if STATE.grad or any([g is not None and g._data is None for g in grads]):
            return self._differentiable(grads, whole)
        return self._from_saved(grads, whole)

    def straight(self, nr: int, cotangent: np.ndarray) -> Any:  # type: ignore[override]
        """The gradients of the inputs from that of result ``nr`` alone, as arrays that nobody else holds (or None);
        None where that is left to ``apply``.
        """
        if self.packed or not self.edges or self.watched:
            return None
        n = len(self.specs)
        given = _ONE if n == 1 else frozenset((nr,))
        self._ready(given, n == 1)
        return self._arrays([cotangent if k == nr else None for k in range(n)], n == 1)

    def _ready(self, given: frozenset[int], whole: bool) -> None:
        """Errors of eager code where a pass from the results ``given`` may not run."""
        self.given = given
        if self.freed or not self.blocked.isdisjoint(given):
            raise freed_error()
        region = self.region
        if self.again is not None:
            self.again.check()
        if region.saved_inputs:
            self._check(region.saved_inputs if whole else region.partial_backward(given).inputs)
        if region.saved_written:
            self._check_written()
        if self.storages:
            self._check_results(region.saved_results if whole else region.partial_backward(given).results)

    def _from_saved(self, grads: list, whole: bool) -> list:
        """Gradients from what the forward saved; they can't be differentiated again."""
        arrays = [None if g is None else g._data for g in grads]
        found = self._arrays(arrays, whole)
        if STATE.run is not None and not STATE.run.into_leaves:
            found = self.laid_out(found, arrays)
        made = [None if a is None else wrap(a) for a in found]
        if STATE.inference:  # the cotangents, and views of them, are what they were
            given = [g._data for g in grads if g is not None and not g.is_inference()]
            for t in made:
                if t is not None and not any([np.may_share_memory(t._data, g) for g in given]):
                    extra_of(t).inference = True
        return made

    def laid_out(self, found: Any, cotangents: list) -> Any:
        """Gradients that ``autograd.grad`` hands out, in the layouts they have in eager code."""
        if not self.edges:
            return found
        from .region_layouts import as_cotangents, laid_out

        given = [g if k in self.given else None for k, g in enumerate(cotangents)]
        found = laid_out(self.region, self.given, given, found)
        return as_cotangents(self.region, self.given, given, found, self.held, self.second_sizes)

    def _arrays(self, grads: list, whole: bool) -> Any:
        """The same from arrays, as arrays."""
        if not self.edges:
            return []
        region, saved = self.region, self.saved
        if self.packed:
            saved = [unpack(self, a, 0)._data if type(a) is Packed else a for a in saved]
        else:
            held: list = self.held  # type: ignore[assignment]
            if self.copies and self._overwritten():
                return self._with_both(grads, True)
            for at, i in region.saved_places:
                if held[i]._data is not saved[at] and i not in region.snapshots:  # by `t.data = ...`
                    return self._with_both(grads)
            for i in region.recomputed:
                if getattr(held[i]._st, "moved", 0) > self.seq:
                    return self._with_both(grads)
        if not whole:
            return self._partial(grads, saved)
        run = region.backward_run or region.backward_program()
        if region.backward_random:
            return run(*saved, *grads, *self.sizes, *self.rng)
        return run(*saved, *grads, *self.sizes)

    def _with_both(self, grads: list, written: bool = False) -> list:
        """Gradients where ``.data`` of inputs was set since: values of the forward from what they were, what eager code
        reads of the tensors themselves from what they are. ``written``: numpy wrote to inputs, as views of them show.
        """
        region = self.region
        held: list = self.held or []
        arrays = [t._data if isinstance(t, Tensor) else t for t in held]
        then = list(arrays)
        kept = dict(zip(region.kept_apart, self.before or (), strict=True))
        kept.update((i, self.saved[at]) for at, i in region.saved_places)  # type: ignore[index]
        kept.update(self.copies)
        for i in region.recomputed_from:
            if i in region.snapshots:
                continue
            st, then[i] = held[i]._st, kept[i]
            if written and getattr(st, "moved", 0) > self.seq:
                raise RuntimeError(_MOVED.format(i))
            if st is not None and (st.version != self.held_versions[i] or getattr(st, "written", 0) > self.seq):
                raise RuntimeError(_MOVED.format(i))
        return region.gradients_of_both(then, arrays, grads, self.given, self.second_sizes, self.rng, written)

    def asked(self, grads: list) -> frozenset[int]:
        """The results with a gradient whose histories lead to a leaf that was asked for: eager code runs no node of the
        others.
        """
        given = _ONE if len(grads) == 1 else frozenset(k for k, g in enumerate(grads) if g is not None)
        run = STATE.run
        if run is None or run.needed is None:
            return given
        leaves, reached = self._leaves(), self.region.reached
        return frozenset(k for k in given if reached[k] & leaves)

    def _partial(self, grads: list, saved: Any) -> list:
        """Gradients when some results have none: what only those reach gets None, as eager has none there."""
        part = self.region.partial_backward(self.given)
        arrays = [np.zeros(s, d.np) if g is None else g for g, (s, d) in zip(grads, self.specs, strict=True)]
        found = iter(part.run(*saved, *arrays, *self.sizes, *(self.rng if part.random else ())))
        return [next(found) if keep else None for keep in part.there]

    def _check_results(self, which: Any) -> None:
        for storage, j in zip(self.storages, self.region.saved_results, strict=True):  # type: ignore[var-annotated]
            before = self.region.result_versions[j]
            moved = getattr(storage, "moved", 0) > self.seq
            if not moved and (storage.version == before or j not in which):
                continue
            what = "output" if storage.version != before or getattr(storage, "written", 0) > self.seq else "later"
            if self.region.meets(what, j, self.given, self._leaves()):
                shape, dtype = self.region.result_spec(j)
                check_version(self, before, storage.version, shape, dtype, f"output {j}")
                raise RuntimeError(_RESULT.format(j))

    def _check_written(self) -> None:
        """Changed inputs whose new contents eager code keeps."""
        for (storage, before, moved), i in zip(self.written, self.region.saved_written, strict=True):
            same = storage.version == before and getattr(storage, "moved", 0) == moved
            if same or not self.region.meets("written", i, self.given, self._leaves()):
                continue
            t = self.held[i]  # type: ignore[index]
            check_version(self, before, storage.version, t.shape, t.dtype, f"input {i}")
            raise RuntimeError(_WRITTEN.format(i))

    def _check(self, positions: Any, read: Any = ()) -> None:
        """``positions``: inputs that eager code keeps; ``read``: all that the gradients are computed from."""
        held, before = self.held, self.held_versions
        for i in positions:
            st = held[i]._st  # type: ignore[index]
            if before[i] == (0 if st is None else st.version):
                continue
            if i in read or self.region.meets("input", i, self.given, self._leaves()):
                t = held[i]  # type: ignore[index]
                check_version(self, before[i], st.version, t.shape, t.dtype, f"input {i}")

    def _changed(self, positions: Any) -> list[int]:
        """Those inputs that were changed in place since."""
        held, before = self.held, self.held_versions
        return [i for i in positions if before[i] != ((st := held[i]._st) and st.version or 0)]  # type: ignore[index]

    def _leaves(self) -> int:
        """The inputs (as bits) whose gradients this run of the engine asks for."""
        run = STATE.run
        leaves = 0 if run is not None and run.asked else 1 << self.region.hidden
        for e, nr, i in zip(self.edges, self.nrs, self.region.leaves, strict=True):
            if e is not None and (run is None or run.asks(e, nr)):
                leaves |= 1 << i
        return leaves

    def _differentiable(self, grads: list, whole: bool) -> list:
        """The same gradients as functions of the inputs and cotangents that can be differentiated again."""
        reads = self.region.gradient_reads if whole else self.region.partial_reads(self.given)
        read = [i for i in reads if isinstance(self.held[i], Tensor)]  # type: ignore[index]
        given = [g if k in self.given else None for k, g in enumerate(grads)]
        if self._changed(read) and self.region.gradients_are_fixed(given):  # eager code kept something else
            return self._from_saved(grads, whole)
        self._check(read, read)
        self._check_moved(given)
        return self.region.differentiable_gradients(self.held, given, self.second_sizes, self.rng)

    def _check_moved(self, given: list) -> None:
        """Refuse what would be computed anew from other contents: eager code kept intermediate values."""
        held: list = self.held or []
        for i in self._overwritten():
            raise RuntimeError(_SHARED.format(i))
        for i in self.region.recomputed_from:
            t = held[i]
            if isinstance(t, Tensor) and getattr(t._st, "moved", 0) > self.seq:
                raise RuntimeError(
                    f"create_graph=True after `.data` of input {i} of compiled code was set: derivatives of higher "
                    "order compute the values in between anew, and they would come from the new contents. "
                    "Set `.data` after the backward pass, or change the tensor in place."
                )


def _seen_by_others(t: Tensor, own: tuple) -> bool:
    """Whether somebody holds the array: more references than those of the tensor, of the tuples ``own`` and of guards
    (variables of the calling frames).
    """
    if t._data.base is not None:
        return True
    more = _references(t) - _ALONE - sum([a is t._data for kept in own for a in kept])
    frame, steps = sys._getframe(2), 8 if t._data.nbytes < 1 << 18 else 0  # a small copy takes less time than this
    while more > 0 and frame is not None and steps < 8:
        more -= sum([v is t._data for k, v in frame.f_locals.items() if k.startswith("_fg")])
        frame, steps = frame.f_back, steps + 1  # type: ignore[assignment]
    return more > 0


def _references(t: Tensor) -> int:
    return sys.getrefcount(t._data)


_ALONE = _references(wrap(np.zeros(1)))


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays hold the same bits."""
    if a.dtype is not b.dtype or a.shape != b.shape:
        return False
    if not a.flags.c_contiguous or not b.flags.c_contiguous:
        a, b = a.copy(), b.copy()
    return bool((a.reshape(-1).view(np.uint8) == b.reshape(-1).view(np.uint8)).all())


class ReadAgain:
    """What checkpointed functions of a call read: eager code runs them again in backward, with what is there by then.
    ``read``: reads it now.
    """

    __slots__ = ("read", "then")

    def __init__(self, read: Any) -> None:
        self.read, self.then = read, [_seen(v) for v in read()]

    def tie(self, results: tuple) -> None:
        """Backward passes from these results look whether it is still the same."""
        for t in results:
            node = t._node
            if isinstance(node, CompiledBackward):
                node.again = self

    def check(self) -> None:
        """An error where something changed."""
        try:
            now = [_seen(v) for v in self.read()]
        except Exception:  # it is gone
            now = []
        if now != self.then:
            raise RuntimeError(
                "what a checkpointed function in compiled code reads (a parameter, an attribute, a global) was changed "
                "before the backward pass: eager code runs the function again with what is there now, compiled code "
                "keeps what it computed. Change it after the backward pass."
            )


def _seen(v: Any) -> tuple:
    """What tells whether it is the same again."""
    if isinstance(v, Tensor):
        st = v._st
        return id(v), 0 if st is None else st.version, getattr(st, "moved", 0)
    return (type(v), v if v == v else None) if type(v) in _PLAIN else (type(v), id(v))


_PLAIN = (bool, int, float, complex, str, bytes)


class FreedBackward(CustomNode):
    """The grad_fn of a result whose backward must fail.

    It already ran, and freed the graph, inside the region; or the captured code changed a saved tensor in place
    (``message``).
    """

    __slots__ = ("message",)

    def __init__(self, shape: tuple, dtype: Any, message: str, edges: tuple, nrs: tuple) -> None:
        super().__init__("CompiledBackward0", edges, nrs, [(shape, dtype)])
        self.message = message

    def apply(self, grads: list) -> list:
        if self.message.startswith("the derivative for "):  # what an operator without one raises
            raise NotImplementedError(self.message)
        raise RuntimeError(self.message) if self.message else freed_error()
