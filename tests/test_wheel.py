"""The wheel, built and installed in a clean virtual environment, runs from another directory."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import venv

ROOT = pathlib.Path(__file__).resolve().parent.parent

PROGRAM = """
import fusegrad as fg
x = fg.tensor([1.0, 2.0], requires_grad=True)
f = fg.compile(lambda x: (x * x.exp()).sum())
f(x).backward()
assert x.grad is not None and not hasattr(fg, "tests")
ep = fg.export.export(fg.nn.Linear(2, 1), (fg.ones(3, 2),))
fg.export.save(ep, "m.fgx")
assert fg.export.load("m.fgx").module()(fg.ones(3, 2)).shape == (3, 1)
from fusegrad.demo import digits
assert digits()[0].shape == (1438, 64)
print(fg.__file__)
"""


def run(*cmd: object, cwd: pathlib.Path) -> str:
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}  # it could lead to another fusegrad
    done = subprocess.run([str(c) for c in cmd], cwd=cwd, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_wheel_in_a_clean_environment(tmp_path: pathlib.Path) -> None:
    # a copy, so that the build leaves nothing in the repository
    source = tmp_path / "source"
    run("git", "-C", ROOT, "worktree", "list", cwd=ROOT)
    source.mkdir()
    for name in ("src", "compiler", "export", "pyproject.toml", "README.md"):
        run("cp", "-r", ROOT / name, source / name, cwd=tmp_path)
    run(
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--wheel-dir",
        tmp_path / "dist",
        source,
        cwd=tmp_path,
    )
    (wheel,) = (tmp_path / "dist").glob("fusegrad-*.whl")
    venv.create(tmp_path / "env", with_pip=False, system_site_packages=False)
    python = tmp_path / "env" / "bin" / "python"
    # the dependencies come from this environment: a .pth file, so that nothing is downloaded twice
    site = next((tmp_path / "env" / "lib").glob("python*")) / "site-packages"
    run(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", site, wheel, cwd=tmp_path)
    import llvmlite
    import numba
    import numpy
    import safetensors

    for module in (numpy, numba, llvmlite, safetensors):
        folder = pathlib.Path(module.__file__).parent
        (site / folder.name).symlink_to(folder)
    libs = pathlib.Path(numpy.__file__).parent.parent / "numpy.libs"
    if libs.exists():
        (site / "numpy.libs").symlink_to(libs)
    where = tmp_path / "elsewhere"
    where.mkdir()
    out = run(python, "-c", PROGRAM, cwd=where)
    assert str(site) in out
