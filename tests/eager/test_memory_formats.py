"""Memory formats: what takes ``memory_format`` gives that layout, eager, compiled and exported."""

import pytest
from fusegrad.export import Dim, export

import fusegrad as torch
from fusegrad.testing import assert_close

LAST = torch.channels_last
IMAGES, VOLUMES = (60, 1, 15, 3), (360, 1, 90, 18, 3)


def images() -> torch.Tensor:
    return torch.arange(120.0).reshape(2, 3, 4, 5)


MADE = {
    "contiguous": lambda x: x.contiguous(memory_format=LAST),
    "to": lambda x: x.to(memory_format=LAST),
    "to and dtype": lambda x: x.to(torch.float64, memory_format=LAST),
    "to other": lambda x: x.to(x.half(), memory_format=LAST),
    "copied": lambda x: x.to(copy=True, memory_format=LAST),
    "clone": lambda x: x.clone(memory_format=LAST),
    "float": lambda x: x.float(memory_format=LAST),
    "double": lambda x: x.double(memory_format=LAST),
    "type": lambda x: x.type(torch.float64, memory_format=LAST),
    "cpu": lambda x: x.cpu(memory_format=LAST),
    "empty_like": lambda x: torch.empty_like(x, memory_format=LAST),
    "zeros_like": lambda x: torch.zeros_like(x, memory_format=LAST),
    "ones_like": lambda x: torch.ones_like(x, memory_format=LAST),
    "full_like": lambda x: torch.full_like(x, 2.0, memory_format=LAST),
    "rand_like": lambda x: torch.rand_like(x, memory_format=LAST),
    "randn_like": lambda x: torch.randn_like(x, memory_format=LAST),
    "randint_like": lambda x: torch.randint_like(x, 3, memory_format=LAST),
    "empty": lambda x: torch.empty(x.shape, memory_format=LAST),
    "elementwise": lambda x: torch.relu(x.contiguous(memory_format=LAST)) * 2,
    "preserved": lambda x: torch.zeros_like(x.contiguous(memory_format=LAST)),
    "drawn in the layout": lambda x: torch.randn_like(x.contiguous(memory_format=LAST)),
    "foreach": lambda x: torch._foreach_clone([x], memory_format=LAST)[0],
}


UNKNOWN = pytest.mark.not_verified("the contents of memory that nobody wrote")


@pytest.mark.parametrize("name", [pytest.param(n, marks=UNKNOWN) if n == "empty" else n for n in MADE])
def test_gives_the_layout(name):
    x = images()
    made, compiled = MADE[name](x), torch.compile(MADE[name])(x)
    for r in (made, compiled):
        assert r.stride() == IMAGES
        assert r.is_contiguous(memory_format=LAST)
        assert not r.is_contiguous()
    if made.dtype.is_floating_point and not name.startswith("empty"):
        torch.manual_seed(1)
        a = MADE[name](x)
        torch.manual_seed(1)
        assert_close(torch.compile(MADE[name])(x), a)
    assert torch.equal(x.contiguous(memory_format=LAST), x)


def test_back_to_c_order():
    x = images().contiguous(memory_format=LAST)
    for r in (
        x.contiguous(),
        x.to(memory_format=torch.contiguous_format),
        x.clone(memory_format=torch.contiguous_format),
        torch.zeros_like(x, memory_format=torch.contiguous_format),
        torch.rand_like(x, memory_format=torch.contiguous_format),
    ):
        assert r.stride() == (60, 20, 5, 1)
    assert x.contiguous(memory_format=torch.preserve_format) is x
    assert x.to(memory_format=torch.preserve_format) is x


def test_volumes():
    x = torch.arange(720.0).reshape(2, 3, 4, 5, 6)
    y = x.contiguous(memory_format=torch.channels_last_3d)
    assert y.stride() == VOLUMES and torch.equal(x, y)
    assert y.is_contiguous(memory_format=torch.channels_last_3d)
    assert not y.is_contiguous(memory_format=LAST)


