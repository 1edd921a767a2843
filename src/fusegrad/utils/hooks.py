"""What ``register_hook`` and its relatives return."""

from fusegrad.autograd.node import RemovableHandle

__all__ = ["RemovableHandle"]
