"""The layouts of gradients that ``autograd.grad`` returns: those of eager code, inside and outside of compiled code.

``x.grad`` takes the layout of its leaf; what ``grad`` returns shows whether a cotangent was turned, or is expanded.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import op_samples
import pytest

import fusegrad as torch

pytestmark = pytest.mark.not_verified("is itself a comparison with eager code, of several thousand small calls")
F = torch.nn.functional
OPS = [op for op in op_samples.ops() if op.kind != "random" and op.nondiff is not True and op.rules]
PLAIN = {"interpret": True}


def cotangent(out: Any, how: str) -> Any:
    if how == "expanded":
        return torch.ones(()).expand(out.shape)
    a = np.linspace(1, 2, out.numel(), dtype=np.float32)
    if how == "turned":
        return torch.from_numpy(a.reshape(tuple(out.shape)[::-1]).transpose())
    return torch.from_numpy(a.reshape(out.shape))


def strides(grads: Any) -> list[Any]:
    return [None if g is None else g.stride() for g in grads]


def memory(grads: Any, cotangents: list[Any]) -> list[bool]:
    """Which gradients share memory with each other and with the cotangents."""
    arrays = [t.detach().numpy() for t in (*grads, *cotangents) if t is not None]
    return [np.may_share_memory(a, b) for i, a in enumerate(arrays) for b in arrays[:i]]


def leaf_or(leaves: Any, t: Any) -> Any:
    return next(leaves) if isinstance(t, torch.Tensor) and t.requires_grad else t


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_operators(op: Any) -> None:
    for sample in [s for s in op_samples.samples(op) if s.grad][:2]:
        for layout in ("contiguous", "turned"):
            args, kwargs = op_samples.call(op, sample, np.float32, layout, True)
            leaves = [t for t in op_samples.tensors([args, [*kwargs.values()]]) if t.requires_grad]
            if all(t.dim() < 2 for t in leaves):
                continue

            def body(*given: Any, call: Any = (args, kwargs)) -> list[Any]:
                pick = functools.partial(leaf_or, iter(given))
                a, k = torch.pytree.tree_map(pick, call)
                outs = op_samples.tensors(op.fn(*a, **k))
                return [o for o in outs if o.is_floating_point() and o.requires_grad]

            try:
                outs = body(*leaves)
                torch.autograd.grad(outs, leaves, [cotangent(o, "dense") for o in outs], allow_unused=True)
            except (RuntimeError, NotImplementedError, TypeError, ValueError):
                continue  # no float32
            for how in ("dense", "expanded", "turned"):
                check(body, leaves, [cotangent(o, how) for o in outs])


def check(body: Any, leaves: list[Any], cotangents: list[Any]) -> None:
    n = len(leaves)

    def inside(*given: Any) -> Any:
        return torch.autograd.grad(body(*given[:n]), given[:n], given[n:], allow_unused=True)

    want = inside(*leaves, *cotangents)
    torch.compiler.reset()
    got = torch.compile(inside, options=PLAIN)(*leaves, *cotangents)
    assert strides(got) == strides(want), "inside"
    assert memory(got, cotangents) == memory(want, cotangents), "inside"
    outs = torch.compile(body, options=PLAIN)(*leaves)
    got = torch.autograd.grad(outs, leaves, cotangents, allow_unused=True)
    assert strides(got) == strides(want), "outside"
    assert memory(got, cotangents) == memory(want, cotangents), "outside"
    for a, b in zip(got, want, strict=True):
        if b is not None:
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)


FUNCTIONS = {
    "mean": lambda x: x.mean(1),
    "layer_norm": lambda x: F.layer_norm(x, (x.shape[-1],)),
    "group_norm": lambda x: F.group_norm(x, 2),
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
    "rms_norm": lambda x: F.rms_norm(x, (x.shape[-1],)),
    "cross_entropy": lambda x: F.cross_entropy(x, torch.ones((x.shape[0], *x.shape[2:]), dtype=torch.int64)),
    "products": lambda x: x @ x.transpose(-1, -2),
    "detached": lambda x: x + x.detach().clone(),
    "stack": lambda x: torch.stack([x, x * 2]),
    "logits": lambda x: F.binary_cross_entropy_with_logits(x, torch.ones(x.shape)),
}


@pytest.mark.parametrize("shape", [(6, 4), (2, 6, 4, 4)])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str, shape: tuple[int, ...]) -> None:
    for turned in (False, True):
        data = torch.linspace(-1, 1, int(np.prod(shape)))
        x = data.reshape(shape[::-1]).permute(*range(len(shape))[::-1]) if turned else data.reshape(shape)
        x = x.detach().requires_grad_()
        out = FUNCTIONS[name](x)
        for how in ("dense", "expanded", "turned"):
            check(lambda x: [FUNCTIONS[name](x)], [x], [cotangent(out, how)])


def test_kernels_and_sizes_that_change() -> None:
    f = torch.compile(lambda x: (x.sigmoid() * 2, x.sum(0)), dynamic=True)
    for n in (3, 5, 4):
        x = torch.rand(n, 4).requires_grad_()
        y, z = f(x)
        (g,) = torch.autograd.grad(z.sum(), x, retain_graph=True)
        assert g.stride() == (0, 0)
        assert g.tolist() == [[1.0] * 4] * n
        (g,) = torch.autograd.grad((y.t() * torch.ones(4, n)).sum(), x)
        w = x.detach().requires_grad_()
        (want,) = torch.autograd.grad(((w.sigmoid() * 2).t() * torch.ones(4, n)).sum(), w)
        assert g.stride() == want.stride()
        torch.testing.assert_close(g, want)


def test_results_that_simplify() -> None:
    """A factor of ones decides about the layout, too."""
    x = torch.arange(12.0).reshape(4, 3).t().detach()
    f = lambda x: (x * torch.ones(3, 4), torch.ones(3, 4) * x, x / torch.ones(3, 4), x - torch.zeros(3, 4))  # noqa: E731
    assert [t.stride() for t in f(x)] == [(4, 1)] * 4
    for options in (None, PLAIN):
        torch.compiler.reset()
        assert [t.stride() for t in torch.compile(f, options=options)(x)] == [(4, 1)] * 4


def test_layouts_of_pytorch() -> None:
    x = torch.arange(12.0).reshape(4, 3).t().detach().requires_grad_()
    for f in (F.leaky_relu, lambda x: F.prelu(x, torch.ones(1) / 4), torch.sigmoid, F.gelu, torch.tanh):
        assert torch.autograd.grad(f(x).sum(), x)[0].stride() == (1, 3)
    q = torch.rand(3, 2, 4, 5).transpose(0, 1)
    assert (q @ q.transpose(-1, -2)).is_contiguous()


def test_functions_of_users_run_once() -> None:
    """The layouts are found by recording the derivative again: not where that would call the user's code."""
    calls = []

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            calls.append(1)
            return g * 2

    x = torch.rand(3, 4).requires_grad_()
    y = torch.compile(lambda x: Twice.apply(x) * 1.5)(x)
    before = len(calls)
    (g,) = torch.autograd.grad(y, x, torch.ones(4, 3).t())
    assert g.tolist() == [[3.0] * 4] * 3
    assert len(calls) - before <= 1
