"""What a program can see of the way in which its code is run: how often its methods are called, frames, versions."""

import collections
import functools
import inspect
import traceback
import warnings

import numpy as np
import pytest

import fusegrad as T
from fusegrad import nn

X = [1.0, 2.0]


def alike(f, *makers, calls=2):
    """The compiled function gives what the plain one gives for arguments made anew, and raises what it raises."""
    T.compiler.reset()
    c = T.compile(f)

    def outcome(g, make):
        try:
            return str(g(*make()))
        except Exception as e:
            return type(e), str(e)

    for _ in range(calls):
        for make in makers:
            assert outcome(c, make) == outcome(f, make)
    return T.compiler.stats()


# ---- iterators of the user's


class Steps:
    """Three numbers, with a note of every call."""

    def __init__(self, log):
        self.log, self.k = log, 0

    def __iter__(self):
        self.log.append("iter")
        return self

    def __next__(self):
        self.log.append("next")
        self.k += 1
        if self.k > 3:
            raise StopIteration
        return self.k


CONSUMERS = {
    "zip": lambda x, make: [x * a + b for a, b in zip(make(), make())],  # noqa: B905
    "zip of lists": lambda x, make: [x * a + b for a, b in zip([1, 2], make(), strict=False)],
    "enumerate": lambda x, make: [x * a + b for a, b in enumerate(make())],
    "enumerate from": lambda x, make: [x * a + b for a, b in enumerate(make(), 5)],
    "map": lambda x, make: [x * a for a in map(lambda v: v + 1, make())],
    "map of two": lambda x, make: [x * a for a in map(lambda v, w: v + w, make(), make())],
    "filter": lambda x, make: [x * a for a in filter(lambda v: v > 1, make())],
    "sum": lambda x, make: x * sum(make()),
    "list": lambda x, make: (x, list(make()), tuple(make()), {*make()}, [*make()], max(make()), sorted(make())),
    "dict": lambda x, make: (x, dict(zip(make(), make()))),  # noqa: B905
    "unpacked": lambda x, make: [x * a for a in (lambda a, b, c: (a, b, c))(*make())],
    "zip in zip": lambda x, make: [x * a[0] + b for a, b in zip(zip(make(), make()), make())],  # noqa: B905
    "enumerate of zip": lambda x, make: list(enumerate(zip(make(), make()))),  # noqa: B905
    "any": lambda x, make: (x, any(v > 1 for v in make()), all(v < 2 for v in make())),
    "extend": lambda x, make: (x, (out := []).extend(make()), out),
}


@pytest.mark.parametrize("name", CONSUMERS)
@pytest.mark.parametrize("where", ["made inside", "made outside"])
def test_iterators_are_asked_as_often(name, where):
    take = CONSUMERS[name]

    def inside(x):
        log = []
        return take(x, lambda: Steps(log)), log

    def outside(x, its, log):
        return take(x, its.pop), list(log)

    def given():
        log = []
        return T.tensor(X), [Steps(log) for _ in range(8)], log

    if where == "made inside":
        alike(inside, lambda: (T.tensor(X),))
    else:
        alike(outside, given)


# ---- operators of containers


class OrDict(dict):
    def __or__(self, other):
        return "or"


class OwnOrDict(dict):
    def __ior__(self, other):
        self["ior"] = 1
        return self


class RightDict(dict):
    def __ror__(self, other):
        return "ror"


class AddList(list):
    def __add__(self, other):
        return "add"

    def __mul__(self, other):
        return "mul"


class RightList(list):
    def __radd__(self, other):
        return "radd"


class OrSet(set):
    def __or__(self, other):
        return "or"


class AddDeque(collections.deque):
    def __add__(self, other):
        return "add"


def _merged(x, d, e):
    first, second = d | e, e | d
    d |= e
    return x * 2, first, second, d, type(d).__name__


def _joined(x, d, e):
    first = d + e
    d += e
    return x * 2, first, d, type(d).__name__


