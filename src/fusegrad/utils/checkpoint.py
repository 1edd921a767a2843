"""Checkpointing: keep only a function's inputs and compute its intermediate values again in backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fusegrad.autograd import Function
from fusegrad.autograd.modes import STATE, enable_grad, no_grad
from fusegrad.random import get_rng_state, set_rng_state
from fusegrad.tensor import Tensor


class _Checkpoint(Function):
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

        saved = iter(ctx.saved_tensors)
        inputs: list[Tensor] = []

        def fresh(value: Any) -> Any:
            if not isinstance(value, Tensor):
                return value
            t = next(saved)
            t = t.detach().requires_grad_(t.requires_grad)
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
            if ctx.keep_rng:
                set_rng_state(before)  # type: ignore[arg-type]
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
    context_fn: Any = None,
    determinism_check: str = "default",
    debug: bool = False,
    preserve_rng_state: bool = True,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """Run ``function(*args, **kwargs)`` without keeping intermediate values; backward runs it once more.

    Random numbers are the same in both runs unless ``preserve_rng_state`` is False.  Gradients flow to tensors
    among ``args`` and to any parameters that the function uses.
    """
    run = function if not kwargs else (lambda *a: function(*a, **kwargs))
    if not STATE.grad:
        return run(*args)
    tensors = [a for a in args if isinstance(a, Tensor)]
    if not any(t.requires_grad for t in tensors):
        # nothing among the arguments asks for a gradient: record as usual, parameters may
        return run(*args)
    return _Checkpoint.apply(run, preserve_rng_state, args, *tensors)


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, preserve_rng_state: bool = True
) -> Any:
    """Run a Sequential (or a list) in `segments` checkpointed parts; the last part is recorded as usual."""
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
        input = checkpoint(chain(start, end), input, preserve_rng_state=preserve_rng_state)
    return chain(end, len(parts))(input)
