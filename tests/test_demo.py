"""The demonstration, shortened: the figures it promises hold."""

from __future__ import annotations

from fusegrad import demo


def test_demo() -> None:
    r = demo.run(epochs=12)
    assert r["accuracy eager"] >= 0.95 and r["accuracy compiled"] >= 0.95
    assert r["loss difference"] <= 1e-4
    assert r["stats"]["compiles"] <= 8 and r["stats"]["graph_breaks"] >= 1
    assert any("demo.py" in b and "branch" in b for b in r["breaks"])
    assert r["export"]["difference"] < 1e-5 and "2..1024" in r["export"]["refusal"]
