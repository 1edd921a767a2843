"""fusegrad: PyTorch-style autograd on CPUs, with a compiler and an exporter.

``import fusegrad as torch`` runs ordinary PyTorch code of the covered surface.
"""

# ruff: noqa: I001
from __future__ import annotations

import importlib as _importlib
import warnings as _warnings
from math import e, inf, nan, pi  # noqa: F401
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from . import autograd, dtypes, errors  # noqa: F401
from .autograd.modes import (  # noqa: F401
    enable_grad, inference_mode, is_grad_enabled, is_inference_mode_enabled, no_grad, set_grad_enabled,
)  # fmt: skip
from .dtypes import (  # noqa: F401
    can_cast, dtype, finfo, float16, float32, float64, get_default_dtype, iinfo, int8, int16, int32, int64,
    promote_types, set_default_dtype, uint8,
)  # fmt: skip
from .families import namespace as _namespace
from .families import namespaces as _namespaces
from .families import open_surface as _open_surface
from .heap import keep_freed_memory as _keep_freed_memory
from .tensor import Size, Tensor, device  # noqa: F401

if _TYPE_CHECKING:
    from collections.abc import Callable as _Callable
    from typing import Protocol as _Protocol
    from typing import TypeVar as _TypeVar
    from typing import overload as _overload

    _F = _TypeVar("_F", bound=_Callable[..., _Any])

    class _Compile(_Protocol):
        """``compile``: what it is given keeps its type, called at once or as a decorator with options."""

        @_overload
        def __call__(self, f: _F, **options: _Any) -> _F: ...
        @_overload
        def __call__(self, f: None = None, **options: _Any) -> _Callable[[_F], _F]: ...

    from .autograd.anomaly import is_anomaly_check_nan_enabled, is_anomaly_enabled  # noqa: F401
    from .printing import set_printoptions  # noqa: F401
    from .random import (  # noqa: F401
        Generator,
        default_generator,
        get_rng_state,
        initial_seed,
        manual_seed,
        seed,
        set_rng_state,
    )
    from .threads import get_num_threads, set_num_threads  # noqa: F401

    compile: _Compile
    tensor: _Callable[..., Tensor]  # the function, though a submodule has the same name

__version__ = "0.1.0"

# As in PyTorch, 1/0 and log(-1) are values, not warnings. Only warnings that numpy attributes to our own modules are
# meant; numpy's error state and the user's own warnings stay as they are.
_warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"fusegrad\.")

half, double, short, long = float16, float64, int16, int64
float, int, bool = float32, int32, dtypes.bool_  # PyTorch's names; shadow the builtins in this module alone
newaxis = None
strided, contiguous_format, preserve_format = Tensor.layout, "contiguous", "preserve"
channels_last, channels_last_3d = "channels_last", "channels_last_3d"

_keep_freed_memory()
_open_surface(__name__, Tensor)
_function, _functions = _namespace("", globals())
globals()["linalg"].LinAlgError = errors.LinAlgError
globals().pop("tensor", None)  # the function, from the op table; the module of that name stays importable

# Modules that are imported when they are first asked for: those of this package, and here what others define.
_MODULES = (
    "_C", "_higher_order_ops", "accelerator", "amp", "arguments", "backends", "bind", "compiler", "control", "cuda",
    "deferred", "dispatch", "distributions", "export", "func", "nn", "op", "optim", "overrides", "printing",
    "pytree", "random", "return_types", "sizes", "switches", "testing", "threads", "utils", "version", "viz",
)  # fmt: skip
_ELSEWHERE: dict[str, _Any] = {
    "amp": ("autocast",),
    "autograd.anomaly": ("is_anomaly_check_nan_enabled", "is_anomaly_enabled"),
    "compiler": ("compile",),
    "control": ("cond", "while_loop"),
    "func": ("vmap",),
    "printing": ("set_printoptions",),
    "random": "Generator default_generator get_rng_state initial_seed manual_seed seed set_rng_state".split(),
    "serialization": ("save", "load"),
    "switches": """are_deterministic_algorithms_enabled get_default_device get_float32_matmul_precision
        get_num_interop_threads is_autocast_enabled
        is_deterministic_algorithms_warn_only_enabled set_default_device
        set_default_tensor_type set_float32_matmul_precision set_num_interop_threads
        use_deterministic_algorithms get_deterministic_debug_mode set_deterministic_debug_mode set_warn_always
        is_warn_always_enabled set_flush_denormal""".split(),
    "threads": ("get_num_threads", "set_num_threads"),
    "typed": """BoolTensor ByteTensor CharTensor DoubleTensor FloatTensor HalfTensor IntTensor LongTensor
        ShortTensor""".split(),
}  # fmt: skip
_WHERE = {name: module for module, names in _ELSEWHERE.items() for name in names}


def __getattr__(name: str) -> _Any:
    """Operators, the compiler, the exporter and other heavier parts arrive when first used."""
    if name in _MODULES:
        return _importlib.import_module(f"{__name__}.{name}")
    if name in _WHERE:
        module = _importlib.import_module(f"{__name__}.{_WHERE[name]}")
        globals()[name] = found = getattr(module, name)
        return found
    if name.startswith("_foreach_"):
        return getattr(_importlib.import_module("fusegrad.foreach"), name)
    if name == "__all__":  # for ``import *``
        modules = {n for n, v in globals().items() if isinstance(v, type(_warnings))} - {"autograd", *_namespaces()}
        names = {*_functions(), *_WHERE} - modules - {"annotations", "compile"}
        return sorted(n for n in names if not n.startswith("_"))
    return _function(name)


def __dir__() -> list[str]:
    return sorted({*_functions(), *_MODULES, *_WHERE})


def is_tensor(x: _Any) -> _Any:
    """Whether ``x`` is a Tensor."""
    return isinstance(x, Tensor)


def is_inference(x: Tensor) -> _Any:
    """Whether ``x`` was made in inference mode."""
    return x.is_inference()


def typename(x: _Any) -> str:
    """PyTorch's name of the type of ``x``."""
    return f"fusegrad.{type(x).__name__}" if isinstance(x, Tensor) else type(x).__name__
