"""CPython 3.11-3.14 bytecode -> one set of canonical instructions. Only this file and its tables know versions.

`decode(code)` gives a `Program`: a flat list of `Instr` with jump targets as indices, exception regions as index
ranges, and live locals. Instructions stay one to one with the real ones, so that a frame can be resumed at any of
them. What a version adds stands in opcodes.py; an unknown opcode or version raises `Undecodable`, and the function
then runs as plain Python.
"""

from __future__ import annotations

import dis
import inspect
import sys
import types
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any
from weakref import WeakKeyDictionary

from .opcodes import BINARY, BINARY_SUBSCRIPT, INTRINSICS, INTRINSICS_2, LOOP_ENDS, SPECIAL_METHODS, TABLES

VERSION = sys.version_info[:2]


class Undecodable(Exception):
    """This code can't be decoded: unknown Python version or unknown opcode."""


@dataclass(slots=True)
class Instr:
    """One canonical instruction. ``arg``: operand (a name, constant, number or slot); ``target``: index to jump to."""

    op: str
    arg: Any
    target: int
    offset: int
    line: int
    index: int = -1
    extra: Any = None

    def __repr__(self) -> str:
        return f"{self.index}: {self.op} {self.arg!r}" + (f" -> {self.target}" if self.target >= 0 else "")


@dataclass(slots=True)
class Region:
    """An exception region: instructions start..end (end excluded) go to ``target`` with the stack cut to ``depth``."""

    start: int
    end: int
    target: int
    depth: int
    lasti: bool


@dataclass(eq=False)
class Program:
    """Decoded code. ``slots``: names of all local slots (locals, cells, free variables, in the frame's order)."""

    code: types.CodeType
    instrs: list[Instr]
    regions: list[Region]
    slots: list[str]
    offsets: dict[int, int] = field(default_factory=dict)
    live: list[frozenset[int]] | None = None
    _stored: frozenset[str] | None = None

    def handler(self, index: int) -> Region | None:
        """The exception region around an instruction."""
        for r in self.regions:
            if r.start <= index < r.end:
                return r
        return None

    def stored(self) -> frozenset[str]:
        """Names of the attributes, globals and cells that the code stores to."""
        if self._stored is None:
            names = {i.arg for i in self.instrs if i.op in ("STORE_ATTR", "STORE_GLOBAL")}
            cells = {self.slots[i.arg] for i in self.instrs if i.op == "STORE_DEREF"}
            self._stored = frozenset(names | cells)
        return self._stored

    def locals_calls(self) -> set[int]:
        """Instructions from the load of ``locals`` to its call."""
        found: set[int] = set()
        for i in self.instrs:
            if i.op == "LOAD_GLOBAL" and i.arg == "locals":
                end = next((k for k in range(i.index, len(self.instrs)) if self.instrs[k].op == "CALL"), i.index)
                found.update(range(i.index, end + 1))
        return found

    def stored_in_loops(self, index: int) -> set[str]:
        """Names of the locals that loops around an instruction store to."""
        inside: set[int] = set()
        for i in self.instrs:
            if 0 <= i.target <= index <= i.index:
                inside.update(range(i.target, i.index))
        out: set[int] = set()
        for i in (self.instrs[k] for k in inside):
            out.update((i.arg,) if i.op == "STORE_DEREF" else _effects(i)[1])
        return {self.slots[k] for k in out}

    def live_at(self, index: int) -> frozenset[int]:
        """Slots that may be read at or after an instruction."""
        if self.live is None:
            self.live = _liveness(self)
        return self.live[index]


# Since 3.13 the callable stands below the NULL-or-self slot; before, above.
CALLABLE_FIRST = VERSION >= (3, 13)
# Before 3.14 a tuple that is made of an object's items asks for its length.
TUPLES_ASK = VERSION < (3, 14)
# Since 3.12 a class body's free variables are looked up in a mapping on the stack first.
CLASSDEREF_FROM_STACK = VERSION >= (3, 12)
# Since 3.13 conditional jumps want a bool, which an instruction before them makes.
_JUMPS_WANT_BOOL = VERSION >= (3, 13)
# Since 3.14 "too many values to unpack" tells how many there are.
UNPACK_TELLS_COUNT = VERSION >= (3, 14)

_cache: WeakKeyDictionary[types.CodeType, Program | Undecodable] = WeakKeyDictionary()


def decode(code: types.CodeType) -> Program:
    """The canonical program of a code object (cached). Raises `Undecodable`."""
    got = _cache.get(code)
    if got is None:
        try:
            got = _decode(code)
        except Undecodable as e:
            got = e
        _cache[code] = got
    if isinstance(got, Undecodable):
        raise got
    return got


def tables() -> dict[tuple[int, int], dict[str, str]]:
    """For every known version: its instruction names -> canonical names."""
    return TABLES


