"""Texts that a recorded program makes of sizes and tensors: what may decide something is refused."""

from __future__ import annotations

import json
import logging
import warnings
from typing import Any

import pytest
from fusegrad.export import ConstraintError, Dim, ExportError, export

import fusegrad as T

N = {"x": {0: Dim("n", min=1, max=200)}}

DECIDING: dict[str, Any] = {
    "str": lambda x: x * 2 if str(x.shape[0]) == "3" else x * 3,
    "repr": lambda x: x * 2 if repr(x.shape[0]) == "3" else x * 3,
    "format": lambda x: x * 2 if format(x.shape[0]) == "3" else x * 3,
    "an f-string": lambda x: x * 2 if f"a{x.shape[0]:d}" == "a3" else x * 3,
    "a formatted one": lambda x: x * 2 if "{}".format(x.shape[0]) == "3" else x * 3,  # noqa: UP032
    "percent": lambda x: x * 2 if "%s" % x.shape[0] == "3" else x * 3,  # noqa: UP031
    "joined": lambda x: x * 2 if "n" + str(x.shape[0]) == "n3" else x * 3,
    "its length": lambda x: x * len(str(x.shape[0])),
    "a key": lambda x: {"3": x * 2}.get(str(x.shape[0]), x * 3),
    "of the shape": lambda x: x * 2 if "3" in str(x.shape) else x * 3,
    "of a tuple": lambda x: x * 2 if str(tuple(x.shape)) == "(3,)" else x * 3,
    "of a number of elements": lambda x: x * 2 if f"{x.numel()}" == "3" else x * 3,
    "of the tensor": lambda x: x * 2 if "3" in repr(x) else x * 3,
    "of the tensor, formatted": lambda x: x * 2 if "3" in f"{x}" else x * 3,
    "of half a size": lambda x: x * 2 if str(x.shape[0] / 2) == "1.5" else x * 3,
    "kept": lambda x: x * 2 if f"{x.shape[0]}" else x * 3,
    "of the standard library": lambda x: x * len(json.dumps({"n": str(x.shape[0])})),
}


@pytest.mark.parametrize("name", DECIDING)
def test_a_text_that_may_decide_something_is_refused(name: str) -> None:
    """(the size's name was what it was made of: every call took the same way)"""
    with pytest.raises((ConstraintError, ExportError), match="test_texts.py.* text of"):
        export(lambda x: DECIDING[name](x), (T.ones(3),), dynamic_shapes=N)


@pytest.mark.parametrize("name", [k for k in DECIDING if "the tensor" not in k and "half" not in k])
def test_texts_of_sizes_that_are_fixed_are_the_numbers(name: str) -> None:
    f = DECIDING[name]
    for dims in (None, {"x": {0: Dim.AUTO}}):
        program = export(lambda x: f(x), (T.ones(3),), dynamic_shapes=dims).module()
        assert program(T.ones(3)).tolist() == f(T.ones(3)).tolist()


def _shows(x: Any) -> Any:
    n = x.shape[0]
    print(n, f"{x.shape} of {n}", "%s" % n, x)  # noqa: UP031
    logging.getLogger("programs").debug("size %s of %s", n, x)
    logging.getLogger("programs").info(f"size {n}")
    warnings.warn(f"size {n}", stacklevel=1)
    assert n > 0, f"size {n}"
    if n > 200:
        raise ValueError(f"size {n}")
    return x * 2


def test_texts_that_are_only_shown_are_allowed(capsys: Any) -> None:
    with pytest.warns(UserWarning, match="size n"):
        program = export(_shows, (T.ones(3),), dynamic_shapes=N).module()
    assert capsys.readouterr().out.startswith("n fusegrad.Size([n]) of n n")
    assert program(T.ones(5)).tolist() == [2.0] * 5


def test_an_error_of_the_program_is_its_own() -> None:
    def f(x: Any) -> Any:
        message = f"shape {x.shape}"
        raise ValueError(message)

    with pytest.raises(ValueError, match=r"shape fusegrad.Size\(\[n\]\)"):
        export(f, (T.ones(3),), dynamic_shapes=N)
