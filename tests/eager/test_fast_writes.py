"""Writes at indices straight into plain memory: what the general in-place form does, and nothing where it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusegrad as fg
from fusegrad import Tensor, callnative
from fusegrad.autograd.modes import SLOW

callnative.load()  # what is quickest asks it
I, FAR, OTHER = np.array([[0, 1], [2, 0], [1, 1]]), np.array([[0, 1], [2, 9], [1, 1]]), np.array([[0, 1, 2]])  # noqa: E741
ROW, SAME, ODD = I[0], I[2], FAR[1]
A = np.arange(1.0, 13.0).reshape(3, 4)
CALLS: dict[str, Callable[[Tensor, Callable[[Any], Tensor]], Any]] = {
    **{f"scatter_ {d}": (lambda x, t, d=d: x.scatter_(d, t(I), t(A))) for d in (0, 1, -1, 2)},
    **{
        f"scatter_ {v}": (lambda x, t, v=v: x.scatter_(1, t(I), v))
        for v in (0, 1.5, -0.0, 1e300, float("inf"), True, np.float32(2))
    },
    "scatter_ of tensors": lambda x, t: [x.scatter_(1, t(i), t(s)) for i in (I, SAME[None]) for s in (A, A[:, :2])],
    "scatter_ reduce": lambda x, t: x.scatter_(1, t(I), t(A), reduce="add"),
    "scatter_ far": lambda x, t: x.scatter_(1, t(FAR), t(A)),
    "scatter_ other dtype": lambda x, t: x.scatter_(1, t(I), t(A).to(fg.float16)),
    "scatter_ float index": lambda x, t: x.scatter_(1, t(A), t(A)),
    "scatter_ itself": lambda x, t: x.scatter_(1, t(I), x),
    "scatter_add_": lambda x, t: [x.scatter_add_(d, t(i), t(A)) for d in (1, 0, -1) for i in (I, I[:2], SAME[None])],
    "scatter_add_ far": lambda x, t: x.scatter_add_(1, t(FAR), t(A)),
    "scatter_add_ itself": lambda x, t: x.scatter_add_(1, t(I), x),
    "scatter_add_ few": lambda x, t: x.scatter_add_(1, t(I), t(A[:, :1])),
    "index_add_": lambda x, t: [x.index_add_(0, t(i), t(A[:2])) for i in (ROW, SAME)],
    "index_add_ columns": lambda x, t: x.index_add_(1, t(SAME), t(A)[:, :2]),
    "index_add_ alpha": lambda x, t: x.index_add_(-2, t(SAME), t(A[:2]), alpha=2),
    "index_add_ far": lambda x, t: x.index_add_(0, t(ODD), t(A[:2])),
    "index_add_ wrong": lambda x, t: x.index_add_(0, t(ROW), t(A)),
    "index_add_ below": lambda x, t: x.index_add_(0, t(ROW - 1), t(A[:2])),
    "index_copy_": lambda x, t: x.index_copy_(0, t(ROW), t(A[:2])),
    "index_copy_ columns": lambda x, t: x.index_copy_(1, t(ROW), t(A)[:, 1:3]),
    "index_copy_ far": lambda x, t: x.index_copy_(0, t(ODD), t(A[:2])),
    "index_copy_ int32": lambda x, t: x.index_copy_(0, t(ROW).int(), t(A[:2])),
    **{f"index_fill_ {v}": (lambda x, t, v=v: x.index_fill_(1, t(ROW), v)) for v in (0, 2.5, -1, 1e300, True)},
    "index_fill_ below": lambda x, t: x.index_fill_(0, t(ROW - 2), 1.0),
    "index_fill_ far": lambda x, t: x.index_fill_(0, t(ODD), 1.0),
    "index_fill_ tensor": lambda x, t: x.index_fill_(0, t(ROW), t(np.array(3.0))),
    "index_put_": lambda x, t: x.index_put_((t(ROW),), t(A[0])),
    "index_put_ adding": lambda x, t: x.index_put_((t(SAME),), t(A[0]), accumulate=True),
    "vector adding": lambda x, t: x.view(-1).index_put_((t(I - 3),), t(A[0, 0]), accumulate=True),
    **{f"[i] = {v}": (lambda x, t, v=v: x.__setitem__(t(ROW), v)) for v in (0, 1.5, 1e300, float("nan"), True)},
    "[i] = tensor": lambda x, t: [x.__setitem__(t(ROW), t(v)) for v in (A[:2], A[0], A[:1], A[0, 0], A[None, :2])],
    "[i] = wrong": lambda x, t: x.__setitem__(t(ROW), t(A)),
    "[i] = far": lambda x, t: x.__setitem__(t(ODD), 1.0),
    "[-i] =": lambda x, t: x.__setitem__(t(-ROW - 1), 1.0),
    "[i, j] =": lambda x, t: x.__setitem__((t(ROW), t(I)), 2.0),
    "[:, i] =": lambda x, t: x.__setitem__((slice(None), t(SAME)), t(A[:, :2])),
    "[i, 0] =": lambda x, t: x.__setitem__((t(ROW), 0), 4.0),
    "[i, :] =": lambda x, t: x.__setitem__((t(ROW), slice(None)), t(A[:2])),
    "[1:, i] =": lambda x, t: x.__setitem__((slice(1, None), t(ROW)), t(A[1:, :2])),
    "[i, j, k] =": lambda x, t: x.__setitem__((t(ROW), t(ROW), t(ROW)), 1.0),
    "[i] = itself": lambda x, t: x.__setitem__(t(np.array([2, 1, 0])), x),
    "[i, j]": lambda x, t: x.copy_((x[t(ROW), t(ROW)].sum() + x[:, t(I)].sum() + x[t(-ROW), :].sum()) * x[t(I[:, 0])]),
    "[i] of 0-d": lambda x, t: x.add_(x[t(np.array(1))]),
    "masked_scatter_": lambda x, t: [x.masked_scatter_(t(m) > 3, t(A)) for m in (A, A[0], A[:, :1], A * 0)],
    "masked_scatter_ few": lambda x, t: [x.masked_scatter_(t(A) > 9, t(A[0, :n])) for n in (2, 1)],
    "masked_scatter_ itself": lambda x, t: x.masked_scatter_(t(A) > 3, x),
    "masked_scatter_ other dtype": lambda x, t: x.masked_scatter_(t(A) > 3, t(A).to(fg.float16)),
    "masked_scatter_ ints": lambda x, t: x.masked_scatter_(t(I), t(A)),
    "put_": lambda x, t: [x.put_(t(i), t(A.reshape(-1)[: i.size])) for i in (I, -I, SAME, ROW[:0])],
    "put_ adding": lambda x, t: x.put_(t(SAME), t(A[0, :2]), accumulate=True),
    "put_ far": lambda x, t: x.put_(t(SAME + 50), t(A[0, :2])),
    "put_ below": lambda x, t: x.put_(t(SAME - 50), t(A[0, :2])),
    "put_ wrong": lambda x, t: x.put_(t(SAME), t(A)),
    "put_ itself": lambda x, t: x.put_(t(np.arange(12)[::-1].copy()), x),
    "put_ int32": lambda x, t: x.put_(t(SAME).int(), t(A[0, :2])),
    "masked_select": lambda x, t: x.add_(x.masked_select(t(A) > 3).sum() + x.masked_select(t(A[0]) > 3).sum()),
    "take_along_dim": lambda x, t: [x.add_(x.take_along_dim(t(i), 1).sum()) for i in (I, -I, I[:1], OTHER)],
}

PLACES = {"usual": ROW, "same": SAME, "below": ROW - 1, "far": ODD, "none": ROW[:0], "many": np.arange(40) % 3}
PLACES |= {"float": ROW * 1.0, "matrix": I, "number": np.array(1), "last": np.array([3])}


def _vector(name: str, dim: Any, i: np.ndarray, of: Callable[[np.ndarray], Any]) -> Callable[..., Any]:
    """The call of an in-place form on a row; ``of``: what is written, for the values of as many places."""
    return lambda x, t: [
        getattr(x[k], name)(
            dim, t(i), t(v) if isinstance(v := of(A.reshape(-1)[np.arange(i.size) % 12]), np.ndarray) else v
        )
        for k in (0, -1)
    ]


for _name in ("scatter_", "scatter_add_", "index_add_", "index_copy_", "index_fill_"):
    for _where, _i in PLACES.items():
        CALLS[f"row.{_name} at {_where}"] = _vector(_name, 0, _i, lambda v: v)
    _few: dict[Any, Callable[[np.ndarray], Any]] = {
        **{f"{n}": (lambda v, n=n: n) for n in (1.5, 2, True, float("nan"), 1e300, -0.0, np.float32(2))},
        **{"longer": lambda v: A[0, :3], "shorter": lambda v: v[:1], "0-d": lambda v: v[0]},
    }
    for _what, _of in _few.items():
        CALLS[f"row.{_name} of {_what}"] = _vector(_name, -1, SAME, _of)
    for _dim in (1, -2, True, None, 0.0):
        CALLS[f"row.{_name} along {_dim}"] = _vector(_name, _dim, ROW, lambda v: v)
    CALLS |= {
        f"row.{_name} itself": lambda x, t, n=_name: getattr(x[0], n)(0, t(ROW), x[0, :2]),
        f"row.{_name} of its row": lambda x, t, n=_name: [r := x[0], getattr(r, n)(0, t(np.arange(4)), r)],
        f"row.{_name} of float16": lambda x, t, n=_name: getattr(x[0], n)(0, t(ROW), t(A[0, :2]).to(fg.float16)),
        f"row.{_name} int32": lambda x, t, n=_name: getattr(x[0], n)(0, t(ROW).int(), t(A[0, :2])),
        f"row.{_name} named": lambda x, t, n=_name: getattr(x[0], n)(axis=0, index=t(ROW)),
        f"row.{_name} at itself": lambda x, t, n=_name: getattr(x[0], n)(0, x[0], x[0]),
    }
CALLS |= {
    "row.scatter_ value": lambda x, t: x[0].scatter_(0, t(ROW), value=2.0),
    "row.scatter_ reduce": lambda x, t: x[0].scatter_(0, t(ROW), t(A[0, :2]), reduce="multiply"),
    "row.index_add_ alpha": lambda x, t: x[0].index_add_(0, t(ROW), t(A[0, :2]), alpha=2),
    "row.index_add_ alpha 1": lambda x, t: x[0].index_add_(0, t(ROW), t(A[0, :2]), alpha=1),
}

COMPUTED: dict[str, Callable[[Tensor, Callable[[Any], Tensor]], Any]] = {
    "addcmul_": lambda x, t: x.addcmul_(t(A), t(A), value=0.5),
    "addcmul_ itself": lambda x, t: x.addcmul_(x, x),
    "addcmul_ number": lambda x, t: x.addcmul_(2.0, t(A)),
    "addcmul_ broadcast": lambda x, t: x.addcmul_(t(A[0]), t(A)),
    "addcmul_ overlap": lambda x, t: x.view(-1)[1:].addcmul_(x.view(-1)[:-1], x.view(-1)[1:]),
    "addcmul_ two": lambda x, t: x.addcmul_(t(A)),
    "addcmul_ unknown": lambda x, t: x.addcmul_(t(A), t(A), factor=2),
    "addcdiv_": lambda x, t: x.addcdiv_(t(A), t(A) + 1, value=-1e-3),
    "addcdiv_ large": lambda x, t: x.addcdiv_(t(A), t(A), value=1 << 40),
    "lerp_": lambda x, t: x.lerp_(t(A), 0.25),
    "lerp_ tensor": lambda x, t: x.lerp_(t(A), t(A) / 12),
    "lerp_ other dtype": lambda x, t: x.lerp_(t(A).to(fg.float16), 0.25),
    "sigmoid_": lambda x, t: x.sigmoid_(),
    "logit_": lambda x, t: x.div_(20).logit_(1e-6),
    "nan_to_num_": lambda x, t: x.mul_(float("inf")).nan_to_num_(posinf=3.0),
    "nan_to_num": lambda x, t: x.copy_((x / t(A - 1)).nan_to_num(nan=1.0, posinf=3.0)),
}
CALLS |= COMPUTED


def leaf(x: Tensor) -> Tensor:
    return x.requires_grad_()


HOW: dict[str, Callable[[], Tensor]] = {
    "plain": lambda: fg.tensor(A, dtype=fg.float32),
    "double": lambda: fg.tensor(A),
    "ints": lambda: fg.tensor(A, dtype=fg.int64),
    "half": lambda: fg.tensor(A, dtype=fg.float16),
    "leaf": lambda: leaf(fg.tensor(A)),
    "inner": lambda: leaf(fg.tensor(A)) * 1,
    "view of inner": lambda: (leaf(fg.tensor(A)) * 1)[:],
    "strided": lambda: fg.tensor(A.T.copy()).t(),
    "view": lambda: fg.zeros(4, 3, 4, dtype=fg.float64)[1],
    "expanded": lambda: fg.tensor(A[:1]).expand(3, 4),
    "parameter": lambda: fg.nn.Parameter(fg.tensor(A)),
}


def outcome(call: Callable[..., Any], how: str, grad: bool, slow: bool) -> Any:
    x = HOW[how]()
    kind = x.dtype
    given: list[Tensor] = []

    def t(a: Any) -> Tensor:
        a = np.asarray(a)
        given.append(fg.tensor(a) if a.dtype.kind == "i" else fg.tensor(a, dtype=kind))
        return given[-1]

    SLOW[0] += slow
    try:
        with fg.set_grad_enabled(grad):
            call(x, t)
        said: Any = None
    except Exception as e:  # noqa: BLE001  (compared)
        said = type(e), str(e)
    finally:
        SLOW[0] -= slow
    base = x if x._base is None else x._base
    node = x.grad_fn
    return said, x._data.tobytes(), base._data.tobytes(), x._version, x.requires_grad, node and node.name(), [
        g._version for g in given
    ]  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("how", HOW)
def test_writes_as_by_the_general_form(how: str) -> None:
    for name, call in CALLS.items():
        for grad in (True, False):
            fast, slow = (outcome(call, how, grad, s) for s in (False, True))
            assert fast == slow, f"{name}, grad mode {grad}"


def test_a_source_that_requires_a_gradient_is_recorded() -> None:
    w = fg.ones(2, requires_grad=True)
    calls: list[Callable[[Tensor], Any]] = [
        lambda x: x.index_add_(0, fg.tensor([0, 2]), w), lambda x: x.index_copy_(0, fg.tensor([0, 2]), w),
        lambda x: x.scatter_(0, fg.tensor([0, 2]), w), lambda x: x.scatter_add_(0, fg.tensor([0, 2]), w),
        lambda x: x.__setitem__(fg.tensor([0, 2]), w), lambda x: x.__setitem__(fg.tensor([0, 2]), w[:] * 1),
    ]  # fmt: skip
    for call in calls:
        x = fg.zeros(3)
        call(x)
        (g,) = fg.autograd.grad((x * fg.arange(3.0)).sum(), w)
        assert x.tolist() == [1, 0, 1] and g.tolist() == [0, 2]


def test_writes_are_seen_by_saved_tensors_and_transforms() -> None:
    w, x = fg.ones(3, requires_grad=True), fg.ones(3)
    for change in (lambda: x.index_fill_(0, fg.tensor([1]), 5.0), lambda: x.__setitem__(fg.tensor([1]), 5.0)):
        y = w * x
        change()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()
    seen = fg.func.vmap(lambda a: a.clone().index_fill_(0, fg.tensor([1]), 5.0))(fg.zeros(2, 3))
    assert seen.tolist() == [[0, 5, 0]] * 2
    tangent = fg.func.jvp(lambda a: a.clone().index_fill_(0, fg.tensor([1]), 5.0), (x,), (fg.ones(3),))[1]
    assert tangent.tolist() == [1, 0, 1]
    with fg.inference_mode():
        made = fg.zeros(3).index_fill_(0, fg.tensor([1]), 5.0)
    assert made.is_inference() and made.tolist() == [0, 5, 0]


PARTS: tuple[Callable[[Any], Any], ...] = (lambda x: x[:, 1:2], lambda x: x[::2], lambda x: x.t()[1:], lambda x: x[1:2])


@pytest.mark.parametrize("grad", [False, True])
def test_in_place_forms_write_where_the_view_looks(grad: bool) -> None:
    """Every in-place form of one tensor, also by machine code: on parts of memory that are not one block."""
    from fusegrad.families import load_all
    from fusegrad.op import TABLE

    load_all()
    names = {f"{op.name}_" for op in list(TABLE.values()) if len(op.sig.params) == 1 and op.kind == "pointwise"}
    tried = 0
    for name in sorted(n for n in names if hasattr(Tensor, n)):
        for dtype in (fg.float32, fg.float64, fg.int64):
            for part in PARTS:
                x = (fg.arange(12, dtype=dtype) + 1).reshape(3, 4)
                x = x / 20 if dtype.is_floating_point else x
                want, there = x.clone(), part(x)
                values = there.clone().contiguous()
                with fg.set_grad_enabled(grad):
                    try:
                        getattr(values, name)()
                    except (RuntimeError, NotImplementedError):
                        continue  # not for this dtype
                    getattr(there, name)()
                part(want).numpy()[...] = values.numpy()
                assert np.allclose(x.numpy(), want.numpy(), equal_nan=True), (name, dtype)
                tried += 1
    assert tried > 300


def test_activations_in_place_write_where_the_view_looks() -> None:
    F = fg.nn.functional
    for f in (F.elu, F.leaky_relu, F.celu, F.selu, F.hardtanh, F.relu6, F.silu, F.mish, F.hardswish, F.hardsigmoid):
        for part in PARTS:
            x = fg.arange(12.0).reshape(3, 4) / 4 - 1
            want = x.clone()
            part(want).numpy()[...] = f(part(x).clone().contiguous()).numpy()
            f(part(x), inplace=True)
            assert np.allclose(x.numpy(), want.numpy()), f.__name__


def test_copies_and_sources_of_too_many_or_no_dimensions() -> None:
    x = fg.zeros(2, 3)
    with pytest.raises(RuntimeError, match="copy_ broadcasts"):
        x.copy_(fg.ones(1, 2, 3))
    x[...] = fg.ones(1, 2, 3)  # an assignment drops them
    assert x.tolist() == [[1] * 3] * 2
    for write in (
        lambda: x.index_add_(0, fg.tensor([0]), fg.tensor(1.0)),
        lambda: x.index_copy(0, fg.tensor([0]), x.sum()),
    ):
        with pytest.raises(RuntimeError, match="source has 0 dimensions"):
            write()
    with pytest.raises(RuntimeError, match="Number of indices"):
        x.index_reduce(0, fg.tensor([0]), x, "prod")
