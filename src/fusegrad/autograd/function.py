"""Custom operators: ``autograd.Function`` with ``forward``/``backward`` (and ``setup_context``)."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from ..errors import warn
from ..op import TABLE
from ..tensor import Tensor, alias
from .modes import STATE, no_grad
from .node import CustomNode, Severed, new_view
from .saved import Packed, freed_error, packed, unpack, unpack_out


class FunctionNode(CustomNode):
    """The node of a custom Function. User code sees it through a ``Context``."""

    __slots__ = (
        "cls",
        "needs_input_grad",
        "to_save",
        "dirty",
        "non_differentiable",
        "materialize",
        "arg_tensors",
        "kept",
        "saved_for_forward",
        "read",
    )

    def __init__(self, cls: type) -> None:
        super().__init__(cls.__name__ + "Backward", (), (), [])
        self.cls = cls
        self.needs_input_grad: tuple[bool, ...] = ()
        self.to_save: tuple = ()
        self.dirty: tuple = ()
        self.non_differentiable: tuple = ()
        self.materialize = True
        self.kept: list[Any] = []
        self.arg_tensors: list[int] = []  # positions of the tensor arguments
        self.saved_for_forward: tuple = ()
        self.read = False  # whether ``saved_tensors`` was asked for

    def context(self) -> Context:
        """The ``ctx`` that user code gets."""
        return Context(self)

    @property
    def saved_tensors(self) -> tuple:
        """What ``ctx.save_for_backward`` kept. RuntimeError once it was freed or changed in place."""
        if self.freed:
            raise freed_error()
        if self.read and self.cls.clear_saved_tensors_on_access:  # type: ignore[attr-defined]
            raise RuntimeError(
                f"saved_tensors can only be accessed once: {self.cls.__name__} sets clear_saved_tensors_on_access=True."
                " Keep what the first access gave, or leave the setting False."
            )
        self.read = True
        out = []
        for how, x, v in self.kept:
            if how == "out":
                out.append(unpack_out(self, x, v))
            else:
                out.append(x if x is None else unpack(self, x, v))
        if self.cls.clear_saved_tensors_on_access:  # type: ignore[attr-defined]
            self.kept = []
        return tuple(out)

    @property
    def saved_variables(self) -> tuple:
        """The older name of ``saved_tensors``."""
        warn("'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning)
        return self.saved_tensors

    # ---- engine

    def free(self) -> None:
        self.kept = []
        self.to_save = ()
        super().free()

    def apply(self, grads: list) -> Any:
        gs = list(grads)
        for i, g in enumerate(gs):
            shape, kind = self.outputs[i]
            if g is None and self.materialize and kind is not None:
                gs[i] = TABLE["zeros"](shape, dtype=kind)
        fn = self.cls.vjp if self.cls.vjp is not Function.vjp else self.cls.backward  # type: ignore[attr-defined]
        r = fn(Context(self), *gs)
        return self.checked(r if isinstance(r, tuple) else (r,))

    def checked(self, r: tuple) -> list:
        """Gradients of the tensor arguments. RuntimeError for a wrong number, kind or shape."""
        n = len(self.needs_input_grad)
        label = self.name()
        if len(r) > n:
            if any(x is not None for x in r[n:]):
                raise RuntimeError(
                    f"function {label} returned an incorrect number of gradients (expected {n}, got {len(r)})"
                )
            r = r[:n]
        if len(r) < n:
            raise RuntimeError(
                f"function {label} returned an incorrect number of gradients (expected {n}, got {len(r)})"
            )
        out: list = []
        tensors = set(self.arg_tensors)
        for i, g in enumerate(r):
            if i not in tensors:
                if g is not None:
                    raise RuntimeError(
                        f"function {label} returned a gradient different than None at position {i + 1}, but the "
                        "corresponding forward input was not a Variable"
                    )
                continue
            if g is not None and not isinstance(g, Tensor):
                raise RuntimeError(
                    f"function {label} returned a {type(g).__name__} at position {i + 1}: expected Variable or None"
                )
            e = self.edges[len(out)]
            if g is not None and e is not None:
                shape, _ = e.output_spec(self.nrs[len(out)]) if hasattr(e, "output_spec") else (tuple(e.shape), e.dtype)
                if tuple(g.shape) != tuple(shape) and not _reducible(tuple(g.shape), tuple(shape)):
                    raise RuntimeError(
                        f"Function {label} returned an invalid gradient at index {i} - got {list(g.shape)} but expected "  # type: ignore[var-annotated]  # noqa: E501
                        f"shape compatible with {list(shape)}"
                    )
            out.append(g)
        return out


_PUBLIC = frozenset(
    {"name", "next_functions", "metadata", "register_hook", "register_prehook", "saved_tensors", "saved_variables"}
)


class Context:
    """``ctx``: attributes of any name are the user's own (they live in the node's ``__dict__``, apart from its slots).

    Made anew for each use, so that the node, which it refers to, never refers back to it.
    """

    __slots__ = ("_fusegrad_node", "__dict__", "__weakref__")

    def __init__(self, node: FunctionNode) -> None:
        object.__setattr__(self, "_fusegrad_node", node)
        object.__setattr__(self, "__dict__", node.__dict__)

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep inputs or outputs for ``backward`` (read them as ``ctx.saved_tensors``)."""
        for i, t in enumerate(tensors):
            if t is not None and not isinstance(t, Tensor):
                raise TypeError(
                    f"save_for_backward can only save variables, but argument {i} is of type {type(t).__name__}"
                )
        self._fusegrad_node.to_save = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Keep tensors for ``jvp``."""
        self._fusegrad_node.saved_for_forward = tensors

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Say which inputs ``forward`` changed in place. All of them must be returned."""
        _only_tensors("mark_dirty", tensors)
        self._fusegrad_node.dirty = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Say which outputs get no gradient."""
        _only_tensors("mark_non_differentiable", tensors)
        self._fusegrad_node.non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether missing output gradients arrive as zeros (the default) or as None."""
        self._fusegrad_node.materialize = value

    @property
    def needs_input_grad(self) -> tuple[bool, ...]:
        """For each argument of ``forward``: whether its gradient is wanted."""
        return self._fusegrad_node.needs_input_grad

    @needs_input_grad.setter
    def needs_input_grad(self, value: Any) -> None:
        self._fusegrad_node.needs_input_grad = value

    def __getattr__(self, name: str) -> Any:
        if name in _PUBLIC:
            return getattr(self._fusegrad_node, name)
        raise AttributeError(f"{self._fusegrad_node.name()!r} object has no attribute {name!r}")

    def __repr__(self) -> str:
        return repr(self._fusegrad_node)


