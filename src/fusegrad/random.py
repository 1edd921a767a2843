"""Counter-based random numbers: Philox4x32-10, and the generators that hand out draws.

J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC11 (2011), 3.3.

A generator's whole state is `(seed, draw)`: two 64-bit integers.  Every random operator takes one draw number (a few
take more) and element `i` of a draw is a function of `(seed, draw, i)` alone, so that eager code, fused kernels, other
loop orders and other thread counts all see the same numbers.

The mapping, which kernels implement bit for bit:

    block(seed, draw, k) = philox4x32_10(counter=(k low, k high, draw low, draw high), key=(seed low, seed high))
    word(seed, draw, j)  = word number j % 4 of block j // 4                                    (32 bits)
    uniform float32, element i = (word(i) >> 8) * 2**-24                                        in [0, 1)
    uniform float16, element i = (word(i) >> 21) * 2**-11                                       in [0, 1)
    uniform float64, element i = ((word(2i) >> 5) * 2**26 + (word(2i+1) >> 6)) * 2**-53         in [0, 1)
    normal, element i: with u = uniform(i & ~1), v = uniform(i | 1), r = sqrt(-2 log(1 - u)), a = 2 pi v:
        r cos(a) for even i, r sin(a) for odd i     (Box and Muller 1958; float16 goes through float32)
    64 bits, element i = word(2i) + 2**32 word(2i+1)
    integer in [low, high), n = high - low: low + (word(i) * n >> 32) for n <= 2**16, else low + (64 bits of i) mod n

Low and high mean the low and high 32 bits of a 64-bit integer.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from fusegrad.tensor import Tensor

_M0, _M1 = 0xD2511F53, 0xCD9E8D57  # multipliers, and the Weyl increments of the key
_W0, _W1 = 0x9E3779B9, 0xBB67AE85
_LOW = 0xFFFFFFFF
_CHUNK = 16384  # blocks at a time: the uint64 work arrays stay in the cache
_FEW = 100  # up to so many blocks long Python integers are faster than numpy
_DEFAULT_SEED = 67280421310721  # the seed of a process that never sets one, as in PyTorch


def philox4x32(counter: tuple[int, int, int, int], key: tuple[int, int], rounds: int = 10) -> tuple[int, int, int, int]:
    """One block in plain Python: the readable definition."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(rounds):
        p0, p1 = _M0 * c0, _M1 * c2
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ k0, p1 & _LOW, (p0 >> 32) ^ c3 ^ k1, p0 & _LOW
        k0, k1 = (k0 + _W0) & _LOW, (k1 + _W1) & _LOW
    return c0, c1, c2, c3


def _halves(value: int) -> tuple[int, int]:
    return value & _LOW, (value >> 32) & _LOW


