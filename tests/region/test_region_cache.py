"""Regions and programs in the disk cache: found by everything they depend on, right when read, made again when not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from fusegrad.compiler import region_split, stored
from fusegrad.compiler.ir.builder import GraphBuilder
from fusegrad.compiler.kernel import program
from fusegrad.compiler.region import build_region

import fusegrad as T
from fusegrad import nn
from fusegrad.native import cache, meter
from fusegrad.op import TABLE
from fusegrad.sizes import SizeContext, UnprovedSize

F = nn.functional


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    if not stored.environment():
        pytest.skip("a source was edited after these tests began: nothing is kept")
    folder = tmp_path / "cache"
    monkeypatch.setenv("FUSEGRAD_CACHE_DIR", str(folder))
    monkeypatch.setattr(cache, "_checked", {})
    return folder


def hits(f: object, *calls: tuple) -> tuple[int, list]:
    """(regions found on disk, results of the calls) of a function compiled anew."""
    before = meter.HITS["regions"]
    T.manual_seed(0)
    compiled = T.compile(f)
    results = [compiled(*(a.clone() if isinstance(a, T.Tensor) else a for a in args)) for args in calls]
    return meter.HITS["regions"] - before, results


def arrays(value: object) -> list:
    if isinstance(value, T.Tensor):
        return [value.detach().numpy()]
    return [a for v in value for a in arrays(v)] if isinstance(value, (list, tuple)) else [value]


def branchy(x):
    y = (x.sin() * 2).sum(1)
    if y.sum() > 0:
        return y.exp(), x.t()
    return y.cos(), x[1:]


def changed(x):
    x.mul_(2)
    y = x[0]
    y.add_(1)
    return x.sum(), y


def gradients(x):
    x = x.detach().requires_grad_()
    y = (x.tanh() * x).sum(-1)
    (g,) = T.autograd.grad(y.sum(), x, create_graph=True)
    return y, T.autograd.grad((g * g).sum(), x)[0]


def outside(x):
    """Differentiated twice by the caller."""
    return T.layer_norm(x, (x.shape[-1],)).sigmoid() @ x.t()


def constants(x):
    return x.sort(1)[0][:, :2], 2.5, None, x.shape[0] * 3, float("inf"), x.amax(0)


def random(x):
    return F.dropout(x, 0.5, True) + T.rand(x.shape), T.randperm(5)


PROGRAMS = [branchy, changed, gradients, constants, random]


@pytest.mark.parametrize("f", PROGRAMS)
def test_the_same_results_from_disk(f, place, monkeypatch) -> None:
    """Static, then with a symbolic size, then transposed arguments: bit for bit as compiled, with nothing compiled."""
    x = T.randn(4, 5)
    calls = [(x,), (T.randn(6, 5),), (T.randn(9, 5),), (T.randn(5, 9).t(),)]
    found, first = hits(f, *calls)
    assert found == 0
    monkeypatch.setattr(region_split, "_make", None)
    monkeypatch.setattr(program, "_write", None)
    found, second = hits(f, *calls)
    assert found >= 2
    for a, b in zip(arrays(first), arrays(second), strict=True):
        np.testing.assert_array_equal(a, b)


def test_derivatives_outside(place, monkeypatch) -> None:
    def run() -> list:
        compiled = T.compile(outside)
        found = []
        for n in (3, 4, 5):
            T.manual_seed(n)
            x = T.randn(n, 6, requires_grad=True)
            (g,) = T.autograd.grad(compiled(x).sum(), x, create_graph=True)
            (h,) = T.autograd.grad((g * g).sum(), x)
            found += [g, h]
        return found

    first = run()
    monkeypatch.setattr(region_split, "_make", None)
    monkeypatch.setattr(program, "_write", None)
    for a, b in zip(first, run(), strict=True):
        np.testing.assert_array_equal(a.detach().numpy(), b.numpy() if not b.requires_grad else b.detach().numpy())


def test_texts_are_made_when_asked_for(place) -> None:
    """Of a region from disk: the same graphs, loop nests and source."""
    x = T.randn(4, 5)
    texts = []
    for _ in range(2):
        compiled = T.compile(lambda x: (x * 2).sum(0).exp())
        compiled(x)
        (region,) = T.compiler.explain(compiled)(x).regions
        texts.append(region.text().split("# forward\n")[1].replace("  # ", "#").split("\n"))
    strip = [[line.split("#test_")[0] for line in text] for text in texts]
    assert strip[0] == strip[1]


def region_of(ctx: SizeContext | None, shape: tuple, dtype: T.dtype = T.float32, f=None, options=None, strides=None):
    builder = GraphBuilder("f", ctx)
    x = builder.new_input(T.Tensor.meta_(T.zeros(1)).__class__(shape, dtype, strides, False))
    from fusegrad.handler import active

    with active(builder):
        out = (f or (lambda x: x * 2.0))(x)
    return build_region(builder, [x], [out], options=options)


def symbol(hint: int = 4, **bounds: int) -> tuple[SizeContext, object]:
    ctx = SizeContext()
    return ctx, ctx.symbol("n", hint, **bounds)


def test_keys_hold_what_regions_depend_on(place, monkeypatch) -> None:
    base = region_of(None, (4,))
    keys = [base.cache_key]
    assert region_of(None, (4,)).cache_key == base.cache_key != ""
    keys.append(region_of(None, (5,)).cache_key)
    keys.append(region_of(None, (4,), T.float64).cache_key)
    keys.append(region_of(None, (4,), strides=(2,)).cache_key)
    keys += [region_of(None, (4,), f=f).cache_key for f in (lambda x: x * 2, lambda x: x * -0.0, lambda x: x * 0.0)]
    keys += [region_of(None, (4,), f=lambda x, k=k: x.sum(0, keepdim=k)).cache_key for k in (True, False)]
    keys += [region_of(None, (4,), options={"fuse": False}).cache_key]
    for bounds in ({}, {"hint": 5}, {"min": 1}, {"max": 9}):
        ctx, n = symbol(**bounds)
        keys.append(region_of(ctx, (n,)).cache_key)
    ctx, n = symbol()
    assert n != 7
    keys.append(region_of(ctx, (n,)).cache_key)
    monkeypatch.setattr(stored, "environment", lambda: "another machine")
    keys.append(region_of(None, (4,)).cache_key)
    assert len(set(keys)) == len(keys)
    for options in ({"cache": False}, {"check": True}, {"interpret": True}, {"codegen": "numba"}):
        assert region_of(None, (4,), options=options).cache_key == ""
    monkeypatch.setattr(stored, "environment", lambda: "")
    assert region_of(None, (4,)).cache_key == ""


def test_conditions_on_sizes_come_back(place) -> None:
    """What passes assumed about sizes is assumed again when the region is read."""
    key = "0" * 64
    ctx, n = symbol(4)
    region = region_of(ctx, (n,))
    known = len(ctx.guards)
    assert n >= 3 and n * 2 != 10
    new = ctx.guards[known:]
    assert len(new) == 2
    stored.put(key, lambda: region.parts.to_plain(new))
    other, _ = symbol(4)
    found = stored.get(key, lambda data: region_split._from_plain(data, other))
    assert [str(g) for g in other.guards] == [str(g) for g in new] and found.forward == region.forward
    wrong, _ = symbol(2)
    assert stored.get(key, lambda data: region_split._from_plain(data, wrong)) is None


def damage(text: bytes) -> list[bytes]:
    """Entries that are complete (the checksum is right) and wrong."""
    data = json.loads(text)
    out = [b"", b"[]", b"null", b"{", b'{"graphs": 1}', text[: len(text) // 2], b"\xff\xfe", b"[" * 100_000]
    for name in data if isinstance(data, dict) else ():
        out.append(json.dumps({k: v for k, v in data.items() if k != name}).encode())
        out.append(json.dumps({**data, name: 7}).encode())
    return out


@pytest.mark.parametrize("kind", ["region", "program"])
def test_entries_that_cannot_be_read_are_made_again(kind, place, monkeypatch) -> None:
    kept: dict[str, bytes] = {}
    put = cache.put
    monkeypatch.setattr(cache, "put", lambda key, data, **k: (kept.update({key: data}), put(key, data, **k))[1])
    x = T.randn(4, 5)
    _, want = hits(gradients, (x,))
    keys = [k for k in kept if k.startswith(kind)]
    for bad in damage(kept[keys[0]]):
        for key in keys:
            put(key, bad)
        _, got = hits(gradients, (x,))
        for a, b in zip(arrays(want), arrays(got), strict=True):
            np.testing.assert_array_equal(a, b)


def test_damaged_files_and_lost_kernels(place, monkeypatch) -> None:
    from fusegrad import native

    x = T.randn(4, 5)
    monkeypatch.setattr(native, "_loaded", {})
    _, want = hits(gradients, (x,))
    files = {p: p.read_bytes() for p in place.iterdir()}
    for change in (lambda b: b[:-1], lambda b: b[:-1] + bytes([b[-1] ^ 1]), lambda b: b"", lambda b: None):
        for path, content in files.items():
            new = change(content)
            path.unlink(missing_ok=True) if new is None else path.write_bytes(new)
        monkeypatch.setattr(native, "_loaded", {})
        found, got = hits(gradients, (x,))
        assert found == 0
        for a, b in zip(arrays(want), arrays(got), strict=True):
            np.testing.assert_array_equal(a, b)
    kernels = [p for p, content in files.items() if b"ELF" in content[:60]]
    for path in kernels:
        path.unlink()
    monkeypatch.setattr(native, "_loaded", {})
    found, got = hits(gradients, (x,))
    assert kernels and found > 0 and all(p.exists() for p in kernels)


def test_nothing_is_kept_by_a_process_older_than_its_sources(place, monkeypatch) -> None:
    stored.environment.cache_clear()
    try:
        monkeypatch.setattr(stored, "_STARTED", 0.0)
        assert stored.environment() == "" and region_of(None, (4,)).cache_key == ""
    finally:
        stored.environment.cache_clear()
    monkeypatch.undo()
    assert stored.environment() != ""


def test_a_fresh_process_skips_the_compiler(tmp_path: Path) -> None:
    code = """
