"""The random number generator, and what random operators promise."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import fusegrad as fg
from fusegrad import callnative
from fusegrad import random as R
from fusegrad.autograd.modes import SLOW, slow_paths

# known answers published with the generator (Random123, file kat_vectors)
KNOWN = [
    ((0, 0, 0, 0), (0, 0), 10, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, 10, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        10,
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
    ((0, 0, 0, 0), (0, 0), 7, (0x5F6FB709, 0x0D893F64, 0x4F121F81, 0x4F730A48)),
]


@pytest.mark.parametrize("counter,key,rounds,want", KNOWN)
def test_known_answers(counter, key, rounds, want):
    assert R.philox4x32(counter, key, rounds) == want


def plain_words(seed, draw, first, count):
    low = 0xFFFFFFFF
    return [
        R.philox4x32((j // 4 & low, j // 4 >> 32, draw & low, draw >> 32), (seed & low, seed >> 32))[j % 4]
        for j in range(first, first + count)
    ]


@pytest.mark.parametrize(
    "first,count",
    [(0, 3), (5, 12), (1, 300), (3, 700), ((1 << 34) - 6, 16), (4 * R._CHUNK - 8, 64), ((1 << 34) - 400, 800)],
)
def test_vectorised_equals_plain(first, count):
    seed, draw = 0x1234567890ABCDEF, 0xFEDCBA9876543210
    assert R.words(seed, draw, count, first).tolist() == plain_words(seed, draw, first, count)


@pytest.mark.parametrize("seed", [0, 7, (1 << 64) - 5])
@pytest.mark.parametrize("count", [R._MANY, R._MANY + 1, 30_011])
def test_machine_code_draws_what_numpy_draws(seed, count, monkeypatch):
    """Every draw that has a kernel of its own for many numbers, by both ways."""
    calls = [
        lambda: R.words(seed, 3, count),
        lambda: R.bits64(seed, 3, count),
        lambda: R.permutation(seed, 3, count),
        *(lambda d=d: R.uniform(seed, 3, (count,), d) for d in (np.float16, np.float32, np.float64)),
        *(lambda d=d: R.normal(seed, 3, (count,), d) for d in (np.float16, np.float32, np.float64)),
        *(
            lambda low=low, high=high: R.integers(seed, 3, low, high, (count,))
            for low, high in ((0, 10), (-5, 1 << 16), (0, 1 << 24), (-7, 100_003), (-(1 << 63), 1 << 63))
        ),
    ]
    native = [f() for f in calls]
    monkeypatch.setattr(R, "_MANY", 1 << 60)
    monkeypatch.setattr(R, "_native", {})
    for f, got in zip(calls, native, strict=True):
        wanted = f()
        assert got.dtype == wanted.dtype
        np.testing.assert_array_equal(got, wanted)


DRAWS = [
    lambda z, g: z.uniform_(generator=g),
    lambda z, g: z.uniform_(-1, 2.5, generator=g),
    lambda z, g: z.normal_(generator=g),
    lambda z, g: z.normal_(3, 0.5, generator=g),
    lambda z, g: z.exponential_(generator=g),
    lambda z, g: z.exponential_(2.5, generator=g),
    lambda z, g: z.bernoulli_(0.3, generator=g),
    lambda z, g: z.random_(10, generator=g),
    lambda z, g: z.random_(-3, 1 << 10, generator=g),
]


@pytest.mark.parametrize("dtype", [fg.float16, fg.float32, fg.float64])
@pytest.mark.parametrize("size", [(), (7,), (2, 3), (0,), (300,)])
@pytest.mark.parametrize("k", range(len(DRAWS)))
def test_small_draws_into_memory_are_those_of_the_general_form(k, size, dtype):
    """Straight into plain memory, and (with a generator given) by way of operators: the same numbers and versions."""
    fg.manual_seed(11)
    z, general = (fg.zeros(size, dtype=dtype) for _ in range(2))
    own = fg.Generator().manual_seed(11)
    for _ in range(3):
        assert DRAWS[k](z, None) is z
        DRAWS[k](general, own)
        np.testing.assert_array_equal(z.numpy(), general.numpy())
    assert z._version == general._version == 3
    assert fg.default_generator.state == own.state


def test_documented_mapping():
    seed, draw = 7, 3
    w = plain_words(seed, draw, 0, 200)
    assert R.uniform(seed, draw, (100,)).tolist() == [(x >> 8) * 2.0**-24 for x in w[:100]]
    f64 = [((w[2 * i] >> 5) * 2.0**26 + (w[2 * i + 1] >> 6)) * 2.0**-53 for i in range(100)]
    assert R.uniform(seed, draw, (100,), np.float64).tolist() == f64
    u = np.array(f64).reshape(-1, 2)
    r, a = np.sqrt(-2 * np.log(1 - u[:, 0])), 2 * np.pi * u[:, 1]
    want = np.stack([r * np.cos(a), r * np.sin(a)], 1).ravel()
    np.testing.assert_allclose(R.normal(seed, draw, (100,), np.float64), want, rtol=1e-14)
    assert R.normal(seed, draw, (7,), np.float64).tolist() == R.normal(seed, draw, (100,), np.float64)[:7].tolist()
    assert R.integers(seed, draw, -3, 7, (100,)).tolist() == [-3 + (x * 10 >> 32) for x in w[:100]]
    assert R.integers(seed, draw, 0, 1 << 40, (50,)).tolist() == [
        (w[2 * i] + (w[2 * i + 1] << 32)) % (1 << 40) for i in range(50)
    ]


def test_element_depends_on_its_number_alone():
    fg.manual_seed(5)
    a = fg.rand(1000)
    fg.manual_seed(5)
    b = fg.rand(10, 3)
    assert a[:30].tolist() == b.reshape(30).tolist()


def test_moments():
    for dtype in (np.float32, np.float64):
        z = R.normal(1, 2, (400_000,), dtype).astype(np.float64)
        assert abs(z.mean()) < 6e-3 and abs(z.std() - 1) < 6e-3 and abs((z**4).mean() - 3) < 0.05
        u = R.uniform(1, 2, (400_000,), dtype)
        assert u.dtype == dtype and 0 <= u.min() and u.max() < 1 and abs(u.mean() - 0.5) < 3e-3


def test_seed_and_state():
    g = fg.manual_seed(11)
    assert g is fg.default_generator and fg.initial_seed() == 11
    state = fg.get_rng_state()
    assert state.dtype is fg.uint8 and tuple(state.shape) == (16,)
    a = fg.randn(5)
    fg.set_rng_state(state)
    assert fg.randn(5).tolist() == a.tolist()
    assert fg.randn(5).tolist() != a.tolist()
    with R.fork_rng():
        inside = fg.rand(3).tolist()
    assert fg.rand(3).tolist() == inside
    fg.manual_seed(-1)
    assert fg.initial_seed() == 2**64 - 1
    with pytest.raises(RuntimeError, match="64 bits"):
        fg.manual_seed(1 << 64)
    with pytest.raises(RuntimeError, match="16 bytes"):
        fg.set_rng_state(fg.zeros(3, dtype=fg.uint8))
    with pytest.raises(TypeError, match="uint8"):
        fg.set_rng_state(fg.zeros(16))


def test_own_generator():
    g = fg.Generator().manual_seed(3)
    a = fg.rand(4, generator=g)
    fg.manual_seed(3)
    assert a.tolist() == fg.rand(4).tolist()
    before = fg.default_generator.state
    fg.randn(4, generator=g), fg.randint(5, (3,), generator=g), fg.randperm(4, generator=g)
    fg.empty(3).normal_(generator=g), fg.ones(3).bernoulli(generator=g)
    assert fg.default_generator.state == before and g.state == (3, 6)


def test_threads_share_a_generator():
    g = fg.Generator()
    taken = []

    def work():
        taken.extend([g.take() for _ in range(2000)])

    threads = [threading.Thread(target=work) for _ in range(4)]
    [x.start() for x in threads]
    [x.join() for x in threads]
    assert sorted(taken) == list(range(8000))


def test_dropout():
    fg.manual_seed(1)
    x = fg.ones(1000, requires_grad=True)
    y = fg.nn.functional.dropout(x, 0.25)
    kept = y.detach().numpy() != 0
    assert 0.7 < kept.mean() < 0.8
    np.testing.assert_allclose(y.detach().numpy()[kept], 1 / 0.75, rtol=1e-6)
    (y * fg.arange(1000.0)).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.where(kept, np.arange(1000) / 0.75, 0), rtol=1e-6)
    u = R.uniform(1, 0, (1000,))
    assert (kept == (u >= np.float32(0.25))).all()
    assert fg.nn.functional.dropout(x, 0.5, training=False) is x
    assert fg.nn.functional.dropout(x, 1.0).sum().item() == 0
    with pytest.raises(ValueError, match="between 0 and 1"):
        fg.nn.functional.dropout(x, 1.5)


def test_multinomial():
    fg.manual_seed(0)
    w = fg.tensor([[1.0, 0.0, 3.0], [0.0, 1.0, 1.0]])
    many = fg.multinomial(w, 20000, replacement=True).numpy()
    assert abs((many[0] == 2).mean() - 0.75) < 0.02 and not (many[0] == 1).any() and not (many[1] == 0).any()
    first = np.array([fg.multinomial(w[0], 1).item() for _ in range(2000)])
    assert abs((first == 2).mean() - 0.75) < 0.05
    both = fg.multinomial(w, 2).numpy()
    assert sorted(both[0]) == [0, 2] and sorted(both[1]) == [1, 2]


def test_permutation_and_ranges():
    p = fg.randperm(500)
    assert sorted(p.tolist()) == list(range(500))
    i = fg.randint(-2, 3, (4000,))
    assert set(i.tolist()) == {-2, -1, 0, 1, 2}
    assert fg.randint(3, (2,), dtype=fg.int32).dtype is fg.int32
    x = fg.empty(1000).uniform_(-3, 5)
    assert -3 <= x.min().item() < -2.9 and 4.9 < x.max().item() < 5
    assert fg.zeros(1000).exponential_(2.0).mean().item() == pytest.approx(0.5, abs=0.08)
    with pytest.raises(RuntimeError, match="less than"):
        fg.randint(3, 3, (2,))
    with pytest.raises(RuntimeError, match="std"):
        fg.zeros(3).normal_(0, -1)


@pytest.mark.parametrize("count", [0, 1, 2, 7, 8, 64, 255, 256, 257])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_draws_computed_ahead_are_the_same_numbers(count, dtype):
    """Draws one after the other, with gaps, repeated and of several kinds in turns, against each computed alone."""
    seed = 0x9E3779B97F4A7C15
    order = [*range(40), 3, 39, 5000, *range(5001, 5100, 3), 2, (1 << 62) + 1, (1 << 64) - 2, (1 << 64) - 1]
    for draw in order:
        for ahead in (R.uniform, R.normal):
            got = ahead(seed, draw, (count,), dtype)
            got += 1  # nobody else's memory
            want = ahead(seed, draw, (1000,), dtype)[:count]
            assert got.dtype == want.dtype and ((want + dtype(1)) == got).all(), (draw, ahead)
        assert (R.words(seed, draw, count) == R._words(seed, draw, 1000, 0)[:count]).all()
        assert (
            R.integers(seed, draw, -5, 12, (count,)).tolist() == R.integers(seed, draw, -5, 12, (600,))[:count].tolist()
        )


def test_seeds_and_states_between_draws_computed_ahead():
    def numbers(gen):
        return [fg.randn(5, generator=gen).tolist(), fg.rand(2, 2, generator=gen).tolist(), gen.state[1]]

    gen = fg.Generator().manual_seed(3)
    first = [numbers(gen) for _ in range(30)]
    other = fg.Generator().manual_seed(4)
    assert numbers(other) != first[0]
    again = fg.Generator().manual_seed(3)
    assert [numbers(again) for _ in range(30)] == first and first[-1][2] == 60
    again.set_state(fg.Generator().manual_seed(3).get_state())
    assert numbers(again) == first[0]


@pytest.mark.parametrize("count", [1, 2, 7, 8, 33, 128, 129, 300])
def test_integers_and_orders_drawn_ahead_are_those_of_single_draws(count: int) -> None:
    """Whatever was drawn before or is drawn between: draw number ``i`` of a seed holds the same numbers."""

    def alone(draw: int, n: int, low: int) -> tuple[list, list]:
        w = R._words(5, draw, count, 0).astype(np.uint64)
        pairs = R._words(5, draw, 2 * count, 0).astype(np.uint64)
        bits = pairs[0::2] | (pairs[1::2] << np.uint64(32))
        return [(int(x) * n >> 32) + low for x in w], R._order(bits).tolist()

    for n, low in ((10, 0), (1 << 16, -3), (1, 7), (10, -(1 << 62)), (2, (1 << 63) - 2)):
        for draw in range(40, 52):
            ints, order = alone(draw, n, low)
            assert R.integers(5, draw, low, low + n, (count,)).tolist() == ints
            found = R.permutation(5, draw, count)
            assert found.tolist() == order and sorted(order) == [*range(count)]
            found[:] = -1  # the rows computed ahead are nobody's to change


def test_few_samples_of_few_weights_are_those_of_many() -> None:
    """``multinomial`` of few numbers computes in Python: the same indices as by numpy's passes, the same refusals."""
    for dtype in (fg.float32, fg.float64, fg.float16):
        for weights in ([0.1, 0.0, 3.0, 0.5, 0.0], [2.0], [0.0, 1.0], [1e-3] * 40):
            p = fg.tensor(weights, dtype=dtype)
            fg.manual_seed(3)
            few = [fg.multinomial(p, 4, replacement=True).tolist() for _ in range(3)]
            fg.manual_seed(3)
            assert few == [fg.multinomial(p[None], 4, replacement=True)[0].tolist() for _ in range(3)]
    for bad in ([1.0, -1.0, 3.0], [1.0, float("nan")], [float("inf"), 1.0], [0.0, 0.0]):
        with pytest.raises(RuntimeError, match="element < 0|sum of probabilities"):
            fg.multinomial(fg.tensor(bad), 2, replacement=True)


