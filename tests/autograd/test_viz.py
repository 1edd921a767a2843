"""Drawings of the dynamic graph: text, SVG, HTML, summaries of big graphs, files."""

from __future__ import annotations

import gc
import os
import time
import weakref
import xml.etree.ElementTree as ET

import pytest

import fusegrad as fg
from fusegrad import nn, viz
from fusegrad.viz.layout import layers_of, place

SVG = "{http://www.w3.org/2000/svg}"


def texts(svg: str) -> list[str]:
    return [t.text or "" for t in ET.fromstring(svg).iter(f"{SVG}text")]


def test_text_of_a_small_graph() -> None:
    a = fg.tensor(2.0, requires_grad=True)
    b = fg.tensor(3.0, requires_grad=True)
    c = a * b
    loss = c + a
    text = str(viz.graph(loss))
    assert text == repr(viz.graph(loss))
    assert text.splitlines() == [
        "dynamic graph: 2 operators, 2 leaves, 0 B saved for backward and 8 B of leaves",
        "leaf a: f32[] = 2, grad None",
        "leaf b: f32[] = 3, grad None",
        "#1 MulBackward0  c: f32[]  -> a, b; saves input: f32[] 4 B (a); saves other: f32[] 4 B (b)",
        "#2 AddBackward0  f32[]  -> #1, a",
        "output loss: f32[] = 8 from #2",
    ]


def test_gradients_and_freed_nodes_after_backward() -> None:
    x = fg.ones(3, requires_grad=True)
    h = x.exp()
    h.retain_grad()
    loss = h.sum()
    before = str(viz.graph(loss))
    assert "saves result: f32[3] 12 B" in before and "retains its gradient" in before
    loss.backward()
    after = str(viz.graph(loss))
    assert "leaf x: f32[3] 12 B, grad f32[3] 12 B" in after
    assert "h: f32[3]  -> x; freed by backward; grad f32[3] 12 B" in after and "saves" not in after


def test_svg_has_every_box_and_arrow() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    loss = model(fg.ones(2, 4)).sum()
    svg = viz.graph(loss, names=model).svg()
    root = ET.fromstring(svg)
    boxes = [g for g in root.iter(f"{SVG}g") if g.get("class") == "box"]
    arrows = [p for p in root.iter(f"{SVG}path") if p.get("class") == "arrow"]
    assert len(boxes) == 4 + 4 + 1 and len(arrows) == 4 + 3 + 1
    found = texts(svg)
    assert {"0.weight", "2.bias", "TanhBackward0", "loss", "f32[8, 4] 128 B"} <= set(found)
    width, height = float(root.get("width") or 0), float(root.get("height") or 0)
    for r in root.iter(f"{SVG}rect"):
        x, y = float(r.get("x") or 0), float(r.get("y") or 0)
        assert 0 <= x and x + float(r.get("width") or 0) <= width and y + float(r.get("height") or 0) <= height


