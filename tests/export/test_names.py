"""Names: of state that the module of a program needs for itself, and of files that are none."""

import copy
import io
import os

import pytest
from fusegrad.export import FileError, export, load, save

import fusegrad as T
from fusegrad import nn

OURS = ["program", "_check", "_slots", "_run", "_register", "_constants", "_regions", "extra", "größe"]


@pytest.mark.parametrize("kind", ["parameter", "buffer", "passing", "module"])
@pytest.mark.parametrize("name", OURS)
def test_state_with_names_that_the_module_of_a_program_uses(name, kind):
    class Net(nn.Module):
        def forward(self, x):
            t = getattr(self, name)
            return x * (t.weight if kind == "module" else t)

    net = Net()
    value = T.tensor([2.0, 3.0])
    if kind == "module":
        setattr(net, name, nn.Module())
        getattr(net, name).weight = nn.Parameter(value)
    elif kind == "parameter":
        setattr(net, name, nn.Parameter(value))
    else:
        net.register_buffer(name, value, persistent=kind == "buffer")
    program = export(net, (T.ones(2),))
    b = io.BytesIO()
    save(program, b)
    b.seek(0)
    for f in (program.module(), load(b).module(), program.module(compile=False), copy.deepcopy(program.module())):
        assert f(T.ones(2)).tolist() == [2.0, 3.0] and list(f.state_dict()) == list(net.state_dict())
        found = [*f.named_parameters(), *f.named_buffers()]
        assert [n for n, _ in found] == [name + ".weight" if kind == "module" else name]
        with T.no_grad():
            found[0][1].mul_(10)
        assert f(T.ones(2)).tolist() == [20.0, 30.0]
        repr(f)


@pytest.mark.parametrize("what", [None, 3, 2.5, ["x"], {}])
def test_what_is_no_path(what):
    program = export(lambda x: x * 2, (T.ones(2),))
    kind = type(what).__name__
    with pytest.raises(TypeError, match=f"load: expected a path or a binary file object, got {kind}"):
        load(what)
    with pytest.raises(TypeError, match=f"save: expected a path or a binary file object, got {kind}"):
        save(program, what)


def test_paths_of_bytes_empty_paths_and_programs_as_paths(tmp_path):
    program = export(lambda x: x * 2, (T.ones(2),))
    place = os.fsencode(tmp_path / "x.fgx")
    save(program, place)
    assert load(place).module()(T.ones(2)).tolist() == [2.0, 2.0]
    with pytest.raises(TypeError, match=r"got ExportedProgram; a program is called by program.module\(\)"):
        load(program)
    for empty in ("", b""):
        with pytest.raises(FileNotFoundError, match="load: the path is empty"):
            load(empty)
        with pytest.raises(FileNotFoundError, match="save: the path is empty"):
            save(program, empty)
    for do in (lambda f: save(program, f), load):
        with pytest.raises(FileError, match="must be opened in binary mode"):
            do(io.StringIO("x"))
