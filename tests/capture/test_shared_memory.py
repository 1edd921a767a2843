"""Memory that several elements or tensors share, inside of compiled code: the same values as eager code."""

import copy

import numpy as np
import pytest

import fusegrad as torch
from fusegrad.utils.checkpoint import checkpoint


def row_of_an_expanded():
    x = torch.zeros(1, 3).expand(2, 3)
    x[0] = 5.0
    return x


def expanded_filled():
    b = torch.zeros(1, 3)
    x = b.expand(2, 3)
    x.fill_(1)
    b.add_(1)
    return b, x


def expanded_with_new_dimensions():
    b = torch.zeros(3)
    x = b.expand(2, 4, 3)
    x.zero_()
    x.fill_(2.0)
    x[1, 2] += 1
    return b, x


def expanded_by_a_size(n):
    b = torch.zeros(n, 1)
    x = b.expand(n, 4)
    x.fill_(3.0)
    return b, x


def window():
    x = torch.arange(4.0)
    x.unfold(0, 2, 1)[0, 1] = 9
    return x


def strided():
    x = torch.arange(4.0)
    x.as_strided((3, 2), (1, 1))[0, 1] = 9
    return x


def windows_filled():
    x = torch.arange(5.0)
    x.unfold(0, 2, 2).fill_(3.0)
    return x


def copies_share():
    v = torch.arange(6.0)
    a, b = copy.deepcopy([v, v[:2]])
    a[0] = 9
    return a, b, v


def copies_of_one():
    v = torch.arange(3.0)
    a, b = copy.deepcopy((v, v))
    a[0] = 9
    return b, v


PROGRAMS = [
    row_of_an_expanded, expanded_filled, expanded_with_new_dimensions, window, strided, windows_filled, copies_share,
    copies_of_one,
]  # fmt: skip


def listed(out):
    return [t.tolist() for t in (out if type(out) is tuple else (out,))]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_as_in_eager_code(program):
    assert listed(torch.compile(program)()) == listed(program())


def test_expanded_by_a_size():
    f = torch.compile(expanded_by_a_size)
    for n in (1, 2, 3, 5):
        assert listed(f(n)) == listed(expanded_by_a_size(n))


def test_copies_of_arguments_that_share_memory():
    def f(pair):
        a, b = copy.deepcopy(pair)
        a[0] = 9
        return a, b

    c, v, w = torch.compile(f), torch.arange(6.0), torch.arange(6.0)
    for pair in ([v, w[:2]], [v, v[:2]]):
        assert listed(c(pair)) == listed(f(pair))
    assert v.tolist() == w.tolist() == list(range(6))


def test_a_reentrant_checkpoint_of_inputs_without_gradients_has_none():
    m = torch.nn.Linear(2, 1)
    for f in (lambda x: checkpoint(m, x, use_reentrant=True),):
        for g in (f, torch.compile(f)):
            with pytest.warns(UserWarning, match="None of the inputs have requires_grad"):
                assert not g(torch.ones(1, 2)).requires_grad
            assert g(torch.ones(1, 2).requires_grad_()).requires_grad


def test_an_export_refuses_a_write_into_a_part_of_an_expanded_tensor():
    from fusegrad import export as E

    def f(x):
        y = x.sum(0, keepdim=True).expand(2, 3)
        y[0] = 5.0
        return y

    with pytest.raises(RuntimeError, match="part of an expanded tensor.*clone"):
        E.export(f, (torch.ones(2, 3),))


def both_from(make):
    """Two tensors on the memory of one object, each made anew."""
    whole = make()
    return lambda first, second: (torch.from_numpy(first(whole)), torch.from_numpy(second(whole)))


def array():
    return np.ones(4, "f4")


def buffer():
    return bytearray(np.ones(4, "f4").tobytes())


def from_buffer(b):
    return np.frombuffer(b, "f4")


OVERLAPPING = {  # memory that no array of numpy owns, or whose owner is not the array's base
    "one buffer": lambda: both_from(buffer)(from_buffer, from_buffer),
    "dlpack": lambda: both_from(array)(np.from_dlpack, np.asarray),
    "as_strided": lambda: both_from(array)(np.asarray, lambda a: np.lib.stride_tricks.as_strided(a, (4,), (4,))),
    "windows": lambda: both_from(array)(np.asarray, lambda a: np.lib.stride_tricks.sliding_window_view(a, 2)),
    "expanded twice": lambda: (x := torch.ones(4), x.unsqueeze(1).expand(-1, 3).expand(2, -1, -1)),
    "windows of expanded": lambda: (x := torch.ones(4), x.expand(2, 4).unfold(1, 2, 1).expand(2, 2, 3, 2)),
    "turned": lambda: (x := torch.ones(2, 2), x.t()[1:].expand(3, 2)),
}


@pytest.mark.parametrize("name", OVERLAPPING)
@pytest.mark.parametrize("apart_first", [False, True])
def test_tensors_that_overlap_by_ways_of_numpy(name, apart_first):
    def f(x, w):
        x.mul_(2)
        return w + 0

    make = OVERLAPPING[name]
    g = torch.compile(f, options={"interpret": True})
    if apart_first:
        x, w = make()
        g(torch.ones_like(x), w)
        g(torch.ones(8)[:4].view(x.shape), torch.ones(w.numel() + 1)[1:].view(w.shape))
    want, got = (h(*pair) for h, pair in ((f, make()), (g, make())))
    assert torch.equal(got, want) and got[..., -1].tolist() == want[..., -1].tolist()


