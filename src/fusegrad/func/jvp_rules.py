"""Tangents of an operator's results, derived from what the op table says already.

- pointwise: the Jacobian is diagonal, so the vjp rule maps tangents as it maps cotangents;
- views, and operators whose vjp rules need no value of a floating point input: linear, so the operator itself is
  applied to the tangents;
- reductions (each element counts in one result): the gradient of each result times the tangents, summed;
- products: one term for each factor;
- anything else: the vjp is linear in its cotangent, and the vjp of *that* is the jvp.
"""

from __future__ import annotations

from typing import Any

from ..autograd.engine import run_grad
from ..autograd.modes import STATE, set_grad
from ..dispatch import _value, dispatch, meta_of
from ..op import TABLE, Op
from ..tensor import Tensor
from .levels import lifted, local_alias

_PRODUCTS = ("matmul", "_conv", "_conv_input", "_conv_weight")
_ROWS = ("prod", "amax", "amin", "max_all", "min_all", "var", "std", "vector_norm", "logsumexp", "median_all")
_NO_SECOND = ("_ctc",)  # the gradient's own derivative is not known
_CONSTANT = "value"  # attribute that adds a constant to an otherwise linear operator


def tangents_of(op: Op, xs: list, ts: list, attrs: dict[str, Any], outs: Any) -> tuple:
    """A tangent (or None: zero) for each output."""
    if not any(y.dtype.is_floating_point for y in outs):
        return (None,) * len(outs)
    if op.jvp is not None:
        made = op.jvp(xs, ts, outs, **attrs)
    elif op.kind == "pointwise" and op.n_out == 1:
        made = diagonal(op, xs, ts, attrs, outs[0])
    elif op.name in _ROWS:
        made = rows(op, xs[0], ts[0], attrs, outs[0])
    elif op.name == "nn.functional.linear":
        made = _linear_layer(op, xs, ts)
    elif op.name in _PRODUCTS:
        made = product(op, xs, ts, attrs)
    elif op.kind == "view" or is_linear(op, xs):
        made = linear(op, xs, ts, attrs, outs)
    else:
        return twice(op, xs, ts, attrs, outs)
    return tuple(made) if isinstance(made, (tuple, list)) else (made,)


def like(t: Tensor, y: Tensor) -> Tensor:
    """A tangent in the shape and dtype of what it belongs to."""
    if t.dtype is not y.dtype:
        t = t.to(y.dtype)
    return t if tuple(t.shape) == tuple(y.shape) else t.expand(tuple(y.shape))


def diagonal(op: Op, xs: list, ts: list, attrs: dict[str, Any], y: Tensor) -> Tensor | None:
    """The vjp rules, fed with tangents."""
    params = op.sig.tensors
    values: dict[str, Any] = {**attrs, "out": y, "out0": y}
    for p, x in zip(params, xs, strict=True):
        values[p.name], values[p.name + "_meta"] = x, meta_of(x)
    total = None
    for i, (p, t) in enumerate(zip(params, ts, strict=True)):
        if t is None:
            continue
        values["g"] = values["g0"] = like(t, y)
        values["need"] = tuple(k == i for k in range(len(params)))
        rule = op.rules.get("*") or op.rules.get(p.name)
        if rule is None:
            continue
        r = rule.fn(*(_value(op, values, n) for n in rule.names))
        if "*" in op.rules and isinstance(r, (tuple, list)):
            r = r[i]
        if r is not None:
            total = r if total is None else total + r
    return None if total is None else like(total, y)


def rows(op: Op, x: Tensor, t: Tensor, attrs: dict[str, Any], y: Tensor) -> Tensor:
    """A reduction: the vjp rule for a cotangent of ones gives every result's gradient at once."""
    param = op.sig.tensors[0].name
    ones = TABLE["full"](tuple(y.shape), 1, y.dtype)
    values = {
        **attrs,
        "out": y,
        "out0": y,
        param: x,
        param + "_meta": meta_of(x),
        "g": ones,
        "g0": ones,
        "need": (True,),
    }
    rule = op.rules.get("*") or op.rules[param]
    r = rule.fn(*(_value(op, values, n) for n in rule.names))
    terms = (r[0] if isinstance(r, (tuple, list)) else r) * t
    dim = attrs.get("dim")
    if dim is None or dim == () or x.ndim == 0:
        return like(terms.sum().reshape(tuple(y.shape)), y)
    return like(terms.sum(dim, keepdim=attrs.get("keepdim", False)), y)


def is_linear(op: Op, xs: list) -> bool:
    """Whether no vjp rule asks for an output or a floating point input."""
    values = {p.name: x for p, x in zip(op.sig.tensors, xs, strict=True)}
    for rule in op.rules.values():
        for n in rule.names:
            if n[:3] == "out" and n not in values:
                return False
            x = values.get(n)
            for v in x if isinstance(x, tuple) else (x,):
                if isinstance(v, Tensor) and v.dtype.is_floating_point:
                    return False
    return bool(op.rules)


def _zero(x: Tensor) -> Tensor:
    return TABLE["zeros"](tuple(x.shape), dtype=x.dtype)