import sys, numpy as np, fusegrad as T
net = T.nn.Sequential(T.nn.Linear(8, 16), T.nn.ReLU(), T.nn.Linear(16, 3))
opt = T.optim.SGD(net.parameters(), lr=0.1)
def step(x, y):
    opt.zero_grad(); loss = T.nn.functional.cross_entropy(net(x), y); loss.backward(); opt.step(); return loss.detach()
c = T.compile(step)
T.manual_seed(0)
x, y = T.from_numpy(np.arange(32.0, dtype="f4").reshape(4, 8)), T.tensor([0, 1, 2, 0])
for p in net.parameters():
    p.data.fill_(0.01)
print(float(c(x, y)).hex(), float(c(x, y)).hex())
s = T.compiler.stats()
print(s["region_hits"], s["kernel_hits"], s["cache_hits"] == s["region_hits"] + s["kernel_hits"])
heavy = ["compiler.kernel.writer", "compiler.kernel.fuse", "compiler.passes.partition", "compiler.passes.maxflow"]
heavy += ["native.nest", "native.llvm_module"]
print([m for m in heavy if "fusegrad." + m in sys.modules])
"""
    import os

    env = {**os.environ, "FUSEGRAD_CACHE_DIR": str(tmp_path / "cache"), "FUSEGRAD_VERIFY": ""}
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env) for _ in range(2)]
    cold, warm = (r.stdout.split("\n") for r in runs)
    assert cold[0] == warm[0] and cold[0], runs[0].stderr
    assert cold[1] == "0 0 True" and warm[1].split()[0] != "0" and warm[1].split()[1] != "0"
    assert len(cold[2].split(",")) == 6 and warm[2] == "[]"


def test_verification_checks_what_comes_from_the_disk(place) -> None:
    """A kept program that is wrong is found, and named by the recorded graph, which has the user's lines."""

    def f(x):
        return (x.tanh() * 3).sum()

    right = TABLE["tanh"].scalar
    with pytest.MonkeyPatch.context() as m:
        m.setattr(TABLE["tanh"], "scalar", lambda b, x: right(b, x) * 1.01)
        T.compile(f, verify=False)(T.ones(3))
    before = meter.HITS["regions"]
    assert T.compile(f, verify=False)(T.ones(3)).item() > f(T.ones(3)).item() + 0.01
    assert meter.HITS["regions"] == before + 1
    with pytest.raises(T.compiler.VerificationError) as e:
        T.compile(f, verify=True)(T.ones(3))
    line = f.__code__.co_firstlineno + 1
    assert e.value.what == "result 0" and e.value.location == (__file__, line)


