"""Kinds of programs side by side: fusegrad compiled, torch eager, torch.compile and jax.jit (``benchmarks/kinds.md``).

    python benchmarks/kinds.py [--only REGEX] [--rounds 5] [--output FILE]

``PEERS_PYTHON`` names the interpreter that has torch and jax.  Each framework runs in a process of its own; a result
that differs from torch's eager one is shown as ``wrong`` and not timed. Times alternate over the frameworks, round by
round; a row's ratio is the median over the rounds of ours / the fastest peer, in processor time, so that other jobs on
the machine matter little.  Every process keeps to one processor: what other threads of it have used is known exactly
only when none of them runs while the clock is read.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import kinds_everyday  # noqa: F401  (adds its workloads)
import kinds_more  # noqa: F401
import kinds_nets  # noqa: F401
import kinds_science  # noqa: F401
import kinds_training  # noqa: F401
import kinds_users  # noqa: F401
import numpy as np
from kinds_cases import WORKLOADS, Code, normal

SECONDS = 0.06  # for one case in one round
FRAMEWORKS = ("fusegrad", "torch", "torch.compile", "jax")  # and "fusegrad.eager"

# ---- one process for each framework


def prepare(kind: str, name: str) -> tuple[Callable[[], Any], list[np.ndarray]]:
    """(one call, its results)."""
    data, wrt, torch_code, jax_code, _ = WORKLOADS[name]
    if kind == "jax":
        return _prepare_jax(data, wrt.split(), jax_code)
    T: Any = __import__("fusegrad" if kind.startswith("fusegrad") else "torch")
    T.set_num_threads(1)
    f = torch_code(T)
    if kind not in ("torch", "fusegrad.eager"):
        T.compiler.reset()
        f = T.compile(f)
    args = {k: T.from_numpy(np.array(v)) for k, v in data.items()}
    leaves = [args[k].requires_grad_() for k in wrt.split()]
    given = list(args.values())
    if not leaves:

        def forward() -> Any:
            return f(*given)

        out = forward()
        return forward, [t.detach().numpy() for t in (out if isinstance(out, tuple) else (out,))]
    out = f(*given)
    cot = T.from_numpy(normal(*out.shape)).to(out.dtype) if out.ndim else T.ones((), dtype=out.dtype)

    def run() -> Any:
        y = f(*given)
        return (y, *T.autograd.grad(y, leaves, cot))

    return run, [t.detach().numpy() for t in run()]


def _prepare_jax(data: dict[str, Any], wrt: list[str], code: Code) -> tuple[Callable[[], Any], list[np.ndarray]]:
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", any(v.dtype == np.float64 for v in data.values()))
    f = code(jax, jnp)
    args = [jnp.asarray(v) for v in data.values()]
    at = [list(data).index(k) for k in wrt]

    def whole(*args: Any) -> Any:
        def part(*leaves: Any) -> Any:
            given = list(args)
            for i, leaf in zip(at, leaves, strict=True):
                given[i] = leaf
            return f(*given)

        y, back = jax.vjp(part, *(args[i] for i in at))
        return (y, *back(jnp.asarray(normal(*y.shape), y.dtype) if y.ndim else jnp.ones_like(y)))

    jitted = jax.jit(whole if at else f)
    out = jitted(*args)
    return (lambda: jax.block_until_ready(jitted(*args))), [
        np.asarray(t) for t in (out if isinstance(out, tuple) else (out,))
    ]


def work(kind: str) -> None:
    """Answer the lines of standard input: "prepare NAME" or "measure"."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    run: Any = None
    number = 1
    for line in sys.stdin:
        verb, _, name = line.strip().partition(" ")
        try:
            if verb == "prepare":
                run, out = prepare(kind, name)
                for _ in range(3):
                    run()
                number = _repeats(run)
                answer: Any = {"out": [[list(a.shape), _summary(a)] for a in out]}
            else:
                answer = {"time": _timed(run, number)}
        except Exception as e:
            answer = {"error": f"{type(e).__name__}: {str(e)[:200]}"}
        print(json.dumps(answer), flush=True)


def _summary(a: np.ndarray) -> list[float]:
    """Numbers that tell results apart: weighted sums and a size to compare them with."""
    x = a.astype(np.float64).reshape(-1)
    w = np.cos(np.arange(x.size))
    return [float(x.sum()), float((x * w).sum()), float(np.abs(x).sum())]


