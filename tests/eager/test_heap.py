"""The heap keeps the memory of dropped arrays: fewer page faults, unless the user has set malloc up."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

import pytest

try:
    ctypes.CDLL(None).gnu_get_libc_version  # noqa: B018
    GLIBC = True
except (AttributeError, OSError, TypeError):
    GLIBC = False
needs_glibc = pytest.mark.skipif(not GLIBC, reason="only glibc is asked to keep memory")

FAULTS = """
import resource
import numpy as np
import fusegrad

def work():
    kept = [np.empty(1 << 20, np.float32) for _ in range(6)]
    for a in kept:
        a.fill(1.0)

work()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    work()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


LARGE = """
import resource
import fusegrad

x = fusegrad.ones(9 << 20)
work = fusegrad.compile(lambda x: x + 1.0)
work(x)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(3):
    work(x)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def _faults(code: str = FAULTS, **settings: str) -> int:
    # huge pages would hide the number of faults
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("MALLOC_", "GLIBC_"))}
    env = {**clean, "NUMPY_MADVISE_HUGEPAGE": "0", **settings}
    return int(subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=True).stdout)


@needs_glibc
def test_arrays_use_the_pages_of_dropped_arrays():
    assert _faults() < 1024  # 60 arrays of 1,024 pages


@needs_glibc
def test_large_results_of_compiled_code_do_so_too():
    assert _faults(LARGE) < 9216  # 3 arrays of 9,216 pages, too large for the heap by itself


@needs_glibc
def test_settings_of_the_user_stay():
    assert _faults(MALLOC_TRIM_THRESHOLD_="131072") > 30 * 1024


@pytest.mark.parametrize("name", ["MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_MAX_", "GLIBC_TUNABLES"])
def test_nothing_is_done_beside_settings(monkeypatch, name):
    from fusegrad.heap import keep_freed_memory

    monkeypatch.setenv(name, "glibc.malloc.trim_threshold=1000000" if name == "GLIBC_TUNABLES" else "1000000")
    assert keep_freed_memory() is False


def test_another_c_library_is_left_alone(monkeypatch):
    from fusegrad import heap

    class Other:
        """A library without glibc's own functions."""

        def mallopt(self, *settings: int) -> int:
            raise AssertionError("asked")

    for name in list(os.environ):
        if name.startswith(("MALLOC_", "GLIBC_")):
            monkeypatch.delenv(name)
    monkeypatch.setattr(heap.ctypes, "CDLL", lambda name: Other())
    assert heap.keep_freed_memory() is False
