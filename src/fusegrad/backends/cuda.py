"""``fusegrad.backends.cuda``: switches that programs for GPUs set; kept, without effect."""

from __future__ import annotations

from types import SimpleNamespace

from .cudnn import is_built

__all__ = ["is_built", "matmul"]

matmul = SimpleNamespace(
    allow_tf32=False,
    allow_fp16_reduced_precision_reduction=True,
    allow_bf16_reduced_precision_reduction=True,
)
