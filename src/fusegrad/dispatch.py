"""The one dispatcher: from a call of an operator to arrays, a graph node or a batched rule, and onto the tape.

``dispatch`` is the general path. ``finish`` generates, for every entry of the op table, its Python function (argument
names, normalised dims, a fast path for plain arrays), its recorder and its backward from the vjp rules.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import dtypes, handler
from . import op as optable
from .arguments import NUMBERS, Where, wrong_type
from .autograd.lines import trace_here
from .autograd.modes import SLOW, STATE
from .autograd.node import Node, Storage, View, new_node, new_view
from .autograd.saved import check_version, freed_error, pack_all, unpack, unpack_out
from .dtypes import FROM_NUMPY, number_dtype, result_type_of
from .errors import DataDependentError
from .layout import elementwise_strides
from .meta import Meta, broadcast_shapes
from .op import Op
from .size_values import SymbolicNumber, SymbolicSize
from .tensor import Tensor, alias, extra_of, refresh, sever, storage_of, wrap

FAST: set[type] = {Tensor}  # exact types that fast paths accept; nn.Parameter joins
DENSE = frozenset(
    {"reduce", "gather", "extern", "composite"}
)  # kinds whose results are C-contiguous, as their metas say
_IGNORE: dict[str, Any] = {"all": "ignore"}


def place_of(op: Op, param: Any) -> Where:
    """Where errors say that an argument stands: function, parameter, position."""
    name = op.name.split(".")[-1]
    return name, param.name, [p.name for p in op.sig.params].index(param.name) + 1


def type_error(op: Op, param: Any, value: Any) -> TypeError:
    """The error for an argument of the wrong type."""
    return wrong_type(place_of(op, param), param.type, value)


def check_args(op: Op, args: tuple) -> tuple[tuple, list[Tensor]]:
    """Arguments in canonical form and the flat list of their tensors. TypeError for anything else."""
    flat: list[Tensor] = []
    out = []
    for p, a in zip(op.sig.tensors, args, strict=True):
        if isinstance(a, Tensor):
            if p.type == "T[]":
                raise type_error(op, p, a)
            flat.append(a)
        elif a is None:
            if not p.optional:
                raise type_error(op, p, a)
        elif p.type == "T[]":
            if not isinstance(a, (list, tuple)) or not all(isinstance(t, Tensor) for t in a):
                bad = next((t for t in a if not isinstance(t, Tensor)), a) if isinstance(a, (list, tuple)) else a
                raise type_error(op, p, bad)
            a = tuple(a)
            flat.extend(a)
        elif p.type == "Tn" and isinstance(a, NUMBERS):
            if type(a) is int:
                dtypes.check_int(a)
            if isinstance(a, (np.number, np.bool_)):
                a = a.item()
            elif type(a) is not int and type(a) is not float and isinstance(a, (int, float)) and type(a) is not bool:
                a = int(a) if isinstance(a, int) else float(a)  # numpy takes members of an IntEnum for arrays
        else:
            raise type_error(op, p, a)
        out.append(a)
    if not flat and op.sig.tensors and op.kind == "pointwise":
        raise type_error(op, op.sig.tensors[0], args[0])
    return tuple(out), flat


def choose_handler(op: Op, flat: list[Tensor]) -> Any:
    """The handler of the highest level among the tensors (for creation and random: the active one)."""
    found = None
    for t in flat:
        if t._data is None:
            h = t._g.handler
            if found is None or h.level > found.level:
                found = h
    if found is None and op.kind in ("create", "random"):
        return handler.current()
    return found


def holds_size(values: Any) -> bool:
    """Whether a size that is not fixed, or a number made of one, is among (nested) values."""
    for v in values:
        if isinstance(v, (SymbolicSize, SymbolicNumber)) or ((type(v) is tuple or type(v) is list) and holds_size(v)):
            return True
    return False


def dispatch(op: Op, args: tuple, attrs: dict[str, Any]) -> Any:
    """Apply ``op`` to tensors, numbers and static attributes, and record it if a gradient may be wanted."""
    args, flat = check_args(op, args)
    if "refuse_numbers" in op.fields:  # whoever answers: their values are known now
        op.fields["refuse_numbers"](*args)
    for t in flat:
        if t._view is not None:
            refresh(t)
    own = not FAST.issuperset(map(type, flat))  # classes derived from Tensor
    if own:
        from .subclass import results_like, taken_over

        out = taken_over(op, args, attrs, flat)
        if out is not NotImplemented:
            return out
    changing = False
    for k, v in attrs.items():
        if isinstance(v, Tensor):
            attrs[k] = v.item()
        elif type(v) is int:
            dtypes.check_int(v)
        elif isinstance(v, SymbolicNumber):
            changing = True
    h = choose_handler(op, flat)
    if h is None and flat and SLOW[0] and (holds_size(args) or holds_size(attrs.values())):
        h = handler.current()  # a program is exported: real tensors with a size that is not fixed
    if changing and getattr(h, "numbers", None) is not None:
        return h.numbers(h, op, args, attrs)
    if h is not None and flat and hasattr(h, "lift_all"):
        args, flat = h.lift_all(args)  # real tensors take their place in the graph, on the tape as well
    if "draw" in attrs:
        if attrs["draw"] is None:
            take_draw(op, attrs, h)
        else:
            attrs.pop("generator", None)  # a draw given by number (a mask made again in a backward)
    if h is not None:
        out = h.dispatch(op, args, attrs)
    else:
        out = STATE.meet(op, args, attrs) if SLOW[0] and STATE.meet else run_kernel(op, args, attrs)
    if own and h is None:
        out = results_like(out, flat)
    if op.kind == "view":
        tie_view(op, flat[0], out, attrs)
    if SLOW[0] and STATE.inference and op.kind != "view":
        for t in out if isinstance(out, (tuple, list)) else (out,):
            extra_of(t).inference = True
    if STATE.grad and not op.nondiff and op.rules:
        for t in flat:
            if t._rg:
                record(op, out, args, attrs)
                break
    return out


def quick(op: Op, args: tuple, attrs: dict[str, Any]) -> Any:
    """``dispatch`` for the usual call: plain tensors with data, of one dtype if the operator promotes, no mode.

    Anything else, and any error, goes to ``dispatch``. The attributes hold no tensors.
    """
    if SLOW[0]:
        return dispatch(op, args, attrs)
    arrays: list[Any] = []
    graph, kind = False, None
    for i, a in enumerate(args):
        if type(a) in FAST:
            d = a._data
            if d is None or (kind is not None and d.dtype is not kind and op.promote != "none"):
                return dispatch(op, args, attrs)
            kind = d.dtype
            if a._view is not None:
                refresh(a)
            graph = graph or a._rg
            arrays.append(d)
        elif a is None and i:
            arrays.append(None)
        elif (type(a) is tuple or type(a) is list) and op.promote == "none" and a:
            part = []
            for t in a:
                if type(t) not in FAST or t._data is None:
                    return dispatch(op, args, attrs)
                if t._view is not None:
                    refresh(t)
                graph = graph or t._rg
                part.append(t._data)
            arrays.append(part)
            if type(a) is list:
                args = (*args[:i], tuple(a), *args[i + 1 :])
        else:
            return dispatch(op, args, attrs)
    if op.kind == "random":
        if handler.current() is not None:
            return dispatch(op, args, attrs)
        if attrs["draw"] is None:
            take_draw(op, attrs, None)
        else:
            attrs.pop("generator", None)
    try:
        r = op.kernel(*arrays, **attrs)
    except (ValueError, TypeError, IndexError, FloatingPointError, RuntimeError, RuntimeWarning):
        return dispatch(op, args, attrs)  # the general path explains; a draw that was taken stays this call's
    dense = op.kind in DENSE
    out: Any
    if type(r) is np.ndarray:
        out = wrap(r.copy() if dense and not r.flags.c_contiguous else r)
    else:
        out = wrapped(r, dense)
    if graph and STATE.grad:
        record(op, out, args, attrs)
    return out


def take_draw(op: Op, attrs: dict[str, Any], h: Any) -> None:
    """Give a random call its seed and draw number."""
    gen = attrs.pop("generator", None)
    if h is not None:
        if gen is not None:
            if not hasattr(h, "read"):  # not vmap or forward mode
                raise DataDependentError(f"{op.name}: an own generator= is not captured")
            attrs["seed"], attrs["draw"] = h.draw(1, gen)
            return
        attrs["seed"], attrs["draw"] = h.draw(1)
        return
    if gen is None:
        from .random import default_generator as gen  # lazily: random.py is above this layer
    elif not hasattr(gen, "take"):
        raise TypeError(f"{op.name}(): argument 'generator' must be Generator, not {type(gen).__name__}")
    attrs["draw"] = gen.take(1)
    attrs["seed"] = gen.initial_seed()


# ---- arrays


def promoted(op: Op, args: tuple) -> dtypes.dtype:
    """The computation dtype of a call."""
    strong, weak = [], []
    only = op.fields.get("promote_params")
    for p, a in zip(op.sig.tensors, args, strict=True):
        if a is None or (only is not None and p.name not in only):
            continue
        for t in a if isinstance(a, tuple) else (a,):
            if isinstance(t, Tensor):
                if t._data is None and t._g.meta.weak:
                    weak.append(t.dtype)
                else:
                    strong.append((t.dtype, t.ndim > 0))
            elif isinstance(t, Meta):
                if t.weak:
                    weak.append(t.dtype)
                else:
                    strong.append((t.dtype, len(t.shape) > 0))
            else:
                weak.append(number_dtype(t))
    d = result_type_of(strong, weak)
    if op.promote == "float" and not d.is_floating_point:
        d = dtypes.get_default_dtype()
    if not strong and d.category == dtypes.FLOAT and all(map(_is_number, args)):
        d = dtypes.float64  # numbers of a graph, among themselves: as Python computes
    accepts = op.fields.get("accepts")
    if accepts is not None and (d.category == dtypes.BOOL or accepts == "float" and not d.is_floating_point):
        raise NotImplementedError(f'"{op.name}" not implemented for {d.name}')  # as PyTorch refuses it
    return d


def _is_number(a: Any) -> bool:
    """Whether an argument is a Python number, or stands for one in a graph."""
    if isinstance(a, Tensor):
        return a._data is None and a._g.meta.weak
    return a.weak if isinstance(a, Meta) else not isinstance(a, (tuple, list))


def fit_number(value: Any, d: dtypes.dtype) -> Any:
    """A Python number that numpy will combine with arrays of ``d`` without widening or overflow errors."""
    if d.category == dtypes.INT and not isinstance(value, bool):
        info = np.iinfo(d.np)
        if not info.min <= value <= info.max:
            return np.array(int(value) & (2 ** (8 * d.itemsize) - 1), dtype=f"u{d.itemsize}").astype(d.np)
    elif d.category == dtypes.FLOAT and type(value) is int and abs(value) > 2**53:
        return float(value)
    return value


def cast_array(a: np.ndarray, kind: np.dtype) -> np.ndarray:
    """``a`` as another dtype. Expanded axes stay expanded: they have no say in the layout of a result."""
    if a.ndim < 2 or 0 not in a.strides:
        return a.astype(kind)
    part = a[tuple(slice(0, 1) if step == 0 else slice(None) for step in a.strides)]
    return np.broadcast_to(part.astype(kind), a.shape)


def arrays_of(op: Op, args: tuple) -> list:
    """numpy arrays (cast to the computation dtype) and numbers, in the order of the parameters."""
    ct = promoted(op, args) if op.promote != "none" else None
    only = op.fields.get("promote_params")
    out = []
    for i, p in enumerate(op.sig.tensors):
        a = args[i]
        cast = ct if only is None or p.name in only else None
        if isinstance(a, Tensor):
            d = a._data
            out.append(d if cast is None or d.dtype is cast.np else cast_array(d, cast.np))
        elif isinstance(a, tuple):
            out.append([t._data if cast is None else t._data.astype(cast.np, copy=False) for t in a])
        else:
            out.append(a if a is None or cast is None else fit_number(a, cast))
    return out


def run_kernel(op: Op, args: tuple, attrs: dict[str, Any]) -> Any:
    """Run the kernel on the arrays and wrap what it returns. Errors are those of the meta rule where it has one."""
    refuse = op.fields.get("refuse") or op.fields.get("refuse_mixed")  # the second: no fast path meets such operands
    if refuse is not None:
        refuse(*metas_of(args))
    arrays = arrays_of(op, args)
    try:
        try:
            r = op.kernel(*arrays, **attrs)
        except (FloatingPointError, RuntimeWarning):
            with np.errstate(**_IGNORE):
                r = op.kernel(*arrays, **attrs)
    except (ValueError, IndexError, TypeError) as e:
        explain_failure(op, args, attrs, e)
        raise
    return wrapped(r, op.kind in DENSE)


def wrapped(r: Any, dense: bool) -> Any:
    """What a kernel returned, as tensors (C-contiguous ones if ``dense``)."""
    if type(r) is np.ndarray:
        return wrap(r.copy() if dense and not r.flags.c_contiguous else r)
    if isinstance(r, (tuple, list)):
        arrays = [x if type(x) is np.ndarray else np.asarray(x) for x in r]
        return tuple([wrap(x.copy() if dense and not x.flags.c_contiguous else x) for x in arrays])
    return wrap(np.asarray(r))


def explain_failure(op: Op, args: tuple, attrs: dict[str, Any], e: Exception) -> None:
    """After a kernel failed: raise the meta rule's error, or numpy's ValueError as PyTorch's RuntimeError."""
    if hasattr(e, "from_rule"):  # the user's error as it is
        return
    if op.meta is not None:
        op.meta(*metas_of(args), **attrs)
    if isinstance(e, ValueError):
        raise RuntimeError(f"{op.name}: {e}") from e
    if isinstance(e, TypeError) and any(w in f"{type(e).__module__} {e}" for w in ("numpy", "unsupported in linalg")):
        # a ufunc without a loop for these dtypes
        kinds = ", ".join(sorted({t.dtype.name for t in args if isinstance(t, Tensor)}))
        raise NotImplementedError(f'"{op.name}" not implemented for {kinds}') from e


