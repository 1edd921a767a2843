"""The other per-parameter optimizers."""

from __future__ import annotations

import math
from typing import Any

import fusegrad
from fusegrad.optim.optimizer import (
    PerParameter,
    decayed,
    new_step,
    scalar_dtype,
    settings,
    value_of,
    zeros_like,
)
from fusegrad.tensor import Tensor

State = dict[str, Any]


def _descend(p: Tensor, a: Tensor, b: Tensor, size: Any) -> None:
    """p <- p - size * a / b, in place."""
    if isinstance(size, Tensor):
        p.sub_(a / b * size)
    else:
        p.addcdiv_(a, b, value=-size)


def _moments(grad: Tensor, state: State, beta1: float, beta2: float) -> None:
    """Exponential averages of the gradient and its square."""
    state["exp_avg"].lerp_(grad, 1 - beta1)
    state["exp_avg_sq"].mul_(beta2).addcmul_(grad, grad, value=1 - beta2)


class RMSprop(PerParameter):
    """RMSprop (Tieleman and Hinton, 2012), optionally centred and with momentum."""

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ):
        super().__init__(params, settings(locals(), "lr", "eps", "momentum", "weight_decay", "alpha"))

    def _start(self, p: Tensor, state: State, group: State) -> None:
        state["step"] = new_step()
        state["square_avg"] = zeros_like(p)
        if group["momentum"] > 0:
            state["momentum_buffer"] = zeros_like(p)
        if group["centered"]:
            state["grad_avg"] = zeros_like(p)

    def _update(self, p: Tensor, grad: Tensor, state: State, group: State) -> None:
        state["step"].add_(1)
        grad = decayed(p, grad, group)
        alpha, square = group["alpha"], state["square_avg"]
        square.mul_(alpha).addcmul_(grad, grad, value=1 - alpha)
        if group["centered"]:
            mean = state["grad_avg"]
            mean.lerp_(grad, 1 - alpha)
            root = square.addcmul(mean, mean, value=-1).sqrt_()
        else:
            root = square.sqrt()
        root = _above(root, group["eps"])
        if group["momentum"] > 0:
            velocity = state["momentum_buffer"]
            velocity.mul_(group["momentum"]).addcdiv_(grad, root)
            p.add_(velocity, alpha=-float(group["lr"]))
        else:
            _descend(p, grad, root, group["lr"])


def _above(root: Tensor, eps: float) -> Tensor:
    """``root + eps``: in place, except where the root's derivative needs it (``differentiable``)."""
    return root + eps if root._rg else root.add_(eps)


class Adagrad(PerParameter):
    """Adagrad (Duchi et al., 2011)."""

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ):
        super().__init__(
            params, settings(locals(), "lr", "lr_decay", "weight_decay", "initial_accumulator_value", "eps")
        )
        for group in self.param_groups:
            for p in group["params"]:
                self._start(p, self.state[p], group)

    def _start(self, p: Tensor, state: State, group: State) -> None:
        state["step"] = new_step()
        state["sum"] = fusegrad.full_like(p, group["initial_accumulator_value"]).detach()

    def _update(self, p: Tensor, grad: Tensor, state: State, group: State) -> None:
        step = state["step"]
        step.add_(1)
        grad = decayed(p, grad, group)
        size = group["lr"] / (1 + (value_of(step) - 1) * group["lr_decay"])
        state["sum"].addcmul_(grad, grad, value=1)
        _descend(p, grad, _above(state["sum"].sqrt(), group["eps"]), size)


class Adadelta(PerParameter):
    """Adadelta (Zeiler, 2012)."""

    def __init__(
        self,
        params: Any,
        lr: Any = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ):
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        super().__init__(params, settings(locals(), "lr", "eps", "weight_decay"))

    def _start(self, p: Tensor, state: State, group: State) -> None:
        state["step"] = new_step()
        state["square_avg"] = zeros_like(p)
        state["acc_delta"] = zeros_like(p)

    def _update(self, p: Tensor, grad: Tensor, state: State, group: State) -> None:
        state["step"].add_(1)
        grad = decayed(p, grad, group)
        rho, eps = group["rho"], group["eps"]
        square, moved = state["square_avg"], state["acc_delta"]
        square.mul_(rho).addcmul_(grad, grad, value=1 - rho)
        delta = moved.add(eps).sqrt_().div_(square.add(eps).sqrt_()).mul_(grad)
        moved.mul_(rho).addcmul_(delta, delta, value=1 - rho)
        p.add_(delta, alpha=-float(group["lr"]))


class Adamax(PerParameter):
    """Adamax (Kingma and Ba, 2015, section 7.1)."""

    def __init__(
        self,
        params: Any,
        lr: Any = 2e-3,
        betas: tuple = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ):
        super().__init__(params, settings(locals(), "lr", "eps", "betas", "weight_decay"))

    def _start(self, p: Tensor, state: State, group: State) -> None:
        state["step"] = new_step()
        state["exp_avg"] = zeros_like(p)
        state["exp_inf"] = zeros_like(p)

    def _update(self, p: Tensor, grad: Tensor, state: State, group: State) -> None:
        step = state["step"]
        step.add_(1)
        grad = decayed(p, grad, group)
        beta1, beta2 = group["betas"]
        mean, largest = state["exp_avg"], state["exp_inf"]
        mean.lerp_(grad, 1 - beta1)
        largest.copy_(largest.mul_(beta2).maximum(grad.abs().add_(group["eps"])))
        _descend(p, mean, largest, group["lr"] / (1 - beta1 ** value_of(step)))


