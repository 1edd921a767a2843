"""The Module contract: registration, traversal, state, hooks, copies, the structure epoch."""

from __future__ import annotations

import copy
import pickle
from collections import OrderedDict

import pytest

import fusegrad as fg
from fusegrad import nn
from fusegrad.nn import _tracked


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(3, 4)
        self.b = nn.Sequential(nn.ReLU(), nn.Linear(4, 2))
        self.register_buffer("scale", fg.ones(2))
        self.register_buffer("hidden", fg.zeros(1), persistent=False)

    def forward(self, x):
        return self.b(self.a(x)) * self.scale


def test_registration_and_names():
    net = Net()
    assert [n for n, _ in net.named_parameters()] == ["a.weight", "a.bias", "b.1.weight", "b.1.bias"]
    assert [n for n, _ in net.named_modules()] == ["", "a", "b", "b.0", "b.1"]
    assert [n for n, _ in net.named_buffers()] == ["scale", "hidden"]
    assert [n for n, _ in net.named_children()] == ["a", "b"]
    assert net.get_submodule("b.1") is net.b[1]
    assert net.get_parameter("b.1.bias") is net.b[1].bias
    assert net.get_buffer("scale") is net.scale
    with pytest.raises(AttributeError, match="has no attribute `c`"):
        net.get_submodule("c")


def test_assignment_rules():
    net = Net()
    with pytest.raises(TypeError, match="cannot assign 'Tensor' object as parameter 'weight'"):
        net.a.weight = fg.ones(4, 3)
    with pytest.raises(TypeError, match="as child module 'a'"):
        net.a = 3
    with pytest.raises(TypeError, match="as buffer 'scale'"):
        net.scale = "x"
    net.scale = fg.full((2,), 2.0)
    assert net.state_dict()["scale"].tolist() == [2.0, 2.0]
    net.a.bias = None
    assert "a.bias" not in dict(net.named_parameters())
    net.a.weight = nn.Parameter(fg.zeros(4, 3))
    assert not net.a.weight.detach().any()
    del net.a
    with pytest.raises(AttributeError, match="'Net' object has no attribute 'a'"):
        net.a  # noqa: B018
    net.extra = nn.Parameter(fg.ones(1))
    net.extra = None
    assert net.extra is None and "extra" in net._parameters


def test_before_init():
    class Early(nn.Module):
        def __init__(self):
            self.p = nn.Parameter(fg.ones(1))

    with pytest.raises(AttributeError, match=r"before Module.__init__\(\) call"):
        Early()


def test_shared_parameter_is_listed_once():
    net = Net()
    net.tied = nn.Linear(3, 4)
    net.tied.weight = net.a.weight
    names = [n for n, _ in net.named_parameters()]
    assert "tied.weight" not in names
    assert "tied.weight" in [n for n, _ in net.named_parameters(remove_duplicate=False)]


def test_names_are_checked():
    m = nn.Module()
    with pytest.raises(KeyError, match="t contain"):
        m.register_parameter("a.b", None)
    with pytest.raises(KeyError, match="empty"):
        m.add_module("", nn.ReLU())
    with pytest.raises(KeyError, match="already exists"):
        m.register_buffer("forward", fg.ones(1))
    with pytest.raises(TypeError, match="is not a Module subclass"):
        m.add_module("x", 3)


def test_state_dict_round_trip():
    fg.manual_seed(0)
    one, two = Net(), Net()
    state = one.state_dict()
    assert list(state) == ["scale", "a.weight", "a.bias", "b.1.weight", "b.1.bias"]
    assert isinstance(state, OrderedDict) and state._metadata["a"] == {"version": 1}
    assert repr(two.load_state_dict(state)) == "<All keys matched successfully>"
    x = fg.randn(5, 3)
    assert fg.equal(one(x), two(x))
    assert two.a.weight is not one.a.weight and two.a.weight.requires_grad


def test_load_state_dict_errors():
    net = Net()
    state = net.state_dict()
    del state["a.bias"]
    state["new"] = fg.ones(1)
    state["b.1.bias"] = fg.ones(7)
    with pytest.raises(RuntimeError) as info:
        net.load_state_dict(state)
    text = str(info.value)
    assert 'Missing key(s) in state_dict: "a.bias".' in text
    assert 'Unexpected key(s) in state_dict: "new".' in text
    assert "size mismatch for b.1.bias" in text and "Size([7])" in text
    state["b.1.bias"] = fg.ones(2)
    out = net.load_state_dict(state, strict=False)
    assert out.missing_keys == ["a.bias"] and out.unexpected_keys == ["new"]
    assert net.b[1].bias.tolist() == [1.0, 1.0]
    with pytest.raises(TypeError, match="dict-like"):
        net.load_state_dict(3)