def metas_of(args: tuple) -> list:
    """Metas of the arguments as meta rules take them (numbers are weak 0-d Metas)."""
    return [meta_of(a) for a in args]


def meta_of(a: Any) -> Any:
    if isinstance(a, Tensor):
        return a.meta_()
    if a is None:
        return None
    if isinstance(a, (tuple, list)):
        return [meta_of(x) for x in a]
    if isinstance(a, SymbolicSize):
        return Meta((), dtypes.int64, weak=True)
    return Meta((), number_dtype(a), weak=True)


def light_meta(t: Any) -> Any:
    """Shape and dtype of a saved tensor, for vjp rules (the layout is left out: rules may not rely on it)."""
    if type(t) is tuple:
        return list(map(light_meta, t))
    d = t._data if isinstance(t, Tensor) else None
    if d is None:
        return meta_of(t)
    return shared_meta(d.shape, d.dtype)


META32: dict[tuple, Meta] = {}
"""Metas of contiguous float32 tensors by shape: what most nodes keep of their inputs, made once."""


def shared_meta(shape: tuple, kind: np.dtype) -> Meta:
    """The Meta of a contiguous tensor; nobody changes a Meta, so one object may serve many nodes."""
    if kind is not dtypes.float32.np:
        return Meta(shape, FROM_NUMPY[kind])
    m = META32.get(shape)
    if m is None:
        if len(META32) >= 4096:  # a program with ever new shapes
            META32.clear()
        m = META32[shape] = Meta(shape, dtypes.float32)
    return m


