"""What export refuses and how calls of exported programs are checked: every message leads with the argument."""

import collections
import copy
import dataclasses
import re

import numpy as np
import pytest
from fusegrad.export import ArgumentError, ConstraintError, Dim, ExportError, InputError, dims, tree

import fusegrad as T
from fusegrad import export as E
from fusegrad.errors import DataDependentError

BATCH = Dim("batch", min=2, max=16)


def module(forward, **attrs):
    m = type("M", (T.nn.Module,), {"forward": forward})()
    for k, v in attrs.items():
        setattr(m, k, v)
    return m


def program(forward, args, dyn=None, kwargs=None):
    return E.export(module(forward), args, kwargs, dynamic_shapes=dyn)


def first_line(kind, call, *args, **kwargs):
    with pytest.raises(kind) as info:
        call(*args, **kwargs)
    return str(info.value).splitlines()[0]


# ---- calls ----
def test_a_size_out_of_range_names_argument_axis_dim_value_and_range():
    f = program(lambda self, x: x * 2, (T.ones(4, 3),), ({0: BATCH},)).module()
    for n in (2, 7, 16):
        assert f(T.ones(n, 3)).shape == (n, 3)
    assert first_line(InputError, f, T.ones(40, 3)) == 'x: axis 0 ("batch") is 40, allowed 2..16'
    assert first_line(InputError, f, T.ones(1, 3)) == 'x: axis 0 ("batch") is 1, allowed 2..16'
    assert first_line(InputError, f, T.ones(4, 5)) == "x: axis 1 is 5, allowed 3 (fixed when it was exported)"
    assert first_line(InputError, f, T.ones(4)) == "x: has 1 axes (shape (4,)), allowed 2 (shape (batch, 3))"
    assert first_line(InputError, f, T.ones(4, 3).double()) == "x: dtype is float64, allowed float32"
    with pytest.raises(RuntimeError, match=r"accepted: forward\(x: f32\[batch, 3\]\) where batch in 2..16"):
        f(T.ones(40, 3))


def test_one_dim_for_two_arguments_and_derived_dims():
    f = program(lambda self, x, y: (x.sum(), y.sum()), (T.ones(4, 3), T.ones(4)), ({0: BATCH}, {0: BATCH})).module()
    want = 'y: axis 0 ("batch") is 5, allowed 6 (from x: axis 0)'
    assert first_line(InputError, f, T.ones(6, 3), T.ones(5)) == want
    d = Dim("d", min=1, max=10)
    g = program(lambda self, x, y: x.view(-1, 2).sum(1) + y, (T.ones(6), T.ones(3)), ({0: 2 * d}, {0: d})).module()
    assert g(T.ones(8), T.ones(4)).tolist() == [3.0] * 4
    want = 'x: axis 0 ("d*2") is 7, allowed 6 (d is 3 from y: axis 0)'
    assert first_line(InputError, g, T.ones(7), T.ones(3)) == want
    h = program(lambda self, x: x * 1.0, (T.ones(7),), ({0: 2 * d + 1},)).module()
    assert h(T.ones(21)).shape == (21,)
    for n in (8, 1, 23):
        want = f'x: axis 0 ("d*2 + 1") is {n}, allowed d*2 + 1 with d in 1..10'
        assert first_line(InputError, h, T.ones(n)) == want


def test_equal_examples_are_not_one_dim():
    b, s = dims("b", "s", min=2, max=50)
    f = program(lambda self, x: x.sum(1) * x.shape[1] + x.shape[0], (T.ones(4, 4),), ({0: b, 1: s},)).module()
    assert f(T.ones(3, 5)).tolist() == [28.0] * 3 and f(T.ones(5, 3)).tolist() == [14.0] * 5


def test_arguments_missing_extra_unknown_and_of_another_kind():
    f = program(lambda self, x, y: x + y, (T.ones(2), T.ones(2))).module()
    x = T.ones(2)
    assert first_line(TypeError, f, x) == "y: is missing (arguments: x, y)"
    assert first_line(ArgumentError, f, x, x, x) == "forward: got 3 positional arguments, allowed 2"
    assert first_line(ArgumentError, f, x, z=x) == "z: is an unexpected argument, allowed: x, y"
    assert first_line(ArgumentError, f, x, x, y=x) == "y: is given twice, by position and by name"
    assert first_line(ArgumentError, f, x, [x]) == "y: is a list, allowed: one value that is not a container"
    assert first_line(ArgumentError, f, x, 3) == "y: is a int, allowed a Tensor of dtype float32"
    assert first_line(ArgumentError, f, x, np.ones(2)) == "y: is a ndarray, allowed a Tensor of dtype float32"
    assert f(y=x, x=x).tolist() == [2, 2]


