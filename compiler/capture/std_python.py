"""Python forms of lazy C iterators, evaluated in their place: their functions and tensors stay with the evaluator.

Each does what its namesake of ``itertools`` does, step by step, so that laziness and the order of effects are the same.
"""

from __future__ import annotations

import itertools
from typing import Any

_END = object()


def each(iterator: Any) -> Any:
    """What an iterator gives, without asking it for its iterator once more."""
    while True:
        try:
            x = next(iterator)
        except StopIteration:
            return
        yield x


def by_index(items: Any) -> Any:
    """Iteration over an object that has items and no ``__iter__``."""
    k = 0
    while True:
        try:
            x = items[k]
        except IndexError:
            return
        yield x
        k += 1


def backwards(items: Any) -> Any:
    """``reversed`` of an object with a length and items."""
    return _backwards(items, len(items))


def _backwards(items: Any, n: int) -> Any:
    while n > 0:
        n -= 1
        yield items[n]


def until(function: Any, stop: Any) -> Any:
    """``iter(function, stop)``."""
    while True:
        x = function()
        if stop is x or stop == x:
            return
        yield x


def mapped(function: Any, *iterables: Any) -> Any:
    """``map``."""
    for args in zip(*iterables):  # noqa: B905
        yield function(*args)


def mapped_one(function: Any, iterable: Any) -> Any:
    """``map`` over one iterable."""
    for x in iterable:
        yield function(x)


def chosen(function: Any, iterable: Any) -> Any:
    """``filter``."""
    for x in iterable:
        if x if function is None else function(x):
            yield x


