"""A program called with arrays, for callers that know nothing of tensors: the command line, other tools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fusegrad.autograd.modes import no_grad
from fusegrad.dtypes import from_numpy_dtype
from fusegrad.tensor import Tensor, wrap

from .errors import ArgumentError
from .program import ExportedProgram, Output
from .tree import flatten, unflatten

__all__ = ["call", "input_count", "output_count"]


def input_count(program: ExportedProgram) -> int:
    """How many arrays the program takes: tensors, at any depth of the arguments; fixed values are filled in."""
    return sum(leaf.input is not None for leaf in program.leaves)


def _is_array(o: Output) -> bool:
    return o.kind != "fixed" or isinstance(o.value, (bool, int, float))


def output_count(program: ExportedProgram) -> int:
    """How many arrays it gives: tensors and numbers, at any depth of the result (not None, strings, dtypes)."""
    return sum(map(_is_array, program.outputs))


def call(program: ExportedProgram, inputs: Sequence[Any]) -> list[np.ndarray]:
    """The results for these arrays, in order. InputError for what does not fit, TypeError for unknown dtypes."""
    if len(inputs) != input_count(program):
        raise ArgumentError(
            f"run: got {len(inputs)} inputs, the program takes {input_count(program)}: {program.signature_text()}"
        )
    feed = map(_tensor, inputs)
    leaves = iter([leaf.fixed if leaf.input is None else next(feed) for leaf in program.leaves])
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for p in program.params:
        value = unflatten(p.tree, leaves)
        if p.kind == "keyword":
            kwargs[p.name] = value
        else:
            args.append(value)
    with no_grad():
        result = program.module()(*args, **kwargs)
    found: list[tuple[str, Any]] = []
    flatten(result, "result", found)
    kept = [leaf for o, (_, leaf) in zip(program.outputs, found, strict=True) if _is_array(o)]
    return [t.detach().numpy() if isinstance(t, Tensor) else np.asarray(t) for t in kept]


def _tensor(value: Any) -> Tensor:
    array = np.asarray(value)
    return wrap(np.array(array, from_numpy_dtype(array.dtype).np, order="C"))
