"""Transforms in reverse mode, by the autograd engine: each level differentiates through a fresh copy of its inputs.

An argument that already belongs to a graph (an outer level) is passed through an identity node, so that outer levels
still see it; the results are cut off the graph when no outer level needs them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import pytree
from ..autograd.engine import run_grad
from ..autograd.modes import STATE, recorded, set_grad, transform
from ..autograd.node import born
from ..op import TABLE
from ..tensor import Tensor
from .levels import Extent, lifted, local_alias, one_each, top_level, tracked, unrecorded
from .vmap import vmap

Argnums = int | tuple[int, ...]


def fresh(tree: Any) -> tuple[Any, list[Tensor], bool]:
    """The tree with its tensors made inputs of this level; those; whether an outer level watches. ValueError for a leaf
    that is no tensor, RuntimeError for one that can't have a gradient.
    """
    outer = False
    made: list[Tensor] = []

    def one(x: Any) -> Any:
        nonlocal outer
        if not isinstance(x, Tensor):
            raise ValueError(f"Thing passed to transform API must be Tensor, got {type(x)}")
        if not x.dtype.is_floating_point:
            raise RuntimeError("only Tensors of floating point dtype can require gradients")
        if x.requires_grad and STATE.grad and _on_top(x):
            outer = True
            y = TABLE["clone"](x)
        else:
            y = lifted(x)
            y._rg = True
        made.append(y)
        return y

    new = pytree.tree_map(one, tree)
    return new, made, outer


def _on_top(x: Tensor) -> bool:
    """Whether the tape of ``x`` is that of the innermost level."""
    h = top_level()
    return h is None or h.mine(x)


def select(args: tuple, argnums: Argnums) -> Any:
    """The arguments to differentiate by."""
    n = len(args)
    if not isinstance(argnums, int):
        if not isinstance(argnums, tuple) or not all(isinstance(i, int) for i in argnums):
            raise RuntimeError(f"argnum must be an int or a tuple of ints, got: {argnums}")
        if not argnums:
            raise RuntimeError("argnums must be non-empty")
        if len({i % n if n else i for i in argnums}) != len(argnums):
            raise RuntimeError(f"argnums elements must be unique, got {argnums}")
    for i in (argnums,) if isinstance(argnums, int) else argnums:
        if not -n <= i < n:
            raise RuntimeError(f"Got argnum={i}, but only {n} positional inputs")
    return args[argnums] if isinstance(argnums, int) else tuple(args[i] for i in argnums)


def put(args: tuple, argnums: Argnums, new: Any) -> tuple:
    """``args`` with those arguments replaced."""
    out = list(args)
    if isinstance(argnums, int):
        out[argnums] = new
    else:
        for i, v in zip(argnums, new, strict=True):
            out[i] = v
    return tuple(out)


def cut(tree: Any, keep: bool, outside: bool) -> Any:
    """The tree without the history of this level, unless it is to be kept; without any if nothing is recorded
    ``outside``."""
    alias = local_alias if outside else unrecorded
    return tree if keep else pytree.tree_map(lambda x: alias(x) if isinstance(x, Tensor) else x, tree)


def refill(tree: Any, values: list) -> Any:
    """``tree`` with its leaves replaced, in order."""
    it = iter(values)
    return pytree.tree_map(lambda _: next(it), tree)


def gradients(outs: list[Tensor], ins: list[Tensor], cots: list[Tensor], create: bool) -> list[Tensor]:
    """Vector-Jacobian products; zeros where there is no path."""
    live = [(o, c) for o, c in zip(outs, cots, strict=True) if o.requires_grad]
    if not live:
        return [TABLE["zeros"](tuple(t.shape), dtype=t.dtype) for t in ins]
    given = [o for o, _ in live], ins, [c for _, c in live]
    found = run_grad(*given, retain_graph=True, create_graph=create, allow_unused=True)
    grads = [TABLE["zeros"](tuple(t.shape), dtype=t.dtype) if g is None else g for t, g in zip(ins, found, strict=True)]
    for x, g in zip(ins, grads, strict=True):
        one_each(x, g)
    return grads


def still_needed(outs: list[Tensor], ins: list[Tensor], extent: Extent) -> bool:
    """Whether the results also depend on something an outer level (or the user) differentiates by: a leaf other than
    the inputs that was not made inside.
    """
    own = {id(t) for t in ins}
    todo, seen = [o.grad_fn for o in outs if o.requires_grad], set()
    while todo:
        n = todo.pop()
        if n is None or id(n) in seen:
            continue
        seen.add(id(n))
        for e in n.edges:
            if isinstance(e, Tensor):
                if id(e) not in own and born(e) < extent.start:
                    return True
            elif e is not None:
                todo.append(e)
    return False


def split_aux(out: Any, name: str) -> tuple[Any, Any]:
    """(output, aux) of a function with has_aux."""
    if not isinstance(out, tuple) or len(out) != 2:
        raise RuntimeError(f"{name}: output of function f should be a tuple: (output, aux) if has_aux is True")
    for x in pytree.tree_leaves(out[1], lambda x: x is None):
        if not isinstance(x, Tensor):
            raise RuntimeError(
                f"{name}: aux: Expected tensors, got unsupported type {type(x)}. Return tensors (in containers, if you "
                "like); what else the function finds can be put into a list or a dict from outside"
            )
    return out


def tensors_only(leaves: list, name: str) -> None:
    """RuntimeError for no output at all, or for one that is no tensor."""
    if not leaves:
        raise RuntimeError(f"{name}: Expected f to be a function that has non-empty output (does it return something?)")
    for y in leaves:
        if not isinstance(y, Tensor):
            raise RuntimeError(f"{name}: expected f(*primals) to return only tensors, got unsupported type {type(y)}")


def wraps(func: Any) -> Callable[[Any], Any]:
    """Give a wrapper the name and the text of ``func``. Not its module: the wrapper is library code (capture asks)."""

    def name(wrapper: Any) -> Any:
        wrapper.__name__ = getattr(func, "__name__", wrapper.__name__)
        wrapper.__doc__ = getattr(func, "__doc__", None)
        return wrapper

    return name


def grad_and_value(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that returns (gradients, value) of ``func``, whose output must be a scalar tensor.

    With ``has_aux`` the function returns (output, aux) and the result is (gradients, (output, aux)).
    """

    @wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        chosen = select(args, argnums)
        name = "grad_and_value(f)(*args)"
        outside = STATE.grad
        with Extent(args, kwargs) as extent, transform(False):
            before = STATE.grad
            set_grad(outside)  # what watches from outside depends on the mode outside
            new, ins, outer = fresh(chosen)
            set_grad(before)
            out = func(*put(args, argnums, new), **kwargs)
            aux = None
            if has_aux:
                out, aux = split_aux(out, name)
            if not isinstance(out, Tensor):
                raise RuntimeError(f"{name}: Expected f(*args) to return a Tensor, got {type(out)}")
            if out.ndim != 0:
                raise RuntimeError(
                    f"{name}: Expected f(*args) to return a scalar Tensor, got tensor with {out.ndim} dims. "
                    "Maybe you wanted to use the vjp or jacrev APIs instead?"
                )
            keep = outside and (outer or still_needed([out], ins, extent))
            gs = gradients([out], ins, [TABLE["full"]((), 1, out.dtype)], keep or top_level() is not None)
        result = cut(refill(chosen, gs), keep, outside)
        value = cut(out, keep, outside)
        return (result, (value, cut(aux, keep, outside))) if has_aux else (result, value)

    return wrapper


