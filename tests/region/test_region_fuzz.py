"""Random programs with views, in-place changes, aliases and grad modes: a region does what eager does.

Compared are results, layout, sharing of memory, mutated inputs, gradients and second derivatives, or the class of the
exception.
"""

from __future__ import annotations

import os
import warnings

import numpy as np
import pytest
from fusegrad.compiler.tracer import trace_region
from networks import Network

import fusegrad as fg
from fusegrad.meta import Meta
from fusegrad.sizes import SizeContext
from fusegrad.tensor import Tensor, wrap

COUNT = int(os.environ.get("FUSEGRAD_FUZZ", "150"))
START = int(os.environ.get("FUSEGRAD_FUZZ_START", "0"))


class Program:
    """A random program; ``run`` interprets it on any tensors, real or of a graph."""

    def __init__(self, seed):
        self.rng = rng = np.random.default_rng(seed)
        self.shapes = [tuple(rng.integers(1, 5, rng.integers(1, 4))) for _ in range(2)]
        self.kinds = [rng.choice(["leaf", "node", "plain"], p=[0.35, 0.25, 0.4]) for _ in range(3)]
        self.input_shapes = [self.shapes[rng.integers(2)] for _ in range(3)]
        self.steps = [(rng.integers(0, 1 << 30), rng.random()) for _ in range(rng.integers(2, 12))]
        self.pick = rng.integers(0, 1 << 30)

    def inputs(self):
        made = []
        for i, (shape, kind) in enumerate(zip(self.input_shapes, self.kinds, strict=True)):
            data = np.random.default_rng(i + 5).uniform(0.5, 1.5, shape).astype(np.float64)
            t = wrap(data)
            if kind != "plain":
                t._rg = True
            made.append((t, t * 1.0 if kind == "node" else t))
        return [leaf for leaf, _ in made], [t for _, t in made]

    def run(self, *inputs):
        values = list(inputs)
        for seed, coin in self.steps:
            rng = np.random.default_rng(seed)
            x = values[rng.integers(len(values))]
            if coin < 0.3:
                values.append(view(rng, x))
            elif coin < 0.55:
                change(rng, x, values)
            elif coin < 0.6:
                with fg.no_grad():
                    values.append(pure(rng, x, values))
            elif coin < 0.65:
                values.append(x.detach())
            else:
                values.append(pure(rng, x, values))
        rng = np.random.default_rng(self.pick)
        count = int(rng.integers(1, 4))
        chosen = [values[i] for i in rng.integers(0, len(values), count)]
        return tuple(chosen)


def view(rng, x):
    n = x.ndim
    d = int(rng.integers(n)) if n else 0
    k = rng.integers(7)
    if k == 0 and n > 1:
        return x.transpose(d, int(rng.integers(n)))
    if k == 1 and n:
        return x.select(d, int(rng.integers(x.shape[d])))
    if k == 2 and n:
        return x[(slice(None),) * d + (slice(int(rng.integers(x.shape[d])), None),)]
    if k == 3:
        return x.unsqueeze(d)
    if k == 4:
        return x.reshape(-1)
    if k == 5 and n:
        return x[(slice(None),) * d + (slice(None, None, 2),)]
    return x.view(x.shape)


def partner(rng, x, values):
    same = [v for v in values if tuple(v.shape) == tuple(x.shape)]
    return same[rng.integers(len(same))]


def pure(rng, x, values):
    k = rng.integers(16)
    if k >= 9:
        return richer(k, x, values, rng)
    if k == 0:
        return x * partner(rng, x, values)
    if k == 1:
        return x + partner(rng, x, values) * 0.5
    if k == 2:
        return x.sin()
    if k == 3:
        return x.sum(0, keepdim=True) * 0.1 if x.ndim else x * 2
    if k == 4:
        return x.clone()
    if k == 5:
        return (x * 0.3).exp()
    if k == 6:
        return x.mean() + x
    if k == 7:
        return fg.where(x > 0.9, x, partner(rng, x, values))
    return x.tanh()


def richer(k, x, values, rng):
    """Operators with rows, products, draws, gathers."""
    if k == 9 and x.ndim:
        return x.softmax(int(rng.integers(x.ndim)))
    if k == 10 and x.ndim == 2:
        return x @ x.transpose(0, 1)
    if k == 11:
        return fg.nn.functional.dropout(x, 0.3)
    if k == 12:
        return x * fg.rand_like(x)
    if k == 13 and x.ndim:
        return fg.cat([x, partner(rng, x, values)], int(rng.integers(x.ndim)))
    if k == 14 and x.ndim:
        return x.amax(int(rng.integers(x.ndim)), keepdim=True)
    if k == 15 and x.ndim:
        return fg.nn.functional.layer_norm(x, tuple(x.shape[-1:]))
    return x * 0.5 - 1


