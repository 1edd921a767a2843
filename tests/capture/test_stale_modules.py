"""Modules (nn) and optimizers that change between calls. See stale.py."""

from stale import Scenarios, X

import fusegrad as T

nn = T.nn
scenario = Scenarios()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        T.manual_seed(0)
        self.a, self.b = nn.Linear(2, 2), nn.Linear(2, 2)
        self.register_buffer("buf", T.ones(2))
        self.k, self.drop, self.items = 2.0, nn.Dropout(0.5), [1.0]

    def forward(self, x):
        return self.drop(self.b(self.a(x)) * self.k + self.buf + self.items[0])


@scenario
def module_mode(C):
    m = Net()
    f = C(lambda x: (m(x).sum() * 0, m.training))
    yield f(X)
    m.eval()
    yield f(X)
    yield C(m)(X).sum() * 0
    m.train()
    yield f(X)
    m.drop.eval()
    g = C(lambda x: m(x))
    yield g(X)
    m.drop.training = False
    yield g(X)


@scenario
def module_parts(C):
    m = Net().eval()
    f = C(lambda x: m(x))
    yield f(X)
    m.k = 3.0
    yield f(X)
    m.items[0] = 7.0
    yield f(X)
    m.items = [8.0]
    yield f(X)
    m.buf = T.zeros(2)
    yield f(X)
    m.buf.add_(4)
    yield f(X)
    m.register_buffer("buf", T.full((2,), 11.0))
    yield f(X)
    m.a.weight = nn.Parameter(T.eye(2))
    yield f(X)
    m.a.weight.data = T.full((2, 2), 2.0)
    yield f(X)
    with T.no_grad():
        m.a.weight.mul_(2)
    yield f(X)
    m.a = nn.Identity()
    yield f(X)
    m.b.bias = None
    yield f(X)
    m._modules["b"] = nn.Identity()
    yield f(X)
    m.__dict__["k"] = 100.0
    yield f(X)
    m._buffers["buf"] = T.zeros(2)
    yield f(X)
    del m.k
    yield f(X)


@scenario
def forward_replaced(C):
    m = Net().eval()
    f = C(lambda x: m(x))
    yield f(X)
    m.forward = lambda x: x * 5
    yield f(X)
    del m.forward
    yield f(X)
    m.a.forward = lambda x: x * 6
    yield f(X)
    m.a.__dict__["forward"] = lambda x: x * 7
    yield f(X)
    m.a.__dict__.pop("forward")
    yield f(X)


@scenario
def forward_replaced_on_the_class(C):
    class M(nn.Module):
        def forward(self, x):
            return x * 2

    m = M()
    f = C(lambda x: m(x))
    yield f(X)
    M.forward = lambda self, x: x * 3
    yield f(X)
    M.__call__ = lambda self, x: x * 4
    yield f(X)
    m.__class__ = type("N", (M,), {"__call__": lambda self, x: x * 5})
    yield f(X)


@scenario
def library_forward_replaced(C):
    m = nn.Linear(2, 2)
    m.weight.data.fill_(1.0)
    m.bias.data.zero_()
    f = C(lambda x: m(x))
    yield f(X)
    keep = nn.Linear.forward
    nn.Linear.forward = lambda self, x: x * 3
    try:
        yield f(X)
    finally:
        nn.Linear.forward = keep
    yield f(X)


@scenario
def hooks_added_later(C):
    m = Net().eval()
    f = C(lambda x: m(x))
    yield f(X)
    h = m.register_forward_hook(lambda mod, args, out: out * 2)
    yield f(X)
    h.remove()
    yield f(X)
    h = m.a.register_forward_pre_hook(lambda mod, args: (args[0] * 5,))
    yield f(X)
    h.remove()
    yield f(X)


@scenario
def global_hooks_added_later(C):
    from fusegrad.nn.modules import module as mm

    m = Net().eval()
    f = C(lambda x: m(x))
    yield f(X)
    h = mm.register_module_forward_hook(lambda mod, args, out: out * 2)
    try:
        yield f(X)
    finally:
        h.remove()
    yield f(X)
    h = mm.register_module_forward_pre_hook(lambda mod, args: (args[0] * 3,))
    try:
        yield f(X)
    finally:
        h.remove()
    yield f(X)


@scenario
def backward_hooks_added_later(C):
    m = nn.Linear(2, 2)
    with T.no_grad():
        m.weight.copy_(T.eye(2))

    def step(x):
        m.weight.grad = None
        m(x).sum().backward()
        return m.weight.grad

    f = C(step)
    yield f(X)
    h = m.register_full_backward_hook(lambda mod, gi, go: tuple(None if g is None else g * 5 for g in gi))
    x = T.ones(2, requires_grad=True)
    yield f(x)
    yield x.grad
    h.remove()
    h = m.register_full_backward_pre_hook(lambda mod, go: tuple(g * 7 for g in go))
    yield f(X)
    h.remove()
    yield f(X)


@scenario
def parametrizations(C):
    m = nn.Linear(2, 2)
    with T.no_grad():
        m.weight.fill_(1.0)
        m.bias.zero_()

    class Twice(nn.Module):
        def forward(self, w):
            return w * 2

    f = C(lambda x: m(x))
    yield f(X)
    if not hasattr(nn.utils, "parametrize"):
        return
    nn.utils.parametrize.register_parametrization(m, "weight", Twice())
    yield f(X)
    nn.utils.parametrize.remove_parametrizations(m, "weight", leave_parametrized=False)
    yield f(X)


@scenario
def parameters_frozen_later(C):
    m = nn.Linear(2, 2)
    f = C(lambda x: (m(x).requires_grad, [p.requires_grad for p in m.parameters()]))
    yield f(X)
    for p in m.parameters():
        p.requires_grad_(False)
    yield f(X)
    m.requires_grad_(True)
    yield f(X)
    m.weight.requires_grad = False
    yield f(X)


