"""Errors of the exporter. Each says first what the user gave, then what is allowed."""

from __future__ import annotations


class ExportError(RuntimeError):
    """The program cannot be exported as it is written.

    For example a forward that counts its own calls (``self.calls += 1``): a saved program has no Python objects to
    change. Repair: register the counter as a buffer (``register_buffer``) and change it with tensor operations.
    """


class InputError(ValueError, RuntimeError):
    """A call of an exported program gave something else than it was exported for.

    For example a batch of 40 for ``Dim("batch", min=2, max=16)``::

        x: axis 0 ("batch") is 40, allowed 2..16

    Repair: give what the message allows, or export again with other `dynamic_shapes`. (PyTorch raises RuntimeError
    here, so this is one too.)
    """


class ArgumentError(InputError, TypeError):
    """Arguments are missing, unexpected, or of another kind (a list for a tensor) than at export."""


class FileError(ValueError):
    """A file is not a program that can be loaded: truncated, altered, hostile, or written by a newer version.

    Nothing of such a file is executed, and nothing is allocated on its word.
    """


class VersionError(FileError):
    """The file's format is newer than this fusegrad; the message names both versions."""
