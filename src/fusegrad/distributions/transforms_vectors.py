"""Transforms of vectors and matrices: to simplices, triangular, positive definite and correlation matrices."""

from __future__ import annotations

import math
from typing import Any

import fusegrad
from fusegrad.distributions import constraints
from fusegrad.distributions.transform import Transform, _Plain
from fusegrad.nn.functional import softplus
from fusegrad.tensor import Tensor


class SoftmaxTransform(_Plain):
    """Softmax over the last dimension; its inverse is the logarithm. It isn't bijective: use it for optimisation."""

    domain, codomain = constraints.real_vector, constraints.simplex

    def _call(self, x: Tensor) -> Tensor:
        odds = (x - x.max(-1, True)[0]).exp()
        return odds / odds.sum(-1, True)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def forward_shape(self, shape: Any) -> Any:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return shape

    inverse_shape = forward_shape


class StickBreakingTransform(_Plain):
    """Pieces of a stick: n numbers become n + 1 that are positive and add up to 1.

    Piece i is a share of what is left, sigmoid(x[i] - log(n - i)), so that zeros give equal pieces.
    """

    domain, codomain, bijective = constraints.real_vector, constraints.simplex, True

    @staticmethod
    def _left(x: Tensor) -> Tensor:
        """log of the number of pieces that follow each."""
        return fusegrad.arange(x.shape[-1], 0, -1, dtype=x.dtype).log()

    def _call(self, x: Tensor) -> Tensor:
        kind = fusegrad.finfo(x.dtype)
        share = (x - self._left(x)).sigmoid().clamp(min=kind.tiny, max=1.0 - kind.eps)
        rest = (1 - share).cumprod(-1)
        pad = fusegrad.nn.functional.pad
        return pad(share, [0, 1], value=1) * pad(rest, [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        cut = y[..., :-1]
        left = (1 - cut.cumsum(-1)).clamp(min=fusegrad.finfo(y.dtype).tiny)
        return cut.log() - left.log() + self._left(cut)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        x = x - self._left(x)
        return (-x + fusegrad.nn.functional.logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return fusegrad.Size((*shape[:-1], shape[-1] + 1))

    def inverse_shape(self, shape: Any) -> Any:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return fusegrad.Size((*shape[:-1], shape[-1] - 1))


class LowerCholeskyTransform(_Plain):
    """Matrices become lower triangular ones with a positive diagonal (its exp)."""

    domain, codomain = constraints.independent(constraints.real, 2), constraints.lower_cholesky

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(_Plain):
    """Matrices become positive definite ones: L L^T of their LowerCholeskyTransform L."""

    domain, codomain = constraints.independent(constraints.real, 2), constraints.positive_definite

    def _call(self, x: Tensor) -> Tensor:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform()._inverse(fusegrad.linalg.cholesky(y))


class CorrCholeskyTransform(Transform):
    """n (n-1) / 2 numbers become the Cholesky factor of a correlation matrix of size n.

    tanh makes partial correlations of them, and those of a row break a stick of length 1 (squares add up to 1).
    """

    domain, codomain, bijective = constraints.real_vector, constraints.corr_cholesky, True

    def _call(self, x: Tensor) -> Tensor:
        x = x.tanh()
        eps = fusegrad.finfo(x.dtype).eps
        r = _filled(x.clamp(min=-1 + eps, max=1 - eps), -1)
        left = (1 - r * r).sqrt().cumprod(-1)
        r = r + fusegrad.eye(r.shape[-1], dtype=r.dtype)
        return r * fusegrad.nn.functional.pad(left[..., :-1], [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        left = (1 - (y * y).cumsum(-1)).clamp(min=fusegrad.finfo(y.dtype).tiny)
        left = fusegrad.nn.functional.pad(left[..., :-1], [1, 0], value=1)
        r = _below(y, -1) / _below(left, -1).sqrt()
        return (r.log1p() - (-r).log1p()) / 2

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        left = 1 - (y * y).cumsum(-1)
        stick = 0.5 * _below(left, -2).clamp(min=fusegrad.finfo(y.dtype).tiny).log().sum(-1)
        return stick - 2 * (x + softplus(-2 * x) - math.log(2.0)).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        count = shape[-1]
        n = round((0.25 + 2 * count) ** 0.5 + 0.5)
        if n * (n - 1) // 2 != count:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return fusegrad.Size((*shape[:-1], n, n))

    def inverse_shape(self, shape: Any) -> Any:
        if len(shape) < 2:
            raise ValueError("Too few dimensions on input")
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        n = shape[-1]
        return fusegrad.Size((*shape[:-2], n * (n - 1) // 2))


def _filled(x: Tensor, diagonal: int) -> Tensor:
    """Square matrices with the numbers of vectors below a diagonal, row by row, and zeros elsewhere."""
    n = round((0.25 + 2 * x.shape[-1]) ** 0.5 - 0.5) - diagonal
    rows, columns = fusegrad.tril_indices(n, n, diagonal)
    flat = fusegrad.zeros((*x.shape[:-1], n * n), dtype=x.dtype)
    return flat.index_copy(-1, rows * n + columns, x).reshape((*x.shape[:-1], n, n))


def _below(x: Tensor, diagonal: int) -> Tensor:
    """The numbers below a diagonal of square matrices, row by row."""
    n = x.shape[-1]
    rows, columns = fusegrad.tril_indices(n, n, diagonal)
    return x.reshape((*x.shape[:-2], n * n)).index_select(-1, rows * n + columns)