def test_load_assign_keeps_the_given_tensors():
    net = Net()
    state = {k: v.clone().double() for k, v in net.state_dict().items()}
    net.load_state_dict(state, assign=True)
    assert net.a.weight.dtype is fg.float64 and isinstance(net.a.weight, nn.Parameter)


def test_hooks_run_in_order_and_may_replace():
    net, calls = Net(), []
    pre = net.register_forward_pre_hook(lambda m, args: calls.append("pre") or (args[0] * 0,))
    post = net.register_forward_hook(lambda m, args, out: calls.append("post") or out + 1)
    first = net.register_forward_hook(lambda m, args, out: calls.append("first"), prepend=True)
    with_kw = net.register_forward_pre_hook(lambda m, args, kw: calls.append(kw), with_kwargs=True)
    out = net(fg.ones(1, 3))
    assert calls == ["pre", {}, "first", "post"]
    for handle in (pre, post, first, with_kw):
        handle.remove()
    calls.clear()
    assert fg.allclose(out, net(fg.zeros(1, 3)) + 1) and not calls


def test_always_called_hook():
    class Broken(nn.Module):
        def forward(self, x):
            raise RuntimeError("no")

    seen = []
    m = Broken()
    m.register_forward_hook(lambda mod, args, out: seen.append(out), always_call=True)
    m.register_forward_hook(lambda mod, args, out: seen.append("other"))
    with pytest.raises(RuntimeError, match="no"):
        m(fg.ones(1))
    assert seen == [None]


def test_full_backward_hooks():
    m, seen = nn.Linear(2, 3), {}
    m.register_full_backward_pre_hook(lambda mod, go: (go[0] * 2,))

    def hook(mod, gi, go):
        seen.update(gi=gi, go=go)
        return tuple(g if g is None else g * 10 for g in gi)

    m.register_full_backward_hook(hook)
    x = fg.ones(1, 2, requires_grad=True)
    m(x).sum().backward()
    expected = m.weight.detach().sum(0) * 2
    assert seen["go"][0].tolist() == [[2.0, 2.0, 2.0]]
    assert fg.allclose(seen["gi"][0][0], expected)
    assert fg.allclose(x.grad[0], expected * 10)
    seen.clear()
    m(fg.ones(1, 2)).sum().backward()  # no input requires a gradient
    assert seen["gi"] == (None,)


def test_global_hooks():
    seen = []
    handle = nn.register_module_forward_hook(lambda m, args, out: seen.append(type(m).__name__))
    try:
        Net()(fg.ones(1, 3))
    finally:
        handle.remove()
    assert seen == ["Linear", "ReLU", "Linear", "Sequential", "Net"]
    Net()(fg.ones(1, 3))
    assert len(seen) == 5


def test_modes_dtype_and_grad_switches():
    net = Net()
    assert not net.eval().b[0].training and net.train().b[0].training
    with pytest.raises(ValueError, match="boolean"):
        net.train(1)
    weight = net.a.weight
    net.double()
    assert net.a.weight is weight and weight.dtype is fg.float64 and net.scale.dtype is fg.float64
    net.to(fg.float32)
    assert weight.dtype is fg.float32
    with pytest.raises(TypeError, match="floating point"):
        net.to(fg.int64)
    with pytest.raises(RuntimeError, match="cuda"):
        net.to("cuda")
    net(fg.ones(1, 3)).sum().backward()
    net.zero_grad(set_to_none=False)
    assert not weight.grad.any()
    net.zero_grad()
    assert weight.grad is None
    net.requires_grad_(False)
    assert not net(fg.ones(1, 3)).requires_grad


def test_apply_visits_children_first():
    seen = []
    Net().apply(lambda m: seen.append(type(m).__name__))
    assert seen == ["Linear", "ReLU", "Linear", "Sequential", "Net"]


