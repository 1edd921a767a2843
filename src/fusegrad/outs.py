"""``out=`` for public functions that are plain Python (table operators get it from ``callgen``; see ``public``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .callgen import _write_out
from .inplace import check_overlap
from .tensor import Tensor

OUT = frozenset(
    """
add addbmm addmm addmv addr aminmax argsort baddbmm bmm cat cholesky cholesky_inverse cholesky_solve clamp_max
clamp_min column_stack concat concatenate conj_physical cross cummax cummin diag diff div divide dot dstack
float_power gather ger histogram hstack index_add index_copy index_reduce index_select inner inverse isin kron kthvalue lerp
log_softmax masked_select matrix_power max min mm msort mv mvlgamma nanmean nanquantile nansum nonzero
nonzero_static norm outer polygamma pow qr quantile renorm row_stack scatter scatter_add scatter_reduce slogdet
softmax square stack std sub subtract svd take take_along_dim tensordot triangular_solve var vdot vstack
linalg.cholesky linalg.cholesky_ex linalg.cond linalg.cross linalg.det linalg.eigh linalg.eigvalsh linalg.inv
linalg.inv_ex linalg.lstsq linalg.lu linalg.lu_factor linalg.lu_factor_ex linalg.lu_solve linalg.matrix_norm
linalg.matrix_power linalg.matrix_rank linalg.multi_dot linalg.norm linalg.pinv linalg.qr linalg.slogdet linalg.solve
linalg.solve_ex linalg.solve_triangular linalg.svd linalg.svdvals linalg.tensorinv linalg.tensorsolve linalg.vecdot
linalg.vector_norm
nn.functional.avg_pool2d nn.functional.avg_pool3d nn.functional.gelu nn.functional.linear nn.functional.logsigmoid
nn.functional.softplus nn.functional.softshrink
special.entr special.erfcx special.i0e special.i1 special.i1e special.log_ndtr special.multigammaln special.ndtr
special.ndtri special.polygamma special.softmax special.log_softmax special.xlog1py
""".split()  # noqa: E501
)
"""Names whose plain function has no ``out``, though PyTorch's has."""

APART = frozenset("cat concat concatenate cross gather index_select kthvalue masked_select take".split())
"""Names whose ``out`` may not share memory with an argument."""
PARTLY = frozenset(
    """
add addr clamp_max clamp_min column_stack diff div divide dstack float_power ger hstack
index_add index_copy index_reduce kron lerp max min msort nonzero outer polygamma pow renorm scatter scatter_add
scatter_reduce row_stack square stack sub subtract take_along_dim vstack gelu softplus
softshrink entr erfcx i0e i1 i1e log_ndtr ndtri xlog1py
""".split()
)
"""Names whose ``out`` may be an argument, but not share a part of its memory."""
ADDED = {"addbmm": 0, "addmm": 0, "addmv": 0, "baddbmm": 0}
"""Names of products of which only what is added (the argument at this position) may not share a part of ``out``."""
EXACT = frozenset("aminmax gather index_select masked_select max min take".split())
"""Names whose ``out`` must have the dtype of the result: nothing is cast."""


def check_apart(out: Any, given: tuple) -> None:
    """RuntimeError if ``out`` shares memory with itself or with one of the tensors ``given`` (or in a list there)."""
    for o in out if isinstance(out, (tuple, list)) else (out,):
        d = o._data if isinstance(o, Tensor) else None
        if d is not None and any(s == 0 and n > 1 for s, n in zip(d.strides, d.shape, strict=True)):
            raise RuntimeError(
                "unsupported operation: more than one element of the written-to tensor refers to a single memory "
                "location. Please clone() the tensor before performing the operation."
            )
        for a in given:
            for t in a if isinstance(a, (tuple, list)) else (a,):
                if isinstance(o, Tensor) and isinstance(t, Tensor) and (o is t or _overlap(o._data, t._data)):
                    raise RuntimeError(
                        "unsupported operation: some elements of the input tensor and the written-to tensor refer to a "
                        "single memory location. Please clone() the tensor before performing the operation."
                    )


def _overlap(a: Any, b: Any) -> bool:
    return a is not None and b is not None and bool(np.may_share_memory(a, b))


def store(name: str, out: Any, given: tuple, call: Callable[[], Any]) -> Any:
    """Run ``call`` and write its result into ``out``."""
    if name in APART:
        check_apart(out, given)
    result = call()
    if name in EXACT:
        pairs = zip(out, result, strict=False) if isinstance(out, (tuple, list)) else [(out, result)]
        for o, r in pairs:
            if isinstance(o, Tensor) and isinstance(r, Tensor) and o.dtype is not r.dtype:
                raise RuntimeError(f"{name}(): Expected out tensor to have dtype {r.dtype}, but got {o.dtype} instead")
    at = ADDED.get(name)
    operands = given if name in PARTLY else () if at is None else given[at : at + 1]
    for o in out if isinstance(out, (tuple, list)) else ():
        if isinstance(o, Tensor) and operands:
            check_overlap(o, operands)
    return _write_out(name, out, result, operands)
