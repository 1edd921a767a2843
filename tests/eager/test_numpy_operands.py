"""numpy's scalars and arrays next to tensors: the same values and gradients as with Python's numbers."""

import operator

import numpy as np
import pytest

import fusegrad as torch

SCALARS = [np.float32(3), np.float64(3), np.int64(3), np.int8(3)]
BINARY = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lt", "le", "eq", "ne", "gt", "ge"]
IN_PLACE = ["iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow"]
METHODS = ["add", "sub", "mul", "div", "pow", "remainder", "fmod", "maximum", "eq", "lt"]


def x():
    return torch.tensor([1.0, 2.0, 5.0], requires_grad=True)


def value_and_gradient(f):
    leaf = x()
    y = f(leaf)
    assert type(y) is torch.Tensor
    if y.requires_grad:
        try:
            y.sum().backward()
        except RuntimeError as error:  # of // : it has no derivative
            return y.tolist(), y.dtype, str(error)
    return y.tolist(), y.dtype, None if leaf.grad is None else leaf.grad.tolist()


def modes(f):
    return (f, torch.compile(f))


@pytest.mark.parametrize("scalar", SCALARS, ids=repr)
@pytest.mark.parametrize("name", BINARY)
def test_a_numpy_scalar_is_a_number(name, scalar):
    op = getattr(operator, name)
    want = value_and_gradient(lambda t: op(t, scalar.item()))
    for f in modes(lambda t: op(t, scalar)):
        assert value_and_gradient(f) == want
    if name not in ("pow", "mod", "floordiv"):
        swapped = value_and_gradient(lambda t: op(scalar.item(), t))
        assert value_and_gradient(lambda t: op(scalar, t)) == swapped


@pytest.mark.parametrize("scalar", SCALARS, ids=repr)
@pytest.mark.parametrize("name", IN_PLACE)
def test_a_numpy_scalar_in_place(name, scalar):
    op = getattr(operator, name)
    want = value_and_gradient(lambda t: op(t * 1, scalar.item()))
    for f in modes(lambda t: op(t * 1, scalar)):
        assert value_and_gradient(f) == want


@pytest.mark.parametrize("scalar", SCALARS, ids=repr)
@pytest.mark.parametrize("name", METHODS)
def test_a_numpy_scalar_as_a_method_s_argument(name, scalar):
    if name == "maximum":
        with pytest.raises(TypeError, match="must be Tensor"):
            x().maximum(scalar)
        return
    want = value_and_gradient(lambda t: getattr(t, name)(scalar.item()))
    assert value_and_gradient(lambda t: getattr(t, name)(scalar)) == want
    if hasattr(torch.Tensor, name + "_") and name not in ("eq", "lt"):
        want = value_and_gradient(lambda t: getattr(t * 1, name + "_")(scalar.item()))
        assert value_and_gradient(lambda t: getattr(t * 1, name + "_")(scalar)) == want


def test_pow_refuses_what_is_no_number():
    for bad in (np.array([1.0, 2.0]), [2], "2", None):
        with pytest.raises(TypeError, match="must be Tensor or number"):
            x().pow(bad)
        with pytest.raises(TypeError, match="must be Tensor or number"):
            torch.pow(x(), bad)
    with pytest.raises(TypeError, match="unsupported operand"):
        x() ** "2"


@pytest.mark.parametrize(
    "array",
    [np.array([1.0, 3.0]), np.array([1, 3]), np.array([2.0, 1.0])[::-1], np.array(1.0), np.array([1, 3], ">i4")],
    ids=repr,
)
def test_comparison_with_an_array_is_elementwise(array):
    t = torch.tensor([1.0, 2.0])
    want = [bool(v) for v in np.broadcast_to(array, (2,)) == [1.0, 2.0]]
    for eq in modes(lambda a, b: a == b):
        assert eq(t, array).tolist() == want
    assert (array == t).tolist() == want
    for ne in modes(lambda a, b: a != b):
        assert ne(t, array).tolist() == [not v for v in want]
    changed = array.copy()
    changed[...] = 2
    assert eq(t, changed).tolist() == [False, True]  # no array is taken as a constant


def test_comparison_with_other_objects_stays_python_s():
    t = torch.tensor([1.0, 2.0])
    assert (t == None) is False and (t == "a") is False and (t != [1, 2]) is True  # noqa: E711
    assert (t == np.array(["a", "b"])) is False


def test_an_array_added_in_place_rebinds_the_name():
    for f in modes(lambda t, a: operator.iadd(t * 1, a)):
        assert f(torch.tensor([1.0, 2.0]), np.array([1.0, 1.0])).tolist() == [2.0, 3.0]


def test_an_integer_array_without_dimensions_is_an_int():
    n = np.array(2)
    assert torch.eye(n).tolist() == [[1, 0], [0, 1]]
    assert x().topk(n)[0].tolist() == [5, 2] and x().narrow(0, n, 1).tolist() == [5]
    assert x().detach().scatter(0, torch.tensor([0]), np.float32(7)).tolist() == [7, 2, 5]
    with pytest.raises(TypeError, match="must be int, not ndarray"):
        torch.eye(np.array(2.0))
    with pytest.raises(TypeError, match="must be int, not ndarray"):
        torch.eye(np.array([2]))


def test_the_error_of_singular_matrices_has_a_name():
    assert issubclass(torch.linalg.LinAlgError, RuntimeError)
    for f in (torch.linalg.inv, torch.linalg.cholesky, lambda a: torch.linalg.solve(a, torch.ones(2))):
        with pytest.raises(torch.linalg.LinAlgError):
            f(torch.zeros(2, 2))
