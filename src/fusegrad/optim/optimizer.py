"""Optimizer: parameter groups, per-parameter state, hooks, and the loop that all optimizers share."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable
from copy import deepcopy
from itertools import chain
from typing import Any

from fusegrad import dtypes
from fusegrad.autograd.modes import enable_grad, no_grad, set_grad_enabled
from fusegrad.nn._hooks import RemovableHandle, add_hook
from fusegrad.nn._tracked import TrackedDict
from fusegrad.tensor import Tensor


class _Required:
    """Marks a setting that has no default: every group must give it."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()
_GLOBAL_PRE: TrackedDict = TrackedDict()
_GLOBAL_POST: TrackedDict = TrackedDict()
_HOOK_DICTS = (
    "_optimizer_step_pre_hooks",
    "_optimizer_step_post_hooks",
    "_optimizer_state_dict_pre_hooks",
    "_optimizer_state_dict_post_hooks",
    "_optimizer_load_state_dict_pre_hooks",
    "_optimizer_load_state_dict_post_hooks",
)


def register_optimizer_step_pre_hook(hook: Callable) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` before every optimizer's step."""
    return add_hook(_GLOBAL_PRE, hook)


def register_optimizer_step_post_hook(hook: Callable) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` after every optimizer's step."""
    return add_hook(_GLOBAL_POST, hook)


