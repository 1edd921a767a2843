"""Muon."""

from __future__ import annotations

from typing import Any

import fusegrad
from fusegrad.optim.optimizer import PerParameter, check_at_least, settings
from fusegrad.tensor import Tensor


class Muon(PerParameter):
    """Momentum whose steps are made orthogonal, for weights that are matrices (Jordan et al., 2024).

    The iteration rounds to bfloat16, as PyTorch's does. ValueError for parameters that are no matrices: give those to
    another optimizer.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ):
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        check_at_least("ns_steps", ns_steps, 0)
        if ns_steps >= 100:
            raise ValueError("Number of steps must be less than 100 for computational efficiency")
        if len(ns_coefficients) != 3:
            raise ValueError("Coefficients must be a tuple of exactly 3 values")
        super().__init__(params, settings(locals(), "lr", "momentum", "weight_decay"))
        for group in self.param_groups:
            for p in group["params"]:
                if p.ndim != 2:
                    raise ValueError(
                        f"Muon only supports 2D parameters whereas we found a parameter with size: {p.shape}"
                    )

    def _update(self, p: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        lr, momentum = group["lr"], group["momentum"]
        if (kept := state.get("momentum_buffer")) is None:
            kept = state["momentum_buffer"] = fusegrad.zeros_like(grad)
        kept.lerp_(grad, 1 - momentum)
        step = grad.lerp(kept, momentum) if group["nesterov"] else kept
        step = orthogonal(step, group["ns_coefficients"], group["ns_steps"], group["eps"])
        rows, columns = p.shape[-2:]
        if group["adjust_lr_fn"] == "match_rms_adamw":
            rate = lr * 0.2 * max(rows, columns) ** 0.5
        else:
            rate = lr * max(1, rows / columns) ** 0.5
        p.mul_(1 - lr * group["weight_decay"])
        p.add_(step, alpha=-rate)


def orthogonal(g: Tensor, coefficients: tuple, steps: int, eps: float) -> Tensor:
    """``g`` with its singular values brought near 1 by Newton and Schulz's iteration, every step in bfloat16."""
    a, b, c = coefficients
    wide = g.shape[0] <= g.shape[1]
    x = _rounded(g if wide else g.T)
    x = _rounded(x / _rounded(x.norm()).clamp(min=eps))
    for _ in range(steps):
        gram = _rounded(x @ x.T)
        x = _rounded(a * x + _rounded(b * gram + c * (gram @ gram)) @ x)
    return (x if wide else x.T).to(g.dtype)


def _rounded(t: Tensor) -> Tensor:
    """``t`` as float32 numbers that bfloat16 has: the 16 high bits, rounded to even."""
    bits = t.to(fusegrad.float32).contiguous().view(fusegrad.int32)
    odd = (bits >> 16) & 1
    return ((bits + (odd + 0x7FFF)) & -0x10000).view(fusegrad.float32)
