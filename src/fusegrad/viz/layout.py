"""A small layered layout: layers by longest path, fewer crossings by barycentres, places by least squares.

Boxes have sizes; an arrow leads from an earlier box to a later one. Arrows over several layers pass through points of
the layers between, which take part in the ordering like narrow boxes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

GAP_X, GAP_Y, POINT = 26.0, 38.0, 8.0
_SWEEPS = 8
_WIDE = 1600  # cells in a layer above which crossings are not worked on


@dataclass
class Cell:
    """A box (``box`` >= 0) or a point of a long arrow, in its layer."""

    box: int
    layer: int
    width: float
    height: float
    x: float = 0.0  # centre
    y: float = 0.0  # top
    up: list[int] = field(default_factory=list)
    down: list[int] = field(default_factory=list)


@dataclass
class Layout:
    """Places of the boxes (centre x, top y) and of the arrows (points from source to target)."""

    places: list[tuple[float, float]]
    paths: list[list[tuple[float, float]]]
    width: float
    height: float


def layers_of(count: int, arrows: Sequence[tuple[int, int]]) -> list[int]:
    """The layer of every box: one below its lowest source, then down to its readers where no arrow gets longer."""
    layer = [0] * count
    sources: list[list[int]] = [[] for _ in range(count)]
    targets: list[list[int]] = [[] for _ in range(count)]
    for s, t in arrows:
        sources[t].append(s)
        targets[s].append(t)
    order = _topological(sources, targets)
    for i in order:
        layer[i] = max((layer[s] + 1 for s in sources[i]), default=0)
    for i in reversed(order):
        if targets[i] and len(sources[i]) <= len(targets[i]):
            layer[i] = min(layer[t] for t in targets[i]) - 1
    return layer


def _topological(sources: list[list[int]], targets: list[list[int]]) -> list[int]:
    """The boxes in an order in which every arrow leads forward."""
    waiting = [len(s) for s in sources]
    order = [i for i, n in enumerate(waiting) if not n]
    for i in order:  # grows on the way
        for t in targets[i]:
            waiting[t] -= 1
            if not waiting[t]:
                order.append(t)
    return order


def place(sizes: Sequence[tuple[float, float]], arrows: Sequence[tuple[int, int]]) -> Layout:
    """Lay out boxes of the given sizes (width, height) joined by ``arrows``."""
    layer = layers_of(len(sizes), arrows)
    cells = [Cell(i, layer[i], w, h) for i, (w, h) in enumerate(sizes)]
    chains = [_chain(cells, s, t) for s, t in arrows]
    rows: list[list[int]] = [[] for _ in range(max(layer, default=0) + 1)]
    for i, c in enumerate(cells):
        rows[c.layer].append(i)
    _order(cells, rows)
    _vertical(cells, rows)
    _horizontal(cells, rows)
    left = min((c.x - c.width / 2 for c in cells), default=0.0)
    for c in cells:
        c.x -= left
    width = max((c.x + c.width / 2 for c in cells), default=0.0)
    height = max((c.y + c.height for c in cells), default=0.0)
    return Layout([(c.x, c.y) for c in cells[: len(sizes)]], _paths(cells, chains, rows), width, height)


def _chain(cells: list[Cell], s: int, t: int) -> list[int]:
    """The cells of one arrow, with the points between added."""
    chain = [s]
    for at in range(cells[s].layer + 1, cells[t].layer):
        cells.append(Cell(-1, at, POINT, 0.0))
        chain.append(len(cells) - 1)
    chain.append(t)
    for a, b in zip(chain, chain[1:], strict=False):
        cells[a].down.append(b)
        cells[b].up.append(a)
    return chain


def _order(cells: list[Cell], rows: list[list[int]]) -> None:
    """Sort the rows by the mean place of the neighbours, down and up in turn; the best order found is kept."""
    if max(map(len, rows), default=0) > _WIDE:
        return
    best, fewest = [list(r) for r in rows], _crossings(cells, rows)
    for sweep in range(_SWEEPS):
        if not fewest:
            break
        down = sweep % 2 == 0
        for r in range(1, len(rows)) if down else range(len(rows) - 2, -1, -1):
            other = rows[r - 1 if down else r + 1]
            at = {c: i for i, c in enumerate(other)}
            keys = {}
            for i, c in enumerate(rows[r]):
                near = cells[c].up if down else cells[c].down
                keys[c] = sum(at[x] for x in near) / len(near) if near else i * len(other) / max(1, len(rows[r]))
            rows[r].sort(key=keys.__getitem__)
        now = _crossings(cells, rows)
        if now < fewest:
            best, fewest = [list(r) for r in rows], now
    rows[:] = best


def _crossings(cells: list[Cell], rows: list[list[int]]) -> int:
    """How many pairs of arrow pieces cross, by counting inversions with a binary indexed tree."""
    total = 0
    for r in range(1, len(rows)):
        at = {c: i for i, c in enumerate(rows[r])}
        ends = [at[d] for c in rows[r - 1] for d in sorted(cells[c].down, key=at.__getitem__)]
        tree = [0] * (len(rows[r]) + 1)
        for seen, e in enumerate(ends):
            i, below = e + 1, 0
            while i:
                below += tree[i]
                i &= i - 1
            total += seen - below
            i = e + 1
            while i < len(tree):
                tree[i] += 1
                i += i & -i
    return total


def _vertical(cells: list[Cell], rows: list[list[int]]) -> None:
    y = 0.0
    for row in rows:
        tallest = max((cells[c].height for c in row), default=0.0)
        for c in row:
            cells[c].y = y + (tallest - cells[c].height) / 2
        y += tallest + GAP_Y


def _horizontal(cells: list[Cell], rows: list[list[int]]) -> None:
    """Move every row towards the mean of its neighbours, keeping the order and the gaps."""
    for row in rows:
        x = 0.0
        for c in row:
            cells[c].x = x + cells[c].width / 2
            x += cells[c].width + GAP_X
        for c in row:
            cells[c].x -= x / 2
    for sweep in range(2 * _SWEEPS):
        down = sweep % 2 == 0
        for row in rows if down else reversed(rows):
            want = []
            for c in row:
                near = cells[c].up if down else cells[c].down
                if sweep >= _SWEEPS:
                    near = cells[c].up + cells[c].down
                want.append(sum(cells[x].x for x in near) / len(near) if near else cells[c].x)
            for c, x in zip(row, _spread(want, [cells[c].width for c in row]), strict=True):
                cells[c].x = x


def _spread(want: list[float], widths: list[float]) -> list[float]:
    """The places nearest to ``want`` (least squares) in the same order that keep the gaps: isotonic regression."""
    offset, offsets = 0.0, []
    for i, w in enumerate(widths):
        offset += (widths[i - 1] + w) / 2 + GAP_X if i else 0.0
        offsets.append(offset)
    blocks: list[tuple[float, int]] = []  # (sum, count) of merged neighbours
    for w, o in zip(want, offsets, strict=True):
        total, n = w - o, 1
        while blocks and blocks[-1][0] / blocks[-1][1] > total / n:
            before = blocks.pop()
            total, n = total + before[0], n + before[1]
        blocks.append((total, n))
    level = [total / n for total, n in blocks for _ in range(n)]
    return [a + o for a, o in zip(level, offsets, strict=True)]


def _paths(cells: list[Cell], chains: list[list[int]], rows: list[list[int]]) -> list[list[tuple[float, float]]]:
    """Points of each arrow; its ends are spread along the edges of the boxes."""
    bottom: dict[int, float] = {}
    for row in rows:
        low = max((cells[c].y + cells[c].height for c in row), default=0.0)
        for c in row:
            bottom[c] = low
    ends = {}
    for c, cell in enumerate(cells):
        for side in ("up", "down"):
            near = sorted(set(getattr(cell, side)), key=lambda x: cells[x].x)
            step = min(18.0, cell.width * 0.8 / max(1, len(near)))
            for i, x in enumerate(near):
                ends[c, x, side] = cell.x + (i - (len(near) - 1) / 2) * step
    paths = []
    for chain in chains:
        s, t = chain[0], chain[-1]
        points = [(ends[s, chain[1], "down"], cells[s].y + cells[s].height)]
        points += [(cells[c].x, (cells[c].y + bottom[c]) / 2) for c in chain[1:-1]]
        points.append((ends[t, chain[-2], "up"], cells[t].y))
        paths.append(points)
    return paths
