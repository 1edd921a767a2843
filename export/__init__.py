"""fusegrad.export: a whole program, with its constraints and weights, in one safe file.

program = export(model, (x,), dynamic_shapes=({0: Dim("batch", min=2, max=16)},))
save(program, "model.fgx")
y = load("model.fgx").module()(x)
"""

from __future__ import annotations

from typing import Any

from fusegrad.sizes import ConstraintError

from . import arrays
from .archive import pack, read, unpack, write
from .dims import Dim, dims
from .errors import ArgumentError, ExportError, FileError, InputError, VersionError
from .exporter import export
from .program import ExportedProgram
from .text import inspect_text

__all__ = [
    "ArgumentError", "ConstraintError", "Dim", "ExportError", "ExportedProgram", "FileError", "InputError",
    "VersionError", "arrays", "dims", "export", "inspect_text", "load", "run", "save",
]  # fmt: skip


def save(program: ExportedProgram, f: Any) -> None:
    """Write `program` to the path or binary file object `f`; a path is replaced in one step, never left half written.

    TypeError if `program` is not an ExportedProgram; FileNotFoundError if the folder does not exist.
    """
    if not isinstance(program, ExportedProgram):
        raise TypeError(
            f"save: expected an ExportedProgram (from fusegrad.export.export), got {type(program).__name__}"
        )
    write(f, to_bytes(program))


def to_bytes(program: ExportedProgram) -> bytes:
    """The file of `program`: the same program gives the same bytes."""
    from fusegrad import __version__

    from .schema import to_members

    return pack(to_members(program, f"fusegrad {__version__}"))


def load(f: Any) -> ExportedProgram:
    """Read a program from the path or binary file object `f`. Nothing from the file is executed.

    FileError (a ValueError) for anything that is not a valid program; VersionError names both versions.
    """
    from .schema import from_members

    return from_members(unpack(read(f)))


def run(path: Any, inputs: Any) -> list[Any]:
    """Load a program, call it with arrays (by position) and return its results as arrays.

    InputError for inputs that do not fit; values that were fixed at export are filled in.
    """
    return arrays.call(load(path), list(inputs))
