"""Machine code of eager operators: any layout, special values, first use in threads and children, without LLVM."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import fusegrad as fg

F = fg.nn.functional
rng = np.random.default_rng(11)

POINTWISE = {
    "sigmoid": fg.sigmoid,
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu, tanh": lambda x: F.gelu(x, approximate="tanh"),
    "erf": fg.erf,
    "softplus": lambda x: F.softplus(x, 1.5, 3.0),
    "elu": lambda x: F.elu(x, 0.7),
    "leaky_relu": lambda x: F.leaky_relu(x, 0.3),
    "hardshrink": lambda x: F.hardshrink(x, 0.3),
    "clamp": lambda x: x.clamp(-0.5, 0.75),
    "clamp, one bound": lambda x: x.clamp(min=-0.5),
}
ROWS = {
    "softmax": lambda x: fg.softmax(x, -1),
    "log_softmax": lambda x: fg.log_softmax(x, -1),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "rms_norm": lambda x: F.rms_norm(x, x.shape[-1:]),
}
ALL = {**POINTWISE, **ROWS}


def layouts(a: np.ndarray) -> dict[str, np.ndarray]:
    """The same numbers in other layouts."""
    wide = np.zeros((a.shape[0], a.shape[1] * 2), a.dtype)
    wide[:, ::2] = a
    return {
        "transposed": np.asfortranarray(a),
        "reversed": np.ascontiguousarray(a[::-1, ::-1])[::-1, ::-1],
        "every second": wide[:, ::2],
    }


def run(f, a: np.ndarray, v: np.ndarray) -> list[np.ndarray]:
    x = fg.from_numpy(a).requires_grad_()
    out = f(x)
    (g,) = fg.autograd.grad(out, x, fg.from_numpy(v))
    return [out.detach().numpy(), g.numpy()]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ALL)
def test_the_layout_of_memory_decides_nothing(name, dtype):
    a, v = rng.standard_normal((2, 7, 33)).astype(dtype)
    want = run(ALL[name], a, v)
    for layout, other in layouts(a).items():
        for w in (v, np.asfortranarray(v)):
            for got, expected in zip(run(ALL[name], other, w), want, strict=True):
                np.testing.assert_array_equal(got, expected, err_msg=layout)
    row = run(ALL[name], np.broadcast_to(a[:1], a.shape), v)
    np.testing.assert_array_equal(row[0][0], want[0][0])


@pytest.mark.parametrize("name", ALL)
def test_the_number_of_rows_decides_nothing(name):
    """One row alone is as the same row among many, whoever computes it."""
    a, v = rng.standard_normal((2, 3000, 129)).astype(np.float32)
    before = fg.get_num_threads()
    try:
        fg.set_num_threads(3)
        many = run(ALL[name], a, v)
    finally:
        fg.set_num_threads(before)
    for k in (0, 1500, 2999):
        for got, want in zip(run(ALL[name], a[k : k + 1], v[k : k + 1]), many, strict=True):
            np.testing.assert_array_equal(got[0], want[k])


@pytest.mark.parametrize("name", ALL)
def test_empty_and_single(name):
    f = ALL[name]
    for shape in ((0, 4), (3, 0), (0,), (1,), (1, 1)):
        x = fg.ones(shape, requires_grad=True)
        out = f(x)
        assert out.shape == shape
        out.sum().backward()
        assert x.grad.shape == shape
    if name in POINTWISE or "softmax" in name:
        x = fg.tensor(0.25, requires_grad=True)
        out = f(x)
        out.backward()
        assert out.shape == x.grad.shape == ()


def test_rows_of_special_values():
    inf, nan = np.inf, np.nan
    x = fg.tensor([[-inf, -inf, -inf], [0.0, -inf, 0.0], [inf, 1.0, 0.0], [nan, 1.0, 2.0], [1e38, -1e38, 1e38]])
    want = [[nan, nan, nan], [0.5, 0.0, 0.5], [nan, nan, nan], [nan, nan, nan], [0.5, 0.0, 0.5]]
    np.testing.assert_array_equal(fg.softmax(x, 1).numpy(), np.array(want, np.float32))
    with np.errstate(divide="ignore"):
        want = np.log(np.array(want))
    want[2] = [nan, -inf, -inf]
    got = fg.log_softmax(x, 1).numpy()
    np.testing.assert_allclose(got[[0, 1, 3, 4]][:, [0, 2]], want[[0, 1, 3, 4]][:, [0, 2]], rtol=1e-6)
    assert got[1, 1] == -inf and got[4, 1] == np.float32(-2e38)
    np.testing.assert_array_equal(fg.sigmoid(fg.tensor([inf, -inf, nan, -200.0])).numpy(), [1.0, 0.0, nan, 0.0])
    np.testing.assert_array_equal(fg.tensor([inf, -inf, nan]).clamp(-1, 1).numpy(), [1.0, -1.0, nan])
    np.testing.assert_array_equal(np.signbit(fg.erf(fg.tensor([-0.0, 0.0])).numpy()), [True, False])


def test_targets_of_cross_entropy():
    x = fg.tensor(rng.standard_normal((5, 4)).astype(np.float32), requires_grad=True)
    logp = fg.log_softmax(x, 1).detach().numpy()
    y = np.array([0, 3, -100, 2, 1])
    rows = np.array([0, 1, 3, 4])
    each = -logp[rows, y[rows]]
    for t in (fg.tensor(y), fg.from_numpy(np.stack([y, y], 1)[:, 0])):
        np.testing.assert_allclose(F.cross_entropy(x, t).item(), each.mean(), rtol=1e-6)
        np.testing.assert_allclose(F.cross_entropy(x, t, reduction="sum").item(), each.sum(), rtol=1e-6)
        np.testing.assert_array_equal(F.cross_entropy(x, t, reduction="none").detach().numpy()[rows], each)
    (g,) = fg.autograd.grad(F.cross_entropy(x, fg.tensor(y)), x)
    want = np.exp(logp)
    want[rows, y[rows]] -= 1
    want[2] = 0
    np.testing.assert_allclose(g.numpy(), want / 4, rtol=1e-5, atol=1e-7)
    for wrong in (4, -1):
        with pytest.raises(IndexError, match=f"Target {wrong} is out of bounds"):
            F.cross_entropy(x, fg.tensor([0, 1, wrong, 2, 3]))
    assert np.isnan(F.cross_entropy(x, fg.full((5,), -100)).item())
    assert np.isnan(F.cross_entropy(x[:0], fg.tensor([], dtype=fg.int64)).item())


def test_gradients_of_every_order():
    x = fg.tensor(rng.standard_normal((3, 5)), requires_grad=True)
    for f in ALL.values():
        assert fg.autograd.gradcheck(f, (x * 3 + 0.1,))
        assert fg.autograd.gradgradcheck(f, (x * 3 + 0.1,))


# ---- first use


CODE = """
import sys, warnings
{before}
import numpy as np
import fusegrad as fg
F = fg.nn.functional
x = fg.tensor(np.linspace(-3, 3, 24, dtype=np.float32).reshape(4, 6))
y = fg.tensor([0, 1, 2, 3])
def values():
    out = [fg.softmax(x, 1), F.layer_norm(x, (6,)), fg.sigmoid(x), F.gelu(x), x.clamp(-1, 1), F.cross_entropy(x, y)]
    return np.concatenate([t.numpy().reshape(-1) for t in out])
{body}
"""


def start(body: str, before: str = "", flags: tuple = (), **env: str) -> np.ndarray:
    """The numbers that a new process prints."""
    code = CODE.format(before=before, body=body)
    done = subprocess.run(
        [sys.executable, *flags, "-c", code], capture_output=True, text=True, env={**os.environ, **env}
    )
    assert done.returncode == 0, done.stderr
    return np.array([float.fromhex(w) for w in done.stdout.split()])


PRINT = "print(*(v.hex() for v in values().tolist()))"


@pytest.fixture(scope="module")
def expected(tmp_path_factory) -> np.ndarray:
    return start(PRINT, FUSEGRAD_CACHE_DIR=str(tmp_path_factory.mktemp("native")))


def test_from_the_disk_without_the_printers(tmp_path, expected):
    cold = start(PRINT, FUSEGRAD_CACHE_DIR=str(tmp_path / "cache"))
    loaded = "assert not {'fusegrad.native.nest', 'fusegrad.native.llvm_module', 'numba'} & set(sys.modules)"
    warm = start(f"{PRINT}\n{loaded}", FUSEGRAD_CACHE_DIR=str(tmp_path / "cache"))
    np.testing.assert_array_equal(cold, expected)
    np.testing.assert_array_equal(warm, expected)


def test_damaged_entries_are_made_again(tmp_path, expected):
    place = tmp_path / "cache"
    start(PRINT, FUSEGRAD_CACHE_DIR=str(place))
    for file in place.iterdir():
        data = bytearray(file.read_bytes())
        data[-1] ^= 1
        file.write_bytes(data)
    np.testing.assert_array_equal(start(PRINT, FUSEGRAD_CACHE_DIR=str(place)), expected)


def test_without_a_cache_folder_there_is_no_word(tmp_path, expected):
    blocked = tmp_path / "file"
    blocked.write_text("")
    np.testing.assert_array_equal(start(PRINT, flags=("-W", "error"), FUSEGRAD_CACHE_DIR=str(blocked)), expected)


def test_without_llvm(expected):
    body = f"""
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    {PRINT}
assert len(seen) == 1 and "numpy is used" in str(seen[0].message), seen
"""
    got = start(body, "sys.modules['llvmlite'] = sys.modules['llvmlite.binding'] = None")
    np.testing.assert_allclose(got, expected, rtol=2e-6, atol=1e-7)


def test_first_calls_in_many_threads(tmp_path, expected):
    body = f"""
