"""Writes the generated pages: docs/breaks/FGxxx.md, their table, and docs/instructions.md.

python -m fusegrad.compiler.capture.docs docs
"""

from __future__ import annotations

import sys
from pathlib import Path

from . import break_plans, machine  # noqa: F401  (the machine registers the handlers)
from .breaks import REASONS, pages
from .decode import tables
from .evaluator import HANDLERS


def break_pages() -> dict[str, str]:
    """File name -> text of the pages about break reasons."""
    out = {f"breaks/{code}.md": text for code, text in pages().items()}
    rows = "\n".join(f"| [{r.code}]({r.code}.md) | {r.title} | {r.hint} |" for r in REASONS.values())
    out["breaks/README.md"] = (
        "# Why a graph breaks\n\n`fusegrad.compiler.explain(f)(*args)` and `fusegrad.compiler.stats()` name each break "
        "with its number, file and line. This table is made from `compiler/capture/breaks.py`.\n\n"
        f"| number | reason | what to do |\n|---|---|---|\n{rows}\n"
    )
    return out


def instruction_page() -> str:
    """What the evaluator does with every instruction of every known Python version."""
    lines = [
        "# Instructions\n",
        "Made from the decoder's and the evaluator's tables. *evaluated*: part of the graph's capture; *break*: on "
        "operands that capture does not know the instruction runs for real between segments; *plain*: the rest of the "
        "frame then runs as plain Python.\n",
    ]
    for version, names in tables().items():
        lines += [f"\n## CPython {version[0]}.{version[1]}\n", "| instruction | canonical | evaluated | otherwise |"]
        lines.append("|---|---|---|---|")
        for name, op in sorted(names.items()):
            known = op in HANDLERS or op in ("NOP", "KW_NAMES")
            other = "break" if op in break_plans.PLANS else "plain"
            lines.append(f"| {name} | {op} | {'yes' if known else 'no'} | {'' if op == 'NOP' else other} |")
    return "\n".join(lines) + "\n"


def write(folder: Path) -> None:
    """Write all pages under ``folder``."""
    (folder / "breaks").mkdir(parents=True, exist_ok=True)
    for name, text in {**break_pages(), "instructions.md": instruction_page()}.items():
        (folder / name).write_text(text)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
