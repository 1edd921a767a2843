"""``gradcheck`` and ``gradgradcheck``: analytic derivatives against central differences, in float64."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..tensor import Tensor, wrap
from .engine import run_grad
from .modes import enable_grad
from .node import Node


class GradcheckError(RuntimeError):
    """The analytic and the numerical Jacobian differ."""


@dataclass
class _Check:
    """One check: the function, its arguments, which of them count, the tolerances."""

    func: Callable[..., Any]
    args: tuple
    wrt: list[int]
    eps: float
    atol: float
    rtol: float
    nondet_tol: float
    forms: list | None = None  # (shape, dtype) of each output at the inputs as they were given

    @property
    def inputs(self) -> list[Tensor]:
        return [self.args[i] for i in self.wrt]

    def call(self, args: tuple | None = None) -> list[Tensor]:
        """The floating point outputs."""
        return _outputs(self.func(*(self.args if args is None else args)))

    def values(self) -> list[np.ndarray]:
        """The outputs' values at the inputs as they are now."""
        with enable_grad():  # func may differentiate, and look at the graph
            outs = self.call()
        for o, (shape, kind) in zip(outs, self.forms or (), strict=self.forms is not None):
            for what, was, now in (("shape", shape, tuple(o.shape)), ("dtype", kind, o.dtype)):
                if was != now:
                    raise AssertionError(
                        f"Expected `func` to return outputs with the same {what} when inputs are perturbed by "
                        f"{self.eps}, but got: {what}s {was} and {now}."
                    )
        return [o.detach().numpy().astype(np.float64).ravel() for o in outs]


def _outputs(r: Any) -> list[Tensor]:
    rs = r if isinstance(r, (tuple, list)) else (r,)
    return [t for t in rs if isinstance(t, Tensor) and t.dtype.is_floating_point]


# ---- numerical


@contextmanager
def _moved(t: Tensor, change: Callable[[np.ndarray], None]) -> Iterator[None]:
    """The memory of ``t`` changed for a moment: functions that read it by another way see the change too."""
    before = t._data.copy()
    try:
        change(t._data)
        yield
    finally:
        np.copyto(t._data, before)


def _difference(c: _Check, t: Tensor, step: Callable[[np.ndarray, float], None]) -> list[np.ndarray]:
    """Central difference of every output when ``step(array, amount)`` moves ``t``."""
    sides = []
    for amount in (c.eps, -c.eps):
        with _moved(t, lambda a, amount=amount: step(a, amount)):  # type: ignore[misc]
            sides.append(c.values())
    return [(a - b) / (2 * c.eps) for a, b in zip(*sides, strict=True)]


def _numerical(c: _Check, i: int) -> list[np.ndarray]:
    """Jacobians d out_k / d args[i] as (out size, in size)."""
    x = c.args[i]
    columns = []
    for at in np.ndindex(*x.shape):

        def step(a: np.ndarray, amount: float, at: tuple = at) -> None:
            a[at] += amount

        columns.append(_difference(c, x, step))
    if not columns:
        return [np.zeros((v.size, 0)) for v in c.values()]
    return [np.stack([col[k] for col in columns], 1) for k in range(len(columns[0]))]


# ---- analytic


def _unit(o: Tensor, row: int) -> Tensor:
    g = np.zeros(o.numel(), o.dtype.np)
    g[row] = 1
    return wrap(g.reshape(tuple(o.shape)))


def _reverse(c: _Check, o: Tensor) -> list[np.ndarray]:
    """Jacobians of one output with respect to each input, a row per backward pass."""
    jac = [np.zeros((o.numel(), t.numel())) for t in c.inputs]
    for row in range(o.numel()):
        for k, r in enumerate(run_grad((o,), c.inputs, (_unit(o, row),), retain_graph=True, allow_unused=True)):
            if r is not None:
                jac[k][row] = r.detach().numpy().ravel()
    return jac


def _push(c: _Check, i: int, tangent: Tensor) -> list[Any]:
    """Tangents of the outputs for a tangent of args[i] (None: zero)."""
    from . import forward_ad

    with forward_ad.dual_level():
        args = list(c.args)
        args[i] = forward_ad.make_dual(args[i].detach(), tangent)
        outs = c.call(tuple(args))
        return [forward_ad.unpack_dual(o).tangent for o in outs]


def _forward(c: _Check, i: int, sizes: list[int]) -> list[np.ndarray]:
    """Jacobians of every output with respect to args[i], a column per run."""
    x = c.args[i]
    jac = [np.zeros((n, x.numel())) for n in sizes]
    for col in range(x.numel()):
        for k, t in enumerate(_push(c, i, _unit(x, col))):
            if t is not None:
                jac[k][:, col] = t.detach().numpy().ravel()
    return jac


