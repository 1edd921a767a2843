"""Adafactor."""

from __future__ import annotations

from typing import Any

import fusegrad
from fusegrad.optim.optimizer import PerParameter, check_at_least, new_step, settings, value_of
from fusegrad.tensor import Tensor


class Adafactor(PerParameter):
    """Adam with a factored second moment: one row and one column per matrix (Shazeer and Stern, 2018)."""

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ):
        values = settings(locals(), "lr", "weight_decay")
        if beta2_decay > 0:
            raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        for i, e in enumerate(eps):
            if e is not None and e < 0:
                raise ValueError(f"epsilon{i + 1} should be >= 0 but is: {e}")
        check_at_least("clipping threshold d", d, 1.0)
        super().__init__(params, values)

    def _start(self, p: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        state["step"] = new_step()
        if p.ndim > 1:
            state["row_var"] = p.detach().new_zeros((*p.shape[:-1], 1))
            state["col_var"] = p.detach().new_zeros((*p.shape[:-2], 1, p.shape[-1]))
        else:
            state["variance"] = fusegrad.zeros_like(p)

    def _update(self, p: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        state["step"].add_(1)
        step, lr = value_of(state["step"]), group["lr"]
        eps1, eps2 = group["eps"]
        eps1 = fusegrad.finfo(p.dtype).eps if eps1 is None else eps1
        fresh = step ** group["beta2_decay"]
        rate = value_of(fusegrad.as_tensor(step**-0.5).clamp(max=float(lr)))
        size = value_of((p.norm() / p.numel() ** 0.5).clamp_min(eps2)) * rate
        if group["weight_decay"] != 0:
            p.mul_(1 - lr * group["weight_decay"])
        if grad.ndim > 1:
            row, col, square = state["row_var"], state["col_var"], grad.square()
            row.lerp_(square.mean(-1, keepdim=True), fresh)
            col.lerp_(square.mean(-2, keepdim=True), fresh)
            variance = (row @ col) / row.mean(-2, keepdim=True).clamp_min(eps1)
        else:
            state["variance"].lerp_(grad.square(), fresh)
            variance = state["variance"]
        update = variance.clamp_min(eps1 * eps1).rsqrt() * grad
        clip = value_of((update.norm() / (update.numel() ** 0.5 * group["d"])).clamp_min(1.0))
        if isinstance(size, Tensor):
            p.sub_(update * (size / clip))
        else:
            p.add_(update, alpha=-size / clip)