def _times(x, d, e):
    first = d * 2
    d *= 2
    return x * 2, first, d, type(d).__name__


OPERANDS = [
    *[(_merged, dict, k) for k in (OrDict, OwnOrDict, RightDict, collections.OrderedDict)],
    *[(_merged, k, dict) for k in (OrDict, OwnOrDict, RightDict, collections.OrderedDict)],
    (_merged, dict, dict), (_merged, set, set), (_joined, list, list), (_times, list, list),
    (_joined, collections.deque, list), (_merged, OrSet, set), (_merged, set, OrSet), (_merged, OrSet, frozenset),
    (_joined, AddList, list), (_joined, list, AddList), (_joined, list, RightList), (_joined, AddDeque, list),
    (_times, AddList, list),
]  # fmt: skip


def _filled(kind, n):
    return kind({n: n}) if issubclass(kind, dict) else kind([n])


@pytest.mark.parametrize(("f", "a", "b"), OPERANDS, ids=lambda v: v.__name__)
@pytest.mark.parametrize("where", ["made inside", "made outside"])
def test_operators_of_containers_of_users(f, a, b, where):
    if where == "made inside":
        alike(lambda x: f(x, _filled(a, 1), _filled(b, 2)), lambda: (T.tensor(X),))
    else:
        alike(f, lambda: (T.tensor(X), _filled(a, 1), _filled(b, 2)))


# ---- classes as keys


def test_hash_and_equality_of_a_metaclass():
    log = []

    class Meta(type):
        def __hash__(cls):
            log.append("hash")
            return 7

        def __eq__(cls, other):
            log.append("eq")
            return cls is other

    class K(metaclass=Meta):
        pass

    class L(metaclass=Meta):
        pass

    def f(x):
        del log[:]
        d = {K: 1}
        d[L] = 2
        return x * d[K], K in d, L in {K}, hash(K), len({K, L}), d.get(L), K == L, list(log)

    alike(f, lambda: (T.tensor(X),), calls=3)


# ---- caches


def test_a_small_cache_is_asked_once_a_call():
    log = []

    @functools.lru_cache(maxsize=1)
    def slow(n):
        log.append(n)
        return n * 2

    def f(x):
        del log[:]
        slow.cache_clear()
        return x * slow(1) + slow(2) + slow(2) + slow(1), list(log), slow.cache_info()

    alike(f, lambda: (T.tensor(X),), calls=3)


# ---- frames


def _caller(f, x):
    return f(x)


def _names():
    return [frame.function for frame in inspect.stack()]


FRAMES = {
    "extract_stack": lambda x: (x * 2, [f.name for f in traceback.extract_stack()]),
    "format_stack": lambda x: (x * 2, len(traceback.format_stack())),
    "walk_stack": lambda x: (x * 2, [f.f_code.co_name for f, _ in traceback.walk_stack(None)]),
    "stack": lambda x: (x * 2, [f.function for f in inspect.stack()]),
    "outer frames": lambda x: (x, [f.function for f in inspect.getouterframes(inspect.currentframe())]),
}


@pytest.mark.parametrize("name", FRAMES)
def test_code_that_looks_at_its_callers_sees_them(name):
    """It runs as it is: between it and its caller are no frames of the compiler's."""
    f = FRAMES[name]
    T.compiler.reset()
    c = T.compile(f)
    want, *got = (str(_caller(g, T.ones(1))) for g in (f, c, c))
    assert got == [want, want]
    assert any("FG012" in r for r in T.compiler.stats()["break_reasons"])


def test_a_called_function_that_looks_at_its_callers_is_one_frame():
    def f(x):
        y = x * 2
        names = _names()
        return y + 1, names[:2], names.count("_names")

    c = T.compile(f)
    for _ in range(3):
        assert c(T.ones(1))[1:] == (["_names", "f"], 1)


# ---- what gradients keep


