"""Pooling modules."""

from __future__ import annotations

from typing import Any

from fusegrad.nn import functional as F
from fusegrad.nn.module import Module
from fusegrad.tensor import Tensor


class _MaxPool(Module):
    _function: str

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ):
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding, self.dilation = padding, dilation
        self.return_indices, self.ceil_mode = return_indices, ceil_mode

    def forward(self, input: Tensor) -> Any:
        """The largest element of each window (and its index)."""
        return getattr(F, self._function)(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            ceil_mode=self.ceil_mode,
            return_indices=self.return_indices,
        )

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, dilation={self.dilation}, "
            f"ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPool):
    """Maximum over windows of (N, C, L)."""

    _function = "max_pool1d"


class MaxPool2d(_MaxPool):
    """Maximum over windows of (N, C, H, W)."""

    _function = "max_pool2d"


class MaxPool3d(_MaxPool):
    """Maximum over windows of (N, C, D, H, W)."""

    _function = "max_pool3d"


class _MaxUnpool(Module):
    _function: str

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0):
        super().__init__()
        self.kernel_size, self.padding = kernel_size, padding
        self.stride = stride if stride is not None else kernel_size

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        """The elements put back where max pooling found them, zeros elsewhere."""
        return getattr(F, self._function)(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpool):
    """Partial inverse of MaxPool1d."""

    _function = "max_unpool1d"


class MaxUnpool2d(_MaxUnpool):
    """Partial inverse of MaxPool2d."""

    _function = "max_unpool2d"


class MaxUnpool3d(_MaxUnpool):
    """Partial inverse of MaxPool3d."""

    _function = "max_unpool3d"


class AvgPool1d(Module):
    """Mean over windows of (N, C, L)."""

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ):
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding, self.ceil_mode, self.count_include_pad = padding, ceil_mode, count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        """The means."""
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _AvgPool(Module):
    _function: str

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ):
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding, self.ceil_mode, self.count_include_pad = padding, ceil_mode, count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Tensor) -> Tensor:
        """The means."""
        return getattr(F, self._function)(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )

    extra_repr = AvgPool1d.extra_repr


class AvgPool2d(_AvgPool):
    """Mean over windows of (N, C, H, W)."""

    _function = "avg_pool2d"


class AvgPool3d(_AvgPool):
    """Mean over windows of (N, C, D, H, W)."""

    _function = "avg_pool3d"


class _FractionalMaxPool(Module):
    _function: str

    def __init__(
        self,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Any = None,
    ):
        super().__init__()
        self.kernel_size, self.output_size, self.output_ratio = kernel_size, output_size, output_ratio
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        if output_size is None and output_ratio is None:
            raise ValueError(f"{type(self).__name__} requires specifying either an output size, or a pooling ratio")
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")

    def forward(self, input: Tensor) -> Any:
        """Maxima over windows at random places (Graham, 2014)."""
        return getattr(F, self._function)(
            input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices, self._random_samples
        )


class FractionalMaxPool2d(_FractionalMaxPool):
    """Fractional max pooling of (N, C, H, W)."""

    _function = "fractional_max_pool2d"


class FractionalMaxPool3d(_FractionalMaxPool):
    """Fractional max pooling of (N, C, D, H, W)."""

    _function = "fractional_max_pool3d"


class _LPPool(Module):
    _function: str

    def __init__(self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False):
        super().__init__()
        self.norm_type, self.kernel_size, self.stride, self.ceil_mode = norm_type, kernel_size, stride, ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        """The p-norm of each window."""
        return getattr(F, self._function)(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)

    def extra_repr(self) -> str:
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPool):
    """p-norm over windows of (N, C, L)."""

    _function = "lp_pool1d"


class LPPool2d(_LPPool):
    """p-norm over windows of (N, C, H, W)."""

    _function = "lp_pool2d"


class LPPool3d(_LPPool):
    """p-norm over windows of (N, C, D, H, W)."""

    _function = "lp_pool3d"


class _AdaptiveMaxPool(Module):
    _function: str

    def __init__(self, output_size: Any, return_indices: bool = False):
        super().__init__()
        self.output_size, self.return_indices = output_size, return_indices

    def forward(self, input: Tensor) -> Any:
        """Maxima over windows that divide the input into output_size parts."""
        return getattr(F, self._function)(input, self.output_size, self.return_indices)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """Adaptive max pooling of (N, C, L)."""

    _function = "adaptive_max_pool1d"


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """Adaptive max pooling of (N, C, H, W)."""

    _function = "adaptive_max_pool2d"


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """Adaptive max pooling of (N, C, D, H, W)."""

    _function = "adaptive_max_pool3d"


class _AdaptiveAvgPool(Module):
    _function: str

    def __init__(self, output_size: Any):
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        """Means over windows that divide the input into output_size parts."""
        return getattr(F, self._function)(input, self.output_size)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """Adaptive mean pooling of (N, C, L)."""

    _function = "adaptive_avg_pool1d"


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """Adaptive mean pooling of (N, C, H, W)."""

    _function = "adaptive_avg_pool2d"


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """Adaptive mean pooling of (N, C, D, H, W)."""

    _function = "adaptive_avg_pool3d"
