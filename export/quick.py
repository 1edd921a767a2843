"""The usual call of an exported program as one generated function: plain tensors by position, checked, to the region.

What it does not know (names, nesting, other layouts, other dtypes, errors, gradients of views) gives ``MISS``, and the
call goes through ``calls.Checker``, which says what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fusegrad.autograd.modes import STATE
from fusegrad.nn import Parameter
from fusegrad.tensor import Tensor

from .calls import Checker
from .program import ExportedProgram

__all__ = ["MISS", "quick_call"]

MISS: Any = object()
_KINDS = frozenset((Tensor, Parameter))


def quick_call(
    program: ExportedProgram,
    check: Checker,
    slots: list[tuple[int, Any, str]],
    seen: list[Any],
    regions: dict[Any, Any],
    plain: Any,
) -> Callable[[tuple], Any] | None:
    """``call(args)``: the outputs of the graph, or MISS; None for programs that are never called this way.

    ``regions``: compiled forms by which inputs need gradients; ``plain`` stands there for none. ``slots``: where each
    (input, table, name) of the state is; ``seen``: its arrays that were checked.
    """
    order = sorted(check.tensors)
    simple = check.simple and len(check.positional) == len(check.names) == len(order)
    if not simple or check.fixed or check.writes or program.floats or program.graph.mutations:
        return None
    if any(o.kind not in ("value", "fixed") for o in program.outputs):
        return None
    names = {program.leaves[i].input: f"x{i}" for i, *_ in order}
    env: dict[str, Any] = {"STATE": STATE, "KINDS": _KINDS, "MISS": MISS, "REGIONS": regions, "PLAIN": plain}
    env["SEEN"] = seen
    tests: list[str] = []
    sizes: dict[str, str] = {}
    for i, _, want, shape, _ in order:
        if not all(type(n) in (int, str) for n in shape):
            return None
        env[f"D{i}"] = want.np
        tests += [f"type(x{i}) in KINDS", f"(d{i} := x{i}._data) is not None", f"d{i}.dtype is D{i}"]
        tests += [f"d{i}.flags.c_contiguous", *_shape_tests(f"d{i}", shape, sizes, check.ranges)]
    for k, (i, table, name) in enumerate(slots):
        names[i] = f"p{k}"
        env[f"T{k}"], env[f"N{k}"] = table, name
        tests.append(f"(p{k} := T{k}.get(N{k})) is not None and p{k}._data is SEEN[{k}] is not None")
    known = [i for i in names if i is not None]
    if len(known) < len(names) or sorted(known) != list(range(len(program.graph.inputs))):
        return None
    inputs = [names[i] for i in range(len(names))]
    lines = [
        "def call(args):",
        f"    if len(args) != {len(order)}: return MISS",
        *([f"    {', '.join(f'x{i}' for i, *_ in order)}, = args"] if order else []),
        f"    if not ({' and '.join(tests) or 'True'}): return MISS",
        "    if STATE.grad:",
        f"        if not ({' and '.join(f'{x}._view is None' for x in inputs) or 'True'}): return MISS",
        f"        region = REGIONS.get(({''.join(f'{x}._rg, ' for x in inputs)}))",
        "    else:",
        "        region = REGIONS.get(PLAIN)",
        "    run = getattr(region, 'call', None)",
        "    if run is None: return MISS",
        f"    if region.size_params: return run({''.join(f'{x}, ' for x in inputs)}"
        f"*map({{{', '.join(f'{n!r}: {at}' for n, at in sizes.items())}}}.get, region.size_params))",
        f"    return run({', '.join(inputs)})",
    ]
    exec(compile("\n".join(lines), f"<fusegrad call of {program.name}>", "exec"), env)
    return env["call"]


def _shape_tests(array: str, shape: tuple, sizes: dict[str, str], ranges: dict[str, tuple]) -> list[str]:
    """Conditions on the shape of an array; ``sizes``: where each varying size was read first."""
    if all(type(n) is int for n in shape):
        return [f"{array}.shape == {shape}"]
    tests = [f"{array}.ndim == {len(shape)}"]
    for axis, size in enumerate(shape):
        at = f"{array}.shape[{axis}]"
        if type(size) is int:
            tests.append(f"{at} == {size}")
        elif size in sizes:
            tests.append(f"{at} == {sizes[size]}")
        else:
            low, high = ranges[size]
            low = max(low, 1)  # size 0: not compiled
            sizes[size] = at
            tests.append(f"{at} >= {low}" if high is None else f"{low} <= {at} <= {high}")
    return tests
