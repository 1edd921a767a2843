"""The public operators of the table on tensors without dimensions, without elements and of one element, in every dtype.

The samples of the table have ordinary shapes: here their tensors are replaced by odd ones of one shape, and their
dimensions by the first and the last. What comes out is numpy's result, or an error that says what is wrong; the graph's
rule for shapes agrees; a backward pass gives gradients of the inputs' shapes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import op_samples as S
import pytest

import fusegrad as fg
from fusegrad.op import FUNCTIONS, Op, Sample

SHAPES = [(), (0,), (1,), (1, 1), (0, 3), (2, 0, 3)]
SAID = (RuntimeError, IndexError, ValueError)  # NotImplementedError is a RuntimeError
OPS = [
    op
    for op in S.ops()
    if op.sig.tensors
    and op.kind != "random"
    and not op.fields.get("draws")
    and (op.function or op.method or op.dunder or op.name in FUNCTIONS or op.kind in ("pointwise", "reduce"))
    and op.sig.params[0].name != "grad"
    and op.name[0] != "_"
    and not op.name.startswith(("control.", "empty"))
]


def odd(op: Op, shape: tuple, dim: int, dtype: Any = None) -> Sample:
    """The operator's first sample with tensors of ``shape`` (in ``dtype``, if they are floating point)."""
    sample = S.samples(op)[0]
    types = {p.name: p.type for p in op.sig.params}

    def changed(name: str, x: Any) -> Any:
        kind = types[name]
        if isinstance(x, (list, tuple)) and any(isinstance(v, np.ndarray) for v in x):
            return type(x)(changed(name, v) for v in x)
        if isinstance(x, np.ndarray):
            a = np.resize(x, shape) if x.size else np.ones(shape, x.dtype)
            return a.astype(dtype) if dtype is not None and x.dtype.kind == "f" else a
        if kind in ("dim", "dim+1") and x is not None:
            return dim
        return (dim,) if kind == "dims" and x not in (None, ()) else x

    given = dict(zip([p.name for p in op.sig.params], sample.args, strict=False)) | sample.kwargs
    return Sample(**{k: changed(k, v) for k, v in given.items()})


UNDEFINED = {"floor_divide", "heaviside", "igamma", "igammac"}
"""Operators that refuse a backward pass to an operand (see test_rules_more, test_rules_refused)."""


def outcome(call: Any) -> Any:
    """The results as a list, or the class of the error, which must say what is wrong."""
    try:
        r = call()
    except SAID as e:
        assert str(e), "an error without words"
        return type(e)
    return list(r) if isinstance(r, (tuple, list)) else [r]


@pytest.mark.parametrize("op", OPS, ids=lambda o: o.name)
def test_values_and_gradients(op: Op) -> None:
    """numpy's values in float32; gradients have the inputs' shapes."""
    for shape in SHAPES:
        for dim in (0, -1):
            sample = odd(op, shape, dim)
            args, kwargs = S.call(op, sample, np.float32, grad=not UNDEFINED & {op.name})
            got = outcome(lambda a=args, k=kwargs: op(*a, **k))
            if isinstance(got, type):
                continue
            what = f"{op.name} {shape} dim {dim}"
            leaves = [t for t in S.tensors([args, kwargs]) if t.requires_grad]
            roots = [g for g in got if g.requires_grad]
            if roots:
                found = fg.autograd.grad(sum(r.sum() for r in roots), leaves, allow_unused=True)
                for leaf, g in zip(leaves, found, strict=True):
                    assert g is None or (g.shape == leaf.shape and g.dtype is leaf.dtype), what
            if op.ref is None:
                continue
            plain = {k: S.plain(v) for k, v in kwargs.items()}
            try:
                with np.errstate(all="ignore"):
                    want = op.ref(*[S.plain(a) for a in args], **plain)
            except Exception:  # the reference was written for ordinary shapes
                continue
            for g, w in zip(got, want if isinstance(want, (tuple, list)) else [want], strict=True):
                a, w = g.detach().numpy(), np.asarray(w)
                assert a.shape == w.shape, f"{what}: shape {a.shape}, numpy {w.shape}"
                np.testing.assert_allclose(a.astype(float), w.astype(float), rtol=2e-5, atol=2e-5, err_msg=what)


