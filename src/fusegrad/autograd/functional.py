"""Derivatives of functions of tensors: ``jacobian``, ``hessian``, ``vjp``, ``jvp``, ``vhp``, ``hvp``.

Unlike the transforms of ``fusegrad.func`` these take the inputs along with the function, give zeros (or refuse, with
``strict``) where an output does not depend on an input, and keep no graph of the results unless ``create_graph``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..op import TABLE
from ..tensor import Tensor
from .engine import run_grad
from .modes import enable_grad

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]


def _as_tuple(x: Any, what: str, fn: str) -> tuple[bool, tuple]:
    """(whether it was a tuple, a tuple of tensors). TypeError for anything else."""
    is_tuple = isinstance(x, tuple)
    values = x if is_tuple else (x,)
    for i, t in enumerate(values):
        if not isinstance(t, Tensor):
            value, verb = (
                ("inputs", "given") if what == "inputs" else ("outputs of the user-provided function", "given")
            )
            if is_tuple:
                raise TypeError(
                    f"The {value} given to {fn} must be either a Tensor or a tuple of Tensors but the value at index "
                    f"{i} has type {type(t)}."
                )
            raise TypeError(
                f"The {value} given to {fn} must be either a Tensor or a tuple of Tensors but the {verb} {value} "
                f"has type {type(t)}."
            )
    return is_tuple, values


def _prepared(inputs: tuple, create_graph: bool) -> tuple:
    """Copies to differentiate by: tied to the graph of the inputs if that is wanted."""
    return tuple(TABLE["clone"](t) if create_graph and t.requires_grad else t.detach()._ask_grad(True) for t in inputs)


def _checked_vector(v: tuple, like: tuple, is_tuple: bool) -> None:
    if len(v) != len(like):
        if is_tuple:
            raise RuntimeError(f"v is a tuple of invalid length: should be {len(like)} but got {len(v)}.")
        raise RuntimeError("The given v should contain a single Tensor.")
    for i, (a, b) in enumerate(zip(v, like, strict=True)):
        if tuple(a.shape) != tuple(b.shape):
            at = f"Entry {i} in " if is_tuple else ""
            raise RuntimeError(f"{at}v has invalid size: should be {b.shape} but got {a.shape}.")


def _vector(v: Any, like: tuple, is_tuple: bool, fn: str, message: str) -> tuple:
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(message)
        return (TABLE["full"](tuple(like[0].shape), 1, like[0].dtype),)
    _, vs = _as_tuple(v, "v", fn)
    vs = tuple(t.detach() if not t.requires_grad else t for t in vs)
    _checked_vector(vs, like, is_tuple)
    return vs


def _strict_outputs(outs: tuple, what: str = "outputs") -> None:
    for i, y in enumerate(outs):
        if not y.requires_grad:
            if what == "jacobian":
                raise RuntimeError(
                    f"While computing the hessian, found that the jacobian of the user-provided function with "
                    f"respect to "
                    f"input {i} is independent of the input. This is not allowed in strict mode. You should "
                    f"ensure that your "
                    "function is twice differentiable and that the jacobian depends on the inputs (this would "
                    "be violated by "
                    "a linear function for example)."
                )
            raise RuntimeError(
                f"Output {i} of the user-provided function does not require gradients. The outputs must be "
                f"computed in a "
                "differentiable manner from the input when running in strict mode."
            )


def _grad(outs: tuple, ins: tuple, cots: tuple, create: bool) -> tuple:
    """Vector-Jacobian products, None where there is no path."""
    live = [(y, c) for y, c in zip(outs, cots, strict=True) if y is not None and y.requires_grad]
    if not live:
        return (None,) * len(ins)
    return run_grad(
        [y for y, _ in live], ins, [c for _, c in live], retain_graph=True, create_graph=create, allow_unused=True
    )


def _filled(grads: tuple, like: tuple, strict: bool, create: bool, stage: str) -> tuple:
    """Zeros for None, or the error of strict mode."""
    out = []
    for i, (g, x) in enumerate(zip(grads, like, strict=True)):
        if g is None:
            if strict:
                raise RuntimeError(_DEPENDS[stage].format(i=i))
            g = TABLE["zeros"](tuple(x.shape), dtype=x.dtype)
        elif strict and create and not g.requires_grad:
            raise RuntimeError(_DEPENDS_TWICE[stage].format(i=i))
        out.append(g)
    return tuple(out)


_STRICT = " is independent of input {i}. This is not allowed in strict mode"
_NOT_LINEAR = (
    " in the {what}. This is not allowed in strict mode: the derivative is computed by the double backward trick."
)
_DEPENDS = {
    "back": "The output of the user-provided function" + _STRICT + ".",
    "back_trick": "The gradient with respect to the input is independent of entry {i}"
    + _NOT_LINEAR.replace("{what}", "grad_outputs"),
    "double_back": "The jacobian of the user-provided function" + _STRICT + ".",
    "double_back_trick": "The hessian of the user-provided function is independent of entry {i}"
    + _NOT_LINEAR.replace("{what}", "grad_jacobian"),
}
_DEPENDS_TWICE = {
    "back": "The jacobian of the user-provided function" + _STRICT + " when create_graph=True.",
    "back_trick": "The jacobian of the user-provided function" + _STRICT + " when create_graph=True.",
    "double_back": "The hessian of the user-provided function" + _STRICT + " when create_graph=True.",
    "double_back_trick": "The hessian of the user-provided function" + _STRICT + " when create_graph=True.",
}


def _done(values: tuple, is_tuple: bool, create_graph: bool) -> Any:
    if not create_graph:
        values = tuple(t.detach() for t in values)
    return values if is_tuple else values[0]


def vjp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple:
    """(output, v^T J): ``v`` has the output's structure and may be left out for a single scalar."""
    with enable_grad():
        is_in, ins = _as_tuple(inputs, "inputs", "vjp")
        ins = _prepared(ins, create_graph)
        is_out, outs = _as_tuple(func(*ins), "outputs", "vjp")
        if strict:
            _strict_outputs(outs)
        vs = _vector(
            v,
            outs,
            is_out,
            "vjp",
            "The vector v can only be None if the user-provided function returns a single "
            "Tensor with a single element.",
        )
        r = _filled(_grad(outs, ins, vs, create_graph), ins, strict, create_graph, "back")
    return _done(outs, is_out, create_graph), _done(r, is_in, create_graph)


