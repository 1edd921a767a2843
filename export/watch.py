"""What forward changed in Python objects: a saved program could not repeat it, so it is refused, and undone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from fusegrad.nn import Module
from fusegrad.tensor import Tensor

from .errors import ExportError
from .tree import fields_of, kind_of

_LIMIT = 10_000  # containers looked at
_TABLES = ("_parameters", "_buffers")
_OURS = ("builtins", "fusegrad", "numpy", "functools", "types", "threading", "logging")


def _is_plain_object(v: Any) -> bool:
    """An instance of a user's class, whose attributes are its state."""
    kind = type(v)
    if isinstance(v, (type, Tensor, Module)) or kind.__module__.partition(".")[0] in _OURS:
        return False
    return isinstance(getattr(v, "__dict__", None), dict)


def _content(v: Any) -> Any:
    """A copy of what a container or an object holds; None for anything else."""
    if isinstance(v, (list, tuple)):
        return list(v)
    if isinstance(v, (dict, set)):
        return dict(v) if isinstance(v, dict) else set(v)
    if kind_of(v) == "dataclass" and not hasattr(v, "__dict__"):  # one with slots
        return {name: getattr(v, name, None) for name in fields_of(v)}
    return dict(vars(v)) if _is_plain_object(v) else None


def _parts(where: str, v: Any, content: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(content, dict):
        mark = "{}[{!r}]" if isinstance(v, dict) else "{}.{}"
        yield from ((mark.format(where, k), x) for k, x in content.items())
    elif isinstance(content, list):
        yield from ((f"{where}[{i}]", x) for i, x in enumerate(content))


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return list(a) == list(b) and all(b[k] is x for k, x in a.items())
    if isinstance(a, list):
        return len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))
    return bool(a == b)


class Contents:
    """What the containers and objects below some values held, to any depth."""

    def __init__(self, roots: list[tuple[str, Any]], known: Iterable[Any] = ()) -> None:
        self.seen: dict[int, tuple[str, Any, Any]] = {}
        passed = {id(v) for v in known}
        todo = list(roots)
        while todo and len(self.seen) < _LIMIT:
            where, v = todo.pop()
            content = None if id(v) in self.seen or id(v) in passed else _content(v)
            if content is not None:
                self.seen[id(v)] = (where, v, content)
                todo += _parts(where, v, content)

    def changed(self) -> str | None:
        """The place of one that holds something else now."""
        for where, v, old in self.seen.values():
            if not _same(old, _content(v)):
                return where
        return None

    def restore(self) -> None:
        """Put back what was changed."""
        for _, v, old in self.seen.values():
            if _same(old, _content(v)):
                continue
            if isinstance(old, dict) and not isinstance(v, dict) and not _is_plain_object(v):  # a dataclass with slots
                for name, x in old.items():
                    object.__setattr__(v, name, x)
                continue
            target = vars(v) if _is_plain_object(v) and not isinstance(v, (list, dict, set)) else v
            target.clear()
            target.extend(old) if isinstance(target, list) else target.update(old)


class Watch:
    """The attributes of modules and the contents of arguments, before forward runs."""

    def __init__(self, roots: list[tuple[str, Module]], arguments: list[tuple[str, Any]]) -> None:
        self.modules = roots
        self.seen = [(n, m, self._look(m)) for n, m in roots]
        own = [(".".join(x for x in ("self", n, k) if x), v) for n, m, s in self.seen for k, v in s["own"].items()]
        tables = [m.__dict__[t] for _, m in roots for t in _TABLES]  # hold stand-ins; an attribute may name one of them
        self.attributes, self.arguments = Contents(own, tables), Contents(arguments)

    @staticmethod
    def _look(m: Module) -> dict[str, Any]:
        own = {k: v for k, v in m.__dict__.items() if k not in ("_epoch", *_TABLES)}
        return {"own": own, "names": {k: set(m.__dict__[k]) for k in _TABLES}}

    def check(self) -> None:
        """ExportError naming the attribute or argument that changed."""
        for prefix, m, old in self.seen:
            new = self._look(m)
            changed = [k for k in new["own"] if k not in old["own"] or new["own"][k] is not old["own"][k]]
            changed += [k for k in old["own"] if k not in new["own"]]
            changed += [k for t in old["names"] for k in old["names"][t] ^ new["names"][t]]
            if changed:
                raise _refused(".".join(x for x in ("self", prefix, changed[0]) if x))
        where = self.attributes.changed()
        if where is not None:
            raise _refused(where)
        where = self.arguments.changed()
        if where is not None:
            raise ExportError(
                f"the argument {where} is changed by forward: an exported program cannot change the lists, dicts and "
                "objects that it is given. Change a copy, and return it."
            )

    def close(self) -> None:
        """Give containers and objects back what they held."""
        self.attributes.restore()


def _refused(where: str) -> ExportError:
    return ExportError(
        f"{where} is changed by forward: an exported program cannot change Python attributes. Return the value, or "
        "keep it in a buffer (register_buffer) and change that with tensor operations."
    )