def test_draws_into_memory_keep_the_rules_of_changes_in_place() -> None:
    """``uniform_`` and its kin write straight into plain memory: versions, views, leaves and strides as before."""
    draws = [
        *(lambda x: x.uniform_(), lambda x: x.normal_(), lambda x: x.bernoulli_(0.5), lambda x: x.exponential_()),
        *(lambda x: x.uniform_(-2, 2), lambda x: x.random_(3), lambda x: x.cauchy_(), lambda x: x.geometric_(0.3)),
    ]
    for f in draws:
        plain, wide = fg.zeros(6), fg.zeros(6, 2)
        fg.manual_seed(1)
        assert f(plain) is plain and plain._version == 1
        fg.manual_seed(1)
        f(wide[:, 0])
        assert wide[:, 0].tolist() == plain.tolist() and wide[:, 1].tolist() == [0] * 6 and wide._version == 1
        leaf = fg.ones(3, requires_grad=True)
        with pytest.raises(RuntimeError, match="leaf"):
            f(leaf)
        inner = leaf * 2
        f(inner)
        inner.sum().backward()
        assert leaf.grad.tolist() == [0, 0, 0]
        saved = leaf * fg.ones(3).add_(0)
        other = fg.ones(3)
        y = leaf * other
        f(other)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()
        assert saved.requires_grad


