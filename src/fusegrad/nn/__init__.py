"""Neural networks: Module, layers, losses, initialisers, utilities."""

from __future__ import annotations

from fusegrad.bind import accept as _accept
from fusegrad.nn.parameter import Buffer, Parameter

_accept(Parameter)
_accept(Buffer)

from fusegrad.nn import functional, init, utils  # noqa: E402
from fusegrad.nn._hooks import (  # noqa: E402
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
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
from fusegrad.nn.containers import ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential  # noqa: E402
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