def test_boxes_do_not_overlap() -> None:
    sizes = [(50.0 + 7 * (i % 5), 20.0 + 3 * (i % 4)) for i in range(40)]
    arrows = [(i, j) for j in range(1, 40) for i in {(j * 7) % j, j // 2, j - 1}]
    layout = place(sizes, arrows)
    layer = layers_of(40, arrows)
    assert all(layer[s] < layer[t] for s, t in arrows)
    for i, (x, y) in enumerate(layout.places):
        for j in range(i):
            u, v = layout.places[j]
            assert abs(x - u) >= (sizes[i][0] + sizes[j][0]) / 2 or not (v - sizes[i][1] < y < v + sizes[j][1])
    assert all(p[0][1] < p[-1][1] for p in layout.paths)


def test_names_are_escaped_and_the_page_stands_alone() -> None:
    x = fg.ones(2, requires_grad=True)
    page = viz.graph({"<script>y": x * 2}, names={"a & b <i>": x}).html()
    assert "<script>y" not in page and "<i>" not in page and "a &amp; b &lt;i&gt;" in page
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")


def test_names_come_from_argument_then_variables() -> None:
    x = fg.ones(2, requires_grad=True)
    assert "leaf x:" in str(viz.graph((x * 2).sum()))
    assert "leaf weight:" in str(viz.graph((x * 2).sum(), names={"weight": x}))
    nameless = [fg.ones(2, requires_grad=True)]
    assert "leaf 1:" in str(viz.graph(nameless[0] * 2))


def test_several_outputs_and_leaves_alone() -> None:
    x = fg.ones(2, requires_grad=True)
    a, b = x * 2, x * 3
    text = str(viz.graph([a, b]))
    assert "output a: f32[2] 8 B from #1" in text and "output b: f32[2] 8 B from #2" in text
    assert "leaf x" in str(viz.graph(x)) and "no operators were recorded" in str(viz.graph(x))
    plain = fg.ones(2)
    assert "no graph was recorded" in str(viz.graph(plain)) and "<svg" in viz.graph(plain).svg()


def test_views_in_place_functions_compiled_and_packed() -> None:
    class Twice(fg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            ctx.note = x.detach()
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = fg.ones(4, requires_grad=True)
    y = x * 1
    y[1:3] = 5.0
    with fg.autograd.graph.saved_tensors_hooks(lambda t: "disk", lambda p: fg.ones(4)):
        z = Twice.apply(y).exp()
    text = str(viz.graph(z))
    for words in ("CopySlices", "TwiceBackward", "ctx.note: f32[4] 16 B", "packed (str)"):
        assert words in text


def test_a_saved_tensor_that_was_changed_is_marked() -> None:
    x = fg.ones(2, requires_grad=True)
    h = x * 1
    loss = (h * h).sum()
    h.add_(1)
    assert "saves input: changed in place since, backward will fail" in str(viz.graph(loss))


@pytest.mark.parametrize("kind", ["chain", "branches", "leaves", "wide"])
def test_big_graphs_are_summarised(kind: str) -> None:
    w = fg.ones(3, requires_grad=True)
    z = w
    if kind == "chain":
        for _ in range(20000):
            z = z * 1.0001
    elif kind == "branches":
        for _ in range(1000):
            z = z.sin() + z * w
    elif kind == "leaves":
        for p in [fg.ones(3, requires_grad=True) for _ in range(3000)]:
            z = z + p
        z = fg.stack([fg.ones(3, requires_grad=True) for _ in range(3000)]).sum() + z.sum()
    else:
        z = fg.stack([(w * i).sin() for i in range(3000)])
    start = time.perf_counter()
    drawing = viz.graph(z)
    svg, text = drawing.svg(), str(drawing)
    assert time.perf_counter() - start < 20
    assert svg.count('class="box"') < 140 and len(text) < 30000 and "operators" in text


def test_a_drawing_keeps_nothing_alive() -> None:
    def draw() -> tuple:
        x = fg.ones(1000, requires_grad=True)
        y = x.exp()
        return viz.graph(y), weakref.ref(y), weakref.ref(y.grad_fn)

    gc.disable()
    try:
        drawing, tensor, node = draw()
        assert tensor() is None and node() is None and "ExpBackward0" in drawing.svg()
    finally:
        gc.enable()


def test_save_is_whole_or_not_at_all(tmp_path) -> None:
    x = fg.ones(2, requires_grad=True)
    drawing = viz.graph(x * 2)
    for name, start in (("g.svg", "<svg"), ("g.HTML", "<!DOCTYPE html>"), ("g.txt", "dynamic graph")):
        path = drawing.save(tmp_path / name)
        with open(path, encoding="utf-8") as f:
            assert f.read().startswith(start)
    assert sorted(os.listdir(tmp_path)) == ["g.HTML", "g.svg", "g.txt"]
    with pytest.raises(ValueError, match="one of .svg, .html"):
        drawing.save(tmp_path / "g.png")
    with pytest.raises(FileNotFoundError, match="does not exist"):
        drawing.save(tmp_path / "none" / "g.svg")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        drawing.save(tmp_path)
    assert drawing._repr_svg_() == drawing.svg()


def test_wrong_arguments() -> None:
    for bad, match in (
        (3, "must be a Tensor or a list"),
        ([fg.ones(1), 2], "found a int"),
        ([], "found nothing"),
        (nn.Linear(1, 1), "call the module"),
    ):
        with pytest.raises(TypeError, match=match):
            viz.graph(bad)
    with pytest.raises(TypeError, match="dict or a Module"):
        viz.graph(fg.ones(1), names=[1])
    with pytest.raises(ValueError, match="max_boxes"):
        viz.graph(fg.ones(1), max_boxes=0)
