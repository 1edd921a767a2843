"""``fusegrad.amp``: automatic mixed precision, as far as programs written for it run on CPUs.

``autocast`` of a device that is not there is disabled with a warning, as in PyTorch; that of the CPU is refused.
``GradScaler`` works: scaled losses, and steps that are left out where a gradient is not finite.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from typing import Any

from . import dtypes
from .errors import warn
from .tensor import Tensor

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]


def is_autocast_available(device_type: str) -> bool:
    """False: no device has it."""
    return False


class autocast:
    """A context and decorator that computes in lower precision where that is safe: disabled here.

    NotImplementedError for the CPU unless ``enabled=False``; other devices are not there, which is warned of.
    """

    def __init__(
        self, device_type: str, dtype: Any = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        if not isinstance(device_type, str):
            raise ValueError(
                f"Expected `device_type` of type `str`, got: `{type(device_type)}`: write autocast('cuda') or "
                "autocast(device_type='cuda')"
            )
        if enabled and device_type == "cpu":
            raise NotImplementedError(
                "autocast on the CPU is not supported: operators compute in the dtypes of their tensors. Pass "
                "enabled=False, or convert the model and its inputs with .to(torch.float16)"
            )
        if enabled:
            warn(f"User provided device_type of '{device_type}', but it is not available. Disabling", UserWarning)
        self.device, self.fast_dtype, self._enabled = device_type, dtype or dtypes.float16, False

    def __enter__(self) -> autocast:
        return self

    def __exit__(self, *error: Any) -> None:
        return None

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        return functools.wraps(func)(lambda *args, **kwargs: func(*args, **kwargs))


def custom_fwd(fwd: Any = None, *, device_type: str, cast_inputs: Any = None) -> Any:
    """Decorator of a custom Function's ``forward``: there is no autocast to leave."""
    return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs) if fwd is None else fwd


def custom_bwd(bwd: Any = None, *, device_type: str) -> Any:
    """Decorator of a custom Function's ``backward``: there is no autocast to leave."""
    return functools.partial(custom_bwd, device_type=device_type) if bwd is None else bwd


class GradScaler:
    """Scales losses so that small gradients of float16 do not vanish, and leaves out steps with infinite ones.

    ``device`` "cuda" is not there: the scaler is disabled then, with a warning, and ``scale`` and ``step`` do as if it
    were not. After ``growth_interval`` good steps the scale is multiplied by ``growth_factor``, after a bad one by
    ``backoff_factor``.
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 65536.0,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._enabled = enabled and device == "cpu"
        if enabled and device != "cpu":
            warn(f"torch.amp.GradScaler is enabled, but {device.upper()} is not available.  Disabling.", UserWarning)
        if self._enabled and growth_factor <= 1.0:
            raise AssertionError("The growth factor must be > 1.0.")
        if self._enabled and backoff_factor >= 1.0:
            raise AssertionError("The backoff factor must be < 1.0.")
        self._scale, self._growth, self._backoff, self._interval = (
            float(init_scale), growth_factor, backoff_factor, growth_interval,
        )  # fmt: skip
        self._good_steps = 0
        self._found: dict[int, tuple[str, bool]] = {}  # optimizer -> (stage, whether a gradient was not finite)

    def is_enabled(self) -> bool:
        """Whether losses are scaled."""
        return self._enabled

    def get_scale(self) -> float:
        """The factor; 1 if disabled."""
        return self._scale if self._enabled else 1.0

    def scale(self, outputs: Any) -> Any:
        """A tensor (or an iterable of them) times the factor."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            return outputs * self._scale
        if isinstance(outputs, Iterable):
            made = map(self.scale, outputs)
            return type(outputs)(made) if isinstance(outputs, (list, tuple)) else made
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of ``optimizer``'s parameters. RuntimeError if called twice before ``update``."""
        if not self._enabled:
            return
        stage = self._found.get(id(optimizer), ("ready", False))[0]
        if stage == "unscaled":
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        if stage == "stepped":
            raise RuntimeError("unscale_() is being called after step().")
        bad = False
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                if p.grad.dtype is dtypes.float16:
                    raise ValueError("Attempting to unscale FP16 gradients.")
                g = p.grad.detach()
                g.mul_(1.0 / self._scale)
                bad = bad or not bool(g.isfinite().all())
        self._found[id(optimizer)] = "unscaled", bad

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """``optimizer.step()``, unless a gradient is infinite or NaN. RuntimeError for a second before ``update``."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        stage = self._found.get(id(optimizer), ("ready", False))[0]
        if stage == "stepped":
            raise RuntimeError("step() has already been called since the last update().")
        if stage == "ready":
            self.unscale_(optimizer)
        bad = self._found[id(optimizer)][1]
        self._found[id(optimizer)] = "stepped", bad
        return None if bad else optimizer.step(*args, **kwargs)

    def update(self, new_scale: Any = None) -> None:
        """Change the factor after the steps of all optimizers. AssertionError if there was none."""
        if not self._enabled:
            return
        if new_scale is not None:
            self._scale = float(new_scale)
        else:
            if not self._found:
                raise AssertionError("No inf checks were recorded prior to update.")
            if any(bad for _, bad in self._found.values()):
                self._scale, self._good_steps = self._scale * self._backoff, 0
            else:
                self._good_steps += 1
                if self._good_steps == self._interval:
                    grown = self._scale * self._growth
                    self._scale, self._good_steps = (grown if math.isfinite(grown) else self._scale), 0
        self._found.clear()

    def get_growth_factor(self) -> float:
        return self._growth

    def get_backoff_factor(self) -> float:
        return self._backoff

    def get_growth_interval(self) -> int:
        return self._interval

    def state_dict(self) -> dict[str, Any]:
        """The factor and how it changes; empty if disabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self._scale, "growth_factor": self._growth, "backoff_factor": self._backoff,
            "growth_interval": self._interval, "_growth_tracker": self._good_steps,
        }  # fmt: skip

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take a ``state_dict``. RuntimeError for that of a disabled scaler."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler."
            )
        self._scale, self._growth = state_dict["scale"], state_dict["growth_factor"]
        self._backoff, self._interval = state_dict["backoff_factor"], state_dict["growth_interval"]
        self._good_steps = state_dict["_growth_tracker"]