def pointwise_meta(op: Op) -> Any:
    """The default shape and dtype rule: broadcast, promote, keep the operands' common layout."""

    def meta(*metas: Any, **attrs: Any) -> Meta:
        flat = [m for m in metas if isinstance(m, Meta)]
        shape = broadcast_shapes(*(m.shape for m in flat))
        d = promoted(op, metas) if op.promote != "none" else result_type_of([(m.dtype, True) for m in flat], [])
        if op.promote == "compare":
            d = dtypes.bool_
        return Meta(shape, d, elementwise_strides(shape, [m for m in flat if not m.weak]))

    return meta


# ---- views


def tie_view(op: Op, src: Tensor, out: Any, attrs: dict[str, Any]) -> None:
    """Make ``out`` share the storage of ``src``; remember how to make the view again."""
    st = storage_of(src)
    rec = src._view
    base, chain = (src, ()) if rec is None else (rec.base, rec.chain)
    multi = isinstance(out, tuple)
    made = made_now(rec) if not multi or not STATE.grad else "multi"
    for i, t in enumerate(out if multi else (out,)):
        if t._data is not None and src._data is not None and not _shares(t._data, src._data):
            continue  # the kernel had to copy
        t._st = st
        t._view = new_view(base, chain + ((op, attrs, i if multi else None),), st.version, made)
        if src._extra is not None and src._extra.inference:
            extra_of(t).inference = True
        elif base._rg and not STATE.grad:
            sever(t)


