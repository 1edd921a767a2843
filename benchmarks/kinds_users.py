"""Workloads of kinds.py: likelihoods, samplers, simulations, small models, linear algebra, images, order statistics."""

from __future__ import annotations

from typing import Any

import numpy as np
from kinds_cases import Code, add, both, normal, whole


def positive(*shape: int, low: float = 0.1) -> np.ndarray:
    """Positive float32 numbers."""
    return np.abs(normal(*shape)) + np.float32(low)


# ---- statistics

add(
    "negative binomial log-likelihood, 1e5",
    {"y": whole(20, 100000).astype(np.float32), "m": positive(100000), "r": positive(1, low=1.0)},
    "m r",
    lambda T: (
        lambda y, m, r: (
            T.lgamma(y + r) - T.lgamma(r) - T.lgamma(y + 1) + r * T.log(r / (r + m)) + y * T.log(m / (r + m))
        ).sum()
    ),
    lambda jax, np: (
        lambda y, m, r: (
            jax.lax.lgamma(y + r)
            - jax.lax.lgamma(r)
            - jax.lax.lgamma(y + 1)
            + r * np.log(r / (r + m))
            + y * np.log(m / (r + m))
        ).sum()
    ),
)


def _hmc(T: Any, sig: Any) -> Code:
    def f(x: Any, y: Any, b: Any, p: Any) -> Any:
        for _ in range(10):
            p = p + 0.005 * (x.T @ (y - sig(x @ b)) - b)
            b = b + 0.01 * p
            p = p + 0.005 * (x.T @ (y - sig(x @ b)) - b)
        return b * p

    return f


add(
    "Hamiltonian Monte Carlo: 10 leapfrog steps, 500x10",
    {"x": normal(500, 10), "y": whole(2, 500).astype(np.float32), "b": normal(10), "p": normal(10)},
    "",
    lambda T: _hmc(T, T.sigmoid),
    lambda jax, np: _hmc(np, jax.nn.sigmoid),
)


def _hmm(lse: Any) -> Code:
    def f(e: Any, a: Any) -> Any:
        s = e[:, 0]
        for t in range(1, 40):
            s = lse(s[:, :, None] + a, 1) + e[:, t]
        return lse(s, 1).sum()

    return f


add(
    "hidden Markov model: 40 steps of 32 sequences, 12 states",
    {"e": normal(32, 40, 12), "a": normal(12, 12)},
    "e a",
    lambda T: _hmm(T.logsumexp),
    lambda jax, np: _hmm(jax.nn.logsumexp),
)
add(
    "kernel density: log-density of 300 at 1000 points, 4 dimensions",
    {"x": normal(300, 4), "c": normal(1000, 4)},
    "x c",
    lambda T: lambda x, c: T.logsumexp(-0.5 * ((x[:, None] - c) ** 2).sum(-1), 1).mean(),
    lambda jax, np: lambda x, c: jax.nn.logsumexp(-0.5 * ((x[:, None] - c) ** 2).sum(-1), 1).mean(),
)
add(
    "largest fall of 500 random walks of 1000 steps",
    {"x": normal(500, 1000)},
    "x",
    lambda T: lambda x: (T.cummax(T.cumsum(x * 0.01, 1), 1)[0] - T.cumsum(x * 0.01, 1)).amax(1),
    lambda jax, np: lambda x: (jax.lax.cummax(np.cumsum(x * 0.01, 1), axis=1) - np.cumsum(x * 0.01, 1)).max(1),
)
add(
    "logcumsumexp by rows, 256x1024",
    {"x": normal(256, 1024)},
    "x",
    lambda T: lambda x: T.logcumsumexp(x, 1),
    lambda jax, np: lambda x: jax.lax.cumlogsumexp(x, axis=1),
)
both(
    "moving mean of 25 by cumsum, 256x2000",
    {"x": normal(256, 2000)},
    "x",
    lambda T: lambda x: (lambda c: (c[:, 25:] - c[:, :-25]) / 25)(T.cumsum(x, 1)),
)
add(
    "median and quartiles of rows, 500x501",
    {"x": normal(500, 501)},
    "",
    lambda T: lambda x: (T.sort(x, 1)[0][:, [125, 250, 375]] * 0.5).sum(1),
    lambda jax, np: lambda x: (np.sort(x, 1)[:, np.array([125, 250, 375])] * 0.5).sum(1),
)

# ---- simulations


def _lotka(T: Any) -> Code:
    def f(z: Any, p: Any) -> Any:
        def rate(x: Any, y: Any) -> Any:
            return p[0] * x - p[1] * x * y, p[2] * x * y - p[3] * y

        x, y = z[0], z[1]
        for _ in range(6):
            a, b = rate(x, y)
            c, d = rate(x + 0.01 * a, y + 0.01 * b)
            x, y = x + 0.02 * c, y + 0.02 * d
        return (x * y).sum()

    return f


