"""The disk cache: safe folder, atomic and checked entries, bounded size, and never an error."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from backend_gallery import f32, pointwise, x1

import fusegrad
from fusegrad import native
from fusegrad.native import cache, jit

posix = pytest.mark.skipif(os.name != "posix", reason="POSIX permissions")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("FUSEGRAD_CACHE_DIR", str(folder))
    monkeypatch.setattr(cache, "_warned", False)
    monkeypatch.setattr(cache, "_checked", {})
    return folder


def test_round_trip(place: Path) -> None:
    assert cache.get("a") is None
    cache.put("a", b"data" * 1000)
    cache.put("b", b"")
    assert cache.get("a") == b"data" * 1000 and cache.get("b") == b""
    assert stat.S_IMODE(place.stat().st_mode) & 0o077 == 0
    assert not [p for p in place.iterdir() if p.name.startswith("tmp-")]


def test_damaged_entries_are_missing(place: Path) -> None:
    cache.put("a", b"0123456789")
    (path,) = place.iterdir()
    good = path.read_bytes()
    for bad in (good[:-1], good[:20], b"", good[:-1] + b"x", b"x" + good[1:]):
        path.write_bytes(bad)
        assert cache.get("a") is None
        assert not path.exists()
        path.write_bytes(good)
    other = Path(cache._path(str(place), "b"))
    other.write_bytes(good)  # an entry under another key's name
    assert cache.get("b") is None and cache.get("a") == b"0123456789"


@posix
@pytest.mark.parametrize("kind", ["open", "file", "link", "unwritable"])
def test_unsafe_folders_are_refused_with_one_warning(place: Path, kind: str, tmp_path: Path) -> None:
    if kind == "open":
        place.mkdir(mode=0o777)
        place.chmod(0o777)
    elif kind == "file":
        place.write_text("")
    elif kind == "link":
        (tmp_path / "real").mkdir(mode=0o700)
        place.symlink_to(tmp_path / "real")
    elif os.geteuid() == 0:
        pytest.skip("root may write anywhere")
    else:
        place.mkdir(mode=0o500)
    with pytest.warns(cache.CacheWarning, match="not kept on disk") as caught:
        cache.put("a", b"1")
        cache.put("b", b"1")
        assert cache.get("a") is None
    assert len(caught) == 1


def test_kernels_compile_without_a_folder(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place.write_text("")
    monkeypatch.setattr(native, "_loaded", {})
    out = np.empty(3, np.float32)
    with pytest.warns(cache.CacheWarning):
        native.compile_kernel(pointwise("uncached", x1() * 11.0, {"x": f32}))(np.ones(3, np.float32), out)
    assert (out == 11).all()


def test_the_warning_points_at_the_user(place: Path) -> None:
    """At the call of the compiled function, from first compiles and from nested ones, not at a line of ours."""
    place.write_text("")

    def inner(x: fusegrad.Tensor) -> fusegrad.Tensor:
        return x * 3.25 + 0.125

    @fusegrad.compile
    def outer(x: fusegrad.Tensor) -> fusegrad.Tensor:
        print(end="")
        return inner(x)

    with pytest.warns(cache.CacheWarning) as caught:
        outer(fusegrad.ones(3))
    lines = Path(__file__).read_text().split("\n")
    assert caught[0].filename == __file__ and "outer(fusegrad.ones(3))" in lines[caught[0].lineno - 1]


def test_no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FUSEGRAD_CACHE_DIR", raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda p: p)
    monkeypatch.setattr(cache, "_warned", False)
    with pytest.warns(cache.CacheWarning, match="no home"):
        assert cache.get("a") is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.put("a", b"")


def filled(place: Path, count: int) -> Path:
    """``count`` entries, each used later than the one before, and a temporary file left by a crash."""
    for k in range(count):
        cache.put(f"k{k}", bytes(1000))
        os.utime(cache._path(str(place), f"k{k}"), (k, k))
    left_over = place / "tmp-1-2-3"
    left_over.write_bytes(b"")
    os.utime(left_over, (0, 0))
    return left_over


def kept(place: Path, count: int) -> list[int]:
    return [k for k in range(count) if os.path.exists(cache._path(str(place), f"k{k}"))]  # ``get`` would count as use


def test_size_is_bounded(place: Path) -> None:
    """By what the files take on the disk, which for small ones is a block."""
    left_over = filled(place, 10)
    info = os.stat(cache._path(str(place), "k0"))
    each = getattr(info, "st_blocks", 0) * 512 or info.st_size
    cache.prune(limit=10 * each)
    assert not left_over.exists() and kept(place, 10) == list(range(10))
    cache.prune(limit=8 * each)
    assert kept(place, 10) == [4, 5, 6, 7, 8, 9]


def test_number_of_entries_is_bounded(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred thousand small files are within the limit of bytes, and take seconds to look at."""
    filled(place, 20)
    cache.prune(most=20)
    assert len(kept(place, 20)) == 20
    monkeypatch.setattr(cache, "_REMOVED", 3)  # a backlog is removed step by step
    cache.prune(most=12)
    assert kept(place, 20) == list(range(3, 20))
    for _ in range(5):
        cache.prune(most=12)
    assert kept(place, 20) == list(range(9, 20))  # 20, 17, 14, 11 entries: few enough


