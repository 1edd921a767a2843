"""What the tape over captured code says of a region's results: freed, which leaves, what they share."""

from __future__ import annotations

from typing import Any, NamedTuple

from fusegrad.tensor import Tensor

from .region_split import root_of

__all__ = ["Kept", "is_freed", "kept_by_tape", "leaves_of", "meets", "places_of", "saves", "shares", "spoiled"]


class Kept(NamedTuple):
    """What eager nodes between ``results`` and ``leaves`` (sets as bits) keep: numbers of inputs and of results.

    ``written``: numbers of inputs that the region changes, whose new contents are kept. ``later``: those of the results
    that operators keep to which they are given: as tensors, whose ``.data`` may be set.
    """

    results: int
    leaves: int
    inputs: frozenset[int]
    outputs: frozenset[int]
    written: frozenset[int]
    later: frozenset[int]


def is_freed(t: Tensor) -> bool:
    """Whether the history of ``t`` was freed by a backward pass inside the captured code."""
    todo, seen = [t.grad_fn], set()
    while todo:
        node = todo.pop()
        if node is None or isinstance(node, Tensor) or node in seen:
            continue
        if node.freed:
            return True
        seen.add(node)
        todo.extend(node.edges)
    return False


def shares(results: list[Tensor]) -> list[frozenset[int]]:
    """For each result the numbers of those whose history has a node with saved tensors in common with its own.

    A backward pass frees such nodes, and eager code can't pass through them again; other results it can.
    """
    kept = [{id(n) for n in _history(t) if not isinstance(n, Tensor) and _frees(n)} for t in results]
    return [frozenset(k for k, other in enumerate(kept) if other & mine) for mine in kept]


def inside_of(results: list[Tensor]) -> list[set[int]]:
    """For each result the numbers of those whose nodes are in its history."""
    places: dict[tuple[int, int], int] = {(id(t._node), t._nr): k for k, t in enumerate(results) if t._node is not None}
    found = []
    for t in results:
        ends = {
            (id(e), nr) for n in _history(t) if not isinstance(n, Tensor) for e, nr in zip(n.edges, n.nrs, strict=False)
        }
        found.append({places[end] for end in ends if end in places})
    return found


def computed_from(results: list[Tensor], views: dict[int, Tensor]) -> dict[int, tuple[frozenset[int], list[int]]]:
    """For views among the outputs: the numbers of the results, and which others of these views, that were computed from
    them; without those of which nothing was."""

    if not views:
        return {}
    before = [{id(n) for n in _history(r)} for r in results]
    below = {j: {id(n) for n in _history(v)} for j, v in views.items()}
    found = {
        k: (
            frozenset(i for i, r in enumerate(results) if r is not t and id(t._node) in before[i]),
            [j for j, v in views.items() if v is not t and id(t._node) in below[j]],
        )
        for k, t in views.items()
    }
    return {k: v for k, v in found.items() if any(v)}


def saves(results: list[Tensor], start: int) -> bool:
    """Whether a node that is newer than ``start`` in the history of ``results`` keeps tensors."""
    nodes = [n for t in results for n in _history(t) if not isinstance(n, Tensor)]
    return any(n.seq > start and _frees(n) for n in nodes)


def spoiled(node: Any) -> bool:
    """Whether what a node keeps was changed in place since: eager code fails in its backward."""
    pairs = list(zip(node.saved or (), getattr(node, "versions", None) or (), strict=False))
    pairs = [
        (t, then)
        for s, v in pairs
        for t, then in (zip(s, v, strict=False) if type(s) is type(v) is tuple else [(s, v)])
    ]
    if any(isinstance(t, Tensor) and t._st is not None and t._st.version != then for t, then in pairs):
        return True
    return any(k[1].version != k[2] for k in node.out or () if type(k) is tuple)


def _frees(node: Any) -> bool:
    if node.op is None:  # of control flow: what its bodies keep
        return bool(node.saved) or any(_frees(n) for body in getattr(node, "bodies", ()) for n in body.history())
    return node.op.frees == 1 or (node.op.frees == 2 and node.keeps())


def _history(t: Tensor) -> list[Any]:
    """The nodes and leaves that the history of ``t`` leads to."""
    todo, seen = [t.grad_fn], {}
    while todo:
        node = todo.pop()
        if node is None or id(node) in seen:
            continue
        seen[id(node)] = node
        if not isinstance(node, Tensor):
            todo.extend(node.edges)
    return list(seen.values())


