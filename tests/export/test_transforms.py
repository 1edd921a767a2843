"""Function transforms of an exported program: the derivatives of the module that it was made from."""

import pytest

import fusegrad as T
from fusegrad import export as E

FUNC = T.func


def programs():
    T.manual_seed(0)
    m = T.nn.Sequential(T.nn.Linear(3, 4), T.nn.Tanh(), T.nn.Linear(4, 2))
    batch = E.Dim("b", min=1, max=8)
    return m, E.export(m, (T.randn(4, 3),), dynamic_shapes=({0: batch},)).module()


CASES = {
    "jacrev": lambda f, x: FUNC.jacrev(f)(x),
    "jacrev of jacrev": lambda f, x: FUNC.jacrev(FUNC.jacrev(f))(x),
    "jacfwd of jacrev": lambda f, x: FUNC.jacfwd(FUNC.jacrev(f))(x),
    "jacrev of jacfwd": lambda f, x: FUNC.jacrev(FUNC.jacfwd(f))(x),
    "hessian": lambda f, x: FUNC.hessian(lambda v: f(v).sum())(x),
    "vmap of a vjp": lambda f, x: T.vmap(FUNC.vjp(f, x)[1])(T.eye(4).reshape(4, 2, 2))[0],
    "vmap of jacrev": lambda f, x: T.vmap(FUNC.jacrev(lambda v: f(v[None])))(x),
    "gradient of a jacobian": lambda f, x: FUNC.grad(lambda v: (FUNC.jacrev(f)(v) ** 2).sum())(x),
    "functional, vectorized": lambda f, x: T.autograd.functional.jacobian(f, x, vectorize=True),
    "jvp of a gradient": lambda f, x: FUNC.jvp(FUNC.grad(lambda v: f(v).sum()), (x,), (x,))[1],
}


@pytest.mark.parametrize("name", CASES)
def test_transforms_of_an_exported_program(name):
    module, program = programs()
    x = T.randn(2, 3)
    T.testing.assert_close(CASES[name](program, x), CASES[name](module, x))


def test_second_derivatives_for_the_parameters_through_batched_cotangents():
    grads = []
    for f in programs():
        x = T.ones(2, 3).requires_grad_()
        y = f(x)
        (rows,) = T.autograd.grad(y, x, T.eye(4).reshape(4, 2, 2), is_grads_batched=True, create_graph=True)
        (rows**2).sum().backward()
        grads.append([p.grad for p in f.parameters()])
    T.testing.assert_close(grads[1], grads[0])