def test_fixed_values_are_checked_and_defaults_may_be_left_out():
    def forward(self, x, k, s=0.5, flag=True, mode="ab", none=None, act=T.relu):
        y = act(x * k + s)
        return (y + 100 if flag else y) + len(mode)

    f = program(forward, (T.ones(2), 3)).module()
    assert f(T.ones(2), 3).tolist() == [105.5] * 2 == f(T.ones(2), 3, 0.5, flag=True, mode="ab", none=None).tolist()
    assert first_line(InputError, f, T.ones(2), 4) == "k: is 4, fixed at 3 when it was exported"
    assert first_line(InputError, f, T.ones(2), 3.0) == "k: is 3.0, fixed at 3 when it was exported"
    assert first_line(InputError, f, T.ones(2), True) == "k: is True, fixed at 3 when it was exported"
    assert first_line(InputError, f, T.ones(2), 3, mode="x") == "mode: is 'x', fixed at 'ab' when it was exported"
    assert first_line(InputError, f, T.ones(2), 3, none=T.ones(2)).startswith("none: is a Tensor of shape (2,)")
    assert first_line(ArgumentError, f, T.ones(2), 3, act=T.tanh).startswith("act: is an unexpected argument")
    g = program(lambda self, x, a: x * a, (T.ones(1), float("nan"))).module()
    g(T.ones(1), float("nan"))


def test_nesting_is_matched_by_key_and_checked():
    f = program(lambda self, d: d["a"] * 10 + d["b"][0], ({"a": T.ones(1), "b": [T.ones(1)]},)).module()
    one = T.ones(1)
    assert f({"b": [one * 5], "a": one * 2}).tolist() == [25]
    assert first_line(ArgumentError, f, {"a": one}) == "d: has the keys ['a'], allowed ['a', 'b']"
    assert first_line(ArgumentError, f, {"a": one, "b": one}) == "d['b']: is a Tensor, allowed: [*]"
    assert first_line(ArgumentError, f, {"a": one, "b": [one, one]}) == "d['b']: has 2 entries, allowed 1"
    assert first_line(ArgumentError, f, [one, [one]]) == "d: is a list, allowed: {'a': *, 'b': [*]}"
    assert first_line(InputError, f, {"a": T.ones(2), "b": [one]}).startswith("d['a']: axis 0 is 2, allowed 1")


@dataclasses.dataclass
class Batch:
    x: object
    y: object = 2.0
    total: object = dataclasses.field(init=False)

    def __post_init__(self):
        self.total = self.x.sum()


@dataclasses.dataclass(frozen=True, slots=True)
class _Frozen:
    _a: object
    parts: object


_Under = collections.namedtuple("_Under", "a b")


def test_dataclasses_are_taken_and_given_by_their_fields(tmp_path):
    """Also in a process that does not know the class: there, one with the same name and fields stands for it."""

    def forward(self, b):
        return _Frozen(b.x * b.y + b.total, [b, _Under(b.total, b.x.shape[0])])

    made = Batch(T.ones(4, 3))
    p = program(forward, (made,), {"b": {"x": {0: BATCH}}})
    assert str(p) == str(program(forward, (made,), ([{0: BATCH}, None, None],)))
    E.save(p, tmp_path / "p.fgx")
    out = E.load(tmp_path / "p.fgx").module(compile=False)(Batch(T.ones(3, 3)))
    assert type(out) is _Frozen and out._a.tolist() == (T.ones(3, 3) * 11).tolist()
    batch, pair = out.parts
    assert type(batch) is Batch and batch.total.item() == 9 and batch.y == 2.0
    assert type(pair) is _Under and pair == (pair.a, 3)
    same = collections.namedtuple("Batch", "x y total")
    for bad, said in (
        (same(T.ones(3, 3), 2.0, T.ones(())), r"b: is a namedtuple, allowed: Batch\(\*, \*, \*\)"),
        (Batch(T.ones(3, 3), 1.0), r"b\.y: is 1\.0, fixed at 2\.0"),
        (_Frozen(T.ones(3, 3), 1), r"b: has the fields \['_a', 'parts'\]"),
        (Batch(T.ones(3, 2)), r"b\.x: axis 1 is 2"),
    ):
        with pytest.raises(InputError, match=said):
            p.module()(bad)
    tree._CLASSES.clear()  # as in another process
    other = E.load(tmp_path / "p.fgx").module(compile=False)(Batch(T.ones(3, 3)))
    assert type(other) is not _Frozen and type(other).__name__ == "_Frozen" and other.parts[1].b == 3
    with pytest.raises(ExportError, match="the argument b is changed by forward"):
        program(lambda self, b: setattr(b, "x", b.x * 2), (made,))


