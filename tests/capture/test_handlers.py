"""Graph breaks inside of `except`, `except*` and `finally`: the exception that is handled carries over, and the code
after the break is captured again."""

import sys
import traceback
from contextlib import suppress
from typing import Any

import pytest
from helpers import tree

import fusegrad as T


def chain(e: Any) -> list:
    """An exception with what it stands in: class, text, cause, of each context."""
    out = []
    while e is not None:
        out.append((type(e).__name__, str(e), repr(e.__cause__), e.__suppress_context__))
        e = e.__context__
    return out


def observed(f: Any, *args: Any) -> Any:
    """Result, or the error with its contexts and the last line of its traceback; nothing is left as handled."""
    before = sys.exc_info()[1]
    try:
        out = tree(f(*args))
    except BaseException as e:
        last = traceback.extract_tb(e.__traceback__)[-1]
        out = (chain(e), last.name, last.lineno)
    assert sys.exc_info()[1] is before
    return out


def same(f: Any, *args: Any, plain: int = 0, breaks: int | None = None) -> Any:
    """Compiled as plain, also when called from an `except` block; ``plain`` frames ran as plain Python."""
    T.compiler.reset()
    c = T.compile(f)
    for _ in range(3):
        assert observed(c, *args) == observed(f, *args)
    stats = T.compiler.stats()
    assert stats["plain_frames"] == plain, stats["break_reasons"]
    if breaks is not None:
        assert stats["graph_breaks"] == breaks, stats["break_reasons"]
    try:
        raise OSError("the caller's")
    except OSError:
        for _ in range(2):
            assert observed(c, *args) == observed(f, *args)
    return stats


X = T.tensor([1.0, 2.0])


def boom(text: str = "boom") -> None:
    raise ValueError(text)


def test_code_after_a_break_is_captured():
    def f(x):
        y = x * 2
        try:
            raise ValueError("a")
        except ValueError:
            y = y + x.sum().item()  # the exception is nobody's: no reason to raise it for real
            y = y * 3
        return y * 2

    stats = same(f, X)
    assert "FG009" not in " ".join(stats["break_reasons"])
    program = T.compiler.explain(f)(X)
    assert program.graph_count >= 2


def test_exception_is_read_after_the_break():
    def f(x):
        try:
            raise ValueError("a")
        except ValueError as e:
            x = x * x.sum().item()
            x = x + 1
            seen = sys.exc_info()
            return x * 2, str(e), seen[0], seen[1] is e, seen[2] is None, e.args

    same(f, X)


@pytest.mark.parametrize("how", ["bare", "named", "from", "from none", "new"])
def test_raise_after_the_break(how):
    def f(x):
        try:
            boom()
        except ValueError as e:
            x = x * x.sum().item()
            x = x + 1
            if how == "bare":
                raise
            if how == "named":
                raise e
            if how == "from":
                raise KeyError("k") from e
            if how == "from none":
                raise KeyError("k") from None
            raise KeyError("k")

    T.compiler.reset()
    c = T.compile(f)
    for _ in range(3):
        assert observed(c, X) == observed(f, X)


def test_error_of_the_breaking_instruction_has_its_context():
    def f(x, d):
        try:
            boom()
        except ValueError:
            return x * d[x.sum().item()]

    T.compiler.reset()
    c = T.compile(f)
    for d in ({}, {3.0: 2.0}, {}):
        assert observed(c, X, d) == observed(f, X, d)


def test_nested_handlers():
    def f(x):
        log = []
        try:
            raise ValueError("outer")
        except ValueError:
            x = x + x.sum().item()
            try:
                raise KeyError("inner")
            except KeyError:
                x = x * x.max().item()
                log.append(repr(sys.exc_info()[1]))
            log.append(repr(sys.exc_info()[1]))
            x = x * x.min().item()
            log.append(repr(sys.exc_info()[1]))
        log.append(repr(sys.exc_info()[1]))
        return x * 2, log

    same(f, X)


def test_handled_exception_is_the_callees_too():
    """A function that is called for real inside of a handler sees the exception: bare `raise`, sys.exc_info."""

    def again():
        try:
            raise
        except ValueError as e:
            print(end="")  # breaks the graph
            return chain(e)

    def f(x):
        try:
            raise ValueError("v")
        except ValueError:
            a = again()
            x = x * x.sum().item()
            b = again()
            text = traceback.format_exc().splitlines()[-1]
            return a, b, text, x * 2

    same(f, X)


