"""Operators whose number changes between calls are made of other operators: their history is that of the operator."""

import pytest

import fusegrad as T
from fusegrad import control
from fusegrad.utils.checkpoint import checkpoint

F = T.nn.functional

FORMS = {
    "leaky_relu": lambda x, s: F.leaky_relu(x, s),
    "hardtanh": lambda x, s: F.hardtanh(x, -s, s),
    "threshold": lambda x, s: F.threshold(x, s, s),
    "hardshrink": lambda x, s: F.hardshrink(x, s),
    "softshrink": lambda x, s: F.softshrink(x, s),
    "elu": lambda x, s: F.elu(x, s),
    "celu": lambda x, s: F.celu(x, s),
    "softplus": lambda x, s: F.softplus(x, s),
    "nan_to_num": lambda x, s: T.nan_to_num(x, s),
    "masked_fill": lambda x, s: x.masked_fill(x > 0, s),
    "pad": lambda x, s: F.pad(x, (1, 1), value=s),
    "logit": lambda x, s: T.logit(x, s),
    "layer_norm": lambda x, s: F.layer_norm(x, (3,), eps=s),
    "rms_norm": lambda x, s: F.rms_norm(x, (3,), eps=s),
    "batch_norm": lambda x, s: F.batch_norm(x[:, None], None, None, training=True, eps=s),
    "group_norm": lambda x, s: F.group_norm(x[None], 1, eps=s),
    "index_add": lambda x, s: T.index_add(x, 0, T.tensor([0, 2]), x[:2], alpha=s),
    "lerp": lambda x, s: T.lerp(x, x * 2, s),
    "clamp": lambda x, s: x.clamp(-s, s),
    "huber_loss": lambda x, s: F.huber_loss(x, x.detach() * 0, delta=s),
}
VALUES = [0.3, 0.5, -0.2]


def _derivatives(y, x):
    """(value, whether it requires a gradient) of the derivatives up to the third."""
    found = [(y.detach().tolist(), y.requires_grad)]
    for _ in range(3):
        if not y.requires_grad:
            break
        (y,) = T.autograd.grad(y.sum(), x, create_graph=True, allow_unused=True)
        if y is None:
            break
        found.append(([round(v, 3) + 0.0 for v in y.detach().tolist()], y.requires_grad))
    return found[1:], found[0][1]


@pytest.mark.parametrize("name", FORMS)
def test_derivatives_require_gradients_where_those_of_the_operator_do(name):
    f = FORMS[name]
    c = T.compile(f)
    for s in (0.5, 0.25, 0.75):  # fixed at first, then an input of the graph
        a, b = (T.tensor(VALUES, requires_grad=True) for _ in range(2))
        want, got = _derivatives(f(a, s), a), _derivatives(c(b, s), b)
        assert want[1] == got[1]
        for (v, flag), (w, other) in zip(want[0], got[0], strict=True):
            assert flag == other and v == pytest.approx(w, rel=1e-3, abs=1e-3)


@pytest.mark.parametrize("what", ["input", "result"])
@pytest.mark.parametrize("name", FORMS)
def test_what_the_operator_keeps_may_not_be_changed(name, what):
    f = FORMS[name]

    def refused(g, s):
        x = T.tensor(VALUES, requires_grad=True)
        h = x * 1
        y = g(h, s)
        (h if what == "input" else y).add_(1)
        try:
            y.sum().backward()
        except RuntimeError as e:
            assert "modified by an inplace operation" in str(e)
            return True
        return False

    c = T.compile(f)
    for s in (0.5, 0.25, 0.75):
        assert refused(c, s) == refused(f, s)


LINEAR = {
    "scan": lambda x, y: control.scan(lambda c, a: (c + a, c), x, y)[1],
    "scan, the carry": lambda x, y: control.scan(lambda c, a: (c + a, c * 2), x, y)[0],
    "scan, twice a carry": lambda x, y: control.scan(lambda c, a: (c * 2, c - a), x, y)[1],
    "scan, not linear": lambda x, y: control.scan(lambda c, a: (c * a, c.exp()), x, y)[1],
    "scan, not linear in one": lambda x, y: control.scan(lambda c, a: (c + a * a, c * 2), x, y)[1],
    "map": lambda x, y: control.map(lambda a, b: a + b, y, x),
    "map, not linear": lambda x, y: control.map(lambda a, b: a * b, y, x),
}


@pytest.mark.parametrize("cotangent", [False, True])
@pytest.mark.parametrize("name", LINEAR)
def test_gradients_of_linear_loops_are_constants(name, cotangent):
    """(whether they require a gradient was decided by whether one was wanted)"""
    f = LINEAR[name]

    def flags(g):
        x, y = T.tensor([1.0, 2.0], requires_grad=True), T.tensor([[1.0, 2.0], [0.5, 1.5]], requires_grad=True)
        out = g(x, y)
        ones = T.ones(out.shape, requires_grad=cotangent)
        found = T.autograd.grad(out, (x, y), ones, create_graph=True)
        return [t.requires_grad for t in found]

    assert flags(T.compile(f)) == flags(f)


CHECKPOINTED = {
    "exp": lambda y: checkpoint(lambda u, k: u.exp(), y, 0.7, use_reentrant=False),
    "keeps its result": lambda y: checkpoint(lambda u: u.tanh(), y, use_reentrant=False),
    "keeps other things": lambda y: checkpoint(lambda u: u * T.ones(2), y, use_reentrant=False),
    "keeps nothing": lambda y: checkpoint(lambda u: u + 1, y, use_reentrant=False),
    "two results": lambda y: checkpoint(lambda u: (u.exp(), u + 1), y, use_reentrant=False)[0],
    "draws": lambda y: checkpoint(lambda u: u * T.rand_like(u), y, use_reentrant=False),
}


@pytest.mark.parametrize("name", CHECKPOINTED)
def test_a_checkpoints_argument_may_not_be_changed(name):
    """Eager code, which runs the function again, refuses it; the compiled backward needed the result alone."""
    f = CHECKPOINTED[name]

    def refused(g, change):
        x = T.tensor([1.0, 2.0], requires_grad=True)
        y = x * 1
        out = g(y)
        if change:
            y.add_(1)
        try:
            out.sum().backward()
        except RuntimeError as e:
            assert "modified by an inplace operation" in str(e)
            return True
        return False

    c = T.compile(f)
    assert not refused(c, False) and refused(c, True) == refused(f, True)
