"""Whole calls of a compiled function beside the plain function: results, gradients, effects, errors, random state."""

from __future__ import annotations

import gc
import itertools
import random
import threading
import traceback
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fusegrad import dtypes, handler
from fusegrad.autograd import backward
from fusegrad.autograd import grad as gradients_of
from fusegrad.autograd.modes import SLOW, STATE, enable_grad
from fusegrad.autograd.node import CustomNode, Node
from fusegrad.autograd.saved import Packed
from fusegrad.random import default_generator
from fusegrad.random import normal as normal_numbers
from fusegrad.tensor import Tensor, wrap

from ..capture.breaks import GraphBreakError
from ..defaults import Defaults, call_plainly
from ..errors import VerificationError
from ..ir.builder import Identity
from ..region_node import CompiledBackward, FreedBackward
from .beside import Beside, possible
from .counts import note, skip
from .match import LINE, mismatch
from .noise import put_noise
from .own import OwnBuiltins
from .region_check import HERE
from .state import State, describe, history, says_by_itself, tensors_of
from .thread import THREAD

__all__ = ["Whole", "verified"]

FEW, NOISY = 4, 16  # eager runs with noise: at first, and before a difference is reported


class Whole:
    """Compares every n-th call of one function. ``before`` is asked by the function's wrapper at each call."""

    def __init__(self, f: Any, names: list[str], call: Callable[[Any, tuple], Any], every: int, original: Any) -> None:
        self.f, self.names, self.call, self.every = f, names, call, every
        self.original = original
        self._calls = itertools.count()

    def before(self, values: tuple) -> Any:
        """None: run compiled, no comparison; True: run the plain function; else the comparison of this call."""
        if THREAD.eager:
            return True
        if THREAD.inside or HERE.off or handler.current() is not None:
            return None
        if next(self._calls) % self.every:
            return None
        with OwnBuiltins() as own:
            why = self._impossible(values)
            return _Call(self, values, own) if why is None else skip(why)

    def _impossible(self, values: tuple) -> str | None:
        if not possible():
            return "this system has no fork"
        if threading.active_count() > 1:
            return "other threads are running"
        if any(t._data is None for t in tensors_of(values)):
            return "tensors without data (vmap, capture)"
        if SLOW[0] and (STATE.packers or STATE.anomaly or STATE.lines):
            return "saved tensor hooks, anomaly mode or traced lines"
        return None