# ---- comparisons


def _close(c: _Check, a: np.ndarray, n: np.ndarray) -> bool:
    return bool(np.allclose(a, n, rtol=c.rtol, atol=c.atol, equal_nan=True))


def _mismatch(what: str, k: int, i: int, numerical: Any, analytical: Any, more: str = "") -> GradcheckError:
    return GradcheckError(
        f"{what} mismatch for output {k} with respect to input "
        f"{i},\nnumerical:{numerical}\nanalytical:{analytical}\n{more}"
    )


def _check_reverse(c: _Check, outs: list[Tensor], numeric: list[list[np.ndarray]]) -> None:
    for k, o in enumerate(outs):
        jac = _reverse(c, o) if o.requires_grad else [np.zeros((o.numel(), t.numel())) for t in c.inputs]
        again = _reverse(c, o) if o.requires_grad else jac
        for pos, i in enumerate(c.wrt):
            if not _close(c, jac[pos], numeric[pos][k]):
                raise _mismatch("Jacobian", k, i, numeric[pos][k], jac[pos])
            _check_repeats(c, jac[pos], again[pos])


def _check_repeats(c: _Check, one: np.ndarray, other: np.ndarray) -> None:
    if not np.allclose(one, other, rtol=0, atol=c.nondet_tol, equal_nan=True):
        raise GradcheckError(
            "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times gives "
            "different values, although analytical gradient matches numerical gradient.The tolerance for "
            f"nondeterminism was {c.nondet_tol}. Pass nondet_tol= if the operation may differ from run to run."
        )


def _check_forward(c: _Check, outs: list[Tensor], numeric: list[list[np.ndarray]]) -> None:
    sizes = [o.numel() for o in outs]
    for pos, i in enumerate(c.wrt):
        for k, jac in enumerate(_forward(c, i, sizes)):
            if not _close(c, jac, numeric[pos][k]):
                raise _mismatch("Jacobian computed with forward mode", k, i, numeric[pos][k], jac)


def _check_batched(c: _Check, outs: list[Tensor]) -> None:
    """Gradients for two cotangents at once against one after the other."""
    from .api import grad

    for k, o in enumerate(outs):
        if not o.requires_grad or o.numel() == 0:
            continue
        rng = np.random.default_rng(k)
        cots = wrap(rng.standard_normal((2, *o.shape)).astype(o.dtype.np))
        one = [run_grad((o,), c.inputs, (cots[j],), retain_graph=True, allow_unused=True) for j in range(2)]
        try:
            both = grad(o, c.inputs, cots, retain_graph=True, allow_unused=True, is_grads_batched=True)
        except RuntimeError as e:
            raise GradcheckError(
                f"While computing batched gradients, got: {e}\n\ngradcheck or gradgradcheck failed while "
                f"testing batched "
                "gradient computation. This could have been invoked in a number of ways (via a test that calls "
                "gradcheck/gradgradcheck directly or via an autogenerated test); check_batched_grad=False turns it off."
            ) from e
        for pos, i in enumerate(c.wrt):
            want = [g[pos] for g in one]
            if want[0] is None or both[pos] is None:
                if (want[0] is None) != (both[pos] is None):
                    raise GradcheckError(f"batched and single gradients of input {i} differ: one of them is missing")
                continue
            expected = np.stack([w.detach().numpy() for w in want])
            if not _close(c, both[pos].detach().numpy(), expected):
                raise GradcheckError(
                    f"For output {k} and input {i}: batched gradients differ from single ones,\n"
                    f"batched:{both[pos]}\nsingle:{expected}\n"
                )


def _check_batched_forward(c: _Check) -> None:
    from ..func import jvp, vmap

    for i in c.wrt:
        x = c.args[i].detach()
        if x.numel() == 0:
            continue
        tangents = wrap(np.random.default_rng(i).standard_normal((2, *x.shape)).astype(x.dtype.np))

        def push(t: Tensor, i: int = i, x: Tensor = x) -> tuple:
            return jvp(lambda y: tuple(c.call((*c.args[:i], y, *c.args[i + 1 :]))), (x,), (t,))[1]

        for got, a, b in zip(vmap(push)(tangents), push(tangents[0]), push(tangents[1]), strict=True):
            if not _close(c, got.detach().numpy(), np.stack([a.detach().numpy(), b.detach().numpy()])):
                raise GradcheckError(f"For input {i}: batched forward gradients differ from single ones")


