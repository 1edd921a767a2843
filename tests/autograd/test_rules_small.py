"""Small rules of the engine that public reports brought up, each with PyTorch's answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fusegrad as torch
from fusegrad import nn
from fusegrad.autograd import Function
from fusegrad.utils.hooks import RemovableHandle


def test_a_retained_gradient_has_memory_of_its_own() -> None:
    x = torch.ones(4, requires_grad=True)
    b = x * 2
    b.retain_grad()
    b.sum().backward()
    assert b.grad.stride() == (1,) and b.grad.is_contiguous()
    b.grad.add_(1)  # an expanded gradient could not be changed
    seen: list[Any] = []
    c = x * 2
    c.register_hook(seen.append)
    c.retain_grad()
    (c * c).sum().backward()
    c.grad.zero_()
    assert seen[0].tolist() == [4, 4, 4, 4]


def test_mark_dirty_is_for_inputs() -> None:
    class Marks(Function):
        @staticmethod
        def forward(ctx: Any, x: Any, part: bool) -> Any:
            y = x.clone()[:2] if part else x.clone()
            ctx.mark_dirty(y)
            return y

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g, None

    x = torch.ones(3, requires_grad=True)
    with pytest.warns(UserWarning, match="not an input"):
        Marks.apply(x, False).sum().backward()
    assert x.grad.tolist() == [1, 1, 1]
    with pytest.raises(RuntimeError, match="not an input"):
        Marks.apply(x, True)


def test_old_arguments_of_backward_and_grad() -> None:
    w = torch.ones(3, requires_grad=True)
    with pytest.warns(FutureWarning, match="grad_tensors"):
        torch.autograd.backward(w.sum(), grad_variables=torch.tensor(2.0))
    assert w.grad.tolist() == [2, 2, 2]
    with pytest.warns(FutureWarning), pytest.raises(RuntimeError, match="one argument"):
        torch.autograd.backward(w.sum(), torch.ones(()), grad_variables=torch.ones(()))
    with pytest.warns(FutureWarning, match="only_inputs"):
        assert torch.autograd.grad(w.sum(), w, only_inputs=False)[0].tolist() == [1, 1, 1]
    with pytest.raises(RuntimeError, match="NoneType"):
        torch.autograd.grad(w.sum(), [w, None])
    with pytest.raises(TypeError, match="expected 1 arguments, got 0"):
        (w * 2).grad_fn()


def test_every_hook_gives_one_kind_of_handle() -> None:
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    m = nn.Linear(2, 2)
    handles = [
        x.register_hook(lambda g: None),
        y.register_hook(lambda g: None),
        y.grad_fn.register_hook(lambda a, b: None),
        y.grad_fn.register_prehook(lambda a: None),
        x.register_post_accumulate_grad_hook(lambda t: None),
        m.register_forward_hook(lambda *a: None),
        torch.autograd.graph.register_multi_grad_hook([x, y], lambda gs: None),
    ]
    assert all(isinstance(h, RemovableHandle) for h in handles)
    assert handles[0].id in x._backward_hooks and handles[1].id in y._backward_hooks
    assert torch.ones(2)._backward_hooks is None and (x * 3)._backward_hooks is None


def test_nodes_and_warnings_of_module_hooks() -> None:
    m = nn.Linear(2, 2)
    m.register_full_backward_pre_hook(lambda m, go: (go[0] * 2,))
    y = m(torch.ones(1, 2))
    assert y.grad_fn.name() == "BackwardHookFunctionBackward"
    with pytest.warns(UserWarning, match="none of its inputs"):
        y.sum().backward()
    assert m.weight.grad.tolist() == [[2, 2], [2, 2]]


def test_new_tensors_of_one_example_have_memory_for_each() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    for make in (lambda a: a.new_zeros(2), lambda a: a.new_ones(2), lambda a: a.new_full((2,), 3.0)):
        out = torch.func.vmap(make)(x)
        assert out.stride() == (2, 1)
        out.add_(1)

    def rows(a: Any) -> Any:
        made = a.new_zeros(2)
        made[0] = a.sum()
        return made

    assert torch.func.vmap(rows)(x).tolist() == [[3, 0], [12, 0]]
    assert torch.func.vmap(torch.func.vmap(lambda a: a.new_zeros(2)))(x).shape == (2, 3, 2)


def test_the_jacobian_of_integers_has_the_dtype_of_the_inputs() -> None:
    for vectorize in (False, True):
        j = torch.autograd.functional.jacobian(lambda x: x.long(), torch.ones(2), vectorize=vectorize)
        assert j.dtype is torch.float32 and j.tolist() == [[0, 0], [0, 0]]


def test_per_example_derivatives_have_memory_for_each() -> None:
    """Where all are equal, they were one example's, expanded: an in-place change of them was refused."""
    from fusegrad.func import grad, hessian, jacfwd, jacrev, jvp, vmap

    x = torch.arange(6.0).reshape(2, 3)
    makes = {
        "grad": grad(lambda a: (a * 3).sum()),
        "jvp": lambda a: jvp(lambda b: b * 2, (a,), (torch.ones(3),))[1],
        "jacrev": jacrev(lambda a: a * 2),
        "jacfwd": jacfwd(lambda a: a * 2),
        "hessian": hessian(lambda a: (a**2).sum()),
        "new_empty": lambda a: a.new_empty(2).zero_(),
        "inner": vmap(grad(lambda a: a * 3)),
    }
    for name, make in makes.items():
        for f in (vmap(make), torch.compile(vmap(make))):
            out = f(x)
            before = out.clone()
            assert 0 not in out.stride(), name
            assert torch.equal(out.mul_(2), before * 2), name
    w = torch.ones(3, requires_grad=True)
    per = vmap(grad(lambda w, a: (w * 3 + a).sum()), in_dims=(None, 0))(w, x)
    assert per.tolist() == [[3, 3, 3], [3, 3, 3]]