class _Call:
    """One call: the eager run goes on in a child while this process runs compiled code."""

    def __init__(self, whole: Whole, values: tuple, own: OwnBuiltins) -> None:
        self.whole, self.values, self.own = whole, values, own
        self.roots = {f"argument {n}": v for n, v in zip(whole.names, values, strict=True)}
        self.roots["function"] = whole.f
        self.collects = gc.isenabled()
        self.random = random.getstate()  # Python seeds its generator anew in a child
        np.random.get_state()  # seeded now if it was not yet
        self.beside = Beside(self._eager)
        THREAD.inside = True

    def _eager(self, k: int) -> tuple[State, Any]:
        """In the child. From k = 2 on with noise in all tensors that the function can see."""
        THREAD.eager = HERE.off = True
        random.setstate(self.random)
        if k > 1:
            put_noise([t._data for t in describe(self.roots, self.whole.original)[1]], k)
        outcome = self._outcome()
        gc.disable()
        OwnBuiltins().__enter__()  # for good: this process has nothing else to do
        if not isinstance(outcome, BaseException):
            return self._state({"result": outcome[0]}, True)
        if type(outcome).__name__ == "Outside":
            raise outcome
        return self._state(_raised(outcome), True)

    def _outcome(self) -> Any:
        """In the child: the plain function's result in a tuple, or what it raised."""
        if self.collects:
            gc.enable()  # as the function may tell
        try:
            self.own.__exit__()  # the builtins of the program
            return (self.whole.call(self.whole.f, self.values),)
        except BaseException as error:
            return error

    def returned(self, value: Any) -> Any:
        """After the compiled call: the value, or VerificationError."""
        with OwnBuiltins():
            self._finish({"result": value})
        return value

    def raised(self, error: BaseException) -> None:
        """After an error of the compiled call, which is raised again: take the wrapper out of its traceback."""
        with OwnBuiltins():
            if isinstance(error, (VerificationError, GraphBreakError)):  # no errors of the program
                self._end()
                return
            own = error.__traceback__
            error.__traceback__ = own.tb_next if own is not None and own.tb_next is not None else own
            self._finish(_raised(error))

    def _finish(self, outcome: dict[str, Any]) -> None:
        try:
            HERE.off = True
            try:
                compiled, gradients = self._state(outcome, False)
                status, data = self.beside.result()
                if status != "done":
                    return skip(data)
                found = _first(data, (compiled, gradients))
                if found is None:
                    note("verified_calls")
                    return None
                status, again = self.beside.result(1)
                differs = _first(data, again) if status == "done" else again
                if differs is not None:
                    return skip(f"it gives something else each time it runs: {differs}")
                found = self._unexplained(data, (compiled, gradients))
                if found is None:
                    note("verified_calls")
                    return None
            finally:
                HERE.off = False
        finally:
            self._end()
        raise self._error(found)

    def _unexplained(self, data: Any, now: tuple) -> Any:
        """The difference that is left beside eager runs with noise: a few at first, which mostly explain it."""
        noisy: list[Any] = []
        found = None
        for k in range(NOISY):
            status, run = self.beside.result(2 + k)
            if status == "done":
                if _first(run, now) is None:
                    return None  # rounding decides which way the function goes
                noisy.append(run)
            if k % FEW == FEW - 1:
                found = _first(data, now, noisy)
                if found is None:
                    break
        return found

    def _end(self) -> None:
        THREAD.inside = False
        self.beside.close()

    def _error(self, found: Any) -> VerificationError:
        f, code = self.whole.f, self.whole.f.__code__
        numbers = found.found
        return VerificationError(
            f"{f.__qualname__} ({code.co_filename}:{code.co_firstlineno}), compiled, does not do what eager code does."
            f"\n  {found}", function=f.__qualname__, what=found.path,
            difference=numbers.size if numbers is not None else None,
            index=numbers.index if numbers is not None else None,
        )  # fmt: skip

    # -- what is compared
    def _state(self, outcome: dict[str, Any], eager: bool) -> tuple[State, State | None]:
        modes = {"grad mode": STATE.grad, "inference mode": STATE.inference}
        dtype = dtypes.get_default_dtype()
        roots = {**self.roots, **outcome, **modes, "default dtype": dtype.name, **_random()}
        state, tensors = describe(roots, self.whole.original)
        return state, self._gradients(outcome.get("result"), tensors, eager)

    def _gradients(self, value: Any, tensors: list[Tensor], eager: bool) -> State | None:
        """Gradients of leaves in sight by a backward of the results; None without any, or if it would be noticed."""
        outs = [t for t in tensors_of(value) if t._data is not None and history(t)[1]]
        leaves = [t for t in tensors if t._rg and t._node is None]
        if not outs or not leaves or not (eager or _quiet(outs, leaves)):
            return None
        cotangents = [wrap(normal_numbers(1, k, t._data.shape, t._data.dtype)) for k, t in enumerate(outs)]
        find = _into_leaves if eager and _reentrant(outs) else _at_leaves
        with enable_grad(), np.errstate(all="ignore"):
            found = _found(find, outs, leaves, cotangents)
            if isinstance(found, str) and len(outs) > 1:  # which results can be differentiated, and which not
                found = [_found(find, [t], leaves, [g]) for t, g in zip(outs, cotangents, strict=True)]
        return describe({"gradients of a backward of the results": found}, self.whole.original)[0]


def _found(find: Callable[[list, list, list], list], outs: list, leaves: list, cotangents: list) -> Any:
    """The gradients' numbers (a backward may lay them out, and share them, as it likes), or what is said instead.

    Of an error only the beginning counts: what follows names nodes and versions.
    """
    try:
        return [None if g is None else np.array(g._data, order="C") for g in find(outs, leaves, cotangents)]
    except VerificationError:
        raise
    except Exception as error:
        return f"{type(error).__name__}: {str(error).partition(':')[0]}"


def _at_leaves(outs: list[Tensor], leaves: list[Tensor], cotangents: list[Tensor]) -> list[Any]:
    return gradients_of(outs, leaves, cotangents, allow_unused=True, retain_graph=True)


def _into_leaves(outs: list[Tensor], leaves: list[Tensor], cotangents: list[Tensor]) -> list[Any]:
    """In the child, whose leaves nobody looks at any more: reentrant checkpoints refuse ``grad``."""
    for t in leaves:
        t._grad = None
    backward(outs, cotangents, retain_graph=True)
    return [t._grad for t in leaves]


def _reentrant(outs: list[Tensor]) -> bool:
    return any(isinstance(n, CustomNode) and n.name() == "CheckpointFunctionBackward" for n in _nodes(outs))


