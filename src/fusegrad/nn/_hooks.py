"""Hook handles, and the two autograd functions behind full backward hooks."""

from __future__ import annotations

from typing import Any

from fusegrad.autograd.handles import RemovableHandle as _Handle
from fusegrad.errors import warn
from fusegrad.nn._tracked import TrackedDict

_next_id = [0]


class RemovableHandle(_Handle):
    """Removes one hook from its dictionary: `handle.remove()`, or at the end of a `with` block."""

    def __init__(self, hooks: dict, *, extra: Any = ()):
        self.hooks = hooks
        self.id = _next_id[0]
        _next_id[0] += 1
        self.extra = tuple(extra) if isinstance(extra, (list, tuple)) else (extra,)

    def remove(self) -> None:
        for hooks in (self.hooks, *self.extra):
            if self.id in hooks:
                del hooks[self.id]

    def hooks_dict_ref(self) -> dict:
        """The dictionary that the hook is (or was) in."""
        return self.hooks

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


def add_hook(hooks: TrackedDict, hook: Any, *, prepend: bool = False, extra: Any = ()) -> RemovableHandle:
    """Store `hook` in `hooks`; the dictionaries in `extra` mark its id (with_kwargs, always_call)."""
    handle = RemovableHandle(hooks, extra=extra)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    for marks in handle.extra:
        marks[handle.id] = True
    return handle


# hooks on every module: forward_pre, forward, backward_pre, backward
GLOBAL_HOOKS: dict[str, TrackedDict] = {
    name: TrackedDict() for name in ("forward_pre", "forward", "backward_pre", "backward", "always")
}
# non-empty exactly when any global hook exists: the one thing Module.__call__ looks at
ANY_GLOBAL: TrackedDict = TrackedDict()


class _GlobalHandle(RemovableHandle):
    def remove(self) -> None:
        super().remove()
        if not any(GLOBAL_HOOKS[n] for n in ("forward_pre", "forward", "backward_pre", "backward")):
            ANY_GLOBAL.clear()


def _register_global(kind: str, hook: Any, always_call: bool = False) -> RemovableHandle:
    extra = (GLOBAL_HOOKS["always"],) if always_call else ()
    handle = _GlobalHandle(GLOBAL_HOOKS[kind], extra=extra)
    GLOBAL_HOOKS[kind][handle.id] = hook
    for marks in extra:
        marks[handle.id] = True
    ANY_GLOBAL["any"] = True
    return handle


def register_module_forward_pre_hook(hook: Any) -> RemovableHandle:
    """Call `hook(module, args)` before every module's forward."""
    return _register_global("forward_pre", hook)


def register_module_forward_hook(hook: Any, *, always_call: bool = False) -> RemovableHandle:
    """Call `hook(module, args, output)` after every module's forward."""
    return _register_global("forward", hook, always_call)


def register_module_full_backward_pre_hook(hook: Any) -> RemovableHandle:
    """Call `hook(module, grad_output)` before every module's gradient is computed."""
    return _register_global("backward_pre", hook)


def register_module_full_backward_hook(hook: Any) -> RemovableHandle:
    """Call `hook(module, grad_input, grad_output)` when every module's input gradient is known."""
    return _register_global("backward", hook)


def register_module_backward_hook(hook: Any) -> RemovableHandle:
    """The old name of ``register_module_full_backward_hook``."""
    return register_module_full_backward_hook(hook)


# hooks on what modules are given: they see it before it is stored, and may return another in its place
REGISTRATION_HOOKS: dict[str, TrackedDict] = {name: TrackedDict() for name in ("module", "parameter", "buffer")}


def to_register(kind: str, module: Any, name: str, value: Any) -> Any:
    """What is stored in place of `value`, after the hooks of its kind."""
    for hook in list(REGISTRATION_HOOKS[kind].values()):
        out = hook(module, name, value)
        value = value if out is None else out
    return value


def register_module_module_registration_hook(hook: Any) -> RemovableHandle:
    """Call `hook(module, name, submodule)` whenever a module is given a child; a returned one takes its place."""
    return add_hook(REGISTRATION_HOOKS["module"], hook)


def register_module_parameter_registration_hook(hook: Any) -> RemovableHandle:
    """Call `hook(module, name, parameter)` whenever a module is given a parameter; a returned one takes its place."""
    return add_hook(REGISTRATION_HOOKS["parameter"], hook)


def register_module_buffer_registration_hook(hook: Any) -> RemovableHandle:
    """Call `hook(module, name, buffer)` whenever a module is given a buffer; a returned one takes its place."""
    return add_hook(REGISTRATION_HOOKS["buffer"], hook)


