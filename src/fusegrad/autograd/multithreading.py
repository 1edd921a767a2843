"""``set_multithreading_enabled``: a setting that changes nothing here."""

from __future__ import annotations

from .modes import STATE, F, Mode


class set_multithreading_enabled(Mode):
    """Kept for code that sets it: a backward pass runs in the thread that called it, whatever ``mode`` says."""

    def __init__(self, mode: bool) -> None:
        self.before, self.mode = STATE.multithreading, bool(mode)
        STATE.multithreading = self.mode

    def _clone(self) -> Mode:
        return set_multithreading_enabled(self.mode)

    def __call__(self, fn: F) -> F:
        STATE.multithreading = self.before
        return super().__call__(fn)

    def _enter(self) -> bool:
        before, STATE.multithreading = self.before, self.mode
        return before

    def _exit(self, before: bool) -> None:
        STATE.multithreading = before


def is_multithreading_enabled() -> bool:
    """What ``set_multithreading_enabled`` was told last in this thread."""
    return STATE.multithreading
