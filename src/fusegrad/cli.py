"""The ``fusegrad`` command: ``demo``, ``bench``, ``inspect``, ``run``."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any


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
        text = " ".join(str(e).split()) or type(e).__name__
        print(f"fusegrad {args.command}: {text}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(prog="fusegrad", description="autograd, compiler and exporter for CPUs")
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
    inspect.add_argument("file")
    inspect.set_defaults(run=_inspect)
    run = sub.add_parser("run", help="run an exported program on .npy files")
    run.add_argument("file")
    run.add_argument("--input", action="append", required=True, help="a .npy file for each input, in order")
    run.add_argument("--output", action="append", required=True, help="a .npy file for each output, in order")
    run.set_defaults(run=_run)
    return p


def _demo(args: Any) -> None:
    from . import demo

    if args.epochs < 10:
        raise CommandError(f"--epochs is {args.epochs}; the comparison of losses needs at least 10")
    demo.run(args.epochs)


def _bench(args: Any) -> None:
    from . import bench

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
    import os

    import numpy as np

    import fusegrad as fg

    program = _load(args.file)
    inputs = []
    for path in args.input:
        try:
            inputs.append(fg.from_numpy(np.load(path, allow_pickle=False)))
        except (OSError, ValueError, EOFError) as e:
            raise CommandError(f"{path}: not a readable .npy file ({e})") from e
    out = program.module()(*inputs)
    outs = [t for t in (out if isinstance(out, (tuple, list)) else out.values() if isinstance(out, dict) else (out,))]
    if len(outs) != len(args.output):
        raise CommandError(f"the program has {len(outs)} outputs, {len(args.output)} --output files were given")
    for path in args.output:
        if os.path.isdir(path):
            raise CommandError(f"{path} is a directory, --output needs a file")
        if not os.path.isdir(os.path.dirname(path) or "."):
            raise CommandError(f"{path}: there is no directory {os.path.dirname(path)}")
    for t, path in zip(outs, args.output, strict=True):
        part = f"{path}.part"
        try:
            with open(part, "wb") as f:
                np.save(f, t.detach().numpy(), allow_pickle=False)
            os.replace(part, path)
        except OSError:
            if os.path.exists(part):
                os.unlink(part)
            raise
    for t, path in zip(outs, args.output, strict=True):
        print(f"{path}: {t.dtype.name} {tuple(t.shape)}")


if __name__ == "__main__":
    sys.exit(main())
