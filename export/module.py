"""Running a program: an `nn.Module` with the program's state, compiled at the first call or interpreted."""

from __future__ import annotations

import contextlib
import inspect
import threading
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from fusegrad.compiler.ir.builder import GraphBuilder
from fusegrad.compiler.ir.control import expand, is_control
from fusegrad.compiler.ir.graph import Value, map_values

from fusegrad import handler
from fusegrad.autograd.modes import STATE, no_grad, set_grad
from fusegrad.dispatch import dispatch
from fusegrad.meta import Meta
from fusegrad.nn import Module, Parameter
from fusegrad.size_floats import evaluate_tree
from fusegrad.sizes import ConstraintError, SymInt, evaluate
from fusegrad.tensor import Tensor, wrap

from .calls import Checker
from .errors import ExportError, FileError, InputError
from .program import ExportedProgram, Output, State
from .quick import MISS, quick_call
from .tree import LEAF, unflatten

INTERPRET: Any = object()  # stands for a compiled form: run by the interpreter
_KEPT = 32  # compiled forms of one module: one, or one for each set of sizes if the general form cannot be compiled


class ExportedModule(Module):
    """What `ExportedProgram.module()` returns: checks each call, runs the graph, writes changed buffers back."""

    def __init__(self, program: ExportedProgram, *, compile: bool = True, options: Any = None) -> None:
        super().__init__()
        d = self.__dict__
        d["training"] = program.training
        d["_program"] = program
        if not any(s.name.split(".")[0] == "program" for s in program.state):
            d["program"] = program
        d["_check"] = Checker(program)
        d["_compile"], d["_options"] = compile, options
        d["_regions"] = {}
        d["_lock"] = threading.Lock()
        d["_slots"] = [(i, holder.__dict__[table], name) for i, holder, table, name in self._make_state(program)]
        d["_seen"] = [None] * len(d["_slots"])  # arrays of the state that were found to fit
        d["_count"] = len(program.graph.inputs)
        d["_no_grad"] = (False,) * d["_count"]
        d["_numbers"] = list(program.floats.items())
        d["_arguments"] = [(leaf.input, i) for i, leaf in enumerate(program.leaves) if leaf.input is not None]
        arguments = {i for i, _ in d["_arguments"]}
        changes = program.graph.mutations
        d["_mutated"] = [(v.index, v.index in arguments and not keeps_history(v, new)) for v, new in changes]
        d["_writes"] = [v.index for v, _ in changes]
        d["_plain"] = program.tree == LEAF and not d["_mutated"] and program.outputs == [Output("value", 0)]
        d["_quick"] = quick_call(program, d["_check"], d["_slots"], d["_seen"], d["_regions"], d["_no_grad"])

    # ---- state ----
    def _make_state(self, program: ExportedProgram) -> list[tuple[int, Any, str, str]]:
        """Register the state under its old names; returns (input, holder, table, name) for each graph input."""
        shared: dict[str, Tensor] = {}
        slots: dict[int, tuple[int, Any, str, str]] = {}
        d = self.__dict__
        d["_constants"] = {}
        for s in program.state:
            if s.tensor not in shared:
                t = wrap(program.tensors[s.tensor].copy(), Parameter if s.kind == "parameter" else Tensor)
                shared[s.tensor] = t.requires_grad_() if s.requires_grad else t
            t = shared[s.tensor]
            if s.kind == "constant":
                d["_constants"][s.name] = t
                place: tuple[Any, str, str] = (self, "_constants", s.name)
            else:
                place = self._register(s, t)
            if s.input is not None:
                slots.setdefault(s.input, (s.input, *place))
        return list(slots.values())

    def _register(self, s: State, t: Tensor) -> tuple[Any, str, str]:
        *path, name = s.name.split(".")
        holder: Module = self
        try:
            for part in path:
                if part not in holder._modules:
                    if holder is self and _only_ours(self, part):
                        holder._modules[part] = Module()
                    else:
                        holder.add_module(part, Module())
                holder = holder._modules[part]  # type: ignore[assignment]
            if holder is self and _only_ours(self, name):
                table = "_parameters" if isinstance(t, Parameter) else "_buffers"
                holder.__dict__[table][name] = t
                if table == "_buffers" and not s.persistent:
                    holder._non_persistent_buffers_set.add(name)
                return holder, table, name
            if isinstance(t, Parameter):
                holder.register_parameter(name, t)
                return holder, "_parameters", name
            holder.register_buffer(name, t, persistent=s.persistent)
        except (KeyError, TypeError) as e:
            raise FileError(f"the program's {s.kind} {s.name!r} cannot be registered in a module: {e}") from None
        return holder, "_buffers", name

    def train(self, mode: bool = True) -> ExportedModule:
        """The mode was fixed at export: asking for another has no effect and warns."""
        if bool(mode) != self.training:
            asked, was = ("train", "eval") if mode else ("eval", "train")
            warnings.warn(
                f"{asked}() has no effect: the program was exported in {was} mode; export again after model.{asked}()",
                stacklevel=2,
            )
        return self

    # ---- calls ----
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program. InputError leads with the argument that does not fit."""
        d = self.__dict__
        program, quick = d["_program"], d["_quick"]
        if quick is not None and not kwargs and (out := quick(args)) is not MISS:
            if d["_plain"]:
                return out[0]
            return unflatten(program.tree, iter([self._result(o, out, args, {}) for o in program.outputs]))
        leaves, env = d["_check"](args, kwargs)
        inputs: list[Any] = [None] * d["_count"]
        for i, leaf in d["_arguments"]:
            inputs[i] = leaves[leaf]
        for k, (i, table, name) in enumerate(d["_slots"]):
            t = inputs[i] = table.get(name)
            if t is None or t._data is None or t._data is not d["_seen"][k]:
                self._fits(k, i, t)
        for i, tree in d["_numbers"]:
            inputs[i] = evaluate_tree(tree, env)
        if d["_writes"]:
            self._apart(inputs)
        out = self._run(inputs, env)
        if d["_plain"]:
            return out[0]
        count = len(program.graph.outputs)
        for (i, recorded), new in zip(d["_mutated"], out[count:], strict=True):
            write_back(inputs[i], new, recorded)
        return unflatten(program.tree, iter([self._result(o, out, inputs, env) for o in program.outputs]))

    def _fits(self, k: int, i: int, t: Any) -> None:
        """InputError unless `t` can be this part of the state: kernels rely on its shape and dtype."""
        value = self._program.graph.inputs[i]
        shape, want = tuple(value.meta.shape), value.meta.dtype
        if not isinstance(t, Tensor) or t.dtype is not want or tuple(t.shape) != shape:
            has = f"{t.dtype.name} {list(t.shape)}" if isinstance(t, Tensor) else "missing" if t is None else repr(t)
            raise InputError(
                f"{value.name}: is {has}, allowed {want.name} {list(shape)} (state keeps the type it was exported with)"
            )
        self.__dict__["_seen"][k] = t._data

    def _apart(self, inputs: list[Any]) -> None:
        """InputError for an argument in the memory of state, where one of the two is changed: eager code sees both."""
        d = self.__dict__
        arguments, writes = {i for i, _ in d["_arguments"]}, set(d["_writes"])
        for i, j in ((i, j) for i in arguments for j, *_ in d["_slots"] if i in writes or j in writes):
            a, b = inputs[i]._data, inputs[j]._data
            if a is not None and b is not None and np.may_share_memory(a, b):
                names = [self._program.graph.inputs[k].name for k in (i, j)]
                raise InputError(
                    f"{names[0]}: shares memory with {names[1]}, and one of the two is changed in place, allowed: "
                    "separate memory"
                )

    @staticmethod
    def _result(o: Output, out: Any, inputs: Sequence[Any], env: dict[str, int]) -> Any:
        if o.kind == "value":
            t = out[o.value]
            return t.detach() if o.detached and (t.requires_grad or any(t is given for given in inputs)) else t
        if o.kind == "input":
            return inputs[o.value]
        if o.kind == "size":
            return evaluate(o.value, env)
        return evaluate_tree(o.value, env) if o.kind == "number" else o.value

    def _run(self, inputs: list[Any], env: dict[str, int]) -> Any:
        """Outputs of the graph, then the new values of what it changes."""
        d = self.__dict__
        if STATE.grad:
            flags = tuple([isinstance(t, Tensor) and t.requires_grad for t in inputs])
        else:
            flags = d["_no_grad"]
        region = d["_regions"].get(flags)
        if 0 in env.values():  # no elements along an axis: nothing to gain, and eager code knows what it gives
            region = INTERPRET
        elif region is None:
            region = self._special(flags, inputs, env)
        if region is INTERPRET:
            return interpret(d["_program"], inputs, env)
        given = []
        for t in inputs:
            if isinstance(t, Tensor):
                if t._data is None:  # called while something else is captured
                    return interpret(d["_program"], inputs, env)
                if not t._data.flags.c_contiguous:
                    t = t.contiguous()
            given.append(t)
        return region(*given, *[env[s] for s in region.size_params])

    def _special(self, flags: tuple[bool, ...], inputs: list[Any], env: dict[str, int]) -> Any:
        """The compiled form for this call's sizes, or a new one; INTERPRET if there is none."""
        if not self._compile or any(isinstance(t, Tensor) and t._data is None for t in inputs):
            return INTERPRET
        sizes = tuple(env[d.name] for d in self._program.dims if d.name in env)
        return self._regions.get((flags, sizes)) or self._build(flags, sizes, env)

    def _build(self, flags: tuple[bool, ...], sizes: tuple[int, ...], env: dict[str, int]) -> Any:
        """Compile for all sizes; if that is not possible (the backward may need more), for these sizes."""
        with self._lock:
            found = self._regions.get(flags) or self._regions.get((flags, sizes))
            if found is not None:
                return found
            if len(self._regions) >= _KEPT:
                self._regions.pop(next(iter(self._regions)))
            try:
                if self._program.dims:
                    with contextlib.suppress(ConstraintError):  # a relation between sizes that only holds for some
                        region = self._regions[flags] = build_region(self._program, flags, None, self._options)
                        return region
                key: Any = (flags, sizes) if self._program.dims else flags
                region = build_region(self._program, flags, env, self._options)
            except Exception as e:
                warnings.warn(
                    f"{self._program.name} is not compiled but interpreted: {type(e).__name__}: {e}", stacklevel=5
                )
                key, region = flags, INTERPRET
            self._regions[key] = region
            return region

    @property
    def __signature__(self) -> inspect.Signature | None:
        """The arguments by their names, for ``inspect.signature`` and for exporting this module again."""
        kinds = {"positional": inspect.Parameter.POSITIONAL_ONLY, "keyword": inspect.Parameter.KEYWORD_ONLY}
        leaves = iter(
            [inspect.Parameter.empty if leaf.input is not None else leaf.fixed for leaf in self._program.leaves]
        )
        found = []
        try:
            for p in self._program.params:
                value = unflatten(p.tree, leaves)
                default = value if p.optional else inspect.Parameter.empty
                kind = kinds.get(p.kind, inspect.Parameter.POSITIONAL_OR_KEYWORD)
                found.append(inspect.Parameter(p.name, kind, default=default))
            return inspect.Signature(found)
        except ValueError:  # one without a default stands after one with; a key of **kwargs is no name
            return None

    def extra_repr(self) -> str:
        return self._program.signature_text()

    # ---- copies: compiled forms are shared by shallow ones, and made anew by the others ----
    def _values(self) -> dict[str, Any]:
        """All state by name: (array, requires_grad), what is not in state_dict included."""
        found = {**self._constants, **dict(self.named_parameters(remove_duplicate=False)), **_buffers(self)}
        return {name: (t.detach().numpy().copy(), t.requires_grad) for name, t in found.items() if t is not None}

    def __copy__(self) -> ExportedModule:
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        return copy

    def __deepcopy__(self, memo: dict) -> ExportedModule:
        copy = memo[id(self)] = _restored(self._program, self._compile, self._options, self._values())
        return copy

    def __reduce__(self) -> tuple:
        return _restored, (self._program, self._compile, self._options, self._values())


