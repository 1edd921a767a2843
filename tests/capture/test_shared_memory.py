"""Memory that several elements or tensors share, inside of compiled code: the same values as eager code."""

import copy

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
