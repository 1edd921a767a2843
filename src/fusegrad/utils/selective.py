"""Selective checkpoints: the results of some operators are kept, so that the second run need not compute them."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

from fusegrad.autograd.modes import STATE, slow_paths
from fusegrad.dispatch import run_kernel
from fusegrad.tensor import Tensor

from .aten import Overload, called, names_of


class CheckpointPolicy(enum.Enum):
    """What a selective checkpoint does with the result of an operator. (Offloaded to the CPU is kept: it is there.)"""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


class SelectiveCheckpointContext:
    """What a policy gets first. ``is_recompute``: always False, as a policy is asked in the first run alone."""

    def __init__(self, *, is_recompute: bool) -> None:
        self.is_recompute = is_recompute


_AGAIN = (CheckpointPolicy.MUST_RECOMPUTE, CheckpointPolicy.PREFER_RECOMPUTE)


class _Results:
    """What both runs share: for each operator, what its calls gave, in order (None: compute it again)."""

    def __init__(self, policy: Callable, may_change: bool) -> None:
        self.policy, self.may_change = policy, may_change
        self.calls: dict[str, list[Any]] = {}
        self.read: dict[str, int] = {}


class _Context:
    """Sends the operators of this thread through ``meet``. One context may be entered again, inside of itself too."""

    def __init__(self, results: _Results) -> None:
        self.results = results
        self.before: list[Any] = []

    def __enter__(self) -> None:
        self.before.append(STATE.meet)
        slow_paths(1)
        STATE.meet = self.meet

    def __exit__(self, *error: Any) -> None:
        STATE.meet = self.before.pop()
        slow_paths(-1)

    def meet(self, op: Any, args: tuple, attrs: dict[str, Any]) -> Any:
        raise NotImplementedError


class _First(_Context):
    def meet(self, op: Any, args: tuple, attrs: dict[str, Any]) -> Any:
        meet, STATE.meet = STATE.meet, None  # a policy may compute
        try:
            out = run_kernel(op, args, attrs)
            given = {k: v for k, v in attrs.items() if k not in ("seed", "draw")}
            wanted = self.results.policy(
                SelectiveCheckpointContext(is_recompute=False),
                Overload(called(op.name, args), operator=op.name.rpartition(".")[2]),
                *args,
                **given,
            )
        finally:
            STATE.meet = meet
        keep = (wanted is True or isinstance(wanted, CheckpointPolicy) and wanted not in _AGAIN) and op.kind != "view"
        self.results.calls.setdefault(op.name, []).append(_kept(out) if keep else None)
        return out


class _Again(_Context):
    changed = ""  # an operator whose kept result was changed: an error unless nothing more is computed

    def __enter__(self) -> None:
        self.results.read.clear()
        self.changed = ""
        super().__enter__()

    def meet(self, op: Any, args: tuple, attrs: dict[str, Any]) -> Any:
        results = self.results
        calls, number = results.calls.get(op.name, []), results.read.get(op.name, 0)
        results.read[op.name] = number + 1
        if number >= len(calls):
            raise RuntimeError(
                f"{op.name} encountered during backward, but not found in storage: a function in a selective "
                "checkpoint must do the same in both runs"
            )
        if self.changed:
            raise RuntimeError(
                f"Tensor cached during selective activation checkpoint has been mutated: the result of {self.changed}. "
                "Change a copy, compute it again (the policy), or pass allow_cache_entry_mutation=True"
            )
        found = calls[number]
        if found is None:
            return run_kernel(op, args, attrs)
        if found == _GONE:
            raise RuntimeError(
                "Trying to backward an extra time. You are only allowed to backward once on any region computed under "
                "selective activation checkpoint."
            )
        calls[number] = _GONE
        if not results.may_change and any(_version(t) != version for t, version in found):
            self.changed = op.name
            return run_kernel(op, args, attrs)
        outs = tuple(t.detach() for t, _ in found)
        return outs if op.n_out != 1 else outs[0]


_GONE = "read"


def _kept(out: Any) -> list[tuple[Tensor, int]]:
    """Results without their history: what a backward releases is not held by them."""
    kept = [t.detach() for t in (out if isinstance(out, (tuple, list)) else (out,))]
    return [(t, _version(t)) for t in kept]


def _version(t: Tensor) -> int:
    return t._st.version if t._st is not None else 0


def _policy_of(listed: list) -> Callable:
    wanted: set[str] = set()
    for fn in listed:
        names = names_of(fn)
        if names is None:
            raise ValueError(
                f"Expected op in `op_list` to be an OpOverload but got: {fn!r} of type {type(fn)}: pass "
                "fusegrad.ops.aten.mm.default, or the function fusegrad.mm"
            )
        wanted |= names

    def policy(ctx: Any, op: Overload, *args: Any, **kwargs: Any) -> CheckpointPolicy:
        listed = not wanted.isdisjoint((op.packet, op.operator))
        return CheckpointPolicy.MUST_SAVE if listed else CheckpointPolicy.PREFER_RECOMPUTE

    return policy


def create_selective_checkpoint_contexts(policy_fn_or_list: Any, allow_cache_entry_mutation: bool = False) -> tuple:
    """The two contexts of a checkpoint that keeps the results of some operators: what its ``context_fn`` gives.

    ``policy_fn_or_list``: operators whose results are kept, or ``policy(ctx, op, *args, **kwargs)`` that gives a
    ``CheckpointPolicy`` for each operator that runs. ``op`` compares equal to ``fusegrad.ops.aten.mm.default`` and to
    ``fusegrad.mm``; operators are those of this package (``linear`` is one; it is equal to ``aten.addmm``, without a
    bias ``aten.mm``, as well). Views are never kept: making them again costs nothing. A kept result that is changed in
    place is refused, unless ``allow_cache_entry_mutation``. In compiled code the compiler chooses what to keep.
    """
    if isinstance(policy_fn_or_list, list):
        policy = _policy_of(policy_fn_or_list)
    elif callable(policy_fn_or_list):
        policy = policy_fn_or_list
    else:
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    results = _Results(policy, allow_cache_entry_mutation)
    return _First(results), _Again(results)