def test_real_and_imag_are_attributes() -> None:
    x = torch.ones(2, requires_grad=True)
    assert x.real is x and torch.real(x) is x and x.conj() is x and torch.resolve_conj(x) is x
    with pytest.raises(RuntimeError, match="non-complex"):
        _ = x.imag


def test_nodes_keep_their_names_where_nothing_is_recorded() -> None:
    x = torch.ones(2, 2, requires_grad=True) * 1
    for mode in (torch.no_grad(), torch.inference_mode()):
        with mode:
            x.zero_()
            assert x.grad_fn.name() == "MulBackward0"
    x.zero_()
    assert x.grad_fn.name() == "ZeroBackward0"


def test_views_after_a_change_of_their_base_and_copies_of_reshape() -> None:
    a = torch.ones(4, requires_grad=True)
    for look in (lambda x: x[:2], lambda x: x.view(2, 2), lambda x: x.expand(2, 4), lambda x: x.unfold(0, 2, 1)):
        x = a * 1
        v = look(x)
        x.mul_(2)
        assert v.grad_fn.name() == "AsStridedBackward0"
        assert [f.name() for f, _ in v.grad_fn.next_functions] == [x.grad_fn.name()]
        (g,) = torch.autograd.grad(v.sum(), a)
        assert g.sum() == 2 * v.numel()
    m = torch.ones(2, 3, requires_grad=True).t()
    flat = m.reshape(6)
    assert flat._base is None and not flat._is_view() and flat.grad_fn.name() == "UnsafeViewBackward0"
    assert torch.ones(2, 3).t().reshape(6).add_(1).tolist() == [2] * 6


def test_the_layout_of_a_tensor_is_the_published_one() -> None:
    x = torch.ones(2)
    assert x.layout is torch.strided and torch.zeros(2, layout=x.layout).layout == torch.strided
    assert torch.compile(lambda x: (x * 2, x.layout is torch.strided))(x)[1]


def test_sizes_joined_and_repeated_stay_sizes() -> None:
    class Three(tuple):
        pass

    s = torch.ones(2, 3).shape
    for got, want in [
        (s + (1,), (2, 3, 1)),
        ((1,) + s, (1, 2, 3)),
        (Three((1,)) + s, (1, 2, 3)),
        (s * 2, (2, 3, 2, 3)),
        (0 * s, ()),
        (s[:1] + (True, torch.tensor(4), np.int64(5)), (2, 1, 4, 5)),
    ]:
        assert type(got) is torch.Size and got == want and all(type(n) is int for n in got)
    for wrong, text in [
        (lambda: s + [1], "not list"),
        (lambda: [1] + s, "not"),
        (lambda: s + (1, 1.5), "item 3 is 'float'"),
        (lambda: ("a",) + s, "item 0 is 'str'"),
        (lambda: s * 1.5, "float"),
    ]:
        with pytest.raises(TypeError, match=text):
            wrong()


