"""Every operator, compiled for arguments that change: numbers and sizes other than those of the first call.

The samples of the op table give the calls. One compiled function is called with each number of a sample replaced in
turn, and with one size of its tensors replaced; results, gradients and the classes of errors are those of eager code.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import op_samples as samples
import pytest

import fusegrad as fg
from fusegrad.op import FUNCTIONS, TABLE, Sample
from fusegrad.pytree import tree_flatten

# what no program calls: their numbers and sizes must belong together (loops of the compiler's control flow, whose names
# have a dot and which stand in the table once it is imported, would not end for other sizes)
INNER = {"index", "index_backward", "select_backward", "slice_backward", "stop_gradient", "view_update"}
DRAWN = (
    "rand",
    "normal",
    "dropout",
    "bernoulli",
    "multinomial",
    "poisson",
    "binomial",
    "standard_gamma",
    "exponential",
    "empty",
    "uniform",
)


def _entries() -> Iterator[tuple[str, Callable[..., Any]]]:
    for table in (TABLE, FUNCTIONS):
        for name in sorted(table):
            entry = table[name]
            plain = name[0] != "_" and "." not in name and name not in INNER and not any(d in name for d in DRAWN)
            if plain and entry.samples is not None and callable(entry.fn):
                yield f"{name}" if table is TABLE else f"{name} (function)", entry


ENTRIES = dict(_entries())


def _numbers(x: Any, path: tuple = ()) -> Iterator[tuple[tuple, Any]]:
    """Paths of the ints and floats in lists, tuples and dicts, and what stands there."""
    if isinstance(x, (list, tuple)):
        for i, v in enumerate(x):
            yield from _numbers(v, (*path, i))
    elif isinstance(x, dict):
        for k, v in x.items():
            yield from _numbers(v, (*path, k))
    elif type(x) in (int, float):
        yield path, x


def _put(x: Any, path: tuple, value: Any) -> Any:
    if not path:
        return value
    if isinstance(x, dict):
        return {**x, path[0]: _put(x[path[0]], path[1:], value)}
    new = list(x)
    new[path[0]] = _put(new[path[0]], path[1:], value)
    return type(x)(new)


def _run(f: Callable[..., Any], *args: Any) -> Any:
    """Arrays of the results and gradients, or the class of the error."""
    try:
        results = tree_flatten(f(*args))[0]
        found = [r.detach().numpy().copy() if isinstance(r, fg.Tensor) else np.asarray(r) for r in results]
        outs = [r.square().sum() for r in results if isinstance(r, fg.Tensor) and r.requires_grad]
        ins = [t for t in tree_flatten(args)[0] if isinstance(t, fg.Tensor) and t.requires_grad]
        if outs and ins:
            for g in fg.autograd.grad(outs, ins, allow_unused=True):
                found.append(np.zeros(()) if g is None else g.numpy().copy())
        return found
    except Exception as error:
        return type(error)


def _check(f: Callable[..., Any], calls: list[tuple], **options: Any) -> None:
    fg.compiler.reset()
    compiled = fg.compile(f, **options)
    for args in calls:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            want, got = _run(f, *args), _run(compiled, *args)
        assert type(got) is type(want) and (not isinstance(want, type) or got is want), (args, got, want)
        if isinstance(want, list):
            assert len(got) == len(want)
            for a, b in zip(got, want, strict=True):
                assert a.shape == b.shape and a.dtype == b.dtype, args
                np.testing.assert_allclose(a, b, 1e-7, 1e-9, err_msg=str(args))


def _given(sample: Sample, grad: bool = True) -> list[Any]:
    args, kwargs = samples.call(None, sample, np.float64, "contiguous", grad and sample.grad)  # type: ignore[arg-type]
    return [list(args), kwargs]


@pytest.mark.parametrize("name", ENTRIES)
def test_numbers(name: str) -> None:
    fn = ENTRIES[name].fn
    for sample in list(ENTRIES[name].samples())[:2]:
        given = _given(sample)
        for path, v in list(_numbers(given))[:3]:
            values = [v, v + 1, 0, 1, -1, v + 2] if type(v) is int else [v, v * 2, 0.0, 1.0, -1.0, 0.5]
            for dynamic in (None, True):

                def f(given: list, n: Any, path: tuple = path) -> Any:
                    args, kwargs = _put(given, path, n)
                    return fn(*args, **kwargs)

                _check(f, [(given, n) for n in values], dynamic=dynamic)


def _resized(x: Any, size: int, new: int) -> Any:
    """Tensors with every dimension of ``size`` elements made ``new`` long: elements come again, or are left out."""
    if isinstance(x, fg.Tensor):
        a = x.detach().numpy()
        for dim, n in enumerate(a.shape):
            if n == size:
                a = np.take(a, np.arange(new) % max(n, 1), dim)
        t = fg.from_numpy(np.ascontiguousarray(a) if a.ndim else a.copy())
        return t.requires_grad_() if x.requires_grad else t
    if isinstance(x, dict):
        return {k: _resized(v, size, new) for k, v in x.items()}
    return type(x)(_resized(v, size, new) for v in x) if isinstance(x, (list, tuple)) else x


@pytest.mark.parametrize("name", ENTRIES)
def test_sizes(name: str) -> None:
    fn = ENTRIES[name].fn
    for sample in list(ENTRIES[name].samples())[:2]:
        given = _given(sample)
        shapes = [t.shape for t in tree_flatten(given)[0] if isinstance(t, fg.Tensor)]
        for size in sorted({n for shape in shapes for n in shape if n > 1})[:2]:
            f = lambda given: fn(*given[0], **given[1])
            _check(f, [(_resized(given, size, n),) for n in (size, size + 1, size + 2, 0, 1, 2)])