def test_itself_where_the_format_holds():
    y = images().contiguous(memory_format=LAST)
    assert y.contiguous(memory_format=LAST) is y and y.to(memory_format=LAST) is y
    one = torch.zeros(2, 1, 4, 5)  # one channel: both formats hold
    assert one.is_contiguous(memory_format=LAST) and one.contiguous(memory_format=LAST) is one
    assert torch.zeros(2, 3, 1, 1).is_contiguous(memory_format=LAST)


@pytest.mark.parametrize("make", [f for n, f in MADE.items() if n not in ("foreach",)])
def test_other_ranks_are_refused(make):
    with pytest.raises(RuntimeError, match="required rank 4 tensor to use channels_last format"):
        make(torch.zeros(3, 4))


def test_refusals_change_nothing():
    x = torch.zeros(2, 3)
    with pytest.raises(RuntimeError, match="required rank 4"):
        x.resize_(3, 4, 5, memory_format=LAST)
    assert x.shape == (2, 3)
    assert x.resize_(2, 3, 4, 5, memory_format=LAST).stride() == IMAGES
    with pytest.raises(TypeError, match="argument 'memory_format' must be"):
        x.is_contiguous(memory_format="rows")
    with pytest.raises(TypeError, match="argument 'memory_format' must be"):
        x.contiguous(memory_format=3)
    with pytest.raises(RuntimeError, match="layout"):
        torch.empty(2, 3, memory_format=torch.preserve_format)


def test_modules_parameters_and_optimizers_keep_it():
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Flatten())
    weight = net[0].weight
    assert net.to(memory_format=LAST)[0].weight is weight and net[0].bias.stride() == (1,)
    x = torch.randn(2, 3, 6, 6)
    opt = torch.optim.Adam(net.parameters())
    torch.compile(lambda x: net(x).square().mean())(x).backward()
    assert weight.stride() == weight.grad.stride() == (27, 1, 9, 3)
    opt.step()
    assert opt.state[weight]["exp_avg"].stride() == (27, 1, 9, 3)
    with pytest.raises(RuntimeError, match="required rank 4"):
        torch.nn.Conv3d(1, 1, 1).to(memory_format=LAST)


def test_derivatives_and_programs():
    def f(x):
        return (x.to(memory_format=LAST) ** 2).contiguous(memory_format=LAST)

    x = torch.randn(2, 3, 4, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(f, (x,))
    program = export(f, (x.detach(),), dynamic_shapes=({0: Dim("n", min=1), 3: Dim("w", min=1)},))
    for way in (program.module(), program.module(compile=False)):
        for n, w in ((2, 5), (1, 1), (3, 4)):
            x = torch.randn(n, 3, 4, w, dtype=torch.float64)
            assert way(x).is_contiguous(memory_format=LAST) and torch.allclose(way(x), f(x))


def test_compiled_follows_the_layout_of_its_argument():
    @torch.compile
    def f(x):
        return x.is_contiguous(memory_format=LAST), x.contiguous(memory_format=LAST)

    x, y = images(), images().contiguous(memory_format=LAST)
    for _ in range(2):
        assert f(x)[0] is False and f(x)[1].stride() == IMAGES
        assert f(y)[0] is True and f(y)[1] is y


@pytest.mark.parametrize("f", [torch.rand, torch.randn, torch.zeros, torch.empty])
def test_creation_refuses_keywords_that_it_does_not_know(f):
    with pytest.raises(TypeError, match="unexpected keyword argument 'names'"):
        f(2, names=("a",))


def test_integers_refuse_keywords_that_they_do_not_know():
    with pytest.raises(TypeError, match="unexpected keyword argument 'names'"):
        torch.randint(3, (2,), names=("a",))
    with pytest.raises(TypeError, match="unexpected keyword argument 'names'"):
        torch.randint_like(torch.zeros(2), 3, names=("a",))
