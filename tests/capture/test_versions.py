"""Capture on the running Python version: its opcode table, and programs broken and resumed at every instruction."""

from __future__ import annotations

import copy
import dis
import opcode
import sys
import types
import warnings
from typing import Any

import pytest
from fusegrad.compiler import cache as cache_module
from fusegrad.compiler.capture import break_plans, breaks, decode, machine  # noqa: F401  (registers the handlers)
from fusegrad.compiler.capture.evaluator import HANDLERS, Evaluator
from helpers import run
from version_programs import PROGRAMS, makes_function, wide

import fusegrad as T

# Instructions of coroutines, class bodies, modules, type parameters and template strings: such frames run as they are.
LEFT_OUT = {
    "ASYNC_GEN_WRAP", "BEFORE_ASYNC_WITH", "BUILD_INTERPOLATION", "BUILD_TEMPLATE", "CHECK_EG_MATCH", "CLEANUP_THROW",
    "DELETE_NAME", "END_ASYNC_FOR", "GET_AITER", "GET_ANEXT", "GET_AWAITABLE", "IMPORT_STAR", "INTRINSIC_1",
    "INTRINSIC_2", "KW_NAMES", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_GLOBALS", "LOAD_LOCALS", "LOAD_NAME",
    "PREP_RERAISE_STAR", "PRINT_EXPR", "RETURN_GENERATOR", "STORE_NAME",
}  # fmt: skip
PSEUDO = {
    "CACHE", "RESERVED", "EXTENDED_ARG", "ENTER_EXECUTOR", "SETUP_FINALLY", "SETUP_CLEANUP", "SETUP_WITH", "POP_BLOCK",
    "JUMP", "JUMP_NO_INTERRUPT", "JUMP_IF_FALSE", "JUMP_IF_TRUE", "STORE_FAST_MAYBE_NULL", "LOAD_METHOD_PSEUDO",
    "ANNOTATIONS_PLACEHOLDER", "LOAD_SUPER_METHOD", "LOAD_ZERO_SUPER_ATTR", "LOAD_ZERO_SUPER_METHOD",
}  # fmt: skip
# Pseudo opcodes of 3.12 and 3.13 only; real in 3.11 or not there.
PSEUDO_LATER = {"LOAD_METHOD", "LOAD_CLOSURE"}


def real_opcodes() -> set[str]:
    special = set(getattr(opcode, "_specialized_opmap", {})) | set(getattr(opcode, "_specialized_instructions", []))
    names = {n for n in dis.opmap if n not in special and not n.startswith("INSTRUMENTED") and n not in PSEUDO}
    return {n for n in names if n not in PSEUDO_LATER or dis.opmap[n] < 256}


def test_table_is_this_versions() -> None:
    assert set(decode.tables()[sys.version_info[:2]]) == real_opcodes()


def test_every_canonical_instruction_is_handled_or_left_out() -> None:
    names = {op for table in decode.tables().values() for op in table.values()}
    assert names - set(HANDLERS) - LEFT_OUT == set()
    assert set(break_plans.PLANS) - names == set()


def test_library_code_decodes() -> None:
    """Every function of some library modules decodes; jumps land on instructions, regions cover them."""
    import argparse
    import functools
    import inspect
    import statistics

    seen = 0
    todo: list[Any] = [
        compile(inspect.getsource(m), m.__file__, "exec") for m in (argparse, functools, inspect, statistics)
    ]
    while todo:
        code = todo.pop()
        todo += [c for c in code.co_consts if isinstance(c, types.CodeType)]
        try:
            p = decode.decode(code)
        except decode.Undecodable as e:
            assert "own frame" in str(e)  # noqa: PT017
            continue
        seen += 1
        for ins in p.instrs:
            assert (ins.target >= 0) == ("JUMP" in ins.op or ins.op in ("FOR_ITER", "SEND", "END_ASYNC_FOR")), ins
            assert ins.target < len(p.instrs)
        for r in p.regions:
            assert 0 <= r.start < r.end <= len(p.instrs)
            assert r.target < len(p.instrs)
        p.live_at(0)
    assert seen > 300


# ---- every program, captured as it is, broken at every instruction, and resumed as plain Python after each


class Forced(dict):
    """Known breaks, as if every instruction that ``pick`` takes had broken before."""

    def __init__(self, code: Any, pick: Any) -> None:
        super().__init__()
        self.code, self.pick = code, pick

    def __contains__(self, key: Any) -> bool:
        return dict.__contains__(self, key) or (key[0] is self.code and self.pick(key[1]))

    def __getitem__(self, key: Any) -> Any:
        return dict.get(self, key, (breaks.INSTRUCTION, "forced"))


