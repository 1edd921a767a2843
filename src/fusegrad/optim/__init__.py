"""Optimizers and learning rate schedulers."""

from __future__ import annotations

import importlib
from typing import Any

from fusegrad.optim import lr_scheduler
from fusegrad.optim.adafactor import Adafactor
from fusegrad.optim.adam import Adam, AdamW
from fusegrad.optim.lbfgs import LBFGS
from fusegrad.optim.muon import Muon
from fusegrad.optim.optimizer import Optimizer
from fusegrad.optim.rules import ASGD, Adadelta, Adagrad, Adamax, NAdam, RAdam, RMSprop, Rprop
from fusegrad.optim.sgd import SGD


def __getattr__(name: str) -> Any:
    """``swa_utils`` is imported when it is used; ``SparseAdam`` is refused by name."""
    if name == "swa_utils":
        return importlib.import_module(f"{__name__}.swa_utils")
    if name == "SparseAdam":
        raise AttributeError("fusegrad.optim has no SparseAdam: gradients are dense here. Use Adam")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "lr_scheduler",
]
