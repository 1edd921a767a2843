"""Compiled functions that live on don't keep what they were called with: modules, closures, objects, tensors."""

import gc
import threading
import weakref

import pytest

import fusegrad as T

nn = T.nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.scale, self.act = nn.Linear(4, 4), nn.Linear(4, 4), 2.0, T.tanh

    def forward(self, x):
        return self.b(self.act(self.a(x))) * self.scale


class Closing(nn.Module):
    """Refers to itself, by a closure and by a bound method."""

    def __init__(self):
        super().__init__()
        self.fc, self.k = nn.Linear(4, 4), 3.0
        self.fn, self.act = lambda x: x * self.k, self.curve

    def curve(self, x):
        return T.tanh(x)

    def forward(self, x):
        return self.fn(self.act(self.fc(x)))


class Holder:
    def __init__(self):
        self.net, self.k = Net(), 3.0


class Trainer:
    def __init__(self):
        self.net = Net()
        self.opt = T.optim.SGD(self.net.parameters(), lr=0.1, momentum=0.9)

    def step(self, x):
        self.opt.zero_grad()
        loss = self.net(x).sum()
        loss.backward()
        self.opt.step()
        return loss.detach()


def call(f, x):
    return f(x)


def breaks(f, x):
    y = f(x)
    print(end="")
    return f(y).sum()


def backward(f, x):
    y = f(x).sum()
    y.backward()
    return y.detach()


def both(f, g, x):
    return f(x) - g(x)


def step(net, opt, x):
    opt.zero_grad()
    loss = net(x).sum()
    loss.backward()
    opt.step()
    return loss.detach()


def closure():
    net = Net()
    return ((lambda x: net(x) * 2),)


def with_adam():
    net = Net()
    return net, T.optim.Adam(net.parameters(), lr=0.1)


def as_key(c, x):
    return x * {c: 1.5}[c]


def by_id(c, x):
    return x * (id(c) == id(c)) + 1


CASES = {
    "module": (call, lambda: (Net(),)), "linear": (call, lambda: (nn.Linear(4, 2),)),
    "sequential": (call, lambda: (nn.Sequential(nn.Linear(4, 2), nn.ReLU()),)),
    "break": (breaks, lambda: (Net(),)), "backward": (backward, lambda: (Net(),)),
    "two": (both, lambda: (Net(), Net())),
    "closure": (call, closure), "itself": (call, lambda: (Closing(),)), "adam": (step, with_adam),
    "attribute": (lambda h, x: h.net(x) * h.k, lambda: (Holder(),)),
    "trainer": (lambda t, x: t.step(x), lambda: (Trainer(),)),
    "list": (lambda ms, x: ms[1](ms[0](x)), lambda: ([nn.Linear(4, 4), nn.Linear(4, 4)],)),
    "key": (as_key, lambda: (Holder(),)), "id": (by_id, lambda: (Holder(),)), "tensor": (by_id, lambda: (T.ones(2),)),
}  # fmt: skip


def leaves(objects):
    """Weak references to the objects, and to the module in them."""
    found = [getattr(v, "net", v) for v in objects] + list(objects)
    found += [m for v in objects if type(v) is list for m in v]
    return [weakref.ref(v) for v in found if type(v) is not list]


@pytest.mark.parametrize("name", list(CASES))
def test_arguments_die(name):
    T.compiler.reset()
    f, make = CASES[name]
    compiled = T.compile(f)
    x, refs = T.randn(3, 4), []
    for k in range(5):
        T.manual_seed(k)
        args = make()
        T.manual_seed(k)
        again = make()
        for _ in range(2):
            assert T.allclose(compiled(*args, x), f(*again, x), atol=1e-5)
        refs += leaves(args)
        del args, again
    gc.collect()
    assert not [r() for r in refs if r() is not None]
    assert T.compiler.stats()["compiles"] <= 8  # the third of a kind is served by one entry for all


def test_at_once():
    """Without the collector, where nothing refers back to the module; and its parameters with it."""
    compiled = T.compile(call)
    gc.collect()
    gc.disable()
    try:
        net = Net()
        compiled(net, T.randn(3, 4))
        refs = [weakref.ref(net), weakref.ref(net.a), weakref.ref(net.a.weight)]
        del net
        assert [r() for r in refs] == [None] * 3
    finally:
        gc.enable()


