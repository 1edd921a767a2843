"""Running the rest of a frame as plain Python: a prologue restores the state and jumps into the frame's own code."""

from __future__ import annotations

import dis
import types
from typing import Any

from .decode import Program, emit, entry_code, exception_table
from .handled import HANDLED, NULL_PLACE


def resume_function(
    program: Program, index: int, slots: tuple[int, ...], kinds: tuple[str, ...], globals_: dict
) -> Any:
    """A function of the live slots and the non-NULL stack values that continues ``program`` at instruction ``index``.

    ``kinds``: what the places of the stack hold (see handled). The original bytecode is kept untouched behind a
    prologue. Every slot becomes a plain local: the instructions for cells look at the slot's content alone, so cells
    are passed as the values that they are.
    """
    code = program.code
    names = _unique(program.slots)
    total, count = len(names), len(slots)
    inputs = count + sum(k != NULL_PLACE for k in kinds)
    prologue = bytearray()
    if code.co_flags & 0xA0:  # calling it gives a generator or coroutine, as calling the function does
        emit(prologue, "RETURN_GENERATOR", 0)
        emit(prologue, "POP_TOP", 0)
    emit(prologue, "RESUME", 0)
    for k, slot in enumerate(slots):  # the arguments stand behind the original slots
        emit(prologue, "LOAD_FAST", total + k)
        emit(prologue, "STORE_FAST", slot)
    for slot in range(total):
        if slot not in slots:
            emit(prologue, "DELETE_FAST", slot)
    at = total + count
    for kind in kinds:
        if kind == NULL_PLACE:
            emit(prologue, "PUSH_NULL", 0)
            continue
        emit(prologue, "LOAD_FAST", at)
        at += 1
        if kind == HANDLED:  # leaves what was handled before on the stack
            emit(prologue, "PUSH_EXC_INFO", 0)
            emit(prologue, "POP_TOP", 0)
    for name, arg in entry_code(program.instrs[index]):
        emit(prologue, name, arg)
    target = program.instrs[index].offset
    emit(prologue, "JUMP_FORWARD", target // 2)
    varnames = (*names, *(f".in{k}" for k in range(inputs)))
    new = code.replace(
        co_code=bytes(prologue) + code.co_code,
        co_varnames=varnames,
        co_nlocals=len(varnames),
        co_cellvars=(),
        co_freevars=(),
        co_argcount=len(varnames),
        co_posonlyargcount=0,
        co_kwonlyargcount=0,
        co_flags=code.co_flags & ~(0x4 | 0x8 | 0x10),
        co_stacksize=max(code.co_stacksize, len(slots), len(kinds)) + 3,
        co_linetable=_no_lines(len(prologue) // 2) + code.co_linetable,
        co_exceptiontable=_shift_table(code, len(prologue)),
    )
    fn = types.FunctionType(new, globals_, code.co_name)
    pad = (None,) * total

    def resume(*values: Any) -> Any:
        return fn(*pad, *values)

    return resume


def _unique(slots: list[str]) -> list[str]:
    seen: dict[str, int] = {}
    out = []
    for s in slots:
        n = seen[s] = seen.get(s, 0) + 1
        out.append(s if n == 1 else f"{s}.{n}")
    return out


def _no_lines(units: int) -> bytes:
    out = bytearray()
    while units > 0:
        n = min(units, 8)
        out.append(0x80 | (15 << 3) | (n - 1))
        units -= n
    return bytes(out)


def _shift_table(code: types.CodeType, by: int) -> bytes:
    """The exception table with every offset moved by ``by`` bytes."""
    entries = dis._parse_exception_table(code)  # type: ignore[attr-defined]
    return exception_table((e.start + by, e.end + by, e.target + by, e.depth, e.lasti) for e in entries)
