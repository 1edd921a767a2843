"""Writes the generated parts of the documentation: the file map of architecture.md and the list of operators, ops.md.

python docs/build.py           # write
python docs/build.py --check   # exit 1 if something is out of date (a test runs this)
"""

from __future__ import annotations

import ast
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGES = (("src/fusegrad", "The engine"), ("compiler", "The compiler"), ("export", "The exporter"))
MARK = "## Files\n"


def first_line(path: pathlib.Path) -> str:
    """The first sentence of a module's docstring."""
    doc = ast.get_docstring(ast.parse(path.read_text())) or ""
    return " ".join(doc.split("\n\n")[0].split())


def file_map() -> str:
    """A line for every file, package by package."""
    parts = []
    for folder, title in PACKAGES:
        parts.append(f"\n### {title} (`{folder}/`)\n")
        for path in sorted((ROOT / folder).rglob("*.py")):
            name = path.relative_to(ROOT / folder).as_posix()
            parts.append(f"- `{name}`: {first_line(path)}")
    return "\n".join(parts) + "\n"


def architecture() -> str:
    text = (ROOT / "docs" / "architecture.md").read_text()
    return text[: text.index(MARK) + len(MARK)] + file_map()


def operators() -> str:
    """Every entry of the op table with its signature and how it lowers, then every published function."""
    import fusegrad  # noqa: F401  (fills the table)
    from fusegrad.op import FUNCTIONS, TABLE

    lines = [
        "# Operators",
        "",
        "Made from the op table by `docs/build.py`. T: tensor, Tn: tensor or number, T[]: tensors.",
        "",
        "| operator | kind | derivative | lowers by | |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name in sorted(TABLE):
        op = TABLE[name]
        how = (
            "scalar"
            if op.scalar
            else "reduction"
            if op.reduce
            else "operators"
            if op.decompose
            else "index map"
            if op.kind == "view"
            else "its kernel"
        )
        doc = op.doc.splitlines()[0].replace("|", "\\|") if op.doc else ""
        sig = op.sig.text.replace("|", "\\|")
        lines.append(f"| `{sig}` | {op.kind} | {'none' if op.nondiff or not op.rules else 'yes'} | {how} | {doc} |")
    lines += ["", "## Functions made of operators", ""]
    lines += [f"- `{n}`: {f.doc.splitlines()[0] if f.doc else ''}" for n, f in sorted(FUNCTIONS.items())]
    return "\n".join(lines) + "\n"


def main() -> int:
    stale = []
    for name, make in (("architecture.md", architecture), ("ops.md", operators)):
        path = ROOT / "docs" / name
        text = make()
        if not path.exists() or path.read_text() != text:
            stale.append(name)
            if "--check" not in sys.argv:
                path.write_text(text)
    if stale and "--check" in sys.argv:
        print(f"out of date: {', '.join(stale)}; run python docs/build.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