def made_now(rec: View | None) -> str | None:
    """What forbids in-place changes of a view made now, of a tensor whose own record is ``rec``."""
    if STATE.grad:
        return None if rec is None else rec.made
    return "inference" if STATE.inference else "no_grad"


def _shares(a: np.ndarray, b: np.ndarray) -> bool:
    if a is b or a.base is b or (a.base is not None and a.base is b.base):
        return True
    return np.may_share_memory(a, b) or a.size == 0


def replay(op: Op, t: Tensor, attrs: dict[str, Any]) -> Any:
    """Apply a recorded view again."""
    return dispatch(op, (t,), dict(attrs))


# ---- tape


def record(op: Op, out: Any, args: tuple, attrs: dict[str, Any]) -> None:
    """Put a node for this call under the floating point outputs."""
    edges: list[Any] = []
    nrs: list[int] = []
    for a in args:
        for t in a if type(a) is tuple else (a,):
            if isinstance(t, Tensor) and t._rg:
                edges.append(t._node or t)
                nrs.append(t._nr)
            else:
                edges.append(None)
                nrs.append(0)
    outs: Any
    shape: Any
    kind: Any
    many = isinstance(out, (tuple, list))
    outs = out if many else (out,)
    shapes, kinds = [], []
    for t in outs:
        d = t._data
        shapes.append(tuple(t.shape) if d is None else d.shape)
        kinds.append(t.dtype if d is None else FROM_NUMPY[d.dtype])
    shape, kind = (tuple(shapes), tuple(kinds)) if many else (shapes[0], kinds[0])
    node = new_node(op, tuple(edges), tuple(nrs), shape, kind)
    node.attrs = attrs
    save(op, node, args, outs)
    for i, t in enumerate(outs):
        if kinds[i].is_floating_point:
            t._rg, t._node, t._nr = True, node, i
    if SLOW[0]:
        if STATE.packers:
            pack_all(node, STATE.packers[-1])
        if STATE.anomaly or STATE.lines:
            node.trace = trace_here()


