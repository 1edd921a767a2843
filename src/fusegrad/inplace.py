"""In-place changes: the same rules for ``op_`` forms, ``copy_``, ``x[...] = v`` and what compiled code writes back.

An in-place call computes its result out of place on the old value, writes it, bumps the version shared by all views,
and moves the history of the tensor (of the base, if it is a view) to the new node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .autograd.modes import NO_GRAD, RUNNING, SLOW, STATE
from .autograd.names import plain_name
from .autograd.node import CustomNode, Node, born, new_node, next_seq, one_storage
from .autograd.saved import pack_all
from .callinplace import with_fast_path, writer_of
from .dispatch import FAST
from .errors import NotRecordedError, warn
from .meta import contiguous_strides
from .op import TABLE, Op
from .tensor import Tensor, need_data, refresh, storage_of, wrap

_NAMES = {
    "float32": "Float",
    "float64": "Double",
    "float16": "Half",
    "int64": "Long",
    "int32": "Int",
    "int16": "Short",
    "int8": "Char",
    "uint8": "Byte",
    "bool": "Bool",
}


def check_writable(t: Tensor, same: bool = False, captured: bool = False) -> None:
    """RuntimeError where PyTorch refuses an in-place change. ``same``: every element becomes the same number, so that
    elements may share memory; ``captured``: in a function transform it may be a tensor from outside (``out=``)."""
    rec = t._view
    if rec is not None and (rec.made is None or not rec.base._rg):
        refresh(t)
    d = t._data
    if STATE.dry and d is not None:
        raise RuntimeError("a tensor that exists already is being changed in place where only shapes are computed")
    if STATE.grad:
        if rec is not None and (t._rg or rec.base._rg):
            if rec.made is not None:
                raise rec.refusal(t, False)
            if rec.base._node is None:
                raise RuntimeError(
                    "a view of a leaf Variable that requires grad is being used in an in-place operation."
                )
        if t._rg and t._node is None:
            raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
    if d is not None:
        if not d.flags.writeable:
            raise RuntimeError(READ_ONLY)
        if not same and 0 in d.strides and expanded(d):
            raise RuntimeError(_OVERLAPS)
    elif not same and _repeats(getattr(t._g, "meta", None)):
        raise RuntimeError(_OVERLAPS)
    check_inference(t)
    if RUNNING and not captured:
        check_captured(t)
    if STATE.mutation is not None:
        STATE.mutation.before_change(t)


def expanded(d: np.ndarray) -> bool:
    """Whether several elements of an array are one place in memory because a dimension has stride 0."""
    return d.size > 1 and any(s == 0 and n > 1 for s, n in zip(d.strides, d.shape, strict=True))


def check_captured(t: Tensor) -> None:
    """RuntimeError where a function that is being differentiated would change a tensor from outside."""
    extent = STATE.extent
    if extent is not None and born(t) < extent.start and not extent.given(t):
        raise RuntimeError(
            "During a grad (vjp, jvp, grad, etc) transform, the function provided attempted to change in place a "
            f"captured Tensor (shape {list(t.shape)}), which was made outside of it. This is not supported: pass the "
            "tensor to the function as an argument, change a clone(), or return the new value."
        )


def check_inference(t: Tensor) -> None:
    """RuntimeError for a tensor made in inference mode, outside of it."""
    if t._extra is not None and t._extra.inference and not STATE.inference:
        raise RuntimeError(
            "Inplace update to inference tensor outside InferenceMode is not allowed. You can make a clone to get a "
            "normal tensor before doing inplace update."
        )


READ_ONLY = "this tensor's memory is read-only; change a copy (clone()) instead"
_OVERLAPS = (
    "unsupported operation: more than one element of the written-to tensor refers to a single memory location. Please "
    "clone() the tensor before performing the operation."
)


def _repeats(meta: Any) -> bool:
    """Whether a tensor without data (in a graph) has a stride of 0 along a dimension of several elements."""
    if meta is None or meta.strides is None:
        return False
    zero = [n for s, n in zip(meta.strides, meta.shape, strict=True) if type(s) is int and s == 0]
    return bool(zero) and all(n != 0 for n in meta.shape) and any(n > 1 for n in zero)


def check_overlap(t: Tensor, source: Any, apart: bool = False) -> None:
    """RuntimeError where a dense ``t`` is written from a dense tensor that shares a part of its memory; ``apart``: or
    all of it, which operators refuse that write at places. What else shares memory is too hard to tell, as in PyTorch:
    values are read before they are written."""
    if type(source) is tuple or type(source) is list:
        for x in source:
            check_overlap(t, x, apart)
        return
    if not isinstance(source, Tensor):
        return
    a, b = t._data, source._data
    if a is None and b is None:  # in a graph: where in their storage the two would be
        look = getattr(t._g.handler, "same_storage", None)
        a, b = (look and look(t, source, apart)) or (None, None)
    elif source is not t and not one_storage(source._st, t._st):
        return
    if a is None or b is None or not a.size or not b.size or not (_dense(a) and _dense(b)):
        return
    same = a.strides == b.strides and a.__array_interface__["data"][0] == b.__array_interface__["data"][0]
    if apart or not (same and a.size == b.size):
        if np.may_share_memory(a, b):
            raise RuntimeError(
                "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single "
                "memory location. Please clone() the tensor before performing the operation."
            )


def _dense(d: np.ndarray) -> bool:
    """Whether the elements lie in memory without gaps and each at its own place, whatever the order of the axes."""
    if d.flags.c_contiguous or d.flags.f_contiguous:
        return True
    step = d.itemsize
    for s, n in sorted((s, n) for s, n in zip(d.strides, d.shape, strict=True) if n > 1):
        if s != step:
            return False
        step *= n
    return True


def old_value(t: Tensor, copy: bool) -> Tensor:
    """``t`` before the change, with its history; on memory of its own if ``copy``."""
    if t._data is None:
        out = t._g.handler.dispatch(TABLE["clone"], (t,), {})
    else:
        out = wrap(t._data.copy() if copy else t._data)
    out._node, out._nr, out._rg = t._node, t._nr, t._rg
    return out


def assign(t: Tensor, value: Tensor) -> Tensor:
    """Write ``value`` (result of an operator on the old value) into ``t``: data, version, history."""
    if tuple(value.shape) != tuple(t.shape):
        raise RuntimeError(f"output with shape {list(t.shape)} doesn't match the broadcast shape {list(value.shape)}")
    kind = t.dtype
    if value.dtype is not kind:
        if value.dtype.category > kind.category:
            raise RuntimeError(
                f"result type {_NAMES[value.dtype.name]} can't be cast to the desired output type {_NAMES[kind.name]}"
            )
        value = value.to(kind)
    write(t, value)
    return t


def assign_then_pack(t: Tensor, fn: Callable[..., Tensor], args: tuple, kwargs: dict[str, Any]) -> None:
    """``assign`` under ``saved_tensors_hooks``: saved results are packed where they stand in ``t``, not as a copy."""
    packers, STATE.packers = STATE.packers, ()
    try:
        value = fn(*args, **kwargs)
        node = value._node
        assign(t, value)
    finally:
        STATE.packers = packers
    if isinstance(node, Node) and not isinstance(node, CustomNode):
        pack_all(node, packers[-1])


def write(t: Tensor, value: Tensor) -> None:
    """Store ``value`` (same shape and dtype) and rebase the history of ``t``."""
    if STATE.grad and value._rg and t._view is not None and t._view.made is not None:
        raise t._view.refusal(t, False)
    if t._data is None or value._data is None:
        (t if t._data is None else value)._g.handler.write(t, value)
    else:
        np.copyto(t._data, value._data, casting="unsafe")
    bump(t)
    if STATE.grad and (value._rg or t._rg):
        keep_once(t, value)
        rebase(t, value)


def keep_once(t: Tensor, value: Tensor) -> None:
    """Let a node that saved ``value`` refer to ``t``, which holds the same now: no second copy, changes are noticed."""
    node = value._node
    if node is None or node.out is None:
        return
    nr = value._nr
    kept = node.out[nr] if nr < len(node.out) else None
    if type(kept) is not tuple:
        return
    st = storage_of(t)
    if kept[0] is value._data:
        if t._data is not None:
            node.out[nr] = (t._data, st, st.version)
    elif value._data is None and kept[0] is value._g:
        node.out[nr] = (kept[0], st, st.version)  # in a graph nothing is overwritten


def bump(t: Tensor) -> None:
    """Count a change of the memory of ``t``."""
    if not (t._extra is not None and t._extra.inference):
        storage_of(t).version += 1


def rebase(t: Tensor, value: Tensor) -> None:
    """The history of ``t`` is now that of ``value``; for a view, the base's history takes the change in."""
    rec = t._view
    if rec is None:
        node, nr = value._node, value._nr
        if not value._rg:
            node, nr = Overwritten(t), 0
        move_retain(t, value if value._rg else node)
        t._node, t._nr, t._rg = node, nr, True
        return
    base = rec.base
    if t._node is not None and t._node.hooks is not None and value._rg:
        unhook(t, value._node)
    node = ViewUpdate(base, rec.chain, value)
    move_retain(base, node)
    base._node, base._nr, base._rg = node, 0, True
    rec.version = -1  # tie the view to the new history now
    refresh(t)


