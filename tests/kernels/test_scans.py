"""Running sums, products and linear recurrences as loops of kernels: against eager code, forward and backward."""

from __future__ import annotations

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.ops.cumulative import cumsum_back, linear_scan, linear_scan_back
from fusegrad.threads import get_num_threads, set_num_threads

INF, NAN = float("inf"), float("nan")
FUNCTIONS = {
    "sum": lambda x, w, d: (x * x).cumsum(d) * x,
    "sum from the end": lambda x, w, d: cumsum_back(x * w, d).tanh(),
    "sum of a costly argument, then costly readers": lambda x, w, d: (-x * x).exp().cumsum(d).tanh() * w,
    "product": lambda x, w, d: fg.sigmoid(x).cumprod(d),
    "product, reduced": lambda x, w, d: (fg.sigmoid(x) + 0.5).cumprod(d).sum(d) + x.sum(d),
    "both ways, then again": lambda x, w, d: (x.cumsum(d) + x.flip(d).cumsum(d)).cumsum(d) / 10,
    "before a softmax": lambda x, w, d: fg.softmax(x.cumsum(d), -1),
    "counts": lambda x, w, d: (x > w).cumsum(d),
    "integers": lambda x, w, d: (x * 4).to(fg.int32).cumprod(d),
    "in double precision": lambda x, w, d: x.cumsum(d, dtype=fg.float64) * 2,
    "recurrence": lambda x, w, d: linear_scan(w.tanh(), x, d) * w,
    "recurrence from the end": lambda x, w, d: linear_scan_back(w.tanh(), x * 2, d) + w,
    "of a transposed array": lambda x, w, d: x.transpose(0, -1).cumsum(d),
    "from the end, of a costly argument": lambda x, w, d: cumsum_back((-x * x).exp() * w, d) * 2,
    "shifted": lambda x, w, d: fg.cat([x.narrow(d, 0, 1) * 0, x.cumsum(d).narrow(d, 0, x.shape[d] - 1)], d) * w,
}
SHAPES = {
    "small": (5, 7), "wide": (3, 300), "tall": (130, 6), "three": (3, 4, 33), "one": (40,), "ones": (2, 1, 3),
    "long rows": (2, 13000),
}  # fmt: skip


def close(got, want):
    got, want = got.detach().numpy(), want.detach().numpy()
    assert got.shape == want.shape and got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5 * max(1.0, float(np.abs(want).max(initial=0))))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_scans_are_those_of_eager_code(name, shape):
    fg.manual_seed(0)
    x, w = fg.randn(*SHAPES[shape]), fg.randn(*SHAPES[shape])
    for d in range(x.ndim):
        f = lambda x, w, d=d: FUNCTIONS[name](x, w, d)
        a, b = [t.clone().requires_grad_() for t in (x, w)], [t.clone().requires_grad_() for t in (x, w)]
        want, got = f(*a), fg.compile(f)(*b)
        close(got, want)
        if not want.requires_grad:
            continue
        g = fg.randn(*want.shape).to(want.dtype)
        for p, q in zip(
            fg.autograd.grad(want, a, g, allow_unused=True), fg.autograd.grad(got, b, g, allow_unused=True), strict=True
        ):
            assert (p is None) == (q is None)
            if p is not None:
                close(q, p)


@pytest.mark.parametrize("shape", [(1, 5), (7, 1), (4, 4), (0, 3)])
def test_symbolic_sizes(shape):
    f = fg.compile(lambda x: (x * 2).cumsum(0) + cumsum_back(x, 1) + x.cumprod(1), dynamic=True)
    for n in (shape, (shape[0] + 1, shape[1] + 2)):
        x = fg.randn(*n)
        close(f(x), (x * 2).cumsum(0) + cumsum_back(x, 1) + x.cumprod(1))


def test_special_values_pass_through():
    x = fg.tensor([[1.0, float("inf"), 2.0, float("-inf"), 1.0], [3.0, float("nan"), 1.0, 0.0, -0.0]])
    for f in (lambda x: x.cumsum(1), lambda x: x.cumprod(1), lambda x: cumsum_back(x, 1), lambda x: x.cumsum(0)):
        np.testing.assert_array_equal(fg.compile(f)(x).numpy(), f(x).numpy())


def test_no_bit_depends_on_threads():
    x = fg.randn(600, 700)
    f = fg.compile(lambda x: fg.exp(x).cumsum(1) + x.cumsum(0))
    before = get_num_threads()
    try:
        results = []
        for n in (1, 2, 5):
            set_num_threads(n)
            results.append(f(x).numpy())
    finally:
        set_num_threads(before)
    for r in results[1:]:
        np.testing.assert_array_equal(r, results[0])


def test_scans_run_inside_of_kernels():
    def f(x):
        return fg.exp((x * 2).cumsum(1)).sum(1) + x.cumprod(0).sum(1)

    (region,) = fg.compiler.explain(f)(fg.randn(30, 20).requires_grad_()).regions
    assert "call" not in [
        line.split()[0] for line in region.text().split("\n") if line.startswith("  ") and line.split()
    ]


@pytest.mark.parametrize("shape", [(33, 64), (33, 65), (7, 3), (1000,)])
def test_normal_numbers_are_those_of_eager_code_in_rows_of_any_length(shape):
    """Pairs share words of the generator: rows of odd length begin inside a pair."""

    def f():
        return fg.randn(*shape) * 2

    fg.manual_seed(5)
    want = f()
    fg.manual_seed(5)
    np.testing.assert_allclose(fg.compile(f)().numpy(), want.numpy(), rtol=2e-6, atol=1e-7)


def test_normal_numbers_are_drawn_once():
    """A second drawing costs a logarithm and a sine for each: the backward reads what the forward has kept."""

    def f(v):
        return (fg.exp(v * fg.randn(100, 10))).mean()

    (region,) = fg.compiler.explain(f)(fg.tensor(0.3, requires_grad=True)).regions
    backward = region.text().split("# backward\n")[1].split("# forward program")[0]
    assert "randn" not in backward


@pytest.mark.parametrize("codegen", ["llvm", "numba"])
@pytest.mark.parametrize(
    "values", [[INF, 2.0, 3.0], [-INF, 0.0, 0.0], [1.0, INF, 2.0], [0.0, INF, 2.0], [NAN, 1.0, 2.0]]
)
def test_second_derivatives_of_running_products_with_infinities(values, codegen):
    """(the first factor of a recurrence, which is not used, was multiplied with the zero before it)"""

    def derivatives(f):
        x = fg.tensor(values, requires_grad=True)
        (g,) = fg.autograd.grad(f(x).sum(), x, create_graph=True)
        return [g.detach(), *fg.autograd.grad(g.sum(), x)]

    for f in (lambda x: x.cumprod(0), lambda x: x.flip(0).cumprod(0), lambda x: x.prod()):
        want, got = derivatives(f), derivatives(fg.compile(f, options={"codegen": codegen}))
        for a, b in zip(want, got, strict=True):
            assert str(a.tolist()) == str(b.tolist())
