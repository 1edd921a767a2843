"""``fusegrad.backends``: the switches of PyTorch's libraries, which programs set for speed or reproducibility.

They may be set and read, and change nothing: results here depend neither on a library's choice nor on a device. Each
library is a module, as programs import them by name.
"""

from __future__ import annotations

from . import cpu, cuda, cudnn, mkl, mkldnn, mps, openmp

__all__ = ["cpu", "cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp"]
