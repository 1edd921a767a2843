"""Instructions on the stack, locals, cells, globals, constants; building of containers, strings and functions."""

from __future__ import annotations

import types
from typing import Any

from . import breaks, texts
from .breaks import Break, Raised
from .decode import CALLABLE_FIRST, Instr
from .evaluator import Evaluator, Frame, Returned, handles
from .values import NULL, CellRef, ForeignMethod, class_of, is_a, is_foreign


@handles("NOP", "RESUME")
def _nop(ev: Evaluator, f: Frame, ins: Instr) -> None:
    pass


@handles("POP_TOP", "END_FOR", "POP_ITER")
def _pop(ev: Evaluator, f: Frame, ins: Instr) -> None:
    f.stack.pop()


@handles("END_SEND")
def _end_send(ev: Evaluator, f: Frame, ins: Instr) -> None:
    del f.stack[-2]


@handles("PUSH_NULL")
def _push_null(ev: Evaluator, f: Frame, ins: Instr) -> None:
    f.stack.append(NULL)


@handles("COPY")
def _copy(ev: Evaluator, f: Frame, ins: Instr) -> None:
    f.stack.append(f.stack[-ins.arg])


@handles("SWAP")
def _swap(ev: Evaluator, f: Frame, ins: Instr) -> None:
    s, n = f.stack, ins.arg
    s[-1], s[-n] = s[-n], s[-1]


@handles("LOAD_CONST")
def _const(ev: Evaluator, f: Frame, ins: Instr) -> None:
    f.stack.append(ins.arg)


@handles("LOAD_ASSERTION_ERROR")
def _assertion(ev: Evaluator, f: Frame, ins: Instr) -> None:
    f.stack.append(AssertionError)


# ---- locals and cells


def local(ev: Evaluator, f: Frame, slot: int) -> Any:
    """The value of a slot; reads a pending source the first time."""
    v = f.slots[slot]
    if type(v) is Pending:
        v = f.slots[slot] = ev.cap.realize(v.obj, v.source)
    if v is NULL:
        name = f.program.slots[slot]
        raise Raised(
            UnboundLocalError(f"cannot access local variable '{name}' where it is not associated with a value")
        )
    return v


class Pending:
    """A local of the unit that was not read yet: no guard so far."""

    __slots__ = ("obj", "source")

    def __init__(self, obj: Any, source: Any) -> None:
        self.obj, self.source = obj, source


@handles("LOAD_FAST")
def _load_fast(ev: Evaluator, f: Frame, ins: Instr) -> None:
    f.stack.append(local(ev, f, ins.arg))


@handles("LOAD_CLOSURE")
def _load_closure(ev: Evaluator, f: Frame, ins: Instr) -> None:
    f.stack.append(local(ev, f, ins.arg))


@handles("LOAD_FAST_AND_CLEAR")
def _load_clear(ev: Evaluator, f: Frame, ins: Instr) -> None:
    v = f.slots[ins.arg]
    f.stack.append(NULL if v is NULL else local(ev, f, ins.arg))
    f.slots[ins.arg] = NULL


@handles("LOAD_FAST_2")
def _load_fast_2(ev: Evaluator, f: Frame, ins: Instr) -> None:
    f.stack.append(local(ev, f, ins.arg[0]))
    f.stack.append(local(ev, f, ins.arg[1]))


@handles("STORE_FAST")
def _store_fast(ev: Evaluator, f: Frame, ins: Instr) -> None:
    f.slots[ins.arg] = f.stack.pop()


@handles("STORE_FAST_2")
def _store_fast_2(ev: Evaluator, f: Frame, ins: Instr) -> None:
    f.slots[ins.arg[0]] = f.stack.pop()
    f.slots[ins.arg[1]] = f.stack.pop()


@handles("STORE_LOAD_FAST")
def _store_load(ev: Evaluator, f: Frame, ins: Instr) -> None:
    f.slots[ins.arg[0]] = f.stack.pop()
    f.stack.append(local(ev, f, ins.arg[1]))


@handles("DELETE_FAST")
def _delete_fast(ev: Evaluator, f: Frame, ins: Instr) -> None:
    if type(f.slots[ins.arg]) is not Pending:
        local(ev, f, ins.arg)
    f.slots[ins.arg] = NULL


