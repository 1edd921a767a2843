"""Generated from the op table: compiled against eager, values and gradients; exported against eager."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import op_samples as S
import pytest

import fusegrad as fg
from fusegrad.op import FUNCTIONS, Op

OPS = [op for op in S.ops() if op.kind != "create" and "empty" not in op.name]
TOL = {np.float32: 2e-5, np.float64: 1e-9}


def pieces(op: Op, sample: Any, dtype: Any, layout: str, grad: bool) -> tuple[list, Any]:
    """(tensors, function of the tensors) of one sample call."""
    args, kwargs = S.call(op, sample, dtype, layout, grad=grad)
    flat, spec = fg.pytree.tree_flatten((args, kwargs))
    places = [i for i, t in enumerate(flat) if isinstance(t, fg.Tensor)]
    fn = op.fn

    def f(*tensors):
        full = list(flat)
        for i, t in zip(places, tensors, strict=True):
            full[i] = t
        a, k = fg.pytree.tree_unflatten(full, spec)
        return fn(*a, **k)

    return [flat[i] for i in places], f


def outcome(f: Any, tensors: list, grad: bool) -> list:
    """Outputs and gradients from a fixed seed, or the class of the error."""
    fg.manual_seed(5)
    try:
        outs = S.tensors(f(*tensors))
    except Exception as e:  # noqa: BLE001  (the class is compared)
        return [type(e).__name__]
    outs += [str(steps(o)) for o in outs]
    live = [o for o in outs if not isinstance(o, str) and o.requires_grad]
    wrt = [t for t in tensors if t.requires_grad]
    if not grad or not live or not wrt:
        return outs
    rng = np.random.default_rng(3)
    cots = [fg.from_numpy(rng.standard_normal(tuple(o.shape)).astype(o.dtype.np)) for o in live]
    try:
        return outs + list(fg.autograd.grad(live, wrt, cots, allow_unused=True))
    except RuntimeError as e:  # an operator without a derivative: both refuse alike
        return [*outs, type(e).__name__]


def steps(t: Any) -> tuple:
    """Strides that mean something."""
    return tuple(st for s, st in zip(t.shape, t.stride(), strict=True) if s > 1) if t.numel() else ()


def compare(op: Op, got: list, want: list, tol: float, what: str) -> None:
    assert len(got) == len(want), f"{what}: {got} against {want}"
    for g, w in zip(got, want, strict=True):
        if isinstance(w, str) or w is None:
            assert g == w or (g is None and w is None), f"{what}: {g} against {w}"
        else:
            S.close(g, w, tol, f"{op.name} {what}")


@pytest.mark.parametrize("op", OPS, ids=lambda o: o.name)
def test_compiled_against_eager(op: Op) -> None:
    for i, sample in enumerate(S.samples(op)[:3]):
        grad = bool(op.rules) and sample.grad
        for dtype, layout in ((np.float32, "contiguous"), (np.float64, "transposed"), (np.float32, "negative"))[
            : 3 if i == 0 else 1
        ]:
            tensors, f = pieces(op, sample, dtype, layout, grad)
            fg.compiler.reset()
            want = outcome(f, tensors, grad)
            got = outcome(fg.compile(f), tensors, grad)
            compare(op, got, want, TOL[dtype], f"sample {i} {layout} {np.dtype(dtype).name}")


@pytest.mark.parametrize("op", [o for o in OPS if o.kind == "pointwise"], ids=lambda o: o.name)
@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3)], ids=str)
def test_compiled_odd_shapes(op: Op, shape: tuple) -> None:
    sample = S.samples(op)[0]

    def shaped(x):
        return np.resize(x, shape) if isinstance(x, np.ndarray) else x

    sample = fg.op.Sample(*(shaped(a) for a in sample.args), **{k: shaped(v) for k, v in sample.kwargs.items()})
    tensors, f = pieces(op, sample, np.float32, "contiguous", bool(op.rules))
    compare(op, outcome(fg.compile(f), tensors, bool(op.rules)), outcome(f, tensors, bool(op.rules)), 2e-5, str(shape))


@pytest.mark.parametrize(
    "op",
    [o for o in OPS if o.kind in ("pointwise", "reduce") and (o.function or o.method) and o.name not in FUNCTIONS],
    ids=lambda o: o.name,
)
@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint8, np.bool_], ids=lambda k: k.__name__)
def test_compiled_integers_and_bools(op: Op, kind: Any) -> None:
    """Integer and bool inputs: the same values, dtypes and refusals as eager."""
    sample = S.samples(op)[0]

    def whole(x):
        return (
            np.clip(np.round(x * 3), -9, 9).astype(kind)
            if S.is_float(x) and kind != np.uint8
            else np.round(np.abs(x) * 3).astype(kind)
            if S.is_float(x)
            else x
        )

    sample = fg.op.Sample(*(whole(a) for a in sample.args), **{k: whole(v) for k, v in sample.kwargs.items()})
    tensors, f = pieces(op, sample, np.float32, "contiguous", False)
    if not tensors:
        pytest.skip("no tensors")
    compare(op, outcome(fg.compile(f), tensors, False), outcome(f, tensors, False), 2e-5, kind.__name__)


@pytest.mark.parametrize("op", OPS, ids=lambda o: o.name)
def test_export_round_trip(op: Op, tmp_path: Any) -> None:
    if op.kind == "random" or op.fields.get("draws"):
        pytest.skip("random numbers: tested with compile")
    if op.name.startswith("control."):
        pytest.skip("its graphs fix the dtypes of the samples: tests/control")
    for i, sample in enumerate(S.samples(op)[:1]):
        tensors, f = pieces(op, sample, np.float32, "contiguous", False)
        if not tensors:
            continue
        try:
            want = S.tensors(f(*tensors))
            program = fg.export.export(f, tuple(tensors))
        except fg.errors.DataDependentError:
            assert op.meta is None or op.kind == "extern", f"{op.name} refused though its shape does not depend on data"
            continue
        path = os.path.join(tmp_path, f"{i}.fgx")
        fg.export.save(program, path)
        got = S.tensors(fg.export.load(path).module()(*tensors))
        compare(op, got, want, 2e-5, f"sample {i}")


def test_decomposition_against_kernel() -> None:
    tested = 0
    for op in S.ops():
        if op.decompose is None or op.kind in ("random",) or op.fields.get("draws"):
            continue
        for sample in S.samples(op)[:3]:
            args, kwargs = S.call(op, sample, np.float64)
            values = bound(op, args, kwargs)
            want = S.tensors(op(*args, **kwargs))
            attrs = {p.name: values[p.name] for p in op.sig.attrs}
            got = S.tensors(op.decompose(*(values[p.name] for p in op.sig.tensors), **attrs))
            compare(op, got, want, 1e-9, "decomposition")
            tested += 1
    assert tested > 20


def bound(op: Op, args: tuple, kwargs: dict) -> dict:
    """The call's arguments by name, attributes in canonical form: caught on their way to the dispatcher."""
    import inspect

    sig = inspect.signature(op.fn)
    b = sig.bind(*args, **kwargs)
    b.apply_defaults()
    caught: dict = {}
    scope = op.fn.__globals__
    before = scope["_dispatch"]

    def catch(o, tensors, attrs):
        caught.update(dict(zip((p.name for p in o.sig.tensors), tensors, strict=True)), **attrs)
        return None

    scope["_dispatch"] = catch
    try:
        op.fn(*args, **kwargs)
        if not caught:  # the fast path answered: no attributes there
            caught.update(b.arguments)
    finally:
        scope["_dispatch"] = before
    return caught
