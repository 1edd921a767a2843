"""Parameters and buffers that are another tensor at every call: few versions, and never a stale one."""

from __future__ import annotations

import pytest
from helpers import tree

import fusegrad as T
from fusegrad import nn


class Decayed(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(T.ones(3))
        self.register_buffer("mean", T.ones(3))

    def forward(self, x):
        self.mean = self.mean * 0.9 + x.detach() * 0.1
        return x * self.w + self.mean


class Written(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("a", T.zeros(3))
        self.register_buffer("b", T.zeros(3))

    def forward(self, x):
        self.a.add_(x)
        return self.b * 2


def decayed(run, k, m):
    return run(T.ones(3) * k), m.mean


def parameter(run, k, m):
    m.weight = nn.Parameter(T.ones(3, 3) * k)
    run(T.ones(3)).sum().backward()
    return run(T.ones(3)), m.weight.grad


def assigned(run, k, m):
    m.load_state_dict({"weight": T.ones(3, 3) * k, "bias": T.ones(3)}, assign=True)
    return run(T.ones(3))


def same_array(run, k, m):
    m.weight = nn.Parameter(m.weight.data, requires_grad=k % 2 == 0)
    m.bias.requires_grad_(False)
    return run(T.ones(3)).requires_grad, m.weight


def other_sizes(run, k, m):
    m.weight, m.bias = nn.Parameter(T.ones(2 + k, 3) * k), nn.Parameter(T.ones(2 + k))
    return run(T.ones(3))


def other_kinds(run, k, m):
    dtype = T.float64 if k % 3 == 1 else T.float32
    m.weight = nn.Parameter(T.ones(3, 3, dtype=dtype) * k, requires_grad=k % 2 == 0)
    m.bias = None if k % 4 == 3 else nn.Parameter(T.ones(3, dtype=dtype))
    return run(T.ones(3, dtype=dtype))


def shared(run, k, m):
    m.a = T.ones(3) * k
    m.b = m.a if k in (4, 7) else T.ones(3)
    return run(T.ones(3)), m.a


CASES = {decayed: (Decayed, 2), parameter: (lambda: nn.Linear(3, 3), 3), assigned: (lambda: nn.Linear(3, 3), 3),
         same_array: (lambda: nn.Linear(3, 3), 4), other_sizes: (lambda: nn.Linear(3, 3), 5),
         other_kinds: (lambda: nn.Linear(3, 3), 8), shared: (Written, 4)}  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.__name__)
def test_tensors_of_modules_that_are_replaced(case):
    make, most = CASES[case]

    def calls(wrap):
        T.manual_seed(0)
        m = make()
        run = wrap(m)
        return [tree(case(run, k, m)) for k in range(12)]

    T.compiler.reset()
    assert calls(T.compile) == calls(lambda m: m)
    s = T.compiler.stats()
    assert s["compiles"] <= most and not s["plain_frames"], s["recompile_reasons"]


def test_tied_parameters_that_are_replaced():
    def calls(wrap):
        a, b = nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False)
        run = wrap(lambda x: b(a(x)).sum())
        out = []
        for k in range(10):
            a.weight = nn.Parameter(T.ones(3, 3) * k / 3)
            b.weight = a.weight if k % 3 == 2 else nn.Parameter(T.ones(3, 3))
            run(T.ones(3)).backward()
            out.append(tree([a.weight.grad, b.weight.grad]))
        return out

    T.compiler.reset()
    assert calls(T.compile) == calls(lambda f: f)
    assert not T.compiler.stats()["plain_frames"]


def test_training_a_parameter_that_is_replaced():
    def calls(wrap):
        T.manual_seed(0)
        m = nn.Linear(3, 1)

        def step(x, o):
            o.zero_grad()
            loss = m(x).sum()
            loss.backward()
            o.step()
            return loss

        run, out = wrap(step), []
        for k in range(10):
            m.weight = nn.Parameter(T.ones(1, 3) * k)
            out.append(tree([run(T.ones(3), T.optim.SGD(m.parameters(), lr=0.1)), m.weight, m.bias]))
        return out

    T.compiler.reset()
    assert calls(T.compile) == calls(lambda f: f)


class Holder:
    pass


def of_an_object():
    o = Holder()
    o.a, o.b = T.ones(3), T.ones(3)

    def put(k, share):
        o.a = T.ones(3) * k
        o.b = share(o.a)

    return (lambda: o.a), (lambda: o.b), put


def of_cells():
    a = b = None

    def put(k, share):
        nonlocal a, b
        a = T.ones(3) * k
        b = share(a)

    return (lambda: a), (lambda: b), put


def of_data():
    m = Written()

    def put(k, share):
        m.a.data = T.ones(3) * k
        m.b.data = share(m.a.data)

    return (lambda: m.a), (lambda: m.b), put


def of_a_list():
    ts = [None, None]

    def put(k, share):
        ts[0] = T.ones(3) * k
        ts[1] = share(ts[0])

    return (lambda: ts[0]), (lambda: ts[1]), put


