"""Names that change between calls: globals, cells, defaults, modules, builtins, the library's. See stale.py."""

import functools
import os
import sys

import numpy as np
from stale import Scenarios, X, fresh_class, other_module

import fusegrad as T

nn = T.nn
scenario = Scenarios()


GLOBAL_NUMBER, GLOBAL_TENSOR, GLOBAL_ARRAY = 2.0, T.ones(2), np.ones(2, dtype="float32")
GLOBAL_LIST, GLOBAL_DICT = [1, 2], {"a": 1.0}


@scenario
def globals_replaced(C):
    g = globals()
    keep = {k: g[k] for k in ("GLOBAL_NUMBER", "GLOBAL_TENSOR")}
    f = C(lambda x: x * GLOBAL_NUMBER + GLOBAL_TENSOR)
    try:
        yield f(X)
        g["GLOBAL_NUMBER"] = 3.0
        yield f(X)
        g["GLOBAL_NUMBER"] = 3
        yield f(X)
        g["GLOBAL_TENSOR"] = T.full((2,), 7.0)
        yield f(X)
        g["GLOBAL_TENSOR"] = 7.5
        yield f(X)
        g["GLOBAL_NUMBER"] = True
        yield f(X)
        del g["GLOBAL_NUMBER"]
        yield f(X)
    finally:
        g.update(keep)


@scenario
def numpy_array_in_a_global(C):
    a = np.ones(2, dtype="float32")
    f = C(lambda x: x * T.from_numpy(a) + float(a[0]) + a.sum())
    yield f(X)
    a[0] = 5
    yield f(X)
    h = C(lambda x: x * a.shape[0] + len(a))
    yield h(X)
    a.resize(4, refcheck=False)
    yield h(X)


@scenario
def numpy_array_through_tensor(C):
    a = np.ones(2, dtype="float32")
    f = C(lambda x: x + T.tensor(a))
    yield f(X)
    a[:] = 4
    yield f(X)


@scenario
def builtins_shadowed(C):
    g = {"T": T, "__builtins__": __builtins__}
    exec("def f(x):\n    return x * len([1, 2, 3]) + abs(-2)", g)
    f = C(g["f"])
    yield f(X)
    g["len"] = lambda v: 100
    yield f(X)
    del g["len"]
    yield f(X)
    import builtins

    keep = builtins.abs
    builtins.abs = lambda v: 50
    try:
        yield f(X)
    finally:
        builtins.abs = keep
    yield f(X)


@scenario
def closure_cells(C):
    k, w = 2.0, T.ones(2)

    def set_(a, b):
        nonlocal k, w
        k, w = a, b

    f = C(lambda x: x * k + w)
    yield f(X)
    set_(3.0, w)
    yield f(X)
    set_(3.0, T.zeros(2))
    yield f(X)
    set_(None, w)
    yield f(X)


@scenario
def cell_contents_of_a_helper(C):
    def make(n):
        def helper(x):
            return x * n

        return helper

    h = make(2)
    f = C(lambda x: h(x))
    yield f(X)
    h.__closure__[0].cell_contents = 5
    yield f(X)


@scenario
def defaults_of_keywords_replaced_in_their_dict(C):
    def helper(x, *, by=2.0, name="a", also=None, at=1):
        return x * by + len(name) + at + (100 if also is None else also)

    f = C(lambda x: helper(x))
    yield f(X)
    for name, value in {"by": 3.0, "name": "abc", "also": 5, "at": 7}.items():
        helper.__kwdefaults__[name] = value
        yield f(X), name
    helper.__kwdefaults__.update(by=4.0, at=0, also=None)
    yield f(X)
    del helper.__kwdefaults__["also"]
    yield f(X)


@scenario
def defaults_mutated(C):
    def helper(x, scale=2.0, seq=[1.0], *, more={"a": 1.0}):  # noqa: B006
        return x * scale + seq[0] + more["a"]

    f = C(lambda x: helper(x))
    yield f(X)
    helper.__defaults__[1][0] = 7.0
    yield f(X)
    helper.__kwdefaults__["more"]["a"] = 3.0
    yield f(X)
    helper.__kwdefaults__["more"] = {"a": 4.0}
    yield f(X)
    helper.__defaults__ = (5.0, [0.0])
    yield f(X)


