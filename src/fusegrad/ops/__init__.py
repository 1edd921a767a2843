"""The op table: one family of operators a file; importing this package fills ``fusegrad.op.TABLE``."""

from __future__ import annotations

import importlib
import pkgutil

for _m in sorted(m.name for m in pkgutil.iter_modules(__path__)):
    if not _m.startswith("_"):
        importlib.import_module(f"{__name__}.{_m}")