def _with_hooks(step: Callable) -> Callable:
    @functools.wraps(step)
    def hooked(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        if not (self._optimizer_step_pre_hooks or self._optimizer_step_post_hooks or _GLOBAL_PRE or _GLOBAL_POST):
            out = step(self, *args, **kwargs)
            self._opt_called = True
            return out
        given: Any = (self, *args)  # hooks see the arguments of the function, as in PyTorch
        for hook in chain(list(_GLOBAL_PRE.values()), list(self._optimizer_step_pre_hooks.values())):
            result = hook(self, given, kwargs)
            if result is not None:
                if not (isinstance(result, tuple) and len(result) == 2):
                    raise RuntimeError(
                        f"{step} must return None or a tuple of (new_args, new_kwargs), but got {result}."
                    )
                given, kwargs = result
        out = step(*given, **kwargs)
        self._opt_called = True
        for hook in chain(list(self._optimizer_step_post_hooks.values()), list(_GLOBAL_POST.values())):
            hook(self, given, kwargs)
        return out

    hooked._hooked = True
    return hooked


def scalar_dtype() -> dtypes.dtype:
    """The dtype of step counters: float64 if that is the default, else float32."""
    d = dtypes.get_default_dtype()
    return d if d is dtypes.float64 else dtypes.float32


def new_step(value: float = 0.0) -> Tensor:
    """A step counter."""
    from fusegrad import tensor

    return tensor(value, dtype=scalar_dtype())


def value_of(t: Any) -> Any:
    """The number in a 0-d state tensor; while a graph is captured, the tensor itself in float64."""
    if not isinstance(t, Tensor):
        return t
    return t._data.item() if t._data is not None else t.to(dtypes.float64)


def zeros_like(p: Tensor) -> Tensor:
    """State of the parameter's shape and dtype, zero."""
    import fusegrad

    return fusegrad.zeros_like(p)


class Optimizer:
    """Base class: holds parameter groups and the state kept for each parameter."""

    state: defaultdict
    _opt_called = False  # whether a step was made: schedulers ask

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        step = cls.__dict__.get("step")
        if step is not None and not getattr(step, "_hooked", False):
            cls.step = _with_hooks(step)

    def __init__(self, params: Any, defaults: dict[str, Any]):
        if defaults.get("fused") and defaults.get("foreach"):
            raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
        if defaults.get("fused") and defaults.get("differentiable"):
            raise RuntimeError("`fused` does not support `differentiable`")
        self.defaults = defaults
        self._reset_hooks()
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, but got "
                + type(params).__name__
            )
        self.state = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(dict(group))

    def _reset_hooks(self) -> None:
        for name in _HOOK_DICTS:
            self.__dict__.setdefault(name, TrackedDict())

    def __getstate__(self) -> dict:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)
        self._reset_hooks()
        self.defaults.setdefault("differentiable", False)

    def __repr__(self) -> str:
        lines = [type(self).__name__ + " ("]
        for i, group in enumerate(self.param_groups):
            lines += [""] * (i > 0) + [f"Parameter Group {i}"]
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return "\n".join(lines) + "\n)"

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group: a dict with "params" (tensors, or (name, tensor) pairs) and settings of its own."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        params = param_group["params"]
        if isinstance(params, Tensor):
            params = [params]
        elif isinstance(params, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the ordering of tensors in "
                "sets will change between runs. Please use a list instead."
            )
        params = list(params)
        if params and isinstance(params[0], tuple):
            param_group["param_names"] = [name for name, _ in params]
            params = [p for _, p in params]
        for p in params:
            if not isinstance(p, Tensor):
                raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {type(p).__name__}")
            if not self.defaults.get("differentiable") and not (p.is_leaf or p.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor")
        param_group["params"] = params
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(f"parameter group didn't specify a value of required optimization parameter {name}")
            param_group.setdefault(name, default)
        ids = [id(p) for p in params]
        if len(ids) != len(set(ids)):
            import warnings

            warnings.warn("optimizer contains a parameter group with duplicate parameters", stacklevel=3)
        taken = {id(p) for group in self.param_groups for p in group["params"]}
        if not taken.isdisjoint(ids):
            raise ValueError("some parameters appear in more than one parameter group")
        if self.param_groups and ("param_names" in param_group) != ("param_names" in self.param_groups[0]):
            raise ValueError("all optimizer param groups should be with/without names.")
        self.param_groups.append(param_group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset the gradients of all parameters."""
        for group in self.param_groups:
            for p in group["params"]:
                if set_to_none:
                    p.grad = None  # whatever it was: compiled code need not ask
                elif p.grad is not None:
                    if p.grad.requires_grad:
                        p.grad.detach_()
                    p.grad.zero_()  # in place: whoever holds it sees zeros

    def step(self, closure: Callable | None = None) -> Any:
        """Update the parameters."""
        raise NotImplementedError

    # ---- state ------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """{"state": {parameter number: its state}, "param_groups": settings with parameter numbers}."""
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        numbers: dict[int, int] = {}
        groups = []
        for group in self.param_groups:
            for p in group["params"]:
                numbers.setdefault(id(p), len(numbers))
            packed = {k: v for k, v in group.items() if k != "params"}
            packed["params"] = [numbers[id(p)] for p in group["params"]]
            groups.append(packed)
        state = {(numbers[id(k)] if isinstance(k, Tensor) else k): v for k, v in self.state.items() if v}
        out = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():
            result = hook(self, out)
            out = out if result is None else result
        return out

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take state and settings from a `state_dict` of an optimizer with groups of the same sizes."""
        state_dict = dict(state_dict)
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            result = hook(self, state_dict)
            state_dict = state_dict if result is None else result
        saved = deepcopy(state_dict["param_groups"])
        if len(saved) != len(self.param_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(a["params"]) != len(b["params"]) for a, b in zip(saved, self.param_groups, strict=False)):
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of optimizer's group"
            )
        by_number = dict(
            zip(
                chain.from_iterable(g["params"] for g in saved),
                chain.from_iterable(g["params"] for g in self.param_groups),
                strict=True,
            )
        )
        state: defaultdict = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in by_number:
                state[by_number[key]] = {k: _fit(by_number[key], k, v) for k, v in value.items()}
            else:
                state[key] = value
        for new, old in zip(saved, self.param_groups, strict=False):
            new["params"] = old["params"]
            if "param_names" in old and "param_names" not in new:
                new["param_names"] = old["param_names"]
        self.__setstate__({"state": state, "param_groups": saved})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    # ---- hooks ------------------------------------------------------------------------------------

    def register_step_pre_hook(self, hook: Callable) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` before step."""
        return add_hook(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` after step."""
        return add_hook(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer)` before state_dict."""
        return add_hook(self._optimizer_state_dict_pre_hooks, hook, prepend=prepend)

    def register_state_dict_post_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` after state_dict; a returned dict replaces it."""
        return add_hook(self._optimizer_state_dict_post_hooks, hook, prepend=prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` before loading; a returned dict replaces it."""
        return add_hook(self._optimizer_load_state_dict_pre_hooks, hook, prepend=prepend)

    def register_load_state_dict_post_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer)` after loading."""
        return add_hook(self._optimizer_load_state_dict_post_hooks, hook, prepend=prepend)


def _fit(param: Tensor, key: str, value: Any) -> Any:
    """A copy of a loaded state value in the parameter's dtype (the step counter keeps its own)."""
    if isinstance(value, Tensor):
        if key != "step" and param.is_floating_point() and value.is_floating_point():
            value = value.to(param.dtype)
        return value.detach().clone()
    if isinstance(value, dict):
        return {k: _fit(param, k, v) for k, v in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        return type(value)(_fit(param, key, v) for v in value)  # type: ignore[call-arg]
    return deepcopy(value)


class PerParameter(Optimizer):
    """An optimizer whose update treats every parameter alone: subclasses give `_start` and `_update`."""

    def _start(self, p: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        """Fill the empty state of a parameter."""

    def _first(self, p: Tensor, state: dict[str, Any], group: dict[str, Any]) -> bool:
        """Fill the empty state before the first step, so that this step does what it would do with an empty one.

        Only if that follows from the parameter's shape, dtype and the settings (for the compiler); else False.
        """
        if not type(self).__module__.startswith("fusegrad.optim."):
            return False
        self._start(p, state, group)
        return True

    def _update(self, p: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        """Change `p` in place."""
        raise NotImplementedError

    def step(self, closure: Callable | None = None) -> Any:
        """Update every parameter that has a gradient; returns the loss of `closure` if one is given."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        with set_grad_enabled(True) if self.defaults.get("differentiable") else no_grad():
            for group in self.param_groups:
                for p in group["params"]:
                    grad = p.grad
                    if grad is None:
                        continue
                    state = self.state[p]
                    if not state:
                        self._start(p, state, group)
                    if group.get("maximize"):
                        grad = -grad
                    self._update(p, grad, state, group)
        return loss


_SHOWN = {"lr": "learning rate", "eps": "epsilon value"}


def decayed(p: Tensor, grad: Tensor, group: dict[str, Any]) -> Tensor:
    """The gradient with L2 weight decay; decoupled decay changes `p` instead."""
    decay = group["weight_decay"]
    if decay == 0:
        return grad
    if group.get("decoupled_weight_decay"):
        p.mul_(1 - group["lr"] * decay)
        return grad
    return grad.add(p, alpha=decay)


def settings(given: dict[str, Any], *at_least_zero: str) -> dict[str, Any]:
    """The defaults of an optimizer: the arguments of its `__init__` (`locals()` on its first lines), checked.

    at_least_zero: names of the settings that must not be negative ("betas": in [0, 1)), in the order of the checks."""
    values = {name: value for name, value in given.items() if name not in ("self", "params", "__class__")}
    for name in at_least_zero:
        if name == "betas":
            check_betas(values[name])
        else:
            check_at_least(_SHOWN.get(name, f"{name} value"), values[name])
    return values


def check_at_least(name: str, value: Any, low: float = 0.0) -> None:
    """ValueError for a setting below `low` (tensors are taken by their value, and must have one element)."""
    if isinstance(value, Tensor) and value.numel() != 1:
        raise ValueError(f"Tensor {name} must be 1-element")
    if isinstance(value, str) or not hasattr(value, "__float__"):
        raise TypeError(f"{name} must be a number, not {type(value).__name__}")
    if not low <= float(value):
        raise ValueError(f"Invalid {name}: {value}")


def check_betas(betas: Any) -> None:
    """ValueError for decay rates outside [0, 1)."""
    for i, beta in enumerate(betas):
        if not 0.0 <= float(beta) < 1.0:
            raise ValueError(f"Invalid beta parameter at index {i}: {beta}")
