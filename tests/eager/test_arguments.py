"""Arguments of the wrong type, generated from the signatures: refused with PyTorch's class, and nothing is changed."""

from __future__ import annotations

import enum
import inspect
from typing import Any

import numpy as np
import op_samples as S
import pytest

import fusegrad as fg
from fusegrad.bind import functions
from fusegrad.deferred import force
from fusegrad.op import FUNCTIONS, TABLE, parse_signature

X = np.linspace(0.1, 0.9, 6, dtype=np.float32).reshape(2, 3)


class Zero(enum.IntEnum):
    ZERO = 0


def matrix(**kw: Any) -> fg.Tensor:
    return fg.tensor(X, **kw)


WRONG: dict[str, list[Any]] = {
    "T": [1, "a", None, [1.0], np.ones(2)],
    "Tn": ["a", [1.0], object()],
    "T[]": [1, "a", [1], "generator", "tensor"],
    "int": [1.0, True, "a", [1], "vector", np.float32(1), np.True_],
    "dim": [1.0, True, "a", "vector"],
    "dim+1": [1.0, True, "a", "vector"],
    "float": ["a", [1.0], "vector", "needs gradient"],
    "num": ["a", [1.0], "vector", "needs gradient"],
    "bool": [0, 1.0, "a", "vector", np.True_],
    "str": [1, 1.0, [1]],
    "dtype": ["float32", 1, "vector"],
    "dims": [1.5, "a", "vector", (0, 1.5)],
    "ints": [1.5, "a", "vector", (1, 1.5)],
}


def made(value: Any) -> Any:
    """Values that are made anew for each call."""
    if isinstance(value, str):
        return {
            "vector": lambda: matrix(),
            "tensor": lambda: matrix(),
            "needs gradient": lambda: fg.tensor(1.0, requires_grad=True),
            "generator": lambda: (x for x in (matrix(), matrix())),
        }.get(value, lambda: value)()
    return value


def wrong_calls(fn: Any, sig: Any, sample: Any) -> Any:
    """(parameter, value, call) for every parameter of ``sig`` that ``fn`` takes, each with one wrong argument."""
    names = inspect.signature(force(fn)).parameters
    args, kwargs = S.call(sample[0], sample[1])
    bound = inspect.signature(force(fn)).bind(*args, **kwargs)
    for p in sig.params if not any(n[0] == "_" for n in names) else ():  # not those with a shape as varargs
        if p.name not in names or names[p.name].kind is inspect.Parameter.VAR_POSITIONAL:
            continue
        for value in WRONG.get(p.type, []):
            if value is None and (p.optional or names[p.name].default is None):
                continue
            given = dict(bound.arguments)
            given.pop("kw", None)
            yield p, value, given


TABLE_OPS = [op for op in S.ops() if op.function and "." not in op.name and op.name[0] != "_"]


@pytest.mark.parametrize("op", TABLE_OPS, ids=lambda o: o.name)
def test_operators_refuse_wrong_types(op: Any) -> None:
    """Every parameter of every public operator: TypeError with the parameter's name, and the inputs are as before."""
    for p, value, given in wrong_calls(op.fn, op.sig, (op, S.samples(op)[0])):
        if p.type == "T" and op.kind == "pointwise" and isinstance(value, (int, np.ndarray)):
            continue  # numpy's arrays
        before = [(t, t._version, t.detach().clone()) for t in S.tensors(list(given.values()))]
        given[p.name] = made(value)
        with pytest.raises((TypeError, fg.errors.DataDependentError)) as e:
            op.fn(**given)
        assert p.name in str(e.value), f"{p.name}={value!r}: {e.value}"
        for t, version, old in before:
            assert t._version == version and fg.equal(t.detach().nan_to_num(), old.nan_to_num())


def declared() -> list[tuple[str, Any]]:
    found = []
    for f in FUNCTIONS.values():
        if f.types:
            found += [(n, f) for n in (f.name, *f.names)]
    return found


DECLARED = declared()


@pytest.mark.parametrize("name,f", DECLARED, ids=[n for n, _ in DECLARED])
def test_signatures_fit(name: str, f: Any) -> None:
    """A function's signature names parameters that it has, and the layers around it can be made."""
    names = set(inspect.signature(f.fn).parameters)
    assert {p.name for p in parse_signature(f.types).params} <= names
    if f.function:
        assert callable(force(functions()[name]))
    if f.method and "." not in name:
        assert callable(force(getattr(fg.Tensor, name)))


