"""SGD: gradient descent with momentum (classical or Nesterov)."""

from __future__ import annotations

from typing import Any

import fusegrad
from fusegrad.optim._kernels import sgd_update
from fusegrad.optim.optimizer import PerParameter, decayed, settings
from fusegrad.tensor import Tensor


class SGD(PerParameter):
    """v <- momentum * v + (1 - dampening) * g;  p <- p - lr * v  (Nesterov: p - lr * (g + momentum * v))."""

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ):
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(params, settings(locals(), "lr", "momentum", "weight_decay"))

    def _first(self, p: Tensor, state: dict[str, Any], group: dict[str, Any]) -> bool:
        if not super()._first(p, state, group) or (group["momentum"] != 0 and group["dampening"] != 0):
            return False
        if group["momentum"] != 0:  # momentum * -0.0 + g is g, the buffer that the first step makes, also for g = -0.0
            state["momentum_buffer"] = fusegrad.full_like(p, -0.0)
        return True

    def _update(self, p: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        lr, momentum = group["lr"], group["momentum"]
        grad = decayed(p, grad, group)
        if momentum == 0:
            sgd_update(p, grad, lr)
            return
        velocity = state.get("momentum_buffer")
        if velocity is None:
            velocity = grad.clone().detach()
            state["momentum_buffer"] = velocity
        else:
            velocity.mul_(momentum).add_(grad, alpha=1 - group["dampening"])
        if group["nesterov"]:
            grad = grad.add(velocity, alpha=momentum)
        else:
            grad = velocity
        sgd_update(p, grad, lr)
