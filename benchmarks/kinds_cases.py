"""Workloads of kinds.py: scans, masks, cells, attention, random numbers, dynamics, statistics."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

# ---- the workloads: name -> (data, inputs to differentiate, code in torch's names, code in jax's)

Code = Callable[..., Any]
WORKLOADS: dict[str, tuple[dict[str, Any], str, Code, Code, bool]] = {}


def normal(*shape: int, scale: float = 1.0) -> np.ndarray:
    """Standard normal float32, the same at each call of one shape."""
    return (np.random.default_rng(sum(shape)).standard_normal(shape) * scale).astype(np.float32)


def whole(high: int, *shape: int) -> np.ndarray:
    """Whole numbers below ``high``."""
    return np.random.default_rng(high).integers(0, high, shape)


def add(name: str, data: dict[str, Any], wrt: str, torch: Code, jax: Code, checked: bool = True) -> None:
    """``torch(T)`` and ``jax(jax, jnp)`` return the function of ``data``; ``wrt``: names of inputs with a gradient."""
    WORKLOADS[name] = (data, wrt, torch, jax, checked)


def both(name: str, data: dict[str, Any], wrt: str, code: Callable[[Any], Code], checked: bool = True) -> None:
    """The same text for both: ``code`` takes a module with the names that torch and jax.numpy share."""
    add(name, data, wrt, code, lambda jax, jnp: code(jnp), checked)


# scans
add(
    "cumsum of squares, 256x4096",
    {"x": normal(256, 4096)},
    "x",
    lambda T: lambda x: T.cumsum(x * x, 1) * x,
    lambda jax, np: lambda x: np.cumsum(x * x, 1) * x,
)
add(
    "cumsum down columns, 1024x512",
    {"x": normal(1024, 512)},
    "x",
    lambda T: lambda x: T.cumsum(x.tanh(), 0) * 0.1,
    lambda jax, np: lambda x: np.cumsum(np.tanh(x), 0) * 0.1,
)
add(
    "cumprod of sigmoids, 512x256",
    {"x": normal(512, 256)},
    "x",
    lambda T: lambda x: T.cumprod(T.sigmoid(x), 1),
    lambda jax, np: lambda x: np.cumprod(jax.nn.sigmoid(x), 1),
)


def _recurrence(T: Any) -> Code:
    def f(x: Any, a: Any) -> Any:
        h = x[:, 0]
        for t in range(1, 32):
            h = a * h + x[:, t]
        return h

    return f


both("linear recurrence by a loop, 64x32x64", {"x": normal(64, 32, 64), "a": normal(64, scale=0.1)}, "x a", _recurrence)

# masks
add(
    "masks: where and masked_fill, 1e6",
    {"x": normal(1000, 1000), "y": normal(1000, 1000)},
    "x y",
    lambda T: lambda x, y: T.where(x > 0, x * y, -y).masked_fill(y > 1, 0.0) + (x < y).float() * x,
    lambda jax, np: lambda x, y: np.where(y > 1, 0.0, np.where(x > 0, x * y, -y)) + (x < y).astype(np.float32) * x,
)
add(
    "counts of a condition by rows, 1e6",
    {"x": normal(1000, 1000), "y": normal(1000, 1000)},
    "",
    lambda T: lambda x, y: ((x > 0) & (y < 0.5)).sum(1),
    lambda jax, np: lambda x, y: ((x > 0) & (y < 0.5)).sum(1),
)


# recurrent cells
def _cell(T: Any, sig: Any) -> Code:
    def f(x: Any, h: Any, c: Any, w: Any, u: Any, b: Any) -> Any:
        n = h.shape[1]
        z = x @ w + h @ u + b
        i, f, g, o = z[:, :n], z[:, n : 2 * n], z[:, 2 * n : 3 * n], z[:, 3 * n :]
        c = sig(f) * c + sig(i) * T.tanh(g)
        return sig(o) * T.tanh(c)

    return f


_CELL = {
    "x": normal(32, 32),
    "h": normal(32, 64),
    "c": normal(32, 64, scale=0.5),
    "w": normal(32, 256, scale=0.1),
    "u": normal(64, 256, scale=0.1),
    "b": normal(256),
}
add("LSTM cell, 32x64", _CELL, "x h c w u b", lambda T: _cell(T, T.sigmoid), lambda jax, np: _cell(np, jax.nn.sigmoid))


def _gru(T: Any, sig: Any) -> Code:
    def f(x: Any, w: Any, u: Any) -> Any:
        h = x[0, :, :64] * 0.0
        for t in range(12):
            a, b = x[t] @ w, h @ u
            r, z = sig(a[:, :64] + b[:, :64]), sig(a[:, 64:128] + b[:, 64:128])
            h = (1 - z) * T.tanh(a[:, 128:] + r * b[:, 128:]) + z * h
        return h

    return f


add(
    "GRU by a loop, 12 steps of 16x64",
    {"x": normal(12, 16, 64), "w": normal(64, 192, scale=0.1), "u": normal(64, 192, scale=0.11)},
    "w u",
    lambda T: _gru(T, T.sigmoid),
    lambda jax, np: _gru(np, jax.nn.sigmoid),
)

# attention
_QKV = {k: normal(4, 4, 128, 32, scale=s) for k, s in (("q", 1.0), ("k", 0.9), ("v", 1.1))}


def _jax_attention(jax: Any, np: Any) -> Code:
    def f(q: Any, k: Any, v: Any) -> Any:
        s = q @ np.swapaxes(k, -1, -2) / math.sqrt(32)
        s = np.where(np.tril(np.ones((128, 128), bool)), s, -np.inf)
        return jax.nn.softmax(s, -1) @ v

    return f


def _torch_attention(T: Any) -> Code:
    def f(q: Any, k: Any, v: Any) -> Any:
        s = q @ k.transpose(-1, -2) / math.sqrt(32)
        s = s.masked_fill(~T.tril(T.ones(128, 128, dtype=T.bool)), float("-inf"))
        return T.softmax(s, -1) @ v

    return f


add("causal attention written out, 4x4x128x32", _QKV, "q k v", _torch_attention, _jax_attention)
add(
    "scaled_dot_product_attention, causal",
    _QKV,
    "q k v",
    lambda T: lambda q, k, v: T.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True),
    _jax_attention,
)
add(
    "attention of 64 short sequences, 64x2x16x8",
    {k: normal(64, 2, 16, 8, scale=s) for k, s in (("q", 1.0), ("k", 0.9), ("v", 1.1))},
    "q k v",
    lambda T: lambda q, k, v: T.softmax(q @ k.transpose(-1, -2) * 0.35, -1) @ v,
    lambda jax, np: lambda q, k, v: jax.nn.softmax(q @ np.swapaxes(k, -1, -2) * 0.35, -1) @ v,
)


# random numbers
def _jax_dropout(jax: Any, np: Any) -> Code:
    return lambda x: np.where(jax.random.bernoulli(jax.random.PRNGKey(0), 0.5, x.shape), jax.nn.relu(x) * 2, 0.0)


add(
    "relu and dropout, 1e6",
    {"x": normal(1000, 1000)},
    "x",
    lambda T: lambda x: T.nn.functional.dropout(T.relu(x), 0.5),
    _jax_dropout,
    False,
)


def _jax_paths(jax: Any, np: Any) -> Code:
    def f(s: Any, v: Any) -> Any:
        z = jax.random.normal(jax.random.PRNGKey(0), (10000, 64))
        path = s * np.exp(np.cumsum(v * 0.125 * z - 0.5 * v * v / 64, 1))
        return np.maximum(path.mean(1) - 1.0, 0.0).mean()

    return f


def _torch_paths(T: Any) -> Code:
    def f(s: Any, v: Any) -> Any:
        z = T.randn(10000, 64)
        path = s * T.exp(T.cumsum(v * 0.125 * z - 0.5 * v * v / 64, 1))
        return T.relu(path.mean(1) - 1.0).mean()

    return f


_NUMBERS = {"s": np.float32(1.0).reshape(()), "v": np.float32(0.2).reshape(())}
add("Monte Carlo: mean of 10000 paths of 64 steps", _NUMBERS, "s v", _torch_paths, _jax_paths, False)


# dynamics
def _nbody(T: Any) -> Code:
    def force(x: Any, m: Any) -> Any:
        d = x[None, :, :] - x[:, None, :]
        r = (d * d).sum(-1) + 0.01
        return (d * (m[None, :] / (r * T.sqrt(r)))[:, :, None]).sum(1)

    def f(x: Any, v: Any, m: Any) -> Any:
        for _ in range(5):
            v = v + 0.005 * force(x, m)
            x = x + 0.01 * v
            v = v + 0.005 * force(x, m)
        return x + v

    return f


_BODIES = {"x": normal(100, 3), "v": normal(100, 3, scale=0.1), "m": np.abs(normal(100)) + 0.1}
both("100 bodies, 5 leapfrog steps, forward", _BODIES, "", _nbody)
both("100 bodies, 5 leapfrog steps", _BODIES, "x v m", _nbody)


def _ode(T: Any) -> Code:
    def f(x: Any, w: Any, b: Any, u: Any) -> Any:
        def rate(x: Any) -> Any:
            return T.tanh(x @ w + b) @ u

        for _ in range(8):
            k1 = rate(x)
            k2 = rate(x + 0.05 * k1)
            k3 = rate(x + 0.05 * k2)
            k4 = rate(x + 0.1 * k3)
            x = x + (0.1 / 6) * (k1 + 2 * k2 + 2 * k3 + k4)
        return x

    return f


both(
    "neural ODE: RK4, 8 steps, 200x2, 50 hidden",
    {"x": normal(200, 2), "w": normal(2, 50), "b": normal(50), "u": normal(50, 2, scale=0.2)},
    "w b u",
    _ode,
)


def _heat(T: Any) -> Code:
    def f(u: Any) -> Any:
        for _ in range(8):
            u = u + 0.1 * (T.roll(u, 1, 0) + T.roll(u, -1, 0) + T.roll(u, 1, 1) + T.roll(u, -1, 1) - 4 * u)
        return u

    return f


both("heat equation by roll, 256x256, 8 steps", {"u": normal(256, 256)}, "u", _heat)


def _slices(T: Any) -> Code:
    def f(u: Any) -> Any:
        for _ in range(6):
            u = u[1:-1, 1:-1] + 0.1 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1])
        return u

    return f


both("stencil by slices, 256x256, 6 steps", {"u": normal(256, 256)}, "u", _slices)
both(
    "upwind differences by slices, 1e6",
    {"u": normal(1000, 1000)},
    "u",
    lambda T: lambda u: (u[:, 1:] - u[:, :-1]) * u[:, 1:] + (u[:, 1:] - u[:, :-1]) ** 2,
)


def _life(T: Any) -> Code:
    def f(u: Any) -> Any:
        for _ in range(4):
            n = sum(T.roll(T.roll(u, i, 0), j, 1) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j)
            u = T.where((n == 3) | ((n == 2) & (u == 1)), 1, 0)
        return u

    return f


both("game of life, 256x256, 4 steps", {"u": whole(2, 256, 256)}, "", _life)


def _kalman(T: Any) -> Code:
    def f(x: Any, p: Any, z: Any, a: Any, q: Any) -> Any:
        for t in range(10):
            x, p = a @ x, a @ p @ a.T + q
            k = p[:, :1] / (p[0, 0] + 0.1)
            x = x + k @ (z[t] - x[:1])
            p = p - k @ p[:1]
        return x

    return f


both(
    "Kalman filter, 10 steps, 4 states",
    {
        "x": normal(4, 1),
        "p": np.eye(4, dtype=np.float32),
        "z": normal(10, 1, 1),
        "a": np.eye(4, dtype=np.float32) + normal(4, 4, scale=0.05),
        "q": 0.01 * np.eye(4, dtype=np.float32),
    },
    "a q",
    _kalman,
)


def _power(T: Any) -> Code:
    def f(a: Any, x: Any) -> Any:
        for _ in range(16):
            x = a @ x
            x = x / T.sqrt((x * x).sum())
        return x

    return f


both("power iteration, 16 products of 256x256 and a vector", {"a": normal(256, 256), "x": normal(256)}, "", _power)


# statistics
def _gmm(T: Any, lse: Any) -> Code:
    def f(alpha: Any, mu: Any, q: Any, l: Any, x: Any) -> Any:  # noqa: E741
        d = x[:, None, :] - mu[None]
        lower = l * T.tril(T.ones((8, 8)), -1)[None]
        y = T.exp(q)[None] * d + (lower[None] * d[:, :, None, :]).sum(-1)
        inner = alpha + q.sum(1) - 0.5 * (y * y).sum(-1)
        return lse(inner).sum() - 500 * lse(alpha[None]).sum()

    return f


add(
    "Gaussian mixture log-likelihood, 500x8, 10 parts",
    {
        "alpha": normal(10),
        "mu": normal(10, 8),
        "q": normal(10, 8, scale=0.3),
        "l": normal(10, 8, 8, scale=0.3),
        "x": normal(500, 8),
    },
    "alpha mu q l",
    lambda T: _gmm(T, lambda x: T.logsumexp(x, -1)),
    lambda jax, np: _gmm(np, lambda x: jax.nn.logsumexp(x, axis=-1)),
)


def _rotate(T: Any, stack: Any) -> Code:
    def residual(cam: Any, x: Any, w: Any, z: Any) -> Any:
        r, c, f = cam[:, :3], cam[:, 3:6], cam[:, 6]
        d = x - c
        a2 = (r * r).sum(1) + 1e-6
        a = T.sqrt(a2)
        s, co = (T.sin(a) / a)[:, None], T.cos(a)[:, None]
        cross = stack(
            [
                r[:, 1] * d[:, 2] - r[:, 2] * d[:, 1],
                r[:, 2] * d[:, 0] - r[:, 0] * d[:, 2],
                r[:, 0] * d[:, 1] - r[:, 1] * d[:, 0],
            ]
        )
        p = d * co + cross * s + r * ((r * d).sum(1) * (1 - T.cos(a)) / a2)[:, None]
        u = p[:, :2] / (p[:, 2:] + 5.0)
        n = (u * u).sum(1)
        u = u * (1 + cam[:, 7] * n + cam[:, 8] * n * n)[:, None]
        return w[:, None] * (u * f[:, None] - z)

    return residual


def _torch_ba(T: Any) -> Code:
    residual = _rotate(T, lambda x: T.stack(x, 1))

    def f(cam: Any, x: Any, w: Any, z: Any) -> Any:
        out = []
        for k in (0, 1):
            c, p, q = (t.detach().requires_grad_() for t in (cam, x, w))
            out += T.autograd.grad(residual(c, p, q, z)[:, k].sum(), (c, p, q))
        return T.cat([g.reshape(g.shape[0], -1) for g in out], 1)

    return f


def _jax_ba(jax: Any, np: Any) -> Code:
    residual = _rotate(np, lambda x: np.stack(x, 1))

    def f(cam: Any, x: Any, w: Any, z: Any) -> Any:
        out: list = []
        for k in (0, 1):
            out += jax.grad(lambda c, p, q, k=k: residual(c, p, q, z)[:, k].sum(), (0, 1, 2))(cam, x, w)
        return np.concatenate([g.reshape(g.shape[0], -1) for g in out], 1)

    return f


add(
    "bundle adjustment: Jacobians of 2000 residuals",
    {"cam": normal(2000, 9, scale=0.3), "x": normal(2000, 3), "w": normal(2000), "z": normal(2000, 2)},
    "",
    _torch_ba,
    _jax_ba,
)
both(
    "robust curve fit: loss and gradient, 5000 points",
    {"t": np.abs(normal(5000)), "y": normal(5000, scale=0.5), "p": normal(4, scale=0.5)},
    "p",
    lambda T: lambda t, y, p: T.log(1 + ((p[0] * T.exp(-p[1] * p[1] * t) * T.cos(p[2] * t) + p[3]) - y) ** 2).sum(),
)
add(
    "logistic regression, 5000x32",
    {"x": normal(5000, 32), "y": np.sign(normal(5000)), "w": normal(32, scale=0.1)},
    "w",
    lambda T: lambda x, y, w: T.nn.functional.softplus(-y * (x @ w)).mean(),
    lambda jax, np: lambda x, y, w: jax.nn.softplus(-y * (x @ w)).mean(),
)
add(
    "histogram of 1e5 bins indices",
    {"i": whole(1000, 100000), "w": normal(100000)},
    "w",
    lambda T: lambda i, w: T.zeros(1000).index_add(0, i, w * w),
    lambda jax, np: lambda i, w: np.zeros(1000).at[i].add(w * w),
)
add(
    "logsumexp by rows, 2048x512",
    {"x": normal(2048, 512)},
    "x",
    lambda T: lambda x: T.logsumexp(x, 1),
    lambda jax, np: lambda x: jax.nn.logsumexp(x, axis=1),
)
add(
    "variance and mean by rows, 2048x512",
    {"x": normal(2048, 512)},
    "x",
    lambda T: lambda x: x.var(1) + x.mean(1),
    lambda jax, np: lambda x: x.var(1, ddof=1) + x.mean(1),
)
