"""The one options object of the compiler, passed explicitly."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

__all__ = ["Options", "make_options"]


@dataclass(frozen=True, slots=True)
class Options:
    """Everything a user may choose about compilation. At most ten fields (DESIGN section 8, invariant 4)."""

    codegen: str = "llvm"  # "llvm" (direct printer) or "numba" (readable kernels through numba)
    threads: int = 0  # threads for large kernels; 0: the process-wide setting
    cache: bool = True  # keep kernels and regions on disk
    fuse: bool = True  # False: one kernel a node (for finding faults)
    recompute: bool = True  # False: the backward saves every value it needs instead of recomputing cheap ones
    check: bool = False  # verify the graph after every pass
    interpret: bool = False  # run graphs by the reference interpreter; nothing is compiled
    limit: int = 8  # entries a code object before it runs eagerly
    verify: int = 0  # every n-th call of a region is compared with its recorded graph on eager operators; 0: none

    def key(self) -> str:
        """Text of the fields that change generated code (part of cache keys)."""
        return f"codegen={self.codegen} fuse={self.fuse} recompute={self.recompute} interpret={self.interpret}"


def make_options(options: Options | dict[str, Any] | None) -> Options:
    """Options from None, a dict of fields or an Options. Unknown fields raise ``TypeError`` naming the known ones."""
    if options is None:
        return Options()
    if isinstance(options, Options):
        return options
    known = [f.name for f in fields(Options)]
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise TypeError(f"fusegrad.compile: unknown option {unknown[0]!r}; known options are {', '.join(known)}")
    return replace(Options(), **options)