def leaves_of(t: Tensor, candidates: list[tuple[int, Any]]) -> list[int]:
    """The candidates (number, leaf) that the history of ``t`` leads to."""
    seen = set(map(id, _history(t)))
    return [i for i, leaf in candidates if id(leaf) in seen]


def places_of(primals: list[Tensor], written: set[int], values: list[Any]) -> dict[int, tuple[str, int]]:
    """The values (by id) that a call can see: ("input", i) unless it is written, or ("output", j)."""
    places: dict[int, tuple[str, int]] = {id(root_of(v)): ("output", j) for j, v in enumerate(values)}
    for i, t in enumerate(primals):
        value = t._g.cell.source
        if i in written or value.meta.weak:
            places.pop(id(value), None)
        else:
            places[id(value)] = ("input", i)
    return places


def kept_by_tape(
    results: list[Tensor],
    candidates: list[tuple[int, Any]],
    places: dict[int, tuple[str, int]],
    written: dict[int, int],
) -> tuple[Kept, ...]:
    """What the tape under ``results`` keeps of the region's inputs and results.

    Eager code refuses a backward that meets one which was changed in place since; the region must as well, also where
    its own backward does without. ``candidates``: (number, leaf) of the inputs; ``places``: see ``places_of``;
    ``written``: numbers of changed inputs by the ids of their value before and of their storage.
    """
    from_results: dict[int, int] = {}
    nodes: dict[int, Any] = {}
    for k, t in enumerate(results):
        for node in _history(t):
            nodes[id(node)] = node
            from_results[id(node)] = from_results.get(id(node), 0) | 1 << k
    to_leaves = {id(leaf): 1 << i for i, leaf in candidates}
    found: dict[tuple[int, int], tuple[set[int], ...]] = {}
    for node in sorted((n for n in nodes.values() if not isinstance(n, Tensor)), key=lambda n: n.seq):
        leaves = 0
        for e in node.edges:
            leaves |= 0 if e is None else to_leaves.get(id(e), 0)
        to_leaves[id(node)] = leaves
        for what, i in _kept(node, places, written):
            sets = found.setdefault((from_results[id(node)], leaves), (set(), set(), set(), set()))
            sets[_KINDS.index(what)].add(i)
    return tuple(Kept(r, v, *map(frozenset, sets)) for (r, v), sets in found.items())


_KINDS = ("input", "output", "written", "later")


def _kept(node: Any, places: dict[int, tuple[str, int]], written: dict[int, int]) -> list[tuple[str, int]]:
    """What a node keeps that a call can see."""
    found = []
    own = {id(k[0]) for k in node.out or () if type(k) is tuple}
    for saved in _saved(node):
        cell = saved.cell if hasattr(saved, "cell") else saved._g.cell
        value = _value(saved)
        if value is not None and id(cell.source) in written and cell.version:
            found.append(("written", written[id(cell.source)]))
        elif id(value) in places:
            found.append(places[id(value)])
            if found[-1][0] == "output" and id(saved) not in own:
                found.append(("later", found[-1][1]))
    for k in node.out or ():  # the result of an operator in place: kept as what it was written to
        if type(k) is tuple and id(k[1]) in written and k[1].version == k[2]:
            found.append(("written", written[id(k[1])]))
    return found


def _saved(node: Any) -> list[Any]:
    """The recorded tensors, or their places in the graph, that a node keeps."""
    out: list[Any] = []
    for s in node.saved or ():
        out.extend(s if type(s) is tuple else (s,))
    out.extend(k[0] for k in node.out or () if type(k) is tuple)
    if getattr(node, "read", False):  # a custom Function, whose backward looked at what it saved
        out.extend(x[0] if type(x) is tuple else x for _, x, _ in node.kept)
    return [s for s in out if hasattr(s, "cell") or (isinstance(s, Tensor) and s._data is None)]


def _value(saved: Any) -> Any:
    """The value whose memory a saved tensor looks at; None if the storage was written since."""
    place = saved if hasattr(saved, "cell") else saved._g
    return root_of(place.value) if place.version == place.cell.version else None


def meets(tape: tuple[Kept, ...], what: str, i: int, results: frozenset[int], leaves: int) -> bool:
    """Whether eager code reads what it kept of input or result ``i`` on the way from ``results`` to ``leaves``."""
    mask = sum(1 << k for k in results)
    return any(k.results & mask and k.leaves & leaves and i in getattr(k, what) for k in tape)
