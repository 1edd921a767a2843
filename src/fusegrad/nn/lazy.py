"""Lazy modules: layers that learn the size of their input from the first one, and become the ordinary layer then."""

from __future__ import annotations

from typing import Any

import fusegrad
from fusegrad.nn.conv import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
from fusegrad.nn.linear import Linear
from fusegrad.nn.norm import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
)
from fusegrad.nn.parameter import UninitializedBuffer, UninitializedParameter, is_lazy
from fusegrad.tensor import Tensor


class LazyModuleMixin:
    """Beside a module class whose parameters have no shape yet: ``initialize_parameters(*inputs)`` gives them one.

    After the first call the object is of class ``cls_to_become``, where that is set.
    """

    cls_to_become: Any = None

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._initialize_hook = self.register_forward_pre_hook(  # type: ignore[attr-defined]
            type(self)._infer_parameters, with_kwargs=True
        )

    def has_uninitialized_params(self) -> bool:
        """Whether a parameter or buffer has no shape yet."""
        own = (*self._parameters.values(), *self._buffers.values())  # type: ignore[attr-defined]
        return any(is_lazy(t) for t in own)

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Give the parameters shapes that fit the inputs."""
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def _infer_parameters(self, args: tuple, kwargs: dict) -> None:
        self.initialize_parameters(*args, **kwargs)
        if self.has_uninitialized_params():
            raise RuntimeError(f"module {self._get_name()} has not been fully initialized")  # type: ignore[attr-defined]
        self._initialize_hook.remove()
        del self._initialize_hook
        if self.cls_to_become is not None:
            self.__class__ = self.cls_to_become

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)  # type: ignore[misc]
        for name, t in (*self._parameters.items(), *self._buffers.items()):  # type: ignore[attr-defined]
            if is_lazy(t):
                destination[prefix + name] = t

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        for name, t in (*self._parameters.items(), *self._buffers.items()):  # type: ignore[attr-defined]
            given = state_dict.get(prefix + name)
            if is_lazy(t) and given is not None:
                if is_lazy(given):  # nothing to load
                    state_dict[prefix + name] = t
                else:
                    with fusegrad.no_grad():
                        t.materialize(tuple(given.shape))
            elif given is not None and is_lazy(given):
                raise RuntimeError(f"{prefix + name}: the module is initialized, but the state to load is not")
        super()._load_from_state_dict(state_dict, prefix, *rest)  # type: ignore[misc]

    def reset_parameters(self) -> None:
        """As the ordinary layer, once there is something to reset."""
        if not self.has_uninitialized_params() and self._size() != 0:
            super().reset_parameters()  # type: ignore[misc]

    def _size(self) -> Any:
        raise NotImplementedError


class LazyLinear(LazyModuleMixin, Linear):
    """Linear whose ``in_features`` is the size of the first input's last dimension."""

    cls_to_become = Linear
    weight: Any
    bias: Any

    def __init__(self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None):
        super().__init__(0, 0, False, dtype=dtype)
        self.weight = UninitializedParameter(dtype=dtype)
        self.out_features = out_features
        if bias:
            self.bias = UninitializedParameter(dtype=dtype)

    def _size(self) -> Any:
        return self.in_features

    def initialize_parameters(self, input: Tensor) -> None:  # type: ignore[override]
        """Weight and bias for inputs of this last size."""
        if self.has_uninitialized_params():
            with fusegrad.no_grad():
                self.in_features = input.shape[-1]
                self.weight.materialize((self.out_features, self.in_features))
                if self.bias is not None:
                    self.bias.materialize((self.out_features,))
                self.reset_parameters()
        if self.in_features == 0:
            self.in_features = self.weight.shape[-1]


