"""Tensors that change between calls: kind, sizes, layout, gradients, who shares memory. See stale.py."""

from stale import Scenarios, X

import fusegrad as T

nn = T.nn
scenario = Scenarios()


@scenario
def dtypes_ranks_sizes(C):
    f = C(lambda x: x * 2 + x.numel())
    for x in (
        X,
        X.double(),
        T.ones(2, 1),
        T.ones(1),
        T.ones(0),
        T.ones(3),
        T.tensor(1.0),
        T.ones(2).long(),
        X,
        T.ones(5),
    ):
        yield f(x)


@scenario
def strides(C):
    f = C(lambda x: (x.stride(), x.is_contiguous(), x.reshape(-1) * 2, x.contiguous().stride()))
    a = T.arange(6.0).reshape(2, 3)
    for x in (a, a.t(), T.arange(6.0).reshape(3, 2), T.arange(12.0)[::2].reshape(2, 3), a[:, ::2], a[:, 1:2],
              T.ones(2, 1).expand(2, 3), a.flip(0)):  # fmt: skip
        yield f(x)


@scenario
def requires_grad(C):
    f = C(lambda x: (x * 2).requires_grad)
    a = T.ones(2)
    yield f(a)
    a.requires_grad_()
    yield f(a)
    with T.no_grad():
        yield f(a)
    with T.inference_mode():
        yield f(a)
    a.requires_grad_(False)
    yield f(a)
    yield f((T.ones(2, requires_grad=True) * 2).detach())
    yield f(T.ones(2, requires_grad=True) * 2)


@scenario
def leaf_or_not(C):
    f = C(lambda x: (x.is_leaf, x * 1))
    yield f(T.ones(2))
    yield f(T.ones(2, requires_grad=True))
    yield f(T.ones(2, requires_grad=True) * 2)


@scenario
def grad_mode_inside(C):
    f = C(lambda x: (T.is_grad_enabled(), T.is_inference_mode_enabled()))
    yield f(X)
    with T.no_grad():
        yield f(X)
    with T.inference_mode():
        yield f(X)
    yield f(X)


@scenario
def default_dtype(C):
    f = C(lambda x: (T.ones(2), x + T.tensor(0.5), T.get_default_dtype()))
    yield f(X)
    T.set_default_dtype(T.float64)
    try:
        yield f(X)
    finally:
        T.set_default_dtype(T.float32)
    yield f(X)


@scenario
def deterministic_switch(C):
    if not hasattr(T, "use_deterministic_algorithms"):
        return
    f = C(lambda x: (T.are_deterministic_algorithms_enabled(), x * 2))
    yield f(X)
    T.use_deterministic_algorithms(True)
    try:
        yield f(X)
    finally:
        T.use_deterministic_algorithms(False)
    yield f(X)


@scenario
def tensor_data_replaced(C):
    w = T.ones(2)
    f = C(lambda x: x * w)
    yield f(X)
    w.data = T.full((2,), 3.0)
    yield f(X)
    w.data = T.full((1,), 4.0)
    yield f(X)
    w.data = T.full((2,), 5.0).double()
    yield f(X)


@scenario
def tensor_mutated(C):
    w = T.ones(2)
    f = C(lambda x: x * w)
    yield f(X)
    w.add_(1)
    yield f(X)
    w.numpy()[0] = 9
    yield f(X)
    w.resize_(3) if hasattr(w, "resize_") else None
    yield f(T.ones(w.shape))


@scenario
def tensor_attributes(C):
    w = T.ones(2)
    w.scale = 2.0
    f = C(lambda x: x * w.scale if hasattr(w, "scale") else x)
    yield f(X)
    w.scale = 3.0
    yield f(X)
    del w.scale
    yield f(X)


@scenario
def tensor_class(C):
    w = T.ones(2)
    f = C(lambda x: (isinstance(w, nn.Parameter), x * w))
    yield f(X)
    p = nn.Parameter(T.ones(2))
    g = C(lambda x, w: (isinstance(w, nn.Parameter), type(w).__name__, x * w))
    yield g(X, w)
    yield g(X, p)


@scenario
def gradients_of_inputs(C):
    w = T.ones(2, requires_grad=True)
    f = C(lambda x: x if w.grad is None else x * w.grad)
    yield f(X)
    w.grad = T.full((2,), 2.0)
    yield f(X)
    w.grad.add_(1)
    yield f(X)
    w.grad = None
    yield f(X)


@scenario
def hook_on_a_tensor_added_later(C):
    w = T.ones(2, requires_grad=True)

    def step(x):
        w.grad = None
        (w * x).sum().backward()
        return w.grad

    f = C(step)
    yield f(X)
    h = w.register_hook(lambda g: g * 10)
    yield f(X)
    h.remove()
    yield f(X)


@scenario
def aliased_inputs(C):
    def g(a, b):
        a.add_(1)
        return a + b

    f = C(g)
    yield f(T.ones(2), T.ones(2))
    a = T.ones(2)
    yield f(a, a)
    b = T.ones(4)
    yield f(b[:2], b[1:3])
    yield f(b[:2], b[2:])
    yield b


@scenario
def same_object_or_not(C):
    f = C(lambda a, b: a * 2 if a is b else a * 3)
    a = T.ones(2)
    yield f(a, a)
    yield f(a, T.ones(2))
    yield f(a, a)


test_nothing_goes_stale = scenario.test()
