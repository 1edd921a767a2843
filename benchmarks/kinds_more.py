"""More workloads of kinds.py: masked attention, reductions over several axes, small stacks, indices, loops, float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from kinds_cases import Code, add, both, normal, whole

# normalisation, reductions over axes that are not the last


def _attention(T: Any, softmax: Any) -> Code:
    def f(q: Any, k: Any, v: Any, mask: Any) -> Any:
        s = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
        return softmax(T.where(mask, s, -1e9)) @ v

    return f


_QKV = {k: normal(8, 64, 32 + i)[..., :32].copy() for i, k in enumerate("qkv")}
add(
    "attention with a mask, 8x64x32",
    {**_QKV, "mask": np.random.default_rng(1).random((8, 64, 64)) < 0.8},
    "q k v",
    lambda T: _attention(T, lambda s: T.softmax(s, -1)),
    lambda jax, np: _attention(np, jax.nn.softmax),
)
add(
    "batch norm in training and relu, 64x256",
    {"x": normal(64, 256), "w": normal(256), "c": normal(256)},
    "x w c",
    lambda T: lambda x, w, c: T.nn.functional.batch_norm(x, None, None, w, c, True).relu(),
    lambda jax, np: lambda x, w, c: jax.nn.relu((x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5) * w + c),
)
add(
    "group norm, 16x32x16x16",
    {"x": normal(16, 32, 16, 16), "w": normal(32), "c": normal(32)},
    "x w c",
    lambda T: lambda x, w, c: T.nn.functional.group_norm(x, 8, w, c),
    lambda jax, np: lambda x, w, c: _grouped(np, x) * w[:, None, None] + c[:, None, None],
)


def _grouped(np: Any, x: Any) -> Any:
    y = x.reshape(16, 8, -1)
    return ((y - y.mean(2, keepdims=True)) / np.sqrt(y.var(2, keepdims=True) + 1e-5)).reshape(x.shape)


add(
    "logsumexp over two axes, 64x32x48",
    {"x": normal(64, 32, 48)},
    "x",
    lambda T: lambda x: T.logsumexp(x, (0, 2)),
    lambda jax, np: lambda x: jax.scipy.special.logsumexp(x, (0, 2)),
)
add(
    "log_softmax over the middle, 16x64x64",
    {"x": normal(16, 64, 64)},
    "x",
    lambda T: lambda x: T.log_softmax(x, 1),
    lambda jax, np: lambda x: jax.nn.log_softmax(x, 1),
)
add(
    "maximum by rows and columns, 512x512",
    {"x": normal(512, 512)},
    "x",
    lambda T: lambda x: T.amax(x, 0) + T.amax(x, 1),
    lambda jax, np: lambda x: x.max(0) + x.max(1),
)
both("sum of a transposed product, 512x256", {"x": normal(512, 256), "y": normal(256, 512)}, "x y",
     lambda T: lambda x, y: (x.T * y).sum(0) + x.sum(1))  # fmt: skip
both("mean and spread over the first axis, 4096x64", {"x": normal(4096, 64)}, "x",
     lambda T: lambda x: ((x - x.mean(0)) ** 2).mean(0) + x.mean(0))  # fmt: skip
both("outer products: 1000 + 1000", {"x": normal(1000), "y": normal(1000)}, "x y",
     lambda T: lambda x, y: T.tanh(x[:, None] * y[None, :]).sum(1))  # fmt: skip

# small matrices and contractions
both("stacks of tiny matrices, 4096x4x4", {"x": normal(4096, 4, 4), "y": normal(4096, 4, 4) * 0.5}, "x y",
     lambda T: lambda x, y: T.tanh(x @ y) @ x)  # fmt: skip
both("rotations of points, 2000x3x3", {"r": normal(2000, 3, 3), "p": normal(2000, 3)}, "r p",
     lambda T: lambda r, p: (r @ p[:, :, None])[:, :, 0])  # fmt: skip
both("contraction bij,bjk->bik, 32x16x24", {"x": normal(32, 16, 24), "y": normal(32, 24, 16)}, "x y",
     lambda T: lambda x, y: T.einsum("bij,bjk->bik", x, y))  # fmt: skip
both("bilinear form bi,ijk,bk->bj, 64x16",
     {"x": normal(64, 16), "w": normal(16, 16, 16), "y": normal(16, 64).T.copy()},
     "x w y", lambda T: lambda x, w, y: T.einsum("bi,ijk,bk->bj", x, w, y))  # fmt: skip
both("matrix and vector, 512x512", {"w": normal(512, 512), "x": normal(512)}, "w x",
     lambda T: lambda w, x: T.tanh(w @ x))  # fmt: skip
both("outer product of columns, 64x8 -> 8x8", {"x": normal(64, 8)}, "x",
     lambda T: lambda x: x.T @ x)  # fmt: skip
add(
    "linear solve of 32 systems of 8",
    {"a": normal(32, 8, 8) + 8 * np.eye(8, dtype=np.float32), "y": normal(32, 8, 1)},
    "a y",
    lambda T: lambda a, y: T.linalg.solve(a, y),
    lambda jax, np: lambda a, y: np.linalg.solve(a, y),
)
add(
    "Cholesky and triangular solve, 64x64",
    {"a": normal(64, 64), "y": normal(64, 4)},
    "a y",
    lambda T: lambda a, y: T.linalg.solve_triangular(
        T.linalg.cholesky(a @ a.T / 64 + T.eye(64)), y, upper=False),
    lambda jax, np: lambda a, y: jax.scipy.linalg.solve_triangular(
        np.linalg.cholesky(a @ a.T / 64 + np.eye(64)), y, lower=True),
)  # fmt: skip

# indices
add(
    "embedding bag: means of 20 words, 256 bags",
    {"w": normal(5000, 32), "i": whole(5000, 256, 20)},
    "w",
    lambda T: lambda w, i: w[i].mean(1),
    lambda jax, np: lambda w, i: w[i].mean(1),
)
add(
    "gather along rows, 512x256",
    {"x": normal(512, 256), "i": whole(256, 512, 256)},
    "x",
    lambda T: lambda x, i: T.gather(x, 1, i) * 2,
    lambda jax, np: lambda x, i: np.take_along_axis(x, i, 1) * 2,
)
add(
    "messages on a graph: index_add of 20000 edges, 2000x16",
    {"x": normal(2000, 16), "a": whole(2000, 20000), "b": whole(2000, 20001)[:20000]},
    "x",
    lambda T: lambda x, a, b: T.zeros(2000, 16).index_add(0, a, T.tanh(x[b])),
    lambda jax, np: lambda x, a, b: np.zeros((2000, 16)).at[a].add(np.tanh(x[b])),
)
add(
    "scatter_add of 1e5 numbers, 1000",
    {"x": normal(100000), "i": whole(1000, 100000)},
    "x",
    lambda T: lambda x, i: T.zeros(1000).scatter_add(0, i, x * x),
    lambda jax, np: lambda x, i: np.zeros(1000).at[i].add(x * x),
)
add(
    "top 8 of 512 rows of 1000",
    {"x": normal(512, 1000)},
    "x",
    lambda T: lambda x: T.topk(x, 8)[0],
    lambda jax, np: lambda x: jax.lax.top_k(x, 8)[0],
)
add(
    "argsort by rows, 256x256",
    {"x": normal(256, 256)},
    "",
    lambda T: lambda x: T.argsort(x, stable=True, dim=1),
    lambda jax, np: lambda x: np.argsort(x, 1),
)
add(
    "sort of one long row, 1e5",
    {"x": normal(100000)},
    "x",
    lambda T: lambda x: T.sort(x)[0],
    lambda jax, np: lambda x: np.sort(x),
)

# steps in loops


def _rk4(T: Any) -> Code:
    def field(y: Any) -> Any:
        a, b, c = y[0], y[1], y[2]
        return T.stack([10.0 * (b - a), a * (28.0 - c) - b, a * b - 8.0 / 3.0 * c])

    def f(y: Any) -> Any:
        for _ in range(10):
            k = field(y)
            m = field(y + 0.005 * k)
            n = field(y + 0.005 * m)
            o = field(y + 0.01 * n)
            y = y + 0.01 / 6 * (k + 2 * m + 2 * n + o)
        return y

    return f


both("Lorenz system, 10 steps of RK4, 1000 starts", {"y": normal(3, 1000)}, "y", _rk4)
both("Lorenz system, 10 steps of RK4, one start", {"y": normal(3)}, "y", _rk4)


def _gravity(T: Any) -> Code:
    def f(p: Any, m: Any) -> Any:
        d = p[None, :, :] - p[:, None, :]
        r = (d * d).sum(2) + 0.01
        return (d * (m[None, :] / (r * T.sqrt(r)))[:, :, None]).sum(1)

    return f


both("pairwise forces of 256 bodies", {"p": normal(256, 3), "m": np.abs(normal(256))}, "p m", _gravity)


def _five_point(T: Any) -> Code:
    def f(u: Any) -> Any:
        for _ in range(4):
            i = u[1:-1, 1:-1]
            u = i + 0.1 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * i)
        return u

    return f


both("five-point stencil on a shrinking square, 300x300", {"u": normal(300, 300)}, "u", _five_point)


def _fir(T: Any) -> Code:
    def f(x: Any, h: Any) -> Any:
        y = x[:, :1009] * h[0]
        for k in range(1, 16):
            y = y + x[:, k : k + 1009] * h[k]
        return y

    return f


both("filter of 16 taps by slices, 64x1024", {"x": normal(64, 1024), "h": normal(16)}, "x h", _fir)
both("differences in both directions, 512x512", {"u": normal(512, 512)}, "u",
     lambda T: lambda u: ((u[1:] - u[:-1]) ** 2).sum() + ((u[:, 1:] - u[:, :-1]) ** 2).sum())  # fmt: skip


def _two_loop(T: Any) -> Code:
    def f(g: Any, s: Any, y: Any) -> Any:
        alphas = []
        q = g
        for k in range(8):
            a = (s[k] * q).sum() / (s[k] * y[k]).sum()
            q = q - a * y[k]
            alphas.append(a)
        for k in reversed(range(8)):
            b = (y[k] * q).sum() / (s[k] * y[k]).sum()
            q = q + (alphas[k] - b) * s[k]
        return q

    return f


both("L-BFGS direction, 8 pairs of 10000",
     {"g": normal(10000), "s": normal(8, 10000), "y": normal(8, 10001)[:, 1:].copy() + 1},
     "", _two_loop)  # fmt: skip


def _rosenbrock(x: Any) -> Any:
    return (100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


add(
    "Hessian-vector product of Rosenbrock's function, 10000",
    {"x": normal(10000), "v": normal(10001)[1:].copy()},
    "",
    lambda T: lambda x, v: T.func.jvp(T.func.grad(_rosenbrock), (x,), (v,))[1],
    lambda jax, np: lambda x, v: jax.jvp(jax.grad(_rosenbrock), (x,), (v,))[1],
)
add(
    "Jacobians of 500 points by vmap, 4 -> 6",
    {"x": normal(500, 4), "w": normal(4, 6)},
    "",
    lambda T: lambda x, w: T.func.vmap(T.func.jacrev(lambda p: T.tanh(p @ w)))(x),
    lambda jax, np: lambda x, w: jax.vmap(jax.jacrev(lambda p: np.tanh(p @ w)))(x),
)
add(
    "Monte Carlo: pi from 1e6 points",
    {"x": normal(1)},
    "",
    lambda T: lambda x: (T.rand(2, 1000000).square().sum(0) < 1).float().mean() + x,
    lambda jax, np: lambda x: ((jax.random.uniform(jax.random.key(0), (2, 1000000)) ** 2).sum(0) < 1).mean() + x,
    False,
)

# elementwise mathematics
add(
    "gelu, 1e6",
    {"x": normal(1000, 1000)},
    "x",
    lambda T: lambda x: T.nn.functional.gelu(x),
    lambda jax, np: lambda x: jax.nn.gelu(x, approximate=False),
)
add(
    "erf, 1e6",
    {"x": normal(1000, 1000)},
    "x",
    lambda T: lambda x: T.erf(x),
    lambda jax, np: lambda x: jax.scipy.special.erf(x),
)
both("sin, cos and log1p, 1e6", {"x": normal(1000, 1000)}, "x",
     lambda T: lambda x: T.sin(x) * T.cos(2 * x) + T.log1p(x * x))  # fmt: skip

# float64


def wide(name: str, data: dict[str, Any], wrt: str, code: Any) -> None:
    """A workload in float64."""
    both(f"float64: {name}", {k: v.astype(np.float64) for k, v in data.items()}, wrt, code)


wide("exp, tanh and a sum by rows, 512x512", {"x": normal(512, 512)}, "x",
     lambda T: lambda x: (T.exp(-x * x) * T.tanh(x)).sum(1))  # fmt: skip
wide("pairwise forces of 128 bodies", {"p": normal(128, 3), "m": np.abs(normal(128))}, "p m", _gravity)
wide("five-point stencil, 300x300", {"u": normal(300, 300)}, "u", _five_point)
wide("two layers, 64-128-64", {"x": normal(64, 64), "w": normal(64, 128), "u": normal(128, 64)}, "x w u",
     lambda T: lambda x, w, u: T.tanh(x @ w) @ u)  # fmt: skip
wide("sin, cos and log1p, 1e6", {"x": normal(1000, 1000)}, "x",
     lambda T: lambda x: T.sin(x) * T.cos(2 * x) + T.log1p(x * x))  # fmt: skip
