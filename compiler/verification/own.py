"""Python's builtins as they were when verification was loaded, for its own work: a program may replace some."""

from __future__ import annotations

import builtins
from typing import Any

__all__ = ["OwnBuiltins"]

_KNOWN = dict(vars(builtins))
_NOW = vars(builtins)


class OwnBuiltins:
    """Inside of it the builtins are Python's; after it they are what the program made of them again."""

    def __enter__(self) -> OwnBuiltins:
        self.replaced: dict[str, Any] = {n: _NOW[n] for n, v in _KNOWN.items() if n in _NOW and _NOW[n] is not v}
        _NOW.update((n, _KNOWN[n]) for n in self.replaced)
        return self

    def __exit__(self, *error: object) -> None:
        _NOW.update(self.replaced)