def test_quick_draws_into_memory_are_those_of_the_general_form() -> None:
    """Few numbers into a vector, which machine code finds to be plain: the same numbers, refusals and next draw."""
    calls = [
        *(lambda x: x.uniform_(), lambda x: x.uniform_(0.0, 2.0), lambda x: x.uniform_(to=3), lambda x: x.normal_()),
        *(lambda x: x.normal_(1, 2.5), lambda x: x.normal_(std=3), lambda x: x.normal_(0.0, 0), lambda x: x.normal_(2)),
        *(lambda x: x.normal_(0, -1), lambda x: x.normal_(1e31, 1), lambda x: x.normal_(float("nan"), 1)),
        *(lambda x: x.normal_(0, float("nan")), lambda x: x.normal_(True, 1), lambda x: x.normal_(fg.ones(1), 1)),
        *(lambda x: x.normal_(generator=fg.Generator().manual_seed(4)), lambda x: x.uniform_(2, 1)),
    ]
    shapes = [(8,), (0,), (256,), (257,), (2, 3), ()]
    callnative.load()
    for f in calls:
        for kind in (fg.float32, fg.float64, fg.float16, fg.int64):
            for shape in shapes:
                seen = []
                for slow in (0, 1):
                    fg.manual_seed(3)
                    x = fg.zeros(shape, dtype=kind)
                    SLOW[0] += slow
                    try:
                        said = f(x) is x
                    except Exception as e:  # noqa: BLE001  (compared)
                        said = type(e), str(e)
                    finally:
                        SLOW[0] -= slow
                    seen.append((said, x.numpy().tobytes(), x._version, fg.rand(2).tolist()))
                assert seen[0] == seen[1], (shape, kind)