@scenario
def tied_parameters(C):
    m = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    for k, p in enumerate(m.parameters()):
        p.data.fill_(k + 1.0)

    def step(x):
        m.zero_grad()
        m(x).sum().backward()
        return [p.grad for p in m.parameters()]

    f = C(step)
    yield f(X)
    m[1].weight = m[0].weight
    yield f(X)
    m[1].weight = nn.Parameter(T.full((2, 2), 5.0))
    yield f(X)
    m[1].weight.data = m[0].weight.data
    yield f(X)


@scenario
def containers_of_modules(C):
    m = nn.ModuleList([nn.Linear(2, 2, bias=False) for _ in range(2)])
    d = nn.ModuleDict({"a": nn.Identity()})
    s = nn.Sequential(nn.Identity())
    for p in m.parameters():
        p.data.fill_(1.0)

    def g(x):
        for layer in m:
            x = layer(x)
        for layer in d.values():
            x = layer(x)
        return s(x)

    f = C(g)
    yield f(X)
    m.append(nn.Identity())
    yield f(X)
    m[0] = nn.Identity()
    yield f(X)
    d["b"] = m[1]
    yield f(X)
    s.append(m[1])
    yield f(X)
    del s[0]
    yield f(X)
    m[1].weight.data.mul_(3)
    yield f(X)


@scenario
def parameter_list(C):
    ps = nn.ParameterList([nn.Parameter(T.ones(2)) for _ in range(2)])
    f = C(lambda x: x * sum(ps) + len(ps))
    yield f(X)
    ps.append(nn.Parameter(T.ones(2)))
    yield f(X)
    ps[0] = nn.Parameter(T.full((2,), 9.0))
    yield f(X)


@scenario
def state_dict_loaded(C):
    m = nn.BatchNorm1d(2)
    x = T.arange(6.0).reshape(3, 2)
    f = C(lambda x: m(x))
    keep = {k: v.clone() for k, v in m.state_dict().items()}
    yield f(x)
    yield m.state_dict()
    m.load_state_dict(keep)
    yield m.state_dict()
    m.eval()
    yield f(x)
    m.load_state_dict({k: v + 1 for k, v in keep.items()})
    yield f(x)
    m.load_state_dict({k: v + 2 for k, v in keep.items()}, assign=True)
    yield f(x)
    m.momentum = None
    m.train()
    yield f(x)
    yield m.state_dict()
    m.reset_running_stats()
    m.eps = 1.0
    yield f(x)


@scenario
def module_moved_to_another_dtype(C):
    m = nn.Linear(2, 2)
    m.weight.data.fill_(1.0)
    m.bias.data.zero_()
    f = C(lambda x: m(x))
    yield f(X)
    m.double()
    yield f(X.double())
    m.float()
    yield f(X)


@scenario
def attribute_of_a_submodule(C):
    m = nn.Sequential(nn.LayerNorm(2), nn.Softmax(-1), nn.LeakyReLU(0.1))
    x = T.tensor([[1.0, -3.0]])
    f = C(lambda x: m(x) - 0.5)
    yield f(x)
    m[0].eps = 10.0
    yield f(x)
    m[1].dim = 0
    yield f(x)
    m[2].negative_slope = 5.0
    m[1] = nn.Identity()
    yield f(x)
    m[2].negative_slope = 7.0
    yield f(x)


@scenario
def module_property_and_plain_attribute_objects(C):
    class Config:
        def __init__(self):
            self.scale = 2.0

    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.config, self.table = Config(), {"a": 1.0}

        @property
        def s(self):
            return self.config.scale

        def forward(self, x):
            return x * self.s + self.table["a"]

    m = M()
    f = C(m.__call__)
    yield f(X)
    m.config.scale = 3.0
    yield f(X)
    m.config = Config()
    yield f(X)
    m.table["a"] = 5.0
    yield f(X)
    M.s = property(lambda self: 9.0)
    yield f(X)


@scenario
def optimizer_settings(C):
    w = T.ones(2, requires_grad=True)
    opt = T.optim.SGD([w], lr=0.1, momentum=0.9)

    def step(x):
        opt.zero_grad()
        (w * x).sum().backward()
        opt.step()
        return w.detach().clone()

    f = C(step)
    yield f(X)
    opt.param_groups[0]["lr"] = 0.5
    yield f(X)
    opt.param_groups[0]["momentum"] = 0.0
    yield f(X)
    opt.param_groups[0]["nesterov"] = True
    opt.param_groups[0]["momentum"] = 0.5
    yield f(X)
    opt.state.clear()
    yield f(X)
    opt.load_state_dict(opt.state_dict())
    yield f(X)
    v = T.ones(3, requires_grad=True)
    opt.add_param_group({"params": [v], "lr": 1.0})
    yield f(X)
    h = opt.register_step_post_hook(lambda o, a, k: w.data.zero_())
    yield f(X)
    h.remove()
    yield f(X)


@scenario
def optimizer_state_replaced(C):
    w = T.ones(2, requires_grad=True)
    opt = T.optim.Adam([w], lr=0.1)

    def step(x):
        opt.zero_grad()
        (w * x).sum().backward()
        opt.step()
        return w.detach().clone()

    f = C(step)
    yield f(X)
    yield f(X)
    opt.state[w]["exp_avg"] = T.full((2,), 5.0)
    yield f(X)
    opt.state[w]["step"] = T.tensor(100.0)
    yield f(X)
    del opt.state[w]
    yield f(X)
    yield opt.state[w]["step"]
    opt.state[w]["step"] = 3
    yield f(X)


test_nothing_goes_stale = scenario.test()
