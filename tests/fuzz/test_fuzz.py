"""Random programs do compiled what they do eager (`make fuzz` runs many); the fuzzer itself finds planted faults."""

from __future__ import annotations

import ast
import json
import os
import warnings
from pathlib import Path

import fuzz
import fuzz_batches
import fuzz_callers
import fuzz_disk
import fuzz_export
import fuzz_later
import fuzz_run
import fuzz_sizes
import fuzz_wide
import pytest

import fusegrad as T

CASES = sorted((Path(__file__).parent / "cases").glob("*.txt"))


def run(case):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = fuzz.check(case)
    assert found is None, f"{found[0]}\n{case.text}{found[1]}"


STARTS = [
    *range(0, 160, 40),
    fuzz_sizes.FIRST + 100,
    fuzz_wide.FIRST + 40,
    *(fuzz_callers.FIRST + k for k in (40, 80, 120)),
    fuzz_later.FIRST + 40,
]


@pytest.mark.parametrize("start", STARTS)
def test_random_programs(start):
    for seed in range(start, start + 40):
        run(fuzz_run.make(seed))
    T.compiler.reset()


def test_programs_with_stored_kernels():
    found = fuzz_disk.differences([fuzz_run.make(fuzz_sizes.FIRST + 500_000 + k) for k in (1, 2)], fuzz.check)
    assert not found


def test_what_processes_share_is_the_folder_alone():
    case = fuzz_run.Case("def f(x):\n    return x * 2,\n", [fuzz_run.plain_call()])
    seen = []

    def check(c):
        seen.append(1)
        return ("kind", f"{len(seen)} {c.options} {T.compiler.stats()['compiles']}")

    found = fuzz_disk.differences([case, case], check)
    assert [f[:2] for f in found] == [(k, name) for name in fuzz_disk.ROUNDS for k in (0, 1)] and not seen
    assert [f[3].split()[0] for f in found] == ["1", "2"] * 3


def test_a_process_that_dies_costs_the_number_it_was_at():
    def run(part, at):
        for k, n in enumerate(part, 1):
            at(k)
            if n == 4:
                os._exit(9)
        return len(part)

    assert list(fuzz_batches.batches(range(7), 3, run)) == [
        ([0, 1, 2], 3),
        ([3, 4], "the process died (status 2304)"),
        ([5, 6], 2),
    ]


def test_exported_programs():
    before = len(fuzz_export.DONE)
    for seed in range(fuzz_sizes.FIRST + 500, fuzz_sizes.FIRST + 540):
        case = fuzz_export.make(seed)
        found = fuzz.check(case, fuzz_export.difference)
        assert found is None, f"{found[0]}\n{case.text}{found[1]}"
    assert len(fuzz_export.DONE) - before >= 5


@pytest.mark.parametrize("fault", ["return x * BROKEN,", "x.mul_(BROKEN)\n    return x + 1,"])
def test_a_planted_difference_of_an_export_is_found(fault, monkeypatch):
    case = fuzz_export.make(0)
    case.text = f"def f(x):\n    {fault}\n"
    case.calls = [dict(c, grad="none") for c in case.calls]
    space = fuzz_export._space

    def planted(c):
        ns = space(c)
        ns["BROKEN"] = len(made)
        made.append(ns)
        return ns

    made = []
    monkeypatch.setattr(fuzz_export, "_space", planted)
    assert "results" in fuzz.check(case, fuzz_export.difference)[0]


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_programs_that_differed_once(path):
    """The first line of a case is a comment: calls, options, dynamic."""
    text = path.read_text()
    calls, options, dynamic = json.loads(text.partition("\n")[0].removeprefix("# "))
    T.compiler.reset()
    run(fuzz_run.Case(text, calls, options, dynamic))


def test_programs_are_python_and_the_same_for_a_seed():
    texts = [fuzz_run.make(seed).text for seed in range(300)]
    assert texts == [fuzz_run.make(seed).text for seed in range(300)] and len(set(texts)) > 290
    for text in texts + [
        fuzz_run.make(first + k).text for first in (fuzz_wide.FIRST, fuzz_callers.FIRST) for k in range(200)
    ]:
        ast.parse(text)


@pytest.mark.parametrize(
    "fault, kind",
    [
        ("    return x * (1 if BROKEN else 2),\n", "tensors"),
        ("    log.append(BROKEN)\n    return x,\n", "arguments"),
        ("    print(BROKEN)\n    return x,\n", "printed"),
        ("    if BROKEN: raise ValueError\n    return x,\n", "raises"),
        ("    if BROKEN: T.rand(1)\n    return x,\n", "random"),
        ("    return x.view(-1) if BROKEN else x.clone(),\n", "memory"),
        ("    raise ValueError(1 + BROKEN)\n", "message"),
    ],
)
def test_a_planted_difference_is_found_and_made_small(fault, kind, monkeypatch):
    text = f"def f(x, log):\n    y = x + 1\n    log.append(2)\n    if y is x:\n        y = y * 2\n{fault}"
    calls = [fuzz_run.plain_call(seed=k) for k in range(3)]
    case = fuzz_run.Case(text, calls, {"interpret": True})
    space = fuzz_run.space
    monkeypatch.setattr(fuzz_run, "space", lambda c, compiled: {**space(c, compiled)} | _planted(c, compiled, space))
    found = fuzz.check(case)
    assert found is not None and kind in found[0]
    small = fuzz.smallest(case, found[0], 200)
    assert len(small.calls) == 1 and len(small.text.splitlines()) <= 4 and "BROKEN" in small.text


def _planted(case, compiled, space):
    ns = space(case, compiled)
    ns["BROKEN"] = compiled
    return ns


def test_wrong_calls_are_refused_in_compiled_code_too():
    """Every wrong call that the op table lists, with its result unused: the error is there, and eager's."""
    import fuzz_operators as operators

    bad = []
    for text in operators.wrong():
        source = f"def f(log):\n    try:\n        {text}\n    except Exception as e: log.append((type(e), str(e)))\n"
        ns = {"T": T, **operators.constants(text)}
        exec(source, ns)
        want, got = [], []
        ns["f"](want)
        T.compile(ns["f"], options={"interpret": True})(got)
        if want != got or not want:
            bad.append((text, want, got))
    T.compiler.reset()
    assert not bad, "\n".join(map(str, bad))
