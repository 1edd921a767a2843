"""LRScheduler: the base class of learning rate schedulers."""

from __future__ import annotations

from typing import Any

from fusegrad.errors import warn
from fusegrad.optim.optimizer import Optimizer
from fusegrad.tensor import Tensor


def set_lr(group: dict[str, Any], lr: Any) -> None:
    """Change a group's learning rate; a tensor is filled in place."""
    if isinstance(group["lr"], Tensor):
        group["lr"].fill_(float(lr))
    else:
        group["lr"] = lr


def copied(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else value


class LRScheduler:
    """Base class: `get_lr` gives the rates of the step that `last_epoch` counts."""

    _closed_form = False
    _get_lr_called_within_step = False  # named as in saved states of PyTorch
    _is_initial = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1):
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer = optimizer
        vars(optimizer)["_scheduled_step"] = vars(optimizer).get("step")
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", copied(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming scheduler with "
                    f"last_epoch >= 0"
                )
        self.base_lrs = [copied(group["initial_lr"]) for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._step_count = 0
        self._last_lr: list[Any] = []
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count, self._is_initial = 0, True
        try:
            self.step()
        finally:
            self._is_initial = False

    def _restart(self) -> None:
        """Begin anew, in a chain of schedulers."""
        self._step_count += 1
        self._go_to(0)

    def state_dict(self) -> dict[str, Any]:
        """All attributes but the optimizer (and functions, which can't be saved)."""
        return {k: v for k, v in self.__dict__.items() if k != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take the attributes of a `state_dict`."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[Any]:
        """The rates set last."""
        return self._last_lr

    def get_lr(self) -> list[Any]:
        """The rates of the present step."""
        raise NotImplementedError

    def _ask_within_step(self) -> None:
        """Warn if `get_lr` is called by anybody but `step`: it gives rates that are to come, or wrong ones."""
        if not self._get_lr_called_within_step:
            warn("To get the last learning rate computed by the scheduler, please use `get_last_lr()`.", UserWarning)

    def _rates(self) -> list[Any]:
        return [group["lr"] for group in self.optimizer.param_groups]

    def step(self, epoch: int | None = None) -> None:
        """Go on to the next step (or, deprecated, to `epoch`) and set the rates."""
        if not self.optimizer._opt_called and self._step_count == 1:
            self._check_order()
        self._step_count += 1
        if epoch is not None:
            warn(
                "step(epoch) of a scheduler is deprecated: call step() once for each epoch, or, to go on from a later "
                "one, load a state_dict",
                UserWarning,
            )
        self._go_to(epoch)

    def _check_order(self) -> None:
        """Warn if the optimizer has not made a step before the scheduler's first."""
        opt = self.optimizer
        if vars(opt).get("step") is not vars(opt).get("_scheduled_step"):
            warn(
                "optimizer.step was replaced after the scheduler was made: whether it is called before "
                "lr_scheduler.step() can't be told",
                UserWarning,
            )
        elif "step" not in vars(opt):
            warn(
                "lr_scheduler.step() was called before optimizer.step(): call them in the opposite order, else the "
                "first value of the schedule is skipped",
                UserWarning,
            )

    def _go_to(self, epoch: int | None) -> None:
        """Set the rates of the next step, or of `epoch`."""
        self._get_lr_called_within_step = True
        try:
            if epoch is None:
                self.last_epoch += 1
                values = self.get_lr()
            else:
                self.last_epoch = epoch
                values = self._get_closed_form_lr() if hasattr(self, "_get_closed_form_lr") else self.get_lr()
        finally:
            self._get_lr_called_within_step = False
        self._set(values)

    def _set(self, values: list[Any]) -> None:
        for group, lr in zip(self.optimizer.param_groups, values, strict=False):
            set_lr(group, lr)
        self._last_lr = [copied(group["lr"]) for group in self.optimizer.param_groups]
