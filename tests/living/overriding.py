"""Classes with ``__torch_function__``, run by ``test_overrides`` in a process of its own: from the first such class on,
every public function has an entry in front of it.
"""

from __future__ import annotations

import inspect
import sys
from typing import Any

import fusegrad as torch

F = torch.nn.functional
SEEN: list[str] = []


class Plain(torch.Tensor):
    __torch_function__ = torch._C._disabled_torch_function_impl


def disabled() -> None:
    x = torch.ones(2).as_subclass(Plain)
    assert [type(r) for r in (x + 1, x.sum(), x.t(), torch.compile(lambda t: t * 2)(x))] == [torch.Tensor] * 4
    assert "fusegrad.overrides" not in sys.modules  # nothing is in front of functions for such a class


def before_any_class_took_over() -> None:
    class Late:
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return "late"

    try:
        torch.mul(torch.ones(2), Late())  # type: ignore[arg-type]
    except TypeError as e:
        assert "fusegrad.overrides" in str(e), e
    else:
        raise AssertionError("a class that is no tensor was taken")


disabled()
before_any_class_took_over()
compiled_before = torch.compile(lambda x: (x * 2).relu().sum())
assert compiled_before(torch.ones(3)).item() == 6


class Logs(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        SEEN.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})  # type: ignore[misc]


class More(Logs):
    pass


HANDLED: dict[Any, Any] = {}


class Diagonal:
    def __init__(self, n: int, value: float) -> None:
        self.n, self.value = n, value

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func not in HANDLED or not all(issubclass(t, (torch.Tensor, Diagonal)) for t in types):
            return NotImplemented
        return HANDLED[func](*args, **(kwargs or {}))


class Owned:
    """A tensor and a note, which results keep."""

    def __init__(self, data: Any, note: str) -> None:
        self.data, self.note = data, note

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        SEEN.append(func.__name__)
        notes = [a.note for a in args if isinstance(a, Owned)]
        return Owned(func(*[a.data if isinstance(a, Owned) else a for a in args], **(kwargs or {})), notes[0])


def seen(run: Any) -> tuple[str, list[str]]:
    SEEN.clear()
    out = run()
    return type(out).__name__, SEEN[:]


def every_call_once() -> None:
    """Also of functions that are made of others."""
    x = torch.arange(6.0).reshape(2, 3).as_subclass(Logs)
    other = torch.ones(2, 3)
    for run, kind, names in (
        (lambda: x + 1, "Logs", ["add"]),
        (lambda: 1 + x, "Logs", ["add"]),
        (lambda: 1 - x, "Logs", ["__rsub__"]),
        (lambda: other * x, "Logs", ["mul"]),
        (lambda: x.sum(dim=1), "Logs", ["sum"]),
        (lambda: F.relu(x), "Logs", ["relu"]),
        (lambda: F.silu(x), "Logs", ["silu"]),
        (lambda: F.cross_entropy(x, torch.tensor([0, 1])), "Logs", ["cross_entropy"]),
        (lambda: torch.nn.Linear(3, 2)(x), "Logs", ["linear"]),
        (lambda: torch.cat([other, x]), "Logs", ["cat"]),
        (lambda: torch.where(other > 0, other, x), "Logs", ["where"]),
        (lambda: torch.add(other, other=x), "Logs", ["add"]),
        (lambda: x[0], "Logs", ["__getitem__"]),
        (lambda: x.clone().add_(1), "Logs", ["clone", "add_"]),
        (lambda: x.detach(), "Logs", ["detach"]),
        (lambda: x.sum().item(), "float", ["sum", "item"]),
        (lambda: torch.einsum("ij,kj->ik", x, x), "Logs", ["einsum"]),
        (lambda: torch.zeros_like(x), "Logs", ["zeros_like"]),
        (lambda: other.sin(), "Tensor", []),
    ):
        assert seen(run) == (kind, names), (seen(run), names)
    pair = x.max(0)
    assert type(pair.values) is Logs and type(pair) is type(other.max(0))
    assert [type(r) for r in torch.split(x, 1)] == [Logs, Logs]
    with torch._C.DisableTorchFunctionSubclass():
        assert seen(lambda: x + 1) == ("Tensor", [])
    assert type(x.as_subclass(More) + x) is More and type(x + x.as_subclass(More)) is More


def gradients() -> None:
    w = torch.ones(3, requires_grad=True)
    (w.as_subclass(Logs) * 3).sum().backward()
    assert w.grad is not None and type(w.grad) is torch.Tensor and w.grad.tolist() == [3, 3, 3]
    assert type(torch.func.grad(lambda t: (t * t).sum())(torch.ones(2).as_subclass(Logs))) in (Logs, torch.Tensor)


def classes_that_are_no_tensors() -> None:
    d = Diagonal(5, 2)
    HANDLED[torch.mean] = lambda d: d.value / d.n
    HANDLED[torch.add] = lambda a, b: "sum"
    assert torch.mean(d) == 0.4  # type: ignore[arg-type]
    assert torch.add(d, 1) == torch.add(torch.ones(2), d) == "sum"  # type: ignore[arg-type]
    for run in (lambda: torch.mul(d, 2), lambda: torch.ones(2) + d, lambda: torch.cat([torch.ones(2), d])):  # type: ignore
        try:
            run()
        except TypeError as e:
            assert "no implementation found" in str(e), e
        else:
            raise AssertionError("nobody does it")
    owned = torch.mul(torch.ones(2), Owned(torch.ones(2), "mine"))  # type: ignore[arg-type]
    assert isinstance(owned, Owned) and owned.note == "mine" and owned.data.tolist() == [1, 1]
    o = torch.overrides
    x = torch.ones(1)
    assert o.is_tensor_like(d) and o.is_tensor_like(x) and not o.is_tensor_like(1)
    assert o.has_torch_function((x, d)) and o.has_torch_function_unary(d) and not o.has_torch_function_variadic(x, 1)
    assert o.handle_torch_function(torch.mean, (d,), d) == 0.4


def the_same_functions() -> None:
    assert F.relu.__name__ == "relu" and "inplace" in inspect.signature(F.relu).parameters
    assert torch.Tensor.add.__name__ == "add" and torch.Tensor.max.__name__ == "max"


def compiled() -> None:
    """What the class does is done at every call; other code is compiled as before."""
    assert compiled_before(torch.ones(3)).item() == 6
    x = torch.ones(3)
    closed = x.as_subclass(Logs)
    for f in (
        lambda x: x.as_subclass(Logs) * 2,
        lambda x: closed * x,
        lambda x: torch.cat([x, closed]),
        lambda x: torch.mul(x, Owned(x + 1, "new")).data,
        lambda x: (x * Owned(x, "new")).data + 1,
    ):
        want, names = f(x), seen(lambda f=f: f(x))
        g = torch.compile(f)
        for _ in range(2):
            assert seen(lambda g=g: g(x)) == names
            assert type(g(x)) is type(want) and g(x).tolist() == want.tolist()
    h = torch.compile(lambda x: F.softmax(x.sin() * 2, 0), fullgraph=True)
    assert torch.allclose(h(x), F.softmax(x.sin() * 2, 0))


for part in (every_call_once, gradients, classes_that_are_no_tensors, the_same_functions, compiled):
    part()
print("done")