def unhook(view: Tensor, made: Any) -> None:
    """Let ``made``, which computed what now stands in ``view``, lead on to a node like the view's, but without hooks.

    As in PyTorch, the gradient of the old contents goes from there to the base, and hooks of the view as it was see
    only what else was computed from it.
    """
    old, nr = view._node, view._nr
    if made is None or old is None or isinstance(old, CustomNode) or not any(e is old for e in made.edges):
        return
    like = new_node(old.op, old.edges, old.nrs, old.shape, old.dtype)
    like.saved, like.versions, like.attrs, like.out = old.saved, old.versions, old.attrs, old.out
    if like.seq != made.seq + 1:
        return  # computed earlier, and copied
    if old.composite is not None:
        like.composite = old.composite
    made.edges = tuple(like if e is old and k == nr else e for e, k in zip(made.edges, made.nrs, strict=True))
    made.seq = next_seq()  # nodes run in falling order


def move_retain(t: Tensor, new: Any) -> None:
    """``retain_grad`` follows the tensor to its new node."""
    node = t._node
    if t._extra is None or not t._extra.retain or node is None or node.hooks is None:
        return
    ref = node.hooks["retain"].pop(t._nr, None)
    target, nr = (new, 0) if not isinstance(new, Tensor) else (new._node, new._nr)
    if ref is not None and target is not None:
        target._hook_lists()["retain"][nr] = ref


