"""AdaptiveLogSoftmaxWithLoss: a softmax over many classes in clusters, frequent classes first."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence

import fusegrad
from fusegrad.nn import functional as F
from fusegrad.nn.containers import ModuleList, Sequential
from fusegrad.nn.linear import Linear
from fusegrad.nn.module import Module
from fusegrad.tensor import Tensor

ASMoutput = namedtuple("ASMoutput", ["output", "loss"])


class AdaptiveLogSoftmaxWithLoss(Module):
    """Log probabilities of targets, and their mean as loss, computing only the clusters that are needed.

    ``cutoffs``: increasing class numbers where clusters begin; the first cluster is part of the head, the others have
    projections to in_features / div_value ** i. ValueError for cutoffs that are no such list.
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: object = None,
        dtype: object = None,
    ) -> None:
        super().__init__()
        cutoffs = list(cutoffs)
        if not cutoffs:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        increasing = cutoffs == sorted(set(cutoffs)) and all(int(c) == c for c in cutoffs)
        if not increasing or min(cutoffs) <= 0 or max(cutoffs) > n_classes - 1:
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where each "
                "value is between 1 and n_classes-1"
            )
        self.in_features, self.n_classes, self.div_value, self.head_bias = in_features, n_classes, div_value, head_bias
        self.cutoffs = [*cutoffs, n_classes]
        self.shortlist_size, self.n_clusters = self.cutoffs[0], len(cutoffs)
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias, dtype=dtype)
        self.tail = ModuleList()
        for i, (low, high) in enumerate(zip(self.cutoffs, self.cutoffs[1:], strict=False)):
            inner = int(in_features // div_value ** (i + 1))
            project = Linear(in_features, inner, bias=False, dtype=dtype)
            self.tail.append(Sequential(project, Linear(inner, high - low, bias=False, dtype=dtype)))

    def reset_parameters(self) -> None:
        """Draw all weights anew."""
        self.head.reset_parameters()
        for project, out in self.tail:
            project.reset_parameters()
            out.reset_parameters()

    def forward(self, input: Tensor, target: Tensor) -> ASMoutput:
        """(log probability of each target, mean loss). RuntimeError for shapes or targets that do not fit."""
        single = target.ndim == 0
        if not single and (target.ndim != 1 or input.ndim != 2 or input.shape[0] != target.shape[0]):
            raise RuntimeError("Input and target should have the same size in the batch dimension.")
        if single and input.ndim != 1:
            raise RuntimeError("0D target tensor expects 1D input tensor, but found inputs with size", input.shape)
        x, y = (input.unsqueeze(0), target.unsqueeze(0)) if single else (input, target)
        if y.numel() and not (0 <= int(y.min()) and int(y.max()) < self.n_classes):
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range [{int(y.min())}, "
                f"{int(y.max())}] were found. "
            )
        head = F.log_softmax(self.head(x), 1)
        column = y.clone()
        extra = x.new_zeros(y.shape[0])
        for i, (low, high) in enumerate(zip(self.cutoffs, self.cutoffs[1:], strict=False)):
            rows = ((y >= low) & (y < high)).nonzero().squeeze(1)
            if rows.numel() == 0:
                continue
            column = column.index_fill(0, rows, self.shortlist_size + i)
            inside = F.log_softmax(self.tail[i](x.index_select(0, rows)), 1)
            extra = extra.index_copy(0, rows, inside.gather(1, (y[rows] - low).unsqueeze(1)).squeeze(1))
        output = extra + head.gather(1, column.unsqueeze(1)).squeeze(1)
        loss = (-output).mean()
        return ASMoutput(output.squeeze(0) if single else output, loss)

    def log_prob(self, input: Tensor) -> Tensor:
        """Log probabilities of all classes, (N, n_classes)."""
        head = F.log_softmax(self.head(input), 1)
        parts = [head[:, : self.shortlist_size]]
        for i, cluster in enumerate(self.tail):
            parts.append(F.log_softmax(cluster(input), 1) + head[:, self.shortlist_size + i].unsqueeze(1))
        return fusegrad.cat(parts, 1)

    def predict(self, input: Tensor) -> Tensor:
        """The most probable class of each row; tails are computed only for rows whose head points to them."""
        best = self.head(input).argmax(1)
        rows = (best >= self.shortlist_size).nonzero().squeeze(1)
        if rows.numel() == 0:
            return best
        return best.index_copy(0, rows, self.log_prob(input[rows]).argmax(1))