def test_samples_of_many_rows_are_those_of_a_search() -> None:
    """With replacement, where all rows are done at once: weights of zero at either end, and the last index."""
    weights = np.random.default_rng(0).random((20, 9)).astype(np.float32)
    weights[:, 0], weights[::2, 7:], weights[3, :8] = 0, 0, 0
    fg.manual_seed(4)
    got = fg.multinomial(fg.tensor(weights), 40, replacement=True).numpy()
    u = R.uniform(4, 0, (20, 40), np.float64)
    for w, x, row in zip(weights.astype(np.float64), u, got, strict=True):
        edges = np.cumsum(w)
        wanted = np.minimum(np.searchsorted(edges / edges[-1], x, side="right"), np.flatnonzero(w)[-1])
        np.testing.assert_array_equal(row, wanted)


@pytest.mark.parametrize("dtype", [fg.float16, fg.float32, fg.float64])
@pytest.mark.parametrize("draw", [fg.randn, lambda n, dtype: fg.empty(n, dtype=dtype).normal_(0.5, 3.0)])
def test_compiled_code_draws_the_very_numbers(dtype, draw):
    compiled = fg.compile(draw)
    for n in (1, 2, 7, 8, 255, 256, 257, 1000, 5001, 70_000):
        fg.manual_seed(n)
        want = draw(n, dtype=dtype)
        fg.manual_seed(n)
        assert fg.equal(compiled(n, dtype=dtype), want)