def test_deepcopy_and_pickle():
    net = Net()
    for twin in (copy.deepcopy(net), pickle.loads(pickle.dumps(net.a))):
        twin_params, own = list(twin.parameters()), list(net.parameters())
        assert twin_params[0] is not own[0] and fg.equal(twin_params[0], own[0])
        assert isinstance(twin_params[0], nn.Parameter) and twin_params[0].requires_grad
    twin = copy.deepcopy(net)
    twin.a.weight.data.zero_()
    assert net.a.weight.detach().any()


def test_repr():
    assert repr(nn.Linear(2, 3)) == "Linear(in_features=2, out_features=3, bias=True)"
    text = repr(nn.ModuleList([nn.ReLU(), nn.ReLU(), nn.Tanh()]))
    assert text == "ModuleList(\n  (0-1): 2 x ReLU()\n  (2): Tanh()\n)"
    assert repr(nn.Sequential(nn.ReLU())) == "Sequential(\n  (0): ReLU()\n)"


def test_missing_forward():
    with pytest.raises(NotImplementedError, match='missing the required "forward"'):
        nn.Module()(1)


@pytest.mark.parametrize(
    "change",
    [
        lambda m: setattr(m.a, "weight", nn.Parameter(fg.zeros(4, 3))),
        lambda m: m.a._parameters.pop("bias"),
        lambda m: m.register_buffer("more", fg.ones(1)),
        lambda m: m.a.register_forward_hook(lambda *a: None),
        lambda m: setattr(m, "b", nn.ReLU()),
        lambda m: delattr(m, "a"),
        lambda m: m.eval(),
        lambda m: m.b.append(nn.ReLU()),
    ],
)
def test_every_change_of_structure_bumps_the_epoch(change):
    net = Net()
    before = _tracked.EPOCH[0]
    net(fg.ones(1, 3))
    list(net.parameters())
    assert _tracked.EPOCH[0] == before  # reading does not
    change(net)
    assert _tracked.EPOCH[0] > before


def test_extra_state():
    class Counter(nn.Module):
        n = 3

        def get_extra_state(self):
            return {"n": self.n}

        def set_extra_state(self, state):
            self.n = state["n"]

    one, two = nn.Sequential(Counter()), nn.Sequential(Counter())
    one[0].n = 8
    two.load_state_dict(one.state_dict())
    assert two[0].n == 8
    with pytest.raises(RuntimeError, match="_extra_state"):
        two.load_state_dict({})


def test_containers():
    s = nn.Sequential(OrderedDict(x=nn.ReLU(), y=nn.Tanh()))
    assert s.x is s[0] and len(s[1:]) == 1 and isinstance(s[:1], nn.Sequential)
    assert len(s + nn.Sequential(nn.ReLU())) == 3 and len(s * 2) == 4
    layers = nn.ModuleList(nn.Linear(1, 1) for _ in range(3))
    layers.insert(0, nn.ReLU())
    assert isinstance(layers.pop(), nn.Linear) and len(layers) == 3
    del layers[0]
    assert [n for n, _ in layers.named_children()] == ["0", "1"]
    with pytest.raises(IndexError):
        layers[5]
    table = nn.ModuleDict({"a": nn.ReLU()})
    table.update([("b", nn.Tanh())])
    assert list(table) == ["a", "b"] and "b" in table
    ps = nn.ParameterList([fg.ones(2), nn.Parameter(fg.zeros(1))])
    assert len(list(ps.parameters())) == 2 and isinstance(ps[0], nn.Parameter)
    pd = nn.ParameterDict({"w": fg.ones(2)})
    assert pd["w"].requires_grad and list(pd.state_dict()) == ["w"]


@pytest.mark.parametrize(
    "lazy, shape, plain, weight",
    [
        (lambda: nn.LazyLinear(3), (2, 5), "Linear(in_features=5, out_features=3, bias=True)", (3, 5)),
        (lambda: nn.LazyConv1d(6, 3), (2, 4, 9), "Conv1d(4, 6, kernel_size=(3,), stride=(1,))", (6, 4, 3)),
        (lambda: nn.LazyConv2d(6, 3, groups=2, bias=False), (4, 9, 9),
         "Conv2d(4, 6, kernel_size=(3, 3), stride=(1, 1), groups=2, bias=False)", (6, 2, 3, 3)),
        (lambda: nn.LazyConvTranspose2d(6, 3), (1, 4, 5, 5),
         "ConvTranspose2d(4, 6, kernel_size=(3, 3), stride=(1, 1))", (4, 6, 3, 3)),
    ],
)  # fmt: skip
def test_lazy_modules_become_ordinary_ones(lazy, shape, plain, weight):
    m = lazy()
    weight_itself = m.weight
    opt = fg.optim.SGD(m.parameters(), lr=0.1)
    assert m.has_uninitialized_params() and nn.parameter.is_lazy(m.weight)
    for use in (lambda: m.weight.shape, lambda: m.weight.numel()):
        with pytest.raises((RuntimeError, ValueError), match="ninitialized parameter"):
            use()
    m(fg.ones(shape)).sum().backward()
    assert repr(m) == plain and tuple(m.weight.shape) == weight and type(m.weight) is nn.Parameter
    assert m.weight is weight_itself and not m._forward_pre_hooks and m.weight.abs().sum() > 0
    before = m.weight.detach().clone()
    opt.step()
    assert not fg.equal(m.weight, before)


