"""Workloads of kinds.py: differences in time and space, particles, prices, filters, likelihoods, small systems."""

from __future__ import annotations

from typing import Any

import numpy as np
from kinds_cases import Code, add, both, normal, whole


def double(a: np.ndarray) -> np.ndarray:
    """The same numbers in float64."""
    return a.astype(np.float64)


# ---- differences in space


def _burgers(T: Any) -> Code:
    def f(u: Any) -> Any:
        for _ in range(8):
            left, right = T.roll(u, 1, 0), T.roll(u, -1, 0)
            u = u - 0.05 * u * (right - left) + 0.02 * (right - 2.0 * u + left)
        return u

    return f


def _water(T: Any) -> Code:
    def f(h: Any, q: Any) -> Any:
        for _ in range(4):
            flux = q * q / h + 4.905 * h * h
            a = 0.5 * (h[2:] + h[:-2]) - 0.1 * (q[2:] - q[:-2])
            q = 0.5 * (q[2:] + q[:-2]) - 0.1 * (flux[2:] - flux[:-2])
            h = a
        return h * q

    return f


def _sided(T: Any) -> Code:
    def f(u: Any, c: Any) -> Any:
        for _ in range(4):
            back, ahead = u[1:-1] - u[:-2], u[2:] - u[1:-1]
            c = c[1:-1]
            u = u[1:-1] - 0.2 * T.where(c > 0, c * back, c * ahead)
        return u

    return f


def _gray_scott(T: Any) -> Code:
    def near(u: Any) -> Any:
        return T.roll(u, 1, 0) + T.roll(u, -1, 0) + T.roll(u, 1, 1) + T.roll(u, -1, 1) - 4.0 * u

    def f(u: Any, v: Any) -> Any:
        for _ in range(4):
            r = u * v * v
            u, v = u + 0.16 * near(u) - r + 0.035 * (1.0 - u), v + 0.08 * near(v) + r - 0.1 * v
        return u + v

    return f


def _seven(T: Any) -> Code:
    def f(u: Any) -> Any:
        c = u[1:-1, 1:-1, 1:-1]
        x = u[2:, 1:-1, 1:-1] + u[:-2, 1:-1, 1:-1]
        y = u[1:-1, 2:, 1:-1] + u[1:-1, :-2, 1:-1]
        return c + 0.1 * (x + y + u[1:-1, 1:-1, 2:] + u[1:-1, 1:-1, :-2] - 6.0 * c)

    return f


both("Burgers equation by roll, float64, 20000, 8 steps", {"u": double(normal(20000, scale=0.5))}, "u", _burgers)
both(
    "shallow water by slices, float64, 50000, 4 steps",
    {"h": double(np.abs(normal(50000, scale=0.1)) + 1), "q": double(normal(50000, scale=0.2))},
    "h q",
    _water,
)
both("advection against the wind by where, 1e5, 4 steps", {"u": normal(100000), "c": normal(100000)}, "u c", _sided)
both(
    "Gray-Scott reaction by roll, 128x128, 4 steps",
    {"u": np.abs(normal(128, 128, scale=0.3)), "v": np.abs(normal(128, 128, scale=0.2))},
    "u v",
    _gray_scott,
)
both("seven-point stencil, 64x64x64", {"u": normal(64, 64, 64)}, "u", _seven)
both("float64: seven-point stencil, 64x64x64", {"u": double(normal(64, 64, 64))}, "u", _seven)
both(
    "gradient of an image, float64, 400x400: squared differences",
    {"u": double(normal(400, 400))},
    "u",
    lambda T: lambda u: ((u[1:, :-1] - u[:-1, :-1]) ** 2 + (u[:-1, 1:] - u[:-1, :-1]) ** 2).sum(),
)

# ---- particles and ordinary differential equations


def _lennard(T: Any) -> Code:
    def f(p: Any, eye: Any) -> Any:
        d = p[:, None] - p[None]
        r = 1.0 / ((d * d).sum(-1) + eye * 1e3 + 0.1)
        s = r * r * r
        return (s * s - s).sum()

    return f


def _pendulum(T: Any) -> Code:
    def f(q: Any, p: Any) -> Any:
        for _ in range(20):
            p = p - 0.025 * T.sin(q)
            q = q + 0.05 * p
            p = p - 0.025 * T.sin(q)
        return q * p

    return f


def _epidemic(T: Any) -> Code:
    def f(s: Any, i: Any, b: Any) -> Any:
        for _ in range(60):
            new, out = b[0] * s * i, b[1] * i
            s, i = s - 0.1 * new, i + 0.1 * (new - out)
        return (s * i).sum()

    return f


