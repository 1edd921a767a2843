"""The disk cache: `get(key) -> bytes | None` and `put(key, data)` for object code, graphs and schedules.

A folder that only the user can write ($FUSEGRAD_CACHE_DIR, else ~/.cache/fusegrad); each entry is one file: a line of
magic, a SHA-256 over key and data, the data.  Files appear by rename, so that readers never see half of one.  Damaged
entries count as missing and are removed.  A folder that is not the user's own, or can be written by others, is
refused; when there is no usable folder everything still works, only uncached, and one warning says so.
"""

from __future__ import annotations

import contextlib
import hashlib
import heapq
import io
import itertools
import os
import stat
import threading
from time import time_ns  # not ``time``, nor ``open``: programs replace those, and count the calls

MAGIC = b"fusegrad cache 1\n"
LIMIT = 512 * 1024 * 1024  # bytes on disk in total; beyond it the entries unused for longest go
ENTRIES = 1 << 15  # at most so many: looking at each takes about 10 microseconds
_REMOVED = 1 << 13  # at once, so that no process pays for a long backlog
_SHARE = 64 * 1024 * 1024  # bytes that one process writes before it looks whether the folder is full
_DAY = 86400.0

_lock = threading.Lock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: globals().__setitem__("_lock", threading.Lock()))
_checked: dict[str, str] = {}  # configured place -> why it is not used; "" if it is
_warned = False
_number = itertools.count()
_written = 0  # bytes since this process last looked


class CacheWarning(UserWarning):
    """The disk cache cannot be used."""


def _warn(reason: str) -> None:
    global _warned
    with _lock:
        if _warned:
            return
        _warned = True
    from fusegrad.warned import at_once

    at_once(
        f"fusegrad: compiled code is not kept on disk: {reason}; set FUSEGRAD_CACHE_DIR to a folder of your own",
        CacheWarning,
    )


def configured() -> str | None:
    """Where the cache should be; None when there is neither a setting nor a home folder."""
    place = os.environ.get("FUSEGRAD_CACHE_DIR")
    if place:
        return os.path.abspath(place)
    home = os.path.expanduser("~")
    return os.path.join(home, ".cache", "fusegrad") if home not in ("", "~") else None


def folder(quiet: bool = False) -> str | None:
    """The folder in use, made if need be; None (and one warning, unless ``quiet``) when there is no safe one."""
    place = configured()
    if place is not None and place not in _checked:
        _checked[place] = _check(place)
    reason = "no home folder" if place is None else _checked[place]
    if reason and not quiet:
        _warn(reason)
    return None if reason else place


def _check(place: str) -> str:
    """Why this folder is not used; "" if it is."""
    try:
        if not os.path.isdir(place):
            os.makedirs(os.path.dirname(place), exist_ok=True)
            with contextlib.suppress(FileExistsError):
                os.mkdir(place, 0o700)
        info = os.lstat(place)
    except OSError as error:
        return f"{place}: {error.strerror}"
    if not stat.S_ISDIR(info.st_mode):
        return f"{place} is not a folder"
    if hasattr(os, "geteuid") and info.st_uid != os.geteuid():
        return f"{place} belongs to another user"
    if os.name == "posix" and info.st_mode & 0o022:
        return f"{place} can be written by others"
    return ""


def _path(place: str, key: str) -> str:
    return os.path.join(place, hashlib.sha256(key.encode()).hexdigest()[:48])


def _digest(key: str, data: bytes) -> bytes:
    return hashlib.sha256(key.encode() + b"\0" + data).digest()


def get(key: str, quiet: bool = False) -> bytes | None:
    """The data stored under a key, or None."""
    place = folder(quiet)
    if place is None:
        return None
    path = _path(place, key)
    try:
        with io.open(path, "rb") as file:  # noqa: UP020
            content = file.read()
            used = os.fstat(file.fileno()).st_mtime
    except OSError:
        return None
    head = len(MAGIC)
    data = content[head + 32 :]
    if content[:head] != MAGIC or content[head : head + 32] != _digest(key, data):
        with contextlib.suppress(OSError):
            os.unlink(path)
        return None
    if time_ns() / 1e9 - used > _DAY:  # so that what is used stays
        with contextlib.suppress(OSError):
            os.utime(path)
    return data


def put(key: str, data: bytes, quiet: bool = False) -> None:
    """Store data under a key; failure is one warning (none if ``quiet``), never an error."""
    place = folder(quiet)
    if place is None:
        return
    number = next(_number)
    name = os.path.join(place, f"tmp-{os.getpid()}-{threading.get_ident()}-{number}")
    try:
        handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(MAGIC + _digest(key, data) + data)
        os.replace(name, _path(place, key))
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(name)
        if not quiet:
            _warn(f"{place}: {error.strerror}")
        return
    if _time_to_prune(number, len(data), _path("", key)):
        prune()


def _time_to_prune(number: int, size: int, name: str) -> bool:
    """Whether to look at the whole folder: that takes a third of a second when it is full.

    After each ``_SHARE`` bytes and each 1,024 entries of this process, and by chance for one entry in 1,024 (processes
    that write little each may be many); not for the first entry of every process.
    """
    global _written
    _written += size
    if _written < _SHARE and number % 1024 != 1023 and not (name.startswith("00") and name[2] in "048c"):
        return False
    _written = 0
    return True


def prune(limit: int | None = None, most: int | None = None) -> None:
    """Remove the entries unused for longest until three quarters of the limits (bytes, entries) remain, and temporary
    files left by crashes. At most ``_REMOVED`` at once: a folder that is far too full gets small step by step."""
    place = folder()
    if place is None:
        return
    limit = LIMIT if limit is None else limit
    most = ENTRIES if most is None else most
    entries, total, now = [], 0, time_ns() / 1e9
    with contextlib.suppress(OSError), os.scandir(place) as listing:
        for item in listing:
            with contextlib.suppress(OSError):
                info = item.stat(follow_symlinks=False)
                if item.name.startswith("tmp-") and now - info.st_mtime > 3600:
                    os.unlink(item.path)
                elif len(item.name) == 48:
                    size = getattr(info, "st_blocks", 0) * 512 or info.st_size
                    entries.append((info.st_mtime, size, item.path))
                    total += size
    count = len(entries)
    if total <= limit and count <= most:
        return
    for _, size, path in heapq.nsmallest(_REMOVED, entries):
        if total <= limit * 3 // 4 and count <= most * 3 // 4:
            break
        with contextlib.suppress(OSError):
            os.unlink(path)
        total, count = total - size, count - 1
