"""Anomaly mode: the error of a NaN in backward shows the forward line that made the node."""

from __future__ import annotations

from typing import Any

from ..errors import warn
from .modes import STATE, slow_paths


class set_detect_anomaly:
    """Switch anomaly mode on or off for this thread; as a context manager it is restored at the end."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self.before = STATE.anomaly, STATE.check_nan
        slow_paths(int(bool(mode)) - int(STATE.anomaly))
        STATE.anomaly, STATE.check_nan = bool(mode), check_nan

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: Any) -> None:
        slow_paths(int(self.before[0]) - int(STATE.anomaly))
        STATE.anomaly, STATE.check_nan = self.before


class detect_anomaly(set_detect_anomaly):
    """Context manager: anomaly mode inside."""

    def __init__(self, check_nan: bool = True) -> None:
        self.check = check_nan
        warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled for "
            "debugging.",
            UserWarning,
        )

    def __enter__(self) -> None:
        super().__init__(True, self.check)


def is_anomaly_enabled() -> bool:
    """Whether anomaly mode is on in this thread."""
    return STATE.anomaly


def is_anomaly_check_nan_enabled() -> bool:
    """Whether anomaly mode, where it is on, looks for NaN in gradients."""
    return STATE.check_nan