_NOTHING, _VALUE, _META = 0, 1, 2


def save(op: Op, node: Node, args: tuple, outs: Any) -> None:
    """Keep what the rules of the needed inputs name."""
    inputs, outputs = plan_of(op, node)
    saved: list[Any] = []
    versions: list[Any] = []
    for i, a in enumerate(args):  # (zip(strict=True) takes half a microsecond)
        how = inputs[i]
        version: Any = 0
        if how is _NOTHING or a is None:
            saved.append(None)
        elif how is _META:
            saved.append(meta_of(a) if op.fields.get("meta_layout") else light_meta(a))
        else:
            saved.append(a)
            if isinstance(a, Tensor):
                if a._extra is not None:
                    check_saved(a)
                version = a._st.version if a._st is not None else 0
            elif type(a) is tuple:
                for t in a:
                    if t._extra is not None:
                        check_saved(t)
                version = tuple([t._st.version if t._st is not None else 0 for t in a])
        versions.append(version)
    node.saved, node.versions = tuple(saved), tuple(versions)
    if outputs:
        kept: list[Any] = [None] * len(outs)
        for i in outputs:
            t = outs[i]
            st = t._st or storage_of(t)
            kept[i] = (t._data if t._data is not None else t._g, st, st.version)
        node.out = kept


