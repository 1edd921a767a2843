"""Ready parametrizations: ``weight_norm``, ``spectral_norm``, ``orthogonal``."""

from __future__ import annotations

from typing import Any

import fusegrad
from fusegrad.autograd.modes import no_grad
from fusegrad.nn import functional as F
from fusegrad.nn.module import Module
from fusegrad.nn.utils.parametrize import register_parametrization
from fusegrad.tensor import Tensor


def norm_except(v: Tensor, dim: int | None) -> Tensor:
    """The Euclidean norm over all dimensions but ``dim`` (kept, of size 1), or over all of them."""
    if dim is None or dim == -1:
        return v.norm()
    return v.norm(2, [d for d in range(v.ndim) if d != dim % v.ndim], keepdim=True) if v.ndim > 1 else v.abs()


class _WeightNorm(Module):
    """direction and length: ``g * v / |v|``."""

    def __init__(self, dim: int | None) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, g: Tensor, v: Tensor) -> Tensor:
        """The weight."""
        return v * (g / norm_except(v, self.dim))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """(length, direction) of a weight."""
        return norm_except(weight, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Split a weight into length (``original0``, along ``dim``; None: one for all) and direction (``original1``)."""
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)
    return module


class _SpectralNorm(Module):
    """The weight over its largest singular value, which power iteration estimates while training."""

    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        if not -weight.ndim <= dim < weight.ndim:
            raise IndexError(f"Dimension out of range: {dim} for a weight of {weight.ndim} dimensions")
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got n_power_iterations=" + str(n_power_iterations)
            )
        self.dim, self.eps, self.n_power_iterations = dim % weight.ndim, eps, n_power_iterations
        if weight.ndim > 1:
            matrix = self._matrix(weight.detach())
            h, w = matrix.shape
            self.register_buffer("_u", F.normalize(fusegrad.randn(h, dtype=weight.dtype), dim=0, eps=eps))
            self.register_buffer("_v", F.normalize(fusegrad.randn(w, dtype=weight.dtype), dim=0, eps=eps))
            self._iterate(matrix, 15)

    def _matrix(self, weight: Tensor) -> Tensor:
        return weight.movedim(self.dim, 0).flatten(1) if self.dim else weight.flatten(1)

    def _iterate(self, matrix: Tensor, times: int) -> None:
        with no_grad():
            for _ in range(times):
                self._u.copy_(F.normalize(matrix @ self._v, dim=0, eps=self.eps))
                self._v.copy_(F.normalize(matrix.t() @ self._u, dim=0, eps=self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        """The weight with spectral norm 1."""
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self._matrix(weight)
        if self.training:
            self._iterate(matrix.detach(), self.n_power_iterations)
        u, v = self._u.clone(), self._v.clone()  # the buffers change before the backward pass
        return weight / fusegrad.dot(u, matrix @ v)

    def right_inverse(self, value: Tensor) -> Tensor:
        """The value itself (it need not have spectral norm 1)."""
        return value


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Divide a weight, as a matrix with ``dim`` as rows, by its largest singular value."""
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{type(module).__name__}' has no parameter or buffer with name '{name}'")
    if dim is None:
        dim = int(type(module).__name__.startswith("ConvTranspose"))
    register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))
    return module


def _reflections(a: Tensor) -> Tensor:
    """The product of the reflections whose vectors are the columns of ``a`` (n x k, below the diagonal, 1 on it)."""
    n, k = a.shape[-2:]
    below = a.tril(-1)
    q = fusegrad.eye(n, k, dtype=a.dtype).expand(a.shape)
    vectors = below + q
    scale = 2.0 / (1.0 + (below * below).sum(-2))
    for i in reversed(range(k)):
        v = vectors[..., i : i + 1]
        q = q - scale[..., i, None, None] * (v @ (v.mT @ q))
    return q


class _Orthogonal(Module):
    """An orthogonal matrix (or columns of one) from any matrix."""

    def __init__(self, weight: Tensor, orthogonal_map: str, use_trivialization: bool = True) -> None:
        super().__init__()
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, x: Tensor) -> Tensor:
        """Orthogonal rows or columns, whichever are fewer."""
        wide = x.shape[-2] < x.shape[-1]
        x = x.mT if wide else x
        n, k = x.shape[-2:]
        if self.orthogonal_map == "householder":
            q = _reflections(x) * x.diagonal(dim1=-2, dim2=-1).sign().detach().unsqueeze(-2)
        else:
            low = x.tril()
            if n != k:
                low = fusegrad.cat([low, low.new_zeros(n, n - k).expand(*low.shape[:-2], n, n - k)], -1)
            skew = low - low.mT
            if self.orthogonal_map == "matrix_exp":
                q = fusegrad.matrix_exp(skew)
            else:
                eye = fusegrad.eye(n, dtype=x.dtype)
                q = fusegrad.linalg.solve(eye - 0.5 * skew, eye + 0.5 * skew)
            q = q[..., :k] if n != k else q
        if getattr(self, "base", None) is not None:
            q = self.base @ q
        return q.mT if wide else q

    def right_inverse(self, q: Tensor) -> Tensor:
        """The matrix that ``q`` comes from: minus the identity, upon a base that is ``q`` completed to a square."""
        if "base" not in self._buffers:
            raise NotImplementedError("a matrix can't be assigned to an orthogonal one without use_trivialization")
        wide = q.shape[-2] < q.shape[-1]
        q = q.mT if wide else q
        n, k = q.shape[-2:]
        filled = q if n == k else fusegrad.cat([q, fusegrad.randn(*q.shape[:-1], n - k, dtype=q.dtype)], -1)
        base, r = fusegrad.linalg.qr(filled)
        self.base = base * r.diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2)  # of an orthogonal q: q itself
        start = fusegrad.eye(n, k, dtype=q.dtype).neg().expand(q.shape).clone()
        return start.mT.contiguous() if wide else start


def orthogonal(
    module: Module, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> Module:
    """Keep a weight orthogonal. ``orthogonal_map``: "matrix_exp", "cayley" or "householder" (default: the first for
    square matrices, the last for others). ValueError for a weight with less than two dimensions.
    """
    weight: Any = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{type(module).__name__}' has no parameter or buffer with name '{name}'")
    if weight.ndim < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.")
    if orthogonal_map is None:
        orthogonal_map = "matrix_exp" if weight.shape[-2] == weight.shape[-1] else "householder"
    if orthogonal_map not in ("matrix_exp", "cayley", "householder"):
        raise ValueError(
            f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}'
        )
    how = _Orthogonal(weight, orthogonal_map, use_trivialization)
    register_parametrization(module, name, how, unsafe=True)
    return module


__all__ = ["orthogonal", "spectral_norm", "weight_norm"]