def test_finally_runs_on_after_a_break():
    def f(x, log):
        try:
            try:
                boom()
            finally:
                x = x * 2
                log.append(x.sum().item())
                x = x + 1
                log.append(str(sys.exc_info()[0]))
                log.append(float(x[0]))
        except ValueError as e:
            x = x - 1
            log.append(x.sum().item())
            log.append(chain(e))
        return x * 2, list(log), sys.exc_info()[1] is None

    T.compiler.reset()
    c = T.compile(f)
    for _ in range(3):
        a, b = [], []
        assert observed(c, X, a) == observed(f, X, b)
        assert a == b
    reasons = T.compiler.stats()["break_reasons"]
    assert all("boom" in r for r in reasons if "FG013" in r) and "FG009" not in "".join(reasons)


def test_finally_without_an_exception():
    def f(x):
        for k in range(3):
            try:
                x = x * 2
                if k == 1:
                    continue
                return_value = x.sum().item()
            finally:
                x = x + x.max().item()
                x = x * 2
        return x * 2, return_value

    same(f, X)


def test_loop_with_handlers():
    def f(x):
        out = []
        for k in range(4):
            try:
                if k % 2:
                    raise ValueError(k)
                x = x * 2
                out.append(x.sum().item())
            except ValueError as e:
                out.append(x.sum().item())
                x = x + 1
                out.append((x * 2).sum().item())
                out.append(e.args[0])
                if k == 3:
                    break
            finally:
                out.append(float(x[0]))
        return out, x * 2

    same(f, X)


class Swallow:
    def __init__(self) -> None:
        self.log: list = []

    def __enter__(self) -> "Swallow":
        return self

    def __exit__(self, kind: Any, value: Any, tb: Any) -> bool:
        self.log.append((kind, str(value), tb is None))
        print(end="")
        self.log.append(sys.exc_info()[1] is value)
        return kind is ValueError


def test_manager_that_breaks_the_graph_while_it_swallows():
    def f(x):
        m = Swallow()
        with m:
            x = x * 2
            raise ValueError("v")
        x = x + 1
        with m, suppress(KeyError):
            x = x + x.sum().item()
            {}["k"]
        with m:
            x = x * 2
        return m.log, x * 2

    same(f, X)


def test_manager_that_does_not_swallow():
    def f(x, m):
        with m:
            x = x * x.sum().item()
            raise KeyError("k")

    T.compiler.reset()
    c = T.compile(f)
    a, b = Swallow(), Swallow()
    for _ in range(2):
        assert observed(c, X, a) == observed(f, X, b)
    assert a.log == b.log


def test_exception_groups():
    def f(x):
        log = []
        try:
            try:
                raise ExceptionGroup("g", [ValueError("a"), TypeError("b"), OSError(3)])
            except* ValueError as e:
                x = x * x.sum().item()
                x = x * 2
                log.append(repr(e.exceptions))
                log.append(repr(sys.exc_info()[1]))
            except* TypeError as e:
                x = x + 1
                log.append(repr(e.exceptions))
        except ExceptionGroup as rest:
            log.append((str(rest), repr(rest.exceptions)))
            log.append(x.sum().item())
        return x * 2, log

    same(f, X)


def test_exception_group_in_one_graph():
    def f(x):
        try:
            raise ExceptionGroup("g", [ValueError("a"), TypeError("b")])
        except* ValueError:
            x = x * 2
        except* TypeError:
            x = x + 1
        try:
            raise KeyError("k")
        except* KeyError as e:
            n = len(e.exceptions)
        return x * n

    same(f, X, breaks=0)


@pytest.mark.parametrize("new", [False, True])
def test_exception_group_that_leaves(new):
    def f(x):
        try:
            raise ExceptionGroup("g", [ValueError("a"), TypeError("b")])
        except* ValueError:
            x = x * x.sum().item()
            if new:
                raise KeyError("new")  # noqa: B904
            x = x + 1

    T.compiler.reset()
    c = T.compile(f)
    for _ in range(3):
        assert observed(c, X)[0] == observed(f, X)[0]  # CPython gives the group no line of f


def test_except_star_of_a_group_class():
    def f(x):
        try:
            raise ValueError("a")
        except* ExceptionGroup:
            x = x * 2
        return x

    T.compiler.reset()
    assert observed(T.compile(f), X) == observed(f, X)
    assert sys.exc_info()[1] is None


