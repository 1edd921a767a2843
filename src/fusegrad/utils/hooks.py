"""What ``register_hook`` and its relatives return."""

from fusegrad.autograd.handles import RemovableHandle

__all__ = ["RemovableHandle"]