FunctionCtx = Context
BackwardCFunction = FunctionNode


def _only_tensors(name: str, values: tuple) -> None:
    for i, t in enumerate(values):
        if not isinstance(t, Tensor):
            raise RuntimeError(f"{name} can only accept variables, but argument {i} is of type {type(t).__name__}")


def _reducible(have: tuple, want: tuple) -> bool:
    """Whether a gradient of shape ``have`` may be summed to ``want`` (it is an expansion of it)."""
    lead = len(have) - len(want)
    return lead >= 0 and all(w == h or w == 1 for h, w in zip(have[lead:], want, strict=True))


class Function:
    """Base class of custom operators::

    class Square(fusegrad.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 2 * g * x

    y = Square.apply(x)
    """

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with backward mode AD."  # noqa: E501
        )

    @staticmethod
    def vjp(ctx: Any, *grads: Any) -> Any:
        """Another name for ``backward``: define one of the two."""
        raise NotImplementedError(f"{Function.__name__}: define backward or vjp")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        name = type(self).__name__
        warn(f"{name} should not be instantiated: its methods are static; use {name}.apply(...)", DeprecationWarning)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(f"a Function is not called as an object; use {type(self).__name__}.apply(...)")

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run ``forward`` and record one node for it. Keyword arguments take their places among the others."""
        new_style = "setup_context" in _defined(cls)
        if kwargs or new_style and _has_defaults(cls.forward):
            args, kwargs = _positional(cls, args, kwargs, new_style)
        if STATE.transforms and not new_style:
            raise RuntimeError(needs_setup_context(cls))
        inside = args
        if any(isinstance(a, (list, tuple, dict)) for a in args):
            from ..pytree import tree_leaves

            inside = tree_leaves(args)
        for a in inside:
            if isinstance(a, Tensor) and a._data is None and hasattr(a._g.handler, "read"):  # vmap, forward mode
                from ..func.custom import apply

                return apply(cls, args, kwargs)
        node, out = run(cls, args, kwargs)
        node.dirty = node.non_differentiable = ()  # an input that was changed leads back to the node
        return out

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        """Tangents of the outputs from those of the inputs (forward mode)."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with forward mode AD."
        )

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any) -> Any:
        """(outputs, out_dims) for arguments batched along ``in_dims``."""
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap static method or set "
            "generate_vmap_rule=True."
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: Any) -> None:
        """What ``forward`` without ``ctx`` keeps for the derivatives."""
        raise NotImplementedError("setup_context is not implemented.")

    generate_vmap_rule = False
    clear_saved_tensors_on_access = False  # whether ``ctx.saved_tensors`` may be read once only, and then lets go