SIZES_AS_ARGUMENTS = {
    "max_pool": lambda x, n: F.max_pool1d(x, n),
    "avg_pool": lambda x, n: F.avg_pool1d(x, n),
    "pool, step": lambda x, n: F.max_pool1d(x, 2, n),
    "conv, step": lambda x, n: F.conv1d(x, T.ones(1, 1, 2), stride=n),
    "conv, border": lambda x, n: F.conv1d(x, T.ones(1, 1, 2), padding=n),
    "slices": lambda x, n: x[..., n:] + x[..., : x.shape[-1] - n],
    "index": lambda x, n: x[..., -(n // 2)] + x[..., n - 3],
    "start": lambda x, n: x[..., -(n // 2) :].sum() + x[..., n - 2 :].sum(),
    "repeat": lambda x, n: x.repeat(1, n, 1),
    "pad": lambda x, n: F.pad(x, (n, 1)),
    "expand": lambda x, n: x.expand(n, -1, -1) * 2,
    "unfold": lambda x, n: x.unfold(2, n, 1).sum(-1),
    "narrow": lambda x, n: x.narrow(2, n, 2) * 3,
    "roll": lambda x, n: x.roll(n, -1) + 1,
    "view": lambda x, n: x[..., :6].reshape(n, -1).sum(0),
}


@pytest.mark.parametrize("name", SIZES_AS_ARGUMENTS)
def test_programs_from_disk_serve_other_sizes(name, place) -> None:
    """What code generation takes for granted about sizes would be lost with the process that guarded it."""
    f = SIZES_AS_ARGUMENTS[name]
    x = T.arange(1.0, 8.0).view(1, 1, 7).requires_grad_()
    for sizes in ((2, 3, 1), (2, 1, 3), (3, 2, 1)):
        T.compiler.reset()
        compiled = T.compile(f, dynamic=True)
        for n in sizes:
            got, want = compiled(x, n), f(x, n)
            np.testing.assert_array_equal(got.detach().numpy(), want.detach().numpy())
            for a, b in zip(T.autograd.grad(got.sum(), x), T.autograd.grad(want.sum(), x), strict=True):
                np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_code_generation_may_not_assume_sizes() -> None:
    ctx = SizeContext()
    s = ctx.symbol("s0", 4)
    with ctx.proving():
        assert s >= 0
        with pytest.raises(UnprovedSize, match="s0 >= 3 is not known"), ctx.proving():
            bool(s >= 3)
        with pytest.raises(UnprovedSize):
            range(s)
    assert s >= 3 and [g.text for g in ctx.guards] == ["s0 >= 3"]
    with ctx.proving():
        assert s > 2
