"""Functions of neural networks.

Every name arrives from the op table when it is first used: see `ops/nn_*.py`, `ops/activation*.py` and their
neighbours for the definitions.
"""

from __future__ import annotations

from fusegrad.families import namespace as _namespace

__getattr__, __dir__ = _namespace("nn.functional", globals())
