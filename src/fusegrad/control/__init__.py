"""Structured control flow: choices and loops over tensors that stay whole in compiled code and in exported programs."""

from __future__ import annotations

from .associative import associative_scan
from .branch import cond
from .loops import while_loop
from .scans import map, scan

__all__ = ["associative_scan", "cond", "map", "scan", "while_loop"]