def _repeats(run: Callable[[], Any]) -> int:
    n = 1
    while n < 4096:
        t = time.perf_counter()
        for _ in range(n):
            run()
        if time.perf_counter() - t > 1e-3:
            break
        n *= 4
    return n


def _timed(run: Callable[[], Any], number: int) -> float:
    """The least seconds of processor time of a call among samples of a millisecond or more."""
    best, end = math.inf, time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        t = time.process_time()
        for _ in range(number):
            run()
        best = min(best, (time.process_time() - t) / number)
    return best


class Worker:
    """A process that runs one framework."""

    def __init__(self, python: str, kind: str) -> None:
        env = dict(os.environ, OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
        env["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
        self.process = subprocess.Popen(
            [python, os.path.abspath(__file__), "--work", kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, env=env,
        )  # fmt: skip

    def ask(self, line: str) -> dict[str, Any]:
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
            return json.loads(self.process.stdout.readline() or '{"error": "the process died"}')
        except OSError as e:
            return {"error": str(e)}


def _agree(a: dict[str, Any], b: dict[str, Any]) -> bool:
    if [s for s, _ in a["out"]] != [s for s, _ in b["out"]]:
        return False
    return all(
        abs(x - y) <= 1e-3 * max(mine[2], 1e-3) for (_, mine), (_, other) in zip(a["out"], b["out"], strict=True)
        for x, y in zip(mine, other, strict=True)
    )  # fmt: skip


def measure(name: str, workers: dict[str, Worker], rounds: int) -> tuple[dict[str, str], dict[str, float], float]:
    """(frameworks without a valid result and why, microseconds, our ratio to the fastest peer)."""
    got = {k: w.ask(f"prepare {name}") for k, w in workers.items()}
    failed = {k: v["error"] for k, v in got.items() if "error" in v}
    reference = got.get("torch", {})
    for k, v in got.items():
        if k not in failed and WORKLOADS[name][4] and "out" in reference and not _agree(v, reference):
            failed[k] = "wrong"
    good = [k for k in workers if k not in failed]
    times: dict[str, list[float]] = {k: [] for k in good}
    for r in range(rounds):
        for k in good[r % max(len(good), 1) :] + good[: r % max(len(good), 1)]:
            times[k].append(workers[k].ask("measure").get("time", math.nan))
    peers = [k for k in good if not k.startswith("fusegrad")]
    ratio = math.nan
    if "fusegrad" in good and peers:
        best = [min(times[p][r] for p in peers) for r in range(rounds)]
        ratio = statistics.median(a / b for a, b in zip(times["fusegrad"], best, strict=True))
    return failed, {k: statistics.median(v) * 1e6 for k, v in times.items()}, ratio


def main() -> None:
    parser = argparse.ArgumentParser(description="Kinds of programs, against torch and jax.")
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output")
    parser.add_argument("--frameworks", default=",".join(FRAMEWORKS))
    parser.add_argument("--work", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        work(args.work)
        return
    peers = os.environ.get("PEERS_PYTHON")
    kinds = [k for k in args.frameworks.split(",") if k.startswith("fusegrad") or peers]
    workers = {k: Worker(sys.executable if k.startswith("fusegrad") else str(peers), k) for k in kinds}
    lines = [
        f"| us of processor time | {' | '.join(kinds)} | ours / fastest peer |",
        f"| --- |{' ---: |' * (len(kinds) + 1)}",
    ]
    print("\n".join(lines))
    ratios = []
    for name in WORKLOADS:
        if not re.search(args.only, name):
            continue
        failed, times, ratio = measure(name, workers, args.rounds)
        cells = [f"{times[k]:.1f}" if k in times else ("wrong" if failed[k] == "wrong" else "fails") for k in kinds]
        lines.append(f"| {name} | {' | '.join(cells)} | {ratio:.2f} |")
        print(lines[-1], flush=True)
        for k, why in failed.items():
            print(f"    {k}: {why}", file=sys.stderr, flush=True)
        if not math.isnan(ratio):
            ratios.append(ratio)
    if ratios:
        lines.append(f"\nGeometric mean of {len(ratios)} rows: {math.exp(statistics.fmean(map(math.log, ratios))):.2f}")
        print(lines[-1])
    for w in workers.values():
        w.process.kill()
    if args.output:
        with open(args.output, "w") as file:
            file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
