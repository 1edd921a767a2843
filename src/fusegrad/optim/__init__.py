"""Optimizers and learning rate schedulers."""

from __future__ import annotations

from fusegrad.optim import lr_scheduler
from fusegrad.optim.adafactor import Adafactor
from fusegrad.optim.adam import Adam, AdamW
from fusegrad.optim.lbfgs import LBFGS
from fusegrad.optim.optimizer import Optimizer
from fusegrad.optim.rules import ASGD, Adadelta, Adagrad, Adamax, NAdam, RAdam, RMSprop, Rprop
from fusegrad.optim.sgd import SGD

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
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "lr_scheduler",
]