both(
    "Lotka-Volterra, 6 midpoint steps of 1000 starts",
    {"z": positive(2, 1000), "p": positive(4)},
    "z p",
    _lotka,
)


def _springs(T: Any) -> Code:
    def f(x: Any, v: Any, k: Any) -> Any:
        for _ in range(4):
            d = x[1:] - x[:-1]
            s = (d * d).sum(-1)
            pull = k[:, None] * d * (1.0 - 1.0 / T.sqrt(s + 0.01))[:, None]
            zero = pull[:1] * 0.0
            v = 0.999 * v + 0.01 * (T.concatenate([pull, zero]) - T.concatenate([zero, pull]))
            x = x + 0.01 * v
        return x

    return f


both(
    "chain of 2000 springs, 4 steps",
    {"x": normal(2000, 3), "v": normal(2000, 3), "k": positive(1999)},
    "x k",
    _springs,
)


def _wave(T: Any) -> Code:
    def f(u: Any, w: Any) -> Any:
        for _ in range(4):
            inner = u[1:-1, 1:-1]
            lap = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4.0 * inner
            n = 2.0 * inner - w[1:-1, 1:-1] + 0.1 * lap
            u, w = n, inner
        return u

    return f


both(
    "wave equation on a shrinking square, 300x300, 4 steps",
    {"u": normal(300, 300), "w": normal(300, 300)},
    "u w",
    _wave,
)

# ---- small models


def _rnn(T: Any) -> Code:
    def f(x: Any, w: Any, u: Any, b: Any) -> Any:
        h = x[0] @ w
        for t in range(1, 24):
            h = T.tanh(x[t] @ w + h @ u + b)
        return h

    return f


both(
    "plain RNN by a loop, 24 steps of 32x64",
    {"x": normal(24, 32, 32), "w": normal(32, 64, scale=0.2), "u": normal(64, 64, scale=0.1), "b": normal(64)},
    "w u b",
    _rnn,
)