class ViewUpdate(CustomNode):
    """History of a base one of whose views was changed in place."""

    __slots__ = ("chain", "order")

    def __init__(self, base: Tensor, chain: tuple, value: Tensor) -> None:
        edges = ((base._node or base) if base._rg else None, (value._node or value) if value._rg else None)
        super().__init__(
            "fusegrad::autograd::CopySlices", edges, (base._nr, value._nr), [(tuple(base.shape), base.dtype)]
        )
        self.chain = chain
        self.order = None
        if any(op.name == "view" or op.name.startswith("as_strided") for op, _, _ in chain):  # they need its layout
            steps = base.stride()
            self.order = list(range(len(steps)))
            if not base.is_contiguous():
                self.order.sort(key=lambda d: -steps[d])

    def laid_out(self, g: Tensor) -> Tensor:
        """``g`` on memory of its own, in the layout of the base where that matters."""
        if self.order is None:
            return g.clone()
        if self.order == list(range(len(self.order))):
            return g.clone().contiguous()
        back = sorted(range(len(self.order)), key=self.order.__getitem__)
        return g.permute(self.order).clone().contiguous().permute(back)

    def region(self, t: Tensor) -> Tensor:
        """The part of ``t`` (shaped as the base) that the view saw."""
        for op, attrs, nr in self.chain:
            t = op.replay(t, attrs)
            t = t if nr is None else t[nr]
        return t

    def apply(self, grads: list) -> Any:
        g = grads[0]
        through_view = None
        if self.edges[1] is not None:
            through_view = self.region(g if self.order is None else self.laid_out(g)).clone()
        through_base = None
        if self.edges[0] is not None:
            through_base = self.laid_out(g)
            part = self.region(through_base)
            write(part, TABLE["zeros"](tuple(part.shape), dtype=part.dtype))
        return through_base, through_view


class Overwritten(CustomNode):
    """History of a tensor all of whose elements were replaced by values without one: what was before gets zeros."""

    __slots__ = ()

    def __init__(self, t: Tensor) -> None:
        super().__init__("fusegrad::autograd::CopyBackwards", (t._node or t,), (t._nr,), [(tuple(t.shape), t.dtype)])

    def apply(self, grads: list) -> Any:
        return (_zeros(grads[0]),)


