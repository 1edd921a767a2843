"""PyTorch's import path of the lazy modules."""

# ruff: noqa: F403

from fusegrad.nn.lazy import *
