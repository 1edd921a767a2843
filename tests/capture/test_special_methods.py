"""Special methods of the user's classes that C code calls: run at every call, in order, never during capture alone.

`Loud` writes every call of a special method down; an expression must give and write down what it does in plain Python,
whether the object existed before or is made inside.
"""

import importlib

import pytest

import fusegrad as T

LOG = []
SCOPE = {
    n: importlib.import_module(n) for n in "bisect collections copy functools heapq itertools math operator".split()
}
SCOPE["T"] = T


class Loud:
    def __init__(self, v):
        LOG.append(("init", v))
        self.v = v

    def __repr__(self):
        LOG.append("repr")
        return f"Loud({self.v})"


def _plain(o):
    return o.v if isinstance(o, Loud) else o


def _missing(name):
    raise AttributeError(name)


METHODS = {
    "__add__": lambda s, o: s.v + _plain(o), "__radd__": lambda s, o: _plain(o) + s.v, "__mul__": lambda s, o: s.v * 2,
    "__rmul__": lambda s, o: s.v * 3, "__iadd__": lambda s, o: s, "__eq__": lambda s, o: s.v == _plain(o),
    "__lt__": lambda s, o: s.v < _plain(o), "__gt__": lambda s, o: s.v > _plain(o), "__hash__": lambda s: 7,
    "__bool__": lambda s: s.v > 2, "__len__": lambda s: 3, "__contains__": lambda s, k: k == s.v,
    "__getitem__": lambda s, k: s.v, "__iter__": lambda s: iter([s.v, 1]), "__reversed__": lambda s: iter([1, s.v]),
    "__call__": lambda s, *a: a, "__index__": lambda s: 1, "__int__": lambda s: s.v, "__float__": lambda s: s.v * 1.0,
    "__complex__": lambda s: 1j, "__str__": lambda s: f"S{s.v}", "__format__": lambda s, p: f"F{p}",
    "__bytes__": lambda s: b"b", "__neg__": lambda s: -s.v, "__abs__": lambda s: s.v, "__trunc__": lambda s: s.v,
    "__floor__": lambda s: s.v, "__ceil__": lambda s: s.v, "__round__": lambda s, n=None: s.v,
    "__mod__": lambda s, o: 4,
    "__getattr__": lambda s, n: n if not n.startswith("_") else _missing(n), "__rmod__": lambda s, o: 5,
    "__copy__": lambda s: 5, "__deepcopy__": lambda s, m: 6, "__divmod__": lambda s, o: (1, 2),
    "__rdivmod__": lambda s, o: (3, 4), "__pow__": lambda s, o, m=None: 9, "__matmul__": lambda s, o: 10,
    "__and__": lambda s, o: 12, "__next__": lambda s: s.v,
}  # fmt: skip


def _loud(name, fn):
    def method(self, *args):
        LOG.append((name, *(a if isinstance(a, (int, str)) else type(a).__name__ for a in args)))
        return fn(self, *args)

    return method


for _name, _fn in METHODS.items():
    setattr(Loud, _name, _loud(_name, _fn))
SCOPE["Loud"] = Loud

