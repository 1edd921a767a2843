"""Distribution: batch and event shapes, sampling, densities, checks of arguments; what all distributions share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fusegrad
from fusegrad.autograd.modes import enable_grad, no_grad
from fusegrad.distributions import constraints
from fusegrad.errors import warn
from fusegrad.tensor import Size, Tensor


def broadcast_all(*values: Any) -> list[Tensor]:
    """Tensors of one shape from tensors and numbers. ValueError for anything else."""
    like = None
    for v in values:
        if isinstance(v, Tensor):
            like = v if like is None else like
        elif not isinstance(v, (int, float)):
            raise ValueError("Input arguments must all be instances of Number or fusegrad.Tensor.")
    dtype = fusegrad.get_default_dtype() if like is None else like.dtype
    tensors = [v if isinstance(v, Tensor) else fusegrad.tensor(v, dtype=dtype) for v in values]
    return list(fusegrad.broadcast_tensors(*tensors))


def sum_rightmost(value: Tensor, dim: int) -> Tensor:
    """The sum over the last `dim` dimensions."""
    return value.sum(tuple(range(-dim, 0))) if dim else value


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities inside of (0, 1), so that their logarithms are finite."""
    eps = fusegrad.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Logarithms of probabilities; log odds where there are two outcomes."""
    p = clamp_probs(probs)
    return p.log() - (-p).log1p() if is_binary else p.log()


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """The inverse: sigmoid where there are two outcomes, softmax over the last dimension else."""
    return logits.sigmoid() if is_binary else logits.softmax(-1)


class _LazyProperty:
    """An attribute computed when it is first read, and kept."""

    def __init__(self, wrapped: Callable):
        self.wrapped, self.__doc__, self.__name__ = wrapped, wrapped.__doc__, wrapped.__name__

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        with enable_grad():
            value = self.wrapped(instance)
        instance.__dict__[self.__name__] = value
        return value


lazy_property: Any = _LazyProperty  # what it decorates is an attribute that may also be set


def holds(ok: Tensor) -> bool:
    """Whether `ok` is true everywhere. In a captured graph the answer is yes, and is checked when the graph runs."""
    if ok._data is not None:
        return bool(ok._data.all())
    require = getattr(ok._g.handler, "require", None)
    if require is not None:
        require(ok)
    return True


def _differ(i: Any, j: Any) -> bool:
    """Whether two sizes differ; where one is a symbol, the arithmetic that follows says so."""
    return type(i) is int and type(j) is int and i != j


class Distribution:
    """Base class of probability distributions.

    A subclass has ``arg_constraints`` (names of parameters and their constraints), ``support`` (a constraint for
    values), and defines ``log_prob``, ``sample`` or ``rsample``, ``expand``, ``mean``... as far as they exist.
    """

    has_rsample: Any = False
    has_enumerate_support: Any = False
    _validate_args = __debug__
    _parameters: Any = {}  # what `expand` expands: name -> dimensions of one event

    def __init__(self, batch_shape: Any = (), event_shape: Any = (), validate_args: bool | None = None):
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._validate_parameters()

    def _validate_parameters(self) -> None:
        try:
            checked = self.arg_constraints
        except NotImplementedError:
            warn(
                f"{type(self)} does not define `arg_constraints`. Please set `arg_constraints = {{}}` or initialize "
                "the distribution with `validate_args=False` to turn off validation."
            )
            return
        for name, constraint in checked.items():
            if constraints.is_dependent(constraint):
                continue
            if name not in self.__dict__ and isinstance(getattr(type(self), name), lazy_property):
                continue  # computed from one that is checked
            value = getattr(self, name)
            if not holds(constraint.check(value)):
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) "
                    f"of distribution {self!r} to satisfy the constraint {constraint!r}, "
                    f"but found invalid values:\n{value}"
                )

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether new distributions check their arguments."""
        if value not in (True, False):
            raise ValueError
        Distribution._validate_args = value

    @property
    def batch_shape(self) -> Size:
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        return self._event_shape

    @property
    def arg_constraints(self) -> dict[str, Any]:
        raise NotImplementedError

    @property
    def support(self) -> Any:
        raise NotImplementedError

    @property
    def mean(self) -> Tensor:
        raise NotImplementedError

    @property
    def mode(self) -> Tensor:
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    def variance(self) -> Tensor:
        raise NotImplementedError

    @property
    def stddev(self) -> Tensor:
        return self.variance.sqrt()

    def expand(self, batch_shape: Any, _instance: Any = None) -> Distribution:
        """The same distribution with a larger batch shape."""
        if not self._parameters:
            raise NotImplementedError
        return self._expanded(batch_shape, _instance)

    def _expanded(self, batch_shape: Any, instance: Any, event_shape: Any = None, **inner: Any) -> Any:
        """A copy whose parameters are expanded; `inner` are attributes it has besides."""
        new = self._get_checked_instance(self._library_class(), instance)
        shape = Size(batch_shape)
        for name, dims in self._parameters.items():
            if name in self.__dict__:
                value = self.__dict__[name]
                new.__dict__[name] = value.expand((*shape, *value.shape[value.dim() - dims :]))
        for name, value in inner.items():
            new.__dict__[name] = value
        Distribution.__init__(new, shape, self._event_shape if event_shape is None else event_shape, False)
        new._validate_args = self._validate_args
        return new

    def _library_class(self) -> type:
        return next(c for c in type(self).__mro__ if c.__module__.startswith("fusegrad.distributions"))

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        """A new object for `expand`. NotImplementedError where a subclass has an own __init__, and no `expand`."""
        if _instance is None and type(self).__init__ is not cls.__init__:  # type: ignore[misc]
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ method "
                "must also define a custom .expand() method."
            )
        return type(self).__new__(type(self)) if _instance is None else _instance

    def _extended_shape(self, sample_shape: Any = ()) -> Size:
        return Size((*tuple(sample_shape), *self._batch_shape, *self._event_shape))

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Values drawn from the distribution, without gradients: shape `sample_shape + batch_shape + event_shape`."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Values drawn so that gradients flow to the parameters. NotImplementedError where that can't be."""
        raise NotImplementedError

    def sample_n(self, n: int) -> Tensor:
        """`n` values."""
        warn("`sample_n(n)` will be deprecated. Use `sample((n,))` instead.", FutureWarning)
        return self.sample((n,))

    def log_prob(self, value: Tensor) -> Tensor:
        """Logarithm of the density or probability at `value`. ValueError outside of the support."""
        raise NotImplementedError

    def cdf(self, value: Tensor) -> Tensor:
        """Probability of a result not above `value`."""
        raise NotImplementedError

    def icdf(self, value: Tensor) -> Tensor:
        """The inverse of `cdf`."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values of a discrete distribution, along a new first dimension."""
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        raise NotImplementedError

    def perplexity(self) -> Tensor:
        """exp of the entropy."""
        return self.entropy().exp()

    def _validate_sample(self, value: Any) -> None:
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        own, shape = (*self._batch_shape, *self._event_shape), tuple(value.shape)
        at = len(shape) - len(self._event_shape)
        if at < 0 or any([_differ(i, j) for i, j in zip(shape[at:], self._event_shape, strict=True)]):
            raise ValueError(
                f"The right-most size of value must match event_shape: {value.shape} vs {self._event_shape}."
            )
        if any([_differ(i, j) and i != 1 and j != 1 for i, j in zip(shape[::-1], own[::-1], strict=False)]):
            raise ValueError(f"Value is not broadcastable with batch_shape+event_shape: {value.shape} vs {Size(own)}.")
        try:
            support = self.support
        except NotImplementedError:
            warn(
                f"{type(self)} does not define `support` to enable sample validation. Please initialize the "
                "distribution with `validate_args=False` to turn off validation."
            )
            return
        if support is not None and not holds(support.check(value)):
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be within the "
                f"support ({support!r}) of the distribution {self!r}, but found invalid values:\n{value}"
            )

    def _checked(self, value: Any) -> None:
        """The check that `log_prob` and `cdf` begin with."""
        if self._validate_args:
            self._validate_sample(value)

    def __repr__(self) -> str:
        shown = {k: self.__dict__[k] for k in self.arg_constraints if k in self.__dict__}
        parts = [f"{k}: {v if v.numel() == 1 else v.size()}" for k, v in shown.items()]
        return f"{type(self).__name__}({', '.join(parts)})"


class ExponentialFamily(Distribution):
    """Densities exp(<t(x), eta> - F(eta) + k(x)): with `_natural_params` eta, `_log_normalizer` F."""

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        raise NotImplementedError

    def _log_normalizer(self, *args: Any, **kwargs: Any) -> Tensor:
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self) -> Any:
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """F(eta) - <eta, dF/deta> - E[k]."""
        result: Any = -self._mean_carrier_measure
        params = [p.detach().requires_grad_() for p in self._natural_params]
        with enable_grad():
            normalizer = self._log_normalizer(*params)
            slopes = fusegrad.autograd.grad(normalizer.sum(), params, create_graph=True)
        result = result + normalizer
        for p, slope in zip(params, slopes, strict=True):
            result = result - (p * slope).reshape((*self._batch_shape, -1)).sum(-1)
        return result
