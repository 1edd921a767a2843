"""Transforms in forward mode: ``jvp``, ``jacfwd``, ``hessian``, ``linearize``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import pytree
from ..autograd.engine import run_grad
from ..autograd.modes import STATE, recorded, set_grad
from ..op import TABLE
from ..tensor import Tensor
from .dual import DualHandler
from .jvp_rules import like
from .levels import Extent, lifted, local_alias, one_each
from .reverse import Argnums, cut, fresh, jacrev, put, select, split_aux, still_needed, tensors_only, wraps
from .vmap import RANDOMNESS, vmap


def check_dual(primal: Any, tangent: Any) -> None:
    """The errors of a tangent that does not fit."""
    if not primal.dtype.is_floating_point:
        raise ValueError(f"Expected primal to be floating point or complex, but got: {primal.dtype}")
    if not tangent.dtype.is_floating_point:
        raise ValueError(f"Expected tangent to be floating point or complex, but got: {tangent.dtype}")
    if tuple(primal.shape) != tuple(tangent.shape):
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not "
            f"supported. Tensor is of size {list(primal.shape)} while the given forward gradient is of size "
            f"{list(tangent.shape)}."
        )


def jvp(func: Callable[..., Any], primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False) -> tuple:
    """(output, its derivative in the direction of ``tangents``); with ``has_aux`` also aux.

    ``primals`` is a tuple of arguments (containers of tensors are fine), ``tangents`` has its structure. RuntimeError
    for arguments that do not fit, and with ``strict`` when an output does not depend on the inputs.
    """
    return pushed(func, primals, tangents, strict, has_aux, ())


def pushed(func: Callable[..., Any], primals: Any, tangents: Any, strict: bool, has_aux: bool, passed: Any) -> tuple:
    """The result of ``jvp``. ``passed``: what the user's function gets beside."""
    name = "jvp(f, primals, tangents)"
    if not isinstance(primals, tuple):
        raise RuntimeError(f"{name}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals).")
    ps, spec = pytree.tree_flatten(primals)
    ts, tspec = pytree.tree_flatten(tangents)
    if spec != tspec:
        raise RuntimeError(
            f"{name}: Expected primals and tangents to have the same python structure. For example, if "
            f"primals is a tuple of 3 tensors, tangents also must be. Got primals with structure {spec} and "
            f"tangents with structure {tspec}"
        )
    if not ps:
        raise RuntimeError(f"{name}: Expected primals to contain at least one Tensor.")
    for x in (*ps, *ts):
        if not isinstance(x, Tensor):
            raise RuntimeError(f"{name}: Expected only Tensors in primals and tangents, got {type(x)}")
    for p, t in zip(ps, ts, strict=True):
        check_dual(p, t)
    h = DualHandler()
    with Extent(primals, tangents, passed), h.running():
        out = func(*pytree.tree_unflatten([h.wrap(p, t) for p, t in zip(ps, ts, strict=True)], spec))
        aux = None
        if has_aux:
            out, aux = split_aux(out, name)
        leaves, out_spec = pytree.tree_flatten(out)
        tensors_only(leaves, name)
        with h.below():
            pairs = [_pair(h, y, strict) for y in leaves]
        aux = pytree.tree_map(lambda x: h.parts(x)[0], aux)
    value = pytree.tree_unflatten([p for p, _ in pairs], out_spec)
    change = pytree.tree_unflatten([t for _, t in pairs], out_spec)
    return (value, change, aux) if has_aux else (value, change)


def _pair(h: DualHandler, y: Tensor, strict: bool) -> tuple[Tensor, Tensor]:
    p, t = h.parts(y)
    if t is None:
        if strict:
            raise RuntimeError(
                "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. This "
                "is not allowed with strict=True."
            )
        t = TABLE["zeros"](tuple(p.shape), dtype=p.dtype)
    one_each(p, t)
    return p, t


