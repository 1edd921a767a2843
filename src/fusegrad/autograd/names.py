"""PyTorch's names of nodes, where they are not simply the operator's name: ``<DivBackward0>`` for ``true_divide``."""

from __future__ import annotations

from typing import Any

from ..meta import Meta
from .node import Node
from .undefined import NOT_IMPLEMENTED


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
    if len(node.shape) == 1 and ranks in ([1, 2], [1, 0], [0, 2]):  # a row times a matrix
        return "SqueezeBackward4"
    if len(node.shape) == 2 and ranks[-1] == 1:
        return "UnsafeViewBackward0"
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
    dims = node.attrs["dims"]  # batch normalisation keeps the channels, layer normalisation takes the last dimensions
    whole = len(dims) == len(node.shape[0])
    return "NativeBatchNormBackward0" if 0 in dims and not whole else "NativeLayerNormBackward0"


def _squeeze(node: Any) -> str:
    dims = node.attrs["dims"]
    if len(dims) == 1:
        return "SqueezeBackward1"
    whole = bool(node.saved) and len(dims) == node.saved[0].ndim
    return f"SqueezeBackward{0 if whole else 2}"


def _map_name(node: Any) -> str:
    """Of a remembered map: ``('UpsampleBilinear2D', (4, 4), ...)``."""
    name = node.attrs["key"].split("'")[1]
    return "SqueezeBackward1" if name.endswith("Pool1D") else name + "Backward0"


def _max_pool(name: str) -> Any:
    """PyTorch pools one dimension as two, of which it removes one."""

    def of(node: Any) -> str:
        rank = (
            len(node.attrs["window"]) + 2
            if "window" in node.attrs
            else len(node.shape[0] if node.op.n_out == 2 else node.shape)
        )
        return "SqueezeBackward1" if rank == 3 else f"{name.format(rank - 2)}Backward0"

    return of


def _unpool(rank: int) -> str:
    return "SqueezeBackward1" if rank == 3 else f"MaxUnpool{rank - 2}DBackward0"


def _maybe_number(node: Any, i: int) -> bool:
    """Whether operand ``i`` was a number, as far as a node tells that need not keep it."""
    return not node.saved or node.edges[i] is None and (node.saved[i] is None or _number(node.saved[i]))


def _by_number(name: str) -> Any:
    """0 for a number as second operand, 1 for a tensor."""
    return lambda node: f"{name}Backward{0 if _maybe_number(node, 1) else 1}"


def _remainder(node: Any) -> str:
    if node.saved and _number(node.saved[0]):
        return NOT_IMPLEMENTED
    return f"RemainderBackward{0 if _maybe_number(node, 1) else 1}"


