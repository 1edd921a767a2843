"""``fusegrad.backends.cpu``: what the processor offers."""

from __future__ import annotations


def get_cpu_capability() -> str:
    """DEFAULT: native code is made for the processor at hand, not chosen from a list."""
    return "DEFAULT"
