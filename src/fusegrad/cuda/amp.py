"""``fusegrad.cuda.amp``: the older names of ``fusegrad.amp``, for a device that is not here: all is disabled."""

from __future__ import annotations

from functools import partial
from typing import Any

from .. import amp
from ..errors import warn

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


def _older(name: str) -> None:
    warn(
        f"`torch.cuda.amp.{name}(args...)` is deprecated. Please use `torch.amp.{name}('cuda', args...)` instead.",
        FutureWarning,
    )


class autocast(amp.autocast):
    """``amp.autocast("cuda", ...)``."""

    def __init__(self, enabled: bool = True, dtype: Any = None, cache_enabled: bool = True) -> None:
        _older("autocast")
        super().__init__("cuda", dtype, enabled, cache_enabled)


class GradScaler(amp.GradScaler):
    """``amp.GradScaler("cuda", ...)``."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _older("GradScaler")
        super().__init__("cuda", *args, **kwargs)


custom_fwd, custom_bwd = partial(amp.custom_fwd, device_type="cuda"), partial(amp.custom_bwd, device_type="cuda")
