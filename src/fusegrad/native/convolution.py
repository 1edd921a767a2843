"""A convolution as the body of a nest: what is summed, in which blocks, and the memory it needs."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["LARGE", "SLOTS", "Convolution", "Pair"]

SLOTS = 64  # images with borders that may be in use at once: one for each thread
NEAR = 1 << 19  # bytes of samples that are added to the accumulators together
LARGE = 1 << 20  # bytes of weights from which each block of them is used for a whole image

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Convolution:
    """The body of a nest over samples (``sums``) or blocks of outputs (``weights``); names of buffers, then sizes.

    ``weight``: offset and strides of [o, c, ky, kx] in ``w``. ``target``: sizes of an image of ``y``, its first row
    and column that are written, and their distances.  In ``weights``, ``y`` is the cotangent, and ``w`` is written.
    """

    what: str
    x: str
    w: str
    y: str
    border: str  # memory for images with their border
    sums: str  # memory for the accumulators of `weights`
    channels: int
    outputs: int
    size: Pair
    low: Pair
    grid: Pair
    taps: Pair
    step: Pair
    dilation: Pair
    weight: tuple[int, int, int, int, int]
    target: tuple[int, int, int, int, int, int]
    lanes: int
    budget: int  # accumulators of a block of `sums`; `weights` takes half as many again

    @property
    def buffers(self) -> tuple[str, ...]:
        """What it reads and writes."""
        return tuple(name for name in (self.x, self.w, self.y, self.border, self.sums) if name)

    @property
    def reach(self) -> Pair:
        """Rows and columns of the image that are used."""
        return tuple(  # type: ignore[return-value]
            (n - 1) * s + (k - 1) * d + 1
            for n, s, k, d in zip(self.grid, self.step, self.taps, self.dilation, strict=True)
        )

    @property
    def bytes(self) -> int:
        """Of one element."""
        return 64 // self.lanes

    @property
    def together(self) -> int:
        """Samples that `weights` goes through for each block."""
        image = self.channels * self.pitch[0] + self.outputs * self.grid[0] * self.grid[1]
        return max(1, min(16, NEAR // (image * self.bytes)))

    @property
    def vectors(self) -> int:
        """Vectors in a row of the grid."""
        return -(-self.grid[1] // self.lanes)

    @property
    def bordered(self) -> bool:
        """Whether the image is more than a part of the input."""
        return self.low != (0, 0) or any(r > s for r, s in zip(self.reach, self.size, strict=True))

    @property
    def pitch(self) -> Pair:
        """Distances of channels and of rows in the image, in elements."""
        rows, columns = self.reach if self.bordered else self.size
        return rows * columns, columns

    @property
    def beyond(self) -> int:
        """Elements that the last vector of `sums` reads behind the image (`weights` reads what it uses)."""
        if self.what == "weights":
            return 0
        columns = -(-self.vectors // self.wide) * self.wide * self.lanes
        last = columns * self.step[1] + (self.taps[1] - 1) * self.dilation[1]
        return max(0, (self.reach[0] - 1) * self.pitch[1] + last - self.pitch[0])

    @property
    def slot(self) -> int:
        """Elements of one image in ``border``."""
        return self.channels * self.pitch[0] + self.beyond

    @property
    def copies(self) -> int:
        """Images that ``border`` must hold."""
        if self.what == "weights":
            return self.blocks[0] * self.together if self.bordered else 0
        return SLOTS if self.bordered else 1 if self.beyond else 0

    @property
    def wide(self) -> int:
        """Vectors of a block of `sums`."""
        v = self.vectors
        return v if v <= 3 else 2 if v % 2 == 0 or v % 3 else 3

    @property
    def block(self) -> Pair:
        """Outputs and channels of a block."""
        if self.what == "sums":
            return _even_block(self.outputs, max(1, self.budget // self.wide if self.wide < 3 else self.budget // 2)), 1
        channels = 1 if self.taps[1] > 1 else _even_block(self.channels, 4)
        most = self.budget * 3 // 2 // (self.taps[1] * channels)
        return _even_block(self.outputs, max(1, min(6, most))), channels

    @property
    def blocks(self) -> Pair:
        o, c = self.block
        return -(-self.outputs // o), -(-self.channels // c)

    @property
    def work(self) -> int:
        """Multiplications for one sample."""
        return math.prod((self.outputs, self.channels, *self.taps, self.grid[0], self.vectors * self.lanes))

    @property
    def accumulators(self) -> int:
        """Elements of ``sums``."""
        o, c = self.block
        return math.prod(self.blocks) * self.taps[0] * self.taps[1] * o * c * self.lanes


def _even_block(n: int, most: int) -> int:
    """The size of the fewest blocks that cover n."""
    return -(-n // -(-n // most))