def test_tensors_on_parts_of_one_buffer_that_are_apart():
    def f(x, w):
        x.mul_(2)
        return w + 0

    whole = np.frombuffer(buffer(), "f4")
    g = torch.compile(f)
    compiles = torch.compiler.stats()["compiles"]
    for _ in range(2):
        g(torch.from_numpy(whole[:2]), torch.from_numpy(whole[2:]))
    assert whole.tolist() == [4, 4, 1, 1] and torch.compiler.stats()["compiles"] == compiles + 1


def read_alone(x, i):
    return x[i].sin() * 2 + x[-i]


def changed(x, i):
    v = x[i]
    v.add_(1)
    return v * 1


def augmented(x, i):
    x[i] += 1
    return x * 1


def source_changed(x, i):
    v = x[i]
    x.mul_(2)
    return v * 1


def returned(x, i):
    return x[i]


def kept(x, i):
    box = [x[i, ..., :1]]
    x.add_(1)
    return box


def view_of_it(x, i):
    return x[None, i][0][1:]


def copied(x, i):
    v = x[i, i.reshape(1)]
    v.add_(1)
    return v


@pytest.mark.parametrize("place", [0, 1, -1])
@pytest.mark.parametrize(
    "f", [read_alone, changed, augmented, source_changed, returned, kept, view_of_it, copied], ids=lambda f: f.__name__
)
def test_items_at_a_tensor_without_dimensions_are_views(f, place):
    """As for an int: what is written to one is seen in the other; only reading goes without a break."""
    found = []
    torch.compiler.reset()
    for g in (f, torch.compile(f)):
        x = torch.arange(6.0).view(3, 2)
        out = g(x, torch.tensor(place))
        out = out[0] if isinstance(out, list) else out
        seen = [x.tolist(), x._version, out.tolist(), out._base is x]
        out.mul_(3)
        found.append([*seen, x.tolist()])
    assert found[0] == found[1]
    assert torch.compiler.stats()["graph_breaks"] == (f not in (read_alone, copied))


# ---- memory that is written between a call and its backward pass, past the version counters

F = torch.nn.functional
BETWEEN = {
    "computed again": lambda x, w: (x * 2).sin() * w,
    "read and computed again": lambda x, w: (x * w).exp() * x,
    "views": lambda x, w: (x.t() * 2 * x.t()).tanh() * x.reshape(-1)[0],
    "products": lambda x, w: (x.t() @ w).sin(),
    "a copy": lambda x, w: x.t().reshape(-1).sin() * w.reshape(-1),
    "layer_norm": lambda x, w: F.layer_norm(x, (3,), w[0]),
    "rms_norm": lambda x, w: F.rms_norm(x * 1, (3,), w[0]) * w,
    "two results": lambda x, w: (x + 1).sum() + ((x + 1) * w),
}


def _given(how, a, b):
    """Two leaves, and the arrays that share their memory."""
    if how == "from_numpy":
        return torch.from_numpy(a).requires_grad_(), torch.from_numpy(b).requires_grad_(), a, b
    if how == "views":
        return torch.from_numpy(a)[:, :].requires_grad_(), torch.as_tensor(b).t().requires_grad_(), a, b
    x, w = torch.tensor(a, requires_grad=True), torch.nn.Parameter(torch.tensor(b))
    return x, w, x.detach().numpy(), np.asarray(w.data)


@pytest.mark.not_verified("the eager side of a region reads what numpy wrote")
@pytest.mark.parametrize("kind", BETWEEN)
def test_numpy_writes_before_the_backward_pass(kind):
    """What eager code kept of the tensors themselves shows the write, what was computed from them does not."""
    found = []
    for f in (BETWEEN[kind], torch.compile(BETWEEN[kind])):
        seen = []
        for how in ("from_numpy", "views", "numpy"):
            for write in (True, False):
                a = np.linspace(0.1, 0.9, 9, dtype=np.float32).reshape(3, 3)
                x, w, a, b = _given(how, a, a.T.copy() + 1)
                y = f(x, w).sum()
                if write:
                    a[1], b[:, 2] = 3.0, -1.0
                y.backward()
                seen += [x.grad, w.grad]
        found.append(seen)
    for e, c in zip(*found, strict=True):
        torch.testing.assert_close(c, e)


def test_numpy_writes_before_a_backward_pass_with_a_graph():
    a = np.ones(3, np.float32)
    x = torch.from_numpy(a).requires_grad_()
    y = torch.compile(lambda x: (x * 2).exp() * x)(x).sum()
    a[0] = 5.0
    with pytest.raises(RuntimeError, match="numpy wrote to the memory of input 0"):
        torch.autograd.grad(y, x, create_graph=True)


@pytest.mark.not_verified("the eager side of a region reads what .data was set to")
@pytest.mark.parametrize("kind", ["layer_norm", "rms_norm"])
def test_data_that_is_set_before_the_backward_pass_of_a_norm(kind):
    found = []
    for f in (BETWEEN[kind], torch.compile(BETWEEN[kind])):
        x, w = torch.tensor([[0.1, 0.2, 0.4]] * 3, requires_grad=True), torch.ones(3, 3, requires_grad=True)
        y = f(x, w).sum()
        x.data = torch.tensor([[1.0, 2.0, 2.5]] * 3)
        y.backward()
        found.append((x.grad, w.grad))
    for e, c in zip(*found, strict=True):
        torch.testing.assert_close(c, e)