def _only_ours(holder: Module, name: str) -> bool:
    """Whether a part of a program's state has a name that this class uses and modules are free to: it is found in
    ``state_dict`` and ``named_parameters`` all the same."""
    ours = hasattr(ExportedModule, name) or name in holder.__dict__
    return ours and not hasattr(Module, name) and name not in vars(Module())


def _buffers(module: Module) -> dict[str, Tensor]:
    return dict(module.named_buffers(remove_duplicate=False))


def _restored(program: ExportedProgram, compile: bool, options: Any, values: dict[str, Any]) -> ExportedModule:
    """A module of `program` with these values of the state."""
    out = ExportedModule(program, compile=compile, options=options)
    found = {**out._constants, **dict(out.named_parameters(remove_duplicate=False)), **_buffers(out)}
    for name, t in found.items():
        if name in values:
            array, asks = values[name]
            t.requires_grad_(asks)
            t.data = wrap(array)
    return out


def keeps_history(value: Value, new: Value) -> bool:
    """Whether the changes of an input from `value` to `new` were all made without a graph."""
    while new is not value:
        if new.node is None or new.node.op.name != "with_history":
            return False
        new = new.node.args[1]
    return True


def write_back(target: Tensor, new: Any, recorded: bool) -> None:
    """Let `target` hold `new`: without a history of it, or (arguments) as an in-place operation that is recorded."""
    if recorded:
        target.copy_(new)
    else:
        with no_grad():
            target.copy_(new)