NAMES: dict[str, Any] = {
    "_conv_input": "ConvolutionBackward0",
    "_fold": "Col2ImBackward0",
    "_max_values": _max_pool("MaxPool{}DWithIndices"),
    "_max_pool": _max_pool("MaxPool{}DWithIndices"),
    "_unfold": "Im2ColBackward0",
    "_adaptive_max": _max_pool("AdaptiveMaxPool{}D"),
    "_glu": "GluBackward0",
    "_add_product": lambda node: "AddmmBackward0" if len(node.shape) == 2 else "BaddbmmBackward0",
    "_cross": "LinalgCrossBackward0",
    "_bce": "BinaryCrossEntropyBackward0",
    "_bce_logits": "BinaryCrossEntropyWithLogitsBackward0",
    "_cross_entropy": "NllLossBackward0",
    "_conv": "ConvolutionBackward0",
    "_conv_with_bias": "ConvolutionBackward0",
    "_log_softmax": "LogSoftmaxBackward0",
    "_linear_map": _map_name,
    "_mean_map": _map_name,
    "_moment_norm": _norm,
    "_channel_norm": "NativeBatchNormBackward0",
    "_group_norm": "NativeGroupNormBackward0",
    "_grid_sampler": "GridSampler2DBackward0",
    "_running_norm": "NativeBatchNormBackward0",
    "_nll_loss": "NllLossBackward0",
    "_pick_class": "NllLossBackward0",
    "_rms_norm": "FusedRmsNormBackward0",
    "_softmax": "SoftmaxBackward0",
    "_unpool_set": lambda node: _unpool(len(node.shape)),
    "_ctc": "CtcLossBackward0",
    "cast": "ToCopyBackward0",
    "cholesky_lower": "LinalgCholeskyExBackward0",
    "clamp": "ClampBackward1",
    "clamp_tensor": "ClampBackward0",
    "constant_pad": "ConstantPadNdBackward0",
    "cummax_dim": "CummaxBackward0",
    "cummin_dim": "CumminBackward0",
    "det": "LinalgDetBackward0",
    "eigh_pair": "LinalgEighBackward0",
    "cholesky_solve_lower": "CholeskySolveBackward0",
    "deg2rad": "Deg2RadBackward0",
    "rad2deg": "Rad2DegBackward0",
    "diagonal_backward": "DiagEmbedBackward0",
    "dropout": "MulBackward0",
    "entr": "SpecialEntrBackward0",
    "erfcx": "SpecialErfcxBackward0",
    "fmod": _by_number("Fmod"),
    "i0e": "SpecialI0EBackward0",
    "i1": "SpecialI1Backward0",
    "i1e": "SpecialI1EBackward0",
    "lerp_tensor": "LerpBackward1",
    "log_ndtr": "SpecialLogNdtrBackward0",
    "logsigmoid": "LogSigmoidBackward0",
    "lu_parts": "LinalgLuBackward0",
    "matrix_exp": "LinalgMatrixExpBackward0",
    "ndtri": "SpecialNdtriBackward0",
    "pinv_matrix": "LinalgPinvBackward0",
    "polygamma_of": "PolygammaBackward0",
    "_cosines": "MulBackward0",
    "prelu_elementwise": "PreluKernelBackward0",
    "remainder": _remainder,
    "rrelu_op": "RreluWithNoiseBackward0",
    "slogdet_pair": "LinalgSlogdetBackward0",
    "triangular_solve_matrix": "LinalgSolveTriangularBackward0",
    "trunc_divide": "DivBackward2",
    "floor_divide": NOT_IMPLEMENTED,
    "floor_quotient": "DivBackward2",
    "xlog1py": "SpecialXlog1PyBackward0",
    "fill_number": "FillBackward2",
    "inv": "LinalgInvExBackward0",
    "log1p": "Log1PBackward0",
    "logsumexp": "LogsumexpBackward0",
    "mask_fill": lambda node: "WhereBackward0" if node.attrs.get("invert") else "MaskedFillBackward0",
    "mask_fill_tensor": "MaskedFillBackward1",
    "matmul": _matmul,
    "max_all": "MaxBackward1",
    "max_dim": "MaxBackward0",
    "mean": _by_dim("Mean"),
    "median_all": lambda node: "NanmedianBackward0" if node.attrs["ignore_nan"] else "MedianBackward0",
    "median_dim": lambda node: "NanmedianBackward1" if node.attrs.get("ignore_nan") else "MedianBackward1",
    "min_all": "MinBackward1",
    "min_dim": "MinBackward0",
    "pow": _pow,
    "prod": _by_dim("Prod"),
    "qr_pair": "LinalgQrBackward0",
    "scatter_value": "ScatterBackward1",
    "slice_nd": _index,
    "solve_matrix": "LinalgSolveExBackward0",
    "square": "PowBackward0",
    "softsign": "DivBackward0",
    "squeeze_dims": _squeeze,
    "tanhshrink": "SubBackward0",
    "sum": _by_dim("Sum"),
    "svd_triple": "LinalgSvdBackward0",
    "true_divide": "DivBackward0",
    "vector_norm": "LinalgVectorNormBackward0",
    "where": "WhereBackward0",
    "linear": _linear,
}


