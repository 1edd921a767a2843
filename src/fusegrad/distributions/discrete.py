"""Categorical and Bernoulli."""

from __future__ import annotations

from typing import Any

import fusegrad
from fusegrad.autograd.modes import no_grad
from fusegrad.distributions.base import Distribution, broadcast_all, check, register_kl
from fusegrad.tensor import Tensor


class _ByProbsOrLogits(Distribution):
    """Keeps either `probs` or `logits` and derives the other."""

    def _take(self, probs: Any, logits: Any) -> None:
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        self._probs, self._logits = probs, logits

    def _shown(self) -> dict[str, Any]:
        return {"probs": self._probs, "logits": self._logits}


class Categorical(_ByProbsOrLogits):
    """Indices 0..K-1 with given probabilities (normalised over the last dimension) or logits."""

    has_enumerate_support = True

    def __init__(self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None):
        self._take(probs, logits)
        param = probs if probs is not None else logits
        if param.ndim < 1:  # type: ignore[union-attr]
            raise ValueError(f"`{'probs' if logits is None else 'logits'}` parameter must be at least one-dimensional.")
        self._num_events = param.shape[-1]  # type: ignore[union-attr]
        super().__init__(param.shape[:-1], (), validate_args)  # type: ignore[union-attr]
        if self._validate_args and probs is not None:
            check("probs", probs, (probs >= 0) & (probs.sum(-1, keepdim=True) > 0), "Simplex()", "Categorical")
        elif self._validate_args:
            check("logits", logits, logits == logits, "IndependentConstraint(Real(), 1)", "Categorical")  # type: ignore[arg-type]
        if probs is not None:
            self._take(probs / probs.sum(-1, keepdim=True), None)
        else:
            self._take(None, logits - logits.logsumexp(-1, keepdim=True))  # type: ignore[union-attr]

    @property
    def probs(self) -> Tensor:
        if self._probs is None:
            self._probs = self._logits.exp()
        return self._probs

    @property
    def logits(self) -> Tensor:
        if self._logits is None:
            eps = fusegrad.finfo(self._probs.dtype).eps
            self._logits = self._probs.clamp(min=eps, max=1 - eps).log()
        return self._logits

    @property
    def param_shape(self) -> Any:
        return (self._probs if self._probs is not None else self._logits).shape

    @property
    def mode(self) -> Tensor:
        return self.probs.argmax(-1)

    @property
    def mean(self) -> Tensor:
        return fusegrad.full(self._batch_shape, float("nan"), dtype=self.probs.dtype)

    variance = mean

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Indices drawn with the probabilities."""
        n = 1
        for s in sample_shape:
            n *= s
        with no_grad():
            flat = self.probs.reshape(-1, self._num_events)
            drawn = fusegrad.multinomial(flat, n, True).t()
            return drawn.reshape(self._extended_shape(sample_shape))

    def _within(self, value: Tensor) -> tuple[Tensor, str]:
        inside = (value >= 0) & (value < self._num_events)
        if value.is_floating_point():
            inside = inside & (value == value.floor())
        return inside, f"IntegerInterval(lower_bound=0, upper_bound={self._num_events - 1})"

    def log_prob(self, value: Tensor) -> Tensor:
        """Log probability of the indices `value`."""
        if self._validate_args:
            self._validate_sample(value)
        index, logits = fusegrad.broadcast_tensors(value.long().unsqueeze(-1), self.logits)
        return logits.gather(-1, index[..., :1]).squeeze(-1)

    def entropy(self) -> Tensor:
        """-sum p log p."""
        low = fusegrad.finfo(self.logits.dtype).min
        return -(self.logits.clamp(min=low) * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All indices, along a new first dimension."""
        values = fusegrad.arange(self._num_events).view(-1, *((1,) * len(self._batch_shape)))
        return values.expand(-1, *self._batch_shape) if expand else values


class Bernoulli(_ByProbsOrLogits):
    """1 with probability `probs`, else 0."""

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None):
        self._take(probs, logits)
        (param,) = broadcast_all(probs if probs is not None else logits)
        self._take(param if probs is not None else None, None if probs is not None else param)
        super().__init__(param.shape, (), validate_args)
        if self._validate_args and probs is not None:
            inside = (param >= 0) & (param <= 1)
            check("probs", param, inside, "Interval(lower_bound=0.0, upper_bound=1.0)", "Bernoulli")

    @property
    def probs(self) -> Tensor:
        if self._probs is None:
            self._probs = self._logits.sigmoid()
        return self._probs

    @property
    def logits(self) -> Tensor:
        if self._logits is None:
            eps = fusegrad.finfo(self._probs.dtype).eps
            p = self._probs.clamp(min=eps, max=1 - eps)
            self._logits = p.log() - (-p).log1p()
        return self._logits

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Zeros and ones."""
        with no_grad():
            return fusegrad.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def _within(self, value: Tensor) -> tuple[Tensor, str]:
        return (value == 0) | (value == 1), "Boolean()"

    def log_prob(self, value: Tensor) -> Tensor:
        """Log probability of the zeros and ones `value`."""
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return -fusegrad.nn.functional.binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Tensor:
        """-p log p - (1 - p) log(1 - p)."""
        return fusegrad.nn.functional.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")


@register_kl(Categorical, Categorical)
def _kl_categorical(p: Categorical, q: Categorical) -> Tensor:
    t = p.probs * (p.logits - q.logits)
    t = t.masked_fill(q.probs == 0, float("inf")).masked_fill(p.probs == 0, 0.0)
    return t.sum(-1)


@register_kl(Bernoulli, Bernoulli)
def _kl_bernoulli(p: Bernoulli, q: Bernoulli) -> Tensor:
    return p.probs * (p.probs / q.probs).log() + (1 - p.probs) * ((1 - p.probs) / (1 - q.probs)).log()