def needs_setup_context(cls: type) -> str:
    """What to tell those who use a Function of the old form under a function transform."""
    return (
        "In order to use an autograd.Function with function transforms (vmap, grad, jvp, jacrev, ...), it must "
        f"override the setup_context staticmethod: write {cls.__name__}.forward(*inputs) without ctx, and "
        f"{cls.__name__}.setup_context(ctx, inputs, output)."
    )


@functools.lru_cache(maxsize=512)
def _has_defaults(forward: Any) -> bool:
    params = inspect.signature(forward).parameters.values()
    return any(p.default is not p.empty for p in params)


def _positional(cls: Any, args: tuple, kwargs: dict, new_style: bool) -> tuple[tuple, dict]:
    """The arguments of ``forward`` by position; with defaults in the new form, as ``setup_context`` sees them."""
    bound = inspect.signature(cls.forward).bind(*(args if new_style else (None, *args)), **kwargs)
    if new_style:
        bound.apply_defaults()
        return bound.args, bound.kwargs
    return bound.args[1:], bound.kwargs


def run(cls: Any, args: tuple, kwargs: dict) -> tuple[FunctionNode, Any]:
    """The node (``ctx``) and the outputs of one call."""
    if cls.vjp is not Function.vjp and cls.backward is not Function.backward:
        raise RuntimeError(
            f"{cls.__name__}: Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should "
            "only implement one of them."
        )
    node = FunctionNode(cls)
    tensors = [a for a in args if isinstance(a, Tensor)]
    for t in tensors:
        t.requires_grad  # noqa: B018  (ties stale views)
    needs = STATE.grad and any(t._rg for t in tensors)
    node.needs_input_grad = tuple(isinstance(a, Tensor) and a._rg for a in args)
    node.arg_tensors = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
    node.edges = tuple((t._node or t) if t._rg else None for t in tensors)
    node.nrs = tuple(t._nr for t in tensors)
    with no_grad():
        if "setup_context" in _defined(cls):
            out = cls.forward(*args, **kwargs)
            cls.setup_context(Context(node), args, out)
            _check_returned(node, args, out)
        else:
            out = cls.forward(Context(node), *args, **kwargs)
    return node, _finish(node, args, out, needs)


def _defined(cls: type) -> set[str]:
    return {k for c in cls.__mro__ if c not in (Function, object) for k in vars(c)}


def _finish(node: FunctionNode, args: tuple, out: Any, needs: bool) -> Any:
    """Tie the outputs of ``forward`` to the node and keep what was saved."""
    multi = isinstance(out, tuple)
    outs = list(out) if multi else [out]
    inputs = {id(a) for a in args if isinstance(a, Tensor)}
    dirty = {id(t) for t in node.dirty}
    fixed = {id(t) for t in node.non_differentiable}
    _check_dirty(node, outs, inputs, needs)
    results: list[Any] = []
    views, count = [], 0
    made: dict[int, Tensor] = {}
    for i, t in enumerate(outs):
        node.outputs.append((tuple(t.shape), t.dtype) if isinstance(t, Tensor) else ((), None))
        if not isinstance(t, Tensor):
            results.append(t)
            continue
        if id(t) in made:  # returned twice: one tensor, whose gradient arrives at the last place
            r = made[id(t)]
            r._nr = i if r._node is node else r._nr
            results.append(r)
            continue
        r = t
        written = id(t) in dirty and id(t) in inputs
        if id(t) in inputs and not written:
            r = _as_view(t) if STATE.grad else alias(t)
        elif written and t._rg and not needs:  # under no_grad: the input keeps what it has
            r = alias(t)
        elif id(t) not in dirty and (t._node is not None or t._rg) and type(t._node) is not Severed:
            r = alias(t)
        if needs and id(t) not in fixed and t.dtype.is_floating_point:
            count += 1
            if written:
                _rebase(t, node, i)
            else:
                r._node, r._nr, r._rg = node, i, True
        if r._view is not None and not written and STATE.grad:
            r._view.made = "function"
            if r._st is not None:
                r._view.version = r._st.version  # what forward changed is the node's, not a change after it
            views.append(r._view)
        if id(t) not in inputs:
            made[id(t)] = r
        results.append(r)
    for v in views if count > 1 else ():
        v.made = "multi"
    if needs:
        _keep(node, outs, results, inputs - dirty, dirty)
    return tuple(results) if multi else results[0]