def linear(op: Op, xs: list, ts: list, attrs: dict[str, Any], outs: Any) -> Any:
    """The operator on the tangents; zeros where there is none; no added constants."""

    def one(x: Any, t: Any) -> Any:
        if isinstance(x, tuple):
            return tuple(one(v, u) for v, u in zip(x, t, strict=True))
        if t is not None:
            return t
        if isinstance(x, Tensor):
            return _zero(x) if x.dtype.is_floating_point else x
        return None if x is None else 0

    attrs = dict(attrs)
    if _CONSTANT in attrs:
        attrs[_CONSTANT] = 0
    args = tuple(one(x, t) for x, t in zip(xs, ts, strict=True))
    if op.name in ("view", "as_strided", "as_strided_from"):
        args = (_laid_out(args[0], xs[0]),)
    return dispatch(op, args, attrs)


def _laid_out(t: Tensor, x: Tensor) -> Tensor:
    """A tangent with the strides of its primal, so that the same views of it are possible."""
    if t.stride() == x.stride():
        return t
    order = sorted(range(x.ndim), key=lambda d: -x.stride()[d])
    if sorted(x.stride(), reverse=True) == [x.stride()[d] for d in order] and x.ndim:
        back = tuple(order.index(d) for d in range(x.ndim))
        return t.permute(tuple(order)).contiguous().permute(back)
    return t.contiguous()


def product(op: Op, xs: list, ts: list, attrs: dict[str, Any]) -> Tensor:
    """The product rule."""
    total = None
    for i, t in enumerate(ts):
        if t is not None:
            term = dispatch(op, tuple(t if k == i else x for k, x in enumerate(xs)), dict(attrs))
            total = term if total is None else total + term
    return total  # type: ignore[return-value]


def _linear_layer(op: Op, xs: list, ts: list) -> Tensor | None:
    x, w, _ = xs
    tx, tw, tb = ts
    total = tb
    if tx is not None:
        total = op(tx, w, tb)
    if tw is not None:
        term = op(x, tw, None if total is not None else tb)
        total = term if total is None else total + term
    elif tx is None:
        total = tb.expand((*x.shape[:-1], w.shape[0]))
    if tx is None and tw is not None and tb is not None:
        return total.expand((*x.shape[:-1], w.shape[0]))  # type: ignore[union-attr]
    return total


def fresh_inputs(flat: list[Tensor]) -> tuple[list[Tensor], bool]:
    """Copies to differentiate by; whether an outer level watches them."""
    outer, made = False, []
    for x in flat:
        if x.requires_grad and STATE.grad:
            outer = True
            made.append(TABLE["clone"](x))
        else:
            y = lifted(x)
            y._rg = True
            made.append(y)
    return made, outer


def twice(op: Op, xs: list, ts: list, attrs: dict[str, Any], outs: Any) -> tuple:
    """The vjp of the vjp."""
    if op.name in _NO_SECOND:
        raise NotImplementedError(f"forward mode through {op.name.strip('_')} is not supported: use reverse mode")
    watched = [x for a, t in zip(xs, ts, strict=True) for x, u in _pairs(a, t) if u is not None]
    given = [u for a, t in zip(xs, ts, strict=True) for x, u in _pairs(a, t) if u is not None]
    before, outside = STATE.grad, STATE.grad
    inputs, outer = fresh_inputs(watched)
    set_grad(True)
    try:
        it = iter(inputs)
        args = tuple(
            tuple(next(it) if u is not None else x for x, u in _pairs(a, t))
            if isinstance(a, tuple)
            else (next(it) if t is not None else a)
            for a, t in zip(xs, ts, strict=True)
        )
        again = dispatch(op, args, dict(attrs))
        again = again if isinstance(again, (tuple, list)) else (again,)
        made = transposed([y if y.requires_grad else None for y in again], inputs, given)
    finally:
        set_grad(before)
    keep = outer or outside and any(t.requires_grad for t in [*given, *_flat(xs)])
    return tuple(t if t is None or keep else local_alias(t) for t in made)


def transposed(outs: list[Tensor | None], inputs: list[Tensor], given: list[Tensor]) -> list[Tensor | None]:
    """The jvp of a recorded computation: its vjp, transposed."""
    live = [y for y in outs if y is not None]
    if not live:
        return [None] * len(outs)
    cots = []
    for y in live:
        g = lifted(TABLE["full"](tuple(y.shape), 1, y.dtype))  # any value would do: but rules may branch at 0
        g._rg = True
        cots.append(g)
    pulled = run_grad(live, inputs, cots, create_graph=True, allow_unused=True)
    pairs = [(p, like(u, p)) for p, u in zip(pulled, given, strict=True) if p is not None and p.requires_grad]
    if not pairs:
        return [None] * len(outs)
    back = run_grad([p for p, _ in pairs], cots, [u for _, u in pairs], create_graph=True, allow_unused=True)
    it = iter(back)
    return [None if y is None else next(it) for y in outs]


def _pairs(a: Any, t: Any) -> list:
    return list(zip(a, t, strict=True)) if isinstance(a, tuple) else [(a, t)]


def _flat(xs: list) -> list[Tensor]:
    return [x for a in xs for x in (a if isinstance(a, tuple) else (a,)) if isinstance(x, Tensor)]
