"""The ``fusegrad`` command: ``demo``, ``bench``, ``inspect``, ``run``."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any

from . import __version__


class CommandError(Exception):
    """A failure to report as one line, with exit code 1."""


def main(argv: list[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    args = _parser().parse_args(argv)
    try:
        return args.run(args) or 0
    except KeyboardInterrupt:
        print("fusegrad: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return 0
    except Exception as e:  # noqa: BLE001  (a command line shows errors as one line)
        print(f"fusegrad {args.command}: {_one_line(str(e)) or type(e).__name__}", file=sys.stderr)
        return 1


def _one_line(text: str) -> str:
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    return "".join(a + (" " if a.endswith((":", ",", ".")) else "; ") for a in lines[:-1]) + "".join(lines[-1:])


def _parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(prog="fusegrad", description="autograd, compiler and exporter for CPUs")
    p.add_argument("--version", action="version", version=f"fusegrad {__version__}")
    sub = p.add_subparsers(dest="command", required=True)
    demo = sub.add_parser("demo", help="train on handwritten digits eager and compiled, export, compare")
    demo.add_argument("--epochs", type=int, default=20, help="at least 10 (default 20)")
    demo.set_defaults(run=_demo)
    bench = sub.add_parser("bench", help="time eager against compiled")
    bench.add_argument(
        "targets", nargs="*", metavar="NAME", help="built-in workloads, or module:function returning (function, args)"
    )
    bench.add_argument("--json", action="store_true", help="print one JSON object")
    bench.add_argument("--seconds", type=float, default=0.5, help="time spent on each measurement")
    bench.set_defaults(run=_bench)
    inspect = sub.add_parser("inspect", help="print an exported program")
    inspect.add_argument("file", help="a file written by fusegrad.export.save")
    inspect.set_defaults(run=_inspect)
    run = sub.add_parser("run", help="run an exported program on .npy files")
    run.add_argument("file", help="a file written by fusegrad.export.save")
    run.add_argument(
        "--input", action="append", default=[], metavar="NPY",
        help="a .npy file for each tensor of the arguments, in the order of inspect; fixed values are filled in",
    )  # fmt: skip
    run.add_argument(
        "--output", action="append", default=[], metavar="NPY",
        help="a .npy file to write for each tensor or number of the result, in order; without, they are printed",
    )  # fmt: skip
    run.set_defaults(run=_run)
    return p


def _demo(args: Any) -> None:
    from . import demo

    if args.epochs < 10:
        raise CommandError(f"--epochs is {args.epochs}; the comparison of losses needs at least 10")
    demo.run(args.epochs)


def _bench(args: Any) -> None:
    from . import bench

    if not args.seconds > 0:
        raise CommandError(f"--seconds is {args.seconds}, it must be positive")
    results = bench.run(args.targets, args.seconds, quiet=args.json)
    if args.json:
        print(json.dumps(results, indent=1))


def _load(path: str) -> Any:
    """An exported program; the error names the file."""
    import fusegrad as fg

    try:
        return fg.export.load(path)
    except Exception as e:
        raise CommandError(str(e) if path in str(e) else f"{path}: {e}") from e


def _inspect(args: Any) -> None:
    import fusegrad as fg

    print(fg.export.inspect_text(_load(args.file)))


def _run(args: Any) -> None:
    import fusegrad as fg

    program, arrays = _load(args.file), fg.export.arrays
    wanted, given = arrays.output_count(program), len(args.output)
    if given not in (0, wanted):
        raise CommandError(f"the program has {wanted} outputs, {given} --output files were given")
    for path in args.output:
        if os.path.isdir(path):
            raise CommandError(f"{path} is a directory, --output needs a file")
        if os.path.exists(path) and not os.path.isfile(path):
            raise CommandError(f"{path} is not a regular file")
        if not os.path.isdir(os.path.dirname(path) or "."):
            raise CommandError(f"{path}: there is no directory {os.path.dirname(path)}")
    outs = arrays.call(program, [_read_array(path) for path in args.input])
    for out, path in zip(outs, args.output, strict=False):
        _write_array(path, out)
    for i, out in enumerate(outs):
        text = f"{args.output[i] if given else f'output {i}'}: {out.dtype.name} {out.shape}"
        print(text if given else f"{text}\n{out}")


def _read_array(path: str) -> Any:
    """The array of a .npy file, in a dtype that tensors have."""
    import numpy as np

    from .dtypes import from_numpy_dtype

    try:
        array = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as e:
        raise CommandError(f"{path}: not a readable .npy file ({e})") from e
    if not isinstance(array, np.ndarray):
        raise CommandError(f"{path}: not a readable .npy file (it is an .npz archive of several)")
    try:
        from_numpy_dtype(array.dtype)
    except TypeError as e:
        raise CommandError(f"{path}: {e}") from e
    return array


def _write_array(path: str, array: Any) -> None:
    import numpy as np

    path = os.path.realpath(path)  # a link stays one
    part = f"{path}.part"
    try:
        with open(part, "wb") as f:
            np.save(f, array, allow_pickle=False)
        os.replace(part, path)
    except OSError:
        if os.path.exists(part):
            os.unlink(part)
        raise


if __name__ == "__main__":
    sys.exit(main())