both(
    "Lennard-Jones energy of 200 atoms",
    {"p": normal(200, 3, scale=3.0), "eye": np.eye(200, dtype=np.float32)},
    "p",
    _lennard,
)
both(
    "pendulums, float64, 20 leapfrog steps of 5000",
    {"q": double(normal(5000)), "p": double(normal(5000))},
    "q p",
    _pendulum,
)
both(
    "epidemic: 60 steps of one region",
    {"s": np.ones(1, np.float32), "i": np.full(1, 0.01, np.float32), "b": np.array([0.9, 0.2], np.float32)},
    "s i b",
    _epidemic,
)

# ---- prices


def _scholes(T: Any, erf: Any) -> Code:
    def f(s: Any, k: Any, v: Any) -> Any:
        a = (T.log(s / k) + 0.5 * v * v) / v
        return s * (0.5 + 0.5 * erf(a * 0.70710678)) - k * (0.5 + 0.5 * erf((a - v) * 0.70710678))

    return f


_OPTIONS = {k: np.abs(normal(200000 + i, scale=0.2))[:200000] + 0.5 for i, k in enumerate("skv")}


def _tree(T: Any, most: Any) -> Code:
    def f(x: Any) -> Any:
        v = most(1.0 - x)
        for _ in range(40):
            x = x[1:] * 0.99
            v = T.maximum(0.99 * (0.51 * v[1:] + 0.49 * v[:-1]), 1.0 - x)
        return v

    return f


add("Black-Scholes prices, 2e5", _OPTIONS, "s k v",
    lambda T: _scholes(T, T.erf), lambda jax, np: _scholes(np, jax.lax.erf))  # fmt: skip
add(
    "option on a mean: 5000 paths of 50 steps",
    {"z": normal(5000, 50), "v": np.array([0.2], np.float32)},
    "v",
    lambda T: lambda z, v: T.relu(T.exp(T.cumsum(v * 0.1 * z - 0.005 * v * v, 1)).mean(1) - 1.0).mean(),
    lambda jax, np: lambda z, v: jax.nn.relu(np.exp(np.cumsum(v * 0.1 * z - 0.005 * v * v, 1)).mean(1) - 1.0).mean(),
)
add(
    "tree of 40 steps for an option, 2000 nodes",
    {"x": np.abs(normal(2000)) + np.float32(0.3)},
    "x",
    lambda T: _tree(T, T.relu),
    lambda jax, np: _tree(np, jax.nn.relu),
)

# ---- filters, likelihoods, clusters


def _filter(T: Any) -> Code:
    def f(y: Any, a: Any, q: Any) -> Any:
        m = y[:, 0] * 0.0
        p = q + 0.0 * y[:, 0, :, None]
        for t in range(6):
            m = m @ a.T
            p = a @ p @ a.T + q
            k = p @ T.linalg.inv(p + q)
            m = m + (k @ (y[:, t] - m)[:, :, None])[:, :, 0]
            p = p - k @ p
        return m

    return f


def _em(T: Any, softmax: Any) -> Code:
    def f(x: Any, m: Any, v: Any, w: Any) -> Any:
        d = x[:, None] - m
        r = softmax(T.log(w) - 0.5 * (d * d / v + T.log(v)).sum(-1), 1)
        n = r.sum(0)
        m = r.T @ x / n[:, None]
        d = x[:, None] - m
        return m + (r[:, :, None] * d * d).sum(0) / n[:, None]

    return f


def _chol(T: Any, solve: Any) -> Code:
    def f(x: Any, y: Any, l: Any) -> Any:
        d = x[:, None] - x[None]
        k = T.exp(-0.5 * (d * d / (l * l)).sum(-1)) + 0.1 * T.eye(x.shape[0], dtype=x.dtype)
        c = T.linalg.cholesky(k)
        a = solve(c, y[:, None])
        return 0.5 * (a * a).sum() + T.log(T.diagonal(c)).sum()

    return f


def _sinkhorn(lse: Any) -> Code:
    def f(c: Any) -> Any:
        u = c[:, 0] * 0.0
        v = c[0] * 0.0
        for _ in range(8):
            u = -lse(v - c, 1)
            v = -lse(u[:, None] - c, 0)
        return u.sum() + v.sum()

    return f


both(
    "Kalman filters with inverses, 100 x 6 steps, 3 states",
    {
        "y": normal(100, 6, 3),
        "a": np.eye(3, dtype=np.float32) + normal(3, 3, scale=0.1),
        "q": np.eye(3, dtype=np.float32),
    },
    "y a",
    _filter,
)
add("mixture of normals: one EM step, 2000x4, 6 parts",
    {"x": normal(2000, 4), "m": normal(6, 4), "v": np.abs(normal(6, 4)) + 1, "w": np.full(6, 1 / 6, np.float32)}, "",
    lambda T: _em(T, T.softmax), lambda jax, np: _em(np, jax.nn.softmax))  # fmt: skip
