"""Structured control flow in exported programs: saved, loaded, run, differentiated; hostile files refused."""

from __future__ import annotations

import hashlib
import io
import json
import pathlib
import zipfile
from typing import Any

import pytest
from fusegrad.export import Dim, FileError
from fusegrad.export.archive import pack

import fusegrad as fg
from fusegrad import control, pytree
from fusegrad import export as E

from .programs import SEQUENCES, VECTORS, Gated, Recurrent, r


def saved(program: Any) -> bytes:
    f = io.BytesIO()
    E.save(program, f)
    return f.getvalue()


def trip(f: Any, args: tuple, **kw: Any) -> Any:
    return E.load(io.BytesIO(saved(E.export(f, args, **kw))))


def grads(out: Any, ins: Any) -> list:
    loss = sum((t * t.detach().cos()).sum() for t in pytree.tree_leaves(out) if t.requires_grad)
    return list(fg.autograd.grad(loss, ins, allow_unused=True))


def same(got: Any, want: Any) -> None:
    for a, b in zip(pytree.tree_leaves(got), pytree.tree_leaves(want), strict=True):
        assert fg.allclose(a, b), (a, b)


def compare(f: Any, m: Any, args: tuple, ins: Any = None, own: Any = None) -> None:
    same(m(*args), f(*args))
    got, want = grads(m(*args), own or args), grads(f(*args), ins or args)
    for a, b in zip(got, want, strict=True):
        assert (a is None) == (b is None) and (a is None or fg.allclose(a, b)), (a, b)


@pytest.mark.parametrize("compile", [True, False])
@pytest.mark.parametrize("name", VECTORS)
def test_choices_and_loops(name: str, compile: bool) -> None:
    fg.manual_seed(1)
    f = VECTORS[name]
    m = trip(f, (r(3), r(3, 3))).module(compile=compile)
    for sign, scale in ((1, 1), (-1, 1), (1, 3), (-1, 0.1)):
        compare(f, m, ((r(3) * sign).detach().requires_grad_(), (r(3, 3) * scale).detach().requires_grad_()))


@pytest.mark.parametrize("compile", [True, False])
@pytest.mark.parametrize("name", SEQUENCES)
def test_sequences_of_any_length(name: str, compile: bool) -> None:
    f = SEQUENCES[name]
    program = trip(f, (r(5, 3), r(3, 3)), dynamic_shapes=({0: Dim("n", min=2, max=64)}, {}))
    assert len(program.dims) == 1 and "control.scan" in str(program)
    m = program.module(compile=compile)
    for n in (5, 2, 9, 33):
        compare(f, m, (r(n, 3), r(3, 3)))


@pytest.mark.parametrize("cls", [Gated, Recurrent])
def test_modules_with_a_dynamic_batch(cls: Any) -> None:
    model = cls()
    shape = (lambda n: (n, 3)) if cls is Gated else (lambda n: (4, n, 3))
    axis = 0 if cls is Gated else 1
    program = trip(model, (r(*shape(3)),), dynamic_shapes=({axis: Dim("batch", min=1, max=32)},))
    m = program.module()
    params = list(model.parameters())
    mine = [dict(m.named_parameters())[n] for n, _ in model.named_parameters()]
    for n in (3, 1, 8):
        for sign in (1, -1):
            x = (fg.rand(*shape(n), dtype=fg.float64) * sign).requires_grad_()
            compare(model, m, (x,), [x, *params], [x, *mine])