def test_the_folder_is_looked_at_rarely(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by every process that writes an entry, but by one in a thousand; and after many bytes or entries of one."""
    looked: list[None] = []
    monkeypatch.setattr(cache, "prune", lambda: looked.append(None))
    monkeypatch.setattr(cache, "_written", 0)
    processes = 20_000
    for k in range(processes):
        monkeypatch.setattr(cache, "_written", 0)
        if cache._time_to_prune(0, 1000, cache._path("", f"key {k}")):
            looked.append(None)
    assert 5 <= len(looked) <= 60
    name = "f" * 48
    assert [n for n in range(4096) if cache._time_to_prune(n, 0, name)] == [1023, 2047, 3071, 4095]
    monkeypatch.setattr(cache, "_written", 0)
    large = [cache._time_to_prune(n, cache._SHARE // 4, name) for n in range(8)]
    assert large == [False, False, False, True] * 2
    looked.clear()
    monkeypatch.setattr(cache, "_SHARE", 2000)
    for k in range(4):
        cache.put(f"large {k}", bytes(1000))
    assert looked


def test_many_writers(place: Path) -> None:
    def work() -> None:
        for _ in range(50):
            cache.put("same", b"x" * 5000)
            assert cache.get("same") in (None, b"x" * 5000)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert cache.get("same") == b"x" * 5000


def test_second_process_compiles_nothing(place: Path) -> None:
    """The stored object runs in a fresh process, without LLVM's compiler and without numba."""
    code = """
import sys, numpy as np
from backend_gallery import f32, pointwise, x1
from fusegrad import native
from fusegrad.native import jit
if sys.argv[1] == "warm":
    jit.compile_text = None
out = np.empty(5, np.float32)
native.compile_kernel(pointwise("stored", x1() * 7.0 + 1.0, {"x": f32}))(np.arange(5, dtype=np.float32), out)
assert out.tolist() == [1, 8, 15, 22, 29]
assert "numba" not in sys.modules
"""
    env = {**os.environ, "FUSEGRAD_CACHE_DIR": str(place), "PYTHONPATH": os.path.dirname(os.path.dirname(__file__))}
    for state in ("cold", "warm"):
        subprocess.run([sys.executable, "-c", code, state], env=env, check=True, timeout=120)
        assert len(list(place.iterdir())) == 2  # the kernel and the thread function


def test_unloadable_objects_are_compiled_again(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = pointwise("broken", x1() * 13.0, {"x": f32})
    cache.put(f"kernel {native.kernel_key(kernel)}", b"not an object file")
    monkeypatch.setattr(native, "_loaded", {})
    out = np.empty(2, np.float32)
    native.compile_kernel(kernel)(np.ones(2, np.float32), out)
    assert (out == 13).all()


def test_key_names_what_decides_the_code() -> None:
    one, two = pointwise("a", x1() * 2.0, {"x": f32}), pointwise("a", x1() * 3.0, {"x": f32})
    assert native.kernel_key(one) != native.kernel_key(two)
    assert native.kernel_key(one, "numba") != native.kernel_key(one)
    assert "llvm" in jit.versions() and len(jit.target_name().split()) >= 2
    assert SimpleNamespace  # gallery kernels are keyed by content, not by name
    assert native.kernel_key(pointwise("other name", x1() * 2.0, {"x": f32})) == native.kernel_key(one)
