"""``fusegrad.version``: the version, and those of the libraries that are not used."""

from __future__ import annotations

from . import __version__

__all__ = ["__version__", "cuda", "debug", "git_version", "hip", "xpu"]

debug = False
cuda = hip = xpu = None
git_version = "unknown"
