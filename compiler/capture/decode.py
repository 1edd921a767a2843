"""CPython 3.11-3.14 bytecode -> one set of canonical instructions. The only file that knows versions.

`decode(code)` gives a `Program`: a flat list of `Instr` with jump targets as indices, exception regions as index
ranges, and live locals. What a version adds stands in its table; an unknown opcode or version raises `Undecodable`,
and the function then runs as plain Python.
"""

from __future__ import annotations

import dis
import sys
import types
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

VERSION = sys.version_info[:2]
KNOWN = ((3, 11), (3, 12), (3, 13), (3, 14))


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

    def handler(self, index: int) -> Region | None:
        """The exception region around an instruction."""
        for r in self.regions:
            if r.start <= index < r.end:
                return r
        return None

    def live_at(self, index: int) -> frozenset[int]:
        """Slots that may be read at or after an instruction."""
        if self.live is None:
            self.live = _liveness(self)
        return self.live[index]


# Names that mean the same canonical instruction in every version.
_SAME = """POP_TOP PUSH_NULL NOP UNARY_POSITIVE UNARY_NEGATIVE UNARY_NOT UNARY_INVERT BINARY_SUBSCR BINARY_SLICE
STORE_SLICE GET_LEN MATCH_MAPPING MATCH_SEQUENCE MATCH_KEYS PUSH_EXC_INFO CHECK_EXC_MATCH CHECK_EG_MATCH WITH_EXCEPT_START GET_AITER
GET_ANEXT BEFORE_ASYNC_WITH BEFORE_WITH END_ASYNC_FOR STORE_SUBSCR DELETE_SUBSCR GET_ITER GET_YIELD_FROM_ITER
LOAD_BUILD_CLASS LOAD_ASSERTION_ERROR RETURN_GENERATOR LIST_TO_TUPLE RETURN_VALUE IMPORT_STAR SETUP_ANNOTATIONS
YIELD_VALUE ASYNC_GEN_WRAP PREP_RERAISE_STAR POP_EXCEPT UNPACK_SEQUENCE FOR_ITER UNPACK_EX STORE_ATTR DELETE_ATTR
STORE_GLOBAL DELETE_GLOBAL SWAP LOAD_CONST BUILD_TUPLE BUILD_LIST BUILD_SET BUILD_MAP IMPORT_NAME IMPORT_FROM
JUMP_FORWARD IS_OP CONTAINS_OP RERAISE COPY SEND LOAD_FAST STORE_FAST DELETE_FAST RAISE_VARARGS GET_AWAITABLE
BUILD_SLICE MAKE_CELL LOAD_CLOSURE LOAD_DEREF STORE_DEREF DELETE_DEREF CALL_FUNCTION_EX LIST_APPEND SET_ADD MAP_ADD
LOAD_CLASSDEREF COPY_FREE_VARS RESUME MATCH_CLASS BUILD_CONST_KEY_MAP BUILD_STRING LIST_EXTEND SET_UPDATE DICT_MERGE
DICT_UPDATE CALL KW_NAMES LOAD_NAME STORE_NAME DELETE_NAME PRINT_EXPR BINARY_OP COMPARE_OP LOAD_GLOBAL LOAD_ATTR
FORMAT_VALUE MAKE_FUNCTION""".split()

