"""Who refers to an object: variables, globals, containers, attributes, closures, found with ``gc.get_referrers``.

The search goes up from the targets level by level, for all targets at once, since each call of ``gc.get_referrers``
reads every object of the process.
"""

from __future__ import annotations

import gc
import inspect
import re
import sys
import types
from typing import Any

from ..tensor import Tensor
from .lines import is_internal
from .node import AccumulateGrad, Node, View

_LEVELS = 7
_FEW = 64  # up to so many targets gc.get_referrers is the faster way; its time grows with their number
_VISITS = 3  # levels at which one container may appear
_PATHS = 200  # descriptions carried up through one container


def _frames() -> list[types.FrameType]:
    """The frames of all threads that run user code."""
    out = []
    f: Any = None
    for f in list(sys._current_frames().values()):
        while f is not None:
            if not is_internal(f.f_globals.get("__name__")):
                out.append(f)
            f = f.f_back
    return out  # f is None again: a frame that refers to itself would keep all the variables of this call alive


def _is_kept(frame: types.FrameType) -> bool:
    """Whether a frame that does not run is that of a function that has ended, in user code."""
    flags = frame.f_code.co_flags
    function = flags & inspect.CO_OPTIMIZED and not flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE)
    return bool(function) and not is_internal(frame.f_globals.get("__name__"))


def variables(frame: types.FrameType) -> dict[str, Any]:
    """The local variables of a frame (of a module's frame: its globals), as a dict that the frame does not keep."""
    values = frame.f_locals
    out = dict(values)
    if sys.version_info < (3, 13) and frame.f_code.co_flags & 1 and sys.gettrace() is None:
        values.clear()  # before 3.13 this is a snapshot that the frame keeps: it would keep old tensors alive
    return out


def _locals(frames: list[types.FrameType]) -> dict[int, list[tuple[str, str]]]:
    """By the id of the object: (variable, where) for the local variables of functions that run."""
    out: dict[int, list[tuple[str, str]]] = {}
    for f in frames:
        if not f.f_code.co_flags & 1:  # not CO_OPTIMIZED: the frame of a module, whose variables are globals
            continue
        where = f"local variable of {f.f_code.co_qualname}, line {f.f_lineno}"
        for name, v in variables(f).items():
            out.setdefault(id(v), []).append((name, where))
    return out


def _is(x: Any, kinds: Any) -> bool:
    """isinstance by the real type: asking an arbitrary object for its ``__class__`` runs its code."""
    return issubclass(type(x), kinds)