def test_lazy_norms_and_their_states():
    m = nn.LazyBatchNorm2d()
    assert list(m.state_dict()) == ["weight", "bias", "running_mean", "running_var", "num_batches_tracked"]
    m(fg.ones(2, 3, 4, 4))
    assert type(m) is nn.BatchNorm2d and m.num_features == 3 and m.running_mean.tolist() == pytest.approx([0.1] * 3)
    a = nn.Sequential(nn.LazyLinear(3), nn.LazyLinear(2))
    b, c = copy.deepcopy(a), pickle.loads(pickle.dumps(a))
    a(fg.ones(1, 4))
    b.load_state_dict(a.state_dict())
    assert fg.equal(b[0].weight, a[0].weight) and type(b[0]) is nn.LazyLinear
    assert fg.equal(b(fg.ones(1, 4)), a(fg.ones(1, 4))) and b[0].in_features == 4
    with pytest.raises(RuntimeError, match="uninitialized|not"):
        a.load_state_dict(c.state_dict())


def test_import_paths_of_pytorch():
    from fusegrad.nn.modules.activation import MultiheadAttention
    from fusegrad.nn.modules.batchnorm import _BatchNorm
    from fusegrad.nn.modules.utils import _pair

    from fusegrad.nn.modules import conv, module
    from fusegrad.nn.modules.lazy import LazyModuleMixin

    assert conv.Conv2d is nn.Conv2d and issubclass(nn.Conv2d, conv._ConvNd) and module.Module is nn.Module
    assert MultiheadAttention is nn.MultiheadAttention and issubclass(nn.BatchNorm2d, _BatchNorm)
    assert issubclass(nn.LazyLinear, LazyModuleMixin) and _pair(3) == (3, 3) and nn.modules.Linear is nn.Linear
    assert module.register_module_forward_hook is nn.register_module_forward_hook


def test_what_is_not_initialized_is_not_computed_with():
    lazy = nn.LazyLinear(3)
    for use in (
        lambda w: w.sum(),
        lambda w: w.view(-1),
        lambda w: w.fill_(1.0),
        lambda w: nn.init.ones_(w),
        lambda w: 2 - w,
        lambda w: w[0],
        lambda w: w.numel(),
    ):
        for t in (lazy.weight, nn.UninitializedBuffer()):
            with pytest.raises(ValueError, match="uninitialized"):
                use(t)
    with pytest.raises(RuntimeError, match="share memory"):
        nn.Sequential(lazy).share_memory()
    assert lazy.double().weight.dtype is fg.float64 and lazy(fg.ones(2, 4).double()).shape == (2, 3)


def test_an_uninitialized_buffer_is_a_buffer():
    class Lazy(nn.modules.lazy.LazyModuleMixin, nn.Module):
        pass

    m, full = Lazy(), Lazy()
    m.b = nn.UninitializedBuffer()
    full.b = nn.Buffer(fg.ones(2, 2))
    assert m.has_uninitialized_params() and list(m.state_dict()) == ["b"]
    m.load_state_dict(full.state_dict())
    assert fg.equal(m.b, full.b) and not m.has_uninitialized_params()


def test_assigned_parameters_are_trained_where_the_module_trains_its_own():
    m = nn.Linear(2, 2)
    m.bias.requires_grad_(False)
    frozen, trained = nn.Parameter(fg.ones(2, 2), requires_grad=False), nn.Parameter(fg.ones(2))
    m.load_state_dict({"weight": frozen, "bias": trained}, assign=True)
    assert m.weight is frozen and m.weight.requires_grad
    assert m.bias is trained and not m.bias.requires_grad
