"""Generated documentation is current; the README's Python runs."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def test_generated_pages_are_current() -> None:
    done = subprocess.run([sys.executable, str(ROOT / "docs" / "build.py"), "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_readme_examples_run(tmp_path: pathlib.Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    assert len(blocks) == 2
    refused = "run(torch.randn(1, 64))"
    last = blocks[1].replace(
        refused,
        f"try:\n    {refused}\nexcept Exception as e:\n    assert '2..1024' in str(e)\nelse:\n    raise AssertionError\n#",  # noqa: E501
    )
    script = tmp_path / "readme.py"
    script.write_text(blocks[0] + "\n" + last)
    done = subprocess.run([sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