def plan_of(op: Op, node: Node) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """For each tensor parameter, what a node keeps of it; and the numbers of the outputs it keeps."""
    key = None if "*" in op.rules else tuple([e is not None for e in node.edges])
    plans = op.plans
    found = plans.get(key)
    if found is None:
        wanted = wanted_names(op, node)
        inputs = tuple(
            _VALUE if p.name in wanted else _META if p.name + "_meta" in wanted else _NOTHING for p in op.sig.tensors
        )
        outputs = {int(n[3:] or 0) for n in wanted if n == "out" or (n[:3] == "out" and n[3:].isdigit())}
        found = plans[key] = inputs, tuple(sorted(outputs))
    return found


def check_saved(t: Any) -> None:
    """RuntimeError for a tensor made in inference mode, which no graph may keep."""
    if isinstance(t, Tensor) and t._extra is not None and t._extra.inference and not STATE.suspended:
        raise RuntimeError(
            "Inference tensors cannot be saved for backward. To work around you can make a clone to get a normal tensor "  # noqa: E501
            "and use it in autograd."
        )


def wanted_names(op: Op, node: Node) -> set[str]:
    """Names that the rules needed by this node ask for."""
    if "*" in op.rules:
        return set(op.rules["*"].names)
    names: set[str] = set()
    for p, e in zip(op.sig.tensors, node.edges, strict=False):
        if e is not None and p.name in op.rules:
            names.update(op.rules[p.name].names)
    return names


def backward(op: Op, node: Node, grads: list) -> list:
    """Gradients for the flat tensor inputs of a node, by the vjp rules."""
    if node.saved is None:
        raise freed_error()
    values: dict[str, Any] = dict(node.attrs)
    for p, s, v in zip(op.sig.tensors, node.saved, node.versions, strict=True):
        if s is not None:
            values[p.name] = unpack(node, s, v)
            values[p.name + "_meta"] = s if isinstance(s, (Meta, list)) else meta_of(values[p.name])
    for i, g in enumerate(grads):
        values[f"g{i}"] = g
    values["g"] = grads[0]
    if node.out is not None:
        for i, kept in enumerate(node.out):
            if kept is not None:
                values[f"out{i}"] = unpack_out(node, kept, i)
        values["out"] = values.get("out0")
    lists = any(p.type == "T[]" for p in op.sig.tensors)
    need = tuple(e is not None for e in node.edges)
    if "*" in op.rules:
        rule = op.rules["*"]
        values["need"] = need
        r = rule.fn(*(_value(op, values, n) for n in rule.names))
        r = r if isinstance(r, (tuple, list)) and (len(op.sig.tensors) > 1 or lists) else (r,)
        if lists:
            r = [x for item in r for x in (item if isinstance(item, (tuple, list)) else (item,))]
        return list(r)
    out: list[Any] = []
    for p, e in zip(op.sig.tensors, node.edges, strict=True):
        rule = op.rules.get(p.name)  # type: ignore[assignment]
        if e is None or rule is None:
            out.append(None)
        else:
            out.append(rule.fn(*(_value(op, values, n) for n in rule.names)))
    return out


def _value(op: Op, values: dict[str, Any], name: str) -> Any:
    if name in values:
        return values[name]
    if name.removesuffix("_meta") in {p.name for p in op.sig.tensors} or name in ("seed", "draw"):
        return None
    raise KeyError(f"{op.name}: its vjp wants {name!r}, which was not saved")


__all__ = [
    "DENSE",
    "FAST",
    "Storage",
    "alias",
    "backward",
    "check_version",
    "dispatch",
    "optable",
    "pointwise_meta",
    "replay",
    "FROM_NUMPY",
]
