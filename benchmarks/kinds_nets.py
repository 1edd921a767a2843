"""Workloads of kinds.py: distances, kernels and layers of networks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from kinds_cases import Code, add, both, normal, whole

# distances, kernels
add(
    "distances and the 5 nearest, 500x16",
    {"x": normal(500, 16), "y": normal(501, 16)},
    "",
    lambda T: lambda x, y: T.topk(T.cdist(x, y), 5, largest=False)[0],
    lambda jax, np: lambda x, y: -jax.lax.top_k(-np.sqrt(((x[:, None] - y[None]) ** 2).sum(-1)), 5)[0],
)
both(
    "Gram matrix of an RBF kernel, 400x8",
    {"x": normal(400, 8), "s": np.float32(0.7).reshape(())},
    "x s",
    lambda T: lambda x, s: T.exp(-0.5 * ((x[:, None] - x[None]) ** 2).sum(-1) / (s * s)),
)


def _torch_gp(T: Any) -> Code:
    def f(x: Any, y: Any, s: Any) -> Any:
        k = T.exp(-0.5 * ((x[:, None] - x[None]) ** 2).sum(-1) / (s * s)) + 0.1 * T.eye(150)
        chol = T.linalg.cholesky(k)
        a = T.linalg.solve_triangular(chol, y[:, None], upper=False)
        return 0.5 * (a * a).sum() + T.log(T.diagonal(chol)).sum()

    return f


def _jax_gp(jax: Any, np: Any) -> Code:
    def f(x: Any, y: Any, s: Any) -> Any:
        k = np.exp(-0.5 * ((x[:, None] - x[None]) ** 2).sum(-1) / (s * s)) + 0.1 * np.eye(150)
        chol = np.linalg.cholesky(k)
        a = jax.scipy.linalg.solve_triangular(chol, y[:, None], lower=True)
        return 0.5 * (a * a).sum() + np.log(np.diagonal(chol)).sum()

    return f


add(
    "Gaussian process likelihood, 150 points",
    {"x": normal(150, 3), "y": normal(150), "s": np.float32(1.0).reshape(())},
    "s",
    _torch_gp,
    _jax_gp,
)

# nets
add(
    "embedding and its gradient, 5000x64, 2048 words",
    {"e": normal(5000, 64), "i": whole(5000, 64, 32)},
    "e",
    lambda T: lambda e, i: T.tanh(T.nn.functional.embedding(i, e)).sum(1),
    lambda jax, np: lambda e, i: np.tanh(e[i]).sum(1),
)


def _jax_conv(groups: int, pad: int) -> Callable[[Any, Any], Code]:
    def make(jax: Any, np: Any) -> Code:
        def f(x: Any, w: Any) -> Any:
            return jax.lax.conv_general_dilated(
                x, w, (1,) * (x.ndim - 2), [(pad, pad)] * (x.ndim - 2), feature_group_count=groups
            )

        return f

    return make


add(
    "conv1d, 16x16x256, 7 taps",
    {"x": normal(16, 16, 256), "w": normal(32, 16, 7, scale=0.1)},
    "x w",
    lambda T: lambda x, w: T.nn.functional.conv1d(x, w, padding=3),
    _jax_conv(1, 3),
)
add(
    "FIR filter of 32 taps on 64 signals",
    {"x": normal(64, 1, 2048), "w": normal(1, 1, 32)},
    "x w",
    lambda T: lambda x, w: T.nn.functional.conv1d(x, w),
    _jax_conv(1, 0),
)
add(
    "depthwise conv2d, 8x32x28x28",
    {"x": normal(8, 32, 28, 28), "w": normal(32, 1, 3, 3)},
    "x w",
    lambda T: lambda x, w: T.nn.functional.conv2d(x, w, padding=1, groups=32),
    _jax_conv(32, 1),
)
add(
    "conv2d with 4 groups, 8x32x16x16",
    {"x": normal(8, 32, 16, 16), "w": normal(32, 8, 3, 3, scale=0.1)},
    "x w",
    lambda T: lambda x, w: T.nn.functional.conv2d(x, w, padding=1, groups=4),
    _jax_conv(4, 1),
)
add(
    "conv3d, 2x4x12x12x12",
    {"x": normal(2, 4, 12, 12, 12), "w": normal(8, 4, 3, 3, 3, scale=0.1)},
    "x w",
    lambda T: lambda x, w: T.nn.functional.conv3d(x, w, padding=1),
    _jax_conv(1, 1),
)
add(
    "max_pool of overlapping windows, 8x16x32x32",
    {"x": normal(8, 16, 32, 32)},
    "x",
    lambda T: lambda x: T.nn.functional.max_pool2d(x, 3, 2, 1),
    lambda jax, np: (
        lambda x: jax.lax.reduce_window(
            x, -np.inf, jax.lax.max, (1, 1, 3, 3), (1, 1, 2, 2), [(0, 0), (0, 0), (1, 1), (1, 1)]
        )
    ),
)
add(
    "batch norm in training, 32x32x16x16",
    {"x": normal(32, 32, 16, 16), "w": normal(32), "b": normal(32)},
    "x w b",
    lambda T: lambda x, w, b: T.relu(T.nn.functional.batch_norm(x, None, None, w, b, True)),
    lambda jax, np: (
        lambda x, w, b: jax.nn.relu(
            (x - x.mean((0, 2, 3), keepdims=True)) / np.sqrt(x.var((0, 2, 3), keepdims=True) + 1e-5) * w[:, None, None]
            + b[:, None, None]
        )
    ),
)
add(
    "layer norm, 1024x256, forward",
    {"x": normal(1024, 256), "w": normal(256), "b": normal(256, scale=0.5)},
    "",
    lambda T: lambda x, w, b: T.nn.functional.layer_norm(x, (256,), w, b),
    lambda jax, np: lambda x, w, b: (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * w + b,
)
add(
    "layer norm, 1024x256",
    {"x": normal(1024, 256), "w": normal(256), "b": normal(256, scale=0.5)},
    "x w b",
    lambda T: lambda x, w, b: T.nn.functional.layer_norm(x, (256,), w, b),
    lambda jax, np: lambda x, w, b: (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * w + b,
)
both(
    "RMS norm, 1024x256",
    {"x": normal(1024, 256), "w": normal(256)},
    "x w",
    lambda T: lambda x, w: x / T.sqrt((x * x).mean(-1)[:, None] + 1e-6) * w,
)
add(
    "softmax down columns, 512x512",
    {"x": normal(512, 512)},
    "x",
    lambda T: lambda x: T.softmax(x, 0),
    lambda jax, np: lambda x: jax.nn.softmax(x, 0),
)
add(
    "SwiGLU, 256x128x256",
    {"x": normal(256, 128), "w": normal(128, 512, scale=0.1), "u": normal(256, 128, scale=0.1)},
    "x w u",
    lambda T: lambda x, w, u: (T.nn.functional.silu((x @ w)[:, :256]) * (x @ w)[:, 256:]) @ u,
    lambda jax, np: lambda x, w, u: (jax.nn.silu((x @ w)[:, :256]) * (x @ w)[:, 256:]) @ u,
)
add(
    "cross entropy, 128x16000",
    {"x": normal(128, 16000), "y": whole(16000, 128)},
    "x",
    lambda T: lambda x, y: T.nn.functional.cross_entropy(x, y),
    lambda jax, np: lambda x, y: -np.take_along_axis(jax.nn.log_softmax(x, -1), y[:, None], -1).mean(),
)
add(
    "policy gradient: gather of log_softmax, 512x16",
    {"x": normal(512, 16), "a": whole(16, 512), "r": normal(512)},
    "x",
    lambda T: lambda x, a, r: -(T.log_softmax(x, 1).gather(1, a[:, None])[:, 0] * r).mean(),
    lambda jax, np: lambda x, a, r: -(np.take_along_axis(jax.nn.log_softmax(x, 1), a[:, None], 1)[:, 0] * r).mean(),
)
_MLP = {"x": normal(64, 16), "y": normal(64, 1), "w": normal(16, 32, scale=0.3), "b": normal(32), "u": normal(32, 1)}


def _loss(T: Any) -> Code:
    return lambda w, b, u, x, y: ((T.tanh(x @ w + b) @ u - y) ** 2).mean()


def _per_sample(T: Any, grad: Any, vmap: Any) -> Code:
    each = vmap(grad(_loss(T), (0, 1, 2)), (None, None, None, 0, 0))
    return lambda x, y, w, b, u: each(w, b, u, x[:, None], y[:, None])


add(
    "gradients of each sample by vmap, 64",
    _MLP,
    "",
    lambda T: _per_sample(T, T.func.grad, T.func.vmap),
    lambda jax, np: _per_sample(np, jax.grad, jax.vmap),
)


def _hvp(T: Any, jvp: Any, grad: Any) -> Code:
    def f(x: Any, y: Any, w: Any, b: Any, u: Any) -> Any:
        return jvp(lambda w: grad(lambda w: _loss(T)(w, b, u, x, y))(w), (w,), (w * 0 + 1,))[1]

    return f


def _double(T: Any) -> Code:
    def f(x: Any, y: Any, w: Any, b: Any, u: Any) -> Any:
        w = w.detach().requires_grad_()
        (g,) = T.autograd.grad(_loss(T)(w, b, u, x, y), w, create_graph=True)
        return T.autograd.grad(g.sum(), w)[0]

    return f


add("Hessian-vector product of an MLP", _MLP, "", _double, lambda jax, np: _hvp(np, jax.jvp, jax.grad))
add(
    "MLP loss and gradients, 64-128-64-10",
    {
        "x": normal(64, 64),
        "y": whole(10, 64),
        "w1": normal(64, 128, scale=0.1),
        "b1": normal(128),
        "w2": normal(128, 64, scale=0.1),
        "b2": normal(64),
        "w3": normal(64, 10, scale=0.1),
    },
    "w1 b1 w2 b2 w3",
    lambda T: (
        lambda x, y, w1, b1, w2, b2, w3: T.nn.functional.cross_entropy(T.relu(T.relu(x @ w1 + b1) @ w2 + b2) @ w3, y)
    ),
    lambda jax, np: (
        lambda x, y, w1, b1, w2, b2, w3: (
            -np.take_along_axis(
                jax.nn.log_softmax(jax.nn.relu(jax.nn.relu(x @ w1 + b1) @ w2 + b2) @ w3, -1), y[:, None], 1
            ).mean()
        )
    ),
)
both(
    "stacks of small matrices, 256x16x16",
    {"a": normal(256, 16, 16), "b": normal(256, 16, 16, scale=0.5)},
    "a b",
    lambda T: lambda a, b: T.tanh(a @ b) @ a,
)
both(
    "einsum of three axes, 32x16x24",
    {"a": normal(32, 16, 24), "b": normal(24, 20)},
    "a b",
    lambda T: lambda a, b: T.einsum("bij,jk->bik", a, b),
)
both(
    "sort by rows, 256x256",
    {"x": normal(256, 256)},
    "",
    lambda T: lambda x: T.sort(x * 2.0)[0] if T.__name__ not in ("jax.numpy",) else T.sort(x * 2.0),
)
both(
    "transposed sum, 1000x1000",
    {"x": normal(1000, 1000), "y": normal(1000, 1000)},
    "x y",
    lambda T: lambda x, y: x.T * y,
)
