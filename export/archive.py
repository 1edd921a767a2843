"""The container of a saved program: a zip whose members are stored, sorted and dated 1980, so that the same program
gives the same bytes; and a reader that believes nothing the file says before it has checked it.

Layout: ``format.json`` (version, size and SHA-256 of the other members), ``graph.json``, ``weights.safetensors``. The
zip comment holds a SHA-256 of everything before it: any flipped bit is noticed. A file that was packed again by
another tool has no such comment; its members are still checked by `format.json`.
"""

from __future__ import annotations

import hashlib
import io
import os
import secrets
import struct
import zlib
from pathlib import Path
from typing import IO, Any

from .errors import FileError

MEMBERS = ("format.json", "graph.json", "weights.safetensors")
LIMITS = {"format.json": 1 << 20, "graph.json": 64 << 20}  # bytes; weights are bounded by the file itself
_LOCAL, _CENTRAL, _END = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"
_DATE = (0, 33)  # 1980-01-01 00:00, the earliest a zip can say
_SEAL = b"fusegrad sha256 "
_MAX = (1 << 32) - 1


# ---- writing ----
def pack(members: dict[str, bytes]) -> bytes:
    """The zip file holding these members, sorted by name."""
    body = bytearray()
    central = bytearray()
    for name, data in sorted(members.items()):
        at = len(body)
        if at + len(data) > _MAX - (1 << 20):
            raise FileError("save: programs larger than 4 GB are not supported by this format")
        n = name.encode()
        fields = (*_DATE, zlib.crc32(data), len(data), len(data), len(n), 0)
        body += _LOCAL + struct.pack("<HHHHHIIIHH", 20, 0, 0, *fields) + n + data
        central += _CENTRAL + struct.pack("<HHHHHHIIIHHHHHII", 20, 20, 0, 0, *fields, 0, 0, 0, 0, at) + n
    end = _END + struct.pack("<HHHHIIH", 0, 0, len(members), len(members), len(central), len(body), len(_SEAL) + 64)
    out = bytes(body) + bytes(central) + end
    return out + _SEAL + hashlib.sha256(out).hexdigest().encode()


