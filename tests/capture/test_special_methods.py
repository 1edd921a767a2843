"""Special methods of the user's classes that C code calls: run at every call, in order, never during capture alone.

`Loud` writes every call of a special method down; an expression must give and write down what it does in plain Python,
whether the object existed before or is made inside.
"""

import collections
import enum
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


class Items(list):
    def append(self, v):
        LOG.append(("append", v))
        list.append(self, v * 2)

    def __getitem__(self, i):
        LOG.append("getitem")
        return list.__getitem__(self, i)

    def __iter__(self):
        LOG.append("iter")
        return list.__iter__(self)

    def __len__(self):
        LOG.append("len")
        return list.__len__(self)

    def __eq__(self, other):
        LOG.append("eq")
        return True

    __hash__ = None


class Table(dict):
    def __setitem__(self, k, v):
        LOG.append(("setitem", k))
        dict.__setitem__(self, k, v)

    def __getitem__(self, k):
        LOG.append(("getitem", k))
        return dict.__getitem__(self, k) * 10

    def __missing__(self, k):
        LOG.append(("missing", k))
        return 1

    def __iter__(self):
        LOG.append("iter")
        return dict.__iter__(self)

    def keys(self):
        LOG.append("keys")
        return dict.keys(self)

    def __len__(self):
        LOG.append("len")
        return dict.__len__(self)


class Mode(enum.Enum):
    A, B = 1, 2

    @classmethod
    def _missing_(cls, value):
        LOG.append(("missing", value))
        return cls.A


class Trouble(Exception):
    def __str__(self):
        LOG.append("str")
        return "trouble"


class Countdown:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        LOG.append("iter")
        return self

    def __next__(self):
        LOG.append("next")
        self.n -= 1
        if self.n < 0:
            raise StopIteration
        return self.n


class Watched:
    def __setattr__(self, name, value):
        LOG.append(("set", name))
        object.__setattr__(self, name, value)

    def __delattr__(self, name):
        LOG.append(("del", name))
        object.__delattr__(self, name)

    def __class_getitem__(cls, k):
        LOG.append("class item")
        return k


def note(v):
    LOG.append(("note", v))
    return v


SCOPE |= {c.__name__: c for c in (Items, Table, Mode, Trouble, Countdown, Watched, note)}
SUBCLASSES = """(lambda l: (l.append(k), list.__len__(l)))(Items([1]))
Items([1, 2])[0]|[*Items([1, 2])]|list(Items([1]))
len(Items([1]))|sum(Items([1, 2]))|sorted(Items([2, 1]))|tuple(Items([1]))|Items([1, 2])[:1]|bool(Items([]))
Items([k]).index(k)|Items([1]) == [5]|[5] == Items([1])|T.stack(Items([x, x]))|x.view(Items([-1]))
(lambda d: (d.__setitem__('a', k), d['a'], d['zz']))(Table())|Table(a=1)['a']|dict(Table(a=1))|{**Table(a=1)}
(lambda **q: q)(**Table(a=1))|list(Table(a=1))|len(Table(a=1))|sorted(Table(a=1))|bool(Table())
'{a}'.format(**Table(a=1))
collections.ChainMap(Table(a=1))['a']|Mode(k).name|Mode(9).name|Mode(2).name|str(Trouble(1))
f'{Trouble(1)}'|'%s' % Trouble(1)
1 in Countdown(3)|list(Countdown(2))|(lambda c: (1 in c, list(c)))(Countdown(4))|sum(Countdown(3))|Watched[k]
(lambda o: (setattr(o, 'q', k), o.q, delattr(o, 'q'), hasattr(o, 'q')))(Watched())|note.__call__(k)
(lambda g: (2 in g, list(g)))(note(i) for i in range(5))|(lambda g: (2 in g, next(g)))(iter([1, 2, 3]))
(lambda g: (3 in g, list(g)))(map(note, [1, 3, 4]))|operator.methodcaller('__call__', k)(note)
(lambda c: (c(k), c(k), c.cache_info().currsize))(functools.lru_cache(maxsize=2)(note))
(lambda c: (c(k), c(k), c.cache_info().currsize))(functools.cache(note))""".replace("\n", "|").split("|")


@pytest.mark.parametrize("text", SUBCLASSES)
def test_subclasses_of_builtins_and_iterators(text):
    f = eval(f"lambda x, k, v: {text}", SCOPE)
    assert results(T.compile(f, options={"limit": 50}), "inside") == results(f, "inside")


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


class Items(dict):
    """Attributes that are items, by methods of C."""

    __getattr__ = dict.__getitem__
    __setattr__ = dict.__setitem__
    __delattr__ = dict.__delitem__


