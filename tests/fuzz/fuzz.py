"""The long run of the fuzzer.

python tests/fuzz/fuzz.py --start 0 --count 100000          # summary at the end; --log FILE keeps differences
python tests/fuzz/fuzz.py --start 0 --count 100000 --batch 500  # in forked processes of 500: a crash costs one program
python tests/fuzz/fuzz.py --start 1234 --count 1 -v         # one seed: its program and the difference
python tests/fuzz/fuzz.py --start 1234 --count 1 --reduce   # and the smallest program with the same difference
python tests/fuzz/fuzz.py --start 3000000 --count 100 --disk  # kernels, shared by processes through the disk cache
python tests/fuzz/fuzz.py --start 3000000 --count 100 --export  # exported, saved, loaded
"""

from __future__ import annotations

import argparse
import collections
import gc
import json
import os
import resource
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import fuzz_batches
import fuzz_disk
import fuzz_export
import fuzz_operators as operators
import fuzz_run
import numpy as np
from fuzz_reduce import reduced

import fusegrad as T

Difference = Callable[[fuzz_run.Case], tuple[str, str] | None]
MEMORY = 4 << 30  # a size of billions is an error of both sides, and no tensor of so many elements
SECONDS = 30  # a program that takes more processor time counts as a difference


class _Slow(BaseException):
    """A program that does not end."""


def _alarm(*_: Any) -> None:
    raise _Slow


def check(case: fuzz_run.Case, difference: Difference = fuzz_run.difference) -> tuple[str, str] | None:
    """(kind, description) of a difference; a failing harness or an endless program are differences as well."""
    signal.signal(signal.SIGPROF, _alarm)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        with np.errstate(all="ignore"):
            return difference(case)
    except _Slow:
        return "slow", "takes too long"
    except Exception as e:
        return f"harness {type(e).__name__}", traceback.format_exc(limit=-3)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def smallest(
    case: fuzz_run.Case, kind: str, budget: int = 600, difference: Difference = fuzz_run.difference
) -> fuzz_run.Case:
    """The smallest program with the same kind of difference."""

    def same(c: fuzz_run.Case) -> bool:
        T.compiler.reset()
        found = check(c, difference)
        return found is not None and found[0] == kind

    return reduced(case, same, budget)


def keep(case: fuzz_run.Case, name: str) -> None:
    """Store a case among those that the tests run."""
    head = json.dumps([case.calls, case.options, case.dynamic])
    text = f"# {head}\n{operators.definitions(case.text)}{case.text}"
    (Path(__file__).parent / "cases" / f"{name}.txt").write_text(text)


class Totals:
    """What the runs did, summed over resets."""

    def __init__(self) -> None:
        self.kinds: collections.Counter[str] = collections.Counter()
        self.counts: collections.Counter[str] = collections.Counter()
        self.faults: collections.Counter[str] = collections.Counter()
        self.seeds: list[int] = []

    def add(self, other: dict[str, Any]) -> None:
        """Add what another process counted (the attributes of its `Totals`)."""
        for name in ("kinds", "counts", "faults"):
            getattr(self, name).update(other[name])
        self.seeds += other["seeds"]

    def collect(self) -> None:
        """Add the compiler's counters and reset it."""
        now = T.compiler.stats()
        for k in ("compiles", "recompiles", "graph_breaks", "plain_frames", "graphs"):
            self.counts[k] += now[k]
        for text in now["break_reasons"]:
            if "FG014" in text:
                self.faults[text.partition("FG014")[2][:160]] += 1
        T.compiler.reset()
        gc.collect()


def seeds(
    numbers: Sequence[int],
    log: str | None = None,
    verbose: bool = False,
    reduce: bool = False,
    name: str | None = None,
    export: bool = False,
    at: Callable[[int], None] | None = None,
) -> Totals:
    """Run the programs of these seeds, compiled or exported; ``at`` is told each number before it runs."""
    start, count = numbers[0], len(numbers)
    totals = Totals()
    operators.prepare()
    gc.collect()
    gc.freeze()
    gc.disable()  # a tenth of the time; `Totals.collect` collects
    began = time.process_time()
    for k, seed in enumerate(numbers, 1):
        if at is not None:
            at(k)
        case = fuzz_export.make(seed) if export else fuzz_run.make(seed)
        difference = fuzz_export.difference if export else fuzz_run.difference
        if verbose:
            print(case.text, case.options, case.dynamic)
        found = check(case, difference)
        if found is not None:
            totals.seeds.append(seed)
            totals.kinds[found[0]] += 1
            text = f"seed {seed}: {found[0]}\n{found[1]}"
            if reduce:
                case = smallest(case, found[0], difference=difference)
                again = check(case, difference)
                if name:
                    keep(case, f"{name}-{seed}")
                text = (
                    f"seed {seed}: {found[0]}\n{case.text}{case.options} {case.dynamic}\n"
                    + "\n".join(map(repr, case.calls))
                    + f"\n{again[1] if again else '?'}"
                )
            if log is not None:
                with open(log, "a") as f:
                    f.write(text + "\n\n")
            else:
                print(text, flush=True)
        if k % 25 == 0 or k == count:
            totals.collect()
            totals.counts["exported"], fuzz_export.DONE[:] = totals.counts["exported"] + len(fuzz_export.DONE), []
        if at is None and log is not None and (k % 200 == 0 or k == count):
            now = {"start": start, "ran": k, "seconds": round(time.process_time() - began), **vars(totals)}
            Path(log + ".json").write_text(json.dumps(now))
    return totals


