"""The command line: what it prints, what it refuses, its exit codes."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import fusegrad as fg
from fusegrad.cli import main


def command(*args: object, cwd: pathlib.Path) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "fusegrad.cli", *map(str, args)], cwd=cwd, capture_output=True, text=True
    )


@pytest.fixture()
def program(tmp_path: pathlib.Path) -> pathlib.Path:
    fg.manual_seed(0)
    m = fg.nn.Linear(3, 2)
    b = fg.export.Dim("batch", min=2, max=9)
    path = tmp_path / "m.fgx"
    fg.export.save(fg.export.export(m, (fg.ones(4, 3),), dynamic_shapes=({0: b},)), path)
    np.save(tmp_path / "x.npy", np.ones((5, 3), np.float32))
    np.save(tmp_path / "want.npy", m(fg.ones(5, 3)).detach().numpy())
    return path


def test_inspect_and_run(program: pathlib.Path, tmp_path: pathlib.Path) -> None:
    shown = command("inspect", program, cwd=tmp_path)
    assert shown.returncode == 0 and "batch" in shown.stdout and "2..9" in shown.stdout
    ran = command("run", program, "--input", "x.npy", "--output", "y.npy", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), np.load(tmp_path / "want.npy"), rtol=1e-6)


@pytest.mark.parametrize(
    "args,match",
    [
        (("inspect", "none.fgx"), "none.fgx"),
        (("inspect", "."), "directory"),
        (("inspect", "x.npy"), "x.npy"),
        (("run", "m.fgx", "--input", "none.npy", "--output", "y.npy"), "none.npy"),
        (("run", "m.fgx", "--input", "one.npy", "--output", "y.npy"), "2..9"),
        (("run", "m.fgx", "--input", "x.npy", "--output", "no/such/y.npy"), "no/such"),
        (("run", "m.fgx", "--input", "x.npy", "--output", "."), "directory"),
        (("bench", "nothing"), "no workload"),
        (("bench", "fusegrad.bench:WORKLOADS"), "must be callable"),
        (("bench", "nomodule:f"), "nomodule"),
        (("demo", "--epochs", "1"), "at least 10"),
    ],
)
def test_errors_are_one_line(
    program: pathlib.Path, tmp_path: pathlib.Path, args: tuple, match: str, monkeypatch: Any, capsys: Any
) -> None:
    np.save(tmp_path / "one.npy", np.ones((1, 3), np.float32))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])  # bench adds the folder
    assert main([*args]) == 1
    err = capsys.readouterr().err
    assert len(err.strip().splitlines()) == 1 and match in err, err
    assert not (tmp_path / "y.npy").exists()


def test_nested_arguments_numbers_and_devices(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture) -> None:
    """Tensors at any depth are arrays in order, what was fixed is filled in, and nothing but a file is replaced."""
    x, path = fg.ones(2), str(tmp_path / "ünested.fgx")
    f = lambda d, flag, *, k: ({"y": d["a"] - k[0]}, d["a"].shape[0], None, "text") if flag else None  # noqa: E731
    fg.export.save(fg.export.export(f, ({"a": x}, True), {"k": [x]}), path)
    for name, value in (("a", [3, 4]), ("b", [1, 1])):
        np.save(tmp_path / name, np.array(value, ">f4"))
    given = ["run", path, "--input", str(tmp_path / "a.npy"), "--input", str(tmp_path / "b.npy")]
    assert main(given) == 0
    assert capsys.readouterr().out.splitlines() == ["output 0: float32 (2,)", "[2. 3.]", "output 1: int64 ()", "2"]
    (tmp_path / "link.npy").symlink_to(tmp_path / "y.npy")
    assert main([*given, "--output", str(tmp_path / "link.npy"), "--output", str(tmp_path / "n.npy")]) == 0
    assert (tmp_path / "link.npy").is_symlink() and np.load(tmp_path / "y.npy").tolist() == [2, 3]
    for more, said in (
        (["--output", os.devnull, "--output", os.devnull], "not a regular file"),
        (["--output", "y.npy"], "2 outputs, 1 --output files"),
        (["--input", path], "not a readable .npy file"),
    ):
        assert main([*given, *more]) == 1 and said in capsys.readouterr().err
    assert main(given[:4]) == 1
    assert "got 1 inputs, the program takes 2: program(d: {'a': f32[2]}, flag = True, *," in capsys.readouterr().err
    assert main(["bench", "--seconds", "0"]) == 1


def test_the_command_as_a_module(tmp_path: pathlib.Path) -> None:
    done = subprocess.run([sys.executable, "-m", "fusegrad", "--version"], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == f"fusegrad {fg.__version__}\n"


def test_bench_of_a_training_step(tmp_path: pathlib.Path) -> None:
    """The step changes its weights: eager and compiled start from the same ones, so the losses agree."""
    (tmp_path / "steps.py").write_text(
        "import fusegrad as fg\n"
        "def step():\n"
        "    m = fg.nn.Linear(4, 1)\n"
        "    opt = fg.optim.SGD(m.parameters(), lr=0.1)\n"
        "    def f(x):\n"
        "        opt.zero_grad()\n"
        "        loss = m(x).pow(2).mean()\n"
        "        loss.backward()\n"
        "        opt.step()\n"
        "        return loss\n"
        "    return f, (fg.randn(5, 4),)\n"
    )
    done = command("bench", "steps:step", "--seconds", "0.01", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[0]["value_difference"] < 1e-5


def test_bench_of_an_own_workload(tmp_path: pathlib.Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import fusegrad as fg\ndef work():\n    return (lambda x: fg.tanh(x) * 2), (fg.ones(8, requires_grad=True),)\n"
    )
    done = command("bench", "mine:work", "--json", "--seconds", "0.05", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (r,) = json.loads(done.stdout)
    assert r["compiles"] == 1 and r["value_difference"] < 1e-6 and r["gradient_difference"] < 1e-6