_NO_VECTOR = (
    "The vector v can only be None if the input to the user-provided function is a single Tensor with a single element."
)


def jvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple:
    """(output, J v), by the vjp of the vjp: ``v`` has the inputs' structure."""
    with enable_grad():
        is_in, ins = _as_tuple(inputs, "inputs", "jvp")
        ins = _prepared(ins, create_graph)
        vs = _vector(v, ins, is_in, "jvp", _NO_VECTOR)
        is_out, outs = _as_tuple(func(*ins), "outputs", "jvp")
        if strict:
            _strict_outputs(outs)
        cots = tuple(TABLE["full"](tuple(y.shape), 1, y.dtype)._ask_grad(True) for y in outs)
        pulled = _grad(outs, ins, cots, True)
        if strict:
            _filled(pulled, ins, True, False, "back")
        r = _filled(_grad(pulled, cots, vs, create_graph), outs, strict, create_graph, "back_trick")
    return _done(outs, is_out, create_graph), _done(r, is_out, create_graph)


def _scalar(out: Any, fn: str) -> Tensor:
    is_out, outs = _as_tuple(out, "outputs", fn)
    if is_out:
        raise RuntimeError(f"The function given to {fn} should return a single Tensor")
    if outs[0].numel() != 1:
        raise RuntimeError(f"The Tensor returned by the function given to {fn} should contain a single element")
    return outs[0].reshape(()) if outs[0].ndim else outs[0]


def vhp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple:
    """(output, v^T H) of a function with one element as its output."""
    with enable_grad():
        is_in, ins = _as_tuple(inputs, "inputs", "vhp")
        ins = _prepared(ins, create_graph)
        vs = _vector(v, ins, is_in, "vhp", _NO_VECTOR)
        y = _scalar(func(*ins), "vhp")
        if strict:
            _strict_outputs((y,))
        jac = _filled(_grad((y,), ins, (_one(y),), True), ins, strict, False, "back")
        if strict:
            _strict_outputs(jac, "jacobian")
        r = _filled(_grad(jac, ins, vs, create_graph), ins, strict, create_graph, "double_back")
    return _done((y,), False, create_graph), _done(r, is_in, create_graph)


def hvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple:
    """(output, H v) of a function with one element as its output."""
    with enable_grad():
        is_in, ins = _as_tuple(inputs, "inputs", "hvp")
        ins = _prepared(ins, create_graph)
        vs = _vector(v, ins, is_in, "hvp", _NO_VECTOR)
        y = _scalar(func(*ins), "hvp")
        if strict:
            _strict_outputs((y,))
        jac = _filled(_grad((y,), ins, (_one(y),), True), ins, strict, False, "back")
        if strict:
            _strict_outputs(jac, "jacobian")
        cots = tuple(TABLE["full"](tuple(x.shape), 1, x.dtype)._ask_grad(True) for x in ins)
        double = _filled(_grad(jac, ins, cots, True), ins, strict, True, "double_back")
        r = _filled(_grad(double, cots, vs, create_graph), ins, strict, create_graph, "double_back_trick")
    return _done((y,), False, create_graph), _done(r, is_in, create_graph)


def _one(y: Tensor) -> Tensor:
    return TABLE["full"](tuple(y.shape), 1, y.dtype)


