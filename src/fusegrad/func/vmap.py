"""``vmap``: a function of one example becomes a function of a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import pytree
from ..op import TABLE
from ..tensor import Tensor
from .batch import RANDOMNESS, BatchHandler


def _name(func: Any) -> str:
    return getattr(func, "__name__", None) or repr(func)


def _is_none(x: Any) -> bool:
    return x is None


def broadcast_to(tree: Any, spec: Any) -> list | None:
    """One leaf of ``tree`` (a prefix of the structure ``spec``; None is a leaf) for each leaf of ``spec``."""
    if spec.kind is None:
        return [tree] if tree is None or not isinstance(tree, (tuple, list, dict)) else None
    if tree is None or isinstance(tree, int):
        return [tree] * spec.num_leaves
    if type(tree) is not spec.kind:
        return None
    children = list(tree.values()) if isinstance(tree, dict) else list(tree)
    if len(children) != len(spec.children):
        return None
    out: list = []
    for child, sub in zip(children, spec.children, strict=True):
        part = broadcast_to(child, sub)
        if part is None:
            return None
        out += part
    return out


def _inputs(func: Any, in_dims: Any, args: tuple) -> tuple[list, list, Any, Any]:
    """Leaves of ``args``, the dimension of each (None: not mapped), their structure, the batch size."""
    call = f"vmap({_name(func)}, in_dims={in_dims}, ...)(<inputs>)"
    if not isinstance(in_dims, (int, tuple)):
        raise ValueError(
            f"{call}: expected `in_dims` to be int or a (potentially nested) tuple matching the structure of "
            f"inputs, got: {type(in_dims)}."
        )
    if not args:
        raise ValueError(
            f"{call}: got no inputs. Maybe you forgot to add inputs, or you are trying to vmap over a "
            "function with no inputs. The latter is unsupported."
        )
    leaves, spec = pytree.tree_flatten(args, is_leaf=_is_none)
    dims = broadcast_to(in_dims, spec)
    if dims is None:
        raise ValueError(
            f"{call}: in_dims is not compatible with the structure of `inputs`. in_dims has structure "
            f"{pytree.tree_structure(in_dims)} but inputs has structure {spec}."
        )
    size = None
    for i, (x, d) in enumerate(zip(leaves, dims, strict=True)):
        if d is None:
            continue
        if isinstance(d, bool) or not isinstance(d, int):
            raise ValueError(
                f"{call}: Got in_dim={d} for an input but in_dim must be either an integer dimension or None."
            )
        if not isinstance(x, Tensor):
            raise ValueError(
                f"{call}: Got in_dim={d} for an input but the input is of type {type(x)}. We cannot vmap over "
                "non-Tensor arguments, please use None as the respective in_dim"
            )
        n = x.ndim
        if not -n <= d < n:
            raise ValueError(
                f"{call}: Got in_dim={d} for some input, but that input is a Tensor of dimensionality {n} so "
                f"expected in_dim to satisfy -{n} <= in_dim < {n}."
            )
        dims[i] = d % n
        if size is None:
            size = x.shape[d]
        elif size != x.shape[d]:
            sizes = [t.shape[k] for t, k in zip(leaves, dims, strict=True) if k is not None]
            raise ValueError(
                f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sizes} "
                "for the mapped dimension"
            )
    if size is None:
        raise ValueError("vmap: Expected at least one Tensor to vmap over")
    return leaves, dims, spec, size


def _out_dims(func: Any, out_dims: Any, spec: Any) -> list:
    call = f"vmap({_name(func)}, ..., out_dims={out_dims})"
    dims = broadcast_to(out_dims, spec)
    if isinstance(out_dims, tuple) and len(out_dims) == 1 and spec.kind is None:  # of one result
        dims = broadcast_to(out_dims[0], spec)
    if dims is None:
        raise ValueError(
            f"{call}: out_dims is not compatible with the structure of `outputs`. out_dims has structure "
            f"{pytree.tree_structure(out_dims)} but outputs has structure {spec}."
        )
    if any(d is not None and not isinstance(d, int) for d in dims):
        raise ValueError(
            f"{call}: `out_dims` must be an int, None or a python collection of ints representing where in the "
            "outputs the vmapped dimension should appear."
        )
    return dims


def leave(h: BatchHandler, func: Any, out: Any, out_dims: Any) -> Any:
    """The results of the function with all examples in them."""
    leaves, spec = pytree.tree_flatten(out, is_leaf=_is_none)
    where = broadcast_to(out_dims, spec) or [0] * len(leaves)  # what does not fit is refused below
    for y, d in zip(leaves, where, strict=True):
        if not isinstance(y, Tensor) and d is not None:
            raise ValueError(
                f"vmap({_name(func)}, ...): `{_name(func)}` must only return Tensors, got type {type(y)}. Did "
                "you mean to set out_dims= to None for output?"
            )
    done = []
    for y, d in zip(leaves, _out_dims(func, out_dims, spec), strict=True):
        if not isinstance(y, Tensor):
            done.append(y)  # its dimension is None: it is handed on
            continue
        value, batched = h.parts(y)
        if d is None:
            if batched:
                raise ValueError(
                    f"vmap({_name(func)}, ...): `{_name(func)}` can not return a BatchedTensor when out_dim is None"
                )
            done.append(value)
            continue
        n = value.ndim - batched + 1
        if not -n <= d < n:
            raise IndexError(f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {d})")
        value = h.front(value, batched)
        done.append(value.movedim(0, d) if d else value)
    return pytree.tree_unflatten(done, spec)


def run_batched(
    func: Any, leaves: list, dims: list, spec: Any, size: Any, out_dims: Any, randomness: str, kwargs: dict
) -> Any:
    """One call of ``func`` on ``size`` examples."""
    h = BatchHandler(size, randomness)
    with h.running():
        with h.below():
            inside = [x if d is None else h.enter(x, d) for x, d in zip(leaves, dims, strict=True)]
        out = func(*pytree.tree_unflatten(inside, spec), **kwargs)
        with h.below():
            return leave(h, func, out, out_dims)


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """A function that applies ``func`` to every example along ``in_dims`` of its inputs, all at once.

    ``in_dims``: a dimension, or a structure like the inputs' with a dimension or None (the same for all examples) for
    each tensor. ``out_dims`` likewise. ``randomness``: what random operators inside do: "error", "different" numbers
    for each example, or the "same". ``chunk_size``: so many examples at a time. ValueError for arguments that do not
    fit; RuntimeError where ``func`` asks for the value of a tensor.
    """
    if randomness not in RANDOMNESS:
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")
    if chunk_size is not None and not chunk_size > 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        leaves, dims, spec, size = _inputs(func, in_dims, args)
        if chunk_size is None or size <= chunk_size:
            return run_batched(func, leaves, dims, spec, size, out_dims, randomness, kwargs)
        return _in_chunks(func, leaves, dims, spec, size, out_dims, randomness, kwargs, chunk_size)

    return _named(wrapper, func)


def _named(wrapper: Any, func: Any) -> Any:
    wrapper.__name__ = getattr(func, "__name__", "vmapped")
    wrapper.__doc__ = getattr(func, "__doc__", None)
    return wrapper


def _in_chunks(
    func: Any, leaves: list, dims: list, spec: Any, size: int, out_dims: Any, randomness: str, kwargs: dict, chunk: int
) -> Any:
    parts = []
    out_spec: Any = None
    from ..random import default_generator

    start_state = default_generator.state
    for at in range(0, size, chunk):
        n = min(chunk, size - at)
        if randomness == "same":
            default_generator.state = start_state
        some = [x if d is None else x.narrow(d, at, n) for x, d in zip(leaves, dims, strict=True)]
        out = run_batched(func, some, dims, spec, n, out_dims, randomness, kwargs)
        values, out_spec = pytree.tree_flatten(out, is_leaf=_is_none)
        parts.append(values)
    where = _out_dims(func, out_dims, out_spec)
    return pytree.tree_unflatten(
        [
            col[0] if d is None else TABLE["cat"](list(col), d % col[0].ndim)
            for d, col in zip(where, zip(*parts, strict=True), strict=True)
        ],
        out_spec,
    )