class Copied(CustomNode):
    """History of a tensor that ``copy_`` gave the elements of one with a history: what was before gets zeros."""

    __slots__ = ()

    def __init__(self, t: Tensor, src: Tensor) -> None:
        edges = t._node or t, src._node or src
        super().__init__("fusegrad::autograd::CopyBackwards", edges, (t._nr, src._nr), [(tuple(t.shape), t.dtype)])

    def apply(self, grads: list) -> Any:
        return _zeros(grads[0]), grads[0]


def _zeros(g: Tensor) -> Tensor:
    return TABLE["zeros"](tuple(g.shape), dtype=g.dtype)  # not g * 0, which is NaN where g is infinite


def write_out(name: str, out: Any, result: Any, operands: tuple = ()) -> Any:
    """Store a result into the tensor(s) given as ``out=`` (resized if the shape differs), with PyTorch's refusals.

    ``operands``: those whose memory it may share as a whole, but not in part.
    """
    if isinstance(out, Tensor):
        check_overlap(out, operands)
    if isinstance(result, tuple):
        if not isinstance(out, (tuple, list)) or len(out) != len(result):
            raise TypeError(f"{name}(): argument 'out' must be a tuple of {len(result)} Tensors")
        written = [write_out(name, o, r) for o, r in zip(out, result, strict=True)]
        return tuple(written) if type(result) is tuple else type(result)(*written)
    if not isinstance(out, Tensor):
        raise TypeError(f"{name}(): argument 'out' must be Tensor, not {type(out).__name__}")
    if STATE.grad and (result._rg or out._rg):
        raise RuntimeError(
            f"{name}(): functions with out=... arguments don't support automatic differentiation, but one of the "
            "arguments requires grad."
        )
    for t in (result, out):
        if t._data is None and getattr(t._g, "tangent", None) is not None:
            raise NotImplementedError(f"{name}(): functions with out=... arguments don't support forward AD.")
    if result.dtype.category > out.dtype.category:
        raise RuntimeError(
            f"result type {_NAMES[result.dtype.name]} can't be cast to the desired output type {_NAMES[out.dtype.name]}"
        )
    if out._data is not None and result._data is not None and out._data.shape != result._data.shape:
        if out._data.size:
            warn(
                f"An output with one or more elements was resized since it had shape {list(out.shape)}, which does not "
                f"match the required output shape {list(result.shape)}. Resize it to no elements first "
                "(out.resize_(0)), or pass one of the right shape.",
                UserWarning,
            )
        out._data = np.empty(result._data.shape, out._data.dtype)
    elif (out._data is None or result._data is None) and tuple(out.shape) != tuple(result.shape):
        raise NotRecordedError(f"{name}() resizes the tensor given as out=")
    check_writable(out, captured=True)
    return _copied(out, result)


def computed(op: Op, plan: tuple, self: Tensor, args: tuple, kwargs: dict[str, Any]) -> bool:
    """Write what the kernel gives for plain tensors of floats, all of one dtype and shape, and numbers, where nothing
    is to be recorded; whether that was so. The rest, and what the kernel refuses, is the general form's.
    """
    d = self._data
    if SLOW[0] or RUNNING or type(self) not in FAST or d is None or self._extra is not None:
        return False
    kinds, attrs, tensors, count = plan
    if d.dtype.kind != "f" or not d.flags.c_contiguous or not d.flags.writeable or len(args) > len(kinds):
        return False
    asks = self._rg or self._view is not None and self._view.base._rg
    arrays = [d]
    for kind, a in zip(kinds, args):  # noqa: B905  (quicker)
        if type(a) is float or type(a) is int and -(2**53) < a < 2**53:
            if kind == "Tn":
                arrays.append(a)
            elif kind == "T":
                return False
            else:
                attrs = {**attrs, kind: a}
            continue
        if type(a) not in FAST or (x := a._data) is None or x.dtype is not d.dtype or x.shape != d.shape:
            return False
        if a is not self and a._st is not None and one_storage(a._st, self._st):
            return False
        asks = asks or a._rg or a._view is not None and a._view.base._rg
        arrays.append(x)
    for v in kwargs.values():
        if type(v) is not float and not (type(v) is int and -(2**53) < v < 2**53):
            return False
    attrs = {**attrs, **kwargs} if kwargs else attrs
    if asks and (not NO_GRAD or STATE.grad) or len(arrays) != tensors or len(attrs) != count:
        return False
    try:
        r = op.kernel(*arrays, **attrs)
    except Exception:  # noqa: BLE001  (nothing was written; the general form says what is wrong)
        return False
    if type(r) is not np.ndarray or r.shape != d.shape or r.dtype is not d.dtype:
        return False
    np.copyto(d, r)
    bump(self)
    return True