TENSOR_FIRST = [
    (n, f) for n, f in DECLARED if f.function and parse_signature(f.types).params[0].type == "T" and not n.endswith("_")
]


@pytest.mark.parametrize("name,f", TENSOR_FIRST, ids=[n for n, _ in TENSOR_FIRST])
@pytest.mark.parametrize("value", [1, "a", None], ids=str)
def test_functions_refuse_what_is_no_tensor(name: str, f: Any, value: Any) -> None:
    """All of the other arguments are right; the first one is no tensor."""
    fill: dict[str, Any] = {
        "T": lambda: matrix(),
        "Tn": lambda: matrix(),
        "T[]": lambda: [matrix()],
        "float": lambda: 0.5,
        "bool": lambda: False,
        "str": lambda: "mean",
        "dtype": lambda: fg.float32,
    }
    types = {p.name: p.type for p in parse_signature(f.types).params}
    args, first = [], True
    for p in inspect.signature(f.fn).parameters.values():
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD, p.KEYWORD_ONLY) or (p.default is not p.empty and not first):
            break
        args.append(value if first else fill.get(types.get(p.name, ""), lambda: 1)())
        first = False
    with pytest.raises(TypeError):
        functions()[name](*args)


def test_what_stands_for_a_number() -> None:
    x = matrix()
    for one in (1, np.int64(1), fg.tensor(1), fg.tensor([1])):
        assert x.topk(one)[0].shape == (2, 1)
    for zero in (0, np.int64(0), fg.tensor(0), Zero.ZERO):
        assert x.sum(zero).shape == (3,) and x.softmax(zero).shape == (2, 3)
    for half in (0.5, np.float64(0.5), np.float32(0.5), fg.tensor(0.5)):
        want = np.where(X > 0.5, X, 0)
        np.testing.assert_array_equal(fg.nn.functional.hardshrink(x, half).numpy(), want)
    assert x.view(fg.tensor(3), np.int64(2)).shape == (3, 2)
    assert x.sum(fg.tensor(1)).shape == (2,) and fg.amax(x, None).item() == X.max()


