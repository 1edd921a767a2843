"""What happens around a backward pass: callbacks at its end, passes inside of passes."""

from __future__ import annotations

from typing import Any

import pytest

import fusegrad as torch
from fusegrad.autograd import Function, Variable


def queue(fn: Any) -> None:
    Variable._execution_engine.queue_callback(fn)


def test_callbacks_run_when_gradients_are_stored() -> None:
    log: list[Any] = []
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    y.register_hook(lambda g: queue(lambda: log.append(x.grad.tolist())))
    y.register_hook(lambda g: log.append("hook"))
    y.sum().backward()
    assert log == ["hook", [2, 2]]
    torch.autograd.grad((x * y.detach()).sum(), x)
    assert len(log) == 2  # they belong to one pass


@pytest.mark.parametrize("how", ["leaf", "after", "node", "function", "grad"])
def test_callbacks_from_everywhere(how: str) -> None:
    log: list[Any] = []
    x = torch.ones(2, requires_grad=True)

    class Queues(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 3

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            queue(lambda: log.append("called"))
            return g * 3

    y = Queues.apply(x) if how == "function" else x * 3
    if how == "leaf":
        x.register_hook(lambda g: queue(lambda: log.append("called")))
    elif how == "after":
        x.register_post_accumulate_grad_hook(lambda p: queue(lambda: log.append("called")))
    elif how != "function":
        y.grad_fn.register_hook(lambda *_: queue(lambda: log.append("called")))
    if how == "grad":
        torch.autograd.grad(y.sum(), x)
    else:
        y.sum().backward()
    assert log == ["called"]


def test_callbacks_may_queue_others_and_raise() -> None:
    log: list[Any] = []
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    y.register_hook(lambda g: queue(lambda: (log.append("a"), queue(lambda: log.append("b")))))
    y.sum().backward()
    assert log == ["a", "b"]
    y = x * 2

    def fails() -> None:
        raise KeyError("no")

    y.register_hook(lambda g: queue(fails))
    with pytest.raises(KeyError, match="no"):
        y.sum().backward()
    assert x.grad.tolist() == [4, 4]  # stored before
    (x * 2).sum().backward()


def test_callbacks_need_a_pass_and_a_function() -> None:
    with pytest.raises(RuntimeError, match="during backward pass"):
        queue(lambda: None)
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    y.register_hook(lambda g: queue(3))
    with pytest.raises(TypeError, match="not callable"):
        y.sum().backward()
    assert x.grad is None


@pytest.mark.parametrize("grad", [False, True])
def test_passes_inside_of_passes_as_deep_as_one_likes(grad: bool) -> None:
    class Deep(Function):
        @staticmethod
        def forward(ctx: Any, x: Any, n: int) -> Any:
            ctx.n = n
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            if ctx.n == 0:
                assert not torch.is_grad_enabled()
                if x[0] < 0:
                    raise ValueError("at the bottom")
                return g * 2, None
            with torch.enable_grad():
                inner = x.detach().requires_grad_()
                y = Deep.apply(inner, ctx.n - 1).sum()
                if grad:
                    return torch.autograd.grad(y, inner)[0], None
                y.backward()
            return inner.grad, None

    x = torch.ones(2, requires_grad=True)
    Deep.apply(x, 300).sum().backward()
    assert x.grad.tolist() == [2, 2]
    with pytest.raises(ValueError, match="at the bottom"):
        Deep.apply(-x, 100).sum().backward()
    assert x.grad.tolist() == [2, 2]


@pytest.mark.parametrize("dims, error", [((0,), RuntimeError), ((0, 1, 2), RuntimeError), ((0, 5), IndexError),
                                         ((5, 0, 0), RuntimeError), ((0, 0), RuntimeError)])  # fmt: skip
def test_permute_counts_before_it_looks(dims: tuple, error: type) -> None:
    x = torch.ones(2, 3)
    for call in (lambda: x.permute(dims), lambda: x.permute(*dims), lambda: torch.permute(x, dims)):
        with pytest.raises(error):
            call()
