"""``fusegrad.backends.cudnn``: switches that programs for GPUs set; kept, without effect."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

enabled, benchmark, deterministic, allow_tf32, benchmark_limit = True, False, False, True, 10


def is_available() -> bool:
    """False: the library is not used here."""
    return False


is_built = is_available


def version() -> None:
    """None: there is none."""


@contextlib.contextmanager
def flags(**settings: bool) -> Iterator[None]:
    """The given switches in a block. TypeError for an unknown one."""
    values = globals()
    for name in settings:
        if name not in ("enabled", "benchmark", "benchmark_limit", "deterministic", "allow_tf32", "fp32_precision"):
            raise TypeError(f"flags() got an unexpected keyword argument '{name}'")
    before = {name: values.get(name) for name in settings}
    values.update(settings)
    try:
        yield
    finally:
        values.update(before)