def _nodes(outs: list[Tensor]) -> Iterator[Any]:
    """The nodes, and leaves, under results."""
    todo: list[Any] = [t._node for t in outs]
    seen: set[int] = set()
    while todo:
        node = todo.pop()
        if node is not None and id(node) not in seen:
            seen.add(id(node))
            yield node
            if isinstance(node, Node):
                todo.extend(node.edges)


def _first(eager: tuple, compiled: tuple, noisy: list[tuple] | None = None) -> Any:
    """The first difference of (state, gradients), allowing for the spread of noisy runs."""
    runs = noisy or []
    found = mismatch(eager[0], compiled[0], [r[0] for r in runs])
    if found is None and eager[1] is not None and compiled[1] is not None:
        found = mismatch(eager[1], compiled[1], [r[1] for r in runs if r[1] is not None])
    return found


def _raised(error: BaseException) -> dict[str, Any]:
    message = str(error) if says_by_itself(error) else None
    return {"exception": error, "message of the exception": message, LINE: _line(error)}


def _line(error: BaseException) -> str:
    """The last line of a traceback that is not in this package."""
    found = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        if (frame.f_globals.get("__name__") or "").partition(".")[0] != "fusegrad":
            found = f"{frame.f_code.co_filename}:{line}"
    return found


def _random() -> dict[str, Any]:
    legacy: Any = np.random.get_state(legacy=False)
    return {
        "random numbers of fusegrad": default_generator.state,
        "random numbers of Python": hash(random.getstate()),
        "random numbers of numpy": str(legacy["state"]["pos"]) + str(hash(legacy["state"]["key"].tobytes())),
    }


def _quiet(outs: list[Tensor], leaves: list[Tensor]) -> bool:
    """Whether a backward runs no code of the user: no hooks, no custom Functions, no checkpoints."""
    if any(t._extra is not None and (t._extra.hooks or t._extra.post_hooks) for t in leaves):
        return False
    for node in _nodes(outs):
        if isinstance(node, Tensor):
            if node._extra is not None and (node._extra.hooks or node._extra.post_hooks):
                return False
            continue
        own = isinstance(node, (CompiledBackward, FreedBackward, Identity)) or not isinstance(node, CustomNode)
        if isinstance(node, CompiledBackward) and getattr(node, "checked", None) is None:
            return False  # its backward may not be compiled yet, and must not be for our sake
        if node.hooks or not own or _packed(node) or not isinstance(node, Node):
            return False
    return True


def _packed(node: Any) -> bool:
    """Whether the hooks of a user (or of a checkpoint, which runs its function again) keep what a node saved."""
    todo = [*(getattr(node, "saved", None) or ()), *(getattr(node, "out", None) or ())]
    while todo:
        kept = todo.pop()
        if isinstance(kept, Packed):
            return True
        if isinstance(kept, (tuple, list)):
            todo.extend(kept)
    return bool(getattr(node, "packed", False))


def wrapper_source(name: str, signature: str, args: str, plain_call: str) -> str:
    """Source of the function that the user gets: the dispatcher, compared at some calls."""
    return "\n".join([
        f"def {name}({signature}):",
        *([f"    {args} = _fgrenewed(({args}))"] if args else []),
        f"    _fgc = _fgbefore(({args}))",
        "    if _fgc is None:",
        f"        return _fginner({plain_call})",
        "    if _fgc is True:",
        f"        return _fgplain({plain_call})",
        "    try:",
        f"        _fgout = _fginner({plain_call})",
        "    except BaseException as _fge:",
        "        _fgc.raised(_fge)",
        "        raise",
        "    return _fgc.returned(_fgout)",
    ])  # fmt: skip


def verified(unit: Any, f: Any, every: int, original: Any) -> types.FunctionType:
    """A function like the unit's dispatcher whose calls are compared with ``f``."""
    from ..capture.lines import compile_at

    code = f.__code__
    whole = Whole(f, unit.names, lambda fn, values: call_plainly(f.__code__, fn, values), every, original)
    # _fgSLOW: how warnings know a frame of generated code
    env = {
        "_fgSLOW": SLOW,
        "_fgbefore": whole.before,
        "_fginner": unit.dispatch,
        "_fgplain": f,
        "__builtins__": __builtins__,
    }
    name = code.co_name if code.co_name.isidentifier() else "f"
    comma = "," if unit.names else ""
    source = wrapper_source(name, unit.signature, f"{unit.args_text}{comma}", unit.plain_call)
    made = compile_at(source, code.co_filename, code.co_firstlineno, env)
    made.__code__ = made.__code__.replace(co_name=code.co_name, co_qualname=code.co_qualname)
    env["_fgrenewed"] = Defaults(f, made).renewed
    return made
