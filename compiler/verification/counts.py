"""What verification did since the last ``reset``; ``stats()`` shows it."""

from __future__ import annotations

from typing import Any

__all__ = ["note", "reset", "shown", "skip"]

_counts = {"verified_calls": 0, "verified_regions": 0}
_skipped: dict[str, int] = {}


def note(what: str) -> None:
    """One more "verified_calls" or "verified_regions"."""
    _counts[what] += 1


def skip(why: str) -> None:
    """A call that was to be compared as a whole, and was not."""
    _skipped[why] = _skipped.get(why, 0) + 1


def shown() -> dict[str, Any]:
    """``verified_calls``, ``verified_regions``, ``not_verified``: reason -> calls."""
    return {**_counts, "not_verified": dict(_skipped)}


def reset() -> None:
    """Start over."""
    _counts.update(verified_calls=0, verified_regions=0)
    _skipped.clear()
