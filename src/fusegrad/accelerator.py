"""``fusegrad.accelerator``: there is none."""

from __future__ import annotations

from .cuda import _refused, device_count, is_available

__all__ = ["current_accelerator", "device_count", "is_available", "synchronize"]


def current_accelerator(check_available: bool = False) -> None:
    """None: everything is on the CPU."""


synchronize = _refused
