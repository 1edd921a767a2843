"""In-place writes and ``out=`` whose operands share memory with the target: refused as in PyTorch, nothing changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import fusegrad as fg
from fusegrad import Tensor
from fusegrad.op import TABLE

WORDS = "some elements of the input tensor and the written-to tensor refer to a single memory location"
Call = Callable[[Tensor, Tensor], Any]


def _rows(s: Tensor) -> Tensor:
    return fg.arange(s.shape[0])


def _zeros(s: Tensor) -> Tensor:
    return fg.zeros(s.shape, dtype=fg.int64)


PLACES: dict[str, Call] = {
    "index_add_": lambda x, s: x.index_add_(0, _rows(s), s),
    "index_copy_": lambda x, s: x.index_copy_(0, _rows(s), s),
    "index_reduce_": lambda x, s: x.index_reduce_(0, _rows(s), s, "prod"),
    "index_put_": lambda x, s: x.index_put_((_rows(s),), s),
    "index_put_ added": lambda x, s: x.index_put_((_rows(s),), s, accumulate=True),
    "x[i] =": lambda x, s: x.__setitem__(_rows(s), s),
    "x[list] =": lambda x, s: x.__setitem__(list(range(s.shape[0])), s),
    "put_": lambda x, s: x.put_(fg.arange(s.numel()).view(s.shape), s),
    "scatter_": lambda x, s: x.scatter_(0, _zeros(s), s),
    "scatter_ reduce": lambda x, s: x.scatter_(0, _zeros(s), s, reduce="multiply"),
    "scatter_add_": lambda x, s: x.scatter_add_(0, _zeros(s), s),
    "scatter_reduce_": lambda x, s: x.scatter_reduce_(0, _zeros(s), s, "amax"),
}
"""Writes at places: the source may share no memory at all."""

INDICES: dict[str, Call] = {
    "index_add_": lambda x, s: x.index_add_(0, s, fg.ones(4, dtype=fg.int64)),
    "index_copy_": lambda x, s: x.index_copy_(0, s, fg.ones(4, dtype=fg.int64)),
    "index_reduce_": lambda x, s: x.index_reduce_(0, s, fg.ones(4, dtype=fg.int64), "prod"),
    "index_fill_": lambda x, s: x.index_fill_(0, s, 7),
    "index_put_": lambda x, s: x.index_put_((s,), fg.tensor(5)),
    "x[i] =": lambda x, s: x.__setitem__(s, 5),
    "put_": lambda x, s: x.put_(s, fg.ones(4, dtype=fg.int64)),
    "scatter_": lambda x, s: x.scatter_(0, s, fg.ones(4, dtype=fg.int64)),
    "scatter_ number": lambda x, s: x.scatter_(0, s, 3),
    "scatter_add_": lambda x, s: x.scatter_add_(0, s, fg.ones(4, dtype=fg.int64)),
    "scatter_reduce_": lambda x, s: x.scatter_reduce_(0, s, fg.ones(4, dtype=fg.int64), "sum"),
}
"""Nor may the index."""

PARTS: dict[str, Call] = {
    "add_": lambda x, s: x.add_(s),
    "+=": lambda x, s: x.__iadd__(s),
    "eq_": lambda x, s: x.eq_(s),
    "pow_": lambda x, s: x.pow_(s),
    "addcmul_": lambda x, s: x.addcmul_(fg.ones(4), s),
    "lerp_": lambda x, s: x.lerp_(s, 0.5),
    "clamp_": lambda x, s: x.clamp_(max=s),
    "copy_": lambda x, s: x.copy_(s),
    "x[:] =": lambda x, s: x.__setitem__(slice(None), s),
    "out": lambda x, s: fg.exp(s, out=x),
    "clamp out": lambda x, s: fg.clamp(s, max=1.0, out=x),
    "where out": lambda x, s: fg.where(fg.ones(4) > 0, s, fg.ones(4), out=x),
    "cumsum out": lambda x, s: fg.cumsum(s, 0, out=x),
    "cumprod out": lambda x, s: fg.cumprod(s, 0, out=x),
    "logcumsumexp out": lambda x, s: fg.logcumsumexp(s, 0, out=x),
    "sort out": lambda x, s: fg.sort(s, out=(x, fg.zeros(4, dtype=fg.int64))),
    "topk out": lambda x, s: fg.topk(s, 4, out=(x, fg.zeros(4, dtype=fg.int64))),
    "scatter out": lambda x, s: fg.scatter(s, 0, fg.tensor([0]), fg.ones(1), out=x),
    "special out": lambda x, s: fg.special.i0e(s, out=x),
}
"""Elementwise writes: a source may be the target, but not share a part of it."""

NUMBERS: dict[str, Call] = {
    "fill_": lambda x, s: x.fill_(s[1]),
    "masked_fill_": lambda x, s: x.masked_fill_(fg.tensor([True, False, True, True]), s[1]),
    "index_fill_": lambda x, s: x.index_fill_(0, fg.tensor([0, 2]), s[1]),
    "x[mask] =": lambda x, s: x.__setitem__(fg.tensor([True, False, True, True]), s[1:2]),
    "x[:] = row": lambda x, s: x.__setitem__(slice(None), s[1]),
}
"""What is read as one number, before anything is written."""


def floats() -> Tensor:
    return fg.arange(1.0, 17.0) / 16


def ints() -> Tensor:
    return fg.arange(16) % 4


PAIRS: dict[str, Callable[[Tensor], tuple[Tensor, Tensor]]] = {
    "all": lambda b: (b[:4], b[:4]),
    "itself": lambda b: (b[:4],) * 2,
    "detached": lambda b: ((x := b[:4]), x.detach()),
    "data": lambda b: ((x := b[:4]), x.data),
    "a part": lambda b: (b[:4], b[1:5]),
    "a part of data": lambda b: (b.data[1:5], b.data[:4]),
    "turned": lambda b: (b[:8].view(2, 2, 2).permute(1, 0, 2), b[2:10].view(2, 2, 2).permute(1, 0, 2)),
    "apart": lambda b: (b[:4], b[4:8]),
    "strided": lambda b: (b[:8:2], b[2:10:2]),
    "between": lambda b: (b[:8:2], b[1:9:2]),
}
PART, FREE = ("a part", "a part of data", "turned"), ("apart", "strided", "between")


def refused(call: Call, pair: str, make: Callable[[], Tensor], compiled: str) -> bool:
    """Whether a call is refused; then nothing was changed. ``compiled``: with the views made inside, or passed."""
    base = make()
    before = base.tolist()
    try:
        if compiled == "inside":
            fg.compile(lambda b: (call(*PAIRS[pair](b)), None)[1])(base)
        else:
            x, s = PAIRS[pair](base)
            version = x._version
            (fg.compile(call) if compiled == "passed" else call)(x, s)
    except RuntimeError as e:
        assert WORDS in str(e) and base.tolist() == before, str(e)
        assert compiled == "inside" or x._version == version
        return True
    return False


WAYS = ("", "passed", "inside")


@pytest.mark.parametrize("compiled", WAYS)
@pytest.mark.parametrize("name", PLACES)
def test_a_source_of_places_shares_no_memory(name: str, compiled: str) -> None:
    for pair in PAIRS:
        assert refused(PLACES[name], pair, floats, compiled) is (pair not in FREE), pair


@pytest.mark.parametrize("compiled", WAYS)
@pytest.mark.parametrize("name", INDICES)
def test_an_index_shares_no_memory(name: str, compiled: str) -> None:
    for pair in ("all", "itself", "data", "a part", "apart"):
        assert refused(INDICES[name], pair, ints, compiled) is (pair != "apart"), pair


@pytest.mark.parametrize("compiled", WAYS)
@pytest.mark.parametrize("name", PARTS)
def test_an_elementwise_source_shares_all_or_nothing(name: str, compiled: str) -> None:
    for pair in PAIRS:
        if pair == "turned" and name not in ("add_", "+=", "eq_", "pow_", "copy_", "x[:] =", "out"):
            continue
        assert refused(PARTS[name], pair, floats, compiled) is (pair in PART), pair


@pytest.mark.parametrize("compiled", WAYS)
@pytest.mark.parametrize("name", NUMBERS)
def test_one_number_may_be_an_element_of_the_target(name: str, compiled: str) -> None:
    for pair in ("all", "itself", "data", "a part", "apart"):
        assert not refused(NUMBERS[name], pair, floats, compiled), pair
    b = floats()
    NUMBERS["fill_"](b, b)
    assert b.tolist() == [0.125] * 16


def test_the_table_has_no_other_in_place_form_that_writes_at_places() -> None:
    """A new operator with tensors to write at places belongs in ``PLACES`` (or is elementwise)."""
    known = "index_add index_copy index_fill scatter scatter_value scatter_add"
    assert {n for n, op in TABLE.items() if "write" in op.fields} == set(known.split())


def test_masks_of_index_put() -> None:
    b = fg.tensor([True, False] * 4)
    x = b[:4]
    assert x.index_put_((x,), fg.tensor(True)) is x
    with pytest.raises(RuntimeError, match=WORDS):
        x.index_put_((b[1:5],), fg.tensor(True))
    with pytest.raises(RuntimeError, match=WORDS):
        x.index_put_((x,), fg.tensor([True, True]))
    x[b[1]] = True  # a mask without dimensions is read first
    assert x.tolist() == [True, False, True, False]
    y = fg.zeros(3)
    assert y.index_put_((fg.tensor(True),), fg.ones(1)).tolist() == [1, 1, 1]
    assert y.index_put((fg.tensor(False),), fg.zeros(())).tolist() == [1, 1, 1]
    with pytest.raises(RuntimeError, match="mask without dimensions"):
        y.index_put_((fg.tensor(True),), fg.ones(3))


@pytest.mark.parametrize("name", ["addr_", "mv", "cross out"])
def test_products(name: str) -> None:
    b = fg.arange(16.0)
    m = b[:4].view(2, 2)
    with pytest.raises(RuntimeError, match=WORDS):
        if name == "addr_":
            m.addr_(m[0], fg.ones(2))
        elif name == "mv":
            fg.addmv(b[1:3], fg.ones(2, 2), fg.ones(2), out=b[:2])
        else:
            fg.linalg.cross(b[:3], fg.ones(3), out=b[:3])
    assert fg.addmv(fg.zeros(2), m, fg.ones(2), out=b[:2]).tolist() == [1, 5]


def test_results_stored_that_were_lost() -> None:
    """``frexp(out=)`` wrote nothing; ``gcd_`` and ``lcm_`` could not be called."""
    m, e = fg.zeros(2), fg.zeros(2, dtype=fg.int32)
    fg.frexp(fg.tensor([3.0, 8.0]), out=(m, e))
    assert m.tolist() == [0.75, 0.5] and e.tolist() == [2, 4]
    assert fg.tensor([4, 6]).gcd_(fg.tensor([6, 9])).tolist() == [2, 3]
    assert fg.tensor([4, 6]).lcm_(fg.tensor([6, 9])).tolist() == [12, 18]
