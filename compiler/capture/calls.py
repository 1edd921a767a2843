"""Calls: what is inlined, what runs for real on graph tensors, what breaks the graph."""

from __future__ import annotations

import collections
import enum
import functools
import types
import weakref
from typing import Any

from fusegrad.nn.module import Module
from fusegrad.op import Function, Op
from fusegrad.size_values import varies
from fusegrad.sizes import SymInt
from fusegrad.tensor import Tensor

from ..module import CompiledModule
from ..number_forms import TAKEN
from . import breaks
from .acting import refuse_read
from .breaks import Break, Raised, Refuse
from .contracts import empty_code
from .control import FUNCTIONS, checkpointed, control_call
from .enclosed import as_enclosing
from .evaluator import Frame
from .generators import start_generator
from .later import is_scheduler_step, note_step
from .numbers import FILLS, OTHER_FOR_TENSORS, filled_with, fits, fixed_exponent, fixed_float, into_integers, operands
from .objects import mro_lookup
from .prepare import optimizer_step
from .shown import in_kind, refuse_kinds
from .state import fixed_module
from .subclasses import plain_value
from .values import (
    NULL,
    DictRef,
    Foreign,
    ForeignMethod,
    ListRef,
    ObjRef,
    SetRef,
    SymFloat,
    class_of,
    is_a,
    is_foreign,
    module_of,
)

# The library's Python that is evaluated like user code; the rest of the library runs for real.
INLINE = ("fusegrad.nn.", "fusegrad.optim", "fusegrad.autograd.modes", "fusegrad.utils.", "fusegrad.func.calls.",
          "fusegrad.distributions.", "fusegrad.amp.", "fusegrad.compiler.capture.std_python.")  # fmt: skip
REAL_NN = ("fusegrad.nn.functional", "fusegrad.nn.init")
HOLDS = ("fusegrad.distributions.base", "holds")  # by name: its modules are many, and few programs need them
REAL = ("fusegrad.ops", "fusegrad.bind", "fusegrad.inplace", "fusegrad.callgen", "fusegrad.callargs", "fusegrad.tensor",
        "fusegrad.dispatch", "fusegrad.autograd.api", "fusegrad.autograd.function", "fusegrad.autograd.node",
        "fusegrad.linalg", "fusegrad.special", "fusegrad.fft", "fusegrad.dtypes", "fusegrad.memory", "fusegrad.place",
        "fusegrad.autograd.callbacks", "fusegrad.autograd.handles", "fusegrad.foreach",
        "fusegrad.pytree", "fusegrad.func", "fusegrad.meta", "fusegrad.sizes",
        "fusegrad.printing")  # fmt: skip
# Standard library modules whose Python code may be evaluated.
STDLIB = {"contextlib", "functools", "collections", "dataclasses", "enum", "typing", "abc", "_collections_abc", "types",
          "collections.abc", "_weakrefset", "operator", "statistics", "fractions", "string", "numbers",
          "copy", "heapq"}  # fmt: skip
NO_METHODS = {"register_post_accumulate_grad_hook", "detach_", "share_memory_", "storage_offset", "as_subclass",
              "__repr__", "__str__", "__reduce_ex__", "__deepcopy__", "rename_"}  # fmt: skip


