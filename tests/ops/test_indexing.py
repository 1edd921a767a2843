"""Indexing, views and reductions beyond what the generated tests see."""

from __future__ import annotations

import numpy as np
import pytest

import fusegrad as fg


def random_index(rng: np.random.Generator, shape: tuple) -> tuple:
    """A basic index, or one with a single index array, where numpy and PyTorch agree."""
    out: list = []
    arrays = 0
    for n in shape:
        kind = rng.integers(0, 6)
        if kind == 0 and arrays == 0:
            out.append(int(rng.integers(-n, n)))
        elif kind == 1:
            out += [None, slice(None)]
        elif kind == 2:
            a, b = sorted(int(v) for v in rng.integers(-n - 1, n + 2, 2))
            out.append(slice(a, b, int(rng.integers(1, 3))))
        elif kind == 3 and arrays == 0 and not any(isinstance(i, int) for i in out):
            out.append(rng.integers(-n, n, int(rng.integers(1, 4))))
            arrays += 1
        elif kind == 4 and arrays == 0 and not any(isinstance(i, int) for i in out):
            out.append(rng.random(n) < 0.5)
            arrays += 1
        else:
            out.append(slice(None))
    cut = int(rng.integers(0, len(out) + 1))
    return tuple(out[:cut]) + ((Ellipsis,) if rng.random() < 0.3 else ())


def as_fg(index: tuple) -> tuple:
    return tuple(fg.tensor(i) if isinstance(i, np.ndarray) else i for i in index)


@pytest.mark.parametrize("seed", range(6))
def test_read_and_write_like_numpy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(60):
        shape = tuple(int(v) for v in rng.integers(1, 5, int(rng.integers(1, 5))))
        a, index = rng.normal(size=shape), random_index(rng, shape)
        x = fg.tensor(a, requires_grad=True)
        got, want = x[as_fg(index)], a[index]
        np.testing.assert_array_equal(got.detach().numpy(), want, err_msg=str((shape, index)))
        got.sum().backward()
        hits = np.zeros(shape)
        np.add.at(hits, index, 1)
        np.testing.assert_array_equal(x.grad.numpy(), hits, err_msg=str((shape, index)))
        b, y = a.copy(), fg.tensor(a)
        b[index] = 7.0
        y[as_fg(index)] = 7.0
        np.testing.assert_array_equal(y.numpy(), b, err_msg=str((shape, index)))


def test_int_beside_tensor_does_not_move_dims() -> None:
    """Unlike numpy: the integer is taken first."""
    x = fg.arange(24).reshape(2, 3, 4)
    assert tuple(x[0, :, fg.tensor([0, 1])].shape) == (3, 2)
    assert tuple(x[:, 0, fg.tensor([0, 1])].shape) == (2, 2)


@pytest.mark.parametrize(
    "index,error",
    [((5,), IndexError), ((0, 0, 0), IndexError), ((1.5,), IndexError), ((slice(None, None, -1),), ValueError),
     ((np.array([3]),), IndexError), ((np.array([True, False, True]),), IndexError)],
)  # fmt: skip
def test_bad_indices(index: tuple, error: type) -> None:
    x = fg.ones(2, 3)
    with pytest.raises(error):
        x[as_fg(index)]


def test_writes_through_views_reach_the_base_and_the_tape() -> None:
    x = fg.ones(2, 3, requires_grad=True)
    y = x * 2
    y[0, 1:].mul_(5)
    y.t()[2] = x.sum() * 1
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [[4, 12, 2], [4, 4, 2]])


def test_in_place_view_forms() -> None:
    x = fg.zeros(2, 1, 3)
    assert x.squeeze_() is x and tuple(x.shape) == (2, 3)
    assert tuple(x.t_().shape) == (3, 2) and tuple(x.unsqueeze_(0).shape) == (1, 3, 2)


@pytest.mark.parametrize(
    "shape,dims", [((200_000, 3), (0,)), ((400, 500, 2), (0, 1)), ((3, 200_000), (0, 1)), ((700, 3, 300), (0,))]
)
def test_long_float32_sums(shape: tuple, dims: tuple) -> None:
    """Every axis is summed about as accurately as pairwise summation does."""
    a = np.full(shape, 1 / 255, np.float32)
    want = a.astype(np.float64).sum(dims)
    np.testing.assert_allclose(fg.from_numpy(a).sum(dims).numpy(), want, rtol=8e-6)
    np.testing.assert_allclose(fg.from_numpy(a).mean(dims).numpy(), a.flat[0], rtol=8e-6)


def test_cumsum_does_not_drift() -> None:
    a = np.full(300_000, 1 / 255, np.float32)
    assert abs(float(fg.from_numpy(a).cumsum(0)[-1]) / a.astype(np.float64).sum() - 1) < 1e-6