@handles("MAKE_CELL")
def _make_cell(ev: Evaluator, f: Frame, ins: Instr) -> None:
    cell = types.CellType()
    if f.slots[ins.arg] is not NULL:
        cell.cell_contents = local(ev, f, ins.arg)
    ev.cap.keep.append(cell)
    f.slots[ins.arg] = cell


@handles("COPY_FREE_VARS")
def _copy_free(ev: Evaluator, f: Frame, ins: Instr) -> None:
    n = ins.arg
    start = len(f.slots) - n
    for k in range(n):
        if f.slots[start + k] is NULL:
            f.slots[start + k] = ev.closure_cell(f.func, k)


def read_cell(ev: Evaluator, cell: Any, name: str, free: bool = True) -> Any:
    """The content of a cell, made during capture or before."""
    if type(cell) is CellRef:
        if cell.value is NULL:
            try:
                obj = cell.obj.cell_contents
            except ValueError:
                raise Break(breaks.OBJECT, f"empty cell {name}") from None
            cell.value = ev.cap.realize(obj, cell.source.attr("cell_contents"))
        value = cell.value
        if value is not DELETED_CELL:
            return value
    else:
        try:
            return cell.cell_contents
        except ValueError:
            pass
    kind, text = (
        (NameError, "cannot access free variable") if free else (UnboundLocalError, "cannot access local variable")
    )
    text = f"{text} '{name}' where it is not associated with a value"
    raise Raised(kind(text + " in enclosing scope", name=name) if free else kind(text))


DELETED_CELL = object()


@handles("LOAD_DEREF")
def _load_deref(ev: Evaluator, f: Frame, ins: Instr) -> None:
    f.stack.append(read_cell(ev, local(ev, f, ins.arg), ins.extra))


@handles("STORE_DEREF")
def _store_deref(ev: Evaluator, f: Frame, ins: Instr) -> None:
    cell = local(ev, f, ins.arg)
    write_cell(ev, cell, f.stack.pop())


def locals_of(ev: Evaluator, f: Frame) -> dict[str, Any]:
    """What ``locals()`` gives in a frame."""
    code, out = f.program.code, {}
    for k, name in enumerate(f.program.slots):
        if f.slots[k] is not NULL:
            v = local(ev, f, k)
            if name in code.co_cellvars or name in code.co_freevars:
                try:
                    v = read_cell(ev, v, name)
                except Raised:  # an empty one
                    continue
            out[name] = v
    return out


def write_cell(ev: Evaluator, cell: Any, value: Any) -> None:
    """Store into a cell (an effect if it existed before)."""
    if type(cell) is CellRef:
        cell.value, cell.dirty = value, True
    else:
        ev.calls += 1
        cell.cell_contents = value


@handles("DELETE_DEREF")
def _delete_deref(ev: Evaluator, f: Frame, ins: Instr) -> None:
    cell = local(ev, f, ins.arg)
    read_cell(ev, cell, ins.extra)
    if type(cell) is CellRef:
        raise Break(breaks.INSTRUCTION, "del of a free variable", clean=True)
    del cell.cell_contents


# ---- globals


@handles("LOAD_GLOBAL")
def _load_global(ev: Evaluator, f: Frame, ins: Instr) -> None:
    value = ev.load_global(f, ins.arg)
    if not ins.extra:
        f.stack.append(value)
    elif CALLABLE_FIRST:
        f.stack += [value, NULL]
    else:
        f.stack += [NULL, value]


@handles("STORE_GLOBAL")
def _store_global(ev: Evaluator, f: Frame, ins: Instr) -> None:
    ev.dict_set(ev.globals_ref(f.globals), ins.arg, f.stack.pop())


@handles("DELETE_GLOBAL")
def _delete_global(ev: Evaluator, f: Frame, ins: Instr) -> None:
    ev.dict_del(ev.globals_ref(f.globals), ins.arg)


@handles("IMPORT_NAME")
def _import_name(ev: Evaluator, f: Frame, ins: Instr) -> None:
    import sys

    fromlist = f.stack[-1]
    level = f.stack[-2]
    name = ins.arg
    if level:
        package = f.globals.get("__package__") or f.globals.get("__name__", "").rpartition(".")[0]
        base = package.rsplit(".", level - 1)[0] if level > 1 else package
        name = f"{base}.{name}" if name else base
    mod = sys.modules.get(name)
    if mod is None:
        raise Break(breaks.CALL, f"import of {name}", clean=True)
    if ev.cap.by_user():
        c = ev.cap.consts
        for n in {name, name if fromlist else name.split(".")[0]}:
            ev.cap.guard(f"{c.name(sys.modules)}.get({n!r}) is {c.name(sys.modules[n])}", "import", n)
    del f.stack[-2:]
    f.stack.append(mod if fromlist else sys.modules[name.split(".")[0]])


