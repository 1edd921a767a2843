"""``__torch_function__``, in a process of its own (see ``overriding``)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_classes_that_take_over_functions() -> None:
    program = Path(__file__).parent / "overriding.py"
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout == "done\n", done.stdout + done.stderr
