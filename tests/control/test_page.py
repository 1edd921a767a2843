"""docs/control_flow.md runs as it stands."""

from __future__ import annotations

import pathlib
from typing import Any

import fusegrad as fg

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "control_flow.md"


def test_the_page_runs(tmp_path: pathlib.Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    fg.compiler.reset()
    fg.manual_seed(0)
    text = PAGE.read_text(encoding="utf-8")
    out, inside = [], False
    for line in text.splitlines():  # at the lines where they stand: tracebacks show the page
        if line.startswith("```"):
            inside = line == "```python"
            out.append("")
        else:
            out.append(line if inside else "")
    exec(compile("\n".join(out), str(PAGE), "exec"), {"__name__": "page"})
    assert fg.compiler.stats()["compiles"] <= 9, fg.compiler.stats()["recompile_reasons"]