import threading
found, ready = [], threading.Barrier(8)
def work():
    ready.wait()
    found.append(values())
threads = [threading.Thread(target=work) for _ in range(8)]
[t.start() for t in threads]
[t.join() for t in threads]
assert len(found) == 8 and all((f == found[0]).all() for f in found)
{PRINT}
"""
    np.testing.assert_array_equal(start(body, FUSEGRAD_CACHE_DIR=str(tmp_path / "cache")), expected)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("used", [False, True])
def test_first_calls_in_a_child(tmp_path, expected, used):
    """Also while another thread of the parent makes kernels."""
    body = f"""
import os, threading
before = values() if {used} else None
busy = threading.Thread(target=lambda: [F.mish(x), F.softplus(x), fg.log_softmax(x, 1)])
busy.start()
child = os.fork()
if child == 0:
    found = values()
    os._exit(0 if before is None or (found == before).all() else 1)
busy.join()
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
{PRINT}
"""
    if not used:
        body = body.replace("busy.start()", "").replace("busy.join()", "")
    np.testing.assert_array_equal(start(body, FUSEGRAD_CACHE_DIR=str(tmp_path / "cache")), expected)


# ---- random numbers


def test_draws_are_those_of_the_definition(monkeypatch):
    """Native words, uniform numbers and dropout masks, bit for bit, for every alignment and state."""
    from fusegrad import random
    from fusegrad.ops import nn_dropout, random_ops

    for seed, draw in ((0, 0), (12345678901234, 7), (2**64 - 1, 2**63 + 5), (2**63, 1 << 33)):
        for count, first in ((0, 0), (1, 0), (5, 3), (17, 1), (70, 2), (33, (1 << 34) - 7)):
            blocks = range(first // 4, (first + count + 3) // 4)
            halves = [(v & 0xFFFFFFFF, v >> 32) for v in (draw, seed)]
            want = [w for k in blocks for w in random.philox4x32((k & 0xFFFFFFFF, k >> 32, *halves[0]), halves[1])]
            want = np.array(want[first % 4 :][:count], np.uint32)
            monkeypatch.setattr(random, "_MANY", 0)
            monkeypatch.setattr(random, "_native", {})
            np.testing.assert_array_equal(random.words(seed, draw, count, first), want)
        for dtype in (fg.float32, fg.float64):
            with monkeypatch.context() as without:
                without.setattr(random, "_native", {})
                without.setattr(random, "_MANY", 1 << 60)
                plain = random.uniform(seed, draw, (70,), dtype.np)
                mask = nn_dropout.keep_mask((70,), 0.3, seed, draw, dtype.np)
            np.testing.assert_array_equal(random_ops.rand_op.kernel((70,), dtype, seed, draw), plain)
            x = rng.standard_normal(70).astype(dtype.np)
            got = nn_dropout.dropout_op.kernel(x, 0.3, seed, draw)
            np.testing.assert_array_equal(got, x * mask)
            np.testing.assert_array_equal(np.signbit(got), np.signbit(x * mask))
            np.testing.assert_array_equal(nn_dropout.dropout_op.kernel(x, 1.0, seed, draw), x * 0)
