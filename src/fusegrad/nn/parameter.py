"""Parameter and Buffer: tensors that a Module registers when they are assigned to it."""

from __future__ import annotations

from typing import Any

import numpy as np

from fusegrad import dtypes
from fusegrad.tensor import Tensor, alias, wrap


def _as(cls: type, data: Any) -> Any:
    if data is None:
        return wrap(np.empty(0, dtypes.get_default_dtype().np), cls)
    if not isinstance(data, Tensor):
        raise TypeError(f"{cls.__name__}: data must be a Tensor, got {type(data).__name__}")
    out = alias(data, cls)
    if type(out) is not cls:  # a graph tensor: its handler knows plain tensors only
        out.__class__ = cls
    return out


class Parameter(Tensor):
    """A tensor that is trained: it shares memory with `data` and is a leaf that requires a gradient."""

    copies_grad = False  # as in PyTorch, deepcopy of a parameter has no gradient

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        out = _as(cls, data)
        return out._ask_grad(True) if requires_grad else out


class Buffer(Tensor):
    """A tensor that belongs to a module's state without being trained; `persistent`: kept in state_dict."""

    persistent: bool

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Buffer:
        out = _as(cls, data)
        out.persistent = persistent
        return out


_WITHOUT_SHAPE = frozenset(
    "materialize becomes persistent detach shape ndim dtype device layout requires_grad requires_grad_ grad data "
    "is_floating_point is_complex half float double bfloat16 char short int long bool cpu cuda to get_device copy_ "
    "retains_grad retain_grad register_hook register_post_accumulate_grad_hook is_cuda is_sparse is_inference names "
    "share_memory_ backward output_nr is_meta is_nested is_quantized is_mps is_xpu itemsize is_leaf grad_fn".split()
)


class _Uninitialized(Tensor):
    """A parameter or buffer whose shape is not known yet."""

    becomes: type

    @property
    def shape(self) -> Any:
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in "
            "`load_state_dict` when trying to load an uninitialized parameter into an initialized one. Call `forward` "
            "to initialize the parameters before accessing their attributes."
        )

    def _unknown(self, *_: Any) -> Any:
        raise ValueError(
            "Attempted to use an uninitialized parameter. This error happens when you are using a `LazyModule` or "
            "explicitly manipulating `nn.parameter.UninitializedParameter` objects: call `forward` once first."
        )

    numel = nelement = size = dim = __len__ = __add__ = __mul__ = __matmul__ = _unknown
    __radd__ = __rmul__ = __sub__ = __rsub__ = __truediv__ = __rtruediv__ = __neg__ = __pow__ = _unknown
    __getitem__ = __setitem__ = __iter__ = __float__ = __int__ = __bool__ = __array__ = _unknown
    ndim = property(_unknown)

    def __getattribute__(self, name: str) -> Any:
        """Operators are refused, as methods; what asks for the dtype or gives another one is not."""
        if name[0] != "_" and name not in _WITHOUT_SHAPE and hasattr(Tensor, name):
            return object.__getattribute__(self, "_unknown")
        return object.__getattribute__(self, name)

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Become an ordinary parameter or buffer of this shape, of the dtype it was declared with; its elements are
        not set."""
        kind = self.dtype if dtype is None else dtype
        self._data = np.zeros(tuple(shape), kind.np)
        self.__class__ = self.becomes

    def __repr__(self, *_: Any) -> str:
        return f"<{type(self).__name__}>"


class UninitializedParameter(_Uninitialized, Parameter):
    """A Parameter that gets its shape from the first input of a lazy module."""

    becomes = Parameter

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> Any:
        kind = dtypes.get_default_dtype() if dtype is None else dtype
        out = wrap(np.empty(0, kind.np), cls)
        return out._ask_grad(True) if requires_grad else out

    def __deepcopy__(self, memo: dict) -> Any:
        memo[id(self)] = made = type(self)(self.requires_grad, dtype=self.dtype)
        return made

    def __reduce_ex__(self, protocol: Any) -> Any:
        return type(self), (self.requires_grad, None, self.dtype)


class UninitializedBuffer(_Uninitialized):
    """A buffer that gets its shape from the first input of a lazy module."""

    becomes = Tensor
    persistent = True

    def __new__(
        cls, requires_grad: bool = False, device: Any = None, dtype: Any = None, persistent: bool = True
    ) -> Any:
        kind = dtypes.get_default_dtype() if dtype is None else dtype
        out = wrap(np.empty(0, kind.np), cls)
        out.persistent = persistent
        return out

    __deepcopy__, __reduce_ex__ = UninitializedParameter.__deepcopy__, UninitializedParameter.__reduce_ex__


def is_lazy(t: Any) -> bool:
    """Whether ``t`` is a parameter or buffer without a shape so far."""
    return isinstance(t, _Uninitialized)
