"""Workloads of kinds.py: training steps with an optimizer, blocks of networks, losses, attention, graphs, routing."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from kinds_cases import Code, add, both, normal, whole

# ---- a step and its optimizer, as one function (``jax.value_and_grad`` and ``autograd.grad``)


def _adam(T: Any, p: Any, g: Any, m: Any, v: Any) -> tuple[Any, Any, Any]:
    m = 0.9 * m + 0.1 * g
    v = 0.999 * v + 0.001 * g * g
    return p - 1e-2 * m / (T.sqrt(v) + 1e-8), m, v


def training(name: str, data: dict[str, Any], leaves: str, torch_loss: Any, jax_loss: Any) -> None:
    """One step of Adam: new parameters and both moments, from ``data`` and zero moments of ``leaves``."""
    names = leaves.split()
    data = dict(data, **{f"{k}{n}": np.abs(data[n]) * np.float32(0.01) for n in names for k in "mv"})
    first = [n for n in data if n[1:] not in names or n in names]

    def torch(T: Any) -> Code:
        loss = torch_loss(T)

        def step(*args: Any) -> Any:
            now = dict(zip(data, args, strict=True))
            for n in names:
                now[n] = now[n].detach().requires_grad_()
            grads = T.autograd.grad(loss(*[now[n] for n in first]), [now[n] for n in names])
            with T.no_grad():
                return tuple(
                    t
                    for n, g in zip(names, grads, strict=True)
                    for t in _adam(T, now[n].detach(), g, now[f"m{n}"], now[f"v{n}"])
                )

        return step

    def with_jax(jax: Any, jnp: Any) -> Code:
        loss = jax_loss(jax, jnp)
        at = tuple(first.index(n) for n in names)

        def step(*args: Any) -> Any:
            now = dict(zip(data, args, strict=True))
            grads = jax.grad(loss, at)(*[now[n] for n in first])
            return tuple(
                t for n, g in zip(names, grads, strict=True) for t in _adam(jnp, now[n], g, now[f"m{n}"], now[f"v{n}"])
            )

        return step

    add(name, data, "", torch, with_jax)


def _picked(jax: Any, np: Any) -> Code:
    def loss(z: Any, y: Any) -> Any:
        return -np.take_along_axis(jax.nn.log_softmax(z), y[:, None], 1).mean()

    return loss


training(
    "softmax regression with Adam, 256x784",
    {"x": normal(256, 784), "y": whole(10, 256), "w": normal(784, 10, scale=0.05), "b": normal(10)},
    "w b",
    lambda T: lambda x, y, w, b: T.nn.functional.cross_entropy(x @ w + b, y),
    lambda jax, np: lambda x, y, w, b: _picked(jax, np)(x @ w + b, y),
)
training(
    "two layers with Adam, 64x32-64-1",
    {"x": normal(64, 32), "y": normal(64, 1), "w": normal(32, 64, scale=0.2), "b": normal(64), "u": normal(64, 1)},
    "w b u",
    lambda T: lambda x, y, w, b, u: ((T.tanh(x @ w + b) @ u - y) ** 2).mean(),
    lambda jax, np: lambda x, y, w, b, u: ((np.tanh(x @ w + b) @ u - y) ** 2).mean(),
)


def _lstm(T: Any, sig: Any) -> Code:
    def loss(x: Any, y: Any, w: Any, u: Any, b: Any) -> Any:
        h = c = x[0] @ w[:, :32] * 0.0
        for t in range(10):
            z = x[t] @ w + h @ u + b
            c = sig(z[:, :32]) * c + sig(z[:, 32:64]) * T.tanh(z[:, 64:96])
            h = sig(z[:, 96:]) * T.tanh(c)
        return ((h - y) ** 2).mean()

    return loss


training(
    "LSTM of 10 steps with Adam, 16x24-32",
    {
        "x": normal(10, 16, 24),
        "y": normal(16, 32),
        "w": normal(24, 128, scale=0.2),
        "u": normal(32, 128, scale=0.2),
        "b": normal(128, scale=0.1),
    },
    "w u b",
    lambda T: _lstm(T, T.sigmoid),
    lambda jax, np: _lstm(np, jax.nn.sigmoid),
)

# ---- blocks


def _jax_conv(jax: Any, x: Any, w: Any, pad: int = 1) -> Any:
    return jax.lax.conv_general_dilated(x, w, (1, 1), [(pad, pad)] * 2)


def _residual(conv: Any, relu: Any, T: Any) -> Code:
    def norm(x: Any, g: Any) -> Any:
        m = x.mean((0, 2, 3), keepdims=True)
        v = ((x - m) ** 2).mean((0, 2, 3), keepdims=True)
        return (x - m) / T.sqrt(v + 1e-5) * g[:, None, None]

    def f(x: Any, w: Any, u: Any, g: Any, h: Any) -> Any:
        return relu(x + norm(conv(relu(norm(conv(x, w), g)), u), h))

    return f


add(
    "residual block, 8x16x16x16",
    {
        "x": normal(8, 16, 16, 16),
        "w": normal(16, 16, 3, 3, scale=0.1),
        "u": normal(16, 16, 3, 3, scale=0.11),
        "g": np.abs(normal(16)) + 1,
        "h": np.abs(normal(16)) + 2,
    },
    "x w u g h",
    lambda T: _residual(lambda x, w: T.nn.functional.conv2d(x, w, padding=1), T.relu, T),
    lambda jax, np: _residual(lambda x, w: _jax_conv(jax, x, w), jax.nn.relu, np),
)


def _block(T: Any, softmax: Any, gelu: Any, norm: Any) -> Code:
    def f(x: Any, a: Any, o: Any, w: Any, u: Any) -> Any:
        b, n, d = x.shape
        q = (norm(x) @ a).reshape(b, n, 3, 4, d // 4)
        k, v = q[:, :, 1].swapaxes(1, 2), q[:, :, 2].swapaxes(1, 2)
        s = softmax(q[:, :, 0].swapaxes(1, 2) @ k.swapaxes(2, 3) / math.sqrt(d // 4), -1)
        x = x + (s @ v).swapaxes(1, 2).reshape(b, n, d) @ o
        return x + gelu(norm(x) @ w) @ u

    return f


def _jax_norm(np: Any) -> Code:
    def norm(x: Any) -> Any:
        d = x - x.mean(-1, keepdims=True)
        return d / np.sqrt((d * d).mean(-1, keepdims=True) + 1e-5)

    return norm


add(
    "transformer block, 4x64x128",
    {
        "x": normal(4, 64, 128),
        "a": normal(128, 384, scale=0.1),
        "o": normal(128, 128, scale=0.1),
        "w": normal(128, 512, scale=0.1),
        "u": normal(512, 128, scale=0.1),
    },
    "x a o w u",
    lambda T: _block(T, T.softmax, T.nn.functional.gelu, lambda x: T.nn.functional.layer_norm(x, (128,))),
    lambda jax, np: _block(np, jax.nn.softmax, lambda x: jax.nn.gelu(x, approximate=False), _jax_norm(np)),
)
add(
    "words, places and layer norm, 32 texts of 64, 128 numbers",
    {"i": whole(1000, 32, 64), "w": normal(1000, 128), "p": normal(64, 128)},
    "w p",
    lambda T: lambda i, w, p: T.nn.functional.layer_norm(w[i] + p, (128,)),
    lambda jax, np: lambda i, w, p: _jax_norm(np)(w[i] + p),
)


def _group(x: Any, np: Any) -> Any:
    y = x.reshape(x.shape[0], 8, -1)
    d = y - y.mean(-1, keepdims=True)
    return (d / np.sqrt((d * d).mean(-1, keepdims=True) + 1e-5)).reshape(x.shape)


add(
    "group norm and silu, 8x64x16x16",
    {"x": normal(8, 64, 16, 16)},
    "x",
    lambda T: lambda x: T.nn.functional.silu(T.nn.functional.group_norm(x, 8)),
    lambda jax, np: lambda x: jax.nn.silu(_group(x, np)),
)


def _padded(T: Any, softmax: Any) -> Code:
    def f(q: Any, k: Any, v: Any, n: Any) -> Any:
        s = q @ k.swapaxes(-1, -2) / 5.0
        s = T.where(T.arange(40)[None, None, None] < n[:, None, None, None], s, -1e9)
        return softmax(s, -1) @ v

    return f


add(
    "attention over padded keys, 8x4x32x40, 16 numbers",
    {"q": normal(8, 4, 32, 16), "k": normal(8, 4, 40, 16), "v": normal(8, 4, 40, 16) * 2, "n": 1 + whole(40, 8)},
    "q k v",
    lambda T: _padded(T, T.softmax),
    lambda jax, np: _padded(np, jax.nn.softmax),
)


def _rotated(T: Any) -> Code:
    def f(x: Any, c: Any, s: Any) -> Any:
        a, b = x[..., :32], x[..., 32:]
        return T.concatenate([a * c - b * s, a * s + b * c], -1)

    return f


both(
    "rotated places, 8x4x128x64",
    {"x": normal(8, 4, 128, 64), "c": normal(128, 32), "s": normal(128, 32) * 0.5},
    "x",
    _rotated,
)
add(
    "transposed convolution, 4x8x16x16",
    {"x": normal(4, 8, 16, 16), "w": normal(8, 8, 4, 4, scale=0.1)},
    "x w",
    lambda T: lambda x, w: T.nn.functional.conv_transpose2d(x, w, stride=2, padding=1),
    lambda jax, np: (
        lambda x, w: jax.lax.conv_transpose(
            x, w, (2, 2), [(2, 2)] * 2, dimension_numbers=("NCHW", "OIHW", "NCHW"), transpose_kernel=True
        )
    ),
)

# ---- losses


def _triplet(T: Any, relu: Any) -> Code:
    def f(x: Any, y: Any) -> Any:
        d = ((x[:, None] - x[None]) ** 2).sum(-1)
        same = y[:, None] == y[None]
        far = T.where(same, d, -1.0).max(1)
        near = T.where(same, 1e9, d).min(1)
        return relu(far - near + 1.0).mean()

    return f


add("triplet loss of the hardest, 128x32", {"x": normal(128, 32), "y": whole(8, 128)}, "x",
    lambda T: _triplet(_Minima(T), T.relu), lambda jax, np: _triplet(np, jax.nn.relu))  # fmt: skip
add(
    "focal loss, 1e5",
    {"x": normal(100000), "y": whole(2, 100000).astype(np.float32)},
    "x",
    lambda T: (
        lambda x, y: (lambda b: ((1 - T.exp(-b)) ** 2 * b).mean())(
            T.nn.functional.binary_cross_entropy_with_logits(x, y, reduction="none")
        )
    ),
    lambda jax, np: lambda x, y: (lambda b: ((1 - np.exp(-b)) ** 2 * b).mean())(jax.nn.softplus(x) - x * y),
)
add(
    "pairwise ranking loss of 600",
    {"x": normal(600), "y": normal(601)[:600].copy()},
    "x",
    lambda T: lambda x, y: (T.nn.functional.softplus(x[None] - x[:, None]) * (y[:, None] > y[None]).float()).mean(),
    lambda jax, np: lambda x, y: (jax.nn.softplus(x[None] - x[:, None]) * (y[:, None] > y[None])).mean(),
)
both(
    "divergence of normals, 4096x32",
    {"m": normal(4096, 32), "l": normal(4096, 32, scale=0.3)},
    "m l",
    lambda T: lambda m, l: 0.5 * (T.exp(l) + m * m - 1.0 - l).sum(-1).mean(),
)

# ---- graphs, routing, neighbours, decoding


def _edges(put: Any, T: Any) -> Code:
    def f(h: Any, a: Any, i: Any, j: Any) -> Any:
        e = T.exp(T.tanh((h[i] * a).sum(-1) + (h[j] * a).sum(-1)))
        total = put((1000,), i, e)
        return put((1000, 16), i, (e / total[i])[:, None] * h[j])

    return f


add(
    "attention on a graph, 1000x16, 8000 edges",
    {"h": normal(1000, 16), "a": normal(16), "i": whole(1000, 8000), "j": whole(999, 8000)},
    "h a",
    lambda T: _edges(lambda s, i, x: T.zeros(s).index_add(0, i, x), T),
    lambda jax, np: _edges(lambda s, i, x: np.zeros(s).at[i].add(x), np),
)
both(
    "page rank: 10 products of 500x500 by a vector",
    {"a": np.abs(normal(500, 500)) * np.float32(0.002), "x": np.full(500, 1 / 500, np.float32)},
    "",
    lambda T: lambda a, x: _ranks(a, x),
)


def _ranks(a: Any, x: Any) -> Any:
    for _ in range(10):
        x = 0.15 / 500 + 0.85 * (a @ x)
        x = x / x.sum()
    return x


add(
    "nearest of 500 for 1000 points, 8 numbers",
    {"x": normal(1000, 8), "c": normal(500, 8), "y": whole(10, 500)},
    "",
    lambda T: lambda x, c, y: y[((x * x).sum(1)[:, None] - 2 * x @ c.T + (c * c).sum(1)).argmin(1)],
    lambda jax, np: lambda x, c, y: y[((x * x).sum(1)[:, None] - 2 * x @ c.T + (c * c).sum(1)).argmin(1)],
)
add(
    "one expert of 8 for each of 512 words",
    {"x": normal(512, 32), "g": normal(32, 8), "w": normal(8, 32, 32, scale=0.2)},
    "x w",
    lambda T: lambda x, g, w: (lambda z: (w[z.argmax(1)] @ x[:, :, None])[:, :, 0])(x @ g),
    lambda jax, np: lambda x, g, w: (lambda z: (w[z.argmax(1)] @ x[:, :, None])[:, :, 0])(x @ g),
)
add(
    "5 nearest of 400 points and their mean",
    {"x": normal(400, 4)},
    "x",
    lambda T: lambda x: T.topk(-((x[:, None] - x) ** 2).sum(-1), 5)[0].mean(1),
    lambda jax, np: lambda x: jax.lax.top_k(-((x[:, None] - x) ** 2).sum(-1), 5)[0].mean(1),
)


def _viterbi(best: Any, arg: Any) -> Code:
    def f(e: Any, a: Any) -> Any:
        s, back = e[:, 0], 0
        for t in range(1, 20):
            z = s[:, :, None] + a
            s = best(z) + e[:, t]
            back = back + arg(z) * t
        return back

    return f


add("Viterbi: 20 steps of 32 sequences, 8 states", {"e": normal(32, 20, 8), "a": normal(8, 8)}, "",
    lambda T: _viterbi(lambda z: z.amax(1), lambda z: z.argmax(1)),
    lambda jax, np: _viterbi(lambda z: z.max(1), lambda z: z.argmax(1)))  # fmt: skip


class _Minima:
    """torch's module with ``where`` whose results know ``max(axis)`` as jax's do."""

    def __init__(self, T: Any) -> None:
        self.T = T

    def where(self, c: Any, a: Any, b: Any) -> Any:
        return _Extrema(self.T.where(c, a, b))


class _Extrema:
    def __init__(self, x: Any) -> None:
        self.x = x

    def max(self, axis: int) -> Any:
        return self.x.amax(axis)

    def min(self, axis: int) -> Any:
        return self.x.amin(axis)
