"""Transforms in reverse mode, by the autograd engine: each level differentiates through a fresh copy of its inputs.

An argument that already belongs to a graph (an outer level) is passed through an identity node, so that outer levels
still see it; the results are cut off the graph when no outer level needs them.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import pytree
from ..autograd.engine import run_grad
from ..autograd.modes import STATE, enable_grad
from ..op import FUNCTIONS, TABLE
from ..tensor import Tensor


def _fresh(tree: Any) -> tuple[Any, list[Tensor], bool]:
    """The tree with its floating point tensors made inputs of this level; those; whether an outer level watches."""
    outer = False
    made: list[Tensor] = []

    def one(x: Any) -> Any:
        nonlocal outer
        if not isinstance(x, Tensor) or not x.dtype.is_floating_point:
            return x
        if x.requires_grad and STATE.grad:
            outer = True
            y = TABLE["clone"](x)
        else:
            y = x.detach()
            y._rg = True
        made.append(y)
        return y

    return pytree.tree_map(one, tree), made, outer


def _select(args: tuple, argnums: int | tuple[int, ...]) -> Any:
    n = len(args)
    for i in (argnums,) if isinstance(argnums, int) else argnums:
        if not -n <= i < n:
            raise RuntimeError(f"Got argnum={i}, but only {n} positional inputs")
    return args[argnums] if isinstance(argnums, int) else tuple(args[i] for i in argnums)


def _put(args: tuple, argnums: int | tuple[int, ...], new: Any) -> tuple:
    out = list(args)
    if isinstance(argnums, int):
        out[argnums] = new
    else:
        for i, v in zip(argnums, new, strict=True):
            out[i] = v
    return tuple(out)


def _cut(tree: Any, keep: bool) -> Any:
    return tree if keep else pytree.tree_map(lambda x: x.detach() if isinstance(x, Tensor) else x, tree)


def _refill(tree: Any, values: list) -> Any:
    """``tree`` with its floating point tensors replaced, in order."""
    it = iter(values)
    return pytree.tree_map(
        lambda x: next(it) if isinstance(x, Tensor) and x.dtype.is_floating_point else None, tree
    )


def _gradients(outs: list[Tensor], ins: list[Tensor], cots: list[Tensor]) -> list[Tensor]:
    live = [(o, c) for o, c in zip(outs, cots, strict=True) if o.requires_grad]
    if not live:
        return [TABLE["zeros"](tuple(t.shape), dtype=t.dtype) for t in ins]
    return list(run_grad([o for o, _ in live], ins, [c for _, c in live], retain_graph=True, create_graph=True,
                         materialize_grads=True))


def grad_and_value(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that returns (gradients, value) of ``func``, whose output must be a scalar tensor."""

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        chosen = _select(args, argnums)
        with enable_grad():
            fresh, ins, outer = _fresh(chosen)
            out = func(*_put(args, argnums, fresh), **kwargs)
            aux = None
            if has_aux:
                if not isinstance(out, tuple) or len(out) != 2:
                    raise RuntimeError("grad_and_value(f)(*args): output of function f should be a tuple (output, aux) "
                                       "if has_aux is True")
                out, aux = out
            if not isinstance(out, Tensor):
                raise RuntimeError(f"grad_and_value(f)(*args): expected f(*args) to return a tensor, got {type(out).__name__}")
            if out.ndim != 0:
                raise RuntimeError("grad_and_value(f)(*args): expected f(*args) to return a scalar tensor, got tensor with "
                                   f"{out.ndim} dims. Maybe you forgot to reduce the output (e.g. .sum()).")
            gs = _gradients([out], ins, [TABLE["full"]((), 1, out.dtype)])
        keep = outer or _still_needed(out, ins)
        result = _cut(_refill(chosen, gs), keep)
        value = _cut(out, keep)
        return (result, (value, _cut(aux, keep))) if has_aux else (result, value)

    return wrapper


def _still_needed(out: Tensor, ins: list[Tensor]) -> bool:
    """Whether the result also depends on something an outer level (or the user) differentiates by."""
    if not out.requires_grad:
        return False
    own = {id(t) for t in ins}
    todo, seen = [out.grad_fn], set()
    while todo:
        n = todo.pop()
        if n is None or id(n) in seen:
            continue
        seen.add(id(n))
        for e in n.edges:
            if isinstance(e, Tensor):
                if id(e) not in own:
                    return True
            elif e is not None:
                todo.append(e)
    return False


def grad(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that returns the gradient of the scalar ``func`` with respect to ``argnums``."""
    both = grad_and_value(func, argnums, has_aux)

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        g, rest = both(*args, **kwargs)
        return (g, rest[1]) if has_aux else g

    return wrapper


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple:
    """(output, function from cotangents to cotangents of ``primals``)."""
    with enable_grad():
        fresh, ins, outer = _fresh(primals)
        out = func(*fresh)
        aux = None
        if has_aux:
            out, aux = out
    leaves, spec = pytree.tree_flatten(out)

    def pull(*cotangents: Any) -> Any:
        given = cotangents[0] if len(cotangents) == 1 else cotangents
        cots, cspec = pytree.tree_flatten(given)
        if len(cots) != len(leaves):
            raise RuntimeError("Expected pytree structure of cotangents to be the same as pytree structure of outputs to "
                               f"the function. cotangents: {cspec}, primal output: {spec}")
        with enable_grad():
            gs = _gradients(leaves, ins, cots)
        keep = outer or any(isinstance(c, Tensor) and c.requires_grad for c in cots)
        return _cut(_refill(primals, gs), keep)

    result = _cut(out, outer)
    return (result, pull, _cut(aux, outer)) if has_aux else (result, pull)


def jacrev(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, *, has_aux: bool = False, **kw: Any) -> Callable[..., Any]:
    """A function that returns the Jacobian: for each output, a tensor of shape output shape + input shape."""

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        chosen = _select(args, argnums)
        with enable_grad():
            fresh, ins, outer = _fresh(chosen)
            out = func(*_put(args, argnums, fresh), **kwargs)
            aux = None
            if has_aux:
                out, aux = out
            leaves, spec = pytree.tree_flatten(out)
            blocks = [_refill(chosen, _rows(y, ins)) for y in leaves]
            keep = outer or any(_still_needed(y, ins) for y in leaves)
        result = _cut(pytree.tree_unflatten(blocks, spec), keep)
        return (result, _cut(aux, keep)) if has_aux else result

    return wrapper


def _rows(y: Tensor, ins: list[Tensor]) -> list[Tensor]:
    """The Jacobian of one output, one backward pass per element."""
    n = y.numel()
    rows: list[list[Tensor]] = []
    eye = FUNCTIONS["eye"].fn(n, dtype=y.dtype) if n else None
    for i in range(n):
        rows.append(_gradients([y], ins, [eye[i].reshape(tuple(y.shape))]))  # type: ignore[index]
    if not rows:
        return [TABLE["zeros"](tuple(y.shape) + tuple(t.shape), dtype=y.dtype) for t in ins]
    return [TABLE["stack"](list(col), 0).reshape(tuple(y.shape) + tuple(t.shape)) for t, col in zip(ins, zip(*rows, strict=True), strict=True)]


def hessian(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0) -> Callable[..., Any]:
    """The Jacobian of the Jacobian."""
    return jacrev(jacrev(func, argnums), argnums)