def jacfwd(
    func: Callable[..., Any],
    argnums: Argnums = 0,
    has_aux: bool = False,
    *,
    randomness: str = "error",
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """A function that returns the Jacobian by forward mode: for each output a tensor (output shape + input shape) for
    each input.
    """
    if randomness not in RANDOMNESS:
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")

    @wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        chosen = select(args, argnums)
        primals = (chosen,) if isinstance(argnums, int) else chosen
        leaves, spec = pytree.tree_flatten(primals)
        for x in leaves:
            if not isinstance(x, Tensor):
                raise RuntimeError(f"jacfwd: Expected only Tensors in the inputs, got {type(x)}")
            check_dual(x, x)

        def of_chosen(*some: Any) -> Any:
            return func(*put(args, argnums, some[0] if isinstance(argnums, int) else some), **kwargs)

        def push(*tangents: Tensor) -> Any:
            given = pytree.tree_unflatten(list(tangents), spec)
            r = pushed(of_chosen, primals, given, False, has_aux, (args, kwargs))
            return (r[1], r[2]) if has_aux else (r[1], ())

        outs, aux = vmap(push, out_dims=(0, None) if has_aux else 0, randomness=randomness, chunk_size=chunk_size)(
            *_directions(leaves)
        )

        def block(t: Tensor) -> Any:
            """All columns of one output, split by input, the column's dimension last."""
            parts, at = [], 0
            for x in leaves:
                part = t.narrow(0, at, x.numel())
                at += x.numel()
                parts.append(part.movedim(0, -1).reshape((*t.shape[1:], *x.shape)))
            tree = pytree.tree_unflatten(parts, spec)
            return tree[0] if isinstance(argnums, int) else tree

        result = pytree.tree_map(block, outs)
        return (result, aux) if has_aux else result

    return wrapper


def _directions(leaves: list[Tensor]) -> list[Tensor]:
    """For each leaf the stack of its parts of all unit directions of the whole input."""
    total = sum(x.numel() for x in leaves)
    out, at = [], 0
    for x in leaves:
        n = x.numel()
        eye = TABLE["eye"](n, n, x.dtype)
        parts = [TABLE["zeros"]((at, n), dtype=x.dtype), eye, TABLE["zeros"]((total - at - n, n), dtype=x.dtype)]
        out.append((TABLE["cat"](parts, 0) if len(leaves) > 1 else eye).reshape((total, *x.shape)))
        at += n
    return out


def hessian(func: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """The Jacobian (forward mode) of the Jacobian (reverse mode)."""
    return jacfwd(jacrev(func, argnums), argnums)


def linearize(func: Callable[..., Any], *primals: Any) -> tuple:
    """(output, a linear function from tangents of ``primals`` to tangents of the output).

    ``func`` runs once; the linear function reads what was recorded, however often it is called.
    """
    outside = STATE.grad
    spec = pytree.tree_structure(primals)
    with Extent(primals) as extent, recorded(False):
        set_grad(outside)
        new, ins, outer = fresh(primals)
        set_grad(True)
        out = func(*new)
        leaves, out_spec = pytree.tree_flatten(out)
        tensors_only(leaves, "linearize(f, *primals)")
        live = [y for y in leaves if y.requires_grad]
        cots = []
        for y in live:
            g = lifted(TABLE["full"](tuple(y.shape), 1, y.dtype))
            g._rg = True
            cots.append(g)
        pulled = run_grad(live, ins, cots, create_graph=True, allow_unused=True) if live else (None,) * len(ins)
    keep = outside and (outer or still_needed(leaves, ins, extent))

    def push(*tangents: Any) -> Any:
        ts, tspec = pytree.tree_flatten(tangents)
        if tspec != spec:
            raise RuntimeError(f"Expected the tangents {tspec} to have the same argspec as the primals {spec}")
        for i, (t, x) in enumerate(zip(ts, ins, strict=True)):
            if tuple(t.shape) != tuple(x.shape):
                raise RuntimeError(
                    f"tangent:{i} with shape {t.shape} in flattened pytree doesn't match the shape {x.shape} of "
                    "the corresponding primal."
                )
            if t.dtype is not x.dtype:
                raise RuntimeError(
                    f"tangent:{i} with dtype {t.dtype} in flattened pytree doesn't match the dtype {x.dtype} of "
                    "the corresponding primal."
                )
        pairs = [(p, like(t, p)) for p, t in zip(pulled, ts, strict=True) if p is not None and p.requires_grad]
        watched = STATE.grad and (keep or any(t.requires_grad for t in ts))
        back: Any = (None,) * len(cots)
        if pairs:
            back = run_grad(
                [p for p, _ in pairs],
                cots,
                [t for _, t in pairs],
                retain_graph=True,
                create_graph=STATE.grad,
                allow_unused=True,
            )
        it = iter(back)
        made = [next(it) if y.requires_grad else None for y in leaves]
        made = [
            TABLE["zeros"](tuple(y.shape), dtype=y.dtype) if t is None else t if watched else local_alias(t)
            for y, t in zip(leaves, made, strict=True)
        ]
        return pytree.tree_unflatten(made, out_spec)

    return cut(out, keep, outside), push
