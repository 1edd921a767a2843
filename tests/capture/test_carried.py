"""What is alive at a break carries over: running iterators, managers that a ``with`` entered, functions that call
themselves. The code around the break stays compiled."""

import collections
import contextlib

import pytest
from helpers import check

import fusegrad as T
from fusegrad import nn

X = T.arange(8.0).view(4, 2) - 3
MODEL = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 2))


def kept(log, x):
    """Break on data, note the order of things."""
    if x.sum() > 0:
        log.append(x.sum().item())
        return x.sum() * 2
    return -x.sum()


@contextlib.contextmanager
def manager(log, k):
    log.append(("in", k))
    try:
        yield k
    except ValueError as e:
        log.append(("caught", str(e)))
    finally:
        log.append(("out", k))


def over_generators(log):
    t = 0
    for x, (name, p) in zip(X, MODEL.named_parameters(), strict=True):
        t = t + kept(log, x) * p.sum()
        log.append(name)
    for k, p in enumerate(MODEL.parameters()):
        t = t + kept(log, p) * k
    return t


def over_a_deque(log):
    t = 0
    for x in collections.deque(X, maxlen=3):
        t = t + kept(log, x)
    for x in reversed(collections.deque(X)):
        t = t * 2 + kept(log, x)
    return t


def inside_managers(log):
    t = 0
    for k, x in enumerate(X):
        with manager(log, k) as n:
            t = t + kept(log, x) * n
            if k == 2:
                raise ValueError(k)
            t = t + 1
    return t


def nested_managers(log):
    with manager(log, 10), manager(log, 11):
        for k, x in enumerate(X):
            with manager(log, k):
                if x.sum() > 0:
                    return x * k


def functions_in_cells(log):
    def even(n):
        return 0 if n == 0 else kept(log, X[n]) + odd(n - 1)

    def odd(n):
        return 1 if n == 0 else kept(log, X[n]) * even(n - 1)

    return even(3)


@pytest.mark.parametrize("f", [over_generators, over_a_deque, inside_managers, nested_managers, functions_in_cells])
def test_code_around_a_break_stays_compiled(f):
    check(f, ([],))


def test_a_deque_that_grows_is_not_read():
    def remember(x, memory):
        memory.append(x * 2)
        memory.extend([x, x.sum()])
        return memory[-2] + 1

    check(remember, *((X[0], collections.deque(range(n), maxlen=8)) for n in range(5)), compiles=1)
    check(remember, (X[0], collections.deque(range(2), maxlen=2)), (X[0], collections.deque(maxlen=5)), compiles=2)


def entered_by_hand(log):
    m = manager(log, 4)
    t = kept(log, X[3] * m.__enter__())
    del m  # closes the generator, here
    log.append("after")
    return t


def left_in_the_middle(log):
    def items():
        try:
            yield from X
        finally:
            log.append("closed")

    for x in items():
        if kept(log, x) > 5:
            break
    log.append("after")
    return x


@pytest.mark.parametrize("f", [entered_by_hand, left_in_the_middle])
def test_generators_that_are_dropped_close_when_plain_ones_do(f):
    check(f, ([],), plain=1)
