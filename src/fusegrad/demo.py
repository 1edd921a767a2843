"""``make demo``: train a digit classifier eager and compiled, compare, export, load elsewhere, refuse a wrong input."""

from __future__ import annotations

import importlib.resources
import os
import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np

import fusegrad as fg

EPOCHS, BATCH, CLIP = 20, 64, 2.0


def digits() -> tuple[Any, Any, Any, Any]:
    """(train images (n, 64) float32 in 0..1, train labels, held-out images, held-out labels); a fifth is held out."""
    path = importlib.resources.files("fusegrad") / "data" / "digits.npz"
    with path.open("rb") as f, np.load(f, allow_pickle=False) as z:
        images, labels = z["images"].reshape(-1, 64), z["labels"].astype(np.int64)
    order = np.random.default_rng(0).permutation(len(labels))
    x = (images[order] / 16).astype(np.float32)
    y = labels[order]
    cut = len(y) // 5
    return tuple(fg.from_numpy(a) for a in (x[cut:], y[cut:], x[:cut], y[:cut]))  # type: ignore[return-value]


def classifier() -> Any:
    """A small multi-layer perceptron with dropout."""
    nn = fg.nn
    return nn.Sequential(
        nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10)
    )


def step(model: Any, opt: Any, x: Any, y: Any) -> Any:
    """One training step: forward, backward, clip the gradients when they are large, update."""
    opt.zero_grad()
    loss = fg.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    norm = sum((p.grad * p.grad).sum() for p in model.parameters()).sqrt()
    if norm > CLIP:
        for p in model.parameters():
            p.grad.mul_(CLIP / norm)
    opt.step()
    return loss.detach()