def force(monkeypatch: Any, code: Any, pick: Any) -> None:
    make = cache_module.Facts

    def facts(*args: Any) -> Any:
        f = make(*args)
        f.breaks = Forced(code, pick)
        return f

    monkeypatch.setattr(cache_module, "Facts", facts)


def breakable(f: Any) -> list[int]:
    return [i.index for i in decode.decode(f.__code__).instrs if i.op in break_plans.PLANS]


@pytest.fixture(autouse=True)
def fresh() -> Any:
    T.compiler.reset()
    yield
    T.compiler.reset()


VALUES = (0, 1, 2, 3)


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_program(f: Any) -> None:
    c = T.compile(f)
    for n in VALUES:
        assert run(c, (n,)) == run(f, (n,)), n


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_program_breaks_everywhere(f: Any, monkeypatch: Any) -> None:
    force(monkeypatch, f.__code__, set(breakable(f)).__contains__)
    c = T.compile(f)
    for n in VALUES:
        for _ in range(2):
            assert run(c, (n,)) == run(f, (n,)), n


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_program_resumes_anywhere(f: Any, monkeypatch: Any) -> None:
    evaluate = Evaluator.run_unit

    def run_unit(self: Any, frame: Any) -> Any:
        if frame.ip:
            raise breaks.Refuse(breaks.FRAME, "forced")
        return evaluate(self, frame)

    for k in breakable(f):
        with monkeypatch.context() as m:
            force(m, f.__code__, k.__eq__)
            m.setattr(Evaluator, "run_unit", run_unit)
            T.compiler.reset()
            c = T.compile(f)
            for n in (1, 3):
                assert run(c, (n,)) == run(f, (n,)), (k, n)


def test_wide_arguments(monkeypatch: Any) -> None:
    loops = [i.index for i in decode.decode(wide.__code__).instrs if i.op in ("FOR_ITER", "COMPARE_OP")]
    for pick in ((), loops):
        with monkeypatch.context() as m:
            force(m, wide.__code__, set(pick).__contains__)
            T.compiler.reset()
            c = T.compile(wide)
            for n in (1, 3):
                assert run(c, (n,)) == run(wide, (n,)), n


def test_made_functions_keep_their_parts() -> None:
    want, got = makes_function(3), T.compile(makes_function)(3)
    assert got(1) == want(1)
    for name in (
        "__name__",
        "__qualname__",
        "__defaults__",
        "__kwdefaults__",
        "__annotations__",
        "__doc__",
        "__module__",
    ):
        assert getattr(got, name) == getattr(want, name), name


def test_truth_of_a_tensor_ends_a_graph_once() -> None:
    """A comparison and the jump on it are one graph and one break, whatever the version puts between them."""

    def f(x):
        y = x * 2
        if y.sum() > 3:
            y = y + 1
        if not (y.sum() < 0) and y.sum():
            y = y + 2
        return y

    c = T.compile(f)
    for v in (0.1, 2.0, -5.0, 0.0):
        x = T.tensor([v, v])
        assert c(x).tolist() == f(x).tolist()
    assert T.compiler.explain(f)(T.tensor([2.0, 2.0])).graph_count == 4


# ---- what is not known runs as plain Python, with one warning


def f_unknown(x):
    return x * 2 + 1


def _plain_with_one_warning() -> None:
    c = T.compile(f_unknown)
    x = T.tensor([1.0, 2.0])
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(3):
            assert c(x).tolist() == [3.0, 5.0]
    assert len([w for w in seen if "runs as plain Python" in str(w.message)]) == 1
    assert T.compiler.stats()["compiles"] == 0


def forget() -> None:
    decode._cache.clear()


def test_unknown_version_is_plain(monkeypatch: Any) -> None:
    monkeypatch.setattr(decode, "VERSION", (3, 99))
    forget()
    _plain_with_one_warning()
    forget()


def test_unknown_opcode_is_plain(monkeypatch: Any) -> None:
    table = copy.copy(decode.TABLES[sys.version_info[:2]])
    del table["BINARY_OP"]
    monkeypatch.setitem(decode.TABLES, sys.version_info[:2], table)
    forget()
    _plain_with_one_warning()
    forget()


def test_unknown_opcode_in_a_callee_breaks_there(monkeypatch: Any) -> None:
    def outer(x):
        y = x - 1
        y = helper_with_slice(y)
        return y - 2

    table = copy.copy(decode.TABLES[sys.version_info[:2]])
    del table["BUILD_LIST"]
    monkeypatch.setitem(decode.TABLES, sys.version_info[:2], table)
    forget()
    x = T.tensor([1.0, 2.0])
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        assert T.compile(outer)(x).tolist() == outer(x).tolist()
    forget()


def helper_with_slice(x):
    parts = [x, x]
    return parts[0] * 3
