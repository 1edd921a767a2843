"""``fusegrad bench``: eager against compiled on built-in workloads, or on the user's ``module:function``.

A workload is a callable without arguments that returns ``(function, args)``.
"""

from __future__ import annotations

import importlib
import os
import random
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import fusegrad as fg

Workload = Callable[[], tuple[Callable[..., Any], tuple]]


def _rand(*shape: int, grad: bool = False) -> Any:
    t = fg.from_numpy(np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32))
    return t.requires_grad_() if grad else t


def chain_8() -> tuple:
    """Five elementwise operators on 8 elements: call overhead."""
    return (lambda x, w: fg.tanh(x * w + 1.0) * x - w), (_rand(8), _rand(8))


def chain_1m() -> tuple:
    """Two exps and arithmetic on a million elements."""
    return (lambda x, y: fg.exp(-x * x) * y + fg.exp(y * 0.5)), (_rand(1000, 1000), _rand(1000, 1000))


def softmax() -> tuple:
    """Softmax over the last dimension of 4096 x 1000."""
    return (lambda x: fg.softmax(x, -1)), (_rand(4096, 1000),)


def layer_norm() -> tuple:
    """Layer norm with weight and bias over 4096 x 768, with gradients."""
    return (lambda x, w, b: fg.nn.functional.layer_norm(x, (768,), w, b)), (
        _rand(4096, 768, grad=True),
        _rand(768, grad=True),
        _rand(768, grad=True),
    )


def mlp() -> tuple:
    """Loss of a 64-128-64-10 classifier on a batch of 64, with gradients of the input."""
    fg.manual_seed(0)
    nn = fg.nn
    net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))
    y = fg.from_numpy(np.arange(64) % 10)
    return (lambda x: nn.functional.cross_entropy(net(x), y)), (_rand(64, 64, grad=True),)


WORKLOADS: dict[str, Workload] = {f.__name__: f for f in (chain_8, chain_1m, softmax, layer_norm, mlp)}


def find(name: str) -> Workload:
    """A built-in workload, or the object that ``module:function`` names. LookupError says what is wrong."""
    if ":" not in name:
        if name not in WORKLOADS:
            raise LookupError(f"no workload {name!r}; built in are {', '.join(WORKLOADS)}; your own is module:function")
        return WORKLOADS[name]
    module, _, attr = name.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    found: Any = importlib.import_module(module)
    for part in attr.split("."):
        if not hasattr(found, part):
            raise LookupError(f"module {module!r} has no {attr!r}")
        found = getattr(found, part)
    return found


def load(name: str) -> tuple[Callable[..., Any], tuple]:
    """The function and arguments of a workload, made from a fixed seed."""
    make = find(name)
    if not callable(make):
        raise TypeError(f"{name} must be callable and return (function, tuple of arguments)")
    _seed()
    made = make()
    if not (isinstance(made, tuple) and len(made) == 2 and callable(made[0]) and isinstance(made[1], tuple)):
        raise TypeError(f"{name} must return (function, tuple of arguments)")
    return made


def _seed() -> None:
    fg.manual_seed(0)
    np.random.seed(0)
    random.seed(0)


def _tensors(tree: Any) -> list[Any]:
    leaves = fg.pytree.tree_flatten(tree)[0]
    return [t for t in leaves if isinstance(t, fg.Tensor)]


def once(fn: Callable[..., Any], args: tuple) -> tuple[list, list]:
    """Outputs, and gradients of the inputs that require them (of the sum of the outputs)."""
    outs = _tensors(fn(*args))
    wrt = [t for t in _tensors(args) if t.requires_grad]
    live = [o for o in outs if o.requires_grad]
    if not wrt or not live:
        return outs, []
    cots = [fg.ones_like(o) for o in live]
    return outs, list(fg.autograd.grad(live, wrt, cots, allow_unused=True))


def difference(a: list, b: list) -> float:
    """Largest difference relative to the largest value."""
    worst = 0.0
    for x, y in zip(a, b, strict=True):
        if x is None or y is None:
            if x is not y:
                return float("inf")
            continue
        p, q = (t.detach().numpy().astype(np.float64) for t in (x, y))
        if p.size:
            worst = max(worst, float(np.abs(p - q).max() / max(np.abs(p).max(), 1e-30)))
    return worst


def timed(fn: Callable[..., Any], args: tuple, seconds: float) -> list[float]:
    """Seconds of each call, for about ``seconds`` in all."""
    out: list[float] = []
    end = time.perf_counter() + seconds
    while not out or time.perf_counter() < end:
        t = time.perf_counter()
        once(fn, args)
        out.append(time.perf_counter() - t)
    return out


def _copied(results: tuple[list, list]) -> tuple[list, list]:
    """Results that later calls can't change."""
    return tuple([t if t is None else t.detach().clone() for t in part] for part in results)  # type: ignore[return-value]


def measure(name: str, seconds: float) -> dict[str, Any]:
    """All figures of one workload. It is made twice: a training step starts from the same state in both ways."""
    fn, args = load(name)
    again, same_args = load(name)
    fg.compiler.reset()
    compiled = fg.compile(again)
    _seed()
    want = _copied(once(fn, args))
    before = fg.compiler.stats()
    _seed()
    t = time.perf_counter()
    got = _copied(once(compiled, same_args))
    first = time.perf_counter() - t
    eager_s = statistics.median(timed(fn, args, seconds))
    compiled_s = statistics.median(timed(compiled, same_args, seconds))
    after = fg.compiler.stats()
    gain = eager_s - compiled_s
    return {
        "name": name,
        "eager_us": eager_s * 1e6,
        "compiled_us": compiled_s * 1e6,
        "speedup": eager_s / compiled_s,
        "compile_seconds": after["compile_seconds"] - before["compile_seconds"],
        "compiles": after["compiles"] - before["compiles"],
        "recompiles": after["recompiles"] - before["recompiles"],
        "graph_breaks": after["graph_breaks"] - before["graph_breaks"],
        "value_difference": difference(want[0], got[0]),
        "gradient_difference": difference(want[1], got[1]),
        "calls_until_paid": int(first / gain) + 1 if gain > 0 else None,
    }


def run(names: list[str], seconds: float, quiet: bool = False) -> list[dict[str, Any]]:
    """Measure the named workloads (all built-in ones by default) and print a table unless ``quiet``."""
    out: list[dict[str, Any]] = []
    head = (
        f"{'workload':<24}{'eager us':>12}{'compiled us':>13}{'speedup':>9}{'compile s':>11}{'recomp.':>9}"
        f"{'values':>9}{'grads':>9}{'paid after':>14}"
    )
    for name in names or list(WORKLOADS):
        r = measure(name, seconds)
        if not quiet and not out:
            print(head)
        out.append(r)
        if not quiet:
            paid = r["calls_until_paid"]
            print(
                f"{r['name']:<24}{r['eager_us']:>12.1f}{r['compiled_us']:>13.1f}{r['speedup']:>8.1f}x"
                f"{r['compile_seconds']:>11.3f}{r['recompiles']:>9}{r['value_difference']:>9.0e}"
                f"{r['gradient_difference']:>9.0e}{('never' if paid is None else f'{paid} calls'):>14}",
                flush=True,
            )
    return out
