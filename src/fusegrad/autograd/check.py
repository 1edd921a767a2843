"""``gradcheck`` and ``gradgradcheck``: analytic gradients against central differences, in float64."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..tensor import Tensor, wrap
from .engine import run_grad
from .modes import enable_grad, no_grad


class GradcheckError(RuntimeError):
    """The analytic and the numerical Jacobian differ."""


def _outputs(r: Any) -> list[Tensor]:
    rs = r if isinstance(r, (tuple, list)) else (r,)
    return [t for t in rs if isinstance(t, Tensor) and t.dtype.is_floating_point]


def _numerical(fn: Callable[..., Any], args: tuple, i: int, eps: float) -> list[np.ndarray]:
    """Jacobians d out_k / d args[i] as (out size, in size), by central differences."""
    x = args[i]
    base = x.detach().numpy()
    columns: list[list[np.ndarray]] = []
    for at in np.ndindex(*base.shape):
        sides = []
        for step in (eps, -eps):
            moved = np.array(base)  # C order: index order is that of the Jacobian
            moved[at] += step
            t = wrap(moved)
            t._rg = x._rg
            call = list(args)
            call[i] = t
            sides.append([o.detach().numpy().astype(np.float64).ravel().copy() for o in _outputs(fn(*call))])
        columns.append([(a - b) / (2 * eps) for a, b in zip(*sides, strict=True)])
    outs = len(_outputs(fn(*args)))
    if not columns:
        return [np.zeros((o.numel(), 0)) for o in _outputs(fn(*args))]
    return [np.stack([c[k] for c in columns], 1) for k in range(outs)]


def _analytic(out: Tensor, inputs: list[Tensor]) -> list[np.ndarray]:
    """Jacobians of one output with respect to each input, a row per backward pass."""
    n = out.numel()
    jac = [np.zeros((n, t.numel())) for t in inputs]
    for row in range(n):
        cot = np.zeros(n)
        cot[row] = 1.0
        g = wrap(cot.reshape(tuple(out.shape)).astype(out.dtype.np))
        for k, r in enumerate(run_grad((out,), inputs, (g,), retain_graph=True, allow_unused=True)):
            if r is not None:
                jac[k][row] = r.detach().numpy().ravel()
    return jac


def gradcheck(
    func: Callable[..., Any], inputs: Any, *, eps: float = 1e-6, atol: float = 1e-5, rtol: float = 1e-3,
    raise_exception: bool = True, nondet_tol: float = 0.0, check_undefined_grad: bool = True,
    check_batched_grad: bool = False, check_forward_ad: bool = False, check_backward_ad: bool = True,
    fast_mode: bool = False, **ignored: Any,
) -> bool:
    """Compare the gradients of ``func`` with central differences; inputs should be float64.

    Returns True, or raises GradcheckError (returns False with ``raise_exception=False``) on a mismatch.
    """
    args = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    wrt = [i for i, t in enumerate(args) if isinstance(t, Tensor) and t.requires_grad]
    if not wrt:
        raise ValueError("gradcheck expects at least one input tensor that requires grad, but none of them does")
    try:
        with enable_grad():
            outs = _outputs(func(*args))
        tracked = [o for o in outs if o.requires_grad]
        if not tracked:
            numeric = [_numerical_quiet(func, args, i, eps) for i in wrt]
            if any(np.abs(j).max(initial=0) > atol for js in numeric for j in js):
                raise GradcheckError("Numerical gradient for function expected to be zero: no output requires grad")
            return True
        numeric = [_numerical_quiet(func, args, i, eps) for i in wrt]
        for k, o in enumerate(outs):
            jac = _analytic(o, [args[i] for i in wrt]) if o.requires_grad else None
            for pos, i in enumerate(wrt):
                a = jac[pos] if jac is not None else np.zeros_like(numeric[pos][k])
                if not np.allclose(a, numeric[pos][k], rtol=rtol, atol=atol, equal_nan=True):
                    raise GradcheckError(
                        f"Jacobian mismatch for output {k} with respect to input {i},\n"
                        f"numerical:{numeric[pos][k]}\nanalytical:{a}\n"
                    )
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _numerical_quiet(func: Callable[..., Any], args: tuple, i: int, eps: float) -> list[np.ndarray]:
    with no_grad():
        try:
            return _numerical(func, args, i, eps)
        except RuntimeError as e:  # func itself differentiates: it needs grad mode
            if "grad" not in str(e):
                raise
    with enable_grad():
        return _numerical(func, args, i, eps)


def gradgradcheck(
    func: Callable[..., Any], inputs: Any, grad_outputs: Any = None, *, eps: float = 1e-6, atol: float = 1e-5,
    rtol: float = 1e-3, raise_exception: bool = True, gen_non_contig_grad_outputs: bool = False, **ignored: Any,
) -> bool:
    """``gradcheck`` of the gradient of ``func``, with random cotangents if none are given."""
    args = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    outs = [o for o in _outputs(func(*args)) if o.requires_grad]
    if grad_outputs is None:
        rng = np.random.default_rng(0)
        cots = [wrap(rng.standard_normal(tuple(o.shape)).astype(o.dtype.np)) for o in outs]
        for c in cots:
            c._rg = True
    else:
        cots = list(grad_outputs) if isinstance(grad_outputs, (tuple, list)) else [grad_outputs]
    n = len(args)

    def first_order(*both: Any) -> tuple:
        xs, gs = both[:n], both[n:]
        wrt = [x for x in xs if isinstance(x, Tensor) and x.requires_grad]
        with enable_grad():
            ys = [o for o in _outputs(func(*xs)) if o.requires_grad]
            r = run_grad(ys, wrt, gs, create_graph=True, allow_unused=True)
        return tuple(g for g in r if g is not None)

    return gradcheck(first_order, (*args, *cots), eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception)
