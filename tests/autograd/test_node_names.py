"""Nodes have PyTorch's names and next functions: ``node_names_of_torch.txt`` holds them for every kind of call.

Left out are calls that are other operators here (convolutions without a bias, recurrent layers, interpolation).
"""

import pathlib

import pytest

import fusegrad as torch
from fusegrad import nn
from fusegrad.nn import functional as F

LINES = pathlib.Path(__file__).with_name("node_names_of_torch.txt").read_text().splitlines()


def leaf(*shape):
    return torch.rand(*shape).requires_grad_()


@pytest.fixture(scope="module")
def values():
    torch.manual_seed(0)
    x = leaf(4, 4)
    symmetric = (x.detach() @ x.detach().T + torch.eye(4)).requires_grad_()
    return {
        "torch": torch, "F": F, "nn": nn, "T": leaf, "x": x, "y": leaf(4, 4), "v": leaf(4), "c": leaf(2, 3, 8),
        "im": leaf(2, 4, 8, 8), "i": torch.tensor([0, 1, 2, 3]), "m": torch.tensor([[True, False, True, False]] * 4),
        "spd": symmetric,
    }  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("line", LINES, ids=[x.split(" | ")[0] for x in LINES])
def test_names(line, values):
    call, name, edges = line.split(" | ") if line.count(" | ") == 2 else (*line.rstrip(" |").split(" | "), "")
    node = eval(call, dict(values)).grad_fn
    assert node.name() == name and type(node).__name__ == name.rpartition("::")[2]
    names = ["-" if f is None else f.name().rpartition("::")[2] for f, _ in node.next_functions]
    assert " ".join(names) == edges


def test_operands_of_composites_lead_to_the_leaves():
    x, y = leaf(3), leaf(3)
    node = F.mse_loss(x * 2, y).grad_fn
    (a, _), (b, _) = node.next_functions
    assert a.name() == "MulBackward0" and b.variable is y
    assert a.next_functions[0][0].variable is x
    assert (x @ y.detach()).grad_fn.next_functions[1] == (None, 0)


def test_an_operand_that_is_returned_keeps_its_node():
    x = leaf(2, 2) * 1
    node = x.grad_fn
    torch.roll(x, 0)
    F.group_norm(x[None], 1)
    assert x.grad_fn is node and node.name() == "MulBackward0"


def test_a_choice_between_a_tensor_and_a_number_is_a_where():
    x = leaf(2, 2)
    assert torch.where(x > 0, x, 1.0).grad_fn.name() == x.where(x > 0, 2.0).grad_fn.name() == "WhereBackward0"
    assert x.masked_fill(x > 0, 1.0).grad_fn.name() == "MaskedFillBackward0"
    assert x.masked_fill(x > 0, torch.tensor(1.0)).grad_fn.name() == "MaskedFillBackward1"
