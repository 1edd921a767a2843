"""Tensors as a safetensors file: an 8-byte length, a JSON header, the raw data.

The safetensors package reads what is written here (a test does); reading is our own so that every limit is checked
before anything is allocated and so that the error says what is wrong.
"""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np

from .errors import FileError
from .plain_json import dump, load

_CODES = {
    "bool": "BOOL", "uint8": "U8", "int8": "I8", "int16": "I16", "int32": "I32", "int64": "I64",
    "float16": "F16", "float32": "F32", "float64": "F64",
}  # fmt: skip
_NAMES = {code: name for name, code in _CODES.items()}
_MAX_HEADER = 32 << 20


def pack_tensors(arrays: dict[str, np.ndarray]) -> bytes:
    """The file holding these arrays, wide dtypes first (so that all are aligned), then by name."""
    header: dict[str, Any] = {}
    parts: list[bytes] = []
    at = 0
    for name in sorted(arrays, key=lambda n: (-arrays[n].dtype.itemsize, n)):
        array = arrays[name]
        data = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
        header[name] = {
            "dtype": _CODES[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [at, at + len(data)],
        }
        parts.append(data)
        at += len(data)
    text = dump(header)
    text += b" " * (-len(text) % 8)
    return b"".join([struct.pack("<Q", len(text)), text, *parts])


def _refuse(why: str) -> FileError:
    return FileError(f"load: bad weights.safetensors: {why}")


def unpack_tensors(data: memoryview) -> dict[str, np.ndarray]:
    """The arrays (fresh, writable). FileError unless the ranges lie inside, apart, and cover the file exactly."""
    if len(data) < 8:
        raise _refuse("it is shorter than its own header")
    (length,) = struct.unpack("<Q", data[:8])
    if length > _MAX_HEADER or length > len(data) - 8:
        raise _refuse(f"its header claims {length} bytes of {len(data)}")
    header = load(data[8 : 8 + length], "weights.safetensors", 8)
    if not isinstance(header, dict):
        raise _refuse("its header is not an object")
    header.pop("__metadata__", None)
    body = data[8 + length :]
    ranges = sorted((_entry(name, item, len(body)) for name, item in header.items()), key=lambda e: (e[3], e[4]))
    at = 0
    for name, *_, start, stop in ranges:
        if start != at:
            raise _refuse(f"the data of {name!r} overlaps another tensor or leaves a gap")
        at = stop
    if at != len(body):
        raise _refuse(f"its tensors cover {at} of {len(body)} bytes")
    out = {}
    for name, dtype, shape, start, stop in ranges:
        raw = np.frombuffer(body[start:stop], dtype.newbyteorder("<"))
        if dtype.kind == "b" and (raw.view(np.uint8) > 1).any():
            raise _refuse(f"{name!r} holds a bool that is neither 0 nor 1")
        out[name] = raw.reshape(shape).astype(dtype)
    return out


def _entry(name: str, item: Any, total: int) -> tuple[str, np.dtype, tuple, int, int]:
    """(name, dtype, shape, start, stop) of one header entry, checked."""
    label = repr(name[:60])
    if not isinstance(item, dict) or set(item) != {"dtype", "shape", "data_offsets"}:
        raise _refuse(f"{label} needs dtype, shape and data_offsets")
    code, shape, offsets = item["dtype"], item["shape"], item["data_offsets"]
    if not isinstance(code, str) or code not in _NAMES:
        raise _refuse(f"{label} has the unknown dtype {str(code)[:20]!r}")
    if not isinstance(shape, list) or len(shape) > 32 or not all(type(s) is int and 0 <= s < 1 << 48 for s in shape):
        raise _refuse(f"{label} has a bad shape")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(type(o) is int for o in offsets):
        raise _refuse(f"{label} has bad offsets")
    dtype = np.dtype(_NAMES[code])
    start, stop = offsets
    if not 0 <= start <= stop <= total:
        raise _refuse(f"the range {start}..{stop} of {label} lies outside the {total} bytes of data")
    if math.prod(shape) * dtype.itemsize != stop - start:
        raise _refuse(f"{label} of shape {shape} does not fit its {stop - start} bytes")
    return name, dtype, tuple(shape), start, stop