# ---- replaying a graph through the dispatcher ----
def _concrete(value: Any, env: dict[str, int] | None) -> Any:
    if env is None:
        return value
    if isinstance(value, SymInt):
        return evaluate(value, env)
    if isinstance(value, (tuple, list)):
        return type(value)(_concrete(v, env) for v in value)
    if isinstance(value, slice):
        return slice(_concrete(value.start, env), _concrete(value.stop, env), _concrete(value.step, env))
    return value


def replay(
    program: ExportedProgram, inputs: list[Any], env: dict[str, int] | None, rng: tuple[int, int] | None
) -> list[Any]:
    """Outputs, then new values of what is mutated. `env` None keeps sizes symbolic; `rng`: (seed, first draw)."""
    graph = program.graph
    values: dict[Value, Any] = dict(zip(graph.inputs, inputs, strict=True))
    stopped: dict[int, set[int]] = {}
    for node_number, arg in program.stops:
        stopped.setdefault(node_number, set()).add(arg)
    for number, node in enumerate(graph.nodes):
        args = _concrete(map_values(node.args, values.__getitem__), env)
        if number in stopped:
            args = _detach(args, stopped[number])
        attrs = {k: _concrete(v, env) for k, v in node.attrs.items()}
        if rng is not None and "draw" in attrs:
            attrs["seed"], attrs["draw"] = rng[0], rng[1] + attrs["draw"]
        if node.op.name == "view":
            args = _viewable(args)
        out = expand(node.op, args, env, attrs) if is_control(node.op) else dispatch(node.op, args, attrs)
        outs = out if isinstance(out, (tuple, list)) else (out,)
        values.update(zip(node.outputs, outs, strict=True))
    results = [*graph.outputs, *(new for _, new in graph.mutations)]
    return [map_values(r, values.__getitem__) for r in results]


