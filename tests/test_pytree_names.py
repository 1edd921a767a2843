"""``utils._pytree``: PyTorch's names for nested containers, with None as a leaf."""

from collections import OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass

import pytest

import fusegrad as T

pt = T.utils._pytree
Pair = namedtuple("Pair", "a b")


def tree():
    return {
        "b": 5,
        "a": [None, (1, 2.5)],
        "c": Pair(7, "s"),
        "d": OrderedDict(z=1, y=2),
        "e": deque([1, 2], maxlen=3),
        "f": defaultdict(list, {"k": [1]}),
    }


def test_leaves_come_in_order_and_go_back():
    leaves, spec = pt.tree_flatten(tree())
    assert leaves == [5, None, 1, 2.5, 7, "s", 1, 2, 1, 2, 1] and spec.num_leaves == 11
    back = pt.tree_unflatten(list(range(11)), spec)
    assert back == {
        "b": 0,
        "a": [1, (2, 3)],
        "c": Pair(4, 5),
        "d": OrderedDict(z=6, y=7),
        "e": deque([8, 9]),
        "f": {"k": [10]},
    }
    assert back["e"].maxlen == 3 and back["f"].default_factory is list and type(back["c"]) is Pair
    assert pt.tree_structure([1, 2]) == pt.tree_structure([3, None]) != pt.tree_structure([3, [4]])
    assert list(pt.tree_iter([1, [2, None]])) == [1, 2, None]
    assert pt.tree_leaves([1, [2]], is_leaf=lambda x: isinstance(x, list) and len(x) == 1) == [1, [2]]
    assert pt.tree_leaves(3) == [3] and pt.tree_structure(3) == pt.LeafSpec()


def test_functions_of_leaves():
    assert pt.tree_map(lambda x: x is None, [None, {"q": 1}]) == [True, {"q": False}]
    assert pt.tree_map(lambda a, b: a + b, [1, {"q": 2}], [3, {"q": 4}]) == [4, {"q": 6}]
    with pytest.raises(ValueError):
        pt.tree_map(lambda a, b: a + b, [1, {"q": 2}], [3, 4])
    assert pt.tree_map_only(int, lambda x: x + 1, [1, None, (2.5, 3)]) == [2, None, (2.5, 4)]
    assert pt.tree_map_only((int, float), lambda x: x + 1, [1, "s", (2.5, 3)]) == [2, "s", (3.5, 4)]
    assert pt.tree_map_only(lambda x: x == 1, lambda x: x + 1, [1, 3]) == [2, 3]
    seen, given = [], [1, (None, "s")]
    assert pt.tree_map_(seen.append, given) is given and seen == [1, None, "s"]
    assert pt.tree_map_only_(str, seen.append, given) is given and seen[3:] == ["s"]
    assert pt.tree_any(lambda x: x is None, given) and not pt.tree_all(lambda x: x is None, given)
    assert pt.tree_all_only(int, lambda x: x > 0, given) and not pt.tree_any_only(int, lambda x: x > 1, given)


def test_own_containers():
    @dataclass
    class Both:
        x: object
        y: object

    pt.register_pytree_node(Both, lambda d: ([d.x, d.y], None), lambda parts, _: Both(*parts))
    assert pt.tree_map(lambda v: v * 2, Both(1, [2, 3])) == Both(2, [4, 6])


def test_captured_without_a_break():
    def f(tree):
        doubled = pt.tree_map_only(T.Tensor, lambda v: v * 2, tree)
        return [v.sum() if v is not None else 0 for v in pt.tree_leaves(doubled)]

    T.compiler.reset()
    g = T.compile(f)
    for given in ({"a": T.ones(3), "b": [None]}, {"a": T.ones(3), "b": [None, T.ones(1)]}):
        assert [float(v) for v in g(given)] == [float(v) for v in f(given)]
    assert T.compiler.stats()["graph_breaks"] == 0