# Builtins (and frame tricks) that see the frame they are called in: such a function runs as it is.
_LOOKS_UP = {
    "_getframe",
    "currentframe",
    "extract_stack",
    "format_stack",
    "print_stack",
    "walk_stack",
    "getouterframes",
}  # fmt: skip  (and at the frames that called it)
_FRAME_BOUND = {"locals", "eval", "exec", "breakpoint", *_LOOKS_UP}


_NOTHING = ("CACHE", "PRECALL", "NOP", "PUSH_NULL", "EXTENDED_ARG")
_SUSPENDS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def looks_at_callers(code: types.CodeType) -> bool:
    """Whether the code asks for frames, and may look at the one that called it."""
    return not _LOOKS_UP.isdisjoint(code.co_names) or {"inspect", "stack"} <= set(code.co_names)


def needs_own_frame(code: types.CodeType) -> bool:
    """Whether the code asks for its own frame, so that it can't be replaced by segments."""
    if looks_at_callers(code):
        return True
    if _FRAME_BOUND.isdisjoint(code.co_names):
        return False
    instrs = [i for i in dis.get_instructions(code) if i.opname not in _NOTHING]
    bound = [i for i in instrs if i.argval in _FRAME_BOUND and i.opname in ("LOAD_GLOBAL", "LOAD_NAME")]
    return any(i.argval != "locals" for i in bound) or not _evaluated_locals(code, instrs, bound)


def _evaluated_locals(code: types.CodeType, instrs: list, loads: list) -> bool:
    """Whether every ``locals()`` runs once; before 3.13, where a frame has one dict for all its calls, the only one."""
    function = code.co_flags & inspect.CO_OPTIMIZED and not code.co_flags & _SUSPENDS
    called = all(b.opname == "CALL" and b.arg == 0 for a, b in pairwise(instrs) if a in loads)
    jumps = [i for i in instrs if i.opcode in dis.hasjrel]
    again = any(i.argval <= load.offset <= i.offset for load in loads for i in jumps)
    return bool(function and called and not again and (len(loads) < 2 or VERSION >= (3, 13)))


def _slots(code: types.CodeType) -> list[str]:
    cells = [n for n in code.co_cellvars if n not in code.co_varnames]
    slots = [*code.co_varnames, *cells, *code.co_freevars]
    if any(code._varname_from_oparg(k) != n for k, n in enumerate(slots)):  # type: ignore[attr-defined]
        raise Undecodable("its local variables are laid out in an unknown way")
    return slots


def _decode(code: types.CodeType) -> Program:
    if VERSION not in TABLES:
        raise Undecodable(f"bytecode of Python {VERSION[0]}.{VERSION[1]} is not known")
    if needs_own_frame(code):
        raise Undecodable("it asks for its own frame (locals, eval, exec)")
    table = TABLES[VERSION]
    every = list(dis.get_instructions(code))  # takes longer than all that follows
    raw = [i for i in every if i.opname not in ("CACHE", "EXTENDED_ARG")]
    lines = _lines(code)
    offsets: dict[int, int] = {}
    start_of: dict[int, int] = {}
    pending = None
    for i in every:  # a jump may land on an instruction's EXTENDED_ARG prefix
        if i.opname == "EXTENDED_ARG":
            pending = i.offset if pending is None else pending
            continue
        start_of[i.offset] = i.offset if pending is None else pending
        pending = None
    for n, i in enumerate(raw):
        for off in range(start_of.get(i.offset, i.offset), i.offset + 2, 2):
            offsets[off] = n
    instrs = []
    for n, i in enumerate(raw):
        op = table.get(i.opname)
        if op is None:
            raise Undecodable(f"opcode {i.opname} is not known")
        target = offsets.get(i.argval, -1) if i.opcode in dis.hasjrel or i.opcode in dis.hasjabs else -1
        ins = Instr(op, i.argval, target, start_of.get(i.offset, i.offset), lines.get(i.offset, code.co_firstlineno), n)
        _argument(ins, i, code)
        instrs.append(ins)
    _kw_names(instrs)
    _loop_ends(instrs)
    _bools(instrs)
    regions = []
    end_offset = len(code.co_code)
    for e in dis._parse_exception_table(code):  # type: ignore[attr-defined]
        end = offsets.get(e.end, len(instrs) if e.end >= end_offset else None)
        if end is None:
            end = next(n for n, i in enumerate(instrs) if i.offset >= e.end)
        regions.append(Region(offsets[e.start], end, offsets[e.target], e.depth, e.lasti))
    return Program(code, instrs, regions, _slots(code), offsets)


def _lines(code: types.CodeType) -> dict[int, int]:
    out = {}
    for start, end, line in code.co_lines():
        for off in range(start, end, 2):
            out[off] = line or code.co_firstlineno
    return out


