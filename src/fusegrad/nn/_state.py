"""The part of Module that saves, loads and converts its tensors."""

from __future__ import annotations

import sys
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Mapping
from types import FunctionType, MethodType
from typing import Any

from fusegrad.cuda import NoDeviceError
from fusegrad.nn._hooks import RemovableHandle, add_hook

_EXTRA_STATE_KEY = "_extra_state"


class Remade:
    """Stands for a function in the state of a module: pickled as the call that makes it again, copied as itself.

    Functions are pickled by name; one with ``__remade__`` (function, arguments) need not be found by its name.
    """

    __slots__ = ("function", "how")

    def __init__(self, function: Any, how: tuple) -> None:
        self.function, self.how = function, how

    @staticmethod
    def of(value: Any) -> Any:
        """The value itself, or what stands for it."""
        found = value
        if isinstance(value, MethodType):
            found = value.__func__
        how = getattr(found, "__remade__", None) if isinstance(found, FunctionType) else None
        if how is None or _found_by_name(found):
            return value
        return Remade(value, how if found is value else (_bound, (Remade(found, how), value.__self__)))

    def __reduce__(self) -> tuple:
        return self.how

    def __deepcopy__(self, memo: dict) -> Any:
        from copy import deepcopy

        f = self.function
        return MethodType(f.__func__, deepcopy(f.__self__, memo)) if isinstance(f, MethodType) else f


def _bound(function: Any, me: Any) -> MethodType:
    return MethodType(function, me)


def _found_by_name(f: FunctionType) -> bool:
    here: Any = sys.modules.get(f.__module__)
    for name in f.__qualname__.split("."):
        here = getattr(here, name, None)
    return here is f