def in_batches(numbers: Sequence[int], size: int, log: str | None = None, export: bool = False) -> Totals:
    """Run the programs of these seeds in forked processes of ``size`` programs each, one after the other.

    What they need at the start is made once, memory is given back, a crash of the interpreter costs one seed.
    """
    totals = Totals()
    operators.prepare()
    began = time.time()

    def run(part: Sequence[int], at: Callable[[int], None]) -> dict[str, Any]:
        return vars(seeds(part, log, export=export, at=at))

    ran = 0
    for part, found in fuzz_batches.batches(list(numbers), size, run):
        ran += len(part)
        if isinstance(found, str):
            found = {"kinds": {"crash": 1}, "counts": {}, "faults": {}, "seeds": part[-1:]}
            print(f"seed {part[-1]}: crash", flush=True)
        totals.add(found)
        if log is not None:
            spent = round(sum(os.times()[:4]), 1)
            now = {
                "start": numbers[0],
                "ran": ran,
                "seconds": spent,
                "wall": round(time.time() - began),
                **vars(totals),
            }
            Path(log + ".json").write_text(json.dumps(now))
    return totals


def on_disk(numbers: Sequence[int], log: str | None = None, reduce: bool = False, at_once: int = 20) -> Totals:
    """Run the programs of these seeds in processes that share the disk cache."""
    totals = Totals()
    for k in range(0, len(numbers), at_once):
        part = numbers[k : k + at_once]
        cases = [fuzz_run.make(seed) for seed in part]
        for n, name, kind, text in fuzz_disk.differences(cases, check):
            totals.seeds.append(part[n])
            totals.kinds[f"{kind} ({name})"] += 1
            text = f"seed {part[n]}, {name}: {kind}\n{text}"
            if reduce:
                small = smallest_on_disk(cases[n], name, kind)
                text += f"\n{small.text}{small.options} {small.dynamic}\n" + "\n".join(map(repr, small.calls))
            if log is not None:
                with open(log, "a") as f:
                    f.write(text + "\n\n")
            else:
                print(text, flush=True)
        if log is not None:
            Path(log + ".json").write_text(json.dumps({"start": numbers[0], "ran": k + len(part), **vars(totals)}))
    return totals


def smallest_on_disk(case: fuzz_run.Case, name: str, kind: str, budget: int = 200) -> fuzz_run.Case:
    """The smallest program with the same kind of difference in the same round."""

    def same(c: fuzz_run.Case) -> bool:
        return any(found[1:3] == (name, kind) for found in fuzz_disk.differences([c], check))

    return reduced(case, same, budget)


def main() -> None:
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--start", type=int, default=0)
    ap.add_argument("--count", type=int, default=1000)
    ap.add_argument("--seeds", type=int, nargs="+", help="these seeds instead")
    ap.add_argument("--batch", type=int, default=0, help="programs in a process, with processes one after the other")
    ap.add_argument("--log", help="file for differences; FILE.json gets the counts as they grow")
    ap.add_argument("--keep", metavar="NAME", help="store the smallest program in cases/NAME-SEED.txt")
    ap.add_argument("--reduce", action="store_true", help="print the smallest program with the same difference")
    ap.add_argument("--disk", action="store_true", help="real kernels, in processes that share the disk cache")
    ap.add_argument("--export", action="store_true", help="exported, saved and loaded programs")
    ap.add_argument("-v", action="store_true", help="print the programs")
    a = ap.parse_args()
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    began = time.process_time()
    numbers = a.seeds or range(a.start, a.start + a.count)
    if a.disk:
        totals = on_disk(numbers, a.log, a.reduce)
    elif a.batch:
        totals = in_batches(numbers, a.batch, a.log, a.export)
    else:
        totals = seeds(numbers, a.log, a.v, a.reduce or a.keep is not None, a.keep, a.export)
    spent = sum(os.times()[:4]) if a.disk or a.batch else time.process_time() - began
    print(f"{len(numbers)} programs from seed {numbers[0]}, {len(totals.seeds)} differ: {totals.seeds}")
    if a.export:
        print(f"{totals.counts['exported']} of them were exported")
    print(f"kinds {dict(totals.kinds)}; {dict(totals.counts)}")
    print(f"{spent / len(numbers) * 1e3:.1f} ms of processor time a program")
    for text, n in totals.faults.most_common(20):
        print(f"FG014 x{n}: {text}")
    sys.exit(bool(totals.seeds))


if __name__ == "__main__":
    main()
