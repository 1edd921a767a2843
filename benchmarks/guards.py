"""What the guards of a call cost: nanoseconds of the one function that all guards of an entry compile into.

    python benchmarks/guards.py [--show]

Goals (issue 4): at most 1 microsecond for a function of two tensors, at most 15 for a module of 100 parameters.
Minima of many short rounds; the time of an empty function of the same parameters is taken off.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

from fusegrad.compiler import report

import fusegrad as T

nn = T.nn


def two_tensors() -> tuple[Callable[..., Any], tuple]:
    return lambda x, y: T.tanh(x * y + 1.0) * x - y, (T.randn(8), T.randn(8))


def hundred_parameters() -> tuple[Callable[..., Any], tuple]:
    """25 blocks of a linear layer and a layer norm."""
    model = nn.Sequential(*[nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8)) for _ in range(25)])
    assert len(list(model.parameters())) == 100
    return lambda x: model(x), (T.randn(4, 8),)


def own_modules() -> tuple[Callable[..., Any], tuple]:
    """The same number of parameters in classes of the user's, with settings read in forward."""

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.fc, self.scale = nn.LayerNorm(8), nn.Linear(8, 8), 0.5

        def forward(self, x: Any) -> Any:
            return x + self.fc(self.norm(x)) * self.scale

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList(Block() for _ in range(25))

        def forward(self, x: Any) -> Any:
            for block in self.blocks:
                x = block(x)
            return x

    model = Model()
    return lambda x: model(x), (T.randn(4, 8),)


def training_step() -> tuple[Callable[..., Any], tuple]:
    """A step with Adam: 100 parameters, 300 tensors of state."""
    f, (x,) = hundred_parameters()
    model = f.__closure__[0].cell_contents  # type: ignore[attr-defined]
    opt = T.optim.Adam(model.parameters(), 1e-3)

    def step(x: Any) -> Any:
        opt.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        opt.step()
        return loss.detach()

    return step, (x,)


CASES = {
    "two tensors": (two_tensors, 1.0), "100 parameters": (hundred_parameters, 15.0),
    "100 parameters, own classes": (own_modules, 15.0), "training step, 100 parameters, Adam": (training_step, None),
}  # fmt: skip


def measure(make: Callable[[], tuple], show: bool) -> tuple[float, int]:
    """(microseconds, number of conditions)"""
    T.compiler.reset()
    f, args = make()
    compiled = T.compile(f, options={"interpret": True})
    for _ in range(3):
        compiled(*args)
    (cache,) = [c for c in report.CACHES if c.func is f]
    unit = cache.units["top"]
    entry = unit.entries[0]
    names = ", ".join(unit.names)
    made: dict[str, Any] = {}
    exec(
        f"def guard({names}):\n    return {entry.program.text}\ndef empty({names}):\n    return True\n",
        cache.consts.env,
        made,
    )
    if show:
        print("\n".join("  " + line for line in entry.program.show()))
    assert made["guard"](*args)
    best = {"guard": 1e9, "empty": 1e9}
    for _ in range(300):
        for name in best:
            fn = made[name]
            t = time.perf_counter()
            for _ in range(100):
                fn(*args)
            best[name] = min(best[name], (time.perf_counter() - t) * 1e4)
    return best["guard"] - best["empty"], len(entry.program.all_guards)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--show", action="store_true", help="print the conditions")
    show = parser.parse_args().show
    late = []
    for name, (make, goal) in CASES.items():
        us, n = measure(make, show)
        print(f"{name:40} {us:8.2f} us   {n:5d} conditions   goal {goal or '-'}")
        late += [name] if goal is not None and us > goal else []
    sys.exit(bool(late))


if __name__ == "__main__":
    main()
