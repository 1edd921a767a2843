"""Convolution modules."""

from __future__ import annotations

import math
from typing import Any

import fusegrad
from fusegrad.nn import functional as F
from fusegrad.nn import init
from fusegrad.nn.module import Module
from fusegrad.nn.parameter import Parameter
from fusegrad.tensor import Tensor

_PAD_MODES = ("zeros", "reflect", "replicate", "circular")


def _tuple(value: Any, n: int) -> tuple[int, ...]:
    return tuple(value) if isinstance(value, (list, tuple)) else (value,) * n


class _ConvNd(Module):
    """Settings and parameters of every convolution."""

    _nd: int
    _transposed = False

    def _set_up(
        self,
        in_channels,
        out_channels,
        kernel_size,
        stride,
        padding,
        dilation,
        output_padding,
        groups,
        bias,
        padding_mode,
        dtype,
    ):
        nd = self._nd
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        if in_channels % groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        if out_channels % groups != 0:
            raise ValueError("out_channels must be divisible by groups")
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise ValueError(f"Invalid padding string {padding!r}, should be one of {{'same', 'valid'}}")
            if padding == "same" and any(s != 1 for s in _tuple(stride, nd)):
                raise ValueError("padding='same' is not supported for strided convolutions")
        if padding_mode not in _PAD_MODES:
            raise ValueError(f"padding_mode must be one of {set(_PAD_MODES)}, but got padding_mode='{padding_mode}'")
        self.in_channels, self.out_channels = in_channels, out_channels
        self.kernel_size, self.stride = _tuple(kernel_size, nd), _tuple(stride, nd)
        self.padding = padding if isinstance(padding, str) else _tuple(padding, nd)
        self.dilation, self.output_padding = _tuple(dilation, nd), _tuple(output_padding, nd)
        self.transposed, self.groups, self.padding_mode = self._transposed, groups, padding_mode
        self._reversed_padding_repeated_twice = self._pad_sizes()
        channels = (in_channels, out_channels // groups) if self._transposed else (out_channels, in_channels // groups)
        self.weight = Parameter(fusegrad.empty((*channels, *self.kernel_size), dtype=dtype))
        if bias:
            self.bias = Parameter(fusegrad.empty(out_channels, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def _pad_sizes(self) -> list[int]:
        """Sizes for F.pad, last dimension first."""
        if self.padding == "valid":
            return [0, 0] * self._nd
        if self.padding == "same":
            out = []
            for d, k in zip(reversed(self.dilation), reversed(self.kernel_size), strict=False):
                total = d * (k - 1)
                out += [total // 2, total - total // 2]
            return out
        return [p for p in reversed(self.padding) for _ in range(2)]

    def reset_parameters(self) -> None:
        """Weight and bias U(-1/sqrt(fan_in), 1/sqrt(fan_in))."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._fans(self.weight)
            if fan_in != 0:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        s = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        if self.padding != (0,) * self._nd:
            s += f", padding={self.padding}"
        if self.dilation != (1,) * self._nd:
            s += f", dilation={self.dilation}"
        if self.output_padding != (0,) * self._nd:
            s += f", output_padding={self.output_padding}"
        if self.groups != 1:
            s += f", groups={self.groups}"
        if self.bias is None:
            s += ", bias=False"
        if self.padding_mode != "zeros":
            s += f", padding_mode={self.padding_mode}"
        return s


class _Conv(_ConvNd):
    _function: str

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ):
        super().__init__()
        self._set_up(
            in_channels, out_channels, kernel_size, stride, padding, dilation, 0, groups, bias, padding_mode, dtype
        )

    def forward(self, input: Tensor) -> Tensor:
        """(N, C, *) -> (N, O, *), or without N."""
        padding = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            padding = (0,) * self._nd
        conv = getattr(F, self._function)
        return conv(input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)


class Conv1d(_Conv):
    """1-d cross-correlation of (N, C, L)."""

    _nd, _function = 1, "conv1d"


class Conv2d(_Conv):
    """2-d cross-correlation of (N, C, H, W)."""

    _nd, _function = 2, "conv2d"


class Conv3d(_Conv):
    """3-d cross-correlation of (N, C, D, H, W)."""

    _nd, _function = 3, "conv3d"


class _ConvTranspose(_ConvNd):
    _transposed = True
    _function: str

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ):
        super().__init__()
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        self._set_up(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            output_padding,
            groups,
            bias,
            padding_mode,
            dtype,
        )

    def forward(self, input: Tensor, output_size: Any = None) -> Tensor:
        """(N, C, *) -> (N, O, *); `output_size` chooses among the sizes that the stride leaves open."""
        extra = self.output_padding if output_size is None else self._extra(input, output_size)
        conv = getattr(F, self._function)
        return conv(input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation)

    def _extra(self, input: Tensor, output_size: Any) -> tuple[int, ...]:
        nd = self._nd
        output_size = list(output_size)
        if len(output_size) in (input.ndim, nd + 2):
            output_size = output_size[-nd:]
        if len(output_size) != nd:
            raise ValueError(
                f"ConvTranspose{nd}D: for {input.ndim}D input, output_size must have {nd} or {input.ndim} elements "
                f"(got {len(output_size)})"
            )
        extra = []
        for i in range(nd):
            low = (input.shape[input.ndim - nd + i] - 1) * self.stride[i] - 2 * self.padding[i]
            low = low + self.dilation[i] * (self.kernel_size[i] - 1) + 1
            if not low <= output_size[i] <= low + self.stride[i] - 1:
                raise ValueError(
                    f"requested an output size of {output_size}, but axis {i} must be from {low} to "
                    f"{low + self.stride[i] - 1} (for an input of {list(input.shape)})"
                )
            extra.append(output_size[i] - low)
        return tuple(extra)


class ConvTranspose1d(_ConvTranspose):
    """Transposed convolution of (N, C, L)."""

    _nd, _function = 1, "conv_transpose1d"


class ConvTranspose2d(_ConvTranspose):
    """Transposed convolution of (N, C, H, W)."""

    _nd, _function = 2, "conv_transpose2d"


class ConvTranspose3d(_ConvTranspose):
    """Transposed convolution of (N, C, D, H, W)."""

    _nd, _function = 3, "conv_transpose3d"
