"""``graph(loss)``: the drawing of a dynamic graph as text, SVG and HTML."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from typing import Any

from ..autograd.holders import variables
from ..nn.module import Module
from ..tensor import Tensor
from . import page, svg, text
from .model import Builder, Model

_WRITERS = {".svg": "svg", ".html": "html", ".htm": "html", ".txt": "text"}


class Drawing:
    """A drawing of a dynamic graph. It holds text only: it keeps no tensor and no graph alive."""

    def __init__(self, model: Model, lines: str) -> None:
        self._model, self._text = model, lines
        self._svg: str | None = None

    @property
    def summary(self) -> str:
        """One line: how many operators and leaves, the bytes saved for backward."""
        return self._model.summary

    def text(self) -> str:
        """The graph as text, in the order of the forward pass."""
        return self._text

    __str__ = __repr__ = text

    def svg(self) -> str:
        """The drawing as an SVG document."""
        if self._svg is None:
            self._svg = svg.draw(self._model)
        return self._svg

    def html(self) -> str:
        """The drawing and its text as one HTML page that needs nothing else."""
        return page.html(self.svg(), self._text, self.summary)

    def _repr_svg_(self) -> str:
        return self.svg()

    def save(self, path: str | os.PathLike) -> str:
        """Write the drawing to ``path``; its ending says how: ``.svg``, ``.html`` or ``.txt``. Returns the path.

        The file appears whole or not at all. ValueError for another ending, FileNotFoundError for a missing folder,
        IsADirectoryError if ``path`` is a folder.
        """
        name = os.fspath(path)
        ending = os.path.splitext(name)[1].lower()
        if os.path.isdir(name):
            example = os.path.join(name, "graph.svg")
            raise IsADirectoryError(f"save: {name!r} is a folder; give the name of a file, such as {example!r}")
        if ending not in _WRITERS:
            raise ValueError(f"save: the ending of {name!r} must be one of {', '.join(_WRITERS)}, not {ending!r}")
        folder = os.path.dirname(os.path.abspath(name))
        if not os.path.isdir(folder):
            raise FileNotFoundError(f"save: the folder {folder!r} does not exist; make it with os.makedirs first")
        _write(name, folder, getattr(self, _WRITERS[ending])() + "\n")
        return name


def _write(name: str, folder: str, content: str) -> None:
    handle, part = tempfile.mkstemp(dir=folder, prefix=".fusegrad-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(content)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(part, 0o666 & ~mask)
        os.replace(part, name)
    except BaseException:
        if os.path.exists(part):
            os.unlink(part)
        raise


def graph(outputs: Any, names: Any = None, *, max_boxes: int = 60) -> Drawing:
    """Draw the dynamic graph that leads to a tensor (or to each of a list, tuple or dict of tensors).

    ``names``: a dict from names to tensors, or a Module, whose parameters are named; variables of the caller are found
    without it. ``max_boxes``: with more operators the graph is summarised. TypeError for what is not a tensor.

    >>> print(viz.graph(loss))              # text
    >>> viz.graph(loss).save("graph.html")  # or graph.svg; in a notebook the drawing shows itself
    """
    if type(max_boxes) is not int or max_boxes < 1:
        raise ValueError(f"graph: max_boxes must be an int of at least 1, not {max_boxes!r}")
    given: dict[str, Any] = {}
    roots = _roots(outputs, given)
    caller = sys._getframe(1)
    seen = [_public(variables(caller)), _public(caller.f_globals)]
    known, results = _names([_named(names), given, *seen])
    builder = Builder(roots, known, results, max_boxes)
    model = builder.build()
    return Drawing(model, text.render(builder))


def _roots(outputs: Any, given: dict[str, Any]) -> list[Tensor]:
    """The tensors asked for. Names of a dict go into ``given``."""
    if isinstance(outputs, Tensor):
        return [outputs]
    if isinstance(outputs, Mapping):
        given.update({str(k): v for k, v in outputs.items()})
        outputs = list(outputs.values())
    if isinstance(outputs, Module):
        raise TypeError("graph() draws tensors: call the module and draw its result, graph(model(x), names=model)")
    if not isinstance(outputs, (list, tuple)):
        raise TypeError(f"graph(): argument 'outputs' must be a Tensor or a list of them, not {type(outputs).__name__}")
    bad = next((t for t in outputs if not isinstance(t, Tensor)), None)
    if bad is not None or not outputs:
        what = "nothing" if not outputs else f"a {type(bad).__name__}"
        raise TypeError(f"graph(): argument 'outputs' must hold Tensors, found {what}")
    return list({id(t): t for t in outputs}.values())


def _named(names: Any) -> dict[str, Any]:
    if names is None:
        return {}
    if isinstance(names, Module):
        return dict(names.named_parameters())
    if isinstance(names, Mapping):
        return {str(k): v for k, v in names.items()}
    raise TypeError(f"graph(): argument 'names' must be a dict or a Module, not {type(names).__name__}")


def _public(values: dict[str, Any]) -> dict[str, Any]:
    """Variables that a user wrote: no private names, none that tools made up."""
    return {k: v for k, v in list(values.items()) if k.isidentifier() and k[0] != "_"}


def _names(sources: list[dict[str, Any]]) -> tuple[dict[int, str], list[Tensor]]:
    """Names by ``id`` of the tensor, the first found wins; and the named tensors that are results."""
    names: dict[int, str] = {}
    found: dict[int, Tensor] = {}
    modules: list[tuple[str, Module]] = []

    def note(name: str, t: Tensor) -> None:
        if id(t) not in names:
            names[id(t)] = name
            found[id(t)] = t

    for source in sources:
        for name, v in list(source.items()):
            if isinstance(v, Tensor):
                note(name, v)
            elif isinstance(v, Module):
                modules.append((name, v))
    for name, m in modules:
        for path, p in m.named_parameters():
            note(path if len(modules) == 1 else f"{name}.{path}", p)
    return names, [t for t in found.values() if t._node is not None]