class BackwardHooks:
    """Runs a module's full backward hooks: identities around its inputs and outputs see the gradients."""

    def __init__(self, module: Any, pre_hooks: list, hooks: list):
        self.module, self.pre_hooks, self.hooks = module, pre_hooks, hooks
        self.grad_output: tuple | None = None
        self.n_inputs = 0
        self.input_slots: list[int] = []
        self.input_types: list = []  # (shape, dtype) of the tensors that need no gradient: hooks see zeros for them
        self.output_slots: list[int] = []
        self.n_outputs = 0

    def wrap_inputs(self, args: tuple) -> tuple:
        """Pass the tensors of `args` that need a gradient through an identity."""
        from fusegrad.tensor import Tensor

        self.n_inputs = len(args)
        self.input_slots = [i for i, a in enumerate(args) if isinstance(a, Tensor) and a.requires_grad]
        tensors = [a if isinstance(a, Tensor) else None for a in args]
        self.input_types = [t if t is None or t.requires_grad else (tuple(t.shape), t.dtype) for t in tensors]
        self.input_types = [at if isinstance(at, tuple) else None for at in self.input_types]
        return self._through(args, self.input_slots, _functions()[0])

    def wrap_outputs(self, output: Any) -> Any:
        """The same for the module's result: a tensor or a tuple of them."""
        from fusegrad.tensor import Tensor

        single = isinstance(output, Tensor)
        if not single and not isinstance(output, tuple):
            warn(
                "backward hooks are called for a module whose output is a Tensor or a tuple of Tensors; the output of "
                f"{type(self.module).__name__} is a {type(output).__name__}",
                UserWarning,
            )
            return output
        outs = (output,) if single else output
        self.n_outputs = len(outs)
        self.output_slots = [i for i, a in enumerate(outs) if isinstance(a, Tensor) and a.requires_grad]
        outs = self._through(outs, self.output_slots, _functions()[1])
        return outs[0] if single else outs

    def _through(self, values: tuple, slots: list[int], fn: Any) -> tuple:
        if not slots:
            return values
        new = fn.apply(self, *[values[i] for i in slots])
        if not isinstance(new, tuple):
            new = (new,)
        values = list(values)
        for slot, tensor in zip(slots, new, strict=False):
            values[slot] = tensor  # type: ignore[index]
        return tuple(values)

    def on_output(self, grads: tuple) -> tuple:
        full = [None] * self.n_outputs
        for slot, grad in zip(self.output_slots, grads, strict=False):
            full[slot] = grad
        grad_output = tuple(full)
        for hook in self.pre_hooks:
            grad_output = _replaced(hook(self.module, grad_output), grad_output, "Backward pre hook", "grad_output")
        self.grad_output = grad_output
        if not self.input_slots:  # no identity at the inputs: this is the only place that runs
            warn(
                f"the full backward hook of {type(self.module).__name__} is called when the gradients of its outputs "
                "are known, since none of its inputs requires a gradient",
                UserWarning,
            )
            for hook in self.hooks:
                out = hook(self.module, (None,) * self.n_inputs, grad_output)
                if out is not None and any(g is not None for g in out):
                    raise RuntimeError("Backward hook returned a gradient for an input that requires none")
        return tuple(grad_output[i] for i in self.output_slots)

    def on_input(self, grads: tuple) -> tuple:
        from fusegrad.op import TABLE

        if self.grad_output is None:  # these gradients did not come through the module's outputs
            return grads
        full = [None if at is None else TABLE["zeros"](at[0], dtype=at[1]) for at in self.input_types]
        for slot, grad in zip(self.input_slots, grads, strict=False):
            full[slot] = grad
        grad_input = tuple(full)
        for hook in self.hooks:
            out = hook(self.module, grad_input, self.grad_output)
            grad_input = _replaced(out, grad_input, "Backward hook", "grad_input")
        self.grad_output = None
        return tuple(grad_input[i] for i in self.input_slots)


def _replaced(out: Any, grads: tuple, who: str, what: str) -> tuple:
    """What a module's backward hook returned in place of ``grads``. TypeError or RuntimeError if it can't take it."""
    from fusegrad.autograd.hook_calls import checked_change
    from fusegrad.tensor import Tensor

    if out is None:
        return grads
    out = (out,) if isinstance(out, Tensor) else out
    if not isinstance(out, (tuple, list)):
        raise TypeError(f"{who} must return None or a tuple for {what}, got {type(out).__name__}")
    if len(out) != len(grads):
        raise RuntimeError(f"{who} returned an invalid number of {what}, got {len(out)}, but expected {len(grads)}")
    return tuple(n if n is None or g is None else checked_change(who, g, n) for g, n in zip(grads, out, strict=True))


_FUNCTIONS: list = []


def _functions() -> list:
    if _FUNCTIONS:
        return _FUNCTIONS
    from fusegrad.autograd import Function

    class AtInputs(Function):
        @staticmethod
        def forward(ctx, hooks, *tensors):
            ctx.module_hooks = hooks
            return tuple(t.view_as(t) for t in tensors)

        @staticmethod
        def backward(ctx, *grads):
            return (None, *ctx.module_hooks.on_input(grads))

    class AtOutputs(Function):
        @staticmethod
        def forward(ctx, hooks, *tensors):
            ctx.module_hooks = hooks
            ctx.set_materialize_grads(False)
            return tuple(t.view_as(t) for t in tensors)

        @staticmethod
        def backward(ctx, *grads):
            return (None, *ctx.module_hooks.on_output(grads))

    for function in (AtInputs, AtOutputs):
        function.__name__ = "BackwardHookFunction"  # PyTorch has one name for both
        _FUNCTIONS.append(function)
    return _FUNCTIONS
