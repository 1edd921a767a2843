"""More things that change between calls: behind breaks, in modules and tensors. See stale.py."""

import numpy as np
from stale import Scenarios, X, fresh_class

import fusegrad as T

nn = T.nn
scenario = Scenarios()


def stop(x):
    """Breaks the graph: a branch on data."""
    return x if x.sum() > 0 else x * 2


# ---- behind a break


@scenario
def global_read_after_a_break(C):
    g = {"T": T, "stop": stop, "k": 2.0, "__name__": "scenario"}
    exec("def f(x):\n    x = stop(x)\n    if x.sum() > 0:\n        x = x * k\n    return x + k\n", g)
    f = C(g["f"])
    yield f(X)
    g["k"] = 3.0
    yield f(X)
    g["stop"] = lambda x: x * 10
    yield f(X)
    del g["k"]
    yield f(X)


@scenario
def changed_by_the_break_itself(C):
    box = {"k": 2.0, "l": [1.0]}

    def change():
        box["k"] += 1
        box["l"].append(box["k"])

    change = T.compiler.disable(change)

    def g(x):
        y = x * box["k"]
        change()
        return y + box["k"] + sum(box["l"])

    f = C(g)
    yield f(X)
    yield f(X)
    yield f(X)
    yield box


@scenario
def helper_compiled_on_its_own(C):
    scale = [2.0]

    def helper(x, k=1.0):
        if x.sum() > 0:
            return x * scale[0] + k
        return x

    def g(x):
        return helper(x) + 1

    f = C(g)
    yield f(X)
    scale[0] = 3.0
    yield f(X)
    helper.__defaults__ = (5.0,)
    yield f(X)
    helper.__code__ = (lambda x, k=1.0: x * scale[0] if x.sum() > 0 else x).__code__
    yield f(X)


@scenario
def instance_behind_a_break(C):
    K = fresh_class()

    def g(x, o):
        if x.sum() > 0:
            x = x + 1
        return o.method(x) * o.prop

    o = K()
    f = C(g)
    yield f(X, o)
    o.own = 3.0
    yield f(X, o)
    K.scale = 7.0
    yield f(X, o)
    K.method = lambda self, x: x * 9
    yield f(X, o)
    yield f(X, K())


@scenario
def tensors_behind_a_break(C):
    def g(x, w):
        if x.sum() > 0:
            x = x + 1
        return x * w, w.requires_grad, w.dtype

    f = C(g)
    for w in (T.ones(2), T.ones(2).double(), T.ones(1), T.ones(2, requires_grad=True), T.ones(3, 2), T.tensor(2.0)):
        yield f(X, w)


@scenario
def loop_with_breaks(C):
    items = [1.0, 2.0]

    def g(x):
        for k in items:
            x = x * k
            if x.sum() > 100:
                break
        return x

    f = C(g)
    yield f(X)
    items.append(3.0)
    yield f(X)
    items[0] = 100.0
    yield f(X)
    items.clear()
    yield f(X)


# ---- modules and tensors


@scenario
def methods_of_tensors_patched(C):
    f = C(lambda x: x.relu() + x.sum())
    keep = T.Tensor.relu
    yield f(X)
    T.Tensor.relu = lambda self: self * 50
    try:
        yield f(X)
    finally:
        T.Tensor.relu = keep
    yield f(X)


@scenario
def parameters_listed(C):
    m = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    names = lambda: [n for n, _ in (*m.named_parameters(), *m.named_children())]  # noqa: E731
    f = C(lambda x: (len(list(m.parameters())), names(), len(m.state_dict()), sum(p.numel() for p in m.parameters())))
    yield f(X)
    m.add_module("new", nn.Linear(2, 2))
    yield f(X)
    m[0].register_parameter("extra", nn.Parameter(T.ones(3)))
    yield f(X)
    m[0].bias.requires_grad_(False)
    yield f(X)
    m[0].register_buffer("buf", T.ones(1), persistent=False)
    yield f(X)
    del m[1]
    yield f(X)


@scenario
def module_getattr_overridden(C):
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Module()
            self.inner.k = 2.0

        def __getattr__(self, name):
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(self.inner, name)

        def forward(self, x):
            return x * self.k

    m = M()
    f = C(lambda x: m(x))
    yield f(X)
    m.inner.k = 3.0
    yield f(X)
    m.k = 5.0
    yield f(X)
    del m.k
    M.k = 6.0
    yield f(X)


@scenario
def modules_in_plain_containers(C):
    layers = [nn.Identity(), nn.Tanh()]
    table = {"a": nn.Identity()}

    def g(x):
        for layer in layers:
            x = layer(x)
        return table["a"](x)

    f = C(g)
    yield f(X)
    layers[0] = nn.ReLU()
    layers.append(nn.Sigmoid())
    yield f(X)
    table["a"] = nn.Softmax(0)
    yield f(X)
    table["a"].dim = -1
    table["a"].register_forward_hook(lambda m, a, o: o * 100)
    yield f(X)


@scenario
def same_class_other_module(C):
    def make(k):
        m = nn.Linear(2, 2)
        m.weight.data.fill_(k)
        m.bias.data.zero_()
        return m

    f = C(lambda m, x: m(x))
    a, b = make(1.0), make(2.0)
    for m in (a, b, a, make(3.0), b, nn.ReLU(), nn.Linear(2, 2, bias=False).requires_grad_(False).eval() and a):
        yield f(m, X)
    b.bias = None
    yield f(b, X)
    a.register_forward_hook(lambda m, x, o: o * 5)
    yield f(a, X)
    yield f(b, X)


@scenario
def default_tensors_and_constants(C):
    def h(x, w=T.ones(2)):  # noqa: B008
        return x * w

    values = [1.0, 2.0]
    f = C(lambda x: h(x) + T.tensor(values) + T.as_tensor(values[0]))
    yield f(X)
    h.__defaults__[0].add_(5)
    yield f(X)
    values[0] = 7.0
    yield f(X)
    h.__defaults__ = (T.zeros(2),)
    yield f(X)


@scenario
def numpy_scalars_and_items(C):
    a = np.array([1.0, 2.0])
    s = [np.float32(2.0), np.int64(3)]
    f = C(lambda x: x * float(a[0]) + s[0] + s[1] + a.mean() + a.shape[0])
    yield f(X)
    a[0] = 9.0
    yield f(X)
    s[0] = np.float32(3.0)
    yield f(X)
    s[1] = np.int32(3)
    yield f(X)


@scenario
def grad_switch_as_a_call(C):
    w = T.ones(2, requires_grad=True)
    f = C(lambda x: (x * w).requires_grad)
    yield f(X)
    T.set_grad_enabled(False)
    try:
        yield f(X)
    finally:
        T.set_grad_enabled(True)
    yield f(X)


@scenario
def views_written_to(C):
    def g(x):
        x.add_(1)
        return x * 2

    f = C(g)
    base = T.zeros(4)
    yield f(base[:2])
    yield base
    yield f(base)
    yield f(base[1:3])
    yield base
    yield f(base.view(2, 2)[0])
    yield base
    yield f(base.view(2, 2).t()[1])
    yield base


@scenario
def history_of_an_input(C):
    w = T.ones(2, requires_grad=True)

    def g(x):
        y = x * 2
        return y, y.requires_grad, y.is_leaf, x.is_leaf

    f = C(g)
    yield f(w)
    yield f(w * 1)
    yield f((w * 1).detach())
    with T.no_grad():
        yield f(w)
        yield f(w * 1)


test_nothing_goes_stale = scenario.test()
