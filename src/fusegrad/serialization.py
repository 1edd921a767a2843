"""save and load: containers of tensors and plain values in a file that runs no code when it is opened.

The file is a zip of three stored members: `format.json` (kind and version), `structure.json` (the containers and plain
values) and `weights.safetensors` (the arrays).  Tensors that share memory share it again when loaded: where they are
different parts of it, the file holds the memory once and says which part is whose (``format.json``, version 2).
Attributes that the user gave to a tensor are kept (version 3, as for a bytearray). A list, dict or set that is in
several places, or inside of itself, is one object again (version 4).
"""

from __future__ import annotations

import base64
import io
import json
import math
import os
import tempfile
import zipfile
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import IO, Any

import numpy as np

from fusegrad import dtypes
from fusegrad.place import root_array
from fusegrad.tensor import Size, Tensor, alias, device, need_data, wrap

FORMAT, VERSION = "fusegrad-state", 4
_MEMBERS = ("format.json", "structure.json", "weights.safetensors")
_FOREIGN = {"BF16", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F6_E2M3", "F6_E3M2", "F4"}
_MAX_JSON = 1 << 28
_MAX_DEPTH = 200
_MUTABLE = {list: "list", set: "set", dict: "dict", OrderedDict: "odict", Counter: "counter"}


def _shared(x: Any) -> set[int]:
    """The ids of the mutable containers that are met more than once inside of ``x``."""
    met: set[int] = set()
    shared: set[int] = set()
    todo = [x]
    while todo:
        x = todo.pop()
        if type(x) in _MUTABLE:
            if id(x) in met:
                shared.add(id(x))
                continue
            met.add(id(x))
        if isinstance(x, dict):
            todo += x.values()
        elif isinstance(x, (list, tuple)):
            todo += x
        elif isinstance(x, Tensor):
            todo += x.__dict__.values()
    return shared


class _Writer:
    """Turns an object into JSON-able data and a table of arrays."""

    def __init__(self, shared: set[int]) -> None:
        self.shared = shared
        self.numbers: dict[int, int] = {}  # of the shared containers met so far
        self.arrays: dict[str, np.ndarray] = {}
        self.seen: dict[str, np.ndarray] = {}  # of tensors: their own arrays
        self.by_memory: dict[tuple, str] = {}
        self.by_object: dict[int, int] = {}
        self.kept: list[Tensor] = []
        self.version = 1  # files that say nothing new can be read by older versions

    def array(self, a: np.ndarray) -> str:
        """The name under which `a` is stored; equal memory is stored once."""
        if a.dtype not in dtypes.FROM_NUMPY:
            raise TypeError(f"save: an array of dtype {a.dtype} can't be stored")
        key = (a.__array_interface__["data"][0], a.shape, a.strides, a.dtype)
        if a.size == 0 or key not in self.by_memory:
            name = f"t{len(self.arrays)}"
            self.arrays[name] = np.array(a, order="C", copy=not a.flags.c_contiguous or None)
            self.by_memory[key] = name
        return self.by_memory[key]

    def windows(self) -> dict[str, list]:
        """Join the arrays of tensors that share memory; for each of those (array, offset, shape, strides)."""
        spans = {}
        for name, a in self.seen.items():
            step = a.dtype.itemsize
            if a.size and all(s >= 0 and s % step == 0 for s in a.strides):
                start = a.__array_interface__["data"][0]
                end = start + step + sum((n - 1) * s for n, s in zip(a.shape, a.strides, strict=True))
                spans[name] = (id(root_array(a)), a.dtype.str, start % step), start, end
        out: dict[str, list] = {}
        together: list[str] = []
        last: Any = None
        limit = 0
        for name in sorted(spans, key=lambda n: spans[n]):
            key, start, end = spans[name]
            if together and (key != last or start >= limit):
                self._join(together, out)
                together = []
            limit = max(limit, end) if together else end
            last = key
            together.append(name)
        if together:
            self._join(together, out)
        return out

    def _join(self, names: list[str], out: dict[str, list]) -> None:
        """Store what ``names`` cover as one flat array, if it is more than one of them, or one in another order."""
        parts = [self.seen[n] for n in names]
        step, kind = parts[0].dtype.itemsize, parts[0].dtype
        starts = [a.__array_interface__["data"][0] for a in parts]
        low = min(starts)
        ends = [
            p + step + sum((n - 1) * s for n, s in zip(a.shape, a.strides, strict=True))
            for p, a in zip(starts, parts, strict=True)
        ]
        count = (max(ends) - low) // step
        if len(names) == 1 and (parts[0].flags.c_contiguous or count > parts[0].size):
            return
        first = parts[starts.index(low)]
        flat = np.lib.stride_tricks.as_strided(first, (count,), (step,), writeable=False).astype(kind, copy=True)
        for n, a, p in zip(names, parts, starts, strict=True):
            out[n] = [names[0], (p - low) // step, list(a.shape), [s // step for s in a.strides]]
            del self.arrays[n]
        self.arrays[names[0]] = flat

    def encode(self, x: Any, path: str, depth: int = 0) -> Any:
        """JSON-able form of `x`; TypeError names the place of what can't be stored."""
        number = None
        if id(x) in self.shared and type(x) in _MUTABLE:
            if id(x) in self.numbers:
                return {"k": "again", "v": self.numbers[id(x)]}
            number, self.version = len(self.numbers), 4
            self.numbers[id(x)] = number
        if depth > _MAX_DEPTH:
            raise ValueError(f"save: containers are nested more than {_MAX_DEPTH} deep at {path}")
        if x is None or isinstance(x, (bool, str)) and type(x) in (bool, str):
            return x
        if type(x) is int:
            return x if abs(x) < 2**53 else {"k": "int", "v": str(x)}
        if type(x) is float:
            return x if math.isfinite(x) else {"k": "float", "v": repr(x)}
        if isinstance(x, Tensor):
            return self.tensor(x, path, depth)
        known = self.plain(x)
        if known is not None:
            return known
        out = self.container(x, path, depth)
        if number is not None:
            out = {**(out if type(out) is dict else {"k": "list", "v": out}), "n": number}
        return out

    def tensor(self, t: Tensor, path: str, depth: int) -> dict:
        if id(t) in self.by_object:
            return {"k": "same", "v": self.by_object[id(t)]}
        number = self.by_object[id(t)] = len(self.kept)
        self.kept.append(t)
        name = self.array(need_data(t, "save"))
        self.seen.setdefault(name, need_data(t, "save"))
        out = {"k": "tensor", "n": number, "v": name, "g": bool(t.requires_grad)}
        from fusegrad.nn.parameter import Buffer, Parameter

        if type(t) is Parameter:
            out["c"] = "parameter"
        elif isinstance(t, Buffer):
            out["c"] = "buffer"
        elif type(t) is not Tensor:
            raise TypeError(
                f"save: can't store the {type(t).__name__} at {path}: a file holds no classes, it would come back as "
                "another one (save x.detach(), a plain Tensor, instead)"
            )
        own = {k: v for k, v in t.__dict__.items() if not (k == "persistent" and v is True and isinstance(t, Buffer))}
        if own:
            self.version = max(self.version, 3)
            out["a"] = [[attribute_name(k, path), self.encode(v, f"{path}.{k}", depth + 1)] for k, v in own.items()]
        return out

    def plain(self, x: Any) -> dict | None:
        if isinstance(x, np.ndarray):
            return {"k": "array", "v": self.array(x)}
        if isinstance(x, np.generic):
            return {"k": "scalar", "v": self.array(np.asarray(x))}
        if isinstance(x, dtypes.dtype):
            return {"k": "dtype", "v": x.name}
        if isinstance(x, device):
            return {"k": "device", "v": str(x)}
        if isinstance(x, (bytes, bytearray)):
            kind = "bytes"
            if isinstance(x, bytearray):
                kind, self.version = "bytearray", max(self.version, 3)
            return {"k": kind, "v": base64.b64encode(bytes(x)).decode()}
        if isinstance(x, complex):
            return {"k": "complex", "v": [repr(x.real), repr(x.imag)]}
        if isinstance(x, range):
            return {"k": "range", "v": [x.start, x.stop, x.step]}
        return None

    def container(self, x: Any, path: str, depth: int) -> Any:
        kinds = {list: "list", tuple: "tuple", set: "set", frozenset: "frozenset", Size: "size"}
        kind = kinds.get(type(x))  # type: ignore[call-overload]
        if kind is not None:
            values = [self.encode(v, f"{path}[{i}]", depth + 1) for i, v in enumerate(x)]
            return values if kind == "list" else {"k": kind, "v": values}
        kind = {dict: "dict", OrderedDict: "odict", Counter: "counter"}.get(type(x))  # type: ignore[call-overload]
        if kind is None:
            raise TypeError(
                f"save: can't store an object of type {type(x).__name__} at {path}; tensors, numbers, strings, lists, "
                f"tuples, sets and dicts can be stored{_hint(x)}"
            )
        pairs = [
            [self.encode(k, f"{path} key {k!r}", depth + 1), self.encode(v, f"{path}[{k!r}]", depth + 1)]
            for k, v in x.items()
        ]
        out = {"k": kind, "v": pairs}
        metadata = getattr(x, "_metadata", None)
        if metadata is not None:
            out["m"] = self.encode(metadata, f"{path}._metadata", depth + 1)
        return out


def attribute_name(name: Any, path: str) -> str:
    """``name``, if it can be an attribute of a tensor that hides none of the class."""
    if type(name) is not str or not name.isidentifier() or hasattr(Tensor, name):
        raise TypeError(f"the attribute {name!r} of the tensor at {path} would hide what a Tensor has under that name")
    return name


def _hint(x: Any) -> str:
    if hasattr(x, "state_dict"):
        return f" (save {type(x).__name__}.state_dict() instead)"
    return ""


class _Reader:
    """The way back; every name and kind is checked."""

    def __init__(self, arrays: dict[str, np.ndarray], windows: Any = None):
        self.storages = {name: wrap(a) for name, a in arrays.items()}
        self.bases = {name: name for name in arrays}
        self.arrays = arrays | {name: self._window(arrays, name, w) for name, w in (windows or {}).items()}
        self.wrapped: set[str] = set()
        self.tensors: dict[int, Tensor] = {}
        self.shared: dict[int, Any] = {}

    def _window(self, arrays: dict[str, np.ndarray], name: str, window: Any) -> np.ndarray:
        """The part of a stored array that a tensor was; RuntimeError if it is not inside."""
        base, offset, shape, strides = window
        whole = arrays.get(base)
        numbers = [offset, *shape, *strides]
        if whole is None or whole.ndim != 1 or not all(type(n) is int and n >= 0 for n in numbers):
            raise RuntimeError(f"load: array {name!r} is said to be an impossible part of {base!r}")
        last = offset + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
        if min(shape, default=1) < 1 or last >= whole.size:
            raise RuntimeError(f"load: array {name!r} is said to be a part outside of {base!r}")
        self.bases[name] = base
        step = whole.itemsize
        return np.ndarray(tuple(shape), whole.dtype, whole, offset * step, tuple(s * step for s in strides))

    def array(self, name: Any) -> np.ndarray:
        if name not in self.arrays:
            raise RuntimeError(f"load: the file refers to array {name!r}, which it does not hold")
        return self.arrays[name]

    def decode(self, x: Any) -> Any:
        if isinstance(x, list):
            return [self.decode(v) for v in x]
        if not isinstance(x, dict):
            return x
        kind = x.get("k")
        if kind in ("dict", "odict", "counter"):
            return self.mapping(kind, x)
        if kind == "again":
            return self.shared[x["v"]]
        if "n" in x and kind in ("list", "set"):
            out: Any = [] if kind == "list" else set()
            self.shared[x["n"]] = out
            for v in x["v"]:
                (out.append if kind == "list" else out.add)(self.decode(v))
            return out
        if kind in ("tuple", "set", "frozenset", "size"):
            make: Any = {"tuple": tuple, "set": set, "frozenset": frozenset, "size": Size}[kind]
            return make(self.decode(v) for v in x["v"])
        if kind == "tensor":
            return self.tensor(x)
        if kind == "same":
            return self.tensors[x["v"]]
        simple: dict[Any, Callable] = {
            "int": int,
            "float": float,
            "bytes": base64.b64decode,
            "bytearray": lambda v: bytearray(base64.b64decode(v)),
            "complex": lambda v: complex(float(v[0]), float(v[1])),
            "range": lambda v: range(*v),
            "device": device,
            "array": self.array,
            "scalar": lambda v: self.array(v)[()],
            "dtype": lambda v: next(d for d in dtypes.ALL if d.name == v),
        }
        if kind not in simple:
            raise RuntimeError(f"load: unknown kind of value {kind!r} in the file")
        return simple[kind](x["v"])

    def mapping(self, kind: str, x: dict) -> Any:
        make: Any = {"dict": dict, "odict": OrderedDict, "counter": Counter}[kind]
        out = make()
        if "n" in x:
            self.shared[x["n"]] = out
        for k, v in x["v"]:
            out[self.decode(k)] = self.decode(v)
        if "m" in x and kind == "odict":
            out._metadata = self.decode(x["m"])
        return out

    def tensor(self, x: dict) -> Tensor:
        from fusegrad.nn.parameter import Buffer, Parameter

        name = x["v"]
        d = self.array(name)
        base = self.storages[self.bases[name]]
        if name in self.wrapped or base._data is not d:
            t = alias(base)  # tied memory, another object
            t._data = d
        else:
            t = base
        self.wrapped.add(name)
        kind = x.get("c")
        if kind == "parameter":
            t = Parameter(t, requires_grad=False)
        elif kind == "buffer":
            t = Buffer(t)
        if x.get("g"):
            t._ask_grad(True)
        self.tensors[x["n"]] = t
        for key, value in x.get("a", ()):
            t.__dict__[attribute_name(key, "load")] = self.decode(value)
        return t


def save(obj: Any, f: str | os.PathLike | IO[bytes], *_ignored: Any, **_also: Any) -> None:
    """Write `obj` (tensors, numbers, strings and containers of them) to a path or a binary file.

    A path is replaced as a whole: a failure leaves what was there.  TypeError names what can't be stored and where.
    """
    from safetensors.numpy import save as save_arrays

    writer = _Writer(_shared(obj))
    structure = json.dumps(writer.encode(obj, "object"), allow_nan=False, separators=(",", ":"))
    windows = writer.windows()
    first: dict[str, Any] = {"format": FORMAT, "version": max(writer.version, 2 if windows else 1)}
    head = json.dumps(first | {"windows": windows} if windows else first)
    content = _pack((head.encode(), structure.encode(), save_arrays(writer.arrays)))
    if hasattr(f, "write"):
        f.write(content)
        return
    _replace(os.fspath(f), content)


def _pack(parts: tuple[bytes, ...]) -> bytes:
    """The zip file of the members; equal members give equal bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as z:
        for name, content in zip(_MEMBERS, parts, strict=True):
            z.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), content)
    return buffer.getvalue()


def _replace(path: str, content: Any) -> None:
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(path):
        raise IsADirectoryError(f"save: {path!r} is a directory")
    if not os.path.isdir(folder):
        raise RuntimeError(f"Parent directory {folder} does not exist.")
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=".fusegrad-")
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(content)
        mode = os.umask(0)
        os.umask(mode)
        os.chmod(temporary, 0o666 & ~mode)
        os.replace(temporary, path)
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise


def load(
    f: str | os.PathLike | IO[bytes],
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **_ignored: Any,
) -> Any:
    """Read what `save` wrote (or a plain safetensors file, as a dict of tensors). Runs no code from the file.

    RuntimeError for a file that is damaged, of another kind or of a newer version.
    """
    if map_location is not None and isinstance(map_location, (str, device)):
        device(map_location)  # refuses anything but the cpu
    if hasattr(f, "read"):
        content = f.read()
    else:
        with open(f, "rb") as file:
            content = file.read()
    if content[:4] != b"PK\x03\x04":  # the length of a safetensors header may begin like "PK"
        return {name: wrap(a) for name, a in _arrays(content).items()}
    try:
        return _read_zip(content)
    except (RuntimeError, MemoryError) as error:
        if isinstance(error, RecursionError):
            raise RuntimeError("load: the file is damaged (its structure is nested too deep)") from None
        raise
    except Exception as error:  # whatever a damaged file may provoke in zipfile, json and the checks above
        raise RuntimeError(f"load: the file is damaged ({type(error).__name__}: {error})") from error


def _arrays(content: bytes) -> dict[str, np.ndarray]:
    from safetensors import SafetensorError, deserialize
    from safetensors.numpy import load as load_arrays

    try:
        found = load_arrays(content)
    except KeyError:  # a dtype that numpy does not have
        kinds = {item["dtype"]: name for name, item in deserialize(content)}
        other = sorted(set(kinds) & _FOREIGN) or sorted(kinds)
        raise RuntimeError(
            f"load: array {kinds[other[0]]!r} has dtype {other[0]}, which fusegrad does not have: convert it first"
        ) from None
    except (SafetensorError, ValueError, TypeError) as error:
        raise RuntimeError(f"load: not a fusegrad file, or damaged ({error})") from error
    for name, a in found.items():
        if a.dtype.kind == "b" and (a.view(np.uint8) > 1).any():
            raise RuntimeError(f"load: array {name!r} holds a bool that is neither 0 nor 1")
        if a.dtype not in dtypes.FROM_NUMPY:
            raise RuntimeError(f"load: array {name!r} has dtype {a.dtype}, which fusegrad does not have")
    return {name: a if a.flags.writeable else a.copy() for name, a in found.items()}


def _read_zip(content: bytes) -> Any:
    with zipfile.ZipFile(io.BytesIO(content)) as z:
        infos = z.infolist()
        names = [i.filename for i in infos]
        if any(n.endswith("data.pkl") for n in names):
            raise RuntimeError(
                "load: this is a PyTorch file, whose pickled part is a program; convert it with safetensors first"
            )
        if sorted(names) != sorted(_MEMBERS):
            raise RuntimeError(f"load: not a fusegrad state file: it holds {names[:5]}")
        for info in infos:
            if info.compress_type != zipfile.ZIP_STORED or info.file_size > len(content):
                raise RuntimeError(f"load: member {info.filename} is compressed or larger than the file")
            if info.filename.endswith(".json") and info.file_size > _MAX_JSON:
                raise RuntimeError(f"load: member {info.filename} is too large")
        parts = tuple(z.read(name) for name in _MEMBERS)
        if _pack(parts) != content:
            raise RuntimeError("load: the file is damaged (it is not what save wrote)")
        head = json.loads(parts[0])
        if not isinstance(head, dict) or head.get("format") != FORMAT:
            raise RuntimeError(f"load: not a fusegrad state file: format {head!r}")
        if head.get("version") not in range(1, VERSION + 1):
            raise RuntimeError(
                f"load: the file has version {head.get('version')}, this fusegrad reads versions up to {VERSION}"
            )
        structure = json.loads(parts[1])
        arrays = _arrays(parts[2])
    return _Reader(arrays, head.get("windows")).decode(structure)