CALLS: list[tuple[str, Any, type[Exception], str]] = [
    ("dot missing", lambda x: fg.dot(x[0]), TypeError, "missing 1 required positional argument: 'tensor'"),
    (
        "data",
        lambda x: x.add_(np.ma.ones(3)),
        TypeError,
        r"add_\(\): argument 'other' .* must be Tensor, not MaskedArray",
    ),
    ("dot number", lambda x: fg.dot(x[0], 1), TypeError, r"argument 'tensor' \(position 2\) must be Tensor, not int"),
    ("method", lambda x: x[0].dot(1), TypeError, r"argument 'tensor' \(position 1\) must be Tensor, not int"),
    ("keepdim", lambda x: fg.sum(x, 9, 1), TypeError, r"sum\(\): argument 'keepdim' \(position 3\) must be bool"),
    ("name", lambda x: fg.sum(x, 0, True, 1, 2), TypeError, r"^sum\(\) takes"),
    ("keyword", lambda x: fg.cumsum(x, foo=1), TypeError, r"^cumsum\(\)"),
    ("flip", lambda x: fg.flip(x), TypeError, "missing 1 required positional argument: 'dims'"),
    ("size", lambda x: x.new_ones(), TypeError, r"new_ones\(\) missing 1 required positional argument: 'size'"),
    ("zeros", lambda x: fg.zeros(x), TypeError, "must be tuple of ints"),
    ("float", lambda x: x.float(x), TypeError, "positional"),
    ("cpu", lambda x: x.cpu(x), TypeError, "positional"),
    ("celu", lambda x: fg.celu(x, x), TypeError, "must be Number, not Tensor"),
    ("cdist", lambda x: fg.cdist(x, x, p=x), TypeError, "must be float, not Tensor"),
    ("inner", lambda x: fg.inner(x, 0), TypeError, "must be Tensor, not int"),
    ("dist", lambda x: fg.dist(x, 0), TypeError, "must be Tensor, not int"),
    ("allclose", lambda x: fg.allclose(x, x, rtol=x), TypeError, "'rtol'.* must be float, not Tensor"),
    ("window", lambda x: fg.hann_window(x), TypeError, "must be int, not Tensor"),
    ("all", lambda x: fg.all(x, x), TypeError, "must be tuple of ints, not Tensor"),
    ("clamp mixed", lambda x: x.clamp(0.0, x), TypeError, "both be numbers or both be Tensors"),
    ("complex", lambda x: fg.nn.functional.leaky_relu(x, 1j), RuntimeError, "complex number"),
    ("reshape", lambda x: x.reshape(-2, 3), RuntimeError, "invalid shape dimension -2 at index 0"),
    ("requires_grad_", lambda x: x.requires_grad_("yes"), TypeError, "must be bool, not str"),
    ("requires_grad", lambda x: setattr(x, "requires_grad", 1), RuntimeError, "must be a bool"),
    ("contains", lambda x: "a" in x, RuntimeError, "only supports Tensor or scalar"),
    ("int", lambda x: int(x), ValueError, "only one element tensors"),
    ("slice", lambda x: x[0.5:1], TypeError, "slice indices must be integers"),
    ("lr", lambda x: fg.optim.SGD([x.requires_grad_()], lr="a"), TypeError, "learning rate must be a number"),
    ("can_cast", lambda x: fg.can_cast(x, fg.float32), TypeError, "must be a fusegrad dtype, not Tensor"),
    ("bincount", lambda x: fg.bincount(x[0]), NotImplementedError, "not implemented for float32"),
    ("softmax int", lambda x: x.long().softmax(0), NotImplementedError, "not implemented"),
    ("target", lambda x: fg.nn.functional.cross_entropy(x, None), TypeError, "'target'.* must be Tensor"),
    ("hsplit", lambda x: x.hsplit("a"), TypeError, "must be int, not str"),
    ("type", lambda x: x.type("foo"), ValueError, "invalid type"),
    (
        "conv groups",
        lambda x: fg.nn.functional.conv1d(x[None], x[None], groups=1.5),
        TypeError,
        "must be int, not float",
    ),
    ("cat", lambda x: fg.cat(t for t in (x, x)), TypeError, "tuple of Tensors, not generator"),
    ("stack", lambda x: fg.stack([x, 1]), TypeError, "Tensor"),
]


@pytest.mark.parametrize("call,kind,text", [c[1:] for c in CALLS], ids=[c[0] for c in CALLS])
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_messages(call: Any, kind: type[Exception], text: str, compiled: bool) -> None:
    """The same class and the same words in eager and in compiled code; what was given is as before."""
    x = matrix()
    run = fg.compile(lambda t: call(t)) if compiled else call
    with pytest.raises(kind, match=text) as e:
        run(x)
    if compiled:
        with pytest.raises(kind) as plain:
            call(matrix())
        assert str(plain.value) == str(e.value)
    assert x.grad is None and x._version == 0
    np.testing.assert_array_equal(x.detach().numpy(), X)


def test_both_ways_to_give_several_numbers() -> None:
    x = matrix()
    assert x.broadcast_to(4, 2, 3).shape == x.broadcast_to((4, 2, 3)).shape == (4, 2, 3)
    assert x.count_nonzero(0, 1).item() == 6
    assert [p.shape for p in x.hsplit(1, 2)] == [p.shape for p in x.hsplit([1, 2])] == [(2, 1)] * 3
    assert x[None].squeeze(0, 1).shape == (2, 3)


def test_a_refusal_in_place_changes_nothing() -> None:
    for call in (
        lambda t: t.add_("a"),
        lambda t: t.addmm_(1, 2),
        lambda t: t.masked_fill_(1, 0.0),
        lambda t: t.clamp_(0.0, t),
        lambda t: t.index_add_(0, 1, t),
        lambda t: t.scatter_(0, "a", t),
        lambda t: t.mul_(fg.ones(3, 2, 3)),
    ):
        x = matrix()
        with pytest.raises((TypeError, RuntimeError)):
            call(x)
        assert x._version == 0
        np.testing.assert_array_equal(x.numpy(), X)


def test_every_table_type_is_checked() -> None:
    from fusegrad.arguments import CHECKS, WORDS
    from fusegrad.op import TYPES

    assert set(TYPES) - {"any"} <= set(WORDS) and set(CHECKS) <= set(TYPES)
    assert TABLE
