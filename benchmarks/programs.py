"""Published training programs (tests/programs.py, at sizes of real small runs): compiles, seconds of the first call,
and a step's time compiled against eager; and what capture alone takes for a 12-layer transformer.

    python benchmarks/programs.py [names ...]

The disk cache is off; processor time of this process, which other work on the machine disturbs least.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests"))

from programs import PROGRAMS  # noqa: E402

import fusegrad as T  # noqa: E402

SIZES: dict[str, dict[str, Any]] = {
    "gpt": {"layers": 4, "width": 64, "heads": 4, "vocab": 65, "length": 32, "batch": 8},
    "resnet": {"blocks": (1, 1, 1), "width": 8, "batch": 8, "size": 16},
    "lstm": {"length": 20, "width": 32, "batch": 16},
    "vae": {"pixels": 784, "hidden": 128, "latent": 16, "batch": 64},
    "pinn": {"width": 32, "points": 200},
    "maml": {"tasks": 4, "shots": 10},
}


def seconds(f: Callable[..., Any], *args: Any) -> float:
    start = time.process_time()
    f(*args)
    return time.process_time() - start


def program(name: str) -> None:
    """One row: eager and compiled steps in turn on batches of one size, then the smaller last batch."""
    T.compiler.reset()
    plain, other = PROGRAMS[name](T, **SIZES[name]), PROGRAMS[name](T, **SIZES[name])
    compiled = T.compile(other.step, options={"cache": False})
    batch, last = plain.batches[0], plain.batches[-1]
    first = seconds(compiled, *batch)
    plain.step(*batch)
    pairs = [(seconds(plain.step, *batch), seconds(compiled, *batch)) for _ in range(15)]
    again = seconds(compiled, *last)
    for b in other.batches:
        compiled(*b)
    s = T.compiler.stats()
    eager, fast = (statistics.median(x) * 1e3 for x in zip(*pairs, strict=True))
    print(f"| {name} | {s['compiles']} | {s['graph_breaks']} | {first:.2f} | {again:.2f} | {eager:.2f} | {fast:.2f} |"
          f" {fast / eager:.2f} |", flush=True)  # fmt: skip


def capture_alone() -> None:
    """A 12-layer transformer's step: bytecode, guards, backward, passes and partition, without kernels."""
    best = 1e9
    for _ in range(4):
        T.compiler.reset()
        p = PROGRAMS["gpt"](T, layers=12, width=64, heads=4, vocab=65, length=16, batch=4)
        step = T.compile(p.step, options={"interpret": True})
        first = seconds(step, *p.batches[0])
        best = min(best, first - seconds(step, *p.batches[1]))  # less the run of the graph, by the interpreter
    print(f"\ncapture of a 12-layer transformer's training step: {best:.2f} s of processor time (goal 1.5)")


def main() -> None:
    T.set_num_threads(1)
    print("| program | compiles | breaks | first call s | smaller batch s | eager ms | compiled ms | ratio |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name in sys.argv[1:] or PROGRAMS:
        program(name)
    capture_alone()


if __name__ == "__main__":
    main()