class Key:
    """What ``functools.cmp_to_key`` makes of an element."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, compare: Any, obj: Any) -> None:
        self.compare, self.obj = compare, obj

    def __lt__(self, other: Any) -> Any:
        return self.compare(self.obj, other.obj) < 0

    def __gt__(self, other: Any) -> Any:
        return self.compare(self.obj, other.obj) > 0

    def __eq__(self, other: Any) -> Any:
        return self.compare(self.obj, other.obj) == 0

    def __le__(self, other: Any) -> Any:
        return self.compare(self.obj, other.obj) <= 0

    def __ge__(self, other: Any) -> Any:
        return self.compare(self.obj, other.obj) >= 0


def cmp_to_key(mycmp: Any) -> Any:
    return lambda obj: Key(mycmp, obj)


def chain(*iterables: Any) -> Any:
    for it in iterables:
        yield from it


def from_iterable(iterables: Any) -> Any:
    for it in iterables:
        yield from it


def accumulate(iterable: Any, func: Any = None, *, initial: Any = None) -> Any:
    it = iter(iterable)
    total = initial
    if initial is None:
        total = next(it, _END)
        if total is _END:
            return
    yield total
    for x in it:
        total = total + x if func is None else func(total, x)
        yield total


def pairwise(iterable: Any) -> Any:
    it = iter(iterable)
    before = next(it, _END)
    if before is _END:
        return
    for x in it:
        yield before, x
        before = x


def batched(iterable: Any, n: int, *, strict: bool = False) -> Any:
    if n < 1:
        raise ValueError("n must be at least one")
    return _batched(iterable, n, strict)


def _batched(iterable: Any, n: int, strict: bool) -> Any:
    part: list = []
    for x in iterable:
        part.append(x)
        if len(part) == n:
            yield tuple(part)
            part = []
    if part:
        if strict:
            raise ValueError("batched(): incomplete batch")
        yield tuple(part)


def cycle(iterable: Any) -> Any:
    seen = []
    for x in iterable:
        yield x
        seen.append(x)
    while seen:
        yield from seen


def count(start: Any = 0, step: Any = 1) -> Any:
    if isinstance(start, int) and type(start) is not int and isinstance(step, int) and step == 1:
        start = int(start)  # steps of one are counted in plain numbers
    while True:
        yield start
        start = start + step


def repeat(object: Any, times: Any = None) -> Any:  # noqa: A002  (its name in itertools)
    if times is None:
        while True:
            yield object
    for _ in range(times):
        yield object


def compress(data: Any, selectors: Any) -> Any:
    for x, keep in zip(data, selectors):  # noqa: B905
        if keep:
            yield x


def starmap(function: Any, iterable: Any) -> Any:
    for args in iterable:
        yield function(*args)


def takewhile(predicate: Any, iterable: Any) -> Any:
    for x in iterable:
        if not predicate(x):
            return
        yield x


def dropwhile(predicate: Any, iterable: Any) -> Any:
    it = iter(iterable)
    for x in it:
        if not predicate(x):
            yield x
            break
    yield from it


def filterfalse(function: Any, iterable: Any) -> Any:
    for x in iterable:
        if not (x if function is None else function(x)):
            yield x


def zip_longest(*iterables: Any, fillvalue: Any = None) -> Any:
    its = [iter(it) for it in iterables]
    alive = len(its)
    while alive:
        row = []
        for k in range(len(its)):
            if its[k] is None:
                row.append(fillvalue)
                continue
            x = next(its[k], _END)
            if x is _END:
                alive -= 1
                if not alive:
                    return
                its[k] = None
                x = fillvalue
            row.append(x)
        yield tuple(row)


def islice(iterable: Any, *limits: Any) -> Any:
    part = slice(*limits)
    start, stop, step = part.start or 0, part.stop, 1 if part.step is None else part.step
    if start < 0 or step < 1 or (stop is not None and stop < 0):
        if len(limits) == 1:
            raise ValueError("Stop argument for islice() must be None or an integer: 0 <= x <= sys.maxsize.")
        raise ValueError("Indices for islice() must be None or an integer: 0 <= x <= sys.maxsize.")
    return _islice(iter(iterable), start, stop, step)


def _islice(it: Any, start: int, stop: Any, step: int) -> Any:
    at = 0
    while at < start:  # what comes before is consumed, up to the stop
        if (stop is not None and at >= stop) or next(it, _END) is _END:
            return
        at += 1
    while stop is None or at < stop:
        x = next(it, _END)
        if x is _END:
            return
        yield x
        at += 1
        for _ in range(step - 1):
            if (stop is not None and at >= stop) or next(it, _END) is _END:
                return
            at += 1


def tee(iterable: Any, n: int = 2) -> Any:
    if n < 0:
        raise ValueError("n must be >= 0")
    it = iter(iterable)
    waiting: list = [[] for _ in range(n)]
    return tuple([_branch(it, mine, waiting) for mine in waiting])


def _branch(it: Any, mine: list, waiting: list) -> Any:
    while True:
        if not mine:
            x = next(it, _END)
            if x is _END:
                return
            for w in waiting:
                w.append(x)
        yield mine.pop(0)


def groupby(iterable: Any, key: Any = None) -> Any:
    state = [iter(iterable), _END, _END, key, None]  # items, the value to come, its key, key function, whose turn it is
    target = _END
    while True:
        state[4] = None  # groups given out before have ended
        while state[2] is _END or (target is not _END and _alike(target, state[2])):
            if not _advance(state):
                return
        target = state[2]
        turn = [target]
        state[4] = turn
        yield target, _group(state, turn)


def _alike(a: Any, b: Any) -> bool:
    return a is b or a == b  # C code asks no object whether it is itself


def _advance(state: list) -> bool:
    x = next(state[0], _END)
    if x is _END:
        return False
    state[1] = x
    state[2] = x if state[3] is None else state[3](x)
    return True


def _group(state: list, turn: list) -> Any:
    while state[4] is turn:
        if state[1] is _END and not _advance(state):
            return
        if not _alike(turn[0], state[2]):
            return
        x = state[1]
        state[1] = state[2] = _END
        yield x


def dispatched_method(descriptor: Any, obj: Any, cls: Any, /, *args: Any, **kwargs: Any) -> Any:
    """A method made by ``functools.singledispatchmethod``, called."""
    return descriptor.__get__(obj, cls)(*args, **kwargs)


# code of a generator -> the type of the C iterator that it stands for
KINDS: dict[Any, type] = {
    getattr(globals().get("_" + name) or globals()[name], "__code__"): getattr(itertools, name)  # noqa: B009
    for name in (
        "chain accumulate pairwise batched cycle count repeat compress starmap takewhile dropwhile filterfalse "
        "zip_longest islice groupby"
    ).split()
    if hasattr(itertools, name)
}
KINDS |= {
    from_iterable.__code__: itertools.chain, mapped.__code__: map, mapped_one.__code__: map, chosen.__code__: filter,
    _branch.__code__: type(itertools.tee(())[0]), until.__code__: type(iter(int, 1)), _backwards.__code__: reversed,
    _group.__code__: type(next(itertools.groupby((0,)))[1]), by_index.__code__: type(iter(type("", (), {
        "__getitem__": lambda self, k: k})())),
}  # fmt: skip