def grad(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that returns the gradient of the scalar ``func`` with respect to ``argnums``.

    With ``has_aux`` it returns (gradient, aux).
    """
    both = grad_and_value(func, argnums, has_aux)

    @wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        g, rest = both(*args, **kwargs)
        return (g, rest[1]) if has_aux else g

    return wrapper


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple:
    """(output, function from cotangents to a tuple of cotangents of ``primals``); with ``has_aux`` also aux."""
    return pullback(func, primals, has_aux)[0]


def pullback(func: Callable[..., Any], primals: tuple, has_aux: bool, passed: Any = ()) -> tuple[tuple, list[Tensor]]:
    """The result of ``vjp``, and the tracked outputs. ``passed``: what the user's function gets beside."""
    name = "vjp(f, *primals)"
    outside, inside = STATE.grad, top_level() is not None
    with Extent(primals, passed) as extent:
        new, ins, outer = fresh(primals)
        with transform(False):
            out = func(*new)
        aux = None
        if has_aux:
            out, aux = split_aux(out, name)
    leaves, spec = pytree.tree_flatten(out)
    tensors_only(leaves, name)
    for y in leaves:
        if not y.dtype.is_floating_point:
            raise RuntimeError(
                "vjp(f, ...): All outputs of f must be floating-point or complex Tensors, got Tensor with dtype "
                f"{y.dtype}: return it as aux (has_aux=True)"
            )
    keep = outside and (outer or still_needed(leaves, ins, extent))

    def pull(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        cots, cspec = pytree.tree_flatten(cotangents)
        if cspec != spec:
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of outputs to "
                f"the function. cotangents: {cspec}, primal output: {spec}"
            )
        tensors_only(cots, "vjp_fn(cotangents)")
        watched = STATE.grad and (keep or any(tracked(c) for c in cots))
        with recorded(False):
            gs = gradients(leaves, ins, cots, watched or inside)
        return cut(refill(primals, gs), watched, STATE.grad)

    result = cut(out, keep, outside)
    return ((result, pull, cut(aux, keep, outside)) if has_aux else (result, pull)), leaves


def jacrev(
    func: Callable[..., Any],
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable[..., Any]:
    """A function that returns the Jacobian by reverse mode: for each output a tensor (output shape + input shape) for
    each input. ``chunk_size``: so many rows at a time (1: one by one).
    """
    if chunk_size is not None and not chunk_size > 0:
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        chosen = select(args, argnums)
        as_tuple = (chosen,) if isinstance(argnums, int) else chosen

        def of_chosen(*some: Any) -> Any:
            return func(*put(args, argnums, some[0] if isinstance(argnums, int) else some), **kwargs)

        got, leaves = pullback(of_chosen, as_tuple, has_aux, (args, kwargs))
        out, pull = got[0], got[1]
        spec = pytree.tree_structure(out)
        blocks = [_rows(pull, leaves, spec, k, chunk_size, as_tuple, argnums) for k in range(len(leaves))]
        result = pytree.tree_unflatten(blocks, spec)
        return (result, got[2]) if has_aux else result

    return wrapper


def _rows(pull: Any, leaves: list[Tensor], spec: Any, k: int, chunk: int | None, args: tuple, argnums: Argnums) -> Any:
    """The Jacobians of output ``k``, in the structure of the inputs."""
    y = leaves[k]
    n, shape = y.numel(), tuple(y.shape)

    def one(g: Tensor) -> Any:
        return pull(pytree.tree_unflatten([g if i == k else _zeros_like(t) for i, t in enumerate(leaves)], spec))

    if n == 0:
        parts = pytree.tree_map(lambda t: TABLE["zeros"]((0, *t.shape), dtype=y.dtype), args)
    elif chunk == 1:
        rows = [pytree.tree_flatten(one(g)) for g in basis(y)]
        parts = pytree.tree_unflatten(
            [TABLE["stack"](list(c), 0) for c in zip(*(r for r, _ in rows), strict=True)], rows[0][1]
        )
    else:
        parts = vmap(one, chunk_size=chunk)(basis(y))
    parts = pytree.tree_map(lambda t: t.reshape((*shape, *t.shape[1:])), parts)
    return parts[0] if isinstance(argnums, int) else parts


def basis(y: Tensor) -> Tensor:
    """The unit tensors of the shape of ``y``, stacked."""
    n = y.numel()
    return TABLE["eye"](n, n, y.dtype).reshape((n, *y.shape))


def _zeros_like(t: Tensor) -> Tensor:
    return TABLE["zeros"](tuple(t.shape), dtype=t.dtype)
