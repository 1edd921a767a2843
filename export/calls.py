"""Checking a call of an exported program: arguments by name, then every tensor's dtype, rank and sizes."""

from __future__ import annotations

import math
from typing import Any

from fusegrad.dtypes import dtype
from fusegrad.sizes import SymInt, evaluate, range_text
from fusegrad.tensor import Tensor

from .errors import ArgumentError, InputError
from .program import ExportedProgram
from .tree import LEAF, kind_in, match


class Checker:
    """Turns the arguments of a call into the program's leaves and the values of its varying sizes."""

    def __init__(self, program: ExportedProgram) -> None:
        self.program = program
        self.positional = [p for p in program.params if p.kind != "keyword"]
        self.names = [p.name for p in program.params]
        self.ranges = {d.name: (d.min, d.max) for d in program.dims}
        self.simple = all(p.tree == LEAF for p in program.params)
        self.tensors: list[tuple[int, str, dtype, tuple, bool]] = []  # (leaf number, path, dtype, shape, all static)
        self.fixed: list[tuple[int, str, Any]] = []
        for i, leaf in enumerate(program.leaves):
            if leaf.input is None:
                self.fixed.append((i, leaf.path, leaf.fixed))
            else:
                meta = program.graph.inputs[leaf.input].meta
                shape = tuple(_dim_name(n) for n in meta.shape)
                static = all(type(n) is int for n in shape)
                self.tensors.append((i, leaf.path, meta.dtype, shape, static))
        mutated = {v.index for v, _ in program.graph.mutations}
        self.writes = [i for i, leaf in enumerate(program.leaves) if leaf.input in mutated]

    def __call__(self, args: tuple, kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, int]]:
        """(leaves, sizes). InputError (or ArgumentError) whose first line names the argument and what is allowed."""
        try:
            leaves = self.leaves(args, kwargs)
            env = self.sizes(leaves)
            for i, path, value in self.fixed:
                if not same_value(leaves[i], value):
                    raise InputError(f"{path}: is {_short(leaves[i])}, fixed at {_short(value)} when it was exported")
            if self.writes:
                self._apart(leaves)
        except InputError as e:
            raise type(e)(f"{e}\n  accepted: {self.program.signature_text()}") from None
        return leaves, env

    def leaves(self, args: tuple, kwargs: dict[str, Any]) -> list[Any]:
        """The leaves in order, matched by argument name and nesting."""
        if self.simple and not kwargs and len(args) == len(self.positional) == len(self.names):
            if not any(isinstance(a, (list, tuple, dict)) for a in args):
                return list(args)
        values = self.bind(args, kwargs)
        out: list[tuple[str, Any]] = []
        for p in self.program.params:
            if p.name in values:
                match(p.tree, values[p.name], p.name, out)
            else:
                at = len(out)
                count = _count(p.tree)
                fixed = self.program.leaves[at : at + count]
                if any(leaf.input is not None for leaf in fixed):
                    raise ArgumentError(
                        f"{p.name}: is missing; its default at export was a tensor, so it must be given"
                    )
                out += [(leaf.path, leaf.fixed) for leaf in fixed]
        return [v for _, v in out]

    def bind(self, args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
        """Values by argument name. ArgumentError for missing, unexpected or repeated ones."""
        if len(args) > len(self.positional):
            raise ArgumentError(
                f"{self.program.name}: got {len(args)} positional arguments, allowed {len(self.positional)}"
            )
        values = {p.name: a for p, a in zip(self.positional, args, strict=False)}
        for name, value in kwargs.items():
            if name not in self.names or any(p.name == name and p.kind == "positional" for p in self.positional):
                raise ArgumentError(f"{name}: is an unexpected argument, allowed: {', '.join(self.names) or 'none'}")
            if name in values:
                raise ArgumentError(f"{name}: is given twice, by position and by name")
            values[name] = value
        missing = [p.name for p in self.program.params if p.name not in values and not p.optional]
        if missing:
            raise ArgumentError(f"{missing[0]}: is missing (arguments: {', '.join(self.names)})")
        return values

    def sizes(self, leaves: list[Any]) -> dict[str, int]:
        """The varying sizes of this call, with every tensor checked."""
        env: dict[str, int] = {}
        first: dict[str, tuple[str, int]] = {}
        later: list[tuple[str, int, Any, Any]] = []
        for i, path, want, shape, static in self.tensors:
            t = leaves[i]
            if not isinstance(t, Tensor):
                raise ArgumentError(f"{path}: is a {type(t).__name__}, allowed a Tensor of dtype {want.name}")
            data = t._data
            got = t.shape if data is None else data.shape
            if (t.dtype is not want) if data is None else (data.dtype != want.np):
                raise InputError(f"{path}: dtype is {t.dtype.name}, allowed {want.name}")
            if static and got == shape:
                continue
            if len(got) != len(shape):
                raise InputError(
                    f"{path}: has {len(got)} axes (shape {_shape(got)}), allowed {len(shape)} (shape {_shape(shape)})"
                )
            for axis, size in enumerate(shape):
                n = got[axis]
                if type(size) is int:
                    if n != size:
                        raise InputError(f"{path}: axis {axis} is {n}, allowed {size} (fixed when it was exported)")
                elif type(size) is str:
                    self._bind_size(size, n, path, axis, env, first)
                else:
                    later.append((path, axis, n, size))
        for path, axis, n, size in later:
            self._derived(path, axis, n, size, env, first)
        return env

    def _bind_size(
        self, name: str, n: int, path: str, axis: int, env: dict[str, int], first: dict[str, tuple[str, int]]
    ) -> None:
        known = env.get(name)
        if known is None:
            lo, hi = self.ranges[name]
            if n < lo or (hi is not None and n > hi):
                raise InputError(f'{path}: axis {axis} ("{name}") is {n}, allowed {range_text(lo, hi)}')
            env[name] = n
            first[name] = (path, axis)
        elif known != n:
            raise InputError(f'{path}: axis {axis} ("{name}") is {n}, allowed {known} (from {_place(first[name])})')

    def _derived(
        self, path: str, axis: int, n: int, size: SymInt, env: dict[str, int], first: dict[str, tuple[str, int]]
    ) -> None:
        """An axis such as ``2*batch + 1``: solve for the one unknown, or compare."""
        names = sorted(size.expr.symbols())
        unknown = [s for s in names if s not in env]
        if len(unknown) == 1 and len(names) == 1:
            zero, one = size.expr.evaluate({names[0]: 0}), size.expr.evaluate({names[0]: 1})
            value, rest = divmod(n - zero, one - zero) if one != zero else (0, 1)
            lo, hi = self.ranges[names[0]]
            if rest or value < lo or (hi is not None and value > hi):
                raise InputError(
                    f'{path}: axis {axis} ("{size}") is {n}, allowed {size} with {names[0]} in {range_text(lo, hi)}'
                )
            env[names[0]] = value
            first[names[0]] = (path, axis)
        elif unknown or evaluate(size, env) != n:
            if unknown:
                raise InputError(f'{path}: axis {axis} ("{size}") is {n}, and no argument gives {unknown[0]}')
            where = ", ".join(f"{s} is {env[s]} from {_place(first[s])}" for s in names)
            raise InputError(f'{path}: axis {axis} ("{size}") is {n}, allowed {evaluate(size, env)} ({where})')

    def _apart(self, leaves: list[Any]) -> None:
        """The program writes into an argument: no other argument may share its memory."""
        import numpy as np

        arrays = [(path, leaves[i]._data) for i, path, *_ in self.tensors if leaves[i]._data is not None]
        for i in self.writes:
            path = self.program.leaves[i].path
            for other, array in arrays:
                if other != path and leaves[i]._data is not None and np.may_share_memory(leaves[i]._data, array):
                    raise InputError(
                        f"{path}: is changed in place and shares memory with {other}, allowed: separate memory"
                    )


def _dim_name(size: Any) -> Any:
    """An int, the name of a dim, or (for ``2*batch`` and the like) the size itself."""
    atom = size.expr.single_atom() if isinstance(size, SymInt) else None
    return atom.text if atom is not None and atom.kind == "symbol" else size


def _place(where: tuple[str, int]) -> str:
    return f"{where[0]}: axis {where[1]}"


def _count(tree: Any) -> int:
    if tree == LEAF:
        return 1
    kind = kind_in(tree)
    children = [t for _, t in tree[kind]] if kind.endswith("dict") else tree[kind]
    return sum(map(_count, children))


def _shape(shape: Any) -> str:
    return "(" + ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "") + ")"


def _short(value: Any) -> str:
    text = f"a Tensor of shape {_shape(value.shape)}" if isinstance(value, Tensor) else repr(value)
    return text if len(text) < 80 else text[:77] + "..."


def same_value(got: Any, want: Any) -> bool:
    """Equality of fixed values: same type (True is not 1), NaN equal to itself, 0.0 not -0.0."""
    if hasattr(got, "item") and not isinstance(got, Tensor):
        got = got.item()
    if type(got) is not type(want):
        return False
    if isinstance(want, float):
        return (got == want and math.copysign(1, got) == math.copysign(1, want)) or (got != got and want != want)
    return bool(got == want)
