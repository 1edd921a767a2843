"""What does not exist says why, and what to use instead."""

import importlib

import pytest

import fusegrad as torch
from fusegrad.unsupported import ABSENT


@pytest.mark.parametrize("name", ABSENT)
def test_absent_names_say_why(name):
    *path, last = name.split(".")
    owner = importlib.import_module(".".join(["fusegrad", *path])) if path and path[0] != "linalg" else torch
    owner = torch.linalg if path == ["linalg"] else owner
    assert not hasattr(owner, last)
    why, instead = ABSENT[name]
    with pytest.raises(AttributeError) as e:
        getattr(owner, last)
    assert str(e.value).startswith(f"module '{owner.__name__}' has no attribute {last!r}: {why}. Instead: {instead}")


def test_other_names_are_ordinary_errors():
    for owner in (torch, torch.nn, torch.linalg, torch.utils, torch.autograd, torch.nn.functional):
        with pytest.raises(AttributeError, match=f"^module '{owner.__name__}' has no attribute 'nonsense'$"):
            owner.nonsense  # noqa: B018


def test_programs_may_ask():
    @torch.compile(fullgraph=True)
    def f(x):
        return x * 2 if hasattr(torch, "bfloat16") else x * 3

    assert f(torch.ones(2)).tolist() == [3.0, 3.0]


def test_sparse_gradients_are_told_of():
    torch.nn.sparse._tell_of_dense.cache_clear()
    with pytest.warns(UserWarning, match="dense tensor"):
        table = torch.nn.Embedding(4, 2, sparse=True)
    table(torch.tensor([1, 1])).sum().backward()
    assert table.weight.grad.tolist() == [[0.0, 0.0], [2.0, 2.0], [0.0, 0.0], [0.0, 0.0]]
