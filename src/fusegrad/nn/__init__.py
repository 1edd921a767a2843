"""Neural networks: Module, layers, losses, initialisers, utilities."""

# ruff: noqa: F401

from __future__ import annotations

import importlib as _importlib
from typing import Any as _Any

from fusegrad.bind import accept as _accept
from fusegrad.nn.parameter import Buffer, Parameter

_accept(Parameter)
_accept(Buffer)

from fusegrad.nn import functional, init, utils  # noqa: E402
from fusegrad.nn._hooks import (  # noqa: E402
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from fusegrad.nn.activation import (  # noqa: E402
    CELU,
    ELU,
    GELU,
    GLU,
    SELU,
    Hardshrink,
    Hardsigmoid,
    Hardswish,
    Hardtanh,
    LeakyReLU,
    LogSigmoid,
    LogSoftmax,
    Mish,
    PReLU,
    ReLU,
    ReLU6,
    RReLU,
    Sigmoid,
    SiLU,
    Softmax,
    Softmax2d,
    Softmin,
    Softplus,
    Softshrink,
    Softsign,
    Tanh,
    Tanhshrink,
    Threshold,
)
from fusegrad.nn.adaptive import AdaptiveLogSoftmaxWithLoss  # noqa: E402
from fusegrad.nn.containers import ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential  # noqa: E402
from fusegrad.nn.conv import (  # noqa: E402
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
from fusegrad.nn.dropout import (  # noqa: E402
    AlphaDropout,
    Dropout,
    Dropout1d,
    Dropout2d,
    Dropout3d,
    FeatureAlphaDropout,
)
from fusegrad.nn.linear import Bilinear, Flatten, Identity, Linear, Unflatten  # noqa: E402
from fusegrad.nn.loss import (  # noqa: E402
    BCELoss,
    BCEWithLogitsLoss,
    CosineEmbeddingLoss,
    CrossEntropyLoss,
    CTCLoss,
    GaussianNLLLoss,
    HingeEmbeddingLoss,
    HuberLoss,
    KLDivLoss,
    L1Loss,
    MarginRankingLoss,
    MSELoss,
    MultiLabelMarginLoss,
    MultiLabelSoftMarginLoss,
    MultiMarginLoss,
    NLLLoss,
    PoissonNLLLoss,
    SmoothL1Loss,
    SoftMarginLoss,
    TripletMarginLoss,
    TripletMarginWithDistanceLoss,
)
from fusegrad.nn.module import Module  # noqa: E402
from fusegrad.nn.norm import (  # noqa: E402
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    GroupNorm,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
    LayerNorm,
    LocalResponseNorm,
    RMSNorm,
)
from fusegrad.nn.padding import (  # noqa: E402
    CircularPad1d,
    CircularPad2d,
    CircularPad3d,
    ConstantPad1d,
    ConstantPad2d,
    ConstantPad3d,
    ReflectionPad1d,
    ReflectionPad2d,
    ReflectionPad3d,
    ReplicationPad1d,
    ReplicationPad2d,
    ReplicationPad3d,
    ZeroPad1d,
    ZeroPad2d,
    ZeroPad3d,
)
from fusegrad.nn.pooling import (  # noqa: E402
    AdaptiveAvgPool1d,
    AdaptiveAvgPool2d,
    AdaptiveAvgPool3d,
    AdaptiveMaxPool1d,
    AdaptiveMaxPool2d,
    AdaptiveMaxPool3d,
    AvgPool1d,
    AvgPool2d,
    AvgPool3d,
    FractionalMaxPool2d,
    FractionalMaxPool3d,
    LPPool1d,
    LPPool2d,
    LPPool3d,
    MaxPool1d,
    MaxPool2d,
    MaxPool3d,
    MaxUnpool1d,
    MaxUnpool2d,
    MaxUnpool3d,
)
from fusegrad.nn.rnn import GRU, LSTM, RNN, GRUCell, LSTMCell, RNNBase, RNNCell, RNNCellBase  # noqa: E402
from fusegrad.nn.sparse import Embedding, EmbeddingBag  # noqa: E402
from fusegrad.nn.transformer import (  # noqa: E402
    MultiheadAttention,
    Transformer,
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)
from fusegrad.nn.vision import (  # noqa: E402
    ChannelShuffle,
    CosineSimilarity,
    Fold,
    PairwiseDistance,
    PixelShuffle,
    PixelUnshuffle,
    Unfold,
    Upsample,
    UpsamplingBilinear2d,
    UpsamplingNearest2d,
)


def __getattr__(name: str) -> _Any:
    """Lazy modules and PyTorch's import paths are imported when they are used."""
    if name in ("modules", "lazy", "common_types", "parallel", "attention"):
        return _importlib.import_module(f"fusegrad.nn.{name}")
    if name.startswith("Lazy") and hasattr(found := _importlib.import_module("fusegrad.nn.lazy"), name):
        return getattr(found, name)
    if name == "DataParallel":
        return _importlib.import_module("fusegrad.nn.parallel").DataParallel
    if name in ("UninitializedParameter", "UninitializedBuffer"):
        return getattr(_importlib.import_module("fusegrad.nn.parameter"), name)
    from ..unsupported import message

    raise AttributeError(message("nn", name))


__all__ = [name for name in dir() if not name.startswith("_") and name != "annotations"]