def _check_returned(node: FunctionNode, args: tuple, out: Any) -> None:
    """RuntimeError where ``setup_context`` saves an input that ``forward`` returned as it is: as input or as output?"""
    dirty = {id(t) for t in node.dirty}
    outs = {id(t) for t in (out if isinstance(out, tuple) else (out,)) if isinstance(t, Tensor)} - dirty
    if any(id(a) in outs and any(a is t for t in node.to_save) for a in args):
        raise RuntimeError(
            f"{node.cls.__name__}: An input that has been returned as-is as output is being saved for backward. This "
            "is not supported if you override setup_context: return and save a view of the input (x.view_as(x)), or "
            "set up ctx inside of forward."
        )


def _check_dirty(node: FunctionNode, outs: list, inputs: set, needs: bool) -> None:
    """RuntimeError where an input may not be changed in place, or was not returned; counts the changes."""
    from ..inplace import bump, check_writable  # above this module

    returned = {id(t) for t in outs}
    for t in node.dirty:
        if id(t) not in inputs:
            text = "ctx.mark_dirty() received a tensor that was not an input. Only inputs that were changed are marked."
            if t._view is not None:
                raise RuntimeError(text)
            warn(text, UserWarning)
        if id(t) not in returned:
            raise RuntimeError(
                f"{node.cls.__name__}: Some elements marked as dirty during the forward method were not returned as "
                "output. The inputs that are modified inplace must all be outputs of the Function."
            )
        if needs:
            check_writable(t)
            if t._view is not None and len(outs) > 1 and id(t) in inputs:
                raise RuntimeError(
                    f"{node.cls.__name__}: if your Function modifies inplace an input that is a view of another "
                    "Tensor, your Function cannot return more than one Tensor. Give it a clone() of the view, or "
                    "divide it into two Functions."
                )
        bump(t)


def _rebase(t: Tensor, node: FunctionNode, nr: int) -> None:
    """The history of an input that was changed in place is now the node (the base of a view takes it in)."""
    from ..inplace import rebase  # above this module

    value = alias(t)
    value._node, value._nr, value._rg = node, nr, True
    rebase(t, value)


def _as_view(t: Tensor) -> Tensor:
    """An input that ``forward`` returned as it is: a view of it, so that in-place changes are refused."""
    out = alias(t)
    rec = t._view
    base, chain = (t, ()) if rec is None else (rec.base, rec.chain)
    assert out._st is not None
    out._view = new_view(base, chain, out._st.version, "function")
    return out


def _keep(node: FunctionNode, outs: list, results: list, as_given: set, dirty: set) -> None:
    """Keep what is to be saved: an input that was only passed on is an input, what was made or changed an output."""
    from ..tensor import storage_of

    places = {id(t): i for i, t in enumerate(outs) if id(t) not in as_given}
    for t in node.to_save:
        if t is None:
            node.kept.append(("in", None, 0))
        elif id(t) in places and (results[places[id(t)]]._node is node or id(t) in dirty):
            i = places[id(t)]
            r = results[i]
            value = r._data if r._data is not None else r._g
            kept: Any = (value, storage_of(r), storage_of(r).version)
            if STATE.packers:
                kept = Packed(STATE.packers[-1][0](r.detach()), STATE.packers[-1][1])
            node.kept.append(("out", kept, i))
        elif STATE.packers:
            node.kept.append(("in", packed(t, STATE.packers[-1]), 0))
        else:
            node.kept.append(("in", t, t._st.version if t._st is not None else 0))
    node.to_save = ()


def once_differentiable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator of ``backward``: it runs without recording; a second derivative through it is an error."""

    @functools.wraps(fn)
    def wrapper(ctx: Any, *grads: Any) -> Any:
        with no_grad():
            out = fn(ctx, *grads)
        return blocked(out, grads)

    return wrapper


class Blocked(CustomNode):
    """The history of gradients that may not be differentiated."""

    __slots__ = ()

    def apply(self, grads: list) -> Any:
        raise RuntimeError("trying to differentiate twice a function that was marked with @once_differentiable")


def blocked(out: Any, grads: tuple) -> Any:
    """The results of a backward that runs once only: with a history that raises, where ``grads`` have one."""
    if not STATE.grad or not any(isinstance(g, Tensor) and g._rg for g in grads):
        return out
    outs = out if isinstance(out, tuple) else (out,)
    node = Blocked(
        "torch::autograd::Error",
        tuple((g._node or g) if isinstance(g, Tensor) and g._rg else None for g in grads),
        tuple(g._nr if isinstance(g, Tensor) else 0 for g in grads),
        [(tuple(t.shape), t.dtype) if isinstance(t, Tensor) else ((), None) for t in outs],
    )
    marked = []
    for i, t in enumerate(outs):
        if isinstance(t, Tensor):
            t = alias(t)
            t._node, t._nr, t._rg = node, i, True
        marked.append(t)
    return tuple(marked) if isinstance(out, tuple) else marked[0]