EXPRESSIONS = """v + 1|1 + v|v * 2|2 * v|v @ 1|v & 1|v % 2|5 % v|pow(v, 2, 3)|divmod(v, 2)|divmod(7, v)|-v|abs(v)
round(v)|round(v, 1)|math.floor(v)|math.ceil(v)|math.trunc(v)|int(v)|float(v)|complex(v)|bool(v)|not v|str(v)|repr(v)
f'{v}'|f'{v!r}'|f'{v:>5}'|'%s' % v|'%r' % (v,)|'%d' % v|'{}'.format(v)|'{0!s:>4}'.format(v)|'{:>4}'.format(v)
format(v, 'q')|bytes(v)|hash(v)|len(v)|v[0]|v[1:2]|list(v)|tuple(v)|set(v)|sorted(v)|sum(v)|max(v)|min(v, Loud(9)).v
list(reversed(v))|1 in v|v in [Loud(1), Loud(3)]|[Loud(3), Loud(1)].index(v)|[Loud(3), v].count(v)|v == 3|3 == v
v != 3|v < 4|4 < v|sorted([Loud(2), v, Loud(1)])[0].v|{v: 1}[Loud(3)]|len({v, Loud(3)})|v in {v: 1}
{Loud(5): 1}.get(v, 'no')|dict([(v, 1)])[v]|[1, 2, 3][v]|'abc'[v]|[1, 2, 3, 4][v:3]|range(v, 3)[0]|list(range(v))
[0] * v|v(1, 2)|v.name|hasattr(v, '_q')|copy.copy(v)|copy.deepcopy([v])|[*v]|(lambda *a: a)(*v)|list(zip(v, v))
list(enumerate(v))|1 if v else 2|v and 5|functools.reduce(operator.add, [v, v])|operator.index(v)|operator.add(v, 1)
operator.eq(v, 3)|operator.contains([v], v)|operator.truth(v)|heapq.nsmallest(1, [Loud(2), v])[0].v|next(v)
bisect.bisect([Loud(1), Loud(5)], v)|[v, Loud(2)] == [v, Loud(2)]|(v, 1) < (Loud(3), 2)|{'a': v} == {'a': Loud(3)}
str([v])|x[v]|T.full((2,), float(v))|T.zeros(v)|collections.Counter([v, v])[v]|list(itertools.islice(v, 1))
x * int(v)""".replace("\n", "|").split("|")


def results(f, where):
    out = []
    for k in (3, 4, 2, 3):
        v = Loud(k) if where == "before" else None
        LOG.clear()
        try:
            r = f(T.ones(3), k, v)
            r = r.tolist() if isinstance(r, T.Tensor) else r.v if isinstance(r, Loud) else r
        except Exception as e:
            r = type(e), str(e)
        out.append((type(r), r, LOG[:]))
    return out


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_special_methods_run_as_in_plain_python(text):
    for where, source in (
        ("inside", f"lambda x, k, v: (lambda v: {text})(Loud(k))"),
        ("before", f"lambda x, k, v: {text}"),
    ):
        f = eval(source, SCOPE)
        c = T.compile(f, options={"limit": 50})
        assert results(c, where) == results(f, where)


class Descriptor:
    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, obj, cls=None):
        LOG.append("get")
        return self if obj is None else obj.__dict__.get(self.name, 0)

    def __set__(self, obj, value):
        LOG.append(("set", value))
        obj.__dict__[self.name] = value * 2

    def __delete__(self, obj):
        LOG.append("delete")
        del obj.__dict__[self.name]


class Getter:
    def __get__(self, obj, cls=None):
        LOG.append(("read", obj is None))
        return 5


class Holder:
    d, g = Descriptor(), Getter()


@pytest.mark.parametrize("where", ["inside", "before", "class inside"])
def test_descriptors(where):
    def f(x, k, h):
        if where == "class inside":

            class Mine(Holder):
                pass

            h = Mine()
        elif where == "inside":
            h = Holder()
        h.d = k
        y = x * h.d + h.g + Holder.g
        del h.d
        return y + h.d, isinstance(Holder.d, Descriptor)

    c, out = T.compile(f), []
    for g in (f, c):
        LOG.clear()
        out.append(([(g(T.ones(2), k, Holder())[0].tolist(), k) for k in (2, 3, 4, 2)], LOG[:]))
    assert out[0] == out[1]


def test_keys_and_comparisons_read_nothing_unguarded():
    """What a comparison reads from outside is seen when it changes."""
    scale = [1]

    class Key:
        def __init__(self, v):
            self.v = v

        def __eq__(self, other):
            return self.v * scale[0] == other.v

        def __hash__(self):
            return 1

    f = T.compile(lambda x: (x * [Key(2)].count(Key(4)), Key(4) in {Key(2): 1}))
    for s, n in ((1, 0), (2, 1), (1, 0)):
        scale[0] = s
        y, found = f(T.ones(1))
        assert y.item() == n and found == (s == 2 and Key(4) in {Key(2): 1})
