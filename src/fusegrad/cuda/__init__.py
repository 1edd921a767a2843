"""``fusegrad.cuda``: there are no GPUs here, and code that asks whether there are goes on with the CPU."""

from __future__ import annotations

from typing import Any, NoReturn


class NoDeviceError(AssertionError, RuntimeError):
    """There is no such device: everything is on the CPU. AssertionError is what a PyTorch without CUDA raises."""

    def __init__(self, name: object, is_dtype: bool = False) -> None:
        hint = f"the dtype is fusegrad.{name}" if is_dtype else "use device='cpu', or ask cuda.is_available() first"
        super().__init__(f"fusegrad runs on the CPU alone, there is no device {str(name)!r}; {hint}")


def is_available() -> bool:
    """False: fusegrad computes on CPUs."""
    return False


def is_initialized() -> bool:
    """False."""
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """False."""
    return False


def device_count() -> int:
    """0."""
    return 0


def empty_cache() -> None:
    """Nothing is cached."""


def manual_seed(seed: int) -> None:
    """No generators of devices to seed; ``fusegrad.manual_seed`` seeds that of the CPU."""


def manual_seed_all(seed: int) -> None:
    """As ``manual_seed``."""


def _refused(*args: Any, **kwargs: Any) -> NoReturn:
    """NoDeviceError, an AssertionError as of a PyTorch without CUDA."""
    raise NoDeviceError("cuda")


synchronize = current_device = get_device_name = get_device_properties = set_device = init = _refused
current_stream = get_device_capability = Stream = Event = _refused


def __getattr__(name: str) -> Any:
    """``cuda.amp`` by attribute."""
    if name == "amp":
        import importlib

        return importlib.import_module(f"{__name__}.amp")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