add(
    "float64: likelihood by Cholesky, 64 points",
    {"x": double(normal(64, 3)), "y": double(normal(64)), "l": double(np.abs(normal(3)) + 1)},
    "l",
    lambda T: _chol(T, lambda c, y: T.linalg.solve_triangular(c, y, upper=False)),
    lambda jax, np: _chol(np, lambda c, y: jax.scipy.linalg.solve_triangular(c, y, lower=True)),
)
add("Sinkhorn: 8 rounds of 100x120", {"c": np.abs(normal(100, 120))}, "c",
    lambda T: _sinkhorn(T.logsumexp), lambda jax, np: _sinkhorn(jax.nn.logsumexp))  # fmt: skip
add(
    "probit regression, 4000x16",
    {"x": normal(4000, 16), "y": whole(2, 4000).astype(np.float32) * 2 - 1, "b": normal(16, scale=0.3)},
    "b",
    lambda T: lambda x, y, b: -T.log(0.5 + 0.5 * T.erf(y * (x @ b) * 0.7) + 1e-6).sum() + 0.5 * (b * b).sum(),
    lambda jax, np: (
        lambda x, y, b: -np.log(0.5 + 0.5 * jax.lax.erf(y * (x @ b) * 0.7) + 1e-6).sum() + 0.5 * (b * b).sum()
    ),
)
both(
    "Poisson regression, 10000x8",
    {"x": normal(10000, 8), "y": whole(9, 10000).astype(np.float32), "b": normal(8, scale=0.2)},
    "b",
    lambda T: lambda x, y, b: (lambda e: (T.exp(e) - y * e).mean())(x @ b),
)

# ---- small systems, tables, orders

both(
    "determinants and inverses of 1000 3x3",
    {"a": normal(1000, 3, 3) + 3 * np.eye(3, dtype=np.float32)},
    "a",
    lambda T: lambda a: T.linalg.inv(a) * T.linalg.det(a)[:, None, None],
)
both(
    "Cholesky of 500 matrices of 6",
    {"a": normal(500, 6, 6)},
    "a",
    lambda T: lambda a: T.linalg.cholesky(a @ T.swapaxes(a, 1, 2) + 6 * T.eye(6)),
)
add(
    "distance of sorted samples, 64x1000",
    {"x": normal(64, 1000), "y": normal(64, 1000) + 1},
    "x",
    lambda T: lambda x, y: (T.sort(x, 1)[0] - T.sort(y, 1)[0]).abs().mean(),
    lambda jax, np: lambda x, y: np.abs(np.sort(x, 1) - np.sort(y, 1)).mean(),
)
add(
    "interpolation in a table of 256, 1e5",
    {"x": np.random.default_rng(0).random(100000, np.float32) * 254, "t": normal(256)},
    "x t",
    lambda T: lambda x, t: (lambda i: (lambda f: t[i] * (1 - f) + t[i + 1] * f)(x - i.float()))(x.floor().long()),
    lambda jax, np: lambda x, t: (lambda i: (lambda f: t[i] * (1 - f) + t[i + 1] * f)(x - i))(np.floor(x).astype(int)),
)
add(
    "steps found in 1000 thresholds, 1e5",
    {"x": normal(100000), "t": np.sort(normal(1000))},
    "",
    lambda T: lambda x, t: T.searchsorted(t, x),
    lambda jax, np: lambda x, t: np.searchsorted(t, x),
)
both(
    "quaternions: 50000 products",
    {"p": normal(4, 50000), "q": normal(50000, 4).T.copy()},
    "p q",
    lambda T: (
        lambda p, q: T.stack(
            [
                p[0] * q[0] - p[1] * q[1] - p[2] * q[2] - p[3] * q[3],
                p[0] * q[1] + p[1] * q[0] + p[2] * q[3] - p[3] * q[2],
                p[0] * q[2] - p[1] * q[3] + p[2] * q[0] + p[3] * q[1],
                p[0] * q[3] + p[1] * q[2] - p[2] * q[1] + p[3] * q[0],
            ]
        )
    ),
)
both(
    "variance over the middle, 64x100x32",
    {"x": normal(64, 100, 32)},
    "x",
    lambda T: lambda x: ((x - x.mean(1, keepdims=True)) ** 2).mean(1) * 2,
)
both(
    "norms over first and last, 32x64x48",
    {"x": normal(32, 64, 48)},
    "x",
    lambda T: lambda x: T.sqrt((x * x).sum((0, 2)) + 1e-6) * x.mean((0, 2)),
)
both("chain on 100 numbers", {"x": normal(100)}, "x", lambda T: lambda x: T.tanh(x * 2 + 1) * T.exp(-x * x))
both("chain on 1e7 numbers", {"x": normal(10000000)}, "", lambda T: lambda x: T.sqrt(x * x + 1) * T.exp(-x * x) + x)