def _nodes(outs: list[Tensor]) -> list[Any]:
    """All nodes of the graph of ``outs``, the last first."""
    met: dict[int, Any] = {}
    todo: list[Any] = [o.grad_fn for o in outs]
    while todo:
        node = todo.pop()
        if isinstance(node, Node) and id(node) not in met:
            met[id(node)] = node
            todo += list(node.edges)
    return sorted(met.values(), key=lambda n: -n.seq)


def _check_undefined(c: _Check, outs: list[Tensor]) -> None:
    """No gradient in, none (or zero) out: for each output alone, and for custom Functions for all outputs at once.
    Hooks of inner tensors get None then."""
    from .function import FunctionNode
    from .hook_calls import call_hooks

    message = "Expected all input grads to be undefined or zero when all output grads are undefined or zero."
    live = [o for o in outs if o.requires_grad]
    found: list[Any] = []
    last = {id(o.grad_fn) for o in live}
    for node in _nodes(live):
        for hooks in list(node.hooks["tensor"].values()) if node.hooks else ():
            call_hooks(hooks, None)  # type: ignore[arg-type]
        if id(node) in last and isinstance(node, FunctionNode):
            found += [g for g in node.apply([None] * node.n_out) if g is not None]
    for i in range(len(live) if len(live) > 1 else 0):
        rest = live[:i] + live[i + 1 :]
        zeros = [wrap(np.zeros(tuple(o.shape), o.dtype.np)) for o in rest]
        found += [g for g in run_grad(rest, c.inputs, zeros, retain_graph=True, allow_unused=True) if g is not None]
    if any(isinstance(g, Tensor) and np.any(g.detach().numpy()) for g in found):
        raise GradcheckError(message + " A backward must treat a missing gradient as zero (see set_materialize_grads).")


def _check_fast(c: _Check, outs: list[Tensor], backward: bool, forward: bool) -> None:
    """One random projection u^T J v for each output and input."""
    rng = np.random.default_rng(0)

    def direction(n: int) -> np.ndarray:
        v = rng.uniform(0.1, 1, n)
        return v / np.linalg.norm(v) if n else v

    us = [direction(o.numel()) for o in outs]
    for i in c.wrt:
        x = c.args[i]
        v = direction(x.numel())
        vx = v.reshape(tuple(x.shape)).astype(x.dtype.np)

        def step(a: np.ndarray, amount: float, vx: np.ndarray = vx) -> None:
            a += (amount * vx).astype(a.dtype)

        moved = _difference(c, x, step)
        pushed = _push(c, i, wrap(vx)) if forward else None
        for k, (o, u) in enumerate(zip(outs, us, strict=True)):
            n = float(u @ moved[k])
            atol = c.atol * float(u.sum() * v.sum())
            if backward:
                cot = wrap(u.reshape(tuple(o.shape)).astype(o.dtype.np))
                twice = [
                    run_grad((o,), (x,), (cot,), retain_graph=True, allow_unused=True)[0] if o.requires_grad else None
                    for _ in range(2)
                ]
                r, again = (None if g is None else g.detach().numpy().ravel() for g in twice)
                _compare_fast(c, "Jacobian", k, i, n, 0.0 if r is None else float(r @ v), atol)
                if r is not None and again is not None:
                    _check_repeats(c, r, again)
            if pushed is not None:
                t = pushed[k]
                a = 0.0 if t is None else float(u @ t.detach().numpy().ravel())
                _compare_fast(c, "Jacobian computed with forward mode", k, i, n, a, atol)


def _compare_fast(c: _Check, what: str, k: int, i: int, n: float, a: float, atol: float) -> None:
    if np.allclose(a, n, rtol=c.rtol, atol=atol, equal_nan=True):
        return
    full = _numerical(c, i)[k]
    outs = c.call()
    slow = _reverse(c, outs[k])[c.wrt.index(i)] if what == "Jacobian" else _forward(c, i, [o.numel() for o in outs])[k]
    raise _mismatch(
        what,
        k,
        i,
        n,
        a,
        (
            "\nThe above quantities are projections (fast mode). The whole Jacobians:\n"
            f"\nNumerical:\n{full}\nAnalytical:\n{slow}\n\nThe max per-element difference (slow mode) is: "
            f"{np.abs(full - slow).max(initial=0)}.\n"
        ),
    )


