"""Errors that data raises inside of a compiled graph: effects, handlers, draws and the error itself are eager's."""

import inspect
import sys
import warnings

import pytest
from helpers import check, run

import fusegrad as T

GOOD, BAD = T.tensor([1]), T.tensor([9])


def test_handler_of_captured_code():
    def f(x, i):
        try:
            y = x.index_select(0, i)
        except IndexError:
            y = x * 100
        return y

    check(f, (T.ones(2, 3), GOOD), (T.ones(2, 3), BAD), breaks=0)


def test_effects_before_the_error():
    """The caller's tensor and list hold what was done before the error."""

    def f(x, i, log):
        x.add_(1)
        log.append(x.shape[0])
        y = x.index_select(0, i)
        log.append("after")
        return y

    c = T.compile(f)
    for i in (GOOD, BAD, GOOD):
        states = []
        for g in (f, c):
            x, log = T.ones(2, 3), []
            try:
                g(x, i, log)
            except IndexError as e:
                log.append(str(e))
                assert e.__context__ is None or not isinstance(e.__context__, IndexError)
            states.append((x.tolist(), log))
        assert states[0] == states[1]


def test_draws_are_given_back():
    def f(x, i):
        noise = T.rand(3)
        return x.index_select(0, i) + noise

    c = T.compile(f)
    draws = []
    for g in (f, c):
        T.manual_seed(0)
        out = [run(g, (T.ones(2, 3), i)) for i in (GOOD, BAD, GOOD)]
        draws.append((out, T.rand(2).tolist()))
    assert draws[0] == draws[1]


def test_number_that_divides_by_zero():
    def f(x, k):
        x.add_(1)
        return x * (1 / k)

    c = T.compile(f)
    a, b = T.ones(2), T.ones(2)
    for g, x in ((f, a), (c, b)):
        for k in (1.0, 2.0, 4.0):
            g(x, k)
        with pytest.raises(ZeroDivisionError):
            g(x, 0.0)
    assert a.tolist() == b.tolist()


def test_wrong_class_where_the_loss_is_not_returned():
    """The loss itself is dead code in this step; a label that is no class is refused before anything is updated."""
    m = T.nn.Linear(4, 3)
    opt = T.optim.SGD(m.parameters(), lr=0.1)

    @T.compile
    def step(x, y):
        opt.zero_grad()
        T.nn.functional.cross_entropy(m(x), y).backward()
        opt.step()

    for _ in range(3):
        step(T.ones(2, 4), T.tensor([0, 2]))
    before = m.weight.tolist()
    with pytest.raises(IndexError, match="Target 7 is out of bounds"):
        step(T.ones(2, 4), T.tensor([0, 7]))
    assert m.weight.tolist() == before


