"""Context variables and ``threading.local``: read with guards, set at the end, in each thread and context its own."""

import contextlib
import contextvars
import threading

import pytest
from stale import Scenarios, compiled, results

import fusegrad as T

scenario = Scenarios()
VAR = contextvars.ContextVar("VAR", default=2.0)
UNSET = contextvars.ContextVar("UNSET")
KEPT = contextvars.ContextVar("KEPT", default=None)


def x():
    return T.tensor([1.0, -2.0, 3.0])


def in_context(fn):
    return contextvars.copy_context().run(lambda: list(fn()))


def in_thread(fn):
    out = []
    t = threading.Thread(target=lambda: out.extend(fn()))
    t.start()
    t.join()
    return out


@contextlib.contextmanager
def scope(k):
    token = VAR.set(k)
    try:
        yield
    finally:
        VAR.reset(token)


@scenario
def set_and_reset(comp):
    def f(x):
        k = VAR.get()
        token = VAR.set(k + 1)
        try:
            y = x * VAR.get()
        finally:
            VAR.reset(token)
        return y + VAR.get()

    c = comp(f)
    for _ in range(2):
        yield c(x()), VAR.get()
    for v in (7.0, 8, 9.0, True):
        with scope(v):
            yield c(x()), VAR.get()
    yield in_context(lambda: [VAR.set(9.0) and 0, c(x()), VAR.get()])
    yield in_thread(lambda: [c(x()), VAR.set(4.0) and 0, c(x())])
    yield c(x()), VAR.get()


@scenario
def unset_and_defaults(comp):
    def f(x):
        try:
            k = UNSET.get()
        except LookupError:
            k = 100.0
        return x * k + UNSET.get(3.0) + (UNSET.get(None) or 0)

    c, d, g = comp(f), comp(lambda x: x * UNSET.get()), comp(lambda x: (VAR.get(5.0) * x, VAR.name))
    for _ in range(2):
        yield c(x()), g(x())
        token = UNSET.set(4.0)
        yield c(x()), d(x())
        UNSET.reset(token)
        with scope(1.5):
            yield g(x())
        with pytest.raises(LookupError, match="UNSET"):
            d(x())


@scenario
def what_is_set_stays(comp):
    def f(x):
        VAR.set(VAR.get() * 2)
        KEPT.set(x * 3)
        return x + VAR.get() + KEPT.get()

    c = comp(f)
    yield in_context(lambda: ((c(x()), VAR.get(), KEPT.get()) for _ in range(4)))
    yield VAR.get(), KEPT.get()


@scenario
def a_token_that_is_returned(comp):
    def f(x):
        token = UNSET.set(1.5)
        return x * UNSET.get(), token

    c = comp(f)
    for _ in range(2):
        y, token = c(x())
        yield y, UNSET.get(), type(token).__name__, token.var is UNSET, token.old_value is token.MISSING
        UNSET.reset(token)
        yield UNSET.get(None)


@scenario
def a_token_that_is_looked_at(comp):
    def f(x):
        token = VAR.set(5.0)
        old = token.old_value
        VAR.reset(token)
        return x * (1.0 if old is token.MISSING else old)

    c = comp(f)
    yield c(x())
    for k in (3.0, 4.0):
        with scope(k):
            yield c(x()), VAR.get()


@scenario
def a_break_between_set_and_reset(comp):
    def f(x):
        token = VAR.set(5.0)
        print(VAR.get(), end="")
        y = x * VAR.get()
        VAR.reset(token)
        return y * VAR.get()

    def g(x):
        with scope(3.0):
            print("", end="")
            y = x * VAR.get()
        return y + VAR.get()

    for c in (comp(f), comp(g)):
        for _ in range(3):
            yield c(x()), VAR.get()


@scenario
def tokens_used_wrongly(comp):
    def f(x, how):
        token = VAR.set(5.0)
        if how == 1:
            VAR.reset(token)
        elif how == 2:
            UNSET.reset(token)
        elif how == 3:
            VAR.reset(None)
        elif how == 4:
            VAR.set()
        elif how == 5:
            VAR.get(1, 2)
        VAR.reset(token)
        return x * VAR.get()

    c = comp(f)

    def run():
        for how in range(6):
            try:
                yield c(x(), how)
            except (RuntimeError, ValueError, TypeError) as e:
                yield type(e).__name__
            yield VAR.get()

    yield in_context(run)


