"""Derivatives of any order where formulas divide by zero: right where there is one, NaN where there is none."""

import math

import pytest

import fusegrad as torch

F64 = torch.float64
grad = torch.func.grad


def along(f):
    return lambda t: torch.func.jvp(f, (t,), (torch.ones_like(t),))[1]


def at(value):
    return torch.tensor(value, dtype=F64)


def cumulative(t):
    return torch.logcumsumexp(torch.stack([t, t * 2, t * 0]), 0).sum()


SMOOTH = {  # function, point: derivatives from the second on
    "sinc": (torch.sinc, 0.0, -(math.pi**2) / 3, 0.0, math.pi**4 / 5),
    "sinc near 0": (torch.sinc, 1e-9, -(math.pi**2) / 3, math.pi**4 / 5 * 1e-9, math.pi**4 / 5),
    "sinc at 1": (torch.sinc, 1.0, 2.0, math.pi**2 - 6),
    "i0": (torch.i0, 0.0, 0.5, 0.0, 0.375),
    "i1": (torch.special.i1, 0.0, 0.0, 0.375, 0.0),
    "x ** tensor(0)": (lambda t: t ** at(0.0), 0.0, 0.0, 0.0),
    "x ** tensor(1)": (lambda t: t ** at(1.0), 0.0, 0.0, 0.0),
    "x ** tensor(2)": (lambda t: t ** at(2.0), 0.0, 2.0, 0.0),
    "logcumsumexp": (cumulative, 0.0, 0.25 + 2 / 3, 0.0),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_smooth_functions(name):
    f, point, second, third, *fourth = SMOOTH[name]
    t = at(point)
    for way in (grad(grad(f)), along(along(f)), grad(along(f)), along(grad(f))):
        assert way(t).item() == pytest.approx(second, abs=1e-12)
    for way in (grad(grad(grad(f))), along(along(along(f))), along(grad(grad(f)))):
        assert way(t).item() == pytest.approx(third, rel=1e-6, abs=1e-12)
    for want in fourth:
        assert grad(grad(grad(grad(f))))(t).item() == pytest.approx(want, rel=1e-9, abs=1e-12)


def test_compiled_second_derivatives():
    def both(x, e):
        y = torch.sinc(x) + x**e
        (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        return torch.autograd.grad(g.sum(), x)[0]

    x = torch.tensor([0.0, 0.5, 0.0, 1e-9], dtype=F64, requires_grad=True)
    e = torch.tensor([0.0, 0.0, 1.0, 2.0], dtype=F64)
    want = both(x, e)
    torch.testing.assert_close(torch.compile(both)(x, e), want)
    assert want[0].item() == pytest.approx(-(math.pi**2) / 3) and want[3].item() == pytest.approx(2 - math.pi**2 / 3)


def test_mixed_derivatives_of_powers_agree():
    x, e = at(2.0).requires_grad_(), at(0.0).requires_grad_()
    (by_x,) = torch.autograd.grad(x**e, x, create_graph=True)
    (by_e,) = torch.autograd.grad(x**e, e, create_graph=True)
    assert torch.autograd.grad(by_x, e)[0].item() == torch.autograd.grad(by_e, x)[0].item() == 0.5
    for odd in (0.0, -0.0, math.inf, math.nan, 1e-310):
        x = at(odd).requires_grad_()
        assert torch.autograd.grad(x**e, x)[0].item() == 0


def test_a_gradient_of_zero_still_reaches_logcumsumexp():
    x, w = at([1.0, 2.0, 3.0]).requires_grad_(), at([0.0, 1.0, 0.0]).requires_grad_()
    (g,) = torch.autograd.grad((w * x.logcumsumexp(0)).sum(), x, create_graph=True)
    torch.testing.assert_close(torch.autograd.grad(g.sum(), w)[0], torch.ones(3, dtype=F64))


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_angles_of_small_and_large_points(scale):
    y, x = (torch.tensor(v * scale, requires_grad=True) for v in (3.0, 4.0))
    torch.atan2(y, x).backward()
    assert y.grad.item() == pytest.approx(4 / 25 / scale, rel=1e-5)
    assert x.grad.item() == pytest.approx(-3 / 25 / scale, rel=1e-5)


@pytest.mark.parametrize("diagonal", [(1, 1, 1, 1), (1, 2, 3, 4), (1, 0, 0, 2)])
def test_second_derivatives_of_determinants(diagonal):
    a = torch.diag(at([float(d) for d in diagonal]))
    for h in (torch.func.hessian(torch.det)(a), torch.func.jacfwd(torch.func.jacfwd(torch.det))(a)):
        for i in range(4):
            for j in range(4):
                rest = math.prod(d for k, d in enumerate(diagonal) if k not in (i, j)) if i != j else 0
                assert h[i, i, j, j].item() == pytest.approx(rest, abs=1e-12)
                assert h[i, j, j, i].item() == pytest.approx(-rest, abs=1e-12)


def test_the_logarithm_of_a_zero_determinant():
    a = at([[1.0, 2.0], [2.0, 4.0]]).requires_grad_()
    torch.linalg.slogdet(a)[1].backward()
    assert a.grad.isinf().all()
    stack = torch.stack([a.detach(), 2 * torch.eye(2, dtype=F64)]).requires_grad_()
    torch.logdet(stack).sum().backward()
    assert stack.grad[0].isinf().all() and stack.grad[1].tolist() == [[0.5, 0.0], [0.0, 0.5]]


def eigenvalues(a):
    return torch.linalg.eigh(a)[0].square().sum()


def largest_vector(a):
    return (torch.linalg.eigh(a)[1][..., -1].square() * at([1.0, 2.0, 3.0])).sum()


def square_root(a):
    w, v = torch.linalg.eigh(a)
    return ((v * w.sqrt()) @ v.T).sum()


def singular(a):
    return torch.linalg.svd(a)[1].square().sum()


def first_pair(a):
    u, _, vh = torch.linalg.svd(a)
    return (u[:, 0] * vh[0]).sum()


def put_together(a):
    u, s, vh = torch.linalg.svd(a)
    return (u * s @ vh).sum()


@pytest.mark.parametrize("f", [eigenvalues, singular])
def test_equal_values_have_derivatives(f):
    a = torch.diag(at([2.0, 2.0, 3.0])).requires_grad_()
    f(a).backward()
    torch.testing.assert_close(a.grad, 2 * a.detach())


@pytest.mark.parametrize("f", [largest_vector, first_pair])
def test_vectors_that_are_determined_beside_others_that_are_not(f):
    a = at([[2.0, 1.0, 0.0], [1.0, 2.0, 0.0], [0.0, 0.0, 1.0]]).requires_grad_()  # eigenvalues 1, 1, 3
    (g,) = torch.autograd.grad(f(a), a)
    assert g.isfinite().all()
    change = at([[0.3, 0.2, 0.5], [0.2, -0.4, 0.1], [0.5, 0.1, 0.2]])
    with torch.no_grad():
        slope = (f(a + 1e-6 * change) - f(a - 1e-6 * change)) / 2e-6
    assert (g * change).sum().item() == pytest.approx(slope.item(), abs=1e-8)


@pytest.mark.parametrize("f", [square_root, put_together])
def test_vectors_that_are_not_determined_have_no_derivative(f):
    a = torch.eye(3, dtype=F64, requires_grad=True)
    (g,) = torch.autograd.grad(f(a), a)
    assert g.isnan().any()  # zeros would be silently wrong
    (g,) = torch.autograd.grad(eigenvalues(a), a, create_graph=True)
    assert torch.autograd.grad(g.sum(), a)[0].isnan().any()


def test_second_derivatives_of_reflections():
    def f(t):
        column = torch.stack([torch.ones_like(t), t]).reshape(2, 1)
        return torch.linalg.householder_product(column, (2 / (1 + t * t)).reshape(1)).sum()

    for way in (grad(grad(f)), along(along(f)), grad(along(f)), along(grad(f))):
        assert way(at(0.7)).item() == pytest.approx(1.556251320682393)
    q, tau = at([[1.0, 2.0], [0.5, 1.0], [0.25, -1.0]]), at([2 / 1.3125, 1.0])  # both reflections
    q = torch.linalg.householder_product(q, tau)
    torch.testing.assert_close(q.T @ q, torch.eye(2, dtype=F64))
    with pytest.raises(RuntimeError, match="m >= n >= k"):
        torch.linalg.householder_product(torch.ones(2, 3), torch.ones(2))


FAR = {  # function, points: first and second derivatives where the plain formula overflows or cancels
    "gelu": (
        lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
        (10.0, -1e3, 6e4),
        (1.0, 0.0, 1.0),
        (0.0, 0.0, 0.0),
    ),
    "log_ndtr": (
        torch.special.log_ndtr,
        (-20.0, -100.0, -1e3),
        (20.0497531, 100.009998, 1000.001),
        (-0.99753674, -0.9999, -1),
    ),
    "erfcx": (torch.special.erfcx, (5.0, 100.0), (-0.0213327898, -5.64105e-5), (0.00808138, 1.12804e-6)),
}


def far(name, dtype, compiled):
    f, points, *_ = FAR[name]
    x = torch.tensor(points, dtype=dtype, requires_grad=True)

    def both(x):
        (g,) = torch.autograd.grad(f(x).sum(), x, create_graph=True)
        return g, torch.autograd.grad(g.sum(), x)[0]

    plain = torch.compile(f) if compiled else f
    (first,) = torch.autograd.grad(plain(x).sum(), x)
    return (first, *(torch.compile(both) if compiled else both)(x))


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, F64])
@pytest.mark.parametrize("name", FAR)
def test_derivatives_far_out(name, dtype, compiled):
    if dtype == torch.float16 and name != "gelu":
        pytest.skip("half numbers are too coarse for what cancels here")
    tol = {torch.float16: 1e-3, torch.float32: 2e-3, F64: 1e-5}[dtype]
    first, again, second = far(name, dtype, compiled)
    assert first.tolist() == pytest.approx(FAR[name][2], rel=tol, abs=1e-12)
    assert again.tolist() == pytest.approx(FAR[name][2], rel=tol, abs=1e-12)
    assert second.tolist() == pytest.approx(FAR[name][3], rel=tol, abs=1e-12)