class NAdam(PerParameter):
    """Adam with Nesterov momentum (Dozat, 2016)."""

    def __init__(
        self,
        params: Any,
        lr: Any = 2e-3,
        betas: tuple = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ):
        super().__init__(params, settings(locals(), "lr", "eps", "betas", "weight_decay", "momentum_decay"))

    def _start(self, p: Tensor, state: State, group: State) -> None:
        state["step"] = new_step()
        state["mu_product"] = fusegrad.ones((), dtype=scalar_dtype())
        state["exp_avg"] = zeros_like(p)
        state["exp_avg_sq"] = zeros_like(p)

    def _update(self, p: Tensor, grad: Tensor, state: State, group: State) -> None:
        counter, lr = state["step"], group["lr"]
        counter.add_(1)
        step = value_of(counter)
        grad = decayed(p, grad, group)
        beta1, beta2 = group["betas"]
        decay = group["momentum_decay"]
        mu = beta1 * (1.0 - 0.5 * 0.96 ** (step * decay))
        mu_next = beta1 * (1.0 - 0.5 * 0.96 ** ((step + 1) * decay))
        state["mu_product"].mul_(mu)
        product = value_of(state["mu_product"])
        _moments(grad, state, beta1, beta2)
        root = (state["exp_avg_sq"] / (1 - beta2**step)).sqrt_().add_(group["eps"])
        _descend(p, grad, root, lr * (1.0 - mu) / (1.0 - product))
        _descend(p, state["exp_avg"], root, lr * mu_next / (1.0 - product * mu_next))


class RAdam(PerParameter):
    """Adam with a rectified step while the variance is uncertain (Liu et al., 2020)."""

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: tuple = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ):
        super().__init__(params, settings(locals(), "lr", "eps", "betas", "weight_decay"))

    def _start(self, p: Tensor, state: State, group: State) -> None:
        state["step"] = new_step()
        state["exp_avg"] = zeros_like(p)
        state["exp_avg_sq"] = zeros_like(p)

    def _update(self, p: Tensor, grad: Tensor, state: State, group: State) -> None:
        counter, lr = state["step"], group["lr"]
        counter.add_(1)
        step = value_of(counter)
        grad = decayed(p, grad, group)
        beta1, beta2 = group["betas"]
        _moments(grad, state, beta1, beta2)
        mean = state["exp_avg"] / (1 - beta1**step)
        correction = 1 - beta2**step
        limit = 2 / (1 - beta2) - 1
        length = limit - 2 * step * beta2**step / correction
        if isinstance(step, Tensor):  # captured: both cases, chosen by data
            factor = (length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length)
            rectified = (factor * correction).clamp_min(0.0).sqrt() / _above(state["exp_avg_sq"].sqrt(), group["eps"])
            p.sub_(mean * lr * rectified.where(length > 5.0, 1.0))
        elif length > 5.0:
            factor = math.sqrt((length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length))
            root = _above(state["exp_avg_sq"].sqrt(), group["eps"])
            _descend(p, mean, root, lr * factor * math.sqrt(correction))
        else:
            p.add_(mean, alpha=-float(lr))


class ASGD(PerParameter):
    """Averaged SGD (Polyak and Juditsky, 1992); the average is kept in the state as `ax`."""

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ):
        super().__init__(params, settings(locals(), "lr", "weight_decay"))

    def _start(self, p: Tensor, state: State, group: State) -> None:
        state["step"] = new_step()
        state["eta"] = fusegrad.tensor(float(group["lr"]), dtype=scalar_dtype())
        state["mu"] = fusegrad.ones((), dtype=scalar_dtype())
        state["ax"] = zeros_like(p)

    def _update(self, p: Tensor, grad: Tensor, state: State, group: State) -> None:
        counter, eta, mu, average = state["step"], state["eta"], state["mu"], state["ax"]
        counter.add_(1)
        step, rate = value_of(counter), value_of(eta)
        grad = decayed(p, grad, group)
        p.mul_(1 - group["lambd"] * rate)
        if isinstance(rate, Tensor):
            p.sub_(grad * rate)
        else:
            p.add_(grad, alpha=-rate)
        average.add_((p - average) * value_of(mu))
        lr, t0 = group["lr"], group["t0"]
        eta.copy_(fusegrad.as_tensor(lr / (1 + group["lambd"] * lr * step) ** group["alpha"]))
        if isinstance(step, Tensor):
            mu.copy_((step - t0).clamp_min(1.0).reciprocal())
        else:
            mu.fill_(1 / max(1, step - t0))


class Rprop(PerParameter):
    """Resilient backpropagation (Riedmiller and Braun, 1993): step sizes from the signs of gradients."""

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        etas: tuple = (0.5, 1.2),
        step_sizes: tuple = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ):
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        super().__init__(params, settings(locals(), "lr"))

    def _start(self, p: Tensor, state: State, group: State) -> None:
        state["step"] = new_step()
        state["prev"] = zeros_like(p)
        state["step_size"] = fusegrad.full_like(p, float(group["lr"])).detach()

    def _update(self, p: Tensor, grad: Tensor, state: State, group: State) -> None:
        state["step"].add_(1)
        minus, plus = group["etas"]
        size, before = state["step_size"], state["prev"]
        agreement = grad * before
        factor = fusegrad.ones_like(p).masked_fill(agreement > 0, plus).masked_fill(agreement < 0, minus)
        size.mul_(factor).clamp_(*group["step_sizes"])
        grad = grad.masked_fill(agreement < 0, 0.0)  # after a change of sign: no move, and none remembered
        p.addcmul_(grad.sign(), size, value=-1)
        before.copy_(grad)
