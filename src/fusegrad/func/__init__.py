"""Function transforms: ``grad``, ``grad_and_value``, ``vjp``, ``jacrev``, ``hessian``, ``functional_call``."""
from __future__ import annotations

from .calls import functional_call
from .reverse import grad, grad_and_value, hessian, jacrev, vjp

__all__ = ["functional_call", "grad", "grad_and_value", "hessian", "jacrev", "vjp"]
