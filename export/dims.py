"""Dimensions that may vary: `Dim`, derived dims such as ``2 * batch``, and reading `dynamic_shapes`."""

from __future__ import annotations

import keyword
from collections.abc import Mapping
from typing import Any

from fusegrad.sizes import SizeContext, SymInt, range_text

from .errors import ExportError
from .tree import RECORDS, fields_of, kind_of, labelled


class Dim:
    """A size that may differ between calls: ``Dim("batch", min=2, max=16)``.

    One Dim used for several axes means that they are equal. ``2 * dim``, ``dim + 1`` and so on are allowed for axes
    whose size is that expression. Without `min` the size may be 0 (1 if the program needs it); without `max` it is
    unbounded. ``Dim.AUTO`` lets export decide, ``Dim.STATIC`` (or None) keeps the axis as in the example.
    """

    AUTO: Any
    DYNAMIC: Any
    STATIC: Any

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name) or name in ("max", "min"):
            raise ValueError(f"Dim: the name must be an identifier, got {name!r}")
        for label, v in (("min", min), ("max", max)):
            if v is not None and (not isinstance(v, int) or isinstance(v, bool)):
                raise TypeError(f"Dim({name!r}): {label} must be an int, got {v!r}")
        if min is not None and min < 0:
            raise ValueError(f"Dim({name!r}): min is {min}, a size is at least 0")
        if max is not None and max < (min or 0):
            raise ValueError(f"Dim({name!r}): the range {range_text(min or 0, max)} is empty")
        self.name, self.min, self.max = name, min, max

    @property
    def __name__(self) -> str:
        return self.name

    @property
    def bounds(self) -> tuple[int | None, int | None]:
        return self.min, self.max

    def __repr__(self) -> str:
        parts = [repr(self.name)] + [f"{k}={v}" for k, v in (("min", self.min), ("max", self.max)) if v is not None]
        return f"Dim({', '.join(parts)})"

    # derived dims
    def __mul__(self, k: int) -> Derived:
        return Derived(self, 1, 0) * k

    __rmul__ = __mul__

    def __add__(self, k: int) -> Derived:
        return Derived(self, 1, 0) + k

    __radd__ = __add__

    def __sub__(self, k: int) -> Derived:
        return Derived(self, 1, 0) - k


class Derived:
    """``dim * scale + offset``."""

    def __init__(self, dim: Dim, scale: int, offset: int) -> None:
        self.dim, self.scale, self.offset = dim, scale, offset

    def __mul__(self, k: int) -> Derived:
        if not isinstance(k, int) or isinstance(k, bool) or k < 1:
            raise ValueError(f"a dim can be multiplied by a positive int, got {k!r}")
        return Derived(self.dim, self.scale * k, self.offset * k)

    __rmul__ = __mul__

    def __add__(self, k: int) -> Derived:
        if not isinstance(k, int) or isinstance(k, bool):
            raise ValueError(f"an int can be added to a dim, got {k!r}")
        return Derived(self.dim, self.scale, self.offset + k)

    __radd__ = __add__

    def __sub__(self, k: int) -> Derived:
        return self + -k

    def __repr__(self) -> str:
        out = self.dim.name if self.scale == 1 else f"{self.scale}*{self.dim.name}"
        return out if not self.offset else f"{out} {'+' if self.offset > 0 else '-'} {abs(self.offset)}"


class _Hint:
    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"Dim.{self.name}"


Dim.AUTO, Dim.DYNAMIC, Dim.STATIC = _Hint("AUTO"), _Hint("DYNAMIC"), _Hint("STATIC")


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple[Dim, ...]:
    """Several dims with the same bounds: ``batch, length = dims("batch", "length", max=512)``."""
    return tuple(Dim(n, min=min, max=max) for n in names)


# ---- dynamic_shapes: the spec of each tensor leaf ----
def leaf_specs(spec: Any, names: list[str], values: Mapping[str, Any]) -> dict[str, dict[int, Any]]:
    """For each tensor's path: axis -> Dim, Derived or hint. `values` maps argument names to what was given.

    `spec` is None, a mapping by argument name, or a sequence by position. ExportError names what does not fit.
    """
    out: dict[str, dict[int, Any]] = {}
    if spec is None:
        return out
    if isinstance(spec, Mapping):
        unknown = [k for k in spec if k not in values]
        if unknown:
            raise ExportError(
                f"dynamic_shapes: there is no argument {unknown[0]!r}; the arguments are {', '.join(names)}"
            )
        pairs = list(spec.items())
    elif isinstance(spec, (tuple, list)):
        if len(spec) > len(names):
            raise ExportError(f"dynamic_shapes has {len(spec)} entries for {len(names)} arguments ({', '.join(names)})")
        pairs = list(zip(names, spec, strict=False))
    else:
        raise ExportError(f"dynamic_shapes must be a dict by argument name or a tuple by position, got {spec!r}")
    for name, s in pairs:
        _walk(s, values[name], name, out)
    return out


