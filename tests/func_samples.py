"""Samples of the op table as calls: (operator, tensor arguments, attributes), for the tests of vmap and "
"forward mode."""

from __future__ import annotations

import numpy as np

from fusegrad.op import TABLE, Op
from fusegrad.tensor import Tensor, wrap


def bound(op: Op, sample) -> tuple[list, dict]:
    """Tensor arguments (arrays made tensors) and attributes of one sample."""

    def tensor(x):
        if isinstance(x, (list, tuple)) and x and isinstance(x[0], np.ndarray):
            return [wrap(np.array(v)) for v in x]
        return wrap(np.array(x)) if isinstance(x, np.ndarray) else x

    params = list(op.sig.params)
    args, attrs = [], dict(sample.kwargs)
    given = dict(zip((p.name for p in params), sample.args, strict=False))
    if len(sample.args) > len(params):  # a shape as varargs
        given[params[len(op.sig.tensors)].name] = sample.args[len(op.sig.tensors) :]
    given.update(attrs)
    attrs = {}
    for p in params:
        if p.name not in given:
            if p.is_tensor:
                args.append(None if p.default is None or not p.has_default else p.default)
            continue
        if p.is_tensor:
            args.append(tensor(given[p.name]))
        else:
            attrs[p.name] = given[p.name]
    return args, attrs


def cases(kinds=None):
    """(id, op, args, attrs) of every sample of every operator with a tensor argument."""
    for op in TABLE.values():
        if op.samples is None or not op.sig.tensors or (kinds and op.kind not in kinds):
            continue
        for i, s in enumerate(op.samples()):
            args, attrs = bound(op, s)
            yield f"{op.name}-{i}", op, args, attrs


def call(op: Op, args, attrs):
    """Call with tensors by position and attributes by name (shapes too)."""
    return op.fn(*args, **attrs)


def outputs(r) -> list[Tensor]:
    return [r] if isinstance(r, Tensor) else [t for t in r if isinstance(t, Tensor)]
