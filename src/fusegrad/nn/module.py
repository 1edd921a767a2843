"""Module: the base class of layers and models."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from fusegrad.nn import _tracked
from fusegrad.nn._hooks import (
    ANY_GLOBAL,
    GLOBAL_HOOKS,
    REGISTRATION_HOOKS,
    BackwardHooks,
    RemovableHandle,
    add_hook,
    to_register,
)
from fusegrad.nn._state import Remade, StateMixin
from fusegrad.nn._tracked import TrackedDict
from fusegrad.nn.parameter import Buffer, Parameter, UninitializedBuffer
from fusegrad.tensor import Tensor

_DICTS = (
    "_parameters",
    "_buffers",
    "_modules",
    "_forward_pre_hooks",
    "_forward_hooks",
    "_backward_pre_hooks",
    "_backward_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)


class Module(StateMixin):
    """Base class of all layers: parameters, buffers, child modules, hooks, state.

    A subclass calls ``super().__init__()``, assigns parameters and modules to attributes, and defines
    ``forward``.  Calling the module runs its hooks and ``forward``.
    """

    dump_patches = False
    _version = 1  # version of the layout of state_dict, stored in its metadata
    call_super_init = False
    training: bool
    _compiled_call_impl: Callable | None = None

    def __init__(self, *args: Any, **kwargs: Any):
        if not self.call_super_init and (args or kwargs):
            what = f"an unexpected keyword argument '{next(iter(kwargs))}'" if kwargs else "positional arguments"
            raise TypeError(f"{type(self).__name__}.__init__() got {what}")
        d = self.__dict__
        d["training"] = True
        for name in _DICTS:
            d[name] = TrackedDict()
        d["_non_persistent_buffers_set"] = set()
        d["_is_full_backward_hook"] = None
        d["_epoch"] = _tracked.bump()
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes; defined by every subclass."""
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    def _calls_forward(self) -> bool:
        """Whether a call is a call of ``forward`` and nothing else (the condition of `__call__`)."""
        return not (
            self._forward_hooks
            or self._forward_pre_hooks
            or self._backward_hooks
            or self._backward_pre_hooks
            or self._compiled_call_impl is not None
            or ANY_GLOBAL
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if (
            self._forward_hooks
            or self._forward_pre_hooks
            or self._backward_hooks
            or self._backward_pre_hooks
            or self._compiled_call_impl is not None
            or ANY_GLOBAL
        ):
            return self._call_hooked(args, kwargs)
        return self.forward(*args, **kwargs)

    def _call_hooked(self, args: tuple, kwargs: dict) -> Any:
        forward = self.forward if self._compiled_call_impl is None else self._compiled_call_impl
        called: set[int] = set()
        try:
            return self._call_with_hooks(forward, args, kwargs, called)
        except Exception:
            self._run_always_hooks(args, kwargs, called)
            raise

    def _call_with_hooks(self, forward: Callable, args: tuple, kwargs: dict, called: set) -> Any:
        args, kwargs = self._run_pre_hooks(args, kwargs)
        backward = None
        pre = [*GLOBAL_HOOKS["backward_pre"].values(), *self._backward_pre_hooks.values()]
        post = [*GLOBAL_HOOKS["backward"].values(), *self._backward_hooks.values()]
        if pre or post:
            backward = BackwardHooks(self, pre, post)
            args = backward.wrap_inputs(args)
        result = forward(*args, **kwargs)
        for key, hook in list(GLOBAL_HOOKS["forward"].items()):
            called.add(key)
            out = hook(self, args, result)
            result = result if out is None else out
        for key, hook in list(self._forward_hooks.items()):
            called.add(key)
            if key in self._forward_hooks_with_kwargs:
                out = hook(self, args, kwargs, result)
            else:
                out = hook(self, args, result)
            result = result if out is None else out
        return result if backward is None else backward.wrap_outputs(result)

    def _run_pre_hooks(self, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        for hook in list(GLOBAL_HOOKS["forward_pre"].values()):
            out = hook(self, args)
            if out is not None:
                args = out if isinstance(out, tuple) else (out,)
        for key, hook in list(self._forward_pre_hooks.items()):
            if key in self._forward_pre_hooks_with_kwargs:
                out = hook(self, args, kwargs)
                if out is None:
                    continue
                if not (isinstance(out, tuple) and len(out) == 2):
                    raise RuntimeError(
                        f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {out}."
                    )
                args, kwargs = out
            else:
                out = hook(self, args)
                if out is not None:
                    args = out if isinstance(out, tuple) else (out,)
        return args, kwargs

    def _run_always_hooks(self, args: tuple, kwargs: dict, called: set) -> None:
        """After an exception: the hooks registered with always_call=True that have not run yet."""
        import warnings

        always = {**GLOBAL_HOOKS["always"], **self._forward_hooks_always_called}
        for key, hook in [*GLOBAL_HOOKS["forward"].items(), *self._forward_hooks.items()]:
            if key not in always or key in called:
                continue
            try:
                if key in self._forward_hooks_with_kwargs:
                    hook(self, args, kwargs, None)
                else:
                    hook(self, args, None)
            except Exception as error:
                warnings.warn(f"forward hook with always_call=True raised an exception: {error}", stacklevel=2)

    # ---- attributes -------------------------------------------------------------------------------

    def __setattr__(self, name: str, value: Any) -> None:
        d = self.__dict__
        if isinstance(value, Tensor):
            self._set_tensor(name, value)
        elif isinstance(value, Module):
            modules = d.get("_modules")
            if modules is None:
                raise AttributeError("cannot assign module before Module.__init__() call")
            self._forget(name, keep="_modules")
            modules[name] = to_register("module", self, name, value) if REGISTRATION_HOOKS["module"] else value
        else:
            self._set_other(name, value)
        d["_epoch"] = _tracked.bump()

    def _set_tensor(self, name: str, value: Tensor) -> None:
        d = self.__dict__
        if isinstance(value, Parameter):
            if "_parameters" not in d:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            self._forget(name, keep="_parameters")
            self.register_parameter(name, value)
        elif isinstance(value, (Buffer, UninitializedBuffer)):
            if "_buffers" not in d:
                raise AttributeError("cannot assign buffer before Module.__init__() call")
            self._forget(name, keep="_buffers")
            self.register_buffer(name, value, value.persistent)
        elif name in d.get("_parameters", ()):
            raise _wrong_kind(value, "parameter", name, "nn.Parameter")
        elif name in d.get("_modules", ()):
            raise _wrong_kind(value, "child module", name, "nn.Module")
        elif name in d.get("_buffers", ()):
            d["_buffers"][name] = to_register("buffer", self, name, value) if REGISTRATION_HOOKS["buffer"] else value
        else:
            object.__setattr__(self, name, value)

    def _set_other(self, name: str, value: Any) -> None:
        d = self.__dict__
        for kind, said, wanted in (
            ("_parameters", "parameter", "nn.Parameter"),
            ("_modules", "child module", "nn.Module"),
            ("_buffers", "buffer", "Tensor"),
        ):
            if name in d.get(kind, ()):
                if value is not None:
                    raise _wrong_kind(value, said, name, wanted)
                d[kind][name] = None
                return
        object.__setattr__(self, name, value)

    def _forget(self, name: str, keep: str) -> None:
        """Remove `name` from wherever it is kept now, except from the dictionary `keep`."""
        d = self.__dict__
        d.pop(name, None)
        for kind in ("_parameters", "_buffers", "_modules"):
            if kind != keep and name in d.get(kind, ()):
                del d[kind][name]
        if keep != "_buffers":
            d["_non_persistent_buffers_set"].discard(name)

    def __getattr__(self, name: str) -> Any:
        d = self.__dict__
        entries = d.get("_parameters")
        if entries is not None and name in entries:  # (no loop: layers come here at every call)
            return entries[name]
        entries = d.get("_modules")
        if entries is not None and name in entries:
            return entries[name]
        entries = d.get("_buffers")
        if entries is not None and name in entries:
            return entries[name]
        hint = "" if "_parameters" in d else ": its __init__ did not call super().__init__()"
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'{hint}")

    def __delattr__(self, name: str) -> None:
        d = self.__dict__
        for kind in ("_parameters", "_buffers", "_modules"):
            if name in d.get(kind, ()):
                del d[kind][name]
                d["_non_persistent_buffers_set"].discard(name)
                break
        else:
            object.__delattr__(self, name)
        d["_epoch"] = _tracked.bump()

    def __dir__(self) -> list[str]:
        names = set(dir(type(self))) | set(self.__dict__)
        names |= set(self._parameters) | set(self._buffers) | set(self._modules)
        return sorted(n for n in names if not n[:1].isdigit())

    def __setstate__(self, state: dict) -> None:
        d = self.__dict__
        d.update(state)
        for name in _DICTS:
            if name not in d:
                d[name] = TrackedDict()
        d.setdefault("_non_persistent_buffers_set", set())
        d.setdefault("_is_full_backward_hook", None)
        d["_epoch"] = _tracked.bump()

    def __getstate__(self) -> dict:
        state = {k: Remade.of(v) for k, v in self.__dict__.items()}
        state.pop("_compiled_call_impl", None)
        return state

    # ---- registration -----------------------------------------------------------------------------

    def _check_name(self, kind: str, name: Any) -> None:
        if kind not in self.__dict__:
            raise AttributeError(f"cannot assign to {kind[1:]} before Module.__init__() call")
        said = {"_parameters": "parameter", "_buffers": "buffer", "_modules": "module"}[kind]
        if not isinstance(name, str):
            raise TypeError(f"{said} name should be a string. Got {type(name).__name__}")
        if "." in name:
            raise KeyError(f'{said} name can\'t contain ".", got: {name}')
        if name == "":
            raise KeyError(f'{said} name can\'t be empty string ""')
        if hasattr(self, name) and name not in self.__dict__[kind]:
            raise KeyError(f"attribute '{name}' already exists")

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter (or the declared absence of one, None) under `name`."""
        self._check_name("_parameters", name)
        if param is None:
            self._parameters[name] = None
            return
        if not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{type(param).__name__}' object to parameter '{name}' (nn.Parameter or None required)"
            )
        if not param.is_leaf:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created explicitly. "
                "To express '{name}' as a function of another Tensor, compute the value in the forward() method."
            )
        if REGISTRATION_HOOKS["parameter"]:
            param = to_register("parameter", self, name, param)
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that belongs to the state but is not trained; not saved if `persistent` is False."""
        self._check_name("_buffers", name)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{type(tensor).__name__}' object to buffer '{name}' (Tensor or None required)"
            )
        self._buffers[name] = to_register("buffer", self, name, tensor) if REGISTRATION_HOOKS["buffer"] else tensor
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a child module under `name`."""
        if not isinstance(module, Module) and module is not None:
            raise TypeError(f"{type(module).__name__} is not a Module subclass")
        self._check_name("_modules", name)
        self._modules[name] = to_register("module", self, name, module) if REGISTRATION_HOOKS["module"] else module

    register_module = add_module

    # ---- hooks ------------------------------------------------------------------------------------

    def register_forward_pre_hook(
        self, hook: Callable, *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, args)` before forward; a returned value replaces the arguments."""
        extra = [self._forward_pre_hooks_with_kwargs] if with_kwargs else []
        return add_hook(self._forward_pre_hooks, hook, prepend=prepend, extra=extra)

    def register_forward_hook(
        self, hook: Callable, *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, args, output)` after forward; a returned value replaces the output."""
        extra = [self._forward_hooks_with_kwargs] if with_kwargs else []
        if always_call:
            extra.append(self._forward_hooks_always_called)
        return add_hook(self._forward_hooks, hook, prepend=prepend, extra=extra)

    def register_full_backward_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_input, grad_output)`; a returned tuple replaces grad_input."""
        self._one_kind(True)
        return add_hook(self._backward_hooks, hook, prepend=prepend)

    def register_backward_hook(self, hook: Callable) -> RemovableHandle:
        """The old form of `register_full_backward_hook`, which can't be mixed with it."""
        self._one_kind(False)
        return add_hook(self._backward_hooks, hook)

    def _one_kind(self, full: bool) -> None:
        if self._is_full_backward_hook not in (None, full):
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a single Module. Please use only "
                "one of them."
            )
        self.__dict__["_is_full_backward_hook"] = full

    def register_full_backward_pre_hook(self, hook: Callable, prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_output)`; a returned tuple replaces grad_output."""
        return add_hook(self._backward_pre_hooks, hook, prepend=prepend)

    # ---- traversal --------------------------------------------------------------------------------

    def named_modules(
        self, memo: set | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """This module and all below it with their dotted names, each once."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def modules(self) -> Iterator[Module]:
        """This module and all below it."""
        for _, module in self.named_modules():
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The direct child modules with their names, each once."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Module]:
        """The direct child modules."""
        for _, module in self.named_children():
            yield module

    def _named_members(
        self, kind: str, prefix: str, recurse: bool, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        seen: set[int] = set()
        pairs = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        for base, module in pairs:
            for name, value in module.__dict__[kind].items():
                if value is None or id(value) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(value))
                yield (f"{base}.{name}" if base else name), value

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Parameters with their dotted names, a shared one once."""
        yield from self._named_members("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Parameters, a shared one once."""
        for _, param in self.named_parameters(recurse=recurse):
            yield param

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Buffers with their dotted names."""
        yield from self._named_members("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Buffers."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def get_submodule(self, target: str) -> Module:
        """The module with the dotted name `target`; AttributeError if there is none."""
        module: Module = self
        for name in target.split(".") if target else ():
            if not hasattr(module, name):
                raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
            module = getattr(module, name)
            if not isinstance(module, Module):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Replace the module with the dotted name `target` (with `strict` it must exist)."""
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        parent, _, name = target.rpartition(".")
        owner = self.get_submodule(parent)
        if strict and not hasattr(owner, name):
            raise AttributeError(f"{type(owner).__name__} has no attribute `{name}`")
        setattr(owner, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter with the dotted name `target`."""
        return self._get_member(target, "_parameters", "an nn.Parameter")

    def get_buffer(self, target: str) -> Tensor:
        """The buffer with the dotted name `target`."""
        return self._get_member(target, "_buffers", "a buffer")

    def _get_member(self, target: str, kind: str, said: str) -> Any:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
        if name not in module.__dict__[kind]:
            raise AttributeError(f"`{name}` is not {said}")
        return getattr(module, name)

    # ---- whole-module operations ------------------------------------------------------------------

    def to_empty(self, *, device: Any, recurse: bool = True) -> Module:
        """Parameters and buffers in new memory whose contents are not set. `device` is the CPU."""
        import fusegrad

        return self._apply(lambda t: fusegrad.empty_like(t, device=device))

    def apply(self, fn: Callable[[Module], Any]) -> Module:
        """Call `fn` on every child module, then on this one."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def train(self, mode: bool = True) -> Module:
        """Set training mode here and below."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Module:
        """Set evaluation mode here and below."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Module:
        """Set requires_grad of every parameter."""
        for p in self.parameters():
            p.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset the gradients of all parameters."""
        for p in self.parameters():
            if set_to_none:
                p.grad = None  # whatever it was: compiled code need not ask
            elif p.grad is not None:
                if p.grad.requires_grad:
                    p.grad.detach_()
                p.grad.zero_()  # in place: whoever holds it sees zeros

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile this module's forward in place: later calls run `fusegrad.compile(self.forward)`."""
        import fusegrad

        self.__dict__["_compiled_call_impl"] = fusegrad.compile(self.forward, *args, **kwargs)
        self.__dict__["_epoch"] = _tracked.bump()

    def extra_repr(self) -> str:
        """What a subclass shows of its settings in repr."""
        return ""

    def _get_name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [f"({key}): " + _indent(repr(module), 2) for key, module in self._modules.items()]
        head = self._get_name() + "("
        if len(lines) == 1 and not children:
            return head + lines[0] + ")"
        body = lines + children
        if not body:
            return head + ")"
        return head + "\n  " + "\n  ".join(body) + "\n)"


def _indent(text: str, spaces: int) -> str:
    first, *rest = text.split("\n")
    return "\n".join([first, *(" " * spaces + line for line in rest)])


def _wrong_kind(value: Any, said: str, name: str, wanted: str) -> TypeError:
    return TypeError(f"cannot assign '{type(value).__name__}' object as {said} '{name}' ({wanted} or None expected)")