def test_exceptions_that_live_on_have_a_traceback():
    """Of what is raised and kept, the raising line runs for real; what was never raised is made without a break."""
    kept: list = []

    def f(x):
        try:
            boom("kept")
        except ValueError as e:
            kept.append(e)
        kept.append(KeyError("made"))
        kept[-1].extra = 3
        return x * 2

    seen = []
    for g in (f, T.compile(f), T.compile(f)):
        kept.clear()
        g(X)
        raised, made = kept
        tb = traceback.extract_tb(raised.__traceback__)
        seen.append((chain(raised), tb[-1].name, tb[-1].line, chain(made), made.__traceback__, made.extra))
    assert seen[1] == seen[0] and seen[2] == seen[0]


def test_traceback_and_context_are_read():
    def f(x):
        try:
            try:
                raise KeyError("first")
            except KeyError:
                raise ValueError("second")  # noqa: B904
        except ValueError as e:
            return x * 2, repr(e.__context__), e.__traceback__ is None, repr(e.__cause__)

    same(f, X)


def test_generator_handles_an_exception_across_yields():
    def gen(x):
        try:
            raise ValueError("v")
        except ValueError:
            yield x * 2
            try:
                raise
            except ValueError as e:
                yield str(e)
            yield repr(sys.exc_info()[1])

    def f(x):
        out = []
        try:
            raise KeyError("of the consumer")
        except KeyError:
            for v in gen(x):
                out.append((v if isinstance(v, str) else v.sum(), str(sys.exc_info()[1])))
        return out

    same(f, X, breaks=0)


def test_callers_exception_is_not_forgotten():
    def f(x):
        with suppress(ValueError):
            raise ValueError("v")
        try:
            raise
        except RuntimeError as e:
            return x * 2, type(e)
        except OSError as e:
            return x * 3, type(e)

    same(f, X)


def test_a_manager_entered_inside_of_a_handler():
    """What was handled before is kept apart from the manager's exit."""

    def f(x, log, fail):
        try:
            T.ones(2, 3).mm(T.ones(2, 3))
        except RuntimeError as e:
            with T.random.fork_rng():
                log.append(type(e).__name__)
                if fail:
                    {}["missing"]
            y = x + 1
        log.append(sys.exc_info()[1])
        return y * 2

    compiled = T.compile(f)
    for fail in (False, True, False):
        outcomes = []
        for g in (f, compiled):
            log = []
            try:
                outcomes.append((g(T.ones(2), log, fail).tolist(), log))
            except KeyError as e:
                outcomes.append((type(e.__context__), log))
            assert sys.exc_info()[1] is None
        assert outcomes[0] == outcomes[1]


def test_tracebacks_of_own_exceptions():
    """That there is one is known; what it holds, and whether two are one object, is Python's to say."""

    def kept(x):
        try:
            raise ValueError("v")
        except ValueError as e:
            trace = e.__traceback__
        return x + 1, trace is None, bool(trace)

    def never_raised(x):
        return x + 1, ValueError("v").__traceback__

    def read(x):
        try:
            raise ValueError("v")
        except ValueError as e:
            return x + 1, e.__traceback__.tb_lineno

    def compared(x):
        try:
            raise ValueError("v")
        except ValueError as e:
            return x + 1, e.__traceback__ is sys.exc_info()[2]

    def handed_on(x):
        try:
            try:
                raise ValueError("v")
            except ValueError as e:
                raise KeyError("k").with_traceback(e.__traceback__)
        except KeyError as k:
            return x + 1, k.__traceback__ is None, k.__traceback__.tb_lineno

    same(kept, X, breaks=0)
    same(never_raised, X, breaks=0)
    for f in (read, compared, handed_on):
        same(f, X)


def test_loops_that_end_inside_of_a_handler_leave_the_thread_as_it_was():
    """Loops over real iterators end in the middle of a breaking instruction: what the thread handles is restored."""

    @T.compile
    def f(x, fail):
        y = x * 2
        try:
            raise ValueError(1)
        except ValueError:
            for _ in [1, 2]:
                print(end="")
            for _ in map(str, [1]):
                print(end="")
        if fail:
            raise KeyError(1)
        return y + 1

    for fail in (False, True, False):
        try:
            f(T.ones(1), fail)
        except KeyError as e:
            assert e.__context__ is None
        assert sys.exc_info()[1] is None
