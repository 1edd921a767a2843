"""The numbers that fusegrad promises, measured side by side in one run: ``make bench``.

Every row is a ratio of two things timed alternately, in rounds; the table holds medians. Peers (PyTorch, JAX) are timed
by the interpreter that ``PEERS_PYTHON`` names, in processes of their own that take turns with ours; without it their
columns stay empty. Results go to ``benchmarks/results.md``.

    python benchmarks/run.py [--rounds 7] [--output FILE]
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
SECONDS = 0.15  # for one case in one round

# ---- the cases: each takes the module (fusegrad or torch) and returns {name: callable}


def chain(T: Any) -> Callable[..., Any]:
    """Five elementwise operators."""
    return lambda x, w: T.tanh(x * w + 1.0) * x - w


def two_exps(T: Any) -> Callable[..., Any]:
    """A chain with two exponentials."""
    return lambda x, y: T.exp(-x * x) * y + T.exp(y * 0.5)


def numbers(shape: tuple, seed: int) -> Any:
    """Standard normal float32."""
    import numpy as np

    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def step_of(T: Any) -> tuple[Callable[..., Any], Callable[[], tuple]]:
    """The demo's training step, and a maker of its arguments, for any module with PyTorch's names."""

    def step(model: Any, opt: Any, x: Any, y: Any) -> Any:
        opt.zero_grad()
        loss = T.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        norm = sum((p.grad * p.grad).sum() for p in model.parameters()).sqrt()
        if norm > 5.0:
            for p in model.parameters():
                p.grad.mul_(5.0 / norm)
        opt.step()
        return loss.detach()

    def make() -> tuple:
        import numpy as np

        nn = T.nn
        T.manual_seed(0)
        model = nn.Sequential(
            nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10)
        )
        opt = T.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        return model, opt, T.from_numpy(numbers((64, 64), 1)), T.from_numpy(np.arange(64) % 10)

    return step, make


def cases(T: Any, compiler: Callable[[Any], Any] | None) -> dict[str, Callable[[], Any]]:
    """Everything to time in one framework; compiled forms too if there is a compiler."""
    small = [T.from_numpy(numbers((8,), i)) for i in (0, 1)]
    tracked = [T.from_numpy(numbers((8,), i)).requires_grad_() for i in (0, 1)]
    large = [T.from_numpy(numbers((1000, 1000), i)) for i in (2, 3)]
    x, w = tracked
    cot = T.from_numpy(numbers((8,), 4))
    f, g = chain(T), two_exps(T)

    def quiet(fn: Any, args: list) -> Callable[[], Any]:
        def run() -> Any:
            with T.no_grad():
                return fn(*args)

        return run

    def gradients(fn: Any) -> Callable[[], Any]:
        return lambda: T.autograd.grad(fn(x, w), (x, w), cot)

    step, make = step_of(T)
    state = make()
    out: dict[str, Callable[[], Any]] = {
        "mul": lambda: x * w, "tanh": lambda: T.tanh(x), "chain8": lambda: f(*small), "chain8 grad": gradients(f),
        "exps": quiet(g, large), "step": lambda: step(*state),
    }  # fmt: skip
    if compiler is not None:
        cf, cg, cstep, cstate = compiler(f), compiler(g), compiler(step), make()
        cd = compiler(f)
        out |= {
            "compiled chain8": lambda: cf(*small), "compiled chain8 grad": gradients(cd),
            "compiled exps": quiet(cg, large), "compiled step": lambda: cstep(*cstate),
        }  # fmt: skip
    return out


def jax_cases() -> dict[str, Callable[[], Any]]:
    """The chains in JAX, jitted."""
    import jax
    import jax.numpy as jnp

    small = [jnp.asarray(numbers((8,), i)) for i in (0, 1)]
    large = [jnp.asarray(numbers((1000, 1000), i)) for i in (2, 3)]
    f = jax.jit(lambda x, w: jnp.tanh(x * w + 1.0) * x - w)
    g = jax.jit(lambda x, y: jnp.exp(-x * x) * y + jnp.exp(y * 0.5))
    return {
        "compiled chain8": lambda: f(*small).block_until_ready(),
        "compiled exps": lambda: g(*large).block_until_ready(),
    }


# ---- processes: a worker answers one line for each case it is asked to time


def load(kind: str) -> dict[str, Callable[[], Any]]:
    """The cases of a worker."""
    if kind == "jax":
        return jax_cases()
    if kind == "torch":
        import torch

        torch.set_num_threads(1)
        return cases(torch, torch.compile)
    import fusegrad

    fusegrad.set_num_threads(1)
    return cases(fusegrad, fusegrad.compile)


def work(kind: str) -> None:
    """Prepare the cases, then time what standard input asks for. Prints JSON lines."""
    found = load(kind)
    for fn in found.values():
        for _ in range(5):
            fn()
    print(json.dumps(sorted(found)), flush=True)
    for line in sys.stdin:
        print(json.dumps(timed(found[line.strip()])), flush=True)


def timed(fn: Callable[[], Any]) -> float:
    """Seconds of a call: the median of batches that take a millisecond or more.

    Where the system lets us (root on Linux), other jobs wait for this fraction of a second.
    """
    prefer(True)
    try:
        return _timed(fn)
    finally:
        prefer(False)


def prefer(yes: bool) -> None:
    """Real-time priority for all threads of this process, or back to normal; nothing where that is not allowed."""
    if not hasattr(os, "SCHED_RR"):
        return
    for thread in os.listdir("/proc/self/task"):
        try:
            os.sched_setscheduler(int(thread), os.SCHED_RR if yes else os.SCHED_OTHER, os.sched_param(int(yes)))
        except OSError:
            return


def _timed(fn: Callable[[], Any]) -> float:
    t = time.perf_counter()
    fn()
    once = time.perf_counter() - t
    batch = max(1, int(1e-3 / max(once, 1e-7)))
    taken: list[float] = []
    end = time.perf_counter() + SECONDS
    while not taken or time.perf_counter() < end:
        t = time.perf_counter()
        for _ in range(batch):
            fn()
        taken.append((time.perf_counter() - t) / batch)
    return statistics.median(taken)


class Worker:
    """A process that times the cases of one framework."""

    def __init__(self, python: str, kind: str) -> None:
        env = dict(os.environ, OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
        env["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
        self.process = subprocess.Popen(
            [python, os.path.abspath(__file__), "--work", kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, env=env,
        )  # fmt: skip
        self.cases = json.loads(self._answer() or "[]")

    def _answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def time(self, case: str) -> float:
        assert self.process.stdin is not None
        self.process.stdin.write(case + "\n")
        self.process.stdin.flush()
        return json.loads(self._answer())

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


# ---- starts of fresh processes

_START = """
import time
now = lambda: (time.perf_counter(), time.process_time())
t0 = now()
import {first}
t1 = now()
import fusegrad
from fusegrad import demo
x, y, _, _ = demo.digits()
model = demo.classifier()
opt = fusegrad.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
fusegrad.compiler
t2 = now()
step = fusegrad.compile(demo.step)
step(model, opt, x[:64], y[:64])
step(model, opt, x[:64], y[:64])
t3 = now()
print(t1[0] - t0[0], t1[1] - t0[1], t3[0] - t2[0], t3[1] - t2[1])
"""


Seconds = tuple[float, float]  # on the clock, of the processor


def fresh(first: str, cache: str) -> tuple[Seconds, Seconds]:
    """(time to import ``first``, time of the demo's first two compiled steps) in a new process."""
    env = dict(os.environ, FUSEGRAD_CACHE_DIR=cache, OPENBLAS_NUM_THREADS="1")
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
    out = subprocess.run(
        [sys.executable, "-c", _START.format(first=first)], env=env, capture_output=True, text=True, check=True
    )
    a, b, c, d = map(float, out.stdout.split())
    return (a, b), (c, d)


def starts(rounds: int) -> dict[str, Seconds]:
    """Medians of import, cold compile and warm start."""
    found: dict[str, list[Seconds]] = {"import fusegrad": [], "import numpy": [], "cold": [], "warm": []}
    with tempfile.TemporaryDirectory() as folder:
        fresh("fusegrad", os.path.join(folder, "first"))  # bytecode of the sources
        for i in range(rounds):
            cache = os.path.join(folder, str(i))
            found["cold"].append(fresh("fusegrad", cache)[1])
            took, warm = fresh("fusegrad", cache)
            found["import fusegrad"].append(took)
            found["warm"].append(warm)
            found["import numpy"].append(fresh("numpy", cache)[0])
    return {k: (statistics.median(a for a, _ in v), statistics.median(b for _, b in v)) for k, v in found.items()}


# ---- the table

COMPARED = [  # (what, ours, other worker, other's case, goal on ours / other)
    ("compiled 5-op chain, 8 elements", "compiled chain8", "jax", "compiled chain8", ""),
    ("compiled 5-op chain, 8 elements", "compiled chain8", "torch", "compiled chain8", ""),
    ("eager mul, 8 elements, graph recorded", "mul", "torch", "mul", "<= 1"),
    ("eager tanh, 8 elements, graph recorded", "tanh", "torch", "tanh", "<= 1"),
    ("eager 5-op chain and its gradients, 8 elements", "chain8 grad", "torch", "chain8 grad", ""),
    ("compiled 5-op chain and its gradients", "compiled chain8 grad", "torch", "compiled chain8 grad", ""),
    ("two exps on 1e6 float32, one thread", "compiled exps", "torch", "compiled exps", "<= 1"),
    ("two exps on 1e6 float32, one thread", "compiled exps", "jax", "compiled exps", ""),
    ("demo's training step, compiled / own eager", "compiled step", "own", "step", "<= 0.5"),
    ("demo's training step, compiled / eager of the peer", "compiled step", "torch", "step", "< 1"),
    ("demo's training step, compiled / compiled of the peer", "compiled step", "torch", "compiled step", ""),
]
PEERS = ("torch", "jax")


def compare(rounds: int, peers: str | None) -> list[tuple]:
    """(what, our seconds, other's name, other's seconds, ratio, goal) of every comparison that can be made."""
    workers = {"own": Worker(sys.executable, "fusegrad")}
    if peers:
        workers |= {kind: Worker(peers, kind) for kind in PEERS}
    rows = []
    for what, ours, kind, theirs, goal in COMPARED:
        other = workers.get(kind)
        if other is None or theirs not in other.cases:
            continue
        pairs = [(workers["own"].time(ours), other.time(theirs)) for _ in range(rounds)]
        ratio = statistics.median(a / b for a, b in pairs)
        mine, its = (statistics.median(p[i] for p in pairs) for i in (0, 1))
        rows.append((what, mine, f"{kind}, {theirs}", its, ratio, goal))
        print(f"{what:<55} {mine * 1e6:10.2f} us   {kind:>5} {its * 1e6:10.2f} us   ratio {ratio:.2f}", flush=True)
    for w in workers.values():
        w.close()
    return rows


def machine() -> str:
    """Processor, cores, system, versions, load."""
    import numpy

    name = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo") as file:
            name = next(x.split(":", 1)[1].strip() for x in file if x.startswith("model name"))
    except (OSError, StopIteration):
        pass
    load = f", load {os.getloadavg()[0]:.1f} at the end" if hasattr(os, "getloadavg") else ""
    return (
        f"{name}, {os.cpu_count()} processors, {platform.system()}, Python {platform.python_version()}, "
        f"numpy {numpy.__version__}{load}"
    )


def report(rows: list[tuple], start: dict[str, Seconds], command: str, peers: str | None) -> str:
    """The table as Markdown."""
    lines = [
        "# Results of `make bench`", "",
        f"{datetime.datetime.now():%Y-%m-%d %H:%M}; {machine()}.", f"Command: `{command}`"
        + (" with `PEERS_PYTHON` set." if peers else " (no peers: `PEERS_PYTHON` is not set)."), "",
        "Medians of alternating rounds, one thread each. Compare ratios; microseconds depend on what else runs.", "",
        "| what | ours, us | other | other, us | ratio | goal |", "| --- | ---: | --- | ---: | ---: | --- |",
    ]  # fmt: skip
    lines += [f"| {w} | {a * 1e6:.2f} | {o} | {b * 1e6:.2f} | {r:.2f} | {g} |" for w, a, o, b, r, g in rows]
    us = next((r[1] * 1e6 for r in rows if r[0].startswith("compiled 5-op chain, 8")), None)
    lines += [
        "", "The clock includes waiting for other jobs; the processor's seconds do not.", "",
        "| fresh process | seconds | of the processor | goal |", "| --- | ---: | ---: | --- |",
    ]  # fmt: skip
    if us is not None:
        lines.insert(-4, f"A call of the compiled chain on 8 elements: {us:.2f} us (goal: at most 4).")
        lines.insert(-4, "")
    goals = {"import fusegrad": "<= 0.2", "import numpy": "part of the above", "cold": "<= 3", "warm": "<= 0.5"}
    names = {
        "cold": "demo's step compiled (forward, backward, update), empty cache",
        "warm": "the same from the disk cache, over the import",
    }
    lines += [f"| {names.get(k, k)} | {v[0]:.2f} | {v[1]:.2f} | {goals[k]} |" for k, v in start.items()]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="The numbers that fusegrad promises, as ratios in one run.")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--output", default=os.path.join(HERE, "results.md"))
    parser.add_argument("--work", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        work(args.work)
        return
    peers = os.environ.get("PEERS_PYTHON")
    rows = compare(args.rounds, peers)
    start = starts(min(args.rounds, 5))
    for k, v in start.items():
        print(f"{k:<55} {v[0]:10.3f} s, {v[1]:.3f} s of the processor", flush=True)
    command = "python benchmarks/run.py" + (f" --rounds {args.rounds}" if args.rounds != 7 else "")
    text = report(rows, start, command, peers)
    with open(args.output, "w") as file:
        file.write(text)
    print(f"written to {os.path.relpath(args.output)}")


if __name__ == "__main__":
    main()