def change(rng, x, values):
    k = rng.integers(6)
    if k == 0:
        x.mul_(0.9)
    elif k == 1:
        x.add_(partner(rng, x, values), alpha=0.5)
    elif k == 2:
        x.copy_(partner(rng, x, values))
    elif k == 3:
        x.sigmoid_()
    elif k == 4:
        with fg.no_grad():
            x.mul_(1.1)
    elif x.ndim:
        x[0] = 0.7


def attempt(f):
    """(result, exception)."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return f(), None
    except Exception as e:
        return None, e


def shares(a, b):
    return np.shares_memory(a.numpy(force=True), b.numpy(force=True))


def same(a, b, what):
    np.testing.assert_allclose(a.numpy(force=True), b.numpy(force=True), rtol=1e-9, atol=1e-10, err_msg=what)


def backward(outs, leaves, order):
    roots = [o for o in outs if isinstance(o, Tensor) and o.requires_grad]
    wrt = [t for t in leaves if t.requires_grad and t.is_leaf]  # not inputs that a change gave a history
    if not roots or not wrt:
        return []
    loss = sum((o * (i + 1)).sum() for i, o in enumerate(roots))
    first = fg.autograd.grad(loss, wrt, create_graph=order > 1, allow_unused=True)
    if order == 1:
        return list(first)
    total = [(g * g).sum() for g in first if g is not None and g.requires_grad]
    if not total:
        return []
    return list(fg.autograd.grad(sum(total), wrt, allow_unused=True))


def symbolic(program):
    """A SizeContext and Metas in which every size of the inputs is a symbol (equal sizes: the same one)."""
    ctx = SizeContext()
    table = {}
    for shape in program.input_shapes:
        for n in shape:
            if n not in table:
                table[n] = ctx.symbol(f"s{n}", int(n))
    return ctx, [Meta(tuple(table[n] for n in shape), fg.float64) for shape in program.input_shapes]


def check(seed, options, sizes=False):
    program = Program(seed)
    leaves, args = program.inputs()
    want, error = attempt(lambda: program.run(*args))
    ctx, metas = symbolic(program) if sizes else (None, None)
    compiled, failed = attempt(
        lambda: trace_region(program.run, *program.inputs()[1], options=options, sizes=ctx, metas=metas)
    )
    if error is not None:
        assert type(failed) is type(error), (error, failed)
        return
    if failed is not None:
        raise failed
    for order in (1, 2):
        leaves, args = program.inputs()
        mine, own = program.inputs()
        fg.manual_seed(seed)
        want = program.run(*args)
        state = fg.default_generator.state
        fg.manual_seed(seed)
        got, failed = attempt(lambda own=own: compiled(*own))
        if failed is not None:
            raise failed
        assert fg.default_generator.state == state
        tensors, theirs = [*own, *got], [*args, *want]
        for i, (a, b) in enumerate(zip(tensors, theirs, strict=True)):
            same(a, b, f"tensor {i}")
            assert a.requires_grad == b.requires_grad, f"requires_grad of tensor {i}"
            assert a.stride() == b.stride() or 1 in a.shape, f"layout of tensor {i}"
        for i in range(len(tensors)):
            for j in range(i):
                assert (tensors[i] is tensors[j]) == (theirs[i] is theirs[j]), (i, j)
                assert shares(tensors[i], tensors[j]) == shares(theirs[i], theirs[j]), f"memory of {i} and {j}"
        grads, error = attempt(lambda theirs=theirs, leaves=leaves, order=order: backward(theirs, leaves, order))
        ours, failed = attempt(lambda tensors=tensors, mine=mine, order=order: backward(tensors, mine, order))
        assert type(failed) is type(error), (error, failed)
        for a, b in zip(ours or [], grads or [], strict=True):
            assert (a is None) == (b is None) or not np.any((a if b is None else b).numpy(force=True))
            if a is not None and b is not None:
                same(a, b, f"gradient of order {order}")


@pytest.mark.parametrize("seed", range(START, START + COUNT))
def test_program(seed):
    check(seed, {"interpret": seed % 5 != 0, "check": True, "cache": False}, sizes=seed % 7 == 0)


@pytest.mark.parametrize("seed", [31, 54, *range(START, START + COUNT // 10)])
def test_network(seed):
    """Layers, their joint gradients cut into a forward and a backward region, and what the forward keeps."""
    network = Network(seed)

    def tensors():
        return [wrap(a.copy()).requires_grad_() for a in network.arrays]

    options = {"cache": False, "check": True, "recompute": seed % 4 != 0}
    compiled = trace_region(network, *tensors(), options=options)
    for _ in range(2):
        mine, theirs = tensors(), tensors()
        got, want = compiled(*mine), network(*theirs)
        ours = fg.autograd.grad(network.loss(got), mine, allow_unused=True)
        grads = fg.autograd.grad(network.loss(want), theirs, allow_unused=True)
        for a, b in zip((*got, *ours), (*want, *grads), strict=True):
            assert (a is None) == (b is None) or not np.any((a if b is None else b).numpy(force=True))
            if a is not None and b is not None:
                np.testing.assert_allclose(a.numpy(force=True), b.numpy(force=True), rtol=1e-7, atol=1e-7)
