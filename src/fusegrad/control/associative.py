"""``associative_scan``: all prefixes of a sequence under an associative function, in logarithmically many steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import pytree
from ..errors import ControlFlowError
from ..func.vmap import vmap
from ..op import TABLE
from ..tensor import Tensor
from .checks import Purity, kind_of, need_callable, recorder, same_kind
from .scans import check_dim, check_length, tensors_of


def associative_scan(
    combine_fn: Callable[[Any, Any], Any], xs: Any, dim: int, reverse: bool = False, combine_mode: str = "generic"
) -> Any:
    """The results of combining the first 1, 2, 3, ... slices of ``xs`` along ``dim``, stacked along ``dim``.

    ``combine_fn(a, b)`` takes and returns trees like ``xs`` with one slice in each leaf; it must be associative. It is
    called on many slices at once (``vmap``), about ``2 log2(n)`` times. ``reverse``: suffixes from the end.
    ``combine_mode``: "generic", or "pointwise" for functions of single elements; both run the same here.

    Raises ValueError for another mode and for an empty dimension; IndexError for a bad ``dim``; RuntimeError where
    ``combine_fn`` changes structure, shapes or dtypes, or tensors that it did not make.
    """
    need_callable(combine_fn, f"Combine_fn must be a callable, but got {combine_fn}")
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(f"Combine_mode must either 'pointwise' or 'generic', but got {combine_mode}")
    leaves = tensors_of(xs, "xs")
    if not leaves:
        raise ValueError("Expected at least 1 xs leaf")
    dim = check_dim("associative_scan", leaves, dim)
    try:
        length = check_length("xs", leaves, dim)
    except RuntimeError as e:
        raise ValueError(str(e)) from None
    spec = pytree.tree_structure(xs)
    parts = [t.movedim(dim, 0) if dim else t for t in leaves]
    h = recorder(parts)
    if h is not None and hasattr(length, "hint"):  # how often to combine depends on the length: one by one instead
        done = h.record_control("prefixes", combine_fn, parts, spec, reverse)
    else:
        pure = Purity("associative_scan", leaves, combine_fn)
        parts = [t.flip(0) for t in parts] if reverse else parts
        done = prefixes(combiner(combine_fn, spec), parts, length)
        done = [t.flip(0) for t in done] if reverse else done
        pure.unchanged()
        if length == 1 and not reverse:
            done = [t.clone() for t in done]
    return pytree.tree_unflatten([t.movedim(0, dim) if dim else t for t in done], spec)


def combiner(combine_fn: Any, spec: Any) -> Callable[[list[Tensor], list[Tensor]], list[Tensor]]:
    """``combine_fn`` on lists of leaves that hold many slices."""

    def one(a: list, b: list) -> list:
        out = combine_fn(pytree.tree_unflatten(a, spec), pytree.tree_unflatten(b, spec))
        leaves, got = pytree.tree_flatten(out)
        if got != spec:
            raise ControlFlowError(
                f"associative_scan: Expected combine_fn to return the structure of xs, but found: {spec} and {got}"
            )
        for x, y in zip(a, leaves, strict=True):
            if not same_kind(x, y):
                raise ControlFlowError(
                    "associative_scan: Expected combine_fn to keep shapes and dtypes, but found: "
                    f"{kind_of(x)} and {kind_of(y)}"
                )
        return leaves

    return vmap(one)


def prefixes(combine: Any, xs: list[Tensor], n: int) -> list[Tensor]:
    """All prefixes of ``n`` slices: neighbours are combined, the prefixes of the pairs give every second result, and
    one more combination with the slices in between the others.
    """
    if n < 2:
        return xs
    pairs = combine([t[0 : n - 1 : 2] for t in xs], [t[1:n:2] for t in xs])
    odd = prefixes(combine, pairs, n // 2)
    if n == 2:
        return [_cat([x[:1], o]) for x, o in zip(xs, odd, strict=True)]
    between = (n - 1) // 2
    even = combine([t[:between] for t in odd], [t[2:n:2] for t in xs])
    out = []
    for x, e, o in zip(xs, even, odd, strict=True):
        e = _cat([x[:1], e])
        both = TABLE["stack"]([e[: n // 2], o], 1).reshape((2 * (n // 2), *x.shape[1:]))
        out.append(_cat([both, e[n // 2 :]]) if n % 2 else both)
    return out


def _cat(parts: list[Tensor]) -> Tensor:
    return TABLE["cat"](parts, 0)