class Maybe(dict):
    __getattr__ = dict.get
    __setattr__ = dict.__setitem__


class NoFunction:
    __getattr__ = staticmethod(len)


class Ordered(collections.OrderedDict):
    pass


class Pair(tuple):
    def __new__(cls, *items):
        made = super().__new__(cls, items)
        made.first = items[0]
        return made


def attributes_that_are_items(d, x):
    d.q = x * 2
    y = d.q + d.n
    d.n = d.n + 1
    if "tmp" in d and type(d) is Items:
        del d.tmp
    made = type(d)(k=x)
    made.j = 3
    return y, list(d), hasattr(d, "n"), getattr(d, "tmp", 7) if type(d) is Maybe else 0, made, made.k


@pytest.mark.parametrize("kind", [Items, Maybe])
def test_attribute_hooks_that_are_no_functions(kind):
    outcomes = []
    for g in (attributes_that_are_items, T.compile(attributes_that_are_items)):
        d, out = kind(n=1, tmp=5), []
        for _ in range(3):
            out.append(str((g(d, T.ones(2)), d)))
        d.n = 10
        out.append(str((g(d, T.ones(2)), d, vars(d))))
        outcomes.append(out)
    assert outcomes[0] == outcomes[1]


def test_an_attribute_hook_that_is_no_method():
    f = T.compile(lambda o, x: (x + o.four, getattr(o, "seventh", 0)))
    for _ in range(2):
        assert str(f(NoFunction(), T.ones(1))) == str((T.ones(1) + 4, 7))


def test_what_instances_of_subclasses_hold():
    def f(x):
        o = Ordered(a=x, b=1)
        o["c"] = 2
        o.note = "kept"
        empty = Ordered()
        empty["z"] = x
        pair = Pair(x, 2)
        pair.extra = 1
        return o, list(o), vars(o), empty, list(empty.items()), pair, vars(pair)

    c = T.compile(f)
    for _ in range(2):
        want, got = f(T.ones(1)), c(T.ones(1))
        assert str(got) == str(want)
        assert [list(v) for v in (got[0], got[3])] == [["a", "b", "c"], ["z"]]
        assert got[0].note == "kept" and got[5].extra == 1 and got[5].first is got[5][0]


class Says:
    @property
    def __class__(self):
        return int


class OneKey(dict):
    def __iter__(self):
        return iter(["zz"])


def test_what_an_object_says_of_itself():
    def f(x, o, d, pairs):
        try:
            merged = {**pairs}
        except TypeError as e:
            merged = str(e)
        return x, isinstance(o, int), isinstance(o, Says), o.__class__, type(o), collections.Counter(d), merged

    c = T.compile(f)
    for _ in range(2):
        args = (T.ones(1), Says(), OneKey(a=1, b=2), [("a", 1)])
        assert str(c(*args)) == str(f(*args))


def _reflected(base, **methods):
    return type("Odd", (base,), methods)


REAL = _reflected(float, __radd__=lambda s, o: 7.0, __rmul__=lambda s, o: 8.0, __eq__=lambda s, o: "eq",
                  __gt__=lambda s, o: "gt", __hash__=None)(1.5)  # fmt: skip
INT = _reflected(int, __radd__=lambda s, o: 7, __eq__=lambda s, o: "eq", __gt__=lambda s, o: "gt",
                 __ror__=lambda s, o: 9, __hash__=None)(2)  # fmt: skip
PLAIN_INT = _reflected(int)(4)
SETS = [_reflected(b, __ror__=lambda s, o: "r", __eq__=lambda s, o: "e", __hash__=None)([1]) for b in (frozenset, set)]


def _over_tensors(x):
    return x + REAL, x * REAL, x < INT, x == INT, x != REAL


def _over_numbers(x):
    return 1.0 + REAL, 2 + REAL, 1.5 + INT, 2 + INT, 1.5 == INT, 2 == INT, 1.5 < INT, True + INT, 1j + REAL, 1j == REAL


def _over_each_other(x):
    return PLAIN_INT + INT, PLAIN_INT == INT, PLAIN_INT | INT, INT + PLAIN_INT, REAL + INT, INT + REAL


def _over_sets(x):
    s, f = {1, 2}, frozenset([1])
    return [v | o for v in (s, f) for o in SETS], [v == o for v in (s, f) for o in SETS], s & SETS[0]


@pytest.mark.parametrize("f", [_over_tensors, _over_numbers, _over_each_other, _over_sets])
def test_reflected_methods_are_not_asked_where_the_first_operand_answers(f):
    """Of two classes of which none is made from the other, the first operand's own operator comes first."""
    c = T.compile(f)
    for _ in range(2):
        assert str(c(T.ones(2))) == str(f(T.ones(2)))
