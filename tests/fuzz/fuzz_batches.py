"""Long runs in forked processes, one after the other: a batch of programs each, and a crash costs its own program."""

from __future__ import annotations

import gc
import json
import mmap
import os
import struct
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any


def batches(
    numbers: Sequence[int], size: int, run: Callable[[Sequence[int], Callable[[int], None]], Any]
) -> Iterator[tuple[Sequence[int], Any]]:
    """(the numbers that ran, what ``run(part, at)`` returned, of JSON's kinds) for parts of ``size`` numbers.

    ``run`` calls ``at(k)`` before its k-th number (from 1). Where a process dies, the numbers up to the one it was at
    are given with a str that says how, and the rest of its part runs in the next process.
    """
    gc.collect()
    gc.freeze()  # what exists by now is shared by all of them
    left = list(numbers)
    place = mmap.mmap(-1, 8)
    try:
        while left:
            part = left[:size]
            place[:8] = struct.pack("q", 0)
            found = forked(lambda part=part: run(part, lambda k: place.__setitem__(slice(0, 8), struct.pack("q", k))))
            done = max(struct.unpack("q", place[:8])[0], 1) if isinstance(found, str) else len(part)
            yield part[:done], found
            left = left[done:]
    finally:
        gc.unfreeze()


def forked(work: Callable[[], Any]) -> Any:
    """The value of ``work`` (of JSON's kinds) in a forked process; a str that says how it failed if it did."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(read)
            try:
                answer = work()
            except BaseException:
                answer = traceback.format_exc(limit=-3)
            with os.fdopen(write, "w") as out:
                json.dump(answer, out)
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    return json.loads(text) if text else f"the process died (status {status})"