def _blocks(out: np.ndarray, first: int, seed: int, draw: int) -> None:
    """Fill out (n, 4) uint32 with the blocks first .. first+n-1, n at most _CHUNK."""
    n = len(out)
    k0, k1 = _halves(seed)
    d0, d1 = _halves(draw)
    low, high = _halves(first)
    if low + n > 1 << 32:  # the block counter's low word wraps inside this chunk
        head = (1 << 32) - low
        _blocks(out[:head], first, seed, draw)
        _blocks(out[head:], first + head, seed, draw)
        return
    u64 = np.uint64
    m0, m1, mask, s32 = u64(_M0), u64(_M1), u64(_LOW), u64(32)
    # round 1 by hand: only the block number differs between lanes, so half of the state is still one number
    p1 = _M1 * d0
    q0, q1 = (p1 >> 32) ^ high ^ k0, p1 & _LOW
    c3 = np.arange(low, low + n, dtype=u64)
    np.multiply(c3, m0, out=c3)
    c2 = np.right_shift(c3, s32)
    np.bitwise_xor(c2, u64(d1 ^ k1), out=c2)
    np.bitwise_and(c3, mask, out=c3)
    k0, k1 = (k0 + _W0) & _LOW, (k1 + _W1) & _LOW
    # round 2: the first multiplication is of one number
    p0 = _M0 * q0
    c1 = np.multiply(c2, m1)
    c0 = np.right_shift(c1, s32)
    np.bitwise_xor(c0, u64(q1 ^ k0), out=c0)
    np.bitwise_and(c1, mask, out=c1)
    np.bitwise_xor(c3, u64((p0 >> 32) ^ k1), out=c2)
    c3.fill(p0 & _LOW)
    for _ in range(8):
        k0, k1 = (k0 + _W0) & _LOW, (k1 + _W1) & _LOW
        np.multiply(c0, m0, out=c0)
        np.multiply(c2, m1, out=c2)
        np.bitwise_xor(c1, u64(k0), out=c1)
        np.bitwise_xor(c3, u64(k1), out=c3)
        # c1 and c3 take the high halves; c2 and c0 keep the low ones; then the names change places
        high1, high0 = np.right_shift(c2, s32), np.right_shift(c0, s32)
        np.bitwise_xor(c1, high1, out=c1)
        np.bitwise_xor(c3, high0, out=c3)
        np.bitwise_and(c2, mask, out=c2)
        np.bitwise_and(c0, mask, out=c0)
        c0, c1, c2, c3 = c1, c2, c3, c0
    out[:, 0], out[:, 1], out[:, 2], out[:, 3] = c0, c1, c2, c3


def _few_blocks(n: int, first: int, seed: int, draw: int) -> np.ndarray:
    """n blocks at once in long integers: a lane of 64 bits for each, so that no product reaches into the next lane."""
    if n == 0:
        return np.empty((0, 4), np.uint32)
    ones, low, steps, keys = _lanes(n, seed)
    counter = first * ones + steps
    c0, c1 = counter & low, counter >> 32 & low
    c2, c3 = (draw & _LOW) * ones, (draw >> 32 & _LOW) * ones
    for k0, k1 in keys:
        p0, p1 = c0 * _M0, c2 * _M1
        c0 = (p1 >> 32 & low) ^ c1 ^ k0
        c2 = (p0 >> 32 & low) ^ c3 ^ k1
        c1, c3 = p1 & low, p0 & low
    out = np.empty((n, 2), "<u8")
    out[:, 0] = np.frombuffer((c0 | c1 << 32).to_bytes(8 * n, "little"), "<u8")
    out[:, 1] = np.frombuffer((c2 | c3 << 32).to_bytes(8 * n, "little"), "<u8")
    return out.view("<u4").astype(np.uint32, copy=False)


@functools.lru_cache(maxsize=16)
def _lanes(n: int, seed: int) -> tuple[int, int, int, list[tuple[int, int]]]:
    """What n lanes have in common: a 1 in each, 32 ones in each, the lane's number, and the keys of the rounds."""
    ones = ((1 << 64 * n) - 1) // ((1 << 64) - 1)
    k0, k1 = _halves(seed)
    keys = []
    for _ in range(10):
        keys.append((k0 * ones, k1 * ones))
        k0, k1 = (k0 + _W0) & _LOW, (k1 + _W1) & _LOW
    return ones, _LOW * ones, sum(i << 64 * i for i in range(n)), keys


_MANY = 4096  # words from which it is worth loading LLVM
_native: dict[
    str, Any
] = {}  # kernels that draw (None without machine code), by name and dtype, once they were asked for


def _kernel(name: str, kind: str) -> Any:
    """A kernel of ``native.draws`` for a dtype, which draws what the functions here draw."""
    found = _native.get(name + kind, _native)
    if found is not _native:
        return found
    from .dtypes import FROM_NUMPY
    from .native.on_demand import defined

    d = FROM_NUMPY[np.dtype(kind)]
    f = _native[name + kind] = defined("draws", name, kinds=(d,))[d.np]
    return f


def words(seed: int, draw: int, count: int, first: int = 0) -> np.ndarray:
    """Words first .. first+count-1 of a draw: uint32, shape (count,)."""
    if count <= SMALL and first == 0:
        return few(words, seed, draw, count, _U32)
    return _words(seed, draw, count, first)


