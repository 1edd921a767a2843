"""Eager code beside compiled code without its effects: in a child process.

``fork`` gives the child all the state of this process as it is, so the plain function runs there on the very same
objects: what it appends, counts, writes into parameters or draws stays in the child. Before that the child turns every
open file into /dev/null (files open for reading are opened again, so that no position moves), and a hook refuses what
would reach further: opening files for writing, deleting, renaming, sockets, processes. If that happens, or the child
does not answer, the call counts as not compared.

A second child waits with the same state, for when a difference was found. It can start the function again: a function
that differs from itself (a clock, an address) is not compared either. And it can start it with a rounding's noise in
all tensors, to see how far rounding alone takes the results.
"""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import select
import signal
import stat
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from typing import Any, NoReturn

from fusegrad.native import cache

__all__ = ["Beside", "possible"]

PATIENCE = 120.0  # seconds to wait for the child, beyond 20 times what the compiled call took

_REFUSED = (
    "os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate", "os.chmod", "os.chown",
    "os.kill", "os.fork", "os.forkpty", "os.exec", "os.posix_spawn", "os.spawn", "os.system",
    "subprocess.Popen", "socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg", "shutil.rmtree",
    "shutil.copyfile", "shutil.move", "sqlite3.connect", "webbrowser.open",
)  # fmt: skip


class Outside(BaseException):
    """The function tried to reach out of the process."""


def possible() -> bool:
    """Whether this system can run eager code beside compiled code."""
    return hasattr(os, "fork") and sys.platform != "win32"


class Beside:
    """Eager runs in children. ``run(k)`` gives what is to be compared, as data that can be pickled; k is 0 at first."""

    def __init__(self, run: Callable[[int], Any]) -> None:
        self.started = time.perf_counter_ns() / 1e9
        cache.folder(quiet=True)  # made here if need be, and not by the child
        self._results, write = os.pipe()
        read, self._commands = os.pipe()
        pid = _fork()
        if pid == 0:
            _child(run, read, write, (self._results, self._commands))
        self.pid = pid
        os.close(read)
        os.close(write)
        self._exactly(1, self.started + PATIENCE)  # from here on this process may move positions in files

    def result(self, again: int | None = None) -> tuple[str, Any]:
        """("done", data), or ("not compared", reason). ``again``: of a new ``run(again)`` from the same state."""
        if again is not None:
            try:
                os.write(self._commands, bytes((again,)))
            except OSError:
                return "not compared", "the eager run could not be repeated"
        spent = time.perf_counter_ns() / 1e9 - self.started
        data = self._read(time.perf_counter_ns() / 1e9 + PATIENCE + 20 * spent)
        if data is None:
            return "not compared", "the process that ran eager code gave no answer"
        return pickle.loads(data)  # our own child's

    def _read(self, until: float) -> bytes | None:
        head = self._exactly(8, until)
        return None if head is None else self._exactly(int.from_bytes(head, "little"), until)

    def _exactly(self, count: int, until: float) -> bytes | None:
        parts = []
        while count:
            ready = select.select([self._results], [], [], max(0.0, until - time.perf_counter_ns() / 1e9))[0]
            piece = os.read(self._results, min(count, 1 << 20)) if ready else b""
            if not piece:
                return None
            parts.append(piece)
            count -= len(piece)
        return b"".join(parts)

    def close(self) -> None:
        """End the child."""
        os.close(self._commands)
        os.close(self._results)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)  # it waits; what it started has answered or is stuck
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)


def _fork() -> int:
    with warnings.catch_warnings():  # Python 3.12 on warns when there are threads: BLAS has some, all of them idle
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _child(run: Callable[[int], Any], read: int, write: int, unused: tuple[int, ...]) -> NoReturn:
    """The waiting child: its own children run, one at once, others when it is told to."""
    try:
        gc.disable()
        sys.settrace(None)
        sys.setprofile(None)
        for fd in unused:
            os.close(fd)
        _shut_in((read, write))
        os.write(write, b".")
        command = b"\0"
        while command:
            runner = _fork()
            if runner == 0:
                os.close(read)
                _answer(run, command[0], write)
            os.waitpid(runner, 0)
            command = os.read(read, 1)
    except BaseException:
        pass
    finally:
        os._exit(0)


def _answer(run: Callable[[int], Any], k: int, write: int) -> NoReturn:
    try:
        try:
            _shut_in((write,))
            refused = _refuse()
            data = run(k)
            message = ("not compared", f"it reaches out of the process ({refused[0]})") if refused else ("done", data)
            text = pickle.dumps(message, 5)
        except Outside as error:
            text = pickle.dumps(("not compared", f"it reaches out of the process ({error})"), 5)
        except BaseException as error:
            where = traceback.format_exc(limit=-2)
            text = pickle.dumps(("not compared", f"the eager run failed: {error!r} {where}"), 5)
        view = memoryview(len(text).to_bytes(8, "little") + text)
        while view:
            view = view[os.write(write, view) :]
    except BaseException:
        pass
    finally:
        os._exit(0)


def _shut_in(keep: tuple[int, ...]) -> None:
    """Cut this process off from the files that are open."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in _open_files():
        if fd not in (*keep, null):
            _replace(fd, null)


def _refuse() -> list[str]:
    """Refuse what reaches out of the process from now on. The list that is returned gets what was refused."""
    sys.dont_write_bytecode = True
    sys.breakpointhook = lambda *args, **kwargs: None
    refused: list[str] = []
    kept = cache.folder(quiet=True)

    def hook(event: str, args: tuple) -> None:
        if event in _REFUSED or (event == "open" and _writes(args)):
            if kept is not None and _inside(kept, args):
                return  # fusegrad keeps the machine code of an operator: for any process, and seen by none
            refused.append(event)
            raise Outside(event)

    sys.addaudithook(hook)
    return refused


def _inside(folder: str, args: tuple) -> bool:
    paths = [a for a in args[:2] if isinstance(a, str) and os.sep in a]
    return bool(paths) and all(p == folder or p.startswith(folder + os.sep) for p in paths)


def _writes(args: tuple) -> bool:
    path, mode, flags = (*args, None, None, None)[:3]
    if path == os.devnull or isinstance(path, int):
        return False
    if isinstance(mode, str):
        return any(c in mode for c in "wax+")
    return bool((flags or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND))


def _open_files() -> list[int]:
    for folder in ("/proc/self/fd", "/dev/fd"):
        with contextlib.suppress(OSError):
            return sorted(int(n) for n in os.listdir(folder))
    return list(range(256))


def _replace(fd: int, null: int) -> None:
    try:
        import fcntl

        mode = os.fstat(fd).st_mode
        if stat.S_ISREG(mode) and fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            with contextlib.suppress(OSError):
                own = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY)
                os.lseek(own, os.lseek(fd, 0, os.SEEK_CUR), os.SEEK_SET)
                os.dup2(own, fd)
                os.close(own)
                return
        os.dup2(null, fd)
    except OSError:
        pass  # closed by now: the listing itself had it open
