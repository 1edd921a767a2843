"""Regions and programs in the disk cache: what lets a fresh process skip passes, partition, lowering and fusion.

Entries are JSON (no pickle, no code objects): ``get(key, read)`` and ``put(key, make)``. An entry that cannot be read
counts as missing; one that cannot be written down is not kept. Keys hold all that an entry depends on; what is the same
for a whole process (sources, versions, processor) is in ``environment()``.
"""

from __future__ import annotations

import functools
import hashlib
import io
import os
import sys
from collections.abc import Callable
from time import time_ns
from typing import Any

from fusegrad.native.meter import phase

__all__ = ["digest", "environment", "get", "put"]

_STARTED = time_ns() / 1e9


def _sources() -> list[os.DirEntry[str]]:
    """Every source file of the engine and the compiler: any of them may decide what a graph is compiled to."""
    found: list[os.DirEntry[str]] = []
    todo = [os.path.dirname(os.path.abspath(file)) for file in (sys.modules["fusegrad"].__file__ or "", __file__)]
    while todo:
        try:
            listing = list(os.scandir(todo.pop()))
        except OSError:
            continue  # a folder that can't be read: nothing is imported from it
        else:
            for entry in listing:
                if entry.name.endswith(".py"):
                    found.append(entry)
                elif entry.is_dir() and entry.name != "__pycache__":
                    todo.append(entry.path)
    return sorted(found, key=lambda entry: entry.path)


def _sources_hash() -> str:
    """Hash of the contents of the sources; "" if one of them is newer than this process, which may run an older one.

    Reading them takes longer than asking for their times: the hash for these times is in the cache as well.
    Of a file that can't be read its times count; a link that leads nowhere does not count.
    """
    from fusegrad.native import cache

    marks = hashlib.sha256()
    entries = {}
    for entry in _sources():
        try:
            info = entry.stat()
        except OSError:
            continue
        if info.st_mtime >= _STARTED:
            return ""
        entries[entry.path] = mark = f"{entry.path} {info.st_size} {info.st_mtime_ns} {info.st_ctime_ns}\n".encode()
        marks.update(mark)
    key = f"sources {marks.hexdigest()}"
    known = cache.get(key)
    if known is not None:
        return known.decode()
    total = hashlib.sha256()
    for path, mark in entries.items():
        try:
            with io.open(path, "rb") as file:  # noqa: UP020
                total.update(file.read() + b"\0")
        except OSError:
            total.update(mark)
    cache.put(key, total.hexdigest().encode())
    return total.hexdigest()


@functools.lru_cache(maxsize=1)
def environment() -> str:
    """Sources, versions and processor, as text; "" if nothing should be kept (sources not at hand, or changing)."""
    import numpy

    import fusegrad
    from fusegrad.native import jit

    try:
        sources = _sources_hash()
    except OSError:
        return ""
    with phase("kernels"):  # LLVM is loaded here, and was needed anyway
        machine = f"{jit.versions()} {jit.target_name()}"
    python = ".".join(map(str, sys.version_info[:2]))
    return f"{sources} {fusegrad.__version__} {python} {numpy.__version__} {machine}" if sources else ""


def digest(*facts: Any) -> str:
    """A key for these facts (texts, numbers, tuples) in this environment; "" if nothing should be kept."""
    here = environment()
    return hashlib.sha256("\n".join([here, *map(str, facts)]).encode()).hexdigest() if here else ""


def get(key: str, read: Callable[[Any], Any]) -> Any:
    """``read(entry)``, or None if there is no such entry or it cannot be read."""
    import json

    from fusegrad.native import cache

    data = cache.get(key)
    if data is None:
        return None
    try:
        return read(json.loads(data))
    except Exception:  # written by other code under the same key, or damaged unseen: made again
        return None


def put(key: str, make: Callable[[], Any]) -> None:
    """Keep what ``make`` gives; nothing if it cannot be written down."""
    import json

    from fusegrad.native import cache

    try:
        data = json.dumps(make(), separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError):
        return
    cache.put(key, data.encode())