@pytest.mark.parametrize("n", [3, 200, 1000])
def test_cumprod_with_zeros_to_second_order(n: int) -> None:
    """Both the short loop and the doubling form of the recurrence behind the gradient."""
    a = np.linspace(0.9, 1.1, n)
    a[n // 2] = 0
    x = fg.tensor(a, requires_grad=True)
    (g,) = fg.autograd.grad(x.cumprod(0).sum(), x, create_graph=True)
    before = np.concatenate(([1], np.cumprod(a)[:-1]))
    later = np.zeros(n)
    for k in range(n - 1, -1, -1):
        later[k] = 1 + (a[k + 1] * later[k + 1] if k + 1 < n else 0)
    np.testing.assert_allclose(g.detach().numpy(), before * later, rtol=1e-10)
    (h,) = fg.autograd.grad(g[n // 2], x)
    assert np.isfinite(h.numpy()).all() and h.numpy()[n // 2] == 0


def test_repeated_rows_add_up() -> None:
    """Gradients of reads by index: few and many repeats, narrow and wide rows."""
    rng = np.random.default_rng(0)
    for rows, width, count in ((5, 3, 40), (5, 40, 200), (300, 40, 400)):
        i = rng.integers(-rows, rows, count)
        g = rng.normal(size=(count, width))
        w = fg.zeros(rows, width, dtype=fg.float64, requires_grad=True)
        w[fg.tensor(i)].backward(fg.tensor(g))
        want = np.zeros((rows, width))
        np.add.at(want, i, g)
        np.testing.assert_allclose(w.grad.numpy(), want, rtol=1e-12)


@pytest.mark.filterwarnings("ignore:a list of lists")
def test_sequences_as_indices_are_tuples() -> None:
    """As PyTorch still reads them: a short list that holds a sequence, a slice, None or a tensor is a tuple."""
    x = fg.arange(24.0).reshape(2, 3, 4)
    t = fg.tensor
    cases = [
        ([[0, 1], [1, 2]], ((t([0, 1]), t([1, 2])))),
        ([[0, 1]], (t([0, 1]),)),
        ([[True, False]], (t([True, False]),)),
        ([t(0), t(1)], (0, 1)),
        ([(0, 1)], (t([0, 1]),)),
        ([range(2)], (t([0, 1]),)),
        ([slice(0, 1), 0], (slice(0, 1), 0)),
        ([None, 0], (None, 0)),
        ([0, 1], (t([0, 1]),)),
    ]
    for index, meant in cases:
        f = lambda v, k=index: v[k]  # noqa: E731
        for g in (f, fg.compile(f)):
            assert fg.equal(g(x), x[meant]), index
        a, b = x.clone(), x.clone()
        a[index], b[meant] = -1, -1
        assert fg.equal(a, b), index
    with pytest.warns(UserWarning, match=r"x\[tuple\(seq\)\]"):
        x[[[0, 1], [1, 2]]]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("of", [(2.0, fg.float64), (2, fg.int64), ([2.0, 2.0], fg.float64)])
def test_what_is_assigned_at_tensors_has_the_dtype_of_the_target(of, compiled) -> None:
    value = fg.tensor(of[0], dtype=of[1])
    i = fg.tensor([0, 1])
    wrap = fg.compile if compiled else lambda f: f

    def assign(x, index):
        x = x.clone()
        x[index] = value
        return x

    for index in (i, (slice(None), i), (i, i), ([0, 1],), (0, i)):
        with pytest.raises(RuntimeError, match="dtypes match"):
            wrap(lambda x, index=index: assign(x, index))(fg.ones(3, 2))
    for index in (0, (0, slice(None)), slice(0, 1), ...):  # a copy converts
        assert wrap(lambda x, index=index: assign(x, index))(fg.ones(3, 2)).sum().item() > 6
    assert assign(fg.ones(3, 2).to(of[1]), i).dtype is of[1]


def test_indices_are_of_int64_int32_uint8_or_bool() -> None:
    x = fg.arange(6.0).view(3, 2)
    for kind in (fg.int16, fg.int8, fg.float32):
        with pytest.raises(IndexError, match="long, int, byte or bool"):
            x[fg.tensor([0, 1], dtype=kind)]
        with pytest.raises(IndexError, match="long, int, byte or bool"):
            x[fg.tensor([0, 1], dtype=kind)] = 1.0
    assert x[fg.tensor(1, dtype=fg.int16)].tolist() == [2, 3]  # one number
    assert x[fg.tensor([1], dtype=fg.int32)].tolist() == [[2, 3]]
    with pytest.raises(IndexError, match="same number of elements"):
        x.put_(fg.tensor([0, 1]), fg.ones(1))
    with pytest.raises(IndexError, match="dimensions"):
        x.index_copy(0, fg.tensor([0]), fg.ones(2))


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("form", ["array", "two", "mask", "beside"])
@pytest.mark.parametrize("shape", [(1, 2), (1, 1, 2), (1, 1), (2,), (1,), ()])
def test_gradients_of_values_with_more_dimensions_than_their_place(form, shape, accumulate) -> None:
    """The backward pass failed."""
    index = {
        "array": (fg.tensor([0, 2]),),
        "two": (fg.tensor([0, 1]), fg.tensor([1, 0])),
        "mask": (fg.tensor([[True, False], [False, True], [False, False]]),),
        "beside": (slice(None), fg.tensor([1, 0])),
    }[form]

    added = accumulate and form != "beside"

    def f(x: fg.Tensor, v: fg.Tensor) -> fg.Tensor:
        if added:
            return x.index_put(index, v, accumulate=True)
        y = x * 1
        y[index] = v
        return y

    results = []
    for run in (f, fg.compile(f)):
        x, v = fg.arange(6.0).view(3, 2).requires_grad_(), fg.full(shape, 7.0).requires_grad_()
        y = run(x, v)
        w = fg.arange(1.0, 7.0).view(3, 2)
        (y * w).sum().backward()
        results.append((y.tolist(), x.grad.tolist(), v.grad.tolist()))
        assert v.grad.shape == v.shape
        place = x.detach()[index]
        times = fg.zeros(3, 2)
        times[index] = 1.0
        assert v.grad.sum().item() == pytest.approx((w * times).sum().item())
        assert y.detach()[index].tolist() == (7.0 + (place if added else place * 0)).tolist()
    assert results[0] == results[1]


def test_one_number_where_a_mask_holds_has_any_dtype() -> None:
    """Of the first dimensions or later ones: a tensor without dimensions is a number there, as in PyTorch."""
    columns, rows = fg.tensor([True, False, True]), fg.tensor([True, False])
    for index in ((slice(None), columns), (..., columns), (rows,), (0, columns)):
        want = np.zeros((2, 3))
        want[tuple(i.numpy() if isinstance(i, fg.Tensor) else i for i in index)] = 7
        for value in (fg.tensor(7), fg.tensor(7.0, dtype=fg.float64), fg.tensor([7])):
            x = fg.zeros(2, 3)
            x[index] = value
            assert x.tolist() == want.tolist() and x.dtype is fg.float32
    assert fg.zeros(2, 3).index_put((rows,), fg.tensor(7)).tolist() == [[7, 7, 7], [0, 0, 0]]
    assert fg.zeros(2, 3).index_put_((rows,), fg.tensor(7)).tolist() == [[7, 7, 7], [0, 0, 0]]
    with pytest.raises(RuntimeError, match="dtypes match"):
        fg.zeros(2, 3)[:, columns] = fg.tensor([7, 8])
    with pytest.raises(RuntimeError, match="dtypes match"):
        fg.zeros(2, 3).index_put_((rows,), fg.tensor(7), accumulate=True)
    x = fg.ones(2, 3, requires_grad=True)
    v = fg.tensor(2.0, dtype=fg.float64, requires_grad=True)
    y = x * 1
    y[:, columns] = v
    (y * y).sum().backward()
    assert x.grad.tolist() == [[0, 2, 0], [0, 2, 0]] and v.grad.item() == 16 and v.grad.dtype is fg.float64


def test_true_and_false_as_the_whole_index() -> None:
    x = fg.zeros(2, dtype=fg.int64)
    x[True] = fg.tensor([1.0, 2.0])
    assert x.tolist() == [1, 2]
    before = x._version
    x[False] = fg.tensor([9.0, 9.0, 9.0])
    assert x.tolist() == [1, 2] and x._version == before


def test_texts_are_no_indices() -> None:
    for index in ("a", ("a",), (0, "a"), ["a"], b"a"):
        with pytest.raises(TypeError):
            fg.ones(2, 2)[index]
        with pytest.raises(TypeError):
            fg.ones(2, 2)[index] = 1


def test_positions_of_what_is_not_zero_lie_together_by_dimension() -> None:
    x = fg.tensor([[0, 1], [1, 1]])
    assert x.nonzero().tolist() == [[0, 1], [1, 0], [1, 1]] and x.nonzero().stride() == (1, 3)
    assert all(i.is_contiguous() for i in x.nonzero(as_tuple=True))
    assert all(i.is_contiguous() for i in fg.where(x > 0))


def test_where_takes_both_values_or_none() -> None:
    mask = fg.tensor([True, False])
    for call in (lambda: fg.where(mask, 2.5), lambda: fg.where(mask, fg.ones(2)), lambda: fg.where(mask, other=1)):
        with pytest.raises(TypeError, match="where"):
            call()
