"""Errors of the compiler: what a lower layer can't do, for a higher one to run as plain Python; what verification
found.
"""

from __future__ import annotations

from typing import Any


class VerificationError(RuntimeError):
    """Compiled code did something else than eager code. This is a fault of fusegrad, not of the program.

    Attributes: ``function`` (name of the compiled function), ``what`` (which result differs), ``operator`` and
    ``location`` ((file, line) of the user) of the first operator that differs, if one could be named, ``difference``
    (largest absolute difference) and ``index`` (where it is), if numbers were compared.
    """

    def __init__(self, message: str, **found: Any) -> None:
        super().__init__(message)
        self.function: str = found.get("function", "")
        self.what: str = found.get("what", "")
        self.operator: str | None = found.get("operator")
        self.location: tuple[str, int] | None = found.get("location")
        self.difference: float | None = found.get("difference")
        self.index: tuple[int, ...] | None = found.get("index")
