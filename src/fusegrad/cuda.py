"""``fusegrad.cuda``: there are no GPUs here, and code that asks whether there are goes on with the CPU."""

from __future__ import annotations

from typing import Any, NoReturn


def is_available() -> bool:
    """False: fusegrad computes on CPUs."""
    return False


def is_initialized() -> bool:
    """False."""
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """False."""
    return False


def device_count() -> int:
    """0."""
    return 0


def empty_cache() -> None:
    """Nothing is cached."""


def manual_seed(seed: int) -> None:
    """No generators of devices to seed; ``fusegrad.manual_seed`` seeds that of the CPU."""


def manual_seed_all(seed: int) -> None:
    """As ``manual_seed``."""


def _refused(*args: Any, **kwargs: Any) -> NoReturn:
    """AssertionError, as of a PyTorch without CUDA."""
    raise AssertionError("fusegrad computes on CPUs: ask cuda.is_available() before using a GPU")


synchronize = current_device = get_device_name = get_device_properties = set_device = init = _refused
current_stream = get_device_capability = Stream = Event = _refused