def test_nodes_of_compiled_code_keep_nothing_by_name():
    y = T.compile(lambda x: x.exp())(T.ones(2, requires_grad=True))
    assert not hasattr(y.grad_fn, "_saved_result") and getattr(y.grad_fn, "_raw_saved_self", 1) == 1
    with pytest.raises(AttributeError, match=r"no attribute '_saved_result': one node stands for all of a compiled"):
        y.grad_fn._saved_result  # noqa: B018
    with pytest.raises(AttributeError, match=r"no attribute 'other'$"):
        y.grad_fn.other  # noqa: B018


# ---- versions


LAYOUTS = {
    "t_": lambda x: x.t_(),
    "unsqueeze_": lambda x: x.unsqueeze_(0),
    "transpose_": lambda x: x.transpose_(0, 1),
    "squeeze_": lambda x: x.squeeze_(),
}


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("way", ["argument", "detached", "view", "viewed twice"])
def test_a_layout_that_is_changed_counts(name, way):
    change = LAYOUTS[name]

    def f(x):
        y = {"argument": lambda: x, "detached": x.detach, "view": lambda: x[:1], "viewed twice": lambda: x[0:][:1]}[
            way
        ]()
        change(y)
        return y + 1

    c = T.compile(f)
    for _ in range(2):
        a, b = T.ones(2, 2), T.ones(2, 2)
        assert np.array_equal(f(a).numpy(), c(b).numpy()) and a._version == b._version and a.shape == b.shape


# ---- hooks of modules


class Picks(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.Embedding(3, 2)
        self.k = 0

    def forward(self, i):
        self.k += 1
        return self.e(i)


class Breaks(nn.Module):
    def forward(self, x):
        y = x * 2
        print(end="")
        if y.sum() > 3:
            raise ValueError("big")
        return y


class Product(nn.Module):
    def forward(self, x):
        return x @ T.ones(3)


class Outer(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x)


PICKS = [T.tensor([0, 1]), T.tensor([0, 5]), T.tensor([2])]
ONES = [T.ones(1), T.ones(5), T.ones(1)]
MODULES = {
    "index": (Picks, PICKS), "break": (Breaks, ONES), "outer": (lambda: Outer(Breaks()), ONES),
    "sizes": (Product, [T.ones(3), T.ones(4), T.ones(5), T.ones(3)]), "outer index": (lambda: Outer(Picks()), PICKS),
}  # fmt: skip


def _hooked(module, log, raising):
    def fails(m, args, out):
        log.append("fails")
        raise KeyError("in a hook")

    for m in module.modules():
        m.register_forward_pre_hook(lambda m, args: log.append((type(m).__name__, "before")))
        m.register_forward_hook(lambda m, args, out: log.append((type(m).__name__, "after", out is None)))
        m.register_forward_hook(
            lambda m, args, out: log.append((type(m).__name__, "always", out is None)), always_call=True
        )
    if raising:
        module.register_forward_hook(fails, always_call=True)
    return module


@pytest.mark.parametrize("style", ["called", "caught", "compiled module"])
@pytest.mark.parametrize("raising", [False, True], ids=["quiet", "raising"])
@pytest.mark.parametrize("name", MODULES)
def test_hooks_that_are_always_called(name, raising, style):
    """Also where forward raises: in captured code, at an index, after a break, in a module inside."""
    make, inputs = MODULES[name]

    def notes(compiled):
        T.compiler.reset()
        T.manual_seed(0)
        log: list = []
        m = _hooked(make(), log, raising)

        def f(x):
            try:
                return m(x)
            except Exception as e:
                if style == "called":
                    raise
                log.append(("caught", type(e).__name__))

        f = m if style == "compiled module" else f
        f = T.compile(f) if compiled else f
        for x in inputs * 2:
            try:
                y = f(x)
                log.append(None if y is None else y.tolist())
            except Exception as e:
                log.append((type(e), str(e)))
        return log

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a hook that raises while another error is on its way
        assert notes(True) == notes(False)
