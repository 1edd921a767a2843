"""Calls that machine code finishes (callnative): the same tensors, nodes and views as the generated lines, no reference
more or less, and what it has to leave to them."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading

import numpy as np
import pytest
from described import MAKERS, OPS, describe, flat, put

import fusegrad as fg
from fusegrad import callnative, deferred
from fusegrad.tensor import Tensor

if not callnative.load():
    pytest.skip("no machine code on this machine", allow_module_level=True)


def results(op, sample, make, finish, call="fn"):
    """What a call leaves, with ``finish`` of its function replaced where it is given."""
    args, kwargs = put(tuple(sample.args), make), {k: put(v, make) for k, v in sample.kwargs.items()}
    given = [x for x in flat([*args, *kwargs.values()]) if isinstance(x, Tensor)]
    whole = getattr(op, call)
    scope, name = deferred.force(whole).__globals__, "finish" if call == "fn" else "finish_first"
    before = scope.get(name)
    if name in scope and not finish:
        scope[name] = None
    try:
        out = flat([whole(*args, **kwargs)])
    except Exception as e:  # noqa: BLE001  (compared)
        return [(type(e), str(e))]
    finally:
        if name in scope:
            scope[name] = before
    known = [x for t in given for x in (t, t._node, t._view and t._view.base)]
    return [describe(r, known) if isinstance(r, Tensor) else r for r in out]


@pytest.mark.parametrize("how", MAKERS)
def test_as_the_generated_lines(how):
    finished = 0
    for op in OPS:
        for sample in op.samples():
            whole, lines = (results(op, sample, MAKERS[how](), finish) for finish in (True, False))
            assert whole == lines, f"{op.name}{sample.args}{sample.kwargs}"
        finished += callable(op.fn.__globals__.get("finish"))
    assert finished > 200, finished


@pytest.mark.parametrize("how", ["leaves", "first", "parameters"])
def test_without_grad_mode(how):
    for op in OPS:
        for sample in op.samples():
            with fg.no_grad():
                whole, lines = (results(op, sample, MAKERS[how](), finish) for finish in (True, False))
            assert whole == lines, f"{op.name}{sample.args}{sample.kwargs}"


@pytest.mark.parametrize("how", MAKERS)
def test_first_result_alone(how):
    finished = 0
    for op in OPS:
        for sample in op.samples() if op.n_out > 1 else ():
            whole, lines = (results(op, sample, MAKERS[how](), finish, "first") for finish in (True, False))
            assert whole == lines, f"{op.name}{sample.args}{sample.kwargs}"
            finished += callable(op.first.__globals__.get("finish_first"))
    assert finished > 20, finished


def finish_of(op_name: str):
    fn = fg.op.TABLE[op_name].fn
    x = fg.ones(3)
    fn(x, x) if len(fn.op.sig.tensors) == 2 else fn(x)
    return fn.__globals__["finish"]


def test_what_is_left_to_the_lines():
    """None, and nothing changed, for each thing that is not usual."""
    finish, r = finish_of("mul"), np.ones(3, np.float32)
    x, plain = fg.ones(3, requires_grad=True), fg.ones(3)
    assert type(finish(r, {}, x, plain)) is Tensor
    assert finish(r, None, x, plain) is None  # no attributes for the node
    assert finish(r, {}, x) is None and finish(r, {}, x, x, x) is None
    assert finish(np.float32(1), {}, x, x) is None and finish([1], {}, x, x) is None
    with fg.no_grad():
        assert finish(r, {}, x, plain)._node is None is finish(r, {}, plain, plain)._node
        with fg.enable_grad():
            assert finish(r, {}, x, plain)._node is not None
    marked = fg.ones(3, requires_grad=True)
    marked.register_hook(lambda g: g)
    assert marked._extra is not None
    assert finish(r, {}, marked, x) is None  # kept by the rule of x
    base = fg.ones(3, requires_grad=True) * 1
    view = base[:]
    assert type(finish(r, {}, view, x)) is Tensor
    base.mul_(2)
    assert finish(r, {}, view, x) is None
    late = fg.ones(3)
    part = late[:]
    assert type(finish(r, {}, part, part)) is Tensor
    late.requires_grad_()
    assert finish(r, {}, part, part) is None
    assert finish(r, {}, plain.data, x) is None  # a storage that stands for another one
    seen = []
    fg.func.grad(lambda t: (seen.append(finish(r, {}, plain, plain)), t.sum())[1])(fg.ones(3))
    assert seen == [None]


def test_other_threads_without_grad_mode():
    """A thread in no_grad sends the others to the lines, which ask the mode of the thread they run in."""
    x, started, end = fg.ones(3, requires_grad=True), threading.Event(), threading.Event()

    def run():
        with fg.no_grad():
            started.set()
            end.wait()

    other = threading.Thread(target=run)
    other.start()
    started.wait()
    assert (x * 2)._node is not None and x[0]._node is not None
    end.set()
    other.join()
    assert (x * 2)._node is not None


CLASS, ROWS = fg.tensor(1), fg.tensor([0, 2])
CALLS = {
    "number": lambda x, y: x * 2.5,
    "tensors": lambda x, y: x * y,
    "result kept": lambda x, y: x.exp(),
    "reduction": lambda x, y: x.sum(),
    "attributes": lambda x, y: x.sum(0, keepdim=True),
    "view": lambda x, y: x[0],
    "view of view": lambda x, y: x[1:][0],
    "second output": lambda x, y: x.unbind()[1] * y,
    "float64": lambda x, y: x.double() * 2,
    "float64 sum": lambda x, y: x.double().sum(),
    "integers": lambda x, y: x.argmax(),
    "no graph": lambda x, y: x.detach() * y.detach(),
    "two results": lambda x, y: x.max(0),
    "two results, one derivative": lambda x, y: x.sort()[0],
    "first of three": lambda x, y: fg.nn.functional.layer_norm(x, (3,), y),
    "first of two": lambda x, y: fg.nn.functional.cross_entropy(x * y, CLASS),
    "list": lambda x, y: fg.cat([x, y]),
    "tuple": lambda x, y: fg.stack((x, y.detach(), x)),
    "list of outputs": lambda x, y: fg.cat(fg.stack([x, y]).unbind()),
    "index": lambda x, y: x[ROWS],
    "indices": lambda x, y: fg.outer(x, y)[ROWS, ROWS],
    "where": lambda x, y: fg.where(x > 0, x, y),
    "scalar": lambda x, y: x.sum() * y.sum(),
    "left": lambda x, y: 2.0 * x,
}


@pytest.mark.parametrize("name", CALLS)
def test_references(name):
    """Nothing is kept by a call whose result is gone, and nothing is given away."""
    call, x, y = CALLS[name], fg.ones(3, requires_grad=True), fg.ones(3, requires_grad=True)
    shared = [None, True, False, 0, x, y, x._data, y._data, fg.float32, fg.float64, x._st, Tensor, fg.op.TABLE["mul"]]

    def run(n):
        for _ in range(n):
            call(x, y)

    run(20)
    gc.collect()
    objects, before = len(gc.get_objects()), [sys.getrefcount(s) for s in shared]
    run(2000)
    gc.collect()
    after = [sys.getrefcount(s) for s in shared]
    assert max(abs(a - b) for a, b in zip(before, after, strict=True)) < 200, (before, after)
    assert abs(len(gc.get_objects()) - objects) < 200


@pytest.mark.parametrize("name", CALLS)
def test_garbage_collection_at_any_moment(name):
    """Collections in the middle of a call see whole objects; gradients are right."""
    call, x, y = CALLS[name], fg.rand(3, requires_grad=True), fg.rand(3, requires_grad=True)
    threshold = gc.get_threshold()
    wanted = flat([call(x, y)])[0]
    gc.set_threshold(1, 1, 1)
    try:
        for _ in range(50):
            out = flat([call(x, y)])[0]
    finally:
        gc.set_threshold(*threshold)
    assert np.array_equal(out._data, wanted._data)
    assert (out._node is None) == (wanted._node is None)
    if out.requires_grad:
        grads = [fg.autograd.grad(t.sum(), (x, y), allow_unused=True) for t in (out, wanted)]
        for a, b in zip(*grads, strict=True):
            assert (a is None) == (b is None) and (a is None or np.array_equal(a._data, b._data))


def test_loaded_after_some_calls():
    """A short program loads none; a longer one does, and goes on the same."""
    code = """
