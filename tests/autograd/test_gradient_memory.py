"""Who shares memory with a stored gradient: nobody, in eager and in compiled code."""

import subprocess
import sys

import pytest

import fusegrad as torch


def leaf(*values):
    return torch.tensor(list(values), requires_grad=True)


def cotangent_into_leaf():
    x, g = leaf(1.0, 2.0), torch.ones(2)
    x.backward(g)
    x.grad.mul_(7)
    return g, x.grad


def cotangent_through_a_copy():
    x, g = leaf(1.0, 2.0), torch.ones(2)
    x.clone().backward(g)
    x.grad.zero_()
    return g, x.grad


def cotangent_of_two_leaves():
    x, y, g = leaf(1.0, 2.0), leaf(3.0, 4.0), torch.ones(2)
    (x + y).backward(g)
    x.grad.mul_(3)
    y.grad.mul_(5)
    return g, x.grad, y.grad


def inputs_of_backward():
    x, y, g = leaf(1.0, 2.0), leaf(3.0, 4.0), torch.ones(2)
    (x + y).backward(g, inputs=[x, y])
    x.grad.mul_(3)
    y.grad.mul_(5)
    return g, x.grad, y.grad


def the_same_input_twice():
    x = leaf(1.0, 2.0)
    (x * 2).sum().backward(inputs=[x, x])
    return (x.grad,)


def hook_returns_its_own():
    x, k = leaf(1.0, 2.0), torch.ones(2)
    x.register_hook(lambda g: k)
    (x * 2).sum().backward()
    x.grad.mul_(7)
    return k, x.grad


def hook_keeps_the_gradient():
    x, kept = leaf(1.0, 2.0), []
    x.register_hook(lambda g: kept.append(g))
    (x * 2).sum().backward()
    x.grad.mul_(7)
    return kept[0], x.grad


def detached_cotangent():
    x, g = leaf(1.0, 2.0), torch.ones(2)
    x.backward(g.detach())
    x.grad.mul_(7)
    return g, x.grad


WANT = {
    cotangent_into_leaf: ([1, 1], [7, 7]),
    cotangent_through_a_copy: ([1, 1], [0, 0]),
    cotangent_of_two_leaves: ([1, 1], [3, 3], [5, 5]),
    inputs_of_backward: ([1, 1], [3, 3], [5, 5]),
    the_same_input_twice: ([2, 2],),
    hook_returns_its_own: ([1, 1], [7, 7]),
    hook_keeps_the_gradient: ([2, 2], [14, 14]),
    detached_cotangent: ([1, 1], [7, 7]),
}


@pytest.mark.parametrize("program", WANT, ids=lambda f: f.__name__)
def test_a_stored_gradient_has_its_own_memory(program):
    for f in (program, torch.compile(program)):
        assert tuple(t.tolist() for t in f()) == WANT[program], f


def test_graph_of_gradients_keeps_the_cotangent_apart():
    x, g = leaf(1.0, 2.0), torch.ones(2)
    x.clone().backward(g, create_graph=True)
    with torch.no_grad():
        x.grad.mul_(7)
    assert g.tolist() == [1, 1]


@pytest.mark.parametrize("program", WANT, ids=lambda f: f.__name__)
def test_also_as_the_first_pass_of_a_process(program):
    """What the engine counts to see who holds a gradient doesn't depend on the first one it meets."""
    code = (
        f"import test_gradient_memory as m; assert tuple(t.tolist() for t in m.{program.__name__}()) == {WANT[program]}"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=__file__.rsplit("/", 1)[0])
