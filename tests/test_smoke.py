"""The quickest signs of life: one test for each part, run by make check."""

from __future__ import annotations

import pathlib

import numpy as np

import fusegrad as fg


def test_eager() -> None:
    x = fg.tensor([1.0, 2.0], requires_grad=True)
    (x * x).sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_compile() -> None:
    fg.compiler.reset()
    f = fg.compile(lambda x: (x.exp() * 2).sum())
    x = fg.tensor([0.0, 1.0], requires_grad=True)
    f(x).backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.exp([0, 1]), rtol=1e-6)
    s = fg.compiler.stats()
    assert s["compiles"] == 1 and s["graph_breaks"] == 0


def test_export(tmp_path: pathlib.Path) -> None:
    m = fg.nn.Linear(3, 2)
    b = fg.export.Dim("batch", min=2, max=9)
    fg.export.save(fg.export.export(m, (fg.ones(4, 3),), dynamic_shapes=({0: b},)), tmp_path / "m.fgx")
    run = fg.export.load(tmp_path / "m.fgx").module()
    np.testing.assert_allclose(run(fg.ones(7, 3)).detach().numpy(), m(fg.ones(7, 3)).detach().numpy(), rtol=1e-6)