import sys, fusegrad as fg
from fusegrad import callnative, deferred
x = fg.ones(3, requires_grad=True)
y = x * 2
assert callnative._loaded is None and "llvmlite" not in sys.modules
for _ in range(callnative.AFTER + 5):
    y = x * 2
assert callnative._loaded and y._node.op is fg.op.TABLE["mul"]
y.sum().backward()
print(x.grad.tolist())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[2.0, 2.0, 2.0]\n"


def fixed() -> Tensor:
    a = np.ones(3, np.float32)
    a.flags.writeable = False
    return fg.from_numpy(a)


def base_asks() -> Tensor:
    base = fg.ones(3)
    part = base[:]
    base.requires_grad_()
    return part


UNUSUAL = {
    "asks": lambda: fg.ones(3, requires_grad=True), "base asks": base_asks, "strided": lambda: fg.ones(6)[::2],
    "subclass": lambda: fg.nn.Parameter(fg.ones(3), requires_grad=False), "no tensor": lambda: np.ones(3),
}  # fmt: skip


def test_what_may_be_written():
    """True for plain memories alone; the lines decide about the rest."""
    same, any_dtype = (callnative.bound("writable", x) for x in (True, False))
    x, y = fg.ones(3), fg.ones(3)
    for f in (same, any_dtype):
        assert f(x) is True and f(x, y) is True and f(x, 2.0) is True and f(x[1:], y[1:]) is True
        assert f(x, x[:]) is None and f(x[:], x) is None and f(x, x.detach()) is None and f(x, x.data) is None
        assert f(x, None) is None and f(x, True) is None and f(x, y, 1, [y]) is None and f(fixed()) is None
        for name, make in UNUSUAL.items():
            assert f(make()) is None, name
            assert f(x, make()) is (True if name == "strided" else None), name
    assert same(x, y.long()) is None and any_dtype(x, y.long()) is True
    assert same(x, x) is True and any_dtype(x, x) is None
    marked = fg.ones(3, requires_grad=True)
    marked.register_hook(lambda g: g)
    assert same(marked) is None
    seen = []
    fg.func.grad(lambda t: (seen.append(same(x, y)), t.sum())[1])(fg.ones(3))
    assert seen == [None]