# Renamings: version's name -> (canonical name, how to read the argument or None).
_COMMON = {
    "JUMP_BACKWARD": "JUMP_FORWARD", "JUMP_BACKWARD_NO_INTERRUPT": "JUMP_FORWARD",
    "JUMP_IF_FALSE_OR_POP": "JUMP_IF_FALSE_OR_POP", "JUMP_IF_TRUE_OR_POP": "JUMP_IF_TRUE_OR_POP",
}  # fmt: skip
_3_11 = {
    "POP_JUMP_FORWARD_IF_FALSE": "POP_JUMP_IF_FALSE", "POP_JUMP_BACKWARD_IF_FALSE": "POP_JUMP_IF_FALSE",
    "POP_JUMP_FORWARD_IF_TRUE": "POP_JUMP_IF_TRUE", "POP_JUMP_BACKWARD_IF_TRUE": "POP_JUMP_IF_TRUE",
    "POP_JUMP_FORWARD_IF_NONE": "POP_JUMP_IF_NONE", "POP_JUMP_BACKWARD_IF_NONE": "POP_JUMP_IF_NONE",
    "POP_JUMP_FORWARD_IF_NOT_NONE": "POP_JUMP_IF_NOT_NONE", "POP_JUMP_BACKWARD_IF_NOT_NONE": "POP_JUMP_IF_NOT_NONE",
    "LOAD_METHOD": "LOAD_METHOD", "PRECALL": "NOP",
}  # fmt: skip
_3_12 = {
    "POP_JUMP_IF_FALSE": "POP_JUMP_IF_FALSE", "POP_JUMP_IF_TRUE": "POP_JUMP_IF_TRUE",
    "POP_JUMP_IF_NONE": "POP_JUMP_IF_NONE", "POP_JUMP_IF_NOT_NONE": "POP_JUMP_IF_NOT_NONE",
    "LOAD_FAST_CHECK": "LOAD_FAST", "LOAD_FAST_AND_CLEAR": "LOAD_FAST_AND_CLEAR", "RETURN_CONST": "RETURN_CONST",
    "END_FOR": "END_FOR", "END_SEND": "END_SEND", "LOAD_SUPER_ATTR": "LOAD_SUPER_ATTR", "CALL_INTRINSIC_1": "INTRINSIC_1",
    "CALL_INTRINSIC_2": "INTRINSIC_2", "CLEANUP_THROW": "CLEANUP_THROW", "LOAD_LOCALS": "LOAD_LOCALS",
    "LOAD_FROM_DICT_OR_DEREF": "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_GLOBALS": "LOAD_FROM_DICT_OR_GLOBALS",
    "LOAD_METHOD": "LOAD_METHOD", "LOAD_SUPER_METHOD": "LOAD_SUPER_ATTR", "LOAD_ZERO_SUPER_ATTR": "LOAD_SUPER_ATTR",
    "LOAD_ZERO_SUPER_METHOD": "LOAD_SUPER_ATTR", "INTERPRETER_EXIT": "NOP",
}  # fmt: skip
_3_13 = {
    **_3_12, "TO_BOOL": "TO_BOOL", "CALL_KW": "CALL_KW", "CONVERT_VALUE": "CONVERT_VALUE",
    "FORMAT_SIMPLE": "FORMAT_SIMPLE",
    "FORMAT_WITH_SPEC": "FORMAT_WITH_SPEC", "SET_FUNCTION_ATTRIBUTE": "SET_FUNCTION_ATTRIBUTE",
    "LOAD_FAST_LOAD_FAST": "LOAD_FAST_2", "STORE_FAST_STORE_FAST": "STORE_FAST_2", "STORE_FAST_LOAD_FAST": "STORE_LOAD_FAST",
    "STORE_FAST_MAYBE_NULL": "STORE_FAST", "EXIT_INIT_CHECK": "NOP",
}  # fmt: skip
_3_14 = {
    **_3_13, "LOAD_FAST_BORROW": "LOAD_FAST", "LOAD_FAST_BORROW_LOAD_FAST_BORROW": "LOAD_FAST_2",
    "LOAD_SMALL_INT": "LOAD_SMALL_INT", "LOAD_COMMON_CONSTANT": "LOAD_COMMON_CONSTANT", "LOAD_SPECIAL": "LOAD_SPECIAL",
    "NOT_TAKEN": "NOP", "POP_ITER": "POP_ITER", "JUMP_NO_INTERRUPT": "JUMP_FORWARD", "JUMP": "JUMP_FORWARD",
    "BUILD_INTERPOLATION": "BUILD_INTERPOLATION", "BUILD_TEMPLATE": "BUILD_TEMPLATE",
    "POP_JUMP_IF_FALSE": "POP_JUMP_IF_FALSE",
}  # fmt: skip
_TABLES = {(3, 11): _3_11, (3, 12): _3_12, (3, 13): _3_13, (3, 14): _3_14}
# In 3.13 and later the callable stands below the NULL-or-self slot; before, above.
CALLABLE_FIRST = VERSION >= (3, 13)
# In 3.12 and later an exhausted FOR_ITER jumps to END_FOR (and 3.13's POP_TOP follows); the iterator is popped there.
FOR_POPS_HERE = VERSION < (3, 12)

_BINARY = [
    "add", "and_", "floordiv", "lshift", "matmul", "mul", "mod", "or_", "pow", "rshift", "sub", "truediv", "xor",
]  # fmt: skip
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
    same = {n: n for n in _SAME}
    return {v: {**same, **_COMMON, **t} for v, t in _TABLES.items()}


# Builtins (and frame tricks) that see the frame they are called in: such a function runs as it is.
_FRAME_BOUND = {"locals", "eval", "exec", "breakpoint", "_getframe", "currentframe"}


