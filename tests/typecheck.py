"""Type-check the public surface. Checkers cannot see an editable install with this layout, so a staging folder of links
puts the three roots together the way an installed wheel has them."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


def main() -> int:
    with tempfile.TemporaryDirectory() as stage:
        package = pathlib.Path(stage) / "fusegrad"
        package.mkdir()
        for item in (ROOT / "src" / "fusegrad").iterdir():
            if item.name != "__pycache__":
                (package / item.name).symlink_to(item)
        (package / "compiler").symlink_to(ROOT / "compiler")
        (package / "export").symlink_to(ROOT / "export")
        command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml")]
        use = pathlib.Path(stage) / "typed_use.py"
        use.symlink_to(ROOT / "tests" / "typed_use.py")
        return subprocess.call([*command, "-p", "fusegrad", "-m", "typed_use"], cwd=stage)


if __name__ == "__main__":
    sys.exit(main())
