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


def _one(x):
    z = x * 2
    z.register_hook(lambda g: g.clamp(max=0.5))
    return (z,)


def _and_another(x):
    z = x * 2
    z.register_hook(lambda g: g * 3)
    return z.exp(), z


def _two_hooks(x):
    z = x * 2
    z.register_hook(lambda g: g.clamp(max=2.5))
    w = z * z
    w.register_hook(lambda g: g * 2)
    return w, z, z.exp()


@pytest.mark.parametrize("how", ["retained", "seen by hooks", "asked for", "of the last alone", "changed by hooks"])
@pytest.mark.parametrize("f", [_one, _and_another, _two_hooks])
def test_gradients_at_results_that_have_hooks_of_the_captured_code(f, how):
    """(they were those before the hooks of the captured code, or what these made of a part)"""

    def run(g):
        x = torch.tensor([0.1, 0.2], requires_grad=True)
        results = g(x)
        found = []
        if how == "asked for":
            return [t.tolist() for t in torch.autograd.grad(sum(t.sum() for t in results), [*results, x])]
        for t in results:
            if how == "seen by hooks":
                t.register_hook(lambda v: found.append(v.tolist()))
            elif how == "changed by hooks":
                t.register_hook(lambda v: v * 2)
            else:
                t.retain_grad()
        (results[-1].sum() if how == "of the last alone" else sum(t.sum() for t in results)).backward()
        if "hooks" not in how:
            found = [None if t.grad is None else t.grad.tolist() for t in results]
        return [*found, x.grad.tolist()]

    if how == "changed by hooks":
        with pytest.raises(RuntimeError, match="registered hooks of its own"):
            run(torch.compile(f))
    else:
        for got, want in zip(run(torch.compile(f)), run(f), strict=True):
            assert got == (want if want is None else pytest.approx(want))


PROGRAMS = {
    "apart": lambda x, w: (x * 2, w * 3, x * w),
    "a chain": lambda x, w: (lambda a: (a, a * 2, w * 3))(x * w),
}


@pytest.mark.parametrize("asked", ["all", "x"])
@pytest.mark.parametrize("picked", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize("name", PROGRAMS)
def test_multi_hooks_on_results(name, picked, asked):
    """The results of a call are outputs of one node: which of them a pass comes by is known for each."""

    def seen(f, hooked, mode):
        log = []
        x, w = torch.ones(3).requires_grad_(), torch.ones(3).requires_grad_()
        out = [x, w, *f(x, w)]
        told = (lambda gs: log.append([g is not None and g.tolist() for g in gs])) if mode == "all" else log.append
        torch.autograd.graph.register_multi_grad_hook([out[k] for k in hooked], told, mode=mode)
        loss = sum(out[2 + k].sum() for k in picked)
        if asked == "all":
            loss.backward()
        else:
            torch.autograd.grad(loss, [x], allow_unused=True)
        return len(log) if mode == "any" else log

    f = PROGRAMS[name]
    for hooked in ((2, 3, 4), (2, 3), (0, 1), (0, 2, 4)):
        for mode in ("all", "any"):
            assert seen(torch.compile(f), hooked, mode) == seen(f, hooked, mode)
