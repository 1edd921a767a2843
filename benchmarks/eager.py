"""Eager operators on small tensors against PyTorch and numpy: ``python benchmarks/eager.py``.

For each operator on 8 elements, with a graph recorded: microseconds of fusegrad, of PyTorch, and of numpy for
the same values; then the backward of a chain of 1,000 small operators, and the bytes of tensors that live between two
training steps. Repeats of the three are interleaved and the smallest counts. Without PyTorch its columns stay empty.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import fusegrad

torch: Any = None
if importlib.util.find_spec("torch") is not None:
    import torch  # type: ignore[no-redef]

    torch.set_num_threads(1)

X = np.linspace(0.1, 0.9, 8, dtype=np.float32)
SQUARE = np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8)
PAIR = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
CLASSES = np.array([1, 3])
ROWS = np.array([0, 1, 1, 0])
G, ROW1, ROW2 = np.array([[0, 1], [2, 3]]), np.arange(2), np.array([[0, 0], [1, 1]])
CUBE = SQUARE[:2].reshape(2, 2, 4)[:, :, :2].repeat(2, 1).repeat(2, 2)  # 2 x 4 x 4
Y, S = X.copy(), np.array(0.5, np.float32)
RNG = np.random.default_rng(0)


def _no_grad(T: Any) -> None:
    with T.no_grad():
        pass


def _softmax(a: np.ndarray) -> np.ndarray:
    e = np.exp(a - a.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _layer_norm(a: np.ndarray) -> np.ndarray:
    c = a - a.mean(-1, keepdims=True)
    return c / np.sqrt((c * c).mean(-1, keepdims=True) + 1e-5)


def _cross_entropy(a: np.ndarray) -> Any:
    c = a - a.max(-1, keepdims=True)
    return -(c[np.arange(2), CLASSES] - np.log(np.exp(c).sum(-1))).mean()


# name -> (the call in both libraries, numpy's call); x, y: 8 elements; m: 8 x 8; p: 2 x 4
Case = tuple[Callable[[Any, Any], Any], Callable[[], Any]]
CASES: dict[str, Case] = {
    "add": (lambda T, v: v.x + v.y, lambda: X + X),
    "sub": (lambda T, v: v.x - v.y, lambda: X - X),
    "mul": (lambda T, v: v.x * v.y, lambda: X * X),
    "div": (lambda T, v: v.x / v.y, lambda: X / X),
    "add number": (lambda T, v: v.x + 1.5, lambda: X + 1.5),
    "mul number": (lambda T, v: v.x * 2, lambda: X * 2),
    "neg": (lambda T, v: -v.x, lambda: -X),
    "exp": (lambda T, v: v.x.exp(), lambda: np.exp(X)),
    "log": (lambda T, v: v.x.log(), lambda: np.log(X)),
    "tanh": (lambda T, v: v.x.tanh(), lambda: np.tanh(X)),
    "sigmoid": (lambda T, v: v.x.sigmoid(), lambda: 1 / (1 + np.exp(-X))),
    "relu": (lambda T, v: v.x.relu(), lambda: np.maximum(X, 0)),
    "sqrt": (lambda T, v: v.x.sqrt(), lambda: np.sqrt(X)),
    "abs": (lambda T, v: v.x.abs(), lambda: np.abs(X)),
    "pow 2": (lambda T, v: v.x**2, lambda: X**2),
    "sin": (lambda T, v: v.x.sin(), lambda: np.sin(X)),
    "clamp": (lambda T, v: v.x.clamp(0.2, 0.8), lambda: np.clip(X, 0.2, 0.8)),
    "maximum": (lambda T, v: T.maximum(v.x, v.y), lambda: np.maximum(X, X)),
    "where": (lambda T, v: T.where(v.c, v.x, v.y), lambda: np.where(X > 0.5, X, X)),
    "sum": (lambda T, v: v.x.sum(), lambda: X.sum()),
    "sum dim": (lambda T, v: v.p.sum(1), lambda: PAIR.sum(1)),
    "mean": (lambda T, v: v.x.mean(), lambda: X.mean()),
    "max": (lambda T, v: v.x.max(), lambda: X.max()),
    "std": (lambda T, v: v.x.std(), lambda: X.std(ddof=1)),
    "matmul 8x8": (lambda T, v: v.m @ v.m, lambda: SQUARE @ SQUARE),
    "linear": (lambda T, v: T.nn.functional.linear(v.p, v.w, v.b), lambda: PAIR @ PAIR.T + 1),
    "softmax": (lambda T, v: v.p.softmax(-1), lambda: _softmax(PAIR)),
    "log_softmax": (lambda T, v: v.p.log_softmax(-1), lambda: np.log(_softmax(PAIR))),
    "cross_entropy": (lambda T, v: T.nn.functional.cross_entropy(v.p, v.k), lambda: _cross_entropy(PAIR)),
    "mse_loss": (lambda T, v: T.nn.functional.mse_loss(v.x, v.c0), lambda: ((X - X) ** 2).mean()),
    "layer_norm": (lambda T, v: T.nn.functional.layer_norm(v.p, (4,)), lambda: _layer_norm(PAIR)),
    "gelu": (lambda T, v: T.nn.functional.gelu(v.x), lambda: X * np.tanh(X + X**3)),
    "dropout": (lambda T, v: T.nn.functional.dropout(v.x, 0.5), lambda: X * (X < 0.5)),
    "embedding": (lambda T, v: T.nn.functional.embedding(v.r, v.p), lambda: PAIR[ROWS]),
    "x[0]": (lambda T, v: v.p[0], lambda: PAIR[0]),
    "x[1:]": (lambda T, v: v.x[1:], lambda: X[1:]),
    "x[index]": (lambda T, v: v.p[v.r], lambda: PAIR[ROWS]),
    "reshape": (lambda T, v: v.x.reshape(2, 4), lambda: X.reshape(2, 4)),
    "view": (lambda T, v: v.x.view(4, 2), lambda: X.reshape(4, 2)),
    "transpose": (lambda T, v: v.p.transpose(0, 1), lambda: PAIR.T),
    "unsqueeze": (lambda T, v: v.x.unsqueeze(0), lambda: X[None]),
    "cat": (lambda T, v: T.cat([v.x, v.y]), lambda: np.concatenate([X, X])),
    "stack": (lambda T, v: T.stack([v.x, v.y]), lambda: np.stack([X, X])),
    "split": (lambda T, v: v.x.split(4), lambda: np.split(X, 2)),
    "clone": (lambda T, v: v.x.clone(), lambda: X.copy()),
    "detach": (lambda T, v: v.x.detach(), lambda: X.view()),
    "to double": (lambda T, v: v.x.double(), lambda: X.astype(np.float64)),
    "min": (lambda T, v: v.x.min(), lambda: X.min()),
    "max dim": (lambda T, v: v.p.max(1), lambda: (PAIR.max(1), PAIR.argmax(1))),
    "amax dim": (lambda T, v: v.p.amax(1), lambda: PAIR.max(1)),
    "argmax": (lambda T, v: v.p.argmax(1), lambda: PAIR.argmax(1)),
    "mean dim": (lambda T, v: v.p.mean(1), lambda: PAIR.mean(1)),
    "prod": (lambda T, v: v.x.prod(), lambda: X.prod()),
    "var": (lambda T, v: v.x.var(), lambda: X.var(ddof=1)),
    "norm": (lambda T, v: v.x.norm(), lambda: np.linalg.norm(X)),
    "logsumexp": (lambda T, v: v.p.logsumexp(1), lambda: np.log(np.exp(PAIR).sum(1))),
    "cumsum": (lambda T, v: v.x.cumsum(0), lambda: X.cumsum(0)),
    "sort": (lambda T, v: v.x.sort(), lambda: (np.sort(X), np.argsort(X))),
    "topk": (lambda T, v: v.x.topk(2), lambda: np.argsort(X)[:2]),
    "permute": (lambda T, v: v.p.permute(1, 0), lambda: PAIR.transpose(1, 0)),
    "t": (lambda T, v: v.p.t(), lambda: PAIR.T),
    "squeeze": (lambda T, v: v.u.squeeze(0), lambda: X[None].squeeze(0)),
    "expand": (lambda T, v: v.u.expand(4, 8), lambda: np.broadcast_to(X, (4, 8))),
    "flatten": (lambda T, v: v.p.flatten(), lambda: PAIR.reshape(-1)),
    "contiguous": (lambda T, v: v.p.contiguous(), lambda: PAIR),
    "chunk": (lambda T, v: v.x.chunk(2), lambda: np.split(X, 2)),
    "unbind": (lambda T, v: v.p.unbind(), lambda: list(PAIR)),
    "x[:, 0]": (lambda T, v: v.p[:, 0], lambda: PAIR[:, 0]),
    "x[mask]": (lambda T, v: v.x[v.c], lambda: X[X > 0.5]),
    "gather": (lambda T, v: v.p.gather(1, v.g), lambda: np.take_along_axis(PAIR, G, 1)),
    "index_select": (lambda T, v: v.p.index_select(0, v.r), lambda: PAIR.take(ROWS, 0)),
    "scatter_add": (lambda T, v: v.p.scatter_add(1, v.g, v.p), lambda: np.add.at(PAIR.copy(), (ROW2, G), 1)),
    "masked_fill": (lambda T, v: v.x.masked_fill(v.c, 0.0), lambda: np.where(X > 0.5, np.float32(0), X)),
    "repeat": (lambda T, v: v.x.repeat(2, 1), lambda: np.tile(X, (2, 1))),
    "clamp min": (lambda T, v: v.x.clamp(min=0.5), lambda: np.maximum(X, 0.5)),
    "pow tensor": (lambda T, v: v.x**v.y, lambda: X**X),
    "rsub": (lambda T, v: 1 - v.x, lambda: 1 - X),
    "rdiv": (lambda T, v: 1 / v.x, lambda: 1 / X),
    "compare": (lambda T, v: v.x > v.y, lambda: X > X),
    "compare number": (lambda T, v: v.x > 0.5, lambda: X > 0.5),
    "logical and": (lambda T, v: v.c & v.c, lambda: X > 0.5),
    "addmm": (lambda T, v: T.addmm(v.b, v.p, v.w.t()), lambda: PAIR @ PAIR.T + X[:2]),
    "bmm": (lambda T, v: T.bmm(v.q, v.q), lambda: CUBE @ CUBE),
    "mv": (lambda T, v: v.m @ v.x, lambda: SQUARE @ X),
    "dot": (lambda T, v: T.dot(v.x, v.y), lambda: X @ X),
    "einsum": (lambda T, v: T.einsum("ij,kj->ik", v.p, v.w), lambda: PAIR @ PAIR.T),
    "F.relu": (lambda T, v: T.nn.functional.relu(v.x), lambda: np.maximum(X, 0)),
    "leaky_relu": (lambda T, v: T.nn.functional.leaky_relu(v.x), lambda: np.where(X > 0, X, X * 0.01)),
    "elu": (lambda T, v: T.nn.functional.elu(v.x), lambda: np.where(X > 0, X, np.expm1(X))),
    "silu": (lambda T, v: T.nn.functional.silu(v.x), lambda: X / (1 + np.exp(-X))),
    "softplus": (lambda T, v: T.nn.functional.softplus(v.x), lambda: np.log1p(np.exp(X))),
    "batch_norm": (lambda T, v: T.nn.functional.batch_norm(v.p, v.m4, v.v4, training=True), lambda: _layer_norm(PAIR)),
    "l1_loss": (lambda T, v: T.nn.functional.l1_loss(v.x, v.c0), lambda: np.abs(X - X).mean()),
    "smooth_l1": (lambda T, v: T.nn.functional.smooth_l1_loss(v.x, v.c0), lambda: np.abs(X - X).mean()),
    "nll_loss": (lambda T, v: T.nn.functional.nll_loss(v.p, v.k), lambda: -PAIR[ROW1, CLASSES].mean()),
    "bce_with_logits": (
        lambda T, v: T.nn.functional.binary_cross_entropy_with_logits(v.x, v.c0),
        lambda: (np.maximum(X, 0) - X * X + np.log1p(np.exp(-np.abs(X)))).mean(),
    ),
    "one_hot": (lambda T, v: T.nn.functional.one_hot(v.k, 4), lambda: np.eye(4)[CLASSES]),
    "normalize": (lambda T, v: T.nn.functional.normalize(v.p), lambda: PAIR / np.linalg.norm(PAIR, axis=1)[:, None]),
    "attention": (
        lambda T, v: T.nn.functional.scaled_dot_product_attention(v.q, v.q, v.q),
        lambda: _softmax(CUBE @ CUBE) @ CUBE,
    ),
    "add_": (lambda T, v: v.c0.add_(1e-6), lambda: np.add(Y, 1e-6, Y)),
    "add_ tensor": (lambda T, v: v.c0.add_(v.c1), lambda: np.add(Y, X, Y)),
    "add_ alpha": (lambda T, v: v.c0.add_(v.c1, alpha=1e-3), lambda: np.add(Y, X * 1e-3, Y)),
    "mul_": (lambda T, v: v.c0.mul_(1.0), lambda: np.multiply(Y, 1.0, Y)),
    "zero_": (lambda T, v: v.z.zero_(), lambda: Y.fill(0)),
    "copy_": (lambda T, v: v.z.copy_(v.c1), lambda: np.copyto(Y, X)),
    "clamp_": (lambda T, v: v.z.clamp_(0, 1), lambda: np.clip(Y, 0, 1, Y)),
    "x[0] = v": (lambda T, v: v.z.__setitem__(0, 1.0), lambda: Y.__setitem__(0, 1.0)),
    "x[1:] = y": (lambda T, v: v.z.__setitem__(slice(1, None), v.c1[1:]), lambda: Y.__setitem__(slice(1, None), X[1:])),
    "x[index] = v": (lambda T, v: v.z.__setitem__(v.k, 1.0), lambda: Y.__setitem__(CLASSES, 1.0)),
    "addcmul_": (lambda T, v: v.z.addcmul_(v.c0, v.c1, value=1e-3), lambda: np.add(Y, X * X * 1e-3, Y)),
    "addcdiv_": (lambda T, v: v.z.addcdiv_(v.c0, v.c1, value=1e-3), lambda: np.add(Y, X / X * 1e-3, Y)),
    "lerp_": (lambda T, v: v.z.lerp_(v.c1, 0.1), lambda: np.add(Y, (X - Y) * 0.1, Y)),
    "sigmoid_": (lambda T, v: v.z.sigmoid_(), lambda: 1 / (1 + np.exp(-X))),
    "index_fill_": (lambda T, v: v.z.index_fill_(0, v.k, 1.0), lambda: Y.__setitem__(CLASSES, 1.0)),
    "index_add_": (lambda T, v: v.z.index_add_(0, v.k, v.c1[:2]), lambda: np.add.at(Y, CLASSES, X[:2])),
    "scatter_": (lambda T, v: v.z.scatter_(0, v.k, v.c1), lambda: np.put_along_axis(Y, CLASSES, X[:2], 0)),
    "uniform_": (lambda T, v: v.z.uniform_(), lambda: RNG.random(8, np.float32)),
    "normal_": (lambda T, v: v.z.normal_(), lambda: RNG.standard_normal(8, np.float32)),
    "scatter": (lambda T, v: v.p.scatter(1, v.g, v.p), lambda: np.put_along_axis(PAIR.copy(), G, PAIR[:, :2], 1)),
    "index_fill": (lambda T, v: v.x.index_fill(0, v.k, 1.0), lambda: X.copy().__setitem__(CLASSES, 1.0)),
    "index_copy": (lambda T, v: v.x.index_copy(0, v.k, v.b), lambda: X.copy().__setitem__(CLASSES, X[:2])),
    "masked_select": (lambda T, v: v.x.masked_select(v.c), lambda: X[X > 0.5]),
    "take_along_dim": (lambda T, v: T.take_along_dim(v.p, v.g, 1), lambda: np.take_along_axis(PAIR, G, 1)),
    "searchsorted": (lambda T, v: T.searchsorted(v.c0, v.c1), lambda: np.searchsorted(X, X)),
    "equal": (lambda T, v: T.equal(v.c0, v.c1), lambda: np.array_equal(X, X)),
    "float * mask": (lambda T, v: v.x * v.c, lambda: X * (X > 0.5)),
    "int + float": (lambda T, v: v.k + 1.5, lambda: CLASSES + 1.5),
    "where number": (lambda T, v: T.where(v.c, v.x, 0.0), lambda: np.where(X > 0.5, X, np.float32(0))),
    "squeeze()": (lambda T, v: v.u.squeeze(), lambda: X[None].squeeze()),
    "movedim": (lambda T, v: v.q.movedim(0, 2), lambda: np.moveaxis(CUBE, 0, 2)),
    "stride": (lambda T, v: v.x.stride(), lambda: X.strides),
    "data": (lambda T, v: v.x.data, lambda: X.view()),
    "linspace": (lambda T, v: T.linspace(0, 1, 8), lambda: np.linspace(0, 1, 8, dtype=np.float32)),
    "triu_indices": (lambda T, v: T.triu_indices(4, 4), lambda: np.stack(np.triu_indices(4))),
    "eye": (lambda T, v: T.eye(4), lambda: np.eye(4, dtype=np.float32)),
    "full": (lambda T, v: T.full((8,), 1.5), lambda: np.full(8, 1.5, np.float32)),
    "randint": (lambda T, v: T.randint(0, 10, (8,)), lambda: RNG.integers(0, 10, 8)),
    "randperm": (lambda T, v: T.randperm(8), lambda: RNG.permutation(8)),
    "nan_to_num": (lambda T, v: v.x.nan_to_num(), lambda: np.nan_to_num(X)),
    "cross": (lambda T, v: T.linalg.cross(v.b3, v.b3), lambda: np.cross(X[:3], X[:3])),
    "baddbmm": (lambda T, v: T.baddbmm(v.q, v.q, v.q), lambda: CUBE @ CUBE + CUBE),
    "max_pool2d": (lambda T, v: T.nn.functional.max_pool2d(v.q, 2), lambda: None),
    "avg_pool2d": (lambda T, v: T.nn.functional.avg_pool2d(v.q, 2), lambda: None),
    "conv2d": (lambda T, v: T.nn.functional.conv2d(v.q[None], v.w2), lambda: None),
    "item": (lambda T, v: v.s.item(), lambda: S.item()),
    "float()": (lambda T, v: float(v.s), lambda: float(S)),
    "bool()": (lambda T, v: bool(v.s > 0), lambda: bool(S > 0)),
    "tolist": (lambda T, v: v.c0.tolist(), lambda: X.tolist()),
    "len": (lambda T, v: len(v.x), lambda: len(X)),
    "shape": (lambda T, v: v.x.shape, lambda: X.shape),
    "x.shape[0]": (lambda T, v: v.x.shape[0], lambda: X.shape[0]),
    "size(0)": (lambda T, v: v.x.size(0), lambda: X.shape[0]),
    "zeros": (lambda T, v: T.zeros(8), lambda: np.zeros(8, np.float32)),
    "ones": (lambda T, v: T.ones(8), lambda: np.ones(8, np.float32)),
    "zeros_like": (lambda T, v: T.zeros_like(v.x), lambda: np.zeros_like(X)),
    "arange": (lambda T, v: T.arange(8), lambda: np.arange(8)),
    "tensor": (lambda T, v: T.tensor([1.0, 2.0]), lambda: np.array([1.0, 2.0], np.float32)),
    "randn": (lambda T, v: T.randn(8), lambda: RNG.standard_normal(8, np.float32)),
    "rand": (lambda T, v: T.rand(8), lambda: RNG.random(8, np.float32)),
    "from_numpy": (lambda T, v: T.from_numpy(X), lambda: X),
    "numpy": (lambda T, v: v.c0.numpy(), lambda: X),
    "float": (lambda T, v: v.k.float(), lambda: CLASSES.astype(np.float32)),
    "to same": (lambda T, v: v.x.to(T.float32), lambda: X),
    "no_grad": (lambda T, v: _no_grad(T), lambda: None),
    "add, no_grad leaf": (lambda T, v: v.c0 + v.c1, lambda: X + X),
    "backward of one": (lambda T, v: v.one.backward(retain_graph=True), lambda: None),
    "nn.Linear": (lambda T, v: v.linear(v.p), lambda: PAIR @ PAIR.T + 1),
    "nn.LayerNorm": (lambda T, v: v.layer_norm(v.p), lambda: _layer_norm(PAIR)),
    "nn.Embedding": (lambda T, v: v.embedding(v.r), lambda: PAIR[ROWS]),
    "nn.ReLU": (lambda T, v: v.relu(v.x), lambda: np.maximum(X, 0)),
    "nn.Identity": (lambda T, v: v.identity(v.x), lambda: None),
    "nn.Sequential": (lambda T, v: v.sequential(v.p), lambda: PAIR @ PAIR.T + 1),
    "nn.Dropout eval": (lambda T, v: v.dropout(v.x), lambda: None),
    "nn.MSELoss": (lambda T, v: v.mse(v.x, v.c1), lambda: ((X - X) ** 2).mean()),
    "nn.LSTMCell": (lambda T, v: v.lstm_cell(v.p), lambda: None),
    "nn.GRUCell": (lambda T, v: v.gru_cell(v.p), lambda: None),
    "nn.Conv1d": (lambda T, v: v.conv(v.q), lambda: None),
    "SGD step": (lambda T, v: v.sgd.step(), lambda: None),
    "Adam step": (lambda T, v: v.adam.step(), lambda: None),
    "zero_grad": (lambda T, v: v.sgd2.zero_grad(), lambda: None),
    "sum(-1)": (lambda T, v: v.p.sum(-1, keepdim=True), lambda: PAIR.sum(-1, keepdims=True)),
    "cumsum(-1)": (lambda T, v: v.p.cumsum(-1), lambda: PAIR.cumsum(-1)),
    "reshape tuple": (lambda T, v: v.x.reshape((2, 4)), lambda: X.reshape((2, 4))),
    "unflatten": (lambda T, v: v.x.unflatten(0, (2, 4)), lambda: X.reshape(2, 4)),
    "broadcast_to": (lambda T, v: T.broadcast_to(v.x, (2, 8)), lambda: np.broadcast_to(X, (2, 8))),
    "hstack": (lambda T, v: T.hstack([v.x, v.y]), lambda: np.hstack([X, X])),
    "mT": (lambda T, v: v.p.mT, lambda: PAIR.swapaxes(-1, -2)),
    "long": (lambda T, v: v.x.long(), lambda: X.astype(np.int64)),
    "int / int": (lambda T, v: v.k / 2, lambda: CLASSES / 2),
    "accuracy": (lambda T, v: (v.k == v.k).float().mean(), lambda: (CLASSES == CLASSES).mean()),  # noqa: PLR0124
    "lerp": (lambda T, v: T.lerp(v.x, v.y, 0.3), lambda: X + (X - X) * 0.3),
    "addcmul": (lambda T, v: T.addcmul(v.x, v.y, v.y, value=0.5), lambda: X + X * X * 0.5),
    "logit": (lambda T, v: v.x.logit(), lambda: np.log(X / (1 - X))),
    "gelu tanh": (lambda T, v: T.nn.functional.gelu(v.x, approximate="tanh"), lambda: X * np.tanh(X + X**3)),
    "softshrink": (lambda T, v: T.nn.functional.softshrink(v.x), lambda: np.sign(X) * np.maximum(np.abs(X) - 0.5, 0)),
    "prelu": (lambda T, v: T.nn.functional.prelu(v.p, v.b[:1]), lambda: np.where(PAIR > 0, PAIR, PAIR * 0.1)),
    "glu": (lambda T, v: T.nn.functional.glu(v.p), lambda: PAIR[:, :2] / (1 + np.exp(-PAIR[:, 2:]))),
    "bce": (lambda T, v: T.nn.functional.binary_cross_entropy(v.x, v.c1), lambda: -(X * np.log(X)).mean()),
    "huber_loss": (lambda T, v: T.nn.functional.huber_loss(v.x, v.c1), lambda: ((X - X) ** 2).mean()),
    "cosine_similarity": (lambda T, v: T.nn.functional.cosine_similarity(v.p, v.w), lambda: (PAIR * PAIR).sum(1)),
    "outer": (lambda T, v: T.outer(v.x, v.y), lambda: np.outer(X, X)),
    "pad": (lambda T, v: T.nn.functional.pad(v.p, (1, 1)), lambda: np.pad(PAIR, ((0, 0), (1, 1)))),
    "max_pool2d batch": (lambda T, v: T.nn.functional.max_pool2d(v.q[None], 2), lambda: None),
    "avg_pool2d batch": (lambda T, v: T.nn.functional.avg_pool2d(v.q[None], 2), lambda: None),
    "conv2d single": (lambda T, v: T.nn.functional.conv2d(v.q, v.w2), lambda: None),
    "new_zeros": (lambda T, v: v.x.new_zeros(8), lambda: np.zeros(8, np.float32)),
    "triu": (lambda T, v: v.m.triu(), lambda: np.triu(SQUARE)),
    "autograd.grad": (lambda T, v: T.autograd.grad((v.x * v.x).sum(), v.x), lambda: None),
}
# Operators of which forward and backward are measured together
BACK = (
    "add | mul number | div | exp | tanh | sigmoid | relu | sqrt | abs | pow 2 | clamp | maximum | where | sum | "
    "sum dim | mean | max | std | matmul 8x8 | linear | softmax | log_softmax | cross_entropy | mse_loss | "
    "layer_norm | gelu | embedding | x[0] | x[index] | reshape | transpose | cat | stack | split | max dim | amax "
    "dim | mean dim | prod | var | norm | logsumexp | cumsum | sort | expand | gather | masked_fill | pow tensor "
    "| addmm | bmm | mv | dot | einsum | leaky_relu | elu | silu | softplus | batch_norm | l1_loss | smooth_l1 | "
    "nll_loss | bce_with_logits | normalize | attention | nan_to_num | cross | baddbmm | max_pool2d | avg_pool2d "
    "| conv2d | logit | gelu tanh | softshrink | prelu | glu | bce | huber_loss | cosine_similarity | outer | "
    "broadcast_to | lerp | addcmul | conv2d single"
).split(" | ")


class Values:
    """The arguments, as tensors of one library."""

    def __init__(self, T: Any) -> None:
        def grad(a: np.ndarray) -> Any:
            return T.tensor(a.tolist(), requires_grad=True)

        self.x, self.y, self.m, self.p = grad(X), grad(X), grad(SQUARE), grad(PAIR)
        self.w, self.b = grad(PAIR), grad(X[:2])
        self.c, self.c0 = T.tensor((X > 0.5).tolist()), T.tensor(X.tolist())
        self.k, self.r = T.tensor(CLASSES.tolist()), T.tensor(ROWS.tolist())
        self.q, self.s, self.u, self.one = grad(CUBE), grad(S), grad(X[None]), grad(S) * 2
        self.z, self.c1, self.g = T.tensor(X.tolist()), T.tensor(X.tolist()), T.tensor(G.tolist())
        self.b3, self.w2 = grad(X[:3]), grad(CUBE[None, :, :2, :2])
        self.m4, self.v4 = T.zeros(4), T.ones(4)
        nn = T.nn
        self.linear, self.layer_norm, self.embedding = nn.Linear(4, 2), nn.LayerNorm(4), nn.Embedding(2, 4)
        self.relu, self.identity, self.dropout, self.mse = nn.ReLU(), nn.Identity(), nn.Dropout().eval(), nn.MSELoss()
        self.sequential = nn.Sequential(nn.Identity(), nn.Linear(4, 2))
        self.lstm_cell, self.gru_cell, self.conv = nn.LSTMCell(4, 4), nn.GRUCell(4, 4), nn.Conv1d(4, 4, 3)
        params = [T.nn.Parameter(T.zeros(8)) for _ in range(2)]
        for p in params:
            p.grad = T.ones(8)
        self.sgd, self.adam = T.optim.SGD(params, lr=1e-3), T.optim.Adam(params, lr=1e-3)
        self.sgd2 = T.optim.SGD([T.nn.Parameter(T.zeros(8)) for _ in range(2)], lr=1e-3)


def per_call(fn: Callable[[], Any], number: int) -> float:
    """Microseconds of this thread's processor time for one call, over ``number`` calls."""
    start = time.thread_time()
    for _ in range(number):
        fn()
    return (time.thread_time() - start) / number * 1e6