_INDEX_OPS = {"LOAD_FAST", "STORE_FAST", "DELETE_FAST", "LOAD_FAST_AND_CLEAR", "LOAD_DEREF", "STORE_DEREF",
              "DELETE_DEREF", "MAKE_CELL", "LOAD_CLOSURE", "LOAD_CLASSDEREF"}  # fmt: skip
_NUMBER_OPS = {"CALL", "CALL_KW", "FORMAT_VALUE", "MAKE_FUNCTION", "RERAISE", "RESUME", "CONVERT_VALUE",
               "SET_FUNCTION_ATTRIBUTE", "COPY", "SWAP", "UNPACK_EX"}  # fmt: skip


def _argument(ins: Instr, i: Any, code: types.CodeType) -> None:
    """Bring an instruction's argument into canonical form."""
    op = ins.op
    if op in _INDEX_OPS:
        ins.arg, ins.extra = i.arg, i.argval
    elif op in _NUMBER_OPS:
        ins.arg = i.arg
    elif op in ("LOAD_FAST_2", "STORE_FAST_2", "STORE_LOAD_FAST"):
        ins.arg = (i.arg >> 4, i.arg & 15)
    elif op == "LOAD_GLOBAL":
        ins.extra = bool(i.arg & 1)
    elif op == "LOAD_ATTR":
        if VERSION >= (3, 12) and i.arg & 1:
            ins.op = "LOAD_METHOD"
    elif op == "LOAD_SUPER_ATTR":
        ins.extra = i.arg & 3  # 1: a call follows; 2: written with its arguments
    elif op == "BINARY_OP":
        if VERSION >= (3, 14) and i.arg == BINARY_SUBSCRIPT:
            ins.op = "BINARY_SUBSCR"
        elif i.arg >= 2 * len(BINARY):
            raise Undecodable(f"operator {i.arg} is not known")
        else:
            ins.extra = i.arg >= len(BINARY)  # in place
            ins.arg = BINARY[i.arg % len(BINARY)]
    elif op == "COMPARE_OP":
        ins.arg = {"<": "lt", "<=": "le", "==": "eq", "!=": "ne", ">": "gt", ">=": "ge"}[_compare_text(i)]
        ins.extra = VERSION >= (3, 13) and bool(i.arg & 16)  # the result as a bool
    elif op in ("IS_OP", "CONTAINS_OP"):
        ins.arg = bool(i.arg)
    elif op == "KW_NAMES":
        ins.arg = code.co_consts[i.arg]
    else:
        _argument_of_version(ins, i)


def _argument_of_version(ins: Instr, i: Any) -> None:
    """Instructions whose stack or numbering differs between versions."""
    op = ins.op
    if op == "CALL_FUNCTION_EX":  # (places of callable, positional, keywords from the top; items taken)
        if VERSION >= (3, 14):
            ins.arg, ins.extra = (4, 2, 1), 4
        else:
            k = i.arg & 1
            ins.arg, ins.extra = (3 + k if CALLABLE_FIRST else 2 + k, 1 + k, 1 if k else 0), 3 + k
    elif op == "WITH_EXCEPT_START":  # places of __exit__ and of its self (0: none) from the top
        ins.arg = (5, 4) if VERSION >= (3, 14) else (4, 0)
    elif op == "SEND":
        ins.extra = VERSION < (3, 12)  # the end takes the iterator off the stack
    elif op == "LOAD_SPECIAL":
        if i.arg >= len(SPECIAL_METHODS):
            raise Undecodable(f"special method {i.arg} is not known")
        ins.arg = SPECIAL_METHODS[i.arg]
    elif op == "BUILD_INTERPOLATION":  # (conversion, whether a format stands on the stack)
        ins.arg = {0: None, 1: "s", 2: "r", 3: "a"}[i.arg >> 2], bool(i.arg & 1)
    elif i.opname == "LOAD_COMMON_CONSTANT":
        ins.arg = _common_constant(i.arg)
    elif op == "INTRINSIC_1":
        ins.op, ins.arg = INTRINSICS.get(i.arg, op), i.arg
    elif op == "INTRINSIC_2":
        ins.op, ins.arg = INTRINSICS_2.get(i.arg, op), i.arg


def _common_constant(n: int) -> Any:
    import opcode

    known = {AssertionError, NotImplementedError, tuple, all, any}
    table = opcode._common_constants  # type: ignore[attr-defined]
    if n >= len(table) or table[n] not in known:
        raise Undecodable(f"common constant {n} is not known")
    return table[n]


def _compare_text(i: Any) -> str:
    text = i.argval if isinstance(i.argval, str) else i.argrepr
    return text.removeprefix("bool(").removesuffix(")")


