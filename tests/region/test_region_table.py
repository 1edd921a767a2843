"""Every operator of the table compiled: values and gradients agree with eager, for contiguous and strided inputs."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from fusegrad.compiler import region_split, stored
from fusegrad.compiler.ir.builder import GraphBuilder
from fusegrad.compiler.kernel import program
from fusegrad.compiler.options import Options
from fusegrad.compiler.region import build_region

import fusegrad as fg
from fusegrad.handler import active
from fusegrad.native import meter
from fusegrad.op import TABLE
from fusegrad.tensor import Tensor, wrap

NAMES = sorted(name for name, op in TABLE.items() if op.samples is not None and name != "empty")
OPTIONS = {"cache": False, "check": True}


def tensors_of(value, grad):
    if isinstance(value, np.ndarray):
        t = wrap(np.array(value))
        t._rg = grad and value.dtype.kind == "f"
        return t
    if isinstance(value, (list, tuple)):
        return type(value)(tensors_of(v, grad) for v in value)
    return value


def flat(value, out):
    if isinstance(value, Tensor):
        out.append(value)
    elif isinstance(value, (list, tuple)):
        for v in value:
            flat(v, out)
    elif isinstance(value, dict):
        flat(list(value.values()), out)
    return out


def replaced(value, table):
    if isinstance(value, Tensor):
        return table[id(value)]
    if isinstance(value, (list, tuple)):
        return type(value)(replaced(v, table) for v in value)
    if isinstance(value, dict):
        return {k: replaced(v, table) for k, v in value.items()}
    return value


def near(name, got, want):
    assert got.shape == want.shape and got.dtype == want.dtype, (name, got.shape, got.dtype, want.shape, want.dtype)
    tolerance = {"f8": 1e-10, "f4": 3e-5, "f2": 4e-3}.get(got.dtype.str[1:], 0)
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance, err_msg=name)


def run(name, op, args, kwargs, grad, spread, options=OPTIONS):
    inputs = flat([args, kwargs], [])
    if spread:  # the same numbers in a strided layout
        for t in inputs:
            wide = np.zeros([2 * n for n in t.shape], t._data.dtype)
            view = wide[(..., *(slice(None, None, 2) for _ in t.shape))]
            view[...] = t._data
            t._data = view
    fg.manual_seed(3)
    want = op(*args, **kwargs)
    wants = list(want) if isinstance(want, (list, tuple)) else [want]
    cots = [
        wrap(np.random.default_rng(i).standard_normal(t.shape).astype(t._data.dtype))
        for i, t in enumerate(wants)
        if t.requires_grad
    ]
    roots = [t for t in wants if t.requires_grad]
    leaves = [t for t in inputs if t.requires_grad]
    ref = fg.autograd.grad(roots, leaves, cots, allow_unused=True) if roots else ()
    builder = GraphBuilder("f")
    table = {id(t): builder.new_input(t.meta_(), t.requires_grad) for t in inputs}
    with active(builder):
        out = op(*replaced(args, table), **replaced(kwargs, table))
    outs = list(out) if isinstance(out, (list, tuple)) else [out]
    region = build_region(builder, list(table.values()), outs, name="f", options=options)
    fg.manual_seed(3)
    got = region(*inputs)
    for a, b in zip(got, wants, strict=True):
        near(name, a._data, b._data)
        assert a.requires_grad == b.requires_grad
    roots = [t for t in got if t.requires_grad]
    if roots:
        for a, b in zip(fg.autograd.grad(roots, leaves, cots, allow_unused=True), ref, strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                near(name + " gradient", a._data, b._data)


@pytest.mark.parametrize("spread", [False, True], ids=["contiguous", "strided"])
@pytest.mark.parametrize("name", NAMES)
def test_compiled(name, spread):
    op = TABLE[name]
    if spread and name in ("as_strided", "as_strided_from", "view", "view_dtype"):
        pytest.skip("depends on the layout itself")
    for sample in op.samples():
        args, kwargs = tensors_of(list(sample.args), sample.grad), tensors_of([], False) or dict(sample.kwargs)
        kwargs = {k: tensors_of(v, sample.grad) for k, v in kwargs.items()}
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            run(name, op, args, kwargs, sample.grad, spread)


@pytest.mark.parametrize("name", NAMES)
def test_from_the_disk_cache(name, monkeypatch):
    """The second time nothing is lowered: the program is read, and gives the same values and gradients."""
    sample = next(iter(TABLE[name].samples()))
    if not stored.environment():
        pytest.skip("a source was edited after these tests began: nothing is kept")

    def once():
        args, kwargs = tensors_of(list(sample.args), sample.grad), dict(sample.kwargs)
        kwargs = {k: tensors_of(v, sample.grad) for k, v in kwargs.items()}
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            run(name, TABLE[name], args, kwargs, sample.grad, False, Options())

    once()
    hits = meter.HITS["regions"]
    for used in ("_write", "_make"):
        monkeypatch.setattr(program if used == "_write" else region_split, used, None)
    once()
    assert meter.HITS["regions"] == hits + 1
