"""Names that programs take from PyTorch's extension module: how classes leave ``__torch_function__`` aside."""

from __future__ import annotations

from .subclass import DISABLED as _disabled_torch_function_impl
from .subclass import DisableTorchFunctionSubclass

DisableTorchFunction = DisableTorchFunctionSubclass

__all__ = ["DisableTorchFunction", "DisableTorchFunctionSubclass", "_disabled_torch_function_impl"]
