"""Messages that a logger does not take cost no break; those that it takes are logged for real, as ever."""

import logging

from stale import Scenarios, compiled

import fusegrad as T

scenario = Scenarios()


def x():
    return T.tensor([1.0, -2.0, 3.0])


def logger(name, level, out=None):
    log = logging.getLogger(f"test_logging.{name}")
    log.setLevel(level)
    log.propagate = False
    log.handlers.clear()
    if out is not None:
        handler = logging.Handler()
        handler.emit = lambda r: out.append((r.getMessage(), r.lineno, r.funcName))
        log.addHandler(handler)
    return log


@scenario
def levels_that_change(comp):
    out = []
    log = logger("levels", "WARNING", out)

    def f(x):
        y = x * 2
        log.info("sum %s", 3)
        log.debug("no", extra={"a": 1})
        if log.isEnabledFor(logging.DEBUG):
            y = y * 100
        log.info("shape %s", y.shape)
        return y

    c = comp(f)
    for level in ("WARNING", "WARNING", "DEBUG", "INFO", "ERROR"):
        log.setLevel(level)
        yield c(x()), list(out)
    log.setLevel("DEBUG")
    logging.disable(logging.CRITICAL)
    yield c(x()), list(out)
    logging.disable(logging.NOTSET)
    log.disabled = True
    yield c(x()), list(out)
    log.disabled = False
    yield c(x()), list(out)
    log.isEnabledFor = lambda n: out.append("asked") or False
    yield c(x()), list(out)
    del log.isEnabledFor
    yield c(x()), list(out)


@scenario
def other_loggers(comp):
    out = []
    a, b = logger("a", "ERROR"), logger("b", "DEBUG", out)
    c = comp(lambda x, log: (log.debug("told"), x * log.isEnabledFor(10))[1])
    for log in (a, b, a):
        yield c(x(), log), list(out)

    class Own(logging.Logger):
        def isEnabledFor(self, level):
            out.append("own")
            return False

    own = Own("own")
    d = comp(lambda x: (own.debug("told"), x)[1])
    adapter = logging.LoggerAdapter(a, {})
    e = comp(lambda x: (adapter.debug("told"), x * 2)[1])
    for _ in range(2):
        yield d(x()), e(x()), list(out)


@scenario
def wrong_calls(comp):
    log = logger("wrong", "ERROR")

    def f(x):
        try:
            log.debug()
        except TypeError as e:
            return x, str(e)

    yield comp(f)(x())


test_scenarios = scenario.test()


def test_no_break():
    log = logger("quiet", "WARNING")

    def f(x):
        log.debug("before %s", x.shape)
        y = x * 2
        log.info("after")
        return y * 100 if log.isEnabledFor(logging.INFO) else y

    T.compiler.reset()
    c = compiled(f)
    for _ in range(2):
        T.testing.assert_close(c(x()), x() * 2)
    assert T.compiler.stats()["graph_breaks"] == 0
