"""PyTorch's import paths of the modules: ``from fusegrad.nn.modules.conv import Conv2d``."""

# ruff: noqa: F403

from __future__ import annotations

import importlib
import sys
import types
from typing import Any

from fusegrad.nn import *
from fusegrad.nn import MultiheadAttention, _hooks
from fusegrad.nn._state import IncompatibleKeys

_FILES = {
    "activation": "activation",
    "adaptive": "adaptive",
    "batchnorm": "norm",
    "channelshuffle": "vision",
    "container": "containers",
    "conv": "conv",
    "distance": "vision",
    "dropout": "dropout",
    "flatten": "linear",
    "fold": "vision",
    "instancenorm": "norm",
    "linear": "linear",
    "loss": "loss",
    "module": "module",
    "normalization": "norm",
    "padding": "padding",
    "pixelshuffle": "vision",
    "pooling": "pooling",
    "rnn": "rnn",
    "sparse": "sparse",
    "transformer": "transformer",
    "upsampling": "vision",
    "utils": "modules._tuples",
}
"""PyTorch's file of some modules, and the one here."""

_PRIVATE = {
    "batchnorm": {"_NormBase": "_Norm"},
    "conv": {"_ConvTransposeNd": "_ConvTranspose"},
    "dropout": {"_DropoutNd": "_Dropout"},
    "pooling": {
        "_AdaptiveAvgPoolNd": "_AdaptiveAvgPool",
        "_AdaptiveMaxPoolNd": "_AdaptiveMaxPool",
        "_AvgPoolNd": "_AvgPool",
        "_LPPoolNd": "_LPPool",
        "_MaxPoolNd": "_MaxPool",
        "_MaxUnpoolNd": "_MaxUnpool",
    },
    "transformer": {"_get_clones": "_clones"},
}
"""Base classes that programs inherit from or ask for, though their names are private, and what they are called here."""


def _path(theirs: str, ours: str) -> types.ModuleType:
    """The module that ``nn.modules.theirs`` is: the one here, with PyTorch's names for what has others."""
    here = importlib.import_module(f"fusegrad.nn.{ours}")
    more = {name: getattr(here, own) for name, own in _PRIVATE.get(theirs, {}).items()}
    if theirs == "module":
        more = {"_IncompatibleKeys": IncompatibleKeys, **{k: v for k, v in vars(_hooks).items() if k[:8] == "register"}}
    if theirs == "activation":
        more = {"MultiheadAttention": MultiheadAttention}
    made = types.ModuleType(f"{__name__}.{theirs}", here.__doc__)
    made.__dict__.update({k: v for k, v in vars(here).items() if not k.startswith("__")}, **more)
    return made


for _theirs, _ours in _FILES.items():
    globals()[_theirs] = sys.modules[f"{__name__}.{_theirs}"] = _path(_theirs, _ours)


def __getattr__(name: str) -> Any:
    from fusegrad import nn

    if name == "lazy":
        return importlib.import_module(f"{__name__}.lazy")
    if name.startswith("Lazy"):
        return getattr(nn, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
