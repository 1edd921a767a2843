"""The Tensor: an array (or a place in a graph), its version, its place in the dynamic graph.

Operators become methods in ``bind.py``; here is what a tensor *is*.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from . import dtypes
from .autograd.modes import RUNNING, STATE
from .autograd.node import CAST, CustomNode, Node, Severed, Storage, View, born, mark_young, new_storage, next_seq
from .errors import DataDependentError, tell_of_number, warn
from .handler import in_transform
from .meta import Meta, is_contiguous, normalize_dim, steps_of, surely_equal
from .place import SIZES, Size, device

_FROM_NUMPY = dtypes.FROM_NUMPY
CPU = device("cpu")
data_storage: Any = None
share: Any = None


class Extra:
    """What few tensors have: hooks, names, inference marks, what belongs to a leaf's AccumulateGrad."""

    __slots__ = ("hooks", "post_hooks", "retain", "inference", "name", "accumulator", "undo")

    def __init__(self) -> None:
        self.hooks: dict = {}
        self.post_hooks: dict = {}
        self.retain = False
        self.inference = False
        self.name: str | None = None
        self.accumulator: dict | None = None
        self.undo: tuple = ()  # of ``t_`` and the like: (version after it, the operator that undoes it, attributes)

    @property
    def hooked(self) -> bool:
        """Whether a hook waits for the gradient of this leaf."""
        around = self.accumulator
        return bool(self.hooks or self.post_hooks or around is not None and (around["pre"] or around["post"]))


if TYPE_CHECKING:
    from .operators import Operators
else:
    Operators = object  # the operators themselves are bound from the op table