def test_fullgraph_does_not_hide_an_error_that_only_capture_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that raises runs as plain Python; if it does not raise there, the graph was not captured."""
    from fusegrad.compiler.capture import calls
    from fusegrad.compiler.capture.breaks import Raised

    def odd(x: T.Tensor) -> T.Tensor:
        return x + 1

    def handler(evaluator: object, fn: object, args: list, kwargs: dict) -> None:
        raise Raised(AttributeError("seen by capture alone"))

    monkeypatch.setitem(calls.SPECIAL, odd, handler)
    assert T.compile(lambda x: odd(x))(T.ones(1)).tolist() == [2.0]
    f = T.compile(lambda x: odd(x), fullgraph=True)
    for _ in range(2):
        with pytest.raises(T.compiler.GraphBreakError, match="FG014.*seen by capture alone.*did not raise"):
            f(T.ones(1))


def test_fullgraph_lets_a_real_error_through() -> None:
    def f(x: T.Tensor, flag: bool) -> T.Tensor:
        if flag:
            raise ValueError("meant")
        return x + 1

    g = T.compile(f, fullgraph=True)
    for _ in range(2):
        assert g(T.ones(1), False).tolist() == [2.0]
        with pytest.raises(ValueError, match="meant"):
            g(T.ones(1), True)


def test_frames_of_a_lambda_have_its_name():
    """Names in a traceback are those of the user's functions, a lambda's too."""
    f = T.compile(lambda x, i: x[i] * 2)
    x = T.arange(3.0)
    f(x, T.tensor([0, 1]))
    with pytest.raises(IndexError) as e:
        f(x, T.tensor([0, 7]))
    mine = [frame.name for frame in e.traceback if str(frame.path) == __file__]
    assert set(mine) == {"test_frames_of_a_lambda_have_its_name", "<lambda>"}


def _called_by(f, *args):
    return f(*args)


def test_warnings_point_at_the_users_lines():
    def one(x):
        warnings.warn("one", UserWarning)
        return x

    def two(x):
        warnings.warn("two", UserWarning, stacklevel=2)
        return x

    def three(x):
        return two(x + 1) * 2

    def four(x):
        warnings.warn("four", stacklevel=3)
        return x

    here = _called_by.__code__.co_firstlineno + 1
    for f in (one, two, three, four):
        c = T.compile(f)
        for module in (".*", __name__):
            want, got = [], []
            for g, out in ((f, want), (c, got), (c, got), (c, got)):
                with warnings.catch_warnings(record=True) as seen:
                    warnings.simplefilter("ignore")
                    warnings.filterwarnings("always", module=module)
                    line = _called_by(g, T.ones(2)) is not None
                assert line and len(seen) == 1
                out.append((seen[0].filename, seen[0].lineno if f is not four else None, str(seen[0].message)))
            assert got == want * 3
        if f is two:
            assert want[0][1] == here


def test_a_function_that_looks_at_its_caller():
    def f(x):
        return x + 1, sys._getframe(1).f_code.co_name, inspect.currentframe().f_back.f_locals.get("secret")

    c = T.compile(f)

    def caller(g):
        secret = 5
        return g(T.ones(1))[1:] + (secret,)

    for _ in range(2):
        assert caller(c) == ("caller", 5, 5)
    with pytest.raises(T.compiler.GraphBreakError):
        T.compile(f, fullgraph=True)(T.ones(1))


def _deep(y):
    return y.reshape(7)


def _raises_at_once(x):
    y = x * 2
    return _deep(y)


def _raises_after_a_break(x):
    y = x * 2
    if y.sum() > 0:
        print(end="")
        return _deep(y)
    return y


def _raises_by_itself(x):
    y = x * 2
    print(end="")
    raise ValueError(y.shape[0])


def _interrupted(x):
    y = x * 2
    print(end="")
    raise KeyboardInterrupt(y.shape[0])


def _left(x):
    raise SystemExit(x.shape[0])


@pytest.mark.parametrize("f", [_raises_at_once, _raises_after_a_break, _raises_by_itself, _interrupted, _left])
def test_tracebacks_show_the_frames_of_the_plain_call(f):
    """The same lines, once each, and nothing of ours."""
    import traceback

    def frames(g):
        with pytest.raises((RuntimeError, ValueError, KeyboardInterrupt, SystemExit)) as e:
            g(T.ones(3))
        here = [(s.filename, s.name, s.lineno) for s in traceback.extract_tb(e.value.__traceback__)]
        assert not any("/compiler/" in file and "/capture/test_" not in file for file, _, _ in here)
        return [s for s in here if s[0] == f.__code__.co_filename and s[1] != "frames"]

    c = T.compile(f)
    for _ in range(3):
        assert frames(c) == frames(f)


def test_attributes_of_tensors_that_can_not_be_set():
    def f(x):
        said = []
        for t in (x, x * 2):
            for name in ("is_leaf", "grad_fn", "shape", "T"):
                try:
                    setattr(t, name, None)
                except AttributeError as e:
                    said.append(str(e))
        return said, x + 1

    (said, out), (want, y) = T.compile(f)(T.ones(2)), f(T.ones(2))
    assert said == want and len(want) == 8 and out.tolist() == y.tolist()


class NoException(Exception):
    def __new__(cls):
        return 3


RAISED = [lambda x: (ValueError, 3), lambda x: (3, 4), lambda x: (ValueError, int), lambda x: (NoException, None),
          lambda x: (ValueError, KeyError), lambda x: (ValueError, None), lambda x: (ValueError, x),
          lambda x: (x, None), lambda x: (ValueError(1), len(x)), lambda x: ((ValueError,), None)]  # fmt: skip


@pytest.mark.parametrize("k", range(len(RAISED)))
def test_what_is_no_exception_or_no_cause(k):
    def f(x, of):
        try:
            error, cause = of(x)
            raise error from cause
        except Exception as e:
            return type(e).__name__, str(e), type(e.__cause__).__name__, x + 1

    check(f, (T.ones(2), RAISED[k]), breaks=0, plain=None)
