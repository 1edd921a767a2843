"""Inputs whose values a custom function does not read, but to which its backward gives a gradient."""

import pytest

import fusegrad as T
from fusegrad.autograd import Function
from fusegrad.utils.checkpoint import checkpoint


class Second(Function):
    """The first input; the second gets twice the gradient, though nothing reads it."""

    @staticmethod
    def forward(ctx, x, z):
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        return g, g * 2


class Constant(Function):
    """A constant with a gradient."""

    @staticmethod
    def forward(ctx, x):
        return T.ones(3)

    @staticmethod
    def backward(ctx, g):
        return g * 5


class Own:
    """An object that carries tensors past the inputs."""

    def __init__(self, t):
        self.t = t


class Through(Function):
    @staticmethod
    def forward(ctx, own, z):
        ctx.save_for_backward(own.t)
        return own.t * 3

    @staticmethod
    def backward(ctx, g):
        return None, g * ctx.saved_tensors[0]


def broken(x, z):
    y = Second.apply(x, z)
    print(end="")
    return Second.apply(y, z) * 2


CALLS = {
    "unread": lambda x, z: Second.apply(x, z),
    "of detached": lambda x, z: Second.apply(x.detach(), z),
    "of computed": lambda x, z: Second.apply(x * 2, z * 3),
    "constant": lambda x, z: Constant.apply(x) + z,
    "constant alone": lambda x, z: Constant.apply(z),
    "of objects": lambda x, z: Through.apply(Own(x.detach()), z),
    "checkpoint": lambda x, z: checkpoint(lambda a, b: Second.apply(a, b).sin(), x, z, use_reentrant=False),
    "between breaks": broken,
    "twice": lambda x, z: Second.apply(Second.apply(x, z), z),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("inside", [False, True])
def test_unread_inputs_get_their_gradients(name, inside):
    call = CALLS[name]

    def step(x, z):
        out = call(x, z)
        if inside:
            out.sum().backward()
        return out

    def run(f):
        x, z = (T.tensor([1.0, -2.0, 3.0], requires_grad=True) for _ in range(2))
        out = f(x, z)
        if not inside:
            (out * out).sum().backward()
        return [out.detach(), out.requires_grad, *(None if t.grad is None else t.grad.tolist() for t in (x, z))]

    T.compiler.reset()
    c = T.compile(step)
    for _ in range(3):
        got, want = run(c), run(step)
        assert got[0].tolist() == want[0].tolist()
        assert got[1:] == want[1:]
    assert T.compiler.stats()["plain_frames"] == 0
