"""What ``save`` keeps, what it refuses, and files of other programs that ``load`` reads or refuses with the reason."""

import io
import json
import struct
from typing import Any

import numpy as np
import pytest

import fusegrad as torch
from fusegrad.serialization import _MEMBERS, _pack


def written(obj: Any) -> bytes:
    b = io.BytesIO()
    torch.save(obj, b)
    return b.getvalue()


def again(obj: Any) -> Any:
    return torch.load(io.BytesIO(written(obj)))


# ---- attributes of tensors, classes ----
@pytest.mark.parametrize("make", [lambda: torch.ones(2), lambda: torch.nn.Parameter(torch.ones(2))])
def test_attributes_of_tensors_are_kept(make: Any) -> None:
    t = make()
    t.scale, t.notes, t.twin = 0.5, ["a", None], torch.zeros(3)
    a, b = again([t, t])
    assert a is b and type(a) is type(t) and a.scale == 0.5 and a.notes == ["a", None] and a.twin.tolist() == [0] * 3
    assert not again(torch.ones(2)).__dict__


def test_attributes_that_a_file_can_not_hold_are_refused() -> None:
    t = torch.ones(2)
    t.owner = object()
    with pytest.raises(TypeError, match=r"type object at object\['w'\]\.owner"):
        written({"w": t})
    t = torch.ones(2)
    t.__dict__["sum"] = 3
    with pytest.raises(TypeError, match="'sum' of the tensor at object would hide"):
        written(t)


@pytest.mark.parametrize("name", ["sum", "__class__", "a b", "", "_data", 3])
def test_a_file_can_not_hide_what_tensors_have(name: Any) -> None:
    t = {"k": "tensor", "n": 0, "v": "t0", "g": False, "a": [[name, 3]]}
    _, _, arrays = _members(written(torch.ones(2)))
    head = json.dumps({"format": "fusegrad-state", "version": 3}).encode()
    with pytest.raises(RuntimeError, match="would hide"):
        torch.load(io.BytesIO(_pack((head, json.dumps(t).encode(), arrays))))


def _members(data: bytes) -> list[bytes]:
    import zipfile

    with zipfile.ZipFile(io.BytesIO(data)) as z:
        return [z.read(n) for n in _MEMBERS]


def test_files_say_the_lowest_version_that_reads_them() -> None:
    t = torch.ones(2)
    t.note = "x"
    x = torch.arange(4.0)
    buffers = [torch.nn.Buffer(x * 1), torch.nn.Buffer(x * 1, persistent=False)]
    assert [b.persistent for b in again(buffers)] == [True, False]
    for obj, want in (
        (buffers[:1], 1),
        ({"a": torch.ones(2), "b": b"x"}, 1),
        ([x, x[1:]], 2),
        (t, 3),
        ([bytearray(b"x")], 3),
    ):
        assert json.loads(_members(written(obj))[0])["version"] == want


@pytest.mark.parametrize("base", [torch.Tensor, torch.nn.Parameter])
def test_a_class_of_the_user_is_not_lost_silently(base: Any) -> None:
    kind = type("Masked", (base,), {})
    made = [kind(torch.ones(2)) if base is torch.nn.Parameter else kind([1.0, 2.0])]
    with pytest.raises(TypeError, match=r"Masked at object\[0\]: a file holds no classes"):
        written(made)


def test_kinds_of_bytes_stay() -> None:
    a, b = again([bytearray(b"\0x"), b"\0x"])
    assert type(a) is bytearray and type(b) is bytes and a == b == b"\0x"


# ---- safetensors files of other programs ----
def safetensors(header: dict, body: bytes = b"", length: int = 0) -> io.BytesIO:
    text = json.dumps(header).encode()
    text += b" " * (length - len(text))
    return io.BytesIO(struct.pack("<Q", len(text)) + text + body)


def entry(kind: str, shape: list[int], size: int) -> dict:
    return {"a": {"dtype": kind, "shape": shape, "data_offsets": [0, size]}}


@pytest.mark.parametrize("length", [0x4B50, 0x14B50])
def test_a_header_whose_length_begins_like_a_zip(length: int) -> None:
    body = np.arange(4, dtype="f4").tobytes()
    loaded = torch.load(safetensors(entry("F32", [4], 16), body, length))
    assert loaded["a"].tolist() == [0.0, 1.0, 2.0, 3.0]
    loaded["a"].add_(1)


@pytest.mark.parametrize(("kind", "size"), [("BF16", 2), ("F8_E4M3", 1), ("F8_E5M2", 1), ("U16", 2), ("U32", 4)])
def test_dtypes_that_are_not_here_are_named(kind: str, size: int) -> None:
    name = {"U16": "uint16", "U32": "uint32"}.get(kind, kind)
    with pytest.raises(RuntimeError, match=f"'a' has dtype {name}, which fusegrad does not have"):
        torch.load(safetensors(entry(kind, [3], 3 * size), b"\0" * 3 * size))


def test_bools_are_zero_or_one() -> None:
    assert torch.load(safetensors(entry("BOOL", [2], 2), b"\1\0"))["a"].tolist() == [True, False]
    with pytest.raises(RuntimeError, match="'a' holds a bool that is neither 0 nor 1"):
        torch.load(safetensors(entry("BOOL", [2], 2), b"\2\1"))