def _kw_names(instrs: list[Instr]) -> None:
    """Give a call its keyword names (3.11 and 3.12 pass them in an instruction before it)."""
    names: tuple = ()
    for ins in instrs:
        if ins.op == "KW_NAMES":
            names, ins.op = ins.arg, "NOP"
        elif ins.op == "CALL":
            ins.extra, names = names, ()


def _loop_ends(instrs: list[Instr]) -> None:
    """An exhausted FOR_ITER takes the iterator off the stack and goes behind the loop's end, in all versions."""
    ends = LOOP_ENDS[VERSION]
    for ins in instrs:
        if ins.op != "FOR_ITER":
            continue
        if [i.op for i in instrs[ins.target : ins.target + len(ends)]] != list(ends):
            raise Undecodable("a loop ends in an unknown way")
        ins.target += len(ends)


def _bools(instrs: list[Instr]) -> None:
    """Conditional jumps ask for truth themselves, in all versions: a compiled comparison then ends in the jump."""
    if not _JUMPS_WANT_BOOL:
        return
    for ins, nxt in zip(instrs, instrs[1:], strict=False):
        if nxt.op in ("POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE"):
            if ins.op == "TO_BOOL":
                ins.op = "NOP"
            elif ins.op == "COMPARE_OP":
                ins.extra = False


def entry_code(ins: Instr) -> tuple[tuple[str, int], ...]:
    """Instructions (name, argument) to run before the frame's own code is entered at ``ins``.

    A jump that is entered with the object whose truth it asks for needs that object as a bool since 3.13.
    """
    if _JUMPS_WANT_BOOL and ins.op in ("POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE"):
        return (("TO_BOOL", 0), *(("CACHE", 0),) * _caches("TO_BOOL"))
    return ()


def _caches(name: str) -> int:
    import opcode

    table: Any = opcode._inline_cache_entries  # type: ignore[attr-defined]
    return table.get(name, 0) if isinstance(table, dict) else table[opcode.opmap[name]]


_READS = {"LOAD_FAST", "LOAD_DEREF", "DELETE_DEREF", "LOAD_CLOSURE", "LOAD_CLASSDEREF", "MAKE_CELL", "STORE_DEREF",
          "DELETE_FAST", "LOAD_FAST_AND_CLEAR"}  # fmt: skip
ENDS = {"RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE", "JUMP_FORWARD"}


def _effects(ins: Instr) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(slots read, slots written) by an instruction."""
    if ins.op in _READS:
        return (ins.arg,), ()
    if ins.op == "STORE_FAST":
        return (), (ins.arg,)
    if ins.op == "LOAD_FAST_2":
        return ins.arg, ()
    if ins.op == "STORE_FAST_2":
        return (), ins.arg
    if ins.op == "STORE_LOAD_FAST":
        a, b = ins.arg
        return (() if a == b else (b,)), (a,)
    return (), ()


def _liveness(p: Program) -> list[frozenset[int]]:
    n = len(p.instrs)
    live: list[set[int]] = [set() for _ in range(n + 1)]
    handlers = [p.handler(k) for k in range(n)]
    told = p.locals_calls()
    changed = True
    while changed:
        changed = False
        for k in range(n - 1, -1, -1):
            ins = p.instrs[k]
            out: set[int] = set()
            if ins.op not in ENDS:
                out |= live[k + 1]
            if ins.target >= 0:
                out |= live[ins.target]
            reads, writes = _effects(ins)
            if k in told:
                reads = tuple(range(len(p.slots)))
            now = (out - set(writes)) | set(reads)
            h = handlers[k]
            if h is not None:
                now |= live[h.target]
            if not now <= live[k]:
                live[k] |= now
                changed = True
    return [frozenset(s) for s in live]


# ---- writing code


def emit(code: bytearray, name: str, arg: int) -> None:
    """Append an instruction of the running version."""
    for shift in (24, 16, 8):
        if arg >> shift:
            code += bytes((dis.opmap["EXTENDED_ARG"], (arg >> shift) & 255))
    code += bytes((dis.opmap[name], arg & 255))


def exception_table(entries: Iterable[tuple[int, int, int, int, bool]]) -> bytes:
    """An exception table of (start, end, target, depth, lasti); offsets in bytes, ends excluded."""
    out = bytearray()
    for start, end, target, depth, lasti in entries:
        for n, value in enumerate((start // 2, (end - start) // 2, target // 2, (depth << 1) | lasti)):
            _varint(out, value, n == 0)
    return bytes(out)


def _varint(out: bytearray, value: int, first: bool) -> None:
    parts = []
    while True:
        parts.append(value & 63)
        value >>= 6
        if not value:
            break
    parts.reverse()
    for k, p in enumerate(parts):
        b = p | (64 if k < len(parts) - 1 else 0)
        if first and k == 0:
            b |= 128
        out.append(b)