def test_the_code_sees_containers_as_they_are():
    """Methods, a deque's length, a defaultdict's factory: of the value that is given, not of one like it."""

    class Other(collections.namedtuple("_Under", "a b")):
        def twice(self):
            return self.a * 2

    given = (Other(T.ones(2), 1), collections.deque([T.ones(2)], maxlen=3), collections.defaultdict(list, k=T.ones(2)))
    p = program(lambda self, u, q, d: (u.twice() + q[0] + d["k"], q.maxlen, d.default_factory is list), given)
    assert p.module(compile=False)(*given)[1:] == (3, True)
    for names in (["\ufb01", "fi"], ["__init__"], ["a b"], ["class"], ["a", "a"]):  # of a file that someone forged
        with pytest.raises(E.FileError, match="malformed dataclass name|a field occurs twice"):
            tree.check({"dataclass": ["*"] * len(names), "name": "A", "fields": names}, "result")
    with pytest.raises(ExportError, match="dict keys must be str or int"):
        program(lambda self, d: d[True], ({True: T.ones(2)},))


def test_an_argument_that_is_written_must_not_share_memory():
    f = program(lambda self, x, y: x.add_(y), (T.ones(2), T.ones(2))).module()
    x = T.ones(3)
    assert first_line(InputError, f, x[:2], x[1:]) == (
        "x: is changed in place and shares memory with y, allowed: separate memory"
    )


def test_broadcasts_are_not_decided_by_the_example():
    f = program(lambda self, x, y: x + y, (T.ones(1, 3), T.ones(5, 3))).module()
    assert first_line(InputError, f, T.ones(5, 3), T.ones(5, 3)).startswith("x: axis 0 is 5, allowed 1")
    with pytest.raises(ConstraintError, match="b == 4"):
        program(lambda self, x, y: x + y, (T.ones(4), T.ones(4)), ({0: Dim("b", min=1, max=9)}, None))


# ---- dims ----
def test_bad_dims_are_refused():
    for make, kind, text in (
        (lambda: Dim("b", min=5, max=3), ValueError, r"range 5\.\.3 is empty"),
        (lambda: Dim("b", min=-1), ValueError, "at least 0"),
        (lambda: Dim("a b"), ValueError, "identifier"),
        (lambda: Dim("class"), ValueError, "identifier"),
        (lambda: Dim("b", max=2.5), TypeError, "must be an int"),
        (lambda: Dim("b") * 0, ValueError, "positive int"),
        (lambda: Dim("b") + 0.5, ValueError, "an int"),
    ):
        with pytest.raises(kind, match=text):
            make()
    assert repr(2 * Dim("b", min=1) + 3) == "2*b + 3" and repr(Dim("b", min=1, max=2)) == "Dim('b', min=1, max=2)"


def _refused(dyn, text, args=(T.ones(4, 3),), forward=lambda self, x: x * 2):
    with pytest.raises(ExportError, match=text):
        program(forward, args, dyn)


def test_dynamic_shapes_that_do_not_fit_are_refused():
    _refused(({3: BATCH},), r"dynamic_shapes for x: there is no axis 3")
    _refused({"y": {0: BATCH}}, "there is no argument 'y'; the arguments are x")
    _refused((None, None), "2 entries for 1 arguments")
    _refused(({0: "batch"},), "axis 0 needs a Dim, an int or None, got 'batch'")
    _refused(([BATCH],), "1 entries for a tensor of 2 axes")
    _refused("batch", "must be a dict by argument name or a tuple")
    _refused(({0: 5},), "axis 0 is 4, but dynamic_shapes fixes it at 5")
    _refused(({0: BATCH},), re.escape('x: axis 0 ("batch") is 1 in the example, allowed 2..16'), (T.ones(1, 3),))
    _refused(({0: BATCH, 1: Dim("batch", min=1)},), "declared as")
    _refused(
        ({0: BATCH, 1: BATCH},), re.escape('x: axis 1 ("batch") gives batch = 3 in the example, but x: axis 0 gives 4')
    )
    _refused(({0: 3 * BATCH},), r"axis 0 is 4, which is not 3\*batch for any int batch")
    _refused((None, {0: BATCH}), "k: it is no tensor", (T.ones(4, 3), 2), lambda self, x, k: x * k)