def test_views_of_one_call():
    """chunk, split and unbind as without machine code."""
    split = sys.modules["fusegrad.ops.split"]
    for make in (lambda: fg.ones(4), lambda: fg.ones(4, requires_grad=True) * 1, lambda: fg.ones(2, 4)[0]):
        found = []
        for piece in (split.piece, None):
            before, split.piece = split.piece, piece
            try:
                x = make()
                views = [*x.chunk(2), *x.unbind(), *x[:2].split(1)]
            finally:
                split.piece = before
            known = [x, x._node, x._view and x._view.base]
            found.append([describe(v, known) for v in views])
            views[1].detach().zero_()
            assert {v._version for v in views} == {1}
        assert found[0] == found[1]


MADE = {
    "full": lambda **k: fg.full((2, 3), 1.5, **k),
    "eye": lambda **k: fg.eye(3, **k),
    "linspace": lambda **k: fg.linspace(0, 2, 5, **k),
    "tril_indices": lambda **k: fg.tril_indices(3, 3, **k),
    "triu_indices": lambda **k: fg.triu_indices(3, 4, 1, **k),
}


@pytest.mark.parametrize("name", MADE)
def test_remembered_numbers(name):
    """Every call has a memory of its own, follows the default dtype and its keywords, and is captured by graphs."""
    make = MADE[name]
    first, second, third = make(), make(), make()
    third.zero_()
    assert second.tolist() == first.tolist() == make().tolist() and first._data is not second._data
    assert not any(t.requires_grad for t in (first, second)) and second._version == 0
    assert make(dtype=fg.float64).dtype is fg.float64 and make().dtype is first.dtype
    if first.is_floating_point():
        assert make(requires_grad=True).requires_grad and not make().requires_grad
        fg.set_default_dtype(fg.float64)
        try:
            assert make().dtype is make().dtype is fg.float64
        finally:
            fg.set_default_dtype(fg.float32)
        assert make().dtype is fg.float32
    with fg.inference_mode():
        assert make().is_inference()
    assert fg.compile(lambda: make() * 2)().tolist() == (first * 2).tolist()
    assert fg.vmap(lambda x: x + make().sum())(fg.ones(2)).tolist() == [1 + first.sum().item()] * 2