class Holders:
    """One search. ``ignore``: objects of the searching code and of the graphs themselves."""

    def __init__(self, ignore: list[Any]) -> None:
        self.ignore = {id(x) for x in ignore} | {id(ignore)}
        frames = _frames()
        self.locals = _locals(frames)
        self.running = {id(f) for f in frames}
        self.modules = {id(f.f_globals): f.f_globals.get("__name__", "?") for f in frames}
        self.modules |= {id(vars(m)): name for name, m in list(sys.modules.items()) if isinstance(m, types.ModuleType)}

    def search(self, targets: list[tuple[int, Any]]) -> list[tuple[int, str]]:
        """(tag, description) for every holder of a (tag, object)."""
        objects: dict[int, Any] = {}
        paths: dict[int, list[tuple[int, str]]] = {}
        for tag, x in targets:
            objects[id(x)] = x
            paths.setdefault(id(x), []).append((tag, "" if isinstance(x, Tensor) else f" ({x.name()})"))
        out: list[tuple[int, str]] = []
        visits: dict[int, int] = {}
        for _ in range(_LEVELS):
            for key in self.locals.keys() & objects.keys():
                out += [(tag, f"{n}{path} ({where})") for n, where in self.locals[key] for tag, path in paths[key]]
            above: dict[int, Any] = {}
            up: dict[int, list[tuple[int, str]]] = {}
            for key, r, step in self._referrers(objects, paths):
                if step.startswith("="):  # a root: the description is complete
                    out += [(tag, step[1:].replace("{}", path)) for tag, path in paths[key]]
                elif visits.get(id(r), 0) < _VISITS:
                    above[id(r)] = r
                    up.setdefault(id(r), []).extend((tag, _join(step, path)) for tag, path in paths[key][:_PATHS])
            if not above:
                break
            for key in above:
                visits[key] = visits.get(key, 0) + 1
            objects, paths = above, up
        return out

    def _referrers(self, level: dict[int, Any], paths: Any) -> list[tuple[int, Any, str]]:
        """(id of the object, referrer, step of the path) for everything that refers to an object of ``level``."""
        objects = list(level.values())
        skip = self.ignore | {id(objects), id(level), id(paths), id(self.ignore)}
        if len(objects) <= _FEW:
            referrers = gc.get_referrers(*objects)
        else:
            referrers = [o for o in gc.get_objects() if not level.keys().isdisjoint(map(id, gc.get_referents(o)))]
        found = []
        for r in referrers:
            if id(r) in skip or _is(r, (Node, AccumulateGrad)) or r is self:
                continue
            if _is(r, types.FrameType) and (id(r) in self.running or not _is_kept(r)):
                continue
            found += [(key, r, step) for key, step in self._steps(r, level)]
        return found

    def _steps(self, r: Any, level: dict[int, Any]) -> list[tuple[int, str]]:
        """How ``r`` refers to objects of ``level``: (id, step); a step that begins with ``=`` ends the path."""
        if _is(r, dict):
            name = self.modules.get(id(r))
            if name is not None:
                hit = [] if is_internal(name) else [(id(v), k) for k, v in list(r.items()) if id(v) in level]
                return [(key, f"={k}{{}} (global of {name})") for key, k in hit]
            return [(id(v), f"[{_key(k)}]") for k, v in list(r.items()) if id(v) in level]
        if _is(r, (list, tuple)):
            return [(id(v), _item(i, v)) for i, v in enumerate(list(r)) if id(v) in level]
        if _is(r, types.FrameType):
            where = f"local variable of {r.f_code.co_qualname}, line {r.f_lineno}, kept by an exception's traceback"
            return [(id(v), f"={k}{{}} ({where})") for k, v in variables(r).items() if id(v) in level]
        refers = [x for x in gc.get_referents(r) if id(x) in level]
        if _is(r, Tensor):
            return [(id(x), _tensor_step(r, x)) for x in refers if x is not r._node]
        if _is(r, View):
            return [(id(x), "._base") for x in refers]
        if _is(r, types.CellType):
            return [(id(x), "<cell>") for x in refers]
        if _is(r, types.FunctionType):
            names = ",".join(r.__code__.co_freevars)
            return [(id(x), f"<closure of {r.__qualname__}: {names}>") for x in refers if x is not r.__globals__]
        if _is(r, (types.GeneratorType, types.CoroutineType)):
            frame = r.gi_frame if _is(r, types.GeneratorType) else r.cr_frame
            names = {} if frame is None else {id(v): f": {k}" for k, v in variables(frame).items()}
            kind = type(r).__name__
            return [(id(x), f"<{kind} {r.__qualname__}{names.get(id(x), '')}>") for x in refers]
        if _is(r, types.ModuleType):
            return []
        return _attributes(r, refers)


def _item(i: int, v: Any) -> str:
    return f"<cell {i}>" if type(v) is types.CellType else f"[{i}]"


def _key(k: Any) -> str:
    """A dict's key in a few words; other objects than these would run their own code."""
    if type(k) in (str, int, float, bool, bytes, type(None)):
        text = repr(k)
        return text if len(text) <= 40 else f"{text[:36]}..."
    return f"<{type(k).__name__} {list(k.shape)}>" if _is(k, Tensor) else f"<{type(k).__name__}>"


def _join(step: str, path: str) -> str:
    """One more step in front of a path; the dict of an object's attributes is written with a dot."""
    if step.startswith("@"):
        return re.sub(r"^\['(\w+)'\]", r".\1", path)
    if step.startswith("<closure of"):  # the variable's name, if the path goes through a cell
        head, _, names = step[:-1].rpartition(": ")
        cell = re.match(r"<cell (\d+)>", path)
        return f"{head}: {names.split(',')[int(cell[1])]}>{path[cell.end() :]}" if cell else f"{head}>{path}"
    return step + path.removeprefix("<cell>")


def _tensor_step(t: Tensor, x: Any) -> str:
    if x is t._grad:
        return ".grad"
    if x is t._view or x is t._extra:
        return "" if x is t._view else ".<hooks>"
    return _attributes(t, [x])[0][1]


def _attributes(r: Any, refers: list[Any]) -> list[tuple[int, str]]:
    """Attributes of an object; ``refers`` was read first, since reading ``__dict__`` may make the dict."""
    own = getattr(r, "__dict__", None)
    names = {id(v): k for k, v in own.items()} if isinstance(own, (dict, types.MappingProxyType)) else {}
    found = []
    for x in refers:
        step = "@" if x is own else f".{names[id(x)]}" if id(x) in names else f"<in {type(r).__name__}>"
        found.append((id(x), step))
    return found