def _check_inputs(args: tuple) -> list[int]:
    wrt = [i for i, t in enumerate(args) if isinstance(t, Tensor) and t.requires_grad]
    if not wrt:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them have requires_grad=True."
        )
    for i in wrt:
        t = args[i]
        if t.dtype.name != "float64":
            warnings.warn(
                f"Input #{i} requires gradient and is not a double precision floating point. This check will "
                f"likely fail if all "
                "the inputs are not of double precision floating point.",
                stacklevel=4,
            )
        if any(s == 0 and n > 1 for s, n in zip(t.stride(), t.shape, strict=True)):
            raise RuntimeError(
                f"The {i}th input has a dimension with stride 0. gradcheck only supports inputs that are "
                f"non-overlapping to be "
                "able to compute the numerical gradients correctly. You should call .contiguous on the input "
                "before passing it "
                "to gradcheck."
            )
    return wrt


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Compare the derivatives of ``func`` with central differences; inputs that count require grad and are float64.

    ``check_backward_ad``, ``check_forward_ad``: which mode; ``check_batched_grad``, ``check_batched_forward_grad``:
    also many at once by vmap; ``check_undefined_grad``: missing gradients count as zero; ``nondet_tol``: how much two
    backward passes may differ; ``fast_mode``: one random projection instead of whole Jacobians. Gradients always have
    their input's dtype, and there are no sparse tensors, so ``check_grad_dtypes`` and ``masked`` change nothing.

    Returns True, or raises GradcheckError (returns False with ``raise_exception=False``) on a mismatch.
    """
    if not (check_forward_ad or check_backward_ad):
        raise AssertionError("Expected at least one of check_forward_ad or check_backward_ad to be True")
    if check_batched_grad and not check_backward_ad:
        raise AssertionError("Setting check_batched_grad=True requires check_backward_ad to be True")
    if check_batched_forward_grad and not check_forward_ad:
        raise AssertionError("Setting check_batched_forward_grad=True requires check_forward_ad to be True")
    args = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    c = _Check(func, args, _check_inputs(args), eps, atol, rtol, nondet_tol)
    try:
        with enable_grad():
            outs = c.call()
        c.forms = [(tuple(o.shape), o.dtype) for o in outs]
        if check_backward_ad and not any(o.requires_grad for o in outs):
            numeric = [_numerical(c, i) for i in c.wrt]
            if any(np.abs(j).max(initial=0) > atol for js in numeric for j in js):
                raise GradcheckError("Numerical gradient for function expected to be zero")
            return True
        if fast_mode:
            _check_fast(c, outs, check_backward_ad, check_forward_ad)
        else:
            numeric = [_numerical(c, i) for i in c.wrt]
            if check_forward_ad:
                _check_forward(c, outs, numeric)
            if check_backward_ad:
                _check_reverse(c, outs, numeric)
        if check_batched_forward_grad:
            _check_batched_forward(c)
        if check_backward_ad and check_batched_grad:
            _check_batched(c, outs)
        if check_backward_ad and check_undefined_grad:
            _check_undefined(c, outs)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _watched(x: Tensor) -> Tensor:
    """``x``, or a copy that requires grad on the level of ``x`` (a dual tensor does not by itself)."""
    if x.requires_grad:
        return x
    from ..func.levels import lifted

    return lifted(x)._ask_grad(True)


def _cotangents(outs: list[Tensor], non_contiguous: bool) -> list[Tensor]:
    rng = np.random.default_rng(0)
    cots = []
    for o in outs:
        g = rng.standard_normal((*o.shape, 2) if non_contiguous else tuple(o.shape)).astype(o.dtype.np)
        cots.append(wrap(np.asarray(g[..., 0] if non_contiguous else g)).requires_grad_())
    return cots


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """``gradcheck`` of the gradient of ``func``, with random cotangents if none are given.

    ``check_rev_over_rev``, ``check_fwd_over_rev``: the mode of the second derivative.
    The other options are gradcheck's.
    """
    if not (check_fwd_over_rev or check_rev_over_rev):
        raise AssertionError("Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True")
    args = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    wanted = _check_inputs(args)
    if grad_outputs is None:
        cots = _cotangents([o for o in _outputs(func(*args)) if o.requires_grad], gen_non_contig_grad_outputs)
    else:
        cots = list(grad_outputs) if isinstance(grad_outputs, (tuple, list)) else [grad_outputs]
    n = len(args)

    def first_order(*both: Any) -> tuple:
        xs = [_watched(x) if i in wanted else x for i, x in enumerate(both[:n])]
        with enable_grad():
            ys = [o for o in _outputs(func(*xs)) if o.requires_grad]
            r = run_grad(ys, [xs[i] for i in wanted], both[n:], create_graph=True, allow_unused=True)
        return tuple(g for g in r if g is not None)

    return gradcheck(
        first_order,
        (*args, *cots),
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        fast_mode=fast_mode,
    )