def interleaved(fns: list[Callable[[], Any]], number: int, repeats: int) -> list[float]:
    """The smallest time of each, measured in turns."""
    best = [float("inf")] * len(fns)
    for fn in fns:
        per_call(fn, max(1, number // 4))
    for _ in range(repeats):
        for i, fn in enumerate(fns):
            best[i] = min(best[i], per_call(fn, number))
    return best


def libraries() -> list[Any]:
    return [fusegrad] if torch is None else [fusegrad, torch]


def operators(number: int, repeats: int, only: str = "") -> list[dict[str, Any]]:
    """One row for each operator."""
    values = [(T, Values(T)) for T in libraries()]
    empty = interleaved([lambda: None], number, repeats)[0]
    rows = []
    gc.disable()
    for name, (call, plain) in CASES.items():
        if only and only not in name:
            continue
        fns = [lambda T=T, v=v, call=call: call(T, v) for T, v in values]
        times = [t - empty for t in interleaved([*fns, plain], number, repeats)]
        rows.append({"op": name, "fusegrad": times[0], "torch": times[1] if torch else None, "numpy": times[-1]})
    gc.enable()
    return rows


def backward(number: int, repeats: int, only: str = "") -> list[dict[str, Any]]:
    """One row for each operator of ``BACK``: the operator and the backward pass of its (first) result, with gradients
    added to those of the leaves."""
    values = [(T, Values(T)) for T in libraries()]
    rows = []

    def step(T: Any, v: Any, call: Any) -> Callable[[], None]:
        def result() -> Any:
            out = call(T, v)
            return out[0] if isinstance(out, (tuple, list)) else out

        cotangent = T.ones(tuple(result().shape))
        return lambda: result().backward(cotangent)

    gc.disable()
    for name in BACK:
        if only and only not in name:
            continue
        times = interleaved([step(T, v, CASES[name][0]) for T, v in values], max(10, number // 3), repeats)
        rows.append({"op": name, "fusegrad": times[0], "torch": times[1] if torch else None})
    gc.enable()
    return rows


def chain(repeats: int) -> dict[str, Any]:
    """Milliseconds of the backward of a chain of 1,000 operators on 8 elements."""
    best: dict[str, float] = {}
    for _ in range(repeats):
        for T in libraries():
            x = T.tensor(X.tolist(), requires_grad=True)
            y = x
            for i in range(250):
                y = ((y * 1.01 + x).tanh()) if i % 2 else (y + x).sigmoid() * x
                y = y - x if i % 3 else y * x
            loss = y.sum()
            start = time.thread_time()
            loss.backward()
            taken = (time.thread_time() - start) * 1e3
            best[T.__name__] = min(best.get(T.__name__, float("inf")), taken)
    return best


# ---- memory


def network(T: Any) -> tuple[Any, Any, Any]:
    """A network with the usual layers, and a batch."""
    nn = T.nn
    T.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.2),
        nn.Linear(8 * 9, 64), nn.LayerNorm(64), nn.GELU(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 10),
    )  # fmt: skip
    return model, T.randn(64, 1, 8, 8), T.zeros(64, dtype=T.int64)


def storages(tensors: Any) -> int:
    """Bytes of the distinct memories behind tensors."""
    seen = {}
    for t in tensors:
        memory = t.untyped_storage()
        seen[memory.data_ptr()] = memory.nbytes()
    return sum(seen.values())


def kept_for_backward(T: Any) -> int:
    """Bytes that the graph keeps between forward and backward, beyond parameters and the batch."""
    model, x, y = network(T)
    saved: list[Any] = []
    with T.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        T.nn.functional.cross_entropy(model(x), y)
    outside = [*model.parameters(), *model.buffers(), x, y]
    return storages([*saved, *outside]) - storages(outside)


def traced_forward() -> int:
    """The same for fusegrad, by tracemalloc: all that numpy allocated in forward and that is alive after it."""
    import tracemalloc

    model, x, y = network(fusegrad)
    fusegrad.nn.functional.cross_entropy(model(x), y)
    gc.collect()
    domain = [tracemalloc.DomainFilter(True, np.lib.tracemalloc_domain)]
    tracemalloc.start()
    loss = fusegrad.nn.functional.cross_entropy(model(x), y)
    shot = tracemalloc.take_snapshot().filter_traces(domain)
    tracemalloc.stop()
    del loss
    return sum(t.size for t in shot.traces)


def alive_between_steps(T: Any) -> int:
    """Bytes of all tensors alive after training steps, with the last loss and output still held."""
    model, x, y = network(T)
    opt = T.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(3):
        opt.zero_grad()
        out = model(x)
        loss = T.nn.functional.cross_entropy(out, y)
        loss.backward()
        opt.step()
    gc.collect()
    return storages([t for t in gc.get_objects() if isinstance(t, T.Tensor) and type(t).__module__ != "weakref"])


def memory() -> dict[str, dict[str, int]]:
    """Bytes, by what is counted and library."""
    rows: dict[str, dict[str, int]] = {"kept for backward": {}, "alive between steps": {}}
    for T in libraries():
        rows["alive between steps"][T.__name__] = alive_between_steps(T)
        rows["kept for backward"][T.__name__] = kept_for_backward(T)
    rows["allocated in forward and alive (tracemalloc)"] = {"fusegrad": traced_forward()}
    return rows


# ---- output


def number(x: float | None) -> str:
    return "" if x is None else f"{x:.2f}"


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as Markdown."""
    lines = [
        "| operator | fusegrad | PyTorch | ratio | numpy | over numpy |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for r in rows:
        ratio = r["fusegrad"] / r["torch"] if r["torch"] else None
        over = r["fusegrad"] - r["numpy"]
        cells = [r["op"], *map(number, (r["fusegrad"], r["torch"], ratio, r["numpy"], over))]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--number", type=int, default=60, help="calls in one repeat (few, so that most repeats are undisturbed)"
    )
    parser.add_argument("--repeats", type=int, default=150)
    parser.add_argument("--only", default="", help="operators whose name contains this")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows = operators(args.number, args.repeats, args.only)
    back = backward(args.number, args.repeats, args.only)
    more = {} if args.only else {"chain": chain(max(5, args.repeats // 8)), "memory": memory()}
    if args.json:
        print(json.dumps({"operators": rows, "backward": back, **more}))
        return
    print("Microseconds a call, 8 elements, a graph is recorded:\n")
    print(table(rows))
    print(
        "\nThe operator and its backward pass:\n\n| operator | fusegrad | PyTorch | ratio |\n"
        "| --- | ---: | ---: | ---: |"
    )
    for r in back:
        ratio = r["fusegrad"] / r["torch"] if r["torch"] else None
        print("| " + " | ".join([r["op"], *map(number, (r["fusegrad"], r["torch"], ratio))]) + " |")
    if more:
        print("\nBackward of a chain of 1,000 small operators, ms:", {k: round(v, 2) for k, v in more["chain"].items()})
        print("Bytes:", json.dumps(more["memory"], indent=2))


if __name__ == "__main__":
    main()
