"""Settings that programs for PyTorch make: kept where nothing depends on them, refused where something would."""

from __future__ import annotations

from typing import Any

from .cuda import NoDeviceError
from .dtypes import set_default_dtype
from .tensor import device

_kept: dict[str, Any] = {"precision": "highest", "deterministic": False, "warn_only": False}


def set_float32_matmul_precision(precision: str) -> None:
    """Kept: float32 products are always computed in float32. RuntimeError for an unknown word."""
    if precision not in ("highest", "high", "medium"):
        raise RuntimeError(
            f"Unknown float32 matmul precision: {precision!r}. The value must be one of 'highest', 'high', 'medium'."
        )
    _kept["precision"] = precision


def get_float32_matmul_precision() -> str:
    """What was set last; "highest" at first."""
    return _kept["precision"]


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Kept: all algorithms here are deterministic."""
    _kept.update(deterministic=bool(mode), warn_only=bool(warn_only))


def are_deterministic_algorithms_enabled() -> bool:
    """What was set last."""
    return _kept["deterministic"]


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """What was set last."""
    return _kept["warn_only"]


def get_default_device() -> device:
    """The CPU."""
    return device("cpu")


def set_default_device(device: Any) -> None:  # noqa: A002
    """The CPU, or None. NoDeviceError for others."""
    if device is not None and str(device).partition(":")[0] != "cpu":
        raise NoDeviceError(device)


def set_default_tensor_type(t: Any) -> None:
    """The dtype of new tensors, by the older name of a class: ``torch.DoubleTensor``, or its name as a string."""
    name = t if isinstance(t, str) else f"{t.__module__}.{t.__qualname__}"
    kinds = {"FloatTensor": "float32", "DoubleTensor": "float64", "HalfTensor": "float16"}
    found = kinds.get(name.rpartition(".")[2])
    if found is None or ".cuda." in name:
        raise TypeError(f"only floating-point types of the CPU are supported as the default type, not {name}")
    from . import dtypes  # by name: the functions' argument is one of three

    set_default_dtype(getattr(dtypes, found))


_interop = [1]


def set_num_interop_threads(n: int, /) -> None:
    """Kept: operators run one after the other. RuntimeError unless positive."""
    if n < 1:
        raise RuntimeError("set_num_interop_threads expects a positive integer")
    _interop[0] = n


def get_num_interop_threads() -> int:
    """What was set last; 1 at first."""
    return _interop[0]


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """False: see ``fusegrad.amp.autocast``."""
    return False


def get_deterministic_debug_mode() -> int:
    """0, or what `use_deterministic_algorithms` set: 1 for warnings, 2 for errors."""
    return 0 if not _kept["deterministic"] else 1 if _kept["warn_only"] else 2


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Kept: 0 "default", 1 "warn", 2 "error"; all algorithms here are deterministic. RuntimeError for others."""
    modes = {"default": 0, "warn": 1, "error": 2}
    mode = modes.get(debug_mode, -1) if isinstance(debug_mode, str) else debug_mode
    if mode not in (0, 1, 2):
        raise RuntimeError(
            f"invalid value of debug_mode, expected 0, 1 or 2, or default, warn, error, got {debug_mode}"
        )
    use_deterministic_algorithms(mode > 0, warn_only=mode == 1)


def set_warn_always(b: bool, /) -> None:
    """Kept: Python's filters decide how often a warning is shown."""
    _kept["warn_always"] = bool(b)


def is_warn_always_enabled() -> bool:
    """What was set last."""
    return _kept.get("warn_always", False)


def set_flush_denormal(mode: bool) -> bool:
    """False: denormal numbers are kept, as numpy keeps them (True only for the mode that holds, False)."""
    return not mode