class IncompatibleKeys(namedtuple("_IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    """What load_state_dict returns: the names that were missing and those that were not expected."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


IncompatibleKeys.__name__ = IncompatibleKeys.__qualname__ = "_IncompatibleKeys"  # PyTorch's
_IncompatibleKeys = IncompatibleKeys


class StateMixin:
    """state_dict, load_state_dict, conversion of dtypes."""

    def state_dict(self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> Any:
        """An ordered dict of all parameters and persistent buffers under their dotted names.

        The tensors are detached but share memory with the module's, unless `keep_vars` is True.
        """
        for name, value in zip(("destination", "prefix", "keep_vars"), args, strict=False):
            if name == "destination":
                destination = value
            elif name == "prefix":
                prefix = value
            else:
                keep_vars = value
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        local_metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local_metadata
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=prefix + name + ".", keep_vars=keep_vars)
        for hook in self._state_dict_hooks.values():
            result = hook(self, destination, prefix, local_metadata)
            if result is not None:
                destination = result
        return destination

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        for name, param in self._parameters.items():
            if param is not None:
                destination[prefix + name] = param if keep_vars else param.detach()
        for name, buf in self._buffers.items():
            if buf is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = buf if keep_vars else buf.detach()
        if type(self).get_extra_state is not StateMixin.get_extra_state:
            destination[prefix + _EXTRA_STATE_KEY] = self.get_extra_state()

    def get_extra_state(self) -> Any:
        """Extra state to keep in the state_dict; a subclass that needs it defines both this and set_extra_state."""
        raise RuntimeError(f"{type(self).__name__} defines no get_extra_state()")

    def set_extra_state(self, state: Any) -> None:
        """Take the extra state found in a state_dict."""
        raise RuntimeError(f"{type(self).__name__} defines no set_extra_state()")

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Copy the tensors of `state_dict` into this module and those below it.

        With `strict`, missing and unexpected names raise RuntimeError; a shape that does not fit always does.
        With `assign`, the given tensors become the parameters instead of being copied.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        missing: list[str] = []
        unexpected: list[str] = []
        errors: list[str] = []
        metadata = getattr(state_dict, "_metadata", None)
        state_dict = OrderedDict(state_dict)
        if metadata is not None:
            state_dict._metadata = metadata
        self._load_recursive(state_dict, "", metadata, assign, missing, unexpected, errors)
        if strict:
            if unexpected:
                errors.insert(0, f"Unexpected key(s) in state_dict: {_quoted(unexpected)}. ")
            if missing:
                errors.insert(0, f"Missing key(s) in state_dict: {_quoted(missing)}. ")
        if errors:
            raise RuntimeError(
                "Error(s) in loading state_dict for {}:\n\t{}".format(type(self).__name__, "\n\t".join(errors))
            )
        return IncompatibleKeys(missing, unexpected)

    def _load_recursive(
        self, state: dict, prefix: str, metadata: Any, assign: bool, missing: list, unexpected: list, errors: list
    ) -> None:
        local = {} if metadata is None else metadata.get(prefix[:-1], {})
        if assign:
            local = dict(local, assign_to_params_buffers=True)
        self._load_from_state_dict(state, prefix, local, True, missing, unexpected, errors)
        for name, child in self._modules.items():
            if child is not None:
                child_prefix = prefix + name + "."
                child_state = {k: v for k, v in state.items() if k.startswith(child_prefix)}
                child._load_recursive(child_state, child_prefix, metadata, assign, missing, unexpected, errors)
        result = IncompatibleKeys(missing, unexpected)
        for hook in self._load_state_dict_post_hooks.values():
            if hook(self, result) is not None:
                raise AssertionError("a load_state_dict post hook must change the lists in place and return None")

    def _load_from_state_dict(
        self,
        state_dict: dict,
        prefix: str,
        local_metadata: dict,
        strict: bool,
        missing_keys: list,
        unexpected_keys: list,
        error_msgs: list,
    ) -> None:
        """Take this module's own entries (not its children's) out of `state_dict`."""
        for hook in self._load_state_dict_pre_hooks.values():
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        own = dict(self._parameters)
        own.update((n, b) for n, b in self._buffers.items() if n not in self._non_persistent_buffers_set)
        own = {n: t for n, t in own.items() if t is not None}
        assign = local_metadata.get("assign_to_params_buffers", False)
        for name, param in own.items():
            key = prefix + name
            if key in state_dict:
                self._load_one(name, key, param, state_dict[key], assign, error_msgs)
            elif strict:
                missing_keys.append(key)
        self._load_extra_state(state_dict, prefix, strict, missing_keys, unexpected_keys)
        if strict:
            self._find_unexpected(state_dict, prefix, own, unexpected_keys)

    def _load_one(self, name: str, key: str, param: Any, value: Any, assign: bool, errors: list) -> None:
        from fusegrad.autograd import no_grad
        from fusegrad.nn.parameter import Parameter
        from fusegrad.tensor import Tensor

        if not isinstance(value, Tensor):
            errors.append(
                f'While copying the parameter named "{key}", expected fusegrad.Tensor or Tensor-like object '
                f"from checkpoint but received {type(value)}"
            )
            return
        if param.ndim == 0 and value.ndim == 1 and value.shape[0] == 1 and not assign:
            value = value[0]  # as older programs saved numbers
        if tuple(value.shape) != tuple(param.shape):
            errors.append(
                f"size mismatch for {key}: copying a param with shape {value.shape} from checkpoint, "
                f"the shape in current model is {param.shape}."
            )
            return
        try:
            if assign:
                if isinstance(param, Parameter):  # whether it is trained is the module's matter
                    if isinstance(value, Parameter):
                        value.requires_grad_(param.requires_grad)
                    else:
                        value = Parameter(value, requires_grad=param.requires_grad)
                setattr(self, name, value)
            else:
                with no_grad():
                    param.copy_(value)
        except Exception as error:
            errors.append(f'While copying the parameter named "{key}", an exception occurred : {error.args}.')

    def _load_extra_state(self, state: dict, prefix: str, strict: bool, missing: list, unexpected: list) -> None:
        key = prefix + _EXTRA_STATE_KEY
        if type(self).set_extra_state is not StateMixin.set_extra_state:
            if key in state:
                self.set_extra_state(state[key])
            elif strict:
                missing.append(key)
        elif strict and key in state:
            unexpected.append(key)

    def _find_unexpected(self, state: dict, prefix: str, own: dict, unexpected: list) -> None:
        extra_key = prefix + _EXTRA_STATE_KEY
        for key in state:
            if not key.startswith(prefix) or key == extra_key:
                continue
            head, _, rest = key[len(prefix) :].partition(".")
            if rest:
                if head not in self._modules:
                    unexpected.append(key)
            elif head not in own:
                unexpected.append(key)

    def register_state_dict_post_hook(self, hook: Callable) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, local_metadata)` after state_dict was filled; it returns None."""

        def without_result(*args: Any) -> None:
            if hook(*args) is not None:
                raise RuntimeError("state_dict post-hook must return None: it changes the dictionary that it is given")

        return add_hook(self._state_dict_hooks, without_result)

    def _register_state_dict_hook(self, hook: Callable) -> RemovableHandle:
        """The older form: what the hook returns takes the place of state_dict."""
        return add_hook(self._state_dict_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable) -> RemovableHandle:
        """Call `hook(module, prefix, keep_vars)` before state_dict is filled."""
        return add_hook(self._state_dict_pre_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook: Callable) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, metadata, strict, missing, unexpected, errors)` before loading."""

        def with_module(*args: Any) -> Any:
            return hook(self, *args)

        return add_hook(self._load_state_dict_pre_hooks, with_module)

    def _register_load_state_dict_pre_hook(self, hook: Callable, with_module: bool = False) -> RemovableHandle:
        if with_module:
            return self.register_load_state_dict_pre_hook(hook)
        return add_hook(self._load_state_dict_pre_hooks, hook)

    def register_load_state_dict_post_hook(self, hook: Callable) -> RemovableHandle:
        """Call `hook(module, incompatible_keys)` after loading."""
        return add_hook(self._load_state_dict_post_hooks, hook)

    # ---- conversion -------------------------------------------------------------------------------

    def _apply(self, fn: Callable, recurse: bool = True) -> Any:
        """Replace every parameter's and buffer's data by `fn` of it, keeping the parameter objects."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        for param in self._parameters.values():
            if param is None:
                continue
            param.data = fn(param.data)
            if param.grad is not None:
                grad = param.grad
                param.grad = None
                new = fn(grad.detach())
                param.grad = new.requires_grad_(grad.requires_grad)
        for name, buf in self._buffers.items():
            if buf is not None:
                new = fn(buf)
                if new is not buf:
                    self._buffers[name] = new
        return self

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """Convert floating-point parameters and buffers to a dtype, and those of 4 and 5 dimensions to a memory
        format; devices other than the cpu are refused."""
        from fusegrad.dtypes import dtype as Dtype
        from fusegrad.tensor import Tensor

        dtype = kwargs.get("dtype")
        for arg in args:
            if isinstance(arg, Dtype):
                dtype = arg
            elif isinstance(arg, Tensor):
                dtype = arg.dtype
            elif isinstance(arg, bool) or arg is None:
                continue
            else:
                _check_device(arg)
        if kwargs.get("device") is not None:
            _check_device(kwargs["device"])
        form = kwargs.get("memory_format")
        if dtype is None and form is None:
            return self
        if dtype is not None and not dtype.is_floating_point:
            raise TypeError(f"nn.Module.to only accepts floating point dtypes, but got desired dtype={dtype}")

        def convert(t: Any) -> Any:
            kind = dtype if t.is_floating_point() else None
            return t.to(dtype=kind, memory_format=form if t.ndim in (4, 5) else None)

        return self._apply(convert)

    def type(self, dst_type: Any) -> Any:
        """Convert all parameters and buffers to `dst_type`."""
        return self._apply(lambda t: t.type(dst_type))

    def float(self) -> Any:
        """Convert floating-point parameters and buffers to float32."""
        return self._apply(lambda t: t.float() if t.is_floating_point() else t)

    def double(self) -> Any:
        """Convert floating-point parameters and buffers to float64."""
        return self._apply(lambda t: t.double() if t.is_floating_point() else t)

    def half(self) -> Any:
        """Convert floating-point parameters and buffers to float16."""
        return self._apply(lambda t: t.half() if t.is_floating_point() else t)

    def cpu(self) -> Any:
        """The module itself: all data is in main memory."""
        return self

    def cuda(self, device: Any = None) -> Any:
        """NoDeviceError: there are no GPUs."""
        raise NoDeviceError("cuda")

    def share_memory(self) -> Any:
        """The module itself: kept for compatibility, memory is not moved. RuntimeError if it is not initialized."""
        from .parameter import is_lazy

        if any(is_lazy(t) for t in (*self.parameters(), *self.buffers())):
            raise RuntimeError(
                "Can't share memory on an uninitialized parameter or buffer. Call `forward` to initialize the "
                "parameters before calling `module.share_memory()`."
            )
        return self


def _quoted(names: list[str]) -> str:
    return ", ".join(f'"{n}"' for n in names)


def _check_device(device: Any) -> None:
    name = getattr(device, "type", device)
    if not isinstance(name, str):
        raise TypeError(f"to() received an invalid argument of type {type(device).__name__}")
    if name.split(":")[0] != "cpu":
        raise NoDeviceError(device)