def test_one_dies_the_other_stays():
    compiled = T.compile(call)
    x, first, second = T.randn(3, 4), Net(), Net()
    for net in (first, second):
        compiled(net, x)
    count = T.compiler.stats()["compiles"]
    del first, net
    assert T.allclose(compiled(second, x), second(x), atol=1e-5)
    assert T.compiler.stats()["compiles"] == count


def test_none_in_its_place():
    """A dead object is None to a weak reference."""

    def f(m, x):
        return x * 2 if m is None else m(x)

    compiled, x, net = T.compile(f), T.randn(3, 4), nn.Linear(4, 4)
    compiled(net, x)
    del net
    assert T.equal(compiled(None, x), x * 2)
    net = nn.Linear(4, 4)  # perhaps at the same address
    assert T.allclose(compiled(net, x), net(x), atol=1e-6)


def test_replaced_global(monkeypatch):
    monkeypatch.setitem(globals(), "MODEL", None)
    compiled, x, refs = T.compile(lambda x: MODEL(x)), T.randn(3, 4), []  # noqa: F821
    for _ in range(4):
        globals()["MODEL"] = Net()
        assert T.allclose(compiled(x), globals()["MODEL"](x), atol=1e-5)
        refs.append(weakref.ref(globals()["MODEL"]))
    gc.collect()
    assert [r() is None for r in refs] == [True, True, True, False]


def test_rebound_inside(monkeypatch):
    """The code drops the only reference while it runs."""
    monkeypatch.setitem(globals(), "MODEL", None)

    def f(x):
        global MODEL
        y = MODEL(x)
        MODEL.calls = 1
        MODEL = None
        return y * 2

    compiled, x = T.compile(f), T.randn(3, 4)
    for k in range(3):
        T.manual_seed(k)
        globals()["MODEL"] = net = Net()
        want = net(x) * 2
        del net
        assert T.allclose(compiled(x), want, atol=1e-5)
        assert globals()["MODEL"] is None


def test_after_reset():
    compiled, x, net = T.compile(call), T.randn(3, 4), Net()
    compiled(net, x)
    T.compiler.reset()
    refs = [weakref.ref(net), weakref.ref(net.b.weight)]
    del net
    assert [r() for r in refs] == [None] * 2
    net = Net()
    assert T.allclose(compiled(net, x), net(x), atol=1e-5)


def test_reset_inside():
    """What runs goes on after everything compiled is forgotten."""

    class Calls(nn.Module):
        def forward(self, x):
            return self.fc(x) + 1

    def f(m, x):
        y = m(x)
        T.compiler.reset()
        return m(y) * 2

    net = Calls()
    net.fc = nn.Linear(4, 4)
    compiled, x = T.compile(f), T.randn(3, 4)
    for _ in range(3):
        assert T.allclose(compiled(net, x), f(net, x), atol=1e-5)


def test_a_failed_capture_keeps_nothing():
    def f(m, x):
        y = m(x)
        raise ValueError(y.shape[0])

    compiled, net = T.compile(f), Net()
    for _ in range(2):
        with pytest.raises(ValueError):
            compiled(net, T.randn(3, 4))
    ref = weakref.ref(net)
    del net
    gc.collect()
    assert ref() is None


def test_threads():
    """Modules that die in one thread while others compile and run."""
    compiled, x, wrong = T.compile(call), T.randn(3, 4), []

    def work():
        for _ in range(4):
            net = Net()
            for _ in range(3):
                if not T.allclose(compiled(net, x), net(x), atol=1e-5):
                    wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_the_guard_is_readable():
    text = str(T.compiler.explain(call)(Net(), T.randn(3, 4)).guards)
    assert "f is <Net>" in text and "_fg" not in text


class Count:
    n = m = 0


def test_a_segment_whose_effects_let_a_module_die_goes_on():
    """What it names stays until its end."""
    box = [Net()]

    def f(x):
        y = box[0](x)
        box[0] = None
        Count.n += 1
        Count.m = Count.n + 1
        return y

    c = T.compile(f)
    for k in range(1, 5):
        box[0] = net = Net()
        x = T.ones(2, 4)
        want = net(x)
        del net
        T.testing.assert_close(c(x), want)
        assert (Count.n, Count.m) == (k, k + 1)