def jacobian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The Jacobian: for each output and each input a tensor of shape (output shape + input shape).

    A tensor for one output and one input, a tuple over inputs, over outputs, or a tuple of tuples. ``vectorize``: all
    rows at once by ``vmap``; ``strategy="forward-mode"`` needs it. RuntimeError in ``strict`` mode where an output does
    not depend on an input.
    """
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError(
            'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your function has more outputs '
            'than inputs, "forward-mode" tends to be more performant. Otherwise, prefer to use "reverse-mode".'
        )
    if strategy == "forward-mode":
        return _jacobian_forward(func, inputs, create_graph, strict, vectorize)
    with enable_grad():
        is_in, ins = _as_tuple(inputs, "inputs", "jacobian")
        ins = _prepared(ins, create_graph)
        is_out, outs = _as_tuple(func(*ins), "outputs", "jacobian")
        if strict:
            _strict_outputs(outs)
        if strict and vectorize:
            raise RuntimeError(
                "jacobian: `strict=True` and `vectorized=True` are not supported together. Please "
                "either set `strict=False` or `vectorize=False`."
            )
        blocks = [_rows(k, y, ins, create_graph, strict, vectorize) for k, y in enumerate(outs)]
    if not create_graph:
        blocks = [tuple(t.detach() for t in row) for row in blocks]
    rows = tuple(row if is_in else row[0] for row in blocks)
    return rows if is_out else rows[0]


def _rows(k: int, y: Tensor, ins: tuple, create: bool, strict: bool, vectorize: bool) -> tuple:
    """The Jacobians of one output."""
    n = y.numel()
    shapes = [(*y.shape, *x.shape) for x in ins]
    if n == 0 or not y.requires_grad:
        return tuple(TABLE["zeros"](s, dtype=x.dtype) for s, x in zip(shapes, ins, strict=True))
    units = TABLE["eye"](n, n, y.dtype).reshape((n, *y.shape))
    if vectorize:
        from .api import grad

        found = grad(y, ins, units, retain_graph=True, create_graph=create, allow_unused=True, is_grads_batched=True)
        return tuple(
            TABLE["zeros"](s, dtype=y.dtype) if g is None else g.reshape(s) for g, s in zip(found, shapes, strict=True)
        )
    columns: list[list[Tensor]] = [[] for _ in ins]
    for j in range(n):
        for i, (g, x) in enumerate(zip(_grad((y,), ins, (units[j],), create), ins, strict=True)):
            if g is None:
                if strict:
                    raise RuntimeError(
                        f"Output {k} of the user-provided function is independent of input {i}. This is not "
                        "allowed in strict mode."
                    )
                g = TABLE["zeros"](tuple(x.shape), dtype=x.dtype)
            elif strict and create and not g.requires_grad:
                raise RuntimeError(
                    f"The jacobian of the user-provided function is independent of input {i}. This is not "
                    "allowed in strict mode when create_graph=True."
                )
            columns[i].append(g)
    return tuple(TABLE["stack"](c, 0).reshape(s) for c, s in zip(columns, shapes, strict=True))


def _jacobian_forward(func: Callable[..., Any], inputs: Any, create: bool, strict: bool, vectorize: bool) -> Any:
    if strict:
        raise RuntimeError(
            'jacobian: `strict=True` and `strategy="forward-mode"` are not supported '
            'together (yet). Please either set `strict=False` or `strategy="reverse-mode"`.'
        )
    if not vectorize:
        raise NotImplementedError(
            "Computing Jacobian using forward-AD or forward-over-reverse Hessian is only implemented for "
            "`vectorize=True`."
        )
    from ..func import jacfwd

    is_in, ins = _as_tuple(inputs, "inputs", "jacobian")
    outs_tuple = [False]

    def wrapped(*args: Any) -> tuple:
        outs_tuple[0], outs = _as_tuple(func(*args), "outputs", "jacobian")
        return outs

    blocks = jacfwd(wrapped, argnums=tuple(range(len(ins))))(*(ins if create else [t.detach() for t in ins]))
    if not create:
        blocks = tuple(tuple(t.detach() for t in row) for row in blocks)
    rows = tuple(row if is_in else row[0] for row in blocks)
    return rows if outs_tuple[0] else rows[0]


def hessian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The Hessian of a function with one element as its output: for each pair of inputs a tensor."""
    is_in, ins = _as_tuple(inputs, "inputs", "hessian")
    if outer_jacobian_strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError('Expected strategy to be either "forward-mode" or "reverse-mode".')

    def single(*args: Any) -> Tensor:
        y = _scalar(func(*args), "hessian")
        if strict:
            _strict_outputs((y,))
        return y

    def gradient(*args: Any) -> Any:
        if outer_jacobian_strategy == "forward-mode":
            from ..func import grad

            return grad(single, argnums=tuple(range(len(args))))(*args)
        jac = jacobian(single, args, create_graph=True)
        if strict:
            _strict_outputs(jac, "jacobian")
        return jac

    r = jacobian(
        gradient, ins, create_graph=create_graph, strict=strict, vectorize=vectorize, strategy=outer_jacobian_strategy
    )
    return r if is_in else r[0][0]
