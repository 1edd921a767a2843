"""Distribution: batch and event shapes, sampling, densities; argument checks; the table of KL divergences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fusegrad
from fusegrad.autograd.modes import no_grad
from fusegrad.tensor import Size, Tensor


def broadcast_all(*values: Any) -> list[Tensor]:
    """Tensors of one shape from tensors and numbers."""
    like = next((v for v in values if isinstance(v, Tensor)), None)
    dtype = fusegrad.get_default_dtype() if like is None else like.dtype
    tensors = [v if isinstance(v, Tensor) else fusegrad.tensor(float(v), dtype=dtype) for v in values]
    return list(fusegrad.broadcast_tensors(*tensors))


def holds(ok: Tensor) -> bool:
    """Whether `ok` is true everywhere. In a captured graph the answer is yes, and is checked when the graph runs."""
    if ok._data is not None:
        return bool(ok._data.all())
    require = getattr(ok._g.handler, "require", None)
    if require is not None:
        require(ok)
    return True


def check(name: str, value: Tensor, ok: Tensor, want: str, owner: str) -> None:
    """ValueError unless `ok` holds everywhere."""
    if not holds(ok):
        raise ValueError(
            f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of distribution {owner} "
            f"to satisfy the constraint {want}, but found invalid values:\n{value}"
        )


def _differ(i: Any, j: Any) -> bool:
    """Whether two sizes differ; where one is a symbol, the arithmetic that follows says so."""
    return type(i) is int and type(j) is int and i != j


REAL = "Real()"
POSITIVE = "GreaterThan(lower_bound=0.0)"
NOT_NEGATIVE = "GreaterThanEq(lower_bound=0.0)"


class Distribution:
    """Base class of probability distributions."""

    has_rsample = False
    has_enumerate_support = False
    _validate_args = True

    def __init__(self, batch_shape: Any = (), event_shape: Any = (), validate_args: bool | None = None):
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether new distributions check their arguments."""
        Distribution._validate_args = value

    @property
    def batch_shape(self) -> Size:
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        return self._event_shape

    @property
    def mean(self) -> Tensor:
        raise NotImplementedError

    @property
    def variance(self) -> Tensor:
        raise NotImplementedError

    @property
    def stddev(self) -> Tensor:
        return self.variance.sqrt()

    def _extended_shape(self, sample_shape: Any = ()) -> Size:
        return Size((*sample_shape, *self._batch_shape, *self._event_shape))

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Values drawn from the distribution, without gradients."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Values drawn so that gradients flow to the parameters."""
        raise NotImplementedError

    def sample_n(self, n: int) -> Tensor:
        """`n` values."""
        return self.sample((n,))

    def log_prob(self, value: Tensor) -> Tensor:
        """Logarithm of the density or probability at `value`."""
        raise NotImplementedError

    def cdf(self, value: Tensor) -> Tensor:
        """Probability of a result not above `value`."""
        raise NotImplementedError

    def icdf(self, value: Tensor) -> Tensor:
        """The inverse of `cdf`."""
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
        if at < 0 or any(_differ(i, j) for i, j in zip(shape[at:], self._event_shape, strict=True)):
            raise ValueError(
                f"The right-most size of value must match event_shape: {value.shape} vs {self._event_shape}."
            )
        if any(_differ(i, j) and i != 1 and j != 1 for i, j in zip(shape[::-1], own[::-1], strict=False)):
            raise ValueError(f"Value is not broadcastable with batch_shape+event_shape: {value.shape} vs {Size(own)}.")
        within = self._within(value)
        if within is not None and not holds(within[0]):
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be within the "
                f"support ({within[1]}) of the distribution {self!r}, but found invalid values:\n{value}"
            )

    def _within(self, value: Tensor) -> tuple[Tensor, str] | None:
        """Where `value` lies in the support, and what that is called; None: everywhere."""
        return None

    def _shown(self) -> dict[str, Any]:
        """The parameters in the representation."""
        return {k: v for k, v in self.__dict__.items() if not k.startswith("_")}

    def __repr__(self) -> str:
        shown = {k: v for k, v in self._shown().items() if isinstance(v, Tensor)}
        parts = (f"{k}: {v if v.numel() == 1 else v.shape}" for k, v in shown.items())
        return f"{type(self).__name__}({', '.join(parts)})"


_KL: dict[tuple[type, type], Callable] = {}


def register_kl(p: type, q: type) -> Callable:
    """Decorator: the function computes KL(p || q) for these classes."""

    def register(fn: Callable) -> Callable:
        _KL[p, q] = fn
        return fn

    return register


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """KL(p || q); NotImplementedError for a pair without a formula."""
    for a in type(p).__mro__:
        for b in type(q).__mro__:
            if (a, b) in _KL:
                return _KL[a, b](p, q)
    raise NotImplementedError(
        f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}"
    )