def test_no_gradient_where_the_source_stops_it() -> None:
    """detach and no_grad inside of bodies survive the file, which has no tape."""

    def f(x: Any, w: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            with fg.no_grad():
                k = c * w[0]
                v = x[:2]
            a = (c * k + x.detach() * w[1]).clone()
            a[:2] += v
            return a, (c * 2).detach()

        c, y = control.scan(step, w[2].detach(), x)
        z = fg.while_loop(lambda i, z: i < 2, lambda i, z: (i + 1, z * c.detach() + 1), (fg.tensor(0), x[0].detach()))[
            1
        ]
        with fg.no_grad():
            u = fg.cond(x.sum() > 0, lambda: x * w[0], lambda: x - w[0])
        return c, y, z, u

    args = (r(4, 3), r(3, 3))
    for compile in (True, False):
        compare(f, trip(f, args).module(compile=compile), args)


def test_the_same_program_gives_the_same_bytes() -> None:
    a, b = (saved(E.export(SEQUENCES["recurrence"], (fg.ones(5, 3), fg.ones(3, 3)))) for _ in range(2))
    assert a == b


def test_a_branch_on_data_names_the_way_out() -> None:
    def f(x: Any) -> Any:
        return x * 2 if x.sum() > 0 else x

    with pytest.raises(fg.errors.DataDependentError, match=r"fusegrad\.cond\(pred, true_fn, false_fn, operands\)") as e:
        E.export(f, (fg.ones(3),))
    assert "test_export.py" in str(e.value)


REFUSED: dict[str, tuple[Any, str]] = {
    "random": (lambda x: fg.cond(x.sum() > 0, lambda x: x + fg.rand(3), lambda x: x * 2, (x,)), "random numbers"),
    "alias": (lambda x: fg.cond(x.sum() > 0, lambda x: x, lambda x: x * 2, (x,)), "aliases an input"),
    "in place": (lambda x: fg.cond(x.sum() > 0, lambda x: x.add_(1) * 2, lambda x: x * 2, (x + 1,)), "in place"),
    "shape": (lambda x: fg.cond(x.sum() > 0, lambda x: x + 1, lambda x: x[:2] + 1, (x,)), "same metadata"),
    "carried": (lambda x: fg.while_loop(lambda x: x.sum() < 9, lambda x: (x.double(),), (x,)), "same metadata"),
    "numbers": (lambda x: fg.cond(x.sum() > 0, lambda x: (x + 1, 1), lambda x: (x, 2), (x + 1,)), "aliases|numbers"),
}


@pytest.mark.parametrize("case", REFUSED, ids=list(REFUSED))
def test_refused_at_export(case: str) -> None:
    f, message = REFUSED[case]
    with pytest.raises(RuntimeError, match=message):
        E.export(f, (fg.ones(3),))


def test_deep_nesting_is_refused_at_export_already() -> None:
    def nested(depth: int) -> Any:
        if depth == 0:
            return lambda x: x + 1
        inner = nested(depth - 1)
        return lambda x: fg.cond(x.sum() > depth, inner, lambda x: x * 2, (x,))

    x = fg.ones(3)
    same(trip(nested(7), (x,)).module()(x), nested(7)(x))
    with pytest.raises(RuntimeError, match="nested deeper"):
        E.export(nested(9), (x,))
    y = fg.compile(nested(9))(x)  # a break, and eager code inside of it
    same(y, nested(9)(x))


# ---- hostile files


def loop(x: Any, w: Any) -> Any:
    y = fg.cond(x.sum() > 0, lambda x: x * w, lambda x: x + w, (x,))
    z = fg.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * w), (fg.tensor(0), y))[1]
    return control.scan(lambda c, x: (c * x, c + w), z, x.reshape(-1, 1).expand(-1, 3))


@pytest.fixture(scope="module")
def members() -> dict[str, bytes]:
    data = saved(E.export(loop, (fg.ones(3), fg.ones(3))))
    with zipfile.ZipFile(io.BytesIO(data)) as z:
        return {n: z.read(n) for n in z.namelist()}


def forged(members: dict[str, bytes], graph: Any) -> bytes:
    """The file with another graph, its checksums made right."""
    out = dict(members)
    out["graph.json"] = json.dumps(graph).encode()
    head = json.loads(out["format.json"])
    for name in head["members"]:
        head["members"][name] = {"bytes": len(out[name]), "sha256": hashlib.sha256(out[name]).hexdigest()}
    out["format.json"] = json.dumps(head).encode()
    return pack(out)


def node_of(data: Any, name: str) -> Any:
    return next(n for n in data["graph"]["nodes"] if n["op"] == name)


def wrap(data: Any) -> None:
    """A choice inside of itself, many times over."""
    node = node_of(data, "control.cond")
    for _ in range(12):
        inner = json.loads(json.dumps(node))
        node["attrs"]["true"]["graph"]["nodes"] = [inner]


