"""Large products shared out over threads (``shared_products.py``): every layout, size and number of threads."""

import threading

import numpy as np
import pytest

import fusegrad as fg
from fusegrad import blas, shared_products
from fusegrad.shared_products import large_dot, large_matmul


@pytest.fixture(autouse=True)
def _threads():
    before = fg.get_num_threads()
    fg.set_num_threads(3)
    yield
    fg.set_num_threads(before)


rng = np.random.default_rng(0)
TOLERANCE = {"f": 2e-3, "d": 1e-10}
needs_blas = pytest.mark.skipif(blas.routine("cblas_sgemm") is None, reason="another BLAS")


def made(shape: tuple[int, ...], kind: str, layout: str) -> np.ndarray:
    """Random numbers laid out in rows, columns, with gaps, or from the end."""
    if layout == "columns":
        return np.swapaxes(made((*shape[:-2], shape[-1], shape[-2]), kind, "rows"), -1, -2)
    if layout == "gaps":
        return made((*shape[:-1], shape[-1] + 5), kind, "rows")[..., 2:-3]
    if layout == "backwards":
        return made(shape, kind, "rows")[..., ::-1, :]
    if layout == "steps":
        return made((*shape[:-1], 2 * shape[-1]), kind, "rows")[..., ::2]
    return rng.standard_normal(shape).astype(kind)


@pytest.mark.parametrize("kind", ["f", "d"])
@pytest.mark.parametrize("left", ["rows", "columns", "gaps", "backwards", "steps"])
@pytest.mark.parametrize("right", ["rows", "columns", "gaps", "steps"])
def test_layouts(kind, left, right):
    for m, k, n in ((200, 130, 170), (17, 500, 900), (901, 300, 33), (1, 2000, 3000), (3000, 1000, 1)):
        a, b = made((m, k), kind, left), made((k, n), kind, right)
        np.testing.assert_allclose(large_dot(a, b), a @ b, atol=TOLERANCE[kind])
        out = np.full((m, n + 3), 7, kind)[:, :n]  # rows with gaps
        assert large_matmul(a, b, out) is out
        np.testing.assert_allclose(out, a @ b, atol=TOLERANCE[kind])
        assert (out.base[:, n:] == 7).all()


@needs_blas
def test_what_is_shared(monkeypatch):
    runs = []
    monkeypatch.setattr(shared_products, "_runner", lambda kind: lambda *numbers: runs.append(numbers[0]))
    a = made((400, 300), "f", "rows")
    large_dot(a, a.T.copy())
    large_matmul(made((6, 5, 64, 64), "f", "rows"), made((6, 5, 64, 64), "f", "columns"))
    assert runs == [3, 30]  # pieces: one a thread, or one a matrix
    for x, y in ((a[:8], a.T.copy()), (a[:, ::2], a.T[::2].copy()), (a, made((300, 400), "d", "rows"))):
        large_dot(x, y, np.empty((len(x), y.shape[1]), np.result_type(x, y)))
    fg.set_num_threads(1)
    large_dot(a, a.T.copy())
    assert len(runs) == 2


@pytest.mark.parametrize("kind", ["f", "d"])
@pytest.mark.parametrize("layouts", [("rows", "rows"), ("rows", "columns"), ("columns", "gaps")])
@pytest.mark.parametrize("lead", [(7,), (3, 5), (2, 3, 4), (1, 6), (6, 1), (2, 1, 9)])
def test_stacks(kind, layouts, lead):
    a, b = (made((*lead, *s), kind, layout) for s, layout in zip(((70, 90), (90, 110)), layouts, strict=True))
    np.testing.assert_allclose(large_matmul(a, b), np.matmul(a, b), atol=TOLERANCE[kind])
    if len(lead) > 1:  # heads, as attention has them: the axes of the stack lie inside
        a, b = (np.swapaxes(made((lead[0], 70, *lead[1:], 90), kind, "rows"), 1, -2) for _ in range(2))
        b = np.swapaxes(b, -1, -2)
        np.testing.assert_allclose(large_matmul(a, b), np.matmul(a, b), atol=TOLERANCE[kind])
    one = np.broadcast_to(b[:1], b.shape) if lead[0] > 1 else b
    np.testing.assert_allclose(large_matmul(a, one), np.matmul(a, one), atol=TOLERANCE[kind])


@pytest.mark.parametrize("threads", [1, 2, 5, 64])
def test_any_number_of_threads(threads):
    fg.set_num_threads(threads)
    a, b = made((333, 257), "f", "rows"), made((257, 401), "f", "columns")
    np.testing.assert_allclose(large_dot(a, b), a @ b, atol=2e-3)
    assert fg.get_num_threads() == threads


def test_many_callers():
    a, b = made((300, 300), "f", "rows"), made((300, 300), "f", "rows")
    want, wrong = a @ b, []

    def call():
        for _ in range(30):
            if not np.allclose(large_dot(a, b), want, atol=2e-3):
                wrong.append(1)

    threads = [threading.Thread(target=call) for _ in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_eager_and_compiled_with_gradients():
    x, w = fg.randn(4, 100, 200, requires_grad=True), fg.randn(300, 200, requires_grad=True)
    q, k = fg.randn(4, 8, 100, 64, requires_grad=True), fg.randn(4, 8, 100, 64, requires_grad=True)

    def f(x, w, q, k):
        return (x @ w.T).sin().sum() + (q @ k.transpose(-1, -2)).cos().sum()

    want = fg.autograd.grad(f(x, w, q, k), (x, w, q, k))
    for a, e in zip(fg.autograd.grad(fg.compile(f)(x, w, q, k), (x, w, q, k)), want, strict=True):
        fg.testing.assert_close(a, e, rtol=1e-3, atol=1e-3)
