"""What forward changes besides its state: tensors from before, gradients, random numbers. None can be repeated."""

from __future__ import annotations

import gc
import random
import threading
from typing import Any

import numpy as np

from fusegrad import dtypes
from fusegrad import random as draws
from fusegrad.autograd.modes import STATE, slow_paths
from fusegrad.errors import warn
from fusegrad.nn import Parameter
from fusegrad.optim.optimizer import register_optimizer_step_pre_hook
from fusegrad.place import root_array
from fusegrad.sizes import user_line
from fusegrad.tensor import Tensor

from .errors import ExportError

_STEP = (
    "the step of an optimizer that was made before cannot be exported: take gradients with autograd.grad, and write "
    "the new values into the module's parameters by their attributes, under no_grad"
)


def tensors() -> list[Tensor]:
    """All real tensors that are alive. (By type: a proxy's ``__class__`` would run the user's code.)"""
    if gc.get_freeze_count():  # the collector does not tell of what `gc.freeze` put away
        gc.unfreeze()
    kinds, known = [Tensor], {Tensor}
    for kind in kinds:  # grows
        new = [k for k in type.__subclasses__(kind) if k not in known]
        kinds += new
        known.update(new)
    # an instance refers to its class: several times faster than to list all objects of a large program
    return [o for o in gc.get_referrers(*kinds) if type(o) in known and o._data is not None]


class Outside:
    """While it is entered, in-place changes of tensors from before are refused; ``check`` looks for the rest.

    Tensors that forward makes of real numbers may be changed, also those of an earlier attempt at the same export: the
    builder is told before it happens.
    """

    def __init__(self, builder: Any, own: list[Tensor], alive: list[Tensor]) -> None:
        """``alive``: all tensors from before the export, ``own``: those of the program's modules."""
        self.builder = builder
        self.asking = [t for t in builder.tensors if t.requires_grad]  # inputs
        self.others = [t for t in builder.tensors if not t.requires_grad]
        self.roots = {id(r): r for r in (root_array(t._data) for t in alive)}
        if threading.active_count() > 1:  # others may be training: what they change is no concern of this program
            alive = [t for t in own if t._data is not None]
        self.before = [(t, t._data, t._grad) for t in alive]
        self.mode: Any = None
        self.times_set = draws.default_generator.times_set
        self.random = draws.default_generator.state, random.getstate(), _numpy_state(), dtypes.get_default_dtype()

    def __enter__(self) -> Outside:
        self.mode, STATE.mutation = STATE.mutation, self
        slow_paths(1)
        self.hook = register_optimizer_step_pre_hook(self._step)
        return self

    def __exit__(self, *exc: Any) -> None:
        STATE.mutation = self.mode
        slow_paths(-1)
        self.hook.remove()

    def _step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """ExportError for the step of an optimizer that holds parameters from before: it would see none of the
        gradients that are recorded."""
        if STATE.mutation is self and any(p._data is not None for g in optimizer.param_groups for p in g["params"]):
            raise ExportError(f"{_where()}{_STEP}.")

    def before_change(self, t: Tensor) -> None:
        """Asked by every in-place operator. ExportError for a tensor that forward did not make."""
        if t._data is None:
            return
        root = root_array(t._data)
        if id(root) not in self.roots:
            self.builder.part(root)
            return
        hint = (
            _STEP[0].upper() + _STEP[1:]
            if isinstance(t, Parameter)
            else "Make it a buffer (register_buffer) and reach it as an attribute of its module, pass it as an "
            "argument, or change a clone()"
        )
        raise ExportError(
            f"{_where()}forward changes a tensor in place that was made before and is not reached as a parameter or "
            f"buffer of the module ({t.dtype.name}, shape {list(t.shape)}): an exported program could not repeat the "
            f"change. {hint}."
        )

    def check(self) -> None:
        """ExportError for what forward changed otherwise; it is put back first."""
        found: str | None = None
        for t, data, grad in self.before:
            if t._data is not data:
                t._data, t._g = data, None
                found = f"the memory of a tensor from before (shape {list(data.shape)}), by .data or set_()"
            if t._grad is not grad:
                t._grad = grad
                found = f"the .grad of a tensor from before (shape {list(data.shape)})"
        found = self._random() or found
        for t in self.builder.tensors:
            if t._grad is not None and found is None:
                found = f"the .grad of {t._g.cell.source.name}, by backward()"
        for t in self.asking:
            if not t.requires_grad and t._g.cell.version == 0 and found is None:
                found = f"that {t._g.cell.source.name} requires a gradient (detach_, requires_grad_)"
        self._warn_of_started()
        if found is not None:
            raise ExportError(
                f"forward changes {found}: an exported program changes its results, buffers and arguments alone. "
                "Gradients inside of a program: autograd.grad; random numbers: fusegrad.rand and its like, with the "
                "seed set outside."
            )

    def _warn_of_started(self) -> None:
        """Inputs may start to require gradients: derivatives in forward are taken with respect to them."""
        for t in self.others:
            if t.requires_grad and t._node is None and t._g.cell.version == 0:
                warn(
                    f"export: forward makes {t._g.cell.source.name} require a gradient (requires_grad_): the program "
                    "computes with it as if it did, and leaves the flag of the tensor that it is given as it was",
                    UserWarning,
                )

    def _random(self) -> str | None:
        own, python, numpy_state, dtype = self.random
        if draws.default_generator.times_set != self.times_set:  # to what it was, too: draws are counted otherwise
            draws.default_generator.state = own
            return "the random state (manual_seed, set_rng_state or fork_rng)"
        if random.getstate() != python:
            random.setstate(python)
            return "the state of Python's random (the number it drew would be the same at every call)"
        if _numpy_state()[0] != numpy_state[0]:
            np.random.set_state(numpy_state[1])
            return "the state of numpy.random (the numbers it drew would be the same at every call)"
        if dtypes.get_default_dtype() is not dtype:
            dtypes.set_default_dtype(dtype)
            return "the default dtype"
        return None


def _numpy_state() -> tuple:
    """numpy's random state as plain values, and as numpy takes it back."""
    state = np.random.get_state()
    assert isinstance(state, tuple)
    return (state[0], state[1].tobytes(), *state[2:]), state


def _where() -> str:
    at = user_line()
    return f"{at[0]}:{at[1]}: " if at else ""
