"""Tensors that share memory, in files: they share it again when they are loaded, with their strides."""

import collections
import io
import json
import zipfile

import numpy as np
import pytest

import fusegrad as torch
from fusegrad.serialization import _MEMBERS, _pack


def written(obj):
    b = io.BytesIO()
    torch.save(obj, b)
    return b.getvalue()


def again(obj):
    return torch.load(io.BytesIO(written(obj)))


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (1, 2)])
def test_parts_of_one_tensor(order):
    x = torch.arange(6.0)
    all_of_them = [x, x[2:], x.view(2, 3).t()]
    loaded = again([all_of_them[i] for i in order])
    back = dict(zip(order, loaded, strict=True))
    for i, t in back.items():
        assert t.tolist() == all_of_them[i].tolist() and t.stride() == all_of_them[i].stride()
    back[1][0] = 100.0
    assert back[2][2, 0] == 100.0 and (0 not in back or back[0][2] == 100.0)
    assert back[1]._version == back[2]._version == 1


def test_the_same_tensor_stays_one_object():
    x = torch.arange(3.0)
    a, b, c = again([x, x, x[:]])
    assert a is b and a is not c
    a.fill_(2.0)
    assert c.tolist() == [2.0] * 3


@pytest.mark.parametrize("make", [
    lambda: torch.zeros(1, 3).expand(4, 3), lambda: torch.rand(4, 3).t(), lambda: torch.rand(2, 3, 4).permute(2, 0, 1),
    lambda: torch.arange(5.0).unfold(0, 3, 1),
])  # fmt: skip
def test_strides_of_dense_and_overlapping_tensors(make):
    x = make()
    y = again(x)
    assert y.stride() == x.stride() and y.tolist() == x.tolist()


def test_parts_apart_from_each_other_are_stored_by_themselves():
    x = torch.zeros(1000)
    assert len(written([x[:2], x[500:502]])) < 2000 and len(written(x[3:5])) < 2000
    a, b = again([x[:2], x[500:502]])
    assert a.tolist() == b.tolist() == [0.0, 0.0]


def test_tied_parameters_and_other_dtypes_of_the_same_memory():
    m = torch.nn.Linear(2, 2)
    saved = again({"a": m.weight.data, "b": m.weight.data.view(-1), "i": torch.arange(3), "e": torch.zeros(0)})
    saved["a"].fill_(3.0)
    assert saved["b"].tolist() == [3.0] * 4 and saved["i"].tolist() == [0, 1, 2] and saved["e"].shape == (0,)


@pytest.mark.parametrize("window", [
    ["t0", 3, [4], [1]], ["t0", -1, [2], [1]], ["t0", 0, [2], [-1]], ["t9", 0, [2], [1]], ["t0", 0, [1 << 70], [0.5]],
    ["t0", 0, [0], [1]], ["t0", 0, [2, 2], [1]], [], None,
])  # fmt: skip
def test_parts_that_are_not_inside_are_refused(window):
    x = torch.arange(6.0)
    with zipfile.ZipFile(io.BytesIO(written([x, x[2:]]))) as z:
        parts = [z.read(n) for n in _MEMBERS]
    head = json.loads(parts[0])
    name = next(n for n, w in head["windows"].items() if w[1])
    head["windows"][name] = window
    content = _pack((json.dumps(head).encode(), *parts[1:]))
    with pytest.raises(RuntimeError, match="load:"):
        torch.load(io.BytesIO(content))


def test_files_without_shared_parts_keep_the_first_version():
    with zipfile.ZipFile(io.BytesIO(written([torch.zeros(2), np.ones(2)]))) as z:
        assert json.loads(z.read("format.json"))["version"] == 1


def test_containers_in_several_places_are_one_again():
    several, inner, names = [1, torch.ones(2)], {"x": [2]}, {"a", "b"}
    counts, pairs = collections.Counter("aab"), collections.OrderedDict(k=several)
    obj = {
        "a": several, "b": (several, [several]), "c": inner, "d": [inner, inner["x"]], "e": [names, names],
        "f": [counts, counts], "g": [pairs, pairs], "alone": [1, 2],
    }  # fmt: skip
    obj["self"] = obj
    several.append(several)
    t = torch.ones(3)
    t.note = several
    obj["t"] = t
    back = again(obj)
    assert back["self"] is back and back["a"][2] is back["a"] and back["b"][0] is back["a"] is back["b"][1][0]
    assert back["t"].note is back["a"] is back["g"][0]["k"]
    assert back["d"][0] is back["c"] and back["d"][1] is back["c"]["x"] == [2]
    for k, kind in (("e", set), ("f", collections.Counter), ("g", collections.OrderedDict)):
        assert back[k][0] is back[k][1] and type(back[k][0]) is kind
    assert back["e"][0] == names and back["f"][0] == counts and back["alone"] == [1, 2]


def test_files_without_shared_containers_are_as_before():
    with zipfile.ZipFile(io.BytesIO(written({"a": [1], "b": [1], "c": (), "d": ()}))) as z:
        assert json.loads(z.read(_MEMBERS[0]))["version"] == 1
    with zipfile.ZipFile(io.BytesIO(written([one := [1], one]))) as z:
        assert json.loads(z.read(_MEMBERS[0]))["version"] == 4
