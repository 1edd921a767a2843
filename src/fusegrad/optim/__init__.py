"""Optimizers and learning rate schedulers."""

from fusegrad.optim import lr_scheduler
from fusegrad.optim.adam import Adam, AdamW
from fusegrad.optim.optimizer import Optimizer
from fusegrad.optim.rules import ASGD, Adadelta, Adagrad, Adamax, NAdam, RAdam, RMSprop, Rprop
from fusegrad.optim.lbfgs import LBFGS
from fusegrad.optim.sgd import SGD

__all__ = [
    "ASGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "LBFGS", "NAdam", "Optimizer", "RAdam", "RMSprop",
    "Rprop", "SGD", "lr_scheduler",
]
