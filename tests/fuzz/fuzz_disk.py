"""Random programs with stored kernels: the same programs in several processes that share one folder of the disk cache.

Each slice of seeds runs in a new folder by three processes, one after the other: as made (writes the entries), the same
again (reads them: what a stored entry does not say, the second process does not know), and with the calls in reverse
(other first sizes, so other entries are found). All compile real kernels. Processes are forked: nothing compiled passes
from one to the next but what is on disk.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import fuzz_batches
import fuzz_run

ROUNDS = ("first", "stored", "reverse")
Found = tuple[str, str] | None


def case_for(case: fuzz_run.Case, round_: str) -> fuzz_run.Case:
    """The case with kernels, and with its calls in the order of a round."""
    options = {k: v for k, v in case.options.items() if k == "fuse"}
    calls = case.calls[::-1] if round_ == "reverse" else case.calls
    return dataclasses.replace(case, options=options, calls=calls)


def in_child(folder: str, work: Callable[[], Any]) -> Any:
    """The value of ``work`` (of JSON's kinds) in a forked process that keeps its kernels in ``folder``; a str that says
    how it died if it did."""

    def inside() -> Any:
        os.environ["FUSEGRAD_CACHE_DIR"] = folder
        return work()

    return fuzz_batches.forked(inside)


def differences(
    cases: Sequence[fuzz_run.Case], check: Callable[[fuzz_run.Case], Found]
) -> list[tuple[int, str, str, str]]:
    """(number of the case, round, kind, description) of all that differed."""
    folder = tempfile.mkdtemp(prefix="fuzz-")
    found = []
    try:
        for name in ROUNDS:
            answers = in_child(folder, lambda name=name: [check(case_for(c, name)) for c in cases])
            if isinstance(answers, str):
                found.append((0, name, "crash", answers))
                continue
            found += [(k, name, *a) for k, a in enumerate(answers) if a is not None]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return found
