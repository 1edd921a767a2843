"""Memory shared with numpy and others: DLPack; memory that can't be written to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fusegrad as fg


def test_dlpack_shares_memory_both_ways() -> None:
    a = np.arange(6.0).reshape(2, 3)
    t = fg.from_dlpack(a)
    assert t.dtype is fg.float64 and t.shape == (2, 3)
    t[0, 0] = 7
    assert a[0, 0] == 7
    back = np.from_dlpack(t[:, 1:])
    back[0, 0] = 8
    assert a[0, 1] == 8 and t.__dlpack_device__() == (1, 0)
    assert fg.from_dlpack(fg.arange(3)).tolist() == [0, 1, 2]
    with pytest.raises(BufferError, match="detach"):
        np.from_dlpack(fg.ones(2, requires_grad=True))
    with pytest.raises((AttributeError, TypeError)):
        fg.from_dlpack([1.0])


def _constant(n: int = 4) -> fg.Tensor:
    return fg.from_numpy(np.frombuffer(np.arange(n, dtype=np.float32).tobytes(), np.float32))


def _set(x: fg.Tensor) -> None:
    x[0] = 1


CHANGES: dict[str, Callable[[fg.Tensor], Any]] = {
    "add_": lambda x: x.add_(1),
    "copy_": lambda x: x.copy_(fg.ones(x.shape)),
    "zero_": lambda x: x.zero_(),
    "relu_": fg.nn.functional.relu_,
    "item": _set,
    "view": lambda x: x[1:].mul_(2),
    "after others": lambda x: (x.sum() * 2, x.sin_()),
}


@pytest.mark.parametrize("n", [4, 100_000])
@pytest.mark.parametrize("name", CHANGES)
def test_memory_that_is_only_read(name: str, n: int) -> None:
    for f in (CHANGES[name], fg.compile(CHANGES[name])):
        x = _constant(n)
        with pytest.raises(RuntimeError, match="read-only"):
            f(x)
        assert x.tolist() == list(range(n)) and x._version == 0


@pytest.mark.parametrize("kind", [fg.optim.SGD, fg.optim.Adam])
def test_parameters_that_are_only_read(kind: Any) -> None:
    """The state of the optimizer is as before, in eager code and compiled."""

    def step(p: fg.Tensor, optimizer: Any) -> None:
        optimizer.zero_grad()
        (p * 2).sum().backward()
        optimizer.step()

    for f in (step, fg.compile(step)):
        p = fg.nn.Parameter(_constant())
        optimizer = kind([p], lr=0.1)
        with pytest.raises(RuntimeError, match="read-only"):
            f(p, optimizer)
        assert p.tolist() == [0, 1, 2, 3] and p.grad is not None
        assert all(v.sum() == 0 for k, v in optimizer.state.get(p, {}).items() if k != "step")
