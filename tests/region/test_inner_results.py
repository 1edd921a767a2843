"""Results of one compiled call of which one was computed from another: gradients, hooks and targets between them."""

import pytest

import fusegrad as torch


def model(x, w):
    h = torch.tanh(x @ w)
    y = h * h + x.sum()
    return h, y, (y * h).sum()


def leaves(n=2):
    torch.manual_seed(0)
    return torch.randn(n, 3).requires_grad_(), torch.randn(3, 4).requires_grad_()


def gradients_between(f):
    x, w = leaves()
    h, y, loss = f(x, w)
    grads = [torch.autograd.grad(loss, t, retain_graph=True)[0] for t in (h, y)]
    grads += torch.autograd.grad(loss, [h, y, x, w], retain_graph=True)
    return grads + list(torch.autograd.grad([loss, y.sum()], [h, y]))


def hooks_that_change(f):
    x, w = leaves()
    h, y, loss = f(x, w)
    h.register_hook(lambda g: g * 10)
    y.register_hook(lambda g: g + 1)
    (loss + y.sum()).backward()
    return [x.grad, w.grad]


def hooks_that_change_in_place(f):
    x, w = leaves()
    h, y, loss = f(x, w)
    h.register_hook(lambda g: (g.mul_(3), None)[1])
    loss.backward()
    return [x.grad, w.grad]


def hooks_that_look(f):
    x, w = leaves()
    h, y, loss = f(x, w)
    seen = []
    h.register_hook(lambda g: seen.append(g.clone()))
    y.register_hook(lambda g: seen.append(g.clone()))
    loss.backward()
    return [*seen, x.grad, w.grad]


def retained(f):
    x, w = leaves()
    h, y, loss = f(x, w)
    h.retain_grad()
    y.retain_grad()
    h.register_hook(lambda g: g * 2)
    (loss * 3 + h.sum()).backward()
    return [h.grad, y.grad, x.grad, w.grad]


def inputs_of_backward(f):
    x, w = leaves()
    h, y, loss = f(x, w)
    loss.backward(inputs=[h, x])
    return [h.grad, x.grad]


def hooks_on_several(f):
    x, w = leaves()
    h, y, loss = f(x, w)
    seen = []
    torch.autograd.graph.register_multi_grad_hook((h, y, w), lambda grads: seen.extend(grads))
    loss.backward()
    return [g.clone() for g in seen]


def second_derivatives(f):
    x, w = leaves()
    h, y, loss = f(x, w)
    (g,) = torch.autograd.grad(loss, h, create_graph=True)
    return [g, *torch.autograd.grad((g * g).sum(), [x, w])]


def other_sizes(f):
    out = []
    for n in (2, 3, 5, 4):
        x, w = leaves(n)
        h, y, loss = f(x, w)
        h.register_hook(lambda g: g * 10)
        loss.backward()
        out += [x.grad, w.grad]
    return out


def removed(f):
    x, w = leaves()
    h, y, loss = f(x, w)
    h.register_hook(lambda g: g * 10).remove()
    loss.backward()
    return [x.grad, w.grad]


PROGRAMS = [
    gradients_between, hooks_that_change, hooks_that_change_in_place, hooks_that_look, retained, inputs_of_backward,
    hooks_on_several, second_derivatives, other_sizes, removed,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_as_in_eager_code(program):
    want = program(model)
    for made in (torch.compile(model), torch.compile(model, dynamic=True)):
        got = program(made)
        assert len(got) == len(want)
        for a, b in zip(got, want, strict=True):
            torch.testing.assert_close(a.detach(), b.detach(), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_within_one_compiled_program(program):
    got = torch.compile(program)(model)
    for a, b in zip(got, program(model), strict=True):
        torch.testing.assert_close(a.detach(), b.detach(), rtol=1e-5, atol=1e-4)


def test_of_an_exported_program():
    from fusegrad import export as E

    class Features(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = torch.nn.Linear(3, 4), torch.nn.Linear(4, 2)

        def forward(self, x):
            h = torch.tanh(self.a(x))
            return h, self.b(h)

    m = Features()
    results = []
    for f in (m, E.export(m, (torch.ones(2, 3),)).module()):
        h, out = f(torch.ones(2, 3))
        h.retain_grad()
        out.sum().backward()
        results.append(h.grad)
    torch.testing.assert_close(results[1], results[0])


@pytest.mark.parametrize("how", ["hooks", "retain"])
def test_an_input_that_the_call_changed_and_the_gradient_does_without(how):
    """It counts as changed since the call began: what lies between two results was refused."""

    def f(x, y):
        x.add_(1)
        a = y * 2
        return torch.nn.functional.mse_loss(a, y), a

    def seen(f):
        w = torch.tensor([1.0, 2.0], requires_grad=True)
        outs = f(w * 2, w * 3)
        for u in outs:
            u.retain_grad()
            if how == "hooks":
                u.register_hook(lambda g: g * 3)
        sum(u.sum() for u in outs).backward()
        return w.grad.tolist(), [u.grad.tolist() for u in outs]

    assert seen(torch.compile(f)) == seen(f)


VIEWS = {
    "gaps": lambda h: h[:, ::2],
    "expanded": lambda h: h[:, :1].expand(3, 4),
    "turned": lambda h: h.t(),
    "one row": lambda h: h[1],
    "windows": lambda h: h.unfold(1, 2, 1),
}
USES = {
    "a loss": lambda v: (v * v).sum(),
    "a result": lambda v: v.exp(),
    "a view of it": lambda v: v[0],
}


@pytest.mark.parametrize("of", ["an input", "a value"])
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("view", VIEWS)
def test_views_from_which_another_result_was_computed(view, use, of):
    """Hooks on them and gradients by them are right, or refused (they missed what came by way of the other result)."""

    def f(x):
        v = VIEWS[view](x.exp() if of == "a value" else x)
        return v, USES[use](v)

    def seen(f, how):
        log = []
        x = torch.arange(12.0).reshape(3, 4).div(12).requires_grad_() * 1
        a, b = f(x)
        if how == "hook":
            a.register_hook(lambda g: log.append(g.tolist()))
        if how == "retain":
            a.retain_grad()
        loss = a.sum() + b.sum()
        try:
            if how == "grad":
                return torch.autograd.grad(loss, a)[0].tolist()
            if how == "with a graph":
                return torch.autograd.grad(loss, [a, x], create_graph=True)[0].tolist()
            loss.backward(inputs=[a] if how == "inputs" else None)
        except RuntimeError as e:
            assert "the gradient at a view that compiled code returned" in str(e)
            return None
        return log if how in ("hook", "plain") else a.grad.tolist()

    compiled = torch.compile(f)
    for how in ("hook", "retain", "grad", "with a graph", "inputs", "plain"):
        got, want = seen(compiled, how), seen(f, how)
        assert how != "plain" or got == want
        if got is not None and want is not None:
            torch.testing.assert_close(torch.tensor(got), torch.tensor(want))


def test_gradients_by_a_result_alone():
    """Nothing else is asked for: what comes by way of results that were computed from it was left out."""
    for f in (lambda x: (lambda v: (v, v.sum()))(x.exp()), lambda x: (lambda v: (v, v * v))(x.exp())):
        for graph in (False, True):
            found = []
            for g in (f, torch.compile(f)):
                x = torch.ones(2, 3).requires_grad_()
                a, b = g(x)
                found.append(torch.autograd.grad(a.sum() + (b * 2).sum(), [a], create_graph=graph)[0])
            torch.testing.assert_close(found[0], found[1])
            assert found[0].requires_grad is found[1].requires_grad
