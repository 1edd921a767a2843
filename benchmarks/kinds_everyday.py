"""Workloads of kinds.py: losses and their curvature, gates, filters, factors, updates of parameters, scans."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from kinds_cases import Code, add, both, normal, whole
from kinds_users import positive

# ---- losses


add(
    "cross entropy with smoothed labels, 512x1000",
    {"x": normal(512, 1000), "y": whole(1000, 512)},
    "x",
    lambda T: lambda x, y: T.nn.functional.cross_entropy(x, y, label_smoothing=0.1),
    lambda jax, np: (
        lambda x, y: (lambda p: -(0.9 * np.take_along_axis(p, y[:, None], 1)[:, 0] + 0.1 * p.mean(1)).mean())(
            jax.nn.log_softmax(x)
        )
    ),
)
add(
    "Huber regression, 20000x16",
    {"x": normal(20000, 16), "y": normal(20000), "w": normal(16)},
    "w",
    lambda T: lambda x, y, w: T.nn.functional.huber_loss(x @ w, y, delta=0.5),
    lambda jax, np: (
        lambda x, y, w: (lambda d: np.where(np.abs(d) <= 0.5, 0.5 * d * d, 0.5 * (np.abs(d) - 0.25)).mean())(x @ w - y)
    ),
)
both(
    "pseudo-Huber loss of images, 16x3x64x64",
    {"x": normal(16, 3, 64, 64), "y": normal(16, 3, 64, 64)},
    "x",
    lambda T: lambda x, y: (T.sqrt((x - y) ** 2 + 0.01) - 0.1).mean(),
)
add(
    "soft contrastive loss of two views, 256x128",
    {"a": normal(256, 128), "b": normal(256, 128)},
    "a b",
    lambda T: lambda a, b: _views(T, T.nn.functional.normalize, lambda z: T.log_softmax(z, 1), a, b),
    lambda jax, np: (
        lambda a, b: _views(
            np, lambda a: a / np.maximum(np.sqrt((a * a).sum(-1, keepdims=True)), 1e-12), jax.nn.log_softmax, a, b
        )
    ),
)


def _views(T: Any, unit: Any, log_softmax: Any, a: Any, b: Any) -> Any:
    s = unit(a) @ unit(b).T / 0.1
    return -(T.diagonal(log_softmax(s)).mean() + T.diagonal(log_softmax(s.T)).mean()) / 2


add(
    "evidence bound: draws given, 256x64",
    {
        "m": normal(256, 64),
        "s": normal(256, 64),
        "e": normal(256, 64),
        "w": normal(64, 64, scale=0.1),
        "x": normal(256, 64),
    },
    "m s w",
    lambda T: (
        lambda m, s, e, w, x: (
            T.nn.functional.binary_cross_entropy_with_logits(
                (m + e * T.exp(0.5 * s)) @ w, T.sigmoid(x), reduction="sum"
            )
            - 0.5 * (1 + s - m * m - T.exp(s)).sum()
        )
    ),
    lambda jax, np: (
        lambda m, s, e, w, x: (
            lambda z, t: (
                (np.maximum(z, 0) - z * t + np.log1p(np.exp(-np.abs(z)))).sum()
                - 0.5 * (1 + s - m * m - np.exp(s)).sum()
            )
        )((m + e * np.exp(0.5 * s)) @ w, jax.nn.sigmoid(x))
    ),
)
add(
    "mixture of 8 normals: log-likelihood of 20000 numbers",
    {"x": normal(20000), "a": normal(8), "m": normal(8), "s": normal(8)},
    "a m s",
    lambda T: (
        lambda x, a, m, s: T.logsumexp(T.log_softmax(a, 0) - s - 0.5 * ((x[:, None] - m) / T.exp(s)) ** 2, 1).mean()
    ),
    lambda jax, np: (
        lambda x, a, m, s: jax.nn.logsumexp(
            jax.nn.log_softmax(a) - s - 0.5 * ((x[:, None] - m) / np.exp(s)) ** 2, 1
        ).mean()
    ),
)
add(
    "squared difference of layers, 1e6 numbers",
    {"x": normal(1000, 1000), "y": normal(1000, 1000)},
    "x y",
    lambda T: lambda x, y: T.nn.functional.mse_loss(x, y),
    lambda jax, np: lambda x, y: ((x - y) ** 2).mean(),
)

# ---- second derivatives


def _critic(T: Any, x: Any, w: Any, u: Any) -> Any:
    return T.tanh(T.tanh(x @ w) @ u)


def _torch_penalty(T: Any) -> Code:
    def f(x: Any, w: Any, u: Any) -> Any:
        x = x.detach().requires_grad_()
        (g,) = T.autograd.grad(_critic(T, x, w, u).sum(), x, create_graph=True)
        return (((g * g).sum(1) + 1e-12).sqrt() - 1).pow(2).mean()

    return f


def _jax_penalty(jax: Any, np: Any) -> Code:
    def f(x: Any, w: Any, u: Any) -> Any:
        g = jax.grad(lambda x: _critic(np, x, w, u).sum())(x)
        return ((np.sqrt((g * g).sum(1) + 1e-12) - 1) ** 2).mean()

    return f


add(
    "gradient penalty of a critic, 128x32-64-1",
    {"x": normal(128, 32), "w": normal(32, 64, scale=0.2), "u": normal(64, 1, scale=0.2)},
    "w u",
    _torch_penalty,
    _jax_penalty,
)


def _energy(T: Any, w: Any, x: Any) -> Any:
    return (T.log(1 + T.exp(x @ w.reshape(20, 30)))).sum(1).mean() + 0.5 * (w * w).sum()


add(
    "Hessian-vector product of softplus units, 500x20, 600 numbers",
    {"x": normal(500, 20), "w": normal(600, scale=0.1), "v": normal(600)},
    "",
    lambda T: lambda x, w, v: T.func.jvp(T.func.grad(lambda w: _energy(T, w, x)), (w,), (v,))[1],
    lambda jax, np: lambda x, w, v: jax.jvp(jax.grad(lambda w: _energy(np, w, x)), (w,), (v,))[1],
)


def _clipped(T: Any, vmap: Any, grad: Any) -> Code:
    def one(w: Any, u: Any, x: Any, y: Any) -> Any:
        return ((T.tanh(x @ w) @ u - y) ** 2).sum()

    def f(w: Any, u: Any, x: Any, y: Any) -> Any:
        a, b = vmap(grad(one, (0, 1)), (None, None, 0, 0))(w, u, x, y)
        size = T.sqrt((a * a).sum((1, 2)) + (b * b).sum((1, 2)))
        c = 1 / T.maximum(size, T.ones_like(size))
        return (a * c[:, None, None]).mean(0), (b * c[:, None, None]).mean(0)

    return f


add(
    "clipped gradients of each of 128 samples, 32-48-4",
    {"w": normal(32, 48, scale=0.2), "u": normal(48, 4, scale=0.2), "x": normal(128, 32), "y": normal(128, 4)},
    "",
    lambda T: _clipped(T, T.func.vmap, T.func.grad),
    lambda jax, np: _clipped(np, jax.vmap, jax.grad),
)

# ---- layers


def _gated(T: Any, silu: Any) -> Code:
    def f(x: Any, g: Any, w: Any, u: Any, d: Any) -> Any:
        h = x / T.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * g
        return x + (silu(h @ w) * (h @ u)) @ d

    return f


add(
    "RMS norm and gated block, 128x96, 256 hidden",
    {
        "x": normal(128, 96),
        "g": normal(96),
        "w": normal(96, 256, scale=0.1),
        "u": normal(96, 256, scale=0.1),
        "d": normal(256, 96, scale=0.1),
    },
    "x g w u d",
    lambda T: _gated(T, T.nn.functional.silu),
    lambda jax, np: _gated(np, jax.nn.silu),
)


def _rotary(T: Any, softmax: Any) -> Code:
    def turn(x: Any, c: Any, s: Any) -> Any:
        n = x.shape[-1] // 2
        return x * c + T.concatenate((-x[..., n:], x[..., :n]), -1) * s

    def f(q: Any, k: Any, v: Any, c: Any, s: Any, m: Any) -> Any:
        a = turn(q, c, s) @ turn(k, c, s).swapaxes(-1, -2) / math.sqrt(q.shape[-1])
        return softmax(a + m) @ v

    return f


_angles = np.outer(np.arange(64), 10000.0 ** (-np.arange(16) / 16))
_angles = np.concatenate((_angles, _angles), -1).astype(np.float32)
add(
    "attention with turned places, 4x4x64x32",
    {
        "q": normal(4, 4, 64, 32),
        "k": normal(4, 4, 64, 32, scale=0.9),
        "v": normal(4, 4, 64, 32, scale=0.8),
        "c": np.cos(_angles),
        "s": np.sin(_angles),
        "m": np.triu(np.full((64, 64), -np.inf, np.float32), 1),
    },
    "q k v",
    lambda T: _rotary(T, lambda a: T.softmax(a, -1)),
    lambda jax, np: _rotary(np, jax.nn.softmax),
)
add(
    "batch norm in training and relu, 256x512",
    {"x": normal(256, 512), "g": normal(512), "b": normal(512)},
    "x g b",
    lambda T: lambda x, g, b: T.relu(T.nn.functional.batch_norm(x, None, None, g, b, training=True)),
    lambda jax, np: lambda x, g, b: jax.nn.relu((x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5) * g + b),
)
add(
    "layer norm, gelu, residual, 512x384",
    {"x": normal(512, 384), "g": normal(384), "b": normal(384)},
    "x g b",
    lambda T: lambda x, g, b: x + T.nn.functional.gelu(T.nn.functional.layer_norm(x, (384,), g, b)),
    lambda jax, np: (
        lambda x, g, b: (
            x
            + jax.nn.gelu(
                (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * g + b, approximate=False
            )
        )
    ),
)


def _jax_conv1d(jax: Any, x: Any, w: Any, step: int) -> Any:
    return jax.lax.conv_general_dilated(x, w, (step,), [(2, 2)])


add(
    "net of three conv1d, 16x8x256",
    {
        "x": normal(16, 8, 256),
        "a": normal(16, 8, 5, scale=0.2),
        "b": normal(32, 16, 5, scale=0.2),
        "c": normal(32, 32, 5, scale=0.1),
    },
    "a b c",
    lambda T: _conv_net(T.relu, lambda x, w, s: T.nn.functional.conv1d(x, w, stride=s, padding=2)),
    lambda jax, np: _conv_net(jax.nn.relu, lambda x, w, s: _jax_conv1d(jax, x, w, s)),
)


def _conv_net(relu: Any, conv: Any) -> Code:
    return lambda x, a, b, c: (conv(relu(conv(relu(conv(x, a, 1)), b, 2)), c, 2).mean(2) ** 2).sum()


def _gru(T: Any, sig: Any) -> Code:
    def f(x: Any, w: Any, u: Any, b: Any) -> Any:
        n = u.shape[0]
        h = x[:, 0] * 0.0
        for t in range(x.shape[1]):
            a, r = x[:, t] @ w + b, h @ u
            z = sig(a[:, :n] + r[:, :n])
            g = sig(a[:, n : 2 * n] + r[:, n : 2 * n])
            h = (1 - z) * T.tanh(a[:, 2 * n :] + g * r[:, 2 * n :]) + z * h
        return (h * h).mean()

    return f


add(
    "GRU of 16 steps, loss, 32x48",
    {"x": normal(32, 16, 48), "w": normal(48, 144, scale=0.2), "u": normal(48, 144, scale=0.2), "b": normal(144)},
    "w u b",
    lambda T: _gru(T, T.sigmoid),
    lambda jax, np: _gru(np, jax.nn.sigmoid),
)

# ---- tables, factors, clusters

add(
    "factors of ratings: 20000 of 2000x1500, 24 numbers",
    {
        "p": normal(2000, 24, scale=0.3),
        "q": normal(1500, 24, scale=0.3),
        "b": normal(2000),
        "i": whole(2000, 20000),
        "j": whole(1500, 20000),
        "r": normal(20000),
    },
    "p q b",
    lambda T: lambda p, q, b, i, j, r: (((p[i] * q[j]).sum(1) + b[i] - r) ** 2).mean(),
    lambda jax, np: lambda p, q, b, i, j, r: (((p[i] * q[j]).sum(1) + b[i] - r) ** 2).mean(),
)
add(
    "soft k-means: distances and weights, 2000x8, 32 centres",
    {"x": normal(2000, 8), "c": normal(32, 8)},
    "c",
    lambda T: (
        lambda x, c: (lambda d: (T.softmax(-d, 1) * d).sum(1).mean())(
            (x * x).sum(1)[:, None] - 2 * x @ c.T + (c * c).sum(1)
        )
    ),
    lambda jax, np: (
        lambda x, c: (lambda d: (jax.nn.softmax(-d, 1) * d).sum(1).mean())(
            (x * x).sum(1)[:, None] - 2 * x @ c.T + (c * c).sum(1)
        )
    ),
)
both(
    "distances of all pairs, 400x16 and 300x16",
    {"x": normal(400, 16), "y": normal(300, 16)},
    "x y",
    lambda T: lambda x, y: T.sqrt(((x[:, None] - y[None]) ** 2).sum(-1) + 1e-6).mean(1),
)

# ---- updates


def _adamw(T: Any) -> Code:
    def f(*args: Any) -> Any:
        n = len(args) // 4
        out = []
        for p, g, m, v in zip(args[:n], args[n : 2 * n], args[2 * n : 3 * n], args[3 * n :], strict=True):
            m = 0.9 * m + 0.1 * g
            v = 0.999 * v + 0.001 * g * g
            out += [p * (1 - 1e-4) - 1e-3 * m / (T.sqrt(v) + 1e-8), m, v]
        return tuple(out)

    return f


_SHAPES = ((256, 128), (128,), (128, 128), (128,), (128, 64), (64,), (64, 10), (10,))
both(
    "AdamW for 8 parameters, 58,000 numbers",
    {f"{k}{i}": (np.abs if k == "v" else np.asarray)(normal(*s)) for k in "pgmv" for i, s in enumerate(_SHAPES)},
    "",
    _adamw,
)


def _momentum(T: Any) -> Code:
    def f(p: Any, g: Any, m: Any) -> Any:
        size = T.sqrt((g * g).sum())
        g = g * T.minimum(1.0 / (size + 1e-6), size * 0 + 1)
        m = 0.9 * m + g + 1e-4 * p
        return p - 0.01 * (g + 0.9 * m), m

    return f


both("clipped Nesterov step, 1e6", {"p": normal(1000000), "g": normal(1000000), "m": normal(1000000)}, "", _momentum)

# ---- loops, filters, scans


def _oscillator(T: Any) -> Code:
    def speed(y: Any, k: Any) -> Any:
        return T.stack((y[1], k * (1 - y[0] * y[0]) * y[1] - y[0]))

    def f(y: Any, k: Any) -> Any:
        h = 0.05
        for _ in range(12):
            a = speed(y, k)
            b = speed(y + 0.5 * h * a, k)
            c = speed(y + 0.5 * h * b, k)
            d = speed(y + h * c, k)
            y = y + h / 6 * (a + 2 * b + 2 * c + d)
        return (y * y).sum(0)

    return f


both("van der Pol: 12 steps of RK4, 2000 starts", {"y": normal(2, 2000), "k": positive(2000)}, "y k", _oscillator)


def _tracker(T: Any, inverse: Any) -> Code:
    def f(z: Any, a: Any, q: Any) -> Any:
        x, p, total = z[0] * 0, q, 0.0
        for t in range(z.shape[0]):
            x, p = x @ a.T, a @ p @ a.T + q
            k = p @ inverse(p + q)
            d = z[t] - x
            x = x + (k @ d[..., None])[..., 0]
            p = p - k @ p
            total = total + (d * d).sum(-1)
        return total

    return f


add(
    "gain of a filter with inverses, 20 steps, 2 states",
    {"z": normal(20, 2), "a": np.float32([[1, 0.1], [-0.1, 1]]), "q": np.float32([[1, 0.2], [0.2, 1]])},
    "a q",
    lambda T: _tracker(T, T.linalg.inv),
    lambda jax, np: _tracker(np, np.linalg.inv),
)


def _sharpen(T: Any) -> Code:
    def f(x: Any) -> Any:
        b = (x[:, :, :-2] + 2 * x[:, :, 1:-1] + x[:, :, 2:]) / 4
        b = (b[:, :-2] + 2 * b[:, 1:-1] + b[:, 2:]) / 4
        s = x[:, 1:-1, 1:-1] + 1.5 * (x[:, 1:-1, 1:-1] - b)
        return T.clip(s, 0.0, 1.0)

    return f


both("sharpened images, 4x256x256", {"x": positive(4, 256, 256)}, "x", _sharpen)
both(
    "float64: nine-point average, 400x400",
    {"x": normal(400, 400).astype(np.float64)},
    "x",
    lambda T: lambda x: sum(x[i : 398 + i, j : 398 + j] for i in range(3) for j in range(3)) / 9.0,
)
both(
    "discounted sums by cumsum and log returns, 256x1000",
    {"x": positive(256, 1000)},
    "x",
    lambda T: lambda x: T.cumsum(T.log(x[:, 1:] / x[:, :-1]), 1).mean(0),
)
