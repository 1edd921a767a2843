"""``_foreach_*``: one operator on every tensor of a list.

PyTorch's launch few kernels for many tensors; here each tensor has its own call, and the names serve programs that are
written with them (averages of parameters, clipping, optimisers).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .tensor import Tensor

UNARY = """abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg reciprocal
    round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc""".split()
BINARY = {"add": True, "sub": True, "mul": False, "div": False, "clamp_min": False, "clamp_max": False,
    "maximum": False, "minimum": False, "pow": False}  # fmt: skip
"""Name -> whether it takes ``alpha``."""
_LIMITS = {"maximum": "clamp_min", "minimum": "clamp_max"}  # with a number, or in place


def _tensors(name: str, given: Any, what: str = "self") -> list[Tensor]:
    if not isinstance(given, (list, tuple)) or not all(isinstance(t, Tensor) for t in given):
        bad = type(given).__name__
        if isinstance(given, (list, tuple)):
            bad = f"{bad} with {next(type(t).__name__ for t in given if not isinstance(t, Tensor))}"
        raise TypeError(f"{name}(): argument '{what}' must be a list or tuple of Tensors, not {bad}")
    if not given:
        raise RuntimeError(f"{name}(): Tensor list must have at least one tensor.")
    return list(given)


def _per_tensor(name: str, count: int, given: Any, what: str) -> Sequence[Any]:
    """One value for each of the tensors, of a list or of one value for all."""
    if not isinstance(given, (list, tuple)):
        return [given] * count
    if len(given) != count:
        raise RuntimeError(f"{name}(): Tensor lists must have the same number of tensors, got {count} and {len(given)}")
    for v in given:
        if not isinstance(v, (Tensor, int, float)):
            kind = type(v).__name__
            raise TypeError(f"{name}(): argument '{what}' must hold Tensors or numbers, not {kind}")
    return given


def _partners(name: str, count: int, given: Any, what: str) -> Sequence[Any]:
    """As many tensors as there are."""
    return _per_tensor(name, count, _tensors(name, given, what), what)


def _publish(name: str, run: Callable[..., Any], doc: str) -> None:
    run.__name__ = run.__qualname__ = name
    run.__doc__ = doc
    globals()[name] = run


def _unary(op: str) -> None:
    name, inplace = f"_foreach_{op}", f"_foreach_{op}_"

    def plain(self: Any) -> tuple:
        return tuple([getattr(t, op)() for t in _tensors(name, self)])

    def changing(self: Any) -> Any:
        for t in _tensors(inplace, self):
            getattr(t, f"{op}_")()
        return self

    _publish(name, plain, f"``{op}`` of every tensor.")
    _publish(inplace, changing, f"``{op}_`` of every tensor; returns the list.")


def _binary(op: str, scaled: bool) -> None:
    name, inplace = f"_foreach_{op}", f"_foreach_{op}_"

    def call(t: Tensor, other: Any, alpha: Any, tail: str) -> Any:
        which = op if isinstance(other, Tensor) and not tail else _LIMITS.get(op, op)
        more = {} if alpha == 1 else {"alpha": alpha}
        return getattr(t, which + tail)(other, **more)

    def pairs(who: str, self: Any, other: Any) -> Any:
        xs = _tensors(who, self)
        if isinstance(other, Tensor) and other.ndim:
            raise RuntimeError(f"{who}(): a Tensor for all of the list must have no dimensions, got {other.ndim}")
        return list(zip(xs, _per_tensor(who, len(xs), other, "other"), strict=True))

    if scaled:

        def plain(self: Any, other: Any, *, alpha: Any = 1) -> tuple:
            return tuple([call(t, o, alpha, "") for t, o in pairs(name, self, other)])

        def changing(self: Any, other: Any, *, alpha: Any = 1) -> Any:
            for t, o in pairs(inplace, self, other):
                call(t, o, alpha, "_")
            return self

    else:

        def plain(self: Any, other: Any) -> tuple:  # type: ignore[misc]
            if op == "pow" and isinstance(self, (int, float)):
                return tuple([self**t for t in _tensors(name, other, "exponent")])
            return tuple([call(t, o, 1, "") for t, o in pairs(name, self, other)])

        def changing(self: Any, other: Any) -> Any:  # type: ignore[misc]
            for t, o in pairs(inplace, self, other):
                call(t, o, 1, "_")
            return self

    _publish(name, plain, f"``{op}`` of every tensor and a number, or what stands at its place in a list.")
    _publish(inplace, changing, f"``{op}_`` of every tensor and a number, or what stands at its place in a list.")


def _product(op: str) -> None:
    name, inplace = f"_foreach_{op}", f"_foreach_{op}_"

    def rows(who: str, self: Any, tensor1: Any, tensor2: Any, value: Any) -> Any:
        xs = _tensors(who, self)
        n = len(xs)
        if isinstance(value, Tensor):
            if value.ndim != 1:
                raise RuntimeError(f"{who}(): Expected scalars to be a 1-D tensor, got {value.ndim} dimensions")
            value = value.tolist()
        a, b = _partners(who, n, tensor1, "tensor1"), _partners(who, n, tensor2, "tensor2")
        return list(zip(xs, a, b, _per_tensor(who, n, value, "value"), strict=True))

    def plain(self: Any, tensor1: Any, tensor2: Any, value: Any = 1) -> tuple:
        return tuple([getattr(t, op)(a, b, value=v) for t, a, b, v in rows(name, self, tensor1, tensor2, value)])

    def changing(self: Any, tensor1: Any, tensor2: Any, value: Any = 1) -> Any:
        for t, a, b, v in rows(inplace, self, tensor1, tensor2, value):
            getattr(t, f"{op}_")(a, b, value=v)
        return self

    _publish(name, plain, f"``{op}`` of the tensors at the same place in three lists; one ``value``, or one for each.")
    _publish(inplace, changing, f"``{op}_`` of the tensors at the same place in three lists.")


for _name in UNARY:
    _unary(_name)
for _name, _scaled in BINARY.items():
    _binary(_name, _scaled)
_product("addcmul")
_product("addcdiv")


def _lerps(name: str, self: Any, tensors1: Any, weight: Any) -> Any:
    xs = _tensors(name, self)
    ends = _partners(name, len(xs), tensors1, "tensors1")
    return list(zip(xs, ends, _per_tensor(name, len(xs), weight, "weight"), strict=True))


def _foreach_lerp(self: Any, tensors1: Any, weight: Any) -> tuple:
    """``lerp`` of the tensors at the same place in two lists; one weight, or one for each."""
    return tuple([t.lerp(end, w) for t, end, w in _lerps("_foreach_lerp", self, tensors1, weight)])


def _foreach_lerp_(self: Any, tensors1: Any, weight: Any) -> Any:
    """``lerp_`` of the tensors at the same place in two lists; one weight, or one for each."""
    for t, end, w in _lerps("_foreach_lerp_", self, tensors1, weight):
        t.lerp_(end, w)
    return self


def _foreach_norm(self: Any, ord: Any = 2, dtype: Any = None) -> tuple:
    """The norm of every tensor: of all of its elements."""
    import fusegrad

    vector_norm = fusegrad.linalg.vector_norm
    return tuple([vector_norm(t, ord, dtype=dtype) for t in _tensors("_foreach_norm", self)])


def _foreach_powsum(self: Any, ord: Any = 2, dtype: Any = None) -> tuple:
    """The sum of the powers of the absolute elements of every tensor: its norm without the root."""
    return tuple(
        [(t if dtype is None else t.to(dtype)).abs().pow(ord).sum() for t in _tensors("_foreach_powsum", self)]
    )


def _foreach_max(self: Any) -> tuple:
    """The largest element of every tensor."""
    return tuple([t.max() for t in _tensors("_foreach_max", self)])


def _foreach_mm(self: Any, mat2: Any) -> tuple:
    """``mm`` of the matrices at the same place in two lists."""
    xs = _tensors("_foreach_mm", self)
    return tuple([a.mm(b) for a, b in zip(xs, _partners("_foreach_mm", len(xs), mat2, "mat2"), strict=True)])


def _foreach_clone(self: Any, *, memory_format: Any = None) -> tuple:
    """A copy of every tensor."""
    return tuple([t.clone(memory_format=memory_format) for t in _tensors("_foreach_clone", self)])


def _foreach_copy_(self: Any, src: Any, non_blocking: bool = False) -> Any:
    """``copy_`` of the tensors at the same place in two lists; returns the first."""
    xs = _tensors("_foreach_copy_", self)
    for t, s in zip(xs, _partners("_foreach_copy_", len(xs), src, "src"), strict=True):
        t.copy_(s)
    return self


def _foreach_zero_(self: Any) -> Any:
    """``zero_`` of every tensor; returns the list."""
    for t in _tensors("_foreach_zero_", self):
        t.zero_()
    return self