def _walk(spec: Any, value: Any, path: str, out: dict[str, dict[int, Any]]) -> None:
    if spec is None:
        return
    kind = kind_of(value)
    if kind is None:
        if not hasattr(value, "shape"):
            raise ExportError(f"dynamic_shapes for {path}: it is no tensor ({type(value).__name__}), so use None")
        out[path] = _axes(spec, len(value.shape), path)
        return
    if isinstance(value, Mapping):
        if not isinstance(spec, Mapping):
            raise ExportError(f"dynamic_shapes for {path}: a dict needs a dict of specs, got {spec!r}")
        for k, s in spec.items():
            if k not in value:
                raise ExportError(f"dynamic_shapes for {path}: there is no key {k!r}")
            _walk(s, value[k], f"{path}[{k!r}]", out)
        return
    parts = labelled(value)
    if kind in RECORDS:
        spec = _by_field(spec, value, path)
    if not isinstance(spec, (tuple, list)) or len(spec) != len(parts):
        raise ExportError(f"dynamic_shapes for {path}: expected a list of {len(parts)} specs, got {spec!r}")
    for s, (label, v) in zip(spec, parts, strict=True):
        _walk(s, v, path + label, out)


def _by_field(spec: Any, value: Any, path: str) -> Any:
    """The specs of a namedtuple's or dataclass's fields, given as a dict or as one like it, in order."""
    fields = fields_of(value)
    if isinstance(spec, Mapping):
        for k in spec:
            if k not in fields:
                raise ExportError(f"dynamic_shapes for {path}: there is no field {k!r} (fields: {', '.join(fields)})")
        return [spec.get(f) for f in fields]
    return [getattr(spec, f) for f in fields] if type(spec) is type(value) else spec


def _axes(spec: Any, ndim: int, path: str) -> dict[int, Any]:
    if isinstance(spec, Mapping):
        items = list(spec.items())
    elif isinstance(spec, (tuple, list)):
        if len(spec) != ndim:
            raise ExportError(f"dynamic_shapes for {path}: {len(spec)} entries for a tensor of {ndim} axes")
        items = list(enumerate(spec))
    else:
        raise ExportError(f"dynamic_shapes for {path}: expected a dict {{axis: Dim}} or a sequence, got {spec!r}")
    out: dict[int, Any] = {}
    for axis, d in items:
        if not isinstance(axis, int) or isinstance(axis, bool) or not -ndim <= axis < ndim:
            raise ExportError(f"dynamic_shapes for {path}: there is no axis {axis!r} in a tensor of {ndim} axes")
        if d is None or d is Dim.STATIC:
            continue
        if not isinstance(d, (Dim, Derived, _Hint, int)) or isinstance(d, bool):
            raise ExportError(f"dynamic_shapes for {path}: axis {axis} needs a Dim, an int or None, got {d!r}")
        out[axis % ndim] = d
    return out


class DimTable:
    """Gives each dim a symbol of one SizeContext, checking that examples and declarations agree."""

    def __init__(
        self, ctx: SizeContext, static: frozenset[str] = frozenset(), joined: Mapping[str, str] | None = None
    ) -> None:
        self.ctx = ctx
        self.static = static  # AUTO dims that turned out to be fixed
        self.joined = joined or {}  # AUTO dims that turned out to be equal to another
        self.declared: dict[str, Dim] = {}
        self.first: dict[str, tuple[str, int]] = {}
        self.auto: set[str] = set()

    def size(self, d: Any, n: int, path: str, axis: int) -> SymInt | int:
        """The symbolic size of axis `axis` of tensor `path`, whose example has size `n`."""
        where = f"{path}: axis {axis}"
        if isinstance(d, int):
            if d != n:
                raise ExportError(f"{where} is {n}, but dynamic_shapes fixes it at {d}")
            return n
        if isinstance(d, _Hint):
            return self._hinted(d, n, path, axis)
        derived = d if isinstance(d, Derived) else Derived(d, 1, 0)
        dim = derived.dim
        if (n - derived.offset) % derived.scale:
            raise ExportError(f"{where} is {n}, which is not {derived} for any int {dim.name}")
        value = (n - derived.offset) // derived.scale
        label = f'("{d.name}")' if isinstance(d, Dim) else f"({derived!r})"
        known = self.declared.setdefault(dim.name, dim)
        if known.bounds != dim.bounds:
            raise ExportError(f"{where}: {dim} was declared as {known} before")
        lo, hi = dim.min or 0, dim.max
        if value < lo or (hi is not None and value > hi):
            given = f"{where} {label} is {n}" + ("" if value == n else f", so {dim.name} is {value}")
            raise ExportError(f"{given} in the example, allowed {range_text(lo, hi)}")
        old, at = self.first.setdefault(dim.name, (f"{where}", value))
        if at != value:
            raise ExportError(f"{where} {label} gives {dim.name} = {value} in the example, but {old} gives {at}")
        s = self.ctx.symbol(dim.name, value, lo, hi, soft=dim.min is None)
        return s * derived.scale + derived.offset

    def _hinted(self, d: _Hint, n: int, path: str, axis: int) -> SymInt | int:
        name = "".join(c if c.isalnum() else "_" for c in path).strip("_") + f"_{axis}"
        automatic = d is Dim.AUTO
        while True:  # an axis found equal to another stands for it from then on
            if name in self.static:
                return n
            if automatic:
                self.auto.add(name)
            if name not in self.joined:
                break
            name = self.joined[name]
        return self.ctx.symbol(name, n, 0, None, soft=True)
