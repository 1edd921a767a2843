"""Inference mode in and around compiled functions: results, effects, flags, versions as in eager code, and no fault."""

import warnings

import pytest

import fusegrad as T
from fusegrad import nn


def infer():
    return T.inference_mode()


def scaled(x, w):
    return x * w


def inside(x, w):
    with infer():
        y = x * w
    return y


def used_after(x, w):
    with infer():
        y = x * w
    return y + x, y


def changed_inside(x, w):
    with infer():
        y = x * w
        y.add_(1)
    return y


def views(x, w):
    y = x * w
    with infer():
        z = y.view(-1)
        u = z + 1
    return y, z, u


def argument_changed(x, w):
    with infer():
        x.add_(1)
    return x * w


def branch(x, w):
    with infer():
        y = x.clone()
    if y.sum() > 0:
        y = y * 2
    return y + 1


def break_inside(x, w):
    with infer():
        y = x * 2
        print(end="")
        z = y + 1
    return z, y


def normal_changed_inside(x, w):
    y = x * w
    with infer():
        y.mul_(2)
    return y


def changed_outside(x, w):
    with infer():
        y = x * 2
    y.add_(1)
    return y


def into_the_graph(x, w):
    with infer():
        y = x * 2
    return y * w


def left_inside(x, w):
    with infer():
        with T.inference_mode(False):
            y = x * w
        z = y * 2
    return y, z


def row(x, w):
    with infer():
        y = x[0]
    return y, y * 1


def stores(x, w):
    with infer():
        a = T.ones(2)
        a[0] = 5
        b = x.reshape(-1)
        b.zero_()
    return a, b, x


def version(x, w):
    with infer():
        y = x * 2
    return y, y._version


def turned(x, w):
    y = x.detach()
    with infer():
        y.t_()
    return y


def copied(x, w):
    with infer():
        y = T.zeros(2, 2)
    c = w.clone()
    with T.no_grad():
        c.copy_(y)
    return c, y.is_inference()


def no_grad_after(x, w):
    with infer():
        y = x * 2
    with T.no_grad():
        return y.view(-1), y.sum()


def backward(x, w):
    w.grad = None
    with infer():
        a = (x * w).sum()
    (x * w).sum().backward()
    return a, w.grad


def asks(x, w):
    with infer():
        y = x * 2
    return y.requires_grad_()


def data(x, w):
    with infer():
        y = x * 2
    y.data = T.ones(2, 2)
    return y


def copied_in(x, w):
    with infer():
        y = x * 2
    x.copy_(y)
    return x * 1


def out(x, w):
    with infer():
        y = x * 2
    z = T.empty(2, 2)
    T.add(y, 1, out=z)
    return z


def into_inference(x, w):
    with infer():
        y = x * 2
    T.add(x, 1, out=y)
    return y


def parts(x, w):
    with infer():
        return x.unbind(0), x.split(1), x.chunk(2)


def part_changed(x, w):
    with infer():
        x.unbind(0)[0].add_(1)
    return x * 2


def layers(x, w):
    with infer():
        y = nn.functional.dropout(x, 0.5)
        b = nn.functional.batch_norm(x, T.zeros(2), T.ones(2), training=True)
    return y, b


PROGRAMS = [scaled, inside, used_after, changed_inside, views, argument_changed, branch, break_inside,
            normal_changed_inside, changed_outside, into_the_graph, left_inside, row, stores, version, turned,
            copied, no_grad_after, backward, asks, data, copied_in, out, into_inference, parts, part_changed,
            layers]  # fmt: skip


def arguments(kind):
    T.manual_seed(0)
    x, w = T.randn(2, 2), T.randn(2, 2)
    if kind == "leaf":
        w.requires_grad_()
    elif kind == "history":
        x = x.requires_grad_() * 1
    elif kind == "view":
        x = T.randn(2, 4)[:, ::2]
    elif kind != "plain":
        with infer():
            x = x.clone() if kind != "view made in it" else x.clone().view(2, 2)
            w = w.clone() if kind == "both made in it" else w
    return x, w