@pytest.mark.parametrize("compiled", [False, True])
def test_bytes_read_as_another_dtype_have_no_history(compiled: bool) -> None:
    def f(x: Any) -> Any:
        y = x * 2
        return y, y.view(torch.float32), y.view(torch.int32), y.view(torch.float64)

    x = torch.ones(4, requires_grad=True)
    y, *views = (torch.compile(f) if compiled else f)(x)
    for v in views:
        assert not v.requires_grad and v.grad_fn is None and v._base is None and not v._is_view()
        assert v.data_ptr() == y.data_ptr()
    views[0].add_(1)
    assert y.tolist() == [3] * 4 and y._version == 1


@pytest.mark.parametrize("compiled", [False, True])
def test_powers_of_integers_that_would_wrap_are_refused(compiled: bool) -> None:
    for d in (torch.uint8, torch.int8, torch.int32, torch.int64):
        x = torch.tensor([1, 2, 3], dtype=d)
        most = torch.iinfo(d).max
        for f in (lambda x, e: x**e, lambda x, e: x.pow(e), lambda x, e: x.clone().pow_(e), torch.pow):
            f = torch.compile(f) if compiled else f
            assert f(x, 2).tolist() == [1, 4, 9]
            for wrong, text in ((-1, "negative"), (-300, "negative"), (most + 1, "overflow")):
                if abs(wrong) < 2**62:
                    with pytest.raises(RuntimeError, match=text):
                        f(x, wrong)


def test_bools_to_the_power_of_a_bool() -> None:
    b = torch.tensor([True, False])
    assert (b**True).tolist() == [True, False] and (b**True).dtype is torch.bool and b**True is not b
    assert b.pow(False).tolist() == [True, True] and torch.pow(b, False).dtype is torch.bool
    assert torch.compile(lambda b: b**True)(b).dtype is torch.bool


def test_sizes_are_of_ints() -> None:
    for wrong in ((1.5,), ("a",), (1, None), (torch.tensor(2.0),), ((1,),), "ab"):
        with pytest.raises(TypeError):
            torch.Size(wrong)
    for right in ((True, 2), [1, 2], range(1, 3), (np.int64(1), torch.tensor(2))):
        made = torch.Size(right)
        assert made == (1, 2) and {type(n) for n in made} == {int} and type(made[:1]) is torch.Size
    assert torch.Size() == () and torch.compile(lambda x: x.sum() * torch.Size((x.shape[0],))[0])(torch.ones(3)) == 9

    def wrong_size(x: Any) -> Any:
        return torch.Size((1.5,)), x

    with pytest.raises(TypeError, match="item 0"):
        torch.compile(wrong_size)(torch.ones(2))


@pytest.mark.parametrize("reduce", ["amax", "amin"])
def test_gradients_of_extrema_that_are_nan(reduce: str) -> None:
    """Who gets the gradient is not known: all get NaN. Other places keep theirs."""
    nan = float("nan")
    x = torch.tensor([1.0, 2.0, 5.0, nan], requires_grad=True)
    src = torch.tensor([1.0, nan, 3.0, 5.0], requires_grad=True)
    out = x.scatter_reduce(0, torch.tensor([0, 0, 1, 2]), src, reduce)
    gx, gs = torch.autograd.grad(out.sum(), (x, src))
    of_two = [0.0, 1.0] if reduce == "amax" else [1.0, 0.0]
    np.testing.assert_equal(gx.numpy(), np.float32([nan, of_two[0], 0.5, nan]))
    np.testing.assert_equal(gs.numpy(), np.float32([nan, nan, of_two[1], 0.5]))


def test_what_has_to_be_said() -> None:
    from fusegrad.ops import shape

    shape._tell_of_indexing.cache_clear()
    with pytest.warns(UserWarning, match="indexing"):
        torch.meshgrid(torch.arange(2), torch.arange(3))
    with pytest.raises(AttributeError, match="use Adam|Use Adam"):
        _ = torch.optim.SparseAdam
