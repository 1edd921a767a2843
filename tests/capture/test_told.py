"""What ``explain`` prints, and mistakes in the arguments of ``compile`` and the marks."""

from __future__ import annotations

from typing import Any

import pytest

import fusegrad as T
from fusegrad import nn


def test_an_explanation_is_short_and_says_what_to_do() -> None:
    net = nn.Sequential(*[nn.Linear(3, 3) for _ in range(12)])

    def f(x: Any) -> Any:
        y = net(x)
        if y.sum() > 0:
            y = y * 2
        return y + 1

    told = T.compiler.explain(T.compile(f))(T.ones(2, 3))
    text = str(told)
    line = f.__code__.co_firstlineno + 2
    assert text.startswith("2 graph(s), 1 graph break(s)\n") and len(text.splitlines()) == 6  # 24 parameters: long
    assert f"break: {__file__}:{line}: FG001 data-dependent branch" in text
    assert "fusegrad.where(condition, a, b)" in text and "docs/breaks/FG001.md" in text
    assert f"f: a graph of {len(told.graphs[0].nodes)} operators, " in text
    assert "from line " in text and text.endswith("all guards, code and graphs: .details()")
    whole = told.details()
    assert all(f"guard: {g}" in whole for g in told.guards) and "nn.functional.linear(" in whole
    short = T.compiler.explain(T.compile(lambda x: x * 2))(T.ones(3))
    assert "mul(x, 2)" in str(short) and "guard: x._data.shape == (3,)" in str(short)


@pytest.mark.parametrize(
    ("given", "kind", "words"),
    [
        ({"backend": "foo"}, RuntimeError, "no backend 'foo'"),
        ({"backend": lambda g, x: g}, RuntimeError, "no backend"),
        ({"mode": "fastest"}, RuntimeError, "unrecognized mode 'fastest'"),
        ({"dynamic": "yes"}, TypeError, "True, False or None"),
        ({"dynamic": 1}, TypeError, "True, False or None"),
    ],
)
def test_unknown_ways_to_compile_are_refused(given: Any, kind: type, words: str) -> None:
    with pytest.raises(kind, match=words):
        T.compile(lambda x: x, **given)
    with pytest.raises(kind, match=words):
        T.compile(**given)


def test_names_of_pytorch_mean_the_only_backend() -> None:
    for given in ({"backend": "inductor"}, {"mode": "max-autotune"}, {"backend": "eager", "mode": "default"}):
        f: Any = T.compile(lambda x: x * 2, **given)  # type: ignore[call-overload]
        assert f(T.ones(2)).tolist() == [2.0, 2.0]


@pytest.mark.parametrize("mark", [T.compiler.mark_dynamic, T.compiler.mark_static])
def test_marks_name_what_is_wrong(mark: Any) -> None:
    with pytest.raises(IndexError, match="Dimension out of range"):
        mark(T.ones(2), 5)
    with pytest.raises(IndexError, match="Dimension out of range"):
        mark(T.ones(2, 3), (0, -3))
    with pytest.raises(TypeError, match="must be Tensor, not int"):
        mark(3, 0)


def test_a_module_without_super_init_says_so() -> None:
    class Plain(nn.Module):
        def __init__(self) -> None:
            self.k = 3

        def forward(self, x: Any) -> Any:
            return x * self.k

    with pytest.raises(AttributeError, match=r"super\(\).__init__\(\)"):
        Plain()(T.ones(2))
    with pytest.raises(AttributeError, match="has no attribute 'k'$"):
        _ = nn.Linear(1, 1).k


def test_a_dtype_given_as_a_string_is_named() -> None:
    with pytest.raises(RuntimeError, match="no device 'float32'; the dtype is fusegrad.float32"):
        T.ones(2).to("float32")
    with pytest.raises(RuntimeError, match="use device='cpu'"):
        T.ones(2).to("cuda:0")