class _LazyConv(LazyModuleMixin):
    """What the lazy convolutions share."""

    def __init__(
        self, out_channels: int, kernel_size: Any, *args: Any, bias: bool = True, dtype: Any = None, **kw: Any
    ):
        super().__init__(0, 0, kernel_size, *args, bias=False, dtype=dtype, **kw)
        self.weight: Any = UninitializedParameter(dtype=dtype)
        self.out_channels = out_channels
        if bias:
            self.bias: Any = UninitializedParameter(dtype=dtype)

    def _size(self) -> Any:
        return self.in_channels

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        """Weight and bias for inputs of this many channels."""
        me: Any = self
        if not me.has_uninitialized_params():
            if me.in_channels == 0:
                me.in_channels = me.weight.shape[0] if me.transposed else me.weight.shape[1] * me.groups
            return
        nd = me._nd
        if input.ndim not in (nd + 1, nd + 2):
            raise RuntimeError(
                f"Expected {nd + 1}D (unbatched) or {nd + 2}D (batched) input to {type(self).__name__}, but got input "
                f"of size: {list(input.shape)}"
            )
        me.in_channels = input.shape[-nd - 1]
        if me.in_channels % me.groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        ins, outs, groups = me.in_channels, me.out_channels, me.groups
        with fusegrad.no_grad():
            channels = (ins, outs // groups) if me.transposed else (outs, ins // groups)
            me.weight.materialize((*channels, *me.kernel_size))
            if me.bias is not None:
                me.bias.materialize((outs,))
            me.reset_parameters()


class LazyConv1d(_LazyConv, Conv1d):  # type: ignore[misc]
    """Conv1d that takes ``in_channels`` from the first input."""

    cls_to_become = Conv1d


class LazyConv2d(_LazyConv, Conv2d):  # type: ignore[misc]
    """Conv2d that takes ``in_channels`` from the first input."""

    cls_to_become = Conv2d


class LazyConv3d(_LazyConv, Conv3d):  # type: ignore[misc]
    """Conv3d that takes ``in_channels`` from the first input."""

    cls_to_become = Conv3d


class LazyConvTranspose1d(_LazyConv, ConvTranspose1d):  # type: ignore[misc]
    """ConvTranspose1d that takes ``in_channels`` from the first input."""

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyConv, ConvTranspose2d):  # type: ignore[misc]
    """ConvTranspose2d that takes ``in_channels`` from the first input."""

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyConv, ConvTranspose3d):  # type: ignore[misc]
    """ConvTranspose3d that takes ``in_channels`` from the first input."""

    cls_to_become = ConvTranspose3d


class _LazyNorm(LazyModuleMixin):
    """What the lazy normalisations share."""

    _affine = True

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool | None = None,
        track_running_stats: bool | None = None,
        device: Any = None,
        dtype: Any = None,
    ):
        affine = self._affine if affine is None else affine
        track = self._affine if track_running_stats is None else track_running_stats
        super().__init__(0, eps, momentum, False, False, dtype=dtype)
        self.affine, self.track_running_stats = affine, track
        if affine:
            self.weight, self.bias = UninitializedParameter(dtype=dtype), UninitializedParameter(dtype=dtype)
        if track:
            self.running_mean, self.running_var = UninitializedBuffer(dtype=dtype), UninitializedBuffer(dtype=dtype)
            self.num_batches_tracked = fusegrad.tensor(0, dtype=fusegrad.int64)

    def _size(self) -> Any:
        return self.num_features  # type: ignore[attr-defined]

    def initialize_parameters(self, input: Tensor) -> None:  # type: ignore[override]
        """Parameters and statistics for inputs of this many features."""
        me: Any = self
        if me.has_uninitialized_params():
            me.num_features = input.shape[1]
            for name in ("weight", "bias", "running_mean", "running_var"):
                if is_lazy(getattr(me, name)):
                    with fusegrad.no_grad():
                        getattr(me, name).materialize((me.num_features,))
            me.reset_parameters()
        if me.num_features == 0:
            known = me.weight if me.weight is not None else me.running_mean
            me.num_features = 0 if known is None else known.shape[0]


class LazyBatchNorm1d(_LazyNorm, BatchNorm1d):  # type: ignore[misc]
    """BatchNorm1d that takes ``num_features`` from the first input."""

    cls_to_become = BatchNorm1d


class LazyBatchNorm2d(_LazyNorm, BatchNorm2d):  # type: ignore[misc]
    """BatchNorm2d that takes ``num_features`` from the first input."""

    cls_to_become = BatchNorm2d


class LazyBatchNorm3d(_LazyNorm, BatchNorm3d):  # type: ignore[misc]
    """BatchNorm3d that takes ``num_features`` from the first input."""

    cls_to_become = BatchNorm3d


class LazyInstanceNorm1d(_LazyNorm, InstanceNorm1d):  # type: ignore[misc]
    """InstanceNorm1d that takes ``num_features`` from the first input."""

    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(_LazyNorm, InstanceNorm2d):  # type: ignore[misc]
    """InstanceNorm2d that takes ``num_features`` from the first input."""

    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(_LazyNorm, InstanceNorm3d):  # type: ignore[misc]
    """InstanceNorm3d that takes ``num_features`` from the first input."""

    cls_to_become = InstanceNorm3d


__all__ = [
    "LazyBatchNorm1d",
    "LazyBatchNorm2d",
    "LazyBatchNorm3d",
    "LazyConv1d",
    "LazyConv2d",
    "LazyConv3d",
    "LazyConvTranspose1d",
    "LazyConvTranspose2d",
    "LazyConvTranspose3d",
    "LazyInstanceNorm1d",
    "LazyInstanceNorm2d",
    "LazyInstanceNorm3d",
    "LazyLinear",
    "LazyModuleMixin",
]
