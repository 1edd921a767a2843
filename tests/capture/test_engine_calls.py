"""Code of the user that the autograd engine calls: custom Functions, hooks on tensors, before and after the region."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
from helpers import check, tree

import fusegrad as T
from fusegrad import nn
from fusegrad.autograd import Function
from fusegrad.autograd.function import once_differentiable

ALPHA = 2.0


class Cube(Function):
    """Saves its input; its backward is not the derivative of its forward, to see which of the two is used."""

    @staticmethod
    def forward(ctx: Any, x: Any, k: float = 2.0) -> Any:
        ctx.save_for_backward(x)
        ctx.k = k
        return x**3

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * ctx.k * x**2, None


class SavedOutput(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        y = (x * 0.5).exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (y,) = ctx.saved_tensors
        return g * y * y


class Inner(Function):
    """Saves a value that is neither input nor output: a constant for second derivatives."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        s = x.sin()
        ctx.save_for_backward(x, s)
        return s * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, s = ctx.saved_tensors
        return g * s * x


class Setup(Function):
    @staticmethod
    def forward(x: Any, y: Any, n: int) -> Any:
        return x * y + n, x - y

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        x, y, n = inputs
        ctx.save_for_backward(x, y, None)
        ctx.n = n + len(output)

    @staticmethod
    def backward(ctx: Any, a: Any, b: Any) -> Any:
        x, y, none = ctx.saved_tensors
        assert none is None and ctx.needs_input_grad[2] is False
        return a * y * ctx.n + b, (a * x - b if ctx.needs_input_grad[1] else None), None


class Sign(Function):
    """A straight-through estimator."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return (x > 0).float() * 2 - 1

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g.clamp(-1, 1) * (x.abs() < 1)


class Parts(Function):
    """One output is not differentiable; missing gradients stay None."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        v, i = x.sort()
        ctx.mark_non_differentiable(i)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(i)
        return v, i, x.exp()

    @staticmethod
    def backward(ctx: Any, gv: Any, gi: Any, ge: Any) -> Any:
        (i,) = ctx.saved_tensors
        assert ge is None
        return T.zeros(gv.shape).scatter(0, i, gv)


