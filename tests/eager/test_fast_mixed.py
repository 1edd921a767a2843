"""Operators of two tensors of different dtypes, of integers and a float, and ``where`` with a number: their fast
paths give what the dispatcher gives. Ranges of few numbers that were made before are made again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusegrad as fg
from fusegrad import Tensor, families
from fusegrad.autograd.modes import SLOW
from fusegrad.callfast import fast_kind
from fusegrad.op import TABLE, Op

families.load_all()
BINARY = [o for o in TABLE.values() if fast_kind(o) and len(o.sig.tensors) == 2]
KINDS = [fg.float16, fg.float32, fg.float64, fg.int64, fg.uint8, fg.bool]
SHAPES = [((2, 3), (3,)), ((3,), ()), ((), (3,))]


def made(shape: tuple, kind: Any, ask: bool) -> Tensor:
    a = np.arange(1.0, 1 + np.prod(shape, dtype=int)).reshape(shape)
    t = fg.tensor(a / 4 if kind.is_floating_point else a, dtype=kind)
    return t.requires_grad_() if ask and kind.is_floating_point else t


def seen(t: Tensor) -> tuple:
    return t._data.tobytes(), t._data.shape, t._data.strides, t.dtype


def outcome(run: Callable[..., Any], given: list[Any], slow: bool) -> Any:
    """What a call returns, what its node keeps, and the gradients."""
    SLOW[0] += slow
    try:
        with np.errstate(all="ignore"):
            y = run(*given)
        node = y._node
        kept = node and (
            [s if not isinstance(s, Tensor) else [s is g for g in given] for s in node.saved],
            *(
                node.versions,
                node.attrs,
                [e is not None and [e is g for g in given] for e in node.edges],
                node.shape,
                node.dtype,
            ),
            node.out and [o and seen(fg.from_numpy(o[0])) for o in node.out],
        )
    except Exception as e:  # noqa: BLE001  (compared)
        return type(e), str(e)
    finally:
        SLOW[0] -= slow
    said = None
    try:
        if y._rg:
            with np.errstate(all="ignore"):
                y.sum().backward()
    except RuntimeError as e:  # rules that subtract masks
        said = str(e)
    return said, seen(y), kept, [g.grad is not None and seen(g.grad) for g in given if isinstance(g, Tensor)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("op", BINARY, ids=lambda o: o.name)
def test_tensors_of_two_dtypes(op: Op) -> None:
    for a in KINDS:
        for b in KINDS:
            for one, two in SHAPES if a is not b else ():
                for ask in (True, False) if one == (2, 3) else (True,):
                    fast, slow = (outcome(op.fn, [made(one, a, ask), made(two, b, ask)], s) for s in (False, True))
                    assert fast == slow, f"{op.name}({a}{one}, {b}{two})"
    for a in (fg.int64, fg.int32, fg.uint8, fg.bool):
        for number in (1.5, 0.0, float("nan"), -1e300):
            fast, slow = (outcome(op.fn, [made((2, 3), a, False), number], s) for s in (False, True))
            assert fast == slow, f"{op.name}({a}, {number})"


def test_another_default_dtype_counts() -> None:
    fg.set_default_dtype(fg.float64)
    try:
        assert (fg.arange(3) + 1.5).dtype is fg.float64
    finally:
        fg.set_default_dtype(fg.float32)
    assert (fg.arange(3) + 1.5).dtype is fg.float32


@pytest.mark.filterwarnings("ignore")
def test_where_with_a_number() -> None:
    masks = [fg.tensor([True, False, True]), fg.tensor(True), fg.tensor([[True], [False]])]
    for mask in [*masks, fg.tensor([1, 0, 1], dtype=fg.uint8), fg.tensor([1.0, 0, 1])]:
        for kind in (fg.float32, fg.float64, fg.float16, fg.int64):
            for number in (0.0, -0.0, 2, 1.5, float("inf"), 1e300, True, 1 << 70):
                for f in (lambda x, m=mask, v=number: fg.where(m, x, v), lambda x, m=mask, v=number: fg.where(m, v, x)):
                    fast, slow = (outcome(f, [made((3,), kind, True)], s) for s in (False, True))
                    assert fast == slow, f"{mask}, {kind}, {number}"


def test_ranges_made_again() -> None:
    """Few numbers are remembered: nobody's changes show, and 1, 1.0 and True, 0.0 and -0.0 stay what they are."""
    calls: list[Callable[[], Tensor]] = [
        *(lambda: fg.linspace(0, 1, 5), lambda: fg.linspace(0.0, 1.0, 5), lambda: fg.linspace(-1, -0.0, 2)),
        *(lambda: fg.linspace(-1, 0.0, 2), lambda: fg.arange(0, 4, 2), lambda: fg.arange(0.0, 4.0, 2.0)),
        *(lambda: fg.arange(0, 4, 2, dtype=fg.float32), lambda: fg.eye(3), lambda: fg.eye(3, dtype=fg.int64)),
        *(lambda: fg.triu_indices(3, 4, 1), lambda: fg.tril_indices(3, 4, 1), lambda: fg.triu_indices(3, 4)),
        *(lambda: fg.arange(1, 3), lambda: fg.arange(1.0, 3.0), lambda: fg.eye(3, requires_grad=True)),
    ]
    first = [seen(f()) for f in calls]
    for f, before in [*zip(calls, first, strict=True)] * 2:
        x = f()
        assert seen(x) == before
        x.detach().fill_(7)
    assert (
        len(set(first)) == len(first) - 3
    )  # linspace of 0 and of 0.0; of floats: arange; eye that asks for a gradient
    with pytest.raises(RuntimeError, match="nonzero"):
        fg.arange(0, 4, 0)
    assert fg.eye(3, requires_grad=True).requires_grad and not fg.eye(3).requires_grad
