"""Saved programs: same program, same bytes; atomic saves; refusal of anything that is not a good file."""

import hashlib
import io
import json
import os
import pathlib
import pickle
import resource
import struct
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from fusegrad.export import Dim, FileError, VersionError
from fusegrad.export.archive import pack
from fusegrad.export.plain_json import load as load_json
from fusegrad.export.schema import VERSION
from fusegrad.export.tensors import pack_tensors, unpack_tensors

import fusegrad as T
from fusegrad import export as E


class Rich(T.nn.Module):
    """A bit of everything that the format holds."""

    def __init__(self):
        super().__init__()
        self.lin = T.nn.Linear(5, 3)
        self.register_buffer("n", T.zeros(3))
        self.c = T.ones(3) * 2

    def forward(self, x, k=2, f=0.5):
        self.n.add_(1)
        y = self.lin(x) * k + self.n * self.c
        z = T.cat([y.view(-1, 3), y.transpose(0, 1).reshape(-1, 3)], 0)[1:, :2].clamp(min=-1.0)
        drop = T.nn.functional.dropout(y.detach(), f, True)
        return {
            "a": z.sum(0, keepdim=True),
            "b": (drop.argmax(1), x.shape[0] * 2),
            "c": T.where(y > 0, y, float("inf")),
        }


@pytest.fixture(scope="module")
def good():
    """The bytes of a good file."""
    program = E.export(Rich(), (T.ones(2, 5),), dynamic_shapes=({0: Dim("batch", min=1, max=100)},))
    f = io.BytesIO()
    E.save(program, f)
    return f.getvalue()


@pytest.fixture(scope="module")
def parts(good):
    with zipfile.ZipFile(io.BytesIO(good)) as z:
        return {n: z.read(n) for n in z.namelist()}


def loads(data):
    return E.load(io.BytesIO(data))


def refused(data, match=None):
    with pytest.raises(FileError, match=match) as info:
        loads(data)
    assert str(info.value).startswith("load: ")