@pytest.mark.parametrize("op", OPS, ids=lambda o: o.name)
def test_every_dtype_computes_or_says_why(op: Op) -> None:
    """In every dtype: a result of the shape that float64 has, or an error of PyTorch's kinds."""
    for shape in ((), (0, 3), (1, 1)):
        shapes = None
        for dtype in ("float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool"):
            args, kwargs = S.call(op, odd(op, shape, 0), getattr(np, dtype if dtype != "bool" else "bool_"))
            got = outcome(lambda a=args, k=kwargs: op(*a, **k))
            if isinstance(got, list):
                found = [tuple(g.shape) for g in got]
                assert shapes is None or found == shapes, f"{shape} {dtype}"
                shapes = found


@pytest.mark.parametrize("op", OPS, ids=lambda o: o.name)
def test_graphs_agree(op: Op) -> None:
    """The rule for shapes gives what the kernel gives, errors as well."""
    from fusegrad.compiler.tracer import trace

    for shape in SHAPES:
        args, kwargs = S.call(op, odd(op, shape, 0), np.float32)
        got = outcome(lambda a=args, k=kwargs: op(*a, **k))
        seen = outcome(lambda a=args, k=kwargs: trace(lambda *b, **c: op(*b, **c), a, k).outputs)
        if isinstance(got, type):
            continue  # what depends on values is refused when the graph runs
        assert isinstance(seen, list), f"{shape}: computed, but as a graph {seen.__name__}"
        for g, s in zip(got, seen, strict=True):
            assert tuple(g.shape) == tuple(s.shape) and g.dtype is s.dtype, f"{shape}: {s.shape} {s.dtype}"


def test_moved_scalars_stay_scalars():
    x = fg.tensor(3.0, requires_grad=True)
    for y, shape in ((fg.roll(x, 1), ()), (x.repeat(1), (1,)), (fg.tile(x, ()), ()), (x.repeat_interleave(2), (2,))):
        assert y.shape == shape
        assert fg.autograd.grad(y.sum(), x)[0].shape == ()


F = fg.nn.functional
BATCHES = {
    **{
        f"adaptive_max_pool{d}d": (lambda x, d=d: getattr(F, f"adaptive_max_pool{d}d")(x, 2), d, (2,) * d)
        for d in (1, 2, 3)
    },
    **{f"max_pool{d}d": (lambda x, d=d: getattr(F, f"max_pool{d}d")(x, 2, 1, 1, 2), d, (4,) * d) for d in (1, 2, 3)},
    **{
        f"max_unpool{d}d": (
            lambda x, d=d: getattr(F, f"max_unpool{d}d")(*getattr(F, f"max_pool{d}d")(x, 2, return_indices=True), 2),
            d,
            (4,) * d,
        )
        for d in (1, 2, 3)
    },
    **{
        f"grid_sample {mode}": (lambda x, m=mode: F.grid_sample(x, fg.zeros(len(x), 2, 3, 2), m), 2, (2, 3))
        for mode in ("bilinear", "nearest", "bicubic")
    },
    "grid_sample of volumes": (lambda x: F.grid_sample(x, fg.zeros(len(x), 2, 3, 2, 3)), 3, (2, 3, 2)),
    "interpolate": (lambda x: F.interpolate(x, scale_factor=2), 2, (8, 8)),
    "fold": (lambda x: F.fold(F.unfold(x, 2), (4, 4), 2), 2, (4, 4)),
}


@pytest.mark.filterwarnings("ignore:Default grid_sample")
@pytest.mark.parametrize("name", BATCHES)
def test_batches_of_no_images(name: str) -> None:
    f, d, sizes = BATCHES[name]
    for run in (f, fg.compile(f)):
        x = fg.zeros(0, 2, *[4] * d, requires_grad=True)
        y = run(x)
        assert y.shape == (0, 2, *sizes)
        y.sum().backward()
        assert x.grad.shape == x.shape
    assert f(fg.rand(1, 2, *[4] * d)).shape == (1, 2, *sizes)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic", "linear", "trilinear"])
@pytest.mark.parametrize("shape", [(), (3,), (3, 3), (2, 3, 3, 3, 3, 3)])
def test_interpolate_refuses_what_is_no_image(shape: tuple, mode: str) -> None:
    """Two dimensions were taken for an image without a batch and channels."""
    for size in ({"scale_factor": 2}, {"size": 4}, {"size": (4, 4)}, {"scale_factor": 0.5}):
        with pytest.raises(NotImplementedError, match="Only 3D, 4D and 5D input Tensors supported"):
            F.interpolate(fg.rand(*shape) if shape else fg.tensor(1.0), mode=mode, **size)
