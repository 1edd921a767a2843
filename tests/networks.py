"""Random small networks on tensors of any kind: what the fuzz tests of the lowering and of regions train.

Values are stacks of images (N, C, H, W). Steps are layers with a batch statistic, windows, joins, several readers of
a value, library calls between loops, and library calls that return views of what they are given.
"""

from __future__ import annotations

import numpy as np

import fusegrad as fg

F = fg.nn.functional
CHANNELS, SIZE = 4, 6


class Network:
    """A random network; calling it gives one to three results."""

    def __init__(self, seed):
        self.seed = seed
        rng = np.random.default_rng(seed)
        c = CHANNELS
        self.arrays = [
            rng.normal(size=(2, c, SIZE, SIZE)),
            rng.normal(size=(c, c, 3, 3)) * 0.3,
            rng.normal(size=(c, c, 2, 2)) * 0.3,
            rng.uniform(0.5, 1.5, c),
            rng.normal(size=c) * 0.1,
        ]

    def __call__(self, x, weight, narrow, gain, shift):
        rng = np.random.default_rng(self.seed + 1)
        self.weight, self.narrow, self.gain, self.shift = weight, narrow, gain, shift
        pool = [x]
        for _ in range(int(rng.integers(3, 9))):
            made = getattr(self, f"_{rng.choice(LAYERS)}")(rng, self.pick(rng, pool), pool)
            if made is not None and 0 < made.numel() <= 2000:
                pool.append(made)
        last = [pool[-1 - int(k)] for k in sorted(set(rng.integers(0, min(len(pool), 3), int(rng.integers(1, 4)))))]
        return tuple(last)

    def pick(self, rng, pool):
        """Recent values are more likely."""
        return pool[len(pool) - 1 - min(int(rng.exponential(0.8)), len(pool) - 1)]

    def other(self, rng, x, pool):
        same = [v for v in pool if tuple(v.shape) == tuple(x.shape)]
        return same[int(rng.integers(len(same)))]

    def norm(self, x):
        return F.batch_norm(x, None, None, self.gain, self.shift, True, eps=0.1)

    def _conv(self, rng, x, pool):
        if rng.integers(3):
            return F.conv2d(x, self.weight, padding=1)
        return F.conv2d(x, self.weight, self.shift, padding=1, stride=2)

    def _up(self, rng, x, pool):
        if rng.integers(2):
            return F.conv_transpose2d(x, self.narrow, stride=2)
        return F.interpolate(x, scale_factor=2, mode=["nearest", "bilinear"][int(rng.integers(2))])

    def _norm(self, rng, x, pool):
        k = rng.integers(4)
        if k == 0:
            return F.group_norm(x, 2, self.gain, self.shift, eps=0.1)
        return F.relu(self.norm(x)) if k == 1 else self.norm(x)

    def _residual(self, rng, x, pool):
        y = self.other(rng, x, pool)
        if rng.integers(2):
            y = self.norm(F.conv2d(y, self.weight, padding=1))
        return F.relu(x + y)

    def _point(self, rng, x, pool):
        k = rng.integers(8)
        if k < 5:
            return [F.relu, fg.tanh, F.gelu, F.silu, F.leaky_relu][k](x)
        if k == 5:
            return x * x.mean((2, 3), keepdim=True).sigmoid()
        return fg.where(x > 0, x, self.other(rng, x, pool) * 0.5)

    def _pool(self, rng, x, pool):
        if min(x.shape[2:]) < 2:
            return None
        k = rng.integers(4)
        if k == 0:
            return F.avg_pool2d(x, 2)
        if k == 1:
            return F.adaptive_avg_pool2d(x, 2)
        return F.max_pool2d(x, 2) if k == 2 else F.max_pool2d(x, 3, stride=1, padding=1)

    def _join(self, rng, x, pool):
        """Channels from two values, and back to the usual number of them."""
        joined = fg.cat([x, self.other(rng, x, pool)], 1)
        if rng.integers(2):
            return F.conv2d(joined, fg.cat([self.weight, self.weight * 0.5], 1), padding=1)
        first, second = joined.chunk(2, 1)
        return first * fg.tanh(second)

    def _call(self, rng, x, pool):
        """Library calls: of their own memory, or views (copies only where they must) of what they are given."""
        k = rng.integers(9)
        return [
            lambda: x.cumsum(-1) * 0.3,
            lambda: x.sort(-1)[0],
            lambda: F.pad(x, (1, 0, 0, 1), mode="reflect") if min(x.shape[2:]) > 1 else None,
            lambda: x.roll(1, 2),
            lambda: x.flip(3).contiguous(),
            lambda: x.unfold(3, 2, 1).sum(-1) if x.shape[3] > 1 else None,
            lambda: x.diagonal(0, 2, 3).cumsum(-1).unsqueeze(-1) * 0.3,
            lambda: F.pixel_shuffle(fg.cat([x] * 4, 1), 2).cumsum(2) * 0.3 if x.shape[2] < 5 else None,
            lambda: (x.flatten(2).transpose(1, 2) @ self.weight[:, :, 0, 0]).transpose(1, 2).reshape(x.shape),
        ][k]()

    def loss(self, outs):
        """One number from the results, with a different gradient at each element."""
        total = 0.0
        for k, out in enumerate(outs):
            total = total + (out * out * (0.5 + 0.1 * k)).sum() + (out.sin() * 0.3).sum()
        return total


LAYERS = (
    ["conv"] * 4 + ["norm"] * 3 + ["residual"] * 4 + ["point"] * 3 + ["pool"] * 3 + ["join"] * 2 + ["call"] * 2 + ["up"]
)
