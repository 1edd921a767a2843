"""``fusegrad.backends.mps``: not used here."""

from __future__ import annotations

from .cudnn import is_available, is_built

__all__ = ["is_available", "is_built"]
