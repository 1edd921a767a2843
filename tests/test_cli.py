"""The command line: what it prints, what it refuses, its exit codes."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import fusegrad as fg


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
def test_errors_are_one_line(program: pathlib.Path, tmp_path: pathlib.Path, args: tuple, match: str) -> None:
    np.save(tmp_path / "one.npy", np.ones((1, 3), np.float32))
    done = command(*args, cwd=tmp_path)
    assert done.returncode != 0
    assert len(done.stderr.strip().splitlines()) == 1 and match in done.stderr, done.stderr
    assert not (tmp_path / "y.npy").exists()


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