def _vae(relu: Any, T: Any, softplus: Any) -> Code:
    def f(x: Any, eps: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
        h = relu(x @ a)
        s = h @ b
        m, l = s[:, :16], s[:, 16:]
        z = m + eps * T.exp(0.5 * l)
        o = relu(z @ c) @ d
        fit = (softplus(o) - x * o).sum() / 64
        return fit - 0.5 * (1 + l - m * m - T.exp(l)).sum() / 64

    return f


add(
    "variational autoencoder, 64x256, 16 latent",
    {
        "x": np.random.default_rng(5).random((64, 256)).astype(np.float32),
        "eps": normal(64, 16),
        "a": normal(256, 128, scale=0.05),
        "b": normal(128, 32, scale=0.05),
        "c": normal(16, 128, scale=0.1),
        "d": normal(128, 256, scale=0.05),
    },
    "a b c d",
    lambda T: _vae(T.relu, T, T.nn.functional.softplus),
    lambda jax, np: _vae(jax.nn.relu, np, jax.nn.softplus),
)


def _gan(leaky: Any, softplus: Any, tanh: Any) -> Code:
    def f(x: Any, z: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
        fake = tanh(leaky(z @ a, 0.2) @ b)
        real, made = leaky(x @ c, 0.2) @ d, leaky(fake @ c, 0.2) @ d
        return softplus(-real).mean() + softplus(made).mean()

    return f


add(
    "adversarial networks: both losses, 64x128",
    {
        "x": normal(64, 128),
        "z": normal(64, 32),
        "a": normal(32, 128, scale=0.1),
        "b": normal(128, 128, scale=0.1),
        "c": normal(128, 128, scale=0.1),
        "d": normal(128, 1, scale=0.1),
    },
    "a b c d",
    lambda T: _gan(T.nn.functional.leaky_relu, T.nn.functional.softplus, T.tanh),
    lambda jax, np: _gan(jax.nn.leaky_relu, jax.nn.softplus, np.tanh),
)
add(
    "embedding bag: sums of 12 words, 512 bags of 32",
    {"i": whole(3000, 512, 12), "w": normal(3000, 32)},
    "w",
    lambda T: lambda i, w: T.nn.functional.embedding_bag(i, w, mode="sum"),
    lambda jax, np: lambda i, w: w[i].sum(1),
)
add(
    "contrastive loss of 128 pairs, 64 numbers",
    {"a": normal(128, 64), "b": normal(128, 64, scale=0.9)},
    "a b",
    lambda T: (
        lambda a, b: T.nn.functional.cross_entropy(
            T.nn.functional.normalize(a, dim=1) @ T.nn.functional.normalize(b, dim=1).T / 0.1, T.arange(128)
        )
    ),
    lambda jax, np: (
        lambda a, b: (
            -np.diag(
                jax.nn.log_softmax(
                    (a / np.linalg.norm(a, axis=1, keepdims=True))
                    @ (b / np.linalg.norm(b, axis=1, keepdims=True)).T
                    / 0.1,
                    1,
                )
            ).mean()
        )
    ),
)
add(
    "convolutional net: two layers and pooling, 16x3x32x32",
    {
        "x": normal(16, 3, 32, 32),
        "a": normal(16, 3, 3, 3, scale=0.2),
        "b": normal(32, 16, 3, 3, scale=0.1),
        "c": normal(32, 10),
    },
    "a b c",
    lambda T: (
        lambda x, a, b, c: (
            lambda F: (
                F.relu(F.conv2d(F.max_pool2d(F.relu(F.conv2d(x, a, padding=1)), 2), b, padding=1)).mean((2, 3)) @ c
            )
        )(T.nn.functional)
    ),
    lambda jax, np: _jax_net(jax, np),
)


def _jax_net(jax: Any, np: Any) -> Code:
    def conv(x: Any, w: Any) -> Any:
        return jax.lax.conv_general_dilated(x, w, (1, 1), ((1, 1), (1, 1)))

    def f(x: Any, a: Any, b: Any, c: Any) -> Any:
        h = jax.nn.relu(conv(x, a))
        h = jax.lax.reduce_window(h, -np.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
        return jax.nn.relu(conv(h, b)).mean((2, 3)) @ c

    return f


both(
    "10 networks at once by matmul, 10x64x32",
    {"x": normal(10, 64, 32), "a": normal(10, 32, 64, scale=0.2), "b": normal(10, 64, 8, scale=0.2)},
    "a b",
    lambda T: lambda x, a, b: T.tanh(x @ a) @ b,
)
both(
    "Fourier features, 4000x2, 32 frequencies",
    {"x": normal(4000, 2), "w": normal(2, 32), "v": normal(64, 1)},
    "w v",
    lambda T: lambda x, w, v: T.concatenate([T.sin(x @ w), T.cos(x @ w)], 1) @ v,
)


def _route(T: Any, softmax: Any, topk: Any) -> Code:
    def f(x: Any, g: Any) -> Any:
        v, i = topk(softmax(x @ g, -1), 2)
        return v / v.sum(1)[:, None]

    return f


add(
    "routing: the 2 largest of 16 gates, 2000x64",
    {"x": normal(2000, 64), "g": normal(64, 16)},
    "g",
    lambda T: _route(T, T.softmax, T.topk),
    lambda jax, np: _route(np, jax.nn.softmax, jax.lax.top_k),
)

# ---- linear algebra

both(
    "least squares by normal equations, 2000x20",
    {"x": normal(2000, 20), "y": normal(2000)},
    "x y",
    lambda T: lambda x, y: T.linalg.solve(x.T @ x, x.T @ y),
)
add(
    "Gaussian process: mean at 50 from 120 points",
    {"x": normal(120, 3), "s": normal(50, 3), "y": normal(120), "l": positive(3, low=1.0)},
    "y l",
    lambda T: (
        lambda x, s, y, l: (
            T.exp(-0.5 * (((s[:, None] - x) / l) ** 2).sum(-1))
            @ T.cholesky_solve(
                y[:, None],
                T.linalg.cholesky(T.exp(-0.5 * (((x[:, None] - x) / l) ** 2).sum(-1)) + 0.1 * T.eye(120)),
            )
        )
    ),
    lambda jax, np: (
        lambda x, s, y, l: (
            np.exp(-0.5 * (((s[:, None] - x) / l) ** 2).sum(-1))
            @ jax.scipy.linalg.cho_solve(
                (np.linalg.cholesky(np.exp(-0.5 * (((x[:, None] - x) / l) ** 2).sum(-1)) + 0.1 * np.eye(120)), True),
                y[:, None],
            )
        )
    ),
)
add(
    "k-means step: 5000x8, 20 centres",
    {"x": normal(5000, 8), "c": normal(20, 8)},
    "",
    lambda T: (
        lambda x, c: (
            lambda i: (
                T.zeros(20, 8).index_add(0, i, x) / T.zeros(20).index_add(0, i, T.ones(5000)).clamp(min=1)[:, None]
            )
        )(T.cdist(x, c).argmin(1))
    ),
    lambda jax, np: (
        lambda x, c: (
            lambda i: np.zeros((20, 8)).at[i].add(x) / np.maximum(np.zeros(20).at[i].add(np.ones(5000)), 1)[:, None]
        )(((x[:, None] - c) ** 2).sum(-1).argmin(1))
    ),
)

# ---- images


def _blur(w: int) -> np.ndarray:
    k = np.exp(-0.5 * (np.arange(w) - w // 2) ** 2 / 2.0)
    return (k / k.sum()).astype(np.float32)


add(
    "Gaussian blur and edges, 8x128x128",
    {"x": normal(8, 1, 128, 128), "k": _blur(7)},
    "x",
    lambda T: (
        lambda x, k: (
            lambda y: T.sqrt(
                (y[:, :, 1:, :-1] - y[:, :, :-1, :-1]) ** 2 + (y[:, :, :-1, 1:] - y[:, :, :-1, :-1]) ** 2 + 1e-3
            )
        )(T.nn.functional.conv2d(T.nn.functional.conv2d(x, k.reshape(1, 1, 7, 1)), k.reshape(1, 1, 1, 7)))
    ),
    lambda jax, np: (
        lambda x, k: (
            lambda y: np.sqrt(
                (y[:, :, 1:, :-1] - y[:, :, :-1, :-1]) ** 2 + (y[:, :, :-1, 1:] - y[:, :, :-1, :-1]) ** 2 + 1e-3
            )
        )(
            jax.lax.conv_general_dilated(
                jax.lax.conv_general_dilated(x, k.reshape(1, 1, 7, 1), (1, 1), "VALID"),
                k.reshape(1, 1, 1, 7),
                (1, 1),
                "VALID",
            )
        )
    ),
)
add(
    "bilinear enlargement by two, 4x3x64x64",
    {"x": normal(4, 3, 64, 64)},
    "x",
    lambda T: lambda x: T.nn.functional.interpolate(x, scale_factor=2, mode="bilinear") * 0.5,
    lambda jax, np: lambda x: jax.image.resize(x, (4, 3, 128, 128), "bilinear") * 0.5,
)
both(
    "total variation and fit of an image, 512x512",
    {"x": normal(512, 512), "y": normal(512, 512, scale=0.9)},
    "x",
    lambda T: (
        lambda x, y: (
            ((x - y) ** 2).mean() + 0.1 * T.abs(x[1:] - x[:-1]).mean() + 0.1 * T.abs(x[:, 1:] - x[:, :-1]).mean()
        )
    ),
)
add(
    "reflected border and 3x3 mean, 8x3x64x64",
    {"x": normal(8, 3, 64, 64)},
    "x",
    lambda T: lambda x: T.nn.functional.avg_pool2d(T.nn.functional.pad(x, (1, 1, 1, 1), mode="reflect"), 3, stride=1),
    lambda jax, np: (
        lambda x: (
            jax.lax.reduce_window(
                np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), mode="reflect"),
                0.0,
                jax.lax.add,
                (1, 1, 3, 3),
                (1, 1, 1, 1),
                "VALID",
            )
            / 9
        )
    ),
)


# ---- graphs and convolutions of other kinds


def _jax_conv(jax: Any, x: Any, w: Any, pad: int) -> Any:
    return jax.lax.conv_general_dilated(x, w, (1,) * (x.ndim - 2), ((pad, pad),) * (x.ndim - 2))


add(
    "largest messages: scatter_reduce of 8000 edges, 1000x16",
    {"s": whole(1000, 8000), "d": whole(999, 8000), "h": normal(1000, 16)},
    "h",
    lambda T: lambda s, d, h: T.full((1000, 16), -5.0).scatter_reduce(0, d[:, None].expand(8000, 16), h[s], "amax"),
    lambda jax, np: lambda s, d, h: np.full((1000, 16), -5.0).at[d].max(h[s]),
)
add(
    "conv3d and relu, 2x4x12x12x12",
    {"x": normal(2, 4, 12, 12, 12), "w": normal(8, 4, 3, 3, 3, scale=0.1)},
    "x w",
    lambda T: lambda x, w: T.nn.functional.conv3d(x, w, padding=1).relu(),
    lambda jax, np: lambda x, w: jax.nn.relu(_jax_conv(jax, x, w, 1)),
)
add(
    "filters of one element and residual, 8x64x16x16",
    {"x": normal(8, 64, 16, 16), "a": normal(32, 64, 1, 1, scale=0.1), "b": normal(64, 32, 1, 1, scale=0.1)},
    "x a b",
    lambda T: lambda x, a, b: (lambda F: x + F.conv2d(F.gelu(F.conv2d(x, a)), b))(T.nn.functional),
    lambda jax, np: lambda x, a, b: x + _jax_conv(jax, jax.nn.gelu(_jax_conv(jax, x, a, 0), approximate=False), b, 0),
)
