"""Writes what is generated: the file map of architecture.md, the list of operators (ops.md), the table of
differences.md, and the index by which
families of operators are imported at first use (src/fusegrad/ops/_index.py).

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
ABSENT_MARK = "`fusegrad/unsupported.py` by `docs/build.py`.\n\n"


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


def differences() -> str:
    """``differences.md`` with its table of names that do not exist."""
    from fusegrad.unsupported import ABSENT

    text = (ROOT / "docs" / "differences.md").read_text()
    names: dict[tuple[str, str], list[str]] = {}
    for name, reason in ABSENT.items():
        names.setdefault(reason, []).append(f"`{name}`")
    rows = [f"| {', '.join(group)} | {why} | {way} |" for (why, way), group in names.items()]
    head = text[: text.index(ABSENT_MARK) + len(ABSENT_MARK)]
    return "\n".join([head, "| names | why | instead |", "| --- | --- | --- |", *rows]) + "\n"


def family_index() -> str:
    """Source of ``ops/_index.py``: which file defines which operators, functions, methods and public names."""
    from fusegrad import bind, families, ops
    from fusegrad.op import FUNCTIONS, TABLE

    index: dict[str, list[set[str]]] = {name: [set(), set(), set(), set()] for name in ops.families()}
    for which, table in enumerate((TABLE, FUNCTIONS)):
        for entry in table.values():
            sets = index[entry.module.removeprefix("fusegrad.ops.")]
            methods, public = bind.surface(entry)
            sets[which].add(entry.name)
            sets[2].update(methods)
            sets[3].update(public)
    for k in range(4):
        everything = [name for sets in index.values() for name in sets[k]]
        twice = {name for name in everything if everything.count(name) > 1}
        if twice:
            raise SystemExit(f"published by two families: {', '.join(sorted(twice))}")
    lines = [
        '"""Which family of operators defines what, and the sizes of the files as one number. By docs/build.py."""',
        "",
        "# fmt: off",
        "# ruff: noqa: E501",
        f"SIZES = {families.sizes()}",
        "FAMILIES = {",
    ]
    for name, sets in index.items():
        lines.append(f"{name!r}: (")
        lines += _without_repeats([repr(" ".join(sorted(names))) for names in sets])
        lines.append("),")
    return "\n".join([*lines, "}", ""])


def _without_repeats(texts: list[str]) -> list[str]:
    """The lines of a tuple; a text that stands there twice is named, for the index is read at every import."""
    lines = []
    for k, text in enumerate(texts):
        first = texts.index(text)
        again = first < k and text != "''"
        named = not again and text != "''" and text in texts[k + 1 :]
        lines.append(f"{'abcd'[first]}," if again else f"{'abcd'[k]}:={text}," if named else f"{text},")
    return lines


GENERATED = (
    ("docs/architecture.md", architecture),
    ("docs/differences.md", differences),
    ("docs/ops.md", operators),
    ("src/fusegrad/ops/_index.py", family_index),
)


def main() -> int:
    stale = []
    for name, make in GENERATED:
        path = ROOT / name
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