def test_forms_of_dynamic_shapes():
    for dyn in (
        ({0: BATCH},),
        [{0: BATCH}],
        {"x": {0: BATCH}},
        {"x": (BATCH, None)},
        ({-2: BATCH, 1: None},),
        {"x": {0: BATCH, 1: 3}},
    ):
        assert program(lambda self, x: x * 2, (T.ones(4, 3),), dyn).module()(T.ones(9, 3)).shape == (9, 3)
    p = program(
        lambda self, *xs, **kw: xs[0] + xs[1] + kw["z"],
        (T.ones(4), T.ones(4)),
        {"xs": ({0: BATCH}, {0: BATCH}), "z": {0: BATCH}},
        {"z": T.ones(4)},
    )
    assert p.module()(T.ones(7), T.ones(7), z=T.ones(7)).shape == (7,)
    p = program(
        lambda self, d: d["a"] + d["b"][0],
        ({"a": T.ones(4), "b": [T.ones(4)]},),
        ({"a": {0: BATCH}, "b": [{0: BATCH}]},),
    )
    assert p.module()({"a": T.ones(5), "b": [T.ones(5)]}).shape == (5,)


def test_automatic_dims():
    def forward(self, x, y, z):
        return x + y + z, x.view(4, -1)

    args = (T.ones(8), T.ones(8), T.ones(8))
    with pytest.raises(ConstraintError):
        program(forward, args, ({0: Dim.DYNAMIC}, {0: Dim.DYNAMIC}, {0: Dim.DYNAMIC}))
    p = program(lambda self, x, y, z: x + y + z, args, ({0: Dim.AUTO}, {0: Dim.AUTO}, {0: Dim.AUTO}))
    assert len(p.dims) == 1 and p.module()(T.ones(3), T.ones(3), T.ones(3)).shape == (3,)
    q = program(forward, args, ({0: Dim.AUTO}, {0: Dim.AUTO}, {0: Dim.STATIC}))
    assert q.dims == [] and first_line(InputError, q.module(), T.ones(4), T.ones(4), T.ones(4)).startswith(
        "x: axis 0 is 4"
    )


def test_an_unstated_minimum_is_raised_only_as_far_as_needed():
    p = program(lambda self, x: x * 2, (T.ones(4, 3),), ({0: Dim("b")},))
    assert p.range_constraints == {"b": (0, None)} and p.module()(T.zeros(0, 3)).shape == (0, 3)
    q = program(lambda self, x: x.view(x.shape[0], -1), (T.ones(4, 3, 2),), ({0: Dim("b")},))
    assert q.range_constraints == {"b": (1, None)}
    assert first_line(InputError, q.module(), T.zeros(0, 3, 2)) == 'x: axis 0 ("b") is 0, allowed 1..'
    with pytest.raises(ConstraintError, match=r"b >= 1.*Dim\('b', min=1\)|b != 0.*Dim\('b', min=1\)"):
        program(lambda self, x: x.view(x.shape[0], -1), (T.ones(4, 3, 2),), ({0: Dim("b", min=0)},))


def test_a_condition_on_a_size_is_refused_with_line_relation_and_repair():
    def forward(self, x):
        if x.shape[0] > 5:  # the line to be named
            return x + 1
        return x

    with pytest.raises(
        ConstraintError, match=r"test_calls.py:\d+: .* batch <= 5.*batch in 2\.\.16.*Dim\('batch', max=5\)"
    ):
        program(forward, (T.ones(4),), ({0: BATCH},))
    program(forward, (T.ones(4),), ({0: Dim("batch", max=5)},))
    with pytest.raises(ConstraintError, match="batch == 4.*static"):
        program(lambda self, x: sum(x + i for i in range(x.shape[0])), (T.ones(4),), ({0: BATCH},))
    with pytest.raises(ConstraintError, match="a == b.*one Dim for both"):
        program(lambda self, x, y: x + y, (T.ones(4), T.ones(4)), ({0: Dim("a", min=2)}, {0: Dim("b", min=2)}))


# ---- values ----
@pytest.mark.parametrize(
    "forward",
    [
        lambda self, x: x * 2 if x.sum() > 0 else x,
        lambda self, x: x * x.max().item(),
        lambda self, x: x * float(x[0]),
        lambda self, x: x[: int(x[0])],
        lambda self, x: T.tensor(x.tolist()),
        lambda self, x: x.detach().numpy(),
        lambda self, x: [v for v in x if v > 0],
        lambda self, x: x[x > 0],
    ],
)
def test_values_of_tensors_may_not_decide(forward):
    with pytest.raises(DataDependentError, match=r"test_calls.py:\d+: data-dependent control flow or value"):
        program(forward, (T.ones(3),))