class Tensor(Operators):
    """A multi-dimensional array that remembers how it was computed.

    Make one with ``fusegrad.tensor``, ``zeros``, ``from_numpy`` and so on. ``grad`` holds the accumulated gradient
    of a leaf after ``backward``.
    """

    __slots__ = ("_data", "_g", "_rg", "_node", "_nr", "_st", "_view", "_grad", "_extra", "__dict__", "__weakref__")
    copies_grad = True  # whether copy.deepcopy copies .grad
    __array_priority__ = 1000  # numpy's binary operators leave mixed calls to us

    _data: Any
    _g: Any
    _rg: bool
    _node: Node | None
    _nr: int
    _st: Storage | None
    _view: View | None
    _grad: Any
    _extra: Extra | None

    def __new__(cls, *data: Any, device: Any = None) -> Tensor:
        from .typed import made

        return made(data, dtypes.get_default_dtype(), cls)

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if getattr(cls.__torch_function__, "__func__", None) is not _OWN:
            from .subclass import noticed

            noticed(cls)

    @classmethod
    def __torch_function__(cls, *given: Any, **named: Any) -> Any:
        from .overrides import default

        return default(cls, *given, **named)

    # ---- what it is

    @property
    def shape(self) -> Size:
        d = self._data
        return SIZES[d.shape] if d is not None else Size(self._g.meta.shape)

    @property
    def dtype(self) -> dtypes.dtype:
        d = self._data
        return _FROM_NUMPY[d.dtype] if d is not None else self._g.meta.dtype

    @property
    def ndim(self) -> int:
        d = self._data
        return d.ndim if d is not None else len(self._g.meta.shape)

    @property
    def device(self) -> device:
        return CPU

    layout = "fusegrad.strided"
    is_cpu, name = True, None
    is_cuda = is_sparse = is_quantized = is_meta = is_nested = is_mps = is_xla = False
    names = property(lambda self: (None,) * self.ndim)

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.numel() * self.dtype.itemsize

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the size of one dimension."""
        if dim is None:
            return self.shape
        d = self._data
        s = d.shape if d is not None else self.shape
        return s[dim] if type(dim) is int and 0 <= dim < len(s) else s[normalize_dim(dim, len(s))]

    def dim(self) -> int:
        """The number of dimensions."""
        return self.ndim

    ndimension = dim

    def numel(self) -> Any:
        """The number of elements."""
        d = self._data
        return d.size if d is not None else self._g.meta.numel

    nelement = numel

    def meta_(self) -> Meta:
        """Shape, dtype and strides as a ``Meta``."""
        if self._data is None:
            return self._g.meta
        d = self._data
        strides = None if d.flags.c_contiguous else steps_of(d)
        return Meta(d.shape, _FROM_NUMPY[d.dtype], strides)

    def is_contiguous(self, memory_format: Any = None) -> bool:
        """Whether the elements lie in C order without gaps, or in the order of a memory format."""
        if memory_format is not None and memory_format != "contiguous":
            from .layout import has_format

            return has_format(self.meta_(), memory_format)
        if self._data is not None:
            return bool(self._data.flags.c_contiguous)
        m = self._g.meta
        if m.strides is None or is_contiguous(m.shape, m.strides):
            return True
        return any(not isinstance(n, int) and surely_equal(n, 0) for n in m.shape)  # no elements lie in any order

    def is_floating_point(self) -> bool:
        return self.dtype.is_floating_point

    def is_complex(self) -> bool:
        return False

    def is_signed(self) -> bool:
        return self.dtype.is_signed

    def is_inference(self) -> bool:
        """Whether it was made in inference mode."""
        return self._extra is not None and self._extra.inference

    def __len__(self) -> int:
        d = self._data
        s = d.shape if d is not None else self.shape
        if not s:
            raise TypeError("len() of a 0-d tensor")
        return s[0]

    # ---- place in the dynamic graph

    @property
    def requires_grad(self) -> bool:
        rec = self._view
        if rec is None:
            return self._rg
        if rec.made is None or not rec.base._rg:
            refresh(self)
        return self._rg or rec.base._rg and self.dtype.is_floating_point

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if value is not True and value is not False:
            raise RuntimeError("requires_grad must be a bool")
        if self.grad_fn is not None:
            raise RuntimeError("you can only change requires_grad flags of leaf variables.")
        if not isinstance(value, bool):
            raise RuntimeError(f"requires_grad must be a bool, got {type(value).__name__}")
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Ask for a gradient (in place; returns self). RuntimeError for integer dtypes and for non-leaves set False."""
        if requires_grad is not True and requires_grad is not False:
            kind = type(requires_grad).__name__
            raise TypeError(f"requires_grad_(): argument 'requires_grad' (position 1) must be bool, not {kind}")
        if requires_grad and in_transform():
            raise RuntimeError(
                "Tensor.requires_grad_() was called inside of a function that is being transformed (func.grad, vjp, "
                "jvp, vmap...). This is not supported: let the transform differentiate by it, or call it outside."
            )
        return self._ask_grad(requires_grad)

    def _ask_grad(self, value: bool) -> Tensor:
        """``requires_grad_`` where it is no request of the user's: of new tensors and parameters."""
        if self._view is not None:
            refresh(self)
        if type(self._node) is Severed:  # a leaf so far
            if value:
                self._node = None
            return self
        if self._node is not None:
            if not value:
                raise RuntimeError(
                    "you can only change requires_grad flags of leaf variables. If you want to use a computed variable "
                    "in a subgraph that doesn't require differentiation use var_no_grad = var.detach()."
                )
            return self
        if value and not self.dtype.is_floating_point:
            raise RuntimeError("only Tensors of floating point dtype can require gradients")
        if value and self.is_inference() and not STATE.inference:
            raise RuntimeError("Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.")
        if self._rg is not value:
            self._rg = value
            if self._g is not None and hasattr(self._g.handler, "set_requires_grad"):
                self._g.handler.set_requires_grad(self, value)
        return self

    @property
    def is_leaf(self) -> bool:
        if self._view is not None:
            refresh(self)
        return self._node is None or type(self._node) is Severed

    @property
    def grad_fn(self) -> Node | None:
        if self._view is not None:
            refresh(self)
        node = self._node
        return None if node is None else node.seen()

    @property
    def output_nr(self) -> int:
        return self._nr

    @property
    def _version(self) -> int:
        if self.is_inference():
            raise RuntimeError("Inference tensors do not track version counter.")
        return self._st.version & 0xFFFFFFFFFF if self._st is not None else 0  # without ``detach_``

    @property
    def _base(self) -> Tensor | None:
        return self._view.base if self._view is not None else None

    @property
    def grad(self) -> Tensor | None:
        g = self._grad
        if g is None and self._node is not None and not self.retains_grad and type(self._node) is not Severed:
            warn(
                "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't "  # noqa: E501
                "be populated during autograd.backward(). If you indeed want the .grad field to be populated for a "
                "non-leaf Tensor, use .retain_grad() on the non-leaf Tensor.",
                UserWarning,
            )
        return g

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            if not isinstance(value, Tensor):
                raise TypeError(
                    f"assigned grad expected to be a Tensor or None but got grad of type {type(value).__name__}"
                )
            if value is self:
                raise RuntimeError("can't assign Variable as its own grad")
            if tuple(value.shape) != tuple(self.shape):
                raise RuntimeError(
                    f"assigned grad has data of a different size: grad {list(value.shape)}, tensor {list(self.shape)}"
                )
            if value.dtype is not self.dtype:
                raise RuntimeError(
                    f"attempting to assign a gradient with dtype '{value.dtype.name}' to a tensor with dtype "
                    f"'{self.dtype.name}'. Please ensure that the gradient and the tensor have the same dtype."
                )
        self._grad = value

    @grad.deleter
    def grad(self) -> None:
        self._grad = None

    @property
    def data(self) -> Tensor:
        """The same memory without history and with its own version counter."""
        global data_storage
        if data_storage is None:
            from .autograd.data_storage import data_storage
        out = alias(self)
        out._st = data_storage(storage_of(self))
        if RUNNING:
            out._st.born = born(self)
        return of_class(self, out)

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(value).__name__}")
        if self._rg and not value.dtype.is_floating_point:
            raise RuntimeError("data set to a tensor that requires gradients must be floating point")
        if self._g is not None or value._g is not None:
            raise DataDependentError("setting .data of a tensor is not captured", self)
        st = storage_of(self)
        st.moved = next_seq()  # what compiled code keeps of it is of the memory before
        if value._data.dtype is not self._data.dtype:
            CAST[:] = (1,)
            st.casts = [*getattr(st, "casts", ()), (st.moved, self.dtype)]
        self._data = value._data

    @data.deleter
    def data(self) -> None:
        raise RuntimeError("Deleting tensor data is not allowed. Delete tensor instead!")

    def _is_view(self) -> bool:
        return self._view is not None

    def detach(self) -> Tensor:
        """The same memory and version counter, without history."""
        return of_class(self, alias(self))

    @property
    def retains_grad(self) -> bool:
        return self._extra is not None and self._extra.retain

    @property
    def real(self) -> Tensor:
        """This tensor: none is complex."""
        return self

    @property
    def imag(self) -> Tensor:
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")

    @property
    def _backward_hooks(self) -> dict | None:
        """The hooks of ``register_hook`` by their handles' ids; None if there are none."""
        node = self.grad_fn
        if node is None:
            return (self._extra and self._extra.hooks) or None
        return (node.hooks and node.hooks["tensor"].get(self._nr)) or None

    # ---- values

    def item(self) -> Any:
        """The value of a one-element tensor as a Python number."""
        d = need_data(self, "item")
        if d.size != 1:
            raise RuntimeError(f"a Tensor with {d.size} elements cannot be converted to Scalar")
        return d.item()

    def tolist(self) -> Any:
        """Nested lists of Python numbers."""
        return need_data(self, "tolist").tolist()

    def numpy(self, *, force: bool = False) -> np.ndarray:
        """The array itself, sharing memory. RuntimeError if it requires grad (unless ``force``)."""
        d = need_data(self, "numpy")
        if STATE.grad and not force and self.requires_grad:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
        global share
        if share is None:
            from .autograd.data_storage import share
        share(storage_of(self))
        return d

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        """What numpy's ufuncs give for a tensor: a tensor."""
        return wrap(np.asarray(array))

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        d = self.numpy()
        if copy:
            return np.array(d, dtype=dtype)
        return d if dtype is None or d.dtype == dtype else d.astype(dtype)

    def __bool__(self) -> bool:
        d = need_data(self, "bool", "branch on the value of a tensor")
        if d.size != 1:
            kind = "no values" if d.size == 0 else "more than one value"
            raise RuntimeError(f"Boolean value of Tensor with {kind} is ambiguous")
        return bool(d.item())

    def __int__(self) -> int:
        return int(self._scalar("int"))

    def __float__(self) -> float:
        return float(self._scalar("float"))

    def __complex__(self) -> complex:
        return complex(self._scalar("complex"))

    def __index__(self) -> int:
        d = need_data(self, "index")
        if d.size != 1 or d.dtype.kind not in "iub":
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(d.item())

    def _scalar(self, what: str) -> Any:
        d = need_data(self, what)
        if d.size != 1:
            if what in ("int", "float", "complex"):
                raise ValueError(f"only one element tensors can be converted to Python scalars, not {d.size} elements")
            raise RuntimeError(f"a Tensor with {d.size} elements cannot be converted to Scalar")
        if self._rg and STATE.grad:
            tell_of_number()
        return d.item()

    def __hash__(self) -> int:
        return id(self)

    def __iter__(self) -> Any:
        if self.ndim == 0:
            raise TypeError("iteration over a 0-d tensor")
        return iter(self.unbind(0))

    def __reversed__(self) -> Any:
        return self.flip(0)

    def __contains__(self, value: Any) -> bool:
        from .arguments import contained

        return contained(self, value)

    def __format__(self, spec: str) -> str:
        if self.ndim == 0 and self._data is not None and (spec or type(self) is Tensor):
            return self.item().__format__(spec)
        return object.__format__(self, spec)

    def __repr__(self) -> str:
        from .printing import tensor_text

        return tensor_text(self)


