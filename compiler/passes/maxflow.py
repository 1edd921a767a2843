"""Maximum flow and the minimum cut it proves (Dinic's algorithm, iterative)."""

from __future__ import annotations

from collections import deque

__all__ = ["INFINITE", "Network"]

INFINITE = float("inf")


class Network:
    """A directed network on nodes ``0 .. n-1`` with capacities; edges are stored as pairs (edge, reverse edge)."""

    def __init__(self, size: int) -> None:
        self.heads: list[list[int]] = [[] for _ in range(size)]
        self.to: list[int] = []
        self.room: list[float] = []

    def edge(self, a: int, b: int, capacity: float) -> None:
        """Add an edge a -> b."""
        self.heads[a].append(len(self.to))
        self.to.append(b)
        self.room.append(capacity)
        self.heads[b].append(len(self.to))
        self.to.append(a)
        self.room.append(0.0)

    def _levels(self, source: int) -> list[int]:
        level = [-1] * len(self.heads)
        level[source] = 0
        queue = deque([source])
        while queue:
            a = queue.popleft()
            for e in self.heads[a]:
                b = self.to[e]
                if level[b] < 0 and self.room[e] > 1e-9:
                    level[b] = level[a] + 1
                    queue.append(b)
        return level

    def _augment(self, source: int, sink: int, level: list[int], start: list[int]) -> float:
        path: list[int] = []
        a = source
        while a != sink:
            edges = self.heads[a]
            while start[a] < len(edges):
                e = edges[start[a]]
                if self.room[e] > 1e-9 and level[self.to[e]] == level[a] + 1:
                    break
                start[a] += 1
            if start[a] < len(edges):
                path.append(edges[start[a]])
                a = self.to[path[-1]]
            elif path:  # dead end: step back
                a = self.to[path.pop() ^ 1]
                start[a] += 1
            else:
                return 0.0
        amount = min(self.room[e] for e in path)
        for e in path:
            self.room[e] -= amount
            self.room[e ^ 1] += amount
        return amount

    def min_cut(self, source: int, sink: int) -> set[int]:
        """The source side of a minimum cut (the smallest one). ValueError if every cut is infinite."""
        while True:
            level = self._levels(source)
            if level[sink] < 0:
                return {i for i, d in enumerate(level) if d >= 0}
            start = [0] * len(self.heads)
            while (amount := self._augment(source, sink, level, start)) > 0:
                if amount == INFINITE:
                    raise ValueError("no finite cut separates source and sink")
