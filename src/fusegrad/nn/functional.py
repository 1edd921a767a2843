"""Functions of neural networks.

Every name arrives from the op table when the package is imported (`fusegrad.bind.fill`): see `ops/nn_*.py`,
`ops/activation*.py` and their neighbours for the definitions.
"""

from __future__ import annotations