class Dirty(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        x.mul_(3)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 5


class Once(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x.exp()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Any) -> Any:
        return g * ctx.saved_tensors[0]


PURE = {
    "cube": lambda x: Cube.apply(x, 3.0),
    "saved output": lambda x: SavedOutput.apply(x),
    "inner": lambda x: Inner.apply(x),
    "setup": lambda x: sum(Setup.apply(x, x * 2, 3)),
    "sign": lambda x: Sign.apply(x) * x,
    "parts": lambda x: Parts.apply(x)[0] * T.arange(1.0, 4.0),
    "dirty": lambda x: Dirty.apply(x * 1) * x,
    "two of them": lambda x: Cube.apply(SavedOutput.apply(x) * x * 0.1),
    "in a function": lambda x: _nested(x) + 1,
    "hook": lambda x: _hooked(x),
}


def _nested(x: Any) -> Any:
    return Cube.apply(x * 2, 0.5)


def _hooked(x: Any) -> Any:
    y = x.exp()
    y.register_hook(lambda g: g * 10)
    return y * y * 0.001


@pytest.mark.parametrize("name", PURE)
def test_backward_inside(name: str) -> None:
    w = T.tensor([0.3, -0.5, 1.5]).requires_grad_()

    def f(x: Any) -> Any:
        w.grad = None
        y = PURE[name](w * x)
        y.sum().backward()
        return y, w.grad

    check(f, (T.tensor([1.0, 2.0, 0.5]),), (T.tensor([0.1, 2.0, -0.5]),), breaks=0)


@pytest.mark.parametrize("name", PURE)
def test_backward_outside(name: str) -> None:
    """First and second derivatives of a compiled function, which captures forward and backward."""
    f = PURE[name]

    def derivatives(f: Any, x: Any) -> Any:
        x = x.clone().requires_grad_()
        y = f(x * 1)
        (g,) = T.autograd.grad((y * T.tensor([1.0, 3.0, 2.0])).sum(), x, create_graph=True)
        h = T.autograd.grad(g.sum(), x, allow_unused=True)[0] if g.requires_grad else None
        return tree((y, g.detach(), g.requires_grad, h))

    T.compiler.reset()
    c = T.compile(f)
    for x in (T.tensor([0.3, -0.5, 1.5]), T.tensor([0.1, 2.0, -0.25])):
        assert derivatives(c, x) == derivatives(f, x)
    assert T.compiler.stats()["graph_breaks"] == 0, T.compiler.stats()["break_reasons"]


def test_second_derivative_that_is_refused() -> None:
    """once_differentiable: the error of eager, inside and outside."""

    def outside(f: Any) -> str:
        x = T.ones(3).requires_grad_()
        (g,) = T.autograd.grad(f(x).sum(), x, create_graph=True)
        with pytest.raises(RuntimeError) as e:
            g.sum().backward()
        return str(e.value)

    def inside(x: Any) -> Any:
        x = x.clone().requires_grad_()
        (g,) = T.autograd.grad(Once.apply(x).sum(), x, create_graph=True)
        return T.autograd.grad(g.sum(), x)

    f = lambda x: Once.apply(x) * 2  # noqa: E731
    assert outside(T.compile(f)) == outside(f)
    check(inside, (T.ones(3),), plain=None)
    check(lambda x: (Once.apply(x), T.autograd.grad(Once.apply(x).sum(), x)), (T.ones(3).requires_grad_(),), breaks=0)


def _logging(kind: str, log: list) -> Any:
    """A Function or hook whose backward does more than compute."""

    class F(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.n = 0
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            if kind == "append":
                log.append(1)
            elif kind == "print":
                print(end="")
                log.append(len(log))
            elif kind == "attribute":
                F.calls = getattr(F, "calls", 0) + 1
                log.append(F.calls)
            elif kind == "global":
                return g * ALPHA
            elif kind == "random":
                return g * T.rand(())
            elif kind == "context":
                ctx.n += 1
                return g * ctx.n
            return g * 2

    def hook(g: Any) -> Any:
        log.append(tuple(g.shape))

    def with_hook(x: Any) -> Any:
        y = x * 2
        y.register_hook(hook)
        return y * 3

    def retained(x: Any) -> Any:
        y = x * 2
        y.retain_grad()
        log.append(y)
        return y * 3

    return {"hook": with_hook, "retain": retained}.get(kind, F.apply)


KINDS = ("append", "print", "attribute", "global", "random", "context", "hook", "retain")


@pytest.mark.parametrize("kind", KINDS)
def test_code_that_leaves_traces_runs_when_the_engine_calls_it(kind: str) -> None:
    def outside(compiled: bool) -> Any:
        global ALPHA
        log: list = []
        f = _logging(kind, log)
        g = lambda x: f(x * 2) + 1  # noqa: E731
        g = T.compile(g) if compiled else g
        out = []
        T.manual_seed(0)
        for n in range(3):
            ALPHA = 2.0
            x = T.ones(2).requires_grad_()
            y = g(x).sum()
            out.append(len(log))
            ALPHA = 5.0 + n
            y.backward(retain_graph=True)
            out.append(tree((x.grad, len(log))))
            y.backward()
            out.append(tree((x.grad, len(log), log[-1].grad if kind == "retain" else 0)))
        return out

    T.compiler.reset()
    assert outside(True) == outside(False)


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_with_the_backward_inside(kind: str) -> None:
    def inside(compiled: bool) -> Any:
        log: list = []
        f = _logging(kind, log)

        def g(x: Any) -> Any:
            y = f(x * 2) + 1
            y.sum().backward()
            return y.detach()

        g = T.compile(g) if compiled else g
        out = []
        T.manual_seed(0)
        for _ in range(3):
            x = T.ones(2).requires_grad_()
            out.append(tree((g(x), x.grad, [v.grad if isinstance(v, T.Tensor) else v for v in log])))
        return out

    T.compiler.reset()
    assert inside(True) == inside(False)
    if kind in ("append", "attribute", "global", "random", "context", "hook"):
        assert T.compiler.stats()["plain_frames"] == 0, T.compiler.stats()["break_reasons"]


@pytest.mark.parametrize(
    "wrong",
    [lambda ctx, g: (g, g), lambda ctx, g: 1 / 0, lambda ctx, g: g[:1], lambda ctx, g: "no", lambda ctx, g: None],
)
def test_errors_of_a_backward(wrong: Any) -> None:
    class F(Function):
        forward = staticmethod(lambda ctx, x: x * 2)
        backward = staticmethod(wrong)

    def g(x: Any) -> Any:
        return F.apply(x).sum()

    def run(f: Any) -> Any:
        x = T.ones(3).requires_grad_()
        y = f(x)
        try:
            y.backward()
        except Exception as e:
            return type(e).__name__, str(e)
        return tree(x.grad)

    def inside(x: Any) -> Any:
        y = F.apply(x * 1).sum()
        y.backward()
        return x.grad

    assert run(T.compile(g)) == run(g)
    check(inside, (T.ones(3).requires_grad_(),), plain=None)


def test_number_that_changes_reaches_the_backward() -> None:
    """A gradient reversal layer whose factor changes from call to call, two compiles in all."""

    class Reverse(Function):
        @staticmethod
        def forward(ctx: Any, x: Any, alpha: float) -> Any:
            ctx.alpha = alpha
            return x.view_as(x)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return -ctx.alpha * g, None

    T.compiler.reset()
    c = T.compile(lambda x, alpha: Reverse.apply(x * 2, alpha) + 1)
    for alpha in (0.5, 0.25, 0.125, 1.5):
        x = T.ones(2).requires_grad_()
        c(x, alpha).sum().backward()
        assert x.grad.tolist() == [-2 * alpha] * 2
    s = T.compiler.stats()
    assert s["compiles"] == 2 and s["graph_breaks"] == 0, s["break_reasons"]


def test_hooks_that_leaves_have() -> None:
    """Hooks registered before the call run in a backward inside, in eager's order; changes are seen by guards."""

    def make(compiled: bool) -> Any:
        T.manual_seed(0)
        lin = nn.Linear(3, 2)
        log: list = []
        lin.weight.register_hook(lambda g: g.clamp(-0.1, 0.1))
        lin.bias.register_hook(lambda g: log.append(tuple(g.shape)))
        lin.bias.register_post_accumulate_grad_hook(lambda p: log.append("done"))

        def f(x: Any) -> Any:
            lin.zero_grad()
            loss = lin(x).square().sum()
            (g,) = T.autograd.grad(loss, lin.weight, retain_graph=True)
            loss.backward()
            return g, lin.weight.grad, lin.bias.grad

        f = T.compile(f) if compiled else f
        x, out = T.randn(4, 3), []
        for n in range(6):
            if n == 2:
                handle = lin.weight.register_hook(lambda g: g * 2)
            if n == 4:
                handle.remove()
            out.append(tree((f(x), list(log))))
        return out

    T.compiler.reset()
    assert make(True) == make(False)
    assert T.compiler.stats()["graph_breaks"] == 0, T.compiler.stats()["break_reasons"]


def test_optimizer_in_the_backward() -> None:
    """Post-accumulate hooks that step an optimizer for each parameter."""

    def make(compiled: bool) -> Any:
        T.manual_seed(0)
        net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
        opts = {p: T.optim.SGD([p], lr=0.1, momentum=0.9) for p in net.parameters()}

        def step(p: Any) -> None:
            opts[p].step()
            opts[p].zero_grad()

        for p in net.parameters():
            p.register_post_accumulate_grad_hook(step)

        def f(x: Any) -> Any:
            loss = net(x).square().mean()
            loss.backward()
            return loss.detach()

        f = T.compile(f) if compiled else f
        x = T.randn(8, 3)
        return [
            tree((f(x), [p.detach() for p in net.parameters()], [p.grad for p in net.parameters()])) for _ in range(4)
        ]

    T.compiler.reset()
    assert make(True) == make(False)
    assert T.compiler.stats()["graph_breaks"] == 0, T.compiler.stats()["break_reasons"]


def test_module_backward_hooks() -> None:
    def make(compiled: bool) -> Any:
        T.manual_seed(0)
        net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
        log: list = []
        net[0].register_full_backward_hook(lambda m, gi, go: log.append((len(gi), tuple(go[0].shape))))
        net[2].register_full_backward_pre_hook(lambda m, go: (go[0] * 2,))

        def f(x: Any) -> Any:
            net.zero_grad()
            net(x).sum().backward()
            return [p.grad for p in net.parameters()]

        def outside(x: Any) -> Any:
            return net(x).sum()

        g = T.compile(f) if compiled else f
        h = T.compile(outside) if compiled else outside
        x = T.randn(4, 3).requires_grad_()
        out = [tree((g(x), list(log))) for _ in range(2)]
        for _ in range(2):
            net.zero_grad()
            h(x).backward()
            out.append(tree(([p.grad for p in net.parameters()], x.grad, list(log))))
        return out

    T.compiler.reset()
    assert make(True) == make(False)


def test_handles_and_retained_gradients_escape() -> None:
    w = T.tensor([1.0, 2.0]).requires_grad_()

    def f(x: Any) -> Any:
        y = w * x
        h = y.register_hook(lambda g: g * 3)
        z = y * 2
        z.retain_grad()
        h.remove()
        z.sum().backward()
        g, w.grad = w.grad, None
        return g, z.grad, z.retains_grad

    check(f, (T.tensor([1.0, 3.0]),), breaks=0)

    def escaping(x: Any) -> Any:
        y = x * 2
        return y, y.register_hook(lambda g: g * 3)

    for g in (escaping, T.compile(escaping)):
        x = T.ones(2).requires_grad_()
        y, h = g(x)
        y.sum().backward(retain_graph=True)
        h.remove()
        y.sum().backward()
        assert x.grad.tolist() == [8.0, 8.0]


def test_nothing_of_a_call_is_kept() -> None:
    """A region with a custom backward keeps what a second derivative needs, but no tensor of the call."""
    c = T.compile(lambda x: Cube.apply(x * 2))
    x = T.ones(3).requires_grad_()
    ref = weakref.ref(x)
    y = c(x)
    y.sum().backward()
    del x, y
    gc.collect()
    assert ref() is None


class Refusing(T.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        raise ValueError("not here")


def test_backward_for_some_inputs_does_not_reach_code_that_raises() -> None:
    a, b = T.ones(3, requires_grad=True), T.ones(3, requires_grad=True)

    def f(x: Any) -> Any:
        return (Refusing.apply(a) * b * x).sum()

    def g(x: Any) -> Any:
        b.grad = None
        f(x).backward(inputs=[b])
        return b.grad

    for c in (T.compile(f), f):
        for _ in range(2):
            b.grad = None
            c(T.ones(3)).backward(inputs=[b])
            assert b.grad.tolist() == [1.0] * 3 and a.grad is None
            assert T.autograd.grad(c(T.ones(3)), [b])[0].tolist() == [1.0] * 3
            with pytest.raises(ValueError, match="not here"):
                c(T.ones(3)).backward()
    c = T.compile(g)
    for _ in range(2):
        assert c(T.ones(3)).tolist() == [1.0] * 3


def test_hooks_that_are_registered_anew_compile_once() -> None:
    def f(x: Any) -> Any:
        h = x.register_hook(lambda g: g * 2)
        (x * 3).sum().backward()
        h.remove()
        return x.grad

    def g(x: Any, k: int) -> Any:
        (x * 3).sum().backward()
        return x.grad

    T.compiler.reset()
    c, d = T.compile(f), T.compile(g)
    for k in range(12):
        assert c(T.ones(2, requires_grad=True)).tolist() == [6.0, 6.0]
        x = T.ones(2, requires_grad=True)
        handles = [x.register_hook(lambda g, m=m: g * m) for m in range(2, 2 + k % 3)]
        want = [3.0, 6.0, 18.0][len(handles)]
        assert d(x, 1).tolist() == [want] * 2
    s = T.compiler.stats()
    assert not any("FG015" in r for r in s["break_reasons"]), s["break_reasons"]
