"""Classes derived from Tensor: what operators give for their instances is of the class, as in PyTorch."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import fusegrad as torch
from fusegrad import nn


class Mine(torch.Tensor):
    def twice(self) -> Any:
        return self * 2


class Other(torch.Tensor):
    pass


class Finer(Mine):
    pass


def mine(*shape: int) -> Any:
    return torch.ones(*shape).as_subclass(Mine)


CALLS = {
    "method": lambda s: s.mul(2), "operator": lambda s: s + torch.ones(3), "reflected": lambda s: torch.ones(3) * s,
    "number": lambda s: 1 / s, "index": lambda s: s[0], "mask": lambda s: s[s > 0], "view": lambda s: s.view(6),
    "property": lambda s: s.T, "sum": lambda s: s.sum(), "mean": lambda s: s.mean(0), "function": torch.relu,
    "functional": nn.functional.gelu, "softmax": lambda s: s.softmax(0), "clone": lambda s: s.clone(),
    "detach": lambda s: s.detach(), "data": lambda s: s.data, "cast": lambda s: s.double(), "compare": lambda s: s == 1,
    "cat": lambda s: torch.cat([torch.ones(2, 3), s]), "stack": lambda s: torch.stack([s, s]),
    "like": torch.zeros_like, "new": lambda s: s.new_zeros(2), "new size": lambda s: s.new_full((2,), 3.0),
    "matmul": lambda s: s @ torch.ones(3, 2), "where": lambda s: torch.where(s > 0, s, 0.0),
    "in place": lambda s: s.add_(1),
    "method of the class": lambda s: s.twice(), "linear": lambda s: nn.Linear(3, 2)(s),
    "loss": lambda s: nn.functional.mse_loss(s, torch.ones(2, 3)),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("compiled", [False, True])
def test_results_are_of_the_class(name: str, compiled: bool) -> None:
    f = torch.compile(CALLS[name]) if compiled else CALLS[name]
    plain = CALLS[name](torch.ones(2, 3).as_subclass(torch.Tensor)) if name != "method of the class" else None
    got = f(mine(2, 3))
    assert type(got) is Mine
    if plain is not None and name != "linear":
        assert type(plain) is torch.Tensor and torch.equal(plain, got.as_subclass(torch.Tensor))


@pytest.mark.parametrize("of", ["max", "sort", "split", "chunk", "unbind", "aminmax"])
def test_several_results_are_of_the_class(of: str) -> None:
    args = {"max": (0,), "split": (1,), "chunk": (2,)}.get(of, ())
    got = getattr(mine(2, 3), of)(*args)
    assert all(type(t) is Mine for t in got)
    assert of in ("split", "chunk", "unbind") or type(got) is getattr(torch.return_types, of)


def test_as_subclass_is_a_view_with_history() -> None:
    x = torch.ones(3, requires_grad=True)
    s = x.as_subclass(Mine)
    assert s.requires_grad and s.grad_fn.name() == "AliasBackward0" and s.data_ptr() == x.data_ptr()
    (s * 3).sum().backward()
    assert x.grad.tolist() == [3, 3, 3] and type(x.grad) is torch.Tensor
    y = torch.ones(3)
    v = y.as_subclass(Mine)
    v.add_(1)
    assert y.tolist() == [2, 2, 2] and y._version == 1 and v._is_view() and type(v) is Mine
    assert type(v.as_subclass(Other)) is Other
    for cls in (int, "Mine", object):
        with pytest.raises(TypeError, match="does not inherit from Tensor"):
            y.as_subclass(cls)


def test_make_subclass_is_a_leaf() -> None:
    y = torch.ones(3, requires_grad=True) * 2
    s = torch.Tensor._make_subclass(Mine, y)
    assert type(s) is Mine and s.is_leaf and not s.requires_grad and s.data_ptr() == y.data_ptr()
    s = torch.Tensor._make_subclass(Mine, y, True)
    (s * s).sum().backward()
    assert s.grad.tolist() == [4, 4, 4] and type(s.grad) is torch.Tensor
    (g,) = torch.autograd.grad((s * s).sum(), s, create_graph=True)
    assert type(g) is torch.Tensor and g.requires_grad
    with pytest.raises(TypeError, match="must be Tensor"):
        torch.Tensor._make_subclass(Mine, [1.0])


def test_two_classes_meet() -> None:
    fine = torch.ones(3).as_subclass(Finer)
    assert type(mine(3) + fine) is Finer and type(fine + mine(3)) is Finer
    with pytest.raises(TypeError, match="Mine, Other"):
        mine(3) + torch.ones(3).as_subclass(Other)


def test_parameters_give_plain_tensors() -> None:
    class Own(nn.Parameter):
        pass

    p = Own(torch.ones(2))
    assert type(p * 2) is torch.Tensor and type(mine(2) * p) is Mine and type(p) is Own
    assert repr(p) == "Parameter containing:\nOwn([1., 1.], requires_grad=True)"


def test_instances_print_and_are_copied() -> None:
    s = mine(3)
    s.tag = 5
    assert repr(s) == "Mine([1., 1., 1.])"
    for new in (copy.copy(s), copy.deepcopy(s), pickle.loads(pickle.dumps(s))):
        assert type(new) is Mine and new.tag == 5 and not hasattr(new + 1, "tag")


def test_slots_of_a_class() -> None:
    class Slotted(torch.Tensor):
        __slots__ = ("mark",)

    x = torch.ones(2, requires_grad=True)
    s = x.as_subclass(Slotted)
    s.mark = 1
    r = s * 2
    assert type(r) is Slotted and not hasattr(r, "mark")
    r.sum().backward()
    assert x.grad.tolist() == [2, 2]


def test_classes_that_take_over_operators_are_refused() -> None:
    class Logs(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return func(*args, **(kwargs or {}))

    with pytest.raises(NotImplementedError, match="Logs: __torch_dispatch__ is not supported"):
        torch.ones(2).as_subclass(Logs) + 1


def test_classes_made_in_compiled_code() -> None:
    for f in (
        lambda x: x.as_subclass(Mine) * 2,
        lambda x: Mine(x) * 2,
        lambda x: torch.Tensor._make_subclass(Mine, x) * 2,
    ):
        for g in (f, torch.compile(f)):
            r = g(torch.ones(3))
            assert type(r) is Mine and r.tolist() == [2, 2, 2]