def _plan(op: Op) -> tuple[list[str], dict[str, Any], int, int] | None:
    """What ``computed`` must know of an operator: the types of the tensors and the names of the attributes after the
    first operand, the defaults, and how many tensors and attributes there are. None: it is not for this operator."""
    sig = op.sig
    if op.kind != "pointwise" or op.n_out != 1 or op.promote == "compare" or "refuse" in op.fields:
        return None
    if any(p.type not in ("T", "Tn") or p.optional for p in sig.tensors):
        return None
    kinds = [p.type if p.is_tensor else p.name for p in sig.params[1:] if not p.keyword]
    return kinds, {p.name: p.default for p in sig.attrs if p.has_default}, len(sig.tensors), len(sig.attrs)


def inplace_form(op: Op) -> Callable[..., Tensor]:
    """The ``op_`` function of a table operator."""
    first = op.sig.tensors[0].name
    saves_self = any(first in r.names for r in op.rules.values())
    writer = writer_of(op)
    same = op.name == "fill_number"
    read = next((i for i, p in enumerate(op.sig.tensors[1:]) if p.name == "value"), None)  # a number before the rest
    plan = _plan(op)
    fn = op.fn

    def form(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if not isinstance(self, Tensor):
            raise TypeError(
                f"{form.__name__}(): argument 'input' (position 1) must be Tensor, not {type(self).__name__}"
            )
        d = self._data
        if d is not None and not STATE.grad and writer is not None and d.dtype.kind == "f":
            if direct_write(self, d, args, kwargs):
                return self
        if plan is not None and computed(op, plan, self, args, kwargs):
            return self
        check_writable(self, same)
        for a in args[:read]:
            if a is not self and isinstance(a, Tensor) and (d is None or a._st is not None):
                check_overlap(self, a)
        copy = saves_self and STATE.grad and (self._rg or any(isinstance(a, Tensor) and a._rg for a in args))
        old = old_value(self, copy)
        if STATE.packers and op.kernel is not None:
            assign_then_pack(self, fn, (old, *args), kwargs)
        else:
            assign(self, fn(old, *args, **kwargs))
        if STATE.grad and type(self._node) is Overwritten:
            self._node.label = plain_name(op.name)
        return self

    def direct_write(self: Tensor, d: np.ndarray, args: tuple, kwargs: dict) -> bool:
        """Let the kernel write into the memory itself, when nothing can go wrong on the way."""
        check_writable(self, same)
        arrays = []
        for a in args:
            if type(a) in FAST:
                x = a._data
                if x is None or x.dtype is not d.dtype or not _broadcasts(x.shape, d.shape):
                    return False
                if x is not d and np.may_share_memory(x, d):
                    return False
                arrays.append(x)
            elif type(a) in (int, float):
                arrays.append(a)
            else:
                return False
        write, others = writer  # type: ignore[misc]
        if kwargs or len(arrays) != others:
            return False
        try:
            if write(d, *arrays, d) is NotImplemented:
                return False
        except TypeError:  # no loop of numpy's for the dtype: the operator refuses it by name
            return False
        except (FloatingPointError, RuntimeWarning):
            pass  # numpy says so when all is written
        bump(self)
        return True

    form.__name__ = form.__qualname__ = op.name.split(".")[-1] + "_"
    form.__doc__ = f"In-place form of ``{op.name}``."
    return with_fast_path(op, form.__name__, form)


def _broadcasts(shape: tuple, to: tuple) -> bool:
    """Whether an array of ``shape`` can be read as one of shape ``to``."""
    lead = len(to) - len(shape)
    return lead >= 0 and all(a in (1, b) for a, b in zip(shape, to[lead:], strict=True))


def copy_(self: Tensor, src: Any, non_blocking: bool = False) -> Tensor:
    """Copy the elements of ``src`` (broadcast, cast) into this tensor, in place."""
    check_writable(self)
    return _copied(self, src)


def _copied(self: Tensor, src: Any) -> Tensor:
    if not isinstance(src, Tensor):
        if isinstance(src, (bool, int, float, np.number, np.ndarray)):
            src = wrap(np.array(src))
        else:
            raise TypeError(f"copy_(): argument 'src' (position 1) must be Tensor, not {type(src).__name__}")
    if src is self:
        if self._data is None and not self._g.handler.level:  # a graph counts changes of what it writes
            self._g.handler.write(self, self.detach().clone())
        bump(self)
        return self
    d, s = self._data, src._data
    if d is None or src._st is not None:
        check_overlap(self, src)
    if d is not None and s is not None and not (STATE.grad and (self._rg or src._rg)):
        try:
            if s.ndim > d.ndim:  # numpy would drop leading dimensions of size 1
                raise ValueError
            np.copyto(d, s, casting="unsafe")
        except ValueError:
            raise _size_error(self, src) from None
        bump(self)
        return self
    value = src if src.dtype is self.dtype else src.to(self.dtype)
    if tuple(value.shape) != tuple(self.shape):
        try:
            value = value.expand(tuple(self.shape))
        except RuntimeError:
            raise _size_error(self, src) from None
    if STATE.grad and self._rg and value._rg and self._view is None and not (_inside(self) or _inside(value)):
        if value._view is not None:
            refresh(value)
        node, value = Copied(self, value), value.detach().clone()
        value._node, value._nr, value._rg = node, 0, True
    elif value is src or value._view is not None or not value._rg:
        value = value.clone()
    if value._rg and self._view is None and getattr(value._node, "op", None) is not None:
        value._node.composite = "CopyBackwards", None
    write(self, value)
    return self


def _inside(t: Tensor) -> bool:
    """Whether it is batched or dual: its history is that of what it stands for."""
    return t._data is None and t._g.handler.level > 0


def _size_error(dst: Tensor, src: Tensor) -> RuntimeError:
    return RuntimeError(
        f"The expanded size of the tensor {list(dst.shape)} must match the existing size {list(src.shape)}: "
        "copy_ broadcasts its source to the shape of the destination"
    )


Tensor.copy_ = copy_  # type: ignore[attr-defined]


def set_(self: Tensor, source: Any = None, storage_offset: int = 0, size: Any = None, stride: Any = None) -> Tensor:
    """Become another name of the memory of ``source`` (a tensor, or a storage), or of none. Returns self.

    Without ``size`` it takes the shape and strides of a tensor; with it, elements from ``storage_offset`` on with the
    given ``stride`` (contiguous if left out). The version counter stays its own, as in PyTorch. RuntimeError for
    another dtype, and for a tensor that requires a gradient while the grad mode is on.
    """
    need_data(self, "set_")
    check_inference(self)
    if RUNNING:
        check_captured(self)
    if STATE.grad and self.requires_grad:
        kind = "a leaf Variable" if self._node is None else "a Variable"
        raise RuntimeError(f"{kind} that requires grad is being used in an in-place operation.")
    if source is None:
        data = np.empty(0, self._data.dtype)
    elif isinstance(source, Tensor):
        data = need_data(source, "set_")
        if source.dtype is not self.dtype:
            raise RuntimeError(
                f"Could not set tensor of type {source.dtype.name} to a tensor of type {self.dtype.name}"
            )
    elif hasattr(source, "elements"):
        data = source.elements(self._data.dtype)
    else:
        raise TypeError(f"set_(): argument 'source' (position 1) must be Tensor, not {type(source).__name__}")
    if size is not None:
        size = (size,) if isinstance(size, int) else tuple(size)
        step = contiguous_strides(size) if stride is None else (stride,) if isinstance(stride, int) else tuple(stride)
        data = TABLE["as_strided"].kernel(data, size, step, storage_offset)
    before, age = self._version if not self.is_inference() else 0, born(self)
    self._data, self._view, self._st = data, None, None
    storage_of(self).version = before
    if RUNNING:
        storage_of(self).born = age
    bump(self)
    return self


Tensor.set_ = set_  # type: ignore[attr-defined]


def detach_(self: Tensor) -> Tensor:
    """Cut this tensor off its history, in place. RuntimeError on a view (use ``detach``)."""
    if self._view is not None:
        raise RuntimeError("Can't detach views in-place. Use detach() instead.")
    if RUNNING:
        storage_of(self).born = born(self)
    if self._node is not None:
        from .autograd.data_storage import detached_storage  # rarely needed

        self._st = detached_storage(storage_of(self))
    self._node, self._nr, self._rg = None, 0, False
    if self._data is None and hasattr(self._g, "tangent"):
        self._g.primal, self._g.tangent = self._g.primal.detach(), None
    return self


Tensor.detach_ = detach_  # type: ignore[attr-defined]
