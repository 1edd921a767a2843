"""The dtype of the result, or the class of the error, for every dtype and mix of two: ``dtypes_of_torch.txt``.

Each line: a call, and for each verdict of PyTorch's ("!" before an error) the dtypes of x, or of x and y.
"""

import pathlib
import re

import pytest

import fusegrad as torch
from fusegrad.accepts import REFUSED, SAME
from fusegrad.nn import functional as F

LINES = pathlib.Path(__file__).with_name("dtypes_of_torch.txt").read_text().splitlines()
DTYPES = {
    "f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "i64": torch.int64, "i32": torch.int32,
    "u8": torch.uint8, "b": torch.bool,
}  # fmt: skip


def verdict(call, kinds):
    xs = [torch.ones(4, 4).to(DTYPES[k]) for k in kinds.split(",")]
    try:
        out = eval(call, {"torch": torch, "F": F, **dict(zip("xy", xs, strict=False))})
    except Exception as e:
        return "!" + type(e).__name__.strip("_")
    return str(out.dtype).rpartition(".")[2] if hasattr(out, "dtype") else type(out).__name__


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("line", LINES, ids=[x.split(" | ")[0] for x in LINES])
def test_dtypes(line):
    call, verdicts = line.rsplit(" | ", 1)
    for part in verdicts.split("; "):
        want, *kinds = part.split()
        for k in kinds:
            assert verdict(call, k) == want, f"{call} of {k}"


@pytest.mark.parametrize("name", [*REFUSED, *SAME])
def test_refusals_are_of_public_functions_and_are_in_the_list(name):
    target = torch
    for part in name.split("."):
        target = getattr(target, part)
    assert callable(target)
    short = name.rpartition(".")[2]
    rare = ("3d", "rrelu", "prelu", "trapz", "nanquantile", "batch_norm")
    assert short.endswith(rare) or any(re.search(rf"\b{short}\(", x) and "!" in x for x in LINES)