def test_usual_draws_are_the_general_ones():
    """What is published of ``rand`` and its like has a short way for usual calls: the same numbers and refusals, and as
    many draws, as without it."""
    calls = [
        *((fg.rand, a) for a in ((8,), (2, 3), ((2, 3),), (0,), (), (300,), (-1,), (True,), (2.0,), ([2],))),
        *((fg.randn, a) for a in ((8,), (7,), (2, 3), (3, 0), (-2, 2))),
        *((fg.randint, a) for a in ((9, (8,)), (-3, 5, (2, 3)), (5, (0,)), (0, 1 << 17, (4,)), (0, 9, (300,)))),
        *((fg.randint, a) for a in ((3, 3, (2,)), (9, (-1,)), (9, [4]), (0.0, 4, (3,)), (True, 4, (3,)), (9, (2.5,)))),
        *((fg.randint, a) for a in ((-5, (2,)), (9, ()), (0, 4, (True,)), (9, 3))),
        *((fg.randperm, a) for a in ((8,), (0,), (200,), (-1,), (True,), (2.5,))),
    ]
    for fn, args in calls:
        found = []
        for slow in (0, 1):
            fg.manual_seed(5)
            slow_paths(slow)
            try:
                out = fn(*args)
                again = [(t.shape, t.dtype, t.tolist()) for t in (out, fn(*args))]
            except Exception as e:  # noqa: BLE001  (compared)
                again = [type(e), str(e)]
            finally:
                slow_paths(-slow)
            found.append((again, R.default_generator.state))
        assert found[0] == found[1], (fn.__name__, args)
