"""The pages of docs/autograd run as they stand: every Python block of a page, in order, in one module."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys
import types

import pytest

import fusegrad as fg
from fusegrad.autograd.modes import SLOW, STATE

PAGES = sorted((pathlib.Path(__file__).resolve().parent.parent / "docs" / "autograd").glob("[0-9]*.md"))


def program(path: pathlib.Path) -> str:
    """The blocks of the page at the lines where they stand, so that tracebacks show lines of the page."""
    out, inside = [], False
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("```"):
            inside = line == "```python"
            out.append("")
        else:
            out.append(line if inside else "")
    return "\n".join(out)


def run(path: pathlib.Path) -> None:
    """The page as a module of this process."""
    name = "guide_" + re.sub(r"\W", "_", path.stem)
    page = sys.modules[name] = types.ModuleType(name)
    fg.manual_seed(0)
    slow = SLOW[0]
    exec(compile(program(path), str(path), "exec"), page.__dict__)
    assert SLOW[0] == slow and STATE.grad and not STATE.anomaly, "the page left a mode on"


@pytest.mark.parametrize("path", PAGES, ids=[p.stem for p in PAGES])
def test_page_runs(path: pathlib.Path, tmp_path) -> None:
    """In a process of its own: the searches of some pages read every object there is."""
    done = subprocess.run([sys.executable, __file__, str(path)], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", PAGES, ids=[p.stem for p in PAGES])
def test_page_has_its_parts(path: pathlib.Path) -> None:
    text = path.read_text(encoding="utf-8")
    number = int(path.stem[:2])
    assert text.startswith(f"# {number}. ") and text.count("```python") >= 2
    assert text.count("\n## Questions\n") == 1
    questions = re.findall(r"^\*\*(.+?)\*\*", text.split("\n## Questions\n")[1], re.M)
    assert len(questions) >= 4 and all(q.endswith("?") for q in questions)


def test_every_page_is_listed_in_order() -> None:
    readme = (PAGES[0].parent / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"\((\d\d-[\w-]+\.md)\)", readme) == [p.name for p in PAGES]
    assert [int(p.stem[:2]) for p in PAGES] == list(range(1, len(PAGES) + 1))


if __name__ == "__main__":
    run(pathlib.Path(sys.argv[1]))