def train(step_fn: Any, x: Any, y: Any, epochs: int, say: Any) -> dict[str, Any]:
    """Train from a fixed seed; losses and seconds of every step."""
    fg.manual_seed(0)
    model = classifier()
    opt = fg.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses, seconds = [], []
    n = x.shape[0]
    for epoch in range(epochs):
        order = fg.randperm(n)
        for i in range(0, n, BATCH):
            idx = order[i : i + BATCH]
            xb, yb = x[idx], y[idx]
            t = time.perf_counter()
            loss = step_fn(model, opt, xb, yb)
            seconds.append(time.perf_counter() - t)
            losses.append(loss.item())
        say(epoch + 1, epochs, float(np.mean(losses[-(n // BATCH + 1) :])))
    return {"model": model, "losses": np.array(losses), "seconds": np.array(seconds)}


def accuracy(model: Any, x: Any, y: Any) -> float:
    """Share of right answers on held-out digits."""
    model.eval()
    with fg.no_grad():
        right = (model(x).argmax(1) == y).sum().item()
    model.train()
    return right / y.shape[0]


def paid_after(eager: np.ndarray, compiled: np.ndarray) -> int | None:
    """After how many steps the compiled run, compiling included, was ahead; None if it never was."""
    typical = float(np.median(eager))
    steps = np.arange(1, len(compiled) + 1)
    ahead = np.nonzero(np.cumsum(compiled) <= typical * steps)[0]
    if len(ahead):
        return int(ahead[0]) + 1
    rest = float(np.median(compiled))
    if rest >= typical:
        return None
    behind = float(compiled.sum()) - typical * len(compiled)
    return len(compiled) + int(np.ceil(behind / (typical - rest)))


_CHECK = """
import sys, numpy as np, fusegrad as fg
path, x, want = sys.argv[1:]
program = fg.export.load(path)
got = program.module()(fg.from_numpy(np.load(x))).detach().numpy()
want = np.load(want)
assert got.shape == want.shape, (got.shape, want.shape)
print(float(np.abs(got - want).max()))
"""


def export_and_check(model: Any, x: Any) -> dict[str, Any]:
    """Export with a dynamic batch, load in a fresh process, compare there; then call with a refused input."""
    model.eval()
    batch = fg.export.Dim("batch", min=2, max=1024)
    program = fg.export.export(model, (x[:BATCH],), dynamic_shapes=({0: batch},))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "digits.fgx")
        fg.export.save(program, path)
        size = os.path.getsize(path)
        with fg.no_grad():
            want = model(x[:37])
        np.save(os.path.join(folder, "x.npy"), x[:37].numpy())
        np.save(os.path.join(folder, "want.npy"), want.numpy())
        out = subprocess.run(
            [sys.executable, "-c", _CHECK, path, os.path.join(folder, "x.npy"), os.path.join(folder, "want.npy")],
            capture_output=True,
            text=True,
            cwd=folder,
        )
        if out.returncode:
            raise RuntimeError(f"the exported classifier failed in a fresh process:\n{out.stderr}")
        loaded = fg.export.load(path).module()
        try:
            loaded(x[:1])
        except Exception as e:  # noqa: BLE001  (the refusal is what is shown)
            refusal = f"{type(e).__name__}: {e}"
        else:
            raise AssertionError("a batch of 1 was accepted, though the file says 2..1024")
    return {"bytes": size, "difference": float(out.stdout), "refusal": refusal.splitlines()[0]}


def run(epochs: int = EPOCHS) -> dict[str, Any]:
    """The whole demonstration; prints as it goes and returns the figures."""
    x, y, x_test, y_test = digits()
    print(f"{x.shape[0]} digits to train on, {x_test.shape[0]} held out; {epochs} epochs, batches of {BATCH}")
    eager = train(step, x, y, epochs, _progress("eager"))
    fg.compiler.reset()
    compiled_step = fg.compile(step)
    compiled = train(compiled_step, x, y, epochs, _progress("compiled"))
    stats = fg.compiler.stats()
    per_epoch = -(-x.shape[0] // BATCH)
    ten = slice(0, 10 * per_epoch)
    a, b = eager["losses"][ten], compiled["losses"][ten]
    report = {
        "accuracy eager": accuracy(eager["model"], x_test, y_test),
        "accuracy compiled": accuracy(compiled["model"], x_test, y_test),
        "loss difference": float((np.abs(a - b) / np.maximum(np.abs(a), 1e-6)).max()),
        "ms eager": 1e3 * float(np.median(eager["seconds"])),
        "ms compiled": 1e3 * float(np.median(compiled["seconds"][per_epoch:])),
        "stats": stats,
        "paid after": paid_after(eager["seconds"], compiled["seconds"]),
        "breaks": [
            str(r)
            for r in fg.compiler.explain(step)(
                compiled["model"], fg.optim.SGD(compiled["model"].parameters(), lr=0.0), x[:BATCH], y[:BATCH]
            ).break_reasons
        ],
    }
    report["export"] = export_and_check(compiled["model"], x_test)
    show(report)
    return report


def _progress(label: str) -> Any:
    def say(done: int, total: int, loss: float) -> None:
        bar = "#" * (20 * done // total)
        end = "\n" if done == total else "\r" if sys.stdout.isatty() else None
        if end is not None:
            print(f"  {label:9s} [{bar:20s}] epoch {done:2d}/{total}  loss {loss:.4f}", end=end, flush=True)

    return say


def show(r: dict[str, Any]) -> None:
    """The closing table."""
    s = r["stats"]
    rows = [
        ("accuracy on the held-out fifth", f"{r['accuracy eager']:.2%} eager, {r['accuracy compiled']:.2%} compiled"),
        ("largest relative loss difference, 10 epochs", f"{r['loss difference']:.1e}"),
        (
            "milliseconds a step",
            f"{r['ms eager']:.3f} eager, {r['ms compiled']:.3f} compiled "
            f"({r['ms eager'] / r['ms compiled']:.1f} times faster)",
        ),
        ("compile seconds", f"{s['compile_seconds']:.2f}"),
        ("compiles, recompiles, graph breaks", f"{s['compiles']}, {s['recompiles']}, {s['graph_breaks']}"),
        ("compiling had paid after", f"{r['paid after']} steps" if r["paid after"] else "not within this run"),
        (
            "exported file",
            f"{r['export']['bytes']} bytes; largest difference in a fresh process {r['export']['difference']:.1e}",
        ),
        ("refused input", r["export"]["refusal"]),
    ]
    width = max(len(k) for k, _ in rows)
    print()
    for k, v in rows:
        print(f"{k:<{width}}  {v}")
    for i, reason in enumerate(r["breaks"]):
        head = "graph break" if i == 0 else ""
        lines = reason.splitlines()
        print(f"{head:<{width}}  {lines[0]}")
        for line in lines[1:]:
            print(f"{'':<{width}}  {line}")