@handles("IMPORT_FROM")
def _import_from(ev: Evaluator, f: Frame, ins: Instr) -> None:
    f.stack.append(ev.getattr(f.stack[-1], ins.arg))


# ---- building


def _take(f: Frame, n: int) -> list[Any]:
    if n == 0:
        return []
    out = f.stack[-n:]
    del f.stack[-n:]
    return out


@handles("BUILD_TUPLE")
def _build_tuple(ev: Evaluator, f: Frame, ins: Instr) -> None:
    f.stack.append(tuple(_take(f, ins.arg)))


@handles("BUILD_LIST")
def _build_list(ev: Evaluator, f: Frame, ins: Instr) -> None:
    f.stack.append(_take(f, ins.arg))


@handles("LIST_TO_TUPLE")
def _list_to_tuple(ev: Evaluator, f: Frame, ins: Instr) -> None:
    if is_foreign(f.stack[-1]):
        raise Break(breaks.OBJECT, "a list from before the break becomes a tuple", clean=True)
    f.stack[-1] = tuple(f.stack[-1])


@handles("BUILD_SET")
def _build_set(ev: Evaluator, f: Frame, ins: Instr) -> None:
    f.stack.append(ev.real(set, [ev.key(v) for v in _take(f, ins.arg)]))


@handles("BUILD_MAP")
def _build_map(ev: Evaluator, f: Frame, ins: Instr) -> None:
    items = _take(f, 2 * ins.arg)
    f.stack.append(ev.real(dict, zip([ev.key(k) for k in items[::2]], items[1::2], strict=False)))


@handles("BUILD_CONST_KEY_MAP")
def _const_key_map(ev: Evaluator, f: Frame, ins: Instr) -> None:
    keys = f.stack.pop()
    f.stack.append(dict(zip(keys, _take(f, ins.arg), strict=False)))


@handles("BUILD_SLICE")
def _build_slice(ev: Evaluator, f: Frame, ins: Instr) -> None:
    f.stack.append(slice(*_take(f, ins.arg)))


def _grow(ev: Evaluator, target: Any, method: str, v: Any) -> None:
    """A container being built; after a break it is one that existed before."""
    if method != "append" and method != "extend":
        v = ev.key(v) if method == "add" else [ev.key(x) for x in v]
    if is_foreign(target):
        ev.foreign_method(ForeignMethod(target, method), [v], {})
    else:
        ev.real(getattr(target, method), v)


@handles("LIST_APPEND")
def _list_append(ev: Evaluator, f: Frame, ins: Instr) -> None:
    v = f.stack.pop()
    _grow(ev, f.stack[-ins.arg], "append", v)


@handles("SET_ADD")
def _set_add(ev: Evaluator, f: Frame, ins: Instr) -> None:
    v = f.stack.pop()
    _grow(ev, f.stack[-ins.arg], "add", v)


@handles("MAP_ADD")
def _map_add(ev: Evaluator, f: Frame, ins: Instr) -> None:
    k, v = _take(f, 2)
    ev.setitem(f.stack[-ins.arg], k, v)


@handles("LIST_EXTEND")
def _list_extend(ev: Evaluator, f: Frame, ins: Instr) -> None:
    v = f.stack.pop()
    _grow(ev, f.stack[-ins.arg], "extend", ev.items_of(v, sized=True))


@handles("SET_UPDATE")
def _set_update(ev: Evaluator, f: Frame, ins: Instr) -> None:
    v = f.stack.pop()
    _grow(ev, f.stack[-ins.arg], "update", ev.set_items(v))