@scenario
def tokens_out_of_order(comp):
    def f(x):
        first = VAR.set(2)
        second = VAR.set(3)
        VAR.reset(first)
        y = x * VAR.get()
        VAR.reset(second)
        return y * VAR.get()

    c = comp(f)
    yield in_context(lambda: [c(x()), VAR.get(), c(x()), VAR.get()])


@scenario
def another_variable(comp):
    other = contextvars.ContextVar("other", default=50.0)
    c = comp(lambda x, v: x * v.get())
    yield c(x(), VAR), c(x(), other), c(x(), VAR)
    token = other.set(4.0)
    yield c(x(), other), c(x(), VAR)
    other.reset(token)


@scenario
def a_dict_in_a_variable(comp):
    def f(x):
        d = KEPT.get()
        d["n"] += 1
        d["x"] = x * d["n"]
        return d["x"]

    c = comp(f)

    def run():
        for d in ({"n": 1}, {"n": 5}):
            KEPT.set(d)
            yield c(x()), c(x()), d, KEPT.get() is d

    yield in_context(run)


@scenario
def read_in_a_hook(comp):
    def f(x):
        y = x * 2
        y.register_hook(lambda g: g * VAR.get())
        token = VAR.set(3.0)
        z = y * VAR.get()
        VAR.reset(token)
        return z.sum()

    c = comp(f)
    for k in (2.0, 11.0, 11.0):
        a = x().requires_grad_()
        loss = c(a)
        with scope(k):
            loss.backward()
        yield a.grad


@scenario
def in_generators(comp):
    def g(x):
        token = VAR.set(7.0)
        yield x * VAR.get()
        VAR.reset(token)
        yield x * VAR.get()

    c, d = comp(g), comp(lambda x: (sum(g(x)), VAR.get()))
    for _ in range(2):
        yield list(c(x())), VAR.get(), d(x())
        it = c(x())
        for _ in range(2):
            yield next(it), VAR.get()


@scenario
def a_local_in_each_thread(comp):
    class Local(threading.local):
        k = 2.0
        items = ()

    one, two = Local(), threading.local()
    two.a = 1.0

    def f(x):
        one.k += 1
        one.items += (1,)
        two.b = x * 2
        y = x * one.k * two.a
        if hasattr(one, "z"):
            y = y + one.z
        if hasattr(two, "q"):
            del two.q
            y = y * 7
        return y

    c = comp(f)
    for _ in range(3):
        yield c(x()), vars(one), vars(two)
    one.z, two.q = 5.0, 3
    yield c(x()), vars(one), vars(two)
    yield in_thread(lambda: [setattr(two, "a", 50.0), c(x()), vars(one), vars(two), c(x())])
    yield c(x()), vars(one), vars(two), Local.k
    with pytest.raises(AttributeError, match="no attribute 'a'"):
        del two.a
        c(x())


@scenario
def a_local_with_an_init(comp):
    log = []

    class Local(threading.local):
        def __init__(self, a):
            log.append(a)
            self.a = a

    one = Local(3.0)

    def f(x):
        log.append("f")
        return x * one.a

    c = comp(f)
    for _ in range(2):
        yield c(x()), list(log)
    yield in_thread(lambda: [c(x())]), log


test_scenarios = scenario.test()


@pytest.mark.parametrize("name", ["set_and_reset", "unset_and_defaults", "what_is_set_stays", "a_dict_in_a_variable"])
def test_no_breaks(name):
    results(scenario[name], compiled)
    assert T.compiler.stats()["graph_breaks"] == 0, T.compiler.stats()["break_reasons"]


def test_a_scope_is_one_graph():
    def f(x):
        with scope(3.0):
            y = x * VAR.get()
            with scope(4.0):
                y = y + VAR.get()
            y = y * VAR.get()
        return y + VAR.get()

    T.compiler.reset()
    c = compiled(f)
    for k in (2.0, 10.0, 2.0):
        with scope(k):
            T.testing.assert_close(c(x()), f(x()))
    assert T.compiler.stats()["graph_breaks"] == 0


def test_cached_parametrizations_are_one_graph():
    lin = T.nn.utils.parametrizations.weight_norm(T.nn.Linear(3, 2))

    def f(x):
        with T.nn.utils.parametrize.cached():
            return lin(x) + lin(x * 2)

    T.compiler.reset()
    c = compiled(f)
    for _ in range(2):
        T.testing.assert_close(c(x()), f(x()))
        T.testing.assert_close(compiled(lin)(x()), lin(x()))
    assert T.compiler.stats()["graph_breaks"] == 0, T.compiler.stats()["break_reasons"]