def write(target: Any, data: bytes) -> None:
    """Write to a path (atomically: a temporary file beside it, then a rename) or to a binary file object."""
    if hasattr(target, "write"):
        if isinstance(target, io.TextIOBase):
            raise FileError("save: the file object must be opened in binary mode")
        target.write(data)
        return
    path = Path(os.path.realpath(_named(target, "save")))  # a link stays one
    if path.is_dir():
        raise IsADirectoryError(f"save: {path} is a directory")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"save: there is no folder {path.parent}")
    if path.exists() and not path.is_file():
        raise FileError(f"save: {path} is not a regular file")
    temporary = path.parent / f".{path.name[:100]}.{secrets.token_hex(8)}.tmp"
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        with os.fdopen(handle, "wb") as f:
            f.write(data)
            f.flush()
            os.fsync(f.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _named(target: Any, what: str) -> str:
    """A path as text. TypeError for anything else; FileNotFoundError for the empty one, which would be the folder."""
    if not isinstance(target, (str, bytes, os.PathLike)):
        hint = "; a program is called by program.module()(...)" if what == "load" and hasattr(target, "module") else ""
        raise TypeError(f"{what}: expected a path or a binary file object, got {type(target).__name__}{hint}")
    path = os.fsdecode(target)
    if not path:
        raise FileNotFoundError(f"{what}: the path is empty")
    return path


# ---- reading ----
def read(source: Any) -> bytes:
    """The bytes of a path or a binary file object. FileNotFoundError, IsADirectoryError or FileError."""
    if hasattr(source, "read"):
        stream: IO[bytes] = source
        data = stream.read()
        if not isinstance(data, bytes):
            raise FileError("load: the file object must be opened in binary mode")
        return data
    path = Path(_named(source, "load"))
    if path.is_dir():
        raise IsADirectoryError(f"load: {path} is a directory, not an exported program")
    if not path.exists():
        raise FileNotFoundError(f"load: there is no file {path}")
    if not path.is_file():
        raise FileError(f"load: {path} is not a regular file")
    return path.read_bytes()


def _refuse(why: str) -> FileError:
    return FileError(f"load: this is not a valid exported program: {why}")


def unpack(data: bytes) -> dict[str, memoryview]:
    """The members, each a view of `data`. FileError unless the file is exactly a stored zip of the expected members."""
    end = _find_end(data)
    disk, start_disk, here, total, size, offset, _ = struct.unpack("<HHHHIIH", data[end + 4 : end + 22])
    if disk or start_disk or here != total:
        raise _refuse("it is a zip in several parts")
    if total != len(MEMBERS):
        raise _refuse(f"it has {total} members instead of {len(MEMBERS)}")
    if offset + size != end:
        raise _refuse("its zip directory does not end where it should")
    _check_seal(data, end)
    entries = _directory(data, offset, end, total)
    if sorted(e[0] for e in entries) != sorted(MEMBERS):
        raise _refuse(f"its members are {', '.join(repr(e[0][:40]) for e in entries)}, not {', '.join(MEMBERS)}")
    out: dict[str, memoryview] = {}
    at = 0
    for name, crc, length, where in sorted(entries, key=lambda e: e[3]):
        if where != at:
            raise _refuse("its members overlap or leave gaps")
        view, at = _member(data, name, crc, length, where, offset)
        out[name] = view
    if at != offset:
        raise _refuse("there are bytes between its members and its directory")
    return out


def _find_end(data: bytes) -> int:
    """Where the end record starts; its comment must reach exactly to the end of the file."""
    if len(data) < 22 or data[:4] != _LOCAL:
        raise _refuse("it does not start like a zip file" if data else "it is empty")
    for comment in (len(_SEAL) + 64, 0):
        at = len(data) - 22 - comment
        if at >= 0 and data[at : at + 4] == _END and struct.unpack("<H", data[at + 20 : at + 22])[0] == comment:
            return at
    raise _refuse("it does not end like one (was it cut off?)")


def _check_seal(data: bytes, end: int) -> None:
    comment = data[end + 22 :]
    if comment and comment != _SEAL + hashlib.sha256(memoryview(data)[: end + 22]).hexdigest().encode():
        raise _refuse("its checksum does not match: it was altered or damaged")


def _directory(data: bytes, offset: int, end: int, total: int) -> list[tuple[str, int, int, int]]:
    """(name, crc, length, offset) of each member."""
    entries = []
    at = offset
    for _ in range(total):
        if at + 46 > end or data[at : at + 4] != _CENTRAL:
            raise _refuse("its zip directory is damaged")
        fields = struct.unpack("<HHHHHHIIIHHHHHII", data[at + 4 : at + 46])
        flags, method, crc, packed, length, n, extra, comment, where = (*fields[2:4], *fields[6:12], fields[15])
        if flags & ~0x800 or method:
            raise _refuse("a member is compressed or encrypted; members must be stored")
        if packed != length or comment:
            raise _refuse("its zip directory contradicts itself")
        name = data[at + 46 : at + 46 + n]
        at += 46 + n + extra
        if at > end:
            raise _refuse("its zip directory is damaged")
        entries.append((name.decode("ascii", "replace"), crc, length, where))
    if at != end:
        raise _refuse("its zip directory is damaged")
    return entries


def _member(data: bytes, name: str, crc: int, length: int, where: int, stop: int) -> tuple[memoryview, int]:
    """The data of one member, and where the next one must start."""
    if where + 30 > stop or data[where : where + 4] != _LOCAL:
        raise _refuse(f"member {name} does not start where the directory says")
    fields = struct.unpack("<HHHHHIIIHH", data[where + 4 : where + 30])
    flags, method, crc2, packed, length2, n, extra = (*fields[1:3], *fields[5:10])
    start = where + 30 + n + extra
    if flags & ~0x800 or method or (crc2, packed, length2) != (crc, length, length):
        raise _refuse(f"member {name} contradicts the directory")
    if data[where + 30 : where + 30 + n] != name.encode() or start + length > stop:
        raise _refuse(f"member {name} contradicts the directory")
    if length > LIMITS.get(name, _MAX):
        raise _refuse(f"member {name} has {length} bytes, more than the limit of {LIMITS[name]}")
    view = memoryview(data)[start : start + length]
    if zlib.crc32(view) != crc:
        raise _refuse(f"member {name} is damaged (its CRC does not match)")
    return view, start + length
