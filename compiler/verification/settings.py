"""What ``compile(verify=...)`` and the environment variable FUSEGRAD_VERIFY mean."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

__all__ = ["VARIABLE", "Verify", "make_verify"]

VARIABLE = "FUSEGRAD_VERIFY"


class Verify(NamedTuple):
    """``every``: each n-th call is verified, 0 none; ``whole``: whole functions too, and not only their regions."""

    every: int = 0
    whole: bool = True


def make_verify(value: Any) -> Verify:
    """From the argument of ``compile``; None asks the environment (read when the function is compiled).

    True or 1: every call; n: every n-th; "region": every call, regions alone; False or 0: off.
    Anything else raises ``ValueError``.
    """
    given = value
    if value is None:
        value = os.environ.get(VARIABLE, "").strip()
        value = int(value) if value.isdigit() else value or False
    if value == "region":
        return Verify(1, False)
    if isinstance(value, (bool, int)) and value >= 0:
        return Verify(int(value))
    where = f"{VARIABLE}={value}" if given is None else f"compile(verify={given!r})"
    raise ValueError(f"{where}: allowed are 1 (every call), n (every n-th), 'region' (compiled regions alone) and 0")
