"""The layers point one way: export -> compiler -> engine; heavy imports stay where they belong; no file is left out."""

from __future__ import annotations

import ast
import pathlib
import tomllib

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGES = {
    "fusegrad": ROOT / "src" / "fusegrad",
    "fusegrad.compiler": ROOT / "compiler",
    "fusegrad.export": ROOT / "export",
}


def modules() -> list[tuple[str, pathlib.Path]]:
    out = []
    for package, folder in PACKAGES.items():
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            parts = parts[:-1] if parts and parts[-1] == "__init__" else parts
            out.append((".".join((package, *parts)), path))
    return out


def imports(name: str, path: pathlib.Path) -> list[tuple[str, int, bool]]:
    """(imported module, line, at module level) of every import statement."""
    tree = ast.parse(path.read_text())
    top = {id(n) for n in ast.iter_child_nodes(tree)}
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    out = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            out += [(a.name, node.lineno, id(node) in top) for a in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                up = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*up, base] if base else up)
            out.append((base, node.lineno, id(node) in top))
            out += [(f"{base}.{a.name}", node.lineno, id(node) in top) for a in node.names]
    return out


def layer(name: str) -> int:
    for i, prefix in ((2, "fusegrad.export"), (1, "fusegrad.compiler")):
        if name == prefix or name.startswith(prefix + "."):
            return i
    return 0 if name == "fusegrad" or name.startswith("fusegrad.") else -1


ALL = modules()


@pytest.mark.parametrize("name,path", ALL, ids=[n for n, _ in ALL])
def test_imports_point_down(name: str, path: pathlib.Path) -> None:
    own = layer(name)
    for target, line, _ in imports(name, path):
        top = target.split(".")[0]
        assert top not in ("compiler", "export"), f"{path}:{line} imports the top-level name {top}"
        assert layer(target) <= own, f"{path}:{line}: {name} imports {target}, which lies above it"


@pytest.mark.parametrize("name,path", ALL, ids=[n for n, _ in ALL])
def test_heavy_imports(name: str, path: pathlib.Path) -> None:
    for target, line, top_level in imports(name, path):
        if target.split(".")[0] in ("numba", "llvmlite"):
            assert name.startswith("fusegrad.native") or (layer(name) == 0 and not top_level), (
                f"{path}:{line}: {target} belongs to fusegrad/native"
            )


def test_no_import_cycles_at_module_level() -> None:
    known = {n for n, _ in ALL}
    graph: dict[str, set[str]] = {}
    for name, path in ALL:
        edges = set()
        for target, _, top_level in imports(name, path):
            if top_level and target in known and target != name and not name.startswith(target + "."):
                edges.add(target)
        graph[name] = edges
    state: dict[str, int] = {}

    def visit(n: str, trail: tuple[str, ...]) -> None:
        state[n] = 1
        for m in sorted(graph[n]):
            assert state.get(m) != 1, "import cycle: " + " -> ".join((*trail, n, m))
            if m not in state:
                visit(m, (*trail, n))
        state[n] = 2

    for n in sorted(graph):
        if n not in state:
            visit(n, ())


def test_every_package_is_shipped() -> None:
    listed = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    present = {n for n, p in ALL if p.name == "__init__.py"}
    assert listed == present
