"""Checkpointing: keep only a function's inputs and compute its intermediate values again in backward.

Without reentrance every tensor that the function would save is replaced by a note; the first note that backward reads
runs the function once more, up to the last tensor that is needed. With reentrance (what PyTorch does, with a warning,
where a call says neither) the function is one node whose backward runs it again with its own backward pass inside.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from fusegrad.autograd import Function
from fusegrad.autograd.graph import saved_tensors_hooks
from fusegrad.autograd.modes import STATE, enable_grad, no_grad
from fusegrad.autograd.saved import Packed, packed, unpack
from fusegrad.errors import warn
from fusegrad.random import get_rng_state, set_rng_state
from fusegrad.tensor import Tensor

from .selective import CheckpointPolicy, SelectiveCheckpointContext, create_selective_checkpoint_contexts

__all__ = [
    "CheckpointError", "CheckpointFunction", "CheckpointPolicy", "SelectiveCheckpointContext", "checkpoint",
    "checkpoint_sequential", "create_selective_checkpoint_contexts", "noop_context_fn", "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
]  # fmt: skip


class _Early(threading.local):
    stop: bool | None = None


_early = _Early()


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Inside, functions checkpointed without reentrance end their second run early or not, whatever they were told."""
    before, _early.stop = _early.stop, enable
    try:
        yield
    finally:
        _early.stop = before


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Changes nothing: errors name the tensors that differ in any case."""
    yield


class CheckpointError(RuntimeError):
    """The second run of a checkpointed function did not save what the first run saved."""


class _Enough(Exception):
    """Ends the second run: everything that is needed is there."""


def noop_context_fn() -> tuple:
    """Contexts of the first and of the second run that do nothing."""
    return contextlib.nullcontext(), contextlib.nullcontext()


class _Frame:
    """One checkpointed call: how to run it again, and what the second run gave."""

    def __init__(self, run: Callable, args: tuple, keep_rng: bool, early_stop: bool, check: bool, again: Any) -> None:
        self.run, self.early_stop, self.check, self.again = run, early_stop, check, again
        hooks = STATE.packers[-1] if STATE.packers else None  # of the code around, another checkpoint's perhaps
        self.args = [packed(a, hooks) if hooks and isinstance(a, Tensor) else a for a in args]
        self.versions = [_version(a) for a in self.args]
        self.state = get_rng_state() if keep_rng else None
        self.saved: list[tuple] = []  # (shape, dtype) of each tensor, in the order of saving
        self.values: dict[int, Tensor] = {}
        self.done = False  # whether the first run is over: it may differentiate what it computed
        self.inner = False  # whether it did, before it had saved everything
        self.run_of: Any = None  # the backward pass that reads, and what it has read
        self.read: set[int] = set()

    def pack(self, t: Tensor) -> int:
        self.saved.append((tuple(t.shape), t.dtype))
        return len(self.saved) - 1

    def unpack(self, number: int) -> Tensor:
        if number not in self.values:
            if STATE.run is not None and self.reader() is STATE.run and number in self.read:
                raise CheckpointError(
                    "checkpoint: a tensor that was saved in a checkpointed function is read twice in one backward "
                    "pass. Read ctx.saved_tensors once in a backward, and keep what it gives in a variable."
                )
            self.recompute()
        if STATE.run is not None:
            if self.reader() is not STATE.run:
                self.run_of, self.read = weakref.ref(STATE.run), set()
            self.read.add(number)
        return self.values.pop(number)

    def reader(self) -> Any:
        """The backward pass that read last."""
        return self.run_of and self.run_of()

    def recompute(self) -> None:
        """Run the function again and catch what it saves."""
        count = 0
        for k, (a, version) in enumerate(zip(self.args, self.versions, strict=True)):
            if _version(a) != version:
                raise RuntimeError(
                    "one of the variables needed for gradient computation has been modified by an inplace operation: "
                    f"argument {k} of a checkpointed function, which runs once more now, is at version {_version(a)}; "
                    f"expected version {version} instead. Hint: change a copy (x = x.clone())"
                )

        def catch(t: Tensor) -> Tensor:
            nonlocal count
            number, count = count, count + 1
            if number < len(self.saved):
                self.compare(number, t)
                self.values[number] = t.detach() if t.requires_grad else t
                if self.early_stop and number == len(self.saved) - 1:
                    raise _Enough
            elif not self.done:
                self.inner = True
            return t

        before = get_rng_state() if self.state is not None else None
        given = [unpack(None, a, 0) if isinstance(a, Packed) else a for a in self.args]
        args = tuple(a.detach()._ask_grad(True) if isinstance(a, Tensor) and a.requires_grad else a for a in given)
        try:
            if self.state is not None:
                set_rng_state(self.state)
            with self.again, enable_grad(), saved_tensors_hooks(catch, lambda t: t):
                self.run(*args)
        except _Enough:
            return
        finally:
            if before is not None:
                set_rng_state(before)
        if count != len(self.saved) and not self.inner:
            raise CheckpointError(
                "checkpoint: A different number of tensors was saved during the original forward and recomputation.\n"
                f"Number of tensors saved during forward: {len(self.saved)}\n"
                f"Number of tensors saved during recomputation: {count}.\n"
                "The function must do the same in both runs (it may not depend on state that changed in between)."
            )

    def compare(self, number: int, t: Tensor) -> None:
        if self.check and (tuple(t.shape), t.dtype) != self.saved[number]:
            raise CheckpointError(
                "checkpoint: Recomputed values for the following tensors have different metadata than during the "
                f"forward pass.\ntensor at position {number}:\nsaved metadata: {self.saved[number]}\n"
                f"recomputed metadata: {(tuple(t.shape), t.dtype)}"
            )


def _version(a: Any) -> int:
    return a._st.version if isinstance(a, Tensor) and a._st is not None else 0


class CheckpointFunction(Function):
    """The reentrant form."""

    @staticmethod
    def forward(ctx: Any, run: Callable, keep_rng: bool, args: tuple, *tensors: Tensor) -> Any:
        ctx.run, ctx.args, ctx.keep_rng = run, args, keep_rng
        ctx.state = get_rng_state() if keep_rng else None
        ctx.save_for_backward(*tensors)
        with no_grad():
            out = run(*args)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        import fusegrad

        if STATE.run is None or not STATE.run.into_leaves:  # None: the short form of ``grad``
            raise RuntimeError(
                "When use_reentrant=True, checkpoint is incompatible with .grad() or passing an `inputs` parameter to "
                ".backward(): its inner pass accumulates into the leaves. Use use_reentrant=False."
            )
        saved = iter(ctx.saved_tensors)
        inputs: list[Tensor] = []

        def fresh(value: Any) -> Any:
            if not isinstance(value, Tensor):
                return value
            t = next(saved)
            t = t.detach()._ask_grad(t.requires_grad)
            inputs.append(t)
            return t

        args = tuple(fresh(a) for a in ctx.args)
        before = get_rng_state() if ctx.keep_rng else None
        try:
            if ctx.keep_rng:
                set_rng_state(ctx.state)
            with enable_grad():
                out = ctx.run(*args)
        finally:
            if before is not None:
                set_rng_state(before)
        outs = (out,) if isinstance(out, Tensor) else tuple(out)
        pairs = [(o, g) for o, g in zip(outs, grads, strict=False) if isinstance(o, Tensor) and g is not None]
        pairs = [(o, g) for o, g in pairs if o.requires_grad]
        if not pairs:
            raise RuntimeError("none of the outputs of the checkpointed function require a gradient")
        fusegrad.autograd.backward([o for o, _ in pairs], [g for _, g in pairs])
        return (None, None, None, *(t.grad for t in inputs))


def checkpoint(
    function: Callable,
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], tuple] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    preserve_rng_state: bool = True,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """Run ``function(*args, **kwargs)`` without keeping intermediate values; backward runs it once more.

    Random numbers are the same in both runs unless ``preserve_rng_state`` is False. Gradients flow to tensors among
    ``args`` and to whatever else the function uses. ``use_reentrant=True`` asks for the old form: no keyword arguments,
    no ``autograd.grad``, no double backward, and gradients only if one of ``args`` requires them. It is also what is
    done without ``use_reentrant``, with a warning.
    ``determinism_check``: "default" compares shapes and dtypes of both runs, "none" does not (CheckpointError where
    they differ). ``early_stop``: the second run ends with the last tensor that is needed.
    """
    if determinism_check not in ("default", "none"):
        raise ValueError(f"determinism_check should be one of ('default', 'none') but got {determinism_check!r}")
    if use_reentrant is None:
        warn(
            "checkpoint: pass use_reentrant explicitly. Without it the older form is used, as with use_reentrant=True: "
            "gradients need an argument that requires one, and autograd.grad is refused. use_reentrant=False is better",
            UserWarning,
        )
        use_reentrant = True
    if use_reentrant:
        if context_fn is not noop_context_fn or debug:
            raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
        if kwargs:
            raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    if not STATE.grad:
        return function(*args, **kwargs)
    if use_reentrant:
        tensors = [a for a in args if isinstance(a, Tensor)]
        if not any(t.requires_grad for t in tensors):
            warn("None of the inputs have requires_grad=True. Gradients will be None")
            with no_grad():
                return function(*args)
    if any(isinstance(a, Tensor) and a._data is None for a in args):
        return function(*args, **kwargs)  # in a graph the partition decides what is computed again
    if use_reentrant:
        return CheckpointFunction.apply(function, preserve_rng_state, args, *tensors)
    first, again = context_fn()
    early_stop = early_stop if _early.stop is None else _early.stop
    frame = _Frame(
        (lambda *a: function(*a, **kwargs)) if kwargs else function,
        args, preserve_rng_state, early_stop, determinism_check == "default", again,
    )  # fmt: skip
    with first, saved_tensors_hooks(frame.pack, frame.unpack):
        out = function(*args, **kwargs)
    frame.done = True
    return out


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """Run a Sequential (or a list) in `segments` checkpointed parts; the last part is recorded as usual. ``kwargs``:
    ``preserve_rng_state``."""
    preserve_rng_state = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    parts = list(functions.children()) if hasattr(functions, "children") else list(functions)
    size = len(parts) // segments

    def chain(start: int, end: int) -> Callable:
        def run(x: Any) -> Any:
            for part in parts[start:end]:
                x = part(x)
            return x

        return run

    end = 0
    for start in range(0, size * (segments - 1), size):
        end = start + size
        input = checkpoint(chain(start, end), input, use_reentrant=use_reentrant, preserve_rng_state=preserve_rng_state)
    return chain(end, len(parts))(input)
