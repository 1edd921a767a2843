"""Hooks of leaves that compiled code makes itself, with a break between hook and backward, and of tensors before."""

import pytest

import fusegrad as torch


def recorded_then_post_hook():
    seen = []
    x = torch.tensor([1.0], requires_grad=True)
    x.register_hook(lambda g: seen.append("first"))
    x.register_post_accumulate_grad_hook(lambda p: seen.append("post"))
    x.register_hook(lambda g: seen.append("second"))
    (x * 2).sum().backward()
    return seen


def changed(k):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    x.register_hook(lambda g: g * 3)
    y = (x * k).sum()
    print(end="")
    y.backward()
    return x.grad.tolist()


def removed(k):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    h = x.register_hook(lambda g: g * 3)
    y = (x * k).sum()
    print(end="")
    h.remove()
    y.backward()
    return x.grad.tolist()


def returned(k):
    x = k.detach().requires_grad_()
    x.register_hook(lambda g: g * 3)
    return x


def test_no_hook_is_lost():
    assert torch.compile(recorded_then_post_hook)() == recorded_then_post_hook() == ["first", "second", "post"]


@pytest.mark.parametrize("program, want", [(changed, [3, 3]), (removed, [1, 1])])
def test_hooks_that_change_gradients(program, want):
    assert torch.compile(program)(torch.ones(2)) == program(torch.ones(2)) == want


def test_a_leaf_that_is_returned_keeps_its_hooks():
    for f in (returned, torch.compile(returned)):
        x = f(torch.ones(2))
        (x * 2).sum().backward()
        assert x.grad.tolist() == [6, 6]


def asked(kind):
    """A tensor that was computed before, asked for its gradient, alone and twice."""
    x = torch.ones(2, requires_grad=True)
    t = x * 1
    if kind == "hook":
        t.register_hook(lambda g: g * 10)
    elif kind == "kept":
        t.retain_grad()
    return t


def once(t):
    return torch.autograd.grad((t**2).sum(), t)[0]


def twice(t):
    g = torch.autograd.grad((t**3).sum(), [t], create_graph=True)[0]
    return torch.autograd.grad(g.sum(), t)[0]


@pytest.mark.parametrize("f", [once, twice])
def test_hooks_of_tensors_computed_before_run(f):
    compiled = torch.compile(f)
    for kind in ("plain", "hook", "plain", "kept"):
        a, b = asked(kind), asked(kind)
        assert compiled(a).tolist() == f(b).tolist() and str(a._grad) == str(b._grad), kind
    isview = torch.compile(lambda t: (t._is_view(), t * 2)[0])
    assert [isview(torch.ones(4)), isview(torch.ones(4)[:]), isview(torch.ones(4))] == [False, True, False]