def needs_own_frame(code: types.CodeType) -> bool:
    """Whether the code asks for its own frame, so that it can't be replaced by segments."""
    if _FRAME_BOUND.isdisjoint(code.co_names):
        return False
    return any(
        i.argval in _FRAME_BOUND
        and (i.opname in ("LOAD_GLOBAL", "LOAD_NAME") or i.argval in ("_getframe", "currentframe"))
        for i in dis.get_instructions(code)
    )


def _slots(code: types.CodeType) -> list[str]:
    cells = [n for n in code.co_cellvars if n not in code.co_varnames]
    return [*code.co_varnames, *cells, *code.co_freevars]


def _decode(code: types.CodeType) -> Program:
    if VERSION not in _TABLES:
        raise Undecodable(f"bytecode of Python {VERSION[0]}.{VERSION[1]} is not known")
    if needs_own_frame(code):
        raise Undecodable("it asks for its own frame (locals, eval, exec)")
    table = _TABLES[VERSION]
    raw = [i for i in dis.get_instructions(code) if i.opname not in ("CACHE", "EXTENDED_ARG")]
    lines = _lines(code)
    offsets: dict[int, int] = {}
    start_of: dict[int, int] = {}
    pending = None
    for i in dis.get_instructions(code):  # a jump may land on an instruction's EXTENDED_ARG prefix
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
        name = i.opname
        op = name if name in _SAME else table.get(name) or _COMMON.get(name)
        if op is None:
            raise Undecodable(f"opcode {name} is not known")
        target = offsets.get(i.argval, -1) if i.opcode in dis.hasjrel or i.opcode in dis.hasjabs else -1
        ins = Instr(op, i.argval, target, start_of.get(i.offset, i.offset), lines.get(i.offset, code.co_firstlineno), n)
        _argument(ins, i, code)
        instrs.append(ins)
    _kw_names(instrs)
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


def _argument(ins: Instr, i: Any, code: types.CodeType) -> None:
    """Bring an instruction's argument into canonical form."""
    op = ins.op
    if op in ("LOAD_FAST", "STORE_FAST", "DELETE_FAST", "LOAD_FAST_AND_CLEAR", "LOAD_DEREF", "STORE_DEREF",
              "DELETE_DEREF", "MAKE_CELL", "LOAD_CLOSURE", "LOAD_CLASSDEREF"):  # fmt: skip
        ins.arg, ins.extra = i.arg, i.argval
    elif op in ("LOAD_FAST_2", "STORE_FAST_2", "STORE_LOAD_FAST"):
        ins.arg = (i.arg >> 4, i.arg & 15)
    elif op == "LOAD_GLOBAL":
        ins.extra = bool(i.arg & 1)
    elif op == "LOAD_ATTR":
        ins.extra = VERSION >= (3, 12) and bool(i.arg & 1)
        if ins.extra:
            ins.op = "LOAD_METHOD"
    elif op == "LOAD_SUPER_ATTR":
        ins.extra = (bool(i.arg & 1), bool(i.arg & 2))
    elif op == "BINARY_OP":
        n = i.arg
        if VERSION >= (3, 14) and n == 26:
            ins.op = "BINARY_SUBSCR"
            return
        ins.extra = n >= 13
        ins.arg = _BINARY[n - 13 if n >= 13 else n]
    elif op == "COMPARE_OP":
        ins.arg = {"<": "lt", "<=": "le", "==": "eq", "!=": "ne", ">": "gt", ">=": "ge"}[_compare_text(i)]
        ins.extra = VERSION >= (3, 13) and bool(i.arg & 16)
    elif op in ("IS_OP", "CONTAINS_OP"):
        ins.arg = bool(i.arg)
    elif op in ("CALL", "CALL_KW", "CALL_FUNCTION_EX"):
        ins.arg = i.arg
    elif op == "KW_NAMES":
        ins.arg = code.co_consts[i.arg]
    elif op in ("INTRINSIC_1", "INTRINSIC_2", "FORMAT_VALUE", "MAKE_FUNCTION", "RERAISE", "RESUME", "CONVERT_VALUE", "SET_FUNCTION_ATTRIBUTE"):
        ins.arg = i.arg


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


_READS = {"LOAD_FAST", "LOAD_DEREF", "LOAD_CLOSURE", "LOAD_CLASSDEREF", "MAKE_CELL", "STORE_DEREF", "DELETE_DEREF",
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
            now = (out - set(writes)) | set(reads)
            h = handlers[k]
            if h is not None:
                now |= live[h.target]
            if not now <= live[k]:
                live[k] |= now
                changed = True
    return [frozenset(s) for s in live]