def _viewable(args: tuple) -> tuple:
    """A reshape is recorded as the view that it is of dense arguments; another layout may need a copy."""
    t = args[0]
    return args if t._data is None or t._data.flags.c_contiguous else (t.contiguous(), *args[1:])


def _detach(args: tuple, stops: set[int]) -> tuple:
    at = -1

    def one(a: Any) -> Any:
        nonlocal at
        if isinstance(a, Tensor) and not (a._data is None and a._g.meta.weak):
            at += 1
            return a.detach() if at in stops else a
        return type(a)(map(one, a)) if isinstance(a, (tuple, list)) else a

    return tuple(one(a) for a in args)


def interpret(program: ExportedProgram, inputs: list[Any], env: dict[str, int]) -> list[Any]:
    """Run on eager operators (or, for graph tensors, into their graph), with the tape if gradients are on."""
    rng = None
    if program.graph.draws:
        active = handler.current()
        if active is not None:
            rng = active.draw(program.graph.draws)
        else:
            from fusegrad.random import default_generator

            rng = (default_generator.initial_seed(), default_generator.take(program.graph.draws))
    with program.numbers():
        return replay(program, inputs, env, rng)


def build_region(program: ExportedProgram, flags: tuple[bool, ...], env: dict[str, int] | None, options: Any) -> Any:
    """A compiled, differentiable Region of the program: for all sizes, or (with `env`) for these."""
    from fusegrad.compiler.region import build_region as build

    builder = GraphBuilder(program.name, program.ctx if env is None and program.dims else None)
    inputs = [
        builder.new_input(Meta(_concrete(tuple(v.meta.shape), env), v.meta.dtype, None, v.meta.weak), flag, v.name)
        for v, flag in zip(program.graph.inputs, flags, strict=True)
    ]
    before = STATE.grad
    set_grad(any(flags))
    try:
        with handler.active(builder), program.numbers():
            outs = replay(program, inputs, env, None)
            returned = {o.value for o in program.outputs if o.kind == "value"}
            for i in range(len(program.graph.outputs)):
                if i not in returned:  # of an operator that is run for its errors: nothing is differentiated
                    outs[i] = outs[i].detach()
    finally:
        set_grad(before)
    builder.graph.draws = max(builder.graph.draws, program.graph.draws)
    if not all(isinstance(t, Tensor) for t in outs):
        raise ExportError("a graph output is not a tensor")
    with program.numbers():
        return build(builder, inputs, outs, name=program.name, options=options)
