"""Function transforms: differentiation in both modes, batching, calling modules as functions of their parameters."""

from __future__ import annotations

from .calls import functional_call, replace_all_batch_norm_modules_, stack_module_state
from .forward import hessian, jacfwd, jvp, linearize
from .reverse import grad, grad_and_value, jacrev, vjp
from .unwrap import debug_unwrap, functionalize
from .vmap import vmap

__all__ = [
    "debug_unwrap",
    "functional_call",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "replace_all_batch_norm_modules_",
    "stack_module_state",
    "vjp",
    "vmap",
]
