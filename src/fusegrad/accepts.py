"""Dtypes that public functions refuse though their operators could compute with them: PyTorch has no kernel for them.

Only what a user calls is checked (see ``public``); calls inside of the package are not.
"""

from __future__ import annotations

from typing import Any

from . import dtypes as dt

_LETTERS = {
    "b": (dt.bool_,),
    "u": (dt.uint8,),
    "i": (dt.int8, dt.int16, dt.int32),
    "l": (dt.int64,),
    "h": (dt.float16,),
}
_INTS = "buil"

REFUSED: dict[str, tuple[str, str, type[RuntimeError]]] = {
    **{
        f"nn.functional.{name}": ("input", _INTS, NotImplementedError)
        for name in """rrelu prelu max_pool1d grid_sample smooth_l1_loss huber_loss rms_norm adaptive_avg_pool1d
        adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d""".split()
    },
    "prelu": ("input", _INTS, NotImplementedError),
    "rrelu": ("input", _INTS, NotImplementedError),
    "nn.functional.batch_norm": ("input", _INTS, NotImplementedError),
    "nn.functional.multi_margin_loss": ("input", _INTS + "h", NotImplementedError),
    "nn.functional.interpolate": ("input", "bil", NotImplementedError),
    "nn.functional.unfold": ("input", "uil", NotImplementedError),
    "nn.functional.avg_pool1d": ("input", "bui", NotImplementedError),
    "nn.functional.avg_pool2d": ("input", "bui", NotImplementedError),
    "nn.functional.max_pool2d": ("input", "b", NotImplementedError),
    "nn.functional.threshold": ("input", "b", NotImplementedError),
    "nn.functional.alpha_dropout": ("input", "uil", RuntimeError),
    "nn.functional.soft_margin_loss": ("input", _INTS, RuntimeError),
    "nn.functional.pdist": ("input", "h", NotImplementedError),
    "pdist": ("input", "h", NotImplementedError),
    "cdist": ("x1", "h", NotImplementedError),
    "median": ("input", "b", NotImplementedError),
    "nanmedian": ("input", "b", NotImplementedError),
    "kthvalue": ("input", "b", NotImplementedError),
    "trace": ("input", "b", NotImplementedError),
    "bincount": ("input", "b", NotImplementedError),
    "topk": ("input", "b", RuntimeError),
    "gradient": ("input", "bu", RuntimeError),
    "trapezoid": ("y", "b", RuntimeError),
    "trapz": ("y", "b", RuntimeError),
    "cumulative_trapezoid": ("y", "b", RuntimeError),
    "quantile": ("input", "h", RuntimeError),
    "nanquantile": ("input", "h", RuntimeError),
}
"""The parameter (with ?: it may be a number), the dtypes it may not have, and the class of PyTorch's error."""

SAME: dict[str, tuple[str, str]] = {
    "cross": ("input", "other"),
    "linalg.cross": ("input", "other"),
    "cdist": ("x1", "x2"),
    "nn.functional.grid_sample": ("input", "grid"),
}
"""Two parameters that must have one dtype."""


def check_lines(name: str, params: set[str], env: dict[str, Any]) -> list[str]:
    """The lines of the layer of a function that refuse dtypes; what they name goes into ``env``."""
    lines = []
    found = REFUSED.get(name)
    if found is not None and found[0].rstrip("?") in params:
        param, letters, _ = found
        env["REFUSED_"], env["refuse_"] = frozenset(d for c in letters for d in _LETTERS[c]), refuse
        kind = f"getattr({param[:-1]}, 'dtype', None)" if param[-1] == "?" else f"{param}.dtype"
        lines.append(f"if {kind} in REFUSED_: refuse_({name!r}, {param.rstrip('?')})")
    same = SAME.get(name)
    if same is not None:
        a, b = same
        env["differ_"] = differ
        lines.append(f"if {a}.dtype is not {b}.dtype: differ_({name!r}, {a}, {b})")
    return lines


def refuse(name: str, t: Any) -> None:
    """The error for a dtype that ``name`` does not take."""
    raise REFUSED[name][2](f'"{name}" not implemented for {t.dtype.name}: convert the tensor first')


def differ(name: str, a: Any, b: Any) -> None:
    """The error for two dtypes where ``name`` takes one."""
    raise RuntimeError(
        f"{name}: expected scalar type {a.dtype.name} but found {b.dtype.name}: convert one of them to the other dtype"
    )
