"""Results that are views of tensors made inside: views outside as well, of the whole of what eager code has there."""

import pytest

import fusegrad as T

F = T.nn.functional

VIEWS = {
    "view": lambda y: y.view(-1),
    "item": lambda y: y[0],
    "slice": lambda y: y[:1],
    "columns": lambda y: y[:, :1],
    "t": lambda y: y.t(),
    "unsqueeze": lambda y: y.unsqueeze(0),
    "squeeze": lambda y: y[:1].squeeze(0),
    "unsqueeze_": lambda y: y[0].unsqueeze_(0),
    "unsqueeze_ of the whole": lambda y: y.unsqueeze_(0),
    "flatten": lambda y: y.flatten(),
    "reshape": lambda y: y.reshape(3, 2),
    "reshape that copies": lambda y: y.t().reshape(6),
    "expand": lambda y: y[None].expand(2, 2, 3),
    "permute": lambda y: y.permute(0, 1),
    "detach": lambda y: y.detach(),
    "item of detach": lambda y: y.detach()[0],
    "detach of an item": lambda y: y[0].detach(),
    "data": lambda y: y.data[0],
    "diagonal": lambda y: y.diagonal(),
    "chunk": lambda y: y.chunk(2)[0],
    "unbind": lambda y: y.unbind(0)[1],
    "narrow": lambda y: y.narrow(0, 1, 1),
    "as_strided": lambda y: y.as_strided((2,), (1,)),
    "contiguous": lambda y: y.contiguous(),
    "view_as": lambda y: y.view_as(y),
    "changed item": lambda y: y[0].mul_(2),
    "item of the changed": lambda y: (y.mul_(2), y[0])[1],
    "both": lambda y: (y[0], y),
    "two items": lambda y: (y[0], y[1]),
    "of a view": lambda y: y.view(3, 2)[1:].unflatten(1, (2, 1)),
}
COMPOSED = {
    "kron": lambda y: T.kron(y, y),
    "repeat": lambda y: y.repeat(2, 1),
    "group_norm": lambda y: F.group_norm(y[None], 2),
    "pixel_shuffle": lambda y: F.pixel_shuffle(y.reshape(1, 1, 2, 3).expand(1, 4, 2, 3) * 2, 2),
    "channel_shuffle": lambda y: F.channel_shuffle(y.reshape(1, 2, 3, 1), 2),
    "rot90": lambda y: T.rot90(y),
    "einsum": lambda y: T.einsum("ij,kj->ik", y, y),
}


def described(out):
    """What can be seen of results and the memory under them, and whether ``detach_`` is refused."""
    found = []
    for t in out if isinstance(out, tuple) else (out,):
        base = None if t._base is None else (tuple(t._base.shape), t._base.stride())
        found.append((tuple(t.shape), t.stride(), t.storage_offset(), t._is_view(), base, t._version, t.requires_grad))
        try:
            t.detach_()
            found.append(None)
        except RuntimeError as e:
            found.append(str(e))
    return found


@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize("requires_grad", [True, False])
@pytest.mark.parametrize("name", [*VIEWS, *COMPOSED])
def test_results_are_views_where_they_are_in_eager_code(name, requires_grad, recorded):
    look = {**VIEWS, **COMPOSED}[name]

    def f(x):
        with T.set_grad_enabled(recorded):
            return look(x * 3)

    def run(g):
        x = T.tensor([[1.0, -2.0, 3.0], [0.5, 4.0, -1.0]], requires_grad=requires_grad)
        out = g(x)
        parts = out if isinstance(out, tuple) else (out,)
        if parts[0].requires_grad:
            sum((t * t).sum() for t in parts).backward()
        return [t.tolist() for t in parts], None if x.grad is None else x.grad.tolist(), described(out)

    T.compiler.reset()
    c = T.compile(f)
    for _ in range(2):
        assert run(c) == run(f)


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("name", ["sum", "view", "t", "add", "mean", "unsqueeze"])
def test_gradients_are_views_where_they_are_in_eager_code(name, create_graph):
    losses = {
        "sum": lambda x: x.sum(),
        "view": lambda x: (x.view(6) * 2).sum(),
        "t": lambda x: (x.t() * T.ones(3, 2)).sum(),
        "add": lambda x: (x + T.ones(3)).sum(),
        "mean": lambda x: x.t().mean(),
        "unsqueeze": lambda x: (x.unsqueeze(0) * 2).sum(),
    }

    def f(x):
        return T.autograd.grad(losses[name](x), x, create_graph=create_graph)

    def run(g):
        return described(g(T.ones(2, 3, requires_grad=True)))

    T.compiler.reset()
    c = T.compile(f)
    for _ in range(2):
        assert run(c) == run(f)
    assert T.compiler.stats()["graph_breaks"] == 0


BESIDE = {
    "view": lambda y: y.view(-1),
    "item": lambda y: y[0],
    "t": lambda y: y.t(),
    "flatten": lambda y: (y * y).flatten(),
}


@pytest.mark.parametrize("name", BESIDE)
def test_the_gradient_at_a_view_from_which_another_result_was_computed(name):
    def f(x):
        v = BESIDE[name](x * 3)
        return v, v.sum()

    def run(g):
        x, seen = T.tensor([[1.0, -2.0, 3.0], [0.5, 4.0, -1.0]], requires_grad=True), []
        v, total = g(x)
        v.retain_grad()
        v.register_hook(lambda grad: seen.append(grad.tolist()) or grad * 2)
        (v.sum() + total).backward()
        return v.stride(), v.grad.tolist(), seen, x.grad.tolist()

    T.compiler.reset()
    c = T.compile(f)
    for _ in range(2):
        assert run(c) == run(f)


@pytest.mark.parametrize("name", ["exp", "item", "used later"])
@pytest.mark.parametrize("turned", [False, True])
def test_a_result_that_an_operator_keeps_is_changed_in_place(name, turned):
    looks = {
        "exp": lambda x: x.exp(),
        "item": lambda x: x.exp()[0].view(3, 1),
        "used later": lambda x: (lambda y: (y, y.sin()))(x * 2),
    }

    def run(g):
        x = T.arange(6.0).reshape(3, 2).t() if turned else T.arange(6.0).reshape(2, 3)
        x = x.detach().requires_grad_()
        y = g(x)
        first, last = y if isinstance(y, tuple) else (y, y)
        with T.no_grad():
            first.mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            last.sum().backward()

    T.compiler.reset()
    for g in (looks[name], T.compile(looks[name])):
        run(g)