COMPOSITES: dict[str, tuple[str, tuple[str, ...]]] = {
    "addbmm": ("AddbmmBackward0", ("input", "batch1", "batch2")),
    "addmm": ("AddmmBackward0", ("input", "mat1", "mat2")),
    "baddbmm": ("BaddbmmBackward0", ("input", "batch1", "batch2")),
    "addmv": ("AddmvBackward0", ("input", "mat", "vec")),
    "addr": ("AddrBackward0", ("input", "vec1", "vec2")),
    "index_reduce": ("IndexReduceBackward0", ("input", "source")),
    "linalg.householder_product": ("LinalgHouseholderProductBackward0", ("input", "tau")),
    "linalg.lu_solve": ("LinalgLuSolveBackward0", ("LU", "B")),
    "lu_solve": ("LinalgLuSolveBackward0", ("LU_data", "b")),
    "rsub": ("RsubBackward0", ("input", "other")),
    "triangular_solve": ("TriangularSolveBackward0", ("input", "A")),
    "masked_scatter": ("MaskedScatterBackward0", ("input", "source")),
    "masked_select": ("MaskedSelectBackward0", ("input",)),
    "take": ("TakeBackward0", ("input",)),
    "trace": ("TraceBackward0", ("input",)),
    "roll": ("RollBackward0", ("input",)),
    "rot90": ("Rot90Backward0", ("input",)),
    "repeat": ("RepeatBackward0", ("input",)),
    "tile": ("RepeatBackward0", ("input",)),
    "nansum": ("NansumBackward0", ("input",)),
    "renorm": ("RenormBackward0", ("input",)),
    "block_diag": ("BlockDiagBackward0", ("tensors",)),
    "segment_reduce": ("SegmentReduceBackward0", ("data",)),
    "dist": ("DistBackward0", ("input", "other")),
    "linalg.solve": ("LinalgSolveExBackward0", ("A", "B")),
    "cross": ("LinalgCrossBackward0", ("input", "other")),
    "linalg.cross": ("LinalgCrossBackward0", ("input", "other")),
    "linalg.lstsq": ("LinalgLstsqBackward0", ("A", "B")),
    "mvlgamma": ("MvlgammaBackward0", ("input",)),
    "special.multigammaln": ("MvlgammaBackward0", ("input",)),
    "cdist": ("CdistBackward0", ("x1", "x2")),
    "pdist": ("PdistBackward0", ("input",)),
    "clamp_min": ("ClampMinBackward0", ("input",)),
    "clamp_max": ("ClampMaxBackward0", ("input",)),
    "group_norm": ("NativeGroupNormBackward0", ("input", "weight", "bias")),
    "pixel_shuffle": ("PixelShuffleBackward0", ("input",)),
    "pixel_unshuffle": ("PixelUnshuffleBackward0", ("input",)),
    "channel_shuffle": ("ChannelShuffleBackward0", ("input",)),
    "nn.functional.adaptive_avg_pool2d": ("AdaptiveAvgPool2DBackward0", ("input",)),
    "nn.functional.adaptive_avg_pool3d": ("AdaptiveAvgPool3DBackward0", ("input",)),
    "nn.functional.avg_pool2d": ("AvgPool2DBackward0", ("input",)),
    "nn.functional.avg_pool3d": ("AvgPool3DBackward0", ("input",)),
    "nn.functional.affine_grid": ("AffineGridGeneratorBackward0", ("theta",)),
    "nn.functional.binary_cross_entropy": ("BinaryCrossEntropyBackward0", ("input", "target")),
    "nn.functional.binary_cross_entropy_with_logits": (
        "BinaryCrossEntropyWithLogitsBackward0",
        ("input", "target"),
    ),
    "celu": ("CeluBackward0", ("input",)),
    "nn.functional.celu": ("CeluBackward0", ("input",)),
    "nn.functional.embedding_bag": ("EmbeddingBagBackward0", ("weight", "per_sample_weights")),
    "nn.functional.fractional_max_pool2d": ("FractionalMaxPool2DBackward0", ("input",)),
    "nn.functional.fractional_max_pool3d": ("FractionalMaxPool3DBackward0", ("input",)),
    "nn.functional.grid_sample": ("GridSampler{}DBackward0", ("input", "grid")),
    "nn.functional.max_pool2d": ("MaxPool2DWithIndicesBackward0", ("input",)),
    "nn.functional.max_pool3d": ("MaxPool3DWithIndicesBackward0", ("input",)),
    "nn.functional.glu": ("GluBackward0", ("input",)),
    "nn.functional.group_norm": ("NativeGroupNormBackward0", ("input", "weight", "bias")),
    "nn.functional.huber_loss": ("HuberLossBackward0", ("input", "target")),
    "nn.functional.mse_loss": ("MseLossBackward0", ("input", "target")),
    "nn.functional.multi_margin_loss": ("MultiMarginLossBackward0", ("input",)),
    "nn.functional.multilabel_margin_loss": ("MultilabelMarginLossBackward0", ("input",)),
    "nn.functional.pdist": ("PdistBackward0", ("input",)),
    "nn.functional.pixel_shuffle": ("PixelShuffleBackward0", ("input",)),
    "nn.functional.pixel_unshuffle": ("PixelUnshuffleBackward0", ("input",)),
    "nn.functional.channel_shuffle": ("ChannelShuffleBackward0", ("input",)),
    "nn.functional.smooth_l1_loss": ("SmoothL1LossBackward0", ("input", "target")),
    "nn.functional.soft_margin_loss": ("SoftMarginLossBackward0", ("input",)),
}
"""Public functions made of several operators that are one node in PyTorch: its name, and the operands it counts. "{}"
is the number of the first one's spatial dimensions."""


