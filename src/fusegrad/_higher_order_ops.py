"""The names of ``fusegrad.control`` where PyTorch has them."""

from __future__ import annotations

from .control import associative_scan, cond, map, scan, while_loop

__all__ = ["associative_scan", "cond", "map", "scan", "while_loop"]