@scenario
def own_defaults_replaced(C):
    def own(x, k=2.0):
        return x * k

    f = C(own)
    yield f(X)
    own.__defaults__ = (3.0,)
    yield (f.__wrapped__ if hasattr(f, "__wrapped__") else f)(X)


@scenario
def code_replaced(C):
    def helper(x):
        return x * 2

    f = C(lambda x: helper(x))
    yield f(X)
    helper.__code__ = (lambda x: x * 9).__code__
    yield f(X)


@scenario
def function_attributes(C):
    def helper(x):
        return x * helper.scale

    helper.scale = 2.0
    f = C(lambda x: helper(x))
    yield f(X)
    helper.scale = 3.0
    yield f(X)
    del helper.scale
    yield f(X)


@scenario
def module_function_replaced(C):
    m = other_module(k=lambda x: x + 1)
    f = C(lambda x: m.k(x))
    yield f(X)
    m.k = lambda x: x * 5
    yield f(X)


@scenario
def module_constants(C):
    m = other_module(A=1, B=2.0, N=None, S="s", LIST=[1, 2], D={"a": 1}, E=(1, 2))

    def g(x):
        return x * m.A + m.B + len(m.LIST) + m.D["a"] + sum(m.E) + (1 if m.N is None else 2) + len(m.S)

    f = C(g)
    yield f(X)
    for name, value in dict(A=2, B=3.0, N=0, S="long", LIST=[1], D={"a": 4}, E=(5,)).items():
        setattr(m, name, value)
        yield f(X)
    m.LIST.append(1)
    yield f(X)
    m.D["a"] = 9
    yield f(X)
    del m.B
    yield f(X)


@scenario
def function_of_another_module_with_its_globals(C):
    g = {"__name__": "some_module", "CONST": 2.0}
    exec("def helper(x):\n    return x * CONST", g)
    helper = g["helper"]
    f = C(lambda x: helper(x))
    yield f(X)
    g["CONST"] = 3.0
    yield f(X)
    del g["CONST"]
    yield f(X)


@scenario
def sys_modules_swapped(C):
    sys.modules["swapped_of_a_test"] = other_module(k=2.0)

    def g(x):
        import swapped_of_a_test

        return x * swapped_of_a_test.k

    try:
        f = C(g)
        yield f(X)
        sys.modules["swapped_of_a_test"] = other_module(k=5.0)
        yield f(X)
    finally:
        del sys.modules["swapped_of_a_test"]
    yield f(X)


@scenario
def imports_from(C):
    sys.modules["swapped_of_a_test"] = other_module(k=2.0)

    def g(x):
        from swapped_of_a_test import k

        return x * k

    try:
        f = C(g)
        yield f(X)
        sys.modules["swapped_of_a_test"].k = 5.0
        yield f(X)
    finally:
        del sys.modules["swapped_of_a_test"]


@scenario
def environment(C):
    f = C(lambda x: x * float(os.environ.get("FG_TEST_OF_STALE", "1")))
    yield f(X)
    os.environ["FG_TEST_OF_STALE"] = "3"
    try:
        yield f(X)
        g = C(lambda x: x * float(os.getenv("FG_TEST_OF_STALE", "1")))
        yield g(X)
        os.environ["FG_TEST_OF_STALE"] = "4"
        yield g(X)
        yield C(lambda x: x * len(os.environ["FG_TEST_OF_STALE"]))(X)
    finally:
        del os.environ["FG_TEST_OF_STALE"]
    yield f(X)


@scenario
def library_functions_monkeypatched(C):
    import math

    f = C(lambda x: x * math.sqrt(4.0))
    yield f(X)
    keep = math.sqrt
    math.sqrt = lambda v: 100.0
    try:
        yield f(X)
    finally:
        math.sqrt = keep
    yield f(X)