def _words(seed: int, draw: int, count: int, first: int) -> np.ndarray:
    if count >= _MANY or "wordsi" in _native:
        f = _kernel("words", "i")
        if f is not None:
            out = np.empty(count, np.int32)
            f(out, first, seed, draw, count)
            return out.view(np.uint32)
    start, end = first // 4, (first + count + 3) // 4
    if end - start <= _FEW:
        out = _few_blocks(end - start, start, seed, draw)
    else:
        out = np.empty((end - start, 4), np.uint32)
        for lo in range(0, end - start, _CHUNK):
            _blocks(out[lo : lo + _CHUNK], start + lo, seed, draw)
    skip = first - 4 * start
    return out.reshape(-1)[skip : skip + count]


def bits64(seed: int, draw: int, count: int) -> np.ndarray:
    """64 random bits an element: uint64, shape (count,)."""
    if count >= _MANY and (f := _kernel("bits64", "q")) is not None:
        out = np.empty(count, np.uint64)
        f(out.view(np.int64), seed, draw, count)
        return out
    w = words(seed, draw, 2 * count).astype(np.uint64)
    return w[0::2] | (w[1::2] << np.uint64(32))


def uniform(seed: int, draw: int, shape: tuple[int, ...], dtype: Any = np.float32) -> np.ndarray:
    """Uniform numbers in [0, 1) of a floating dtype, C-contiguous."""
    dtype, count = np.dtype(dtype), _count(shape)
    if count <= SMALL:
        out = few(uniform, seed, draw, count, dtype)
    elif (count >= _MANY or "uniform" + dtype.char in _native or "normal" + dtype.char in _native) and (
        dtype.char in "fd" and (f := _kernel("uniform", dtype.char)) is not None
    ):
        out = np.empty(count, dtype)
        f(out, seed, draw, count)
    else:
        out = _to_uniform(_words(seed, draw, 2 * count if dtype == np.float64 else count, 0), dtype)
    return out if len(shape) == 1 else out.reshape(shape)


def _to_uniform(w: np.ndarray, dtype: Any) -> np.ndarray:
    """Words as uniform numbers: one each, two each for float64."""
    if dtype == np.float64:
        out = (w[0::2] >> np.uint32(5)).astype(np.float64)
        out *= 2.0**26
        out += w[1::2] >> np.uint32(6)
        out *= 2.0**-53
        return out
    drop = 8 if dtype == np.float32 else 21
    np.right_shift(w, np.uint32(drop), out=w)
    out = w.astype(np.float32)
    out *= np.float32(2.0 ** (drop - 32))
    return out.astype(dtype, copy=False)


def normal(seed: int, draw: int, shape: tuple[int, ...], dtype: Any = np.float32) -> np.ndarray:
    """Standard normal numbers of a floating dtype, C-contiguous."""
    dtype, count = np.dtype(dtype), _count(shape)
    if count <= SMALL:
        out = few(normal, seed, draw, count, dtype)
    else:
        u = uniform(seed, draw, (count + count % 2,), _computed(dtype))
        out = (_into_normal if count >= _MANY else _to_normal)(u)[:count].astype(dtype, copy=False)
    return out if len(shape) == 1 else out.reshape(shape)


def _computed(dtype: Any) -> Any:
    """The dtype that normal numbers are computed in."""
    return np.dtype(np.float64 if dtype == np.float64 else np.float32)


