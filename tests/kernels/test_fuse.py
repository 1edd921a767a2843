"""Which stages share loops, which must not, and what is said about it."""

from __future__ import annotations

import numpy as np
from fusegrad.compiler.kernel.affine import (
    Ix,
    NeedSplit,
    Space,
    counter,
    delinearize,
    divmod_ix,
    linearize,
    reshape_index,
)
from fusegrad.compiler.kernel.fuse import fuse, match
from fusegrad.compiler.kernel.memory import Temp, assign_slots, dense_order, dense_strides
from fusegrad.compiler.kernel.stages import analyse
from graphs import arr, check, graph_of

import fusegrad as fg
from fusegrad.meta import Meta


def groups(f, *arrays):
    fusion = fuse(analyse(graph_of(f, arrays)))
    return [
        g.name if g.node is not None else "+".join(s.value.node.op.name for s in g.stages) for g in fusion.groups
    ], fusion


def test_a_chain_is_one_stage():
    names, _ = groups(lambda a: (a * 2 + 1).tanh(), arr(3, 4))
    assert names == ["tanh"]


def test_siblings_that_read_the_same_share_a_loop():
    names, _ = groups(lambda a, b: (a.exp() * b, a.sin() + b), arr(3, 4), arr(3, 4))
    assert len(names) == 1


def test_softmax_is_one_group_with_three_phases():
    names, fusion = groups(lambda a: fg.softmax(a, -1), arr(3, 4))
    assert len(names) == 1 and fusion.groups[0].row


def test_a_group_is_convex():
    """a -> product -> c: a and c also read the same input, but must not run as one."""
    names, fusion = groups(lambda x: (lambda a: a.matmul(a) + a.exp() * x)((x * 2).tanh()), arr(4, 4))
    assert names.index("matmul") == 1 and len(names) == 3
    assert any("matmul must run between them" in r for r in fusion.refusals)


def test_rows_and_columns_stay_apart_with_a_reason():
    _, fusion = groups(lambda a: (a.sum(0), a.sum(1)), arr(3, 4))
    assert len(fusion.groups) == 2
    (why,) = fusion.refusals
    assert "stay apart" in why and "sum#0" in why and "sum#1" in why


def test_a_value_read_at_other_places_is_stored_first():
    _, fusion = groups(lambda a: (lambda e: (e, e.flip(0) + 1, e.transpose(0, 1) * 2))(a.exp()), arr(4, 4))
    order = [s.name for g in fusion.groups for s in g.stages]
    assert order[0].startswith("exp")
    assert any("at other places" in r for r in fusion.refusals)


def test_quotient_graph_stays_acyclic():
    """p -> q and r -> s with p, s and r, q sharing inputs: merging both pairs would make a cycle."""

    def f(x, y):
        p, r = (x * 2).tanh(), (y * 3).tanh()
        q = p.flip(0).exp() * y + p
        s = r.flip(0).exp() * x + r
        return p, q, r, s

    check(f, arr(5, 5), arr(5, 5))


def test_large_loops_do_not_run_under_a_full_reduction():
    _, fusion = groups(lambda a: a / (a * a).sum().sqrt(), arr(600, 600))
    assert len(fusion.groups) == 2
    _, fusion = groups(lambda a: a / (a * a).sum().sqrt(), arr(6, 6))
    assert len(fusion.groups) == 1


def test_match():
    i, j = counter(0), counter(1)
    assert match((i, j), (i, j), [3, 4], [3, 4]) == {0: 0, 1: 1}
    assert match((i, j), (j, i), [3, 4], [4, 3]) == {0: 1, 1: 0}
    assert match((i,), (i + 1,), [3], [3]) is None
    assert match((i,), (i.scale(2),), [3], [3]) is None
    assert match((i,), (i,), [3], [4]) is None
    assert match((i.scale(4) + j,), (i.scale(4) + j,), [3, 4], [3, 4]) == {0: 0, 1: 1}


def _value(ix, counters):
    return ix.const + sum(c * counters[a] for a, c in ix.terms)


def test_delinearize_undoes_linearize():
    space = Space([3, 4, 5])
    index = [counter(0), counter(1), counter(2)]
    back = delinearize(linearize(index, [3, 4, 5]), [3, 4, 5], space, None)
    assert back == tuple(index)


def test_reshapes_ask_for_split_loops():
    space = Space([12])
    try:
        reshape_index((counter(0),), (12,), (3, 4), space, None)
    except NeedSplit as need:
        assert (need.axis, need.inner) == (0, 4)
    else:
        raise AssertionError("no split asked for")
    split = Space([3, 4])
    index = reshape_index((counter(0).scale(4) + counter(1),), (12,), (3, 4), split, None)
    assert index == (counter(0), counter(1))


def test_divmod_by_values():
    rng = np.random.default_rng(0)
    for _ in range(300):
        sizes = [int(s) for s in rng.integers(1, 6, 3)]
        space = Space(sizes)
        n = int(rng.integers(1, 13))
        terms = tuple((a, int(c)) for a, c in enumerate(rng.integers(1, 14, 3)))
        ix = Ix(terms, int(rng.integers(0, 20)))
        space.splits = False
        q, r = divmod_ix(ix, n, space, lambda ix, n: ("quotient", "remainder"))
        if q.dyn:
            continue
        for counters in np.ndindex(*sizes):
            assert divmod(_value(ix, counters), n) == (_value(q, counters), _value(r, counters))


def test_slots_are_shared_by_lives_that_do_not_overlap():
    class Fake:
        def __init__(self, n):
            self.meta = Meta((n,), fg.float32)

    temps = [Temp(Fake(10), 0, 1), Temp(Fake(8), 2, 3), Temp(Fake(8), 1, 2), Temp(Fake(10), 4, 5)]
    slots = assign_slots(temps, lambda new, old: False)
    assert len(slots) == 2
    for slot in slots:
        lives = sorted((t.first, t.last) for t in slot.temps)
        assert all(a[1] < b[0] for a, b in zip(lives, lives[1:], strict=False))


def test_dense_layouts():
    assert dense_order(Meta((3, 4), fg.float32)) is None
    assert dense_order(Meta((3, 4), fg.float32, (4, 1))) is None
    assert dense_order(Meta((3, 4), fg.float32, (1, 3))) == (1, 0)
    assert dense_order(Meta((3, 4), fg.float32, (8, 1))) is None
    assert dense_order(Meta((2, 3, 4), fg.float32, (1, 8, 2))) == (1, 2, 0)
    assert dense_strides((2, 3, 4), (1, 2, 0)) == (1, 8, 2)