_new = object.__new__
_OWN: Any = vars(Tensor)["__torch_function__"].__func__
quick_wrap: Any = None  # machine code, put here by ``callnative``
_new_tensor = functools.partial(object.__new__, Tensor)  # quicker than object.__new__(Tensor)


def wrap(array: np.ndarray, cls: type = Tensor) -> Tensor:
    """A Tensor around ``array``, without a copy."""
    t: Any
    if cls is Tensor and quick_wrap is not None and (t := quick_wrap(array)) is not None:
        return t
    t = _new_tensor() if cls is Tensor else _new(cls)
    t._data = array
    t._rg = False
    t._nr = 0
    t._g = t._node = t._st = t._view = t._grad = t._extra = None
    if RUNNING:
        mark_young(t)
    return t


def wrap_ref(ref: Any, cls: type = Tensor) -> Tensor:
    """A data-less Tensor at a place of a handler."""
    t = wrap(None, cls)  # type: ignore[arg-type]
    t._g = ref
    return t


def alias(src: Tensor, cls: type = Tensor) -> Tensor:
    """Another Tensor on the same memory and version counter, without history."""
    if src._data is None:
        out = src._g.handler.alias(src)
    else:
        out = wrap(src._data, cls)
    out._st = storage_of(src)
    if RUNNING:
        out._st.born = born(src)  # the copy has no node to tell its age
    if src._extra is not None and src._extra.inference:
        extra_of(out).inference = True
    return out