def repack(parts, compression=zipfile.ZIP_STORED, extra=()):
    """A zip as another tool would write it."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as z:
        for name, data in [*parts.items(), *extra]:
            z.writestr(name, data)
    return out.getvalue()


def forge(parts, **changes):
    """A file whose checksums are right although a member was replaced."""
    new = {**parts, **{k.replace("_", "."): v for k, v in changes.items()}}
    head = json.loads(new["format.json"])
    for name in ("graph.json", "weights.safetensors"):
        head["members"][name] = {"bytes": len(new[name]), "sha256": hashlib.sha256(new[name]).hexdigest()}
    return pack({**new, "format.json": json.dumps(head).encode()})


# ---- good files ----
def test_the_same_program_gives_the_same_bytes(good, tmp_path):
    a, b = tmp_path / "a.fgx", tmp_path / "b.pt2"
    E.save(loads(good), a)
    E.save(E.load(a), str(b))
    assert a.read_bytes() == b.read_bytes() == good
    assert sorted(os.listdir(tmp_path)) == ["a.fgx", "b.pt2"], "no temporary files are left"


def test_a_file_packed_again_by_another_tool_still_loads(parts):
    assert loads(repack(parts)).signature_text() == loads(forge(parts)).signature_text()


def test_other_programs_read_the_weights(parts):
    from safetensors.numpy import load

    arrays = load(parts["weights.safetensors"])
    assert sorted(arrays) == ["constant:0", "lin.bias", "lin.weight", "n"]
    assert arrays["lin.weight"].shape == (3, 5)


def test_tensors_of_all_dtypes_and_shapes_survive():
    arrays = {
        "b": np.array([True, False]),
        "e": np.zeros((0, 3), np.float16),
        "s": np.array(3.5),
        "i": np.arange(5, dtype=np.int8),
        "t": np.arange(6, dtype=np.int16).reshape(2, 3).T,
        "n": np.array([np.nan, -0.0, np.inf], np.float32),
        "u": np.array([255], np.uint8),
        "l": np.array([-(2**63)]),
        "big": np.arange(3, dtype=">i4").astype(np.int32),
    }
    back = unpack_tensors(memoryview(pack_tensors(arrays)))
    for k, a in arrays.items():
        assert back[k].dtype == a.dtype and back[k].shape == a.shape and back[k].tobytes() == a.tobytes()
        assert back[k].flags.writeable and back[k].flags.c_contiguous


def test_a_fresh_process_needs_no_source(tmp_path):
    E.save(E.export(T.nn.Sequential(T.nn.Linear(3, 2), T.nn.Tanh()), (T.ones(4, 3),)), tmp_path / "m.fgx")
    code = f"import fusegrad as T; print(T.export.load({str(tmp_path / 'm.fgx')!r}).module()(T.ones(4, 3)).shape)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert done.stdout.strip() == "fusegrad.Size([4, 2])"


def test_misuse_of_save_and_load(good, tmp_path, monkeypatch):
    program = loads(good)
    with pytest.raises(TypeError, match="expected an ExportedProgram"):
        E.save(T.nn.Linear(1, 1), tmp_path / "x")
    with pytest.raises(FileNotFoundError, match="no folder"):
        E.save(program, tmp_path / "no" / "x")
    with pytest.raises(IsADirectoryError):
        E.save(program, tmp_path)
    with pytest.raises(FileNotFoundError, match="no file"):
        E.load(tmp_path / "none")
    with pytest.raises(IsADirectoryError, match="is a directory"):
        E.load(tmp_path)
    (tmp_path / "old").write_bytes(b"old")
    monkeypatch.setattr(os, "replace", lambda *a: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        E.save(program, tmp_path / "old")
    assert (tmp_path / "old").read_bytes() == b"old" and os.listdir(tmp_path) == ["old"]


def test_the_fixture_of_version_1_0_loads():
    path = pathlib.Path(__file__).parent / "fixtures" / "v1_0.fgx"
    program = E.load(path)
    out = program.module(compile=False)(T.ones(3, 5))
    assert out["a"].shape == (1, 2) and out["b"][1] == 6 and out["c"].shape == (3, 3)
    assert program.range_constraints == {"batch": (1, 100)}


def test_the_fixture_of_version_1_3_loads():
    out = E.load(pathlib.Path(__file__).parent / "fixtures" / "v1_3.fgx").module(compile=False)(T.ones(2, 3))
    assert (type(out).__name__, out.loss.item(), out.rows) == ("Result", 6, 2)


# ---- bad files ----
def test_every_flipped_bit_is_noticed(good):
    for at in range(len(good)):
        data = bytearray(good)
        data[at] ^= 1 << at % 8
        refused(bytes(data))


def test_every_truncation_and_anything_appended_is_noticed(good):
    for cut in range(0, len(good), 7):
        refused(good[:cut])
    for cut in range(1, 120):
        refused(good[:-cut])
    refused(good + b"\0")
    refused(b"\0" + good)
    refused(good + good)


def test_garbage(good):
    other = io.BytesIO()
    np.savez(other, a=np.ones(3))
    for data in (
        b"",
        b"hello world" * 50,
        bytes(range(256)) * 40,
        pickle.dumps({"a": 1}),
        other.getvalue(),
        repack({"a.txt": b"hello"}),
        b"PK\x03\x04" + b"\0" * 500,
        good[:-22] + b"PK\x05\x06" + b"\0" * 18,
        b"PK\x05\x06" + b"\0" * 18,
    ):
        refused(data)


def test_hostile_zips(parts, tmp_path):
    bomb = repack({**parts, "graph.json": b" " * (200 << 20)}, zipfile.ZIP_DEFLATED)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused(bomb, "compressed")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20 << 10
    refused(repack(parts, extra=[("../evil", b"x")]), "4 members")
    with pytest.warns(UserWarning):
        refused(repack(parts, extra=[("graph.json", parts["graph.json"])]), "4 members")
    renamed = {("../graph.json" if k == "graph.json" else k): v for k, v in parts.items()}
    refused(repack(renamed), "its members are")
    with pytest.warns(UserWarning):
        twice = {k: v for k, v in parts.items() if k != "graph.json"}
        refused(repack(twice, extra=[("format.json", parts["format.json"])]), "its members are")
    assert not (tmp_path / "evil").exists()


def test_overlapping_members_and_lying_headers(parts):
    data = bytearray(repack(parts))
    central = data.index(b"PK\x01\x02")
    second = data.index(b"PK\x01\x02", central + 1)
    for at, fmt, value in (
        (second + 42, "<I", 0),
        (second + 42, "<I", 2**32 - 1),
        (second + 24, "<I", 2**32 - 1),
        (second + 20, "<I", 0),
        (second + 28, "<H", 65535),
        (second + 30, "<H", 65535),
        (second + 8, "<H", 1),
        (second + 10, "<H", 8),
        (len(data) - 6, "<I", 0),
        (len(data) - 10, "<I", 2**31),
        (len(data) - 12, "<H", 65535),
        (26, "<H", 65535),
        (22, "<I", 5),
    ):
        changed = bytearray(data)
        struct.pack_into(fmt, changed, at, value)
        refused(bytes(changed))


def test_an_unknown_version_names_both(parts):
    head = json.loads(parts["format.json"])
    head["version"] = [VERSION[0] + 1, 3]
    with pytest.raises(
        VersionError, match=rf"format version {VERSION[0] + 1}\.3; this fusegrad reads version {VERSION[0]}\.x"
    ):
        loads(pack({**parts, "format.json": json.dumps(head).encode()}))
    for bad in ([1], "1.0", [1.0, 0], [True, 0], None, [-1, 0]):
        head["version"] = bad
        refused(pack({**parts, "format.json": json.dumps(head).encode()}), "bad version")
    head["version"] = [VERSION[0], VERSION[1] + 1]
    loads(pack({**parts, "format.json": json.dumps(head).encode()}))


JUNK = (
    b"",
    b"{",
    b"[]",
    b"{}",
    b"null",
    b"7",
    b'"x"',
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b"\xff\xfe",
    b'{"a":1,"a":1}',
    b"NaN",
)


@pytest.mark.parametrize("name", ("format.json", "graph.json"))
@pytest.mark.parametrize("junk", JUNK, ids=range(len(JUNK)))
def test_bad_json(parts, name, junk):
    refused(pack({**parts, name: junk}))
    if name == "graph.json":
        refused(forge(parts, graph_json=junk))


def test_json_is_scanned_in_linear_time():
    for text in (b'"' + b'\\"' * 500_000, b'"\\' * 500_000, b"[" * 500_000, b'{"a":"' + b"\\" * 999_999):
        with pytest.raises(FileError):
            load_json(text, "x")


def _changed(value, path, new):
    copy = json.loads(json.dumps(value))
    at = copy
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = new
    return copy


def _paths(value, path=()):
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in items:
        yield (*path, key)
        yield from _paths(child, (*path, key))


def test_changed_fields_are_refused_or_give_a_program_that_is_still_well_typed(parts):
    graph = json.loads(parts["graph.json"])
    values = [None, True, -1, 977, 2**70, 1.5, "batch*2", [[]], {"tuple": [1]}, {"value": 0}]
    for i, path in enumerate(_paths(graph)):
        for new in (values[i % 10], values[(i * 7 + 3) % 10]):
            try:
                program = loads(forge(parts, graph_json=json.dumps(_changed(graph, path, new)).encode()))
            except FileError as e:
                assert str(e).startswith("load: ")
                continue
            for value in [v for n in program.graph.nodes for v in n.outputs]:
                assert all(not isinstance(s, int) or 0 <= s < 1 << 48 for s in value.meta.shape), path


def test_bad_weights(parts):
    good = parts["weights.safetensors"]
    (size,) = struct.unpack("<Q", good[:8])
    header, body = json.loads(good[8 : 8 + size]), good[8 + size :]

    def weights(change=None, data=body, length=None):
        new = json.loads(json.dumps(header))
        if change:
            change(new)
        text = json.dumps(new).encode()
        return struct.pack("<Q", len(text) if length is None else length) + text + data

    def set_(name, key, value):
        return lambda h: h[name].__setitem__(key, value)

    start, stop = header["n"]["data_offsets"]
    cases = [
        (weights(length=2**63), "claims"),
        (weights(length=10**9), "claims"),
        (weights(length=3), "JSON"),
        (b"", "shorter"),
        (weights(set_("n", "data_offsets", [start, stop - 4])), "fit"),
        (weights(set_("n", "data_offsets", [0, 12])), "overlap|gap"),
        (weights(set_("n", "data_offsets", [10**9, 10**9 + 12])), "outside"),
        (weights(set_("n", "data_offsets", [stop, start])), "outside"),
        (weights(set_("n", "shape", [2**40])), "fit"),
        (weights(set_("n", "shape", [-3])), "bad shape"),
        (weights(set_("n", "dtype", "F8")), "unknown dtype"),
        (weights(set_("n", "dtype", "I32")), "dtype differs"),
        (weights(data=body + b"\0"), "cover"),
        (weights(data=body[:-1]), "outside"),
        (weights(lambda h: h.__setitem__("q", h.pop("n"))), "not those in"),
        (weights(lambda h: h.clear(), b""), "not those in"),
        (weights(lambda h: h["n"].pop("shape")), "needs dtype"),
        (weights(set_("n", "shape", [3, 1])), "shape differs"),
    ]
    for data, match in cases:
        refused(forge(parts, weights_safetensors=data), match)


def test_unknown_operators_are_not_looked_up(parts):
    graph = json.loads(parts["graph.json"])
    for name in ("os.system", "eval", "__import__", "add.__class__", ""):
        graph["graph"]["nodes"][0]["op"] = name
        refused(forge(parts, graph_json=json.dumps(graph).encode()), "unknown operator")