@pytest.mark.parametrize("dtype, huge", [(torch.float32, 1e30), (F64, 1e200)])
def test_the_slope_of_gelu_at_huge_numbers(dtype, huge):
    f = FAR["gelu"][0]
    for g in (f, torch.compile(f)):
        x = torch.tensor([huge, -huge, math.inf, math.nan, 0.0], dtype=dtype, requires_grad=True)
        g(x).sum().backward()
        assert x.grad[:3].tolist() == [1, 0, 1] and math.isnan(x.grad[3]) and x.grad[4] == 0.5


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, F64])
def test_the_slope_of_std_at_tiny_numbers(dtype):
    for f in (torch.std, torch.compile(torch.std)):
        x = torch.tensor([1e-5, 0, -1e-5], dtype=dtype, requires_grad=True)
        f(x).backward()
        assert x.grad.tolist() == pytest.approx([0.5, 0, -0.5], rel=1e-2)


@pytest.mark.parametrize("f", [f for f, *_ in FAR.values()])
def test_derivatives_at_a_nan_are_nan(f):
    for g in (f, torch.compile(f)):
        x = torch.tensor([math.nan, 1.0], dtype=F64, requires_grad=True)
        (first,) = torch.autograd.grad(g(x).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x)
        assert math.isnan(first.detach()[0]) and math.isnan(second[0]) and not second[1].isnan()


def test_scaled_bessel_functions_near_zero() -> None:
    """Derivatives of exp(-|x|) I1(x) and exp(-|x|) I0(x) by their series: no difference of large terms near 0."""
    for x in (1e-30, 1e-8, 1e-3, -1e-3):
        t = torch.tensor(x, dtype=torch.float64, requires_grad=True)
        s = 1.0 if x > 0 else -1.0
        first = torch.autograd.grad(torch.special.i1e(t), t, create_graph=True)[0]
        second = torch.autograd.grad(first, t, create_graph=True)[0]
        third = torch.autograd.grad(second, t)[0]
        a = abs(x)
        assert abs(first.item() - (0.5 - a + 0.9375 * a * a)) < 1e-8
        assert abs(second.item() - s * (-1 + 1.875 * a - 1.75 * a * a)) < 1e-8
        assert abs(third.item() - (1.875 - 3.5 * a)) < 1e-5
        y = torch.special.i0e(t)
        for _ in range(3):
            y = torch.autograd.grad(y, t, create_graph=True)[0]
        assert abs(y.item() - s * (-2.5 + 4.375 * a)) < 1e-5
