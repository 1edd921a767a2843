"""Verification mode: eager code beside compiled code. See docs/verification.md."""