def renamed(out: Any, name: str) -> Any:
    """``out``, whose node shows ``name`` and its own operands."""
    node = out._node
    if isinstance(node, Node) and node.op is not None:
        node.composite = name, None
    return out


def named(out: Any, name: str, operands: tuple) -> Any:
    """``out``, a result of a function made of several operators, whose last node shows ``name`` and ``operands``."""
    first = out[0] if isinstance(out, tuple) and out else out
    node = getattr(first, "_node", None)
    if isinstance(node, Node) and node.op is not None:
        edges: list[Any] = []
        if type(operands[0]) is tuple:  # of ``*tensors``
            operands = operands[0]
        for x in operands:
            if not getattr(x, "_rg", False):
                edges.append(_NO_EDGE)
            elif x._node is node:
                return out
            else:
                edges.append((x._node or x, x._nr))
        node.composite = name.format(operands[0].ndim - 2) if "{" in name else name, tuple(edges)
    return out


_NO_EDGE = (None, 0)


def shown(node: Any) -> Any:
    """The edges that PyTorch's node has: not those of indices, masks and other operands without a derivative."""
    edges = tuple(zip(node.edges, node.nrs, strict=True))
    if node.op is None:
        return edges
    name, rules = node.op.name, node.op.rules
    if name in ("index", "_cross_entropy", "_nll_loss"):
        return edges[:1]
    if name == "dropout":
        return edges[0], (None, 0)
    if name == "index_fill" and edges[-1][0] is None:
        return edges[:1]
    if name == "nn.functional.linear":
        return edges[:2] if edges[-1][0] is None else (edges[2], *edges[:2])
    if name == "mul" and node.saved and _number(node.saved[0]):
        return edges[::-1]  # PyTorch puts the tensor first
    if name == "sub" and node.composite is not None:
        return edges[1:]  # n - x
    if name == "index_put":
        return edges[0], edges[-1]
    if "*" in rules:
        return edges
    plain = name in ("pow", "remainder", "fmod")  # PyTorch has another node for a number
    return tuple(
        x
        for i, (p, x) in enumerate(zip(node.op.sig.tensors, edges, strict=True))
        if p.name in rules and not (plain and node.saved and _maybe_number(node, i))
    )


def name_of(node: Any) -> str:
    """PyTorch's style of name for a node of a table operator: ``MulBackward0``."""
    if node.composite is not None:
        return node.composite[0]
    short = node.op.name.split(".")[-1]
    known = NAMES.get(short)
    if known is not None:
        return known if isinstance(known, str) else known(node)
    return plain_name(short)


def plain_name(operator: str) -> str:
    """``MulBackward0`` for ``mul``."""
    return "".join(p[:1].upper() + p[1:] for p in operator.split(".")[-1].split("_")) + "Backward0"