SHARES = {"same": lambda t: t, "view": lambda t: t.view(3), "detached": lambda t: t.detach(), "part": lambda t: t[:1]}


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("place", [of_an_object, of_cells, of_data, of_a_list], ids=lambda p: p.__name__)
def test_memory_that_becomes_one_later(place, share):
    def calls(wrap):
        a, b, put = place()

        def f(x):
            y = b() * 2
            a().add_(x)
            return y + b()

        run, out = wrap(f), []
        for k in range(9):
            put(k, SHARES[share] if k in (4, 5, 7) else T.clone)
            out.append(tree([run(T.ones(3)), a(), b()]))
        return out

    T.compiler.reset()
    assert calls(T.compile) == calls(lambda f: f)


G = T.ones(3)


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("view", [False, True])
def test_memory_that_an_argument_comes_to_share_with_a_global(share, view):
    """Who owns the memory of globals is looked at before what the arguments are compared with."""

    def f(x, d):
        y = G * 2
        d["k"].add_(x)
        return y + G

    def calls(run):
        global G
        out = []
        for k in range(6):
            G, v = T.ones(3) * k, T.ones(3)
            if view:
                G, v = G.view(3), v.view(3)
            if k == 3:
                v = SHARES[share](G)
            out.append(tree([run(T.ones(v.shape), {"k": v}), G, v]))
        return out

    T.compiler.reset()
    assert calls(T.compile(f)) == calls(f)


@pytest.mark.parametrize("place", ["arguments", "object"])
def test_parts_of_one_tensor_that_become_tensors_of_their_own(place):
    def f(a, b, c, o):
        if place == "object":
            a, b, c = o.a, o.b, o.c
        y = c * 2 + b
        a.add_(1)
        b.mul_(2)
        return y + c

    def calls(run):
        out, o = [], Holder()
        for k in range(6):
            whole, other = T.arange(6.0) + k, T.ones(3)
            a, b, c = whole[:3], whole[3:], other.view(3)
            if k == 3:
                a, b = T.ones(3).view(3), other.view(3)
            o.a, o.b, o.c = a, b, c
            out.append(tree([run(a, b, c, o), a, b, c]))
        return out

    T.compiler.reset()
    assert calls(T.compile(f)) == calls(f)


CAST = {
    "linear": lambda p, x: T.nn.functional.linear(x, p),
    "product": lambda p, x: p * x,
    "promoted": lambda p, x: p * x.double() * p,
    "rows": lambda p, x: p[0] + p.sum(),
    "activation": lambda p, x: p.exp().t(),
    "cast inside": lambda p, x: p.double().float() * 2,
    "square": lambda p, x: p**2,
}
REFUSED = "promoted", "activation"  # with create_graph: compiled code would compute values in between anew, and says so


def gradient_after_cast(f, p, x, to, how):
    """`p` is cast (and may be used again) between the call and its backward pass."""
    if how == "accumulated":
        p.grad = T.ones(3, 3, dtype=p.dtype)
    y = f(p, x)
    p.data = p.data.to(to)
    if how == "accumulated":
        p.grad.data = p.grad.data.to(to)
    loss = (y * y).sum()
    if how in ("grad", "create"):
        g = T.autograd.grad(loss, p, create_graph=how == "create")[0]
        return g.detach(), T.autograd.grad(g.sum(), p)[0] if g.requires_grad else None
    if how == "twice":
        loss.backward(retain_graph=True)
    loss.backward()
    return (p.grad,)


@pytest.mark.parametrize("kind", CAST)
def test_a_parameter_that_is_cast_before_the_backward_pass(kind):
    """Its gradient has the dtype it had in forward, as in PyTorch (what was in `.grad` keeps its own)."""
    for before, to in ((T.float32, T.float64), (T.float64, T.float32)):
        for how in ("backward", "accumulated", "twice", "grad", *(["create"] if kind not in REFUSED else [])):
            found = []
            for f in (CAST[kind], T.compile(CAST[kind])):
                p = nn.Parameter(T.ones(3, 3, dtype=before) * 0.7)
                found.append(gradient_after_cast(f, p, T.ones(3, 3, dtype=before), to, how))
            assert found[0][0].dtype is (to if how == "accumulated" else before)
            for a, b in zip(*found, strict=True):
                assert tree(a) == tree(b) if a is None or b is None else a.dtype is b.dtype and T.allclose(a, b)


def test_a_module_that_is_cast_and_cast_back_between():
    for f in (lambda m, x: m(x), T.compile(lambda m, x: m(x))):
        m = nn.Linear(3, 3)
        m.double()
        y = f(m, T.ones(2, 3, dtype=T.float64))
        m.float()
        f(m, T.ones(2, 3)).sum().backward()
        assert m.weight.grad.dtype is T.float32
        m.zero_grad()
        y.sum().backward()
        assert m.weight.grad.dtype is m.bias.grad.dtype is T.float64
        m.double().float()
        f(m, T.ones(2, 3)).sum().backward()
        assert m.weight.grad.dtype is T.float32 and m.bias.grad.tolist() == [4.0] * 3
