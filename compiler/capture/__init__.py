"""Capture: symbolic evaluation of CPython bytecode into graphs, guards and segments. See docs/capture.md."""
