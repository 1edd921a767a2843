"""``nn.attention``: which algorithm computes attention. There is one here; what programs ask for is checked."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Any

__all__ = ["SDPBackend", "sdpa_kernel"]


class SDPBackend(enum.IntEnum):
    """PyTorch's names of the algorithms."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


class sdpa_kernel:
    """Context: `scaled_dot_product_attention` by one of these algorithms. RuntimeError without any."""

    def __init__(self, backends: Any, set_priority: bool = False) -> None:
        chosen = [backends] if isinstance(backends, SDPBackend) else backends
        if not isinstance(chosen, Iterable):
            raise AssertionError("Backend must be an instance of SDPBackend or a list of SDPBackend instances")
        self.backends = list(chosen)
        if not self.backends:
            raise RuntimeError("No available kernel. Aborting execution.")

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exc: object) -> None:
        return None
