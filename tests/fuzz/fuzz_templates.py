"""Templates: one a line."""

from __future__ import annotations


def templates(text: str) -> list[str]:
    """The lines of a text that are not empty."""
    return [line.strip() for line in text.strip().splitlines() if line.strip()]
