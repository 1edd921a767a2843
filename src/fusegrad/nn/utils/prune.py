"""Pruning: a parameter becomes ``name_orig`` times a mask of zeros and ones, computed anew before every call.

``prune.l1_unstructured(layer, "weight", amount=0.3)`` and its relatives add to the mask that is there; ``remove`` makes
what is left the parameter again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import fusegrad
from fusegrad.tensor import Tensor


class BasePruningMethod(ABC):
    """A way to choose elements: ``compute_mask(t, default_mask)``; ``PRUNING_TYPE`` says how several combine."""

    PRUNING_TYPE = "unstructured"
    _tensor_name: Any = None

    def __call__(self, module: Any, inputs: Any) -> None:
        """Before a call of the module: the pruned value, from the current parameter."""
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Which elements stay (1), among those that ``default_mask`` leaves."""

    def apply_mask(self, module: Any) -> Tensor:
        """The parameter of the module times its mask."""
        if self._tensor_name is None:
            raise AssertionError(f"Module {module} has to be pruned")
        mask, orig = getattr(module, self._tensor_name + "_mask"), getattr(module, self._tensor_name + "_orig")
        return mask.to(orig.dtype) * orig

    @classmethod
    def apply(cls, module: Any, name: str, *args: Any, importance_scores: Any = None, **kwargs: Any) -> Any:
        """Prune ``module.name``: ``name_orig``, ``name_mask`` and a forward pre-hook; returns the method."""
        old = _found(module, name)
        method: Any = cls(*args, **kwargs)
        method._tensor_name = name
        if old is not None:
            key, previous = old
            del module._forward_pre_hooks[key]
            container = PruningContainer(previous)
            container.add_pruning_method(method)
            method = container
        orig = getattr(module, name)
        if importance_scores is None:
            importance_scores = orig
        elif tuple(importance_scores.shape) != tuple(orig.shape):
            raise AssertionError(f"importance_scores should have the same shape as parameter {name} of {module}")
        if old is None:
            param = module._parameters[name]
            del module._parameters[name]
            module.register_parameter(name + "_orig", param)
            default = fusegrad.ones_like(param.detach())
        else:
            default = getattr(module, name + "_mask").detach().clone()
        try:
            with fusegrad.no_grad():
                mask = method.compute_mask(importance_scores, default_mask=default)
            module.register_buffer(name + "_mask", mask)
            setattr(module, name, method.apply_mask(module))
            module.register_forward_pre_hook(method)
        except Exception:
            if old is None:
                param = module._parameters.pop(name + "_orig")
                module.register_parameter(name, param)
            raise
        return method

    def prune(self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None) -> Tensor:
        """The pruned version of ``t``, without a module."""
        if importance_scores is None:
            importance_scores = t
        elif tuple(importance_scores.shape) != tuple(t.shape):
            raise AssertionError("importance_scores should have the same shape as tensor t")
        default = fusegrad.ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(importance_scores, default_mask=default)

    def remove(self, module: Any) -> None:
        """Make the pruned value the parameter; what was pruned stays zero."""
        name = self._tensor_name
        value = self.apply_mask(module)
        if hasattr(module, name):
            delattr(module, name)
        orig = module._parameters[name + "_orig"]
        orig.data = value.data
        del module._parameters[name + "_orig"]
        del module._buffers[name + "_mask"]
        setattr(module, name, orig)


