"""Errors between the layers of the compiler: what a lower one can't do, for a higher one to run as plain Python."""

from __future__ import annotations


class UnusedMayFail(NotImplementedError):
    """The graph would leave out a call whose result nobody reads, and in which eager code may raise."""