class Calls:
    """Mixin of the evaluator."""

    cap: Any
    calls: int
    frames: list[Frame]
    outer: Any

    def call(self, fn: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Call a value."""
        t = type(fn)
        if t is types.FunctionType:
            return self.call_function(fn, args, kwargs)
        if t is types.MethodType:
            return self._call_method(fn, args, kwargs)
        if t is ForeignMethod:
            return self.foreign_method(fn, args, kwargs)
        if issubclass(t, type):
            return self.call_class(fn, args, kwargs)
        if t in (Op, Function):
            return self.library(fn.fn, args, kwargs)
        if t is functools.partial:
            return self.call(fn.func, [*fn.args, *args], {**fn.keywords, **kwargs})
        if t is ObjRef:
            return self._call_instance(fn, args, kwargs)
        if t is types.MethodWrapperType and type(fn.__self__) in _CALLED and fn.__name__ == "__call__":
            return self.call(fn.__self__, args, kwargs)
        if t in (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType,
                 types.MethodWrapperType, types.ClassMethodDescriptorType):  # fmt: skip
            return self.call_builtin(fn, args, kwargs)
        if issubclass(t, Foreign):
            raise Break(breaks.CALL, f"call of {fn.source.name}", clean=True)
        m = self.user_method(fn, "__call__")
        if m is not NULL:
            return self.call(m, [fn, *args], kwargs)
        if t is functools._lru_cache_wrapper:
            return SPECIAL[t](self, fn, args, kwargs)
        return self.call_builtin(fn, args, kwargs)

    def _call_method(self, fn: types.MethodType, args: list, kwargs: dict) -> Any:
        me = fn.__self__
        func = fn.__func__
        if is_a(func, types.FunctionType) and issubclass(type(me), Tensor):
            name = func.__name__
            made = name == "detach_" and id(me) not in self.cap.input_of  # only its history is another one then
            if name in NO_METHODS and not made:
                raise Break(breaks.AUTOGRAD, f"Tensor.{name}", clean=True)
        return self.call(func, [me, *args], kwargs)

    def _call_instance(self, ref: ObjRef, args: list, kwargs: dict) -> Any:
        cls = type(ref.obj)
        owner, call = mro_lookup(cls, "__call__")
        if call is _MODULE_CALL:
            self.cap.class_guard(cls, "__call__", call)
            return self.call_module(ref, args, kwargs)
        if call is CompiledModule.__call__:
            return self.call(self.cap.realize(ref.obj._orig_mod, ref.source.attr("_orig_mod")), args, kwargs)
        if cls is weakref.ReferenceType and not args and not kwargs:
            return self.cap.realize(ref.obj(), ref.source.call("{}()", f"{ref.source.name}()"))
        if not is_a(call, types.FunctionType):
            raise Break(breaks.CALL, f"call of a {cls.__name__}", clean=True)
        self.cap.class_guard(cls, "__call__", call)
        return self.call(call, [ref, *args], kwargs)

    def call_module(self, ref: ObjRef, args: list, kwargs: dict) -> Any:
        """``module(...)``: hooks if there are any, else forward."""
        from fusegrad.nn import _hooks

        m = ref.obj
        d = m.__dict__
        names = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
        compiled = d.get("_compiled_call_impl") or type(m)._compiled_call_impl
        changed = any(self.written(c) for c in (*(d.get(n) for n in names), _hooks.ANY_GLOBAL))
        if changed or any(d.get(n) for n in names) or _hooks.ANY_GLOBAL:
            return self.call(Module._call_hooked, [ref, tuple(args), dict(kwargs)], {})
        c = self.cap.tok(ref.source)
        safe = ref.source.kind == "const" and ref.source.key in self.cap.consts.modules
        test = " or ".join(f"{c}.{n}" for n in names)
        self.cap.guard(
            f"not ({test} or {self.cap.consts.name(_hooks.ANY_GLOBAL)})", "hooks", ref.source.path(), safe=safe
        )
        if compiled is not None:
            self.cap.guard(
                f"{c}.__dict__.get('_compiled_call_impl') is {self.cap.consts.name(compiled)}",
                "module",
                ref.source.path(),
                safe=safe,
            )
        return self.call(self.getattr(ref, "forward"), args, kwargs)

    def written(self, container: Any) -> bool:
        """Whether captured code changed this pre-existing dict."""
        ref = self.cap.by_id.get(id(container))
        return type(ref) is DictRef and bool(ref.log)

    # ---- Python functions

    def call_function(self, fn: types.FunctionType, args: list, kwargs: dict) -> Any:
        """Inline a Python function, run the library's for real, or break."""
        from ..runtime import original_of

        handler = SPECIAL.get(fn) or SPECIAL.get(fn.__code__)
        if handler is not None:
            return handler(self, fn, args, kwargs)
        if fn.__name__ == "is_compiling" and fn.__module__ == "fusegrad.compiler.api":
            return True
        if is_scheduler_step(fn) and note_step(self, fn, args, kwargs):
            return None
        if fn.__code__.co_name == "step" and fn.__module__ == "fusegrad.optim.optimizer":
            optimizer_step(self.cap, args[0] if args else None, args[1] if len(args) > 1 else kwargs.get("closure"))
        real = original_of(fn)
        if real is not fn:
            if real is None:
                raise Break(breaks.DISABLED, f"{fn.__qualname__} is disabled", clean=True)
            return self.call(real, args, kwargs)
        kind = self.kind_of(fn)
        if kind == "real":
            return self.library(fn, args, kwargs)
        if kind == "break":
            if fn.__module__ == "logging":
                handler = SPECIAL["logging"]
                out = handler(self, fn, args, kwargs)
                if out is not NULL:
                    return out
            raise Break(breaks.CALL, f"call of {fn.__module__}.{fn.__qualname__}", clean=True)
        return self.inline(fn, args, kwargs)

    def kind_of(self, fn: types.FunctionType) -> str:
        """ "inline", "real" or "break" for a Python function."""
        if id(fn) in self.new_functions:
            return "inline"
        if getattr(fn, "_fusegrad_in_graph", False):
            return "real"
        if fn.__globals__.get("__name__") == "fusegrad.calls":  # an operator
            return "real"
        module = fn.__module__ or fn.__globals__.get("__name__") or ""
        module = module if type(module) is str else ""
        root = module.split(".")[0]
        if root == "fusegrad":
            if fn.__code__.co_filename.startswith("<fusegrad"):
                return "real"
            if module.startswith(REAL_NN) or fn is varies or (module, fn.__name__) == HOLDS:
                return "real"
            if module.startswith("fusegrad.utils.data"):
                return "break"
            if (module + ".").startswith(INLINE):
                return "inline"
            return "real" if module.startswith(REAL) else "break"
        if fn.__code__.co_filename.startswith("<fusegrad"):
            return "real"
        if root in _STD and module not in STDLIB and not fn.__code__.co_filename.startswith("<"):
            plain = module == "argparse" and fn.__qualname__.startswith(("Namespace.", "_AttributeHolder."))
            return "inline" if plain else "break"
        if root == "numpy":
            return "break"
        return "inline"

    def inline(self, fn: types.FunctionType, args: list, kwargs: dict) -> Any:
        """Evaluate a Python function's body."""
        self.calls += 1
        code = fn.__code__
        origin = self.cap.origin.get(id(fn))
        told = origin is not None and origin.root().kind == "local"  # its code is guarded; the function may die
        if not (told or id(fn) in self.new_functions or fixed_module(fn.__module__)):
            name = self.cap.consts.name(fn)
            self.cap.guard(f"{name}.__code__ is {self.cap.consts.name(code)}", "code", fn.__qualname__)
        depth = len(self.frames)
        frame = self.make_frame(fn, depth)
        self.bind(fn, frame, args, kwargs)
        if code.co_flags & 0x20:
            return start_generator(self, frame)
        if code.co_flags & 0x280:
            raise Break(breaks.FRAME, f"coroutine {code.co_name}")
        return self.run_frame(frame).value

    def bind(self, fn: types.FunctionType, frame: Frame, args: list, kwargs: dict) -> None:
        """Put arguments into a frame's slots, as Python binds them. Raises the program's TypeError."""
        code, slots = fn.__code__, frame.slots
        names = code.co_varnames
        npos, nkw = code.co_argcount, code.co_kwonlyargcount
        given = len(args)
        slots[: min(given, npos)] = args[:npos]
        at = npos + nkw
        if code.co_flags & 4:
            slots[at] = tuple(args[npos:])
            at += 1
        elif given > npos:
            raise Raised(self._arity_error(fn, args, kwargs))
        extra: dict[str, Any] = {}
        for k, v in kwargs.items():
            try:
                i = names.index(k, code.co_posonlyargcount, npos + nkw)
            except ValueError:
                if not code.co_flags & 8:
                    raise Raised(self._arity_error(fn, args, kwargs)) from None
                extra[k] = v
                continue
            if i < given and i < npos:
                raise Raised(self._arity_error(fn, args, kwargs))
            slots[i] = v
        if code.co_flags & 8:
            slots[at] = extra
        defaults = fn.__defaults__ or ()
        for i in range(npos):
            if slots[i] is NULL:
                k = i - (npos - len(defaults))
                if k < 0:
                    raise Raised(self._arity_error(fn, args, kwargs))
                slots[i] = self._default(fn, defaults, k, "__defaults__")
        for i in range(npos, npos + nkw):
            if slots[i] is NULL:
                kwd = fn.__kwdefaults__ or {}
                if names[i] not in kwd:
                    raise Raised(self._arity_error(fn, args, kwargs))
                slots[i] = self._default(fn, kwd, names[i], "__kwdefaults__")

    def _default(self, fn: types.FunctionType, where: Any, k: Any, attr: str) -> Any:
        value = where[k]
        if id(fn) in self.new_functions:
            return value
        source = self.cap.origin.get(id(fn)) or self.cap.const(fn)
        if source.root().kind == "const" and is_a(value, (int, float, str, bool, type(None), types.FunctionType, type)):
            if self.kind_of(fn) == "inline" and not (fn.__module__ or "").startswith("fusegrad"):
                of, name = self.cap.tok(source), self.cap.consts.name
                self.cap.guard(f"{of}.{attr} is {name(where)}", "defaults", source.path())
                if type(where) is dict:  # the same dict may hold another value
                    self.cap.guard(f"{of}.{attr}[{k!r}] is {name(value)}", "defaults", source.path())
            return value
        return self.cap.realize(value, source.attr(attr).item(k))

    def _arity_error(self, fn: types.FunctionType, args: list, kwargs: dict) -> TypeError:
        """Python's own error for these arguments: bind them for real on a function that does nothing."""
        code = fn.__code__
        probe = types.FunctionType(
            empty_code(code), {}, fn.__name__, fn.__defaults__, tuple(types.CellType() for _ in code.co_freevars)
        )
        probe.__qualname__ = fn.__qualname__
        probe.__kwdefaults__ = fn.__kwdefaults__
        try:
            probe(*[None] * len(args), **dict.fromkeys(kwargs))
        except TypeError as e:
            return TypeError(str(e))
        return TypeError(f"{fn.__qualname__}() got wrong arguments")

    # ---- library functions on graph tensors

    def numbers_fixed_by(self, run: Any, *args: Any) -> Any:
        """Make a call; where it needs the value of a changing number, the guard on that knows the call."""
        cap = self.cap
        if cap.number_place is not None or self.outer is None:
            return run(*args)
        program = self.frames[0].program
        cap.number_place = self.outer if program.instrs[self.outer[1]].op in _CALLING else None
        try:
            return run(*args)
        finally:
            cap.number_place = None

    def library(self, fn: Any, args: list, kwargs: dict) -> Any:
        """Run a library function for real; its function arguments are evaluated by callbacks."""
        return self.numbers_fixed_by(self._library, fn, args, kwargs)

    def _library(self, fn: Any, args: list, kwargs: dict) -> Any:
        if "generator" in kwargs:
            from .drawing import draw_tensor

            drawn = draw_tensor(self, fn, args, kwargs)
            if drawn is not NULL:
                return drawn
        refuse_read("the library is given", *args, *kwargs.values())
        if type(fn) is types.FunctionType:
            fn = as_enclosing(self, fn)
            if fn.__module__ == "fusegrad.pytree":
                refuse_kinds(self, args, kwargs)
        symbolic = any(_symbolic(v) for v in (*args, *kwargs.values()))
        name = getattr(fn, "__name__", "")
        if name.startswith("as_strided") and args and issubclass(type(args[0]), Tensor):
            root = getattr(args[0]._g, "cell", None)
            if root is not None and root.source is not None:  # it may look at memory beside the input's own elements
                raise Break(breaks.ALIAS, f"{name} of an input's memory", clean=True)
        if symbolic and into_integers(name, args, kwargs):
            args = [fixed_float(v) for v in args]
            kwargs = {n: fixed_float(v) for n, v in kwargs.items()}
        if symbolic:
            args = fixed_exponent(name, args)
        filled = filled_with(self, name, args, kwargs) if symbolic else None
        if filled is not None:
            return filled
        if symbolic and name in FILLS and not fits(args, kwargs):
            args, kwargs = [_plain_number(v) for v in args], {n: _plain_number(v) for n, v in kwargs.items()}
        for attr in ("alpha", "value"):
            if type(kwargs.get(attr)) is SymFloat and name.rstrip("_") in _SCALED:
                return self._scaled(fn, name, args, kwargs, attr)
        if not symbolic:
            a, k = [self.native(v) for v in args], {n: self.native(v) for n, v in kwargs.items()}
            return self.returned(self.real(fn, *a, **k))
        a, k = operands(self, fn, args, kwargs)
        builder = self.cap.builder
        draws = builder.graph.draws
        try:
            if name not in OTHER_FOR_TENSORS:
                return self.returned(self.real(fn, *a, **k))
        except (Break, Raised, Refuse):  # perhaps the numbers are no operands of it
            builder.graph.draws = draws
        if name in TAKEN:
            try:
                a = [v if type(v) is SymFloat else self.native(v) for v in args]
                k = {n: v if type(v) is SymFloat else self.native(v) for n, v in kwargs.items()}
                return self.returned(self.real(fn, *a, **k))
            except (Break, Raised, Refuse):
                builder.graph.draws = draws
        a = [self.native(_plain_number(v)) for v in args]
        k = {n: self.native(_plain_number(v)) for n, v in kwargs.items()}
        return self.returned(self.real(fn, *a, **k))

    def _scaled(self, fn: Any, name: str, args: list, kwargs: dict, attr: str) -> Any:
        """``p.add_(g, alpha=lr)`` with a changing number: the same sum with the product written out."""
        import fusegrad

        a = [self.native(v) for v in args]
        w = self.cap.weak(kwargs[attr])
        target = getattr(fusegrad.Tensor, "add_" if name.endswith("_") else "add")
        if name.startswith("sub"):
            target = getattr(fusegrad.Tensor, "sub_" if name.endswith("_") else "sub")
        if name.startswith("addcmul"):
            scaled = self.real(fusegrad.mul, a[1], w) * a[2]
        elif name.startswith("addcdiv"):
            scaled = self.real(fusegrad.mul, a[1], w) / a[2]
        else:
            scaled = self.real(fusegrad.mul, a[1], w)
        return self.real(target, a[0], scaled)

    def returned(self, v: Any) -> Any:
        """Real tensors made during capture enter the graph as fresh constants."""
        if issubclass(type(v), Tensor) and v._data is not None:
            return self.fresh(v)
        if type(v) in (tuple, list) and any(issubclass(type(x), Tensor) and x._data is not None for x in v):
            return type(v)(self.returned(x) for x in v)
        return v

    def fresh(self, t: Tensor) -> Any:
        """A tensor made of Python numbers during capture: constant data, copied at every call."""
        import fusegrad

        known = self.cap.by_id.get(id(t))
        if known is not None:
            return known
        with_grad = t.requires_grad
        lifted = self.cap.builder.lift(t.detach() if with_grad else t)
        self.cap.keep.append(t)
        out = self.real(fusegrad.clone, lifted)
        return out._ask_grad(True) if with_grad else out

    def native(self, v: Any) -> Any:
        """A value as real code may have it: placeholders replaced by content, functions by callbacks."""
        t = type(v)
        if issubclass(t, Tensor):
            self.cap.touch(v)
            return v
        if t is SymFloat:
            return self.cap.weak(v)
        if t is DictRef and type(v.obj) in _KINDS:
            return in_kind(self, v, self.native(self.content(v)))
        if t in (ListRef, DictRef, SetRef):
            return self.native(self.content(v))
        if t is list:
            return [self.native(x) for x in v]
        if issubclass(t, tuple) and not issubclass(t, enum.Enum) and any(_odd(x) for x in v):
            return tuple(self.native(x) for x in v) if t is tuple else tuple.__new__(t, [self.native(x) for x in v])
        if t is dict and any(_odd(x) for x in v.values()):
            return {k: self.native(x) for k, x in v.items()}
        if t in (types.FunctionType, functools.partial) or (
            t is types.MethodType and type(v.__func__) is types.FunctionType
        ):
            return self.callback(v)
        if t is slice:
            return slice(self.native(v.start), self.native(v.stop), self.native(v.step))
        if t is ObjRef and issubclass(type(v.obj), (Module,)):
            return self.callback(v)
        if (
            t is ObjRef
            and module_of(type(v.obj)).startswith("fusegrad")
            and type(v.obj).__name__ in ("device", "Generator")
        ):
            return v.obj
        if t is ObjRef and (plain := plain_value(self.cap, v)) is not v:
            return self.native(plain)
        if issubclass(t, Foreign):
            raise Break(breaks.OBJECT, f"a {class_of(v).__name__} is passed to library code", clean=True)
        return v

    def callback(self, v: Any) -> Any:
        """A real function that evaluates ``v``; functions of the library are passed as they are."""
        fn = v.__func__ if type(v) is types.MethodType else v
        if type(fn) is types.FunctionType and self.kind_of(fn) == "real" and fn not in SPECIAL:
            return as_enclosing(self, v) if v is fn else v

        def back(*args: Any, **kwargs: Any) -> Any:
            try:
                return self.call(v, list(args), kwargs)
            except Raised as e:
                raise e.exc from None

        self.made[id(back)] = self.outer
        self.cap.keep.append(back)
        return back


def _symbolic(v: Any) -> bool:
    t = type(v)
    return t in (SymFloat, SymInt) or (t in (tuple, list) and any(_symbolic(x) for x in v))


def _plain_number(v: Any) -> Any:
    """Symbolic numbers (also inside of tuples and lists) by their value, guarded."""
    t = type(v)
    if t in (tuple, list):
        return t(_plain_number(x) for x in v) if any(_symbolic(x) for x in v) else v
    return int(v) if t is SymInt else v.fixed() if t is SymFloat else v


def _odd(v: Any) -> bool:
    t = type(v)
    return t in _REPLACED or issubclass(t, (Foreign, tuple))


_REPLACED = (list, dict, tuple, SymFloat, Tensor, types.FunctionType, types.MethodType, functools.partial, slice)


# ---- library functions that need more than running for real


def _grad_enabled(ev: Any, fn: Any, args: list, kwargs: dict) -> bool:
    from fusegrad.autograd.modes import is_grad_enabled

    return is_grad_enabled()


def _inference(ev: Any, fn: Any, args: list, kwargs: dict) -> bool:
    from fusegrad.autograd.modes import STATE

    return STATE.inference


def _is_tensor(ev: Any, fn: Any, args: list, kwargs: dict) -> bool:
    return issubclass(class_of(args[0]), Tensor)


def _get_default_dtype(ev: Any, fn: Any, args: list, kwargs: dict) -> Any:
    return fn()


def _for_all(ev: Any, fn: Any, args: list, kwargs: dict) -> Any:
    """What holds for the whole process is set by every call, and what follows is captured under it."""
    raise Break(breaks.CALL, fn.__name__, clean=True)


def _mode_enter(ev: Any, fn: Any, args: list, kwargs: dict) -> Any:
    if is_foreign(args[0]):
        return ev.inline(fn, args, kwargs)
    return ev.real(fn, *args, **kwargs)


def _wraps(ev: Any, fn: Any, args: list, kwargs: dict) -> Any:
    return (
        functools.partial(functools.update_wrapper, wrapped=args[0])
        if not kwargs and len(args) == 1
        else ev.inline(fn, args, kwargs)
    )


def _update_wrapper(ev: Any, fn: Any, args: list, kwargs: dict) -> Any:
    if len(args) > 2 or not {"wrapper", "wrapped"}.issuperset(kwargs):  # says itself what is taken over
        return ev.inline(fn, args, kwargs)
    wrapper = args[0] if args else kwargs["wrapper"]
    wrapped = args[1] if len(args) > 1 else kwargs["wrapped"]
    if type(wrapper) is types.FunctionType and id(wrapper) in ev.new_functions and type(wrapped) is types.FunctionType:
        return ev.real(functools.update_wrapper, wrapper, wrapped)
    return ev.inline(fn, args, kwargs)


def _tracked_dict(ev: Any, fn: Any, args: list, kwargs: dict) -> None:
    """A dict of a module that is made: no guard on the epoch that it remembers."""
    fn(args[0], *[ev.mapping_of(a) for a in args[1:]], **kwargs)


_CALLED = (types.FunctionType, types.MethodType)
_KINDS = (collections.OrderedDict, collections.defaultdict, collections.Counter)  # what the library sees as these
_MODULE_CALL = Module.__call__  # the user may put another one in its place
SPECIAL: dict[Any, Any] = {}
_CALLING = ("CALL", "CALL_KW", "CALL_FUNCTION_EX")
_SCALED = {"add", "sub", "addcmul", "addcdiv"}


def _fill() -> None:

    import fusegrad
    from fusegrad import switches
    from fusegrad.autograd import modes
    from fusegrad.nn import _tracked
    from fusegrad.printing import set_printoptions
    from fusegrad.pytree import register_pytree_node
    from fusegrad.utils import checkpoint

    SPECIAL[checkpoint.checkpoint] = checkpointed
    for control_function in FUNCTIONS:
        SPECIAL[control_function] = control_call
    SPECIAL[modes.is_grad_enabled] = _grad_enabled
    SPECIAL[modes.is_inference_mode_enabled] = _inference
    SPECIAL[modes.slow_paths] = SPECIAL[modes.set_grad] = lambda ev, fn, args, kwargs: ev.real(fn, *args)
    SPECIAL[_tracked.TrackedDict.__init__] = _tracked_dict
    SPECIAL[_tracked.bump] = lambda ev, fn, args, kwargs: fn()  # of a module that is made: an epoch passes unused
    SPECIAL[switches.is_autocast_enabled] = lambda ev, fn, args, kwargs: fn()  # always so
    SPECIAL[fusegrad.is_tensor] = _is_tensor
    SPECIAL[fusegrad.get_default_dtype] = _get_default_dtype
    SPECIAL[fusegrad.set_default_dtype] = SPECIAL[set_printoptions] = SPECIAL[register_pytree_node] = _for_all
    SPECIAL[functools.wraps] = _wraps
    SPECIAL[functools.update_wrapper] = _update_wrapper
    for cls in (
        modes.Mode,
        modes.set_grad_enabled,
        modes.no_grad,
        modes.inference_mode,
        modes.recorded,
        modes.transform,
    ):
        for name in ("__enter__", "__exit__", "_enter", "_exit", "_clone", "__init__"):
            if name in vars(cls):
                SPECIAL[vars(cls)[name]] = _mode_enter


_STD = set(__import__("sys").stdlib_module_names)
_fill()