def of_class(t: Tensor, out: Tensor) -> Tensor:
    if type(t) is not Tensor:
        from .subclass import results_like

        out = results_like(out, [t])
    return out


def storage_of(t: Tensor) -> Storage:
    """The storage of ``t``, made on first use."""
    st = t._st
    if st is None:
        st = t._st = new_storage()
    return st


def extra_of(t: Tensor) -> Extra:
    """The rarely needed part of ``t``, made on first use."""
    if t._extra is None:
        t._extra = Extra()
    return t._extra


def own(t: Tensor) -> Tensor:
    """``t``, a view of a tensor that nobody else has, as no view: what a function made of other operators returns."""
    t._view = None
    return t


def need_data(t: Tensor, what: str, action: str | None = None) -> np.ndarray:
    """The array of ``t``. DataDependentError where a graph is captured and there is none."""
    d = t._data
    if d is None:
        if hasattr(t._g.handler, "read"):  # vmap, forward mode
            return t._g.handler.read(t, what)
        does = action or f"call {what}() on a tensor, which needs its value,"
        raise DataDependentError(
            f"can't {does} while a graph is captured: the result depends on data that does not exist yet "
            f"(tensor {t._g.meta}). Use tensor operations such as where(), or let compile() break the graph here.",
            t,
        )
    return d


def sever(view: Tensor) -> None:
    """Let a view whose base requires a gradient require one too, that ends here."""
    if view.dtype.is_floating_point:
        view._node, view._nr, view._rg = Severed("Severed", (), (), [(tuple(view.shape), view.dtype)]), 0, True


def refresh(view: Tensor) -> None:
    """Tie a view to the present history of its base, if the base was changed in place since."""
    rec = view._view
    st = view._st
    if rec is None or st is None:
        return
    base = rec.base
    if base._data is None and view._data is not None and hasattr(base._g.handler, "adopt"):
        base._g.handler.adopt(view)
        return
    if type(view._node) is Severed and not base._rg:  # the base has been frozen or detached since
        view._node, view._rg = None, False
    if rec.version == st.version:
        if base._rg and not view._rg:
            sever(view)
        return
    if rec.made is not None and (base._rg or view._node is not None):  # not for a leaf that asks by itself
        if STATE.grad:
            raise rec.refusal(view, True)
        return
    if base._extra is not None and base._extra.undo and rec.version >= 0:  # it looked otherwise when this was made
        back = [(op, attrs, None) for at, op, attrs in base._extra.undo if at > rec.version]
        rec.chain = (*reversed(back), *rec.chain)
        rec.version = st.version
    if not base._rg and (view._node is None or type(view._node) is Severed):
        return  # it is made again from what the base is once that requires a gradient
    rec.version = st.version
    from .replay import replayed

    replayed(view, base, rec.chain)


__all__ = ["CustomNode", "Extra", "Node", "Size", "Tensor", "alias", "device", "need_data", "refresh", "wrap"]
