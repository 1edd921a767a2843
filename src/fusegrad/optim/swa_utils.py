"""Averages of weights over training: ``AveragedModel``, its rules, ``SWALR``, ``update_bn``."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from copy import deepcopy
from itertools import chain
from typing import Any

import fusegrad
from fusegrad.autograd.modes import no_grad
from fusegrad.nn.module import Module
from fusegrad.nn.norm import BatchNorm1d, BatchNorm2d, BatchNorm3d
from fusegrad.optim._scheduler import LRScheduler
from fusegrad.optim.optimizer import Optimizer
from fusegrad.tensor import Tensor


def _check_decay(decay: float) -> None:
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


def get_ema_avg_fn(decay: float = 0.999) -> Callable:
    """The rule of an exponential moving average, for one tensor."""
    _check_decay(decay)
    return no_grad()(lambda average, current, count: decay * average + (1 - decay) * current)


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable:
    """The rule of an exponential moving average, in place for lists of tensors."""
    _check_decay(decay)

    @no_grad()
    def update(averages: list[Tensor], current: list[Tensor], count: Any) -> None:
        for a, c in zip(averages, current, strict=True):
            if a.is_floating_point():
                a.lerp_(c, 1 - decay)
            else:
                a.copy_(a * decay + c * (1 - decay))

    return update


def get_swa_avg_fn() -> Callable:
    """The rule of the plain mean, for one tensor."""
    return no_grad()(lambda average, current, count: average + (current - average) / (count + 1))


def get_swa_multi_avg_fn() -> Callable:
    """The rule of the plain mean, in place for lists of tensors."""
    one = get_swa_avg_fn()

    @no_grad()
    def update(averages: list[Tensor], current: list[Tensor], count: Any) -> None:
        for a, c in zip(averages, current, strict=True):
            a.copy_(one(a, c, count))

    return update


class AveragedModel(Module):
    """A copy of a model whose parameters are averages of those it is updated with.

    The plain mean, unless ``avg_fn(average, current, count)`` gives the new average of one tensor, or
    ``multi_avg_fn(averages, current, count)`` changes lists of them in place. ``use_buffers``: buffers too.
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Callable | None = None,
        multi_avg_fn: Callable | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        self.register_buffer("n_averaged", fusegrad.tensor(0, dtype=fusegrad.int64))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The averaged model's."""
        return self.module(*args, **kwargs)

    def _tensors(self, model: Module) -> list[Tensor]:
        found = chain(model.parameters(), model.buffers() if self.use_buffers else ())
        return [t.detach() for t in found]

    @no_grad()
    def update_parameters(self, model: Module) -> None:
        """Take the present parameters of ``model`` into the averages (the first ones are copied)."""
        mine, new, count = self._tensors(self.module), self._tensors(model), self.n_averaged
        if int(count) == 0:
            for a, c in zip(mine, new, strict=True):
                a.copy_(c)
        elif self.avg_fn is not None:
            for a, c in zip(mine, new, strict=True):
                a.copy_(self.avg_fn(a, c, count))
        else:
            (self.multi_avg_fn or get_swa_multi_avg_fn())(mine, new, count)
        if not self.use_buffers:
            for a, c in zip(self.module.buffers(), model.buffers(), strict=True):
                a.copy_(c)
        self.n_averaged += 1


@no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Compute the running statistics of all batch normalisations anew, over the inputs (or first items) of a loader."""
    kinds = (BatchNorm1d, BatchNorm2d, BatchNorm3d)
    momenta = {m: m.momentum for m in model.modules() if isinstance(m, kinds)}
    if not momenta:
        return
    was_training = model.training
    for m in momenta:
        m.reset_running_stats()
        m.momentum = None
    model.train()
    for item in loader:
        model(item[0] if isinstance(item, (list, tuple)) else item)
    for m, momentum in momenta.items():
        m.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """Anneals the rates to ``swa_lr`` in ``anneal_epochs`` steps ("cos" or "linear"), and stays there."""

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: Any,
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        rates = list(swa_lr) if isinstance(swa_lr, (list, tuple)) else [swa_lr] * len(optimizer.param_groups)
        if len(rates) != len(optimizer.param_groups):
            raise ValueError(f"swa_lr has {len(rates)} values for {len(optimizer.param_groups)} parameter groups")
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self._strategy, self.anneal_epochs = anneal_strategy, anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _part(self, step: int) -> float:
        """How far the rates have come after ``step`` steps, in 0 to 1."""
        t = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return t if self._strategy == "linear" else (1 - math.cos(math.pi * t)) / 2

    def get_lr(self) -> list[Any]:
        """The rates of the present step."""
        self._ask_within_step()
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._part(step - 1), self._part(step)
        out = []
        for group in self.optimizer.param_groups:
            target, lr = group["swa_lr"], group["lr"]
            start = target if before == 1 else (lr - before * target) / (1 - before)
            out.append(target * now + start * (1 - now))
        return out


__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]
