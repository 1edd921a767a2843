"""PyTorch's names of nodes, where they are not simply the operator's name: ``<DivBackward0>`` for ``true_divide``."""

from __future__ import annotations

from typing import Any

from ..meta import Meta


def _number(x: Any) -> bool:
    """Whether a saved operand was a Python number."""
    return isinstance(x, (bool, int, float)) or (isinstance(x, Meta) and x.weak)


def _by_dim(name: str) -> Any:
    """Reductions: 0 over all dimensions, 1 over some."""
    return lambda node: f"{name}Backward{0 if not node.attrs.get('dim') and node.attrs.get('dim') != 0 else 1}"


def _index(node: Any) -> str:
    """``x[...]``: the last of the views that PyTorch would make one after the other."""
    for i in reversed(node.attrs["index"]):
        if i is None:
            return "UnsqueezeBackward0"
        if isinstance(i, slice):
            return "SliceBackward0"
        if i is not Ellipsis:
            return "SelectBackward0"
    return "AliasBackward0"


def _matmul(node: Any) -> str:
    ranks = [len(s.shape) if s is not None and hasattr(s, "shape") else 0 for s in node.saved or (None,)]
    if len(node.shape) == 0:
        return "DotBackward0"
    if 0 not in ranks and max(ranks) <= 2:
        return "MvBackward0" if 1 in ranks else "MmBackward0"
    return "MmBackward0" if len(node.shape) == 2 else "BmmBackward0" if len(node.shape) == 3 else "UnsafeViewBackward0"


def _pow(node: Any) -> str:
    a, b = node.saved or (None, 2)  # a backward pass has freed it: the usual case
    return "PowBackward0" if _number(b) else "PowBackward2" if _number(a) else "PowBackward1"


def _linear(node: Any) -> str:
    if len(node.shape) != 2:
        return "ViewBackward0"
    return "MmBackward0" if node.edges[-1] is None else "AddmmBackward0"


def _norm(node: Any) -> str:
    return "NativeBatchNormBackward0" if 0 in node.attrs["dims"] else "NativeLayerNormBackward0"


NAMES: dict[str, Any] = {
    "_adaptive_max": "AdaptiveMaxPool2DBackward0",
    "_bce": "BinaryCrossEntropyBackward0",
    "_bce_logits": "BinaryCrossEntropyWithLogitsBackward0",
    "_cross_entropy": "NllLossBackward0",
    "_conv": "ConvolutionBackward0",
    "_log_softmax": "LogSoftmaxBackward0",
    "_moment_norm": _norm,
    "_pick_class": "NllLossBackward0",
    "_rms_norm": "FusedRmsNormBackward0",
    "_softmax": "SoftmaxBackward0",
    "amax": "AmaxBackward0",
    "cast": "ToCopyBackward0",
    "cholesky_lower": "LinalgCholeskyExBackward0",
    "clamp": "ClampBackward1",
    "clamp_tensor": "ClampBackward0",
    "constant_pad": "ConstantPadNdBackward0",
    "cummax_dim": "CummaxBackward0",
    "cummin_dim": "CumminBackward0",
    "det": "LinalgDetBackward0",
    "eigh_pair": "LinalgEighBackward0",
    "fill_number": "FillBackward2",
    "inv": "LinalgInvExBackward0",
    "log1p": "Log1PBackward0",
    "logsumexp": "LogsumexpBackward0",
    "mask_fill": "MaskedFillBackward0",
    "matmul": _matmul,
    "max_dim": "MaxBackward0",
    "mean": _by_dim("Mean"),
    "median_all": "MedianBackward0",
    "median_dim": "MedianBackward1",
    "min_dim": "MinBackward0",
    "pow": _pow,
    "prod": _by_dim("Prod"),
    "qr_pair": "LinalgQrBackward0",
    "scatter_value": "ScatterBackward1",
    "slice_nd": _index,
    "solve_matrix": "LinalgSolveExBackward0",
    "square": "PowBackward0",
    "squeeze_dims": "SqueezeBackward1",
    "sum": _by_dim("Sum"),
    "svd_triple": "LinalgSvdBackward0",
    "true_divide": "DivBackward0",
    "vector_norm": "LinalgVectorNormBackward0",
    "where": "WhereBackward0",
    "linear": _linear,
}


def name_of(node: Any) -> str:
    """PyTorch's style of name for a node of a table operator: ``MulBackward0``."""
    short = node.op.name.split(".")[-1]
    known = NAMES.get(short)
    if known is not None:
        return known if isinstance(known, str) else known(node)
    return "".join(p[:1].upper() + p[1:] for p in short.split("_")) + "Backward0"