@handles("DICT_UPDATE", "DICT_MERGE")
def _dict_update(ev: Evaluator, f: Frame, ins: Instr) -> None:
    v = f.stack.pop()
    target = f.stack[-ins.arg]
    if not issubclass(class_of(v), dict):
        try:
            ev.getattr(v, "keys")
        except Raised as e:
            if not is_a(e.exc, AttributeError):
                raise
            raise Raised(TypeError(f"'{class_of(v).__name__}' object is not a mapping")) from None
    new = ev.mapping_of(v)
    if ins.op == "DICT_MERGE":
        for k in new:
            if not is_a(k, str):
                raise Raised(TypeError("keywords must be strings"))
            if ev.contains(target, k):
                raise Raised(TypeError(f"got multiple values for keyword argument '{k}'"))
    if is_foreign(target):
        for k, x in new.items():
            ev.setitem(target, k, x)
    else:
        target.update(new)


# ---- strings


@handles("FORMAT_VALUE")
def _format_value(ev: Evaluator, f: Frame, ins: Instr) -> None:
    spec = f.stack.pop() if ins.arg & 4 else ""
    f.stack.append(ev.format_value(f.stack.pop(), ins.arg & 3, spec))


@handles("CONVERT_VALUE")
def _convert_value(ev: Evaluator, f: Frame, ins: Instr) -> None:
    f.stack.append(ev.format_value(f.stack.pop(), ins.arg, None))


@handles("FORMAT_SIMPLE")
def _format_simple(ev: Evaluator, f: Frame, ins: Instr) -> None:
    f.stack.append(ev.format_value(f.stack.pop(), 0, ""))


@handles("FORMAT_WITH_SPEC")
def _format_spec(ev: Evaluator, f: Frame, ins: Instr) -> None:
    spec = f.stack.pop()
    f.stack.append(ev.format_value(f.stack.pop(), 0, spec))


@handles("BUILD_STRING")
def _build_string(ev: Evaluator, f: Frame, ins: Instr) -> None:
    parts = _take(f, ins.arg)
    text = texts.joined(ev, parts)
    f.stack.append("".join(parts) if text is None else text)


# ---- functions and ends


@handles("MAKE_FUNCTION")
def _make_function(ev: Evaluator, f: Frame, ins: Instr) -> None:
    code, flags = f.stack.pop(), ins.arg or 0
    closure = f.stack.pop() if flags & 8 else None
    annotations = f.stack.pop() if flags & 4 else None
    kwdefaults = f.stack.pop() if flags & 2 else None
    defaults = f.stack.pop() if flags & 1 else None
    # since 3.13 the closure is set after (SET_FUNCTION_ATTRIBUTE); a function with free variables can't do without one
    none = tuple(types.CellType() for _ in code.co_freevars) or None
    cells = tuple(c.obj if is_foreign(c) else c for c in closure) if closure else none
    fn = types.FunctionType(code, f.globals, code.co_name, defaults, cells)
    fn.__kwdefaults__ = kwdefaults
    if annotations:
        fn.__annotations__ = dict(zip(annotations[::2], annotations[1::2], strict=False))
    ev.cap.keep.append(fn)
    ev.new_functions.add(id(fn))
    f.stack.append(fn)


@handles("SET_FUNCTION_ATTRIBUTE")
def _function_attribute(ev: Evaluator, f: Frame, ins: Instr) -> None:
    fn, value = f.stack.pop(), f.stack.pop()
    if ins.arg == 8:  # the closure, always first
        cells = tuple(c.obj if is_foreign(c) else c for c in value)
        fn = types.FunctionType(fn.__code__, fn.__globals__, fn.__name__, None, cells)
        ev.cap.keep.append(fn)
        ev.new_functions.add(id(fn))
    elif ins.arg == 1:
        fn.__defaults__ = value
    elif ins.arg == 2:
        fn.__kwdefaults__ = value
    elif ins.arg == 4:
        fn.__annotations__ = dict(zip(value[::2], value[1::2], strict=False))
    elif ins.arg == 16:  # the function that makes the annotations when they are asked for
        fn.__annotate__ = value
    else:
        raise Break(breaks.INSTRUCTION, f"function attribute {ins.arg}", clean=False)
    f.stack.append(fn)


@handles("RETURN_VALUE")
def _return(ev: Evaluator, f: Frame, ins: Instr) -> Returned:
    return Returned(f.stack.pop())


@handles("RETURN_CONST")
def _return_const(ev: Evaluator, f: Frame, ins: Instr) -> Returned:
    return Returned(ins.arg)


@handles("YIELD_VALUE")
def _yield(ev: Evaluator, f: Frame, ins: Instr) -> Returned:
    return Returned(f.stack.pop(), yielded=True)
