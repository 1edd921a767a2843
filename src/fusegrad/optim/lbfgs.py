"""L-BFGS with an optional strong Wolfe line search (Nocedal and Wright, Numerical Optimization, chapters 3 and 7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fusegrad
from fusegrad.autograd.modes import enable_grad, no_grad
from fusegrad.optim.optimizer import Optimizer, settings
from fusegrad.tensor import Tensor


def _cubic_minimum(x1: float, f1: float, g1: float, x2: float, f2: float, g2: float, bounds: Any = None) -> float:
    """Minimum of the cubic through two points with slopes, kept within `bounds` (Nocedal and Wright, 3.59)."""
    low, high = bounds if bounds is not None else ((x1, x2) if x1 <= x2 else (x2, x1))
    d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
    square = d1**2 - g1 * g2
    if square < 0:
        return (low + high) / 2.0
    d2 = square**0.5
    if x1 <= x2:
        at = x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2 * d2))
    else:
        at = x1 - (x1 - x2) * ((g1 + d2 - d1) / (g1 - g2 + 2 * d2))
    return min(max(at, low), high)


class _Point:
    """A step length with the loss, the gradient and its slope along the direction."""

    __slots__ = ("t", "f", "g", "slope")

    def __init__(self, t: float, f: float, g: Tensor, slope: float):
        self.t, self.f, self.g, self.slope = t, f, g, slope


def _strong_wolfe(
    evaluate: Callable[[float], _Point],
    t: float,
    start: _Point,
    d_max: float,
    c1: float = 1e-4,
    c2: float = 0.9,
    tolerance: float = 1e-9,
    max_ls: int = 25,
) -> tuple[_Point, int]:
    """A step that satisfies the strong Wolfe conditions, and the number of evaluations spent."""
    point = evaluate(t)
    evals, steps = 1, 0
    before, bracket, done = start, [], False
    while steps < max_ls:  # bracketing
        if point.f > start.f + c1 * point.t * start.slope or (steps > 1 and point.f >= before.f):
            bracket = [before, point]
            break
        if abs(point.slope) <= -c2 * start.slope:
            bracket, done = [point], True
            break
        if point.slope >= 0:
            bracket = [before, point]
            break
        low = point.t + 0.01 * (point.t - before.t)
        t = _cubic_minimum(before.t, before.f, before.slope, point.t, point.f, point.slope, bounds=(low, point.t * 10))
        before, point = point, evaluate(t)
        evals, steps = evals + 1, steps + 1
    if steps == max_ls:
        bracket = [start, point]
    low, high = (0, 1) if bracket[0].f <= bracket[-1].f else (1, 0)
    stuck = False
    while not done and steps < max_ls:  # zoom
        a, b = bracket
        if abs(b.t - a.t) * d_max < tolerance:
            break
        t = _cubic_minimum(a.t, a.f, a.slope, b.t, b.f, b.slope)
        span = max(a.t, b.t) - min(a.t, b.t)
        near = min(max(a.t, b.t) - t, t - min(a.t, b.t))
        if near / span < 0.1:  # too close to an end: move inside if it happens twice
            if stuck or t >= max(a.t, b.t) or t <= min(a.t, b.t):
                right, left = max(a.t, b.t), min(a.t, b.t)
                t = right - 0.1 * span if abs(t - right) < abs(t - left) else left + 0.1 * span
                stuck = False
            else:
                stuck = True
        else:
            stuck = False
        point = evaluate(t)
        evals, steps = evals + 1, steps + 1
        if point.f > start.f + c1 * point.t * start.slope or point.f >= bracket[low].f:
            bracket[high] = point
            low, high = (0, 1) if bracket[0].f <= bracket[1].f else (1, 0)
        else:
            if abs(point.slope) <= -c2 * start.slope:
                done = True
            elif point.slope * (bracket[high].t - bracket[low].t) >= 0:
                bracket[high] = bracket[low]
            bracket[low] = point
    return bracket[low if len(bracket) > 1 else 0], evals


class LBFGS(Optimizer):
    """Limited-memory BFGS; `step` needs a closure that computes the loss and its gradients."""

    def __init__(
        self,
        params: Any,
        lr: Any = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ):
        if max_eval is None:
            max_eval = max_iter * 5 // 4
        super().__init__(params, settings(locals(), "lr"))
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params = self.param_groups[0]["params"]

    def __setstate__(self, state: dict) -> None:
        super().__setstate__(state)
        self._params = self.param_groups[0]["params"]

    def _gather(self) -> Tensor:
        flat = [(p.new_zeros(p.numel()) if p.grad is None else p.grad.reshape(-1)) for p in self._params]
        return fusegrad.cat(flat)

    def _move(self, size: float, direction: Tensor) -> None:
        offset = 0
        for p in self._params:
            n = p.numel()
            p.add_(direction[offset : offset + n].view(p.shape), alpha=size)
            offset += n

    def step(self, closure: Callable | None = None) -> Any:
        """Up to max_iter iterations; returns the loss of the first evaluation."""
        if closure is None:
            raise TypeError("LBFGS.step() missing 1 required positional argument: 'closure'")
        with no_grad():
            return self._run(closure)

    def _run(self, closure: Callable) -> Any:
        group, state = self.param_groups[0], self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        with enable_grad():
            first = closure()
        loss, evals = float(first), 1
        state["func_evals"] += 1
        grad = self._gather()
        if float(grad.abs().max()) <= group["tolerance_grad"]:
            return first
        iterations = 0
        while iterations < group["max_iter"]:
            iterations += 1
            state["n_iter"] += 1
            direction = self._direction(state, group, grad)
            state["prev_flat_grad"] = grad.clone()
            state["prev_loss"] = loss
            lr = float(group["lr"])
            t = min(1.0, 1.0 / float(grad.abs().sum())) * lr if state["n_iter"] == 1 else lr
            slope = float(grad.dot(direction))
            if slope > -group["tolerance_change"]:
                state["d"], state["t"] = direction, t
                break
            last = iterations == group["max_iter"]
            loss, grad, t, used = self._advance(closure, group, direction, t, loss, grad, slope, last)
            evals += used
            state["func_evals"] += used
            state["d"], state["t"] = direction, t
            flat = float(grad.abs().max()) <= group["tolerance_grad"]
            small = float((direction * t).abs().max()) <= group["tolerance_change"]
            still = abs(loss - state["prev_loss"]) < group["tolerance_change"]
            if last or evals >= group["max_eval"] or flat or small or still:
                break
        return first

    def _direction(self, state: dict, group: dict, grad: Tensor) -> Tensor:
        """-H * grad by the two-loop recursion, after taking the last step into the history."""
        if state["n_iter"] == 1:
            state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1)
            return -grad
        dirs, steps, ro = state["old_dirs"], state["old_stps"], state["ro"]
        y = grad - state["prev_flat_grad"]
        s = state["d"] * state["t"]
        ys = float(y.dot(s))
        if ys > 1e-10:
            if len(dirs) == group["history_size"]:
                for kept in (dirs, steps, ro):
                    kept.pop(0)
            dirs.append(y)
            steps.append(s)
            ro.append(1.0 / ys)
            state["H_diag"] = ys / float(y.dot(y))
        q, al = -grad, [0.0] * len(dirs)
        for i in range(len(dirs) - 1, -1, -1):
            al[i] = float(steps[i].dot(q)) * ro[i]
            q = q.add(dirs[i], alpha=-al[i])
        d = q * state["H_diag"]
        for i in range(len(dirs)):
            d = d.add(steps[i], alpha=al[i] - float(dirs[i].dot(d)) * ro[i])
        state["al"] = al
        return d

    def _advance(
        self, closure: Callable, group: dict, d: Tensor, t: float, loss: float, grad: Tensor, slope: float, last: bool
    ) -> tuple:
        search = group["line_search_fn"]
        if search is None:
            self._move(t, d)
            if last:
                return loss, grad, t, 0
            with enable_grad():
                loss = closure()
            return float(loss), self._gather(), t, 1
        if search != "strong_wolfe":
            raise RuntimeError("only 'strong_wolfe' is supported")
        start = [p.clone() for p in self._params]

        def evaluate(at: float) -> _Point:
            self._move(at, d)
            with enable_grad():
                loss = closure()
            f, g = float(loss), self._gather()
            for p, kept in zip(self._params, start, strict=False):
                p.copy_(kept)
            return _Point(at, f, g, float(g.dot(d)))

        found, evals = _strong_wolfe(evaluate, t, _Point(0.0, loss, grad, slope), float(d.abs().max()))
        self._move(found.t, d)
        return found.f, found.g, found.t, evals
