"""The generated function of an exported program's usual call gives what the general way gives, errors included."""

from __future__ import annotations

import numpy as np
import pytest
from fusegrad.export import Dim, InputError, export

import fusegrad as torch

nn = torch.nn
B, C = Dim("batch", min=2, max=9), Dim("columns", min=1)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.register_buffer("scale", torch.tensor(2.0))

    def forward(self, x, y):
        return (self.linear(x) * self.scale).tanh() + y


PROGRAMS = {
    "static": lambda: export(lambda x, y: x * y.sin(), (torch.randn(4, 3), torch.randn(4, 3))),
    "varying": lambda: export(Net(), (torch.randn(4, 3), torch.randn(4, 2)), dynamic_shapes=({0: B}, {0: B})),
    "two sizes": lambda: export(
        lambda x, y: (x.sum(0), y.reshape(-1)),
        (torch.randn(4, 3), torch.randn(4, 2)),
        dynamic_shapes=({0: B, 1: C}, {0: B}),
    ),
    "draws": lambda: export(
        lambda x, y: nn.functional.dropout(x, 0.5) + y,
        (torch.randn(4, 3), torch.randn(4, 3)),
        dynamic_shapes=({0: B},) * 2,
    ),
}


def grad(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, requires_grad=True)


ARGUMENTS = {
    "as at export": lambda w: (torch.randn(4, 3), torch.randn(4, w)),
    "another batch": lambda w: (torch.randn(7, 3), torch.randn(7, w)),
    "batches that differ": lambda w: (torch.randn(7, 3), torch.randn(6, w)),
    "too many": lambda w: (torch.randn(10, 3), torch.randn(10, w)),
    "one": lambda w: (torch.randn(1, 3), torch.randn(1, w)),
    "wrong columns": lambda w: (torch.randn(4, 4), torch.randn(4, w)),
    "wrong rank": lambda w: (torch.randn(4, 3, 1), torch.randn(4, w)),
    "wrong dtype": lambda w: (torch.randn(4, 3).double(), torch.randn(4, w)),
    "no tensor": lambda w: (1.0, torch.randn(4, w)),
    "one argument": lambda w: (torch.randn(4, 3),),
    "three arguments": lambda w: (torch.randn(4, 3), torch.randn(4, w), 1),
    "transposed": lambda w: (torch.randn(3, 4).t(), torch.randn(4, w)),
    "gradients": lambda w: (grad(4, 3), torch.randn(4, w)),
    "a parameter": lambda w: (nn.Parameter(torch.randn(4, 3)), grad(4, w)),
    "a view of a leaf": lambda w: (grad(8, 3)[:4], torch.randn(4, w)),
    "a view that got a history": lambda w: (later(), torch.randn(4, w)),
}


def later() -> torch.Tensor:
    base = torch.zeros(8, 3)
    view = base[:4]
    base.mul_(grad(8, 3))
    return view


def outcome(module, args) -> list:
    torch.manual_seed(3)
    try:
        out = module(*args)
    except Exception as e:
        return [type(e), str(e)]
    out = out if isinstance(out, tuple) else (out,)
    found: list = [(o.requires_grad, o.detach().numpy()) for o in out]
    leaves = [t for t in (*args, *module.parameters()) if t.requires_grad]
    if leaves and out[0].requires_grad:
        grads = torch.autograd.grad(sum(o.sum() for o in out if o.requires_grad), leaves, allow_unused=True)
        found += [None if g is None else g.numpy() for g in grads]
    return [*found, torch.rand(1).item()]


def same(a, b) -> None:
    assert type(a) is type(b)
    if isinstance(a, tuple | list):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            same(x, y)
    elif isinstance(a, np.ndarray):
        np.testing.assert_array_equal(a, b)
    else:
        assert a == b


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_the_general_way(name: str) -> None:
    torch.manual_seed(0)
    program = PROGRAMS[name]()
    short, general = program.module(), program.module()
    assert short.__dict__["_quick"] is not None
    general.__dict__["_quick"] = None
    width = 2 if name in ("varying", "two sizes") else 3
    for make in ARGUMENTS.values():
        for on in (True, False):
            torch.manual_seed(1)
            args = make(width)
            with torch.set_grad_enabled(on):
                for _ in range(2):  # the first may compile
                    same(outcome(short, args), outcome(general, args))


def test_state_that_was_replaced_is_read_at_each_call() -> None:
    program = PROGRAMS["varying"]()
    module = program.module()
    x, y = torch.randn(4, 3), torch.zeros(4, 2)
    module(x, y)
    module.linear.weight = nn.Parameter(torch.zeros(2, 3))
    module.linear.bias = nn.Parameter(torch.ones(2))
    module.scale.fill_(3)
    np.testing.assert_allclose(module(x, y).detach().numpy(), np.tanh(np.full((4, 2), 3.0)), rtol=1e-6)
    module.linear.weight.requires_grad_(False)
    assert module(x, y).requires_grad  # by the bias
    module.requires_grad_(False)
    assert not module(x, y).requires_grad


def test_other_programs_have_none() -> None:
    x = torch.ones(3)
    for f, args in ((lambda x, k: x * k, (x, 2)), (lambda x: x[0] * x[1], ((x, x),)), (lambda x: x.add_(1), (x,))):
        assert export(f, args).module().__dict__["_quick"] is None


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.double(),
        lambda m: setattr(m.w, "data", torch.ones(2)),
        lambda m: setattr(m, "w", nn.Parameter(torch.ones(1))),
        lambda m: setattr(m, "b", torch.ones(5, dtype=torch.int64)),
        lambda m: setattr(m, "b", None),
        lambda m: m.__delattr__("w"),
    ],
)
def test_state_of_another_type_never_meets_the_kernels(change, grad: bool) -> None:
    m = type("M", (nn.Module,), {"forward": lambda self, x: x * self.w + self.b})()
    m.w = nn.Parameter(torch.ones(5))
    m.register_buffer("b", torch.ones(5))
    run = export(m, (torch.ones(5),)).module()
    with torch.set_grad_enabled(grad):
        assert run(torch.ones(5)).tolist() == run(torch.ones(5)).tolist() == [2.0] * 5
        change(run)
        with pytest.raises(InputError, match=r"self\.[wb]: is (missing|\w+ \[\d\]), allowed float32 \[5\]"):
            run(torch.ones(5))
