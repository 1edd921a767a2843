"""Padded and packed sequences of different lengths."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterable
from typing import Any

import fusegrad
from fusegrad.tensor import Tensor


class PackedSequence(namedtuple("PackedSequence", ["data", "batch_sizes", "sorted_indices", "unsorted_indices"])):
    """The time steps of several sequences, step after step: `batch_sizes[t]` sequences reach step t."""

    __slots__ = ()

    def __new__(
        cls, data: Tensor, batch_sizes: Any = None, sorted_indices: Any = None, unsorted_indices: Any = None
    ) -> PackedSequence:
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes is None:
            data, batch_sizes = data
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The same with converted data."""
        return PackedSequence(
            self.data.to(*args, **kwargs), self.batch_sizes, self.sorted_indices, self.unsorted_indices
        )

    def double(self) -> PackedSequence:
        """The same in float64."""
        return self.to(dtype=fusegrad.float64)

    def float(self) -> PackedSequence:
        """The same in float32."""
        return self.to(dtype=fusegrad.float32)

    def cpu(self) -> PackedSequence:
        """Itself."""
        return self

    @property
    def is_cuda(self) -> bool:
        return False


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The permutation that undoes `permutation`."""
    if permutation is None:
        return None
    out = fusegrad.empty_like(permutation)
    out.scatter_(0, permutation, fusegrad.arange(0, permutation.numel()))
    return out


def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Pack a padded batch (T, B, *) (or (B, T, *)) of sequences with the given lengths."""
    lengths = [int(n) for n in (lengths.tolist() if isinstance(lengths, Tensor) else lengths)]
    batch = input.shape[0 if batch_first else 1]
    if len(lengths) != batch:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(lengths)} (batch_size={batch})"
        )
    if any(n <= 0 for n in lengths):
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
        )
    order = None
    if enforce_sorted:
        if any(a < b for a, b in zip(lengths, lengths[1:], strict=False)):
            raise RuntimeError(
                "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
                "`enforce_sorted=False` to pack_padded_sequence to sidestep this requirement."
            )
    else:
        by_length = sorted(range(batch), key=lambda i: -lengths[i])
        lengths = [lengths[i] for i in by_length]
        order = fusegrad.tensor(by_length, dtype=fusegrad.int64)
        input = input.index_select(0 if batch_first else 1, order)
    if batch_first:
        input = input.transpose(0, 1)
    if lengths[0] > input.shape[0]:
        raise RuntimeError(f"Expected sequences of at most {input.shape[0]} steps, but got length {lengths[0]}")
    sizes = [sum(1 for n in lengths if n > t) for t in range(lengths[0])]
    data = fusegrad.cat([input[t, :size] for t, size in enumerate(sizes)])
    return PackedSequence(data, fusegrad.tensor(sizes, dtype=fusegrad.int64), order, None)


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """The padded batch and the lengths of a PackedSequence."""
    sizes = sequence.batch_sizes.tolist()
    steps = len(sizes)
    if total_length is not None:
        if total_length < steps:
            raise ValueError(
                "Expected total_length to be at least the length of the longest sequence in input, but got "
                f"total_length={total_length} and max sequence length being {steps}"
            )
        steps = total_length
    rest = sequence.data.shape[1:]
    rows, offset = [], 0
    for size in sizes:
        step = sequence.data[offset : offset + size]
        offset += size
        if size < sizes[0]:
            step = fusegrad.cat([step, step.new_full((sizes[0] - size, *rest), padding_value)])
        rows.append(step)
    rows += [sequence.data.new_full((sizes[0], *rest), padding_value)] * (steps - len(sizes))
    out = fusegrad.stack(rows, 1 if batch_first else 0)
    lengths = fusegrad.tensor([sum(1 for s in sizes if s > i) for i in range(sizes[0])], dtype=fusegrad.int64)
    if sequence.unsorted_indices is not None:
        out = out.index_select(0 if batch_first else 1, sequence.unsorted_indices)
        lengths = lengths.index_select(0, sequence.unsorted_indices)
    return out, lengths


def pad_sequence(
    sequences: Iterable[Tensor], batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Tensor:
    """Stack sequences (L_i, *) of different lengths, padded to the longest."""
    if isinstance(sequences, Tensor):
        sequences = sequences.unbind(0)
    if not isinstance(sequences, Iterable):
        raise RuntimeError(
            f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}"
        )
    sequences = list(sequences)
    if not sequences:
        raise RuntimeError("pad_sequence: received an empty list of sequences")
    if padding_side not in ("left", "right"):
        raise ValueError(f"pad_sequence: padding_side must be 'left' or 'right', got {padding_side!r}")
    longest = max(s.shape[0] for s in sequences)
    padded = []
    for s in sequences:
        if s.shape[0] < longest:
            fill = s.new_full((longest - s.shape[0], *s.shape[1:]), padding_value)
            s = fusegrad.cat([s, fill] if padding_side == "right" else [fill, s])
        padded.append(s)
    return fusegrad.stack(padded, 0 if batch_first else 1)


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """The sequences of a padded batch, each cut to its length."""
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    return [row[:n] for row, n in zip(padded_sequences.unbind(0), lengths.tolist(), strict=False)]


def pack_sequence(sequences: list[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack sequences of different lengths."""
    lengths = [s.shape[0] for s in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences of a PackedSequence."""
    return unpad_sequence(*pad_packed_sequence(packed_sequences))