def _to_normal(u: np.ndarray) -> np.ndarray:
    """An even number of uniform numbers as normal ones, by the machine code that compiled functions have, so that they
    draw the same numbers to the last bit."""
    if (f := _kernel("normal", u.dtype.char)) is not None:
        out = np.empty(u.size, u.dtype)
        f(u, out, u.size // 2)
        return out
    u = u.reshape(-1, 2)
    r = np.subtract(1, u[:, 0])
    np.log(r, out=r)
    r *= -2
    np.sqrt(r, out=r)
    a = np.multiply(u[:, 1], u.dtype.type(2 * np.pi))
    out = np.empty_like(u)
    np.multiply(np.cos(a), r, out=out[:, 0])
    np.multiply(np.sin(a), r, out=out[:, 1])
    return out.reshape(-1)


def _into_normal(u: np.ndarray) -> np.ndarray:
    """``_to_normal`` of many numbers; without machine code in pieces, so that those stay in the cache."""
    from .ops._blocked import in_blocks

    if _kernel("normal", u.dtype.char) is not None:
        return _to_normal(u)

    def piece(at: slice) -> None:
        u[2 * at.start : 2 * at.stop] = _to_normal(u[2 * at.start : 2 * at.stop])

    in_blocks(piece, len(u) // 2)
    return u


# ---- few numbers a draw: what the next draws of the same kind will be is computed ahead, many draws at once ----

SMALL = 256  # numbers in a draw, at most
_AHEAD = 8192  # numbers computed ahead, at most
_KINDS = 16  # (function, count, dtype) that are remembered, at most
_U32, _I64 = np.dtype(np.uint32), np.dtype(np.int64)
_rows: dict[tuple[Any, int, str], tuple[int, int, np.ndarray]] = {}  # seed, first draw, one row a draw; never changed


def few(draws: Any, seed: int, draw: int, count: int, dtype: Any) -> np.ndarray:
    """``row``, as an array of the caller's own."""
    return row(draws, seed, draw, count, dtype).copy()


def ahead(draws: Any, count: int, dtype: Any) -> Any:
    """``row`` of the next draw of the default generator; None where that is of a class of its own."""
    gen = default_generator
    if type(gen) is not Generator:
        return None
    with gen._lock:
        seed, draw = gen._seed, gen._draw
        gen._draw = draw + 1
    found = _rows.get((draws, count, dtype.char))
    if found is not None and found[0] == seed and 0 <= (at := draw - found[1]) < len(found[2]):
        return found[2][at]
    return row(draws, seed, draw, count, dtype)


def row(draws: Any, seed: int, draw: int, count: int, dtype: Any) -> np.ndarray:
    """``draws`` (``words``, ``uniform`` or ``normal``, or what makes rows of them) of at most SMALL numbers, flat;
    ``dtype`` is numpy's. Nobody may
    write into the array.

    Where the draws of one kind follow each other, those that come next are made in the same passes over arrays: no
    number depends on it, and no state but this memory.
    """
    key = draws, count, dtype.char
    found = _rows.get(key)
    many = 1
    if found is not None:
        before, first, rows = found
        at = draw - first
        if before == seed and at >= 0:
            if at < len(rows):
                return rows[at]
            if at < 2 * len(rows) + _KINDS and draw < 1 << 62:  # draws of other kinds may lie between
                many = max(1, min(8 * len(rows), _AHEAD // max(count, 1)))
    elif len(_rows) >= _KINDS:
        _rows.clear()
    rows = _BATCHES.get(draws, draws)(seed, draw, many, count, dtype)
    _rows[key] = seed, draw, rows
    return rows[0]


def _words_of(seed: int, draw: int, many: int, count: int, dtype: Any) -> np.ndarray:
    """The first words of the draws ``draw``, ``draw + 1``...: (many, count)."""
    if many == 1:
        return _words(seed, draw, count, 0).reshape(1, count)
    blocks = (count + 3) // 4
    draws = np.arange(draw, draw + many, dtype=np.uint64).repeat(blocks)
    c0 = np.tile(np.arange(blocks, dtype=np.uint64), many)
    m0, m1, mask, s32 = np.uint64(_M0), np.uint64(_M1), np.uint64(_LOW), np.uint64(32)
    c1, c2, c3 = np.zeros_like(c0), draws & mask, draws >> s32
    k0, k1 = _halves(seed)
    for _ in range(10):
        p0, p1 = c0 * m0, c2 * m1
        c0, c2 = (p1 >> s32) ^ c1 ^ np.uint64(k0), (p0 >> s32) ^ c3 ^ np.uint64(k1)
        c1, c3 = p1 & mask, p0 & mask
        k0, k1 = (k0 + _W0) & _LOW, (k1 + _W1) & _LOW
    out = np.empty((len(c0), 4), np.uint32)
    out[:, 0], out[:, 1], out[:, 2], out[:, 3] = c0, c1, c2, c3
    return np.ascontiguousarray(out.reshape(many, 4 * blocks)[:, :count])


def _uniform_of(seed: int, draw: int, many: int, count: int, dtype: Any) -> np.ndarray:
    w = _words_of(seed, draw, many, 2 * count if dtype == np.float64 else count, None)
    return _to_uniform(w.reshape(-1), dtype).reshape(many, count)


def _normal_of(seed: int, draw: int, many: int, count: int, dtype: Any) -> np.ndarray:
    even = count + count % 2
    z = _to_normal(_uniform_of(seed, draw, many, even, _computed(dtype)))
    return z.reshape(many, even)[:, :count].astype(dtype, order="C")


_BATCHES: dict[Any, Any] = {words: _words_of, uniform: _uniform_of, normal: _normal_of}


@functools.lru_cache(maxsize=64)
def below(n: int) -> Any:
    """What makes rows of integers in [0, n), n at most 2**16."""

    def rows(seed: int, draw: int, many: int, count: int, dtype: Any) -> np.ndarray:
        w = _words_of(seed, draw, many, count, None).astype(np.uint64)
        w *= np.uint64(n)
        w >>= np.uint64(32)
        return w.view(np.int64)

    return rows


def integers(seed: int, draw: int, low: int, high: int, shape: tuple[int, ...]) -> np.ndarray:
    """Integers in [low, high) as int64, C-contiguous; no value is more than a part in 2**16 too likely."""
    count, n = _count(shape), high - low
    if n <= 1 << 16 and count <= SMALL and -(1 << 63) <= low:
        out = few(below(n), seed, draw, count, _I64)
        if low:
            out += low
        return out if len(shape) == 1 else out.reshape(shape)
    if n <= 1 << 16:
        if count >= _MANY and -(1 << 62) < low < 1 << 62 and (f := _kernel("below", "q")) is not None:
            out = np.empty(shape, np.int64)
            f(out, low, n, seed, draw, count)
            return out
        w = words(seed, draw, count).astype(np.uint64)
        w *= np.uint64(n)
        w >>= np.uint64(32)
    else:
        w = bits64(seed, draw, count)
        if not n & (n - 1):
            w &= np.uint64(n - 1)  # all bits for n = 2**64
        else:
            w %= np.uint64(n)
    w += np.uint64(low & (1 << 64) - 1)  # wraps as two's complement
    return w.view(np.int64).reshape(shape)


def permutation(seed: int, draw: int, n: int) -> np.ndarray:
    """A random order of 0 .. n-1 as int64: that of 64 random bits an element, the lowest replaced by its number."""
    return few(permutation, seed, draw, n, _I64) if 2 * n <= SMALL else _order(bits64(seed, draw, n))


def _order(bits: np.ndarray) -> np.ndarray:
    """The random orders that rows of 64 random bits say."""
    n = bits.shape[-1]
    low = np.uint64((1 << max(n - 1, 0).bit_length()) - 1)
    keys = bits & ~low
    keys |= np.arange(n, dtype=np.uint64)
    keys.sort()
    keys &= low
    return keys.view(np.int64)


def _orders_of(seed: int, draw: int, many: int, count: int, dtype: Any) -> np.ndarray:
    w = _words_of(seed, draw, many, 2 * count, None).astype(np.uint64)
    return _order(w[:, 0::2] | (w[:, 1::2] << np.uint64(32)))


_BATCHES[permutation] = _orders_of


def _count(shape: tuple[int, ...]) -> int:
    n = 1
    for s in shape:
        n *= s
    return n


class Generator:
    """A source of draw numbers: state (seed, draw), both 64-bit.

    Threads may share one; each draw number is handed out once.
    """

    __slots__ = ("_seed", "_draw", "_lock", "times_set")

    def __init__(self, device: Any = "cpu") -> None:
        if str(device) != "cpu":
            raise RuntimeError(f"Generator: device {device!s} is not available, only cpu")
        self._seed, self._draw, self._lock = _DEFAULT_SEED, 0, threading.Lock()
        self.times_set = 0  # by a seed or a state

    @property
    def device(self) -> Any:
        import fusegrad

        return fusegrad.device("cpu")

    @property
    def state(self) -> tuple[int, int]:
        """(seed, next draw number)."""
        return self._seed, self._draw

    @state.setter
    def state(self, value: tuple[int, int]) -> None:
        with self._lock:
            self._seed, self._draw = value
            self.times_set += 1

    def take(self, n: int = 1) -> int:
        """Hand out n draw numbers and return the first."""
        with self._lock:
            draw = self._draw
            self._draw = draw + n
        return draw

    def next(self) -> tuple[int, int]:
        """(seed, draw) of one new draw."""
        with self._lock:
            draw = self._draw
            self._draw = draw + 1
            return self._seed, draw

    def manual_seed(self, seed: int) -> Generator:
        """Set the seed (any integer of -2**63 .. 2**64-1) and start again at draw 0."""
        seed = int(seed)
        if not -(1 << 63) <= seed < 1 << 64:
            raise RuntimeError(f"manual_seed: {seed} does not fit 64 bits (allowed -2**63 .. 2**64-1)")
        self.state = seed & (1 << 64) - 1, 0
        return self

    def seed(self) -> int:
        """Seed from the operating system, and return the seed."""
        seed = int.from_bytes(os.urandom(8), "little")
        self.manual_seed(seed)
        return seed

    def initial_seed(self) -> int:
        """The seed in use."""
        return self._seed

    def get_state(self) -> Tensor:
        """The state as 16 bytes: uint8, shape (16,)."""
        from fusegrad.tensor import wrap

        return wrap(np.array(self.state, "<u8").view(np.uint8))

    def set_state(self, state: Tensor) -> None:
        """Restore what get_state gave. Raises TypeError or RuntimeError when it is something else."""
        array = getattr(state, "_data", None)
        if not isinstance(array, np.ndarray) or array.dtype != np.uint8:
            raise TypeError("set_state: expected a uint8 tensor made by get_state")
        if array.shape != (16,):
            raise RuntimeError(f"set_state: expected 16 bytes, got shape {tuple(array.shape)}")
        seed, draw = np.ascontiguousarray(array).view("<u8").tolist()
        self.state = seed, draw

    def clone_state(self) -> Generator:
        """A new generator in the same state."""
        other = Generator()
        other.state = self.state
        return other

    def __reduce__(self) -> tuple:
        return _restore, self.state

    def __repr__(self) -> str:
        return f"<fusegrad.Generator seed={self._seed} draw={self._draw}>"


def _restore(seed: int, draw: int) -> Generator:
    g = Generator()
    g.state = seed, draw
    return g


default_generator = Generator()


def manual_seed(seed: int) -> Generator:
    """Seed the default generator and return it."""
    return default_generator.manual_seed(seed)


def seed() -> int:
    """Seed the default generator from the operating system, and return the seed."""
    return default_generator.seed()


def initial_seed() -> int:
    """The default generator's seed."""
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """The default generator's state: uint8, shape (16,)."""
    return default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Put the default generator into a state given by get_rng_state."""
    default_generator.set_state(new_state)


@contextlib.contextmanager
def fork_rng(devices: Any = None, enabled: bool = True) -> Iterator[None]:
    """Within the block draw as usual; after it the default generator is where it was before."""
    if not enabled:
        yield
        return
    state = default_generator.state
    try:
        yield
    finally:
        default_generator.state = state