def shown(v):
    if isinstance(v, T.Tensor):
        made_in_it = v.is_inference()
        history = (v.requires_grad, v.grad_fn is None, None if made_in_it else v._version)
        return "tensor", tuple(v.shape), v.detach().numpy().tolist(), made_in_it, history
    return [shown(x) for x in v] if isinstance(v, (tuple, list)) else repr(v)


def outcome(f, kind, outside):
    x, w = arguments(kind)
    T.manual_seed(1)
    try:
        with T.inference_mode(outside):
            got = f(x, w)
        after = [shown(got), shown(x), shown(w)]
        for t in got if isinstance(got, (tuple, list)) else [got]:
            if isinstance(t, T.Tensor) and t.requires_grad:
                try:
                    t.sum().backward()
                    after.append(shown(w.grad))
                except RuntimeError as e:
                    after.append(str(e))
    except Exception as e:
        return type(e).__name__, str(e)
    return after


@pytest.mark.parametrize("outside", [False, True], ids=["outside", "within"])
@pytest.mark.parametrize(
    "kind", ["plain", "leaf", "history", "view", "made in it", "both made in it", "view made in it"]
)
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_inference_mode(f, kind, outside):
    T.compiler.reset()
    c = T.compile(f)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a fault inside of the compiler warns
        for _ in range(2):
            assert outcome(c, kind, outside) == outcome(f, kind, outside)
    assert not any("FG014" in r for r in T.compiler.stats()["break_reasons"])


def test_a_compiled_function_called_in_and_out_of_the_mode():
    c = T.compile(used_after)
    for outside in (False, True, True, False):
        for kind in ("plain", "made in it", "leaf"):
            assert outcome(c, kind, outside) == outcome(used_after, kind, outside)


def stepped(p, opt):
    p.grad = T.ones(2)
    opt.step()
    return p.detach() * 1


@pytest.mark.parametrize("make", [T.optim.RMSprop, T.optim.Adam, T.optim.NAdam, T.optim.SGD, T.optim.Adagrad])
@pytest.mark.parametrize("within", [(True, True), (True, False, True), (False, True)], ids=str)
def test_steps_of_an_optimizer(make, within):
    """Its state is made at the first step: in the mode, it has no versions to tell."""
    found = []
    T.compiler.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for compiled in (False, True):
            p = T.nn.Parameter(T.tensor([0.5, 1.5]))
            opt = make([p], lr=0.05)
            f = T.compile(stepped) if compiled else stepped
            seen = []
            for inside in within:
                try:
                    with T.inference_mode(inside):
                        seen.append(shown(f(p, opt)))
                except RuntimeError as e:  # state made in the mode, changed outside of it
                    seen.append(str(e))
            found.append(seen)
    assert found[0] == found[1]
    assert not any("FG014" in r for r in T.compiler.stats()["break_reasons"])


GRADIENTS = {
    "sine": lambda x: x.sin(),
    "linear": lambda x: x * 2,
    "added": lambda x: x + 1,
    "view": lambda x: x.view(3, 1),
    "sum": lambda x: x.sum(),
}


@pytest.mark.parametrize("kind", GRADIENTS)
def test_gradients_taken_in_the_mode(kind):
    """Gradients that are computed in the mode have its mark, also where compiled code computes them; what was added to
    ``.grad`` from before has none."""
    found = []
    for f in (GRADIENTS[kind], T.compile(GRADIENTS[kind])):
        x = T.ones(3, requires_grad=True)
        y = [f(x) for _ in range(4)]
        with infer():
            (first,) = T.autograd.grad(y[0], x, T.ones_like(y[0]))
            y[1].backward(T.ones_like(y[1]))
            second, x.grad = x.grad, None
        y[2].backward(T.ones_like(y[2]))
        with infer():
            y[3].backward(T.ones_like(y[3]))
            pushed = T.func.linearize(f, x.detach())[1](T.ones(3))
        assert first.is_inference() and second.is_inference() and not x.grad.is_inference()
        found.append((first.tolist(), x.grad.tolist(), pushed.is_inference()))
    assert found[0] == found[1]
