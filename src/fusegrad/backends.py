"""``fusegrad.backends``: the switches of PyTorch's libraries, which programs set for speed or reproducibility.

They may be set and read, and change nothing: results here depend neither on a library's choice nor on a device.
"""

from __future__ import annotations

from typing import Any


class _Switches:
    """The settings of one library: attributes that are kept."""

    def __init__(self, available: bool = False, **settings: Any) -> None:
        self._available = available
        for name, value in settings.items():
            setattr(self, name, value)

    def is_available(self) -> bool:
        """Whether PyTorch's library of this name is used."""
        return self._available

    def is_built(self) -> bool:
        """As ``is_available``."""
        return self._available


cudnn = _Switches(enabled=True, benchmark=False, deterministic=False, allow_tf32=True)
cuda = _Switches(matmul=_Switches(allow_tf32=False))
mps, mkl, mkldnn, openmp = _Switches(), _Switches(), _Switches(), _Switches()
