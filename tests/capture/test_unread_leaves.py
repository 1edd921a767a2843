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


AGAIN = "a second backward through a region is refused, also where eager code kept nothing and allows it"


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("inside", [False, pytest.param(True, marks=pytest.mark.not_verified(AGAIN))])
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


# ---- detach_ of what the captured code made


def cut(a):
    o = a * 3
    p = o * 2
    o.detach_()
    return p + o * 5 + a


def cut_transposed(a):
    o = a * 3
    o.t_()
    o.detach_()
    return o + a


def cut_in_a_loop(a):
    h = a
    for i in range(3):
        h = (h * 2).sin()
        if i == 1:
            h.detach_()
    return h * a


def cut_and_differentiated(a):
    o = a * 3
    o.detach_().requires_grad_()
    (o * o).sum().backward()
    return a * o.grad


@pytest.mark.parametrize("f", [cut, cut_transposed, cut_in_a_loop, cut_and_differentiated])
def test_detach_in_place(f):
    T.compiler.reset()
    c = T.compile(f)
    for _ in range(2):
        got = []
        for g in (c, f):
            a = T.tensor([[1.0, -2.0], [3.0, 0.5]], requires_grad=True)
            out = g(a)
            out.sum().backward()
            got.append((out.tolist(), a.grad.tolist()))
        assert got[0] == got[1]
    assert T.compiler.stats()["graph_breaks"] == 0


def test_detach_in_place_is_refused_as_in_eager():
    def view(a):
        v = (a * 3).view(-1)
        v.detach_()
        return v

    def given(a):
        a.detach_()
        return a * 2, a.requires_grad

    a = T.ones(2, 2, requires_grad=True)
    for f in (view, T.compile(view)):
        with pytest.raises(RuntimeError, match="detach views in-place"):
            f(a)
    b = a * 2
    assert T.compile(given)(b)[1] is False
    assert not b.requires_grad
