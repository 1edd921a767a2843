"""Decorators keep the type of what they decorate: checked by mypy on a staging folder, as an installed package."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

PROGRAM = """
import fusegrad as T
from fusegrad import nn
from fusegrad.compiler import allow_in_graph, compile, disable


@T.compile
def f(x: T.Tensor, k: int = 2) -> T.Tensor:
    return x * k


@T.compile(fullgraph=True, verify=False)
def g(x: T.Tensor, *, k: int) -> tuple[T.Tensor, int]:
    return x, k


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.width = 3

    @T.compile
    def forward(self, x: T.Tensor) -> T.Tensor:
        return x

    @compile(dynamic=True)
    def twice(self, x: T.Tensor, n: int) -> T.Tensor:
        return x

    @staticmethod
    @disable
    def plain(n: int) -> str:
        return ""


@allow_in_graph
def h(n: int) -> str:
    return ""


net = T.compile(Net())
reveal_type(f)
reveal_type(g)
reveal_type(net)
reveal_type(net.width)
reveal_type(net.twice)
reveal_type(Net.plain)
reveal_type(h)
reveal_type(T.compile(f, verify=2))
f("text")
g(T.ones(2))
net.twice(T.ones(2), "n")
T.compile(3)
"""

REVEALED = [
    "def (x: fusegrad.tensor.Tensor, k: int =) -> fusegrad.tensor.Tensor",
    "def (x: fusegrad.tensor.Tensor, *, k: int) -> tuple[fusegrad.tensor.Tensor, int]",
    "program.Net",
    "int",
    "def (x: fusegrad.tensor.Tensor, n: int) -> fusegrad.tensor.Tensor",
    "def (n: int) -> str",
    "def (n: int) -> str",
    "def (x: fusegrad.tensor.Tensor, k: int =) -> fusegrad.tensor.Tensor",
]


def test_decorators_keep_types(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("mypy")
    package = tmp_path / "fusegrad"
    package.mkdir()
    for item in (ROOT / "src" / "fusegrad").iterdir():
        if item.name != "__pycache__":
            (package / item.name).symlink_to(item)
    (package / "compiler").symlink_to(ROOT / "compiler")
    (tmp_path / "program.py").write_text(PROGRAM)
    config = ROOT / "pyproject.toml"
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", str(config), "--enable-error-code", "misc", "program.py"],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    lines = [s for s in done.stdout.splitlines() if s.startswith("program.py")]
    shown = [s.split('"')[1].replace(" = ...", " =").replace("builtins.", "") for s in lines if "Revealed type" in s]
    assert shown == REVEALED, done.stdout + done.stderr
    errors = [s for s in lines if ": error: " in s]
    wrong = PROGRAM.split("\n")[-5:-1]
    assert [s.split(":")[1] for s in errors] == [str(PROGRAM.split("\n").index(t) + 1) for t in wrong]
    for text, kind in zip(errors, ("arg-type", "call-arg", "arg-type", "call-overload|type-var"), strict=True):
        assert any(k in text for k in kind.split("|")), text
