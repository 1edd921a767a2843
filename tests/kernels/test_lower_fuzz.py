"""Random programs: fused loops against the interpreter. Seeds of faults found stay in SEEDS."""

from __future__ import annotations

import os

import numpy as np
import pytest
from fusegrad.compiler.ir import interp
from fusegrad.compiler.ir.bind import bind_sizes
from fusegrad.compiler.kernel import emit, products
from fusegrad.compiler.kernel.program import compile_graph
from fusegrad.compiler.passes.decompose import decompose
from fusegrad.compiler.tracer import trace
from graphs import graph_of, same, strided
from networks import Network

import fusegrad as fg
from fusegrad.meta import Meta
from fusegrad.sizes import SizeContext

SEEDS = [109, 145, 181, 197, 343]
NETWORKS = [31, 54, 103]  # wrong while a later phase read what was overwritten
COUNT = int(os.environ.get("FUSEGRAD_FUZZ", "40"))
SIZES = (1, 2, 3, 5)


class Program:
    """A random function of some arrays, replayable on tensors of any kind."""

    def __init__(self, seed):
        self.seed = seed
        rng = np.random.default_rng(seed)
        ndims = rng.integers(0, 4, rng.integers(1, 4))
        self.arrays = [np.asarray(rng.normal(size=[int(rng.choice(SIZES)) for _ in range(n)])) for n in ndims]

    def __call__(self, *inputs):
        rng = np.random.default_rng(self.seed + 1)
        pool = list(inputs)
        for _ in range(rng.integers(3, 25)):
            step = getattr(self, f"_{rng.choice(STEPS)}")
            made = step(rng, pool)
            if made is not None and made.numel() <= 400:
                pool.append(made)
        keep = max(1, int(rng.integers(1, 5)))
        new = pool[len(inputs) :] or pool
        return tuple(new[-1 - int(i)] for i in sorted(set(rng.integers(0, len(new), keep))))

    def pick(self, rng, pool):
        """Recent values are more likely."""
        k = len(pool) - 1 - min(int(rng.exponential(3)), len(pool) - 1)
        return pool[k]

    def _unary(self, rng, pool):
        x = self.pick(rng, pool)
        return [
            lambda: x.tanh(),
            lambda: x * 0.5 + 1,
            lambda: x.abs(),
            lambda: (x * x + 1).sqrt(),
            lambda: x.sigmoid(),
            lambda: -x,
            lambda: x.exp().clamp(max=3.0),
            lambda: (x > 0.1).to(fg.float64),
            lambda: fg.where(x > 0, x, x * 0.1),
        ][rng.integers(9)]()

    def _binary(self, rng, pool):
        x, y = self.pick(rng, pool), self.pick(rng, pool)
        try:
            np.broadcast_shapes(tuple(x.shape), tuple(y.shape))
        except ValueError:
            return None
        return [lambda: x + y, lambda: x * y, lambda: x - y, lambda: x / (y * y + 1), lambda: fg.maximum(x, y)][
            rng.integers(5)
        ]()

    def _reduce(self, rng, pool):
        x = self.pick(rng, pool)
        dims = [d for d in range(x.ndim) if rng.random() < 0.5]
        keep = bool(rng.integers(2))
        if not x.ndim or not dims:
            return x.mean()
        return [
            lambda: x.mean(dims, keepdim=keep),
            lambda: x.sum(dims, keepdim=keep),
            lambda: x.amax(dims, keepdim=keep),
            lambda: x.argmax(dims[0], keepdim=keep).to(fg.float64),
        ][rng.integers(4)]()

    def _normal(self, rng, pool):
        x = self.pick(rng, pool)
        if not x.ndim:
            return None
        d = int(rng.integers(x.ndim))
        if rng.integers(2):
            return fg.nn.functional.softmax(x, d)
        c = x - x.mean(d, keepdim=True)
        return c / ((c * c).mean(d, keepdim=True) + 0.1).sqrt()

    def _view(self, rng, pool):
        x = self.pick(rng, pool)
        n = x.ndim
        if not n:
            return x.reshape((1,))
        d = int(rng.integers(n))
        return [
            lambda: x.transpose(d, int(rng.integers(n))),
            lambda: x.unsqueeze(d),
            lambda: x.reshape(-1),
            lambda: x.flip(d),
            lambda: x.narrow(d, 0, max(1, x.shape[d] // 2)),
            lambda: x.select(d, 0),
            lambda: x[::2],
            lambda: x.squeeze(),
            lambda: x.expand(2, *x.shape),
            lambda: x.reshape(x.shape[d], -1),
        ][rng.integers(10)]()

    def _product(self, rng, pool):
        x = self.pick(rng, pool)
        return x.matmul(x.transpose(-1, -2)) if x.ndim >= 2 else None

    def _join(self, rng, pool):
        x = self.pick(rng, pool)
        return fg.cat([x, x * 2], int(rng.integers(x.ndim))) if x.ndim else fg.stack([x, x + 1])

    def _pick(self, rng, pool):
        x = self.pick(rng, pool)
        if not x.ndim:
            return None
        i = x.argmax(0).reshape(-1)[:2]
        return x[i] if rng.integers(2) else x.index_select(0, i)

    def _cumulate(self, rng, pool):
        x = self.pick(rng, pool)
        return x.cumsum(0) * 0.2 if x.ndim else None


class SymbolicProgram(Program):
    """The same on inputs whose sizes are the symbols B (6) and C (4), or 3; steps that do not fit are left out."""

    def __init__(self, seed):
        super().__init__(seed)
        rng = np.random.default_rng(seed)
        counts = rng.integers(1, 4, int(rng.integers(1, 3)))
        self.shapes = [tuple(["B", "C", 3][int(k)] for k in rng.integers(0, 3, n)) for n in counts]

    def __call__(self, *inputs):
        rng = np.random.default_rng(self.seed + 1)
        pool = list(inputs)
        for _ in range(rng.integers(3, 20)):
            step = getattr(self, f"_{rng.choice(STEPS)}")
            try:
                made = step(rng, pool)
            except (RuntimeError, IndexError, ValueError):
                continue
            if made is not None and made.ndim < 5:
                pool.append(made)
        return tuple(pool[-3:])

    def make(self, values):
        rng = np.random.default_rng(self.seed + 2)
        return [np.asarray(rng.normal(size=[values.get(d, d) for d in shape])) for shape in self.shapes]

    def _binary(self, rng, pool):
        x, y, k = self.pick(rng, pool), self.pick(rng, pool), rng.integers(4)
        return [lambda: x + y, lambda: x * y, lambda: x / (y * y + 1), lambda: fg.maximum(x, y)][k]()


STEPS = (
    ["unary"] * 5
    + ["binary"] * 6
    + ["reduce"] * 3
    + ["normal"] * 2
    + ["view"] * 4
    + ["product", "join", "pick", "cumulate"]
)


@pytest.mark.parametrize("seed", [*SEEDS, *range(COUNT)])
def test_random_program(seed, monkeypatch):
    if seed % 2:
        monkeypatch.setattr(products, "MULTIPLICATIONS", 0)
    program = Program(seed)
    graph = graph_of(program, program.arrays)
    compiled = compile_graph(graph)
    before = [a.copy() for a in program.arrays]
    with np.errstate(all="ignore"):
        want = interp.run(graph, program.arrays)
        got = compiled(*program.arrays)
        same(got, want, 1e-9)
        same(compiled(*[strided(a) for a in program.arrays]), want, 1e-9)
        same(compiled(*program.arrays), want, 1e-9)
    for a, b in zip(program.arrays, before, strict=True):
        np.testing.assert_array_equal(a, b)
    for k, g in enumerate(got):
        assert not any(np.may_share_memory(g, o) for o in (*program.arrays, *got[:k]))


@pytest.mark.parametrize("seed", range(COUNT))
def test_random_update_in_place(seed):
    """Results may take over the memory of inputs; nobody may notice but the owner of that input."""
    program = Program(seed + 10_000)

    def update(*inputs):
        outs = program(*inputs)
        return (*outs, *[(x * 0.9 + outs[0].mean()).reshape(x.shape) for x in inputs])

    graph = graph_of(update, program.arrays)
    count = len(graph.outputs) - len(program.arrays)
    into = {count + i: i for i in range(len(program.arrays))}
    compiled = compile_graph(graph, None, into)
    arrays = [a.copy() for a in program.arrays]
    with np.errstate(all="ignore"):
        want = interp.run(graph, program.arrays)
        got = compiled(*arrays)
    same(got, want, 1e-9)
    taken = [g is a for g, a in zip(got[count:], arrays, strict=True)]
    for mine, old, was_taken in zip(arrays, program.arrays, taken, strict=True):
        if not was_taken:
            np.testing.assert_array_equal(mine, old)
    for k, g in enumerate(got[:count]):
        assert not any(np.may_share_memory(g, o) for o in (*arrays, *got[:k]))


@pytest.mark.parametrize("seed", [*NETWORKS, *range(COUNT // 4)])
@pytest.mark.parametrize("update", [False, True])
def test_random_network(seed, update, monkeypatch):
    """Results, gradients and updated parameters of a network in one graph; updates perhaps in place. Every third one
    passes nothing, or everything, to later phases by computing it again.
    """
    if seed % 3 == 2:
        monkeypatch.setattr(emit, "AGAIN", 1000 * (seed % 2))
        monkeypatch.setattr(emit, "ROW_BYTES", 256)
    network = Network(seed)

    def train(*inputs):
        xs = [x.detach().requires_grad_() for x in inputs]
        outs = network(*xs)
        found = fg.autograd.grad(network.loss(outs), xs, allow_unused=True)
        grads = [fg.zeros_like(x) if g is None else g for x, g in zip(xs, found, strict=True)]
        return (*outs, *([] if update else grads), *(x - 0.1 * g for x, g in zip(xs, grads, strict=True)))

    traced = trace(train, tuple(fg.from_numpy(a.copy()) for a in network.arrays))
    graph, count = traced.builder.graph, len(traced.outputs) - len(network.arrays)
    graph.outputs = [traced.builder.value_of(o) for o in traced.outputs]
    graph = bind_sizes(decompose(graph))
    extra = [t.numpy() for _, t in traced.builder.constants]
    compiled = compile_graph(graph, None, {count + i: i for i in range(len(network.arrays))} if update else None)
    want = interp.run(graph, [*network.arrays, *extra])
    for _ in range(2):
        arrays = [a.copy() for a in network.arrays]
        got = compiled(*arrays, *extra)
        same(got, want, 1e-7)
        for mine, old, new in zip(arrays, network.arrays, got[count:][-len(arrays) :], strict=True):
            assert new is mine and update or np.array_equal(mine, old)


@pytest.mark.parametrize("seed", range(COUNT // 2))
def test_random_program_with_symbolic_sizes(seed):
    program = SymbolicProgram(seed)
    ctx = SizeContext("guard")
    symbols = {"B": ctx.symbol("B", 6), "C": ctx.symbol("C", 4)}
    metas = [Meta(tuple(symbols.get(d, d) for d in shape), fg.float64) for shape in program.shapes]
    graph = graph_of(program, program.make({"B": 6, "C": 4}), metas, ctx)
    guards = list(ctx.guards)
    compiled = compile_graph(graph)
    assert ctx.guards == guards, "compiling must not add guards"
    for b in (6, 1, 2, 0, 9):
        for c in (4, 1):
            sizes = {"B": b, "C": c}
            if not all(g.check(sizes) for g in guards):
                continue
            args = [*program.make(sizes), *(sizes[name] for name in graph.size_params)]
            with np.errstate(all="ignore"):
                try:
                    want = interp.run(graph, args)
                except IndexError:
                    with pytest.raises(IndexError):
                        compiled(*args)
                    continue
                same(compiled(*args), want, 1e-9)