HOSTILE: dict[str, Any] = {
    "no graph": lambda d: node_of(d, "control.cond")["attrs"].update(true=3),
    "missing": lambda d: node_of(d, "control.cond")["attrs"].pop("false"),
    "text for a graph": lambda d: node_of(d, "control.scan")["attrs"].update(body="graph"),
    "empty graph": lambda d: node_of(d, "control.scan")["attrs"].update(body={"graph": {}}),
    "input type": lambda d: node_of(d, "control.cond")["attrs"]["true"]["graph"]["inputs"][0].update(shape=[4]),
    "input layout": lambda d: node_of(d, "control.cond")["attrs"]["true"]["graph"]["inputs"][0].update(strides=[7]),
    "huge input": lambda d: node_of(d, "control.cond")["attrs"]["true"]["graph"]["inputs"][0].update(shape=[1 << 60]),
    "result type": lambda d: node_of(d, "control.while_loop")["outputs"][1].update(dtype="float64"),
    "inner type": lambda d: node_of(d, "control.scan")["attrs"]["body"]["graph"]["nodes"][0]["outputs"][0].update(
        dtype="int8"
    ),
    "inner operator": lambda d: node_of(d, "control.scan")["attrs"]["body"]["graph"]["nodes"][0].update(op="os.system"),
    "later value": lambda d: node_of(d, "control.scan")["attrs"]["body"]["graph"]["nodes"][0].update(
        args=[{"value": 99}, {"value": 0}]
    ),
    "value of the outer graph": lambda d: node_of(d, "control.scan")["attrs"]["body"]["graph"].update(
        outputs=[{"value": 50}]
    ),
    "constant result": lambda d: node_of(d, "control.cond")["attrs"]["true"]["graph"].update(outputs=[1.0]),
    "draws": lambda d: node_of(d, "control.cond")["attrs"]["true"]["graph"].update(draws=1),
    "mutation": lambda d: node_of(d, "control.cond")["attrs"]["true"]["graph"].update(mutations=[[0, {"value": 0}]]),
    "reverse": lambda d: node_of(d, "control.scan")["attrs"].update(reverse="yes"),
    "test of another type": lambda d: node_of(d, "control.while_loop")["attrs"].update(
        test=node_of(d, "control.while_loop")["attrs"]["body"]
    ),
    "a graph in another operator": lambda d: d["graph"]["nodes"][0]["attrs"].update(
        dim=node_of(d, "control.cond")["attrs"]["true"]
    ),
    "a graph as an argument": lambda d: node_of(d, "control.cond").update(
        args=[node_of(d, "control.cond")["attrs"]["true"], []]
    ),
    "a graph in a tuple": lambda d: node_of(d, "control.cond")["attrs"].update(
        true={"tuple": [node_of(d, "control.cond")["attrs"]["true"]]}
    ),
    "deep": wrap,
}  # fmt: skip


def test_the_forge_makes_good_files(members: dict[str, bytes]) -> None:
    m = E.load(io.BytesIO(forged(members, json.loads(members["graph.json"])))).module()
    x, w = fg.randn(3), fg.randn(3)
    same(m(x, w), loop(x, w))


@pytest.mark.parametrize("case", HOSTILE, ids=list(HOSTILE))
def test_hostile_files_are_refused(case: str, members: dict[str, bytes]) -> None:
    data = json.loads(members["graph.json"])
    HOSTILE[case](data)
    with pytest.raises(FileError, match="^load: "):
        E.load(io.BytesIO(forged(members, data)))


def test_sizes_of_nested_graphs_are_derived_again(members: dict[str, bytes]) -> None:
    data = json.loads(members["graph.json"])
    node_of(data, "control.cond")["attrs"]["true"]["graph"]["size_params"] = ["nowhere"]
    x, w = fg.randn(3), fg.randn(3)
    same(E.load(io.BytesIO(forged(members, data))).module()(x, w), loop(x, w))


def paths(value: Any, path: tuple = ()) -> Any:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in items:
        yield (*path, key)
        yield from paths(child, (*path, key))


def test_changed_fields_are_refused_or_give_a_program_that_is_still_well_typed(members: dict[str, bytes]) -> None:
    """Every fourth field of the graph, nested ones included, with values of other kinds."""
    graph = json.loads(members["graph.json"])
    values = [None, True, -1, 977, 2**70, 1.5, "batch*2", [[]], {"tuple": [1]}, {"value": 0}, {"graph": {}}]
    places = [p for p in paths(graph) if p[0] == "graph"]
    for i, path in enumerate(places[::4]):
        data = json.loads(json.dumps(graph))
        at = data
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = values[i % len(values)]
        try:
            program = E.load(io.BytesIO(forged(members, data)))
        except FileError as e:
            assert str(e).startswith("load: ")
            continue
        program.graph.verify()


def test_the_fixture_of_version_1_1_loads() -> None:
    path = pathlib.Path(__file__).resolve().parents[1] / "export" / "fixtures" / "v1_1.fgx"
    m = E.load(path).module(compile=False)
    c, ys = m(fg.tensor([[1.0, 2.0, 3.0], [1.0, 1.0, 2.0]]), fg.tensor([2.0, 1.0, 0.5]))
    assert c.tolist() == [16.0, 4.0, 1.125] and ys.tolist() == [[17.0, 4.0, 3.1875], [17.0, 5.0, 2.5625]]