def test_what_cannot_be_exported():
    with pytest.raises(TypeError, match="expected a module or function, got int"):
        E.export(3, ())
    with pytest.raises(TypeError, match="args must be a tuple"):
        E.export(module(lambda self, x: x), T.ones(2))
    with pytest.raises(TypeError, match="missing a required argument: 'x'"):
        E.export(module(lambda self, x: x), ())
    with pytest.raises(ExportError, match="x: an argument of type object cannot be exported"):
        program(lambda self, x: x, (object(),))
    with pytest.raises(ExportError, match="x: is a numpy array"):
        program(lambda self, x: x, (np.ones(2),))
    with pytest.raises(ExportError, match="returns an object of type set"):
        program(lambda self, x: {1, 2}, (T.ones(2),))
    loop = [1]
    loop.append(loop)
    with pytest.raises(ExportError, match="nested more than"):
        program(lambda self, x: x, (loop,))
    with pytest.raises(ZeroDivisionError):
        program(lambda self, x: x * (1 // 0), (T.ones(2),))


def test_python_attributes_changed_by_forward_are_refused_and_restored():
    def count(self, x):
        self.calls += 1
        return x * self.calls

    def keep(self, x):
        self.last = x
        return x

    def log(self, x):
        self.history.append(x.shape[0])
        return x

    for forward, attrs, name in ((count, {"calls": 1}, "calls"), (keep, {}, "last"), (log, {"history": []}, "history")):
        m = module(forward, **attrs)
        with pytest.raises(ExportError, match=f"self.{name} is changed by forward"):
            E.export(m, (T.ones(2),))
        assert getattr(m, name, None) in (1, None) or name == "history"
    m = module(lambda self, x: x * T.ones(3))
    m.register_buffer("b", T.ones(2))
    m.forward = lambda x: setattr(m, "b", T.ones(3)) or x
    with pytest.raises(ExportError, match="self.b is changed by forward.*must keep its shape"):
        E.export(m, (T.ones(2),))
    assert m.b.tolist() == [1, 1] and m.b._data is not None


def test_a_failed_export_leaves_the_module_as_it_was():
    m = T.nn.Linear(2, 2)
    before = dict(m.state_dict())
    m.forward = lambda x: x.sum().item()
    with pytest.raises(DataDependentError):
        E.export(m, (T.ones(2),))
    assert all(v._data is not None for v in m.state_dict().values()) and list(before) == list(m.state_dict())


def test_the_text_of_a_program():
    p = program(lambda self, x, k=2: {"y": x * k, "n": x.shape[0]}, (T.ones(4, 3),), ({0: BATCH},))
    text = E.inspect_text(p)
    for part in (
        "forward(x: f32[batch, 3], k = 2) where batch in 2..16",
        "k fixed at 2",
        "'y': f32[batch, 3]",
        "mul(x, 2)",
    ):
        assert part in text
    assert "forward(x: f32[batch, 3]" in repr(p) and str(p) == text
    named = program(lambda self, x: (x.sort(0), x.std(0), [(x,)]), (T.ones(4, 3),), ({0: BATCH},))
    said = "result: (sort(values=f32[batch, 3], indices=i64[batch, 3]), f32[3], [(the argument x,)])"
    assert said in str(named) and str(copy.copy(named)) == str(named)  # as it is read again from its file
    with pytest.raises(TypeError, match="not callable"):
        p(T.ones(4, 3))


def test_run_for_the_command_line(tmp_path):
    E.save(
        program(lambda self, x, y, k=2: {"s": x + y * k}, (T.ones(4), T.ones(4)), ({0: BATCH}, {0: BATCH})),
        tmp_path / "p.fgx",
    )
    out = E.run(tmp_path / "p.fgx", [np.ones(3, ">f4"), np.ones(3, np.float32)])
    assert [o.tolist() for o in out] == [[3, 3, 3]]
    forward = lambda self, d, *, k, s: [d["a"] * k[0], {"n": d["a"].shape[0], "no": None, "s": s}]  # noqa: E731
    nested = program(forward, ({"a": T.ones(4)},), None, {"k": (T.ones(4), 3), "s": "text"})
    E.save(nested, tmp_path / "n.fgx")
    out = E.run(tmp_path / "n.fgx", [np.full(4, 2.0, "f4"), np.full(4, 3.0, "f4")])
    assert [o.tolist() for o in out] == [[6.0] * 4, 4]
    with pytest.raises(ArgumentError, match="got 1 inputs, the program takes 2"):
        E.run(tmp_path / "p.fgx", [np.ones(3, np.float32)])
    with pytest.raises(InputError, match="x: dtype is float64"):
        E.run(tmp_path / "p.fgx", [np.ones(3), np.ones(3)])