class PruningContainer(BasePruningMethod):
    """Several methods on one parameter, one after the other."""

    def __init__(self, *args: Any):
        self._pruning_methods: tuple = ()
        if len(args) == 1:
            self._tensor_name = args[0]._tensor_name
            self.add_pruning_method(args[0])
            return
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: Any) -> None:
        """Add one more. TypeError for what is no method, ValueError for one of another parameter."""
        if not isinstance(method, BasePruningMethod) and method is not None:
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method is not None and self._tensor_name != method._tensor_name:
            raise ValueError(
                "Can only add pruning methods acting on the parameter named "
                f"'{self._tensor_name}' to PruningContainer {self}. Found '{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Any:
        return iter(self._pruning_methods)

    def __getitem__(self, i: Any) -> Any:
        return self._pruning_methods[i]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The last method's choice among what is left."""
        method = self._pruning_methods[-1]
        mask = default_mask.to(t.dtype)
        where: Any
        if method.PRUNING_TYPE == "unstructured":
            where = mask == 1
        elif method.PRUNING_TYPE == "structured":
            if not hasattr(method, "dim"):
                raise AttributeError("Pruning methods of PRUNING_TYPE structured need to have the attribute dim.")
            dim = method.dim % t.ndim
            kept = mask.sum([d for d in range(t.ndim) if d != dim]) != 0
            where = (slice(None),) * dim + (kept,)
        elif method.PRUNING_TYPE == "global":
            where = (slice(None),) * t.ndim
        else:
            raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
        mask = mask.clone()
        mask[where] = method.compute_mask(t[where], default_mask=mask[where]).to(mask.dtype)
        return mask


class Identity(BasePruningMethod):
    """Prunes nothing."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask that there is."""
        return default_mask


class _Amount(BasePruningMethod):
    """A method that takes a number of elements, or a share of them."""

    def __init__(self, amount: Any):
        _check_amount(amount)
        self.amount = amount

    def _scores(self, t: Tensor) -> Tensor:
        """The elements with the smallest are pruned."""
        raise NotImplementedError

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """0 where the scores are smallest."""
        n = _number(self.amount, t.numel())
        mask = default_mask.clone()
        if n:
            mask.view(-1)[fusegrad.topk(self._scores(t).reshape(-1), n, largest=False).indices] = 0
        return mask


class RandomUnstructured(_Amount):
    """Elements at random."""

    def _scores(self, t: Tensor) -> Tensor:
        return fusegrad.rand(tuple(t.shape))


class L1Unstructured(_Amount):
    """The elements of the smallest magnitude."""

    def _scores(self, t: Tensor) -> Tensor:
        return t.abs()


class _Structured(BasePruningMethod):
    """A method that takes whole slices along ``dim``."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: Any, dim: int = -1):
        _check_amount(amount)
        self.amount, self.dim = amount, dim

    def _scores(self, t: Tensor) -> Tensor:
        raise NotImplementedError

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """0 in the slices with the smallest scores."""
        if t.ndim <= 1:
            raise ValueError(
                "Structured pruning can only be applied to multidimensional tensors. Found tensor of shape "
                f"{tuple(t.shape)} with {t.ndim} dims"
            )
        if self.dim >= t.ndim or self.dim < -t.ndim:
            raise IndexError(f"Invalid index {self.dim} for tensor of size {tuple(t.shape)}")
        dim = self.dim % t.ndim
        n = _number(self.amount, t.shape[dim])
        if n == 0:
            return default_mask
        keep = fusegrad.ones(t.shape[dim], dtype=default_mask.dtype)
        keep[fusegrad.topk(self._scores(t), n, largest=False).indices] = 0
        return default_mask * keep.view(_along(t.ndim, dim))


class RandomStructured(_Structured):
    """Slices at random."""

    def _scores(self, t: Tensor) -> Tensor:
        return fusegrad.rand(t.shape[self.dim])


class LnStructured(_Structured):
    """The slices of the smallest norm of order ``n``."""

    def __init__(self, amount: Any, n: Any, dim: int = -1):
        super().__init__(amount, dim)
        self.n = n

    def _scores(self, t: Tensor) -> Tensor:
        dim = self.dim % t.ndim
        return fusegrad.norm(t, p=self.n, dim=[d for d in range(t.ndim) if d != dim])


class CustomFromMask(BasePruningMethod):
    """A mask of the user's."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor):
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """What both masks leave."""
        return default_mask * self.mask.to(default_mask.dtype)


def _along(ndim: int, dim: int) -> list[int]:
    return [-1 if d == dim else 1 for d in range(ndim)]


def _found(module: Any, name: str) -> tuple | None:
    """The pruning of ``module.name`` that there is: (key of its hook, method)."""
    found = [
        (k, h)
        for k, h in module._forward_pre_hooks.items()
        if isinstance(h, BasePruningMethod) and h._tensor_name == name
    ]
    return found[0] if found else None


def _check_amount(amount: Any) -> None:
    if not isinstance(amount, (int, float)):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    if amount < 0 or (isinstance(amount, float) and amount > 1.0):
        raise ValueError(f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer")


def _number(amount: Any, size: int) -> int:
    if isinstance(amount, int):
        if amount > size:
            raise ValueError(f"amount={amount} should be smaller than the number of parameters to prune={size}")
        return amount
    return round(amount * size)


def identity(module: Any, name: str) -> Any:
    """Set up pruning of ``module.name`` with a mask of ones; returns the module, as all functions here do."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Any, name: str, amount: Any) -> Any:
    """Prune ``amount`` elements (or that share) at random."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Any, name: str, amount: Any, importance_scores: Any = None) -> Any:
    """Prune the ``amount`` elements of the smallest magnitude (of the scores, if given)."""
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: Any, name: str, amount: Any, dim: int) -> Any:
    """Prune ``amount`` slices along ``dim`` at random."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(module: Any, name: str, amount: Any, n: Any, dim: int, importance_scores: Any = None) -> Any:
    """Prune the ``amount`` slices along ``dim`` whose norm of order ``n`` is smallest."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Any, name: str, mask: Tensor) -> Any:
    """Prune where ``mask`` is 0."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(parameters: Any, pruning_method: Any, importance_scores: Any = None, **kwargs: Any) -> None:
    """Prune several parameters, [(module, name), ...], as one long vector."""
    parameters = list(parameters)
    scores = importance_scores or {}
    if not isinstance(scores, dict):
        raise TypeError("global_unstructured(): importance_scores is a dict of (module, name)")
    flat = fusegrad.cat([scores.get((m, n), getattr(m, n)).detach().reshape(-1) for m, n in parameters])
    default = fusegrad.cat(
        [getattr(m, n + "_mask", fusegrad.ones_like(getattr(m, n).detach())).reshape(-1) for m, n in parameters]
    )
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            f"Only 'unstructured' PRUNING_TYPE supported for the `pruning_method`. Found method {pruning_method} of "
            f"type {method.PRUNING_TYPE}"
        )
    container = PruningContainer()
    container._tensor_name = "temp"
    method._tensor_name = "temp"
    container.add_pruning_method(method)
    mask, at = container.compute_mask(flat, default), 0
    for m, n in parameters:
        t = getattr(m, n)
        custom_from_mask(m, n, mask[at : at + t.numel()].view_as(t))
        at += t.numel()


def remove(module: Any, name: str) -> Any:
    """Make the pruning of ``module.name`` permanent. ValueError where there is none."""
    found = _found(module, name)
    if found is None:
        raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")
    found[1].remove(module)
    del module._forward_pre_hooks[found[0]]
    return module


def is_pruned(module: Any) -> bool:
    """Whether a parameter of the module, or of one below it, is pruned."""
    return any(isinstance(h, BasePruningMethod) for m in module.modules() for h in m._forward_pre_hooks.values())
