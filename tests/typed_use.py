"""What a type checker says of the decorators: they keep the type of what they decorate. Checked by typecheck.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_type

import fusegrad
from fusegrad import Tensor, nn


@fusegrad.compile
def bare(x: Tensor, k: int = 2) -> tuple[Tensor, int]:
    return x, k


@fusegrad.compile(fullgraph=True, dynamic=False)
def with_options(x: Tensor) -> Tensor:
    return x


@fusegrad.no_grad()
def without_grad(x: Tensor) -> int:
    return 1


@fusegrad.inference_mode()
def inferring(x: Tensor) -> str:
    return ""


class Net(nn.Module):
    width: int = 3


def uses(x: Tensor) -> None:
    assert_type(bare(x, k=3), tuple[Tensor, int])
    assert_type(with_options(x), Tensor)
    assert_type(without_grad(x), int)
    assert_type(inferring(x), str)
    assert_type(fusegrad.compile(Net()), Net)
    assert_type(fusegrad.compile(Net(), mode="default").width, int)
    plain: Callable[[Tensor], Tensor] = with_options
    del plain
