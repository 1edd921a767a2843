"""The innermost updates of SGD and Adam: in place and in few passes on arrays, by operators on anything else."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fusegrad.autograd.modes import RUNNING, SLOW, STATE
from fusegrad.inplace import READ_ONLY
from fusegrad.tensor import Tensor, storage_of

_BLOCK = 1 << 14  # elements updated at a time, so that the passes stay in cache


def _plain(*tensors: Tensor) -> bool:
    """All are ordinary arrays of one dtype in C order, outside of autograd: a kernel may write to them directly."""
    if STATE.grad or SLOW[0] or RUNNING:
        return False
    kind = None
    for t in tensors:
        d = t._data
        if d is None or not d.flags.c_contiguous or d.dtype.kind != "f" or (kind is not None and d.dtype != kind):
            return False
        kind = d.dtype
    return True


def _refuse_read_only(p: Tensor) -> None:
    """RuntimeError if the parameter can't be written to: before its state changes."""
    if p._data is not None and not p._data.flags.writeable:
        raise RuntimeError(READ_ONLY)


def _changed(*tensors: Tensor) -> None:
    """Count the in-place change of each tensor."""
    for t in tensors:
        storage_of(t).version += 1


def sgd_update(p: Tensor, grad: Tensor, lr: Any) -> None:
    """p <- p - lr * grad, in place."""
    _refuse_read_only(p)
    if isinstance(lr, Tensor):
        p.sub_(grad * lr)
    elif _plain(p, grad):
        p._data -= grad._data * p._data.dtype.type(lr)
        _changed(p)
    else:
        p.add_(grad, alpha=-lr)


def adam_update(
    p: Tensor,
    grad: Tensor,
    mean: Tensor,
    square: Tensor,
    largest: Tensor | None,
    step: Any,
    lr: Any,
    beta1: Any,
    beta2: Any,
    eps: float,
) -> None:
    """One step of Adam (Kingma and Ba, 2015, algorithm 1) in place; `largest` for the AMSGrad variant.

    mean <- beta1 mean + (1 - beta1) g;  square <- beta2 square + (1 - beta2) g^2
    p <- p - lr / (1 - beta1^t) * mean / (sqrt(square / (1 - beta2^t)) + eps)
    """
    _refuse_read_only(p)
    tensors = (p, grad, mean, square) if largest is None else (p, grad, mean, square, largest)
    plain = not any(isinstance(v, Tensor) for v in (step, lr, beta1, beta2)) and _plain(*tensors)
    if plain:
        size = lr / (1 - beta1**step)
        _adam_arrays([t._data.reshape(-1) for t in tensors], size, math.sqrt(1 - beta2**step), beta1, beta2, eps)
        _changed(p, mean, square, *(() if largest is None else (largest,)))
        return
    mean.lerp_(grad, 1 - beta1)
    square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
    if largest is not None:
        largest.copy_(largest.maximum(square))
        square = largest
    root = (1 - beta2**step) ** 0.5
    denominator = (square.sqrt() / root).add_(eps)
    size = lr / (1 - beta1**step)
    if isinstance(size, Tensor):
        p.sub_(mean / denominator * size)
    else:
        p.addcdiv_(mean.clone() if mean._rg else mean, denominator, value=-size)  # ``mean`` changes in the next step


def _adam_arrays(flat: list, size: float, root: float, beta1: float, beta2: float, eps: float) -> None:
    kind = flat[0].dtype.type
    a, b, size, root, eps = kind(1 - beta1), kind(1 - beta2), kind(size), kind(root), kind(eps)
    keep = kind(beta2)
    n = flat[0].size
    scratch = np.empty(min(n, _BLOCK), flat[0].dtype)
    for start in range(0, n, _BLOCK):
        p, g, m, v, *rest = (x[start : start + _BLOCK] for x in flat)
        t = scratch[: p.size]
        np.subtract(g, m, out=t)
        t *= a
        m += t
        np.multiply(g, g, out=t)
        t *= b
        v *= keep
        v += t
        if rest:
            np.maximum(rest[0], v, out=rest[0])
            v = rest[0]
        np.sqrt(v, out=t)
        t /= root
        t += eps
        np.divide(m, t, out=t)
        t *= size
        p -= t
