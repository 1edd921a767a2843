"""Drawings of the dynamic graph: ``print(viz.graph(loss))``, ``viz.graph(loss).save("graph.html")``."""

from __future__ import annotations

from .drawing import Drawing, graph

__all__ = ["Drawing", "graph"]