@scenario
def functional_monkeypatched(C):
    f = C(lambda x: nn.functional.relu(x))
    keep = nn.functional.relu
    yield f(X)
    nn.functional.relu = lambda x: x * 7
    try:
        yield f(X)
    finally:
        nn.functional.relu = keep
    yield f(X)


@scenario
def torch_function_monkeypatched(C):
    f = C(lambda x: T.exp(x))
    keep = T.exp
    yield f(X)
    T.exp = lambda x: x * 7
    try:
        yield f(X)
    finally:
        T.exp = keep
    yield f(X)


@scenario
def numpy_function_monkeypatched(C):
    f = C(lambda x: x * float(np.prod((2, 3))))
    keep = np.prod
    yield f(X)
    np.prod = lambda v: 100
    try:
        yield f(X)
    finally:
        np.prod = keep
    yield f(X)


@scenario
def partials(C):
    p = functools.partial(lambda x, k, m=1.0: x * k + m, k=2.0)
    box = [p]
    f = C(lambda x: box[0](x))
    yield f(X)
    p.keywords["k"] = 3.0
    yield f(X)
    box[0] = functools.partial(p, m=5.0)
    yield f(X)


@scenario
def bound_methods(C):
    K = fresh_class()
    a, b = K(), K()
    b.own = 50.0
    f = C(lambda x, m: m(x))
    yield f(X, a.method)
    yield f(X, b.method)
    a.own = 7.0
    yield f(X, a.method)


def times(k):
    return lambda x: x * k


@scenario
def functions_as_arguments(C):
    f = C(lambda x, g: g(x))
    for k in (1.0, 2.0, 3.0):
        yield f(X, lambda x, k=k: x * k)
    for k in (1.0, 2.0, 3.0):
        yield f(X, times(k))
    yield f(X, T.exp)
    yield f(X, nn.ReLU())


@scenario
def callable_instances(C):
    class K:
        def __init__(self, k):
            self.k = k

        def __call__(self, x):
            return x * self.k

    f = C(lambda x, g: g(x))
    a = K(2.0)
    yield f(X, a)
    yield f(X, K(3.0))
    a.k = 5.0
    yield f(X, a)


@scenario
def decorated_by_lru_cache(C):
    calls = []

    @functools.lru_cache
    def k(n):
        calls.append(n)
        return n * 2

    f = C(lambda x: x * k(3))
    yield f(X)
    yield f(X)
    k.cache_clear()
    yield f(X)
    yield calls


@scenario
def generators_and_iterators(C):
    it = iter([1.0, 2.0, 3.0])
    f = C(lambda x: x * next(it))
    yield f(X)
    yield f(X)
    yield f(X)
    yield f(X)


@scenario
def context_managers(C):
    class M:
        k = 2.0

        def __enter__(self):
            return self.k

        def __exit__(self, *a):
            return False

    m = M()

    def g(x):
        with m as k:
            return x * k

    f = C(g)
    yield f(X)
    m.k = 3.0
    yield f(X)
    M.__enter__ = lambda self: 9.0
    yield f(X)


@scenario
def python_random_and_time(C):
    import random

    f = C(lambda x: x * random.random() + float(np.random.rand()))
    random.seed(0)
    np.random.seed(0)
    yield f(X)
    yield f(X)
    random.seed(0)
    np.random.seed(0)
    yield f(X)


@scenario
def threads_setting_and_print_options(C):
    f = C(lambda x: f"{x.sum()} {x}" if not x.requires_grad else "")
    yield f(X)
    T.set_printoptions(precision=2)
    try:
        yield f(X)
    finally:
        T.set_printoptions(precision=4)


@scenario
def recursion_limit_of_changes(C):
    """Ten different values one after another: the limit is reached, results stay right."""
    box = {"k": None}
    f = C(lambda x: x * 2 if box["k"] is None else x * len(box["k"]))
    for k in (None, "a", (1, 2), [1], {1: 2}, {1}, range(3), b"bytes", "abc", None, (1,)):
        box["k"] = k
        yield f(X)


test_nothing_goes_stale = scenario.test()
