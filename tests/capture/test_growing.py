"""Containers that grow by an iterator: item by item, as its code sees it, and as far as it comes before an error."""

import collections
import functools
import itertools

import pytest

import fusegrad as T


def numbers(n, log):
    for i in range(n):
        log.append(i)
        if i == 2:
            raise ValueError("in the middle")
        yield i


def pairs(n, log):
    for i in numbers(n, log):
        yield i, i * 2


GROWS = {
    "list.extend": (list, lambda v, log: v.extend(numbers(4, log))),
    "list +=": (list, lambda v, log: v.__iadd__(numbers(4, log))),
    "list.extend of map": (list, lambda v, log: v.extend(map(str, numbers(4, log)))),
    "list[:]": (list, lambda v, log: v.__setitem__(slice(0, 1), numbers(4, log))),
    "deque.extend": (collections.deque, lambda v, log: v.extend(numbers(4, log))),
    "deque.extendleft": (collections.deque, lambda v, log: v.extendleft(numbers(4, log))),
    "set.update": (set, lambda v, log: v.update([7], numbers(4, log))),
    "set.difference_update": (lambda: {0, 1, 2}, lambda v, log: v.difference_update(numbers(4, log))),
    "set.intersection_update": (lambda: {0, 1, 2}, lambda v, log: v.intersection_update(numbers(4, log))),
    "set.symmetric_difference_update": (
        lambda: {0, 1, 2},
        lambda v, log: v.symmetric_difference_update(numbers(4, log)),
    ),
    "dict.update": (dict, lambda v, log: v.update(pairs(4, log), z=1)),
    "OrderedDict.update": (collections.OrderedDict, lambda v, log: v.update(pairs(4, log))),
    "Counter.update": (collections.Counter, lambda v, log: v.update(numbers(4, log))),
    "Counter.subtract": (collections.Counter, lambda v, log: v.subtract(numbers(4, log))),
    "chain": (list, lambda v, log: v.extend(itertools.chain([5], numbers(4, log)))),
}


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("name", GROWS)
def test_an_error_in_the_middle(name, inside):
    make, grow = GROWS[name]

    def f(x, v):
        v = make() if inside else v
        log = []
        try:
            grow(v, log)
        except ValueError as e:
            log.append(str(e))
        return x * 2, v, log

    T.compiler.reset()
    c = T.compile(f)
    for _ in range(2):
        a, b = make(), make()
        got, want = c(T.ones(2), a), f(T.ones(2), b)
        assert got[1:] == want[1:] and a == b


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("kind", [list, collections.deque, set, dict])
def test_the_iterator_looks_at_what_grows(kind, inside):
    def f(x, v):
        v = kind() if inside else v
        if kind is dict:
            v.update((len(v), k) for k in range(3))
        elif kind is set:
            v.update(len(v) for _ in range(3))
        else:
            v.extend(len(v) for _ in range(3))
            v += (len(v) for _ in range(2))
        return x * 2, v

    T.compiler.reset()
    c = T.compile(f)
    for _ in range(2):
        a, b = kind(), kind()
        assert c(T.ones(2), a)[1] == f(T.ones(2), b)[1] and a == b


def test_a_cached_function_that_raises_is_called_again():
    state = {"ready": False, "calls": 0}

    @functools.lru_cache
    def value(k):
        state["calls"] += 1
        if not state["ready"]:
            raise ValueError("not yet")
        return k

    def f(x):
        try:
            return x * value(2)
        except ValueError:
            return x * 100

    c = T.compile(f)
    for _ in range(3):
        before = state["calls"]
        assert c(T.ones(1)).item() == 100 and state["calls"] > before
    state["ready"] = True
    assert c(T.ones(1)).item() == 2 and c(T.ones(1)).item() == 2


def test_a_cache_that_keeps_nothing():
    calls = []

    @functools.lru_cache(maxsize=0)
    def value(k):
        calls.append(k)
        return k

    c = T.compile(lambda x: x * value(2))
    for k in range(1, 4):
        assert c(T.ones(1)).item() == 2 and len(calls) == k
