"""Structured control flow in graphs: operators with nested graphs, how calls are recorded, and their derivatives."""
